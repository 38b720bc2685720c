"""Routes for a user's entity graph: people, places and things, and how they are related over time."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from recollect.errors import ValidationError
from recollect.graph import NEIGHBOURS
from recollect.policies.graph_views import Neighbourhood
from recollect.server import schemas
from recollect.server.answers import Json, large, made
from recollect.server.routing import PLACED, At, Owner, found_at, given, router, shapes

routes = router("/api/users/{user}/graph", "graph")

Start = Annotated[str | None, Query(description='Where to start: an id, a name, or "user". Default: the whole graph.')]
Depth = Annotated[int | None, Query(description="How many steps from the entity: 1 to 4. Default: 1.")]
Nearest = Annotated[int | None, Query(description=f"How many neighbours at most: 1 to 1000. Default: {NEIGHBOURS}.")]
RelationId = Annotated[str, Path(description="The relation.")]


@routes.get("", responses=shapes(schemas.Graph))
async def get_graph(
    owner: Owner, entity: Start = None, depth: Depth = None, at: At = None, limit: Nearest = None
) -> Response:
    """The whole graph, or what can be reached from an entity (its id, a name, or "user"), now or at a given time."""
    steps = {name: value for name, value in (("depth", depth), ("limit", limit)) if value is not None}
    if entity is not None:
        return await _written(await owner.graph.neighbours(entity, at=at, **steps))
    for name in steps:
        raise ValidationError("applies only to the neighbours of an entity; name one, or leave this out", field=name)
    return await _written(await owner.graph.whole(at=at))


async def _written(found: Neighbourhood) -> Response:
    return await large(found.to_dict, len(found.entities) + len(found.relations))


@routes.post("/entities", status_code=201, responses=shapes(schemas.Entity, 201, headers=PLACED))
async def add_entity(request: Request, owner: Owner, body: schemas.NewEntity) -> Response:
    """Add an entity; an existing one that goes by this name is taken to be the same."""
    entity = await owner.graph.add_entity(**given(body))
    return made(entity.to_dict(), f"{found_at(request, 'graph')}?entity={quote(entity.id, safe='')}")


@routes.post("/relations", status_code=201, responses=shapes(schemas.Relation, 201))
async def relate(owner: Owner, body: schemas.NewRelation) -> Response:
    """State how two entities are related; new names create new entities."""
    return Json((await owner.graph.relate(**given(body))).to_dict(), 201)


@routes.post("/relations/{id}/end", responses=shapes(schemas.Relation))
async def end_relation(owner: Owner, id: RelationId, body: schemas.EndRelation | None = None) -> Response:
    """End a relation; it is kept, with the reason."""
    return Json((await owner.graph.end_relation(id, **given(body or schemas.EndRelation()))).to_dict())


@routes.post("/merge", responses=shapes(schemas.Merge))
async def merge_entities(owner: Owner, body: schemas.MergeEntities) -> Response:
    """Merge two entities into one."""
    return Json((await owner.graph.merge(**given(body))).to_dict())


@routes.post("/undo-merge", responses=shapes(schemas.Merge))
async def undo_merge(owner: Owner, body: schemas.UndoMerge) -> Response:
    """Undo a merge."""
    return Json((await owner.graph.undo_merge(body.other)).to_dict())
