"""Counts of what the whole store holds, repeated only as often as they are worth their cost.

`/metrics` is scraped every few seconds, and counting a large store reads all of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from recollect.server.patience import seen
from recollect.stores.contract import Survey

QUICK_S = 0.1
"""A count that takes no longer than this is made anew for every caller."""
RESTS = 100
"""A slower count is repeated only after this many times its duration, so it takes at most a hundredth of the time."""


class Surveys:
    """Returns the last count of a store, and starts a new one when that is due."""

    def __init__(self, count: Callable[[], Awaitable[Survey]], timer: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._timer = timer
        self._kept: Survey | None = None
        self._began = 0.0
        self._due_at = 0.0
        self._counting: asyncio.Task[Survey] | None = None

    @property
    def age_s(self) -> float:
        """How long ago the kept count began; 0 where every caller gets a fresh one."""
        return 0.0 if self._kept is None else self._timer() - self._began

    async def latest(self) -> Survey:
        """Return a fresh count where that is quick, else the last one. A caller that leaves does not cancel it."""
        if self._kept is None:
            return await asyncio.shield(self._begun())
        if self._timer() >= self._due_at:
            self._begun()
        return self._kept

    async def close(self) -> None:
        """Cancel a count in progress."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])

    def _begun(self) -> asyncio.Task[Survey]:
        if self._counting is None:
            self._counting = asyncio.create_task(self._counted())
            self._counting.add_done_callback(seen)
        return self._counting

    async def _counted(self) -> Survey:
        began = self._timer()
        try:
            found = await self._count()
        except BaseException:
            self._kept = None  # the next caller counts again, and sees the error
            raise
        finally:
            self._counting = None
        took_s = self._timer() - began
        self._kept = found if took_s > QUICK_S else None
        self._began, self._due_at = began, began + (1 + RESTS) * took_s
        return found
