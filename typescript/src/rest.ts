/** The connection to the server: sends a request, retries it when that may help, and reports its errors. */
import { RecollectError } from "./errors.js";

/** Every request can safely be sent twice, so a server that is restarting gets a little time. */
const TRIES = 3;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

export interface Connection {
  url: string;
  apiKey: string | undefined;
  timeoutMs: number;
  fetch: typeof fetch;
}

export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The segments of the path below `/api`, not yet encoded. */
  path: readonly string[];
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  body?: unknown;
  /** Calls repeated with the same key take effect once. */
  idempotencyKey?: string;
}

export class Rest {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** The JSON of the response. */
  async ask<T>(call: Call): Promise<T> {
    const response = await this.#answered(this.#address(call), this.#request(call));
    return (await response.json().catch(() => {
      throw new RecollectError("Unavailable", "the response was cut off or is not JSON", { status: response.status });
    })) as T;
  }

  /** The same, but null if it is not found. */
  async find<T>(call: Call): Promise<T | null> {
    try {
      return await this.ask<T>(call);
    } catch (error) {
      if (error instanceof RecollectError && error.code === "NotFound") return null;
      throw error;
    }
  }

  #address(call: Call): URL {
    const address = new URL(`${this.#connection.url.replace(/\/+$/, "")}/api/${call.path.map(step).join("/")}`);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) address.searchParams.set(name, String(value));
    }
    return address;
  }

  #request(call: Call): RequestInit {
    const headers: Record<string, string> = { accept: "application/json" };
    if (this.#connection.apiKey !== undefined) headers["authorization"] = `Bearer ${this.#connection.apiKey}`;
    if (call.body !== undefined) headers["content-type"] = "application/json";
    if (call.idempotencyKey !== undefined) headers["idempotency-key"] = call.idempotencyKey;
    // A redirect could send memories, and the key, somewhere else.
    const request: RequestInit = { method: call.method, headers, redirect: "error" };
    return call.body === undefined ? request : { ...request, body: JSON.stringify(call.body) };
  }

  async #answered(address: URL, request: RequestInit): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await this.#attempt(address, request);
      if (outcome instanceof Response && outcome.ok) return outcome;
      if (attempt === TRIES || !mayPass(outcome)) {
        throw outcome instanceof Response ? await problem(outcome) : outcome;
      }
      await outcomeRead(outcome);
      await pause(outcome, attempt);
    }
  }

  async #attempt(address: URL, request: RequestInit): Promise<Response | RecollectError> {
    const signal = AbortSignal.timeout(this.#connection.timeoutMs);
    try {
      return await this.#connection.fetch(address, { ...request, signal });
    } catch {
      const told = signal.aborted ? `did not answer within ${this.#connection.timeoutMs} ms` : "cannot be reached";
      return new RecollectError("Unavailable", `${address.origin} ${told}; is \`recollect serve\` running there?`);
    }
  }
}

/** One segment of a path. `.` and `..` would lead to another route, however they are encoded. */
function step(id: string): string {
  if (id === "." || id === "..") throw new RecollectError("ValidationError", "must not be . or ..", { field: "id" });
  if (!id.isWellFormed()) throw new RecollectError("ValidationError", "must be valid Unicode", { field: "id" });
  return encodeURIComponent(id);
}

function mayPass(outcome: Response | RecollectError): boolean {
  return outcome instanceof RecollectError || outcome.status === 503 || outcome.status === 429;
}

/** Discards the body: a response that is never read would hold its connection. */
async function outcomeRead(outcome: Response | RecollectError): Promise<void> {
  if (outcome instanceof Response) await outcome.body?.cancel();
}

async function pause(outcome: Response | RecollectError, attempt: number): Promise<void> {
  const asked = outcome instanceof Response ? Number(outcome.headers.get("retry-after")) * 1_000 : 0;
  const wait = Math.min(asked || FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS);
  await new Promise((resume) => setTimeout(resume, wait));
}

interface Problem {
  code?: string;
  detail?: string;
  field?: string;
  request_id?: string;
}

async function problem(response: Response): Promise<RecollectError> {
  const told = (await response.json().catch(() => ({}))) as Problem;
  return new RecollectError(told.code ?? "Unavailable", told.detail ?? `the server answered ${response.status}`, {
    status: response.status,
    ...(told.field ? { field: told.field } : {}),
    ...(told.request_id ? { requestId: told.request_id } : {}),
  });
}
