"""What happens to a fact as more is said about it: the order does not matter, and no value is lost."""

from __future__ import annotations

import doctest
import math
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.policies import facts
from recollect.policies.beliefs import believed, faded, in_force, next_said
from recollect.policies.facts import Claim, Timeline, decide, text_mark
from recollect.policies.keys import key_of
from recollect.policies.spells import EVER, is_of_before, is_sure, of_spell, start_of
from recollect.records import DAY_MS, Record, Scope, Source

CITY = key_of("city")
BLANK = Record("head", "fact", Scope(user="ann"))


def said(value: str, at: int, kind: str = "says", **more) -> Claim:
    """A claim learned from a message of that time; each message has its own id."""
    given = {"confidence": 0.8, "status": "learned", "source": Source(f"m{at}"), "text": text_mark(f"{value} {at}")}
    return Claim(CITY, value, at, kind, **(given | more))


def told(value: str, at: int, kind: str = "says", **more) -> Claim:
    return Claim(CITY, value, at, kind, **more)


class Place:
    """A head with its past, as a store would keep it; each claim is taken one moment after the last."""

    def __init__(self, *claims: Claim, now: int = 1_000) -> None:
        self.head = BLANK
        self.past: list[Record] = []
        self.now = now
        for claim in claims:
            self.take(claim)

    def take(self, claim: Claim) -> bool:
        """Take a claim; return whether anything changed."""
        line = Timeline(self.head)
        decided = decide(line, claim, self.now)
        changed = decided is not line
        self.head = decided.head
        self.past += decided.past
        self.now += 1
        return changed

    @property
    def spells(self) -> list[Record]:
        return [*self.past, self.head] if self.head.data else []

    def current(self) -> str | None:
        """The value that holds now."""
        found = in_force(self.spells, self.now, self.now)
        assert len(found) <= 1, "a key has one value at a time"
        return found[0].data["value"] if found else None

    def intervals(self, known_at: int | None = None) -> list[tuple[str, int | None, int | None]]:
        """Each value with when it held, as known at that time."""
        known = believed(self.spells, self.now if known_at is None else known_at)
        return [(each.data["value"], each.valid_from, each.valid_to) for each in known]

    def history(self) -> list[tuple[str, int | None, int | None, str]]:
        known = believed(self.spells, self.now)
        return [(each.data["value"], each.valid_from, each.valid_to, each.data["status"]) for each in known]


# ── One claim after another ──────────────────────────────────────────────────────────────────────


def held(place: Place) -> list[tuple[str, int | None, int | None]]:
    """The values that were true at some time."""
    return [(value, start, end) for value, start, end in place.intervals() if start != end]


def test_another_value_ends_the_previous_one_and_keeps_it():
    place = Place(said("Rome", 10), said("Oslo", 20))
    assert place.current() == "Oslo"
    assert place.intervals() == [("Rome", 10, 20), ("Oslo", 20, None)]
    assert place.head.content == "city: Oslo"


def test_repeating_a_value_raises_confidence_but_never_to_certainty():
    place = Place(said("Oslo", 10))
    levels = [place.head.confidence]
    for at in range(11, 40):
        place.take(said(" oslo.", at))
        levels.append(place.head.confidence)
    assert levels == sorted(levels)
    assert levels[1] == pytest.approx(0.8 + 0.2 * 0.3)
    assert levels[-1] == 0.99
    assert (place.head.data["seen"], place.head.data["value"]) == (30, "Oslo")
    assert place.intervals() == [("Oslo", 10, None)]


def test_a_value_that_arrives_late_goes_into_the_past():
    place = Place(said("Oslo", 20), said("Rome", 10), said("Bergen", 30), said("Paris", 25))
    assert place.current() == "Bergen"
    assert place.intervals() == [("Rome", 10, 20), ("Oslo", 20, 25), ("Paris", 25, 30), ("Bergen", 30, None)]


def test_a_value_said_between_two_mentions_of_another_splits_it():
    place = Place(said("Oslo", 10), said("Oslo", 30), said("Rome", 20))
    assert place.intervals() == [("Oslo", 10, 20), ("Rome", 20, 30), ("Oslo", 30, None)]


def test_the_same_value_at_an_earlier_time_moves_its_start_back():
    place = Place(said("Oslo", 20), said("Oslo", 10))
    assert place.intervals() == [("Oslo", 10, None)]
    assert place.intervals(known_at=1_000) == [("Oslo", 20, None)], "which was not known at first"
    assert Place(said("Oslo", 20), said("Oslo", 30, valid_from=5)).intervals() == [("Oslo", 5, None)]


def test_a_value_said_to_have_ended_is_no_longer_current():
    place = Place(said("Oslo", 10), said("Oslo", 20, "ends"))
    assert place.current() is None
    assert place.intervals() == [("Oslo", 10, 20)]
    assert Place(said("Oslo", 10), said("", 20, "ends")).intervals() == [("Oslo", 10, 20)]


def test_a_value_that_ended_can_begin_again():
    place = Place(said("Oslo", 10), said("Oslo", 20, "ends"), said("Oslo", 30))
    assert place.current() == "Oslo"
    assert place.intervals() == [("Oslo", 10, 20), ("Oslo", 30, None)]


def test_a_former_value_is_history_and_leaves_the_current_one_alone():
    place = Place(said("Oslo", 10), said("Rome", 20, "ends"))
    assert place.current() == "Oslo"
    assert place.intervals() == [("Rome", None, 10), ("Oslo", 10, None)]
    nothing_else = Place(said("Rome", 20, "ends"))
    assert nothing_else.current() is None
    assert nothing_else.intervals() == [("Rome", None, 20)]
    place.take(said("Rome", 25, "ends"))
    assert place.intervals() == [("Rome", None, 10), ("Oslo", 10, None)], "told again it is no news"


def test_a_value_holds_again_after_others_that_held_in_between():
    rome = told("Rome", 20, "ends", valid_from=20, valid_to=30)
    paris = told("Paris", 25, "ends", valid_from=25, valid_to=40)
    for claims in [(told("Oslo", 10), rome), (rome, told("Oslo", 10))]:
        place = Place(*claims)
        assert place.current() == "Oslo"
        assert place.intervals() == [("Oslo", 10, 20), ("Rome", 20, 30), ("Oslo", 30, None)]
    place.take(paris)
    assert place.intervals() == [("Oslo", 10, 20), ("Rome", 20, 25), ("Paris", 25, 40), ("Oslo", 40, None)]
    moved = Place(told("Oslo", 10), rome, told("Bergen", 50))
    assert moved.intervals() == [("Oslo", 10, 20), ("Rome", 20, 30), ("Oslo", 30, 50), ("Bergen", 50, None)]
    assert moved.intervals(known_at=1_000) == [("Oslo", 10, None)]


def test_a_closed_spell_does_not_touch_a_later_one_of_the_same_value():
    place = Place(said("Oslo", 100), said("Oslo", 200, "ends", valid_from=10, valid_to=15))
    assert place.current() == "Oslo"
    assert place.intervals() == [("Oslo", 10, 15), ("Oslo", 100, None)]


def test_a_loosely_told_value_is_over_even_if_it_ended_before_it_was_told():
    told_on_friday, quit_last_week = 100 * DAY_MS, 93 * DAY_MS
    later = told_on_friday + 60_000
    place = Place(said("Oslo", told_on_friday), said("Oslo", later, "ends", valid_to=quit_last_week), now=later)
    assert place.current() is None
    assert place.intervals() == [("Oslo", told_on_friday, later)]
    assert not place.take(said("Oslo", later, "ends", valid_to=quit_last_week)), "told again it is no news"
    long_ago = Place(said("Oslo", told_on_friday), said("Oslo", later, "ends", valid_to=DAY_MS), now=later)
    assert long_ago.current() == "Oslo", "that was another stay"
    begun = said("Oslo", told_on_friday, valid_from=95 * DAY_MS)
    again = Place(begun, said("Oslo", later, "ends", valid_to=quit_last_week), now=later)
    assert again.current() == "Oslo", "it began after that end"


def test_an_end_without_a_value_says_nothing_if_no_beginning_is_known():
    place = Place()
    assert not place.take(said("", 10, "ends"))
    assert place.spells == []


def test_a_corrected_value_was_never_true_but_was_believed():
    place = Place(said("Oslo", 10), said("Bergen", 20, "corrects"))
    assert place.intervals() == [("Oslo", 10, 10), ("Bergen", 10, None)]
    assert place.history()[0][3] == "corrected"
    assert [each.data["value"] for each in in_force(place.spells, 15, 1_000)] == ["Oslo"]
    assert [each.data["value"] for each in in_force(place.spells, 15, 1_001)] == ["Bergen"]


def test_what_was_said_before_a_correction_and_is_heard_after_it_was_never_true():
    oslo, correction, later = said("Oslo", 1), said("Rome", 4, "corrects"), said("Paris", 5)
    in_time = Place(oslo, said("Oslo", 3), correction, later)
    late = Place(oslo, correction, later, said("Oslo", 3))
    assert held(late) == held(in_time) == [("Rome", 1, 5), ("Paris", 5, None)]


def test_a_time_before_the_current_value_is_past_in_whichever_order_it_is_heard():
    rome, oslo = said("Rome", 6, valid_from=3), said("Oslo", 10, valid_from=1)
    assert held(Place(rome, oslo)) == held(Place(oslo, rome)) == [("Oslo", 1, 3), ("Rome", 3, None)]
    again = said("Rome", 20)
    assert held(Place(rome, again, oslo)) == held(Place(rome, oslo, again)) == [("Oslo", 1, 3), ("Rome", 3, None)]


def test_correcting_a_value_that_is_not_current_is_an_ordinary_claim():
    place = Place(said("Rome", 10), said("Bergen", 20, "corrects", instead_of="Oslo"))
    assert place.intervals() == [("Rome", 10, 20), ("Bergen", 20, None)]
    named = Place(said("Oslo", 10), said("Bergen", 20, "corrects", instead_of="oslo"))
    assert named.intervals() == [("Oslo", 10, 10), ("Bergen", 10, None)]


def test_a_pinned_value_is_not_replaced_by_a_learned_one():
    place = Place(said("Oslo", 10), told("Oslo", 15, "pins", confidence=0.5), said("Rome", 20))
    assert place.current() == "Oslo"
    assert place.history()[-1] == ("Rome", 20, 20, "not_taken")
    place.take(said("", 30, "ends"))
    place.take(said("Bergen", 40, "corrects"))
    assert place.current() == "Oslo"
    place.take(told("Bergen", 50))
    assert place.current() == "Bergen", "what is told outright replaces it"


def test_a_confirmed_or_corrected_value_holds_against_what_was_said_before_and_yields_to_what_is_said_later():
    for vouched in (told("Oslo", 15, "confirms"), told("Oslo", 15, "corrects", status="confirmed", instead_of="Osl")):
        place = Place(said("Osl" if vouched.kind == "corrects" else "Oslo", 10), vouched)
        place.take(said("Rome", 12))
        assert place.current() == "Oslo", "a message from before, read later"
        assert place.history()[-1][::3] == ("Rome", "not_taken")
        place.take(said("Rome", 20, confidence=0.4))
        assert place.current() == "Oslo", "what is unsure"
        place.take(said("Rome", 30))
        assert place.current() == "Rome", "the user has moved"
        assert {("Oslo", 10, 30), ("Rome", 30, None)} <= set(place.intervals())


def test_an_unpinned_value_is_replaced_like_any_other():
    place = Place(said("Oslo", 10), told("Oslo", 12, "pins"), told("Oslo", 14, "unpins"), said("Rome", 20))
    assert place.current() == "Rome"


def test_an_unsure_claim_does_not_replace_a_sure_one_and_yields_to_it():
    place = Place(said("Oslo", 10), said("Rome", 20, confidence=0.4))
    assert place.current() == "Oslo"
    assert place.history()[-1][3] == "not_taken"
    assert Place(said("Rome", 20, confidence=0.4), said("Oslo", 10)).current() == "Oslo"
    assert Place(said("Rome", 20, confidence=0.4)).current() == "Rome", "better than nothing"


def test_a_rejected_value_is_not_learned_again_from_the_same_text():
    again = said("Oslo", 10)
    place = Place(again, told("Oslo", 20, "denies"))
    assert place.current() is None
    assert place.history() == [("Oslo", 10, 10, "rejected")]
    assert not place.take(again), "the same message"
    place.take(replace(again, at=30, source=Source("m30")))
    assert place.current() is None, "another message with the same words"
    assert not place.take(replace(again, at=30, source=Source("m30"))), "who said it is remembered once"
    assert place.history() == [("Oslo", 10, 10, "rejected")]
    assert place.take(said("Oslo", 40))
    assert place.current() == "Oslo", "another text may say it"


def test_a_rejection_is_remembered_after_other_values_have_come():
    once = said("Oslo", 10)
    place = Place(once, told("Oslo", 20, "denies"), said("Rome", 30))
    place.take(replace(once, at=40, source=Source("m40")))
    assert place.current() == "Rome"
    assert [each[0] for each in place.history()] == ["Oslo", "Rome"]


def test_confidence_in_a_changeable_fact_halves_with_its_half_life():
    place = Place(said("Oslo", 0))
    half_life_ms = CITY.half_life_days * DAY_MS
    assert faded(place.head, 0) == 0.8
    assert faded(place.head, half_life_ms) == pytest.approx(0.4)
    assert faded(place.head, -5) == 0.8
    steady = Place(replace(said("Ann", 0), key=key_of("name")))
    assert faded(steady.head, 100 * half_life_ms) == 0.8


def test_a_head_remembers_a_limited_number_of_marks_and_ends():
    place = Place(*(said(f"City {at}", at, kind) for at in range(200) for kind in ("says", "ends")))
    data = place.head.data
    assert (len(data["applied"]), len(data["ends"])) == (facts.MARKS_KEPT, facts.ENDS_KEPT)
    assert "ends" not in of_spell(data)


# ── Laws ─────────────────────────────────────────────────────────────────────────────────────────

CITIES = st.sampled_from(["Oslo", "Rome", "Paris"])
KINDS = st.sampled_from(["says", "says", "says", "ends", "corrects"])
SURE = st.just(0.8)
CONFIDENCES = st.sampled_from([0.3, 0.45, 0.6, 0.9])


@st.composite
def claims(draw, kinds=KINDS, confidences=SURE):
    """Claims from messages, each with its own time."""
    times = draw(st.lists(st.integers(1, 90), min_size=1, max_size=7, unique=True))
    return [said(draw(CITIES), at, draw(kinds), confidence=draw(confidences)) for at in sorted(times)]


@st.composite
def shuffled(draw, kinds=KINDS, confidences=SURE):
    ordered = draw(claims(kinds, confidences))
    return ordered, draw(st.permutations(ordered))


@given(shuffled())
def test_any_order_of_arrival_gives_the_same_current_value(both):
    ordered, arrived = both
    assert Place(*arrived).current() == Place(*ordered).current()


@given(shuffled(st.just("says"), CONFIDENCES))
def test_any_order_of_sure_and_unsure_claims_gives_the_same_current_value(both):
    ordered, arrived = both
    assert Place(*arrived).current() == Place(*ordered).current()


@given(shuffled(st.just("says")))
def test_without_ends_the_current_value_is_the_one_said_last(both):
    ordered, arrived = both
    assert Place(*arrived).current() == ordered[-1].value


@given(shuffled(confidences=CONFIDENCES))
def test_history_never_loses_a_value(both):
    ordered, arrived = both
    assert {value for value, _, _ in Place(*arrived).intervals()} == {claim.value for claim in ordered}


@given(shuffled(confidences=CONFIDENCES))
def test_taking_the_same_messages_again_changes_nothing(both):
    place = Place(*both[1])
    before = place.spells
    assert [place.take(claim) for claim in both[0]] == [False] * len(both[0])
    assert place.spells == before


@given(shuffled(confidences=CONFIDENCES), st.integers(0, 100))
def test_at_any_time_a_key_has_at_most_one_value(both, as_of):
    place = Place(*both[1])
    for known_at in range(999, place.now):
        assert len(in_force(place.spells, as_of, known_at)) <= 1


@given(shuffled(confidences=CONFIDENCES))
def test_what_was_believed_at_a_time_can_be_told_at_any_later_time(both):
    place = Place()
    then: dict[int, list[tuple[str, int | None, int | None]]] = {}
    for claim in both[1]:
        place.take(claim)
        then[place.now - 1] = place.intervals(place.now - 1)
    for known_at, intervals in then.items():
        assert place.intervals(known_at) == intervals


def test_nothing_was_believed_before_it_was_said():
    assert Place(said("Oslo", 10)).intervals(known_at=999) == []


def test_the_examples_of_the_module_run():
    assert doctest.testmod(facts).failed == 0


# ── Many values ──────────────────────────────────────────────────────────────────────────────────

SPELLS = st.lists(
    st.tuples(
        st.sampled_from("abc"),  # the value
        st.integers(0, 6),  # first said
        st.integers(0, 3),  # last said, after that
        st.one_of(st.none(), st.integers(0, 9)),  # since when
        st.booleans(),  # whether it is sure
        st.sampled_from(["learned", "stated"]),
    ),
    max_size=12,
)


def spell(value, first, more, since, sure, status):
    data = {"key": "city", "value": value, "first_seen": first, "last_seen": first + more, "status": status}
    told = data | ({"sure_at": first} if sure else {})
    return Record("f", "fact", Scope("default", "ann"), data=told, valid_from=since, created_at=first)


@given(SPELLS)
def test_what_was_said_next_is_found_as_if_each_value_were_compared_with_all_others(told):
    standing = [spell(*each) for each in told]

    def is_later(other, one):
        said = other.data["first_seen"] > one.data["first_seen"] and is_sure(other) >= is_sure(one)
        return said and other.data["value"] != one.data["value"]

    expected, held = [None] * len(standing), []
    for place in sorted(range(len(standing)), key=lambda place: -standing[place].data["first_seen"]):
        one = standing[place]
        after = [other for other, over in held if over > start_of(one) and is_later(other, one)]
        expected[place] = min(after, key=lambda other: other.data["first_seen"], default=None)
        if expected[place] is None or start_of(expected[place]) >= start_of(one):
            over = min((start_of(other) for other in standing if is_of_before(one, other)), default=math.inf)
            held.append((one, over))
    assert all(found is known for found, known in zip(next_said(standing), expected, strict=True))


def test_a_thousand_values_of_one_key_take_little_more_than_ten_times_the_work_of_a_hundred():
    def calls(count):
        spells = [spell(f"v{at}", at, 0, at, True, "stated") for at in range(count)]
        seen = Counter()
        sys.setprofile(lambda frame, event, what: seen.update([event]))
        try:
            assert len(believed(spells, EVER)) == count
        finally:
            sys.setprofile(None)
        return seen["call"]

    assert calls(1_000) < 15 * calls(100)
