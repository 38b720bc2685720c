"""Commands for second thoughts: `undo` takes back what was learned, `quarantine` sets aside what is not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from recollect.interfaces.output import NOT_FOUND, emit, plural, say, table
from recollect.interfaces.whose import Whose
from recollect.trust import SetAside, Undone

OfSession = Annotated[
    str | None, typer.Option("--session", help="All of this session.", metavar="ID", show_default=False)
]


def undo(
    whose: Whose,
    session: OfSession = None,
    message: Annotated[str | None, typer.Option(help="This one message.", metavar="ID", show_default=False)] = None,
    extractor: Annotated[
        str | None,
        typer.Option(help="Only what this extractor learned, such as rules-1.", metavar="NAME", show_default=False),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only what was learned since this time.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be undone.")] = False,
) -> None:
    """Undo what was learned from a session, from a message or by an extractor. `redo` brings it back.

    Example: recollect undo --session monday --dry-run
    """
    undone = whose.look(
        lambda who: who.undo(session=session, message_id=message, extractor=extractor, since=since, dry_run=dry_run)
    )
    _show_undone(undone, whose.as_json)


def redo(whose: Whose, id: Annotated[str, typer.Argument(help="The id that `undo` gave.")]) -> None:
    """Reverse an undo: what was learned counts again.

    Example: recollect redo 019a8c1d2e3f
    """
    _show_undone(whose.look(lambda who: who.redo(id)), whose.as_json, again=True)


def quarantine(
    whose: Whose,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of memories or messages.", show_default=False)] = None,
    session: OfSession = None,
    reason: Annotated[str, typer.Option(help="Why, for whoever asks later.")] = "",
    release: Annotated[bool, typer.Option("--release", help="Trust it again.")] = False,
) -> None:
    """Set a session or memories aside: nothing uses them any more, and what was learned from them is undone.

    Example: recollect quarantine --session "with a stranger"
    """
    if release:
        aside = whose.look(lambda who: who.release(session=session, ids=ids or None))
    else:
        aside = whose.look(lambda who: who.quarantine(session=session, ids=ids or None, reason=reason))
    _show_aside(aside, whose.as_json, released=release)


def _show_undone(undone: Undone, as_json: bool, *, again: bool = False) -> None:
    if as_json:
        emit(undone.to_dict())
    elif undone.count:
        done = "brought back" if again else "would be undone" if undone.dry_run else "undone"
        _counts(undone.changed, done)
        more = "" if again or undone.dry_run else f" `recollect redo {undone.id}` brings it back."
        say(f"{plural(undone.count, 'record')} {done}.{more}")
    else:
        say("Nothing was learned from there.")
    if not undone.count:
        raise typer.Exit(NOT_FOUND)


def _show_aside(aside: SetAside, as_json: bool, *, released: bool) -> None:
    done = "released" if released else "set aside"
    if as_json:
        emit(aside.to_dict())
    elif aside.count:
        _counts(aside.records, done)
        say(f"{plural(aside.count, 'record')} {done}.")
    else:
        say(f"There was nothing to {'release' if released else 'set aside'}.")
    if not aside.count:
        raise typer.Exit(NOT_FOUND)


def _counts(counts: Mapping[str, int], heading: str) -> None:
    table(["layer", heading], sorted(counts.items()), right=[heading])
