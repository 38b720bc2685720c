"""Many processes on one store: some write, some work, and every message is enriched once.

    python -m recollect.testing.crowds postgresql --writers 4 --workers 4 --messages 1000
    python -m recollect.testing.crowds cluster

Writers and workers are separate processes, as API servers and `recollect worker` are. At the end, the
store itself is examined: what is missing, what was done twice, what still waits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recollect.filters import Filter
from recollect.memory import Memory
from recollect.records import Partition
from recollect.stores import open_store
from recollect.testing.stores import KINDS, fresh_url

USERS = 20
"""Users that all writers write to: the processes have to share their partitions."""
TEXT = "Number {n}: I live in Bergen, and on Friday I take parcel {n} of writer {who} to the harbour."
IDLE_S = 0.05
LOOK_S = 0.3
STOP_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run. `doubled`: messages that were enriched more than once."""

    messages: int
    missing: int
    doubled: int
    not_embedded: int
    waiting: int
    failures: int
    jobs: tuple[int, ...]
    writes_per_s: float
    jobs_per_s: float

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.doubled or self.not_embedded or self.waiting or self.failures)

    def __str__(self) -> str:
        return "\n".join(f"{name.replace('_', ' '):14} {_told(value)}" for name, value in asdict(self).items())


def _told(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{sum(value)} by {len(value)} workers: {', '.join(map(str, value))}"
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def run(url: str, writers: int, workers: int, messages: int) -> Outcome:
    """Let this many processes write and work on a store, then look at what it holds."""
    asyncio.run(_prepare(url))
    at_work = [_start("work", url) for _ in range(workers)]
    for process in at_work:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
    began = time.monotonic()
    writing = [_start("write", url, str(number), str(messages // writers)) for number in range(writers)]
    for process in writing:
        process.communicate()
    written_s = time.monotonic() - began
    asyncio.run(_until_nothing_waits(url))
    done_s = time.monotonic() - began
    jobs = tuple(_stop(process) for process in at_work)
    if failed := sum(process.returncode != 0 for process in writing):
        raise RuntimeError(f"{failed} writers failed")
    return asyncio.run(_look(url, messages // writers * writers, jobs, written_s, done_s))


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--part", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _stop(worker: subprocess.Popen[str]) -> int:
    """Ask a worker to stop, and return the number of jobs it has done."""
    told, _ = worker.communicate("", STOP_LIMIT_S)
    return int(json.loads(told)["done"])


# ── the parts that run in processes of their own ─────────────────────────────────────────────────


async def _prepare(url: str) -> None:
    store = await open_store(url)
    await store.close()


async def _write(url: str, who: int, count: int) -> None:
    async with Memory.open(url, worker=False) as memory:
        users = [memory.user(f"user{number}") for number in range(USERS)]

        async def say(user: int) -> None:
            for n in range(user, count, USERS):
                text = TEXT.format(n=n, who=who)
                await users[user].session("s").add_message("user", text, id=f"w{who}n{n}")

        await asyncio.gather(*(say(user) for user in range(USERS)))


async def _work(url: str) -> None:
    """Work as `recollect worker` does, until standard input is closed."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    reading = loop.run_in_executor(None, sys.stdin.read)
    reading.add_done_callback(lambda _: over.set())
    async with Memory.open(url, worker=False) as memory:
        print("ready", flush=True)
        while not over.is_set():
            if not await memory.work():
                await asyncio.sleep(IDLE_S)
        print(json.dumps(memory.describe()["jobs"]), flush=True)


async def _until_nothing_waits(url: str) -> None:
    """Wait until everything due is done; episodes and upkeep are for later, so the oldest job left is not due yet."""
    async with Memory.open(url, worker=False) as memory:
        while True:
            survey = await memory.survey()
            oldest = survey.oldest_job_at
            if not survey.jobs_running and (oldest is None or oldest > int(time.time() * 1000)):
                return
            await asyncio.sleep(LOOK_S)


async def _look(url: str, messages: int, jobs: Sequence[int], written_s: float, done_s: float) -> Outcome:
    store = await open_store(url)
    found: list[Any] = []
    now = int(time.time() * 1000)
    failures = 0
    for number in range(USERS):
        partition = Partition("default", f"user{number}")
        after = None
        while True:
            page = await store.list(
                Filter(partition, layers=("conversation", "failure")), now, limit=1_000, after=after
            )
            found += [record for record in page.records if record.layer == "conversation"]
            failures += sum(record.layer == "failure" for record in page.records)
            if (after := page.after) is None:
                break
    waiting = (await store.survey(now)).oldest_job_at
    await store.close()
    return Outcome(
        messages=messages,
        missing=messages - len({record.id for record in found}),
        doubled=sum(record.version - record.born[0] > 1 for record in found),
        not_embedded=sum(record.vector is None for record in found),
        waiting=int(waiting is not None and waiting <= now),
        failures=failures,
        jobs=tuple(jobs),
        writes_per_s=messages / written_s,
        jobs_per_s=sum(jobs) / done_s,
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.crowds", description=__doc__.splitlines()[0])
    parser.add_argument("store", nargs="?", default="postgresql", choices=[kind for kind in KINDS if kind != "memory"])
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    if chosen.part:
        what, url, *numbers = chosen.part
        asyncio.run(_work(url) if what == "work" else _write(url, int(numbers[0]), int(numbers[1])))
        return 0
    with fresh_url(chosen.store) as url:
        outcome = run(url, chosen.writers, chosen.workers, chosen.messages)
    print(outcome)
    return not outcome.is_clean


if __name__ == "__main__":
    sys.exit(main())
