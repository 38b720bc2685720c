"""The stage of `verbs.py` on a store of any kind: put back as it was for each call, cut off, and looked over.

On a server it is set once and put back by the server's own means: filling a store again takes ten times as long.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from recollect.copying import Copying
from recollect.stores import open_store
from recollect.stores.contract import Store
from recollect.stores.in_memory import InMemoryStore
from recollect.stores.routed import RoutedStore
from recollect.testing.fakes import ManualClock
from recollect.testing.stores import ON_SERVERS, fresh_url
from recollect.testing.verbs import set_stage

if TYPE_CHECKING:
    from recollect.testing.interruptions import Expected

CLOSE_S = 20.0
"""How long closing a store may take that is busy with nothing."""
LOOKS, LOOK_S = 1_000, 0.005
"""How often it is looked whether something has ended, and the time between two looks."""
UNDER_WAY_S = 0.05
"""By then, a request that its caller gave up has been carried out or never will be."""


class Ground(Protocol):
    """The server that a stage is set on."""

    url: str
    """How the store that is drilled reaches it."""

    async def start(self) -> None: ...

    def keep(self) -> None:
        """Note what the store holds."""

    def put_back(self) -> None:
        """Put back what was noted, in place of all else."""

    def hang_up(self) -> None:
        """Break every connection of the store. The server takes new ones."""

    def lose_answers(self) -> None:
        """The same, when the server has carried out what it was asked; in a Cluster, only the same."""

    def held(self, store: Any) -> Iterator[str]:
        """What a store that nobody calls should not hold any more."""

    def connections(self) -> int:
        """How many connections stores have to it."""

    async def stop(self) -> None: ...


_GROUNDS = {"postgresql": "postgres", "redis": "redis", "valkey": "redis", "cluster": "redis", "cosmos": "cosmos"}


def _ground(kind: str, url: str) -> Ground:
    """The server behind the URL of an empty store. Its driver is there, or there would be no such URL."""
    ground: Ground = import_module(f"recollect.testing.servers.{_GROUNDS[kind]}_ground").Ground(url)
    return ground


class Stage:
    """A store of one kind on which the stage is set. Close it when it is not needed any more.

    `fresh` gives an equal store each time, `again` the same once more, for instance after it was closed.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.on_server = kind in ON_SERVERS
        self.ids: dict[str, str] = {}
        self.expected: dict[str, Expected] = {}
        self._folder = folder
        self._template: InMemoryStore | None = None
        self._ground: Ground | None = None
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Stage:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @contextlib.asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        if self.on_server and self._ground is not None:
            self._ground.put_back()
        store = await self._on_server() if self.on_server else await self._here()
        try:
            yield store
        finally:
            async with asyncio.timeout(CLOSE_S):
                await store.close()

    async def again(self, store: Store) -> Store:
        """The store opened anew, with what it holds; one in memory would hold nothing, and stays as it is."""
        if isinstance(store, InMemoryStore):
            return store
        return await self._on_server() if self.on_server else await self._in(self._folder / "copy")

    @property
    def url(self) -> str:
        """Where the store is, on a server."""
        assert self._ground is not None, "the stage was set"
        return self._ground.url

    def hang_up(self) -> None:
        assert self._ground is not None, "there is nobody to hang up"
        self._ground.hang_up()

    def lose_answers(self) -> None:
        assert self._ground is not None, "there is nobody to answer"
        self._ground.lose_answers()

    async def quiet(self, store: Store) -> list[str]:
        """Wait until the store is busy with nothing. Returns what it is still busy with after a while."""
        if self._ground is None:
            return []
        if self.kind == "cosmos":
            await asyncio.sleep(UNDER_WAY_S)
        ground = self._ground
        return await _what_stays(lambda: list(ground.held(store)))

    async def left_open(self) -> list[str]:
        """The connections that closed stores left open."""
        if self._ground is None:
            return []
        ground = self._ground
        return await _what_stays(
            lambda: [f"{count} connections are left open" for count in [ground.connections()] if count]
        )

    async def _on_server(self) -> Store:
        if self._ground is not None:
            return await open_store(self._ground.url)
        template = await self._set()
        ground = _ground(self.kind, self._stack.enter_context(fresh_url(self.kind)))
        self._stack.push_async_callback(ground.stop)
        await ground.start()
        store = await open_store(ground.url)
        try:
            async for _ in Copying(template, store, clock=ManualClock()).run():
                pass  # jobs of the same age may be done in any order, so that two stages set on a server would differ
            ground.keep()
        except BaseException:
            await store.close()
            raise
        self._ground = ground
        return store

    async def _here(self) -> Store:
        if self.kind != "memory":
            return await self._copied()
        copy = InMemoryStore()
        copy._rooms = deepcopy((await self._set())._rooms)
        return copy

    async def _set(self) -> InMemoryStore:
        if self._template is None:
            self._template = InMemoryStore()
            self.ids = await set_stage(self._template)
        return self._template

    async def _copied(self) -> Store:
        template = self._folder / "template"
        if not template.exists():
            template.mkdir()
            store = await self._in(template)
            self.ids = await set_stage(store)
            await store.close()
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(template, copy)
        return await self._in(copy)

    async def _in(self, folder: Path) -> Store:
        store = await open_store(folder / "memories.db")
        if self.kind == "sqlite":
            return store
        elsewhere = await open_store(folder / "elsewhere.db")
        return RoutedStore(store, {"conversation": elsewhere, "working": elsewhere, "entity_cache": elsewhere})


async def _what_stays(look: Callable[[], list[str]]) -> list[str]:
    """What is still there when all that ends by itself has had time to."""
    for _ in range(LOOKS):
        if not (found := look()):
            break
        await asyncio.sleep(LOOK_S)
    return found
