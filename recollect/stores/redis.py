"""Memories in Redis or Valkey: one server, or a Cluster. Every commit is one script on one hash slot.

A partition belongs to one of 64 shards, whose number is the hash tag of all its keys: its records,
its index, its jobs and the shard's queue are in the same slot, so a job can be claimed as soon as
the script that wrote it has ended. `lua/` holds the scripts, `redis_nodes.py` sends them to the
right server. No key has a native time to live: expiry is part of the data, as in every store.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from recollect.errors import Conflict, Corrupt, RecollectError, Unavailable, ValidationError
from recollect.filters import Filter, traces_of
from recollect.records import (
    DAY_MS,
    Changes,
    Job,
    Partition,
    Record,
    Stored,
    Vector,
    canonical_json,
    digest_of,
    records_from,
)
from recollect.stores.contract import (
    BLOCK_ROWS,
    CHANGES_MIN,
    DURABLE,
    FORGET_ROWS,
    IDS_MAX,
    KEY_LIFE_MS,
    SHARED,
    TURN,
    VEIL,
    Delta,
    Finding,
    Forgotten,
    LeaseLost,
    Mark,
    OtherVersion,
    Page,
    Prepared,
    Sealed,
    Survey,
    Walk,
    WithoutSearch,
    check_ids,
    check_limit,
    forget_part,
    is_owned,
    name_of,
    prepare,
    veil_of,
    whole_revisions,
)
from recollect.stores.pausing import decoded, pause_after
from recollect.stores.redis_health import Health, examine, findings, memory_bytes, rewrite_files
from recollect.stores.redis_node import Reply, Value
from recollect.stores.redis_nodes import SHARDS, Nodes, Script
from recollect.stores.redis_url import RedisUrl, read_url

LAYOUT = 1
"""The version of the keys' layout. Any other is refused."""
PAGE_MAX = 1_000
"""Rows that one script reads: while it runs, the server serves nobody else."""
SURVEY_PARTITIONS = 100
_READS = 7  # the first keys of a partition are all that reading needs

_Block = tuple[Sequence[Record], tuple[int, int] | None]
_log = logging.getLogger(__name__)
_COMMIT = Script("shard", "rows", "veil", "commit")
_GET = Script("shard", "rows", "get")
_LIST = Script("shard", "rows", "list")
_CHANGES = Script("shard", "rows", "veil", "changes")
_FORGET = Script("shard", "rows", "veil", "forget")
_PURGE = Script("shard", "rows", "veil", "purge")
_AUDIT = Script("shard", "rows", "audit")
_SURVEY = Script("shard", "rows", "survey")
_PARTITIONS = Script("shard", "partitions")
_LOOK = Script("shard", "look")
_TAKE = Script("shard", "take")
_QUEUE = Script("shard", "queue")
_REFUSALS: dict[bytes, tuple[type[Conflict], str, str | None]] = {
    b"key": (Conflict, "key", "this idempotency key was used for another change"),
    b"epoch": (Conflict, "epoch", "the partition was erased since it was read"),
    b"finish": (LeaseLost, "finish", None),
    b"needs": (Conflict, "needs", "a record that this depends on is gone"),
    b"gone": (Conflict, "id", "the record was removed since it was read"),
    b"taken": (Conflict, "id", "the id is taken, or the record changed since it was read"),
}


async def open_url(url: str, *, busy_timeout_s: float = 10.0) -> RedisStore:
    """Open `redis://host:port/0?prefix=recollect`, `rediss://` or `redis+cluster://host:port,host:port`.

    A call that finds a server unreachable, loading or changing its role is retried for
    `busy_timeout_s`, where that is safe.
    """
    where = read_url(url)
    nodes = Nodes(where, busy_timeout_s)
    try:
        await nodes.start()
        health = await examine(nodes)
        if health.is_cluster != where.cluster:
            kind = "is a Cluster: write redis+cluster://" if health.is_cluster else "is not a Cluster: write redis://"
            raise ValidationError(f"this server {kind}", field="url")
        generation = await _generation(nodes, where)
    except BaseException:
        await nodes.close()
        raise
    for warning in health.warnings():
        _log.warning("%s: %s", where, warning)
    return RedisStore(nodes, health, generation)


class RedisStore(WithoutSearch):
    """All promises of the contract on Redis. Open it with `open_store("redis://localhost")`."""

    lives: Mapping[str, int] = {"conversation": 7 * DAY_MS}
    """How long layers live here unless a deployment says otherwise: memory costs more than disk."""

    def __init__(self, nodes: Nodes, health: Health, generation: str) -> None:
        self._nodes = nodes
        self._health = health
        self._generation = generation
        self._prefix = nodes.url.prefix
        self.abilities = frozenset({SHARED, DURABLE}) if health.is_durable else frozenset({SHARED})

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def commit(self, changes: Changes, now: int) -> int:
        prepared = prepare(changes)
        shard, keys, name = self._place(changes.partition)
        waits = self._nodes.url.wait_replicas > 0
        arguments = _commit_arguments(prepared, name, waits, now)
        reply = await self._run(_COMMIT, shard, keys, *arguments, repeatable=changes.key is not None, waits=waits)
        if isinstance(reply, bytes):
            kind, field, message = _REFUSALS[reply]
            raise kind(message, field=field)
        return int(reply)

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        check_limit(limit)
        due = await self._look(now, limit)
        wanted = Counter(shard for _, shard in sorted(due)[:limit])
        until = now + int(lease_s * 1000)
        # A lost answer leaves its jobs leased until the lease ends, as a worker that died does.
        takes = (
            self._run(_TAKE, shard, self._queue(shard), now, until, count, repeatable=False)
            for shard, count in wanted.items()
        )
        answers = await asyncio.gather(*takes, return_exceptions=True)
        jobs = [_job(row, until) for rows in answers if not isinstance(rows, BaseException) for row in rows]
        for answer in answers:
            # Jobs from one server are worked on even though another one failed.
            if isinstance(answer, BaseException) and not jobs:
                raise answer
        return jobs

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        check_limit(limit)
        shard, keys, name = self._place(where.partition)
        if where.dead_before is not None:
            names = _listed(where.partition), _listed(veil_of(where.partition))
            count, left, next_at = await self._run(_PURGE, shard, keys, where.dead_before, min(limit, PAGE_MAX), *names)
            return Forgotten(count, done=left == 0, next_at=None if next_at is None else int(next_at))
        if not where.is_whole:
            return await forget_part(self, where, now, limit)
        epoch = "" if where.epoch is None else where.epoch
        # Forgetting twice would also forget what was written in between, unless the epoch is named.
        count, ended = await self._run(
            _FORGET,
            shard,
            keys,
            epoch,
            now,
            name,
            _listed(where.partition),
            _listed(veil_of(where.partition)),
            repeatable=where.epoch is not None,
        )
        return Forgotten(count, done=True, epoch=ended)

    async def compact(self) -> None:
        """Have the servers rewrite their files. Replicas do so in their own time."""
        await rewrite_files(self._nodes)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        check_ids(ids)
        shard, keys, _ = self._place(partition)
        rows = await self._run(_GET, shard, keys[:_READS], now, *ids)
        return await _decoded(partition, [_row(each) for each in rows])

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        check_limit(limit)
        walk = Walk(where, newest_first, min(limit, PAGE_MAX), after)
        read = self._block if where.ids is None else self._among
        while True:
            block, edge = await read(where, now, newest_first, walk)
            walk.takes(block)
            end = edge or (block[-1].born if block else None)
            if page := walk.page(end, more=edge is not None):
                return page

    async def _block(self, where: Filter, now: int, newest_first: bool, walk: Walk) -> _Block:
        """The living among the next rows that may match, and where those rows end if there may be more."""
        shard, keys, _ = self._place(where.partition)
        layers = [_quoted(layer) for layer in dict.fromkeys(where.layers)]
        sought: list[Value] = []
        for texts in (layers, *traces_of(where.test)):
            sought += (len(texts), *texts)
        rows, edge = await self._run(
            _LIST,
            shard,
            keys[:_READS],
            now,
            "*" if where.session is None else _quoted(where.session),
            "" if walk.low is None else _birth(walk.low),
            "" if walk.high is None else _birth(walk.high),
            int(newest_first),
            walk.count,
            *sought,
        )
        return await _decoded(where.partition, [_row(each) for each in rows]), _born(edge) if edge else None

    async def _among(self, where: Filter, now: int, newest_first: bool, walk: Walk) -> _Block:
        """All that is left of records named by id: they are read, not searched for."""
        ids = tuple(dict.fromkeys(where.ids or ()))
        named = [record for start in range(0, len(ids), IDS_MAX)
                 for record in await self.get(where.partition, ids[start : start + IDS_MAX], now)]  # fmt: skip
        left = replace(where, born_after=walk.low, born_before=walk.high)
        return sorted(filter(left.holds, named), key=lambda record: record.born, reverse=newest_first), None

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        check_limit(limit, CHANGES_MIN)
        limit = min(limit, PAGE_MAX)
        shard, keys, _ = self._place(partition)
        epoch, revision, floor_seen, marked = -1, 0, 0, None
        if mark is not None:
            marked, floor_seen = divmod(mark.floor_seen, TURN)
            epoch, revision = mark.epoch, mark.revision
        arguments = (self._generation, epoch, revision, floor_seen, limit)
        (*head, stale, written), turn = await self._nodes.ask(_CHANGES, shard, keys[:_READS], *arguments)
        if marked is not None and marked != turn:
            # Another server, or the same one restarted: it may have lost the last of what the mark has seen,
            # and have given the same revisions to something else since.
            return await self.changes(partition, None, limit)
        if stale:
            floor_seen = head[2]
        rows = [_row(each) for each in written]
        cut = whole_revisions([row.revision for row in rows], limit)
        more = cut < len(rows)
        end = rows[cut - 1].revision if more else head[1]
        put = tuple(await _decoded(partition, [row for row in rows[:cut] if row.body is not None]))
        await pause_after(put)
        dropped = tuple(row.id.decode() for row in rows[:cut] if row.body is None)
        return Delta(Mark(head[0], end, floor_seen + turn * TURN), put, dropped, bool(stale), more)

    async def close(self) -> None:
        await self._nodes.close()

    # ── for operators ────────────────────────────────────────────────────────────────────────────

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        start = b"-" if after is None else b"(" + _listed(after)
        found = await asyncio.gather(*(self._partitions_of(shard, start, limit) for shard in range(SHARDS)))
        return sorted(partition for some in found for partition in some)[:limit]

    async def survey(self, now: int) -> Survey:
        partitions, records, size = 0, Counter[str](), await memory_bytes(self._nodes)
        jobs, dues = Counter[str](), list[int]()
        for shard in range(SHARDS):
            waiting, running, scheduled, oldest = await self._run(_QUEUE, shard, self._queue(shard), now)
            jobs.update(waiting=waiting, running=running, scheduled=scheduled)
            dues += [int(oldest)] if oldest is not None else []
            async for some in self._walk(shard):
                partitions += sum(map(is_owned, some))
                records += await self._count(shard, some, now)
        oldest = min(dues, default=None)
        return Survey(partitions, dict(+records), jobs["waiting"], jobs["running"], oldest, size, jobs["scheduled"])

    async def check(self) -> Sequence[str]:
        """Inconsistencies, and how many records are not what was written; empty when all is well."""
        found: Counter[str] = Counter()
        for shard in range(SHARDS):
            async for some in self._walk(shard):  # raises if a server was emptied
                for partition in some:
                    _, keys, name = self._place(partition)
                    found.update(wrong.decode() for wrong in await self._run(_AUDIT, shard, keys, name))
                    found["records that differ from what was written"] += await self._damaged(partition)
        return [f"{wrong}: {count}" for wrong, count in (+found).items()]

    async def examine(self) -> Sequence[Finding]:
        """What an operator should know about the servers."""
        return await findings(self._nodes)

    def describe(self) -> dict[str, Any]:
        url, health = self._nodes.url, self._health
        masters = len(self._nodes.masters())
        wait = f"for {url.wait_replicas} replicas, up to {url.wait_ms} ms" if url.wait_replicas else "for no replica"
        return {
            "store": "redis",
            "url": str(url),
            "server": f"{health.name} {health.version}",
            "mode": f"Cluster of {masters} masters" if url.cluster else "one server",
            "durability": health.durability,
            "eviction": health.eviction,
            "waits": wait,
            "warnings": health.warnings(),
        }

    # ── where things are ─────────────────────────────────────────────────────────────────────────

    def _place(self, partition: Partition) -> tuple[int, tuple[str, ...], str]:
        return _place(self._prefix, partition)

    def _queue(self, shard: int) -> tuple[str, ...]:
        return _keys(self._prefix, shard, "made", "due", "jobs")

    async def _run(self, script: Script, shard: int, keys: Sequence[str], *arguments: Value, **how: bool) -> Reply:
        return await self._nodes.run(script, shard, keys, self._generation, *arguments, **how)

    async def _look(self, now: int, limit: int) -> Sequence[tuple[int, int]]:
        """(due time, shard) of jobs that can be claimed: one call, or one for each slot of a Cluster."""
        groups = [[shard] for shard in range(SHARDS)] if self._nodes.url.cluster else [list(range(SHARDS))]
        found = await asyncio.gather(
            *(
                self._run(_LOOK, group[0], [key for shard in group for key in self._queue(shard)[:2]], now, limit)
                for group in groups
            )
        )
        return [
            (int(time), shard)
            for group, answers in zip(groups, found, strict=True)
            for shard, times in zip(group, answers, strict=True)
            for time in times
        ]

    async def _partitions_of(self, shard: int, start: bytes, limit: int) -> Sequence[Partition]:
        members = await self._run(_PARTITIONS, shard, _keys(self._prefix, shard, "made", "partitions"), start, limit)
        return [Partition(*member.decode().split("\0", 1)) for member in members]

    async def _walk(self, shard: int) -> AsyncIterator[Sequence[Partition]]:
        """All partitions of a shard, a page at a time."""
        start = b"-"
        while some := await self._partitions_of(shard, start, SURVEY_PARTITIONS):
            yield some
            start = b"(" + _listed(some[-1])

    async def _count(self, shard: int, some: Sequence[Partition], now: int) -> Counter[str]:
        keys = [*_keys(self._prefix, shard, "made")]
        for partition in some:
            of = self._place(partition)[1]
            keys += [of[2], of[4], of[7]]
        flat = await self._run(_SURVEY, shard, keys, now)
        return Counter({unquote(layer.decode()): count for layer, count in zip(flat[::2], flat[1::2], strict=True)})

    async def _damaged(self, partition: Partition) -> int:
        """How many records do not have the digest they were written with."""
        shard, keys, _ = self._place(partition)
        damaged, cursor = 0, b"0"
        while True:
            cursor, flat = await self._nodes.command(shard, "HSCAN", keys[2], cursor, "COUNT", BLOCK_ROWS)
            metas = dict(zip(flat[::2], flat[1::2], strict=True))
            living = [id for id, meta in metas.items() if meta.split(b" ")[3] == b"p"]
            bodies = await self._nodes.command(shard, "HMGET", keys[3], *living) if living else []
            damaged += sum(
                body is not None and not _is_whole(partition, id, metas[id], body)
                for id, body in zip(living, bodies, strict=True)
            )
            if cursor == b"0":
                return damaged


# ── the generation: whether the server still holds what it was given ─────────────────────────────


async def _generation(nodes: Nodes, where: RedisUrl) -> str:
    """The name that this store was given when it was created, on every shard; creates it if there is none.

    Markers are written after the name and read before it, so a marker without a name is never a
    store still being created: it is one that has lost something.
    """
    markers = await _markers(nodes, where)
    (home,) = _keys(where.prefix, 0, "store")
    layout, shards, name, made = await nodes.command(0, "HMGET", home, "layout", "shards", "generation", "made")
    if layout is not None and int(layout) != LAYOUT:
        raise OtherVersion("the store has layout", int(layout), LAYOUT, "use the version that wrote it")
    if shards is not None and int(shards) != SHARDS:
        raise Unavailable("another version of Recollect wrote this store; it was not touched", field="store")
    if name is None and not markers and not where.create:
        raise Unavailable("this Redis is empty, and create=no does not allow a new store", field="store")
    if made is None and (name is not None or not markers):
        return await _make(nodes, where)
    generation = name and str(name.decode())
    # Read again: creation may still have been under way when the markers were read.
    if markers == {generation} or (made and await _markers(nodes, where) == {generation}):
        return str(generation)
    if not where.accept_emptied:
        raise Corrupt(
            "part of what this Redis held is gone: a server was emptied. Restore its data; to continue with what "
            "is left, open it once with emptied=accept",
            field="store",
        )
    await nodes.command(0, "DEL", home)
    return await _make(nodes, where, anew=True)


async def _make(nodes: Nodes, where: RedisUrl, *, anew: bool = False) -> str:
    """Name the store and mark every shard; of two concurrent creators one wins, and both continue with its name.

    `anew`: shards that carry another name get this one, and processes that opened the old one get an error.
    """
    (home,) = _keys(where.prefix, 0, "store")
    await nodes.command(0, "HSETNX", home, "generation", secrets.token_hex(8))
    name = str((await nodes.command(0, "HGET", home, "generation")).decode())
    await nodes.command(0, "HSET", home, "layout", LAYOUT, "shards", SHARDS)
    how = () if anew else ("NX",)
    marks = (nodes.command(n, "SET", *_keys(where.prefix, n, "made"), name, *how) for n in range(SHARDS))
    await asyncio.gather(*marks)
    await nodes.command(0, "HSET", home, "made", 1)
    return name


async def _markers(nodes: Nodes, where: RedisUrl) -> set[str | None]:
    """The names on the shards; None stands for a shard without one. Empty: no shard has any."""
    found = await asyncio.gather(
        *(nodes.command(n, "GET", *_keys(where.prefix, n, "made")) for n in range(SHARDS))
    )  # fmt: skip
    names = {None if marker is None else str(marker.decode()) for marker in found}
    return set() if names == {None} else names


# ── what the keys hold ───────────────────────────────────────────────────────────────────────────


def _keys(prefix: str, shard: int, *names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}:{{{shard}}}:{name}" for name in names)


@lru_cache(maxsize=8_192)
def _place(prefix: str, partition: Partition) -> tuple[int, tuple[str, ...], str]:
    """The shard of a partition, its keys in the order that scripts expect, and its name in keys.

    The name is percent-encoded: no id can escape its position in a key or move the key to another slot. A veil
    carries the checksum of its partition, and so is in the same shard.
    """
    name, veil = name_of(partition), name_of(veil_of(partition))
    shard = int(veil_of(partition).user.removeprefix(VEIL)[:8], 16) % SHARDS
    of = ("expiring", "dropped", "once", "kept", "own_jobs")
    keys = (
        *_keys(prefix, shard, "made"),
        *_keys(prefix, shard, *(f"{kind}:{name}" for kind in ("head", "metas", "records", "index", "log"))),
        *_keys(prefix, shard, f"head:{veil}"),
        *_keys(prefix, shard, *(f"{kind}:{name}" for kind in of)),
        *_keys(prefix, shard, "due", "jobs", "partitions", f"once:{veil}", f"kept:{veil}"),
    )
    return shard, keys, name


@lru_cache(maxsize=8_192)
def _quoted(text: str) -> str:
    return quote(text, safe="")


@lru_cache(maxsize=8_192)
def _unquoted(place: bytes) -> tuple[str, str]:
    layer, _, session = place.decode().partition(":")
    return unquote(layer), unquote(session)


def _listed(partition: Partition) -> bytes:
    """A partition as listed among the others, which are in the order of (org, user)."""
    return f"{partition.org}\0{partition.user}".encode()


def _birth(born: tuple[int, int]) -> str:
    """A birth as a string that sorts like it."""
    return f"{born[0]:013}{born[1]:02}"


def _born(birth: bytes) -> tuple[int, int]:
    return int(birth[:13]), int(birth[13:])


def _commit_arguments(prepared: Prepared, name: str, waits: bool, now: int) -> Sequence[Value]:
    changes = prepared.changes
    flat: list[Value] = [
        now,
        now - KEY_LIFE_MS,
        prepared.key_hash.hex() if prepared.key_hash else "",
        prepared.digest.hex(),
        "" if changes.epoch is None else changes.epoch,
        int(waits),
        name,
        _listed(changes.partition),
        _listed(veil_of(changes.partition)),
        len(changes.finish),
        len(changes.needs),
        len(changes.put),
        len(changes.drop),
        len(changes.enqueue),
    ]
    for job in changes.finish:
        flat += (job.id, job.attempt)
    flat += changes.needs
    for sealed in prepared.puts:
        record = sealed.record
        place = f"{_quoted(record.layer)}:{_quoted(record.scope.session)}"
        expires_at = "-" if record.expires_at is None else record.expires_at
        flat += (record.id, record.version, sealed.digest.hex(), place, expires_at, _body(sealed))
    flat += changes.drop
    for job in changes.enqueue:
        flat += (job.id, job.due_at, job.attempt, canonical_json([job.kind, job.refs]))
    return flat


def _body(sealed: Sealed) -> bytes:
    """The payload as is; with a vector, both, preceded by the lengths of the parts."""
    payload, vector = sealed.payload.encode(), sealed.record.vector
    if vector is None:
        return payload
    model = vector.model.encode()
    return b"v" + _SIZES.pack(len(model), len(payload)) + model + payload + vector.data


_SIZES = struct.Struct("<HI")


def _parts(body: bytes) -> tuple[str, Vector | None]:
    if not body.startswith(b"v"):
        return body.decode(), None
    model, payload = _SIZES.unpack_from(body, 1)
    start = 1 + _SIZES.size
    middle, end = start + model, start + model + payload
    return body[middle:end].decode(), Vector(body[start:middle].decode(), body[end:])


class _Row(NamedTuple):
    """What a script returns about a record. A dropped one has no body."""

    version: int
    revision: int
    birth: bytes
    place: bytes
    id: bytes
    body: bytes | None


def _row(written: bytes) -> _Row:
    version, revision, birth, _, _, _, place, has_body, size, rest = written.split(b" ", 9)
    end = int(size)
    return _Row(int(version), int(revision), birth, place, rest[:end], rest[end:] if has_body == b"b" else None)


def _stored(row: _Row) -> Stored:
    if row.body is None:
        raise LookupError("a record without its body")
    layer, session = _unquoted(row.place)
    payload, vector = _parts(row.body)
    return row.id.decode(), layer, session, payload, vector, row.version, _born(row.birth)


async def _decoded(partition: Partition, rows: Sequence[_Row]) -> list[Record]:
    return await decoded(rows, lambda row: len(row.body or b""), lambda some: _records(partition, some))


def _records(partition: Partition, rows: Iterable[_Row]) -> list[Record]:
    try:
        return records_from(partition, [_stored(row) for row in rows])
    except (ValueError, TypeError, LookupError, struct.error, AttributeError):
        raise Corrupt("a stored record cannot be read; run `recollect doctor`", field="store") from None


def _is_whole(partition: Partition, id: bytes, meta: bytes, body: bytes) -> bool:
    version, _, birth, _, _, digest, place = meta.split(b" ")
    try:
        (record,) = _records(partition, [_Row(int(version), 0, birth, place, id, body)])
        return digest_of(record, _parts(body)[0]) == bytes.fromhex(digest.decode())
    except RecollectError:
        return False


def _job(row: Sequence[Any], due_at: int) -> Job:
    kept, attempt, body = row
    name, _, id = kept.decode().partition(":")
    org, _, user = name.partition("/")
    kind, refs = json.loads(body)
    return Job(id, Partition(unquote(org), unquote(user)), kind, tuple(refs), due_at, attempt)
