"""Over HTTP: undo and redo, quarantine and release, upkeep and reading again; and memories by the batch."""

from __future__ import annotations

from typing import Any

import pytest
from server_stage import bearer, ok

ANN = "/api/users/ann"


async def said(service, client, text: str, session: str = "monday") -> None:
    """Something a user said, and what was learned from it."""
    await ok(client.post(f"{ANN}/sessions/{session}/messages", json={"role": "user", "content": text}))
    await service.memory.work()


async def cities(client) -> list[str]:
    found = await ok(client.get(f"{ANN}/facts"))
    return [fact["value"] for fact in found["facts"] if fact["key"] == "city"]


# ── Trust ────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_session_taught_is_undone_and_the_undo_taken_back(service, client):
    await said(service, client, "I live in Bergen.")
    foreseen = await ok(client.post(f"{ANN}/undo", json={"session": "monday", "dry_run": True}))
    assert foreseen["dry_run"] and foreseen["changed"]["fact"] >= 1 and await cities(client) == ["Bergen"]
    undone = await ok(client.post(f"{ANN}/undo", json={"session": "monday"}))
    assert undone["count"] == foreseen["count"] and await cities(client) == []
    await ok(client.post(f"{ANN}/redo", json={"undone_id": undone["id"]}))
    assert await cities(client) == ["Bergen"]
    again = await client.post(f"{ANN}/redo", json={"undone_id": undone["id"]})
    assert (again.status_code, again.json()["field"]) == (404, "undone_id")


async def test_nothing_is_learned_from_what_is_sent_as_untrusted(service, client):
    pasted = {"role": "user", "content": "I live in Atlantis.", "trust": "untrusted"}
    kept = await ok(client.post(f"{ANN}/sessions/web/messages", json=pasted))
    noted = await ok(client.post(f"{ANN}/memories", json={"content": "The sea is dry.", "trust": "untrusted"}))
    await said(service, client, "I live in Bergen.")
    assert kept["messages"][0]["trust"] == noted["memories"][0]["trust"] == "untrusted"
    assert await cities(client) == ["Bergen"]
    refused = await client.post(f"{ANN}/memories", json={"content": "a", "trust": "quarantined"})
    assert (refused.status_code, refused.json()["field"]) == (422, "trust")


async def test_a_session_is_set_aside_and_trusted_again(service, client):
    await said(service, client, "I live in Bergen.")
    aside = await ok(client.post(f"{ANN}/quarantine", json={"session": "monday", "reason": "a stranger spoke"}))
    assert (aside["records"], aside["count"]) == ({"conversation": 1}, 1) and aside["learned"]["fact"] >= 1
    assert await cities(client) == []
    hits = (await ok(client.post(f"{ANN}/memories/search", json={"query": "Bergen"})))["hits"]
    assert not [hit for hit in hits if "Bergen" in hit["content"]]
    await ok(client.post(f"{ANN}/release", json={"session": "monday"}))
    assert await cities(client) == ["Bergen"]


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("undo", {}, 422, "session"),
        ("undo", {"session": "never"}, 404, "session"),
        ("undo", {"since": "yesterday-ish"}, 422, "since"),
        ("redo", {}, 422, "undone_id"),
        ("quarantine", {}, 422, "session"),
        ("quarantine", {"session": "monday", "ids": ["m"]}, 422, "session"),
        ("quarantine", {"ids": ["not there"]}, 404, "ids"),
        ("release", {"session": "monday", "reason": "no"}, 422, "reason"),
        ("reprocess", {"by": "magic"}, 422, "by"),
        ("reprocess", {"by": "model"}, 422, "by"),
        ("maintain", {"dry_run": 1}, 422, "dry_run"),
    ],
)
async def test_a_request_that_says_too_little_or_nonsense_is_refused(client, path, body, status, field):
    answer = await client.post(f"{ANN}/{path}", json=body)
    assert (answer.status_code, answer.json()["field"]) == (status, field), answer.text


# ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────


async def test_upkeep_is_rehearsed_and_then_done(service, client):
    texts = ["Ann drinks green tea in the garden.", "Ann drinks green tea in the garden!!"]
    await ok(client.post(f"{ANN}/memories", json={"memories": [{"content": text} for text in texts]}))
    await service.memory.work()
    foreseen = await ok(client.post(f"{ANN}/maintain", json={"dry_run": True}))
    done = await ok(client.post(f"{ANN}/maintain"))
    assert (foreseen["dry_run"], done["dry_run"]) == (True, False)
    assert foreseen["merged"] == done["merged"]
    assert (await ok(client.post("/api/org/maintain")))["user"] == ""


async def test_conversations_are_read_again_and_nothing_changes_unless_it_is_applied(service, client):
    await said(service, client, "I live in Bergen.")
    undone = await ok(client.post(f"{ANN}/undo", json={"extractor": "rules-1"}))
    assert undone["count"] >= 1
    found = await ok(client.post(f"{ANN}/reprocess"))
    assert (found["messages"], found["applied"]) == (1, False)
    applied = await ok(client.post(f"{ANN}/reprocess", json={"apply": True, "session": "monday", "by": "rules"}))
    assert applied["applied"] and await cities(client) == [], "what was undone stays undone"


async def test_upkeep_and_reading_again_are_for_operators(service, client):
    admin, own = await bearer(service, scope="admin"), await bearer(service, user="ann", scope="admin")
    bob = await bearer(service, user="bob", scope="admin")
    for path in ("maintain", "reprocess"):
        answers = [await client.post(f"{ANN}/{path}", headers=key) for key in (admin, own, bob)]
        assert [answer.status_code for answer in answers] == [200, 403, 404], path


async def test_a_key_for_one_user_may_undo_and_set_aside_what_is_the_users_and_nobody_elses(service, client):
    own, bob = await bearer(service, user="ann"), await bearer(service, user="bob")
    chat = service.memory.user("ann", org="acme").session("monday")
    await chat.add_message("user", "I live in Bergen.")
    for path, body in (
        ("undo", {"session": "monday"}),
        ("quarantine", {"session": "monday"}),
        ("release", {"session": "monday"}),
    ):
        answers = [await client.post(f"{ANN}/{path}", json=body, headers=key) for key in (own, bob)]
        assert [answer.status_code for answer in answers] == [200, 404], path


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────


async def three(client, root: str) -> list[dict[str, Any]]:
    items = [{"content": f"Number {name}.", "id": name} for name in ("one", "two", "three")]
    return (await ok(client.post(f"{root}/memories", json={"memories": items})))["memories"]


@pytest.mark.parametrize("root", [ANN, "/api/org"])
async def test_several_memories_are_read_in_the_order_asked_without_those_that_are_missing(client, root):
    await three(client, root)
    found = await ok(client.post(f"{root}/memories/get", json={"ids": ["three", "gone", "one"]}))
    assert ([each["id"] for each in found["memories"]], found["left_out"]) == (["three", "one"], 0)
    too_many = await client.post(f"{root}/memories/get", json={"ids": [str(number) for number in range(1_001)]})
    assert (too_many.status_code, too_many.json()["field"]) == (413, "ids")
    for wrong in ([], "one", [5]):
        refused = await client.post(f"{root}/memories/get", json={"ids": wrong})
        assert (refused.status_code, refused.json()["field"]) == (422, "ids"), wrong


@pytest.mark.parametrize("root", [ANN, "/api/org"])
async def test_the_versions_of_several_memories_come_memory_by_memory_in_the_order_asked(client, root):
    await three(client, root)
    for text in ("Zwei.", "Deux."):
        await ok(client.patch(f"{root}/memories/two", json={"content": text}))
    told = await ok(client.post(f"{root}/memories/history", json={"ids": ["two", "gone", "one"]}))
    versions = [(each["id"], each["content"]) for each in told["history"]]
    assert versions == [("two", "Number two."), ("two", "Zwei."), ("two", "Deux."), ("one", "Number one.")]
    assert told["left_out"] == 0
    alone = await ok(client.post(f"{root}/memories/history", json={"ids": ["two"]}))
    assert alone == await ok(client.get(f"{root}/memories/two/history"))
    refused = await client.post(f"{root}/memories/history", json={"ids": []})
    assert (refused.status_code, refused.json()["field"]) == (422, "ids")


async def test_of_many_long_memories_those_that_do_not_fit_are_counted(client):
    ids = [f"long{number}" for number in range(20)]
    for id in ids:
        await ok(client.post(f"{ANN}/memories", json={"content": f"{id} " + "x" * 60_000, "id": id}))
    found = await ok(client.post(f"{ANN}/memories/get", json={"ids": ids}))
    assert found["left_out"] > 0 and [each["id"] for each in found["memories"]] == ids[: 20 - found["left_out"]]
    rest = await ok(client.post(f"{ANN}/memories/get", json={"ids": ids[-found["left_out"] :]}))
    assert (len(rest["memories"]), rest["left_out"]) == (found["left_out"], 0)


@pytest.mark.parametrize("root", [ANN, "/api/org"])
async def test_several_memories_change_together_or_not_at_all(client, root):
    one, two, _ = await three(client, root)
    stale = {"id": "two", "content": "Zwei.", "version": two["version"] - 1}
    for wrong, status, field in (
        (stale, 409, "memories.version"),
        ({"id": "gone", "content": "Nichts."}, 404, "id"),
        ({"id": "two"}, 422, "memories.1.content"),
        ({"id": "two", "importance": 2}, 422, "memories.1.importance"),
        ({"id": "one", "content": "Uno."}, 422, "id"),
        ({"content": "Zwei."}, 422, "memories.1.id"),
    ):
        edits = {"memories": [{"id": "one", "content": "Eins."}, wrong]}
        refused = await client.patch(f"{root}/memories", json=edits)
        assert (refused.status_code, refused.json()["field"]) == (status, field), wrong
        assert (await ok(client.get(f"{root}/memories/one")))["content"] == "Number one."
    edits = {
        "memories": [{"id": "one", "content": "Eins.", "version": one["version"]}, {"id": "two", "importance": 0.9}]
    }
    changed = (await ok(client.patch(f"{root}/memories", json=edits)))["memories"]
    assert [(each["content"], each["importance"]) for each in changed] == [("Eins.", 0.5), ("Number two.", 0.9)]
    too_many = await client.patch(
        f"{root}/memories", json={"memories": [{"id": str(n), "content": "x"} for n in range(46)]}
    )
    assert (too_many.status_code, too_many.json()["field"]) == (413, "memories")
