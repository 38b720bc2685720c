"""Metrics, traces and the dashboard: what operators see of a server, and that none of it reveals content."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from server_stage import client_of, opened

from recollect.errors import Unavailable
from recollect.server import gate
from recollect.server.alive import Alive
from recollect.server.metrics import Metrics, Shared
from recollect.server.tracing import Tracing
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import ManualClock

DASHBOARD = Path(__file__).resolve().parents[2] / "examples" / "grafana" / "recollect.json"
ANN = "/api/users/ann"
SECRET = "hunter2 is my password"


NAME, LABEL = "[a-zA-Z_:][a-zA-Z0-9_:]*", r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
Labels = frozenset[tuple[str, str]]


def strictly_read(text: str) -> dict[str, dict[tuple[str, Labels], float]]:
    """The samples of each family, parsed exactly as the exposition format demands."""
    assert text.endswith("\n")
    families: dict[str, dict[tuple[str, Labels], float]] = {}
    kind = name = ""
    lines = iter(text[:-1].split("\n"))
    for line in lines:
        if line.startswith("#"):
            name = re.fullmatch(rf"# HELP ({NAME}) [^\\]+", line)[1]
            kind = re.fullmatch(rf"# TYPE {name} (counter|gauge|histogram)", next(lines))[1]
            assert name not in families and name.endswith("_total") == (kind == "counter")
            families[name] = {}
            continue
        found = SAMPLE.fullmatch(line)
        assert found, line
        labels = re.findall(LABEL, found[2] or "")
        assert len(dict(labels)) == len(labels) and (found[1], frozenset(labels)) not in families[name], line
        assert found[1].removeprefix(name) in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",)), line
        families[name][found[1], frozenset(labels)] = float(found[found.re.groups])
    return families


def check_histogram(name: str, samples: dict[tuple[str, Labels], float]) -> None:
    """Check that bucket counts never fall and the last one counts everything."""
    counts = {labels: value for (full, labels), value in samples.items() if full == f"{name}_count"}
    for labels, count in counts.items():
        of_it = [(dict(each), value) for (full, each), value in samples.items() if labels < each]
        buckets = [(float(each["le"]), value) for each, value in of_it if set(each) == {*dict(labels), "le"}]
        assert buckets == sorted(buckets) and [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1] == (float("inf"), count) and (f"{name}_sum", labels) in samples


def figures(text: str) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


async def used(client, service) -> None:
    """Ask for a little of everything."""
    await client.post("/api/chat", json={"chat_id": "c", "user_id": "ann", "message": SECRET})
    await client.post(f"{ANN}/memories", json={"content": "Tea with milk."})
    await client.post(f"{ANN}/memories/search", json={"query": "tea"})
    await client.post(f"{ANN}/context", json={"query": "What do I drink?"})
    await client.put("/api/entities/order/42", json={"data": {"status": "sent"}})
    await client.get("/api/entities/order/42")
    await client.get("/api/entities/order/43")
    await service.memory.work()


async def test_jobs_caches_and_the_store_have_metrics():
    async with opened() as service, client_of(service) as client:
        await used(client, service)
        found = figures((await client.get("/metrics")).text)
    assert found['recollect_jobs_ended_total{state="done"}'] >= 2
    assert found['recollect_jobs_run_total{kind="enrich"}'] >= 2
    assert found['recollect_enrichment_seconds_total{kind="enrich"}'] > 0
    assert found['recollect_cache_lookups_total{cache="index",result="miss"}'] >= 1
    assert found['recollect_cache_lookups_total{cache="index",result="hit"}'] >= 1
    assert found['recollect_cache_lookups_total{cache="entities",result="hit"}'] == 1
    assert found['recollect_cache_lookups_total{cache="entities",result="miss"}'] == 1
    assert found['recollect_store_duration_seconds_count{verb="claim"}'] >= 1
    assert found["recollect_oldest_job_age_seconds"] >= 0 and found["recollect_sessions"] == 1


class Leaving(InMemoryStore):
    """A store that can be away: it refuses to answer, or does not answer at all."""

    away = hangs = False

    async def changes(self, *given, **named):
        await self._answer()
        return await super().changes(*given, **named)

    async def survey(self, *given, **named):
        await self._answer()
        return await super().survey(*given, **named)

    async def _answer(self):
        if self.hangs:
            await asyncio.sleep(60)
        if self.away:
            raise Unavailable(field="store")


@pytest.mark.parametrize("how", ["away", "hangs"])
async def test_the_servers_own_metrics_can_be_read_while_the_store_is_away(how, monkeypatch):
    monkeypatch.setattr(gate, "KEYS_WAIT_S", 0.1)
    store = Leaving()
    async with opened(store) as service, client_of(service) as client:
        _, token = await service.keys.create(org="default", scope="admin")
        _, other = await service.keys.create(org="default", scope="write")
        client.headers["authorization"] = f"Bearer {token}"
        await used(client, service)
        assert figures((await client.get("/metrics")).text)["recollect_store_up"] == 1
        setattr(store, how, True)
        answer = await client.get("/metrics")
        found = figures(answer.text)
        assert answer.status_code == 200 and found["recollect_store_up"] == 0
        assert found["recollect_contexts_total"] >= 1 and "recollect_partitions" not in found
        for wrong in (other, token[:-2]):
            refused = await client.get("/metrics", headers={"authorization": f"Bearer {wrong}"})
            assert refused.status_code in (401, 403)
        store.hangs, store.away = False, True
        assert (await client.get("/api/users")).status_code == 503, "nothing else is given out by old keys"


async def test_a_search_by_a_user_with_nothing_new_is_one_look_for_changes(tmp_path, spans):
    def looks():
        return figures(service.metrics.text(()))['recollect_store_duration_seconds_count{verb="changes"}']

    async with opened(f"sqlite:///{tmp_path}/kept.db", tracing=Tracing(SimpleSpanProcessor(spans))) as service:
        ann = service.memory.user("ann")
        await ann.add_memory("Tea with milk.")
        await ann.search_memory("tea")
        before = looks()
        spans.clear()
        await ann.search_memory("tea")
        assert looks() == before + 1
    assert [span.name for span in spans.get_finished_spans()] == ["store.changes"]


async def test_the_metrics_follow_the_prometheus_format_to_the_letter():
    async with opened() as service, client_of(service) as client:
        await used(client, service)
        await client.get("/nowhere")
        service.executors._held.clear()
        answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = strictly_read(answer.text)
    histograms = [name for name in families if f"# TYPE {name} histogram" in answer.text]
    assert len(histograms) >= 4 and sum(bool(families[name]) for name in histograms) >= 3
    for name in histograms:
        check_histogram(name, families[name])


def test_whatever_is_in_a_label_stays_escaped():
    odd = Metrics()
    odd.count("refused", why='a "b"\\ c\n# d}')
    (sample,) = strictly_read(odd.text([]))["recollect_refused_total"]
    assert sample[1] == {("why", r"a \"b\"\\ c\n# d}")}


async def test_the_lifetimes_of_chats_are_measured():
    async with opened() as service, client_of(service) as client:
        await used(client, service)
        service.executors._held.clear()
        service.executors._sessions.clear()
        found = figures((await client.get("/metrics")).text)
    assert found["recollect_executor_life_seconds_count"] == found["recollect_session_life_seconds_count"] == 1


def test_a_lifetime_is_reported_as_the_time_something_was_used():
    now, lives = [0.0], []
    held: Alive[str] = Alive(10, 2, ended=lives.append, timer=lambda: now[0])
    held.use("a", lambda: "first")
    now[0] = 7
    assert held.use("a", lambda: "second") == "first" and len(held) == 1
    now[0] = 30
    assert len(held) == 0 and lives == [7]


async def test_the_dashboard_names_only_metrics_that_exist():
    async with opened("memory://") as service, client_of(service) as client:
        await used(client, service)
        text = (await client.get("/metrics")).text
    known = set(re.findall(r"^# TYPE (\S+)", text, re.M)) | {"recollect_store_bytes"}
    known |= {f"{name}_{part}" for name in known for part in ("bucket", "sum", "count")}
    board = json.loads(DASHBOARD.read_text())
    asked_for = [each["expr"] for panel in board["panels"] for each in panel["targets"]]
    asked = {name for expression in asked_for for name in re.findall(r"recollect_\w+", expression)}
    assert asked and asked <= known
    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in asked}
    assert {name for name in known if not re.search("_(bucket|sum|count)$", name)} <= shown


def test_the_metrics_of_several_processes_add_up_and_outlive_them(tmp_path):
    for process in ("1", "2"):
        one = Metrics()
        one.count("adds", 2)
        one.observe("store_duration_seconds", 0.002, verb="get")
        Shared(tmp_path).leave(one)
        (tmp_path / next(tmp_path.glob("[0-9]*.json"))).rename(tmp_path / f"gone-{process}.json")
    mine = Metrics()
    mine.count("adds")
    found = figures(Shared(tmp_path).of_all(mine).text([]))
    assert found["recollect_adds_total"] == 5 and mine.text([]).count("recollect_adds_total 1") == 1
    assert found['recollect_store_duration_seconds_count{verb="get"}'] == 2
    assert found['recollect_store_duration_seconds_bucket{verb="get",le="0.0025"}'] == 2


@pytest.fixture
def spans():
    return InMemorySpanExporter()


async def test_a_request_is_a_span_with_its_store_calls_beneath_it(spans):
    tracing = Tracing(SimpleSpanProcessor(spans))
    parent = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}
    async with opened(tracing=tracing, clock=ManualClock()) as service, client_of(service) as client:
        answer = await client.post(f"{ANN}/memories", json={"content": SECRET}, headers=parent)
    done = {span.name: span for span in spans.get_finished_spans()}
    request, commit = done["POST /api/users/{user}/memories"], done["store.commit"]
    assert format(request.context.trace_id, "032x") == "a" * 32 and commit.parent.span_id == request.context.span_id
    assert request.attributes["http.response.status_code"] == 201
    assert request.attributes["recollect.request_id"] == answer.headers["x-request-id"]
    told = json.dumps([json.loads(span.to_json()) for span in spans.get_finished_spans()])
    assert SECRET not in told and '"ann' not in told


async def test_a_span_shows_that_it_failed_but_no_content(spans):
    async with opened(tracing=Tracing(SimpleSpanProcessor(spans))) as service, client_of(service) as client:
        await service.stores["everything"].close()
        assert (await client.post(f"{ANN}/memories", json={"content": SECRET})).status_code == 503
    failed = [span for span in spans.get_finished_spans() if span.status.status_code is StatusCode.ERROR]
    assert [span.attributes["http.response.status_code"] for span in failed] == [503]
    assert any(span.attributes.get("error.type") == "Unavailable" for span in spans.get_finished_spans())
    assert SECRET not in "".join(span.to_json() for span in spans.get_finished_spans())


async def test_an_org_is_not_told_where_its_memories_are_kept(tmp_path):
    layers = {"working": f"sqlite:///{tmp_path}/working.db"}
    async with (
        opened(f"sqlite:///{tmp_path}/kept.db", settings={"layers": layers}) as service,
        client_of(service) as client,
    ):
        told = await client.get("/api/stats")
        assert set(told.json()["uses"]["store"]["parts"]) == {"the rest", "working"}
        for answer in (told, await client.get("/health"), await client.get("/ready"), await client.get("/metrics")):
            assert str(tmp_path) not in answer.text
