"""Claim, enrich, merge, commit: what happens to a message after it is safely stored.

A job's results and its end are one commit. A crash before it leaves the job to be claimed again,
a crash after it leaves nothing to do, and a worker that lost its lease writes nothing. Work that
keeps failing becomes a record that people can see and retry, never silence.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recollect.conversation import Conversation
from recollect.errors import Conflict, RecollectError, Unavailable
from recollect.filters import Filter
from recollect.index import Indexes, PartitionIndex
from recollect.ledger import Ledger, portions
from recollect.policies.importance import importance
from recollect.policies.merging import merged, near_duplicate
from recollect.policies.tokens import TokenCounter
from recollect.providers import Embedder, embed_checked, floats
from recollect.records import DAY_MS, HOUR_MS, Changes, Job, Partition, Record, Scope, derived_id
from recollect.settings import Settings
from recollect.stores.contract import LeaseLost

log = logging.getLogger("recollect.worker")

CONFLICT_TRIES = 3
"""How often a job reads and decides again when what it read was changed meanwhile."""
ENRICHED_RECORDS, ENRICHED_BYTES = 45, 400_000
"""How much is enriched at a time: a record may bring an older one with it, and all go into one commit."""
NEAREST = 8
"""How many of the nearest memories are looked at for one that says the same."""
TOKENS_PER_CHARACTER = 0.2
"""No text has fewer tokens than this a character, about: a cheap look before folding is considered."""

Handler = Callable[[Job], Awaitable[Changes]]


class Worker:
    """Runs the jobs of a store, in this process or beside it, any number of them."""

    def __init__(
        self, ledger: Ledger, indexes: Indexes, embedder: Embedder | None, settings: Settings, count: TokenCounter
    ) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._embedder = embedder
        self._settings = settings
        self._count = count
        self._handlers: dict[str, Handler] = {
            "enrich": self._enrich,
            "settle": self._enrich,
            "fold": self._fold,
            "upkeep": self._upkeep,
        }
        self.done = 0
        self.failed = 0

    async def run(self) -> None:
        """Work until cancelled: at once when this process has work, else by looking from time to time."""
        while True:
            self._ledger.work_waits.clear()
            try:
                busy = await self.round()
            except Exception as error:
                # Whatever it is, it must not end the worker: it is told, and tried again.
                log.warning("work could not be looked for: %s", reason_of(error))
                busy = 0
            if not busy:
                try:
                    async with asyncio.timeout(self._settings.poll_s):
                        await self._ledger.work_waits.wait()
                except TimeoutError:
                    pass

    async def work(self) -> int:
        """Run what is due until nothing is. Gives how many jobs were run."""
        total = 0
        while count := await self.round():
            total += count
        return total

    async def round(self) -> int:
        """Claim some jobs and run them side by side.

        Jobs that compare new memories with known ones take turns within a partition, so that each
        sees what the one before it has written.
        """
        jobs = await self._ledger.store.claim(self._ledger.clock(), self._settings.lease_s, self._settings.claim_jobs)
        rows: dict[object, list[Job]] = {}
        for job in jobs:
            rows.setdefault(job.partition if job.kind == "settle" else (job.partition, job.id), []).append(job)
        await asyncio.gather(*(self._run_in_turn(row) for row in rows.values()))
        return len(jobs)

    # ── one job ──────────────────────────────────────────────────────────────────────────────────

    async def _run_in_turn(self, jobs: Sequence[Job]) -> None:
        hearts = [asyncio.create_task(self._keep_lease(job)) for job in jobs]
        try:
            for job, heart in zip(jobs, hearts, strict=True):
                await self._run(job)
                heart.cancel()
        finally:
            for heart in hearts:
                heart.cancel()

    async def _run(self, job: Job) -> None:
        try:
            await self._attempt(job)
            self.done += 1
        except LeaseLost:
            pass  # another worker has it, or the memories were erased: nothing was written
        except Exception as error:
            log.warning("job %s failed at attempt %d: %s", job.kind, job.attempt, reason_of(error))
            await self._put_off(job, error)

    async def _attempt(self, job: Job) -> None:
        handler = self._handlers.get(job.kind)
        if handler is None:
            raise Unavailable(f"this version does not know jobs of kind {job.kind}", field="kind")
        for attempt in range(CONFLICT_TRIES):
            changes = await handler(job)
            try:
                await self._ledger.commit(changes.and_(finish=(job,)))
                return
            except Conflict as conflict:
                if isinstance(conflict, LeaseLost) or attempt == CONFLICT_TRIES - 1:
                    raise

    async def _keep_lease(self, job: Job) -> None:
        """Extend the lease of a job that takes long: finish it and enqueue it, with the same attempt."""
        while True:
            await asyncio.sleep(self._settings.lease_s / 3)
            due_at = self._ledger.clock() + int(self._settings.lease_s * 1000)
            try:
                again = replace(job, due_at=due_at)
                await self._ledger.commit(Changes(job.partition, finish=(job,), enqueue=(again,)))
            except RecollectError:
                return

    async def _put_off(self, job: Job, error: Exception) -> None:
        """Try again later, a little later each time; at last keep the failure where people see it."""
        now = self._ledger.clock()
        changes = Changes(job.partition, finish=(job,))
        if job.attempt < self._settings.job_attempts_max:
            wait_ms = int(self._settings.retry_s * 1000 * 2 ** (job.attempt - 1))
            changes = changes.and_(enqueue=(replace(job, due_at=now + wait_ms),))
        else:
            self.failed += 1
            changes = changes.and_(put=(await self._failure(job, error, now),))
        try:
            await self._ledger.commit(changes)
        except RecollectError as second:
            log.warning("job %s could not be put off: %s", job.kind, reason_of(second))

    async def _failure(self, job: Job, error: Exception, now: int) -> Record:
        id = derived_id("failure", job.id)
        known = await self._ledger.get(job.partition, [id])
        scope = Scope(job.partition.org, job.partition.user)
        data = {"job": job.id, "kind": job.kind, "refs": list(job.refs), "attempts": job.attempt}
        version = known[0].version if known else 0
        return Record(id, "failure", scope, reason_of(error), data, created_at=now, version=version)

    # ── what jobs do ─────────────────────────────────────────────────────────────────────────────

    async def _enrich(self, job: Job) -> Changes:
        """Meaning and importance of new records, near-duplicates merged, folding when it is due."""
        found = await self._ledger.get(job.partition, job.refs)
        if not found:
            return Changes(job.partition)
        records, *rest = portions(found, count_max=ENRICHED_RECORDS, bytes_max=ENRICHED_BYTES)
        rated = [_rated(record) for record in await self._embedded(records)]
        put = {record.id: record for record in rated}
        enqueue: tuple[Job, ...] = ()
        memories = [record for record in rated if record.layer == "long_term"]
        sessions = {(r.scope.session, r.scope.agent) for r in rated if r.layer == "conversation"}
        if memories or sessions:
            index = await self._indexes.current(job.partition)
            put |= _merge_near(index, memories, self._ledger.clock())
            enqueue = tuple(self._folds(index, job.partition, sessions))
        later = tuple(record.id for portion in rest for record in portion)
        if later:
            enqueue += (replace(job, id=f"{job.id}+", refs=later, due_at=self._ledger.clock(), attempt=0),)
        needs = tuple(record.id for record in records)
        return Changes(job.partition, put=tuple(put.values()), needs=needs, enqueue=enqueue)

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
        return [replace(record, vector=made.get(record.id, record.vector)) for record in records]

    def _folds(self, index: PartitionIndex, partition: Partition, sessions: Iterable[tuple[str, str]]) -> Iterable[Job]:
        """A job for each session that has grown beyond its window."""
        now = self._ledger.clock()
        for session, agent in sessions:
            scope = Scope(partition.org, partition.user, agent, session)
            summary = index.record(self._ledger.layers["summary"].head_id(scope), now)
            born = tuple(summary.data["covers"]["born"]) if summary else (0, 0)
            since = index.session(session, now, after=born)
            characters = sum(len(message.content) for message in since)
            if characters * TOKENS_PER_CHARACTER + 4 * len(since) > self._settings.window_tokens:
                yield Job(f"fold:{derived_id(session)}", partition, "fold", (session, agent), due_at=now)

    async def _fold(self, job: Job) -> Changes:
        session, agent = job.refs
        scope = Scope(job.partition.org, job.partition.user, agent, session)
        conversation = Conversation(self._ledger, scope, self._settings, self._count)
        return await conversation.fold() or Changes(job.partition)

    async def _upkeep(self, job: Job) -> Changes:
        """Remove for good what has been dead for a day, and come back when the next can go."""
        now = self._ledger.clock()
        where = Filter(job.partition, dead_before=now - DAY_MS)
        gone = await self._ledger.store.forget(where, now)
        while not gone.done:
            gone = await self._ledger.store.forget(where, now)
        if gone.next_at is None:
            return Changes(job.partition)
        due_at = max(gone.next_at + DAY_MS, now + HOUR_MS)
        return Changes(job.partition, enqueue=(Job("upkeep", job.partition, "upkeep", due_at=due_at),))


def reason_of(error: BaseException) -> str:
    """Why something failed, without any content: our own messages carry none, others may."""
    return f"{type(error).__name__}: {error}" if isinstance(error, RecollectError) else type(error).__name__


def _rated(record: Record) -> Record:
    """With the importance that its text has, unless the caller said how important it is."""
    if record.data.get("rated") or not record.content:
        return record
    role = record.data.get("role", "user")
    rating = importance(record.content, role, repeated=record.data.get("seen", 1) - 1)
    return replace(record, importance=round(rating, 4))


def _merge_near(index: PartitionIndex, memories: Sequence[Record], now: int) -> dict[str, Record]:
    """Of memories that say the same, the newer ended in favour of the older; both sides to be put."""
    changed: dict[str, Record] = {}
    alive = index.alive(now, ("long_term",))
    for place, memory in enumerate(memories):
        for known, cosine in (*_near(memory, memories[:place]), *_near_in(index, alive, memory, memories)):
            pair = (changed.get(known.id, known), changed.get(memory.id, memory))
            older, newer = sorted(pair, key=lambda record: record.born)
            both_live = older.valid_to is None and newer.valid_to is None
            if both_live and near_duplicate(older.content, newer.content, cosine):
                kept, ended = merged(older, newer, similarity=round(cosine, 4), now=now)
                changed |= {kept.id: kept, ended.id: ended}
    return changed


def _near(memory: Record, others: Sequence[Record]) -> Iterable[tuple[Record, float]]:
    """Other memories of the same job, which the index has no vectors of yet."""
    if memory.vector is None:
        return
    for other in others:
        if other.vector is not None:
            yield other, float(floats(other.vector) @ floats(memory.vector))


def _near_in(
    index: PartitionIndex, alive: NDArray[np.bool_], memory: Record, taken: Sequence[Record]
) -> Iterable[tuple[Record, float]]:
    """The nearest memories of the index."""
    if memory.vector is None:
        return
    ids = {record.id for record in taken}
    cosines = np.where(alive, index.meaning(floats(memory.vector), alive), np.float32(-2))
    for row in cosines.argsort()[::-1][: NEAREST + len(ids)]:
        other = index.records[row]
        if alive[row] and other.id not in ids:
            yield other, float(cosines[row])
