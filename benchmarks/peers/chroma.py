"""Chroma: one persistent collection, with users separated by a metadata filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import chromadb
from chromadb.config import Settings

from peers import Floats, Lookup, Memory

BATCH = 1_000


class Peer:
    name = "Chroma"
    package = "chromadb"
    durable = True

    def __init__(self, folder: Path, lookup: Lookup, dimensions: int) -> None:
        self.folder = folder
        self.open()

    def open(self) -> None:
        self.client = chromadb.PersistentClient(str(self.folder), settings=Settings(anonymized_telemetry=False))
        self.collection = self.client.get_or_create_collection(
            "memories", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    async def load(self, users: Mapping[str, Sequence[Memory]]) -> None:
        rows = [(user, *memory) for user, memories in users.items() for memory in memories]
        for start in range(0, len(rows), BATCH):
            owners, ids, texts, vectors = zip(*rows[start : start + BATCH], strict=True)
            self.collection.add(
                ids=list(ids),
                documents=list(texts),
                embeddings=list(vectors),
                metadatas=[{"user": owner} for owner in owners],
            )

    async def add(self, user: str, id: str, text: str, vector: Floats) -> None:
        self.collection.add(ids=[id], documents=[text], embeddings=[vector], metadatas=[{"user": user}])

    async def search(self, user: str, text: str, vector: Floats, k: int) -> list[str]:
        found = self.collection.query(query_embeddings=[vector], where={"user": user}, n_results=k)
        ids: list[str] = found["ids"][0]
        return ids

    async def settle(self) -> None:
        pass

    async def reopen(self) -> None:
        self.client.close()
        self.open()

    async def close(self) -> None:
        self.client.close()
