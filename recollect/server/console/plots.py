"""Plots as positions between 0 and 1, which templates draw: no library, and nothing to run in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 1_000, 200
"""The internal size of an area; it is stretched to fit the available space."""
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
class Area:
    """A line over time with the area below it, as paths; the horizontal lines, and the days at both ends and midway."""

    line: str
    ground: str
    levels: tuple[tuple[float, int], ...]
    labels: tuple[str, ...]
    last: int
    gained: int


def bars(rows: Sequence[tuple[str, int]], *, sort: bool = True) -> tuple[Bar, ...]:
    """Bars on one scale, the longest first unless they have an order of their own."""
    longest = max((value for _, value in rows), default=1) or 1
    made = [Bar(name, value, value / longest) for name, value in rows]
    return tuple(sorted(made, key=lambda bar: -bar.value) if sort else made)


def area(values: Sequence[int], labels: Sequence[str]) -> Area:
    """An area through the values, in order from left to right."""
    top = round_above(max(values, default=0))
    step = WIDTH / max(len(values) - 1, 1)
    points = [f"{place * step:.1f},{HEIGHT - value / top * HEIGHT:.1f}" for place, value in enumerate(values)]
    line = f"M{' L'.join(points)}" if points else ""
    levels = tuple((1 - place / LINES, top * place // LINES) for place in range(LINES + 1))
    ends = (labels[0], labels[len(labels) // 2], labels[-1]) if labels else ()
    gained = values[-1] - values[-8] if len(values) > 7 else 0
    return Area(line, f"{line} L{WIDTH},{HEIGHT} L0,{HEIGHT} Z", levels, ends, values[-1] if values else 0, gained)


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
