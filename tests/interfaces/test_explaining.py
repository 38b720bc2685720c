"""Explanations, as people read them: what is in, what is not, and why."""

from __future__ import annotations

import re

from recollect import Memory
from recollect.records import Hit, Leg, Record, Scope, Vector


def _hit(**shares: float) -> Hit:
    legs = {name: Leg(share, 2, share) for name, share in shares.items()}
    record = Record("r1", "long_term", Scope("acme", "ann"), "Tea is at four. " * 9, vector=Vector("m", b"\x01" * 512))
    return Hit(record, 0.5, 3, legs)


def test_a_hit_names_the_legs_that_count_with_the_largest_first():
    told = _hit(words=0.0, recency=0.04, meaning=0.4, importance=0.001, form=-0.03).explain()
    assert told == "0.50 = meaning 0.40 (#2) + recency 0.04 - form 0.03"
    assert _hit().explain() == "0.50"


def test_the_repr_of_a_hit_and_a_record_is_short_and_has_no_vector():
    for thing in (_hit(words=0.5), _hit().record):
        assert len(repr(thing)) < 160
        assert "Tea is at four." in repr(thing) and "x01" not in repr(thing)


async def test_handles_say_whose_they_are():
    async with Memory.open("memory://", worker=False) as memory:
        ann = memory.user("ann", org="acme")
        context = await ann.get_context("tea?", max_tokens=300)
        assert repr(ann) == "<User 'ann' of org 'acme'>"
        assert repr(ann.session("monday")) == "<Session 'monday' of user 'ann', org 'acme'>"
        assert repr(context) == f"Context('tea?', {context.tokens} of 300 tokens, 0 sources)"


async def test_the_tokens_of_an_explanation_add_up_and_each_memory_is_in_or_left_out():
    async with Memory.open("memory://", worker=False) as memory:
        ann = memory.user("ann")
        await ann.add_memories(["Tea is at four."] + [f"Tea number {n} " + "is very good tea " * 60 for n in range(4)])
        context = await ann.session("monday").get_context("When is tea?", max_tokens=200)
        told = context.explain()
    budget = told.partition("found")[0]
    assert budget.startswith(f"{context.tokens} of 200 tokens\n")
    assert sum(int(number) for number in re.findall(r"^  \D+(\d+) tokens", budget, re.M)) == context.tokens
    assert "3 items\n" in budget
    assert "  Tea is at four.\n    in, " in told
    out = told.partition("left out:\n")[2]
    assert out.startswith("  Tea number ") and "knowledge: " in out
