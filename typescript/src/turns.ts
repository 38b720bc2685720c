/** Runs work in order: agents save a question and its answer at the same time, and the question must come first. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` once everything requested earlier under this key has finished, even if it failed. */
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
