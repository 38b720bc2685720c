# pip install ".[openai-agents]" && python examples/openai_agents_session.py
"""An agent of the OpenAI Agents SDK whose session is kept by Recollect, and that also knows other sessions.

With OPENAI_API_KEY it asks OpenAI's default model. Without it, a scripted stand-in answers, and says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, ModelResponse, RunConfig, Runner, Usage
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from recollect import Memory
from recollect.adapters.openai_agents import Session

HAS_KEY = bool(os.environ.get("OPENAI_API_KEY"))


class StandIn(Model):
    """Stands in for a model: reports how much it was given."""

    async def get_response(self, system_instructions: str | None, input: Any, *_: Any, **__: Any) -> ModelResponse:
        remembered = [line for line in (system_instructions or "").splitlines() if line.startswith("- ")]
        told = f"(a stand-in; input items: {len(input)}, memories: {len(remembered)})"
        part = ResponseOutputText(type="output_text", text=told, annotations=[])
        answer = ResponseOutputMessage(
            id="stand-in", type="message", role="assistant", status="completed", content=[part]
        )  # fmt: skip
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("this stand-in answers at once")


async def turn(memory: Memory, session_id: str, said: str) -> str:
    """One turn: what is remembered goes after the instructions, what is said into the session."""
    ann = memory.user("ann")
    context = await ann.session(session_id).get_context(said, max_tokens=2_000)
    agent = Agent(
        name="helper",
        instructions=f"Be brief.\n\n{context.system}",
        model=None if HAS_KEY else StandIn(),
    )
    session = Session(ann, session_id, agent="helper")
    result = await Runner.run(agent, said, session=session, run_config=RunConfig(tracing_disabled=not HAS_KEY))
    return str(result.final_output)


async def main() -> None:
    async with Memory.open("sqlite:///openai_agents.db") as memory:
        for session_id, said in (
            ("monday", "I'm Ann, and I parked on level three."),
            ("monday", "Remind me on Friday to water the plants."),
            ("tuesday", "Where did I park?"),
        ):
            print(f"{session_id}: {said}\n  {await turn(memory, session_id, said)}")


if __name__ == "__main__":
    asyncio.run(main())
