"""The single write path: every commit of the library goes through here.

Where the store's answer can be lost, a commit gets a key before its first attempt, so that a retry is
never a second change; what expires or is dropped gets an upkeep job in the same commit; and the worker
is woken when there is work.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import replace
from heapq import nsmallest
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from recollect.errors import Conflict, NotFound
from recollect.filters import Filter
from recollect.home import Home
from recollect.layers import Layer
from recollect.policies.masking import masked_value
from recollect.records import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    Changes,
    Clock,
    Job,
    Partition,
    Place,
    Record,
    in_portions,
    new_id,
    payload_of,
)
from recollect.stores.contract import (
    CHANGES_MIN,
    IDS_MAX,
    OPERATIONS_MAX,
    OWN_KEY,
    PAYLOAD_MAX_BYTES,
    Page,
    Store,
    offers_of,
    veil_of,
)

T = TypeVar("T")

UPDATE_TRIES = 40
"""How often a read-decide-write is attempted when another process was faster. With 8, three processes that wrote one
record without a pause had a writer give up in one of three runs of 540 writes."""
UPDATE_PAUSE_S = 0.002, 0.064
"""The longest pause before another attempt: the first time, and however often it was repeated."""

PORTION_RECORDS = 90
"""Records per commit, leaving room for jobs and bookkeeping."""

SOME = 500
"""Records of a list that are read at a time."""

CHANGED_RECORDS = 45
"""Records changed per commit, leaving room for the jobs that each may bring."""

ERASURES = Partition("{index}", "")
"""Where work about erased users is recorded: not in their own partition, which would be named again."""

CLEARING = "unindex"
"""The kind of jobs that remove such a user from an index."""

Decide = Callable[[Record | None, int], Changes | None]
"""Maps the record under an id, and the current time, to what should change; None leaves it as it is."""
Change = Callable[[Record], Record]
"""Returns the changed record; the same one, or an equal one, if nothing changes."""
Test = Callable[[Record], bool]
Work = Callable[[Sequence[Record]], tuple[Job, ...]]
DecideAll = Callable[[Mapping[str, Record], int], Changes | None]
"""The same for several ids: those that do not exist are not in the mapping."""


class Held(Protocol):
    """What a process already holds of a partition."""

    def stored(self, ids: Iterable[str], now: int) -> tuple[list[Record], list[str]]:
        """The living records among these ids as the store has them, and the ids that only the store has."""
        ...

    def held(self, layer: str, now: int) -> list[Record]:
        """All living records of a layer."""
        ...


async def within(seconds: float, event: asyncio.Event) -> None:
    """Wait for an event, at most this long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


async def ended(task: asyncio.Future[T]) -> T:
    """Wait for a task. Whoever is cancelled meanwhile learns it when the task has ended, and so knows its outcome."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class Traffic:
    """The commits that callers in this process are waiting for."""

    def __init__(self) -> None:
        self._under_way = 0
        self.calm = asyncio.Event()
        """Set while there are none."""
        self.calm.set()

    def __enter__(self) -> None:
        self._under_way += 1
        self.calm.clear()

    def __exit__(self, *_: object) -> None:
        self._under_way -= 1
        if not self._under_way:
            self.calm.set()


class Ledger:
    """A store with a clock and the layer table: what the steps of the flow write to and read from."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        layers: dict[str, Layer],
        masks: frozenset[str] = frozenset(),
        *,
        feeds_index: bool = False,
    ) -> None:
        self.store = store
        self.clock = clock
        self.layers = layers
        sliding = {name for name, row in layers.items() if row.sliding and row.life_ms is not None}
        self._renewed = frozenset(sliding | {"past"})  # past states live as long as what they were
        self._masks = masks
        self._held: Held | None = None
        self.on_drop: Callable[[Partition], None] = lambda partition: None
        """Called with each partition from which records were dropped."""
        self.index_of: Callable[[Partition], Awaitable[Held | None]] = _no_index
        """Returns the index of a partition with everything committed, if it is at hand."""
        self._feeds_index = feeds_index
        self.offers = offers_of(store)
        """What the store has besides the contract."""
        self.places: dict[tuple[Partition, str], Place] = {}
        """Places outside the store that hold a partition's messages too, by name, as far as this process knows."""
        self.work_waits = asyncio.Event()
        self.traffic = Traffic()
        self._home = Home()
        self._locks: dict[tuple[Partition, str], tuple[asyncio.Lock, int]] = {}

    def over(self, store: Store) -> Ledger:
        """The same clock, layers and masks over another store."""
        return Ledger(store, self.clock, self.layers, self._masks)

    async def commit(self, changes: Changes, *, renews: bool = True) -> int:
        """Commit, once. Returns the partition's revision.

        What is written begins its life again where the layer says so, unless `renews` is off: a new vector, a use, or a
        record that is brought back, is no news.
        """
        self._home.check()
        now = self.clock()
        for record in changes.put:
            if record.layer in self._renewed:
                changes = replace(changes, put=tuple(self._living(each, now, renews) for each in changes.put))
                break
        enqueue = changes.enqueue
        if (changes.put or changes.drop) and not _leads_to_upkeep(changes):
            enqueue += (upkeep_job(changes.partition, now + DAY_MS),)
        if self._feeds_index:
            enqueue += await self._feeding(changes, enqueue)
        key = changes.key or (f"{OWN_KEY}{new_id(now)}" if self.offers.loses_answers else None)
        if key is not changes.key or enqueue is not changes.enqueue:
            changes = changes.sent(enqueue, key)
        try:
            with self.traffic:
                revision = await self.store.commit(changes, now)
        finally:
            if changes.drop:  # even when the answer is lost: the drop may have happened
                self.on_drop(changes.partition)
        if changes.enqueue:
            self.work_waits.set()
        return revision

    def _living(self, record: Record, now: int, renews: bool) -> Record:
        """The record, its life begun again where its layer slides. What is put as already over stays over."""
        name = record.data.get("layer") if record.layer == "past" else record.layer
        expires_at = record.expires_at
        if name not in self._renewed or (expires_at is not None and (expires_at <= now or not renews)):
            return record
        return record.with_(expires_at=self.layers[name].expires_at(now))

    async def _feeding(self, changes: Changes, enqueue: tuple[Job, ...]) -> tuple[Job, ...]:
        """The job that reports a change to an index, if the change concerns vectors: new records have none yet.

        Where the commit has no room for it, a job for later that covers the whole partition is written first.
        """
        told = [r.id for r in changes.put if self.layers[r.layer].embedded and (r.version or r.vector is not None)]
        refs = (*told, *changes.drop)
        if not refs:
            return ()
        if sum(map(len, (changes.put, changes.drop, changes.finish, enqueue))) < OPERATIONS_MAX:
            return self.index_jobs(changes.partition, refs)
        jobs = self.index_jobs(changes.partition, later=True)
        later = Changes(changes.partition, enqueue=jobs, needs=changes.needs, epoch=changes.epoch)
        await self.store.commit(later, self.clock())
        return ()

    def index_jobs(self, partition: Partition, refs: Sequence[str] = (), *, later: bool = False) -> tuple[Job, ...]:
        """The job that makes an index hold what the store holds: for these records, or for a whole partition.

        None where there is no index. Jobs for later have ids derived from the minute they are due in, so that any
        number of reasons make one job, and none joins a job that is already running.
        """
        now = self.clock()
        if not self._feeds_index:
            return ()
        if not later:
            return (Job(f"index:{new_id(now)}", partition, "index", tuple(refs), now),)
        minute = now // MINUTE_MS + 1
        return (Job(f"index:{minute}", partition, "index", (), (minute + 1) * MINUTE_MS),)

    def clearing_jobs(self, erased: Partition, *, later: bool = False) -> tuple[Job, ...]:
        """The job that removes an erased partition from an index. The job and its id contain only the veil."""
        veil = veil_of(erased)
        jobs = self.index_jobs(ERASURES, later=later)
        return tuple(replace(job, id=f"{job.id}:{veil.user}", kind=CLEARING, refs=tuple(veil)) for job in jobs)

    def purging_job(self, erased: Partition) -> Job:
        """The upkeep of an erased partition, for when the keys that it remembers have served."""
        veil = veil_of(erased)
        return Job(f"upkeep:{veil.user}", ERASURES, "upkeep", tuple(veil), self.clock() + DAY_MS + HOUR_MS)

    async def wait_for_work(self, timeout_s: float) -> None:
        """Wait until there may be work, from this process or, where the store can tell, from another one."""
        listen = self.offers.wait_for_work
        if listen is None:
            await within(timeout_s, self.work_waits)
            return
        waits = [asyncio.ensure_future(self.work_waits.wait()), asyncio.ensure_future(listen(timeout_s))]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def masked(self, value: Any) -> Any:
        """A text or other JSON value as it may be stored: with masks for what the settings want masked.

        To be called on all text from outside, before ids are derived from it.
        """
        return masked_value(value, self._masks)[0] if self._masks else value

    def masked_record(self, record: Record) -> Record:
        """The same for an incoming record."""
        if not self._masks:
            return record
        fields = {name: self.masked(getattr(record, name)) for name in ("content", "data", "metadata")}
        return record.with_(**fields)

    def reading(self, held: Held) -> Ledger:
        """The same ledger for work in one partition, querying the store only for what is not already held.

        A decision based on it is right or a `Conflict`, as with anything read some time ago.
        """
        other = copy(self)
        other._held = held
        return other

    def at_hand(self, ids: Sequence[str]) -> tuple[list[Record], Sequence[str]]:
        """The living records among these ids that are already held, and the ids to query the store for."""
        return self._held.stored(ids, self.clock()) if self._held else ([], ids)

    async def get(self, partition: Partition, ids: Sequence[str]) -> list[Record]:
        """The living records among these ids, in the order asked, however many they are."""
        self._home.check()
        found, elsewhere = self.at_hand(ids)
        mixed = bool(found and elsewhere)
        for start in range(0, len(elsewhere), IDS_MAX):
            found += await self.store.get(partition, elsewhere[start : start + IDS_MAX], self.clock())
        if mixed:
            place = {id: number for number, id in enumerate(ids)}
            found.sort(key=lambda record: place[record.id])
        return found

    async def epoch_of(self, partition: Partition) -> int:
        """The epoch of a partition, which changes when all of it is erased: late work that names it writes nothing."""
        return (await self.store.changes(partition, None, CHANGES_MIN)).mark.epoch

    async def one(self, partition: Partition, id: str, field: str = "id") -> Record:
        """The record, or `NotFound`: the same answer for what is gone and for what belongs to someone else."""
        found = await self.get(partition, [id])
        if not found:
            raise NotFound(field=field)
        return found[0]

    async def list(
        self, where: Filter, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        """A page of these records in order of birth, or newest first."""
        self._home.check()
        return await self.store.list(where, self.clock(), newest_first=newest_first, limit=limit, after=after)

    async def walk(self, where: Filter, *, newest_first: bool = False, limit: int = 500) -> AsyncIterator[Record]:
        """All records of a list, page by page."""
        after = None
        while True:
            page = await self.list(where, newest_first=newest_first, limit=limit, after=after)
            for record in page.records:
                yield record
            after = page.after
            if after is None:
                return
            await asyncio.sleep(0)  # a store in memory would never yield to other tasks

    async def all_of(self, partition: Partition, *layers: str) -> Sequence[Record]:
        """All living records of these layers, in order of birth: read-only, since others may hold them too.

        They come from the partition's index where that is at hand, in a tenth of the time.
        """
        index = await self.index_of(partition)
        if index is None:
            return [record async for record in self.walk(Filter(partition, layers=layers))]
        now = self.clock()
        return sorted([record for layer in layers for record in index.held(layer, now)], key=attrgetter("born"))

    async def some_of(
        self, partition: Partition, layer: str, after: tuple[int, int] | None, wanted: Test, count: int
    ) -> Sequence[Record]:
        """The first `count` of these that were born after another and are wanted, without reading those before it."""
        index = await self.index_of(partition)
        if index is not None:
            held = index.held(layer, self.clock())
            later = [record for record in held if (after is None or record.born > after) and wanted(record)]
            return nsmallest(count, later, key=attrgetter("born"))
        found: list[Record] = []
        where = Filter(partition, layers=(layer,), born_after=after)
        async for record in self.walk(where, limit=min(count, SOME)):
            if wanted(record):
                found.append(record)
            if len(found) == count:
                break
        return found

    async def update(self, partition: Partition, id: str, decide: Decide) -> int:
        """Read, decide and write one record, so that nobody's update is lost. Returns its version."""
        held = 0

        def decide_one(known: Mapping[str, Record], now: int) -> Changes | None:
            nonlocal held
            held = known[id].version if id in known else 0
            return decide(known.get(id), now)

        revision = await self.update_all(partition, [id], decide_one)
        if revision is None:
            return held
        return held + 1 if held else revision

    async def update_all(self, partition: Partition, ids: Sequence[str], decide: DecideAll) -> int | None:
        """The same for several records in one commit. Returns the revision, None if nothing had to change.

        Callers in this process take turns; when another process was faster, the decision is made again.
        """
        async with AsyncExitStack() as turns:
            for id in sorted(set(ids)):
                await turns.enter_async_context(self._turn(partition, id))
            for attempt in range(UPDATE_TRIES):
                known = {record.id: record for record in await self.get(partition, ids)}
                changes = decide(known, self.clock())
                if changes is None:
                    return None
                try:
                    return await self.commit(changes)
                except Conflict as conflict:
                    if conflict.field != "id" or attempt == UPDATE_TRIES - 1:
                        raise
                    await _pause(attempt)
        raise AssertionError("the last try returns or raises")

    async def commit_decided(self, decide: Callable[[], Awaitable[Changes | None]]) -> Changes | None:
        """Commit what `decide` returns, based on what it reads itself; decide again when another writer was faster.

        Returns what was committed, None if nothing had to change.
        """
        for attempt in range(UPDATE_TRIES):
            try:
                changes = await decide()
                if changes is not None:
                    await self.commit(changes)
                return changes
            except Conflict:
                if attempt == UPDATE_TRIES - 1:
                    raise
                await _pause(attempt)
        raise AssertionError("the last try returns or raises")

    async def change_each(
        self, partition: Partition, ids: Iterable[str], change: Change, work: Work = lambda changed: ()
    ) -> int:
        """Change records, some in each commit, whatever else is written to them meanwhile. Returns how many changed.

        `work` returns the jobs that go with records changed together.
        """
        count = 0
        found = await self.get(partition, list(dict.fromkeys(ids)))
        for some in portions(found, count_max=CHANGED_RECORDS, bytes_max=PAYLOAD_MAX_BYTES // 2):
            put: list[Record] = []

            def decide(known: Mapping[str, Record], now: int, put: list[Record] = put) -> Changes | None:
                put[:] = [after for before in known.values() if (after := change(before)) != before]
                return Changes(partition, put=tuple(put), enqueue=work(put)) if put else None

            await self.update_all(partition, [record.id for record in some], decide)
            count += len(put)
        return count

    async def drop(self, partition: Partition, ids: Sequence[str]) -> None:
        """Drop records, as many in each commit as fit."""
        for start in range(0, len(ids), PORTION_RECORDS):
            await self.commit(Changes(partition, drop=tuple(ids[start : start + PORTION_RECORDS])))

    @asynccontextmanager
    async def _turn(self, partition: Partition, id: str) -> AsyncIterator[None]:
        lock, waiting = self._locks.get((partition, id), (asyncio.Lock(), 0))
        self._locks[partition, id] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._locks[partition, id]
            if waiting == 1:
                del self._locks[partition, id]
            else:
                self._locks[partition, id] = lock, waiting - 1


async def _no_index(partition: Partition) -> Held | None:
    return None


async def _pause(attempt: int) -> None:
    """Let the faster writer proceed, for a random time so that contenders do not retry together."""
    first, most = UPDATE_PAUSE_S
    await asyncio.sleep(random.uniform(0, min(first * 2**attempt, most)))


def upkeep_job(partition: Partition, due_at: int) -> Job:
    """The job that removes dead records for good. There is one at a time."""
    return Job("upkeep", partition, "upkeep", due_at=due_at)


def _leads_to_upkeep(changes: Changes) -> bool:
    """Whether upkeep follows anyway, with enrichment for example, so that adding a message need not enqueue it."""
    for job in changes.enqueue:
        if job.kind in ("enrich", "upkeep"):
            return True
    return any(job.kind == "upkeep" for job in changes.finish)


def portions(
    records: Iterable[Record], *, count_max: int = PORTION_RECORDS, bytes_max: int = PAYLOAD_MAX_BYTES
) -> Iterator[list[Record]]:
    """The records in order, in pieces that each fit into one commit."""
    return in_portions(records, _bytes_of, count_max=count_max, size_max=bytes_max)


def _bytes_of(record: Record) -> int:
    return len(payload_of(record).encode()) + (len(record.vector.data) if record.vector else 0)
