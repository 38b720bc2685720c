"""Plots as positions between 0 and 1, which templates draw: no library, and nothing to run in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LINES = 4
"""Horizontal lines in a plot, at round numbers."""
ROUND = (10, 15, 20, 25, 30, 40, 50, 60, 80)
"""The steps allowed between two lines, in tenths, times a power of ten."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its name and length."""

    name: str
    value: int
    length: float


@dataclass(frozen=True, slots=True)
class Column:
    """The value of one day: where its column is, how high, and on which side of it there is room to say so."""

    place: float
    height: float
    label: str
    value: int
    side: str


@dataclass(frozen=True, slots=True)
class Columns:
    """A column for each day, the horizontal lines, and the days at both ends and midway."""

    each: tuple[Column, ...]
    width: float
    levels: tuple[tuple[float, int], ...]
    labels: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(column.value for column in self.each)


def bars(rows: Sequence[tuple[str, int]], *, sort: bool = True) -> tuple[Bar, ...]:
    """Bars on one scale, the longest first unless they have an order of their own."""
    longest = max((value for _, value in rows), default=1) or 1
    made = [Bar(name, value, value / longest) for name, value in rows]
    return tuple(sorted(made, key=lambda bar: -bar.value) if sort else made)


def columns(values: Sequence[int], labels: Sequence[str]) -> Columns:
    """A column for each value, in order from left to right."""
    top, width = round_above(max(values, default=0)), 1 / max(len(values), 1)
    each = tuple(
        Column(place * width, value / top, label, value, "end" if place * width > 0.5 else "start")
        for place, (value, label) in enumerate(zip(values, labels, strict=True))
    )
    levels = tuple((1 - place / LINES, top * place // LINES) for place in range(LINES + 1))
    ends = (labels[0], labels[len(labels) // 2], labels[-1]) if labels else ()
    return Columns(each, width, levels, ends)


def round_above(value: int) -> int:
    """A round number that is not below a value and divides into four round steps.

    >>> round_above(73), round_above(5), round_above(111), round_above(0)
    (80, 8, 120, 4)
    """
    power = 1
    while True:
        for factor in ROUND:
            step = factor * power // 10
            if factor * power % 10 == 0 and step * LINES >= value:
                return step * LINES
        power *= 10
