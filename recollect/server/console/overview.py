"""The overview: how much is stored and how it grows, how old it is, how fast and how well questions are answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recollect.layers import told_counts
from recollect.policies.ages import GROWING, RECORDS_READ, USERS_READ, ages
from recollect.records import DAY_MS, Record, as_datetime
from recollect.server.console.door import router
from recollect.server.console.pages import Chosen, page
from recollect.server.console.plots import Bar, Columns, bars, columns
from recollect.server.console.words import count, day
from recollect.server.metrics import Latency
from recollect.server.routing import ADMIN, Caller, Here
from recollect.server.service import Service
from recollect.stores.contract import Survey

routes = router()

DAYS = 42
"""How many days back growth is drawn."""
GROWTH_READ = 20_000
"""How many records are read for it at most; with more in these days, only the latest of the days are drawn."""
ROUTES_SHOWN = 8
OWNERS = ("user or org", "users and orgs")
"""What people call a partition."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The page."""

    survey: Survey
    records: int
    store: str
    durability: str
    growth: Columns
    gained: int
    sampled: int
    layers: tuple[Bar, ...]
    ages: tuple[Bar, ...]
    latencies: tuple[tuple[Latency, float, float], ...]
    turns: int
    searches: int
    contexts: int
    tokens_each: int
    answered: float | None
    used: float | None
    is_part: bool
    uses: Mapping[str, str]


@routes.get("/overview", openapi_extra=ADMIN)
async def overview(request: Request, service: Here, caller: Caller, chosen: Chosen = "") -> Response:
    """Figures about the whole store, and about the users of the org."""
    survey = await service.surveys.latest()
    users = [each.user for each in await service.memory.users() if each.org == caller.org and each.user]
    sample = await _sample(service, caller.org, users[:USERS_READ])
    return page(request, "overview", _overview(service, survey, sample, len(users) > USERS_READ))


@dataclass(slots=True)
class _Sample:
    """The newest records of some users, and when else something came in during the days that are drawn."""

    first: int
    """When the days that are drawn begin: those before it were not read to their end."""
    found: list[Record] = field(default_factory=list)
    earlier: list[int] = field(default_factory=list)
    is_all: bool = True

    @property
    def times(self) -> Iterator[int]:
        yield from (record.when for record in self.found)
        yield from self.earlier


async def _sample(service: Service, org: str, users: Sequence[str]) -> _Sample:
    sample = _Sample((service.clock() // DAY_MS - (DAYS - 1)) * DAY_MS)
    for user in users:
        owner = service.memory.user(user, org=org)
        for layer in GROWING:
            records, after = await owner.list_memories(layer=layer, limit=RECORDS_READ, newest_first=True)
            sample.found += records
            sample.is_all &= after is None
            while after is not None and any(record.created_at >= sample.first for record in records):
                if len(sample.found) + len(sample.earlier) >= GROWTH_READ:
                    oldest = min(record.when for record in records)
                    sample.first = max(sample.first, (oldest // DAY_MS + 1) * DAY_MS)
                    break
                records, after = await owner.list_memories(
                    layer=layer, limit=RECORDS_READ, after=after, newest_first=True
                )
                sample.earlier += [record.when for record in records]
    return sample


def _overview(service: Service, survey: Survey, sample: _Sample, is_part: bool) -> Overview:
    now, metrics = service.clock(), service.figures_of_all()
    uses = service.describe()
    store: dict[str, Any] = uses["store"]
    contexts = metrics.total("contexts")
    knowledge = [record for record in sample.found if record.layer == "long_term"]
    layers = told_counts(survey.records)
    used = sum(bool(record.data.get("usage_count")) for record in knowledge)
    return Overview(
        survey=survey,
        records=sum(layers.values()),
        store=str(store.get("store", "store")),
        durability=str(store.get("durability", "")),
        growth=_growth(sample, now),
        gained=sum(now - 7 * DAY_MS < time <= now for time in sample.times),
        sampled=0 if sample.is_all else len(sample.found),
        layers=bars(list(layers.items())),
        ages=_ages(sample.found, now),
        latencies=_latencies(metrics.latencies()),
        turns=metrics.total("turns"),
        searches=metrics.total("searches"),
        contexts=contexts,
        tokens_each=metrics.total("context_tokens") // max(contexts, 1),
        answered=metrics.total("contexts_answerable") / contexts if contexts else None,
        used=used / len(knowledge) if knowledge else None,
        is_part=is_part,
        uses=_in_use(uses),
    )


def _in_use(uses: dict[str, Any]) -> dict[str, str]:
    """Which components are in use, in words."""
    index = uses["index"]
    held = f"{count(index['records'], 'record')} of {count(index['partitions'], *OWNERS)} in memory"
    aside = f"; {count(index['aside'], *OWNERS)} on disk" if index["aside"] else ""
    return {
        "Embedder": str(uses["embedder"]),
        "Learning": str(uses["enrichment"]),
        "Tokens": str(uses["tokens"]),
        "Worker": str(uses["worker"]),
        "Index": f"{held}, {index['mib'] or 'under 1'} MiB{aside}",
        "Agents": ", ".join(uses["agents"]),
    }


def _growth(sample: _Sample, now: int) -> Columns:
    """How much came in on each of the last days that were read to their end."""
    today = now // DAY_MS
    by_day = Counter(time // DAY_MS for time in sample.times if time <= now)
    days = range(min(sample.first // DAY_MS, today), today + 1)
    return columns([by_day[number] for number in days], [day(as_datetime(number * DAY_MS)) for number in days])


def _ages(found: Sequence[Record], now: int) -> tuple[Bar, ...]:
    return bars([*ages((record.when for record in found), now).items()], sort=False)


def _latencies(found: Sequence[Latency]) -> tuple[tuple[Latency, float, float], ...]:
    """The busiest routes, without the static files of pages, each with the lengths of its bars."""
    shown = [each for each in found if "/static/" not in each.route and each.route != "(none)"][:ROUTES_SHOWN]
    longest = max((each.p95_s for each in shown), default=1.0) or 1.0
    return tuple((each, each.p50_s / longest, each.p95_s / longest) for each in shown)
