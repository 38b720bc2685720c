"""Faults of a PostgreSQL server: nothing acknowledged is lost, nothing is half written, and it recovers."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from recollect.errors import Busy, Unavailable, ValidationError
from recollect.filters import Filter
from recollect.records import Changes, Partition
from recollect.stores import open_store
from recollect.stores.contract import Store
from recollect.testing.conformance.stage import (
    ANN,
    LEASE_S,
    NOW,
    Reader,
    ids_of,
    listed,
    message,
    one,
    opened,
    put,
    work,
)
from recollect.testing.faults import cancelled_at
from recollect.testing.proxy import Proxy
from recollect.testing.servers.pgbouncer import pooler
from recollect.testing.servers.postgres import PostgresServer

WRITERS = 6
CONFIGURED = 4


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A dedicated server to abuse."""
    server = PostgresServer({"max_connections": "14", "superuser_reserved_connections": "3"})
    with server.admin() as db:
        # Checks for a deadlock after the test has created it, and before the test's own session does.
        db.execute("alter role recollect set deadlock_timeout = '600ms'")
    yield server
    server.remove()


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.url(pool_max=CONFIGURED, schema=f"drill_{secrets.token_hex(4)}")


async def _write_while(store: Store, fault: Callable[[], Awaitable[None]]) -> tuple[set[str], set[str], float]:
    """Run writers that each wait for an acknowledgement; returns what was sent, what was kept and the longest wait."""
    sent: set[str] = set()
    kept: set[str] = set()
    longest = 0.0
    stopped = asyncio.Event()

    async def write(writer: int) -> None:
        nonlocal longest
        partition = Partition("acme", f"ann{writer % 3}")
        for number in range(100_000):
            if stopped.is_set():
                return
            id, start = f"w{writer}n{number}", time.monotonic()
            sent.add(id)
            put, job = (message(id, partition=partition), message(f"{id}+", partition=partition)), work(id, partition)
            try:
                await store.commit(Changes(partition, put=put, enqueue=(job,), key=id), NOW)
                kept.add(id)
            except Unavailable:
                await asyncio.sleep(0.05)
            longest = max(longest, time.monotonic() - start)

    writers = [asyncio.create_task(write(number)) for number in range(WRITERS)]
    await asyncio.sleep(0.2)
    await fault()
    await asyncio.sleep(0.3)
    before = len(kept)
    until = time.monotonic() + 20
    while len(kept) < before + WRITERS and time.monotonic() < until:
        await asyncio.sleep(0.02)
    assert len(kept) >= before + WRITERS, "the store works again without being opened anew"
    stopped.set()
    await asyncio.gather(*writers)
    return sent, kept, longest


async def _assert_whole(store: Store, sent: set[str], kept: set[str]) -> None:
    """Assert that nothing is lost, nothing was never sent, and each has both its records and its job."""
    there: set[str] = set()
    for number in range(3):
        partition = Partition("acme", f"ann{number}")
        found = set(ids_of(await listed(store, Filter(partition), limit=1_000)))
        assert {id for id in found if not id.endswith("+")} == {id[:-1] for id in found if id.endswith("+")}, "half"
        there |= {id for id in found if not id.endswith("+")}
    assert kept <= there, "lost"
    assert there <= sent, "never sent"
    jobs: list[str] = []
    while claimed := await store.claim(NOW, LEASE_S, 500):
        jobs += [job.id for job in claimed]
    assert sorted(jobs) == sorted(there), "a record without its job, or a job twice"
    assert await store.check() == []


async def test_connections_ended_in_mid_transaction_lose_nothing_and_are_reopened(server, url):
    async with opened(url) as store:

        async def fault() -> None:
            with server.admin() as db:
                for _ in range(15):
                    db.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'recollect'")
                    await asyncio.sleep(0.07)

        sent, kept, longest = await _write_while(store, fault)
        assert longest < 6, "tried again for 5 seconds at most"
        await _assert_whole(store, sent, kept)


async def test_a_server_that_crashes_under_load_loses_nothing_and_is_found_again(server, url):
    async with opened(url) as store:

        async def fault() -> None:
            await asyncio.to_thread(server.stop, immediately=True)
            await asyncio.to_thread(server.start)

        sent, kept, _ = await _write_while(store, fault)
        await _assert_whole(store, sent, kept)


async def test_a_synchronous_standby_promoted_under_load_has_everything_and_callers_are_led_to_it():
    with PostgresServer() as primary, PostgresServer(standby_of=primary) as standby:
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        async with opened(f"postgresql://recollect@{hosts}/postgres?target_session_attrs=read-write") as store:
            primary.wait_for_standby()
            reader = Reader(Partition("acme", "ann0"))

            async def replace_the_server() -> None:
                await reader.catch_up(store)
                await asyncio.to_thread(primary.stop, immediately=True)
                await asyncio.to_thread(standby.promote)

            sent, kept, _ = await _write_while(store, replace_the_server)
            await _assert_whole(store, sent, kept)
            await reader.catch_up(store)
            found = await listed(store, Filter(reader.partition), limit=1_000)
            assert reader.held == {record.id: record for record in found}
            assert reader.resets == 2, "a reader starts over on another server"


async def test_a_server_that_is_down_is_reported_in_time_and_found_again(server, url):
    async with opened(url) as store:
        await put(store, message("a"))
        await asyncio.to_thread(server.stop)
        start = time.monotonic()
        with pytest.raises(Unavailable):
            await put(store, message("b"))
        with pytest.raises(Unavailable):
            await store.get(ANN, ["a"], NOW)
        with pytest.raises(Unavailable, match="check host"):
            await open_store(url)
        assert time.monotonic() - start < 60
        await asyncio.to_thread(server.start)
        assert await _soon(lambda: put(store, message("b"))) == 2
        assert (await one(store, "a")).content == "hello"


async def test_a_server_that_is_silent_is_reported_in_time_and_used_again_when_it_answers(server, url):
    async with (
        Proxy(server.port) as way,
        opened(f"{url.replace(str(server.port), str(way.port))}&statement_timeout_s=1") as store,
    ):
        await put(store, message("a"))
        way.stall()
        start = time.monotonic()
        calls = (put(store, message("b")), store.get(ANN, ["a"], NOW), store.claim(NOW, LEASE_S, 1))
        told = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(error, Busy | Unavailable) for error in told), told
        assert time.monotonic() - start < 25, "a statement may take one second, and reconnecting five"
        way.resume()
        assert await _soon(lambda: put(store, message("b"))) == 2
        assert ids_of(await listed(store, Filter(ANN))) == ["a", "b"]


# ── poolers ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_pooler_in_session_mode_may_stand_before_the_server(server, url):
    with pooler(server, "session") as port:
        async with opened(url.replace(str(server.port), str(port))) as store:
            await asyncio.gather(*(put(store, message(str(number))) for number in range(20)))
            assert len(await listed(store, Filter(ANN))) == 20
            assert await store.check() == []
            await store.compact()
            assert await _setting(store, "statement_timeout") == "30s", "put back after compacting"


async def test_a_pooler_in_transaction_mode_is_refused_at_the_start(server, url):
    with pooler(server, "transaction") as port, pytest.raises(ValidationError, match="session mode"):
        await open_store(url.replace(str(server.port), str(port)))


async def test_settings_survive_work_that_lifts_them(server, url):
    async with opened(f"{url}&pool_max=1&statement_timeout_s=7") as store:
        await store.compact()
        assert await _setting(store, "statement_timeout") == "7s"


async def _setting(store: Store, name: str) -> str:
    ((value,),) = await store._overview("select current_setting(%s)", (name,))
    return str(value)


async def _soon(call: Callable[[], Awaitable[int]]) -> int:
    for _ in range(100):
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(0.1)
    raise AssertionError("the store did not recover")


@pytest.mark.parametrize("state", ["40001", "40P01"])
async def test_what_the_server_rolled_back_is_retried_even_without_a_key(server, url, state):
    async with opened(url) as store:
        await put(store, message("a"))
        with server.admin() as db:
            schema = url.rpartition("=")[2]
            db.execute(f"create sequence {schema}.tries; grant all on sequence {schema}.tries to recollect")
            db.execute(
                f"""create function {schema}.fail_twice() returns trigger language plpgsql as $$ begin
                      if nextval('{schema}.tries') <= 2 then raise exception using errcode = '{state}'; end if;
                      return new; end $$"""
            )
            db.execute(
                f"""create trigger fails before insert on {schema}.jobs
                      for each row execute function {schema}.fail_twice()"""
            )
        assert await store.commit(Changes(ANN, put=(message("b"),), enqueue=(work("j"),)), NOW) == 2
        assert len(await store.claim(NOW, LEASE_S, 10)) == 1


async def test_in_a_deadlock_the_store_gives_way_and_tries_again(server, url):
    async with opened(url) as store:
        await put(store, message("a"))
        with server.admin() as db, db.transaction():
            db.execute("set local deadlock_timeout = '20s'")
            db.execute(f"select from {url.rpartition('=')[2]}.heads for update")
            writing = asyncio.create_task(put(store, message("b")))
            await asyncio.sleep(0.3)
            lock = "select pg_advisory_xact_lock(hashtextextended('acme' || chr(31) || 'ann', 0))"
            await asyncio.to_thread(db.execute, lock)
        assert await writing == 2
        assert ids_of(await listed(store, Filter(ANN))) == ["a", "b"]


async def test_what_takes_too_long_is_rolled_back_and_reported_as_busy(server, url):
    hurried = url.replace("pool_max=", "statement_timeout_s=0.3&pool_max=")
    async with opened(hurried) as store:
        await put(store, message("a"))
        with server.admin() as db, db.transaction():
            db.execute(f"lock table {url.rpartition('=')[2]}.records in access exclusive mode")
            start = time.monotonic()
            with pytest.raises(Busy, match="statement_timeout_s"):
                await store.commit(Changes(ANN, put=(message("b"),), enqueue=(work("j"),)), NOW)
            assert time.monotonic() - start < 20
        assert await put(store, message("c")) == 2
        assert ids_of(await listed(store, Filter(ANN))) == ["a", "c"]
        assert not await store.claim(NOW, LEASE_S, 10)


async def test_a_call_that_is_cancelled_when_its_connection_or_answer_comes_ends_there(server):
    async with opened(server.url(pool_max=1, schema=f"drill_{secrets.token_hex(4)}")) as store:
        await put(store, message("a"))
        answers: list[Any] = []

        async def read() -> None:
            answers.append(await store.get(ANN, ["a"], NOW))

        for at in range(1, 100):
            other = asyncio.create_task(store.get(ANN, ["a"], NOW))
            await asyncio.sleep(0)  # it has the only connection
            reached = await cancelled_at(read(), at, late=True)
            await other
            if not reached:
                break
            assert answers == [], f"cancelled at wait {at}, and answered"
        assert at > 1
        assert len(answers) == 1


async def test_a_partition_locked_too_long_is_reported_as_busy_and_the_others_carry_on(server, url):
    store = await open_store(url, busy_timeout_s=0.2)
    try:
        await put(store, message("a"))
        with server.admin() as db, db.transaction():
            db.execute("select pg_advisory_xact_lock(hashtextextended('acme' || chr(31) || 'ann', 0))")
            with pytest.raises(Busy, match="holds this partition"):
                await put(store, message("b"))
            assert await put(store, message("b", partition=Partition("acme", "bob"))) == 1
            assert (await one(store, "a")).content == "hello", "reading waits for nobody"
        assert await put(store, message("b")) == 2
    finally:
        await store.close()


async def test_of_commits_that_share_a_transaction_only_those_of_the_locked_partition_wait(server, url):
    store = await open_store(url, busy_timeout_s=60)
    others = [Partition("acme", f"user{n}") for n in range(20)]
    try:
        await put(store, message("a"))
        with server.admin() as db, db.transaction():
            db.execute("select pg_advisory_xact_lock(hashtextextended('acme' || chr(31) || 'ann', 0))")
            held = asyncio.create_task(put(store, message("b")))
            async with asyncio.timeout(50):
                for _ in range(3):
                    ids = [f"m{time.monotonic_ns()}" for _ in others]
                    await asyncio.gather(
                        *(put(store, message(id, partition=each)) for id, each in zip(ids, others, strict=True))
                    )
            assert not held.done()
        assert await held == 2
    finally:
        await store.close()


async def test_there_are_never_more_connections_than_configured(server, url):
    most = 0
    async with opened(url) as store:
        waiting = asyncio.create_task(store.wait_for_work(30))
        calls = [asyncio.create_task(put(store, message("m", partition=Partition("o", str(n))))) for n in range(300)]
        calls += [asyncio.create_task(store.get(ANN, ["m"], NOW)) for _ in range(300)]
        with server.admin() as db:
            while not all(call.done() for call in calls):
                (count,) = db.execute("select count(*) from pg_stat_activity where usename = 'recollect'").fetchone()
                most = max(most, count)
                await asyncio.sleep(0.005)
        await asyncio.gather(*calls)
        waiting.cancel()
    assert 1 < most <= CONFIGURED


async def test_a_server_without_free_connections_is_reported_and_a_store_that_has_some_carries_on(server, url):
    async with opened(url) as store:
        await put(store, message("a"))
        taken = []
        try:
            with pytest.raises(psycopg.OperationalError):
                for _ in range(100):
                    taken.append(psycopg.connect(server.url()))
            with pytest.raises(Unavailable):
                await open_store(url)
            answers = await asyncio.gather(*(put(store, message(f"m{n}")) for n in range(20)))
            assert sorted(answers) == list(range(2, 22))
        finally:
            for connection in taken:
                connection.close()
    async with opened(url) as again:
        assert len(await listed(again, Filter(ANN))) == 21


async def test_a_server_that_turns_read_only_can_be_read_and_says_so(server, url):
    async with opened(url) as store:
        await store.commit(Changes(ANN, put=(message("a"),), enqueue=(work("j"),)), NOW)
    with server.admin() as db:
        db.execute("alter role recollect set default_transaction_read_only = on")
    try:
        async with opened(url) as store:
            assert store.describe()["read_only"]
            assert (await one(store, "a")).content == "hello"
            assert (await store.changes(ANN, None)).mark.revision == 1
            assert not await store.claim(NOW, LEASE_S, 10), "work that cannot be finished is left to others"
            with pytest.raises(Unavailable, match="read-only"):
                await put(store, message("b"))
        with pytest.raises(Unavailable, match="open it for writing once"):
            await open_store(f"{url}_new")
    finally:
        with server.admin() as db:
            db.execute("alter role recollect reset default_transaction_read_only")
    async with opened(url) as store:
        assert await put(store, message("b")) == 2
        assert len(await store.claim(NOW, LEASE_S, 10)) == 1


# ── backups ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_reader_starts_over_when_the_server_was_restored_from_a_backup():
    server = PostgresServer()
    try:
        async with opened(server.url()) as store:
            await put(store, message("kept"))
            await asyncio.to_thread(server.back_up)
            for number in range(3):
                await _soon(lambda number=number: put(store, message(f"lost {number}")))
            reader = Reader()
            await reader.catch_up(store)
            assert len(reader.held) == 4
            await asyncio.to_thread(server.restore)
            async with opened(server.url()) as other:
                for number in range(3):
                    await put(other, message(f"new {number}"))
            await reader.catch_up(store)
            assert sorted(reader.held) == ["kept", "new 0", "new 1", "new 2"], "though their revisions are not new"
            assert reader.resets == 2
    finally:
        server.remove()
