"""What every contestant can do, and how one is found.

The methods are coroutines because Recollect's are; awaiting one that never waits costs a tenth of
a microsecond, so the others lose nothing by it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Memory = tuple[str, str, Floats]
"""(id, text, vector)"""

PEERS = ("recollect", "chroma", "langgraph_sqlite", "langgraph_memory", "mem0")
"""Modules of this folder. The first is what the others are compared with."""


class Lookup:
    """The precomputed embeddings, by text. Both forms are made beforehand, outside all timing."""

    def __init__(self) -> None:
        self.arrays: dict[str, Floats] = {}
        self.lists: dict[str, list[float]] = {}

    def learn(self, text: str, vector: Floats) -> None:
        self.arrays[text] = vector
        self.lists[text] = vector.tolist()


class Contestant(Protocol):
    """One memory store under test. `durable`: what `add` acknowledged survives a crash."""

    name: str
    package: str
    durable: bool

    def __init__(self, folder: Path, lookup: Lookup, dimensions: int) -> None: ...

    async def load(self, users: Mapping[str, Sequence[Memory]]) -> None:
        """Take in everything, by the quickest way its own API offers. Not timed."""
        ...

    async def add(self, user: str, id: str, text: str, vector: Floats) -> None:
        """Store one memory of a user."""
        ...

    async def search(self, user: str, text: str, vector: Floats, k: int) -> list[str]:
        """The ids of the k nearest memories of this user, best first."""
        ...

    async def settle(self) -> None:
        """Finish what `add` has left for later."""
        ...

    async def reopen(self) -> None:
        """Let go of everything in memory and open what is on disk again."""
        ...

    async def close(self) -> None: ...


def find(module: str, folder: Path, lookup: Lookup, dimensions: int) -> Contestant:
    """Open a contestant. Raises whatever keeps it from running here: the reason to skip it."""
    contestant: Contestant = importlib.import_module(f"peers.{module}").Peer(folder / module, lookup, dimensions)
    return contestant


def version_of(contestant: Contestant) -> str:
    return version(contestant.package)
