"""How fast Recollect is beside the alternatives: `make bench`.

All contestants hold the same memories with the same precomputed vectors, run in this process, and take turns call by
call, so that a busy machine is busy for all of them. Ratios say more than times.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

# Must be set before numpy is loaded. A second BLAS thread doubles the CPU of every contestant and gains little.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import costs
import numpy as np
import scale
from dataset import Question, World, exact, recall, user_name
from peers import PEERS, Contestant, Floats, Lookup, Memory, find, version_of
from timing import Figures, Samples, fsync_rate, say, table

from recollect.stores.sqlite_file import PAGE_BYTES

K = 10
CALLERS = 128
AIMS: dict[str, dict[str, float]] = {
    "warm": {"mem0": 2_000, "Chroma": 150, "InMemoryStore": 25, "SqliteStore": 12},
    "first": {"mem0": 350, "Chroma": 30, "InMemoryStore": 7, "SqliteStore": 4},
    "row": {},
    "open": {},
    "add": {"Chroma": 10, "mem0": 4},
}
"""How many times faster than each of the others Recollect aims to be, by p50."""
AIMED_AT = (10_000, 100)
"""The numbers of memories and users that the aims apply to."""


@dataclasses.dataclass
class Race:
    """The contestants and the data they hold. The first of them is ours."""

    world: World
    lookup: Lookup
    users: dict[str, list[Memory]]
    contestants: list[Contestant]
    bare: Bare

    @property
    def everyone(self) -> list[Contestant | Bare]:
        return [*self.contestants, self.bare]

    def is_ours(self) -> bool:
        """Whether the others are compared with Recollect: yes, unless `--only` says otherwise."""
        return self.contestants[0].name == "Recollect"

    def questions(self, each: int) -> list[Question]:
        """`each` questions for every user, one user after the other in each round."""
        of_users = [
            self.world.questions(number, len(memories), each) for number, memories in enumerate(self.users.values())
        ]
        rounds = [question for asked in zip(*of_users, strict=True) for question in asked]
        for question in rounds:
            self.lookup.learn(question.text, question.vector)
            self.lookup.learn(question.plain, question.vector)
        return rounds

    async def run(self, turns: Sequence[Callable[[Any], Awaitable[Any]]]) -> dict[str, Samples]:
        """Run each turn on everyone before the next one; the starting contestant changes every time."""
        everyone = self.everyone
        samples = {contestant.name: Samples() for contestant in everyone}
        gc.collect()
        for place, turn in enumerate(turns):
            start = place % len(everyone)
            for contestant in everyone[start:] + everyone[:start]:
                await samples[contestant.name].measure(lambda turn=turn, contestant=contestant: turn(contestant))  # type: ignore[misc]
        return samples


class Bare:
    """The floor: the minimum that any library written in Python that keeps memories in SQLite has to do.

    An add is a text and its id in one table, synced before the call returns. A search checks whether the file or the
    user has changed, and compares the question with the user's vectors, which are read on the user's first search.
    There are no words, no layers, no reasons, no input checks, no thread in between.
    """

    name = "bare sqlite3"
    version = sqlite3.sqlite_version

    def __init__(self, path: Path, dimensions: int) -> None:
        self._path, self._dimensions = path, dimensions
        self._open()
        for statement in (
            f"pragma page_size = {PAGE_BYTES}",
            "pragma journal_mode = wal",
            "create table users (user text primary key, revision integer)",
            "create table memories (user text, id text, content text, vector blob, primary key (user, id))",
        ):
            self._db.execute(statement)

    def _open(self) -> None:
        self._db = sqlite3.connect(self._path, isolation_level=None)
        self._db.execute("pragma synchronous = full")
        self._held: dict[str, tuple[list[str], Floats]] = {}

    def load(self, users: dict[str, list[Memory]]) -> None:
        """Load what the contestants hold, with vectors of two bytes per number."""
        self._db.execute("begin")
        self._db.executemany("insert into users values (?, 1)", [(user,) for user in users])
        rows = [(user, *row[:2], row[2].astype(np.float16).tobytes()) for user, held in users.items() for row in held]
        self._db.executemany("insert into memories values (?, ?, ?, ?)", rows)
        self._db.execute("commit")

    async def add(self, user: str, id: str, text: str, vector: Any) -> None:
        """Insert and commit, in this thread."""
        self._db.execute("insert into memories values (?, ?, ?, null)", (user, id, text))

    async def search(self, user: str, text: str, vector: Floats, k: int) -> list[str]:
        """The user's nearest memories, by exact comparison."""
        self._db.execute("pragma data_version").fetchone()
        self._db.execute("select revision from users where user = ?", (user,)).fetchone()
        if user not in self._held:
            self._held[user] = self._read(user)
        ids, vectors = self._held[user]
        return [ids[row] for row in (-(vectors @ vector)).argsort()[:k].tolist()]

    def _read(self, user: str) -> tuple[list[str], Floats]:
        rows = self._db.execute("select id, content, vector from memories where user = ?", (user,)).fetchall()
        halves = np.frombuffer(b"".join([row[2] for row in rows]), np.float16)
        return [row[0] for row in rows], halves.reshape(len(rows), self._dimensions).astype(np.float32)

    async def reopen(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        self._db.close()


async def gather_contestants(names: Sequence[str], folder: Path, world: World, users: int, each: int) -> Race:
    """Open and load every contestant that can run here; report the others with the reason."""
    lookup = Lookup()
    memories = {user_name(number): world.memories(number, each) for number in range(users)}
    for rows in memories.values():
        for _, text, vector in rows:
            lookup.learn(text, vector)
    bare = Bare(folder / "bare.db", world.dimensions)
    bare.load(memories)
    race = Race(world, lookup, memories, [], bare)
    for name in names:
        try:
            contestant = find(name, folder, lookup, world.dimensions)
            started = time.perf_counter()
            await contestant.load(memories)
        except Exception as reason:  # whatever the reason, the others can still be measured
            if name == PEERS[0]:
                raise
            print(f"skipped: {name} ({type(reason).__name__}: {reason})")
            continue
        say(f"{contestant.name} {version_of(contestant)} loaded in {time.perf_counter() - started:.1f} s")
        race.contestants.append(contestant)
    return race


# ── The sections ─────────────────────────────────────────────────────────────────────────────────


def searching(question: Question) -> Callable[[Contestant | Bare], Awaitable[list[str]]]:
    return lambda contestant: contestant.search(question.user, question.text, question.vector, K)


async def search_warm(race: Race, count: int) -> dict[str, Figures]:
    """Search of a user who has searched before."""
    each = max(1, count // len(race.users))
    questions = race.questions(each)
    say(f"warm search: {len(questions)} questions, after one of every user")
    for contestant in race.everyone:
        for question in questions[: len(race.users)]:
            await contestant.search(question.user, question.plain, question.vector, K)
    samples = await race.run([searching(question) for question in questions])
    figures = {name: taken.figures() for name, taken in samples.items()}
    for contestant in race.everyone:
        figures[contestant.name].recall = await recall_of(race, contestant, questions[: len(race.users)])
    return figures


async def search_in_a_row(race: Race, count: int) -> dict[str, Figures]:
    """The same, with each contestant answering all its questions in a row.

    Between two of our calls the others touch many megabytes, and our code and data have to come back into the
    processor's caches; a process that serves a single memory does not pay for that.
    """
    questions = race.questions(max(1, count // len(race.users)))
    say(f"warm search in a row: {len(questions)} questions")
    figures = {}
    for contestant in race.everyone:
        taken = Samples()
        for question in questions:
            await taken.measure(lambda asked=question, peer=contestant: searching(asked)(peer))  # type: ignore[misc]
        figures[contestant.name] = taken.figures()
    return figures


async def recall_of(race: Race, contestant: Contestant | Bare, questions: Sequence[Question]) -> float:
    """How much of the exact answer is found when only meaning can decide. Not timed."""
    shares = []
    for question in questions:
        found = await contestant.search(question.user, question.plain, question.vector, K)
        shares.append(recall(found, exact(race.users[question.user], question.vector, K)))
    return statistics.fmean(shares)


async def search_first(race: Race, rounds: int) -> dict[str, Figures]:
    """The first search of each user after reopening; the reopening itself is not counted."""
    questions = race.questions(rounds)
    every = len(race.users)
    samples = {contestant.name: Samples() for contestant in race.everyone}
    for number in range(rounds):
        say(f"first touch: round {number + 1} of {rounds}")
        opener, *others = questions[number * every : (number + 1) * every]
        for contestant in race.everyone:
            await contestant.reopen()
            await contestant.search(opener.user, opener.text, opener.vector, K)
        for name, taken in (await race.run([searching(question) for question in others])).items():
            samples[name].wall_ns += taken.wall_ns
            samples[name].cpu_ns += taken.cpu_ns
    return {name: taken.figures() for name, taken in samples.items()}


async def open_and_answer(race: Race, rounds: int) -> dict[str, Figures]:
    """From closing an open store to the first answer after reopening it, without imports."""

    def opening(question: Question) -> Callable[[Contestant | Bare], Awaitable[None]]:
        async def turn(contestant: Contestant | Bare) -> None:
            await contestant.reopen()
            await contestant.search(question.user, question.text, question.vector, K)

        return turn

    say("open and first answer")
    samples = await race.run([opening(question) for question in race.questions(1)[:rounds]])
    return {name: taken.figures() for name, taken in samples.items()}


async def add_alone(race: Race, count: int) -> dict[str, Figures]:
    """One caller, one memory per call, on disk when the call returns (where the store promises it)."""
    say(f"adds: {count} by one caller")
    fresh = new_memories(race, len(race.users), count)

    def adding(user: str, memory: Memory) -> Callable[[Contestant | Bare], Awaitable[None]]:
        return lambda contestant: contestant.add(user, *memory)

    samples = await race.run([adding(user, memory) for user, memory in fresh])
    figures = {name: taken.figures() for name, taken in samples.items()}
    for contestant in race.contestants:
        started = time.process_time()
        await contestant.settle()
        figures[contestant.name].later_cpu_ms = (time.process_time() - started) * 1000 / count
    return figures


def new_memories(race: Race, number: int, count: int) -> list[tuple[str, Memory]]:
    """Memories that no contestant holds yet, distributed among the users."""
    names = list(race.users)
    fresh = race.world.memories(number, count)
    for _, text, vector in fresh:
        race.lookup.learn(text, vector)
    return [(names[place % len(names)], memory) for place, memory in enumerate(fresh)]


async def add_together(race: Race, folder: Path, count: int) -> dict[str, float]:
    """Many concurrent callers (ours alone), beside what the disk itself can do."""
    ours: Any = race.contestants[0]
    result: dict[str, float] = {}
    for number, worker in enumerate((False, True)):
        await ours.reopen(worker=worker)
        fresh = new_memories(race, len(race.users) + 1 + number, count)
        before = fsync_rate(folder)
        started = time.perf_counter()
        await asyncio.gather(*(add_in_turn(ours, fresh[caller::CALLERS]) for caller in range(CALLERS)))
        rate = count / (time.perf_counter() - started)
        fsyncs = (before + fsync_rate(folder)) / 2
        label = "with the worker" if worker else "alone"
        say(f"{CALLERS} callers, {label}: {rate:,.0f} adds a second; the disk: {fsyncs:,.0f} fsyncs a second")
        result |= {f"adds_per_s, {label}": rate, f"fsyncs_per_s, {label}": fsyncs, f"ratio, {label}": rate / fsyncs}
        await ours.settle()
    await ours.reopen()
    return result


async def add_in_turn(contestant: Contestant, memories: Sequence[tuple[str, Memory]]) -> None:
    for user, memory in memories:
        await contestant.add(user, *memory)


# ── What is printed ──────────────────────────────────────────────────────────────────────────────


def show(title: str, race: Race, figures: dict[str, Figures], aims: dict[str, float]) -> None:
    """Print a table with ours first and, for the others, how many times longer they took; the floor last."""
    first = race.contestants[0]
    ours = figures[first.name]
    more = {
        name: heading
        for name, heading in (("recall", "recall@10"), ("later_cpu_ms", "CPU later"))
        if getattr(ours, name) is not None
    }
    rows = []
    for contestant in race.everyone:
        row = figures[contestant.name]
        ratio, aim = row.p50_ms / ours.p50_ms, aims.get(contestant.name) if race.is_ours() else None
        rows.append([
            f"{contestant.name} {Bare.version if isinstance(contestant, Bare) else version_of(contestant)}",
            *(f"{value:,.3f}" for value in (row.p50_ms, row.p95_ms, row.cpu_ms)),
            *("" if getattr(row, name) is None else f"{getattr(row, name):.3f}" for name in more),
            "" if contestant is first else times(ratio),
            "" if contestant is first else times(row.cpu_ms / ours.cpu_ms),
            "the floor" if contestant is race.bare else "" if aim is None else said_of(aim, ratio),
        ])  # fmt: skip
    header = ["", "p50 ms", "p95 ms", "CPU ms", *more.values(), "p50", "CPU", "aim"]
    print(table(title, header, rows), flush=True)
    asked = [figures[name].p50_ms / aim for name, aim in aims.items() if name in figures]
    if asked and race.is_ours():
        print(f"  The aims ask for {min(asked):,.3f} to {max(asked):,.3f} ms.\n", flush=True)


def said_of(aim: float, ratio: float) -> str:
    return f"{times(aim)} {'met' if ratio >= aim else 'missed'}"


def times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:,.1f}x"


def show_rates(rates: dict[str, float]) -> None:
    rows = [
        [
            f"{CALLERS} callers, {label}",
            f"{rates[f'adds_per_s, {label}']:,.0f}",
            f"{rates[f'fsyncs_per_s, {label}']:,.0f}",
            times(rates[f"ratio, {label}"]),
            said_of(3, rates[f"ratio, {label}"]),
        ]
        for label in ("alone", "with the worker")
    ]
    print(table("durable add, many callers", ["", "adds/s", "raw fsyncs/s", "ratio", "aim"], rows), flush=True)


# ── The whole ────────────────────────────────────────────────────────────────────────────────────


async def compare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    world = World(options.seed, options.dimensions)
    each = options.memories // options.users
    race = await gather_contestants(options.only or PEERS, folder, world, options.users, each)
    if not race.contestants:
        return {}
    held = f"{options.memories:,} memories of {options.users} users, {options.dimensions} dimensions"
    print(f"\n{held}, one BLAS thread, Python {platform.python_version()}, {os.cpu_count()} cores\n")
    result: dict[str, Any] = {"versions": {one.name: version_of(one) for one in race.contestants}}
    sections: list[tuple[str, str, Callable[[], Awaitable[dict[str, Figures]]]]] = [
        ("warm", "user search, warm", lambda: search_warm(race, options.queries)),
        ("row", "user search, warm, each contestant in a row", lambda: search_in_a_row(race, options.queries)),
        ("first", "first touch of a user after opening", lambda: search_first(race, options.rounds)),
        ("open", "close, open and first answer", lambda: open_and_answer(race, 5)),
        ("add", "durable add, one caller", lambda: add_alone(race, options.adds)),
    ]
    for key, title, section in sections:
        figures = await section()
        show(title, race, figures, AIMS[key] if (options.memories, options.users) == AIMED_AT else {})
        result[key] = {name: dataclasses.asdict(row) for name, row in figures.items()}
    if not all(contestant.durable for contestant in race.contestants):
        print("  InMemoryStore keeps nothing on disk: its adds are not durable.\n")
    if race.is_ours():
        result["add_together"] = await add_together(race, folder, options.adds * 20)
        show_rates(result["add_together"])
    race.bare.close()
    for contestant in race.contestants:
        await contestant.close()
    return result


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Recollect's speed beside the alternatives.")
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--dimensions", type=int, default=384, help="384, as MiniLM has, or 256")
    parser.add_argument("--queries", type=int, default=300, help="warm searches")
    parser.add_argument("--rounds", type=int, default=2, help="how often to reopen for the first touch of every user")
    parser.add_argument("--adds", type=int, default=300)
    parser.add_argument("--only", nargs="+", choices=PEERS, help="only these; the first is the baseline")
    parser.add_argument("--scale", choices=(*scale.SIZES, "none"), default="full", help="ours alone, with many users")
    parser.add_argument("--no-compare", action="store_true", help="ours alone: costs and scale")
    parser.add_argument("--no-costs", action="store_true", help="leave out what a question and a turn cost")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here too")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / ".data", help="on a real disk")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {"options": {"seed": options.seed, "dimensions": options.dimensions}}
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    try:
        if not options.no_compare:
            return result | {"compare": await compare(options, options.folder)}
        if not options.no_costs:
            result["costs"] = await costs.run(options.folder)
        if options.scale != "none":
            result["scale"] = await scale.run(World(options.seed, options.dimensions), options.folder, options.scale)
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)
    return result


def run_alone(arguments: Sequence[str]) -> dict[str, Any]:
    """What is ours alone, in a process of its own: threads of the others run on, and their CPU would be counted."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder, "figures.json")
        command = [sys.executable, __file__, *arguments, "--no-compare", "--json", str(figures)]
        subprocess.run(command, check=True)
        return dict(json.loads(figures.read_text(encoding="utf-8")))


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    result = asyncio.run(run(options))
    if not options.no_compare and not (options.no_costs and options.scale == "none"):
        result = run_alone(arguments) | result
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
