"""The interface of every contestant, and how one is opened.

The methods are coroutines because Recollect's are; awaiting one that never suspends costs a tenth of a microsecond, so
the others lose nothing by it.
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
"""Modules of this folder. The others are compared with the first."""


class Lookup:
    """The precomputed embeddings, by text. Both forms are made in advance, outside all timing."""

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
        """Load everything, in the fastest way its own API offers. Not timed."""
        ...

    async def add(self, user: str, id: str, text: str, vector: Floats) -> None:
        """Store one memory of a user."""
        ...

    async def search(self, user: str, text: str, vector: Floats, k: int) -> list[str]:
        """The ids of the k nearest memories of this user, best first."""
        ...

    async def settle(self) -> None:
        """Finish whatever `add` has deferred."""
        ...

    async def reopen(self) -> None:
        """Drop everything in memory and reopen what is on disk."""
        ...

    async def close(self) -> None: ...


def find(module: str, folder: Path, lookup: Lookup, dimensions: int) -> Contestant:
    """Open a contestant. Raises whatever prevents it from running here, which is the reason to skip it."""
    contestant: Contestant = importlib.import_module(f"peers.{module}").Peer(folder / module, lookup, dimensions)
    return contestant


def version_of(contestant: Contestant) -> str:
    return version(contestant.package)
