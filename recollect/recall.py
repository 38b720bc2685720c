"""Gather, score, select: from a question to the records that answer it, each with its reasons."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.filters import Condition
from recollect.index import Indexes, PartitionIndex
from recollect.policies import scoring
from recollect.policies.scoring import Scores
from recollect.policies.words import query_terms
from recollect.providers import Embedder
from recollect.records import Clock, Hit, Leg, Partition, Record, Scope

log = logging.getLogger("recollect.recall")

EMBED_WAIT_S = 2.0
"""How long a question waits for its vector. A person is waiting too, and words alone find most of it."""
NOT_FOUND = -9.0
"""The score of a row that may not be found: under every score that the legs can give."""
SORTED_ROWS = 512
"""Up to so many rows are simply sorted; of more, the best are picked out first."""
LEGS = ("words", "meaning", "recency", "importance")
QUERY_CHARACTERS = 2_000
"""How much of a question is searched for: a pasted document is not a better question."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, ready for every leg: the terms, the vector if there is one, when it is asked."""

    text: str
    terms: tuple[str, ...]
    vector: NDArray[np.float32] | None
    at: int


@dataclass(frozen=True, slots=True)
class _Scored:
    """One index with the score of each of its rows, and what the score is made of."""

    index: PartitionIndex
    total: Scores
    words: Scores
    word_factor: float
    meaning: Scores | None
    meaning_factor: float
    at: int


class Legs(Mapping[str, Leg]):
    """Why a row was found, worked out when somebody asks."""

    def __init__(self, scored: _Scored, row: int) -> None:
        self._scored, self._row = scored, row

    def __getitem__(self, name: str) -> Leg:
        scores, factor = self._leg(name)
        score = float(scores[self._row])
        return Leg(score, int(np.count_nonzero(scores > score)) + 1, score * factor)

    def _leg(self, name: str) -> tuple[Scores, float]:
        scored = self._scored
        if name == "words":
            return scored.words, scored.word_factor
        if name == "meaning" and scored.meaning is not None:
            return scored.meaning, scored.meaning_factor
        size = len(scored.total)
        if name == "recency":
            return scoring.recency(scored.index.when[:size], scored.at), scoring.WEIGHTS.recency
        if name == "importance":
            return scored.index.importance[:size], scoring.WEIGHTS.importance
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(name for name in LEGS if name != "meaning" or self._scored.meaning is not None)

    def __len__(self) -> int:
        return len(list(iter(self)))


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
        vector = await self._vector(self._embedder, text) if self._embedder is not None else None
        terms = tuple(dict.fromkeys(query_terms(text, self._language)))
        return Question(text, terms, vector, self._clock() if at is None else at)

    async def _vector(self, embedder: Embedder, text: str) -> NDArray[np.float32] | None:
        """The question as a vector of length one; None when the embedder fails or lets it wait."""
        try:
            async with asyncio.timeout(EMBED_WAIT_S):
                rows = await embedder.embed([text])
            with np.errstate(over="ignore"):
                square = float(rows[0] @ rows[0]) if rows.shape == (1, embedder.dimensions) else 0.0
        except Exception as error:  # an embedder may raise anything, and words answer without it
            log.warning("searching by words alone: the embedder failed (%s)", type(error).__name__)
            return None
        if not 0 < square < math.inf:
            return None
        vector: NDArray[np.float32] = (rows[0] / np.float32(math.sqrt(square))).astype(np.float32, copy=False)
        return vector

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
        return _select(scored, test, limit, now)


def _score(index: PartitionIndex, question: Question, layers: Sequence[str], now: int) -> _Scored:
    """Every leg over every row, scaled inside the query, weighed and added."""
    alive, all_alive = index.mask(now, layers)
    words = index.words(question.terms)
    word_factor = scoring.word_factor(_best(words, alive, all_alive))
    total: Scores = index.prior(question.at) + words * np.float32(word_factor)
    meaning, meaning_factor = None, 0.0
    if question.vector is not None:
        meaning = index.meaning(question.vector, alive)
        meaning_factor = scoring.meaning_factor(_best(meaning, alive, all_alive))
        total += meaning * np.float32(meaning_factor)
    else:
        total[words == 0] = NOT_FOUND
    if not all_alive:
        total[~alive] = NOT_FOUND
    return _Scored(index, total, words, word_factor, meaning, meaning_factor, question.at)


def _ordered(total: Scores, count: int) -> NDArray[np.intp]:
    """The best rows, best first; ties by age, so that the order is the same on every store."""
    if len(total) > SORTED_ROWS and count < len(total):
        best = np.sort(np.argpartition(total, -count)[-count:])
        return best[np.argsort(-total[best], kind="stable")]
    return (-total).argsort(kind="stable")[:count]


def _best(scores: Scores, alive: NDArray[np.bool_], all_alive: bool) -> float:
    return float(scores.max() if all_alive else np.max(scores, where=alive, initial=0.0))


def _select(scored: Sequence[_Scored], test: Condition | None, limit: int, now: int) -> list[Hit]:
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
        near = each.index.neighbours(record, now) if record.layer == "conversation" else ()
        hits.append(Hit(record, score, len(hits) + 1, Legs(each, row), near))
    return hits
