"""Stopwatches, figures and plain tables."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")


@dataclass
class Samples:
    """What one contestant's calls took: wall time, and CPU time of all threads of the process."""

    wall_ns: list[int] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)

    async def measure(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Await one call and record what it took."""
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        answer = await call()
        self.wall_ns.append(time.perf_counter_ns() - wall)
        self.cpu_ns.append(time.process_time_ns() - cpu)
        return answer

    def figures(self) -> Figures:
        ordered = sorted(self.wall_ns)
        return Figures(
            p50_ms=statistics.median(ordered) / 1e6,
            p95_ms=ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] / 1e6,
            cpu_ms=statistics.fmean(self.cpu_ns) / 1e6,
        )


@dataclass
class Figures:
    """A row of a table."""

    p50_ms: float
    p95_ms: float
    cpu_ms: float
    recall: float | None = None
    later_cpu_ms: float | None = None


def fsync_rate(folder: Path, count: int = 300) -> float:
    """How many small appends a second this disk can make durable."""
    path = folder / "fsync-probe"
    with path.open("ab", buffering=0) as file:
        started = time.perf_counter()
        for _ in range(count):
            file.write(b"\0" * 256)
            os.fsync(file.fileno())
        seconds = time.perf_counter() - started
    path.unlink()
    return count / seconds


def say(text: str) -> None:
    """Print progress to standard error, separate from the tables."""
    print(f"  ... {text}", file=sys.stderr, flush=True)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table: the first column aligned left, numbers right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = [
        "  "
        + "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in cells).rstrip()
        for cells in (list(enumerate(zip(row, widths, strict=True))) for row in (header, *rows))
    ]
    return "\n".join([title, lines[0], "  " + "  ".join("-" * width for width in widths), *lines[1:], ""])


def aim(text: str, met: bool) -> str:
    """An aim, and whether it was met."""
    return f"{text}: {'met' if met else 'missed'}"
