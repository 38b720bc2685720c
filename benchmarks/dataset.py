"""Made-up memories of made-up users, reproducible from the seed, with vectors like real sentence embeddings.

A vector is the sum of what all texts share, a topic, a subject within it, and noise, each with a spectrum that falls
off like that of real conversations (eigenvalue about rank ** -0.7), then rotated at random so that no axis is special.
As in real text, the nearest of ten thousand has a cosine near 0.7, and two unrelated texts one near 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from peers import Floats, Memory

TOPICS = 400
SUBJECTS = 10
SHARES = (0.08, 0.20, 0.40, 0.32)
"""How much of a vector's squared length comes from what all texts share, its topic, its subject and noise."""
COMMON_WORDS, TOPIC_WORDS, SUBJECT_WORDS = 300, 40, 6
ONSETS = ("b", "br", "d", "f", "g", "gr", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v")
VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
CODAS = ("", "l", "m", "n", "r", "s", "nd", "rt")


@dataclass(frozen=True)
class Question:
    """One search. `plain` uses words that no memory contains, so that meaning alone decides the answer."""

    user: str
    text: str
    plain: str
    vector: Floats


class World:
    """Everything that can be remembered. Each user's part depends only on the seed and the user's number."""

    def __init__(self, seed: int, dimensions: int) -> None:
        self.seed = seed
        self.dimensions = dimensions
        rng = np.random.default_rng(seed)
        self.spectrum = (np.arange(1, dimensions + 1) ** -0.35).astype(np.float32)
        self.spectrum /= np.linalg.norm(self.spectrum)
        self.turn = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))[0].astype(np.float32)
        self.shared = self._directions(rng, 1)
        self.topics = self._directions(rng, TOPICS)
        self.subjects = self._directions(rng, TOPICS * SUBJECTS)
        self.words = _words(rng, COMMON_WORDS + TOPICS * TOPIC_WORDS + TOPICS * SUBJECTS * SUBJECT_WORDS)

    def memories(self, number: int, count: int) -> list[Memory]:
        """All memories of a user, as (id, text, vector)."""
        rng = np.random.default_rng((self.seed, number, 0))
        subjects = self._subjects_of(number, count)
        texts = self._texts(rng, subjects, common=7, topic=4, subject=3)
        vectors = self._vectors(rng, subjects)
        return [(f"m{number}-{place}", texts[place], vectors[place]) for place in range(count)]

    def questions(self, number: int, memories: int, count: int) -> list[Question]:
        """Questions of a user about things in the user's memories."""
        rng = np.random.default_rng((self.seed, number, 1))
        subjects = rng.choice(self._subjects_of(number, memories), count)
        texts = self._texts(rng, subjects, common=3, topic=2, subject=1)
        vectors = self._vectors(rng, subjects)
        return [
            Question(user_name(number), texts[place], f"xqz{number}w{count}n{place}", vectors[place])
            for place in range(count)
        ]

    def _subjects_of(self, number: int, count: int) -> NDArray[np.int64]:
        """The subject of each memory of a user, with about ten memories per topic."""
        rng = np.random.default_rng((self.seed, number, 2))
        topics = rng.choice(TOPICS, min(TOPICS, max(1, count // 10)), replace=False)
        return rng.choice(topics, count) * SUBJECTS + rng.integers(0, SUBJECTS, count)

    def _directions(self, rng: np.random.Generator, count: int) -> Floats:
        """Directions of about unit length, before the rotation."""
        return rng.standard_normal((count, self.dimensions), dtype=np.float32) * self.spectrum

    def _vectors(self, rng: np.random.Generator, subjects: NDArray[np.int64]) -> Floats:
        shared, topic, subject, chance = np.sqrt(np.array(SHARES, dtype=np.float32))
        raw = shared * self.shared + topic * self.topics[subjects // SUBJECTS] + subject * self.subjects[subjects]
        vectors: Floats = (raw + chance * self._directions(rng, len(subjects))) @ self.turn
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _texts(
        self, rng: np.random.Generator, subjects: NDArray[np.int64], *, common: int, topic: int, subject: int
    ) -> list[str]:
        count = len(subjects)
        first_topic, first_subject = COMMON_WORDS, COMMON_WORDS + TOPICS * TOPIC_WORDS
        # Squaring makes a few common words very common, as in any language.
        frequent = (rng.random((count, common)) ** 2 * COMMON_WORDS).astype(np.int64)
        of_topic = (
            first_topic + (subjects // SUBJECTS)[:, None] * TOPIC_WORDS + rng.integers(0, TOPIC_WORDS, (count, topic))
        )
        of_subject = (
            first_subject + subjects[:, None] * SUBJECT_WORDS + rng.integers(0, SUBJECT_WORDS, (count, subject))
        )
        rows = rng.permuted(np.concatenate([frequent, of_topic, of_subject], axis=1), axis=1)
        return [" ".join(self.words[place] for place in row) for row in rows.tolist()]


def _words(rng: np.random.Generator, count: int) -> list[str]:
    """`count` different pronounceable words."""
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = int(rng.integers(2, 4))
        parts = rng.integers(0, (len(ONSETS), len(VOWELS), len(CODAS)), (syllables, 3)).tolist()
        words["".join(ONSETS[onset] + VOWELS[vowel] + CODAS[coda] for onset, vowel, coda in parts)] = None
    return list(words)


def user_name(number: int) -> str:
    return f"user-{number}"


def exact(memories: Sequence[Memory], vector: Floats, k: int) -> set[str]:
    """The ids of the k nearest memories, by comparing with all of them."""
    scores = np.stack([memory[2] for memory in memories]) @ vector
    return {memories[place][0] for place in np.argsort(-scores, kind="stable")[:k].tolist()}


def recall(found: Sequence[str], truth: set[str]) -> float:
    """The share of the truth that was found."""
    return len(truth.intersection(found)) / len(truth)
