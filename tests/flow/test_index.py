"""An index kept up to date, whatever two programs did to one store, equals one that is built anew.

While nobody queries it, it takes little memory. Queried or not, it takes as much as it is counted for.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import random
import sys
import weakref
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest

from recollect.errors import RecollectError, Unavailable
from recollect.index import PartitionIndex
from recollect.records import DAY_MS, HOUR_MS, Partition, Record, Scope
from recollect.stores import open_store
from recollect.stores.contract import Delta, Mark
from recollect.testing.fakes import HashingEmbedder
from recollect.uptake import READ_ROWS
from recollect.vocabulary import Vocabulary

ANN = Partition("default", "ann")
WORDS = ("apple", "boat", "cat", "dog", "eel", "yesterday")
SESSIONS = ("s", "t")
IDS = ("m1", "m2", "m3")
STEPS = 60
in_memory = pytest.mark.parametrize("store_name", ["memory"])
in_a_file = pytest.mark.parametrize("store_name", ["sqlite"])


@pytest.fixture
def none_rests_in_memory(monkeypatch):
    monkeypatch.setattr("recollect.indexes.RESTING_BYTES", 0)


class Program:
    """Does one thing after another to ann's memory."""

    def __init__(self, memory, clock, dice):
        self.memory, self.clock, self.dice = memory, clock, dice
        self.ann = memory.user("ann")

    async def step(self):
        """Do one random thing, the common ones more often; some of it is refused."""
        steps = (self.say,) * 4 + (self.note,) * 3 + (self.wait,) * 2 + (self.work,) * 2
        steps += (self.forget, self.delete, self.edit, self.set_aside, self.release, self.rename, self.tell, self.erase)
        try:
            await self.dice.choice(steps)()
        except RecollectError:
            pass

    async def say(self):
        await self.chat.add_message("user", f"I like the {self.word}.", id=self.dice.choice(IDS))

    async def note(self):
        life = {"expires_at": self.clock() + HOUR_MS} if self.dice.random() < 0.3 else {}
        await self.ann.add_memory(f"{self.word} {self.word}", **life)

    async def forget(self):
        await self.ann.forget(self.dice.choice(IDS))

    async def delete(self):
        await self.chat.delete()

    async def edit(self):
        notes = (await self.ann.list_memories())[0]
        if notes:
            await self.ann.update_memory(self.dice.choice(notes).id, content=f"{self.word} and {self.word}")

    async def set_aside(self):
        await self.ann.quarantine(session=self.dice.choice(SESSIONS))

    async def release(self):
        await self.ann.release(session=self.dice.choice(SESSIONS))

    async def rename(self):
        await self.chat.rename(self.word)

    async def tell(self):
        hours = self.dice.randint(-2, 2)
        await self.ann.add_fact("city", self.word, valid_from=self.clock() + hours * HOUR_MS)

    async def erase(self):
        if self.dice.random() < 0.2:
            await self.ann.erase()

    async def wait(self):
        self.clock.advance(hours=self.dice.choice((-1, 1, 10, 30)))

    async def work(self):
        await self.memory.work()

    @property
    def chat(self):
        return self.ann.session(self.dice.choice(SESSIONS))

    @property
    def word(self):
        return self.dice.choice(WORDS)

    async def kept(self):
        return await self.memory._flow.indexes.current(ANN)

    async def built_anew(self):
        index = PartitionIndex(*self.memory._flow.indexes._shape)
        delta = await self.memory._flow.ledger.store.changes(ANN, None)
        index.apply(delta)
        assert not delta.more
        return index


def seen(index, now):
    """Everything a query could see of an index, whether or not it still holds what is over."""
    findable = index.alive(now)
    living = {id: row for id, row in index.row_of.items() if index.record(id, now) is not None}
    return {
        "records": {id: index.records[row] for id, row in living.items()},
        "heads": {id: head for id, head in index.heads.items() if index.record(id, now) is not None},
        "findable": {id for id, row in living.items() if findable[row]},
        "sessions": {name: ids for name in SESSIONS if (ids := [each.id for each in index.session(name, now)])},
        "layers": {layer: [each.id for each in index.of_layer(layer, now)] for layer in ("conversation", "long_term")},
        "times": {id: int(index.when[row]) for id, row in living.items()},
        "times told": {id: index.time_told(row) for id, row in living.items()},
        "vectors": {id: index.spaces.vectors.matrix(len(index.records))[row].tolist() for id, row in living.items()},
    }


@pytest.mark.parametrize("seed", range(4))
async def test_an_index_kept_up_to_date_equals_a_rebuilt_one(open_memory, store_url, clock, seed):
    store, dice = await open_store(store_url), random.Random(seed)
    one, two = [Program(await open_memory(store, conversation_days=2), clock, dice) for _ in range(2)]
    for _ in range(STEPS):
        await dice.choice((one, two)).step()
        reader = dice.choice((one, two))
        kept = await reader.kept()
        if dice.random() < 0.3:
            kept.rest()
        assert seen(kept, clock()) == seen(await reader.built_anew(), clock())


@in_a_file
@pytest.mark.usefixtures("none_rests_in_memory")
@pytest.mark.parametrize("seed", range(4))
async def test_an_index_that_was_spilled_to_a_file_equals_a_rebuilt_one(open_memory, store_url, clock, seed):
    store, dice = await open_store(store_url), random.Random(seed)
    one, two = [Program(await open_memory(store, conversation_days=2), clock, dice) for _ in range(2)]
    came_back = 0
    for _ in range(STEPS):
        await dice.choice((one, two)).step()
        reader = dice.choice((one, two))
        indexes = reader.memory._flow.indexes
        came_back += ANN in indexes and ANN not in indexes._held
        kept = await reader.kept()
        assert seen(kept, clock()) == seen(await reader.built_anew(), clock())
        indexes._lay_to_rest()
    assert came_back > 10


async def test_yesterday_is_another_day_once_it_is_known_that_something_was_said_earlier():
    index, said = PartitionIndex("", 0, "en"), Record("r", "relation", Scope("default", "ann"), "We moved yesterday.")
    told = []
    for revision, day in enumerate((20, 10), start=1):
        moved = said.with_(event_at=day * DAY_MS, born=(1, 0), version=revision)
        index.apply(Delta(Mark(1, revision, 0), put=(moved,)))
        told.append(index.time_told(index.row_of["r"]))
    assert told == [(19 * DAY_MS, 20 * DAY_MS), (9 * DAY_MS, 10 * DAY_MS)]


@in_memory
async def test_the_first_query_of_a_user_with_many_records_lets_other_tasks_run(open_memory, store_url):
    store = await open_store(store_url)
    memory = await open_memory(store)
    for first in range(0, 3_000, 60):
        said = [f"The {WORDS[number % 6]} number {number}" for number in range(first, first + 60)]
        chat = memory.user("ann").session(f"s{first}")
        await chat.add_messages([{"role": "user", "content": text} for text in said])
    known = [hit.content for hit in await memory.user("ann").search_memory("Which boat is number 1237?")]
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    anew = await open_memory(store)
    waiting = asyncio.create_task(others())
    assert [hit.content for hit in await anew.user("ann").search_memory("Which boat is number 1237?")] == known
    waiting.cancel()
    assert known[0] == "The boat number 1237"
    assert turns > 2 * 3_000 // READ_ROWS


def held_by(index):
    """The bytes of all objects that only this index refers to, directly or indirectly."""
    seen, waiting, held = set(), [index], 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, (type, ModuleType, FunctionType, Vocabulary)):
            continue
        seen.add(id(each))
        held += sys.getsizeof(each)
        waiting += gc.get_referents(each)
        waiting += [each.base] if isinstance(each, np.ndarray) and each.base is not None else []
    return held


async def test_a_message_takes_little_over_a_kilobyte_while_the_index_rests(open_memory):
    memory = await open_memory(embedder=HashingEmbedder(dimensions=256))
    for number in range(80):
        said = f"On day {number} we sailed {number * 7} miles past lighthouse {number % 9}, in fog."
        await memory.user("ann").session(f"s{number // 20}").add_message("user", said)
    await memory.work()
    await memory.user("ann").search_memory("Which lighthouse did we pass in the fog?")
    index = await memory._flow.indexes.current(ANN)
    asked = held_by(index)
    assert index.nbytes == pytest.approx(asked, rel=0.15)
    index.rest()
    resting = held_by(index)
    assert len(index) >= 80
    assert resting / len(index) < 1_250 < asked / len(index)
    assert index.nbytes == pytest.approx(resting, rel=0.15)


async def people_who_asked(memory, count):
    """The indexes of `count` users with some messages each, queried one after another."""
    for number in range(count):
        user = memory.user(f"user{number}")
        said = [{"role": "user", "content": f"{'We sailed past it. ' * 9}{each}"} for each in range(20)]
        await user.session("s").add_messages(said)
    await memory.work()
    for number in range(count):
        await memory.user(f"user{number}").search_memory("What did we sail past?")
    return held_of_users(memory)


def held_of_users(memory):
    return {partition.user: index for partition, index in memory._flow.indexes._held.items() if partition.user}


@in_memory
async def test_only_the_indexes_queried_last_stay_unpacked(open_memory):
    found = await people_who_asked(await open_memory(index_awake=3), 4)  # the org is queried with each of them
    assert [index.records.unpacked > 0 for index in found.values()] == [False, False, True, True]


@in_memory
async def test_when_memory_is_short_some_indexes_rest_before_any_is_dropped(open_memory):
    found = (await people_who_asked(await open_memory(index_mib=1), 24)).values()
    rests = [index.records.unpacked == 0 for index in found]
    assert len(rests) == 24
    assert 0 < sum(rests) < 16
    assert rests == sorted(rests, reverse=True)
    assert sum(index.nbytes for index in found) < 1.02 * (1 << 20)


@in_a_file
@pytest.mark.usefixtures("none_rests_in_memory")
async def test_with_a_file_only_the_indexes_queried_last_are_in_memory(open_memory, store_url):
    memory = await open_memory(index_awake=3)
    before = sorted(os.listdir(Path(store_url.removeprefix("sqlite:///")).parent))
    assert [*await people_who_asked(memory, 6)] == ["user4", "user5"]
    assert memory._flow.indexes.describe()["aside"] == 4
    assert sorted(os.listdir(Path(store_url.removeprefix("sqlite:///")).parent)) == before  # its file has no name


@in_a_file
@pytest.mark.usefixtures("none_rests_in_memory")
async def test_a_user_who_comes_back_finds_the_same_as_one_who_stayed(open_memory):
    awake, aside = [await open_memory(index_awake=each) for each in (100, 1)]
    for memory in (awake, aside):
        await people_who_asked(memory, 6)
    asked = "Where did we sail, number 7?"
    for number in range(6):
        found = [await memory.user(f"user{number}").search_memory(asked) for memory in (awake, aside)]
        assert [(hit.id, hit.score, dict(hit.legs)) for hit in found[0]] == [
            (hit.id, hit.score, dict(hit.legs)) for hit in found[1]
        ]
    assert aside._flow.indexes.describe()["misses"] == awake._flow.indexes.describe()["misses"]


@in_a_file
@pytest.mark.usefixtures("none_rests_in_memory")
@pytest.mark.parametrize("forget", ["a message", "everything", "by another program"])
async def test_what_is_forgotten_is_not_in_the_file_either(open_memory, forget):
    memory, other = await open_memory(index_awake=1), await open_memory()
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "The xylophonist lives in Zwolle.")
    await ann.session("s").add_message("user", "I like boats.")
    await ann.search_memory("Who lives in Zwolle?")
    await memory.user("bob").search_memory("And now somebody else?")
    assert b"xylophonist" in laid_aside(memory)
    if forget == "a message":
        await ann.forget(message.id)
    elif forget == "everything":
        await ann.erase()
    else:
        await other.user("ann").forget(message.id)
        await ann.search_memory("Who lives in Zwolle?")  # this program learns of it when ann is queried
    await memory.user("bob").search_memory("And now somebody else?")
    await memory.user("cem").search_memory("And somebody else?")
    assert b"xylophonist" not in laid_aside(memory)
    assert [hit.content for hit in await ann.search_memory("Zwolle, boats")][:1] == ["I like boats."] * (
        forget != "everything"
    )


@in_a_file
@pytest.mark.usefixtures("none_rests_in_memory")
async def test_what_is_forgotten_is_not_in_the_file_even_if_the_answer_was_lost(open_memory, monkeypatch):
    memory = await open_memory(index_awake=1)
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "The xylophonist lives in Zwolle.")
    await ann.search_memory("Who lives in Zwolle?")
    await memory.user("bob").search_memory("And now somebody else?")
    assert b"xylophonist" in laid_aside(memory)
    store = memory._flow.ledger.store
    commit = store.commit

    async def lost(changes, now):
        await commit(changes, now)
        raise Unavailable("the line was cut", field="store")

    monkeypatch.setattr(store, "commit", lost)
    with pytest.raises(Unavailable):
        await ann.forget(message.id)
    assert b"xylophonist" not in laid_aside(memory)


@in_a_file
@pytest.mark.usefixtures("none_rests_in_memory")
async def test_after_its_time_an_index_leaves_the_file_while_nobody_asks_anything(open_memory, monkeypatch):
    monkeypatch.setattr("recollect.aside.AGE_S", 0.05)
    memory = await open_memory(index_awake=1)
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "The xylophonist lives in Zwolle.")
    await ann.search_memory("Who lives in Zwolle?")
    await memory.user("bob").search_memory("And now somebody else?")
    for _ in range(100):
        if b"xylophonist" not in laid_aside(memory):
            break
        await asyncio.sleep(0.05)
    assert b"xylophonist" not in laid_aside(memory)


def laid_aside(memory):
    """Everything in the file of the resting indexes."""
    file = memory._flow.indexes._aside._file
    file.seek(0)
    return file.read()


@in_a_file
@pytest.mark.usefixtures("none_rests_in_memory")
async def test_indexes_rest_in_memory_when_no_file_can_be_written(open_memory, monkeypatch, caplog):
    def full(*_args, **_named):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("recollect.aside.tempfile.TemporaryFile", full)
    found = await people_who_asked(await open_memory(index_awake=3), 4)
    assert [index.records.unpacked > 0 for index in found.values()] == [False, False, True, True]
    assert [each.getMessage() for each in caplog.records if each.name == "recollect.aside"] == [
        "indexes of inactive users stay in memory: they cannot be written to a file (No space left on device)"
    ]


@in_a_file
@pytest.mark.usefixtures("none_rests_in_memory")
async def test_an_index_whose_vocabulary_is_gone_is_rebuilt(open_memory, monkeypatch):
    memory = await open_memory(index_awake=1)
    await people_who_asked(memory, 2)
    memory._flow.indexes._held.clear()
    monkeypatch.setattr("recollect.vocabulary._shared", {})
    gc.collect()
    assert await memory.user("user0").search_memory("What did we sail past?")


@in_a_file
async def test_some_resting_indexes_stay_in_memory_and_all_of_those_are_counted(open_memory, monkeypatch):
    monkeypatch.setattr("recollect.indexes.RESTING_BYTES", 100_000)
    memory = await open_memory(index_awake=3)
    for _ in range(3):
        held = await people_who_asked(memory, 12)
        indexes = memory._flow.indexes
        assert 3 < len(held) < 12
        assert indexes._bytes == sum(index.counted_nbytes for index in indexes._held.values())
        resting = sum(index.counted_nbytes for index in indexes._resting.values())
        assert 50_000 < indexes._resting_bytes == resting <= 100_000


@in_memory
async def test_indexes_without_records_count_only_while_they_are_held(open_memory):
    memory = await open_memory(index_mib=1)
    for number in range(400):
        await memory.user(f"nobody{number}").search_memory("Anything?")
    indexes = memory._flow.indexes
    assert len(indexes._held) < 400
    assert indexes._bytes == sum(index.counted_nbytes for index in indexes._held.values()) < 1 << 20


@in_memory
async def test_an_index_that_could_not_be_read_is_not_held(open_memory, monkeypatch):
    memory = await open_memory()

    async def away(*_args):
        raise Unavailable("the store is away", field="store")

    monkeypatch.setattr(memory._flow.ledger.store, "changes", away)
    for number in range(5):
        with pytest.raises(Unavailable):
            await memory.user(f"user{number}").search_memory("Anything?")
    assert not memory._flow.indexes._held


@in_memory
async def test_indexes_keep_only_two_vocabularies_alive(open_memory, monkeypatch):
    monkeypatch.setattr("recollect.vocabulary.WORDS_MAX", 100)
    memory, seen = await open_memory(), weakref.WeakValueDictionary()
    for number in range(12):
        user = memory.user(f"user{number}")
        await user.add_memory(" ".join(f"word{number}x{each}" for each in range(60)))
        await user.search_memory(f"word{number}x7")
        seen[number] = memory._flow.indexes._held[Partition("default", f"user{number}")].vocabulary
    gc.collect()
    assert len({id(each) for each in seen.values()}) == 2
    assert await memory.user("user0").search_memory("word0x7")
