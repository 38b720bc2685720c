"""Routes for the entity graph of a user or an org: people, places and things, and how they are related over time."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from recollect.errors import ValidationError
from recollect.graph import NEIGHBOURS
from recollect.policies.graph_views import Entity, Neighbourhood
from recollect.server import bodies, schemas
from recollect.server.answers import Json, large, made, paged
from recollect.server.org import alike
from recollect.server.routing import PLACED, After, At, Holder, Limit, found_at, given, router, shapes

routes = router("/api/users/{user}", "graph")

Start = Annotated[str | None, Query(description='Where to start: an id, a name, or "user". Default: the whole graph.')]
Depth = Annotated[int | None, Query(description="How many steps from the entity: 1 to 4. Default: 1.")]
Nearest = Annotated[int | None, Query(description=f"How many neighbours at most: 1 to 1000. Default: {NEIGHBOURS}.")]
EntityType = Annotated[str | None, Query(description="Only those of this type, such as person.")]
OfEntity = Annotated[str | None, Query(description='Only those of this entity: its id, a name, or "user".')]
Ended = Annotated[bool, Query(description="Include every period that has ended.")]
RelationId = Annotated[str, Path(description="The relation.")]


@alike(routes, "GET", "/graph", org="get_org_graph", responses=shapes(schemas.Graph))
async def get_graph(
    held: Holder, entity: Start = None, depth: Depth = None, at: At = None, limit: Nearest = None
) -> Response:
    """The whole graph, or what can be reached from an entity (its id, a name, or "user"), now or at a given time."""
    steps = {name: value for name, value in (("depth", depth), ("limit", limit)) if value is not None}
    if entity is not None:
        return await _written(await held.graph.neighbours(entity, at=at, **steps))
    for name in steps:
        raise ValidationError("applies only to the neighbours of an entity; name one, or leave this out", field=name)
    return await _written(await held.graph.whole(at=at))


async def _written(found: Neighbourhood) -> Response:
    return await large(found.to_dict, len(found.entities) + len(found.relations))


@alike(routes, "GET", "/graph/entities", org="list_org_graph_entities", responses=shapes(schemas.EntityPage))
async def list_graph_entities(
    held: Holder, type: EntityType = None, limit: Limit = 100, after: After = None
) -> Response:
    """A page of the entities, in the order in which they became known."""
    fetch = partial(held.graph.entities_page, type)
    return await paged("entities", fetch, Entity.to_dict, limit=limit, after=after)


@alike(routes, "GET", "/graph/relations", org="list_org_relations", responses=shapes(schemas.RelationPage))
async def list_relations(
    held: Holder,
    entity: OfEntity = None,
    at: At = None,
    ended: Ended = False,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """A page of the relations that hold now or held at a given time, or of all that ever held (`ended`)."""
    found, next_page = await held.graph.relations_page(entity, at=at, ended=ended, limit=limit, after=after)
    return Json({"relations": [relation.to_dict() for relation in found], "after": next_page})


@alike(
    routes,
    "POST",
    "/graph/entities",
    org="add_org_entity",
    status_code=201,
    responses=shapes(schemas.Entity, 201, headers=PLACED),
)
async def add_entity(request: Request, held: Holder, body: bodies.NewEntity) -> Response:
    """Add an entity; an existing one that goes by this name is taken to be the same."""
    entity = await held.graph.add_entity(**given(body))
    return made(entity.to_dict(), f"{found_at(request, 'graph')}?entity={quote(entity.id, safe='')}")


@alike(
    routes, "POST", "/graph/relations", org="relate_in_org", status_code=201, responses=shapes(schemas.Relation, 201)
)
async def relate(held: Holder, body: bodies.NewRelation) -> Response:
    """State how two entities are related; new names create new entities."""
    return Json((await held.graph.relate(**given(body))).to_dict(), 201)


@alike(routes, "POST", "/graph/relations/{id}/end", org="end_org_relation", responses=shapes(schemas.Relation))
async def end_relation(held: Holder, id: RelationId, body: bodies.EndRelation | None = None) -> Response:
    """End a relation; it is kept, with the reason."""
    return Json((await held.graph.end_relation(id, **given(body or bodies.EndRelation()))).to_dict())


@alike(routes, "POST", "/graph/merge", org="merge_org_entities", responses=shapes(schemas.Merge))
async def merge_entities(held: Holder, body: bodies.MergeEntities) -> Response:
    """Merge two entities into one."""
    return Json((await held.graph.merge(**given(body))).to_dict())


@alike(routes, "POST", "/graph/undo-merge", org="undo_org_merge", responses=shapes(schemas.Merge))
async def undo_merge(held: Holder, body: bodies.UndoMerge) -> Response:
    """Undo a merge."""
    return Json((await held.graph.undo_merge(body.other)).to_dict())
