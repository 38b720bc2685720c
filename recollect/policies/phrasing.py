"""How people ask: what a question asks for besides its words, and what a turn that could answer it mentions."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from recollect.policies.patterns import pattern_of
from recollect.policies.words import Spoken, split, spoken, terms

BARE_WORDS = 4
"""Up to this many words, without a question mark or a question word, are searched for as they are."""
ECHO_SHARE = 0.5
"""A turn that asks, with this share of its words from the question, only repeats it."""

_ASKING = pattern_of(
    r"\s*(?:(?:hi|hey|hello|ok|okay|so|and|but|please|sorry|quick question)\b[\s,.:!-]*){0,3}"
    r"(?:(?:(?:can|could|would|will) you (?:please )?|please )?(?:tell|remind) me (?:again )?(?=my|what|who|when|where"
    r"|which|how|why)|do you (?:still )?(?:know|remember)\b|(?:what|who|whose|whom|where|when|why|which|how)s?\b)",
    re.IGNORECASE,
)


class _Phrases(NamedTuple):
    """How people ask in a language."""

    question: re.Pattern[str]
    you: re.Pattern[str]
    when: re.Pattern[str]
    many: re.Pattern[str]
    latest: re.Pattern[str]


_ENGLISH = _Phrases(
    question=pattern_of(r"\s*(?:what|when|where|which|who|whose|why|how|did|do|does|is|are|was|were)\b", re.IGNORECASE),
    you=pattern_of(r"\b(?:you|your|yours|you'd|you've|you'll)\b", re.IGNORECASE),
    when=pattern_of(
        r"\s*(?:when|what (?:date|day|time|year|month)|how long|which (?:day|month|year))\b", re.IGNORECASE
    ),
    many=pattern_of(r"\bhow (?:many|much|often|old)\b", re.IGNORECASE),
    latest=pattern_of(
        r"\b(?:latest|newest|most recent(?:ly)?|current(?:ly)?|nowadays|these days|at the moment|right now|so far"
        r"|last time)\b",
        re.IGNORECASE,
    ),
)
WORDS = pattern_of(r"\w+")
_DIGIT = pattern_of(r"\d")
_DATE = pattern_of(r"\b(?:\d{4}|\d{1,2}(?:st|nd|rd|th)|\d{1,2}:\d\d)\b")
_PLAIN = "".join(
    "0" if sign.isdigit() else sign if sign.isalpha() or sign == "_" else " " for sign in map(chr, range(128))
)
"""What replaces each ASCII character when only the words matter, and whether there is a digit."""
_TIMES = """
    yesterday today tomorrow tonight last next ago week weekend month year
    monday tuesday wednesday thursday friday saturday sunday
    january february march april may june july august september october november december
    am pm morning evening night summer winter spring fall
"""
_NUMBERS = "one two three four five six seven eight nine ten once twice couple few several dozen"
TIMES, NUMBERS = frozenset(_TIMES.split()), frozenset(_NUMBERS.split())
"""Words that express a time, and words that express a number."""
SIGNS_CHARACTERS = 2_000
"""How much of a turn is searched for times and numbers."""


def asks(text: str) -> bool:
    """Whether a turn ends with a question."""
    return text.rstrip().endswith("?")


def seems_to_ask(text: str) -> bool:
    """Whether a turn is a question, as people type it: also without its mark.

    >>> seems_to_ask("can you tell me my blood type pls"), seems_to_ask("remind me to buy milk")
    (True, False)
    """
    return asks(text) or _ASKING.match(text) is not None


def signs(text: str, language: str = "en") -> tuple[bool, bool]:
    """Whether a turn mentions a time, and whether it mentions a number."""
    seen = text[:SIGNS_CHARACTERS].lower()
    if language != "en" and (own := _spoken(language)) is not None:
        found, digit = {*terms(seen, language)}, _DIGIT.search(seen) is not None
        times, numbers = _signs_in(own)
        time = not times.isdisjoint(found) or (digit and _DATE.search(seen) is not None)
        return time, digit or not numbers.isdisjoint(found)
    if seen.isascii():  # split in half the time, with the same words and a digit for each digit
        plain = seen.translate(_PLAIN)
        words, digit = plain.split(), "0" in plain
    else:
        words, digit = WORDS.findall(seen), _DIGIT.search(seen) is not None
    time = not TIMES.isdisjoint(words) or (digit and _DATE.search(seen) is not None)
    return time, digit or not NUMBERS.isdisjoint(words)


@cache
def _signs_in(own: Spoken) -> tuple[frozenset[str], frozenset[str]]:
    """The stems of words that express a time, and of those that express a number; "one" is often an article."""
    return own.stems_for(TIMES - {"ago"}), own.stems_for(NUMBERS - {"one"})


def asks_for_latest(question: str, language: str = "en") -> bool:
    """Whether a question asks for how things are now, or for what happened last.

    >>> asks_for_latest("What is my current address?"), asks_for_latest("Where did I live?")
    (True, False)
    """
    if language == "en":
        return _ENGLISH.latest.search(question) is not None
    phrases, asked = _heard(question, language)
    # Italian "ora" is now, but also the hour of "a che ora".
    return phrases.latest.search(phrases.when.sub("", asked, 1)) is not None


def _spoken(language: str) -> Spoken | None:
    """A language besides English whose ways to ask are known; in the others, people may ask in English."""
    own = spoken(language)
    return own if own is not None and own.row.asking else None


def _heard(question: str, language: str) -> tuple[_Phrases, str]:
    """The phrases of the language that the question is in, and the question as they are looked for in it."""
    own, words = _spoken(language), split(question)
    return (_ENGLISH, question) if own is None or own.is_english(words) else (_phrases(own), " ".join(words))


@cache
def _phrases(own: Spoken) -> _Phrases:
    """Folded as questions are. Another word may come first where a question begins: "seit wann", "c'est quand"."""
    row = own.row
    several = (row.asking.split(), row.you.split(), row.when.split(","), row.many.split(","), row.latest.split(","))
    question, you, when, many, latest = (
        "|".join([re.escape(" ".join(split(phrase))) for phrase in phrases]) for phrases in several
    )
    first, within = r"\A(?:\S+ )?(?:{})(?!\S)", r"(?<!\S)(?:{})(?!\S)"
    return _Phrases(
        pattern_of(first.format(question)), pattern_of(within.format(you)), pattern_of(first.format(when)),
        pattern_of(within.format(many)), pattern_of(within.format(latest)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question asks for, besides its words."""

    question: bool
    you: bool
    when: bool
    many: bool
    words: frozenset[str]

    @property
    def for_signs(self) -> bool:
        """Whether times or numbers count in favour of a turn."""
        return self.question and (self.when or self.many)

    @classmethod
    def of(cls, text: str, language: str = "en") -> Asked:
        """Parse a question. A few bare words are not one: whoever types them wants the turns that contain them."""
        words = WORDS.findall(text.lower())
        phrases, asked = (_ENGLISH, text) if language == "en" else _heard(text, language)
        question = len(words) > BARE_WORDS or "?" in text or bool(phrases.question.match(asked))
        you, when, many = phrases.you.search(asked), phrases.when.match(asked), phrases.many.search(asked)
        return cls(question, bool(you), bool(when), bool(many), frozenset(words))


def is_echo(own: Sequence[str], asked: Collection[str]) -> bool:
    """Whether a turn that asks has mostly the words of the question: it asks the same, and answers nothing.

    >>> is_echo(["dog", "call"], {"dog", "name"}), is_echo(["food", "rex", "dog", "gram"], {"dog", "name"})
    (True, False)
    """
    return bool(own) and sum(word in asked for word in own) >= ECHO_SHARE * len(own)
