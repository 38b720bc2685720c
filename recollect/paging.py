"""Lists that come in pages, read to their end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Fetch(Protocol[T_co]):
    """Returns a page, and the cursor of the next; its own cursor is None at first."""

    def __call__(self, *, after: str | None) -> Awaitable[tuple[Sequence[T_co], str | None]]: ...


async def every(fetch: Fetch[T]) -> AsyncIterator[T]:
    """The items of all pages."""
    after: str | None = None
    while True:
        page, after = await fetch(after=after)
        for item in page:
            yield item
        if after is None:
            return
