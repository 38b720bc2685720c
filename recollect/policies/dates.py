"""When a question is about: "in May 2023", "last week", "three days ago", against the time it is asked.

Own patterns, few and sure: a stretch of time is only given where the words leave no doubt that one
is meant. Weeks begin on Monday; all times are UTC. The stretch is [start, end) in milliseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from recollect.records import as_datetime

Span = tuple[int, int]

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_MONTH = "|".join(_MONTHS)
_DATE = re.compile(
    rf"\b(?:(?P<day_first>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{_MONTH})\b"
    r"(?:\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?!\d))?(?:,?\s+(?P<year>\d{4}))?"
)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_YEAR = re.compile(r"\b(?:in|during|since|of|year)\s+((?:19|20)\d\d)\b")
_AGO = re.compile(rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)}) (day|week|month|year)s? ago\b")
_LAST = re.compile(rf"\b(?:last|this past) (week|weekend|month|year|{'|'.join(_DAYS)}|{_MONTH})\b")
_NEAR = re.compile(r"\b(today|yesterday|this (?:week|month|year))\b")
_LENGTH_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
QUESTION_CHARACTERS = 500


def span_of(question: str, at: int) -> Span | None:
    """The stretch of time that a question names, or None.

    >>> from recollect.records import iso
    >>> [iso(time)[:10] for time in span_of("What did I do in May 2023?", 1_700_000_000_000)]
    ['2023-05-01', '2023-06-01']
    """
    text = question[:QUESTION_CHARACTERS].lower()
    now = as_datetime(at)
    for read in (_iso, _last, _ago, _near, _date, _year):
        try:
            found = read(text, now)
        except (ValueError, OverflowError):
            continue  # a day that no calendar has
        if found is not None:
            return _ms(found[0]), _ms(found[1])
    return None


def _iso(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    match = _ISO.search(text)
    return _day(datetime(*map(int, match.groups()), tzinfo=UTC)) if match else None  # type: ignore[misc,arg-type]


def _last(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    match = _LAST.search(text)
    if match is None:
        return None
    word = match[1]
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in _DAYS:
        back = (today.weekday() - _DAYS.index(word) - 1) % 7 + 1
        return _day(today - timedelta(days=back))
    monday = today - timedelta(days=today.weekday())
    if word == "week":
        return monday - timedelta(days=7), monday
    if word == "weekend":
        return monday - timedelta(days=2), monday
    if word == "month":
        first = today.replace(day=1)
        return (first - timedelta(days=1)).replace(day=1), first
    if word == "year":
        return _whole_year(now.year - 1)
    return _month(_MONTHS.index(word) + 1, None, now)


def _ago(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    match = _AGO.search(text)
    if match is None:
        return None
    count = int(match[1]) if match[1].isdigit() else _NUMBERS[match[1]]
    length = timedelta(days=_LENGTH_DAYS[match[2]])
    # "Two weeks ago" is about then: half a unit around it, and never less than a day.
    slack = max(length / 2, timedelta(days=1))
    return now - count * length - slack, now - count * length + slack


def _near(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    match = _NEAR.search(text)
    if match is None:
        return None
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    starts = {
        "today": today,
        "yesterday": today - timedelta(days=1),
        "this week": today - timedelta(days=today.weekday()),
        "this month": today.replace(day=1),
        "this year": today.replace(month=1, day=1),
    }
    start = starts[match[1]]
    return (start, start + timedelta(days=1)) if match[1] == "yesterday" else (start, now + timedelta(days=1))


def _date(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    for match in _DATE.finditer(text):
        day, year = match["day_first"] or match["day"], match["year"]
        # "May" and "march" are words too: alone they need a preposition before them.
        before = text[: match.start()].rstrip().rpartition(" ")[2]
        if not (day or year or before in ("in", "since", "during", "of", "last", "early", "late", "around")):
            continue
        month = _MONTHS.index(match["month"]) + 1
        if day is None:
            return _month(month, int(year) if year else None, now)
        start = datetime(int(year) if year else _latest(month, now), month, int(day), tzinfo=UTC)
        return _day(start)
    return None


def _year(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    match = _YEAR.search(text)
    return _whole_year(int(match[1])) if match else None


def _month(month: int, year: int | None, now: datetime) -> tuple[datetime, datetime]:
    start = datetime(year or _latest(month, now), month, 1, tzinfo=UTC)
    return start, (start + timedelta(days=32)).replace(day=1)


def _latest(month: int, now: datetime) -> int:
    """The year of the latest such month that has begun."""
    return now.year if month <= now.month else now.year - 1


def _day(start: datetime) -> tuple[datetime, datetime]:
    return start, start + timedelta(days=1)


def _whole_year(year: int) -> tuple[datetime, datetime]:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
