"""Over HTTP: what the users of an org share, and which keys reach it."""

from __future__ import annotations

import json

import pytest
from server_stage import bearer, client_of, document, ok, opened

ORG, ANN = "/api/org", "/api/users/ann"
HOURS = "The office opens at nine."
DOCUMENT = document()
ORG_CALLS = [
    (method.upper(), path) for path, methods in DOCUMENT["paths"].items() if path.startswith(ORG) for method in methods
]


# ── What is shared ───────────────────────────────────────────────────────────────────────────────


async def test_a_memory_of_the_org_is_added_found_changed_and_forgotten_over_http(client):
    made = await client.post(f"{ORG}/memories", json={"content": HOURS, "id": "hours", "metadata": {"topic": "office"}})
    assert (made.status_code, made.headers["Location"]) == (201, f"{ORG}/memories/hours")
    read = await client.get(made.headers["Location"])
    assert read.json()["scope"] == {"org": "default", "user": "", "agent": "", "session": ""}
    edit, tag = {"content": "The office opens at eight."}, {"If-Match": read.headers["ETag"]}
    await ok(client.patch(f"{ORG}/memories/hours", json=edit, headers=tag))
    assert (await client.patch(f"{ORG}/memories/hours", json={"content": "No."}, headers=tag)).status_code == 412
    history = (await ok(client.get(f"{ORG}/memories/hours/history")))["history"]
    assert [each["content"] for each in history] == [HOURS, edit["content"]]
    for whose in (ORG, ANN):
        hits = (await ok(client.post(f"{whose}/memories/search", json={"query": "When does the office open?"})))["hits"]
        assert [each["id"] for each in hits] == ["hours"], whose
    listed = await ok(client.get(f"{ORG}/memories", params={"where": '{"metadata.topic": "office"}'}))
    assert [each["id"] for each in listed["memories"]] == ["hours"]
    assert (await client.get(f"{ANN}/memories/hours")).status_code == 404
    assert (await ok(client.post(f"{ORG}/memories/forget", json={"ids": ["hours"]})))["count"] == 1
    assert (await ok(client.get(f"{ORG}/memories")))["memories"] == []


async def test_a_write_for_the_org_sent_again_with_its_key_is_done_once(client):
    for _ in range(2):
        made = await ok(client.post(f"{ORG}/memories", json={"content": HOURS}, headers={"Idempotency-Key": "k"}))
    (record,) = (await ok(client.get(f"{ORG}/memories")))["memories"]
    assert record["id"] == made["memories"][0]["id"] and record["data"].get("seen", 1) == 1


async def test_what_the_org_learned_and_its_default_instructions_reach_every_user(client):
    sure = {"content": "Quote prices in euro.", "confidence": 0.9}
    learning = await client.post(f"{ORG}/learnings", json=sure)
    assert (await client.get(learning.headers["Location"])).json()["org_wide"] is True
    await ok(client.post(f"{ORG}/customizations", json={"text": "Be polite.", "id": "manners"}))
    await ok(client.post(f"{ORG}/agents/support/customizations", json={"text": "Ask for the order.", "id": "order"}))
    context = await ok(client.post(f"{ANN}/context", json={"query": "What does it cost?"}))
    assert "Quote prices in euro." in context["system"] and "Be polite." in context["system"]
    effective = await ok(client.get(f"{ANN}/agents/support/customizations?effective=true"))
    assert [each["id"] for each in effective["customizations"]] == ["manners", "order"]
    await ok(client.patch(f"{ORG}/customizations/manners", json={"on": False}))
    await ok(client.delete(f"{ORG}/agents/support/customizations/order"))
    effective = await ok(client.get(f"{ANN}/agents/support/customizations?effective=true"))
    assert effective["customizations"] == []
    for _ in range(5):
        judged = await ok(client.post(f"{ORG}/learnings/{learning.json()['id']}/contradict"))
    assert judged["retired"] and (await ok(client.get(f"{ANN}/learnings")))["learnings"] == []


async def test_the_graph_of_an_org_is_one_of_its_own(client):
    known = {"subject": "Inês", "relation": "works_at", "object": "Acme"}
    await ok(client.post(f"{ORG}/graph/relations", json=known))
    assert [each["content"] for each in (await ok(client.get(f"{ORG}/graph")))["relations"]] == ["Inês works at Acme"]
    assert (await ok(client.get(f"{ANN}/graph")))["entities"] == []
    refused = await client.post(f"{ORG}/graph/relations", json=known | {"subject": "user"})
    assert (refused.status_code, refused.json()["field"]) == (422, "subject")


async def test_an_export_of_an_org_has_what_it_shares_and_nothing_of_its_users(client):
    await ok(client.post(f"{ORG}/memories", json={"content": HOURS}))
    await ok(client.post(f"{ANN}/memories", json={"content": "Ann has a plant."}))
    head, *records = (json.loads(line) for line in (await client.get(f"{ORG}/export")).text.splitlines())
    assert (head["org"], head["user"], [each["content"] for each in records]) == ("default", "", [HOURS])


async def test_an_org_is_erased_with_all_its_users_and_only_under_its_name(service, client):
    await ok(client.post(f"{ORG}/memories", json={"content": HOURS}))
    await ok(client.post(f"{ANN}/memories", json={"content": "Ann has a plant."}))
    await service.memory.user("ann", org="other").add_memory("Of another org.")
    for params in ({}, {"confirm": ""}, {"confirm": "other"}, {"confirm": "Default"}):
        refused = await client.delete(ORG, params=params)
        assert (refused.status_code, refused.json()["field"]) == (422, "confirm"), params
    receipt = await ok(client.delete(ORG, params={"confirm": "default"}))
    assert (receipt["forgotten"]["long_term"], receipt["compacted"]) == (2, True)
    assert (await ok(client.get("/api/users")))["users"] == []
    assert len((await service.memory.user("ann", org="other").list_memories())[0]) == 1


# ── Who reaches it ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scope", ["read", "write", "admin"])
async def test_a_key_for_one_user_is_refused_whatever_it_asks_of_the_org(service, client, scope):
    bob = await bearer(service, user="bob", scope=scope)
    assert len(ORG_CALLS) >= 35
    for method, path in ORG_CALLS:
        answer = await client.request(method, path, headers=bob)
        assert (answer.status_code, answer.json()["field"]) == (403, "authorization"), (method, path)


async def test_a_key_for_one_user_finds_what_the_org_shares_under_the_users_own_path(service, client):
    acme, bob = await bearer(service), await bearer(service, user="bob", scope="read")
    await ok(client.post(f"{ORG}/memories", json={"content": HOURS, "id": "hours"}, headers=acme))
    await ok(client.post(f"{ORG}/learnings", json={"content": "Quote prices in euro."}, headers=acme))
    await ok(client.post(f"{ORG}/customizations", json={"text": "Be polite."}, headers=acme))
    own = "/api/users/bob"
    found = await ok(client.post(f"{own}/memories/search", json={"query": "office"}, headers=bob))
    learned = await ok(client.get(f"{own}/learnings", headers=bob))
    told = await ok(client.get(f"{own}/customizations?effective=true", headers=bob))
    assert [found["hits"][0]["id"], learned["learnings"][0]["content"], told["customizations"][0]["text"]] == [
        "hours", "Quote prices in euro.", "Be polite.",
    ]  # fmt: skip


async def test_a_key_of_one_org_neither_sees_nor_changes_what_another_shares(service, client):
    acme, other = await bearer(service, scope="admin"), await bearer(service, org="other", scope="admin")
    await ok(client.post(f"{ORG}/memories", json={"content": HOURS, "id": "hours"}, headers=acme))
    assert (await ok(client.get(f"{ORG}/memories", headers=other)))["memories"] == []
    edits = {"memories": [{"id": "hours", "content": "Never."}]}
    for answer in (
        await client.get(f"{ORG}/memories/hours", headers=other),
        await client.patch(f"{ORG}/memories", json=edits, headers=other),
        await client.delete(f"{ORG}/memories/hours", headers=other),
    ):
        assert answer.status_code == 404
    assert (await client.delete(f"{ORG}?confirm=acme", headers=other)).status_code == 422
    assert (await ok(client.get(f"{ORG}/memories/hours", headers=acme)))["content"] == HOURS


async def test_what_is_shared_needs_the_same_scopes_as_what_is_a_users(service, client):
    reader, writer = await bearer(service, scope="read"), await bearer(service, scope="write")
    assert (await client.get(f"{ORG}/memories", headers=reader)).status_code == 200
    assert (await client.post(f"{ORG}/memories/search", json={"query": "x"}, headers=reader)).status_code == 200
    assert (await client.post(f"{ORG}/memories", json={"content": HOURS}, headers=reader)).status_code == 403
    assert (await client.post(f"{ORG}/memories", json={"content": HOURS}, headers=writer)).status_code == 201
    for method, path in (("DELETE", f"{ORG}?confirm=acme"), ("POST", f"{ORG}/maintain"), ("POST", f"{ANN}/maintain")):
        assert (await client.request(method, path, headers=writer)).status_code == 403


async def test_what_is_added_for_an_org_counts_towards_its_quota(clock):
    async with opened(clock=clock, settings={"memories_per_day": 1}) as service, client_of(service) as client:
        await ok(client.post(f"{ORG}/memories", json={"content": HOURS, "id": "hours"}))
        assert (await client.post(f"{ORG}/memories", json={"content": "Shorts are fine."})).status_code == 429
        found = await ok(client.post(f"{ORG}/memories/get", json={"ids": ["hours"]}))
        assert [each["id"] for each in found["memories"]] == ["hours"]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "memories", {"content": "They met.", "layer": "episodic"}, "layer"),
        ("POST", "memories", {"memories": [{"content": "a"}, {"content": ""}]}, "memories.1.content"),
        ("POST", "memories", {"content": "x", "user": "ann"}, "user"),
        ("POST", "memories/forget", {}, "ids"),
        ("POST", "memories/forget", {"where": {}}, "where"),
        ("POST", "learnings", {"content": "x", "type": "rumour"}, "type"),
        ("GET", "memories?limit=0", None, "limit"),
        ("GET", "memories?user=ann", None, "query"),
        ("GET", "learnings?after=x", None, "after"),
        ("POST", "maintain", {"dry_run": "yes"}, "dry_run"),
    ],
)
async def test_bad_input_for_an_org_is_refused_as_it_is_for_a_user(client, method, path, body, field):
    answer = await client.request(method, f"{ORG}/{path}", json=body)
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "ValidationError", field)
