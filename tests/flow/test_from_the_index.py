"""Whatever two programs do to one store, an index answers what reading the whole store would."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeVar

import pytest

from recollect import Memory, sections
from recollect.errors import NotFound, RecollectError
from recollect.filters import Filter
from recollect.index import PartitionIndex
from recollect.policies.merging import merges_of
from recollect.policies.quarantine import act_of, is_aside, is_noted
from recollect.policies.ties import UNLEARNED, rests_on
from recollect.records import HOUR_MS, MINUTE_MS, Partition, Record
from recollect.stores import open_store
from recollect.testing.fakes import ManualClock

ANN = Partition("default", "ann")
STEPS = 70
KNOWN = ("fact", "preference", "learning", "entity", "relation")
NAMES = ("Ida", "Bo", "Acme", "Oslo")
SAID = ("I live in Oslo.", "My sister is Ida.", "I work at Acme.", "I like rowing.", "What a day.")
NOTES = ("Tea is green.", "Tea is green!", "Boats need paint.")


T = TypeVar("T")


class Life:
    """One thing after another that can happen to what is known about ann; some of it is refused."""

    def __init__(self, memory: Memory, clock: ManualClock, dice: random.Random) -> None:
        self.memory, self.clock, self.dice = memory, clock, dice
        self.ann = memory.user("ann")
        self.undone: list[str] = []

    async def step(self) -> None:
        often = (self.say, self.say, self.note, self.tell, self.relate, self.work, self.wait, self.wait)
        seldom = (self.reply, self.merge, self.unmerge, self.end, self.branch, self.delete, self.edit, self.learn)
        acts = (self.undo, self.redo, self.set_aside, self.release, self.forget, self.come_back, self.set)
        try:
            await self.dice.choice(often + seldom + acts)()
        except RecollectError:
            pass

    async def say(self) -> None:
        await self.chat.add_messages([{"role": "user", "content": self.dice.choice(SAID)}])

    async def reply(self) -> None:
        quotes = {"quotes": [(await self.some()).id]}
        await self.chat.add_messages([{"role": "assistant", "content": "You said so.", "metadata": quotes}])

    async def note(self) -> None:
        life = {"expires_at": self.clock() + HOUR_MS} if self.dice.random() < 0.2 else {}
        await self.ann.add_memory(self.dice.choice(NOTES), metadata={self.name: "yes"}, **life)

    async def tell(self) -> None:
        since, until = sorted(self.clock() + self.dice.randint(-3, 3) * 10 * MINUTE_MS for _ in range(2))
        times = {"valid_from": since, "valid_to": until} if since < until and self.dice.random() < 0.5 else {}
        await self.ann.add_fact(self.dice.choice(("city", "hobby", "sister")), self.name, **times)

    async def set(self) -> None:
        await self.ann.update_preference(self.dice.choice(("tone", "theme")), self.name)

    async def learn(self) -> None:
        await self.ann.add_learning(f"Asks about {self.name}.", type="pattern")

    async def relate(self) -> None:
        await self.ann.graph.relate(
            self.dice.choice(("user", self.name)), self.dice.choice(("sister", "knows")), self.name
        )

    async def end(self) -> None:
        await self.ann.graph.end_relation(self.one_of(await self.ann.graph.relations()).id)

    async def merge(self) -> None:
        await self.ann.graph.merge(self.name, self.name)

    async def unmerge(self) -> None:
        gone = [each for each in await self.all() if each.layer == "entity" and "merged_into" in each.data]
        await self.ann.graph.undo_merge(self.one_of(gone).id)

    async def branch(self) -> None:
        first = await self.some("conversation")
        await self.ann.session(first.scope.session).branch(first.id, into=self.dice.choice("defgh"))

    async def edit(self) -> None:
        await self.ann.update_memory((await self.some("long_term")).id, content=self.dice.choice(NOTES))

    async def delete(self) -> None:
        if self.dice.random() < 0.3:
            await self.chat.delete()

    async def undo(self) -> None:
        message = await self.some("conversation")
        given = {"message_id": message.id} if self.dice.random() < 0.7 else {"session": message.scope.session}
        self.undone.append((await self.ann.undo(**given)).id)

    async def redo(self) -> None:
        await self.ann.redo(self.undone.pop() if self.undone else "nobody")

    async def set_aside(self) -> None:
        await self.ann.quarantine(ids=[(await self.some()).id])

    async def release(self) -> None:
        aside = [each.id for each in await self.all() if is_aside(each) and each.layer != "past"]
        await self.ann.release(ids=aside[:2] or ["nobody"])

    async def forget(self) -> None:
        """Forget something: it is gone, and nothing is left that says it or rests on it."""
        gone = (await self.some()).id
        await self.ann.forget(gone)
        left = await self.all()
        assert gone not in {each.id for each in left}
        assert [each for each in left if each.layer != "past" and gone in rests_on(each)] == []
        assert [each for each in left if any(merge.id == gone for merge in merges_of(each))] == []

    async def come_back(self) -> None:
        """Export, erase and import everything."""
        if self.dice.random() < 0.2:
            told = await self.ann.export()
            await self.ann.erase()
            await self.ann.import_records(told)

    async def work(self) -> None:
        await self.memory.work()

    async def wait(self) -> None:
        self.clock.advance(minutes=self.dice.choice((-30, 5, 5, 20, 20, 60, 600, 5_000)))

    @property
    def chat(self) -> Any:
        return self.ann.session(self.dice.choice("abc"))

    @property
    def name(self) -> str:
        return self.dice.choice(NAMES)

    async def all(self) -> list[Record]:
        """Everything, as the store has it."""
        return [record async for record in self.memory._flow.ledger.walk(Filter(ANN))]

    async def some(self, *layers: str) -> Record:
        """Some existing record of these layers, or of any."""
        held = [each for each in await self.all() if each.layer in (layers or ("conversation", "long_term", *KNOWN))]
        layer = self.one_of(sorted({each.layer for each in held}))
        return self.one_of([each for each in held if each.layer == layer])

    def one_of(self, things: Sequence[T]) -> T:
        if not things:
            raise NotFound
        return self.dice.choice(things)


async def check_known(life: Life) -> None:
    """Check that profile, learnings and graph read the same from the index as from the store."""
    ledger = life.memory._flow.ledger
    for layers in (*((layer,) for layer in KNOWN), ("entity", "relation")):
        stored = [record async for record in ledger.walk(Filter(ANN, layers=layers))]
        assert await ledger.all_of(ANN, *layers) == stored


async def check_sessions(life: Life) -> None:
    """Check that sessions are listed as if their messages had just been counted."""
    said = [each for each in await life.all() if each.layer == "conversation"]
    counted = {
        session: (len(of_it), of_it[0].when, max(each.when for each in of_it))
        for session, each in groupby(sorted(said, key=lambda each: (each.scope.session, each.born)), session_of)
        if (of_it := list(each))
    }
    listed = await life.ann.sessions()
    assert {each.id: (each.messages, ms(each.created_at), ms(each.last_activity)) for each in listed} == counted
    assert [each.last_activity for each in listed] == sorted([each.last_activity for each in listed], reverse=True)
    assert [await life.ann.session(each.id).info() for each in listed] == listed


def session_of(record: Record) -> str:
    return record.scope.session


def ms(time: Any) -> int:
    return round(time.timestamp() * 1_000)


async def check_notes(index: PartitionIndex, now: int) -> None:
    """Check that the notes that were kept are those that would be made now."""
    kept: dict[str, Any] = {}
    lines = await sections._profile(index, now, kept)
    index.notes, made = None, {}
    assert await sections._profile(index, now, made) == lines
    assert made == kept


def check_ties(index: PartitionIndex) -> None:
    """Check that an id leads to everything that names it."""
    held = [index.records[row] for row in index.row_of.values()]
    for record in held:
        acts = [*record.data.get(UNLEARNED, {})] + (
            [act_of(record)["undo"]] if is_aside(record) and is_noted(record) else []
        )
        for id in (*rests_on(record), *(merge.id for merge in merges_of(record)), *acts):
            assert record in index.tied_to(id)
            assert len(index.tied_to(id)) == len({each.id for each in index.tied_to(id)})


@pytest.mark.parametrize("seed", range(8))
async def test_an_index_answers_what_the_store_would(open_memory, store_url, clock, seed, monkeypatch):
    monkeypatch.setattr("recollect.indexes.RESTING_BYTES", 0)
    store, dice = await open_store(store_url), random.Random(seed)
    one, two = [Life(await open_memory(store, conversation_days=3), clock, dice) for _ in range(2)]
    for _ in range(STEPS):
        await dice.choice((one, two)).step()
        reader = dice.choice((one, two))
        index = await reader.memory._flow.indexes.current(ANN)
        await check_notes(index, clock())
        check_ties(index)
        await check_known(reader)
        await check_sessions(reader)
        if dice.random() < 0.3:
            reader.memory._flow.indexes._lay_to_rest()


async def test_records_from_the_index_and_from_the_store_come_in_the_order_asked_for(memory):
    running = memory._running
    await memory.user("ann").add_fact("city", "Oslo")
    notes = [await memory.user("ann").add_memory(note) for note in NOTES[::2]]
    (fact,) = [record async for record in running.ledger.walk(Filter(ANN, layers=("fact",)))]

    class Half:
        """Holds the memories, but not the fact."""

        def stored(self, ids, now):
            held = {note.id: note for note in notes}
            return [held[id] for id in ids if id in held], [id for id in ids if id not in held]

    ids = [fact.id, notes[1].id, "gone", notes[0].id]
    found = await running.ledger.reading(Half()).get(ANN, ids)
    assert [record.id for record in found] == [id for id in ids if id != "gone"]
