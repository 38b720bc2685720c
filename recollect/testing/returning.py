"""A server goes away and comes back: how soon callers are told, and how soon it is used again.

    python -m recollect.testing.returning                  all servers that can be started here
    python -m recollect.testing.returning postgresql       some of them

The connection to the server is cut and mended, so that it is the same for all of them; nothing is reopened.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import sys
import time
from collections.abc import Awaitable
from dataclasses import dataclass

import pytest

from recollect.errors import Unavailable
from recollect.memory import Memory
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.proxy import Proxy
from recollect.testing.stores import fresh_url

BACK_S = 5.0
"""A server must be in use again within this time after it is back."""
TOLD_S = 30.0
"""Nobody may wait longer than this for a server that is away."""
SERVERS = ("postgresql", "redis", "valkey", "cosmos")
"""Servers that are reached at one address. For what a Cluster does, see `failover.py`."""


@dataclass(frozen=True, slots=True)
class Return:
    """What callers saw: how long each waited to be told, how soon a call worked again, what was wrong afterwards."""

    told_s: tuple[float, ...]
    back_s: float
    problems: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        return max(self.told_s) < TOLD_S and self.back_s < BACK_S and not self.problems

    def __str__(self) -> str:
        return (
            f"told that it is away after {max(self.told_s):.2f} s at most, used again {self.back_s:.2f} s after its "
            f"return, {len(self.problems)} problems in the data"
        )


async def go_and_return(kind: str) -> Return:
    """Cut the connection to a server under an open memory, call, mend it, and call until it works."""
    with fresh_url(kind) as url:
        port = re.search(r"127\.0\.0\.1:(\d+)", url)
        if port is None:
            pytest.skip("the server is elsewhere")
        async with (
            Proxy(int(port[1])) as way,
            Memory.open(
                url.replace(port[0], f"127.0.0.1:{way.port}"),
                embedder=HashingEmbedder(),
                worker=False,
                busy_timeout_s=1.0,
            ) as memory,
        ):
            ann = memory.user("ann")
            await ann.add_memory("said before", id="before")
            await way.cut()
            calls = (ann.add_memory("said meanwhile", id="meanwhile"), ann.get_memory("before"))
            told = tuple([await _told(call) for call in calls])
            await way.mend()
            back_s = await _works_again(memory)
            return Return(told, back_s, tuple(await _problems(memory)))


async def _told(call: Awaitable[object]) -> float:
    """How long it took until a call was told that the server is away."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(TOLD_S):
            await call
    except (Unavailable, TimeoutError):
        return time.monotonic() - began
    raise AssertionError("a call was answered although nobody was there")


async def _works_again(memory: Memory) -> float:
    began = time.monotonic()
    while time.monotonic() - began < 2 * BACK_S:
        try:
            await memory.user("ann").add_memory("said after", id="after")
            break
        except Unavailable:
            await asyncio.sleep(0.01)
    return time.monotonic() - began


async def _problems(memory: Memory) -> list[str]:
    """What is missing, what should not be there, and what the store itself finds wrong."""
    kept = {record.id for record in (await memory.user("ann").list_memories())[0]}
    lost = [f"{id} was acknowledged and is gone" for id in sorted({"before", "after"} - kept)]
    unknown = [f"{id} was never said" for id in sorted(kept - {"before", "meanwhile", "after"})]
    return [*lost, *unknown, *await memory.check()]


def main(chosen: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.returning", description=__doc__.splitlines()[0])
    parser.add_argument("servers", nargs="*", choices=[*SERVERS, []], help="which servers; all without")
    logging.disable(logging.WARNING)  # drivers log every attempt, and all of it is on purpose
    well = True
    for kind in parser.parse_args(chosen).servers or SERVERS:
        try:
            seen = asyncio.run(go_and_return(kind))
        except pytest.skip.Exception as missing:
            print(f"{kind}: left out: {missing}", flush=True)
            continue
        print(f"{kind}: {seen}", flush=True)
        well = well and seen.is_well
    return not well


if __name__ == "__main__":
    sys.exit(main())
