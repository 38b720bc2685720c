"""The way to a Cosmos DB container: how it is made, asked and written to, and what its refusals mean.

The driver waits as long as the service asks for when request units run out, and this file says when
that is long enough. All writes of a commit go out in one transactional batch.
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
from recollect.stores.contract import OtherVersion
from recollect.stores.cosmos_url import CosmosUrl

LAYOUT = 1
"""The version of what stands in the documents. Another one is refused."""
BATCH_MAX = 100
"""Operations of one transactional batch, as the service has it."""
PAGE_ITEMS = 1_000
"""Documents of one answer to a query; the service also ends an answer at 4 MB."""
THROTTLED_TRIES = 100
"""The driver counts tries as well as time; time is what ends them here."""
CONNECT_S = 5.0
GRACE_S = 2.0
"""How much longer than its patience a call may take: the last answer is on its way."""
PAUSES_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Between tries of a write that another process overtook; the last one again and again."""
CONSISTENCIES = ("Session", "BoundedStaleness", "Strong")
"""Levels at which a client sees what it has written itself."""
CONTAINER_IS_GONE = 1003
"""What the service adds to a 404 that is about more than a document."""
OVERTAKEN = (404, 409, 412, 449)
"""A document is not there, is there already, has changed, or is being changed."""

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
    """A document is not as it was read. Read it again and decide again."""

    def __init__(self, status: int) -> None:
        super().__init__(field="store")
        self.status = status


@dataclass(frozen=True, slots=True)
class Operation:
    """One write of a batch. `etag`: the document must still be the one that was read."""

    kind: str
    document: Document
    etag: str | None = None

    def told(self) -> tuple[Any, ...]:
        """As the driver wants it."""
        id = self.document["id"]
        arguments = {"replace": (id, self.document), "delete": (id,)}.get(self.kind, (self.document,))
        return (self.kind, arguments, {"if_match_etag": self.etag} if self.etag else {})


class CosmosLink:
    """One container. Every failure leaves it as an error of ours, without a word of what was sent."""

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
            # An emulator names itself by an address that need not be the one it was called by.
            enable_endpoint_discovery=not url.emulator,
            no_response_on_write=True,
        )
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def start(self) -> None:
        """Find the container or make it; refuse one that would not keep the promises."""
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
                "this container is not ours: its partition key must be /partition and its time to live off", field="url"
            )
        await self._check_layout()

    async def close(self) -> None:
        """Wait for the calls that are under way, then let go."""
        self._closed = True
        try:
            async with asyncio.timeout(self._patience_s + GRACE_S):
                await self._idle.wait()
        except TimeoutError:
            pass  # what hangs for longer than its own patience is not worth waiting for
        await self._client.close()

    @contextmanager
    def use(self) -> Iterator[None]:
        """A verb at work: closing waits for it."""
        if self._closed:
            raise Unavailable("the store is closed", field="store")
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    def pauses(self) -> Iterator[float]:
        """How long to wait after each try of a write that others may overtake, until patience ends."""
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
        """All that a query finds, in one partition or in all of them."""
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
        """All of these or none; False when a document is no longer the one that was read."""
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
        """Remove documents that are still as they were read; what has changed since stays."""
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
            raise Unavailable("there is no such container, and create=no says that there should be", field="store")
        database = await self._asked(self._client.create_database_if_not_exists(self.url.database))
        container = await self._asked(
            database.create_container_if_not_exists(
                self.url.container, partition_key=PartitionKey("/partition"), indexing_policy=INDEXES
            )
        )
        return dict(await self._asked(container.read()))

    async def _check_layout(self) -> None:
        """The container says which version of Recollect wrote it; an empty one is told."""
        name = "=store"  # no partition is called so: '=' is always escaped in their names
        await self.send(name, [Operation("create", {"id": "store", "partition": name, "layout": LAYOUT})])
        known = await self.read(name, "store")
        if known is None:
            raise Unavailable("the container lost what it was just told; try again", field="store")
        if known["layout"] != LAYOUT:
            raise OtherVersion("the store has layout", int(known["layout"]), LAYOUT, "use the version that wrote it")

    # ── what came of it ──────────────────────────────────────────────────────────────────────────

    async def _asked(self, call: Awaitable[Answer]) -> Answer:
        try:
            async with asyncio.timeout(self._patience_s + GRACE_S):
                return await call
        except TimeoutError:
            raise Unavailable("Cosmos DB did not answer in time; try again with the same key", field="store") from None
        except AzureError as error:
            raise meaning_of(error) from None

    async def _found(self, call: Awaitable[Mapping[str, Any]]) -> Document | None:
        """None for what is not there."""
        try:
            return dict(await self._asked(call))
        except Overtaken as refusal:
            if refusal.status == 404:
                return None
            raise

    async def _written(self, call: Awaitable[object]) -> bool:
        """True when it was, False when another writer was first."""
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
    403: (Unavailable, "Cosmos DB refused the call: the key may not do that, or a firewall stands before it"),
    404: (Unavailable, "the container is gone"),
    408: (Unavailable, "Cosmos DB did not answer in time; try again with the same key"),
    413: (TooLarge, "the change is larger than Cosmos DB takes; split it"),
    429: (Busy, "the container is out of request units; try again, or give it more throughput"),
    503: (Unavailable, "Cosmos DB is not there at the moment; try again"),
}


def meaning_of(error: AzureError) -> RecollectError:
    """What a failure of the driver means to a caller."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return Unavailable("Cosmos DB cannot be reached; check its address and the network", field="store")
    # A container that is gone must never be taken for one that holds nothing.
    if status in OVERTAKEN and getattr(error, "sub_status", None) != CONTAINER_IS_GONE:
        return Overtaken(status)
    # The driver waits for request units, but does not look into a batch for operations that want them.
    if status == 429 and isinstance(error, CosmosBatchOperationError):
        return Overtaken(status)
    kind, text = _MEANINGS.get(status, (Unavailable, f"Cosmos DB failed ({status})"))
    return kind(text, field="store")
