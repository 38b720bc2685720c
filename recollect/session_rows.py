"""The rows of each session of an index, in order of birth."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from recollect.records import Born

PLACE_BITS = 16
"""Bits for the place of a birth in its commit, which holds a hundred or so."""

_NO_ROWS = array("I")


class SessionRows(dict[str, "array[int]"]):
    """The rows of the messages of each session. A session without rows is not here."""

    def __init__(self) -> None:
        self.born = array("q")
        """When the record of each row was born, of all rows of the index, as one number."""

    def bear(self, born: Sequence[Born]) -> None:
        """Note when the records of the next rows were born."""
        self.born.extend([packed(each) for each in born])

    def place(self, row: int, session: str) -> None:
        """Insert a row among those of its session, in order of birth; usually it is the last."""
        rows = self.get(session)
        if rows is None:
            rows = self[session] = array("I")
        if not rows or self.born[rows[-1]] <= self.born[row]:
            rows.append(row)
        else:
            insort(rows, row, key=self.born.__getitem__)

    def remove(self, row: int, session: str) -> None:
        self[session].remove(row)
        if not self[session]:
            del self[session]

    def of(self, session: str) -> Sequence[int]:
        """All rows of a session."""
        return self.get(session, _NO_ROWS)

    def after(self, session: str, born: Born) -> Sequence[int]:
        """The rows of a session whose records were born after this."""
        rows = self.get(session, _NO_ROWS)
        return rows[bisect_right(rows, packed(born), key=self.born.__getitem__) :]

    def newest(self, session: str, born: Born) -> Iterator[int]:
        """The same, newest first, read lazily."""
        since = packed(born)
        for row in reversed(self.get(session, _NO_ROWS)):
            if self.born[row] <= since:
                return
            yield row

    def around(self, row: int, session: str, born: Born, reach: int) -> Sequence[int]:
        """The rows right before and after a row, up to `reach` on each side; none if its record has another row now."""
        rows = self.get(session, _NO_ROWS)
        at = bisect_left(rows, row)
        if at == len(rows) or rows[at] != row:  # it is not there, or rows were not added in order
            at = rows.index(row) if row in rows else -1
        if at < 0 or self.born[row] != packed(born):
            return _NO_ROWS
        return rows[max(0, at - reach) : at] + rows[at + 1 : at + 1 + reach]


def packed(born: Born) -> int:
    """A birth as one number, in the same order."""
    return born[0] << PLACE_BITS | born[1]
