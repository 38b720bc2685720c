"""Commands for single memories: `add`, `list`, `update`, `bring-back`, `history`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from recollect.errors import ValidationError
from recollect.interfaces.options import Where, catch_up, filter_of, json_of, look, place, run
from recollect.interfaces.output import NOT_FOUND, day_and_time, emit, give, one_line, say, table
from recollect.interfaces.whose import WhoseOrShared
from recollect.memory import Memory
from recollect.owner import Owner
from recollect.records import Record, system_clock

MemoryId = Annotated[str, typer.Argument(help="Id of a memory; `list` and `search --explain` show it.")]


def add(
    whose: WhoseOrShared,
    text: Annotated[str, typer.Argument(help="What to remember.")],
    importance: Annotated[float | None, typer.Option(help="0 to 1; without it, the worker rates the text.")] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="JSON", help='Your own labels, such as {"topic": "work"}.')
    ] = None,
    expires_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Keep it until then, such as 2026-03-01T09:30:00Z.", show_default="for good"),
    ] = None,
    only_new: Annotated[
        bool, typer.Option("--only-new", help="Refuse a text that is already stored, and change nothing.")
    ] = False,
) -> None:
    """Remember a text; a repeated text is kept once.

    Example: recollect add "The office is in Porto." --metadata '{"topic": "work"}'
    """
    labels = None if metadata is None else json_of(metadata, "metadata")

    async def keep(memory: Memory) -> Record:
        owner = whose.of(memory)
        record = await owner.add_memory(
            text, importance=importance, metadata=labels, expires_at=expires_at, only_new=only_new
        )
        await catch_up(memory)
        return await owner.get_memory(record.id)

    record = run(whose.url, keep)
    give(whose.as_json, record.to_dict(), f"Remembered for {whose.name} in {place(whose.url)}, as {record.id}.")


def list_memories(
    whose: WhoseOrShared,
    layer: Annotated[str, typer.Option(help="Layer to list; messages are in `conversation`.")] = "long_term",
    where: Where = None,
    limit: Annotated[int, typer.Option(help="How many at most, 1 to 1000.")] = 100,
) -> None:
    """List memories in the order they were first stored.

    Example: recollect list --where '{"metadata.topic": "work"}'
    """
    found, more = whose.look(lambda who: _page(who, layer, filter_of(where), limit))
    if whose.as_json:
        emit([record.to_dict() for record in found])
    elif found:
        table(["id", "when", "memory"], [(r.id, day_and_time(r.when), _with_end(r)) for r in found])
        if more:
            say(f"There are more than these {limit}; raise --limit to see them.")
    else:
        say(f"Nothing in the layer {layer} for {whose.in_words}")
        if layer == "long_term" and not whose.org_wide:
            say("What was said is listed with `--layer conversation`, what was learned from it with `recollect facts`.")
    if not found:
        raise typer.Exit(NOT_FOUND)


async def _page(owner: Owner, layer: str, where: Any, limit: int) -> tuple[list[Record], bool]:
    """Up to `limit` memories: a page under a filter may come up short, so the next one is read as well."""
    now = system_clock()
    found, after = await owner.list_memories(layer=layer, where=where, limit=limit, at=now)
    while after is not None and len(found) < limit:
        page, after = await owner.list_memories(layer=layer, where=where, limit=limit - len(found), after=after, at=now)
        found += page
    return found, after is not None


def _with_end(record: Record) -> str:
    text = one_line(record.content, 300)
    return text if record.valid_to is None else f"{text} (ended: {record.data.get('reason', 'no longer holds')})"


def update(
    whose: WhoseOrShared,
    id: MemoryId,
    text: Annotated[str | None, typer.Argument(help="New text.", show_default="unchanged")] = None,
    importance: Annotated[float | None, typer.Option(help="0 to 1.", show_default="unchanged")] = None,
    metadata: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="New labels; {} removes them.", show_default="unchanged"),
    ] = None,
    expires_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Keep it until then, or never for no limit.", show_default="unchanged"),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            help="Change it only if it still has this version; else fail with a conflict.", show_default=False
        ),
    ] = None,
) -> None:
    """Change a memory; earlier versions stay in its history.

    Example: recollect update 019a7c1f5e21a3b1 "The office is in Lisbon." --importance 0.8
    """
    if text is None and importance is None and metadata is None and expires_at is None:
        raise ValidationError(
            "nothing to change: give a text, --importance, --metadata or --expires-at", field="content"
        )
    labels = None if metadata is None else json_of(metadata, "metadata")

    async def change(memory: Memory) -> Record:
        record = await whose.of(memory).update_memory(
            id, content=text, metadata=labels, importance=importance, expires_at=expires_at, version=version
        )
        await catch_up(memory)
        return record

    record = look(whose.url, change)
    give(whose.as_json, record.to_dict(), f"Changed: {one_line(record.content, 200)}")


def bring_back(
    whose: WhoseOrShared,
    id: Annotated[str, typer.Argument(help="Id of a memory; `maintain` and `list` show it.")],
) -> None:
    """Bring back a memory that upkeep retired, or ended as a duplicate of another.

    Example: recollect bring-back 019a7c1f5e21a3b1
    """
    record = whose.look(lambda who: who.restore(id))
    give(whose.as_json, record.to_dict(), f"Restored: {one_line(record.content, 200)}")


def history(whose: WhoseOrShared, id: MemoryId) -> None:
    """Show the versions of a memory, oldest first.

    Example: recollect history 019a7c1f5e21a3b1
    """
    records = whose.look(lambda who: who.history(id))
    if whose.as_json:
        emit([record.to_dict() for record in records])
        return
    rows = [(_until(record), one_line(record.content, 300)) for record in records]
    table(["until", "memory"], rows)


def _until(record: Record) -> str:
    return "now" if record.valid_to is None else day_and_time(record.valid_to)
