"""A container of Cosmos DB behind a proxy: for drills that put it back, hang up and look around."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.cosmos import CosmosClient

from recollect.stores.cosmos_link import BATCH_MAX, Document
from recollect.stores.cosmos_url import read_url
from recollect.testing.proxy import in_front_of

Place = tuple[str, str]
"""The partition and the id of a document."""


class Ground:
    """A container, reached through a proxy that can hang up."""

    def __init__(self, url: str) -> None:
        found = in_front_of(url)
        if found is None:
            pytest.skip("the server is elsewhere")
        self._proxy, self.url = found
        where = read_url(url, {})
        self._client = CosmosClient(where.endpoint, where.key, enable_endpoint_discovery=False)
        self._container = self._client.get_database_client(where.database).get_container_client(where.container)
        self._kept: dict[Place, Document] = {}

    async def start(self) -> None:
        await self._proxy.mend()

    def keep(self) -> None:
        self._kept = self._documents()

    def put_back(self) -> None:
        now, batches = self._documents(), dict[str, list[tuple[Any, ...]]]()
        for place in now.keys() - self._kept.keys():
            batches.setdefault(place[0], []).append(("delete", (place[1],)))
        for place, document in self._kept.items():
            if now.get(place) != document:
                batches.setdefault(place[0], []).append(("upsert", (document,)))
        for partition, batch in batches.items():
            for start in range(0, len(batch), BATCH_MAX):
                self._container.execute_item_batch(batch[start : start + BATCH_MAX], partition)

    def hang_up(self) -> None:
        self._proxy.hang_up()

    def lose_answers(self) -> None:
        self._proxy.lose_answers()

    def held(self, store: Any) -> Iterator[str]:
        if store._link._calls or not store._link._idle.is_set():
            yield f"calls under way: {store._link._calls}"
        if locked := [partition for partition, turn in store._turns.items() if turn.locked()]:
            yield f"turns not given up: {locked}"

    def connections(self) -> int:
        return self._proxy.connections

    async def stop(self) -> None:
        await self._proxy.cut()
        self._client.close()

    def _documents(self) -> dict[Place, Document]:
        found = self._container.query_items("SELECT * FROM c", enable_cross_partition_query=True)
        plain = ({name: value for name, value in each.items() if not name.startswith("_")} for each in found)
        return {(each["partition"], each["id"]): each for each in plain}
