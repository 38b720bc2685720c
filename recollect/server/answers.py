"""Responses of routes: JSON that is written once, versions as ETags, and pages that end before they get too large."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from pydantic_core import to_json
from starlette.responses import JSONResponse, Response

from recollect import validate
from recollect.pace import apart

PAGE_BYTES = 1024 * 1024
"""A page ends once it is longer than this, whatever its limit; the cursor continues from there."""
ITEM_UNITS = 5
"""What it costs to write a hit with its reasons, in units of work."""
STEP_ITEMS = 50
"""How many items are read at a time: this many of the largest are a few MiB."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Fetch(Protocol[T_co]):
    """Returns some items after a cursor, and the next cursor."""

    def __call__(self, *, limit: int, after: str | None) -> Awaitable[tuple[Sequence[T_co], str | None]]: ...


class Json(JSONResponse):
    """A JSON response, written by the library that parses bodies: several times faster than Python's own."""

    def render(self, content: Any) -> bytes:
        return to_json(content)


def tagged(body: Any, version: int, status: int = 200) -> Json:
    """A response with the version of its content as the ETag."""
    return Json(body, status, headers={"ETag": f'"{version}"'})


def made(body: Any, at: str | None) -> Json:
    """The response for something new, with the path where it can be read."""
    return Json(body, 201, headers={} if at is None else {"Location": at})


async def large(told: Callable[[], Any], items: int, status: int = 200) -> Response:
    """A response that may have thousands of items: if they are more than a portion, it is written in a thread."""
    return Response(await apart(lambda: to_json(told()), items), status, media_type=Json.media_type)


async def paged(name: str, fetch: Fetch[T], shown: Callable[[T], Any], *, limit: int, after: str | None) -> Response:
    """A page as `{name: [...], "after": ...}`, of at most `limit` items and about `PAGE_BYTES`."""
    left = validate.limit(limit)
    items: list[bytes] = []
    size = 0
    while True:
        found, after = await fetch(limit=min(left, STEP_ITEMS), after=after)
        left -= len(found)
        for item in found:
            items.append(to_json(shown(item)))
            size += len(items[-1])
        if after is None or left == 0 or size >= PAGE_BYTES or not found:
            return _written(name, items, "after", after)


async def bounded(name: str, found: Sequence[T], shown: Callable[[T], Any], *, last_first: bool = False) -> Response:
    """A list without a cursor as `{name: [...], "left_out": n}`: items beyond `PAGE_BYTES` are only counted.

    With `last_first`, the first items are the ones left out. The order stays the same.
    """
    return await apart(lambda: _bounded(name, found, shown, last_first), ITEM_UNITS * len(found))


def _bounded(name: str, found: Sequence[T], shown: Callable[[T], Any], last_first: bool) -> Response:
    items: list[bytes] = []
    size = 0
    for item in reversed(found) if last_first else found:
        if size >= PAGE_BYTES:
            break
        items.append(to_json(shown(item)))
        size += len(items[-1])
    return _written(name, items[::-1] if last_first else items, "left_out", len(found) - len(items))


def _written(name: str, items: Sequence[bytes], beside: str, value: Any) -> Response:
    """`{name: [...], beside: value}`; the items of the list are JSON already."""
    body = b"{%b:[%b],%b:%b}" % (to_json(name), b",".join(items), to_json(beside), to_json(value))
    return Response(body, media_type=Json.media_type)
