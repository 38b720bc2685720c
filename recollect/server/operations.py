"""Routes for operators: users, export, import and erasure; statistics, and work that was given up."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from recollect.errors import NotFound
from recollect.importers.jsonl import DEFAULT_SESSION, import_jsonl
from recollect.records import Record, iso
from recollect.server import schemas
from recollect.server.answers import Json
from recollect.server.errors import Refused
from recollect.server.routing import ADMIN, LINES_TYPES, After, Caller, Here, Limit, Owner, router, shapes
from recollect.server.service import Service
from recollect.user import User

routes = router("", "operations")

ForMessages = Annotated[str, Query(description="The session for messages that name none.")]
FailureId = Annotated[str, Path(description="The failed work.")]
EXPORT_RECORDS = 50
"""How many records of an export are in memory at a time."""
BYTES_TYPE = "application/octet-stream"
"""For clients that know no lines of JSON: they send and get the same as bytes."""
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_LINES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The lines; as bytes, if `Accept` names only these.",
        "content": {LINES_TYPES[0]: {"schema": {"type": "string"}}, BYTES_TYPE: _BYTES},
    }
}
_LINES_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            LINES_TYPES[0]: {
                "schema": {"type": "string"},
                "example": '{"role": "user", "content": "My cat is called Admiral.", "session": "monday"}\n',
            },
            BYTES_TYPE: _BYTES,
        },
    }
}


# ── One user as a whole ──────────────────────────────────────────────────────────────────────────


@routes.get("/api/users", responses=shapes(schemas.UserPage))
async def list_users(service: Here, caller: Caller, limit: Limit = 100, after: After = None) -> Response:
    """A page of the org's users that have any data; it may be short: `after` is null only at the end."""
    users, next_page = await service.memory.org(caller.org).users(limit=limit, after=after)
    return Json({"users": users, "after": next_page})


@routes.delete("/api/users/{user}", responses=shapes(schemas.Receipt), openapi_extra=ADMIN)
async def erase_user(owner: Owner) -> Response:
    """Forget everything about a user, in every layer and file. Returns a receipt."""
    return Json((await owner.erase()).to_dict())


@routes.get("/api/users/{user}/export", response_class=StreamingResponse, responses=_LINES)
async def export_user(request: Request, owner: Owner) -> Response:
    """Everything about a user, one JSON object per line; the first line describes the export.

    Records are read while they are sent. If something goes wrong midway, the response is cut off.
    """
    await owner.export_page(limit=1)  # an error at the start is reported before the response begins
    is_for_bytes = request.headers.get("accept", "").strip().lower() == BYTES_TYPE
    return StreamingResponse(export_lines(owner), media_type=BYTES_TYPE if is_for_bytes else LINES_TYPES[0])


@routes.post("/api/users/{user}/import", responses=shapes(schemas.Imported), openapi_extra=_LINES_BODY)
async def import_lines(request: Request, owner: Owner, session: ForMessages = DEFAULT_SESSION) -> Response:
    """Store lines of an export, messages or memories under this user, up to 1 MiB at a time. A repeat adds nothing."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (*LINES_TYPES, BYTES_TYPE):
        raise Refused(415, f"must be {LINES_TYPES[0]}", field="content-type")
    source = io.BytesIO(await request.body())
    return Json((await import_jsonl(owner, source, session=session)).to_dict())


async def export_lines(owner: User) -> AsyncIterator[bytes]:
    """Everything about a user as lines of JSON, read as they are consumed."""
    after: str | None = None
    while True:
        objects, after = await owner.export_page(limit=EXPORT_RECORDS, after=after)
        yield b"".join(to_json(each) + b"\n" for each in objects)
        if after is None:
            return


# ── Figures and failures ─────────────────────────────────────────────────────────────────────────


@routes.get("/api/stats", responses=shapes(schemas.Stats), openapi_extra=ADMIN)
async def get_stats(service: Here) -> Response:
    """How much the whole store holds, how many jobs are waiting, and which components are in use."""
    survey = await service.surveys.latest()
    uses = _without_addresses(service.describe())
    jobs = {"waiting": survey.jobs_waiting, "running": survey.jobs_running, "scheduled": survey.jobs_scheduled}
    jobs_told = jobs | {"oldest_at": iso(survey.waits_since)}
    return Json(
        {
            "users": survey.partitions,
            "records": dict(survey.records),
            "jobs": jobs_told,
            "bytes": survey.bytes,
            "uses": uses,
        }
    )


@routes.get("/api/failures", responses=shapes(schemas.FailurePage), openapi_extra=ADMIN)
async def list_failures(service: Here, caller: Caller, limit: Limit = 100, after: After = None) -> Response:
    """A page of the work for the org's users that was given up, each with its reason."""
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


async def failures_of(service: Service, org: str) -> AsyncIterator[Record]:
    """The work for an org's users that was given up, read page by page."""
    after: str | None = None
    while True:
        found, after = await service.memory.org(org).failures(after=after)
        for record in found:
            yield record
        if after is None:
            return


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
