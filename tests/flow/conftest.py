"""What is stored, without a memory around it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from recollect.layers import LAYERS
from recollect.ledger import Ledger
from recollect.stores import open_store
from recollect.testing.fakes import ManualClock, MeddlingStore


@pytest.fixture
async def ledger(store_url: str, clock: ManualClock) -> AsyncIterator[Ledger]:
    """The ledger of an empty store."""
    store = await open_store(store_url)
    yield Ledger(store, clock, LAYERS)
    await store.close()


@pytest.fixture
async def store(store_url: str) -> MeddlingStore:
    """An empty store for a memory, which lets a test act right before a commit."""
    return MeddlingStore(await open_store(store_url))
