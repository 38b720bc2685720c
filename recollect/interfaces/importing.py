"""The command `import`: what other programs and earlier exports hold, into a user's memory, and what is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect import validate
from recollect.errors import Corrupt, NotFound, ValidationError
from recollect.importers.guessing import guess
from recollect.importers.items import KINDS as ITEMS
from recollect.importers.items import Imported, Problem, Source
from recollect.importers.jsonl import DEFAULT_SESSION, Lines
from recollect.importers.kinds import JSONL, KINDS, open_source
from recollect.importers.options import Options
from recollect.importers.writing import Tell, UserOf, bring_in
from recollect.interfaces.files import check_target, write_lines
from recollect.interfaces.options import file_of, is_missing, run, take_in
from recollect.interfaces.output import BAD_INPUT, NOT_FOUND, complain, emit, json_line, plural, progress, say, table
from recollect.interfaces.whose import Whose
from recollect.memory import Memory
from recollect.records import MINUTE_MS, as_datetime, iso, system_clock
from recollect.settings import Settings

CALLER, SOURCE = "caller", "source"
EXPORTS = ("chatgpt", "claude")
"""Kinds that need not be named: each is one person's own chats, and nothing else looks like them."""
CLOSED_TOGETHER = 16
"""Conversations noted down at the same time, so that they share the waiting for the disk."""

Kind = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="KIND",
        help=f"Format of the source: {', '.join(KINDS)}.",
        show_default="chatgpt or claude if it looks like that, else jsonl",
    ),
]
Sessions = Annotated[
    str | None,
    typer.Option(help="Session for messages that name none.", show_default="imported, or the name of the file"),
]
AllOrNothing = Annotated[
    bool, typer.Option("--all-or-nothing", help="Check every line first; if one is bad, store nothing.")
]
Tried = Annotated[bool, typer.Option("--dry-run", help="Only say what is wrong with the source.")]
UserFrom = Annotated[
    str,
    typer.Option(
        metavar="caller|source", help="Who owns what is imported: --user (caller), or its user in the source (source)."
    ),
]
SourceUser = Annotated[
    str | None, typer.Option(help="Import only what belonged to this user in the source.", show_default=False)
]
Table = Annotated[str | None, typer.Option(help="Which table or collection, if several match.", show_default=False)]
Prefix = Annotated[str | None, typer.Option(help="How the Redis keys begin.", show_default="that of the kind")]
UserSegment = Annotated[
    int | None, typer.Option(min=0, help="Which part of a namespace names the user (LangGraph).", show_default=False)
]
Life = Annotated[
    str | None,
    typer.Option(
        metavar="LIFE",
        help="How long its messages live, such as 365d or 104w, or kept; also those imported before, if it is longer.",
        show_default="as all messages, 30d unless set",
    ),
]
Report = Annotated[
    Path | None, typer.Option(help="Write the outcome of each line here, as JSON Lines.", show_default=False)
]


def import_file(
    whose: Whose,
    source: Annotated[str, typer.Argument(help="A file, folder or URL; - reads JSON Lines from standard input.")],
    kind: Kind = None,
    session: Sessions = None,
    all_or_nothing: AllOrNothing = False,
    dry_run: Tried = False,
    user_from: UserFrom = CALLER,
    source_user: SourceUser = None,
    table: Table = None,
    prefix: Prefix = None,
    user_segment: UserSegment = None,
    life: Life = None,
    report: Report = None,
) -> None:
    """Import an export, messages or memories as JSON Lines, or another program's data; nothing is imported twice.

    The zip of a ChatGPT or Claude export is read as it is, or its folder.

    A message: {"role": "user", "content": "...", "session": "monday", "created_at": "2026-03-01T09:30:00Z"}.
    A memory: {"content": "...", "metadata": {"topic": "work"}}.

    Everything becomes memory of --user, whoever it belonged to, unless you give --user-from source.
    Files must be plain files: no pipes, devices or symbolic links.

    Example: recollect import export.zip --dry-run
    """
    validate.choice(user_from, (CALLER, SOURCE), "user-from")
    options = Options(session, table, prefix, user_segment)
    kind = _looks_like(source, options) if kind is None else kind
    settings = None if life is None else _living(life)

    def owners_in(memory: Memory) -> UserOf:
        own = whose.of(memory)  # an invalid --user or --org is no fault of the source
        return lambda owner: memory.user(owner, org=whose.org) if owner and user_from == SOURCE else own

    opening = _opened(kind, source, options, rewinds=all_or_nothing)
    with _guessing(kind, source, options), _reporting(report) as tell, opening as reading:
        step = partial(_import, reading=reading, owners_in=owners_in, only=source_user, again=life is not None)
        if (dry_run or all_or_nothing) and is_missing(file_of(whose.url)):
            # No file is created where nothing is stored.
            outcome, until = run("memory://", partial(step, dry_run=True, tell=tell if dry_run else _tell_nobody))
            if not dry_run and not outcome.bad:
                outcome, until = run(whose.url, partial(step, tell=tell), settings)
        else:
            chosen = partial(step, dry_run=dry_run, all_or_nothing=all_or_nothing, tell=tell)
            outcome, until = run(whose.url, chosen, settings)
    wrote = None if outcome.read > outcome.bad or source == "-" else guess(kind, source, options)
    if whose.as_json:
        emit(outcome.to_dict() | {"messages_live_until": iso(until)})
    elif not wrote:
        _show_import(outcome, until, kept_apart=user_from == SOURCE or source_user is not None)
    if wrote:
        raise ValidationError(f"nothing in it is of the kind {kind}; {_advice(wrote)}", field="from")
    if outcome.bad:
        raise typer.Exit(BAD_INPUT)
    if not outcome.read:
        raise typer.Exit(NOT_FOUND)


async def _import(
    memory: Memory, *, reading: Source, owners_in: Callable[[Memory], UserOf], **how: Any
) -> tuple[Imported, int | None]:
    """Store what the source holds, and learn from it. Return what came of it, and until when its messages live."""
    owners = owners_in(memory)
    with progress("Importing", reading.size) as advance, _stopping(STOPPED_STORING):
        outcome = await bring_in(reading, owners, advance=advance, **how)
    until = await _living_until(outcome, owners)
    if outcome.stored and outcome.read > outcome.bad and Settings.read(os.environ).worker:
        with _stopping(STOPPED_READING):
            await take_in(memory)
            await _note_down(memory, outcome, owners)
    return outcome, until


STOPPED_STORING = "stopped; what was stored stays, and the same command goes on from there"
STOPPED_READING = (
    "stopped; all of it is stored and can be found, but some of it was not read, and has left no facts and episodes. "
    "The same command goes on from there"
)


@contextlib.contextmanager
def _stopping(told: str) -> Iterator[None]:
    """If Ctrl-C ends this step, say how things stand."""
    try:
        yield
    except asyncio.CancelledError:
        complain(told)
        raise


def _looks_like(source: str, options: Options) -> str:
    """The kind of a source for which none was named: an export that people download, if it is one, else lines."""
    if source == "-" or "://" in source:
        return JSONL
    found = guess(JSONL, source, options)
    if found not in EXPORTS:
        return JSONL
    complain(f"it looks like {found}, and is read as that; --from names another kind")
    return found


def _living(life: str) -> Settings:
    """The settings under which messages live that long."""
    if life != validate.KEPT:
        validate.life_ms(life, "life")
    settings = Settings.read(os.environ)
    return settings.with_({"lives": {**settings.lives, "conversation": life}})


async def _living_until(outcome: Imported, user_of: UserOf) -> int | None:
    """When the last message of an import expires; None if it does not, or if there is none."""
    if not outcome.stored or outcome.last is None:
        return None
    owner, id = outcome.last
    found = await user_of(owner).get_memories([id])
    return found[0].expires_at if found else None


@contextlib.contextmanager
def _guessing(kind: str, source: str, options: Options) -> Iterator[None]:
    """If a source cannot be read, say what it looks like."""
    try:
        yield
    except (ValidationError, NotFound, Corrupt) as error:
        wrote = None if source == "-" else guess(kind, source, options)
        if wrote is None:
            raise
        raise ValidationError(f"this source is not of the kind {kind}; {_advice(wrote)}", field="from") from error


def _advice(kind: str) -> str:
    return f"it looks like {kind}: try --from {kind}"


def _tell_nobody(_: Mapping[str, Any]) -> None:
    """For when nobody asked what became of each line."""


@contextlib.contextmanager
def _reporting(report: Path | None) -> Iterator[Tell]:
    """Record what became of each line; the file appears when everything is done."""
    if report is None:
        yield _tell_nobody
        return
    check_target(report, force=False)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:
        yield lambda line: lines.writelines([json_line(line), "\n"])
        lines.seek(0)
        write_lines(report, (line.removesuffix("\n") for line in lines), force=False)


@contextlib.contextmanager
def _opened(kind: str, name: str, options: Options, *, rewinds: bool) -> Iterator[Source]:
    """The source to read; standard input is copied to a file if it has to be read twice."""
    if name != "-":
        with open_source(kind, name, options) as source:
            yield source
        return
    if kind != JSONL:
        raise ValidationError("standard input can only be JSON Lines", field="from")
    session = DEFAULT_SESSION if options.session is None else options.session
    if not rewinds:
        yield Lines(sys.stdin.buffer, session=session)
        return
    with tempfile.TemporaryFile() as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream)
        stream.seek(0)
        yield Lines(stream, session=session)


async def _note_down(memory: Memory, outcome: Imported, user_of: UserOf) -> None:
    """Make the episodes of conversations that ended long ago.

    Their own jobs wait until nothing has been stored for hours, and who imports once may have no worker then.
    """
    rested = system_clock() - Settings.read(os.environ).episode_idle_minutes * MINUTE_MS
    ended = [place for place, spoken_at in outcome.heard.items() if spoken_at <= rested]
    with progress("Noting down", len(ended)) as advance:
        for start in range(0, len(ended), CLOSED_TOGETHER):
            some = ended[start : start + CLOSED_TOGETHER]
            await asyncio.gather(*(user_of(owner).episodes.close(session) for owner, session in some))
            advance(start + len(some))
    await take_in(memory)


def _show_import(outcome: Imported, until: int | None, *, kept_apart: bool) -> None:
    counts = [(noun, getattr(outcome, name)) for noun, name in ITEMS.items()]
    read = ", ".join(plural(count, noun) for noun, count in reversed(counts) if count) or "nothing"
    stored = f"{outcome.new:,} new, {outcome.known:,} already known" if outcome.stored else "nothing stored"
    expired = f", {plural(outcome.expired, 'record')} expired" if outcome.expired else ""
    left_out = f", {outcome.left_out:,} left out" if outcome.left_out else ""
    refused = f", {plural(outcome.bad, 'line')} refused" if outcome.bad else ""
    say(f"Read {read}: {stored}{expired}{left_out}{refused}.")
    if outcome.different:
        say(f"Known but different here, and left unchanged: {outcome.different:,}.")
    if not outcome.read:
        say("Nothing in it is of that kind: does --from name the program that wrote it?")
    users = len(outcome.owners - {""})
    if users > 1 and not kept_apart:
        say(f"It belonged to {users:,} users and now belongs to one; --user-from source keeps them apart.")
    if until is not None:
        say(
            f"Its messages live until {as_datetime(until).astimezone():%Y-%m-%d}; what is learned from them stays. "
            "To keep them, import again with --life kept (or 365d): that holds for what is already here, too."
        )
    if outcome.problems:
        table(["line", "reason"], _in_runs(outcome.problems), right=["line"])
        if outcome.bad > len(outcome.problems):
            say(f"and {outcome.bad - len(outcome.problems):,} more bad lines")


def _in_runs(problems: Sequence[Problem]) -> list[tuple[str, str]]:
    """The lines that cannot be stored, each with its reason; consecutive lines with the same reason share a row."""
    runs: list[tuple[int, int, str]] = []
    for problem in problems:
        first = problem.line
        if runs and (runs[-1][1] + 1, runs[-1][2]) == (problem.line, problem.reason):
            first = runs.pop()[0]
        runs.append((first, problem.line, problem.reason))
    return [(f"{first}" if first == last else f"{first}-{last}", reason) for first, last, reason in runs]
