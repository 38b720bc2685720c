"""One key floods a server: it is told to wait, and others are answered about as fast as before.

    python -m recollect.testing.flooding
    python -m recollect.testing.flooding --made-up     # by keys that nobody made, another with each request

The flood comes from a separate process, up to a thousand requests a second with one key, at random moments. Another
key asks calmly before it, while another server is flooded, and while its own server is. Where each process has a
processor, the slowest in a hundred of its answers must not take more than twice as long. Elsewhere, the flood at the
other server shows how much is due to the machine alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

from recollect.testing.load import Line, Measured, Server, quantile_ms, running, written

RATE, LINES = 1_000, 50
"""Requests a second in the flood, and the connections they come over."""
PAUSE_S = 0.02
SLOWER_MOST = 2.0
PROCESSORS = 4
QUESTION: tuple[str, dict[str, object]] = ("/api/users/ann/memories/search", {"query": "Which tea do I like?"})


@dataclass(frozen=True, slots=True)
class Flooded:
    """How long a quiet key waited before, beside and in the flood, and the statuses that the flood got."""

    calm: Measured
    beside: Measured
    during: Measured
    flood: Counter[str]

    @property
    def times_slower(self) -> float:
        return quantile_ms(self.during.times_s, 0.99) / max(quantile_ms(self.calm.times_s, 0.99), 0.001)

    def __str__(self) -> str:
        measured = (self.calm, self.beside, self.during)
        calm, beside, during = (f"{quantile_ms(each.times_s, 0.99):.1f} ms" for each in measured)
        told = ", ".join(f"{count:,} with {status}" for status, count in sorted(self.flood.items()))
        times = f"{calm}, {beside} with a flood elsewhere, {during} in the flood ({self.times_slower:.2f} times)"
        return f"p99 of a quiet key: {times}\nthe flood: {told}"


def asked(server: Server, token: str) -> bytes:
    """A question with a key, as it goes over the wire."""
    return written(server, QUESTION).replace(b"\r\n", f"\r\nAuthorization: Bearer {token}\r\n".encode(), 1)


async def ask_in_peace(server: Server, token: str, questions: int) -> Measured:
    """Ask one question after the other, with a pause in between."""
    measured, line = Measured("quiet"), await Line.to(server)
    for _ in range(questions):
        line = line if line.is_open else await Line.to(server)
        began = time.perf_counter()
        measured.note(await line.ask(asked(server, token)), time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    line.close()
    return measured


async def pour(server: Server, token: str) -> Counter[int]:
    """Flood a server until standard input ends: at the promised rate, as far as requests are answered."""
    statuses: Counter[int] = Counter()
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    request = asked(server, token)

    async def one() -> None:
        line = await Line.to(server)
        while not over.done():
            line = line if line.is_open else await Line.to(server)
            made_up = request.replace(MADE_UP.encode(), f"rk_{secrets.token_hex(6)}_{'x' * 43}".encode())
            statuses[await line.ask(made_up)] += 1
            await asyncio.sleep(random.expovariate(RATE / LINES))
        line.close()

    await asyncio.gather(*(one() for _ in range(LINES)))
    return statuses


def ask_in_flood(
    server: Server, token: str, questions: int, flooded: Server, greedy: str
) -> tuple[Measured, Counter[str]]:
    """Ask a server calmly while a server, the same or another, is flooded. Also returns the statuses of the flood."""
    words = ["--pour", json.dumps([*flooded, greedy])]
    with subprocess.Popen([sys.executable, "-m", MODULE, *words], stdin=PIPE, stdout=PIPE, text=True) as loud:
        time.sleep(1)
        measured = asyncio.run(ask_in_peace(server, token, questions))
        return measured, Counter[str](json.loads(loud.communicate()[0]))


def drill(folder: Path, questions: int, *, made_up: bool = False) -> Flooded:
    """Two servers, two keys on one file, a flood at each of them; `made_up`: with keys that do not exist."""
    where = ["--url", f"sqlite:///{folder}/flood.db"]
    recollect = [sys.executable, "-m", "recollect"]
    made = [subprocess.check_output([*recollect, "keys", "create", "--json", *where]) for _ in range(2)]
    modest, greedy = (json.loads(told)["token"] for told in made)
    greedy = MADE_UP if made_up else greedy
    serve = [*recollect, "serve", "--port", "0", *where]
    with running(serve, folder / "one") as server, running(serve, folder / "other") as other:
        asyncio.run(ask_in_peace(server, modest, 30))
        calm = asyncio.run(ask_in_peace(server, modest, questions))
        beside, _ = ask_in_flood(server, modest, questions, other, greedy)
        during, flood = ask_in_flood(server, modest, questions, server, greedy)
    return Flooded(calm, beside, during, flood)


MODULE = "recollect.testing.flooding"
MADE_UP = "made-up"
"""In place of a key: another one with each request."""


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--made-up", action="store_true", help="by keys that nobody made, another with each request")
    parser.add_argument("--pour", help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    if chosen.pour:
        *where, token = json.loads(chosen.pour)
        print(json.dumps(asyncio.run(pour(Server(*where), token))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        flooded = drill(Path(folder), chosen.questions, made_up=chosen.made_up)
    print(flooded)
    is_fair = (os.cpu_count() or 1) >= PROCESSORS
    if not is_fair:
        print("there are too few processors here for the times to mean something")
    answered = {*flooded.calm.statuses, *flooded.beside.statuses, *flooded.during.statuses}
    return int(answered != {200} or "429" not in flooded.flood or (is_fair and flooded.times_slower > SLOWER_MOST))


if __name__ == "__main__":
    sys.exit(main())
