"""Any endpoint compatible with OpenAI's embeddings: `POST {url}/embeddings` with a model and texts.

A call that fails is retried only briefly (`wire.py`), and the worker later retries the job that
needs it. Answers are validated before they are used.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from recollect import wire
from recollect.errors import EmbeddingError, ValidationError
from recollect.providers import Floats

TEXTS_AT_ONCE = 64
"""Texts per request: endpoints accept more, but this way a failed request is cheap to repeat."""
CHARACTERS_MAX = 24_000
"""Characters of a text that are sent: about the 8,000 tokens that most endpoints accept at most."""
REMEMBERED = 2_000
"""Texts whose vectors are cached, least recently used evicted first: 12 MB at 1,536 numbers each."""
ANSWER_MAX_BYTES = 64 << 20
"""A larger answer is not a list of vectors."""


class EndpointEmbedder:
    """Embeds by calling an endpoint. `model` may end with `@512` to request 512 numbers."""

    def __init__(
        self, model: str, *, url: str, key: str = "", answer_s: float = wire.ANSWER_S, wait_s: float = wire.WAIT_S
    ) -> None:
        self.name = f"openai:{model}"
        self._model, _, wanted = model.partition("@")
        if not self._model or (wanted and not (wanted.isascii() and wanted.isdigit() and int(wanted))):
            raise ValidationError("must be openai:MODEL or openai:MODEL@NUMBERS", field="embedder")
        wire.check(url, key, url_field="embedder_url", key_field="embedder_key")
        self._wire = wire.Wire(f"{url.rstrip('/')}/embeddings", key, answer_s=answer_s, wait_s=wait_s)
        self._asked_for = {"dimensions": int(wanted)} if wanted else {}
        self._dimensions = int(wanted or 0)
        self._remembered: OrderedDict[bytes, Floats] = OrderedDict()

    def __repr__(self) -> str:
        return f"<EndpointEmbedder {self.name}>"

    @property
    def dimensions(self) -> int:
        """As requested, or known from the first answer; 0 before that."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Floats:
        """One row for each text. A recently embedded text is not sent again."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        known = {key: self._remembered[key] for key in keys if key in self._remembered}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        unsent = list(new)
        for start in range(0, len(unsent), TEXTS_AT_ONCE):
            batch = unsent[start : start + TEXTS_AT_ONCE]
            rows = await self._asked([new[key][:CHARACTERS_MAX] for key in batch])
            known.update(zip(batch, rows, strict=True))
            # After each batch, so that when a later one fails, what was paid for is not lost.
            self._remember(batch, rows)
        return np.array([known[key] for key in keys], np.float32).reshape(len(keys), self._dimensions)

    async def disconnect(self) -> None:
        """Close idle connections; the next text opens new ones."""
        await self._wire.disconnect()

    def _remember(self, keys: Sequence[bytes], rows: Floats) -> None:
        for key, row in zip(keys, rows, strict=True):
            self._remembered[key] = row
            self._remembered.move_to_end(key)
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)

    async def _asked(self, texts: Sequence[str]) -> Floats:
        """The rows of one request."""
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"} | self._asked_for
        try:
            content = await self._wire.post(body, bytes_max=ANSWER_MAX_BYTES)
        except wire.Trouble as trouble:
            hint = "; check embedder, embedder_url and embedder_key" if trouble.refused else ""
            failed = self._failed(f"{trouble.problem}{hint}")
            failed.after_s = trouble.again_s or 0.0
            raise failed from trouble
        return self._rows(content, len(texts))

    # ── validating the answer ────────────────────────────────────────────────────────────────────

    def _rows(self, content: bytes, count: int) -> Floats:
        """The vectors of an answer, in the order of the request."""
        try:
            answer = enumerate(json.loads(content)["data"])
            placed = {entry.get("index", place): entry["embedding"] for place, entry in answer}
            with np.errstate(over="ignore"):
                rows = np.array([placed[place] for place in range(count)], np.float64).astype(np.float32)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise self._failed("returned something other than a list of vectors") from error
        if rows.ndim != 2 or len(placed) != count or not rows.size:
            raise self._failed(f"returned {len(placed)} vectors for {count} texts")
        if self._dimensions and rows.shape[1] != self._dimensions:
            raise self._failed(f"returned vectors of {rows.shape[1]} numbers instead of {self._dimensions}")
        if not np.isfinite(rows).all():
            raise self._failed("returned NaN, infinite or too large numbers")
        self._dimensions = rows.shape[1]
        return rows

    def _failed(self, problem: str) -> EmbeddingError:
        return EmbeddingError(f"The endpoint of {self.name} {problem}. Words are still searchable.")
