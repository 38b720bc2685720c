"""The decisions of the entity graph on plain values, and its pictures."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.interfaces.drawing import DRAWN_MAX, to_dot, to_svg
from recollect.policies import graphs
from recollect.policies.graph_views import Entity, Neighbourhood, Relation, Web
from recollect.policies.graphs import EARLIEST, Sheet, Telling, Unread
from recollect.records import Record, Scope

ANN = Scope("acme", "ann")
SURE = st.floats(0, 1)


class Everything(dict):
    """As if every missing record had been looked up."""

    def __contains__(self, key):
        return True


def sheet(*records, now=100):
    return Sheet(ANN, {record.id: record for record in records}, Everything(), now)


@given(SURE, SURE)
def test_a_second_telling_never_lowers_confidence_and_never_exceeds_certainty(known, again):
    both = graphs.surer(known, again)
    assert max(known, again) - 1e-4 <= both <= 1


@given(st.sampled_from(["person", "city", "place", "thing", "gadget"]), st.sampled_from(["person", "city", "thing"]))
def test_types_go_together_in_both_directions(a, b):
    assert graphs.go_together(a, b) == graphs.go_together(b, a)
    assert graphs.go_together(a, a)
    assert graphs.go_together(a, "thing")


def test_a_name_has_one_id_however_it_is_written():
    assert graphs.name_id(ANN, "Ana  Silva") == graphs.name_id(ANN, " ana silva.")
    assert graphs.name_id(ANN, "Café") == graphs.name_id(ANN, "Cafe\u0301")
    assert graphs.name_id(ANN, "Ana") != graphs.name_id(ANN, "Anna")
    assert graphs.name_id(ANN, "Paris", "city") == graphs.name_id(ANN, "Paris", "place")
    assert graphs.name_id(ANN, "Paris", "city") != graphs.name_id(ANN, "Paris")


def test_a_decision_says_what_it_has_to_read_first():
    with pytest.raises(Unread) as caught:
        graphs.owner(Sheet(ANN, {}, (), 0), "Ana", "person")
    assert set(caught.value.ids) == {graphs.name_id(ANN, "Ana"), graphs.name_id(ANN, "Ana", "person")}


def test_putting_back_what_is_already_there_writes_nothing():
    page = sheet()
    ana = graphs.tell_entity(page, None, "Ana", "person", (), Telling())
    again = sheet(ana)
    graphs.name_entity(again, ana, ["Ana"])
    assert again.changes() is None


def test_a_relation_rests_on_entities_that_it_does_not_write():
    page = sheet()
    ends = [graphs.tell_entity(page, None, name, "thing", (), Telling()) for name in ("Ana", "Bob")]
    later = sheet(*(end.with_(version=1) for end in ends))
    graphs.tell_relation(later, ends[0].id, "knows", ends[1].id, Telling(5))
    changes = later.changes(["m1"])
    assert changes.needs == ("m1", ends[0].id, ends[1].id)
    (relation,) = changes.put
    assert set(graphs.rests_on(relation)) == {ends[0].id, ends[1].id}


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_relation_holds_from_its_start_up_to_but_not_including_its_end(start, length):
    record = Record("r", "relation", ANN, valid_from=start, valid_to=start + length)
    assert [at for at in range(50) if graphs.holds(record, at)] == list(range(start, start + length))
    assert graphs.is_void(record) == (length == 0)


def test_a_relation_without_a_known_start_has_always_held():
    record = Record("r", "relation", ANN, valid_to=10)
    assert graphs.began(record) == EARLIEST
    assert graphs.holds(record, -(10**12)) and not graphs.holds(record, 10)


def test_circular_merges_end_somewhere():
    data = {"names": ["x"], "type": "thing"}
    one = Record("1", "entity", ANN, data=data | {"merged_into": "2", "absorbed": ["2"]})
    two = Record("2", "entity", ANN, data=data | {"merged_into": "1", "absorbed": ["1"]})
    web = Web([one, two])
    assert web.entity("1").name == "x"
    assert web.relations(None) == []


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────

HOSTILE = 'Rex <script>"&\\ \u202e\x1b[31m'


def drawn(count=3, name=HOSTILE):
    entities = tuple(Entity(f"id{place}", f"{name} {place}", "person", ("also",)) for place in range(count))
    pairs = [(place, (place + 1) % count) for place in range(count)] + [(0, 0), (1 % count, 0)]
    relations = tuple(
        Relation(f"r{a}{b}", entities[a].id, "works_at", entities[b].id, (entities[a].name, entities[b].name))
        for a, b in pairs
    )
    return Neighbourhood(entities, relations)


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_a_picture_is_valid_stable_and_shows_every_entity(count):
    picture = to_svg(drawn(count))
    root = ElementTree.fromstring(picture)
    assert picture == to_svg(drawn(count))
    circles = root.findall(".//{*}circle")
    assert len(circles) == count
    side = float(root.get("width"))
    assert all(0 < float(each.get(axis)) < side for each in circles for axis in ("cx", "cy"))
    assert len({(each.get("cx"), each.get("cy")) for each in circles}) == count


def test_names_stay_text_in_a_picture():
    for picture in (to_svg(drawn()), to_dot(drawn())):
        assert "\x1b" not in picture and "\u202e" not in picture
    assert "<script" not in to_svg(drawn())
    for quoted in re.findall(r'label=("(?:[^"\\]|\\.)*")', to_dot(drawn())):
        assert quoted.count("\n") == 0
    assert to_dot(drawn(2)).count("->") == 3, "what is said of two in one direction is one arrow"


def test_an_empty_and_an_oversized_graph_can_be_drawn():
    assert ElementTree.fromstring(to_svg(Neighbourhood())) is not None
    assert to_dot(Neighbourhood()).startswith("digraph")
    many = ElementTree.fromstring(to_svg(drawn(DRAWN_MAX + 20, "n")))
    assert len(many.findall(".//{*}circle")) == DRAWN_MAX
