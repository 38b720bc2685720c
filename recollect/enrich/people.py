"""The people and animals in the user's life, by name."""

from __future__ import annotations

import re

from recollect.enrich import Draft
from recollect.enrich.clauses import Clause
from recollect.enrich.names import CITIES, COUNTRIES, FIRST_NAMES, NAMES_AND_WORDS, ORGANISATIONS, REGIONS, words
from recollect.enrich.values import CALENDAR, Drafts, Match, Said, Value, capital, listed, person
from recollect.enrich.vocabulary import NATIONALITIES, NOT_A_NAME, OCCUPATIONS
from recollect.policies.keys import ROLES

_RELATIONS = {
    "partner": """
        wife, husband, partner, girlfriend, boyfriend, fiance, fiancee, fiancé, fiancée, spouse, gf, bf, hubby,
        wifey, better half, other half, significant other
    """,
    "child": """
        baby girl, baby boy, little girl, little boy, son, daughter, kid, kids, kiddo, kiddos, children, child,
        sons, daughters, stepson, stepdaughter, toddler, twins, baby, newborn, boys, girls, eldest, firstborn, youngest,
        teenagers
    """,
    "parent": """
        mom, mum, mother, dad, father, mama, papa, stepmom, stepdad, stepmother, stepfather, parents, mommy,
        daddy
    """,
    "sibling": """
        sister, brother, sis, sisters, brothers, half-sister, half-brother, stepsister, stepbrother, siblings,
        twin sister, twin brother
    """,
    "relative": """
        grandmother, grandma, grandfather, grandpa, nana, nan, gran, granny, grandad, granddad, aunt, auntie,
        uncle, cousin, niece, nephew, cousins, mother-in-law, father-in-law, sister-in-law, brother-in-law,
        mother in law, father in law, sister in law, brother in law, grandson, granddaughter, nieces, nephews,
        grandkids, grandchildren
    """,
    "friend": """
        friend, best friend, bestie, mate, mates, pal, buddy, friends, best friends, childhood friend, bff
    """,
    "roommate": """
        roommate, flatmate, housemate, roommates
    """,
    "colleague": """
        boss, manager, colleague, coworker, co-worker, teammate, supervisor, colleagues, coworkers, business
        partner, cofounder, co-founder, line manager, team lead, team leader, deputy, mentor, intern, matron,
        secretary, apprentice, teaching assistant, ta, foreman, sous chef, head chef
    """,
    "teacher": """
        teacher, tutor, professor, coach, instructor, personal trainer, piano teacher, driving instructor, thesis
        advisor, thesis supervisor
    """,
    "neighbour": """
        neighbour, neighbor, neighbours, neighbors, next-door neighbour, next-door neighbor
    """,
    "pet": """
        dog, cat, puppy, pup, kitten, kitty, bird, parrot, budgie, hamster, rabbit, bunny, goldfish, turtle,
        tortoise, snake, lizard, gecko, horse, pony, guinea pig, ferret, goat, dogs, cats, pet, pets, puppies,
        kittens, rabbits, bunnies, hen, golden retriever, labrador, lab, poodle, beagle, bulldog, french
        bulldog, frenchie, german shepherd, husky, corgi, dachshund, chihuahua, pug, shih tzu, border collie,
        collie, boxer, rottweiler, dalmatian, great dane, terrier, goldendoodle, labradoodle, cockapoo, maltese,
        pomeranian, shiba inu, shiba, greyhound, spaniel, cocker spaniel, mutt, rescue, rescue dog, rescue cat, whippet,
        lurcher, jack russell, staffie, staffy, cavapoo, schnauzer, akita, weimaraner, vizsla,
        doggo, tarantula, canary, cockatoo, macaw, donkey, llama, alpaca, tabby, siamese, maine coon, persian,
        ragdoll, bengal, guinea pigs, chinchilla, cockatiel,
        parakeet, bearded dragon, axolotl, rat, mouse, fish, betta fish, birds, parrots, budgies, hamsters,
        turtles, tortoises, horses, ponies, ferrets, goats, hens, chickens, chinchillas, parakeets, rats, geckos
    """,
}
KEY_OF_RELATION = {word: key for key, phrases in _RELATIONS.items() for word in words(phrases)} | {
    role.replace("_", " "): role for role in ROLES
}
ANY_RELATION = "|".join(sorted(map(re.escape, KEY_OF_RELATION), key=len, reverse=True))
_AT_WORK = words(
    "boss, manager, colleague, coworker, co-worker, teammate, supervisor, colleagues, coworkers, business partner"
)
_BY_WORK = (
    frozenset(
        word for word, key in KEY_OF_RELATION.items() if key in ROLES or key in ("colleague", "teacher", "neighbour")
    )
    - _AT_WORK
)
"""What people are by their work or next door. It is as often said of oneself, and stands before all sorts of names."""
TOLD_OF = re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in KEY_OF_RELATION if word not in _BY_WORK)})\b")
_PLURAL = words(
    """
    kids, boys, girls, children, sons, daughters, twins, parents, sisters, brothers, siblings, friends, colleagues,
    coworkers, neighbours, neighbors, dogs, cats, pets, puppies, kittens, rabbits, bunnies, nieces, nephews,
    cousins, kiddos, mates, grandkids, grandchildren, roommates, guinea pigs, birds, parrots, budgies, hamsters,
    turtles, tortoises, horses, ponies, ferrets, goats, hens, chickens, chinchillas, parakeets, rats, geckos,
    teenagers
    """
)
_DESCRIBED = (
    r"(?:(?:\d{1,2}[ -](?:years?|yrs?|months?|weeks?)[ -]olds?|\d{1,2}yo|older|younger|little|big|dear|lovely"
    r"|beautiful|new|oldest|eldest|youngest|twin|baby|two|three|four|five|one|amazing|wonderful|good|close|old"
    r"|elderly|closest|dearest|best|first|second|other|adorable|cute|sweet|rescue|teenage|adopted|middle|only|then"
    r"|current|actual|real|poor|darling|beloved|black|white|orange|tabby|siamese|golden|tiny|long-?time|pet|new|crazy|2|3|4|small|direct|grown(?:-up)?"
    r"|adult|very|young|fat|fluffy|grumpy|ginger|gr[ae]y|brown|rescued|\w+[- ]mix) ){0,4}"
)
_NAMED = (
    r"(?:(?:'s| is) (?:this|an?) (?:\w+ )?(?:lady|woman|man|guy|bloke|girl|lad|chap|person) (?:called|named)"
    r"|'s (?:called|named)|,? (?:and )?(?:his|her|its|their) names?(?:'s| is| are)|'s name(?:'s| is)|s name is"
    r"|'s names are|s' names are|(?:,? (?:he|she|they))? (?:is|are|was|were)(?: actually| really)? (?:called|named)"
    r"| named| called| name is| goes by(?: the name(?: of)?)?| answers to| whose names? (?:is"
    r"|are)| by the name of)"
)

_OF_A_KIND = rf"(?:, an? {_DESCRIBED}(?:{ANY_RELATION}|[a-z]+)(?= (?:called|named|by the name)))?"
"""The kind, given before the name: "we have a dog, a beagle called Biscoito"."""
MINE = re.compile(
    rf"\b(?:my|our) (?P<described>{_DESCRIBED})(?P<relation>{ANY_RELATION})(?: of (?:[a-z]+ )?[\w-]+ years| (?:since"
    rf"|from) [\w ]{{2,25}}(?=, ))?"
    rf"{_OF_A_KIND}(?P<joint>(?P<named>{_NAMED})[ ,:]+|(?P<is> (?:is"
    r"|are) )|,? \(|, | - |: | )"
)
MINE_SHORTLY = re.compile(
    rf"(?:new )?(?P<described>)(?P<relation>{ANY_RELATION})(?P<joint>(?P<named>'s (?:called|named)| is (?:called|named)"
    r"|'s name(?:'s| is)) )(?P<is>(?!))?"
)
"""'Manager is called Bev': of whom one has one, people leave out "my"."""
_NOBODY_ELSE = (
    r"(?!.*\b(?:the|my|our|his|her|their|an?|some\w+|another|who|whose|that|called|named|and)\b)(?P<rest>.{0,50})\Z"
)
TOLD_OF_ONE = re.compile(
    r"(?:(?:i|we)(?: have|'ve)?(?: (?:just|recently|finally|also|now|even))*"
    r"(?:(?<='ve)|(?<=just)| (?:have|got|adopted|bought|rescued|own|keep|brought home|welcomed)(?: got)?)"
    rf" (?:(?:an?|our|my|some) )?|(?P<mine>(?:my"
    rf"|our) ))(?P<described>{_DESCRIBED})(?P<relation>{ANY_RELATION})(?! in[ -]law)"
    rf"(?(mine)(?:'s| is| was just| was born| arrived| is here| just turned| turned| turns)\b|\b){_NOBODY_ELSE}"
)
"""Somebody in the user's life, and nobody else whom the next sentence could mean."""
NAMED_LATER = re.compile(
    rf"\bmy (?P<described>{_DESCRIBED})(?P<relation>{ANY_RELATION})(?: (?!(?:and|or|with|who|whose"
    rf"|but)\b)[\w'’-]+){{1,8}},? (?:and )?"
    r"(?:his|her|their) names?(?:'s|s| is| are) "
)
"""'My girlfriend is in Hanoi, her name is Linh', with nobody else in between."""
NAMES_THEM = re.compile(
    r"(?:(?:and|so|oh) )?(?:(?:his|her|its|it's|their) names?(?:'s| is| are)|(?:he|she|it|they)(?:'s| is|'re"
    r"| are) (?:called|named)|(?:he|she)(?:'s| is) an? (?:(?!who\b|that\b|and\b)[\w-]+ ){1,2}(?:called|named)"
    r"|(?:i|we)(?:'ve)?(?: just| have)? (?:named|called) (?:him|her|it|them)"
    r"|(?P<bare>called|named)(?= [\w'’-]+(?:,? (?:and|&) [\w'’-]+)?\W*\Z)) "
)
HAVE = re.compile(
    r"(?:also |just |recently |finally )?(?:(?<=i've )|(?<=we've )|(?:have|had|got|have got|own|adopted|rescued"
    r"|am getting|getting|bought|brought home|keep"
    rf"|welcomed|raise) )(?P<described>(?:(?:a|an|my|our|the|this"
    rf"|some) )?{_DESCRIBED})(?P<relation>{ANY_RELATION})(?: mix"
    rf"| puppy| cat| dog)?(?: (?:last|this) \w+| yesterday| today"
    rf"| recently)?{_OF_A_KIND}(?P<joint>(?P<named>{_NAMED})[ ,:]+"
    r"|,? \(|, | - |: )"
)
_OFFSPRING = r"(?:kids|children|boys|girls|daughters|sons|little ones|twins|boy|girl|son|daughter)"
PARENT_OF = re.compile(
    r"an? (?:\w+ )?(?:mom|mum|mother|dad|father|parent|mama|papa) (?:of|to) (?:(?:(?:an?|one|two|three|four|five|my"
    r"|\d) )?"
    rf"(?:\w+ )??{_OFFSPRING}(?: named| called|,|:| ?\()? ?|(?:one|two|three|four|five|\d)(?:,|:| ?\() ?)?"
)
NO_LONGER_WITH = re.compile(r"(?:with|together with|dating|seeing|married to) ")
AND_ALSO = re.compile(
    rf"(?:,| and|, and) (?:an?|one|two"
    rf"|three) (?P<described>{_DESCRIBED})(?P<relation>{ANY_RELATION})(?P<joint>(?P<named>"
    rf"{_NAMED})[ ,:]+|, )"
)
IS_MINE = re.compile(
    rf"(?P<name>(?:(?:dr|mr|mrs|ms|prof)\.? )?[^\W\d_][\w'’-]+) (?:is"
    rf"|was) my (?P<described>{_DESCRIBED})(?P<relation>{ANY_RELATION})(?=[\s\x00]*(?:[,.;!()\x00]|\Z"
    r"|(?:and|but|who|so|from|in|since|now|because|too|he|she|they|by|who's|not|btw|fyi|lol|haha|actually|though|tho"
    r"|at|here)\b))"
)
WITH_PARTNER = re.compile(
    r"(?:happily |still |now |legally )?(?:married to|engaged to|dating|in a relationship with"
    r"|going out with) (?:(?:an? (?:\w+ ){0,4}|someone |somebody |this \w+ )(?:named|called) )?"
)
MARRIED = re.compile(
    r"(?:just |recently |finally )?(?:married|got married to|got engaged to) (?:a (?:\w+ )?(?:named|called) )?"
)
BROKE_UP = re.compile(
    r"(?:have |just |recently |finally )*(?:broke up with|broken up with|divorced|split up with|split with"
    r"|separated from|dumped|left my (?:wife|husband|girlfriend|boyfriend|partner),?) "
)
PARTED = re.compile(
    r"(?:have |just |recently |finally )*(?:(?:broke up|broken up|split up) with my (?:wife|husband|girlfriend"
    r"|boyfriend|partner|fianc[eé]e?|gf|bf)|got (?:a )?divorced?)(?=[\s\x00]*(?:[,.!;]|\Z|(?:last|this|yesterday"
    r"|today|in|on|two|three|a|and|but|so|because|after|recently)\b))"
)
_NO_LONGER = (
    r"(?:have |just |recently |finally |actually )*(?:broke up|broken up|divorced"
    r"|split up(?! (?:the|our|it|this|that|everything|all|into|between|who|for)\b)|split(?! up\b)(?! (?:the|it|our"
    r"|this|that|everything|a (?!week|month|year|few|couple))\b)|separated"
    r"|got divorced|are divorced"
    r"|are no longer (?:together|a couple|an item)|aren't together any ?more|parted ways|ended things"
    r"|called it (?:quits|off))"
)
_OVER = r"(?=[\s\x00]*(?:[,.!;]|\Z|(?:now|again|last|this|yesterday|today|in|two|three|a|and|but|recently)\b))"
LEFT_ME = re.compile(
    r"my (?:wife|husband|girlfriend|boyfriend|partner|fianc[eé]e?|gf|bf|hubby)"
    r"(?:,? (?P<name>(?!has\b|just\b|left\b|died\b)[^\W\d_][\w'’-]+),?)?"
    r" (?:(?:has|just|recently|finally|sadly|suddenly) )*(?:(?:left|dumped|divorced|broke up with) me|died|passed away"
    r"|walked out on me)(?=[\s\x00]*(?:[,.!;]|\Z|(?:now|recently|yesterday|today|but|(?:last|this) (?:week|weekend"
    r"|month"
    r"|year|night|spring|summer|autumn|fall|winter)|(?:in|back in|on) (?:\d|jan|feb|mar|apr|may\b|jun|jul|aug|sep|oct"
    r"|nov|dec|mon|tue|wed|thu|fri|sat|sun)|(?:an?|two|three|four|five|six|\d+|a few|a couple of|some) (?:days?|weeks?"
    r"|months?|years?) ago|and (?:i|now|it|the)\b)))"
)
"""Not "my wife left me a note", nor "my husband died laughing"."""
WE_PARTED = re.compile(_NO_LONGER + _OVER)
WE_ARE_APART = re.compile(rf"(?:divorced|separated|no longer together){_OVER}")
NOW_ALONE = re.compile(rf"(?:(?:recently|newly|now|freshly) )?(?:divorced|single(?: (?:now|again))?){_OVER}")
NAMED_DIED = re.compile(
    r"(?P<name>[^\W\d_][\w'’-]+) (?:(?:has |just |sadly |suddenly )*(?:died|passed away)|was put down"
    r"|had to be put down)(?=[\s\x00]*(?:[,.!;]|\Z|(?:last(?= \w)|this|yesterday|today|on|two|three"
    r"|in(?= (?:jan|feb|mar|apr|may\b|jun|jul|aug|sep|oct|nov|dec|the (?:spring|summer|autumn|fall|winter)\b)"
    r"(?!\w* \d))"
    r"|a(?= (?:few |couple of )?(?:day|week|month))|and|recently)\b))"
)
PUT_TO_SLEEP = re.compile(
    r"(?:i|we)(?:'ve| have)? had to (?:put (?P<name>[^\W\d_][\w'’-]+) (?:to sleep|down)"
    r"|have (?P<other>[^\W\d_][\w'’-]+) (?:put to sleep|put down))\b(?! for\b)"
)
BOTH_BROKE_UP = re.compile(
    rf"(?:me and (?P<second>[^\W\d_][\w'’-]+)|(?P<name>[^\W\d_][\w'’-]+) and (?:i|me)) {_NO_LONGER}\b"
)
PARTNER_AND_I_PARTED = re.compile(
    r"(?:my (?:wife|husband|girlfriend|boyfriend|partner|fianc[eé]e?|gf"
    r"|bf)(?:,? (?P<name>[^\W\d_][\w'’-]+),?)? and (?:i|me)"
    r"|me and my (?:wife|husband|girlfriend|boyfriend|partner|fianc[eé]e?|gf|bf)(?:,? (?P<second>[^\W\d_][\w'’-]+),?)?)"
    rf" {_NO_LONGER}{_OVER}"
)
PARTING = re.compile(r"\b(?:broke|broken|divorced|split|separated|together|couple|item|parted|ended|called)\b")
NAME_THEN_MINE = re.compile(
    rf"(?P<name>[^\W\d_][\w'’-]+), (?:who's |who is )?my (?P<described>{_DESCRIBED})(?P<relation>{ANY_RELATION})"
    r"(?: (?:of|since|from) [\w' ]{2,25})?(?=[,.;!)]|\Z)"
)


def name_then_mine(said: Said, match: Match) -> Drafts:
    """'Tomasz, my husband of nine years, ...': capitalised, and not a place, company or day."""
    clause, first = said.clause, match.start("name")
    found = _written_name(clause, first)
    if (
        found is None
        or found.last != match.end("name")
        or not clause.text[first].isupper()
        or clause.low.startswith("if ")
    ):
        return
    name = found.text.lower()
    thing = name in _NAMES_OF_THINGS or name in CALENDAR
    if name in FIRST_NAMES or (first > 0 and not thing):
        addressed = (
            match["relation"] in ("friend", "friends", "mate", "pal", "buddy", "child", "son")
            and not match["described"]
        )
        if not addressed:
            yield _person(said, match["relation"], found, 0.82)


_NAMES_OF_THINGS = frozenset({*ORGANISATIONS, *CITIES, *COUNTRIES, *REGIONS})
NOT_MINE = re.compile(
    r"(?P<name>[^\W\d_][\w-]+)(?: isn't| is not| is no longer|'s no longer|'s not) my (?P<relation>wife|husband"
    r"|girlfriend"
    r"|boyfriend|partner|fianc[eé]e?|gf|bf|spouse|best friend|friend|roommate|flatmate|housemate|boss|manager|dog|cat"
    r"|horse|pet)"
    r"(?=[\s\x00]*(?:[,.;!]|\Z|(?:any ?more|any longer|now|since|and|but|so)\b))"
)


def not_mine(said: Said, match: Match) -> Drafts:
    """'Hannes isn't my boyfriend any more'."""
    found = person(said.clause, match.start("name"))
    if found and found.last == match.end("name"):
        yield said.denied_fact(KEY_OF_RELATION[match["relation"]], found, 0.85)


_DIED = re.compile(
    r"\b(?:died|passed away|passed on|was put down|has passed|had to (?:be )?put down|put (?:him|her|them) down"
    r"|crossed the rainbow)\b"
)
_GOODBYE = re.compile(r"\b(?:goodbye to|put down|put|re-?hom(?:e|ed|ing)|g[ia]ve(?:n)? away|giving away) \Z")
_GAVE = re.compile(r"\b(?:g[ia]ve|given|giving) \Z")
_AWAY = re.compile(
    r" (?:away|up(?! on| to)|back to|to (?:a|the) (?:new home|new family|shelter|rescue)|(?:back )?to the (?:breeder"
    r"|shelter))\b"
)
_AFTER_IS = re.compile(r"[\s\x00]*(?:[,.!;()\x00]|\Z|(?:and|but|or)\b)")


NOT_NAMED = re.compile(
    rf"my (?P<described>{_DESCRIBED})(?P<relation>{ANY_RELATION})(?: is(?: actually| really)? not| isn't"
    rf"|'s not) (?:called"
    rf"|named) |my (?P<of>{_DESCRIBED})(?P<whose>{ANY_RELATION})'?s? name(?: is(?: actually| really)? not| isn't"
    rf"|'s not) "
)


def not_named(said: Said, match: Match) -> Drafts:
    """'My cat is not called Admiral': the end of that name, and of nothing else."""
    found = _sure_name(said.clause, match.end())
    if found and not said.clause.low[found.last :].strip(" .!\x00"):
        yield said.denied_fact(KEY_OF_RELATION[match["relation"] or match["whose"]], found, 0.85)


_FORMER = re.compile(r"\b(?:old|first|then|second)\b")
"""Whoever it was once: "my old landlord Mr Finch"."""
_CALLED_BY_OTHERS = re.compile(r"\b(?:calls?|nicknames?|nicknamed) \Z")
"""What somebody is called in fun is not a name: "everyone calls my brother-in-law Biscuit"."""
_NOT_SO = re.compile(r"\b(?:if|almost|nearly)\b")
"""What follows is hypothetical, or came to nothing: "we almost named our son Atticus"."""


def mine(said: Said, match: Match) -> Drafts:
    """'My sister Ana', 'our dog is called Rex', 'my kids, Emma and Noah'."""
    said = said._replace(ended=_GOODBYE.search(said.clause.low, 0, match.start()) is not None)
    if _NOT_SO.search(said.clause.low, 0, match.start()):
        return
    lost = said.clause.low[: match.start()].rstrip().endswith(("lost", "buried", "miss"))
    if match["relation"] in _BY_WORK and _FORMER.search(match["described"]):
        return
    if match["relation"] in ("boys", "girls") and not match["named"]:
        both = match["relation"] == "boys" and len(list(_people(said, match))) > 1 and match["joint"] in (" ", ", ")
        yield from _people(said, match) if both else ()
        return  # "my girls" just as often means friends
    if said.clause.low[match.end("relation") :].startswith("-in") or "late " in match["described"] or lost:
        return
    if KEY_OF_RELATION[match["relation"]] == "pet" and _GAVE.search(said.clause.low, 0, match.start()):
        yield from (
            draft
            for draft in _people(said._replace(ended=True), match)
            if _AWAY.match(said.clause.low, match.end() + len(draft.value))
        )
        return
    if _CALLED_BY_OTHERS.search(said.clause.low, 0, match.start()):
        return
    given = match["joint"] == " " and _GIVES.search(said.clause.low, 0, match.start())
    yield from (draft for draft in _people(said, match) if not given or _is_given_to(said.clause, match.end(), draft))


_GIVES = re.compile(
    r"\b(?:buy(?:ing)?|bought|get(?:ting)?|got|giv(?:e|ing)|gave|send(?:ing)?|sent|show(?:ed|ing)?|teach(?:ing)?|taught"
    r"|read(?:ing)?|lend(?:ing)?|lent|gift(?:ed|ing)?|owe|feed(?:ing)?|fed|offer(?:ed|ing)?|mak(?:e|ing)|made"
    r"|order(?:ed"
    r"|ing)?|cook(?:ed|ing)?|play(?:ed|ing)?) \Z"
)
"""After these verbs, what follows the person may be the gift: "I bought my son Minecraft"."""
_GIFT = re.compile(r" (?:an?|the|some|this|that|his|her|two|three|\d+|new|my|our)\b")


def _is_given_to(clause: Clause, at: int, draft: Draft) -> bool:
    """Whether the gift comes after the name: "I bought my son Tim a bike"."""
    known_name = draft.value.split()[0].lower() in FIRST_NAMES
    return known_name and _GIFT.match(clause.low, at + len(draft.value)) is not None


def have(said: Said, match: Match) -> Drafts:
    """'I have two cats, Luna and Felix', 'we have a daughter named Lily'."""
    had = match.group().startswith("had") and KEY_OF_RELATION[match["relation"]] == "pet"
    found = [] if had else list(_people(said, match))
    yield from found
    last = match.end()
    while found and (also := AND_ALSO.search(said.clause.low, last)):
        yield from _people(said, also)
        last = also.end()


def named_next(said: Said, told: Match, match: Match) -> Drafts:
    """'We have a cat. Her name is Miso': the name of whoever the sentence before introduced."""
    if TOLD_OF.search(told["rest"]) or _ARTICLE.match(said.clause.low, match.end()):
        return
    many = told["relation"] in _PLURAL
    for value in listed(said.clause, match.end(), _sure_name, most=6 if many else 1):
        yield _person(said, told["relation"], value, 0.88)


def named_later(said: Said, match: Match) -> Drafts:
    """'My wife is from Chile, her name is Paz'."""
    between = said.clause.low[match.end("relation") : match.end()]
    if (
        TOLD_OF.search(said.clause.low, 0, match.start())
        or TOLD_OF.search(between)
        or _ARTICLE.match(said.clause.low, match.end())
    ):
        return
    for value in listed(said.clause, match.end(), _sure_name, most=6 if match["relation"] in _PLURAL else 1):
        yield _person(said, match["relation"], value, 0.85)


_ARTICLE = re.compile(r"(?:an?|the|some|any|all|most) ")


_DOES_SOMETHING = re.compile(r" (?!and\b|or\b)[a-z]")
"""A single name after a plural begins something else: "I went to see my parents, Tim was sick on the way"."""


def _people(said: Said, match: Match) -> Drafts:
    relation = match["relation"]
    many = relation in _PLURAL
    groups = match.groupdict()
    if _ARTICLE.match(said.clause.low, match.end()):
        return
    reader = _sure_name if groups["named"] else (_only_name if groups.get("is") else _written_name)
    found = list(listed(said.clause, match.end(), reader, most=6 if many else 1))
    if found and many and reader is _only_name:
        found = list(listed(said.clause, match.end(), _lone_name, most=6))
    alone = many and len(found) == 1 and groups["joint"] == ", "
    if alone and (match.re is HAVE or _DOES_SOMETHING.match(said.clause.low, found[0].last)):
        return  # whoever is spoken to, or somebody else: "I have friends, Kwabena"
    if relation in _BY_WORK and not groups["named"]:
        found = [value for value in found if _is_surely_somebody(value)]
    for value in found:
        yield _person(said, relation, value, 0.92 if groups["named"] else 0.85)
    if not found and groups["joint"] == " " and (small := _small_name(said.clause, match.end())):
        yield _person(said, relation, small, 0.7)


def _is_surely_somebody(value: Value) -> bool:
    """A known first name, or a title: "my accountant Deloitte" is nobody, "my solicitor Smith & Co" neither."""
    first = value.text.split()[0].lower().rstrip(".")
    return first in FIRST_NAMES or first in _TITLES


_DOES = re.compile(
    r"(?P<name>[a-z]{3,12}) (?:says|wants|lives|works|won't|wont|can't|keeps|loves|likes|hates|told|thinks|turns"
    r"|sleeps|eats|sits|barks|bites|chews|sings|studies|teaches|swears"
    r"|turned|needs"
    r"|is (?:getting|gettin|turning|visiting|coming|moving|having|allergic|married|obsessed))\b"
)
_IS_THEM = re.compile(r"(?P<name>[a-z]{3,12}),? (?:he's|hes|she's|shes)\b")
_NOT_BEFORE_THEM = re.compile(r"(?:s|ed|ing|ly|ought)\Z")
"""No name but a verb: "my son says he's six", "my mum thought she's ill"."""
_NO_SMALL_NAME = words(
    """
    sometimes, often, once, who, that, which, there, both, walker, sitter, groomer, breeder, owner, lover, food, bed,
    litter,
    toy, door, flap, crate, school, wedding, party, group, club, phone, team, mom, mum, dad, and, but, one, lately,
    suddenly, training, collar, video, videos, pee, poo, hair, fur, insurance, harness, leash, lead, treats, walk,
    walks, tree, carrier, box, sitting, park, football, nursery, teacher, homework, account, cooking, car, job, boss,
    coat, chip,
    secretly, especially, apparently, always, never, somehow, maybe, seriously, law, friend, friends, side, ever, rarely
    """
)


def _small_name(clause: Clause, at: int) -> Value | None:
    """In a text without any capitals, the word before a verb that takes somebody: "our cat biscuit won't eat"."""
    match = _DOES.match(clause.text, at) if clause.text.removeprefix("I").islower() else None
    if match is None and clause.text.removeprefix("I").islower():
        match = _IS_THEM.match(clause.text, at)
        if match and _NOT_BEFORE_THEM.search(match["name"]):
            return None
    name = match["name"] if match else ""
    other = (
        name in NOT_A_NAME
        or name in _NO_SMALL_NAME
        or name in KEY_OF_RELATION
        or name in OCCUPATIONS
        or name.endswith("ly")
    )
    return None if match is None or other else Value(capital(name), *match.span("name"))


def _person(said: Said, relation: str, value: Value, confidence: float) -> Draft:
    key = KEY_OF_RELATION[relation]
    data = {
        "kind": relation.removesuffix("s") if relation in ("dogs", "cats", "kids", "sons", "daughters") else relation
    }
    if key in ("pet", "partner") and _DIED.search(said.clause.low, value.last):
        return said.ended_fact(key, value, 0.85)
    return said.fact(key, value, confidence, data=data)


def _sure_name(clause: Clause, at: int) -> Value | None:
    return person(clause, at, named=True)


_NOT_PEOPLE = words("siri, cortana, google, chatgpt, gpt, bard, marmite, jesus, buddha, satan, johnnie")
_UNCLE_SAM = re.compile(r"uncle sam\b")
_MODAL = re.compile(r"(?:will|may|can|mark|bill|grant) (?:you|i|be|have|it|please|the|my|need|come|also|not)\b")


_IS_SO = re.compile(r"'s (?:an?|always|been|got|still|not|really|very|turning|getting) ")
"""No possessive but "is" or "has": "my wife Hannah's a doctor"."""


def _written_name(clause: Clause, at: int) -> Value | None:
    """A name next to a relation: capitalised, or a well-known one."""
    found = person(clause, at)
    if found is None or found.text.lower() in NATIONALITIES:
        return None
    first = found.text.split()[0].lower()
    if first in ORGANISATIONS or first in _NOT_PEOPLE or _MODAL.match(clause.low, found.first):
        return None
    if _UNCLE_SAM.match(clause.low, max(0, found.first - len("uncle "))):
        return None
    # Before a possessive, the name is that of an owner, who may be anybody.
    owner = clause.low.startswith("'s", found.last) and not _IS_SO.match(clause.low, found.last)
    own_role = first in KEY_OF_RELATION and first not in _TITLES  # "my doctor is Doctor Lund"
    return None if own_role or owner else found


_TITLES = words("dr, doctor, mr, mrs, ms, prof, professor, herr, frau, madame, monsieur, señor, señora")
"""What comes before a surname: "my GP is Dr Moreau"."""


def _only_name(clause: Clause, at: int) -> Value | None:
    """After "is" almost anything may follow, so a name has to be a known one and stand alone."""
    found = _lone_name(clause, at)
    if found is None:
        return None
    first = found.text.split()[0].lower()
    if first.rstrip(".") in _TITLES:
        return found
    return found if first in FIRST_NAMES and (clause.text[at].isupper() or first not in NAMES_AND_WORDS) else None


def _lone_name(clause: Clause, at: int) -> Value | None:
    """A name with nothing more said about it. Next to a known name, an unknown one counts too."""
    found = _written_name(clause, at)
    return found if found and _AFTER_IS.match(clause.low, found.last) else None


def parent_of(said: Said, match: Match) -> Drafts:
    """'I'm a mom of three: Ella, Finn and Nora'."""
    for value in listed(said.clause, match.end(), _written_name, most=6):
        yield said.fact("child", value, 0.85, data={"kind": "child"})


def no_longer_with(said: Said, match: Match) -> Drafts:
    """'I'm not with Sam anymore': a person, not the company that one worked for."""
    found = person(said.clause, match.end()) if said.ended else None
    plainly = not match.group().startswith("with ") or (found and found.text.split()[0].lower() in FIRST_NAMES)
    if found and (plainly or said.clause.text.islower()):
        yield said.fact("partner", found, 0.8)


def is_mine(said: Said, match: Match) -> Drafts:
    """'Ana is my sister'."""
    found = _written_name(said.clause, match.start("name"))
    if (
        found
        and found.last == match.end("name")
        and "late " not in match["described"]
        and found.text.lower() not in NOT_A_NAME
    ):
        yield _person(said, match["relation"], found, 0.88)


def with_partner(said: Said, match: Match) -> Drafts:
    """'I'm married to Elena', 'I'm dating a guy named Chris'."""
    found = person(said.clause, match.end(), named="named" in match.group() or "called" in match.group())
    if found:
        yield said.fact("partner", found, 0.85)


def parted(said: Said, match: Match) -> Drafts:
    """'I broke up with my boyfriend': the end of it, whoever it was."""
    yield said.ended_fact("partner", Value("", match.start(), match.end()), 0.8)


def left_me(said: Said, match: Match) -> Drafts:
    """'My girlfriend dumped me', 'my husband passed away': the end of it, by name where there is one."""
    found = person(said.clause, match.start("name")) if match["name"] else None
    yield said.ended_fact("partner", found or Value("", match.start(), match.end()), 0.85)


def we_parted(said: Said, match: Match) -> Drafts:
    """'We broke up': said of two people, not of the user and a band."""
    if said.clause.low.startswith("we"):
        yield from parted(said, match)


def named_died(said: Said, match: Match) -> Drafts:
    """'Bruno died last week': the end of a pet, if there was one of that name."""
    which = match.lastgroup or "name"
    found = _written_name(said.clause, match.start(which))
    if found and found.last == match.end(which) and said.clause.text[found.first].isupper():
        yield said.denied_fact("pet", found, 0.7)


_MY_PARTNER = re.compile(r"my (?:wife|husband|girlfriend|boyfriend|partner|fianc[eé]e?),? ")


_OVER_NOW = re.compile(_OVER)


def _is_careless(clause: Clause) -> bool:
    """Whether there are no capitals but in "I", so that a name has none either."""
    return clause.text.replace("I ", "i ").islower()


def broke_up(said: Said, match: Match) -> Drafts:
    """'I broke up with Tom', 'Tom and I got divorced'."""
    at = match.end() if match.re is BROKE_UP else match.start("name" if match["name"] else "second")
    my = _MY_PARTNER.match(said.clause.low, at)
    word = said.clause.low[at:].split(" ", 1)[0].rstrip(".,!;")
    small = match.re is BOTH_BROKE_UP and word not in KEY_OF_RELATION
    found = person(said.clause, my.end() if my else at, named=small) if at >= 0 else None
    if found:
        yield said.ended_fact("partner", found, 0.88)
    elif word.isalpha() and word not in KEY_OF_RELATION and word not in NOT_A_NAME and _is_careless(said.clause):
        # Perhaps no name: it ends a partner of that name, if there was one, and says nothing else.
        if match.re is BOTH_BROKE_UP or _OVER_NOW.match(said.clause.low, at + len(word)):
            yield said.denied_fact("partner", Value(capital(word), at, at + len(word)), 0.85)
    elif match.re is PARTNER_AND_I_PARTED:
        yield from parted(said, match)
