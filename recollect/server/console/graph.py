"""The entity graph, drawn: people, places and things, and how they are related; a click moves on to the next entity."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from recollect.policies.graph_views import Entity, Neighbourhood, Relation
from recollect.policies.graphs import USER
from recollect.server.console.door import router
from recollect.server.console.pages import page
from recollect.server.console.picture import Picture, picture
from recollect.server.routing import Owner

routes = router()

DEPTH = 2
"""Steps around the user that are drawn first."""
LISTED = 60
"""How many entities are listed; with more than that, one finds the others by name."""
DRAWN = 40
"""How many entities one picture shows. With more, nobody could read any; moving through the graph shows the others."""
RELATIONS_SHOWN = 30
"""How many relations of an entity are listed at once; as many again unfold."""


@dataclass(frozen=True, slots=True)
class GraphPage:
    """The page: the picture around one entity, and what is known about it in words."""

    start: Entity | None
    depth: int
    picture: Picture
    relations: tuple[Relation, ...]
    entities: tuple[Entity, ...]
    known: int
    find: str
    shown: int = RELATIONS_SHOWN

    @property
    def listed(self) -> tuple[Entity, ...]:
        """Entities by name, as many as a page can show."""
        return self.entities[:LISTED]

    @property
    def is_part(self) -> bool:
        """Whether there may be more around the entity than is drawn."""
        return len(self.picture.nodes) == DRAWN


@routes.get("/users/{user}/graph")
async def graph(request: Request, owner: Owner, entity: str = USER, depth: int = DEPTH, find: str = "") -> Response:
    """What can be reached from an entity; with `find`, the entities with a name like that are listed."""
    everything = await owner.graph.entities()
    near = Neighbourhood()
    relations: list[Relation] = []
    if everything or entity != USER:
        near = await owner.graph.neighbours(entity, depth=depth, limit=DRAWN)
        relations = await owner.graph.relations(entity, ended=True)
    start = near.entities[0] if near.entities else None

    def drawn() -> Response:
        named = [each for each in everything if _is_named(each, find, owner.id)]
        named.sort(key=lambda each: (each.name != USER, each.name.casefold()))
        view = GraphPage(
            start, depth, picture(near, owner.id), _latest(relations), tuple(named), len(everything), find.strip()
        )
        return page(request, "graph", view)

    return await asyncio.to_thread(drawn)  # finding room for all the text is a lot of arithmetic, and entities are many


def _is_named(entity: Entity, find: str, user: str) -> bool:
    wanted = find.strip().casefold()
    name = user if entity.name == USER else entity.name
    return any(wanted in each.casefold() for each in (name, *entity.aliases))


def _latest(relations: list[Relation]) -> tuple[Relation, ...]:
    """What holds first, and of that the latest first."""
    ordered = sorted(relations, key=lambda each: (each.valid_to is not None, -(each.valid_from or 0)))
    return tuple(ordered[: 2 * RELATIONS_SHOWN])
