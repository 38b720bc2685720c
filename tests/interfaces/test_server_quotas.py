"""What an org may use in a day: counted across all processes, refused clearly, and renewed at midnight."""

from __future__ import annotations

import re
import sqlite3

import pytest
from server_stage import client_of, document, opened

from recollect.errors import RateLimited, ValidationError
from recollect.server.quotas import Quota, Quotas, may_add, read_quotas
from recollect.server.routing import NEEDS, READ
from recollect.settings import Settings
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import ManualClock

ANN = "/api/users/ann"


async def test_requests_of_a_day_are_counted_and_then_refused_until_midnight():
    clock = ManualClock()
    async with opened(clock=clock, settings={"requests_per_day": 3}) as service, client_of(service) as client:
        answers = [(await client.get(f"{ANN}/profile")) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        told = answers[-1].json()
        assert (told["code"], told["field"]) == ("RateLimited", "org")
        assert "today's quota of requests (3)" in told["detail"]
        assert 0 < int(answers[-1].headers["retry-after"]) <= 24 * 3600
        other = await client.get(f"{ANN}/profile", headers={"X-Recollect-Org": "other"})
        assert other.status_code == 200 and (await client.get("/health")).status_code == 200
        clock.advance(days=1)
        assert (await client.get(f"{ANN}/profile")).status_code == 200


async def test_an_org_that_may_add_no_more_may_still_read_and_forget():
    async with opened(settings={"memories_per_day": 2}) as service, client_of(service) as client:
        items = {"memories": [{"content": "Tea.", "id": "tea"}, {"content": "Milk."}]}
        assert (await client.post(f"{ANN}/memories", json=items)).status_code == 201
        refused = await client.post(f"{ANN}/memories", json={"content": "Sugar."})
        turn = await client.post("/api/chat", json={"chat_id": "c", "user_id": "ann", "message": "Hello"})
        assert (refused.status_code, turn.status_code) == (429, 429) and "memories (2)" in refused.json()["detail"]
        assert (await client.post(f"{ANN}/memories/search", json={"query": "tea"})).status_code == 200
        assert (await client.get(f"{ANN}/memories")).json()["memories"][0]["content"] == "Tea."
        assert (await client.delete(f"{ANN}/memories/tea")).status_code == 200


def test_no_call_that_only_reads_counts_as_adding():
    calls = [(way.upper(), path, told) for path, ways in document()["paths"].items() for way, told in ways.items()]
    reading = [(way, path) for way, path, told in calls if told.get(NEEDS) == READ[NEEDS]]
    assert "POST" in {way for way, _ in reading}
    assert [path for way, path in reading if may_add(way, path)] == []


async def test_an_import_ends_where_the_memories_of_the_day_are_used_up():
    lines = b"".join(b'{"role": "user", "content": "Cup number %d."}\n' % number for number in range(1_000))
    jsonl = {"content": lines, "headers": {"Content-Type": "application/jsonl"}}
    async with opened(settings={"memories_per_day": 100}) as service, client_of(service) as client:
        refused = await client.post(f"{ANN}/import", **jsonl)
        assert refused.status_code == 429 and "memories (100)" in refused.json()["detail"]
        (session,) = (await client.get(f"{ANN}/sessions")).json()["sessions"]
        assert 100 <= session["messages"] < 150  # it ends between two writes
        assert (await client.post(f"{ANN}/import", **jsonl)).status_code == 429


async def test_upkeep_skips_what_the_server_stores_for_itself():
    async with opened(settings={"requests_per_day": 9}) as service, client_of(service) as client:
        await client.get(f"{ANN}/profile")
        await service.quotas.flush()
        await service.keys.create(org="default")
        await service.seats.leave(service.seats.take("key"))
        assert set((await service.memory.survey()).records) == {"quota", "key", "seat"}
        assert all(done.is_idle for done in await service.memory.maintain())


async def test_what_is_stored_for_counting_does_not_grow_from_day_to_day(tmp_path):
    clock, kept = ManualClock(), []
    settings = {"requests_per_day": 1_000}
    async with opened(f"sqlite:///{tmp_path}/kept.db", clock=clock, settings=settings) as service:
        for _ in range(6):
            for _ in range(20):
                service.quotas.note("acme", requests=1)
                await service.quotas.flush()
                clock.advance(hours=1)
            clock.advance(hours=4)
            await service.memory.work()
            with sqlite3.connect(tmp_path / "kept.db") as file:
                kept.append(file.execute("select count(*) from once").fetchone()[0])
        assert await service.memory.failures() == []
    assert kept[-1] <= 60, kept


async def test_bytes_sent_are_counted():
    async with opened(settings={"bytes_per_day": 1_000}) as service, client_of(service) as client:
        first = await client.post(f"{ANN}/memories", json={"content": "x" * 2_000})
        second = await client.post(f"{ANN}/memories", json={"content": "y"})
        assert (first.status_code, second.status_code) == (201, 429)


async def test_the_console_is_no_way_around_a_quota():
    async with opened(settings={"memories_per_day": 1}) as service, client_of(service) as client:
        proof = re.search(r'name="proof" value="(\w+)"', (await client.get("/users")).text)[1]

        async def send(path, **fields):
            return (await client.post(path, data=fields | {"proof": proof})).status_code

        assert await send("/users/ann/memories", content="Tea.") == 303
        assert await send("/users/ann/memories", content="Milk.") == 429
        assert await send("/users/ann/chat/search", message="Hello") == 429
        assert await send("/sample") == 429
        (kept,) = (await client.get(f"{ANN}/memories")).json()["memories"]
        assert (await client.get("/users/ann/memories")).status_code == 200
        assert await send(f"/users/ann/memories/{kept['id']}/forget") == 303
    async with opened(settings={"requests_per_day": 2}) as service, client_of(service) as client:
        assert [(await client.get("/users")).status_code for _ in range(3)] == [200, 200, 429]


class AtMidnight(InMemoryStore):
    """A store in which something else happens while it writes."""

    async def commit(self, changes, now):
        revision = await super().commit(changes, now)
        await self.meanwhile()
        return revision


async def test_usage_before_midnight_is_not_charged_to_the_next_day():
    clock, store = ManualClock(), AtMidnight()
    quotas = Quotas(store, clock, Quota(requests=3), {})

    async def a_day_begins():
        clock.advance(days=1)
        await quotas.admit("acme", adds=False)

    for _ in range(3):
        await quotas.admit("acme", adds=False)
    store.meanwhile = a_day_begins
    await quotas.flush()
    for _ in range(2):
        await quotas.admit("acme", adds=False)
    with pytest.raises(RateLimited):
        await quotas.admit("acme", adds=False)


async def test_counts_are_shared_between_processes_and_survive_a_restart(tmp_path):
    url, limit = f"sqlite:///{tmp_path}/kept.db", {"requests_per_day": 10}
    async with (
        opened(url, settings=limit) as one,
        opened(url, settings=limit) as two,
        client_of(one) as first,
        client_of(two) as second,
    ):
        for _ in range(4):
            await first.get(f"{ANN}/profile")
            await second.get(f"{ANN}/profile")
        await one.quotas.flush()
        await two.quotas.flush()
    async with opened(url, settings=limit) as again, client_of(again) as client:
        answers = [(await client.get(f"{ANN}/profile")).status_code for _ in range(3)]
        assert answers == [200, 200, 429]
        assert (await client.get("/api/users")).status_code == 429
        assert (await again.memory.org().users())[0] == []


def test_an_org_may_have_a_quota_of_its_own():
    settings = Settings().with_({"requests_per_day": 100, "bytes_per_day": 5_000})
    usual, special = read_quotas(settings, {"acme": {"requests_per_day": 9}})
    assert usual == Quota(100, None, 5_000) and special == {"acme": Quota(9, None, 5_000)}


@pytest.mark.parametrize(
    "tables", [1, {"acme": 1}, {"acme": {"x": 1}}, {"acme": {"requests_per_day": 0}}, {"a": {"bytes_per_day": True}}]
)
def test_an_invalid_quota_is_refused_at_the_start(tables):
    with pytest.raises(ValidationError) as refused:
        read_quotas(Settings(), tables)
    assert refused.value.field.startswith("orgs")
