"""How found records are ordered: each leg scaled inside the query, weighed and added.

Rank fusion throws away how far ahead the first hit is; a weighted sum of scaled scores keeps it.
The weights stand in one table, so that a fitted row can take the place of this one.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    words: float = 0.50
    meaning: float = 0.40
    recency: float = 0.04
    importance: float = 0.06


WEIGHTS = Weights()


def scale_words(scores: Scores, best: float) -> Scores:
    """Against the best of the query; the distance of the first from the rest stays."""
    scaled: Scores = scores / np.float32(best) if best > 0 else scores
    return scaled


def scale_meaning(cosines: Scores, best: float) -> Scores:
    """Cosines against the best of the query."""
    scaled: Scores = cosines * np.float32(1 / max(best, MEANING_LEAST))
    return scaled


def recency(when: NDArray[np.int64], now: int) -> Scores:
    """1 for now, half after the half-life; the future counts as now."""
    ages = np.maximum(now - when, 0).astype(np.float32)
    scores: Scores = np.exp2(ages * np.float32(-1 / RECENCY_HALF_LIFE_MS))
    return scores


def shares(weights: Weights, legs: Mapping[str, Scores]) -> dict[str, Scores]:
    """What each scaled leg adds to the score of each row."""
    return {name: leg * np.float32(getattr(weights, name)) for name, leg in legs.items()}
