"""Facts on a timeline: which value held from when to when, as positions between the left and right of a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from unicodedata import east_asian_width

from recollect.profile import Fact
from recollect.server.console.words import clock, day

TICKS = 5
"""How many days are named below a timeline: more would touch each other on a phone."""
SHORTEST = 0.012
"""The shortest bar drawn, so that a value that held for only a moment can be seen and clicked."""
WIDTHS_PX = {"tiny": 150, "narrow": 215, "middle": 400, "roomy": 640}
"""Minimum widths of a picture, from phones up. Labels are placed for each width, and those of one width are shown."""
PADDING_PX = 20
"""The space around a text: what does not fit is written beside its bar."""
LETTERS_MAX, LETTERS_MIN = 36, 3
"""Only the beginning of a longer value is drawn, where there is room; the list below has all of it."""
THIN, BROAD = frozenset("fijlrtI1 .,:;'|!()/"), frozenset("mwMW@%…")
BELIEVED = ("learned", "told", "confirmed", "pinned", "ended")
"""The status of values that were true at some time. What was rejected or corrected never was."""


class Row(NamedTuple):
    """What to draw in one lane."""

    key: str
    id: str
    facts: Sequence[Fact]


class Label(NamedTuple):
    """The label of a value: `inside` its bar, or on the side that has room."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Spell:
    """One value for as long as it held, with its position and length from 0 to 1."""

    fact: Fact
    start: float
    length: float
    holds: bool
    labels: Mapping[str, Label | None] = field(default_factory=dict)
    """Its label in a picture of each width; None where there is no room."""

    @property
    def end(self) -> float:
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Lane:
    """One key, or one value of a key that has many, over time; `id` is the memory that holds it now."""

    key: str
    id: str
    spells: tuple[Spell, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A day, or a time of day, below the timeline."""

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
    # A little room at the left, so that what was known first does not look older than it is.
    scale = _Scale(first - (now - first) * 0.02, now)
    lanes = tuple(
        Lane(row.key, row.id, _labelled([_spell(fact, scale) for fact in row.facts])) for row in believed if row.facts
    )
    return Timeline(lanes, tuple(_ticks(scale)), None if asked is None else scale.place(asked))


@dataclass(frozen=True, slots=True)
class _Scale:
    first: datetime
    last: datetime

    def place(self, time: datetime) -> float:
        return min(1.0, max(0.0, (time - self.first) / (self.last - self.first)))

    def at(self, place: float) -> datetime:
        return self.first + (self.last - self.first) * place


def _ticks(scale: _Scale) -> Iterator[Tick]:
    """Days at equal distances; where one would be named again, the time of day."""
    named = ""
    for number in range(TICKS):
        place = number / (TICKS - 1)
        time = scale.at(place)
        yield Tick(place, clock(time) if day(time) == named else day(time))
        named = day(time)


def _spell(fact: Fact, scale: _Scale) -> Spell:
    start = 0.0 if fact.valid_from is None else scale.place(fact.valid_from)
    end = 1.0 if fact.valid_to is None else scale.place(fact.valid_to)
    length = max(end - start, SHORTEST)
    return Spell(fact, min(start, 1 - length), length, fact.valid_to is None or fact.valid_to > scale.last)


def _labelled(spells: Sequence[Spell]) -> tuple[Spell, ...]:
    """The spells, each with its label for pictures of every width."""
    by_width = [_labels(spells, width_px) for width_px in WIDTHS_PX.values()]
    return tuple(
        replace(spell, labels=dict(zip(WIDTHS_PX, labels, strict=True)))
        for spell, *labels in zip(spells, *by_width, strict=True)
    )


def _labels(spells: Sequence[Spell], width_px: int) -> list[Label | None]:
    """Labels placed where there is room: no text overlaps another text or another value's bar."""
    taken = [(spell.start, spell.end) for spell in spells]
    labels: list[Label | None] = [None for _ in spells]
    # What holds now is placed first: among values that changed every minute, it is the one to read.
    for place, spell in sorted(enumerate(spells), key=lambda each: not each[1].holds):
        value = spell.fact.value
        said = value if len(value) <= LETTERS_MAX else _begun(value, LETTERS_MAX - 1)
        width = (_text_px(said) + PADDING_PX) / width_px
        beside = {"left": (spell.start - width, spell.start), "right": (spell.end, spell.end + width)}
        if width <= spell.length:
            labels[place] = Label("inside", said)
            continue
        for side in ("left", "right") if spell.start > 0.5 else ("right", "left"):
            first, last = beside[side]
            if first >= 0 and last <= 1 and not any(first < end and start < last for start, end in taken):
                labels[place] = Label(side, said)
                taken.append((first, last))
                break
        else:
            first = max((min(end, spell.start) for start, end in taken if start < spell.start), default=0.0)
            last = min((max(start, spell.end) for start, end in taken if end > spell.end), default=1.0)
            rooms = {"inside": spell.length, "left": spell.start - first, "right": last - spell.end}
            side = max(rooms, key=lambda name: rooms[name])
            label = labels[place] = _beginning(side, said, rooms[side] * width_px - PADDING_PX)
            if label is not None and side != "inside":
                width = (_text_px(label.text) + PADDING_PX) / width_px
                taken.append((spell.start - width, spell.start) if side == "left" else (spell.end, spell.end + width))
    return labels


def _beginning(place: str, text: str, room_px: float) -> Label | None:
    """As much of a text as fits into a place; None if that is too little to say anything."""
    kept = next((end for end in range(len(text) - 1, 0, -1) if _text_px(_begun(text, end)) <= room_px), 0)
    return Label(place, _begun(text, kept)) if kept >= LETTERS_MIN else None


def _begun(text: str, letters: int) -> str:
    return f"{text[:letters].rstrip()}…"


def _text_px(text: str) -> int:
    """About how long a text is when drawn, erring on the long side.

    >>> _text_px("Fjordlab"), _text_px("東京")
    (57, 26)
    """
    return sum(map(_letter_px, text))


def _letter_px(letter: str) -> int:
    if letter in BROAD or east_asian_width(letter) in "WF":
        return 13
    return 5 if letter in THIN else 10 if letter.isupper() else 8
