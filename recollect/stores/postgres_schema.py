"""What is in the database, and how it gets there: numbered steps under one lock.

Every key of every table begins with (org, usr), the partition. So a table can be split by it, here
into hash partitions, and Citus can distribute by either of the two columns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege, UndefinedObject
from psycopg.sql import SQL, Identifier

from recollect.errors import Unavailable
from recollect.records import Partition
from recollect.stores.contract import OtherVersion, veil_of
from recollect.stores.postgres_functions import FUNCTIONS, commit_function

Connection = AsyncConnection[Any]

HASH_PARTITIONS = 8
"""Enough that a vacuum or an index build holds only a part, few enough that a plan over all of them is cheap."""
OLDEST = 150_000
"""PostgreSQL 15, which has what the functions use."""
TABLES = ("heads", "records", "jobs", "once")
LEAVES = tuple(f"records_{number}" for number in range(HASH_PARTITIONS))
HALFVEC_DIMENSIONS_MAX = 16_000

_SEES = """
  (org = current_setting('recollect.org', true)
    and (usr = current_setting('recollect.usr', true) or current_setting('recollect.reach', true) = 'org'))
  or current_setting('recollect.reach', true) = 'all'"""
"""A row is visible to a call that has declared itself to be about the row's partition, its org, or all of them."""
_SEES_SEVERAL = f"""{_SEES}
  or strpos(current_setting('recollect.several', true), chr(30) || org || chr(31) || usr || chr(30)) > 0"""
"""Or about several partitions, the row's among them."""

_TABLES = (
    """create table heads (
        org text collate "C" not null, usr text collate "C" not null,
        epoch bigint not null, revision bigint not null, floor bigint not null, forgot bigint not null,
        primary key (org, usr)) with (fillfactor = 50)""",
    """create table records (
        org text collate "C" not null, usr text collate "C" not null, id text collate "C" not null,
        epoch bigint not null, revision bigint not null, born bigint not null, version bigint not null,
        layer text collate "C" not null, session text collate "C" not null, dropped boolean not null, dead_at bigint,
        digest bytea not null, payload text not null, model text collate "C", vector bytea,
        primary key (org, usr, id)) partition by hash (org, usr)""",
    *(
        f"create table {leaf} partition of records for values with (modulus {HASH_PARTITIONS}, remainder {number})"
        for number, leaf in enumerate(LEAVES)
    ),
    "create index records_log on records (org, usr, revision)",
    "create index records_layer on records (org, usr, epoch, layer, born) where not dropped",
    """create index records_session on records (org, usr, epoch, session, layer, born)
        where not dropped and session <> ''""",
    "create index records_dead on records (org, usr, dead_at) where dead_at is not null",
    """create table jobs (
        org text collate "C" not null, usr text collate "C" not null, id text collate "C" not null,
        kind text not null, refs text not null, due_at bigint not null, attempt integer not null,
        primary key (org, usr, id)) with (fillfactor = 70)""",
    "create index jobs_due on jobs (due_at)",
    """create table once (
        org text collate "C" not null, usr text collate "C" not null, key bytea not null,
        digest bytea not null, revision bigint not null, at bigint not null, primary key (org, usr, key))""",
    "create index once_at on once (org, usr, at)",
)

# Forced, because the store connects as the role that owns the tables. A hash partition has no
# policy of its own, so a query that bypasses the table it belongs to sees nothing at all.
_SECURITY = (
    *(f"alter table {table} enable row level security" for table in (*TABLES, *LEAVES)),
    *(f"alter table {table} force row level security" for table in (*TABLES, *LEAVES)),
    *(f"create policy {table}_of_the_caller on {table} using ({_SEES})" for table in TABLES),
)

_HALF = """
create function half_of(vector bytea, place integer) returns real language sql immutable as $$
  select (case when bits & 32768 = 0 then 1 else -1 end * case when bits >> 10 & 31 = 0
    then (bits & 1023) * 2.0::float8 ^ -24
    else (1024 + (bits & 1023)) * 2.0::float8 ^ ((bits >> 10 & 31) - 25) end)::real
  from (select get_byte(vector, 2 * place) | (get_byte(vector, 2 * place + 1) << 8) as bits) as number
$$"""

_MOVE = f"""
update records set embedding = numbers.all_of_them::halfvec, vector = null
from records r cross join lateral (
  select array_agg(half_of(r.vector, place) order by place) as all_of_them,
    bool_and(get_byte(r.vector, 2 * place + 1) & 124 <> 124) as finite
  from generate_series(0, length(r.vector) / 2 - 1) as place) as numbers
where records.org = r.org and records.usr = r.usr and records.id = r.id and r.vector is not null
  and length(r.vector) between 2 and {2 * HALFVEC_DIMENSIONS_MAX} and length(r.vector) % 2 = 0 and numbers.finite"""


# What they leave out never exists: the condition lets a plan use them only for queries that state it too. Otherwise a
# plan made for empty tables may look for an id along the log of a partition, and costs more with each record.
_INDEXES = (
    "drop index records_log",
    "create index records_log on records (org, usr, revision) where revision > 0",
    "drop index if exists once_at",
    "create index once_at on once (org, usr, at) where at > 0",
)


async def migrate_1(db: Connection) -> None:
    """Heads, records, jobs, remembered keys; row-level security. The verbs come with the last step that changed any."""
    for statement in (*_TABLES, *_SECURITY):
        await db.execute(statement.encode())


async def migrate_2(db: Connection) -> None:
    """Erased users keep no name here: functions that know about veils, and veils for those erased earlier."""
    for function in ("commit_changes", "changes_since", "forget_whole", "purge_dead"):
        await db.execute(f"drop function if exists {function}".encode())
    await db.execute("select set_config('recollect.reach', 'all', true)")
    empty = await db.execute(
        """select org, usr from heads h where forgot = revision and forgot > 0
             and not exists (select from records r where r.org = h.org and r.usr = h.usr)
             and not exists (select from jobs j where j.org = h.org and j.usr = h.usr)"""
    )
    for org, user in await empty.fetchall():
        for table in ("heads", "once"):
            await db.execute(
                f"update {table} set usr = %s where org = %s and usr = %s".encode(),
                (veil_of(Partition(org, user)).user, org, user),
            )


async def migrate_3(db: Connection) -> None:
    """Calls about several partitions are allowed; each query has an index that no other query can use."""
    for table in TABLES:
        await db.execute(f"alter policy {table}_of_the_caller on {table} using ({_SEES_SEVERAL})".encode())
    for statement in _INDEXES:
        await db.execute(statement.encode())


async def migrate_4(db: Connection) -> None:
    """Commits of many partitions in one statement, which is given the turn of each."""
    await db.execute("drop function if exists commit_additions")


async def migrate_5(db: Connection) -> None:
    """Remembered keys have one index: clearing them, once a day, looks at all the keys of a partition."""
    await db.execute("drop index if exists once_at")


async def migrate_6(db: Connection) -> None:
    """Look-ups by id use the id, even in plans made for empty tables."""
    for statement in (*FUNCTIONS, commit_function(with_vectors=await _has_column(db))):
        await db.execute(statement.encode())


MIGRATIONS: tuple[Callable[[Connection], Awaitable[None]], ...] = (
    migrate_1,
    migrate_2,
    migrate_3,
    migrate_4,
    migrate_5,
    migrate_6,
)
"""In order; the table `migrations` records how many of them the schema has had."""


async def add_vectors(db: Connection) -> None:
    """Keep vectors as `halfvec`, where pgvector is installed; those stored as plain bytes are moved."""
    await db.execute("alter table records add column embedding halfvec")
    await db.execute("drop function commit_changes")
    await db.execute(commit_function(with_vectors=True).encode())
    await db.execute(_HALF.encode())
    await db.execute("select set_config('recollect.reach', 'all', true)")
    await db.execute(_MOVE.encode())
    await db.execute("drop function half_of")


@dataclass(frozen=True, slots=True)
class Found:
    """What was found at opening: the server, the schema's version, whether vectors are searchable."""

    server: str
    version: int
    pgvector: str | None
    fsync: bool
    synchronous_commit: str
    read_only: bool


async def prepare_schema(db: Connection, schema: str, *, with_vectors: bool, migrates: bool = True) -> Found:
    """Bring the schema up to date and return what is there. A schema of a newer version is not touched."""
    check_server(db.info.server_version)
    found = await look(db, schema)
    newest = len(MIGRATIONS)
    may_change = not found.read_only and (migrates or not found.version)
    if found.version > newest or (found.version < newest and not may_change):
        advice = "open it for writing once, without migrate=no, to migrate it"
        raise OtherVersion("the schema has version", found.version, newest, advice)
    if not may_change:
        return found
    if found.version < len(MIGRATIONS):
        await migrate(db, schema)
    if with_vectors and found.pgvector is None:
        await _enable_vectors(db, schema)
    return await look(db, schema)


def check_server(number: int) -> None:
    """Refuse a server that is too old, before anything is created in it.

    >>> check_server(180_004)
    """
    if number < OLDEST:
        raise Unavailable(
            f"PostgreSQL {number // 10_000} is too old: {OLDEST // 10_000} or later is needed, nothing was touched",
            field="store",
        )


async def migrate(
    db: Connection, schema: str, steps: tuple[Callable[[Connection], Awaitable[None]], ...] = MIGRATIONS
) -> None:
    """Run the missing steps, each in a transaction of its own: the schema is old or new, never in between."""
    while True:
        async with db.transaction():
            await _lock(db, schema)
            await db.execute(SQL("create schema if not exists {}").format(Identifier(schema)))
            await db.execute("create table if not exists migrations (number integer primary key)")
            version = (await _row(db, "select coalesce(max(number), 0) from migrations"))[0]
            if version >= len(steps):
                return
            await steps[version](db)
            await db.execute("insert into migrations values (%s)", (version + 1,))


async def _enable_vectors(db: Connection, schema: str) -> None:
    """Use pgvector if it is there or can be created; without it everything but search across an org works."""
    try:
        async with db.transaction():
            await _lock(db, schema)
            if not await _has_column(db):
                installed, available = await _row(
                    db,
                    """select exists (select from pg_extension where extname = 'vector'),
                         exists (select from pg_available_extensions where name = 'vector')""",
                )
                if not installed and not available:
                    return
                if not installed:
                    await db.execute("create extension vector with schema public")
                await add_vectors(db)
    except (InsufficientPrivilege, UndefinedObject):
        return  # an administrator has to create the extension, or this server's is too old for halfvec


async def look(db: Connection, schema: str) -> Found:
    """What is there, without changing anything."""
    server, fsync, synchronous_commit, read_only = await _row(
        db,
        """select current_setting('server_version'), current_setting('fsync') = 'on',
             current_setting('synchronous_commit'),
             pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on'""",
    )
    made = await _row(db, "select to_regclass(%s) is not null", (f"{schema}.migrations",))
    version = (await _row(db, "select coalesce(max(number), 0) from migrations"))[0] if made[0] else 0
    pgvector = None
    if version and await _has_column(db):
        pgvector = (await _row(db, "select extversion from pg_extension where extname = 'vector'"))[0]
    return Found(server, version, pgvector, fsync, synchronous_commit, read_only)


async def _has_column(db: Connection) -> bool:
    row = await _row(
        db,
        """select exists (select from pg_attribute
             where attrelid = to_regclass('records') and attname = 'embedding' and not attisdropped)""",
    )
    return bool(row[0])


async def _lock(db: Connection, schema: str) -> None:
    """Wait for any other change of the schema to end, then take as long as it takes: tables may be large.

    Only locks on tables are waited for no longer than usual, because callers queued behind us would have to wait too.
    """
    (usual,) = await _row(db, "select current_setting('lock_timeout')")
    await db.execute("set local statement_timeout = 0")
    await db.execute("set local lock_timeout = 0")
    await db.execute("select pg_advisory_xact_lock(hashtextextended('recollect migrations ' || %s, 0))", (schema,))
    await db.execute("select set_config('lock_timeout', %s, true)", (usual,))


async def _row(db: Connection, statement: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The one row that a statement returns."""
    row = await (await db.execute(statement.encode(), values)).fetchone()
    assert row is not None
    return tuple(row)
