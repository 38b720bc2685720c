"""Any endpoint compatible with OpenAI's chat: `POST {url}/chat/completions`, whole or streamed."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from recollect import wire
from recollect.errors import ModelError, ValidationError
from recollect.models import Answer, Ask, PutOff, ToolCall

ANSWER_MAX_BYTES = 1 << 20
"""A larger answer is rejected: requests are for a few thousand tokens."""
END = "[DONE]"
CALLS_MAX, CALLS_CHARACTERS = 8, 64 * 1024
"""How many tools a model may call at once, and the most characters of all these calls together."""
_REASONS = re.compile(r"(?:o[1-9]|gpt-[5-9])(?![a-z0-9])")
"""OpenAI's reasoning models, which use another name for the limit of an answer."""


class EndpointModel:
    """A model behind an endpoint. Its connections are shared by all callers."""

    def __init__(
        self,
        model: str,
        *,
        url: str,
        key: str = "",
        answer_s: float = wire.ANSWER_S,
        wait_s: float = wire.WAIT_S,
        url_field: str = "llm_url",
        key_field: str = "llm_key",
    ) -> None:
        if not model:
            raise ValidationError("must name a model", field="llm")
        wire.check(url, key, url_field=url_field, key_field=key_field)
        self.name = f"openai:{model}"
        self._model = model
        self._limit = "max_completion_tokens" if _REASONS.match(model) else "max_tokens"
        self._wire = wire.Wire(f"{url.rstrip('/')}/chat/completions", key, answer_s=answer_s, wait_s=wait_s)

    def __repr__(self) -> str:
        return f"<EndpointModel {self.name}>"

    async def answer(self, ask: Ask) -> Answer:
        """The whole answer. One that was cut off is an error."""
        body = self._body(ask)
        if ask.schema is not None:
            named = {"name": str(ask.schema.get("title", "answer")), "schema": ask.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        try:
            content = await self._wire.post(body, bytes_max=ANSWER_MAX_BYTES)
        except wire.Trouble as trouble:
            raise self._troubled(trouble) from trouble
        return self._read(content)

    async def spoken(self, ask: Ask) -> AsyncGenerator[str | ToolCall, None]:
        """The model's answer, piece by piece as it is generated, and at the end the tools it wants to call."""
        calls: dict[int, dict[str, str]] = {}
        is_whole = False
        try:
            async with aclosing(self._wire.lines(self._body(ask) | {"stream": True})) as lines:
                async for line in lines:
                    choice = self._choice(line)
                    is_whole = is_whole or choice is None or bool(choice.get("finish_reason"))
                    if choice is None:
                        break
                    delta = choice.get("delta", {})
                    if ask.tools:
                        self._gather(calls, delta.get("tool_calls"))
                    text = delta.get("content")
                    if isinstance(text, str) and text:
                        yield text
        except wire.Trouble as trouble:
            raise self._troubled(trouble) from trouble
        if not is_whole:
            raise self._failed("stopped in the middle of its answer")
        for index in sorted(calls):
            yield ToolCall(**calls[index])

    async def disconnect(self) -> None:
        """Close idle connections; the next question opens new ones."""
        await self._wire.disconnect()

    def _body(self, ask: Ask) -> dict[str, Any]:
        messages = [dict(each) for each in ask.messages]
        body: dict[str, Any] = {"model": self._model, "messages": messages, self._limit: ask.tokens_max}
        return body | ({"tools": list(ask.tools)} if ask.tools else {})

    def _read(self, content: bytes) -> Answer:
        try:
            body = json.loads(content)
            choice, usage = body["choices"][0], body.get("usage") or {}
            text, ended = choice["message"]["content"], choice.get("finish_reason")
            counted = [_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise self._failed("returned something other than a chat completion") from error
        if ended == "length":
            raise self._failed("was cut off in the middle of its answer", _sum(counted))
        if not isinstance(text, str) or not text.strip():
            raise self._failed("returned an empty answer", _sum(counted))
        return Answer(text, *counted)

    def _choice(self, line: str) -> dict[str, Any] | None:
        """What one line of a stream adds, as `delta`, and why it ended, if it did; None after its end."""
        if not line.startswith("data:"):
            return {}
        data = line.removeprefix("data:").strip()
        if data == END:
            return None
        try:
            choices = json.loads(data)["choices"]
            choice = choices[0] if choices else {"delta": {}}
            choice["delta"].get("content")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise self._failed("returned something other than a chat completion") from error
        found: dict[str, Any] = choice
        return found

    def _gather(self, calls: dict[int, dict[str, str]], parts: Any) -> None:
        """Assemble tool calls, which arrive in parts as the text does."""
        try:
            for part in parts or ():
                told = part.get("function") or {}
                index = operator.index(part.get("index") or 0)
                call = calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
                call["id"] += part.get("id") or ""
                call["name"] += told.get("name") or ""
                call["arguments"] += told.get("arguments") or ""
        except (TypeError, AttributeError) as error:
            raise self._failed("made a malformed tool call") from error
        characters = sum(len(text) for call in calls.values() for text in call.values())
        if len(calls) > CALLS_MAX or characters > CALLS_CHARACTERS:
            raise self._failed("called too many tools at once, or with too much data")

    def _troubled(self, trouble: wire.Trouble) -> ModelError:
        if trouble.again_s is not None:
            return PutOff(f"The endpoint of {self.name} {trouble.problem} and asks us to wait.", trouble.again_s)
        hint = "; check its address, key and model" if trouble.refused else ""
        return self._failed(trouble.problem + hint, None if trouble.heard else 0)

    def _failed(self, problem: str, tokens: int | None = None) -> ModelError:
        failed = ModelError(f"The endpoint of {self.name} {problem}. The messages are kept.")
        failed.tokens = tokens
        return failed


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _sum(counted: Sequence[int | None]) -> int | None:
    """What a request and its answer cost together; None if one of them is not reported."""
    known = [count for count in counted if count is not None]
    return sum(known) if len(known) == len(counted) else None
