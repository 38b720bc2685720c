"""Pure decisions on how sure a learning is, when it is retired, and which learnings go into a prompt.

A learning gains confidence by being said again or confirmed and loses it by being contradicted. One that
has lost too much is retired, with the reason; nothing is deleted.

Old ones are pruned by a score, which like each of its parts is between 0 and 1:

    score = 0.6 * confidence + 0.2 * freshness + 0.2 * use

Freshness and use are those of `retention.py`. A pattern that was seen once (confidence 0.5), never again
and in no prompt falls below the floor of 0.35 after half a year. A correction (0.75) keeps 0.45 for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from recollect.layers import is_current
from recollect.policies.retention import TOUCHED_AT, freshness, touched, use
from recollect.records import Record, with_data, without_data

FIRST_CONFIDENCE, CORRECTION_CONFIDENCE = 0.5, 0.75
"""A pattern has to be seen again before it counts; what a user corrected counts from the next prompt on."""
SAID_AGAIN = 0.3
"""The share of the doubt that is removed when the same is learned once more."""
CONFIRMED, CONTRADICTED = 0.15, 0.6
"""What a confirmation adds, and what is left after a contradiction."""
RETIRED_BELOW = 0.2
FOR_NEWEST = 3
"""One in so many places of a prompt is for the newest of the learnings that have no place by their use. Being shown is
what counts as a use: those that came first would keep their places, and what was corrected today would not be seen."""
SOURCES_KEPT = 32
"""How many messages a learning remembers, so that each counts once."""


class Shown(NamedTuple):
    """Which learnings go into a prompt: how many at most, and the confidence they must exceed."""

    limit: int = 5
    above: float = 0.7


def said_again(known: Record, again: Record) -> Record:
    """A learning after it was learned once more; unchanged when the same message says it."""
    sources: Sequence[str] = known.data.get("sources", ())
    new = [id for id in again.data.get("sources", ()) if id not in sources]
    if again.data.get("sources") and not new:
        return known
    best = max(known.confidence, again.confidence)
    data = {"seen": known.data.get("seen", 1) + 1, "sources": [*sources, *new][-SOURCES_KEPT:]}
    data[TOUCHED_AT] = max(touched(known), again.created_at)
    outright = () if again.data.get("restates") else ("restates",)
    told = with_data(without_data(known, "retired", *outright), **data)
    return told.with_(confidence=_rounded(best + (1 - best) * SAID_AGAIN), valid_to=None)


def confirmed(known: Record, now: int) -> Record:
    """A learning that turned out right; if it was retired, it is restored."""
    known = without_data(restored(known, now), "restates")
    return known.with_(confidence=_rounded(min(known.confidence + CONFIRMED, 1.0)))


def contradicted(known: Record, now: int) -> Record:
    """A learning that turned out wrong; retired when hardly any confidence is left."""
    lower = known.with_(confidence=_rounded(known.confidence * CONTRADICTED))
    if lower.confidence >= RETIRED_BELOW or not is_current(known, now):
        return lower
    return lower.with_(valid_to=now, data={**known.data, "retired": "contradicted too often"})


def restored(known: Record, now: int) -> Record:
    """A retired learning, restored; pruning starts to count again."""
    again = with_data(without_data(known, "retired"), **{TOUCHED_AT: now})
    if "retired" not in known.data:
        return again
    return again.with_(valid_to=None, confidence=max(known.confidence, RETIRED_BELOW))


def learning_score(record: Record, now: int) -> float:
    """How much a learning is worth keeping, from 0 to 1; the formula is at the top of this file."""
    return round(0.6 * record.confidence + 0.2 * freshness(record, now) + 0.2 * use(record), 6)


def top(learnings: Iterable[Record], now: int, shown: Shown) -> list[Record]:
    """The best learnings: sure enough, the most used first, then the surest, then the newest."""
    return _sure(learnings, now, shown)[: shown.limit]


def for_prompt(learnings: Iterable[Record], now: int, shown: Shown) -> list[Record]:
    """The learnings that go into a prompt: the best, with some places for the newest of the others."""
    sure = _sure(learnings, now, shown)
    kept = shown.limit - shown.limit // FOR_NEWEST
    newest = sorted(sure[kept:], key=lambda each: (-touched(each), each.id))
    return sure[:kept] + newest[: shown.limit - kept]


def _sure(learnings: Iterable[Record], now: int, shown: Shown) -> list[Record]:
    """Those that are sure, without corrections of a fact: the profile says what is true, also when that changes."""
    told = [each for each in learnings if not each.data.get("restates")]
    sure = [each for each in told if each.confidence > shown.above and is_current(each, now)]
    sure.sort(key=lambda each: (-each.data.get("usage_count", 0), -each.confidence, -each.created_at, each.id))
    return sure


def _rounded(confidence: float) -> float:
    return round(confidence, 4)
