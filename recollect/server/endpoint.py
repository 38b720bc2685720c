"""An assistant behind an OpenAI-compatible endpoint, streamed, with tools if it is allowed any.

Its answers are bounded, and neither they nor the key ever appear in an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from recollect.errors import ModelError, RecollectError
from recollect.models import Ask, ToolCall
from recollect.models.openai import EndpointModel
from recollect.server.agents import Agent
from recollect.server.executors import Prepared, Tools
from recollect.session import Session
from recollect.validate import LIMITS

ROUNDS_MAX = 4
"""How often a model may call tools before it has to answer."""


def open_endpoint(agent: Agent) -> EndpointModel:
    """The model of an agent; its connections are shared by all users of the agent."""
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
    """Answers with a model, which gets the agent's prompt and the context of the question."""

    def __init__(
        self,
        agent: Agent,
        model: EndpointModel,
        tools: Tools | None = None,
        *,
        told: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`told` is called after each answer with the state of the endpoint."""
        self._agent = agent
        self._model = model
        self._tools = tools
        self._told = told

    async def prepare(self, chat: Session, text: str) -> Prepared:
        agent = self._agent
        context = await chat.get_context(
            text, max_tokens=agent.context_tokens, policy=agent.policy, model=agent.model or None
        )
        return Prepared(context, owner=chat.user)

    async def answer(self, prepared: Prepared) -> AsyncGenerator[str, None]:
        try:
            async with aclosing(self._spoken(prepared)) as pieces:
                async for piece in pieces:
                    yield piece
        except RecollectError as error:
            self._told(f"fails ({type(error).__name__})")
            raise
        self._told("answers")

    async def _spoken(self, prepared: Prepared) -> AsyncGenerator[str, None]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": self._agent.prompt}]
        messages += prepared.context.to_openai()
        told = 0
        for tools in (*[self._tools] * (ROUNDS_MAX if self._tools else 0), None):
            calls: list[ToolCall] = []
            ask = Ask(messages, tokens_max=self._agent.max_tokens, tools=tools.described if tools else ())
            async with aclosing(self._model.spoken(ask)) as parts:
                async for part in parts:
                    if isinstance(part, ToolCall):
                        calls.append(part)
                    else:
                        text = part.encode("utf-8", "replace")
                        told += len(text)
                        _check_length(told)
                        yield text.decode()
            if tools is None or prepared.owner is None or not calls:
                break
            given = [await tools.call(prepared.owner, call) for call in calls]
            messages += _as_messages(calls, given)
        if not told:
            raise ModelError("The model of this agent gave no answer. The user's message is kept.", field="agent")


def _check_length(told: int) -> None:
    if told > LIMITS.text_bytes:
        raise ModelError("The model's answer is too long to be kept. The user's message is kept.", field="agent")


def _as_messages(calls: Sequence[ToolCall], given: Sequence[str]) -> list[dict[str, Any]]:
    """The model's message that called the tools, and the result of each."""
    asked = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, given, strict=True)
    ]
    return [{"role": "assistant", "content": None, "tool_calls": asked}, *results]
