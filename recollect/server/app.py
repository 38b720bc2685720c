"""The server: routes and middleware wired together, and served until a signal to stop.

`create` makes the application for any ASGI server; `serve` runs it with uvicorn, as `recollect serve` does.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from recollect import __version__
from recollect.errors import RecollectError, Unavailable, ValidationError
from recollect.server import (
    assistants,
    chat,
    console,
    customizations,
    entities,
    figures,
    graph,
    health,
    heaps,
    memories,
    operations,
    org,
    profile,
    schemas,
    sessions,
    trust,
    wholes,
    working,
)
from recollect.server.connections import PatientProtocol
from recollect.server.description import ABOUT, LICENSE, DescribedApp, call_name
from recollect.server.envelope import REQUEST_ID, Envelope
from recollect.server.errors import problem
from recollect.server.gate import PRINCIPAL, Gate, is_loopback
from recollect.server.limits import HEAD_BYTES, BodyLimit, BytesRead
from recollect.server.rehearsal import rehearse
from recollect.server.sample import load
from recollect.server.service import Service

GRACE_S = 6
"""How long requests may continue after a signal to stop; with two seconds for the memory it is under ten."""
BACKLOG = 2_048
"""Connections that wait to be accepted; the system itself turns away any more."""
ACCEPTED_AT_ONCE = 32
"""How many of these are accepted before other work continues: a flood of connections must not stop that work."""
COMPRESSED_BYTES = 1_024
"""Shorter responses are not worth compressing."""
COMPRESSION = 5
"""Above this, JSON hardly gets shorter and takes much longer."""
ROOMS = (
    sessions, working, memories, chat, profile, customizations, graph, trust, entities, org, wholes, operations, health,
    figures,
)  # fmt: skip
SUMMARY = "The memory of conversational agents."


def build(service: Service) -> FastAPI:
    """The application around a service, which is opened and closed with it unless it is already open."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if service.is_open:
            yield
            return
        async with service:
            yield

    app = _described(lifespan=lifespan)
    app.state.service = service
    app.router.routes += [*_routes(), *assistants.routes(service)]
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, read=_note_bytes(service))
    app.add_middleware(Gate, service=service)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_BYTES, compresslevel=COMPRESSION)
    app.add_middleware(Envelope, service=service)
    return app


def _described(**more: Any) -> FastAPI:
    """The application without its routes."""
    return DescribedApp(
        title="Recollect",
        version=__version__,
        summary=SUMMARY,
        description=ABOUT,
        license_info=LICENSE,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=call_name,
        responses={"default": {"model": schemas.Problem, "description": "What is wrong."}},
        exception_handlers=dict.fromkeys((RecollectError, HTTPException, RequestValidationError), _told),
        **more,
    )  # fmt: skip


@cache
def _routes() -> Sequence[BaseRoute]:
    """The routes of all rooms, for all applications: they find the service in the application that was asked.

    FastAPI takes half a second to prepare them, at the first request.
    """
    app = _described(openapi_url=None)
    for room in (*ROOMS, console):
        app.include_router(room.routes)
    return app.router.routes


def _note_bytes(service: Service) -> BytesRead:
    def note(scope: Scope, size: int) -> None:
        if PRINCIPAL in scope:
            service.quotas.note(scope[PRINCIPAL].org, bytes=size)

    return note


def create() -> FastAPI:
    """The application for another ASGI server: `uvicorn --factory recollect.server.app:create`."""
    return build(Service())


async def _told(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        error = HTTPException(error.status_code, headers=_allowed(request) or error.headers)
    if console.is_for_people(request):
        return await console.lost(request, error)
    return problem(error, request.scope[REQUEST_ID])


def _allowed(request: Request) -> dict[str, str]:
    """The methods that a request's path allows. The framework would name only those of its first route."""
    routes = (route for room in ROOMS for route in room.routes.routes if isinstance(route, Route))
    found = (route.methods or () for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    methods = sorted(set().union(*found))
    return {"Allow": ", ".join(methods)} if methods else {}


# ── Serving ──────────────────────────────────────────────────────────────────────────────────────


async def serve(
    service: Service, host: str, port: int, *, told: Callable[[str, bool], None], sample: bool = False
) -> None:
    """Serve until a signal; `told` gets the address and whether keys are needed. Without keys, only this machine."""
    async with service:
        needs_keys = await service.keys.exist()
        check_host(host, needs_keys)
        listener = listening(host, port)
        if sample:
            await load(service.memory, "default", service.clock())
        told(address_of(listener), needs_keys)
        await serve_on(service, listener)


async def serve_on(service: Service, listener: socket.socket, stop: asyncio.Event | None = None) -> None:
    """Serve requests at a socket until a signal, or until `stop` is set."""
    await rehearse(service.memory, service.settings.language)
    config = uvicorn.Config(
        build(service),
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_BYTES,
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = DrainingServer(config, service)
    heaps.settle()
    watching = asyncio.create_task(server.leave_when(stop)) if stop is not None else None
    await server.serve(sockets=[listener])
    if watching is not None:
        watching.cancel()


def check_host(host: str, needs_keys: bool) -> None:
    """Refuse to serve anything but this machine without keys."""
    if not needs_keys and not is_loopback(host):
        hint = "there are no keys: create one with `recollect keys create`, or serve on 127.0.0.1"
        raise ValidationError(hint, field="host")


class DrainingServer(uvicorn.Server):
    """Stops on a signal: requests in progress finish, new ones are refused, and then the memory is closed."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # uvicorn has a single number for this and for how many it accepts at once

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would send itself the signal again when done, before the memory is closed.
        self._service.draining = True
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def leave_when(self, stop: asyncio.Event) -> None:
        """Stop when `stop` is set, for when nobody is left to send a signal."""
        await stop.wait()
        self.handle_exit(signal.SIGTERM, None)


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise a clear error."""
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # Head and body of a response are sent separately: without this the second waits 40 ms for the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError) as error:
        raise Unavailable(f"cannot listen on {host}, port {port}; choose another --port", field="port") from error


def address_of(listener: socket.socket) -> str:
    """The address at which a socket listens, as a URL for browsers."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
