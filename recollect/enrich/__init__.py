"""What an enricher gives: drafts of what a message says, not yet compared with what is known.

An enricher reads messages and proposes; it never stores, ends or deletes anything itself. What
becomes of a draft is decided by the same merging and trust rules, whoever made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from recollect.records import Record

ANSWER_MAX = 60
"""Characters of a short answer. A longer one has a sentence of its own, and is read as such."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One thing that a message says, with the characters that say it.

    `layer` is `fact`, `preference`, `learning`, `entity` or `relation`. `key` is the key of a fact
    or preference, the type of a learning or entity, the name of a relation; `value` is the value,
    the text of a learning, the name of an entity, the far end of a relation, whose near end is
    `subject` (empty: the user).

    With `ends` it is no longer so; an empty value then means whatever the value was. With
    `corrects` the value that was believed was never right, and `instead_of` is that value where it
    is named.
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
    """Reads messages. Gives an empty list when they say nothing; raises when it could not tell."""

    @property
    def name(self) -> str:
        """Kept with everything that is learned, with its version: `rules-1`."""
        ...

    async def drafts(self, messages: Sequence[Record]) -> Sequence[Found]:
        """What these messages of one session say, in their order."""
        ...
