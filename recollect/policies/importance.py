"""How much a message matters, from 0 to 1, by a formula that can be read and explained.

    importance = kind + role + specificity + feeling + duty + emphasis + repetition + feedback

*Kind* is the strongest kind of statement in the text; every other part is a small addition or
deduction. All weights are in one table, and the sum is clamped to 0 and 1. The words are
English; text in other languages still has its numbers, names, emphasis, repetition and feedback.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from recollect.policies.patterns import pattern_of

TEXT_MAX = 4_000
"""Maximum characters that are examined. A message says early what it is about, and time stays bounded."""

REPEATED_MAX = 4
"""Maximum repetitions that count. A fifth one adds nothing but noise."""

WEIGHTS: dict[str, tuple[float, str]] = {
    # kind of statement: the strongest one counts
    "decision": (0.55, "what was decided shapes what comes after"),
    "identity": (0.50, "who the user is, their people, home, work and health"),
    "preference": (0.50, "how the user likes things"),
    "obligation": (0.45, "what someone has to do, or by when"),
    "personal": (0.35, "something the user says about themselves"),
    "statement": (0.25, "any other statement"),
    "question": (0.20, "it asks for something and says little"),
    "small talk": (0.05, "greetings and thanks say nothing"),
    # who said it
    "user": (0.05, "the user knows best about the user"),
    "assistant": (-0.10, "an answer can be generated again"),
    "system": (0.00, "instructions are given again each time"),
    "tool": (-0.15, "tool output is bulky and goes stale"),
    # specificity
    "number": (0.04, "an amount cannot be guessed"),
    "date": (0.06, "a time cannot be guessed, and people ask for it later"),
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


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


Worded = tuple[str, frozenset[str]]
"""A sentence in lower case, and its words."""


@dataclass(frozen=True, slots=True)
class Cue:
    """Words and phrases that tell something about a text.

    Each of them contains one of the words in `needs`: a text without any is not searched, and most have none.
    """

    needs: frozenset[str]
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, needs: str, phrases: str) -> Cue:
        """Any of these phrases, as whole words. Plain alternatives cannot be slow."""
        return cls(_set(needs), pattern_of(rf"\b(?:{phrases})\b"))

    def is_in(self, text: str, words: Collection[str]) -> bool:
        """Whether it occurs in a lower-case text that has these words."""
        return not self.needs.isdisjoint(words) and self.pattern.search(text) is not None

    def is_in_any(self, sentences: Iterable[Worded]) -> bool:
        """Whether it occurs in one of some sentences: no phrase goes on into the next, so only few are searched."""
        return any(self.is_in(*sentence) for sentence in sentences)


_WORD = pattern_of(r"\w+")
_ASCII_SIGNS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}
_NUMBER = pattern_of(r"\d")
_OFTEN = r"(?: (?:really|also|just|always|usually|absolutely|generally|never|would|do|still|strongly|much))?"
_CUES: dict[str, Cue] = {
    "decision": Cue.of(
        "decided agreed chose chosen picked settled opted booked bought ordered signed cancelled canceled confirmed "
        "accepted quit resigned ll will let going went plan decision choice now final",
        r"(?:i|we)(?:'ve| have| just| finally)? (?:decided|agreed|chose|chosen|picked|settled on|opted|booked|bought"
        r"|ordered|signed|cancelled|canceled|confirmed|accepted|quit|resigned)|(?:i|we)(?:'ll| will) (?:use|take"
        r"|go with|choose|pick|keep)|let's (?:go with|use|do|take|pick|keep|stick)|going with|went with|the plan is"
        r"|(?:decision|choice) is|from now on|final answer",
    ),
    "identity": Cue.of(
        "name call called live work from moved grew born study studied birthday married allergic diagnosed wife "
        "husband partner girlfriend boyfriend fiance fiancee son daughter kids children mother mom mum father dad "
        "parents sister brother dog cat pet boss job company address phone email hometown degree doctor old pronouns",
        r"my (?:full |first |last )?name|call me|i'm called|i am called|i(?: still| now)? live|i(?: still| now)? work"
        r"|i'm from|i am from|i moved|i grew up|i was born|i study|i studied|my birthday|i'm married|i'm allergic"
        r"|i am allergic|allergic to|diagnosed|my (?:wife|husband|partner|girlfriend|boyfriend|fiancee?|son|daughter"
        r"|kids|children|mother|mom|mum|father|dad|parents|sister|brother|dog|cat|pet|boss|job|company|address|phone"
        r"|email|hometown|degree|doctor)(?:'s)?|years old|my pronouns",
    ),
    "preference": Cue.of(
        "like love prefer hate dislike enjoy want adore avoid stand eat drink use favorite favourite favorites "
        "favourites rather preference into fan vegan vegetarian instead",
        rf"(?:i|we){_OFTEN} (?:like|love|prefer|hate|dislike|enjoy|want|adore|avoid|can't stand)"
        r"|(?:don't|do not|can't|won't|never) (?:like|want|eat|drink|use|enjoy)|favou?rites?|i'd rather|i would rather"
        r"|preference|i'm (?:into|a fan|vegan|vegetarian)|i am (?:vegan|vegetarian)|instead of|fan of",
    ),
    "obligation": Cue.of(
        "must have has need needs should ought required deadline due promise promised remind make appointment supposed "
        "obliged tomorrow tonight monday tuesday wednesday thursday friday saturday sunday noon ll will",
        r"must|have to|has to|need to|needs to|should|ought to|required|deadline|due|promised?|remind me|make sure"
        r"|appointment|supposed to|obliged|by (?:tomorrow|tonight|monday|tuesday|wednesday|thursday|friday|saturday"
        r"|sunday|noon)|(?:i|we)(?:'ll| will)",
    ),
    "personal": Cue.of(
        "i my mine me myself we our ours us",
        r"i|i'm|i've|i'd|i'll|my|mine|me|myself|we|we're|we've|our|ours|us",
    ),
}
_QUESTION_START = pattern_of(
    r"(?:what|when|where|which|who|whose|why|how|can|could|would|will|do|does|did|is|are|was|were|should|may)\b"
)
_SMALL_TALK = _set(
    "hi hello hey yo hiya greetings good morning afternoon evening night day thanks thank you thx ty so very much a "
    "lot ok okay k cool nice great perfect awesome wonderful lol haha hehe hmm hm oh ah wow yes yeah yep no nope sure "
    "right bye goodbye later cheers please welcome sorry well got it see how are i'm fine there everyone again too and"
)
_DAYS = _set(
    "monday tuesday wednesday thursday friday saturday sunday january february march april june july august september "
    "october november december today tonight tomorrow yesterday"
)
_DATE = Cue.of(
    "next last may",
    r"(?:next|last) (?:week|month|year|summer|winter|spring|autumn|fall|night|time)|may \d{1,2}|in may",
)
# Both begin with a digit, which is faster to search for than the end of a word.
_DATE_IN_DIGITS = pattern_of(
    r"\d(?<!\w\d)(?:\d{3}-\d{2}-\d{2}|\d?[/.]\d{1,2}[/.]\d{2,4}|(?<=1)9\d\d|(?<=2)0\d\d|\d?:\d\d|\d? ?[ap]m"
    r"|\d?(?:st|nd|rd|th))\b"
)
_UNIT = pattern_of(
    r"\d(?:(?<=[$€£¥]\d)| ?(?:%|€|£|(?:percent|dollars?|euros?|pounds?|kg|kilos?|g|grams?|lbs?|km|kilomet(?:er|re)s?"
    r"|miles?|m|met(?:er|re)s?|cm|mm|ft|feet|inch|inches|hours?|hrs?|h|minutes?|mins?|min|seconds?|secs?|ms|days?"
    r"|weeks?|months?|years?|people|usd|eur|gb|mb|tb|kb|tokens)\b))"
)
_FEELINGS = _set(
    "love loved hate hated afraid scared worried anxious excited thrilled happy sad angry upset proud ashamed grateful "
    "stressed nervous depressed lonely heartbroken devastated terrified frustrated disappointed delighted hurt died "
    "miss cried crying passionate"
)
_EMPHASIS = Cue.of(
    "remember important importantly forget mind note crucial critical essential record fyi",
    r"remember|important|importantly|don't forget|do not forget|never forget|keep in mind|note that|crucial|critical"
    r"|essential|for the record|fyi|make a note",
)
CUES = {**_CUES, "date": _DATE, "emphasis": _EMPHASIS}
"""All cues by name."""
_SHOUTED = pattern_of(r"[A-Z][A-Z][A-Z]")
"""What every match of `_CAPITALS` begins with, and few texts contain."""
_CAPITALS = pattern_of(r"\b[A-Z]{3,} [A-Z]{2,}\b|\b(?:NEVER|ALWAYS|NOT|MUST|VERY|DON'T|ONLY)\b")
_SENTENCE = pattern_of(r"[^.!?\n]+[.!?]*")
# What must not come before the capital is checked after it, so that only capitals are looked for.
_CAPITALISED = pattern_of(r"[^\W\d_a-z](?<![^\W_].)(?<![^\W_]['’-].)[^\W_]*(?:['’-][^\W_]+)*")
_TOKEN = pattern_of(r"[^\W_]+(?:['’-][^\W_]+)*")
_NOT_NAMES = _set(
    "i i'm i've i'd i'll ok monday tuesday wednesday thursday friday saturday sunday january february march april may "
    "june july august september october november december"
)


def lowered(text: str) -> str:
    """The part of a text that is examined, in lower case and with one kind of apostrophe."""
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
    sentences = _sentences(lowered(text))
    return _kind(sentences, _cues(sentences, role))


def _sentences(low: str) -> list[Worded]:
    """The sentences of a text, each with its words."""
    return [(sentence.strip(), _words(sentence)) for sentence in _SENTENCE.findall(low)]


def _words(low: str) -> frozenset[str]:
    """What `_WORD` finds in a text; in plain ASCII, which most texts are, in half the time."""
    return frozenset(low.translate(_ASCII_SIGNS).split() if low.isascii() else _WORD.findall(low))


def _cues(sentences: Sequence[Worded], role: str) -> list[str]:
    """The kinds of statement that a text has words for, the strongest first."""
    # The "I" of an assistant is not a person: what it likes and is says nothing about the user.
    names = ("decision", "obligation") if role != "user" else _CUES
    return [kind for kind in names if _CUES[kind].is_in_any(sentences)]


def _kind(sentences: Sequence[Worded], cues: Sequence[str]) -> str:
    weakest = "small talk"
    telling: list[Worded] = []
    for sentence, words in sentences:
        if _is_small_talk(sentence):
            continue
        if _is_question(sentence):
            told = _TOLD_FIRST.match(sentence)
            if told is None:
                weakest = "question"
                continue
            sentence, words = told[1], _words(told[1])
        if not cues:
            return "statement"
        if _CUES[cues[0]].is_in(sentence, words):
            return cues[0]
        telling.append((sentence, words))
    others = (kind for kind in cues[1:] if _CUES[kind].is_in_any(telling))
    return next(others, "statement" if telling else weakest)


_TOLD_FIRST = pattern_of(
    r"((?:(?:and|so|but|also|well|oh|ok|hey|hi),? ){0,2}(?:i|i'm|im|i've|ive|my|we|we're|we've|our)\b[^,?]{5,200}),\s+"
    r"(?:so |and |but )?(?:did|do|does|what|which|where|when|who|how|can|could|should|would|will|is|are|any|right|ok"
    r"|okay)"
    r"\b[^,]{0,200}\?\Z"
)
"""What users say about themselves before they ask: "I'm coeliac, what can I eat?"."""


def _is_small_talk(sentence: str) -> bool:
    return all(match.group() in _SMALL_TALK for match in _TOKEN.finditer(sentence))


def _is_question(sentence: str) -> bool:
    return sentence.endswith("?") or (not sentence.endswith((".", "!")) and bool(_QUESTION_START.match(sentence)))


def _signs(text: str, low: str, sentences: Sequence[Worded]) -> list[str]:
    """Which of the small additions a text earns, whatever kind it is of."""
    has_digit = _NUMBER.search(low) is not None
    shouted = _SHOUTED.search(text, 0, TEXT_MAX)
    dated = not all(_DAYS.isdisjoint(words) for _, words in sentences) or _DATE.is_in_any(sentences)
    found = {
        "number": has_digit,
        "date": dated or (has_digit and _DATE_IN_DIGITS.search(low)),
        "name": next(_names(text), None),
        "unit": has_digit and _UNIT.search(low),
        "feeling": not all(_FEELINGS.isdisjoint(words) for _, words in sentences),
        "emphasis": _EMPHASIS.is_in_any(sentences),
        "exclamation": "!" in low,
        "capitals": shouted and _CAPITALS.search(text, shouted.start(), TEXT_MAX),
    }
    return [name for name, sign in found.items() if sign]


def explain_importance(text: str, role: str, *, repeated: int = 0, feedback: int = 0) -> dict[str, float]:
    """The parts of the sum by their names in the table, without those that are zero."""
    low = lowered(text)
    sentences = _sentences(low)
    cues = _cues(sentences, role)
    kind = _kind(sentences, cues)
    names = [kind, role, *_signs(text, low, sentences)]
    if "obligation" in cues and kind not in ("obligation", "question"):
        names.append("duty")
    if kind == "small talk" and "exclamation" in names:
        names.remove("exclamation")
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
