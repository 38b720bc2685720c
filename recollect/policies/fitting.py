"""What fits: windows of a conversation, the split that a summary needs, and the packing of a context.

Messages are records of the layer `conversation`. A tool call and its results are one *unit* and are
never separated, because providers refuse a result without its call and a call without its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from recollect.records import Record

Unit = tuple[Record, ...]
Count = Callable[[Record], int]
"""Tokens of one message, as the model that will read it counts them."""


def _calls(message: Record) -> frozenset[str]:
    """The ids of the tool calls that a message makes."""
    calls = message.data.get("tool_calls") or ()
    return frozenset(str(call.get("id") or "") for call in calls if isinstance(call, Mapping))


def _uses_tools(messages: Sequence[Record]) -> bool:
    return any(message.data.get("role") == "tool" or "tool_calls" in message.data for message in messages)


def _answers(messages: Sequence[Record]) -> dict[int, int]:
    """Position of each tool result -> position of its call: the nearest one before it, since ids may recur."""
    latest: dict[str, int] = {}
    found: dict[int, int] = {}
    for place, message in enumerate(messages):
        latest.update(dict.fromkeys(_calls(message), place))
        call = latest.get(str(message.data.get("tool_call_id") or ""))
        if message.data.get("role") == "tool" and call is not None:
            found[place] = call
    return found


def units(messages: Sequence[Record]) -> list[Unit]:
    """The messages in order, in pieces that are never separated.

    A call, its results and whatever lies between them are one piece; everything else stands alone.
    """
    if not _uses_tools(messages):
        return [(message,) for message in messages]
    ends = list(range(len(messages)))
    for result, call in _answers(messages).items():
        ends[call] = max(ends[call], result)
    pieces: list[Unit] = []
    start = 0
    while start < len(messages):
        place, end = start, start
        while place <= end:
            end = max(end, ends[place])
            place += 1
        pieces.append(tuple(messages[start : end + 1]))
        start = end + 1
    return pieces


def without_orphans(messages: Sequence[Record], *, pending: bool = True) -> list[Record]:
    """The messages that a provider accepts: no result without its call, no call without all its results.

    A call at the very end may still be waiting for its results; `pending=False` drops that one too,
    as is needed when something other than a result comes next.
    """
    if not _uses_tools(messages):
        return list(messages)
    answers = _answers(messages)
    results: dict[int, list[int]] = {place: [] for place, message in enumerate(messages) if _calls(message)}
    for result, call in answers.items():
        results[call].append(result)
    cut: set[int] = set()
    for call, places in results.items():
        answered = {str(messages[place].data.get("tool_call_id") or "") for place in places}
        waits = pending and call + len(places) == len(messages) - 1
        if not waits and not _calls(messages[call]) <= answered:
            cut.update((call, *places))
    orphans = {place for place, message in enumerate(messages) if message.data.get("role") == "tool"} - answers.keys()
    return [message for place, message in enumerate(messages) if place not in cut | orphans]


def messages_of(pieces: Iterable[Unit]) -> list[Record]:
    """The messages of these pieces, in order."""
    return [message for unit in pieces for message in unit]


def _newest(pieces: Sequence[Unit], room: int, size: Callable[[Unit], int]) -> int:
    """The start of the longest run of newest units that fits into the room."""
    start = len(pieces)
    while start and (room := room - size(pieces[start - 1])) >= 0:
        start -= 1
    return start


# Windows. Each returns messages in order, whole units only, without orphans, and never more than was asked for.


def last_messages(messages: Sequence[Record], n: int = 50) -> list[Record]:
    """The newest messages, at most `n`."""
    pieces = units(without_orphans(messages))
    return messages_of(pieces[_newest(pieces, n, len) :])


def last_turns(messages: Sequence[Record], k: int = 10) -> list[Record]:
    """The newest `k` turns; a turn starts at a user message."""
    pieces = units(without_orphans(messages))
    start, turns = len(pieces), 0
    while start and turns < k:
        start -= 1
        turns += sum(message.data.get("role") == "user" for message in pieces[start])
    return messages_of(pieces[start:])


def newest_within(messages: Sequence[Record], tokens_max: int, count: Count) -> list[Record]:
    """The newest messages that together have at most `tokens_max` tokens."""
    pieces = units(without_orphans(messages))
    return messages_of(pieces[_newest(pieces, tokens_max, lambda unit: sum(map(count, unit))) :])


def most_important(messages: Sequence[Record], n: int = 50, recent: int = 4) -> list[Record]:
    """The `recent` newest messages and the most important of the others, at most `n`, in order.

    A unit is as important as its most important message; of two equal ones, the newer stays.
    """
    pieces = units(without_orphans(messages))
    border = _newest(pieces, min(n, recent), len)
    kept = set(range(border, len(pieces)))
    room = n - sum(len(pieces[place]) for place in kept)
    weight = [max(message.importance for message in unit) for unit in pieces]
    for place in sorted(range(border), key=lambda place: (-weight[place], -place)):
        if len(pieces[place]) <= room:
            kept.add(place)
            room -= len(pieces[place])
    return messages_of(pieces[place] for place in sorted(kept))


@dataclass(frozen=True, slots=True)
class Split:
    """A history in two: `older` goes into the summary, `kept` stays raw. Together they are everything."""

    older: tuple[Record, ...]
    kept: tuple[Record, ...]


def _split(pieces: Sequence[Unit], room: int, size: Callable[[Unit], int]) -> Split:
    # The newest unit stays even when it alone is too large: a conversation must keep its last word.
    border = min(_newest(pieces, room, size), max(len(pieces) - 1, 0))
    return Split(tuple(messages_of(pieces[:border])), tuple(messages_of(pieces[border:])))


def split_by_tokens(messages: Sequence[Record], tokens_max: int, count: Count) -> Split:
    """Nothing is older while everything fits; otherwise the first half by tokens is, and the last half is kept.

    If the history is more than twice the limit, `kept` is still too large: split it again.
    """
    sizes = {id(message): count(message) for message in messages}
    total = sum(sizes.values())
    if total <= tokens_max:
        return Split((), tuple(messages))
    return _split(units(messages), total // 2, lambda unit: sum(sizes[id(message)] for message in unit))


def split_by_count(messages: Sequence[Record], over: int = 20, keep: int = 10) -> Split:
    """Nothing is older up to `over` messages; otherwise all but the newest `keep`."""
    if len(messages) <= over:
        return Split((), tuple(messages))
    return _split(units(messages), keep, len)


def by_halves(sizes: Sequence[int], room: int) -> int:
    """The start of a window of items, oldest first, that fits into a room and seldom moves.

    A window that always takes whatever just fits starts elsewhere with each new item. This one gives up half of the
    room at a time, so it starts at the same item until that half is full again. It always contains the newest item.

    >>> [by_halves([10] * count, room=40) for count in range(3, 9)]
    [0, 0, 2, 2, 4, 4]
    """
    above = sum(sizes) - room
    if above <= 0:
        return 0
    half = max(room // 2, 1)
    given_up, start = -(-above // half) * half, 0
    while start < len(sizes) - 1 and given_up > 0:
        given_up -= sizes[start]
        start += 1
    return start


# Packing of a context.


@dataclass(frozen=True, slots=True)
class Item:
    """Something that goes into a context as it is or not at all; `whole` is False if it was shortened beforehand."""

    id: str
    text: str
    tokens: int
    whole: bool = True


EVEN = 0.05
"""The room that the last item gets, as a share of what the first one gets."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the context: its items, best first, and its share (0 to 1) of the budget.

    `floor` tokens are reserved for it, if it has that much to say; it never takes more than `most`. An `unbroken`
    section ends at the first item that does not fit, because a conversation must have no gaps.
    """

    name: str
    items: tuple[Item, ...]
    share: float
    floor: int = 0
    unbroken: bool = False
    most: int | None = None

    @property
    def size(self) -> int:
        """The tokens of its items, as far as it may take them."""
        tokens = sum(item.tokens for item in self.items)
        return tokens if self.most is None else min(tokens, self.most)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An item that did not go in, and why."""

    section: str
    id: str
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class Packed:
    """What goes in (every section by its name, in its order), what does not, and the total of tokens."""

    kept: dict[str, tuple[Item, ...]]
    left_out: tuple[LeftOut, ...]
    tokens: int


def cut(scores: Sequence[float], fewest: int, share: float) -> int:
    """How many of the scores, best first, are worth their room: those not far behind the best.

    Where scores fall quickly, few are; `fewest` of them always are.

    >>> cut([0.9, 0.8, 0.3, 0.2], fewest=1, share=0.5)
    2
    """
    near = sum(score >= share * scores[0] for score in scores) if scores else 0
    return max(near, min(fewest, len(scores)))


def allowances(sizes: Sequence[int], scores: Sequence[float], room: int, least: int) -> list[int]:
    """How many tokens each item may take of a room that is too small for all of them.

    Each gets what it needs while there is room, otherwise the better ones get more: by the square of how far
    a score is above the last one. None is made smaller than `least`.

    >>> allowances([500, 20, 500], [0.9, 0.8, 0.6], 300, least=40)
    [267, 20, 40]
    """
    if not sizes:
        return []
    last, best = min(scores), max(scores)
    weights = [((score - last) / (best - last)) ** 2 + EVEN if best > last else 1.0 for score in scores]
    given: dict[int, int] = {}
    waiting = set(range(len(sizes)))
    while waiting:
        level = max(room, 0) / sum(weights[place] for place in waiting)
        content = {place for place in waiting if sizes[place] <= max(weights[place] * level, least)}
        if not content:
            given |= {place: max(int(weights[place] * level), least) for place in waiting}
            break
        given |= {place: sizes[place] for place in content}
        room -= sum(sizes[place] for place in content)
        waiting -= content
    return [given[place] for place in range(len(sizes))]


class _Packing:
    """Whole items going into a budget. Sections are identified by position."""

    def __init__(self, sections: Sequence[Section], headings: Sequence[int], budget: int) -> None:
        self.sections = sections
        self.headings = headings
        self.budget = budget
        self.used = 0
        self.taken: list[set[int]] = [set() for _ in sections]
        self.spent = [0] * len(sections)

    def cost(self, place: int, item: Item) -> int:
        """What an item costs at this point, in tokens: the first one of a section pays for the heading."""
        return item.tokens + (0 if self.taken[place] else self.headings[place])

    def fill(self, place: int, limit: int) -> None:
        """Take the best items of a section while it stays within `limit` tokens, and within the most it may take."""
        limit = min(limit, self.most(place))
        for number, item in enumerate(self.sections[place].items):
            if number in self.taken[place]:
                continue
            cost = self.cost(place, item)
            if self.spent[place] + cost <= limit:
                self.taken[place].add(number)
                self.spent[place] += cost
                self.used += cost
            elif self.sections[place].unbroken:
                return

    def fill_all(self, order: Sequence[int]) -> None:
        """Fill each section up to its share, but never into what others have reserved; then use the rest, in order."""
        reserved = {place: self.reserve(place) for place in order}
        for place in order:
            mine = reserved.pop(place)
            room = self.budget - self.used
            share = int(min(self.sections[place].share, 1.0) * self.budget)
            if self.sections[place].items:  # the best item of a section is worth more than its share
                share = max(share, self.cost(place, self.sections[place].items[0]))
            self.fill(place, min(room, max(mine, min(share, room - sum(reserved.values())))))
        for place in order:
            self.fill(place, self.spent[place] + self.budget - self.used)

    def reserve(self, place: int) -> int:
        """The floor of a section, or all that it has if that is less."""
        section = self.sections[place]
        size = self.headings[place] + sum(item.tokens for item in section.items)
        return min(section.floor, size, self.most(place)) if section.items else 0

    def most(self, place: int) -> int:
        """The most tokens that a section may take."""
        most = self.sections[place].most
        return self.budget if most is None else min(most, self.budget)

    def packed(self) -> Packed:
        """What went in, with a reason for every item that did not."""
        kept = {
            section.name: tuple(item for number, item in enumerate(section.items) if number in self.taken[place])
            for place, section in enumerate(self.sections)
        }
        left_out = tuple(
            LeftOut(section.name, item.id, item.tokens, self.reason(place, self.cost(place, item)))
            for place, section in enumerate(self.sections)
            for number, item in enumerate(section.items)
            if number not in self.taken[place]
        )
        return Packed(kept, left_out, self.used)

    def reason(self, place: int, needs: int) -> str:
        most = self.most(place)
        if most < self.budget and needs > most - self.spent[place]:
            return f"no room: needs {needs} tokens, and its section may take {most}"
        if needs > self.budget:
            return f"too large: needs {needs} tokens, there is room for {self.budget}"
        return f"no room: needs {needs} tokens, {self.budget - self.used} left"


def pack(
    sections: Sequence[Section],
    tokens_max: int,
    heading_tokens: Callable[[str], int],
    priority: Sequence[str] = (),
) -> Packed:
    """Pack whole items into a budget, which is never exceeded.

    Each section first gets its share. What is left over goes to the sections in the order of
    `priority` (those not named come last). An item that does not fit is skipped, and smaller
    ones after it may still go in, unless the section is `unbroken`. Section names are unique.
    """
    headings = [heading_tokens(section.name) for section in sections]
    rank = {name: place for place, name in enumerate(priority)}
    order = sorted(range(len(sections)), key=lambda place: rank.get(sections[place].name, len(rank)))
    packing = _Packing(sections, headings, tokens_max)
    packing.fill_all(order)
    return packing.packed()
