"""Upkeep: purging, consolidating and pruning, on a schedule, on demand, or as a dry run that only reports.

Expired and dropped records are removed for good a day after they died. Pruning deletes nothing: it
retires what is old, unimportant and unused, with the reason, and `restore` brings it back, as it does
a merged record. Consolidation itself is in `consolidation.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recollect.consolidation import Consolidated, Consolidation
from recollect.errors import Conflict, NotFound
from recollect.filters import Filter
from recollect.graph import Graph
from recollect.layers import is_current
from recollect.ledger import ERASURES, Ledger, ended, portions
from recollect.merges import take_out, told_by
from recollect.policies.learnings import learning_score
from recollect.policies.merging import KEPT_APART, OF_MERGED, unmerged
from recollect.policies.recurring import RESTS_ON
from recollect.policies.retention import TOUCHED_AT, Pruned, is_pinned, to_prune, touched
from recollect.records import DAY_MS, HOUR_MS, Changes, Partition, Record, Scope, with_data, without_data
from recollect.settings import Settings
from recollect.stores.contract import is_veil

if TYPE_CHECKING:
    from recollect.indexes import Indexes

CHUNK = 90
PRUNED_EVERY_MS = 7 * DAY_MS
"""How often old memories that were worth keeping the last time are examined again."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What upkeep did, or would do, to one partition."""

    partition: Partition
    purged: int = 0
    retired: tuple[Pruned, ...] = field(default=())
    consolidated: Consolidated = field(default_factory=Consolidated)
    dry_run: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not self.purged and not self.retired and self.consolidated == Consolidated()

    def to_dict(self) -> dict[str, Any]:
        """What was done as documented JSON, without any content: ids, reasons and counts."""
        done = self.consolidated
        return {
            "org": self.partition.org,
            "user": self.partition.user,
            "episodes": [record.id for record in done.episodes],
            "merged": [{"id": each.ended.id, "into": each.kept.id} for each in done.merged],
            "recurring": [{"id": each.id, "episodes": len(each.data[RESTS_ON])} for each in done.recurring],
            "retired": [
                {"id": each.record.id, "layer": each.record.layer, "reason": each.reason} for each in self.retired
            ],
            "purged": self.purged,
            "dry_run": self.dry_run,
        }


class Upkeep:
    """Looks after the partitions of a store."""

    def __init__(self, ledger: Ledger, indexes: Indexes, consolidation: Consolidation, settings: Settings) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._consolidation = consolidation
        self._settings = settings

    async def maintain(self, only: Partition | None = None, *, dry_run: bool = False) -> AsyncIterator[Maintained]:
        """Purge, consolidate and prune, one partition after another."""
        if only is not None:
            yield await self._maintain_one(only, dry_run)
            return
        after: Partition | None = None
        while partitions := await self._ledger.store.partitions(after):
            for partition in partitions:
                done = await self._maintain_one(partition, dry_run)
                if partition != ERASURES:  # it has jobs and their keys, which are nobody's
                    yield done
            after = partitions[-1]

    async def tend(self, partition: Partition) -> int | None:
        """The scheduled upkeep, once a day: purge, consolidate and prune, as the settings say.

        Each step is decided from what is stored, so it can be interrupted anywhere and run again. Return when to come
        back, None when there is nothing left that could die or be pruned.
        """
        now = self._ledger.clock()
        _, next_at = await self._purge(partition)
        if self._settings.consolidate:
            await self._consolidation.run(partition)
        times = [] if next_at is None else [max(min(next_at, now) + DAY_MS, now + HOUR_MS)]
        if self._settings.prune:
            await self._retire(partition, await self._to_retire(partition), now)
            times += await self._next_pruning(partition, now)
        return min(times, default=None)

    async def clear(self, veil: Partition) -> int | None:
        """Remove the keys remembered of an erased partition, and of jobs about such. Return when to come back."""
        await self._purge(ERASURES)
        _, next_at = await self._purge(veil)
        return None if next_at is None else max(next_at + DAY_MS, self._ledger.clock()) + HOUR_MS

    async def _next_pruning(self, partition: Partition, now: int) -> list[int]:
        """When something will be old enough to prune; what is old enough but kept is examined again periodically."""
        index = await self._indexes.current(partition)
        oldest = min(
            (
                touched(record)
                for layer in ("long_term", "learning")
                for record in index.of_layer(layer, now)
                if not is_pinned(record) and is_current(record, now)
            ),
            default=None,
        )
        if oldest is None:
            return []
        return [max(oldest + self._settings.prune_age_days * DAY_MS, now + PRUNED_EVERY_MS)]

    async def _maintain_one(self, partition: Partition, dry_run: bool) -> Maintained:
        purged = 0 if dry_run else (await self._purge(partition))[0]
        if is_veil(partition):
            return Maintained(partition, purged, dry_run=dry_run)
        consolidated = await self._consolidation.run(partition, dry_run=dry_run)
        retired = await self._to_retire(partition)
        if not dry_run:
            retired = await self._retire(partition, retired, self._ledger.clock())
        return Maintained(partition, purged, tuple(retired), consolidated, dry_run)

    async def _to_retire(self, partition: Partition) -> list[Pruned]:
        """Memories and learnings that are not worth keeping."""
        settings, now = self._settings, self._ledger.clock()
        index = await self._indexes.current(partition)
        age_min_ms = settings.prune_age_days * DAY_MS
        await asyncio.sleep(0)
        memories = to_prune(
            index.of_layer("long_term", now),
            now,
            keep_max=settings.memories_max,
            score_min=settings.prune_score,
            age_min_ms=age_min_ms,
        )
        await asyncio.sleep(0)  # yield to other tasks: there may be thousands of each
        learnings = to_prune(
            index.of_layer("learning", now),
            now,
            keep_max=settings.learnings_max,
            score_min=settings.prune_learning_score,
            age_min_ms=age_min_ms,
            score_of=learning_score,
        )
        await asyncio.sleep(0)
        return [*memories, *learnings]

    async def _purge(self, partition: Partition) -> tuple[int, int | None]:
        """Remove for good what has been dead for a day. Return how many there were, and when the next one dies."""
        now, purged = self._ledger.clock(), 0
        while True:
            gone = await self._ledger.store.forget(Filter(partition, dead_before=now - DAY_MS), now)
            purged += gone.count
            if gone.done:
                break
        self._indexes.purged(partition, purged)
        if purged and not is_veil(partition):
            await self._tell_index(partition)
        return purged, gone.next_at

    async def _tell_index(self, partition: Partition) -> None:
        """Have an index beside the store compared with what is left; if nothing is, without naming the user again."""
        jobs = self._ledger.index_jobs(partition)
        left = (await self._ledger.list(Filter(partition), limit=1)).records if jobs else ()
        try:
            if left:
                await self._ledger.commit(Changes(partition, enqueue=jobs, needs=(left[0].id,)))
        except Conflict:
            left = ()
        if jobs and not left:
            await self._ledger.commit(Changes(ERASURES, enqueue=self._ledger.clearing_jobs(partition)))

    async def _retire(self, partition: Partition, chosen: Sequence[Pruned], now: int) -> list[Pruned]:
        """End the chosen records, with the reason. Return those that were ended."""
        reasons = {each.record.id: each for each in chosen}
        ended = (
            each.record.with_(valid_to=now, data=dict(each.record.data) | {"retired": each.reason})
            for each in chosen
        )  # fmt: skip
        done: list[Pruned] = []
        for portion in portions(ended):
            try:
                await self._ledger.commit(Changes(partition, put=tuple(portion)), renews=False)
            except Conflict:
                continue  # in use right now: the next upkeep looks again
            done += [reasons[record.id] for record in portion]
        return done

    async def restore(self, partition: Partition, id: str) -> Record:
        """Bring back what upkeep or merging ended."""
        record = await self._ledger.one(partition, id)
        if record.layer == "entity" and not record.data.get("alias") and "merged_into" in record.data:
            await Graph(self._ledger, Scope(*partition)).undo_merge(id)
            return await self._ledger.one(partition, id)
        if "merged_into" in record.data and record.layer == "long_term":
            await self._take_out(record)
            older = await self._ledger.get(partition, [record.data["merged_into"]])
            alone = without_data(record, *OF_MERGED).with_(valid_to=None)
            *kept, alone = unmerged(older[0], record) if older else (alone,)
            put = (*kept, with_data(alone, **{KEPT_APART: True}))
        elif "retired" in record.data:
            again = with_data(without_data(record, "retired"), **{TOUCHED_AT: self._ledger.clock()})
            put = (again.with_(valid_to=None),)
        else:
            raise NotFound("nothing here was ended that could be restored", field="id")
        await self._ledger.commit(Changes(partition, put=put))
        return await self._ledger.one(partition, id)

    async def _take_out(self, record: Record) -> None:
        """Take what a memory gave out of what it was merged into: nothing would lead there once it is by itself."""
        index = await self._indexes.current(record.scope.partition)
        now = self._ledger.clock()

        def held(id: str) -> Record | None:
            return next(iter(index.stored([id], now)[0]), None)

        await take_out(self._ledger, record, await told_by(self._ledger, record), record.data["merged_into"], held)


async def note_uses(ledger: Ledger, uses: Counter[tuple[Partition, str]]) -> None:
    """Record how often memories went into a context, since used memories are not pruned.

    Counts are removed once written, so a caller refused halfway can continue with the rest.
    """
    by_partition: dict[Partition, list[str]] = {}
    for partition, id in uses:
        by_partition.setdefault(partition, []).append(id)
    for partition, ids in by_partition.items():
        for start in range(0, len(ids), CHUNK):
            some = ids[start : start + CHUNK]
            used = [_used(r, uses[partition, r.id], ledger.clock()) for r in await ledger.get(partition, some)]
            for portion in portions(used):
                await ended(asyncio.ensure_future(_write_uses(ledger, partition, portion, uses)))
            for id in some:
                uses.pop((partition, id), None)  # forgotten since


async def _write_uses(
    ledger: Ledger, partition: Partition, used: Sequence[Record], uses: Counter[tuple[Partition, str]]
) -> None:
    try:
        await ledger.commit(Changes(partition, put=tuple(used)), renews=False)
    except Conflict:
        pass  # a count is not worth competing with a real change
    for record in used:
        del uses[partition, record.id]


def _used(record: Record, count: int, now: int) -> Record:
    usage = {"usage_count": record.data.get("usage_count", 0) + count, "last_used": now}
    return with_data(record, **usage)
