"""Routes for what an org shares: the same calls as for a user's memories, under a path of their own.

A key for one user is refused here, to read as well. What a user may know of the org is found under the user's own path,
as with the user's handle in Python: by searching, in contexts, among the learnings, and with `effective` instructions.
The whole of it, its history and its export are no user's to see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from recollect.errors import ValidationError
from recollect.server import schemas
from recollect.server.answers import Json
from recollect.server.routing import ADMIN, WHOLE_ORG, Caller, Here, of_user, router, shapes

routes = router("/api/org", "org")

Verb = TypeVar("Verb", bound=Callable[..., Any])
Confirmed = Annotated[
    str, Query(description="The name of the org, to say that all of it is meant.", examples=["default"])
]


def alike(own: APIRouter, method: str, path: str, *, org: str, **more: Any) -> Callable[[Verb], Verb]:
    """Add a call to the routes of users (`own`) and, under the name `org`, to those of the org."""
    extra, before = more.pop("openapi_extra", {}), more.pop("dependencies", [])

    def add(verb: Verb) -> Verb:
        shared = {"methods": [method], **more}
        own.add_api_route(path, verb, openapi_extra=extra, dependencies=[Depends(of_user), *before], **shared)
        extra_of_org = {**extra, WHOLE_ORG: True}
        routes.add_api_route(path, verb, openapi_extra=extra_of_org, dependencies=before, **{**shared, "name": org})
        return verb

    return add


@routes.delete("", responses=shapes(schemas.Receipt), openapi_extra={**ADMIN, WHOLE_ORG: True})
async def erase_org(service: Here, caller: Caller, confirm: Confirmed) -> Response:
    """Forget everything about the org: all of its users, and what they share. Returns a receipt."""
    if confirm != caller.org:
        raise ValidationError("must be the name of the org: all of its users will be erased", field="confirm")
    return Json((await service.memory.org(caller.org).erase()).to_dict())
