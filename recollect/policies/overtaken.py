"""What was said and is no longer so: "I live in Oslo", once "I moved to Lyon" has been said.

Both are messages, and the older one often has more of the words of a question. So among hits, whatever tells how things
are now is moved up to right before what it has overtaken. Neither is hidden: a question may need both. What was taken
back ("forget that I live in Oslo") moves down instead, together with the message that did so.

What asks for a value of the profile, "Where do I live?", is answered by that value and the words that told it, and not
by "they live in Lagos", which has the same words.

For the values of facts it is known what has overtaken what. Beside them, what the user says to an assistant overtakes
what they said in nearly the same words before, if both match about equally well: "my new number is 555 9876".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.layers import FACT_LAYERS, own_data
from recollect.policies.keys import PEOPLE
from recollect.policies.patterns import pattern_of
from recollect.policies.spells import Telling, ended_by, has_value
from recollect.records import HOUR_MS, Born, Record

LIFTED_LEAST = 0.6
"""Only what has at least this share of the score of what it overtakes is moved up, unless the question has words of the
fact that both are about: a long message may have been found for something else that it says.
"""
TAKEN_BACK_LESS, TAKEN_BACK_WORTH = 0.4, 0.05
"""What is taken off the score of a message that told what was taken back, and what it is worth as an answer: this share
of what it would be.
"""
RESTATED_HITS, RESTATED_NEAR, RESTATED_LEAST = 5, 0.5, 0.9
"""Among this many first hits, a message says again what an older one said if their cosine is at least this, and its
score at least this share of the other's. On LongMemEval's fifty sessions the latest statement comes before the older
ones for 28 of the 37 questions about what has changed, where it did for 25, and an answer is the first hit for 70.1 %
of all questions, where it was for 69.7. With 0.4 and 0.85 that would be 29 and 69.3 %.
"""
RESTATED_AFTER_MS = HOUR_MS
"""In one session, what comes sooner belongs to the same subject, and says nothing again: a question after a statement.
Without this, an answer would be the first hit for 64.8 % of those questions.
"""
_OF_BEFORE = pattern_of(
    r"\b(?:before|previous(?:ly)?|former(?:ly)?|used to|earlier|back then|original(?:ly)?|initial(?:ly)?|at first|old"
    r"|until|history|did (?:i|we)(?! (?:say|tell|mention|ask|write))|(?:was|were) (?:i|we|my|our))\b",
    re.IGNORECASE,
)
OF_THE_PROFILE_MAX = 3
"""How many values of the profile come first: of a key that has many values, search finds the best."""
_OF_ONESELF = pattern_of(r"\b(?:i|i'm|i’m|my|me|mine|we|our|ours)\b", re.IGNORECASE)
_WHERE, _WHO = pattern_of(r"\bwhere\b", re.IGNORECASE), pattern_of(r"\bwho(?:m|se|'s|’s)?\b", re.IGNORECASE)
_NOT_A_VALUE = pattern_of(
    r"\b(?:when|why|how (?!old\b|tall\b|heavy\b|much do i weigh)|what (?:time|day|date|year|month)|did|was|were"
    r"|will|would|should|could|can)\b",
    re.IGNORECASE,
)
_PLACES = frozenset({"city", "region", "country", "hometown", "timezone", "employer", "education"})


class Said(NamedTuple):
    """When something was said, its birth, which decides between two of one moment, and in which session."""

    when: int
    born: Born
    session: str

    def is_after(self, other: Said) -> bool:
        """Whether it was said on a later occasion."""
        is_newer = (self.when, self.born) > (other.when, other.born)
        return is_newer and (self.session != other.session or self.when - other.when >= RESTATED_AFTER_MS)


class Former(NamedTuple):
    """A value that has ended: the fact it belonged to, and until when it was true."""

    fact: str
    value: str
    until: int


def asks_for_before(question: str) -> bool:
    """Whether a question asks how things used to be.

    >>> asks_for_before("Where did I live before Lyon?"), asks_for_before("Where do I live?")
    (True, False)
    """
    return _OF_BEFORE.search(question) is not None


def may_ask_for(question: str, key: str) -> bool:
    """Whether a question with the words of a key may ask for its value: about oneself, and by the right question word.

    >>> [may_ask_for(asked, "city") for asked in ("Where do I live?", "Who do I live with?", "Where do they live?")]
    [True, False, False]
    """
    if _OF_ONESELF.search(question) is None or _NOT_A_VALUE.search(question) is not None:
        return False
    if _WHERE.search(question):
        return key in _PLACES
    return _WHO.search(question) is None or key in PEOPLE


def tellers(fact: Record) -> Sequence[str]:
    """The ids of what tells the value of a fact: its own, and those of the messages that told it."""
    return fact.id, *_messages(fact.data.get("tellings", ()))


def former_of(record: Record) -> tuple[Former, Sequence[str]] | None:
    """The value that a record of a fact holds, if it has ended, and the messages that told it."""
    entry = record.layer == "past"
    layer = record.data.get("layer") if entry else record.layer
    if layer not in FACT_LAYERS or record.valid_to is None:
        return None
    told = own_data(record)
    if "value" not in told:
        return None
    fact = str(record.data["of"]) if entry else record.id
    tellings = [*told.get("tellings", ()), *([told["voided"]["by"]] if "voided" in told else ())]
    return Former(fact, str(told["value"]), record.valid_to), _messages(tellings)


def said_instead(fact: Record, former: Former, message: str, at: int) -> Sequence[str]:
    """The ids of what tells how things are at a given time, now that a value is over; none if it is not."""
    if former.until > at or "value" not in fact.data:
        return ()
    is_over = fact.valid_to is not None and fact.valid_to <= at
    if not is_over and has_value(fact, former.value):
        return ()  # it became true again
    told = ended_by(fact) if is_over else _messages(fact.data.get("tellings", ()))
    return () if message in told else (fact.id, *told)


def is_taken_back(fact: Record, former: Former, at: int) -> bool:
    """Whether a value was said to have never been true, and nothing is known in its place."""
    is_over = fact.valid_to is not None and fact.valid_to <= at
    return is_over and "voided" in fact.data and has_value(fact, former.value)


def lifted(scores: Sequence[float], instead: Mapping[int, Mapping[int, bool]]) -> dict[int, float]:
    """The new scores of those places that come up to what they have overtaken.

    `instead` has, for a place, those that tell how things are now, and whether the question is surely about that. One
    of them is enough: the best.

    >>> lifted([0.8, 0.7, 0.6], {0: {1: False, 2: False}})
    {1: 0.8}
    """
    scored: dict[int, float] = {}
    for place, others in instead.items():
        best = min(others, default=-1)
        if best > place and scores[place] > 0 and (others[best] or scores[best] >= LIFTED_LEAST * scores[place]):
            scored[best] = max(scored.get(best, 0.0), scores[place])
    return scored


def restated(scores: Sequence[float], said: Sequence[Said], alike: NDArray[np.float32]) -> dict[int, int]:
    """For each place of an older statement, the place of the newest one that says it again.

    `said` has when each was said, and `alike` the cosine of each with each.

    >>> monday, friday = Said(1, (1, 0), "monday"), Said(5, (2, 0), "friday")
    >>> restated([0.8, 0.75], [monday, friday], np.array([[1, 0.9], [0.9, 1]], np.float32))
    {0: 1}
    """
    found: dict[int, int] = {}
    for old in range(len(scores)):
        newer = [
            new
            for new in range(old + 1, len(scores))
            if said[new].is_after(said[old])
            and alike[old, new] >= RESTATED_NEAR
            and scores[new] >= RESTATED_LEAST * scores[old]
        ]
        if newer:
            found[old] = max(newer, key=lambda place: said[place])
    return found


def _messages(tellings: Sequence[Sequence[object]]) -> list[str]:
    return [message for each in tellings if (message := Telling(*each).message)]  # type: ignore[arg-type]
