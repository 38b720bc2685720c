"""Routes for operators: users, export, import and erasure; what there is, and what was given up."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Path
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from recollect.errors import NotFound
from recollect.importers.jsonl import DEFAULT_SESSION, import_jsonl
from recollect.memory import User
from recollect.records import Record, iso
from recollect.server import schemas
from recollect.server.answers import Json
from recollect.server.errors import Refused
from recollect.server.routing import ADMIN, LINES_TYPES, Caller, Here, Owner, router, shapes

routes = router("", "operations")

FailureId = Annotated[str, Path(description="The work that was given up.")]
EXPORT_RECORDS = 50
"""Records of an export that are in memory at a time."""
_LINES_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            LINES_TYPES[0]: {
                "schema": {"type": "string"},
                "example": '{"role": "user", "content": "My cat is called Admiral.", "session": "monday"}\n',
            }
        },
    }
}


# ── One user as a whole ──────────────────────────────────────────────────────────────────────────


@routes.get("/api/users", responses=shapes(schemas.UsersShape))
async def list_users(service: Here, caller: Caller, limit: int = 100, after: str | None = None) -> Response:
    """A page of the users of the org that have something; it may be short, `after` is null only at the end."""
    users, next_page = await service.memory.org(caller.org).users(limit=limit, after=after)
    return Json({"users": users, "after": next_page})


@routes.delete("/api/users/{user}", responses=shapes(schemas.ReceiptShape), openapi_extra=ADMIN)
async def erase(owner: Owner) -> Response:
    """Forget everything about a user, in every layer and file. Gives a receipt."""
    return Json((await owner.erase()).to_dict())


@routes.get("/api/users/{user}/export", response_class=StreamingResponse)
async def export(owner: Owner) -> Response:
    """Everything about a user, one JSON object a line; the first says what it is.

    It is read as it is sent. If something goes wrong in the middle, the answer is cut off.
    """
    first = await owner.export_page(limit=EXPORT_RECORDS)
    return StreamingResponse(_lines(owner, first), media_type=LINES_TYPES[0])


@routes.post("/api/users/{user}/import", responses=shapes(schemas.ImportedShape), openapi_extra=_LINES_BODY)
async def import_lines(request: Request, owner: Owner, session: str = DEFAULT_SESSION) -> Response:
    """Store lines of an export, messages or memories under this user, up to 1 MiB at a time. Twice is once."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in LINES_TYPES:
        raise Refused(415, f"must be {LINES_TYPES[0]}", field="content-type")
    source = io.BytesIO(await request.body())
    return Json((await import_jsonl(owner, source, session=session)).to_dict())


async def _lines(owner: User, page: tuple[list[dict[str, Any]], str | None]) -> AsyncIterator[bytes]:
    while True:
        objects, after = page
        yield b"".join(to_json(each) + b"\n" for each in objects)
        if after is None:
            return
        page = await owner.export_page(limit=EXPORT_RECORDS, after=after)


# ── Figures and failures ─────────────────────────────────────────────────────────────────────────


@routes.get("/api/stats", openapi_extra=ADMIN)
async def stats(service: Here) -> Response:
    """How much is remembered in the whole store, what waits, and what is in use."""
    survey = await service.memory.survey()
    uses = service.describe()
    uses["store"] = {name: value for name, value in uses["store"].items() if name != "url"}
    jobs = {"waiting": survey.jobs_waiting, "running": survey.jobs_running, "oldest_at": iso(survey.oldest_job_at)}
    return Json(
        {"users": survey.partitions, "records": dict(survey.records), "jobs": jobs, "bytes": survey.bytes, "uses": uses}
    )


@routes.get("/api/failures", responses=shapes(schemas.FailuresShape), openapi_extra=ADMIN)
async def failures(service: Here, caller: Caller, limit: int = 100, after: str | None = None) -> Response:
    """A page of the work for the users of the org that was given up, with the reason of each."""
    found, next_page = await service.memory.org(caller.org).failures(limit=limit, after=after)
    return Json({"failures": [_failure(record) for record in found], "after": next_page})


@routes.post("/api/failures/{id}/retry", status_code=204, openapi_extra=ADMIN)
async def retry(service: Here, caller: Caller, id: FailureId) -> Response:
    """Give failed work another round of tries."""
    org, after = service.memory.org(caller.org), None
    while True:
        found, after = await org.failures(after=after)
        for record in found:
            if record.id == id:
                await service.memory.retry(record)
                return Response(status_code=204)
        if after is None:
            raise NotFound(field="id")


def _failure(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "user": record.scope.user,
        "at": iso(record.created_at),
        "kind": record.data["kind"],
        "attempts": record.data["attempts"],
        "reason": record.content,
    }
