"""The storage contract: eight verbs, and the decision that every commit rests on.

A store keeps the records and jobs of partitions. It knows layers only as strings and decides nothing
about memory. `decide` is the rule of `commit` as a pure function: the in-memory, SQLite and Cosmos DB
stores call it; PostgreSQL and Redis, whose servers do the work, have the same rule there, in a function
and a script. The conformance suite holds all of them to it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote
from zlib import crc32

from recollect.errors import Conflict, TooLarge, Unavailable, ValidationError
from recollect.filters import Filter, Reach
from recollect.records import DAY_MS, Born, Changes, Job, Partition, Record, Vector, digest_of, payload_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

OPERATIONS_MAX = 96
"""put + drop + enqueue + finish in one commit. Cosmos takes 100, including the head and the key."""
PLACE_BITS = 7
"""Bits for the place in a commit, so that a birth (revision, place) fits one integer."""
PAYLOAD_MAX_BYTES = 1024 * 1024
"""Canonical payload of one commit, vectors included."""
IDS_MAX = 1_000
"""Ids in one `get`."""
BLOCK_ROWS = 500
"""Rows a filtered list reads at a time."""
SCAN_MAX_ROWS = 2_000
"""Rows a filtered list reads before it returns what it has, with a cursor."""
CHANGES_MIN = 200
"""The smallest page of `changes`: larger than any commit, so that a page never splits one."""
KEY_LIFE_MS = DAY_MS
"""How long an idempotency key is remembered."""
OWN_KEY = "own:"
"""Prefix of a key generated for a single commit: a caller that sends it again sends that same commit."""
FORGET_ROWS = 1_000
"""Rows one call of `forget` touches, so that each call is short."""

VEIL = "{erased}"
"""Prefix of the user of an erased partition. No real user can have it: braces are refused in ids."""
OWN = "{"
"""Prefix of the org of a partition in which the library keeps its own data, such as the keys of a server."""

VECTOR_SEARCH = "vector_search"
TEXT_SEARCH = "text_search"
DURABLE = "durable"
SHARED = "shared"
ABILITIES = {
    VECTOR_SEARCH: "searches by meaning across all users of an org",
    TEXT_SEARCH: "searches by words across all users of an org",
    DURABLE: "acknowledged writes survive the end of the process",
    SHARED: "several processes can use it at once",
}
"""What a store may be able to do beyond the promises, by name."""


class LeaseLost(Conflict):
    """The job was finished or taken by another worker. Stop; nothing was written."""


class OtherVersion(Unavailable):
    """Another version of Recollect wrote this store; it was not touched. See docs/how-to/upgrading.md."""

    def __init__(self, what: str, found: int, known: int, advice: str = "") -> None:
        self.is_newer = found > known
        told = "upgrade Recollect" if self.is_newer else advice
        super().__init__(f"{what} {found}, this Recollect knows {known}: {told}; nothing was touched", field="store")


TURN = 1 << 53
"""A mark's `floor_seen` has, in units of this, which run of the server it is of: one that was restarted or replaced may
have lost the last of what a reader saw, and have given the same revisions to something else since."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a reader of `changes` has got. Opaque to the reader."""

    epoch: int
    revision: int
    floor_seen: int


@dataclass(frozen=True, slots=True)
class Delta:
    """What was put or dropped after a mark. `reset`: discard what you hold, this starts over with everything."""

    mark: Mark
    put: tuple[Record, ...] = ()
    dropped: tuple[str, ...] = ()
    reset: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Records in order of birth. A short page is not the end; `after=None` is."""

    records: tuple[Record, ...]
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many are gone, and whether all of them are.

    `epoch` (whole forget): the epoch that ended; pass it in the filter to continue. `next_at`
    (`dead_before`): when the next one dies, None when nothing is left that can die.
    """

    count: int
    done: bool
    next_at: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that a channel of `search` found, with that channel's own score."""

    partition: Partition
    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Survey:
    """Counts for operators. Never reachable from a user's handle.

    Partitions are those of users and orgs (`is_owned`); records and jobs are all counted. A job is waiting when it is
    due and nobody is working on it, and scheduled while its time is still to come.
    """

    partitions: int
    records: Mapping[str, int]
    jobs_waiting: int
    jobs_running: int
    oldest_job_at: int | None
    bytes: int | None = None
    jobs_scheduled: int = 0

    @property
    def jobs(self) -> dict[str, int]:
        """The jobs by state: `waiting`, `running`, `scheduled`."""
        return {"waiting": self.jobs_waiting, "running": self.jobs_running, "scheduled": self.jobs_scheduled}

    @property
    def waits_since(self) -> int | None:
        """Since when the oldest job has been waiting; None when none is."""
        return self.oldest_job_at if self.jobs_waiting else None


OK, WARN, FAIL = "ok", "warn", "fail"
SKEW_WARN_MS, SKEW_FAIL_MS = 2_000, 60_000
"""How far clocks may differ: leases last a minute, and one that ends early means work done twice for nothing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of examining a server, and what to do about it. Stores on servers return these from `examine`."""

    name: str
    found: str
    advice: str = ""
    state: str = OK


def clock_finding(ahead_ms: Sequence[float]) -> Finding:
    """How far the servers' clocks differ from this machine's; all times come from callers."""
    if not ahead_ms:
        return Finding("clock", "the server's clock could not be read")
    worst = max(ahead_ms, key=abs)
    told = f"{abs(worst) / 1000:.1f} s {'behind' if worst < 0 else 'ahead'}"
    if abs(worst) < SKEW_WARN_MS:
        return Finding("clock", f"{told}, close enough")
    advice = "synchronise the clocks of all machines (NTP): leases and lifetimes depend on them"
    return Finding("clock", f"the server is {told} of this machine", advice,
                   FAIL if abs(worst) >= SKEW_FAIL_MS else WARN)  # fmt: skip


class WithoutSearch:
    """What a store lacks that holds one partition at a time."""

    async def search(
        self, reach: Reach, *, text: str | None, vector: Vector | None, limit: int, now: int
    ) -> Mapping[str, Sequence[Candidate]]:
        raise Unavailable("this store does not search across users; see its abilities", field="search")


class Store(Protocol):
    """What every backend promises. See docs/contract.md for each promise in full."""

    abilities: frozenset[str]

    async def commit(self, changes: Changes, now: int) -> int:
        """Put, drop, enqueue and finish: all or nothing, once per key. Returns the revision."""
        ...

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        """The living records among these ids, in the order asked."""
        ...

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        """A page in order of birth."""
        ...

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        """What happened after the mark. When nothing is new, it costs one look-up."""
        ...

    async def search(
        self, reach: Reach, *, text: str | None, vector: Vector | None, limit: int, now: int
    ) -> Mapping[str, Sequence[Candidate]]:
        """Candidates per channel ("text", "vector"), never fused. Declared in `abilities`."""
        ...

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        """Due jobs, hidden from others until the lease ends."""
        ...

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        """Forget what the filter selects. Call again until `done`."""
        ...

    async def close(self) -> None:
        """Finish the calls already accepted, then release everything. Further calls raise `Unavailable`."""
        ...

    # For operators: what the store holds, and how it is kept.

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        """Partitions in order, for upkeep and migration; erased ones appear under their veil."""
        ...

    async def survey(self, now: int) -> Survey:
        """Counts over the whole store."""
        ...

    async def compact(self) -> None:
        """Release freed space and leave no trace of what was forgotten."""
        ...

    async def check(self) -> Sequence[str]:
        """What is wrong with the stored data; empty when all is well."""
        ...

    def describe(self) -> dict[str, Any]:
        """What it is, where it is and how durable it is. Never a secret."""
        ...


class Offers(NamedTuple):
    """What a store may have besides the contract, as a member of the same name; otherwise the default here holds."""

    loses_answers: bool = True
    """Whether an answer can be lost on its way, as by any network: every commit then gets a key, to be retried by."""
    joins: bool = True
    """Whether messages, and what is learned from them, can be written in one commit."""
    lives: Mapping[str, int] = MappingProxyType({})
    """Lifetimes that it proposes, by layer, in milliseconds."""
    keep: Callable[[Partition, Mark, bytes], Awaitable[bool]] | None = None
    """Keeps what somebody made of all that a partition holds, in place of what was kept before; False if the partition
    is no longer at this mark. The first record that is dropped takes it along, in the same transaction.
    """
    kept: Callable[[Partition], Awaitable[bytes | None]] | None = None
    """What is kept for a partition; None if nothing is."""
    folder: Path | None = None
    """A folder on the same disk, where this process may spill what it holds."""
    oldest_models: frozenset[str] | None = None
    """Models that embedded the oldest records, if it has looked: otherwise they are read when a memory is opened."""
    unchanged: Callable[[Mapping[Partition, Mark]], bool] | None = None
    """One cheap look: whether `changes` has nothing to report after any of these marks."""
    wait_for_work: Callable[[float], Awaitable[bool]] | None = None
    """Waits so many seconds for another process to enqueue a job that is due: otherwise workers poll."""
    examine: Callable[[], Awaitable[Sequence[Finding]]] | None = None
    """What there is to say about its server."""


def offers_of(store: Store) -> Offers:
    """What this store has besides the contract."""
    return Offers(**{name: getattr(store, name) for name in Offers._fields if hasattr(store, name)})


def name_of(partition: Partition) -> str:
    """A partition as one string, percent-encoded so that no id can escape its position."""
    return f"{quote(partition.org, safe='')}/{quote(partition.user, safe='')}"


@lru_cache(maxsize=8_192)
def veil_of(partition: Partition) -> Partition:
    """The name under which an erased partition keeps its epoch, so that its id need not be kept.

    It begins with the checksum of the plain name: a store that chooses a place by the checksum keeps both in one place.
    """
    if is_veil(partition):
        return partition
    name = name_of(partition).encode()
    return Partition(
        partition.org, f"{VEIL}{crc32(name):08x}{hashlib.blake2b(name, digest_size=16, person=b'veil').hexdigest()}"
    )


def is_veil(partition: Partition) -> bool:
    """Whether this is what is left of an erased partition: a number, not a name."""
    return partition.user.startswith(VEIL)


def is_owned(partition: Partition) -> bool:
    """Whether this partition belongs to a user or an org: neither an erased one nor one of the library's own."""
    return not partition.org.startswith(OWN) and not is_veil(partition)


class VectorIndex(Protocol):
    """A vector index beside a store. It is told of changes after they happen, and may be lost and rebuilt."""

    async def put(self, partition: Partition, rows: Sequence[tuple[Record, Floats]]) -> None:
        """Add the vectors of these records, replacing any it already has."""
        ...

    async def drop(self, partition: Partition, ids: Sequence[str]) -> None:
        """Remove these ids; unknown ones are ignored."""
        ...

    async def near(self, partition: Partition, vector: Floats, limit: int) -> Sequence[str]:
        """The ids nearest to a vector, nearest first."""
        ...

    async def held(self, partition: Partition) -> Mapping[str, int]:
        """What it holds for a partition: id -> version of the record."""
        ...

    async def partitions(self) -> set[Partition]:
        """The partitions whose vectors it holds."""
        ...

    async def check(self) -> None:
        """Check that it can be used; raises `Unavailable` if not."""
        ...

    def describe(self) -> dict[str, Any]:
        """What it is and where it is. Never a secret."""
        ...

    async def close(self) -> None:
        """Release its resources."""
        ...


# ── Before the store: one change, checked and sealed ─────────────────────────────────────────────


class Sealed(NamedTuple):
    """A record with its canonical text and digest."""

    record: Record
    payload: str
    digest: bytes


class Prepared(NamedTuple):
    """A `Changes` whose form was checked. If it has a key, `digest` tells a retry from another call under that key."""

    changes: Changes
    puts: tuple[Sealed, ...]
    digest: bytes = b""
    key_hash: bytes | None = None


def prepare(changes: Changes) -> Prepared:
    """Check the form and the limits of a commit, before any store sees it."""
    operations = len(changes.put) + len(changes.drop) + len(changes.enqueue) + len(changes.finish)
    if operations > OPERATIONS_MAX:
        raise TooLarge(f"{operations} operations in one commit; at most {OPERATIONS_MAX}", field="changes")
    ids = [record.id for record in changes.put]
    ids.extend(changes.drop)
    if len(set(ids)) != len(ids):
        raise ValidationError("one id is put or dropped twice in one commit", field="changes")
    for record in changes.put:
        if record.scope.org != changes.partition.org or record.scope.user != changes.partition.user:
            raise ValidationError("a record of another partition in this commit", field="scope")
    for job in (*changes.enqueue, *changes.finish):
        if job.partition != changes.partition:
            raise ValidationError("a job of another partition in this commit", field="partition")
    puts = tuple([_seal(record) for record in changes.put])
    size = sum([_size(sealed) for sealed in puts])
    if size > PAYLOAD_MAX_BYTES:
        raise TooLarge(f"{size} bytes in one commit; at most {PAYLOAD_MAX_BYTES}", field="changes")
    if changes.key is None:
        return Prepared(changes, puts)
    key_hash = hashlib.blake2b(changes.key.encode(), digest_size=16).digest()
    return Prepared(changes, puts, key_hash if changes.key.startswith(OWN_KEY) else _digest(changes, puts), key_hash)


def _seal(record: Record) -> Sealed:
    payload = payload_of(record)
    return Sealed(record, payload, digest_of(record, payload))


def _size(sealed: Sealed) -> int:
    payload, vector = sealed.payload, sealed.record.vector
    return (len(payload) if payload.isascii() else len(payload.encode())) + (len(vector.data) if vector else 0)


def _digest(changes: Changes, puts: tuple[Sealed, ...]) -> bytes:
    parts = (
        [(sealed.digest, sealed.record.version) for sealed in puts],
        changes.drop,
        [(job.id, job.kind, job.refs, job.due_at, job.attempt) for job in changes.enqueue],
        [(job.id, job.attempt) for job in changes.finish],
        changes.needs,
        changes.epoch,
    )
    # The repr of plain tuples shows where each part begins and ends, and is cheap.
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


# ── The rule of a commit ─────────────────────────────────────────────────────────────────────────


class Head(NamedTuple):
    """A partition's counters. `forgot` is the revision of the last whole forget."""

    epoch: int = 1
    revision: int = 0
    floor: int = 0
    forgot: int = 0


class Meta(NamedTuple):
    """What a store knows about a row of the current epoch without reading its payload.

    `dead_at` is when it expires, or when it was dropped.
    """

    version: int
    digest: bytes
    born: Born
    dropped: bool = False
    dead_at: int | None = None

    def lives(self, now: int) -> bool:
        return not self.dropped and (self.dead_at is None or self.dead_at > now)


class Known(NamedTuple):
    """The current state of everything a commit touches, read under the same lock as the write.

    `metas` has rows of the current epoch only, `once` the digest and result of a remembered key.
    """

    head: Head
    metas: Mapping[str, Meta] = MappingProxyType({})
    jobs: Mapping[str, int] = MappingProxyType({})
    once: tuple[bytes, int] | None = None


class Written(NamedTuple):
    """A row to write: the sealed record, its new version, its birth."""

    sealed: Sealed
    version: int
    born: Born


class Plan(NamedTuple):
    """What to write. `replayed`: the key was known, so write nothing and return `revision`."""

    revision: int
    write: tuple[Written, ...] = ()
    drop: tuple[str, ...] = ()
    replayed: bool = False

    @property
    def changes_records(self) -> bool:
        return bool(self.write or self.drop)


def touched_ids(changes: Changes) -> set[str]:
    """The ids whose metas `decide` needs."""
    return {record.id for record in changes.put} | set(changes.drop) | set(changes.needs)


def decide(prepared: Prepared, known: Known, now: int) -> Plan:
    """Check everything in the order of the contract, then return all there is to write, or raise."""
    changes, head = prepared.changes, known.head
    if known.once is not None:
        digest, revision = known.once
        if digest != prepared.digest:
            raise Conflict("this idempotency key was used for another change", field="key")
        return Plan(revision, replayed=True)
    if changes.epoch is not None and changes.epoch != head.epoch:
        raise Conflict("the partition was erased since it was read", field="epoch")
    for job in changes.finish:
        if known.jobs.get(job.id) != job.attempt:
            raise LeaseLost(field="finish")
    for id in changes.needs:
        meta = known.metas.get(id)
        if meta is None or not meta.lives(now):
            raise Conflict("a record that this depends on is gone", field="needs")
    revision = head.revision + 1
    write: list[Written] = []
    for place, sealed in enumerate(prepared.puts):
        written = _decide_put(sealed, known.metas.get(sealed.record.id), now, (revision, place))
        if written is not None:
            write.append(written)
    drop = tuple(id for id in changes.drop if (meta := known.metas.get(id)) is not None and meta.lives(now))
    return Plan(revision if write or drop else head.revision, tuple(write), drop)


def _decide_put(sealed: Sealed, meta: Meta | None, now: int, born: Born) -> Written | None:
    asked = sealed.record.version
    if meta is None or not meta.lives(now):
        if asked != 0:
            raise Conflict("the record was removed since it was read", field="id")
        # The revision is above every version this id ever had, including those of rows long purged or
        # forgotten, so an earlier writer can never mistake the new record for the old one.
        return Written(sealed, born[0], born)
    if meta.digest == sealed.digest:
        return None
    if meta.version != asked:
        raise Conflict("the id is taken, or the record changed since it was read", field="id")
    return Written(sealed, asked + 1, meta.born)


# ── For operators ────────────────────────────────────────────────────────────────────────────────


async def examined(store: Store) -> list[Finding]:
    """What a store reports about its server; empty where there is none."""
    examine = offers_of(store).examine
    return [] if examine is None else list(await examine())


# ── Helpers that every backend needs ─────────────────────────────────────────────────────────────


def reads_from(head: Head, mark: Mark | None) -> tuple[bool, int, int]:
    """Where `changes` starts: (reset, revision to read after, floor seen)."""
    stale = mark is None or mark.epoch != head.epoch or head.floor > max(mark.revision, mark.floor_seen)
    if stale or mark is None:
        return True, 0, head.floor
    return False, mark.revision, mark.floor_seen


def whole_revisions(revisions: Sequence[int], limit: int) -> int:
    """How many of these rows (in order, one beyond `limit` if there are more) make up whole commits."""
    if len(revisions) <= limit:
        return len(revisions)
    cut = limit
    while cut and revisions[cut - 1] == revisions[limit]:
        cut -= 1
    return cut


class Walk:
    """One page of a list, read in blocks: which rows to read next, and what they add. All but the reading itself.

        walk = Walk(where, newest_first, limit, after)
        while True:
            rows = ...  # the next `walk.count` between `walk.low` and `walk.high`, and one that tells of more
            block, more = rows[: walk.count], len(rows) > walk.count
            walk.takes(records_of(block))
            if page := walk.page(block[-1].born if block else None, more=more):
                return page

    What cannot match may be left out of what it takes, and so may the rest of a block once it takes no more.
    """

    def __init__(self, where: Filter, newest_first: bool, limit: int, after: str | None) -> None:
        self._where, self._newest_first, self._limit = where, newest_first, limit
        self._filtered = where.test is not None or where.ids is not None
        self._found: list[Record] = []
        self._scanned = 0
        self.low, self.high = bounds_of(where, newest_first, after)
        """Between which births the next rows lie: after the first, before the second."""

    @property
    def count(self) -> int:
        """How many rows the next block has: those of the page, or more where many may not be in it."""
        return BLOCK_ROWS if self._filtered or self._scanned else self._limit

    def takes(self, records: Iterable[Record]) -> bool:
        """Add those of the block that match, in its order. False when the page has room for no more."""
        for record in records:
            if self._where.holds(record):
                self._found.append(record)
            if len(self._found) == self._limit:
                return False
        return True

    def page(self, end: Born | None, *, more: bool) -> Page | None:
        """The page, if it is complete with the block that ended there; None if there is more to read."""
        full = len(self._found) == self._limit
        if full and (more or self._found[-1].born != end):
            return self._page(self._found[-1].born)
        if full or not more or end is None:
            return self._page(None)
        self._scanned += self.count
        if self._scanned >= SCAN_MAX_ROWS:
            return self._page(end)
        self.low, self.high = (self.low, end) if self._newest_first else (end, self.high)
        return None

    def _page(self, after: Born | None) -> Page:
        cursor = None if after is None else write_cursor(self._where, self._newest_first, after)
        return Page(tuple(self._found), cursor)


def packed(born: Born) -> int:
    """A birth as one integer, in the same order."""
    return born[0] << PLACE_BITS | born[1]


def unpacked(born: int) -> Born:
    """The revision and place of a packed birth."""
    return born >> PLACE_BITS, born & ((1 << PLACE_BITS) - 1)


def write_cursor(where: Filter, newest_first: bool, born: Born) -> str:
    """An opaque position in a list, valid for this list alone."""
    place = f"{born[0]}.{born[1]}"
    return base64.urlsafe_b64encode(f"{place}.{_cursor_check(where, newest_first, place)}".encode()).decode()


def bounds_of(where: Filter, newest_first: bool, after: str | None) -> tuple[Born | None, Born | None]:
    """Between which births the rest of a list lies: after the first, before the second."""
    if not after:
        return where.born_after, where.born_before
    start = read_cursor(where, newest_first, after)
    return (where.born_after, start) if newest_first else (start, where.born_before)


def read_cursor(where: Filter, newest_first: bool, cursor: str) -> Born:
    """The position in a cursor; a cursor of another list, or an edited one, is refused."""
    try:
        revision, place, check = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii").split(".")
        if check == _cursor_check(where, newest_first, f"{revision}.{place}"):
            return int(revision), int(place)
    except ValueError:
        pass
    raise ValidationError("not a cursor of this list; start again without one", field="after")


def _cursor_check(where: Filter, newest_first: bool, place: str) -> str:
    return hashlib.blake2b(repr((where, newest_first, place)).encode(), digest_size=6).hexdigest()


def closed_store() -> Unavailable:
    """What every call answers once the store is closed."""
    return Unavailable("the store is closed; take a new handle from a memory that is open", field="store")


def check_ids(ids: Sequence[str]) -> None:
    """Refuse more ids than one `get` takes."""
    if len(ids) > IDS_MAX:
        raise ValidationError(f"at most {IDS_MAX} ids", field="ids")


def check_limit(limit: int, least: int = 1) -> None:
    """Refuse a page size that is not a whole number of at least `least`."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < least:
        raise ValidationError(f"at least {least}", field="limit")


async def named_partitions(
    store: Store, after: Partition | None = None, page_size: int = 1_000
) -> AsyncGenerator[Partition, None]:
    """Every partition that has a name, in order; erased ones have no name, and nothing to look at.

    Whoever wants only the first ones closes it (`aclosing`). Otherwise the event loop does so later, in a task of its
    own, and complains if it is itself closed first.
    """
    while page := await store.partitions(after, page_size):
        for partition in page:
            if not is_veil(partition):
                yield partition
        after = page[-1]


async def forget_whole(store: Store, partition: Partition, now: int) -> int:
    """Forget everything a partition holds now, to completion; what is written meanwhile stays."""
    gone = await store.forget(Filter(partition), now)
    count = gone.count
    while not gone.done:
        gone = await store.forget(Filter(partition, epoch=gone.epoch), now)
    return count


async def forget_part(store: Store, where: Filter, now: int, limit: int) -> Forgotten:
    """Forget a part of a partition with the store's own verbs: tombstones in ordinary commits."""
    count, after = 0, None
    while count < limit:
        page = await store.list(where, now, limit=min(OPERATIONS_MAX, limit - count), after=after)
        if page.records:
            await store.commit(Changes(where.partition, drop=tuple(record.id for record in page.records)), now)
            count += len(page.records)
        after = page.after
        if after is None:
            return Forgotten(count, done=True)
    return Forgotten(count, done=False)
