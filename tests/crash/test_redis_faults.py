"""Redis servers die, hang, fill up, change role or come back empty: acknowledged data is there, or known to be lost.

Each drill keeps a journal of what was acknowledged, outside the server, and compares at the end:
lost (acknowledged, gone), phantom (never sent), half (a message without its job), double.
"""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from uuid import uuid4

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")


from recollect import Memory
from recollect.errors import Corrupt, RecollectError, Unavailable
from recollect.filters import Filter
from recollect.records import Changes, Job, Partition
from recollect.stores import open_store
from recollect.stores.contract import DURABLE, Store, forget_whole
from recollect.testing.conformance.stage import Reader
from recollect.testing.failover import (
    ANN,
    LOST_WINDOW_S,
    NOW,
    TROUBLES,
    everything,
    lose_a_master,
    message,
    opened,
    slots_of,
    under_load,
)
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.servers.redis import RedisCluster, RedisServer

BACK_S = 10.0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A dedicated server for the test to break."""
    with RedisServer("redis") as server:
        yield server


# ── one server ───────────────────────────────────────────────────────────────────────────────────


async def test_a_server_that_is_killed_and_restarted_loses_nothing_if_it_syncs_always(server, seed):
    chance = random.Random(seed)
    async with opened(server.url()) as store:
        async with under_load(store) as journal:
            for _ in range(5):
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                server.kill()
                await asyncio.sleep(chance.uniform(0.05, 0.3))
                server.start()
        findings = await journal.compare(store)
        assert await store.check() == []
    print(f"{len(journal.acknowledged)} acknowledged, {findings}, longest call {journal.longest_s:.2f} s")
    assert not any(findings.values())
    assert journal.refused == 0, "callers wait for the server instead"
    assert journal.longest_s < BACK_S


async def test_a_server_that_syncs_every_second_loses_at_most_two_seconds_of_writes(seed):
    chance = random.Random(seed)
    with RedisServer("redis", {"appendfsync": "everysec"}) as server:
        async with opened(server.url()) as store:
            assert "2 s of writes" in store.describe()["durability"]
            async with under_load(store) as journal:
                await asyncio.sleep(chance.uniform(0.5, 1.5))
                server.kill()
                killed_at = time.monotonic()
                server.start()
            findings = await journal.compare(store)
        lost = findings.pop("lost")
        print(f"{len(journal.acknowledged)} acknowledged, {len(lost)} lost")
        assert not any(findings.values())
        assert all(killed_at - journal.acknowledged[id] < LOST_WINDOW_S for id in lost)


async def test_a_server_that_hangs_is_unavailable_in_time_and_is_used_again_when_it_answers(server):
    async with opened(server.url(), patience_s=2.0) as store:
        await store.commit(Changes(ANN, put=(message("before"),), key="before"), NOW)
        server.freeze()
        begun = time.monotonic()
        calls = [store.commit(Changes(ANN, put=(message(f"m{n}"),), key=f"m{n}"), NOW) for n in range(20)]
        answers = await asyncio.gather(*calls, store.get(ANN, ["before"], NOW), return_exceptions=True)
        waited = time.monotonic() - begun
        assert [type(answer) for answer in answers] == [Unavailable] * 21
        assert waited < 20
        await asyncio.sleep(max(0.0, 10 - waited))
        server.thaw()
        begun = time.monotonic()
        for n in range(20):
            await store.commit(Changes(ANN, put=(message(f"m{n}"),), key=f"m{n}"), NOW)
        assert time.monotonic() - begun < BACK_S
        assert len(await everything(store)) == 21, "what was carried out late and what was sent again is there once"


async def test_a_full_server_refuses_additions_but_still_reads_and_forgets(server):
    async with opened(server.url()) as store:
        with server.client() as client:
            client.config_set("maxmemory", client.info("memory")["used_memory"] + 1_500_000)
            written = 0
            with pytest.raises(Unavailable, match="maxmemory"):
                while True:
                    records = tuple(message(f"{written} {n}", "x" * 5_000) for n in range(20))
                    await store.commit(Changes(ANN, put=records, enqueue=(Job(f"j{written}", ANN, "k"),)), NOW)
                    written += 1
            assert written > 3
            assert len(await everything(store)) == 20 * written, "the refused commit left nothing"
            for partition in (ANN, Partition("acme", "new")):
                with pytest.raises(Unavailable):
                    await store.commit(Changes(partition, put=(message("more", partition=partition),)), NOW)
            assert [partition.user for partition in await store.partitions()] == ["ann"]
            gone = await store.forget(Filter(ANN, ids=("0 0", "0 1")), NOW)
            assert gone.count == 2
            assert await forget_whole(store, ANN, NOW) == 20 * written - 2
            client.config_set("maxmemory", 0)
        await store.commit(Changes(ANN, put=(message("after"),)), NOW)
        assert [record.id for record in await everything(store)] == ["after"]
        assert await store.check() == []


async def test_a_server_that_became_a_replica_is_unavailable_for_writes_and_used_again_as_a_primary(server):
    async with opened(server.url(), patience_s=1.0) as store:
        await store.commit(Changes(ANN, put=(message("a"),)), NOW)
        with server.client() as client:
            client.replicaof("127.0.0.1", "1")
            with pytest.raises(Unavailable, match="read-only replica"):
                await store.commit(Changes(ANN, put=(message("b"),)), NOW)
            assert [record.id for record in await everything(store)] == ["a"]
            client.replicaof("NO", "ONE")
        await store.commit(Changes(ANN, put=(message("b"),)), NOW)
        assert len(await everything(store)) == 2


async def test_killed_connections_are_reopened_without_a_caller_noticing(server):
    async with opened(server.url()) as store, under_load(store) as journal:
        with server.client() as client:
            for _ in range(20):
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                await asyncio.sleep(0.05)
    assert journal.refused == 0
    async with opened(server.url()) as store:
        findings = await journal.compare(store)
        await store.commit(Changes(ANN, put=(message("idle"),)), NOW)
        with server.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await asyncio.sleep(0.05)
        await store.commit(Changes(ANN, put=(message("no key"),)), NOW)
    assert not any(findings.values())


async def test_an_emptied_server_is_distinguished_from_one_without_memories(server):
    async with opened(server.url()) as store:
        await store.commit(Changes(ANN, put=(message("a"),), enqueue=(Job("j", ANN, "enrich"),)), NOW)
        mark = (await store.changes(ANN, None)).mark
        kept = server.folder.with_name(f"{server.folder.name}-kept")
        server.kill()
        shutil.copytree(server.folder, kept)
        server.start(empty=True)
        for call in (
            lambda: store.get(ANN, ["a"], NOW),
            lambda: store.list(Filter(ANN), NOW),
            lambda: store.changes(ANN, mark),
            lambda: store.claim(NOW, 30, 10),
            lambda: store.commit(Changes(ANN, put=(message("b"),)), NOW),
            lambda: store.forget(Filter(ANN), NOW),
            lambda: store.survey(NOW),
            store.partitions,
            store.check,
        ):
            with pytest.raises(Corrupt, match="emptied"):
                await call()
        with pytest.raises(Unavailable, match="create=no"):
            await open_store(server.url(create="no"))
        server.kill()
        shutil.rmtree(server.folder)
        kept.rename(server.folder)
        server.start()
        assert [record.id for record in await everything(store)] == ["a"], "restored, and used again as it is"
        async with opened(server.url(create="no")) as again:
            assert len(await again.claim(NOW, 30, 10)) == 1


async def test_a_memory_on_an_emptied_server_says_so_instead_of_knowing_nothing(server):
    async with Memory.open(server.url(), embedder=HashingEmbedder(), worker=False) as memory:
        chat = memory.user("ann").session("chat")
        await chat.add_interaction("My cat is called Tom.", "Hello Tom!")
        assert (await memory.user("ann").search_memory("cat"))[0].content
        server.kill()
        server.start(empty=True)
        with pytest.raises(Corrupt, match="emptied"):
            await memory.user("ann").search_memory("cat")
        with pytest.raises(Corrupt, match="emptied"):
            await chat.messages()


async def test_a_reader_starts_over_when_the_server_has_lost_the_end_of_what_it_saw(server):
    async with opened(server.url()) as store:
        await store.commit(Changes(ANN, put=(message("kept"),)), NOW)
        older = server.folder.with_name(f"{server.folder.name}-older")
        shutil.copytree(server.folder, older)
        for n in range(3):
            await store.commit(Changes(ANN, put=(message(f"lost {n}"),)), NOW)
        reader = Reader()
        await reader.catch_up(store)
        assert len(reader.held) == 4
        server.kill()
        shutil.rmtree(server.folder)
        older.rename(server.folder)
        server.start()
        async with opened(server.url()) as other:
            for n in range(3):
                await other.commit(Changes(ANN, put=(message(f"new {n}"),)), NOW)
        await reader.catch_up(store)
        assert sorted(reader.held) == ["kept", "new 0", "new 1", "new 2"], (
            "though the revisions look as if nothing was new"
        )
        assert reader.resets == 2


async def test_a_carelessly_configured_server_is_warned_about_and_says_so(caplog):
    careless = {"appendonly": "no", "maxmemory-policy": "allkeys-lru"}
    with RedisServer("valkey", careless) as server, caplog.at_level(logging.WARNING):
        async with opened(server.url()) as store:
            described = store.describe()
            assert DURABLE not in store.abilities
    assert "AOF is off" in caplog.text and "allkeys-lru" in caplog.text
    assert "lost when it restarts" in described["durability"]
    assert (described["eviction"], len(described["warnings"])) == ("allkeys-lru", 2)


async def test_a_password_opens_the_server_and_is_never_shown():
    with RedisServer("redis", {"requirepass": "s3cret:/@"}) as server:
        right = server.url().replace("redis://", "redis://:s3cret%3A%2F%40@")
        async with opened(right) as store:
            await store.commit(Changes(ANN, put=(message("a"),)), NOW)
            assert "s3cret" not in str(store.describe())
        for url in (server.url(), right.replace("s3cret", "wr0ng")):
            with pytest.raises(Unavailable, match="login") as refusal:
                await open_store(url, busy_timeout_s=1)
            assert "wr0ng" not in f"{refusal.value!r} {refusal.value.__cause__!r}"


async def test_a_server_in_protected_mode_is_distinguished_from_a_missing_one():
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-DENIED Redis is running in protected mode because it is enabled and no password is set.\r\n")
        writer.close()

    # A real server says this only to remote clients, and our test servers do not listen for those.
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match="protected-mode no"):
            await open_store(f"redis://127.0.0.1:{port}/0", busy_timeout_s=1)


async def test_no_trace_of_forgotten_data_is_left_in_the_files_after_compaction(server):
    async with opened(server.url()) as store:
        await store.commit(Changes(ANN, put=(message("a", "a secret that must not stay"), message("b", "kept"))), NOW)
        assert traces(server)
        await store.forget(Filter(ANN, ids=("a",)), NOW)
        await store.compact()
        assert traces(server) == []
        server.kill()
        server.start()
        assert [record.content for record in await everything(store)] == ["kept"]


async def test_processes_compacting_at_the_same_moment_all_end_with_rewritten_files(server):
    async with opened(server.url()) as store, opened(server.url()) as other:
        await store.commit(Changes(ANN, put=(message("a", "a secret that must not stay"),)), NOW)
        await store.forget(Filter(ANN, ids=("a",)), NOW)
        await asyncio.gather(*(each.compact() for each in (store, other, store, other)))
        assert traces(server) == []


def traces(server: RedisServer) -> list[str]:
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    return [path.name for path in files if b"a secret" in path.read_bytes()]


async def test_a_commit_that_waits_for_replicas_fails_without_them_and_is_complete_when_retried(server):
    told = Changes(ANN, put=(message("a"),), key="once")
    async with opened(server.url(wait=1, wait_ms=100)) as store:
        assert store.describe()["waits"] == "for 1 replicas, up to 100 ms"
        with pytest.raises(Unavailable, match="too few replicas"):
            await store.commit(told, NOW)
        with RedisServer("redis", {"replicaof": f"127.0.0.1 {server.port}"}) as replica:
            with replica.client() as client:
                while client.info("replication")["master_link_status"] != "up":
                    await asyncio.sleep(0.05)
            assert await store.commit(told, NOW) == 1
            await store.commit(Changes(ANN, put=(message("b"),)), NOW)
            async with opened(replica.url()) as copy:
                assert "replica" in copy.describe()["warnings"][0]
                assert len(await everything(copy)) == 2
        assert (await store.changes(ANN, None)).mark.revision == 2


async def test_a_missing_server_is_unavailable_in_time(server):
    async with opened(server.url(), patience_s=0.5) as store:
        server.kill()
        begun = time.monotonic()
        for call in (store.get(ANN, ["a"], NOW), store.commit(Changes(ANN, put=(message("a"),)), NOW)):
            with pytest.raises(Unavailable, match=r"reached|broke"):
                await call
        with pytest.raises(Unavailable, match="reached"):
            await open_store(server.url(), busy_timeout_s=0.5)
        assert time.monotonic() - begun < 20


async def test_a_caller_that_returns_as_every_connection_becomes_free_is_not_left_waiting(server):
    async with opened(server.url()) as store:

        async def call(times: int) -> None:
            for _ in range(times):
                assert await store.get(ANN, ["a"], NOW) == []

        for _ in range(6):
            server.freeze()
            calls = []
            # One after the other, so that each has its own connection. Redis answers the last one first.
            for times in (1, 1, 1, 2):
                calls.append(asyncio.create_task(call(times)))
                await asyncio.sleep(0.005)
            server.thaw()
            time.sleep(0.2)  # all answers have arrived before any is read
            async with asyncio.timeout(10):
                await asyncio.gather(*calls)


# ── a Cluster ────────────────────────────────────────────────────────────────────────────────────


IN_ONE = {kind: pytest.mark.xdist_group(f"cluster of {kind}") for kind in ("redis", "valkey")}
"""Tests on one kind of Cluster run in sequence, so that it is started once."""
BOTH = pytest.mark.parametrize("cluster", [pytest.param(kind, marks=IN_ONE[kind]) for kind in IN_ONE], indirect=True)


@pytest.fixture(scope="module")
def clusters() -> Iterator[Callable[[str], RedisCluster]]:
    """Clusters by kind, each started once and used by all tests here."""
    with ExitStack() as stack:
        yield cache(lambda kind: stack.enter_context(RedisCluster(kind)))


@pytest.fixture
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], RedisCluster]) -> RedisCluster:
    """Three masters and their replicas: of Redis 8, or of Valkey 9."""
    return clusters(request.param)


@pytest.mark.parametrize(
    ("cluster", "trouble", "wait"),
    [
        pytest.param(kind, trouble, wait, marks=IN_ONE[kind])
        for kind, trouble, wait in (*(("redis", *each) for each in TROUBLES), ("valkey", "killed", 0))
    ],
    indirect=["cluster"],
)
async def test_a_master_lost_under_load_is_replaced_and_the_writes_lost_with_it_are_counted(
    cluster, trouble, wait, seed
):
    outcome = await lose_a_master(cluster, trouble, wait, seed)
    assert not (outcome.phantom or outcome.half or outcome.double or outcome.lost_before)
    assert not (wait and outcome.lost)
    assert outcome.longest_s < 30
    assert wait or outcome.refused == 0, "only who waits for replicas is told that there is none for a while"
    assert outcome.problems == []


@BOTH
async def test_calls_follow_a_slot_that_moves_to_another_master(cluster):
    prefix = f"moved-{uuid4().hex[:8]}"
    async with opened(cluster.url(prefix)) as store:
        async with under_load(store) as journal:
            (slot, *_) = slots_of(cluster, f"{prefix}:*:records:*")
            await asyncio.to_thread(cluster.move, slot)
        findings = await journal.compare(store)
        assert not any(findings.values())
        assert (journal.refused, await store.check()) == (0, [])


@BOTH
async def test_a_master_that_comes_back_empty_is_noticed_and_what_is_left_can_be_opened_on_purpose(cluster):
    prefix = f"emptied-{uuid4().hex[:8]}"
    async with opened(cluster.url(prefix)) as store:
        people = [Partition("acme", f"user {n}") for n in range(40)]
        for partition in people:
            await store.commit(Changes(partition, put=(message("a", partition=partition),)), NOW)
        with cluster.masters()[0].client() as client:
            client.flushall()
        answers = [await answer(store, partition) for partition in people]
        assert set(answers) == {"a", "Corrupt"}
        with pytest.raises(Corrupt, match="emptied=accept"):
            await open_store(cluster.url(prefix))
        async with opened(cluster.url(prefix, emptied="accept")) as rest:
            left = [await answer(rest, partition) for partition in people]
        assert left == [each if each == "a" else "nothing" for each in answers]
        async with opened(cluster.url(prefix)) as again:
            assert [await answer(again, partition) for partition in people] == left
        assert {await answer(store, partition) for partition in people} == {"Corrupt"}, "it was opened before the loss"


async def answer(store: Store, partition: Partition) -> str:
    try:
        found = await store.get(partition, ["a"], NOW)
        return found[0].id if found else "nothing"
    except RecollectError as error:
        return type(error).__name__
