"""A metered connection to a server on this machine: another process forwards the bytes and counts them.

It is a separate process so that its own cost is not counted as the library's.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
from collections.abc import Iterator, MutableSequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

from recollect.testing.proxy import Proxy, Traffic

_LOCAL = re.compile(r"127\.0\.0\.1:(\d+)")


class Meter(Traffic):
    """The traffic so far; counts nothing if the server is on another machine, or is a file."""

    def __init__(self, numbers: MutableSequence[int] | None = None) -> None:
        super().__init__(numbers)
        self.counts = numbers is not None


@contextmanager
def metered(url: str) -> Iterator[tuple[str, Meter]]:
    """Yield a URL that reaches the server through a meter. A Cluster names its servers itself, and so bypasses it."""
    found = _LOCAL.search(url)
    if found is None or "+cluster" in url:
        yield url, Meter()
        return
    spawn = multiprocessing.get_context("spawn")
    numbers = spawn.RawArray("q", Traffic.NUMBERS)
    here, there = spawn.Pipe()
    carrier = spawn.Process(target=_carry, args=(int(found[1]), numbers, there), daemon=True)
    carrier.start()
    try:
        yield url.replace(found[0], f"127.0.0.1:{here.recv()}"), Meter(numbers)
    finally:
        carrier.terminate()
        carrier.join()


def _carry(port: int, numbers: MutableSequence[int], told: Connection) -> None:
    async def carry() -> None:
        async with Proxy(port, traffic=Traffic(numbers)) as way:
            told.send(way.port)
            await asyncio.Event().wait()

    asyncio.run(carry())
