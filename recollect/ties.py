"""Who is tied to whom: found by an id, without a look at all that a user has.

Whatever is forgotten, undone or trusted again takes along what hangs on it. That is little, and it may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.policies.ties import tied_to
from recollect.records import Record

TIE_BYTES = 400
"""What an id takes here with the rows that are tied to it, about."""


class Ties:
    """By id, the rows of an index that are tied to it, or were: whoever asks looks whether they still are."""

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
        """The rows that are tied to this id, the first first."""
        return sorted(self._rows.get(id, ()))
