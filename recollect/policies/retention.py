"""Which kept memories are worth their room, and which pruning would retire.

    score = 0.5 * importance * confidence + 0.3 * freshness + 0.2 * use

    freshness = 0.5 ** (age / 90 days)      age since it was written or last used, whichever is later
    use       = 1 - 0.5 ** uses             the first use counts most

Every part lies between 0 and 1, so the score does too. Something important (1.0) that nobody used
for years keeps 0.5; something trivial (0.1) falls below 0.2 after three months, unless it is used.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from recollect.layers import is_current
from recollect.records import DAY_MS, Partition, Record

IMPORTANCE_WEIGHT = 0.5
FRESHNESS_WEIGHT = 0.3
USE_WEIGHT = 0.2

HALF_LIFE_MS = 90 * DAY_MS
"""Freshness halves in a season: what was not touched for a year has almost none."""


Score = Callable[[Record, int], float]
"""How much a record is worth keeping at a time, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """A record that pruning would retire, and why."""

    record: Record
    reason: str


def is_pinned(record: Record) -> bool:
    """Whether someone said that this should stay."""
    return record.data.get("pinned") is True or record.metadata.get("pinned") is True


TOUCHED_AT = "touched_at"
"""In the data of a record: when it was last told again, confirmed or restored. It then counts as new."""


def touched(record: Record) -> int:
    """When a record was written, told again or last used. Event times do not count: an old event may be news."""
    times = (record.data.get(name) for name in ("last_used", TOUCHED_AT))
    return max(record.created_at, *(time for time in times if isinstance(time, int)), 0)


def retention_score(record: Record, now: int) -> float:
    """How much a record is worth keeping, from 0 to 1; the formula is at the top of this file."""
    worth = record.importance * record.confidence
    parts = IMPORTANCE_WEIGHT * worth + FRESHNESS_WEIGHT * freshness(record, now) + USE_WEIGHT * use(record)
    return round(parts, 6)


def freshness(record: Record, now: int) -> float:
    """From 1, when it was just written or used, down to 0; it halves every 90 days."""
    return math.exp2(-max(now - touched(record), 0) / HALF_LIFE_MS)


def use(record: Record) -> float:
    """From 0 up to 1; the first use counts most."""
    uses = record.data.get("usage_count")
    return 1 - math.exp2(-max(uses, 0)) if isinstance(uses, int) else 0.0


def to_prune(
    records: Iterable[Record],
    now: int,
    *,
    keep_max: int,
    score_min: float,
    age_min_ms: int,
    score_of: Score = retention_score,
) -> list[Pruned]:
    """What pruning would retire, lowest scores first; pinned and ended records never.

    A record is retired if it was not touched for `age_min_ms` and scores below `score_min`. A user who then
    still has more than `keep_max` records loses those with the lowest scores, however young. Other
    layers have scores of their own.
    """
    by_user: dict[Partition, list[tuple[float, Record]]] = defaultdict(list)
    for record in records:
        if is_current(record, now):
            by_user[record.scope.partition].append((score_of(record, now), record))
    found = [pair for known in by_user.values() for pair in _of_user(known, now, keep_max, score_min, age_min_ms)]
    return [pruned for _, pruned in sorted(found, key=lambda pair: _order(pair[0], pair[1].record))]


def _order(score: float, record: Record) -> tuple[float, int, str]:
    return score, record.created_at, record.id


def _of_user(
    scored: list[tuple[float, Record]], now: int, keep_max: int, score_min: float, age_min_ms: int
) -> list[tuple[float, Pruned]]:
    excess = len(scored) - keep_max
    found: list[tuple[float, Pruned]] = []
    rest: list[tuple[float, Record]] = []
    for score, record in scored:
        age = now - touched(record)
        if is_pinned(record):
            continue
        if age >= age_min_ms and score < score_min:
            reason = f"score {score:.2f} is below {score_min:.2f} and it was not touched for {age // DAY_MS} days"
            found.append((score, Pruned(record, reason)))
        else:
            rest.append((score, record))
    rest.sort(key=lambda pair: _order(*pair))
    for score, record in rest[: max(excess - len(found), 0)]:
        reason = f"more than {keep_max} records, and score {score:.2f} is among the lowest"
        found.append((score, Pruned(record, reason)))
    return found
