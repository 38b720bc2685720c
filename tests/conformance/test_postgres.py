"""The PostgreSQL store keeps every promise, shares a database, wakes workers and reveals no secret."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace

import psycopg
import pytest

from recollect.errors import Conflict, Unavailable, ValidationError
from recollect.filters import Filter, Reach
from recollect.records import DAY_MS, Changes, Job, Partition, Vector
from recollect.stores import open_store
from recollect.stores.contract import SHARED, VECTOR_SEARCH, Mark
from recollect.stores.postgres import PostgresStore
from recollect.stores.postgres_health import durability
from recollect.stores.postgres_link import read_address
from recollect.stores.postgres_schema import MIGRATIONS, Found
from recollect.testing.conformance import StoreConformance
from recollect.testing.conformance.commits import FULL
from recollect.testing.conformance.stage import (
    ANN,
    BOB,
    LEASE_S,
    NOW,
    enqueue,
    ids_of,
    listed,
    message,
    one,
    opened,
    put,
    refused,
    work,
)
from recollect.testing.servers.postgres import fresh_url

TEA = Vector("tiny", b"\x00\x3c\x00\x00")


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_url() as url:
        yield url


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    async with opened(url) as store:
        assert isinstance(store, PostgresStore)
        yield store


class TestPostgres(StoreConformance):
    @pytest.fixture
    def store_url(self) -> Iterator[str]:
        with fresh_url() as url:
            yield url


# ── without pgvector ─────────────────────────────────────────────────────────────────────────────


async def test_without_pgvector_everything_is_stored_and_only_org_wide_search_is_missing():
    with fresh_url(pgvector="off") as url:
        async with opened(url) as store:
            assert SHARED in store.abilities
            assert VECTOR_SEARCH not in store.abilities
            assert store.describe()["pgvector"].startswith("missing")
            await put(store, FULL)
            assert await one(store, "full") == FULL.with_(version=1, born=(1, 0))
            with refused(Unavailable, "search"):
                await store.search(Reach("acme"), text=None, vector=TEA, limit=5, now=NOW)
            assert await store.check() == []


async def test_vectors_from_before_pgvector_are_migrated_bit_for_bit():
    every_number = b"".join(bits.to_bytes(2, "little") for bits in range(0x7C00))
    negative = b"".join((bits | 0x8000).to_bytes(2, "little") for bits in range(0x7C00))
    parts = [half[at : at + 8_000] for half in (every_number, negative) for at in range(0, len(half), 8_000)]
    records = [message(f"m{n}", vector=Vector("tiny", part)) for n, part in enumerate(parts)]
    infinite = message("infinite", vector=Vector("tiny", b"\x00\x7c\x00\x00"))
    with fresh_url(pgvector="off") as url:
        async with opened(url) as store:
            await put(store, *records, infinite, message("tea", vector=TEA), message("none"))
            before = await listed(store, Filter(ANN))
        async with opened(url.replace("pgvector=off", "pgvector=on")) as store:
            assert VECTOR_SEARCH in store.abilities
            assert await listed(store, Filter(ANN)) == before
            assert await store.check() == []
            found = await store.search(Reach("acme"), text=None, vector=TEA, limit=5, now=NOW)
            assert [hit.id for hit in found["vector"]] == ["tea"]


# ── many callers ─────────────────────────────────────────────────────────────────────────────────


async def test_commits_that_share_a_transaction_each_get_their_own_answer(store):
    await put(store, message("taken"))
    calls = [put(store, message(f"m{n}")) for n in range(20)]
    calls += [put(store, message("taken", "other")), put(store, message("broken\x00id")), put(store, message("last"))]
    *written, taken, broken, last = await asyncio.gather(*calls, return_exceptions=True)
    assert [*written, last] == list(range(2, 23))
    assert isinstance(taken, Conflict)
    assert isinstance(broken, ValidationError)
    assert "broken" not in str(broken)
    assert (await one(store, "taken")).content == "hello"


def _addition(id: str, user: str = "ann", content: str = "hello") -> Changes:
    """A typical commit: something new, with its work and its key."""
    partition = Partition("acme", user)
    put = (message(id, content, partition=partition),)
    return Changes(partition, put=put, enqueue=(work(f"job of {id}", partition, (id,)),), key=f"key of {id}")


async def _answers(store: PostgresStore, *commits: Changes) -> list[object]:
    return list(await asyncio.gather(*(store.commit(each, NOW) for each in commits), return_exceptions=True))


async def test_additions_of_many_users_share_a_statement_and_each_gets_its_own_answer(store):
    users = [f"user {n}" for n in range(20)]
    await _answers(store, *(_addition("first", user) for user in users[:10]))
    again, other = _addition("first", users[0]), _addition("first", users[1], "another text")
    taken = replace(_addition("first", users[2], "another text"), key="a key of its own")
    broken = _addition("broken\x00id", users[3])
    answers = await _answers(store, again, other, taken, broken, *(_addition("next", user) for user in users))
    assert answers[0] == 1, "what was done before is told again"
    assert [(type(each), each.field) for each in answers[1:4]] == [
        (Conflict, "key"), (Conflict, "id"), (ValidationError, "changes"),
    ]  # fmt: skip
    assert answers[4:] == [2] * 10 + [1] * 10
    for number, user in enumerate(users):
        found = await listed(store, Filter(Partition("acme", user)))
        assert ids_of(found) == ["first", "next"][number >= 10 :]
        assert [each.born for each in found] == [(n, 0) for n in range(1, len(found) + 1)]
    assert len(await store.claim(NOW, LEASE_S, 100)) == 30
    assert await store.check() == []


async def test_additions_of_one_user_in_one_statement_act_as_if_made_one_by_one(store):
    commits = [_addition(f"m{n}") for n in range(20)]
    assert await _answers(store, *commits) == list(range(1, 21))
    found = await listed(store, Filter(ANN))
    assert ids_of(found) == [f"m{n}" for n in range(20)]
    assert [(each.version, each.born) for each in found] == [(n, (n, 0)) for n in range(1, 21)]
    twice = _addition("twice")
    assert await _answers(store, twice, _addition("x"), twice, _addition("y")) == [21, 22, 21, 23]


async def test_additions_wait_for_another_process_writing_their_partition_but_the_others_do_not(store, url):
    plain, _, _ = url.partition("?")
    with psycopg.connect(plain) as another:
        another.execute("select pg_advisory_xact_lock(hashtextextended('acme' || chr(31) || 'ann', 0))")
        held = asyncio.create_task(store.commit(_addition("held"), NOW))
        async with asyncio.timeout(30):
            assert await _answers(store, *(_addition("a", f"user {n}") for n in range(10))) == [1] * 10
        assert not held.done()
    assert await held == 1


async def test_several_recollects_share_one_database_by_schema(url):
    async with opened(url) as mine, opened(f"{url}_other") as theirs:
        await put(mine, message("a", "mine"))
        await put(theirs, message("a", "theirs"))
        await enqueue(mine, work("j"))
        assert not await theirs.claim(NOW, LEASE_S, 10)
        assert (await one(mine, "a")).content == "mine"
        assert (await one(theirs, "a")).content == "theirs"


# ── what is read ─────────────────────────────────────────────────────────────────────────────────


async def _blocks_read(store: PostgresStore) -> int:
    """Table and index blocks that a store's single connection has read so far."""

    async def count(db: psycopg.AsyncConnection) -> int:
        await db.execute("select pg_stat_force_next_flush()")
        found = await db.execute(
            """select sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint
               from pg_statio_user_tables where schemaname = current_schema()"""
        )
        ((blocks,),) = await found.fetchall()
        return blocks

    return await store._link.run(count)


async def _cost(store: PostgresStore, call: Awaitable[object]) -> int:
    before = await _blocks_read(store)
    await call
    return await _blocks_read(store) - before


async def _costs_beside(count: int) -> dict[str, int]:
    """What calls about a few of `count` records and jobs read, with plans made before any of them existed."""
    ids = [f"m{n}" for n in range(count)]
    named = tuple(ids[:: count // 20][:20])
    jobs: list[Job] = []

    async def claim() -> None:
        jobs.extend(await store.claim(NOW, LEASE_S, 20))

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "claim": claim,
        "get": lambda: store.get(ANN, named, NOW),
        "list": lambda: store.list(Filter(ANN, session="s1"), NOW, newest_first=True, limit=20),
        "changes": lambda: store.changes(ANN, Mark(1, store_revision - 1, 0)),
        "finish": lambda: store.commit(Changes(ANN, finish=tuple(jobs)), NOW),
        "purge": lambda: store.forget(Filter(ANN, dead_before=NOW + 2), NOW + 2),
        "drop": lambda: store.commit(Changes(ANN, drop=(ids[1], ids[2])), NOW),
        "add": lambda: put(store, message("new")),
    }
    with fresh_url() as url:
        async with opened(url.replace("schema=", "pool_max=1&schema=")) as store:
            store_revision = await put(store, message("first"))
            for call in calls.values():
                await call()
            await store.commit(Changes(ANN, drop=("new",)), NOW)
            for start in range(0, count, 45):
                some = ids[start : start + 45]
                records = [message(id, expires_at=NOW + 1 + (id not in named) * DAY_MS) for id in some]
                waiting = [work(f"of {id}", refs=(id,)) for id in some]
                store_revision = await store.commit(Changes(ANN, put=tuple(records), enqueue=tuple(waiting)), NOW)
            return {name: await _cost(store, call()) for name, call in calls.items()}


async def test_ids_are_looked_up_by_index_even_with_plans_made_for_empty_tables():
    few, many = await _costs_beside(180), await _costs_beside(3_600)
    # Twenty ids may lie on as many pages, and an index may be one level deeper.
    assert {name: blocks for name, blocks in many.items() if blocks - few[name] > 120} == {}


async def test_additions_of_many_users_read_nothing_of_the_others(url):
    async with opened(url.replace("schema=", "pool_max=1&schema=")) as store:
        seen = []
        for number, users in enumerate((100, 2_000)):
            for start in range(users // 20, users, 100):
                await _answers(store, *(_addition("a", f"user {n}") for n in range(start, start + 100)))
            again = [_addition(f"again {number}", f"user {n}") for n in range(users // 20, users // 20 + 20)]
            seen.append(await _cost(store, _answers(store, *again)))
        assert seen[1] < 2 * seen[0]


# ── wake-ups ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_job_wakes_a_worker_of_another_process_at_once(store, url):
    async with opened(url) as other:
        waiting = asyncio.create_task(other.wait_for_work(20))
        await asyncio.sleep(0.3)
        start = time.monotonic()
        await enqueue(store, work("j"))
        assert await waiting
        assert time.monotonic() - start < 20
        assert len(await other.claim(NOW, LEASE_S, 10)) == 1


async def test_a_job_scheduled_for_later_wakes_nobody(store):
    waiting = asyncio.create_task(store.wait_for_work(0.6))
    await asyncio.sleep(0.2)
    await enqueue(store, work("j", due_at=NOW + 1))
    assert not await waiting


async def test_a_store_closes_at_once_however_far_a_wait_for_work_has_come(url):
    for waited_s in (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05) * 2:
        store = await open_store(url)
        assert not await store.wait_for_work(waited_s)
        async with asyncio.timeout(30):
            await store.close()


# ── how it describes itself ──────────────────────────────────────────────────────────────────────


async def test_a_store_describes_its_server_its_schema_and_its_durability(store):
    told = store.describe()
    assert told["store"] == "postgres"
    assert told["schema_version"] == len(MIGRATIONS)
    assert told["server"].split(".")[0].isdigit()
    assert told["pgvector"].count(".") == 2
    assert told["durability"] == "on disk (fsync, synchronous_commit=on) when a call returns"


def test_a_server_that_may_lose_writes_is_reported():
    assert durability(Found("18", 1, None, False, "on", False)).startswith("NOT SAFE")
    assert "last second" in durability(Found("18", 1, None, True, "off", False))


async def test_a_password_is_never_shown():
    secret = "postgresql://ann:s%40cret@127.0.0.1:1/db?schema=s"
    assert read_address(secret).shown == "postgresql://ann@127.0.0.1:1/db?schema=s"
    with pytest.raises(Unavailable) as caught:
        await open_store(secret)
    assert caught.value.__cause__ is None
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s#cret@db/app?pool_max=2", "postgresql://ann@db/app?schema=recollect"),
        ("postgresql://db/app?user=ann&password=secret", "postgresql://ann@db/app?schema=recollect"),
        ("postgresql://[::1]:5433/app", "postgresql://[::1]:5433/app?schema=recollect"),
        ("postgresql://ann@one:1,two:2/app?schema=s", "postgresql://ann@one:1,two:2/app?schema=s"),
        ("postgresql:///app?host=/run/postgresql", "postgresql:///run/postgresql/app?schema=recollect"),
    ],
)
def test_a_url_is_understood_as_the_driver_does_and_shown_without_its_password(url, shown):
    address = read_address(url)
    assert address.shown == shown
    assert psycopg.conninfo.conninfo_to_dict(address.conninfo)["dbname"] == "app"


@pytest.mark.parametrize(
    "query", ["schema=Big", "schema=a-b", "schema=", "pool_max=0", "pool_min=3&pool_max=2", "pool_max=x", "pgvector=no",
              "compact=1", "statement_timeout_s=0", "unknown=1", "&&"],
)  # fmt: skip
async def test_an_invalid_url_is_refused(query):
    with refused(ValidationError, "url"):
        await open_store(f"postgresql://127.0.0.1/db?{query}")


async def test_upkeep_and_checks_work_on_a_store_with_data(url):
    for how in ("plain", "full"):
        async with opened(f"{url.replace('schema=', f'compact={how}&schema=')}") as store:
            await put(store, message(f"a {how}", vector=TEA), message("b", how, BOB).with_(scope=FULL.scope))
            await store.commit(Changes(ANN, drop=("b",)), NOW)
            await store.compact()
            assert await store.check() == []
            assert (await store.survey(NOW)).bytes > 0
            assert f"a {how}" in ids_of(await listed(store, Filter(ANN)))
