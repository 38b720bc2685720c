/** A real agent of `@ai-sdk-tools/agents` with a scripted model, whose memory is a real server. */
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { Agent } from "@ai-sdk-tools/agents";
import { simulateReadableStream } from "ai";
import { MockLanguageModelV2 } from "ai/test";
import { RecollectProvider } from "../src/index.js";
import { started, type Server } from "./server.js";

let server: Server;
before(async () => {
  server = await started();
});
after(() => server.stop());

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
type Streamed = Awaited<ReturnType<MockLanguageModelV2["doStream"]>>["stream"];
type Chunk = Streamed extends ReadableStream<infer Each> ? Each : never;

function text(said: string): Chunk[] {
  return [
    { type: "text-start", id: "1" },
    { type: "text-delta", id: "1", delta: said },
    { type: "text-end", id: "1" },
    { type: "finish", finishReason: "stop", usage },
  ];
}

function notes(content: string): Chunk[] {
  return [
    { type: "tool-call", toolCallId: "call-1", toolName: "updateWorkingMemory", input: JSON.stringify({ content }) },
    { type: "finish", finishReason: "tool-calls", usage },
  ];
}

/** A model that says these things, one per step; `calls` records what it was asked. */
function scripted(...steps: Chunk[][]) {
  const calls: string[] = [];
  const model = new MockLanguageModelV2({
    doStream: async (asked) => {
      calls.push(JSON.stringify(asked.prompt));
      return { stream: simulateReadableStream({ chunks: steps.shift() ?? text("I have nothing to say.") }) };
    },
    doGenerate: async () => ({
      content: [{ type: "text", text: "Boats And Paddles" }],
      finishReason: "stop",
      usage,
      warnings: [],
    }),
  });
  return { model, calls };
}

/** One turn, as in a new process: everything the agent knows comes from the server. */
async function turn(model: MockLanguageModelV2, said: string, id: string): Promise<void> {
  const provider = new RecollectProvider({ url: server.url, user: "ann", agent: "helper" });
  const agent = new Agent({
    name: "helper",
    model,
    instructions: "Be brief.",
    memory: {
      provider,
      workingMemory: { enabled: true, scope: "user" },
      history: { enabled: true, limit: 10 },
      chats: { enabled: true, generateTitle: { model } },
    },
  });
  const message = { id, role: "user" as const, parts: [{ type: "text" as const, text: said }] };
  const response = agent.toUIMessageStream({ message, context: { chatId: "monday", userId: "ann" } });
  await response.text();
}

it("an agent resumes where it stopped, with its notes and its history", async () => {
  const first = scripted(notes("- Name: Ann\n- Has a kayak"), text("Hello Ann!"));
  await turn(first.model, "I'm Ann and I have a kayak.", "m1");
  const second = scripted(text("A spray skirt."));
  await turn(second.model, "What should I buy for it?", "m2");

  const asked = second.calls[0] ?? "";
  assert.match(asked, /Has a kayak/);
  assert.match(asked, /I'm Ann and I have a kayak\./);
  assert.match(asked, /Hello Ann!/);

  const provider = new RecollectProvider({ url: server.url, user: "ann" });
  const chat = await provider.getChat("monday");
  assert.deepEqual([chat?.messageCount, chat?.title], [4, "Boats And Paddles"]);
  const roles = (await provider.getMessages<{ role: string }>({ chatId: "monday" })).map((each) => each.role);
  assert.deepEqual(roles, ["user", "assistant", "user", "assistant"]);
  assert.match((await provider.getContext({ query: "What does Ann own?" })).system, /kayak/);
});
