"""What the user does: occupation, employer, industry."""

from __future__ import annotations

import re
from dataclasses import replace

from recollect.enrich import Draft
from recollect.enrich.clauses import WITHIN_WORK, Clause
from recollect.enrich.names import (
    CITIES,
    COUNTRIES,
    FIRST_NAMES,
    ORGANISATIONS,
    PROGRAMMING_LANGUAGES,
    REGIONS,
    SCHOOLS,
    words,
)
from recollect.enrich.values import (
    Drafts,
    Match,
    Said,
    Value,
    coming,
    known,
    organisation,
    phrase,
    places,
    school,
    since,
)
from recollect.enrich.vocabulary import FORMER, GAMES, INDUSTRIES, NOT_AN_OCCUPATION_BEFORE, OCCUPATIONS
from recollect.policies.dates import DAYS, MONTHS

# ── Occupation ───────────────────────────────────────────────────────────────────────────────────

AM_A = re.compile(r"(?:(?:a|an|the) (?:\d{1,3}[ -]?(?:years?[ -]old|yo|y/o) )?)?(?=[a-z])")
WORK_AS = re.compile(
    r"(?:have )?(?:work|working|worked|employed|freelance|freelancing|serve|serving|(?:earn|make) (?:my"
    r"|a) living) (?:\w+ ){0,3}?as "
    r"(?P<article>(?:a|an|the) )?"
)
HEAD_OF = re.compile(
    r"(?:the )?(?P<what>(?:global |deputy |vice |interim )?(?:head|director|vp|vice president|chief|manager) of [a-z]+"
    r"(?: (?:and|&) [a-z]+| (?!at|for|in|with|and|but|so|of)[a-z]+)?)(?=[\s\x00]*(?:[,.;!()\x00]|\Z|(?:at|for|in|with"
    r"|and|but)\b))"
)
WORK_INSIDE = re.compile(r"(?:have )?(?:work|working|worked|employed|doing (?:a |my )?job) (?:in|with|at) ")
BY_TRADE = re.compile(r"(?:an? )(?P<what>[a-z][\w -]{2,30}?) by (?:trade|profession|training|vocation)\b")
JOB_IS = re.compile(
    r"my (?:job|occupation|profession|role|job title|title|current (?:job|role|position)|position|day job)(?:'s"
    r"| is|:)(?: (?:now|currently))? (?:as )?(?:(?:a|an|the|being an?|to be an?) )?"
)
PROMOTED = re.compile(
    r"(?:just |recently |finally )?(?:got|was|been|am) (?:just )?(?:promoted to|hired as|appointed(?: as)?"
    r"|made(?= (?:(?:a|an|the|head|senior|lead|chief|deputy|assistant|partner) )?[a-z]+[\s\x00]*(?:[,.!;]|\Z|(?:last"
    r"|this|in|at|and|two|a)\b))) (?!to\b"
    r"|by\b|for\b)(?:a |an "
    r"|the )?"
)
BECAME = re.compile(
    r"(?:just |recently |finally )?(?:became|(?:(?<=just )|(?<=recently ))started as|started working as"
    r"|started as(?= .{0,40}\b(?:last|this|today|yesterday|monday|on)\b)|started a new job as"
    r"|(?:have|have got|got|took|landed|accepted) a (?:new )?job as|found a new job as|switched to being|now work as)"
    r" (?:a|an|the) "
)
PLAIN_STATUS = re.compile(
    r"(?:newly |recently |semi-|happily |currently )?(?P<what>retired|unemployed|self[- ]employed"
    r"|freelancing(?! as an? )|between jobs|out of work)(?![\w-])(?! (?:from|that|by)\b)"
)
_ROLE = re.compile(r"[\w'’+#./&-]+(?: [\w'’+#./&-]+){0,7}")
_ROLE_STOP = words(
    """
    at, for, in, from, with, who, and, but, so, on, by, of, to, because, since, that, which, working, living,
    based, currently, i, my, when, while, here, now, as, where, trying, looking, doing, about, near, though, or,
    until, if, than, like
    """
)


def occupation(said: Said, match: Match) -> Drafts:
    """'I'm a high school teacher': what ends in a known occupation and is not a judgement of taste."""
    found = _plain_role(role_at(said, match.end()))
    if (
        found is None
        or _NOT_MEANT.search(said.clause.low, match.start() - 12 if match.start() > 12 else 0)
        or (match.re is AM_A and not _has_article(match) and found.text.lower() not in _BARE)
    ):
        return
    if _NOT_A_JOB_AFTER.match(said.clause.low, found.last) and not _OVER_SOMETHING.search(found.text):
        return
    if _SUPPOSED.match(said.clause.low, found.last) or _in_a_manner(said, found):
        return
    if match.re is AM_A and _is_left_out(said) and not _SAYS_MORE.match(said.clause.low, found.last):
        return  # the next subject, not one more thing about the user: "I cried behind the bins, a teacher gave me ..."
    if found.text.split()[-1].lower() in _SAID_OF_ANYBODY and not _ROLE_END.match(said.clause.low, found.last):
        return
    if _AT_PLAY.search(found.text.lower()) or (match.group().strip() == "the" and _AMONG_OURSELVES.match(found.text)):
        return
    opening = found.text.split()[0].lower()
    if opening in FORMER:
        rest = found.text[len(opening) :].strip(" -")
        yield said.ended_fact("occupation", Value(rest, found.first, found.last), 0.8)
        return
    found = _both_roles(said, found)
    yield said.fact("occupation", found, 0.88 if match.re is AM_A else 0.92)
    yield from _languages_in(said, found)
    yield from _employer_after(said, found)


_LEADS = words("founder, cofounder, co-founder, owner, co-owner, ceo, cto, cfo, coo, chairman, chairwoman, chair")
_AND = re.compile(r" (?:and|&) (?:the )?")


def _both_roles(said: Said, role: Value) -> Value:
    """'The cofounder and CTO of ...' is one person in one job."""
    joint = _AND.match(said.clause.low, role.last)
    second = role_at(said, joint.end()) if joint and role.text.lower() in _LEADS else None
    if second is None or second.text.lower() not in _LEADS:
        return role
    return Value(said.clause.text[role.first : second.last], role.first, second.last)


_AT_PLAY = re.compile(
    r"\b(?:point|shooting|left|right|offensive|defensive) guard\Z|\bcertified (?:\w+ )?(?:diver|instructor|lifeguard)\Z"
)
"""What the user is in a game or holds a certificate for, apart from their work."""
_AMONG_OURSELVES = re.compile(
    r"(?:cook|chef|driver|cleaner|baker|barber|photographer|nurse|treasurer|secretary)\Z", re.I
)
"""Roles at home or in a club: "He shall stay with us. I am the cook"."""
_NOT_A_JOB_AFTER = re.compile(r" of\b")
_SUPPOSED = re.compile(
    r" (?:would|might|could|may|should|does|do|did|says?|said|to be|of the (?:year|month|week|day))\b"
)
"""Anybody may say 'as a teacher would say'."""
_SERVES = re.compile(r" to (?:an?|my|the|this|his|her|our)\b")
_SERVING = re.compile(
    r"(?:assistant|secretary|advis[eo]r|deputy|aide|apprentice|consultant|ambassador|counsel)\Z", re.I
)
_SAYS_MORE = re.compile(
    r"[\s\x00]*(?:[,.;:!?()\x00–—-]|\Z|(?:and|but|so|at|for|with|who|by|from|here|now|since|because|too|on|in|of|near"
    r"|to|again|turned|working|living|based|doing|looking|trying|where|which|or|as|not|then|before|until|till|any)\b)"
)
"""What may follow an occupation that "I am" was left out of; a verb would make it somebody else."""


def _in_a_manner(said: Said, role: Value) -> bool:
    """True where it is only said of how somebody acts: "I'm a nurse to a jar of glue"."""
    return _SERVES.match(said.clause.low, role.last) is not None and not _SERVING.search(role.text)


def _is_left_out(said: Said) -> bool:
    return said.clause.start < said.clause.begins


_JUDGED = re.compile(
    r"(?:(?:old|young|new|newest|angry|rich|tired|single|innocent|original|humble|simple|mere|proud|sad|lonely|little"
    r"|busy|grumpy|small-town|fully|only|sole) )+(?=\S)",
    re.I,
)
"""What is said of the person, not of the work: "I'm only a humble baker"."""


def _plain_role(role: Value | None) -> Value | None:
    judged = _JUDGED.match(role.text) if role else None
    return Value(role.text[judged.end() :], role.first + judged.end(), role.last) if role and judged else role


_OVER_SOMETHING = re.compile(
    r"(?:director|head|vp|manager|professor|founder|owner|ceo|cto|cfo|coo|chief|student|teacher|mom|mum|dad|parent)\Z",
    re.I,
)
_SAID_OF_ANYBODY = words(
    """
    model, resident, associate, lead, server, judge, collector, driver, conductor, operator, controller, marine, critic,
    producer, investor, guard, usher, printer, potter, veteran
    """
)
_ROLE_END = re.compile(
    r"[\s\x00]*(?:[,.;!()\x00]|\Z|in (?!the\b|a\b|this\b|my\b)|(?:and|but|so|at|for|with|who|by|from|here|now|since"
    rf"|because|too|working|living|based|near)\b|{WITHIN_WORK})"
)
_NOT_MEANT = re.compile(
    r"\b(?:according to|basically|practically|pretty much|almost|at this point|at heart|of life"
    r"|in (?:my|his|her) (?:dreams|mind"
    r"|head|past life)|in training|wannabe|in the (?:show|movie|film|play|game|story|series)|on tv|in another life"
    r"|for (?:a day|halloween|the night)|tonight)\b"
)
_BARE = frozenset({"ceo", "cto", "cfo", "coo", "head of", "vp", "cofounder", "co-founder"})


def _has_article(match: Match) -> bool:
    return bool(match.group().strip())


_PHRASES = {occupation: occupation for occupation in OCCUPATIONS if occupation.startswith("stay")}
TEACH = re.compile(
    r"teach (?=[a-z]+(?: [a-z]+){0,3}[\s\x00]*(?:[,.!;]|\Z|(?:at|in|to|for|and|but|so)\b))(?!a \w+ (?:named|called)"
    r"|someone|myself|you|him|her|them|people|how|my|me|it|that|us|this|everyone|\w+ of (?:them|you|us|these))"
)


def teaches(said: Said, match: Match) -> Drafts:
    """'I teach high school chemistry' is said by a teacher."""
    yield said.fact("occupation", Value("teacher", match.start(), match.end() - 1), 0.75)


_TAUGHT_OR_LED = re.compile(r"\b(?:professor|lecturer|teacher|director|manager|vice president|vp)\Z")
_FIELD = re.compile(
    r" of (?!an?\b|the\b|my\b|our\b|this\b|two\b|three\b|one\b|it\b|that\b)[a-z-]+"
    r"(?: (?:and )?(?!at\b|for\b|in\b|with\b|and\b|but\b|so\b|from\b|here\b|who\b|now\b)[a-z-]+)?"
    r"(?=[\s\x00]*(?:[,.;!()\x00]|\Z|(?:at|for|in|with|and|but|so|from|here|who|now)\b))"
)
"""What is taught or led, in lower case: with a capital it may be the place."""


_IN_FIELD = re.compile(r" in (?!the\b|a\b|my\b|this\b)[a-z-]+(?: (?:and )?[a-z-]+){0,2}?(?= at [A-Z])")
_TWOFOLD = words(
    """
    speech, health, research, food, sales, learning, design, trust, diversity, heating, science, obstetrics, security,
    data, media, events, film, music
    """
)
"""Fields that are joined to a second one in a single role: "speech and language therapist"."""


def role_at(said: Said, at: int) -> Value | None:
    """The longest run of words from here that ends in an occupation."""
    if whole := known(_PHRASES, said.clause, at):
        return Value(said.clause.text[at : whole.last], at, whole.last)
    match = _ROLE.match(said.clause.low, at)
    if match is None:
        return None
    so_far: list[str] = []
    best, place = None, at
    run = match.group().split(" ")
    for word, after in zip(run, [*run[1:], ""], strict=True):
        bare = word.strip(".,'’/-")
        joined = bare == "and" and so_far and so_far[-1] in _TWOFOLD
        if (bare in _ROLE_STOP and not joined) or (
            bare in NOT_AN_OCCUPATION_BEFORE
            and not _known_end([*so_far, bare])
            and f"{bare} {after.strip('.,’-')}" not in OCCUPATIONS
        ):
            break
        so_far.append(bare)
        if _known_end(so_far):
            best = place + len(word.rstrip(".,'’/-"))
        place += len(word) + 1
    if best is None:
        return None
    field = _FIELD.match(said.clause.text, best) or _IN_FIELD.match(said.clause.text, best)
    if field and _TAUGHT_OR_LED.search(said.clause.low[at:best]):
        best = field.end()
    text = said.clause.text[at:best]
    language = known(PROGRAMMING_LANGUAGES, said.clause, at)
    if language and at + 1 < language.last < best:
        text = language.text + text[language.last - at :]
    return Value(text, at, best)


def _known_end(role: list[str]) -> bool:
    return any(" ".join(role[-count:]) in OCCUPATIONS for count in (1, 2, 3, 4, 5))


def _languages_in(said: Said, role: Value) -> Drafts:
    """A Python developer writes Python."""
    word = role.text.split()[0].lower()
    if word in PROGRAMMING_LANGUAGES and role.text.lower().endswith(
        ("developer", "programmer", "engineer", "dev", "coder")
    ):
        value = Value(PROGRAMMING_LANGUAGES[word], role.first, role.first + len(word))
        yield said.fact("programming_language", value, 0.8)


_WITHIN = re.compile(rf" {WITHIN_WORK}(?= at )", re.I)
_AT = re.compile(
    r"(?:,? (?:here )?(?:at|for|with|of)|,? currently at|, working (?:at|for)) "
    r"(?:an? (?:[\w-]+ ){1,4}(?:called|named) )?"
)
_IN = re.compile(r" (?:(?:living|based) )?(?:in|from) ")
_FIRM_NAME = re.compile(
    r"\b(?:Bank|Ltd|Limited|Inc|Corp|Technologies|Hospital|Group|GmbH|LLC|Solutions|Systems"
    r"|Motors)\b"
)
_STUDENT = re.compile(r"(?:student|undergrad|undergraduate|freshman|sophomore|postdoc|grad student|postgrad)\Z")


def _employer_after(said: Said, role: Value) -> Drafts:
    clause = said.clause
    within = _WITHIN.match(clause.text, role.last)
    if joint := _AT.match(clause.low, within.end() if within else role.last):
        student = _STUDENT.search(role.text.lower())
        found = school(clause, joint.end()) if student else organisation(clause, joint.end())
        if found:
            yield said.fact("education" if student else "employer", found, 0.85)
            if within is None:
                return
    if joint := _IN.match(clause.low, role.last):
        firm = organisation(clause, joint.end())
        if firm and "from" not in joint.group() and _FIRM_NAME.search(firm.text):
            yield said.fact("employer", firm, 0.8)
            return
        for place in places(clause, joint.end()):
            key = "hometown" if "from" in joint.group() else place.kind
            yield said.fact(key, place.value, 0.75)
            if key == "hometown" or said.ended:
                return


def open_occupation(said: Said, match: Match) -> Drafts:
    """'I work as a ...' needs no list: it can only be followed by an occupation."""
    past = match.group().startswith("worked") and not said.ended
    if past and not re.search(r"\b(?:i've|ive|have)\b.*\b(?:for|since)\b", said.clause.low):
        return
    known_role = role_at(said, match.end())
    if known_role is None and re.search(r"\bmade \Z|\bmade (?:an?|the) \Z", match.group()):
        return
    if known_role is not None:
        yield from occupation(said, match)
        return
    open_ended = match.groupdict().get("article") is not None or "article" not in match.re.groupindex
    if open_ended and (role := _open_role(said, match.end())) and not (match.re is PROMOTED and _is_a_thing(role)):
        yield said.fact("occupation", role, 0.75)
        yield from _employer_after(said, role)


_NOT_A_ROLE = words(
    """
    team, whole, group, couple, result, last, way, means, favor, favour, form, part, matter, rule, joke, person, man,
    woman, parent, mother, father, mum, mom, dad, grandmother, grandfather, grandma, grandpa, citizen, member, believer,
    fan, regular, habit, problem
    """
)


def _is_no_role(words_: str) -> bool:
    role = words_.lower().split()
    named = words_.lower().startswith(("team lead", "group lead", "group manager"))
    return not named and (role[0] in _NOT_A_ROLE or role[-1] in _NOT_A_ROLE or "here" in role)


def _is_a_thing(role: Value) -> bool:
    """Whether one unknown word in lower case: cooks are "promoted to butter" in fun, managers to "Partner"."""
    return " " not in role.text and role.text.islower()


def _open_role(said: Said, at: int) -> Value | None:
    """Whatever is in the position of an occupation."""
    found = phrase(said.clause, at, words_max=6)
    cut = (
        re.split(r" (?:at|for|in|with|from|on|and|to|last|this|since|back)\b", found.text, maxsplit=1)[0]
        if found
        else ""
    )
    if not found or not cut or len(cut.split()) > 4 or _is_no_role(cut):
        return None
    return Value(cut, found.first, found.first + len(cut))


_FROM_PLAY = re.compile(
    r" (?:early )?from (?:(?:professional|competitive|pro|playing) ){0,2}"
    rf"(?:{'|'.join(map(re.escape, sorted(GAMES)))}|boxing|wrestling|racing|swimming|competitions?|competing|sports?)\b"
)
"""From a sport, people retire at thirty, and work: "I retired from boxing in 2010"."""


def stated(said: Said, match: Match) -> Drafts:
    """'I'm a plasterer by trade', 'I'm retired', 'I'm self-employed': these need no list."""
    if _FROM_PLAY.match(said.clause.low, match.end("what")):
        return
    first, last = match.span("what")
    text = said.clause.low if match.re is RETIRED else said.clause.text
    yield said.fact("occupation", Value(text[first:last], first, last), 0.85)


def head_of(said: Said, match: Match) -> Drafts:
    """'I'm head of marketing at Monzo'."""
    first, last = match.span("what")
    role = Value(said.clause.text[first:last], first, last)
    yield said.fact("occupation", role, 0.85)
    yield from _employer_after(said, role)


RETIRED = re.compile(
    r"(?:have )?(?P<what>retired)(?=(?: early)?(?: from (?:the |my )?[\w'& -]{2,30}?)? (?:last|this|in \d+|in (?:jan"
    r"|feb|mar|apr|may\b|jun|jul|aug|sep|oct"
    r"|nov|dec)"
    r"|(?:two|three|four|five|\d+|a few|a couple of|an?) (?:days?|weeks?|months?|years?) ago|yesterday|today)\b"
    r"|(?<=just retired)|(?<=recently retired)|(?<=finally retired)|(?<=officially retired))"
)
"""Only with a time; without one it may describe another time: "the year I retired we moved"."""


# ── Employer and industry ────────────────────────────────────────────────────────────────────────

WORK_AT = re.compile(
    r"(?:have )?(?:work|working|worked|interning|intern|employed|contract|freelance|consult)(?: (?:remotely|remote"
    r"|from home|freelance"
    r"|full[- ]time|part[- ]time|here|over|now|currently|mostly|right now|nights|shifts))* (?:at|for|over at"
    r"|(?<=employed )(?:by|with)) (?:an? (?:\w+ ){0,3}(?:called|named) )?"
)
STARTED_AT = re.compile(
    r"(?:have )?(?:just |recently |finally |newly )?(?:started(?: (?:working|a (?:new )?(?:job|position|role|gig)"
    r"|my (?:new )?(?:job|gig|role|position)|work))? (?:at|with)|joined|(?:got|accepted|landed|took|have"
    r"|found)(?: (?:a|an|the|my)(?: new| dream)?)? (?:job|position|offer|role|internship)(?: offer)? (?:at|with|from)"
    r"|got hired (?:at|by)|was hired (?:at|by)) (?:an? (?:\w+ ){0,3}(?:called|named) )?"
)
EMPLOYER_IS = re.compile(
    r"my (?:employer|company|workplace|firm|startup|current employer)(?:(?:'s name)?(?:'s| is)(?: called| named)?"
    r"|,(?= [\w&' -]{2,40},)) "
)
_FIRM = (
    r"(?:compan(?:y|ies)|business|start-?up|firm|agency|studio|shop|store|boutique|restaurant|caf[eé]|coffee shop"
    r"|bakery|bar|pub|brewery|practice|clinic|consultancy|consulting firm|non-?profit|charity|foundation|brand|label"
    r"|gallery|salon|gym|farm|hotel|hostel|bookstore|bookshop|food truck|catering company|law firm|marketplace|saas"
    r"|venture|organi[sz]ation)"
)
FOUNDED = re.compile(
    rf"(?:have |am )?(?:run|own|running|founded|co-?founded|started|launched) (?:a|an"
    rf"|my(?: own)?)(?: [\w-]+){{0,3}}? {_FIRM}"
    r"(?: in [\w' -]{2,25}?)?,? (?:called|named) "
)
LEFT = re.compile(
    r"(?:have |'ve )?(?:just |recently |finally )?(?:(?:left|quit|resigned from|parted ways with"
    r"|walked away from)(?: my (?:old )?(?:job|position|role)(?: at| with))?|(?:got|was|been|am) (?:laid off|fired"
    r"|let go|made redundant)(?: (?:from|by|at))|stopped working (?:at|for)|handed in my (?:notice|resignation) at"
    r"|gave (?:my )?notice at|retired from|left (?:my (?:job|position) at)) "
)
LOST_JOB = re.compile(
    r"(?:have |just |recently |finally )*(?:(?:quit|left|lost|resigned from) my (?:old |day )?job|(?:got|was"
    r"|been) (?:laid off|fired|let go|made redundant)|resigned)(?=[\s\x00]*(?:[,.!;]|\Z|(?:last|this|yesterday|today"
    r"|in|on|two|three|a|and|but|so|because|after|recently|to)\b))(?! a(?: \w+)? (?:bullet|shot)| in the)"
)
WORK_IN = re.compile(
    r"(?:work|working|worked|am|employed|job is|career is|background is)? ?(?:in|within) (?:the )?(?:field of )?"
)
_NOT_EMPLOYERS = words(
    """
    a, an, the, my, home, night, least, myself, free, fun, nights, work, once, school, university, college,
    christmas, uni, miss, mr, mrs, ms, sir
    """
)
_LISTED_PLACES = frozenset({*CITIES, *REGIONS, *COUNTRIES})


def works_at(said: Said, match: Match) -> Drafts:
    """'I work for Deloitte as a consultant'."""
    low = said.clause.low
    word = match.group().split()[0]
    if word == "worked" and not said.ended and not re.search(r"\b(?:i've|ive|have)\b.*\b(?:for|since)\b", low):
        return
    yield from _employment(said, match.end(), 0.92)


def works_inside(said: Said, match: Match) -> Drafts:
    """'I am working in Infosys': only a known company, since people also work in cities and fields."""
    if known(ORGANISATIONS, said.clause, match.end()) and not match.group().startswith("worked"):
        yield from _employment(said, match.end(), 0.8)


def starts_at(said: Said, match: Match) -> Drafts:
    """'I just started at Globex as a data engineer'."""
    if (
        re.search(
            r"\b(?:offer|call|meeting|class|gym|discord|server|team|club|channel|circle|choir|orchestra|society|league"
            r"|church|guild|committee|association)\b",
            said.clause.low[match.start() : match.end() + 30],
        )
        and "job" not in match.group()
    ):
        return
    if "joined" in match.group() and not _is_company(said, match.end()):
        return
    if _BEGUN_WITH.search(match.group()) and not _is_known_firm(said, match.end()):
        return
    began = since(said.clause.low, said.at)
    for draft in _employment(said, match.end(), 0.85):
        if draft.key == "employer" and began is not None and not said.ended:
            draft = Draft("fact", draft.key, draft.value, draft.confidence, draft.span, valid_from=began)
        yield draft


_STARTS_THEN = re.compile(
    r"(?:\A|[,;(–-]\s|\band )(?:(?:and|so|but|ok|then|apparently)[\s,]{1,2}){0,2}(?:(?:i|i'll|i'm|i will|it|that)"
    r" (?:will |be |am |do )*)?(?:(?:will|to|going to|finally|officially) )*(?:start|starts|starting|begin|begins"
    r"|beginning)(?: work| there| the (?:new )?(?:job|role))?(?P<when> (?:on |in |from |the )*(?:next|this|\d"
    r"|tomorrow|early"
    rf"|mid|late|end|beginning|first|{'|'.join((*MONTHS, *(month[:3] for month in MONTHS), *DAYS))})"
    r"[\w ]{0,20})[\s.!)]*(?=\Z|[,;(–-])"
)
GOT_WORK = re.compile(
    r"\b(?:got|accepted|landed|have|found|offered|took|signed)\b.*\b(?:job|position|offer|role|contract|internship)\b"
    r"|\b(?:got|was|been) (?:hired|promoted|appointed)\b|\bpromoted to\b"
)
"""What somebody says who may begin later: "I got the job at Arup!! Start in March"."""


def start_of(low: str, at: int) -> int | None:
    """When work begins that somebody just got, if they say that and it is still to come: "start in March"."""
    match = _STARTS_THEN.search(low)
    return coming(match["when"], at) if match else None


_STARTING = (
    r"(?:(?:i'm|im|i am|i'll be|i will be) (?:(?:finally|officially|also) )*starting"
    r"|(?:i|i'll|i will) (?:(?:finally|officially|also) )*start)"
    r"(?: work| (?:a|my) (?:new )?(?:job|role|position))?"
)
STARTING_AT = re.compile(rf"{_STARTING} at ")
STARTING_AS = re.compile(rf"{_STARTING} as (?:a|an|the) ")
NOT_SURE = re.compile(r"\b(?:if|hopefully|maybe|perhaps|might|probably|unless|possibly)\b")
"""What is still to come and depends on something may not come."""
_NO_WORKPLACE = re.compile(r"\b(?:gym|class|classes|course|school|uni|university|college|club|nursery)\b")


def starting(said: Said, match: Match) -> Drafts:
    """'I'm starting at Siemens in May': true from then on, and only if they say when."""
    low = said.clause.low
    by_name = match.re is STARTING_AT
    found = organisation(said.clause, match.end()) if by_name else role_at(said, match.end())
    if found is None or (by_name and not _is_workplace(said, found)):
        return
    begins = coming(low[found.last :], said.at)
    drafts = _employment(said, match.end(), 0.8) if by_name else [said.fact("occupation", found, 0.8)]
    if begins is not None:
        yield from (replace(draft, valid_from=begins) for draft in drafts if draft.key in ("employer", "occupation"))


_OF_WORK = re.compile(r"\b(?:job|role|position|work)\b")
_THEN = re.compile(r",? (?:as|in|on|next|from|tomorrow|this)\b")


def _is_workplace(said: Said, found: Value) -> bool:
    """Whether it is a job that starts there: walks start at stations, lessons at chapters, studies at schools."""
    name, rest = found.text.lower(), said.clause.low[found.last :]
    if _OF_WORK.search(said.clause.low) or rest.startswith(" as "):
        return True
    is_other = name in SCHOOLS or name in _LISTED_PLACES or _NO_WORKPLACE.search(name) or not _THEN.match(rest)
    return not is_other and (name in ORGANISATIONS or "starting" in said.clause.low)


_BEGUN_WITH = re.compile(r"\bstarted with \Z")


def _is_known_firm(said: Said, at: int) -> bool:
    """What people start with may be anything, a language or a lesson: a firm only if known, or with the job there."""
    found = organisation(said.clause, at)
    return found is not None and (found.text.lower() in ORGANISATIONS or said.clause.low.startswith(" as ", found.last))


_ALSO_JOINED_BY_CUSTOMERS = words(
    """
    netflix, spotify, facebook, twitter, reddit, linkedin, tiktok, discord, disney, pinterest, costco, zoom, slack,
    etsy, strava, airbnb, uber, lyft, amazon, instacart, doordash, github, dropbox
    """
)


def _is_company(said: Said, at: int) -> bool:
    """People also join groups and games: a company only if its name stands alone, or with more about the job."""
    found = organisation(said.clause, at)
    if found and found.text.lower() in _ALSO_JOINED_BY_CUSTOMERS and " as " not in said.clause.low[found.last :]:
        return False
    rest = said.clause.low[found.last :] if found else ""
    return found is not None and bool(
        re.match(r"[\s\x00.!]*\Z|[,.!]| (?:as|in|last|this|two|three|a|on|recently|and|after|full)\b", rest)
    )


def employer_is(said: Said, match: Match) -> Drafts:
    """'My employer is Siemens', 'I run a company called Brightleaf'."""
    yield from _employment(said, match.end(), 0.88)


_ROLE_THERE = re.compile(
    r"(?: (?:last|this) \w+| in (?:\d{4}|jan\w*|feb\w*|mar\w*|apr\w*|may|june?|july?|aug\w*|sep\w*|oct\w*|nov\w*"
    r"|dec\w*)| on \w+day| (?:\w+ ){1,3}ago| recently| today| yesterday)?,? as (?P<article>(?:a|an|the|their) )?"
    r"| doing (?=\w+ engineering)"
)


def _employment(said: Said, at: int, confidence: float) -> Drafts:
    found = organisation(said.clause, at)
    if found is None or found.text.lower() in _NOT_EMPLOYERS or (found.text[0].isdigit() and len(found.text) < 3):
        return
    yield said.fact("employer", found, confidence)
    if said.ended:
        return
    value = _role_there(said, found.last)
    if value:
        yield said.fact("occupation", value, 0.88)
    joint = _IN.match(said.clause.low, value.last if value else found.last)
    there = places(said.clause, joint.end()) if joint and "from" not in joint.group() else []
    for place in there:
        yield said.fact(place.kind, place.value, 0.7)
    if there and not value and (value := _role_there(said, there[-1].value.last)):
        yield said.fact("occupation", value, 0.85)


def _role_there(said: Said, at: int) -> Value | None:
    """'... as a data engineer': with an article anything, without one a known occupation."""
    joint = _ROLE_THERE.match(said.clause.low, at)
    if joint is None:
        return None
    return role_at(said, joint.end()) or (_open_role(said, joint.end()) if joint["article"] else None)


_LEFT_END = re.compile(
    r"[\s\x00]*(?:[,.!;]|\Z|(?:in|last|yesterday|today|earlier|after|to|because|and|but|on|this|a|two|three|since|for"
    r"|as|years?|recently|back)\b)"
)


_WHEN_LEFT = re.compile(
    r" (?:in|last|after|this|two|three|a (?:year|month|week)|\d+|years?|recently|back|yesterday"
    r"|today)\b"
)


_FOR_A_JOB = re.compile(
    r" (?:because of|for|to take) (?:the|my|an?|another|this) (?:[\w-]+ ){0,3}(?:job|role|position|offer)\b"
)


def left(said: Said, match: Match) -> Drafts:
    """'I left Acme in 2022', 'I got laid off from Meta': the end of a job, if what was left is one."""
    clause = said.clause
    found = organisation(clause, match.end())
    surely_a_job = re.search(
        r"job|laid|fired|notice|resignation|let go|redundant|resign|retired|working|position|role|parted", match.group()
    )
    place = places(clause, match.end())
    listed_place = place and place[0].value.text != (found.text if found else "")
    if found is None or (
        place and not surely_a_job and (listed_place or place[0].value.text.lower() in _LISTED_PLACES)
    ):
        return
    name = found.text.lower()
    if name in _NOT_EMPLOYERS:
        return
    no_firm = name in _ALSO_JOINED_BY_CUSTOMERS or name in FIRST_NAMES
    dated = (
        name in ORGANISATIONS or _WHEN_LEFT.match(clause.low, found.last) or _FOR_A_JOB.match(clause.low, found.last)
    )
    if not surely_a_job and (no_firm or not dated):
        return  # people also leave a site, a faith or a person
    if _LEFT_END.match(clause.low, found.last):
        yield said.ended_fact("employer", found, 0.88 if surely_a_job else 0.75)


AT_NOW = re.compile(r"at (?=[a-z&.' -]{2,30} (?:now|these days|currently)\b)|(?:(?<=now )|(?<=currently ))at ")


def at_now(said: Said, match: Match) -> Drafts:
    """'I'm at Lyft now': only a known company, since people are also at places."""
    found = known(ORGANISATIONS, said.clause, match.end())
    before = said.clause.low[: match.start()].endswith(("now ", "currently "))
    if found and (before or re.match(r" (?:now|these days|currently)", said.clause.low[found.last :])):
        yield said.fact("employer", found, 0.75)


NOW_AT = re.compile(
    r"\A(?:i|i've|i have) (?:used to work|worked (?:at|for|as)|quit)\b[^.;]{2,60}?[,;–—-]? (?:and |but )?"
    r"(?:now (?:i'm|im|i am)|(?:i'm|im|i am) now) (?:at|with) "
)


def now_at(said: Said, match: Match) -> Drafts:
    """'I used to work at IBM, now I'm at Google': only a known company."""
    found = known(ORGANISATIONS, said.clause, match.end())
    if found and _LEFT_END.match(said.clause.low, found.last):
        yield said.fact("employer", found, 0.75)


NO_LONGER_AT = re.compile(r"(?:at|with|(?:working|employed) (?:for|at|by|with)) (?=\S)")


def no_longer_at(said: Said, match: Match) -> Drafts:
    """'I'm no longer at Spotify', 'I'm no longer with Globex': not with a person."""
    found = organisation(said.clause, match.end()) if said.ended else None
    if found is None or (match.group() == "with " and found.text.split()[0].lower() in FIRST_NAMES):
        return
    if found.text.lower() not in _LISTED_PLACES and found.text.lower() not in _NOT_EMPLOYERS:
        yield said.fact("employer", found, 0.8)


LAST_DAY = re.compile(
    r"(?P<over>(?:today's|today is|(?:\w+day|it|that) was|was) )?my (?:very )?last (?:day|shift|week|month)"
    r"(?: of work)? (?:at|with|for) "
)
_IS_OVER = re.compile(r" was (?!supposed|meant|going|planned|due|scheduled|to be|originally|almost|nearly)")


def last_day(said: Said, match: Match) -> Drafts:
    """'My last day at Globex was Friday', 'today is my last day at Globex': not one that is still to come."""
    found = organisation(said.clause, match.end())
    over = found is not None and (match["over"] or _IS_OVER.match(said.clause.low, found.last))
    name = found.text.lower() if found else ""
    no_firm = name in _LISTED_PLACES or name in _NOT_EMPLOYERS or name in SCHOOLS or name in FIRST_NAMES
    if found and over and not no_firm and not _NO_WORKPLACE.search(name):
        yield said.ended_fact("employer", found, 0.85)


QUIT_THE = re.compile(
    r"(?:have |'ve )?(?:just |recently |finally )?(?:quit|resigned from|(?:got|was|been) (?:laid off|fired|let go"
    r"|sacked) (?:from|by)|stopped working (?:at|for|in)|no longer work (?:at|for|in)) (?:the|that|my(?: old)?) "
    r"(?:(?!job\b)[\w-]+ ){0,2}?(?:company|business|start-?up|firm|agency|studio|shop|store|boutique|restaurant|caf[eé]"
    r"|coffee shop|bakery|bar|pub|brewery|clinic|consultancy|non-?profit|charity|gallery|salon|farm|hotel|hostel"
    r"|bookstore|bookshop|bank|factory|warehouse|hospital|supermarket|call cent(?:er|re)|office|library|newspaper"
    r"|kitchen|agency|garage|plant|mill|ministry|council)(?=[\s\x00]*(?:[,.!;]|\Z|(?:last|this|yesterday|today|in|on|two"
    r"|three|a|and|but|so|because|after|recently|to|for)\b))"
)
"""A place of work, which people quit as they quit a job: not a gym, a band or a course."""


BEEN_AT = re.compile(
    r"(?:at|with) (?=.{2,40} (?:for (?:about |over |almost |nearly |the (?:last|past) )?[\w-]{1,12}\+? years|since"
    r" (?:\d{4}|college|uni|graduating))\b)"
)


def been_at(said: Said, match: Match) -> Drafts:
    """'I've been at Rolls-Royce for eleven years': nobody says that of a shop, but some do of a school."""
    found = organisation(said.clause, match.end())
    if found is None or not said.clause.low.startswith(("i've been", "ive been", "i have been")) or said.ended:
        return
    name = found.text.lower()
    person = match.group().startswith("with") and name not in ORGANISATIONS
    if (
        not person
        and name not in SCHOOLS
        and name not in _LISTED_PLACES
        and _SINCE_THEN.match(said.clause.low, found.last)
    ):
        yield said.fact("employer", found, 0.75)


_SINCE_THEN = re.compile(r" (?:for|since)\b")


def lost_job(said: Said, match: Match) -> Drafts:
    """'I quit my job', 'I got laid off': the end of a job, whichever it was."""
    yield said.ended_fact("employer", Value("", match.start(), match.end()), 0.8)


_INDUSTRY_END = re.compile(
    r"[\s\x00]*(?:[,.!;()\x00]|\Z|(?:industry|sector|field|space|business|and|but|so|at|for|as|since|now|here|in"
    r"|with|world|which|(?:all )?my (?:whole |entire )?(?:life|career))\b)"
)


_ALL_ALONG = re.compile(r"\b(?:i've|ive|have)\b.*\b(?:for|since|my (?:whole|entire) (?:life|career)|all my life)\b")


_BRANCH = re.compile(
    r"(?:commercial|residential|higher|adult|primary|secondary|special|investment|private|retail|corporate|digital"
    r"|medical|clinical|consumer|renewable|public|industrial|criminal|family|local|video|enterprise) "
)


def _industry(clause: Clause, at: int) -> Value | None:
    """An industry from the list, or a branch of one: "higher education"."""
    if found := known(INDUSTRIES, clause, at):
        return found
    branch = _BRANCH.match(clause.low, at)
    found = known(INDUSTRIES, clause, branch.end()) if branch else None
    return Value(clause.text[at : found.first] + found.text, at, found.last) if found else None


IN_INDUSTRY = re.compile(
    r"(?:(?:work|working|worked|employed|been|spent [\w -]{2,25}? years|(?<=been )) )?in the (?P<what>(?!same|whole"
    r"|entire|wrong|right|private|public|this|that)"
    r"[a-z][\w-]*(?: (?:and |& )?[a-z][\w-]*){0,2}?) industry\b"
)


def in_industry(said: Said, match: Match) -> Drafts:
    """'I've been in the textile industry for years': with the word itself, no list is needed."""
    first, last = match.span("what")
    if match["what"] not in INDUSTRIES and not (
        match.group().startswith("worked") and not _ALL_ALONG.search(said.clause.low)
    ):
        yield said.fact("industry", Value(said.clause.text[first:last], first, last), 0.8)


_EMPLOYED_AT = re.compile(r" (?:at|for) ")


def works_in(said: Said, match: Match) -> Drafts:
    """'I work in finance': a closed list, since people also work in the mornings."""
    found = _industry(said.clause, match.end())
    verb = match.group().split()[0]
    after = _INDUSTRY_END
    if found is None or not after.match(said.clause.low, found.last):
        return
    still = verb == "worked" and _ALL_ALONG.search(said.clause.low) is not None
    trade = verb != "worked" and re.match(
        r" (?:industry|sector|field|space|business|world)\b", said.clause.low[found.last :]
    )
    if verb in ("work", "working", "employed", "career", "background", "job") or trade or still:
        yield said.fact("industry", found, 0.85)
    if verb in ("work", "working", "employed") and (there := _EMPLOYED_AT.match(said.clause.low, found.last)):
        yield from _employment(said, there.end(), 0.88)
