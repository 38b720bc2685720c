"""What the user takes back: "Forget that I live in Bern", "I never said I'm vegan", "Forget my address".

Such a message says again what is to go, and nothing new. What it names is taken out of the profile if it is known.
Where it might be meant otherwise nothing is taken out: as a reproach ("you forget that I'm vegan"), for the sake of
argument ("forget that I'm vegan for a moment"), or beside a question ("Forget that I'm vegan. What would you cook?").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from recollect.enrich import Draft
from recollect.enrich.sentences import SENTENCE_MAX, lowered
from recollect.policies.keys import KEYS, PREFERENCES, Key

CONFIDENCE = 0.85

_OPENED = (
    r"\s*(?:(?:please|pls|ok|okay|hey|hi|hello|oh|also|and|now|so|well|actually|sorry|btw|by the way|then|no|wait"
    r"|look)[\s,!.:-]+){0,3}"
)
_ASKED = (
    r"(?:(?:can|could|would|will) you |you (?:can|may|should) |(?:i'd like|i would like|i want|i need) you to )?"
    r"(?:(?:please|just|now|also|kindly) ){0,2}"
)
_FORGET = r"(?:forget|unlearn|(?:don't|do not|stop) remember(?:ing)?)"
_REMOVE = r"(?:disregard|erase|delete|remove)"
_FROM_MEMORY = r" from (?:your|my|the) (?:memory|profile|notes)"
_WRONG = r"(?:wrong|not true|untrue|not right|old|outdated|private|no longer true|not true any ?more|a mistake|a joke)"
_DONE = (
    r"(?:[\s,;.!-]*(?:please|pls|thanks|thank you|thx|now|at all|any ?more|ok|okay"
    rf"|(?:it|that)(?:'s| is| was) {_WRONG})){{0,4}}"
    r"(?:[\s,;.!-]*i (?:moved|no longer|don't|never|made (?:it|that) up)\b[^?]*)?[\s.!]*"
)
_MINE = r"(?P<said>(?:i|i'm|im|i've|my|we|we're)\b[^,;:?!.]*?)"
_FORGET_THAT = re.compile(
    rf"{_OPENED}{_ASKED}(?:{_FORGET}|{_REMOVE})(?: (?:the fact )?that)?"
    rf"(?: i (?:said|told you|mentioned|wrote)(?: that)?)? {_MINE}(?:{_FROM_MEMORY})?{_DONE}\??"
)
_NAME = r"(?:(?:my|our) (?P<{0}>[a-z][a-z ]{{1,24}}?)|(?P<{0}_is>(?:where|what|how|who) [a-z' ]{{1,30}}?))"
_FORGET_MY = re.compile(
    rf"{_OPENED}{_ASKED}(?:{_FORGET} {_NAME.format('forgotten')}(?:{_FROM_MEMORY})?"
    rf"|{_REMOVE} {_NAME.format('removed')}{_FROM_MEMORY}){_DONE}\??"
)
"""Whoever removes their address may mean that of an order: only what is removed from memory is meant here."""
_NEVER_SAID = re.compile(
    rf"{_OPENED}i (?:never|didn't|did not|have never|haven't) (?:actually |ever |once )?(?:said|say|claimed|claim)"
    rf"(?: that)? {_MINE}(?: at all)?(?:[,;:][^?]*)?[.!]*\s*"
)
_NEVER_DID = re.compile(
    rf"{_OPENED}(?P<said>(?:i|i've|i have|we|we've) never (?:actually |ever )?(?:lived|worked|studied)\b[^,;:?!.]*?)"
    r"(?: at all| before)?(?:[,;:][^?]*)?[.!]*\s*"
)
_PRESENT = (
    (re.compile(r"(?:'ve| have)? never (?:actually |ever )?(?=lived\b|worked\b|studied\b)", re.IGNORECASE), " "),
    (re.compile(r"\A(i|we) was\b", re.IGNORECASE), r"\1 am"),
    (re.compile(r"\A(i|we) (live|work|like)e?d\b", re.IGNORECASE), r"\1 \2"),
    (re.compile(r"\A(i|we) had\b", re.IGNORECASE), r"\1 have"),
    (re.compile(r"\A(i|we) spoke\b", re.IGNORECASE), r"\1 speak"),
    (re.compile(r"\A(i|we) studied\b", re.IGNORECASE), r"\1 study"),
    (re.compile(r"\A(my [a-z ]{1,20}) was\b", re.IGNORECASE), r"\1 is"),
)
"""What turns the statement that is denied into one that can be read."""
_SUPPOSED = re.compile(r"\b(?:pretend|imagin|suppos|assum|for (?:a|the|this|now|once|one|just)\b|what if|role|hypothe)")
_NAMED = {
    "where i live": "city", "address": "city", "home": "city", "home address": "city", "where i work": "employer",
    "job": "occupation", "what i do": "occupation", "what i do for a living": "occupation", "how old i am": "age",
    "where i'm from": "hometown", "where i am from": "hometown", "company": "employer",
}  # fmt: skip
"""What people call a key of the profile besides its name."""
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_SIGNS = ("forget", "unlearn", "disregard", "erase", "delete", "remove", "remember", " never ", "didn't", "did not")


def retracted(text: str, stated: Callable[[str], Sequence[Draft]]) -> Iterator[Draft]:
    """What a message takes back. `stated` reads what a text says if it is meant as it stands."""
    low = lowered(text)
    if not any(sign in low for sign in _SIGNS):
        return
    sentences = [match for match in _SENTENCE.finditer(low) if match.group().strip()]
    asks = [match.group().rstrip().endswith("?") for match in sentences]
    is_meant = _SUPPOSED.search(low) is None
    for number, match in enumerate(sentences):
        sentence, span = match.group(), match.span()
        if len(sentence) > SENTENCE_MAX:
            continue
        may_forget = is_meant and not any(asks[:number] + asks[number + 1 :])
        if may_forget and (asked := _FORGET_MY.fullmatch(sentence)) and (key := _key(asked)):
            layer = "preference" if key.name in PREFERENCES else "fact"
            yield Draft(layer, key.name, "", CONFIDENCE, span, ends=True)
            continue
        if denied := _NEVER_SAID.fullmatch(sentence) or _NEVER_DID.fullmatch(sentence):
            yield from _denied(denied, text, span, stated)
        elif may_forget and (asked := _FORGET_THAT.fullmatch(sentence)):
            for draft in _denied(asked, text, span, stated):
                yield replace(draft, data={**draft.data, "forget": True})


def _denied(
    denied: re.Match[str], text: str, span: tuple[int, int], stated: Callable[[str], Sequence[Draft]]
) -> Iterator[Draft]:
    """What the sentence would say, as never true. A statement that goes on after the value is left alone."""
    first, last = denied.span("said")
    said = text[span[0] + first : span[0] + last].rstrip()
    for pattern, present in _PRESENT:
        said = pattern.sub(present, said, count=1)
    for draft in stated(said):
        if draft.layer in ("fact", "preference") and draft.value and not draft.ends and draft.span[1] == len(said):
            yield replace(draft, value="", span=span, confidence=CONFIDENCE, corrects=True, instead_of=draft.value)


def _key(asked: re.Match[str]) -> Key | None:
    """The key that is named. One with several values is not taken back all at once."""
    named = next(filter(None, asked.groupdict().values()))
    key = KEYS.get(_NAMED.get(named, named.replace(" ", "_")))
    return key if key is not None and not key.many else None
