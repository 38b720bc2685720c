"""Embed memories again after a change of the embedder: in place, while everything else goes on.

Progress is kept in the records themselves, as each vector names its model. So there is no other
state: stopped anywhere, it resumes where it was; run twice, it changes nothing; and anything
written meanwhile already has the new model.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from recollect.errors import Conflict, EmbeddingError, RecollectError
from recollect.filters import Filter
from recollect.indexes import Indexes
from recollect.layers import EMBEDDED_LAYERS
from recollect.ledger import Ledger, portions
from recollect.providers import Embedder, embed_checked
from recollect.records import Changes, Partition, Record, Vector
from recollect.stores.contract import named_partitions

log = logging.getLogger("recollect.reembedding")

PORTION_RECORDS, PORTION_BYTES = 64, 400_000
"""How much is embedded and committed at a time: the most that is lost if the process is killed."""
CONFLICT_TRIES = 3
"""How often a portion is read again because one of its records was changed meanwhile."""
EMBED_TRIES = 5
WAIT_S = 1.0
"""Wait before calling a failed embedder again; doubles with each try."""
PEEKED = 8
"""How many of the first user's oldest memories are examined when a store is opened."""

Told = Callable[[int], None]
"""Called with the number of further records examined."""


@dataclass(frozen=True, slots=True)
class Reembedded:
    """What was found in one partition, and what was done to it.

    `records` can have a vector, `wanting` of them had none from the present model, `done` have one
    now. `models` counts the models that were found.
    """

    partition: Partition
    records: int = 0
    wanting: int = 0
    done: int = 0
    models: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False


class Reembedding:
    """Re-embeds what another embedder, or none, has embedded."""

    def __init__(self, ledger: Ledger, indexes: Indexes, embedder: Embedder | None, *, wait_s: float = WAIT_S) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._embedder = embedder
        self._wait_s = wait_s

    async def peek(self) -> None:
        """Check the oldest memories when a store is opened: if another model embedded them, report it."""
        if self._embedder is None:
            return
        seen = self._ledger.offers.oldest_models
        if seen is not None:
            self._indexes.tell_of(set(seen))
            return
        try:
            async with aclosing(named_partitions(self._ledger.store, page_size=PEEKED)) as partitions:
                async for partition in partitions:
                    page = await self._ledger.list(Filter(partition, layers=EMBEDDED_LAYERS), limit=PEEKED)
                    self._indexes.tell_of({record.vector.model for record in page.records if record.vector})
                    return
        except RecollectError:
            pass  # a store that cannot be read will say so to callers that need to read it

    async def reembed(
        self, only: Callable[[Partition], bool], *, dry_run: bool = False, told: Told | None = None
    ) -> AsyncIterator[Reembedded]:
        """Go through the partitions one by one, and embed what is not of the present model."""
        if self._embedder is None:
            raise EmbeddingError("There is no embedder. Check the setting embedder.")
        async for partition in named_partitions(self._ledger.store):
            if only(partition):
                yield await self._partition(self._embedder, partition, dry_run, told or (lambda _: None))

    async def _partition(self, embedder: Embedder, partition: Partition, dry_run: bool, told: Told) -> Reembedded:
        found: Counter[str] = Counter()
        wanting = done = 0
        after = None
        while True:
            page = await self._ledger.list(Filter(partition, layers=EMBEDDED_LAYERS), limit=500, after=after)
            records = [record for record in page.records if record.content]
            found.update(record.vector.model if record.vector else "none" for record in records)
            old = [record for record in records if _wants(record, embedder)]
            wanting += len(old)
            told(len(page.records) - len(old))
            for portion in portions(old, count_max=PORTION_RECORDS, bytes_max=PORTION_BYTES):
                done += 0 if dry_run else await self._portion(embedder, partition, portion)
                told(len(portion))
            after = page.after
            if after is None:
                return Reembedded(partition, found.total(), wanting, done, dict(found), dry_run)

    async def _portion(self, embedder: Embedder, partition: Partition, records: Sequence[Record]) -> int:
        """Embed some records and write their vectors in one commit. Return how many have a new one."""
        for _ in range(CONFLICT_TRIES):
            vectors = await self._embedded(embedder, [record.told for record in records])
            put = tuple(record.with_(vector=vector) for record, vector in zip(records, vectors, strict=True))
            try:
                await self._ledger.commit(Changes(partition, put=put), renews=False)
                return sum(record.vector is not None for record in put)
            except Conflict:
                # Changed or forgotten meanwhile. A changed text is embedded by the job enqueued with that change.
                again = await self._ledger.get(partition, [record.id for record in records])
                records = [record for record in again if _wants(record, embedder)]
                if not records:
                    return 0
        return 0

    async def _embedded(self, embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
        """The vectors of these texts; wait and retry if the embedder fails."""
        for attempt in range(1, EMBED_TRIES):
            try:
                return await embed_checked(embedder, texts)
            except EmbeddingError as error:
                log.warning("re-embedding waits and tries again: %s", error)
                await asyncio.sleep(self._wait_s * 2 ** (attempt - 1))
        return await embed_checked(embedder, texts)


def _wants(record: Record, embedder: Embedder) -> bool:
    """Whether the record should have a vector from this embedder, and has none."""
    return bool(record.content) and (record.vector is None or record.vector.model != embedder.name)
