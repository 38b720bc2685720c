"""The OpenAI Agents SDK's session on a memory: its runner works with it, and items come back as they were."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, Session, SQLiteSession, Usage, function_tool
from agents.memory import SessionSettings
from agents.models.interface import Model
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

from recollect import Memory, sync
from recollect.adapters.openai_agents import Session as RecollectSession
from recollect.errors import TooLarge
from recollect.testing.fakes import HashingEmbedder

QUIET = RunConfig(tracing_disabled=True)
TEXT = {"type": "output_text", "text": "It rains.", "annotations": [], "logprobs": []}
EVERY_KIND: list[Any] = [
    {"role": "user", "content": "Will it rain?"},
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": "https://x"}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "https://x", "detail": "auto"}]},
    {"type": "message", "role": "user", "content": "typed"},
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "z" * 30_000},
    {"id": "rs_2", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Thinking of rain"}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":  "Oslo"}', "id": "fc_1"},
    {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "", "status": "completed"},
    {"type": "function_call", "call_id": "", "name": "odd", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
    {"type": "function_call_output", "call_id": "c2", "output": ""},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "Sun"}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "rain"}},
    {"type": "computer_call_output", "call_id": "cc", "output": {"type": "computer_screenshot", "image_url": "https://x"}},
    {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [TEXT]},
    {"id": "m2", "type": "message", "role": "assistant", "content": [TEXT, {"type": "refusal", "refusal": "No"}, TEXT]},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "<text>"},
    {"type": "item_reference", "id": "m1"},
]  # fmt: skip


@pytest.fixture
async def session(memory):
    return RecollectSession(memory.user("ann"), "monday", agent="helper")


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_an_sdk_session(session):
    assert isinstance(session, Session)


@pytest.mark.parametrize("item", EVERY_KIND, ids=lambda item: str(item)[:40])
async def test_an_item_comes_back_as_it_was(session, item):
    await session.add_items([item])
    assert await session.get_items() == [item]
    assert await session.pop_item() == item
    assert await session.get_items() == []


async def test_many_items_come_back_in_order_and_limits_return_the_newest(session):
    many = EVERY_KIND * 10
    await session.add_items(many)
    assert await session.get_items() == many
    for limit in (0, 1, 7, 150, 1_000):
        assert await session.get_items(limit) == (many[-limit:] if limit else [])


async def test_the_limit_of_the_settings_applies_if_no_other_is_given(memory):
    session = RecollectSession(memory.user("ann"), "x", session_settings=SessionSettings(limit=2))
    await session.add_items(EVERY_KIND[:5])
    assert await session.get_items() == EVERY_KIND[3:5]
    assert await session.get_items(4) == EVERY_KIND[1:5]


async def test_an_empty_session_has_nothing_to_pop(session):
    assert await session.pop_item() is None
    await session.add_items([])
    assert await session.get_items() == []


async def test_concurrent_pops_each_get_a_different_item(memory):
    sessions = [RecollectSession(memory.user("ann"), "monday") for _ in range(8)]
    items = [{"role": "user", "content": f"said {n}"} for n in range(10)]
    await sessions[0].add_items(items)
    popped = await asyncio.gather(*(session.pop_item() for session in sessions))
    assert sorted(map(str, popped)) == sorted(map(str, items[2:]))
    assert await sessions[0].get_items() == items[:2]


def test_concurrent_pops_from_separate_memories_each_get_a_different_item(tmp_path):
    """Like two processes: only the file is shared."""
    items = [{"role": "user", "content": f"item {n}"} for n in range(16)]

    async def fill():
        async with Memory.open(tmp_path / "one.db", embedder="none", worker=False) as memory:
            await RecollectSession(memory.user("ann"), "s").add_items(items)

    async def pop_all():
        async with Memory.open(tmp_path / "one.db", embedder="none", worker=False) as memory:
            session = RecollectSession(memory.user("ann"), "s")
            await asyncio.to_thread(together.wait)
            popped = []
            while (item := await session.pop_item()) is not None:
                popped.append(item["content"])
            return popped

    asyncio.run(fill())
    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as threads:
        popped = [done.result() for done in [threads.submit(asyncio.run, pop_all()) for _ in range(2)]]
    assert sorted([*popped[0], *popped[1]]) == sorted(item["content"] for item in items)


async def test_one_bad_item_among_many_means_none_is_stored(session):
    items = [{"role": "user", "content": f"item {n}"} for n in range(200)]
    bad = {"role": "user", "content": "x" * 70_000}
    with pytest.raises(TooLarge):
        await session.add_items([*items, bad])
    assert await session.get_items() == []
    await session.add_items(items)
    assert await session.get_items() == items


async def test_a_cleared_session_is_empty_and_can_be_used_again(session, memory):
    await session.add_items(EVERY_KIND)
    await session.clear_session()
    assert await session.get_items() == []
    assert await memory.user("ann").search_memory("rain") == []
    await session.add_items(EVERY_KIND[:1])
    assert await session.get_items() == EVERY_KIND[:1]


OPERATIONS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.sampled_from(EVERY_KIND), max_size=3)),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("get"), st.none() | st.integers(0, 4)),
    st.tuples(st.just("clear"), st.none()),
)


@given(st.lists(OPERATIONS, max_size=12))
@settings(max_examples=40)
async def test_it_behaves_like_the_sdks_own_session(operations):
    theirs = SQLiteSession("x")
    async with Memory.open("memory://", embedder=None, worker=False) as memory:
        ours = RecollectSession(memory.user("ann"), "x")
        for verb, given in operations:
            for_both = []
            for session in (theirs, ours):
                calls = {"add": session.add_items, "get": session.get_items}
                for_both.append(await calls[verb](given) if verb in calls else None)
                if verb in ("pop", "clear"):
                    for_both[-1] = await (session.pop_item() if verb == "pop" else session.clear_session())
            assert for_both[0] == for_both[1]
    theirs.close()


# ── seen from both sides ─────────────────────────────────────────────────────────────────────────


async def test_items_are_stored_as_messages(session, memory):
    await session.add_items(EVERY_KIND)
    chat = memory.user("ann").session("monday")
    said, _ = await chat.messages()
    assert [message.role for message in said[:3]] == ["user", "system", "user"]
    assert said[6].content == "Thinking of rain" and said[0].metadata.keys() == {"openai_agents"}
    assert said[7].tool_calls[0]["function"] == {"name": "weather", "arguments": '{"city":  "Oslo"}'}
    assert (said[10].role, said[10].tool_call_id, said[10].content) == ("tool", "c1", "Rain")
    assert said[15].content == "It rains."
    assert (await memory.user("ann").sessions())[0].agent == "helper"
    context = await chat.get_context("Will it rain?")
    assert "It rains." in str(context.messages)


async def test_stored_messages_are_read_as_items(session, memory):
    chat = memory.user("ann").session("monday")
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
        {"id": "c2", "name": "time", "args": {"zone": "CET"}},
    ]
    await chat.add_message(
        "user", [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "https://x"}}]
    )
    await chat.add_message("tool", "Rain", tool_call_id="c1")
    await chat.add_message("assistant", "One moment.", tool_calls=calls)
    items = await session.get_items()
    assert items == [
        {"role": "user", "content": [
            {"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": "https://x", "detail": "auto"},
        ]},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
        {"role": "assistant", "content": "One moment."},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "time", "arguments": '{"zone":"CET"}'},
    ]  # fmt: skip
    assert await session.pop_item() == items[-1]
    assert await session.get_items() == items[:-1]


# ── with the runner ──────────────────────────────────────────────────────────────────────────────


class Scripted(Model):
    """A model that gives its answers in order and records what it was asked."""

    def __init__(self, *answers: list[Any]) -> None:
        self._answers = iter(answers)
        self.asked: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        self.asked.append(input)
        return ModelResponse(output=next(self._answers), usage=Usage(), response_id=None)

    async def stream_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        self.asked.append(input)
        response = Response(
            id="r", created_at=0, model="scripted", object="response", output=next(self._answers),
            tool_choice="none", tools=[], parallel_tool_calls=False,
        )  # fmt: skip
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


def says(text: str) -> list[Any]:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])]


def calls(name: str, arguments: str) -> list[Any]:
    thought = ResponseReasoningItem(id="rs", type="reasoning", summary=[], encrypted_content="sealed")
    return [thought, ResponseFunctionToolCall(type="function_call", call_id="c1", name=name, arguments=arguments)]


@function_tool
def level(place: str) -> str:
    """Says on which level a place is."""
    return "level three"


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agent_continues_where_the_session_ended(session, memory, streamed):
    async def turn(said: str) -> str:
        if not streamed:
            return (await Runner.run(agent, said, session=session, run_config=QUIET)).final_output
        result = Runner.run_streamed(agent, said, session=session, run_config=QUIET)
        async for _ in result.stream_events():
            pass
        return result.final_output

    model = Scripted(calls("level", '{"place": "car"}'), says("On level three."), says("Three."))
    agent = Agent("helper", model=model, tools=[level])
    assert await turn("Where is my car?") == "On level three."
    assert await turn("Which level?") == "Three."
    before = await session.get_items()
    assert [item.get("type", "message") for item in before] == [
        "message", "reasoning", "function_call", "function_call_output", "message", "message", "message",
    ]  # fmt: skip
    assert model.asked[2] == before[:6]
    assert (await memory.user("ann").search_memory("Where is the car?", layer="conversation"))[0].content


async def test_another_session_and_another_user_see_nothing_of_it(session, memory):
    await session.add_items(EVERY_KIND)
    assert await RecollectSession(memory.user("ann"), "tuesday").get_items() == []
    assert await RecollectSession(memory.user("bob"), "monday").get_items() == []


def test_a_sync_program_uses_a_sync_memory():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        session = RecollectSession(memory.user("ann"), "monday")
        agent = Agent("helper", model=Scripted(says("Hello Ann!")))
        result = Runner.run_sync(agent, "I am Ann", session=session, run_config=QUIET)
        assert result.final_output == "Hello Ann!"
        assert [message.role for message in memory.user("ann").session("monday").window()] == ["user", "assistant"]
