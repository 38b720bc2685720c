"""Routes for operators: users, statistics, and work that was given up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Path
from starlette.responses import Response

from recollect.errors import NotFound
from recollect.paging import every
from recollect.records import Record, iso
from recollect.server import schemas
from recollect.server.answers import Json
from recollect.server.routing import ADMIN, After, Caller, Here, Limit, router, shapes
from recollect.server.service import Service

routes = router("", "operations")

FailureId = Annotated[str, Path(description="The failed work.")]


@routes.get("/api/users", responses=shapes(schemas.UserPage))
async def list_users(service: Here, caller: Caller, limit: Limit = 100, after: After = None) -> Response:
    """A page of the org's users that have any data; it may be short: `after` is null only at the end."""
    users, next_page = await service.memory.org(caller.org).users(limit=limit, after=after)
    return Json({"users": users, "after": next_page})


@routes.get("/api/stats", responses=shapes(schemas.Stats), openapi_extra=ADMIN)
async def get_stats(service: Here) -> Response:
    """How much the whole store holds, how many jobs are waiting, and which components are in use."""
    survey = await service.surveys.latest()
    return Json(
        {
            "users": survey.partitions,
            "records": dict(survey.records),
            "jobs": survey.jobs | {"oldest_at": iso(survey.waits_since)},
            "bytes": survey.bytes,
            "uses": _without_addresses(service.describe()),
        }
    )


@routes.get("/api/failures", responses=shapes(schemas.FailurePage), openapi_extra=ADMIN)
async def list_failures(service: Here, caller: Caller, limit: Limit = 100, after: After = None) -> Response:
    """A page of the work for the org and its users that was given up, each with its reason."""
    found, next_page = await service.memory.org(caller.org).failures(limit=limit, after=after)
    return Json({"failures": [_failure(record) for record in found], "after": next_page})


@routes.post("/api/failures/{id}/retry", status_code=204, openapi_extra=ADMIN)
async def retry_failure(service: Here, caller: Caller, id: FailureId) -> Response:
    """Give failed work another round of attempts."""
    await give_another_try(service, caller.org, id)
    return Response(status_code=204)


async def give_another_try(service: Service, org: str, id: str) -> None:
    """Give one of the org's failures another round of attempts."""
    async for record in failures_of(service, org):
        if record.id == id:
            await service.memory.retry(record)
            return
    raise NotFound(field="id")


def failures_of(service: Service, org: str) -> AsyncIterator[Record]:
    """The work for an org and its users that was given up."""
    return every(service.memory.org(org).failures)


def _without_addresses(told: Any) -> Any:
    """The same, at any depth, without the addresses of stores and indexes: an org need not know what it runs on."""
    if not isinstance(told, dict):
        return told
    return {name: _without_addresses(value) for name, value in told.items() if name != "url"}


def _failure(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "user": record.scope.user,
        "at": iso(record.created_at),
        "kind": record.data["kind"],
        "attempts": record.data["attempts"],
        "reason": record.content,
    }
