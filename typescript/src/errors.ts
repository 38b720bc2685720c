/** What the server, or the way to it, refused. It names the field and what to do, never what was sent. */
export class RecollectError extends Error {
  override readonly name = "RecollectError";
  /** `ValidationError`, `NotFound`, `TooLarge`, `Unauthorized`, `Unavailable` and so on, as in the server's problems. */
  readonly code: string;
  /** The HTTP status; 0 where no answer came. */
  readonly status: number;
  readonly field: string | undefined;
  /** Under this id the server's log has the request. */
  readonly requestId: string | undefined;

  constructor(code: string, detail: string, more: { status?: number; field?: string; requestId?: string } = {}) {
    super(more.field === undefined ? detail : `${more.field}: ${detail}`);
    this.code = code;
    this.status = more.status ?? 0;
    this.field = more.field;
    this.requestId = more.requestId;
  }
}
