"""How hits are ranked: features of each row, scaled within the query, weighted and added.

Rank fusion throws away how far ahead the first hit is; a weighted sum of scaled scores keeps it.
Notes (long-term memories, episodes, facts) are weighted by `WEIGHTS`: above all by how much of what is asked they
have (`cover`), which a count of words, best of the query first, does not tell. Turns of a conversation offer
more to rank by: see `turn_scoring.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.records import DAY_MS

Scores = NDArray[np.float32]
Rows = NDArray[np.intp]

K1, B = 1.2, 0.75
"""BM25: how soon repeated words stop counting, and how much a text is penalised for its length."""
RECENCY_HALF_LIFE_MS = 30 * DAY_MS
"""The age at which the recency of a memory counts half."""
MEANING_LEAST = 0.1
"""A best cosine below this is chance, and is not scaled up to a full score."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The most that each feature of a note may add to its score; words and cover are one leg of the explanation."""

    words: float = 0.10
    cover: float = 0.50
    meaning: float = 0.30
    recency: float = 0.04
    importance: float = 0.06


WEIGHTS = Weights()
LATEST_ASKED = 0.05
"""What the newest row gets where the question asks for the latest; older rows get less."""
BESIDE_TALK = 0.75
"""How much what a question asks of a note counts beside turns, which have more features than notes."""
TIME_ASKED = 0.15
"""What a row gets for falling into the time that the question names."""
RARITY_ROWS = 100
"""In fewer rows it is chance whether a word occurs in one or in none. For the share of a question that a row covers,
words are weighted as if there were this many: if both of two memories mention an office, "office" still counts."""
RELEVANCE = (3.7, 7.7, -5.0)
"""Weights of cover and cosine, and the level, of `relevance`, fitted by tools/fit_relevance.py on LongMemEval."""
RELEVANCE_WORDS = (6.7, 0.0, -3.2)
"""The same where there is no embedder."""


def word_factor(best: float) -> float:
    """The factor that turns a word score into its share: the best of the query gets the full weight."""
    return WEIGHTS.words / best if best > 0 else 0.0


def cover_factor(best: float) -> float:
    """The factor that turns the share of a question that a row covers into its share of the score."""
    return WEIGHTS.cover / best if best > 0 else 0.0


def meaning_factor(best: float) -> float:
    """The factor that turns a cosine into its share."""
    return WEIGHTS.meaning / max(best, MEANING_LEAST)


def recency(when: NDArray[np.int64], at: int) -> Scores:
    """1 at query time, half after the half-life; times in the future count as query time."""
    ages = np.maximum(at - when, 0).astype(np.float32)
    scores: Scores = np.exp2(ages * np.float32(-1 / RECENCY_HALF_LIFE_MS))
    return scores


def latest(when: NDArray[np.int64]) -> Scores:
    """1 for the newest row, 0 for the oldest, by rank: a store may span a week or ten years."""
    order = np.empty(len(when), np.float32)
    order[np.argsort(when, kind="stable")] = np.arange(len(when), dtype=np.float32)
    scores: Scores = order / np.float32(max(len(when) - 1, 1))
    return scores


def prior(importance: Scores, when: NDArray[np.int64], at: int) -> Scores:
    """The score of a row before anything is asked."""
    scores: Scores = importance * np.float32(WEIGHTS.importance) + recency(when, at) * np.float32(WEIGHTS.recency)
    return scores


def rarity(size: int, found: int) -> float:
    """How informative a term is that occurs in `found` of `size` texts."""
    return math.log1p((size - found + 0.5) / (found + 0.5))


def held_back(lengths: Scores) -> Scores:
    """The BM25 penalty for texts of these lengths."""
    held: Scores = lengths * np.float32(K1 * B / max(float(lengths.mean()), 1e-6)) + np.float32(K1 * (1 - B))
    return held


def saturated(counts: Scores, held: Scores) -> Scores:
    """BM25 without the rarity: how much further occurrences still count, given the length of the text."""
    gains: Scores = (counts * np.float32(K1 + 1) / (counts + held)).astype(np.float32, copy=False)
    return gains


def relevance(cover: float, cosine: float | None, odds: float | None = None) -> float:
    """How likely a record with these answers the question, 0 to 1, whatever else was found.

    `cover` is the share of the question's terms that it has, weighted by rarity. A record without a vector has no
    cosine. `odds` are the log-odds of a reranker that has read it: the mean of both opinions counts.
    """
    words, meaning, level = RELEVANCE_WORDS if cosine is None else RELEVANCE
    likely = words * cover + meaning * (cosine or 0.0) + level
    return 1 / (1 + math.exp(-(likely if odds is None else (likely + odds) / 2)))
