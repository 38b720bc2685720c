"""What the whole store holds, counted no more often than the counting is worth.

A scrape of `/metrics` comes every few seconds, and a count of a large store reads all of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from recollect.stores.contract import Survey

QUICK_S = 0.1
"""A count that takes no longer is made for everyone who asks."""
RESTS = 100
"""A slower one is made again after so many times as long as it took: it may take a hundredth of the time."""


class Surveys:
    """Gives the last count of a store, and has it counted again when that is due."""

    def __init__(self, count: Callable[[], Awaitable[Survey]], timer: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._timer = timer
        self._kept: Survey | None = None
        self._began = 0.0
        self._due_at = 0.0
        self._counting: asyncio.Task[Survey] | None = None

    @property
    def age_s(self) -> float:
        """How long ago the counting of what is kept began; 0 where everyone gets a count of their own."""
        return 0.0 if self._kept is None else self._timer() - self._began

    async def latest(self) -> Survey:
        """A count of now where that is quick, else the last one. Who goes away meanwhile does not break it off."""
        if self._kept is None:
            return await asyncio.shield(self._begun())
        if self._timer() >= self._due_at:
            self._begun()
        return self._kept

    async def close(self) -> None:
        """Break a count off that is on its way."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])

    def _begun(self) -> asyncio.Task[Survey]:
        if self._counting is None:
            self._counting = asyncio.create_task(self._counted())
            self._counting.add_done_callback(_seen)
        return self._counting

    async def _counted(self) -> Survey:
        began = self._timer()
        try:
            found = await self._count()
        except BaseException:
            self._kept = None  # whoever asks next counts, and sees what is wrong
            raise
        finally:
            self._counting = None
        took_s = self._timer() - began
        self._kept = found if took_s > QUICK_S else None
        self._began, self._due_at = began, began + (1 + RESTS) * took_s
        return found


def _seen(task: asyncio.Task[Survey]) -> None:
    """Nobody may be left who asked for it: then its failure is nobody's."""
    if not task.cancelled():
        task.exception()
