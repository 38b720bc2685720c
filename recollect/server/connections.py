"""Connections that do not wait for ever: for the head of a request, for a reader that does not read, for a good-bye.

What is no proper HTTP gets a problem too, as far as that can be said to who does not speak it. And when there is
too much to do, requests are refused unread: to understand each of them first would take half the time of doing it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from recollect.server.admission import ALWAYS, IN_LINE, caller
from recollect.server.errors import MEDIA_TYPE, RETRY_S
from recollect.server.service import Service

CONNECTIONS_MAX = 1_000
"""Open connections; whoever comes above this is told to come back."""
REASONS = {
    400: "this is no HTTP that can be understood",
    431: "the head of the request is too long; 32 KiB are enough",
    503: "there are too many connections; ask again",
}
HANDS_FULL = "the server has its hands full; ask again"

_AUTHORIZATION = re.compile(rb"\r\nauthorization:([^\r\n]*)", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,7})(?=\r\n|\Z)")
_NOT_PLAIN = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade|connection: ?close)")


def sender(data: bytes) -> bytes | None:
    """Who sent this, if it is one whole request, and no more, on a connection that stays open. Else None.

    >>> sender(b"GET /api/users HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer rk_1\\r\\n\\r\\n")
    b'rk_1'
    >>> sender(b"POST /api/chat HTTP/1.1\\r\\nContent-Length: 7\\r\\n\\r\\n{}") is None
    True
    """
    head, end, body = data.partition(b"\r\n\r\n")
    lower = head.lower()
    line = lower.partition(b"\r\n")[0].split(b" ")
    if not end or len(line) != 3 or line[2] != b"http/1.1" or line[1].decode("latin-1") in ALWAYS:
        return None
    lengths = _LENGTH.findall(lower)
    if _NOT_PLAIN.search(lower) or lower.count(b"content-length") != len(lengths) or len(lengths) > 1:
        return None  # two readers might see its end in two places
    if len(body) != int(lengths[0] if lengths else 0):
        return None
    found = _AUTHORIZATION.search(head)
    return caller(found[1] if found else b"")


class PatientProtocol(H11Protocol):
    """HTTP/1.1, with an end to the patience."""

    head_s = 10.0
    """How long the head of a request may take."""
    write_s = 30.0
    """How long a reader may take for what fits into the buffers of a connection, about 64 KiB."""
    _impatience: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _is_one_too_many = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._is_one_too_many = len(self.connections) > CONNECTIONS_MAX
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._is_one_too_many:
            # Only now: who sends into a connection that was closed before does not get to read the answer.
            self._refuse(503)
            return
        who = sender(data) if self._is_between else None
        if who is None:
            super().data_received(data)
        elif self._service.admission.join_line(who):
            self._understand(data, who)
        else:
            self._unset_keepalive_if_required()
            self.transport.write(_problem(503, HANDS_FULL, stays=True))
            self._service.metrics.count("refused")
            self._rest()
        self._watch()

    @property
    def _is_between(self) -> bool:
        """Whether nothing of a request is at hand, and the next may come."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered and not self.conn.trailing_data[0] and not self.transport.is_closing()

    @property
    def _service(self) -> Service:
        service: Service = self.config.app.state.service  # type: ignore[union-attr]
        return service

    def _understand(self, data: bytes, who: bytes) -> None:
        """Read a request that stands in the line: it keeps its place there, unless it turns out to be none."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self.scope[IN_LINE] = who  # type: ignore[literal-required]
        else:
            self._service.admission.leave_line(who)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._rest()
        self._flows()

    # ── who does not ask ─────────────────────────────────────────────────────────────────────────

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
            self._part()

    # ── who does not read ────────────────────────────────────────────────────────────────────────

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
        """From now on there is something in the buffer that has to go."""
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.write_s, self.transport.abort)

    def _flows(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    # ── who does not speak HTTP ──────────────────────────────────────────────────────────────────

    def send_400_response(self, msg: str) -> None:
        # It is called where the parser's error is being handled, which knows more than it is told here.
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)
        if self.cycle is not None and not self.cycle.response_complete:
            self._part()  # in the middle of another answer there is no place for this one
        else:
            self._refuse(status if status in REASONS else 400)

    def _refuse(self, status: int) -> None:
        self.transport.write(_problem(status, REASONS[status]))
        self._part()


@lru_cache
def _problem(status: int, detail: str, *, stays: bool = False) -> bytes:
    """A whole answer that says what is wrong, after which the connection stays open or not."""
    title = HTTPStatus(status).phrase
    code = "Busy" if status == 503 else title.replace(" ", "")
    body = json.dumps({"type": "about:blank", "title": title, "status": status, "code": code, "detail": detail})
    head = [f"HTTP/1.1 {status} {title}", f"Content-Type: {MEDIA_TYPE}", f"Content-Length: {len(body)}"]
    head += [] if stays else ["Connection: close"]
    head += [f"Retry-After: {RETRY_S}"] if status == 503 else []
    return "\r\n".join([*head, "", body]).encode()
