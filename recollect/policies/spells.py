"""A spell of a fact: a value, from when to when it was true, and who told so. Small questions about one or two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from recollect.policies.keys import same_value
from recollect.policies.quarantine import is_aside
from recollect.records import Record

EVER = 2**62
"""Later than any time: what is known at `EVER` is all that is known, whatever a clock says."""
UNTRUE = ("not_taken", "corrected", "rejected", "undone")
"""The statuses of a spell that holds at no time."""
UNHEARD = "unheard"
"""In the data of a head: who said what was already rejected, as `mark:message`. If that is undone, they count."""
_OF_PLACE = ("edits", "applied", "rejected", "ends", UNHEARD)
"""What the data of a head keeps whichever value it has; everything else belongs to the spell."""


class Telling(NamedTuple):
    """That something was said: by which message, when and how surely, since when it is true, and what read it.

    Without message and extractor, somebody told it outright. Spells keep their tellings as plain lists.
    """

    message: str | None
    session: str | None
    at: int
    since: int
    confidence: float
    extractor: str | None
    text: str


def start_of(spell: Record) -> int:
    """When it began. What has no known beginning counts as before everything that has one."""
    return -EVER if spell.valid_from is None else spell.valid_from


def end_of(spell: Record) -> float:
    return math.inf if spell.valid_to is None else spell.valid_to


def is_empty(spell: Record) -> bool:
    return end_of(spell) <= start_of(spell)


def stands(spell: Record) -> bool:
    """Whether it was said to be true, is not known to be untrue, and is not set aside."""
    return spell.data["status"] not in UNTRUE and spell.data["last_seen"] is not None and not is_aside(spell)


def is_to_come(spell: Record, value: str, at: int) -> bool:
    """Whether the spell says that this value will be true, from later on."""
    return bool(spell.data) and stands(spell) and start_of(spell) > at and has_value(spell, value)


def is_sure(spell: Record, known_at: int = EVER) -> bool:
    """Whether somebody had said it surely by then."""
    sure_at = spell.data.get("sure_at")
    return sure_at is not None and sure_at <= known_at


def has_value(spell: Record, value: str) -> bool:
    return same_value(spell.data["value"], value)


def is_start_told(spell: Record) -> bool:
    """Whether somebody said when it began, other than by saying that it is true."""
    return spell.valid_from is not None and spell.valid_from != spell.data["first_seen"]


def is_of_before(spell: Record, other: Record) -> bool:
    """True for a spell that held before the other although it was said later: it does not replace it."""
    said_later = spell.data["last_seen"] >= other.data["first_seen"] and is_sure(other) >= is_sure(spell)
    of_before = start_of(spell) < start_of(other) and is_start_told(other)
    return said_later and of_before and spell.data["status"] == "learned" and not has_value(other, spell.data["value"])


def ended_by(spell: Record) -> list[str]:
    """The messages that told an end of it, where a message did."""
    if spell.data["status"] in UNTRUE:
        return []
    return [message for each in spell.data.get("ended", ()) if (message := message_of(each))]


def message_of(ended: Sequence[Any]) -> str | None:
    """The message that told this end; None if it only follows from another value."""
    return Telling(*ended[2]).message if len(ended) == 3 else None


def of_place(head: Record) -> dict[str, Any]:
    """The part of a head's data that stays whichever value it has."""
    return {name: head.data[name] for name in _OF_PLACE if name in head.data}


def of_spell(data: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a head's data that goes into the past with its spell."""
    return {name: value for name, value in data.items() if name not in _OF_PLACE}
