"""Long work on the event loop, done in portions: other tasks run in between.

The unit is about what one short record costs. A text costs more the longer it is, so that a few huge memories are as
many portions as thousands of small ones. Where no more than a portion is done, nothing waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

PORTION = 500
"""How much is done before other tasks run: about ten milliseconds for most kinds of work."""
CHARACTERS = 200
"""Characters of text that cost as much as a record does by itself."""


class Pace:
    """Yields to other tasks whenever a portion of the work is done."""

    def __init__(self, portion: int = PORTION) -> None:
        self._portion = self._left = portion

    async def done(self, units: int = 1, characters: int = 0) -> None:
        """Count work that was done, in units and characters; let other tasks run if that completes a portion."""
        self._left -= units + characters // CHARACTERS
        if self._left <= 0:
            self._left = self._portion
            await asyncio.sleep(0)


async def apart(work: Callable[[], Result], units: int) -> Result:
    """The result of work that takes so many units: if that is more than a portion, it is done in a thread.

    The work must depend on nothing that others may change meanwhile, and change nothing itself.
    """
    return await asyncio.to_thread(work) if units > PORTION else work()
