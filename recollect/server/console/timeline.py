"""Facts on a timeline: which value held from when to when, as places between the left and the right of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from recollect.profile import Fact
from recollect.server.console.words import day

TICKS = 5
"""Days that are named below a timeline: more would touch each other on a telephone."""
SHORTEST = 0.012
"""Of a value that held for a moment, so much is drawn that it can be seen and clicked."""
LETTER, PADDING = 0.0095, 0.025
"""About what a letter takes of the width, and the room around a text: what does not fit is written beside its bar."""
LETTERS_MAX = 36
"""Of a longer value the beginning is drawn; all of it stands where the pointer rests, and in the list below."""
BELIEVED = ("learned", "told", "confirmed", "pinned", "ended")
"""Values that were true at some time. What was rejected or corrected never was."""


class Row(NamedTuple):
    """What is to be drawn on one lane."""

    key: str
    id: str
    facts: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class Spell:
    """One value while it held, with its place and length from 0 to 1."""

    fact: Fact
    start: float
    length: float
    holds: bool
    label: str = ""
    """Where its value is written: `inside` its bar, on the side of it that has room, or nowhere."""

    @property
    def said(self) -> str:
        """The value, as much of it as can be read at a glance."""
        value = self.fact.value
        return value if len(value) <= LETTERS_MAX else f"{value[: LETTERS_MAX - 1]}…"

    @property
    def end(self) -> float:
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Lane:
    """One key, or one value of a key that has many, through time; `id` is the memory that holds it now."""

    key: str
    id: str
    spells: tuple[Spell, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A day below the timeline."""

    place: float
    label: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All lanes on one scale."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    asked: float | None


def draw(rows: Sequence[Row], now: datetime, asked: datetime | None = None) -> Timeline:
    """Facts by key, each oldest first, on one scale that ends now."""
    believed = [row._replace(facts=[fact for fact in row.facts if fact.status in BELIEVED]) for row in rows]
    began = [fact.valid_from for row in believed for fact in row.facts if fact.valid_from is not None]
    first = min([*began, now - timedelta(days=1)])
    # A little room at the left, so that what was known first does not look as if it were older.
    scale = _Scale(first - (now - first) * 0.02, now)
    lanes = tuple(
        Lane(row.key, row.id, _labelled([_spell(fact, scale) for fact in row.facts])) for row in believed if row.facts
    )
    ticks = tuple(Tick(place / (TICKS - 1), day(scale.at(place / (TICKS - 1)))) for place in range(TICKS))
    return Timeline(lanes, ticks, None if asked is None else scale.place(asked))


@dataclass(frozen=True, slots=True)
class _Scale:
    first: datetime
    last: datetime

    def place(self, time: datetime) -> float:
        return min(1.0, max(0.0, (time - self.first) / (self.last - self.first)))

    def at(self, place: float) -> datetime:
        return self.first + (self.last - self.first) * place


def _spell(fact: Fact, scale: _Scale) -> Spell:
    start = 0.0 if fact.valid_from is None else scale.place(fact.valid_from)
    end = 1.0 if fact.valid_to is None else scale.place(fact.valid_to)
    length = max(end - start, SHORTEST)
    return Spell(fact, min(start, 1 - length), length, fact.valid_to is None or fact.valid_to > scale.last)


def _labelled(spells: Sequence[Spell]) -> tuple[Spell, ...]:
    """The values written where there is room: no text lies over another or over the bar of another."""
    taken = [(spell.start, spell.end) for spell in spells]
    labels: dict[int, str] = {}
    # What holds now is written first: of values that changed every minute it is the one to read.
    for place, spell in sorted(enumerate(spells), key=lambda each: not each[1].holds):
        width = len(spell.said) * LETTER + PADDING
        beside = {"left": (spell.start - width, spell.start), "right": (spell.end, spell.end + width)}
        if width <= spell.length:
            labels[place] = "inside"
            continue
        for side in ("left", "right") if spell.start > 0.5 else ("right", "left"):
            first, last = beside[side]
            if first >= 0 and last <= 1 and not any(first < end and start < last for start, end in taken):
                labels[place] = side
                taken.append((first, last))
                break
    return tuple(replace(spell, label=labels.get(place, "")) for place, spell in enumerate(spells))
