"""What enrichment makes of new records: their meaning, their importance, near-duplicates merged.

Everything is decided from what was read; the worker commits it together with the end of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from recollect import validate
from recollect.conversation import fold_job
from recollect.errors import ValidationError
from recollect.index import Indexes, PartitionIndex
from recollect.learning import Learning
from recollect.ledger import Ledger, portions
from recollect.policies.importance import importance
from recollect.policies.merging import merged, near_duplicate
from recollect.policies.quarantine import ASIDE, heard, set_aside
from recollect.providers import Embedder, embed_checked, floats
from recollect.records import Changes, Job, Partition, Record, Scope
from recollect.settings import Settings

ENRICHED_RECORDS, ENRICHED_BYTES = 40, 400_000
"""How much is enriched at a time: a record may bring an older one with it, and all go into one commit."""
NEAREST = 8
"""How many of the nearest memories are looked at for one that says the same."""
TOKENS_PER_CHARACTER = 0.2
"""No text has fewer tokens than this a character, about: a cheap look before folding is considered."""


class Enrichment:
    """Enriches records of one partition at a time."""

    def __init__(
        self,
        ledger: Ledger,
        indexes: Indexes,
        embedder: Embedder | None,
        learning: Learning,
        settings: Settings,
    ) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._embedder = embedder
        self._learning = learning
        self._settings = settings

    async def enrich(self, partition: Partition, refs: Sequence[str]) -> tuple[Changes, tuple[str, ...]]:
        """What to change for these records, and those that have to wait for another commit."""
        found = await self._ledger.get(partition, refs)
        if not found:
            return Changes(partition), ()
        records, *rest = portions(found, count_max=ENRICHED_RECORDS, bytes_max=ENRICHED_BYTES)
        rated = [_rated(record) for record in await self._embedded(records)]
        put = {record.id: record for record in rated}
        enqueue: tuple[Job, ...] = ()
        memories = [record for record in rated if record.layer == "long_term"]
        sessions = {(r.scope.session, r.scope.agent) for r in rated if r.layer == "conversation"}
        if memories or sessions:
            index = await self._indexes.current(partition)
            put |= _merge_near(index, memories, self._ledger.clock())
            enqueue = tuple(self._folds(index, partition, sessions))
            put |= self._set_aside(index, rated)
            enqueue += await self._learning.jobs(partition, index, heard(put[record.id] for record in records))
        needs = tuple(record.id for record in records)
        later = tuple(record.id for portion in rest for record in portion)
        return Changes(partition, put=tuple(put.values()), needs=needs, enqueue=enqueue), later

    def _set_aside(self, index: PartitionIndex, records: Sequence[Record]) -> dict[str, Record]:
        """The messages that were said in a session after it was set aside: they are, too."""
        now = self._ledger.clock()
        said = [record for record in records if record.layer == "conversation"]
        heads = {record.scope.session: index.head("session", record.scope, now) for record in said}
        notes = {session: head.data[ASIDE] for session, head in heads.items() if head and ASIDE in head.data}
        return {each.id: set_aside(each, notes[each.scope.session]) for each in said if each.scope.session in notes}

    async def _embedded(self, records: Sequence[Record]) -> list[Record]:
        """The records with their vectors; one call of the embedder for all of them."""
        embedder = self._embedder
        if embedder is None:
            return list(records)
        wanting = [
            record
            for record in records
            if self._ledger.layers[record.layer].embedded
            and record.content
            and (record.vector is None or record.vector.model != embedder.name)
        ]
        vectors = await embed_checked(embedder, [record.told for record in wanting]) if wanting else []
        made = {record.id: vector for record, vector in zip(wanting, vectors, strict=True)}
        return [record.with_(vector=made.get(record.id, record.vector)) for record in records]

    def _folds(self, index: PartitionIndex, partition: Partition, sessions: Iterable[tuple[str, str]]) -> Iterable[Job]:
        """A job for each session that has grown beyond its window."""
        now = self._ledger.clock()
        for session, agent in sessions:
            scope = Scope(partition.org, partition.user, agent, session)
            summary = index.head("summary", scope, now)
            born = tuple(summary.data["covers"]["born"]) if summary else (0, 0)
            since = index.session(session, now, after=born)
            characters = sum(len(message.content) for message in since)
            if characters * TOKENS_PER_CHARACTER + 4 * len(since) > self._settings.window_tokens:
                yield fold_job(scope, now)


def _rated(record: Record) -> Record:
    """With the importance that its text has, unless the caller said how important it is."""
    if record.data.get("rated") or not record.content:
        return record
    role = record.data.get("role", "user")
    rating = importance(record.content, role, repeated=record.data.get("seen", 1) - 1)
    return record.with_(importance=round(rating, 4))


def _merge_near(index: PartitionIndex, memories: Sequence[Record], now: int) -> dict[str, Record]:
    """Of memories that say the same, the newer ended in favour of the older; both sides to be put."""
    changed: dict[str, Record] = {}
    alive = index.alive(now, ("long_term",))
    for place, memory in enumerate(memories):
        for known, cosine in (*_near(memory, memories[:place]), *_near_in(index, alive, memory, memories)):
            pair = (changed.get(known.id, known), changed.get(memory.id, memory))
            older, newer = sorted(pair, key=lambda record: record.born)
            both_live = older.valid_to is None and newer.valid_to is None
            if both_live and _fit_together(older, newer) and near_duplicate(older.content, newer.content, cosine):
                kept, ended = merged(older, newer, similarity=round(cosine, 4), now=now)
                changed |= {kept.id: kept, ended.id: ended}
    return changed


def _fit_together(older: Record, newer: Record) -> bool:
    """True when the metadata of both still is within the limits of one record."""
    try:
        validate.metadata(dict(newer.metadata) | dict(older.metadata))
    except ValidationError:
        return False
    return True


def _near(memory: Record, others: Sequence[Record]) -> Iterable[tuple[Record, float]]:
    """Other memories of the same job, which the index has no vectors of yet."""
    if memory.vector is None:
        return
    for other in others:
        if other.vector is not None and other.vector.model == memory.vector.model:
            yield other, float(floats(other.vector) @ floats(memory.vector))


def _near_in(
    index: PartitionIndex, alive: NDArray[np.bool_], memory: Record, taken: Sequence[Record]
) -> Iterable[tuple[Record, float]]:
    """The nearest memories of the index."""
    if memory.vector is None or memory.vector.model != index.model:
        return
    ids = {record.id for record in taken}
    cosines = np.where(alive, index.meaning(floats(memory.vector), alive), np.float32(-2))
    for row in cosines.argsort()[::-1][: NEAREST + len(ids)]:
        other = index.records[row]
        if alive[row] and other.id not in ids:
            yield other, float(cosines[row])
