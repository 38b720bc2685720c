"""Filters, which say which records are meant: a closed grammar, checked when a filter is built.

People write a filter as plain JSON; `conditions.parse` turns it into the values below. A field
or operator that is not in the tables here cannot be expressed, so no store ever sees one.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recollect.errors import ValidationError
from recollect.records import Partition, Record, canonical_json

FIELDS: dict[str, Callable[[Record], Any]] = {
    "id": lambda r: r.id,
    "layer": lambda r: r.layer,
    "session": lambda r: r.scope.session or None,
    "agent": lambda r: r.scope.agent or None,
    "role": lambda r: r.data.get("role"),
    "name": lambda r: r.data.get("name"),
    "importance": lambda r: r.importance,
    "confidence": lambda r: r.confidence,
    "trust": lambda r: r.trust,
    "created_at": lambda r: r.created_at,
    "event_at": lambda r: r.when,
    "valid_from": lambda r: r.valid_from,
    "valid_to": lambda r: r.valid_to,
    "expires_at": lambda r: r.expires_at,
}
TIME_FIELDS = frozenset({"created_at", "event_at", "valid_from", "valid_to", "expires_at"})
METADATA_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]{0,63}\Z")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def test(have: Any, want: Any) -> bool:
        if isinstance(have, bool) or isinstance(want, bool):
            return False
        numbers = isinstance(have, int | float) and isinstance(want, int | float)
        return (numbers or (isinstance(have, str) and isinstance(want, str))) and compare(have, want)

    return test


def _equal(have: Any, want: Any) -> bool:
    return bool(have == want) and isinstance(have, bool) == isinstance(want, bool)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "in": lambda have, want: any(_equal(have, each) for each in want),
    "gt": _ordered(operator.gt),
    "gte": _ordered(operator.ge),
    "lt": _ordered(operator.lt),
    "lte": _ordered(operator.le),
    "exists": lambda have, want: (have is not None) is want,
}


@dataclass(frozen=True, slots=True)
class Test:
    """`field operator value`; fields are those of FIELDS and `metadata.<key>`."""

    field: str
    op: str
    value: Any

    def __post_init__(self) -> None:
        if self.op not in OPERATORS:
            raise ValidationError(f"unknown operator; use one of {', '.join(OPERATORS)}", field="where")
        if self.field in FIELDS:
            return
        prefix, _, key = self.field.partition(".")
        if prefix != "metadata" or not METADATA_KEY.match(key):
            known = ", ".join(FIELDS)
            raise ValidationError(f"unknown field; use metadata.<key> or one of {known}", field="where")

    def holds(self, record: Record) -> bool:
        read = FIELDS.get(self.field)
        have = read(record) if read else record.metadata.get(self.field.partition(".")[2])
        return OPERATORS[self.op](have, self.value)


@dataclass(frozen=True, slots=True)
class All:
    """Every one of the tests holds."""

    tests: tuple[Condition, ...]

    def holds(self, record: Record) -> bool:
        return all(test.holds(record) for test in self.tests)


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of the tests holds."""

    tests: tuple[Condition, ...]

    def holds(self, record: Record) -> bool:
        return any(test.holds(record) for test in self.tests)


@dataclass(frozen=True, slots=True)
class Not:
    """The test does not hold."""

    test: Condition

    def holds(self, record: Record) -> bool:
        return not self.test.holds(record)


Condition = Test | All | Either | Not
Traces = tuple[tuple[str, ...], ...]
"""Sets of texts; a payload has to contain one text of each set."""

_IN_PAYLOAD = frozenset({"role", "name", "agent"})
"""Fields that appear in a payload under their own name if they have a value."""


def traces_of(condition: Condition | None) -> Traces:
    """Texts that the payload of every matching record contains: a payload without them need not be parsed.

    >>> traces_of(Test("metadata.topic", "in", ("tea", "coffee")))
    (('"topic":"tea"', '"topic":"coffee"'),)
    """
    match condition:
        case All(tests):
            return tuple(trace for test in tests for trace in traces_of(test))
        case Either(tests):
            each = [traces_of(test) for test in tests]
            return (tuple(text for traces in each for text in traces[0]),) if each and all(each) else ()
        case Test():
            return _traces_of_test(condition)
    return ()


def _traces_of_test(test: Test) -> Traces:
    prefix, _, key = test.field.rpartition(".")
    if prefix != "metadata" and key not in _IN_PAYLOAD:
        return ()
    named = f"{canonical_json(key)}:"
    wanted = test.value if test.op == "in" else (test.value,)
    if test.op in ("eq", "in") and wanted and all(isinstance(each, str) for each in wanted):
        return (tuple(named + canonical_json(each) for each in wanted),)
    # Numbers can be written in several forms, so only the name is looked for; a missing value has no name there either.
    may_lack = (test.op == "exists" and not test.value) or (test.op in ("eq", "in") and None in wanted)
    return () if may_lack else ((named,),)


def has_traces(payload: str, traces: Traces) -> bool:
    """Whether a payload may belong to a matching record."""
    return all(any(text in payload for text in some) for some in traces)


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects records of one partition. The partition is not part of any condition.

    `born_after` and `born_before` are exclusive. Two fields are for `forget` alone: `dead_before`
    (what was dropped or expired before that time) and `epoch` (everything up to the end of that
    epoch: a whole forget that is resumed, and so spares what was written since it began).
    """

    partition: Partition
    layers: tuple[str, ...] = ()
    session: str | None = None
    ids: tuple[str, ...] | None = None
    born_after: tuple[int, int] | None = None
    born_before: tuple[int, int] | None = None
    test: Condition | None = None
    dead_before: int | None = None
    epoch: int | None = None

    @property
    def is_whole(self) -> bool:
        """True if it selects everything the partition holds."""
        return self == Filter(self.partition, epoch=self.epoch)

    def holds(self, record: Record) -> bool:
        """Whether a record of the partition passes the whole filter."""
        return (
            (not self.layers or record.layer in self.layers)
            and (self.session is None or record.scope.session == self.session)
            and (self.ids is None or record.id in self.ids)
            and (self.born_after is None or record.born > self.born_after)
            and (self.born_before is None or record.born < self.born_before)
            and (self.test is None or self.test.holds(record))
        )


@dataclass(frozen=True, slots=True)
class Reach:
    """What a store's own search may see: one user, or all users of an org (`user=None`)."""

    org: str
    user: str | None = None
    layers: tuple[str, ...] = ()
