"""Routes for working memory: the state of the task, of a session or of the user across sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from recollect.server import bodies
from recollect.server.answers import tagged
from recollect.server.routing import VERSIONED, IfMatch, Owner, SessionId, if_matching, router, shapes
from recollect.working import State, Working

routes = router("/api/users/{user}", "sessions")

Agent = Annotated[str, Query(description="The agent it belongs to.")]
WorkingState = Annotated[dict[str, Any], Body(examples=[{"page": {"route": "/orders"}, "plan": ["find the order"]}])]
MergePatch = Annotated[dict[str, Any], Body(examples=[{"plan": ["find the order", "refund it"], "page": None}])]
STATE = shapes(dict[str, Any], headers=VERSIONED)


async def _held(request: Request, owner: Owner) -> Working:
    session = request.path_params.get("session")
    if session is None:
        return owner.working
    return owner.session(session, agent=request.query_params.get("agent", "")).working


async def _of_session(session: SessionId, agent: Agent = "") -> None:
    """What names the state of a session, for the description."""


Held = Annotated[Working, Depends(_held)]


def _state(state: State) -> Response:
    return tagged(dict(state), state.version)


async def get_working(held: Held) -> Response:
    """The state of the task; its version is the ETag. If there is none, it is empty, with the ETag "0"."""
    return _state(await held.get())


async def set_working(held: Held, body: WorkingState, if_match: IfMatch = None) -> Response:
    """Replace the state of the task."""
    return _state(await if_matching(if_match, lambda version: held.set(body, version=version)))


async def patch_working(held: Held, body: MergePatch, if_match: IfMatch = None) -> Response:
    """Change parts of the state (JSON merge patch: null removes, objects merge, the rest replaces)."""
    return _state(await if_matching(if_match, lambda version: held.patch(body, version=version)))


async def push_working(held: Held, body: bodies.PushedItem, if_match: IfMatch = None) -> Response:
    """Append to a list in the state and keep its newest items."""

    async def push(version: int | None) -> State:
        return await held.push(body.name, body.item, keep=body.keep, version=version)

    return _state(await if_matching(if_match, push))


async def clear_working(held: Held, if_match: IfMatch = None) -> Response:
    """Forget the state of the task."""
    await if_matching(if_match, lambda version: held.clear(version=version))
    return Response(status_code=204)


def _add_routes(path: str, whose: str, dependencies: list[Any]) -> None:
    def add(verb: Callable[..., Any], method: str, below: str = "", **more: Any) -> None:
        name = verb.__name__.replace("_working", f"_{whose}working")
        routes.add_api_route(f"{path}{below}", verb, methods=[method], dependencies=dependencies, name=name, **more)

    add(get_working, "GET", responses=STATE)
    add(set_working, "PUT", responses=STATE)
    add(patch_working, "PATCH", responses=STATE)
    add(clear_working, "DELETE", status_code=204)
    add(push_working, "POST", "/push", responses=STATE)


_add_routes("/sessions/{session}/working", "", [Depends(_of_session)])
_add_routes("/working", "user_", [])
