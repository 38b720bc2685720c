"""Commands that move memories out, in and away: `export`, `import`, `forget`, `erase`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from recollect.interfaces.files import check_target, target_of, write_lines
from recollect.interfaces.options import (
    DryRun,
    Json,
    Layer,
    Org,
    OrgWide,
    Url,
    Where,
    Who,
    file_of,
    filter_of,
    for_user,
    is_missing,
    look,
    owner_of,
    place,
    run,
)
from recollect.interfaces.output import (
    BAD_INPUT,
    CORRUPT,
    NOT_FOUND,
    complain,
    emit,
    json_line,
    one_line,
    plural,
    progress,
    say,
    table,
    write_line,
)
from recollect.interfaces.salvaging import saved_from
from recollect.layers import PUBLIC_LAYERS
from recollect.memory import Memory
from recollect.owner import Owner
from recollect.privacy import Receipt
from recollect.records import system_clock
from recollect.settings import Settings


def export(
    file: Annotated[
        Path | None, typer.Argument(help="File to write; - or none means standard output.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    salvage: Annotated[
        bool,
        typer.Option("--salvage", help="For all users of --org, write what can still be read from a damaged file."),
    ] = False,
    url: Url = None,
    org: Org = "default",
    user: Who = "me",
    as_json: Json = False,
) -> None:
    """Write everything about a user as JSON Lines, which `import` reads back.

    From a damaged SQLite file, --salvage writes the records that are still intact, for
    `import --user-from source` into a new one. The damaged file is left as it is.

    Example: recollect export me.jsonl
    """
    file = target_of(file, force=force)
    if salvage:
        _write_salvaged(url, validate.identifier(org, "org"), file, force, as_json)
        return
    with progress("Exporting", None):
        lines = for_user(url, org, user, lambda who: who.export())
    if len(lines) == 1:
        complain(f"nothing is remembered about {one_line(user, 60)} in {place(url)}")
    if file is None:
        for line in lines:
            emit(line)
        return
    write_lines(file, map(json_line, lines), force=force)
    if as_json:
        emit({"records": len(lines) - 1})
    else:
        say(f"{plural(len(lines) - 1, 'record')} written.")


def _write_salvaged(url: str | None, org: str, file: Path | None, force: bool, as_json: bool) -> None:
    """Write the readable records of a damaged file, and say how much of it cannot be read."""
    with progress("Salvaging", None):
        found = saved_from(url, org)
    if not found.records:
        complain(f"nothing in {place(url)} can be read as memories of {one_line(org, 60)}")
        raise typer.Exit(CORRUPT)
    lines = (json_line(line) for line in found.lines())
    if file is None:
        for line in lines:
            write_line(line)
    else:
        write_lines(file, lines, force=force)
    users = plural(len(found.users), "user")
    if file is not None and as_json:
        emit({"records": len(found.records), "users": len(found.users), "damaged": found.damaged})
    elif file is not None:
        say(f"{plural(len(found.records), 'record')} of {users} written.")
    if found.damaged:
        complain(f"{plural(found.damaged, 'row')} could not be read; rows on lost pages are not counted")


CALLER, SOURCE = "caller", "source"

Kind = Annotated[str, typer.Option("--from", metavar="KIND", help=f"Format of the source: {', '.join(KINDS)}.")]
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
Report = Annotated[
    Path | None, typer.Option(help="Write the outcome of each line here, as JSON Lines.", show_default=False)
]


def import_file(
    source: Annotated[str, typer.Argument(help="A file, folder or URL; - reads JSON Lines from standard input.")],
    kind: Kind = JSONL,
    session: Sessions = None,
    all_or_nothing: AllOrNothing = False,
    dry_run: Tried = False,
    user_from: UserFrom = CALLER,
    source_user: SourceUser = None,
    table: Table = None,
    prefix: Prefix = None,
    user_segment: UserSegment = None,
    report: Report = None,
    url: Url = None,
    org: Org = "default",
    user: Who = "me",
    as_json: Json = False,
) -> None:
    """Import an export, messages or memories as JSON Lines, or another program's data; nothing is imported twice.

    A message: {"role": "user", "content": "...", "session": "monday", "created_at": "2026-03-01T09:30:00Z"}.
    A memory: {"content": "...", "metadata": {"topic": "work"}}. Everything becomes memory of --user, whoever it
    belonged to, unless you give --user-from source. A file must be a regular file: no pipe, device or
    symbolic link.

    Example: recollect import --from chatgpt export.zip --dry-run
    """
    validate.choice(user_from, (CALLER, SOURCE), "user-from")
    options = Options(session, table, prefix, user_segment)

    def user_in(memory: Memory) -> UserOf:
        memory.user(user, org=org)  # an invalid --user or --org is no fault of the source
        return lambda owner: memory.user(owner if owner and user_from == SOURCE else user, org=org)

    opening = _opened(kind, source, options, rewinds=all_or_nothing)
    with _guessing(kind, source, options), _reporting(report) as tell, opening as reading:

        async def step(memory: Memory, **how: Any) -> Imported:
            with progress("Importing", reading.size) as advance:
                outcome = await bring_in(reading, user_in(memory), only=source_user, advance=advance, **how)
            if outcome.new and Settings.read(os.environ).worker:
                await take_in(memory)
            return outcome

        if (dry_run or all_or_nothing) and is_missing(file_of(url)):
            # No file is created where nothing is stored.
            outcome = run("memory://", partial(step, dry_run=True, tell=tell if dry_run else _tell_nobody))
            if not dry_run and not outcome.bad:
                outcome = run(url, partial(step, tell=tell))
        else:
            outcome = run(url, partial(step, dry_run=dry_run, all_or_nothing=all_or_nothing, tell=tell))
    _show_import(outcome, as_json, kept_apart=user_from == SOURCE or source_user is not None)
    wrote = None if outcome.read > outcome.bad or source == "-" else guess(kind, source, options)
    if wrote:
        raise ValidationError(f"nothing in it is of the kind {kind}; {_advice(wrote)}", field="from")
    if outcome.bad:
        raise typer.Exit(BAD_INPUT)
    if not outcome.read:
        raise typer.Exit(NOT_FOUND)


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


async def take_in(memory: Memory) -> None:
    """Embed and rate what came in, with a progress bar."""
    waiting = (await memory.survey()).jobs_waiting
    before = memory.describe()["jobs"]["done"]
    work = asyncio.create_task(memory.work())
    with progress("Reading", waiting) as advance:
        while not (await asyncio.wait([work], timeout=0.1))[0]:
            advance(memory.describe()["jobs"]["done"] - before)
    await work


def _show_import(outcome: Imported, as_json: bool, *, kept_apart: bool) -> None:
    if as_json:
        emit(outcome.to_dict())
        return
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


def forget(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of memories or messages.", show_default=False)] = None,
    where: Where = None,
    layer: Layer = None,
    org_wide: OrgWide = False,
    dry_run: DryRun = False,
    url: Url = None,
    org: Org = "default",
    user: Who = "me",
    as_json: Json = False,
) -> None:
    """Forget memories by id or by filter, with everything that depends on them.

    Example: recollect forget --where '{"metadata.topic": "work"}'
    """
    test = filter_of(where)

    async def gone(memory: Memory) -> Receipt:
        owner = owner_of(memory, org, user, org_wide)
        if dry_run:
            return await _would_forget(owner, ids or [], test, layer or PUBLIC_LAYERS)
        return await owner.forget(ids or None, where=test, layer=layer or None)

    show_receipt(look(url, gone), as_json, dry_run=dry_run)


async def _would_forget(owner: Owner, ids: Sequence[str], where: Any, layers: Sequence[str]) -> Receipt:
    """What `forget` would be given; a receipt does not count what rests on it either."""
    if bool(ids) == (where is not None):
        raise ValidationError("give ids or a filter", field="ids")
    if ids:
        found = await owner.get_memories(ids)
        if len(found) < len(set(ids)):
            raise NotFound(field="id")
        return Receipt(Counter(record.layer for record in found))
    counts: Counter[str] = Counter()
    now = system_clock()
    for layer in layers:
        after: str | None = None
        while True:
            page, after = await owner.list_memories(layer=layer, where=where, after=after, at=now)
            counts[layer] += len(page)
            if after is None:
                break
    return Receipt(+counts)


def erase(
    whole_org: Annotated[
        bool, typer.Option("--whole-org", help="Everything about all users of the organisation, and what they share.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    url: Url = None,
    org: Org = "default",
    user: Who = "me",
    as_json: Json = False,
) -> None:
    """Forget everything about a user, and leave no trace of it in the file.

    Example: recollect erase --user ann --yes
    """
    validate.identifier(user, "user")
    validate.identifier(org, "org")
    if not yes:
        if not sys.stdin.isatty():
            whose = "all users of the organisation" if whole_org else "the user"
            raise ValidationError(f"this forgets everything about {whose}; confirm with --yes", field="erase")
        whom = f"all users of {one_line(org, 60)}" if whole_org else one_line(user, 60)
        if not typer.confirm(f"Forget everything about {whom}?", err=True):
            say("Nothing was forgotten.")
            raise typer.Exit(NOT_FOUND)
    if whole_org:
        show_receipt(look(url, lambda memory: memory.org(org).erase()), as_json)
    else:
        show_receipt(for_user(url, org, user, lambda who: who.erase()), as_json)


def show_receipt(receipt: Receipt, as_json: bool, *, dry_run: bool = False) -> None:
    if as_json:
        emit(receipt.to_dict() | ({"dry_run": True} if dry_run else {}))
    elif receipt.count:
        heading = "would be forgotten" if dry_run else "forgotten"
        table(["layer", heading], sorted(receipt.forgotten.items()), right=[heading])
        said = "would be forgotten; nothing was changed" if dry_run else f"forgotten at {receipt.at}"
        say(f"{plural(receipt.count, 'record')} {said}.")
    else:
        say("There was nothing to forget.")
    if not as_json:
        for name, count in sorted(receipt.beside.items()):
            say(
                f"Also in {name}: {'still there; delete it there yourself' if count is None else plural(count, 'row')}."
            )
    if not receipt.count:
        raise typer.Exit(NOT_FOUND)
