"""Routes for standing instructions of a user, and an org's defaults below them: for one agent, or for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from recollect.customizations import Customization, Customizations
from recollect.server import bodies, schemas
from recollect.server.answers import Json, tagged
from recollect.server.org import alike
from recollect.server.routing import VERSIONED, AgentName, Holder, IfMatch, given, if_matching, router, shapes

routes = router("/api/users/{user}", "customizations")

Effective = Annotated[bool, Query(description="List what is in effect, including the defaults of the org.")]
InstructionId = Annotated[str, Path(description="The instruction.", examples=["tone"])]


async def _held(request: Request, holder: Holder) -> Customizations:
    return holder.customizations.of_agent(request.path_params.get("agent", ""))


async def _for_one(agent: AgentName) -> str:
    return agent


Held = Annotated[Customizations, Depends(_held)]


def _listed(found: list[Customization]) -> Response:
    return Json({"customizations": [each.to_dict() for each in found]})


def _one(found: Customization, status: int = 200) -> Response:
    return tagged(found.to_dict(), found.version, status)


async def list_customizations(held: Held, effective: Effective = False) -> Response:
    """The instructions in their order; with `effective`, those in effect, including the org's defaults."""
    return _listed(await (held.effective() if effective else held.list()))


async def customize(held: Held, body: bodies.NewCustomization) -> Response:
    """Add a standing instruction."""
    return _one(await held.add(**given(body)), 201)


async def reorder_customizations(held: Held, body: bodies.CustomizationOrder) -> Response:
    """Reorder the instructions; each of them must be named once."""
    return _listed(await held.reorder(body.ids))


async def update_customization(
    held: Held, id: InstructionId, body: bodies.CustomizationEdit, if_match: IfMatch = None
) -> Response:
    """Change an instruction, or switch it on or off."""
    return _one(await if_matching(if_match, lambda version: held.update(id, **given(body), version=version)))


async def delete_customization(held: Held, id: InstructionId, if_match: IfMatch = None) -> Response:
    """Remove an instruction; a default of the org with the same id takes effect again."""
    await if_matching(if_match, lambda version: held.delete(id, version=version))
    return Response(status_code=204)


def _add_routes(path: str, dependencies: list[Any], whose: str = "") -> None:
    """The calls of a user and of the org; `whose` ends their names."""

    def add(verb: Callable[..., Any], org: str, method: str, below: str = "", **more: Any) -> None:
        name = f"{verb.__name__}{whose}"
        alike(routes, method, f"{path}{below}", org=f"{org}{whose}", name=name, dependencies=dependencies, **more)(verb)

    several, one = shapes(schemas.Customizations), shapes(schemas.Customization, headers=VERSIONED)
    made = shapes(schemas.Customization, 201, headers=VERSIONED)
    add(list_customizations, "list_org_customizations", "GET", responses=several)
    add(customize, "customize_org", "POST", responses=made, status_code=201)
    add(reorder_customizations, "reorder_org_customizations", "PUT", "/order", responses=several)
    add(update_customization, "update_org_customization", "PATCH", "/{id}", responses=one)
    add(delete_customization, "delete_org_customization", "DELETE", "/{id}", status_code=204)


_add_routes("/agents/{agent}/customizations", [Depends(_for_one)], "_for_agent")
_add_routes("/customizations", [])
