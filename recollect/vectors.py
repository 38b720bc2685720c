"""The vectors of an index: exact search by meaning over its rows.

Vectors are kept as stored, two bytes a number. A few are widened to what a processor compares when a query comes,
within microseconds; many are kept widened, and from ten thousand on one byte per number is compared first and the
best are compared again exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import lt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.policies.scoring import Scores
from recollect.records import Vector

try:
    import simsimd

    HAS_CODES = True
except ImportError:
    # It has no wheel for the newest Python. Without it all rows are compared exactly, in ten times the time.
    HAS_CODES = False

WIDE_ROWS = 1_000
"""From this many rows on, vectors are kept widened: widening that many takes a tenth of a millisecond."""
CODES_FROM_ROWS = 10_000
"""From this many rows on, a byte per dimension is compared first and the best are compared again exactly."""
RESCORED_ROWS = 256
CODE_MAX, CUT_OFF = 127, 1.25
"""The largest code, and by what factor a number may exceed it before all are encoded again: it would be clipped."""
HALF_BYTES, BLOCK_ROWS = 2, 8
INFINITE = 0x7C00
"""The bits of infinity as a two-byte float; anything above it, ignoring the sign, is not a number."""
ROWS, GROWTH = 16, 1.125
"""Initial capacity, and its growth factor when full: small, since many indexes are held, each with spare room."""
READING_GROWTH = 2.0
"""The growth factor while page after page is read: each time everything there is copied."""

Floats = NDArray[np.float32]


class Vectors:
    """The vector of each row. With 0 dimensions, the first vector sets how many."""

    def __init__(self, dimensions: int) -> None:
        self._shape_for(dimensions)

    def _shape_for(self, dimensions: int) -> None:
        self.dimensions = dimensions
        # Either as stored or widened, never both. In blocks, since many indexes grow at once, and the gap that an
        # outgrown array leaves in memory is too small for the next one.
        self._blocks: list[NDArray[np.float16]] = []
        self._wide: Floats | None = None
        self._lately: Floats | None = None
        self._codes: NDArray[np.int8] = np.zeros((0, dimensions), np.int8)
        self._coded = 0
        self._scale = 0.0
        self._growth = GROWTH

    def __getstate__(self) -> dict[str, Any]:
        """All of it, with the blocks in one piece: many small ones are slow to spill."""
        return vars(self) | {"_blocks": b"".join([block.tobytes() for block in self._blocks])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        rows = np.frombuffer(bytearray(state["_blocks"]), "<f2").reshape(-1, BLOCK_ROWS, max(self.dimensions, 1))
        self._blocks = [*rows]

    @property
    def nbytes(self) -> int:
        wide = sum([each.nbytes for each in (self._wide, self._lately) if each is not None])
        return len(self._blocks) * BLOCK_ROWS * self.dimensions * HALF_BYTES + wide + self._codes.nbytes

    @property
    def widened(self) -> int:
        """How many rows are held widened for the next query."""
        return 0 if self._lately is None else len(self._lately)

    def put(self, rows: Sequence[int], vectors: Sequence[Vector | None]) -> Sequence[int]:
        """Store the vectors of these rows. Those of another size count as none, and so do damaged ones.

        Returns the rows whose vectors are damaged.
        """
        if not self.dimensions and (some := next(filter(None, vectors), None)):
            self._shape_for(len(some.data) // HALF_BYTES)
        self._make_rows(max(rows) + 1)
        size = self.dimensions * HALF_BYTES
        nothing = bytes(size)
        packed = b"".join([each.data if each is not None and len(each.data) == size else nothing for each in vectors])
        new = np.frombuffer(packed, "<f2").reshape(len(vectors), self.dimensions)
        damaged = without_numbers(new)
        if damaged:
            new = new.copy()
            new[damaged] = 0
        places = at_once(rows)
        if self._wide is not None:
            self._wide[places] = widened(new)
        elif isinstance(places, slice):
            self._put_in_blocks(places, new)
        else:
            for row, numbers in zip(rows, new, strict=True):
                self._blocks[row // BLOCK_ROWS][row % BLOCK_ROWS] = numbers
        if self._lately is not None:
            self._lately[places] = new
        if self._scale and _largest(new) * self._scale > CUT_OFF * CODE_MAX:
            self._scale, self._coded = 0.0, 0
        if self._coded and (again := [row for row in rows if row < self._coded]):
            self._codes[again] = self._code(self.matrix(self._coded)[again])
        return [rows[place] for place in damaged]

    def _put_in_blocks(self, places: slice, new: NDArray[np.float16]) -> None:
        """Write consecutive rows, a block at a time."""
        row = places.start
        while row < places.stop:
            block, at = divmod(row, BLOCK_ROWS)
            fits = new[row - places.start : row - places.start + BLOCK_ROWS - at]
            self._blocks[block][at : at + len(fits)] = fits
            row += len(fits)

    def _make_rows(self, size: int) -> None:
        if self._wide is None and size >= WIDE_ROWS:
            self._wide = self._widened()
            self._blocks, self._lately = [], None
        if self._wide is None:
            for _ in range(len(self._blocks) * BLOCK_ROWS, size, BLOCK_ROWS):
                self._blocks.append(np.zeros((BLOCK_ROWS, self.dimensions), "<f2"))
                self._lately = None
        elif size > len(self._wide):
            self._wide = grown(self._wide, size, self._growth)

    def make_room(self, size: int, *, more: bool) -> None:
        """Announce that there are `size` rows. While more are on their way capacity doubles; then it is trimmed."""
        self._growth = READING_GROWTH if more else GROWTH
        if not more and self._wide is not None and len(self._wide) > GROWTH * size:
            self._wide = grown(self._wide[:size], size)

    def _widened(self) -> Floats:
        return widened(np.concatenate(self._blocks)) if self._blocks else np.zeros((0, self.dimensions), np.float32)

    def fits(self, vector: Vector | None) -> bool:
        """Whether there is a vector, and it has the size of those here."""
        return vector is not None and len(vector.data) == self.dimensions * HALF_BYTES

    def data_of(self, row: int) -> bytes:
        """The vector of a row as stored."""
        wide, block = self._wide, row // BLOCK_ROWS
        stored = self._blocks[block][row % BLOCK_ROWS] if wide is None else wide[row].astype("<f2")
        data: bytes = stored.tobytes()
        return data

    def matrix(self, size: int) -> Floats:
        """The vectors of the first `size` rows, widened for comparison."""
        if self._wide is not None:
            return self._wide[:size]
        if self._lately is None:
            self._lately = self._widened()
        return self._lately[:size]

    def rest(self) -> None:
        """Drop whatever the next query can rebuild."""
        self._lately = None

    def scores(self, query: Floats, size: int, alive: NDArray[np.bool_]) -> Scores:
        """The cosine of each row with the query: exact for all that can be among the best."""
        if len(query) != self.dimensions:
            return np.zeros(size, np.float32)  # nothing here can be compared with it
        if _is_coded(size):
            self._encode(size, size)
        if not _is_coded(size) or not self._scale:
            exact: Scores = np.vecdot(self.matrix(size), query)
            return exact
        code = self._code(query)[None, :]
        near: Scores = np.asarray(simsimd.cdist(code, self._codes[:size], metric="inner"))[0].astype(np.float32)
        near *= np.float32(1 / (self._scale * self._scale))
        best = np.argpartition(np.where(alive, near, np.float32(-9)), -RESCORED_ROWS)[-RESCORED_ROWS:]
        near[best] = np.vecdot(self.matrix(size)[best], query)
        return near

    def scores_of(self, rows: NDArray[np.intp], query: Floats, size: int) -> Scores:
        """The same for these rows alone; the others score zero."""
        scores: Scores = np.zeros(size, np.float32)
        if len(rows) and len(query) == self.dimensions:
            scores[rows] = np.vecdot(self.matrix(size)[rows], query)
        return scores

    def encode(self, size: int, most: int) -> bool:
        """Encode the next of the first `size` rows, at most `most`. Returns whether some are left."""
        if not _is_coded(size) or not self.dimensions:
            return False
        self._encode(size, most)
        return bool(self._scale) and self._coded < size

    def _encode(self, size: int, most: int) -> None:
        """Encode rows; none while no row has a vector, since it is not yet known how large their numbers are."""
        matrix = self.matrix(size)
        if not self._scale and (largest := _largest(matrix)):
            self._scale = CODE_MAX / max(largest, 1e-6)
        if not self._scale:
            return
        if size > len(self._codes):
            self._codes = grown(self._codes, size)
        end = min(size, self._coded + most)
        if end > self._coded:
            self._codes[self._coded : end] = self._code(matrix[self._coded : end])
            self._coded = end

    def _code(self, values: Floats) -> NDArray[np.int8]:
        code: NDArray[np.int8] = np.clip(np.rint(values * np.float32(self._scale)), -CODE_MAX, CODE_MAX).astype(np.int8)
        return code


def _is_coded(size: int) -> bool:
    """Whether so many rows are compared by one byte a number first."""
    return HAS_CODES and size >= CODES_FROM_ROWS


def _largest(numbers: NDArray[Any]) -> float:
    return max(float(numbers.max(initial=0)), -float(numbers.min(initial=0)))


def without_numbers(halves: NDArray[np.float16]) -> list[int]:
    """The vectors that contain a NaN or an infinity. No embedder returns these: a disk or a cable damaged them.

    >>> without_numbers(np.array([[0.5, -1], [0, np.nan], [-np.inf, 1]], "<f2"))
    [1, 2]
    """
    if not halves.size:
        return []
    sizes = halves.view("<u2") & np.uint16(0x7FFF)
    if sizes.max() < INFINITE:
        return []
    return np.flatnonzero(sizes.max(axis=1) >= INFINITE).tolist()


def widened(halves: NDArray[np.float16]) -> Floats:
    """Two-byte floats as four-byte floats, exactly, in a quarter of the time that numpy takes.

    Sign, exponent and mantissa are shifted into place, and the exponent is rebased to the wider format. Vectors hold
    no infinities, for which this would be wrong.

    >>> widened(np.array([1.5, -0.25, 6e-8], "<f2")).tolist()
    [1.5, -0.25, 5.960464477539063e-08]
    """
    bits = halves.view("<i2").astype(np.int32) << 13
    bits &= np.int32(-0x7000_2000)
    wide: Floats = bits.view(np.float32)
    wide *= np.float32(2.0**112)
    return wide


def at_once(rows: Sequence[int]) -> slice | Sequence[int]:
    """Distinct rows as a numpy index: a slice where they are consecutive, which is much quicker.

    >>> at_once([4, 5, 6]), at_once([4, 6])
    (slice(4, 7, None), [4, 6])
    """
    first, end = rows[0], rows[-1] + 1
    return slice(first, end) if end - first == len(rows) and all(map(lt, rows, rows[1:])) else rows


def grown(array: NDArray[Any], size: int, growth: float = GROWTH) -> NDArray[Any]:
    """A copy of the array with room for `size` rows, and for some more."""
    larger = np.zeros((max(int(growth * len(array)), size, ROWS), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
