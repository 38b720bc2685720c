"""The records of an index: objects while it is in use, about two hundred bytes each while it rests.

Most rows of an index are never read: their words and vectors show that others answer better. So when an index rests, a
record is packed into a few bytes, with its vector in the matrix of its index, and becomes an object when it is asked
for. Unpacking one takes two microseconds. New records stay objects until the index rests, and so do those that were
read, unless there are many.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from recollect.records import Record, Scope, Vector, bare, record_with
from recollect.ties import Ties

UNPACKED_MAX = 2_000
"""Packed records of one index that may stay unpacked as well, from one query to the next."""
ENTRY_BYTES = 41
"""What a packed record takes besides its bytes: the object around them, and its entry in the list."""
UNPACKED_BYTES = 1_000
"""What an unpacked record takes besides its text and its vector, roughly."""


class Shelf(dict[int, Record]):
    """The record of each row. As a dict it holds the unpacked ones, so that reading one again costs nothing.

    The vectors of `model` are kept in the index; `data_of` returns them.
    """

    def __init__(self, model: str, data_of: Callable[[int], bytes]) -> None:
        self.ids: list[str] = []
        self.ties = Ties()
        self.news: Counter[str] = Counter()
        """How often a record of each layer was put here or removed."""
        self.nbytes = 0
        self._model, self._data_of = model, data_of
        self._packed: list[bytes] = []
        # Rows put since all were last packed, each with whether the matrix has its vector.
        self._new: dict[int, bool] = {}
        # Rows of the same layer and scope share one entry.
        self._kinds: list[tuple[str, Scope]] = []
        self._kind_of: dict[tuple[str, Scope], int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __missing__(self, row: int) -> Record:
        kind, vector, told = marshal.loads(self._packed[row])
        layer, scope = self._kinds[kind]
        held = Vector(self._model, self._data_of(row)) if vector is True else vector and Vector(*vector)
        record = record_with(self.ids[row], layer, scope, held, told)
        self[row] = record
        self.nbytes += _size(record)
        return record

    @property
    def unpacked(self) -> int:
        """How many records are objects now."""
        return dict.__len__(self)

    def extend(self, ids: Sequence[str]) -> None:
        """Make rows for the records with these ids."""
        self.ids.extend(ids)
        self._packed.extend([b""] * len(ids))
        self.nbytes += ENTRY_BYTES * len(ids)

    def put(self, rows: Sequence[int], records: Sequence[Record], in_matrix: Sequence[bool]) -> None:
        """Put records into their rows. A packed record omits its vector where the matrix has it."""
        before = [each for row in rows if (each := self.get(row)) is not None] if self else ()
        self.nbytes += sum(map(_size, records)) - sum(map(_size, before))
        self.update(zip(rows, records, strict=True))
        self._new.update(zip(rows, in_matrix, strict=True))
        self.ties.note(rows, records)
        self.news.update([record.layer for record in records])

    def clear(self) -> None:
        """Pack all records."""
        for row, is_in_matrix in self._new.items():
            packed = self._pack(self[row], is_in_matrix)
            self.nbytes += len(packed) - len(self._packed[row])
            self._packed[row] = packed
        self._new.clear()
        self.nbytes -= sum(map(_size, self.values()))
        super().clear()

    def trim(self) -> None:
        """Release the objects of packed records, where there are many."""
        if self.unpacked - len(self._new) > UNPACKED_MAX:
            for row in self.keys() - self._new.keys():
                self.nbytes -= _size(self.pop(row))

    def _pack(self, record: Record, is_in_matrix: bool) -> bytes:
        vector = record.vector
        held = True if is_in_matrix else (vector.model, vector.data) if vector else None
        # A copy: `dumps` over-allocates while it writes, and its result would leave a gap in memory behind it.
        return bytes(memoryview(marshal.dumps((self._kind(record), held, bare(record)))))

    def _kind(self, record: Record) -> int:
        """The number of a layer and scope, usually that of the previous record."""
        layer, scope = self._kinds[self._last] if self._kinds else ("", None)
        if record.scope is not scope or record.layer != layer:
            kind = record.layer, record.scope
            self._last = self._kind_of.setdefault(kind, len(self._kinds))
            if self._last == len(self._kinds):
                self._kinds.append(kind)
        return self._last


def _size(record: Record) -> int:
    """What an unpacked record takes, roughly."""
    vector = record.vector
    return UNPACKED_BYTES + len(record.content) + (len(vector.data) if vector is not None else 0)
