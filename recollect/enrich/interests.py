"""What the user enjoys, likes best and aims for."""

from __future__ import annotations

import re

from recollect.enrich.clauses import Clause
from recollect.enrich.names import words
from recollect.enrich.values import Drafts, Match, Said, Value, ending_at, in_table, known, listed
from recollect.enrich.vocabulary import GAMES, HOBBIES, INTERESTS
from recollect.policies.keys import key_of

# ── Interests and goals ──────────────────────────────────────────────────────────────────────────

HOBBIES_ARE = re.compile(
    r"my (?:main |favou?rite |biggest |other |only |few |new )*(?:hobby|hobbies|interests?|pastimes?|passions?"
    r"|passion)(?: (?:is|are|include|includes|range from|outside of work are|these days are|right now is"
    r"|lately is))(?: things like| stuff like)? "
)
ENJOY = re.compile(
    r"(?:really |also |absolutely |truly |still |always |mostly |especially )*(?:love to go|like to go|enjoy going"
    r"|love going|like going|love|like|enjoy|adore|do|practice|practise|go|got(?:ten)? into|took up|started|picked up"
    r"|taken up|have taken up|have started|have been getting into|started doing|spend (?:my|most of my|a lot of"
    r"|all my) (?:free |spare )?(?:time|weekends?|evenings?|days off|summers?)|am passionate about"
    r"|am obsessed with)(?: a lot of| doing| some| both)? "
)
INTO = re.compile(
    r"(?:really |very |big |super |so |pretty |quite |heavily |also |a (?:bit|little) )*(?:into|passionate about"
    r"|obsessed with|keen on|fond of|addicted to|hooked on|getting into) (?:doing |playing )?"
)
PLAY = re.compile(
    r"(?:also |still |regularly |mostly |just |recently |finally )*(?:play|playing|love playing|like playing"
    r"|enjoy playing|love to play|like to play|learning to play|been playing|have been playing|played|started playing"
    r"|(?:love|took up|picked up|practi[cs]e|practi[cs]ing|learning|started learning)(?= the )) (?:a lot of |some |the "
    r"|a bit of |competitive |club )*"
)
_HOBBY_TABLE = {hobby: hobby for hobby in HOBBIES}
_INTEREST_TABLE = {interest: interest for interest in HOBBIES | INTERESTS}
_GAME_TABLE = {game: game for game in GAMES}
_DONE_TABLE = _HOBBY_TABLE | _GAME_TABLE
_HOBBY_END = re.compile(
    r"[\s\x00]*(?:[,.;!()\x00&/]|\Z|(?:and|but|so|in|on|with|every|at|for|because|when|a lot|as|too|these|lately|most"
    r"|after|last|this (?:week|month|year|summer|winter|spring|fall)|recently|again|a few|about|any ?more|around"
    r"|outdoors|to|or|during|whenever|my|daily|regularly|the|while|since|especially|very|here|near|up|along|it"
    r"|together|twice|once|years|months|ages|long|when|if|and|three|competitively|professionally|both|than|even|than"
    r"|though|is|each|fiction|about|sci-fi|fantasy|books|novels|bread|food|cakes|italian|landscapes|videos)\b)"
)


_OF_SOME_KIND = re.compile(r"(?!the |my |a |an |some |all |more |your |this |that |[a-z]+ing )[a-z][a-z-]+ ")


def _pursuit(clause: Clause, at: int) -> Value | None:
    """What people are into, or a kind of it: "film photography"."""
    if found := known(_INTEREST_TABLE, clause, at):
        return found
    kind = _OF_SOME_KIND.match(clause.low, at)
    found = known(_HOBBY_TABLE, clause, kind.end()) if kind else None
    return Value(clause.text[at : found.last], at, found.last) if found else None


_ALSO_TASKS = words("reading, writing, coding, running, drawing, spinning, diving")
"""Hobbies that people also start and do as tasks: "I started writing the essay"."""


_MANAGED = re.compile(r"running (?:my|our|the|an?|this|his|her) (?!dog\b)")
_ALSO_THINGS = ("go", "pool", "bridge")
"""Games that with "the" are something else: "I love the pool at our hotel"."""


def _is_thing(said: Said, value: Value) -> bool:
    return value.text in _ALSO_THINGS and said.clause.low[: value.first].endswith("the ")


def enjoys(said: Said, match: Match) -> Drafts:
    """'I love hiking and painting', 'I'm into bouldering': activities from a closed list."""
    verb = match.group().strip().split(" ")[-1]
    for value in listed(said.clause, match.end(), _pursuit if match.re is INTO else in_table(_HOBBY_TABLE)):
        of_food = value.text in ("cooking", "baking") and re.match(
            r" (?!suppl|show|video|class|oil|sheet|powder|soda|time)[a-z]+", said.clause.low[value.last :]
        )
        if not of_food and not _HOBBY_END.match(said.clause.low, value.last):
            return
        noun_only = verb in ("do", "started") and value.text in _ALSO_TASKS
        if said.clause.low.endswith("do the ", 0, value.first) or _MANAGED.match(said.clause.low, value.first):
            continue  # a task: "I do the cooking on her evenings", "I love running my own studio"
        if not noun_only and not _is_thing(said, value):
            yield said.fact("hobby", value, 0.82)


_ACTIVE = {
    "hike": "hiking", "paint": "painting", "read": "reading", "cook": "cooking", "bake": "baking",
    "draw": "drawing", "knit": "knitting", "sew": "sewing", "ski": "skiing", "surf": "surfing",
    "swim": "swimming", "garden": "gardening", "climb": "climbing", "sing": "singing", "dance": "dancing",
    "fish": "fishing", "camp": "camping", "travel": "traveling", "crochet": "crocheting", "write": "writing",
    "snowboard": "snowboarding", "run": "running", "cycle": "cycling", "sail": "sailing",
    "skateboard": "skateboarding",
}  # fmt: skip
LIKE_TO = re.compile(
    rf"(?:love|like|enjoy) to (?P<verb>{'|'.join(_ACTIVE)})(?=[\s\x00]*(?:[,.;!]|\Z|(?:and|but|in my|on|every|a lot"
    r"|when|at)\b))"
)
_EXERCISE = "run|hike|swim|climb|cycle|surf|ski|paint|draw|knit|sew|crochet|garden|dance|sail|bake|snowboard"
OFTEN = re.compile(
    rf"(?P<verb>{_EXERCISE})(?= (?:(?:almost |nearly )?every (?:(?:other|single) )?(?:day|morning|evening|night|week"
    r"|weekend|summer|winter|mon|tues|wednes|thurs|fri|satur|sun)(?:day)?|(?:most|on) (?:days|mornings|evenings|nights"
    r"|weekends|\w+days)|(?:once|twice|three times|four times|a few times|\d times) a (?:week|month)|daily|weekly)"
    r"[\s\x00]*(?:[,.;!()\x00]|\Z|(?:and|but|so|before|after|with|in|at|because|to|when)\b))"
)
COLLECT = re.compile(
    r"collect (?P<what>(?:(?:vintage|old|antique|rare|fountain) ){0,2}(?:stamps|pens|teapots|mugs|maps"
    r"|magnets|fossils|coins|vinyl|vinyl records|records|comics|comic books|watches|sneakers|postcards|books"
    r"|pokemon cards|baseball cards|antiques|figurines|minerals|rocks|art|guitars|action figures))\b"
)


def likes_to(said: Said, match: Match) -> Drafts:
    """'I like to hike', 'I collect stamps', 'I run every morning'."""
    if match.re is COLLECT:
        yield said.fact("hobby", Value(f"collecting {match['what']}", match.start(), match.end()), 0.85)
    else:
        yield said.fact("hobby", Value(_ACTIVE[match["verb"]], match.start(), match.end()), 0.82)


def plays(said: Said, match: Match) -> Drafts:
    """'I play the guitar', 'I play tennis'."""
    if "played" in match.group() and not re.match(r"(?:i've|i have)\b.*\b(?:since|for)\b", said.clause.low):
        return
    for value in listed(said.clause, match.end(), in_table(_GAME_TABLE)):
        if _HOBBY_END.match(said.clause.low, value.last) and not _is_thing(said, value):
            yield said.fact("hobby", value, 0.85)


IN_SPARE_TIME = re.compile(
    r"(?:do|practi[cs]e|make) (?P<what>(?!my\b|the\b|it\b|this\b|that\b|a lot|most|some\b|all\b|things?\b|stuff\b)"
    r"[a-z][\w-]*(?: [\w-]+){0,2}) (?:in my (?:spare|free) time|as a hobby|for fun|on (?:the )?weekends"
    r"|in the evenings|on the side)\b"
)


SPARE_TIME_FIRST = re.compile(
    r"\bin my (?:spare|free) time,? i (?:mostly |usually |also )?(?:do|practi[cs]e|make) (?P<what>(?!my\b|the\b|it\b"
    r"|this\b|that\b|a lot|most"
    r"|some\b|all\b|things?\b|stuff\b|nothing\b|not\b)[a-z][\w-]*(?: (?!and\b|but\b|with\b"
    r"|for\b)[\w-]+){0,2}?)(?=[\s\x00]*(?:[,.;!]|\Z|(?:and|but|with|for)\b))"
)


def in_spare_time(said: Said, match: Match) -> Drafts:
    """'I do letterpress printing in my spare time': what people do in their spare time needs no list."""
    first, last = match.span("what")
    made = " make " in f" {match.group()}"
    if match.re is SPARE_TIME_FIRST and not made:
        yield from (said.fact("hobby", value, 0.8) for value in listed(said.clause, first, activity))
        return
    yield said.fact(
        "hobby",
        Value(("making " if made else "") + said.clause.text[first:last], match.start() if made else first, last),
        0.8,
    )


THATS_MY_HOBBY = re.compile(
    r", (?:that's|which is) my (?:main |favou?rite |only |biggest |new )*(?:hobby|passion|pastime)\b"
)


def thats_my_hobby(said: Said, match: Match) -> Drafts:
    """'Weekends are for bouldering, that's my main hobby'."""
    if found := ending_at(said.clause, match.start(), in_table(_INTEREST_TABLE)):
        yield said.fact("hobby", found, 0.82)


GAVE_UP = re.compile(r"(?:have |just |recently |finally )*(?:gave up|given up|quit|stopped doing) (?:doing |the )?")


def gave_up(said: Said, match: Match) -> Drafts:
    """'I gave up tennis': the end of a hobby."""
    for value in listed(said.clause, match.end(), in_table(_DONE_TABLE)):
        if _HOBBY_END.match(said.clause.low, value.last):
            yield said.ended_fact("hobby", value, 0.8)


_GERUNDS = {
    "run": "running", "swim": "swimming", "cycle": "cycling", "climb": "climbing", "dance": "dancing", "ski": "skiing",
    "hike": "hiking", "knit": "knitting", "paint": "painting", "sing": "singing", "surf": "surfing", "bake": "baking",
    "sew": "sewing", "row": "rowing", "fish": "fishing", "skate": "skating", "jog": "jogging",
}  # fmt: skip
HOBBY_VERBS = "|".join(_GERUNDS)
VERB_OVER = re.compile(
    rf"(?P<verb>{HOBBY_VERBS})(?=[\s\x00]*(?:[,.;!]|\Z|(?:any ?more|any longer|because|since|due|and|but|at all"
    rf"|these)\b))"
)


def verb_over(said: Said, match: Match) -> Drafts:
    """'I no longer run', 'I can't swim any more': the end of a hobby that was mentioned as one."""
    if said.ended:
        yield said.ended_fact("hobby", Value(_GERUNDS[match["verb"]], *match.span("verb")), 0.8)


GIVEN_UP = re.compile(r"(?=[a-z]+ing\b)")


def given_up(said: Said, match: Match) -> Drafts:
    """'I've given up knitting'."""
    yield from gave_up(said, match) if said.ended else ()


def hobbies_are(said: Said, match: Match) -> Drafts:
    """'My hobbies are hiking, chess and photography': here anything goes."""
    for value in listed(said.clause, match.end(), activity):
        before = said.clause.low[: value.first]
        if value.first > match.end() and before.endswith(("the ", "my ")):
            return  # a new statement about something else
        yield said.fact("hobby", value, 0.88)


ARE_HOBBIES = re.compile(
    r"(?P<what>[a-z][\w ,&'-]{2,60}) (?:is|are) (?:my|one of my|two of my|some of my) (?:main |favou?rite |only "
    r"|biggest |two )*(?:hobby|hobbies"
    r"|passions?|pastimes?)\b"
)


def are_hobbies(said: Said, match: Match) -> Drafts:
    """'Bouldering and jigsaw puzzles are my hobbies'."""
    first = match.start("what")
    for what in re.split(r",? and |, | & ", match["what"]):
        at = said.clause.low.index(what, first)
        if (
            not re.match(r"(?:it|this|that|what|which|these|those|they|here|there|so|i|one)\b", what)
            and len(what.split()) <= 3
        ):
            yield said.fact("hobby", Value(said.clause.text[at : at + len(what)], at, at + len(what)), 0.85)


_ACTIVITY_END = re.compile(
    r"\s*(?:[,.;:!?()\x00/]|\s(?:and|or|but|so|because|which|as|since|when|if|with|lol|tbh|btw|too|though|tho|lately"
    r"|these days|right now|don't|dont|no)\b|\s[-–—&]|\Z)"
)


def activity(clause: Clause, at: int) -> Value | None:
    end = _ACTIVITY_END.search(clause.low, at)
    text = clause.text[at : end.start() if end else len(clause.low)].strip()
    return (
        Value(text, at, at + len(text))
        if text and len(text.split()) <= 4 and text.lower() not in ("i", "more", "many", "stuff", "things", "etc")
        else None
    )


FAVORITE_IS = re.compile(
    r"(?:(?:my|and my) )?(?:all[- ]time |absolute |personal |current |number one |#1 )*(?:favou?rite|fav"
    r"|fave)(?: (?:all[- ]time|kind of|type of|sort of|ever))? (?P<what>[^\W\d_][^\W\d_-]*(?: [^\W\d_-]+){0,2}?)(?: "
    r"(?:ever|of all time|on earth|in the world"
    r"|right now|these days|at the moment|rn|atm|currently|is called))?(?:'s| is| are| has to be"
    r"| has always been| would be| would have to be| was always| (?:used to be"
    r"|was) [^,;]{2,30}[,;]? (?:but )?(?:now it's"
    r"|now it is|it's now|it is now)|(?=[:?]))(?: (?:definitely|probably|actually|still|easily"
    r"|always|by far|currently|called|:))*[ :?]+(?:easily |definitely |probably )?"
)
IS_FAVORITE = re.compile(
    r"(?P<value>[\w][\w '’&.-]{0,40}?)(?: is| are|'s) (?:definitely |probably |still |by far |easily |also "
    r"|hands down )*(?:my|one of my) (?P<one>)(?:all[- ]time |absolute |personal )*(?:favou?rite|fav"
    r"|fave) (?P<what>[a-z][a-z-]*(?: [a-z-]+)?)(?= *(?:[,.;!()\x00]|\Z|(?:ever|of all time|on (?:this|the) planet"
    r"|on earth|in the (?:whole )?(?:world|universe)|right now|these days|by far|by a mile|by miles|by a long way"
    r"|hands down"
    r"|because|and|but|so|tbh|lol)\b))"
)
_NOT_FAVORITES = words(
    """
    thing, things, part, parts, way, ways, one, ones, example, quote, memory, moment, time, bit, aspect,
    section, line, scene, is, are, person, so, of, to, about, option, feature, reason
    """
)
_FAVORITE_END = re.compile(
    r"\s*(?:[,;:!?()\x00]|\.\s*\Z|\s(?:but|because|since|so|which|as|though|lol|haha|btw|tbh|ngl|imo|tho|rn|and (?:i"
    r"|i'm|my|it|the|that|he|she|they|we|you|he's|she's|they're|we're)"
    r"|by far|these days|right now|end of|no (?:debate|contest|question)|full stop|period|cause|cuz|bc|for now"
    r"|followed|where|when|who|if|hands down|ever|of all time"
    r"|with (?:all|my|you|your|the|its|his|her|their|this|that|no)"
    r"|at the moment|too)\b|\s[-–—]|\Z)"
)


_BESIDE_IT = re.compile(
    r" (?:now|nowadays|lately|currently|still|weirdly|oddly|strangely|funnily|surprisingly|ironically|obviously|clearly"
    r"|apparently|probably|definitely|honestly|actually|sadly|admittedly)(?: enough)?\Z"
)
"""Lower case only: "Apocalypse Now" is a film."""


_TITLE = re.compile(r"[A-Z][\w'’-]*(?: (?:of|the|and|in|a|to|for|on|[A-Z][\w'’-]*|\d+))*\Z")
_SUBTITLE = re.compile(
    r": [A-Z][\w'’-]*(?: (?:of|the|and|in|a|to|for|on|[A-Z][\w'’-]*|\d+))*(?=[\s\x00]*(?:[,.;!()]|\Z))"
)


_UNANSWERED = re.compile(
    r"(?:no|none|nothing|guess|depends|hard|tough|idk|dunno|don't|can't|not|i|well|hmm+|too|good|you|all|any|maybe"
    r"|who|why|sorry|please|help)\b"
)


def favorite(said: Said, match: Match) -> Drafts:
    """'My favorite color is blue'."""
    what = match["what"].strip().split()
    if (
        what[0] in _NOT_FAVORITES
        or what[-1] in _NOT_FAVORITES
        or any(word in ("about", "of", "in", "to", "that", "from", "for", "at") for word in what)
    ):
        return
    end = _FAVORITE_END.search(said.clause.low, match.end())
    text = said.clause.text[match.end() : end.start() if end else len(said.clause.low)].strip()
    subtitle = _SUBTITLE.match(said.clause.text, match.end() + len(text)) if _TITLE.match(text) else None
    text = _BESIDE_IT.sub("", text + (subtitle.group() if subtitle else ""))
    value = Value(text, match.end(), match.end() + len(text))
    if (
        text
        and len(text.split()) <= 9
        and " is my " not in text
        and not _POINTED_AT.fullmatch(text)
        and not ("?" in match.group() and _UNANSWERED.match(text.lower()))
        and not re.match(
            r"(?:not|n't|when|how|what|that|to|if|whatever|probably|going|in|on|this|your|it|you|(?:the )?ones?)\b",
            text.lower(),
        )
    ):
        yield said.fact(key_of("favorite " + " ".join(_singular(what))).name, value, 0.92)


_POINTED_AT = re.compile(
    r"(?:yours|mine|his|hers|ours|theirs|him|her|them|us|me|here|there|these|those|the (?:same|other|others|one|first"
    r"|last|second|latter|former)|which|none|nothing|something|anything|everything|secret|a secret)(?: (?:one|ones"
    r"|truly|too|there|here|now|guys|as well|of course|obviously|anyway|again|all))*"
)
"""What only points: "my favourite shop is yours"."""


def _singular(what: list[str]) -> list[str]:
    last = what[-1]
    if last.endswith("ies") and last not in ("movies", "series", "cookies"):
        last = last[:-3] + "y"
    elif last.endswith("s") and not last.endswith(("ss", "us", "series", "sports")):
        last = last[:-1]
    return [*what[:-1], last]


def is_favorite(said: Said, match: Match) -> Drafts:
    """'Blade Runner is my favorite movie'."""
    what = match["what"].split()
    text = said.clause.text[slice(*match.span("value"))]
    if (
        what[0] in _NOT_FAVORITES
        or _POINTED_AT.fullmatch(text[:1].lower() + text[1:])
        or re.match(r"(?:it|this|that|he|she|you|we|which|they|these|those|there|what|one|who|here)\b", text.lower())
        or " one of " in match.group()
    ):
        return
    if len(text.split()) <= 5:
        yield said.fact(
            key_of("favorite " + " ".join(_singular(what))).name, Value(text, match.start("value"), match.end()), 0.85
        )


GOAL_IS = re.compile(
    r"my (?:[\w'-]+ ){0,2}(?:goal|dream|ambition|aim|resolution|new year's resolution)(?: for (?:this|next) year"
    r"| this year| right now| in life)?(?:'s| is)(?: (?:still|currently|now|always been))? (?:to |becoming |being )?"
)
TRAINING = re.compile(
    r"(?:currently |now )?(?:training for|(?:preparing|prepping|studying) for(?= .{0,30}\b(?:exam|exams|test"
    r"|certification|bar|mcat|gre|gmat|lsat|toefl|ielts|marathon|race|triathlon|competition|tournament)\b)) (?:a |an "
    r"|the |my )?(?:upcoming |first |next )?"
)
SAVING = re.compile(
    r"(?:currently |now )?saving(?: up)?(?: money)? (?:for|to(?= (?:buy|move|travel|start|open|get|go|visit|see|do"
    r"|build)\b)) "
)
TRYING = re.compile(
    r"(?:currently |really |also )?(?:trying|working|aiming|hoping|determined|planning|plan|aim|intend|looking|want"
    r"|would like) (?:hard )?(?:to|on|towards) (?P<what>(?:lose|quit|stop|get (?:my (?=[\w -]*(?:licen[cs]e|degree"
    r"|diploma|certificate|certification|black belt))|fit|in shape|healthier|better at"
    r"|promoted|into (?:shape|medical school|law school|grad school|(?:[a-z]+ )?(?:design|tech|finance|nursing"
    r"|teaching|acting"
    r"|journalism|politics|real estate|cyber ?security|data science|photography|software|consulting)))|learn(?:ing)?"
    r"|run|save|buy|become"
    r"|eat (?:healthier|less|more)|drink (?:less|more)|retire|start (?:my own|a) (?:business|company)|write a (?:book"
    r"|novel)|read more|gain|build muscle|improve my|pay off|reduce|climb|finish my|complete|cut down|travel more"
    r"|move to|open a|becoming an?|getting (?:fit|in shape|promoted|certified))\b)"
)
_PASSING = re.compile(
    r" (?:lately|soon|right now|recently|these days|for (?:the past|a (?:while|week|month|year|long|few)|about|over"
    r"|\w+ (?:weeks?|months?|years?)).*"
    r"|again|at the moment|some ?day|one day|eventually|by the way|too|as well|myself|also)\Z",
    re.I,
)
_GOAL_END = re.compile(
    r"\s*(?:,(?!\d)|[;:!?()\x00]|\.\s*\Z|\s(?:but|because|since|so|which|though|lol|haha|btw|tbh|ngl|tho|lmao"
    r"|and (?:i|i'm|my|it|need"
    r"|want|was|wondering|am|could)|cause|cuz|bc|however|if|when|by the time)\b|\s[-–—]|\Z)"
)


_LEFT_HANGING = re.compile(r",? (?:before|after|while|once|until|till|as soon as|like|the way|as)\Z")
_UNFINISHED = re.compile(
    r"\b(?:ones?|things?|somewhere|where|what|that|which|anything|everything|something|whatever|how|who|people"
    r"|someone)\Z"
)
"""The end of a value whose rest is a clause of its own: "the one I had in Rome"."""


def goal(said: Said, match: Match) -> Drafts:
    """'My goal is to run a marathon this year', 'I'm trying to lose weight'."""
    first = match.start("what") if "what" in match.re.groupindex else match.end()
    end = _GOAL_END.search(said.clause.low, first)
    text = _PASSING.sub("", said.clause.text[first : end.start() if end else len(said.clause.low)].strip())
    text = _LEFT_HANGING.sub("", text)
    if (
        not 1 <= len(text.split()) <= 12
        or _UNFINISHED.search(text.lower())
        or re.match(r"(?:how|what|why|this|that|it|not|the same|figure|find|understand)\b", text.lower())
    ):
        return
    last = first + len(text)
    if match.re is SAVING and match.group().endswith("for "):
        text = f"save for {text}"
    elif text.startswith("becoming "):
        text = f"become {text.removeprefix('becoming ')}"
    if match.re is TRYING and not _lasting(text.lower()):
        return
    yield said.fact("goal", Value(text, first, last), 0.85 if match.re is GOAL_IS else 0.72)


_NOT_LASTING = re.compile(
    r"\b(?:how(?! to (?:play|cook|swim|drive|code|dance|sail|ride|fly|bake|skate|climb|dive"
    r"|surf|speak|sing|knit|sew|ski|draw|paint)\b)|more about|about"
    r"|this(?! year| summer| month| winter| fall| autumn| spring| season)|that|it|what|why|some|a few|something"
    r"|stop (?:the|my|it|this)|which"
    r"|the error|code|file|data|script|command|program|query|test|tests)\b"
)


_MAY_BE_STEPS = (
    "learn", "run", "buy", "become", "finish my", "complete", "reduce", "save", "stop", "improve", "climb", "start",
    "open a", "gain",
)  # fmt: skip


def _lasting(text: str) -> bool:
    """Whether it is a goal in life, not a step of the task at hand: "learn Italian", not "learn more about this"."""
    if _NOT_LASTING.search(text):
        return False
    if text.startswith(_MAY_BE_STEPS):
        return (
            re.search(
                r"\b(?:learn(?:ing)? [a-z]+(?: (?:language|guitar|piano))?\Z|learn (?:how to|to|the)|run a"
                r"|buy a (?:house|home|car|flat|apartment|condo)|become (?:a|an)|save (?:for|up|money|[$£€]?\d)"
                r"|stop (?:smoking|drinking|procrastinating|eating)|improve my|start (?:my own|a)|open a"
                r"|gain (?:muscle|weight)|finish my|climb|reduce my|complete (?:a|an|my))",
                text,
            )
            is not None
        )
    return True
