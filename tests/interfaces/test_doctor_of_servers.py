"""What `recollect doctor` says about servers: versions, extensions, durability, migrations, clocks, and what to do."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("psycopg", reason="no PostgreSQL driver here: install recollect[postgres]")
pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

from recollect.errors import Unavailable
from recollect.stores.contract import clock_finding
from recollect.stores.postgres_schema import MIGRATIONS, check_server
from recollect.testing.conformance.stage import opened
from recollect.testing.servers.postgres import PostgresServer, shared_server
from recollect.testing.servers.redis import RedisServer, shared_cluster
from recollect.testing.stores import fresh_url

NEVER = "127.0.0.1:1"


def checks(ran):
    return {check["name"]: check for check in ran.json}


@pytest.mark.xdist_group("postgresql")
def test_a_postgresql_is_examined_from_version_to_clock(recollect):
    with fresh_url("postgresql") as url:
        found = checks(recollect("doctor", "--json", at=url))
    assert found["version"]["found"].startswith("PostgreSQL 1")
    assert found["extensions"]["found"].startswith("pgvector 0.")
    assert found["durability"]["found"].startswith("on disk (fsync")
    assert found["migrations"]["found"].endswith("the newest")
    assert found["role"]["found"] == "row-level security applies to it"
    assert found["clock"]["found"].endswith("close enough")
    names = ("version", "extensions", "durability", "migrations", "role", "connections", "vacuum", "clock", "data")
    assert {name: found[name]["state"] for name in names} == dict.fromkeys(names, "ok")


@pytest.mark.xdist_group("postgresql")
def test_an_earlier_schema_in_postgresql_is_reported_and_left_as_it_is(recollect):
    with fresh_url("postgresql") as url:
        recollect("add", "Ann's bicycle is green.", at=url)
        schema = url.rpartition("schema=")[2]
        with shared_server().admin() as admin:
            admin.execute(f"delete from {schema}.migrations where number = {len(MIGRATIONS)}")
            ran = recollect("doctor", "--json", at=url)
            newest = admin.execute(f"select max(number) from {schema}.migrations").fetchone()
    store = checks(ran)["store"]
    assert (ran.code, store["state"]) == (0, "warn")
    assert f"has version {len(MIGRATIONS) - 1}, this Recollect knows {len(MIGRATIONS)}" in store["found"]
    assert "the first to open it brings it up to date" in store["advice"]
    assert newest == (len(MIGRATIONS) - 1,)


@pytest.mark.xdist_group("postgresql")
async def test_a_carelessly_configured_postgresql_comes_with_advice_on_what_to_change():
    with fresh_url("postgresql") as url:
        async with opened(url.replace("schema=", "pgvector=off&pool_max=60&schema=")) as store:
            findings = {finding.name: finding for finding in await store.examine()}
    assert "create extension vector" in findings["extensions"].advice
    assert "pool_max" in findings["connections"].advice
    assert {findings[name].state for name in ("extensions", "connections")} == {"warn"}


@pytest.mark.xdist_group("postgresql")
async def test_a_superuser_is_warned_about_bypassing_row_level_security():
    with fresh_url("postgresql") as url, shared_server().admin() as admin:
        async with opened(url.replace("recollect@", "postgres@")) as store:
            findings = {finding.name: finding for finding in await store.examine()}
        admin.execute(f"alter schema {url.rpartition('schema=')[2]} owner to recollect")
    assert findings["role"].state == "warn"
    assert "BYPASSRLS" in findings["role"].advice


@pytest.mark.xdist_group("postgresql")
async def test_a_postgresql_whose_writes_wait_for_a_standby_says_whether_there_is_one():
    async def durability(store):
        return next(finding for finding in await store.examine() if finding.name == "durability")

    with PostgresServer() as primary, PostgresServer(standby_of=primary) as standby:
        async with opened(primary.url()) as store:
            assert (await durability(store)).found.endswith(" when a call returns")
            primary.wait_for_standby()
            async with asyncio.timeout(10):
                while not (await durability(store)).found.endswith(" when a call returns, and on a standby (standby)"):
                    await asyncio.sleep(0.05)
            standby.stop()
            async with asyncio.timeout(10):
                while (lost := await durability(store)).state == "ok":
                    await asyncio.sleep(0.05)
    assert (lost.state, lost.found) == ("fail", "every write waits for a standby (standby), and none is connected")
    assert "synchronous_standby_names" in lost.advice


@pytest.mark.parametrize("kind", ["redis", "valkey", "cluster"])
def test_a_redis_is_examined_from_version_to_clock(recollect, kind):
    with fresh_url(kind) as url:
        found = checks(recollect("doctor", "--json", at=url))
    assert found["version"]["found"].split()[0] == ("Redis" if kind == "redis" else "Valkey")
    assert found["eviction"]["state"] == "ok"
    assert found["clock"]["found"].endswith("close enough")
    assert "MiB in use" in found["memory"]["found"]
    assert found["durability"]["found"] == "on disk (AOF, fsync) when a call returns"
    assert ("cluster" in found) == (kind == "cluster")
    if kind == "cluster":
        assert found["cluster"]["found"] == "3 masters, each with a replica"


def test_a_cluster_whose_state_may_not_be_read_is_not_reported_as_broken(recollect):
    may = "on", ">secret", "~*", "+@read", "+@write", "+@scripting", "+@connection", "+info", "+cluster|slots"
    with fresh_url("cluster") as url:
        for server in shared_cluster().servers:
            with server.client() as client:
                client.execute_command("ACL", "SETUSER", "restricted", *may)
        found = checks(recollect("doctor", "--json", at=url.replace("://", "://restricted:secret@")))
    assert found["cluster"]["state"] == "warn"
    assert "cluster|info" in found["cluster"]["advice"]


def test_a_redis_that_may_lose_a_second_gets_a_warning(recollect):
    with RedisServer("redis", {"appendfsync": "everysec"}) as server:
        found = checks(recollect("doctor", "--json", at=server.url()))
    assert found["durability"]["state"] == "warn"
    assert "appendfsync always" in found["durability"]["advice"]


def test_a_carelessly_configured_redis_fails_the_examination(recollect):
    settings = {"appendonly": "no", "maxmemory": "20mb", "maxmemory-policy": "allkeys-lru"}
    with RedisServer("redis", settings) as server:
        ran = recollect("doctor", "--json", at=server.url())
    found = checks(ran)
    assert ran.code != 0
    assert found["eviction"]["state"] == "fail"
    assert "noeviction" in found["eviction"]["advice"]
    assert "appendonly yes" in found["durability"]["advice"]


@pytest.mark.xdist_group("cosmos")
def test_a_cosmos_emulator_is_distinguished_from_an_account(recollect):
    with fresh_url("cosmos") as url:
        found = checks(recollect("doctor", "--json", at=url))
    assert found["durability"]["state"] == "warn"
    assert found["consistency"]["state"] == "ok"


def test_several_stores_are_examined_at_once(recollect, monkeypatch):
    with fresh_url("redis") as cache, fresh_url("postgresql") as url:
        monkeypatch.setenv("RECOLLECT_LAYERS", f"working={cache}")
        found = checks(recollect("doctor", "--json", at=url))
    assert found["the rest: version"]["found"].startswith("PostgreSQL")
    assert found["working: version"]["found"].startswith("Redis")
    assert {found[name]["state"] for name in ("the rest: clock", "working: clock")} == {"ok"}


def test_of_several_stores_the_unreachable_one_is_named(recollect, monkeypatch):
    with fresh_url("redis") as cache:
        monkeypatch.setenv("RECOLLECT_LAYERS", f"working={cache}")
        monkeypatch.setenv("RECOLLECT_BUSY_TIMEOUT_S", "1")
        ran = recollect("doctor", "--json", at=f"postgresql://ann:s3cret@{NEVER}/db")
    found = checks(ran)
    assert found["the rest: store"]["state"] == "fail"
    assert found["working: store"]["state"] == "ok"
    assert "s3cret" not in json.dumps(ran.json)


def test_a_refused_postgresql_login_is_blamed_on_the_password_or_the_database(recollect):
    server = PostgresServer()
    try:
        with server.admin() as admin:
            admin.execute("alter role recollect password 'right'")
        server.ask_for_passwords()
        wrong = server.url().replace("recollect@", "recollect:s3cret@")
        missing = server.url(role="postgres").replace(f":{server.port}/postgres", f":{server.port}/nowhere")
        told = {url: checks(recollect("doctor", "--json", at=url))["store"] for url in (wrong, missing)}
    finally:
        server.remove()
    assert {check["state"] for check in told.values()} == {"fail"}
    assert "user and password" in str(told[wrong])
    assert "no such database" in str(told[missing])
    assert "s3cret" not in str(list(told.values()))


def test_a_postgresql_that_is_too_old_is_refused_before_anything_is_created_in_it():
    with pytest.raises(Unavailable, match="PostgreSQL 14 is too old: 15 or later"):
        check_server(140_011)


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_a_wrong_redis_password_is_reported(recollect, kind):
    with RedisServer(kind, {"requirepass": "right"}) as server:
        told = checks(recollect("doctor", "--json", at=server.url().replace("redis://", "redis://:s3cret@")))["store"]
    assert told["state"] == "fail"
    assert "user and password" in str(told)
    assert "s3cret" not in str(told)


@pytest.mark.parametrize(("ahead_ms", "state"), [(1_500, "ok"), (-5_000, "warn"), (90_000, "fail")])
def test_clock_differences_are_reported_with_their_size(ahead_ms, state):
    finding = clock_finding([0, ahead_ms])
    assert finding.state == state
    assert f"{abs(ahead_ms) / 1000:.1f} s {'behind' if ahead_ms < 0 else 'ahead'}" in finding.found
    assert ("NTP" in finding.advice) == (state != "ok")
