"""Two orgs on one server, with users of the same name: neither can see or change the other's data by any route."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from server_stage import client_of, opened, proof_in, shown, signed_in

SECRET = "Xanadu"
"""Contained in everything the first org remembers."""
NOT_THERE = "019a0000-0000-7000-8000-000000000000"
OF_THE_ANSWER = ("x-request-id", "content-length")
"""Headers that differ from answer to answer, or with the length of a request id."""


@pytest.fixture
async def service(clock):
    async with opened(clock=clock, settings={"requests_per_minute": 1_000_000}) as service:
        yield service


@pytest.fixture
async def client(service):
    async with client_of(service) as client:
        yield client


async def key(service, org: str, **more) -> dict[str, str]:
    _, token = await service.keys.create(org=org, **({"scope": "admin"} | more))
    return {"Authorization": f"Bearer {token}"}


async def filled(service, client) -> tuple[dict[str, str], list[str]]:
    """An org with something of every kind. Returns its key and the ids of everything in it."""
    acme = await key(service, "acme")
    ann = service.memory.user("ann", org="acme")
    chat = ann.session("monday", agent="support")
    for number in range(3):
        await chat.add_interaction(f"I live in {SECRET}. My sister Leila{number} works there.", f"{SECRET}, I see.")
    await chat.working.set({"plan": SECRET})
    await chat.customize(f"Always mention {SECRET}.")
    await ann.add_memory(f"The password of {SECRET}.")
    await ann.add_learning(f"{SECRET} comes up often.")
    await ann.add_fact("city", SECRET)
    await service.memory.work()
    await chat.close()
    turn = {"chat_id": "monday", "user_id": "ann", "message": f"Tell me of {SECRET}."}
    sent = await client.post("/api/chat", json=turn, headers=acme | {"Idempotency-Key": "turn-1"})
    assert sent.status_code == 200
    body = {"data": {"name": SECRET}}
    assert (await client.put("/api/entities/customer/c1", json=body, headers=acme)).status_code < 300
    ids = {record["id"] for record in await ann.export() if "id" in record}
    return acme, sorted(ids | {each["id"] for each in sent.json()["context"]["sources"]})


async def calls(client) -> list[tuple[str, str, Any]]:
    """Every API call: method, path, and the example of its body."""
    described = (await client.get("/openapi.json")).json()
    found = []
    for path, methods in described["paths"].items():
        for method, told in methods.items():
            content = told.get("requestBody", {}).get("content", {})
            found.append((method.upper(), path, _example(described, content)))
    return found


def _example(described: dict, content: dict) -> Any:
    for kind, each in content.items():
        schema = each.get("schema", {})
        schema = (schema.get("oneOf") or [schema])[0]
        named = schema.get("$ref", "").rpartition("/")[2]
        examples = described["components"]["schemas"].get(named, {}).get("examples", [{}])
        return each.get("example", examples[0]), kind
    return None


def with_ids(path: str, id: str) -> str:
    places = {"user": "ann", "session": "monday", "key": "city", "type": "customer", "agent": "support"}
    places |= {"verdict": "confirm", "judgement": "confirm", "id": "c1" if "/entities/{type}" in path else id}
    return re.sub(r"\{(\w+)\}", lambda found: places[found[1]], path)


async def ask(client, method: str, path: str, body: Any, headers: dict[str, str]) -> httpx.Response:
    if body is None:
        return await client.request(method, path, headers=headers)
    value, kind = body
    content = value if isinstance(value, str) else json.dumps(value)
    return await client.request(method, path, content=content, headers=headers | {"Content-Type": kind})


def seen(answer: httpx.Response, *ids: str) -> tuple[int, dict[str, str], str]:
    """How a stranger can tell answers apart: everything but what is new in each and what they sent themselves."""
    text = re.sub(r'"request_id":"[0-9a-f]+"', "", answer.text)
    for id in ids:
        text = text.replace(id, "ID")
    headers = {name: value for name, value in answer.headers.items() if name not in OF_THE_ANSWER}
    return answer.status_code, headers, text


async def test_every_call_with_the_ids_of_another_org_is_answered_as_with_unknown_ids(service, client):
    acme, ids = await filled(service, client)
    before = (await client.get("/api/users/ann/export", headers=acme)).text
    robber, fool = await key(service, "robber"), await key(service, "fool")
    every = await calls(client)
    assert len(every) > 70 and len(ids) > 15
    for method, path, body in every:
        if path in ("/metrics", "/api/stats", "/health", "/ready"):
            continue  # figures of the whole store, for its operator
        for id in ids if "{id}" in path and "{type}" not in path else ids[:1]:
            theirs = await ask(client, method, with_ids(path, id), body, robber)
            none = await ask(client, method, with_ids(path, NOT_THERE), body, fool)
            assert SECRET not in theirs.text, (method, path)
            assert theirs.status_code == none.status_code, (method, path, id, theirs.text)
            if theirs.status_code >= 400:
                assert seen(theirs, id) == seen(none, NOT_THERE), (method, path, id)
            if "{id}" in path and "{type}" not in path:
                assert theirs.status_code >= 400, (method, path, id)
    assert (await client.get("/api/users/ann/export", headers=acme)).text == before
    kept = await client.get("/api/entities/customer/c1", headers=acme)
    assert kept.status_code == 200 and SECRET in kept.text


async def test_a_key_of_one_user_reaches_no_other_user_whatever_it_asks(service, client):
    await filled(service, client)
    bob = await key(service, "acme", user="bob", scope="write")
    for method, path, body in await calls(client):
        if "{user}" not in path:
            continue
        theirs = await ask(client, method, with_ids(path, NOT_THERE), body, bob)
        nobody = await ask(client, method, with_ids(path, NOT_THERE).replace("/ann", "/nobody-at-all"), body, bob)
        assert theirs.status_code == 404 and seen(theirs) == seen(nobody), (method, path)


async def test_cursors_idempotency_keys_and_versions_of_another_org_are_useless(service, client):
    acme, ids = await filled(service, client)
    robber = await key(service, "robber")
    mine = {"content": "Of the robber."}
    await client.post("/api/users/ann/memories", json=mine, headers=robber)
    for path, layer in (("memories?limit=1", "memories"), ("sessions/monday/messages?limit=1", "messages")):
        cursor = (await client.get(f"/api/users/ann/{path}", headers=acme)).json()["after"]
        told = await client.get(f"/api/users/ann/{path}&after={cursor}", headers=robber)
        assert SECRET not in told.text and told.status_code in (200, 422), layer
    turn = {"chat_id": "monday", "user_id": "ann", "message": "What do you know?"}
    same = await client.post("/api/chat", json=turn, headers=robber | {"Idempotency-Key": "turn-1"})
    assert same.status_code == 200 and SECRET not in same.text
    async with client.stream("POST", "/api/chat", json=turn | {"stream": True}, headers=robber) as events:
        assert SECRET not in "".join([piece async for piece in events.aiter_text()])
    for tag in ('"1"', '"7"', "*"):
        stale = await client.patch(
            f"/api/users/ann/memories/{ids[0]}", json={"content": "x"}, headers=robber | {"If-Match": tag}
        )
        assert stale.status_code == 404


TRICKS: tuple[dict[str, str], ...] = (
    {"X-Recollect-Org": "acme"},
    {"X-Forwarded-For": "127.0.0.1", "X-Recollect-Org": "acme"},
    {"X-HTTP-Method-Override": "DELETE"},
    {"X-Original-URL": "/api/users/ann/export"},
    {"Cookie": "recollect_org=acme"},
    {"Host": "127.0.0.1", "Forwarded": "for=127.0.0.1"},
)
PATHS = ("memories", "../ann/memories", "%2e%2e/ann/memories", "/memories", "memories/", "memories;org=acme")


async def test_no_header_and_no_path_leads_to_another_org(service, client):
    acme, _ = await filled(service, client)
    robber = await key(service, "robber")
    for trick in TRICKS:
        for path in PATHS:
            answer = await client.get(f"/api/users/ann/{path}", headers=robber | trick)
            assert SECRET not in answer.text and answer.status_code in (200, 403, 404, 405), (trick, path)
    assert (await client.get("/api/users/ann/memories", headers=acme)).json()["memories"]


async def test_a_visitor_signed_in_for_one_org_sees_and_does_nothing_in_another(service):
    async with client_of(service) as visitor, client_of(service) as robber:
        acme, ids = await filled(service, visitor)
        await signed_in(visitor, acme["Authorization"].split()[1])
        await signed_in(robber, (await key(service, "robber"))["Authorization"].split()[1])
        their_proof = proof_in(await shown(visitor, "/users/ann/learnings"))
        for page in ("chat", "sessions", "memories", "memories?q=Xanad", "profile", "graph", "learnings", "privacy"):
            assert SECRET not in await shown(robber, f"/users/ann/{page}"), page
        for id in ids:
            theirs = await robber.get(f"/users/ann/memories/{id}")
            none = await robber.get(f"/users/ann/memories/{NOT_THERE}")
            assert theirs.status_code == none.status_code == 404
            assert seen(theirs, id) == seen(none, NOT_THERE)
        forged = await robber.post("/users/ann/facts", data={"proof": their_proof, "key": "city", "value": "x"})
        assert forged.status_code in (403, 404)
        own = proof_in(await shown(robber, "/users/ann/learnings"))
        assert (await robber.post("/sign-out", data={"proof": their_proof})).status_code == 403
        assert (await robber.post("/sign-out", data={"proof": own})).status_code == 303
        assert SECRET in await shown(visitor, "/users/ann/profile")
