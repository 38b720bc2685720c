"""How found records are ordered: each leg scaled inside the query, weighed and added.

Rank fusion throws away how far ahead the first hit is; a weighted sum of scaled scores keeps it.
The weights stand in one table, so that a fitted row can take the place of this one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.records import DAY_MS

Scores = NDArray[np.float32]

RECENCY_HALF_LIFE_MS = 30 * DAY_MS
"""After this long the recency of a memory counts half."""
MEANING_LEAST = 0.1
"""A best cosine under this is chance, and is not blown up to a full score."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What each leg may add to the score at the most."""

    words: float = 0.60
    meaning: float = 0.30
    recency: float = 0.04
    importance: float = 0.06


WEIGHTS = Weights()


def word_factor(best: float) -> float:
    """What turns a word score into its share: the best of the query gets the full weight."""
    return WEIGHTS.words / best if best > 0 else 0.0


def meaning_factor(best: float) -> float:
    """What turns a cosine into its share."""
    return WEIGHTS.meaning / max(best, MEANING_LEAST)


def recency(when: NDArray[np.int64], at: int) -> Scores:
    """1 for now, half after the half-life; the future counts as now."""
    ages = np.maximum(at - when, 0).astype(np.float32)
    scores: Scores = np.exp2(ages * np.float32(-1 / RECENCY_HALF_LIFE_MS))
    return scores


def prior(importance: Scores, when: NDArray[np.int64], at: int) -> Scores:
    """What a row has before anything is asked."""
    scores: Scores = importance * np.float32(WEIGHTS.importance) + recency(when, at) * np.float32(WEIGHTS.recency)
    return scores
