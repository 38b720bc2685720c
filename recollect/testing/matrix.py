"""The bad and the odd inputs on every store and over every way in: one table, with the same outcome everywhere.

    python -m recollect.testing.matrix                            all stores that can be started here
    python -m recollect.testing.matrix postgresql cosmos          some of them
    python -m recollect.testing.matrix --over rest mcp cli        over REST, MCP and commands
    python -m recollect.testing.matrix postgresql --over rest     a way in, on a store

Outcomes are compared with those of Python on `memory://`, which is the model for the others. What a way in cannot
express (bytes in JSON, a verb that is not a tool) is left out there, and the table says how many inputs are left.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from recollect.testing.bad_inputs import CASES, SECRET, Case, Cast, Outcome, examine
from recollect.testing.hearing import hearing
from recollect.testing.odd_inputs import SCENES, Scene
from recollect.testing.stores import KINDS, fresh_url
from recollect.testing.surfaces import SURFACES, Surface, in_python
from recollect.testing.surfaces.reached import Unsayable

Places = Callable[[], Any]
"""Yields the URL of an empty store, for the duration of a block."""
Result = dict[str, Outcome]
"""Case -> what became of it on one store."""


async def on_store(
    place: Places, scenes: Mapping[str, Scene] = SCENES, over: Surface = in_python, cases: Sequence[Case] = CASES
) -> Result:
    """These bad inputs and these scenes on one kind of store, over one way in."""
    outcomes: Result = {}
    with place() as url, hearing("recollect") as heard:
        async with over(url) as memory:
            cast = await Cast(memory).prepare()
            _add(outcomes, await examine(cast, cases))
            await cast.chat.add_message("user", "all is well")
            found = await cast.ann.search_memory("well")
        if SECRET in heard.text or not found or found[0].content != "all is well":
            _add(outcomes, [Outcome("after", {}, ("it does not work as before, or the log tells content",))])
    for name, scene in scenes.items():
        _add(outcomes, await _played(name, scene, place, over))
    return outcomes


async def _played(name: str, scene: Scene, place: Places, over: Surface) -> list[Outcome]:
    """Play one scene on an empty store; no outcome, if nothing of it went over the way in."""
    case, _, title = name.partition(" ")
    opened: list[Any] = []
    with place() as url:
        async with AsyncExitStack() as stack:

            async def open_memory(**changes: Any) -> Any:
                opened.append(await stack.enter_async_context(over(url, **changes)))
                return opened[-1]

            try:
                await scene(open_memory)
            except Unsayable:
                return []
            except Exception as error:
                told = f"{title}: {type(error).__name__} at line {_last_line(error)}"
                return [Outcome(case, {title: told}, (told,))]
    went_over = any(getattr(memory, "sent", 1) for memory in opened)
    return [Outcome(case, {title: "as it should"})] if went_over else []


def _last_line(error: BaseException) -> int:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_lineno if trace is not None else 0


def _add(outcomes: Result, more: Iterable[Outcome]) -> None:
    for each in more:
        known = outcomes.get(each.case, Outcome(each.case, {}))
        outcomes[each.case] = Outcome(each.case, {**known.answers, **each.answers}, known.wrong + each.wrong)


def differences(model: Result, other: Result) -> list[str]:
    """Where a store answers differently from the model, or from what it should."""
    found = wrong_in(other)
    for case, outcome in model.items():
        answers = other[case].answers if case in other else {}
        found += [
            f"{case}: {name}: {answers.get(name)}, in memory {answer}"
            for name, answer in outcome.answers.items()
            if answers.get(name) != answer
        ]
    return found


def wrong_in(result: Result) -> list[str]:
    """What is not as it should be, among the inputs that were sent."""
    return [f"{case}: {told}" for case, outcome in result.items() for told in outcome.wrong]


def said_in(result: Result) -> int:
    """How many inputs were sent."""
    return sum(len(outcome.answers) for outcome in result.values())


Judge = Callable[[Result], list[str]]
"""Maps the outcomes of one column to what is wrong with them."""


def table(results: Mapping[str, Result], model: Result, judge: Judge | None = None) -> str:
    """Cases down, stores across: `ok`, or how many inputs went wrong; with a judge, how many were sent as well."""
    rows = [["case", "inputs", *results]]
    for case in sorted(model, key=lambda name: (name[0], int(name[1:]) if name[1:].isdigit() else 0)):
        own = [{case: result[case]} if case in result else {} for result in results.values()]
        rows.append(
            [case, str(said_in({case: model[case]})), *(_cell(each, {case: model[case]}, judge) for each in own)]
        )
    rows.append(["all", str(said_in(model)), *(_cell(result, model, judge) for result in results.values())])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _cell(result: Result, model: Result, judge: Judge | None) -> str:
    wrong = len(differences(model, result) if judge is None else judge(result))
    if judge is not None and not said_in(result):
        return "-"
    return (f"{wrong} wrong" if wrong else "ok") + (f" {said_in(result)}" if judge is not None else "")


def main(chosen: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="*", choices=[*KINDS, []], help="which stores; all without")
    parser.add_argument("--over", nargs="+", choices=[*SURFACES], help="which ways in; without a store, on SQLite")
    asked = parser.parse_args(chosen)
    logging.getLogger("recollect").addHandler(logging.NullHandler())  # some scenes fail on purpose
    model = asyncio.run(on_store(lambda: fresh_url("memory")))
    if asked.over:
        columns = {f"{way} on {kind}": (kind, way) for kind in asked.stores or ["sqlite"] for way in asked.over}
        return _report(columns, model, wrong_in, "The same outcome over every way in.")
    columns = {kind: (kind, "python") for kind in asked.stores or KINDS}
    return _report(columns, model, None, "The same outcome on every store.")


def _report(columns: Mapping[str, tuple[str, str]], model: Result, judge: Judge | None, well: str) -> int:
    """Play everything, print the table and what is wrong. Returns the exit code."""
    results: dict[str, Result] = {}
    for name, (kind, way) in columns.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            results[name] = asyncio.run(on_store(lambda kind=kind: fresh_url(kind), over=SURFACES[way]))  # type: ignore[misc]
        except pytest.skip.Exception as skipped:
            print(f"{name} is left out: {skipped}", file=sys.stderr)
    print(table(results, model, judge))
    judged = {name: differences(model, result) if judge is None else judge(result) for name, result in results.items()}
    wrong = [f"{name} {told}" for name, found in judged.items() for told in found]
    print("\n".join(wrong) or well)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
