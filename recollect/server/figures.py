"""The route of figures for operators: what was counted, and how things stand now."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import PlainTextResponse, Response

from recollect.records import SECOND_MS
from recollect.server.metrics import MEDIA_TYPE, Gauge
from recollect.server.routing import ADMIN, Here, router
from recollect.server.service import Service
from recollect.stores.contract import Survey

routes = router("", "figures")


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
    yield Gauge("recollect_executors", "Executors of /api/chat that are alive.", service.executors.alive)
