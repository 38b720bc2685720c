"""Pages for operators: work that is waiting or was given up, and the keys of the org."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recollect.errors import Forbidden, NotFound
from recollect.records import Record
from recollect.server.console.door import Filled, router
from recollect.server.console.pages import Chosen, moved, page, wants_fragment
from recollect.server.gate import Principal
from recollect.server.keys import SCOPES, Key
from recollect.server.operations import FailureId, failures_of, give_another_try
from recollect.server.routing import ADMIN, Caller, Here
from recollect.server.service import Service
from recollect.stores.contract import Survey

routes = router()

ALLOWS = {"read": "see everything", "write": "also add, change and forget", "admin": "also erase, and manage keys"}
"""What each scope allows, in words."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Work that is waiting, and work that was given up."""

    survey: Survey
    done: int
    failed: int
    worker: str
    failures: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A key in the list."""

    key: Key
    state: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the org; `token` is shown once, right after it was created."""

    rows: tuple[Row, ...]
    org: str
    scopes: Mapping[str, str]
    token: str = ""
    was_first: bool = False


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/jobs", openapi_extra=ADMIN)
async def jobs(request: Request, service: Here, caller: Caller, chosen: Chosen = "") -> Response:
    """What is waiting to be done, and what could not be done."""
    uses: dict[str, Any] = service.memory.describe()
    # The page asks again every few seconds, which is no reason to count a large store each time.
    counted = service.surveys.latest() if wants_fragment(request) else service.memory.survey()
    view = Jobs(
        survey=await counted,
        done=uses["jobs"]["done"],
        failed=uses["jobs"]["failed"],
        worker=uses["worker"],
        failures=tuple([each async for each in failures_of(service, caller.org)]),
    )
    return page(request, "jobs", view)


@routes.post("/jobs/{id}/retry", openapi_extra=ADMIN)
async def retry(request: Request, service: Here, caller: Caller, id: FailureId) -> Response:
    """Give failed work another round of attempts."""
    await give_another_try(service, caller.org, id)
    return moved(request, "jobs", notice="It will be retried.")


@routes.post("/jobs/retry-all", openapi_extra=ADMIN)
async def retry_all(request: Request, service: Here, caller: Caller) -> Response:
    """Give all failed work of the org another round of attempts."""
    failed = [each async for each in failures_of(service, caller.org)]
    for record in failed:
        await service.memory.retry(record)
    return moved(request, "jobs", notice=f"{len(failed)} will be retried.")


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/keys", openapi_extra=ADMIN)
async def keys(request: Request, service: Here, caller: Caller, chosen: Chosen = "") -> Response:
    """Who may use this server."""
    return page(request, "keys", await _keys(service, caller))


@routes.post("/keys", openapi_extra=ADMIN)
async def create_key(request: Request, service: Here, caller: Caller, form: Filled) -> Response:
    """Create a key for the caller's org, and show it this once."""
    was_first = not await service.keys.exist()
    _, token = await service.keys.create(
        org=caller.org,
        user=form.optional("user"),
        scope=form.get("scope"),
        expires=form.optional("expires"),
        name=form.get("name").strip(),
    )
    return page(request, "keys", await _keys(service, caller, token, was_first))


@routes.post("/keys/{id}/revoke", openapi_extra=ADMIN)
async def revoke_key(request: Request, service: Here, caller: Caller, id: str) -> Response:
    """Revoke a key, from the next request on."""
    if id not in {key.id for key in await service.keys.list() if key.org == caller.org}:
        raise NotFound(field="id")
    if id == caller.key:
        raise Forbidden("you are signed in with this key; sign in with another one to revoke it", field="id")
    await service.keys.revoke(id)
    return moved(request, "keys", notice="The key is revoked.")


async def _keys(service: Service, caller: Principal, token: str = "", was_first: bool = False) -> Keys:
    now = service.clock()
    rows = [
        Row(key, key.state(now), key.id == caller.key) for key in await service.keys.list() if key.org == caller.org
    ]
    return Keys(tuple(reversed(rows)), caller.org, {scope: ALLOWS[scope] for scope in SCOPES}, token, was_first)
