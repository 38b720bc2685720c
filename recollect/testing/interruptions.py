"""Every verb of the front door, interrupted at every step: it has happened whole or not at all, and nothing is stuck.

    python -m recollect.testing.interruptions --stores memory,sqlite,redis

A step is a place where the call waits, or a call that it makes to its store. At each, the caller is cancelled, or
the store fails; then everything that shares the memory must go on as if nothing had been. `verbs.py` has the table.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
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
from recollect.testing.fakes import ManualClock
from recollect.testing.faults import CancelledAt
from recollect.testing.verbs import (
    NOW_MS,
    SOUGHT,
    VERBS,
    Cast,
    Kept,
    Stage,
    State,
    Verb,
    load,
    opened,
    state_of,
    views_of,
)

STEPS_MAX = 400
TOLD_MAX, TOLD_CHARS = 2, 700
"""Problems of one verb that are printed, and how much of each."""
WAIT_S = 20.0
"""How long anything may take that should end by itself."""
LOOKS = 2_000
"""How often, a millisecond apart, it is looked whether a task has ended."""


# ── interruptions ────────────────────────────────────────────────────────────────────────────────


class Impatient(CancelledAt[Any]):
    """Cancels at the n-th suspension and at every one after it, as a caller does who waits no longer."""

    def _cancel(self, waits_for: Any) -> None:
        super()._cancel(waits_for)
        self._at += 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an interrupted call ended: `struck`, whether it got as far as the interruption."""

    struck: bool
    answer: Any = None
    error: BaseException | None = None


async def _cancelled(call: Coroutine[Any, Any, Any], at: int, kind: type[CancelledAt[Any]], late: bool) -> Outcome:
    driven = kind(call, at, late=late)

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
INTERRUPTIONS = ("cancelled", "cancelled late", "cancelled again and again", *FAULTS)
"""`lost` fails after the store has done what it was asked; `conflict` strikes commits only, as another writer would."""


def _fault(name: str, at: int) -> tuple[Callable[[str], RecollectError | None], list[str]]:
    """A function that fails the n-th call of a store, and the list that says so."""
    struck: list[str] = []
    seen = 0

    def fail(step: str) -> RecollectError | None:
        nonlocal seen
        when, verb = step.split()
        if when != ("after" if name == "lost" else "before") or (name in ("conflict", "lost") and verb != "commit"):
            return None
        seen += 1
        if seen != at:
            return None
        struck.append(verb)
        return FAULTS[name]()

    return fail, struck


async def interrupted(call: Coroutine[Any, Any, Any], kept: Kept, how: str, at: int) -> Outcome:
    """Make a call that is interrupted at its n-th step."""
    if how not in FAULTS:
        kind = Impatient if how.endswith("again") else CancelledAt
        return await _cancelled(call, at, kind, how == "cancelled late")
    kept.fail, struck = _fault(how, at)
    try:
        async with asyncio.timeout(WAIT_S):
            answer = await call
        return Outcome(bool(struck), answer)
    except RecollectError as error:
        return Outcome(bool(struck), error=error)
    finally:
        kept.fail = lambda step: None


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
        before = await state_of(store)
        async with opened(Kept(store), ManualClock(NOW_MS)) as memory:
            await _call(verb, memory, stage.ids)
        after = await state_of(store)
        return Expected(before, after, await _settle(store))


async def drill(name: str, stage: Stage, how: str, steps: Sequence[int] = range(1, STEPS_MAX)) -> Drilled:
    """Interrupt a verb at these steps, until it ends before the next; each time look at everything around it."""
    verb, drilled = VERBS[name], Drilled()
    wanted = await expected(verb, stage)
    for at in steps:
        async with stage.fresh() as store:
            with _noticed() as noticed:
                struck, wrong = await _step(verb, stage, store, how, at, wanted)
        drilled.steps += struck
        drilled.problems += [f"{stage.kind}: {name} {how} at {at}: {each}" for each in (*wrong, *noticed)]
        if not struck:
            break
    return drilled


async def _step(verb: Verb, stage: Stage, store: Store, how: str, at: int, wanted: Expected) -> tuple[bool, list[str]]:
    kept = Kept(store)
    memory = await opened(kept, ManualClock(NOW_MS))
    tasks = asyncio.all_tasks()
    beside = [] if how in FAULTS else [asyncio.ensure_future(each) for each in _beside(memory)]
    outcome = await interrupted(_call(verb, memory, stage.ids), kept, how, at)
    wrong = [*_of_outcome(outcome, how), *await _of_others(beside), *await _left(tasks)]
    await _quiet(store)
    state = await state_of(store)
    if not verb.in_steps and state not in ((wanted.before, wanted.after) if outcome.struck else (wanted.after,)):
        wrong.append(f"half done: {_difference(state, wanted.after)}")
    wrong += await _of_views(memory, store)
    if verb.reads:
        async with asyncio.timeout(WAIT_S):
            await memory.close()
        return outcome.struck, [*wrong, *await _left(tasks)]
    if outcome.struck and not verb.later and (verb.once or verb.in_steps or state == wanted.before):
        wrong += await _of_repeat(verb, memory, stage, store, wanted)
    wrong += await _of_views(memory, store)
    async with asyncio.timeout(WAIT_S):
        await memory.close()
    wrong += await _left(tasks)
    if (settled := await _settle(store)) != wanted.settled:
        wrong.append(f"settled otherwise: {_difference(settled, wanted.settled)}")
    return outcome.struck, wrong


async def _quiet(store: Store) -> None:
    """Wait until a write that nobody waits for any more has landed, or never will: another one, made later, has."""
    noted = Record(f"quiet{secrets.token_hex(8)}", "long_term", Scope("other", "nobody"), "Quiet.", created_at=NOW_MS)
    await store.commit(Changes(Partition("other", "nobody"), put=(noted,)), NOW_MS)


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
    async with asyncio.timeout(WAIT_S):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    return [f"somebody else was told {answer!r}" for answer in answers if isinstance(answer, BaseException)]


def _of_outcome(outcome: Outcome, how: str) -> Iterator[str]:
    if not outcome.struck:
        if outcome.error is not None:
            yield f"not interrupted, but raised {outcome.error!r}"
    elif how not in FAULTS:
        if not isinstance(outcome.error, asyncio.CancelledError):
            yield f"cancelled, but ended with {outcome.error or outcome.answer!r}"
    elif outcome.error is not None and not isinstance(outcome.error, type(FAULTS[how]())):
        yield f"raised {outcome.error!r}"


async def _of_repeat(verb: Verb, memory: Memory, stage: Stage, store: Store, wanted: Expected) -> list[str]:
    try:
        async with asyncio.timeout(WAIT_S):
            await _call(verb, memory, stage.ids)
    except (NotFound, Conflict) as error:
        if await state_of(store) != wanted.after:
            return [f"repeated, it raised {error!r}"]
    state = await state_of(store)
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


async def _left(known: set[asyncio.Task[Any]]) -> list[str]:
    """Tasks that do not end by themselves."""
    for _ in range(LOOKS):
        left = asyncio.all_tasks() - known - {asyncio.current_task()}
        if not left:
            return []
        await asyncio.sleep(0.001)
    return [f"{task!r} is left" for task in left]


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


async def drill_all(kinds: Sequence[str], names: Sequence[str], hows: Sequence[str], folder: Path) -> Drilled:
    """Drill all of these, and print how it went."""
    total = Drilled()
    for kind in kinds:
        place = folder / kind
        place.mkdir()
        stage = Stage(kind, place)
        for how in hows:
            began, steps = time.perf_counter(), 0
            for name in names:
                try:
                    done = await drill(name, stage, how)
                except Exception as error:
                    done = Drilled(problems=[f"{kind}: {name} {how}: the drill failed with {error!r}"])
                steps += done.steps
                total.problems += done.problems
                for problem in done.problems[:TOLD_MAX]:
                    print(problem[:TOLD_CHARS], flush=True)
                if done.problems[TOLD_MAX:]:
                    print(f"  and {len(done.problems) - TOLD_MAX} more", flush=True)
            total.steps += steps
            print(f"{kind}: {how}: {len(names)} verbs, {steps} steps, {time.perf_counter() - began:.0f} s", flush=True)
    return total


def main(given: Sequence[str] | None = None) -> int:
    program = "python -m recollect.testing.interruptions"
    parser = argparse.ArgumentParser(prog=program, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stores", default="memory,sqlite")
    parser.add_argument("--verbs", default="", help="only those in whose name this pattern is found")
    parser.add_argument("--how", default=",".join(INTERRUPTIONS))
    chosen = parser.parse_args(given)
    names = [name for name in VERBS if re.search(chosen.verbs, name)]
    logging.getLogger("recollect").setLevel(logging.CRITICAL)  # faults are told of there, and there are thousands
    with tempfile.TemporaryDirectory() as folder:
        done = asyncio.run(drill_all(chosen.stores.split(","), names, chosen.how.split(","), Path(folder)))
    print(f"{done.steps} steps, {len(done.problems)} problems")
    return 1 if done.problems else 0


if __name__ == "__main__":
    sys.exit(main())
