"""Memories in Azure Cosmos DB (API for NoSQL): one container, one transactional batch for each commit.

Each of our partitions is one of the service's logical partitions. A commit reads the partition's head, then what
it touches, decides, and sends all writes together with a replacement of the head that succeeds only if nobody
replaced it meanwhile; otherwise it starts over. `cosmos_documents.py` describes what is in the container,
`cosmos_link.py` how it is reached. No document has a native time to live: expiry is part of the data.
"""

from __future__ import annotations

import asyncio
import heapq
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from recollect.errors import Busy
from recollect.filters import Filter
from recollect.records import Born, Changes, Job, Partition, Record
from recollect.stores.contract import (
    CHANGES_MIN,
    DURABLE,
    FORGET_ROWS,
    SHARED,
    WARN,
    Delta,
    Finding,
    Forgotten,
    Mark,
    Page,
    Prepared,
    Survey,
    Walk,
    WithoutSearch,
    check_ids,
    check_limit,
    clock_finding,
    decide,
    forget_part,
    is_owned,
    is_veil,
    packed,
    prepare,
    reads_from,
    veil_of,
    whole_revisions,
)
from recollect.stores.cosmos_documents import (
    META_FIELDS,
    Held,
    end_of,
    held_from,
    is_whole,
    job_of,
    key_name,
    known_from,
    listed,
    lives,
    partition_name,
    plain,
    record_name,
    records_of,
    size_of,
    taken,
    touched_names,
    veil_head,
    write_head,
    writes_of,
)
from recollect.stores.cosmos_link import BATCH_MAX, CosmosLink, Document, Operation
from recollect.stores.cosmos_url import read_url
from recollect.stores.pausing import decoded, pause_after

READS_MAX = 5
"""How often a read that overlaps a commit tries to get a consistent snapshot."""
WALKS_MAX = 4
"""The most layers that a list walks separately."""
_ALIVE = "(NOT IS_DEFINED(c.dead_at) OR c.dead_at > @now)"
_METAS = ", ".join(f"c.{name}" for name in META_FIELDS)


async def open_url(url: str, *, busy_timeout_s: float = 10.0) -> CosmosStore:
    """Open `cosmos://ACCOUNT.documents.azure.com:443/DATABASE/CONTAINER?key=...`; creates the container if missing.

    `busy_timeout_s` is how long a call waits for request units, and a commit for other writers.
    """
    link = CosmosLink(read_url(url, os.environ), busy_timeout_s)
    try:
        await link.start()
    except BaseException:
        await link.close()
        raise
    return CosmosStore(link)


class CosmosStore(WithoutSearch):
    """All promises of the contract on Cosmos DB. Open it with `open_store("cosmos://...")`."""

    abilities = frozenset({SHARED, DURABLE})

    def __init__(self, link: CosmosLink) -> None:
        self._link = link
        # Writers in one process queue for a partition here, so they never overtake one another at the service.
        self._turns: WeakValueDictionary[Partition, asyncio.Lock] = WeakValueDictionary()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def commit(self, changes: Changes, now: int) -> int:
        prepared = prepare(changes)
        with self._link.use():
            async with self._turn(changes.partition):
                return await self._commit(prepared, now)

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        check_limit(limit)
        jobs: list[Job] = []
        met: set[str] = set()
        with self._link.use():
            while len(jobs) < limit:
                due = await self._link.ask(
                    f"SELECT TOP {limit - len(jobs)} * FROM c WHERE c.due_at <= @now ORDER BY c.due_at", now=now
                )
                # A document seen before is a stale answer from before it was taken: if there are no others, stop.
                new = [document for document in due if document["_etag"] not in met]
                if not new:
                    break
                met |= {document["_etag"] for document in new}
                jobs += await self._take(new, now + int(lease_s * 1000))
        return jobs

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        check_limit(limit)
        with self._link.use():
            if where.dead_before is not None:
                async with self._turn(where.partition):
                    return await self._purge(where.partition, where.dead_before, limit)
            if not where.is_whole:
                return await forget_part(self, where, now, limit)
            async with self._turn(where.partition):
                epoch, count = await self._end_epoch(where, now)
                swept = await self._sweep(partition_name(where.partition), limit)
                if swept < limit:
                    await self._draw_veil(where.partition)
                return Forgotten(count, done=swept < limit, epoch=epoch)

    async def compact(self) -> None:
        """Nothing to do: the service frees space by itself. Its backups keep what was forgotten until they expire."""

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        check_ids(ids)
        with self._link.use():
            epoch, found = await self._documents(partition_name(partition), ids)
            living = {id: document for id, document in found.items() if lives(document, epoch, now)}
            return await _decoded(partition, [living[id] for id in ids if id in living])

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        check_limit(limit)
        walk = Walk(where, newest_first, limit, after)
        with self._link.use():
            forgot = (await self._head(partition_name(where.partition))).head.forgot
            while True:
                count = walk.count
                block = await self._block(where, now, forgot, walk.low, walk.high, newest_first, count + 1)
                walk.takes(block[:count])
                end = block[:count][-1].born if block else None
                if page := walk.page(end, more=len(block) > count):
                    return page

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        check_limit(limit, CHANGES_MIN)
        with self._link.use():
            for _ in range(READS_MAX):
                head = (await self._held(partition)).head
                reset, revision, floor_seen = reads_from(head, mark)
                if mark is not None and not reset and mark.revision == head.revision:
                    return Delta(mark)
                rows = await self._changed(partition, max(revision, head.forgot), head.epoch, limit + 1)
                if not rows or rows[-1]["revision"] <= head.revision:
                    break
            cut = whole_revisions([row["revision"] for row in rows], limit)
            more = cut < len(rows)
            # The mark is never ahead of the head that was read first, whatever was written since.
            end = min(rows[cut - 1]["revision"], head.revision) if more else head.revision
            told = {row["record"]: row for row in rows[:cut]}
            put = tuple(await _decoded(partition, [row for row in told.values() if "dropped" not in row]))
            await pause_after(put)
            dropped = tuple(id for id, row in told.items() if "dropped" in row)
            return Delta(Mark(head.epoch, end, floor_seen), put, dropped, reset, more)

    async def close(self) -> None:
        await self._link.close()

    # ── for operators ────────────────────────────────────────────────────────────────────────────

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        sql = f"SELECT TOP {limit} c.org, c.user FROM c WHERE c.listed > @after ORDER BY c.listed"
        with self._link.use():
            rows = await self._link.ask(sql, after="" if after is None else listed(after))
            return [Partition(row["org"], row["user"]) for row in rows]

    async def survey(self, now: int) -> Survey:
        """Counts over the whole store. It reads a little of every document, and costs accordingly."""
        with self._link.use():
            sql = "SELECT c.partition, c.org, c.user, c.head.epoch FROM c WHERE IS_DEFINED(c.listed)"
            heads = await self._link.ask(sql)
            owned = sum(is_owned(Partition(row["org"], row["user"])) for row in heads)
            epochs = {row["partition"]: row["epoch"] for row in heads}
            records: Counter[str] = Counter()
            sql = f"SELECT c.partition, c.epoch, c.layer FROM c WHERE IS_DEFINED(c.layer) AND {_ALIVE}"
            async for page in self._link.pages(sql, now=now):
                records.update(row["layer"] for row in page if row["epoch"] == epochs.get(row["partition"]))
            sql = "SELECT c.partition, c.epoch, c.due_at, c.attempt FROM c WHERE IS_DEFINED(c.due_at)"
            jobs = [row for row in await self._link.ask(sql) if row["epoch"] == epochs.get(row["partition"])]
            running = sum(job["attempt"] > 0 and job["due_at"] > now for job in jobs)
            scheduled = sum(job["attempt"] == 0 and job["due_at"] > now for job in jobs)
            oldest = min((job["due_at"] for job in jobs), default=None)
            waiting = len(jobs) - running - scheduled
            return Survey(owned, dict(records), waiting, running, oldest, jobs_scheduled=scheduled)

    async def check(self) -> Sequence[str]:
        """Inconsistencies, and how many records are not what was written; empty when all is well."""
        wrong: Counter[str] = Counter()
        with self._link.use():
            rows = await self._link.ask("SELECT c.partition, c.org, c.user FROM c WHERE IS_DEFINED(c.listed)")
            partitions = {row["partition"]: Partition(row["org"], row["user"]) for row in rows}
            async for page in self._link.pages("SELECT * FROM c WHERE IS_DEFINED(c.layer)"):
                # The heads are read after the page: a commit meanwhile can only move them further ahead.
                names = {row["partition"] for row in page}
                revisions = {name: (await self._head(name)).head.revision for name in names}
                for row in page:
                    partition = partitions.get(row["partition"])
                    if row["revision"] > revisions[row["partition"]]:
                        wrong["records ahead of their partition's revision"] += 1
                    elif partition is not None and not is_whole(partition, row):
                        wrong["records that differ from what was written"] += 1
        return [f"{what}: {count}" for what, count in wrong.items()]

    async def examine(self) -> Sequence[Finding]:
        """What an operator should know about the account."""
        told = self.describe()
        emulator = self._link.url.emulator
        kept = Finding("durability", told["durability"], "use an account to keep memories", WARN) if emulator else (
            Finding("durability", told["durability"]))  # fmt: skip
        return [kept, Finding("consistency", f"{told['consistency']}, as required"), clock_finding([])]

    def describe(self) -> dict[str, Any]:
        url = self._link.url
        kept = (
            "in the emulator's memory: lost when it stops"
            if url.emulator
            else "on the service's replicas when a call returns"
        )
        return {"store": "cosmos", "url": str(url), "durability": kept, "consistency": self._link.consistency}

    # ── parts of the verbs ───────────────────────────────────────────────────────────────────────

    def _turn(self, partition: Partition) -> asyncio.Lock:
        return self._turns.setdefault(partition, asyncio.Lock())

    async def _commit(self, prepared: Prepared, now: int) -> int:
        partition = prepared.changes.partition
        name = partition_name(partition)
        for pause in self._link.pauses():
            held = await self._held(partition)
            documents = await self._metas(name, touched_names(prepared)) if held.etag and not held.veiled else {}
            documents |= await self._veiled_key(prepared, held)
            plan = decide(prepared, known_from(held.head, prepared, documents, now), now)
            if plan.replayed:
                return plan.revision
            # An erased partition gets its plain name back with something new, and not before.
            stays = held.veiled and not plan.changes_records and not prepared.changes.enqueue
            home = veil_of(partition) if stays else partition
            writes = writes_of(prepared, plan, held, documents, now, home)
            if held.etag and not writes:
                # Without a write, nothing else tells whether what was read is as old as the head.
                if any(row.get("revision", 0) > held.head.revision for row in documents.values()):
                    continue
                return plan.revision
            head = write_head(home, held, held.head._replace(revision=plan.revision))
            if await self._link.send(partition_name(home), [head, *writes]):
                if held.veiled and not stays:
                    await self._lift_veil(partition, held)
                return plan.revision
            await asyncio.sleep(pause)
        raise _overtaken()

    async def _head(self, name: str) -> Held:
        return held_from(await self._link.read(name, "head"))

    async def _held(self, partition: Partition) -> Held:
        """The head of a partition; that of an erased one is under its veil."""
        held = await self._head(partition_name(partition))
        if held.etag or is_veil(partition):
            return held
        veiled = await self._head(partition_name(veil_of(partition)))
        return replace(veiled, veiled=True) if veiled.etag else held

    async def _veiled_key(self, prepared: Prepared, held: Held) -> dict[str, Document]:
        """The key of a commit, if it was remembered before the partition was erased."""
        if prepared.key_hash is None or not (held.veiled or held.had_veil):
            return {}
        name = partition_name(veil_of(prepared.changes.partition))
        found = await self._link.read(name, key_name(prepared.key_hash))
        return {found["id"]: found} if found else {}

    async def _draw_veil(self, partition: Partition) -> None:
        """Move what is left of an erased partition under its veil, unless it has been written to again.

        No transaction spans two logical partitions, so the plain head goes after everything else that matters: until
        then it is the valid one. Keys left behind by a crash are removed by the next call.
        """
        if is_veil(partition):
            return
        name, veil = partition_name(partition), partition_name(veil_of(partition))
        held = await self._head(name)
        erased = 0 < held.head.forgot == held.head.revision
        if held.etag and (not erased or await self._has_rows(name)):
            return
        keys = await self._link.ask("SELECT * FROM c WHERE c.partition = @partition AND IS_DEFINED(c.at)", name)
        if held.etag:
            for start in range(0, len(keys), BATCH_MAX):
                some = keys[start : start + BATCH_MAX]
                await self._link.send(veil, [Operation("upsert", plain(key) | {"partition": veil}) for key in some])
            await self._link.send(veil, [veil_head(partition, held.head)])
            if not await self._link.send(name, [Operation("delete", {"id": "head"}, held.etag)]):
                return
        await self._link.remove(name, keys)

    async def _has_rows(self, name: str) -> bool:
        """Whether a partition holds a record or a job."""
        found = await self._link.ask(
            "SELECT TOP 1 VALUE c.id FROM c WHERE c.partition = @partition AND IS_DEFINED(c.epoch)", name
        )
        return bool(found)

    async def _lift_veil(self, partition: Partition, held: Held) -> None:
        """Delete the head under the veil: the erased partition is back, with a head of its own."""
        await self._link.send(
            partition_name(veil_of(partition)), [Operation("delete", {"id": "head"}, held.etag)]
        )  # fmt: skip

    async def _metas(self, name: str, ids: Sequence[str]) -> dict[str, Document]:
        return {row["id"]: row for row in await self._ask_by_id(_METAS, name, ids)}

    async def _documents(self, name: str, ids: Sequence[str]) -> tuple[int, dict[str, Document]]:
        """The epoch, and records and tombstones by id, all as of one moment."""
        wanted = [record_name(id) for id in dict.fromkeys(ids)]
        for _ in range(READS_MAX):
            head = (await self._head(name)).head
            if len(wanted) == 1:
                found = await self._link.read(name, wanted[0])
                rows: Sequence[Document] = [found] if found else []
            else:
                rows = await self._ask_by_id("*", name, wanted)
            if all(row["revision"] <= head.revision for row in rows):
                break
        return head.epoch, {row["record"]: row for row in rows}

    async def _ask_by_id(self, what: str, name: str, ids: Sequence[str]) -> Sequence[Document]:
        values = {f"id{number}": id for number, id in enumerate(ids)}
        if not values:
            return []
        places = ", ".join(f"@{value}" for value in values)
        sql = f"SELECT {what} FROM c WHERE c.partition = @partition AND c.id IN ({places})"
        return await self._link.ask(sql, name, **values)

    async def _block(
        self, where: Filter, now: int, forgot: int, low: Born | None, high: Born | None,
        newest_first: bool, count: int,
    ) -> Sequence[Record]:  # fmt: skip
        """The next living records: one ordered walk per layer, merged. The cost is that of the page, not the partition.

        A filter that names many layers covers most of the partition: all of them then share one walk, since each of
        many walks would fetch a page of which little is used.
        """
        # Anything born up to the last whole forget is forgotten, whether or not it has been removed yet.
        tests = ["c.partition = @partition", "c.born > @low", _ALIVE]
        values: dict[str, object] = {"low": max(end_of(forgot), packed(low) if low else 0), "now": now}
        if high is not None:
            tests.append("c.born < @high")
            values["high"] = packed(high)
        order = ["c.partition"]
        layers = list(dict.fromkeys(where.layers))
        choices: list[dict[str, object]] = [{"layer": layer} for layer in layers] or [{}]
        if len(layers) > WALKS_MAX:
            choices = [{f"layer{number}": layer for number, layer in enumerate(layers)}]
            tests.append(f"c.layer IN ({', '.join(f'@{name}' for name in choices[0])})")
        elif layers:
            tests.append("c.layer = @layer")
            order.append("c.layer")
        if where.session is not None:
            tests.append("c.session = @session")
            values["session"] = where.session
            order.append("c.session")
        way = " DESC" if newest_first else " ASC"
        ordered = ", ".join(f"{each}{way}" for each in (*order, "c.born"))
        sql = f"SELECT TOP {count} * FROM c WHERE {' AND '.join(tests)} ORDER BY {ordered}"
        name = partition_name(where.partition)
        walks = await asyncio.gather(*(self._link.ask(sql, name, **values, **choice) for choice in choices))
        rows = heapq.merge(*walks, key=lambda row: int(row["born"]), reverse=newest_first)
        return await _decoded(where.partition, list(islice(rows, count)))

    async def _changed(self, partition: Partition, revision: int, epoch: int, count: int) -> Sequence[Document]:
        return await self._link.ask(
            f"SELECT TOP {count} * FROM c WHERE c.partition = @partition AND c.revision > @revision"
            " AND c.epoch = @epoch ORDER BY c.partition ASC, c.revision ASC",
            partition_name(partition),
            revision=revision,
            epoch=epoch,
        )

    async def _take(self, due: Sequence[Document], until: int) -> Sequence[Job]:
        """Take these jobs; returns those that nobody else took meanwhile."""
        names = list(dict.fromkeys(document["partition"] for document in due))
        heads = await asyncio.gather(*(self._head(name) for name in names))
        epochs = {name: held.head.epoch for name, held in zip(names, heads, strict=True)}
        # A job of an epoch that has ended was forgotten; nobody may see it, and nothing else removes it in time.
        for document in due:
            if document["epoch"] != epochs[document["partition"]]:
                await self._link.remove(document["partition"], [document])
        valid = [document for document in due if document["epoch"] == epochs[document["partition"]]]
        wanted = [taken(document, until) for document in valid]
        tries = (self._link.replace(new, old["_etag"]) for new, old in zip(wanted, valid, strict=True))
        won = await asyncio.gather(*tries)
        return [job_of(document) for document, mine in zip(wanted, won, strict=True) if mine]

    async def _end_epoch(self, where: Filter, now: int) -> tuple[int, int]:
        """Raise the epoch, unless the one named has ended; returns that epoch and how many records lived in it."""
        for pause in self._link.pauses():
            held = await self._held(where.partition)
            home = veil_of(where.partition) if held.veiled else where.partition
            name, head = partition_name(home), held.head
            if where.epoch is not None and where.epoch != head.epoch:
                return where.epoch, 0
            counts = await self._link.ask(
                "SELECT VALUE COUNT(1) FROM c WHERE c.partition = @partition AND IS_DEFINED(c.layer)"
                f" AND c.epoch = @epoch AND {_ALIVE}",
                name,
                epoch=head.epoch,
                now=now,
            )
            revision = head.revision + 1
            raised = head._replace(epoch=head.epoch + 1, revision=revision, forgot=revision)
            if await self._link.send(name, [write_head(home, held, raised)]):
                return head.epoch, sum(counts)
            await asyncio.sleep(pause)
        raise _overtaken()

    async def _sweep(self, name: str, limit: int) -> int:
        """Remove up to `limit` records and jobs of ended epochs; returns how many."""
        sql = f"SELECT TOP {limit} c.id, c._etag FROM c WHERE c.partition = @partition AND c.epoch < @epoch"
        held = await self._head(name)
        if not held.etag:
            return 0  # it is under its veil, so it was already swept
        swept = await self._link.ask(sql, name, epoch=held.head.epoch)
        await self._link.remove(name, swept)
        return len(swept)

    async def _purge(self, partition: Partition, before: int, limit: int) -> Forgotten:
        name = partition_name(partition)
        swept = await self._sweep(name, limit)
        room = max(limit - swept, 1)
        count = 0
        while count < room and (dead := await self._remove_dead(partition, before, min(room - count, BATCH_MAX - 1))):
            count += dead
        held = await self._held(partition)
        names = [name, partition_name(veil_of(partition))] if held.veiled or held.had_veil else [name]
        keys = max([await self._purge_keys(each, before, limit) for each in names])
        if swept < limit:
            await self._draw_veil(partition)
        deaths = [at for each in names if (at := await self._next_death(each)) is not None]
        done = swept < limit and count < room and keys < limit
        return Forgotten(swept + count, done, min(deaths, default=None))

    async def _purge_keys(self, name: str, before: int, limit: int) -> int:
        sql = f"SELECT TOP {limit} c.id, c._etag FROM c WHERE c.partition = @partition AND c.at < @before"
        keys = await self._link.ask(sql, name, before=before)
        await self._link.remove(name, keys)
        return len(keys)

    async def _remove_dead(self, partition: Partition, before: int, count: int) -> int:
        """Remove up to `count` of the dead for good, and raise the floor in the same batch."""
        name = partition_name(partition)
        for pause in self._link.pauses():
            held = await self._head(name)
            if not held.etag:
                return 0
            rows = await self._link.ask(
                f"SELECT TOP {count} c.id, c.revision FROM c WHERE c.partition = @partition AND c.dead_at < @before"
                " AND c.epoch = @epoch ORDER BY c.partition ASC, c.dead_at ASC",
                name,
                before=before,
                epoch=held.head.epoch,
            )
            if not rows:
                return 0
            floor = max(held.head.floor, *(row["revision"] for row in rows))
            head = write_head(partition, held, held.head._replace(floor=floor))
            if await self._link.send(name, [head, *(Operation("delete", row) for row in rows)]):
                return len(rows)
            await asyncio.sleep(pause)
        raise _overtaken()

    async def _next_death(self, name: str) -> int | None:
        """When the next record or key of the partition can be removed."""
        found: list[int] = []
        for field in ("dead_at", "at"):
            found += await self._link.ask(
                f"SELECT TOP 1 VALUE c.{field} FROM c WHERE c.partition = @partition AND IS_DEFINED(c.{field})"
                f" ORDER BY c.partition ASC, c.{field} ASC",
                name,
            )
        return min(found, default=None)


async def _decoded(partition: Partition, rows: Sequence[Document]) -> list[Record]:
    return await decoded(rows, size_of, lambda some: records_of(partition, some))


def _overtaken() -> Busy:
    return Busy("other processes keep changing this partition; try again with the same key", field="store")
