"""How old a sample of records is, and how many of them came in lately: what operators are shown of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from recollect.records import DAY_MS

GROWING = ("conversation", "fact", "episodic", "long_term")
"""Layers whose growth is meaningful."""
USERS_READ, RECORDS_READ = 25, 1_000
"""A sample has at most this many users, and this many of the newest records in each of these layers."""
AGES = (("a day", 1), ("a week", 7), ("a month", 30), ("a quarter", 91), ("a year", 365))
"""Upper limits of the age groups, in days; a last group holds what is older."""


def ages(times: Iterable[int], now: int) -> dict[str, int]:
    """How many of these times lie how far back, the latest group first.

    >>> ages([0, 90 * DAY_MS, 99 * DAY_MS], 100 * DAY_MS)["up to a month"]
    1
    """
    counts = Counter(_group(now - time) for time in times)
    names = [f"up to {name}" for name, _ in AGES] + ["older"]
    return {name: counts[place] for place, name in enumerate(names)}


def _group(age_ms: int) -> int:
    return next((place for place, (_, days) in enumerate(AGES) if age_ms <= days * DAY_MS), len(AGES))
