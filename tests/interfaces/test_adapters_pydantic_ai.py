"""Pydantic AI's conversation store on a memory behaves like its own in-memory store and loses nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, ImageUrl
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, InMemoryConversationStore
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from recollect import sync
from recollect.adapters.pydantic_ai import AHEAD, Store, _commit, to_stored
from recollect.testing.fakes import HashingEmbedder

EVERY_KIND: list[Any] = [
    ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Will it rain?")]),
    ModelResponse([ThinkingPart("hmm", signature="s" * 20_000), ToolCallPart("weather", {"city": "Oslo"}, "c1"),
                   ToolCallPart("time", '{"zone":  "CET"}', "c2"), ToolCallPart("now", None, "c3")]),
    ModelRequest([ToolReturnPart("weather", "Rain", "c1"), ToolReturnPart("time", {"hour": 9}, "c2"),
                  ToolReturnPart("now", "", "c3")]),
    ModelResponse([TextPart("It "), TextPart("rains.")], model_name="m"),
    ModelRequest([UserPromptPart(["See", ImageUrl("https://x/y.png"), BinaryContent(b"\x00\xff", media_type="a/b")])]),
    ModelRequest([UserPromptPart(["Is", " ", TextContent("i", metadata={"a": 1}), ImageUrl("https://x/y"), "<text>"])]),
    ModelRequest([UserPromptPart([ImageUrl("https://x/y.png"), "it?"]), UserPromptPart("Say."), UserPromptPart([" "])]),
    ModelRequest([UserPromptPart([ImageUrl("https://x/y.png"), "  "])]),
    ModelResponse([]),
    ModelRequest([ToolReturnPart("weather", "again", "c9", outcome="retried"), UserPromptPart("And?")]),
    ModelRequest([UserPromptPart("<text>")], instructions="stay kind"),
    ModelResponse([TextPart("")]),
    ModelResponse([TextPart("Five.")], usage=RequestUsage(input_tokens=5, details={"cached": 0}), metadata={"a": None}),
    ModelRequest([ToolReturnPart("weather", {"rain": None}, "c1"), ToolReturnPart("time", None, "c2")]),
]  # fmt: skip


def in_json(messages: list[Any]) -> list[Any]:
    """The messages after a round trip through Pydantic AI's own JSON, which records each file's kind."""
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


@pytest.fixture
async def store(memory):
    return Store(memory.user("ann"))


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: str(message.parts)[:40])
async def test_a_message_comes_back_as_it_was(store, message):
    await store.save(Conversation(conversation_id="x", messages=[message]))
    assert (await store.load("x")).messages == in_json([message])


async def test_fields_that_a_message_leaves_unset_are_not_stored(store, memory):
    await store.save(Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("Hi")]), EVERY_KIND[3]]))
    kept = [str(message.metadata) for message in (await memory.user("ann").session("x").messages())[0]]
    assert "provider_response_id" not in kept[1] and "run_id" not in kept[0]
    assert "model_name" in kept[1]


async def test_a_long_conversation_is_saved_and_limits_return_the_newest(store):
    many = in_json(EVERY_KIND * 15)
    await store.save(Conversation(conversation_id="x", messages=list(many)))
    assert (await store.load("x")).messages == many
    assert (await store.load("x", limit=4)).messages == many[-4:]
    assert (await store.load("x", limit=0)).messages == []
    assert await store.load("y") is None


async def test_an_agent_continues_where_it_was(store, memory):
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


async def test_what_is_said_beside_a_picture_is_searched_and_learned_from_like_anything_else(store, memory):
    ann = memory.user("ann")
    said = ["My boat is called Aurora.", ImageUrl("https://x/y.png"), BinaryContent(b"boat", media_type="image/png")]
    asked = ModelRequest([UserPromptPart(said)])
    await store.save(Conversation(conversation_id="c", messages=[asked]))
    await memory.work()
    assert "Aurora" in (await ann.search_memory("What is my boat called?"))[0].content
    assert "Aurora" in str((await ann.session("c").get_context("?")).recent)
    assert (await store.load("c")).messages == in_json([asked])


async def test_tool_calls_and_their_results_are_complete_for_every_reader(store, memory):
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


async def test_of_two_writers_with_the_same_view_one_gets_a_conflict(store):
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


async def test_the_writer_that_loses_leaves_nothing_behind_however_much_it_wrote(store, memory):
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


async def test_quarantined_messages_are_no_longer_read_or_forked(store, memory):
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


async def test_a_deleted_conversation_is_forgotten_and_can_be_started_again(store, memory):
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
    """Saves, branches, forks and deletes, and what is visible in between."""
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


async def test_it_behaves_like_pydantic_ais_own_store(store):
    assert await story(store) == await story(InMemoryConversationStore())


async def test_users_see_only_their_own_conversations(store, memory):
    await store.save(Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("mine")])]))
    other = Store(memory.user("bob"))
    assert await other.load("x") is None
    assert await other.list_conversations() == []


async def test_a_sync_memory_does_not_block_the_loop():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        store = Store(memory.user("ann"))
        await store.save(Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("hello")])]))
        assert len((await store.load("x")).messages) == 1
        assert memory.user("ann").session("x").window()[0].content == "hello"


async def test_no_agent_reads_quarantined_messages(store, memory):
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


async def test_the_entries_of_a_deleted_conversation_are_gone_even_if_seen_before(store, memory):
    first = Conversation(conversation_id="x", messages=[ModelRequest([UserPromptPart("one")])])
    (entry,) = await store.save(first)
    await store.load("x")
    await store.delete("x")
    with pytest.raises(LookupError):
        await store.read_history(entry.id)


# ── conversations that others take part in ───────────────────────────────────────────────────────


def spoken(messages: list[Any]) -> list[str]:
    return [part.content for message in messages for part in message.parts]


def prompt(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


async def test_calls_results_and_pictures_from_other_adapters_are_unchanged(store, memory):
    chat = memory.user("ann").session("x")
    weather, picture = {"name": "weather", "arguments": '{"city": "Oslo"}'}, "data:image/png;base64,AP8="
    await chat.add_message("system", "Be brief.")
    shown = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
             {"type": "image_url", "image_url": {"url": picture}}]  # fmt: skip
    await chat.add_message("user", shown)
    await chat.add_messages(
        [
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": weather}]},
            {"role": "tool", "content": "Rain", "tool_call_id": "c1"},
            {"role": "assistant", "content": "It rains."},
        ]
    )
    system, user, call, result, answer = (await store.load("x")).messages
    assert system.parts[0].part_kind == "system-prompt" and answer.parts[0].content == "It rains."
    said, linked, embedded = user.parts[0].content
    assert (said, linked.url, embedded.data) == ("See", "https://x/y.png", b"\x00\xff")
    assert (call.parts[0].tool_name, call.parts[0].args_as_dict()) == ("weather", {"city": "Oslo"})
    assert (result.parts[0].tool_name, result.parts[0].tool_call_id, result.parts[0].content) == (
        "weather", "c1", "Rain",
    )  # fmt: skip
    assert answer.timestamp == (await chat.window())[-1].created_at
    assert len(call.parts) == 1


async def test_another_adapters_conversation_is_listed_limited_forked_branched_and_deleted_like_any(store, memory):
    chat = memory.user("ann").session("x")
    for text in ("one", "two", "three"):
        await chat.add_message("user", text)
    assert [each.conversation_id for each in await store.list_conversations()] == ["x"]
    assert spoken((await store.load("x", limit=2)).messages) == ["two", "three"]
    entries = await store.load_entries("x")
    assert [each.parent_id for each in entries] == [None, entries[0].id, entries[1].id]
    assert (await store.load_entries("x", limit=1))[0].parent_id == entries[1].id
    assert await store.read_entry(entries[1].id) == entries[1]
    fork = await store.fork("x", at=2, new_conversation_id="y")
    fork.messages.append(prompt("other"))
    await store.save(fork)
    assert spoken((await store.load("y")).messages) == ["one", "two", "other"]
    known = await store.load("x")
    branched = await store.branch("x", at=1, expected_revision=known.revision)
    branched.messages.append(prompt("instead"))
    await store.save(branched)
    await chat.add_message("user", "and then")
    assert spoken((await store.load("x")).messages) == ["one", "instead", "and then"]
    back = await store.branch("x", from_entry=entries[2].id, expected_revision=(await store.load("x")).revision)
    assert spoken(back.messages) == ["one", "two", "three"]
    await store.delete("x")
    assert await store.load("x") is None and await chat.window() == []
    assert spoken((await store.load("y")).messages) == ["one", "two", "other"]


async def test_saving_without_having_loaded_what_others_said_meanwhile_is_a_conflict(store, memory):
    chat = memory.user("ann").session("x")
    await chat.add_message("user", "one")
    for number in range(2):
        late = await store.load("x")
        await chat.add_message("user", f"meanwhile {number}")
        late.messages.append(prompt("unheard"))
        with pytest.raises(ConversationConflict):
            await store.save(late)
        heard = await store.load("x")
        heard.messages.append(prompt(f"heard {number}"))
        await store.save(heard)
        heard.messages.append(prompt("at once"))
        await store.save(heard)
    both = [await store.load("x"), await store.load("x")]
    for number, conversation in enumerate(both):
        conversation.messages.append(prompt(f"writer {number}"))
    done = await asyncio.gather(*(store.save(each) for each in both), return_exceptions=True)
    assert [type(each) for each in done].count(ConversationConflict) == 1
    assert spoken((await store.load("x")).messages)[:-1] == [
        "one", "meanwhile 0", "heard 0", "at once", "meanwhile 1", "heard 1", "at once",
    ]  # fmt: skip


async def test_messages_added_during_a_save_are_loaded_and_those_a_branch_dropped_are_not(store, memory):
    chat = memory.user("ann").session("x")
    await store.save(Conversation(conversation_id="x", messages=[prompt("one")]))
    record = await store.read_record("x")
    (entry,) = await store.load_entries("x")
    # Both are sent together: the save was decided before the other message arrived.
    await chat.add_message("user", "in between")
    late = ConversationEntry(parent_id=entry.id, message=prompt("two"))
    after = dataclasses.replace(record, head_id=late.id, revision="r2")
    await _commit(memory.user("ann"), chat, after, to_stored([late]), record.revision)
    assert spoken((await store.load("x")).messages) == ["one", "in between", "two"]
    branched = await store.branch("x", at=1, expected_revision="r2")
    assert spoken(branched.messages) == ["one"]
    branched.messages.append(prompt("instead"))
    await store.save(branched)
    assert spoken((await store.load("x")).messages) == ["one", "instead"]


async def test_quarantined_messages_of_others_are_not_part_of_the_conversation(store, memory):
    ann = memory.user("ann")
    for text in ("one", "obey me", "two", "obey me too"):
        await ann.session("x").add_message("user", text)
    listed, _ = await ann.session("x").messages()
    await ann.quarantine(ids=[message.id for message in listed if "obey" in message.content])
    loaded = await store.load("x")
    assert spoken(loaded.messages) == ["one", "two"]
    loaded.messages.append(prompt("three"))
    await store.save(loaded)
    assert spoken((await store.load("x")).messages) == ["one", "two", "three"]


async def test_a_conversation_begun_elsewhere_has_the_scope_of_the_store_until_it_is_saved_with_one(memory):
    ann = memory.user("ann")
    await ann.session("x").add_message("user", "one")
    store = Store(ann, scope="ann")
    assert await store.load("x", scope="bob") is None
    conversation = await store.load("x", scope="ann")
    conversation.messages.append(prompt("two"))
    await store.save(conversation, scope="ann")
    assert [each.scope for each in await Store(ann).list_conversations()] == ["ann"]


async def test_the_branch_of_a_session_is_a_conversation_of_its_own(store, memory):
    chat = memory.user("ann").session("x")
    conversation = Conversation(conversation_id="x", messages=[prompt("one")])
    await store.save(conversation)
    conversation.messages.append(prompt("two"))
    await store.save(conversation)
    await chat.branch((await chat.window())[0].id, into="y")
    for id in ("x", "y"):
        conversation = await store.load(id)
        assert conversation is not None and conversation.conversation_id == id
        conversation.messages.append(prompt(f"only in {id}"))
        await store.save(conversation)
    assert spoken((await store.load("x")).messages) == ["one", "two", "only in x"]
    assert spoken((await store.load("y")).messages) == ["one", "only in y"]


@pytest.mark.parametrize("count", [3, 100], ids=["one commit", "several commits"])
async def test_a_branch_in_the_middle_of_a_save_has_everything_up_to_there_and_can_continue(store, memory, count):
    chat = memory.user("ann").session("x")
    texts = [f"number {n}" for n in range(2 * count)]
    conversation = Conversation(conversation_id="x")
    for half in (texts[:count], texts[count:]):
        conversation.messages.extend(prompt(text) for text in half)
        await store.save(conversation, scope="work")
    listed, _ = await chat.messages(limit=1_000)
    for place in (0, 1, count - 1, count, 2 * count - 2):
        await chat.branch(listed[place].id, into=f"y{place}")
        branch = await store.load(f"y{place}")
        assert branch is not None and spoken(branch.messages) == texts[: place + 1]
        for text in ("other", "and more"):
            branch.messages.append(prompt(text))
            await store.save(branch)
        assert spoken((await store.load(f"y{place}")).messages) == [*texts[: place + 1], "other", "and more"]
    assert spoken((await store.load("x")).messages) == texts


async def test_a_branch_after_a_tool_result_has_the_results_of_all_its_calls(store, memory):
    chat = memory.user("ann").session("x")
    call = ModelResponse([ToolCallPart("weather", {"city": "Oslo"}, "c1"), ToolCallPart("time", {}, "c2")])
    results = ModelRequest([ToolReturnPart("weather", "Rain", "c1"), ToolReturnPart("time", "nine", "c2")])
    said = [prompt("Well?"), call, results, ModelResponse([TextPart("It rains.")])]
    await store.save(Conversation(conversation_id="x", messages=list(said)))
    listed, _ = await chat.messages()
    for place in (2, 3):
        await chat.branch(listed[place].id, into=f"y{place}")
        assert (await store.load(f"y{place}")).messages == in_json(said[:3])


async def test_a_conversation_continues_after_its_newest_message_is_forgotten(store, memory):
    ann = memory.user("ann")
    await store.save(Conversation(conversation_id="x", messages=[prompt("one"), prompt("two")]))
    for round in range(3):
        conversation = await store.load("x")
        late = await store.load("x")
        conversation.messages.extend([prompt(f"asked {round}"), prompt("never mind")])
        await store.save(conversation)
        ((newest, *_), _) = await ann.session("x").messages(newest_first=True)
        await ann.forget(newest.id)
        late.messages.append(prompt("unheard"))
        with pytest.raises(ConversationConflict):
            await store.save(late)
    assert spoken((await store.load("x")).messages) == ["one", "two", "asked 0", "asked 1", "asked 2"]


async def test_a_replacement_for_a_forgotten_message_is_saved_however_often(store, memory):
    ann = memory.user("ann")
    await store.save(Conversation(conversation_id="x", messages=[prompt("one")]))
    for round in range(4):
        pair = [await store.load("x"), await store.load("x")]
        for conversation in pair:
            conversation.messages.append(prompt(f"try {round}"))
        done = await asyncio.gather(*(store.save(each) for each in pair), return_exceptions=True)
        assert [type(each) for each in done].count(ConversationConflict) == 1
        assert spoken((await store.load("x")).messages) == ["one", f"try {round}"]
        ((newest, *_), _) = await ann.session("x").messages(newest_first=True)
        await ann.forget(newest.id)


async def test_an_interrupted_save_is_not_part_of_the_conversation(store, memory):
    chat = memory.user("ann").session("x")
    ahead = to_stored([ConversationEntry(parent_id=None, message=prompt("half"))])
    await chat.add_messages([each | {"metadata": each["metadata"] | {AHEAD: True}} for each in ahead])
    assert await store.load("x") is None
    await store.save(Conversation(conversation_id="x", messages=[prompt("whole")]))
    assert spoken((await store.load("x")).messages) == ["whole"]


async def test_broken_metadata_on_one_message_leaves_the_others_as_they_are(store, memory):
    chat = memory.user("ann").session("x")
    conversation = Conversation(conversation_id="x", messages=[prompt("one")])
    await store.save(conversation)
    for broken in (
        "{",
        '{"entry": {}}',
        "{},{}",
        '{"entry": {"parent_id": null, "message": {"kind": "x"}, "texts": 1}}',
    ):
        given = {"role": "user", "content": "broken", "metadata": {"pydantic_ai": broken, "pydantic_ai_entry": "e"}}
        await chat.add_messages([given])
    assert spoken((await store.load("x")).messages)[:1] == ["one"]


async def test_forgetting_a_message_takes_nothing_else_with_it(store, memory):
    ann = memory.user("ann")
    conversation = Conversation(conversation_id="x", messages=[prompt("one"), prompt("two")])
    await store.save(conversation)
    for text in ("three", "four"):
        conversation.messages.append(prompt(text))
        await store.save(conversation)
    ids = {message.content: message.id for message in (await ann.session("x").messages())[0]}
    await ann.forget(ids["two"])  # it also held the first save
    assert spoken((await store.load("x")).messages) == ["one", "three", "four"]
    assert spoken((await store.load("x", limit=2)).messages) == ["three", "four"]
    await ann.session("x").add_message("user", "five")
    loaded = await store.load("x")
    loaded.messages.append(prompt("six"))
    await store.save(loaded)
    await ann.forget(loaded_id := (await ann.session("x").messages(newest_first=True))[0][1].id)
    assert loaded_id not in ids.values()  # it was the one added from outside
    assert spoken((await store.load("x")).messages) == ["one", "three", "four", "six"]
    branched = await store.branch("x", at=3, expected_revision=(await store.load("x")).revision)
    await ann.forget(ids["four"])  # the head
    assert spoken(branched.messages) == ["one", "three", "four"]
    assert spoken((await store.load("x")).messages)[:2] == ["one", "three"]
