"""Which hits come up to what they have overtaken, decided with plain values."""

from __future__ import annotations

import numpy as np
import pytest

from recollect.overtaken import Overtaken
from recollect.policies.overtaken import (
    Former,
    Said,
    asks_for_before,
    former_of,
    lifted,
    restated,
    said_instead,
    tellers,
)
from recollect.policies.spells import Telling
from recollect.records import BLANK, DAY_MS, Record


def fact(id: str, value: str, *messages: str, until: int | None = None, layer: str = "fact") -> Record:
    tellings = [list(Telling(each, "s", 1, 1, 1.0, "rules", "")) for each in messages]
    data = {"key": "city", "value": value, "status": "learned", "tellings": tellings}
    if layer == "past":
        data = {"of": "head", "layer": "fact", "data": data}
    return BLANK.with_(id=id, layer=layer, data=data, valid_to=until)


def test_what_is_far_behind_is_lifted_only_if_the_question_is_surely_about_it():
    assert lifted([0.9, 0.5], {0: {1: False}}) == {}
    assert lifted([0.9, 0.6], {0: {1: False}}) == {1: 0.9}
    assert lifted([0.9, 0.5], {0: {1: True}}) == {1: 0.9}


def test_nothing_is_lifted_where_something_current_is_already_before():
    assert lifted([0.9, 0.8, 0.7], {1: {0: False, 2: True}}) == {}


def test_scores_below_zero_lift_nothing():
    assert lifted([-0.1, -0.2], {0: {1: True}}) == {}


def said(*days: int, session: str = "") -> list[Said]:
    """Statements of these days, each in a session of its own unless one is named."""
    return [Said(day * DAY_MS, (day, 0), session or f"day {day}") for day in days]


def test_the_newest_of_three_statements_is_the_current_one():
    assert restated([0.8, 0.78, 0.76], said(1, 2, 3), np.ones((3, 3), np.float32)) == {0: 2, 1: 2}


def test_an_older_statement_never_overtakes_a_newer_one():
    assert restated([0.8, 0.78], said(2, 1), np.ones((2, 2), np.float32)) == {}


def test_a_weaker_match_or_another_subject_does_not_restate():
    assert restated([0.8, 0.5], said(1, 2), np.ones((2, 2), np.float32)) == {}
    assert restated([0.8, 0.8], said(1, 2), np.eye(2, dtype=np.float32)) == {}


def test_what_follows_at_once_in_the_same_session_does_not_restate():
    first, soon = Said(0, (1, 0), "s"), Said(60_000, (2, 0), "s")
    assert restated([0.8, 0.8], [first, soon], np.ones((2, 2), np.float32)) == {}
    assert restated([0.8, 0.8], [first, soon._replace(session="t")], np.ones((2, 2), np.float32)) == {0: 1}
    assert restated([0.8, 0.8], said(1, 2, session="s"), np.ones((2, 2), np.float32)) == {0: 1}


@pytest.mark.parametrize("question", ["Where was I living before?", "My old address?", "What did I use to drive?"])
def test_questions_for_how_things_were(question):
    assert asks_for_before(question)


@pytest.mark.parametrize("question", ["Where do I live?", "What did I say my address is?", "Who is my doctor?"])
def test_questions_for_how_things_are(question):
    assert not asks_for_before(question)


def test_a_fact_that_somebody_else_wrote_without_a_value_is_no_former_value():
    assert former_of(BLANK.with_(id="odd", layer="fact", valid_to=5)) is None
    assert said_instead(BLANK.with_(id="odd", layer="fact"), Former("odd", "Oslo", 5), "m1", 9) == ()
    assert list(tellers(BLANK.with_(id="odd", layer="fact"))) == ["odd"]


def test_a_past_value_is_noted_by_the_messages_that_told_it_until_its_record_goes():
    held = Overtaken()
    held.note(fact("past-1", "Oslo", "m1", "m2", until=50, layer="past"))
    held.note(fact("head", "Lyon", "m3"))
    assert [each.value for each in held.by("m2")] == ["Oslo"]
    assert [each.fact for each in held.by("m1")] == ["head"]
    assert not held.by("m3"), "what holds has not ended"
    held.note(fact("past-1", "Oslo", "m1", until=50, layer="past"))
    assert not held.by("m2"), "it was forgotten that this message told it"
    held.drop("past-1")
    assert not held.by("m1") and not len(held)
