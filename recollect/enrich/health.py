"""What the user eats, cannot eat, and lives with."""

from __future__ import annotations

import re

from recollect.enrich.clauses import Clause
from recollect.enrich.names import words
from recollect.enrich.people import KEY_OF_RELATION
from recollect.enrich.values import (
    Drafts,
    Match,
    Said,
    Value,
    goes_on_by_itself,
    in_table,
    known,
    listed,
    phrase,
    since,
)
from recollect.enrich.vocabulary import (
    ADJECTIVE_CONDITIONS,
    ALLERGEN_WORDS,
    CONDITIONS,
    DIETS,
    MEDICATIONS,
    NOT_ALLERGENS,
    NOT_EATEN,
)

# ── Food and health ──────────────────────────────────────────────────────────────────────────────

DIET = re.compile(r"(?:(?:a |an |strict |strictly |mostly |fully |100% |lifelong |been )*(?=[a-z]))")
WENT = re.compile(
    r"(?:have |just |recently |finally )*(?:went|gone|became|turned|going|been|switched to(?: being)?|follow|keep|eat"
    r"|eating|do|doing|on|started|observe|stick to)(?: only| mostly| strictly)?(?: (?:a|an|the))?(?: strict| strictly"
    r"| fully)? "
)
NOT_EAT = re.compile(
    r"(?:don't|do not|dont|never|can't|cannot|can not|cant) (?:really |ever )?(?:eat|have|consume|drink) (?:any )?"
    r"|stopped eating |stopped drinking |gave up (?:eating )?"
)
_DIET_END = re.compile(
    r"(?:ism)?[\s\x00]*(?:[,.;!()\x00]|\Z|(?:diet|lifestyle|and|but|so|now|for|since|btw|food|meals|person|any ?more"
    r"|last|about|because|these|at|who|too|as|or|recently|again|lol|actually|with|two|three|a few|this|in|after|over"
    r"|if|also|either|at all|after all|myself|though|please|apart|except|here|tho)\b)"
)

_FOR_SOME_TIME = re.compile(
    r" for (?:a|one|two|three|four|\d+|a few|a couple of) (?:(?:little|short|long) )?"
    r"(?:bit|while|time|days?|weeks?|months?|years?)\b"
)
"""A trial that is over or will be, unlike "I've been vegan for a year"."""


def diet(said: Said, match: Match) -> Drafts:
    """'I'm vegan', 'I'm on a keto diet', 'I went vegetarian last year'."""
    found = known(DIETS, said.clause, match.end())
    plural = re.match(r"(?:vegetarian|vegan)s\b", said.clause.low[match.end() :])
    occasional = re.search(
        r"\b(?:sometimes|tonight|occasionally|once (?:a|in|every)|often|food|meals|restaurants?|for lunch"
        r"|for dinner)\b",
        said.clause.low,
    )
    if (
        found is None
        or plural
        or (occasional and "only" not in said.clause.low)
        or (_FOR_SOME_TIME.match(said.clause.low, found.last) and " been " not in said.clause.low[: found.first])
        or not _DIET_END.match(said.clause.low, found.last)
    ):
        return
    began = None if said.ended else since(said.clause.low, said.at)
    more = {} if began is None else {"valid_from": began}
    yield said.fact("diet", found, 0.9, **more)


BOTH_EAT = re.compile(
    r"\A(?:(?:hi|hello|hey|also|btw|by the way|fyi|and|so|well|please note|note)[,!:]? (?:that )?){0,3}"
    r"(?:we're|we are|my (?:[\w'’-]+ ){1,3}and (?:i|me) are|me and my (?:[\w'’-]+ ){1,2}are)"
    r"(?: (?:all|both|now|strict|strictly|also|lifelong|proud))* (?P<what>vegan|vegetarian|pescatarian)s?"
    r"(?=[\s\x00]*(?:[,.;!()\x00]|\Z|(?:and|but|so|since|btw|because|as|too|at home|ourselves)\b))"
)


def both_eat(said: Said, match: Match) -> Drafts:
    """'We are vegans', 'my sister and I are vegetarian': said of the user too."""
    yield said.fact("diet", Value(match["what"], *match.span("what")), 0.8)


_NOT_EATEN = {food: food for food in NOT_EATEN | {"alcohol"}}


_FOR_A_WHILE = re.compile(
    r"\b(?:any ?more|often|much|(?<!funny )(?<!oddly )(?<!strangely )enough|this (?:week|month)|today|tonight"
    r"|for lent|for (?:a|the|two"
    r"|three) (?:\w+ )?(?:days?|weeks?|months?)|right now|until|after (?:noon|\d))\b"
)


def not_eaten(said: Said, match: Match) -> Drafts:
    """'I don't eat pork or shellfish': beside a diet, not instead of one. A vegetarian may not eat eggs either."""
    found = list(listed(said.clause, match.end(), in_table(_NOT_EATEN)))
    if found and _DIET_END.match(said.clause.low, found[-1].last) and not _FOR_A_WHILE.search(said.clause.low):
        for value in found:
            yield said.fact("avoids", value, 0.75)


EATS_AGAIN = re.compile(
    r"(?:have )?(?:just |recently |finally )*(?:(?:started|began|back to|went back to|gone back to) )?(?:eat|eating) "
    r"(?:(?:a (?:bit|little) of|some) )?(?P<what>[a-z]+(?: and [a-z]+)?) again\b(?! (?:tonight|today|this (?:week"
    r"|evening)))"
)


def eats_again(said: Said, match: Match) -> Drafts:
    """'I eat meat again': the end of whatever diet it was, and of going without it."""
    if not NOT_EATEN.isdisjoint(match["what"].split()):
        yield said.ended_fact("diet", Value("", match.start(), match.end()), 0.8)
        for value in listed(said.clause, match.start("what"), in_table(_NOT_EATEN)):
            yield said.ended_fact("avoids", value, 0.8)


ALLERGIC = re.compile(
    r"(?:also |deathly |severely |highly |very |extremely |mildly |slightly |quite |badly |terribly |really |super "
    r"|a (?:bit|little) )*(?:allergic|intolerant|sensitive) to "
)
ALLERGIC_BEHIND = re.compile(
    r"(?:also |deathly |severely |highly |very |mildly |slightly )*(?P<what>[a-z]+(?: [a-z]+)?)[ -]allergic\b(?! to\b)"
)
ALLERGY = re.compile(
    r"(?:also )?(?:(?<=i've )|(?:have|have got|suffer from|got) )(?:a |an |some |many |multiple |several )?(?:severe "
    r"|bad |mild |serious |terrible |deadly |slight |life-threatening |food )*(?P<what>[a-z][\w -]{1,30}?) (?:allergy"
    r"|allergies|intolerance)\b"
)
ALLERGY_TO = re.compile(
    r"(?:also )?(?:(?<=i've )|(?:have|have got|suffer from|got|developed) )(?:a |an |some |food |severe |bad |mild "
    r"|serious |terrible )*(?:allergy|allergies|allergic reactions?|intolerance) to "
)
ALLERGY_IS = re.compile(r"my (?:food )?(?:allergies|allergy|allergens)(?: are| is| include| includes|:) (?:to )?")
INTOLERANT = re.compile(
    r"(?:a (?:bit|little) |slightly |very |mildly )?(?P<what>lactose|gluten|dairy|fructose|histamine)[ -]intolerant\b"
)
_NOT_AN_ALLERGY = words(
    """
    no, severe, bad, food, many, some, several, bunch, of, lot, seasonal, skin, an, a, this, that, the, any,
    pet, mild
    """
)
_SPOKEN_OF = re.compile(r"\b(?:about|on|regarding|with|of|for)\Z")
"""Allergies are the topic, not the user's own: "I've a question about allergies"."""


def allergic(said: Said, match: Match) -> Drafts:
    """'I'm allergic to nuts, shellfish and penicillin'; mornings and mondays are jokes."""
    for value in listed(said.clause, match.end(), allergen):
        if "sensitive" in match.group() and value.text.lower() not in ALLERGEN_WORDS:
            continue
        yield said.fact("allergy", value, 0.93 if value.text.lower() in ALLERGEN_WORDS else 0.85)


_ALLERGEN_END = re.compile(
    r"\s*(?:[,.;:!?()\x00/]|\s(?:and|or|but|so|because|which|that|as|since|if|when|in|btw|lol|haha|too|though|plus"
    r"|with|for|at|by|from|it|except|not|now|unfortunately|sadly|technically|apparently|tho|actually|badly|please"
    r"|pls|also|like|who|any ?(?:more|longer)"
    r"|after all"
    r"|at all)\b|\s[-–—&]|\Z)"
)


_NO_ALLERGEN = words(
    """
    code, jokes, people, meetings, drama, work, stupidity, emails, politics, commitment, effort, sports, math,
    mornings, alarms, deadlines, excel, javascript, java, php, windows, advice, ads, capitalism, nonsense, bad, good,
    stupid, your, early, doing, getting, fun, happiness, love, money, exercise, cardio, idiots, losing, lies, liars,
    him, her, them
    """
)


def allergen(clause: Clause, at: int) -> Value | None:
    at += len("to ") if clause.low.startswith("to ", at) else 0
    end = _ALLERGEN_END.search(clause.low, at)
    text = clause.text[at : end.start() if end else len(clause.low)].strip()
    low = text.lower()
    if (
        not text
        or len(text.split()) > 3
        or " of " in low
        or low in NOT_ALLERGENS
        or not _NO_ALLERGEN.isdisjoint(low.split())
        or low.split()[0] in ("my", "your", "the", "his", "being", "i", "i'm", "things")
        or goes_on_by_itself(clause, at)
    ):
        return None
    joking = re.search(r"\b(?:lol|haha+|lmao|rofl)\b|😂|🤣", clause.low)
    if joking and low not in ALLERGEN_WORDS:
        return None
    return Value(text, at, at + len(text))


def allergic_behind(said: Said, match: Match) -> Drafts:
    """'I'm penicillin allergic': only what is known to be an allergen."""
    if match["what"] in ALLERGEN_WORDS:
        yield from allergy(said, match)


def allergy(said: Said, match: Match) -> Drafts:
    """'I have a peanut allergy', 'I'm lactose intolerant'."""
    what = match["what"].strip()
    if what in NOT_ALLERGENS or what.split()[0] in _NOT_AN_ALLERGY or len(what.split()) > 3 or _SPOKEN_OF.search(what):
        return
    first = match.start("what")
    text = said.clause.text[first : first + len(what)]
    yield said.fact("allergy", Value(text, first, first + len(what)), 0.92)


HAVE_CONDITION = re.compile(
    r"(?:also |currently )*(?:have(?: had)?|(?<=i've )had|(?<=ive )had"
    r"|'ve got|got|get|suffer (?:from|with)|live with|living with|struggle with|struggling with"
    r"|deal with|dealing with|battling|battle|suffering from|manage)(?: (?:severe|bad|mild|really bad"
    r"|terrible|terribly|easily|a mild case of|some|pretty bad|a history of|serious|high-functioning"
    r"|low-grade))* "
)
CONDITION_OF = re.compile(r"(?:someone|a person|somebody) (?:with|who has|living with|that has) ")
DIAGNOSED = re.compile(
    r"(?:(?:was|been|got|have been|am|were) )?(?:(?:just|recently|officially|finally|also) )*diagnosed (?:as having"
    r"|with|as) "
)
AM_CONDITION = re.compile(
    rf"(?:a )?(?P<what>{'|'.join(sorted(map(re.escape, ADJECTIVE_CONDITIONS), key=len, reverse=True))})(?![\w-])"
    r"(?! (?:about|to)\b)(?P<where> in (?:(?:my|the) )?(?:one|left|right) (?:ear|eye))?"
)


_CONDITION_END = re.compile(
    r"[\s\x00]*(?:[,.;!()\x00&/]|\Z|(?:and|but|so|which|that|since|because|as|too|for|now|btw|with|from|or"
    r"|in (?:my|both|one)"
    r"|on (?:my|both|one) (?:hand|arm|leg|elbow|knee|foot|feet|face|scalp|skin|back|neck|chest|eye)s?"
    r"|cause|cuz|lol|these|right now|lately|if|it's|it|i|disorder|disease|pretty bad|really bad|sometimes|every|a lot"
    r"|quite|any ?(?:more|longer)|at all|after all)\b)"
)


_NOT_ONES_OWN = re.compile(
    r"\bin (?:my|the) family\b|\bfamily history\b|\bsigns?\b|\bzodiac\b|\bhoroscope\b|\babout (?:my|the|it)\b"
    r"|\bas an? (?:\w+ )?(?:therapist|nurse|doctor|counsell?or|psych\w+|paramedic|carer|social worker)\b"
)


_SEVERITY = re.compile(r"(?:(?:mild|moderate|severe|slight|bad|terrible|really bad) )+")
_KIND_OF = re.compile(
    r"(?:(?:type|stage|grade) (?:[1-4]|i{1,3}|iv|one|two|three|four)[ab]? |chronic |acute |gestational |juvenile "
    r"|(?:early|late)[- ](?:onset|stage) |relapsing[- ]remitting |(?:primary|secondary) progressive |psoriatic "
    r"|metastatic ){1,2}"
)
_OF_THE_BODY = re.compile(
    r"(?:breast|lung|skin|prostate|colon|bowel|thyroid|ovarian|kidney|testicular|pancreatic|cervical) cancer\b"
    r"|(?!(?:no|the|this|that|some|any|an?|same|every|my|your|his|her|what|which|mad|bad|rare) )[a-z][\w'’-]+ "
    r"(?:(?:heart|kidney|liver|lung|bone|thyroid|eye|lymph|body|cell|artery) )?disease\b"
    r"|(?:lower |upper )?(?:back|neck|knee|hip|shoulder|joint) pain\b"
)
_MORE_EXACTLY = re.compile(
    r"(?: (?:type|stage|grade) (?:[1-4]|i{1,3}|iv|one|two|three|four)\b"
    r"| (?:[12]|ii?)(?= disorder\b|[\s\x00]*(?:[,.;!]|\Z)))?"
    r"(?: (?:disorder|disease|syndrome)\b)?"
)


def _ailment(clause: Clause, at: int) -> Value | None:
    """A condition from the list, with the words that say which kind it is: "stage 2 breast cancer"."""
    severity = _SEVERITY.match(clause.low, at)
    at = severity.end() if severity else at
    kind = _KIND_OF.match(clause.low, at)
    first = kind.end() if kind else at
    found = known(CONDITIONS, clause, at)
    if found is None and (found := known(CONDITIONS, clause, first)) is None:
        body = _OF_THE_BODY.match(clause.low, first)
        if body is None or (kind is None and body.group().endswith("pain")):
            return None
        found = Value(body.group(), first, body.end())
    more = _MORE_EXACTLY.match(clause.low, found.last)
    last = more.end() if more else found.last
    return Value(clause.text[at : found.first] + found.text + clause.text[found.last : last], at, last)


_STILL = re.compile(
    r"\b(?:since|for (?!a while|a time)|all my life|my (?:whole|entire) life|diabetes|epilepsy|multiple sclerosis|ms"
    r"|crohn's|lupus|adhd|autism|celiac|coeliac|arthritis|fibromyalgia|parkinson's|asthma|endometriosis|ibs|tinnitus"
    r"|type [12])\b"
)
"""Signs that what the user "had" still lasts: a duration, or a condition that does not go away."""


def condition(said: Said, match: Match) -> Drafts:
    """'I have type 2 diabetes', 'I suffer from migraines': a closed list, since people "have" all sorts of things."""
    if _NOT_ONES_OWN.search(said.clause.low):
        return
    if "had" in match.group().split() and not _STILL.search(said.clause.low, match.end()):
        return
    for value in listed(said.clause, match.end(), _ailment, most=4):
        struggles = match.group().startswith(("struggl", "deal", "manage", "battl")) and value.text in (
            "anxiety",
            "depression",
            "insomnia",
            "acne",
        )
        if _CONDITION_END.match(said.clause.low, value.last):
            yield said.fact("medical_condition", value, 0.7 if struggles else 0.88)


def diagnosed(said: Said, match: Match) -> Drafts:
    """'I was diagnosed with ADHD last year'."""
    found = list(listed(said.clause, match.end(), _ailment, most=4))
    if not found:
        open_end = phrase(said.clause, match.end(), words_max=5)
        cut = (
            re.split(
                r" (?:in|at|last|this|when|by|a few|two|three|on|about|as|recently|and)\b", open_end.text, maxsplit=1
            )[0]
            if open_end
            else ""
        )
        small = re.match(r"(?:a |an |some |mild |severe )*", cut)
        shift = small.end() if small else 0
        if (
            cut[shift:]
            and open_end
            and not re.search(r"\b(?:sense|humou?r|laziness|stupidity|being|having)\b", cut.lower())
        ):
            first = open_end.first + shift
            found = [Value(cut[shift:], first, open_end.first + len(cut))]
    for value in found:
        yield said.fact("medical_condition", value, 0.9)


def am_condition(said: Said, match: Match) -> Drafts:
    """'I'm diabetic'."""
    where = (match["where"] or "").replace(" my ", " the ")
    first, last = match.start("what"), match.end("where") if where else match.end("what")
    yield said.fact("medical_condition", Value(ADJECTIVE_CONDITIONS[match["what"]] + where, first, last), 0.85)


_DOSE = r"(?:(?:a|an|my|some|daily|low[- ]dose|oral|weekly) )*(?:\d[\d.,]* ?(?:mg|mcg|g|ml|units) (?:of )?)?"
TAKES = re.compile(
    r"(?:have )?(?:(?:also|still|currently|now|just|recently) )*(?:take|taking|on|been (?:on|taking|prescribed)"
    r"|prescribed"
    rf"|started(?: taking| on)?|got put on|got prescribed|inject|injecting) {_DOSE}"
)
OFF = re.compile(rf"(?:now |finally |completely )*(?:off|done with) (?:the )?{_DOSE}")
_PRESCRIBER = (
    r"(?:they|(?:my |the )?(?:dr\.?|doctor|doc|gp|consultant|specialist|neurologist|cardiologist"
    r"|psychiatrist)(?: [a-z]+)?)"
    r"(?:'ve| have| has| just| now)*"
)
PUT_ON = re.compile(
    rf"{_PRESCRIBER} (?:(?:put|started) me on|prescribed me|(?<!they )(?<!they've )(?<!they have )prescribed|(?<!they )"
    rf"added|(?:switched|changed|swapped|moved) me (?:on)?to) {_DOSE}"
)
SWITCHED_MY = re.compile(
    rf"(?:{_PRESCRIBER}|i(?:'ve| have)?(?: just| recently)*) (?:switched|changed|swapped|replaced) my "
)
STOPPED_BY = re.compile(rf"{_PRESCRIBER} (?:stopped|discontinued|withdrew|withdrawn) (?:the |my )?{_DOSE}")
TAKEN_OFF = re.compile(rf"{_PRESCRIBER} (?:took|taken) me off (?:the )?{_DOSE}")
SWITCHED = re.compile(
    rf"(?:{_PRESCRIBER} (?:switched|changed|swapped|moved) me"
    r"|(?:i|i've|i have)(?: just| recently)* (?:switched|swapped)) from "
)
STOPPED = re.compile(
    r"(?:have |just |recently |finally |had to |have had to )*(?:(?:stopped|stop|quit|gave up|given up|give up|came off"
    r"|come off|went off|gone off|got off|weaned off|tapered off)(?: taking| using)?) "
    rf"(?:the |my )?{_DOSE}"
)
_FOR_NOW = re.compile(
    r"\b(?:for (?:an?|the|my|two|three|four|five|\d+|some|now)|until|temporarily|today|tonight|before)\b"
)
"""What is stopped for a while is taken again: "I stopped aspirin for a week before the surgery"."""
_TO = re.compile(r" (?:(?:on)?to|for|with) ")
_NOT_REGULARLY = re.compile(
    r"\b(?:sometimes|occasionally|rarely|when|whenever|if|tonight|yesterday|once|as needed|before (?:a|my|the)|should"
    r"|instead|or|test|quiz|exam|course|class|article|paper|essay|project|research)\b"
)
"""What the user takes now and then, or only writes about, is not their medication."""


_WAS_ON = re.compile(r"i was (?:\w+ )?(?:on|taking) ")
"""What the user once took, and may no longer take."""


def takes(said: Said, match: Match) -> Drafts:
    """'I take warfarin', 'I'm on metformin 500 mg': a closed list of what is taken regularly."""
    changed = match.re is PUT_ON or " now instead" in said.clause.low
    low = said.clause.low.replace(" instead", "") if changed else said.clause.low
    if _NOT_REGULARLY.search(low) or _WAS_ON.match(low):
        return
    if said.ended and _FOR_NOW.search(said.clause.low, match.end()):
        return
    for value in listed(said.clause, match.end(), _medicine, most=6):
        if match.re is PUT_ON and _FOR_SOMEBODY.match(said.clause.low, value.last):
            return
        yield said.fact("medication", value, 0.88)


_FOR_SOMEBODY = re.compile(
    rf" for (?:him|her|them|(?:my|our|the) (?:[\w-]+ ){{0,2}}?(?:{'|'.join(map(re.escape, KEY_OF_RELATION))}))\b"
)
"""Whom else a medicine is prescribed for: "for my son", but not "for my anxiety"."""


def switched(said: Said, match: Match) -> Drafts:
    """'The doctor switched me from lisinopril to losartan': the end of one, the beginning of the other."""
    before = _medicine_before(said.clause, match.end())
    joint = _TO.match(said.clause.low, before.last) if before else None
    after = _medicine(said.clause, joint.end()) if joint else None
    if before and after:
        yield said.ended_fact("medication", before, 0.85)
        yield said.fact("medication", after, 0.88)


def _medicine_before(clause: Clause, at: int) -> Value | None:
    """A medicine and its dose, whatever follows."""
    found = known(MEDICATIONS, clause, at)
    dosed = found and _DOSED.match(clause.low, found.last)
    return Value(found.text, found.first, dosed.end()) if found and dosed else found


def stopped(said: Said, match: Match) -> Drafts:
    """'I gave up the propranolol': for good, not for a while."""
    if not _FOR_NOW.search(said.clause.low, match.end()):
        yield from off(said, match)


def stopped_by(said: Said, match: Match) -> Drafts:
    """'They stopped the simvastatin': it is over, though nobody says that it was taken."""
    if not _FOR_NOW.search(said.clause.low, match.end()):
        for value in listed(said.clause, match.end(), _medicine, most=6):
            yield said.denied_fact("medication", value, 0.8)


def off(said: Said, match: Match) -> Drafts:
    """'I'm off the antidepressants now'."""
    for value in listed(said.clause, match.end(), _medicine, most=6):
        yield said.ended_fact("medication", value, 0.85)


_DOSED = re.compile(
    r"(?:,? \(?\d[\d.,]*(?: ?(?:mg|mcg|g|ml|units)\b|(?= ?(?:now|instead|[.,;!)]|\Z)))\)?)?(?: (?:once|twice|(?:two"
    r"|three|four|2|3|4|\d) times) (?:a|per"
    r"|every) (?:day"
    r"|week)| (?:every|each) (?:day|morning|evening|night|week)| (?:in the (?:morning|evening|afternoon)s?"
    r"|at (?:night|bedtime|noon|lunch|breakfast|dinner)|before bed|daily|weekly|with (?:food|meals|breakfast|dinner)))*"
)
"""How much of a medicine, and when: another may follow, "metformin 500 mg twice a day and a statin at night"."""


_MEDICINE_END = re.compile(
    r"[\s\x00]*(?:[,.;!()&/\x00]|\Z|(?:and|but|so|for|since|twice|once|every|daily|each|in (?:the|\d|jan|feb|mar|apr"
    r"|may\b|june?\b|july?\b|aug|sep|oct|nov|dec)\w*|yesterday|today|at|now|too|also|because"
    r"|plus|with|tablets?|pills?|injections?|these days|again|btw|which|after|until|last|this|right now|any ?more"
    r"|instead|as (?:per|prescribed|directed)|to (?:control|treat|manage|help))\b)"
)
"""What may follow a medicine, unlike something that only contains it: "lithium batteries"."""


def _medicine(clause: Clause, at: int) -> Value | None:
    """A medicine. Its span covers the dose after it, its name does not: doses change, and the name is what matters."""
    found = known(MEDICATIONS, clause, at)
    if found is None or not _MEDICINE_END.match(clause.low, found.last):
        dosed = found and _DOSED.match(clause.low, found.last)
        if found is None or not dosed or not _MEDICINE_END.match(clause.low, dosed.end()):
            return None
    dosed = _DOSED.match(clause.low, found.last)
    return Value(found.text, found.first, dosed.end()) if dosed else found
