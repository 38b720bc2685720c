"""The Model Context Protocol behind the keys of the server, spoken to with the protocol's own client."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from server_stage import client_of, listening, opened

from recollect.interfaces.tools import MESSAGES_PAGE
from recollect.testing.fakes import GatedEmbedder


@asynccontextmanager
async def assistant(address: str, token: str = "", query: str = "?user=ann", mode: str = "auto"):
    """A client of `/mcp` with a key."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as web,
        Client(streamable_http_client(f"{address}/mcp{query}", http_client=web), mode=mode) as client,
    ):
        yield client


async def text(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    return result.content[0].text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_what_is_stored_over_mcp_is_known_over_rest_and_vice_versa(mode):
    async with (
        opened() as service,
        listening(service) as address,
        assistant(address, mode=mode) as ann,
        httpx.AsyncClient(base_url=address) as web,
    ):
        await ann.call_tool("add_fact", {"key": "city", "value": "Porto"})
        assert (await web.get("/api/users/ann/profile")).json()["facts"][0]["value"] == "Porto"
        await web.post("/api/users/ann/sessions/monday/messages", json={"role": "user", "content": "A green bicycle."})
        assert "green bicycle" in await text(ann, "search_memory", query="bicycle")
        assert {str(each.uri) for each in (await ann.list_resources()).resources} == {
            "recollect://profile", "recollect://sessions",
        }  # fmt: skip
        assert "Porto" in (await ann.read_resource("recollect://profile")).contents[0].text
        assert "monday" in (await ann.read_resource("recollect://sessions")).contents[0].text
        prompt = await ann.get_prompt("what_do_you_know_about_me")
        assert "Porto" in prompt.messages[0].content.text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_org_comes_from_the_key_and_the_user_stays_within_it(mode):
    async with opened() as service, listening(service) as address:
        _, acme = await service.keys.create(org="acme")
        _, other = await service.keys.create(org="other")
        _, bobs = await service.keys.create(org="acme", user="bob")
        async with assistant(address, acme, mode=mode) as ann:
            await ann.call_tool("add_fact", {"key": "city", "value": "Porto"})
        async with assistant(address, other, mode=mode) as same_name:
            assert "Porto" not in await text(same_name, "get_profile")
        async with assistant(address, bobs, query="", mode=mode) as bob:
            assert "Porto" not in await text(bob, "get_profile")
            await bob.call_tool("add_fact", {"key": "city", "value": "Faro"})
        assert [fact.value for fact in await service.memory.user("bob", org="acme").facts.list()] == ["Faro"]


SAID = {"role": "user", "content": "A green bicycle."}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPTS = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("key", "query", "status"),
    [
        ("", "?user=ann", 401),
        ("rk_000000000000_" + "x" * 43, "?user=ann", 401),
        ("acme", "", 422),
        ("acme", "?user=", 422),
        ("acme", "?user=a&user=b", 422),
        ("acme", "?user=ann&org=other", 422),
        ("acme", "?user=%ff", 422),
        ("bobs", "?user=ann", 404),
        ("acme", "?user=ann", 200),
        ("bobs", "", 200),
    ],
)  # fmt: skip
async def test_a_refused_caller_gets_a_problem_document(key, query, status):
    async with opened() as service, client_of(service) as client:
        _, acme = await service.keys.create(org="acme")
        _, bobs = await service.keys.create(org="acme", user="bob")
        token = {"acme": acme, "bobs": bobs}.get(key, key)
        headers = ACCEPTS | ({"Authorization": f"Bearer {token}"} if token else {})
        answer = await client.post(f"/mcp{query}", json=CALL, headers=headers)
        assert answer.status_code == status
        if status != 200:
            assert answer.headers["content-type"] == "application/problem+json"


async def test_a_read_only_key_cannot_write():
    async with opened() as service, listening(service) as address:
        _, reads = await service.keys.create(org="default", scope="read")
        async with assistant(address, reads) as ann:
            refused = await ann.call_tool("add_memory", {"content": "A green bicycle."})
            assert refused.is_error and "scope write" in refused.content[0].text
            assert not (await ann.call_tool("search_memory", {"query": "bicycle"})).is_error
        assert (await service.memory.org().users())[0] == []


async def test_all_tools_are_those_of_the_address_and_erasing_needs_the_scope_that_it_needs_over_rest():
    async with opened() as service, listening(service) as address:
        await service.memory.user("ann").add_memory("A green bicycle.")
        _, writes = await service.keys.create(org="default", scope="write")
        _, rules = await service.keys.create(org="default", scope="admin")
        async with assistant(address, writes, "?user=ann&tools=all") as ann:
            refused = await ann.call_tool("erase", {"what": "everything"})
            assert refused.is_error and "scope admin" in refused.content[0].text
            assert not (await ann.call_tool("export", {})).is_error
        assert (await service.memory.user("ann").list_memories())[0]
        async with assistant(address, rules, "?user=ann&tools=all") as ann:
            assert not (await ann.call_tool("erase", {"what": "everything"})).is_error
        assert not (await service.memory.user("ann").list_memories())[0]


async def test_there_are_no_waiting_streams_and_no_other_methods():
    async with opened() as service, client_of(service) as client:
        for method in ("GET", "DELETE", "PUT"):
            assert (await client.request(method, "/mcp?user=ann", headers=ACCEPTS)).status_code == 405
        large = await client.post("/mcp?user=ann", content=b"x" * (1 << 21), headers=ACCEPTS)
        assert large.status_code == 413


async def test_a_long_conversation_comes_in_pages():
    async with opened() as service, listening(service) as address:
        chat = service.memory.user("ann").session("long")
        for start in range(0, 60, 30):
            await chat.add_messages([{"role": "user", "content": f"number {start + n}."} for n in range(30)])
        async with assistant(address) as ann:
            page = (await ann.read_resource("recollect://sessions/long")).contents[0].text
            assert page.count("number") == MESSAGES_PAGE and "?after=" in page
            earlier = (await ann.read_resource(page.split("Earlier messages: ")[1])).contents[0].text
            assert earlier.count("number") == MESSAGES_PAGE and "number 59." not in earlier


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_cancelled_call_ends_and_the_next_one_is_answered(mode):
    slow = GatedEmbedder()
    async with (
        opened(embedder=slow) as service,
        listening(service) as address,
        assistant(address, mode=mode) as ann,
    ):
        await ann.call_tool("add_memory", {"content": "A green bicycle."})
        with anyio.CancelScope() as call:
            async with anyio.create_task_group() as group:
                group.start_soon(ann.call_tool, "search_memory", {"query": "bicycle"})
                await slow.entered.wait()
                call.cancel()
        slow.open.set()
        assert "green bicycle" in await text(ann, "search_memory", query="bicycle")


async def test_many_assistants_at_once_each_see_their_own():
    async with opened() as service, listening(service) as address:

        async def one(name: str) -> str:
            async with assistant(address, query=f"?user={name}") as client:
                await client.call_tool("add_fact", {"key": "city", "value": f"city of {name}"})
                return await text(client, "get_profile")

        told = await asyncio.gather(*(one(f"user{n}") for n in range(20)))
    for n, profile in enumerate(told):
        assert f"city of user{n}" in profile and profile.count("city of") == 1


async def test_a_quota_of_memories_stops_adding_but_not_reading_or_forgetting():
    async with (
        opened(settings={"memories_per_day": 1}) as service,
        listening(service) as address,
        assistant(address) as ann,
    ):
        kept = await text(ann, "add_memory", content="Ann drinks tea.")
        refused = await text(ann, "add_memory", content="Ann drinks milk.")
        assert "tea" in await text(ann, "search_memory", query="tea")
        (tea,) = (await service.memory.user("ann").list_memories())[0]
        forgotten = await text(ann, "forget", ids=[tea.id])
    assert kept.startswith("Kept") and "today's quota of memories (1) is used up" in refused
    assert "1" in forgotten and tea.content == "Ann drinks tea."
