"""Where the user lives, lived and comes from, and what time it is there."""

from __future__ import annotations

import re

from recollect.enrich import Draft
from recollect.enrich.clauses import Clause
from recollect.enrich.names import TIMEZONES
from recollect.enrich.values import Drafts, Match, Said, Value, ending_at, listed_place, organisation, places, since
from recollect.enrich.vocabulary import NATIONALITIES

# ── Places ───────────────────────────────────────────────────────────────────────────────────────

_WITH_SOMEONE = (
    r"(?: with (?:my|our|the|a|an|some|two|three|four) "
    r"(?:(?!(?:in|at|out|outside|who|whose|that|which|is|was|are|works?|worked|lives?|lived|has|had|but|so)\b)"
    r"[\w'’&,-]+ (?:in[ -]law )?){1,8}?(?=in\b(?![ -]law\b)))"
)
"""Others who live there: "I live with my mum and my sister in Cardiff"."""
LIVES_IN = re.compile(
    r"(?:live|lived|living|reside|residing|based|located|stay|staying permanently|settled)(?: (?:alone|together|here"
    r"|now|currently|full[- ]time|permanently|down|just outside|abroad|at present|happily|these days"
    rf"|since (?:\w+ ){{1,2}}(?:years?|months?)))?(?:{_WITH_SOMEONE}| )(?:in|at|out of|outside)"
    r"(?: (?:the )?(?:city|town|heart|center|centre|suburbs|outskirts|middle|north|south|east|west|area"
    r"|state|village|countryside)(?: side)? (?:of|in))?(?: (?:downtown|central|sunny|rainy|beautiful|lovely|upstate"
    r"|rural|cold|northern|southern|eastern|western|north|south|east|west|inner|greater))? (?:(?:a|an|the"
    r"|my) [\w -]{2,40}? (?:in|near the center of|called|named) )?"
)
MOVED_TO = re.compile(
    r"(?:have |had )?(?:(?:just|recently|finally) )?(?:moved|relocated|emigrated|immigrated|moving)(?: (?:back|over"
    r"|here|away|house|down|up|out|in together|permanently))?(?: from (?P<old>[\w .'-]{2,40}?))? to "
)
MOVED_OUT = re.compile(r"(?:have |had )?(?:just |recently )?(?:moved (?:out of|away from)|moved from|left) (?!to\b)")
MOVED_IN = re.compile(
    r"(?:have |just |recently |finally )*moved in with (?:my|our) (?:(?!in\b|who\b|and\b)[\w'’-]+ ){1,3}in (?!law\b)"
)
RENTS = re.compile(
    r"(?:(?:currently|now|still) )*(?:rent|renting|share|sharing) (?:a|an|my|the|our|this) (?:[\w-]+ ){0,2}?(?:flat"
    r"|apartment|house|room|bedsit)(?: with (?:(?!in\b|who\b)[\w'’-]+ ){1,4})? ?in (?!the\b)"
)
FROM = re.compile(
    r"(?:(?:originally|actually|really|born) )?(?:from|come from|came from|hail from) (?:an? (?:\w+ ){1,3}(?:called"
    r"|named) )?"
)
CALL_HOME = re.compile(r"(?:have )?call(?:ed)? (?=[a-z][\w ,'-]{2,30} (?:my )?home\b)")
HERE_IN = re.compile(r"(?:over )?here in (?:the )?")
MY_HOME_IN = re.compile(
    r"my (?:(?:tiny|small|little|new|current|big|shared|cozy|own) )?(?:apartment|flat|house|home|condo|neighbou?rhood"
    r"|backyard|garden) in (?:downtown |central )?"
)
GREW_UP = re.compile(
    r"(?:was |were )?(?:grew up|raised|brought up|born and raised|born & raised|born n raised|born and bred"
    r"|born) (?:mostly |and raised )?in (?:a (?:\w+ ){1,3}(?:called|named) )?"
)
BEEN_IN = re.compile(
    r"in (?=.*\bfor (?:about |over |almost |nearly |the (?:last|past) )?(?:\d{1,2}|two|three|four|five|six|seven|eight"
    r"|nine|ten|twelve|fifteen|twenty|thirty|several|many)\+? years\b)"
)
HOMETOWN = re.compile(r"my (?:home ?town|birthplace|place of birth)(?:'s| is| was)(?: actually| in)? ")
HOME = re.compile(
    r"home(?: for (?:me|us))?(?: now| these days)?(?:'s| is)(?: now| currently)? (?!where|when|not|the|a|my|your|so"
    r"|too)|my (?:home(?: base)?|current (?:city|location)|city|place|flat|apartment|house|residence)(?:'s"
    r"| is)(?: (?:currently|now|located|actually))?(?: in)? "
)
COUNTRY_IS = re.compile(r"my (?:home )?country(?:'s| is)(?: actually)? ")
_PAST = re.compile(
    r"\b(?:when i was|as a (?:kid|child|teen)|for a (?:semester|summer|week|month|while|year)|during|back in the day"
    r"|at the time)\b"
)
_VISIT = re.compile(
    r"\b(?:this|the|next) (?:week|weekend|month)\b|\bfor (?:the|a few|a couple|two|three|\d+) (?:weekend|days|nights"
    r"|weeks?)\b|\b(?:on (?:vacation|holiday)|visiting|temporarily|until)\b"
)


_IN_MIND = re.compile(
    r"\bin my (?:mind|head|heart|dreams|imagination)\b|\b(?:mentally|rent[- ]free|basically|practically)\b"
)


def lives_in(said: Said, match: Match) -> Drafts:
    """'I live in Portland, Oregon': the city, and the region or country if they are named."""
    low = said.clause.low
    if _IN_MIND.search(low):
        return
    verb = match.group().split()[0]
    perfect = verb != "lived" or re.search(r"\b(?:i've|ive|we've|have)\b", low[: match.start() + 5]) is not None
    if (not perfect and not said.ended) or _VISIT.search(low) or "outside" in match.group():
        return
    if verb == "stay" and said.kind == "we":
        return  # for a few nights, mostly
    if (
        verb == "lived"
        and not said.ended
        and not re.search(r"\b(?:all my|my whole|my entire|since|here)\b|\bfor \w+", low)
    ):
        return
    yield from _residence(said, match.end(), 0.92)


_FOR_OTHERS = re.compile(r"\b(?:to|for|out|during|over|every|when)\b")


def rents(said: Said, match: Match) -> Drafts:
    """'I rent a flat in Bristol': not for a holiday, and not to others."""
    if not _VISIT.search(said.clause.low) and not _FOR_OTHERS.search(said.clause.low, match.end()):
        yield from _residence(said, match.end(), 0.8)


def been_in(said: Said, match: Match) -> Drafts:
    """'I've been in Leeds for ten years': only a known place, and years, not days."""
    place = listed_place(said.clause, match.end())
    if place and said.clause.low.startswith(("i've been", "ive been", "i have been")) and not said.ended:
        yield from _residence(said, match.end(), 0.8)


_NOT_A_HOME = re.compile(
    r"'s\b| (?:office|team|side|branch|section|tab|folder|page|department|desk|role|account|server|version|division"
    r"|campus|store|location|warehouse|region's)\b"
)
_TITLED = re.compile(r"(?:dr|mr|mrs|ms|prof)\b", re.I)
"""A new doctor or teacher is not a new town: "we've moved to Dr Okafor"."""
_BUILDING = re.compile(r" (?:Palace|Castle|House|Hotel|Tower|Street|Road|Avenue|Lane|Apartments|Building|Hall)\Z")


def _residence(said: Said, at: int, confidence: float) -> Drafts:
    began = None if said.ended else since(said.clause.low, said.at)
    if _TITLED.match(said.clause.text, at):
        return
    for place in places(said.clause, at):
        if _NOT_A_HOME.match(said.clause.low, place.value.last) or _BUILDING.search(place.value.text):
            return
        draft = said.fact(place.kind, place.value, confidence)
        yield draft if began is None else _from(draft, began)
        if said.ended:
            return  # only the nearest place was left: somebody who left Oslo may still be in Norway


def _from(draft: Draft, began: int) -> Draft:
    return Draft(draft.layer, draft.key, draft.value, draft.confidence, draft.span, valid_from=began, data=draft.data)


_CAME_FROM = re.compile(r" (?:all the way )?from (?!the\b|my\b|home\b)")


def moved_to(said: Said, match: Match) -> Drafts:
    """'I moved from Boston to Denver in June': a new home from then on, and the end of the old one."""
    low = said.clause.low
    if _PAST.search(low) or "moving" in match.group() or _VISIT.search(low) or said.ended:
        return
    if match["old"]:
        for place in places(said.clause, match.start("old"))[:1]:
            yield said.ended_fact(place.kind, place.value, 0.85)
    elif (came := _CAME_FROM.search(low, match.end())) and (before := places(said.clause, came.end())):
        yield said.ended_fact(before[0].kind, before[0].value, 0.85)
    at = match.end()
    for _ in range(_MOVES_MAX):
        here = places(said.clause, at)[:1]
        onward = _AND_THEN.match(low, here[0].value.last) if here else None
        if onward is None:
            break
        yield said.ended_fact(here[0].kind, here[0].value, 0.85)
        at = onward.end()
    yield from _residence(said, at, 0.88)


_MOVES_MAX = 4
_AND_THEN = re.compile(
    r"(?:,? and|,)?(?: (?:then|later|after that|finally|eventually|from there|now|recently|soon|afterwards"
    r"|(?:a|two|three|\d) (?:years?|months?) later))(?: (?:moved|went|relocated|on|over|further|back))* to "
    r"|,? and on to |,? (?:and )?then (?=[a-z]+[\s\x00]*(?:[,.;!]|\Z))"
)
"""Where the way goes on: "from Leeds to York and then on to Hull"."""


def moved_out(said: Said, match: Match) -> Drafts:
    """'I moved out of Chicago'. 'I left Acme' is for `livelihood`, which looks at what was left."""
    found = places(said.clause, match.end())
    left = match.group().rstrip().endswith("left")
    if found and not left and " to " not in said.clause.low[match.end() :]:
        yield said.ended_fact(found[0].kind, found[0].value, 0.85)


_COMPANY = re.compile(
    r"\b(?:Corp|Inc|Ltd|LLC|GmbH|Co|HR|IT|PR|Support|Sales|Marketing|Accounting|Finance|Legal|University|Bank)\b"
    r"|\b(?:support|accounting|sales|marketing|hr|department|team)\b"
)


def comes_from(said: Said, match: Match) -> Drafts:
    """'I'm from Glasgow', 'I come from Ghana': where the user comes from, which need not be where they live."""
    clause = said.clause
    if organisation(clause, match.end()) and _COMPANY.search(clause.text, match.end()):
        return
    for place in places(clause, match.end())[:1]:
        yield said.fact("hometown", place.value, 0.8)


def grew_up(said: Said, match: Match) -> Drafts:
    """'I grew up in Leeds'."""
    found = [place.value for place in places(said.clause, match.end())[:1]]
    if (
        not found
        and match.re is HOMETOWN
        and said.clause.text.islower()
        and (small := _SMALL_PLACE.match(said.clause.low, match.end()))
    ):
        found = [Value(small.group().title(), *small.span())]
    for place in found:
        yield said.fact("hometown", place, 0.7 if match.group().strip().endswith("born in") else 0.88)


_SMALL_PLACE = re.compile(
    r"(?!(?:a|an|the|in|so|not|very|too|quite|really|near|kind|pretty|small|tiny|known|called|famous|where|just|full"
    r"|boring|beautiful|on|far)\b)"
    r"[a-z]{3,} [a-z]{3,}(?=[\s\x00]*(?:[,.!;]|\Z))"
)
"""A place in a text without capitals, where nothing else can occur."""


def call_home(said: Said, match: Match) -> Drafts:
    """'I've called Seattle home for twelve years'."""
    yield from _residence(said, match.end(), 0.8)


def here_in(said: Said, match: Match) -> Drafts:
    """'Here in Glasgow it rains most days', 'my flat in Osaka is tiny': only a known place."""
    place = listed_place(said.clause, match.end())
    if place and not _VISIT.search(said.clause.low) and not _NOT_A_HOME.match(said.clause.low, place.value.last):
        yield said.fact(place.kind, place.value, 0.75)


def home_is(said: Said, match: Match) -> Drafts:
    """'My home is in Cork, Ireland'."""
    for place in places(said.clause, match.end()):
        yield said.fact(place.kind, place.value, 0.85)


def country_is(said: Said, match: Match) -> Drafts:
    """'My country is Peru'."""
    yield from (said.fact("country", p.value, 0.85) for p in places(said.clause, match.end()) if p.kind == "country")


TIMEZONE = re.compile(
    r"(?:my (?:time ?zone|tz|local time)(?:'s|,? (?:which )?is)(?: in)?|(?:i'm|im|i am|i live|i work)(?: currently"
    r"| based)? (?:in"
    r"|on)) (?:the )?(?P<zone>(?:utc|gmt) ?[+-] ?\d{1,2}(?::\d\d)?|[a-z]{3,12}/[a-z_]{3,20}"
    r"|[a-z]{2,8}(?: (?:[a-z]{4,10} )?(?:standard |daylight "
    r"|summer )?time(?! ?zone))?)(?P<said>[ -]?time ?zone)?(?![\w-])"
)


def timezone(said: Said, match: Match) -> Drafts:
    """'My timezone is CET', 'I'm on Pacific time'."""
    zone = match["zone"].split()[0] if match["zone"][:3] not in ("utc", "gmt") else match["zone"]
    sure = match.group().startswith("my") or match["said"] or match["zone"].endswith("time")
    offset = re.match(r"(?:utc|gmt) ?[+-]", match["zone"])
    if (
        offset
        or "/" in match["zone"]
        or (zone in TIMEZONES and (sure or (len(zone) == 3 and zone not in ("art", "cat", "eat", "wet"))))
    ):
        first, last = match.span("zone")
        text = said.clause.text[first : first + len(zone)] if len(zone) <= 4 else said.clause.text[first:last]
        yield said.fact("timezone", Value(text.upper() if len(text) <= 4 else text, first, last), 0.9)


IS_MY_TIMEZONE = re.compile(
    r"\b(?P<zone>(?:utc|gmt) ?[+-] ?\d{1,2}(?::\d\d)?|[a-z]{2,8}(?: (?:standard "
    r"|daylight )?time)?)"
    r"(?:,| -)?(?: please,?)? (?:that's|which is|is) (?P<said>my (?:time ?zone|tz|local time)"
    r"|the (?:time ?)?zone i(?:'m| am) in)\b"
)
WHERE_I_LIVE = re.compile(
    r"(?:,|\s-)?(?: please,)? (?:that's|which is|is) (?:where (?:i|we) (?:currently |now )?(?:live|(?:am|are) based)\b"
    r"|the (?:country|city|town|village|place) (?:i|we) (?:currently |now )?live in\b)"
    r"|, where (?:(?:i|we) (?:currently |now )?live\b|(?:i|we)(?:'ve| have) lived\b)"
)


def where_i_live(said: Said, match: Match) -> Drafts:
    """'Valencia, that's where I live'."""
    found = ending_at(said.clause, match.start(), _whole_place)
    for place in places(said.clause, found.first) if found else ():
        yield said.fact(place.kind, place.value, 0.85)


def _whole_place(clause: Clause, at: int) -> Value | None:
    """A place with the wider ones after it, as one value."""
    found = places(clause, at)
    return Value(found[-1].value.text, at, found[-1].value.last) if found else None


SOMEONE_FROM = re.compile(
    r"(?:\d\d ?[mf]?(?: years? old)?|an? (?:[\w-]+ ){0,4}(?:guy|man|woman|girl|male|female|person|dude|lady|boy|teen"
    r"|teenager|mom|mum|dad|mother|father|kid))(?: (?:of|with) \w+(?: kids| children)?)?,? (?P<how>from|living in"
    r"|based in|in|who lives in) "
)


def someone_from(said: Said, match: Match) -> Drafts:
    """'I'm a 45 year old guy from Cleveland'."""
    for place in places(said.clause, match.end())[:1]:
        yield said.fact("hometown" if match["how"] == "from" else place.kind, place.value, 0.8)


NATIONALITY = re.compile(r"my nationality is (?P<what>[a-z]+(?: [a-z]+)?)")


def nationality(said: Said, match: Match) -> Drafts:
    """'My nationality is Dutch'. 'I'm Italian' says less than it seems and is left alone."""
    first = match.start("what")
    word = match["what"] if match["what"] in NATIONALITIES else match["what"].split()[0]
    if word in NATIONALITIES:
        yield said.fact("nationality", Value(NATIONALITIES[word], first, first + len(word)), 0.9)
