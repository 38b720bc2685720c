"""Commands for what people talk about: `entities`, the `graph` between them, and `episodes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from recollect.entities import CachedEntity
from recollect.episodes import Episode
from recollect.errors import NotFound, ValidationError
from recollect.interfaces.drawing import to_dot, to_svg
from recollect.interfaces.files import check_target, write_lines
from recollect.interfaces.knowing import percent, show_found, when_true
from recollect.interfaces.options import Json, Org, Url, json_of, look, place, run
from recollect.interfaces.output import NOT_FOUND, day_and_time, emit, give, one_line, plural, say, table, visible
from recollect.interfaces.whose import Whose, WhoseOrShared
from recollect.memory import Memory
from recollect.policies.graph_views import Entity, Merge, Neighbourhood, Relation
from recollect.records import as_datetime

EntityType = Annotated[str, typer.Argument(help="What kind of thing, such as customer or order.")]
EntityId = Annotated[str, typer.Argument(help="Its id in the system it comes from.")]
Named = Annotated[str, typer.Argument(help='A name or an id; "user" is the user.')]
Time = Annotated[str | None, typer.Option(metavar="TIME", help="As of a date or time, such as 2026-03-01.")]
NO_ENTITIES = (
    "No entities are kept here. Applications add them, or `recollect entities put` does, for an hour by default."
)
DEPTH = 1
"""Steps from an entity by default: only what is directly related to it."""


# ── Business objects ─────────────────────────────────────────────────────────────────────────────


def entities_list(
    type: Annotated[str | None, typer.Option(help="Only this type.")] = None,
    url: Url = None,
    org: Org = "default",
    as_json: Json = False,
) -> None:
    """List the business objects that are currently kept.

    Example: recollect entities list --type customer
    """
    found = look(url, lambda memory: memory.entities(org).list(type))
    rows = [(each.type, each.id, _until(each.expires_at), one_line(each.content, 300)) for each in found]
    show_found(found, as_json, ["type", "id", "kept until", "entity"], rows, NO_ENTITIES)


def entities_get(
    type: EntityType, id: EntityId, url: Url = None, org: Org = "default", as_json: Json = False
) -> None:  # fmt: skip
    """Show a business object that is kept.

    Example: recollect entities get customer 42
    """
    data = look(url, lambda memory: memory.entities(org).get(type, id))
    if data is None:
        raise NotFound("it is not kept here; the application loads it when it is needed", field="entity")
    if as_json:
        emit(data)
    else:
        table(["field", "value"], [(key, value) for key, value in data.items()])


def entities_put(
    type: EntityType,
    id: EntityId,
    data: Annotated[str, typer.Argument(metavar="JSON", help='Its data, such as {"name": "Acme", "plan": "gold"}.')],
    name: Annotated[str | None, typer.Option(help="What people call it; else the name in its data.")] = None,
    alias: Annotated[list[str] | None, typer.Option(help="Another name; may be repeated.")] = None,
    life: Annotated[float | None, typer.Option(metavar="SECONDS", help="How long to keep it; else an hour.")] = None,
    url: Url = None,
    org: Org = "default",
    as_json: Json = False,
) -> None:
    """Keep a business object as it is now, replacing the copy kept before.

    Example: recollect entities put customer 42 '{"name": "Acme GmbH", "plan": "gold"}'
    """
    given = json_of(data, "data")

    async def keep(memory: Memory) -> CachedEntity:
        return await memory.entities(org).put(type, id, given, name=name, aliases=alias or [], ttl_s=life)

    kept = run(url, keep)
    give(as_json, kept.to_dict(), f"Kept until {_until(kept.expires_at)}: {one_line(kept.content, 200)}")


def entities_invalidate(
    type: Annotated[str | None, typer.Argument(help="The type to drop.", show_default=False)] = None,
    id: Annotated[str | None, typer.Argument(help="Only this one.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Drop every type.")] = False,
    url: Url = None,
    org: Org = "default",
    as_json: Json = False,
) -> None:
    """Drop a business object, a whole type, or everything, so that it is loaded again when it is needed.

    Example: recollect entities invalidate customer 42
    """
    if everything == (type is not None):
        raise ValidationError("name a type, or give --all", field="type")
    count = look(url, lambda memory: memory.entities(org).invalidate(type, id))
    give(as_json, {"invalidated": count}, f"Dropped {plural(count, 'entity')}.")
    if not count:
        raise typer.Exit(NOT_FOUND)


def _until(expires_at: int | None) -> str:
    return "for good" if expires_at is None else day_and_time(expires_at)


# ── The graph ────────────────────────────────────────────────────────────────────────────────────


def graph_show(
    whose: WhoseOrShared,
    entity: Annotated[
        str | None, typer.Argument(help='A name, an id, or "user"; else the whole graph.', show_default=False)
    ] = None,
    depth: Annotated[int | None, typer.Option(help="Steps from the entity, 1 to 4.", show_default=str(DEPTH))] = None,
    at: Time = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it, for a browser.")] = None,
    dot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it for Graphviz.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Show the people, places and things a user talks about and how they are related, or what is near one of them.

    Example: recollect graph show Ana --depth 2 --svg ana.svg
    """
    for file in (svg, dot):
        if file is not None:
            check_target(file, force=force)
    if entity is None and depth is not None:
        raise ValidationError("needs an entity to count from", field="depth")

    if entity is None:
        found = whose.look(lambda who: who.graph.whole(at=at))
    else:
        found = whose.look(lambda who: who.graph.neighbours(entity, depth=depth or DEPTH, at=at))
    for file, draw in ((svg, to_svg), (dot, to_dot)):
        if file is not None:
            write_lines(file, draw(found).splitlines(), force=force)
    if whose.as_json:
        emit(found.to_dict())
    else:
        _show_graph(found)
        for file in filter(None, (svg, dot)):
            say(f"Written to {one_line(str(file), 200)}.")
    if not found.entities:
        raise typer.Exit(NOT_FOUND)


def _show_graph(graph: Neighbourhood) -> None:
    if not graph.entities:
        say("The graph is still empty; `recollect graph add Ana` adds somebody.")
        return
    table(["name", "type", "also called"], [(e.name, e.type, ", ".join(e.aliases)) for e in graph.entities])
    if graph.relations:
        rows = [(r.id, _days(r), percent(r.confidence), r.content) for r in graph.relations]
        table(["id", "since", "sure", "relation"], rows, right=["sure"])


def _days(relation: Relation) -> str:
    begins, ends = (None if t is None else day_and_time(t)[:10] for t in (relation.valid_from, relation.valid_to))
    return (begins or "") + (f" to {ends}" if ends else "")


def graph_add(
    whose: WhoseOrShared,
    name: Annotated[str, typer.Argument(help="What it is called.")],
    type: Annotated[str, typer.Option(help="person, place, organisation or another word.")] = "thing",
    alias: Annotated[list[str] | None, typer.Option(help="Another name; may be repeated.")] = None,
) -> None:
    """Add a person, place or thing; one that already goes by the name is reused, and gets the other names too.

    Example: recollect graph add Ana --type person --alias Anita
    """
    names = alias or []
    added = whose.run(lambda who: who.graph.add_entity(name, type=type, aliases=names))
    give(whose.as_json, added.to_dict(), f"{_told(added)}\n  id {added.id}")


def graph_relate(
    whose: WhoseOrShared,
    subject: Named,
    relation: Annotated[str, typer.Argument(help="How they are connected, such as works_at or sister.")],
    object: Named,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Since when; else from now on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Until when, if it is over.")] = None,
    confidence: Annotated[float, typer.Option(help="How sure it is, 0 to 1.")] = 1.0,
) -> None:
    """Say how two entities are related; an unknown name creates a new entity.

    Example: recollect graph relate Ana lives_in Bergen --since 2026-03-01
    """
    told = whose.run(
        lambda who: who.graph.relate(subject, relation, object, confidence=confidence, valid_from=since, valid_to=until)
    )
    _show_relation(when_true(_datetime(told.valid_from), _datetime(told.valid_to)), told, whose.as_json)


def graph_end(
    whose: WhoseOrShared,
    id: Annotated[str, typer.Argument(help="Id of a relation; `graph show` shows it.")],
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When it ended; else now.")] = None,
    reason: Annotated[str, typer.Option(help="Why; kept with the relation.")] = "ended by hand",
) -> None:
    """End a relation; it is kept as a past one.

    Example: recollect graph end 019a7c1f5e21a3b1 --at 2026-03-01
    """
    ended = whose.look(lambda who: who.graph.end_relation(id, at, reason))
    _show_relation("Ended", ended, whose.as_json)


def graph_merge(whose: WhoseOrShared, kept: Named, other: Named) -> None:
    """Merge two entities: the names and relations of the second are seen as those of the first.

    Example: recollect graph merge Ana Anita
    """
    done = whose.look(lambda who: who.graph.merge(kept, other))
    _show_merge(f"Merged: {_told(done.kept)}", done, whose.as_json)


def graph_undo_merge(whose: WhoseOrShared, other: Named) -> None:
    """Undo a merge: both entities are as they were.

    Example: recollect graph undo-merge Anita
    """
    done = whose.look(lambda who: who.graph.undo_merge(other))
    _show_merge(f"Separate again: {_told(done.kept)} and {_told(done.other)}", done, whose.as_json)


def _told(entity: Entity) -> str:
    also = f", also called {', '.join(entity.aliases)}" if entity.aliases else ""
    return f"{one_line(entity.name, 128)} ({entity.type}){one_line(also, 300)}"


def _datetime(moment: int | None) -> datetime | None:
    return None if moment is None else as_datetime(moment)


def _show_relation(done: str, relation: Relation, as_json: bool) -> None:
    give(as_json, relation.to_dict(), f"{done}: {one_line(relation.content, 300)}\n  id {relation.id}")


def _show_merge(done: str, merge: Merge, as_json: bool) -> None:
    give(as_json, merge.to_dict(), f"{done}.")


# ── Episodes ─────────────────────────────────────────────────────────────────────────────────────


def episodes_list(
    whose: Whose,
    session: Annotated[str | None, typer.Option(help="Only this session.")] = None,
    limit: Annotated[int, typer.Option(help="How many at most, 1 to 1000.")] = 20,
) -> None:
    """List remembered stretches of conversation, newest first.

    Example: recollect episodes list --session monday
    """
    found = whose.look(lambda who: who.episodes.list(limit, session=session))
    rows = [(each.id, day_and_time(each.started_at), one_line(each.title or each.content, 200)) for each in found]
    nothing = f"No episodes for {whose.name} in {place(whose.url)}; a session becomes one when it is idle for a while."
    show_found(found, whose.as_json, ["id", "when", "what it was about"], rows, nothing)


def episodes_show(
    whose: Whose, id: Annotated[str, typer.Argument(help="Id of an episode; `episodes` shows it.")]
) -> None:
    """Show an episode: what was said, who was named, what was decided and what is open.

    Example: recollect episodes show 019a7c1f5e21a3b1
    """
    found = whose.look(lambda who: who.episodes.get(id))
    if whose.as_json:
        emit(found.to_dict())
    else:
        _show_episode(found)


def episodes_close(
    whose: Whose, session: Annotated[str, typer.Argument(help="Id of the session that is over.")]
) -> None:
    """Close a session: what is not in an episode yet becomes one now.

    Example: recollect episodes close monday
    """
    show_noted(whose.look(lambda who: who.episodes.close(session)), whose.as_json)


def show_noted(made: Sequence[Episode], as_json: bool) -> None:
    """Show what became of a closed session."""
    if as_json:
        emit([each.to_dict() for each in made])
    elif not made:
        say("There is nothing to add: everything is in an episode already, or too little was said.")
    else:
        for each in made:
            _show_episode(each)
    if not made:
        raise typer.Exit(NOT_FOUND)


def _show_episode(episode: Episode) -> None:
    title = one_line(episode.title, 200) or "Untitled"
    span = f"{day_and_time(episode.started_at)} to {day_and_time(episode.ended_at)[11:]}"
    say(title, style="bold")
    say(
        f"{span}, {plural(len(episode.messages), 'message')} of {one_line(episode.session, 60)}, id {episode.id}", "dim"
    )
    say(visible(episode.content))
    _show_list("People", episode.people)
    # Without a model the text quotes decisions and questions itself.
    _show_list("Decided", [each for each in episode.decisions if each not in episode.content])
    _show_list("Open", [each for each in episode.open_questions if each not in episode.content])


def _show_list(heading: str, items: Sequence[str]) -> None:
    if items:
        say(f"{heading}: " + "; ".join(one_line(item, 200) for item in items))


# ── By name ──────────────────────────────────────────────────────────────────────────────────────

ENTITIES: dict[str, Callable[..., None]] = {
    "list": entities_list,
    "get": entities_get,
    "put": entities_put,
    "invalidate": entities_invalidate,
}
GRAPH: dict[str, Callable[..., None]] = {
    "show": graph_show,
    "add": graph_add,
    "relate": graph_relate,
    "end": graph_end,
    "merge": graph_merge,
    "undo-merge": graph_undo_merge,
}
EPISODES: dict[str, Callable[..., None]] = {
    "list": episodes_list,
    "show": episodes_show,
    "close": episodes_close,
}
