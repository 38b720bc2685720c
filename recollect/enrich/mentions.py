"""Entities and relations: who and what is named, and how they are connected.

The user's facts give the most certain ones. The others come from statements about people in the user's life
("my sister Ana lives in Oslo") and from names elsewhere in a statement that are known, or marked as names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from recollect.enrich import Draft
from recollect.enrich.clauses import Clause
from recollect.enrich.identity import DATE, day_of
from recollect.enrich.names import (
    CITIES,
    COUNTRIES,
    DEVICES,
    FIRST_NAMES,
    NAMES_AND_WORDS,
    ORGANISATIONS,
    REGIONS,
    TOOLS,
    TOOLS_AND_WORDS,
    words,
)
from recollect.enrich.people import KEY_OF_RELATION
from recollect.enrich.sentences import Sentence
from recollect.enrich.values import CALENDAR, Value, known, organisation, places
from recollect.policies.keys import ROLES

LOOKED_BACK = 32
"""Characters before a name that are read to tell what it is."""
MENTIONS_MAX = 12
"""Names that are taken from one sentence. A sentence with more is a list, and says little about each."""

_GRAPH: dict[str, tuple[str, str]] = {
    "city": ("place", "lives_in"),
    "region": ("place", "lives_in"),
    "country": ("place", "lives_in"),
    "hometown": ("place", "comes_from"),
    "employer": ("organization", "works_at"),
    "device": ("product", "owns"),
    "vehicle": ("product", "drives"),
    "tool": ("product", "uses"),
    "partner": ("person", "partner"),
    "child": ("person", "child"),
    "parent": ("person", "parent"),
    "sibling": ("person", "sibling"),
    "relative": ("person", "relative"),
    "friend": ("person", "friend"),
    "roommate": ("person", "roommate"),
    "colleague": ("person", "colleague"),
    "neighbour": ("person", "neighbour"),
    "teacher": ("person", "teacher"),
    **{role: ("person", role) for role in sorted(ROLES)},
    "pet": ("pet", "pet"),
}
"""The facts that name an entity: its type, and the user's relation to it."""


_KIN = {
    "sister": "sister, sis, twin sister, sisters",
    "brother": "brother, twin brother, brothers",
    "half_sister": "half-sister",
    "half_brother": "half-brother",
    "stepbrother": "stepbrother",
    "stepsister": "stepsister",
    "stepmother": "stepmother, stepmom",
    "stepfather": "stepfather, stepdad",
    "stepson": "stepson",
    "stepdaughter": "stepdaughter",
    "mother_in_law": "mother-in-law, mother in law",
    "father_in_law": "father-in-law, father in law",
    "sister_in_law": "sister-in-law, sister in law",
    "brother_in_law": "brother-in-law, brother in law",
    "mother": "mother, mom, mum, mama, mommy",
    "father": "father, dad, papa, daddy",
    "son": "son, little boy, baby boy",
    "daughter": "daughter, little girl, baby girl",
    "grandmother": "grandmother, grandma, nana, nan, gran, granny",
    "grandfather": "grandfather, grandpa, grandad, granddad",
    "grandson": "grandson",
    "granddaughter": "granddaughter",
    "aunt": "aunt, auntie",
    "uncle": "uncle",
    "grandchild": "grandchildren, grandkids",
    "cousin": "cousin, cousins",
    "niece": "niece, nieces",
    "nephew": "nephew, nephews",
}
_RELATION_OF = {word: relation for relation, spellings in _KIN.items() for word in words(spellings)}
"""Kin words by relation name. A relation that can end, like a partnership, keeps one name however it was said."""


_SPECIES = {
    "dog": """
        dog, dogs, puppy, pup, puppies, doggo, rescue dog, mutt, golden retriever, labrador, lab, poodle, beagle,
        bulldog, french bulldog, frenchie, german shepherd, husky, corgi, dachshund, chihuahua, pug, shih tzu,
        border collie, collie, rottweiler, dalmatian, great dane, terrier, goldendoodle, labradoodle, cockapoo,
        maltese, pomeranian, shiba inu, shiba, greyhound, spaniel, cocker spaniel, whippet, lurcher, jack russell,
        staffie, staffy, cavapoo, schnauzer, akita, weimaraner, vizsla
    """,
    "cat": "cat, cats, kitten, kittens, kitty, tabby, siamese, maine coon, ragdoll, rescue cat",
}
_SPECIES_OF = {word: species for species, spellings in _SPECIES.items() for word in words(spellings)}
"""The species of a pet, if it was given: the graph and the notes about the user distinguish dogs from cats."""


def from_facts(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """The entity that a fact names, and the user's relation to it."""
    facts = [draft for draft in drafts if draft.layer == "fact" and draft.key in _GRAPH]
    for fact in facts:
        kind, relation = _GRAPH[fact.key]
        kind = _SPECIES_OF.get(str(fact.data.get("kind", "")), kind)
        # "Bruno died" ends a pet of that name, if there was one; it does not say that Bruno was one. Nor does a denial.
        denied = fact.ends and fact.valid_from is not None
        if fact.value and not denied and not (fact.ends and fact.key == "pet"):
            yield Draft("entity", kind, fact.value, fact.confidence, fact.span)
        within = _within(fact, facts)
        subject = within.value if within else ""
        near = {"subject_type": "place"} if within else {}
        relation = "located_in" if within else _RELATION_OF.get(str(fact.data.get("kind", "")), relation)
        yield Draft(
            "relation", relation, fact.value, fact.confidence, fact.span, subject, ends=fact.ends,
            valid_from=None if within or fact.ends else fact.valid_from, valid_to=fact.valid_to,
            data={**fact.data, **near, "object_type": kind},
        )  # fmt: skip


def _within(fact: Draft, facts: list[Draft]) -> Draft | None:
    """The narrower place named with a wider one: the user lives in Portland, and Portland is in Oregon."""
    nearer = {"region": ("city",), "country": ("city", "region")}.get(fact.key, ())
    same = [other for other in facts if other.key in nearer and not other.ends and other.span[0] == fact.span[0]]
    return max((other for other in same if other.span[1] < fact.span[1]), key=lambda other: other.span[1], default=None)


_OF_THEM = re.compile(
    rf"\bmy (?:\w+ )?(?:{'|'.join(sorted(map(re.escape, KEY_OF_RELATION), key=len, reverse=True))}),? "
    r"(?P<name>[^\W\d_][\w'’-]*),? (?:who )?(?:currently |now |also |just |recently |still )*(?P<verb>lives? in"
    r"|is living in|moved to|is based in|is from|works? (?:at|for)|is working (?:at|for)|started at|studies at"
    r"|goes to|is married to) "
)


def told(drafts: Iterable[Draft]) -> dict[str, str]:
    """What the facts of a message name, keyed by the case-folded name: people, places, things, and the user."""
    named = (draft.value for draft in drafts if draft.layer == "entity" or draft.key in ("name", "nickname", "pet"))
    return {name.casefold(): name for name in named}


def of_others(sentence: Sentence, told: Mapping[str, str]) -> Iterator[Draft]:
    """'My sister Ana lives in Oslo': a relation of Ana's, never a fact about the user."""
    if "my " not in sentence.low:
        return
    for match in _OF_THEM.finditer(sentence.low):
        subject = told.get(sentence.text[slice(*match.span("name"))].casefold())
        if subject is None:
            continue
        clause = Clause(sentence.text, sentence.low, sentence.start, sentence.start)
        yield from _relation(clause, match, subject)


def _relation(clause: Clause, match: re.Match[str], subject: str) -> Iterator[Draft]:
    verb = match["verb"].removeprefix("is ")
    span = clause.span(match.start(), match.end())
    if verb.startswith(("li", "mo", "based", "from")):
        for place in places(clause, match.end())[:1]:
            name = "comes_from" if verb == "from" else "lives_in"
            whole = (span[0], clause.start + place.value.last)
            yield Draft("entity", "place", place.value.text, 0.8, whole)
            yield Draft("relation", name, place.value.text, 0.8, whole, subject=subject, data=_types("place"))
        return
    if verb.startswith("married"):
        return
    found = organisation(clause, match.end())
    if found:
        name = "studies_at" if verb.startswith(("studies", "goes")) else "works_at"
        whole = (span[0], clause.start + found.last)
        yield Draft("entity", "organization", found.text, 0.8, whole)
        yield Draft("relation", name, found.text, 0.8, whole, subject=subject, data=_types("organization"))


def _types(far: str) -> dict[str, str]:
    return {"subject_type": "person", "object_type": far}


_WORD = re.compile(r"[^\W\d_][\w'’.&-]*")
_TITLED = re.compile(
    r"\b(?:Dr|Mr|Mrs|Ms|Prof|Professor|Doctor|Aunt|Uncle|Coach)\.? (?P<name>[A-ZÀ-Þ][\w-]+(?: [A-ZÀ-Þ][\w-]+)?)"
)
_OF_USER = re.compile(r"\b(?:i|i'm|im|i've|ive|my|me|we|our|us|mine|i'd|i'll|we're|we've)\b")
_KINDS = (
    (TOOLS, "product"),
    (DEVICES, "product"),
    (ORGANISATIONS, "organization"),
    (REGIONS, "place"),
    (COUNTRIES, "place"),
    (CITIES, "place"),
)
# For a name on two lists, the later list decides.
_NAMES = {spelling: name for table, _ in _KINDS for spelling, name in table.items() if spelling not in TOOLS_AND_WORDS}
_KIND_OF = {name: kind for table, kind in _KINDS for name in table.values()}
_CAPITAL_BEFORE = re.compile(
    r"(?:^|[^.!?\s] ?)\b(?!(?:In|On|At|To|From|And|But|For|With|The|My|Our|I|So|Also|When|While|Since|As|Is"
    r"|Or)\b)[A-ZÀ-Þ][\w'’]*\.? \Z"
)
_CAPITAL_AFTER = re.compile(r"(?:['’]s)? [A-ZÀ-Þ](?![’'\s]|\Z)(?!nd\b|t\b|r\b|n\b|ut\b)")
_YEAR = re.compile(r"(?:19|20)\d\d")
_TO_A_PLACE = re.compile(
    r"\b(?:in|to|from|at|near|around|visit|visited|visiting|of|outside|leaving|through|via) \Z", re.I
)


def named(sentence: Sentence, told: Collection[str]) -> Iterator[Draft]:
    """Names in a statement that involves the user. They must be capitalised: being on a list is not enough.

    Names in `told` are skipped: a user who has a cat called Luna means the cat.
    """
    if not _OF_USER.search(sentence.low):
        return
    clause = Clause(sentence.text, sentence.low, sentence.start, sentence.start)
    past = 0
    for match in _TITLED.finditer(sentence.text):
        yield Draft("entity", "person", match.group(), 0.75, clause.span(*match.span()))
    for match in _WORD.finditer(sentence.text):
        first = match.start()
        if (
            first < past
            or match.group().islower()
            or _CAPITAL_BEFORE.search(sentence.text, max(0, first - LOOKED_BACK), first)
        ):
            continue
        found = _mention(clause, first)
        if found is not None:
            past = found.span[1] - sentence.start
            if not any(name.startswith(found.value.casefold()) for name in told):
                yield found
    for match in DATE.finditer(sentence.low) if _YEAR.search(sentence.low) else ():
        # A day without a year recurs every year, and names nothing.
        day = day_of(match) if match["iso"] or match["year"] else None
        if day:
            yield Draft("entity", "date", day, 0.75, clause.span(*match.span()))


_SURNAME = re.compile(r" ([A-ZÀ-Þ][a-zà-ÿ-]+)(?![\w-])(?! [A-ZÀ-Þ])")
_NO_SURNAMES = words(
    """
    research, institute, institution, group, labs, laboratories, logistics, solutions, systems, services, software,
    partners, holdings, industries, foundation, association, society, agency, consulting, capital, ventures, media,
    studios, studio, press, books, records, pictures, entertainment, games, airlines, airways, motors, energy, foods,
    bakery, cafe, café, restaurant, hotel, inn, bank, insurance, clinic, hospital, university, college, school, academy,
    church, library, museum, gallery, theatre, theater, park, garden, gardens, beach, bay, lake, river, falls, island,
    islands, mountain, mountains, valley, hills, forest, station, airport, street, avenue, road, square, bridge, tower,
    castle, palace, festival, fair, awards, cup, prize, day, week, city, town, county, project, program, programme,
    conference, summit, club, team, league, united, rangers, collection, edition, series, sauce, cheese, tea, coffee
    """
)
"""Words that turn the first name before them into a place, a company or a thing: Marine Research, Victoria Falls."""


def _mention(clause: Clause, first: int) -> Draft | None:
    """The place, organisation, product or person at this position, unless it is part of a longer name."""
    word = re.sub(r"['’]s$", "", clause.text[first:].split(maxsplit=1)[0].rstrip(".,;:!?"))
    familiar = word.lower() in FIRST_NAMES and word.lower() not in CALENDAR
    value = known(_NAMES, clause, first)
    if (
        value is not None
        and not clause.text[first : value.last].islower()
        and not (familiar and not _TO_A_PLACE.search(clause.text, max(0, first - LOOKED_BACK), first))
    ):
        written = clause.text[first : value.last]
        part = _is_part(clause, first, value.last)
        # "Us" begins a title, "US" is a country.
        return (
            None
            if part or (len(written) <= 3 and not written.isupper())
            else _entity(clause, _KIND_OF[value.text], value)
        )
    if _DAY_BEFORE.search(clause.text, max(0, first - LOOKED_BACK), first):
        return None  # "3 Jan"
    if not familiar or first == 0 or not _meets_someone(clause, first, word):
        return None
    surname = _SURNAME.match(clause.text, first + len(word))
    if surname and surname[1].lower() in _NO_SURNAMES:
        return None
    last = surname.end() if surname else first + len(word)
    if _CAPITAL_AFTER.match(clause.text, last):
        return None
    return _entity(clause, "person", Value(clause.text[first:last], first, last))


_DAY_BEFORE = re.compile(r"\d(?:st|nd|rd|th)? \Z")
_PART_OF = re.compile(
    r"\b(?:University|College|Bank|Museum|Institute|School|Church|Battle|Treaty|House|Duke|Prince|Queen|King|Republic"
    r"|Gulf|Bay|Port|Tower|Lord|Bishop|Taste|Best|Real|Heart|Spirit)s? (?:of|in|at) (?:the )?\Z"
)
_KIND_OF_THING = re.compile(r"\b(?:a|an) \Z")
_LOWER_NOUN = re.compile(r" [a-z]{3,}(?<! and)(?<! for)(?<! but)(?<! with)(?<! that)(?<! last)\b")
_ANIMALS = re.compile(
    r"\b(?:dogs?|puppy|pup|cats?|kitten|pets?|vet|flea|leash|litter|kibble|collar|groom\w*|treats?|chews?|paws?|bark\w*"
    r"|meow\w*|fur|toys?|walkies|crate|breed|stable|saddle|cage)\b"
)
_SOMEONE = re.compile(
    r"\b(?:with|ask|asked|invite|invited|told|tell|met|meet|meeting|call|called|text|texted|visit|visited|visiting|and"
    r"|for|thank|saw|see|seeing|help|helped|gave|given|give|friend|named|by|to|boss|cousin|colleague|,) ?\Z",
    re.I,
)


def _is_part(clause: Clause, first: int, last: int) -> bool:
    """True where a name is part of another: 'the University of Mumbai', 'a Cordoba ukulele', 'America/Chicago'."""
    if "/" in (clause.text[first - 1 : first], clause.text[last : last + 1]):
        return True
    if _CAPITAL_AFTER.match(clause.text, last) or _PART_OF.search(clause.text, max(0, first - LOOKED_BACK), first):
        return True
    return bool(
        _KIND_OF_THING.search(clause.low, max(0, first - LOOKED_BACK), first) and _LOWER_NOUN.match(clause.text, last)
    )


def _meets_someone(clause: Clause, first: int, word: str) -> bool:
    """True where a first name means a person: not the dog, and not a word or a brand that is a name as well."""
    surname = _SURNAME.match(clause.text, first + len(word)) is not None
    if _ANIMALS.search(clause.low):
        return surname
    return (
        surname
        or word.lower() not in NAMES_AND_WORDS
        or _SOMEONE.search(clause.text, max(0, first - LOOKED_BACK), first) is not None
    )


def _entity(clause: Clause, kind: str, value: Value) -> Draft:
    return Draft("entity", kind, value.text, 0.7, clause.span(value.first, value.last))
