"""Access to a Cosmos DB container: how it is created, queried and written to, and what its refusals mean.

When request units run out, the driver waits as long as the service asks, up to a limit set in this file.
All writes of a commit go out in one transactional batch.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, CosmosClient
from azure.cosmos.exceptions import CosmosBatchOperationError

from recollect.errors import Busy, RecollectError, TooLarge, Unavailable, ValidationError
from recollect.stores.contract import OtherVersion, closed_store
from recollect.stores.cosmos_url import CosmosUrl

LAYOUT = 1
"""The version of the documents' layout. Any other is refused."""
BATCH_MAX = 100
"""Operations in one transactional batch, as the service limits it."""
PAGE_ITEMS = 1_000
"""Documents in one page of a query; the service also ends a page at 4 MB."""
THROTTLED_TRIES = 100
"""The driver limits retries by count as well as by time; here time is what ends them."""
CONNECT_S = 5.0
GRACE_S = 2.0
"""How much longer than its patience a call may take, since the last answer may be on its way."""
PAUSES_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Pauses between tries of a write that another process overtook; the last one repeats."""
CONSISTENCIES = ("Session", "BoundedStaleness", "Strong")
"""Levels at which a client sees its own writes."""
CONTAINER_IS_GONE = 1003
"""The sub-status of a 404 that is about more than a document."""
OVERTAKEN = (404, 409, 412, 449)
"""Statuses of a document that is missing, exists already, has changed, or is being changed."""

Document = dict[str, Any]
Answer = TypeVar("Answer")


def _composite(*names: str) -> list[dict[str, str]]:
    return [{"path": f"/{name}", "order": "ascending"} for name in names]


INDEXED = ("partition", "layer", "session", "born", "revision", "epoch", "dead_at", "due_at", "at", "listed")
INDEXES: dict[str, Any] = {
    "indexingMode": "consistent",
    "automatic": True,
    # Contents are never searched here; what is not indexed costs no request units to write.
    "excludedPaths": [{"path": "/*"}],
    "includedPaths": [{"path": f"/{name}/?"} for name in INDEXED],
    # Every ordered read is a walk along one of these, in either direction.
    "compositeIndexes": [
        _composite("partition", "born"),
        _composite("partition", "layer", "born"),
        _composite("partition", "session", "born"),
        _composite("partition", "layer", "session", "born"),
        _composite("partition", "revision"),
        _composite("partition", "dead_at"),
        _composite("partition", "at"),
    ],
}


class Overtaken(Busy):
    """A document is no longer as it was read. Read it again and decide again."""

    def __init__(self, status: int) -> None:
        super().__init__(field="store")
        self.status = status


@dataclass(frozen=True, slots=True)
class Operation:
    """One write in a batch. `etag`: the document must still be the one that was read."""

    kind: str
    document: Document
    etag: str | None = None

    def told(self) -> tuple[Any, ...]:
        """The write in the form the driver expects."""
        id = self.document["id"]
        arguments = {"replace": (id, self.document), "delete": (id,)}.get(self.kind, (self.document,))
        return (self.kind, arguments, {"if_match_etag": self.etag} if self.etag else {})


class CosmosLink:
    """One container. Every failure is raised as one of our errors, with nothing of what was sent."""

    def __init__(self, url: CosmosUrl, patience_s: float) -> None:
        self.url = url
        self.consistency = ""
        self._patience_s = patience_s
        self._client = CosmosClient(
            url.endpoint,
            credential=url.key,
            connection_timeout=CONNECT_S,
            read_timeout=patience_s,
            retry_throttle_total=THROTTLED_TRIES,
            retry_throttle_backoff_max=max(1, int(patience_s)),
            # An emulator announces an address that need not be the one it was reached at.
            enable_endpoint_discovery=not url.emulator,
            no_response_on_write=True,
        )
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def start(self) -> None:
        """Find the container or create it; refuse one that would not keep the promises."""
        await self._asked(self._client.__aenter__())
        account: Any = await self._asked(self._client._get_database_account())
        self.consistency = account.ConsistencyPolicy["defaultConsistencyLevel"]
        if self.consistency not in CONSISTENCIES:
            raise ValidationError(
                f"the account's consistency is {self.consistency}; set it to {' or '.join(CONSISTENCIES)}", field="url"
            )
        properties = await self._found(self._container.read()) or await self._make()
        if properties["partitionKey"]["paths"] != ["/partition"] or properties.get("defaultTtl") is not None:
            raise ValidationError(
                "this container is not Recollect's: its partition key must be /partition and its time to live off",
                field="url",
            )
        await self._check_layout()

    async def close(self) -> None:
        """Wait for the calls in progress, then disconnect."""
        self._closed = True
        try:
            async with asyncio.timeout(self._patience_s + GRACE_S):
                await self._idle.wait()
        except TimeoutError:
            pass  # a call that hangs beyond its own patience is not worth waiting for
        await self._client.close()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Count a verb as in progress: closing waits for it."""
        if self._closed:
            raise closed_store()
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    def pauses(self) -> Iterator[float]:
        """How long to pause after each try of a write that others may overtake, until patience runs out."""
        until = time.monotonic() + self._patience_s
        for pause in chain(PAUSES_S, repeat(PAUSES_S[-1])):
            yield pause * random.uniform(0.5, 1.5)
            if time.monotonic() > until:
                return

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def read(self, partition: str, id: str) -> Document | None:
        """One document by its id, the cheapest of all calls; None when it is not there."""
        return await self._found(self._container.read_item(id, partition))

    async def ask(self, sql: str, partition: str | None = None, **values: object) -> list[Any]:
        """All that a query finds, in one partition or in all."""
        return [found async for page in self.pages(sql, partition, **values) for found in page]

    async def pages(self, sql: str, partition: str | None = None, **values: object) -> AsyncIterator[list[Any]]:
        """What a query finds, a page at a time."""
        within = {} if partition is None else {"partition_key": partition}
        given = {"partition": partition, **values} if partition is not None else values
        parameters = [{"name": f"@{name}", "value": value} for name, value in given.items()]
        container: Any = self._container
        pages = container.query_items(sql, parameters=parameters, max_item_count=PAGE_ITEMS, **within).by_page()
        while (page := await self._asked(_next(pages))) is not None:
            yield page

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def send(self, partition: str, operations: Sequence[Operation]) -> bool:
        """Write all of these or none; False when a document is no longer the one that was read."""
        told: Any = [operation.told() for operation in operations]
        return await self._written(self._container.execute_item_batch(told, partition))

    async def replace(self, document: Document, etag: str) -> bool:
        """Replace one document unless it has changed; False when it has."""
        return await self._written(
            self._container.replace_item(
                document["id"], document, etag=etag, match_condition=MatchConditions.IfNotModified
            )
        )

    async def remove(self, partition: str, documents: Sequence[Document]) -> None:
        """Remove documents that are still as they were read; those changed since stay."""
        for start in range(0, len(documents), BATCH_MAX):
            deletes = [Operation("delete", each, each["_etag"]) for each in documents[start : start + BATCH_MAX]]
            if not await self.send(partition, deletes):
                for delete in deletes:
                    await self.send(partition, [delete])

    # ── the container ────────────────────────────────────────────────────────────────────────────

    @property
    def _container(self) -> ContainerProxy:
        return self._client.get_database_client(self.url.database).get_container_client(self.url.container)

    async def _make(self) -> Document:
        if not self.url.create:
            raise Unavailable("there is no such container, and create=no does not allow a new one", field="store")
        database = await self._asked(self._client.create_database_if_not_exists(self.url.database))
        container = await self._asked(
            database.create_container_if_not_exists(
                self.url.container, partition_key=PartitionKey("/partition"), indexing_policy=INDEXES
            )
        )
        return dict(await self._asked(container.read()))

    async def _check_layout(self) -> None:
        """Check the layout version that the container records; a container without one is given ours."""
        name = "=store"  # no partition has this name: '=' is always escaped in theirs
        await self.send(name, [Operation("create", {"id": "store", "partition": name, "layout": LAYOUT})])
        known = await self.read(name, "store")
        if known is None:
            raise Unavailable("the container lost what was just written; try again", field="store")
        if known["layout"] != LAYOUT:
            raise OtherVersion("the store has layout", int(known["layout"]), LAYOUT, "use the version that wrote it")

    # ── outcomes ─────────────────────────────────────────────────────────────────────────────────

    async def _asked(self, call: Awaitable[Answer]) -> Answer:
        try:
            async with asyncio.timeout(self._patience_s + GRACE_S):
                return await call
        except TimeoutError:
            raise Unavailable("Cosmos DB did not answer in time; try again with the same key", field="store") from None
        except AzureError as error:
            raise meaning_of(error) from None

    async def _found(self, call: Awaitable[Mapping[str, Any]]) -> Document | None:
        """The document, or None when it is not there."""
        try:
            return dict(await self._asked(call))
        except Overtaken as refusal:
            if refusal.status == 404:
                return None
            raise

    async def _written(self, call: Awaitable[object]) -> bool:
        """True when it was written, False when another writer was first."""
        try:
            await self._asked(call)
        except Overtaken:
            return False
        return True


async def _next(pages: AsyncIterator[AsyncIterator[Any]]) -> list[Any] | None:
    async for page in pages:
        return [found async for found in page]
    return None


_MEANINGS: dict[int, tuple[type[RecollectError], str]] = {
    401: (Unavailable, "Cosmos DB refused the key"),
    403: (Unavailable, "Cosmos DB refused the call: the key may not do that, or a firewall blocks it"),
    404: (Unavailable, "the container is gone"),
    408: (Unavailable, "Cosmos DB did not answer in time; try again with the same key"),
    413: (TooLarge, "the change is larger than Cosmos DB accepts; split it"),
    429: (Busy, "the container is out of request units; try again, or give it more throughput"),
    503: (Unavailable, "Cosmos DB is not available at the moment; try again"),
}


def meaning_of(error: AzureError) -> RecollectError:
    """What a failure in the driver means to a caller."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return Unavailable("Cosmos DB cannot be reached; check its address and the network", field="store")
    # A container that is gone must never be mistaken for an empty one.
    if status in OVERTAKEN and getattr(error, "sub_status", None) != CONTAINER_IS_GONE:
        return Overtaken(status)
    # The driver waits for request units, but does not look inside a batch for operations that lack them.
    if status == 429 and isinstance(error, CosmosBatchOperationError):
        return Overtaken(status)
    kind, text = _MEANINGS.get(status, (Unavailable, f"Cosmos DB failed ({status})"))
    return kind(text, field="store")
