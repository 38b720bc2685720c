"""Layers in different stores, behind the one contract.

    RoutedStore(postgres, {"conversation": redis, "working": redis, "entity_cache": redis})

What one commit has to join is kept together, so only these layers can have a store of their own:

| route | takes with it | why |
|---|---|---|
| `conversation` | `session`, `summary`, `reading`, `failure`, `seal` | a message and all of its session are one |
| `working` | | nothing else is ever written with it |
| `entity_cache` | | nothing else is ever written with it |
| all the rest | `past`, `key` and every other layer | a head and its past are one commit |

The store of `conversation` is called home. A job lives with the records of its commit, so that both are
there or neither; a job without records is at home. Most commits concern one store and work as they
always do. One that concerns several is a commit in each, in an order that lets every part be
repeated: the part that finishes a job comes last, and other stores come before home.
`docs/how-to/several-stores.md` says what this promises and what it does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any, TypeVar

from recollect.errors import Conflict, Unavailable, ValidationError
from recollect.filters import Filter, Reach
from recollect.records import HOUR_MS, Changes, Job, Partition, Record, Scope, Vector, new_id
from recollect.stores import open_store
from recollect.stores.contract import (
    FORGET_ROWS,
    IDS_MAX,
    TEXT_SEARCH,
    VECTOR_SEARCH,
    Candidate,
    Delta,
    Finding,
    Forgotten,
    Mark,
    Page,
    Store,
    Survey,
    check_limit,
    examined,
    forget_part,
    offers_of,
    prepare,
)
from recollect.stores.in_memory import InMemoryStore

log = logging.getLogger("recollect.stores")

T = TypeVar("T")

ROUTES: dict[str, tuple[str, ...]] = {
    "conversation": ("conversation", "session", "summary", "reading", "failure", "seal"),
    "working": ("working",),
    "entity_cache": ("entity_cache",),
}
"""The layers that can have a store of their own, each with those that move with it."""
JOB_LAYERS = {"remake": "episodic", "retell": "long_term"}
"""Jobs that live with a layer whatever else their commit holds: what is dropped stays with the work of remaking it."""
FIRST_TRY_COUNTS = ("learn", "read", "reread")
"""Jobs whose second try may answer differently. Others produce the same ids again, and so change nothing twice."""
FENCE = "fence"
FENCE_MS = HOUR_MS
"""Much longer than any commit takes and than any difference between clocks."""
FALLBACKS = ("", "memory")
"""What may replace a store that cannot be reached: nothing, or one in memory."""
CLAIM_WAIT_S = 5.0
"""How long the jobs of other stores wait for a store to say whether it has any."""
HOME = 0
EPOCH_BITS = 32

OF_THE_SERVER = frozenset(("{keys}", "{seats}", "{quotas}"))
"""Where the server keeps its own records, none of which can be moved to another store. Every request reads them, so
they must not wait for a store that has nothing to do with it."""


@dataclass(frozen=True, slots=True)
class RoutedMark(Mark):
    """How far a reader has got in each of the stores."""

    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class RoutedJob(Job):
    """A job that does not live at home. It remembers where it lives, even when it is postponed or continued."""

    place: int = HOME


class RoutedStore:
    """The contract over several stores. It owns them: closing it closes each."""

    def __init__(self, store: Store, routes: Mapping[str, Store]) -> None:
        check_routes(routes)
        # By identity: two stores are never compared by what they hold.
        home = routes.get("conversation", store)
        distinct = {id(each): each for each in (home, store, *routes.values())}
        places = {key: place for place, key in enumerate(distinct)}
        self._stores: list[Store] = list(distinct.values())
        self._rest = places[id(store)]
        self._places = {
            layer: places[id(routes[route])] for route, layers in ROUTES.items() if route in routes for layer in layers
        } | {FENCE: -1}  # visible in no store
        self._routes = {route: places[id(given)] for route, given in routes.items()}
        self._turn = 0
        self._under_way: set[asyncio.Future[int]] = set()
        self._late: list[list[asyncio.Future[Sequence[Job]]]] = [[] for _ in self._stores]
        self.abilities: frozenset[str] = frozenset.intersection(*(each.abilities for each in self._stores))
        self.joins = self._rest == HOME
        self.lives = offers_of(home).lives

    def _place(self, layer: str) -> int:
        return self._places.get(layer, self._rest)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def commit(self, changes: Changes, now: int) -> int:
        parts = self._parts(changes)
        rests_on = _others(changes)
        if len(parts) == 1 and (HOME in parts or not rests_on):
            ((place, part),) = parts.items()
            return await self._stores[place].commit(part, now)
        prepare(changes)  # refuses what is too large before any part of it is written
        # A caller that stops waiting does not stop it between two stores.
        task = asyncio.ensure_future(self._commit_parts(changes, parts, rests_on, now))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Future[int]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here: if its caller stopped waiting, there is nobody to tell

    async def _commit_parts(
        self, changes: Changes, parts: Mapping[int, Changes], rests_on: Sequence[str], now: int
    ) -> int:
        """Commit each part in its store: the one that finishes a job last, and other stores before home."""
        parts, rests_on = await self._with_needs(changes.partition, parts, rests_on, now)
        revisions: dict[int, int] = {}
        for place in sorted(parts, key=lambda place: (bool(parts[place].finish), -place)):
            part = parts[place]
            if place != HOME and part.put and rests_on:
                part = await self._fenced(place, part, rests_on, now)
            revisions[place] = await self._commit_part(place, part, changes, now)
        if changes.drop:
            await self._break_fences(changes.partition, now)
        put = next((place for place in parts if parts[place].put), HOME)
        return revisions.get(put, 0)

    async def _commit_part(self, place: int, part: Changes, whole: Changes, now: int) -> int:
        job = next((job for job in whole.finish if job.kind in FIRST_TRY_COUNTS and _place_of(job) != place), None)
        if job is None:
            return await self._stores[place].commit(part, now)
        try:
            return await self._stores[place].commit(replace(part, key=f"first try of {job.id}"), now)
        except Conflict as conflict:
            if conflict.field != "key":
                raise
            return 0  # an earlier try wrote here and was interrupted before the job ended

    def _parts(self, changes: Changes) -> dict[int, Changes]:
        """The change as it concerns each store. The split depends on the change alone, so a retry is split alike."""
        put: dict[int, list[Record]] = {}
        for record in changes.put:
            put.setdefault(self._place(record.layer), []).append(record)
        finish = _by_place(changes.finish, _place_of)
        with_records = next(iter(put)) if len(put) == 1 else HOME
        enqueue = _by_place(changes.enqueue, lambda job: self._place_for(job, with_records))
        # An id does not tell its layer, so drops go to every store; dropping what is not there leaves no trace.
        touched = set(range(len(self._stores))) if changes.drop else {*put, *finish, *enqueue} or {HOME}
        epochs = self._unpacked(changes.epoch)
        return {
            place: replace(
                changes, put=tuple(put.get(place, ())), finish=finish.get(place, ()), enqueue=enqueue.get(place, ()),
                needs=self._needs(place, changes), epoch=epochs[place],
            )
            for place in sorted(touched)
        }  # fmt: skip

    def _place_for(self, job: Job, with_records: int) -> int:
        if isinstance(job, RoutedJob):
            return job.place
        return self._place(JOB_LAYERS[job.kind]) if job.kind in JOB_LAYERS else with_records

    def _needs(self, place: int, changes: Changes) -> tuple[str, ...]:
        """The needed ids a store has to hold: those this change puts there and, at home, all it does not put."""
        homes = {record.id: self._place(record.layer) for record in changes.put}
        return tuple(id for id in changes.needs if homes.get(id, HOME) == place)

    async def _with_needs(
        self, partition: Partition, parts: Mapping[int, Changes], rests_on: Sequence[str], now: int
    ) -> tuple[Mapping[int, Changes], Sequence[str]]:
        """The parts, each with what it needs in its own store, as a relation needs entities; and the needs at home."""
        beside: dict[str, int] = {}
        for place in parts:
            wanted = [id for id in rests_on if id not in beside] if place != HOME else []
            beside |= {record.id: place for record in await self._living(place, partition, wanted, now)}
        if not beside:
            return parts, rests_on
        needs = {place: [id for id in part.needs if id not in beside] for place, part in parts.items()}
        for id, place in beside.items():
            needs[place].append(id)
        settled = {place: replace(part, needs=tuple(needs[place])) for place, part in parts.items()}
        return settled, [id for id in rests_on if id not in beside]

    # ── fences ───────────────────────────────────────────────────────────────────────────────────
    # What is learned from a message is written to a different store from the one the message is forgotten
    # in. So a commit that rests on messages first finds a fence, then checks that the messages live, and
    # then writes on condition that the fence still stands; and a commit that drops something at home breaks
    # the fences afterwards. What was learned and written before that can be seen, and forgotten, by the
    # caller that forgets; after that it is refused.

    async def _fenced(self, place: int, part: Changes, rests_on: Sequence[str], now: int) -> Changes:
        fence = await self._fence(self._stores[place], part.partition, now)
        living = await self._living(HOME, part.partition, rests_on, now)
        if len(living) < len(set(rests_on)):
            raise Conflict("a record that this depends on is gone", field="needs")
        return part.and_(needs=(fence,))

    async def _fence(self, store: Store, partition: Partition, now: int) -> str:
        page = await store.list(_fences_of(partition), now, newest_first=True, limit=1)
        for fence in page.records:
            if fence.expires_at is not None and fence.expires_at - now > FENCE_MS // 2:
                return fence.id
        fresh = Record(new_id(now), FENCE, Scope(*partition), created_at=now, expires_at=now + FENCE_MS)
        await store.commit(Changes(partition, put=(fresh,), key=fresh.id), now)
        return fresh.id

    async def _break_fences(self, partition: Partition, now: int) -> None:
        for store in self._stores[1:]:
            page = await store.list(_fences_of(partition), now)
            if page.records:
                gone = tuple(fence.id for fence in page.records)
                await store.commit(Changes(partition, drop=gone, key=new_id(now)), now)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def get(self, partition: Partition, ids: Sequence[str], now: int) -> list[Record]:
        if partition.org in OF_THE_SERVER:
            return list(await self._stores[self._rest].get(partition, ids, now))
        found = await self._of_all(lambda store: store.get(partition, ids, now))
        held = {record.id: record for place, records in enumerate(found) for record in self._own(place, records)}
        return [held[id] for id in ids if id in held]

    async def list(
        self, where: Filter, now: int, *, newest_first: bool = False, limit: int = 100, after: str | None = None
    ) -> Page:
        """A page in order of birth; layers of different stores come one store after another."""
        layers = _by_place(where.layers, self._place)
        places = sorted(layers) if layers else list(range(len(self._stores)))
        if len(places) == 1:
            return await self._stores[places[0]].list(where, now, newest_first=newest_first, limit=limit, after=after)
        place, inner = _read_cursor(after, places)
        narrowed = replace(where, layers=layers.get(place, ()))
        page = await self._stores[place].list(narrowed, now, newest_first=newest_first, limit=limit, after=inner)
        then = next((each for each in places if each > place), None)
        further = f"{place}:{page.after}" if page.after else None if then is None else f"{then}:"
        return Page(tuple(self._own(place, page.records)), further)

    async def changes(self, partition: Partition, mark: Mark | None, limit: int = 1_000) -> Delta:
        if partition.org in OF_THE_SERVER:
            return await self._stores[self._rest].changes(partition, mark, limit)
        known = mark.marks if isinstance(mark, RoutedMark) and len(mark.marks) == len(self._stores) else None
        marks: Sequence[Mark | None] = known or [None] * len(self._stores)
        pages = zip(self._stores, marks, strict=True)
        deltas = await asyncio.gather(*(store.changes(partition, each, limit) for store, each in pages))
        reset = any(delta.reset for delta in deltas)
        if reset:  # a reader that discards what it holds needs all of it again, from every store
            deltas = [
                delta if delta.reset else await store.changes(partition, None, limit)
                for store, delta in zip(self._stores, deltas, strict=True)
            ]
        put = tuple(record for place, delta in enumerate(deltas) for record in self._own(place, delta.put))
        dropped = [await self._dropped(place, partition, delta.dropped) for place, delta in enumerate(deltas)]
        more = any(delta.more for delta in deltas)
        return Delta(self._mark([delta.mark for delta in deltas]), put, tuple(sum(dropped, ())), reset, more)

    def _mark(self, marks: Sequence[Mark]) -> RoutedMark:
        return RoutedMark(
            _packed([mark.epoch for mark in marks]),
            sum(mark.revision for mark in marks),
            max(mark.floor_seen for mark in marks),
            tuple(marks),
        )

    async def _dropped(self, place: int, partition: Partition, ids: tuple[str, ...]) -> tuple[str, ...]:
        """The ids that are gone: a layer that moved may have left copies behind, and dropping those loses nothing."""
        if not ids:
            return ()
        others = [each for each in range(len(self._stores)) if each != place]
        # As of time 0 nothing has expired: what is still held stays held.
        living = {record.id for each in others for record in await self._living(each, partition, ids, 0)}
        return tuple(id for id in ids if id not in living)

    async def _living(self, place: int, partition: Partition, ids: Sequence[str], now: int) -> Sequence[Record]:
        found: list[Record] = []
        for start in range(0, len(ids), IDS_MAX):
            found += await self._stores[place].get(partition, ids[start : start + IDS_MAX], now)
        return list(self._own(place, found))

    def _own(self, place: int, records: Sequence[Record]) -> Sequence[Record]:
        """The records a store is asked for. What a layer left behind when it moved is still there, but not shown."""
        return [record for record in records if self._place(record.layer) == place]

    async def search(
        self, reach: Reach, *, text: str | None, vector: Vector | None, limit: int, now: int
    ) -> Mapping[str, Sequence[Candidate]]:
        if not self.abilities & {TEXT_SEARCH, VECTOR_SEARCH}:
            raise Unavailable("not all of these stores search across users; see their abilities", field="search")
        layers = _by_place(reach.layers, self._place)
        everywhere = dict.fromkeys(range(len(self._stores)), reach)
        asked = {place: replace(reach, layers=layers[place]) for place in layers} or everywhere
        found: dict[str, list[Candidate]] = {}
        for place, each in asked.items():
            answer = await self._stores[place].search(each, text=text, vector=vector, limit=limit, now=now)
            for channel, candidates in answer.items():
                found.setdefault(channel, []).extend(candidates)
        return {channel: sorted(each, key=lambda hit: -hit.score)[:limit] for channel, each in found.items()}

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        check_limit(limit)
        self._turn = first = self._turn + 1  # so that no store's jobs wait for another's for ever
        jobs: list[Job] = []
        missing: Unavailable | None = None
        for step in range(len(self._stores)):
            place = (first + step) % len(self._stores)
            if len(jobs) < limit:
                try:
                    found = await self._claimed(place, now, lease_s, limit - len(jobs))
                except Unavailable as error:
                    missing = error
                    continue
                jobs += found if place == HOME else [_routed(job, place) for job in found]
        if missing is not None and not jobs:
            raise missing
        return jobs

    async def _claimed(self, place: int, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        """The jobs that a store gives. One that is silent is left alone, and its answer taken once it has come."""
        late = self._late[place]
        if late:
            claim = late.pop(0)
        else:
            claim = asyncio.ensure_future(self._stores[place].claim(now, lease_s, limit))
            try:
                await asyncio.wait([claim], timeout=CLAIM_WAIT_S)
            except asyncio.CancelledError:
                claim.cancel()
                raise
        if claim.done() and (claim.exception() or len(claim.result()) <= limit):
            return claim.result()
        late.append(claim)
        if claim.done():
            return ()  # it was asked for more then than there is room for now
        raise Unavailable(f"the store of {self._told(place)} has not said yet whether it has jobs", field="store")

    async def wait_for_work(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for work in a store that can signal it. True when one has some."""
        listeners = [listen for store in self._stores if (listen := offers_of(store).wait_for_work)]
        waits = [asyncio.ensure_future(listen(timeout_s)) for listen in listeners]
        if not waits:
            await asyncio.sleep(timeout_s)
            return False
        try:
            done, _ = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return any(wait.result() for wait in done)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    # ── forgetting ───────────────────────────────────────────────────────────────────────────────

    async def forget(self, where: Filter, now: int, limit: int = FORGET_ROWS) -> Forgotten:
        check_limit(limit)
        if where.dead_before is None and not where.is_whole:
            return await forget_part(self, where, now, limit)
        gone: list[Forgotten] = []
        # Home first: from then on nothing that rests on messages can be written elsewhere.
        for store, epoch in zip(self._stores, self._unpacked(where.epoch), strict=True):
            gone.append(await store.forget(replace(where, epoch=epoch), now, limit))
        ends = [each.next_at for each in gone if each.next_at is not None]
        epochs = [each.epoch for each in gone if each.epoch is not None]
        return Forgotten(
            sum(each.count for each in gone),
            all(each.done for each in gone),
            min(ends, default=None),
            _packed(epochs) if epochs else None,
        )

    def _unpacked(self, epoch: int | None) -> Sequence[int | None]:
        """The epoch of each store, from the one number that stands for all."""
        mask = (1 << EPOCH_BITS) - 1
        return [((epoch or 0) >> EPOCH_BITS * place) & mask or None for place in range(len(self._stores))]

    # ── for operators ────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        late = [claim for claims in self._late for claim in claims]
        for claim in late:
            claim.cancel()  # jobs that it gave to nobody are offered again when their leases end
        await asyncio.gather(*self._under_way, *late, return_exceptions=True)
        done = await asyncio.gather(*(store.close() for store in self._stores), return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error

    async def partitions(self, after: Partition | None = None, limit: int = 1_000) -> Sequence[Partition]:
        found = await self._of_all(lambda store: store.partitions(after, limit))
        return sorted({partition for page in found for partition in page})[:limit]

    async def survey(self, now: int) -> Survey:
        """Counts over all stores. The number of partitions is that of the store with the most."""
        found = await self._of_all(lambda store: store.survey(now))
        records: Counter[str] = Counter()
        for place, each in enumerate(found):
            records.update({layer: count for layer, count in each.records.items() if self._place(layer) == place})
        sizes = [each.bytes for each in found if each.bytes is not None]
        return Survey(
            max(each.partitions for each in found),
            records,
            sum(each.jobs_waiting for each in found),
            sum(each.jobs_running for each in found),
            min((each.oldest_job_at for each in found if each.oldest_job_at is not None), default=None),
            sum(sizes) if sizes else None,
            sum(each.jobs_scheduled for each in found),
        )

    async def compact(self) -> None:
        for store in self._stores:
            await store.compact()

    async def check(self) -> Sequence[str]:
        found = await self._of_all(lambda store: store.check())
        return [f"{self._told(place)}: {problem}" for place, problems in enumerate(found) for problem in problems]

    @property
    def parts(self) -> dict[str, Store]:
        """The stores, keyed by what each holds."""
        return {self._told(place): store for place, store in enumerate(self._stores)}

    async def examine(self) -> Sequence[Finding]:
        """What each store reports about its server, under the name of what it holds."""
        found = await self._of_all(examined)
        return [
            replace(finding, name=f"{self._told(place)}: {finding.name}")
            for place, findings in enumerate(found)
            for finding in findings
        ]

    def describe(self) -> dict[str, Any]:
        parts = {name: store.describe() for name, store in self.parts.items()}
        whole: dict[str, Any] = {
            "store": "routed",
            "url": " + ".join(str(part["url"]) for part in parts.values()),
            "durability": "; ".join(f"{name}: {part['durability']}" for name, part in parts.items()),
            "parts": parts,
        }
        fallbacks = [f"{name}: {part['fallback']}" for name, part in parts.items() if "fallback" in part]
        return whole | ({"fallback": "; ".join(fallbacks)} if fallbacks else {})

    def _told(self, place: int) -> str:
        """A store named by what it holds, for people."""
        routes = [route for route, each in self._routes.items() if each == place]
        return ", ".join([*routes, *(["the rest"] if place == self._rest else [])])

    async def _of_all(self, ask: Callable[[Store], Awaitable[T]]) -> Sequence[T]:
        return await asyncio.gather(*(ask(store) for store in self._stores))


def _others(changes: Changes) -> tuple[str, ...]:
    """What a change rests on and does not put itself: messages, which are at home."""
    put = {record.id for record in changes.put}
    return tuple(id for id in changes.needs if id not in put)


def _by_place(items: Sequence[T], place_of: Callable[[T], int]) -> dict[int, tuple[T, ...]]:
    found: dict[int, tuple[T, ...]] = {}
    for item in items:
        place = place_of(item)
        found[place] = (*found.get(place, ()), item)
    return found


def _place_of(job: Job) -> int:
    return job.place if isinstance(job, RoutedJob) else HOME


def _routed(job: Job, place: int) -> RoutedJob:
    return RoutedJob(**{field.name: getattr(job, field.name) for field in fields(Job)}, place=place)


def _fences_of(partition: Partition) -> Filter:
    return Filter(partition, layers=(FENCE,))


def _packed(epochs: Sequence[int]) -> int:
    """One number for the epochs of all stores, home's in the lowest bits."""
    return sum(epoch << EPOCH_BITS * place for place, epoch in enumerate(epochs))


def _read_cursor(after: str | None, places: Sequence[int]) -> tuple[int, str | None]:
    """Which store a list continues in, and where."""
    if after is None:
        return places[0], None
    place, separator, inner = after.partition(":")
    if not separator or not place.isdecimal() or int(place) not in places:
        raise ValidationError("not a cursor of this list; start again without one", field="after")
    return int(place), inner or None


# ── Opening ──────────────────────────────────────────────────────────────────────────────────────


class StandIn(InMemoryStore):
    """Takes the place of a store that could not be reached, and says so."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"fallback": f"in memory, because {self._reason}"}


def check_routes(routes: Mapping[str, object]) -> None:
    """Refuse a split that would tear apart what one commit joins."""
    for name in routes:
        if name not in ROUTES:
            known = ", ".join(ROUTES)
            raise ValidationError(
                f"this layer cannot have a store of its own; {known} can, and all others live together",
                field=f"layers.{name}",
            )


async def open_stores(
    url: str | PurePath | Store, layers: Mapping[str, str], *, busy_timeout_s: float = 10.0, fallback: str = ""
) -> Store:
    """Open the store of a URL, with some layers in stores of their own.

    `layers` says where: {"conversation": "redis://...", "working": "redis://..."}. Each URL is opened
    once. With `fallback="memory"` a store that cannot be reached is replaced by one in memory, loudly.
    """
    check_routes(layers)
    opened: dict[str | PurePath, Store] = {}

    async def open_once(where: str | PurePath, field: str) -> Store:
        if where not in opened:
            opened[where] = await _open(where, field, busy_timeout_s, fallback)
        return opened[where]

    try:
        store = await open_once(url, "url") if isinstance(url, str | PurePath) else url
        routes = {layer: await open_once(where, f"layers.{layer}") for layer, where in layers.items()}
    except BaseException:
        await asyncio.gather(*(each.close() for each in opened.values()), return_exceptions=True)
        raise
    elsewhere = {layer: each for layer, each in routes.items() if each is not store}
    return RoutedStore(store, elsewhere) if elsewhere else store


async def _open(url: str | PurePath, field: str, busy_timeout_s: float, fallback: str) -> Store:
    try:
        return await open_store(url, busy_timeout_s=busy_timeout_s)
    except Unavailable as error:
        if fallback != "memory":
            if field == "url":
                raise
            raise type(error)(f"the store of this layer: {error.message}", field=field) from error
        scheme = str(url).partition("://")[0] if isinstance(url, str) else "sqlite"
        reason = f"{scheme}:// could not be opened ({error.message})"
        log.warning("MEMORIES ARE NOT KEPT: %s, and fallback is set. They are lost when this process ends.", reason)
        return StandIn(reason)
