"""mem0 with `infer=False`, Qdrant local on disk, and our vectors through its LangChain embedder.

Without spaCy and fastembed installed it searches by vector alone, which is the faster half of its search.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import Floats, Lookup
from peers import Memory as Row

os.environ["MEM0_TELEMETRY"] = "False"  # read once, when mem0 is imported
os.environ["ANONYMIZED_TELEMETRY"] = "False"
os.environ["POSTHOG_DISABLED"] = "1"
os.environ["MEM0_DIR"] = str(Path(__file__).parents[1] / ".data" / "mem0-home")  # else it writes into the home folder

from langchain_core.embeddings import Embeddings
from mem0 import Memory

logging.getLogger("mem0").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="qdrant_client")


class Precomputed(Embeddings):  # type: ignore[misc]
    """A LangChain embedder that only looks up precomputed vectors."""

    def __init__(self, lookup: Lookup) -> None:
        self.lists = lookup.lists

    def embed_query(self, text: str) -> list[float]:
        return self.lists[text]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.lists[text] for text in texts]


class Peer:
    name = "mem0"
    package = "mem0ai"
    durable = True

    def __init__(self, folder: Path, lookup: Lookup, dimensions: int) -> None:
        folder.mkdir()
        self.settings: dict[str, Any] = {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "embedding_model_dims": dimensions, "on_disk": True},
            },
            "embedder": {"provider": "langchain", "config": {"model": Precomputed(lookup)}},
            # mem0 creates a client in any case; with infer=False it is never called.
            "llm": {"provider": "openai", "config": {"api_key": "unused"}},
            "history_db_path": str(folder / "history.db"),
        }
        self.open()

    def open(self) -> None:
        self.memory = Memory.from_config(self.settings)

    async def load(self, users: Mapping[str, Sequence[Row]]) -> None:
        for user, memories in users.items():
            for id, text, vector in memories:
                await self.add(user, id, text, vector)

    async def add(self, user: str, id: str, text: str, vector: Floats) -> None:
        self.memory.add(text, user_id=user, metadata={"key": id}, infer=False)

    async def search(self, user: str, text: str, vector: Floats, k: int) -> list[str]:
        found = self.memory.search(text, filters={"user_id": user}, top_k=k, threshold=0.0)
        return [item["metadata"]["key"] for item in found["results"]]

    async def settle(self) -> None:
        pass

    async def reopen(self) -> None:
        await self.close()
        self.open()

    async def close(self) -> None:
        self.memory.vector_store.client.close()
        self.memory.close()
