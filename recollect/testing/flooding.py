"""One key floods a server: it is told to wait, and others are answered about as fast as before.

    python -m recollect.testing.flooding

The flood comes from a process of its own, up to a thousand requests a second by one key; another key asks in peace
before it and during it. Where each of the three has a processor, the slowest in a hundred of its answers must not take
more than twice as long.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.testing.load import Line, Measured, Server, quantile_ms, running, written

RATE, LINES = 1_000, 50
"""Requests a second of the flood, and the connections that they come over."""
PAUSE_S = 0.02
SLOWER_MOST = 2.0
PROCESSORS = 3
QUESTION: tuple[str, dict[str, object]] = ("/api/users/ann/memories/search", {"query": "Which tea do I like?"})


@dataclass(frozen=True, slots=True)
class Flooded:
    """How long a quiet key waited in peace and during the flood, and the statuses that the flood got."""

    calm: Measured
    during: Measured
    flood: Counter[str]

    @property
    def times_slower(self) -> float:
        return quantile_ms(self.during.times_s, 0.99) / max(quantile_ms(self.calm.times_s, 0.99), 0.001)

    def __str__(self) -> str:
        calm, during = (f"{quantile_ms(each.times_s, 0.99):.1f} ms" for each in (self.calm, self.during))
        told = ", ".join(f"{count:,} with {status}" for status, count in sorted(self.flood.items()))
        return f"p99 of a quiet key: {calm}, {during} in the flood ({self.times_slower:.2f} times)\nthe flood: {told}"


def asked(server: Server, token: str) -> bytes:
    """A question by a key, as it goes over the wire."""
    return written(server, QUESTION).replace(b"\r\n", f"\r\nAuthorization: Bearer {token}\r\n".encode(), 1)


async def ask_in_peace(server: Server, token: str, questions: int) -> Measured:
    """One question after the other, with a pause between."""
    measured, line = Measured("quiet"), await Line.to(server)
    for _ in range(questions):
        line = line if line.is_open else await Line.to(server)
        began = time.perf_counter()
        measured.note(await line.ask(asked(server, token)), time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    line.close()
    return measured


async def pour(server: Server, token: str, seconds: float) -> Counter[int]:
    """The flood: as many as were promised, as far as they are answered."""
    statuses: Counter[int] = Counter()
    request, until = asked(server, token), time.perf_counter() + seconds

    async def one() -> None:
        line = await Line.to(server)
        while time.perf_counter() < until:
            line = line if line.is_open else await Line.to(server)
            statuses[await line.ask(request)] += 1
            await asyncio.sleep(LINES / RATE)
        line.close()

    await asyncio.gather(*(one() for _ in range(LINES)))
    return statuses


def drill(folder: Path, questions: int) -> Flooded:
    """A server, two keys, a flood."""
    where = ["--url", f"sqlite:///{folder}/flood.db"]
    recollect = [sys.executable, "-m", "recollect"]
    made = [subprocess.check_output([*recollect, "keys", "create", "--json", *where]) for _ in range(2)]
    modest, greedy = (json.loads(told)["token"] for told in made)
    with running([*recollect, "serve", "--port", "0", *where], folder) as server:
        asyncio.run(ask_in_peace(server, modest, 30))
        calm = asyncio.run(ask_in_peace(server, modest, questions))
        seconds = sum(calm.times_s) + questions * PAUSE_S + 3
        words = ["--pour", json.dumps([*server, greedy, seconds])]
        with subprocess.Popen([sys.executable, "-m", MODULE, *words], stdout=subprocess.PIPE, text=True) as loud:
            time.sleep(1)
            during = asyncio.run(ask_in_peace(server, modest, questions))
            flood = Counter[str](json.loads(loud.communicate()[0]))
    return Flooded(calm, during, flood)


MODULE = "recollect.testing.flooding"


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--pour", help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    if chosen.pour:
        *where, token, seconds = json.loads(chosen.pour)
        print(json.dumps(asyncio.run(pour(Server(*where), token, seconds))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        flooded = drill(Path(folder), chosen.questions)
    print(flooded)
    is_fair = (os.cpu_count() or 1) >= PROCESSORS
    if not is_fair:
        print("there are too few processors here for the times to mean something")
    answered = set(flooded.calm.statuses) | set(flooded.during.statuses)
    return int(answered != {200} or "429" not in flooded.flood or (is_fair and flooded.times_slower > SLOWER_MOST))


if __name__ == "__main__":
    sys.exit(main())
