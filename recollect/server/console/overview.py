"""The overview: how much is stored and how it grows, how old it is, how fast and how well questions are answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recollect.layers import told_counts
from recollect.policies.ages import GROWING, RECORDS_READ, USERS_READ, ages
from recollect.records import DAY_MS, Record, as_datetime
from recollect.server.console.door import router
from recollect.server.console.pages import Chosen, page
from recollect.server.console.plots import Area, Bar, area, bars
from recollect.server.console.words import count, day
from recollect.server.metrics import Latency
from recollect.server.routing import ADMIN, Caller, Here
from recollect.server.service import Service
from recollect.stores.contract import Survey

routes = router()

DAYS = 42
"""How many days back growth is drawn."""
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
    growth: Area
    layers: tuple[Bar, ...]
    ages: tuple[Bar, ...]
    latencies: tuple[tuple[Latency, float], ...]
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
    found = await _records(service, caller.org, users[:USERS_READ])
    return page(request, "overview", _overview(service, survey, found, len(users) > USERS_READ))


async def _records(service: Service, org: str, users: Sequence[str]) -> list[Record]:
    """The newest records of some users."""
    found: list[Record] = []
    for user in users:
        owner = service.memory.user(user, org=org)
        for layer in GROWING:
            found += (await owner.list_memories(layer=layer, limit=RECORDS_READ, newest_first=True))[0]
    return found


def _overview(service: Service, survey: Survey, found: Sequence[Record], is_part: bool) -> Overview:
    now, metrics = service.clock(), service.figures_of_all()
    uses = service.describe()
    store: dict[str, Any] = uses["store"]
    contexts = metrics.total("contexts")
    knowledge = [record for record in found if record.layer == "long_term"]
    layers = told_counts(survey.records)
    used = sum(bool(record.data.get("usage_count")) for record in knowledge)
    return Overview(
        survey=survey,
        records=sum(layers.values()),
        store=str(store.get("store", "store")),
        durability=str(store.get("durability", "")),
        growth=_growth(found, now),
        layers=bars(list(layers.items())),
        ages=_ages(found, now),
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


def _growth(found: Sequence[Record], now: int) -> Area:
    """How many records there were at the end of each of the last days."""
    first = now - (DAYS - 1) * DAY_MS
    by_day = Counter(max(0, (record.when - first) // DAY_MS) for record in found if record.when <= now)
    totals, total = [], 0
    for place in range(DAYS):
        total += by_day[place]
        totals.append(total)
    labels = [day(as_datetime(first + place * DAY_MS)) for place in range(DAYS)]
    return area(totals, labels)


def _ages(found: Sequence[Record], now: int) -> tuple[Bar, ...]:
    return bars([*ages((record.when for record in found), now).items()], sort=False)


def _latencies(found: Sequence[Latency]) -> tuple[tuple[Latency, float], ...]:
    """The busiest routes, without the static files of pages, each with the length of its bar."""
    shown = [each for each in found if "/static/" not in each.route and each.route != "(none)"][:ROUTES_SHOWN]
    longest = max((each.p95_s for each in shown), default=1.0) or 1.0
    return tuple((each, each.p95_s / longest) for each in shown)
