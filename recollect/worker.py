"""Claim, enrich, commit: what happens to a message after it is safely stored.

A job's results and its end are one commit. A crash before it leaves the job to be claimed again,
a crash after it leaves nothing to do, and a worker that lost its lease writes nothing. A job that
keeps failing becomes a record that people can see and retry; it is never dropped silently.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from recollect.agreement import Agreement
from recollect.consolidation import Consolidation
from recollect.enrichment import Enrichment
from recollect.episodes import Episodes
from recollect.errors import Conflict, NotFound, RecollectError, Unavailable
from recollect.filters import Filter
from recollect.indexes import Indexes
from recollect.indexing import Indexing
from recollect.ledger import CLEARING, Ledger, upkeep_job, within
from recollect.long_term import LongTerm
from recollect.policies.tokens import TokenCounter
from recollect.privacy import Privacy
from recollect.reading import KINDS, Reading
from recollect.records import MINUTE_MS, SECOND_MS, Changes, Job, Partition, Record, Scope, derived_id
from recollect.running_summary import RunningSummary
from recollect.settings import Settings
from recollect.stores.contract import LeaseLost
from recollect.trust import Trust
from recollect.unlearning import Unlearning
from recollect.upkeep import Upkeep

log = logging.getLogger("recollect.worker")

CONFLICT_TRIES = 3
"""How often a job reads and decides again because what it read was changed meanwhile."""
PATIENCE = 4
"""Factor on the usual attempts for a job that lost to other writers, or that only workers of another version know:
neither is its own fault."""
OUTAGE = 500
"""The same for a job that a store could not serve, which is away, full or overloaded: with the usual pauses this is
most of a day, and a store that comes back sooner needs nobody to retry its work by hand."""
TOGETHER_RECORDS = 30
"""Records that several jobs of one partition may enrich in one commit: each may add an older one and end a job."""

WAITING_PER_QUESTION = 4
"""Jobs held for a model per concurrent request to it: enough to have the next ones ready, no more."""
GIVEN_BACK_MS = 5 * SECOND_MS
"""How long until a job that could not be held is claimed again."""

NOT_HERE = "no chat model is set, which jobs of kind {} need", "this version does not know jobs of kind {}"
"""Why a job cannot be done here. Failure records, old ones too, begin with the error type and end with one of these."""

GIVE_WAY_S = 0.05
"""How long a worker yields to writers in this process."""

Handler = Callable[[Job], Awaitable[Changes]]


class UnknownKind(Unavailable):
    """A job that cannot be done here: workers of a newer version, or those with a chat model, can."""

    def __init__(self, kind: str) -> None:
        unmodelled, unknown = (telling.format(kind) for telling in NOT_HERE)
        super().__init__(unmodelled if kind in KINDS else unknown, field="kind")


class Worker:
    """Runs the jobs of a store, in this process or another; there may be any number of workers."""

    def __init__(
        self,
        ledger: Ledger,
        indexes: Indexes,
        enrichment: Enrichment,
        consolidation: Consolidation,
        upkeep: Upkeep,
        indexing: Indexing,
        settings: Settings,
        count: TokenCounter,
        reading: Reading | None = None,
    ) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._enrichment = enrichment
        self._tending = upkeep
        self._settings = settings
        self._count = count
        self._reading = reading
        self._waiting: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(settings.llm_at_once)
        self._handlers: dict[str, Handler] = dict.fromkeys(KINDS, reading.run) if reading else {}
        self._handlers |= {
            "enrich": self._enrich,
            "learn": enrichment.learn,
            "index": indexing.run,
            CLEARING: indexing.run,
            "fold": self._fold,
            "episode": self._note,
            "remake": self._note,
            "retell": consolidation.retell,
            "trust": self._bring_to_an_end,
            "turn": self._turn,
            "follow": self._follow,
            "lives": self._follow_lives,
            "forget": self._finish_forgetting,
            "unlearn": self._unlearn,
            "upkeep": self._upkeep,
        }
        self._rounds = asyncio.Lock()
        self.done = 0
        self.failed = 0
        self.took: dict[str, tuple[int, float]] = {}
        """How often jobs of each kind were tried, and the seconds they took."""
        self.trouble = ""
        """Why the last attempt to claim jobs failed; empty if it succeeded."""

    async def run(self) -> None:
        """Work until cancelled: at once when this process enqueues jobs, else by polling."""
        while True:
            self._ledger.work_waits.clear()
            await self._give_way()
            try:
                busy = await self.round()
                trouble = ""
            except Exception as error:
                # No error may end the worker: log it and try again.
                busy, trouble = 0, reason_of(error)
            self._tell(trouble)
            if not busy:
                await self._ledger.wait_for_work(self._settings.poll_s)

    def _tell(self, trouble: str) -> None:
        """Log why jobs cannot be claimed, and that they can be again: once each, however long it lasts."""
        if trouble and trouble != self.trouble:
            log.warning("could not look for work: %s", trouble)
        elif self.trouble and not trouble:
            log.warning("jobs can be claimed again")
        self.trouble = trouble

    async def _give_way(self) -> None:
        """Let writers go first for a moment: they wait for an answer, and nobody waits for this.

        Meanwhile more jobs accumulate per user, so they are done in fewer commits.
        """
        await within(GIVE_WAY_S, self._ledger.traffic.calm)

    async def work(self) -> int:
        """Run due jobs until none are left, and wait for those this process is already running."""
        total = 0
        while True:
            # Looked at before the round: a job that ends during it may have enqueued another one.
            running = bool(self._waiting)
            count = await self.round(patient=True)
            if not (count or running or self._waiting):
                return total
            total += count
            await self._wait_for_one()

    async def stop(self) -> None:
        """Cancel the jobs that wait for a model; their leases are given back."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def round(self, *, patient: bool = False) -> int:
        """Claim some jobs and run them: partitions concurrently, those of one partition in turn.

        In turn, because enriching compares what is new with what is known, and has to see what the
        previous job wrote. Jobs that wait for a model are only started; a `patient` caller waits when
        too many of them are waiting.
        """
        async with self._rounds:
            jobs = await self._claim()
            by_partition: dict[Partition, list[Job]] = {}
            for job in jobs:
                if self._reading is not None and job.kind in KINDS:
                    await self._set_going(job, patient)
                else:
                    by_partition.setdefault(job.partition, []).append(job)
            rows = list(by_partition.values())
            if len(rows) > 1:
                await asyncio.gather(*map(self._run_in_turn, rows))
            else:
                for row in rows:  # a single row needs no task of its own
                    await self._run_in_turn(row)
            return len(jobs)

    async def _set_going(self, job: Job, patient: bool) -> None:
        """Start a job that waits for its model alongside the others; give it back for a while if too many wait."""
        most = WAITING_PER_QUESTION * self._settings.llm_at_once
        while patient and len(self._waiting) >= most:
            await self._wait_for_one()
        if len(self._waiting) >= most:
            await self._move_leases([job], self._ledger.clock() + GIVEN_BACK_MS)
            return
        task = asyncio.create_task(self._run_beside(job))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _run_beside(self, job: Job) -> None:
        """Run a job when it is its turn to ask the model; its timeout starts only then."""
        async with self._keeping([job]), self._turns:
            await self._run(job)

    async def _wait_for_one(self) -> None:
        """Wait until at least one of the jobs that wait for a model is done."""
        if self._waiting:
            await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)

    async def _claim(self) -> Sequence[Job]:
        """Claim jobs; if cancelled meanwhile, give back at once what was claimed."""
        settings = self._settings
        claim = self._ledger.store.claim(self._ledger.clock(), settings.lease_s, settings.claim_jobs)
        claiming = asyncio.ensure_future(claim)
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            try:
                await self._move_leases(await claiming, self._ledger.clock())
            except RecollectError:
                pass  # the leases expire by themselves
            raise

    # ── the jobs of one partition ────────────────────────────────────────────────────────────────

    async def _run_in_turn(self, jobs: Sequence[Job]) -> None:
        held = list(jobs)
        async with self._keeping(held):
            for group in _groups(jobs):
                if len(group) > 1 and await self._enrich_together(group):
                    held[:] = [job for job in held if job not in group]
                    continue
                for job in group:
                    await self._run(job)
                    held.remove(job)

    async def _enrich_together(self, jobs: Sequence[Job]) -> bool:
        """Enrich for several jobs in one commit. If that fails, each has to be run separately."""
        began = time.perf_counter()
        partition = jobs[0].partition
        refs = list(dict.fromkeys(ref for job in jobs for ref in job.refs))
        try:
            async with asyncio.timeout(self._settings.job_timeout_s):
                changes, later = await self._enrichment.enrich(partition, refs)
            if later:
                return False
            await self._ledger.commit(self._with_reading(changes.and_(finish=tuple(jobs))))
        except Exception as error:
            log.debug("%d jobs could not be run together: %s", len(jobs), reason_of(error))
            return False
        self.done += len(jobs)
        self._note_time("enrich", len(jobs), began)
        return True

    def _note_time(self, kind: str, jobs: int, began: float) -> None:
        runs, seconds = self.took.get(kind, (0, 0.0))
        self.took[kind] = (runs + jobs, seconds + time.perf_counter() - began)

    async def _run(self, job: Job) -> None:
        began = time.perf_counter()
        try:
            await self._attempt(job)
            self.done += 1
        except LeaseLost:
            pass  # another worker has it, or the memories were erased: nothing was written
        except Exception as error:
            log.warning("job %s failed at attempt %d: %s", job.kind, job.attempt, reason_of(error))
            await self._put_off(job, error)
        finally:
            self._note_time(job.kind, 1, began)

    async def _attempt(self, job: Job) -> None:
        handler = self._handlers.get(job.kind)
        if handler is None:
            raise UnknownKind(job.kind)
        for attempt in range(CONFLICT_TRIES):
            async with asyncio.timeout(self._settings.job_timeout_s):
                changes = await handler(job)
            try:
                await self._ledger.commit(self._with_reading(changes.and_(finish=(job,))))
                return
            except Conflict as conflict:
                if isinstance(conflict, LeaseLost) or attempt == CONFLICT_TRIES - 1:
                    raise

    def _with_reading(self, changes: Changes) -> Changes:
        return self._reading.following(changes) if self._reading else changes

    @asynccontextmanager
    async def _keeping(self, held: list[Job]) -> AsyncIterator[None]:
        """Extend the leases of jobs for as long as they are held; give them back on cancellation."""
        heart = asyncio.create_task(self._keep_leases(held))
        try:
            yield
        except asyncio.CancelledError:
            await asyncio.shield(self._move_leases(held, self._ledger.clock()))
            raise
        finally:
            heart.cancel()

    async def _keep_leases(self, held: list[Job]) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_s / 3)
            await self._move_leases(held, self._ledger.clock() + int(self._settings.lease_s * 1000))

    async def _move_leases(self, held: Sequence[Job], due_at: int) -> None:
        for job in list(held):
            try:
                # Finished and enqueued again with the same attempt: only its due time moves.
                again = replace(job, due_at=due_at)
                await self._ledger.commit(Changes(job.partition, finish=(job,), enqueue=(again,)))
            except RecollectError:
                continue  # done by now, lost, or the store is unreachable: the final commit will show

    async def _put_off(self, job: Job, error: Exception) -> None:
        """Retry later, with growing delays; when attempts run out, keep the failure where people can see it."""
        now = self._ledger.clock()
        changes = Changes(job.partition, finish=(job,))
        usual = self._settings.job_attempts_max
        attempts_max = usual * _patience_with(error)
        if job.attempt < attempts_max:
            wait_s = max(self._settings.retry_s * 2 ** (min(job.attempt, usual) - 1), getattr(error, "after_s", 0.0))
            changes = changes.and_(enqueue=(replace(job, due_at=now + int(wait_s * SECOND_MS)),))
        try:
            if job.attempt >= attempts_max:
                failure = await self._failure(job, error, now)
                changes = changes.and_(put=(failure,), enqueue=await self._enrichment.despite_failing(job))
                self.failed += 1
            await self._ledger.commit(changes)
        except RecollectError as second:
            log.warning("job %s could not be rescheduled: %s", job.kind, reason_of(second))

    async def _failure(self, job: Job, error: Exception, now: int) -> Record:
        id = derived_id("failure", job.id)
        known = await self._ledger.get(job.partition, [id])
        scope = Scope(job.partition.org, job.partition.user)
        data = {"job": job.id, "kind": job.kind, "refs": list(job.refs), "attempts": job.attempt}
        version = known[0].version if known else 0
        return Record(id, "failure", scope, reason_of(error), data, created_at=now, version=version)

    async def failures(self, partition: Partition) -> list[Record]:
        """Jobs of a partition that were given up, each with its reason."""
        where = Filter(partition, layers=("failure",))
        return [record async for record in self._ledger.walk(where)]

    async def retry(self, partition: Partition, id: str) -> None:
        """Give a failed job another round of attempts."""
        record = await self._ledger.one(partition, id, "failure_id")
        if record.layer != "failure":
            raise NotFound(field="failure_id")
        data = record.data
        job = Job(data["job"], partition, data["kind"], tuple(data["refs"]), self._ledger.clock())
        await self._ledger.commit(Changes(partition, drop=(id,), enqueue=(job,)))

    # ── what jobs do ─────────────────────────────────────────────────────────────────────────────

    async def _enrich(self, job: Job) -> Changes:
        changes, later = await self._enrichment.enrich(job.partition, job.refs)
        if later:
            rest = replace(job, id=f"{job.id}+", refs=later, due_at=self._ledger.clock(), attempt=0)
            changes = changes.and_(enqueue=(rest,))
        return changes

    async def _fold(self, job: Job) -> Changes:
        session, agent = job.refs
        scope = Scope(job.partition.org, job.partition.user, agent, session)
        summary = RunningSummary(self._ledger, scope, self._settings, self._count)
        return await summary.fold() or Changes(job.partition)

    async def _note(self, job: Job) -> Changes:
        idle_ms = self._settings.episode_idle_minutes * MINUTE_MS
        return await Episodes(self._ledger, Scope(*job.partition), idle_ms=idle_ms).run(job)

    async def _bring_to_an_end(self, job: Job) -> Changes:
        return await Trust(self._ledger, self._indexes, Scope(*job.partition)).run(job)

    async def _turn(self, job: Job) -> Changes:
        await Unlearning(self._ledger, self._indexes, job.partition).turn(job.refs[0])
        return Changes(job.partition)

    async def _follow(self, job: Job) -> Changes:
        await Agreement(self._ledger, self._indexes, job.partition).follow(job.refs[0])
        return Changes(job.partition)

    async def _follow_lives(self, job: Job) -> Changes:
        return await LongTerm(self._ledger, Scope(*job.partition)).follow_lives(job)

    async def _finish_forgetting(self, job: Job) -> Changes:
        return await Privacy(self._ledger, self._indexes, job.partition).finish(job)

    async def _unlearn(self, job: Job) -> Changes:
        """What an earlier version left to do when it dropped messages."""
        await Unlearning(self._ledger, self._indexes, job.partition).forget(job.refs)
        return Changes(job.partition)

    async def _upkeep(self, job: Job) -> Changes:
        """Purge, consolidate and prune, and come back when there may be something to do."""
        if job.refs:  # of a user who was erased
            due_at = await self._tending.clear(Partition(*job.refs))
            return Changes(job.partition, enqueue=() if due_at is None else (replace(job, due_at=due_at, attempt=0),))
        due_at = await self._tending.tend(job.partition)
        await self._take_up_again(job.partition)
        return Changes(job.partition, enqueue=() if due_at is None else (upkeep_job(job.partition, due_at),))

    async def _take_up_again(self, partition: Partition) -> None:
        """Retry jobs that other workers gave up because they could not do jobs of that kind."""
        for failure in await self.failures(partition):
            kind = failure.data["kind"]
            if kind in self._handlers and failure.content.endswith(tuple(each.format(kind) for each in NOT_HERE)):
                with suppress(NotFound):  # another worker was faster
                    await self.retry(partition, failure.id)


def reason_of(error: BaseException) -> str:
    """Why something failed, without any content: our own error messages contain none, others may."""
    return f"{type(error).__name__}: {error}" if isinstance(error, RecollectError) else type(error).__name__


def _patience_with(error: Exception) -> int:
    """How many times the usual attempts a job may have, by why it failed."""
    if isinstance(error, Conflict | UnknownKind):
        return PATIENCE
    return OUTAGE if isinstance(error, Unavailable) and error.field == "store" else 1


def _groups(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """The jobs in order, with neighbouring enrich jobs grouped as long as they fit one commit."""
    group: list[Job] = []
    for job in jobs:
        size = sum(len(each.refs) for each in group) + len(job.refs)
        if group and (job.kind != "enrich" or group[0].kind != "enrich" or size > TOGETHER_RECORDS):
            yield group
            group = []
        group.append(job)
    if group:
        yield group
