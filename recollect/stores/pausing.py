"""Letting others run between two pieces of work with rows that a server has sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

READ_AT_ONCE = 100
"""Rows of which more are a piece of work: a thousand records take some thirty milliseconds to decode."""


async def pause_after(rows: Sequence[Any]) -> None:
    """Let other tasks run after many rows were read, before as much work is done with them: each is one piece."""
    if len(rows) > READ_AT_ONCE:
        await asyncio.sleep(0)
