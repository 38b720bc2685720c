"""LangChain's history, retriever and agents work on a memory, with `await` and without, and lose nothing."""

from __future__ import annotations

import asyncio
import time
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from recollect import ContextPolicy, Memory, sync
from recollect.adapters.langchain import ChatMessageHistory, MemoryMiddleware, Retriever
from recollect.errors import Unavailable, ValidationError
from recollect.testing.fakes import HashingEmbedder

CALL = {"name": "weather", "args": {"city": "Oslo", "days": [1, 2.5], "deep": {"a b": None}}, "id": "c1"}
INVALID = {"name": "x", "args": "{", "id": "1", "error": "bad", "type": "invalid_tool_call"}
EVERY_KIND = [
    SystemMessage("You are kind."),
    HumanMessage("Hello 👋", id="h-1", name="ann", additional_kwargs={"mood": "good", "odd key {}": [1]}),
    HumanMessage([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "https://x/y"}}]),
    HumanMessage(["one", {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}, "three"]),
    HumanMessage([{"type": "image_url", "image_url": {"url": "https://x/only"}}]),
    AIMessage("", tool_calls=[CALL, {"name": "time", "args": {}, "id": "c2"}], id="run-1"),
    ToolMessage("Rain", tool_call_id="c1", name="weather", artifact={"raw": [1, 2]}, status="success"),
    ToolMessage("", tool_call_id="c2", status="error"),
    AIMessage(
        [{"type": "thinking", "thinking": "hmm", "signature": "s" * 300}, {"type": "text", "text": "It rains."}],
        response_metadata={"model": "m", "logprobs": None},
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    ),
    AIMessage("Broken", invalid_tool_calls=[INVALID]),
    AIMessage("No id", tool_calls=[{"name": "x", "args": {}, "id": None}]),
    AIMessage("Twice", tool_calls=[{"name": "x", "args": {}, "id": "s"}, {"name": "y", "args": {}, "id": "s"}]),
    AIMessage(""),
    AIMessage("<text>"),
    AIMessage([]),
    AIMessageChunk("partly", id="run-2"),
    ChatMessage("Once upon a time", role="narrator"),
]  # fmt: skip


@pytest.fixture
def chat(memory):
    return memory.user("ann").session("monday")


# ── history ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: f"{message.type}: {str(message.content)[:20]}")
async def test_a_message_comes_back_as_it_was(chat, message):
    history = ChatMessageHistory(chat)
    await history.aadd_messages([message])
    assert await history.aget_messages() == [message]


async def test_a_whole_conversation_comes_back_in_order(chat):
    history = ChatMessageHistory(chat)
    many = EVERY_KIND * 12
    await history.aadd_messages(many)
    assert await history.aget_messages() == many


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TEXT_PARTS = st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=8)}, optional={"extra": JSON})
CONTENTS = st.text(max_size=20) | st.lists(TEXT_PARTS | st.text(max_size=8), max_size=3)
CALLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(min_size=1, max_size=8), "args": st.dictionaries(st.text(max_size=8), JSON, max_size=3),
         "id": st.none() | st.text(max_size=4)}
    ),
    max_size=2,
)  # fmt: skip
EXTRAS = st.dictionaries(st.text(max_size=8), JSON, max_size=3)
MESSAGES = st.one_of(
    st.builds(HumanMessage, content=CONTENTS, id=st.none() | st.text(max_size=8), additional_kwargs=EXTRAS),
    st.builds(AIMessage, content=CONTENTS, tool_calls=CALLS, response_metadata=EXTRAS),
    st.builds(ToolMessage, content=CONTENTS, tool_call_id=st.text(max_size=8), artifact=JSON),
)


@given(st.lists(MESSAGES, max_size=4))
@settings(max_examples=80)
async def test_any_message_comes_back_as_it_was(messages):
    async with Memory.open("memory://", embedder=None, worker=False) as memory:
        history = ChatMessageHistory(memory.user("ann").session("monday"))
        await history.aadd_messages(messages)
        assert await history.aget_messages() == messages


async def test_long_messages_and_large_extras_are_kept(chat):
    history = ChatMessageHistory(chat)
    messages = [
        HumanMessage("word " * 12_000),
        AIMessage([{"type": "text", "text": "word " * 8_000}], tool_calls=[CALL | {"args": {"text": "x" * 40_000}}]),
        AIMessage("sealed", additional_kwargs={"reasoning": "r" * 40_000}),
    ]
    await history.aadd_messages(messages)
    assert await history.aget_messages() == messages


async def test_what_json_cannot_represent_is_refused_by_name(chat):
    with pytest.raises(ValidationError, match="message"):
        await ChatMessageHistory(chat).aadd_messages([ToolMessage("x", tool_call_id="1", artifact=object())])


async def test_stored_messages_are_read_as_langchain_messages(chat):
    calls = [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]
    await chat.add_message("user", "Will it rain?")
    await chat.add_message("assistant", None, tool_calls=calls)
    await chat.add_message("tool", "Yes", tool_call_id="c1")
    await chat.add_message("system", "Be brief.")
    human, ai, result, system = await ChatMessageHistory(chat).aget_messages()
    assert (human.type, human.content) == ("human", "Will it rain?")
    assert ai.tool_calls == [{"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}]
    assert (result.type, result.tool_call_id, system.type) == ("tool", "c1", "system")


async def test_langchain_messages_are_stored_as_messages(chat, memory):
    await ChatMessageHistory(chat).aadd_messages(EVERY_KIND)
    said = await chat.window(messages=100)
    assert said[1].content == "Hello 👋" and said[1].name == "ann"
    assert [part["text"] for part in said[3].content] == ["one", "two", "three"]
    assert [call["function"]["name"] for call in said[5].tool_calls] == ["weather", "time"]
    assert said[6].tool_call_id == "c1"
    assert (await memory.user("ann").search_memory("Once upon a time"))[0].content == "Once upon a time"


async def test_a_limit_reads_the_newest_and_never_separates_a_call_from_its_result(chat):
    messages = [
        HumanMessage("a"),
        HumanMessage("b"),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage("r", tool_call_id="c1"),
    ]
    await ChatMessageHistory(chat).aadd_messages(messages)
    assert len(await ChatMessageHistory(chat, limit=2).aget_messages()) == 2
    assert await ChatMessageHistory(chat, limit=1).aget_messages() == []


async def test_a_limit_in_tokens_reads_the_newest_that_fit(chat):
    await ChatMessageHistory(chat).aadd_messages([HumanMessage(f"{number} " + "tea " * 50) for number in range(10)])
    for limit in (None, 9):
        read = await ChatMessageHistory(chat, max_tokens=200, limit=limit).aget_messages()
        assert 1 <= len(read) < 5 and read[-1].content.startswith("9 ")


def test_a_retriever_has_a_name_in_traces(memory):
    assert Retriever(user=memory.user("ann"))._get_ls_params() == {"ls_retriever_name": "recollect"}


async def test_a_cleared_history_is_empty_and_can_be_used_again(chat, memory):
    history = ChatMessageHistory(chat)
    await history.aadd_messages([HumanMessage("I live in Oslo")])
    await memory.work()
    await history.aclear()
    assert await history.aget_messages() == []
    assert await memory.user("ann").search_memory("Oslo") == []
    await history.aadd_messages([HumanMessage("again")])
    assert [message.content for message in await history.aget_messages()] == ["again"]


def counting_chain(history_of: Any) -> RunnableWithMessageHistory:
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{said}")])
    model = RunnableLambda(lambda given: AIMessage(f"I have read {len(given.messages)} messages"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RunnableWithMessageHistory(
            prompt | model, history_of, input_messages_key="said", history_messages_key="history"
        )


def configured(session: str) -> Any:
    return {"configurable": {"session_id": session}}


def test_a_chain_keeps_its_history_without_await():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        chain = counting_chain(lambda id: ChatMessageHistory(memory.user("ann").session(id)))
        assert chain.invoke({"said": "one"}, configured("x")).content == "I have read 1 messages"
        assert chain.invoke({"said": "two"}, configured("x")).content == "I have read 3 messages"
        assert chain.invoke({"said": "one"}, configured("y")).content == "I have read 1 messages"
        assert len(memory.user("ann").session("x").window()) == 4


@pytest.mark.parametrize("front_door", [Memory, sync.Memory])
async def test_a_chain_keeps_its_history_with_await(front_door):
    memory = front_door.open("memory://", embedder=HashingEmbedder())
    await memory.start() if front_door is Memory else memory.start()
    chain = counting_chain(lambda id: ChatMessageHistory(memory.user("ann").session(id)))
    assert (await chain.ainvoke({"said": "one"}, configured("x"))).content == "I have read 1 messages"
    assert (await chain.ainvoke({"said": "two"}, configured("x"))).content == "I have read 3 messages"
    await memory.close() if front_door is Memory else memory.close()


async def test_sync_code_on_another_thread_reaches_the_memory(chat):
    history = ChatMessageHistory(chat)
    await asyncio.to_thread(history.add_user_message, "from a thread")
    assert [message.content for message in await asyncio.to_thread(lambda: history.messages)] == ["from a thread"]


async def test_sync_code_on_the_memorys_own_loop_is_told_what_to_do(chat):
    history = ChatMessageHistory(chat)
    with pytest.raises(ValidationError, match="async form"):
        history.add_user_message("would wait for itself")


async def test_sync_code_that_blocks_the_loop_it_waits_for_gets_an_error(chat, monkeypatch):
    monkeypatch.setattr("recollect.adapters.bridge.WAIT_S", 0.1)
    history = ChatMessageHistory(chat)
    waiting = asyncio.get_running_loop().run_in_executor(None, lambda: history.messages)
    time.sleep(0.3)
    with pytest.raises(Unavailable, match="event loop did not answer"):
        await waiting


# ── retriever ────────────────────────────────────────────────────────────────────────────────────


async def test_a_retriever_returns_documents_with_score_layer_id_and_time(memory, chat):
    ann = memory.user("ann")
    kept = await ann.add_memory("Ann is allergic to peanuts", metadata={"topic": "health"})
    await chat.add_message("user", "I parked on level three", created_at="2026-02-01T10:00:00Z")
    retriever = Retriever(user=ann, k=1)
    (document,) = await retriever.ainvoke("What is Ann allergic to?")
    assert (document.page_content, document.id) == ("Ann is allergic to peanuts", kept.id)
    assert document.metadata["layer"] == "long_term" and document.metadata["topic"] == "health"
    assert document.metadata["score"] > 0 and document.metadata["said_at"] == "2026-03-01T12:00:00Z"
    (parked,) = await Retriever(user=ann, k=1, layer="conversation").ainvoke("Where did I park?")
    assert parked.metadata["said_at"] == "2026-02-01T10:00:00Z" and parked.metadata["session"] == "monday"


async def test_a_retriever_accepts_a_filter(memory):
    ann = memory.user("ann")
    await ann.add_memory("Ann likes tea", metadata={"topic": "drinks"})
    await ann.add_memory("Ann likes tea parties", metadata={"topic": "events"})
    (found,) = await Retriever(user=ann, where={"metadata.topic": "events"}).ainvoke("tea")
    assert found.page_content == "Ann likes tea parties"


def test_a_retriever_works_without_await():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        memory.user("ann").add_memory("Ann is allergic to peanuts")
        assert Retriever(user=memory.user("ann")).invoke("allergic")[0].page_content == "Ann is allergic to peanuts"


# ── agents ───────────────────────────────────────────────────────────────────────────────────────


class Scripted(GenericFakeChatModel):
    """A model that gives its answers in order and records what it was asked."""

    asked: list[Any] = []

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, *arguments: Any, **named: Any) -> Any:
        self.asked.append(list(messages))
        return super()._generate(messages, *arguments, **named)


@tool
def level(place: str) -> str:
    """Says on which level a place is."""
    return "level three"


def scripted(*answers: AIMessage | str) -> Scripted:
    return Scripted(messages=iter(answers), asked=[])


LOOK = AIMessage("", tool_calls=[{"name": "level", "args": {"place": "car"}, "id": "c1"}])


async def test_an_agent_reads_what_is_remembered_and_stores_the_turn(memory, chat):
    await memory.user("ann").add_memory("Ann's car is a red Fiat")
    model = scripted(LOOK, "Your red Fiat is on level three.")
    agent = create_agent(model, [level], system_prompt="Be kind.", middleware=[MemoryMiddleware(chat)])
    result = await agent.ainvoke({"messages": [HumanMessage("Where is my car?")]})
    assert result["messages"][-1].content == "Your red Fiat is on level three."
    system, question = model.asked[0]
    assert system.content == "Be kind.", "nothing lasting is known of Ann yet"
    assert question.content.startswith("<memory>") and "red Fiat" in question.content
    assert question.content.endswith("\n\nWhere is my car?")
    stored = await chat.window()
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]
    assert await ChatMessageHistory(chat).aget_messages() == result["messages"]


async def test_lasting_memories_follow_the_instructions_of_an_agent(memory, chat):
    await memory.user("ann").add_fact("city", "Oslo")
    await memory.user("ann").add_memory("Ann's car is a red Fiat")
    for prompt in ("Be kind.", SystemMessage([{"type": "text", "text": "Be kind."}])):
        model = scripted("It is a Fiat.")
        agent = create_agent(model, system_prompt=prompt, middleware=[MemoryMiddleware(chat)])
        await agent.ainvoke({"messages": [HumanMessage([{"type": "text", "text": "What is my car?"}])]})
        system, question = model.asked[0][0], model.asked[0][-1]
        assert system.text.startswith("Be kind.") and "in Oslo" in system.text and "Fiat" not in system.text
        assert "red Fiat" in question.content[0]["text"] and question.content[-1]["text"] == "What is my car?"


async def test_an_agent_is_given_what_its_policy_says(memory, chat):
    await memory.user("ann").add_fact("city", "Oslo")
    await memory.user("ann").add_memory("Ann's car is a red Fiat")
    model = scripted("It is a Fiat.")
    memories = MemoryMiddleware(chat, policy=ContextPolicy(sections=["knowledge"]))
    agent = create_agent(model, system_prompt="Be kind.", middleware=[memories])
    await agent.ainvoke({"messages": [HumanMessage("What is my car?")]})
    system, question = model.asked[0]
    assert system.content == "Be kind." and "red Fiat" in question.content


async def test_each_turn_is_stored_once_however_often_the_conversation_is_sent(memory, chat):
    agent = create_agent(scripted("Hello!", "Oslo."), middleware=[MemoryMiddleware(chat)])
    first = await agent.ainvoke({"messages": [HumanMessage("I live in Oslo")]})
    await agent.ainvoke({"messages": [*first["messages"], HumanMessage("Where do I live?")]})
    assert [m.content for m in await chat.window()] == ["I live in Oslo", "Hello!", "Where do I live?", "Oslo."]
    middleware = MemoryMiddleware(chat)
    await middleware.aafter_agent(first, None)
    assert len(await chat.window()) == 4


async def test_an_agent_that_keeps_no_conversation_is_given_the_earlier_turns(chat):
    model = scripted(LOOK, "On level three.", "You asked for your car.")
    agent = create_agent(model, [level], middleware=[MemoryMiddleware(chat)])
    await agent.ainvoke({"messages": [HumanMessage("Where is my car?")]})
    result = await agent.ainvoke({"messages": [HumanMessage("What did I ask?")]})
    said = [message.type for message in model.asked[-1] if message.type != "system"]
    assert said == ["human", "ai", "tool", "ai", "human"]
    assert [message.type for message in result["messages"]] == ["human", "ai"]
    assert len(await chat.window()) == 6


def look(id: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "level", "args": {"place": "car"}, "id": id}])


async def test_a_summary_within_a_turn_is_not_taken_for_what_the_user_said(memory, chat):
    await memory.user("ann").add_memory("Ann's car is a red Fiat")
    model = scripted(*(look(f"c{number}") for number in range(4)), "On level three.")
    summaries = SummarizationMiddleware(
        scripted(*["I live in Paris."] * 9), trigger=("messages", 5), keep=("messages", 2)
    )
    agent = create_agent(model, [level], middleware=[summaries, MemoryMiddleware(chat)], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    result = await agent.ainvoke({"messages": [HumanMessage("Where is my car?")]}, thread)
    assert result["messages"][0].content.endswith("I live in Paris."), "the summary has replaced the question"
    assert "recollect_said" not in result
    stored = await chat.window()
    assert [message.content for message in stored if message.role == "user"] == ["Where is my car?"]
    assert stored[-1].content == "On level three."
    assert all("red Fiat" in str(messages) for messages in model.asked), "the question is still what is searched for"
    assert [message.type for message in model.asked[-1]] == ["human", "ai", "tool"], "no earlier turns besides"


async def test_what_the_user_said_before_a_run_failed_is_stored_with_the_next_turn(chat):
    saver, thread = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    broken = create_agent(scripted(), middleware=[MemoryMiddleware(chat)], checkpointer=saver)
    with pytest.raises(RuntimeError):
        await broken.ainvoke({"messages": [HumanMessage("My name is Ann.")]}, thread)
    agent = create_agent(scripted("Yes.", "Ann."), middleware=[MemoryMiddleware(chat)], checkpointer=saver)
    await agent.ainvoke({"messages": [HumanMessage("Hello?"), HumanMessage("Are you there?")]}, thread)
    await agent.ainvoke({"messages": [HumanMessage("My name?")]}, thread)
    said = [message.content for message in await chat.window()]
    assert said == ["My name is Ann.", "Hello?", "Are you there?", "Yes.", "My name?", "Ann."]


async def test_a_streamed_turn_does_not_repeat_what_the_user_said(chat):
    agent = create_agent(scripted("Hello Ann!"), middleware=[MemoryMiddleware(chat)])
    asked = {"messages": [HumanMessage("I am Ann.")]}
    streamed = [message async for message, _ in agent.astream(asked, stream_mode="messages")]
    assert {message.type for message in streamed} <= {"ai", "AIMessageChunk"}
    assert len(await chat.window()) == 2


@tool(response_format="content_and_artifact")
def page(address: str) -> tuple[str, object]:
    """Reads a page."""
    return f"{address} " * 9_000, object()


async def test_a_turn_too_large_to_store_is_answered_and_stored_without_what_is_too_large(chat):
    picture = {"type": "image", "base64": "A" * 100_000, "mime_type": "image/png"}
    read = AIMessage("", tool_calls=[{"name": "page", "args": {"address": "a.example"}, "id": "c1"}])
    agent = create_agent(scripted(read, "A red Fiat."), [page], middleware=[MemoryMiddleware(chat)])
    question = HumanMessage([{"type": "text", "text": "What is this?"}, picture])
    result = await agent.ainvoke({"messages": [question]})
    assert result["messages"][-1].content == "A red Fiat."
    asked, called, found, answer = await chat.window()
    assert asked.content == "What is this?\n[left out]"
    assert found.content.startswith("a.example a.example") and found.content.endswith("\n[left out]")
    assert (called.tool_calls[0]["id"], found.tool_call_id, answer.content) == ("c1", "c1", "A red Fiat.")


async def test_an_agent_answers_a_question_after_a_long_text(memory, chat):
    await memory.user("ann").add_memory("Ann's car is a red Fiat")
    model = scripted("A Fiat.")
    agent = create_agent(model, middleware=[MemoryMiddleware(chat)])
    await agent.ainvoke({"messages": [HumanMessage("a page of words " * 5_000 + "What is my car?")]})
    assert "red Fiat" in model.asked[0][-1].content
    assert [message.role for message in await chat.window()] == ["user", "assistant"]


async def test_one_agent_serves_many_users(memory):
    def session_of(runtime: Any) -> Any:
        return memory.user(runtime.context["user"]).session("chat")

    await memory.user("ann").add_memory("The favourite colour is green")
    model = scripted("green", "I do not know")
    agent = create_agent(model, middleware=[MemoryMiddleware(session_of)], context_schema=dict)
    for user in ("ann", "bob"):
        await agent.ainvoke({"messages": [HumanMessage("favourite colour?")]}, context={"user": user})
    assert "green" in model.asked[0][0].content
    assert all("green" not in str(message.content) for message in model.asked[1])


def test_an_agent_remembers_without_await():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        memory.user("ann").add_memory("Ann's car is a red Fiat")
        chat = memory.user("ann").session("monday")
        model = scripted(LOOK, "On level three.")
        agent = create_agent(model, [level], middleware=[MemoryMiddleware(chat)])
        agent.invoke({"messages": [HumanMessage("Where is my car?")]})
        assert "red Fiat" in model.asked[0][0].content
        assert len(chat.window()) == 4


def test_a_retriever_returns_as_many_as_configured_or_asked_for():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        for number in range(6):
            memory.user("ann").add_memory(f"Tea number {number} is green")
        retriever = Retriever(user=memory.user("ann"), k=3)
        assert len(retriever.invoke("tea")) == 3
        assert len(retriever.invoke("tea", k=5)) == 5
        assert len(asyncio.run(retriever.ainvoke("tea", k=1))) == 1
        with pytest.raises(ValidationError):
            retriever.invoke("tea", k=0)
