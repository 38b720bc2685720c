"""What the messages of a drill teach, and what must be known from each: all of it, once, and only while it lives.

Every message names a friend whose name identifies the message. So a checker can tell from any record
that holds such a name which message it came from, without asking whoever learned it.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

from recollect.records import Partition

NAME = re.compile(r"\bZ[a-j]+(?:x[a-j]+){3}\b")
_NUMBERS = re.compile(r"\d+")
_DIGITS = str.maketrans("0123456789", "abcdefghij")
LEARNED = ("fact", "entity", "relation")
"""The layers in which a lesson must be found."""


class Stored(Protocol):
    """A living record as a checker sees it."""

    @property
    def partition(self) -> Partition: ...
    @property
    def id(self) -> str: ...
    @property
    def layer(self) -> str: ...
    @property
    def payload(self) -> str: ...


def name_of(mark: str) -> str:
    """The friend whom only the message with this mark names: L12W3N4P0 has Zbcxdxexa."""
    return "Z" + "x".join(_NUMBERS.findall(mark)).translate(_DIGITS)


def lesson(mark: str) -> str:
    """What a message says besides its mark, for the rules to find."""
    return f"My friend {name_of(mark)} came too."


def half_learned(rows: Sequence[Stored], being_forgotten: Collection[str] = ()) -> Iterator[str]:
    """Messages from which only a part was learned, or nothing.

    Those whose forgetting was interrupted do not count: what they taught goes first.
    """
    known = {(row.partition, row.layer, name) for row in rows if row.layer in LEARNED for name in _names(row)}
    for row in rows:
        counts = _is_said_by_user(row) and row.id not in being_forgotten
        for name in _names(row) if counts else ():
            missing = [layer for layer in LEARNED if (row.partition, layer, name) not in known]
            if missing:
                yield f"of {name} there is no {', no '.join(missing)}"


def learned_twice(rows: Sequence[Stored]) -> Iterator[str]:
    """Facts that exist twice, or count a message twice; messages that are in two episodes."""
    facts: Counter[tuple[Partition, str]] = Counter()
    episodes: Counter[tuple[Partition, str]] = Counter()
    for row in rows:
        data = _data(row)
        if row.layer == "fact":
            facts.update((row.partition, name) for name in _names(row))
            if data["seen"] != len({telling[0] for telling in data["tellings"]}):
                yield f"fact {row.id} was seen {data['seen']} times"
        if row.layer == "episodic":
            episodes.update((row.partition, id) for id in data["messages"])
    yield from (f"{name} is known twice" for (_, name), times in facts.items() if times > 1)
    yield from (f"message {id} is in {times} episodes" for (_, id), times in episodes.items() if times > 1)


def learned_from_nothing(rows: Sequence[Stored]) -> Iterator[str]:
    """Records that name somebody whom no living message names, or rest on something that is gone."""
    said: dict[Partition, set[str]] = defaultdict(set)
    by_user: dict[Partition, set[str]] = defaultdict(set)
    living = {(row.partition, row.id) for row in rows}
    for row in rows:
        if row.layer == "conversation":
            said[row.partition].update(_names(row))
            by_user[row.partition].update(_names(row) if _is_said_by_user(row) else ())
    for row in rows:
        may_name = by_user if row.layer in LEARNED else said
        yield from (f"{name} is still in {row.layer}" for name in _names(row) - may_name[row.partition])
        for id in _data(row).get("rests_on", ()):
            if (row.partition, id) not in living:
                yield f"memory {row.id} rests on an episode that is gone"


def _names(row: Stored) -> set[str]:
    return set(NAME.findall(row.payload))


def _data(row: Stored) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(row.payload).get("data", {})
    return data


def _is_said_by_user(row: Stored) -> bool:
    return row.layer == "conversation" and _data(row).get("role") == "user"
