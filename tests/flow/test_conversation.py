"""A conversation is kept exactly as it was said, with many writers at once, and as one whole."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from recollect import Message
from recollect.errors import Conflict, NotFound, TooLarge, ValidationError
from recollect.records import payload_of
from recollect.stores import open_store
from recollect.stores.contract import PAYLOAD_MAX_BYTES
from recollect.testing.fakes import MeddlingStore

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Genève"}'}}
PARTS = [
    {"type": "text", "text": "Look at this:"},
    {"type": "image_url", "image_url": {"url": "https://example.org/cat.png", "detail": "low"}},
]


async def said(chat):
    return [message.content for message in (await chat.messages(limit=1000))[0]]


async def test_every_role_part_name_and_tool_call_comes_back_exactly(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("system", "Be brief.")
    await chat.add_message(
        "user", "  Hi,\r\n\tthere… \x00\x1b[31m 👩‍👩‍👧 e\u0301 \uffff ", name="Ann", metadata={"mood": 3}
    )
    await chat.add_message("assistant", None, tool_calls=[CALL])
    await chat.add_message("tool", '{"rain": true}', tool_call_id="call_1", name="weather")
    await chat.add_message("user", PARTS)
    await memory.work()
    system, user, call, result, parts = await chat.window()
    assert (system.role, system.content) == ("system", "Be brief.")
    assert user.content == "  Hi,\r\n\tthere… \x00\x1b[31m 👩‍👩‍👧 e\u0301 \uffff "
    assert (user.name, user.metadata) == ("Ann", {"mood": 3})
    assert (call.role, call.content, call.tool_calls) == ("assistant", "", [CALL])
    assert (result.role, result.tool_call_id, result.name) == ("tool", "call_1", "weather")
    assert parts.content == PARTS
    assert call.to_openai() == {"role": "assistant", "content": "", "tool_calls": [CALL]}


async def test_a_message_may_bring_its_own_time_and_stays_where_it_was_added(memory, clock):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "now")
    await chat.add_message("user", "long ago", created_at="2019-05-01T10:00:00+02:00")
    await chat.add_message("user", "some day", created_at=datetime(2099, 1, 1, tzinfo=UTC))
    now, ago, future = await chat.window()
    assert now.created_at.timestamp() * 1000 == clock()
    assert ago.created_at == datetime(2019, 5, 1, 8, tzinfo=UTC)
    assert future.created_at.year == 2099


async def test_fifty_writers_on_one_session_lose_nothing(memory):
    chat = memory.user("ann").session("s")
    await asyncio.gather(*(chat.add_interaction(f"question {n}", f"answer {n}") for n in range(50)))
    texts = await said(chat)
    assert sorted(texts) == sorted([f"question {n}" for n in range(50)] + [f"answer {n}" for n in range(50)])
    for place in range(0, 100, 2):
        assert texts[place + 1] == texts[place].replace("question", "answer"), "a pair stays together"


@pytest.mark.parametrize(
    ("user", "assistant", "field"),
    [("", "hi", "user"), ("hello", None, "assistant"), ("hello", [{"type": "text"}], "assistant[0]")],
)
async def test_an_interaction_says_whose_words_are_wrong(memory, user, assistant, field):
    chat = memory.user("ann").session("s")
    with pytest.raises(ValidationError) as refused:
        await chat.add_interaction(user, assistant)
    assert refused.value.field == field
    assert await chat.window() == []


async def test_messages_stay_in_the_order_they_were_added_even_when_the_clock_goes_back(memory, clock):
    chat = memory.user("ann").session("s")
    for number in range(6):
        await chat.add_message("user", f"number {number}")
        clock.advance(hours=-1)
    assert await said(chat) == [f"number {number}" for number in range(6)]
    assert len({message.id for message in await chat.window()}) == 6


async def test_the_same_id_is_stored_once(memory, clock):
    chat = memory.user("ann").session("s")
    first = await chat.add_message("user", "hello", id="m1", metadata={"n": 1})
    clock.advance(minutes=5)
    again = await chat.add_message("user", "hello", id="m1", metadata={"n": 1})
    await memory.work()
    later = await chat.add_message("user", "hello", id="m1", metadata={"n": 1})
    assert first.id == again.id == later.id == "m1"
    assert again.created_at == first.created_at
    assert await said(chat) == ["hello"]


@pytest.mark.parametrize("other", [{"content": "bye"}, {"role": "assistant"}, {"metadata": {"n": 2}}, {"name": "Bob"}])
async def test_something_else_under_a_taken_id_is_a_conflict(memory, other):
    chat = memory.user("ann").session("s")
    given = {"role": "user", "content": "hello", "metadata": {"n": 1}}
    await chat.add_message(**given, id="m1")
    with pytest.raises(Conflict) as caught:
        await chat.add_message(**(given | other), id="m1")
    assert caught.value.field == "id"
    assert await said(chat) == ["hello"]


async def test_an_id_is_taken_in_all_sessions_of_a_user_and_free_for_other_users(memory):
    await memory.user("ann").session("s").add_message("user", "hello", id="m1")
    with pytest.raises(Conflict):
        await memory.user("ann").session("t").add_message("user", "hello", id="m1")
    await memory.user("bob").session("s").add_message("user", "something else", id="m1")
    assert await said(memory.user("ann").session("t")) == []


async def test_the_same_message_twice_in_one_call_is_stored_once(memory):
    chat = memory.user("ann").session("s")
    message = {"role": "user", "content": "Hello", "id": "m1"}
    stored = await chat.add_messages([message, {"role": "user", "content": "Bye"}, message])
    assert [each.id for each in stored] == ["m1", stored[1].id, "m1"]
    assert await said(chat) == ["Hello", "Bye"]


async def test_two_messages_of_one_call_under_one_id_are_refused_by_name_and_neither_is_stored(memory):
    chat = memory.user("ann").session("s")
    with pytest.raises(ValidationError) as refused:
        await chat.add_messages([{"role": "user", "content": text, "id": "m1"} for text in ("Hello", "Bye")])
    assert refused.value.field == "messages.1.id"
    assert await said(chat) == []


async def test_the_same_idempotency_key_is_stored_once(memory, clock):
    chat = memory.user("ann").session("s")
    first = await chat.add_interaction("hello", "hi", idempotency_key="k1")
    clock.advance(minutes=5)
    again = await chat.add_interaction("hello", "hi", idempotency_key="k1")
    assert [m.id for m in first] == [m.id for m in again]
    assert await said(chat) == ["hello", "hi"]


async def test_the_same_key_at_the_same_time_is_stored_once(memory):
    chat = memory.user("ann").session("s")
    answers = await asyncio.gather(*(chat.add_interaction("hello", "hi", idempotency_key="k1") for _ in range(20)))
    assert len({tuple(m.id for m in answer) for answer in answers}) == 1
    assert await said(chat) == ["hello", "hi"]


async def test_another_message_under_a_used_key_is_a_conflict(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "hello", idempotency_key="k1")
    for call in (
        chat.add_message("user", "bye", idempotency_key="k1"),
        chat.add_interaction("hello", "hi", idempotency_key="k1"),
        memory.user("ann").session("t").add_message("user", "hello", idempotency_key="k1"),
    ):
        with pytest.raises(Conflict) as caught:
            await call
        assert caught.value.field == "idempotency_key"
    assert await said(chat) == ["hello"]
    assert await said(memory.user("ann").session("t")) == []


async def test_a_batch_is_stored_whole_or_not_at_all(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "already here", id="m3")
    good = {"role": "user", "content": "fine"}
    for bad in (
        {"role": "user", "content": ""},
        {"role": "boss", "content": "x"},
        {"role": "user", "content": "x", "metadata": {"a": float("nan")}},
        {"role": "user", "content": "x", "owner": "bob"},
        {"role": "user", "content": "other content", "id": "m3"},
        {"role": "user"},
        "just a text",
    ):
        with pytest.raises((ValidationError, Conflict)):
            await chat.add_messages([good, good, bad])
    with pytest.raises(TooLarge):
        await chat.add_messages([good] * 91)
    assert await said(chat) == ["already here"]
    await chat.add_messages([good] * 90)
    assert len(await said(chat)) == 91


async def test_a_batch_takes_messages_that_were_read_elsewhere(memory):
    ann, bob = memory.user("ann").session("s"), memory.user("bob").session("t")
    await ann.add_message("user", PARTS, name="Ann", metadata={"n": 1})
    await ann.add_message("assistant", "", tool_calls=[CALL])
    await ann.add_message("tool", "rain", tool_call_id="call_1")
    messages = await ann.window()
    assert await bob.add_messages(messages) == messages
    assert await bob.window() == messages
    await bob.add_messages([Message("user", "thanks")])
    assert (await bob.window())[-1].content == "thanks"


async def test_a_half_stored_batch_stores_the_other_half_when_sent_again(memory, clock):
    chat = memory.user("ann").session("s")
    messages = [{"role": "user", "content": f"number {n}", "id": f"m{n}"} for n in range(6)]
    await chat.add_messages(messages[:4])
    clock.advance(minutes=1)
    answer = await chat.add_messages(messages)
    assert [message.id for message in answer] == [f"m{n}" for n in range(6)]
    assert await said(chat) == [f"number {n}" for n in range(6)]


async def test_a_forgotten_id_can_be_used_again_and_the_whole_batch_is_enriched(memory):
    ann = memory.user("ann")
    chat = ann.session("s")
    await chat.add_message("user", "the first", id="m1")
    await ann.forget("m1")
    await chat.add_messages(
        [{"role": "user", "content": "the second", "id": "m1"}, {"role": "user", "content": "a third", "id": "m2"}]
    )
    await memory.work()
    assert (await ann.get_memory("m2")).vector is not None
    assert await said(chat) == ["the second", "a third"]


async def test_pages_of_a_conversation_neither_repeat_nor_skip(memory):
    chat = memory.user("ann").session("s")
    await chat.add_messages([{"role": "user", "content": f"number {n}"} for n in range(25)])
    page, after = await chat.messages(limit=10)
    await chat.add_message("user", "number 25")
    await memory.user("ann").forget(page[3].id)
    collected = [message.content for message in page]
    while after is not None:
        page, after = await chat.messages(limit=10, after=after)
        collected += [message.content for message in page]
    assert collected == [f"number {n}" for n in range(26)]
    newest, _ = await chat.messages(limit=2, newest_first=True)
    assert [message.content for message in newest] == ["number 25", "number 24"]


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────


async def test_sessions_are_listed_with_title_counts_and_last_activity(memory, clock):
    ann = memory.user("ann")
    await ann.session("old", agent="support").add_interaction("Where is   my\norder?", "On its way.")
    clock.advance(hours=2)
    await ann.session("new").add_message("assistant", "Good morning!")
    await ann.session("new").add_message("user", "x" * 200)
    clock.advance(hours=1)
    new, old = await ann.sessions()
    assert (new.id, new.messages, new.title) == ("new", 2, "x" * 59 + "…")
    assert (old.id, old.messages, old.title, old.agent) == ("old", 2, "Where is my order?", "support")
    assert (new.last_activity - old.last_activity).total_seconds() == 7200
    assert new.created_at == new.last_activity
    assert [info.id for info in await ann.sessions(limit=1)] == ["new"]
    assert new.to_dict()["last_activity"].endswith("Z")


async def test_a_session_is_described_as_it_is_listed_whatever_its_agent(memory):
    chat = memory.user("ann").session("monday", agent="support")
    with pytest.raises(NotFound, match="session"):
        await chat.info()
    await chat.add_message("user", "Where is my order?")
    await chat.rename("The order")
    assert [await chat.info()] == await chat.user.sessions()
    assert (await chat.user.session("monday").info()).title == "The order"


async def test_a_session_with_new_activity_moves_to_the_top(memory, clock):
    ann = memory.user("ann")
    for name in ("a", "b"):
        await ann.session(name).add_message("user", name)
        clock.advance(minutes=1)
    await ann.session("a").add_message("user", "again")
    assert [info.id for info in await ann.sessions()] == ["a", "b"]


async def test_a_session_can_be_renamed_again_and_again(memory):
    ann = memory.user("ann")
    chat = ann.session("s")
    await chat.add_message("user", "hello")
    for title in ("Lunch", "Dinner", "Dinner"):
        await chat.rename(title)
        assert (await ann.sessions())[0].title == title
    with pytest.raises(ValidationError) as caught:
        await chat.rename("  ")
    assert caught.value.field == "title"
    with pytest.raises(TooLarge):
        await chat.rename("x" * 513)


async def test_a_branch_begins_with_the_messages_up_to_the_chosen_one(memory, clock):
    ann = memory.user("ann")
    chat = ann.session("s", agent="support")
    for number in range(100):
        await chat.add_message("user", f"number {number}", metadata={"n": number})
    chosen = (await chat.messages(limit=1000))[0][69]
    clock.advance(days=1)
    branch = await chat.branch(chosen.id, "other")
    assert branch.id == "other"
    assert await said(branch) == [f"number {n}" for n in range(70)]
    await branch.add_message("user", "only here")
    assert len(await said(chat)) == 100
    copied = (await branch.messages(limit=1))[0][0]
    assert (copied.metadata, copied.created_at) == ({"n": 0}, (await chat.messages(limit=1))[0][0].created_at)
    infos = {info.id: info for info in await ann.sessions()}
    assert (infos["other"].parent, infos["s"].parent) == ("s", None)
    assert infos["other"].agent == "support"


async def test_a_branch_of_large_messages_is_copied_whole(memory):
    chat = memory.user("ann").session("s")
    for number in range(40):
        await chat.add_message("user", f"{number} " + "x" * 60_000)
    last = (await chat.messages(newest_first=True, limit=1))[0][0]
    branch = await chat.branch(last.id, "other")
    assert await said(branch) == await said(chat)


async def test_a_branch_whose_copies_fill_a_commit_to_the_last_byte_is_copied_whole(memory):
    chat = memory.user("ann").session("s")
    probe = (await (await chat.branch((await chat.add_message("user", "x")).id, "probe")).messages())[0][0]
    beside = len(payload_of(await memory.user("ann").get_memory(probe.id))) - 1
    whole = memory.user("ann").session("whole")
    for _ in range(20):
        last = await whole.add_message("user", "x" * (PAYLOAD_MAX_BYTES // 20 - beside))
    branch = await whole.branch(last.id, "other")
    assert await said(branch) == await said(whole)


async def test_an_interrupted_branch_is_recognised_and_the_same_call_resumes_it(open_memory):
    store = MeddlingStore(await open_store("memory://"))
    memory = await open_memory(store)
    ann = memory.user("ann")
    chat = ann.session("s")
    told = [await chat.add_message("user", f"number {n}") for n in range(150)]
    copies = iter(range(2))

    async def break_off():
        raise ConnectionError

    def is_second(changes):
        return any(r.scope.session == "other" and r.layer == "conversation" for r in changes.put) and next(copies) == 1

    store.before(is_second, break_off)
    with pytest.raises(ConnectionError):
        await chat.branch(told[-1].id, "other")
    assert 0 < len((await ann.session("other").messages(limit=200))[0]) < 150
    await ann.forget(told[0].id)
    assert "number 0" not in await said(ann.session("other")), "a forgotten message takes its copies, however many"
    with pytest.raises(Conflict):
        await chat.branch(told[-2].id, "other")
    branch = await chat.branch(told[-1].id, "other")
    assert await said(branch) == [f"number {n}" for n in range(1, 150)]
    with pytest.raises(Conflict):
        await chat.branch(told[-1].id, "other")


async def test_a_branch_needs_a_message_of_this_session_and_an_empty_target(memory):
    ann = memory.user("ann")
    here = await ann.session("s").add_message("user", "here")
    there = await ann.session("t").add_message("user", "there")
    foreign = await memory.user("bob").session("s").add_message("user", "foreign")
    for id in (there.id, foreign.id, "unknown"):
        with pytest.raises(NotFound) as caught:
            await ann.session("s").branch(id, "u")
        assert caught.value.field == "message_id"
    for taken in ("s", "t"):
        with pytest.raises(Conflict):
            await ann.session("s").branch(here.id, taken)
    assert await said(ann.session("u")) == []
    await ann.session("named").rename("A name without messages")
    await ann.session("s").branch(here.id, "named")
    info = next(info for info in await ann.sessions() if info.id == "named")
    assert (info.title, info.parent) == ("A name without messages", "s")


async def test_a_deleted_session_leaves_nothing_behind(memory, clock):
    ann = memory.user("ann")
    chat = ann.session("s", agent="support")
    for number in range(30):
        await chat.add_interaction(f"The zanzibar plan needs {number} boats.", "Noted.")
    await chat.compress()
    await chat.rename("zanzibar")
    await chat.working.set({"plan": "zanzibar"})
    await ann.session("s10").add_message("user", "another session stays")
    await memory.work()
    receipt = await chat.delete()
    assert receipt.forgotten["conversation"] == 60
    assert receipt.count == sum(receipt.forgotten.values())
    await memory.work()
    assert await chat.window() == []
    assert await chat.window("sliding_window_summary") == []
    assert await chat.working.get() == {}
    assert [hit.content for hit in await ann.search_memory("zanzibar boats")] == ["another session stays"]
    assert [info.id for info in await ann.sessions()] == ["s10"]
    assert "zanzibar" not in str(await ann.export())
    context = await chat.get_context("zanzibar?")
    assert "zanzibar" not in context.system
    assert (await memory.survey()).records == {"conversation": 1}


async def test_deleting_twice_is_the_same_as_deleting_once(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "hello")
    assert (await chat.delete()).count == 1
    assert (await chat.delete()).count == 0
    await chat.add_message("user", "a new beginning")
    assert await said(chat) == ["a new beginning"]


async def test_a_conversation_exports_in_its_documented_form(memory):
    chat = memory.user("ann").session("sess_123")
    await chat.add_interaction("hello", "hi")
    await chat.add_message("assistant", "", tool_calls=[CALL])
    await chat.add_message("tool", "rain", tool_call_id="call_1")
    assert await chat.export() == {
        "session_id": "sess_123",
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "content": "rain", "tool_call_id": "call_1"},
        ],
        "window_strategy": "sliding_window_summary",
        "max_tokens": 4000,
    }


async def test_an_exported_conversation_can_be_sent_to_another_session(memory):
    chat = memory.user("ann").session("s")
    await chat.add_interaction("hello", "hi")
    other = memory.user("bob").session("t")
    await other.add_messages((await chat.export())["messages"])
    assert (await other.export())["messages"] == (await chat.export())["messages"]


def test_at_a_prompt_a_message_shows_what_is_special_about_it():
    plain = Message("user", "Hello.", id="m1", created_at=datetime(2026, 3, 1, tzinfo=UTC))
    assert repr(plain) == "Message('user', 'Hello.', id='m1')"
    result = Message("tool", "Rain", id="m2", tool_call_id="c1", trust="untrusted")
    assert repr(result) == "Message('tool', 'Rain', id='m2', tool_call_id='c1', trust='untrusted')"
