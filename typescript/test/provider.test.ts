/** The provider, against a real server. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, describe, it } from "node:test";
import type { ConversationMessage, MemoryProvider } from "@ai-sdk-tools/memory";
import { RecollectError, RecollectProvider, type ContextPolicy } from "../src/index.js";
import { started, type Server } from "./server.js";

let server: Server;
let provider: RecollectProvider;
let user: string;
let users = 0;

before(async () => {
  server = await started();
});
after(() => server.stop());
beforeEach(() => {
  users += 1;
  user = `user-${users}`;
  provider = new RecollectProvider({ url: server.url, user });
});

const START = Date.now() - 3_600_000;
const at = (minute: number): Date => new Date(START + minute * 60_000);

function said(role: ConversationMessage["role"], content: unknown, chatId = "monday", minute = 1): ConversationMessage {
  return { chatId, role, content, timestamp: at(minute) };
}

/** Adds messages to the session without the provider. */
async function post(messages: unknown[]): Promise<void> {
  const answer = await fetch(`${server.url}/api/users/${user}/sessions/monday/messages`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages }),
  });
  assert.equal(answer.status, 201);
}

/** Runs a check with a provider whose server answers like this. */
async function answeredBy(listener: RequestListener, check: (provider: RecollectProvider) => Promise<void>): Promise<void> {
  const listening = createServer(listener).listen(0, "127.0.0.1");
  await once(listening, "listening");
  const { port } = listening.address() as AddressInfo;
  try {
    await check(new RecollectProvider({ url: `http://127.0.0.1:${port}`, user }));
  } finally {
    listening.close();
    listening.closeAllConnections();
  }
}

function refusal(code: string, field: string) {
  return (error: unknown): boolean => error instanceof RecollectError && error.code === code && error.field === field;
}

describe("working memory", () => {
  it("is empty at first, in both scopes", async () => {
    assert.equal(await provider.getWorkingMemory({ chatId: "monday", scope: "chat" }), null);
    assert.equal(await provider.getWorkingMemory({ scope: "user" }), null);
  });

  it("of a chat belongs to that chat, and a new text replaces it", async () => {
    await provider.updateWorkingMemory({ chatId: "monday", scope: "chat", content: "- first" });
    await provider.updateWorkingMemory({ chatId: "monday", scope: "chat", content: "- second\n- *third*" });
    const held = await provider.getWorkingMemory({ chatId: "monday", scope: "chat" });
    assert.equal(held?.content, "- second\n- *third*");
    assert.ok(Math.abs(Date.now() - held.updatedAt.getTime()) < 60_000);
    assert.equal(await provider.getWorkingMemory({ chatId: "tuesday", scope: "chat" }), null);
  });

  it("of a chat leaves the rest of the session's working state alone", async () => {
    const state = `${server.url}/api/users/${user}/sessions/monday/working`;
    const headers = { "content-type": "application/json" };
    await fetch(state, { method: "PUT", headers, body: JSON.stringify({ plan: ["find the order"] }) });
    await provider.updateWorkingMemory({ chatId: "monday", scope: "chat", content: "notes" });
    const kept = (await (await fetch(state)).json()) as { plan: string[] };
    assert.deepEqual(kept.plan, ["find the order"]);
  });

  it("of a user is seen in every chat, found by search, and keeps its history", async () => {
    await provider.updateWorkingMemory({ chatId: "monday", scope: "user", content: "Likes green tea." });
    await provider.updateWorkingMemory({ chatId: "tuesday", scope: "user", content: "Likes black tea." });
    const held = await provider.getWorkingMemory({ chatId: "friday", scope: "user" });
    assert.equal(held?.content, "Likes black tea.");
    assert.equal((await provider.searchMemory({ query: "tea" }))[0]?.content, "Likes black tea.");
    const past = await fetch(`${server.url}/api/users/${user}/memories/ai-sdk-working-memory/history`);
    const { history } = (await past.json()) as { history: { content: string }[] };
    assert.deepEqual(history.map((each) => each.content), ["Likes green tea.", "Likes black tea."]);
  });

  it("of a user exists once, however many callers create it at the same time", async () => {
    const texts = ["one", "two", "three", "four"];
    await Promise.all(texts.map((content) => provider.updateWorkingMemory({ scope: "user", content })));
    assert.ok(texts.includes((await provider.getWorkingMemory({ scope: "user" }))?.content ?? ""));
  });

  it("of a user can be emptied", async () => {
    await provider.updateWorkingMemory({ scope: "user", content: "Likes green tea." });
    await provider.updateWorkingMemory({ scope: "user", content: "" });
    assert.equal(await provider.getWorkingMemory({ scope: "user" }), null);
    await provider.updateWorkingMemory({ scope: "user", content: "" });
  });

  it("of a chat requires the chat id", async () => {
    await assert.rejects(provider.getWorkingMemory({ scope: "chat" }), refusal("ValidationError", "chatId"));
  });
});

describe("messages", () => {
  const question = {
    id: "msg_1",
    role: "user",
    metadata: { page: "/orders" },
    parts: [
      { type: "text", text: "Where is my blue kayak?" },
      { type: "file", mediaType: "image/png", url: "https://shop.example/kayak.png" },
    ],
  };
  const answer = {
    id: "",
    role: "assistant",
    parts: [
      { type: "step-start" },
      { type: "reasoning", text: "I should look it up.", state: "done" },
      {
        type: "tool-findOrder",
        toolCallId: "call_1",
        state: "output-available",
        input: { what: "kayak" },
        output: { carrier: "DHL", text: null },
      },
      { type: "text", text: "It left Porto yesterday." },
      { type: "text", text: "Shall I write to you when it arrives?" },
    ],
  };

  it("come back as they were saved, oldest first", async () => {
    await provider.saveMessage(said("user", JSON.stringify(question)));
    await provider.saveMessage(said("assistant", JSON.stringify(answer)));
    assert.deepEqual(await provider.getMessages({ chatId: "monday" }), [question, answer]);
  });

  it("are the newest ones with a limit, and none for a chat that does not exist", async () => {
    for (const text of ["one", "two", "three"]) await provider.saveMessage(said("user", text));
    assert.deepEqual(await provider.getMessages({ chatId: "monday", limit: 2 }), ["two", "three"]);
    assert.deepEqual(await provider.getMessages({ chatId: "tuesday" }), []);
  });

  for (const [name, content] of Object.entries({
    "a plain text": "Hello!",
    "a text that is a number": "42",
    "a text that begins like JSON": "[sic] {and so on",
    "a text with our own placeholders": "I said [empty] and null.",
    "an object": { ...question, content: null },
    "a message in the older format": { id: "m", role: "user", content: "Hello!" },
    "a message in both formats": { role: "user", content: "Hello!", parts: [{ type: "text", text: "Hello!" }] },
    "parts without a message": [{ type: "text", text: "Hello!" }, { type: "image", image: "https://a.example" }],
    "a message without text": { id: "m", role: "assistant", parts: [{ type: "step-start" }] },
    "a message of spaces": { id: "m", role: "assistant", parts: [{ type: "text", text: " " }] },
    "an empty text": "",
    "a large tool result": { parts: [{ type: "text", text: "Done." }, { type: "tool-x", output: "é".repeat(20_000) }] },
  })) {
    it(`can be ${name}`, async () => {
      await provider.saveMessage(said("assistant", content));
      assert.deepEqual(await provider.getMessages({ chatId: "monday" }), [content]);
    });
  }

  it("keep their time and their order when a question and its answer are saved at once", async () => {
    const texts = Array.from({ length: 12 }, (_, place) => `message ${place}`);
    const messages = texts.map((text) => said("user", text));
    await Promise.all(messages.map((message) => provider.saveMessage(message)));
    assert.deepEqual(await provider.getMessages({ chatId: "monday" }), texts);
    assert.deepEqual((await provider.getChat("monday"))?.createdAt, messages[0]?.timestamp);
  });

  it("are found by what was said in them, not by the JSON around it", async () => {
    await provider.saveMessage(said("user", JSON.stringify(question)));
    const [hit] = await provider.searchMemory({ query: "blue kayak" });
    assert.equal(hit?.content, "Where is my blue kayak?");
    const context = await provider.getContext({ query: "What did I order?", chatId: "tuesday", maxTokens: 500 });
    assert.match(context.system, /blue kayak/);
    assert.ok(context.tokens <= 500);
    const policy: ContextPolicy = { sections: ["knowledge"], shares: { knowledge: 0.5 } };
    const short = await provider.getContext({ query: "What did I order?", chatId: "tuesday", maxTokens: 500, policy });
    assert.deepEqual(short.sections.map((section) => section.name), ["knowledge"]);
  });

  it("are all returned, however many there are", async () => {
    const texts = Array.from({ length: 1_080 }, (_, place) => `message ${place}`);
    const messages = texts.map((content) => ({ role: "user", content }));
    for (let start = 0; start < messages.length; start += 90) await post(messages.slice(start, start + 90));
    const found = await provider.getMessages<{ parts: { text: string }[] }>({ chatId: "monday" });
    assert.deepEqual(found.map((each) => each.parts[0]?.text), texts);
  });

  it("added to the session another way come back as UI messages, with their tools", async () => {
    const function_ = { name: "weather", arguments: '{"city": "Porto"}' };
    const messages = [
      { role: "user", content: "How is the weather?" },
      { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: function_ }] },
      { role: "tool", content: "It rains.", tool_call_id: "c1" },
      { role: "assistant", content: "Take an umbrella." },
    ];
    await post(messages);
    const found = await provider.getMessages<{ role: string; parts: unknown[] }>({ chatId: "monday" });
    assert.deepEqual(found.map((each) => [each.role, each.parts]), [
      ["user", [{ type: "text", text: "How is the weather?" }]],
      ["assistant", [{
        type: "dynamic-tool", toolName: "weather", toolCallId: "c1", input: { city: "Porto" },
        state: "output-available", output: "It rains.",
      }]],
      ["assistant", [{ type: "text", text: "Take an umbrella." }]],
    ]);
  });

  it("with tools and pictures among their parts, as an import has them, come back as UI messages", async () => {
    const content = [
      { type: "text", text: "I look." },
      { type: "tool_call", id: "c1", function: { name: "weather", arguments: '{"city": "Porto"}' } },
      { type: "tool_result", tool_call_id: "c1", content: "It rains." },
      { type: "tool_call", id: "c2", function: { name: "radar", arguments: "{}" } },
      { type: "image_url", image_url: { url: "https://example.com/rain.png" } },
      { type: "text", text: "Take an umbrella." },
    ];
    await post([{ role: "assistant", content }]);
    const [found] = await provider.getMessages<{ parts: unknown[] }>({ chatId: "monday" });
    assert.deepEqual(found?.parts, [
      { type: "text", text: "I look." },
      {
        type: "dynamic-tool", toolName: "weather", toolCallId: "c1", input: { city: "Porto" },
        state: "output-available", output: "It rains.",
      },
      { type: "dynamic-tool", toolName: "radar", toolCallId: "c2", input: {}, state: "input-available" },
      { type: "file", mediaType: "image/*", url: "https://example.com/rain.png" },
      { type: "text", text: "Take an umbrella." },
    ]);
  });

  it("that were set aside are not returned", async () => {
    const texts = ["Hello", "Obey me.", "Goodbye"];
    await post(texts.map((content, place) => ({ id: `m${place}`, role: "user", content })));
    await server.command("quarantine", "m1", "--user", user);
    const found = await provider.getMessages<{ parts: { text: string }[] }>({ chatId: "monday", limit: 2 });
    assert.deepEqual(found.map((each) => each.parts[0]?.text), ["Hello", "Goodbye"]);
  });

  it("with metadata that somebody else made up do no harm", async () => {
    const made = [
      { value: {}, texts: [["__proto__", "polluted"]] },
      { value: { parts: [] }, texts: [["constructor", "prototype", "polluted"]] },
      { value: "", texts: "everywhere" },
      "no shell",
    ];
    await post(made.map((shell) => ({ role: "user", content: "Hi.", metadata: { ai_sdk: JSON.stringify(shell) } })));
    const found = await provider.getMessages<{ parts?: unknown[] }>({ chatId: "monday" });
    assert.deepEqual(found.slice(0, 2), [{}, { parts: [] }]);
    assert.deepEqual(found.slice(2).map((each) => each.parts), Array(2).fill([{ type: "text", text: "Hi." }]));
    assert.equal(({} as { polluted?: string }).polluted, undefined);
  });

  it("need a valid time", async () => {
    const message = { ...said("user", "Hello."), timestamp: new Date("yesterday") };
    await assert.rejects(provider.saveMessage(message), refusal("ValidationError", "timestamp"));
  });

  it("that are too large are refused, naming the field", async () => {
    await assert.rejects(provider.saveMessage(said("user", "x".repeat(70_000))), refusal("TooLarge", "content"));
  });
});

describe("chats", () => {
  it("exist from their first message and are listed latest first, with counts and times", async () => {
    assert.equal(await provider.getChat("monday"), null);
    await provider.saveMessage(said("user", "About boats.", "monday", 1));
    await provider.saveMessage(said("assistant", "Yes?", "monday", 2));
    await provider.saveMessage(said("user", "About trains.", "tuesday", 3));
    const [latest, first, ...more] = await provider.getChats();
    assert.deepEqual(more, []);
    assert.deepEqual([latest?.chatId, first?.chatId], ["tuesday", "monday"]);
    assert.deepEqual(await provider.getChat("monday"), first);
    assert.deepEqual([first?.userId, first?.title, first?.messageCount], [user, "About boats.", 2]);
    assert.equal(Number(first?.updatedAt) - Number(first?.createdAt), 60_000);
  });

  it("keep a title, even one set before the first message", async () => {
    await provider.updateChatTitle("monday", "Boats");
    await Promise.all([
      provider.saveMessage(said("user", "How do I fold a kayak?")),
      provider.saveChat({ chatId: "monday", createdAt: at(1), updatedAt: at(2), messageCount: 1 }),
    ]);
    assert.equal((await provider.getChat("monday"))?.title, "Boats");
    await provider.saveChat({ chatId: "monday", title: "Kayaks", createdAt: at(1), updatedAt: at(2), messageCount: 1 });
    assert.equal((await provider.getChat("monday"))?.title, "Kayaks");
  });

  it("are found by a word in their title", async () => {
    for (const [chat, title] of [["a", "Boats"], ["b", "Trains"], ["c", "House boats"]] as const) {
      await provider.saveMessage(said("user", "Hello.", chat));
      await provider.updateChatTitle(chat, title);
    }
    const found = await provider.getChats({ search: "BOAT" });
    assert.deepEqual(found.map((each) => each.title).sort(), ["Boats", "House boats"]);
    assert.equal((await provider.getChats({ limit: 2 })).length, 2);
  });

  it("are forgotten with their messages and working memory", async () => {
    await provider.saveMessage(said("user", "The code of the shed is 4711."));
    await provider.updateWorkingMemory({ chatId: "monday", scope: "chat", content: "4711" });
    await provider.deleteChat("monday");
    assert.equal(await provider.getChat("monday"), null);
    assert.deepEqual(await provider.getMessages({ chatId: "monday" }), []);
    assert.equal(await provider.getWorkingMemory({ chatId: "monday", scope: "chat" }), null);
    assert.deepEqual(await provider.searchMemory({ query: "code of the shed" }), []);
    await provider.deleteChat("monday");
  });
});

describe("users", () => {
  it("do not see each other's chats, even with the same ids", async () => {
    const other = provider.forUser(`${user}-other`);
    await provider.saveMessage(said("user", "I am the first."));
    assert.deepEqual(await other.getMessages({ chatId: "monday" }), []);
    assert.equal(await other.getChat("monday"), null);
    await other.deleteChat("monday");
    assert.deepEqual(await provider.getMessages({ chatId: "monday" }), ["I am the first."]);
  });

  it("cannot be changed by a call if the provider serves only one", async () => {
    const message = { ...said("user", "Hello."), userId: "somebody-else" };
    await assert.rejects(provider.saveMessage(message), refusal("Forbidden", "userId"));
    await provider.saveMessage({ ...message, userId: user });
  });

  it("are determined from the chat when a call names none", async () => {
    const shared = new RecollectProvider({ url: server.url, user: async (chatId) => chatId?.split("/")[0] ?? "" });
    await shared.saveMessage({ ...said("user", "Hello.", `${user}/monday`), userId: user });
    assert.deepEqual(await shared.getMessages({ chatId: `${user}/monday` }), ["Hello."]);
    assert.equal((await shared.getChat(`${user}/monday`))?.userId, user);
    await assert.rejects(shared.getChats({}), refusal("ValidationError", "userId"));
    assert.equal((await shared.getChats({ userId: user })).length, 1);
  });

  it("and chats may have any id except one that leads to another path", async () => {
    const odd = provider.forUser(`${user}/é ?#%2F`);
    await odd.saveMessage(said("user", "Hello.", "a/b?c#d"));
    assert.deepEqual((await odd.getChats()).map((each) => each.chatId), ["a/b?c#d"]);
    for (const id of [".", "..", "\ud800"]) {
      await assert.rejects(odd.deleteChat(id), refusal("ValidationError", "id"));
    }
  });
});

describe("the connection to the server", () => {
  it("is made by a provider that satisfies the real type", () => {
    const taken: Required<MemoryProvider> = provider;
    assert.ok(taken);
  });

  it("says what to do when no server is there", async () => {
    const lost = new RecollectProvider({ url: "http://127.0.0.1:9", user });
    await assert.rejects(lost.getChats(), /cannot be reached; is `recollect serve` running there\?/);
  });

  it("gives up on a response that does not come", async () => {
    const never: typeof fetch = (_, request) =>
      new Promise((_, refuse) => request?.signal?.addEventListener("abort", () => refuse(new Error("aborted"))));
    const slow = new RecollectProvider({ url: server.url, user, timeoutMs: 20, fetch: never });
    await assert.rejects(slow.getChats(), /did not answer within 20 ms/);
  });

  it("stores a message once when its response is lost", async () => {
    let calls = 0;
    const lossy: typeof fetch = async (...request) => {
      calls += 1;
      const answer = await fetch(...request);
      if (calls === 1) throw new Error("the line went dead");
      return answer;
    };
    const unlucky = new RecollectProvider({ url: server.url, user, fetch: lossy });
    await unlucky.saveMessage(said("user", "Once."));
    assert.equal(calls, 2);
    assert.deepEqual(await provider.getMessages({ chatId: "monday" }), ["Once."]);
  });

  it("does not follow redirects", async () => {
    const elsewhere: RequestListener = (_, answer) => answer.writeHead(307, { location: `${server.url}/api/users` }).end();
    await answeredBy(elsewhere, (moved) => assert.rejects(moved.getChats(), /cannot be reached/));
  });

  it("says so when a response breaks off or comes from a proxy", async () => {
    const cut: RequestListener = (_, answer) => {
      answer.writeHead(200, { "content-length": 100 }).write("{");
      setTimeout(() => answer.destroy(), 50);
    };
    await answeredBy(cut, (broken) => assert.rejects(broken.getChats(), /cut off or is not JSON/));
    const page: RequestListener = (_, answer) => answer.writeHead(502).end("<h1>Bad gateway</h1>");
    await answeredBy(page, (proxy) => assert.rejects(proxy.getChats(), /the server answered 502/));
  });
});

describe("keys", () => {
  it("are sent, and a wrong one is not mistaken for a missing server", async () => {
    const own = await started();
    try {
      const key = (await own.command("keys", "create", "--org", "acme", "--scope", "write")).split("\n")[0] ?? "";
      const allowed = new RecollectProvider({ url: own.url, apiKey: key, user });
      await allowed.saveMessage(said("user", "Hello."));
      assert.equal((await allowed.getChats()).length, 1);
      const refused = new RecollectProvider({ url: own.url, apiKey: "rk_wrong", user });
      await assert.rejects(refused.getChats(), refusal("Unauthorized", "authorization"));
    } finally {
      await own.stop();
    }
  });
});
