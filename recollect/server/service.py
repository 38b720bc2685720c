"""What one server holds while it runs: the memory, the keys, the executors, the metrics."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from recollect.errors import Unavailable
from recollect.memory import Memory
from recollect.models import Given
from recollect.providers import Embedder
from recollect.records import Clock, system_clock
from recollect.server.admission import Admission, Long
from recollect.server.agents import read_agents
from recollect.server.callers import Callers
from recollect.server.executors import Executors
from recollect.server.keys import Keys
from recollect.server.limits import Rate
from recollect.server.metrics import Metrics, Shared
from recollect.server.quotas import Quotas, read_quotas
from recollect.server.seats import Seats, secret_of
from recollect.server.surveys import Surveys
from recollect.server.timing import TimedStore
from recollect.settings import Settings, read_file
from recollect.stores.contract import Store
from recollect.stores.routed import RoutedStore, open_stores

if TYPE_CHECKING:
    from recollect.server.tracing import Tracing

T = TypeVar("T")

AWAKE = 8
"""How many indexes stay awake, ready to be queried at once, unless a setting says otherwise."""
BURST_S = 10
"""A key that was idle may send this many seconds' worth of requests at once."""
SHARED_S = 1.0
"""How often each of several processes publishes its metrics for the others."""
FAILED_PER_MINUTE, FAILED_BURST = 30, 20
"""Wrong keys allowed from one address: enough for a forgotten setting, too few for a flood."""
LOOKS_PER_MINUTE = 60
"""Unknown keys that are still looked up during a flood of wrong ones: one may have been created a moment ago."""


class Service:
    """The parts of a server, to be entered with `async with`; `recollect.toml` and the environment are read here."""

    def __init__(
        self,
        url: str | Path | Store | None = None,
        *,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
        embedder: Embedder | None = None,
        llm: Given | None = None,
        clock: Clock = system_clock,
        tracing: Tracing | None = None,
        shared: Shared | None = None,
    ) -> None:
        surroundings = os.environ if environ is None else environ
        self.settings = _served(settings or Settings.read(surroundings, folder))
        file = read_file(folder)
        self.agents = read_agents(file.get("agents", {}), surroundings)
        self._quota = read_quotas(self.settings, file.get("orgs", {}))
        self.clock = clock
        self.draining = False
        self.metrics = Metrics()
        self.tracing = tracing or (_tracing() if self.settings.tracing else None)
        self._shared = shared
        self.admission = Admission()
        self.long = Long()
        self.executors = Executors(self.agents, metrics=self.metrics, may_add=self._may_add)
        self._secret = secret_of(self.settings.console_secret)
        # Processes share the work about evenly, so each gets an equal part of a key's rate.
        per_minute = max(1, self.settings.requests_per_minute // self.settings.workers)
        self.rate = Rate(per_minute, burst=max(1, per_minute * BURST_S // 60))
        self.failed_rate = Rate(FAILED_PER_MINUTE, burst=FAILED_BURST)
        self._looks = Rate(LOOKS_PER_MINUTE, burst=1)
        self.callers = Callers()
        self._url = self.settings.url if url is None else url
        self.stores: Mapping[str, Store] = {}
        self._embedder = embedder
        self._llm = llm
        self._open = AsyncExitStack()
        self._memory: Memory | None = None
        self._surveys: Surveys | None = None
        self._quotas: Quotas | None = None
        self._keys: Keys | None = None
        self._seats: Seats | None = None

    async def __aenter__(self) -> Self:
        settings = self.settings
        store = await open_stores(
            self._url, settings.layers, busy_timeout_s=settings.busy_timeout_s, fallback=settings.fallback
        )
        self._quotas = Quotas(store, self.clock, *self._quota)
        span = None if self.tracing is None else self.tracing.verb
        counted = self._quotas.note_commit if self._quotas.are_set else None
        timed: Any = TimedStore(store, self._observe_store, span, counted)
        # Keys and seats are not memories: they go straight to the store, which the memory then owns and closes.
        self._keys = Keys(timed, self.clock)
        self._seats = Seats(timed, self.clock, self._secret)
        self.stores = store.parts if isinstance(store, RoutedStore) else {"everything": store}
        try:
            # The store already routes the layers.
            memory = Memory.open(
                timed,
                settings=settings.with_({"layers": {}}),
                embedder=self._embedder,
                llm=self._llm,
                clock=self.clock,
            )
            self._memory = await self._open.enter_async_context(memory)
        except BaseException:
            await store.close()
            raise
        self._surveys = Surveys(self._memory.survey)
        self._open.push_async_callback(self._surveys.close)
        self._open.push_async_callback(self.executors.close)
        if self._quotas.are_set:
            await self._open.enter_async_context(self._quotas.kept())
        if self.tracing is not None:
            self._open.callback(self.tracing.close)
        if self._shared is not None:
            await self._open.enter_async_context(self._leaving_figures(self._shared))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.draining = True
        await self._open.aclose()

    def known_as(self, token: bytes) -> bytes:
        """The caller that a request queues as: its key if that is valid, else the one shared by all who show none.

        So making up keys does not turn one caller into many.
        """
        return token if token and self.keys.recognises(token.decode("latin-1")) else b""

    def unknown_wait_s(self, host: str, token: bytes) -> float:
        """How long a request without a valid key must wait, if too many such requests came from the host; else 0.

        Now and then one is looked up anyway, which reads the keys again: a key created in the middle of a flood of
        wrong ones can be used at once.
        """
        wait_s = self.failed_rate.wait_s(host)
        return 0.0 if wait_s and token and not self._looks.take("") else wait_s

    async def _may_add(self, org: str) -> None:
        await self.quotas.admit_memory(org)

    def _observe_store(self, verb: str, seconds: float) -> None:
        self.metrics.observe("store_duration_seconds", seconds, verb=verb)

    @asynccontextmanager
    async def _leaving_figures(self, shared: Shared) -> AsyncIterator[None]:
        """Publish the metrics of this process for the others from time to time, and at the end."""

        async def go() -> None:
            while True:
                await asyncio.sleep(SHARED_S)
                shared.leave(self.figures())

        leaving = asyncio.create_task(go())
        try:
            yield
        finally:
            leaving.cancel()
            shared.leave(self.figures())

    def figures(self) -> Metrics:
        """The metrics of this process, including what the memory itself counts."""
        uses, metrics = self.memory.describe(), self.metrics
        for state in ("done", "failed"):
            metrics.set("jobs_ended", uses["jobs"][state], state=state)
        for kind, (runs, seconds) in uses["work"].items():
            metrics.set("jobs_run", runs, kind=kind)
            metrics.set("enrichment_seconds", seconds, kind=kind)
        for name, value in uses["model"].items():
            metrics.set("model", value, what=name)
        metrics.set("cache_lookups", uses["index"]["hits"], cache="index", result="hit")
        metrics.set("cache_lookups", uses["index"]["misses"], cache="index", result="miss")
        return metrics

    def figures_of_all(self) -> Metrics:
        """The metrics of all processes of this server."""
        own = self.figures()
        return own if self._shared is None else self._shared.of_all(own)

    def on_close(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run a step when the server closes, before the memory closes."""
        self._open.push_async_callback(step)

    @property
    def is_open(self) -> bool:
        return self._memory is not None

    @property
    def memory(self) -> Memory:
        return _opened(self._memory)

    @property
    def surveys(self) -> Surveys:
        return _opened(self._surveys)

    @property
    def keys(self) -> Keys:
        return _opened(self._keys)

    @property
    def seats(self) -> Seats:
        return _opened(self._seats)

    @property
    def quotas(self) -> Quotas:
        return _opened(self._quotas)

    def describe(self) -> dict[str, Any]:
        """What is in use, in the memory and in the server."""
        return self.memory.describe() | {"agents": sorted(self.agents), "executors": self.executors.alive}


def _served(settings: Settings) -> Settings:
    """The settings, with a server's default for awake indexes: it has many users, and each asks only now and then."""
    return settings if settings.index_awake else settings.with_({"index_awake": AWAKE})


def _tracing() -> Tracing:
    try:
        opened: Tracing = import_module("recollect.server.tracing").Tracing()
    except ModuleNotFoundError as error:
        raise Unavailable('traces need more packages: pip install "recollect[otel]"', field="tracing") from error
    return opened


def _opened(part: T | None) -> T:
    if part is None:
        raise Unavailable("the server is not open yet", field="server")
    return part
