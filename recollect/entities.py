"""The entity cache of an org: business objects (customers, orders, ...) read through a loader.

    cache = EntityCache(ledger, "acme")
    customer = await cache.get("customer", "42", loader=fetch_customer)

One load serves all callers that ask for an entity meanwhile. Its result is cached only if no process
has pushed, invalidated or erased the entity since the load began: otherwise the newer word stands.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from recollect import validate
from recollect.errors import Conflict, Unavailable, ValidationError
from recollect.filters import Filter
from recollect.handles import Handle
from recollect.ledger import Ledger
from recollect.policies.naming import Text
from recollect.records import MINUTE_MS, SECOND_MS, Changes, Record, Scope, derived_id, iso

LAYER = "entity_cache"
DATA_BYTES = 16 * 1024
"""An entity's data: what an assistant may say about it, not the whole document."""
NAMES_MAX = 20
"""Other names of an entity: each is searched for in every question."""
MISS_S = 30.0
"""How long a missing entity is remembered as missing: long enough for one turn of a conversation."""
LIFE_MIN_S, LIFE_MAX_S = 0.001, 30 * 24 * 3600
"""Anything older than the maximum is not a cache but a copy that nobody maintains."""
STAMP_LIFE_MS = 10 * MINUTE_MS
"""How long an invalidation is remembered: longer than any load takes."""
CONTENT_CHARS, VALUE_CHARS = 400, 80
"""The maximum length of an entity's line in a prompt, and of each value in it."""
PLAIN_NUMBER_DIGITS = 4
"""A number with at most this many digits names an entity only beside the word for its type: "order 42"."""
PASSED_OVER = 20
"""How many pages without an object of the type are read before an empty page is returned, with a cursor."""
FOUND_MAX = 10
CLOSE_S = 2.0
"""How long closing waits for cancelled loads: a loader may not heed it."""

Loader = Callable[[str, str], Any]
"""Returns the entity of a type and id, or None; may be async. A plain function runs in a thread."""

_TITLES = ("name", "title", "label")


@dataclass(frozen=True, slots=True)
class CachedEntity:
    """A business object as it is cached. `expires_at` is in milliseconds since 1970, as in a record."""

    type: str
    id: str
    data: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    aliases: tuple[str, ...] = ()
    content: str = ""
    expires_at: int | None = None

    @classmethod
    def of(cls, record: Record) -> CachedEntity:
        held = record.data
        names = tuple(held["aliases"])
        return cls(held["type"], held["id"], held["data"], held["name"], names, record.content, record.expires_at)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "id": self.id,
            "name": self.name,
            "aliases": list(self.aliases),
            "data": dict(self.data),
            "content": self.content,
            "expires_at": iso(self.expires_at),
        }


class Loads:
    """The loads under way in this process. One instance serves all caches of a ledger."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], asyncio.Task[dict[str, Any] | None]] = {}
        self._closed = False

    async def shared(
        self, org: str, id: str, load: Callable[[], Awaitable[dict[str, Any] | None]]
    ) -> dict[str, Any] | None:
        """Wait for the load of this entity, started by the first caller; a caller that gives up does not stop it."""
        task = self._tasks.get((org, id))
        if task is None:
            task = self._tasks[org, id] = asyncio.ensure_future(load())
            task.add_done_callback(lambda done: self._end(org, id, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                # The load gave up, not this caller: a cancellation would look like its own.
                raise self._given_up() from None
            raise

    def _given_up(self) -> Unavailable:
        if self._closed:
            return Unavailable("the memory is closed; open it again, and take a new handle from it", field="memory")
        return Unavailable("the load was cancelled; ask again", field="loader")

    async def close(self) -> None:
        """Cancel the loads under way: their callers are told, and nothing is left behind."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)

    def _end(self, org: str, id: str, task: asyncio.Task[dict[str, Any] | None]) -> None:
        del self._tasks[org, id]
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not complain if every waiter has left


class EntityCache(Handle):
    """The business objects of one org: `get`, `put`, `invalidate`, `list`, `find`.

    >>> from recollect import Memory
    >>> async with Memory.open("memory://") as memory:
    ...     entities = memory.entities("acme")
    ...     print(await entities.get("order", "42", loader=lambda type, id: {"status": "shipped"}))
    {'status': 'shipped'}
    """

    def __init__(self, ledger: Ledger, org: str, *, loads: Loads | None = None) -> None:
        self._ledger = ledger
        self._scope = Scope(org)
        self._partition = self._scope.partition
        self._layer = ledger.layers[LAYER]
        self._loads = loads or Loads()

    async def get(
        self, type: str, id: str, *, loader: Loader | None = None, ttl_s: float | None = None
    ) -> dict[str, Any] | None:
        """The entity's data, from the cache or else from the loader; None if there is none."""
        place = self._id(validate.identifier(type, "type"), validate.identifier(id, "id"))
        life_ms = self._layer.life_ms if ttl_s is None else _life_ms(ttl_s)
        known = await self._ledger.get(self._partition, [place])
        if loader is None or (known and _answers(known[0])):
            return _data(known[0]) if known else None
        if not callable(loader):
            raise ValidationError("must be a function of type and id", field="loader")
        loaded = await self._loads.shared(self._scope.org, place, lambda: self._load(type, id, loader, life_ms))
        return deepcopy(loaded)  # one load serves many callers, and each may change its result

    async def put(
        self,
        type: str,
        id: str,
        data: Mapping[str, Any],
        *,
        name: str | None = None,
        aliases: Sequence[str] = (),
        ttl_s: float | None = None,
    ) -> CachedEntity:
        """Cache an entity as it is now, for sources that report when something changes."""
        fresh = self._record(validate.identifier(type, "type"), validate.identifier(id, "id"), data, name, aliases)
        life_ms = self._layer.life_ms if ttl_s is None else _life_ms(ttl_s)
        written = fresh

        def decide(known: Record | None, now: int) -> Changes:
            nonlocal written
            written = _over(fresh, known, now, life_ms)
            return Changes(self._partition, put=(written,))

        await self._ledger.update(self._partition, fresh.id, decide)
        return CachedEntity.of(written)

    async def invalidate(self, type: str | None = None, id: str | None = None) -> int:
        """Forget one entity, those of a type, or all. Returns how many there were.

        A load that is under way still reaches the callers waiting for it, but is not cached.
        """
        if id is not None:
            if type is None:
                raise ValidationError("an id needs its type", field="type")
            return await self._stamp(self._id(validate.identifier(type, "type"), validate.identifier(id, "id")))
        # First the stamp, which keeps loads from writing, then drop what is there.
        await self._stamp(self._stamp_id(None if type is None else validate.identifier(type, "type")))
        doomed = await self._records(type)
        await self._ledger.drop(self._partition, [record.id for record in doomed])
        return sum(is_entity(record) for record in doomed)

    async def list(self, type: str | None = None) -> Sequence[CachedEntity]:
        """The cached entities, of one type or of all."""
        kind = None if type is None else validate.identifier(type, "type")
        return [CachedEntity.of(record) for record in await self._records(kind) if is_entity(record)]

    async def page(
        self, type: str | None = None, *, limit: int = 100, after: str | None = None
    ) -> tuple[Sequence[CachedEntity], str | None]:
        """A page of that list, and the cursor of the next (None at the end).

        Other types are passed over, so a short page is not necessarily the last.
        """
        kind = None if type is None else validate.identifier(type, "type")
        most, following = validate.limit(limit), validate.cursor(after)
        for _ in range(PASSED_OVER):
            page = await self._ledger.list(Filter(self._partition, layers=(LAYER,)), limit=most, after=following)
            found = [each for each in page.records if is_entity(each) and kind in (None, each.data["type"])]
            following = page.after
            if found or following is None:
                break
        return [CachedEntity.of(record) for record in found], following

    async def find(self, text: str, *, limit: int = FOUND_MAX) -> Sequence[CachedEntity]:
        """The entities that a text mentions by name, alias or id, in order of mention."""
        question, most = validate.query(text, "text"), validate.limit(limit)
        found = named_in(question, await self._records(None))
        return [CachedEntity.of(record) for record in found[:most]]

    # ── loading ──────────────────────────────────────────────────────────────────────────────────

    async def _load(self, type: str, id: str, loader: Loader, life_ms: int | None) -> dict[str, Any] | None:
        place = self._id(type, id)
        watched = [place, self._stamp_id(type), self._stamp_id(None)]
        epoch = await self._ledger.epoch_of(self._partition)
        before = {record.id: record for record in await self._ledger.get(self._partition, watched)}
        if place in before and _answers(before[place]):
            return _data(before[place])  # it arrived while this load was about to start
        loaded = await _called(loader, type, id)
        fresh = self._missing(type, id) if loaded is None else self._record(type, id, loaded, None, ())
        keep_ms = int(MISS_S * SECOND_MS) if loaded is None else life_ms
        result = _data(fresh)

        def decide(known: Mapping[str, Record], now: int) -> Changes | None:
            nonlocal result
            held = known.get(place)
            if held is not None and is_entity(held) and _version(held) != _version(before.get(place)):
                result = _data(held)  # somebody pushed it meanwhile: that is newer
            if any(_version(known.get(each)) != _version(before.get(each)) for each in watched):
                return None
            return Changes(self._partition, put=(_over(fresh, held, now, keep_ms),), epoch=epoch)

        try:
            await self._ledger.update_all(self._partition, watched, decide)
        except Conflict as conflict:
            if conflict.field != "epoch":
                raise
        return result

    # ── records ──────────────────────────────────────────────────────────────────────────────────

    def _id(self, type: str, id: str) -> str:
        return self._layer.head_id(self._scope, derived_id(type, id))

    def _stamp_id(self, type: str | None) -> str:
        """The id under which the last invalidation of a type, or of everything, is recorded."""
        return self._layer.head_id(self._scope, "all" if type is None else f"all of {type}")

    async def _stamp(self, id: str) -> int:
        """Record an invalidation in place of what was there. Returns how many entities it replaced."""
        count = 0

        def decide(known: Record | None, now: int) -> Changes:
            nonlocal count
            count = int(known is not None and is_entity(known))
            stamp = Record(id, LAYER, self._scope, data={"type": None})
            return Changes(self._partition, put=(_over(stamp, known, now, STAMP_LIFE_MS),))

        await self._ledger.update(self._partition, id, decide)
        return count

    async def _records(self, type: str | None) -> Sequence[Record]:
        """What is cached of one type or of all, including misses but no stamps."""
        where = Filter(self._partition, layers=(LAYER,))
        found = [record async for record in self._ledger.walk(where) if record.data.get("type") is not None]
        return [record for record in found if type in (None, record.data["type"])]

    def _missing(self, type: str, id: str) -> Record:
        return Record(self._id(type, id), LAYER, self._scope, data={"type": type, "id": id})

    def _record(self, type: str, id: str, data: object, name: object, aliases: object) -> Record:
        """A checked entity as a record."""
        checked = self._ledger.masked(_checked(data))
        title = (
            name if name is not None else next((checked[key] for key in _TITLES if _is_name(checked.get(key))), None)
        )
        if not isinstance(aliases, list | tuple) or len(aliases) > NAMES_MAX:
            raise ValidationError(f"must be a list of at most {NAMES_MAX} names", field="aliases")
        held = {
            "type": type,
            "id": id,
            "name": self._ledger.masked(validate.optional_identifier(title, "name")),
            "aliases": [self._ledger.masked(validate.identifier(each, "aliases")) for each in aliases],
            "data": checked,
        }
        return Record(self._id(type, id), LAYER, self._scope, _line(held), held)


def _over(fresh: Record, known: Record | None, now: int, life_ms: int | None) -> Record:
    """The record in place of what is there. The number of the write makes each write a new version."""
    if known is not None and known.layer != LAYER:
        raise Conflict("the id of this entity is taken by another memory", field="entity")
    write = known.data.get("write", 0) + 1 if known else 1
    return fresh.with_(
        data={**fresh.data, "write": write},
        created_at=now,
        expires_at=None if life_ms is None else now + life_ms,
        version=known.version if known else 0,
    )


def _version(record: Record | None) -> int:
    return record.version if record else 0


def is_entity(record: Record) -> bool:
    """True for a cached entity; not for a miss, nor for the stamp of an invalidation."""
    return record.layer == LAYER and {"type", "id", "name", "aliases", "data"} <= record.data.keys()


def _answers(record: Record) -> bool:
    """True for an entity and for a miss: both save a load."""
    return is_entity(record) or (record.layer == LAYER and "id" in record.data)


def _data(record: Record) -> dict[str, Any] | None:
    return dict(record.data["data"]) if is_entity(record) else None


async def _called(loader: Loader, type: str, id: str) -> Any:
    """What the loader returns. A plain function may block, so it runs in a thread."""
    if inspect.iscoroutinefunction(loader):
        return await loader(type, id)
    result = await asyncio.to_thread(loader, type, id)
    return await result if inspect.isawaitable(result) else result


def _checked(data: object) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise ValidationError("must be a JSON object", field="data")
    limits = validate.LIMITS
    depth, keys = limits.structure_depth, limits.structure_keys
    checked: dict[str, Any] = validate.json_value(dict(data), "data", max_bytes=DATA_BYTES, depth=depth, keys=keys)
    return checked


def _life_ms(value: object) -> int:
    """A lifetime in seconds, as milliseconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and LIFE_MIN_S <= value <= LIFE_MAX_S:
        return int(value * SECOND_MS)
    raise ValidationError(f"must be seconds, from {LIFE_MIN_S} to {LIFE_MAX_S}", field="ttl_s")


# ── Words ────────────────────────────────────────────────────────────────────────────────────────


def _is_name(value: object) -> bool:
    """True if a value from an entity's data can be its name."""
    try:
        return bool(validate.identifier(value, "name"))
    except ValidationError:
        return False


def _line(held: Mapping[str, Any]) -> str:
    """The entity on one line: "customer 42: Acme GmbH, plan: gold"."""
    data, name = held["data"], held["name"]
    values = [f"{key}: {_short(value)}" for key, value in data.items() if _is_plain(value) and value != name]
    said = ", ".join([*([name] if name else []), *values])
    line = f"{held['type']} {held['id']}{': ' if said else ''}{said}"
    return line if len(line) <= CONTENT_CHARS else line[: CONTENT_CHARS - 1] + "…"


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _short(value: str | int | float) -> str:
    text = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 1] + "…"


def named_in(text: str, records: Iterable[Record]) -> list[Record]:
    """The cached entities that a text mentions by name, alias or id, in order of mention."""
    words = Text(text)
    found = []
    for record in records:
        place = words.first(_names(record, words)) if is_entity(record) else None
        if place is not None:
            found.append((place, record.born, record))
    return [record for *_, record in sorted(found, key=lambda each: each[:2])]


def _names(record: Record, text: Text) -> list[str]:
    """What an entity may be called in this text."""
    held = record.data
    names = [name for name in (held["name"], *held["aliases"]) if name]
    number = held["id"].isdecimal() and len(held["id"]) <= PLAIN_NUMBER_DIGITS
    kind = held["type"].replace("_", " ")
    return [*names, held["id"]] if not number or kind in text or f"{kind}s" in text else names
