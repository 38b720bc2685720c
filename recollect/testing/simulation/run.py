"""One seed's world from its first step to its last: trouble, then calm, then everything is looked at."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import logging
import random
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from recollect import records
from recollect.errors import NotFound
from recollect.memory import Memory
from recollect.records import HOUR_MS, Partition
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.lessons import NAME, half_learned, learned_from_nothing, learned_twice
from recollect.testing.simulation.callers import FOUND, KINDS, LISTED, OWNERS, SESSIONS, Caller, Errand
from recollect.testing.simulation.loop import SeededLoop, Stuck
from recollect.testing.simulation.paper import LATE, NEVER, Paper, words_in
from recollect.testing.simulation.world import Line, Process, Troubles, World

ERRANDS = 60
DAYS_MAX = 20
"""A world that is not at an end after so many days never ends."""
SKEW_MAX_MS = 600_000
"""How far a clock is from the true time at most: jobs come due when somebody's clock says so."""
RETRIES = 3
"""How often work that was given up is tried again."""
CALM_HOURS = 12
"""How long it may take, after all trouble, until all work is done."""


@dataclass(slots=True)
class Outcome:
    """How a world ended."""

    seed: int
    wrong: list[str]
    errands: Sequence[Errand]
    told: list[tuple[float, str, str]]
    steps: int = 0
    digest: str = ""


def errands_of(seed: int, count: int = ERRANDS) -> list[Errand]:
    """What the callers of a world are going to do."""
    chance = random.Random(f"errands {seed}")
    callers = chance.randint(2, 5)
    owners = chance.choice((OWNERS[:1], OWNERS[:1], OWNERS[:2], OWNERS))
    sessions = chance.choice((SESSIONS[:1], SESSIONS[:2], SESSIONS))
    pause_s = chance.choice((0.01, 0.5, 10.0, 60.0))
    names, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
    return [
        Errand(
            number, chance.randrange(callers), chance.choices(names, weights)[0], chance.choice(owners),
            chance.choice(sessions), chance.expovariate(1 / pause_s),
        )
        for number in range(count)
    ]  # fmt: skip


def simulate(seed: int, errands: Sequence[Errand] | None = None, *, fault: str = "") -> Outcome:
    """Run the world of a seed, with all of its errands or some; with one of `FAULTS`, if it is to fail."""
    chosen = errands_of(seed) if errands is None else errands
    loop = SeededLoop(random.Random(f"loop {seed}"))
    chance = random.Random(f"world {seed}")
    world = World(loop, chance, InMemoryStore(), Troubles.some(chance), fault=fault)
    paper = Paper()
    simulation = _Simulation(world, paper, seed, chosen)
    with _determined(seed):
        try:
            loop.run_until_complete(simulation.run())
        except Stuck as stuck:
            paper.wrong.append(str(stuck))
        finally:
            for process in simulation.processes:
                for life in process.lives:
                    life.kill()
                    life.bury()
            loop.close()
    noticed = [each for each in loop.noticed if "was destroyed" not in each]
    wrong = list(dict.fromkeys([*world.wrong, *paper.wrong, *noticed]))
    digest = hashlib.blake2b(repr((loop.steps, world.told, wrong)).encode(), digest_size=8).hexdigest()
    return Outcome(seed, wrong, chosen, world.told, loop.steps, digest)


@contextlib.contextmanager
def _determined(seed: int) -> Iterator[None]:
    """Seed what is left to chance elsewhere, and keep the collector from ending generators whenever it likes."""
    shared, ids = random.getstate(), records._chance.getstate()
    random.seed(f"pauses {seed}")
    records._chance.seed(f"ids {seed}")
    log = logging.getLogger("recollect")
    level, collects = log.level, gc.isenabled()
    log.setLevel(logging.CRITICAL + 1)
    gc.disable()
    try:
        yield
    finally:
        random.setstate(shared)
        records._chance.setstate(ids)
        log.setLevel(level)
        if collects:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _Row:
    partition: Partition
    id: str
    layer: str
    payload: str


class _Simulation:
    def __init__(self, world: World, paper: Paper, seed: int, errands: Sequence[Errand]) -> None:
        self._world, self._paper, self._errands = world, paper, errands
        chance = world.chance
        world.skewed = chance.random() < 0.5
        self._settings: dict[str, Any] = {
            "lease_s": chance.choice((5.0, 60.0)), "poll_s": 15.0, "retry_s": 1.0, "job_timeout_s": 30.0,
            "llm_timeout_s": 15.0, "window_tokens": 120, "summary_tokens": 60, "episode_idle_minutes": 5,
        }  # fmt: skip
        if chance.random() < 0.5:
            self._settings["llm_batch_s"] = 5.0
        if chance.random() < 0.5:
            self._settings["index_awake"] = 1
        self.processes = [Process(world, number, self._settings) for number in range(chance.randint(1, 3))]
        self._caller = Caller(world, paper, self.processes, seed)
        self._kills = chance.choice((0, 0, 2, 6))

    async def run(self) -> None:
        try:
            async with asyncio.timeout(DAYS_MAX * 24 * 3_600):
                await self._live()
        except TimeoutError:
            self._paper.wrong.append("it never ends")

    async def _live(self) -> None:
        for process in self.processes:
            await process.start()
        chaos = asyncio.ensure_future(self._make_trouble())
        numbers = sorted({errand.caller for errand in self._errands})
        await asyncio.gather(*(self._errands_of(number) for number in numbers))
        chaos.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await chaos
        await self._calm_down()
        if self._paper.wrong or self._world.wrong:
            return
        self._paper.settle()
        await self._look_at_everything()
        for process in self.processes:
            await process.close()

    async def _errands_of(self, caller: int) -> None:
        for errand in self._errands:
            if errand.caller == caller:
                await asyncio.sleep(errand.pause_s)
                await self._caller.do(errand)

    async def _make_trouble(self) -> None:
        """Kill processes and start them again, move their clocks, and take the store away for a while."""
        chance, world = self._world.chance, self._world
        mean_s = sum(errand.pause_s for errand in self._errands) / 4 + 1
        while True:
            await asyncio.sleep(chance.expovariate(1 / (mean_s / 8)))
            what = chance.choice(("kill", "clock", "away", "nothing"))
            process = chance.choice(self.processes)
            if what == "kill" and self._kills and process.memory is not None:
                self._kills -= 1
                process.kill()
                world.loop.call_later(chance.random() * 30, self._restart, process, context=world.outside)
            elif what == "clock" and world.skewed:
                jumped = process.skew_ms + chance.choice((-600_000, -5_000, 5_000, 600_000))
                process.skew_ms = max(-SKEW_MAX_MS, min(jumped, SKEW_MAX_MS))
                world.tell(process.name, f"has its clock {process.skew_ms / 1000:.0f} s ahead")
            elif what == "away":
                world.tell("store", "goes away")
                world.troubles.away = True
                await asyncio.sleep(chance.random() * 20)
                world.troubles.away = False
                world.tell("store", "is back")

    def _restart(self, process: Process) -> None:
        if process.memory is None and process.life.ended:
            self._starting = asyncio.ensure_future(process.start())

    async def _calm_down(self) -> None:
        """End all trouble, and wait until all work is done: what was given up is tried again, and then succeeds."""
        world = self._world
        world.troubles.stop()
        for process in self.processes:
            process.skew_ms = 0
        world.tell("world", "trouble ends")
        await asyncio.sleep(2 * LATE + 40)
        await self._finish_work("")
        for _ in range(RETRIES):
            memory = self.processes[0].memory
            assert memory is not None
            failures = await memory.failures()
            for failure in failures:
                with contextlib.suppress(NotFound):
                    await memory.retry(failure)
            if not failures:
                return
            await self._finish_work(" after failures were retried")
        self._paper.wrong += [f"given up without trouble: {each.data['kind']} {each.content}" for each in failures]

    async def _finish_work(self, when: str) -> None:
        for _ in range(CALM_HOURS * 60):
            await asyncio.sleep(60)
            if not self._due():
                return
        self._paper.wrong.append(f"work that never ends{when}: {self._due()}")

    @property
    def _store(self) -> InMemoryStore:
        assert isinstance(self._world.store, InMemoryStore)
        return self._world.store

    def _due(self) -> list[str]:
        """Jobs that are due within the hour. Upkeep, which comes back every day, is not work that is left."""
        now = self._world.now_ms()
        jobs = [job for room in self._store._rooms.values() for job in room.jobs.values()]
        return sorted(f"{job.kind} {job.id}" for job in jobs if job.due_at < now + HOUR_MS and job.kind != "upkeep")

    # ── at the end ───────────────────────────────────────────────────────────────────────────────

    async def _look_at_everything(self) -> None:
        for owner in OWNERS:

            def views_of(memory: Memory, owner: Partition = owner) -> Coroutine[Any, Any, dict[str, Any]]:
                return self._views(memory, owner)

            seen = [await process.run(views_of) for process in self.processes]
            async with Memory.open(
                Line(self._world, "fresh"), embedder=HashingEmbedder(), clock=self._world.now_ms, worker=False,
                embedder_before="none", **self._settings,
            ) as fresh:  # fmt: skip
                afresh = await self._views(fresh, owner)
            for process, views in zip(self.processes, seen, strict=True):
                for name, view in views.items():
                    if view != afresh[name]:
                        told = f"{name} of {owner.user} is not the same in {process.name} and afresh"
                        self._paper.wrong.append(f"{told}: {_difference(view, afresh[name])}")
            self._check(owner, afresh)
        self._check_learned()

    async def _views(self, memory: Memory, owner: Partition) -> dict[str, Any]:
        """All that one user sees."""
        user = memory.user(owner.user, org=owner.org)
        views: dict[str, Any] = {}
        for name, listed in LISTED.items():
            if name != "export":
                views[name] = repr(await listed(user))
        sessions = [*SESSIONS, *(each for each in self._branches(owner) if each not in SESSIONS)]
        for session in sessions:
            chat = user.session(session)
            views[f"messages {session}"] = [repr(each) for each in (await chat.messages(limit=1_000))[0]]
            views[f"window {session}"] = [each.content for each in await chat.window("sliding_window_summary")]
            views[f"state {session}"] = repr(await chat.working.get())
        views["list"] = repr(await user.list_memories(limit=1_000))
        for text in self._paper.texts.values():
            hits = await user.search_memory(text.word, limit=50)
            # What shares no word with the question has equal scores, whose order depends on the history of an index.
            found = [(hit.id, hit.record.content) for hit in hits if text.word in hit.record.content]
            views[f"search {text.word}"] = sorted(found)
        return views

    def _branches(self, owner: Partition) -> list[str]:
        return sorted({session for text in self._paper.of(owner) for session in text.copies})

    def _check(self, owner: Partition, views: dict[str, Any]) -> None:
        """Check all views of a user for what must, and must not, be in them."""
        paper, now = self._paper, self._world.loop.time()
        for name, view in views.items():
            place = name.split()[0]
            found = paper.look(view, owner, place, now - 1e-7, now)
            if place == "messages":
                session = name.split()[1]
                paper.expect(found, paper.of(owner, "conversation", session=session), place, now, now)
                paper.in_order([word for each in view for word in words_in(each)], f"session {session} of {owner.user}")
            elif place == "state":
                paper.expect(found, paper.of(owner, "working", session=name.split()[1]), place, now, now)
            elif place == "search":
                text = paper.texts[name.split()[1]]
                if text.owner == owner and text.layer in FOUND:
                    paper.expect(found, [text], place, now, now)
        paper.expect(words_in(views["list"]), paper.of(owner, "long_term"), "list", now, now)
        paper.expect(words_in(views["facts"]), paper.of(owner, "fact"), "facts", now, now)
        paper.expect(words_in(views["learnings"]), paper.of(owner, "learning"), "learnings", now, now)
        paper.expect(words_in(views["customizations"]), paper.of(owner, "customization"), "customizations", now, now)

    def _check_learned(self) -> None:
        """Check that each message taught what it says, once, and nothing is known from what is gone."""
        now_ms = self._world.now_ms()
        rows: list[_Row] = []
        for partition, room in self._store._rooms.items():
            for row in room.rows.values():
                is_stated = row.layer == "fact" and not NAME.search(row.payload)  # by a caller, in no message
                if row.meta.lives(now_ms) and not is_stated:
                    rows.append(_Row(partition, row.id, row.layer, row.payload))
        exempt = self._exempt()
        for told in (*half_learned(rows), *learned_twice(rows), *learned_from_nothing(rows)):
            if not words_in(told) & exempt:
                self._paper.wrong.append(told)

    def _exempt(self) -> set[str]:
        """Words that need not be known: what they taught was undone, or somebody began to forget them and gave up."""
        disturbed = self._caller.disturbed
        return {
            text.word
            for text in self._paper.texts.values()
            if any((text.owner, session) in disturbed for session in (text.session, *text.copies))
            or any(each.ended == NEVER for said in (text, *text.copies.values()) for each in said.removals)
        }


def _difference(one: Any, other: Any) -> str:
    """Where two views begin to differ."""
    if isinstance(one, list):
        return f"only here {[each for each in one if each not in other]}, there {[e for e in other if e not in one]}"
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"...{one[max(at - 100, 0) : at + 100]}..., ...{other[max(at - 100, 0) : at + 100]}..."
