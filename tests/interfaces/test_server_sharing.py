"""The server answers many on one event loop: what is large is checked, put together and written beside it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic import ValidationError as Mistakes

from recollect import json_text
from recollect.pace import CHARACTERS, PORTION
from recollect.server import answers, assistants, bodies
from recollect.server.console import pages

USER = "/api/users/ann"


@pytest.fixture
def threads(monkeypatch):
    """Notes for each call of a function whether it runs beside the event loop."""
    here = threading.get_ident()

    def noted(owner: Any, name: str) -> list[bool]:
        function: Callable[..., Any] = getattr(owner, name)
        beside: list[bool] = []

        def call(*given: Any, **more: Any) -> Any:
            beside.append(threading.get_ident() != here)
            return function(*given, **more)

        monkeypatch.setattr(owner, name, call)
        return beside

    return noted


async def test_a_large_body_is_read_in_a_thread_and_a_small_one_at_once(client, threads):
    beside = threads(json_text, "parse")
    for text in ("Tea.", "Tea. " * (CHARACTERS * PORTION)):
        await client.post(f"{USER}/memories", json={"content": text})
    assert beside == [False, True]


@pytest.mark.parametrize(
    ("path", "name"), [("memories", "memories"), ("sessions/s/messages", "messages"), ("facts",) * 2]
)
async def test_a_list_that_is_too_long_is_refused_before_its_items_are_looked_at(client, path, name):
    answer = await client.post(f"{USER}/{path}", json={name: [{"wrong": 1}] * 10_000})
    assert answer.status_code == 413
    assert (answer.json()["code"], answer.json()["field"]) == ("TooLarge", name)


async def test_of_many_unknown_fields_the_first_is_named_and_the_others_are_not_looked_at(client):
    body = {"query": "tea"} | {f"unknown_{number}": number for number in range(5_000)}
    with pytest.raises(Mistakes) as refused:
        TypeAdapter(bodies.SearchRequest).validate_python(body)
    assert refused.value.error_count() == 1
    answer = await client.post(f"{USER}/memories/search", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "unknown_0")


async def test_large_answers_are_written_in_a_thread_and_small_ones_at_once(client, service, threads):
    ann = service.memory.user("ann")
    lines = [{"id": f"m{n}", "layer": "long_term", "content": f"Boat {n}"} for n in range(PORTION)]
    await ann.import_records(lines)
    for start in range(0, 2 * PORTION, 25):
        await ann.upsert_facts([{"key": f"thing_{n}", "value": f"value {n}"} for n in range(start, start + 25)])
    for number in range(PORTION // 2):
        await ann.graph.relate(f"Ann of house {number}", "knows", f"Ben of house {number}")
    beside = threads(answers, "to_json")
    asked = {"query": "boat", "limit": PORTION}
    found = (await client.post(f"{USER}/memories/search", json=asked)).json()
    assert len(found["hits"]) == PORTION
    context = (await client.post(f"{USER}/context", json={"query": "boat", "max_tokens": 50_000})).json()
    assert len(context["sources"]) > PORTION
    assert len((await client.get(f"{USER}/facts")).json()["facts"]) == 2 * PORTION
    assert len((await client.get(f"{USER}/profile")).json()["facts"]) == 2 * PORTION
    assert len((await client.get(f"{USER}/graph")).json()["relations"]) == PORTION // 2
    assert all(beside)
    beside.clear()
    await client.post(f"{USER}/memories/search", json={"query": "boat"})
    await client.get("/api/users/bob/profile")
    assert not any(beside)


async def test_the_picture_of_a_graph_and_its_list_are_made_in_a_thread(client, threads):
    beside = threads(pages, "_render")
    assert (await client.get("/users/ann/graph")).status_code == 200
    assert beside == [True]


async def test_the_protocol_for_assistants_is_loaded_in_a_thread(client, threads):
    beside = threads(assistants, "protocol_of_tools")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"Accept": "application/json, text/event-stream"}
    for _ in range(2):
        answer = await client.post(
            "/mcp?user=ann", content=json.dumps(call), headers=accepts | {"Content-Type": "application/json"}
        )
        assert answer.status_code == 200
    assert beside == [True]
