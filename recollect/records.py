"""The nouns: who a memory belongs to, what is stored, and what one change is.

Everything here is a plain value. Times are integers, milliseconds since 1970 in UTC, and come from
a clock that is passed in, never from the machine directly.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

Portioned = TypeVar("Portioned")

Clock = Callable[[], int]
"""Returns "now" in milliseconds. `system_clock` by default; tests pass their own."""

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

TRUSTS = ("quarantined", "untrusted", "trusted")
"""From least to most trusted. Text from tools, files and other people is `untrusted`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> int:
    """The machine's time in milliseconds."""
    return time.time_ns() // 1_000_000


def as_datetime(time_ms: int) -> datetime:
    """A stored time as an aware datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=time_ms)


def as_ms(moment: datetime) -> int:
    """A datetime as it is stored.

    >>> as_ms(as_datetime(1_700_000_000_123))
    1700000000123
    """
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def iso(moment: datetime | int | None) -> str | None:
    """A time, as a datetime or as it is stored, as ISO 8601; None stays None."""
    then = as_datetime(moment) if isinstance(moment, int) else moment
    return None if then is None else then.isoformat().replace("+00:00", "Z")


# Our own random generator: not the shared one, which an application may seed, and a different one in every process.
# Not `os.urandom`, which releases the interpreter lock at each call and then has to wait for it.
_chance = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chance.seed)


def new_id(now: int) -> str:
    """A fresh id: twelve digits of time, sixteen random ones. Unique even when the clock goes back."""
    return f"{now & 0xFFFF_FFFF_FFFF:012x}{_chance.getrandbits(64):016x}"


def derived_id(*parts: str) -> str:
    """The one id that belongs to these parts; no other split of the same text gives it."""
    joined = "".join([f"{len(part)}:{part}" for part in parts])
    # Imported files may use lone surrogates in message ids; refusing those is left to other code.
    return hashlib.blake2b(joined.encode(errors="surrogatepass"), digest_size=14).hexdigest()


class Partition(NamedTuple):
    """(org, user): the unit of isolation and of atomic writes. `user=""` is the org's own partition."""

    org: str
    user: str


@dataclass(frozen=True, slots=True)
class Scope:
    """Who a memory belongs to. Every call carries one, and none can be made without it."""

    org: str = "default"
    user: str = ""
    agent: str = ""
    session: str = ""

    @property
    def partition(self) -> Partition:
        return Partition(self.org, self.user)


Born = tuple[int, int]
"""The place of a record in the order of birth: the revision of its first put, and its place in that commit."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a record came from: the message, the characters within it, who said it, what extracted it."""

    message_id: str | None = None
    session_id: str | None = None
    span: tuple[int, int] | None = None
    role: str | None = None
    extractor: str | None = None


@dataclass(frozen=True, slots=True)
class Vector:
    """An embedding, as little-endian float16 numbers, with the model that made it."""

    model: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """One stored memory of any layer.

    `version` is as read (0 = new): put back what you read and the store writes `version + 1`; a
    new record gets the partition's revision as its first version, so no version is ever reused.
    `born` is the (revision, place) of the first put and orders lists. Both are set by the store.
    """

    id: str
    layer: str
    scope: Scope
    content: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    importance: float = 0.5
    confidence: float = 1.0
    created_at: int = 0
    event_at: int | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    expires_at: int | None = None
    source: Source | None = None
    trust: str = "trusted"
    vector: Vector | None = None
    version: int = 0
    born: tuple[int, int] = (0, 0)

    @property
    def when(self) -> int:
        """When it happened, if that is known, else when it was stored."""
        return self.created_at if self.event_at is None else self.event_at

    @property
    def told(self) -> str:
        """What is searched, by words and by meaning: the text, preceded by the name of the speaker if there is one."""
        name = self.data.get("name")
        return f"{name}: {self.content}" if name else self.content

    def __repr__(self) -> str:
        owner = "/".join(filter(None, (self.scope.org, self.scope.user, self.scope.session)))
        return f"Record({_begin(self.content)!r}, layer={self.layer!r}, of={owner!r}, id={self.id!r})"

    def with_(self, **changes: Any) -> Record:
        """A copy with some fields changed, ready to be put back. Faster than `dataclasses.replace`."""
        copy = _Open(*_values(self))
        for name, value in changes.items():
            try:
                setattr(copy, name, value)
            except AttributeError:
                raise TypeError(f"a record has no {name}") from None
        return _closed(copy)

    def apart(self) -> Record:
        """A copy whose contents the caller may change: its data and metadata are shared with nobody."""
        copy = _Open(*_values(self))
        copy.data, copy.metadata = _apart(self.data), _apart(self.metadata) if self.metadata else {}
        return _closed(copy)

    def to_dict(self) -> dict[str, Any]:
        """The record as documented JSON: ISO times, no vector."""
        source = self.source
        return {
            "id": self.id,
            "layer": self.layer,
            "scope": {
                "org": self.scope.org,
                "user": self.scope.user,
                "agent": self.scope.agent,
                "session": self.scope.session,
            },
            "content": self.content,
            "data": dict(self.data),
            "metadata": dict(self.metadata),
            "importance": self.importance,
            "confidence": self.confidence,
            "created_at": iso(self.created_at),
            "event_at": iso(self.event_at),
            "valid_from": iso(self.valid_from),
            "valid_to": iso(self.valid_to),
            "expires_at": iso(self.expires_at),
            "source": None
            if source is None
            else {
                "message_id": source.message_id,
                "session_id": source.session_id,
                "span": list(source.span) if source.span else None,
                "role": source.role,
                "extractor": source.extractor,
            },
            "trust": self.trust,
            "version": self.version,
        }


def _apart(value: Any) -> Any:
    """A deep copy of JSON. Faster than `copy.deepcopy`, which looks for cycles."""
    if isinstance(value, dict):
        return {key: _apart(each) if isinstance(each, (dict, list)) else each for key, each in value.items()}
    return [_apart(each) for each in value] if isinstance(value, list) else value


_FIELDS = tuple(field.name for field in fields(Record))
_values = attrgetter(*_FIELDS)
_Open: Any = make_dataclass("_Open", _FIELDS, slots=True, eq=False, repr=False)
"""A record under construction: being mutable, it is filled in a fifth of the time that a frozen one takes."""


def _closed(record: Any) -> Record:
    """Turn a filled `_Open` into an ordinary record: both classes have the same slots."""
    record.__class__ = Record
    made: Record = record
    return made


BLANK = Record("", "", Scope())
"""Drafts are copies of it with their own data and metadata, which takes half the time of a new record."""

# The fields of a payload that are written as they are, each with the value that is omitted.
_PLAIN: tuple[tuple[str, Any], ...] = (
    ("confidence", 1.0),
    ("content", ""),
    ("created_at", 0),
    ("data", {}),
    ("event_at", None),
    ("expires_at", None),
    ("importance", 0.5),
    ("metadata", {}),
    ("trust", "trusted"),
    ("valid_from", None),
    ("valid_to", None),
)


_IN_PAYLOAD = {name for name, _ in _PLAIN} | {"agent", "source"}

_plain_values = attrgetter(*(name for name, _ in _PLAIN))


def without_data(record: Record, *names: str) -> Record:
    """The record without what its data has under these names."""
    return record.with_(data={name: value for name, value in record.data.items() if name not in names})


def with_data(record: Record, /, **changes: Any) -> Record:
    """The record with these values in its data."""
    return record.with_(data={**record.data, **changes})


def _json_writer() -> Callable[[Any], str]:
    """A function that writes JSON in its one canonical form.

    The standard encoder builds a new writer for each text, which takes as long as writing a record. Here one is
    reused, if this Python provides it.
    """
    encoder = json.JSONEncoder(
        sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    write = make(None, encoder.default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(write(value, 0))


canonical_json = _json_writer()


def payload_of(record: Record) -> str:
    """The canonical text of a record, without its identity, vector, version and birth.

    Every store keeps exactly this text and never looks inside it, so numbers and key order come
    back unchanged from every backend.
    """
    body = {name: value for (name, empty), value in zip(_PLAIN, _plain_values(record), strict=True) if value != empty}
    if record.scope.agent:
        body["agent"] = record.scope.agent
    source = record.source
    if source is not None:
        body["source"] = [source.message_id, source.session_id, source.span, source.role, source.extractor]
    return canonical_json(body)


Stored = tuple[str, str, str, str, Vector | None, int, Born]
"""A record as stores keep it: id, layer, session, the text from `payload_of`, vector, version and birth."""


def record_from(
    partition: Partition,
    id: str,
    layer: str,
    session: str,
    payload: str,
    vector: Vector | None,
    version: int,
    born: Born,
) -> Record:
    """Rebuild a record from the text that `payload_of` wrote and the identity stored beside it."""
    return records_from(partition, ((id, layer, session, payload, vector, version, born),))[0]


def records_from(partition: Partition, stored: Sequence[Stored]) -> list[Record]:
    """The same for many records of one partition: their texts are parsed in one go, and equal scopes are shared."""
    bodies = json.loads(f"[{','.join([row[3] for row in stored])}]")
    scopes: dict[tuple[str, str], Scope] = {}
    records = []
    for (id, layer, session, _, vector, version, born), body in zip(stored, bodies, strict=True):
        if not isinstance(body, dict) or not body.keys() <= _IN_PAYLOAD:
            raise LookupError("not the payload of a record")
        get = body.get
        owner = session, get("agent", "")
        scope = scopes.get(owner)
        if scope is None:
            scope = scopes[owner] = Scope(partition.org, partition.user, owner[1], session)
        record = _Open(
            id, layer, scope, get("content", ""), get("data") or {}, get("metadata") or {}, get("importance", 0.5),
            get("confidence", 1.0), get("created_at", 0), get("event_at"), get("valid_from"), get("valid_to"),
            get("expires_at"), _source_from(get("source")), get("trust", "trusted"), vector, version, born,
        )  # fmt: skip
        records.append(_closed(record))
    return records


def _source_from(raw: Sequence[Any] | None) -> Source | None:
    return Source(raw[0], raw[1], tuple(raw[2]) if raw[2] else None, raw[3], raw[4]) if raw else None


_bare_values = attrgetter(
    "content", "data", "metadata", "importance", "confidence", "created_at", "event_at", "valid_from", "valid_to",
    "expires_at", "trust", "version", "born",
)  # fmt: skip


def bare(record: Record) -> tuple[Any, ...]:
    """Everything in a record except its id, layer, scope and vector, as plain values."""
    source = record.source
    told = source and (source.message_id, source.session_id, source.span, source.role, source.extractor)
    return told, *_bare_values(record)


def record_with(id: str, layer: str, scope: Scope, vector: Vector | None, bare: tuple[Any, ...]) -> Record:
    """Rebuild a record from the values that `bare` returned and the rest of its fields."""
    source, content, data, metadata, importance, confidence, created, event, begins, ends, over, trust, *store = bare
    return _closed(
        _Open(
            id, layer, scope, content, data, metadata, importance, confidence, created, event, begins, ends, over,
            source and Source(*source), trust, vector, *store,
        )
    )  # fmt: skip


def digest_of(record: Record, payload: str) -> bytes:
    """A hash of the whole record without version and birth. Equal records have equal digests."""
    scope, vector = record.scope, record.vector
    # The repr of a plain tuple shows where each part begins and ends.
    identity = repr((record.id, record.layer, scope.org, scope.user, scope.session, vector and vector.model))
    hasher = hashlib.blake2b(identity.encode(), digest_size=16)
    hasher.update(payload.encode())
    if vector:
        hasher.update(vector.data)
    return hasher.digest()


@dataclass(frozen=True, slots=True)
class Job:
    """Work for later, written in the same commit as what caused it.

    `attempt` is the lease token: a commit that finishes a job must name the attempt that is still
    the newest. Clocks decide only when a job is offered again.
    """

    id: str
    partition: Partition
    kind: str
    refs: tuple[str, ...] = ()
    due_at: int = 0
    attempt: int = 0


def enrich_job(partition: Partition, refs: tuple[str, ...], now: int) -> Job:
    """The job that enriches new records: their embedding, their importance, and what can be learned from them."""
    return Job(f"enrich:{new_id(now)}", partition, "enrich", refs, now)


def enrich_jobs(partition: Partition, refs: tuple[str, ...], now: int) -> tuple[Job, ...]:
    """The same, for a change that may have no record to enrich."""
    return (enrich_job(partition, refs, now),) if refs else ()


@dataclass(frozen=True, slots=True)
class Changes:
    """One change to one partition: it lands whole or not at all.

    `key` makes it happen only once, `needs` names records that must still live, `epoch` is the
    epoch of the partition as the writer read it.
    """

    partition: Partition
    put: tuple[Record, ...] = ()
    drop: tuple[str, ...] = ()
    enqueue: tuple[Job, ...] = ()
    finish: tuple[Job, ...] = ()
    key: str | None = None
    needs: tuple[str, ...] = ()
    epoch: int | None = None

    def sent(self, enqueue: tuple[Job, ...], key: str | None) -> Changes:
        """The same change as it goes to a store, with these jobs under this key. Faster than `dataclasses.replace`."""
        return Changes(self.partition, self.put, self.drop, enqueue, self.finish, key, self.needs, self.epoch)

    def and_(self, **more: tuple[Any, ...]) -> Changes:
        """The same change with further operations added."""
        return replace(self, **{name: getattr(self, name) + extra for name, extra in more.items()})


@dataclass(frozen=True, slots=True)
class Leg:
    """One reason why a record was found: the raw score, its rank in that leg (0: not counted), what it contributed."""

    score: float
    rank: int
    share: float


class Hit:
    """A record that was found, its place among the hits, and why it was found.

    Search finds records in an index that serves other callers too. A hit from `apart` copies its records when they
    are first read, because most callers look at `id` and `content` only.
    """

    __slots__ = ("_neighbours", "_record", "_shared", "legs", "place", "score")

    score: float
    place: int
    legs: Mapping[str, Leg]

    def __init__(
        self,
        record: Record,
        score: float,
        place: int,
        legs: Mapping[str, Leg] = MappingProxyType({}),
        neighbours: tuple[Record, ...] = (),
    ) -> None:
        self._record, self._neighbours, self._shared = record, neighbours, False
        self.score, self.place, self.legs = score, place, legs

    @property
    def record(self) -> Record:
        """The record that was found."""
        if self._shared:
            self._copy()
        return self._record

    @property
    def neighbours(self) -> tuple[Record, ...]:
        """The messages right before and after the record, if it is a message."""
        if self._shared:
            self._copy()
        return self._neighbours

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def content(self) -> str:
        return self._record.content

    def apart(self) -> Hit:
        """The same hit for a caller that may change its records: they are copied before they are handed out."""
        hit = Hit(self._record, self.score, self.place, self.legs, self._neighbours)
        hit._shared = True
        return hit

    def of(self, record: Record) -> Hit:
        """The same hit, holding another record."""
        return Hit(record, self.score, self.place, self.legs, self.neighbours)

    def _copy(self) -> None:
        self._record = self._record.apart()
        self._neighbours = tuple([each.apart() for each in self._neighbours])
        self._shared = False

    @property
    def relevance(self) -> float:
        """How likely this is to answer the question, 0 to 1, whatever else was found. The score only orders hits."""
        likely: float = getattr(self.legs, "relevance", 0.0)
        return likely

    def explain(self) -> str:
        """One line: the score, and what each leg contributed, largest first. Legs that added nothing are omitted."""
        legs = sorted(self.legs.items(), key=lambda item: -item[1].share)
        parts = [_told(name, leg) for name, leg in legs if abs(leg.share) >= LEAST_TOLD]
        return f"{self.score:.2f} = {' '.join(parts).removeprefix('+ ')}" if parts else f"{self.score:.2f}"

    @property
    def reason(self) -> str:
        """Why it was found, in plain words: the strongest reasons, at most three."""
        return _reason(self.legs)

    def to_dict(self) -> dict[str, Any]:
        """The hit as documented JSON: its place, and why it was found."""
        legs = dict(self.legs)  # each is worked out when it is looked at
        return {
            "id": self.id,
            "content": self.content,
            "score": self.score,
            "relevance": self.relevance,
            "place": self.place,
            "reason": _reason(legs),
            "legs": {name: {"score": leg.score, "rank": leg.rank, "share": leg.share} for name, leg in legs.items()},
            "record": self.record.to_dict(),
        }

    def __repr__(self) -> str:
        return f"Hit(#{self.place}, {self.score:.2f}, {_begin(self.content)!r}, id={self.id!r})"


REASONS = {
    "words": "shares words with the question",
    "meaning": "is close in meaning",
    "surroundings": "is next to a good match",
    "session": "is from a conversation about this",
    "speaker": "was said by the person asked about",
    "time": "is from the time asked about, or mentions it",
    "reranker": "a second look confirms it",
    "current": "is the latest word on this",
}
"""What each leg that depends on the question means, in plain words."""
REASON_LEAST, REASONS_MAX = 0.02, 3
"""A leg that contributed less is not named, and nobody reads more than three reasons."""
FITS = 0.2
"""If no hit is more relevant than this, people are told that nothing really fits: most questions about other things
stay below it, few of those that have an answer do."""
LEAST_TOLD = 0.005
"""What rounds to 0.00 explains nothing."""


def _reason(legs: Mapping[str, Leg]) -> str:
    told = [(leg.share, name) for name, leg in legs.items() if leg.share >= REASON_LEAST and name in REASONS]
    told.sort(key=lambda each: -each[0])
    return ", ".join(REASONS[name] for _, name in told[:REASONS_MAX]) or "a weak match"


def _told(name: str, leg: Leg) -> str:
    """What a leg added or subtracted, with the rank within the leg where that is of interest."""
    place = f" (#{leg.rank})" if name in ("words", "meaning") else ""
    return f"{'-' if leg.share < 0 else '+'} {name} {abs(leg.share):.2f}{place}"


def _begin(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def in_portions(
    items: Iterable[Portioned], size_of: Callable[[Portioned], int], *, count_max: int, size_max: int
) -> Iterator[list[Portioned]]:
    """The items in order, in portions that each fit into one commit by count and by size."""
    portion: list[Portioned] = []
    held = 0
    for item in items:
        size = size_of(item)
        if portion and (len(portion) == count_max or held + size > size_max):
            yield portion
            portion, held = [], 0
        portion.append(item)
        held += size
    if portion:
        yield portion


# ── places beside a store ────────────────────────────────────────────────────────────────────────


STANDS_IN = "stands_in"
"""The metadata label of a message that names a place outside our stores which also holds it."""


class Place(Protocol):
    """A place outside our stores that also holds messages of a session: what is forgotten is deleted there as well."""

    @property
    def name(self) -> str:
        """Its name for people; messages held there carry it as a label."""
        ...

    @property
    def session(self) -> str:
        """The session whose messages it holds."""
        ...

    async def forget(self, ids: Collection[str] | None) -> int:
        """Delete these messages there, or all of the session. Returns how many were deleted."""
        ...
