"""How heavy and how tall the user is: a number with its unit, never a bare one."""

from __future__ import annotations

import re

from recollect.enrich.values import Drafts, Match, Said, Value

_END = (
    r"(?=[\s\x00]*(?:[,.;:!?()\x00…]|\Z|[^\w\s'\"]|(?:and|but|now|so|at the moment|right now|these days|btw|today"
    r"|because|again|currently|lol|haha|if|which|this (?:morning|week|month)|since|after|before|tall|by the way|though"
    r"|tho)\b))"
)
"""What may follow a measure of oneself, unlike "5 kilos over", "6 feet away" and "1.80 m in heels"."""
_ABOUT = r"(?:(?:about|around|roughly|only|just|exactly|almost|nearly|currently|now|approximately) )*"

# ── Weight ───────────────────────────────────────────────────────────────────────────────────────

_WEIGHT = (
    r"(?P<number>\d{1,3}(?:[.,]\d)?) ?(?P<unit>kgs?|kilos?|kilograms?|lbs?|pounds|stones?|st)\b"
    r"(?:(?<=stone) (?P<more>\d{1,2})(?: ?(?:lbs?|pounds))?\b(?!['.,]\d))?"
)
_TO_NOW = r"(?:(?:(?:back )?(?:down|up)|back) (?:to|at) |at )?"
AM_WEIGHT = re.compile(rf"{_TO_NOW}{_ABOUT}{_WEIGHT}{_END}(?! tall)")
WEIGH = re.compile(rf"(?:still |also )?weigh(?: in at)? {_ABOUT}{_WEIGHT}{_END}")
WEIGHT_IS = re.compile(rf"my (?:current )?(?:body ?)?weight(?:'s| is|:) {_TO_NOW}{_ABOUT}{_WEIGHT}{_END}")
WEIGHED_MYSELF = re.compile(
    r"(?:i )?(?:just )?weighed myself(?: (?:today|this morning|yesterday|again))?(?:,|:| and)? "
    rf"(?:i'm |im |i am |it's |its |it says |it was )?{_TO_NOW}{_ABOUT}{_WEIGHT}{_END}"
)
_UNITS = {"k": "kg", "l": "lb", "p": "lb", "s": "stone"}
_PLAUSIBLE = {"kg": (30, 300), "lb": (66, 660), "stone": (5, 47)}
"""What a grown or half-grown person weighs; a parcel or a newborn does not."""


_LIFTED = re.compile(r"\b(?:bench|squats?|deadlifts?|press|curls?|rows?|reps?|sets?|luggage|baggage|suitcase|snatch)\b")
"""What is lifted or packed, not what somebody weighs."""


def weight(said: Said, match: Match) -> Drafts:
    """'I weigh 68 kg', 'I'm down to 66 kilos', 'my weight is 14 stone 4'."""
    if _LIFTED.search(said.clause.low):
        return
    unit = _UNITS[match["unit"][0]]
    number = match["number"].replace(",", ".")
    least, most = _PLAUSIBLE[unit]
    if not least <= float(number) <= most or int(match["more"] or 0) > 13:
        return
    text = f"{number} {unit}" + (f" {match['more']}" if match["more"] else "")
    yield said.fact("weight", Value(text, match.start("number"), match.end("more" if match["more"] else "unit")), 0.85)


# ── Height ───────────────────────────────────────────────────────────────────────────────────────

_ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]
_HEIGHT = (
    r"(?P<height>(?P<metres>[12])(?:[.,](?P<hundredths>\d\d)(?: ?m\b| ?met(?:er|re)s?\b|(?= tall\b))"
    r"| ?m ?(?P<behind>\d\d)\b(?! tall m))"
    r"|(?P<centimetres>\d{3}) ?(?:cms?|centimet(?:er|re)s?)\b"
    r"|(?P<feet>[4-7]|four|five|six|seven)(?: ?'| ?ft\b\.?| ?foot\b| ?feet\b)"
    rf"(?: ?(?P<inches>1[01]|\d|{'|'.join(_ONES)})\b"
    r"(?: ?(?:\"|''|inch(?:es)?\b|ins?\b(?! (?:heels|my|these|shoes))))?)?)"
)
AM_HEIGHT = re.compile(rf"{_ABOUT}{_HEIGHT}{_END}(?!\.? (?:away|from|apart|deep|under|behind|above|below|off)\b)")
TALL_AND_HEAVY = re.compile(rf"{_ABOUT}{_HEIGHT}(?: tall)?(?:,| and|,? (?:and )?weighing)? {_ABOUT}{_WEIGHT}{_END}")
BOTH = re.compile(rf"(?:weigh )?{_ABOUT}{_WEIGHT} and {_ABOUT}{_HEIGHT}{_END}")
HEIGHT_IS = re.compile(rf"my height(?:'s| is|:) {_ABOUT}{_HEIGHT}{_END}")
_CENTIMETRES = (100, 230)


def height(said: Said, match: Match) -> Drafts:
    """'I'm 1.78 m tall', 'I'm 5'6', 'my height is 165 cm'."""
    text = _feet(match) if match["feet"] else _centimetres(match)
    if text:
        yield said.fact("height", Value(text, *match.span("height")), 0.85)


def both(said: Said, match: Match) -> Drafts:
    """'I'm 96 kilos and 1.78 m'."""
    yield from height(said, match)
    yield from weight(said, match)


def _feet(match: Match) -> str:
    feet, inches = (_number(match[part]) for part in ("feet", "inches"))
    return f"{feet} ft {inches} in" if inches else f"{feet} ft"


def _number(word: str | None) -> int:
    if not word:
        return 0
    return int(word) if word.isdigit() else _ONES.index(word) + 1


def _centimetres(match: Match) -> str:
    whole = match["centimetres"] or match["metres"] + (match["hundredths"] or match["behind"])
    least, most = _CENTIMETRES
    return f"{whole} cm" if least <= int(whole) <= most else ""
