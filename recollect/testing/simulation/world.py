"""What goes wrong: a way to the store that delays, refuses and loses answers; clocks, models, processes that die."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from recollect.errors import Busy, EmbeddingError, ModelError, RecollectError, Unavailable
from recollect.filters import Filter, Reach
from recollect.memory import Memory
from recollect.models import Answer, Ask
from recollect.providers import Floats
from recollect.records import SECOND_MS, Changes, Job, Partition, Record, Vector
from recollect.stores.contract import FORGET_ROWS, Candidate, Delta, Forgotten, Mark, Page, Store, Survey
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import NOON_MS, HashingEmbedder, finding, learned
from recollect.testing.lessons import NAME
from recollect.testing.simulation.loop import Life, SeededLoop, at_once, lives_in

T = TypeVar("T")

LATE_S = 8.0
"""How long a request or an answer may be under way at most."""
NAMED = re.compile(rf'"n": (\d+).*?({NAME.pattern})')
EPISODE: dict[str, Any] = {name: [] for name in ("people", "dates", "decisions", "open_questions")}


@dataclass(slots=True)
class Troubles:
    """How often what goes wrong: shares of calls. All at 0 when trouble has stopped."""

    refused: float = 0.0
    lost: float = 0.0
    """Only calls that write."""
    slow: float = 0.0
    models: float = 0.0
    away: bool = False
    """The store answers nobody at all for a while."""

    @classmethod
    def some(cls, chance: random.Random) -> Troubles:
        """Each kind is absent from some worlds and frequent in others."""
        refused, lost, models = [chance.choice((0.0, 0.02, 0.1, 0.25)) for _ in range(3)]
        return cls(refused, lost, chance.choice((0.02, 0.1, 0.3)), models)

    def stop(self) -> None:
        self.refused = self.lost = self.slow = self.models = 0.0
        self.away = False


FAULTS: Mapping[str, str] = {
    "keys": "a repeated call has another key and other ids than before",
    "versions": "whoever writes last overwrites what others have written since it read",
    "drops": "an index does not hear of what was dropped",
    "news": "an index is told that nothing is new when something is",
    "retries": "a job that failed is not put off but ended",
    "partitions": "users of the same name in two orgs share an index",
    "writes": "now and then a write is acknowledged and not done",
    "leftovers": "a task goes on after the memory was closed",
}
"""Faults that a library could have, made on its way to the store: a world with one of them must fail."""


@dataclass(slots=True)
class World:
    """What the processes share: the loop, the store behind its server, the troubles, and a log of what happened."""

    loop: SeededLoop
    chance: random.Random
    store: Store
    troubles: Troubles
    fault: str = ""
    """One of `FAULTS`, to see whether it is found."""
    wrong: list[str] = field(default_factory=list)
    told: list[tuple[float, str, str]] = field(default_factory=list)
    skewed: bool = False
    """Whether clocks differ, or did."""
    outside: Context = field(default_factory=copy_context)
    revisions: dict[Partition, int] = field(default_factory=dict)

    def tell(self, who: str, what: str) -> None:
        """Note a step, for the trace."""
        self.told.append((self.loop.time(), who, what))

    def now_ms(self) -> int:
        """The true time."""
        return NOON_MS + int(self.loop.time() * SECOND_MS)


class Line:
    """The store as one process reaches it: it obeys the contract, but the way there and back is long and unsafe.

    What was sent is done, sooner or later, even if the caller has given up, or died, meanwhile.
    """

    loses_answers = True

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self.abilities = world.store.abilities

    async def commit(self, changes: Changes, now: int) -> int:
        def served() -> int:
            sent = self._spoiled(changes, now) if self._world.fault else changes
            if self._world.fault == "writes" and self._world.chance.random() < 0.01:
                return self._world.revisions.get(changes.partition, 0)
            revision = at_once(self._world.store.commit(sent, now))
            self._follow(changes.partition, revision)
            return revision

        return await self._ask("commit", _told_of(changes), served, writes=True, rests=bool(changes.needs))

    def _spoiled(self, changes: Changes, now: int) -> Changes:
        """The changes as a library with the fault would send them."""
        fault, store = self._world.fault, self._world.store
        assert isinstance(store, InMemoryStore)
        room = store._room(changes.partition)
        if fault == "keys" and changes.key and changes.key.startswith("caller:"):
            mark = f"{self._world.loop.steps}-"
            put = tuple(record.with_(id=mark + record.id) for record in changes.put)
            jobs = tuple(replace(job, refs=tuple(mark + ref for ref in job.refs)) for job in changes.enqueue)
            return replace(changes, key=mark + changes.key, put=put, enqueue=jobs)
        if fault == "versions":
            lives = {id: row.meta.version for id, row in room.rows.items() if row.meta.lives(now)}
            return replace(changes, put=tuple(each.with_(version=lives.get(each.id, 0)) for each in changes.put))
        if fault == "retries" and changes.finish:
            ended = {job.id for job in changes.finish}
            return replace(changes, enqueue=tuple(job for job in changes.enqueue if job.id not in ended))
        return changes

    def _follow(self, partition: Partition, revision: int) -> None:
        """Note a revision: each is one more than the last, except where a commit changed nothing or was repeated."""
        seen = self._world.revisions.get(partition, 0)
        if revision > seen + 1:
            self._world.wrong.append(f"the revision of {partition} went from {seen} to {revision}")
        self._world.revisions[partition] = max(seen, revision)

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        return await self._ask("get", f"{partition.user} {len(ids)}",
                               lambda: at_once(self._world.store.get(partition, ids, now)))  # fmt: skip

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        def served() -> Page:
            return at_once(self._world.store.list(where, now, newest_first=newest_first, limit=limit, after=after))

        return await self._ask("list", f"{where.partition.user} {','.join(where.layers)}", served)

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        fault = self._world.fault
        if fault == "partitions" and partition.user:
            partition = Partition("acme", partition.user)

        def served() -> Delta:
            delta = at_once(self._world.store.changes(partition, mark, limit))
            if fault == "drops":
                return replace(delta, dropped=())
            return replace(delta, put=(), dropped=()) if fault == "news" and mark and len(delta.put) > 2 else delta

        return await self._ask("changes", partition.user, served)

    async def search(
        self, reach: Reach, *, text: str | None, vector: Vector | None, limit: int, now: int
    ) -> Mapping[str, Sequence[Candidate]]:
        return await self._world.store.search(reach, text=text, vector=vector, limit=limit, now=now)

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        def served() -> Sequence[Job]:
            jobs = at_once(self._world.store.claim(now, lease_s, limit))
            for job in jobs:
                self._world.tell(self._name, f"  took {job.kind} {job.id[:24]} of {job.partition.user}")
            return jobs

        return await self._ask("claim", "", served, writes=True)

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        def served() -> Forgotten:
            forgotten = at_once(self._world.store.forget(where, now, limit))
            head = at_once(self._world.store.changes(where.partition, None)).mark.revision
            self._world.revisions[where.partition] = max(head, self._world.revisions.get(where.partition, 0))
            return forgotten

        return await self._ask("forget", where.partition.user, served, writes=True)

    async def close(self) -> None:
        """The others go on using the store."""
        if self._world.fault == "leftovers":
            self._left = asyncio.ensure_future(asyncio.sleep(1e6))

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        return await self._ask("partitions", "", lambda: at_once(self._world.store.partitions(after, limit)))

    async def survey(self, now: int) -> Survey:
        return await self._ask("survey", "", lambda: at_once(self._world.store.survey(now)))

    async def compact(self) -> None:
        await self._ask("compact", "", lambda: at_once(self._world.store.compact()))

    async def check(self) -> Sequence[str]:
        return await self._ask("check", "", lambda: at_once(self._world.store.check()))

    def describe(self) -> dict[str, Any]:
        return self._world.store.describe()

    async def _ask(
        self, verb: str, about: str, serve: Callable[[], T], *, writes: bool = False, rests: bool = False
    ) -> T:
        world, chance, troubles = self._world, self._world.chance, self._world.troubles
        if troubles.away or chance.random() < troubles.refused:
            await asyncio.sleep(self._way_s())
            raise (Busy if chance.random() < 0.2 else Unavailable)("refused", field="store")
        answer: asyncio.Future[T] = world.loop.create_future()

        def reach() -> None:
            try:
                result, error = serve(), None
            except RecollectError as refusal:
                result, error = None, refusal
            if writes and (verb != "claim" or result):
                world.tell(self._name, f"{verb} {about}{f' -> {type(error).__name__} {error.field}' if error else ''}")
            world.loop.call_later(back_s, _answer, answer, result, error, context=world.outside)

        back_s = self._way_s()
        there_s = self._way_s()
        if rests and troubles.slow and chance.random() < 0.3:
            there_s = chance.random() * LATE_S  # when others may remove what it rests on
        world.loop.call_later(there_s, reach, context=world.outside)
        if writes and chance.random() < troubles.lost:
            await asyncio.sleep(self._way_s())
            world.tell(self._name, f"the answer to {verb} {about} is lost")
            raise Unavailable("the answer was lost", field="store")
        return await answer

    def _way_s(self) -> float:
        """How long a message to the server, or from it, takes."""
        chance = self._world.chance
        if chance.random() < self._world.troubles.slow:
            return chance.choice((0.1, 1.0, LATE_S)) * chance.random()
        return chance.random() * 0.004


def _answer(answer: asyncio.Future[Any], result: Any, error: RecollectError | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
        answer.exception()  # whoever asked may be gone


def _told_of(changes: Changes) -> str:
    put = [f"{record.layer}:{record.id[-6:]}" for record in changes.put]
    parts = {
        "put": put, "drop": [id[-6:] for id in changes.drop], "enqueue": [job.kind for job in changes.enqueue],
        "finish": [job.kind for job in changes.finish],
    }  # fmt: skip
    told = [f"{name} {','.join(given)}" for name, given in parts.items() if given]
    return f"{changes.partition.user}: {'; '.join(told)}"


class UnsteadyEmbedder(HashingEmbedder):
    """An embedder that fails, answers nonsense or does not answer, as often as the troubles say."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def embed(self, texts: Sequence[str]) -> Floats:
        chance = self._world.chance
        await asyncio.sleep(chance.random() * 0.01)
        rows = await super().embed(texts)
        if chance.random() >= self._world.troubles.models:
            return rows
        trouble = chance.choice(("fails", "NaN", "too few", "hangs", "breaks"))
        self._world.tell("embedder", trouble)
        if trouble == "hangs":
            await asyncio.sleep(1_000)
        if trouble == "NaN":
            rows[:] = np.nan
        if trouble in ("fails", "breaks"):
            raise EmbeddingError() if trouble == "fails" else RuntimeError("it broke")
        return rows[:-1] if trouble == "too few" else rows


class UnsteadyModel:
    """A chat model that finds the friend in each message; or fails, makes something up, or does not answer."""

    name = "unsteady"

    def __init__(self, world: World) -> None:
        self._world = world

    async def answer(self, ask: Ask) -> Answer:
        chance = self._world.chance
        await asyncio.sleep(chance.random() * 2)
        if chance.random() >= self._world.troubles.models:
            return Answer(json.dumps(_sensible(ask)))
        trouble = chance.choice(("fails", "garbage", "another shape", "invents", "hangs", "breaks"))
        self._world.tell("model", trouble)
        if trouble == "hangs":
            await asyncio.sleep(1_000)
        if trouble in ("fails", "breaks"):
            raise ModelError() if trouble == "fails" else RuntimeError("it broke")
        if trouble == "invents":
            return Answer(json.dumps(learned(finding(1, "I live in Atlantis", "Atlantis", key="city"))))
        return Answer('{"findings": 7}' if trouble == "another shape" else "I am sorry, Dave.")


def _sensible(ask: Ask) -> dict[str, Any]:
    title = str((ask.schema or {}).get("title", ""))
    if title == "learned":
        said = NAMED.findall(ask.text)
        return learned(*(finding(int(n), f"My friend {name} came too", name, key="friend") for n, name in said))
    told = " ".join(dict.fromkeys(NAME.findall(ask.text)))
    if title == "summary":
        return {"summary": f"It was about {told}."}
    if title == "episode":
        return EPISODE | {"title": "Friends", "text": f"The user spoke of {told}."}
    return {"same": []}


class Process:
    """A process: a memory with a worker, a clock of its own, and a line to the store. It can be killed at any step."""

    def __init__(self, world: World, number: int, settings: Mapping[str, Any]) -> None:
        self.world, self.number = world, number
        self.skew_ms = world.chance.randint(-60_000, 60_000) if world.skewed else 0
        self._settings = settings
        self.runs = 0
        self.memory: Memory | None = None
        self.life = Life("")
        self.life.ended = True
        self.lives: list[Life] = []
        self.death: asyncio.Future[None] = world.loop.create_future()

    @property
    def name(self) -> str:
        return f"p{self.number}.{self.runs}"

    def clock(self) -> int:
        """The time as this process has it."""
        return self.world.now_ms() + self.skew_ms

    async def start(self) -> None:
        """Start it, again and again until it has started: nothing starts without the store."""
        self.runs += 1
        self.life = Life(self.name)
        self.lives.append(self.life)
        self.death = self.world.loop.create_future()
        context = copy_context()
        context.run(lives_in.set, self.life)
        self._context = context
        self.world.tell(self.name, "starts")
        while self.memory is None and not self.life.ended:
            memory = context.run(self._opened)
            task = self.world.loop.create_task(memory.start(), context=context.copy())
            await self._wait(task)
            if task.done() and task.exception() is None:
                self.memory = memory
            else:
                await asyncio.sleep(1)

    async def _wait(self, task: asyncio.Future[Any], timeout_s: float | None = None) -> None:
        ends: list[asyncio.Future[Any]] = [task, self.death]
        await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    def _opened(self) -> Memory:
        model = UnsteadyModel(self.world) if self._settings.get("llm_batch_s") else None
        return Memory.open(
            Line(self.world, self.name), embedder=UnsteadyEmbedder(self.world), llm=model, clock=self.clock,
            embedder_before="none", **self._settings,
        )  # fmt: skip

    async def run(self, call: Callable[[Memory], Coroutine[Any, Any, T]], patience_s: float | None = None) -> T:
        """Make a call in this process. Raises `Killed` if the process dies before it answers, or nobody waits."""
        if self.memory is None:
            raise Killed
        task = self.world.loop.create_task(call(self.memory), context=self._context.copy())
        await self._wait(task, patience_s)
        if not task.done() and not self.life.ended:
            self.world.tell(self.name, "a call is cancelled")
            task.cancel()
            await self._wait(task)
        if not task.done() or task.cancelled():
            raise Killed
        return task.result()

    def kill(self) -> None:
        """End it at this step: nothing is cancelled, nothing is closed, leases run out by themselves."""
        self.world.tell(self.name, "is killed")
        self.life.kill()
        self.memory = None
        if not self.death.done():
            self.death.set_result(None)

    async def close(self) -> None:
        """Close it in good order; whatever still runs afterwards is a fault."""
        if self.memory is None:
            return
        memory, self.memory = self.memory, None
        task = self.world.loop.create_task(memory.close(), context=self._context.copy())
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
        if task.exception() is not None:
            self.world.wrong.append(f"closing raised {task.exception()!r}")
        await asyncio.sleep(2 * LATE_S)
        self.world.wrong += [f"left after close: {each.get_coro()!r}" for each in self.life.running()]


class Killed(Exception):
    """The process died before it answered, or the caller did not wait."""
