"""Stand-ins that keep the real promises: a clock that is set by hand, embedders good and bad, a store that counts.

Each is what it says, and nothing is patched: pass it to `Memory.open` like the real thing.

    clock = ManualClock()
    async with Memory.open("memory://", clock=clock, embedder=HashingEmbedder(), worker=False) as memory:
        ...
        clock.advance(days=7)
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from recollect.errors import EmbeddingError, ModelError
from recollect.filters import Filter, Reach
from recollect.models import Answer, Ask
from recollect.policies.words import terms
from recollect.providers import Floats
from recollect.records import Changes, Job, Partition, Record, Vector
from recollect.stores.contract import FORGET_ROWS, Candidate, Delta, Forgotten, Mark, Page, Store, Survey

NOON_MS = 1_772_366_400_000
"""2026-03-01T12:00:00Z, where a clock starts by default."""


class ManualClock:
    """A clock that stands still until it is moved, forward or back."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: int = 0
    ) -> int:
        """Move by this much; negative goes back. Returns the new time."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        self.now_ms += step // timedelta(milliseconds=1)
        return self.now_ms


class HashingEmbedder:
    """Small and the same on every machine: each stem gets a direction by its hash; texts that share words are near."""

    def __init__(self, dimensions: int = 64, name: str = "hashing") -> None:
        self.name = f"{name}-{dimensions}"
        self.dimensions = dimensions
        self.calls = 0
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> Floats:
        self.calls += 1
        self.texts += len(texts)
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for term in terms(text, "en"):
                digest = hashlib.blake2b(term.encode(), digest_size=8).digest()
                row[int.from_bytes(digest[:4]) % self.dimensions] += 1.0 if digest[4] & 1 else -1.0
        return rows


class WordReranker:
    """Counts the words that question and passage share, plus a weight for texts that a test wants preferred."""

    name = "words"

    def __init__(self, preferred: Mapping[str, float] | None = None) -> None:
        self._preferred = preferred or {}
        self.read: list[str] = []

    def score(self, question: str, passages: Sequence[str]) -> Floats:
        self.read += passages
        asked = set(terms(question, "en"))
        rows = [
            len(asked & set(terms(passage, "en"))) + sum(w for t, w in self._preferred.items() if t in passage)
            for passage in passages
        ]
        return np.array(rows, np.float32)


class FailingReranker:
    """Raises, or returns something that is not an answer."""

    name = "failing"

    def __init__(self, answer: Any = None) -> None:
        self._answer = answer

    def score(self, question: str, passages: Sequence[str]) -> Any:
        if self._answer is None:
            raise RuntimeError("no model")
        return self._answer


class FailingEmbedder(HashingEmbedder):
    """Raises the error it is given for the first `times` calls (forever if None), then works."""

    def __init__(self, error: Exception | None = None, *, times: int | None = None) -> None:
        super().__init__()
        self._error = error or EmbeddingError("The embedder is down. Words are still searchable.")
        self._left = times

    async def embed(self, texts: Sequence[str]) -> Floats:
        if self._left is None or self._left > 0:
            self._left = None if self._left is None else self._left - 1
            self.calls += 1
            raise self._error
        return await super().embed(texts)


class WrongEmbedder(HashingEmbedder):
    """Answers every call with whatever a function makes of the right rows: NaN, another shape, no array at all."""

    def __init__(self, spoil: Callable[[Floats], Any]) -> None:
        super().__init__()
        self._spoil = spoil

    async def embed(self, texts: Sequence[str]) -> Floats:
        spoiled: Floats = self._spoil(await super().embed(texts))
        return spoiled


WRONG_ANSWERS: Mapping[str, Callable[[Floats], Any]] = {
    "NaN": lambda rows: np.full_like(rows, np.nan),
    "infinity": lambda rows: np.full_like(rows, np.inf),
    "minus infinity": lambda rows: np.full_like(rows, -np.inf),
    "a wrong dimension": lambda rows: rows[:, :-1],
    "an empty array": lambda rows: rows[:, :0],
    "None": lambda rows: None,
    "text": lambda rows: "0.1 0.2",
    "strings": lambda rows: rows.astype(str),
    "one vector too many": lambda rows: np.vstack([rows, rows[:1]]),
    "no vectors": lambda rows: rows[:0],
    "numbers beyond float32": lambda rows: np.full(rows.shape, 1e300),
}
"""Answers that embedders have been seen to give, none of which may ever be stored."""


class GatedEmbedder(HashingEmbedder):
    """As slow as the test wants: an answer waits until `open` is set. `entered` says that somebody is waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.entered = asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> Floats:
        self.entered.set()
        await self.open.wait()
        return await super().embed(texts)


class CountingStore:
    """A store that counts what is asked of the one behind it: calls by verb, and rows read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.abilities = store.abilities
        self.calls: Counter[str] = Counter()
        self.rows = 0

    def reset(self) -> None:
        """Start counting from zero again."""
        self.calls.clear()
        self.rows = 0

    async def commit(self, changes: Changes, now: int) -> int:
        self.calls["commit"] += 1
        return await self._store.commit(changes, now)

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        self.calls["get"] += 1
        found = await self._store.get(partition, ids, now)
        self.rows += len(found)
        return found

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        self.calls["list"] += 1
        page = await self._store.list(where, now, newest_first=newest_first, limit=limit, after=after)
        self.rows += len(page.records)
        return page

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        self.calls["changes"] += 1
        delta = await self._store.changes(partition, mark, limit)
        self.rows += len(delta.put) + len(delta.dropped)
        return delta

    async def search(
        self, reach: Reach, *, text: str | None, vector: Vector | None, limit: int, now: int
    ) -> Mapping[str, Sequence[Candidate]]:
        self.calls["search"] += 1
        return await self._store.search(reach, text=text, vector=vector, limit=limit, now=now)

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        self.calls["claim"] += 1
        return await self._store.claim(now, lease_s, limit)

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        self.calls["forget"] += 1
        return await self._store.forget(where, now, limit)

    async def close(self) -> None:
        await self._store.close()

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        return await self._store.partitions(after, limit)

    async def survey(self, now: int) -> Survey:
        return await self._store.survey(now)

    async def compact(self) -> None:
        await self._store.compact()

    async def check(self) -> Sequence[str]:
        return await self._store.check()

    def describe(self) -> dict[str, Any]:
        return self._store.describe()


class MeddlingStore(CountingStore):
    """Does something right before a chosen commit, as another process might."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._meddle: tuple[Callable[[Changes], bool], Callable[[], Awaitable[object]]] | None = None

    def before(self, wanted: Callable[[Changes], bool], act: Callable[[], Awaitable[object]]) -> None:
        """Act once, right before the next commit that `wanted` accepts."""
        self._meddle = wanted, act

    async def commit(self, changes: Changes, now: int) -> int:
        if self._meddle is not None and self._meddle[0](changes):
            (_, act), self._meddle = self._meddle, None
            await act()
        return await super().commit(changes, now)


Reply = str | Mapping[str, Any] | Exception | Callable[[Ask], Any]
"""What a scripted model answers: a text, an object that it writes as JSON, an error, or a function of the question."""


class ScriptedModel:
    """A chat model that follows a script: one reply for each question, by its title; the last of several repeats.

    ScriptedModel(learned=[ModelError(), {"findings": [], "ratings": []}])
    """

    def __init__(self, name: str = "scripted", **replies: Reply | list[Reply]) -> None:
        self.name = name
        self.asked: list[Ask] = []
        self._replies: dict[str, list[Reply]] = {
            title: list(given) if isinstance(given, list) else [given] for title, given in replies.items()
        }

    def asked_for(self, title: str) -> list[Ask]:
        """The questions of one kind, in order."""
        return [ask for ask in self.asked if (ask.schema or {}).get("title") == title]

    async def answer(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        title = str((ask.schema or {}).get("title", "text"))
        replies = self._replies.get(title) or [ModelError("The script has nothing for this question.")]
        reply: Any = replies.pop(0) if len(replies) > 1 else replies[0]
        if callable(reply):
            reply = reply(ask)
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Answer) else Answer(reply if isinstance(reply, str) else json.dumps(reply))


def finding(message: int, quote: str, value: str, *, key: str = "", layer: str = "fact", **more: str) -> dict[str, Any]:
    """One finding as a model reports it, in full."""
    usual = {"subject": "", "change": "holds", "sure": "certain"}
    return {"message": message, "layer": layer, "key": key, "value": value, "quote": quote} | usual | more


def learned(*findings: Mapping[str, Any], ratings: Mapping[int, int] | None = None) -> dict[str, Any]:
    """A complete answer to the question of what was learned."""
    rated = [{"message": message, "rating": rating} for message, rating in (ratings or {}).items()]
    return {"findings": list(findings), "ratings": rated}
