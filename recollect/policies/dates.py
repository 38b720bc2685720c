"""The time a question is about: "in May 2023", "last week", "three days ago", relative to when it is asked.

The patterns are our own, few and safe: a stretch of time is only returned where the words leave no doubt
that one is meant. Weeks begin on Monday; all times are UTC. The stretch is [start, end) in milliseconds.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from recollect.policies.patterns import pattern_of
from recollect.policies.words import split, spoken
from recollect.records import DAY_MS, as_datetime, as_ms

Span = tuple[int, int]

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "a couple of": 2, "a few": 3, "few": 3, "several": 4,
}  # fmt: skip
_NAMES_OF_MONTHS = {name: number for number, name in enumerate(MONTHS, 1)} | {
    name[:length]: number for number, name in enumerate(MONTHS, 1) for length in (3, 4 if name[0] == "s" else 3)
}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month in which each begins, in the northern hemisphere."""
_SEASONS_OR = f"(?:{'|'.join(_SEASONS)})"
_MONTH = "|".join(sorted(_NAMES_OF_MONTHS, key=len, reverse=True))
COUNT = rf"\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}"
"""How a number is written in a question."""
_DATE = pattern_of(
    rf"\b(?:(?P<day_first>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{_MONTH})\b\.?"
    r"(?:\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?!\d))?(?:,?\s+(?:of\s+)?(?P<year>\d{4}))?"
)
_ISO = pattern_of(r"\b(\d{4})-(\d{2})-(\d{2})(?:\b|(?=t\d))")
_YEAR = pattern_of(r"\b(?:in|during|since|of|year|before|after|until)\s+((?:19|20)\d\d)\b(?!\.\d)")
_AGO = pattern_of(rf"(?<!half )\b(?P<count>{COUNT}) (?P<unit>day|week|weekend|month|year)s? ago\b")
_PAST = pattern_of(rf"\bthe (?:last|past) (?:(?P<count>{COUNT}) )?(?P<unit>day|week|month|year)s?\b(?! of)")
_LAST = pattern_of(rf"\b(?:last|this past) (week|weekend|month|year|{'|'.join(DAYS)}|{_MONTH})\b(?! of)")
_SEASON = pattern_of(
    r"(?:\b(?:(?P<last>last|this past)|(?P<this>this)|in (?:the )?(?:early |late )?|during (?:the )?|since)\s*"
    rf"\b|\b(?={_SEASONS_OR} (?:of )?\d{{4}}))(?P<season>{_SEASONS_OR})\b(?! of \D)"
    r"(?:\s+(?:of\s+)?(?P<year>\d{4}))?"
)
_NEAR = pattern_of(r"\b(today|yesterday|(?:earlier )?this (?:week|month|year))\b")
_COMING = pattern_of(
    r"\b(?:tomorrow|(?:(?:in|over|for|during|within) the |(?<!the ))"
    rf"next (?P<next>week|weekend|month|year|{'|'.join(DAYS)})"
    rf"|this (?:coming )?(?P<this>weekend|{'|'.join(DAYS)}))\b"
)
_BETWEEN = pattern_of(r"\b(?:between|from) (?P<first>[^,?]{3,30}?) (?:and|to|until) (?P<second>[^,?]{3,30})")
_RELATIVE = pattern_of(r"\b(?:last|past|ago|today|yesterday|tomorrow|next|this)\b")
"""Such a time counts from the moment of asking, also beside one with a year."""
_A_YEAR = timedelta(days=365)
_ENDLESS = datetime(9999, 1, 1, tzinfo=UTC)
_BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
_LEAP_DAY = 2, 29
_LENGTH_DAYS = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
_DONE = "!"
"""Marks words that are English already."""
_UNITS = "day|week|weekend|month|year"
_TIME = f"{_UNITS}|{'|'.join((*MONTHS, *DAYS, *_SEASONS))}"
_ORDERS = (
    (pattern_of(rf"\b({_TIME}) (last|next)\b(?! (?:{_TIME})\b)"), r"\2 \1"),
    (pattern_of(rf"\b(?:ago|before) ((?:{COUNT}) (?:{_UNITS}))\b"), r"\1 ago"),
    (pattern_of(rf"\b((?:{COUNT}) (?:{_UNITS})) since\b"), r"\1 ago"),
    (pattern_of(r"\b(since|before|after) of\b"), r"\1"),
    (pattern_of(rf"\blast ((?:{COUNT}) (?:{_UNITS}))\b"), r"the past \1"),
)
"""How other languages put the words of a time, and how English does."""
QUESTION_CHARACTERS = 500
TOLD_MS = 10 * DAY_MS
"""Someone who says "last week" may mean any day of it."""
_A_DAY = frozenset({*DAYS, "weekend", "week", "day", "night", "evening"})
"""Followed by "before" or "after", these mean one of the days next to the time named."""
_BEFORE_A_MONTH = ("in", "since", "during", "last", "early", "late", "around", "before", "after", "until", "mid")
_OF_A_MONTH = frozenset({
    *DAYS, "beginning", "start", "middle", "end", "half", "part", "rest", "most", "all", "month", "weekend", "week",
    "weeks", "day", "days", "first", "second", "third",
})  # fmt: skip
"""What may stand before "of" and a month. "The mother of June" and "what is known of April" name no month."""
_BESIDE = frozenset({"the", "this", "last", "early", "late", "mid", "about", "around", "of", "in"})
"""What may stand between "before" and a time. "Before work yesterday" is yesterday."""
Stretch = tuple[datetime, datetime]


def span_of(question: str, at: int, language: str = "en") -> Span | None:
    """The stretch of time that a question names, or None. "Before" and "since" yield a stretch with an open end.

    >>> from recollect.records import iso
    >>> [iso(time)[:10] for time in span_of("What did I do in May 2023?", 1_700_000_000_000)]
    ['2023-05-01', '2023-06-01']
    >>> [iso(time)[:10] for time in span_of("Whom did I meet between March and June 2023?", 1_700_000_000_000)]
    ['2023-03-01', '2023-07-01']
    """
    asked = question[:QUESTION_CHARACTERS].lower()
    text, now = asked if language == "en" else _in_english(asked, language), as_datetime(at)
    found = _between(text, now) or _first(text, now)
    if found is None and text is not asked:  # people who talk in two languages may name the time in English
        found = _between(asked, now) or _first(asked, now)
    return None if found is None or found[0] >= found[1] else (as_ms(found[0]), as_ms(found[1]))


def tells_of(told: Span | None, asked: Span) -> bool:
    """Whether what names one stretch of time tells of another: "yesterday", said the day after.

    It must be about as short as the one asked for: "last year" tells of no day.

    >>> monday, tuesday = 1_700_438_400_000, 1_700_524_800_000
    >>> told = [span_of(said, tuesday) for said in ("Yesterday I went bowling.", "I love bowling.")]
    >>> [tells_of(each, (monday, tuesday)) for each in told]
    [True, False]
    """
    if told is None:
        return False
    length = max(TOLD_MS, asked[1] - asked[0])
    return told[0] < asked[1] and told[1] > asked[0] and told[1] - told[0] <= length


def _in_english(text: str, language: str) -> str:
    """A text in another language with the words that tell a time in English and x for all others, if it has such words.

    >>> _in_english("was war vor zwei wochen?", "de"), _in_english("et la semaine dernière ?", "fr")
    ('x x two week ago', 'and x last week')
    """
    own = spoken(language)
    if own is None or not own.row.times:
        return text
    asked = split(text)
    if own.is_english(asked):
        return text
    said = f" {' '.join(asked)} "
    for phrase, english in own.times.items():
        if " " in phrase:
            said = said.replace(f" {phrase} ", f" {english}{_DONE} ")
    words = said.split()
    told = [word.removesuffix(_DONE) if _DONE in word or word.isdigit() else own.time_word(word) for word in words]
    if not any(word and not word.isdigit() for word in told):
        return text
    written = " ".join([word or "x" for word in told])
    for pattern, order in _ORDERS:
        written = pattern.sub(order, written)
    return written


def span_around(moment: int, side: str, count: str = "", unit: str = "") -> Span:
    """The time `before` or `after` a moment; with a count and a unit, about that long before or after it."""
    if count:
        back = _length_of(count, unit) * (-1 if side == "before" else 1)
        try:
            start, end = _around(as_datetime(moment) + back, unit)
            return as_ms(start), as_ms(end)
        except OverflowError:
            pass  # beyond all calendars: before or after it is all that can be said
    return (as_ms(_BEGINNING), moment) if side == "before" else (moment, as_ms(_ENDLESS))


def _length_of(count: str, unit: str) -> timedelta:
    """How long "two weeks" is, roughly."""
    return timedelta(days=_LENGTH_DAYS[unit]) * (int(count) if count.isdigit() else _NUMBERS[count])


def _first(text: str, now: datetime) -> Stretch | None:
    """The stretch that the surest words name, opened by the words before them."""
    for read, needed in _READERS:
        if not any(map(text.__contains__, needed)):
            continue
        try:
            found = read(text, now)
            if found is not None:
                return _opened(found[0], text, found[1], now)
        except (ValueError, OverflowError):
            continue  # a day that no calendar contains
    return None


def _between(text: str, now: datetime) -> Stretch | None:
    """From the beginning of the first to the end of the second; a year given once applies to both."""
    match = _BETWEEN.search(text) if "between " in text or "from " in text else None
    if match is None:
        return None
    year = re.search(r"\b\d{4}\b", match["second"])
    told = re.search(r"\d{4}", match["first"]) is not None
    start = _first(f"in {match['first']}" if year is None or told else f"in {match['first']} {year[0]}", now)
    if start is None:
        return None
    if told and year is None and start[1] - start[0] < _A_YEAR and _RELATIVE.search(match["second"]) is None:
        end = _first_after(start[0], f"in {match['second']}")
    else:
        end = _first(f"in {match['second']}", now)
    return (start[0], end[1]) if end and start[0] < end[1] else None


def _first_after(start: datetime, text: str) -> Stretch | None:
    """What words without a year mean after a date with one: in the same year, or the next."""
    for year in (start.year, start.year + 1):
        found = _first(text, datetime(min(year, 9998), 12, 31, tzinfo=UTC))
        if found and found[1] > start:
            return found
    return None


def _opened(match: re.Match[str], text: str, found: Stretch, now: datetime) -> Stretch:
    """The stretch as modified by the word before it: since then, before then, after then."""
    lead = (text[: match.start()] + re.split(r"\W", match[0])[0]).rstrip().split()[-3:]
    week = timedelta(days=7) if _A_DAY.intersection(lead) else None
    if len(lead) > 2 and lead[1] not in _BESIDE:
        lead = lead[1:]
    if "since" in lead:
        return found[0], now + timedelta(days=1)
    if "before" in lead or "until" in lead:
        return (found[0] - week, found[1]) if week else (_BEGINNING, found[0])
    if "after" in lead:
        return (found[0], found[1] + week) if week else (found[1], _ENDLESS)
    return found


Read = tuple[re.Match[str], Stretch]


def _iso(text: str, now: datetime) -> Read | None:
    match = _ISO.search(text)
    if match is None:
        return None
    return match, _day(datetime(*map(int, match.groups()), tzinfo=UTC))  # type: ignore[misc,arg-type]


def _past(text: str, now: datetime) -> Read | None:
    """A length of time until now, as in "the past two weeks"."""
    match = _PAST.search(text)
    if match is None or (match["count"] is None and match[0].startswith("the last")):
        return None  # "the last week of May" is something else
    return match, (now - _length_of(match["count"] or "a", match["unit"]), now + timedelta(days=1))


def _last(text: str, now: datetime) -> Read | None:
    match = _LAST.search(text)
    return None if match is None else (match, _latest_such(match[1], now))


def _latest_such(word: str, now: datetime) -> Stretch:
    """The latest week, month, Friday or May that is over."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in DAYS:
        back = (today.weekday() - DAYS.index(word) - 1) % 7 + 1
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
    month = _NAMES_OF_MONTHS[word]
    return _month(month, now.year - (month >= now.month), now)


def _ago(text: str, now: datetime) -> Read | None:
    match = _AGO.search(text)
    if match is None:
        return None
    return match, _around(now - _length_of(match["count"], match["unit"]), match["unit"])


def _around(moment: datetime, unit: str) -> Stretch:
    """What "two weeks ago" means at that moment: about then, half a unit either side, never less than a day."""
    slack = max(timedelta(days=_LENGTH_DAYS[unit]) / 2, timedelta(days=1))
    return moment - slack, moment + slack


def _season(text: str, now: datetime) -> Read | None:
    """A season of a given year, or the latest that has begun; "last" means one that is over, "this" may lie ahead."""
    match = _SEASON.search(text)
    if match is None:
        return None
    month = _SEASONS[match["season"]]
    year = int(match["year"]) if match["year"] else _latest(month, now)
    if match["this"] and not match["year"] and (month < 12 or now.month > 2):
        year = now.year
    start = datetime(year, month, 1, tzinfo=UTC)
    end = (start + timedelta(days=93)).replace(day=1)
    if match["last"] and end > now:
        start, end = start.replace(year=year - 1), end.replace(year=end.year - 1)
    return match, (start, end)


def _near(text: str, now: datetime) -> Read | None:
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
    start = starts[match[1].removeprefix("earlier ")]
    return match, (start, start + timedelta(days=1) if match[1] == "yesterday" else now + timedelta(days=1))


def _coming(text: str, now: datetime) -> Read | None:
    """Tomorrow, the next week, month or year, or the next such day."""
    match = _COMING.search(text)
    if match is None:
        return None
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    word = match["next"] or match["this"]
    if word is None:
        return match, _day(today + timedelta(days=1))
    if word in DAYS:
        ahead = (DAYS.index(word) - today.weekday()) % 7
        return match, _day(today + timedelta(days=ahead or (7 if match["next"] else 0)))
    monday = today + timedelta(days=7 - today.weekday())
    if word == "week":
        return match, (monday, monday + timedelta(days=7))
    if word == "weekend":
        return match, (monday - timedelta(days=2), monday + timedelta(days=7 if match["next"] else 0))
    if word == "month":
        first = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
        return match, (first, (first + timedelta(days=32)).replace(day=1))
    return match, _whole_year(now.year + 1)


def _date(text: str, now: datetime) -> Read | None:
    for match in _DATE.finditer(text):
        day, year = match["day_first"] or match["day"], match["year"]
        # "May" and "march" are words too: alone they need a preposition before them.
        *_, first, before = "", "", *text[: match.start()].split()[-2:]
        if not (day or year or before in _BEFORE_A_MONTH or (before == "of" and first in _OF_A_MONTH)):
            continue
        month = _NAMES_OF_MONTHS[match["month"]]
        if day is None:
            return match, _month(month, int(year) if year else None, now)
        told = int(year) if year else _latest(month, now)
        while not year and (month, int(day)) == _LEAP_DAY and not isleap(told):
            told -= 1
        return match, _day(datetime(told, month, int(day), tzinfo=UTC))
    return None


def _year(text: str, now: datetime) -> Read | None:
    match = _YEAR.search(text)
    return (match, _whole_year(int(match[1]))) if match else None


def _month(month: int, year: int | None, now: datetime) -> Stretch:
    start = datetime(year or _latest(month, now), month, 1, tzinfo=UTC)
    return start, (start + timedelta(days=32)).replace(day=1)


def _latest(month: int, now: datetime) -> int:
    """The year of the latest such month that has begun."""
    return now.year if month <= now.month else now.year - 1


def _day(start: datetime) -> Stretch:
    return start, start + timedelta(days=1)


def _whole_year(year: int) -> Stretch:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


_READERS: tuple[tuple[Callable[[str, datetime], Read | None], tuple[str, ...]], ...] = (
    (_iso, ("-",)),
    (_past, ("the last", "the past")),
    (_last, ("last ", "past ")),
    (_ago, (" ago",)),
    (_near, ("today", "yesterday", "this ")),
    (_coming, ("tomorrow", "next ", "this ")),
    (_season, tuple(_SEASONS)),
    (_date, tuple(month[:3] for month in MONTHS)),
    (_year, ("19", "20")),
)
"""The surest first, each with what a text contains if it names such a time: a pattern takes far longer to say no."""
