"""The people a message names: those the user was with, met, asked or calls their own.

How reliable the position is decides how much evidence a name needs. After "my sister" or "Dr." anything that is
written like a name is one; after "lunch with" it must not be known as something else; after a bare "with" it must
be known as a first name, and as nothing else: people work with Python, pay with Visa and meet with Google.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain

from recollect.enrich.names import CITIES, COUNTRIES, FIRST_NAMES, LANGUAGES, ORGANISATIONS, REGIONS, SCHOOLS, words
from recollect.enrich.vocabulary import NATIONALITIES, NOT_A_NAME
from recollect.policies.patterns import pattern_of

RELATION = (
    "friend|best friend|sister|brother|mom|mum|mother|dad|father|wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?"
    "|son|daughter|kid|aunt|uncle|cousin|niece|nephew|grandmother|grandfather|grandma|grandpa|boss|manager|colleague"
    "|coworker|co-worker|team-?mate|class-?mate|flat-?mate|roommate|neighbou?r|teacher|coach|trainer|mentor|supervisor"
    "|therapist|doctor|client|assistant|landlord|landlady"
)
_IN_LAW = r"(?:-in-law)?"
_TITLE = r"(?:Mr|Mrs|Ms|Dr|Prof)\.? "
_WORD = r"[A-Z][a-zà-ÿ]++"
_NAME = rf"(?:{_TITLE})?{_WORD}(?:[ -]{_WORD})?(?![^\W_])"
_NAMES = rf"(?P<names>{_NAME}(?:, {_NAME}){{0,6}}(?:,? and {_NAME})?)"
_CALLED = r"(?:named |called )?"

_KNOWN_AS = (
    pattern_of(rf"\b(?i:my|our|his|her|their)(?: \w+)? (?i:{RELATION})(?i:{_IN_LAW})s?,? {_CALLED}{_NAMES}"),
    pattern_of(rf"\b(?P<names>{_TITLE}{_WORD})"),
    pattern_of(rf"\b(?:[Mm]y name is|[Cc]all me|I'm called) {_NAMES}"),
    pattern_of(rf"\b{_NAMES},? (?:my|our|his|her) (?:{RELATION}){_IN_LAW}\b"),
)
"""Positions where the text itself says that the name is a person's."""
_IN_COMPANY = (
    pattern_of(
        rf"\b(?:[Mm]et(?: up with)?|(?i:dinner|lunch|brunch|breakfast|coffee|drinks|catch(?:ing)? up) with) {_NAMES}"
    ),
    pattern_of(rf"\b{_NAMES}['’]s (?:place|house|home|apartment|birthday|wedding|party|advice|help)\b"),
)
"""Positions where hardly anything but a person occurs."""
_MENTIONED = (
    pattern_of(rf"\b(?:[Ww]ith|[Tt]old|[Aa]sked|[Vv]isited|[Pp]honed|[Tt]exted|[Ee]mailed|[Mm]e and) {_NAMES}"),
    pattern_of(rf"\b{_NAMES} and I\b(?!['’]?[A-Z])"),
)
"""Positions where people occur among much else."""

_PLACES = frozenset(chain(COUNTRIES, REGIONS, CITIES))
_TIMES = words(
    """
    monday, tuesday, wednesday, thursday, friday, saturday, sunday, january, february, march, april, may, june, july,
    august, september, october, november, december, christmas, easter, ramadan, diwali, hanukkah, thanksgiving,
    halloween
    """
)
_NEVER_NAMES = _TIMES - words("april, may, june, august, easter") | frozenset(ORGANISATIONS)
_PRODUCTS = words(
    """
    alexa, claude, siri, cortana, gemini, copilot, jasper, ruby, julia, python, jenkins, jira, ansible, flask, django,
    chase, mercedes, christian, roman, oscar, max, stan, eve, wendy, alfred, john deere, charles schwab, calvin klein,
    ralph lauren, louis vuitton, michael kors, jack daniel, johnnie walker, jesus, buddha, santa,
    uncle sam, office, opera, museum
    """
)
"""Assistants, languages, brands and beliefs that share a first name: alone after "with" they are not people."""
_OTHERS = _PLACES | _TIMES | _PRODUCTS | NOT_A_NAME | frozenset(chain(ORGANISATIONS, SCHOOLS, LANGUAGES, NATIONALITIES))
_EACH = pattern_of(rf"{_NAME}")
_SURNAME_NOT = _TIMES | NOT_A_NAME
_DATED = re.compile(r",? (?:the )?\d")
_OWNED = re.compile(r"['’]s\b| & |\.\w")
_GROUP = re.compile(r" (?:team|staff|people|folks|support|office|customers|recruiters?|reps?|sauce|cheese|version)\b")
_PERFORMED = pattern_of(
    r"\b(?:movies?|films?|shows?|series|albums?|songs?|podcasts?|interviews?|videos?|books?|documentar(?:y|ies)"
    r"|episodes?|plays?|duets?|scenes?|remakes?|versions?)(?: \w+){0,2} \Z",
    re.IGNORECASE,
)


def people(text: str) -> Iterator[str]:
    """The people that a text names, as it names them.

    >>> [*people("I'm off to Lisbon with Maria and Jonas in May, with a Visa in my pocket.")]
    ['Maria', 'Jonas']
    """
    for pattern in _KNOWN_AS:
        yield from _named(text, pattern, lambda name: not _is_one_of(name, _NEVER_NAMES))
    for pattern in _IN_COMPANY:
        yield from _named(text, pattern, lambda name: _is_first_name(name) or not _is_one_of(name, _OTHERS))
    for pattern in _MENTIONED:
        yield from _named(text, pattern, lambda name: _is_first_name(name) and not _is_one_of(name, _OTHERS), bare=True)


def _named(text: str, pattern: re.Pattern[str], fits: Callable[[str], bool], *, bare: bool = False) -> Iterator[str]:
    for match in pattern.finditer(text):
        performed = bare and _PERFORMED.search(text[max(0, match.start() - 60) : match.start()])
        for found in _EACH.finditer(text, *match.span("names")):
            name = _without_what_follows(found.group())
            after = found.end() if name == found.group() else len(text)
            is_other = _DATED.match(text, after) or _GROUP.match(text, after) or (bare and _OWNED.match(text, after))
            if not (is_other or (performed and " " in name)) and fits(name):
                yield name


def _without_what_follows(name: str) -> str:
    """The name without a day or ordinary word that was mistaken for a surname, as in "Maria Monday"."""
    before, _, last = name.rpartition(" ")
    return before if before and last.lower() in _SURNAME_NOT and not before.endswith(".") else name


def _first(name: str) -> str:
    return re.split("[ -]", name, maxsplit=1)[0].lower()


def _is_first_name(name: str) -> bool:
    return _first(name) in FIRST_NAMES


def _is_one_of(name: str, known: frozenset[str]) -> bool:
    return name.lower() in known or _first(name) in known
