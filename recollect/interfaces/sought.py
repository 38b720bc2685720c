"""What sort of thing a question asks for, and whether a text has any such thing in it.

A message may share every word with a question and still not answer it: "picking up my daughter from school" does not
say what she is called. Where nothing of the sort is in a text, it is not told as the answer.
"""

from __future__ import annotations

import re

from recollect.enrich.names import CITIES, COUNTRIES, FIRST_NAMES, NAMES_AND_WORDS, REGIONS
from recollect.policies.dates import DAYS, MONTHS
from recollect.policies.keys import ALIASES, PEOPLE

OF_SOMEBODY = re.compile(
    rf"\b(?:my|our) (?:[\w-]+ ){{0,2}}?(?:{'|'.join(alias for alias, key in ALIASES.items() if key in PEOPLE)}"
    rf"|{'|'.join(PEOPLE)})s?\b",
    re.IGNORECASE,
)
"""Questions about somebody in the user's life, which nothing known of the user answers: "how old is my grandma?"."""
_ASKS_FOR: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (sort, re.compile(pattern, re.IGNORECASE))
    for sort, pattern in (
        ("name", rf"\bwh(?:at|o)\b.*{OF_SOMEBODY.pattern}.*\b(?:names?|called)\W*$|\bname of {OF_SOMEBODY.pattern}"),
        ("number", r"\bhow (?:old|much(?! (?:do|did|does) (?:i|we) (?:like|love))|many|tall|heavy|far)\b"),
        ("person", r"\A\W*(?:(?:and|so|but|remind me) )?(?:who|whom|whose)\b(?! am i\b)"),
        ("place", r"\A\W*(?:(?:and|so|but|remind me) )?where\b"),
    )
)
_NUMBER = re.compile(
    r"\d|\b(?:no|none|nothing|free|half|both|all|once|twice|double|dozens?|couple|few|several|hundreds?|thousands?|an?|one|two"
    r"|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty)\b",
    re.IGNORECASE,
)
_CAPITALISED = re.compile(r"(?<![.!?:;\n…“\"] )(?<!\A)(?<!\n)\b(?!I\b|I['’])[A-Z][^\W\d_]+")
_SOMEBODY = re.compile(
    r"\b(?:I did|she|he|they|him|her|mum|mom|dad|mother|father|sister|brother|son|daughter|wife|husband|partner"
    r"|girlfriend|boyfriend|friend|mate|boss|manager|doctor|neighbour|neighbor|colleague|teacher|aunt|uncle|cousin"
    r"|gran\w*|nan|kids?|parents?|team|people|nobody|everyone|called|named)\b",
    re.IGNORECASE,
)
_SOMEWHERE = re.compile(
    r"\b(?:in(?:to|side)?|at|to|from|near|on|by|via|behind|under|next to|beside|opposite|above|below|around|outside"
    r"|off)\s"
    r"(?!(?:him|her|me|us|them|it|you|this|that|be|do|get|go|have|the (?:way|phone|weekend|whole))\b)"
    r"|\b(?:here|there|home|upstairs|downstairs|abroad|online|nowhere|live|lives)\b",
    re.IGNORECASE,
)
_CALLED = re.compile(r"\b(?:called|named|names?(?:'s|’s| is| are)|goes by)\b", re.IGNORECASE)


_PLACES = frozenset({*CITIES, *REGIONS, *COUNTRIES}) - FIRST_NAMES
_TIMES = frozenset({*DAYS, *MONTHS}) - {"april", "june"}


def _written_small(text: str, asked: str) -> bool:
    """Whether somebody else than the question names is named in a text without capitals: "picked up mia"."""
    small = {word.strip(".,!?'’s") for word in text.split() if word.islower()}
    return any(word in FIRST_NAMES and word not in NAMES_AND_WORDS and word not in asked for word in small)


def may_answer(question: str, text: str) -> bool:
    """Whether a text has anything of the sort that a question asks for; True where that cannot be told.

    >>> may_answer("What is my daughter's name?", "I'm picking up my daughter from school.")
    False
    >>> may_answer("What is my daughter's name?", "Picking up my daughter Mia from school.")
    True
    >>> may_answer("How much is the rent?", "The rent is due on Monday.")
    False
    >>> may_answer("How is the rent paid?", "The rent is due on Monday.")
    True
    """
    sort = next((sort for sort, pattern in _ASKS_FOR if pattern.search(question)), None)
    asked = question.casefold()
    named = {name.casefold() for name in _CAPITALISED.findall(text) if name.casefold() not in asked} - _TIMES
    if sort == "name":
        return bool(named - _PLACES or _CALLED.search(text) or _written_small(text, asked))
    if sort == "number":
        return _NUMBER.search(text) is not None
    if sort == "person":
        return bool(named - _PLACES or _SOMEBODY.search(text) or _written_small(text, asked))
    if sort == "place":
        return bool(named - FIRST_NAMES or _SOMEWHERE.search(text))
    return True
