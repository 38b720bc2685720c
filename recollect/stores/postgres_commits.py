"""Commits on their way to PostgreSQL: waiting ones are sent together, and each still gets its own answer.

Commits of one process share a transaction, whether of one partition or of many: one disk sync is then
enough for all. Those that only add, as most do, even share a statement: many rows at once cost the
server and the driver a fraction of what as many calls would.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.errors import Conflict, RecollectError, Unavailable
from recollect.records import Partition, canonical_json
from recollect.stores.contract import KEY_LIFE_MS, LeaseLost, Prepared, packed, veil_of
from recollect.stores.postgres_functions import ADD_TYPES, call, commit_types
from recollect.stores.postgres_link import Connection, Link
from recollect.stores.postgres_meaning import as_half

Answers = Sequence[tuple[str, int]]
"""For each commit, its outcome and the revision it reached."""

GROUP_MAX = 64
"""Commits that share a transaction: bounds how long the first of them waits."""
WRITERS_SHARE = 5
"""One connection in this many writes; commits that arrive meanwhile go together in its next transaction."""
TOGETHER_MAX_CHARS = 64 * 1024
"""A commit with more text than this is sent by itself, so that no statement is very large."""
_ADD = call("starts", "commit_additions", ADD_TYPES)
_REFUSED = {
    "key": "this idempotency key was used for another change",
    "epoch": "the partition was erased since it was read",
    "needs": "a record that this depends on is gone",
    "id": "the id is taken, or the record changed since it was read",
}


@dataclass(slots=True, eq=False)
class _Waiting:
    """A commit that was accepted, and the future that its caller waits on."""

    prepared: Prepared
    now: int
    answer: asyncio.Future[int]

    @property
    def partition(self) -> Partition:
        return self.prepared.changes.partition


_Placed = tuple[_Waiting, int, int]
"""A commit, the number of its partition in the group, and its turn among that partition's commits."""


class Commits:
    """The commits of one process. `write` returns the revision that a commit reached, once it is on disk."""

    def __init__(self, link: Link, *, with_vectors: bool) -> None:
        self._link = link
        self._with_vectors = with_vectors
        self._types = commit_types(with_vectors=with_vectors)
        self._commit = call("outcome, reached", "commit_changes", self._types)
        self._lines: dict[Partition, deque[_Waiting]] = {}
        self._held: set[Partition] = set()
        self._writers = 0
        self._writing = 0
        self._writers_max = max(1, link.address.pool_max // WRITERS_SHARE)

    async def write(self, prepared: Prepared, now: int) -> int:
        waiting = _Waiting(prepared, now, asyncio.get_running_loop().create_future())
        self._lines.setdefault(waiting.partition, deque()).append(waiting)
        if waiting.partition not in self._held and self._writers < self._writers_max:
            self._writers += 1
            self._link.spawn(self._serve())
        return await waiting.answer

    async def _serve(self) -> None:
        """Write waiting commits, as many as one transaction may take, until none are left."""
        try:
            while group := self._next_group():
                left: Sequence[_Waiting] = ()
                self._writing += 1
                try:
                    left = await self._write(group)
                finally:
                    self._writing -= 1
                    self._let_go({waiting.partition for waiting in group} - {waiting.partition for waiting in left})
                for partition in dict.fromkeys(waiting.partition for waiting in left):
                    own = [waiting for waiting in left if waiting.partition == partition]
                    self._link.spawn(self._write_alone(own))
        finally:
            self._writers -= 1

    def _next_group(self) -> list[_Waiting]:
        """Commits of partitions that nobody is writing right now: all of one partition's, then the next's.

        If another writer is free too, it is left its share: one group is prepared while the server writes another.
        """
        group: list[_Waiting] = []
        ready = [(partition, line) for partition, line in self._lines.items() if line and partition not in self._held]
        waiting = sum(len(line) for _, line in ready)
        share = -(-waiting // max(1, self._writers - self._writing))
        for partition, line in ready:
            if len(group) < min(share, GROUP_MAX):
                self._held.add(partition)
                group += [line.popleft() for _ in range(min(len(line), GROUP_MAX - len(group)))]
        return group

    def _let_go(self, partitions: set[Partition]) -> None:
        self._held -= partitions
        for partition in partitions:
            if not self._lines[partition]:
                del self._lines[partition]

    async def _write_alone(self, group: Sequence[_Waiting]) -> None:
        """Write the commits of one partition that another process holds, alongside everything else."""
        partition = group[0].partition
        try:
            await self._write_in_turn(group)
            while line := self._lines[partition]:
                await self._write_in_turn([line.popleft() for _ in range(min(len(line), GROUP_MAX))])
        finally:
            self._let_go({partition})

    async def _write(self, group: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """Write a group and answer its callers. Returns the commits whose partition another process holds."""
        additions = _additions(group)
        if len(additions) > 1:
            done = await self._write_together(additions)
            group = [waiting for waiting in group if waiting not in done]
        return await self._write_in_turn(group) if group else ()

    async def _write_together(self, group: Sequence[_Waiting]) -> set[_Waiting]:
        """Write additions in one statement and answer their callers. Returns those done; the rest wait their turn."""
        placed = _placed(group)
        values = self._link.arrays.written(ADD_TYPES, _columns(placed))

        async def send(db: Connection) -> list[int | None]:
            ((starts,),) = await (await db.execute(_ADD, values, binary=True)).fetchall()
            return list(starts)

        try:
            starts = await self._link.run_handed_over(send, again=True)
        except Unavailable as error:
            for waiting in group:
                _settle(waiting, error)
            return set(group)
        except RecollectError:
            return set()  # one of them broke the statement, and gets its error in its turn
        done = set()
        for waiting, owner, turn in placed:
            if (start := starts[owner - 1]) is not None:
                self._tell(waiting, "done", start + turn)
                done.add(waiting)
        return done

    async def _write_in_turn(self, group: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """Write commits one by one in one transaction. Returns those whose partition another process holds."""
        # In the same order everywhere, so that two writers of the same partitions never wait for each other.
        group = sorted(group, key=lambda waiting: waiting.partition)
        keyed = all(waiting.prepared.key_hash for waiting in group)
        try:
            done, answers = await self._link.run_handed_over(lambda db: self._send(db, group), again=keyed)
        except RecollectError as error:
            if len(group) == 1 or isinstance(error, Unavailable):
                for waiting in group:
                    _settle(waiting, error)
                return ()
            # One of them broke the transaction: each gets its own transaction, and its own answer.
            for waiting in group:
                await self._write_in_turn([waiting])
            return ()
        for waiting, (outcome, reached) in zip(done, answers, strict=True):
            self._tell(waiting, outcome, reached)
        return [waiting for waiting in group if waiting not in done] if len(done) < len(group) else ()

    async def _send(self, db: Connection, group: Sequence[_Waiting]) -> tuple[Sequence[_Waiting], Answers]:
        """Send a group in one transaction. Returns the commits that were sent, and their answers."""
        if len(group) == 1:
            cursor = await db.execute(self._commit, self._values(group[0]))
            return group, await cursor.fetchall()
        async with db.transaction():
            if group[0].partition != group[-1].partition:
                free = await self._take_locks(db, list(dict.fromkeys(waiting.partition for waiting in group)))
                group = [waiting for waiting in group if waiting.partition in free]
            async with db.pipeline():
                cursors = [await db.execute(self._commit, self._values(waiting)) for waiting in group]
        return group, [row for cursor in cursors for row in await cursor.fetchall()]

    async def _take_locks(self, db: Connection, partitions: Sequence[Partition]) -> set[Partition]:
        """Take the locks of these partitions without waiting. Returns the partitions that nobody else holds."""
        names = ([each.org for each in partitions], [each.user for each in partitions])
        cursor = await db.execute(
            b"""select org, usr from unnest(%b::text[], %b::text[]) as p (org, usr)
                where pg_try_advisory_xact_lock(hashtextextended(org || chr(31) || usr, 0))""",
            self._link.arrays.written(("text[]", "text[]"), names),
        )
        return {Partition(*row) for row in await cursor.fetchall()}

    def _values(self, waiting: _Waiting) -> list[Any]:
        """The arguments of `commit_changes`, in its order."""
        prepared = waiting.prepared
        changes, puts = prepared.changes, prepared.puts
        records = [sealed.record for sealed in puts]
        plain = [record.vector and record.vector.data for record in records]
        halves = [data and as_half(data) for data in plain] if self._with_vectors else [None] * len(plain)
        values = (
            *named(changes.partition),
            waiting.now,
            KEY_LIFE_MS,
            prepared.key_hash,
            prepared.digest,
            changes.epoch,
            changes.needs,
            [job.id for job in changes.finish],
            [job.attempt for job in changes.finish],
            [record.id for record in records],
            [record.version for record in records],
            [record.layer for record in records],
            [record.scope.session for record in records],
            [record.expires_at for record in records],
            [sealed.digest for sealed in puts],
            [sealed.payload for sealed in puts],
            [record.vector and record.vector.model for record in records],
            [None if half else data for data, half in zip(plain, halves, strict=True)],
            *([halves] if self._with_vectors else []),
            changes.drop,
            [job.id for job in changes.enqueue],
            [job.kind for job in changes.enqueue],
            [canonical_json(job.refs) for job in changes.enqueue],
            [job.due_at for job in changes.enqueue],
            [job.attempt for job in changes.enqueue],
        )
        return self._link.arrays.written(self._types, values)

    def _tell(self, waiting: _Waiting, outcome: str, reached: int) -> None:
        _settle(waiting, reached if outcome == "done" else _refusal(outcome))
        if any(job.due_at <= waiting.now for job in waiting.prepared.changes.enqueue):
            self._link.announce_work()


def named(partition: Partition) -> tuple[str, str, str]:
    """The org, the user, and the user's name once erased."""
    return (*partition, veil_of(partition).user)


def _additions(group: Sequence[_Waiting]) -> list[_Waiting]:
    """The commits that only add: of each partition, those ahead of the first that does more or repeats an id or key."""
    found: list[_Waiting] = []
    seen: set[tuple[Partition, str | bytes]] = set()
    behind: set[Partition] = set()
    for waiting in group:
        partition, prepared = waiting.partition, waiting.prepared
        names = {(partition, name) for name in (prepared.key_hash, *(put.record.id for put in prepared.puts)) if name}
        if partition not in behind and _only_adds(prepared) and seen.isdisjoint(names):
            found.append(waiting)
            seen |= names
        else:
            behind.add(partition)
    return found


def _only_adds(prepared: Prepared) -> bool:
    changes = prepared.changes
    does_more = changes.drop or changes.finish or changes.needs or changes.epoch is not None
    return (
        not does_more
        and bool(prepared.puts and prepared.key_hash)
        and all(record.version == 0 and record.vector is None for record in changes.put)
        and sum(len(put.payload) for put in prepared.puts) <= TOGETHER_MAX_CHARS
    )


def _placed(group: Sequence[_Waiting]) -> list[_Placed]:
    """Each commit with the number of its partition in the group, and its turn in that partition."""
    turns: dict[Partition, int] = {}
    numbers: dict[Partition, int] = {}
    placed = []
    for waiting in group:
        partition = waiting.partition
        owner = numbers.setdefault(partition, len(numbers) + 1)
        turn = turns[partition] = turns.get(partition, 0) + 1
        placed.append((waiting, owner, turn))
    return placed


def _columns(placed: Sequence[_Placed]) -> Sequence[Any]:
    """The arguments of `commit_additions`, in its order: partitions, commits, what they put, and their jobs."""
    counts = Counter(waiting.partition for waiting, _, _ in placed)
    several = "".join([f"\x1e{org}\x1f{user}\x1e" for org, user in counts])
    partitions = [(org, user, count) for (org, user), count in counts.items()]
    keys = [
        (owner, turn, waiting.now, waiting.prepared.key_hash, waiting.prepared.digest)
        for waiting, owner, turn in placed
    ]
    puts = [
        (owner, packed((turn, place)), record.id, record.layer, record.scope.session, record.expires_at,
         put.digest, put.payload)
        for waiting, owner, turn in placed
        for place, put in enumerate(waiting.prepared.puts)
        for record in (put.record,)
    ]  # fmt: skip
    jobs = [
        (owner, job.id, job.kind, canonical_json(job.refs), job.due_at, job.attempt)
        for waiting, owner, _ in placed
        for job in waiting.prepared.changes.enqueue
    ]
    return [several, *_turned(partitions), *_turned(keys), *_turned(puts), *(_turned(jobs) if jobs else ((),) * 6)]


def _turned(rows: Sequence[Sequence[Any]]) -> Iterable[Sequence[Any]]:
    """Rows as columns."""
    return zip(*rows, strict=True)


def _settle(waiting: _Waiting, answer: int | RecollectError) -> None:
    if waiting.answer.done():
        return  # its caller was cancelled
    if isinstance(answer, RecollectError):
        waiting.answer.set_exception(answer)
    else:
        waiting.answer.set_result(answer)


def _refusal(outcome: str) -> Conflict:
    return LeaseLost(field="finish") if outcome == "finish" else Conflict(_REFUSED[outcome], field=outcome)
