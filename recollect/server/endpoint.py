"""An assistant behind an OpenAI-compatible endpoint: `POST {url}/chat/completions`, read as it comes.

Answers are looked at before anything is made of them: their size is bounded, and neither they nor
the key ever stand in an error.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx

from recollect.errors import ModelError
from recollect.memory import Session
from recollect.server.agents import Agent
from recollect.server.executors import Prepared
from recollect.validate import LIMITS

CONNECT_S = 5.0
LINE_CHARACTERS_MAX = 1 << 20
"""One event of a stream; more in one line is no answer."""
END = "[DONE]"


class Endpoint:
    """Connections to one endpoint, shared by all who talk to its agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        # A redirect would carry the conversation and the key to where nobody sent them.
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(agent.timeout_s, connect=CONNECT_S), follow_redirects=False
        )

    async def close(self) -> None:
        """Let go of idle connections."""
        await self._client.aclose()

    async def pieces(self, messages: list[dict[str, Any]]) -> AsyncGenerator[str, None]:
        """What the model says, as it says it."""
        agent = self._agent
        body = {"model": agent.model, "messages": messages, "max_tokens": agent.max_tokens, "stream": True}
        headers = {"Authorization": f"Bearer {agent.key}"} if agent.key else {}
        url = f"{agent.url.rstrip('/')}/chat/completions"
        try:
            async with self._client.stream("POST", url, json=body, headers=headers) as response:
                if response.status_code != 200:
                    raise self._failed(f"answered {response.status_code}")
                async for line in _lines(response):
                    piece = self._piece(line)
                    if piece is None:
                        return
                    if piece:
                        yield piece
        except httpx.TimeoutException as error:
            raise self._failed("did not answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(f"could not be reached ({type(error).__name__})") from error

    def _piece(self, line: str) -> str | None:
        """The text in one line of the stream; None at its end."""
        if not line.startswith("data:"):
            return ""
        data = line.removeprefix("data:").strip()
        if data == END:
            return None
        try:
            choices = json.loads(data)["choices"]
            text = choices[0]["delta"].get("content") if choices else ""
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise self._failed("gave an answer that is no chat completion") from error
        return text if isinstance(text, str) else ""

    def _failed(self, problem: str) -> ModelError:
        return ModelError(f"The model of this agent {problem}. What the user said is kept.", field="agent")


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    """The lines of a stream; one without an end is not taken into memory."""
    rest = ""
    async for text in response.aiter_text():
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            yield line.rstrip("\r")
        if len(rest) > LINE_CHARACTERS_MAX:
            raise httpx.DecodingError("a line without an end")
    if rest:
        yield rest


class FromModel:
    """Answers with a model that is given the agent's prompt and the context of the question."""

    def __init__(self, agent: Agent, endpoint: Endpoint) -> None:
        self._agent = agent
        self._endpoint = endpoint

    async def prepare(self, chat: Session, text: str) -> Prepared:
        return Prepared(await chat.get_context(text, max_tokens=self._agent.context_tokens))

    async def answer(self, prepared: Prepared) -> AsyncGenerator[str, None]:
        messages = [{"role": "system", "content": self._agent.prompt}, *prepared.context.to_openai()]
        told = 0
        async with aclosing(self._endpoint.pieces(messages)) as pieces:
            async for piece in pieces:
                text = piece.encode("utf-8", "replace")
                told += len(text)
                if told > LIMITS.text_bytes:
                    raise ModelError("The model's answer is too long to be kept. What the user said is.", field="agent")
                yield text.decode()
        if not told:
            raise ModelError("The model of this agent said nothing. What the user said is kept.", field="agent")
