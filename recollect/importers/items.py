"""What readers yield: one stream of items, whatever the source, and what became of them.

A reader is pure: it looks at a source and says what is in it. It stores nothing, and an item that it
cannot understand is a `Problem`, which does not stop the others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeGuard

from recollect import json_text, validate
from recollect.errors import RecollectError, ValidationError
from recollect.records import derived_id

Kind = Literal["entity", "relation", "fact", "memory", "record", "message", "session"]

KINDS: dict[Kind, str] = {
    "entity": "entities",
    "relation": "relations",
    "fact": "facts",
    "memory": "memories",
    "record": "records",
    "message": "messages",
    "session": "sessions",
}
"""Kinds of items in the order in which they are stored, each with its name in the outcome: the ends of a relation
come before it, and a session has messages before it has a title."""
PROBLEMS_KEPT = 100
"""Bad lines that are listed; the rest are only counted, so that a huge bad file cannot fill the memory."""
ORIGIN = "imported_from"
"""The label that says where a message or memory came from."""
NO_SESSION = "imported"
"""The session of messages that name none."""
LEFT_ALONE = "differs here, and was left unchanged"
PAST_ITS_LIFE = "its time to live is over"
SECONDS_MAX, MILLISECONDS_MAX = 10**11, 10**14
"""A number below the first is seconds (up to the year 5138), one below the second milliseconds."""
OWNERS_SHOWN = 1_000
"""Users of a source that are told apart in the outcome; beyond that they are just many."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing from a source: what it is, whose, where it goes, and the arguments of the verb that stores it."""

    line: int
    kind: Kind
    given: Mapping[str, Any]
    session: str = ""
    agent: str = ""
    owner: str = ""
    """Whose it was in the source; the caller decides who it belongs to here."""
    named: bool = False
    """Whether the source named it; something else of that name is reported. Else its id is derived from its text."""
    verbatim: bool = False
    """Whether that name is its id here as well, where another text under it may be anybody's."""
    done: int = 0
    """How much of the source has been read with it, for a progress bar."""
    size: int = 0
    """About how many bytes it takes when it is stored."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that cannot be stored, and why. Never its content."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Expired:
    """A line that was good but has expired."""

    line: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that nobody would miss, and why: it says nothing, or was never shown."""

    line: int
    reason: str


Read = Item | Problem | Expired | LeftOut
Became = Literal["new", "known", "different"]
"""What became of a good line. `different` is known, but reads differently here: it was changed, here or there."""


class Source(Protocol):
    """Something that can be read, from its beginning each time."""

    @property
    def size(self) -> int | None:
        """What `Item.done` grows to; None if that is unknown."""

    def read(self) -> Iterator[Read]:
        """Its items, in order."""


@dataclass(slots=True)
class Imported:
    """What an import did, or would do."""

    messages: int = 0
    memories: int = 0
    records: int = 0
    sessions: int = 0
    facts: int = 0
    entities: int = 0
    relations: int = 0
    new: int = 0
    known: int = 0
    different: int = 0
    """How many of the known ones read differently here."""
    expired: int = 0
    left_out: int = 0
    bad: int = 0
    problems: list[Problem] = field(default_factory=list)
    owners: set[str] = field(default_factory=set)
    stored: bool = True
    last: tuple[str, str] | None = None
    """The last message that is stored now: its owner in the source, and its id."""
    heard: dict[tuple[str, str], int] = field(default_factory=dict)
    """When the last message of each owner's session was said, if the source has that."""
    tell: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Called with what became of each line."""

    def keep(self, item: Item, became: Became) -> None:
        """Note a good line, and what became of it."""
        name = KINDS[item.kind]
        setattr(self, name, getattr(self, name) + 1)
        self.new += became == "new"
        self.known += became != "new"
        self.different += became == "different"
        if len(self.owners) < OWNERS_SHOWN:
            self.owners.add(item.owner)
        if item.kind == "message":
            self._hear(item)
        result = "good" if not self.stored else "new" if became == "new" else "known"
        reason = {"reason": LEFT_ALONE} if self.stored and became == "different" else {}
        self.tell({"line": item.line, "kind": item.kind, "id": item.given.get("id"), "result": result} | reason)

    def _hear(self, item: Item) -> None:
        self.last = item.owner, str(item.given["id"])
        said_at = validate.moment(item.given.get("created_at"), "created_at")
        if said_at is not None:
            place = item.owner, item.session
            self.heard[place] = max(said_at, self.heard.get(place, said_at))

    def report(self, problem: Problem) -> None:
        """Note that a line is bad."""
        self.bad += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)
        self.tell({"line": problem.line, "result": "refused", "reason": problem.reason})

    def expire(self, line: int) -> None:
        """Note that a line has expired."""
        self.expired += 1
        self.tell({"line": line, "result": "expired", "reason": PAST_ITS_LIFE})

    def leave_out(self, left: LeftOut) -> None:
        """Note that a line has nothing to store."""
        self.left_out += 1
        self.tell({"line": left.line, "result": "left out", "reason": left.reason})

    @property
    def read(self) -> int:
        """How many items of its kind the source had, good or bad."""
        kept: int = sum(getattr(self, name) for name in KINDS.values())
        return kept + self.expired + self.bad

    def to_dict(self) -> dict[str, Any]:
        """The outcome as documented JSON."""
        names = (*KINDS.values(), "new", "known", "different", "expired", "left_out", "bad", "stored")
        problems = [{"line": problem.line, "reason": problem.reason} for problem in self.problems]
        users = len(self.owners - {""})
        return {name: getattr(self, name) for name in names} | {"source_users": users, "problems": problems}


def refused(line: int, error: RecollectError) -> Problem:
    """An error as a problem."""
    return Problem(line, str(error))


def is_id(value: object) -> TypeGuard[str]:
    """Whether a name from a source is a valid id here."""
    try:
        validate.identifier(value, "id")
    except ValidationError:
        return False
    return True


class Unnamed:
    """Ids for things that have none in their source, derived from what they say and their place among equals.

    The same words said twice are two messages.
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def id(self, *parts: str) -> str:
        """The next id for something that says this."""
        digest = derived_id(*parts)
        self._seen[digest] += 1
        return derived_id(digest, str(self._seen[digest]))


def session_id(value: object, kind: str, otherwise: str | None = None) -> str:
    """A session's name in a source as one of ours: itself if it is valid, else one derived from it.

    If there is none, it is `otherwise`, or the session for all that name none.

    >>> session_id("monday", "langchain"), len(session_id("{x}", "langchain"))
    ('monday', 28)
    """
    if value is None or value == "":
        return otherwise or NO_SESSION
    name = value if isinstance(value, str) else str(value)
    return name if is_id(name) else derived_id("import", kind, name.encode("utf-8", "backslashreplace").decode())


def time_of(value: object) -> int | None:
    """A time as sources write it, in milliseconds: ISO with a zone or in UTC, or seconds or milliseconds since 1970.

    >>> time_of("1970-01-01 00:01:00"), time_of(60.0), time_of("1970-01-01T01:01:00.000+01"), time_of(None)
    (60000, 60000, 60000, None)
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValidationError("is not a time that can be read", field="created_at") from None
        return validate.moment(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC), "created_at")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MILLISECONDS_MAX:
        raise ValidationError("is not a time that can be read", field="created_at")
    return validate.moment(int(value if abs(value) >= SECONDS_MAX else value * 1000), "created_at")


def json_of(raw: object, field: str) -> Any:
    """The JSON in a cell of a table or a key in Redis."""
    if isinstance(raw, str):
        raw = raw.encode("utf-8", "surrogateescape")
    return json_text.parse(raw if isinstance(raw, bytes) else b"", field, max_bytes=validate.LIMITS.body_bytes)


def object_of(raw: object, field: str) -> dict[str, Any]:
    """The same, but it must be an object."""
    value = json_of(raw, field)
    if not isinstance(value, dict):
        raise ValidationError("must be a JSON object", field=field)
    return value


def size_of(value: object) -> int:
    """About how many bytes a value takes when it is stored; what JSON cannot express is for the gate to refuse."""
    return len(json.dumps(value, default=str))


def labels(kind: str, **more: Any) -> dict[str, Any]:
    """The metadata of something from a source: its kind, and whatever else there is to say."""
    return {ORIGIN: kind} | {name: value for name, value in more.items() if value not in (None, "")}
