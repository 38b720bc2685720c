"""LangGraph: a `Store` whose items are long-term memories.

    store = Store(memory, user="ann")                      # all namespaces are Ann's
    store = Store(memory, user_segment=1)                  # ("memories", "ann") is Ann's, ("memories", "bob") is Bob's
    graph = builder.compile(store=store)

An item is one record: its text can be searched by words and by meaning, and its value, namespace and key
are in the metadata. So what an agent puts is found by `search_memory`, goes into contexts, and is
exported and erased with its user.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from heapq import nlargest
from typing import Any, Literal

from recollect.adapters import extra
from recollect.adapters.bridge import Bridge, MemoryHandle, checked
from recollect.adapters.langgraph_shape import (
    KEY,
    LIFE,
    PATH,
    UPDATED,
    VALUE,
    Namespace,
    item_draft,
    item_id,
    path_of,
    readable,
)
from recollect.adapters.verbatim import check_memories, in_pieces, pieces
from recollect.errors import Conflict, NotFound, ValidationError
from recollect.memory import Memory
from recollect.pace import Pace
from recollect.paging import every
from recollect.records import MINUTE_MS, Clock, Record, as_datetime, system_clock
from recollect.user import User

with extra("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        tokenize_path,
    )

PAGE, FOUND_MAX, ADDED, EDITED = 1_000, 1_000, 90, 45
"""Records per page, hits per search, and additions and edits per commit, as the front door allows."""
TRIES = 5
"""How often a write is tried when others write the same items."""
WRITTEN = 2
"""What it costs to prepare and check an item, in units of work."""
KNOWN_MAX = 10_000
"""Items that are remembered to exist."""
READ_JSON = json.JSONDecoder().decode
REFRESH_SHARE = 0.05
"""Reading an item restarts its life once this share of it has passed; each restart is a write."""


class Store(BaseStore):
    """Items by namespace and key, kept in a memory; search by meaning needs no further setup.

    All belong to one user, or to the user that a segment of the namespace names (`user_segment`, from
    zero; namespaces too short to have it belong to `user`). `fields` are the paths that are searched.
    An item with a life is gone when that ends; `sweep_ttl` removes for good what died more than a day ago.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: MemoryHandle,
        *,
        user: str = "langgraph",
        org: str = "default",
        user_segment: int | None = None,
        fields: Sequence[str] = ("$",),
        ttl: TTLConfig | None = None,
        clock: Clock = system_clock,
    ) -> None:
        super().__init__()
        self.ttl_config = ttl
        self._memory = checked(memory, "memory")
        self._user, self._org, self._user_segment = user, org, user_segment
        self._fields = tuple(fields)
        self._clock = clock
        self._known: set[str] = set()
        self._bridge = Bridge()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: reads see the state before the writes, and of several writes to one item the last wins."""
        listed = list(ops)
        return self._bridge.run(self._memory, lambda memory: self._run(memory, listed))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        listed = list(ops)
        return await self._bridge.wait(self._memory, lambda memory: self._run(memory, listed))

    def sweep_ttl(self) -> int:
        """Remove for good what died more than a day ago, as a worker does daily. Returns the number of records."""
        return self._bridge.run(self._memory, self._sweep)

    async def asweep_ttl(self) -> int:
        """The same, with `await`."""
        return await self._bridge.wait(self._memory, self._sweep)

    # ── whose an item is ─────────────────────────────────────────────────────────────────────────

    def _user_of(self, memory: Memory, namespace: Namespace) -> User:
        place = self._user_segment
        named = place is not None and len(namespace) > place
        return memory.user(namespace[place] if named and place is not None else self._user, org=self._org)

    async def _users_under(self, memory: Memory, prefix: Namespace) -> list[User]:
        """All users who may have items under a prefix."""
        if self._user_segment is None or len(prefix) > self._user_segment:
            return [self._user_of(memory, prefix)]
        partitions = [each for each in await memory.users() if each.org == self._org and each.user]
        return [memory.user(each.user, org=self._org) for each in partitions]

    # ── operations ───────────────────────────────────────────────────────────────────────────────

    async def _run(self, memory: Memory, ops: Sequence[Op]) -> list[Result]:
        if len(ops) == 1 and isinstance(ops[0], GetOp):  # the most frequent case by far
            return [await self._get(memory, ops[0])]
        pace = Pace()
        results: list[Result] = []
        for op in ops:
            results.append(await self._read(memory, op))
            await pace.done()
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        if not puts:
            return results
        by_user: dict[str, dict[str, dict[str, Any] | None]] = defaultdict(dict)
        users: dict[str, User] = {}
        for op in puts.values():
            user = self._user_of(memory, op.namespace)
            users[user.id] = user
            by_user[user.id][item_id(op.namespace, op.key)] = draft = self._draft(op)
            if len(puts) > 1 and draft is not None:
                check_memories((draft,))
            await pace.done(WRITTEN)
        for id, drafts in by_user.items():
            await self._write(users[id], drafts)
        return results

    async def _read(self, memory: Memory, op: Op) -> Result:
        if isinstance(op, GetOp):
            return await self._get(memory, op)
        if isinstance(op, SearchOp):
            return await self._search(memory, op)
        if isinstance(op, ListNamespacesOp):
            return await self._namespaces(memory, op)
        if isinstance(op, PutOp):
            return None
        raise ValidationError("not an operation of a store", field="ops")

    async def _get(self, memory: Memory, op: GetOp) -> Item | None:
        user = self._user_of(memory, op.namespace)
        found = await user.get_memories([item_id(op.namespace, op.key)])
        if not found or PATH not in found[0].metadata:
            return None
        record = found[0]
        if op.refresh_ttl and LIFE in record.metadata:
            await self._refresh(user, found)
        made, changed = _times(record)
        return Item(
            value=_value(record), key=op.key, namespace=tuple(op.namespace), created_at=made, updated_at=changed
        )

    async def _search(self, memory: Memory, op: SearchOp) -> list[SearchItem]:
        chosen: list[tuple[float | None, User, Record]] = []
        end = op.offset + op.limit
        users = await self._users_under(memory, op.namespace_prefix)
        if op.query and op.query.strip():
            for user in users:
                chosen += [(score, user, record) for score, record in await self._by_meaning(user, op)]
            chosen.sort(key=lambda each: -(each[0] or 0.0))
        if len(chosen) < end:
            known = {record.id for _, _, record in chosen}
            chosen += [(None, user, record) for user, record in await self._latest(users, op, known)]
        chosen = chosen[op.offset : end]
        if op.refresh_ttl:
            for user in users:
                await self._refresh(user, [record for _, owner, record in chosen if owner is user])
        return [SearchItem(**_fields_of(record), score=score) for score, _, record in chosen]

    async def _by_meaning(self, user: User, op: SearchOp) -> list[tuple[float, Record]]:
        wanted = FOUND_MAX if op.filter else max(1, min(op.offset + op.limit, FOUND_MAX))
        where = _under(op.namespace_prefix)
        hits = await user.search_memory(op.query or "", layer="long_term", where=where, limit=wanted)
        items = [hit.record for hit in hits if PATH in hit.record.metadata]
        scores = {hit.id: hit.score for hit in hits}
        return [(scores[item.id], item) for item in items if _holds(op.filter, _value(item))]

    async def _latest(self, users: Sequence[User], op: SearchOp, known: Collection[str]) -> list[tuple[User, Record]]:
        """The items that were put last, those first, whatever is asked; LangGraph's stores in a database do the same.

        A list in order of birth would never show what came after the first ten.
        """
        latest: list[tuple[User, Record]] = []
        for user in users:
            async for record in self._listed(user, op.namespace_prefix):
                if record.id not in known and (not op.filter or _holds(op.filter, _value(record))):
                    latest.append((user, record))
            latest = nlargest(op.offset + op.limit, latest, key=_put_at)
        return latest

    async def _namespaces(self, memory: Memory, op: ListNamespacesOp) -> list[Namespace]:
        found: set[Namespace] = set()
        for user in await self._users_under(memory, ()):
            async for record in self._listed(user, ()):
                namespace = _namespace(record)
                if all(_matches(condition, namespace) for condition in op.match_conditions or ()):
                    found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _listed(self, user: User, prefix: Namespace) -> AsyncIterator[Record]:
        """The living items under a prefix, in order of birth."""
        async for record in every(partial(user.list_memories, where=_under(prefix), limit=PAGE)):
            if PATH in record.metadata:
                yield record

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def _write(self, user: User, drafts: Mapping[str, dict[str, Any] | None]) -> None:
        """Put and delete; retried if somebody else wrote one of the items meanwhile."""
        if await self._written_blind(user, drafts):
            return None
        for left in range(TRIES - 1, -1, -1):
            try:
                return await self._write_once(user, drafts)
            except (Conflict, NotFound):
                if not left:
                    raise
        return None

    async def _written_blind(self, user: User, drafts: Mapping[str, dict[str, Any] | None]) -> bool:
        """Write items that are all new or all existing, as far as known, without reading; False if that is wrong."""
        given = [draft | {"id": id} for id, draft in drafts.items() if draft is not None]
        known = [id in self._known for id in drafts]
        if len(given) < len(drafts) or any(known) != all(known):
            return False
        try:
            if all(known):
                return await _changed(user, given)
            await in_pieces(partial(user.add_memories, only_new=True), given, ADDED)
        except (Conflict, NotFound):
            return False
        finally:
            self._know(drafts)
        return True

    def _know(self, ids: Iterable[str]) -> None:
        """Remember which items exist, so that they are not taken for new ones. Being wrong costs one read."""
        if len(self._known) > KNOWN_MAX:
            self._known.clear()
        self._known.update(ids)

    async def _write_once(self, user: User, drafts: Mapping[str, dict[str, Any] | None]) -> None:
        known: dict[str, Record] = {}
        for ids in pieces(list(drafts), ADDED):
            known |= {record.id: record for record in await user.get_memories(ids)}
        for id in known.keys() & {id for id, draft in drafts.items() if draft is not None}:
            if known[id].valid_to is not None:  # it was merged or retired: writing it brings it back
                await user.restore(id)
        gone = [id for id, draft in drafts.items() if draft is None and id in known]
        added = [draft | {"id": id} for id, draft in drafts.items() if draft is not None and id not in known]
        changed = [draft | {"id": id} for id, draft in drafts.items() if draft is not None and id in known]
        await in_pieces(user.forget, gone, ADDED)
        await in_pieces(user.add_memories, added, ADDED)
        await _changed(user, changed)

    def _draft(self, op: PutOp) -> dict[str, Any] | None:
        """The text and labels of an item; None if it is to be deleted."""
        if op.value is None:
            return None
        value = dict(op.value)
        return item_draft(op.namespace, op.key, value, self._text(op, value), now=self._clock(), ttl_minutes=op.ttl)

    def _text(self, op: PutOp, value: dict[str, Any]) -> str:
        """The text of a value that is searched."""
        paths = self._fields if op.index is None else op.index or ()
        texts: list[str] = []
        for path in paths:
            texts += [readable(value)] if path == "$" else get_text_at_path(value, tokenize_path(path))
        return "\n".join(text for text in texts if text.strip())

    # ── lives ────────────────────────────────────────────────────────────────────────────────────

    async def _refresh(self, user: User, records: Sequence[Record]) -> None:
        """Restart the lives of items that were read; one that is gone by now stays gone."""
        mortal = [record for record in records if LIFE in record.metadata]
        if not mortal:
            return
        now = self._clock()
        due = []
        for record in mortal:
            life_ms = record.metadata[LIFE] * MINUTE_MS
            if life_ms and record.expires_at and record.expires_at - now < life_ms * (1 - REFRESH_SHARE):
                due.append({"id": record.id, "expires_at": now + int(life_ms)})
        try:
            await in_pieces(user.update_memories, due, EDITED)
        except (Conflict, NotFound):
            return

    async def _sweep(self, memory: Memory) -> int:
        return sum([(await user.maintain()).purged for user in await self._users_under(memory, ())])


async def _changed(user: User, drafts: Sequence[dict[str, Any]]) -> bool:
    """Change items; False if one of them is no longer live because it was merged or retired."""
    live = True
    for piece in pieces([{"expires_at": "never"} | draft for draft in drafts], EDITED):
        live &= all(record.valid_to is None for record in await user.update_memories(piece))
    return live


# ── items and records ────────────────────────────────────────────────────────────────────────────


def _value(record: Record) -> dict[str, Any]:
    """The value of an item; only the text if somebody edited the memory by hand into something else."""
    try:
        value: dict[str, Any] = READ_JSON(record.metadata.get(VALUE, record.content))
    except ValueError:
        return {"text": record.content}
    return value


def _fields_of(record: Record) -> dict[str, Any]:
    made, changed = _times(record)
    return {
        "value": _value(record),
        "key": record.metadata[KEY],
        "namespace": _namespace(record),
        "created_at": made,
        "updated_at": changed,
    }


def _times(record: Record) -> tuple[datetime, datetime]:
    """When an item was created and changed: nearly always the same moment."""
    made, changed_ms = as_datetime(record.created_at), record.metadata[UPDATED]
    return made, made if changed_ms == record.created_at else as_datetime(changed_ms)


def _put_at(each: tuple[User, Record]) -> tuple[int, tuple[int, int]]:
    """When an item was put last, and its place among those of the same millisecond."""
    return each[1].metadata[UPDATED], each[1].born


def _namespace(record: Record) -> Namespace:
    return tuple(record.metadata[PATH].split(".")[:-1])


def _under(prefix: Namespace) -> dict[str, Any]:
    """The filter for all items under a prefix: everything from its path to just before the next one."""
    if not prefix:
        return {f"metadata.{PATH}": {"exists": True}}
    path = path_of(prefix)
    return {f"metadata.{PATH}": {"gte": path, "lt": path[:-1] + chr(ord(".") + 1)}}


# ── filters ──────────────────────────────────────────────────────────────────────────────────────


def _matches(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _holds(filter: Mapping[str, Any] | None, value: Mapping[str, Any]) -> bool:
    return all(_fits(value.get(name), wanted) for name, wanted in (filter or {}).items())


def _fits(have: Any, wanted: Any) -> bool:
    """Whether a value is equal, or what the operators ask for; objects need only have the fields asked for."""
    if isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted):
        return all(_compared(have, operator, operand) for operator, operand in wanted.items())
    if isinstance(wanted, Mapping):
        return isinstance(have, Mapping) and _holds(wanted, have)
    if isinstance(wanted, list | tuple):
        both = isinstance(have, list | tuple) and len(have) == len(wanted)
        return both and all(_fits(*pair) for pair in zip(have, wanted, strict=True))
    return bool(have == wanted)


def _compared(have: Any, operator: str, operand: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return (have == operand) is (operator == "$eq")
    sides: Literal[-1, 0, 1] | None = _order(have, operand)
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unsupported operator: {operator}")
    if sides is None:
        return False
    return {"$gt": sides > 0, "$gte": sides >= 0, "$lt": sides < 0, "$lte": sides <= 0}[operator]


def _order(have: Any, operand: Any) -> Literal[-1, 0, 1] | None:
    """Which of two numbers is larger, or of two texts, such as dates, comes later; None if they do not compare."""
    left: Any
    right: Any
    try:
        left, right = float(have), float(operand)
    except (TypeError, ValueError):
        if not isinstance(have, str) or not isinstance(operand, str):
            return None
        left, right = have, operand
    return 1 if left > right else -1 if left < right else 0
