"""What an org may use in a day: requests, memories and bytes, counted across all processes of a server.

Counts are kept in the store and merged every few seconds, so an org may exceed its quota by what it
does in that time. A day begins at midnight UTC.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, fields
from typing import Any

from recollect.errors import Conflict, RateLimited, RecollectError, ValidationError
from recollect.ledger import upkeep_job
from recollect.records import DAY_MS, SECOND_MS, Changes, Clock, Partition, Record, Scope, new_id
from recollect.settings import Settings
from recollect.stores.contract import Store

ORG = "{quotas}"
"""Where the counts are kept, one record for each org. Ids must not contain braces, so no real org has this name."""
ID = "used"
ADDED_LAYERS = ("conversation", "long_term")
"""What counts as a memory: what is said or told directly. What is derived from it does not."""
FLUSH_S = 2.0
FLUSH_TRIES = 5
WITHOUT_ADDING = (
    "/search", "/context", "/get", "/history", "/forget", "/undo", "/redo", "/quarantine", "/release", "/maintain",
    "/reprocess", "/mcp",
)  # fmt: skip
"""Paths that are sent with POST and yet add nothing; at `/mcp`, each tool that adds checks the quota itself."""


class OverQuota(RateLimited):
    """An org has used up what it may use in a day."""

    def __init__(self, what: str, limit: int, wait_s: float) -> None:
        super().__init__(f"today's quota of {what} ({limit}) is used up; a new day begins at midnight UTC", field="org")
        self.wait_s = max(1, math.ceil(wait_s))


@dataclass(frozen=True, slots=True)
class Quota:
    """What one org may use in a day; None means unlimited."""

    requests: int | None = None
    memories: int | None = None
    bytes: int | None = None


def read_quotas(settings: Settings, tables: Any) -> tuple[Quota, dict[str, Quota]]:
    """The quota of every org, and the exceptions in the `[orgs.*]` tables of the file."""
    usual = Quota(settings.requests_per_day, settings.memories_per_day, settings.bytes_per_day)
    known = {f"{each.name}_per_day": each.name for each in fields(Quota)}
    if not isinstance(tables, Mapping):
        raise ValidationError("must be tables, such as [orgs.acme]", field="orgs")
    found = {}
    for name, table in tables.items():
        if not isinstance(table, Mapping) or not set(table) <= set(known):
            raise ValidationError(f"must be a table of {', '.join(known)}", field=f"orgs.{name}")
        if not all(isinstance(value, int) and not isinstance(value, bool) and value > 0 for value in table.values()):
            raise ValidationError("must be whole numbers above zero", field=f"orgs.{name}")
        given = {known[key]: value for key, value in table.items()}
        found[str(name)] = Quota(**({each.name: getattr(usual, each.name) for each in fields(Quota)} | given))
    return usual, found


def may_add(method: str, path: str) -> bool:
    """Whether a request to the API may add memories."""
    return method not in ("GET", "HEAD", "DELETE") and not path.endswith(WITHOUT_ADDING)


class Quotas:
    """Counts what orgs use today and refuses what exceeds their quota."""

    def __init__(self, store: Store, clock: Clock, usual: Quota, special: Mapping[str, Quota]) -> None:
        self._store = store
        self._clock = clock
        self._usual = usual
        self._special = special
        self._day = 0
        self._known: dict[str, Counter[str]] = {}
        self._fresh: dict[str, Counter[str]] = {}

    @property
    def are_set(self) -> bool:
        """Whether any org has a quota at all."""
        return any(quota != Quota() for quota in (self._usual, *self._special.values()))

    async def admit(self, org: str, *, adds: bool) -> None:
        """Count a request, or refuse it if the org has used up what the request needs; `adds`: it may add memories."""
        await self._check(org, "requests", "bytes", *(["memories"] if adds else []))
        self.note(org, requests=1)

    async def admit_memory(self, org: str) -> None:
        """Refuse to add a memory if the org has used up its memories of the day."""
        await self._check(org, "memories")

    async def _check(self, org: str, *needed: str) -> None:
        quota = self._special.get(org, self._usual)
        if quota == Quota():
            return
        if self._begins_a_day() or org not in self._known:
            await self._load(org)
        used = self._known[org] + self._fresh.get(org, Counter())
        for what in needed:
            limit = getattr(quota, what)
            if limit is not None and used[what] >= limit:
                raise OverQuota(what, limit, (DAY_MS - self._clock() % DAY_MS) / SECOND_MS)

    def note(self, org: str, **used: int) -> None:
        """Record what an org used."""
        if self.are_set:
            self._fresh.setdefault(org, Counter()).update(used)

    def note_commit(self, changes: Changes) -> None:
        """Record the memories that a commit adds."""
        added = sum(record.version == 0 and record.layer in ADDED_LAYERS for record in changes.put)
        if added:
            self.note(changes.partition.org, memories=added)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Merge the counts of all processes from time to time, and at the end."""
        task = asyncio.create_task(self._flush_regularly())
        try:
            yield
        finally:
            task.cancel()
            with suppress(RecollectError):
                await self.flush()

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            with suppress(RecollectError):  # what could not be written is kept and retried
                await self.flush()

    async def flush(self) -> None:
        """Add what this process used to the counts in the store, and read what others used."""
        self._begins_a_day()
        for org in list(self._fresh):
            for attempt in range(FLUSH_TRIES):
                try:
                    await self._write(org)
                    break
                except Conflict:
                    if attempt == FLUSH_TRIES - 1:
                        raise

    async def _write(self, org: str) -> None:
        day, used = self._day, Counter(self._fresh.get(org))
        record = await self._read(org)
        total = _used(record, day) + used
        now = self._clock()
        data = {"day": day, "used": dict(total)}
        home = Partition(ORG, org)
        put = Record(ID, "quota", Scope(*home), created_at=now) if record is None else record
        gone = upkeep_job(home, now + DAY_MS)  # removes the keys of commits, of which there are thousands in a day
        changes = Changes(home, put=(put.with_(data=data),), enqueue=(gone,), key=new_id(now))
        await self._store.commit(changes, now)
        if day != self._day:
            return  # another day began during the write, and this does not belong to it
        self._known[org] = total
        left = self._fresh.pop(org, Counter()) - used  # what was used during the write
        if left:
            self._fresh[org] = left

    async def _load(self, org: str) -> None:
        self._known[org] = _used(await self._read(org), self._day)

    async def _read(self, org: str) -> Record | None:
        return next(iter(await self._store.get(Partition(ORG, org), [ID], self._clock())), None)

    def _begins_a_day(self) -> bool:
        """Whether this is the first call on a new day; if so, reset all counts."""
        today = self._clock() // DAY_MS
        if today == self._day:
            return False
        self._day = today
        self._known.clear()
        self._fresh.clear()
        return True


def _used(record: Record | None, day: int) -> Counter[str]:
    """What was used on a day, according to a record."""
    return Counter(record.data["used"]) if record is not None and record.data["day"] == day else Counter()
