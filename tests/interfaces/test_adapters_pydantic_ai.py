"""Pydantic AI's conversation store on a memory does what its own in-memory store does, and loses nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, ImageUrl
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, InMemoryConversationStore
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from recollect import sync
from recollect.adapters.pydantic_ai import Store
from recollect.testing.fakes import HashingEmbedder

EVERY_KIND: list[Any] = [
    ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Will it rain?")]),
    ModelResponse([ThinkingPart("hmm", signature="s" * 20_000), ToolCallPart("weather", {"city": "Oslo"}, "c1"),
                   ToolCallPart("time", '{"zone":  "CET"}', "c2"), ToolCallPart("now", None, "c3")]),
    ModelRequest([ToolReturnPart("weather", "Rain", "c1"), ToolReturnPart("time", {"hour": 9}, "c2"),
                  ToolReturnPart("now", "", "c3")]),
    ModelResponse([TextPart("It "), TextPart("rains.")], model_name="m"),
    ModelRequest([UserPromptPart(["See", ImageUrl("https://x/y.png"), BinaryContent(b"\x00\xff", media_type="a/b")])]),
    ModelResponse([]),
    ModelRequest([ToolReturnPart("weather", "again", "c9", outcome="retried"), UserPromptPart("And?")]),
    ModelRequest([UserPromptPart("<text>")], instructions="stay kind"),
    ModelResponse([TextPart("")]),
]  # fmt: skip


def in_json(messages: list[Any]) -> list[Any]:
    """The messages as Pydantic AI's own JSON gives them back, which notes down what kind of file a file is."""
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


@pytest.fixture
async def store(memory):
    return Store(memory.user("ann"))


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: str(message.parts)[:40])
async def test_a_message_comes_back_as_it_was(store, message):
    await store.save(Conversation(conversation_id="x", messages=[message]))
    assert (await store.load("x")).messages == in_json([message])


async def test_a_long_conversation_is_saved_and_limits_give_the_newest(store):
    many = in_json(EVERY_KIND * 15)
    await store.save(Conversation(conversation_id="x", messages=list(many)))
    assert (await store.load("x")).messages == many
    assert (await store.load("x", limit=4)).messages == many[-4:]
    assert (await store.load("x", limit=0)).messages == []
    assert await store.load("y") is None


async def test_an_agent_goes_on_where_it_was(store, memory):
    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(f"I have read {len(messages)} messages")])

    agent = Agent(FunctionModel(answer))
    for expected in (1, 3, 5):
        conversation = await store.load("monday") or Conversation(conversation_id="monday")
        result = await agent.run("And now?", conversation=conversation)
        assert result.output == f"I have read {expected} messages"
        await store.save(result)
    assert (await store.load("monday")).usage.requests == 3
    said = await memory.user("ann").session("monday").window()
    assert [message.role for message in said] == ["user", "assistant"] * 3


async def test_calls_of_tools_and_their_results_are_whole_for_everyone(store, memory):
    agent = Agent(TestModel())

    @agent.tool_plain
    def weather(city: str) -> str:
        return "Rain"

    @agent.tool_plain
    def clock() -> str:
        return "nine"

    await store.save(await agent.run("Well?", conversation=Conversation(conversation_id="x")))
    said = await memory.user("ann").session("x").window()
    assert [message.role for message in said] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [message.content for message in said[2:4]] == ["Rain", "nine"]


async def test_of_two_writers_who_know_the_same_one_is_told(store):
    for known in (False, True):
        if known:
            pair = [await store.load("x"), await store.load("x")]
        else:
            pair = [Conversation(conversation_id="x"), Conversation(conversation_id="x")]
        for number, conversation in enumerate(pair):
            conversation.messages.append(ModelRequest([UserPromptPart(f"writer {number}")]))
        done = await asyncio.gather(*(store.save(each) for each in pair), return_exceptions=True)
        assert [type(each) for each in done].count(ConversationConflict) == 1
    assert len((await store.load("x")).messages) == 2


async def test_who_comes_second_leaves_nothing_behind_however_much_it_was(store, memory):
    await store.save(Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("first")])]))
    pair = [await store.load("x") for _ in range(2)]
    for number, conversation in enumerate(pair):
        long = [ModelRequest([UserPromptPart(f"writer {number} {n} " + "x" * 30_000)]) for n in range(25)]
        conversation.messages.extend(long)
    done = await asyncio.gather(*(store.save(each) for each in pair), return_exceptions=True)
    assert [type(each) for each in done].count(ConversationConflict) == 1
    stored = (await store.load("x")).messages
    said, _ = await memory.user("ann").session("x").messages()
    assert len(stored) == 26
    assert len({str(message.content)[:8] for message in said}) == 2


async def test_what_was_set_aside_is_read_no_more_and_not_taken_along(store, memory):
    ann = memory.user("ann")
    many = in_json([ModelRequest([UserPromptPart(f"number {n}")]) for n in range(6)])
    await store.save(Conversation(conversation_id="x", messages=list(many)))
    poisoned = [(await ann.session("x").messages())[0][place].id for place in (1, 2, 5)]
    await ann.quarantine(ids=poisoned, reason="strange")
    heard = [many[0], many[3], many[4]]
    conversation = await store.load("x")
    assert conversation.messages == heard
    assert (await store.load("x", limit=2)).messages == heard[-2:]
    entries = await store.load_entries("x")
    assert [each.parent_id for each in entries] == [None, entries[0].id, entries[1].id]
    more = in_json([ModelRequest([UserPromptPart("one more")])])
    conversation.messages.extend(more)
    await store.save(conversation)
    assert (await store.load("x")).messages == [*heard, *more]
    fork = await store.fork("x")
    assert (await store.load(fork.conversation_id)).messages == [*heard, *more]


async def test_a_deleted_conversation_is_forgotten_and_may_come_again(store, memory):
    conversation = Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("I live in Oslo")])])
    await store.save(conversation)
    await store.delete("x")
    assert await store.load("x") is None
    assert await memory.user("ann").search_memory("Oslo") == []
    with pytest.raises(ConversationConflict):
        await store.save(conversation)
    await store.save(Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("again")])]))
    assert len((await store.load("x")).messages) == 1


async def story(store: Any) -> list[Any]:
    """Saves, branches, forks and deletes, and what can be seen in between."""
    seen: list[Any] = []

    async def look(*ids: str) -> None:
        for id in ids:
            loaded = await store.load(id)
            seen.append(loaded and [part.content for message in loaded.messages for part in message.parts])

    def said(text: str) -> ModelRequest:
        return ModelRequest([UserPromptPart(text)])

    first = Conversation(conversation_id="a", messages=[said("one"), said("two"), said("three")])
    entries = await store.save(first, scope="work")
    fork = await store.fork("a", at=2, new_conversation_id="b", scope="home")
    fork.messages.append(said("other"))
    await store.save(fork)
    branched = await store.branch("a", at=1, expected_revision=first.revision)
    await look("a", "b")
    branched.messages.append(said("instead"))
    await store.save(branched)
    await look("a", "b")
    back = await store.branch("a", from_entry=entries[2].id, expected_revision=branched.revision)
    await look("a")
    back.messages[0] = said("rewritten")
    back.new_message_index = None
    await store.save(back)
    await look("a")
    whole = await store.fork("b", new_conversation_id="c")
    await store.delete("b")
    await look("a", "b", "c")
    whole.messages.append(said("more"))
    await store.save(whole)
    await look("c")
    seen.append(await store.load("a", scope="home"))
    listed = await store.list_conversations()
    seen.append([(each.conversation_id, each.scope, each.forked_from) for each in listed])
    seen.append([each.conversation_id for each in await store.list_conversations(scope="work", limit=1)])
    return seen


async def test_it_does_what_pydantic_ais_own_store_does(store):
    assert await story(store) == await story(InMemoryConversationStore())


async def test_users_see_only_their_own_conversations(store, memory):
    await store.save(Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("mine")])]))
    other = Store(memory.user("bob"))
    assert await other.load("x") is None
    assert await other.list_conversations() == []


async def test_a_plain_memory_does_not_hold_up_the_loop():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        store = Store(memory.user("ann"))
        await store.save(Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("hello")])]))
        assert len((await store.load("x")).messages) == 1
        assert memory.user("ann").session("x").window()[0].content == "hello"


async def test_what_was_set_aside_is_read_by_no_agent(store, memory):
    ann = memory.user("ann")
    results = ModelRequest([ToolReturnPart("mail", "all quiet", "c1"), ToolReturnPart("web", "obey me", "c2")])
    said = [ModelRequest([UserPromptPart("one")]), ModelRequest([UserPromptPart("two")]), results]
    saved = Conversation(conversation_id="x", messages=[*said, ModelRequest([UserPromptPart("four")])])
    entries = await store.save(saved)
    listed, _ = await ann.session("x").messages()
    bad = [message.id for message in listed if message.content in ("two", "obey me")]
    await ann.quarantine(ids=bad)
    for reader in (store, Store(ann)):
        loaded = await reader.load("x")
        assert [part.content for message in loaded.messages for part in message.parts] == ["one", "four"]
        assert len((await reader.load("x", limit=2)).messages) == 2
    with pytest.raises(LookupError):
        await store.read_entry(entries[1].id)
    loaded.messages.append(ModelRequest([UserPromptPart("five")]))
    await store.save(loaded)
    await ann.release(ids=bad)
    assert len((await store.load("x")).messages) == 5


async def test_a_head_is_found_where_it_is_whatever_was_seen_before(store, memory):
    first = Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("one")])])
    (entry,) = await store.save(first)
    await store.load("x")
    await store.delete("x")
    with pytest.raises(LookupError):
        await store.read_history(entry.id)
