"""What was learned, without some of the messages that said it: as if they had never been heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.policies import graphs
from recollect.policies.beliefs import believed, in_force
from recollect.policies.facts import Claim, Timeline, decide, text_mark
from recollect.policies.graph_views import Web
from recollect.policies.keys import key_of
from recollect.policies.spells import Telling, of_spell
from recollect.policies.unlearning import Undo, again, resettled, without
from recollect.policies.unlearning_graphs import graph_again, graph_without, learning_again, learning_without
from recollect.records import Record, Scope, Source

CITY = key_of("city")
BLANK = Record("head", "fact", Scope(user="ann"))
NOW = 10_000
UNDO = Undo("u1", NOW, "undone: learned from m1")


def said(value, at, kind="says", **more) -> Claim:
    source = Source(f"m{at}", "s", (0, 4), "user", "rules-1")
    given = {"confidence": 0.8, "status": "learned", "source": source, "text": text_mark(f"{value} {at}")}
    return Claim(CITY, value, at, kind, **(given | more))


def told(value, at, kind="says", **more) -> Claim:
    return Claim(CITY, value, at, kind, **more)


class Place:
    """A head with its past, as a store would keep it."""

    def __init__(self, *claims: Claim) -> None:
        self.head, self.past, self.now = BLANK, [], 1_000
        self.take(*claims)

    def take(self, *claims: Claim) -> None:
        for claim in claims:
            line = decide(Timeline(self.head), claim, self.now)
            past = [spell.with_(data=of_spell(spell.data)) for spell in line.past]
            self.head, self.past = line.head, [*self.past, *past]
            self.now += 1

    def set(self, place) -> Place:
        self.head = place.head or BLANK
        self.past = [spell for spell in place.past if spell is not None]
        return self

    def forget(self, *ids) -> Place:
        return self.set(without(self.head, self.past, by(*ids), NOW)) if self.head.data else self

    def undo(self, *ids, undo=UNDO) -> Place:
        return self.set(without(self.head, self.past, by(*ids), NOW, undo))

    def redo(self, id="u1") -> Place:
        return self.set(again(self.head, self.past, id, NOW))

    def deny(self, claim: Claim) -> Place:
        line = resettled(decide(Timeline(self.head, behind=tuple(self.past)), claim, self.now), self.now)
        self.head, self.past = line.head, [*line.behind, *line.past]
        return self

    @property
    def spells(self):
        return [*self.past, self.head] if self.head.data else []

    def current(self):
        found = in_force(self.spells, NOW, NOW)
        return found[0].data["value"] if found else None

    def intervals(self):
        """Each value with when it held, leaving out those that never held."""
        known = believed(self.spells, NOW)
        return [(s.data["value"], s.valid_from, s.valid_to) for s in known if s.valid_from != s.valid_to]


def by(*ids):
    return lambda telling: telling.message in ids


def test_a_value_that_no_other_message_said_is_gone_and_the_previous_one_holds_again():
    place = Place(said("Rome", 10), said("Oslo", 20)).forget("m20")
    assert place.intervals() == [("Rome", 10, None)]
    assert place.head.content == "city: Rome"
    assert (place.past, "Oslo" in str(place.head.data)) == ([], False)
    assert place.forget("m10").spells == []


def test_what_another_message_also_said_stays_with_that_message_as_its_source():
    place = Place(said("Oslo", 10), said("Oslo", 20)).forget("m10")
    assert place.intervals() == [("Oslo", 20, None)]
    assert place.head.source == Source("m20", "s", None, "user", "rules-1")
    assert (place.head.confidence, place.head.data["seen"]) == (0.8, 1)
    assert "m10" not in str(place.head.data)


def test_a_value_told_outright_stays():
    place = Place(said("Oslo", 10), told("Oslo", 20)).forget("m10")
    assert (place.current(), place.head.source) == ("Oslo", None)


def test_an_end_told_by_a_forgotten_message_is_forgotten():
    assert Place(said("Oslo", 10), said("Oslo", 20, "ends")).forget("m20").intervals() == [("Oslo", 10, None)]
    assert Place(said("Oslo", 10), told("Oslo", 20, "ends")).forget("m20").intervals() == [("Oslo", 10, 20)]


def test_an_end_that_changed_nothing_is_forgotten_too():
    place = Place(said("Oslo", 30), said("", 20, "ends"))
    assert "m20" in str(place.head.data)
    assert "m20" not in str(place.forget("m20").head.data)


def test_forgetting_a_correction_restores_the_value_before_it():
    place = Place(said("Oslo", 10), said("Rome", 20, "corrects", instead_of="Oslo")).forget("m20")
    assert place.intervals() == [("Oslo", 10, None)]
    assert place.head.data["status"] == "learned"
    place.take(said("Oslo", 30))
    assert place.head.data["seen"] == 2


def test_a_split_spell_ends_where_it_would_have_without_the_forgotten_message():
    place = Place(said("Oslo", 10), said("Oslo", 30), said("Rome", 20))
    assert place.forget("m30").intervals() == [("Oslo", 10, 20), ("Rome", 20, None)]


def test_an_undone_value_stays_in_history_and_is_not_learned_again_from_the_same_message():
    place = Place(said("Rome", 10), said("Oslo", 20)).undo("m20")
    assert place.intervals() == [("Rome", 10, None)]
    (kept,) = [spell for spell in place.spells if spell.data["value"] == "Oslo"]
    assert (kept.data["status"], kept.data["reason"]) == ("undone", UNDO.reason)
    place.take(said("Oslo", 20))
    assert place.current() == "Rome"
    place.take(said("Oslo", 40, text=text_mark("Oslo 20")))
    assert place.current() == "Oslo", "another message may say it, in the same words as well"


def test_reverting_an_undo_does_not_make_a_claim_about_earlier_times_current():
    place = Place(said("Rome", 10, valid_from=8), said("Oslo", 20, valid_from=2))
    before = place.intervals()
    assert before == [("Oslo", 2, 8), ("Rome", 8, None)]
    assert place.undo("m20").intervals() == [("Rome", 8, None)]
    assert place.redo().intervals() == before
    place.take(said("Rome", 30))
    assert place.undo("m30").current() == "Rome"


def test_reverting_an_undo_keeps_what_was_said_since():
    place = Place(said("Rome", 10), said("Oslo", 20)).undo("m20")
    place.take(said("Paris", 30))
    assert place.redo().intervals() == [("Rome", 10, 20), ("Oslo", 20, 30), ("Paris", 30, None)]


def test_forgetting_reaches_into_what_an_undo_remembers():
    place = Place(said("Oslo", 10), said("Oslo", 20)).undo("m20").forget("m20")
    assert "m20" not in str(place.head.data)
    assert place.redo().head.data["seen"] == 1
    assert Place(said("Oslo", 10)).undo("m10").forget("m10").spells == []


# ── What was never true ──────────────────────────────────────────────────────────────────────────


def test_a_value_that_ended_only_because_of_a_rejected_one_holds_again():
    place = Place(said("Oslo", 10), said("Rome", 20)).deny(told("Rome", 30, "denies"))
    assert place.intervals() == [("Oslo", 10, None)]
    assert place.head.content == "city: Oslo"
    assert [(spell.data["value"], spell.data["status"]) for spell in place.past] == [("Rome", "rejected")]
    place.take(said("Rome", 20))
    assert place.current() == "Oslo", "it is not learned again from the same text"


def test_until_the_rejection_the_rejected_value_was_believed():
    place = Place(said("Oslo", 10), said("Rome", 20))
    before = place.now - 1
    place.deny(told("Rome", 30, "denies"))
    assert [spell.data["value"] for spell in in_force(place.spells, 25, before)] == ["Rome"]
    assert [spell.data["value"] for spell in in_force(place.spells, 15, before)] == ["Oslo"]


def test_a_value_that_was_told_to_be_over_stays_over_when_the_next_one_is_rejected():
    place = Place(said("Oslo", 10), said("Oslo", 15, "ends"), said("Rome", 20)).deny(told("Rome", 30, "denies"))
    assert (place.current(), place.intervals()) == (None, [("Oslo", 10, 15)])


def test_a_rejected_value_is_rejected_with_the_earlier_start_that_was_told_for_it():
    claims = said("Paris", 5), said("Oslo", 10), said("Oslo", 20, valid_from=7)
    place = Place(*claims).deny(told("Oslo", 30, "denies"))
    assert place.intervals() == [("Paris", 5, None)]


def test_a_corrected_value_is_corrected_with_the_earlier_start_that_was_told_for_it():
    place = Place(said("Oslo", 10), said("Oslo", 20, valid_from=7)).deny(told("Rome", 30, "corrects"))
    assert place.intervals() == [("Rome", 7, None)]


def test_an_earlier_stay_at_a_rejected_value_is_left_alone():
    place = Place(said("Oslo", 10), said("Rome", 20), said("Oslo", 30)).deny(told("Oslo", 40, "denies"))
    assert place.intervals() == [("Oslo", 10, 20), ("Rome", 20, None)]


def test_a_value_that_has_yet_to_begin_can_be_rejected_and_the_present_one_goes_on():
    place = Place(said("Oslo", 10), said("Rome", 20, valid_from=NOW + 5)).deny(told("Rome", 30, "denies"))
    assert [spell.data["value"] for spell in in_force(place.spells, NOW + 10, NOW)] == ["Oslo"]
    assert (place.head.data["value"], place.head.valid_to) == ("Oslo", None)


def test_a_denial_that_is_forgotten_restores_the_value_that_it_denied():
    place = Place(said("Oslo", 10), said("Rome", 20)).deny(said("Rome", 30, "denies"))
    assert place.current() == "Oslo"
    assert place.forget("m30").intervals() == [("Oslo", 10, 20), ("Rome", 20, None)]


# ── Laws ─────────────────────────────────────────────────────────────────────────────────────────

CITIES = st.sampled_from(["Oslo", "Rome", "Paris"])


@st.composite
def heard(draw, kinds=("says",)):
    """Claims in order of arrival, and the ids of some of their messages."""
    times = draw(st.lists(st.integers(1, 90), min_size=1, max_size=7, unique=True))
    claims = [said(draw(CITIES), at, draw(st.sampled_from(kinds))) for at in times]
    gone = draw(st.sets(st.sampled_from([claim.by for claim in claims])))
    return claims, gone


def left_of(claims, gone):
    return [claim for claim in claims if claim.by not in gone]


@given(heard())
def test_forgetting_is_the_same_as_never_having_heard(both):
    claims, gone = both
    assert Place(*claims).forget(*gone).intervals() == Place(*left_of(claims, gone)).intervals()


@given(heard(("says", "says", "ends", "corrects")))
def test_nothing_of_a_forgotten_message_is_left_whatever_it_said(both):
    claims, gone = both
    place = Place(*claims).forget(*gone)
    assert {Telling(*row).message for s in place.spells for row in s.data["tellings"]}.isdisjoint(gone)
    assert not any(f"'{id}'" in str(spell.to_dict()) for id in gone for spell in place.spells)
    values = {spell.data["value"] for spell in place.spells}
    assert values <= {claim.value for claim in left_of(claims, gone)}


@given(heard(("says", "says", "ends")))
def test_rejecting_a_value_is_the_same_as_never_having_heard_it_where_it_held(both):
    claims, _ = both
    place = Place(*claims)
    rejected = place.current()
    if rejected is None:
        return
    place.deny(told(rejected, 95, "denies"))
    denied = [spell for spell in place.spells if spell.data["status"] == "rejected"]
    messages = {Telling(*row).message for spell in denied for row in spell.data["tellings"]}
    assert place.intervals() == Place(*claims).forget(*messages).intervals()


@given(heard(("says", "says", "ends")))
def test_what_is_left_can_be_read_at_any_time_and_added_to(both):
    claims, gone = both
    place = Place(*claims).forget(*gone)
    for at in range(0, 100, 7):
        assert len(in_force(place.spells, at, NOW)) <= 1
    place.take(said("Bergen", 95))
    assert place.current() == "Bergen"


@given(heard(("says", "says", "ends", "corrects")))
def test_an_undo_gives_the_value_that_forgetting_would_and_is_idempotent(both):
    claims, gone = both
    undone = Place(*claims).undo(*gone)
    assert undone.current() == Place(*claims).forget(*gone).current()
    before = undone.spells
    assert undone.undo(*gone).spells == before


@given(heard(("says", "says", "ends", "corrects")))
def test_an_undo_that_is_taken_back_leaves_what_there_was(both):
    claims, gone = both
    place = Place(*claims)
    before = place.intervals()
    assert place.undo(*gone).redo().intervals() == before


@pytest.mark.parametrize("late", ["Oslo", "Paris"])
def test_reverting_an_undo_restores_a_value_heard_late_from_before_a_correction(late):
    place = Place(said("Oslo", 1), said("Rome", 4, "corrects"), said("Oslo", 5), said(late, 3))
    before = place.intervals()
    assert before == [("Rome", 1, 5), ("Oslo", 5, None)], "what was said before the correction was corrected by it"
    assert place.undo("m1").redo().intervals() == before


def test_reverting_an_undo_keeps_a_correction_that_overrules_several_values_heard_late():
    place = Place(said("Oslo", 10), said("Rome", 19, "corrects"), said("Oslo", 17), said("Paris", 14))
    assert place.undo("m10").redo().intervals() == [("Rome", 10, None)]


def test_reverting_an_undo_removes_the_ends_that_were_found_while_it_was_undone():
    place = Place(said("Oslo", 4), said("Rome", 17, "corrects"), said("Oslo", 9), said("Rome", 6))
    assert place.undo("m17").redo().intervals() == [("Rome", 4, None)]


def test_a_value_of_before_stays_in_the_past_when_the_current_one_is_said_again():
    place = Place(said("Rome", 10, valid_from=8), said("Oslo", 20, valid_from=2), said("Rome", 30), said("Oslo", 1))
    assert place.undo("m1").intervals() == [("Oslo", 2, 8), ("Rome", 8, None)]


def test_a_value_stays_with_a_message_that_was_heard_late():
    place = Place(said("Oslo", 11, valid_from=8), said("Oslo", 9))
    assert place.forget("m11").intervals() == [("Oslo", 9, None)]


@pytest.mark.parametrize("ids", [("m1",), ()])
def test_removing_messages_that_said_nothing_changes_nothing(ids):
    place = Place(said("Rome", 10), said("Oslo", 20))
    left = without(place.head, place.past, by(*ids), NOW)
    assert left.head is place.head
    assert left.past == tuple(place.past)


# ── Learnings and the graph ──────────────────────────────────────────────────────────────────────

ANN = Scope(user="ann")


class Everything:
    """As if every id had been looked up: what is not known does not exist."""

    def __contains__(self, id):
        return True


def graph_of(told):
    """The graph of what messages told, in the order given: (message, subject, relation, object)."""
    known = {}
    for at, (message, subject, relation, object) in enumerate(told, start=1):
        sheet = graphs.Sheet(ANN, known, Everything(), at * 10)
        telling = graphs.Telling(at * 10, None, 0.8, Source(message, "s", None, "user", "rules-1"))
        ends = []
        for name in (subject, object):
            entity = graphs.owner(sheet, name)
            ends.append(entity or graphs.tell_entity(sheet, None, name, graphs.THING, (), telling))
        graphs.tell_relation(sheet, ends[0].id, relation, ends[1].id, telling)
        known |= sheet.written
    return known


def seen_in(known):
    web = Web(known.values())
    held = {(each.content, each.valid_from, each.valid_to) for each in web.relations(10_000)}
    return held, {entity.name for entity in web.entities()}


def changed(known, changes):
    after = {**known, **changes}
    return {id: record for id, record in after.items() if record is not None}


PEOPLE = st.sampled_from(["Ana", "Bob"])
PLACES = st.sampled_from(["Oslo", "Rome", "Lima"])
RELATIONS = st.sampled_from(["lives_in", "likes"])
GRAPHS = st.lists(st.tuples(PEOPLE, RELATIONS, PLACES), min_size=1, max_size=6).map(
    lambda rows: [(f"m{place}", *row) for place, row in enumerate(rows)]
)


@given(GRAPHS, st.sets(st.sampled_from([f"m{n}" for n in range(6)])))
def test_a_graph_forgets_what_only_forgotten_messages_told(told, gone):
    known = graph_of(told)
    left = changed(known, graph_without(list(known.values()), by(*gone)))
    rest = [row for row in told if row[0] not in gone]
    expected_held, expected_names = seen_in(graph_of(rest))
    held, names = seen_in(left)
    assert names == expected_names
    assert {content for content, *_ in held} >= {content for content, *_ in expected_held}
    assert not any(f"'{id}'" in str(record.to_dict()) for id in gone for record in left.values())
    assert graph_without(list(left.values()), by(*gone)) == {}, "twice is once"


@given(GRAPHS, st.sets(st.sampled_from([f"m{n}" for n in range(6)])))
def test_an_undo_in_a_graph_can_be_reverted(told, gone):
    known = graph_of(told)
    undone = changed(known, graph_without(list(known.values()), by(*gone), UNDO))
    forgotten = changed(known, graph_without(list(known.values()), by(*gone)))
    assert seen_in(undone) == seen_in(forgotten)
    assert graph_without(list(undone.values()), by(*gone), UNDO) == {}, "twice is once"
    assert seen_in(changed(undone, graph_again(list(undone.values()), "u1"))) == seen_in(known)


def learning(*messages, seen=None):
    data = {"type": "pattern", "seen": seen or len(messages), "sources": list(messages)}
    source = Source(messages[0], "s", None, "user", "rules-1") if messages else None
    return Record("l1", "learning", ANN, "Likes tea.", data, source=source)


@given(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1), st.sets(st.sampled_from("abcdef")))
def test_a_learning_stays_while_one_of_its_messages_does(messages, gone):
    known = learning(*messages)
    left = learning_without(known, by(*gone))
    kept = [id for id in messages if id not in gone]
    assert (left is not None) == bool(kept)
    if left is not None:
        assert (left.data["sources"], left.data["seen"]) == (kept, len(kept))
        assert left.source.message_id in kept
    undone = learning_without(known, by(*gone), UNDO)
    assert (undone.valid_to is None) == bool(kept)
    assert learning_without(undone, by(*gone), UNDO) is undone
    assert learning_again(undone, "u1") == known


def test_a_learning_told_outright_stays():
    assert learning_without(learning("a", seen=2), by("a")).source is None
    assert learning_without(learning("a", seen=1), by("a")) is None
