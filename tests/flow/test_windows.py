"""Windows: the newest part of a conversation, by every measure, at the cost of the window alone."""

from __future__ import annotations

import pytest

from recollect.errors import ValidationError
from recollect.policies.tokens import estimate, message_tokens
from recollect.records import Scope
from recollect.stores import open_store
from recollect.testing.fakes import CountingStore
from recollect.windows import STRATEGIES, Windows


def texts(window):
    return [message.content for message in window]


async def talk(chat, turns, start=0, words=""):
    for number in range(start, start + turns):
        await chat.add_interaction(f"question {number}{words}", f"answer {number}{words}")


async def use_tool(chat, number, results=1):
    ids = [f"call_{number}_{place}" for place in range(results)]
    calls = [{"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}} for id in ids]
    await chat.add_message("assistant", None, tool_calls=calls)
    for id in ids:
        await chat.add_message("tool", f"result {id}", tool_call_id=id)


async def test_an_unused_session_has_an_empty_window(memory):
    chat = memory.user("ann").session("s")
    for strategy in (None, "last_messages", "last_turns", "token_budget", "sliding_window_summary", "importance"):
        assert await chat.window(strategy) == []


async def test_by_default_it_is_the_last_fifty_messages(memory):
    chat = memory.user("ann").session("s")
    await talk(chat, 40)
    expected = [text for n in range(15, 40) for text in (f"question {n}", f"answer {n}")]
    assert texts(await chat.window()) == texts(await chat.window("last_messages")) == expected


async def test_the_last_n_messages_are_as_many_as_asked(memory):
    chat = memory.user("ann").session("s")
    await talk(chat, 10)
    assert texts(await chat.window(messages=3)) == ["answer 8", "question 9", "answer 9"]
    assert len(await chat.window(messages=1000)) == 20


async def test_a_turn_starts_at_a_user_message(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("system", "Be kind.")
    await talk(chat, 15)
    await chat.add_message("assistant", "One more thing.")
    window = await chat.window("last_turns")
    assert len(window) == 21
    assert texts(window)[0] == "question 5"
    assert texts(await chat.window(turns=2))[0] == "question 13"


async def test_a_token_budget_is_filled_from_the_newest_and_never_exceeded(memory):
    chat = memory.user("ann").session("s")
    await talk(chat, 100, words=" with some more words in it")
    for tokens in (1, 15, 50, 333, 2000, 100_000):
        window = await chat.window(tokens=tokens)
        spent = sum(message_tokens(estimate, message.role, message.content) for message in window)
        assert spent <= tokens
        everything = (await chat.messages(limit=1000))[0]
        assert window == everything[len(everything) - len(window) :]
        if len(window) < len(everything):
            more = everything[len(everything) - len(window) - 1]
            assert spent + message_tokens(estimate, more.role, more.content) > tokens
    assert 0 < len(await chat.window("token_budget")) <= 200


async def test_tool_calls_and_parts_count_towards_the_budget(memory):
    chat = memory.user("ann").session("s")
    call = {"id": "c", "type": "function", "function": {"name": "write", "arguments": "lorem ipsum " * 500}}
    await chat.add_message("assistant", None, tool_calls=[call])
    await chat.add_message("tool", "done", tool_call_id="c")
    await chat.add_message("user", "thanks")
    assert texts(await chat.window(tokens=100)) == ["thanks"]


async def test_limits_apply_together(memory):
    chat = memory.user("ann").session("s")
    await talk(chat, 30)
    assert len(await chat.window(messages=7, turns=10)) == 7
    assert len(await chat.window(messages=50, turns=2)) == 4
    assert len(await chat.window(messages=50, turns=10, tokens=30)) <= 3
    assert len(await chat.window("last_turns", messages=5)) == 5
    assert len(await chat.window("token_budget", turns=1)) == 2


async def test_the_window_by_importance_keeps_what_matters_and_the_newest(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "Remember: I am allergic to peanuts, this is really important!")
    for number in range(20):
        await chat.add_interaction("ok", f"fine {number}")
    await memory.work()
    window = texts(await chat.window("importance", messages=8))
    assert len(window) == 8
    assert "allergic" in window[0]
    assert window[-2:] == ["ok", "fine 19"]


async def test_a_tool_result_is_never_separated_from_its_call(memory):
    chat = memory.user("ann").session("s")
    for number in range(12):
        await chat.add_message("user", f"question {number}")
        await use_tool(chat, number, results=1 + number % 4)
        await chat.add_message("assistant", f"answer {number}")
    await memory.work()
    total = len((await chat.messages(limit=1000))[0])
    windows = [await chat.window(messages=n) for n in range(1, total + 5)]
    windows += [await chat.window("importance", messages=n) for n in range(1, total + 5)]
    windows += [await chat.window(turns=n) for n in range(1, 14)]
    windows += [await chat.window(tokens=n) for n in range(10, 900, 13)]
    windows += [await chat.window("sliding_window_summary", messages=n) for n in range(2, 30)]
    windows += [await chat.window("sliding_window_summary", tokens=n) for n in range(10, 900, 40)]
    for window in windows:
        called = set()
        answered = set()
        for message in window:
            called |= {call["id"] for call in message.tool_calls or ()}
            if message.role == "tool":
                assert message.tool_call_id in called, "a result stands behind its call"
                answered.add(message.tool_call_id)
        assert called == answered, "a call has all of its results"


async def test_a_call_that_waits_for_its_result_is_shown_at_the_end(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "what is the weather?")
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    await chat.add_message("assistant", None, tool_calls=[call])
    assert (await chat.window())[-1].tool_calls == [call]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"strategy": "newest"}, "strategy"),
        ({"strategy": 5}, "strategy"),
        ({"messages": 0}, "messages"),
        ({"messages": 1001}, "messages"),
        ({"turns": -1}, "turns"),
        ({"turns": True}, "turns"),
        ({"tokens": 0}, "tokens"),
        ({"tokens": "all"}, "tokens"),
    ],
)
async def test_an_invalid_window_is_refused_by_name(memory, given, field):
    with pytest.raises(ValidationError) as caught:
        await memory.user("ann").session("s").window(**given)
    assert caught.value.field == field


# ── The running summary ──────────────────────────────────────────────────────────────────────────


async def test_a_short_history_is_not_summarised(memory):
    chat = memory.user("ann").session("s")
    await talk(chat, 10)
    assert texts(await chat.window("sliding_window_summary")) == texts(await chat.window())
    assert len(await chat.window("sliding_window_summary", messages=20)) == 20


async def test_by_count_more_than_twenty_are_folded_down_to_the_last_ten(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "My name is Ann and I decided to move to Lisbon in May.")
    await talk(chat, 10)
    summary, *rest = await chat.window("sliding_window_summary", messages=20)
    assert summary.role == "system"
    assert "Lisbon" in summary.content
    assert texts(rest) == [text for n in range(5, 10) for text in (f"question {n}", f"answer {n}")]
    everything = (await chat.messages(limit=1000))[0]
    covers = summary.metadata["covers"]
    assert (covers["from"], covers["to"], covers["count"]) == (everything[0].id, everything[10].id, 11)


async def test_by_tokens_the_older_part_is_folded_and_the_rest_fits(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "My name is Ann and I decided to move to Lisbon in May.")
    await talk(chat, 60, words=" about this and that")
    for limit in (100, 400, 900):
        summary, *rest = await chat.window("sliding_window_summary", tokens=limit)
        assert "Lisbon" in summary.content
        assert sum(message_tokens(estimate, message.role, message.content) for message in rest) <= limit
        assert texts(rest)[-1] == "answer 59 about this and that"
        assert summary.metadata["covers"]["count"] + len(rest) == 121


async def test_the_limits_of_a_summarised_window_apply_together(memory):
    chat = memory.user("ann").session("s")
    await talk(chat, 30, words=" and so on and so forth")
    summary, *rest = await chat.window("sliding_window_summary", turns=3)
    assert (len(rest), summary.metadata["covers"]["count"]) == (6, 54)
    _, *rest = await chat.window("sliding_window_summary", messages=20, turns=2)
    assert len(rest) == 4
    _, *rest = await chat.window("sliding_window_summary", messages=20, tokens=40)
    assert 0 < sum(message_tokens(estimate, message.role, message.content) for message in rest) <= 40


async def test_the_worker_folds_by_itself_and_the_raw_messages_stay(open_memory):
    memory = await open_memory(window_tokens=300)
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "My name is Ann and I decided to move to Lisbon in May.")
    await talk(chat, 40, words=" about this and that")
    await memory.work()
    assert (await memory.survey()).records["summary"] == 1
    assert len((await chat.messages(limit=1000))[0]) == 81
    context = await chat.get_context("What now?")
    assert "Lisbon" in context.system
    assert "summary" in [section.name for section in context.sections]


async def test_a_summary_that_tells_nothing_is_in_no_window_and_no_context(open_memory):
    memory = await open_memory(window_tokens=300)
    chat = memory.user("ann").session("s")
    await chat.add_message("system", "Always be kind and brief. " * 60)
    await chat.add_interaction("hello there", "hi")
    assert await chat.compress(), "the instructions are folded, and a summary repeats none"
    context = await chat.get_context("What now?", sections=["summary", "recent"])
    assert context.system == ""
    assert texts(await chat.window("sliding_window_summary")) == ["hello there", "hi"]


async def test_a_summary_continues_from_the_last_and_never_reads_what_that_covers(store_url, open_memory):
    store = CountingStore(await open_store(store_url))
    memory = await open_memory(store, window_tokens=300)
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "My name is Ann and I decided to move to Lisbon in May.")
    counts, read = [], []
    for round in range(8):
        await talk(chat, 15, start=15 * round, words=" about this and that")
        await memory.work()
        store.reset()
        summary, *rest = await chat.window("sliding_window_summary")
        read.append(store.rows)
        counts.append(summary.metadata["covers"]["count"])
        assert "Lisbon" in summary.content, "what matters survives fold after fold"
        assert summary.metadata["covers"]["count"] + len(rest) == 1 + 30 * (round + 1)
    assert counts == sorted(counts)
    assert max(read) < 60, "a window reads itself and the summary, not the whole session"


async def test_many_folds_a_day_are_ordinary_work(open_memory, clock):
    memory = await open_memory(window_tokens=200)
    ann = memory.user("ann")
    chat = ann.session("s")
    for round in range(12):
        await talk(chat, 10, start=10 * round, words=" about this and that")
        await memory.work()
        clock.advance(minutes=5)
    assert await ann.failures() == []
    clock.advance(hours=4)
    await memory.work()
    survey = await memory.survey()
    told = (survey.jobs_waiting, survey.jobs_scheduled)
    assert told == (0, 1), "once the session rests, only the upkeep of tomorrow is left"
    summary, *rest = await chat.window("sliding_window_summary")
    assert summary.metadata["covers"]["count"] + len(rest) == 240


async def test_compressing_folds_half_of_what_is_not_yet_summarised(memory):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "I decided to sell the boat on Friday.")
    assert await chat.compress() is False, "one message is not worth a summary"
    await talk(chat, 10)
    assert await chat.compress() is True
    summary, *rest = await chat.window("sliding_window_summary")
    assert "boat" in summary.content
    assert 5 < len(rest) < 15
    assert await chat.compress() is True
    assert len(await chat.window("sliding_window_summary")) < 1 + len(rest)
    assert len((await chat.messages())[0]) == 21


async def test_compressing_while_somebody_else_does_continues_from_there(open_memory, store, clock):
    chat = (await open_memory(store)).user("ann").session("s")
    await talk(chat, 10)
    await chat.compress()
    await talk(chat, 10)
    (first, *_) = await chat.window("sliding_window_summary")

    async def somebody_else():
        clock.advance(seconds=1)
        assert await chat.compress() is True

    store.before(lambda changes: any(record.layer == "summary" for record in changes.put), somebody_else)
    assert await chat.compress() is True
    (summary, *rest) = await chat.window("sliding_window_summary")
    assert first.metadata["covers"]["count"] < summary.metadata["covers"]["count"] == 40 - len(rest)


@pytest.mark.parametrize("how", [{}, {"turns": 10}, {"tokens": 400}, {"strategy": "importance", "messages": 20}])
async def test_a_window_costs_the_same_however_long_the_session_is(store_url, open_memory, how):
    store = CountingStore(await open_store(store_url))
    memory = await open_memory(store)
    costs = {}
    for name, batches in (("short", 3), ("long", 30)):
        chat = memory.user("ann").session(name)
        for _ in range(batches):
            await chat.add_messages(
                [{"role": "user" if n % 2 == 0 else "assistant", "content": f"number {n}"} for n in range(90)]
            )
        store.reset()
        await chat.window(**how)
        costs[name] = (store.rows, sum(store.calls.values()))
    assert costs["long"] == costs["short"]
    assert costs["long"][0] <= 150


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_closed_session_shows_a_new_message_at_once(open_memory, clock, strategy):
    memory = await open_memory(window_tokens=200)
    chat = memory.user("ann").session("s")
    for number in range(30):
        await chat.add_interaction(f"question {number} about the wall", f"answer {number} about the wall")
    await chat.close()
    await memory.work()
    clock.advance(hours=5)
    await memory.work()
    await chat.add_message("user", "I am back.")
    assert (await chat.window(strategy))[-1].content == "I am back."
    assert (await chat.search_memory("back"))[0].content == "I am back."


async def test_a_large_budget_counts_each_message_a_few_times_however_many_pages_are_read(memory):
    chat = memory.user("ann").session("s")
    for _ in range(10):
        await chat.add_messages([{"role": "assistant", "content": "Understood."}] * 90)
    flow, counted = memory._running, []

    def count(text):
        counted.append(text)
        return estimate(text)

    windows = Windows(flow.ledger, Scope("default", "ann", "", "s"), flow.settings, count)
    window = await windows.window(tokens=2_000_000)
    assert len(window) == 900
    assert counted.count("Understood.") <= 3 * 900
