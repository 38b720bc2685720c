"""Any endpoint that embeds as OpenAI's does: `POST {url}/embeddings` with a model and texts.

Whoever waits for a vector waits for seconds, not minutes: a call that fails is tried again only
briefly here, and the job that needs it is tried again later by the worker. Answers are looked at
before anything is made of them, and neither they nor the key ever stand in an error.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np

from recollect.errors import EmbeddingError, ValidationError
from recollect.providers import Floats

TEXTS_AT_ONCE = 64
"""Texts of one request: endpoints take more, but a failed request is then cheap to repeat."""
CHARACTERS_MAX = 24_000
"""Characters of a text that are sent: about the 8,000 tokens that most endpoints take at most."""
REMEMBERED = 2_000
"""Texts whose vectors are kept, the latest used: 12 MB at 1,536 numbers each."""
CONNECT_S, ANSWER_S = 5.0, 30.0
"""How long to wait for a connection, and for each part of an answer."""
TRIES = 3
"""How often one request is sent; then the job is put off."""
WAIT_S = 0.5
"""Wait before the second try; doubles with each."""
WAIT_MAX_S = 20.0
"""The longest `Retry-After` that is waited for in the call; a longer one is left to the job's own retries."""
ANSWER_MAX_BYTES = 64 << 20
"""An answer above this is no list of vectors."""


class EndpointEmbedder:
    """Embeds by asking an endpoint. `model` may end with `@512`: then 512 numbers are asked for."""

    def __init__(
        self, model: str, *, url: str, key: str = "", answer_s: float = ANSWER_S, wait_s: float = WAIT_S
    ) -> None:
        self.name = f"openai:{model}"
        self._model, _, wanted = model.partition("@")
        if not self._model or (wanted and not (wanted.isascii() and wanted.isdigit() and int(wanted))):
            raise ValidationError("must be openai:MODEL or openai:MODEL@NUMBERS", field="embedder")
        _check(url, key)
        self._url = f"{url.rstrip('/')}/embeddings"
        self._key = key
        self._answer_s = answer_s
        self._wait_s = wait_s
        self._asked_for = {"dimensions": int(wanted)} if wanted else {}
        self._dimensions = int(wanted or 0)
        self._remembered: OrderedDict[bytes, Floats] = OrderedDict()
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"<EndpointEmbedder {self.name}>"

    @property
    def dimensions(self) -> int:
        """As asked for, or known from the first answer; 0 before."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Floats:
        """One row for each text. A text that was embedded lately is not sent again."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        known = {key: self._remembered[key] for key in keys if key in self._remembered}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        unsent = list(new)
        for start in range(0, len(unsent), TEXTS_AT_ONCE):
            batch = unsent[start : start + TEXTS_AT_ONCE]
            rows = await self._asked([new[key][:CHARACTERS_MAX] for key in batch])
            known.update(zip(batch, rows, strict=True))
            # Each batch at once: when a later one fails, what was paid for is not lost.
            self._remember(batch, rows)
        return np.array([known[key] for key in keys], np.float32).reshape(len(keys), self._dimensions)

    async def disconnect(self) -> None:
        """Let go of idle connections; the next text opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def _remember(self, keys: Sequence[bytes], rows: Floats) -> None:
        for key, row in zip(keys, rows, strict=True):
            self._remembered[key] = row
            self._remembered.move_to_end(key)
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    async def _asked(self, texts: Sequence[str]) -> Floats:
        """The rows of one request, tried again after what may pass by itself."""
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"} | self._asked_for
        for attempt in range(1, TRIES + 1):
            wait_s = self._wait_s * 2 ** (attempt - 1)
            try:
                status, headers, content = await self._sent(body)
            except httpx.TimeoutException as error:
                raise self._failed("did not answer in time") from error
            except httpx.HTTPError as error:
                problem = f"could not be reached ({type(error).__name__})"
            else:
                if status == 200:
                    return self._rows(content, len(texts))
                problem = f"answered {status}"
                if status != 429 and status < 500:
                    raise self._failed(f"{problem}; check embedder, embedder_url and embedder_key")
                wait_s = _retry_after_s(headers, wait_s)
            if attempt == TRIES or wait_s > WAIT_MAX_S:
                raise self._failed(problem)
            await asyncio.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _sent(self, body: dict[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        # In parts, so that an answer without end is not taken into memory.
        async with self._connected().stream("POST", self._url, json=body, headers=self._headers()) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > ANSWER_MAX_BYTES:
                    raise self._failed("gave an answer that is too large")
            return response.status_code, response.headers, bytes(content)

    def _connected(self) -> httpx.AsyncClient:
        """Connections that are kept open; new ones on another event loop, to which they do not belong."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            timeout = httpx.Timeout(self._answer_s, connect=CONNECT_S)
            # A redirect would carry texts and key to where nobody sent them.
            self._client, self._loop = httpx.AsyncClient(timeout=timeout, follow_redirects=False), loop
        return self._client

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    # ── looking at the answer ────────────────────────────────────────────────────────────────────

    def _rows(self, content: bytes, count: int) -> Floats:
        """The vectors of an answer, in the order asked."""
        try:
            answer = enumerate(json.loads(content)["data"])
            placed = {entry.get("index", place): entry["embedding"] for place, entry in answer}
            with np.errstate(over="ignore"):
                rows = np.array([placed[place] for place in range(count)], np.float64).astype(np.float32)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise self._failed("gave an answer that is no list of vectors") from error
        if rows.ndim != 2 or len(placed) != count or not rows.size:
            raise self._failed(f"gave {len(placed)} vectors for {count} texts")
        if self._dimensions and rows.shape[1] != self._dimensions:
            raise self._failed(f"gave vectors of {rows.shape[1]} numbers instead of {self._dimensions}")
        if not np.isfinite(rows).all():
            raise self._failed("gave NaN, infinite or too large numbers")
        self._dimensions = rows.shape[1]
        return rows

    def _failed(self, problem: str) -> EmbeddingError:
        return EmbeddingError(f"The endpoint of {self.name} {problem}. Words are still searchable.")


def _check(url: str, key: str) -> None:
    try:
        allowed = httpx.URL(url).scheme in ("http", "https")
    except (httpx.InvalidURL, ValueError):
        allowed = False
    if not allowed:
        raise ValidationError("must be an http:// or https:// URL", field="embedder_url")
    if not (key.isascii() and (not key or key.isprintable())):
        raise ValidationError("must be printable ASCII, as it goes into a header", field="embedder_key")


def _retry_after_s(headers: httpx.Headers, otherwise: float) -> float:
    """How long the endpoint asks to be left alone; a date is not understood, as hardly any sends one."""
    try:
        return max(float(headers["retry-after"]), 0.0)
    except (KeyError, ValueError):
        return otherwise
