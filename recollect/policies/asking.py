"""Questions that ask for more than one thing, split up: each part is also searched for by itself.

The patterns are few and safe: a part is only cut off where it can stand alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from recollect.policies.dates import COUNT
from recollect.policies.patterns import pattern_of

PARTS_MAX = 3
"""Parts of one question; a question with more is better served as a whole."""
QUESTION_CHARACTERS = 500
TEXT_CHARACTERS = 2_000

_ASKS = r"(?:what|when|where|which|who|whose|why|how|did|do|does|is|are|was|were|have|has|had|can|could|should|will)"
_JOINS = frozenset({"and", "or", "but"})
_AND_ASKS = pattern_of(rf"(?:,|;|\?)?\s+(?:and|or|but)\s+(?:also\s+)?(?={_ASKS}\b)|\?\s+(?=\w)|;\s+", re.IGNORECASE)
_BETWEEN = pattern_of(r"\bbetween\s+(?P<first>.{6,120}?)\s+and\s+(?P<second>.{6,120})", re.IGNORECASE)
_FIRST_OR = pattern_of(
    r"\b(?:first|earlier|before|sooner|more|longer|older|cheaper|later|last)\b[^,:]{0,80}[,:]\s*"
    r"(?P<first>.{6,120}?),?\s+or\s+(?P<second>.{6,120})",
    re.IGNORECASE,
)


_SUBJECT = r"(?:i|we|he|she|they|my|our|his|her|their|the|[a-z]+ing|[a-z]+'s)"
_EVENT = pattern_of(
    rf"\b(?P<count>{COUNT})\s+"
    rf"(?P<unit>day|week|month|year)s?\s+(?P<side>before|after)\s+(?P<event>{_SUBJECT}\b[^,;?]{{3,120}})",
    re.IGNORECASE,
)
_HOW_LONG = pattern_of(
    r"\bhow (?:long|many (?:day|week|month|year)s)\b(?P<one>.{0,160}?)\b(?:before|after|since|until)\s+"
    rf"(?P<other>{_SUBJECT}\b.{{3,160}})",
    re.IGNORECASE,
)
_TURN = pattern_of(r"\b(?:did|had|when|was)\s+(?=(?:i|we|he|she|they|my)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Event:
    """What a question measures time from: "two weeks before my trip" has the side "before" and the event "my trip"."""

    side: str
    text: str
    count: str
    unit: str


def _has_one(text: str, *words: str) -> bool:
    """Whether one of these occurs in a text, even as part of a word."""
    lowered = text.lower()
    return any(word in lowered for word in words)


def event_of(question: str) -> Event | None:
    """The event that a question counts time from, or None.

    >>> event_of("What did we plan two weeks after my trip to Rome?")
    Event(side='after', text='my trip to Rome', count='two', unit='week')
    """
    text = question[:QUESTION_CHARACTERS]
    match = _EVENT.search(text) if _has_one(text, "before", "after") else None
    if match is None:
        return None
    return Event(match["side"].lower(), match["event"].strip(), match["count"].lower(), match["unit"].lower())


_NAME = pattern_of(r"(?<![.!?:\"'“‘]\s)(?<!^)\b[A-Z][\w’'-]*[a-z]\w*\b(?:\s+[A-Z][\w’'-]*[a-z]\w*\b)*")


def names_in(text: str) -> list[str]:
    """The names in a text: capitalised words that do not begin a sentence.

    >>> names_in("My wife Anna met the mayor. Her brother Karl Berg came too.")
    ['Anna', 'Karl Berg']
    """
    return list(dict.fromkeys(_NAME.findall(text[:TEXT_CHARACTERS])))


def _two_ends(text: str) -> list[str]:
    """Both ends of a stretch of time whose length is asked for: each is mentioned somewhere else."""
    match = _HOW_LONG.search(text)
    if match is None:
        return []
    ends = [match["one"], *_TURN.split(match["other"], maxsplit=1)]
    return [end.strip(" ?,") for end in ends if len(end.split()) >= 3][:PARTS_MAX]


def parts(question: str) -> list[str]:
    """The things that a question asks for, one by one; empty when it asks for only one.

    >>> parts("Where does Ana live and what does she do?")
    ['Where does Ana live', 'what does she do?']
    >>> parts("How many days passed between my visit to the museum and the concert in the park?")
    ['my visit to the museum', 'the concert in the park?']
    >>> parts("Which did I buy first, the red bicycle or the sewing machine?")
    ['the red bicycle', 'the sewing machine?']
    """
    text = question[:QUESTION_CHARACTERS].strip()
    if _JOINS.isdisjoint(text.lower().split()) and not _has_one(text, ";", "how") and "?" not in text[:-1]:
        return []  # no pattern can match, as in most questions
    for pattern in (_BETWEEN, _FIRST_OR):
        match = pattern.search(text)
        if match is not None:
            return [match["first"].strip(), match["second"].strip()]
    ends = _two_ends(text)
    if len(ends) > 1:
        return ends
    cut = [part.strip() for part in _AND_ASKS.split(text) if len(part.split()) >= 3]
    return cut[:PARTS_MAX] if len(cut) > 1 else []
