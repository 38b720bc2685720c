"""Commands that move memories out and away: `export`, `forget`, `erase`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect import validate
from recollect.errors import NotFound, ValidationError
from recollect.interfaces.files import target_of, write_lines
from recollect.interfaces.options import DryRun, Layer, Where, filter_of, look, place
from recollect.interfaces.output import (
    CORRUPT,
    NOT_FOUND,
    complain,
    emit,
    give,
    json_line,
    one_line,
    plural,
    progress,
    say,
    table,
    write_line,
)
from recollect.interfaces.salvaging import saved_from
from recollect.interfaces.whose import Whose, WhoseOrShared
from recollect.layers import PUBLIC_LAYERS
from recollect.owner import Owner
from recollect.paging import every
from recollect.privacy import Receipt
from recollect.records import system_clock


def export(
    whose: Whose,
    file: Annotated[
        Path | None, typer.Argument(help="File to write; - or none means standard output.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    salvage: Annotated[
        bool,
        typer.Option("--salvage", help="For all users of --org, write what can still be read from a damaged file."),
    ] = False,
) -> None:
    """Write everything about a user as JSON Lines, which `import` reads back.

    From a damaged SQLite file, --salvage writes the records that are still intact, for
    `import --user-from source` into a new one. The damaged file is left as it is.

    Example: recollect export me.jsonl
    """
    file = target_of(file, force=force)
    if salvage:
        _write_salvaged(whose.url, validate.identifier(whose.org, "org"), file, force, whose.as_json)
        return
    with progress("Exporting", None):
        lines = whose.look(lambda who: who.export())
    if len(lines) == 1:
        complain(f"nothing is remembered about {whose.name} in {place(whose.url)}")
    if file is None:
        for line in lines:
            emit(line)
        return
    write_lines(file, map(json_line, lines), force=force)
    give(whose.as_json, {"records": len(lines) - 1}, f"{plural(len(lines) - 1, 'record')} written.")


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


def forget(
    whose: WhoseOrShared,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of memories or messages.", show_default=False)] = None,
    where: Where = None,
    layer: Layer = None,
    dry_run: DryRun = False,
) -> None:
    """Forget memories by id or by filter, with everything that depends on them.

    Example: recollect forget --where '{"metadata.topic": "work"}'
    """
    test = filter_of(where)
    if dry_run:
        receipt = whose.look(lambda who: _would_forget(who, ids or [], test, layer or PUBLIC_LAYERS))
    else:
        receipt = whose.look(lambda who: who.forget(ids or None, where=test, layer=layer or None))
    show_receipt(receipt, whose.as_json, dry_run=dry_run)


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
        async for _ in every(partial(owner.list_memories, layer=layer, where=where, at=now)):
            counts[layer] += 1
    return Receipt(counts)


def erase(
    whose: Whose,
    whole_org: Annotated[
        bool, typer.Option("--whole-org", help="Everything about all users of the organisation, and what they share.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Forget everything about a user, and leave no trace of it in the file.

    Example: recollect erase --user ann --yes
    """
    validate.identifier(whose.user, "user")
    validate.identifier(whose.org, "org")
    if not yes:
        if not sys.stdin.isatty():
            those = "all users of the organisation" if whole_org else "the user"
            raise ValidationError(f"this forgets everything about {those}; confirm with --yes", field="erase")
        whom = f"all users of {one_line(whose.org, 60)}" if whole_org else whose.name
        if not typer.confirm(f"Forget everything about {whom}?", err=True):
            say("Nothing was forgotten.")
            raise typer.Exit(NOT_FOUND)
    if whole_org:
        show_receipt(look(whose.url, lambda memory: memory.org(whose.org).erase()), whose.as_json)
    else:
        show_receipt(whose.look(lambda who: who.erase()), whose.as_json)


def show_receipt(receipt: Receipt, as_json: bool, *, dry_run: bool = False) -> None:
    if as_json:
        emit(receipt.to_dict() | ({"dry_run": True} if dry_run else {}))
    elif receipt.count:
        heading = "would be forgotten" if dry_run else "forgotten"
        table(["layer", heading], sorted(receipt.forgotten.items()), right=[heading])
        said = f"forgotten at {receipt.at}"
        if dry_run:
            said = "would be forgotten, and with it all that rests on nothing else; nothing was changed"
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
