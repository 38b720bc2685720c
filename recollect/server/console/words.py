"""Times, numbers and names as the console writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from recollect.records import as_datetime

FILTERS = ("day", "clock", "moment", "iso8601", "percent", "named", "size", "count", "duration")
"""The filters that templates may use."""
STEPS = ("bytes", "KB", "MB", "GB", "TB")


def day(time: datetime | int | None) -> str:
    """The day of a time: "3 Nov 2026"."""
    then = _utc(time)
    return "" if then is None else f"{then.day} {then:%b %Y}"


def clock(time: datetime | int | None) -> str:
    """The time of a day: "14:05"."""
    then = _utc(time)
    return "" if then is None else f"{then:%H:%M}"


def moment(time: datetime | int | None) -> str:
    """Day and time: "3 Nov 2026, 14:05"."""
    return "" if time is None else f"{day(time)}, {clock(time)}"


def iso8601(time: datetime | int | None) -> str:
    """A time for programs."""
    then = _utc(time)
    return "" if then is None else then.isoformat(timespec="seconds").replace("+00:00", "Z")


def percent(share: float) -> str:
    """A share of one, as a percentage.

    >>> percent(0.345)
    '34 %'
    """
    return f"{share * 100:.0f} %"


def named(name: str) -> str:
    """The name of a key or a relation in words. Not for layers: people type their names elsewhere.

    >>> named("favourite_food")
    'favourite food'
    """
    return name.replace("_", " ")


def size(count: int | None) -> str:
    """A number of bytes.

    >>> size(2_300_000)
    '2.3 MB'
    """
    if count is None:
        return "unknown"
    value, step = float(count), 0
    while value >= 1000 and step < len(STEPS) - 1:
        value, step = value / 1000, step + 1
    return f"{value:.0f} {STEPS[step]}" if step == 0 or value >= 100 else f"{value:.1f} {STEPS[step]}"


def duration(seconds: float) -> str:
    """A short time, to three digits.

    >>> duration(0.0042), duration(0.35), duration(2.425), duration(75.0)
    ('4.2 ms', '350 ms', '2.42 s', '75.0 s')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "message"), count(1204, "message"), count(2, "memory", "memories")
    ('1 message', '1,204 messages', '2 memories')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def spoken(content: str | Sequence[Mapping[str, Any]]) -> str:
    """The readable content of a message: the text of its parts, and the type of any others.

    >>> spoken([{"type": "text", "text": "Look:"}, {"type": "image_url"}])
    'Look:\\n[image_url]'
    """
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or f"[{part.get('type', 'part')}]") for part in content)


def _utc(time: datetime | int | None) -> datetime | None:
    if time is None:
        return None
    return as_datetime(time) if isinstance(time, int) else time.astimezone(UTC)
