"""Troubles of the endpoint of a model or an embedder, and what writers notice of them: only jobs wait for it.

    python -m recollect.testing.troubles
    python -m recollect.testing.troubles --writes 2000 --only slow

There is a memory for each trouble, and two calm ones each for the troubles of the model and of the embedder, all with
a worker in this process. They take turns of a few writes in random order, so that a busy machine is busy for all of
them. How far two calm ones differ shows how much of a difference is chance. At the end, everything that was written is
counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from recollect.memory import Memory
from recollect.testing.endpoint import Endpoint, Fault, answer, hang_up, serving, sleep_on_it, stop_in_the_middle

TURN = 20
"""Writes in one turn: enough that the work they bring falls into it."""
LIMIT = 1.2
"""How many times as long as the calm ones the slowest hundredth of the writes may take."""
A_DAY = 100
"""Writes to one session."""
DIMENSIONS = 8
CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
REPLIES: Mapping[str, Any] = {
    "learned": {"findings": [], "ratings": []},
    "summary": {"summary": "They spoke of boats."},
    "same": {"same": []},
    "queries": {"queries": []},
    "episode": {"title": "Boats", "text": "They spoke of boats."}
    | {name: [] for name in ("people", "dates", "decisions", "open_questions")},
}
"""What a good model answers, by the title of the question."""

Usual = Callable[[dict[str, Any]], Any]


def completion(body: dict[str, Any]) -> Any:
    """An ordinary answer of a chat model."""
    title = body["response_format"]["json_schema"]["name"]
    return {"choices": [{"message": {"content": json.dumps(REPLIES[title])}, "finish_reason": "stop"}]}


def vectors(body: dict[str, Any], dimensions: int = DIMENSIONS) -> Any:
    """The answer of an embedder."""
    rows = [[each.random() for _ in range(dimensions)] for each in map(random.Random, body["input"])]
    return {"data": [{"index": place, "embedding": row} for place, row in enumerate(rows)]}


def changing() -> Usual:
    """Vectors of another length each time."""
    lengths = count(DIMENSIONS)
    return lambda body: vectors(body, next(lengths))


@dataclass(frozen=True)
class Trouble:
    """What is wrong with an endpoint: that of the chat model, or that of the embedder."""

    path: str
    always: Fault | None = None
    usual: Callable[[], Usual] | None = None

    def settings(self, url: str) -> dict[str, Any]:
        if self.path == CHAT:
            return {"llm": "openai:any", "llm_url": url, "llm_batch_s": 0.01}
        return {"embedder": "openai:any", "embedder_url": url}


TROUBLES: Mapping[str, Trouble] = {
    "slow": Trouble(CHAT, sleep_on_it),
    "500": Trouble(CHAT, answer(500)),
    "429": Trouble(CHAT, answer(429, Retry_After="30")),
    "reset": Trouble(CHAT, hang_up),
    "cut off": Trouble(CHAT, stop_in_the_middle),
    "garbage": Trouble(CHAT, answer(200, b"<html>Sorry</html>")),
    "no such model": Trouble(CHAT, answer(404)),
    "embedder slow": Trouble(EMBEDDINGS, sleep_on_it),
    "embedder 500": Trouble(EMBEDDINGS, answer(500)),
    "embedder 429": Trouble(EMBEDDINGS, answer(429, Retry_After="30")),
    "embedder garbage": Trouble(EMBEDDINGS, answer(200, b"<html>Sorry</html>")),
    "embedder of other lengths": Trouble(EMBEDDINGS, usual=changing),
}
CALM: Mapping[str, Trouble] = {
    "calm": Trouble(CHAT),
    "calm again": Trouble(CHAT),
    "embedder calm": Trouble(EMBEDDINGS),
    "embedder calm again": Trouble(EMBEDDINGS),
}


@dataclass
class Writer:
    """Who writes beside one endpoint, and how long each write took."""

    name: str
    memory: Memory
    endpoint: Endpoint
    path: str
    written: int = 0
    wall_ms: list[float] = field(default_factory=list)

    async def turn(self) -> None:
        for _ in range(TURN):
            chat = self.memory.user("ann").session(f"day {self.written // A_DAY}")
            begun = time.perf_counter()
            await chat.add_interaction(f"Number {self.written}: I live in Oslo and I row on Sundays.", "Noted.")
            self.wall_ms.append((time.perf_counter() - begun) * 1000)
            self.written += 1

    async def lost(self) -> int:
        """How many of the acknowledged messages are not there."""
        sessions = [self.memory.user("ann").session(f"day {day}") for day in range(self.written // A_DAY + 1)]
        return 2 * self.written - sum([len((await each.messages(limit=1_000))[0]) for each in sessions])


@dataclass(frozen=True)
class Outcome:
    """What writers noticed of one trouble: their slowest hundredth, relative to the calm ones."""

    name: str
    p50_ms: float
    p99_ms: float
    times_calm: float
    asked: int
    lost: int

    def is_fine(self, limit: float = LIMIT) -> bool:
        return self.times_calm <= limit and not self.lost and self.asked > 0


async def run(names: Sequence[str], writes: int, seed: int = 7) -> list[Outcome]:
    """Write beside every trouble, in turns; the calm ones come first."""
    chosen = {**CALM} | {name: TROUBLES[name] for name in names}
    turns = [name for name in chosen for _ in range(max(1, writes // TURN))]
    random.Random(seed).shuffle(turns)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        writers = {
            name: await _writer(stack, name, trouble, folder / f"{place}.db")
            for place, (name, trouble) in enumerate(chosen.items())
        }
        for writer in writers.values():
            await writer.turn()
            writer.wall_ms.clear()  # the first ones open files and connections
        for name in turns:
            await writers[name].turn()
        return [await _outcome(writer, writers.values()) for writer in writers.values()]


async def _writer(stack: AsyncExitStack, name: str, trouble: Trouble, file: Path) -> Writer:
    usual = trouble.usual() if trouble.usual else completion if trouble.path == CHAT else vectors
    endpoint = await stack.enter_async_context(serving(trouble.path, usual))
    endpoint.always = trouble.always
    memory = await stack.enter_async_context(Memory.open(f"sqlite:///{file}", **trouble.settings(endpoint.url)))
    return Writer(name, memory, endpoint, trouble.path)


async def _outcome(writer: Writer, writers: Iterable[Writer]) -> Outcome:
    calm = [each for each in writers if each.name in CALM and each.path == writer.path]
    pace = statistics.fmean(_p99(each) for each in calm)
    p99 = _p99(writer)
    return Outcome(
        writer.name,
        round(statistics.median(writer.wall_ms), 2),
        round(p99, 2),
        round(p99 / pace, 2),
        len(writer.endpoint.requests),
        await writer.lost(),
    )


def _p99(writer: Writer) -> float:
    return statistics.quantiles(writer.wall_ms, n=100)[98]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=1_000, help="writes beside each trouble")
    parser.add_argument("--only", choices=TROUBLES, action="append", help="this trouble (again for more)")
    parser.add_argument("--limit", type=float, default=LIMIT, help="how much longer than the calm ones is allowed")
    given = parser.parse_args()
    logging.getLogger("recollect").setLevel(logging.CRITICAL)  # troubles are what this is about
    found = asyncio.run(run(given.only or list(TROUBLES), given.writes))
    print(f"{'':26} {'p50 ms':>8} {'p99 ms':>8} {'of calm':>8} {'asked':>7} {'lost':>5}")
    for each in found:
        print(
            f"{each.name:26} {each.p50_ms:8.2f} {each.p99_ms:8.2f} {each.times_calm:8.2f} {each.asked:7} {each.lost:5}"
        )
    if not all(each.is_fine(given.limit) for each in found if each.name not in CALM):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
