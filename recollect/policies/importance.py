"""How much a message matters, from 0 to 1, by a formula that can be read and explained.

    importance = kind + role + specificity + feeling + duty + emphasis + repetition + feedback

*Kind* is the strongest kind of statement in the text; every other part is a small addition or
deduction. All weights stand in one table, and the sum is cut off at 0 and 1. The words are
English; text in other languages still has its numbers, names, emphasis, repetition and feedback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

TEXT_MAX = 4_000
"""Characters that are looked at. What a message is about is said early, and time stays bounded."""

REPEATED_MAX = 4
"""Repetitions that count. A fifth one adds nothing but noise."""

WEIGHTS: dict[str, tuple[float, str]] = {
    # kind of statement: the strongest one counts
    "decision": (0.55, "what was decided shapes what comes after"),
    "identity": (0.50, "who the user is, their people, home, work and health"),
    "preference": (0.50, "how the user likes things"),
    "obligation": (0.45, "what someone has to do, or by when"),
    "personal": (0.35, "something the user says about themselves"),
    "statement": (0.25, "any other statement"),
    "question": (0.20, "it asks for something and tells little"),
    "small talk": (0.05, "greetings and thanks tell nothing"),
    # who said it
    "user": (0.05, "the user knows best about the user"),
    "assistant": (-0.10, "an answer can be made again"),
    "system": (0.00, "instructions are given anew each time"),
    "tool": (-0.15, "tool output is bulky and goes stale"),
    # specificity
    "number": (0.04, "an amount cannot be guessed"),
    "date": (0.06, "a time cannot be guessed and is asked for later"),
    "name": (0.06, "a name ties a memory to someone or something"),
    "unit": (0.04, "a measured amount is a hard fact"),
    # feeling and duty
    "feeling": (0.08, "people remember what moved them"),
    "duty": (0.06, "words of obligation beside a stronger kind of statement"),
    # emphasis of the user
    "emphasis": (0.20, "the user asked to remember it"),
    "exclamation": (0.02, "said with force"),
    "capitals": (0.03, "written with force"),
    # what happened since
    "repetition": (0.05, "for each time that it was said before"),
    "feedback": (0.20, "the user said that it was useful (+1) or wrong (-1)"),
}
"""Every part of the formula: its weight and the reason for it."""

_KINDS = ("decision", "identity", "preference", "obligation", "personal", "statement", "question", "small talk")


def _words(text: str) -> re.Pattern[str]:
    """Any of these words or phrases, as whole words. Plain alternatives cannot be slow."""
    return re.compile(rf"\b(?:{text})\b")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OFTEN = r"(?: (?:really|also|just|always|usually|absolutely|generally|never|would|do|still|strongly|much))?"
_CUES: dict[str, re.Pattern[str]] = {
    "decision": _words(
        r"(?:i|we)(?:'ve| have| just| finally)? (?:decided|agreed|chose|chosen|picked|settled on|opted|booked|bought"
        r"|ordered|signed|cancelled|canceled|confirmed|accepted|quit|resigned)|(?:i|we)(?:'ll| will) (?:use|take"
        r"|go with|choose|pick|keep)|let's (?:go with|use|do|take|pick|keep|stick)|going with|went with|the plan is"
        r"|(?:decision|choice) is|from now on|final answer"
    ),
    "identity": _words(
        r"my (?:full |first |last )?name|call me|i'm called|i am called|i(?: still| now)? live|i(?: still| now)? work"
        r"|i'm from|i am from|i moved|i grew up|i was born|i study|i studied|my birthday|i'm married|i'm allergic"
        r"|i am allergic|allergic to|diagnosed|my (?:wife|husband|partner|girlfriend|boyfriend|fiancee?|son|daughter"
        r"|kids|children|mother|mom|mum|father|dad|parents|sister|brother|dog|cat|pet|boss|job|company|address|phone"
        r"|email|hometown|degree|doctor)(?:'s)?|years old|my pronouns"
    ),
    "preference": _words(
        rf"(?:i|we){_OFTEN} (?:like|love|prefer|hate|dislike|enjoy|want|adore|avoid|can't stand)"
        r"|(?:don't|do not|can't|won't|never) (?:like|want|eat|drink|use|enjoy)|favou?rites?|i'd rather|i would rather"
        r"|preference|i'm (?:into|a fan|vegan|vegetarian)|i am (?:vegan|vegetarian)|instead of|fan of"
    ),
    "obligation": _words(
        r"must|have to|has to|need to|needs to|should|ought to|required|deadline|due|promised?|remind me|make sure"
        r"|appointment|supposed to|obliged|by (?:tomorrow|tonight|monday|tuesday|wednesday|thursday|friday|saturday"
        r"|sunday|noon)|(?:i|we)(?:'ll| will)"
    ),
    "personal": _words(r"i|i'm|i've|i'd|i'll|my|mine|me|myself|we|we're|we've|our|ours|us"),
}
_QUESTION_START = re.compile(
    r"(?:what|when|where|which|who|whose|why|how|can|could|would|will|do|does|did|is|are|was|were|should|may)\b"
)
_SMALL_TALK = _set(
    "hi hello hey yo hiya greetings good morning afternoon evening night day thanks thank you thx ty so very much a "
    "lot ok okay k cool nice great perfect awesome wonderful lol haha hehe hmm hm oh ah wow yes yeah yep no nope sure "
    "right bye goodbye later cheers please welcome sorry well got it see how are i'm fine there everyone again too and"
)
_DATE = _words(
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|june|july|august|september"
    r"|october|november|december|today|tonight|tomorrow|yesterday|(?:next|last) (?:week|month|year|summer|winter|spring"
    r"|autumn|fall|night|time)|\d{4}-\d{2}-\d{2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|(?:19|20)\d\d|\d{1,2}:\d\d"
    r"|\d{1,2} ?[ap]m|\d{1,2}(?:st|nd|rd|th)|may \d{1,2}|in may"
)
_NUMBER = re.compile(r"\d")
_UNIT = re.compile(
    r"[$€£¥]\d|\d ?(?:%|€|£|(?:percent|dollars?|euros?|pounds?|kg|kilos?|g|grams?|lbs?|km|kilomet(?:er|re)s?|miles?"
    r"|m|met(?:er|re)s?|cm|mm|ft|feet|inch|inches|hours?|hrs?|h|minutes?|mins?|min|seconds?|secs?|ms|days?|weeks?"
    r"|months?|years?|people|usd|eur|gb|mb|tb|kb|tokens)\b)"
)
_FEELING = _words(
    r"love|loved|hate|hated|afraid|scared|worried|anxious|excited|thrilled|happy|sad|angry|upset|proud|ashamed|grateful"
    r"|stressed|nervous|depressed|lonely|heartbroken|devastated|terrified|frustrated|disappointed|delighted|hurt|died"
    r"|miss|cried|crying|passionate"
)
_EMPHASIS = _words(
    r"remember|important|importantly|don't forget|do not forget|never forget|keep in mind|note that|crucial|critical"
    r"|essential|for the record|fyi|make a note"
)
_CAPITALS = re.compile(r"\b[A-Z]{3,} [A-Z]{2,}\b|\b(?:NEVER|ALWAYS|NOT|MUST|VERY|DON'T|ONLY)\b")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_CAPITALISED = re.compile(r"(?<![^\W_])(?<![^\W_]['’-])[^\W\d_a-z][^\W_]*(?:['’-][^\W_]+)*")
_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NOT_NAMES = _set(
    "i i'm i've i'd i'll ok monday tuesday wednesday thursday friday saturday sunday january february march april may "
    "june july august september october november december"
)


def lowered(text: str) -> str:
    """The part of a text that is looked at, in small letters and with one kind of apostrophe."""
    return text[:TEXT_MAX].replace("’", "'").lower()


def names_in(text: str) -> set[str]:
    """Words written as names: with a capital, and not because a sentence begins there.

    >>> sorted(names_in("Yesterday I met Anna in Berlin."))
    ['Anna', 'Berlin']
    """
    return set(_names(text))


def _names(text: str) -> Iterator[str]:
    text = text[:TEXT_MAX]
    for match in _CAPITALISED.finditer(text):
        word = match.group()
        before = text[max(match.start() - 3, 0) : match.start()].rstrip(" \t\"'“(*_")
        starts = not before or before[-1] in ".!?:\n-•"
        if word[0].isupper() and not starts and word.lower().replace("’", "'") not in _NOT_NAMES:
            yield word.removesuffix("'s").removesuffix("’s")


def kind_of(text: str, role: str = "user") -> str:
    """The strongest kind of statement in a text, one of the first eight rows of the table."""
    low = lowered(text)
    # "I" of an assistant is no person: what it likes and is says nothing about the user.
    cues = ("decision", "obligation") if role != "user" else tuple(_CUES)
    cues = tuple(kind for kind in cues if _CUES[kind].search(low))
    kinds = {_kind_of_sentence(match.group().strip(), cues) for match in _SENTENCE.finditer(low)}
    return min(kinds, key=_KINDS.index, default="small talk")


def _kind_of_sentence(sentence: str, cues: Sequence[str]) -> str:
    words = _TOKEN.findall(sentence)
    if _SMALL_TALK.issuperset(words):
        return "small talk"
    if sentence.endswith("?") or (_QUESTION_START.match(sentence) and not sentence.endswith((".", "!"))):
        return "question"
    return next((kind for kind in cues if _CUES[kind].search(sentence)), "statement")


def _signs(text: str, kind: str) -> list[str]:
    """Which of the small additions a text earns."""
    low = lowered(text)
    found = {
        "number": _NUMBER.search(low),
        "date": _DATE.search(low),
        "name": next(_names(text), None),
        "unit": _UNIT.search(low),
        "feeling": _FEELING.search(low),
        "duty": kind not in ("obligation", "question") and _CUES["obligation"].search(low),
        "emphasis": _EMPHASIS.search(low),
        "exclamation": "!" in low and kind != "small talk",
        "capitals": _CAPITALS.search(text[:TEXT_MAX]),
    }
    return [name for name, sign in found.items() if sign]


def explain_importance(text: str, role: str, *, repeated: int = 0, feedback: int = 0) -> dict[str, float]:
    """The parts of the sum by their names in the table, those that are zero left out."""
    kind = kind_of(text, role)
    names = [kind, role, *_signs(text, kind)]
    parts = {name: WEIGHTS[name][0] for name in names if name in WEIGHTS}
    parts["repetition"] = WEIGHTS["repetition"][0] * min(max(repeated, 0), REPEATED_MAX)
    parts["feedback"] = WEIGHTS["feedback"][0] * min(max(feedback, -1), 1)
    return {name: value for name, value in parts.items() if value}


def importance(text: str, role: str, *, repeated: int = 0, feedback: int = 0) -> float:
    """How much a message matters, from 0 to 1.

    `repeated` is how often the same was said before; `feedback` is +1 or -1 from the user.

    >>> importance("hello!", "user")
    0.1
    >>> importance("Remember that I'm allergic to peanuts.", "user")
    0.75
    """
    total = sum(explain_importance(text, role, repeated=repeated, feedback=feedback).values())
    return round(min(max(total, 0.0), 1.0), 4)
