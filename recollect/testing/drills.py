"""Kill writers again and again, then count what became of every acknowledged word.

    python -m recollect.testing.drills --kills 500

Writers in separate processes send operations to one file and report to a journal outside the store
what they sent and what was acknowledged. They are killed without warning, and resume in a new life
with what was left unanswered. A checker that shares nothing with the store but the file
then compares: **lost** (acknowledged, missing), **phantom** (there, though never sent or already forgotten),
**half** (a batch partly there, a message without its vector or learned from in part, a job that nobody
will do, a past without its present), **duplicate** (also a lesson that counts twice), **leak** (under
another owner) and **disorder**.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from recollect.errors import NotFound
from recollect.memory import Memory
from recollect.records import HOUR_MS, Partition, system_clock
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.faults import start
from recollect.testing.lessons import half_learned, learned_from_nothing, learned_twice, lesson

PROCESSES = 2
"""Processes that write at the same time; each is killed at its own moment."""
WRITERS = 2
"""Writers in each process, so that commits of several callers share a transaction."""
LIFE_MS = (5, 800)
LIVES_PER_USER = 10
"""After this many lives the writers move on to new users, so that the last kill costs what the first did."""
LEASE_S = 0.5
"""Short, so that others take up the work of killed workers while the drill runs."""
CHECK_EVERY = 25
KILLS_FACTOR = 4
"""At most this many times the requested kills are made until more was acknowledged than that: on a slow machine
victims die before they have written, and a drill without results proves nothing."""
STEP_MS = 9 * HOUR_MS
"""How far the clock moves ahead with each life: sessions rest between two, and users live for several days."""
KINDS = {
    "message": 8, "interaction": 6, "batch": 3, "memory": 6, "update": 4, "forget": 3, "passing": 3, "erase": 0.4,
    "maintain": 0.6,
}  # fmt: skip
WORDS = ("tea", "rain", "garden", "python", "theme", "train", "violin", "bread", "harbour", "deadline", "invoice")
MARK = re.compile(r"(L\d+W\d+N\d+)P\d+")
"""Makes each text findable and unlike every other: life, writer, number of the operation, place in it."""


# ── what was sent ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Operation:
    """One call, as it is sent, sent again and checked."""

    id: str
    writer: int
    kind: str
    user: str
    marks: tuple[str, ...] = ()
    target: str = ""

    def text(self, place: int) -> str:
        mark = self.marks[place]
        said = f"{mark} says {' '.join(random.Random(mark).choices(WORDS, k=9))}"
        return said if self.kind in ("memory", "update") else f"{said}. {lesson(mark)}"


@dataclass(slots=True)
class Writer:
    """What a writer takes into a life: whose words it writes, and what it may change."""

    number: int
    generation: int
    targets: dict[str, str] = field(default_factory=dict)
    again: Operation | None = None

    @property
    def user(self) -> str:
        return f"user{self.number % PROCESSES}of{self.generation}"

    @property
    def passing_user(self) -> str:
        return f"passing{self.number}of{self.generation}"

    @property
    def chatting_user(self) -> str:
        """A user of whom nothing is forgotten, since an assistant quotes what it was told."""
        return f"chatting{self.number}of{self.generation}"


@dataclass
class World:
    """What must be there: who owns each mark, which mark a target shows, and which it showed before."""

    owner: dict[str, str] = field(default_factory=dict)
    shows: dict[str, str] = field(default_factory=dict)
    showed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def take(self, operation: Operation) -> None:
        """Record that an operation has happened."""
        target = operation.target
        if operation.kind == "update":
            self.showed[target].append(self.shows[target])
            del self.owner[self.shows[target]]
        elif operation.kind == "forget":
            self.showed.pop(target, None)
            del self.owner[self.shows.pop(target)]
        elif operation.kind == "erase":
            self.owner = {mark: user for mark, user in self.owner.items() if user != operation.user}
        for mark in operation.marks:
            self.owner[mark] = operation.user
        if operation.kind in ("message", "memory", "update"):
            self.shows[target or operation.id] = operation.marks[0]

    def copy(self) -> World:
        showed: dict[str, list[str]] = defaultdict(list, {id: list(marks) for id, marks in self.showed.items()})
        return World(dict(self.owner), dict(self.shows), showed)


@dataclass
class Journal:
    """Every operation that was sent, in each writer's order, and which of them were acknowledged."""

    sent: dict[str, Operation] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def take(self, entry: Operation | str) -> None:
        if isinstance(entry, str):
            self.done.add(entry)
        else:
            self.sent.setdefault(entry.id, entry)

    def unanswered(self, writer: int) -> Operation | None:
        """The one operation that may or may not have happened."""
        return next((o for o in self.sent.values() if o.writer == writer and o.id not in self.done), None)

    def world(self, writer: int) -> World:
        """The result of a writer's acknowledged operations."""
        world = World()
        for operation in self.sent.values():
            if operation.writer == writer and operation.id in self.done:
                world.take(operation)
        return world

    def targets(self, writer: int, generation: int) -> dict[str, str]:
        """What a writer may change in this generation, by id, with its kind."""
        shows = self.world(writer).shows
        lives = range(generation * LIVES_PER_USER, (generation + 1) * LIVES_PER_USER)
        return {id: self.sent[id].kind for id in shows if int(id[1 : id.index("W")]) in lives}


# ── what the killed do ───────────────────────────────────────────────────────────────────────────


async def write_until_killed(path: Path, pipe: Connection, life: int, seed: int, writers: Sequence[Writer]) -> None:
    """Write without end, with a worker in the process, and report what is sent and what is done."""
    async with opened(path, life * STEP_MS, lease_s=LEASE_S, poll_s=0.1) as memory:
        await asyncio.gather(*(_write(memory, pipe, life, random.Random(f"{seed} {life}"), each) for each in writers))


def opened(path: Path, ahead_ms: int, **settings: Any) -> Memory:
    """The memory at a time ahead of the clock. Its messages outlive every drill."""
    return Memory.open(
        path, embedder=HashingEmbedder(), clock=lambda: system_clock() + ahead_ms, conversation_days=3_650, **settings
    )


async def _write(memory: Memory, pipe: Connection, life: int, chance: random.Random, writer: Writer) -> None:
    if writer.again is not None:
        await perform(memory, writer.again, again=True)
        pipe.send(writer.again.id)
        remember(writer, writer.again)
    number = 0
    while True:
        operation = next_operation(chance, life, writer, number)
        pipe.send(operation)
        await perform(memory, operation)
        pipe.send(operation.id)
        remember(writer, operation)
        number += 1


def next_operation(
    chance: random.Random, life: int, writer: Writer, number: int, kinds: Mapping[str, float] = KINDS
) -> Operation:
    """What a writer sends next, of these kinds and about as often as their weights say."""
    (kind,) = chance.choices(list(kinds), list(kinds.values()))
    memories = [id for id, of in writer.targets.items() if of == "memory"]
    candidates = memories if kind == "update" else list(writer.targets)
    if kind in ("update", "forget") and not candidates:
        kind = "memory"
    size = {"interaction": 2, "batch": chance.randint(3, 12), "forget": 0, "erase": 0, "maintain": 0}.get(kind, 1)
    id = f"L{life}W{writer.number}N{number}"
    target = chance.choice(candidates) if kind in ("update", "forget") else ""
    users = {"passing": writer.passing_user, "erase": writer.passing_user, "chat": writer.chatting_user}
    user = users.get(kind, writer.user)
    return Operation(id, writer.number, kind, user, tuple(f"{id}P{n}" for n in range(size)), target)


def remember(writer: Writer, operation: Operation) -> None:
    """Tell a writer what it may change from now on."""
    if operation.kind in ("message", "memory") and operation.user == writer.user:
        writer.targets[operation.id] = operation.kind
    elif operation.kind == "forget":
        writer.targets.pop(operation.target, None)


async def perform(memory: Memory, operation: Operation, *, again: bool = False) -> None:
    """Make the call. When it is sent again, it may find that it has already happened."""
    user = memory.user(operation.user)
    chat = user.session("chat")
    id, texts = operation.id, [operation.text(place) for place in range(len(operation.marks))]
    match operation.kind:
        case "message" | "passing":
            await chat.add_message("user", texts[0], id=id)
        case "interaction":
            await chat.add_interaction(texts[0], texts[1], idempotency_key=id)
        case "batch":
            await chat.add_messages([{"role": "user", "content": text} for text in texts], idempotency_key=id)
        case "memory":
            await user.add_memory(texts[0], id=id, idempotency_key=id)
        case "update":
            await user.update_memory(operation.target, content=texts[0])
        case "forget":
            try:
                await user.forget(operation.target)
            except NotFound:
                if not again:
                    raise
        case "erase":
            await user.erase()
        case "maintain":
            await user.maintain()


# ── who kills ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Victim:
    process: BaseProcess
    pipe: Connection
    dies_at: float


@dataclass(slots=True)
class Outcome:
    """How a drill went."""

    findings: Findings
    kills: int = 0
    sent: int = 0
    acknowledged: int = 0
    reopened_s: float = 0.0
    """The slowest opening after a kill, in CPU seconds of this process: others may keep the machine busy."""

    def __str__(self) -> str:
        head = f"{self.kills} kills, {self.sent} operations sent, {self.acknowledged} acknowledged"
        return f"{head}, slowest reopening {self.reopened_s * 1000:.0f} ms of CPU\n{self.findings}"


def kill_writers(path: Path, kills: int, seed: int, *, progress: Callable[[int], object] = id) -> Outcome:
    """Run the drill: kill, resume, kill again; check the file from time to time and at the end."""
    chance = random.Random(seed)
    journal = Journal()
    outcome = Outcome(Findings())
    life = 0
    while _goes_on(outcome, journal, kills):
        victims = [
            start_life(path, journal, seed, life, place, chance.uniform(*LIFE_MS) / 1000) for place in range(PROCESSES)
        ]
        _watch(victims, journal)
        life += 1
        due = (outcome.kills + PROCESSES) // CHECK_EVERY > outcome.kills // CHECK_EVERY
        outcome.kills += PROCESSES
        if due or outcome.kills >= kills:
            # By then every lease of a killed process has run out, every retry is due, and sessions rest.
            outcome.reopened_s = max(outcome.reopened_s, asyncio.run(settle(path, life * STEP_MS)))
            outcome.findings = check(path, journal)
            if outcome.findings.any:
                break
        progress(outcome.kills)
    outcome.sent, outcome.acknowledged = len(journal.sent), len(journal.done)
    return outcome


def _goes_on(outcome: Outcome, journal: Journal, kills: int) -> bool:
    """Whether a drill needs more kills: as many as were requested, and something that could have been lost."""
    return outcome.kills < kills or (len(journal.done) <= kills and outcome.kills < KILLS_FACTOR * kills)


def start_life(path: Path, journal: Journal, seed: int, life: int, place: int, lasts_s: float) -> Victim:
    """Start a process of writers, which resume what was left unanswered."""
    generation = life // LIVES_PER_USER
    numbers = range(place * WRITERS, (place + 1) * WRITERS)
    writers = [Writer(n, generation, journal.targets(n, generation), journal.unanswered(n)) for n in numbers]
    ours, theirs = Pipe(duplex=False)
    process = start(write_until_killed, path, theirs, life, seed, writers)
    theirs.close()
    return Victim(process, ours, time.monotonic() + lasts_s)


def _watch(victims: Sequence[Victim], journal: Journal) -> None:
    """Keep the journal, and kill each victim when its time has come; an earlier end is an error."""
    open_pipes = {victim.pipe for victim in victims}
    while open_pipes:
        left_s = min(victim.dies_at for victim in victims if victim.pipe in open_pipes) - time.monotonic()
        for pipe in wait(open_pipes, max(left_s, 0) if left_s > 0 else 0.01):
            assert isinstance(pipe, Connection)
            try:
                journal.take(pipe.recv())
            except (EOFError, OSError):
                open_pipes.discard(pipe)
        for victim in victims:
            if victim.dies_at <= time.monotonic() and victim.process.exitcode is None:
                victim.process.kill()
    for victim in victims:
        victim.process.join()
        if victim.process.exitcode != -9:
            raise RuntimeError(f"a writer ended by itself, with exit code {victim.process.exitcode}")


# ── what is there ────────────────────────────────────────────────────────────────────────────────


@dataclass
class Findings:
    """What is wrong, by kind; empty if all is well."""

    lost: list[str] = field(default_factory=list)
    phantom: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    duplicate: list[str] = field(default_factory=list)
    leak: list[str] = field(default_factory=list)
    disorder: list[str] = field(default_factory=list)

    @property
    def any(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def __str__(self) -> str:
        counts = "  ".join(f"{each.name} {len(getattr(self, each.name))}" for each in fields(self))
        examples = [f"  {each.name}: {what}" for each in fields(self) for what in getattr(self, each.name)[:5]]
        return "\n".join([counts, *examples])


@dataclass(frozen=True, slots=True)
class Row:
    """A living record as it is in the file."""

    partition: Partition
    id: str
    layer: str
    content: str
    payload: str
    embedded: bool

    @property
    def mark(self) -> str:
        found = MARK.match(self.content)
        return found.group() if found else ""


def living_rows(path: Path, now: int | None = None) -> list[Row]:
    """All living records, read with nothing but SQLite, in order of birth."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        found = db.execute(
            """select org, usr, id, layer, payload, model is not null
               from records join partitions using (part, epoch)
               where dropped = 0 and (dead_at is null or dead_at > ?) order by part, born""",
            (system_clock() if now is None else now,),
        ).fetchall()
    return [
        Row(Partition(org, user), id, layer, json.loads(payload).get("content", ""), payload, bool(model))
        for org, user, id, layer, payload, model in found
    ]


def unfinished_jobs(path: Path) -> list[str]:
    """Jobs that wait, except those that wait for their day: upkeep, and episodes of sessions that rest."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        return [f"job {id}" for (id,) in db.execute("select id from jobs where kind not in ('upkeep', 'episode')")]


async def settle(path: Path, ahead_ms: int = HOUR_MS) -> float:
    """Open the memory some time later, do all remaining work, check the file. Returns the CPU time of opening."""
    begun = time.process_time()
    async with opened(path, ahead_ms, worker=False) as memory:
        opened_s = time.process_time() - begun
        await memory.work()
        problems = await memory.check()
        if problems:
            raise RuntimeError(f"the store's own check found: {problems}")
    return opened_s


def check(path: Path, journal: Journal) -> Findings:
    """Compare the file with the journal."""
    rows = living_rows(path)
    being_forgotten = {each.target for each in journal.sent.values() if each.id not in journal.done}
    findings = Findings(
        half=[*unfinished_jobs(path), *_half_rows(rows), *half_learned(rows, being_forgotten)],
        duplicate=[*learned_twice(rows)],
        phantom=[*learned_from_nothing(rows)],
    )
    told = [row for row in rows if row.layer in ("conversation", "long_term") and row.mark]
    by_writer: dict[int, list[Row]] = defaultdict(list)
    for row in told:
        operation = journal.sent.get(row.mark.partition("P")[0])
        if operation is None or row.mark not in operation.marks:
            findings.phantom.append(f"{row.mark} was never sent")
        else:
            by_writer[operation.writer].append(row)
    pasts = {(json.loads(row.payload)["data"]["of"], row.mark) for row in rows if row.layer == "past"}
    remembered = {match.group() for row in rows for match in MARK.finditer(row.payload)}
    for writer in {operation.writer for operation in journal.sent.values()}:
        _compare(writer, journal, by_writer[writer], pasts, remembered, findings)
    return findings


def _half_rows(rows: Sequence[Row]) -> Iterable[str]:
    """Rows that lack something that belongs to them."""
    living = {(row.partition, row.id) for row in rows}
    for row in rows:
        if row.layer in ("conversation", "long_term", "episodic") and not row.embedded:
            yield f"{row.layer} {row.mark or row.id} has no vector"
        if row.layer == "failure":
            yield f"failure {row.content}"
        if row.layer == "past" and (row.partition, json.loads(row.payload)["data"]["of"]) not in living:
            yield f"{row.mark} is the past of nothing"


def _compare(
    writer: int,
    journal: Journal,
    rows: Sequence[Row],
    pasts: set[tuple[str, str]],
    remembered: set[str],
    findings: Findings,
) -> None:
    """Compare one writer's rows with what it was told; the unanswered call may have happened or not, but whole."""
    there = {row.mark: row.partition.user for row in rows}
    worlds = [journal.world(writer)]
    unanswered = journal.unanswered(writer)
    if unanswered is not None:
        worlds.append(worlds[0].copy())
        worlds[1].take(unanswered)
    world = min(worlds, key=lambda each: len(each.owner.keys() ^ there.keys()))
    for mark in world.owner.keys() - there.keys():
        _tell_missing(journal.sent[mark.partition("P")[0]], mark, there, findings)
    findings.phantom += [f"{mark} should be gone" for mark in there.keys() - world.owner.keys()]
    findings.leak += [f"{mark} is with {user}" for mark, user in there.items() if world.owner.get(mark, user) != user]
    findings.duplicate += [mark for mark, times in Counter(row.mark for row in rows).items() if times > 1]
    findings.half += [
        f"{target} lacks its past {mark}"
        for target, marks in world.showed.items()
        for mark in marks
        if (target, mark) not in pasts
    ]
    _tell_forgotten(journal, writer, worlds, remembered, findings)
    _tell_disorder(journal, rows, findings)


def _tell_missing(operation: Operation, mark: str, there: Mapping[str, str], findings: Findings) -> None:
    partly = any(other in there for other in operation.marks)
    (findings.half if partly else findings.lost).append(f"{mark} of {operation.kind}")


def _tell_forgotten(
    journal: Journal, writer: int, worlds: Sequence[World], remembered: set[str], findings: Findings
) -> None:
    """Nothing that was forgotten may appear anywhere, not in a past and not in a summary."""
    sent = {mark for operation in journal.sent.values() if operation.writer == writer for mark in operation.marks}
    known = {mark for world in worlds for mark in world.owner}
    known |= {mark for world in worlds for marks in world.showed.values() for mark in marks}
    findings.phantom += [f"{mark} is still remembered" for mark in (sent - known) & remembered]


def _tell_disorder(journal: Journal, rows: Sequence[Row], findings: Findings) -> None:
    place = {mark: n for n, mark in enumerate(m for o in journal.sent.values() for m in o.marks)}
    last: dict[Partition, int] = {}
    for row in rows:
        if row.layer == "conversation":
            if place[row.mark] < last.get(row.partition, -1):
                findings.disorder.append(f"{row.mark} stands too late")
            last[row.partition] = place[row.mark]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.drills", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:

        def progress(kills: int) -> None:
            print(f"\r{kills} of {chosen.kills} kills", end="", file=sys.stderr, flush=True)

        outcome = kill_writers(Path(folder) / "drill.db", chosen.kills, chosen.seed, progress=progress)
    print(f"\n{outcome}")
    sys.exit(outcome.findings.any)


if __name__ == "__main__":
    main()
