"""Consolidation: resting sessions become episodes, recurring topics become memories, duplicates are merged.

Each step is a commit of its own, decided from what is stored, so it can be interrupted anywhere, run
twice or by two workers at once, and still takes effect once. Nothing is deleted: a merge is recorded and
can be undone, and a memory of what recurs names its episodes and goes with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial

from recollect.enrichment import merged_pair
from recollect.episodes import NOTED, Episodes
from recollect.errors import Conflict
from recollect.index import PartitionIndex
from recollect.indexes import Indexes
from recollect.ledger import Ledger
from recollect.pace import PORTION, Pace, apart
from recollect.policies.merging import Wordings, glance
from recollect.policies.recurring import (
    RESTS_ON,
    Recurring,
    Sayings,
    is_edited,
    marked,
    memory_id,
    recurring,
    retold,
    told_in,
)
from recollect.records import MINUTE_MS, Changes, Job, Partition, Record, Scope, enrich_job
from recollect.settings import Settings

EPISODES_AT_ONCE = 50
"""Episodes read before yielding to other tasks: a few milliseconds."""
ALIKE_MAX = 50
"""Memories with the same words that are compared with each other: more are not duplicates but a template."""


@dataclass(frozen=True, slots=True)
class Doubles:
    """Two memories that say the same: the older, which stays, and the newer, which ends."""

    kept: Record
    ended: Record


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What consolidation made, or would make: new episodes, merged memories, memories of what recurs."""

    episodes: tuple[Record, ...] = ()
    merged: tuple[Doubles, ...] = ()
    recurring: tuple[Record, ...] = ()


class Consolidation:
    """Condenses what one partition holds."""

    def __init__(self, ledger: Ledger, indexes: Indexes, settings: Settings) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._idle_ms = settings.episode_idle_minutes * MINUTE_MS

    async def run(self, partition: Partition, *, dry_run: bool = False) -> Consolidated:
        """Run every step once; with `dry_run`, only report what would be done."""
        if not partition.user:  # an org's own partition has no conversations
            return Consolidated(merged=await self._merge(partition, dry_run))
        return Consolidated(
            episodes=await self._note(partition, dry_run),
            merged=await self._merge(partition, dry_run),
            recurring=await self._tell(partition, dry_run),
        )

    # ── sessions that rest ───────────────────────────────────────────────────────────────────────

    async def _note(self, partition: Partition, dry_run: bool) -> tuple[Record, ...]:
        """Make the episodes of resting sessions that were not noted down, whatever happened to their jobs."""
        index = await self._indexes.current(partition)
        episodes = Episodes(self._ledger, Scope(*partition), idle_ms=self._idle_ms)
        made: list[Record] = []
        for session in self._resting(index, partition):
            if dry_run:
                made += await episodes.foreseen(session)
                continue
            while (changes := await episodes.make(session)) and changes.put and await self._committed(changes):
                made += [record for record in changes.put if record.layer == "episodic"]
        return tuple(made)

    def _resting(self, index: PartitionIndex, partition: Partition) -> list[str]:
        now = self._ledger.clock()
        found: list[str] = []
        for session in index.sessions:
            newest = next(index.newest(session, now), None)
            head = index.head("session", Scope(*partition, session=session), now)
            noted = head is not None and newest is not None and head.data.get(NOTED) == newest.id
            if newest is not None and not noted and newest.created_at + self._idle_ms <= now:
                found.append(session)
        return found

    # ── duplicates ───────────────────────────────────────────────────────────────────────────────

    async def _merge(self, partition: Partition, dry_run: bool) -> tuple[Doubles, ...]:
        """Merge memories that say the same but were not merged when written, say because they had no vector yet."""
        index = await self._indexes.current(partition)
        now = self._ledger.clock()
        found: list[Doubles] = []
        # By the hash of their words: holding, and in the end freeing, the words themselves would take long.
        groups: dict[int, list[Record]] = {}
        pace = Pace()
        for memory in index.of_layer("long_term", now):
            groups.setdefault(hash(glance(memory.content)), []).append(memory)
            await pace.done(characters=len(memory.content))
        for group in (group[:ALIKE_MAX] for group in groups.values() if len(group) > 1):
            await asyncio.sleep(0)
            found += [
                doubles
                async for doubles in _doubles(group, now)
                if dry_run or await self._committed(Changes(partition, put=(doubles.kept, doubles.ended)))
            ]
        return tuple(found)

    # ── what recurs ──────────────────────────────────────────────────────────────────────────────

    async def _tell(self, partition: Partition, dry_run: bool) -> tuple[Record, ...]:
        """Write memories of what several episodes have in common, new or updated."""
        sayings = Sayings()
        if dry_run:
            return tuple(each.memory for each in await self._recurring(partition, sayings))
        told: dict[str, Record] = {}
        while found := [each for each in await self._recurring(partition, sayings) if each.memory.id not in told]:
            # Two topics may mark the same episode: the second continues from what the first wrote.
            written: dict[str, Record] = {}
            for each in found:
                before = [written.get(episode.id, episode) for episode in each.episodes]
                changes = self._telling(partition, Recurring(each.memory, tuple(before)))
                if not await self._committed(changes):
                    return tuple(told.values())
                told[each.memory.id] = each.memory
                written |= {after.id: _as_written(after) for after in changes.put[1:] if after not in before}
        return tuple(told.values())

    async def _recurring(self, partition: Partition, sayings: Sayings) -> list[Recurring]:
        index = await self._indexes.current(partition)
        now = self._ledger.clock()
        held = {record.id: record for record in index.held("long_term", now) if RESTS_ON in record.data}
        episodes = index.of_layer("episodic", now)
        for place, episode in enumerate(episodes):
            if place % EPISODES_AT_ONCE == 0:
                await asyncio.sleep(0)
            sayings.of(episode)
        found = partial(recurring, episodes, held, Scope(*partition), now, sayings)
        return await apart(found, PORTION // EPISODES_AT_ONCE * len(episodes))

    def _telling(self, partition: Partition, found: Recurring) -> Changes:
        now = self._ledger.clock()
        id = found.memory.id
        job = enrich_job(partition, (id,), now)
        # Put all episodes, even unchanged ones, to ensure that none has been set aside since it was read.
        episodes = (marked(each, str(found.memory.data["topic"])) for each in found.episodes)
        return Changes(partition, put=(found.memory, *episodes), enqueue=(job,))

    async def retell(self, job: Job) -> Changes:
        """The changes of a job of kind `retell`: a memory of what recurs, rebuilt from the episodes that are left."""
        (key,) = job.refs
        index = await self._indexes.current(job.partition)
        now = self._ledger.clock()
        told = [each for each in index.of_layer("episodic", now) if told_in(each).get(key) == memory_id(key)]
        heard = [each for each in told if each.trust == "trusted"]
        held = await self._ledger.get(job.partition, [memory_id(key)])
        if held and is_edited(held[0]):
            return Changes(job.partition)
        memory = retold(key, heard, held[0] if held else None, Scope(*job.partition), now, Sayings()) if heard else None
        if memory is None:
            return Changes(job.partition)
        used = tuple(each for each in heard if each.id in memory.data[RESTS_ON])
        return self._telling(job.partition, Recurring(memory, used))

    async def _committed(self, changes: Changes) -> bool:
        """Commit unless another writer was faster: that changed what this rests on, so a later run looks again."""
        try:
            await self._ledger.commit(changes)
        except Conflict:
            return False
        return True


async def _doubles(group: Sequence[Record], now: int) -> AsyncIterator[Doubles]:
    """The members of a group that say the same, each newer one with the older it is merged into."""
    stay: list[Record] = []
    wordings, pace = Wordings(), Pace()
    for newer in sorted(group, key=lambda record: record.born):
        for place, older in enumerate(stay):
            pair = merged_pair(older, newer, now, wordings)
            await pace.done(characters=len(older.content))
            if pair:
                stay[place] = _as_written(pair[0])
                yield Doubles(*pair)
                break
        else:
            stay.append(newer)


def _as_written(record: Record) -> Record:
    """A record with the version its commit gave it."""
    return record.with_(version=record.version + 1)
