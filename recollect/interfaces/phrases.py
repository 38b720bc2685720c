"""What is known about somebody, told to them in plain sentences, and which question asks for which of it.

Tables, one row for each key of a profile, and a few small functions. A key without a row gets a generic sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from recollect.policies.keys import ALIASES, KEYS, PREFERENCES, as_in_keys, key_of
from recollect.policies.words import query_terms, terms

_DONE = {
    "nickname": ("like to be called", "liked to be called"),
    "city": ("live in", "lived in"),
    "region": ("live in", "lived in"),
    "country": ("live in", "lived in"),
    "hometown": ("come from", "came from"),
    "employer": ("work at", "worked at"),
    "industry": ("work in", "worked in"),
    "colleague": ("work with", "worked with"),
    "programming_language": ("program in", "programmed in"),
    "tool": ("use", "used"),
    "vehicle": ("drive", "drove"),
    "weight": ("weigh", "weighed"),
    "supports": ("support", "supported"),
    "hobby": ("enjoy", "enjoyed"),
    "likes": ("like", "liked"),
    "dislikes": ("do not like", "did not like"),
    "avoids": ("avoid", "avoided"),
    "allergy": ("are allergic to", "were allergic to"),
    "medication": ("take", "took"),
    "goal": ("want to", "wanted to"),
}
"""You DO it, you DID it."""
_HAD = {
    "pronouns": ("pronouns", "pronouns"),
    "timezone": ("time zone", "time zones"),
    "child": ("child", "children"),
    "medical_condition": ("condition", "conditions"),
    "hobby": ("hobby", "hobbies"),
}
"""Your THING is ..., your THINGS are ...; other keys go by their own name."""
_STATES = frozenset(("retired", "unemployed", "self-employed", "between jobs", "out of work", "on parental leave"))
"""What the key of an occupation holds, and nobody works as."""
_WISHED = {
    "tone": "a {} tone",
    "verbosity": "{} answers",
    "format": "answers in the form of {}",
    "units": "{} units",
    "theme": "the {} theme",
    "reply_language": "answers in {}",
    "currency": "amounts in {}",
    "date_format": "dates as {}",
    "time_format": "times as {}",
}
"""You prefer ..."""
_WITHOUT = {"emoji": ("emoji", "answers {}"), "code_comments": ("comments", "code {}")}
"""What somebody wants to have or not to have."""

_KINDS = """
    son, daughter, brother, sister, mother mum mom mama, father dad papa, stepmother stepmom, stepfather stepdad,
    stepbrother, stepsister, grandmother grandma gran granny nan nana, grandfather grandpa grandad granddad, grandson,
    granddaughter, aunt auntie, uncle, cousin, niece, nephew
"""
_KIND_OF = {word: each.split()[0] for each in _KINDS.split(",") for word in each.split()}
_KIND = re.compile(rf"\b(?:my|our) (?:\w+ ){{0,2}}?(?P<kind>{'|'.join(_KIND_OF)})(?:s|'s|’s)?\b", re.IGNORECASE)
"""What somebody in the family is to the user, as people say it and as the graph calls it."""

_AM_OR_DO = r"(?:'m|’m| am| do| did| was)"
_ASKED = (
    ("employer", rf"where{_AM_OR_DO} I (?:use to |used to )?(?:employed|work)|whom? do I work for\b"),
    ("occupation",
        rf"what{_AM_OR_DO} I (?:use to |used to )?(?:do for (?:a living|work|a job|money)|do\W*$|working as|work as)"),
    ("colleague", r"whom? do I work with\b"),
    ("boss", r"\b(?:my|our) (?:\w+ )?boss\b"),  # only one of the colleagues: which one, the words that were said tell
    ("dislikes", r"\bwh(?:at|ich)\b.*\b(?:(?:don't|don’t|dont) I (?:\w+ )?(?:like|enjoy)"
                 r"|do I (?:\w+ )?(?:not (?:like|enjoy)|dislike|hate))\b"),
    *((key, r"what do I (?:really )?(?:like|enjoy|love)\W*$") for key in ("likes", "hobby")),
    ("city", rf"where{_AM_OR_DO} (?:I|we) (?:use to |used to )?(?:liv|based)|where(?:'s| is) (?:my|our) home\b"),
    ("hometown", rf"where{_AM_OR_DO} I (?:come |born|grow up|grew up|from)"),
    ("allergy", r"\bwh(?:at|ich)\b.*\b(?:avoid|not eat|can't I eat|can’t I eat|cannot I eat)"),
    *((key, r"\bwh(?:at|ich)\b.*\b(?:avoid|not eat|can't I eat|can’t I eat|cannot I eat)|what do I eat\b"
            r"|what(?:'s| is) my diet\b") for key in ("diet", "avoids")),
    ("avoids", r"\bwh(?:at|ich)\b.*\b(?:not|don't|don’t|never) drink\b"),
    ("weight", r"how (?:much (?:do|did) I weigh|heavy am I)\b|what(?:'s| is| was) my weight\b"),
    ("height", r"how tall am I\b|what(?:'s| is) my height\b"),
    *((key, r"\bwh(?:o|om|at|ich)\b.*\b(?:do I support\b|am I a (?:fan|supporter) of\b)")
        for key in ("supports", "favorite_team", "favorite_football_team")),
    ("age", r"how old am I\b|what(?:'s| is) my age\b"),
    ("birthday", r"when(?:'s| is| was) my birthday\b|when was I born\b"),
    ("partner", r"who am I (?:married|engaged) to\b"),
    ("name", r"what(?:'s| is| am) (?:my name|I called)\b"),
    *((key, r"\bmy (?:whole |entire )?family\b") for key in ("partner", "child", "parent", "sibling", "relative")),
    ("allergy", r"\bam I allergic to (?:anything|something)\b|\bdo I have any allergies\b"),
    ("medication", r"\bwh(?:at|ich)\b.*\b(?:meds?|medicines?|medications?|pills|tablets|drugs)\b"),
)  # fmt: skip
"""Questions that do not name the key they are about."""
_QUESTIONS = tuple((key, re.compile(pattern, re.IGNORECASE)) for key, pattern in _ASKED)
_BESIDE = "current currently now these days please remember remind know recall tell again called kind of sort"
"""Words of a question that do not say what it is about."""
_BY_NAME = "name names"
"""Asked about anybody: "what is my husband's name?" is about the husband."""
_AN = re.compile(r"[AEFHILMNORSX](?:[A-Z]|\b)|(?i:(?!uni|use|usa|us\b|uk\b|ux|eur|one\b)[aeiou])")
"""Words that take "an": an engineer, an HR manager; but a UX researcher and a university lecturer."""
_OF_MORE = re.compile(
    r"\s*(?:and |so |but )?(?:when|why|how (?:often|long|much|far|do|did|can|should)|who (?:works|worked) for)\b",
    re.IGNORECASE,
)
"""Questions that a value does not answer: "when do I work?" does not ask what somebody works as."""
_WHETHER = re.compile(r"\s*(?:and |so |but )?(?:am|do|have) (?:I|we)\b", re.IGNORECASE)
"""Questions that a value answers by itself: "am I vegetarian?"."""
_OF_A_WISH = "like prefer want wish favour"
_BE_OR_DO = r"is|are|was|were|am|do|does|did|can|could|should|will|would|have|has|had|many|much|long|old"
_ASKS = re.compile(
    rf"(?:what|who|whom|whose|when|where|which|why|how)(?:'s|’s|\s+(?:{_BE_OR_DO}))\b"
    rf"|(?:what|which|whose|how)(?:\s+[\w'’-]+){{1,3}}?\s+(?:{_BE_OR_DO})\s+(?:i|we|my|our|you|the|he|she|they|it)\b"
    r"|(?:please\s+)?tell\s+me\b(?!\s+to\b)|do\s+you\s+(?:remember|know|recall)\b"
    r"|(?:please\s+)?remind\s+me\s+(?:again|of|about|what|who|whom|whose|when|where|which|why|how)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_BEFORE = re.compile(
    r"\b(?:before|previous(?:ly)?|former(?:ly)?|used? to|in the past|once|earlier|until recently)\b", re.IGNORECASE
)
_OF_BEFORE = "before previous previously former formerly use used past once earlier until recently"


@cache
def _stems(words: str) -> frozenset[str]:
    return frozenset(terms(words))


def is_question(text: str) -> bool:
    """Whether someone wants to know something, with or without a question mark.

    >>> is_question("What is my cat called"), is_question("When I was five, I fell.")
    (True, False)
    """
    stripped = text.strip()
    return stripped.endswith("?") or _ASKS.match(stripped) is not None


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, each with its full stop."""
    return [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]


def holds(key: str, values: Sequence[str]) -> str:
    """What is true now, without a full stop.

    >>> holds("city", ["Bergen"]), holds("pet", ["Admiral", "Mimi"]), holds("theme", ["dark"])
    ('You live in Bergen', 'Your pets are Admiral and Mimi', 'You prefer the dark theme')
    """
    return _said(key, values, was=False)


def held(key: str, values: Sequence[str]) -> str:
    """What was true.

    >>> held("employer", ["Acme"]), held("occupation", ["engineer"]), held("favorite_food", ["soup"])
    ('You worked at Acme', 'You worked as an engineer', 'Your favorite food was soup')
    """
    return _said(key, values, was=True)


def asks_of_before(question: str) -> bool:
    """Whether a question is about an earlier state, not the present one.

    >>> asks_of_before("Where did I use to live?"), asks_of_before("Where do I live?")
    (True, False)
    """
    return _BEFORE.search(question) is not None


def kind_asked(question: str) -> str | None:
    """What somebody asked about is to the user, if that is said more exactly than by a key.

    >>> kind_asked("What's my grandma's name?"), kind_asked("Who are my children?")
    ('grandmother', None)
    """
    asked = _KIND.search(question)
    return _KIND_OF[asked["kind"].lower()] if asked else None


def keys_asked(question: str, known: Sequence[tuple[str, str]]) -> list[str]:
    """The keys that a question about oneself asks for, among those with a known value (key, value).

    >>> keys_asked("Where did I live before Bergen?", [("city", "Bergen"), ("name", "Ann")])
    ['city']
    >>> keys_asked("What do I do for a living?", [("city", "Bergen"), ("occupation", "baker")])
    ['occupation']
    """
    by_question = {key for key, pattern in _QUESTIONS if pattern.search(question)}
    if by_question:
        return list(dict.fromkeys(key for key, _ in known if key in by_question))
    if _OF_MORE.match(question):
        return []
    wanted = {term for term in query_terms(as_in_keys(question.lower())) if term not in _stems(_BESIDE)}
    wanted = wanted - _stems(_BY_NAME) or wanted
    if asks_of_before(question):
        wanted -= _stems(_OF_BEFORE)
    for key, value in known:
        left = wanted - set(terms(value))  # "before Bergen" names a value besides what is asked for
        if _is_asked_for(key, left) and (left or (wanted and _WHETHER.match(question))):
            return [key]
    return []


def listed(values: Sequence[str]) -> str:
    """Several things joined into one phrase.

    >>> listed(["tea"]), listed(["tea", "rye bread", "figs"])
    ('tea', 'tea, rye bread and figs')
    """
    return " and ".join(part for part in (", ".join(values[:-1]), values[-1]) if part)


def _said(key: str, values: Sequence[str], *, was: bool) -> str:
    told = listed(values)
    if key in PREFERENCES:
        return f"You {'preferred' if was else 'prefer'} {_wish(key, told)}"
    if key == "occupation" and len(values) == 1 and told.lower() in _STATES:
        return f"You {'were' if was else 'are'} {told}"
    if key == "occupation":
        return f"You {'worked' if was else 'work'} as {listed([_with_article(value) for value in values])}"
    if key == "vehicle":
        told = listed([_with_article(value) for value in values])
    if key == "diet" and told.startswith("no "):
        return f"You {'avoided' if was else 'avoid'} {told.removeprefix('no ')}"
    if key == "age" and told.isdigit():
        return f"You {'were' if was else 'are'} {told} years old"
    if key in _DONE:
        return f"You {_DONE[key][was]} {told}"
    one, many = _named(key)
    is_one = len(values) == 1 and one != many
    verb = ("was" if is_one else "were") if was else ("is" if is_one else "are")
    return f"Your {one if is_one else many} {verb} {told}"


def _wish(key: str, told: str) -> str:
    """How somebody wants it: "answers without tables", "code with comments"."""
    thing, form = _WITHOUT.get(key, ("", "{}"))
    if thing and told in ("none", "no", "off"):
        return f"{form.format('without')} {thing}"
    if thing and told in ("yes", "on"):
        return f"{form.format('with')} {thing}"
    if key == "format" and told.startswith("no "):
        return f"answers without {told.removeprefix('no ')}"
    return _WISHED[key].format(told) if key in _WISHED else f"{told} as {_named(key)[0]}"


def _named(key: str) -> tuple[str, str]:
    plain = KEYS[key].label if key in PREFERENCES else key.replace("_", " ")
    return _HAD.get(key, (plain, f"{plain}s"))


def _with_article(value: str) -> str:
    if value.lower().startswith(("a ", "an ", "the ")):
        return value
    return f"{'an' if _AN.match(value) else 'a'} {value}"


def _is_asked_for(key: str, words: set[str]) -> bool:
    """Whether a question with these words, none besides, asks for a key."""
    return words <= _names_of(key) or words in _spellings_of(key)


@lru_cache
def _names_of(key: str) -> frozenset[str]:
    """The words by which a key is asked for, but for those that are another key by themselves.

    A mother tongue is a language, and a mother is none.
    """
    own = frozenset(terms(" ".join([key, key_of(key).label]).replace("_", " ")))
    words = own.union(*_spellings_of(key)) - (_alone_for_others(key) - own)
    return words | _stems(_OF_A_WISH) if key in PREFERENCES else words


@lru_cache
def _spellings_of(key: str) -> frozenset[frozenset[str]]:
    """The other names of a key, each as its words."""
    return frozenset(frozenset(terms(alias.replace("_", " "))) for alias, name in ALIASES.items() if name == key)


@lru_cache
def _alone_for_others(key: str) -> frozenset[str]:
    others = {alias: name for alias, name in ALIASES.items() if "_" not in alias}
    mine = {alias for alias, name in others.items() if name == key}
    return _stems(" ".join(alias for alias in others if alias not in mine)) - _stems(" ".join(mine))
