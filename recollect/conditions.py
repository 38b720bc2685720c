"""Filters as people write them, in JSON: checked, and converted to the values that stores understand."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from recollect.errors import TooLarge, ValidationError
from recollect.filters import FIELDS, OPERATORS, TIME_FIELDS, All, Condition, Either, Not, Test
from recollect.records import TRUSTS
from recollect.validate import (
    LIMITS,
    RESERVED_METADATA,
    UNIT_MS,
    choice,
    identifier,
    json_value,
    layer,
    meant,
    metadata_key,
    moment,
    role,
    text_within,
    unit_interval,
)

_KEYS = (*FIELDS, "metadata.NAME", "and", "or", "not")
_RANGES = ("gt", "gte", "lt", "lte")
_AGO = re.compile(r"-([0-9]{1,6})(m|h|d|w)\Z")

_NAMED: dict[str, Callable[[object, str], Any]] = {
    "id": identifier,
    "session": identifier,
    "agent": identifier,
    "name": identifier,
    "layer": layer,
    "role": role,
    "trust": lambda value, field: choice(value, TRUSTS, field),
}
_NUMBERS = ("importance", "confidence")


def parse(value: object, *, at: int | None = None) -> Condition | None:
    """A filter written as JSON, converted to the values that stores understand; None stays None.

    The keys of one object must all hold. `at` is the time from which "-7d" counts back.

    >>> parse({"importance": {"gte": 0.5}})
    Test(field='importance', op='gte', value=0.5)
    """
    return None if value is None else _Conditions(at).of(value, LIMITS.filter_depth)


class _Conditions:
    """Reads one filter and counts its tests."""

    __slots__ = ("at", "count")

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.count = 0

    def of(self, value: object, depth: int) -> Condition:
        # An empty filter means everything or nothing, depending on whom you ask. Leaving out a
        # condition must never forget all of a user's memories.
        if not isinstance(value, dict) or not value:
            raise ValidationError('must be an object with a condition, such as {"layer": "fact"}', field="where")
        if depth == 0:
            raise ValidationError(f"must not nest deeper than {LIMITS.filter_depth}", field="where")
        return _joined(All, [self._entry(key, each, depth - 1) for key, each in value.items()])

    def _entry(self, key: object, value: object, depth: int) -> Condition:
        if key == "not":
            return Not(self.of(value, depth))
        if key not in ("and", "or"):
            return self._field(key, value)
        if not isinstance(value, (list, tuple)) or not value:
            raise ValidationError(f"must be a list with at least one condition in `{key}`", field="where")
        return _joined(All if key == "and" else Either, [self.of(each, depth) for each in value])

    def _field(self, key: object, value: object) -> Condition:
        if not isinstance(key, str) or not _is_field(key):
            raise ValidationError(f"{_unknown_key(key)}; the keys are {', '.join(_KEYS)}", field="where")
        if isinstance(value, dict):
            asked = value
        else:
            asked = {"in" if isinstance(value, (list, tuple)) else "eq": value}
        tests = [Test(str.__str__(key), op, self._operand(key, op, each)) for op, each in asked.items()]
        self.count += len(tests)
        if self.count > LIMITS.filter_tests:
            raise TooLarge(f"must have at most {LIMITS.filter_tests} tests", field="where")
        if not tests:
            raise ValidationError(f"must have an operator ({', '.join(OPERATORS)})", field=f"where.{key}")
        _refuse_impossible_range(tests, f"where.{key}")
        return _joined(All, tests)

    def _operand(self, key: str, op: object, value: object) -> Any:
        field = f"where.{key}"
        allowed = [each for each in OPERATORS if key not in _NAMED or each not in _RANGES]
        if op not in allowed:
            raise ValidationError(f"must use one of {', '.join(allowed)}{meant(op, allowed)}", field=field)
        if op == "exists":
            if isinstance(value, bool):
                return value
            raise ValidationError("must be true or false for `exists`", field=field)
        if op != "in":
            return self._operand_of_one(key, value, field, in_range=op in _RANGES)
        if not isinstance(value, (list, tuple)) or not value:
            raise ValidationError("must be a list with at least one value for `in`", field=field)
        if len(value) > LIMITS.filter_values:
            raise TooLarge(f"must have at most {LIMITS.filter_values} values for `in`", field=field)
        return tuple(self._operand_of_one(key, each, field) for each in value)

    def _operand_of_one(self, key: str, value: object, field: str, in_range: bool = False) -> Any:
        if value is None:
            raise ValidationError('must not be null; use {"exists": false}', field=field)
        if key in _NAMED:
            return _NAMED[key](value, field)
        if key in _NUMBERS:
            return unit_interval(value, field)
        if key in TIME_FIELDS:
            return self._time(value, field)
        return _label(value, field, in_range)

    def _time(self, value: object, field: str) -> int | None:
        ago = _AGO.match(value) if isinstance(value, str) else None
        if ago is None:
            return moment(value, field)
        if self.at is None:
            raise ValidationError("must be a fixed time here, such as 2026-03-01T09:30:00Z", field=field)
        return moment(self.at - int(ago[1]) * UNIT_MS[ago[2]], field)


def _is_field(key: str) -> bool:
    prefix, _, label = key.partition(".")
    return key in FIELDS or (prefix == "metadata" and metadata_key(label) and label not in RESERVED_METADATA)


def _unknown_key(key: object) -> str:
    """Name the key, which is not content, and what may have been meant by it."""
    if not isinstance(key, str):
        return "a key must be text"
    told = f"unknown key {key if metadata_key(key) else ascii(key[:40])}"
    head, dot, label = key.partition(".")
    if get_close_matches(head[:40], ["metadata"], cutoff=0.7):
        label = label or "NAME"
    else:
        told += meant(key, FIELDS)
        label = "" if dot else key
    is_label = metadata_key(label) and label not in RESERVED_METADATA
    return f"{told}; for a label of your own use metadata.{label}" if is_label else told


def _label(value: object, field: str, in_range: bool) -> str | int | float | bool:
    if isinstance(value, str):
        return text_within(value, field, LIMITS.filter_text_bytes)
    if not isinstance(value, (int, float)) or (in_range and isinstance(value, bool)):
        raise ValidationError("must be a string or a number (or, where it is not a range, true or false)", field=field)
    checked: int | float | bool = json_value(value, field, max_bytes=LIMITS.filter_text_bytes)
    return checked


def _refuse_impossible_range(tests: Sequence[Test], field: str) -> None:
    bounds = [test for test in tests if test.op in _RANGES]
    if len({isinstance(test.value, str) for test in bounds}) > 1:
        raise ValidationError("must not mix text and numbers in one range", field=field)
    lows = [test.value for test in bounds if test.op in ("gt", "gte")]
    highs = [test.value for test in bounds if test.op in ("lt", "lte")]
    if lows and highs and max(lows) > min(highs):
        raise ValidationError("must not start after it ends", field=field)


def _joined(join: type[All] | type[Either], conditions: Sequence[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else join(tuple(conditions))
