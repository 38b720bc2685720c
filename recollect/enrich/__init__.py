"""What an enricher returns: drafts of what a message says, not yet compared with what is known.

An enricher reads messages and proposes drafts; it never stores, ends or deletes anything itself.
The same merging and trust rules decide what becomes of a draft, whichever enricher made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from recollect.records import Record

ANSWER_MAX = 60
"""Maximum characters of a short answer. A longer one is a sentence of its own, and is read as such."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One thing that a message says, with the characters that say it.

    `layer` is `fact`, `preference`, `learning`, `entity` or `relation`. `key` is the key of a fact
    or preference, the type of a learning or entity, the name of a relation; `value` is the value,
    the text of a learning, the name of an entity, the far end of a relation, whose near end is
    `subject` (empty: the user).

    `ends` means that it is no longer true; an empty value then stands for whatever the value was.
    `corrects` means that the value believed so far was never right; `instead_of` is that value, if
    the message names it.
    """

    layer: str
    key: str
    value: str
    confidence: float
    span: tuple[int, int]
    subject: str = ""
    ends: bool = False
    corrects: bool = False
    instead_of: str = ""
    valid_from: int | None = None
    valid_to: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """A draft and the message it was found in."""

    message: Record
    draft: Draft


class Enricher(Protocol):
    """Reads messages. Returns an empty list when they say nothing; raises when it could not tell."""

    @property
    def name(self) -> str:
        """Name and version, stored with everything that it learns: `rules-1`."""
        ...

    async def drafts(self, messages: Sequence[Record]) -> Sequence[Found]:
        """What these messages of one session say, in message order."""
        ...
