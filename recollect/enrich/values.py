"""How values are read from a clause: names, places, organisations, phrases, lists, times.

Every reader starts at a position in a clause and returns a value with the characters it covers, or None.
A name must be capitalised or on a list; nothing else is taken for a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from recollect.enrich import Draft
from recollect.enrich.clauses import Clause
from recollect.enrich.names import (
    CITIES,
    COUNTRIES,
    DEVICES,
    FIRST_NAMES,
    LANGUAGES,
    NAMES_AND_WORDS,
    ORGANISATIONS,
    PROGRAMMING_LANGUAGES,
    REGIONS,
    SCHOOLS,
    STATE_CODES,
    TOOLS,
    words,
)
from recollect.enrich.vocabulary import NOT_A_NAME
from recollect.policies.dates import DAYS, MONTHS, span_of
from recollect.records import DAY_MS, as_datetime


class Value(NamedTuple):
    """A value as it would appear in a profile, and the characters of the clause that say it."""

    text: str
    first: int
    last: int


Reader = Callable[[Clause, int], Value | None]
Match = re.Match[str]
Drafts = Iterator[Draft]


class Said(NamedTuple):
    """A clause with its beginning understood: who it is about, where the rest begins, whether it ended."""

    clause: Clause
    kind: str
    rest: int
    at: int
    ended: bool = False
    first: int = 0

    def fact(self, key: str, value: Value, confidence: float, **more: Any) -> Draft:
        """A fact about the user that this clause states, or whose end it states."""
        span = self.clause.span(min(self.first, value.first), value.last)
        if self.kind in ("am_not", "do_not"):
            return self.denied_fact(key, value, confidence)
        if self.ended:
            return self.ended_fact(key, value, confidence)
        return Draft("fact", key, bare(value.text), confidence, span, **more)

    def ended_fact(self, key: str, value: Value, confidence: float) -> Draft:
        """A fact about the user that is no longer true."""
        span = self.clause.span(min(self.first, value.first), value.last)
        over = since(self.clause.low, self.at)
        return Draft("fact", key, bare(value.text), confidence, span, ends=True, valid_to=over)

    def denied_fact(self, key: str, value: Value, confidence: float) -> Draft:
        """A fact that is not true, and may never have been: its end, without a time before it."""
        draft = self.ended_fact(key, value, confidence)
        end = self.at if draft.valid_to is None else draft.valid_to
        return replace(draft, valid_from=end, valid_to=end)


_ARTICLE = re.compile(r"(?:the|a|an) (?=\S)")


def bare(text: str) -> str:
    """A value without its article, so that one thing has one name: "the cello" is "cello". A title keeps its "The"."""
    article = _ARTICLE.match(text)
    return text[article.end() :] if article else text


# ── Names ────────────────────────────────────────────────────────────────────────────────────────

_NAME = re.compile(r"[^\W\d_][\w'’.-]*")
CAPITAL = "A-Z" + "".join(
    letter for letter in map(chr, (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))) if letter.isupper()
)
"""The capital letters of Latin, for a character class: Łódź begins with one, as Oslo does."""
_NEXT = re.compile(r"[ \t]{1,3}")
_RUN = re.compile(
    rf"(?:the |The )?[{CAPITAL}0-9][\w'’&.+#-]*(?:[ \t](?:(?:of|de|del|la|le|du|van|von|der|den|upon|am"
    rf"|an|ob|bei|sur|sous|les|di|da|dos|des|aan|nad|the|and|&)[ \t]){{0,2}}[{CAPITAL}][\w'’&.+-]*){{0,5}}"
)
_WORDS = re.compile(r"[\w.'’&#+-]+(?:[ \t][\w.'’&#+-]+){0,4}")
CALENDAR = words(
    """
    monday, tuesday, wednesday, thursday, friday, saturday, sunday, january, february, march, april, may, june,
    july, august, september, october, november, december, christmas, easter
    """
)


def capital(word: str) -> str:
    """A name with its capitals, including after an apostrophe or a hyphen: `O'Brien`, `Jean-Pierre`."""
    return re.sub(r"(?:^|(?<=[-'’]))\w", lambda match: match.group().upper(), word) if word.islower() else word


_FIRST_WORDS: dict[int, tuple[Mapping[str, str], frozenset[str]]] = {}


def _first_words(table: Mapping[str, str]) -> frozenset[str]:
    """The first words of the names in a table. The tables are few, and live as long as the program."""
    if id(table) not in _FIRST_WORDS:
        _FIRST_WORDS[id(table)] = table, frozenset(name.split(" ", 1)[0] for name in table)
    return _FIRST_WORDS[id(table)][1]


def known(table: Mapping[str, str], clause: Clause, at: int) -> Value | None:
    """The longest name from a table at this position, in its proper form."""
    match = _WORDS.match(clause.low, at)
    if match is None:
        return None
    first, begins = match.group().split(" ", 1)[0], _first_words(table)
    bare_first = first.rstrip(".'-")
    if first not in begins and bare_first not in begins and bare_first.removesuffix("'s") not in begins:
        return None
    last = match.end()
    while last > at:
        words = clause.low[at:last]
        trimmed = words.rstrip(".'-")
        for candidate in (words, trimmed, trimmed.removesuffix("'s")):
            if candidate in table:
                return Value(table[candidate], at, at + len(candidate))
        last = at + max(words.rfind(" "), 0)
    return None


def _shouted(clause: Clause) -> bool:
    return clause.text.isupper() and len(clause.text) > 8


def name_run(clause: Clause, at: int) -> Value | None:
    """A run of capitalised words: the name of anything."""
    match = _RUN.match(clause.text, at)
    if match is None or _shouted(clause):
        return None
    text = match.group().rstrip(".'’-&")
    first = text.removeprefix("the ").removeprefix("The ")
    if (
        not re.search(r"[^\W\d_]", first.split()[0])
        or first.split()[0].lower() in ("i", "i'm", "i’m", "i've", "i'd", "ok")
        or first.lower() in CALENDAR
    ):
        return None
    text = re.split(r" (?:I|I'm|I’m|I've|and|And|Any|What|How|My|Can|But)\b", text, maxsplit=1)[0]
    return Value(text.removesuffix("'s").removesuffix("’s"), at, at + len(text)) if text else None


def person(clause: Clause, at: int, *, named: bool = False) -> Value | None:
    """The name of a person or pet. With `named` the words before leave no doubt that a name follows."""
    match = _NAME.match(clause.text, at)
    if match is None:
        return None
    word = match.group().rstrip(".'’-")
    bare = re.sub(r"['’]s$", "", word)
    low = bare.lower()
    if low in _TITLES:
        return _titled(clause, at, match.end())
    nicknamed = named and bare[:1].isupper() and _following_name(clause, at + len(bare), True) is not None
    if not bare or (low in NOT_A_NAME and not nicknamed) or (low in CALENDAR and not named) or len(bare) > 30:
        return None
    familiar = low in FIRST_NAMES and low not in NAMES_AND_WORDS
    written_as_name = bare[0].isupper() and not _shouted(clause)
    if not (written_as_name or familiar or (named and _may_be_name(clause, at + len(word)))):
        return None
    last = at + len(bare)
    names = [capital(bare)]
    while len(names) < 3 and bare == word:
        following = _following_name(clause, last, written_as_name)
        if following is None:
            break
        names.append(capital(following.text))
        last = following.last
    return Value(" ".join(names), at, last)


_AFTER_SMALL_NAME = re.compile(
    r"[\s\x00]*(?:[,.!;:()&\x00]|\Z|(?:and|but|or|who|btw|by the way|nice|from|he|she|they|it|so|instead|please|pls"
    r"|for short)\b|[^\w\s])|['’]s?\b|[ -][^\W\d_]+['’-]?[^\W\d_]*\W*\Z"
)


def _may_be_name(clause: Clause, last: int) -> bool:
    """A lower-case word is a name only where the naming ends with it: not in "the name is crossed out"."""
    # A user who writes capitals elsewhere would have given the name one.
    careless = clause.text.removeprefix("I").removeprefix("'m").islower()
    return careless and _AFTER_SMALL_NAME.match(clause.low, last) is not None


_TITLES = frozenset(
    {"dr", "doctor", "mr", "mrs", "ms", "prof", "professor", "herr", "frau", "madame", "monsieur", "señor", "señora"}
)


def _titled(clause: Clause, at: int, last: int) -> Value | None:
    """A title with the name after it: `Dr. Patel`."""
    name = _following_name(clause, last, True)
    if name is None:
        return None
    surname = _following_name(clause, name.last, True)
    last = surname.last if surname else name.last
    return Value(clause.text[at:last], at, last)


def _following_name(clause: Clause, at: int, written_as_name: bool) -> Value | None:
    gap = _NEXT.match(clause.text, at)
    match = _NAME.match(clause.text, gap.end()) if gap else None
    if match is None:
        return None
    word = re.sub(r"['’]s$", "", match.group().rstrip(".'’-"))
    if not word or word.lower() in NOT_A_NAME or word.lower() in CALENDAR:
        return None
    # A lower-case surname counts only where nothing else follows: "my name is siobhan o'brien".
    ends_here = clause.text[match.end() :].strip(" .!\x00") == ""
    if word[0].isupper() if written_as_name else (ends_here and word.isalpha() is False and "'" in word):
        return Value(word, match.start(), match.start() + len(word))
    return None


def organisation(clause: Clause, at: int) -> Value | None:
    """A company, an office, a school: known by name, or written as one."""
    found = known(ORGANISATIONS, clause, at)
    run = name_run(clause, at)
    if run is not None and (found is None or run.last > found.last):
        company = _COMPANY.match(clause.text, run.last)
        if company and run.text == clause.text[run.first : run.last]:
            return Value(run.text + company.group(), run.first, company.end())
        return _whole(clause, run)
    return found


_OWNED = re.compile(r" [a-z]+")
_GOES_ON = re.compile(r" (?:for|as|since|until|till|and|but|so|because|where|which|now|on|full|part|right|these)\b")
_COMPANY = re.compile(r" (?:and|&) (?:Co|Company|Sons?|Daughters?|Partners|Associates|Brothers|Bros|Friends)\b")


def _whole(clause: Clause, run: Value) -> Value | None:
    """The name with its own apostrophe: people work at Luigi's, but "Sarah's place" is not a company."""
    written = clause.text[run.first : run.last]
    if written == run.text:
        return run
    owned = _OWNED.match(clause.text, run.last) and not _GOES_ON.match(clause.text, run.last)
    return None if owned else Value(written, run.first, run.last)


def school(clause: Clause, at: int) -> Value | None:
    """Where someone studies or studied."""
    found = known(SCHOOLS, clause, at)
    run = name_run(clause, at)
    return run if run is not None and (found is None or run.last > found.last) else found


# ── Places ───────────────────────────────────────────────────────────────────────────────────────

_NOT_PLACES = words(
    """
    fear, hell, heaven, hope, peace, sin, denial, poverty, chaos, america's, god's, style, luxury, harmony,
    mom's, mum's, dad's, mars, venus, jupiter, saturn, pluto, uranus, neptune, earth, moon, space, outer space,
    narnia, hogwarts, wonderland, atlantis, gotham, gotham city, wakanda, mordor, neverland, asgard, tatooine,
    westeros, middle-earth, middle earth, krypton, springfield elementary, bikini bottom, the shire, hobbiton, limbo,
    exile, sin city, la la land, cyberspace, the matrix, zion, oz, camelot, utopia, chatgpt, reddit, discord
    """
)
_NAMES_OF_OTHER_THINGS = frozenset({*ORGANISATIONS, *TOOLS, *DEVICES, *LANGUAGES, *PROGRAMMING_LANGUAGES, *SCHOOLS}) - {
    *CITIES,
    *REGIONS,
}
_THE = re.compile(r"the ")


class Place(NamedTuple):
    """A place with its kind: `city`, `region` or `country`."""

    value: Value
    kind: str


_WIDER_JOINT = re.compile(r"(?:,? in |,\s?|\s|\s?\()")


def places(clause: Clause, at: int) -> list[Place]:
    """The place at this position, and the wider ones after it: Portland, Oregon. Empty when there is none."""
    first = _place(clause, at)
    found = [first] if first else []
    while found and len(found) < 3 and found[-1].kind != "country":
        joint = _WIDER_JOINT.match(clause.low, found[-1].value.last)
        wider = _wider(clause, joint.end()) if joint else None
        if wider is None or wider.kind == found[-1].kind:
            break
        found.append(wider)
    return found


_NUMBERED = re.compile(
    r"(?:unit|flat|apartment|apt|room|block|building|bldg|suite|floor|level|house|plot|lot|cabin|dorm|wing|tower|cell|bay"
    r"|berth|pitch|site|zone|ward|sector|phase|section|stand|number|box|no)\b\.? (?:no\.? |number )?(?:#?\d|[a-z]\b)"
)
"""A part of a building or a town, not a town: "Unit 4", "Block C"."""
_CITY = re.compile(r" city(?! (?:cent|hall|council|life|limits|walls))(?=[\s\x00]*(?:[,.;!()\x00]|\Z|[a-z]))")


def _place(clause: Clause, at: int) -> Place | None:
    if _THE.match(clause.low, at) and (wide := _wider(clause, at) or _wider(clause, at + 4)):
        return wide
    found = listed_place(clause, at)
    if found and found.kind == "city" and (whole := _CITY.match(clause.low, found.value.last)):
        named = f"{found.value.text} City" if not found.value.text.endswith("City") else found.value.text
        return Place(Value(named, at, whole.end()), "city")
    run = name_run(clause, at)
    if run is None or (found is not None and run.last <= found.value.last):
        return found
    if _NUMBERED.match(clause.low, at):
        return None
    if (
        run.text.lower() in _NAMES_OF_OTHER_THINGS
        or run.text.lower() in _NOT_PLACES
        or run.text[0].isdigit()
        or run.text.startswith(("the ", "The "))
    ):
        return found
    owned = clause.text[run.first : run.last] != run.text
    if owned and _OWNED.match(clause.text, run.last):
        return found  # somebody's: "we live in Greta's house"
    # "Berlin Germany" is two places, "Berlin Heights" one.
    if found is not None and _wider(clause, found.value.last + 1) is not None:
        return found
    return Place(run, "city")


def listed_place(clause: Clause, at: int) -> Place | None:
    """The longest place from the lists at this position."""
    tables = ((CITIES, "city"), (REGIONS, "region"), (COUNTRIES, "country"))
    found = [Place(value, kind) for table, kind in tables if (value := known(table, clause, at))]
    return max(found, key=lambda place: place.value.last, default=None)


def _wider(clause: Clause, at: int) -> Place | None:
    for table, kind in ((REGIONS, "region"), (COUNTRIES, "country")):
        if value := known(table, clause, at):
            return Place(value, kind)
    code = clause.text[at : at + 2]
    if code in STATE_CODES and not clause.text[at + 2 : at + 3].isalpha():
        return Place(Value(code, at, at + 2), "region")
    return None


# ── Phrases and lists ────────────────────────────────────────────────────────────────────────────

_PHRASE_END = re.compile(
    r"\s*(?:[,;:!?()\x00]|\.\s*\Z|\s(?:but|because|cause|cuz|since|so|as|which|who|where|when|while|though|although"
    r"|if|lol|haha|btw|fyi|tbh|ngl|imo|imho|lmao|smh|honestly|too|rn|atm|please|pls|tho|however|thanks|except|unless"
    r"|until|after|before|and (?:i|i'm|im|my"
    r"|we|it|it's|that|the|also|now|so|then|was|am|have|live|work)|right now|these days|at the moment|any ?more"
    r"|lately|currently|nowadays|anyway|especially|even|just|mostly|personally|i think|i guess|actually|and)\b"
    r"|\s[-–—]|\Z)"
)
_LIST_JOINT = re.compile(
    r"\s{0,2}(?:,?\s(?:with|and) (?:a (?:bit|little|touch|dash) of|some)\s|,\s{0,2}(?:and\s|or\s|&\s)?|\s(?:and|&|or"
    r"|plus|\+)\s|\s?/\s?)(?:also\s)?"
)
_SMALL = re.compile(
    r"(?:(?:a (?:bit|little(?: bit)?)(?: of)?|some|bit(?: of)?|basic|fluent|conversational|also|both|mostly|the|a|an|my"
    r"|all|any"
    r"|mainly|playing|play|going|certain|most|really|native|decent|broken|enough|intermediate|beginner|little) )*"
)


_LIST_OVER = re.compile(
    r"(?:so|but|because|which|please|although|though|since|as|i|i'm|im|my|we|it|it's|that|then|if|when|what|can|could"
    r"|any|thanks|hence|therefore|not|just|also|now|yet|is|are|do|you|he|she|they|there|for|with|how|where|who"
    r"|etc|nobody|everyone|everybody|someone|somebody|people|yes|yeah|well|sorry|always|never|still|have|has|need"
    r"|want|am"
    r"|was|were|will|would|this|these|those|honestly|maybe|apparently|your|their|his|her|no|came|went|got|found|had"
    r"|broke|ended|learned|learnt"
    r"|almost|nearly|even|sadly|unfortunately|luckily|obviously|actually|please|me|us|myself|by the way|btw|fyi|tbh"
    r"|of course|in (?:fact|case)|to be (?:honest|fair|clear|precise|exact)|remember)\b(?!')"
    r"|(?:that|there|what|who|he|she|it)'s\b"
    r"|(?:we|you|they)'re\b|(?:i|we|you|they)'(?:ve|d|ll)\b"
)


def phrase(clause: Clause, at: int, *, words_max: int = 6) -> Value | None:
    """The words from here to the next stop; None when there are none or too many."""
    end = _PHRASE_END.search(clause.low, at)
    last = end.start() if end else len(clause.low)
    text = clause.text[at:last].rstrip()
    if not text or len(text.split()) > words_max:
        return None
    return Value(text, at, at + len(text))


_QUALIFIED = re.compile(
    r"(?: v?\d[\d.]{0,7})? \([^)]{0,30}\)| (?:btw|fyi|lol)(?=,)| v?\d{1,4}(?:\.\d+){1,3}(?=\s*(?:,|and\b|&|\Z))"
    r"|(?:,? (?:is|who'?s|who is|s?he's|s?hes|aged?|now))?,? \d{1,2}(?: years? old| months? old|yo)?"
    r"(?: (?:in (?=[a-z]+\W*(?:,|and\b|&|\Z))[a-z]+|(?:next|this) (?:week|month|year)))?(?=\s*(?:,|and\b|&|\Z))"
    r"| (?:quite |pretty |very )?(?:well|fluently|badly|too|natively|at (?:home|work"
    r"|school))\b"
)


def listed(clause: Clause, at: int, reader: Reader, most: int = 8) -> Iterator[Value]:
    """The values of an enumeration, as long as the reader knows them: "nuts, shellfish and soy"."""
    for _ in range(most):
        small = _SMALL.match(clause.low, at)
        at = small.end() if small else at
        value = None if _LIST_OVER.match(clause.low, at) else reader(clause, at)
        if value is None:
            return
        yield value
        qualified = _QUALIFIED.match(clause.low, value.last)
        joint = _LIST_JOINT.match(clause.low, qualified.end() if qualified else value.last)
        if joint is None or ("," in joint.group() and goes_on_by_itself(clause, joint.end())):
            return
        at = joint.end()


_DOES = (
    r"(?:is|are|was|were|isn't|aren't|wasn't|weren't|isnt|arent|has|had|does|did|doesn't|didn't|can|can't|will|won't"
    r"|would|made|makes|brought|brings|bought|buys|took|takes|gave|gives|got|gets|went|goes|came|comes|said|says|told"
    r"|tells|asked|asks|thought|thinks|knew|knows|wanted|wants|ate|eats|drank|loves|hates|keeps|kept|wrote|writes"
    r"|lent|threw|forgot|forgets|swears|bores?|scares?|not|less|always|never|usually|often|sometimes|still)\b"
    r"|(?:plays|likes|cooks|works|lives|drinks|drives|drove|picks|runs|sings|sang|swam|won|lost|sat|ran|left|saw|met|put"
    r"|let|feels|found|hurts|helps|needs|supports|prefers|uses|speaks|teaches|studies|collects)"
    r" (?!(?:and|or|but|at|in|by|on|with|of|from)\b)[a-z]"
    r"|[a-z]{3,}ed (?:it|them|me|us|him|her|some|the|an?|my|our|his|their|loads|lots|everything)\b"
)
_OF_ITS_OWN = re.compile(
    rf"(?:(?!(?:and|or|but|nor)\b)[\w'’-]+ ){{1,3}}?(?:{_DOES})"
    r"|(?:ate|drank|watched|bought|went|got|had|took|saw|gave|came|spent|visited|ordered|finished|reminds|makes|gives"
    r"|keeps) [a-z]|(?:[\w'’-]+ ){1,2}(?:fan|supporter)\b(?! [a-z]*fiction)"
    r"|(?:tastes?|smells?|looks?|sounds?|feels?) (?:like|so|too|great|good|bad|awful|weird|horrible)\b"
)


def goes_on_by_itself(clause: Clause, at: int) -> bool:
    """Whether a sentence of its own stands where an enumeration could go on: "prawns, Tom made paella and ..."."""
    return _OF_ITS_OWN.match(clause.low, at) is not None


_WORD_START = re.compile(r"(?<![\w'’-])(?!(?:[Ii]n|[Aa]t|[Ff]rom|[Tt]o|[Ff]or|[Nn]ear|[Oo]n|[Tt]he|[Aa]nd)\b)[^\W_]")


def ending_at(clause: Clause, end: int, reader: Reader) -> Value | None:
    """The longest value that ends here, within a few words."""
    for start in _WORD_START.finditer(clause.text, max(0, end - 40), end):
        value = reader(clause, start.start())
        if value and value.last == end:
            return value
    return None


def in_table(table: Mapping[str, str]) -> Reader:
    """A reader for the names in a table."""
    return lambda clause, at: known(table, clause, at)


# ── Times ────────────────────────────────────────────────────────────────────────────────────────

_FOR = re.compile(
    r"\bfor (?:about |over |almost |nearly |the (?:last|past) )?(\d{1,2}|a|an|one|two|three|four|five|six|seven|eight"
    r"|nine|ten)\+? (week|month|year)s?\b"
)
_COUNTS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}
_UNIT_DAYS = {"week": 7, "month": 30, "year": 365}


def since(low: str, at: int) -> int | None:
    """Since when, or until when, relative to the time of the message: "last March", "for two years"."""
    lasted = _FOR.search(low)
    if lasted:
        count = int(lasted[1]) if lasted[1].isdigit() else _COUNTS[lasted[1]]
        return at - count * _UNIT_DAYS[lasted[2]] * DAY_MS
    span = span_of(low, at)
    if span is None or span[0] > at:
        return None
    return (span[0] + span[1]) // 2 if " ago" in low else span[0]


_ON_A_DAY = re.compile(rf"\b(?:on|this|next) (?P<day>{'|'.join(DAYS)})\b")
_IN_A_WHILE = re.compile(
    r"\bin (?P<count>\d{1,2}|a|an|one|two|three|four|five|six|seven|eight|nine|ten) (?P<unit>week|month|year)s?\b"
)


def coming(low: str, at: int) -> int | None:
    """When something begins that is still to come: "in May", "on Monday", "next month", "in two weeks"."""
    if ahead := _IN_A_WHILE.search(low):
        count = int(ahead["count"]) if ahead["count"].isdigit() else _COUNTS[ahead["count"]]
        return at + count * _UNIT_DAYS[ahead["unit"]] * DAY_MS
    if on := _ON_A_DAY.search(low):
        days = (DAYS.index(on["day"]) - as_datetime(at).weekday() - 1) % 7 + 1
        return at - at % DAY_MS + days * DAY_MS
    # A month without a year is read as the last one: as seen from a year later, that is the next one.
    spans = (span_of(low, seen_at) for seen_at in (at, at + 365 * DAY_MS))
    begins = [span[0] for span in spans if span is not None and span[0] > at]
    return begins[0] if begins and "ago" not in low and "last" not in low else None


_FROM_THEN = re.compile(
    r"(?:\b(?:as of|as from|with effect from|effective(?: from)?|starting(?: from| on| in)?|beginning(?: in| on)?)"
    r"|(?:\A|[.,;:–—-] |\b(?:and|but|so|then|that|now|well|ok|okay|anyway|also|actually) )from"
    r"|(?<!year )(?<!years )(?<!hail )(?<!come )(?<!i'm )(?<!comes )\bfrom(?=[\w ]+\W*\Z)) "
    r"(?P<when>(?:(?:the )?(?:\d{1,2}(?:st|nd|rd|th)?|first|start|beginning|middle|end|early|mid|late)(?: of)?[ -])?"
    r"(?:(?:early|mid|late|next|this|coming) )*"
    rf"(?:{'|'.join((*MONTHS, *DAYS))}|tomorrow"
    r"|(?:next|this coming) (?:week|month|year|spring|summer|autumn|fall|winter)|the new year|new year)"
    r"(?:,? (?:the )?\d{1,2}(?:st|nd|rd|th)?\b)?(?:,? \d{4}\b)?)\b"
    r"(?! (?:to|until|till|through|and|or) )(?! ?[-–—] ?[a-z])"
)
"""Not the days of a week that repeats, or of a stay: "from Monday to Friday", "from June until August"."""


_BEGUN_DAYS = 92
"""A month that is no longer ago is the last one: "from October I work at Initech", said in November."""


class Beginning(NamedTuple):
    """When something begins that is still to come, and the characters that name it."""

    at: int
    first: int
    last: int


def beginning(low: str, at: int) -> Beginning | None:
    """When what a sentence says begins, if that is still to come: "from December", "starting next week"."""
    match = _FROM_THEN.search(low)
    if match is None:
        return None
    when = match["when"]
    begins = coming(f"on {when}" if when in DAYS else f"in {when}" if when[:1].isalpha() else when, at)
    begins = coming(when, at) if begins is None else begins
    begun = not _ONCE.search(when) and begins is not None and begins - 365 * DAY_MS > at - _BEGUN_DAYS * DAY_MS
    return None if begins is None or begun else Beginning(begins, *match.span("when"))


_ONCE = re.compile(rf"\d{{4}}|tomorrow|next|coming|new year|{'|'.join(DAYS)}")
_FOR_A_STAY = re.compile(
    rf"\b(?:from|between) (?:[a-z]+ ){{0,2}}(?:{'|'.join(MONTHS)})(?: \d{{1,2}})? (?:to|until|till|through|and) "
)


def is_a_stay(low: str) -> bool:
    """Whether a sentence tells of some months: "from June to August I live in Crete"."""
    return _FOR_A_STAY.search(low) is not None
