/**
 * Converts AI SDK messages to Recollect's and back, without losing a field.
 *
 * The texts are stored where every reader of the memory finds them. Everything else (the id, tool parts, files,
 * metadata) is stored beside them as `ai_sdk`: the same JSON without its texts, and the place of each of them.
 */
import type { ConversationMessage } from "@ai-sdk-tools/memory";
import { RecollectError } from "./errors.js";
import type { NewMessage, Part, StoredMessage, ToolCall } from "./shapes.js";

const NAME = "ai_sdk";
/** A shell up to this size fits into the metadata of a message, with room for a few labels. */
const SHELL_BYTES = 15_000;
/** Stands in for the text of a message that has none, because every message must have some. */
const EMPTY = "[empty]";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Place = (string | number)[];

interface Shell {
  value: Json;
  texts: Place[];
}

// ── In ───────────────────────────────────────────────────────────────────────────────────────────

/** A message as the server accepts it. */
export function toStored(message: ConversationMessage): NewMessage {
  const value = plain(message.content);
  const found = places(value);
  const texts = found.map((place) => at(value, place) as string);
  const speaks = texts.some((text) => text.trim() !== "");
  const shell: Shell = speaks ? { value: filled(value, found, []), texts: found } : { value, texts: [] };
  return {
    role: message.role,
    created_at: isoTime(message.timestamp),
    ...withShell(speaks ? texts : [EMPTY], JSON.stringify(shell)),
  };
}

/** The time as the server accepts it; in a message that went through JSON, it is a string. */
function isoTime(timestamp: Date | string | number): string {
  const time = new Date(timestamp);
  if (!Number.isNaN(time.getTime())) return time.toISOString();
  throw new RecollectError("ValidationError", "must be a valid time", { field: "timestamp" });
}

/** The content as JSON. UI messages often arrive as JSON text, which is parsed; any other text is what was said. */
function plain(content: unknown): Json {
  if (typeof content !== "string") return JSON.parse(JSON.stringify(content ?? null)) as Json;
  if (!/^\s*[[{]/.test(content)) return content;
  try {
    return JSON.parse(content) as Json;
  } catch {
    return content;
  }
}

/** Where the texts of a message are: in its parts, else in its content, or the whole value is a text. */
function places(value: Json): Place[] {
  if (typeof value === "string") return [[]];
  if (Array.isArray(value)) return value.flatMap((part, place) => (isText(part) ? [[place, "text"]] : []));
  if (!isObject(value)) return [];
  const inside = (name: string): Place[] => places(value[name] ?? null).map((place) => [name, ...place]);
  const inParts = Array.isArray(value["parts"]) ? inside("parts") : [];
  return inParts.length > 0 ? inParts : inside("content");
}

function isText(part: Json): boolean {
  return isObject(part) && part["type"] === "text" && typeof part["text"] === "string";
}

function isObject(value: Json): value is { [name: string]: Json } {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** The value at a place; undefined if it is not the value's own property. */
function at(value: Json, place: Place): Json | undefined {
  let held: Json | undefined = value;
  for (const step of place) {
    if (held === null || typeof held !== "object" || !Object.hasOwn(held, step)) return undefined;
    held = (held as Record<string | number, Json>)[step];
  }
  return held;
}

/**
 * A copy of the value with these texts at these places; missing texts are empty.
 *
 * Others can write metadata too, so only a place that already holds a text is filled, and never one in a prototype.
 */
function filled(value: Json, found: readonly Place[], texts: readonly string[]): Json {
  const whole: Json = { value: structuredClone(value) };
  found.forEach((place, number) => {
    const steps: Place = ["value", ...place];
    if (typeof at(whole, steps) !== "string") return;
    const last = steps.pop() as string | number;
    (at(whole, steps) as Record<string | number, Json>)[last] = texts[number] ?? "";
  });
  return whole["value"] as Json;
}

function withShell(texts: string[], shell: string): Pick<NewMessage, "content" | "metadata"> {
  const [only] = texts;
  const parts: Part[] = texts.map((text) => ({ type: "text", text }));
  if (new TextEncoder().encode(JSON.stringify(shell)).length <= SHELL_BYTES) {
    return { content: texts.length === 1 && only !== undefined ? only : parts, metadata: { [NAME]: shell } };
  }
  // Too large for metadata, as the output of a tool can be. A part has room for it.
  return { content: parts.map((part, place) => (place === 0 ? { ...part, [NAME]: shell } : part)) };
}

// ── Out ──────────────────────────────────────────────────────────────────────────────────────────

/** Messages as they were saved; those added to the session another way become UI messages. */
export function fromStored(messages: readonly StoredMessage[]): unknown[] {
  const results = new Map(messages.map((each) => [each.tool_call_id, each]));
  return messages.flatMap((message) => {
    const shell = shellOf(message);
    if (shell !== undefined) return [filled(shell.value, shell.texts, textsOf(message))];
    return message.role === "tool" ? [] : [uiMessage(message, results)];
  });
}

function shellOf(message: StoredMessage): Shell | undefined {
  const first = Array.isArray(message.content) ? message.content[0] : undefined;
  const kept = message.metadata[NAME] ?? first?.[NAME];
  if (typeof kept !== "string") return undefined;
  const shell = plain(kept) as Partial<Shell> | null;
  const isOurs = typeof shell === "object" && shell !== null && "value" in shell && isListOfPlaces(shell.texts);
  return isOurs ? (shell as Shell) : undefined;
}

function isListOfPlaces(texts: unknown): boolean {
  return Array.isArray(texts) && texts.every((place) => Array.isArray(place));
}

function textsOf(message: StoredMessage): string[] {
  if (!Array.isArray(message.content)) return message.content ? [message.content] : [];
  return message.content.flatMap((part) => (typeof part.text === "string" ? [part.text] : []));
}

function uiMessage(message: StoredMessage, results: Map<string | undefined, StoredMessage>): unknown {
  const output = (call: string): string | undefined => {
    const result = results.get(call);
    return result === undefined ? undefined : textsOf(result).join("\n");
  };
  const said = Array.isArray(message.content)
    ? uiParts(message.content, output)
    : textsOf(message).map((text) => ({ type: "text", text }));
  const calls = (message.tool_calls ?? []).map((call) => toolPart(call, output(call.id)));
  return { id: message.id, role: message.role, parts: [...said, ...calls] };
}

/** Tools may have been called and answered among the parts of one message, as imports have it. */
function uiParts(parts: readonly Part[], output: (call: string) => string | undefined): unknown[] {
  const results = new Map(parts.filter((part) => part.type === "tool_result").map((part) => [part.tool_call_id, part]));
  return parts.flatMap((part): unknown[] => {
    if (part.type === "tool_call" && part.id !== undefined) {
      const result = results.get(part.id);
      return [toolPart({ ...part, id: part.id }, result === undefined ? output(part.id) : resultOf(result.content))];
    }
    if (part.type === "image_url") return [{ type: "file", mediaType: "image/*", url: part.image_url?.url ?? "" }];
    return typeof part.text === "string" ? [{ type: "text", text: part.text }] : [];
  });
}

/** The text of a result: its content, or the texts in it. */
function resultOf(content: unknown): string {
  if (typeof content === "string") return content;
  const items = Array.isArray(content) ? (content as Json[]) : [];
  return items.flatMap((item) => (isObject(item) && typeof item["text"] === "string" ? [item["text"]] : [])).join("\n");
}

function toolPart(call: ToolCall, output: string | undefined): unknown {
  const part = {
    type: "dynamic-tool",
    toolName: call.function?.name ?? call.name ?? "unknown",
    toolCallId: call.id,
    input: argumentsOf(call.function?.arguments ?? call.args),
  };
  return output === undefined ? { ...part, state: "input-available" } : { ...part, state: "output-available", output };
}

function argumentsOf(given: unknown): unknown {
  return typeof given === "string" ? plain(given) : (given ?? {});
}
