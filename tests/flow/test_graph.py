"""The entity graph: names, relations in time, merges that can be undone, and what is learned from messages."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.enrich import Draft, Found
from recollect.errors import Conflict, NotFound, TooLarge, ValidationError
from recollect.filters import Filter
from recollect.graph import ALIASES_MAX, APPLIED_PUTS, DEPTH_MAX, NAME_CHARS, Graph
from recollect.layers import LAYERS
from recollect.ledger import Ledger
from recollect.policies import graphs
from recollect.records import Changes, Record, Scope, Source, payload_of
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import ManualClock

ANN = Scope("acme", "ann")


@pytest.fixture
def graph(ledger):
    return Graph(ledger, ANN)


async def lines(graph, *arguments, **named):
    return [relation.content for relation in await graph.relations(*arguments, **named)]


def names(neighbourhood):
    return [entity.name for entity in neighbourhood.entities]


# ── entities and their names ─────────────────────────────────────────────────────────────────────


async def test_the_same_name_or_alias_is_the_same_entity(graph):
    ana = await graph.add_entity("Ana", type="person", aliases=["Anita"])
    assert (await graph.add_entity("  ANA ")).id == ana.id
    assert (await graph.add_entity("anita", metadata={"team": "red"})).id == ana.id
    again = await graph.add_entity("Ana Maria", aliases=["Ana"])
    assert again.id == ana.id
    assert again.aliases == ("Anita", "Ana Maria")
    assert again.metadata == {"team": "red"}
    assert [entity.id for entity in await graph.entities()] == [ana.id]
    assert await graph.find("ana maria") == again == await graph.get(ana.id)
    assert await graph.find("Bob") is None


async def test_an_entity_and_a_relation_read_as_lines(graph, ledger):
    await graph.relate("Ana", "lives_in", "Oslo")
    await graph.add_entity("Ana", type="person", aliases=["Anita"])
    records = [record async for record in ledger.walk(Filter(ANN.partition, layers=("entity", "relation")))]
    assert {record.content for record in records if record.content} == {
        "Ana (person), also Anita",
        "Oslo",
        "Ana lives in Oslo",
    }


async def test_things_of_different_types_may_share_a_name(graph):
    place = await graph.add_entity("Paris", type="city")
    person = await graph.add_entity("Paris", type="person")
    assert place.id != person.id
    assert (await graph.find("paris")).id == place.id
    assert (await graph.find("paris", type="person")).id == person.id
    assert (await graph.add_entity("Paris", type="place")).id == place.id, "a city is a place"
    assert (await graph.add_entity("Paris")).id == place.id
    assert {entity.type for entity in await graph.entities()} == {"city", "person"}
    assert [entity.id for entity in await graph.entities("person")] == [person.id]


async def test_an_unknown_type_is_filled_in_later(graph):
    await graph.relate("Ana", "knows", "Bob")
    assert (await graph.find("Ana")).type == "thing"
    await graph.add_entity("Ana", type="person")
    assert (await graph.find("Ana")).type == "person"


async def test_a_name_of_another_entity_cannot_become_an_alias(graph):
    await graph.add_entity("Ana")
    await graph.add_entity("Bob")
    with pytest.raises(Conflict) as caught:
        await graph.add_alias("Ana", "bob")
    assert caught.value.field == "alias"
    with pytest.raises(Conflict) as caught:
        await graph.add_entity("Ana", aliases=["Bob"])
    assert caught.value.field == "aliases"
    assert (await graph.add_alias("Ana", "Anita")).aliases == ("Anita",)
    assert (await graph.add_alias("Anita", "Ana")).aliases == ("Anita",)


async def test_the_user_exists_before_anything_is_said(graph, ledger):
    assert names(await graph.neighbours("user")) == ["user"]
    assert await graph.entities() == [], "reading writes nothing"
    await graph.relate("user", "knows", "Ana")
    await graph.add_entity("User", type="software")
    assert [(entity.name, entity.type) for entity in await graph.entities()] == [("user", "person"), ("Ana", "thing")]
    with pytest.raises(ValidationError) as caught:
        await graph.add_alias("Ana", "User")
    assert caught.value.field == "alias"
    with pytest.raises(ValidationError) as caught:
        await Graph(ledger, Scope("acme")).relate("user", "knows", "Ana")
    assert caught.value.field == "subject"


async def test_a_question_names_entities_by_any_of_their_names(graph):
    await graph.add_entity("Ana Silva", aliases=["Anita"])
    await graph.add_entity("Al")
    await graph.add_entity("A. Silva")
    await graph.merge("Ana Silva", "A. Silva")

    async def named(text):
        return [entity.name for entity in await graph.named_in(text)]

    assert await named("Did Al meet anita?") == ["Al", "Ana Silva"]
    assert await named("What did a. silva say, et al") == ["Ana Silva"]
    assert await named("Nobody, not even Silva") == []


async def test_graphs_of_users_and_orgs_stay_apart(graph, ledger):
    await graph.relate("Ana", "knows", "Bob")
    for scope in (Scope("acme"), Scope("acme", "bob"), Scope("other", "ann")):
        other = Graph(ledger, scope)
        assert await other.entities() == []
        with pytest.raises(NotFound):
            await other.relate((await graph.find("Ana")).id, "knows", "Carl")
        assert await other.entities() == []


# ── relations in time ────────────────────────────────────────────────────────────────────────────


async def test_repeating_a_relation_raises_its_confidence(graph):
    first = await graph.relate("Ana", "knows", "Bob", confidence=0.6)
    again = await graph.relate("ana", "knows", "BOB", confidence=0.8)
    assert again.id == first.id
    assert again.confidence == 0.848
    assert again.valid_from == first.valid_from
    assert await lines(graph) == ["Ana knows Bob"]


async def test_where_only_one_relation_can_hold_the_previous_one_ends_and_is_kept(graph, clock):
    await graph.relate("Ana", "lives_in", "Oslo", valid_from="2020-01-01")
    await graph.relate("Ana", "lives_in", "Bergen")
    await graph.relate("Ana", "speaks", "Norwegian")
    await graph.relate("Ana", "speaks", "Sami")
    assert await lines(graph, "Ana") == ["Ana lives in Bergen", "Ana speaks Norwegian", "Ana speaks Sami"]
    assert await lines(graph, at="2021-06-01") == ["Ana lives in Oslo"]
    assert await lines(graph, at="2019-12-31") == []
    oslo = (await graph.relations(ended=True))[0]
    assert (oslo.content, oslo.valid_to, oslo.reason) == ("Ana lives in Oslo", clock(), "another one began")


async def test_someone_who_moves_back_has_lived_there_twice(graph, clock):
    for place in ("Oslo", "Bergen", "Oslo"):
        await graph.relate("Ana", "lives_in", place)
        clock.advance(days=365)
    start = clock() - 3 * 365 * 86_400_000
    held = [await lines(graph, at=start + year * 365 * 86_400_000 + 1) for year in range(3)]
    assert held == [["Ana lives in Oslo"], ["Ana lives in Bergen"], ["Ana lives in Oslo"]]
    assert len(await graph.relations(ended=True)) == 3


async def test_a_relation_told_late_does_not_end_what_came_after(graph):
    await graph.relate("Ana", "works_at", "Initech", valid_from="2022-01-01")
    await graph.relate("Ana", "works_at", "Acme", valid_from="2018-01-01")
    await graph.relate("Ana", "works_at", "Hooli", valid_to="2017-01-01")
    assert await lines(graph) == ["Ana works at Initech"]
    assert await lines(graph, at="2019-01-01") == ["Ana works at Acme"]
    assert await lines(graph, at="2010-01-01") == ["Ana works at Hooli"]
    assert await lines(graph, at="2017-06-01") == []


async def test_a_relation_is_ended_with_a_reason(graph, clock):
    relation = await graph.relate("Ana", "knows", "Bob", valid_from="2020-01-01")
    ended = await graph.end_relation(relation.id, "2024-01-01", "they fell out")
    assert (ended.reason, ended.to_dict()["valid_to"]) == ("they fell out", "2024-01-01T00:00:00Z")
    assert await lines(graph) == []
    assert await lines(graph, at="2023-01-01") == ["Ana knows Bob"]
    assert await graph.end_relation(relation.id) == ended, "ending what has ended changes nothing"
    with pytest.raises(ValidationError) as caught:
        await graph.end_relation(relation.id, "2019-01-01")
    assert caught.value.field == "at"
    for id in ("nothing", (await graph.find("Ana")).id):
        with pytest.raises(NotFound):
            await graph.end_relation(id)
    await graph.relate("Ana", "knows", "Bob")
    assert await lines(graph) == ["Ana knows Bob"]
    assert await lines(graph, at="2024-06-01") == []


async def test_neighbours_are_followed_as_far_as_asked(graph):
    for one, other in ("ab", "bc", "cd", "de", "ef", "ca"):
        await graph.relate(one, "knows", other)
    assert names(await graph.neighbours("a")) == ["a", "b", "c"]
    assert names(await graph.neighbours("a", depth=2)) == ["a", "b", "c", "d"]
    assert names(await graph.neighbours("f", depth=4)) == ["f", "e", "d", "c", "b", "a"]
    assert names(await graph.neighbours("a", depth=4, limit=3)) == ["a", "b", "c"]
    near = await graph.neighbours("a")
    assert [relation.content for relation in near.relations] == ["a knows b", "b knows c", "c knows a"]
    assert len((await graph.whole()).relations) == 6
    assert (await graph.neighbours("a")).to_dict()["entities"][0]["name"] == "a"


# ── merges ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_merged_entity_is_seen_through_the_one_it_was_merged_into(graph):
    await graph.add_entity("Ana", type="person", aliases=["Anita"])
    await graph.relate("Ana", "knows", "Bob")
    await graph.relate("A. Silva", "works_at", "Acme")
    await graph.relate("A. Silva", "knows", "Bob")
    await graph.relate("A. Silva", "knows", "Ana")
    merge = await graph.merge("Anita", "A. Silva", reason="the same badge")
    assert merge.kept.aliases == ("Anita", "A. Silva")
    assert (await graph.get(merge.id)).merged_into == merge.kept.id
    assert await graph.find("a. silva") == merge.kept
    assert await lines(graph) == ["Ana knows Bob", "Ana works at Acme"]
    assert names(await graph.neighbours("A. Silva")) == ["Ana", "Bob", "Acme"]
    assert [entity.name for entity in await graph.entities()] == ["Ana", "Bob", "Acme"]


async def test_undoing_a_merge_leaves_what_was_told_since_with_the_kept_entity(graph):
    await graph.relate("Ana", "lives_in", "Oslo")
    await graph.relate("Silva", "lives_in", "Bergen")
    merge = await graph.merge("Ana", "Silva")
    assert await lines(graph) == ["Ana lives in Bergen"], "one of them holds, the one that began last"
    await graph.relate("Silva", "lives_in", "Paris")
    await graph.add_alias("Silva", "Annie")
    assert await lines(graph) == ["Ana lives in Paris"]
    undone = await graph.undo_merge(merge)
    assert (undone.kept.aliases, undone.other.merged_into) == (("Annie",), None)
    assert sorted(await lines(graph)) == ["Ana lives in Paris", "Silva lives in Bergen"]
    with pytest.raises(NotFound):
        await graph.undo_merge("Silva")


async def test_merges_of_merges_are_undone_one_by_one(graph):
    for name in "abc":
        await graph.relate(name, "knows", "x")
    await graph.merge("b", "c")
    await graph.merge("a", "c")
    assert (await graph.find("c")).aliases == ("b", "c")
    await graph.undo_merge("c")
    assert (await graph.find("b")).name == "a"
    assert (await graph.find("c")).name == "c"
    await graph.undo_merge("b")
    assert sorted(await lines(graph)) == ["a knows x", "b knows x", "c knows x"]


async def test_impossible_merges_are_refused(graph):
    await graph.add_entity("Ana", aliases=["Anita"])
    with pytest.raises(ValidationError) as caught:
        await graph.merge("Ana", "Anita")
    assert caught.value.field == "other"
    with pytest.raises(ValidationError) as caught:
        await graph.merge("Ana", "user")
    assert caught.value.field == "other"
    with pytest.raises(NotFound):
        await graph.merge("Ana", "Nobody")
    with pytest.raises(NotFound):
        await graph.undo_merge("Anita")
    assert (await graph.merge("user", "Ana")).kept.aliases == ("Ana", "Anita")


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


async def test_many_writers_at_once_lose_nothing(ledger):
    async def write(number):
        graph = Graph(ledger, ANN)
        await graph.add_entity("Ana", aliases=[f"Ana {number}"])
        await graph.relate("user", "knows", f"Person {number}")
        await graph.relate("Ana", "lives_in", f"City {number}")

    await asyncio.gather(*(write(number) for number in range(12)))
    graph = Graph(ledger, ANN)
    assert len((await graph.find("Ana")).aliases) == 12
    assert len(await graph.relations("user")) == 12
    assert len(await graph.relations("Ana")) == 1
    assert len(await graph.relations("Ana", ended=True)) == 12


# ── what is learned from messages ────────────────────────────────────────────────────────────────


def message(number=0, trust="trusted", when=None):
    scope = Scope(ANN.org, ANN.user, "bot", "s1")
    return Record(f"m{number}", "conversation", scope, "…", {"role": "user"}, created_at=when or 0, trust=trust)


def told(key, value, *, layer="relation", on=None, **more):
    draft = Draft(layer, key, value, more.pop("confidence", 0.8), (0, 5), **more)
    return Found(on or message(), draft)


async def learn(graph, ledger, *found):
    await ledger.commit(Changes(ANN.partition, put=tuple({each.message.id: each.message for each in found}.values())))
    changes, later = await graph.apply(found, "rules-1")
    await ledger.commit(changes)
    return changes, later


async def test_what_a_message_says_is_learned_with_its_source(graph, ledger):
    changes, later = await learn(
        graph,
        ledger,
        told("person", "Ana", layer="entity", data={"aliases": ["Anita"]}),
        told("Lives in", "Oslo", subject="Anita", data={"object_type": "city"}),
        told("works_at", "Acme", valid_from=1_000, valid_to=2_000),
        told("theme", "dark", layer="preference"),
    )
    assert later == () and changes.needs == ("m0",)
    oslo, acme = await graph.relations(ended=True)
    assert (oslo.content, oslo.confidence, oslo.valid_from) == ("Ana lives in Oslo", 0.8, 0)
    assert (acme.content, acme.valid_from, acme.valid_to) == ("user works at Acme", 1_000, 2_000)
    assert oslo.source == Source("m0", "s1", (0, 5), "user", "rules-1")
    assert (await graph.find("Oslo")).type == "city"


async def test_rereading_a_message_changes_nothing(graph, ledger):
    found = [told("lives_in", "Oslo"), told("person", "Ana", layer="entity"), told("lives_in", "Rome", corrects=True)]
    await ledger.commit(Changes(ANN.partition, put=(message(),)))
    first, _ = await graph.apply(found, "rules-1")
    await ledger.commit(first)
    assert await graph.apply(found, "rules-2") == (Changes(ANN.partition), ())
    assert await lines(graph) == ["user lives in Rome"]


async def test_only_trusted_messages_teach(graph):
    found = [told("lives_in", "Oslo", on=message(trust=trust)) for trust in ("untrusted", "quarantined")]
    assert await graph.apply(found, "rules-1") == (Changes(ANN.partition), ())


async def test_a_relation_that_no_longer_holds_ends_and_one_that_never_held_is_withdrawn(graph, ledger):
    await learn(graph, ledger, told("lives_in", "Oslo"), told("works_at", "Acme"), told("owns", "a boat"))
    later = message(1, when=5_000)
    await learn(
        graph,
        ledger,
        told("lives_in", "", on=later, ends=True),
        told("owns", "a boat", on=later, ends=True),
        told("owns", "a plane", on=later, ends=True),
        told("works_at", "Initech", on=later, corrects=True, instead_of="Acme"),
    )
    assert await lines(graph) == ["user works at Initech"]
    assert await lines(graph, at=4_999) == ["user lives in Oslo", "user owns a boat"]
    assert await graph.find("a plane") is None


async def test_an_end_is_understood_through_a_merge(graph, ledger):
    await graph.relate("Silva", "lives_in", "Bergen", valid_from=0)
    await graph.add_entity("Ana")
    await graph.merge("Ana", "Silva")
    await learn(graph, ledger, told("lives_in", "Bergen", subject="Ana", ends=True, on=message(when=7_000)))
    assert await lines(graph) == []
    assert await lines(graph, at=6_999) == ["Ana lives in Bergen"]


async def test_a_draft_that_does_not_fit_is_left_out_alone(graph, ledger):
    await graph.add_entity("Bob")
    await learn(
        graph,
        ledger,
        told("lives_in", "x" * 200),
        told("!!", "Oslo"),
        told("knows", "Ana", confidence=7.0),
        told("person", "Ana", layer="entity", data={"aliases": ["Bob", "Anita"]}),
        told("knows", "Carl"),
    )
    assert await lines(graph) == ["user knows Carl"]
    assert (await graph.find("Ana")).aliases == ("Anita",), "a machine does not take another's name away"


async def test_many_findings_are_learned_in_portions(graph, ledger):
    found = [told("knows", f"Person {number}") for number in range(50)]
    rounds = 0
    while found:
        changes, found = await learn(graph, ledger, *found)
        assert len(changes.put) <= APPLIED_PUTS
        rounds += 1
    assert rounds > 1
    assert len(await graph.relations("user")) == 50


async def test_nothing_is_learned_from_a_message_that_is_gone(graph, ledger):
    changes, _ = await graph.apply([told("lives_in", "Oslo")], "rules-1")
    with pytest.raises(Conflict) as caught:
        await ledger.commit(changes)
    assert caught.value.field == "needs"


# ── bad input ────────────────────────────────────────────────────────────────────────────────────

BAD = [
    ("add_entity", ("",), {}, "name"),
    ("add_entity", (None,), {}, "name"),
    ("add_entity", ("a\x00b",), {}, "name"),
    ("add_entity", ("\ud800",), {}, "name"),
    ("add_entity", ("Ana",), {"type": "Not A Type"}, "type"),
    ("add_entity", ("Ana",), {"aliases": "Anita"}, "aliases"),
    ("add_entity", ("Ana",), {"confidence": 2}, "confidence"),
    ("add_entity", ("Ana",), {"metadata": {"user_id": "x"}}, "metadata"),
    ("add_entity", ("Ana",), {"source": "m1"}, "source"),
    ("relate", ("Ana", "Lives In", "Oslo"), {}, "relation"),
    ("relate", ("Ana", "*", "Oslo"), {}, "relation"),
    ("relate", ("Ana", "knows", 5), {}, "object"),
    ("relate", ("Ana", "knows", "Bob"), {"valid_from": "2020-01-02", "valid_to": "2020-01-01"}, "valid_to"),
    ("relate", ("Ana", "knows", "Bob"), {"valid_from": "soon"}, "valid_from"),
    ("find", ("",), {}, "name"),
    ("neighbours", ("user",), {"depth": DEPTH_MAX + 1}, "depth"),
    ("neighbours", ("user",), {"depth": True}, "depth"),
    ("neighbours", ("user",), {"limit": 501}, "limit"),
    ("end_relation", ("x\n",), {}, "id"),
]


@pytest.mark.parametrize(("verb", "arguments", "named", "field"), BAD)
async def test_bad_input_is_refused_by_name_and_nothing_is_written(graph, verb, arguments, named, field):
    with pytest.raises(ValidationError) as caught:
        await getattr(graph, verb)(*arguments, **named)
    assert caught.value.field == field
    assert await graph.entities() == []


async def test_input_that_is_too_large_is_refused(graph):
    await graph.add_entity("Ana", aliases=[f"Ana {number}" for number in range(ALIASES_MAX)])
    for call, field in (
        (graph.add_entity("x" * (NAME_CHARS + 1)), "name"),
        (graph.add_entity("Bob", aliases=["x"] * (ALIASES_MAX + 1)), "aliases"),
        (graph.add_alias("Ana", "One more"), "aliases"),
        (graph.relate("Ana", "r" * 65, "Bob"), "relation"),
    ):
        with pytest.raises(TooLarge) as caught:
            await call
        assert caught.value.field == field
    assert len(await graph.entities()) == 1
    await graph.add_entity("x" * NAME_CHARS)


async def test_records_imported_without_their_parts_break_nothing(graph, ledger):
    torn = [
        Record(graphs.name_id(ANN, "Ana"), "entity", ANN, "Ana"),
        Record("r", "relation", ANN, "Ana knows", {"subject": "x"}),
        Record("loop", "entity", ANN, data={"names": ["L"], "type": "thing", "merged_into": "loop"}),
    ]
    await ledger.commit(Changes(ANN.partition, put=tuple(torn)))
    assert (await graph.find("Ana")) is None
    assert await graph.relations() == []
    await graph.relate("Ana", "knows", "Bob")
    assert await lines(graph) == ["Ana knows Bob"]


# ── compared with a naive model ──────────────────────────────────────────────────────────────────

NAMES = "abcd"
NAME = st.sampled_from(NAMES)
STEP = st.one_of(
    st.tuples(st.just("relate"), NAME, st.just("lives_in"), NAME),
    st.tuples(st.just("relate"), NAME, st.just("knows"), NAME),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("merge"), NAME, NAME),
    st.tuples(st.just("undo"), st.integers(0, 9)),
)
STEPS = st.lists(STEP, min_size=10, max_size=30)


class Naive:
    """What holds as a set, copied whole after every step; merges as a map."""

    def __init__(self):
        self.into = {}
        self.since = {}
        self.told = {}

    def root(self, name):
        while name in self.into:
            name = self.into[name]
        return name

    def relate(self, subject, relation, object, at):
        subject, object = self.root(subject), self.root(object)
        if relation == "lives_in":
            self.since = {
                key: at for key, at in self.since.items() if key[:2] != (subject, relation) or key[2] == object
            }
        self.since.setdefault((subject, relation, object), at)

    def seen(self, at):
        """What holds at a time between the entities as they are merged now."""
        last = {}
        told = self.told.get(at, {})
        for subject, relation, object in sorted(told, key=told.get):
            ends = self.root(subject), self.root(object)
            if ends[0] != ends[1] or subject == object:
                last[(ends[0], relation, "" if relation == "lives_in" else ends[1])] = (ends[0], relation, ends[1])
        return set(last.values())


async def play(steps):
    clock = ManualClock(1_000)
    graph, naive = Graph(Ledger(InMemoryStore(), clock, LAYERS), ANN), Naive()
    for name in NAMES:
        await graph.add_entity(name)
    for kind, *details in steps:
        now = clock.advance(milliseconds=1)
        await step(graph, naive, now, kind, *details)
        naive.told[now] = dict(naive.since)
    return graph, naive


async def step(graph, naive, now, kind, *details):
    if kind == "relate":
        naive.relate(*details, now)
        await graph.relate(*details)
    elif kind == "end" and naive.since:
        subject, relation, object = list(naive.since)[details[0] % len(naive.since)]
        del naive.since[subject, relation, object]
        ends = (graphs.name_id(ANN, name) for name in (subject, object))
        await graph.end_relation(graphs.relation_id(next(ends), relation, next(ends)))
    elif kind == "merge":
        kept, other = map(naive.root, details)
        if kept == other:
            with pytest.raises(ValidationError):
                await graph.merge(*details)
        else:
            await graph.merge(*details)
            naive.into[other] = kept
    elif kind == "undo" and naive.into:
        other = list(naive.into)[details[0] % len(naive.into)]
        del naive.into[other]
        await graph.undo_merge(other)


@given(STEPS)
@settings(max_examples=100)
def test_a_graph_agrees_with_a_naive_model_at_every_time(steps):
    async def check():
        graph, naive = await play(steps)
        for at in naive.told:
            held = await graph.relations(at=at)
            assert {(each.names[0], each.relation, each.names[1]) for each in held} == naive.seen(at)
            assert len(held) == len(naive.seen(at))
        for name in NAMES:
            entity = await graph.find(name)
            assert entity.name == naive.root(name)
            assert {entity.name, *entity.aliases} == {each for each in NAMES if naive.root(each) == entity.name}
        assert {entity.name for entity in await graph.entities()} == {naive.root(name) for name in NAMES}

    asyncio.run(check())


@given(STEPS, NAME, NAME)
@settings(max_examples=60)
def test_undoing_a_merge_leaves_every_record_as_it_was(steps, kept, other):
    async def check():
        graph, naive = await play(steps)
        if naive.root(kept) == naive.root(other):
            return
        before = await payloads(graph)
        merge = await graph.merge(kept, other)
        changed = {id for id, payload in (await payloads(graph)).items() if before[id] != payload}
        assert changed == {merge.id, merge.kept.id}, "relations are not rewritten"
        await graph.undo_merge(merge)
        assert await payloads(graph) == before

    asyncio.run(check())


async def payloads(graph):
    where = Filter(ANN.partition, layers=("entity", "relation", "past"))
    return {record.id: payload_of(record) async for record in graph._ledger.walk(where)}


PERIOD = st.tuples(st.sampled_from("ABC"), st.integers(0, 12), st.one_of(st.none(), st.integers(1, 8)))


@given(st.lists(PERIOD, max_size=8))
@settings(max_examples=100)
def test_an_exclusive_relation_never_holds_twice_and_never_without_being_told(periods):
    async def check():
        graph = Graph(Ledger(InMemoryStore(), ManualClock(), LAYERS), ANN)
        for place, start, length in periods:
            end = None if length is None else start + length
            await graph.relate("x", "lives_in", place, valid_from=start, valid_to=end)
        for at in range(22):
            held = await graph.relations(at=at)
            assert len(held) <= 1
            for each in held:
                assert any(
                    each.names[1] == place and start <= at and (length is None or at < start + length)
                    for place, start, length in periods
                )

    asyncio.run(check())


# ── The profile and the graph ────────────────────────────────────────────────────────────────────


async def of_user(memory):
    return sorted((each.relation, each.names[1]) for each in await memory.user("ann").graph.relations("user"))


async def test_a_relation_ends_when_the_fact_that_says_the_same_is_corrected_or_ended(memory, clock):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "I work at Acme. My wife is Clara. I live in Lisbon.")
    await memory.work()
    assert await of_user(memory) == [("lives_in", "Lisbon"), ("partner", "Clara"), ("works_at", "Acme")]
    clock.advance(days=1)
    await ann.facts.correct("employer", "Initech")
    await ann.facts.end("city")
    await ann.session("s").add_message("user", "I got divorced.")
    await memory.work()
    assert await of_user(memory) == []
    (wrong,) = [each for each in await ann.graph.relations(ended=True) if each.relation == "works_at"]
    assert wrong.valid_to == wrong.valid_from, "it never was so"


async def test_a_relation_holds_again_with_its_fact(memory, clock):
    ann = memory.user("ann")
    chat = ann.session("s")
    await chat.add_message("user", "My wife is Clara. I live in Lisbon.")
    await memory.work()
    clock.advance(days=1)
    divorced = await chat.add_message("user", "I got divorced.")
    await ann.facts.end("city")
    await memory.work()
    assert await of_user(memory) == []
    await ann.undo(message_id=divorced.id)
    await ann.add_fact("city", "Lisbon")
    await memory.work()
    assert ("partner", "Clara") in await of_user(memory)
