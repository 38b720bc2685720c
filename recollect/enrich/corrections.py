"""How the user replies to an answer: corrections, and short answers to the assistant's questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from recollect.enrich import ANSWER_MAX, Draft
from recollect.enrich.asked import (
    EVADED,
    answers_for_another,
    asks_user,
    fills_in_a_form,
    is_of_another,
    plain_allergen,
    tells_of_another,
)
from recollect.enrich.clauses import Clause
from recollect.enrich.identity import DATE, day_of
from recollect.enrich.interests import activity
from recollect.enrich.languages import is_foreign_reply
from recollect.enrich.livelihood import role_at
from recollect.enrich.names import LANGUAGES, PROGRAMMING_LANGUAGES
from recollect.enrich.people import ANY_RELATION, HAVE, KEY_OF_RELATION, have
from recollect.enrich.repairs import is_repaired
from recollect.enrich.sentences import Sentence, lowered
from recollect.enrich.values import Said, Value, in_table, known, listed, organisation, person, places
from recollect.enrich.vocabulary import DIETS
from recollect.policies.keys import key_of

QUESTION_MAX = 400
"""Characters at the end of an answer that are searched for its question."""

# ── Corrections ──────────────────────────────────────────────────────────────────────────────────

_DENIES = (
    r"(?:no|nope|nah|sorry|oops|wait|hmm+|hm|ah|oh|actually|not quite|my bad|well|um|uh|ok|okay|but|err|whoops"
    r"|correction)"
)
_DENIED = re.compile(rf"(?:{_DENIES}[\s,.!:…-]{{1,4}}){{1,4}}")
_STARTS_A_CLAUSE = (
    r"(?:i|i'm|im|i'd|i'll|i've|it|it's|its|you|you're|he|he's|she|she's|we|we're|they|that|that's|this|there|what"
    r"|who|how|why|if|when|come on|of course|okay|ok|honestly|really|seriously|yes|no|sure|well|congratulations|like"
    r"|wow|thanks|every|each|all)\b"
)
_MEANT = re.compile(
    rf"(?:i (?:actually |really |just |obviously )?(?:meant(?! (?:every|each|all)\b)|mean(?!,)(?! {_STARTS_A_CLAUSE})"
    rf"|said(?! (?:{_STARTS_A_CLAUSE}|\x00))(?= [^.!?\x00]{{1,40}},? not )|was (?:asking|talking) about"
    r"|was referring to)|what i meant (?:was|is))(?: to say| was)?(?! (?:to(?! (?:the|my|our|an?)\b)|it|well|no"
    r"|business"
    r"|that as|for(?! (?:the|my|our|an?|\d+)\b)|everything|what i said)\b)[\s:,]+(?P<what>\S.{0,158})"
)
"""'I mean' in passing means nothing: "I mean, it's your life". With a thing after it, it puts right: "I mean Bern"."""
_NOT_BUT_MEANT = re.compile(
    r"not (?!(?:really|sure|quite|bad|at all|yet|now)\b)[^.!?\x00]{2,40}?,? (?:but )?(?:i|what i) (?:meant"
    r"|said)(?: was)?"
    rf"(?! {_STARTS_A_CLAUSE})[\s:,]+(?P<what>\S.{{0,158}})"
)
"""'No, not the yellow one, I meant the red one'."""
_OF_WHAT = r"(?:to|for|in|on|at|from|with|by|the|my|your|this|that|each|every|\d[\w:.]*)"
_NO_THING = (
    r"(?:(?:really|honest|certain|definite|absolute|probab|actual|necessari|exact)\w*|thanks?|maybe|yet|now|sure|quite"
    r"|why|just|only|so|today|good|bad|great|fine|ok|okay|too|also|much|anymore|ever)"
)
_NO_VERB = (
    r"(?!.*\b(?:is|isn't|are|was|were|do|does|did|can|could|will|would|has|have|had|should|must|am|i'm|i've|it|it's|he|she"
    r"|we|they|you|point|mood|problem|thing|way|case|idea)\b)"
)
"""What is put right is a thing or a time; with a verb it is a sentence that says no: "no, the shop is not open"."""
_THIS_NOT_THAT = re.compile(
    r"(?:not (?P<first>to|for|in|on|at|from|with|by|the|my) (?!(?:the |my )?(?:mood|problem|point|thing|case|way|fault"
    r"|business|idea|plan)\b)[^,.!?\x00]{2,40}, (?:but )?(?=(?P=first) ))?(?P<what>"
    rf"(?(first){_NO_VERB}(?!.*\bi\b)[^.!?\x00]{{2,100}}"
    r"|(?:i (?:need|want|needed|wanted|asked for) (?!to\b)[^.!?,\x00]{2,60}"
    rf"|{_NO_VERB}(?!.*\bi\b)(?:{_OF_WHAT} [^.!?,\x00]{{1,40}}"
    rf"|(?!{_NO_THING}\b)[\w'-]{{2,}}(?= not [\w'-]+[\s.!]*\Z))),? "
    rf"not (?:{_OF_WHAT}\b[^.!?,\x00]{{0,40}}|(?!{_NO_THING}\b)[\w'-]{{2,}})))[\s.!]*\Z"
)
"""'No, Thursday not Tuesday', 'no, not to the sender, to the receiver'."""
_NOT_ASKED = re.compile(
    r"(?:that's|thats|that is|this is|it's) not what i (?:asked|meant|wanted|said|was asking)(?: for"
    r"| about)?[\s,.!;:-]{1,4}(?:i (?:wanted|want|asked for|asked about|asked|meant|need|needed|was asking (?:about"
    r"|for)) (?P<what>\S.{0,158}))"
)
_WRONG = re.compile(
    r"(?:that's|thats|that is|this is|you're|you are|it's)(?: just| simply)? (?:wrong|incorrect|not right|not correct"
    r"|not true|a mistake|mistaken|false)[\s,.!;:-]{1,4}(?:because )?(?P<what>(?:it's|its|it is|the|there|he|she|they"
    r"|you|i|my|we|in|actually)\b.{0,158})"
)
_IT_IS = re.compile(
    r"(?:actually,? |no,? )?(?P<what>(?:it's|its|it is|it was|they're|that's|that was|she's|he's"
    r"|the \w+ is) (?:actually |really |called )?(?!not\b|ok|fine|good|great|all|just|me\b|too\b|a (?:good|bad)|so\b"
    r"|very|cool|nice|like\b|about\b|been|because|for\b|hard|my\b|that\b|what\b|why\b|how\b)\S.{0,118})"
)


_TAKES_BACK = re.compile(r"\A(?!.*\bbut\b).*\b(?:no|nope|actually|wait|correction|sorry)\b")
_OFFER = re.compile(
    r"\b(?:would you like|do you want|want me to|shall i|should i|can i|could i|may i|anything else|any other"
    r"|does (?:that"
    r"|this|it) (?:help|work|make sense|sound|look)|is (?:that|this) (?:right|correct|what|ok|okay|clear|better)|right"
    r"|correct|did i|do i|have i|am i)\b[^?]*\?\W*\Z"
)
"""A question about the answer itself, not about the user: a "no" to it may well correct the answer."""
_LAST_TWO = re.compile(r"(?:[^.!?\n]+[.!?\n]+\s*){0,2}[^.!?\n]*\Z")
_BEGINNING = 4
"""Characters before the first statement of a message that begins with it: a bullet, an emoji."""


def _was_asked(answered: str) -> bool:
    """Whether the answer ends with a question to the user: "No, it's a comedy" then answers, and corrects nothing."""
    end = answered[-QUESTION_MAX:]
    ends = _LAST_TWO.search(lowered(end)) if "?" in end else None
    return ends is not None and "?" in ends.group() and _OFFER.search(ends.group()) is None


def corrections(text: str, sentences: list[Sentence], answered: str, facts: Sequence[Draft]) -> Iterator[Draft]:
    """'No, I meant metric units' after an answer. Only the beginning of the message is read.

    A fact that contradicts the answer ("No, my name is Anna") is a correction as well. What is kept comes from the
    `text` as written: in the sentences quotes and code are blanked, and "I meant `retries`" would say nothing.
    """
    if not sentences or not answered or sentences[0].start > _BEGINNING:
        return
    start = sentences[0]
    joined = _joined(sentences[:3])
    denied = _DENIED.match(joined)
    at = denied.end() if denied else 0
    for pattern, lead, confidence in (
        (_NOT_ASKED, "the user wanted ", 0.85),
        (_MEANT, "the user meant ", 0.9),
        (_NOT_BUT_MEANT, "the user meant ", 0.85),
        (_WRONG, "", 0.8),
    ):
        if match := pattern.match(joined, at):
            yield _learned(text, sentences, start.start, match, lead, confidence)
            return
    # "No! That's magical" and "No. But she's poorly" take nothing back.
    takes_back = denied and _TAKES_BACK.search(denied.group()) and at < len(start.low)
    if takes_back and not _was_asked(answered) and (match := _IT_IS.match(joined, at)):
        yield _learned(text, sentences, start.start, match, "", 0.7)
        return
    fact = next((draft for draft in facts if draft.corrects), None)
    against = fact is not None and fact.instead_of and fact.instead_of.lower() in answered.lower()
    if fact is not None and (denied or against):
        yield Draft("learning", "correction", *_whole_correction(sentences, fact), data={"restates": fact.key})
        return
    marked = takes_back and denied and _MARKED.search(denied.group()) and not _was_asked(answered)
    if marked and (match := _THIS_NOT_THAT.match(start.low, at)):
        lead = "" if match["what"].startswith("i ") else "the user meant "
        yield _learned(text, sentences, start.start, match, lead, 0.75)


_MARKED = re.compile(r"[,.!:]")
"""What sets "No, not that" apart from "no rush, not urgent"."""


def _whole_correction(sentences: list[Sentence], fact: Draft) -> tuple[str, float, tuple[int, int]]:
    """The correction in the user's words; a name alone would say nothing, so then it is the sentence around it."""
    span, text = fact.span, _as_written(sentences, *fact.span)
    if text.casefold() == fact.value.casefold():
        own = next(sentence for sentence in reversed(sentences) if sentence.start <= span[0])
        denied = _DENIED.match(own.low)
        first = denied.end() if denied else 0
        span, text = (own.start + first, own.start + len(own.text)), own.text[first:]
    return text, 0.8, span


_NAME_RIGHT = re.compile(
    r"(?:it's|its|it is|that's|i'm|the name is|the name's)(?: actually| really| spelled"
    r"| spelt)? (?P<new>[^\W\d_][\w'’-]+)(?: (?:with|without) .{1,20}?)?,? (?:not|instead of"
    r"|rather than) (?P<old>[^\W\d_][\w'’-]+)\W*\Z"
)
_OF_SOMEONE = re.compile(
    r"\byour (?:\w+ )?(?:sister|brother|mother|mom|mum|father|dad|son|daughter|wife|husband|partner|friend"
    r"|boss|dog|cat|girlfriend|boyfriend|cousin|aunt|uncle|niece|nephew)\b"
)
ALIKE = 0.6
"""How similar two names must be for one to count as a misspelling of the other: Ana and Anna, Jon and John."""


def names_put_right(sentences: list[Sentence], answered: str) -> Iterator[Draft]:
    """'Actually it's Anna, not Ana': the user's own name, unless somebody else's is meant."""
    for sentence in sentences:
        denied = _DENIED.match(sentence.low)
        match = _NAME_RIGHT.match(sentence.low, denied.end() if denied else 0)
        if match is None:
            continue
        clause = Clause(sentence.text, sentence.low, sentence.start, sentence.start)
        right, wrong = person(clause, match.start("new")), person(clause, match.start("old"))
        if right is None or wrong is None or _OF_SOMEONE.search(lowered(answered)):
            continue
        alike = SequenceMatcher(None, right.text.lower(), wrong.text.lower()).ratio() >= ALIKE
        used = re.search(rf"\b{re.escape(wrong.text)}\b", answered) is not None
        if alike and (used or not answered):
            span = clause.span(match.start(), match.end("old"))
            yield Draft("fact", "name", right.text, 0.8, span, corrects=True, instead_of=wrong.text)


_THEIR_NAME = re.compile(
    r"(?:(?:his|her|its|their|the) (?:(?P<kind>[a-z]+)'s )?name(?:'s|s| is| was)(?: actually| really)?|(?:he|she|it"
    r"|they)"
    r"(?:'s|'re| is| are) (?:actually |really )?(?:called|named)) (?P<new>[^\W\d_][\w'’-]+)(?: (?:with|without)"
    r" .{1,20}?)?(?:,| and)? (?:not|instead of|rather than) (?P<old>[^\W\d_][\w'’-]+)\W*\Z"
)


def other_names_put_right(sentences: list[Sentence], answered: str) -> Iterator[Draft]:
    """'No, his name is Rex, not Max' after an answer that says who Max is: "Your dog Max ..."."""
    for sentence in sentences if answered else ():
        denied = _DENIED.match(sentence.low)
        match = _THEIR_NAME.match(sentence.low, denied.end() if denied else 0)
        if match is None:
            continue
        clause = Clause(sentence.text, sentence.low, sentence.start, sentence.start)
        right, wrong = (person(clause, match.start(part), named=True) for part in ("new", "old"))
        if right is None or wrong is None:
            continue
        named = re.escape(wrong.text.lower())
        whose = re.compile(
            rf"\byour (?:[\w-]+ ){{0,2}}?(?P<first>{ANY_RELATION}),? (?:called |named )?{named}\b"
            rf"|\b{named}(?:,| is) your (?:[\w-]+ ){{0,2}}?(?P<second>{ANY_RELATION})\b"
        ).search(lowered(answered))
        if whose:
            relation = whose["first"] or whose["second"]
            span = clause.span(match.start(), match.end("old"))
            key = KEY_OF_RELATION[relation]
            yield Draft(
                "fact", key, right.text, 0.85, span, corrects=True, instead_of=wrong.text, data={"kind": relation}
            )


def _joined(sentences: list[Sentence]) -> str:
    """The first sentences as one text, each character at the same offset from the first as in the message."""
    first = sentences[0].start
    text = ""
    for sentence in sentences:
        if sentence.start - first - len(text) > 8:
            break
        text = text.ljust(sentence.start - first) + sentence.low
    return text


def _learned(
    text: str, sentences: list[Sentence], start: int, match: re.Match[str], lead: str, confidence: float
) -> Draft:
    """The correction in the user's own words, to the end of the sentence in which it is said."""
    first, last = (start + place for place in match.span("what"))
    last = first + len(_as_written(sentences, first, last))
    blanked = _BLANKED.search(match.string, match.start(), match.start("what"))
    if blanked and (code := text[start + blanked.start() : first].lstrip()):
        first -= len(code)
    words = " ".join(text[first:last].split()).rstrip(" ,;-")
    return Draft("learning", "correction", lead + words, confidence, (start + match.start(), last))


_BLANKED = re.compile(r"\s+\Z")
"""The room before a correction, in which there may have been code: "I meant `retries` not `timeout`"."""


def _as_written(sentences: list[Sentence], first: int, last: int) -> str:
    own = next(sentence for sentence in reversed(sentences) if sentence.start <= first)
    return own.text[first - own.start : last - own.start]


_NOT_THIS = re.compile(
    r"(?: (?!(?:i|i'm|i've|it|it's|he|she|we|they|and|but|is|was|that|which|who|so)\b)[\w'’-]+){0,4}?"
    r"[,;\s-]{1,4}(?:and )?(?:not|instead of|rather than) (?!(?:just|only|so|very|too|really|even|to|much|more|because"
    r"|sure|yet|exactly|always)\b)(?P<old>[\w'’-]+(?: [\w'’-]+){0,2})\W*\Z"
)
"""What a value is said instead of, right behind it: "my name is Anna, not Hannah"."""
_SAYS_NO = re.compile(r"(?:no|nope|correction|that's wrong|that's not right|wrong)\b[\s,.!:]")
_STILL_TRUE_ONCE = re.compile(r"\b(?:any ?more|now|used to|no longer|these days)\b")


DENIED_VALUE = re.compile(
    r"\b(?P<whose>my [\w' -]{1,30}?)(?: is(?: actually)? not|'s not| isn't|(?<=name) ain't) (?P<named>called |named )?"
    r"(?P<old>[\w'-]+(?: [\w'-]+){0,2}),? (?:(?:but )?(?:it's|its|it is|he's|she's)|but)(?: actually| really| now)? "
    r"(?:called |named )?(?!a |an |the |complicated|just|more|like|about|because|not|hard|also|both|so |too )"
    r"(?P<new>[\w'-]+(?: [\w'-]+){0,3})\W*\Z"
)
"""'My favourite food is not sushi, it's ramen'."""


def corrected(draft: Draft, sentence: Sentence) -> Draft:
    """The fact with the value it replaces: with 'my name is Anna, not Hannah' it was never Hannah."""
    if draft.layer != "fact" or draft.ends or _STILL_TRUE_ONCE.search(sentence.low):
        return draft
    begins, ends = (place - sentence.start for place in draft.span)
    if old := _NOT_THIS.match(sentence.low, ends):
        first, last = old.span("old")
        return replace(draft, corrects=True, instead_of=sentence.text[first:last])
    says_no, denied = _SAYS_NO.match(sentence.low), _DENIED.match(sentence.low)
    if says_no is None or begins > max(says_no.end(), denied.end() if denied else 0) + _BEGINNING:
        return draft
    return replace(draft, corrects=True)


# ── Short answers ────────────────────────────────────────────────────────────────────────────────

_QUESTIONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (key, re.compile(pattern))
    for key, pattern in (
        ("name",
            r"\bwhat(?:'s| is) your (?:first |full )?name\b|\bmay i (?:have|know|ask) your name\b"
            r"|\bwho am i (?:speaking|talking|chatting) (?:to|with)\b|\bcan i (?:get|have) your name\b"
            r"|\b(?:confirm|tell me|give me|have|get|share) your (?:full |first )?name\b|\byour (?:full |first )?name"
            r"(?:,? please)?\W*\Z"),
        ("nickname", r"\bwhat (?:should|can|may|do) i call you\b|\bhow should i (?:address|call) you\b"),
        ("city",
            r"\bwhere (?:do you|are you) (?:live|living|based|located|currently living|currently based)\b|\b(?:what"
            r"|which) (?:city|town) (?:do you live|are you)\b|\bwhere are you\W*\Z"),
        ("hometown", r"\bwhere are you (?:originally )?from\b|\bwhere did you grow up\b"),
        ("age", r"\bhow old are you\b|\bwhat(?:'s| is) your age\b|\byour age\W*\Z"),
        ("occupation",
            r"\bwhat do you do(?: for (?:a living|work))?\W*\Z|\bwhat(?:'s| is) your (?:job|occupation|profession)\b"
            r"|\bwhat kind of work do you do\b"),
        ("employer", r"\bwhere do you work\b|\bwho do you work for\b|\bwhich company do you work\b"),
        ("birthday",
            r"\bwhen(?:'s| is) your birthday\b|\bwhen were you born\b|\bwhat(?:'s| is) your (?:birthday"
            r"|date of birth)\b"),
        ("allergy",
            r"\b(?:any|have|what|which)\b[^?]{0,30}\ballerg(?:y|ies)\b|\bare you allergic to (?:anything|any)\b"
            r"|\bwhat are you allergic to\b"),
        ("language", r"\b(?:what|which) languages? do you speak\b"),
        ("programming_language",
            r"\b(?:what|which) (?:programming |coding )?languages? do you (?:use|code|program|prefer|work|know"
            r"|write)\b"),
        ("hobby",
            r"\bwhat are your hobbies\b|\bwhat do you (?:like to |enjoy )?do(?:ing)? (?:for fun|in your (?:free"
            r"|spare) time)\b"),
        ("diet", r"\b(?:any|do you (?:have|follow)|what)\b[^?]{0,30}\b(?:diet|dietary)\b"),
        ("favorite", r"\bwhat(?:'s| is| are) your (?:all[- ]time )?favou?rite (?P<what>[a-z]+(?: [a-z]+)?)\W*\Z"),
    )
)  # fmt: skip
_ASKED_FOR_OTHERS = ("allergy", "diet")
"""What whoever cooks, sells or books for somebody else is asked as well."""
_NOT_ASKED_OF_USER = re.compile(
    r"\b(?:character|would|could(?! you (?:please )?(?:confirm|tell|give|share)\b)|hero|if you|brand|company's"
    r"|imagine|story)\b"
)
_LEAD = re.compile(
    r"(?:(?:oh|well|um|uh|hmm|yes|yeah|yep|sure|ok|so|it's|its|it is|that's|that'd be|i'm|im|i am|my name is"
    r"|i live in|in|from|just|only|probably not|about|around|on|a|an|the|definitely|mainly|mostly|i speak|i use"
    r"|i work (?:at|for)|at|for|i'm from|i'm allergic to|to|i like|i love|i was born (?:on|in)|born"
    r"|currently)\b[\s,:]{1,3}){0,5}"
)
_REFUSED = re.compile(
    r"\b(?:no|nope|none|nothing|nah|never|not|why|what|who|how|rather|prefer|don't|dont|do not|can't|cannot|secret"
    r"|business|guess|depends|idk|dunno|skip|pass|unknown|private|anything|whatever|many|lots|several|all|n/a|na"
    r"|maybe|doesn't matter|you|yours?|mine|hers|theirs|these|those|this one|that one"
    r"|thanks|hi|hello|stop|hmm|help|old enough|everything)\b"
)
_THANKED = re.compile(r"[\s,.!–-]+(?:many )?(?:thanks|thank you|thx|cheers)[\s.!]*\Z")
_SOMEBODYS = re.compile(
    r"\b(?:[Tt]hat|[Tt]hose|[Ii]t|[Tt]hey)(?:['’]s|['’]re| is| are)(?: just| only)?(?: for)?"
    r" [A-Z][a-z]+(?:['’]s)?\W*\Z"
)
"""It is somebody else's, by a name that need not be known: "kiwi, but that's Juno"."""
_AFTER = re.compile(
    r"[\s\x00]*(?:[.!,;…)]|\Z|[^\w\s]|(?:but|and you|why|hbu|how about you|what about you|btw|lol|haha|because|since"
    r"|thanks|now|at the moment|as|please|though|by the way|of course|obviously)\b)"
)


_AND_MORE = re.compile(r"\s(?:and|or|&|\+|with)\s")
"""A list that goes on with something else than an allergen is none: "fish and chips"."""


def _one(read: Callable[[Clause, int], Value | None]) -> Callable[[Said, int], list[Value]]:
    return lambda said, at: [value] if (value := read(said.clause, at)) else []


def _several(read: Callable[[Clause, int], Value | None]) -> Callable[[Said, int], list[Value]]:
    return lambda said, at: list(listed(said.clause, at, read))


def _place(clause: Clause, at: int) -> Value | None:
    return next((place.value for place in places(clause, at)), None)


_YEARS = re.compile(r"\d{1,3}\b")


def _years(clause: Clause, at: int) -> Value | None:
    match = _YEARS.match(clause.low, at)
    return Value(match.group(), *match.span()) if match and 3 <= int(match.group()) <= 110 else None


def _birthday(clause: Clause, at: int) -> Value | None:
    match = DATE.match(clause.low, at)
    text = day_of(match) if match and not match["near"] else None
    return Value(text, *match.span()) if match and text else None


_FEW_WORDS = re.compile(r"[\w'’&-]+(?: [\w'’&-]+){0,4}")


def _words(clause: Clause, at: int) -> Value | None:
    match = _FEW_WORDS.match(clause.text, at)
    return Value(match.group(), *match.span()) if match else None


_READERS: dict[str, Callable[[Said, int], list[Value]]] = {
    # In lower case only well-known names count: "hm" and "later" are answers too.
    "name": _one(person),
    "nickname": _one(person),
    "city": _one(_place),
    "hometown": _one(_place),
    "age": _one(_years),
    "occupation": lambda said, at: [value] if (value := role_at(said, at)) else [],
    "employer": _one(organisation),
    "birthday": _one(_birthday),
    "allergy": _several(plain_allergen),
    "language": _several(in_table(LANGUAGES)),
    "programming_language": _several(in_table(PROGRAMMING_LANGUAGES)),
    "hobby": _several(activity),
    "diet": _one(lambda clause, at: known(DIETS, clause, at)),
    "favorite": _one(_words),
}


def short_answers(text: str, at: int, answered: str) -> Iterator[Draft]:
    """'Oslo, why?' after 'Where do you live?'. Only a message that is nothing but an answer."""
    asked = _asked(answered) if answered and len(text) <= ANSWER_MAX else None
    if asked is None:
        return
    low = lowered(text)
    lead = _LEAD.match(low)
    begins = lead.end() if lead else 0
    own = _THANKED.sub("", re.split(r"[?\n]|, (?:why|and you|what about|how about)", low, maxsplit=1)[0])
    if _REFUSED.search(own) or EVADED.match(own) or is_repaired(own) or not own.strip() or is_foreign_reply(text, low):
        return
    said = Said(Clause(text, low, 0, 0), "answer", begins, at)
    key, what = asked
    values = _READERS[key](said, begins)
    if key in _ASKED_FOR_OTHERS and (_SOMEBODYS.search(text) or answers_for_another(text, low, values)):
        return
    if key == "allergy" and values and _AND_MORE.match(low, values[-1].last):
        return
    for value in values:
        if not _AFTER.match(low, value.last) and not re.match(r"\s(?:and|or|&)\s", low[value.last :]):
            return
        name = key_of(f"favorite {what}").name if key == "favorite" else key
        yield Draft("fact", name, value.text, 0.85, (0, value.last))


_HAVE_ASKED = re.compile(
    r"\b(?:do you have|have you got|any) (?:any |a |other )?(?P<what>pets?|dogs?|cats?|kids|children|siblings"
    r"|brothers|sisters|animals)\b[^?]{0,30}\Z"
)
_YES = re.compile(r"(?:(?:yes|yeah|yep|yup|sure|i do|we do|indeed|just)\b[\s,.!-]{1,3}){1,3}")


def answered_yes(text: str, at: int, answered: str) -> Iterator[Draft]:
    """'Yes, a cat named Olive' after 'Do you have any pets?'."""
    end = lowered(answered[-QUESTION_MAX:]).rstrip()
    asked = _HAVE_ASKED.search(end[:-1]) if len(text) <= ANSWER_MAX and end.endswith("?") else None
    if asked is None:
        return
    before, question = _last_question(end[: asked.start()])
    if is_of_another(question) or is_of_another(end[asked.end("what") : -1]):
        return
    if "you" not in asked.group() + question and tells_of_another(before):
        return
    low = lowered(text)
    yes = _YES.match(low)
    begins = yes.end() if yes else 0
    lead = "I have "
    clause = Clause(lead + text[begins:], lead.lower() + low[begins:], begins - len(lead), begins)
    if match := HAVE.match(clause.low, len("I ")):
        yield from have(Said(clause, "do", len("I "), at), match)


_TOLD_OF_USER = re.compile(
    r"(?:\A|[.!?\n]\s)(?:(?:ok|okay|so|and|ah|oh|great|noted|got it|i see|right|sure|thanks|do|are|is it that"
    r"|i remember"
    r"|i noted|i'll remember)(?: that)?[\s,:!-]{1,3}){0,3}(?P<told>(?:your? |you're )[^.!?\n]{3,60}?)"
    r"(?:, (?:right|correct|yes|no|don't you|aren't you))?[.!?\s]*\Z"
)
_OTHERWISE = re.compile(
    r"(?:no|nope|nah|wrong|not quite)\b[\s,.!-]{1,4}(?:(?:it's|its|it is|that's|actually|in)\b[\s,]{1,2}){0,2}"
    r"(?P<value>[^\s,.!?]+(?: [^\s,.!?]+){0,2})(?=[\s.!]*\Z)"
)
_OF_ONESELF = (("you're ", "I'm "), ("you are ", "I am "), ("your ", "my "), ("you ", "I "))


def said_otherwise(text: str, answered: str) -> tuple[str, re.Match[str]] | None:
    """'No, Basel' after 'you live in Bern': what was said about the user, in their first person, and their reply."""
    told = _TOLD_OF_USER.search(lowered(answered[-QUESTION_MAX:]).rstrip()) if len(text) <= ANSWER_MAX else None
    other = _OTHERWISE.match(lowered(text))
    if told is None or other is None or is_foreign_reply(text, lowered(text)):
        return None
    as_written = answered[-QUESTION_MAX:][slice(*told.span("told"))]
    for theirs, ours in _OF_ONESELF:
        if told["told"].startswith(theirs):
            return ours + as_written[len(theirs) :], other
    return None


def _asked(answered: str) -> tuple[str, str] | None:
    """The key that the last question of an answer asks for, and for a favourite also the thing."""
    low = lowered(answered[-QUESTION_MAX:]).rstrip()
    if not low.endswith("?"):
        return None
    before, question = _last_question(low[:-1])
    if _NOT_ASKED_OF_USER.search(question) or fills_in_a_form(before):
        return None
    for key, pattern in _QUESTIONS:
        if match := pattern.search(question):
            if key in _ASKED_FOR_OTHERS and (is_of_another(question) or not asks_user(question, before)):
                return None
            return key, match.groupdict().get("what") or ""
    return None


_OVER = re.compile(r"[.!?\n]\s")


def _last_question(low: str) -> tuple[str, str]:
    """What is said before the last sentence, and that sentence."""
    begins = max((stop.end() for stop in _OVER.finditer(low)), default=0)
    return low[:begins], low[begins:]
