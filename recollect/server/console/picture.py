"""The picture of a graph: where its entities, their names and the words between them go, on wide and narrow screens.

Positions are shares of the width and the height, so one picture serves every screen. Letters keep their size, though:
on a phone they take twice the share. So the room is measured for both, and what does not fit is marked, to be shown
while its entity or its line is pointed at: `CROWDED` fits nowhere, `ROOMY` only on a wide screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

import numpy as np

from recollect.policies.graph_views import Neighbourhood, said_between
from recollect.policies.graphs import USER
from recollect.policies.layouts import apart, layout

CROWDED, ROOMY = "crowded", "roomy"
WIDTHS = {CROWDED: 640, ROOMY: 350}
"""The width of a picture in pixels on a wide and on a narrow screen, by the mark for what does not fit there."""
HEIGHT, HEIGHT_EACH, ALL_HIGH = 520, 11, 24
"""Its height in pixels, what each entity beyond `ALL_HIGH` adds to it, and that number of entities."""
LETTER, WIDE_LETTER, LINE, DOT = 7.4, 13.0, 18, 26
"""The pixels that a letter, one as wide as 東, a line of text and an entity itself take."""
NAME_BELOW = 27
"""Pixels from the centre of an entity to the centre of its name."""
NAME_MAX, SAID_MAX = 20, 26
"""The most letters of a name and of the words on a line; the full text is shown on hover."""
GAP = 8
"""Pixels between two names, and between a name and the edge."""
MARGIN = 0.08
"""Room above and below, as a share of the height."""
ALONG = (0.5, 0.42, 0.58, 0.34, 0.66)
"""Where along a line its words may go; the first position that covers the least is used."""


@dataclass(frozen=True, slots=True)
class Node:
    """An entity in the picture, at a share of its width and height; `room` is empty if its label is always shown."""

    id: str
    name: str
    label: str
    type: str
    x: float
    y: float
    is_start: bool
    room: str


@dataclass(frozen=True, slots=True)
class Edge:
    """What is said about two entities, with both ends and the position of the words; `told` is the whole sentence."""

    x1: float
    y1: float
    x2: float
    y2: float
    x: float
    y: float
    said: str
    told: str
    room: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is drawn, and the height."""

    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def picture(near: Neighbourhood, user: str) -> Picture:
    """A neighbourhood as it is drawn; `user` is the name that stands for the user."""
    height = HEIGHT + HEIGHT_EACH * max(0, len(near.entities) - ALL_HIGH)
    rooms = [_Room(width, height) for width in WIDTHS.values()]
    nodes = tuple(_nodes(near, user, rooms))
    return Picture(height, nodes, tuple(_edges(near, nodes, rooms)))


def _nodes(near: Neighbourhood, user: str, rooms: Sequence[_Room]) -> Iterator[Node]:
    order = {entity.id: place for place, entity in enumerate(near.entities)}
    places = layout(len(order), [(order[each.subject], order[each.object]) for each in near.relations])
    names = [user if entity.name == USER else entity.name for entity in near.entities]
    labels = [shortened(name, NAME_MAX) for name in names]
    narrow = rooms[-1]
    widths = np.array([(max(_text_px(label), DOT) + GAP) / narrow.width for label in labels])
    if len(places):  # centre a few that lie in a row
        places += 0.5 - (places.min(axis=0) + places.max(axis=0)) / 2
    places[:, 1] = MARGIN + places[:, 1] * (1 - 2 * MARGIN)
    places = apart(places, widths, (NAME_BELOW + LINE + 4) / narrow.height, low=MARGIN, high=1 - MARGIN)
    for room in rooms:
        for x, y in places.tolist():
            room.take(x, y, DOT, DOT)
    for entity, name, label, (x, y) in zip(near.entities, names, labels, places.tolist(), strict=True):
        mark = _marked(room.name_fits(label, x, y) for room in rooms)
        yield Node(entity.id, name, label, entity.type, round(x, 4), round(y, 4), entity is near.entities[0], mark)


def _edges(near: Neighbourhood, nodes: tuple[Node, ...], rooms: Sequence[_Room]) -> Iterator[Edge]:
    """One line per pair of entities and direction, with all that is said about them and an arrow."""
    at = {node.id: node for node in nodes}
    for (subject, object), said_of_both in said_between(near).items():
        a, b = at[subject], at[object]
        text = shortened(said_of_both, SAID_MAX)
        arrow = f"{text} →" if a.x <= b.x else f"← {text}"
        spots = [(a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part) for part in ALONG]
        wide = _text_px(arrow)
        x, y = min(spots, key=lambda spot: [room.covered(spot[0], spot[1], wide, LINE) for room in rooms])
        mark = _marked(room.words_fit(arrow, x, y) for room in rooms)
        told = f"{a.name} {said_of_both} {b.name}"
        yield Edge(a.x, a.y, b.x, b.y, round(x, 4), round(y, 4), arrow, told, mark)


def shortened(text: str, most: int) -> str:
    """A text of at most `most` letters.

    >>> shortened("University of Bergen", 12)
    'University…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _text_px(text: str) -> float:
    """About how long a text is when drawn.

    >>> _text_px("Oslo") == 4 * LETTER, _text_px("東京") == 2 * WIDE_LETTER
    (True, True)
    """
    return sum(WIDE_LETTER if east_asian_width(letter) in "WF" else LETTER for letter in text)


def _marked(fits: Iterable[bool]) -> str:
    """The mark of the widest screen on which something does not fit; empty if it fits on all."""
    return next((mark for mark, fit in zip(WIDTHS, fits, strict=True) if not fit), "")


class _Room:
    """The space taken in a picture on one screen, in pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._boxes: list[tuple[float, float, float, float]] = []

    def take(self, x: float, y: float, wide: float, high: float) -> None:
        self._boxes.append((x * self.width, y * self.height, wide, high))

    def covered(self, x: float, y: float, wide: float, high: float) -> float:
        """How many square pixels of what is already there would be covered."""
        middle, level = x * self.width, y * self.height
        over = (
            max(0.0, (wide + other) / 2 - abs(middle - left)) * max(0.0, (high + tall) / 2 - abs(level - top))
            for left, top, other, tall in self._boxes
        )
        return sum(over)

    def name_fits(self, name: str, x: float, y: float) -> bool:
        return self._fits(x, y + NAME_BELOW / self.height, _text_px(name))

    def words_fit(self, words: str, x: float, y: float) -> bool:
        return self._fits(x, y, _text_px(words))

    def _fits(self, x: float, y: float, wide: float) -> bool:
        """Take the space for words if it is free. Returns whether it was."""
        free = self.covered(x, y, wide, LINE) < LINE  # a pixel along a line is nothing
        if free:
            self.take(x, y, wide, LINE)
        return free
