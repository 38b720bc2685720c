"""What search is compared with: plain full text, an embedder alone, and the rank fusion of both.

This is what most agent memories do, each done as well as a few lines allow.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.interfaces.datasets import Asked, Conversation
from recollect.providers import Embedder

FUSION_K = 60
"""The constant of reciprocal rank fusion, as published."""
WORDS_MAX = 64
"""Words of a question that are searched for, as many as search uses."""


class FullText:
    """SQLite FTS5 with the porter stemmer: any word of the question, ordered by bm25."""

    name = "SQLite FTS5"

    async def tell(self, conversation: Conversation) -> None:
        self._database = sqlite3.connect(":memory:")
        self._database.execute("create virtual table turns using fts5(id unindexed, told, tokenize='porter unicode61')")
        rows = ((turn.id, turn.told) for turn in conversation.turns)
        self._database.executemany("insert into turns values (?, ?)", rows)

    async def find(self, question: Asked, limit: int) -> list[str]:
        words = list(dict.fromkeys(re.findall(r"\w+", question.text.lower())))[:WORDS_MAX]
        wanted = " OR ".join(f'"{word}"' for word in words)
        found = "select id from turns where turns match ? order by bm25(turns) limit ?"
        return [id for (id,) in self._database.execute(found, (wanted, limit))] if words else []


class Meaning:
    """The embedder alone: every turn, ordered by cosine."""

    name = "embedder alone"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def tell(self, conversation: Conversation) -> None:
        self._ids = np.array([turn.id for turn in conversation.turns])
        self._matrix = await self._vectors([turn.told for turn in conversation.turns])

    async def find(self, question: Asked, limit: int) -> list[str]:
        scores = np.vecdot(self._matrix, (await self._vectors([question.text]))[0])
        found: list[str] = self._ids[np.argsort(-scores, kind="stable")[:limit]].tolist()
        return found

    async def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = await self._embedder.embed(texts)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: NDArray[np.float32] = (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
        return unit


class Fused:
    """Reciprocal rank fusion of full text and the embedder."""

    name = "rank fusion of both"

    def __init__(self, embedder: Embedder) -> None:
        self._both = (FullText(), Meaning(embedder))

    async def tell(self, conversation: Conversation) -> None:
        for ranker in self._both:
            await ranker.tell(conversation)

    async def find(self, question: Asked, limit: int) -> list[str]:
        scores: dict[str, float] = defaultdict(float)
        for ranker in self._both:
            for place, id in enumerate(await ranker.find(question, limit), 1):
                scores[id] += 1 / (FUSION_K + place)
        return sorted(scores, key=lambda id: -scores[id])[:limit]
