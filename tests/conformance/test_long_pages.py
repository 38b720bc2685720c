"""Pages with much text, read from a server: they are decoded in portions, and other tasks run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any

import pytest

from recollect.filters import Filter
from recollect.records import Partition, Stored
from recollect.stores.contract import Store
from recollect.stores.pausing import CHARACTERS_AT_ONCE
from recollect.testing.conformance.stage import ANN, NOW, message, opened, put
from recollect.testing.stores import fresh_url

LONG, COUNT, TOGETHER = 60_000, 150, 15
"""Characters of a record, how many there are, and how many fit into one commit."""
DECODERS = {"postgresql": "postgres", "redis": "redis", "cosmos": "cosmos_documents"}
KINDS = [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in DECODERS]
IDS = [f"m{n}" for n in range(COUNT)]
READS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "get": lambda store: store.get(ANN, IDS, NOW),
    "list": lambda store: store.list(Filter(ANN), NOW, limit=COUNT),
    "list of a layer, newest first": lambda store: store.list(
        Filter(ANN, ("conversation",)), NOW, newest_first=True, limit=COUNT
    ),
    "changes": lambda store: store.changes(ANN, None),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_with_much_text_is_decoded_in_portions_and_others_run_in_between(kind, monkeypatch):
    module = import_module(f"recollect.stores.{DECODERS[kind]}")
    records_from, in_a_row, most = module.records_from, 0, 0

    def counted(partition: Partition, stored: Sequence[Stored]) -> Any:
        nonlocal in_a_row, most
        in_a_row += sum(len(row[3]) for row in stored)
        most = max(most, in_a_row)
        return records_from(partition, stored)

    async def others() -> None:
        nonlocal in_a_row
        while True:
            in_a_row = 0
            await asyncio.sleep(0)

    with fresh_url(kind) as url:
        async with opened(url) as store:
            for first in range(0, COUNT, TOGETHER):
                await put(store, *(message(id, "x" * LONG) for id in IDS[first : first + TOGETHER]))
            monkeypatch.setattr(module, "records_from", counted)
            waiting = asyncio.create_task(others())
            for name, read in READS.items():
                most = 0
                await read(store)
                assert LONG < most < CHARACTERS_AT_ONCE + 2 * LONG, name
            waiting.cancel()
