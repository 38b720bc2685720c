"""A long day in a short time: mixed calls of many users on one file, and what they leave behind in the process.

    python -m recollect.testing.soak --operations 1000000

Of a hundred calls 70 read, 25 write and 5 change, forget or erase. Memory, files, threads, tasks and the log are
checked ten times; after the first fifth, in which caches fill, none of them may grow with the number of calls.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recollect.errors import Conflict, NotFound
from recollect.memory import Memory
from recollect.testing.fakes import HashingEmbedder
from recollect.user import User

USERS = 1_000
LOOKS = 10
WARM = 2
"""Looks that do not count, because caches are filling."""
RSS_MIB_PER_MILLION = 20.0
RSS_NOISE_MIB = 12.0
"""What an allocator keeps or returns from one look to the next; over few calls it is more than any slope."""
INDEX_MIB = 16
"""A small cache, which is full before looks count."""
LOG_MIB = 64.0
SLOWER_MOST = 1.5
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Look:
    """What the process holds after this many calls."""

    calls: int
    rss_mib: float
    files: int
    threads: int
    tasks: int
    log_mib: float
    p99_ms: float

    def __str__(self) -> str:
        held = f"{self.files} files, {self.threads} threads, {self.tasks} tasks, log {self.log_mib:.1f} MiB"
        return f"{self.calls:>9,} calls: {self.rss_mib:.1f} MiB, {held}, p99 {self.p99_ms:.1f} ms"


@dataclass(slots=True)
class Soaked:
    """How it went."""

    looks: list[Look] = field(default_factory=list)

    def wrong(self, *, is_long: bool) -> list[str]:
        """What grew that must not. Times count only if there are enough of them."""
        first, last = self.looks[WARM], self.looks[-1]
        allowed = RSS_NOISE_MIB + RSS_MIB_PER_MILLION * (last.calls - first.calls) / 1_000_000
        told = []
        if last.rss_mib - first.rss_mib > allowed:
            told.append(f"memory grew by {last.rss_mib - first.rss_mib:.1f} MiB, {allowed:.1f} are allowed")
        for name in ("files", "threads", "tasks"):
            if getattr(last, name) > getattr(first, name):
                told.append(f"{name} grew from {getattr(first, name)} to {getattr(last, name)}")
        if max(look.log_mib for look in self.looks) > LOG_MIB:
            told.append("the log outgrew its bound")
        if is_long and last.p99_ms > SLOWER_MOST * first.p99_ms:
            told.append(f"calls became slower: p99 {first.p99_ms:.1f} ms, then {last.p99_ms:.1f} ms")
        return told


async def soak(path: Path, operations: int, seed: int, users: int = USERS) -> Soaked:
    """Make this many calls, one after the other, with the worker running beside them."""
    chance, done = random.Random(seed), Soaked()
    async with Memory.open(path, embedder=HashingEmbedder(), index_mib=INDEX_MIB) as memory:
        for part in range(LOOKS):
            took = []
            for number in range(operations // LOOKS):
                began = time.perf_counter()
                await _call(memory, chance, f"user{chance.randrange(users)}", number)
                took.append(time.perf_counter() - began)
            await memory.work()
            done.looks.append(_look(path, (part + 1) * (operations // LOOKS), sorted(took)))
    return done


async def _call(memory: Memory, chance: random.Random, name: str, number: int) -> None:
    user, dice = memory.user(name), chance.random()
    chat = user.session(f"chat{number % 3}")
    if dice < 0.35:
        await user.search_memory("what did I say of the garden and the train?")
    elif dice < 0.5:
        await chat.get_context("Which tea do I like?", max_tokens=500)
    elif dice < 0.7:
        await chat.window()
    elif dice < 0.85:
        await chat.add_interaction(f"I like tea number {number} in my garden.", "Noted.")
    elif dice < 0.95:
        await user.add_memory(f"The train number {number} leaves at noon.")
    elif dice < 0.998:
        await _change(user, number)
    else:
        await user.erase()


async def _change(user: User, number: int) -> None:
    """Change or forget the first memory, if the worker has not merged it meanwhile."""
    found, _ = await user.list_memories(limit=1)
    with contextlib.suppress(NotFound, Conflict):
        for record in found:
            if number % 2:
                await user.update_memory(record.id, content=f"The train is late by {number} minutes.")
            else:
                await user.forget(record.id)


def counted(names: Sequence[str]) -> int:
    """How many files are open. The nameless one for spilled indexes counts before it exists: it is opened when the
    cache is first full, which may be late in a short run.
    """
    nameless = sum([name.endswith("(deleted)") for name in names])
    return len(names) - nameless + max(nameless, 1)


def _name_of(handle: Path) -> str:
    try:
        return str(handle.readlink())
    except FileNotFoundError:  # the listing's own, closed by now
        return ""


def _look(path: Path, calls: int, took_s: Sequence[float]) -> Look:
    log = Path(f"{path}-wal")
    return Look(
        calls=calls,
        rss_mib=int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB,
        files=counted([name for each in Path("/proc/self/fd").iterdir() if (name := _name_of(each))]),
        threads=threading.active_count(),
        tasks=len(asyncio.all_tasks()),
        log_mib=log.stat().st_size / MIB if log.exists() else 0.0,
        p99_ms=took_s[int(len(took_s) * 0.99)] * 1000,
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = parser.parse_args(given)
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        done = asyncio.run(soak(Path(folder) / "soak.db", chosen.operations, chosen.seed, chosen.users))
    print(*done.looks, sep="\n")
    wrong = done.wrong(is_long=chosen.operations >= 100_000)
    print("; ".join(wrong) or "Nothing grew.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
