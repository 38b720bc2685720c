"""A quick look at how fast this installation is on this machine, with made-up memories in a file of its own.

Absolute times depend on the machine. The ratios beside them do not: each compares a figure with
another one taken in the same minute.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from recollect import disk
from recollect.interfaces.output import Advance
from recollect.memory import Memory
from recollect.user import User

ONE_BY_ONE = 100
CALLERS = 16
BATCH = 45
QUESTIONS = 50
SEED = 7
_WHO = ["Ann", "Ben", "Chloe", "Dora", "Emil", "Farah", "Goran", "Hana"]
_DID = ["painted", "sold", "lost", "repaired", "borrowed", "photographed", "described", "baked", "found", "planted"]
_WHAT = ["bicycle", "lighthouse", "cello", "teapot", "telescope", "orchard", "violin", "sailboat", "lantern"]
_WHERE = ["Lisbon", "Oslo", "Kyoto", "Quito", "Tartu", "Cork", "Naples", "Bergen", "Riga", "Hobart"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement, with what it is compared to."""

    name: str
    value: float
    unit: str
    ratio: str = ""

    def to_dict(self) -> dict[str, object]:
        return {"name": self.name, "value": round(self.value, 3), "unit": self.unit, "ratio": self.ratio}


def sentences() -> Iterator[str]:
    """Endless memories, the same on every machine."""
    chance = random.Random(SEED)
    number = 0
    while True:
        number += 1
        who, did, what, where = (chance.choice(words) for words in (_WHO, _DID, _WHAT, _WHERE))
        yield f"{who} {did} the {what} number {number} in {where} on day {chance.randrange(365)}."


async def measure(folder: Path, memories: int, advance: Advance) -> list[Figure]:
    """Write, process, search, and build contexts over this many memories."""
    sync_s = _bare_sync_s(folder / "bare")
    async with Memory.open(folder / "bench.db", worker=False) as memory:
        user = memory.user("bench")
        text = sentences()
        one_s = await _timed(lambda: _one_by_one(user, text))
        advance(ONE_BY_ONE)
        many_s = await _timed(lambda: _many_callers(user, text))
        advance(2 * ONE_BY_ONE)
        batched = max(memories - 2 * ONE_BY_ONE, BATCH)
        batch_s = await _timed(lambda: _in_batches(user, text, batched, advance))
        read_s = await _timed(memory.work)
        total = 2 * ONE_BY_ONE + batched
        search = await _each_ms(lambda question: user.search_memory(question, limit=10))
        context = await _each_ms(lambda question: user.get_context(question, max_tokens=2_000))
    each_s, together_s, in_batch_s = one_s / ONE_BY_ONE, many_s / ONE_BY_ONE, batch_s / batched
    return [
        Figure("a bare write and sync of 300 bytes", sync_s * 1000, "ms"),
        Figure("add, one caller", 1 / each_s, "adds/s", f"{each_s / sync_s:.1f} x a bare write and sync"),
        Figure(f"add, {CALLERS} callers", 1 / together_s, "adds/s", f"{each_s / together_s:.1f} x one caller"),
        Figure(f"add, {BATCH} in a batch", 1 / in_batch_s, "adds/s", f"{each_s / in_batch_s:.1f} x one by one"),
        Figure("take in (embed, rate, merge)", total / read_s, "memories/s"),
        Figure(f"search {total:,} memories, median", statistics.median(search), "ms"),
        Figure("search, 95 of 100 within", _within(search), "ms", _over(_within(search), search)),
        Figure("context of 2,000 tokens, median", statistics.median(context), "ms", _over_search(context, search)),
        Figure("context, 95 of 100 within", _within(context), "ms", _over(_within(context), context)),
    ]


def _bare_sync_s(path: Path) -> float:
    """How long the disk takes for the smallest possible durable write."""
    with path.open("wb") as file:
        times = []
        for _ in range(ONE_BY_ONE):
            begin = time.perf_counter()
            file.write(b"x" * 300)
            file.flush()
            disk.sync(file.fileno())
            times.append(time.perf_counter() - begin)
    return statistics.fmean(times)


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin


async def _one_by_one(user: User, text: Iterator[str]) -> None:
    for _ in range(ONE_BY_ONE):
        await user.add_memory(next(text))


async def _many_callers(user: User, text: Iterator[str]) -> None:
    rest = [next(text) for _ in range(ONE_BY_ONE)]

    async def caller() -> None:
        while rest:
            await user.add_memory(rest.pop())

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def _in_batches(user: User, text: Iterator[str], count: int, advance: Advance) -> None:
    for start in range(0, count, BATCH):
        await user.add_memories([next(text) for _ in range(min(BATCH, count - start))])
        advance(2 * ONE_BY_ONE + start)


async def _each_ms(ask: Callable[[str], Awaitable[object]]) -> list[float]:
    """How long each question takes, after one that warms up."""
    chance = random.Random(SEED)
    times = []
    for _ in range(QUESTIONS + 1):
        question = f"Who {chance.choice(_DID)} a {chance.choice(_WHAT)} in {chance.choice(_WHERE)}?"
        times.append(1000 * await _timed(partial(ask, question)))
    return times[1:]


def _within(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def _over(value: float, times: list[float]) -> str:
    return f"{value / statistics.median(times):.1f} x its median"


def _over_search(context: list[float], search: list[float]) -> str:
    return f"{statistics.median(context) / statistics.median(search):.1f} x a search"
