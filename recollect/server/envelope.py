"""The wrapper around every request: its id, its timing, its log line, and a response whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import secrets
import time
from contextlib import nullcontext
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.errors import RecollectError
from recollect.server.admission import ALWAYS, IN_LINE, VISIT, Visit, caller
from recollect.server.errors import problem, stopping
from recollect.server.limits import check_head
from recollect.server.service import Service

REQUEST_ID = "recollect.request_id"
"""Key in a request's scope for its id."""
LEFT = 499
"""The status in the log when the client left before the response."""
DEBUG = "RECOLLECT_DEBUG"
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)

log = logging.getLogger("recollect.server.requests")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


class Envelope:
    """Gives every request an id, every error a response, and the log one line of JSON per request, without content."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        began = time.perf_counter()
        try:
            await self._traced(scope, exchange)
        finally:
            seconds = time.perf_counter() - began
            route, status = _template(scope), exchange.status or LEFT
            self._service.metrics.observe(
                "request_duration_seconds", seconds, method=_method(scope), route=route, status=str(status)
            )
            exchange.tell(route, status, seconds)

    async def _traced(self, scope: Scope, exchange: _Exchange) -> None:
        tracing = self._service.tracing
        if tracing is None:
            return await self._answered(scope, exchange)
        with tracing.request(_method(scope), Headers(scope=scope), exchange.id) as answer:
            try:
                await self._answered(scope, exchange)
            finally:
                answer.route, answer.status = _template(scope), exchange.status or LEFT

    async def _answered(self, scope: Scope, exchange: _Exchange) -> None:
        try:
            # A request in line leaves it through a visit, whatever its path turns out to be: %68ealth is health.
            is_let_in = scope["path"] in ALWAYS and IN_LINE not in scope
            with nullcontext() if is_let_in else exchange.visiting(self._service):
                check_head(scope)
                await self._app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            exchange.status = exchange.status or LEFT
        except Exception as error:
            await exchange.fail(error)
        except asyncio.CancelledError:
            if not self._service.draining:
                raise
            # The server is stopping and has waited long enough. What was stored stays stored.
            await exchange.fail(stopping())


class _Exchange:
    """One request and its outcome so far."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if _ID.match(given) else secrets.token_hex(8)
        self.status = 0
        self.error = ""
        self._is_read = False
        self._scope = scope
        self._receive = receive
        self._send = send
        self._visit: Visit | None = None
        scope[REQUEST_ID] = self.id

    def visiting(self, service: Service) -> Visit:
        """The visit of the request, to be entered; its work is over when the response begins."""
        who = self._scope.get(IN_LINE)
        if who is None:
            who = service.known_as(caller(Headers(scope=self._scope).get("authorization", "").encode("latin-1")))
        visit = self._visit = self._scope[VISIT] = Visit(service.admission, who, is_in_line=IN_LINE in self._scope)
        return visit

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._visit is not None:
                self._visit.rest()
            headers = message.setdefault("headers", [])
            given = {name for name, _ in headers}
            headers += [header for header in HEADERS if header[0] not in given]
            headers.append((b"x-request-id", self.id.encode()))
            if self.status >= 300 and self._leaves_body():
                # Otherwise the rest of the body would have to be read to find the next request.
                headers.append((b"connection", b"close"))
        await self._send(message)

    async def fail(self, error: Exception) -> None:
        """Respond with the error, unless the response has already begun: then it is cut off here."""
        self.error = type(error).__name__
        if not isinstance(error, RecollectError) and os.environ.get(DEBUG):
            logging.getLogger("recollect.server").exception("unexpected")
        if not self.status:
            await problem(error, self.id)(self._scope, self._receive, self.send)

    def tell(self, route: str, status: int, seconds: float) -> None:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "id": self.id,
            "method": _method(self._scope),
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
        }
        log.info(json.dumps(line | ({"error": self.error} if self.error else {})))

    def _leaves_body(self) -> bool:
        headers = Headers(scope=self._scope)
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        return has_body and not self._is_read


def _template(scope: Scope) -> str:
    """The path as the route names it: with `{user}`, never with the user's id."""
    return str(getattr(scope.get("route"), "path", "(none)"))


def _method(scope: Scope) -> str:
    known = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
    return scope["method"] if scope["method"] in known else "OTHER"
