"""The vectors of an index in the spaces of two models: the current one, and the one before it while memories have it.

Each model has a space of its own, so the scores of the older one are brought to the scale of the newer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.policies.scoring import Scores
from recollect.records import Vector
from recollect.vectors import Floats, Vectors

LIKE_ROWS = 8
"""From this many rows of each model on, the scores of two models are brought to one scale."""


class Spaces:
    """The vector of each row, in the space of its model."""

    def __init__(self, model: str, dimensions: int, earlier_model: str = "") -> None:
        self.model = model
        self.vectors = Vectors(dimensions)
        self.others: set[str] = set()
        """The other models that records here have vectors of."""
        # Vectors of the previous model, until they are embedded again.
        self._earlier_model = earlier_model
        self._earlier = Vectors(0)
        self._earlier_rows: dict[int, None] = {}
        self.read_here: dict[int, None] = {}
        """The rows that have their vector in this index only."""

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + self._earlier.nbytes

    def rest(self) -> None:
        """Drop whatever the next query can rebuild."""
        self.vectors.rest()
        self._earlier.rest()

    def put(self, rows: Sequence[int], vectors: Sequence[Vector | None]) -> list[bool]:
        """Store the vectors of these rows. Returns which rows have a whole one of the current model now."""
        own = [each if each is not None and each.model == self.model else None for each in vectors]
        damaged = self.vectors.put(rows, own)
        if self.read_here or self._earlier_rows or own != vectors:
            self._put_others(rows, vectors)
        if not damaged:
            return [each is not None for each in own]
        return [each is not None and row not in damaged for row, each in zip(rows, own, strict=True)]

    def _put_others(self, rows: Sequence[int], vectors: Sequence[Vector | None]) -> None:
        """The same for vectors of other models, and for rows that had one."""
        for row, vector in zip(rows, vectors, strict=True):
            self.read_here.pop(row, None)
            if vector is None or vector.model == self.model:
                self.forget_earlier(row)
                continue
            self.others.add(vector.model)
            if vector.model == self._earlier_model:
                self._earlier.put([row], [vector])
                self._earlier_rows[row] = None
            else:
                self.forget_earlier(row)

    def put_here(self, row: int, vector: Vector | None) -> None:
        """Give a row its vector in this index only: the store gets it from the worker."""
        self.vectors.put([row], [vector])
        self.read_here[row] = None
        self.forget_earlier(row)

    def forget_earlier(self, row: int) -> None:
        """Drop the vector that a row has of the previous model."""
        if row in self._earlier_rows:
            self._earlier.put([row], [None])
            del self._earlier_rows[row]

    @property
    def has_earlier(self) -> bool:
        """Whether some rows have only a vector of the previous model."""
        return bool(self._earlier_rows)

    def meaning(
        self,
        query: Floats,
        size: int,
        alive: NDArray[np.bool_],
        earlier: Floats | None = None,
        only: NDArray[np.intp] | None = None,
    ) -> Scores:
        """The cosine of each of `size` rows, or of the rows in `only`. `earlier` is the query in the space of the
        previous model, for rows whose vectors are still of that model.
        """
        scores = self.vectors.scores(query, size, alive) if only is None else self.vectors.scores_of(only, query, size)
        if earlier is not None and self._earlier_rows:
            rows = np.fromiter(self._earlier_rows, np.intp)
            older = np.vecdot(self._earlier.matrix(size)[rows], earlier)
            scores[rows] = _alike(older, scores[alive & (scores != 0)])
        return scores


def _alike(scores: Scores, others: Scores) -> Scores:
    """Scores of one model with the mean and spread of another's, so that what stands out counts alike in both."""
    if min(len(scores), len(others)) < LIKE_ROWS:
        return scores
    alike: Scores = (scores - scores.mean()) * (others.std() / max(float(scores.std()), 1e-6)) + others.mean()
    return alike
