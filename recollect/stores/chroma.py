"""Chroma as an index beside a store: it proposes which memories are near and is never authoritative.

    chroma:///vectors                a folder that one process uses
    chroma+http://localhost:8000     a server, for any number of processes

It receives ids, vectors and versions: no text, no user's metadata, and owners only under their veil, so that no entry
of Chroma's names an erased user, however late it purges deleted ones. What it writes of the memory of its process is
not in our hands: a server has none of ours (docs/how-to/chroma.md). `?collection=name` sets what its collections are
called, `chroma+http://:TOKEN@host` a bearer token.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

import chromadb
import numpy as np
from chromadb.config import Settings
from chromadb.errors import NotFoundError

from recollect.errors import Unavailable, ValidationError
from recollect.records import Partition, Record
from recollect.stores.contract import name_of, veil_of

COLLECTION = "recollect"
NAME_LENGTHS = range(1, 41)
PAGE = 1_000
"""Entries read or written at a time: the SQLite underneath limits the number of parameters."""
CONNECTIONS = 4
"""Concurrent calls to a server; a folder takes one at a time."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Chroma instance is: a folder or a server."""

    folder: Path | None = None
    host: str = ""
    port: int = 0
    ssl: bool = False
    token: str = ""
    collection: str = COLLECTION

    @property
    def shown(self) -> str:
        """The address as a URL, without the token."""
        place = f"chroma:///{self.folder}" if self.folder else f"chroma+http{'s' * self.ssl}://{self.host}:{self.port}"
        return place if self.collection == COLLECTION else f"{place}?collection={self.collection}"


def read_address(url: str) -> Address:
    """The address that a URL names; anything else in the URL is an error."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValidationError("not a URL", field="index") from error
    options = parse_qs(parts.query, keep_blank_values=True)
    collection = options.pop("collection", [COLLECTION])[-1]
    if options or len(collection) not in NAME_LENGTHS or not collection.replace("-", "a").isalnum():
        raise ValidationError("the only option is ?collection=NAME, with letters, digits and -", field="index")
    if parts.scheme == "chroma":
        folder = unquote(parts.path).removeprefix("/")
        if parts.netloc or not folder:
            raise ValidationError("must be chroma:///FOLDER or chroma+http://HOST:PORT", field="index")
        return Address(Path(folder), collection=collection)
    if not parts.hostname or parts.path not in ("", "/"):
        raise ValidationError("must be chroma+http://HOST:PORT", field="index")
    ssl = parts.scheme == "chroma+https"
    return Address(None, parts.hostname, port or (443 if ssl else 8000), ssl, unquote(parts.password or ""), collection)


def open_index(url: str, model: str) -> ChromaIndex:
    """The index at a URL, for the vectors of one model. It connects when first used."""
    return ChromaIndex(read_address(url), model)


class ChromaIndex:
    """The vectors of one model, all partitions in one collection."""

    def __init__(self, address: Address, model: str) -> None:
        self._address = address
        digest = hashlib.blake2b(model.encode(), digest_size=6).hexdigest()
        self._name = f"{address.collection}-veiled-{digest}"
        self._unveiled = f"{address.collection}-{digest}"
        self._client: Any = None
        self._collection: chromadb.Collection | None = None
        self._opening = threading.Lock()
        self._threads = ThreadPoolExecutor(1 if address.folder else CONNECTIONS, thread_name_prefix="chroma")

    async def put(self, partition: Partition, rows: Sequence[tuple[Record, np.ndarray]]) -> None:
        """Add the vectors of these records, replacing any it already has."""
        owner = _owner(partition)

        def write(collection: chromadb.Collection) -> None:
            for page in _pages(rows):
                collection.upsert(
                    ids=[_entry(owner, record.id) for record, _ in page],
                    embeddings=np.array([vector for _, vector in page], np.float32),
                    metadatas=[{"owner": owner, "version": record.version} for record, _ in page],
                )

        if rows:
            await self._call(write)

    async def drop(self, partition: Partition, ids: Sequence[str]) -> None:
        """Remove these ids; unknown ones are ignored."""
        owner = _owner(partition)

        def remove(collection: chromadb.Collection) -> None:
            for page in _pages(ids):
                collection.delete(ids=[_entry(owner, id) for id in page])

        if ids:
            await self._call(remove)

    async def near(self, partition: Partition, vector: np.ndarray, limit: int) -> list[str]:
        """The ids nearest to a vector, nearest first. The caller looks them up in the partition."""
        owner = _owner(partition)

        def ask(collection: chromadb.Collection) -> list[str]:
            found = collection.query(
                query_embeddings=[vector], n_results=limit, where={"owner": owner}, include=[]
            )  # fmt: skip
            return [_id(owner, entry) for entry in found["ids"][0]]

        return await self._call(ask)

    async def held(self, partition: Partition) -> dict[str, int]:
        """What it holds for a partition: id -> version of the record."""
        owner = _owner(partition)

        def read(collection: chromadb.Collection) -> dict[str, int]:
            return {_id(owner, entry): int(held["version"]) for entry, held in _entries(collection, owner)}

        return await self._call(read)

    async def partitions(self) -> set[Partition]:
        """The partitions whose vectors it holds, as veils."""
        owners = await self._call(lambda collection: {held["owner"] for _, held in _entries(collection)})
        return {Partition(*(unquote(part) for part in str(owner).split("/"))) for owner in owners}

    async def check(self) -> None:
        """Check that it can be used; raises `Unavailable` if not."""
        await self._call(lambda collection: collection.count())

    def describe(self) -> dict[str, Any]:
        return {"index": "chroma", "url": self._address.shown, "version": str(chromadb.__version__)}

    async def close(self) -> None:
        self._collection = None
        with suppress(RuntimeError):  # already closed
            self._threads.submit(self._let_go)
        self._threads.shutdown(wait=False)

    def _let_go(self) -> None:
        with self._opening:
            client, self._client = self._client, None
        if hasattr(client, "close"):  # not all versions have it; the driver keeps clients that are not closed
            client.close()

    async def _call(self, call: Callable[[chromadb.Collection], Answer]) -> Answer:
        """Run a call in a worker thread; any failure there is raised as `Unavailable`."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: call(self._opened()))
        except Exception as error:  # the driver raises whatever its server, files and validation raise
            self._collection = None
            kind = type(error).__name__
            raise Unavailable(f"Chroma cannot be used ({kind}). Is it running?", field="index") from None

    def _opened(self) -> chromadb.Collection:
        collection = self._collection
        if collection is None:
            client = self._connected()
            with suppress(NotFoundError):
                client.delete_collection(self._unveiled)  # from an earlier version, which used the owners' plain names
            # Without an embedding function: Chroma would download one.
            collection = self._collection = client.get_or_create_collection(
                self._name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
            )
        return collection

    def _connected(self) -> Any:
        """The one client, even after a failure: it reconnects by itself, and a second one would be kept beside it."""
        with self._opening:
            if self._client is None:
                self._client = self._made()
            return self._client

    def _made(self) -> Any:
        where = self._address
        if where.folder is not None:
            return chromadb.PersistentClient(path=where.folder, settings=quiet())
        headers = {"Authorization": f"Bearer {where.token}"} if where.token else None
        return chromadb.HttpClient(host=where.host, port=where.port, ssl=where.ssl, headers=headers, settings=quiet())


def quiet() -> Settings:
    """Settings with telemetry off. Each client gets its own, because it records what it is in them."""
    return Settings(anonymized_telemetry=False)


def _owner(partition: Partition) -> str:
    return name_of(veil_of(partition))


def _entry(owner: str, id: str) -> str:
    return f"{owner}/{quote(id, safe='')}"


def _id(owner: str, entry: str) -> str:
    return unquote(entry.removeprefix(f"{owner}/"))


def _entries(collection: chromadb.Collection, owner: str | None = None) -> list[tuple[str, Any]]:
    """The ids of entries and the metadata of each, for one owner or for all."""
    found: list[tuple[str, Any]] = []
    where: Any = {"owner": owner} if owner else None
    while True:
        page = collection.get(where=where, limit=PAGE, offset=len(found), include=["metadatas"])
        found += zip(page["ids"], page["metadatas"] or (), strict=True)
        if len(page["ids"]) < PAGE:
            return found


def _pages(items: Sequence[Answer]) -> list[Sequence[Answer]]:
    return [items[start : start + PAGE] for start in range(0, len(items), PAGE)]
