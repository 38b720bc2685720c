"""Whom a question of the assistant is about: a bare "nuts" is only the user's own if the user was asked.

People who work for others answer for a customer, a guest or a patient, and people who order for others answer for
their mother. What is asked about somebody else, and what is answered for them, teaches nothing about the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.enrich.clauses import Clause
from recollect.enrich.health import allergen
from recollect.enrich.names import FIRST_NAMES, NAMES_AND_WORDS
from recollect.enrich.people import TOLD_OF
from recollect.enrich.values import Value
from recollect.enrich.vocabulary import ALLERGEN_WORDS, ANSWERED_ALLERGENS, MEDICATIONS, NOT_EATEN

_SERVED = (
    r"(?:(?:grand)?child|kid|baby|toddler|guest|visitor|customer|client|shopper|buyer|caller|recipient|addressee|giftee"
    r"|patient|resident|passenger|travell?er|tenant|lodger|student|pupil|participant|attendee|delegate|speaker|member"
    r"|employee|applicant|candidate|contact|family|household|group|party|crew|company|class|couple|bride|groom"
    r"|lady|gentleman|woman|man|person|people|folks|relative|ex|other half|spouse|owner|carer|neighbou?r|teacher|boss)"
)
_ANYBODY = (
    r"(?:any|some|every)(?:one|body)|others?|you (?:both|two|three|four|all|guys|lot)|(?:both|all|any|either|some|each"
    r"|one|two|three|four|\d) of (?:you|them|us)"
)
_THEM = r"(?:he|she|they|his|her|hers|him|their|theirs|he's|she's|they're|himself|herself|themselves|(?:for|of) them)"
_ANOTHER = re.compile(rf"\b(?:{_THEM}|{_ANYBODY}|{_SERVED}(?:s|ren)?)\b")
"""Somebody else than the user, as a question names them: "does she", "the customer's", "anyone in your party"."""
_NAMED = re.compile(r"(?P<name>[^\W\d_][\w'’-]+?)(?:['’]s)?(?![\w'’-])")
_IS_ASKED_OF = re.compile(r"\b(?:does|has|is|did) (?!there\b|it\b|that\b|this\b|any|what\b|your? )[a-z]")
"""A question about a third person, whoever that is: "does Tom have any allergies"."""
_KNOWN_OF = re.compile(r"\b(?:know|say|sure|tell me|heard?|find out|check) (?:if|whether|of any|about any)\b")
_ALSO_ASKED = re.compile(
    r"\b(?:(?:or|and) (?:any )?(?:pets?|dogs?|cats?|kids|children|siblings|brothers|sisters|animals)"
    r"|an? (?:dog|cat|puppy|kitten|pet|rabbit|hamster|bird|horse))\b"
)
"""Whom else it is asked for, not about: "any pets or kids", "you have a dog! Any other pets"."""


def is_of_another(question: str) -> bool:
    """Whether a question, in lower case, asks about somebody else: "does your mother have any allergies"."""
    told = _ALSO_ASKED.sub("", question)
    return any(sign.search(told) for sign in (_ANOTHER, TOLD_OF, _IS_ASKED_OF, _KNOWN_OF))


_OWN = re.compile(r"\b(?:you|your (?:(?:food|own|current|usual|main|known) )*(?:allerg|diet))")
_ELLIPTIC = re.compile(
    r"(?:.{0,40}[,:–—-] |.{0,20}\b(?:and|so|also|ok|okay|what|which) )?(?:any|what|which|any other) (?:[a-z-]+ ){0,3}?"
    r"(?:allerg(?:y|ies)|diet|dietary [a-z]+)"
    r"(?:,? (?:or|and|/) (?:[a-z-]+ ){0,3}[a-z-]+)?"
    r"(?: (?:that |which )?(?:(?:i|we|the (?:kitchen|chef|cook|restaurant|staff|host)) (?:should|must|need to|have to"
    r"|ought to)(?: (?:know|be (?:aware|careful|told)|consider|avoid|watch|note|mind|remember|(?:bear|keep) in mind))*"
    r"(?: (?:of|about|for|with|out|here))*"
    r"|to (?:note|consider|mention|declare|report|flag|avoid|share|be aware of|know (?:of|about)|watch out for|work"
    r" around|keep in mind)|worth (?:noting|knowing|mentioning)(?: about)?))?"
    r"(?:,? (?:at all|so far|by the way|please|then|though|today|first|too|as well))*\W*"
)
"""A question that leaves out whom it asks, and can only mean whoever is there: "any allergies I should know of"."""
_BEFORE = re.compile(
    rf"\b(?:he|she|his|her|hers|him|he's|she's|(?:for|to|about) them)\b|\b(?:your|the|this|that|their|a|an|our|another"
    rf"|new|each|every|some) (?:[\w'-]+ ){{0,2}}?(?:{_SERVED}|gift|present|hamper)(?:s|ren)?\b"
    rf"|\b(?:your|the|this|that|a) (?:[\w'-]+ ){{0,2}}?{TOLD_OF.pattern}"
)
_FOR_NAMED = re.compile(r"\b(?:for|about|with|on|of) (?:mr |mrs |ms |dr )?(?P<name>[a-z'-]+)\b")


def asks_user(question: str, before: str) -> bool:
    """Whether a question about allergies or a diet that does not say "you" still asks the user.

    `before` is what the assistant said before it: "Got it, for your mum. Any allergies?" asks about her.
    """
    if _OWN.search(question):
        return True
    return _ELLIPTIC.fullmatch(question.strip()) is not None and not tells_of_another(before)


_FORM = re.compile(
    rf"\b(?:file|form|record|profile|account|entry|card|booking|order|reservation|page|ticket)s? (?:for|of|about|on)"
    rf" (?:the|your|a|an|this|our|that) (?:[\w-]+ ){{0,2}}?(?:{_SERVED}\b|{TOLD_OF.pattern})"
    rf"|\b(?:the|your|this|a|new) (?:new )?(?:{_SERVED})(?:'s)? (?:file|form|record|profile|account|entry|card"
    r"|details)\b|\b(?:for|about) (?:the|your|a|this) (?:new|next|first|other) (?:customer|client|patient|guest|tenant"
    r"|applicant)\b"
)


def fills_in_a_form(before: str) -> bool:
    """Whether what was said before a question opens a form about somebody else: "a file for a new customer"."""
    return _FORM.search(before) is not None


def tells_of_another(before: str) -> bool:
    """Whether the talk just before a question, in lower case, was about somebody else."""
    if _BEFORE.search(_ALSO_ASKED.sub("", before)):
        return True
    return any(_is_first_name(match["name"]) for match in _FOR_NAMED.finditer(before))


def _is_first_name(word: str) -> bool:
    return word in FIRST_NAMES and word not in NAMES_AND_WORDS


# ── Replies ──────────────────────────────────────────────────────────────────────────────────────

EVADED = re.compile(
    r"(?:(?:well|oh|um|uh|ok|okay|sorry|please|just|i'd|i'll|i will|you can|can you|better|as|it's|its|it is)\W+)*"
    r"(?:ask|refer|let me|let's|leave|same|the (?:same|usual)|(?:see|check|look)(?: (?:at|in|up|back|with|it|above"
    r"|below|my|the|your|our|last|previous|notes?|files?|orders?|form|attached|again)\b|\W*\Z)"
    r"|as (?:above|before|ever|usual|always|last|noted|discussed|stated)|above|below|earlier|later|tba|tbc|tbd"
    r"|tell you|get back|come back|call me|wait|hold on|hang on"
    r"|(?:an? |my |the )?(?:gift|present|order|ticket|case|booking|ref(?:erence)?|invoice|account)\b(?= ?#?\d|\W*\Z)"
    r"|(?:the |a |my |our )?(?:customer|client|guest|patient|caller|recipient)s?"
    r"(?=(?: (?:said|says|say|has|have|is|told|mentioned|wrote|wants)\b|'s|[:,;]| -|\W*\Z)))"
    r"(?![\w'’])"
)
"""A reply that answers nothing, or not for the user: "ask my mum", "see above", "customer said latex"."""
_ANSWERED_FOR = re.compile(rf"\b(?:{_THEM}|{_ANYBODY}|{_SERVED}(?:s|ren)?)\b")


def answers_for_another(text: str, low: str, values: Sequence[Value]) -> bool:
    """Whether a reply names somebody beside what it lists: "nuts (my son)", "Tom: nuts", "hers: cats"."""
    rest, rest_low, last = "", "", 0
    for value in values:
        rest, rest_low = rest + text[last : value.first] + "\x00", rest_low + low[last : value.first] + "\x00"
        last = value.last
    rest, rest_low = rest + text[last:], rest_low + low[last:]
    if _ANSWERED_FOR.search(rest_low) or TOLD_OF.search(rest_low):
        return True
    return any(_is_first_name(match["name"].lower()) for match in _NAMED.finditer(rest))


_ENDS_OF_ALLERGEN = re.compile(
    r"(?:[a-z-]+ ){0,2}?(?:nuts?|seeds?|pollens?|dander|fur|hair|feathers?|venom|stings?|bites?|mites?|mou?ld|spores?"
    r"|milk|cheese|proteins?|flour|dyes?|preservatives?|sulphites|sulfites|sulphates|sulfates|antibiotics|oils?|perfumes?"
    r"|fragrances?|cosmetics|plasters|adhesives?|latex|shellfish|fish|products|fruits?|vegetables|nickel|wool|fever"
    r"|medicine|medication|[a-z]+(?:cillin|mycin|cycline|floxacin|caine|profen|sporin|sulfa|azole|codone|morphine))"
)
"""What ends an unlisted allergen: "brazil nuts", "hazel pollen", "doxycycline"."""
_SMALL = re.compile(
    r"(?:(?:all|any|some|raw|cooked|fresh|cow's|cows'|goat's|most|certain|severe(?:ly)?|tree|red|white|dried"
    r"|house|animal) )+"
)


def plain_allergen(clause: Clause, at: int) -> Value | None:
    """An allergen in a reply that is nothing but a list: a known one, since "Order 123" and "mondays" are said too."""
    found = allergen(clause, at)
    low = found.text.lower().rstrip(".") if found else ""
    small = _SMALL.match(low)
    for name in (low, low[small.end() :] if small else low):
        if name in ALLERGEN_WORDS or name in ANSWERED_ALLERGENS or name in NOT_EATEN or name in MEDICATIONS:
            return found
    return found if found and _ENDS_OF_ALLERGEN.fullmatch(low) else None
