"""Chat models: one small protocol, and its adapters. No model is needed; with one, more is learned.

openai:MODEL    any endpoint compatible with OpenAI's (`llm_url`, `llm_key`)
an object       anything with `name` and `answer`, any LangChain chat model, or any async function
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from recollect.errors import ModelError, ValidationError
from recollect.settings import Settings

ANSWER_TOKENS = 1_500
"""The longest answer requested by default."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a model: messages with `role` and `content`, the shape of the answer, the limits."""

    messages: Sequence[Mapping[str, Any]]
    schema: Mapping[str, Any] | None = None
    """A JSON schema with a `title`; without one the answer is free text."""
    tokens_max: int = ANSWER_TOKENS
    tools: Sequence[Mapping[str, Any]] = ()
    """The tools the model may call, in OpenAI's function format."""

    @property
    def text(self) -> str:
        """The whole request as text, for counting tokens."""
        return "\n".join(str(message["content"]) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered, and its cost in tokens; None if the model does not report it."""

    text: str = field(repr=False)
    tokens_in: int | None = None
    tokens_out: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call requested by a model: the tool's name, and the arguments as the JSON the model wrote."""

    id: str
    name: str
    arguments: str = field(repr=False)


@runtime_checkable
class ChatModel(Protocol):
    """A model that answers. Raises `ModelError` if it cannot, with its cost in `tokens`; never waits for ever."""

    @property
    def name(self) -> str:
        """Kept with everything that is learned from its answers."""
        ...

    async def answer(self, ask: Ask) -> Answer:
        """The answer to one question, not yet validated."""
        ...


class PutOff(ModelError):
    """The model is unavailable for a while. Nothing is lost: the job is done later.

    `counts`: it uses up one of the job's attempts. A job that waits for tomorrow's allowance loses none.
    """

    tokens = 0

    def __init__(self, message: str, after_s: float, *, counts: bool = True) -> None:
        super().__init__(message)
        self.after_s = after_s
        self.counts = counts


class CalledModel:
    """An async function as a model: it takes an `Ask` and returns text, or an `Answer`."""

    def __init__(self, call: Callable[[Ask], Awaitable[str | Answer]], name: str = "") -> None:
        self.name = name or str(getattr(call, "__name__", type(call).__name__))
        self._call = call

    async def answer(self, ask: Ask) -> Answer:
        given = await self._call(ask)
        return given if isinstance(given, Answer) else Answer(given)


Given = ChatModel | Callable[[Ask], Awaitable[str | Answer]]
"""What is accepted as a model: a model, an async function, or (by duck typing) a LangChain chat model."""


def open_model(name: str, settings: Settings) -> ChatModel | None:
    """The model with that name; None for an empty name. Nothing is sent yet.

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
    """The given object as a model."""
    if isinstance(given, ChatModel):
        return given
    if hasattr(given, "ainvoke"):
        model: ChatModel = _driver("langchain", "langchain").LangChainModel(given)
        return model
    if inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None)):  # noqa: B004
        return CalledModel(given)
    raise ValidationError("must be a model, a LangChain chat model or an async function", field="llm")


def _driver(module: str, extra: str) -> Any:
    try:
        return import_module(f"recollect.models.{module}")
    except ImportError as error:
        raise ModelError(f'This model needs more packages. Run `pip install "recollect[{extra}]"`.') from error
