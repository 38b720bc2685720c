"""Ties between records: looked up by id, without scanning everything a user has.

Whatever is forgotten, undone or trusted again affects the records that depend on it: few, but they may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.policies.ties import tied_to
from recollect.records import Record

TIE_BYTES = 400
"""Approximate memory for an id with the rows tied to it."""


class Ties:
    """By id, the rows of an index that are tied to it, or were: the caller checks whether they still are."""

    def __init__(self) -> None:
        self._rows: dict[str, set[int]] = {}

    @property
    def nbytes(self) -> int:
        return TIE_BYTES * len(self._rows)

    def note(self, rows: Sequence[int], records: Sequence[Record]) -> None:
        """Note what the records of these rows are tied to."""
        for row, record in zip(rows, records, strict=True):
            for id in tied_to(record):
                self._rows.setdefault(id, set()).add(row)

    def to(self, id: str) -> list[int]:
        """The rows that are tied to this id, in order."""
        return sorted(self._rows.get(id, ()))
