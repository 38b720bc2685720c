"""What a long-time user costs: each verb for a user with few records and for one with many.

A verb should cost only what it touches. The last column shows what grows with the user; a search and a full listing
must grow, an add must not. On a server, which is started here, network traffic is measured as well: round trips and
bytes read. `RECOLLECT_TEST_POSTGRES` and similar variables name servers of your own.

    python benchmarks/growth.py                       # 2,000 and 20,000 records: about two minutes
    python benchmarks/growth.py --sizes 2000 60000
    python benchmarks/growth.py --store postgresql --sizes 2000 10000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, fields
from itertools import cycle, islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from metering import Meter, metered
from timing import say, table

from recollect import Memory
from recollect.records import DAY_MS, HOUR_MS
from recollect.session import Session
from recollect.testing.stores import KINDS, fresh_url
from recollect.user import User

TALKS = Path(__file__).resolve().parents[1] / "training" / "talks"
SESSION_TURNS = 20
SETTLE_S = 0.06
"""Long enough for the after-effects of a call, such as the worker wake-up that PostgreSQL sends after a commit."""
CALLS = 9
"""Measured calls of each verb, after one that is left out; the median counts."""
ASKED = (
    "Where did the heron print go?",
    "Who works as a vet nurse?",
    "What is the plan for Friday?",
    "When did they climb outdoors?",
    "How is the new flat?",
)
SHARES = {"turns": 0.65, "memories": 0.12, "facts": 0.06, "preferences": 0.01, "relations": 0.03, "learnings": 0.02}
"""What is added for the user; entities, episodes and earlier values of facts come about by themselves."""


class Clock:
    """A clock set by hand, so that months of talk take minutes."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True, slots=True)
class Scene:
    """An existing user, and what is said next."""

    memory: Memory
    user: User
    chat: Session
    said: Iterator[str]
    clock: Clock
    meter: Meter

    def asked(self, number: int) -> str:
        return ASKED[number % len(ASKED)]


Call = Callable[[Scene, int], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Costs:
    """What a call took: CPU in this process, wall time, round trips to a server and the data received from it."""

    cpu_ms: float
    wall_ms: float
    trips: float
    received_kb: float


TOLD = {
    "cpu_ms": ("CPU of a verb in this process", "{:.2f} ms"),
    "wall_ms": ("time until it answers", "{:.2f} ms"),
    "trips": ("round trips to the server", "{:.0f}"),
    "received_kb": ("read from the server", "{:.1f} KB"),
}
"""The title of each cost, and its format."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What is measured, and what runs unmeasured before each call."""

    name: str
    call: Call
    before: Call | None = None


async def _told(scene: Scene, number: int) -> None:
    await scene.chat.add_message("user", f"I live in Bergen with my sister Ida {number}. {next(scene.said)}")


async def _noted(scene: Scene, number: int) -> None:
    await scene.user.add_memory(f"Note {number}: {next(scene.said)}")


async def _said_so(scene: Scene, number: int) -> None:
    await scene.user.add_fact(f"known_{number}", f"value {number}")


async def _let_go(scene: Scene, number: int) -> None:
    """Drop the user's index, as if another user's had replaced it."""
    scene.memory._flow.indexes.drop(scene.user._scope.partition)


async def _next_day(scene: Scene, number: int) -> None:
    scene.clock.now_ms += DAY_MS


async def _forget_message(scene: Scene, number: int) -> None:
    page, _ = await scene.user.session(f"talk-{number}").messages(limit=1)
    await scene.user.forget(page[0].id)


async def _undo(scene: Scene, number: int) -> None:
    page, _ = await scene.user.session(f"talk-{number}").messages(limit=1)
    await scene.user.undo(message_id=page[0].id, dry_run=True)


VERBS = (
    Verb("add a message", lambda scene, _: scene.chat.add_message("user", next(scene.said))),
    Verb("learn from a message, later", lambda scene, _: scene.memory.work(), _told),
    Verb("add a memory", lambda scene, n: scene.user.add_memory(f"Thing {n}: {next(scene.said)}", id=f"new-{n}")),
    Verb("enrich a memory, later", lambda scene, _: scene.memory.work(), _noted),
    Verb("change a memory", lambda scene, n: scene.user.update_memory(f"new-{n}", content=f"Other {n}")),
    Verb("say a fact", lambda scene, n: scene.user.add_fact(f"said_{n}", f"value {n}")),
    Verb("enrich a fact, later", lambda scene, _: scene.memory.work(), _said_so),
    Verb("relate two entities", lambda scene, n: scene.user.graph.relate(f"Zoe {n}", "knows", _name(3))),
    Verb("working memory: set", lambda scene, n: scene.chat.working.set({"step": n})),
    Verb("window of a session", lambda scene, _: scene.chat.window()),
    Verb("newest page of memories", lambda scene, _: scene.user.list_memories(limit=20, newest_first=True)),
    Verb("page of memories by a label", lambda scene, _: scene.user.list_memories(where={"metadata.topic": "t7"})),
    Verb("one memory and its history", lambda scene, n: scene.user.history(f"new-{n}")),
    Verb("the ten latest sessions", lambda scene, _: scene.user.sessions(limit=10)),
    Verb("one session as it is listed", lambda scene, _: scene.chat.info()),
    Verb("search", lambda scene, n: scene.user.search_memory(scene.asked(n), limit=10)),
    Verb("first search of a user", lambda scene, n: scene.user.search_memory(scene.asked(n), limit=10), _let_go),
    Verb("context of 4,000 tokens", lambda scene, n: scene.chat.get_context(scene.asked(n))),
    Verb("the whole profile", lambda scene, _: scene.user.profile()),
    Verb("what is near an entity", lambda scene, _: scene.user.graph.neighbours(_name(3))),
    Verb("what an undo of a message would end", _undo),
    Verb("forget a memory", lambda scene, n: scene.user.forget(f"note-{n}")),
    Verb("forget a message", _forget_message),
    Verb("delete a session", lambda scene, n: scene.user.session(f"talk-{20 + n}").delete()),
    Verb("export everything", lambda scene, _: scene.user.export()),
    Verb("upkeep, once a day", lambda scene, _: scene.memory.work(), _next_day),
)


def lines() -> list[str]:
    """What people say in our own talks."""
    found = [line for path in sorted(TALKS.glob("*.txt")) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line.partition(": ")[2] for line in found if ": " in line and not line.startswith("#")]


def _name(number: int) -> str:
    return f"{('Ann', 'Ben', 'Chloe', 'Dora', 'Emil')[number % 5]} of house {number}"


async def fill(scene: Scene, size: int) -> None:
    """Add about `size` records as they come over months: talk by talk, with some of everything else in between."""
    talks = max(1, int(size * SHARES["turns"]) // SESSION_TURNS)
    done = dict.fromkeys(SHARES, 0)
    for number in range(talks):
        scene.clock.now_ms += 5 * HOUR_MS
        roles = cycle(("user", "assistant"))
        turns = [{"role": next(roles), "content": text} for text in islice(scene.said, SESSION_TURNS)]
        await scene.user.session(f"talk-{number}").add_messages(turns)
        for kind, share in SHARES.items():
            due = int(size * share * (number + 1) / talks)
            for place in range(done[kind], due):
                await _add(scene, kind, place)
            done[kind] = due
        if number % 10 == 0:
            await scene.memory.work()
    scene.clock.now_ms += 5 * HOUR_MS
    await scene.memory.work()


async def _add(scene: Scene, kind: str, place: int) -> None:
    user = scene.user
    if kind == "memories":
        text, labels = f"Note: {next(scene.said)}", {"topic": f"t{place % 50}"}
        await user.add_memory(text, id=f"note-{place}", metadata=labels)
    elif kind == "facts":
        await user.add_fact(f"thing_{place * 3 // 4}", f"value {place}")
    elif kind == "preferences":
        await user.update_preference(f"setting_{place}", f"option {place}")
    elif kind == "relations":
        await user.graph.relate(_name(place), "knows", _name(place // 2))
    elif kind == "learnings":
        await user.add_learning(f"Learned {place}: {next(scene.said)[:200]}")


async def measure(verb: Verb, scene: Scene) -> Costs:
    """What a verb costs: the median of several calls."""
    taken: list[Costs] = []
    for number in range(CALLS + 1):
        if verb.before is not None:
            await verb.before(scene, number)
        await asyncio.sleep(SETTLE_S if scene.meter.counts else 0)
        trips, _, received = scene.meter.so_far
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        await verb.call(scene, number)
        cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
        trips_now, _, received_now = scene.meter.so_far
        taken.append(Costs(cpu / 1e6, wall / 1e6, trips_now - trips, (received_now - received) / 1e3))
    columns = zip(*(asdict(each).values() for each in taken[1:]), strict=True)
    return Costs(*(statistics.median(column) for column in columns))


async def run(kind: str, size: int) -> dict[str, Costs]:
    """What each verb costs with `size` records."""
    say(f"growth on {kind}: filling {size:,} records")
    clock = Clock()
    with fresh_url(kind) as home, metered(home) as (url, meter):
        async with Memory.open(url, worker=False, clock=clock, conversation_days=36_500) as memory:
            user = memory.user("ann")
            scene = Scene(memory, user, user.session("talk-0"), cycle(lines()), clock, meter)
            await fill(scene, size)
            await user.get_context(ASKED[0])  # loads the index
            say(f"growth on {kind}: measuring at {size:,}")
            return {verb.name: await measure(verb, scene) for verb in VERBS}


def show(kind: str, figures: dict[int, dict[str, Costs]]) -> None:
    first, *_, last = figures
    header = ["", *(f"{size:,} records" for size in figures), "that is"]
    for cost in fields(Costs):
        title, form = TOLD[cost.name]
        rows = []
        for name in figures[first]:
            found = [getattr(each[name], cost.name) for each in figures.values()]
            times = f"{found[-1] / found[0]:.1f}x" if found[0] else ""
            rows.append([name, *map(form.format, found), times])
        if any(getattr(each, cost.name) for each in figures[last].values()):
            print(table(f"{kind}: {title}, by number of records", header, rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=sorted(KINDS), default="sqlite", help="the store to measure")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2_000, 20_000], help="records of the user in each run")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    if min(given.sizes) < 1_000:
        parser.error("below 1,000 records there are not enough sessions to measure with")
    figures = {size: asyncio.run(run(given.store, size)) for size in given.sizes}
    show(given.store, figures)
    if given.json is not None:
        plain = {size: {name: asdict(costs) for name, costs in each.items()} for size, each in figures.items()}
        given.json.write_text(json.dumps(plain, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
