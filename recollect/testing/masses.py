"""Very many memories of one user, and very many users with one each: limits hold, lists come in pages, all is found.

python -m recollect.testing.masses --memories 1000000 --users 100000
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence

from recollect.errors import ValidationError
from recollect.memory import Memory
from recollect.testing.fakes import HashingEmbedder
from recollect.validate import LIMITS

PAGE = LIMITS.limit_max


async def many_memories(memory: Memory, count: int) -> dict[str, float]:
    """One user with this many memories. Returns how long each kind of call took, in seconds."""
    ann = memory.user("ann")
    took = {"add one": 0.0}
    for start in range(0, count, LIMITS.batch_items):
        numbers = range(start, min(start + LIMITS.batch_items, count))
        began = time.perf_counter()
        await ann.add_memories([f"note {n} about subject{n}x" for n in numbers])
        took["add one"] = (time.perf_counter() - began) / len(numbers)
    began = time.perf_counter()
    seen, after = set[str](), None
    while True:
        page, after = await ann.list_memories(limit=PAGE, after=after)
        _must(len(page) <= PAGE, "a page is larger than its limit")
        seen |= {record.content for record in page}
        if after is None:
            break
    took["list a page"] = (time.perf_counter() - began) / max(1, count // PAGE)
    _must(len(seen) == count, f"{count} were added, and {len(seen)} are listed")
    await _refused(ann.list_memories(limit=PAGE + 1))
    began = time.perf_counter()
    hits = await ann.search_memory(f"subject{count // 2}x", limit=PAGE)
    took["search"] = time.perf_counter() - began
    _must(f"note {count // 2} about" in hits[0].content, "what was asked for is not found")
    _must(len(hits) <= PAGE, "more is found than was asked for")
    exported, _ = await ann.export_page(limit=PAGE)
    _must(len(exported) == PAGE + 1, "an export does not come in pages")
    return took


async def many_users(memory: Memory, count: int) -> dict[str, float]:
    """This many users with one memory each. Returns the same."""
    took = {}
    began = time.perf_counter()
    for start in range(0, count, PAGE):
        numbers = range(start, min(start + PAGE, count))
        await asyncio.gather(*(memory.user(f"user{n}").add_memory(f"of {n}") for n in numbers))
    took["add a user"] = (time.perf_counter() - began) / count
    began = time.perf_counter()
    seen, after = set[str](), None
    while True:
        page, after = await memory.org().users(limit=PAGE, after=after)
        _must(len(page) <= PAGE, "a page is larger than its limit")
        seen |= set(page)
        if after is None:
            break
    took["list a page of users"] = (time.perf_counter() - began) / max(1, count // PAGE)
    _must(len(seen - {"ann"}) == count, f"{count} users wrote, and {len(seen)} are listed")
    await _refused(memory.org().users(limit=PAGE + 1))
    began = time.perf_counter()
    for number in (0, count // 2, count - 1):
        hits = await memory.user(f"user{number}").search_memory("of whom?")
        _must([hit.content for hit in hits] == [f"of {number}"], "somebody else's is found")
    took["search of one"] = (time.perf_counter() - began) / 3
    return took


async def _refused(call: object) -> None:
    try:
        await call  # type: ignore[misc]
    except ValidationError:
        return
    raise AssertionError("a limit does not hold")


def _must(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise AssertionError(otherwise)


async def masses(url: str, memories: int, users: int) -> dict[str, float]:
    """Both, on one store."""
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False, memories_max=2 * memories) as memory:
        return await many_memories(memory, memories) | await many_users(memory, users)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.masses", description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=100_000)
    chosen = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder:
        took = asyncio.run(masses(f"sqlite:///{folder}/masses.db", chosen.memories, chosen.users))
    for what, seconds in took.items():
        print(f"{what}: {seconds * 1000:.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
