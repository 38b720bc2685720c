"""Routes for an org's business objects, which their owners push here."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from recollect.entities import CachedEntity
from recollect.errors import NotFound
from recollect.server import bodies, schemas
from recollect.server.answers import Json, paged
from recollect.server.routing import After, Caller, Here, Limit, given, router, shapes
from recollect.validate import LIMITS

routes = router("/api/entities", "entities")

Type = Annotated[str, Path(description="The type of the object.", examples=["customer"])]
Id = Annotated[str, Path(description="Its id in the system it comes from.", examples=["42"])]


@routes.get("/{type}", responses=shapes(schemas.BusinessObjectPage))
async def list_entities(
    service: Here, caller: Caller, type: Type, limit: Limit = LIMITS.limit_max, after: After = None
) -> Response:
    """A page of the stored objects of a type; it may be short: `after` is null only at the end."""
    fetch = partial(service.memory.entities(caller.org).page, type)
    return await paged("entities", fetch, CachedEntity.to_dict, limit=limit, after=after)


@routes.delete("/{type}", responses=shapes(schemas.Invalidated))
async def invalidate_type(service: Here, caller: Caller, type: Type) -> Response:
    """Forget all objects of a type."""
    return Json({"invalidated": await service.memory.entities(caller.org).invalidate(type)})


@routes.get("/{type}/{id}", responses=shapes(schemas.BusinessObject))
async def get_entity(service: Here, caller: Caller, type: Type, id: Id) -> Response:
    """The data of an object, if it is stored."""
    data = await service.memory.entities(caller.org).get(type, id)
    service.metrics.count("cache_lookups", cache="entities", result="miss" if data is None else "hit")
    if data is None:
        raise NotFound(field="id")
    return Json({"type": type, "id": id, "data": data})


@routes.put("/{type}/{id}", responses=shapes(schemas.KeptBusinessObject))
async def put_entity(service: Here, caller: Caller, type: Type, id: Id, body: bodies.NewBusinessObject) -> Response:
    """Store an object as it is now."""
    kept = await service.memory.entities(caller.org).put(type, id, **given(body))
    return Json(kept.to_dict())


@routes.delete("/{type}/{id}", responses=shapes(schemas.Invalidated))
async def invalidate_entity(service: Here, caller: Caller, type: Type, id: Id) -> Response:
    """Forget an object."""
    return Json({"invalidated": await service.memory.entities(caller.org).invalidate(type, id)})
