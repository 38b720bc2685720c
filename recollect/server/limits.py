"""Limits for one caller: requests per minute, and the bytes and seconds of a body."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.errors import TooLarge
from recollect.server.admission import VISIT
from recollect.server.errors import Refused, busy
from recollect.validate import LIMITS

BUCKETS_MAX = 10_000
"""How many callers' rates are tracked; beyond that, the one idle longest starts afresh."""
HEAD_BYTES = 32 * 1024
"""The longest head a request may have."""
LINE_BYTES = 4
"""What a header takes besides its name and value: a colon, a space, the end of the line."""
BODY_S = 20.0
"""How long the whole body of a request may take: 1 MiB in this time is a very slow telephone line."""
BODIES_BYTES = 128 * 1024 * 1024
"""Total size of the bodies of all requests in progress: it bounds memory, and fits tens of thousands of usual ones."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Rate:
    """A token bucket for each caller: `per_minute` requests a minute, of which `burst` may come at once."""

    def __init__(self, per_minute: int, *, burst: int, timer: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_minute / 60
        self._burst = burst
        self._timer = timer
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, who: str) -> float:
        """Seconds until a token is available; 0 if there is one now. Takes none."""
        bucket = self._buckets.get(who)
        if bucket is None:
            return 0.0
        return max(0.0, (1 - bucket.tokens) / self._per_s - (self._timer() - bucket.at))

    def take(self, who: str) -> float:
        """Take a token. Returns 0, or the seconds to wait until one is available."""
        now = self._timer()
        bucket = self._buckets.pop(who, None) or _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._per_s)
        bucket.at = now
        self._buckets[who] = bucket
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._per_s
        bucket.tokens -= 1
        return 0.0


BytesRead = Callable[[Scope, int], None]


def check_head(scope: Scope) -> None:
    """Refuse a request whose path and headers are too long, however they came, or whose end is ambiguous."""
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    size += sum(len(name) + len(value) + LINE_BYTES for name, value in scope["headers"])
    if size > HEAD_BYTES:
        raise Refused(431, f"must have at most {HEAD_BYTES} bytes", field="headers")
    headers = Headers(scope=scope)
    if "transfer-encoding" in headers and "content-length" in headers:
        # A proxy in front of this server may see the end elsewhere, and take the rest for somebody else's request.
        raise Refused(400, "must not be combined with Transfer-Encoding", field="content-length")


class BodyLimit:
    """Refuses a body announced as too large before reading it, and one that proves too large or too slow while read."""

    def __init__(self, app: ASGIApp, *, body_s: float = BODY_S, read: BytesRead = lambda _, __: None) -> None:
        """`read` gets the scope of each request and the length of its body."""
        self._app = app
        self._body_s = body_s
        self._read = read
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 9 or int(length) > LIMITS.body_bytes:
            raise _too_large()
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Refused(415, "must not be compressed", field="content-encoding")
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            # Count what has arrived, not what was announced: a caller that sends nothing takes no room from others.
            if self._held + size > BODIES_BYTES:
                raise busy()
            self._held += size
            held += size

        async def whole(size: int) -> None:
            if size:
                self._read(scope, size)
            # Only now: a slow sender must not hold a turn.
            if VISIT in scope:
                await scope[VISIT].begin()

        try:
            if length == "0" and "transfer-encoding" not in headers:
                await whole(0)
            await self._app(scope, _counted(receive, self._body_s, hold, whole), send)
        finally:
            self._held -= held


def _counted(
    receive: Receive, body_s: float, hold: Callable[[int], None], whole: Callable[[int], Awaitable[None]]
) -> Receive:
    """The same stream of messages, ending with an error when the body is too large or too slow.

    `hold` gets the size of each part, `whole` that of the whole body.
    """
    read = 0
    is_whole = False
    deadline: float | None = None

    async def counted() -> Message:
        nonlocal read, is_whole, deadline
        if is_whole:
            return await receive()  # waits for the client to disconnect, which may take any time
        deadline = deadline or asyncio.get_running_loop().time() + body_s
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise Refused(408, f"must arrive within {body_s:g} seconds", field="body") from None
        size = len(message.get("body", b""))
        hold(size)
        read += size
        is_whole = not message.get("more_body", False)
        if read > LIMITS.body_bytes:
            raise _too_large()
        if is_whole:
            await whole(read)
        return message

    return counted


def _too_large() -> TooLarge:
    return TooLarge(f"must have at most {LIMITS.body_bytes} bytes; send it in several requests", field="body")
