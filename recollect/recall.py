"""Gather, score, select: from a question to the records that answer it, each with its reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.errors import EmbeddingError
from recollect.filters import Condition
from recollect.index import Indexes, PartitionIndex
from recollect.policies import scoring
from recollect.policies.scoring import Scores
from recollect.policies.words import query_terms
from recollect.providers import Embedder
from recollect.records import Clock, Hit, Leg, Partition, Record, Scope

NOT_FOUND = -9.0
"""The score of a row that may not be found: under every score that the legs can give."""
QUERY_CHARACTERS = 2_000
"""How much of a question is searched for: a pasted document is not a better question."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, ready for every leg: the terms, the vector if there is one, when it is asked."""

    text: str
    terms: tuple[str, ...]
    vector: NDArray[np.float32] | None
    at: int


class Legs(Mapping[str, Leg]):
    """Why a row was found, worked out when somebody asks."""

    def __init__(self, raw: Mapping[str, Scores], shares: Mapping[str, Scores], row: int) -> None:
        self._raw, self._shares, self._row = raw, shares, row

    def __getitem__(self, name: str) -> Leg:
        scores = self._raw[name]
        score = float(scores[self._row])
        rank = int(np.count_nonzero(scores > score)) + 1
        return Leg(score, rank, float(self._shares[name][self._row]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


@dataclass(frozen=True, slots=True)
class _Scored:
    """One index with the score of each of its rows."""

    index: PartitionIndex
    total: Scores
    raw: Mapping[str, Scores]
    shares: Mapping[str, Scores]


class Recall:
    """Finds records of a user, and of the user's org."""

    def __init__(self, indexes: Indexes, embedder: Embedder | None, language: str, clock: Clock) -> None:
        self._indexes = indexes
        self._embedder = embedder
        self._language = language
        self._clock = clock

    async def question(self, text: str, at: int | None = None) -> Question:
        """Read a question once for all legs. Without a vector, words alone answer."""
        text = text[:QUERY_CHARACTERS]
        vector = None
        if self._embedder is not None:
            try:
                rows = await self._embedder.embed([text])
                if rows.shape == (1, self._embedder.dimensions) and np.isfinite(rows).all() and rows.any():
                    vector = rows[0]
            except EmbeddingError:
                vector = None
        terms = tuple(dict.fromkeys(query_terms(text, self._language)))
        return Question(text, terms, vector, self._clock() if at is None else at)

    async def search(
        self, scope: Scope, question: Question, *, layers: Sequence[str] = (), test: Condition | None = None, limit: int
    ) -> list[Hit]:
        """The best records, each with its place and reasons."""
        now = self._clock()
        scored = []
        for partition in dict.fromkeys((scope.partition, Partition(scope.org, ""))):
            index = await self._indexes.current(partition)
            if len(index):
                scored.append(_score(index, question, layers, now))
        return _select(scored, test, limit)


def _score(index: PartitionIndex, question: Question, layers: Sequence[str], now: int) -> _Scored:
    """Every leg over every row, scaled inside the query, weighed and added."""
    alive = index.alive(now, layers)
    raw: dict[str, Scores] = {"words": index.words(question.terms)}
    legs: dict[str, Scores] = {"words": scoring.scale_words(raw["words"], _best(raw["words"], alive))}
    found = raw["words"] > 0
    if question.vector is not None:
        raw["meaning"] = index.meaning(question.vector, alive)
        legs["meaning"] = scoring.scale_meaning(raw["meaning"], _best(raw["meaning"], alive))
        found = np.ones_like(found)
    raw["recency"] = legs["recency"] = scoring.recency(index.when, question.at)
    raw["importance"] = legs["importance"] = index.importance
    shares = scoring.shares(scoring.WEIGHTS, legs)
    total: Scores = np.where(alive & found, sum(shares.values()), np.float32(NOT_FOUND))
    return _Scored(index, total, raw, shares)


def _ordered(total: Scores, count: int) -> NDArray[np.intp]:
    """The best rows, best first; ties by age, so that the order is the same on every store."""
    if count < len(total):
        best = np.sort(np.argpartition(total, -count)[-count:])
        return best[np.argsort(-total[best], kind="stable")]
    return np.argsort(-total, kind="stable")


def _best(scores: Scores, alive: NDArray[np.bool_]) -> float:
    return float(np.max(scores, where=alive, initial=0.0))


def _select(scored: Sequence[_Scored], test: Condition | None, limit: int) -> list[Hit]:
    """The first rows that pass the filter, without texts that were just given."""
    # A filter may have to go far down; without one, only repeated texts are passed over.
    count = 2 * limit + 16 if test is None else max((len(each.total) for each in scored), default=0)
    ranked: list[tuple[float, int, int]] = []
    for place, each in enumerate(scored):
        rows = _ordered(each.total, count)
        ranked += zip(each.total[rows].tolist(), [place] * len(rows), rows.tolist(), strict=True)
    if len(scored) > 1:
        ranked.sort(key=lambda entry: -entry[0])
    hits: list[Hit] = []
    seen: set[str] = set()
    for score, place, row in ranked:
        if score == NOT_FOUND or len(hits) == limit:
            break
        each = scored[place]
        record: Record = each.index.records[row]
        if record.content in seen or (test is not None and not test.holds(record)):
            continue
        seen.add(record.content)
        hits.append(Hit(record, score, len(hits) + 1, Legs(each.raw, each.shares, row)))
    return hits
