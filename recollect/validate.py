"""The single entry gate: every limit, and the checks on incoming data.

Python, REST, MCP, the command line and the importers all pass through here, so a value means the
same everywhere and no store gets one that it cannot keep. A check returns the value, made of plain
types and otherwise exactly as it was given, or raises the typed error that names the field, says
what is allowed, and never carries the value. Messages pass through `contents.py`, filters through
`conditions.py` and JSON text through `json_text.py`, which use the checks here. docs/limits.md
describes all of it for readers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypeVar

from recollect.errors import TooLarge, ValidationError
from recollect.filters import METADATA_KEY
from recollect.layers import PUBLIC_LAYERS, SECTIONS
from recollect.records import DAY_MS, HOUR_MS, MINUTE_MS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit, with the reason beside it. Bytes are bytes of UTF-8."""

    text_bytes: int = 64 * 1024  # a long chat message; 90 of them kept Redis and PostgreSQL busy for 0.3 s
    query_bytes: int = 64 * 1024  # a question may quote a whole message
    title_bytes: int = 512  # one line in a list of sessions
    metadata_bytes: int = 16 * 1024  # labels, not documents: every filter reads them
    metadata_depth: int = 8  # as deep as labels sensibly go; far below any JSON reader's own limit
    metadata_keys: int = 64  # per object; each one is a column in somebody's export
    metadata_key_chars: int = 64  # what the filter grammar can name
    working_bytes: int = 64 * 1024  # the state of a task is rewritten whole on every change
    tool_calls: int = 64  # calls in one message
    tool_calls_bytes: int = 64 * 1024  # arguments are text that a model wrote
    structure_depth: int = 32  # arguments of tools and states nest deeper than labels do
    structure_keys: int = 1_000  # per object; tables keyed by id are common in states
    structure_key_chars: int = 128  # such keys are often ids
    id_chars: int = 128  # fits a key of every backend, percent-encoded and with our prefix
    batch_items: int = 90  # with their job and bookkeeping they fit one atomic write on every store
    limit_max: int = 1_000  # rows per page; further pages come by cursor
    tokens_max: int = 2_000_000  # above the largest existing context window
    filter_depth: int = 8  # nested and, or, not
    filter_tests: int = 64  # each is tested on up to 2,000 rows of a page
    filter_values: int = 100  # values of one `in`
    filter_text_bytes: int = 1_024  # a text to compare with
    body_bytes: int = 1024 * 1024  # a whole request or line of a file, refused before it is parsed
    body_depth: int = 64  # the deepest structure above, with room for what surrounds it
    integer_max: int = 2**63 - 1  # what every backend and JSON reader keeps exactly; likewise below zero
    moment_min_ms: int = -62_135_596_800_000  # 0001-01-01T00:00:00Z, the first that a datetime can hold
    moment_max_ms: int = 253_402_300_799_999  # the last millisecond of 9999


LIMITS = Limits()

ROLES = ("system", "user", "assistant", "tool")
RESERVED_METADATA = frozenset(
    ("user_id", "org_id", "org", "user", "id", "hash", "created_at", "embedding", "layer", "scope", "session", "agent")
)
"""Names that say who owns a record or what it is. A label must not be able to fake either."""


# ── Names and texts ──────────────────────────────────────────────────────────────────────────────

NOT_UNICODE = "must be valid Unicode, without lone surrogates or broken UTF-8"

# Control characters and line ends break logs and protocols, braces choose a Redis slot, and lone
# surrogates are not characters at all.
_NOT_IN_IDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029{}\ud800-\udfff]")


def identifier(value: object, field: str) -> str:
    """A name chosen by others, kept exactly: nothing is trimmed, folded or treated as a pattern.

    >>> identifier("user:42/*", "user")
    'user:42/*'
    """
    checked = value if type(value) is str else string(value, field)
    if not 0 < len(checked) <= LIMITS.id_chars:
        raise ValidationError(f"must have 1 to {LIMITS.id_chars} characters", field=field)
    if checked.isspace():
        raise ValidationError("must not be only whitespace", field=field)
    plain = checked.isprintable() and "{" not in checked and "}" not in checked
    if not plain and _NOT_IN_IDS.search(checked):
        raise ValidationError("must not contain control characters, line ends, lone surrogates, { or }", field=field)
    return checked


def optional_identifier(value: object, field: str) -> str | None:
    """An identifier, or None."""
    return None if value is None else identifier(value, field)


def agent(value: object, field: str = "agent") -> str:
    """The name of an assistant; empty if none is meant."""
    return "" if value is None or value == "" else identifier(value, field)


def text(value: object, field: str = "content", max_bytes: int = LIMITS.text_bytes) -> str:
    """Text that is not blank, kept to the last character, including NUL and zero-width ones."""
    checked = text_within(value, field, max_bytes)
    if not checked or checked.isspace():
        raise ValidationError("must not be empty or only whitespace", field=field)
    return checked


def query(value: object, field: str = "query") -> str:
    """A question to search with. It is plain words, never a search syntax."""
    return text(value, field, LIMITS.query_bytes)


def choice(value: object, options: Collection[str], field: str) -> str:
    """One of these names, spelled exactly."""
    if isinstance(value, str) and value in options:
        return str.__str__(value)
    raise ValidationError(f"must be one of {', '.join(options)}{meant(value, options)}", field=field)


def meant(value: object, options: Iterable[str]) -> str:
    """Asks about the option that this is nearly spelled like; empty if there is none. It says nothing of the value.

    >>> meant("longterm", ["long_term", "fact"])
    '; did you mean long_term?'
    """
    near = get_close_matches(value[: LIMITS.id_chars], options, n=1, cutoff=0.7) if isinstance(value, str) else []
    return f"; did you mean {near[0]}?" if near else ""


def part(value: object, members: Collection[str], field: str) -> None:
    """Check that an object that replaces one of our parts has the members it needs."""
    missing = [name for name in members if not hasattr(value, name)]
    if missing:
        raise ValidationError(f"must have {', '.join(members)}; this one lacks {', '.join(missing)}", field=field)


def function(value: object, field: str) -> None:
    """Something that can be called, or None."""
    if value is not None and not callable(value):
        raise ValidationError("must be a function", field=field)


def clock(value: object, field: str = "clock") -> Callable[[], int]:
    """A clock: a function without arguments that returns whole milliseconds."""
    try:
        now = value() if callable(value) else None
    except TypeError:
        now = None
    if callable(value) and isinstance(now, int) and not isinstance(now, bool):
        return value
    raise ValidationError("must be a function that returns the milliseconds since 1970, as a whole number", field=field)


def role(value: object, field: str = "role") -> str:
    """Who speaks."""
    return choice(value, ROLES, field)


def layer(value: object, field: str = "layer") -> str:
    """A layer that users can name."""
    return choice(value, PUBLIC_LAYERS, field)


def layers(value: object, field: str = "layers") -> tuple[str, ...]:
    """One layer or several, each once; None gives (), which stands for all of them."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        return (layer(value, field),)
    if not value:
        raise ValidationError("must name at least one layer; leave it out for all of them", field=field)
    return tuple(dict.fromkeys(layer(each, field) for each in value))


def sections(value: object, field: str = "sections") -> tuple[str, ...]:
    """Sections of a context, each once; None gives (), which stands for all of them."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not value:
        raise ValidationError("must be a list of sections; leave it out for all of them", field=field)
    return tuple(dict.fromkeys(choice(each, SECTIONS, field) for each in value))


def shares(value: object, field: str = "shares") -> dict[str, float]:
    """The most that sections of a context may take of its budget, 0 to 1 each, by their names."""
    if not isinstance(value, Mapping):
        raise ValidationError('must be an object of sections and their shares, such as {"recent": 0.3}', field=field)
    return {choice(name, SECTIONS, field): unit_interval(share, field) for name, share in value.items()}


def string(value: object, field: str) -> str:
    """Any string."""
    if isinstance(value, str):
        return str.__str__(value)
    raise ValidationError(f"must be a string, not {type(value).__name__}", field=field)


def text_within(value: object, field: str, max_bytes: int) -> str:
    """Text of any kind, also blank, that is not too long."""
    checked = value if type(value) is str else string(value, field)
    size: int | None = len(checked)
    if not checked.isascii() and len(checked) <= max_bytes:
        size = utf8_bytes(checked)
    if size is None:
        raise ValidationError(NOT_UNICODE, field=field)
    if size > max_bytes:
        raise TooLarge(f"must have at most {max_bytes} bytes of UTF-8", field=field)
    return checked


def utf8_bytes(value: str) -> int | None:
    """Its length as UTF-8; None if it cannot be encoded because it contains a lone surrogate."""
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        return None


# ── Numbers and times ────────────────────────────────────────────────────────────────────────────


NO_CURSOR = "not a cursor of this list; start again without one"


def cursor(value: str | None) -> str | None:
    """A cursor as far as it can be checked without its list."""
    if value is not None and (not isinstance(value, str) or not value):
        raise ValidationError(NO_CURSOR, field="after")
    return value


def limit(value: object, field: str = "limit") -> int:
    """How many to return."""
    return _from_one_to(value, LIMITS.limit_max, field)


def tokens_max(value: object, field: str = "max_tokens") -> int:
    """The token budget of a context."""
    return _from_one_to(value, LIMITS.tokens_max, field)


def unit_interval(value: object, field: str) -> float:
    """A number from 0 to 1, as importance and confidence are."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise ValidationError("must be a number from 0 to 1", field=field)


def batch(value: object, field: str = "items") -> list[Any]:
    """Several items for one atomic write. The items themselves are checked one by one."""
    if not isinstance(value, (list, tuple)) or not value:
        kind = "" if isinstance(value, (list, tuple)) else f", not {type(value).__name__}"
        raise ValidationError(f"must be a list with at least one item{kind}", field=field)
    if len(value) > LIMITS.batch_items:
        raise TooLarge(f"must have at most {LIMITS.batch_items} items; send the rest in further calls", field=field)
    return list(value)


def each(value: object, make: Callable[[Any], T], field: str = "items") -> list[T]:
    """What is made of each item of a batch. With several, an error's field says which is wrong: `items.3.content`."""
    items = batch(value, field)
    if len(items) == 1:
        return [make(items[0])]
    made: list[T] = []
    wrong: ValidationError | None = None
    for item in items:
        try:
            made.append(make(item))
        except ValidationError as error:
            wrong = error
            break
    if wrong is not None:  # raised outside the except block, so that no other error is chained to it
        inner = "" if wrong.field in (None, field) else f".{wrong.field}"
        raise type(wrong)(wrong.message, field=f"{field}.{len(made)}{inner}")
    return made


_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?\Z"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDS_ZONE = "must have a timezone: add Z or an offset such as +02:00 (in Python, tzinfo)"


def moment(value: object, field: str) -> int | None:
    """A point in time, in milliseconds since 1970; None stays None.

    Takes an aware datetime, ISO 8601 with an offset or Z, a date (its first instant in UTC), or
    milliseconds. A time without a zone would mean another instant on another machine: it is refused.

    >>> moment("1970-01-02T01:00:00+01:00", "created_at")
    86400000
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        time_ms = int(value)
    elif isinstance(value, datetime):
        time_ms = _datetime_ms(value, field)
    elif isinstance(value, date):
        time_ms = (value.toordinal() - _EPOCH.toordinal()) * DAY_MS
    elif isinstance(value, str):
        time_ms = _datetime_ms(_parsed(value, field), field)
    else:
        raise ValidationError("must be a datetime, ISO 8601 text or whole milliseconds since 1970", field=field)
    if not LIMITS.moment_min_ms <= time_ms <= LIMITS.moment_max_ms:
        raise ValidationError("must be in the years 1 to 9999 (UTC)", field=field)
    return time_ms


def _datetime_ms(value: datetime, field: str) -> int:
    if value.utcoffset() is None:
        raise ValidationError(_NEEDS_ZONE, field=field)
    return (value - _EPOCH) // timedelta(milliseconds=1)


def _parsed(value: str, field: str) -> datetime:
    shape = _MOMENT.match(value)
    parsed = _iso_or_none(value) if shape else None
    if parsed is None:
        raise ValidationError("must be a time such as 2026-03-01T09:30:00Z or a date such as 2026-03-01", field=field)
    return parsed.replace(tzinfo=UTC) if len(value) == len("2026-03-01") else parsed


def _iso_or_none(value: str) -> datetime | None:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def _from_one_to(value: object, most: int, field: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return int(value)
    raise ValidationError(f"must be a whole number from 1 to {most}", field=field)


# ── JSON values ──────────────────────────────────────────────────────────────────────────────────

write_json = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode  # fmt: skip

# A value counted as n takes at least n bytes of JSON and at most this many times n: one
# character may be written \u0000, and a number may be -1.7976931348623157e+308 with its comma.
_BYTES_PER_COUNT = 26

_Path = tuple["_Path", str | int] | None


def metadata_key(key: str) -> bool:
    """Whether a label may have this name: exactly the names that a filter can use."""
    return METADATA_KEY.match(key) is not None and key not in ("__proto__", "constructor", "prototype")


def structure_key(key: str) -> bool:
    """Whether a key may appear in states, parts and tool calls: any printable text."""
    return 0 < len(key) <= LIMITS.structure_key_chars and key.isprintable() and key != "__proto__"


_KEYS_ALLOWED: dict[Callable[[str], bool], str] = {
    metadata_key: "must have only keys that filters can name: a letter or _, then letters without accents, digits, _ "
    f"and -, at most {LIMITS.metadata_key_chars} characters, and none that JavaScript reserves",
    structure_key: f"must have only keys of 1 to {LIMITS.structure_key_chars} printable characters, and none that "
    "JavaScript reserves",
}


def json_value(
    value: object,
    field: str,
    *,
    max_bytes: int,
    depth: int = LIMITS.metadata_depth,
    keys: int = LIMITS.metadata_keys,
    key_rule: Callable[[str], bool] = structure_key,
) -> Any:
    """A deep copy of plain dicts, lists, strings, numbers, booleans and None that JSON can express.

    Nothing is converted except tuples, which become lists: what has no JSON form is refused, with
    the path of keys that leads to it.
    """
    copy = _Copy(field, max_bytes, keys, key_rule)
    checked = copy.of(value, None, depth)
    if copy.count * _BYTES_PER_COUNT > max_bytes and len(write_json(checked).encode()) > max_bytes:
        raise copy.over_size()
    return checked


def metadata(value: object, field: str = "metadata") -> dict[str, Any]:
    """Labels of a record; None means none.

    >>> metadata({"topic": "work", "stars": 4})
    {'topic': 'work', 'stars': 4}
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValidationError(f"must be an object of names and values, not {type(value).__name__}", field=field)
    if not RESERVED_METADATA.isdisjoint(value):
        raise ValidationError(f"must not use a reserved name ({', '.join(sorted(RESERVED_METADATA))})", field=field)
    checked: dict[str, Any] = json_value(value, field, max_bytes=LIMITS.metadata_bytes, key_rule=metadata_key)
    return checked


def working(value: object, field: str = "working") -> Any:
    """The state of a task: any JSON, so that a typed model can be kept in it."""
    return structure(value, field, LIMITS.working_bytes)


def structure(value: object, field: str, max_bytes: int) -> Any:
    """JSON that nests as states, parts and tool calls do."""
    return json_value(value, field, max_bytes=max_bytes, depth=LIMITS.structure_depth, keys=LIMITS.structure_keys)


class _Copy:
    """Copies one value and counts as it goes, so that shared or endless parts are stopped in time."""

    __slots__ = ("count", "field", "key_rule", "keys", "max_bytes")

    def __init__(self, field: str, max_bytes: int, keys: int, key_rule: Callable[[str], bool]) -> None:
        self.field = field
        self.max_bytes = max_bytes
        self.keys = keys
        self.key_rule = key_rule
        self.count = 0

    def of(self, value: object, path: _Path, depth: int) -> Any:
        if isinstance(value, str):
            return self._string(value, path)
        self.count += 1
        if self.count > self.max_bytes:
            raise self.over_size()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return self._number(value, path)
        if not isinstance(value, (dict, list, tuple)):
            raise self._refused(f"must be JSON, which has no {type(value).__name__}", path)
        if depth == 0:
            raise self._refused("must not nest this deeply, nor contain itself", path)
        if isinstance(value, dict):
            return self._object(value, path, depth - 1)
        return [self.of(each, (path, place), depth - 1) for place, each in enumerate(value)]

    def _object(self, value: dict[Any, Any], path: _Path, depth: int) -> dict[str, Any]:
        if len(value) > self.keys:
            raise TooLarge(f"must have at most {self.keys} keys in one object", field=self._named(path))
        checked = {}
        for key, each in value.items():
            if not isinstance(key, str) or not self.key_rule(key):
                raise self._refused(_KEYS_ALLOWED[self.key_rule], path)
            self.count += len(key) + 2
            checked[str.__str__(key)] = self.of(each, (path, key), depth)
        return checked

    def _string(self, value: str, path: _Path) -> str:
        self.count += len(value) + 2
        if self.count > self.max_bytes:
            raise self.over_size()
        if not value.isascii() and utf8_bytes(value) is None:
            raise self._refused(NOT_UNICODE, path)
        return str.__str__(value)

    def _number(self, value: int | float, path: _Path) -> int | float:
        if isinstance(value, int):
            if abs(value) > LIMITS.integer_max:
                raise self._refused("must be a whole number within 63 bits", path)
            return int(value)
        if not math.isfinite(value):
            raise self._refused("must be a finite number", path)
        return float(value)

    def over_size(self) -> TooLarge:
        return TooLarge(f"must have at most {self.max_bytes} bytes as JSON", field=self.field)

    def _refused(self, message: str, path: _Path) -> ValidationError:
        return ValidationError(message, field=self._named(path))

    def _named(self, path: _Path) -> str:
        steps = []
        while path is not None:
            path, step = path
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
        return self.field + "".join(reversed(steps))


# ── Lifetimes ────────────────────────────────────────────────────────────────────────────────────

LIFE_DAYS_MAX = 3_650
KEPT = "kept"
"""The lifetime of what does not expire."""

_LIFE = re.compile(r"([1-9][0-9]{0,5})(m|h|d|w)\Z")
UNIT_MS = {"m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}


def life_ms(value: object, field: str) -> int:
    """A lifetime written as "90d", "12h" or "30m", in milliseconds.

    >>> life_ms("90d", "expires") == 90 * 24 * 3600 * 1000
    True
    """
    found = _LIFE.match(value) if isinstance(value, str) else None
    life = int(found[1]) * UNIT_MS[found[2]] if found else 0
    if not 0 < life <= LIFE_DAYS_MAX * DAY_MS:
        raise ValidationError(f"must be a duration such as 90d, 12h or 30m, at most {LIFE_DAYS_MAX} days", field=field)
    return life


def lives(value: Mapping[str, str]) -> dict[str, int | None]:
    """The lifetimes of layers in milliseconds; None for what is kept.

    >>> lives({"episodic": "52w", "conversation": "kept"})
    {'episodic': 31449600000, 'conversation': None}
    """
    return {
        layer(name, "lives"): None if life == KEPT else life_ms(life, f"lives.{name}") for name, life in value.items()
    }


# ── Facts, learnings and instructions ────────────────────────────────────────────────────────────

FACT_VALUE_BYTES = 4 * 1024
"""A value is a name, a place, a short phrase. A paragraph is a memory."""
REASON_BYTES = 512
"""One line that says why something was ended."""
LEARNING_BYTES = 8 * 1024
"""A few sentences: each is in every prompt where it is useful."""
INSTRUCTION_CHARS = 4_000
"""About a page: all of them are in every prompt."""
LEARNING_TYPES = ("preference", "pattern", "correction")


def fact_value(value: object, field: str = "value") -> str:
    """The value of a fact or preference, as text."""
    return text(value, field, FACT_VALUE_BYTES)


def named_fields(
    value: object, known: Collection[str], needed: Collection[str], field: str = "items"
) -> Mapping[str, Any]:
    """The named fields of one item; an unknown or missing one is reported by name."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValidationError("must have objects with named fields", field=field)
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None:
        raise ValidationError(f"has an unknown field {unknown[:40]!a}; the fields are {', '.join(known)}", field=field)
    for name in needed:
        if name not in value:
            raise ValidationError("must be given", field=name)
    return value


def reason(value: object, field: str = "reason") -> str:
    """Why something was done, for whoever looks later; it may be empty."""
    return text_within(value, field, REASON_BYTES)


def learning(value: object, field: str = "content") -> str:
    """What was learned, in words."""
    return text(value, field, LEARNING_BYTES)


def instruction(value: object, field: str = "text") -> str:
    """A standing instruction of a user for an agent."""
    checked = text(value, field)
    if len(checked) > INSTRUCTION_CHARS:
        raise TooLarge(f"must have at most {INSTRUCTION_CHARS} characters", field=field)
    return checked


def switch(value: object, field: str) -> bool:
    """On or off, given as true or false and nothing else."""
    if isinstance(value, bool):
        return value
    raise ValidationError("must be true or false", field=field)
