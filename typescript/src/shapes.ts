/** The JSON that the server accepts and returns, as far as it is used here; `/openapi.json` describes all of it. */

/** A part of a message: a text, an image by its address, a tool call or its result. */
export interface Part {
  type: string;
  text?: string;
  image_url?: { url?: string };
  id?: string;
  function?: { name?: string; arguments?: unknown };
  tool_call_id?: string;
  content?: unknown;
  [more: string]: unknown;
}

export interface ToolCall {
  id: string;
  name?: string;
  args?: unknown;
  function?: { name?: string; arguments?: unknown };
}

export interface NewMessage {
  role: "system" | "user" | "assistant";
  content: string | Part[];
  created_at?: string;
  metadata?: Record<string, unknown>;
}

export interface StoredMessage {
  id: string;
  role: "system" | "user" | "assistant" | "tool";
  content: string | Part[] | null;
  metadata: Record<string, unknown>;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
  /** `quarantined` if somebody has set the message aside. */
  trust: string;
}

export interface MessagePage {
  messages: StoredMessage[];
  after: string | null;
}

export interface Session {
  id: string;
  title: string;
  messages: number;
  created_at: string;
  last_activity: string;
}

export interface MemoryRecord {
  id: string;
  layer: string;
  content: string;
  metadata: Record<string, unknown>;
  created_at: string;
  valid_to: string | null;
}

/** A part of a context, under its own heading; `recent` are the messages. */
export type SectionName =
  | "instructions"
  | "profile"
  | "learnings"
  | "summary"
  | "recent"
  | "episodes"
  | "knowledge"
  | "entities"
  | "working";

/** What a context is made of, and how its sections share the budget. What is not given is not limited. */
export interface ContextPolicy {
  /** Only records of these layers. */
  layers?: string[];
  /** Only these sections. */
  sections?: SectionName[];
  /** The most that a section may take of the budget, 0 to 1. */
  shares?: Partial<Record<SectionName, number>>;
  /** At most this many of the newest messages. */
  window?: number;
  /** `best` reorders the first hits with the server's reranker. */
  quality?: "fast" | "best";
}

/** The best context for a question that fits a token budget. */
export interface Context {
  /** What is remembered, fenced as data: put it after your own instructions. */
  system: string;
  /** The part of it that seldom changes, for the beginning of a prompt, so that providers' prompt caches hit. */
  lasting: string;
  /** What was found for this question, for the end of a prompt, before the question. */
  found: string;
  /** `lasting`, the recent conversation, and the question with `found`, ready for a chat model. */
  messages: { role: string; content: unknown }[];
  tokens: number;
  /** What each part costs. */
  sections: { name: SectionName; tokens: number; items: number }[];
  /** What was included, what was left out, and why. */
  report: Record<string, unknown>;
}

/** One memory that answers a question, and why. */
export interface Hit {
  id: string;
  content: string;
  score: number;
  reason: string;
  record: MemoryRecord;
}
