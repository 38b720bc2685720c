"""The route for operators' metrics: what was counted, and how things stand now."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from recollect.errors import Busy, Unavailable
from recollect.records import SECOND_MS
from recollect.server.gate import AWAY
from recollect.server.metrics import MEDIA_TYPE, Gauge
from recollect.server.routing import ADMIN, Here, router
from recollect.server.service import Service
from recollect.stores.contract import Survey

routes = router("", "figures")

UP = "Whether the store answers."


@routes.get("/metrics", response_class=PlainTextResponse, openapi_extra=ADMIN)
async def metrics(request: Request, service: Here) -> Response:
    """Metrics in the text format of Prometheus. While the store is away, those of the server alone."""
    survey = None if AWAY in request.scope else await _counted(service)
    gauges = chain([Gauge("store_up", UP, float(survey is not None))], _of_store(service, survey), _of_process(service))
    text = service.figures_of_all().text(gauges)
    return PlainTextResponse(text, media_type=MEDIA_TYPE)


async def _counted(service: Service) -> Survey | None:
    try:
        return await service.surveys.latest()
    except (Busy, Unavailable):
        return None


def _of_store(service: Service, survey: Survey | None) -> Iterator[Gauge]:
    if survey is None:
        return
    for state, count in survey.jobs.items():
        yield Gauge("jobs", "Jobs in the store, by state; scheduled ones are not due yet.", count, {"state": state})
    oldest = survey.waits_since
    age_s = 0.0 if oldest is None else max(0.0, (service.clock() - oldest) / SECOND_MS)
    yield Gauge("oldest_job_age_seconds", "How long the oldest waiting job is overdue.", age_s)
    for layer, count in sorted(survey.records.items()):
        yield Gauge("records", "Records in the store, by layer.", count, {"layer": layer})
    yield Gauge("partitions", "Users and orgs that have any data.", survey.partitions)
    yield Gauge("survey_age_seconds", "How long ago records, jobs and users were counted.", service.surveys.age_s)
    if survey.bytes is not None:
        yield Gauge("store_bytes", "Size of the store.", survey.bytes)


def _of_process(service: Service) -> Iterator[Gauge]:
    index = service.memory.describe()["index"]
    about = "The indexes that the answering process holds in memory, and those it has moved to a file."
    for name in ("partitions", "records", "mib", "aside", "aside_mib"):
        yield Gauge("index", about, index[name], {"what": name})
    chats = service.executors
    yield Gauge("executors", "Executors of /api/chat that are alive in the answering process.", chats.alive)
    about = "Sessions of /api/chat with a turn in the last half hour, in the answering process."
    yield Gauge("sessions", about, chats.sessions_alive)
