"""What pruning would retire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.policies.retention import Pruned, is_pinned, retention_score, to_prune
from recollect.records import DAY_MS, Record, Scope

NOW = 1_000 * DAY_MS


def memory(id: str, days_old: int = 0, *, user: str = "ann", **fields: Any) -> Record:
    return Record(id, "long_term", Scope(user=user), "text", created_at=NOW - days_old * DAY_MS, **fields)


def prune(records: list[Record], **changes: Any) -> list[Pruned]:
    return to_prune(records, NOW, **{"keep_max": 1_000, "score_min": 0.2, "age_min_ms": 30 * DAY_MS, **changes})


def ids(pruned: list[Pruned]) -> list[str]:
    return [entry.record.id for entry in pruned]


def test_the_score_follows_its_formula() -> None:
    record = memory("a", days_old=90, importance=0.8, confidence=0.5, data={"usage_count": 1})
    assert retention_score(record, NOW) == pytest.approx(0.5 * 0.8 * 0.5 + 0.3 * 0.5 + 0.2 * 0.5)


def test_important_young_and_used_records_score_higher() -> None:
    base = retention_score(memory("a", 100, importance=0.4), NOW)
    assert retention_score(memory("a", 100, importance=0.5), NOW) > base
    assert retention_score(memory("a", 50, importance=0.4), NOW) > base
    assert retention_score(memory("a", 100, importance=0.4, data={"usage_count": 1}), NOW) > base
    assert retention_score(memory("a", 100, importance=0.4, data={"last_used": NOW}), NOW) > base


def test_old_unimportant_unused_records_are_retired_lowest_first() -> None:
    records = [
        memory("old", 400, importance=0.2),
        memory("older", 800, importance=0.1),
        memory("important", 400, importance=0.9),
        memory("used", 400, importance=0.2, data={"usage_count": 3}),
        memory("young", 10, importance=0.0),
    ]
    pruned = prune(records)
    assert ids(pruned) == ["older", "old"]
    assert pruned[1].reason == "score 0.11 is below 0.20 and it was not touched for 400 days"


@pytest.mark.parametrize("fields", [{"data": {"pinned": True}}, {"metadata": {"pinned": True}}])
def test_a_pinned_record_is_never_retired(fields: dict[str, Any]) -> None:
    assert prune([memory("a", 900, importance=0.0, **fields)], keep_max=0) == []


def test_a_record_that_has_already_ended_is_left_alone() -> None:
    assert prune([memory("a", 900, importance=0.0, valid_to=NOW - 1)], keep_max=0) == []


def test_above_a_users_cap_the_lowest_scores_go_however_young() -> None:
    records = [memory(f"ann{number}", 1, importance=number / 10) for number in range(5)]
    records += [memory("bob", 1, user="bob", importance=0.0)]
    pruned = prune(records, keep_max=3)
    assert ids(pruned) == ["ann0", "ann1"]
    assert pruned[0].reason.startswith("more than 3 records")


def test_a_score_exactly_at_the_bound_is_kept() -> None:
    record = memory("a", 400, importance=0.2)
    score = retention_score(record, NOW)
    assert prune([record], score_min=score) == []
    assert ids(prune([record], score_min=score + 0.001)) == ["a"]


def test_what_goes_for_its_score_makes_room_under_the_cap() -> None:
    old = [memory(f"old{number}", 800, importance=0.0) for number in range(2)]
    young = [memory(f"young{number}", 1, importance=0.0) for number in range(4)]
    assert ids(prune(old + young, keep_max=4)) == ["old0", "old1"]
    assert ids(prune(old + young, keep_max=3)) == ["old0", "old1", "young0"]


@st.composite
def memories(draw: st.DrawFn) -> list[Record]:
    return [
        memory(
            f"m{number}",
            draw(st.integers(-5, 900)),
            user=draw(st.sampled_from(["ann", "bob"])),
            importance=draw(st.floats(0, 1)),
            metadata={"pinned": draw(st.booleans())},
        )
        for number in range(draw(st.integers(0, 12)))
    ]


@given(memories(), st.integers(0, 12))
def test_pruning_keeps_to_the_cap_keeps_the_pinned_and_ignores_order(records: list[Record], keep_max: int) -> None:
    pruned = prune(records, keep_max=keep_max)
    assert pruned == prune(records[::-1], keep_max=keep_max)
    assert not any(is_pinned(entry.record) for entry in pruned)
    gone = set(ids(pruned))
    assert len(gone) == len(pruned)
    for user in ("ann", "bob"):
        rest = [record for record in records if record.scope.user == user and record.id not in gone]
        assert len(rest) <= max(keep_max, sum(map(is_pinned, rest)))
    assert all(0 <= retention_score(record, NOW) <= 1 for record in records)
