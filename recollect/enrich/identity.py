"""Who the user is: names, pronouns, age, birthday."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from recollect.enrich.names import COUNTRIES, FIRST_NAMES, NAMES_AND_WORDS, words
from recollect.enrich.values import CALENDAR, Drafts, Match, Said, Value, ending_at, listed_place, person
from recollect.enrich.vocabulary import NATIONALITIES, NOT_A_NAME, OCCUPATIONS
from recollect.policies.dates import DAYS, MONTHS
from recollect.records import as_datetime

# ── Names ────────────────────────────────────────────────────────────────────────────────────────

NAME_IS = re.compile(
    r"my (?:full |first |real |given |actual |legal |own )?name(?:, (?:which|as|by)\b[^,]{2,50},)?(?:'s| is"
    r"|s)(?: actually| just| really"
    r"| spelled)?[ :,]+|(?:the |first |full |given |real )?name's |first name is |(?:i'm|im|i am|i was) (?:called"
    r"|named)[ ,:]+|myself (?=[^\W\d_]+(?: [^\W\d_]+)? from\b)"
)
NICKNAME_IS = re.compile(
    r"(?:(?:please |kindly |just |so |you can |you may |you could |feel free to |pls |better )*call me|(?:everyone"
    r"|everybody|people|ppl|they|the (?:lads|guys|girls|boys|kids|team|others|family|neighbou?rs)(?: (?:at|on"
    r"|in) \w+)?|my (?:friends|family|mates|colleagues|coworkers|mom|mum|dad)|friends|most people|folks"
    r"|all my friends|my friends all)(?: (?:at|in|on) (?:the |my )?\w+(?: \w+)??| here| online| around here)?(?: all"
    r"| just"
    r"| usually| mostly)? calls? me|i (?:usually |mostly |just |also )?go by(?: the name| my (?:middle|second"
    r"|last) name)?|(?:my|the) (?:nickname|preferred name)(?:(?:'s| is)(?: actually| really| just)?|(?=, [\w'-]+,))"
    r"|i(?:'d"
    r"| would)? (?:prefer"
    r"|rather|want|wish)(?! to (?:be called|call me) (?:back|[a-z]+day|tomorrow|later|soon|before|after|when|at|on)\b)"
    r" (?:(?:to )?be called|you call(?:ed)? me|to be called|being called|to go by)|i(?:'d"
    r"| would)? like (?:you )?to (?:be called|call me)|(?:you (?:can|may|should) )?(?:address me as|refer to me as)"
    r"|i(?:'m| am) known as)[ :,]+"
)
_AFTER_NICKNAME = re.compile(
    r"[\s\x00]*(?:[,.!;()\x00-]|\Z|(?:instead|please|pls|from now on|for short|and|but|by the way|btw|thanks|ok|okay"
    r"|not|now|anytime|at work|at home|though|if|everywhere|online|lol|haha|because|since)\b|\W*\Z)"
)
_NO_LIKING = (
    r"(?:i )?(?:really |absolutely |actually |secretly )?(?:hate|loathe|detest|can't stand|cannot stand|don't like"
    r"|dont like|dislike)"
)
UNWELCOME = re.compile(
    r"(?: (?:at|in|on) (?:the )?\w+)?[\s,.;(–—-]{1,4}(?:(?:but|and|which|though|so) )?(?:(?:please|pls) )?(?:don't|dont"
    rf"|do not|never|{_NO_LIKING} (?:it|that)|stop|i(?:'d| would) rather|i(?:'d| would)?(?: much)? prefer)\b"
    r"(?! (?:be|worry|ask|know|mind|forget|it|that)\b)"
    rf"|(?: (?:at|in|on) (?:the )?\w+)?, which {_NO_LIKING}\b"
)
"""After a name, it is not one to be called by: "my mum calls me Robert, please don't"."""
HATES_IT = re.compile(rf"(?:but |and |which )?(?:{_NO_LIKING} (?:it|that)|please don't|pls don't)\b")
"""The same in a sentence of its own: "They call me Bobby. I hate it"."""
_NOT_CALLED = words(
    """
    crazy, back, later, maybe, when, if, a, an, the, whatever, anytime, anything, old-fashioned, old, weird,
    stupid, dumb, names, tomorrow, today, tonight, by, at, on, in, again, out, sir, ma'am, now, asap, soon, up,
    lazy, paranoid, naive, cynical, biased, picky, boring, spoiled, basic, traditional, skeptical, first, mad,
    nuts, silly, cheesy, sentimental, romantic, selfish, anal, ignorant, ishmael, cheap, simple, strange, home,
    before, after, instead, something, someone, anyone, captain, bicycle, bike, bus, car, train, tram, foot, boat,
    plane, taxi, metro, ferry, nights, days, mornings, evenings, weekends
    """
)


_FAMOUS = words(
    """
    abraham lincoln, adele, albert einstein, albus dumbledore, barack obama, bart simpson, beyonce, beyoncé, bilbo
    baggins, bill gates, bond, bruce wayne, bugs bunny, buzz lightyear, captain america, captain kirk, charlie brown,
    clark kent, cleopatra, commander shepard, david bowie, donald duck, donald trump, don quixote, dr. evil, dr.
    house, dr. watson, elizabeth bennet, elon musk, elsa, elvis, elvis presley, ethan hunt, ferris bueller, forrest
    gump, frodo, frodo baggins, gandalf, george washington, han solo, hannibal lecter, harry potter, hercule poirot,
    hermione granger, homer simpson, huckleberry finn, indiana jones, iron man, jack sparrow, captain jack sparrow,
    james bond, jane eyre, jason bourne, jay gatsby, jean valjean, jeff bezos, jesus christ, joe biden, john snow, jon
    snow, john wick, julius caesar, katniss everdeen, king arthur, kim kardashian, lady gaga, legion, leonardo da
    vinci, luke skywalker, madonna, mario, marilyn monroe, mark zuckerberg, mary poppins, maximus, michael jackson,
    mickey mouse, mr bean, mr. bean, mr. tibbs, muhammad ali, napoleon, napoleon bonaparte, neo, obi-wan kenobi,
    oprah, oprah winfrey, optimus prime, peter pan, peter parker, pinocchio, princess leia, robin hood, rocky balboa,
    romeo, ron weasley, santa claus, sherlock holmes, slim shady, sonic, spock, spongebob, steve jobs, tarzan, taylor
    swift, tony montana, tony stark, tyler durden, walter white, winnie the pooh, wonder woman, yoda, zorro
    """
)
_MORE_OF_A_TITLE = re.compile(
    r" (?:is|was) (?:a|an|the|my|one of|on|not|wrong)\b| on (?:the|my) (?:form|list|paper|badge)"
    r"| by (?!the way\b)[a-z]+ [a-z]+\W*\Z"
)


def _somebody_else(said: Said, name: Value) -> bool:
    """True for famous people, whom the user is only playing, and for song and film titles."""
    return name.text.lower() in _FAMOUS or _MORE_OF_A_TITLE.match(said.clause.low, name.last) is not None


def names(said: Said, match: Match) -> Drafts:
    """'My name is Ana': sure."""
    found = person(said.clause, match.end(), named=True)
    if found and not _somebody_else(said, found):
        yield said.fact("name", found, 0.95)
        yield from _named_from(said, found)


def nicknames(said: Said, match: Match) -> Drafts:
    """'Call me Pi', 'everyone calls me Pi'."""
    found = person(said.clause, match.end(), named=True)
    if (
        found is None
        or (found.text.split()[0].lower() in _NOT_CALLED and " " not in found.text)
        or "/" in said.clause.low[found.last : found.last + 1]
        or UNWELCOME.match(said.clause.low, found.last)
        or _somebody_else(said, found)
    ):
        return
    sure = found.text.split()[0].lower() in FIRST_NAMES or said.clause.text[found.first].isupper()
    if sure or (_AFTER_NICKNAME.match(said.clause.low, found.last) and " " not in found.text):
        yield said.fact("nickname", found, 0.9)


NAME_IS_NOT = re.compile(
    r"(?:my (?:\w+ )?name(?: is(?: actually| really)? not| isn't|'s not)|(?:i'm|im|i am) not (?:called|named)) "
)


def name_is_not(said: Said, match: Match) -> Drafts:
    """'My name is not Daniel': the end of that name, in case it was believed."""
    found = person(said.clause, match.end(), named=True)
    if found and said.clause.text[found.first].isupper() and not said.clause.low[found.last :].strip(" .!\x00"):
        yield said.denied_fact("name", found, 0.85)


NOT_TO_BE_CALLED = re.compile(r"(?:don't|do not|dont|never|stop) (?:ever )?call(?:ing)? me ")


def not_called(said: Said, match: Match) -> Drafts:
    """'Don't call me Zed'."""
    found = person(said.clause, match.end(), named=True)
    if found and said.clause.text[found.first].isupper() and found.text.lower() not in CALENDAR:
        yield said.denied_fact("nickname", found, 0.85)


_AFTER_NAME = re.compile(
    r"[\s\x00]*(?:[,.!;(\x00&]|\Z|-\s|(?:and|from|by the way|btw|but|here|nice to|the|a|an|your|your new|with|at)\b)"
)
_HERE = re.compile(r"\s(?:here|speaking|calling|again)\b")
_NOT_I_AM = words(
    """
    team, captain, king, queen, doctor, dr, mr, mrs, ms, sir, lord, god, type, number, level, master, agent
    """
)


I_AM = re.compile(r"(?P<name>[^\W\d_])")
THE_NAME_IS = re.compile(r"the name is (?P<name>[^\W\d_])")
MYSELF = re.compile(r"myself (?P<name>[^\W\d_]+)(?=(?: [^\W\d_]+)?\s*(?:,|\.|\Z|and\b|here\b))")


def i_am_name(said: Said, match: Match) -> Drafts:
    """'I'm Piyush': only what looks like a name and like nothing else."""
    clause, at = said.clause, match.start("name")
    found = person(clause, at)
    if found is None or _somebody_else(said, found) or clause.low.endswith(" now ", 0, at):
        return
    first = found.text.split()[0].lower()
    everyday = first in NATIONALITIES or first in COUNTRIES or first in OCCUPATIONS or first in _NOT_I_AM
    if everyday or first.endswith("ing") or not _AFTER_NAME.match(clause.low, found.last):
        return
    familiar = first in FIRST_NAMES
    yield from _named_from(said, found)
    if familiar and (clause.text[at].isupper() or first not in NAMES_AND_WORDS):
        yield said.fact("name", found, 0.85)
    elif clause.text[at].isupper() and not found.text.isupper() and _is_new_word(first):
        yield said.fact("name", found, 0.7)


BORN_AS = re.compile(r"(?:was )?born (?P<name>[^\W\d_])(?=[\w'’-]+[\s\x00]*(?:,|\Z))")
THATS_MY_NAME = re.compile(r",(?: please,)? (?:that's|which is) my (?:real |actual |full |first )?name\b")


def thats_my_name(said: Said, match: Match) -> Drafts:
    """'Sign it Thaddeus Okonjo, that's my full name'."""
    found = ending_at(said.clause, match.start(), person)
    if found and said.clause.text[found.first].isupper():
        yield said.fact("name", found, 0.85)


IS_MY_NAME = re.compile(
    r"(?:it's |its |it is |this is )?(?P<name>[^\W\d_][\w'’-]+)(?:,| -)? (?:that's|thats|is) my (?:real |actual "
    r"|full |first )?name\b"
)
NAME_WRONG = re.compile(
    r"\b(?:my name (?:wrong|incorrectly)|(?:misspell(?:ed|ing)|misspelt|butchered|mixed up) my name"
    r"|not my name)\b[^.]{0,20}?"
    r"\b(?:it's|its|it is|i'm|im|i am|should be)(?: actually| really| spelled| spelt)? (?P<name>[^\W\d_])"
)
"""'You got my name wrong, actually it's Siobhan'."""


def name_put_right(said: Said, match: Match) -> Drafts:
    """'No, it's Kaitlyn, that's my name'."""
    found = person(said.clause, match.start("name"), named=True)
    if found and not _somebody_else(said, found) and found.text.lower() not in CALENDAR:
        yield said.fact("name", found, 0.85)


_FROM = re.compile(r" (?:here )?from ")


def _named_from(said: Said, name: Value) -> Drafts:
    """'I'm Olena from Kharkiv': only a known place, since it may as well be the company."""
    joint = _FROM.match(said.clause.low, name.last)
    place = listed_place(said.clause, joint.end()) if joint else None
    if place:
        yield said.fact("hometown", place.value, 0.75)


_WORDLIKE = re.compile(r"(?:ed|ful|less|ous|ive|able|ible|ish|ant|ent|ic|ical|ian|est|ly|ist|er|ese|ean)\Z")


def _is_new_word(word: str) -> bool:
    """True for a capitalised word that is not formed like an adjective: those are moods and faiths in capitals."""
    return word.isalpha() and len(word) > 2 and not _WORDLIKE.search(word) and word not in NOT_A_NAME


THIS_IS = re.compile(r"(?:this is|it's|its) (?P<name>[^\W\d_]{2,})(?= (?:here|from|speaking|calling|again)\b|[,.!]|\Z)")


def this_is_name(said: Said, match: Match) -> Drafts:
    """'Hi, this is Anna from accounting': only known names."""
    found = person(said.clause, match.start("name"))
    familiar = found is not None and found.text.split()[0].lower() in FIRST_NAMES
    surely_here = match.group().startswith(("this", "myself", "the name")) or _HERE.match(
        said.clause.low, match.end("name")
    )
    if found and familiar and surely_here:
        yield said.fact("name", found, 0.8)


NAME_HERE = re.compile(
    r"(?:(?:dr|prof|professor|doctor|mr|mrs|ms"
    r"|miss)\.? )?(?P<name>[^\W\d_]{2,}(?: [^\W\d_]{2,})?)(?= (?:here\b(?! (?:is|are|was|has|had|wants|needs|can"
    r"|will|would|says"
    r"|thinks|i|in|we|you|to|for)\b)|speaking\s*(?:[,.!\x00-]|\Z)))"
)


def name_here(said: Said, match: Match) -> Drafts:
    """'Tom here, quick question'."""
    found = person(said.clause, match.start("name"))
    if found and found.last == match.end("name") and found.text.split()[0].lower() in FIRST_NAMES:
        yield said.fact("name", found, 0.8)


PRONOUNS = re.compile(
    r"\b((?:she|he|they|xe|ze|it)/(?:her|hers|him|his|them|theirs|they|she|he|xem|hir|its)(?:/(?:hers|his|theirs|them"
    r"|her|him))?)\b"
)
_PRONOUNS_MEANT = re.compile(
    r"\bmy (?:preferred )?pronouns|\bpronouns(?:\b|:)|\bi (?:use|go by|prefer)\b|\A(?:i'm|im|i am)\b|\(\s?\Z"
    r"|\bi use\b"
)
_OF_OTHERS = re.compile(
    r"\b(?:uses|goes by|prefers|wants|has)\s\Z|\b(?:his|her|their|whose|[\w-]+'s) (?:preferred )?pronouns\b"
)
"""Somebody else's: "my roommate uses they/them pronouns"."""
_PRONOUNS_ALONE = re.compile(r",? ?(?:please|pls|plz|here|btw|by the way|thanks|thx)?[ .!]*\Z")
_PRONOUNS_ASKED_FOR = re.compile(
    r" (?:pronouns(?!:| (?:are|is|mean|confuse|work|look|sound|seem)\b)|(?:for|with|when (?:talking"
    r"|referring) (?:about|to)) me\b)"
)


def pronouns(said: Said, match: Match) -> Drafts:
    """'My pronouns are they/them', 'I'm Alex (he/him)'."""
    low = said.clause.low
    bracketed = low[max(0, match.start() - 1)] in "(["
    alone = match.start() == 0 and _PRONOUNS_ALONE.match(low, match.end())
    meant = _PRONOUNS_MEANT.search(low[: match.start()]) or _PRONOUNS_ASKED_FOR.match(low, match.end())
    if (bracketed or alone or meant) and not _OF_OTHERS.search(low, 0, match.start()):
        yield said.fact("pronouns", Value(match[1], *match.span(1)), 0.95)


# ── Age and birthday ─────────────────────────────────────────────────────────────────────────────

_AGE_NUMBER = r"(?P<age>\d{1,3})"
AM_AGE = re.compile(
    rf"{_AGE_NUMBER}(?: ?[mf]\b)?(?P<sure>[ -]?(?:years?[ -](?:old|young)|yrs?[ -]old|y/?o\b|years? of age"
    r"|yr old))?(?=[\s\x00]*(?:[,.;!)(\x00]|\Z|and\b(?! (?:\d|over|up|under|a half|counting))|(?:but|so|from|now"
    r"|male|female|btw|today|lol|haha|already|tomorrow|this year|f|m|living|with|years? old|which|not"
    r"|turning|going on|as of)\b))(?! ?(?:%|[.,]\d|/))"
)
AGED = re.compile(r"(?:an? |as an? )?(?P<age>\d{1,3})(?:[ -]?(?:years?|yrs?|yr)[ -](?:old|young)| ?yo| ?y/o)\b")
TURNED = re.compile(
    rf"(?:just |recently |finally )?(?:turn(?:ed|ing|(?= \d+ (?:today|this week|this month)\b))"
    rf"|(?<=just )hit) {_AGE_NUMBER}(?!,\d)(?=[\s\x00]*(?:[,.!;:()\x00]|\Z"
    r"|[^\w\s%°]|(?:years? old|last|this|today|yesterday|on|in|and|but|so|a|two|three|recently|back|earlier|now|over"
    r"|during|when|the|lol|haha|tomorrow|next|which|at|few|with|while)\b))"
)
HERE = re.compile(r"(?P<age>\d{2})(?: ?(?:m|f|male|female|nb|yo) here\b|(?:m|f|nb|yo)(?=[,.]))")
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_TEENS = ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
AGE_IN_WORDS = re.compile(
    rf"(?:(?P<teen>{'|'.join(_TEENS)})|(?P<tens>{'|'.join(_TENS)})(?:[ -](?P<ones>{'|'.join(_ONES)}))?)"
    r"(?P<sure> years? (?:old|young|of age))?(?=[\s\x00]*(?:[,.;!)(\x00]|\Z|(?:and|but|so|now|today|already|btw)\b))"
)
TURNED_IN_WORDS = re.compile(
    rf"(?:just |recently |finally )?(?:turned|(?<=just )hit) (?:(?P<teen>{'|'.join(_TEENS)})"
    rf"|(?P<tens>{'|'.join(_TENS)})(?:[ -](?P<ones>{'|'.join(_ONES)}))?)"
    r"(?=[\s\x00]*(?:[,.;!)(\x00]|\Z|(?:and|but|so|now|today|yesterday|last|this|recently|btw)\b))"
)
AGE_IS = re.compile(r"my age is (?P<age>\d{1,3})\b")


_LONG_AGO = re.compile(
    r"\s*(?:in (?!jan|feb|mar|apr|may|june?\b|july?\b|aug|sep|oct|nov|dec)|when |back |the (?:year|day) )"
)


_NOT_BY_YEARS = re.compile(
    r"\b(?:at heart|inside|in spirit|mentally|in (?:dog|cat|internet) years|in my (?:head"
    r"|mind))\b"
)


MEASURED = re.compile(r"\b(?:lost|gained|dropped|put on)\b[^.]{0,20}\b(?:kgs?|kilos?|lbs?|pounds|stone)\b|\bsize \d+")
"""After this, "I'm 86" is a weight or a size."""
WEIGHED = re.compile(r"\b\d{2,3}(?:[.,]\d)? ?(?:kgs?|kilos?|lbs?|pounds|stone)\W*\Z")
"""So it is in the sentence after this one: "The limit is 70 kilos. I'm 76"."""


def age_in_words(said: Said, match: Match) -> Drafts:
    """'I'm fifteen', 'I am seventy-two years young'."""
    if match["teen"]:
        years = 13 + _TEENS.index(match["teen"])
    else:
        years = 20 + 10 * _TENS.index(match["tens"]) + (_ONES.index(match["ones"]) + 1 if match["ones"] else 0)
    day = as_datetime(said.at).date().isoformat()
    yield said.fact("age", Value(str(years), *match.span()), 0.85, data={"as_of": day})


def age(said: Said, match: Match) -> Drafts:
    """'I'm 29', 'I turned 30 last week': with the day on which it was true."""
    years = int(match["age"])
    if _NOT_BY_YEARS.search(said.clause.low, match.end()) or "literally" in said.clause.low[: match.start()]:
        return
    sure = match.groupdict().get("sure") or match.re in (AGED, TURNED, AGE_IS)
    if not (3 if sure else 12) <= years <= 110 or (match.re is TURNED and "turning" in match.group()):
        return
    if match.re is TURNED and _LONG_AGO.match(said.clause.low, match.end()):
        return
    day = as_datetime(said.at).date().isoformat()
    value = Value(match["age"], match.start("age"), match.end("age"))
    yield said.fact("age", value, 0.9 if sure else 0.85, data={"as_of": day})
    if match.re is TURNED:
        yield from _turned_on(said, match)


_JUST_THEN = re.compile(
    rf"(?: years old)?,? (?:just )?(?:on )?(?P<near>today|yesterday|(?:two|three|four|five|six|\d) days ago"
    rf"|(?:last )?(?:{'|'.join(DAYS)}))\b"
)


def _turned_on(said: Said, match: Match) -> Drafts:
    """'I turned 35 two days ago' gives the birthday as well."""
    then = _JUST_THEN.match(said.clause.low, match.end())
    day = _near_day(then["near"], said.at) if then else None
    if then and day:
        yield said.fact("birthday", Value(day, match.start(), then.end()), 0.85)


WILL_TURN = re.compile(
    r"(?:i'm|im|i am|i'll be|i will be|i)(?: turning| turn)? \d\d(?:,)? (?:on |this |next )?(?P<near>tomorrow"
    r"|in (?:two|three|four|five|six|\d) days"
    rf"|{'|'.join(DAYS)})\b"
)


def will_turn(said: Said, match: Match) -> Drafts:
    """'I'm turning 40 tomorrow': the birthday. The age is not reached yet."""
    on = match["near"]
    now = as_datetime(said.at)
    ahead = (DAYS.index(on) - now.weekday() - 1) % 7 + 1 if on in DAYS else 0
    day = _day_name(now + timedelta(days=ahead)) if ahead else _near_day(on, said.at)
    yield said.fact("birthday", Value(day, *match.span()), 0.85)


YEARS_NOW = re.compile(r"(?P<age>\d\d)(?=[\s\x00]*(?:[,.!;]|\Z|(?:and|already|years|now|today)\b))")
"""The age of a user who has just mentioned their birthday: "It's my birthday today! 28 and already creaky"."""
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
DATE = re.compile(
    rf"(?:the )?(?:{_MONTH}\.? (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?|(?P<day_first>\d{{1,2}})(?:st|nd|rd"
    rf"|th)? (?:of )?{_MONTH.replace('month', 'month_last')})\b(?:,? (?:of |in )?(?P<year>(?:19|20)\d\d))?"
    r"|(?P<iso>(?:19|20)\d\d-\d\d-\d\d)|(?P<near>today|tomorrow|yesterday|in (?:two|three|four|five|six|\d) days"
    r"|(?:two|three|four|five|six|\d) days ago)\b"
)
_ONLY_MONTH = re.compile(rf"{_MONTH}(?=[\s\x00]*(?:[,.!;]|\Z|(?:and|so|but)\b))")
BIRTHDAY = re.compile(
    r"my (?:\d\d(?:th|st|nd|rd) )?(?:birthday|bday|b-day|birth ?date|date of birth|dob)(?:'s| is| was| falls"
    r"| lands)?(?: always| actually| coming up(?: soon)?)?(?: on| in)?[ :]+"
)
BORN_ON = re.compile(r"(?:was )?born (?:on |in )?(?=(?:the )?(?:\d|[a-z]{3,9} \d))")
BIRTHDAY_TODAY = re.compile(
    r"(?:it's|its|it is|it was) my (?:birthday|bday|(?P<years>\d\d)(?:th|st|nd|rd) birthday) (?P<near>today|tomorrow"
    r"|yesterday"
    r"|(?:two|three|four|five|six|\d) days ago|in (?:two|three|four|five|six|\d) days)\b"
    r"|(?P<first>today|tomorrow|yesterday)(?: is| was|'s) my (?:(?P<nth>\d\d)(?:th|st|nd|rd) )?(?:birthday|bday)\b"
)
DAY_IS_BIRTHDAY = re.compile(
    rf"(?:{DATE.pattern})(?: is|'s|,? that's|, which is) (?:my (?:birthday|bday)\b|when i was born\b)"
)


def day_is_birthday(said: Said, match: Match) -> Drafts:
    """'November 2 is my birthday'."""
    day = None if match["near"] else day_of(match)
    if day:
        yield said.fact("birthday", Value(day, *match.span()), 0.88)


_BIRTH_YEAR = re.compile(r"(?:in )?(?P<year>(?:19|20)\d\d)\b")


def birthday(said: Said, match: Match) -> Drafts:
    """'My birthday is March 3': the day, in ISO form if the year is given."""
    low = said.clause.low
    if match.re is BIRTHDAY_TODAY:
        near = match["near"] or match["first"]
        if day := _near_day(near, said.at):
            yield said.fact("birthday", Value(day, match.start(), match.end()), 0.9)
        years = "years" if match["years"] else "nth"
        if match[years] and near in ("today", "yesterday"):
            yield said.fact("age", Value(match[years], *match.span(years)), 0.85)
        return
    found = DATE.match(low, match.end())
    if found is None:
        year = _BIRTH_YEAR.match(low, match.end())
        month = _ONLY_MONTH.match(low, match.end())
        if month and match.re is BIRTHDAY and " in " in match.group():
            name = next(name for name in MONTHS if name.startswith(month["month"][:3]))
            yield said.fact("birthday", Value(name.capitalize(), *month.span()), 0.85)
        if year and match.re is BORN_ON:
            yield said.fact("birthday", Value(year["year"], *year.span("year")), 0.85)
            yield from _born_there(said, year.end())
        return
    text = _near_day(found["near"], said.at) if found["near"] else day_of(found)
    if text:
        yield said.fact("birthday", Value(text, *found.span()), 0.92)
    if match.re is BORN_ON:
        yield from _born_there(said, found.end())


_BORN_THERE = re.compile(r" (?:in|at) ")


def _born_there(said: Said, at: int) -> Drafts:
    """'I was born in 1991 in Cork'."""
    joint = _BORN_THERE.match(said.clause.low, at)
    place = listed_place(said.clause, joint.end()) if joint else None
    if place:
        yield said.fact("hometown", place.value, 0.8)


_SHIFTS = {"today": 0, "tomorrow": 1, "yesterday": -1}
_COUNTS = ("no", "one", "two", "three", "four", "five", "six")


def _near_day(near: str, at: int) -> str:
    """The date of a day named relative to the message: "yesterday", "two days ago", "last Sunday"."""
    now, word = as_datetime(at), near.rsplit(maxsplit=1)[-1]
    if word in DAYS:
        day = now - timedelta(days=(now.weekday() - DAYS.index(word) - 1) % 7 + 1)
    elif near in _SHIFTS:
        day = now + timedelta(days=_SHIFTS[near])
    else:
        count = next(part for part in near.split() if part in _COUNTS or part.isdigit())
        days = int(count) if count.isdigit() else _COUNTS.index(count)
        day = now + timedelta(days=-days if word == "ago" else days)
    return _day_name(day)


def _day_name(day: datetime) -> str:
    return f"{MONTHS[day.month - 1].capitalize()} {day.day}"


def day_of(found: Match) -> str | None:
    if found["iso"]:
        text, form = found["iso"], "%Y-%m-%d"
    else:
        month = next(
            i for i, name in enumerate(MONTHS, 1) if name.startswith((found["month"] or found["month_last"])[:3])
        )
        text, form = f"{found['year'] or 2000}-{month}-{found['day'] or found['day_first']}", "%Y-%m-%d"
    try:
        day = datetime.strptime(text, form)
    except ValueError:
        return None  # no calendar has that day
    if found["iso"] or found["year"]:
        return day.date().isoformat()
    return f"{MONTHS[day.month - 1].capitalize()} {day.day}"
