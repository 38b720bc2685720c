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
"""How many entities are listed at once; the others unfold."""
DRAWN = 60
"""How many entities one picture shows. With more, nobody could read any; moving through the graph shows the others."""


@dataclass(frozen=True, slots=True)
class GraphPage:
    """The page: the picture around one entity, and what is known about it in words."""

    start: Entity | None
    depth: int
    picture: Picture
    relations: tuple[Relation, ...]
    entities: tuple[Entity, ...]
    listed: int = LISTED


@routes.get("/users/{user}/graph")
async def graph(request: Request, owner: Owner, entity: str = USER, depth: int = DEPTH) -> Response:
    """What can be reached from an entity."""
    everything = await owner.graph.entities()
    near = Neighbourhood()
    relations: list[Relation] = []
    if everything or entity != USER:
        near = await owner.graph.neighbours(entity, depth=depth, limit=DRAWN)
        relations = await owner.graph.relations(entity, ended=True)
    start = near.entities[0] if near.entities else None

    def drawn() -> Response:
        view = GraphPage(start, depth, picture(near, owner.id), tuple(relations), tuple(everything))
        return page(request, "graph", view)

    return await asyncio.to_thread(drawn)  # finding room for all the text is a lot of arithmetic, and entities are many
