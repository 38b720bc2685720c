"""Agents of `/api/chat`: what each is given from the memory, and what its model may do with it on its own."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
from server_stage import client_of, opened

from recollect.errors import ValidationError
from recollect.policies.tokens import counter, estimate
from recollect.server.agents import TOOLS, read_agents
from recollect.server.endpoint import ROUNDS_MAX
from recollect.testing.endpoint import serving

TURN = {"chat_id": "today", "user_id": "ann", "agent": "support", "message": "What is my cat called?"}


def streamed(*deltas: dict) -> bytes:
    lines = [b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n" for delta in deltas]
    return b"".join([*lines, b"data: [DONE]\n\n"])


def calling(name: str, arguments: str) -> bytes:
    """A tool call in two parts, as endpoints send it."""
    half = len(arguments) // 2
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": arguments[:half]}}
    second = {"index": 0, "function": {"arguments": arguments[half:]}}
    return streamed({"tool_calls": [first]}, {"tool_calls": [second]})


SAYS = streamed({"content": "Ad"}, {"content": "miral."})


@asynccontextmanager
async def talking(tmp_path, clock, answers: list[bytes], table: str = "", **settings):
    """A client of a server whose agent gives these answers, repeating the last one; and what it was asked."""
    said = iter(answers)
    last = answers[-1]
    async with serving("/v1/chat/completions", lambda _: next(said, last)) as endpoint:
        (tmp_path / "recollect.toml").write_text(
            f'[agents.support]\nurl = "{endpoint.url}"\nmodel = "gpt-4o"\n{table}\n'
        )
        given = {"clock": clock, "folder": tmp_path, "settings": settings}
        async with opened(**given) as service, client_of(service) as client:
            for user, cat in (("ann", "Admiral"), ("bob", "Napoleon")):
                await service.memory.user(user).add_memory(f"The cat of the house is called {cat}.")
            yield service, client, endpoint.requests


def results(request: dict) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


async def test_a_model_has_no_tools_unless_they_are_named(tmp_path, clock):
    async with talking(tmp_path, clock, [SAYS]) as (_, client, asked):
        assert (await client.post("/api/chat", json=TURN)).json()["reply"] == "Admiral."
    assert len(asked) == 1 and "tools" not in asked[0]


async def test_a_model_may_search_only_the_memory_of_the_user_it_talks_to(tmp_path, clock):
    answers = [calling("search_memory", '{"query": "cat"}'), SAYS]
    async with talking(tmp_path, clock, answers, 'tools = ["search_memory"]\nlayers = ["fact"]') as (_, client, asked):
        answer = (await client.post("/api/chat", json=TURN)).json()
        kept = (await client.get("/api/users/ann/sessions/today/messages")).json()["messages"]
    assert answer["reply"] == "Admiral." and [each["content"] for each in kept] == [TURN["message"], "Admiral."]
    (tool,) = asked[0]["tools"]
    assert tool["function"]["name"] == "search_memory" and "user" not in tool["function"]["parameters"]["properties"]
    assert asked[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"] == '{"query": "cat"}'
    (found,) = results(asked[1])
    assert "Admiral" in found and "Napoleon" not in found


async def test_what_a_model_adds_belongs_to_the_user_and_says_where_it_came_from(tmp_path, clock):
    answers = [calling("add_memory", '{"content": "Ann has a boat called Grey Goose."}'), SAYS]
    async with talking(tmp_path, clock, answers, 'tools = ["add_memory"]') as (service, client, asked):
        await client.post("/api/chat", json=TURN)
        (boat,) = await service.memory.user("ann").search_memory("boat", layer="long_term", limit=1)
    assert boat.record.metadata["via"] == "chat" and "Grey Goose" in boat.content and len(asked) == 2


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("forget", '{"ids": ["x"]}', "There is no such tool."),
        ("add_memory", '{"content": "x"}', "There is no such tool."),
        ("search_memory", '{"query": "cat", "user": "bob"}', "ValidationError: user: Extra inputs"),
        ("search_memory", '{"query', "The arguments are not valid JSON."),
        ("search_memory", "[]", "ValidationError"),
    ],
)
async def test_a_forbidden_tool_call_is_reported_to_the_model_which_continues(tmp_path, clock, name, arguments, told):
    answers = [calling(name, arguments), SAYS]
    async with talking(tmp_path, clock, answers, 'tools = ["search_memory"]') as (service, client, asked):
        assert (await client.post("/api/chat", json=TURN)).json()["reply"] == "Admiral."
        kept = (await service.memory.user("ann").list_memories())[0]
    assert results(asked[1])[0].startswith(told) and len(kept) == 1


async def test_a_model_that_keeps_calling_tools_must_answer_eventually(tmp_path, clock):
    answers = [calling("search_memory", '{"query": "cat"}')]
    async with talking(tmp_path, clock, answers, 'tools = ["search_memory"]') as (_, client, asked):
        answer = await client.post("/api/chat", json=TURN)
        kept = (await client.get("/api/users/ann/sessions/today/messages")).json()["messages"]
    assert answer.status_code == 502 and [each["content"] for each in kept] == [TURN["message"]]
    assert ["tools" in each for each in asked] == [True] * ROUNDS_MAX + [False]


async def test_health_reports_how_an_agents_model_did(tmp_path, clock):
    silent = [calling("search_memory", '{"query": "cat"}')]
    for answers, status, state in ((silent, "degraded", "fails (ModelError)"), ([SAYS], "ok", "answers")):
        folder = tmp_path / status
        folder.mkdir()
        async with talking(folder, clock, answers, 'tools = ["search_memory"]') as (_, client, _):
            before = (await client.get("/health")).json()
            await client.post("/api/chat", json=TURN)
            after, ready = (await client.get("/health")).json(), await client.get("/ready")
        assert before["status"] == "ok" and set(before["states"].values()) >= {"not asked yet"}
        (name,) = set(after["states"]) - {"embedder", "model"}
        assert (after["status"], after["states"][name]) == (status, state)
        assert ready.status_code == 200 and ready.json()["states"] == after["states"]


async def test_a_tool_adds_nothing_once_the_daily_quota_of_memories_is_used_up(tmp_path, clock):
    answers = [calling("add_memory", '{"content": "One more."}'), SAYS]
    table = 'tools = ["add_memory"]\n[orgs.default]\nmemories_per_day = 2'
    async with talking(tmp_path, clock, answers, table) as (_, client, asked):
        first = await client.post("/api/users/ann/memories", json={"content": "The first of the day."})
        answer = await client.post("/api/chat", json=TURN)
    assert (first.status_code, answer.status_code) == (201, 200)
    assert results(asked[1])[0].startswith("OverQuota: org: today's quota of memories (2) is used up")


async def test_an_agent_is_given_what_its_table_says_counted_in_its_models_tokens(tmp_path, clock):
    pytest.importorskip("rs_bpe", reason="no exact counts here: install recollect[tokens]")
    table = 'layers = ["fact"]\ncontext_tokens = 300\nquality = "fast"'
    async with talking(tmp_path, clock, [SAYS], table) as (service, client, asked):
        await service.memory.user("ann").add_fact("city", "Bergen")
        answer = (await client.post("/api/chat", json=TURN)).json()
    system = asked[0]["messages"][1]["content"]
    assert "Bergen" in system and "Admiral" not in system
    assert {source["layer"] for source in answer["context"]["sources"]} == {"fact"}
    (section,) = [each for each in answer["context"]["sections"] if each["name"] == "profile"]
    (told,) = [part for part in system.split("\n\n") if "Bergen" in part]
    exact = counter("gpt-4o")
    assert exact is not estimate and 0 <= section["tokens"] - exact(told.partition("</")[0].strip()) <= 3


async def test_an_agent_is_given_the_sections_and_as_many_messages_as_its_table_says(tmp_path, clock):
    table = 'sections = ["profile", "recent"]\nwindow = 2'
    async with talking(tmp_path, clock, [SAYS], table) as (service, client, asked):
        ann = service.memory.user("ann")
        await ann.add_fact("city", "Bergen")
        for number in range(5):
            await ann.session("today").add_interaction(f"question {number}", f"answer {number}")
        answer = (await client.post("/api/chat", json=TURN)).json()
    assert {section["name"] for section in answer["context"]["sections"]} == {"profile", "recent"}
    told = [message["content"] for message in asked[0]["messages"]]
    assert told[2:] == ["question 4", "answer 4", TURN["message"]] and "Bergen" in told[1] and "Admiral" not in told[1]


async def test_the_messages_of_an_agent_take_no_more_than_the_share_of_its_table(tmp_path, clock):
    table = "context_tokens = 1000\nshares = {recent = 0.1}"
    async with talking(tmp_path, clock, [SAYS], table) as (service, client, _):
        for number in range(40):
            await service.memory.user("ann").session("today").add_interaction(f"question {number}", f"answer {number}")
        answer = (await client.post("/api/chat", json=TURN)).json()
    (recent,) = [section for section in answer["context"]["sections"] if section["name"] == "recent"]
    assert 50 < recent["tokens"] <= 100


@pytest.mark.parametrize(
    ("table", "field"),
    [
        ({"tools": ["forget"]}, "agents.a.tools"), ({"tools": "search_memory"}, "agents.a.tools"),
        ({"tools": [1]}, "agents.a.tools"), ({"layers": ["dreams"]}, "agents.a.layers"),
        ({"quality": "good"}, "agents.a.quality"), ({"sections": ["fact"]}, "agents.a.sections"),
        ({"sections": "recent"}, "agents.a.sections"), ({"window": 1_001}, "agents.a.window"),
        ({"window": 0}, "agents.a.window"), ({"window": "20"}, "agents.a.window"), ({"window": 2.5}, "agents.a.window"),
        ({"shares": {"recent": 2}}, "agents.a.shares"), ({"shares": []}, "agents.a.shares"),
    ],
)  # fmt: skip
def test_an_invalid_policy_is_refused_at_the_start(table, field):
    with pytest.raises(ValidationError) as refused:
        read_agents({"a": {"url": "http://x", "model": "m"} | table}, {})
    assert refused.value.field == field


def test_tools_need_a_model_and_none_of_them_can_forget():
    with pytest.raises(ValidationError) as refused:
        read_agents({"a": {"tools": ["search_memory"]}}, {})
    assert refused.value.field == "agents.a.tools" and not {"forget", "add_messages"} & set(TOOLS)


# ── Without a model ──────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def remembering(tmp_path, clock, table: str):
    """A client of a server whose agent answers from memory; Ann's city is a fact, her boat was mentioned in a chat."""
    (tmp_path / "recollect.toml").write_text(f"[agents.support]\n{table}\n")
    async with opened(clock=clock, folder=tmp_path) as service, client_of(service) as client:
        ann = service.memory.user("ann")
        await ann.session("monday").add_interaction("I live in Bergen. My boat is called Grey Goose.", "A fine name.")
        await ann.add_memory("The harbour of the boat is Laksevag.")
        await service.memory.work()
        yield client


async def told(client, message: str, chat: str = "today") -> dict:
    answer = await client.post("/api/chat", json=TURN | {"message": message, "chat_id": chat})
    assert answer.status_code == 200, answer.text
    return answer.json()


CITY, BOAT, ME = "Where do I live?", "What is the boat called?", "What do you know about me?"


async def test_without_a_policy_an_agent_without_a_model_tells_everything_it_knows(tmp_path, clock):
    async with remembering(tmp_path, clock, "") as client:
        assert "Bergen" in (await told(client, CITY))["reply"]
        assert "Grey Goose" in (await told(client, BOAT))["reply"]
        assert "Bergen" in (await told(client, ME))["reply"]


async def test_an_agent_without_a_model_tells_only_what_is_in_its_layers(tmp_path, clock):
    async with remembering(tmp_path, clock, 'layers = ["fact"]') as client:
        city, boat, me = [await told(client, each) for each in (CITY, BOAT, ME)]
    assert "Bergen" in city["reply"] and "you said" not in city["reply"].lower()
    assert "Grey Goose" not in boat["reply"] and "Bergen" in me["reply"] and "Grey Goose" not in me["reply"]
    assert {source["layer"] for each in (city, boat, me) for source in each["context"]["sources"]} == {"fact"}


async def test_an_agent_without_a_model_knows_no_profile_where_its_layers_have_none(tmp_path, clock):
    async with remembering(tmp_path, clock, 'layers = ["long_term"]') as client:
        city, harbour, me = [await told(client, each) for each in (CITY, "What is the harbour of the boat?", ME)]
    assert "Bergen" not in city["reply"] + me["reply"] and "Laksevag" in harbour["reply"]


async def test_an_agent_without_a_model_tells_only_what_is_in_its_sections(tmp_path, clock):
    async with remembering(tmp_path, clock, 'sections = ["recent"]') as client:
        before, _, after = [await told(client, each) for each in (CITY, "My car is a red Volvo.", "What is my car?")]
    assert "Bergen" not in before["reply"] and "Volvo" in after["reply"]
    assert {section["name"] for section in after["context"]["sections"]} == {"recent"}


async def test_an_agent_without_a_model_quotes_nothing_older_than_its_window_and_keeps_its_budget(tmp_path, clock):
    table = 'sections = ["recent"]\nwindow = 2\ncontext_tokens = 300'
    async with remembering(tmp_path, clock, table) as client:
        await told(client, "My car is a red Volvo.")
        near = await told(client, "What is my car?")
        for number in range(3):
            await told(client, f"Today is day {number}.")
        far = await told(client, "What is my car?")
    assert "Volvo" in near["reply"] and "Volvo" not in far["reply"]
    assert far["context"]["tokens"] <= 300 and far["context"]["sections"][0]["items"] <= 2


def test_a_model_needs_an_endpoint():
    with pytest.raises(ValidationError) as refused:
        read_agents({"a": {"model": "gpt-4o"}}, {})
    assert refused.value.field == "agents.a.model"
