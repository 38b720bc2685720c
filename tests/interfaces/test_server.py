"""The server: every verb over HTTP, strict parsing, and robustness under abuse."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import select
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance
from server_stage import LOCAL, START_S, client_of, document, listening, ok, opened, process, until

from recollect import errors
from recollect.server.app import create
from recollect.server.connections import PatientProtocol
from recollect.server.errors import problem, status_of
from recollect.server.limits import BodyLimit, Rate
from recollect.server.service import Service
from recollect.testing.fakes import FailingEmbedder
from recollect.testing.serving import STOP_S
from recollect.validate import LIMITS

SECRET = "xyzzy-plugh"
ANN = "/api/users/ann"


async def test_a_missing_field_is_named_whatever_it_is_called(client):
    for path, field in (("memories/search", "query"), ("context", "query"), ("memories", "content")):
        refused = await client.post(f"{ANN}/{path}", json={})
        assert (refused.status_code, refused.json()["field"]) == (422, field)


async def test_an_unknown_path_says_where_the_paths_are_described(client):
    for path in ("/redoc", "/api/user"):
        refused = await client.get(path)
        assert refused.status_code == 404 and "/openapi.json" in refused.json()["detail"]


async def test_the_description_is_made_in_a_thread_once_for_all_who_ask(client, monkeypatch):
    made, make = [], FastAPI.openapi
    monkeypatch.setattr(FastAPI, "openapi", lambda app: made.append(threading.get_ident()) or make(app))
    first, second = await asyncio.gather(client.get("/openapi.json"), client.get("/openapi.json"))
    assert first.json() == second.json() == DOCUMENT
    assert threading.get_ident() != made[0]


# ── What people do with it ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("field", "value"), [("window", 4), ("agent", "support")])
async def test_session_only_fields_are_not_ignored_without_a_session(client, field, value):
    asked = {"query": "What now?", field: value}
    refused = await client.post(f"{ANN}/context", json=asked)
    inside = await client.post(f"{ANN}/context", json=asked | {"session": "s", "sections": ["recent"]})
    assert (refused.status_code, refused.json()["field"], inside.status_code) == (422, field, 200)


async def test_a_context_takes_a_policy_as_one_object_and_says_what_is_wrong_in_it(client):
    await client.post(f"{ANN}/memories", json={"content": "The ferry to Gotland leaves at nine."})
    asked = {"query": "When does the ferry leave?", "session": "s", "max_tokens": 1_000}
    policy = {"sections": ["knowledge"], "shares": {"knowledge": 0.5}, "window": 4, "quality": "fast"}
    told = (await client.post(f"{ANN}/context", json=asked | {"policy": policy})).json()
    assert [section["name"] for section in told["sections"]] == ["knowledge"]
    beside = await client.post(f"{ANN}/context", json=asked | {"policy": policy, "sections": ["profile"]})
    assert beside.json()["sections"] == [], "what is said beside it takes precedence"
    for wrong, field in ((policy | {"shares": {"recent": 2}}, "policy.shares"), ({"budget": 5}, "policy")):
        refused = await client.post(f"{ANN}/context", json=asked | {"policy": wrong})
        assert (refused.status_code, refused.json()["field"]) == (422, field)


@pytest.mark.parametrize("query", ["depth=2", "limit=3"])
async def test_steps_through_the_graph_need_an_entity_to_start_from(client, query):
    refused = await client.get(f"{ANN}/graph?{query}")
    assert (refused.status_code, refused.json()["field"]) == (422, query.partition("=")[0])
    assert (await client.get(f"{ANN}/graph?entity=user&{query}")).status_code != 422


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("memories", {"memories": []}, "memories"),
        ("memories", {"memories": [{"content": "a"}, {"content": ""}]}, "memories.1.content"),
        ("sessions/s/messages", {"messages": [{"role": "user", "content": "a"}, {"role": "x"}]}, "messages.1.role"),
        ("facts", {"facts": []}, "facts"),
        ("facts", {"facts": [{"key": "a", "value": "b"}] * 31}, "facts"),
        ("facts", {"facts": [{"key": "a", "value": "b"}, {"key": "c", "value": 5}]}, "facts.1.value"),
    ],
)
async def test_an_error_in_one_of_many_items_names_its_field_and_place_in_the_request(client, path, body, field):
    refused = await client.post(f"{ANN}/{path}", json=body)
    assert refused.status_code in (413, 422) and refused.json()["field"] == field


@pytest.mark.parametrize("path", ["memories", "sessions/s/messages"])
async def test_an_error_in_a_header_names_the_header(client, path):
    body = {"content": "a"} | ({"role": "user"} if "messages" in path else {})
    for key, other in (("k" * 200, {}), ("k", {}), ("k", {"content": "b"})):
        answer = await client.post(f"{ANN}/{path}", json=body | other, headers={"Idempotency-Key": key})
        assert answer.status_code == 201 or answer.json()["field"] == "idempotency-key"
    assert answer.status_code == 409


@pytest.mark.parametrize(
    ("query", "detail"),
    [("limit=abc", "must be a whole number"), ("newest_first=maybe", "must be true or false")],
)
async def test_a_parameter_of_the_wrong_type_says_what_is_expected(client, query, detail):
    assert (await client.get(f"{ANN}/memories?{query}")).json()["detail"] == detail


@pytest.mark.parametrize(("given", "awake"), [({}, 8), ({"RECOLLECT_INDEX_AWAKE": "200"}, 200)])
def test_a_server_keeps_few_indexes_awake_unless_configured_otherwise(given, awake):
    assert Service("memory://", environ=given).settings.index_awake == awake


async def test_messages_are_added_singly_or_in_bulk_and_read_page_by_page(client):
    await ok(client.post(f"{ANN}/sessions/monday/messages", json={"role": "user", "content": "One."}))
    many = [
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three.", "metadata": {"a": 2**63 - 1}},
    ]
    await ok(client.post(f"{ANN}/sessions/monday/messages?agent=support", json={"messages": many}))
    first = await ok(client.get(f"{ANN}/sessions/monday/messages?limit=2"))
    rest = await ok(client.get(f"{ANN}/sessions/monday/messages", params={"limit": 2, "after": first["after"]}))
    assert [each["content"] for each in first["messages"] + rest["messages"]] == ["One.", "Two.", "Three."]
    assert rest["messages"][0]["metadata"] == {"a": 2**63 - 1} and rest["after"] is None
    (session,) = (await ok(client.get(f"{ANN}/sessions")))["sessions"]
    assert (session["id"], session["messages"], session["agent"]) == ("monday", 3, "support")
    renamed = await ok(client.patch(f"{ANN}/sessions/monday", json={"title": "Counting"}))
    (session,) = (await ok(client.get(f"{ANN}/sessions")))["sessions"]
    assert renamed["title"] == session["title"] == "Counting"
    assert await ok(client.get(f"{ANN}/sessions/monday")) == session
    assert (await client.get(f"{ANN}/sessions/sunday")).status_code == 404
    window = await ok(client.get(f"{ANN}/sessions/monday/window?messages=1"))
    assert [each["content"] for each in window["messages"]] == ["Three."]
    assert (await ok(client.delete(f"{ANN}/sessions/monday")))["forgotten"]["conversation"] == 3


async def test_a_cursor_of_one_session_is_refused_in_another(client):
    for session in ("a", "b"):
        for _ in range(3):
            await ok(client.post(f"{ANN}/sessions/{session}/messages", json={"role": "user", "content": "Hello."}))
    after = (await ok(client.get(f"{ANN}/sessions/a/messages?limit=1")))["after"]
    answer = await client.get(f"{ANN}/sessions/b/messages", params={"after": after})
    assert (answer.status_code, answer.json()["field"]) == (422, "after")


async def test_a_memory_is_found_changed_and_forgotten(client):
    seat = {"content": "Prefers window seats.", "id": "seat", "metadata": {"topic": "travel"}}
    await ok(client.post(f"{ANN}/memories", json=seat))
    hits = (await ok(client.post(f"{ANN}/memories/search", json={"query": "window seats"})))["hits"]
    assert hits[0]["id"] == "seat" and hits[0]["legs"] and hits[0]["record"]["metadata"] == {"topic": "travel"}
    listed = await ok(client.get(f"{ANN}/memories", params={"where": '{"metadata.topic": "travel"}'}))
    assert [each["id"] for each in listed["memories"]] == ["seat"]
    await ok(client.patch(f"{ANN}/memories/seat", json={"content": "Prefers aisle seats."}))
    history = (await ok(client.get(f"{ANN}/memories/seat/history")))["history"]
    assert [each["content"] for each in history] == ["Prefers window seats.", "Prefers aisle seats."]
    context = await ok(client.post(f"{ANN}/context", json={"query": "Where do I like to sit?"}))
    assert "aisle" in json.dumps(context) and context["tokens"] <= 4_000
    assert (await ok(client.delete(f"{ANN}/memories/seat")))["count"] == 1
    assert (await client.get(f"{ANN}/memories/seat")).status_code == 404


async def test_facts_have_a_history_and_preferences_are_kept_apart(client, clock):
    await ok(client.put(f"{ANN}/facts/city", json={"value": "Oslo"}))
    moved = clock.advance(days=10)
    await ok(client.put(f"{ANN}/facts/city", json={"value": "Lisbon"}))
    await ok(client.put(f"{ANN}/preferences/theme", json={"value": "dark"}))
    city = await ok(client.get(f"{ANN}/facts/city"))
    assert [each["value"] for each in city["facts"]] == ["Lisbon"]
    assert [each["value"] for each in city["history"]] == ["Oslo", "Lisbon"]
    then = await ok(client.get(f"{ANN}/profile", params={"as_of": "2026-03-02"}))
    now = await ok(client.get(f"{ANN}/profile"))
    assert (then["facts"][0]["value"], now["facts"][0]["value"]) == ("Oslo", "Lisbon")
    assert (then["preferences"], now["preferences"]) == ({}, {"theme": "dark"})
    pinned = await ok(client.post(f"{ANN}/facts/city/pin", json={}))
    assert pinned["facts"][0]["status"] == "pinned" and moved
    await ok(client.delete(f"{ANN}/facts/city", params={"reason": "moved"}))
    assert (await ok(client.get(f"{ANN}/profile")))["facts"] == []


async def test_a_change_with_if_match_applies_only_to_the_version_read(client):
    empty = await client.get(f"{ANN}/sessions/s/working")
    assert (empty.json(), empty.headers["etag"]) == ({}, '"0"')
    made = await client.put(f"{ANN}/sessions/s/working", json={"step": 1}, headers={"If-Match": '"0"'})
    stale = await client.put(f"{ANN}/sessions/s/working", json={"step": 9}, headers={"If-Match": '"0"'})
    fresh = {"If-Match": made.headers["etag"]}
    patched = await client.patch(f"{ANN}/sessions/s/working", json={"page": "orders", "step": None}, headers=fresh)
    assert (made.status_code, stale.status_code, patched.status_code) == (200, 412, 200)
    assert stale.json()["code"] == "Conflict" and patched.json() == {"page": "orders"}
    await ok(client.post(f"{ANN}/memories", json={"content": "Tea.", "id": "tea"}))
    read = await client.get(f"{ANN}/memories/tea")
    once = await client.patch(
        f"{ANN}/memories/tea", json={"importance": 0.9}, headers={"If-Match": read.headers["etag"]}
    )
    twice = await client.patch(
        f"{ANN}/memories/tea", json={"importance": 0.1}, headers={"If-Match": read.headers["etag"]}
    )
    assert (once.status_code, twice.status_code) == (200, 412)


async def test_an_if_match_may_be_weakened_in_transit_or_name_several_versions(client):
    await ok(client.post(f"{ANN}/memories", json={"content": "Tea.", "id": "tea"}))
    await ok(client.post(f"{ANN}/customizations", json={"text": "Be brief.", "id": "tone"}))
    await ok(client.put(f"{ANN}/sessions/s/working", json={"step": 1}))
    listed = await ok(client.get(f"{ANN}/customizations"))
    places = {
        f"{ANN}/memories/tea": (await client.get(f"{ANN}/memories/tea")).headers["etag"],
        f"{ANN}/customizations/tone": f'"{listed["customizations"][0]["version"]}"',
        f"{ANN}/sessions/s/working": (await client.get(f"{ANN}/sessions/s/working")).headers["etag"],
    }
    conditions = {"One.": 'W/"{}"', "Two.": '"{}", W/"998" ,"x"', "Three.": '"{}-gzip"', "Four.": "*"}
    for place, tag in places.items():
        for body, condition in conditions.items():
            field = {"memories": "content", "customizations": "text"}.get(place.split("/")[-2], "step")
            headers = {"If-Match": condition.replace("{}", tag.strip('"'))}
            changed = await client.patch(place, json={field: body}, headers=headers)
            assert (changed.status_code, changed.json()[field]) == (200, body), (place, condition)
            stale = await client.patch(place, json={field: "No."}, headers={"If-Match": f'W/{tag}, "999", "gone"'})
            assert (stale.status_code, stale.json()["code"]) == (412, "Conflict"), (place, condition)
            tag = changed.headers["etag"]
        foreign = await client.patch(place, json={field: "No."}, headers={"If-Match": '"7c-gzip", ""'})
        assert (foreign.status_code, foreign.json()["code"]) == (412, "Conflict")


@pytest.mark.parametrize(
    "wrong", ["12", "", '"12', '"1" "2"', '"1",', 'w/"1"', '*, "1"', ",".join(map('"{}"'.format, range(9)))]
)
async def test_an_invalid_if_match_is_refused(client, wrong):
    answer = await client.put(f"{ANN}/sessions/s/working", json={}, headers={"If-Match": wrong})
    assert (answer.status_code, answer.json()["field"]) == (422, "if-match")


async def test_a_write_sent_again_with_its_idempotency_key_is_done_once(client):
    key = {"Idempotency-Key": "k1"}
    body = {"role": "user", "content": "Hello."}
    answers = await asyncio.gather(
        *(client.post(f"{ANN}/sessions/s/messages", json=body, headers=key) for _ in range(5))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["messages"][0]["id"] for answer in answers}) == 1
    other = await client.post(f"{ANN}/sessions/s/messages", json=body | {"content": "Bye."}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "Conflict")
    assert len((await ok(client.get(f"{ANN}/sessions/s/messages")))["messages"]) == 1


async def test_everything_about_a_user_is_exported_imported_and_erased(client):
    await ok(client.post(f"{ANN}/sessions/s/messages", json={"role": "user", "content": SECRET}))
    await ok(client.put(f"{ANN}/facts/city", json={"value": "Lisbon"}))
    exported = await client.get(f"{ANN}/export")
    lines = {"Content-Type": "application/x-ndjson"}
    brought = await ok(client.post("/api/users/bob/import", content=exported.content, headers=lines))
    assert exported.headers["content-type"].startswith("application/x-ndjson") and brought["bad"] == 0
    receipt = await ok(client.delete(ANN))
    assert receipt["compacted"] and receipt["forgotten"]["conversation"] == 1
    left = (await client.get(f"{ANN}/export")).text.splitlines()
    assert len(left) == 1 and json.loads(left[0])["recollect"] == 1
    assert (await ok(client.get("/api/users/bob/profile")))["facts"][0]["value"] == "Lisbon"


async def test_business_objects_are_pushed_read_and_removed(client):
    await ok(client.put("/api/entities/order/42", json={"data": {"state": "sent"}}))
    assert (await ok(client.get("/api/entities/order/42")))["data"] == {"state": "sent"}
    assert len((await ok(client.get("/api/entities/order")))["entities"]) == 1
    assert (await ok(client.delete("/api/entities/order/42")))["invalidated"] == 1
    assert (await client.get("/api/entities/order/42")).status_code == 404


async def test_work_that_was_given_up_is_shown_and_tried_again(clock):
    broken = {"embedder": FailingEmbedder(), "settings": {"job_attempts_max": 1}}
    async with opened(clock=clock, **broken) as service, client_of(service) as client:
        await ok(client.post(f"{ANN}/memories", json={"content": SECRET}))
        await service.memory.work()
        (failure,) = (await ok(client.get("/api/failures")))["failures"]
        assert (failure["user"], failure["kind"], failure["attempts"]) == ("ann", "enrich", 1)
        assert (await client.get("/api/failures", headers={"X-Recollect-Org": "other"})).json()["failures"] == []
        other = {"X-Recollect-Org": "other"}
        assert (await client.post(f"/api/failures/{failure['id']}/retry", headers=other)).status_code == 404
        assert (await client.post(f"/api/failures/{failure['id']}/retry")).status_code == 204
        assert (await ok(client.get("/api/failures"))) == {"failures": [], "after": None}


# ── The description and its examples ─────────────────────────────────────────────────────────────


async def seed(service) -> dict[str, str]:
    """Store everything the description's examples refer to. Returns the ids that only the store knows."""
    ann, org = service.memory.user("ann"), service.memory.org()
    chat = ann.session("monday", agent="support")
    await chat.add_message("user", "My cat is called Admiral.", id="m1")
    await ann.add_fact("city", "Oslo")
    await ann.update_preference("city", "big ones")
    for owner in (ann, org):
        await owner.add_memory("Prefers window seats.", id="seat", metadata={"topic": "travel"})
        for held in (owner.customizations, owner.customizations.of_agent("support")):
            await held.add("Be brief.", id="tone")
            await held.add("Answer in English.", id="language")
        for name in ("Ana", "Anna", "Anne", "Annie"):
            await owner.graph.add_entity(name, type="person")
        await owner.graph.merge("Anne", "Annie")
        learning = await owner.learnings.add("Likes tables.")
        relation = await owner.graph.relate("Ana", "lives_in", "Oslo")
    await service.memory.entities("default").put("customer", "42", {"plan": "gold"})
    episode = await ann.add_memory("They talked about cats.", layer="episodic")
    return {"learnings": learning.id, "relations": relation.id, "episodes": episode.id}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


DOCUMENT = document()
DESCRIBED = [told for _, _, told in operations(DOCUMENT)]


def found(answer: dict[str, Any]) -> dict[str, Any]:
    """The description of an answer, or the shared one that it refers to."""
    return DOCUMENT["components"]["responses"][answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer


def test_the_description_names_the_key_and_the_calls_that_need_none():
    assert DOCUMENT["security"] == [{name: []} for name in DOCUMENT["components"]["securitySchemes"]] == [{"key": []}]
    assert {told["operationId"] for told in DESCRIBED if told.get("security") == []} == {"health", "ready"}


def test_every_parameter_and_every_answer_is_described():
    for told in DESCRIBED:
        name, answers = told["operationId"], told["responses"]
        assert all(parameter.get("description") for parameter in told.get("parameters", [])), name
        assert list(answers["default"]["content"]) == ["application/problem+json"], name
        given = [found(answer).get("content", {}) for status, answer in answers.items() if status != "204"]
        assert all(content and all(kind.get("schema") for kind in content.values()) for content in given), name


def test_every_field_of_a_body_is_described():
    """Once by its type is not enough: nobody guesses which message a `message_id` is."""
    for told in DESCRIBED:
        kinds = told.get("requestBody", {}).get("content", {}).values()
        shapes = [
            one
            for kind in kinds
            for one in kind["schema"].get("oneOf") or kind["schema"].get("anyOf") or [kind["schema"]]
        ]
        for shape in shapes:
            fields = (
                DOCUMENT["components"]["schemas"][shape["$ref"].rpartition("/")[2]]["properties"]
                if "$ref" in shape
                else {}
            )
            assert [name for name, field in fields.items() if not field.get("description")] == [], told["operationId"]


def test_every_call_has_a_short_name_of_its_own():
    names = [told["operationId"] for told in DESCRIBED]
    assert len(names) == len(set(names)) and {"list_facts", "list_preferences", "search_memory"} <= set(names)
    assert not [name for name in names if "__" in name or "api" in name]


@pytest.mark.parametrize(
    ("method", "path", "takes"),
    [
        ("PUT", "/health", "GET, HEAD"),
        ("PUT", "/api/users/ann/memories", "GET, PATCH, POST"),
        ("POST", "/api/users/ann/sessions/s/working", "DELETE, GET, PATCH, PUT"),
    ],
)
async def test_an_unsupported_method_is_answered_with_the_supported_ones(client, method, path, takes):
    answer = await client.request(method, path, json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, takes)
    assert answer.json()["detail"] == f"this path allows only {takes}"


NOTHING_THERE = (
    "/api/failures/{id}/retry",
    "/api/users/{user}/memories/{id}/restore",
    "/api/org/memories/{id}/restore",
    "/api/users/{user}/redo",
)
"""No failure exists to be retried, nothing was retired, and nothing undone."""


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in operations(DOCUMENT)])
async def test_every_example_of_the_description_runs(method, path, clock):
    operation = DOCUMENT["paths"][path][method.lower()]
    async with opened(clock=clock) as service, client_of(service) as client:
        ids = await seed(service)
        url, query = path, {}
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query" and parameter["required"]:
                query[parameter["name"]] = parameter["schema"]["examples"][0]
            if parameter["in"] == "path":
                own = next((id for part, id in ids.items() if f"/{part}/{{id}}" in path), "unknown")
                example = parameter["schema"].get("examples", [own])[0]
                url = url.replace(f"{{{parameter['name']}}}", example)
        answer = await client.request(method, url, params=query, **example_body(operation, DOCUMENT))
    assert answer.status_code == 404 if path in NOTHING_THERE else answer.status_code < 300, answer.text
    if answer.status_code != 204:
        assert mistakes(operation, answer) == []


JSON_KINDS = ("application/json", "application/problem+json")


def mistakes(operation: dict[str, Any], answer: httpx.Response) -> list[str]:
    """How an answer differs from its description; an undescribed name is a mistake, too."""
    told = found(operation["responses"].get(str(answer.status_code)) or operation["responses"]["default"])
    kind = answer.headers["content-type"].partition(";")[0]
    parts = json.loads(json.dumps(DOCUMENT["components"]))
    for shape in parts["schemas"].values():
        shape["additionalProperties"] = False
    looks = Draft202012Validator(told["content"][kind]["schema"] | {"components": parts})
    return [error.message for error in looks.iter_errors(answer.json() if kind in JSON_KINDS else answer.text)]


def example_body(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    if "application/x-ndjson" in content:
        kind = "application/x-ndjson"
        return {"content": content[kind]["example"], "headers": {"Content-Type": kind}}
    if not content:
        return {}
    return {"json": example_of(content["application/json"]["schema"], document)}


def example_of(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """The example of a schema, or one assembled from the examples of its parts."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "examples" in schema:
        return schema["examples"][0]
    if "oneOf" in schema:
        return example_of(schema["oneOf"][0], document)
    return {
        name: [example_of(part["items"], document)] if part.get("type") == "array" else example_of(part, document)
        for name, part in schema["properties"].items()
    }


# ── Strict parsing ───────────────────────────────────────────────────────────────────────────────

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"content": "a", "content": "b"}', JSON, 400),
        (b'{"content": "\\ud800"}', JSON, 400),
        (b'{"content": "\xff"}', JSON, 400),
        (b'\xef\xbb\xbf{"content": "a"}', JSON, 400),
        (b'{"content": "a"} {"content": "b"}', JSON, 400),
        (b'{"content": "a"', JSON, 400),
        (b"", JSON, 400),
        (b'{"content": "a", "metadata": {"x": NaN}}', JSON, 400),
        (b'{"content": "a", "metadata": {"x": 1e400}}', JSON, 400),
        (b'{"content": "a", "metadata": {"x": 9223372036854775808}}', JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b'["a"]', JSON, 422),
        (b'"a"', JSON, 422),
        (b"null", JSON, 422),
        (b'{"content": "a", "colour": "red"}', JSON, 422),
        (b"{}", JSON, 422),
        (b'{"content": 5}', JSON, 422),
        (b'{"content": null}', JSON, 422),
        (b'{"content": "a", "metadata": {"user_id": "bob"}}', JSON, 422),
        (b'{"content": "a"}', {"Content-Type": "text/plain"}, 415),
        (b'{"content": "a"}', {}, 415),
        (b'{"content": "a"}', JSON | {"Content-Encoding": "gzip"}, 415),
        (b'{"content": "' + b"a" * 70_000 + b'"}', JSON, 413),
        (b" " * (LIMITS.body_bytes + 1), JSON, 413),
    ],
)
async def test_an_ambiguous_or_malformed_body_is_refused(client, content, headers, status):
    answer = await client.post(f"{ANN}/memories", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await ok(client.get("/api/users")))["users"] == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=1.5", "limit=x", "limit=1001", "limit=99999999999999999999", "colour=red",
              "limit=1&limit=2", "where={}", "where=x", 'where={"$or":1}', "layer=key", "layer=failure", "after=x"],
)  # fmt: skip
async def test_a_question_that_makes_no_sense_is_refused(client, query):
    answer = await client.get(f"{ANN}/memories?{query}")
    assert answer.status_code == 422, answer.text


async def test_ids_are_taken_literally_and_never_as_a_path(client):
    await ok(client.post(f"{ANN}/memories", json={"content": "Tea.", "id": "tea"}))
    names = ["ann/memories/tea", "ann%2Fmemories", "..", "ann ", "*", "a?b", "a#b", "é", "%", "ann+", "a;b", "sessions"]
    for name in names:
        path = f"/api/users/{quoted(name)}/memories"
        await ok(client.post(path, json={"content": f"Of {name}."}))
        (own,) = (await ok(client.get(path)))["memories"]
        assert (own["scope"]["user"], own["content"]) == (name, f"Of {name}.")
    assert sorted((await ok(client.get("/api/users")))["users"]) == sorted(["ann", *names])


def quoted(name: str) -> str:
    return "".join(f"%{byte:02X}" for byte in name.encode())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "//api/users", 404), ("GET", "/api//users", 404), ("GET", "/api/users/", 404),
        ("GET", "/api/users.", 404),
        ("GET", "/api/users/%2e%2e/../stats", 405), ("GET", "/API/users", 404), ("HEAD", "/api/users", 405),
        ("OPTIONS", "/api/users", 405), ("POST", "/api/users", 405), ("GET", "/api/users/%ff/profile", 422),
        ("GET", "/api/users/%00/profile", 422), ("GET", f"/api/users/{'x' * 129}/profile", 422),
        ("TRACE", "/health", 405),
    ],
)  # fmt: skip
async def test_there_is_no_way_around_the_paths(client, method, path, status):
    answer = await client.request(method, httpx.URL("http://127.0.0.1:8765").copy_with(raw_path=path.encode()))
    assert answer.status_code == status


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_a_load_balancer_may_use_head_requests(service, path):
    async with listening(service) as address, httpx.AsyncClient(base_url=address) as client:
        whole, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))


async def test_a_header_cannot_override_the_method(client):
    await ok(client.post(f"{ANN}/memories", json={"content": "Tea."}))
    answer = await client.get(ANN, headers={"X-HTTP-Method-Override": "DELETE"})
    assert answer.status_code == 405
    assert (await ok(client.get("/api/users")))["users"] == ["ann"]


# ── Around every request ─────────────────────────────────────────────────────────────────────────


async def test_a_request_keeps_its_id_and_gets_one_if_it_has_none(client):
    given_id = await client.get("/health", headers={"X-Request-Id": "abc-1"})
    made = await client.get("/api/nothing")
    bad = await client.get("/health", headers={"X-Request-Id": "a b"})
    assert given_id.headers["x-request-id"] == "abc-1"
    assert made.json()["request_id"] == made.headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{16}", bad.headers["x-request-id"])


async def test_a_long_answer_is_compressed_and_a_stream_is_not(client):
    await ok(client.post(f"{ANN}/memories", json={"content": "word " * 1_000}))
    long = await client.get(f"{ANN}/memories")
    short = await client.get("/health")
    turn = {"chat_id": "c", "user_id": "ann", "message": "Hello there!", "stream": True}
    stream = await client.post("/api/chat", json=turn)
    assert long.headers["content-encoding"] == "gzip" and "content-encoding" not in short.headers
    assert "content-encoding" not in stream.headers
    assert {answer.headers["x-content-type-options"] for answer in (long, short, stream)} == {"nosniff"}


async def test_a_log_line_does_not_reveal_who_or_what(client, caplog):
    with caplog.at_level(logging.DEBUG, logger="recollect"):
        await client.post(f"/api/users/{SECRET}/memories", json={"content": SECRET, "id": SECRET})
        await client.get(f"/api/users/{SECRET}/memories/{SECRET}?limit={SECRET}")
        await client.post("/api/chat", json={"chat_id": SECRET, "user_id": SECRET, "message": SECRET, "agent": "a"})
        await client.get(f"/{SECRET}")
    lines = [json.loads(record.message) for record in caplog.records if record.name == "recollect.server.requests"]
    assert [line["status"] for line in lines] == [201, 422, 404, 404]
    assert lines[0].keys() == {"time", "id", "method", "route", "status", "ms"}
    assert lines[0]["route"] == "/api/users/{user}/memories"
    assert SECRET not in caplog.text


@pytest.mark.parametrize("kind", [each for each in vars(errors).values() if isinstance(each, type)])
def test_every_error_class_has_a_status_and_names_the_field(kind):
    made = kind(field="content")
    answer = problem(made, "r1")
    told = json.loads(answer.body)
    assert told["status"] == answer.status_code == status_of(made) >= 400
    assert told["field"] == "content" and told["detail"] == made.message
    assert kind is errors.RecollectError or told["code"] == kind.__name__
    assert (answer.status_code == 503) == ("retry-after" in answer.headers)


async def test_an_unexpected_error_is_answered_without_details(service, client, caplog):
    service.executors._agents = {"default": None}
    turn = {"chat_id": "c", "user_id": "ann", "message": SECRET}
    answer = await client.post("/api/chat", json=turn)
    assert (answer.status_code, answer.json()["code"]) == (500, "Unexpected")
    assert "NoneType" not in answer.text and SECRET not in answer.text + caplog.text
    assert (await client.get("/health")).status_code == 200


async def test_the_metrics_count_what_was_done(client):
    await ok(client.post(f"{ANN}/sessions/s/messages", json={"role": "user", "content": "Hello."}))
    await ok(client.post(f"{ANN}/memories", json={"memories": [{"content": "Tea."}, {"content": "Milk."}]}))
    await ok(client.post(f"{ANN}/memories/search", json={"query": "tea"}))
    context = await ok(client.post(f"{ANN}/context", json={"query": "What do I drink?"}))
    await ok(client.post("/api/chat", json={"chat_id": "c", "user_id": "ann", "message": "Hello!"}))
    text = (await client.get("/metrics")).text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert figures["recollect_adds_total"] == "5" and figures["recollect_searches_total"] == "1"
    assert int(figures["recollect_context_tokens_total"]) >= context["tokens"]
    assert figures["recollect_executors"] == "1"
    assert int(figures['recollect_jobs{state="waiting"}']) > 0
    assert figures['recollect_records{layer="long_term"}'] == "2"
    search = 'method="POST",route="/api/users/{user}/memories/search",status="200"'
    assert figures[f"recollect_request_duration_seconds_count{{{search}}}"] == "1"
    assert figures["recollect_sessions"] == "1"
    assert int(figures['recollect_store_duration_seconds_count{verb="commit"}']) >= 4
    assert "ann" not in text.replace("scanned", "")


async def test_it_is_ready_until_it_is_about_to_stop(service, client):
    assert (await client.get("/ready")).json() == {
        "status": "ready", "stores": {"everything": "answers"}, "worker": "elsewhere", "draining": False,
        "embedder": "hashing-64", "enrichment": "rules, without a model",
        "states": {"embedder": "not asked yet", "model": "none"},
    }  # fmt: skip
    service.draining = True
    assert (await client.get("/ready")).status_code == 503
    refused = await client.get(f"{ANN}/profile")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert (await client.get("/health")).status_code == 200


# ── Abuse ────────────────────────────────────────────────────────────────────────────────────────


async def _echo(scope, receive, send):
    while (await receive()).get("more_body"):
        pass


async def test_a_body_that_never_ends_or_comes_too_slowly_is_refused():
    limit = BodyLimit(_echo, body_s=0.1)
    scope = {"type": "http", "headers": []}
    taken = 0

    async def endless():
        nonlocal taken
        taken += 65_536
        return {"type": "http.request", "body": b"x" * 65_536, "more_body": True}

    async def slow():
        await asyncio.sleep(0.03)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(errors.TooLarge):
        await limit(scope, endless, None)
    assert taken <= LIMITS.body_bytes + 65_536
    with pytest.raises(errors.RecollectError) as refused:
        await limit(scope, slow, None)
    assert status_of(refused.value) == 408


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A server in its own process, for tests that leave it unchanged. Yields host, port and process."""
    with process(tmp_path_factory.mktemp("server")) as (address, server):
        httpx.get(f"{address}/health", timeout=START_S)  # it listens before it can answer
        url = httpx.URL(address)
        yield url.host, url.port, server.pid


def talk(place: tuple[str, int], *pieces: bytes, quiet_s: float = 5.0, pause_s: float = 0.0) -> bytes:
    """What a server answers to these bytes, until it hangs up or goes quiet. It may take its time to begin."""
    with socket.create_connection(place, timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause_s)
        answer = b""
        try:
            while part := connection.recv(65_536):
                connection.settimeout(quiet_s)
                answer += part
        except (TimeoutError, ConnectionError):
            pass
        return answer


HEAD = b"POST /api/users/ann/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ((HEAD + b"Content-Length: 300000000\r\n\r\n",), 413),
        ((HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"10000\r\n" + b"x" * 65_536 + b"\r\n"] * 17), 413),
        ((HEAD + b"Content-Length: -1\r\n\r\n",), 400),
        ((HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",), 400),
        ((HEAD + b"X-Long: " + b"x" * 40_000 + b"\r\n\r\n",), 431),
        (
            (
                b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                + b"".join(b"X-%d: y\r\n" % n for n in range(10_000))
                + b"\r\n",
            ),
            431,
        ),
        ((b"nonsense\r\n\r\n",), 400),
        ((b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",), 200),
    ],
)
def test_a_malformed_request_is_refused_and_the_connection_closed(running, pieces, status):
    answer = talk(running[:2], *pieces, quiet_s=2.0)
    assert answer.startswith(b"HTTP/1.1 %d" % status), answer[:200]
    assert httpx.get(f"http://{running[0]}:{running[1]}/health").status_code == 200


SOCKETS_HOLD = 16_000_000
"""How much two sockets may buffer while nobody reads."""


@pytest.mark.parametrize("size", [10_000_000, 300_000_000])
@pytest.mark.parametrize("is_told", [True, False], ids=["with its length", "in chunks"])
def test_a_huge_body_is_refused_before_it_is_read_and_takes_no_memory(running, size, is_told):
    """It is sent for as long as the server accepts it."""
    _warm(f"http://{running[0]}:{running[1]}")
    before = _peak_bytes(running[2])
    sent, answer = _poured(running[:2], size, is_told)
    assert answer.startswith(b"HTTP/1.1 413"), answer[:100]
    assert sent < LIMITS.body_bytes + SOCKETS_HOLD
    assert _peak_bytes(running[2]) - before < 2 * LIMITS.body_bytes
    assert httpx.get(f"http://{running[0]}:{running[1]}/health").status_code == 200


def _warm(address: str) -> None:
    """Make the server do once what makes it grow: load its model, and work."""
    httpx.post(f"{address}/api/users/ann/memories", json={"content": "Warm."}).raise_for_status()
    httpx.post(f"{address}/api/users/ann/memories/search", json={"query": "warm"}).raise_for_status()
    until(lambda: not sum(httpx.get(f"{address}/api/stats").json()["jobs"][each] for each in ("waiting", "running")))


def _poured(place: tuple[str, int], size: int, is_told: bool) -> tuple[int, bytes]:
    """How much of a body was accepted before the server answered or hung up, and its answer."""
    head = HEAD + (b"Content-Length: %d\r\n\r\n" % size if is_told else b"Transfer-Encoding: chunked\r\n\r\n")
    piece = b"x" * 65_536
    sent = 0
    with socket.create_connection(place, timeout=30) as connection:
        connection.sendall(head)
        try:
            while sent < size and not select.select([connection], [], [], 0)[0]:
                connection.sendall(piece if is_told else b"10000\r\n" + piece + b"\r\n")
                sent += len(piece)
        except OSError:
            pass
        try:
            return sent, connection.recv(65_536)
        except OSError:
            return sent, b""


def _peak_bytes(pid: int) -> int:
    """The peak memory of a process."""
    told = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    return int(told[1]) * 1024 if told else 0


def test_a_short_answer_is_sent_at_once(running):
    with httpx.Client(base_url=f"http://{running[0]}:{running[1]}") as client:
        took = []
        for _ in range(20):
            began = time.perf_counter()
            client.get("/health")
            took.append(time.perf_counter() - began)
    assert min(took) < 0.03  # with a delayed acknowledgement all would take 0.04


async def test_a_request_head_that_comes_byte_by_byte_is_not_waited_for(service):
    class Impatient(PatientProtocol):
        head_s = 0.2

    began = time.monotonic()
    async with listening(service, Impatient) as address:
        place = (httpx.URL(address).host, httpx.URL(address).port)
        answer = await asyncio.to_thread(talk, place, b"GET /health HTTP/1.1\r\n")
        whole = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        second = await asyncio.to_thread(talk, place, whole, b"GET /hea", pause_s=0.1)
    assert (
        answer == b"" and second.count(b"HTTP/1.1 200") == 1 and time.monotonic() - began < 9
    )  # by default twice ten seconds


async def test_a_client_that_is_often_refused_gets_as_much_time_as_anybody_else(service):
    class Impatient(PatientProtocol):
        head_s = 2.0

    service.rate = Rate(1, burst=1)
    _, token = await service.keys.create(org="acme")
    asked = b"GET /api/users/ann/profile HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n" % token.encode()
    async with listening(service, Impatient) as address:
        place = (httpx.URL(address).host, httpx.URL(address).port)
        answers = await asyncio.to_thread(talk, place, *[asked] * 9, pause_s=0.3)
    assert (answers.count(b"HTTP/1.1 200"), answers.count(b"HTTP/1.1 429")) == (1, 8)


def _heard(address: str) -> None:
    """Ensure that everything sent so far has reached the server: it answers a later request."""
    for _ in range(2):
        httpx.get(f"{address}/health", timeout=STOP_S).raise_for_status()


def test_a_stop_lets_running_requests_finish_and_loses_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/kept.db"
    with process(tmp_path, "--url", url) as (address, running):
        with httpx.Client(base_url=address, timeout=STOP_S) as client:
            client.post("/api/users/ann/memories", json={"content": "Before."}).raise_for_status()
        place = (httpx.URL(address).host, httpx.URL(address).port)
        body = json.dumps({"content": "While it stops."}).encode()
        with socket.create_connection(place, timeout=STOP_S) as begun:
            begun.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
            _heard(address)
            asked_at = time.monotonic()
            running.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            begun.sendall(body[5:])
            answer = begun.recv(65_536)
        code = running.wait(STOP_S)
        took_s = time.monotonic() - asked_at
    with process(tmp_path, "--url", url) as (address, _):
        kept = httpx.get(f"{address}/api/users/ann/memories", timeout=STOP_S).json()["memories"]
    assert answer.startswith(b"HTTP/1.1 201") and code == 0 and took_s < STOP_S
    assert [each["content"] for each in kept] == ["Before.", "While it stops."]


def test_a_request_that_never_ends_does_not_keep_the_server_from_stopping(tmp_path):
    with process(tmp_path) as (address, running):
        place = (httpx.URL(address).host, httpx.URL(address).port)
        with socket.create_connection(place, timeout=STOP_S) as begun:
            begun.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
            _heard(address)
            running.send_signal(signal.SIGTERM)
            assert running.wait(STOP_S) == 0


def test_a_port_that_is_taken_is_reported_in_one_line(recollect):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = recollect("serve", "--port", str(taken.getsockname()[1]))
    assert (ran.code, ran.err.count("\n")) == (4, 1) and "--port" in ran.err


def test_other_machines_are_not_served_without_a_key(recollect):
    ran = recollect("serve", "--host", "0.0.0.0", "--port", "0")
    assert ran.code == 2 and "recollect keys create" in ran.err


async def test_another_asgi_server_opens_and_closes_the_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_URL", "memory://")
    app = create()
    async with app.router.lifespan_context(app):
        assert app.state.service.is_open
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.get(f"{ANN}/profile")).status_code == 200
    with pytest.raises(errors.Unavailable):
        await app.state.service.memory.user("ann").profile()


# ── Whatever the description allows ──────────────────────────────────────────────────────────────

CALLS, CALLS_EACH = 5_000, 44
THERE = {
    "user": "ann", "session": "monday", "id": "seat", "key": "city", "agent": "support", "type": "customer",
    "name": "Ana",
}  # fmt: skip
"""What exists to be found, changed and forgotten: every other call is about it."""


@schemathesis.serializer("application/x-ndjson")
def _lines(context, value):
    return str(value).encode("utf-8", "replace")


class Caller:
    """Sends the generated calls to a server in this process, without a network."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.statuses: Counter[int] = Counter()

    @contextmanager
    def open(self) -> Iterator[None]:
        held = AsyncExitStack()
        self.client = self.loop.run_until_complete(self._start(held))
        try:
            yield
        finally:
            self.loop.run_until_complete(held.aclose())
            self.loop.close()

    async def _start(self, held: AsyncExitStack) -> httpx.AsyncClient:
        service = await held.enter_async_context(opened())
        await seed(service)
        return await held.enter_async_context(client_of(service))

    def call(self, case: Any) -> None:
        if self.statuses.total() % 2:
            case.path_parameters |= {name: THERE[name] for name in case.path_parameters if name in THERE}
        made = case.as_transport_kwargs(base_url=LOCAL)
        request = requests.Request(**{name: made.get(name) for name in PARTS}).prepare()
        sending = self.client.request(request.method, request.url, headers=request.headers, content=request.body)
        answer = self.loop.run_until_complete(sending)
        self.statuses[answer.status_code] += 1
        case.validate_response(answer, checks=[not_a_server_error, response_schema_conformance])


PARTS = ("method", "url", "headers", "params", "cookies", "data", "json", "files")


@pytest.mark.timeout(600)
def test_nothing_that_the_description_allows_breaks_the_server():
    # Without generated keys: with them, most calls would be refused at the gate.
    schema, caller = schemathesis.openapi.from_dict(DOCUMENT | {"security": []}), Caller()
    made = settings(max_examples=CALLS_EACH, deadline=None, database=None, phases=[Phase.generate], derandomize=True,
                    suppress_health_check=list(HealthCheck))  # fmt: skip
    with caller.open():
        for found in schema.get_all_operations():
            made(given(case=found.ok().as_strategy())(caller.call))()
    told = ", ".join(f"{count:,} with {status}" for status, count in sorted(caller.statuses.items()))
    print(f"{caller.statuses.total():,} calls: {told}")
    assert caller.statuses.total() >= CALLS
    assert sum(count for status, count in caller.statuses.items() if status < 300) > CALLS // 10, "most are refused"
