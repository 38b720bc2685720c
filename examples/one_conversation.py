# pip install ".[langchain,openai-agents,mcp]" && python examples/one_conversation.py
"""One conversation that begins in LangChain, continues in OpenAI Agents, and is searched over MCP.

Needs no model and no key: a stand-in answers in place of a model, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, ModelResponse, RunConfig, Runner, Usage
from agents.models.interface import Model
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from mcp import Client
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from recollect import Memory
from recollect.adapters.langchain import ChatMessageHistory
from recollect.adapters.openai_agents import Session
from recollect.interfaces.mcp import build
from recollect.user import User


async def in_langchain(ann: User, session: str) -> None:
    """The first turn. Any LangChain chain or agent stores its messages in this history."""
    history = ChatMessageHistory(ann.session(session, agent="langchain"))
    said: list[BaseMessage] = [
        HumanMessage("I'm Ann. On Friday I bring my kayak to the workshop in Setúbal."),
        AIMessage("(a stand-in) Noted: Friday, the workshop in Setúbal."),
    ]
    await history.aadd_messages(said)
    print(f"LangChain: {len(said)} messages")


class StandIn(Model):
    """Stands in for a model: reports what it was given."""

    async def get_response(self, system_instructions: str | None, input: Any, *_: Any, **__: Any) -> ModelResponse:
        told = f"(a stand-in) I was given {len(input)} items; the first is: {input[0]['content']}"
        part = ResponseOutputText(type="output_text", text=told, annotations=[])
        answer = ResponseOutputMessage(
            id="stand-in", type="message", role="assistant", status="completed", content=[part]
        )  # fmt: skip
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("this stand-in answers at once")


async def in_openai_agents(ann: User, session: str) -> None:
    """The second turn, in the same session: the agent is given what was said in LangChain."""
    agent = Agent(name="helper", instructions="Be brief.", model=StandIn())
    run_config = RunConfig(tracing_disabled=True)
    result = await Runner.run(
        agent, "When do I have to be there?", session=Session(ann, session, agent="helper"), run_config=run_config
    )
    print(f"OpenAI Agents: {result.final_output}")


async def over_mcp(ann: User) -> None:
    """What a desktop assistant finds. `recollect mcp --user ann` is the same server as a process."""
    async with Client(build(ann)) as assistant:
        found = await assistant.call_tool("search_memory", {"query": "When is the kayak in the workshop?", "limit": 1})
        assert found.structured_content is not None
        print(f"MCP: {found.structured_content['memories'][0]['content']}")


async def main() -> None:
    async with Memory.open("sqlite:///one_conversation.db") as memory:
        ann = memory.user("ann")
        await ann.session("kayak").delete()
        await in_langchain(ann, "kayak")
        await in_openai_agents(ann, "kayak")
        await over_mcp(ann)
        info = await ann.session("kayak").info()
        print(f"One session: {info.messages} messages, the last by {info.agent}")


if __name__ == "__main__":
    asyncio.run(main())
