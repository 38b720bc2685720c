"""One Redis server, and how calls get to it. This is the only file that knows the driver.

Calls that wait for the same server are sent together in one batch. A call that was accepted is
finished even when its caller stops waiting: it is carried by a task of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from recollect.stores.redis_url import Address, RedisUrl

LINES_MAX = 4
"""Connections to one server. A few are enough: waiting calls share one."""
BATCH_MAX = 32
"""Calls that are sent together."""

CONNECT_S = 2.0
"""How long connecting may take: less than a call, since the system still accepts on behalf of a server that hangs."""

PROGRESS_SHARE = 0.1
"""The deadline of a batch that makes progress is moved once this share of it has passed, not at every answer."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Values as they go over the wire."""

    count: int
    data: bytes


Value = str | bytes | int | Packed
Reply = Any

NOT_SENT = "NOT_SENT"
"""The server cannot be reached; it has seen nothing of the call."""
BROKEN = "BROKEN"
"""The connection broke or the server was silent; whether the call was carried out is not known."""
_CODES: tuple[tuple[type[Exception], str], ...] = (
    (MovedError, "MOVED"),
    (AskError, "ASK"),
    (NoScriptError, "NOSCRIPT"),
    (TryAgainError, "TRYAGAIN"),
    (MasterDownError, "MASTERDOWN"),  # a subclass of ClusterDownError, so before it
    (ClusterDownError, "CLUSTERDOWN"),
    (ReadOnlyError, "READONLY"),
    (OutOfMemoryError, "OOM"),
    (BusyLoadingError, "LOADING"),
    (AuthenticationError, "NOAUTH"),
    (NoPermissionError, "NOPERM"),
)


class Failure(Exception):
    """A server's refusal, or why it could not be asked, as a code; with an address where it names another server.

    The server's own words may contain keys or content, so they are not kept.
    """

    def __init__(self, code: str, address: Address | None = None) -> None:
        self.code = code
        self.address = address
        super().__init__(code)


def failure_of(error: Exception) -> Failure:
    """A driver's error as a code."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            named = isinstance(error, AskError)  # which includes MovedError
            return Failure(code, (error.host, error.port) if named else None)  # type: ignore[attr-defined]
    word = str(error).partition(" ")[0]
    return Failure(word if word.isascii() and word.isalpha() and word.isupper() else "ERR")


@dataclass(frozen=True, slots=True)
class Answer:
    """Replies to a call, a refusal as a `Failure`; how many replicas have it; which run of the server gave it."""

    replies: Sequence[Reply]
    replicas: int
    run: str


@dataclass(slots=True)
class _Call:
    sent: bytes
    count: int
    waits: bool
    future: asyncio.Future[Answer]


@dataclass(slots=True)
class _Line:
    connection: AbstractConnection
    run: str = ""


class Node:
    """One server process at one address."""

    def __init__(self, address: Address, url: RedisUrl, try_s: float) -> None:
        self.address = address
        self._url = url
        self._try_s = try_s
        self._connect_s = min(CONNECT_S, try_s)
        self._waiting: deque[_Call] = deque()
        self._idle: list[_Line] = []
        self._carriers: set[asyncio.Task[None]] = set()

    async def call(self, *commands: Sequence[Value], waits: bool = False) -> Answer:
        """Send commands in one piece. `waits`: the answer says how many replicas have them.

        Raises `Failure` when the server cannot be asked; a refusal is in the answer.
        """
        sent = b"".join([_command(command) for command in commands])
        call = _Call(sent, len(commands), waits, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if len(self._carriers) < LINES_MAX:
            carrier = asyncio.create_task(self._carry_all())
            self._carriers.add(carrier)
            carrier.add_done_callback(self._carriers.discard)  # also for one cancelled before it began
        return await call.future

    async def close(self) -> None:
        """Finish the calls already accepted, then hang up."""
        while self._carriers:
            await asyncio.wait(self._carriers)
        await self.hang_up()

    async def hang_up(self) -> None:
        """Close idle connections, so that the next call reaches whichever server answers there now."""
        idle, self._idle = self._idle, []
        for line in idle:
            await _drop(line)

    # ── a batch ──────────────────────────────────────────────────────────────────────────────────

    async def _carry_all(self) -> None:
        """Carry waiting calls. A caller that arrives just after the last one must find that this carrier is gone."""
        try:
            await self._carry()
        finally:
            carrier = asyncio.current_task()
            assert carrier is not None, "it is a task"
            self._carriers.discard(carrier)

    async def _carry(self) -> None:
        """Take waiting calls, batch after batch, until none are left."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
            try:
                async with asyncio.timeout(self._connect_s):
                    line = await self._line()
            except (AuthenticationError, BusyLoadingError, ResponseError) as refusal:
                _fail(batch, failure_of(refusal))
            except (RedisError, OSError):  # asyncio's TimeoutError is an OSError
                _fail(batch, Failure(NOT_SENT))
            else:
                await self._converse(line, batch)

    async def _converse(self, line: _Line, batch: list[_Call]) -> None:
        try:
            await self._exchange(line, batch)
        except (RedisError, OSError):
            _fail(batch, Failure(BROKEN))
            await _drop(line)
        except BaseException:
            _fail(batch, Failure(BROKEN))
            await _drop(line)
            raise
        else:
            self._idle.append(line)

    async def _exchange(self, line: _Line, batch: list[_Call]) -> None:
        waiting: list[tuple[_Call, list[Reply]]] = []
        clock = asyncio.get_running_loop().time
        sent = [call.sent for call in batch]
        waits = any(call.waits for call in batch)
        if waits:
            # One WAIT serves all: it covers whatever this connection has written before it.
            sent.append(_command(("WAIT", self._url.wait_replicas, self._url.wait_ms)))
        async with asyncio.timeout(self._try_s) as limit:
            await line.connection.send_packed_command(sent, check_health=False)
            moved = clock()
            for call in batch:
                replies = [await _reply(line.connection) for _ in range(call.count)]
                # A batch may take long, provided it makes progress.
                if (now := clock()) > moved + PROGRESS_SHARE * self._try_s:
                    moved = now
                    limit.reschedule(now + self._try_s)
                if call.waits:
                    waiting.append((call, replies))
                else:
                    _settle(call, Answer(replies, 0, line.run))
            if waits:
                limit.reschedule(clock() + self._try_s + self._url.wait_ms / 1000)
                replicas = await _reply(line.connection)
                for call, replies in waiting:
                    _settle(call, Answer(replies, replicas if isinstance(replicas, int) else 0, line.run))

    # ── connections ──────────────────────────────────────────────────────────────────────────────

    async def _line(self) -> _Line:
        while self._idle:
            line = self._idle.pop()
            if await _is_quiet(line):
                return line
            await _drop(line)
        line = _Line(self._connection())
        try:
            await line.connection.connect()  # type: ignore[no-untyped-call]
            await line.connection.send_command("INFO", "server", check_health=False)
            with suppress(NoPermissionError):
                line.run = fields_of(await line.connection.read_response()).get("run_id", "")
        except BaseException:
            await _drop(line)
            raise
        return line

    def _connection(self) -> AbstractConnection:
        url = self._url
        make: Callable[..., AbstractConnection] = SSLConnection if url.tls else Connection
        return make(
            host=self.address[0],
            port=self.address[1],
            db=url.database,
            username=url.username,
            password=url.password,
            client_name="recollect",
            protocol=2,
            socket_timeout=None,  # a batch has a time limit of its own
            socket_connect_timeout=self._connect_s,
            retry=Retry(NoBackoff(), 0),  # the caller knows what may be sent twice
            **dict(url.tls_files),
        )


def packed(values: Iterable[Value]) -> Packed:
    """Values as they go over the wire: what is sent often is packed once."""
    count, parts = 0, []
    for value in values:
        if isinstance(value, Packed):
            count += value.count
            parts.append(value.data)
        else:
            data = value if isinstance(value, bytes) else str(value).encode()
            count += 1
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return Packed(count, b"".join(parts))


def _command(values: Iterable[Value]) -> bytes:
    """A command as it goes over the wire."""
    whole = packed(values)
    return b"*%d\r\n%b" % (whole.count, whole.data)


async def _reply(connection: AbstractConnection) -> Reply:
    try:
        return await connection.read_response(disconnect_on_error=False)
    except (ResponseError, BusyLoadingError, AuthenticationError) as refusal:
        return failure_of(refusal)


def _settle(call: _Call, answer: Answer) -> None:
    if not call.future.done():  # done: its caller was cancelled
        call.future.set_result(answer)


def _fail(batch: Iterable[_Call], failure: Failure) -> None:
    for call in batch:
        if not call.future.done():
            call.future.set_exception(failure)


async def _is_quiet(line: _Line) -> bool:
    """Whether an idle connection is still open: one with something to read was closed by the other side."""
    connection: Any = line.connection
    has_news = connection.can_read if hasattr(connection, "can_read") else connection.can_read_destructive
    try:
        return not await has_news()
    except (RedisError, OSError):
        return False


async def _drop(line: _Line) -> None:
    """Close a connection without waiting for the other side."""
    with suppress(RedisError, OSError):
        await line.connection.disconnect(nowait=True)


def fields_of(info: Reply) -> dict[str, str]:
    """The lines of INFO by name."""
    text = info.decode() if isinstance(info, bytes) else ""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
