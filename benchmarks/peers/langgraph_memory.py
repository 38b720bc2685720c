"""LangGraph's InMemoryStore: one namespace for each user, nothing on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from peers import Floats, Lookup, Memory


class Peer:
    name = "InMemoryStore"
    package = "langgraph-checkpoint"
    durable = False

    def __init__(self, folder: Path, lookup: Lookup, dimensions: int) -> None:
        self.store = InMemoryStore(
            index={
                "dims": dimensions,
                "embed": lambda texts: [lookup.lists[text] for text in texts],
                "fields": ["text"],
            }
        )

    async def load(self, users: Mapping[str, Sequence[Memory]]) -> None:
        for user, memories in users.items():
            self.store.batch([PutOp(("memories", user), id, {"text": text}) for id, text, _ in memories])

    async def add(self, user: str, id: str, text: str, vector: Floats) -> None:
        self.store.put(("memories", user), id, {"text": text})

    async def search(self, user: str, text: str, vector: Floats, k: int) -> list[str]:
        return [item.key for item in self.store.search(("memories", user), query=text, limit=k)]

    async def settle(self) -> None:
        pass

    async def reopen(self) -> None:
        """There is nothing to reopen: it keeps its advantage."""

    async def close(self) -> None:
        pass
