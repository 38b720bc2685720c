"""The default: everything in one SQLite file, durable when the call returns.

Several processes may use one file. `sqlite_file.py` decides how the file is opened, written and read; this module
decides what is in it, and implements the verbs of `contract.py`. Small reads happen on the caller's thread, all other
work on other threads. A row of an older epoch than its partition's is garbage: no verb sees it, and `forget` removes
it in chunks.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from operator import itemgetter
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from recollect import disk
from recollect.errors import Corrupt, RecollectError, Unavailable, ValidationError
from recollect.filters import Filter, Reach, has_traces, traces_of
from recollect.records import Born, Changes, Job, Partition, Record, Vector, canonical_json, digest_of, records_from
from recollect.stores.contract import (
    CHANGES_MIN,
    DURABLE,
    FORGET_ROWS,
    KEY_LIFE_MS,
    OWN,
    SHARED,
    VECTOR_SEARCH,
    VEIL,
    Candidate,
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
    Walk,
    check_ids,
    check_limit,
    decide,
    forget_part,
    packed,
    prepare,
    reads_from,
    touched_ids,
    unpacked,
    veil_of,
    whole_revisions,
)
from recollect.stores.sqlite_codes import CodeBooks, clear_codes, nearest, put_codes
from recollect.stores.sqlite_file import Connection, SqliteFile, copy_into
from recollect.stores.sqlite_url import READ_ONLY, is_at_home, name_of

PATH_MAX = 4_096
NEAR_REVISIONS, NEAR_ROWS = 4, 32
"""Up to this many commits and records since a mark, what changed is read at once, on the caller's thread."""
FEW_ROWS = CHANGES_MIN
"""A partition of up to this many records is read whole on the caller's thread as well: that takes less time than
building an index of them, which happens there too.
"""
HEADS_MAX = 10_000
"""Heads that are cached; while nobody writes to the file, the heads of all queried partitions would pile up."""
DUE_LOOKED_AT = 32
"""Due jobs considered for each one claimed, to claim those of one partition together: they share one commit. With 8,
where 128 users wrote at once, two jobs came together instead of eight, and a memory took a third more CPU."""
_Slots = Mapping[str, tuple[str, int]]
_ROW = "id, layer, session, payload, model, vector, version, born"
_PAYLOAD = _ROW.split(", ").index("payload")
_as_stored = itemgetter(slice(len(_ROW.split(", "))))
_UPSERT = """
insert into records
  (part, id, epoch, revision, born, version, layer, session, dropped, dead_at, digest, payload, model, vector)
values (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)
on conflict (part, id) do update set
  epoch = excluded.epoch, revision = excluded.revision, born = excluded.born, version = excluded.version,
  layer = excluded.layer, session = excluded.session, dropped = 0, dead_at = excluded.dead_at,
  digest = excluded.digest, payload = excluded.payload, model = excluded.model, vector = excluded.vector, slot = null
"""
_BURY = """
update records set revision = ?, dropped = 1, dead_at = ?, digest = x'', payload = '',
  model = null, vector = null, slot = null
where part = ? and id = ?
"""
_DUE = """
with oldest as (select part, id, due_at from jobs where due_at <= ? order by due_at limit ?),
  due as (select part, id, due_at, min(due_at) over (partition by part) as first from oldest),
  taken as (select * from due order by first, part, due_at limit ?)
select part, jobs.id, kind, refs, attempt, org, usr
from taken join jobs using (part, id) join partitions using (part) order by first, part, taken.due_at
"""
_OLDEST_MODELS = """
select distinct model from (select model from records order by row limit 50) where model is not null
"""
# What is kept of a partition, once there is something to keep. No version of Recollect needs it, so it is not a step of
# the schema. Triggers discard it, so that a process of an earlier version, which knows nothing of it and may be at work
# on the same file, leaves there none of what it forgets.
_KEPT = (
    "create table if not exists kept (part integer primary key, data blob not null)",
    """create trigger if not exists kept_until_dropped after update of dropped, born on records
        when new.dropped or new.born <> old.born
        begin delete from kept where part = new.part; end""",
    """create trigger if not exists kept_until_purged after delete on records
        begin delete from kept where part = old.part; end""",
)
# All, less the expired ones: both are counted along an index, and only dead rows are read.
_COUNTS = """
with counted (layer, held) as (
  select layer, held from (
    select part, epoch, layer, count(*) as held from records where dropped = 0 group by part, epoch, layer)
  join partitions using (part, epoch)
  union all
  select layer, -count(*) from partitions cross join records using (part, epoch)
  where dropped = 0 and dead_at <= ? group by layer)
select layer, sum(held) from counted group by layer having sum(held) > 0
"""
_LAYERS = """
with recursive found (layer) as (
  select min(layer) from records where part = :part and epoch = :epoch and dropped = 0
  union all
  select (select min(layer) from records
          where part = :part and epoch = :epoch and dropped = 0 and layer > found.layer)
  from found where found.layer is not null)
select layer from found where layer is not null
"""


async def open_url(url: str, *, busy_timeout_s: float = 10.0) -> SqliteStore:
    """Open `sqlite:///path`, or `sqlite:///path?mode=ro` for reading only."""
    path = name_of(url)
    if not path or "\x00" in path or len(path) > PATH_MAX:
        raise ValidationError(
            "write sqlite:///file.db, or a whole path: sqlite:////home/ann/file.db, sqlite:///C:/Users/ann/file.db",
            field="url",
        )
    if path == ":memory:":
        raise ValidationError("write memory:// for a memory that is gone with the process", field="url")
    if is_at_home(path):
        raise ValidationError(
            "write the whole path, as sqlite:////home/ann/notes.db; ~ is not expanded here", field="url"
        )
    return await open_path(PurePath(path), read_only=url.endswith(READ_ONLY), busy_timeout_s=busy_timeout_s)


async def open_path(path: PurePath, *, read_only: bool = False, busy_timeout_s: float = 10.0) -> SqliteStore:
    """Open a file by its path. Opening may wait for another process, so it happens on another thread."""
    opening = asyncio.ensure_future(
        asyncio.to_thread(SqliteStore, Path(path), read_only=read_only, busy_timeout_s=busy_timeout_s)
    )
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # The thread opens it all the same, and nobody else would close it.
        with suppress(RecollectError):
            await (await opening).close()
        raise


class SqliteStore:
    """All promises of the contract in one file. Open it with `open_store("sqlite:///recollect.db")`."""

    abilities = frozenset({DURABLE, SHARED, VECTOR_SEARCH})
    loses_answers = False

    def __init__(self, path: Path, *, read_only: bool = False, busy_timeout_s: float = 10.0) -> None:
        self._file = SqliteFile(path, read_only=read_only, busy_timeout_s=busy_timeout_s)
        self._heads: dict[Partition, Head] = {}
        self._heads_version = -1
        self._books = CodeBooks()
        self._books_lock = threading.Lock()
        self.oldest_models = self._models_of_oldest()
        """The models that embedded the oldest records, as of when the file was opened."""
        self.folder = None if read_only else path.parent
        """Where this process may spill indexes of the records; None if the file is opened for reading only."""

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def commit(self, changes: Changes, now: int) -> int:
        prepared = prepare(changes)

        def work(db: Connection) -> int:
            found = _found(db, prepared, now)
            plan = decide(prepared, found.known, now)
            if not plan.replayed:
                if found.part == 0:
                    found = found._replace(part=_make_partition(db, changes.partition))
                elif found.veiled and (plan.changes_records or changes.enqueue):
                    _unveil(db, found.part, changes.partition)
                _apply(db, found, prepared, plan, now)
            return plan.revision

        return await self._file.write(work)

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        check_limit(limit)
        if self._file.read_only:
            return []  # work that cannot be finished here is left to processes that can write
        oldest = self._file.peek(lambda db: db.execute("select min(due_at) from jobs").fetchone()[0])
        if oldest is None or oldest > now:
            return []

        def work(db: Connection) -> list[Job]:
            rows = db.execute(_DUE, (now, DUE_LOOKED_AT * limit, limit)).fetchall()
            due_at = now + int(lease_s * 1000)
            db.executemany(
                "update jobs set attempt = attempt + 1, due_at = ? where part = ? and id = ?",
                [(due_at, row[0], row[1]) for row in rows],
            )
            return [
                Job(id, Partition(org, usr), kind, tuple(json.loads(refs)), due_at, attempt + 1)
                for _, id, kind, refs, attempt, org, usr in rows
            ]

        return await self._file.write(work, durable=False)

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        check_limit(limit)
        if where.dead_before is not None:
            return await self._file.write(lambda db: _purge_dead(db, where.partition, where.dead_before or 0, limit))
        if where.is_whole:
            return await self._file.write(lambda db: _forget_whole(db, where, now, limit))
        return await forget_part(self, where, now, limit)

    async def keep(self, partition: Partition, mark: Mark, data: bytes) -> bool:
        """Keep something made of all that a partition holds at this mark, until a record of it is dropped."""
        if self._file.read_only:
            return False

        def work(db: Connection) -> bool:
            part, head = _head(db, partition)
            if not part or not _is_at(head, mark):
                return False
            for statement in _KEPT:
                db.execute(statement)
            db.execute("insert or replace into kept (part, data) values (?, ?)", (part, data))
            return True

        return await self._file.write(work, durable=False)

    async def compact(self) -> None:
        await self._file.compact()

    async def backup(self, target: Path) -> None:
        """Write a snapshot of the file to another one, while reading and writing continue."""
        await self._file.read(lambda db: copy_into(db, target))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        check_ids(ids)
        if not ids:
            return []

        def work(db: Connection) -> list[Record]:
            part, head = _head(db, partition)
            rows = db.execute(living_by_ids(len(ids)), (part, head.epoch, now, *ids))
            found = {row[0]: row for row in rows}
            return _records(partition, [found[id] for id in ids if id in found])

        return await self._file.read(work)

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        check_limit(limit)
        walk = Walk(where, newest_first, limit, after)

        def work(db: Connection) -> Page:
            part, head = _head(db, where.partition)
            return _list(db, part, head.epoch, where, now, newest_first, limit, walk)

        return await self._file.read(work)

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        check_limit(limit, CHANGES_MIN)
        if mark is None:
            few = self._file.peek(lambda db: _all_if_few(db, partition), whole=True)
            return few if few is not None else await self._file.read(lambda db: _changes(db, partition, None, limit))
        head = self._peek_heads(partition)[0]
        if _is_at(head, mark):
            return Delta(mark)
        # Reading what one or two messages bring takes less time than waking another thread.
        if head.revision - mark.revision <= NEAR_REVISIONS:
            delta = self._file.peek(lambda db: _changes(db, partition, mark, min(limit, NEAR_ROWS)), whole=True)
            if not delta.more:
                return delta
        return await self._file.read(lambda db: _changes(db, partition, mark, limit))

    def unchanged(self, marks: Mapping[Partition, Mark]) -> bool:
        """Whether `changes` has nothing to report after any of these marks: one look at the file for all of them."""
        return all(map(_is_at, self._peek_heads(*marks), marks.values()))

    async def kept(self, partition: Partition) -> bytes | None:
        """What `keep` was last given for a partition; None if there is nothing, or it had to go."""

        def work(db: Connection) -> bytes | None:
            if not db.execute("select 1 from sqlite_master where name = 'kept'").fetchone():
                return None
            row = db.execute("select data from kept where part = ?", (_head(db, partition)[0],)).fetchone()
            return row[0] if row else None

        return await self._file.read(work)

    async def search(
        self, reach: Reach, *, text: str | None, vector: Vector | None, limit: int, now: int
    ) -> Mapping[str, Sequence[Candidate]]:
        if vector is None:
            raise Unavailable("this store searches across users by meaning alone; see its abilities", field="search")

        def work(db: Connection) -> list[Candidate]:
            if reach.user is not None:
                return nearest(db, Partition(reach.org, reach.user), vector, reach.layers, limit, now)
            with self._books_lock:
                return self._books.search(db, reach.org, vector, reach.layers, limit, now)

        return {"vector": await self._file.read(work)}

    async def close(self) -> None:
        await self._file.close()

    # ── for operators ────────────────────────────────────────────────────────────────────────────

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        start = (after.org, after.user) if after else ("", "")
        operator = ">" if after else ">="

        def work(db: Connection) -> list[Partition]:
            rows = db.execute(
                f"select org, usr from partitions where (org, usr) {operator} (?, ?) order by org, usr limit ?",
                (*start, limit),
            )
            return [Partition(org, user) for org, user in rows]

        return await self._file.read(work)

    async def survey(self, now: int) -> Survey:
        def work(db: Connection) -> Survey:
            records = dict(db.execute(_COUNTS, (now,)).fetchall())
            waiting, running, scheduled, oldest = db.execute(
                """select count(*) filter (where due_at <= :now), count(*) filter (where due_at > :now and attempt > 0),
                     count(*) filter (where due_at > :now and attempt = 0), min(due_at) from jobs""",
                {"now": now},
            ).fetchone()
            owned = "select count(*) from partitions where usr not glob ? and org not glob ?"
            partitions = db.execute(owned, (f"{VEIL}*", f"{OWN}*")).fetchone()[0]
            # Measured in pages, not by files: the log beside the file is work in progress and is overwritten.
            size = db.execute("pragma page_count").fetchone()[0] * db.execute("pragma page_size").fetchone()[0]
            return Survey(partitions, records, waiting, running, oldest, size, scheduled)

        return await self._file.read(work)

    async def check(self) -> Sequence[str]:
        """What SQLite's own check and ours find wrong with the file; empty when all is well."""

        def work(db: Connection) -> list[str]:
            found = [row[0] for row in db.execute("pragma quick_check(10)") if row[0] != "ok"]
            stray = db.execute("select count(*) from records where part not in (select part from partitions)")
            if stray.fetchone()[0]:
                found.append("records without a partition")
            ahead = db.execute(
                "select count(*) from records r join partitions p using (part) where r.revision > p.revision"
            )
            if ahead.fetchone()[0]:
                found.append("records ahead of their partition's revision")
            damaged = _damaged(db)
            if damaged:
                found.append(f"records that differ from what was written: {damaged}")
            return found

        return await self._file.read(work)

    def describe(self) -> dict[str, Any]:
        return {
            "store": "sqlite",
            "url": f"sqlite:///{self._file.path}",
            "durability": f"on disk ({disk.SYNC}) when a call returns",
            "read_only": self._file.read_only,
            "schema_version": self._file.version,
        }

    def _models_of_oldest(self) -> frozenset[str]:
        try:
            return frozenset(row[0] for row in self._file.peek(lambda db: db.execute(_OLDEST_MODELS).fetchall()))
        except RecollectError:
            return frozenset()  # a file that cannot be read is reported to the next caller that reads it

    def _peek_heads(self, *partitions: Partition) -> Sequence[Head]:
        """The current heads, in microseconds: queried again only when the file has changed."""
        version = self._file.peek(_data_version)
        if version != self._heads_version or len(self._heads) > HEADS_MAX:
            self._heads, self._heads_version = {}, version
        for partition in partitions:
            if partition not in self._heads:
                self._heads[partition] = self._peek_head(partition)
        return [self._heads[partition] for partition in partitions]

    def _peek_head(self, partition: Partition) -> Head:
        return self._file.peek(lambda db: _head(db, partition)[1])


# ── what is in the file ──────────────────────────────────────────────────────────────────────────


def _names(partition: Partition) -> Iterator[Partition]:
    """The names a partition may have here. The veil is computed only if the plain name is unknown: few were erased."""
    yield partition
    yield veil_of(partition)


def _head(db: Connection, partition: Partition) -> tuple[int, Head]:
    for name in _names(partition):
        row = db.execute(
            "select part, epoch, revision, floor, forgot from partitions where org = ? and usr = ?", name
        ).fetchone()
        if row:
            return row[0], Head(*row[1:])
    return 0, Head()


def _is_at(head: Head, mark: Mark) -> bool:
    """Whether nothing happened in a partition since a mark."""
    return mark.revision == head.revision and not reads_from(head, mark)[0]


def _data_version(db: Connection) -> int:
    """A number that changes with every commit of another connection."""
    return int(db.execute("pragma data_version").fetchone()[0])


def _unveil(db: Connection, part: int, partition: Partition) -> None:
    """Give an erased partition that is used again its plain name back."""
    db.execute("update partitions set usr = ? where part = ? and usr <> ?", (partition.user, part, partition.user))


def _make_partition(db: Connection, partition: Partition) -> int:
    cursor = db.execute(
        "insert into partitions (org, usr, epoch, revision, floor, forgot) values (?, ?, 1, 0, 0, 0)",
        (partition.org, partition.user),
    )
    return int(cursor.lastrowid or 0)


class _Found(NamedTuple):
    """The current state of what a commit touches: its partition (0: none yet), what is known, and code slots in use."""

    part: int
    known: Known
    slots: _Slots = MappingProxyType({})
    veiled: bool = False


def _found(db: Connection, prepared: Prepared, now: int) -> _Found:
    """What `decide` needs, and the code slots of the touched rows, whatever their epoch."""
    changes = prepared.changes
    ids = touched_ids(changes)
    for name in _names(changes.partition):
        rows = db.execute(_head_and_metas(len(ids)), (*ids, *name)).fetchall()
        if rows:
            break
    else:
        return _Found(0, Known(Head()))
    part, head = rows[0][0], Head(*rows[0][1:5])
    metas: dict[str, Meta] = {}
    slots: dict[str, tuple[str, int]] = {}
    for _, _, _, _, _, id, version, digest, born, dropped, dead_at, epoch, model, slot in rows:
        if epoch == head.epoch:
            metas[id] = Meta(version, digest, unpacked(born), bool(dropped), dead_at)
        if slot is not None:
            slots[id] = model, slot
    jobs = _attempts(db, part, changes.finish) if changes.finish else {}
    once = _once(db, part, prepared.key_hash, now) if prepared.key_hash else None
    return _Found(part, Known(head, metas, jobs, once), slots, name is not changes.partition)


@cache
def _head_and_metas(ids: int) -> str:
    """The query for the head of a partition and those of this many rows that exist: one look-up for both."""
    return (
        "select p.part, p.epoch, p.revision, floor, forgot, id, version, digest, born, dropped, dead_at, r.epoch,"
        " model, slot from partitions p left join records r indexed by records_id"
        f" on r.part = p.part and r.id in ({','.join('?' * ids) or 'null'}) where org = ? and usr = ?"
    )


def _attempts(db: Connection, part: int, jobs: Sequence[Job]) -> dict[str, int]:
    wanted = ",".join("?" * len(jobs))
    rows = db.execute(
        f"select id, attempt from jobs where part = ? and id in ({wanted})", (part, *(job.id for job in jobs))
    )
    return dict(rows.fetchall())


def _once(db: Connection, part: int, key_hash: bytes, now: int) -> tuple[bytes, int] | None:
    row: tuple[bytes, int] | None = db.execute(
        "select digest, revision from once where part = ? and key = ? and at > ?", (part, key_hash, now - KEY_LIFE_MS)
    ).fetchone()
    return row


def _apply(db: Connection, found: _Found, prepared: Prepared, plan: Plan, now: int) -> None:
    changes, part = prepared.changes, found.part
    if plan.changes_records:
        _write_records(db, found, changes.partition.org, plan)
        if plan.drop:
            db.executemany(_BURY, [(plan.revision, now, part, id) for id in plan.drop])
        db.execute("update partitions set revision = ? where part = ?", (plan.revision, part))
    if changes.finish:
        db.executemany("delete from jobs where part = ? and id = ?", [(part, job.id) for job in changes.finish])
    if changes.enqueue:
        db.executemany(
            "insert into jobs (part, id, kind, refs, due_at, attempt) values (?, ?, ?, ?, ?, ?) on conflict do nothing",
            [(part, job.id, job.kind, canonical_json(job.refs), job.due_at, job.attempt) for job in changes.enqueue],
        )
    if prepared.key_hash:
        db.execute(
            "insert or replace into once (part, key, digest, revision, at) values (?, ?, ?, ?, ?)",
            (part, prepared.key_hash, prepared.digest, plan.revision, now),
        )


def _write_records(db: Connection, found: _Found, org: str, plan: Plan) -> None:
    """Write the rows and their codes: a record keeps its slot as long as its model is the same."""
    part, epoch, slots = found.part, found.known.head.epoch, found.slots
    rows, vectors = [], {}
    for written in plan.write:
        record, vector = written.sealed.record, written.sealed.record.vector
        if vector is not None:
            vectors[record.id] = vector
        rows.append((
            part, record.id, epoch, plan.revision, packed(written.born), written.version, record.layer,
            record.scope.session, record.expires_at, written.sealed.digest, written.sealed.payload,
            vector.model if vector else None, vector.data if vector else None,
        ))  # fmt: skip
    kept = {id: slots[id][1] for id in vectors if id in slots and slots[id][0] == vectors[id].model}
    if slots:
        touched = (*(written.sealed.record.id for written in plan.write), *plan.drop)
        clear_codes(db, org, [slots[id] for id in touched if id in slots and id not in kept])
    if rows:
        db.executemany(_UPSERT, rows)
    if vectors:
        put_codes(db, org, [(row, vectors[id], kept.get(id)) for id, row in _rows_of(db, part, list(vectors))])


def living_by_ids(count: int) -> str:
    """The query for `count` living records. The index is named: from three ids, SQLite would read all of a user's."""
    return (
        f"select {_ROW} from records indexed by records_id where part = ? and epoch = ? and dropped = 0"
        f" and (dead_at is null or dead_at > ?) and id in ({','.join('?' * count)})"
    )


def _rows_of(db: Connection, part: int, ids: Sequence[str]) -> list[tuple[str, int]]:
    return db.execute(
        f"select id, row from records where part = ? and id in ({','.join('?' * len(ids))})", (part, *ids)
    ).fetchall()


def _list(
    db: Connection, part: int, epoch: int, where: Filter, now: int, newest_first: bool, limit: int, walk: Walk
) -> Page:
    known = db.execute(_LAYERS, {"part": part, "epoch": epoch}) if not where.layers else ()
    layers = tuple(dict.fromkeys(where.layers)) or tuple(row[0] for row in known)
    traces = traces_of(where.test)
    while True:
        count, between = walk.count, (walk.low, walk.high)
        sql, values = _select(part, epoch, layers, where.session, *between, now, newest_first, count + 1)
        rows = db.execute(sql, values).fetchall() if layers else []
        kept = [row for row in rows[:count] if has_traces(row[_PAYLOAD], traces)] if traces else rows[:count]
        for first in range(0, len(kept), limit):  # a few may be enough
            if not walk.takes(_records(where.partition, kept[first : first + limit])):
                break
        end = unpacked(rows[:count][-1][-1]) if rows else None
        if page := walk.page(end, more=len(rows) > count):
            return page


def _select(
    part: int,
    epoch: int,
    layers: Sequence[str],
    session: str | None,
    low: Born | None,
    high: Born | None,
    now: int,
    newest_first: bool,
    count: int,
) -> tuple[str, list[Any]]:
    """One ordered walk along an index for each layer, merged: the cost is that of the page, not of the partition."""
    tests = "part = ? and epoch = ? and layer = ? and dropped = 0 and (dead_at is null or dead_at > ?)"
    more: list[Any] = []
    if session is not None:
        tests += " and session = ?" + (" and session <> ''" if session else "")
        more.append(session)
    if low is not None:
        tests += " and born > ?"
        more.append(packed(low))
    if high is not None:
        tests += " and born < ?"
        more.append(packed(high))
    one = f"select {_ROW} from records where {tests}"
    values = [value for layer in layers for value in (part, epoch, layer, now, *more)]
    # The walks have no limits of their own: SQLite then takes one row of a walk at a time, and sorts nothing.
    order = f"order by born {'desc' if newest_first else 'asc'} limit {count}"
    return f"{' union all '.join([one] * len(layers))} {order}", values


def _changes(db: Connection, partition: Partition, mark: Mark | None, limit: int) -> Delta:
    part, head = _head(db, partition)
    reset, revision, floor_seen = reads_from(head, mark)
    rows = db.execute(
        f"select {_ROW}, revision, dropped from records where part = ? and revision > ? and epoch = ?"
        f" order by revision limit ?",
        (part, max(revision, head.forgot), head.epoch, limit + 1),
    ).fetchall()
    cut = whole_revisions([row[-2] for row in rows], limit)
    more = cut < len(rows)
    end = rows[cut - 1][-2] if more else head.revision
    put = tuple(_records(partition, [row for row in rows[:cut] if not row[-1]]))
    dropped = tuple(row[0] for row in rows[:cut] if row[-1])
    return Delta(Mark(head.epoch, end, floor_seen), put, dropped, reset, more)


def _all_if_few(db: Connection, partition: Partition) -> Delta | None:
    """All that a partition holds; None if that is more than `FEW_ROWS`. Rows that no verb sees count as well."""
    part, _ = _head(db, partition)
    much = db.execute("select 1 from records where part = ? limit 1 offset ?", (part, FEW_ROWS)).fetchone()
    return None if much else _changes(db, partition, None, FEW_ROWS)


def _damaged(db: Connection) -> int:
    """How many living records no longer match the digest they were written with."""
    rows = db.execute(
        f"select {_ROW}, org, usr, digest from records join partitions using (part, epoch) where dropped = 0"
    )
    damaged = 0
    for row in rows:
        try:
            (record,) = _records(Partition(row[8], row[9]), [row])
            damaged += digest_of(record, row[3]) != row[10]
        except Corrupt:
            damaged += 1
    return damaged


def _forget_whole(db: Connection, where: Filter, now: int, limit: int) -> Forgotten:
    part, head = _head(db, where.partition)
    if part == 0:
        part = _make_partition(db, where.partition)
    epoch, count = where.epoch, 0
    if epoch is None or epoch == head.epoch:
        epoch = head.epoch
        count = db.execute(
            """select count(*) from records where part = ? and epoch = ? and dropped = 0
               and (dead_at is null or dead_at > ?)""",
            (part, epoch, now),
        ).fetchone()[0]
        db.execute(
            """update partitions set usr = ?, epoch = epoch + 1, revision = revision + 1, forgot = revision + 1
               where part = ?""",
            (veil_of(where.partition).user, part),
        )
        db.execute("delete from jobs where part = ?", (part,))
    removed = _purge_garbage(db, where.partition, part, limit)
    return Forgotten(count, done=removed < limit, epoch=epoch)


def _purge_garbage(db: Connection, partition: Partition, part: int, limit: int) -> int:
    """Remove rows of older epochs: they are all older than the last whole forget, and no others are."""
    rows = db.execute(
        """select row, model, slot from records
           where part = ? and revision < (select forgot from partitions where part = ?) limit ?""",
        (part, part, limit),
    ).fetchall()
    return _delete(db, partition, rows)


def _delete(db: Connection, partition: Partition, rows: Sequence[tuple[int, str, int | None]]) -> int:
    """Delete records (row, model, slot) and their codes."""
    clear_codes(db, partition.org, [(model, slot) for _, model, slot in rows if slot is not None])
    db.executemany("delete from records where row = ?", [(row[0],) for row in rows])
    return len(rows)


def _purge_dead(db: Connection, partition: Partition, before: int, limit: int) -> Forgotten:
    part, head = _head(db, partition)
    removed = _purge_garbage(db, partition, part, limit)
    room = max(limit - removed, 1)
    rows = db.execute(
        "select row, model, slot, revision from records where part = ? and epoch = ? and dead_at < ? limit ?",
        (part, head.epoch, before, room),
    ).fetchall()
    _delete(db, partition, [row[:3] for row in rows])
    floor = max([head.floor, *(row[3] for row in rows)])
    db.execute("update partitions set floor = ? where part = ?", (floor, part))
    db.execute("delete from once where part = ? and at < ?", (part, before))
    _veil_erased(db, partition, part)
    next_at = db.execute(
        """select min(at) from (select min(dead_at) as at from records
             where part = ? and epoch = ? and dead_at is not null
           union all select min(at) from once where part = ?)""",
        (part, head.epoch, part),
    ).fetchone()[0]
    done = removed < limit and len(rows) < room
    return Forgotten(removed + len(rows), done, next_at)


def _veil_erased(db: Connection, partition: Partition, part: int) -> None:
    """Veil an erased partition that still has its plain name because a process of an earlier version erased it."""
    db.execute(
        """update or ignore partitions set usr = ? where part = ? and forgot = revision and forgot > 0
             and not exists (select 1 from records r where r.part = partitions.part)
             and not exists (select 1 from jobs j where j.part = partitions.part)""",
        (veil_of(partition).user, part),
    )


def _records(partition: Partition, rows: Sequence[tuple[Any, ...]]) -> list[Record]:
    made = [
        (id, layer, session, payload, None if model is None else Vector(model, vector), version, unpacked(born))
        for id, layer, session, payload, model, vector, version, born in map(_as_stored, rows)
    ]
    try:
        return records_from(partition, made)
    except (ValueError, TypeError, LookupError):
        raise Corrupt("a stored record cannot be read; run `recollect doctor`", field="store") from None
