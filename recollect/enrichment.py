"""Enrichment of new records: vectors, importance, and merging of near-duplicates.

Everything is decided from what was read; the worker commits it together with the end of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from recollect import validate
from recollect.episodes import episode_job
from recollect.errors import ValidationError
from recollect.index import PartitionIndex
from recollect.indexes import Indexes
from recollect.learning import Learning
from recollect.ledger import Ledger, portions, upkeep_job
from recollect.pace import Pace
from recollect.policies.importance import importance
from recollect.policies.merging import COSINE_MIN, Wordings, can_stand_for, merged
from recollect.policies.quarantine import ASIDE, heard, set_aside
from recollect.providers import Embedder, Floats, embed_checked, floats
from recollect.records import MINUTE_MS, Changes, Job, Partition, Record, Vector
from recollect.running_summary import fold_job
from recollect.settings import Settings
from recollect.stores.contract import OPERATIONS_MAX

ENRICHED_RECORDS, ENRICHED_BYTES = 40, 400_000
"""How much is enriched at a time: a record may change an older one too, and all of it goes into one commit."""
NEAREST = 8
"""How many of the nearest memories are checked for one that says the same."""
COMPARED = 50
"""Rows whose vectors are compared with that of a new memory in the time that one unit of work takes."""
TOKENS_PER_CHARACTER = 0.2
"""Roughly the fewest tokens per character in any text: a cheap check before folding is considered."""


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
        """The changes for these records, and the ids of those that must wait for another commit."""
        # An index already in memory has the records once it has caught up, which it has to do anyway.
        index = await self._indexes.current(partition) if partition in self._indexes else None
        ledger = self._ledger if index is None else self._ledger.reading(index)
        found = await ledger.get(partition, refs)
        # Some were forgotten or have expired meanwhile: upkeep removes what is left of them.
        upkeep = (upkeep_job(partition, self._ledger.clock()),) if len(found) < len(set(refs)) else ()
        if not found:
            return Changes(partition, enqueue=upkeep), ()
        records, *rest = portions(found, count_max=ENRICHED_RECORDS, bytes_max=ENRICHED_BYTES)
        later = tuple(record.id for portion in rest for record in portion)
        needs = tuple(record.id for record in records)
        if not any(record.layer in ("long_term", "conversation") for record in records):
            return Changes(partition, put=tuple(await self._enriched(records)), needs=needs, enqueue=upkeep), later
        if index is None:
            index = await self._indexes.current(partition)
        index.bury_ended(self._ledger.clock())  # so that an index without queries drops ended records, too
        aside = self._set_aside(index, records)
        known = [aside.get(record.id, record) for record in records]
        taught = await self._learning.taught(partition, index, heard(known), _room_beside(records, refs))
        # Learning may just have changed a record that is to be enriched: enrich the changed one.
        learned = {record.id: record for record in taught.put if record.layer != "conversation"}
        known = [learned.get(record.id, record) for record in known]
        enriched = await self._enriched((*known, *_waiting(taught)))
        put = {record.id: record for record in (*taught.put, *enriched)}
        memories = [record for record in enriched if record.layer == "long_term"]
        put |= await _merge_near(index, memories, self._ledger.clock())
        sessions = {record.scope.session: record for record in records if record.layer == "conversation"}
        jobs = (*_without_enriching(taught), *self._episodes(sessions.values()), *self._folds(index, sessions.values()))
        jobs += upkeep
        needs = tuple(dict.fromkeys((*needs, *taught.needs)))
        return Changes(partition, put=tuple(put.values()), needs=needs, enqueue=jobs), later

    def _set_aside(self, index: PartitionIndex, records: Sequence[Record]) -> dict[str, Record]:
        """The messages added to a session after it was set aside, now set aside as well."""
        now = self._ledger.clock()
        said = [record for record in records if record.layer == "conversation"]
        heads = {record.scope.session: index.head("session", record.scope, now) for record in said}
        notes = {session: head.data[ASIDE] for session, head in heads.items() if head and ASIDE in head.data}
        return {each.id: set_aside(each, notes[each.scope.session]) for each in said if each.scope.session in notes}

    async def despite_failing(self, job: Job) -> tuple[Job, ...]:
        """The jobs that must follow even when enrichment fails: episodes are still made of the sessions."""
        found = await self._ledger.get(job.partition, job.refs) if job.kind == "enrich" else ()
        newest = {record.scope.session: record for record in found if record.layer == "conversation"}
        return tuple(self._episodes(newest.values()))

    async def learn(self, job: Job) -> Changes:
        """The changes of a job of kind `learn`, with vectors for everything that was learned."""
        taught = await self._learning.run(job)
        put = {record.id: record for record in (*taught.put, *await self._enriched(_waiting(taught)))}
        return replace(taught, put=tuple(put.values()), enqueue=_without_enriching(taught))

    async def _enriched(self, records: Sequence[Record]) -> list[Record]:
        """The records with their vectors and importance; one embedder call for all of them."""
        embedder = self._embedder
        if embedder is None:
            return [_rated(record, record.vector) for record in records]
        wanting = [
            record
            for record in records
            if self._ledger.layers[record.layer].embedded
            and record.content
            and (record.vector is None or record.vector.model != embedder.name)
        ]
        vectors = await embed_checked(embedder, [record.told for record in wanting]) if wanting else []
        made = {record.id: vector for record, vector in zip(wanting, vectors, strict=True)}
        return [_rated(record, made.get(record.id, record.vector)) for record in records]

    def _episodes(self, newest: Iterable[Record]) -> Iterator[Job]:
        """The jobs of making episodes of each session once it rests.

        Enqueued here rather than with each message, so that writers do not pay for it: every
        message has a job that leads here.
        """
        idle_ms = self._settings.episode_idle_minutes * MINUTE_MS
        for message in newest:
            yield episode_job(message.scope, message.created_at, idle_ms)

    def _folds(self, index: PartitionIndex, newest: Iterable[Record]) -> Iterator[Job]:
        """A job for each session that has grown beyond its window."""
        now = self._ledger.clock()
        for scope in (message.scope for message in newest):
            summary = index.head("summary", scope, now)
            born = tuple(summary.data["covers"]["born"]) if summary else (0, 0)
            if self._outgrows(*index.spoken(scope.session, born)):
                since = index.session(scope.session, now, after=born)
                if self._outgrows(len(since), sum(len(message.content) for message in since)):
                    yield fold_job(scope, now)

    def _outgrows(self, messages: int, characters: int) -> bool:
        return characters * TOKENS_PER_CHARACTER + 4 * messages > self._settings.window_tokens


def _rated(record: Record, vector: Vector | None) -> Record:
    """The record with its vector, and with the importance of its text unless the caller rated it."""
    if record.data.get("rated") or not record.content:
        return record.with_(vector=vector)
    role = record.data.get("role", "user")
    rating = importance(record.content, role, repeated=record.data.get("seen", 1) - 1)
    return record.with_(vector=vector, importance=rating)


def _waiting(taught: Changes) -> list[Record]:
    """The learned records that would otherwise need an enrich job of their own."""
    ids = {id for job in taught.enqueue if job.kind == "enrich" for id in job.refs}
    return [record for record in taught.put if record.id in ids]


def _without_enriching(taught: Changes) -> tuple[Job, ...]:
    return tuple(job for job in taught.enqueue if job.kind != "enrich")


def _room_beside(records: Sequence[Record], refs: Sequence[str]) -> int:
    """The operations a commit has left beside these records.

    A memory may add an older one, a session two jobs, each id may finish a job, and upkeep is one more.
    """
    memories = sum(record.layer == "long_term" for record in records)
    sessions = len({record.scope.session for record in records if record.layer == "conversation"})
    return OPERATIONS_MAX - 1 - len(refs) - len(records) - memories - 2 * sessions


async def _merge_near(index: PartitionIndex, memories: Sequence[Record], now: int) -> dict[str, Record]:
    """For memories that say the same, end the newer in favour of the older; both are to be put."""
    changed: dict[str, Record] = {}
    wordings, pace = Wordings(), Pace()
    taken = {memory.id for memory in memories}
    for memory, before in _with_those_before(memories):
        alive = index.alive(now, ("long_term",))  # asked each time: others may have added rows meanwhile
        others = index.nearest(memory.vector, alive, NEAREST + len(memories), COSINE_MIN)
        held = islice(((other, cosine) for other, cosine in others if other.id not in taken), NEAREST)
        for known, cosine in (*before, *held):
            pair = (changed.get(known.id, known), changed.get(memory.id, memory))
            older, newer = sorted(pair, key=lambda record: record.born)
            if joined := _joined(older, newer, cosine, now, wordings):
                changed |= {record.id: record for record in joined}
            await pace.done(characters=len(known.content))
        await pace.done(len(index) // COMPARED)
    return changed


def merged_pair(older: Record, newer: Record, now: int, wordings: Wordings) -> tuple[Record, Record] | None:
    """The older memory with the newer merged in, and the newer one, ended; None if they do not say the same."""
    *_, (_, before) = _with_those_before((older, newer))
    cosine = before[0][1] if before else 0.0
    return _joined(older, newer, cosine, now, wordings)


def _joined(older: Record, newer: Record, cosine: float, now: int, wordings: Wordings) -> tuple[Record, Record] | None:
    both_live = older.valid_to is None and newer.valid_to is None
    same = both_live and wordings[older.content].is_near(wordings[newer.content], cosine)
    if same and fit_together(older, newer):
        return merged(older, newer, similarity=round(cosine, 4), now=now)
    return None


def fit_together(older: Record, newer: Record) -> bool:
    """True when the older one can stand for both, with the joint metadata within the limits of one record."""
    if not can_stand_for(older, newer):
        return False
    try:
        validate.metadata(dict(newer.metadata) | dict(older.metadata))
    except ValidationError:
        return False
    return True


def _with_those_before(memories: Iterable[Record]) -> Iterator[tuple[Record, list[tuple[Record, float]]]]:
    """Each memory with earlier ones near enough to say the same: the index does not have their vectors yet."""
    numbers_of: dict[str, list[tuple[Record, Floats]]] = {}
    for memory in memories:
        near = []
        if memory.vector is not None:
            numbers, before = floats(memory.vector), numbers_of.setdefault(memory.vector.model, [])
            cosines = ((other, float(np.vecdot(theirs, numbers))) for other, theirs in before)
            near = [(other, cosine) for other, cosine in cosines if cosine >= COSINE_MIN]
            before.append((memory, numbers))
        yield memory, near
