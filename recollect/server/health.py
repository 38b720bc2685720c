"""Routes that report the server's health: what it runs on, and whether it should get requests now."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from recollect import __version__
from recollect.bound_keys import KEYS
from recollect.errors import RecollectError
from recollect.server import schemas
from recollect.server.answers import Json
from recollect.server.patience import promptly
from recollect.server.routing import PUBLIC, Here, router, shapes
from recollect.server.service import Service
from recollect.stores.contract import Store

routes = router("", "health")

READY_S = 2.0
"""A store that takes longer for one look-up is not ready."""
FAILS = "fails"
"""How the state of a model begins if its last request failed."""
TOLD_OF_STORES = ("store", "durability", "fallback")
"""What anybody may know about a store, which does not include its address."""
NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"model": schemas.Ready, "description": "The server should not get requests now."}
}


@routes.head("/health", include_in_schema=False, openapi_extra={PUBLIC: True})
@routes.get("/health", responses=shapes(schemas.Health), openapi_extra={PUBLIC: True})
async def health(service: Here) -> Response:
    """What the server runs on. `degraded`: up, but on an in-memory fallback store, or part of it does not work."""
    uses = service.describe()
    stores = {name: _told(store) for name, store in service.stores.items()}
    has_worker = uses["worker"] in ("in this process", "elsewhere")
    is_degraded = not has_worker or any("fallback" in store for store in stores.values())
    states = _states(service, uses)
    is_degraded = is_degraded or any(state.startswith(FAILS) for state in states.values())
    agents = {name: agent.model or "from memory" for name, agent in service.agents.items()}
    return Json(
        {
            "status": "degraded" if is_degraded else "ok",
            "version": __version__,
            "stores": stores,
            "worker": uses["worker"],
            "embedder": uses["embedder"],
            "enrichment": uses["enrichment"],
            "states": states,
            "agents": agents,
        }
    )


def _states(service: Service, uses: dict[str, Any]) -> dict[str, str]:
    """The state of everything that may be down while the server is up: embedder, model, and the models of agents."""
    return {**uses["states"], **{f"agent {name}": state for name, state in service.executors.states.items()}}


def _told(store: Store) -> dict[str, str]:
    described = store.describe()
    told = {name: str(described[name]) for name in TOLD_OF_STORES if name in described}
    if "fallback" in told:
        told["fallback"] = told["fallback"].partition(" (")[0]  # the reason is in the log: it may name a folder
    return told


@routes.head("/ready", include_in_schema=False, openapi_extra={PUBLIC: True})
@routes.get("/ready", responses=shapes(schemas.Ready) | NOT_READY, openapi_extra={PUBLIC: True})
async def ready(service: Here) -> Response:
    """Whether requests can be served: every store answers, and the server is not about to stop."""
    answers = await asyncio.gather(*(_answers(service, store) for store in service.stores.values()))
    is_ready = set(answers) == {"answers"} and not service.draining
    uses = service.memory.describe()
    told = {
        "status": "ready" if is_ready else "not ready",
        "stores": dict(zip(service.stores, answers, strict=True)),
        "worker": uses["worker"],
        "embedder": uses["embedder"],
        "enrichment": uses["enrichment"],
        "states": _states(service, uses),
        "draining": service.draining,
    }
    return Json(told, 200 if is_ready else 503)


async def _answers(service: Service, store: Store) -> str:
    try:
        await promptly(READY_S, store.get(KEYS, ["ready"], service.clock()))
    except TimeoutError:
        return "too slow"
    except RecollectError as error:
        return type(error).__name__
    return "answers"
