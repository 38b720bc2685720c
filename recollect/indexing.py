"""An index beside the store: fed by jobs, queried for nearest neighbours, never the source of truth.

A commit that changes vectors enqueues the job that updates the index. The job reads what the store
holds by then and makes the index hold the same, so it does not matter how often or how late it
runs. What the index proposes is looked up in the caller's partition, and scored there; if the index
cannot be queried, the search continues without it, and says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.errors import NotFound, RecollectError, Unavailable
from recollect.filters import Filter
from recollect.layers import EMBEDDED_LAYERS
from recollect.ledger import CLEARING, Ledger
from recollect.providers import floats
from recollect.records import Changes, Job, Partition, Record
from recollect.stores.contract import VectorIndex, named_partitions, veil_of

log = logging.getLogger("recollect.indexing")

NEAR = 256
"""How many neighbours to request: those that meaning alone would rank first, and plenty beyond them."""
ANSWER_S = 2.0
"""How long a search waits for the index: a person is waiting too."""
AGAIN_S = 5.0
"""How long a failed index is left alone, so that not every search has to find out anew."""
FEED_TRIES = 8
"""How often records are read again because they changed while being passed to the index."""
PORTION = 500


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What was added to the index for one partition, and what was dropped because the store no longer holds it."""

    partition: Partition
    records: int
    put: int
    dropped: int


class Indexing:
    """Feeds an index and queries it. Without an index it does nothing, and nobody waits for it."""

    def __init__(self, ledger: Ledger, index: VectorIndex | None, model: str, *, wanted: bool = False) -> None:
        self._ledger = ledger
        self._index = index
        self._model = model
        self._wanted = wanted
        self._failed_at = -AGAIN_S
        self._reason = ""

    @property
    def is_set(self) -> bool:
        """Whether there is an index to query and to feed."""
        return self._index is not None

    # ── querying ─────────────────────────────────────────────────────────────────────────────────

    async def near(self, partition: Partition, vector: NDArray[np.float32] | None) -> Sequence[str] | None:
        """The ids the index considers nearest; None if it cannot be queried, and all vectors must be compared."""
        if self._index is None or vector is None or time.monotonic() - self._failed_at < AGAIN_S:
            return None
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await self._index.near(partition, vector, NEAR)
        except TimeoutError:
            self._tell(f"it has not answered within {ANSWER_S:g} s")
        except RecollectError as error:
            self._tell(error.message)
        else:
            self._reason = ""
            # An index that holds nothing of a partition has not been fed with it yet.
            return found or None
        return None

    async def check(self) -> None:
        """Report at startup if the index cannot be used."""
        if self._index is not None:
            try:
                await self._index.check()
            except RecollectError as error:
                self._tell(error.message)

    def _tell(self, reason: str) -> None:
        self._failed_at, self._reason = time.monotonic(), reason
        log.warning("searching without the index beside the store: %s", reason)

    def describe(self) -> dict[str, Any]:
        if self._index is None:
            return {"index": "built in"} | ({"state": "NOT IN USE: its driver is missing"} if self._wanted else {})
        return self._index.describe() | {"state": f"NOT IN USE: {self._reason}" if self._reason else "in use"}

    # ── feeding ──────────────────────────────────────────────────────────────────────────────────

    async def run(self, job: Job) -> Changes:
        """Make the index match the store for these records, or for all of the partition's.

        Or have it drop a partition that was erased.
        """
        if self._index is None:
            log.warning(
                "memories changed that an index should follow, but none is in use; run `recollect reindex` once one is"
            )
            return Changes(job.partition)
        try:
            if job.kind == CLEARING:
                await self._clear(self._index, Partition(*job.refs))
            elif job.refs and await self._knows(self._index, job.partition, job.refs):
                await self._feed(self._index, job.partition, job.refs)
            else:
                await self._compare(self._index, job.partition)
        except Unavailable as error:
            if error.field == "store":
                raise  # the index is not to blame, and the same job is due again when the store is back
            self._tell(error.message)
            return Changes(job.partition, enqueue=self._later(job))
        return Changes(job.partition)

    async def _knows(self, index: VectorIndex, partition: Partition, ids: Sequence[str]) -> bool:
        """Whether the index already holds a partition; if not, adding these records alone would hide all others.

        It does not if it was configured, emptied, or rebuilt by another version after the others were stored.
        """
        found = await self._ledger.get(partition, ids)
        meant = next((record.vector for record in found if self._is_meant(record)), None)
        return meant is None or bool(await index.near(partition, floats(meant), 1))

    def _later(self, job: Job) -> tuple[Job, ...]:
        """The job for when the index is back: however much of a partition it missed, one job adds all of it."""
        if job.kind == CLEARING:
            return self._ledger.clearing_jobs(Partition(*job.refs), later=True)
        return self._ledger.index_jobs(job.partition, later=True)

    async def _clear(self, index: VectorIndex, veil: Partition) -> None:
        """Remove what the index holds of an erased partition; if its user has come back, keep what is new."""
        if await index.held(veil):
            await self._compare(index, await self._unveiled(veil) or veil)

    async def _unveiled(self, veil: Partition) -> Partition | None:
        """The partition with this veil, if it exists under its name again."""
        shared = Partition(veil.org, "")
        if veil_of(shared) == veil:
            return shared
        async for partition in named_partitions(self._ledger.store, shared):
            if partition.org != veil.org:
                break
            if veil_of(partition) == veil:
                return partition
        return None

    async def _feed(self, index: VectorIndex, partition: Partition, ids: Sequence[str]) -> tuple[int, int]:
        """Pass the index what the store holds of these, again if it changes. Return how many were put and dropped."""
        before: dict[str, int] | None = None
        for _ in range(FEED_TRIES):
            found = await self._ledger.get(partition, ids)
            rows = [(record, floats(record.vector)) for record in found if record.vector and self._is_meant(record)]
            state = {record.id: record.version for record, _ in rows}
            if state == before:
                break
            gone = [id for id in ids if id not in state]
            await index.put(partition, rows)
            await index.drop(partition, gone)
            before = state
        return len(before or ()), len(ids) - len(before or ())

    async def _compare(self, index: VectorIndex, partition: Partition) -> Reindexed:
        """The same for a whole partition, passing on only what differs."""
        held = await index.held(partition)
        living: set[str] = set()
        wanting: list[str] = []
        async for record in self._ledger.walk(Filter(partition, layers=EMBEDDED_LAYERS)):
            if self._is_meant(record):
                living.add(record.id)
                if held.get(record.id) != record.version:
                    wanting.append(record.id)
        gone = [id for id in held if id not in living]
        put = dropped = 0
        for ids in (wanting, gone):
            for start in range(0, len(ids), PORTION):
                came, went = await self._feed(index, partition, ids[start : start + PORTION])
                put, dropped = put + came, dropped + went
        return Reindexed(partition, len(living), put, dropped)

    def _is_meant(self, record: Record) -> bool:
        """Whether the record has an undamaged vector of this model."""
        vector = record.vector
        return vector is not None and vector.model == self._model and bool(np.isfinite(floats(vector)).all())

    async def reindex(self, only: Callable[[Partition], bool]) -> AsyncIterator[Reindexed]:
        """Go through all partitions, and those of which only the index still holds anything, under their veils."""
        if self._index is None:
            raise NotFound("no index is set beside the store; the built-in one needs no rebuilding", field="index")
        left = await self._index.partitions()
        async for partition in named_partitions(self._ledger.store):
            if only(partition):
                yield await self._compare(self._index, partition)
            left.discard(veil_of(partition))
        for partition in sorted(filter(only, left)):
            yield await self._compare(self._index, partition)

    async def close(self) -> None:
        if self._index is not None:
            await self._index.close()
