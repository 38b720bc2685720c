"""An index that was kept up to date, by whatever two programs did to one store, is as one that is built anew.

And while nobody asks it, it takes little memory. Asked or not, it takes as much as it is counted for.
"""

from __future__ import annotations

import gc
import random
import sys
from types import FunctionType, ModuleType

import numpy as np
import pytest

from recollect.errors import RecollectError
from recollect.index import PartitionIndex
from recollect.postings import Vocabulary
from recollect.records import HOUR_MS, Partition
from recollect.stores import open_store
from recollect.testing.fakes import HashingEmbedder

ANN = Partition("default", "ann")
WORDS = ("apple", "boat", "cat", "dog", "eel", "fox")
SESSIONS = ("s", "t")
IDS = ("m1", "m2", "m3")
STEPS = 60


class Program:
    """Does one thing after the other to the memory of ann."""

    def __init__(self, memory, clock, dice):
        self.memory, self.clock, self.dice = memory, clock, dice
        self.ann = memory.user("ann")

    async def step(self):
        """One of all that can be done, more often what comes up more often; some of it is refused."""
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
    """All that a question could see of an index; what is over may be there or not."""
    findable = index.alive(now)
    living = {id: row for id, row in index.row_of.items() if index.record(id, now) is not None}
    return {
        "records": {id: index.records[row] for id, row in living.items()},
        "heads": {id: head for id, head in index.heads.items() if index.record(id, now) is not None},
        "findable": {id for id, row in living.items() if findable[row]},
        "sessions": {name: ids for name in SESSIONS if (ids := [each.id for each in index.session(name, now)])},
        "layers": {layer: [each.id for each in index.of_layer(layer, now)] for layer in ("conversation", "long_term")},
        "times": {id: int(index.when[row]) for id, row in living.items()},
        "vectors": {id: index.vectors.matrix(len(index.records))[row].tolist() for id, row in living.items()},
    }


@pytest.mark.parametrize("seed", range(4))
async def test_an_index_that_was_kept_is_as_one_that_is_built_anew(open_memory, store_url, clock, seed):
    store, dice = await open_store(store_url), random.Random(seed)
    one, two = [Program(await open_memory(store, conversation_days=2), clock, dice) for _ in range(2)]
    for _ in range(STEPS):
        await dice.choice((one, two)).step()
        reader = dice.choice((one, two))
        kept = await reader.kept()
        if dice.random() < 0.3:
            kept.rest()
        assert seen(kept, clock()) == seen(await reader.built_anew(), clock())


def held_by(index):
    """The bytes of all objects that only this index refers to, however they are referred to."""
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


async def test_a_message_takes_little_over_a_kilobyte_while_nobody_asks(open_memory):
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
    """The indexes of so many users with some messages each, as they were asked one after the other."""
    for number in range(count):
        user = memory.user(f"user{number}")
        said = [{"role": "user", "content": f"{'We sailed past it. ' * 9}{each}"} for each in range(20)]
        await user.session("s").add_messages(said)
    await memory.work()
    for number in range(count):
        await memory.user(f"user{number}").search_memory("What did we sail past?")
    return [index for partition, index in memory._flow.indexes._held.items() if partition.user]


async def test_only_those_who_were_asked_last_stay_unpacked(open_memory):
    found = await people_who_asked(await open_memory(index_awake=3), 4)  # the org is asked with each of them
    assert [index.records.unpacked > 0 for index in found] == [False, False, True, True]


async def test_where_memory_is_short_some_rest_before_anyone_is_let_go(open_memory):
    found = await people_who_asked(await open_memory(index_mib=1), 24)
    rests = [index.records.unpacked == 0 for index in found]
    assert len(rests) == 24
    assert 0 < sum(rests) < 16
    assert rests == sorted(rests, reverse=True)
    assert sum(index.nbytes for index in found) < 1.02 * (1 << 20)
