"""Which event loop a program should run on, for the drivers of the stores that it opens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

NEEDS_SELECTOR = ("postgresql:", "postgres:")
"""How the URLs begin whose driver cannot use the usual loop of Windows. Elsewhere the usual one is a selector loop."""


def loop_for(urls: Iterable[object]) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop, for `asyncio.Runner`; None for the usual one.

    >>> loop_for(["sqlite:///recollect.db"]) is None, loop_for(["memory://", "postgresql://localhost/app"]) is None
    (True, False)
    """
    return asyncio.SelectorEventLoop if any(str(url).startswith(NEEDS_SELECTOR) for url in urls) else None
