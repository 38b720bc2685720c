"""The server: routes and what stands around them, wired together, and served until it is told to stop.

`create` makes the application for any ASGI server; `serve` runs it with uvicorn, as `recollect serve` does.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from recollect import __version__
from recollect.errors import RecollectError, Unavailable, ValidationError
from recollect.server import (
    chat,
    console,
    customizations,
    entities,
    graph,
    memories,
    operations,
    profile,
    schemas,
    sessions,
)
from recollect.server.envelope import REQUEST_ID, Envelope
from recollect.server.errors import MEDIA_TYPE, problem
from recollect.server.gate import Gate, is_loopback
from recollect.server.limits import BodyLimit
from recollect.server.sample import load
from recollect.server.service import Service

GRACE_S = 6
"""How long requests may go on after a signal to stop; with two seconds for the memory it is under ten."""
HEAD_BYTES = 32 * 1024
"""How long it may be."""
CONNECTIONS_MAX = 1_000
"""Open connections; above this the answer is 503."""
COMPRESSED_BYTES = 1_024
"""Shorter answers are not worth compressing."""
ROOMS = (chat, sessions, memories, profile, customizations, graph, entities, operations)
SUMMARY = "The memory of conversational agents."


def build(service: Service) -> FastAPI:
    """The application around a service, which is opened and closed with it unless it is open already."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if service.is_open:
            yield
            return
        async with service:
            yield

    app = FastAPI(
        title="Recollect",
        version=__version__,
        summary=SUMMARY,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        responses={"default": {"model": schemas.Problem, "content": {MEDIA_TYPE: {}}, "description": "What is wrong."}},
        exception_handlers=dict.fromkeys((RecollectError, HTTPException, RequestValidationError), _told),
    )  # fmt: skip
    app.state.service = service
    for room in ROOMS:
        app.include_router(room.routes)
    app.include_router(console.routes)
    # The last that is added stands outermost.
    app.add_middleware(BodyLimit)
    app.add_middleware(Gate, service=service)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_BYTES)
    app.add_middleware(Envelope, metrics=service.metrics)
    return app


def create() -> FastAPI:
    """The application for another ASGI server: `uvicorn --factory recollect.server.app:create`."""
    return build(Service())


async def _told(request: Request, error: Exception) -> Response:
    if console.is_for_people(request):
        return console.refused(request, error)
    return problem(error, request.scope[REQUEST_ID])


# ── Serving ──────────────────────────────────────────────────────────────────────────────────────


async def serve(
    service: Service, host: str, port: int, *, told: Callable[[str, bool], None], sample: bool = False
) -> None:
    """Serve until a signal; `told` gets the address and whether keys are needed. Without keys, only this machine."""
    async with service:
        needs_keys = await service.keys.exist()
        if not needs_keys and not is_loopback(host):
            hint = "there are no keys: make one with `recollect keys create`, or serve on 127.0.0.1"
            raise ValidationError(hint, field="host")
        listener = _listening(host, port)
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
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=GRACE_S,
        )
        if sample:
            await load(service.memory, "default", service.clock())
        told(_address(listener), needs_keys)
        await DrainingServer(config, service).serve(sockets=[listener])


class DrainingServer(uvicorn.Server):
    """Stops on a signal: what has begun is finished, what is new is refused, and then the memory is closed."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would send itself the signal again when it is done, before the memory is closed.
        self._service.draining = True
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


class PatientProtocol(H11Protocol):
    """HTTP/1.1, with an end to the patience for a head of a request that comes byte by byte."""

    head_s = 10.0
    """How long the head of a request may take."""
    _impatience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._rest()

    def _watch(self) -> None:
        waits = self.cycle is None or self.cycle.response_complete
        if not waits:
            self._rest()
        elif self._impatience is None and not self.transport.is_closing():
            self._impatience = self.loop.call_later(self.head_s, self._leave)

    def _rest(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def _leave(self) -> None:
        self._impatience = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # Head and body of an answer are sent apart: without this the second waits 40 ms for the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError) as error:
        raise Unavailable(f"cannot listen on {host}, port {port}; choose another --port", field="port") from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
