"""Cursors of lists that the store does not page itself: where a page ended, and of which list."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from recollect import validate
from recollect.errors import ValidationError
from recollect.records import Born

T = TypeVar("T")

NUMBER_END = 2**40
"""No revision is as high, and a store may not be able to hold a number that is."""


Of = tuple[str, ...]
"""Which list a cursor is of: whose it is, and its name. The store's own cursors are of one list alone as well."""


def place(of: Of, *parts: str | int | Sequence[int] | None) -> str:
    """The cursor of a list that the store does not page itself: where the page ended."""
    return json.dumps([*parts, _check(of, parts)], ensure_ascii=False)


def place_of(of: Of, after: object) -> list[Any]:
    """The parts of such a cursor; one of another list, or an edited one, is refused."""
    try:
        parts = json.loads(after) if isinstance(after, str) else None
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, list) or len(parts) != 3 or parts.pop() != _check(of, parts):
        raise ValidationError(validate.NO_CURSOR, field="after")
    return parts


def _check(of: Of, parts: Sequence[Any]) -> str:
    told = json.dumps([of, [*parts]])
    return hashlib.blake2b(told.encode(), digest_size=6).hexdigest()


def page_of(
    of: Of, found: Sequence[T], position: Callable[[T], tuple[int, ...]], limit: int, after: str | None
) -> tuple[Sequence[T], str | None]:
    """A page of a list that was read whole and is ordered by position, and the cursor of the next.

    What was removed meanwhile moves nothing: a cursor says where a page ended, and of which list.
    """
    if after is not None:
        begun = _position(of, after)
        found = [each for each in found if position(each) > begun]
    page = found[:limit]
    return page, place(of, of[-1], position(page[-1])) if len(found) > limit else None


def born_of(of: Of, after: str | None, *, before: int = 0) -> tuple[tuple[int, ...], Born | None]:
    """The birth at which a page ended, for lists whose positions end with one, and the numbers `before` it."""
    if after is None:
        return (), None
    begun = _position(of, after)
    if len(begun) != before + 2 or not all(0 <= each < NUMBER_END for each in begun):
        raise ValidationError(validate.NO_CURSOR, field="after")
    return begun[:before], (begun[-2], begun[-1])


def _position(of: Of, after: str) -> tuple[int, ...]:
    name, numbers = place_of(of, after)
    if name != of[-1] or not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
        raise ValidationError(validate.NO_CURSOR, field="after")
    return tuple(numbers)
