"""What the user speaks, codes in, works with, owns and drives."""

from __future__ import annotations

import re

from recollect.enrich.clauses import Clause
from recollect.enrich.names import (
    DEVICES,
    LANGUAGES,
    PROGRAMMING_LANGUAGES,
    TOOLS,
    TOOLS_AND_WORDS,
    VEHICLE_MAKERS,
    VEHICLE_MODELS,
    words,
)
from recollect.enrich.values import Drafts, Match, Said, Value, in_table, known, listed, organisation
from recollect.enrich.vocabulary import NATIONALITIES

# ── Languages ────────────────────────────────────────────────────────────────────────────────────

SPEAK = re.compile(
    r"(?:can |also |both )*(?:speak|get by (?:in|with)|hold a conversation in|know how to speak|grew up speaking"
    r"|was raised speaking|know(?= (?:some|a (?:bit"
    r"|little)|basic)\b))(?: (?:fluent|fluently|mostly|mainly|some|only|both|native|good|decent|basic|conversational"
    r"|a (?:bit|little(?: bit)?)(?: of)?))* "
)
FLUENT = re.compile(r"(?:fluent|conversational|bilingual|proficient|a native speaker|native) (?:in|of) ")
NATIVE = re.compile(r"(?:a )?(?:native|fluent|bilingual) (?=[a-z]+(?: (?:and|/) [a-z]+)? speaker)")
LANGUAGE_IS = re.compile(
    r"my (?:native|first|mother|second|main|primary|home) (?:language|tongue)(?:'s| is)(?: actually)? "
)
IS_LANGUAGE = re.compile(
    r"(?P<what>[a-z]+(?: [a-z]+)?) is my (?:native|first|mother|second|third|main|primary) (?:language|tongue)\b"
)
SPEAKER_HERE = re.compile(r"(?:native|fluent) (?P<what>[a-z]+) speaker here\b")
CODING_LANGUAGE_IS = re.compile(
    r"my (?:go-to|main|primary|preferred|favou?rite|daily|strongest) (?:programming |coding )?language(?:'s"
    r"| is)(?: (?:actually|still|probably))? "
)
LEARNING = re.compile(
    r"(?:currently |also |been )*(?:learning|studying|teaching myself|picking up|started learning"
    r"|trying to learn) (?:how to (?:speak|code in|program in) |to (?:speak|code in) )?"
)


_VARIETY = re.compile(r"(?P<of>[a-z]+) (?=[a-z])")
_VARIETIES = words(
    "levantine, gulf, haitian, mauritian, castilian, old, ancient, classical, modern, standard, high, low"
)


def _tongue(clause: Clause, at: int) -> Value | None:
    """A language, or a variety of one: "Mexican Spanish"."""
    if found := known(LANGUAGES, clause, at):
        return found
    variety = _VARIETY.match(clause.low, at)
    if variety is None or not (variety["of"] in NATIONALITIES or variety["of"] in _VARIETIES):
        return None
    found = known(LANGUAGES, clause, variety.end())
    return Value(f"{variety['of'].capitalize()} {found.text}", at, found.last) if found else None


def speaks(said: Said, match: Match) -> Drafts:
    """'I speak German and a bit of Spanish'. Next to a known language, another name counts as one too."""
    found = list(listed(said.clause, match.end(), _tongue_or_name))
    if any(_tongue(said.clause, value.first) for value in found):
        yield from (said.fact("language", value, 0.92) for value in found)


_NO_TONGUE = words("i, but, and, any, what, how, my, the, python, java, english")
_NAMED_TONGUE = re.compile(
    r"[A-ZÀ-Þ][a-zà-ÿ]{2,}(?=[\s\x00]*(?:[,.;!()\x00]|\Z|(?:and|or|but|so|at|as|too|fluently|well)\b))"
)


def _tongue_or_name(clause: Clause, at: int) -> Value | None:
    if found := _tongue(clause, at):
        return found
    match = _NAMED_TONGUE.match(clause.text, at)
    return Value(match.group(), *match.span()) if match and match.group().lower() not in _NO_TONGUE else None


def main_coding_language(said: Said, match: Match) -> Drafts:
    """'My go-to language is Ruby': nobody says that of a language they speak."""
    if value := known(PROGRAMMING_LANGUAGES, said.clause, match.end()):
        yield said.fact("programming_language", value, 0.88)


def named_language(said: Said, match: Match) -> Drafts:
    """'English is my second language', 'native Tagalog speaker here'."""
    if match["what"] in LANGUAGES:
        yield said.fact("language", Value(LANGUAGES[match["what"]], *match.span("what")), 0.9)


def learns(said: Said, match: Match) -> Drafts:
    """'I'm learning Japanese', 'I'm learning Rust'."""
    for key, table in (("language", LANGUAGES), ("programming_language", PROGRAMMING_LANGUAGES)):
        for value in listed(said.clause, match.end(), in_table(table)):
            if len(value.text) > 1 and _ends_well(said.clause, value.last):
                yield said.fact(key, value, 0.75, data={"level": "learning"})


_ENDS_WELL = re.compile(
    r"(?: v?\d{1,4}(?:\.\d+){0,3}(?![\w.]))?[\s\x00]*(?:[,.;!()\x00&/]|\+\s|\Z|(?:and|but|so|for|at|on|in|with"
    r"|because|since|now|right|these|mostly|every"
    r"|(?:last|this) (?:week|month|year)|yesterday|today|recently"
    r"|daily"
    r"|as|from|using|myself|too|lately|btw|lol|professionally|all|when|a lot|to|rn|atm|currently|mainly|instead|since"
    r"|over|or|more|most|which|regularly|exclusively|any ?(?:more|longer)|anymore)\b)"
)


def _ends_well(clause: Clause, at: int) -> bool:
    """True when nothing follows that makes the name part of something else: "a Python script"."""
    return _ENDS_WELL.match(clause.low, at) is not None


_WORDS_AS_WELL = words("c, r, go, rust, swift, assembly, basic")
CODE_IS_IN = re.compile(
    r"(?:most|nearly all|almost all|all|the bulk|much) (?:of )?my (?:code|scripts?|projects?|side projects?"
    r"|backend) (?:is|are) "
    r"(?:all |mostly |mainly )?(?:written |done )?in "
)
CODE_IN = re.compile(
    r"(?:can |know how to |also |both |to )*(?:code|(?:code|write) is|been coding|program|develop|write code|write"
    r"|do (?:most of )?my coding|coding|programming|write most of my code|script)(?: (?:mostly|mainly|primarily"
    r"|everything|most things|it all"
    r"|exclusively|professionally|a lot|software|apps|stuff))* (?:in|with|using) "
)
WRITE_CODE = re.compile(
    r"(?:write|writing|know|prefer coding in|work with|work in|develop|program) (?:a lot of |some |mostly |mainly "
    r"|primarily )?"
)


def codes_in(said: Said, match: Match) -> Drafts:
    """'I write Python', 'I code in Rust mostly'."""
    sure = match.re in (CODE_IN, CODE_IS_IN)
    found = list(listed(said.clause, match.end(), in_table(PROGRAMMING_LANGUAGES)))
    # Next to an unambiguous language, a plain word counts as one too: "rust at work and python at home".
    sure_one = any(value.text.lower() not in _WORDS_AS_WELL for value in found)
    for value in found:
        written = sure_one or said.clause.text[value.first].isupper()
        if (sure or written) and (sure or len(value.text) > 1) and _ends_well(said.clause, value.last):
            yield said.fact("programming_language", value, 0.9 if sure else 0.82)


# ── Tools, devices, vehicles ─────────────────────────────────────────────────────────────────────

USE = re.compile(
    r"(?:primarily |daily |heavily |regularly )?(?:use|using|work in|working in|swear by|rely on|live in|run"
    r"|switched to|moved to"
    r"|migrated to|a user of|love using|prefer using|like using|(?:manage|keep|organi[sz]e|track|write|take|do|plan"
    r"|edit|store) (?:all |most of )?my (?:[a-z]+ ){0,2}?[a-z]+ (?:in|with|using|on)) (?:a |an |the |my |mostly "
    r"|mainly |only )?"
)
TOOL_IS = re.compile(
    r"my (?!dream|next|first|old|last|previous|former|future|ideal)(?:\w+ ){0,2}(?:editor|ide|browser|os"
    r"|operating system|note[- ]taking app|terminal|shell|to-?do app|email client|calendar|distro|text editor|stack"
    r"|daily driver|database|framework)(?: of choice)?(?:'s| is| are| includes?) (?:a |an |the )?"
)
SWITCHED = re.compile(
    r"(?:have |just |recently |finally )*(?:switched|moved|migrated|went"
    r"|gone) (?:over )?from (?P<old>[\w .+#-]{1,30}?) to "
)
STACK_IS = re.compile(
    r"(?:(?:my|our|the|current|main|tech|technical|here's|here is) )*stack(?:'s| is|:|,)(?: is| currently| still)? "
)
STOPPED_USING = re.compile(
    r"(?:have |just |recently |finally )*(?:stopped using|quit using|gave up on|got rid of|uninstalled|ditched"
    r"|abandoned) "
)


def uses(said: Said, match: Match) -> Drafts:
    """'I use Notion for my notes': known tools, languages and devices."""
    place = match.end()
    if match.group().startswith("live in") and _FIGURATIVE.search(said.clause.low, 0, match.start()):
        return
    for value in listed(said.clause, place, _tool_or_language):
        if not _names_a_thing(said.clause, value):
            continue
        if value.text in _TOOL_NAMES:
            yield said.fact("tool", value, 0.85)
        if value.text in _LANGUAGE_NAMES:
            yield said.fact("programming_language", value, 0.8)
    yield from _devices(said, place, 0.85)


_TOOL_NAMES, _LANGUAGE_NAMES = frozenset(TOOLS.values()), frozenset(PROGRAMMING_LANGUAGES.values())


def _tool_or_language(clause: Clause, at: int) -> Value | None:
    """People name both in one breath: "TypeScript and Postgres"."""
    found = [value for table in (TOOLS, PROGRAMMING_LANGUAGES) if (value := known(table, clause, at))]
    return max(found, key=lambda value: value.last, default=None)


def use_together(said: Said, match: Match) -> Drafts:
    """'We use Terraform at work': only the tools, since the team's language need not be the user's own."""
    yield from (draft for draft in uses(said, match) if draft.key == "tool")


_FIGURATIVE = re.compile(r"\b(?:basically|practically|pretty much|literally)\b")


def _names_a_thing(clause: Clause, value: Value) -> bool:
    lower = clause.text[value.first].islower()
    plain_word = value.text.lower() in TOOLS_AND_WORDS or value.text.lower() in _WORDS_AS_WELL
    return _ends_well(clause, value.last) and not (lower and plain_word and len(clause.text.split()) > 6)


USER_OF = re.compile(r"an? (?:\w+ )??(?P<what>[\w ]{2,20}) user\b")


def user_of(said: Said, match: Match) -> Drafts:
    """'I'm a Mac user'."""
    found = known(TOOLS, said.clause, match.start("what"))
    if found and found.last == match.end("what"):
        yield said.fact("tool", found, 0.8)


def switched(said: Said, match: Match) -> Drafts:
    """'I switched from Windows to Linux': the end of one and the beginning of the other."""
    for key, table in (("tool", TOOLS), ("programming_language", PROGRAMMING_LANGUAGES), ("device", DEVICES)):
        old, new = known(table, said.clause, match.start("old")), known(table, said.clause, match.end())
        # What replaces a tool is a tool too, even if it is on no list.
        new = new or (organisation(said.clause, match.end()) if key == "tool" else None)
        if old and new:
            yield said.ended_fact(key, old, 0.85)
            yield said.fact(key, new, 0.85)
            return


REPLACED = re.compile(
    r"(?:have |am |just |recently |finally )*(?:replac|swapp|swopp|trad|exchang|upgrad|part[- ]?exchang)(?:ed|ing)"
    r"(?: out| in| over)? (?:my|our|the) (?:old |trusty |broken )?(?P<old>[\w .+'#-]{2,30}?) (?:with|for|to)"
    r" (?:a |an |the |my )?(?:brand[- ]new |new |used |second-?hand |refurbished )*"
)


def replaced(said: Said, match: Match) -> Drafts:
    """'I replaced my Pixel 7 with a Pixel 9a', 'we swapped the Fiesta for a Duster': one goes as the other comes."""
    for key, reader in (("device", _device), ("vehicle", _vehicle_or_model)):
        old, new = reader(said.clause, match.start("old")), reader(said.clause, match.end())
        if new is None or not (old or _KINDS[key].search(match["old"])) or not _ends_there(said.clause, key, new):
            continue
        if old and old.text.casefold() != new.text.casefold():
            yield said.ended_fact(key, old, 0.85)
        yield said.fact(key, new, 0.85)
        return


_KINDS = {
    "device": re.compile(r"(?:phone|laptop|tablet|computer|pc|mobile|watch|console|camera|e-?reader)\Z"),
    "vehicle": re.compile(r"(?:car|van|truck|bike|motorbike|motorcycle|scooter|suv)\Z"),
}
"""What stands for the old thing without its name: "I replaced my phone with a Pixel 9a"."""


def _vehicle_or_model(clause: Clause, at: int) -> Value | None:
    return _vehicle(clause, at) or _model(clause, at)


def _ends_there(clause: Clause, key: str, value: Value) -> bool:
    return key == "device" or _VEHICLE_END.match(clause.low, value.last) is not None


def stopped_using(said: Said, match: Match) -> Drafts:
    """'I stopped using Photoshop'."""
    if value := known(TOOLS, said.clause, match.end()):
        yield said.ended_fact("tool", value, 0.85)


OWN = re.compile(
    r"(?:also |just |recently |finally )*(?:have|own|got|bought|got myself|purchased|use|using|upgraded to|picked up"
    r"|ordered) (?:myself )?(?:a |an |the |my |two )?(?:new |old |used |brand new |second-?hand |refurbished )*"
)
DEVICE_IS = re.compile(
    r"my (?!dream|next|first|old|last|previous|former|future|ideal|ex|wife|husband)(?:\w+ ){0,2}(?:phone|laptop"
    r"|computer|tablet|pc|console|watch|smartwatch|camera|desktop|machine|e-?reader)(?:'s| is|,(?= an? ))(?: (?:a|an"
    r"|the"
    r"|my))? (?:new |old )?"
)
_MODEL = re.compile(
    r"(?: (?:\d{1,4}\w{0,2}|[A-Z]\w*|pro|max|plus|ultra|mini|air|carbon|gen|m[1-4]|se|xl|fold|flip|series"
    r"|x\d?)(?![\w'’]))*"
)


ON_DEVICE = re.compile(r"on (?:a|an|my) (?:\d{4} |new |old )?")


MY_DEVICE = re.compile(r"\bmy (?:\d{4} |new |trusty )?(?=[a-z])")
_LET_GO = re.compile(
    r"\b(?:s[eo]ll|sold|stole|stolen|lost|lose|trade|traded|replac\w+|return\w*|gave|give|ditch\w*|threw|used to|old"
    r"|broke|swap\w*|upgrad\w+|rid of|instead of|if)\b"
)
_OF_A_DEVICE = re.compile(
    r"[\s\x00]*(?:[,.;!()\x00]|\Z|(?:is|isn't|was|keeps?|has|won't|doesn't|can't|and|but|so|to|for|with|when|while"
    r"|after|since|because|at|in|just|screen|battery|keyboard|the|it|i|we|this|that|every|all|runs|takes|gets|shows"
    r"|dies|freezes|crashes"
    r"|stopped|died)\b)"
)


def my_device(said: Said, match: Match) -> Drafts:
    """'My iPhone 13 keeps dying' says that the user has one, by its model; not so an app for it, or one given up."""
    clause = said.clause
    found = known(DEVICES, clause, match.end())
    model = _MODEL.match(clause.text, found.last) if found else None
    if found is None or model is None or _LET_GO.search(clause.low) or not _OF_A_DEVICE.match(clause.low, model.end()):
        return
    text = found.text + clause.text[found.last : model.end()]
    if " " in text:
        yield said.fact("device", Value(text, found.first, model.end()), 0.8)


def sold_device(said: Said, match: Match) -> Drafts:
    """'I sold my iPhone'."""
    if found := _device(said.clause, match.end()):
        yield said.ended_fact("device", found, 0.8)


def devices(said: Said, match: Match) -> Drafts:
    """'I have an iPhone 15', 'my laptop is a ThinkPad X1 Carbon'."""
    yield from _devices(said, match.end(), 0.88)


def _devices(said: Said, at: int, confidence: float) -> Drafts:
    for value in listed(said.clause, at, _device, most=3):
        yield said.fact("device", value, confidence)


_AMBIGUOUS_DEVICES = words(
    """
    switch, surface, galaxy, quest, echo, pixel, framework, sony, canon, hp, acer, kindle, xps
    """
)


_ARTICLE = re.compile(r"(?:a|an|the|my) ")


def _device(clause: Clause, at: int) -> Value | None:
    article = _ARTICLE.match(clause.low, at)
    at = article.end() if article else at
    found = known(DEVICES, clause, at)
    if found is None:
        return None
    model = _MODEL.match(clause.text, found.last)
    last = model.end() if model else found.last
    if last == found.last and clause.text[at].islower() and found.text.lower() in _AMBIGUOUS_DEVICES:
        return None
    if not re.match(
        r"[\s\x00]*(?:[,.;!()\x00]|\Z|(?:and|but|so|for|with|that|which|as|now|last|yesterday|today|from|because|at"
        r"|to|if|in|gathering|lying|sitting|somewhere|phone|laptop|camera|tablet|watch|or|on|about|running|it|it's)\b)",
        clause.low[last:],
    ) or _IN_HAND.match(clause.low, last):
        return None
    return Value(found.text + clause.text[found.last : last], at, last)


DRIVE = re.compile(
    r"(?:also |just |recently |currently )*(?:got myself|drive|ride|own|have|bought|got|leased|purchased"
    r"|driving)(?: around)?(?: in)? (?:a |an |my |the )?(?:new |old |used |brand new |red |blue |black |white "
    r"|silver |grey |gray |green |second[- ]?hand |beat[- ]?up |battered |rusty |trusty |vintage |classic |little )*"
)
CAR_IS = re.compile(
    r"my (?!dream|next|first|old|last|previous|former|future|ideal|other|rental|wife|husband)(?:\w+ )?(?:car|truck"
    r"|vehicle|suv|motorcycle|motorbike|bike|van|ride|daily)(?:'s| is|,)(?: (?:a|an|the|my))? (?:new |old |red |blue "
    r"|black |white |silver )*"
)
SOLD = re.compile(
    r"(?:have |just |recently |finally )*(?:sold|got rid of|traded in|totaled|totalled|crashed|scrapped) (?:my|our"
    r"|the) (?:old )?"
)
_YEAR = re.compile(r"(?:(?:19|20)\d\d|'?\d\d) ")
_CAR_MODEL = re.compile(
    r"(?: (?:[A-Z][\w-]*(?:\.\d\w*)?|\d{1,4}\w{0,3}|model [3sxy]|[a-z]-?\d{1,3}\w?)(?![\w'’]))*"
    r"(?: (?:estate|hatchback|saloon|sedan|convertible|coupe|wagon|hybrid)\b)?",
    re.A,
)


_VEHICLE_END = re.compile(
    r"[\s\x00]*(?:[,.;!()\x00]|\Z|(?:and|but|so|with|that|which|to|for|now|in|from|because|as|since|when|after|before"
    r"|last|this|car|truck|suv|sedan|hybrid|van|these|at|it|every|on|convertible|hatchback|or|if|pickup|motorcycle"
    r"|estate|wagon|years|ages|bike|scooter|electric|today|yesterday|about|finally)\b)"
)


_IN_HAND = re.compile(
    r" (?:car |bike |phone |laptop )?(?:to (?:fix|repair|sell|return|service|wash|paint|tow|review|inspect|test|ship"
    r"|deliver|give|choose)|for (?:a|my|the) (?:customer|client|review|day|weekend|week|test)|for (?:sale|repair)"
    r"|for (?:my|our) (?:\w+ )?(?:\w+'s|mum|mom|dad|wife|husband|son|daughter|kids?|brother|sister|nephew|niece|parents"
    r"|girlfriend|boyfriend|partner|friend|gran\w*)"
    r"|in (?:for|the shop)|on (?:loan|order|test))\b"
)
"""What the user deals with for a while, but does not own: "I've got a Focus to fix"."""


_RIDDEN = re.compile(
    r"\b(?:motor(?:cycle|bike)|bike|scooter|rid(?:e|ing)|mt-?\d+|r[1367]|xsr\d*|yzf\S*|nmax|t[ée]n[ée]r[ée])\b"
)
"""Signs that a maker of both motorcycles and pianos made a motorcycle here."""


_FOR_SO_MUCH = re.compile(r" for (?:about |only |just )?[€$£]?\d[\d.,]* ?(?:grand|k|thousand)\b")
"""The price of a car: what is bought for thousands is no pair of golf shoes."""


def vehicles(said: Said, match: Match) -> Drafts:
    """'I drive a Tesla Model 3': a known make, with its model."""
    dated = _YEAR.match(said.clause.low, match.end()) is not None
    by_model = said.ended or dated or match.re is SOLD or match.group().startswith(("drive ", "driving "))
    by_model = by_model or _FOR_SO_MUCH.search(said.clause.low, match.end()) is not None
    found = _vehicle(said.clause, match.end()) or (_model(said.clause, match.end()) if by_model else None)
    if found is None or not _VEHICLE_END.match(said.clause.low, found.last):
        return
    if found.text.lower().startswith("yamaha") and not (_RIDDEN.search(said.clause.low) or by_model):
        return
    if _IN_HAND.match(said.clause.low, found.last):
        return
    yield said.ended_fact("vehicle", found, 0.85) if match.re is SOLD else said.fact("vehicle", found, 0.88)


def _model(clause: Clause, at: int) -> Value | None:
    """A model by its name alone, which counts only with its capital or year: "my Golf", not "my golf clubs"."""
    year = _YEAR.match(clause.low, at)
    found = known(_MODELS, clause, year.end() if year else at)
    if found is None or not (year or clause.text[at].isupper() or clause.text.removeprefix("I").islower()):
        return None
    text = clause.text[at : found.last]
    return Value(text.title() if text.islower() else text, at, found.last)


_MODELS = {model: model for model in VEHICLE_MODELS}
_MAKERS_AND_WORDS = words(
    "ram, seat, smart, mini, ford, lincoln, triumph, genesis, lotus, trek, kona, mg, merida, specialized"
)
_TWO_WORDS = re.compile(r"[\w-]+(?: [\w-]+)?")


def _vehicle(clause: Clause, at: int) -> Value | None:
    year = _YEAR.match(clause.low, at)
    maker = year.end() if year else at
    words = _TWO_WORDS.match(clause.low, maker)
    if words is None:
        return None
    name = next((n for n in (words.group(), words.group().split(" ")[0]) if n in VEHICLE_MAKERS), None)
    if name is None or (clause.text[maker].islower() and name in _MAKERS_AND_WORDS):
        return None
    model = _CAR_MODEL.match(clause.text, maker + len(name))
    last = model.end() if model else maker + len(name)
    small = known(_MODELS, clause, last + 1) if last == maker + len(name) and clause.text[maker].islower() else None
    last = small.last if small else last
    text = clause.text[at:last]
    return Value(text if not text.islower() else text.title().replace("Bmw", "BMW"), at, last)
