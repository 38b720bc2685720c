"""Recollect: one SQLite file, through its own front door.

Enrichment runs only in `settle`, so that its CPU is never counted in another contestant's measurement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

from peers import Floats, Lookup
from peers import Memory as Row
from recollect import Memory

ORG = "bench"


class Precomputed:
    """An embedder that only looks up precomputed vectors."""

    immediate = True

    def __init__(self, lookup: Lookup, dimensions: int) -> None:
        self.name = f"precomputed-{dimensions}"
        self.dimensions = dimensions
        self.arrays = lookup.arrays

    async def embed(self, texts: Sequence[str]) -> Floats:
        if len(texts) == 1:
            found: Floats = self.arrays[texts[0]][None, :]
            return found
        return np.stack([self.arrays[text] for text in texts])


class Peer:
    name = "Recollect"
    package = "recollect"
    durable = True

    def __init__(self, folder: Path, lookup: Lookup, dimensions: int) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / "memories.db"
        self.embedder = Precomputed(lookup, dimensions)
        self.stack = AsyncExitStack()
        self.memory: Memory

    async def open(self, *, worker: bool = False) -> None:
        opened = Memory.open(f"sqlite:///{self.path}", embedder=self.embedder, worker=worker)
        self.memory = await self.stack.enter_async_context(opened)

    async def load(self, users: Mapping[str, Sequence[Row]]) -> None:
        await self.open()
        await asyncio.gather(*(self._load_user(user, memories) for user, memories in users.items()))
        await self.settle()

    async def _load_user(self, user: str, memories: Sequence[Row]) -> None:
        handle = self.memory.user(user, org=ORG)
        for id, text, _ in memories:
            # All have the same importance, as with the others, so that the nearest comes first.
            await handle.add_memory(text, id=id, importance=0.5)

    async def add(self, user: str, id: str, text: str, vector: Floats) -> None:
        await self.memory.user(user, org=ORG).add_memory(text, id=id)

    async def search(self, user: str, text: str, vector: Floats, k: int) -> list[str]:
        hits = await self.memory.user(user, org=ORG).search_memory(text, layer="long_term", limit=k)
        return [hit.id for hit in hits]

    async def settle(self) -> None:
        await self.memory.work()

    async def reopen(self, *, worker: bool = False) -> None:
        await self.close()
        await self.open(worker=worker)

    async def close(self) -> None:
        await self.stack.aclose()
