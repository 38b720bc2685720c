"""Connections that never wait for ever: not for the head of a request, a reader that does not read, or a close.

Malformed HTTP gets a problem as well, as far as a client that does not speak HTTP can be told anything. And when there
is too much to do, or one caller asks too often, requests are refused unread: parsing each of them first would take
half the time of serving it.
"""

from __future__ import annotations

import asyncio
import math
import re
import sys
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.protocols.http.h11_impl import H11Protocol

from recollect.errors import Busy, RecollectError
from recollect.server.admission import ALWAYS, IN_LINE, caller
from recollect.server.callers import TAKEN
from recollect.server.errors import Refused, TooMany, busy, problem
from recollect.server.gate import is_guarded
from recollect.server.service import Service

CONNECTIONS_MAX = 400 if sys.platform == "win32" else 1_000
"""The most open connections; beyond this, a client is told to retry. The event loop that PostgreSQL's driver needs on
Windows can watch 512."""

_AUTHORIZATION = b"\r\nauthorization:"
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,7})(?=\r\n|\Z)")
_NOT_PLAIN = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade|connection: ?close)")


def _written(error: RecollectError, *, stays: bool) -> bytes:
    """A complete response that reports an error, after which the connection stays open or not."""
    answer = problem(error)
    lines = [b"HTTP/1.1 %d %b" % (answer.status_code, HTTPStatus(answer.status_code).phrase.encode())]
    lines += [b"%b: %b" % header for header in answer.raw_headers]
    return b"\r\n".join([*lines, *([] if stays else [b"connection: close"]), b"", bytes(answer.body)])


@lru_cache
def _too_often(wait_s: int) -> bytes:
    return _written(TooMany(wait_s), stays=True)


REFUSALS = {
    400: _written(Refused(400, "this is not a valid HTTP request"), stays=False),
    431: _written(Refused(431, "the head of the request is too long; the limit is 32 KiB"), stays=False),
    503: _written(Busy("there are too many connections; try again", field="server"), stays=False),
}
HANDS_FULL = _written(busy(), stays=True)


class Sent(NamedTuple):
    """Who sent a request, how many bytes of its body are still to come, and whether it needs a key."""

    who: bytes
    missing: int
    is_guarded: bool = False


def sent(data: bytes) -> Sent | None:
    """What a glance at a request shows. None unless its head is whole, it comes alone and the connection stays open.

    >>> sent(b"GET /api/users HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer rk_1\\r\\n\\r\\n")
    Sent(who=b'rk_1', missing=0, is_guarded=True)
    >>> sent(b"POST /api/chat HTTP/1.1\\r\\nContent-Length: 7\\r\\n\\r\\n{}")
    Sent(who=b'', missing=5, is_guarded=True)
    >>> sent(b"POST /api/chat HTTP/1.1\\r\\nContent-Le") is None
    True
    """
    head, end, body = data.partition(b"\r\n\r\n")
    lower = head.lower()
    line = lower.partition(b"\r\n")[0].split(b" ")
    if not end or len(line) != 3 or line[2] != b"http/1.1":
        return None
    path = line[1].partition(b"?")[0].decode("latin-1")
    if path in ALWAYS:
        return None
    if line[0] == b"head":
        return None  # its response must have no body, but a refusal has one
    lengths = _LENGTH.findall(lower)
    if _NOT_PLAIN.search(lower) or lower.count(b"content-length") != len(lengths) or len(lengths) > 1:
        return None  # two parsers might see its end in two places
    missing = int(lengths[0] if lengths else 0) - len(body)
    before, given, _ = lower.partition(_AUTHORIZATION)
    if missing < 0 or lower.count(_AUTHORIZATION) > 1:
        return None
    shown = head[len(before) + len(given) :].partition(b"\r\n")[0]
    return Sent(caller(shown), missing, is_guarded(path))


class PatientProtocol(H11Protocol):
    """HTTP/1.1, with limits to its patience."""

    head_s = 10.0
    """How long the head of a request may take."""
    write_s = 30.0
    """How long a client may take to read what fits into the buffers of a connection, about 64 KiB."""
    _impatience: asyncio.TimerHandle | None = None
    _patient_until = 0.0
    _stalled: asyncio.TimerHandle | None = None
    _is_one_too_many = False
    _refused_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._is_one_too_many = len(self.connections) > CONNECTIONS_MAX
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._is_one_too_many:
            # Only now: a client that is still sending when the connection closes does not get to read the response.
            self._refuse(503)
            return
        data = self._without_refused(data)
        if data:
            self._take_in(data, sent(data) if self._is_between else None)
        self._watch()

    def _take_in(self, data: bytes, request: Sent | None) -> None:
        """Read the data, unless a glance shows that the request would be refused."""
        if request is None:
            super().data_received(data)
            return
        service = self._service
        bucket = service.callers.bucket(self._host, request.who)
        wait_s = bucket[0].take(bucket[1]) if bucket is not None else 0.0
        # A caller over its rate is told so before its key is checked.
        who = b"" if wait_s else service.known_as(request.who)
        wait_s = wait_s or self._wait_s(request, who)
        if wait_s:
            self._turn_away(_too_often(math.ceil(wait_s)), request, "rate")
        elif request.missing:
            self._understand(data, {TAKEN: bucket})  # a slow sender does not join the line yet
        elif not service.admission.join_line(who):
            self._turn_away(HANDS_FULL, request, "busy")
        elif not self._understand(data, {TAKEN: bucket, IN_LINE: who}):
            service.admission.leave_line(who)

    def _wait_s(self, request: Sent, who: bytes) -> float:
        """How long a request without a valid key must wait, if too many such requests came from its host; else 0."""
        needs_key = request.is_guarded and (request.who or self._service.keys.are_held)
        return self._service.unknown_wait_s(self._host, request.who) if needs_key and not who else 0.0

    def _understand(self, data: bytes, known: dict[str, Any]) -> bool:
        """Parse a request, adding what is already known about it to its scope. Returns whether it is one."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is before:
            return False
        self.scope.update(known)  # type: ignore[typeddict-item]
        return True

    def _turn_away(self, answer: bytes, request: Sent, why: str) -> None:
        """Refuse a request unread. The connection stays open: the rest of the request is discarded as it comes."""
        self._unset_keepalive_if_required()
        self.transport.write(answer)
        self._refused_bytes = request.missing
        self._service.metrics.count("refused", why=why)
        self._patient_until = self.loop.time() + self.head_s  # the timer is kept: a new one would cost as much again

    def _without_refused(self, data: bytes) -> bytes:
        """The data, without the rest of a refused body."""
        thrown, self._refused_bytes = data[: self._refused_bytes], max(0, self._refused_bytes - len(data))
        return data[len(thrown) :]

    @property
    def _host(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _is_between(self) -> bool:
        """Whether no request is in progress or buffered, so that the next may come."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered and not self.conn.trailing_data[0] and not self.transport.is_closing()

    @property
    def _service(self) -> Service:
        service: Service = self.config.app.state.service  # type: ignore[union-attr]
        return service

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._rest()
        self._flows()

    # ── clients that do not ask ──────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        waits = self.cycle is None or self.cycle.response_complete
        if not waits:
            self._rest()
        elif self._impatience is None and not self.transport.is_closing():
            self._patient_until = self.loop.time() + self.head_s
            self._impatience = self.loop.call_at(self._patient_until, self._leave)

    def _rest(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def _leave(self) -> None:
        self._impatience = None
        if self.loop.time() < self._patient_until:
            self._impatience = self.loop.call_at(self._patient_until, self._leave)
        elif self.cycle is None or self.cycle.response_complete:
            self._part()

    # ── clients that do not read ─────────────────────────────────────────────────────────────────

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalls()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._flows()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._stalls()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._stalls()

    def _part(self) -> None:
        self.transport.close()
        self._stalls()

    def _stalls(self) -> None:
        """Start the time limit for sending what is in the buffer."""
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.write_s, self.transport.abort)

    def _flows(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    # ── clients that do not speak HTTP ───────────────────────────────────────────────────────────

    def send_400_response(self, msg: str) -> None:
        # This is called while the parser's error is being handled, which holds more than `msg`.
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)
        if self.cycle is not None and not self.cycle.response_complete:
            self._part()  # this response cannot go in the middle of another one
        else:
            self._refuse(status if status in REFUSALS else 400)

    def _refuse(self, status: int) -> None:
        self.transport.write(REFUSALS[status])
        self._part()
