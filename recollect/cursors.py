"""Cursors of lists that the store does not page itself: where a page ended, and of which list."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from recollect import validate
from recollect.errors import ValidationError
from recollect.records import Born

T = TypeVar("T")

NUMBER_END = 2**40
"""No revision is as high; a store may have no room for a number that is."""


def place(*parts: str | int | Sequence[int] | None) -> str:
    """The cursor of a list that the store does not page itself: where the page ended."""
    return json.dumps(parts, ensure_ascii=False)


def place_of(after: object) -> list[Any]:
    """The parts of such a cursor."""
    try:
        parts = json.loads(after) if isinstance(after, str) else None
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, list) or len(parts) != 2:
        raise ValidationError(validate.NO_CURSOR, field="after")
    return parts


def page_of(
    name: str, found: Sequence[T], position: Callable[[T], tuple[int, ...]], limit: int, after: str | None
) -> tuple[Sequence[T], str | None]:
    """A page of a list that was read whole and is ordered by position, and the cursor of the next.

    What was removed meanwhile moves nothing: a cursor says where a page ended, and of which list.
    """
    if after is not None:
        begun = _position(name, after)
        found = [each for each in found if position(each) > begun]
    page = found[:limit]
    return page, place(name, position(page[-1])) if len(found) > limit else None


def born_of(name: str, after: str | None, *, before: int = 0) -> tuple[tuple[int, ...], Born | None]:
    """The birth at which a page ended, for lists whose positions end with one, and the numbers `before` it."""
    if after is None:
        return (), None
    begun = _position(name, after)
    if len(begun) != before + 2 or not all(0 <= each < NUMBER_END for each in begun):
        raise ValidationError(validate.NO_CURSOR, field="after")
    return begun[:before], (begun[-2], begun[-1])


def _position(name: str, after: str) -> tuple[int, ...]:
    kind, numbers = place_of(after)
    if kind != name or not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
        raise ValidationError(validate.NO_CURSOR, field="after")
    return tuple(numbers)
