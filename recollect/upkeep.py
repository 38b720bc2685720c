"""Expiry and pruning: what leaves, when, and why; with a dry run that only tells.

Expired and dropped records are removed for good a day after they died. Pruning deletes nothing:
it retires what is old, unimportant and unused, with the reason, and `restore` takes it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from recollect.errors import Conflict, NotFound
from recollect.filters import Filter
from recollect.graph import Graph
from recollect.index import Indexes
from recollect.ledger import Ledger, portions
from recollect.policies.merging import unmerged
from recollect.policies.retention import Pruned, to_prune
from recollect.records import DAY_MS, Changes, Partition, Record, Scope
from recollect.settings import Settings

PRUNED_LAYERS = ("long_term",)
CHUNK = 90


@dataclass(frozen=True, slots=True)
class Maintained:
    """What upkeep did to one partition, or would do."""

    partition: Partition
    purged: int = 0
    retired: tuple[Pruned, ...] = field(default=())
    dry_run: bool = False


class Upkeep:
    """Looks after the partitions of a store."""

    def __init__(self, ledger: Ledger, indexes: Indexes, settings: Settings) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._settings = settings

    async def maintain(self, only: Partition | None = None, *, dry_run: bool = False) -> AsyncIterator[Maintained]:
        """Purge and prune, one partition after the other."""
        if only is not None:
            yield await self._maintain_one(only, dry_run)
            return
        after: Partition | None = None
        while partitions := await self._ledger.store.partitions(after):
            for partition in partitions:
                yield await self._maintain_one(partition, dry_run)
            after = partitions[-1]

    async def _maintain_one(self, partition: Partition, dry_run: bool) -> Maintained:
        now = self._ledger.clock()
        index = await self._indexes.current(partition)
        memories = [record for layer in PRUNED_LAYERS for record in index.of_layer(layer, now)]
        retired = to_prune(
            memories,
            now,
            keep_max=self._settings.memories_max,
            score_min=self._settings.prune_score,
            age_min_ms=self._settings.prune_age_days * DAY_MS,
        )
        if dry_run:
            return Maintained(partition, retired=tuple(retired), dry_run=True)
        retired = await self._retire(partition, retired, now)
        purged = 0
        while True:
            gone = await self._ledger.store.forget(Filter(partition, dead_before=now - DAY_MS), now)
            purged += gone.count
            if gone.done:
                return Maintained(partition, purged, tuple(retired))

    async def _retire(self, partition: Partition, chosen: Sequence[Pruned], now: int) -> list[Pruned]:
        """End the chosen, with the reason. Gives those that were ended."""
        reasons = {each.record.id: each for each in chosen}
        ended = (
            each.record.with_(valid_to=now, data=dict(each.record.data) | {"retired": each.reason})
            for each in chosen
        )  # fmt: skip
        done: list[Pruned] = []
        for portion in portions(ended):
            try:
                await self._ledger.commit(Changes(partition, put=tuple(portion)))
            except Conflict:
                continue  # somebody uses them right now: the next upkeep looks again
            done += [reasons[record.id] for record in portion]
        return done

    async def restore(self, partition: Partition, id: str) -> Record:
        """Take back what upkeep or merging ended."""
        record = await self._ledger.one(partition, id)
        if record.layer == "entity" and not record.data.get("alias") and "merged_into" in record.data:
            await Graph(self._ledger, Scope(*partition)).undo_merge(id)
            return await self._ledger.one(partition, id)
        if "merged_into" in record.data and record.layer in PRUNED_LAYERS:
            older = await self._ledger.get(partition, [record.data["merged_into"]])
            alone = record.with_(valid_to=None, data=_without(record, "merged_into", "reason", "before_merge"))
            put = unmerged(older[0], record) if older else (alone,)
        elif "retired" in record.data:
            put = (record.with_(valid_to=None, data=_without(record, "retired")),)
        else:
            raise NotFound("nothing was ended here that could be taken back", field="id")
        await self._ledger.commit(Changes(partition, put=put))
        return await self._ledger.one(partition, id)


async def note_uses(ledger: Ledger, uses: Counter[tuple[Partition, str]]) -> None:
    """Write down how often memories went into a context, since what is used is not pruned.

    What was written is taken out of the counts: whoever is refused in the middle goes on with the rest.
    """
    for partition in dict.fromkeys(partition for partition, _ in uses):
        ids = [id for each, id in uses if each == partition]
        for start in range(0, len(ids), CHUNK):
            some = ids[start : start + CHUNK]
            used = [_used(r, uses[partition, r.id], ledger.clock()) for r in await ledger.get(partition, some)]
            for portion in portions(used):
                try:
                    await ledger.commit(Changes(partition, put=tuple(portion)))
                except Conflict:
                    pass  # a count is not worth a quarrel with a real change
                for record in portion:
                    del uses[partition, record.id]
            for id in some:
                uses.pop((partition, id), None)  # forgotten since


def _used(record: Record, count: int, now: int) -> Record:
    usage = {"usage_count": record.data.get("usage_count", 0) + count, "last_used": now}
    return record.with_(data=dict(record.data) | usage)


def _without(record: Record, *names: str) -> dict[str, object]:
    return {key: value for key, value in record.data.items() if key not in names}
