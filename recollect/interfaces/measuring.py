"""The command `bench`: how fast this installation is here, and how well its search does on answered questions."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from recollect.errors import ValidationError
from recollect.interfaces import bench as speed
from recollect.interfaces import quality as quality_of
from recollect.interfaces.charts import Group, bars
from recollect.interfaces.comparing import FullText, Fused, Meaning
from recollect.interfaces.files import check_target, write_lines
from recollect.interfaces.options import Json, on_loop
from recollect.interfaces.output import emit, plural, progress, say, table
from recollect.interfaces.quality import Case, Ours, Ranker, WithLearned, WithNotes
from recollect.memory import Memory
from recollect.providers import default_embedder

SHOWN = ("turn R@5", "turn R@10", "turn R@20", "turn R@50", "session all@5", "session all@10", "cpu_ms")
HEADINGS = ("R@5", "R@10", "R@20", "R@50", "all@5", "all@10", "CPU ms")
LEARNED = {
    "facts": ("fact", "learning"),
    "facts and episodes": ("fact", "learning", "episodic", "long_term"),
}
"""Rows that also search what is learned beside the turns, and the layers it is in."""
CHARTED = ("turn R@5", "turn R@10")
BY_CATEGORY = "turn R@10"


class Variant(NamedTuple):
    """A way to set Recollect up: what it is called in a table, its embedder and quality, as settings."""

    name: str
    embedder: str | None
    quality: str | None


WORDS_ALONE = Variant("Recollect, words alone", "none", None)
AS_IT_COMES = Variant("Recollect", None, None)


@dataclass(frozen=True, slots=True)
class How:
    """What is measured of search on a data file, as the options of `bench` say."""

    store: str | None
    words: bool
    quality: str
    compare: bool
    notes: bool
    learned: bool

    @property
    def ours(self) -> Variant:
        """Recollect as it was asked for."""
        plain = WORDS_ALONE if self.words else AS_IT_COMES
        return Variant(f"{plain.name}, best", plain.embedder, "best") if self.quality == "best" else plain

    @property
    def beside(self) -> Sequence[Variant]:
        """The variants of Recollect that it is compared with, the simplest first."""
        simpler = (WORDS_ALONE,) if self.words else (WORDS_ALONE, AS_IT_COMES)
        return [each for each in simpler if each != self.ours] if self.compare else []


def bench(
    memories: Annotated[int, typer.Option(help="How many made-up memories, 300 to 100000.")] = 2_000,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Measure how well search does on answered questions; may be repeated."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where --data is stored for the measurement. Default: a temporary file."),
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="With --data: search without an embedder.")] = False,
    quality: Annotated[str, typer.Option(help="With --data: `fast`, or `best` in an extra row.")] = "fast",
    notes: Annotated[
        bool,
        typer.Option(
            "--notes", help="With --data: add a row with the file's notes or answers, as from a perfect model."
        ),
    ] = False,
    learned: Annotated[
        bool, typer.Option("--learned", help="With --data: add rows that also search what is learned from the turns.")
    ] = False,
    compare: Annotated[
        bool, typer.Option(help="With --data: compare with full text, the embedder, and both fused.")
    ] = True,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="With --data: draw the rows in this file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing chart.")] = False,
    as_json: Json = False,
) -> None:
    """Measure how fast this installation is on this machine; with --data, how well it searches.

    A data file holds conversations whose questions name the turns that answer them: LoCoMo or
    LongMemEval as published, or JSON Lines of your own. Without one, quality is not measured.

    Example: recollect bench --data locomo10.json --chart quality.svg
    """
    if quality not in ("fast", "best"):
        raise ValidationError("must be fast or best", field="quality")
    if not data:
        _speed(memories, as_json)
        return
    if chart:
        check_target(chart, force=force)
    how = How(store, words, quality, compare, notes, learned)
    found = [on_loop(_measure(path, how), store) for path in data]
    if chart:
        write_lines(chart, [drawn(found)], force=force)
    if as_json:
        emit(found)
    else:
        for each in found:
            _show(each)


def _speed(memories: int, as_json: bool) -> None:
    if not 300 <= memories <= 100_000:
        raise ValidationError("must be a whole number from 300 to 100000", field="memories")
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder, progress("Measuring", memories) as advance:
        figures = asyncio.run(speed.measure(Path(folder), memories, advance))
    if as_json:
        emit([figure.to_dict() for figure in figures])
    else:
        rows = [(figure.name, f"{figure.value:,.2f}", figure.unit, figure.ratio) for figure in figures]
        table(["what", "figure", "unit", "compared"], rows, right=["figure"])
        say("Search quality was not measured; give --data FILE.")


async def _measure(path: Path, how: How) -> dict[str, Any]:
    """The rows of one file; the last one is ours, as it was asked for."""
    cases = quality_of.read_cases(path)
    if how.notes and not any(case.conversation.notes for case in cases):
        raise ValidationError("has no notes and no answers; a line of notes is {note, turns}", field="data")
    with tempfile.TemporaryDirectory(prefix="recollect-") as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            rankers = _others() if how.compare else []
            for each in how.beside:
                rankers.append(await _opened(stack, f"sqlite:///{folder}/{each.name}.db", each))
            ours = how.ours
            if how.notes:
                memory = await stack.enter_async_context(_beside(folder, "notes", ours.embedder))
                rankers.append(WithNotes(f"{ours.name}, with notes", memory, ours.quality))
            for what, layers in LEARNED.items() if how.learned else ():
                memory = await stack.enter_async_context(_beside(folder, what, ours.embedder))
                rankers.append(WithLearned(f"{ours.name}, with {what}", memory, ours.quality, layers))
            rankers.append(await _opened(stack, how.store or f"sqlite:///{folder}/{ours.name}.db", ours))
            questions = sum(1 for case in cases for _ in case.answered())
            with progress(f"Asking {path.name}", questions * len(rankers)) as advance:
                rows = [row.to_dict() for row in await quality_of.measure(cases, rankers, advance)]
        # Everything is closed by now, so all of it is in the file itself.
        size = sum(each.stat().st_size for each in folder.glob(f"{ours.name}.db*"))
    return _told(path, cases, rows, size)


async def _opened(stack: AsyncExitStack, url: str, variant: Variant) -> Ours:
    memory = Memory.open(url, worker=False, embedder=variant.embedder)
    return Ours(variant.name, await stack.enter_async_context(memory), variant.quality)


def _beside(folder: Path, name: str, embedder: str | None) -> Memory:
    """A memory of its own, in which a model, if one is set, reads what was said at once."""
    return Memory.open(
        f"sqlite:///{folder}/{name}.db", worker=False, embedder=embedder, llm_batch_s=quality_of.GATHERING_S
    )


def _others() -> list[Ranker]:
    """What search is compared with; without an embedder, full text alone."""
    embedder = default_embedder()
    if embedder is None:
        return [FullText()]
    return [FullText(), Meaning(embedder), Fused(embedder)]


def _told(path: Path, cases: Sequence[Case], rows: list[dict[str, Any]], size: int) -> dict[str, Any]:
    turns = sum(len(case.conversation.turns) for case in cases)
    return {
        "file": path.name,
        "conversations": len(cases),
        "turns": turns,
        "bytes_per_turn": round(size / turns) if size and turns else None,
        "rows": rows,
    }


def _show(found: dict[str, Any]) -> None:
    """Show the rows of a file as tables, then what is measured for ours alone."""
    rows, ours = found["rows"], found["rows"][-1]
    say(f"{found['file']}: {found['turns']:,} turns, {plural(ours['questions'], 'question')} with an answer")
    table(["", *HEADINGS], [(row["name"], *(_cell(row.get(name)) for name in SHOWN)) for row in rows], right=HEADINGS)
    names = sorted(ours["categories"])
    if len(names) > 1:
        say("R@10 by category")
        by_category = [
            (row["name"], *(_cell(row["categories"][name].get(BY_CATEGORY)) for name in names)) for row in rows
        ]
        table(["", *names], by_category, right=names)
    for line in _alone(found, ours):
        say(line)
    say()


def _alone(found: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    size = f", {found['bytes_per_turn']:,} bytes per turn in the file" if found["bytes_per_turn"] else ""
    lines = [
        f"{ours['name']}: {ours['turns_per_s'] or 0:,} turns processed per second of CPU{size}",
        f"a search: {ours['p50_ms']} ms, 95 of 100 within {ours['p95_ms']} ms, a user's first {ours['first_ms']} ms",
    ]
    if "survival" in ours:
        lines.append(
            f"of the evidence in the first {quality_of.SURVIVORS}, {ours['survival']} % is in a context of "
            f"{quality_of.CONTEXT_TOKENS:,} tokens"
        )
    if "abstaining" in ours:
        apart = ours["abstaining"]
        lines.append(
            f"{plural(apart['questions'], 'question')} without an answer: told apart with AUC {apart['auc']}; under "
            f"{apart['threshold']}, where 95 of 100 others pass, {apart['refused']} % of them are refused"
        )
    return lines


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def drawn(found: Sequence[dict[str, Any]]) -> str:
    """The rows of all files as one chart."""
    series = [row["name"] for row in found[0]["rows"]]
    groups = [
        Group(
            f"{each['file'].partition('.')[0]}, {name.removeprefix('turn ')}",
            tuple(row.get(name) for row in each["rows"]),
        )
        for each in found
        for name in CHARTED
    ]
    return bars("Share of the turns that answer a question among the first 5 and 10 (%)", series, groups)
