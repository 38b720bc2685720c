"""Every verb of the front door, interrupted at every step: it has happened whole or not at all, and nothing is stuck.

    python -m recollect.testing.interruptions --stores memory,sqlite,routed
    python -m recollect.testing.interruptions --stores postgresql,redis,cluster,cosmos --steps 2

A step is a place where the call waits, or a call that it makes to its store. At each, the caller is cancelled, the
store fails, the memory is closed, or the server hangs up; then everything that shares the memory must go on as if
nothing had been. `verbs.py` has the table, `stages.py` the stores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import os
import random
import re
import secrets
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recollect.errors import Busy, Conflict, NotFound, RecollectError, Unavailable
from recollect.memory import Memory
from recollect.records import Changes, Partition, Record, Scope
from recollect.stores.contract import Store
from recollect.testing.fakes import HashingEmbedder, ManualClock
from recollect.testing.faults import CancelledAt
from recollect.testing.stages import Stage
from recollect.testing.stores import KINDS
from recollect.testing.verbs import NOW_MS, SOUGHT, VERBS, Cast, Kept, State, Verb, load, opened, state_of, views_of

STEPS_MAX = 400
TOLD_MAX, TOLD_CHARS = 2, 700
"""Problems of one verb that are printed, and how much of each."""
WAIT_S = 20.0
"""How long anything may take that should end by itself."""
LOOKS = 2_000
"""How often, a millisecond apart, it is looked whether a task has ended."""
ENDS = ("Memory.start", "Memory.close")
"""Verbs of a memory that are drilled on servers; on files, see `tests/crash/test_cancellation.py`."""
POOL_WAITS = "Event.wait"
"""A task that the pool of an open store waits in until it has something to do (`wait_for` in Python 3.11)."""
OTHERS = 10
"""How many messages another user adds after each interruption, and asks for, all at once."""


# ── interruptions ────────────────────────────────────────────────────────────────────────────────


class Impatient(CancelledAt[Any]):
    """Cancels at the n-th suspension and at every one after it, as a caller does who waits no longer."""

    def _cancel(self, waits_for: Any) -> None:
        super()._cancel(waits_for)
        self._at += 1


class StruckAt(CancelledAt[Any]):
    """Does something else than cancelling at the n-th suspension."""

    def __init__(self, call: Coroutine[Any, Any, Any], at: int, strike: Callable[[], object], late: bool) -> None:
        super().__init__(call, at, late=late)
        self._does = strike

    def _strike(self, task: asyncio.Task[Any]) -> None:
        self._does()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an interrupted call ended: `struck`, whether it got as far as the interruption."""

    struck: bool
    answer: Any = None
    error: BaseException | None = None


async def _driven(driven: CancelledAt[Any], at: int) -> Outcome:
    async def awaited() -> Any:
        return await driven

    task = asyncio.ensure_future(awaited())
    async with asyncio.timeout(WAIT_S):
        await asyncio.wait([task])
    struck = driven.suspended >= at
    if task.cancelled():
        return Outcome(struck, error=asyncio.CancelledError())
    return Outcome(struck, None if task.exception() else task.result(), task.exception())


FAULTS: dict[str, Callable[[], RecollectError]] = {
    "unavailable": lambda: Unavailable(field="store"),
    "lost": lambda: Unavailable("the answer was lost", field="store"),
    "busy": lambda: Busy(field="store"),
    "conflict": lambda: Conflict(field="id"),
}
OF_COMMITS = ("lost", "conflict")
CANCELLED = ("cancelled", "cancelled late", "cancelled again and again")
INTERRUPTIONS = (*CANCELLED, *FAULTS, "closed")
"""`lost` fails after the store has done what it was asked; `conflict` strikes commits only, as another writer would.
`closed`: another task closes the memory, and its store, in the middle of the call."""
ON_A_SERVER = ("hung up", "hung up late", "answer lost")
"""All connections to the server break while the call waits, when what it waited for has just come, or when the server
has done what it was asked."""


def _fault(name: str, at: int) -> tuple[Callable[[str], RecollectError | None], list[str]]:
    """A function that fails the n-th call of a store, and the list that says so."""
    struck: list[str] = []
    seen = 0

    def fail(step: str) -> RecollectError | None:
        nonlocal seen
        when, verb = step.split()
        if when != ("after" if name == "lost" else "before") or (name in OF_COMMITS and verb != "commit"):
            return None
        seen += 1
        if seen != at:
            return None
        struck.append(verb)
        return FAULTS[name]()

    return fail, struck


async def interrupted(call: Coroutine[Any, Any, Any], on: _On, how: str, at: int) -> Outcome:
    """Make a call that is interrupted at its n-th step."""
    if how not in FAULTS:
        return await _struck(call, on.close if how == "closed" else _breaks(on.stage, how), how, at)
    on.kept.fail, struck = _fault(how, at)
    try:
        async with asyncio.timeout(WAIT_S):
            answer = await call
        return Outcome(bool(struck), answer)
    except RecollectError as error:
        return Outcome(bool(struck), error=error)
    finally:
        on.kept.fail = lambda step: None


async def _struck(call: Coroutine[Any, Any, Any], strike: Callable[[], object], how: str, at: int) -> Outcome:
    """Make a call that is cancelled at its n-th suspension, or at which something else happens then."""
    late = how.endswith("late")
    if how not in CANCELLED:
        return await _driven(StruckAt(call, at, strike, late), at)
    return await _driven((Impatient if how.endswith("again") else CancelledAt)(call, at, late=late), at)


def _breaks(stage: Stage, how: str) -> Callable[[], None]:
    return stage.lose_answers if how == "answer lost" else stage.hang_up


# ── the drill ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Drilled:
    """What was done, and what was wrong."""

    steps: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Expected:
    """What there is before a call, after it, and when all the work that follows is done."""

    before: State
    after: State
    settled: State
    waits: int
    asked: Sequence[str]
    """How often the call waited, and what it asked of its store: where it can be interrupted."""


@dataclass(slots=True)
class _On:
    """The stage for one call, and the memory that is called."""

    stage: Stage
    store: Store
    kept: Kept
    memory: Memory
    closing: asyncio.Future[None] | None = None

    def close(self) -> None:
        self.closing = asyncio.ensure_future(self._close())

    async def _close(self) -> None:
        await self.memory.close()
        if self.stage.kind != "memory":
            await self.store.close()

    async def open_again(self) -> None:
        """After a memory was closed in the middle of a call, open another one."""
        assert self.closing is not None, "closed before"
        async with asyncio.timeout(WAIT_S):
            await self.closing
        self.store = await self.stage.again(self.store)
        self.kept = Kept(self.store)
        self.memory = await opened(self.kept, ManualClock(NOW_MS))


async def _call(verb: Verb, memory: Memory, ids: Mapping[str, str]) -> Any:
    ann = memory.user("ann")
    return await verb.call(Cast(memory, ann, ann.session("chat"), memory.org(), ids))


async def _settle(store: Store) -> State:
    """Do all work that is left, by another worker and a while later."""
    clock = ManualClock(NOW_MS)
    async with opened(Kept(store), clock) as memory, asyncio.timeout(WAIT_S):
        await memory.work()
        clock.advance(minutes=20)
        await memory.work()
    return _timeless(await state_of(store))


def _timeless(state: State) -> State:
    """A state without times, and without the notes of how far a model has read."""
    kept = [told for told in state.elements() if json.loads(told)[1] != "reading"]
    return Counter(re.sub(r"\b17\d{11}\b", "TIME", told) for told in kept)


async def expected(verb: Verb, stage: Stage) -> Expected:
    async with stage.fresh() as store:
        before, kept, asked = await state_of(store), Kept(store), [""]
        async with opened(kept, ManualClock(NOW_MS)) as memory:
            kept.fail = asked.append  # which returns None: nothing fails
            call = CancelledAt(_call(verb, memory, stage.ids), 0)
            await call
            kept.fail = lambda step: None
        wrong = await stage.quiet(store)
        assert not wrong, wrong
        after = await state_of(store)
        verbs = [step.removeprefix("before ") for step in asked if step.startswith("before")]
        return Expected(before, after, await _settle(store), call.suspended, verbs)


async def drill(name: str, stage: Stage, how: str, steps: Sequence[int] = range(1, STEPS_MAX)) -> Drilled:
    """Interrupt a verb at these steps, until it ends before the next; each time look at everything around it."""
    wanted, drilled = await expected_of(name, stage), Drilled()
    gc.collect()  # or a step would be charged with what others have left
    for at in steps:
        tasks = asyncio.all_tasks()
        with _noticed() as noticed:
            async with stage.fresh() as store:
                memory = await opened(kept := Kept(store), ManualClock(NOW_MS))
                struck, wrong = await _step(VERBS[name], _On(stage, store, kept, memory), how, at, wanted)
            wrong += [*await stage.left_open(), *await _left(tasks)]
        drilled.steps += struck
        drilled.problems += [f"{stage.kind}: {name} {how} at {at}: {each}" for each in (*wrong, *noticed)]
        if not struck:
            break
    with _noticed() as noticed:
        gc.collect()
    drilled.problems += [f"{stage.kind}: {name} {how} left behind: {each}" for each in noticed]
    return drilled


async def drill_some(name: str, stage: Stage, how: str, count: int, chance: random.Random) -> Drilled:
    """Interrupt a verb at a few of its steps."""
    wanted = await expected_of(name, stage)
    last = len(wanted.asked) if how in FAULTS else wanted.waits
    if how in OF_COMMITS:
        last = wanted.asked.count("commit")
    return await drill(name, stage, how, sorted(chance.sample(range(1, last + 1), min(count, last))))


async def expected_of(name: str, stage: Stage) -> Expected:
    """What is expected of a verb on a stage, found out once."""
    if name not in stage.expected:
        stage.expected[name] = await expected(VERBS[name], stage)
    return stage.expected[name]


async def drill_ends(name: str, stage: Stage, how: str, steps: Sequence[int] = range(1, STEPS_MAX)) -> Drilled:
    """Interrupt the opening or the closing of a memory on a server; it can be repeated, and nothing is left open."""
    drilled = Drilled()
    async with stage.fresh():
        pass  # the server is there, and the stage is set
    gc.collect()
    for at in steps:
        tasks = asyncio.all_tasks()
        with _noticed() as noticed:
            memory = Memory.open(stage.url, embedder=HashingEmbedder(), clock=ManualClock(NOW_MS))
            closes = name == "Memory.close"
            if closes:
                await memory.start()
                await memory.user("ann").session("chat").get_context(SOUGHT)
            outcome = await _struck(memory.close() if closes else memory.start(), _breaks(stage, how), how, at)
            wrong = list(_of_outcome(outcome, how))
            async with asyncio.timeout(WAIT_S):
                if not closes:
                    await memory.start()
                    wrong += await _go_on(memory)
                await memory.close()
            gc.collect()  # a driver that is cancelled while it connects leaves what it had opened to the collector
            wrong += [*await stage.left_open(), *await _left(tasks)]
        drilled.steps += outcome.struck
        drilled.problems += [f"{stage.kind}: {name} {how} at {at}: {each}" for each in (*wrong, *noticed)]
        if not outcome.struck:
            break
    return drilled


async def _step(verb: Verb, on: _On, how: str, at: int, wanted: Expected) -> tuple[bool, list[str]]:
    tasks = asyncio.all_tasks()
    beside = [asyncio.ensure_future(each) for each in _beside(on.memory)] if how in CANCELLED else []
    outcome = await interrupted(_call(verb, on.memory, on.stage.ids), on, how, at)
    wrong = [*_of_outcome(outcome, how), *await _of_others(beside)]
    if how == "closed":
        if not outcome.struck:
            on.close()
        wrong += await _closed(on, tasks)
        tasks = asyncio.all_tasks()
    wrong += [*await _left(tasks, ignored=POOL_WAITS), *await on.stage.quiet(on.store)]
    await _quiet(on.store)
    state = await state_of(on.store)
    if not verb.in_steps and state not in ((wanted.before, wanted.after) if outcome.struck else (wanted.after,)):
        wrong.append(f"half done: {_difference(state, wanted.after)}")
    wrong += [*await _of_views(on.memory, on.store), *await _go_on(on.memory)]
    repeats = not verb.reads and not verb.later and (verb.once or verb.in_steps or state == wanted.before)
    if outcome.struck and repeats:
        wrong += await _of_repeat(verb, on, wanted)
        wrong += await _of_views(on.memory, on.store)
    async with asyncio.timeout(WAIT_S):
        await on.memory.close()
    wrong += [*await _left(tasks, ignored=POOL_WAITS), *await on.stage.quiet(on.store)]
    if not verb.reads and (settled := await _settle(on.store)) != wanted.settled:
        wrong.append(f"settled otherwise: {_difference(settled, wanted.settled)}")
    if how == "closed":
        await on.store.close()
    return outcome.struck, wrong


async def _closed(on: _On, tasks: set[asyncio.Task[Any]]) -> list[str]:
    """What a memory that was closed in the middle of a call leaves behind; after that, there is another one."""
    assert on.closing is not None, "closed before"
    async with asyncio.timeout(WAIT_S):
        await on.closing
    wrong = [*await _left(tasks), *await on.stage.left_open()]
    await on.open_again()
    return wrong


async def _quiet(store: Store) -> None:
    """Wait until a write that nobody waits for any more has landed, or never will: another one, made later, has."""
    name = f"quiet{secrets.token_hex(8)}"
    noted = Record(name, "long_term", Scope("other", "nobody"), "Quiet.", created_at=NOW_MS)
    await store.commit(Changes(Partition("other", "nobody"), put=(noted,), key=name), NOW_MS)


async def _go_on(memory: Memory) -> list[str]:
    """What another user was told who calls many times now; nobody may have to wait."""
    bob = memory.user("bob", org="other")
    adds = [bob.session("chat").add_message("user", f"Does it work, {n}?", id=f"again{n}") for n in range(OTHERS)]
    return await _of_others([asyncio.ensure_future(each) for each in (*adds, *(bob.get_memory("bob") for _ in adds))])


def _beside(memory: Memory) -> list[Coroutine[Any, Any, Any]]:
    """What others ask meanwhile: they wait for the same index, and for the same store."""
    ann = memory.user("ann")
    return [
        ann.search_memory(SOUGHT),
        memory.org("other").entities.get("order", "7", loader=load),
        ann.session("chat").working.get(),
    ]


async def _of_others(calls: Sequence[asyncio.Future[Any]]) -> list[str]:
    """Whether those who were not interrupted were answered."""
    if not calls:
        return []
    async with asyncio.timeout(WAIT_S):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    return [f"somebody else was told {answer!r}" for answer in answers if isinstance(answer, BaseException)]


def _of_outcome(outcome: Outcome, how: str) -> Iterator[str]:
    if not outcome.struck:
        if outcome.error is not None:
            yield f"not interrupted, but raised {outcome.error!r}"
    elif how in CANCELLED:
        if not isinstance(outcome.error, asyncio.CancelledError):
            yield f"cancelled, but ended with {outcome.error or outcome.answer!r}"
    elif how not in FAULTS:
        if outcome.error is not None and not isinstance(outcome.error, Unavailable):
            yield f"raised {outcome.error!r}"
    elif outcome.error is not None and not isinstance(outcome.error, type(FAULTS[how]())):
        yield f"raised {outcome.error!r}"


async def _of_repeat(verb: Verb, on: _On, wanted: Expected) -> list[str]:
    try:
        async with asyncio.timeout(WAIT_S):
            await _call(verb, on.memory, on.stage.ids)
    except (NotFound, Conflict) as error:
        if await state_of(on.store) != wanted.after:
            return [f"repeated, it raised {error!r}"]
    state = await state_of(on.store)
    if state != wanted.after:
        return [f"repeated, it left {_difference(state, wanted.after)}"]
    return []


async def _of_views(memory: Memory, store: Store) -> list[str]:
    """What this memory shows otherwise than one that was opened just now."""
    async with asyncio.timeout(WAIT_S):
        shown = await views_of(memory)
        async with opened(Kept(store), ManualClock(NOW_MS)) as other:
            fresh = await views_of(other)
        await memory.user("bob", org="other").get_memory("bob")
    return [
        f"{name} differ from a fresh look: {_apart(shown[name], fresh[name])}"
        for name in shown
        if shown[name] != fresh[name]
    ]


def _apart(one: Any, other: Any) -> str:
    if isinstance(one, list) and isinstance(other, list):
        return f"{[each for each in one if each not in other]} and {[each for each in other if each not in one]}"
    return f"{one!r} and {other!r}"


async def _left(known: set[asyncio.Task[Any]], *, ignored: str = "") -> list[str]:
    """Tasks that do not end by themselves."""
    for _ in range(LOOKS):
        left = {task for task in asyncio.all_tasks() - known if not _stays(task, ignored)}
        if not left:
            return []
        await asyncio.sleep(0.001)
    return [f"{task!r} is left" for task in left]


def _stays(task: asyncio.Task[Any], ignored: str) -> bool:
    """Whether a task is this one, serves a connection of the drill's proxy, or is to be ignored."""
    name = getattr(task.get_coro(), "__qualname__", "")
    return task is asyncio.current_task() or name.startswith("Proxy.") or name == ignored


def _difference(found: State, wanted: State) -> str:
    return f"too much: {list((found - wanted).elements())}, too little: {list((wanted - found).elements())}"


@contextlib.contextmanager
def _noticed() -> Iterator[list[str]]:
    """What Python or the event loop complains of meanwhile, when nobody else would hear of it."""
    noticed: list[str] = []
    loop = asyncio.get_running_loop()
    before, hook = loop.get_exception_handler(), sys.unraisablehook
    loop.set_exception_handler(lambda _, context: noticed.append(str(context)))
    sys.unraisablehook = lambda given: noticed.append(f"{given.err_msg}: {given.exc_value!r}")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield noticed
        finally:
            loop.set_exception_handler(before)
            sys.unraisablehook = hook
    noticed += [str(warning.message) for warning in warned]


async def drill_all(
    kinds: Sequence[str], names: Sequence[str], hows: Sequence[str], folder: Path, some: int = 0, seed: int = 0
) -> Drilled:
    """Drill all of these, at every step or at some, and print how it went."""
    total, chance = Drilled(), random.Random(seed)
    for kind in kinds:
        (folder / kind).mkdir()
        async with Stage(kind, folder / kind) as stage:
            for how in hows:
                if how in ON_A_SERVER and not stage.on_server:
                    continue
                began, before = time.perf_counter(), total.steps
                for name in names:
                    done = await _drilled(name, stage, how, some, chance)
                    _print(done.problems)
                    total.steps += done.steps
                    total.problems += done.problems
                steps, took_s = total.steps - before, time.perf_counter() - began
                print(f"{kind}: {how}: {len(names)} verbs, {steps} steps, {took_s:.0f} s", flush=True)
    return total


async def _drilled(name: str, stage: Stage, how: str, some: int, chance: random.Random) -> Drilled:
    """What came of one drill, also if the drill itself failed; nothing of one that cannot be on this stage."""
    try:
        if name not in ENDS:
            return await (drill_some(name, stage, how, some, chance) if some else drill(name, stage, how))
        if not stage.on_server or how in FAULTS or how == "closed":
            return Drilled()
        return await drill_ends(name, stage, how)
    except Exception as error:
        return Drilled(problems=[f"{stage.kind}: {name} {how}: the drill failed with {error!r}"])


def _print(problems: Sequence[str]) -> None:
    for problem in problems[:TOLD_MAX]:
        print(problem[:TOLD_CHARS], flush=True)
    if problems[TOLD_MAX:]:
        print(f"  and {len(problems) - TOLD_MAX} more", flush=True)


def main(given: Sequence[str] | None = None) -> int:
    program = "python -m recollect.testing.interruptions"
    parser = argparse.ArgumentParser(prog=program, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stores", default="memory,sqlite", help=f"any of {', '.join([*KINDS, 'routed'])}")
    parser.add_argument("--verbs", default="", help="only those in whose name this pattern is found")
    parser.add_argument("--how", default=",".join((*INTERRUPTIONS, *ON_A_SERVER)))
    parser.add_argument("--steps", type=int, default=0, help="interrupt each verb at so many of its steps, not at all")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("RECOLLECT_SEED", random.randrange(1_000_000))))
    chosen = parser.parse_args(given)
    names = [name for name in (*VERBS, *ENDS) if re.search(chosen.verbs, name)]
    for logger in ("recollect", "psycopg", "azure"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # faults are told of there, and there are thousands
    if chosen.steps:
        print(f"--seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        drilled = drill_all(
            chosen.stores.split(","), names, chosen.how.split(","), Path(folder), chosen.steps, chosen.seed
        )
        done = asyncio.run(drilled)
    print(f"{done.steps} steps, {len(done.problems)} problems")
    return 1 if done.problems else 0


if __name__ == "__main__":
    sys.exit(main())
