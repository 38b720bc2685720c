"""Keys: who may ask the server, and what happens to everybody else."""

from __future__ import annotations

import asyncio
import json
import statistics
import time

import httpx
import pytest
from fastapi import FastAPI
from server_stage import LOCAL, bearer, client_of, listening, opened

from recollect.bound_keys import KEYS
from recollect.errors import NotFound, ValidationError
from recollect.server.app import build, serve
from recollect.server.callers import Callers
from recollect.server.limits import BUCKETS_MAX, Rate
from recollect.server.service import FAILED_BURST, FAILED_PER_MINUTE, Service
from recollect.stores.contract import VEIL
from recollect.testing.erasing import bytes_of, copies

MEMORY = {"content": "Prefers window seats."}
LOOKS_MOST = 20
"""One a second, on a very busy machine."""
LET_IN_S = 30.0


# ── Without keys ─────────────────────────────────────────────────────────────────────────────────


async def test_without_keys_this_machine_is_served_for_the_org_it_names(client):
    await client.post("/api/users/ann/memories", json=MEMORY, headers={"X-Recollect-Org": "acme"})
    here = await client.get("/api/users/ann/memories")
    there = await client.get("/api/users/ann/memories", headers={"X-Recollect-Org": "acme"})
    assert (len(here.json()["memories"]), len(there.json()["memories"])) == (0, 1)


async def test_without_keys_another_machine_gets_nothing(service):
    async with client_of(service, address="10.1.2.3") as client:
        assert (await client.get("/api/users/ann/profile")).status_code == 401


async def test_without_keys_a_page_of_another_site_gets_nothing(service, client):
    evil = await client.post("/api/users/ann/memories", json=MEMORY, headers={"Origin": "https://evil.example"})
    none = await client.get("/api/users/ann/memories", headers={"Origin": "null"})
    own = await client.get("/api/users/ann/memories", headers={"Origin": LOCAL})
    async with client_of(service, base_url="http://rebound.example:8765") as rebound:
        by_name = await rebound.get("/api/users/ann/memories")
    assert [each.status_code for each in (evil, none, own, by_name)] == [403, 403, 200, 401]
    assert "access-control-allow-origin" not in own.headers
    assert own.json()["memories"] == []


@pytest.mark.parametrize(
    ("site", "dest", "status"),
    [
        ("cross-site", "image", 403),
        ("cross-site", "empty", 403),
        ("same-site", "iframe", 403),
        ("cross-site", "document", 200),  # a link that was followed
        ("same-origin", "empty", 200),
        ("none", "document", 200),
    ],
)
async def test_without_keys_what_a_page_of_another_site_embeds_is_not_served(client, site, dest, status):
    fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": dest}
    assert (await client.get("/api/users", headers=fetched)).status_code == status


@pytest.mark.parametrize("host", ["[::1", "", "127.0.0.1.evil.example"])
async def test_a_request_with_an_invalid_host_is_refused(client, host):
    assert (await client.get("/api/users/ann/profile", headers={"Host": host})).status_code == 401


@pytest.mark.parametrize("org", ["{keys}", "", "a\tb"])
async def test_no_header_can_name_the_org_where_keys_are_stored(client, org):
    assert (await client.get("/api/users/ann/profile", headers={"X-Recollect-Org": org})).status_code == 422


async def test_the_first_key_closes_the_door_for_all_others_at_once(service, client):
    assert (await client.get("/api/users/ann/profile")).status_code == 200
    await bearer(service)
    assert (await client.get("/api/users/ann/profile")).status_code == 401


async def test_revoking_the_last_key_does_not_open_the_door(service, client):
    key, _ = await service.keys.create(org="acme")
    await service.keys.revoke(key.id)
    assert (await client.get("/api/users/ann/profile")).status_code == 401


async def test_other_machines_are_not_served_before_there_is_a_key():
    with pytest.raises(ValidationError, match="recollect keys create"):
        await serve(Service("memory://", environ={}), "0.0.0.0", 0, told=lambda address, needs_keys: None)


# ── With keys ────────────────────────────────────────────────────────────────────────────────────


async def test_a_caller_without_a_valid_key_learns_nothing_from_the_answer(service, clock, client):
    right = await bearer(service)
    gone, _ = await service.keys.create(org="acme")
    revoked_key, revoked = await service.keys.create(org="acme")
    await service.keys.revoke(revoked_key.id)
    expired = await bearer(service, expires="1h")
    clock.advance(hours=2)
    token = right["Authorization"].removeprefix("Bearer ")
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    attempts = [
        [],
        [("Authorization", f"Bearer {wrong}")],
        [("Authorization", f"Bearer rk_{gone.id}_{'x' * 43}")],
        [("Authorization", f"Bearer rk_{'0' * 12}_{'x' * 43}")],
        [("Authorization", f"Bearer {revoked}")],
        list(expired.items()),
        [("Authorization", f"Basic {token}")],
        [("Authorization", token)],
        [("Authorization", "Bearer ")],
        [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")],
        [("X-Api-Key", token)],
    ]
    answers = [await client.get("/api/users/ann/profile", headers=headers) for headers in attempts]
    answers.append(await client.get(f"/api/users/ann/profile?token={token}"))
    bodies = {json.dumps({**answer.json(), "request_id": ""}) for answer in answers}
    assert {answer.status_code for answer in answers} == {401}
    assert len(bodies) == 1
    assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
    assert (await client.get("/api/users/ann/profile", headers=right)).status_code == 200


async def test_a_wrong_key_is_refused_before_the_body_is_read(service):
    await bearer(service)
    read = []

    async def body():
        read.append(True)
        yield b"{}"

    async with client_of(service) as client:
        answer = await client.post("/api/users/ann/memories", content=body())
    assert (answer.status_code, read) == (401, [])


async def test_the_org_comes_from_the_key_and_from_nowhere_else(service, client):
    acme, other = await bearer(service), await bearer(service, org="other")
    await client.post("/api/users/ann/memories", json=MEMORY, headers=acme)
    assert (await client.get("/api/users/ann/memories", headers=other)).json()["memories"] == []
    named = await client.get("/api/users/ann/memories", headers=other | {"X-Recollect-Org": "acme"})
    asked = await client.get("/api/users/ann/memories?org=acme", headers=other)
    sent = await client.post("/api/users/ann/memories", json=MEMORY | {"org_id": "acme"}, headers=other)
    assert (named.status_code, asked.status_code, sent.status_code) == (403, 422, 422)


async def test_what_belongs_to_another_user_or_org_is_not_found(service, client):
    acme, other, bob = await bearer(service), await bearer(service, org="other"), await bearer(service, user="bob")
    stored = await client.post("/api/users/ann/memories", json=MEMORY, headers=acme)
    id = stored.json()["memories"][0]["id"]
    for user, headers in (("ann", other), ("ann", bob), ("bob", bob)):
        path = f"/api/users/{user}/memories/{id}"
        answers = [
            await client.get(path, headers=headers),
            await client.patch(path, json={"content": "mine"}, headers=headers),
            await client.delete(path, headers=headers),
            await client.get(f"{path}/history", headers=headers),
        ]
        assert {answer.status_code for answer in answers} == {404}
    assert (await client.get(f"/api/users/ann/memories/{id}", headers=acme)).json()["content"] == MEMORY["content"]


async def test_a_key_of_one_user_reaches_only_that_user(service, client):
    bob = await bearer(service, user="bob", scope="admin")
    turn = {"chat_id": "c", "message": "My cat is called Tom."}
    assert (await client.get("/api/users/bob/profile", headers=bob)).status_code == 200
    assert (await client.post("/api/chat", json=turn | {"user_id": "bob"}, headers=bob)).status_code == 200
    assert (await client.post("/api/chat", json=turn | {"user_id": "ann"}, headers=bob)).status_code == 404
    for path in ("/api/users/ann/profile", "/api/users", "/api/entities/order/1", "/api/stats", "/api/failures"):
        assert (await client.get(path, headers=bob)).status_code == 404, path
    assert (await client.get("/metrics", headers=bob)).status_code == 404


async def test_a_key_does_no_more_than_its_scope_allows(service, client):
    keys = {scope: await bearer(service, scope=scope) for scope in ("read", "write", "admin")}
    calls = {
        "read": ("POST", "/api/users/ann/memories/search", {"query": "seats"}),
        "write": ("POST", "/api/users/ann/memories", MEMORY),
        "admin": ("DELETE", "/api/users/ann", None),
    }
    allowed = {
        (scope, needed): (await client.request(method, path, json=body, headers=headers)).status_code
        for scope, headers in keys.items()
        for needed, (method, path, body) in calls.items()
    }
    assert [need for need in allowed if allowed[need] == 403] == [
        ("read", "write"), ("read", "admin"), ("write", "admin"),
    ]  # fmt: skip
    assert {status for status in allowed.values() if status != 403} == {200, 201}


async def test_anybody_may_ask_whether_the_server_is_alive(service, client):
    await bearer(service)
    answers = [(await client.get(path)).status_code for path in ("/health", "/ready", "/openapi.json", "/metrics")]
    assert answers == [200, 200, 200, 401]


async def test_only_the_hash_of_a_key_is_kept(service):
    key, token = await service.keys.create(org="acme", name="laptop")
    (record,) = await service.memory._running.ledger.get(KEYS, [key.id])
    secret = token.split("_", 2)[2]
    assert secret not in repr((record.content, record.data)) and secret not in repr(key) + json.dumps(key.to_dict())
    assert key.shown == f"rk_{key.id[:4]}..."


async def test_the_keys_of_an_erased_user_are_revoked_and_no_longer_name_the_user(tmp_path):
    async with opened(tmp_path / "kept.db") as service, client_of(service) as client:
        operator = await bearer(service, scope="admin")
        theirs = await bearer(service, user="xylocanarium", name="The telephone of xylocanarium")
        namesake = await bearer(service, org="other", user="xylocanarium")
        await client.post("/api/users/xylocanarium/memories", json=MEMORY, headers=theirs)
        assert (await client.delete("/api/users/xylocanarium", headers=operator)).status_code == 200
        assert (await client.get("/api/users/xylocanarium/memories", headers=theirs)).status_code == 401
        assert (await client.get("/api/users/xylocanarium/memories", headers=operator)).status_code == 200
        assert (await client.get("/api/users/xylocanarium/memories", headers=namesake)).status_code == 200
        told = [(key.user, key.name, key.state(service.clock())) for key in await service.keys.list()]
        assert told == [(None, "", "active"), (VEIL, "", "revoked"), ("xylocanarium", "", "active")]
        await service.memory.user("xylocanarium", org="other").erase()
    assert copies(bytes_of(tmp_path), "xylocanarium") == 0


async def test_with_an_org_the_keys_of_its_users_are_revoked_and_its_own_stay(service, client):
    operator, own = await bearer(service, scope="admin"), await bearer(service, user="ann")
    elsewhere = await bearer(service, org="other", user="ann")
    await service.memory.org("acme").erase()
    answers = [await client.get("/api/users/ann/profile", headers=key) for key in (operator, own, elsewhere)]
    assert [answer.status_code for answer in answers] == [200, 401, 200]


async def test_erasing_a_user_whose_key_is_the_only_one_does_not_open_the_door(service, client):
    await bearer(service, user="ann", scope="admin")
    await service.memory.user("ann", org="acme").erase()
    assert (await client.get("/api/users/ann/profile")).status_code == 401


async def test_refusing_a_nearly_right_key_takes_as_long_as_any_other(service):
    _, token = await service.keys.create(org="acme")
    first = len(token) - len(token.split("_", 2)[2])
    near, far = (token[:at] + ("B" if token[at] == "A" else "A") + token[at + 1 :] for at in (len(token) - 1, first))
    took = {near: [], far: []}
    for turn in range(2_000):
        for guess in (near, far) if turn % 2 else (far, near):
            began = time.perf_counter()
            await service.keys.find(guess)
            took[guess].append(time.perf_counter() - began)
    trimmed = [
        sorted(each)[:1_800] for each in took.values()
    ]  # without the turns in which the machine was busy with other things
    error = (sum(statistics.variance(each) / len(each) for each in trimmed)) ** 0.5
    difference = abs(statistics.mean(trimmed[0]) - statistics.mean(trimmed[1]))
    assert difference < max(5 * error, 2e-6)


# ── Rate limits ──────────────────────────────────────────────────────────────────────────────────


async def test_a_key_that_asks_too_often_waits_and_the_others_do_not(clock):
    async with opened(clock=clock, settings={"requests_per_minute": 60}) as service, client_of(service) as client:
        service.rate._timer = lambda: 0.0  # however long the requests take
        busy, quiet = await bearer(service), await bearer(service)
        answers = [await client.get("/api/users/ann/profile", headers=busy) for _ in range(12)]
        assert [answer.status_code for answer in answers] == [200] * 10 + [429] * 2
        assert answers[-1].headers["retry-after"] == "1"
        assert answers[-1].json()["code"] == "RateLimited"
        assert (await client.get("/api/users/ann/profile", headers=quiet)).status_code == 200


def stop_time(service):
    """Stop the clock for the count of wrong keys, however slow the machine is."""
    service.failed_rate = Rate(FAILED_PER_MINUTE, burst=FAILED_BURST, timer=lambda: 0.0)


async def test_a_flood_of_wrong_keys_is_told_to_wait_and_right_ones_are_let_in(service, client):
    stop_time(service)
    right = await bearer(service)
    wrong = {"Authorization": f"Bearer rk_{'0' * 12}_{'x' * 43}"}
    answers = [(await client.get("/api/users/ann/profile", headers=wrong)) for _ in range(FAILED_BURST + 5)]
    assert [answer.status_code for answer in answers] == [401] * FAILED_BURST + [429] * 5
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert (await client.get("/api/users/ann/profile", headers=right)).status_code == 200


async def test_ever_changing_wrong_keys_are_refused_unread_and_no_others_are(service):
    stop_time(service)
    right, other = await bearer(service), await bearer(service)
    wrong = [{"Authorization": f"Bearer rk_{number:012x}_{'x' * 43}"} for number in range(FAILED_BURST + 40)]
    async with listening(service) as address, httpx.AsyncClient(base_url=address) as client:
        answers = [await client.get("/api/users", headers=key) for key in wrong]
        assert [answer.status_code for answer in answers] == [401] * FAILED_BURST + [429] * 40
        assert 40 - LOOKS_MOST <= service.metrics.total("refused") < 40  # the rest were looked up before being refused
        bare = await client.get("/api/users")
        assert (bare.status_code, bare.headers["retry-after"]) == (429, answers[-1].headers["retry-after"])
        for key in (right, other):
            assert (await client.get("/api/users/ann/profile", headers=key)).status_code == 200
        assert (await client.get("/sign-in")).status_code == (await client.get("/health")).status_code == 200
        assert len(service.callers._buckets) == 2


async def test_a_key_created_during_a_flood_of_wrong_ones_is_let_in_within_seconds(service):
    stop_time(service)
    await service.keys.create(org="acme")
    wrong = {"Authorization": f"Bearer rk_{'0' * 12}_{'x' * 43}"}
    async with listening(service) as address, httpx.AsyncClient(base_url=address) as client:
        answers = [await client.get("/api/users", headers=wrong) for _ in range(FAILED_BURST + 5)]
        assert [answer.status_code for answer in answers] == [401] * FAILED_BURST + [429] * 5
        fresh = await bearer(service)
        async with asyncio.timeout(LET_IN_S):
            while (await client.get("/api/users/ann/profile", headers=fresh)).status_code == 429:
                assert (await client.get("/api/users", headers=wrong)).status_code == 429
                await asyncio.sleep(0.05)
        assert (await client.get("/api/users/ann/profile", headers=fresh)).status_code == 200


async def test_in_a_flood_of_wrong_keys_one_a_second_is_looked_up(service):
    service.failed_rate = Rate(FAILED_PER_MINUTE, burst=1, timer=lambda: 0.0)
    service.failed_rate.take("1.2.3.4")
    looked_up = [service.unknown_wait_s("1.2.3.4", b"rk_1") == 0 for _ in range(1_000)]
    assert 1 <= sum(looked_up) <= LOOKS_MOST
    assert service.unknown_wait_s("1.2.3.4", b"") > 0 == service.unknown_wait_s("4.3.2.1", b"rk_1")


async def test_a_revoked_key_is_a_wrong_one_from_then_on(service):
    stop_time(service)
    key, token = await service.keys.create(org="acme")
    shown = {"Authorization": f"Bearer {token}"}
    async with listening(service) as address, httpx.AsyncClient(base_url=address) as client:
        assert (await client.get("/api/users/ann/profile", headers=shown)).status_code == 200
        await service.keys.revoke(key.id)
        answers = [await client.get("/api/users/ann/profile", headers=shown) for _ in range(FAILED_BURST + 5)]
    assert [answer.status_code for answer in answers] == [401] * FAILED_BURST + [429] * 5
    assert service.known_as(token.encode()) == b"" and not service.callers._buckets


async def test_the_rate_limit_is_checked_before_whether_the_key_is_still_valid(service):
    now = 0.0
    service.rate = Rate(60, burst=2, timer=lambda: now)
    key, token = await service.keys.create(org="acme")
    shown = {"Authorization": f"Bearer {token}"}
    async with listening(service) as address, httpx.AsyncClient(base_url=address) as client:

        async def ask() -> int:
            return (await client.get("/api/users/ann/profile", headers=shown)).status_code

        assert [await ask() for _ in range(4)] == [200, 200, 429, 429]
        await service.keys.revoke(key.id)
        assert await ask() == 429
        now = 60.0
        assert [await ask() for _ in range(3)] == [401] * 3


@pytest.mark.parametrize(
    "added",
    [
        {"X-Forwarded-For": "203.0.113.9"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=203.0.113.9"},
        {"Via": "1.1 x"},
    ],
)
async def test_without_keys_a_request_forwarded_by_a_local_proxy_does_not_count_as_local(service, client, added):
    await client.post("/api/users/ann/memories", json=MEMORY)
    for path in ("/api/users", "/metrics", "/users/ann/memories"):
        answer = await client.get(path, headers=added, follow_redirects=True)
        assert "ann" not in answer.text and (answer.status_code == 401 or answer.url.path == "/sign-in"), path
    assert "recollect keys create" in (await client.get("/api/users", headers=added)).json()["detail"]
    right = await bearer(service, org="default")
    assert (await client.get("/api/users", headers=right | added)).json()["users"] == ["ann"]


async def test_without_keys_wrong_ones_do_not_lock_out_this_machine(service):
    async with listening(service) as address, httpx.AsyncClient(base_url=address) as client:
        for number in range(FAILED_BURST + 5):
            await client.get("/api/users", headers={"Authorization": f"Bearer {number}"})
        assert (await client.get("/api/users")).status_code == 200


async def test_all_made_up_keys_share_one_place_in_the_queue(service):
    _, right = await service.keys.create(org="acme")
    await service.keys.list()
    made_up = {service.known_as(f"rk_{number:012x}_{'x' * 43}".encode()) for number in range(100)}
    assert made_up == {b""} and service.known_as(right.encode()) == right.encode()


def test_looking_at_a_bucket_takes_nothing_from_it():
    now = [0.0]
    rate = Rate(60, burst=1, timer=lambda: now[0])
    assert [rate.wait_s("a"), rate.wait_s("a"), rate.take("a"), rate.wait_s("a")] == [0, 0, 0, 1.0]
    now[0] += 0.5
    assert rate.wait_s("a") == 0.5
    now[0] += 0.5
    assert (rate.wait_s("a"), rate.take("a")) == (0, 0)


def test_a_bucket_fills_again_with_time_and_never_above_its_burst():
    now = [0.0]
    rate = Rate(60, burst=2, timer=lambda: now[0])
    assert [rate.take("a") for _ in range(3)] == [0, 0, 1.0]
    now[0] += 0.5
    assert rate.take("a") == 0.5
    now[0] += 100
    assert [rate.take("a") == 0 for _ in range(3)] == [True, True, False]


def test_countless_callers_do_not_fill_the_memory():
    rate = Rate(60, burst=1)
    for number in range(BUCKETS_MAX + 100):
        rate.take(str(number))
    assert len(rate._buckets) == BUCKETS_MAX


# ── Making and listing keys ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"org": ""}, "org"), ({"org": "{keys}"}, "org"), ({"user": "\n"}, "user"), ({"scope": "root"}, "scope"),
        ({"expires": "soon"}, "expires"), ({"expires": "0d"}, "expires"), ({"expires": "99999d"}, "expires"),
        ({"name": "x" * 200}, "name"),
    ],
)  # fmt: skip
async def test_an_invalid_key_is_not_created(service, given, field):
    with pytest.raises(ValidationError) as refused:
        await service.keys.create(**({"org": "acme"} | given))
    assert refused.value.field == field
    assert await service.keys.list() == []


async def test_keys_are_listed_with_what_became_of_them(service, clock):
    for life in (None, "30m", "90d"):
        await service.keys.create(org="acme", expires=life)
    first, *_ = await service.keys.list()
    await service.keys.revoke(first.id)
    clock.advance(days=1)
    assert [key.state(clock()) for key in await service.keys.list()] == ["revoked", "expired", "active"]
    assert (await service.keys.revoke(first.id)).revoked_at is not None
    with pytest.raises(NotFound):
        await service.keys.revoke("nobody")


def test_keys_are_made_listed_and_revoked_on_the_command_line(recollect):
    made = recollect("keys", "create", "--org", "acme", "--user", "ann", "--expires", "90d", "--json").json
    assert made["token"].startswith(f"rk_{made['id']}_") and made["scope"] == "write"
    plain = recollect("keys", "create", "--org", "acme", "--scope", "read")
    assert plain.out.splitlines()[0].startswith("rk_") and "not shown again" in plain.out
    listed = recollect("keys", "list")
    assert made["id"] in listed.out and made["token"] not in listed.out
    assert recollect("keys", "revoke", made["id"]).code == 0
    states = {key["id"]: key["state"] for key in recollect("keys", "--json").json}
    assert states[made["id"]] == "revoked" and len(states) == 2
    assert recollect("keys", "revoke", "nobody").code == 1


def test_keys_do_not_hinder_upkeep_and_no_command_reads_them(recollect):
    recollect("keys", "create", "--org", "acme")
    assert recollect("maintain", "--json").code == 0
    assert recollect("doctor").code == 0
    assert recollect("list", "--org", "{keys}").code == 2


async def test_a_server_mounted_inside_another_is_no_less_guarded():
    async with opened() as service:
        _, token = await service.keys.create(org="acme", scope="admin")
        outer = FastAPI()
        outer.mount("/memory", build(service))
        transport = httpx.ASGITransport(outer, client=("9.9.9.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://recollect.example") as client:
            for path in ("/api/stats", "/metrics", "/api/users/ann/memories"):
                assert (await client.get(f"/memory{path}")).status_code == 401
            assert (await client.get("/memory/health")).status_code == 200
            key = {"Authorization": f"Bearer {token}"}
            assert (await client.get("/memory/api/users", headers=key)).status_code == 200


def test_the_buckets_of_a_limited_number_of_callers_are_remembered_without_their_keys():
    rate, callers = Rate(60, burst=1), Callers(most=2)
    for token in (b"rk_1", b"rk_2", b"rk_3"):
        callers.remember("10.0.0.1", token, (rate, token.decode()))
    assert callers.bucket("10.0.0.1", b"rk_1") is None and callers.bucket("10.0.0.1", b"rk_3") == (rate, "rk_3")
    assert callers.bucket("10.0.0.2", b"rk_3") is None and callers.bucket("10.0.0.1", b"") is None
    assert b"rk_3" not in repr(vars(callers)["_buckets"].keys()).encode()
