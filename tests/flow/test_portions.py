"""An index read in portions, while others write, forget, erase and give up, equals one read in one go."""

from __future__ import annotations

import asyncio
import random
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
from test_index import ANN, WORDS, Program

from recollect import Memory
from recollect.errors import Unavailable
from recollect.index import PartitionIndex
from recollect.policies.quarantine import is_aside
from recollect.policies.words import query_terms
from recollect.records import Partition
from recollect.stores import open_store
from recollect.stores.contract import OPERATIONS_MAX, Delta, Mark
from recollect.testing.fakes import HashingEmbedder, ManualClock
from recollect.testing.faults import ended, start

pytestmark = pytest.mark.usefixtures("small_portions")

ROUNDS, AT_ONCE = 12, 8
BOB = Partition("default", "bob")
TALK = 4 * (OPERATIONS_MAX - 6)


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few rows per portion that a short conversation takes many, and vector codes from the start."""
    monkeypatch.setattr("recollect.uptake.READ_ROWS", 2)
    monkeypatch.setattr("recollect.postings.TOGETHER", 2)
    monkeypatch.setattr("recollect.index.ENCODED_ROWS", 3)
    for name in ("indexes.PAGE", "stores.in_memory.CHANGES_MIN", "stores.sqlite.CHANGES_MIN"):
        monkeypatch.setattr(f"recollect.{name}", OPERATIONS_MAX)
    for name in ("CODES_FROM_ROWS", "RESCORED_ROWS"):
        monkeypatch.setattr(f"recollect.vectors.{name}", 4)


class Crowd(Program):
    """A program that does several things at once and queries in between."""

    async def say(self) -> None:
        roles, marks = ("user", "assistant"), ".?"
        chosen = [(self.dice.choice(roles), self.dice.choice(marks)) for _ in range(self.dice.choice((1, 5, 30)))]
        await self.chat.add_messages([{"role": role, "content": f"The {self.word}{mark}"} for role, mark in chosen])

    async def forget(self) -> None:
        await self.ann.forget(await self.some())

    async def set_aside(self) -> None:
        await self.ann.quarantine(ids=[await self.some()])

    async def release(self) -> None:
        """Release something quarantined, or nothing; what was quarantined comes last when the index is read anew."""
        ids = [each.id for each in (await self.kept()).held("conversation", self.clock()) if is_aside(each)]
        await self.ann.release(ids=ids[:1] or ["nobody"])

    async def delete(self) -> None:
        if self.dice.random() < 0.2:
            await super().delete()

    async def some(self) -> str:
        """The id of some message."""
        held = (await self.kept()).held("conversation", self.clock())
        return self.dice.choice(held).id if held else "nobody"

    async def ask(self) -> None:
        await self.ann.search_memory(f"Where is the {self.word}?")

    async def look(self) -> None:
        await self.ann.get_context(f"Where is the {self.word}?")
        await self.ann.sessions()
        await self.ann.profile()

    async def rest(self) -> None:
        (await self.kept()).rest()

    async def leave(self) -> None:
        self.memory._flow.indexes.drop(ANN)

    async def all_at_once(self) -> None:
        """Run steps concurrently and cancel some; the only error allowed is the cancellation."""
        steps = [
            self.step,
            *self.dice.choices((self.step, self.ask, self.ask, self.look, self.rest, self.leave), k=AT_ONCE),
        ]
        tasks = [asyncio.create_task(each()) for each in steps]
        for task in tasks:
            for _ in range(self.dice.randrange(4)):
                await asyncio.sleep(0)
            if self.dice.random() < 0.2:
                task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome


def told(index: PartitionIndex, now: int) -> dict[str, Any]:
    """What an index says about words, neighbours and speakers, by the ids of findable records."""
    ids = found(index, now)
    talk = index.talk()
    said = [row for row in ids if index.records[row].layer == "conversation"]
    names = dict(enumerate(index.records.ids))
    words = {word: index.words(query_terms(word, index.language)).nonzero()[0].tolist() for word in WORDS}
    return {
        "words": {word: {ids[row] for row in rows if row in ids} for word, rows in words.items()},
        "before": {ids[row]: names.get(int(talk.before[row])) for row in said},
        "after": {ids[row]: names.get(int(talk.after[row])) for row in said},
        "together": {frozenset(ids[row] for row in said if talk.session[row] == group) for group in talk.session[said]},
        "users": {ids[row] for row in said if talk.user[row]},
        "asks": {ids[row] for row in said if talk.asks[row]},
    }


def found(index: PartitionIndex, now: int) -> dict[int, str]:
    alive = index.alive(now)
    return {row: id for id, row in index.row_of.items() if alive[row]}


def near(index: PartitionIndex, now: int) -> dict[str, float]:
    """How near everything is to an unrelated vector."""
    query = np.full(index.spaces.vectors.dimensions, index.spaces.vectors.dimensions**-0.5, np.float32)
    scores = index.spaces.vectors.scores(query, len(index.records), np.ones(len(index.records), np.bool_))
    return {id: float(scores[row]) for row, id in found(index, now).items()}


async def check(program: Program) -> None:
    """Check that the index a program has kept equals one built from the store now."""
    kept, anew, now = await program.kept(), await program.built_anew(), program.clock()
    while (kept.mark.epoch, kept.mark.revision) != (anew.mark.epoch, anew.mark.revision):
        # a commit whose caller gave up has landed in between
        kept, anew = await program.kept(), await program.built_anew()
    assert told(kept, now) == told(anew, now)
    assert near(kept, now) == pytest.approx(near(anew, now), abs=0.05)


@pytest.mark.parametrize("seed", range(6))
async def test_an_index_read_in_portions_while_it_changes_equals_one_read_in_one_go(
    open_memory, store_url, clock, seed
):
    store, dice = await open_store(store_url), random.Random(seed)
    one, two = [Crowd(await open_memory(store, conversation_days=365), clock, dice) for _ in range(2)]
    for _ in range(60):
        await dice.choice((one, two)).step()
        kept = await one.kept()
        for _ in range(dice.randrange(6)):
            kept.read_on(for_signs=dice.random() < 0.5)
        if dice.random() < 0.2:
            kept.rest()
        if dice.random() < 0.3:
            await check(one)
    while kept.read_on(for_signs=True):
        pass
    assert kept.uptake.unread == kept.uptake.unsigned == 0


@pytest.mark.parametrize("seed", range(4))
async def test_concurrent_and_cancelled_calls_leave_a_complete_index(open_memory, store_url, clock, seed):
    store, dice = await open_store(store_url), random.Random(seed)
    one, two = [Crowd(await open_memory(store, conversation_days=365), clock, dice) for _ in range(2)]
    for _ in range(ROUNDS):
        await asyncio.gather(one.all_at_once(), two.all_at_once())
        for each in (one, two):
            await check(each)


async def test_a_conversation_whose_first_messages_were_touched_last_is_read_in_order(open_memory, store_url):
    store = await open_store(store_url)
    ann = (await open_memory(store)).user("ann")
    said = [{"role": "user", "content": f"The boat number {number}"} for number in range(150)]
    ids = [
        each.id for start in range(0, 150, 75) for each in await ann.session("s").add_messages(said[start : start + 75])
    ]
    for some in (ids[:75], ids[75:-1]):
        await ann.quarantine(ids=some)
        await ann.release(ids=some)
    anew = (await open_memory(store)).user("ann")
    hits = await anew.search_memory("Which boat is number 77?")
    assert hits[0].content == "The boat number 77"
    assert [each.content for each in hits[0].neighbours] == ["The boat number 76", "The boat number 78"]


async def talkative(memory: Memory, user: str) -> None:
    """Have a user say more than fits into three pages of changes."""
    for _ in range(4):
        said = [{"role": "user", "content": f"The boat of {user}"} for _ in range(TALK // 4)]
        await memory.user(user).session("s").add_messages(said)


async def test_what_was_read_before_a_caller_gave_up_is_counted_and_resumed(open_memory, store_url):
    store = await open_store(store_url)
    await talkative(await open_memory(store), "ann")
    indexes = (await open_memory(store))._flow.indexes
    reading = asyncio.create_task(indexes.current(ANN))
    while ANN not in indexes._held or indexes._held[ANN].mark is None:
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    half = indexes._held[ANN]
    assert 0 < len(half) < TALK
    assert indexes._bytes == half.nbytes
    assert await indexes.current(ANN) is half
    assert len(half) == TALK


async def test_a_user_requested_by_many_at_once_is_read_by_one_of_them(open_memory, store_url, monkeypatch):
    store = await open_store(store_url)
    await talkative(await open_memory(store), "ann")
    indexes = (await open_memory(store))._flow.indexes
    changes, told = store.changes, []

    async def counted(partition: Partition, mark: Mark | None, limit: int) -> Delta:
        delta = await changes(partition, mark, limit)
        told.extend([record.id for record in delta.put if record.layer == "conversation"])
        return delta

    monkeypatch.setattr(store, "changes", counted)
    first, *others = [asyncio.create_task(indexes.current(ANN)) for _ in range(AT_ONCE)]
    while ANN not in indexes._held or indexes._held[ANN].mark is None:
        await asyncio.sleep(0)
    first.cancel()  # one of the others takes over
    found = await asyncio.gather(*others)
    assert [len(index) for index in found] == [TALK] * len(others)
    assert len(told) <= TALK + OPERATIONS_MAX  # each once, except a page in flight to the caller that gave up
    assert not indexes._read_in
    assert not indexes._unfinished


async def test_a_large_index_is_read_completely_even_if_memory_is_short_and_others_ask(
    open_memory, store_url, monkeypatch
):
    store = await open_store(store_url)
    memory = await open_memory(store)
    for user in ("ann", "bob"):
        await talkative(memory, user)
    indexes = (await open_memory(store))._flow.indexes
    indexes._bytes_max = 1
    changes, begun = store.changes, []

    async def counted(partition: Partition, mark: Mark | None, limit: int) -> Delta:
        begun.extend([partition] if mark is None else [])
        return await changes(partition, mark, limit)

    monkeypatch.setattr(store, "changes", counted)
    await indexes.current(BOB)
    reading = asyncio.create_task(indexes.current(ANN))
    while not reading.done():
        await indexes.current(BOB)
        await asyncio.sleep(0)
        assert begun.count(ANN) <= 1
    assert len(await reading) == TALK


@pytest.mark.parametrize("store_name", ["memory"])
async def test_a_user_erased_while_a_context_is_built_is_not_in_it(open_memory, store_url):
    store = await open_store(store_url)
    memory = await open_memory(store)
    await talkative(memory, "ann")
    await memory.user("ann").add_fact("city", "Oslo")
    ann = (await open_memory(store)).user("ann")
    asking = asyncio.create_task(ann.get_context("Where is the boat?"))
    while (index := ann._flow.indexes._held.get(ANN)) is None or not 0 < index.uptake.unread < len(index) == TALK + 1:
        await asyncio.sleep(0)
    await memory.user("ann").erase()
    assert not asking.done()
    assert "Oslo" not in (await asking).system


@pytest.mark.parametrize("ticks", range(0, 300, 30))
async def test_a_reader_is_answered_or_told_so_when_the_memory_closes(open_memory, store_url, store_name, ticks):
    store = await open_store(store_url)
    await talkative(await open_memory(store), "ann")
    memory = await open_memory(store if store_name == "memory" else store_url)
    asking = asyncio.create_task(memory.user("ann").search_memory("Where is the boat?"))
    for _ in range(ticks):
        await asyncio.sleep(0)
    await memory.close()
    try:
        assert {hit.content for hit in await asking} == {"The boat of ann"}
    except Unavailable:
        pass


class Elsewhere(Crowd):
    """A program in another process, with the same clock as ours."""

    async def wait(self) -> None:
        pass


async def live(url: str, seed: int) -> None:
    """What another process does to ann: add, forget, quarantine, erase."""
    clock = ManualClock()
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False, clock=clock, conversation_days=365) as memory:
        program = Elsewhere(memory, clock, random.Random(seed))
        for _ in range(60):
            await program.step()


@pytest.mark.parametrize("store_name", ["sqlite"])
@pytest.mark.parametrize("seed", range(2))
async def test_an_index_read_while_another_process_writes_equals_one_read_in_one_go(
    open_memory, store_url, clock, seed
):
    reader = Crowd(await open_memory(conversation_days=365), clock, random.Random(seed))
    await talkative(reader.memory, "ann")
    other = start(live, store_url, seed)
    while other.exitcode is None:
        await reader.leave()
        await asyncio.gather(reader.ask(), reader.look(), reader.ask())
        await check(reader)
    assert ended(other) == 0
    await check(reader)


@pytest.mark.parametrize(
    "fails", ["index.PartitionIndex._fill", "vocabulary.Vocabulary.read", "arrangement.Arrangement._link"]
)
async def test_a_failure_in_the_middle_leaves_nothing_half_read(open_memory, store_url, clock, monkeypatch, fails):
    store = await open_store(store_url)
    await talkative(await open_memory(store), "ann")
    program = Crowd(await open_memory(store), clock, random.Random(0))
    holder, name = resolve_name(f"recollect.{fails.rpartition('.')[0]}"), fails.rpartition(".")[2]
    whole, calls = getattr(holder, name), 0

    def short_of_memory(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise MemoryError
        return whole(*given)

    monkeypatch.setattr(holder, name, short_of_memory)
    with pytest.raises(MemoryError):
        await program.ask()
    await program.ask()
    await check(program)
