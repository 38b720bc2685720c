"""JSON requests to external endpoints: bounded, timed, and retried only where that may help.

The only file that knows httpx. A call ends within `WHOLE` times `answer_s`, a minute by default, and a stream
within `STREAM_S`. A problem that persists is raised as `Trouble`, whose message contains neither what was sent,
nor what was answered, nor the key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from recollect.errors import ValidationError

CONNECT_S, ANSWER_S = 5.0, 30.0
"""How long to wait for a connection, and for each part of an answer."""
WHOLE = 2
"""How long a whole call may take with all its tries, in times `answer_s`."""
TRIES = 3
"""How often one request is sent; after that it is up to the caller."""
WAIT_S = 0.5
"""Wait before the second try; doubles with each further try."""
WAIT_MAX_S = 20.0
"""The longest `Retry-After` waited for within the call; a longer one is reported to the caller."""
AGAIN_MAX_S = 24 * 3600.0
"""The longest `Retry-After` that is honoured."""
QUIET_MAX_S = 600.0
"""The longest an endpoint is left alone before it is tried again."""
LINE_CHARACTERS_MAX = 1 << 20
"""Limit for one event of a stream; a longer line is not an answer."""
STREAM_CHARACTERS_MAX, STREAM_S = 64 << 20, 900.0
"""Limits for a whole stream: each word takes a few hundred characters. Anything beyond counts as endless."""
GAVE_UP = (408, 504, 524)
"""Statuses of a server that stopped waiting for one behind it, which may have worked on the request all the same."""
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL)
"""Errors before anything was sent."""


class Trouble(Exception):
    """Why there is no answer, whether an immediate retry may help, and when it may (`again_s`) if that was given.

    `refused`: the endpoint answered, and retrying is unlikely to change that. Check the address, key and model.
    `heard`: the endpoint may have worked on the request, and may charge for it.
    """

    def __init__(
        self,
        problem: str,
        *,
        passes: bool = False,
        refused: bool = False,
        heard: bool = True,
        again_s: float | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.passes = passes
        self.refused = refused
        self.heard = heard
        self.again_s = again_s


class Wire:
    """Connections to one address, kept open and shared by all callers."""

    def __init__(self, url: str, key: str = "", *, answer_s: float = ANSWER_S, wait_s: float = WAIT_S) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._answer_s = answer_s
        self._wait_s = wait_s
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quiet_until = 0.0

    async def post(self, body: Mapping[str, Any], *, bytes_max: int) -> bytes:
        """The answer to one request, retried after transient problems.

        If the endpoint asks for more than `WAIT_MAX_S`, no caller contacts it until then, for at most `QUIET_MAX_S`.
        """
        quiet_s = self._quiet_until - time.monotonic()
        if quiet_s > 0:
            raise Trouble("asked not to be called for a while", passes=True, heard=False, again_s=quiet_s)
        try:
            # Each part of an answer has its time, but one that drips would hold its caller for ever.
            async with asyncio.timeout(WHOLE * self._answer_s):
                return await self._tried(body, bytes_max)
        except TimeoutError as error:
            raise Trouble("did not answer in time") from error

    async def _tried(self, body: Mapping[str, Any], bytes_max: int) -> bytes:
        heard = False
        for attempt in range(1, TRIES + 1):
            wait_s = self._wait_s * 2 ** (attempt - 1)
            try:
                return await self._sent(body, bytes_max)
            except Trouble as trouble:
                trouble.heard = heard = heard or trouble.heard
                wait_s = wait_s if trouble.again_s is None else trouble.again_s
                if trouble.again_s is not None and wait_s > WAIT_MAX_S:
                    self._quiet_until = time.monotonic() + min(wait_s, QUIET_MAX_S)
                if not trouble.passes or attempt == TRIES or wait_s > WAIT_MAX_S:
                    raise
            await asyncio.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def lines(self, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """The lines of an answer as they arrive. There is no retry: lines already yielded cannot be taken back."""
        try:
            async with self._connected().stream("POST", self._url, json=body, headers=self._headers) as response:
                _look_at(response)
                async for line in _lines(response):
                    yield line
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _trouble(error) from error

    async def disconnect(self) -> None:
        """Close idle connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    async def _sent(self, body: Mapping[str, Any], bytes_max: int) -> bytes:
        content = bytearray()
        try:
            # In parts, so that an endless answer does not fill the memory.
            async with self._connected().stream("POST", self._url, json=body, headers=self._headers) as response:
                _look_at(response)
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > bytes_max:
                        raise Trouble("returned an answer that is too large")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _trouble(error) from error
        return bytes(content)

    def _connected(self) -> httpx.AsyncClient:
        """The open connections; new ones on a different event loop, since connections belong to one loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            timeout = httpx.Timeout(self._answer_s, connect=CONNECT_S)
            # A redirect would send texts and key to an address nobody chose.
            self._client, self._loop = httpx.AsyncClient(timeout=timeout, follow_redirects=False), loop
        return self._client


def check(url: str, key: str, *, url_field: str, key_field: str) -> None:
    """Reject anything that is not a web address, and a key that cannot go into a header."""
    try:
        allowed = httpx.URL(url).scheme in ("http", "https")
    except (httpx.InvalidURL, ValueError):
        allowed = False
    if not allowed:
        raise ValidationError("must be an http:// or https:// URL", field=url_field)
    if not (key.isascii() and (not key or key.isprintable())):
        raise ValidationError("must be printable ASCII, as it goes into a header", field=key_field)


def _look_at(response: httpx.Response) -> None:
    """Accept a 200 response; raise `Trouble` for any other."""
    status = response.status_code
    if status != 200:
        passes = status == 429 or status >= 500
        raise Trouble(
            f"answered {status}",
            passes=passes,
            refused=not passes,
            heard=status in GAVE_UP,
            again_s=_retry_after_s(response.headers),
        )


def _trouble(error: Exception) -> Trouble:
    heard = not isinstance(error, UNSENT)
    if isinstance(error, httpx.TimeoutException):
        return Trouble("did not answer in time", heard=heard)
    return Trouble(f"could not be reached ({type(error).__name__})", passes=True, heard=heard)


def _retry_after_s(headers: httpx.Headers) -> float | None:
    """How long the endpoint asks to be left alone: in seconds, or until a date."""
    said = headers.get("retry-after", "")
    try:
        seconds = float(said) if said[:1].isdigit() else parsedate_to_datetime(said).timestamp() - time.time()
    except (ValueError, OverflowError, OSError):
        return None  # Windows raises the last for local times before 1970
    return min(max(seconds, 0.0), AGAIN_MAX_S)


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    """The lines of a stream; an endless one neither fills the memory nor is read for ever."""
    rest = ""
    heard, until = 0, time.monotonic() + STREAM_S
    async for text in response.aiter_text():
        heard += len(text)
        if heard > STREAM_CHARACTERS_MAX or time.monotonic() > until:
            raise Trouble("sent an answer that does not end")
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            yield line.rstrip("\r")
        if len(rest) > LINE_CHARACTERS_MAX:
            raise Trouble("sent a line that does not end")
    if rest:
        yield rest
