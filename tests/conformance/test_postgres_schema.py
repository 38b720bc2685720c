"""The tables are ready for Citus, hide what a query forgets to filter, and are created in numbered steps."""

from __future__ import annotations

import asyncio
import math
import random
import struct
from collections.abc import Iterator

import psycopg
import pytest

from recollect.errors import Unavailable
from recollect.filters import Reach
from recollect.records import Changes, Partition, Vector
from recollect.stores import open_store
from recollect.stores.contract import OtherVersion, forget_whole, is_veil, prepare
from recollect.stores.postgres_schema import LEAVES, MIGRATIONS, TABLES, migrate
from recollect.testing.conformance.stage import (
    ANN,
    BOB,
    NOW,
    drop,
    enqueue,
    mark_of,
    message,
    one,
    opened,
    put,
    put_many,
    work,
)
from recollect.testing.servers.postgres import fresh_url

DISTRIBUTION_COLUMNS = {"org", "usr"}
SIZE = 16


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_url() as url:
        yield url


def _connect(url: str) -> psycopg.Connection:
    """A plain connection to the schema of a store, as used for hand-written queries."""
    plain, schema = _parts(url)
    return psycopg.connect(plain, autocommit=True, options=f"-c search_path={schema},public")


def _parts(url: str) -> tuple[str, str]:
    """The URL without our own parameter, and the schema it names."""
    plain, _, schema = url.rpartition("schema=")
    return plain.rstrip("?&"), schema


def _all(url: str, sql: str, *values: object) -> list[tuple]:
    with _connect(url) as db:
        return db.execute(sql, values).fetchall()


# ── ready for Citus ──────────────────────────────────────────────────────────────────────────────


async def test_every_key_of_every_table_includes_the_columns_citus_can_distribute_by(url):
    async with opened(url):
        pass
    keys = _all(
        url,
        """select pg_class.relname, array_agg(attname::text) from pg_index join pg_class on pg_class.oid = indrelid
             join pg_attribute on attrelid = indrelid and attnum = any(indkey)
           where relnamespace = current_schema()::regnamespace and (indisunique or indisprimary)
             and relname <> 'migrations' group by indexrelid, relname""",
    )
    assert {table for table, _ in keys} == {*TABLES, *LEAVES}
    for table, columns in keys:
        assert set(columns) >= DISTRIBUTION_COLUMNS, table


async def test_nothing_in_the_schema_prevents_distributing_it(url):
    async with opened(url):
        pass
    constraints = _all(
        url, "select conname from pg_constraint where connamespace = current_schema()::regnamespace and contype = 'f'"
    )
    assert constraints == [], "a foreign key would tie tables of different nodes together"
    others = _all(
        url,
        "select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind not in %s"
        .replace("%s", "('r', 'p', 'i', 'I', 't')"),
    )  # fmt: skip
    assert others == [], "a sequence would be one for all nodes"
    split = _all(url, "select pg_get_partkeydef('records'::regclass)")
    assert split == [("HASH (org, usr)",)]


async def test_each_user_is_in_one_hash_partition_and_users_spread_over_all_of_them(url):
    async with opened(url) as store:
        for user in range(60):
            await put_many(store, [message(f"m{n}", partition=Partition("acme", f"u{user}")) for n in range(3)])
    with _connect(url) as db:
        db.execute("select set_config('recollect.reach', 'all', false)")
        places = db.execute("select usr, array_agg(distinct tableoid) from records group by usr").fetchall()
    assert all(len(tables) == 1 for _, tables in places)
    assert len({tables[0] for _, tables in places}) == len(LEAVES)


# ── row-level security ───────────────────────────────────────────────────────────────────────────


async def test_a_query_that_forgets_its_filter_sees_one_partition_or_nothing(url):
    async with opened(url) as store:
        await put(store, message("ann's"))
        await put(store, message("bob's", partition=BOB))
        await put(store, message("rival's", partition=Partition("rival", "ann")))
    with _connect(url) as db:
        assert db.execute("select id from records").fetchall() == []
        assert db.execute("select count(*) from heads").fetchone() == (0,)
        db.execute("select set_config('recollect.org', 'acme', false), set_config('recollect.usr', 'ann', false)")
        assert db.execute("select id from records").fetchall() == [("ann's",)]
        assert db.execute("update records set payload = '{}'").rowcount == 1
        assert db.execute("delete from heads where usr = 'bob'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("insert into jobs values ('acme', 'bob', 'j', 'k', '[]', 0, 0)")
        for leaf in LEAVES:
            assert db.execute(f"select id from {leaf}").fetchall() == [], "not by the back door either"
    async with opened(url) as store:
        assert (await one(store, "bob's", BOB)).content == "hello"


async def test_a_call_about_several_partitions_sees_only_those(url):
    async with opened(url) as store:
        for user in ("ann", "bob", "an"):
            await put(store, message(f"{user}'s", partition=Partition("acme", user)))
    with _connect(url) as db:
        of_two = "chr(30) || 'acme' || chr(31) || 'ann' || chr(30) || chr(30) || 'acme' || chr(31) || 'bob' || chr(30)"
        db.execute(f"select set_config('recollect.several', {of_two}, false)")
        assert db.execute("select id from records order by id").fetchall() == [("ann's",), ("bob's",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("insert into jobs values ('acme', 'an', 'j', 'k', '[]', 0, 0)")


async def test_the_store_itself_is_subject_to_row_level_security(url):
    async with opened(url):
        pass
    owner, superuser = _all(url, "select rolname, rolsuper or rolbypassrls from pg_roles where rolname = current_user")[
        0
    ]
    if superuser:
        pytest.skip("RECOLLECT_TEST_POSTGRES names a role that no lock holds for")
    locks = _all(
        url,
        """select relname, relrowsecurity and relforcerowsecurity, pg_get_userbyid(relowner) from pg_class
           where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and relname <> 'migrations'""",
    )
    assert {name for name, *_ in locks} == {*TABLES, *LEAVES}
    assert all(locked and owned_by == owner for _, locked, owned_by in locks)


async def test_what_one_call_may_see_is_reset_when_it_ends(url):
    async with opened(url.replace("schema=", "pool_max=1&schema=")) as store:
        await put(store, message("a"))
        additions = (Changes(of, put=(message("b", partition=of),), key=f"key of {of}") for of in (ANN, BOB))
        await asyncio.gather(*(store.commit(each, NOW) for each in additions))
        await store.claim(NOW, 30, 10)
        await store.survey(NOW)
        left = await store._link.run(lambda db: _settings_of(db))
        assert left == ("", "", "", "")


async def _settings_of(db):
    names = ("org", "usr", "reach", "several")
    asked = ", ".join(f"coalesce(current_setting('recollect.{name}', true), '')" for name in names)
    return await (await db.execute(f"select {asked}")).fetchone()


# ── what a call reads ────────────────────────────────────────────────────────────────────────────


async def test_a_commit_and_a_get_find_ids_by_key_even_before_the_tables_have_statistics(url):
    async with opened(url.replace("schema=", "pool_max=2&schema=")) as store:
        for n in range(30):
            both = [Changes(of, put=(message(f"m{n}", partition=of),), key=f"k{n}") for of in (ANN, BOB)]
            await asyncio.gather(*(store.commit(each, NOW) for each in both))
            await store.commit(Changes(ANN, put=(message(f"n{n}"),), needs=(f"m{n}",), key=f"needs {n}"), NOW)
            (found,) = await store.get(ANN, [f"n{n}"], NOW)
            await put(store, found.with_(content="changed"))
            await drop(store, f"n{n}")
    along = _all(
        url,
        """select indexrelname, idx_scan from pg_stat_user_indexes join pg_index using (indexrelid)
           where schemaname = current_schema() and idx_scan > 0 and not indisprimary""",
    )
    assert along == [], "an index that is walked past other records costs more with each of them"


# ── search over an org ───────────────────────────────────────────────────────────────────────────


async def test_org_wide_search_uses_the_vector_graph_once_it_exists_and_finds_the_same(url):
    async with opened(url) as store:
        for user in range(10):
            of = Partition("acme", f"u{user}")
            await put_many(store, [message(f"m{n}", partition=of, vector=_anywhere(user * 90 + n)) for n in range(90)])
        await put(store, message("odd", vector=Vector("tiny", struct.pack("<3e", 1, 0, 0))))
        asked = _anywhere(9_999)
        exact = (await store.search(Reach("acme"), text=None, vector=asked, limit=10, now=NOW))["vector"]
        await store._meaning.build("tiny", SIZE)
        await store._meaning.build("tiny", SIZE)
        await put(store, message("nearest", vector=asked), message("odd too", vector=Vector("tiny", b"\x00\x3c")))
        found = (await store.search(Reach("acme"), text=None, vector=asked, limit=11, now=NOW))["vector"]
        assert [(hit.partition, hit.id) for hit in found] == [
            (ANN, "nearest"), *((hit.partition, hit.id) for hit in exact)
        ]  # fmt: skip
        built = _all(url, "select count(*) from pg_indexes where schemaname = current_schema() and indexdef ~ 'hnsw'")
        assert built == [(len(LEAVES),)]
        assert await store.check() == []


def _anywhere(number: int) -> Vector:
    """A different direction for each number."""
    chance = random.Random(number)
    numbers = [chance.gauss(0, 1) for _ in range(SIZE)]
    return Vector("tiny", struct.pack(f"<{SIZE}e", *(each / math.hypot(*numbers) for each in numbers)))


# ── migrations ───────────────────────────────────────────────────────────────────────────────────


async def test_a_user_erased_before_veils_existed_loses_the_name_when_the_schema_is_migrated(url):
    async with opened(url) as store:
        await put(store, message("a"))
        await put(store, message("b", partition=BOB))
        await forget_whole(store, ANN, NOW)
        before = await mark_of(store)
    with _connect(url) as db, db.transaction():
        db.execute("select set_config('recollect.reach', 'all', true)")
        for table in ("heads", "once"):
            db.execute(f"update {table} set usr = 'ann' where usr like '{{erased}}%'")
        db.execute("delete from migrations where number >= 2")
    async with opened(url) as store:
        assert [each for each in await store.partitions() if not is_veil(each)] == [BOB]
        assert await mark_of(store) == before
        await put(store, message("a", "new"))
        assert (await mark_of(store)).revision == before.revision + 1


async def test_many_openers_at_once_make_one_schema(url):
    stores = await asyncio.gather(*(open_store(url) for _ in range(6)))
    await put(stores[0], message("a"))
    assert (await one(stores[5], "a")).content == "hello"
    for store in stores:
        await store.close()
    assert _all(url, "select number from migrations order by number") == [(n + 1,) for n in range(len(MIGRATIONS))]


async def test_a_schema_of_the_first_version_is_migrated_with_its_data(url):
    plain, schema = _parts(url)
    options = f"-c search_path={schema},public"
    async with await psycopg.AsyncConnection.connect(plain, autocommit=True, options=options) as db:
        await migrate(db, schema, MIGRATIONS[:1])
        await db.execute("select set_config('recollect.reach', 'all', false)")
        await db.execute("insert into heads values ('acme', 'ann', 1, 1, 0, 0)")
        old = prepare(Changes(ANN, put=(message("old"),))).puts[0]
        await db.execute(
            """insert into records (org, usr, id, epoch, revision, born, version, layer, session, dropped, digest,
                 payload) values ('acme', 'ann', 'old', 1, 1, 1 << 7, 1, 'conversation', 's1', false, %s, %s)""",
            (old.digest, old.payload),
        )
    async with opened(url) as store:
        assert await one(store, "old") == message("old").with_(version=1, born=(1, 0))
        additions = (Changes(of, put=(message("new", partition=of),), key="k") for of in (ANN, BOB))
        assert await asyncio.gather(*(store.commit(each, NOW) for each in additions)) == [2, 1]
        assert [each.id for each in (await store.changes(ANN, None)).put] == ["old", "new"]
        assert await store.check() == []


async def test_a_schema_of_a_newer_version_is_refused_and_not_touched(url):
    async with opened(url) as store:
        await put(store, message("a"))
    with _connect(url) as db:
        db.execute("insert into migrations values (99)")
    with pytest.raises(Unavailable, match="upgrade Recollect"):
        await open_store(url)


async def test_a_schema_of_an_earlier_version_is_refused_and_not_touched_where_the_url_says_so(url):
    async with opened(url) as store:
        await put(store, message("a"))
    with _connect(url) as db:
        db.execute("delete from migrations where number = %s", (len(MIGRATIONS),))
    with pytest.raises(OtherVersion, match="migrate it") as refused:
        await open_store(f"{url}&migrate=no")
    assert not refused.value.is_newer
    assert _all(url, "select max(number) from migrations") == [(len(MIGRATIONS) - 1,)]
    for asked in (url, f"{url}&migrate=no"):
        async with opened(asked) as store:
            assert (await one(store, "a")).content == "hello"


async def test_a_migration_may_outlast_the_call_timeout_and_others_wait_for_it(url):
    async with opened(url):
        pass
    plain, schema = _parts(url)
    options = f"-c search_path={schema},public -c statement_timeout=100 -c lock_timeout=100"
    taken = []

    async def take_long(db):
        taken.append(db)
        await db.execute("select pg_sleep(0.5)")

    async def upgrade():
        async with await psycopg.AsyncConnection.connect(plain, autocommit=True, options=options) as db:
            await migrate(db, schema, (*MIGRATIONS, take_long))
            return await (await db.execute("show lock_timeout")).fetchone()

    assert await asyncio.gather(upgrade(), upgrade(), upgrade()) == [("100ms",)] * 3
    assert len(taken) == 1
    assert _all(url, "select max(number) from migrations") == [(len(MIGRATIONS) + 1,)]


async def test_a_migration_that_fails_leaves_the_previous_version(url):
    async with opened(url) as store:
        await put(store, message("a"))

    async def add_column(db):
        await db.execute("alter table heads add column colour text")

    async def fail(db):
        await db.execute("drop table once")
        await db.execute("select 1 / 0")

    plain, schema = _parts(url)
    options = f"-c search_path={schema},public"
    async with await psycopg.AsyncConnection.connect(plain, autocommit=True, options=options) as db:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await migrate(db, schema, (*MIGRATIONS, add_column, fail))
    assert _all(url, "select max(number) from migrations") == [(len(MIGRATIONS) + 1,)]
    assert _all(url, "select count(*) from once") == [(0,)]
    with _connect(url) as db:
        db.execute("delete from migrations where number > %s", (len(MIGRATIONS),))
    async with opened(url) as store:
        assert await enqueue(store, work("j")) == 1
