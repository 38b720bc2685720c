"""How long each verb holds the event loop: its longest piece of work between two waits, on any store.

While a piece runs, a server answers nobody else. Measured is the CPU of the loop's thread in each of its callbacks, so
that what other programs do on a busy machine does not count. One user has many short records, as in `growth.py`;
another has 200 memories of 60 KB, in made-up words that occur nowhere else.

    python benchmarks/pieces.py --store postgresql redis            # some minutes each
    python benchmarks/pieces.py --store sqlite --size 5000 --longs 20
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from growth import ASKED, Clock, Scene, fill, lines
from metering import Meter
from timing import say, table

from recollect import Memory
from recollect.providers import StaticEmbedder
from recollect.records import DAY_MS
from recollect.server.heaps import settle
from recollect.testing.stores import KINDS, fresh_url
from recollect.user import User

WORDS, TOGETHER = 6_600, 15
"""Words of nine characters make a text of 60 KB; more than fifteen of these do not fit into one commit."""
SHOWN_MS = 20
"""Pieces below this are not worth a line."""
Verbs = Mapping[str, Callable[[], Awaitable[Any]]]


class Renamed(StaticEmbedder):
    """The default embedder under another name, so that everything has to be embedded again."""

    name = "another"


class Longest:
    """The longest piece of the loop since it was last taken."""

    def __init__(self) -> None:
        self.ms, self.what = 0.0, ""

    def watch(self) -> None:
        """Time every callback of every loop from now on."""
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time_ns()
            run(handle)
            taken_ms = (time.thread_time_ns() - began) / 1e6
            if taken_ms > self.ms:
                self.ms, self.what = taken_ms, repr(handle)

        asyncio.Handle._run = timed  # type: ignore[method-assign]

    def take(self) -> tuple[float, str]:
        taken = self.ms, self.what
        self.ms, self.what = 0.0, ""
        return taken


LONGEST = Longest()


def long_texts(count: int) -> list[str]:
    """Texts of 60 KB in words that occur nowhere else."""
    dice = random.Random(7)
    letters = "abcdefghijklmnoprstuvwy"
    return [
        f"The boat number {number}. {' '.join(''.join(dice.choices(letters, k=8)) for _ in range(WORDS))}"
        for number in range(count)
    ]


def verbs_of_many(memory: Memory, ann: User, told: Sequence[Mapping[str, Any]], clock: Clock) -> Verbs:
    """What is measured for a user with many records. The order matters: some verbs need what others left."""
    chat, bob = ann.session("talk-3"), memory.user("bob")
    turns = [{"role": "user", "content": f"I live in Bergen with my sister Ida {n}."} for n in range(90)]
    notes = [f"Note {n}: {text}" for n, text in enumerate(lines()[:90])]

    async def first(ask: Callable[..., Awaitable[Any]]) -> None:
        memory._flow.indexes.drop(ann._scope.partition)
        await ask(ASKED[1])

    async def a_day_later() -> None:
        clock.now_ms += DAY_MS
        await memory.work()

    async def pages() -> None:
        after = None
        while True:
            _, after = await ann.list_memories(limit=100, after=after)
            if after is None:
                return

    async def forget_message() -> None:
        page, _ = await ann.session("talk-7").messages(limit=1)
        await ann.forget(page[0].id)

    return {
        "import": lambda: bob.import_records(told),
        "enrich what was imported": memory.work,
        "first search": lambda: first(ann.search_memory),
        "first context": lambda: first(chat.get_context),
        "search": lambda: ann.search_memory(ASKED[2], limit=100),
        "context of 100,000 tokens": lambda: chat.get_context(ASKED[2], max_tokens=100_000),
        "90 messages at once": lambda: chat.add_messages(turns),
        "learn from them": memory.work,
        "90 memories at once": lambda: ann.add_memories(notes),
        "enrich them": memory.work,
        "30 facts at once": lambda: ann.upsert_facts([{"key": f"new_{n}", "value": f"v{n}"} for n in range(30)]),
        "enrich the facts": memory.work,
        "all memories, page by page": pages,
        "1,000 memories in a page": lambda: ann.list_memories(limit=1_000),
        "1,000 messages in a window": lambda: chat.window(messages=1_000),
        "sessions": lambda: ann.sessions(limit=1_000),
        "the profile": ann.profile,
        "the graph": ann.graph.whole,
        "failures, survey": memory.survey,
        "export": ann.export,
        "reprocess, rehearsed": lambda: memory.reprocess(user="ann"),
        "forget a message": forget_message,
        "delete a session": lambda: ann.session("talk-9").delete(),
        "forget by a filter": lambda: bob.forget(where={"created_at": {"gte": "1970-01-01"}}),
        "upkeep": a_day_later,
        "upkeep, purging": a_day_later,
        "erase": memory.user("bob").erase,
    }


def verbs_of_long(memory: Memory, ann: User, texts: Sequence[str], clock: Clock) -> Verbs:
    """The same for a user with few, but long memories."""
    told = [{"id": f"i{n}", "layer": "long_term", "content": text} for n, text in enumerate(texts)]
    bob = memory.user("bob")
    question = "Which boat is number 7?"

    async def add() -> None:
        for start in range(0, len(texts), TOGETHER):
            await ann.add_memories(texts[start : start + TOGETHER])

    async def say_them() -> None:
        for start in range(0, min(len(texts), 3 * TOGETHER), TOGETHER):
            turns = [{"role": "user", "content": text} for text in texts[start : start + TOGETHER]]
            await ann.session("talk").add_messages(turns)

    async def first() -> None:
        memory._flow.indexes.drop(ann._scope.partition)
        await ann.search_memory(question)

    async def a_day_later() -> None:
        clock.now_ms += DAY_MS
        await memory.work()

    return {
        "add, 15 at once": add,
        "enrich them": memory.work,
        "import": lambda: bob.import_records(told),
        "enrich what was imported": memory.work,
        "messages, 15 at once": say_them,
        "learn from them": memory.work,
        "first search": first,
        "search": lambda: ann.search_memory(question, limit=100),
        "context of 100,000 tokens": lambda: ann.get_context(question, max_tokens=100_000),
        "200 memories in a page": lambda: ann.list_memories(limit=200),
        "window": ann.session("talk").window,
        "export": ann.export,
        "forget by a filter": lambda: bob.forget(where={"created_at": {"gte": "1970-01-01"}}),
        "upkeep": a_day_later,
        "upkeep, purging": a_day_later,
        "delete a session": ann.session("talk").delete,
        "erase": memory.user("bob").erase,
    }


async def measured(kind: str, verbs: Verbs) -> dict[str, float]:
    """The longest piece of each verb."""
    found = {}
    for name, call in verbs.items():
        settle()
        await asyncio.sleep(0)
        LONGEST.take()
        await call()
        await asyncio.sleep(0)  # its last piece ends here
        found[name], what = LONGEST.take()
        if found[name] > SHOWN_MS:
            say(f"{kind}: {name}: {found[name]:.0f} ms in {what}")
    return found


async def reembedded(kind: str, url: str, clock: Clock) -> dict[str, float]:
    """The longest pieces of embedding everything again, and of a question between two embedders."""
    async with Memory.open(url, worker=False, clock=clock, embedder=Renamed()) as memory:
        asked = {"first search, other embedder": lambda: memory.user("ann").search_memory(ASKED[0])}
        return await measured(kind, asked | {"reembed": memory.reembed})


async def of_many(kind: str, told: Sequence[Mapping[str, Any]], now_ms: int) -> dict[str, float]:
    clock = Clock()
    clock.now_ms = now_ms
    with fresh_url(kind) as url:
        async with Memory.open(url, worker=False, clock=clock, conversation_days=36_500) as memory:
            ann = memory.user("ann")
            await ann.import_records(told)
            await memory.work()
            found = await measured(kind, verbs_of_many(memory, ann, told, clock))
        return found | ({} if kind == "memory" else await reembedded(kind, url, clock))


async def of_long(kind: str, texts: Sequence[str]) -> dict[str, float]:
    clock = Clock()
    with fresh_url(kind) as url:
        async with Memory.open(url, worker=False, clock=clock, conversation_days=36_500) as memory:
            found = await measured(kind, verbs_of_long(memory, memory.user("ann"), texts, clock))
        return found | ({} if kind == "memory" else await reembedded(kind, url, clock))


async def exported(size: int) -> tuple[list[dict[str, Any]], int]:
    """A user with about this many records, filled once for all stores, and the time by then."""
    clock = Clock()
    async with Memory.open("memory://", worker=False, clock=clock, conversation_days=36_500) as memory:
        user = memory.user("ann")
        await fill(Scene(memory, user, user.session("talk-0"), cycle(lines()), clock, Meter()), size)
        return await user.export(), clock.now_ms


def show(title: str, figures: Mapping[str, Mapping[str, float]]) -> None:
    names = list(dict.fromkeys(name for each in figures.values() for name in each))
    rows = [[name, *(f"{each[name]:.0f} ms" if name in each else "" for each in figures.values())] for name in names]
    print(table(title, ["", *figures], rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=sorted(KINDS), nargs="+", default=["sqlite"], help="the stores to measure")
    parser.add_argument("--size", type=int, default=20_000, help="records of the user who has many; 0: none")
    parser.add_argument("--longs", type=int, default=200, help="memories of the user who has long ones; 0: none")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    figures: dict[str, dict[str, dict[str, float]]] = {}
    if given.size:
        say(f"filling {given.size:,} records")
        told, now_ms = asyncio.run(exported(given.size))
    LONGEST.watch()
    if given.size:
        figures["many"] = {kind: asyncio.run(of_many(kind, told, now_ms)) for kind in given.store}
        show(f"a user with {len(told):,} records: the longest piece of each verb", figures["many"])
    if given.longs:
        texts = long_texts(given.longs)
        figures["long"] = {kind: asyncio.run(of_long(kind, texts)) for kind in given.store}
        show(f"a user with {given.longs:,} memories of 60 KB: the longest piece of each verb", figures["long"])
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
