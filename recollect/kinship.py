"""Words that mean nearly the same: how near each word of a question comes to the words of a turn.

The vector of a whole turn says what it is about, but drowns the one word that answers. Here each
word of the question is matched with its nearest kin in the turn ("instrument" finds "violin"), using
the static word vectors that come with the package. Turns are read when they first become candidates.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.policies.words import content_words

Floats = NDArray[np.float32]
WordVectors = Callable[[Sequence[str]], Floats]
"""Returns a vector of length one for each word."""

WORDS_MAX = 256
"""How many distinct words of one turn are compared."""
TURN_BYTES, WORD_BYTES = 120, 4
"""What the words of one turn take, roughly, and what the place of one word takes."""


class Kinship:
    """The words of those rows of an index that have been candidates, each word with its vector."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._place: dict[str, int] = {}
        self._vectors: Floats = np.zeros((0, 0), np.float32)
        # For each row the places of its words, four bytes each.
        self._words_of: dict[int, bytes] = {}

    @property
    def nbytes(self) -> int:
        return self._vectors.nbytes + TURN_BYTES * len(self._words_of)

    @property
    def rows(self) -> int:
        """How many rows have been read."""
        return len(self._words_of)

    def rest(self) -> None:
        """Release spare capacity."""
        if len(self._vectors) > len(self._place):
            self._vectors = self._vectors[: len(self._place)].copy()

    def nearest(
        self, rows: Sequence[int], texts: Callable[[int], str], question: Sequence[str], vectors: WordVectors
    ) -> Floats:
        """For each row, the cosine of each word of the question with the nearest word in that row."""
        self._read([row for row in rows if row not in self._words_of], texts, vectors)
        found = [self._words_of[row] for row in rows]
        sizes = np.fromiter(map(len, found), np.intp, len(found)) // WORD_BYTES
        nearest = np.zeros((len(rows), len(question)), np.float32)
        filled = np.flatnonzero(sizes)
        if not len(filled) or not question:
            return nearest
        words = np.frombuffer(b"".join(found), np.int32)
        places = np.zeros(len(self._place), np.intp)
        places[words] = 1
        needed = places.nonzero()[0]
        places[needed] = np.arange(len(needed))
        cosines = np.vecdot(self._vectors[needed][:, None], vectors(question))
        starts = np.concatenate(([0], np.cumsum(sizes[filled])[:-1]))
        nearest[filled] = np.maximum.reduceat(cosines[places[words]], starts, axis=0)
        return nearest

    def _read(self, rows: Sequence[int], texts: Callable[[int], str], vectors: WordVectors) -> None:
        """Read the words of rows that have never been candidates before."""
        new: list[str] = []
        for row in rows:
            words = list(dict.fromkeys(content_words(texts(row), self._language)))[:WORDS_MAX]
            for word in words:
                if word not in self._place:
                    self._place[word] = len(self._place)
                    new.append(word)
            self._words_of[row] = array("i", [self._place[word] for word in words]).tobytes()
        if new:
            self._keep(vectors(new))

    def _keep(self, added: Floats) -> None:
        """Append the vectors of new words, with room for more."""
        end = len(self._place)
        if end > len(self._vectors):
            larger = np.zeros((max(2 * end, 64), added.shape[1]), np.float32)
            larger[: len(self._vectors)] = self._vectors.reshape(-1, added.shape[1])
            self._vectors = larger
        self._vectors[end - len(added) : end] = added
