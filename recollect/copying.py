"""Migration: copy everything one store keeps into another, and verify it there.

A copy keeps no progress state: what is already there is left alone. So it can be stopped anywhere and
called again, and another call also copies what was written meanwhile.

Records keep their ids, times, vectors and order of birth. Versions start anew, because each store counts
them itself; so what a record says about versions and births is expressed in the new store's numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.episodes import covered, episode_job
from recollect.errors import Conflict
from recollect.exports import in_a_new_place
from recollect.filters import Filter
from recollect.layers import LAYERS
from recollect.ledger import ERASURES, Ledger, portions
from recollect.records import (
    Changes,
    Clock,
    Job,
    Partition,
    Record,
    Scope,
    digest_of,
    enrich_jobs,
    payload_of,
    system_clock,
    with_data,
)
from recollect.spells import turn_jobs
from recollect.stores.contract import OPERATIONS_MAX, Store, named_partitions

PAGE = 500
CONFLICT_TRIES = 3
"""How often a portion is compared again because the new store was written to meanwhile."""
TOLD_MAX = 10
"""How many ids of differing records a report names."""
LEFT_OUT = ("fence", "seal")
"""Layers that only serve work in progress in the old store."""
COPIED_LAYERS = tuple(name for name in LAYERS if name not in LEFT_OUT)

Told = Callable[[int], None]
"""Called with the number of further records examined."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The result for one partition.

    Of `records` in the old store, `copied` were new, `known` were there already and `different` had
    other content under their id, which was left alone unless overwriting was requested. Afterwards both
    sides were read again: `missing` and `extra` count what only one of them has, and the digests are over
    all records in order. `verified`: the digests are equal.
    """

    partition: Partition
    records: int = 0
    copied: int = 0
    known: int = 0
    different: int = 0
    overwritten: int = 0
    missing: int = 0
    extra: int = 0
    digest: str = ""
    target_digest: str = ""
    dry_run: bool = False
    different_ids: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        return not self.dry_run and self.digest == self.target_digest

    def to_dict(self) -> dict[str, Any]:
        return {
            "org": self.partition.org,
            "user": self.partition.user,
            "records": self.records,
            "copied": self.copied,
            "known": self.known,
            "different": self.different,
            "different_ids": list(self.different_ids),
            "overwritten": self.overwritten,
            "missing": self.missing,
            "extra": self.extra,
            "digest": self.digest,
            "target_digest": self.target_digest,
            "verified": self.verified,
        }


class Copying:
    """Copies partitions from one store to another, one by one."""

    def __init__(
        self,
        source: Store,
        target: Store,
        *,
        layers: Sequence[str] = (),
        overwrite: bool = False,
        dry_run: bool = False,
        clock: Clock = system_clock,
        told: Told | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._ledger = Ledger(target, clock, LAYERS)
        self._layers = tuple(layers) or COPIED_LAYERS
        self._overwrite = overwrite
        self._dry_run = dry_run
        self._clock = clock
        self._told = told or (lambda _: None)

    async def run(self) -> AsyncIterator[Copied]:
        """Copy everything, or only the chosen layers."""
        async for partition in named_partitions(self._source):
            if partition != ERASURES:  # it has jobs alone, and jobs stay behind
                yield await self._partition(partition)

    async def _partition(self, partition: Partition) -> Copied:
        now = self._clock()  # one moment for both sides, so that what expires meanwhile counts the same on both
        done = Copied(partition, dry_run=self._dry_run)
        sessions = Sessions()
        summaries: list[Record] = []
        turns: list[Job] = []
        async for page in self._pages(self._source, partition, now):
            sessions.see(page)
            turns += turn_jobs(partition, page, now)
            summaries += [record for record in page if record.layer == "summary"]
            done = await self._portions([_carried(r) for r in page if r.layer != "summary"], done, now)
            self._told(len(page))
        # A summary says how far it reaches, which is only known once all messages are there.
        done = await self._portions([await self._summary(record, now) for record in summaries], done, now)
        if self._dry_run:
            return done
        await self._enqueue([*sessions.jobs(partition, self._clock()), *turns])
        return await self._verified(done, now)

    async def _pages(self, store: Store, partition: Partition, now: int) -> AsyncIterator[tuple[Record, ...]]:
        after = None
        while True:
            where = Filter(partition, layers=self._layers)
            page = await store.list(where, now, limit=PAGE, after=after)
            yield page.records
            after = page.after
            if after is None:
                return

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def _portions(self, records: Iterable[Record], done: Copied, now: int) -> Copied:
        for portion in portions(records):
            done = await self._portion(portion, done, now)
        return done

    async def _portion(self, records: Sequence[Record], done: Copied, now: int) -> Copied:
        """Put what is new in one commit; compare what is already there."""
        partition = done.partition
        for attempt in range(CONFLICT_TRIES):
            there = {r.id: r for r in await self._target.get(partition, [record.id for record in records], now)}
            new = [record for record in records if record.id not in there]
            other = [r for r in records if r.id in there and _digest(_carried(there[r.id])) != _digest(r)]
            replacing = [r.with_(version=there[r.id].version) for r in other] if self._overwrite else []
            try:
                if not self._dry_run and (new or replacing):
                    put = (*new, *replacing)
                    changes = Changes(partition, put=put, enqueue=self._enriching(partition, put))
                    await self._ledger.commit(changes, renews=False)
                break
            except Conflict:
                if attempt == CONFLICT_TRIES - 1:
                    raise
        named = (*done.different_ids, *(record.id for record in other))[:TOLD_MAX]
        return replace(
            done, records=done.records + len(records), copied=done.copied + len(new),
            known=done.known + len(records) - len(new) - len(other), different=done.different + len(other),
            overwritten=done.overwritten + len(replacing), different_ids=named,
        )  # fmt: skip

    def _enriching(self, partition: Partition, records: Iterable[Record]) -> tuple[Job, ...]:
        """The job for records not enriched yet, because jobs stay in the old store."""
        refs = tuple(r.id for r in records if LAYERS[r.layer].embedded and r.content and r.vector is None)
        return enrich_jobs(partition, refs, self._clock())

    async def _enqueue(self, jobs: Sequence[Job]) -> None:
        for start in range(0, len(jobs), OPERATIONS_MAX):
            some = tuple(jobs[start : start + OPERATIONS_MAX])
            await self._ledger.commit(Changes(some[0].partition, enqueue=some))

    async def _summary(self, record: Record, now: int) -> Record:
        """A running summary that reaches as far in the new store as it did in the old one."""
        revision, place = record.data["covers"]["born"]
        partition = record.scope.partition
        where = Filter(partition, ("conversation",), record.scope.session, born_before=(revision, place + 1))
        page = await self._source.list(where, now, newest_first=True, limit=1)
        last = await self._target.get(partition, [message.id for message in page.records], now) if page.records else ()
        born = list(last[0].born) if last else [0, 0]
        return _carried(with_data(record, covers={**record.data["covers"], "born": born}))

    # ── verifying ────────────────────────────────────────────────────────────────────────────────

    async def _verified(self, done: Copied, now: int) -> Copied:
        """Read both sides again and compare them, record by record and as a whole."""
        source, target = Tally(), Tally()
        async for page in self._pages(self._source, done.partition, now):
            for record in page:
                source.add(await self._summary(record, now) if record.layer == "summary" else _carried(record))
        async for page in self._pages(self._target, done.partition, now):
            for record in page:
                target.add(_carried(record))
        return replace(
            done, missing=len(source.digests.keys() - target.digests.keys()),
            extra=len(target.digests.keys() - source.digests.keys()), digest=source.digest, target_digest=target.digest,
        )  # fmt: skip


class Sessions:
    """Which sessions have messages that no episode covers yet."""

    def __init__(self) -> None:
        self._messages: dict[str, Scope] = {}
        self._covered: set[str] = set()

    def see(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.layer == "conversation":
                self._messages[record.id] = record.scope
            elif record.layer == "episodic":
                self._covered.update(covered(record))

    def jobs(self, partition: Partition, now: int) -> list[Job]:
        """The jobs of making episodes of these sessions once they rest, as for every incoming message."""
        open_ones = {scope.session for id, scope in self._messages.items() if id not in self._covered}
        return [episode_job(Scope(*partition, session=session), now) for session in sorted(open_ones)]


class Tally:
    """The records of one side: a digest of each, and one of all together, each layer in order of birth."""

    def __init__(self) -> None:
        self.digests: dict[str, bytes] = {}
        self._layers: dict[str, Any] = {}

    def add(self, record: Record) -> None:
        digest = self.digests[record.id] = _digest(record)
        self._layers.setdefault(record.layer, hashlib.blake2b(digest_size=16)).update(digest)

    @property
    def digest(self) -> str:
        whole = hashlib.blake2b(digest_size=16)
        for layer in sorted(self._layers):
            whole.update(layer.encode() + b"\0" + self._layers[layer].digest())
        return whole.hexdigest()


def _carried(record: Record) -> Record:
    """The record without what only applies in its old store: versions, and places in the order of birth."""
    return record.with_(data=in_a_new_place(record.data), version=0, born=(0, 0))


def _digest(record: Record) -> bytes:
    return digest_of(record, payload_of(record))
