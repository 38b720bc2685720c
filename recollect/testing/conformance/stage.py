"""What every part of the suite builds on: the store under test, and plain values to give it.

Time is passed in, as everywhere in the contract: `NOW` is an ordinary day and no test reads a clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from recollect.errors import RecollectError, Unavailable
from recollect.filters import Filter
from recollect.records import Changes, Job, Partition, Record, Scope
from recollect.stores import open_store
from recollect.stores.contract import ABILITIES, CHANGES_MIN, OPERATIONS_MAX, SHARED, Forgotten, Mark, Store

NOW = 1_800_000_000_000
LEASE_S = 30
LEASE_MS = LEASE_S * 1_000
ANN = Partition("acme", "ann")
BOB = Partition("acme", "bob")


@pytest.mark.asyncio
class Stage:
    """The fixtures that the tests of the suite use."""

    @pytest.fixture
    def store_url(self) -> str:
        """The URL of an empty store. The one fixture that a backend has to provide.

        A class without a URL provides `store`, `second` and `other` instead; tests in which other processes open the
        store then fail, unless it says that it is neither durable nor shared.
        """
        return ""

    @pytest.fixture
    def other_url(self, store: Store, store_url: str) -> str:
        """The URL of a second empty store of the same kind; override it where a longer name is not another place."""
        return f"{store_url}_other" if SHARED in store.abilities else store_url

    @pytest_asyncio.fixture
    async def store(self, store_url: str) -> AsyncIterator[Store]:
        """The store under test."""
        async with opened(store_url) as store:
            yield store

    @pytest_asyncio.fixture
    async def second(self, store: Store, store_url: str) -> AsyncIterator[Store]:
        """Another connection to the same data; the same connection where a store has only one."""
        if SHARED not in store.abilities:
            yield store
            return
        async with opened(store_url) as connection:
            yield connection

    @pytest_asyncio.fixture
    async def other(self, other_url: str) -> AsyncIterator[Store]:
        """Another store, with data of its own."""
        async with opened(other_url) as store:
            yield store


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """A store for the length of a block; closed at its end, even if a test has already closed it."""
    if not url:
        raise NotImplementedError("override the fixture store_url with the URL of an empty store")
    store = await open_store(url)
    try:
        yield store
    finally:
        with suppress(Unavailable):
            await store.close()


def require(store: Store, *abilities: str) -> None:
    """Skip the test, naming what is missing, where the store has none of these abilities."""
    if not set(abilities) & store.abilities:
        pytest.skip("the store lacks " + " and ".join(f"'{name}' ({ABILITIES[name]})" for name in abilities))


def abilities_report(store: Store) -> str:
    """What a backend can and cannot do beyond the promises, one line each, for people."""
    lines = [f"{'can   ' if name in store.abilities else 'cannot'}  {name}: {ABILITIES[name]}" for name in ABILITIES]
    return "\n".join(lines)


@contextmanager
def refused(error: type[RecollectError], field: str) -> Iterator[None]:
    """The block must raise exactly this error, and the error must name this field."""
    with pytest.raises(error) as caught:
        yield
    assert type(caught.value) is error
    assert caught.value.field == field


def message(
    id: str, content: str = "hello", partition: Partition = ANN, session: str = "s1", layer: str = "conversation",
    **fields: Any,
) -> Record:  # fmt: skip
    """A record, where only the id matters."""
    scope = Scope(partition.org, partition.user, session=session)
    return Record(id, layer, scope, content, created_at=NOW, **fields)


def work(id: str, partition: Partition = ANN, refs: tuple[str, ...] = (), due_at: int = NOW) -> Job:
    """A job, where only the id matters."""
    return Job(id, partition, "extract", refs, due_at)


async def put(store: Store, *records: Record, now: int = NOW) -> int:
    """Put records of one partition in one commit."""
    return await store.commit(Changes(records[0].scope.partition, put=records), now)


async def put_many(store: Store, records: Sequence[Record]) -> None:
    """Put records in as few commits as the limit allows."""
    for start in range(0, len(records), OPERATIONS_MAX):
        await put(store, *records[start : start + OPERATIONS_MAX])


async def drop(store: Store, *ids: str, partition: Partition = ANN, now: int = NOW) -> int:
    """Drop records of one partition in one commit."""
    return await store.commit(Changes(partition, drop=ids), now)


async def enqueue(store: Store, *jobs: Job, now: int = NOW) -> int:
    """Enqueue jobs of one partition in one commit."""
    return await store.commit(Changes(jobs[0].partition, enqueue=jobs), now)


async def one(store: Store, id: str, partition: Partition = ANN, now: int = NOW) -> Record:
    """The one living record with this id."""
    (record,) = await store.get(partition, [id], now)
    return record


async def listed(
    store: Store, where: Filter, now: int = NOW, newest_first: bool = False, limit: int = 100
) -> list[Record]:
    """Everything a filter matches, followed page by page to the end."""
    found: list[Record] = []
    after = None
    while True:
        page = await store.list(where, now, newest_first=newest_first, limit=limit, after=after)
        assert len(page.records) <= limit
        found += page.records
        after = page.after
        if after is None:
            return found


def ids_of(records: Sequence[Record]) -> list[str]:
    return [record.id for record in records]


async def purge(store: Store, partition: Partition, before: int, limit: int = 1_000) -> Forgotten:
    """Remove the dead for good, to the end; returns the last answer."""
    while True:
        gone = await store.forget(Filter(partition, dead_before=before), before, limit)
        if gone.done:
            return gone


@dataclass
class Reader:
    """Follows one partition through `changes` alone and holds what it was told."""

    partition: Partition = ANN
    held: dict[str, Record] = field(default_factory=dict)
    mark: Mark | None = None
    resets: int = 0

    async def turn_page(self, store: Store, limit: int = CHANGES_MIN) -> bool:
        """Read one page; True when there is more."""
        delta = await store.changes(self.partition, self.mark, limit)
        if delta.reset:
            self.held.clear()
            self.resets += 1
        for id in delta.dropped:
            self.held.pop(id, None)
        self.held |= {record.id: record for record in delta.put}
        self.mark = delta.mark
        return delta.more

    async def catch_up(self, store: Store) -> Mark:
        while await self.turn_page(store, CHANGES_MIN):
            pass
        assert self.mark is not None
        return self.mark


async def mark_of(store: Store, partition: Partition = ANN) -> Mark:
    """The mark of a reader that has seen everything; it tells the epoch and the revision."""
    return await Reader(partition).catch_up(store)
