"""Letting others run between two pieces of work with rows that a server has sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from recollect.records import Record

Row = TypeVar("Row")

READ_AT_ONCE = 100
"""Rows of which more are a piece of work: a thousand records take some thirty milliseconds to decode."""
CHARACTERS_AT_ONCE = 4_000_000
"""Text of which more is a piece of work, however few rows it is in: as much takes some ten milliseconds."""


async def pause_after(rows: Sequence[Any]) -> None:
    """Let other tasks run after many rows were read, before as much work is done with them: each is one piece."""
    if len(rows) > READ_AT_ONCE:
        await asyncio.sleep(0)


async def decoded(
    rows: Sequence[Row], size_of: Callable[[Row], int], records_of: Callable[[Sequence[Row]], Sequence[Record]]
) -> list[Record]:
    """The records in rows that were just read. Other tasks run before, and again and again where there is much text."""
    await pause_after(rows)
    found: list[Record] = []
    start = size = 0
    for place, row in enumerate(rows):
        if size >= CHARACTERS_AT_ONCE:
            found += records_of(rows[start:place])
            start, size = place, 0
            await asyncio.sleep(0)
        size += size_of(row)
    return [*found, *records_of(rows[start:])]
