"""Take back what was learned: for good, along with the messages that said it, or as an undo that can be undone.

Facts, preferences, learnings and the entity graph are read, decided anew without some of their
tellings (`policies/unlearning`), and written: each fact in a commit of its own, the rest in portions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recollect.errors import Conflict
from recollect.layers import FACT_LAYERS, GRAPH_LAYERS
from recollect.learning import learn_jobs
from recollect.ledger import UPDATE_TRIES, Ledger
from recollect.long_term import past_states
from recollect.policies.spells import Telling
from recollect.policies.unlearning import Gone, Place, Undo, again, heard_again, is_of, turned, without
from recollect.policies.unlearning_graphs import Left, graph_again, graph_without, learning_again, learning_without
from recollect.records import Changes, Partition, Record, enrich_jobs, in_portions, payload_of
from recollect.spells import entry_of, follow_jobs, spell_of
from recollect.stores.contract import OPERATIONS_MAX, PAYLOAD_MAX_BYTES

if TYPE_CHECKING:
    from recollect.index import PartitionIndex
    from recollect.indexes import Indexes

TOGETHER = OPERATIONS_MAX - 4
"""Operations per commit, leaving room for its jobs."""
PORTIONS = (24, 8, 2)
"""Spells of a fact handled per commit where all of them would be too many. Each may move some others."""
READ_AT_ONCE = 250
"""Facts examined before yielding to other tasks: a few milliseconds."""

Settle = Callable[[Record, Sequence[Record], int | None], Place]
"""From a fact with its past to its new state, for all of its spells or for at most the given number of them."""
Decide = Callable[[Sequence[Record]], Left]
Step = tuple[Record, Record | None]
"""A record as it was read, and its new state: None if it goes."""
Counts = Callable[[Record], bool]
"""Which records are counted: the result is the difference between before and after."""


@dataclass(frozen=True, slots=True)
class Taking:
    """How each kind of learned record changes."""

    fact: Settle
    learning: Callable[[Record], Record | None]
    graph: Decide


class Unlearning:
    """Takes back what was learned in one partition."""

    def __init__(self, ledger: Ledger, indexes: Indexes, partition: Partition) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._partition = partition
        self._past_held: dict[str, Record] = {}
        self._past_read: dict[str, int] = {}
        self._emptied: set[str] = set()

    async def forget(
        self, ids: Collection[str], session: str = "", index: PartitionIndex | None = None
    ) -> Counter[str]:
        """Forget what only these messages, or the messages of a session including expired ones, taught.

        Return how many records of each layer went. `index` saves a look at the store, if the caller has just looked.
        """

        def gone(telling: Telling) -> bool:
            return telling.message in ids or (bool(session) and telling.session == session)

        return await self._take(self._without(gone, None), lambda record: True, index=index)

    async def undo(self, means: Gone, undo: Undo, *, dry_run: bool = False) -> Counter[str]:
        """End what rests on these tellings. Return how many records of each layer change, or would change."""
        return await self._take(self._without(means, undo), lambda record: is_of(record, undo.id), dry_run)

    async def redo(self, undo_id: str) -> Counter[str]:
        """Take an undo back. Return how many records of each layer are restored."""
        now = self._ledger.clock()
        taking = Taking(
            lambda head, past, most: again(head, past, undo_id, now, most),
            lambda record: learning_again(record, undo_id),
            lambda records: {**graph_again(records, undo_id)},
        )
        return await self._take(taking, lambda record: is_of(record, undo_id))

    async def turn(self, head_id: str) -> None:
        """Move the value that is true now to the head of a fact, when one of its values begins."""
        now = self._ledger.clock()
        await self._settle(head_id, lambda head, past, most: turned(head, past, now))

    def _without(self, gone: Gone, undo: Undo | None) -> Taking:
        now = self._ledger.clock()
        return Taking(
            lambda head, past, most: without(head, past, gone, now, undo, most),
            lambda record: learning_without(record, gone, undo),
            lambda records: graph_without(records, gone, undo),
        )

    async def _take(
        self, taking: Taking, counts: Counts, dry_run: bool = False, index: PartitionIndex | None = None
    ) -> Counter[str]:
        # One look is enough for all of it: whatever was changed since is a conflict, and looked at again.
        if index is None:
            index = await self._indexes.current(self._partition)

        def learnings(records: Sequence[Record]) -> Left:
            return {record.id: left for record in records if (left := taking.learning(record)) is not record}

        done = await self._facts(index, taking.fact, counts, dry_run)
        done += await self._records(index, ("learning",), learnings, counts, dry_run)
        return done + await self._records(index, GRAPH_LAYERS, taking.graph, counts, dry_run)

    async def _held(self, index: PartitionIndex, layers: Sequence[str]) -> tuple[list[Record], list[Record]]:
        """All records of these layers and all their past entries, as of one moment.

        Records are in memory, where scanning thousands costs next to nothing. The past is read once, and then only
        what changed: a spell that moves from a head into the past, or back, must not be missed in both. So where the
        past that was read is not that of the index, both are read again.
        """
        while await self._read_past(index):
            index = await self._indexes.current(self._partition)
        now = self._ledger.clock()
        past = [entry for entry in self._past_held.values() if entry.data.get("layer") in layers]
        held = [record for layer in layers for record in index.held(layer, now)]
        return held, sorted(past, key=lambda entry: entry.born)

    async def _read_past(self, index: PartitionIndex) -> bool:
        """Read what changed of the past. Return whether it may not be as of the same moment as the index."""
        changed = self._changed_past(index)
        if not changed:
            return False
        self._past_read = dict(index.past)
        found = {entry.id: entry for entry in await self._ledger.get(self._partition, sorted(changed))}
        # What the index has and the store has not is expired, or was dropped after the index looked.
        gone = changed & self._past_read.keys() - found.keys() - self._emptied
        self._past_held = {id: entry for id, entry in self._past_held.items() if id not in changed} | found
        self._past_read |= {id: entry.version for id, entry in found.items()}
        return bool(gone or self._changed_past(index))

    def _changed_past(self, index: PartitionIndex) -> set[str]:
        known = index.past.keys() | self._past_read.keys()
        return {id for id in known if index.past.get(id) != self._past_read.get(id)}

    # ── facts ────────────────────────────────────────────────────────────────────────────────────

    async def _facts(self, index: PartitionIndex, settle: Settle, counts: Counts, dry_run: bool) -> Counter[str]:
        heads, past = await self._held(index, FACT_LAYERS)
        by_head: dict[str, list[Record]] = {}
        for entry in past:
            by_head.setdefault(str(entry.data["of"]), []).append(entry)
        done: Counter[str] = Counter()
        for number, head in enumerate(heads):
            if number % READ_AT_ONCE == 0:
                await asyncio.sleep(0)
            spells = [*(spell_of(entry, head) for entry in by_head.get(head.id, ())), head]
            place = settle(head, spells[:-1], None)
            after = [*place.past, place.head]
            if not all(one is other for one, other in zip(spells, after, strict=True)):
                done[head.layer] += _difference(spells, after, counts)
                if not dry_run:
                    await self._settle(head.id, settle)
        return done

    async def _settle(self, id: str, settle: Settle) -> None:
        """Write the new state of one fact, deciding anew whenever another writer was faster.

        A long past takes several commits, and the fact is consistent after each of them.
        """
        while await self._ledger.commit_decided(lambda: self._settled(id, settle)):
            pass

    async def _settled(self, id: str, settle: Settle) -> Changes | None:
        found = await self._ledger.get(self._partition, [id])
        if not found:
            return None
        head = found[0]
        entries = await self._entries(head)
        spells = [spell_of(entry, head) for entry in entries]
        for most in (None, *PORTIONS):
            place = settle(head, spells, most)
            steps = [
                (entry, None if after is None else entry_of(after, entry))
                for entry, before, after in zip(entries, spells, place.past, strict=True)
                if after is not before
            ]
            steps += [] if place.head == head else [(head, place.head)]
            if len(steps) <= TOGETHER and sum(map(_bytes, steps)) <= PAYLOAD_MAX_BYTES:
                break
        if not steps:
            return None
        now = self._ledger.clock()
        jobs = follow_jobs(self._partition, [head], now) + learn_jobs(
            self._partition, heard_again(head, place.head) if place.head is not None else (), now
        )
        return self._changes(steps).and_(enqueue=jobs)

    async def _entries(self, head: Record) -> list[Record]:
        return await past_states(self._ledger, self._partition, [head])

    # ── learnings and the graph ──────────────────────────────────────────────────────────────────

    async def _records(
        self, index: PartitionIndex, layers: tuple[str, ...], decide: Decide, counts: Counts, dry_run: bool
    ) -> Counter[str]:
        done: Counter[str] = Counter()
        for attempt in range(UPDATE_TRIES):
            held, past = await self._held(index, layers)
            records = [*held, *past]
            known = {record.id: record for record in records}
            changed = [(known[id], after) for id, after in decide(records).items()]
            done = done if attempt else _counted(changed, counts)
            # What rests on an entity goes before it, so that a crash leaves no dangling records.
            steps = sorted(changed, key=lambda step: step[0].layer == "entity")
            try:
                for some in () if dry_run else _portions(steps):
                    await self._ledger.commit(self._changes(some))
                return done
            except Conflict:
                if attempt == UPDATE_TRIES - 1:
                    raise
                index = await self._indexes.current(self._partition)
        return done

    def _changes(self, steps: Iterable[Step]) -> Changes:
        """One commit: put what changes, empty what goes, and queue new lines for embedding."""
        steps = list(steps)
        self._emptied.update(before.id for before, after in steps if after is None)
        put = tuple(_emptied(before) if after is None else after for before, after in steps)
        layers = self._ledger.layers
        refs = tuple(r.id for r in put if layers[r.layer].embedded and r.content and r.vector is None)
        return Changes(self._partition, put=put, enqueue=enrich_jobs(self._partition, refs, self._ledger.clock()))


def _counted(steps: Iterable[Step], counts: Counts) -> Counter[str]:
    """How many records change, by layer: without earlier states, and without the records of further names."""
    done: Counter[str] = Counter()
    for before, after in steps:
        if before.layer != "past" and not before.data.get("alias"):
            done[before.layer] += _difference([before], [after], counts)
    return done


def _difference(before: Sequence[Record], after: Sequence[Record | None], counts: Counts) -> int:
    return abs(sum(map(counts, before)) - sum(counts(record) for record in after if record is not None))


def _emptied(record: Record) -> Record:
    """An empty record in the same place, expired long ago: as good as dropped.

    A drop removes whatever is there; this, like any put, is refused if the record was changed meanwhile.
    """
    return Record(record.id, record.layer, record.scope, expires_at=0, version=record.version, born=record.born)


def _bytes(step: Step) -> int:
    _, record = step
    return 0 if record is None else len(payload_of(record).encode()) + (len(record.vector.data) if record.vector else 0)


def _portions(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """The steps in order, in portions that each fit one commit."""
    return in_portions(steps, _bytes, count_max=TOGETHER, size_max=PAYLOAD_MAX_BYTES)
