"""LangGraph's SqliteStore with sqlite-vec: one namespace for each user.

It needs a SQLite that can load extensions. Many Python builds have none; pysqlite3 brings one.
"""

from __future__ import annotations

from pathlib import Path

import pysqlite3
from langgraph.store.sqlite import SqliteStore

from peers import Lookup
from peers.langgraph_memory import Peer as InMemory


class Peer(InMemory):
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

    async def reopen(self) -> None:
        self.connection.close()
        self.open()

    async def close(self) -> None:
        self.connection.close()
