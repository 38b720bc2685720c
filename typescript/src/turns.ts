/** One after the other: agents save a question and its answer at once, and the question must come first. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Does it when all that was asked for under this key before is done, well or not. */
  async take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }
}
