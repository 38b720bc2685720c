/** The provider: turns each call of `@ai-sdk-tools/memory` into a call to the server. */
import type {
  ChatSession,
  ConversationMessage,
  MemoryProvider,
  MemoryScope,
  WorkingMemory,
} from "@ai-sdk-tools/memory";
import { RecollectError } from "./errors.js";
import { fromStored, toStored } from "./messages.js";
import { Rest, type Call, type Connection } from "./rest.js";
import type { Context, ContextPolicy, Hit, MemoryRecord, MessagePage, Session, StoredMessage } from "./shapes.js";
import { Turns } from "./turns.js";

/** Returns the user for a call that names none; it is given the chat id if the call has one. */
export type UserOf = (chatId: string | undefined) => string | Promise<string>;

export interface RecollectOptions {
  /** Where `recollect serve` listens. Default: `http://127.0.0.1:8765`. */
  url?: string;
  /** A key from `recollect keys create`. A server on this machine that has no keys needs none. */
  apiKey?: string;
  /** The one user this provider serves (any other is refused), or a function for calls that name none. */
  user?: string | UserOf;
  /** The name of the assistant, for its own working memory and standing instructions. */
  agent?: string;
  /** How long to wait for one response. Default: 10 seconds. */
  timeoutMs?: number;
  /** A replacement for `fetch`, for instance one that uses a proxy. */
  fetch?: typeof fetch;
}

export interface ContextQuestion {
  query: string;
  chatId?: string;
  userId?: string;
  /** Default: 4000. */
  maxTokens?: number;
  /** What the context is made of, and how its sections share the budget. Default: everything that helps. */
  policy?: ContextPolicy;
}

export interface SearchQuestion {
  query: string;
  userId?: string;
  /** Default: 5. */
  limit?: number;
  layer?: string | string[];
}

interface Owned {
  chatId?: string | undefined;
  userId?: string | undefined;
}

const PAGE = 1_000;
/** The id of a user's working memory, which is one of their long-term memories: found and kept like the others. */
const USER_MEMORY = "ai-sdk-working-memory";
/** The name of a chat's working memory in the working state of its session. */
const CHAT_MEMORY = "working_memory";

/** The memory of AI SDK agents, kept by a Recollect server. */
export class RecollectProvider implements MemoryProvider {
  readonly #options: RecollectOptions;
  readonly #rest: Rest;
  readonly #turns = new Turns();
  /** Titles of chats that have no message yet. */
  readonly #titles = new Map<string, string>();

  constructor(options: RecollectOptions = {}) {
    const connection: Connection = {
      url: options.url ?? "http://127.0.0.1:8765",
      apiKey: options.apiKey,
      timeoutMs: options.timeoutMs ?? 10_000,
      fetch: options.fetch ?? fetch,
    };
    this.#options = options;
    this.#rest = new Rest(connection);
  }

  /** The same provider for one user only: calls need not name them, and cannot name another. */
  forUser(user: string): RecollectProvider {
    return new RecollectProvider({ ...this.#options, user });
  }

  // ── Working memory ─────────────────────────────────────────────────────────────────────────────

  async getWorkingMemory(params: Owned & { scope: MemoryScope }): Promise<WorkingMemory | null> {
    const user = await this.#user(params);
    return params.scope === "user" ? this.#userMemory(user) : this.#chatMemory(user, needed(params.chatId, "chatId"));
  }

  async updateWorkingMemory(params: Owned & { scope: MemoryScope; content: string }): Promise<void> {
    const user = await this.#user(params);
    if (params.scope === "user") await this.#setUserMemory(user, params.content);
    else await this.#setChatMemory(user, needed(params.chatId, "chatId"), params.content);
  }

  async #chatMemory(user: string, chatId: string): Promise<WorkingMemory | null> {
    const state = await this.#rest.ask<Record<string, unknown>>(this.#working("GET", user, chatId));
    const held = state[CHAT_MEMORY] as { content?: unknown; updated_at?: unknown } | undefined;
    if (typeof held?.content !== "string") return null;
    return { content: held.content, updatedAt: new Date(String(held.updated_at)) };
  }

  async #setChatMemory(user: string, chatId: string, content: string): Promise<void> {
    const state = { content, updated_at: new Date().toISOString() };
    await this.#rest.ask(this.#working("PATCH", user, chatId, { [CHAT_MEMORY]: state }));
  }

  #working(method: "GET" | "PATCH", user: string, chatId: string, body?: unknown): Call {
    const path = ["users", user, "sessions", chatId, "working"];
    return { method, path, query: { agent: this.#options.agent }, body };
  }

  async #userMemory(user: string): Promise<WorkingMemory | null> {
    const path = ["users", user, "memories", USER_MEMORY];
    const record = await this.#rest.find<MemoryRecord>({ method: "GET", path });
    if (record === null) return null;
    return { content: record.content, updatedAt: new Date(String(record.metadata["updated_at"] ?? record.created_at)) };
  }

  async #setUserMemory(user: string, content: string): Promise<void> {
    const path = ["users", user, "memories", USER_MEMORY];
    if (content.trim() === "") {
      await this.#rest.find({ method: "DELETE", path });
      return;
    }
    const body = { content, metadata: { updated_at: new Date().toISOString(), pinned: true } };
    const edit: Call = { method: "PATCH", path, body };
    const changed = (await this.#rest.find<MemoryRecord>(edit)) ?? (await this.#firstUserMemory(user, edit));
    // It once said the same as another memory and was merged into it; now it stands on its own again.
    if (changed?.valid_to) await this.#rest.ask({ method: "POST", path: [...path, "restore"] });
  }

  async #firstUserMemory(user: string, edit: Call): Promise<MemoryRecord | null> {
    const body = { ...(edit.body as object), id: USER_MEMORY };
    try {
      await this.#rest.ask({ method: "POST", path: ["users", user, "memories"], body });
      return null;
    } catch (error) {
      if (!(error instanceof RecollectError && error.code === "Conflict")) throw error;
      return this.#rest.ask<MemoryRecord>(edit); // another caller has just created it
    }
  }

  // ── Messages ───────────────────────────────────────────────────────────────────────────────────

  async saveMessage(message: ConversationMessage): Promise<void> {
    const body = toStored(message);
    await this.#turns.take(message.chatId, async () => {
      const user = await this.#user(message);
      const path = ["users", user, "sessions", message.chatId, "messages"];
      const query = { agent: this.#options.agent };
      await this.#rest.ask({ method: "POST", path, query, body, idempotencyKey: crypto.randomUUID() });
      await this.#giveTitle(user, message.chatId);
    });
  }

  async getMessages<T = any>(params: { chatId: string; userId?: string; limit?: number }): Promise<T[]> {
    const user = await this.#user(params);
    const wanted = params.limit || Infinity;
    const found: StoredMessage[] = [];
    let after: string | undefined;
    do {
      const query = { limit: Math.min(PAGE, wanted - found.length), newest_first: true, after };
      const path = ["users", user, "sessions", params.chatId, "messages"];
      const page: MessagePage = await this.#rest.ask<MessagePage>({ method: "GET", path, query });
      found.push(...page.messages.filter((each) => each.trust !== "quarantined"));
      after = page.after ?? undefined;
    } while (after !== undefined && found.length < wanted);
    return fromStored(found.reverse()) as T[];
  }

  // ── Chats ──────────────────────────────────────────────────────────────────────────────────────

  /** Stores the title. The times and the message count come from the messages themselves. */
  async saveChat(chat: ChatSession): Promise<void> {
    if (chat.title) await this.#rename(chat, chat.chatId, chat.title);
  }

  async getChats(params: { userId?: string; search?: string; limit?: number } = {}): Promise<ChatSession[]> {
    const user = await this.#user(params);
    const search = params.search?.toLowerCase();
    const limit = Math.min(params.limit || PAGE, PAGE);
    const path = ["users", user, "sessions"];
    const query = { limit: search ? PAGE : limit };
    const { sessions } = await this.#rest.ask<{ sessions: Session[] }>({ method: "GET", path, query });
    const meant = search ? sessions.filter((each) => each.title.toLowerCase().includes(search)) : sessions;
    return meant.slice(0, limit).map((each) => toChat(each, user));
  }

  async getChat(chatId: string): Promise<ChatSession | null> {
    const user = await this.#user({ chatId });
    const session = await this.#rest.find<Session>({ method: "GET", path: ["users", user, "sessions", chatId] });
    return session && toChat(session, user);
  }

  async updateChatTitle(chatId: string, title: string): Promise<void> {
    await this.#rename({ chatId }, chatId, title);
  }

  /** Forgets the chat and everything that was learned from it alone. */
  async deleteChat(chatId: string): Promise<void> {
    await this.#turns.take(chatId, async () => {
      const user = await this.#user({ chatId });
      this.#titles.delete(chatKey(user, chatId));
      await this.#rest.ask({ method: "DELETE", path: ["users", user, "sessions", chatId] });
    });
  }

  async #rename(owned: Owned, chatId: string, title: string): Promise<void> {
    await this.#turns.take(chatId, async () => {
      const user = await this.#user(owned);
      const key = chatKey(user, chatId);
      this.#titles.delete(key);
      this.#titles.set(key, title);
      while (this.#titles.size > PAGE) this.#titles.delete(this.#titles.keys().next().value as string);
      await this.#giveTitle(user, chatId);
    });
  }

  /** Sets the waiting title, if any: titles are often generated before the first message is stored. */
  async #giveTitle(user: string, chatId: string): Promise<void> {
    const key = chatKey(user, chatId);
    const title = this.#titles.get(key);
    if (title === undefined) return;
    const path = ["users", user, "sessions", chatId];
    const renamed = await this.#rest.find({ method: "PATCH", path, body: { title } });
    if (renamed !== null) this.#titles.delete(key);
  }

  // ── Only in Recollect ──────────────────────────────────────────────────────────────────────────

  /** The best context for a question within the budget, from all of the user's chats and all that is known. */
  async getContext(question: ContextQuestion): Promise<Context> {
    const path = ["users", await this.#user(question), "context"];
    const body = {
      query: question.query,
      max_tokens: question.maxTokens ?? 4_000,
      ...(question.policy === undefined ? {} : { policy: question.policy }),
      ...(question.chatId === undefined ? {} : { session: question.chatId, agent: this.#options.agent ?? "" }),
    };
    return this.#rest.ask<Context>({ method: "POST", path, body });
  }

  /** The memories that best answer a question, from all of the user's chats. */
  async searchMemory(question: SearchQuestion): Promise<Hit[]> {
    const path = ["users", await this.#user(question), "memories", "search"];
    const { query, limit = 5, layer } = question;
    const body = layer === undefined ? { query, limit } : { query, limit, layer };
    return (await this.#rest.ask<{ hits: Hit[] }>({ method: "POST", path, body })).hits;
  }

  /** The user whose memories a call is about. */
  async #user(call: Owned): Promise<string> {
    const { user } = this.#options;
    if (typeof user !== "string") return call.userId || needed(await user?.(call.chatId), "userId");
    if (call.userId && call.userId !== user) {
      throw new RecollectError("Forbidden", "this provider serves one user, and this call names another", {
        field: "userId",
      });
    }
    return user;
  }
}

function needed(value: string | undefined, field: string): string {
  if (value) return value;
  const advice = field === "userId" ? "; or give the provider a `user`, as in forUser(id)" : "";
  throw new RecollectError("ValidationError", `must be given in this call${advice}`, { field });
}

function chatKey(user: string, chatId: string): string {
  return JSON.stringify([user, chatId]);
}

function toChat(session: Session, userId: string): ChatSession {
  return {
    chatId: session.id,
    userId,
    title: session.title,
    createdAt: new Date(session.created_at),
    updatedAt: new Date(session.last_activity),
    messageCount: session.messages,
  };
}
