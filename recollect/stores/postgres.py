"""PostgreSQL: everything, for many machines, with row-level security as a second lock.

Each verb is one call to one function in the database (`postgres_functions.py`), on tables that
`postgres_schema.py` creates; `postgres_link.py` says how the server is reached, `postgres_commits.py` how
waiting commits are sent together. With pgvector, vectors are kept as `halfvec` and searched across an org.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from psycopg.errors import ReadOnlySqlTransaction
from psycopg.types import TypeInfo

from recollect.errors import Corrupt, Unavailable
from recollect.filters import Filter, Reach, Traces, traces_of
from recollect.records import Born, Changes, Job, Partition, Record, Vector, digest_of, records_from
from recollect.stores.contract import (
    CHANGES_MIN,
    DURABLE,
    FORGET_ROWS,
    OWN,
    SHARED,
    TURN,
    VECTOR_SEARCH,
    VEIL,
    Candidate,
    Delta,
    Finding,
    Forgotten,
    Head,
    Mark,
    Page,
    Survey,
    Walk,
    check_ids,
    check_limit,
    forget_part,
    packed,
    prepare,
    reads_from,
    unpacked,
    whole_revisions,
)
from recollect.stores.pausing import decoded, pause_after
from recollect.stores.postgres_commits import Commits, named
from recollect.stores.postgres_functions import call, page_name
from recollect.stores.postgres_health import durability, examine
from recollect.stores.postgres_link import Connection, Link, read_address
from recollect.stores.postgres_meaning import Meaning, from_half, unhurried
from recollect.stores.postgres_schema import LEAVES, TABLES, Found, prepare_schema

Rows = list[tuple[Any, ...]]

CHECKED_ROWS = 500
"""Records that `check` reads at a time."""
_FIRST, _LAST = -1, 2**63 - 1
_COLUMNS = ("id", "layer", "session", "payload", "model", "version", "born", "vector")
_BORN, _PAYLOAD = _COLUMNS.index("born"), _COLUMNS.index("payload")


async def open_url(url: str, *, busy_timeout_s: float = 10.0) -> PostgresStore:
    """Open `postgresql://user@host/database?schema=recollect`; creates or migrates the schema."""
    link = Link(read_address(url), busy_timeout_s)

    async def first(db: Connection) -> tuple[Found, TypeInfo | None]:
        of = link.address
        found = await prepare_schema(db, of.schema, with_vectors=of.pgvector, migrates=of.migrates)
        return found, await TypeInfo.fetch(db, "halfvec") if found.pgvector else None

    found, halfvec = await link.first(first)
    if halfvec is not None:
        link.arrays.learn_halfvec(halfvec)
    try:
        await link.open()
    except BaseException:
        await link.close()
        raise
    return PostgresStore(link, found)


class PostgresStore:
    """All promises of the contract in one schema. Open it with `open_store("postgresql://...")`."""

    def __init__(self, link: Link, found: Found) -> None:
        self._link = link
        self._found = found
        self._with_vectors = found.pgvector is not None
        self.abilities = frozenset({DURABLE, SHARED} | ({VECTOR_SEARCH} if self._with_vectors else set()))
        self._meaning = Meaning(link)
        self._commits = Commits(link, with_vectors=self._with_vectors)
        columns = [*_COLUMNS, "embedding"] if self._with_vectors else [*_COLUMNS, "null::bytea"]
        self._columns = ", ".join(columns)
        changed = [name if name.startswith("null") else f"(changed).{name}" for name in columns]
        self._changed = ", ".join((*changed, "(changed).revision", "(changed).dropped"))

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def commit(self, changes: Changes, now: int) -> int:
        prepared = prepare(changes)
        self._link.check_open()
        return await self._commits.write(prepared, now)

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        check_limit(limit)
        sql = call("org, usr, id, kind, refs, due_at, attempt", "claim_jobs", ("bigint", "bigint", "integer"))

        async def work(db: Connection) -> list[Job]:
            try:
                cursor = await db.execute(sql, (now, now + int(lease_s * 1000), limit))
            except ReadOnlySqlTransaction:
                return []  # work that cannot be finished here is left to processes that can
            return [
                Job(id, Partition(org, user), kind, tuple(json.loads(refs)), due_at, attempt)
                for org, user, id, kind, refs, due_at, attempt in await cursor.fetchall()
            ]

        return await self._link.finish(work)

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        check_limit(limit)
        if where.dead_before is not None:
            sql = call("removed, purged, next_at", "purge_dead", ("text", "text", "text", "bigint", "integer"))
            values = (*named(where.partition), where.dead_before, limit)
            removed, purged, next_at = await self._link.finish(lambda db: _one(db, sql, values))
            return Forgotten(removed + purged, removed < limit and purged < max(limit - removed, 1), next_at)
        if not where.is_whole:
            return await forget_part(self, where, now, limit)
        sql = call("counted, removed, ended", "forget_whole", ("text", "text", "text", "bigint", "bigint", "integer"))
        # Without an epoch, a second try would also forget what was written after the first.
        count, removed, epoch = await self._link.finish(
            lambda db: _one(db, sql, (*named(where.partition), now, where.epoch, limit)), again=where.epoch is not None
        )
        return Forgotten(count, done=removed < limit, epoch=epoch)

    async def compact(self) -> None:
        """Vacuum dead rows out of the tables. With `compact=full` the tables are rewritten, one by one."""
        how = "full, analyze" if self._link.address.compacts_fully else "analyze"

        async def work(db: Connection) -> None:
            async with unhurried(db):
                for table in (*TABLES, *LEAVES):
                    if table != "records":
                        await db.execute(f"vacuum ({how}) {table}".encode())

        await self._link.finish(work)

    async def wait_for_work(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for some process to enqueue a job that is due. True when one has."""
        return await self._link.wait_for_work(timeout_s)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        check_ids(ids)
        sql = call(self._columns, "get_records", ("text", "text", "bigint", "text[]"))
        rows = await self._rows(sql, (*partition, now, list(ids)))
        found = {row[0]: row for row in rows}
        return await _decoded(partition, [found[id] for id in ids if id in found])

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        check_limit(limit)
        walk, traces = Walk(where, newest_first, limit, after), traces_of(where.test)
        while True:
            count = walk.count
            rows = await self._block(where, now, newest_first, walk.low, walk.high, count + 1, traces)
            kept = [row for row in rows[:count] if row[_PAYLOAD] is not None]
            for first in range(0, len(kept), limit):  # a few may be enough
                if not walk.takes(await _decoded(where.partition, kept[first : first + limit])):
                    break
            end = unpacked(rows[:count][-1][_BORN]) if rows else None
            if page := walk.page(end, more=len(rows) > count):
                return page

    async def _block(
        self, where: Filter, now: int, newest_first: bool, low: Born | None, high: Born | None, count: int,
        traces: Traces,
    ) -> Rows:  # fmt: skip
        """The next rows in order; rows without the traces looked for carry only their position."""
        name = page_name(newest_first=newest_first, of_session=bool(where.session))
        types = ("text", "text", "bigint", "text[]", "text", "bigint", "bigint", "integer")
        layers = list(dict.fromkeys(where.layers)) or None
        between = (packed(low) if low else _FIRST, packed(high) if high else _LAST)
        values = (*where.partition, now, layers, where.session, *between, count)
        if not traces:
            return await self._rows(call(self._columns, name, types), values)
        sought = self._link.arrays.written(("text[]",) * len(traces), traces)
        sql = call(_only_meant(self._columns), name, types) + _meant(len(traces))
        return await self._rows(sql, (*values, *sought))

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        check_limit(limit, CHANGES_MIN)
        types = ("text", "text", "text", "bigint", "bigint", "bigint", "integer")
        sql = call(f"head_epoch, head_revision, head_floor, {self._changed}", "changes_since", types)
        turn_seen, floor_seen = divmod(mark.floor_seen, TURN) if mark else (0, 0)
        seen = (mark.epoch, mark.revision, floor_seen) if mark else (None, None, None)
        values = (*named(partition), *seen, limit + 1)

        async def work(db: Connection) -> tuple[int, Rows]:
            return self._link.turn_of(db), await (await db.execute(sql, values, binary=True)).fetchall()

        turn, ((epoch, revision, floor, *_), *rows) = await self._link.run(work)
        head = Head(epoch, revision, floor)
        if mark is not None:
            if turn != turn_seen or revision < mark.revision:
                return await self.changes(partition, None, limit)  # restored, or replaced: see `TURN`
            mark = replace(mark, floor_seen=floor_seen)
        reset, _, floor_seen = reads_from(head, mark)
        cut = whole_revisions([row[-2] for row in rows], limit)
        more = cut < len(rows)
        end = rows[cut - 1][-2] if more else head.revision
        put = tuple(await _decoded(partition, [row[3:] for row in rows[:cut] if not row[-1]]))
        await pause_after(put)
        dropped = tuple(row[3] for row in rows[:cut] if row[-1])
        return Delta(Mark(head.epoch, end, floor_seen + turn * TURN), put, dropped, reset, more)

    async def search(
        self, reach: Reach, *, text: str | None, vector: Vector | None, limit: int, now: int
    ) -> Mapping[str, Sequence[Candidate]]:
        check_limit(limit)
        self._link.check_open()
        if not self._with_vectors:
            raise Unavailable("search over an org needs pgvector in this database", field="search")
        if vector is None:
            raise Unavailable("this store searches across users by meaning alone; see its abilities", field="search")
        return {"vector": await self._meaning.search(reach, vector, limit, now)}

    async def close(self) -> None:
        await self._link.close()

    # ── for operators ────────────────────────────────────────────────────────────────────────────

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        sql = "select org, usr from heads where %s or (org, usr) > (%s, %s) order by org, usr limit %s"
        rows = await self._overview(sql, (after is None, *(after or ("", "")), limit))
        return [Partition(org, user) for org, user in rows]

    async def survey(self, now: int) -> Survey:
        ((partitions, waiting, running, scheduled, oldest, size),) = await self._overview(
            """select (select count(*) from heads where not starts_with(usr, %s) and not starts_with(org, %s)),
                 count(*) filter (where due_at <= %s),
                 count(*) filter (where due_at > %s and attempt > 0),
                 count(*) filter (where due_at > %s and attempt = 0), min(due_at),
                 (select sum(pg_total_relation_size(oid))::bigint from pg_class
                   where relnamespace = to_regnamespace(%s) and relkind = 'r') from jobs""",
            (VEIL, OWN, now, now, now, self._link.address.schema),
        )
        records = await self._overview(
            """select layer, count(*) from records join heads using (org, usr, epoch)
               where not dropped and (dead_at is null or dead_at > %s) group by layer""",
            (now,),
        )
        return Survey(partitions, dict(records), waiting, running, oldest, size, scheduled)

    async def check(self) -> Sequence[str]:
        """What is wrong with the stored data: every living record is read and compared with its digest."""
        found = []
        ((stray, ahead, unusable),) = await self._overview(
            """select count(*) filter (where heads.org is null),
                 count(*) filter (where records.revision > heads.revision),
                 (select count(*) from pg_index join pg_class on pg_class.oid = indexrelid
                    where relnamespace = to_regnamespace(%s) and not indisvalid)
               from records left join heads using (org, usr)""",
            (self._link.address.schema,),
        )
        if stray:
            found.append("records without a partition")
        if ahead:
            found.append("records ahead of their partition's revision")
        if unusable:
            found.append("indexes that are not valid; rebuild them with REINDEX")
        if damaged := await self._damaged():
            found.append(f"records that differ from what was written: {damaged}")
        return found

    async def _damaged(self) -> int:
        """How many living records do not have the digest they were written with."""
        sql = (
            f"select {self._columns}, digest, org, usr from records join heads using (org, usr, epoch)"
            " where not dropped and (org, usr, id) > (%s, %s, %s) order by org, usr, id limit %s"
        )
        damaged, last = 0, ("", "", "")
        while rows := await self._overview(sql, (*last, CHECKED_ROWS)):
            for row in rows:
                try:
                    (record,) = _records(Partition(*row[-2:]), [row])
                    damaged += digest_of(record, row[3]) != row[-3]
                except Corrupt:
                    damaged += 1
            last = (rows[-1][-2], rows[-1][-1], rows[-1][0])
        return damaged

    async def examine(self) -> Sequence[Finding]:
        """What an operator should know about the server."""
        address = self._link.address
        return await self._link.run(lambda db: examine(db, address.schema, address.pool_max))

    def describe(self) -> dict[str, Any]:
        found = self._found
        return {
            "store": "postgres",
            "url": self._link.address.shown,
            "server": found.server,
            "schema_version": found.version,
            "pgvector": found.pgvector or "missing: no search by meaning over an org",
            "durability": durability(found),
            "connections": self._link.address.pool_max,
            "read_only": found.read_only,
        }

    async def _rows(self, sql: bytes, values: Sequence[Any]) -> Rows:
        async def work(db: Connection) -> Rows:
            return await (await db.execute(sql, values, binary=True)).fetchall()

        return await self._link.run(work)

    async def _overview(self, sql: str, values: Sequence[Any]) -> Rows:
        """Rows of all partitions, for operators."""

        async def work(db: Connection) -> Rows:
            async with db.transaction():
                await db.execute("select set_config('recollect.reach', 'all', true)")
                return await (await db.execute(sql.encode(), values, binary=True)).fetchall()

        return await self._link.run(work)


async def _one(db: Connection, sql: bytes, values: Sequence[Any]) -> tuple[Any, ...]:
    (row,) = await (await db.execute(sql, values)).fetchall()
    return tuple(row)


def _only_meant(columns: str) -> str:
    """These columns; rows that cannot match carry only their position."""
    return ", ".join(name if name == "born" else f"case when is_meant then {name} end" for name in columns.split(", "))


def _meant(groups: int) -> bytes:
    """The clause that tells for each row whether its payload has a trace from every group."""
    has = "exists (select from unnest(%b::text[]) as t (trace) where strpos(payload, trace) > 0)"
    return f" cross join lateral (select {' and '.join([has] * groups)} as is_meant) as m".encode()


async def _decoded(partition: Partition, rows: Sequence[tuple[Any, ...]]) -> list[Record]:
    return await decoded(rows, lambda row: len(row[_PAYLOAD]), lambda some: _records(partition, some))


def _records(partition: Partition, rows: Sequence[tuple[Any, ...]]) -> list[Record]:
    made = [
        (id, layer, session, payload, _vector(model, plain, half), version, unpacked(born))
        for id, layer, session, payload, model, version, born, plain, half, *_ in rows
    ]
    try:
        return records_from(partition, made)
    except (ValueError, TypeError, LookupError):
        raise Corrupt("a stored record cannot be read; run `recollect doctor`", field="store") from None


def _vector(model: str | None, plain: Any, half: Any) -> Vector | None:
    if model is None:
        return None
    return Vector(model, plain if half is None else from_half(half))
