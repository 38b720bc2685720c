"""Routes for operators: users, export, import and erasure; figures, failures, and whether the server is well."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from recollect.errors import NotFound, RecollectError
from recollect.importers.jsonl import DEFAULT_SESSION, import_jsonl
from recollect.records import SECOND_MS, Record, iso
from recollect.server import schemas
from recollect.server.errors import Refused
from recollect.server.metrics import MEDIA_TYPE, Gauge
from recollect.server.routing import ADMIN, LINES_TYPES, PUBLIC, Caller, Here, Owner, router, shapes
from recollect.server.service import Service
from recollect.stores.contract import Survey

routes = router("", "operations")

FailureId = Annotated[str, Path(description="The work that was given up.")]
READY_S = 2.0
"""A store that takes longer for one look-up is not ready."""
LINES_A_PIECE = 100
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


@routes.get("/api/users")
async def list_users(service: Here, caller: Caller) -> Response:
    """The users of the org that have something."""
    found = [partition.user for partition in await service.memory.users() if partition.org == caller.org]
    return JSONResponse({"users": [user for user in found if user]})


@routes.delete("/api/users/{user}", responses=shapes(schemas.ReceiptShape), openapi_extra=ADMIN)
async def erase(owner: Owner) -> Response:
    """Forget everything about a user, in every layer and file. Gives a receipt."""
    return JSONResponse((await owner.erase()).to_dict())


@routes.get("/api/users/{user}/export", response_class=StreamingResponse)
async def export(owner: Owner) -> Response:
    """Everything about a user, one JSON object a line; the first says what it is."""
    return StreamingResponse(export_lines(await owner.export()), media_type=LINES_TYPES[0])


@routes.post("/api/users/{user}/import", responses=shapes(schemas.ImportedShape), openapi_extra=_LINES_BODY)
async def import_lines(request: Request, owner: Owner, session: str = DEFAULT_SESSION) -> Response:
    """Store lines of an export, messages or memories under this user, up to 1 MiB at a time. Twice is once."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in LINES_TYPES:
        raise Refused(415, f"must be {LINES_TYPES[0]}", field="content-type")
    source = io.BytesIO(await request.body())
    return JSONResponse((await import_jsonl(owner, source, session=session)).to_dict())


async def export_lines(objects: list[dict[str, Any]]) -> AsyncIterator[str]:
    """Objects as lines of JSON, some at a time."""
    for start in range(0, len(objects), LINES_A_PIECE):
        yield "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects[start : start + LINES_A_PIECE])


# ── Figures and failures ─────────────────────────────────────────────────────────────────────────


@routes.get("/api/stats", openapi_extra=ADMIN)
async def stats(service: Here) -> Response:
    """How much is remembered in the whole store, what waits, and what is in use."""
    survey = await service.memory.survey()
    uses = service.describe()
    uses["store"] = {name: value for name, value in uses["store"].items() if name != "url"}
    jobs = {"waiting": survey.jobs_waiting, "running": survey.jobs_running, "oldest_at": iso(survey.oldest_job_at)}
    return JSONResponse(
        {"users": survey.partitions, "records": dict(survey.records), "jobs": jobs, "bytes": survey.bytes, "uses": uses}
    )


@routes.get("/api/failures", responses=shapes(schemas.FailuresShape), openapi_extra=ADMIN)
async def failures(service: Here, caller: Caller) -> Response:
    """Work for the users of the org that was given up, with the reason of each."""
    return JSONResponse({"failures": [_failure(record) for record in await failures_of(service, caller.org)]})


@routes.post("/api/failures/{id}/retry", status_code=204, openapi_extra=ADMIN)
async def retry(service: Here, caller: Caller, id: FailureId) -> Response:
    """Give failed work another round of tries."""
    await give_another_try(service, caller.org, id)
    return Response(status_code=204)


async def give_another_try(service: Service, org: str, id: str) -> None:
    """Give one failure of the org's another round of tries."""
    for record in await failures_of(service, org):
        if record.id == id:
            await service.memory.retry(record)
            return
    raise NotFound(field="id")


async def failures_of(service: Service, org: str) -> list[Record]:
    """Work for the users of an org that was given up."""
    found: list[Record] = []
    for partition in await service.memory.users():
        if partition.org == org and partition.user:
            found += await service.memory.user(partition.user, org=org).failures()
    return found


def _failure(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "user": record.scope.user,
        "at": iso(record.created_at),
        "kind": record.data["kind"],
        "attempts": record.data["attempts"],
        "reason": record.content,
    }


# ── Is it well? ──────────────────────────────────────────────────────────────────────────────────


@routes.get("/health", openapi_extra={PUBLIC: True})
async def health() -> Response:
    """Whether the process lives."""
    return JSONResponse({"status": "ok"})


@routes.get("/ready", responses={503: {"description": "It should get no requests now."}}, openapi_extra={PUBLIC: True})
async def ready(service: Here) -> Response:
    """Whether requests can be served: the store answers, and the server is not about to stop."""
    store = await _answers(service)
    is_ready = store == "answers" and not service.draining
    worker = service.memory.describe()["worker"] if service.is_open else "not started"
    told = {"status": "ready" if is_ready else "not ready", "store": store, "worker": worker}
    return JSONResponse(told | ({"draining": True} if service.draining else {}), 200 if is_ready else 503)


async def _answers(service: Service) -> str:
    try:
        async with asyncio.timeout(READY_S):
            await service.keys.exist()
    except TimeoutError:
        return "too slow"
    except RecollectError as error:
        return type(error).__name__
    return "answers"


@routes.get("/metrics", response_class=PlainTextResponse, openapi_extra=ADMIN)
async def metrics(service: Here) -> Response:
    """Figures in the text format of Prometheus."""
    survey = await service.memory.survey()
    text = service.metrics.text(_gauges(service, survey))
    return PlainTextResponse(text, media_type=MEDIA_TYPE)


def _gauges(service: Service, survey: Survey) -> Iterator[Gauge]:
    uses = service.memory.describe()
    now = service.clock()
    for state, count in (("waiting", survey.jobs_waiting), ("running", survey.jobs_running)):
        yield Gauge("recollect_jobs", "Jobs in the store, by state.", count, {"state": state})
    for state in ("done", "failed"):
        about = "Jobs that this process ended, by how."
        yield Gauge("recollect_jobs_ended_total", about, uses["jobs"][state], {"state": state}, "counter")
    age_s = 0.0 if survey.oldest_job_at is None else max(0.0, (now - survey.oldest_job_at) / SECOND_MS)
    yield Gauge("recollect_oldest_job_age_seconds", "How long the oldest job waits beyond its time.", age_s)
    for layer, count in sorted(survey.records.items()):
        yield Gauge("recollect_records", "Records in the store, by layer.", count, {"layer": layer})
    yield Gauge("recollect_partitions", "Users and orgs that have something.", survey.partitions)
    if survey.bytes is not None:
        yield Gauge("recollect_store_bytes", "Size of the store.", survey.bytes)
    for name, value in sorted(uses["index"].items()):
        if isinstance(value, int | float):
            yield Gauge("recollect_index", "The indexes that are held in memory.", value, {"what": name})
    for name, value in uses["model"].items():
        about = "Questions to the chat model, tokens of both sides, and findings that were refused."
        yield Gauge("recollect_model_total", about, value, {"what": name}, "counter")
    yield Gauge("recollect_executors", "Executors of /api/chat that are alive.", service.executors.alive)
