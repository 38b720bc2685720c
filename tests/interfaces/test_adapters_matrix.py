"""What any door writes, every other door finds: adapters by verbs, as a matrix (`pytest -s` prints it)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic.tools import ToolError
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from mcp import Client
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from recollect import Memory
from recollect.adapters.anthropic import AsyncMemoryTool
from recollect.adapters.claude import MemoryTool
from recollect.adapters.langchain import ChatMessageHistory, MemoryMiddleware, Retriever
from recollect.adapters.langgraph import Store
from recollect.adapters.llama_index import MemoryBlock
from recollect.adapters.openai_agents import Session
from recollect.adapters.pydantic_ai import Store as Conversations
from recollect.interfaces.mcp import build


@dataclass(frozen=True)
class Stage:
    """Whose memory it is, and which session is meant."""

    memory: Memory
    user: str
    session: str

    @property
    def person(self) -> Any:
        return self.memory.user(self.user)

    @property
    def chat(self) -> Any:
        return self.person.session(self.session)


class Listener(FakeListChatModel):
    """A model that answers with everything it was given."""

    responses: list[str] = ["-"]

    def _call(self, messages: Any, *given: Any, **more: Any) -> str:
        return "\n".join(str(message.content) for message in messages)


async def call(stage: Stage, tool: str, **given: Any) -> str:
    async with Client(build(stage.person)) as client:
        result = await client.call_tool(tool, given)
        assert not result.is_error, result.content
        return str(result.content)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


async def by_history(stage: Stage, text: str) -> None:
    await ChatMessageHistory(stage.chat).aadd_messages([HumanMessage(text)])


async def by_middleware(stage: Stage, text: str) -> None:
    agent = create_agent(FakeListChatModel(responses=["Noted."]), middleware=[MemoryMiddleware(stage.chat)])
    await agent.ainvoke({"messages": [HumanMessage(text)]})


async def by_agents(stage: Stage, text: str) -> None:
    await Session(stage.person, stage.session).add_items([{"role": "user", "content": text}])


async def by_llama_index(stage: Stage, text: str) -> None:
    await MemoryBlock(user=stage.person, session_id=stage.session)._aput([ChatMessage(content=text)])


async def by_pydantic(stage: Stage, text: str) -> None:
    said = [ModelRequest([UserPromptPart(text)])]
    await Conversations(stage.person).save(Conversation(conversation_id=stage.session, messages=said))


async def by_mcp_messages(stage: Stage, text: str) -> None:
    await call(stage, "add_messages", session=stage.session, messages=[{"role": "user", "content": text}])


async def by_mcp_memory(stage: Stage, text: str) -> None:
    await call(stage, "add_memory", content=text)


async def by_langgraph(stage: Stage, text: str) -> None:
    await Store(stage.memory, user=stage.user).aput(("notes",), "one", {"text": text})


async def by_claude(stage: Stage, text: str) -> None:
    told = await MemoryTool(stage.person)({"command": "create", "path": "/memories/note", "file_text": text})
    assert "created" in told


async def by_anthropic(stage: Stage, text: str) -> None:
    await AsyncMemoryTool(stage.person).call({"command": "create", "path": "/memories/note", "file_text": text})


WRITERS: dict[str, tuple[str, Callable[[Stage, str], Awaitable[None]]]] = {
    "LangChain history": ("conversation", by_history),
    "LangChain middleware": ("conversation", by_middleware),
    "OpenAI Agents": ("conversation", by_agents),
    "LlamaIndex": ("conversation", by_llama_index),
    "Pydantic AI": ("conversation", by_pydantic),
    "MCP messages": ("conversation", by_mcp_messages),
    "MCP memory": ("memory", by_mcp_memory),
    "LangGraph": ("memory", by_langgraph),
    "Claude": ("memory", by_claude),
    "Anthropic SDK": ("memory", by_anthropic),
}
"""How each door writes, and what it writes: a conversation message or a memory."""


# ── finding ──────────────────────────────────────────────────────────────────────────────────────


async def in_search(stage: Stage, question: str) -> Any:
    return [hit.content for hit in await stage.person.search_memory(question)]


async def in_context(stage: Stage, question: str) -> Any:
    return (await stage.person.session("another").get_context(question)).system


async def in_retriever(stage: Stage, question: str) -> Any:
    return await Retriever(user=stage.person).ainvoke(question)


async def in_middleware(stage: Stage, question: str) -> Any:
    agent = create_agent(Listener(), middleware=[MemoryMiddleware(stage.person.session("asking"))])
    return (await agent.ainvoke({"messages": [HumanMessage(question)]}))["messages"][-1].content


async def in_llama_index(stage: Stage, question: str) -> Any:
    block = MemoryBlock(user=stage.person, session_id="another")
    return await block.aget([ChatMessage(role="user", content=question)])


async def in_mcp_search(stage: Stage, question: str) -> Any:
    return await call(stage, "search_memory", query=question)


async def in_history(stage: Stage, question: str) -> Any:
    return await ChatMessageHistory(stage.chat).aget_messages()


async def in_agents(stage: Stage, question: str) -> Any:
    return await Session(stage.person, stage.session).get_items()


async def in_pydantic(stage: Stage, question: str) -> Any:
    return await Conversations(stage.person).load(stage.session)


async def in_langgraph(stage: Stage, question: str) -> Any:
    return await Store(stage.memory, user=stage.user).asearch((), query=question)


async def in_claude(stage: Stage, question: str) -> Any:
    return await MemoryTool(stage.person)({"command": "view", "path": "/memories/note"})


async def in_anthropic(stage: Stage, question: str) -> Any:
    try:
        return await AsyncMemoryTool(stage.person).call({"command": "view", "path": "/memories/note"})
    except ToolError as error:
        return error


ALL = frozenset(WRITERS)
FILES = frozenset({"Claude", "Anthropic SDK"})
TALK = frozenset(name for name, (kind, _) in WRITERS.items() if kind == "conversation")
READERS: dict[str, tuple[frozenset[str], Callable[[Stage, str], Awaitable[Any]]]] = {
    "search": (ALL, in_search),
    "context": (ALL, in_context),
    "retriever": (ALL, in_retriever),
    "middleware": (ALL, in_middleware),
    "LlamaIndex": (ALL, in_llama_index),
    "MCP": (ALL, in_mcp_search),
    "history": (TALK, in_history),
    "Agents": (TALK, in_agents),
    "Pydantic AI": (TALK, in_pydantic),
    "LangGraph": (frozenset({"LangGraph"}), in_langgraph),
    "Claude": (FILES, in_claude),
    "Anthropic SDK": (FILES, in_anthropic),
}
"""How each door reads, and whose writes it returns: everyone's, conversations only, or only its own kind."""


@pytest.mark.parametrize("writer", WRITERS)
async def test_what_one_door_writes_every_other_finds_and_no_other_user_does(memory, writer):
    text, question = "The green canoe Rocinante lies behind the old boathouse", "Where does the canoe lie?"
    await WRITERS[writer][1](Stage(memory, "ann", "monday"), text)
    found, leaked = {}, {}
    for name, (_, look) in READERS.items():
        found[name] = "Rocinante" in str(await look(Stage(memory, "ann", "monday"), question))
        leaked[name] = "Rocinante" in str(await look(Stage(memory, "bob", "monday"), question))
    print(f"\n{writer:>20} | " + " ".join(f"{name} {'yes' if there else '-':<4}" for name, there in found.items()))
    assert found == {name: writer in whose for name, (whose, _) in READERS.items()}
    assert not any(leaked.values())


async def test_a_conversation_begun_in_langchain_continues_in_openai_agents_and_is_searched_over_mcp(memory):
    stage = Stage(memory, "ann", "monday")
    await ChatMessageHistory(stage.chat).aadd_messages([HumanMessage("My canoe is Rocinante."), AIMessage("Nice!")])
    agents = Session(stage.person, "monday")
    assert [item["content"] for item in await agents.get_items()] == ["My canoe is Rocinante.", "Nice!"]
    await agents.add_items([{"role": "user", "content": "I sold the canoe to Piet."}])
    told = await call(stage, "search_memory", query="Who has the canoe now?")
    assert "Piet" in told and "Rocinante" in told
    history = await ChatMessageHistory(stage.chat).aget_messages()
    assert [message.type for message in history] == ["human", "ai", "human"]


def heard(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer with what the user said, in order."""
    prompts = [part.content for each in messages for part in each.parts if part.part_kind == "user-prompt"]
    return ModelResponse([TextPart(" / ".join(map(str, prompts)))])


async def asked_in_pydantic(stage: Stage, text: str) -> str:
    store = Conversations(stage.person)
    conversation = await store.load(stage.session) or Conversation(conversation_id=stage.session)
    result = await Agent(FunctionModel(heard)).run(text, conversation=conversation)
    await store.save(result)
    return result.output


async def by_typescript(stage: Stage, text: str) -> None:
    """As the AI SDK package stores it, over REST."""
    shell = '{"value":{"id":"m1","parts":[{"type":"text","text":""}]},"texts":[["parts",0,"text"]]}'
    await stage.chat.add_message("user", text, metadata={"ai_sdk": shell})


async def by_front_door(stage: Stage, text: str) -> None:
    await stage.chat.add_interaction(text, "Noted.")


SPEAKERS = {name: write for name, (kind, write) in WRITERS.items() if kind == "conversation"}
SPEAKERS |= {"AI SDK": by_typescript, "plain": by_front_door}


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_a_conversation_begun_at_any_door_continues_in_pydantic_ai_and_back(memory, speaker):
    stage, speak = Stage(memory, "ann", "monday"), SPEAKERS[speaker]
    await speak(stage, "My canoe is Rocinante.")
    assert await asked_in_pydantic(stage, "Is it green?") == "My canoe is Rocinante. / Is it green?"
    back = str(await in_history(stage, "")), str(await in_agents(stage, ""))
    assert all("Is it green?" in told and "Rocinante" in told for told in back)
    if speaker == "Pydantic AI":
        return
    await speak(stage, "I sold it to Piet.")
    assert (await asked_in_pydantic(stage, "To whom?")).endswith("Is it green? / I sold it to Piet. / To whom?")
    assert await asked_in_pydantic(stage, "And?") == (
        "My canoe is Rocinante. / Is it green? / I sold it to Piet. / To whom? / And?"
    )
    said = [message.content for message in await stage.chat.window() if message.role == "user"]
    assert said == ["My canoe is Rocinante.", "Is it green?", "I sold it to Piet.", "To whom?", "And?"]
