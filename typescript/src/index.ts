/** Recollect as the memory of AI SDK agents: a provider for `@ai-sdk-tools/memory`, over REST. */
export { RecollectError } from "./errors.js";
export { RecollectProvider } from "./provider.js";
export type { ContextQuestion, RecollectOptions, SearchQuestion, UserOf } from "./provider.js";
export type { Context, ContextPolicy, Hit, SectionName } from "./shapes.js";
