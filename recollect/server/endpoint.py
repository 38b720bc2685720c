"""An assistant behind an OpenAI-compatible endpoint, read as it speaks.

Its answers are bounded, and neither they nor the key ever stand in an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from recollect.errors import ModelError
from recollect.memory import Session
from recollect.models import Ask
from recollect.models.openai import EndpointModel
from recollect.server.agents import Agent
from recollect.server.executors import Prepared
from recollect.validate import LIMITS


def open_endpoint(agent: Agent) -> EndpointModel:
    """The model of an agent; its connections are shared by all who talk to the agent."""
    here = f"agents.{agent.name}"
    return EndpointModel(
        agent.model,
        url=agent.url,
        key=agent.key,
        answer_s=agent.timeout_s,
        url_field=f"{here}.url",
        key_field=agent.key_variable,
    )


class FromModel:
    """Answers with a model that is given the agent's prompt and the context of the question."""

    def __init__(self, agent: Agent, model: EndpointModel) -> None:
        self._agent = agent
        self._model = model

    async def prepare(self, chat: Session, text: str) -> Prepared:
        return Prepared(await chat.get_context(text, max_tokens=self._agent.context_tokens))

    async def answer(self, prepared: Prepared) -> AsyncGenerator[str, None]:
        messages = [{"role": "system", "content": self._agent.prompt}, *prepared.context.to_openai()]
        told = 0
        async with aclosing(self._model.pieces(Ask(messages, tokens_max=self._agent.max_tokens))) as pieces:
            async for piece in pieces:
                text = piece.encode("utf-8", "replace")
                told += len(text)
                if told > LIMITS.text_bytes:
                    raise ModelError("The model's answer is too long to be kept. What the user said is.", field="agent")
                yield text.decode()
        if not told:
            raise ModelError("The model of this agent said nothing. What the user said is kept.", field="agent")
