"""How the rows of an index relate to each other: sessions, neighbours, speakers.

New rows are added incrementally, since in a chat every question comes right after a new message; when
a row has gone, all are arranged again, as if it had never been there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.policies.phrasing import asks, signs
from recollect.policies.scoring import Scores
from recollect.policies.turn_scoring import Talk
from recollect.records import Record
from recollect.vectors import ROWS, grown

Sessions = Mapping[str, Sequence[int]]
"""The rows of each session, in order of birth."""

SESSION, BEFORE, AFTER, SPEAKER = range(4)
"""The columns of the places of a row."""


class Records(Protocol):
    """The record of each row."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Record: ...


class Arrangement:
    """The rows of one index, arranged. `is_held` tells whether a row is still there."""

    def __init__(self, sessions: Sessions, is_held: Callable[[int], bool], language: str = "en") -> None:
        self._sessions, self._is_held, self._language = sessions, is_held, language
        self._places: NDArray[np.int32] = np.empty((ROWS, 4), np.int32)
        self._marks: NDArray[np.bool_] = np.empty((ROWS, 3), np.bool_)
        self._signs: NDArray[np.bool_] = np.empty((ROWS, 2), np.bool_)
        # What a row says by itself never changes: how many rows were read for marks, and for times and numbers.
        self._read = self._signed = 0
        self.start_anew()

    def start_anew(self) -> None:
        """Forget which rows are neighbours: a row has gone."""
        self._size = 0
        self._groups = 0
        self._group_of: dict[str, int] = {}
        self._speakers: dict[str, int] = {}

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + self._marks.nbytes + self._signs.nbytes

    def __len__(self) -> int:
        """How many rows are arranged."""
        return self._size

    def talk(self, records: Records, lengths: Scores) -> Talk:
        """How all rows relate to each other. The result is valid until rows come or go."""
        self.take(records, len(records))
        size = self._size
        session, before, after, speaker = self._places[:size].T.astype(np.intp, order="C")
        user, assistant, asking = self._marks[:size].T.astype(np.float32, order="C")
        told = partial(self._signs_of, records, size)
        return Talk(
            session, self._groups, before, after, lengths, user, assistant, speaker, self._speakers, asking, told
        )

    @property
    def signed(self) -> int:
        """How many rows have been searched for times and numbers."""
        return self._signed

    def read_signs(self, records: Records, size: int) -> None:
        """Search the first `size` rows for times and numbers, lazily: few questions ask for them, and it is slow."""
        first = self._signed
        if first < size:
            self._make_rows(size)
            self._signs[first:size] = [signs(records[row].content, self._language) for row in range(first, size)]
            self._signed = size

    def _signs_of(self, records: Records, size: int) -> NDArray[np.float32]:
        self.read_signs(records, size)
        told: NDArray[np.float32] = self._signs[:size].T.astype(np.float32, order="C")
        return told

    def take(self, records: Records, size: int) -> None:
        """Arrange the new rows among the first `size`."""
        first = self._size
        if first >= size:
            return
        self._make_rows(size)
        self._places[first:size, BEFORE : AFTER + 1] = -1
        taken = [records[row] for row in range(first, size)]
        names = [_name(record) for record in taken]
        if self._read < size:
            new_from = max(first, self._read) - first
            self._marks[first + new_from : size] = [*map(_marks, taken[new_from:], names[new_from:])]
            self._read = size
        known = self._speakers
        self._places[first:size, SPEAKER] = [known.setdefault(name, len(known)) if name else -1 for name in names]
        spoken = [
            record.scope.session if record.layer == "conversation" and self._is_held(row) else None
            for row, record in enumerate(taken, first)
        ]
        self._places[first:size, SESSION] = [self._group(session) for session in spoken]
        new = Counter([session for session in spoken if session is not None])
        for session, count in new.items():
            rows = self._sessions[session]
            # Rows may not have come in order of birth: one beyond `size` may stand among the first of its session.
            self._link(rows if size == len(records) else [row for row in rows if row < size], first, count)
        self._size = size

    def _link(self, session: Sequence[int], first: int, new: int) -> None:
        """Link the new rows of a session to those before them; relink the whole session where one falls in between."""
        tail = session[-new:]
        chain = np.array(session[-new - 1 :] if all(row >= first for row in tail) else session, np.intp)
        self._places[chain[1:], BEFORE] = chain[:-1]
        self._places[chain[:-1], AFTER] = chain[1:]

    def _group(self, session: str | None) -> int:
        """The number of a session; a row outside any session gets its own."""
        number = self._groups if session is None else self._group_of.setdefault(session, self._groups)
        self._groups += number == self._groups
        return number

    def _make_rows(self, size: int) -> None:
        if size > len(self._places):
            self._places, self._marks = grown(self._places, size), grown(self._marks, size)
            self._signs = grown(self._signs, size)


def _name(record: Record) -> str:
    """The speaker's first name in lower case; empty where no name is given."""
    named = record.data.get("name")
    words = str(named).split() if named else ()
    return words[0].lower() if words else ""


def _marks(record: Record, name: str) -> tuple[bool, bool, bool]:
    """Whether the user says it, whether the assistant does, and whether it asks something."""
    role = record.data["role"] if record.layer == "conversation" and not name else ""
    return role == "user", role == "assistant", asks(record.content)
