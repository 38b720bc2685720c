"""What comes first among the hits whatever their score: how things are now, and what a question asks of the profile.

See `policies/overtaken.py`, which decides; here is what it decides on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recollect.found import Chosen, Question, Scored
from recollect.layers import FACT_LAYERS
from recollect.policies import turn_scoring
from recollect.policies.overtaken import (
    OF_THE_PROFILE_MAX,
    RESTATED_HITS,
    TAKEN_BACK_LESS,
    Said,
    asks_for_before,
    lifted,
    may_ask_for,
    restated,
    tellers,
)

OVERTAKEN_ROWS = 16
"""How many of the best rows are checked for what is no longer so, and for what tells how it is now."""
WHOLE = 0.995
"""From this share on, a row has all that is asked: shares are sums of rounded weights."""


def current_first(scored: Sequence[Scored], question: Question, chosen: list[Chosen]) -> list[Chosen]:
    """What tells how things are now before what it has overtaken, unless the question asks for how they were."""
    if not chosen or not any(map(may_be_over, scored)):
        return chosen
    first = chosen[:OVERTAKEN_ROWS]
    instead, taken_back = _said_instead(scored, first, question.at)
    for old, new in _restated(scored, first[:RESTATED_HITS]).items():
        instead.setdefault(old, {}).setdefault(new, False)
    moved = {place: first[place].score - TAKEN_BACK_LESS for place in taken_back}
    if question.span is None and question.event is None and not asks_for_before(question.text):
        answers = _asked_of_profile(scored, question, first)
        moved = dict.fromkeys(answers, first[0].score) | lifted([each.score for each in first], instead) | moved
    if not moved:
        return chosen
    for place, score in moved.items():
        first[place] = first[place]._replace(score=score, lift=score - first[place].score)
    return sorted(first + chosen[OVERTAKEN_ROWS:], key=lambda each: (-each.score, -each.lift))


def _asked_of_profile(scored: Sequence[Scored], question: Question, first: Sequence[Chosen]) -> list[int]:
    """The places of what tells the values that a question asks for, if it has the words of their key and no others."""
    place_of = {each.record.id: place for place, each in enumerate(first)}
    found: list[int] = []
    for among in scored:
        # Rows that came while the question was being embedded are at the end, and are left to the next question.
        known = among.index.mask(question.at, FACT_LAYERS)[0][: len(among.cover)]
        facts = known & (among.cover >= WHOLE)
        for row in facts.nonzero()[0].tolist():
            fact = among.index.records[row]
            places = [place_of[id] for id in tellers(fact) if id in place_of]
            begun = fact.valid_from is None or fact.valid_from <= question.at
            if places and begun and may_ask_for(question.text, str(fact.data.get("key", ""))):
                found.append(min(places))
    return sorted(found)[:OF_THE_PROFILE_MAX]


def may_be_over(scored: Scored) -> bool:
    """Whether it may hold anything that tells what is no longer so, or that is asked for by a key of the profile."""
    index = scored.index
    return len(index.overtaken) > 0 or scored.turns is not None or index.has_held(FACT_LAYERS)


def _said_instead(
    scored: Sequence[Scored], first: Sequence[Chosen], at: int
) -> tuple[dict[int, dict[int, bool]], list[int]]:
    """For each message that told what is no longer so, the places of what tells how it is now, among `first`.

    With each, whether the question has words of the fact that they are about. And the places of what was taken back,
    if the question is about that.
    """
    place_of = {each.record.id: place for place, each in enumerate(first)}
    instead: dict[int, dict[int, bool]] = {}
    taken_back: list[int] = []
    for place, each in enumerate(first):
        among = scored[each.place]
        for fact, ids in among.index.said_instead(each.record.id, at):
            is_asked = bool(among.words[fact] > 0)
            if ids is None:
                taken_back += [place] if is_asked else []
                continue
            for other in (place_of[id] for id in ids if id in place_of):
                told = instead.setdefault(place, {})
                told[other] = told.get(other, False) or is_asked
    return instead, taken_back


def _restated(scored: Sequence[Scored], first: Sequence[Chosen]) -> dict[int, int]:
    """For what the user told an assistant and later said again, the place of the latest time; places among `first`."""
    said = [
        place
        for place, each in enumerate(first)
        if (turns := scored[each.place].turns) is not None
        and turns.among[each.row]
        and turns.weights == turn_scoring.ASSISTANT
        and scored[each.place].index.talk().user[each.row]
    ]
    if len(said) < 2:
        return {}
    rows = [first[place] for place in said]
    index = scored[rows[0].place].index  # only a user's own partition has messages
    vectors = index.spaces.vectors.matrix(len(index.records))[[each.row for each in rows]]
    told = [Said(each.record.when, each.record.born, each.record.scope.session) for each in rows]
    found = restated([each.score for each in rows], told, np.matmul(vectors, vectors.T))
    return {said[old]: said[new] for old, new in found.items()}
