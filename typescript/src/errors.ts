/** A failure of the server or of the connection to it. Names the field and what to do, never what was sent. */
export class RecollectError extends Error {
  override readonly name = "RecollectError";
  /** `ValidationError`, `NotFound`, `TooLarge`, `Unauthorized`, `Unavailable` and so on, as the server names them. */
  readonly code: string;
  /** The HTTP status; 0 if no response came. */
  readonly status: number;
  readonly field: string | undefined;
  /** The id of the request in the server's log. */
  readonly requestId: string | undefined;

  constructor(code: string, detail: string, more: { status?: number; field?: string; requestId?: string } = {}) {
    super(more.field === undefined ? detail : `${more.field}: ${detail}`);
    this.code = code;
    this.status = more.status ?? 0;
    this.field = more.field;
    this.requestId = more.requestId;
  }
}
