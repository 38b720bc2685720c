"""Routes for all that a user has, or an org shares, at once: export, import, erasure, upkeep, reading it again."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Query
from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from recollect.importers.jsonl import DEFAULT_SESSION, import_jsonl
from recollect.owner import Owner as Handle
from recollect.server import bodies, schemas
from recollect.server.admission import VISIT
from recollect.server.answers import Json
from recollect.server.errors import Refused
from recollect.server.gate import PRINCIPAL
from recollect.server.org import alike
from recollect.server.routing import (
    ADMIN,
    LINES_TYPES,
    WHOLE_ORG,
    Holder,
    Owner,
    given,
    media_type_of,
    router,
    service_of,
    shapes,
)

Result = TypeVar("Result")
routes = router("/api/users/{user}", "operations")

ForMessages = Annotated[str, Query(description="The session for messages that name none.")]
FOR_OPERATORS = {**ADMIN, WHOLE_ORG: True}
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


@routes.delete("", responses=shapes(schemas.Receipt), openapi_extra=ADMIN)
async def erase_user(owner: Owner) -> Response:
    """Forget everything about a user, in every layer and file. Returns a receipt."""
    return Json((await owner.erase()).to_dict())


@alike(
    routes, "GET", "/export", org="export_org", name="export_user", response_class=StreamingResponse, responses=_LINES
)
async def export_all(request: Request, held: Holder) -> Response:
    """Everything about a user, or all that the org shares, one JSON object per line; the first describes the export.

    Records are read while they are sent. If something goes wrong midway, the response is cut off.
    """
    await held.export_page(limit=1)  # an error at the start is reported before the response begins
    is_for_bytes = request.headers.get("accept", "").strip().lower() == BYTES_TYPE
    return StreamingResponse(export_lines(held), media_type=BYTES_TYPE if is_for_bytes else LINES_TYPES[0])


@routes.post("/import", responses=shapes(schemas.Imported), openapi_extra=_LINES_BODY)
async def import_lines(request: Request, owner: Owner, session: ForMessages = DEFAULT_SESSION) -> Response:
    """Store lines of an export, messages or memories under this user, up to 1 MiB at a time. A repeat adds nothing.

    It ends when the client no longer waits for it, or when the org has used up its memories of the day.
    """
    if media_type_of(request) not in (*LINES_TYPES, BYTES_TYPE):
        raise Refused(415, f"must be {LINES_TYPES[0]}", field="content-type")
    source = io.BytesIO(await request.body())
    service, org = service_of(request), request.scope[PRINCIPAL].org
    # It may take a minute, and nobody should have to queue for that.
    request.scope[VISIT].rest()
    async with service.long.one(org):
        admit = partial(service.quotas.admit_memory, org)
        done = await while_wanted(request, import_jsonl(owner, source, session=session, admit=admit))
    return Json(done.to_dict())


async def while_wanted(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of work that goes on only while the client waits for it. The body has been read."""
    task, gone = asyncio.create_task(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def export_lines(owner: Handle) -> AsyncIterator[bytes]:
    """Everything about a user or of an org as lines of JSON, read as they are consumed."""
    after: str | None = None
    while True:
        objects, after = await owner.export_page(limit=EXPORT_RECORDS, after=after)
        yield b"".join(to_json(each) + b"\n" for each in objects)
        if after is None:
            return


@alike(
    routes,
    "POST",
    "/maintain",
    org="maintain_org",
    name="maintain_user",
    responses=shapes(schemas.Maintained),
    openapi_extra=FOR_OPERATORS,
)
async def maintain(held: Holder, body: bodies.MaintainRequest | None = None) -> Response:
    """Consolidate, prune and purge now what upkeep would within a day; with `dry_run`, only report it.

    For an org this is about what it shares; its users are maintained one by one.
    """
    return Json((await held.maintain(**given(body or bodies.MaintainRequest()))).to_dict())


@routes.post("/reprocess", responses=shapes(schemas.Reprocessed), openapi_extra=FOR_OPERATORS)
async def reprocess_user(owner: Owner, body: bodies.ReprocessRequest | None = None) -> Response:
    """Read a user's conversations, or one of them, again; report what would change, and change it with `apply`.

    The answer comes when all is read, and a model takes its time: name a session to do it piece by piece.
    """
    return Json((await owner.reprocess(**given(body or bodies.ReprocessRequest()))).to_dict())
