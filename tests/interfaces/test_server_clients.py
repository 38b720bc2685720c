"""What people meet who use the server only over HTTP, with code that was generated from its description."""

from __future__ import annotations

import keyword
import re
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from server_stage import client_of, document, opened

from recollect.server.service import Service

ANN = "/api/users/ann"
DOCUMENT = document()
SHAPES: dict[str, dict[str, Any]] = DOCUMENT["components"]["schemas"]
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    (method, path, told) for path, methods in DOCUMENT["paths"].items() for method, told in methods.items()
]
TAKEN = {"export", "import", "delete", "window", "default", "function", "new", "Record", "Error", "Date", "Map"}
"""Words that mean something else in TypeScript: generated code has to rename a call, or hides what it needs itself."""


@pytest.fixture
async def client(clock) -> AsyncIterator[httpx.AsyncClient]:
    async with opened(clock=clock) as service, client_of(service) as client:
        yield client


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in the description, at any depth."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(each)


# ── The description, as generators read it ───────────────────────────────────────────────────────


def test_names_of_calls_and_shapes_are_free_in_other_languages():
    names = {told["operationId"] for _, _, told in CALLS} | set(SHAPES)
    assert not [name for name in names if name in TAKEN or keyword.iskeyword(name)]
    assert not [name for name in SHAPES if name.endswith("Shape")]
    assert {"MemoryRecord", "Message", "Hit", "Context", "Fact", "Profile", "Learning"} <= set(SHAPES)


def test_every_choice_has_a_type():
    assert [each for each in parts(DOCUMENT) if isinstance(each.get("enum"), list)]
    assert all(each.get("type") == "string" for each in parts(DOCUMENT) if isinstance(each.get("enum"), list))


def test_a_parameter_that_may_be_left_out_is_not_null():
    given = [parameter["schema"] for _, _, told in CALLS for parameter in told.get("parameters", ())]
    assert all(isinstance(schema.get("type"), str) and "anyOf" not in schema for schema in given)


def test_a_field_that_may_be_left_out_has_no_default_that_makes_it_required():
    assert not [name for name, shape in SHAPES.items() for each in shape["properties"].values() if "default" in each]
    assert "4000" in SHAPES["ContextRequest"]["properties"]["max_tokens"]["description"]


def test_what_may_go_wrong_is_described_with_its_headers():
    problems = DOCUMENT["components"]["responses"]
    for method, path, told in CALLS:
        statuses = set(told["responses"])
        assert "422" in statuses, path
        if told.get("security") != []:
            assert {"401", "403", "404", "429", "503"} <= statuses, path
        if "requestBody" in told:
            assert {"400", "413", "415"} <= statuses, path
        takes = {parameter["name"] for parameter in told.get("parameters", ())}
        assert ("412" in statuses) == ("If-Match" in takes), (method, path)
    assert "Retry-After" in problems["RateLimited"]["headers"] and "Retry-After" in problems["Unavailable"]["headers"]


def test_groups_address_and_licence_are_described():
    assert {told["tags"][0] for _, _, told in CALLS} == {tag["name"] for tag in DOCUMENT["tags"]}
    assert DOCUMENT["servers"][0]["url"] == "http://127.0.0.1:8765"
    assert (
        DOCUMENT["info"]["license"]["identifier"] == "Apache-2.0"
        and "X-Recollect-Org" in DOCUMENT["info"]["description"]
    )


def test_what_a_context_holds_is_described_down_to_its_values():
    opaque = [
        f"{name}.{field}"
        for name in ("Context", "ContextReport", "ChatReply", "Hit", "Relation", "SessionExport", "Imported")
        for field, schema in SHAPES[name]["properties"].items()
        if any(each.get("additionalProperties") is True for each in parts(schema))
    ]
    assert opaque == []


def test_lists_that_can_be_long_come_in_pages():
    for _, path, told in CALLS:
        takes = {parameter["name"] for parameter in told.get("parameters", ())}
        if "limit" in takes and not path.endswith("/graph"):
            assert "after" in takes, path
            answer = told["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert "after" in SHAPES[answer]["required"], path


# ── A day ────────────────────────────────────────────────────────────────────────────────────────

times = FormatChecker(formats=())


@times.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


def mistakes(answer: httpx.Response) -> list[str]:
    """How an answer differs from what is described for its status; a name that is not described is a mistake, too."""
    method, path = answer.request.method.lower(), answer.request.url.raw_path.decode().partition("?")[0]
    plain = [each for each in DOCUMENT["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", each), path)]
    told = DOCUMENT["paths"][min(plain, key=lambda each: each.count("{"))][method]["responses"]
    described = told[str(answer.status_code)]
    if "$ref" in described:
        described = DOCUMENT["components"]["responses"][described["$ref"].rpartition("/")[2]]
    shapes = {name: {**shape, "additionalProperties": False} for name, shape in SHAPES.items()}
    schema = described["content"][answer.headers["content-type"].partition(";")[0]]["schema"]
    looks = Draft202012Validator(schema | {"components": {"schemas": shapes}}, format_checker=times)
    return [f"{path}: {error.message}" for error in looks.iter_errors(answer.json())]


DAY: tuple[tuple[str, str, Any, int], ...] = (
    ("POST", "/api/chat", {"chat_id": "monday", "user_id": "ann", "message": "My cat is called Admiral."}, 200),
    ("POST", "/api/chat", {"chat_id": "monday", "user_id": "ann", "message": "What is my cat called?"}, 200),
    ("POST", f"{ANN}/sessions/monday/messages", {"role": "user", "content": [{"type": "text", "text": "Hi"}]}, 201),
    ("POST", f"{ANN}/sessions/monday/messages",
     {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}, 201),
    ("POST", f"{ANN}/sessions/monday/messages", {"role": "tool", "tool_call_id": "c", "content": "done"}, 201),
    ("GET", f"{ANN}/sessions/monday/messages?limit=2", None, 200),
    ("GET", f"{ANN}/sessions/monday/window?strategy=last_turns", None, 200),
    ("GET", f"{ANN}/sessions/monday/export", None, 200),
    ("GET", f"{ANN}/sessions?limit=1", None, 200),
    ("POST", f"{ANN}/memories", {"content": "Sat by the window in 1994.", "created_at": "1994-05-01"}, 201),
    ("POST", f"{ANN}/memories/search", {"query": "window", "limit": 3}, 200),
    ("POST", f"{ANN}/context", {"query": "Where do I sit?", "session": "monday", "max_tokens": 600}, 200),
    ("PUT", f"{ANN}/facts/city", {"value": "Lisbon", "valid_from": "0999-01-01"}, 200),
    ("PUT", f"{ANN}/facts/city", {"value": "Oslo"}, 200),
    ("GET", f"{ANN}/facts/city", None, 200),
    ("PUT", f"{ANN}/preferences/tone", {"value": "concise"}, 200),
    ("GET", f"{ANN}/profile", None, 200),
    ("POST", f"{ANN}/learnings", {"content": "Likes tables.", "type": "preference"}, 201),
    ("POST", f"{ANN}/agents/support/customizations", {"text": "Be brief.", "id": "brief"}, 201),
    ("POST", f"{ANN}/agents/support/customizations", {"text": "Be brief.", "id": "brief"}, 409),
    ("POST", f"{ANN}/graph/relations", {"subject": "user", "relation": "sister_of", "object": "Ines"}, 201),
    ("GET", f"{ANN}/graph?entity=user", None, 200),
    ("POST", f"{ANN}/sessions/monday/close", None, 200),
    ("GET", f"{ANN}/episodes", None, 200),
    ("PUT", "/api/entities/customer/42", {"data": {"plan": "gold"}}, 200),
    ("GET", "/api/entities/customer", None, 200),
    ("GET", f"{ANN}/learnings?limit=1", None, 200),
    ("GET", f"{ANN}/graph/relations?ended=true", None, 200),
    ("POST", f"{ANN}/memories", {"content": "Prefers window seats.", "id": "seat"}, 201),
    ("PATCH", f"{ANN}/memories", {"memories": [{"id": "seat", "importance": 0.9, "version": 0}]}, 409),
    ("PATCH", f"{ANN}/memories", {"memories": [{"id": "seat", "importance": 0.9}]}, 200),
    ("POST", f"{ANN}/memories/get", {"ids": ["seat", "gone"]}, 200),
    ("POST", f"{ANN}/memories/history", {"ids": ["seat", "gone"]}, 200),
    ("POST", f"{ANN}/quarantine", {"session": "monday", "reason": "a stranger spoke"}, 200),
    ("POST", f"{ANN}/release", {"session": "monday"}, 200),
    ("POST", f"{ANN}/undo", {"session": "monday"}, 200),
    ("POST", f"{ANN}/maintain", None, 200),
    ("POST", f"{ANN}/reprocess", {"again": True}, 200),
    ("POST", "/api/org/memories", {"content": "The office opens at nine.", "id": "hours"}, 201),
    ("POST", "/api/org/memories/search", {"query": "When does the office open?"}, 200),
    ("POST", "/api/org/customizations", {"text": "Be polite.", "id": "manners"}, 201),
    ("PUT", "/api/org/customizations/order", {"ids": ["manners"]}, 200),
    ("POST", "/api/org/maintain", {"dry_run": True}, 200),
    ("DELETE", "/api/org", None, 422),
    ("GET", f"{ANN}/memories/unknown", None, 404),
    ("POST", f"{ANN}/memories", {"content": "x" * 70_000}, 413),
    ("POST", f"{ANN}/memories", {"text": "a name that is not known"}, 422),
    ("GET", "/api/stats", None, 200),
    ("GET", "/ready", None, 200),
    ("DELETE", ANN, None, 200),
)  # fmt: skip


async def test_everything_that_a_day_returns_is_as_described(client):
    for method, path, body, status in DAY:
        answer = await client.request(method, path, json=body)
        assert (answer.status_code, mistakes(answer)) == (status, []), (method, path, answer.text)


# ── Pages ────────────────────────────────────────────────────────────────────────────────────────


async def paged(client: httpx.AsyncClient, path: str, name: str, **query: Any) -> list[list[str]]:
    """The ids on each page, until there is no next one."""
    pages: list[list[str]] = []
    after: dict[str, str] = {}
    while len(pages) < 20:
        answer = (await client.get(path, params=query | after)).json()
        pages.append([each["id"] for each in answer[name]])
        if answer["after"] is None:
            return pages
        after = {"after": answer["after"]}
    raise AssertionError("the pages do not end")


async def test_sessions_come_in_pages_however_many_began_at_the_same_moment(client, clock):
    for name in ("a", "b", "c", "d", "e"):
        await client.post(f"{ANN}/sessions/{name}/messages", json={"role": "user", "content": "Hello."})
    clock.advance(minutes=1)
    await client.post(f"{ANN}/sessions/c/messages", json={"role": "user", "content": "Again."})
    assert await paged(client, f"{ANN}/sessions", "sessions", limit=2) == [["c", "a"], ["b", "d"], ["e"]]
    assert await paged(client, f"{ANN}/sessions", "sessions", limit=5) == [["c", "a", "b", "d", "e"]]


async def test_a_session_that_goes_on_meanwhile_hides_no_other_from_the_pages(client, clock):
    for name in ("a", "b", "c"):
        await client.post(f"{ANN}/sessions/{name}/messages", json={"role": "user", "content": "Hello."})
        clock.advance(minutes=1)
    first = (await client.get(f"{ANN}/sessions", params={"limit": 1})).json()
    await client.post(f"{ANN}/sessions/b/messages", json={"role": "user", "content": "Again."})
    second = (await client.get(f"{ANN}/sessions", params={"after": first["after"]})).json()
    assert [each["id"] for each in (*first["sessions"], *second["sessions"])] == ["c", "a"]


@pytest.mark.parametrize("after", ["nonsense", "", "[1]", "[1, 2]", '["x", "y"]', "[1, 2, 3]", "{}", "[" * 5_000])
@pytest.mark.parametrize("path", [f"{ANN}/sessions", "/api/failures", f"{ANN}/facts", "/api/org/learnings"])
async def test_a_cursor_of_another_list_is_refused(client, path, after):
    answer = await client.get(path, params={"after": after})
    assert (answer.status_code, answer.json()["field"]) == (422, "after")


async def test_episodes_come_in_pages(client):
    for number in range(3):
        await client.post(
            f"{ANN}/memories", json={"content": f"They met {number} times.", "layer": "episodic", "id": str(number)}
        )
    assert await paged(client, f"{ANN}/episodes", "episodes", limit=2) == [["2", "1"], ["0"]]


async def full(service: Service) -> None:
    """A few of everything that is listed in pages."""
    ann, org = service.memory.user("ann"), service.memory.org()
    for number in range(5):
        await ann.add_fact(f"key{number}", str(number))
        await ann.update_preference(f"setting{number}", str(number))
        await org.entities.put("order", str(number), {"n": number})
        for owner in (ann, org):
            await owner.learnings.add(f"Lesson {number} of {owner.id}.")
            await owner.graph.relate(f"Friend {number}", "lives_in", f"Town {number}")


PAGED = {
    f"{ANN}/learnings": ("learnings", 10),
    "/api/org/learnings": ("learnings", 5),
    f"{ANN}/facts": ("facts", 5),
    f"{ANN}/preferences": ("facts", 5),
    f"{ANN}/graph/entities": ("entities", 10),
    f"{ANN}/graph/relations": ("relations", 5),
    "/api/org/graph/entities": ("entities", 10),
    "/api/org/graph/relations": ("relations", 5),
    "/api/entities/order": ("entities", 5),
}
"""Lists that are read whole in Python, the name of their items, and how many there are on the stage."""


@pytest.mark.parametrize("path", PAGED)
async def test_a_list_that_may_be_long_comes_in_pages_and_whole_where_it_fits(clock, path):
    name, count = PAGED[path]
    async with opened(clock=clock) as service, client_of(service) as client:
        await full(service)
        found = await paged(client, path, name, limit=3)
        (whole,) = await paged(client, path, name)
    assert [each for page in found for each in page] == whole
    assert (len(whole), len(set(whole)), max(map(len, found))) == (count, count, 3)


async def test_no_list_takes_the_cursor_of_another(clock):
    async with opened(clock=clock) as service, client_of(service) as client:
        await full(service)
        cursors = {path: (await client.get(path, params={"limit": 1})).json()["after"] for path in PAGED}
        assert all(cursors.values())
        for path in PAGED:
            for other, after in cursors.items():
                if path.removeprefix("/api/org").removeprefix(ANN) != other.removeprefix("/api/org").removeprefix(ANN):
                    refused = await client.get(path, params={"after": after})
                    assert (refused.status_code, refused.json()["field"]) == (422, "after"), (path, other)


async def test_a_page_of_large_entities_ends_early_and_goes_on(clock):
    async with opened(clock=clock) as service, client_of(service) as client:
        for number in range(150):
            await service.memory.entities().put("order", str(number), {"text": "x" * 12_000})
        found = await paged(client, "/api/entities/order", "entities")
    assert len(found) > 1 and sum(map(len, found)) == 150


# ── What is left out ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", {"chat_id": "s", "user_id": "ann", "message": "Hi.", "agent": None, "stream": None}),
        (f"{ANN}/memories", {"content": "x", "layer": None, "importance": None, "only_new": None}),
        (f"{ANN}/memories", {"memories": [{"content": "x", "layer": None}], "only_new": None}),
        (f"{ANN}/memories/search", {"query": "x", "limit": None, "where": None, "quality": None}),
        (f"{ANN}/context", {"query": "x", "session": None, "agent": None, "max_tokens": None, "policy": None}),
        (f"{ANN}/learnings", {"content": "x", "type": None}),
        (f"{ANN}/graph/entities", {"name": "Ana", "type": None, "aliases": None, "confidence": None}),
        (f"{ANN}/sessions/s/working/push", {"name": "done", "item": None, "keep": None}),
    ],
)
async def test_null_in_an_optional_field_means_that_it_is_left_out(client, path, body):
    answer = await client.post(path, json=body)
    assert answer.status_code < 300, answer.text
    if path.endswith("push"):
        assert answer.json() == {"done": [None]}  # an item is not optional: here null is a value


async def test_null_in_a_field_that_is_needed_or_not_known_is_refused(client):
    assert (await client.post(f"{ANN}/memories", json={"content": None})).status_code == 422
    assert (await client.post(f"{ANN}/memories", json={"content": "x", "colour": None})).json()["field"] == "colour"


async def test_a_verdict_and_the_end_of_a_relation_need_no_body(client):
    await client.put(f"{ANN}/facts/city", json={"value": "Oslo"})
    confirmed = await client.post(f"{ANN}/facts/city/confirm")
    assert (confirmed.status_code, confirmed.json()["facts"][0]["status"]) == (200, "confirmed")
    assert (await client.post(f"{ANN}/facts/city/correct")).json()["field"] == "value"
    relation = {"subject": "user", "relation": "lives_in", "object": "Oslo"}
    made = (await client.post(f"{ANN}/graph/relations", json=relation)).json()
    assert (await client.post(f"{ANN}/graph/relations/{made['id']}/end")).json()["valid_to"] is not None
    sent = await client.post(f"{ANN}/facts/city/confirm", content="{}", headers={"Content-Type": "text/plain"})
    assert sent.status_code == 415


# ── Working memory ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [f"{ANN}/working", f"{ANN}/sessions/monday/working"])
async def test_every_change_of_a_state_can_be_bound_to_the_version_that_was_read(client, path):
    first = await client.put(path, json={"plan": []}, headers={"If-Match": '"0"'})
    read = {"If-Match": first.headers["ETag"]}
    await client.patch(path, json={"page": "orders"}, headers=read)
    pushed = await client.post(f"{path}/push", json={"name": "plan", "item": "look"}, headers=read)
    cleared = await client.delete(path, headers=read)
    assert (pushed.status_code, cleared.status_code) == (412, 412)
    kept = await client.get(path)
    assert kept.json() == {"plan": [], "page": "orders"}
    done = await client.post(
        f"{path}/push", json={"name": "plan", "item": "look"}, headers={"If-Match": kept.headers["ETag"]}
    )
    assert done.json()["plan"] == ["look"]
    assert (await client.delete(path, headers={"If-Match": done.headers["ETag"]})).status_code == 204
    gone = await client.get(path)
    assert (gone.json(), gone.headers["ETag"]) == ({}, '"0"')
    assert (await client.put(path, json={"plan": [1]}, headers={"If-Match": '"0"'})).status_code == 200


async def test_a_user_has_a_state_of_their_own_beside_those_of_their_sessions(clock):
    async with opened(clock=clock) as service, client_of(service) as client:
        await client.put(f"{ANN}/working", json={"card": "gold"})
        await client.put(f"{ANN}/sessions/s/working", json={"page": 1}, params={"agent": "support"})
        assert await service.memory.user("ann").working.get() == {"card": "gold"}
        assert (await client.get(f"{ANN}/sessions/s/working")).json() == {}
        assert (await client.get(f"{ANN}/sessions/s/working", params={"agent": "support"})).json() == {"page": 1}
        assert (await client.get(f"{ANN}/working", params={"agent": "support"})).status_code == 422


async def test_a_pushed_list_keeps_as_many_items_as_in_python(clock):
    async with opened(clock=clock) as service, client_of(service) as client:
        for number in range(25):
            await client.post(f"{ANN}/sessions/rest/working/push", json={"name": "done", "item": number})
            await service.memory.user("ann").session("python").working.push("done", number)
        pushed = (await client.get(f"{ANN}/sessions/rest/working")).json()
        assert pushed == (await client.get(f"{ANN}/sessions/python/working")).json()


async def test_an_instruction_that_changed_meanwhile_is_not_deleted(client):
    path = f"{ANN}/customizations"
    made = await client.post(path, json={"text": "Be brief.", "id": "brief"})
    await client.patch(f"{path}/brief", json={"text": "Be very brief."})
    assert (await client.delete(f"{path}/brief", headers={"If-Match": made.headers["ETag"]})).status_code == 412
    assert (await client.delete(f"{path}/brief")).status_code == 204


async def test_if_match_is_refused_where_it_would_be_ignored(client):
    made = (await client.post(f"{ANN}/memories", json={"content": "x", "id": "seat"})).json()["memories"][0]
    refused = await client.delete(f"{ANN}/memories/seat", headers={"If-Match": f'"{made["version"]}"'})
    assert (refused.status_code, refused.json()["field"]) == (422, "if-match")
    assert (await client.get(f"{ANN}/memories/seat", headers={"If-Match": '"99"'})).status_code == 200


# ── What was made, and everything at once ────────────────────────────────────────────────────────


@pytest.mark.parametrize("user", ["ann", "a/b", "åsa"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("memories", {"content": "Prefers aisle seats.", "id": "seat/1"}),
        ("learnings", {"content": "Likes tables."}),
        ("graph/entities", {"name": "Ines"}),
        ("sessions/monday/branch", {"message_id": "m1", "into": "tuesday?"}),
    ],
)
async def test_what_was_made_can_be_read_at_its_location(client, user, path, body):
    own = f"/api/users/{quote(user, safe='')}"
    await client.post(f"{own}/sessions/monday/messages", json={"role": "user", "content": "Hello.", "id": "m1"})
    made = await client.post(f"{own}/{path}", json=body)
    assert made.status_code == 201, made.text
    read = await client.get(made.headers["Location"])
    assert read.status_code == 200 and made.headers["Location"].startswith(own)
    several = await client.post(f"{own}/memories", json={"memories": [{"content": "one"}, {"content": "two"}]})
    assert "Location" not in several.headers


async def test_an_export_travels_as_bytes_for_clients_that_know_no_lines(client):
    await client.post(f"{ANN}/memories", json={"content": "Prefers aisle seats."})
    kind = "application/octet-stream"
    lines = await client.get(f"{ANN}/export")
    data = await client.get(f"{ANN}/export", headers={"Accept": kind})
    assert lines.headers["content-type"] == "application/x-ndjson" and data.headers["content-type"] == kind
    assert [*map(len, (lines.content.splitlines(), data.content.splitlines()))] == [2, 2]
    brought = await client.post("/api/users/bob/import", content=data.content, headers={"Content-Type": kind})
    assert (brought.status_code, brought.json()["new"]) == (200, 1)
