"""The bad and the odd inputs on every store: one table of cases and stores, with the same outcome everywhere.

    python -m recollect.testing.matrix                       all stores that can be started here
    python -m recollect.testing.matrix postgresql cosmos     some of them

Outcomes are compared with those of `memory://`, which is the model of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest

from recollect.memory import Memory
from recollect.testing.bad_inputs import CASES, SECRET, Cast, Outcome, examine
from recollect.testing.fakes import HashingEmbedder, ManualClock
from recollect.testing.odd_inputs import SCENES, Scene
from recollect.testing.stores import KINDS, fresh_url

Places = Callable[[], Any]
"""Gives the URL of an empty store, for the length of a block."""
Result = dict[str, Outcome]
"""Case -> what became of it on one store."""


async def on_store(place: Places, scenes: Mapping[str, Scene] = SCENES) -> Result:
    """All bad inputs and these scenes on one kind of store."""
    outcomes: Result = {}
    with place() as url, _heard() as heard:
        async with AsyncExitStack() as stack:
            cast = await Cast(await _open(stack, url)).prepare()
            _add(outcomes, await examine(cast, CASES))
            await cast.chat.add_message("user", "all is well")
            found = await cast.ann.search_memory("well")
        if SECRET in heard.text or not found or found[0].content != "all is well":
            _add(outcomes, [Outcome("after", {}, ("it does not work as before, or the log tells content",))])
    for name, scene in scenes.items():
        _add(outcomes, [await _played(name, scene, place)])
    return outcomes


async def _played(name: str, scene: Scene, place: Places) -> Outcome:
    """One scene on an empty store."""
    case, _, title = name.partition(" ")
    with place() as url:
        try:
            async with AsyncExitStack() as stack:
                await scene(lambda **changes: _open(stack, url, **changes))
        except Exception as error:
            told = f"{title}: {type(error).__name__} at line {_last_line(error)}"
            return Outcome(case, {title: told}, (told,))
    return Outcome(case, {title: "as it should"})


def _last_line(error: BaseException) -> int:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_lineno if trace is not None else 0


async def _open(stack: AsyncExitStack, url: str, **changes: Any) -> Memory:
    given: dict[str, Any] = {"clock": ManualClock(), "embedder": HashingEmbedder(), "worker": False} | changes
    return await stack.enter_async_context(Memory.open(url, **given))


def _add(outcomes: Result, more: Iterable[Outcome]) -> None:
    for each in more:
        known = outcomes.get(each.case, Outcome(each.case, {}))
        outcomes[each.case] = Outcome(each.case, {**known.answers, **each.answers}, known.wrong + each.wrong)


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage()


@contextmanager
def _heard() -> Any:
    """All that Recollect logs meanwhile."""
    logger, handler = logging.getLogger("recollect"), _Heard()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def differences(model: Result, other: Result) -> list[str]:
    """Where a store answers otherwise than the model does, or otherwise than it should."""
    found = [f"{case}: {told}" for case, outcome in other.items() for told in outcome.wrong]
    for case, outcome in model.items():
        answers = other[case].answers if case in other else {}
        found += [
            f"{case}: {name}: {answers.get(name)}, in memory {answer}"
            for name, answer in outcome.answers.items()
            if answers.get(name) != answer
        ]
    return found


def table(results: Mapping[str, Result], model: Result) -> str:
    """Cases down, stores across: `ok`, or how many inputs went wrong."""
    rows = [["case", "inputs", *results]]
    for case in sorted(model, key=lambda name: (name[0], int(name[1:]) if name[1:].isdigit() else 0)):
        own = {kind: {case: result[case]} if case in result else {} for kind, result in results.items()}
        wrong = [len(differences({case: model[case]}, each)) for each in own.values()]
        rows.append([case, str(len(model[case].answers)), *(f"{count} wrong" if count else "ok" for count in wrong)])
    inputs = sum(len(outcome.answers) for outcome in model.values())
    wrong = [len(differences(model, result)) for result in results.values()]
    rows.append(["all", str(inputs), *(f"{count} wrong" if count else "ok" for count in wrong)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main(chosen: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="*", choices=[*KINDS, []], help="which stores; all without")
    kinds = parser.parse_args(chosen).stores or list(KINDS)
    logging.getLogger("recollect").addHandler(logging.NullHandler())  # some scenes fail on purpose
    model = asyncio.run(on_store(lambda: fresh_url("memory")))
    results: dict[str, Result] = {}
    for kind in kinds:
        print(f"{kind} ...", file=sys.stderr, flush=True)
        try:
            results[kind] = asyncio.run(on_store(lambda kind=kind: fresh_url(kind)))  # type: ignore[misc]
        except pytest.skip.Exception as skipped:
            print(f"{kind} is left out: {skipped}", file=sys.stderr)
    print(table(results, model))
    wrong = [f"{kind} {told}" for kind, result in results.items() for told in differences(model, result)]
    print("\n".join(wrong) or "The same outcome on every store.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
