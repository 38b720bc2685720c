"""Memories held in this process and gone with it: for tests and development, and the model for other stores."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.filters import Filter
from recollect.records import Born, Changes, Job, Partition, Record, Vector, record_from
from recollect.stores.contract import (
    BLOCK_ROWS,
    CHANGES_MIN,
    FORGET_ROWS,
    KEY_LIFE_MS,
    SCAN_MAX_ROWS,
    Delta,
    Forgotten,
    Head,
    Known,
    Mark,
    Meta,
    Page,
    Plan,
    Prepared,
    Survey,
    WithoutSearch,
    bounds_of,
    check_ids,
    check_limit,
    closed_store,
    decide,
    forget_part,
    is_owned,
    prepare,
    reads_from,
    touched_ids,
    veil_of,
    whole_revisions,
    write_cursor,
)


@dataclass(slots=True)
class _Row:
    id: str
    layer: str
    session: str
    payload: str
    vector: Vector | None
    meta: Meta
    revision: int


@dataclass(slots=True)
class _Room:
    """One partition: rows by id, by birth and by revision; jobs; remembered keys."""

    head: Head = field(default_factory=Head)
    rows: dict[str, _Row] = field(default_factory=dict)
    by_birth: defaultdict[tuple[str, str | None], list[tuple[Born, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    log: list[tuple[int, str]] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    once: dict[bytes, tuple[bytes, int, int]] = field(default_factory=dict)

    def known(self, prepared: Prepared, now: int) -> Known:
        once = self.once.get(prepared.key_hash) if prepared.key_hash else None
        if once is not None and once[2] + KEY_LIFE_MS <= now:
            once = None
        touched = touched_ids(prepared.changes)
        metas = {id: self.rows[id].meta for id in touched if id in self.rows}
        jobs = {job.id: self.jobs[job.id].attempt for job in prepared.changes.finish if job.id in self.jobs}
        return Known(self.head, metas, jobs, once[:2] if once else None)

    def apply(self, prepared: Prepared, plan: Plan, now: int) -> None:
        for written in plan.write:
            record = written.sealed.record
            meta = Meta(written.version, written.sealed.digest, written.born, False, record.expires_at)
            session = record.scope.session
            row = _Row(record.id, record.layer, session, written.sealed.payload, record.vector, meta, plan.revision)
            self._place(row)
        for id in plan.drop:
            self._bury(self.rows[id], plan.revision, now)
        self.head = self.head._replace(revision=plan.revision)
        for job in prepared.changes.finish:
            self.jobs.pop(job.id, None)
        for job in prepared.changes.enqueue:
            self.jobs.setdefault(job.id, job)
        if prepared.key_hash:
            self.once[prepared.key_hash] = (prepared.digest, plan.revision, now)

    def _place(self, row: _Row) -> None:
        old = self.rows.get(row.id)
        if old is not None:
            self._unlist(old)
        self.rows[row.id] = row
        for key in ((row.layer, None), (row.layer, row.session)):
            insort(self.by_birth[key], (row.meta.born, row.id))
        self.log.append((row.revision, row.id))

    def _bury(self, row: _Row, revision: int, now: int) -> None:
        self._unlist(row)
        row.meta = row.meta._replace(dropped=True, dead_at=now, digest=b"")
        row.payload, row.vector, row.revision = "", None, revision
        self.log.append((revision, row.id))

    def _unlist(self, row: _Row) -> None:
        for key in ((row.layer, None), (row.layer, row.session)):
            births = self.by_birth[key]
            at = bisect_left(births, (row.meta.born, row.id))
            if at < len(births) and births[at] == (row.meta.born, row.id):
                del births[at]
            if not births:
                del self.by_birth[key]

    def births(self, where: Filter) -> list[list[tuple[Born, str]]]:
        """The lists that cover everything the filter can match, each in order of birth."""
        session = where.session
        layers = set(where.layers) or {layer for layer, _ in self.by_birth}
        return [births for layer in layers if (births := self.by_birth.get((layer, session)))]

    def remove(self, row: _Row) -> None:
        self._unlist(row)
        del self.rows[row.id]
        self.head = self.head._replace(floor=max(self.head.floor, row.revision))


async def open_url(url: str, *, busy_timeout_s: float = 10.0) -> InMemoryStore:
    """Open `memory://`: a new store each time."""
    return InMemoryStore()


class InMemoryStore(WithoutSearch):
    """All promises of the contract, under one lock."""

    abilities: frozenset[str] = frozenset()
    loses_answers = False

    def __init__(self) -> None:
        self._rooms: dict[Partition, _Room] = {}
        self._lock = threading.Lock()
        self._closed = False

    async def commit(self, changes: Changes, now: int) -> int:
        prepared = prepare(changes)
        with self._open():
            room = self._room(changes.partition)
            plan = decide(prepared, room.known(prepared, now), now)
            if not plan.replayed:
                self._settle(changes, plan, room)
                room.apply(prepared, plan, now)
            return plan.revision

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        check_ids(ids)
        with self._open():
            rows = self._room(partition).rows
            found = [rows[id] for id in ids if id in rows and rows[id].meta.lives(now)]
            return [_read(partition, row) for row in found]

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        check_limit(limit)
        low, high = bounds_of(where, newest_first, after)
        with self._open():
            room = self._room(where.partition)
            found: list[Record] = []
            scanned, last = 0, (0, 0)
            for born, id in _walk(room.births(where), low, high, newest_first):
                if len(found) == limit or scanned == SCAN_MAX_ROWS:
                    return Page(tuple(found), write_cursor(where, newest_first, last))
                last = born
                row = room.rows[id]
                if not row.meta.lives(now):
                    continue
                scanned += 1
                record = _read(where.partition, row)
                if where.holds(record):
                    found.append(record)
            return Page(tuple(found), None)

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        check_limit(limit, CHANGES_MIN)
        with self._open():
            room = self._room(partition)
            head = room.head
            reset, revision, floor_seen = reads_from(head, mark)
            start = bisect_right(room.log, revision, key=lambda entry: entry[0])
            rows: list[_Row] = []
            for revision_, id in room.log[start:]:
                row = room.rows.get(id)
                if row is not None and row.revision == revision_:
                    rows.append(row)
                    if len(rows) > limit + 1:
                        break
            cut = whole_revisions([row.revision for row in rows], limit)
            more = cut < len(rows)
            end = rows[cut - 1].revision if more else head.revision
            put = tuple(_read(partition, row) for row in rows[:cut] if not row.meta.dropped)
            dropped = tuple(row.id for row in rows[:cut] if row.meta.dropped)
            return Delta(Mark(head.epoch, end, floor_seen), put, dropped, reset, more)

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        check_limit(limit)
        with self._open():
            due = [job for room in self._rooms.values() for job in room.jobs.values() if job.due_at <= now]
            due.sort(key=lambda job: job.due_at)
            taken = [replace(job, attempt=job.attempt + 1, due_at=now + int(lease_s * 1000)) for job in due[:limit]]
            for job in taken:
                self._rooms[job.partition].jobs[job.id] = job
            return taken

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        check_limit(limit)
        if where.dead_before is not None:
            with self._open():
                return self._purge(self._room(where.partition), where.dead_before, limit)
        if not where.is_whole:
            return await forget_part(self, where, now, limit)
        with self._open():
            old = self._room(where.partition)
            if where.epoch is not None and where.epoch != old.head.epoch:
                return Forgotten(0, done=True, epoch=where.epoch)
            revision = old.head.revision + 1
            head = Head(old.head.epoch + 1, revision, old.head.floor, revision)
            self._rooms.pop(where.partition, None)
            self._rooms[veil_of(where.partition)] = _Room(head=head, once=old.once)
            count = sum(row.meta.lives(now) for row in old.rows.values())
            return Forgotten(count, done=True, epoch=old.head.epoch)

    def _purge(self, room: _Room, before: int, limit: int) -> Forgotten:
        dated = sorted((row.meta.dead_at, row.id) for row in room.rows.values() if row.meta.dead_at is not None)
        dead = [id for at, id in dated if at < before]
        for id in dead[:limit]:
            room.remove(room.rows[id])
        room.log = [entry for entry in room.log if entry[1] in room.rows]
        room.once = {key: once for key, once in room.once.items() if once[2] >= before}
        left = [at for at, _ in dated[min(len(dead), limit) :]] + [once[2] for once in room.once.values()]
        return Forgotten(len(dead[:limit]), len(dead) <= limit, min(left, default=None))

    async def close(self) -> None:
        self._closed = True

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        with self._open():
            return sorted(part for part in self._rooms if after is None or part > after)[:limit]

    async def survey(self, now: int) -> Survey:
        with self._open():
            rooms = self._rooms.values()
            layers = Counter(row.layer for room in rooms for row in room.rows.values() if row.meta.lives(now))
            jobs = [job for room in rooms for job in room.jobs.values()]
            running = sum(job.attempt > 0 and job.due_at > now for job in jobs)
            scheduled = sum(job.attempt == 0 and job.due_at > now for job in jobs)
            oldest = min((job.due_at for job in jobs), default=None)
            waiting = len(jobs) - running - scheduled
            owned = sum(map(is_owned, self._rooms))
            return Survey(owned, layers, waiting, running, oldest, jobs_scheduled=scheduled)

    async def compact(self) -> None:
        """Nothing to do: what is forgotten is gone from memory."""

    async def check(self) -> Sequence[str]:
        return []

    def describe(self) -> dict[str, Any]:
        return {"store": "memory", "url": "memory://", "durability": "none: gone with the process"}

    def _room(self, partition: Partition) -> _Room:
        return self._rooms.get(partition) or self._rooms.get(veil_of(partition)) or _Room()

    def _settle(self, changes: Changes, plan: Plan, room: _Room) -> None:
        """Put a partition in its place. An erased one gets its plain name back with something new, and not before."""
        veil = veil_of(changes.partition)
        if self._rooms.get(veil) is room:
            if not plan.changes_records and not changes.enqueue:
                return
            del self._rooms[veil]
        self._rooms[changes.partition] = room

    def _open(self) -> threading.Lock:
        if self._closed:
            raise closed_store()
        return self._lock


def _walk(
    lists: list[list[tuple[Born, str]]], low: Born | None, high: Born | None, newest_first: bool
) -> Iterator[tuple[Born, str]]:
    """The births of several lists that lie between two, merged in order, in blocks."""
    ends = [
        [
            bisect_right(births, low, key=_born) if low else 0,
            bisect_left(births, high, key=_born) if high else len(births),
        ]
        for births in lists
    ]
    while True:
        block: list[tuple[Born, str]] = []
        for births, span in zip(lists, ends, strict=True):
            block += births[max(span[0], span[1] - BLOCK_ROWS) : span[1]] if newest_first else births[
                span[0] : min(span[1], span[0] + BLOCK_ROWS)
            ]  # fmt: skip
        if not block:
            return
        block.sort(reverse=newest_first)
        block = block[:BLOCK_ROWS]
        yield from block
        last = block[-1][0]
        for births, span in zip(lists, ends, strict=True):
            if newest_first:
                span[1] = bisect_left(births, last, key=_born)
            else:
                span[0] = bisect_right(births, last, key=_born)


def _born(entry: tuple[Born, str]) -> Born:
    return entry[0]


def _read(partition: Partition, row: _Row) -> Record:
    return record_from(
        partition, row.id, row.layer, row.session, row.payload, row.vector, row.meta.version, row.meta.born
    )
