"""What the user likes and dislikes: things in general, not the one at hand.

English itself marks the difference. "I love sushi" and "I hate long flights" have no article and mean a
kind; "I love the idea", "this answer" and "your plan" mean one thing, now. Only the former is lasting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.enrich.clauses import Clause
from recollect.enrich.names import FIRST_NAMES, PROGRAMMING_LANGUAGES, words
from recollect.enrich.values import CALENDAR, Drafts, Match, Said, Value, goes_on_by_itself, known
from recollect.enrich.vocabulary import HOBBIES

_REALLY = (
    r"(?:(?:really|absolutely|just|also|so|truly|still|particularly|especially|quite|genuinely|simply|totally) ){0,2}"
)
LIKE = re.compile(
    rf"{_REALLY}(?:(?:love,? )*love|adore|like|enjoy|loved?(?= .*\b(?:since|as long as|all my life)\b)) (?:eating "
    rf"|drinking "
    rf"|watching "
    r"|listening to |playing )?"
)
PREFER = re.compile(
    r"(?:(?:always|generally|usually|normally|typically|really|much|definitely|strongly|tend to) )*"
    r"prefer (?:(?:a|an) )?"
)
DISLIKE = re.compile(
    rf"{_REALLY}(?:hate|detest|loathe|despise|dislike|can't stand|cannot stand|cant stand|can't bear|cannot bear"
    r"|(?:don't|do not|dont|never) "
    r"(?:(?:really|particularly|especially|genuinely|actually|even) ){0,2}(?:like|enjoy|care for)|have never liked"
    r"|never liked) (?:eating |drinking |watching |listening to |playing )?"
)
FAN_OF = re.compile(
    r"(?:such )?(?:a |an )?(?:really |very )?(?:big |huge |massive |keen |great |lifelong |die-?hard |avid )*fan of "
    r"|crazy about |mad about |partial to "
)
NOT_A_FAN_OF = re.compile(r"(?:not|never been) (?:really )?(?:a |much of a )(?:big |huge |massive |great )*fan of ")
FAN = re.compile(
    r"an? (?:really )?(?:(?:big |huge |massive |lifelong |die-?hard |avid )+(?P<what>[\w' &-]{2,30}?) (?:fan|buff)"
    r"|(?:(?:big|huge|massive|lifelong|avid|total|true) )*(?P<loved>[a-z][\w'-]{2,20}(?: [a-z]+)?) lover)\b"
    r"|(?:more of )?an? (?:(?:big|huge|total|true) )*(?P<chosen>tea|coffee|wine|beer) person\b"
)

TOPPED = re.compile(r"\b(?:don't|do not|dont) (?:\w+ )?like\b.*\bi (?:\w+ )?(?:love|adore) (?:it|them|that)\b")
"""More than a liking, not less: "I don't like tea, I love it"."""
_THING = re.compile(
    r"(?:the (?=[A-Z])|(?:19|20)?\d0s )?[^\W\d_][\w'’&-]*(?: [^\W\d_][\w'’&-]*){0,3}?"
    r"(?=\s*(?:[,.;:!?()\x00…]|\Z|[^\w\s'’&-]|\s[-–]\s"
    r"|\s(?:and|or|but|which|because|cause|cuz|so|since|with|for|in|on|at|about|a lot|a bit|as|too|though|although"
    r"|especially"
    r"|more|most|when|while|very|much|lol|haha|btw|tbh|ngl|imo|imho|rn|atm|tho|honestly|lmao|ugh|smh|if|than|these"
    r"|lately"
    r"|any ?more|after|before|even|like|over|unless|except"
    r"|actually|really|personally|every|all|during|by|without|the most|either|at all|also|plus|however|not|yet|rather"
    r"|instead|right now|now)\b))"
)
_PAIR = re.compile(
    r"(?:rock (?:and|&|n|'n') roll|mac (?:and|&) cheese|fish (?:and|&) chips|peanut butter and jelly|arts (?:and"
    r"|&) crafts|gin (?:and|&) tonic|biscuits and gravy|drum (?:and|&) bass|dungeons (?:and|&) dragons"
    r"|salt and vinegar(?: \w+)?)\b"
)
"""Two words for one thing."""
_JOINT = re.compile(r"(?:,? and |, | & |,? or )(?!i\b|i'm|my\b)")
_SMALL = re.compile(r"(?:really |very |good |all kinds of |all sorts of |anything |most |any |both |some )*")
_NOT_THINGS = words(
    """
    sorry, wait, oops, whoops, pardon,
    a, an, the, my, your, his, her, its, our, their, this, that, these, those, it, you, him, them, me, us, myself,
    yourself, everyone, everything, everybody, anything, nothing, something, someone, anyone, no, one, ones, some,
    all, any, many, most, both, either, neither, each, every, another, other, others, such, same, mine, yours, to,
    how, what, when, where, who, why, which, if, being, having, doing, seeing, hearing, knowing, getting, going,
    feeling, working, talking, thinking, waiting, using, making, trying, helping, learning, taking, finding, looking,
    sharing, asking, telling, i, we, he, she, they, there, here, not, so, too, very, more, less, better, best, just,
    even, and, or, but, for, in, on, at, of, with, from, as, like, than, about, over, into, up, out, off, back, again,
    through, throughout,
    now, then, today, tonight, tomorrow, yesterday, option, options, idea, ideas, suggestion, suggestions, plan,
    answer, answers, version, number, choice, people, men, women, life, god, jesus, kids, children, guys, things,
    stuff, lots, lot, bit, kind, sort, way, ways, part, time, times, moments, feedback, questions, examples,
    explanations, responses, replies, details, yes, sure, lol, haha, is, are, was, were, do, does, did, have, has,
    had, can, could, would, should, will, may, might, must, be, been, get, got, go, come, see, know, think, say, said,
    want, need, make, take, give, find, use, hell, crazy, mad, whatever, wherever, whoever, however,
    especially, particularly, mainly, mostly, including,
    also, really, actually, quite, pretty, rather, almost, only, always, never, ever, frankly, personally, obviously,
    sadly, clearly, seriously, generally, usually, sometimes, lately, anyway, basically, apparently, unfortunately,
    already
    """
)
_QUALITIES = words(
    """
    big, bold, bright, cheap, clever, cute, dark, deep, easy, fast, fresh, fun, funny, gentle, happy, honest, large,
    light, long, loud, new, nice, old, plain, quick, quiet, sad, scary, serious, short, silly, simple, slow, small,
    smart, weird, witty
    """
)
"""What a thing is like, not a thing: "I like clever, sad, funny", said of the books asked for."""
_TITLES = words("mr, mrs, ms, miss, dr, prof, professor, madame, madam, señor, señora, frau, herr, pani, tía, dona")
_KIN = words("uncle, auntie, aunt, grandma, grandpa, granny, gran, mum, mom, dad, mama, papa, daddy, mummy, oma, opa")
"""Somebody, not something: "I love Mrs Geddes"."""
_PASSING = re.compile(
    r"\b(?:tonight|today|this (?:time|week|one|morning|evening)|right now|for (?:dinner|lunch|breakfast) (?:tonight"
    r"|today)|at first|the other day|yesterday|in (?:this|that|the) (?:case|recipe|story|book|movie|photo|picture"
    r"|list))\b"
)


_LESS = re.compile(r"n't (?:\w+ )?like\b.*\b(?:as much|that much|more than)\b")


def likes(said: Said, match: Match) -> Drafts:
    """'I love sushi', 'I'm a big fan of jazz'."""
    yield from _tastes(said, match, "likes")


_CHOSEN = re.compile(
    r"\b(?:over|to|rather|instead|if(?! (?:that|it) (?:helps|matters))|you|your|this|it(?! (?:helps|matters))"
    r"|that(?! (?:helps|matters))|option|version|draft|answer|one|ones)\b| for (?:the|my|our)\b"
    r"| in (?:the|pdf|word|excel|csv|html|markdown|json|writing|person|advance)\b"
)
"""A thing preferred to another is recorded with it (`preferences`); a choice among answers is not a taste."""


def prefers(said: Said, match: Match) -> Drafts:
    """'I prefer a window seat', 'I prefer working alone'."""
    low = said.clause.low
    if said.ended or _CHOSEN.search(low, match.end()) or _PASSING.search(low) or low.startswith("the ", match.end()):
        return
    value = _single(said.clause, match.end()) or _doing(said.clause, match.end())
    value = _furnished(said.clause, value) if value else None
    if value and value.text.lower().split()[-1] in _WRITTEN:
        return
    if value and CALENDAR.isdisjoint(value.text.lower().split()):
        yield said.fact("likes", value, 0.7)


_WRITTEN = words(
    """
    sentences, paragraphs, lines, words, wording, style, styles, titles, headings, chapters, dialogue, code, functions,
    classes, variables, names, comments, tests, commits, types, loops, imports, tabs, spaces, quotes, commas, dates
    """
)
"""How something is to be written is a wish about the work, not a taste: "I prefer short sentences"."""
_DOING = re.compile(
    r"[a-z]{3,}ing(?: (?:alone|outdoors|outside|indoors|early|late|remotely|online|by [a-z]+|at night))?"
    r"(?=[\s\x00]*(?:[,.;!]|\Z|(?:and|but|because|so|when)\b))"
)


_WITH = re.compile(r" (?:with|without|near|close to) (?:a |an |the )?[a-z-]+(?: [a-z]+)?(?=[\s\x00]*(?:[,.;!]|\Z))")


def _furnished(clause: Clause, value: Value) -> Value:
    """'Hotels with a pool' are not just hotels."""
    more = _WITH.match(clause.low, value.last)
    return Value(value.text + clause.text[value.last : more.end()], value.first, more.end()) if more else value


def _doing(clause: Clause, at: int) -> Value | None:
    match = _DOING.match(clause.low, at)
    return Value(match.group(), at, match.end()) if match else None


_MEASURES = words(
    """
    metric, imperial, celsius, centigrade, fahrenheit, feet, foot, inches, inch, miles, yards, pounds, ounces, stones,
    kilometers, kilometres, kilos, grams, litres, liters, gallons, pints, meters, metres, centimeters, centimetres, am,
    pm
    """
)
"""Disliked, units are a wish about the answers, not a taste: "I can't stand feet and inches"."""


def dislikes(said: Said, match: Match) -> Drafts:
    """'I can't stand horror movies', 'I don't like mushrooms'."""
    if not said.ended and not _LESS.search(said.clause.low):
        yield from _tastes(said, match, "dislikes")


def fan(said: Said, match: Match) -> Drafts:
    """'I'm a huge Star Wars fan'."""
    value = _thing(said.clause, *match.span(match.lastgroup or 0))
    if value:
        yield said.fact("likes", value, 0.7)


def _tastes(said: Said, match: Match, key: str) -> Drafts:
    if _PASSING.search(said.clause.low):
        return
    for value in _things(said.clause, match.end()):
        if value.text.lower() in _MEASURES:
            continue
        if value.text.startswith("the ") and match.group().endswith("like "):
            return  # "I like the Classic" chooses among what was offered
        active = value.text.lower() in HOBBIES
        if key == "dislikes" or said.ended or not active:
            yield said.fact(key, value, 0.7)
        else:
            yield said.fact("hobby", value, 0.75)


_FOR_THE_TASK = re.compile(
    r" (?:for (?!breakfast|lunch|dinner|dessert|ages|years|as long)"
    r"|in (?!general|anything|everything|any form|the (?:morning|evening|summer"
    r"|winter|autumn|fall|spring|rain)|my (?:tea|coffee|food|salad|soup))|on (?!pizza|toast|weekends|sundays)"
    r"|like (?:this|that)|about |by (?!far)|at (?!all|night))"
)


_SERVED = (
    r"pizza|toast|bread|burgers?|pasta|salads?|popcorn|ice cream|fries|chips|pancakes|bagels?|sandwich(?:es)?|hot ?dogs"
    r"|tea|coffee|food|soups?|cookies|cakes?|desserts?|curry|curries|rice|eggs|tacos|chocolate|drinks|savou?ry food"
)
_TAIL = re.compile(
    rf" (?:on (?:my |a )?(?:{_SERVED})|in (?:my |a )?(?:{_SERVED})|in the (?:rain|snow|dark|sun)"
    r"|for (?:breakfast|lunch|dinner|dessert)|about (?:the )?(?!it|this|that|how|what|you|my)[a-z-]+(?: [a-z-]+)?"
    r"|by (?!far|myself|the way|any|accident)[\w'’-]+(?: [\w'’-]+){0,2}?"
    r"|(?:with|without) (?:(?:a|an|the|no|lots of|extra|too much|too many|plenty of|some|good|strong) )?+"
    r"(?!passion|all|every|my|your|his|her|our|their|me|you|him|us|them|it|this|that|friends|family|people|others|kids)"
    r"[a-z-]+(?: (?!and\b)[a-z-]+)?(?: and [a-z-]+)?)"
    r"(?=[\s\x00]*(?:[,.;:!?()\x00]|\Z|[-–—]|(?:and|but|because|so|too|though|lol|haha|tbh|btw|the most|a lot)\b))"
)
"""A tail that makes it another thing: pineapple on pizza is not pineapple."""


def _whole(clause: Clause, value: Value) -> Value:
    tail = _TAIL.match(clause.text, value.last)
    return Value(value.text + tail.group(), value.first, tail.end()) if tail else value


def _things(clause: Clause, at: int) -> Iterator[Value]:
    for _ in range(5):
        small = _SMALL.match(clause.low, at)
        at = small.end() if small else at
        value = _pair(clause, at) or _single(clause, at)
        if value is None:
            return
        if value.text.lower() not in HOBBIES:
            value = _whole(clause, value)
        if _FOR_THE_TASK.match(clause.low, value.last):
            return
        yield value
        joint = _JOINT.match(clause.low, value.last)
        if joint is None or goes_on_by_itself(clause, joint.end()):
            return
        at = joint.end()


_ALONE = re.compile(r"[\s\x00]*(?:[,.;:!)\x00]|\Z|(?:and|or|but|because|so|a lot|too|more|most|as|very)\b)")


def _pair(clause: Clause, at: int) -> Value | None:
    match = _PAIR.match(clause.low, at)
    return Value(clause.text[at : match.end()], at, match.end()) if match else None


def _single(clause: Clause, at: int) -> Value | None:
    language = known(PROGRAMMING_LANGUAGES, clause, at)
    if language and clause.text[language.first : language.last] == language.text:
        return language if _ALONE.match(clause.low, language.last) else None
    match = _THING.match(clause.text, at)
    return _thing(clause, at, match.end()) if match else None


def _thing(clause: Clause, first: int, last: int) -> Value | None:
    """A kind of thing at this position: no article, no pronoun, no person, nobody's possession."""
    text = clause.text[first:last]
    named = text.removeprefix("the ")
    parts = named.lower().replace("’", "'").split()
    if named != text and not all(part[0].isupper() for part in named.split()):
        return None
    known_as = len(parts) == 1 and (parts[0] in FIRST_NAMES or parts[0].rstrip("s") in CALENDAR or parts[0] in CALENDAR)
    somebody = parts[0].rstrip(".") in _TITLES or (len(parts) == 1 and parts[0] in _KIN)
    quality = len(parts) == 1 and parts[0] in _QUALITIES
    if known_as or somebody or quality or not _NOT_THINGS.isdisjoint(parts) or len(text) < 3:
        return None
    if any(part.endswith("'s") for part in parts[:-1]) or (parts[0].endswith("ing") and len(parts) > 1):
        return None
    return Value(text, first, last)
