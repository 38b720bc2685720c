"""Chat models: one small contract, and what keeps it. None is needed; with one, more is learned.

openai:MODEL    any endpoint that speaks as OpenAI's does (`llm_url`, `llm_key`)
an object       anything with `name` and `answer`, any chat model of LangChain, or any async function
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from recollect.errors import ModelError, ValidationError
from recollect.settings import Settings

ANSWER_TOKENS = 1_500
"""The longest answer that is asked for where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a model is asked: messages of `role` and `content`, the shape of the answer, the limits."""

    messages: Sequence[Mapping[str, Any]]
    schema: Mapping[str, Any] | None = None
    """A JSON schema with a `title`; without one the answer is free text."""
    tokens_max: int = ANSWER_TOKENS
    tools: Sequence[Mapping[str, Any]] = ()
    """What the model may call, as OpenAI describes functions."""

    @property
    def text(self) -> str:
        """All that is asked, for counting."""
        return "\n".join(str(message["content"]) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered, and what it cost in tokens; None where it does not say."""

    text: str = field(repr=False)
    tokens_in: int | None = None
    tokens_out: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a model wants to be called: its name, and the arguments as the JSON that the model wrote."""

    id: str
    name: str
    arguments: str = field(repr=False)


@runtime_checkable
class ChatModel(Protocol):
    """Answers. Raises `ModelError` where it cannot; never waits for ever."""

    @property
    def name(self) -> str:
        """Kept with everything that is learned from its answers."""
        ...

    async def answer(self, ask: Ask) -> Answer:
        """The answer to one question, not yet looked at."""
        ...


@runtime_checkable
class Speaker(Protocol):
    """A model whose answers can be heard as they come."""

    def pieces(self, ask: Ask) -> AsyncGenerator[str, None]:
        """What the model says, as it says it."""
        ...


class PutOff(ModelError):
    """The model asks to be left alone for a while. Nothing is lost: the work is done later.

    `counts`: it is one of the tries that the work has. What waits for tomorrow's allowance has lost none.
    """

    def __init__(self, message: str, after_s: float, *, counts: bool = True) -> None:
        super().__init__(message)
        self.after_s = after_s
        self.counts = counts


class CalledModel:
    """An async function as a model: it is given an `Ask` and gives text, or an `Answer`."""

    def __init__(self, call: Callable[[Ask], Awaitable[str | Answer]], name: str = "") -> None:
        self.name = name or str(getattr(call, "__name__", type(call).__name__))
        self._call = call

    async def answer(self, ask: Ask) -> Answer:
        given = await self._call(ask)
        return given if isinstance(given, Answer) else Answer(given)


Given = ChatModel | Callable[[Ask], Awaitable[str | Answer]]
"""What can stand for a model: one, an async function, or (by its looks) a chat model of LangChain."""


def open_model(name: str, settings: Settings) -> ChatModel | None:
    """The model of that name; None where there is none. Nothing is sent yet.

    >>> open_model("", Settings()) is None
    True
    """
    kind, _, detail = name.partition(":")
    if not name:
        return None
    if kind != "openai" or not detail:
        raise ValidationError("must be openai:MODEL, or empty", field="llm")
    endpoint = _driver("openai", "openai").EndpointModel
    model: ChatModel = endpoint(detail, url=settings.llm_url, key=settings.llm_key, answer_s=settings.llm_timeout_s)
    return model


def as_model(given: Any) -> ChatModel:
    """What was handed in, as a model."""
    if isinstance(given, ChatModel):
        return given
    if hasattr(given, "ainvoke"):
        model: ChatModel = _driver("langchain", "langchain").LangChainModel(given)
        return model
    if inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None)):  # noqa: B004
        return CalledModel(given)
    raise ValidationError("must be a model, a chat model of LangChain or an async function", field="llm")


def _driver(module: str, extra: str) -> Any:
    try:
        return import_module(f"recollect.models.{module}")
    except ImportError as error:
        raise ModelError(f"This model needs more packages. Run `pip install 'recollect[{extra}]'`.") from error
