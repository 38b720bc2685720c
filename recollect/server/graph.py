"""Routes of the entity graph of a user: people, places and things, and how they hang together in time."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from recollect.graph import NEIGHBOURS
from recollect.server import schemas
from recollect.server.answers import Json
from recollect.server.routing import Owner, given, router, shapes

routes = router("/api/users/{user}/graph", "graph")

RelationId = Annotated[str, Path(description="The relation.")]


@routes.get("", responses=shapes(schemas.GraphShape))
async def graph(
    owner: Owner, entity: str | None = None, depth: int = 1, at: str | None = None, limit: int = NEIGHBOURS
) -> Response:
    """The whole graph, or what can be reached from an entity (its id, a name, or "user"), now or at a time."""
    if entity is None:
        return Json((await owner.graph.whole(at=at)).to_dict())
    return Json((await owner.graph.neighbours(entity, depth=depth, at=at, limit=limit)).to_dict())


@routes.post("/entities", status_code=201, responses=shapes(schemas.EntityShape, 201))
async def add_entity(owner: Owner, body: schemas.NewEntity) -> Response:
    """Add an entity; one that goes by the name already is the same one."""
    return Json((await owner.graph.add_entity(**given(body))).to_dict(), 201)


@routes.post("/relations", status_code=201, responses=shapes(schemas.RelationShape, 201))
async def relate(owner: Owner, body: schemas.NewRelation) -> Response:
    """Say how two entities hang together; new names make new entities."""
    return Json((await owner.graph.relate(**given(body))).to_dict(), 201)


@routes.post("/relations/{id}/end", responses=shapes(schemas.RelationShape))
async def end_relation(owner: Owner, id: RelationId, body: schemas.EndRelation) -> Response:
    """Let a relation be over; it is kept, with the reason."""
    return Json((await owner.graph.end_relation(id, **given(body))).to_dict())


@routes.post("/merge", responses=shapes(schemas.MergeShape))
async def merge(owner: Owner, body: schemas.MergeEntities) -> Response:
    """Make two entities one."""
    return Json((await owner.graph.merge(**given(body))).to_dict())


@routes.post("/undo-merge", responses=shapes(schemas.MergeShape))
async def undo_merge(owner: Owner, body: schemas.UndoMerge) -> Response:
    """Take a merge back."""
    return Json((await owner.graph.undo_merge(body.other)).to_dict())
