"""The messages of a partition that told what is no longer so, by id, beside its index; no text is read for it."""

from __future__ import annotations

from collections.abc import Collection

from recollect.policies.overtaken import Former, former_of
from recollect.records import Record

FORMER_BYTES = 700
"""Approximate memory for one value that has ended, with the messages that told it."""


class Overtaken:
    """By message, the values it told that have ended since."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Former]] = {}
        self._tellers: dict[str, Collection[str]] = {}

    def __len__(self) -> int:
        return len(self._tellers)

    @property
    def nbytes(self) -> int:
        return FORMER_BYTES * len(self)

    def note(self, record: Record) -> None:
        """Note a fact, or an earlier state of one, in place of what this record was before."""
        self.drop(record.id)
        found = former_of(record)
        if found is None or not found[1]:
            return
        former, messages = found
        self._tellers[record.id] = messages
        for message in messages:
            self._told.setdefault(message, {})[record.id] = former

    def drop(self, id: str) -> None:
        """Discard what was noted of a record."""
        for message in self._tellers.pop(id, ()):
            told = self._told[message]
            told.pop(id, None)
            if not told:
                del self._told[message]

    def by(self, message: str) -> Collection[Former]:
        """The values that a message told and that have ended."""
        return self._told.get(message, {}).values()
