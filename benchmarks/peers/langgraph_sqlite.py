"""LangGraph's SqliteStore with sqlite-vec: one namespace for each user.

It needs a SQLite that can load extensions. Many Python builds have none; pysqlite3 brings one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pysqlite3
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

from peers import Floats, Lookup, Memory


class Peer:
    name = "SqliteStore"
    package = "langgraph-checkpoint-sqlite"
    durable = True

    def __init__(self, folder: Path, lookup: Lookup, dimensions: int) -> None:
        folder.mkdir()
        self.path = folder / "store.db"
        self.index = {
            "dims": dimensions,
            "embed": lambda texts: [lookup.lists[text] for text in texts],
            "text_fields": ["text"],  # the key it reads; the documented name, "fields", has no effect here
        }
        self.open()

    def open(self) -> None:
        # As SqliteStore.from_conn_string does, but with the other SQLite.
        self.connection = pysqlite3.connect(str(self.path), check_same_thread=False, isolation_level=None)
        self.store = SqliteStore(self.connection, index=self.index)
        self.store.setup()

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
        self.connection.close()
        self.open()

    async def close(self) -> None:
        self.connection.close()
