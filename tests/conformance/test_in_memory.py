"""The in-memory store, which is also the model for the others, keeps every promise."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from recollect.stores.contract import Store
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.conformance import StoreConformance
from recollect.testing.conformance.processes import ProcessConformance


class TestInMemory(StoreConformance):
    @pytest.fixture
    def store_url(self) -> str:
        return "memory://"


class TestAClassWithoutAUrl(ProcessConformance):
    """The suite takes the stores themselves, and skips by name what only a URL could show."""

    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        yield InMemoryStore()

    @pytest_asyncio.fixture
    async def second(self, store: Store) -> AsyncIterator[Store]:
        yield store

    @pytest_asyncio.fixture
    async def other(self) -> AsyncIterator[Store]:
        yield InMemoryStore()
