"""What one server holds while it runs: the memory, the keys, the executors, the figures."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recollect.errors import Unavailable
from recollect.memory import Memory
from recollect.providers import Embedder
from recollect.records import Clock, system_clock
from recollect.server.agents import read_agents
from recollect.server.executors import Executors
from recollect.server.keys import Keys
from recollect.server.limits import Rate
from recollect.server.metrics import Metrics
from recollect.settings import Settings, read_file
from recollect.stores.contract import Store
from recollect.stores.routed import RoutedStore, open_stores

BURST_S = 10
"""A key that was quiet may send the requests of so many seconds at once."""
FAILED_PER_MINUTE, FAILED_BURST = 30, 20
"""Wrong keys of one address: enough for a forgotten setting, too few for a flood."""


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
        clock: Clock = system_clock,
    ) -> None:
        surroundings = os.environ if environ is None else environ
        self.settings = settings or Settings.read(surroundings, folder)
        self.agents = read_agents(read_file(folder).get("agents", {}), surroundings)
        self.clock = clock
        self.draining = False
        self.metrics = Metrics()
        self.executors = Executors(self.agents)
        per_minute = self.settings.requests_per_minute
        self.rate = Rate(per_minute, burst=max(1, per_minute * BURST_S // 60))
        self.failed_rate = Rate(FAILED_PER_MINUTE, burst=FAILED_BURST)
        self._url = self.settings.url if url is None else url
        self.stores: Mapping[str, Store] = {}
        self._embedder = embedder
        self._open = AsyncExitStack()
        self._memory: Memory | None = None
        self._keys: Keys | None = None

    async def __aenter__(self) -> Self:
        settings = self.settings
        store = await open_stores(
            self._url, settings.layers, busy_timeout_s=settings.busy_timeout_s, fallback=settings.fallback
        )
        # Keys are no memories: they go straight to the store, which the memory then owns and closes.
        self._keys = Keys(store, self.clock)
        self.stores = store.parts if isinstance(store, RoutedStore) else {"everything": store}
        try:
            # The layers are where they belong already.
            memory = Memory.open(
                store, settings=settings.with_({"layers": {}}), embedder=self._embedder, clock=self.clock
            )
            self._memory = await self._open.enter_async_context(memory)
        except BaseException:
            await store.close()
            raise
        self._open.push_async_callback(self.executors.close)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.draining = True
        await self._open.aclose()

    def on_close(self, step: Callable[[], Awaitable[None]]) -> None:
        """Do this when the server closes, before the memory does."""
        self._open.push_async_callback(step)

    @property
    def is_open(self) -> bool:
        return self._memory is not None

    @property
    def memory(self) -> Memory:
        if self._memory is None:
            raise _not_open()
        return self._memory

    @property
    def keys(self) -> Keys:
        if self._keys is None:
            raise _not_open()
        return self._keys

    def describe(self) -> dict[str, Any]:
        """What is in use, of the memory and of the server."""
        return self.memory.describe() | {"agents": sorted(self.agents), "executors": self.executors.alive}


def _not_open() -> Unavailable:
    return Unavailable("the server is not open yet", field="server")
