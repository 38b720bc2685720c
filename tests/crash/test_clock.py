"""Clocks go back, jump ahead and step while we run: order, expiry and leases stay right, and no id repeats."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from recollect.records import Changes, Job, Partition, Record, Scope, new_id
from recollect.stores import open_store
from recollect.stores.contract import LeaseLost
from recollect.testing.drills import living_rows, unfinished_jobs
from recollect.testing.fakes import ManualClock
from recollect.testing.scenes import opened

TEN_YEARS = 3_652
ANN = Partition("default", "ann")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memories.db"


async def said(chat) -> list[str]:
    return [message.content for message in (await chat.messages(limit=1_000))[0]]


@pytest.mark.parametrize("step", [{"hours": -1}, {"days": 20}, {"days": -TEN_YEARS}])
async def test_messages_stay_in_the_order_they_were_sent_when_the_clock_jumps(path, clock, step):
    async with opened(path, clock) as memory:
        chat = memory.user("ann").session("chat")
        for number in range(10):
            await chat.add_message("user", f"Number {number}.")
            if number == 4:
                clock.advance(**step)
        assert await said(chat) == [f"Number {number}." for number in range(10)]
        assert [message.content for message in await chat.window(messages=3)] == [f"Number {n}." for n in (7, 8, 9)]


async def test_records_expire_at_their_stored_time_whatever_the_clock_did_meanwhile(path, clock):
    async with opened(path, clock) as memory:
        user = memory.user("ann")
        chat = user.session("chat")
        await chat.add_message("user", "Short-lived words.")
        await chat.working.set({"step": 1})
        await user.add_memory("Ann drinks tea.")
        clock.advance(hours=-1)
        assert await chat.working.get() == {"step": 1}
        clock.advance(hours=24, minutes=59)
        assert await chat.working.get() == {"step": 1}, "its life began before the clock went back"
        clock.advance(minutes=1)
        assert await chat.working.get() == {}
        clock.advance(days=TEN_YEARS)
        assert await said(chat) == []
        assert len((await user.list_memories())[0]) == 1
        clock.advance(days=-TEN_YEARS)
        assert await said(chat) == ["Short-lived words."], "a wrong clock alone destroys nothing"


async def test_after_a_jump_ahead_and_back_search_finds_what_still_lives(path, clock):
    async with opened(path, clock) as memory:
        user = memory.user("ann")
        await user.session("chat").add_message("user", "The violin stands in the attic.")
        await memory.work()
        clock.advance(days=TEN_YEARS)
        assert await user.search_memory("violin") == []
        clock.advance(days=-TEN_YEARS)
        assert [hit.content for hit in await user.search_memory("violin")] == ["The violin stands in the attic."]


async def test_upkeep_under_a_right_clock_removes_only_the_dead(path, clock):
    async with opened(path, clock) as memory:
        user = memory.user("ann")
        await user.session("old").add_message("user", "Old words.")
        clock.advance(days=20)
        await user.session("new").add_message("user", "New words.")
        clock.advance(hours=-1)
        clock.advance(days=12)
        await memory.work()
        assert [row.content for row in living_rows(path, 0)] == ["New words."]


async def test_a_lease_holds_when_the_clock_goes_back_and_its_fence_holds_when_it_jumps_ahead(path, clock):
    store = await open_store(path)
    await store.commit(Changes(ANN, enqueue=(Job("j", ANN, "enrich", due_at=clock()),)), clock())
    (first,) = await store.claim(clock(), 60, 10)
    clock.advance(hours=-1)
    assert await store.claim(clock(), 60, 10) == [], "it is not offered twice"
    clock.advance(days=TEN_YEARS)
    (second,) = await store.claim(clock(), 60, 10)
    clock.advance(days=-TEN_YEARS)
    effect = Record("effect", "fact", Scope("default", "ann"), "done once")
    with pytest.raises(LeaseLost):
        await store.commit(Changes(ANN, put=(effect,), finish=(first,)), clock())
    await store.commit(Changes(ANN, put=(effect,), finish=(second,)), clock())
    clock.advance(days=TEN_YEARS)
    assert await store.claim(clock(), 60, 10) == []
    await store.close()


async def test_after_the_clock_goes_back_new_work_is_done_at_once_and_earlier_work_when_due(path, clock):
    async with opened(path, clock) as memory:
        chat = memory.user("ann").session("chat")
        await chat.add_message("user", "Before the step.", id="before")
        clock.advance(hours=-1)
        await chat.add_message("user", "After the step.", id="after")
        await memory.work()
        embedded = {row.id for row in living_rows(path, clock()) if row.embedded}
        assert "after" in embedded
        clock.advance(hours=1)
        await memory.work()
        assert {row.id for row in living_rows(path, clock()) if row.embedded} == {"before", "after"}


@pytest.mark.parametrize("step", [{"hours": -1}, {"hours": 25}, {"days": -TEN_YEARS}])
async def test_a_call_repeated_with_its_key_is_one_call_whatever_the_clock_did_meanwhile(path, clock, step):
    async with opened(path, clock) as memory:
        chat = memory.user("ann").session("chat")
        first = await chat.add_interaction("Hi.", "Hello!", idempotency_key="greeting")
        clock.advance(**step)
        again = await chat.add_interaction("Hi.", "Hello!", idempotency_key="greeting")
        assert [message.id for message in again] == [message.id for message in first]
        assert await said(chat) == ["Hi.", "Hello!"]


async def test_while_the_clock_keeps_stepping_nothing_is_lost_duplicated_or_out_of_order(path, clock, seed):
    chance = random.Random(seed)
    sent: list[str] = []
    ids: list[str] = []
    async with opened(path, clock) as memory:
        user = memory.user("ann")
        chat = user.session("chat")
        for number in range(150):
            clock.advance(hours=chance.choice((-1, 0, 0, 0, 1)), milliseconds=chance.randint(-5_000, 5_000))
            pair = (f"Question {number} about trees?", f"Answer {number} about trees.")
            ids += [message.id for message in await chat.add_interaction(*pair)]
            sent += pair
            ids.append((await user.add_memory(f"Tree {number} was planted in garden {number}.")).id)
            if chance.random() < 0.2:
                await memory.work()
        clock.advance(days=2)
        await memory.work()
        assert await said(chat) == sent
        assert len(ids) == len(set(ids)) == 450
        assert await user.failures() == []
    rows = [row for row in living_rows(path, clock()) if row.layer in ("conversation", "long_term")]
    assert len(rows) == 450
    assert all(row.embedded for row in rows)
    assert unfinished_jobs(path) == []


def test_ids_made_in_one_millisecond_or_under_a_clock_that_goes_back_never_repeat(seed):
    chance = random.Random(seed)
    now = ManualClock()()
    made = Counter(new_id(now + chance.choice((-3_600_000, 0, 0, 0, 1))) for _ in range(100_000))
    assert max(made.values()) == 1
