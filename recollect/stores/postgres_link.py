"""How a PostgreSQL server is reached: its URL, the connection pool, what is retried, and wake-ups.

Transient failures (a deadlock, a serialization failure, a lost connection) are retried for a few
seconds, a lost connection only where a second try cannot do anything twice. A server that is silent for
longer than any statement may take is hung up on: it counts as lost. Everything else is raised as one of
our errors. The driver's own messages are never passed on: they may contain content.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg import AsyncConnection
from psycopg.adapt import AdaptersMap
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from recollect.errors import Busy, RecollectError, Unavailable, ValidationError
from recollect.stores.contract import closed_store
from recollect.stores.postgres_values import Arrays, Context

T = TypeVar("T")

CONNECT_S = 5.0
"""How long a caller waits for a connection: one from the pool, or a new one."""
RETRY_S = 5.0
"""How long work that may be retried is retried."""
PAUSE_S = 0.02
PAUSE_MAX_S = 0.5
NOTICE_PAUSE_S = 0.05
"""Minimum time between two wake-ups sent by one process: workers already awake need no more."""
LISTEN_AGAIN_S = 1.0
CANCEL_AGAIN_S = 0.1
SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")
POOL_MAX = 10
STATEMENT_S = 30.0
SILENCE_S = 5.0
"""How much longer than a statement may take the server may be silent: it ends such a statement itself, if it can."""
_NETWORK = {
    "connect_timeout": int(CONNECT_S),
    # A peer that is gone without a word is noticed within these times, not after the system's two hours.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Parameters of the driver that the URL may change."""
_ROLLED_BACK = frozenset({"40001", "40P01"})
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "53300"})


class Connection(AsyncConnection[tuple[Any, ...]]):
    """A connection that waits for an answer for `silence_s` at most, then hangs up, as if the server had."""

    silence_s: float | None = None
    """None: as long as it takes."""
    run: str = ""
    """Which run of which server it leads to."""

    async def wait(self, *given: Any, **named: Any) -> Any:
        if self.silence_s is None:
            return await super().wait(*given, **named)
        alarm = asyncio.get_running_loop().call_later(self.silence_s, self._hang_up)
        try:
            return await super().wait(*given, **named)
        finally:
            alarm.cancel()

    def _hang_up(self) -> None:
        """End the conversation below the driver, which then finds it ended. Cancelling would ask the silent server."""
        with (
            suppress(OSError, psycopg.OperationalError),
            socket.fromfd(self.fileno(), socket.AF_INET, socket.SOCK_STREAM) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)


Work = Callable[[Connection], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL: what the driver gets, and our own parameters."""

    conninfo: str
    shown: str
    schema: str = "recollect"
    pool_min: int = 1
    pool_max: int = POOL_MAX
    statement_s: float = STATEMENT_S
    pgvector: bool = True
    compacts_fully: bool = False
    migrates: bool = True


def read_address(url: str) -> Address:
    """Parse a URL. Parameters that are not ours, such as `sslmode` or `application_name`, are left for the driver."""
    try:
        # Divided as the driver does it: to others an empty host, or a '#' in a password, means something else.
        place, _, query = url.partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        schema = given.pop("schema", "recollect")
        pool_min, pool_max = int(given.pop("pool_min", 1)), int(given.pop("pool_max", POOL_MAX))
        statement_s = float(given.pop("statement_timeout_s", STATEMENT_S))
        pgvector, compact = given.pop("pgvector", "on"), given.pop("compact", "plain")
        migrate = given.pop("migrate", "yes")
        conninfo = f"{place}?{urlencode(given, quote_via=quote)}" if given else place
        understood = psycopg.conninfo.conninfo_to_dict(conninfo)
    except (ValueError, psycopg.Error):
        raise ValidationError(
            "write postgresql://user@host/database?schema=name; see docs/how-to/postgres.md", field="url"
        ) from None
    if not SCHEMA.match(schema):
        raise ValidationError("a schema name has up to 51 lower-case letters, digits and _", field="url")
    if not 0 <= pool_min <= pool_max or pool_max < 1 or not 0 < statement_s < 86_400:
        raise ValidationError("pool_min, pool_max or statement_timeout_s is out of range", field="url")
    if pgvector not in ("on", "off") or compact not in ("plain", "full") or migrate not in ("yes", "no"):
        raise ValidationError("pgvector is on or off, compact is plain or full, migrate is yes or no", field="url")
    shown = _shown(understood, schema)
    return Address(
        conninfo, shown, schema, pool_min, pool_max, statement_s, pgvector == "on", compact == "full", migrate == "yes"
    )  # fmt: skip


def _shown(understood: Mapping[str, Any], schema: str) -> str:
    """A URL for people, made of what may be seen."""
    user, name = understood.get("user"), understood.get("dbname") or ""
    hosts = str(understood.get("host") or "").split(",")
    ports = str(understood.get("port") or "").split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
    bracketed = [f"[{host}]" if ":" in host else host for host in hosts]
    at = ",".join(f"{host}:{port}" if port else host for host, port in zip(bracketed, ports, strict=True))
    return f"postgresql://{f'{user}@' if user else ''}{at}/{name}?schema={schema}"


def translated(error: psycopg.Error) -> RecollectError:
    """The driver's error as one of ours, without any content."""
    state = error.sqlstate or ""
    if isinstance(error, PoolTimeout):
        return Busy("no connection became free; check that the server answers, or raise pool_max", field="store")
    if state == "55P03":
        return Busy("another caller holds this partition; try again, or raise busy_timeout_s", field="store")
    if state == "57014":
        return Busy("it took longer than statement_timeout_s and was undone; try again", field="store")
    if state == "25006":
        return Unavailable("the server accepts no writes: it is read-only or a standby", field="store")
    if state.startswith("53"):
        return Unavailable("the server is out of room: disk, memory or connections", field="store")
    if state.startswith("42"):
        advice = "run `recollect doctor`; if another version migrated it, restart with that one"
        return Unavailable(f"the schema is not as it should be ({state}): {advice}", field="store")
    if isinstance(error, psycopg.DataError):
        return ValidationError(f"PostgreSQL cannot keep this text or number ({state})", field="changes")
    if not state or state in _LOST or state.startswith("08"):
        return Unavailable("the connection to PostgreSQL was lost or refused; check that it runs", field="store")
    return Unavailable(f"PostgreSQL failed ({state}); its log says more", field="store")


def not_let_in(told: str) -> str:
    """Why a first connection failed, as far as the server's message tells: there is no code for it.

    >>> not_let_in('FATAL:  password authentication failed for user "ann"')
    'PostgreSQL refused the login: check user and password, and that pg_hba.conf lets them in'
    """
    is_missing = "does not exist" in told
    if any(word in told for word in ("password", "authentication", "pg_hba")) or ("role " in told and is_missing):
        return "PostgreSQL refused the login: check user and password, and that pg_hba.conf lets them in"
    if "database " in told and is_missing:
        return "PostgreSQL runs but has no such database: create it with createdb, or check its name"
    return (
        "PostgreSQL cannot be reached or refuses the connection: check host, port, user, password and database, "
        "and that it runs"
    )


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection was lost, so that nobody knows what became of the call."""
    state = error.sqlstate
    broken = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state in _LOST or (state is None and broken) or (state or "").startswith("08")


OTHER_LOOP = (
    "PostgreSQL's driver cannot use this event loop, which is the usual one on Windows: run the program with "
    "asyncio.Runner(loop_factory=asyncio.SelectorEventLoop), or use recollect.sync"
)


def _is_proactor(loop: asyncio.AbstractEventLoop) -> bool:
    return any(kind.__name__ == "ProactorEventLoop" for kind in type(loop).__mro__)


class Link:
    """The open server. `run` gives a connection to work, which is an async function of it."""

    def __init__(self, address: Address, busy_timeout_s: float) -> None:
        self.address = address
        adapters = AdaptersMap(psycopg.adapters)
        self.arrays = Arrays(adapters)
        given = psycopg.conninfo.conninfo_to_dict(address.conninfo)
        self._connect: dict[str, Any] = {
            "autocommit": True,
            "client_encoding": "utf8",
            "context": Context(adapters),
            **{name: value for name, value in _NETWORK.items() if name not in given},
        }
        self._settings = _settings(address, busy_timeout_s)
        self._runs: dict[str, int] = {}
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._channel = f"recollect_{address.schema}"
        self._wakes = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._announcing = False

    async def first(self, work: Work[T]) -> T:
        """Run work on a connection of its own, before there is a pool."""
        if _is_proactor(asyncio.get_running_loop()):
            raise Unavailable(OTHER_LOOP, field="store")
        try:
            async with await Connection.connect(self.address.conninfo, **self._connect) as db:
                await self._set_up(db)
                await self._check_pooler(db)
                db.silence_s = None  # a migration takes as long as it takes
                return await work(db)
        except psycopg.Error as error:
            if is_lost(error):
                raise Unavailable(not_let_in(str(error)), field="store") from None
            raise translated(error) from None

    async def open(self) -> None:
        """Start the pool."""
        self._pool = AsyncConnectionPool(
            self.address.conninfo,
            connection_class=Connection,
            kwargs=self._connect,
            configure=self._set_up,
            min_size=self.address.pool_min,
            max_size=self.address.pool_max,
            timeout=CONNECT_S,
            reconnect_timeout=CONNECT_S,
            num_workers=2,
            open=False,
        )
        await self._pool.open()

    async def _set_up(self, db: Connection) -> None:
        """Apply our settings to a new connection. Poolers refuse or ignore settings that come with the connection."""
        db.silence_s = self.address.statement_s + SILENCE_S
        each = ", ".join(["set_config(%s, %s, false)"] * len(self._settings))
        values = [part for setting in self._settings.items() for part in setting]
        cursor = await db.execute(f"select pg_postmaster_start_time()::text, {each}".encode(), values)
        ((db.run, *_),) = await cursor.fetchall()

    def turn_of(self, db: Connection) -> int:
        """The number of the server's run that a connection leads to, among those that this process has met."""
        return self._runs.setdefault(db.run, len(self._runs))

    async def _check_pooler(self, db: Connection) -> None:
        """Refuse a pooler that gives each transaction another session: ours would lose their settings.

        The pooler is recognised by its answer to who serves us, its mode by two connections that share a session.
        """
        if await _served_by(db) == db.info.backend_pid:
            return
        async with await Connection.connect(self.address.conninfo, **self._connect) as other:
            sessions = [await _served_by(each) for each in (db, other, db, other)]
        if sessions[:2] != sessions[2:] or sessions[0] == sessions[1]:
            told = "a pooler in transaction mode stands before this server; use its session mode, or connect directly"
            raise ValidationError(told, field="url")

    # ── work ─────────────────────────────────────────────────────────────────────────────────────

    async def run(self, work: Work[T], *, again: bool = True) -> T:
        """Run work on a connection from the pool; `again`: it may be repeated if its answer was lost."""
        self.check_open()
        caller = asyncio.current_task()
        assert caller is not None, "it is a task"
        cancelled = caller.cancelling()
        answer = await self.run_handed_over(work, again=again)
        # The driver loses a cancellation that comes together with an answer (`wait_for` in Python 3.11).
        if caller.cancelling() > cancelled:
            raise asyncio.CancelledError
        return answer

    async def run_handed_over(self, work: Work[T], *, again: bool) -> T:
        """Like `run`, for work accepted before the store was closed."""
        pool = self._pool
        assert pool is not None, "opened before it is used"
        until = time.monotonic() + RETRY_S
        pause = PAUSE_S
        while True:
            try:
                async with pool.connection() as db:
                    return await work(db)
            except PoolClosed:
                raise closed_store() from None
            except psycopg.Error as error:
                lost = is_lost(error) and not isinstance(error, PoolTimeout)
                passes = error.sqlstate in _ROLLED_BACK or (lost and again)
                if not passes or time.monotonic() > until:
                    raise translated(error) from None
                if lost:
                    # The other connections in the pool are likely dead too: check them before one is used.
                    await pool.check()
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)

    async def finish(self, work: Work[T], *, again: bool = True) -> T:
        """Like `run`, but to completion, whether or not the caller still waits."""
        self.check_open()
        return await asyncio.shield(self.spawn(self.run_handed_over(work, again=again)))

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work that `close` waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here, since its caller may be gone

    def check_open(self) -> None:
        if self._closed:
            raise closed_store()

    async def close(self) -> None:
        """Finish the work already accepted, then close the connections."""
        if self._closed:
            return
        self._closed = True
        # Shielded: a caller that stops waiting does not stop it.
        await asyncio.shield(asyncio.ensure_future(self._let_go()))

    async def _let_go(self) -> None:
        # More than once: a cancellation that coincides with a wake-up can be lost (`wait_for` in Python 3.11).
        while self._listening is not None and not self._listening.done():
            self._listening.cancel()
            await asyncio.wait({self._listening}, timeout=CANCEL_AGAIN_S)
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._pool is not None:
            await self._pool.close()

    # ── wake-ups ─────────────────────────────────────────────────────────────────────────────────

    def announce_work(self) -> None:
        """Wake the workers of other processes soon, and no more often than is useful.

        Not in the commit itself: a transaction that notifies makes all others that notify wait until
        it is on disk. If the wake-up is lost, workers find the job when they next look.
        """
        if not self._announcing and not self._closed:
            self._announcing = True
            self.spawn(self._announce())

    async def _announce(self) -> None:
        async def notify(db: Connection) -> None:
            await db.execute("select pg_notify(%s, '')", (self._channel,))

        try:
            await self.run_handed_over(notify, again=False)
            await asyncio.sleep(0 if self._closed else NOTICE_PAUSE_S)
        except RecollectError:
            pass
        finally:
            self._announcing = False

    async def wait_for_work(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for some process to enqueue a job. True when one has."""
        self.check_open()
        # With a single connection there is none to spare for listening.
        if self._listening is None and self.address.pool_max > 1:
            self._listening = asyncio.create_task(self._listen())
            self.spawn(_ended(self._listening))
        try:
            async with asyncio.timeout(timeout_s):
                await self._wakes.wait()
        except TimeoutError:
            return False
        self._wakes.clear()
        return True

    async def _listen(self) -> None:
        async def listen(db: Connection) -> None:
            try:
                db.silence_s = None
                await db.execute(f"listen {self._channel}".encode())
                async for _ in db.notifies():
                    self._wakes.set()
            finally:
                await db.close()

        while True:
            with suppress(RecollectError):
                await self.run_handed_over(listen, again=False)
            await asyncio.sleep(LISTEN_AGAIN_S)


async def _ended(task: asyncio.Task[None]) -> None:
    with suppress(asyncio.CancelledError):
        await task


async def _served_by(db: Connection) -> int:
    """The process of the server that serves a connection right now."""
    ((pid,),) = await (await db.execute(b"select pg_backend_pid()")).fetchall()
    return int(pid)


def _settings(address: Address, busy_timeout_s: float) -> dict[str, str]:
    """Settings of every connection. Compiled plans and isolation above the default would only add cost."""
    return {
        "search_path": f"{address.schema}, public",
        "statement_timeout": f"{int(address.statement_s * 1000)}",
        "lock_timeout": f"{max(1, int(busy_timeout_s * 1000))}",
        "idle_in_transaction_session_timeout": f"{int(address.statement_s * 1000)}",
        "default_transaction_isolation": "read committed",
        "jit": "off",
    }
