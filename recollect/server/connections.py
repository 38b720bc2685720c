"""Connections that do not wait for ever: for the head of a request, for a reader that does not read, for a good-bye.

What is no proper HTTP gets a problem too, as far as that can be said to who does not speak it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from recollect.server.errors import MEDIA_TYPE, RETRY_S

CONNECTIONS_MAX = 1_000
"""Open connections; whoever comes above this is told to come back."""
REASONS = {
    400: "this is no HTTP that can be understood",
    431: "the head of the request is too long; 32 KiB are enough",
    503: "there are too many connections; ask again",
}


class PatientProtocol(H11Protocol):
    """HTTP/1.1, with an end to the patience."""

    head_s = 10.0
    """How long the head of a request may take."""
    write_s = 30.0
    """How long a reader may take for what fits into the buffers of a connection, about 64 KiB."""
    _impatience: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            self._refuse(503)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

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
        title = HTTPStatus(status).phrase
        problem = {"type": "about:blank", "title": title, "status": status, "code": title.replace(" ", "")}
        body = json.dumps(problem | {"detail": REASONS[status]}).encode()
        head = [f"HTTP/1.1 {status} {title}", f"Content-Type: {MEDIA_TYPE}", f"Content-Length: {len(body)}"]
        head += ["Connection: close"] + ([f"Retry-After: {RETRY_S}"] if status == 503 else [])
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self._part()
