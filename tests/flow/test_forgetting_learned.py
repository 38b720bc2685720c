"""What was learned goes with the messages that said it, and stays if other messages said it too."""

from __future__ import annotations

import pytest

from recollect.errors import NotFound, Unavailable, ValidationError
from recollect.filters import Filter
from recollect.graph import Graph
from recollect.learnings import Learnings
from recollect.policies import graphs
from recollect.privacy import erase_org
from recollect.profile import Facts
from recollect.records import Changes, Partition, Record, Scope
from recollect.unlearning import Unlearning

ANN = Scope("default", "ann")


async def everything(memory, user="ann", org="default"):
    return [record async for record in memory._flow.ledger.walk(Filter(Partition(org, user)))]


async def holds(memory, word, user="ann"):
    """Whether a word appears anywhere in what is stored for a user."""
    return word in str([record.to_dict() for record in await everything(memory, user)])


@pytest.fixture
async def ann(memory):
    return memory.user("ann")


@pytest.fixture
async def facts(memory):
    return Facts(memory._flow.ledger, ANN)


@pytest.fixture
async def graph(memory):
    return Graph(memory._flow.ledger, ANN)


async def say(memory, session, text, **more):
    """Have the user say something, and learn everything from it."""
    message = await memory.user("ann").session(session).add_message("user", text, **more)
    await memory.work()
    return message


async def current(facts, key):
    return [fact.value for fact in await facts.get(key)]


# ── Facts ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "key", "relations"),
    [
        ("I live in Oslo.", "city", []),
        ("I work at Globex.", "employer", []),
        ("I was born in Ghent.", "hometown", []),
        ("I have a dog called Rex and a cat named Mia.", "pet", ["user pet Mia"]),
        ("My sister Ana is a nurse. My sister Eva is a vet.", "sibling", ["user sister Eva"]),
    ],
)
async def test_a_fact_goes_with_the_relation_that_says_the_same(memory, ann, facts, graph, said, key, relations):
    await say(memory, "s", said)
    first = (await facts.get(key))[0]
    assert len(await graph.relations()) == len(relations) + 1
    receipt = await ann.forget(first.id)
    assert receipt.forgotten == {"fact": 1, "relation": 1}
    await memory.work()
    assert [relation.content for relation in await graph.relations()] == relations


async def test_a_city_goes_with_all_the_places_that_it_was_and_an_old_one_goes_alone(memory, ann, facts, graph, clock):
    await say(memory, "s", "I live in Oslo.")
    clock.advance(days=10)
    await say(memory, "s", "I moved to Lyon.")
    old = next(each for each in await facts.history("city") if each.value == "Oslo")
    assert (await ann.forget(old.id)).forgotten == {"fact": 1, "relation": 1}
    assert [each.content for each in await graph.relations()] == ["user lives in Lyon"]
    await say(memory, "s", "I moved to Turin.")
    (city,) = await facts.get("city")
    assert (await ann.forget(city.id)).forgotten["relation"] == 2
    assert not await graph.relations()


async def test_a_relation_that_somebody_stated_by_hand_stays_when_a_fact_is_forgotten(memory, ann, facts, graph):
    await graph.relate("user", "lives_in", "Oslo")
    await ann.add_fact("city", "Oslo")
    (city,) = await facts.get("city")
    assert (await ann.forget(city.id)).forgotten == {"fact": 1}
    assert [each.content for each in await graph.relations()] == ["user lives in Oslo"]


async def test_a_fact_goes_with_the_only_message_that_said_it(memory, ann, facts):
    told = await say(memory, "s", "I live in Lisbon and my name is Xylo.")
    assert await current(facts, "city") == ["Lisbon"]
    receipt = await ann.forget(told.id)
    assert receipt.forgotten["fact"] >= 2
    assert await facts.list() == []
    assert not await holds(memory, "Lisbon")
    assert not await holds(memory, told.id)
    assert await everything(memory) == []
    assert await ann.search_memory("Where does the user live?") == []


async def test_a_fact_that_another_message_said_stays_with_that_message(memory, ann, facts):
    first = await say(memory, "a", "I live in Lisbon.")
    second = await say(memory, "b", "As I said, I live in Lisbon.")
    await ann.forget(first.id)
    (fact,) = await facts.get("city")
    assert (fact.value, fact.source_message_id, fact.span, fact.seen) == ("Lisbon", second.id, None, 1)
    assert not await holds(memory, first.id)
    await ann.session("b").delete()
    assert not await holds(memory, "Lisbon")


async def test_the_previous_value_holds_again(memory, ann, facts, clock):
    await say(memory, "a", "I live in Lisbon.")
    clock.advance(days=1)
    moved = await say(memory, "b", "I live in Oslo.")
    clock.advance(days=1)
    assert await current(facts, "city") == ["Oslo"]
    await ann.forget(moved.id)
    await memory.work()
    assert await current(facts, "city") == ["Lisbon"]
    assert [(fact.value, fact.valid_to) for fact in await facts.history("city")] == [("Lisbon", None)]
    assert not await holds(memory, "Oslo")
    assert "Lisbon" in (await ann.session("b").get_context("Where do I live?")).system


async def test_the_history_of_a_fact_forgets_too(memory, ann, facts, clock):
    first = await say(memory, "a", "I live in Lisbon.")
    clock.advance(days=1)
    await say(memory, "b", "I live in Oslo.")
    await ann.forget(first.id)
    assert not await holds(memory, "Lisbon")
    assert [fact.value for fact in await facts.history("city")] == ["Oslo"]


async def test_what_was_told_outright_stays(memory, ann, facts):
    told = await say(memory, "a", "I live in Lisbon.")
    await facts.confirm("city")
    await ann.forget(told.id)
    (fact,) = await facts.get("city")
    assert (fact.value, fact.source_message_id) == ("Lisbon", None)


async def test_deleting_a_session_removes_only_what_was_learned_from_it(memory, ann, facts):
    await say(memory, "a", "I live in Lisbon.")
    await say(memory, "b", "I am allergic to peanuts.")
    await ann.session("a").delete()
    assert [fact.key for fact in await facts.list()] == ["allergy"]
    assert not await holds(memory, "Lisbon")


async def test_a_fact_with_a_long_past_is_forgotten_whole(memory, ann, facts, clock):
    for number in range(120):
        clock.advance(hours=1)
        await ann.session("s").add_message("user", f"I live in {'Oslo' if number % 2 else 'Lisbon'}.")
    await memory.work()
    await ann.session("s").delete()
    assert await everything(memory) == []


# ── Learnings and the graph ──────────────────────────────────────────────────────────────────────


async def test_learnings_go_with_their_messages(memory, ann):
    learnings = Learnings(memory._flow.ledger, ANN)
    first = await say(memory, "a", "hello")
    second = await say(memory, "b", "hello again")
    alone = await learnings.add("Likes canaries.", source_message_id=first.id)
    both = await learnings.add("Likes short answers.", source_message_id=first.id)
    await learnings.add("Likes short answers.", source_message_id=second.id)
    await ann.forget(first.id)
    assert not await holds(memory, "canaries")
    (left,) = await learnings.list()
    assert (left.id, left.source_message_id) == (both.id, second.id)
    assert alone.id != left.id


async def test_entities_and_relations_go_with_their_messages(memory, ann, graph):
    told = await say(memory, "a", "My sister Clara lives in Lisbon.")
    assert {"Clara", "Lisbon"} <= {entity.name for entity in await graph.entities()}
    await ann.forget(told.id)
    assert await graph.entities() == []
    assert not await holds(memory, "Clara")
    assert await everything(memory) == []


async def test_an_entity_stays_while_something_is_told_of_it(memory, ann, graph):
    first = await say(memory, "a", "My sister Clara lives in Lisbon.")
    await say(memory, "b", "My sister Clara works at Acme.")
    await ann.forget(first.id)
    names = {entity.name for entity in await graph.entities()}
    assert "Lisbon" not in names
    assert {"Clara", "Acme"} <= names
    assert not await holds(memory, first.id)


async def test_a_name_that_only_a_forgotten_message_said_goes_even_if_another_entity_was_merged_into_it(
    memory, ann, graph
):
    secret = await say(memory, "a", "My friend Ludovica lives in Lisbon.")
    await say(memory, "b", "My friend Lulu works at Acme.")
    await graph.merge("Ludovica", "Lulu", reason="a nickname")
    await ann.forget(secret.id)
    assert not await holds(memory, "Ludovica")
    assert {"Lulu", "Acme"} <= {entity.name for entity in await graph.entities()}
    assert ("Lulu", "works_at", "Acme") in {(r.names[0], r.relation, r.names[1]) for r in await graph.relations()}


async def test_an_undo_leaves_a_merge_as_it_is(memory, ann, graph):
    told = await say(memory, "a", "My friend Ludovica lives in Lisbon.")
    await say(memory, "b", "My friend Lulu works at Acme.")
    await graph.merge("Ludovica", "Lulu")
    undone = await ann.undo(message_id=told.id)
    assert "Ludovica" in {entity.name for entity in await graph.entities()}
    await ann.redo(undone.id)
    assert (await graph.find("Lulu")).name == "Ludovica"


async def test_a_relation_that_ended_because_of_a_forgotten_message_holds_again(memory, ann, graph, clock):
    await say(memory, "a", "I work at Acme.")
    clock.advance(days=10)
    moved = await say(memory, "b", "I work at Initech now.")
    assert [r.names[1] for r in await graph.relations("user") if r.relation == "works_at"] == ["Initech"]
    await ann.forget(moved.id)
    assert [r.names[1] for r in await graph.relations("user") if r.relation == "works_at"] == ["Acme"]
    assert not await holds(memory, "Initech")


async def test_forgetting_an_entity_takes_its_relations_and_its_names(memory, ann, graph):
    await graph.add_entity("Clara", type="person", aliases=["Clarissa"])
    await graph.relate("Clara", "lives_in", "Lisbon")
    clara = await graph.find("Clara")
    await ann.forget(clara.id)
    assert [entity.name for entity in await graph.entities()] == ["Lisbon"]
    assert not await holds(memory, "Clari")
    assert not await holds(memory, "Clara")


async def test_forgetting_another_name_leaves_the_entity_without_it(memory, ann, graph):
    await graph.add_entity("Clara", type="person", aliases=["Clarissa"])
    await ann.forget(graphs.name_id(ANN, "Clarissa"))
    assert [(entity.name, entity.aliases) for entity in await graph.entities()] == [("Clara", ())]
    assert not await holds(memory, "Clarissa")


# ── Copies and failures ──────────────────────────────────────────────────────────────────────────


async def test_forgetting_a_message_removes_its_copies_even_in_branches_of_branches(memory, ann):
    chat = ann.session("root")
    secret = await chat.add_message("user", "The canary sings.")
    last = await chat.add_message("assistant", "Noted.")
    branch = await chat.branch(last.id, "branch")
    copy = (await branch.window())[-1]
    twig = await branch.branch(copy.id, "twig")
    await memory.work()
    await ann.forget(secret.id)
    assert not await holds(memory, "canary")
    assert [message.content for message in await twig.window()] == ["Noted."]


async def test_deleting_a_session_leaves_its_branches(memory, ann):
    chat = ann.session("root")
    last = await chat.add_message("user", "The canary sings.")
    branch = await chat.branch(last.id, "branch")
    await chat.delete()
    assert [message.content for message in await branch.window()] == ["The canary sings."]


async def test_what_a_branch_also_says_is_still_known_when_the_original_session_is_deleted(memory, ann, facts):
    await say(memory, "root", "I live in Lisbon.")
    last = await say(memory, "root", "My name is Xylo.")
    await say(memory, "root", "I work at Initech.")
    branch = await ann.session("root").branch(last.id, "branch")
    await ann.session("root").delete()
    await memory.work()
    home, name = await branch.window()
    (city,) = await facts.get("city")
    assert (city.value, city.source_message_id, city.seen) == ("Lisbon", home.id, 1)
    assert [fact.source_message_id for fact in await facts.get("name")] == [name.id]
    assert not await holds(memory, "Initech"), "only the deleted session said so"
    assert not await holds(memory, last.id)
    await branch.delete()
    await memory.work()
    assert await everything(memory) == []


async def test_a_rejected_fact_is_not_learned_from_a_branch_when_the_original_session_is_deleted(memory, ann, facts):
    await say(memory, "root", "I live in Lisbon.")
    last = await say(memory, "root", "My name is Xylo.")
    await facts.reject("city")
    await ann.session("root").branch(last.id, "branch")
    await ann.session("root").delete()
    await memory.work()
    assert (await current(facts, "city"), await current(facts, "name")) == ([], ["Xylo"])


async def test_failed_work_no_longer_names_what_is_gone(memory, ann):
    first, second = await say(memory, "s", "one"), await say(memory, "s", "two")

    def failure(id, kind, refs):
        data = {"job": f"{kind}:{refs[0]}", "kind": kind, "refs": refs, "attempts": 3}
        return Record(id, "failure", ANN, "it broke", data)

    given = (
        failure("both", "enrich", [first.id, second.id]),
        failure("one", "learn", [first.id]),
        failure("fold", "fold", ["s", "support"]),
    )
    await memory._flow.ledger.commit(Changes(ANN.partition, put=given))
    await ann.forget(first.id)
    assert {record.id: record.data["refs"] for record in await ann.failures()} == {
        "both": [second.id], "fold": ["s", "support"],
    }  # fmt: skip
    assert not await holds(memory, first.id)
    await ann.retry("both")
    await memory.work()
    await ann.session("s").delete()
    assert await everything(memory) == []


async def test_failed_work_can_still_be_done_when_a_part_of_what_it_is_about_is_gone(memory, ann):
    gone, stays = await ann.add_memory("Ann drinks tea."), await ann.add_memory("Ann has a violin.")
    await say(memory, "s", "one")
    await memory.work()

    def failure(id, kind, *refs):
        return Record(id, "failure", ANN, "it broke", {"job": id, "kind": kind, "refs": list(refs), "attempts": 3})

    now = str(memory._clock())
    given = (
        failure("both aside", "trust", "quarantine", "act1", now, "doubt", "", gone.id, stays.id),
        failure("one aside", "trust", "quarantine", "act2", now, "doubt", "", gone.id),
        failure("session aside", "trust", "quarantine", "act3", now, "", "s"),
        failure("session undone", "trust", "undo", "act4", now, "s", "", "", ""),
        failure("redone", "trust", "redo", "act5", now, "act4"),
        failure("lives", "lives", gone.id, "1", stays.id, "0"),
    )
    await memory._flow.ledger.commit(Changes(ANN.partition, put=given))
    await ann.forget(gone.id)
    await ann.session("s").delete()
    assert {record.id: record.data["refs"][3:] or record.data["refs"] for record in await ann.failures()} == {
        "both aside": ["doubt", "", stays.id], "redone": ["act4"], "lives": [stays.id, "0"],
    }  # fmt: skip
    for failed in await ann.failures():
        await ann.retry(failed.id)
    await memory.work()
    assert await ann.failures() == []
    assert (await ann.get_memory(stays.id)).trust == "quarantined"


async def test_failed_work_about_something_else_stays_as_it_was(memory, ann):
    gone, stays = await say(memory, "s", "one"), await say(memory, "s", "two")
    given = (
        Record("upkeep", "failure", ANN, "it broke", {"job": "upkeep", "kind": "upkeep", "refs": [], "attempts": 3}),
        Record("other", "failure", ANN, "it broke", {"job": "j", "kind": "learn", "refs": [stays.id], "attempts": 3}),
    )
    await memory._flow.ledger.commit(Changes(ANN.partition, put=given))
    before = await ann.failures()
    await ann.forget(gone.id)
    assert await ann.failures() == before != []


# ── Orgs ─────────────────────────────────────────────────────────────────────────────────────────


async def test_erasing_an_org_removes_all_of_its_users_and_its_own_records(memory):
    ledger, indexes = memory._flow.ledger, memory._flow.indexes
    for user in ("ann", "bob"):
        await memory.user(user, org="acme").add_memory("The canary sings.")
    await memory.user("ann", org="other").add_memory("kept")
    await Learnings(ledger, Scope("acme", "ann")).add("Everyone likes tea.", org_wide=True)
    await memory.work()
    receipt = await erase_org(ledger, indexes, "acme")
    assert (receipt.forgotten, receipt.compacted) == ({"long_term": 2, "learning": 1}, True)
    for user in ("ann", "bob", ""):
        assert await everything(memory, user, "acme") == []
    assert len(await everything(memory, "ann", "other")) == 1


# ── Imports ──────────────────────────────────────────────────────────────────────────────────────


async def lived(memory):
    """A user with something learned in every layer."""
    ann = memory.user("ann")
    graph, learnings = Graph(memory._flow.ledger, ANN), Learnings(memory._flow.ledger, ANN)
    await say(memory, "s", "I live in Lisbon. I prefer short answers. My sister Clara works at Acme.")
    await say(memory, "s", "No, I meant Oslo. I live in Oslo.")
    await graph.add_entity("Clara", aliases=["Clarissa"])
    await learnings.add("Likes canaries.")
    return ann


async def test_everything_that_was_learned_can_be_exported_and_imported(memory, facts):
    ann, bob = await lived(memory), memory.user("bob")
    exported = await ann.export()
    assert {"fact", "entity", "relation", "learning"} <= {line.get("layer") for line in exported}
    assert await bob.import_records(exported) == len(exported) - 1
    theirs = await Facts(memory._flow.ledger, Scope("default", "bob")).list()
    assert [(fact.key, fact.value) for fact in theirs] == [(fact.key, fact.value) for fact in await facts.list()]


TELLING = ["m1", "s", 1, 1, 0.8, "rules-1", "aa"]
FACT = {
    "key": "city", "value": "Oslo", "status": "learned", "seen": 1, "first_seen": 1, "last_seen": 1, "sure_at": 1,
    "tellings": [TELLING],
}  # fmt: skip
BEFORE = {"data": {}, "valid_from": None, "valid_to": None, "confidence": 0.8, "source": None}
UNDONE = {"id": "u", "at": 1, "reason": "", "before": BEFORE}
ENTITY = {"names": ["Clara"], "type": "person"}
RELATION = {"subject": "a", "relation": "knows", "object": "b", "names": ["A", "B"]}


@pytest.mark.parametrize(
    ("layer", "data"),
    [
        ("fact", {}),
        ("fact", FACT | {"key": 5}),
        ("fact", FACT | {"value": None}),
        ("fact", FACT | {"first_seen": None}),
        ("fact", FACT | {"tellings": []}),
        ("fact", FACT | {"tellings": [TELLING[:6]]}),
        ("fact", FACT | {"ended": [[1]]}),
        ("fact", FACT | {"ends": {"a": 5}}),
        ("fact", FACT | {"voided": {}}),
        ("fact", FACT | {"undone": {"id": "u"}}),
        ("preference", FACT | {"seen": "often"}),
        ("past", {"of": "x", "version": 1, "layer": "fact", "data": {}}),
        ("past", {"of": "x", "version": 1, "layer": "past", "data": {}}),
        ("learning", {"type": "guess"}),
        ("learning", {"type": "pattern", "sources": "m1"}),
        ("customization", {"id": "c"}),
        ("customization", {"id": "c", "order": "first"}),
        ("entity", {}),
        ("entity", ENTITY | {"names": []}),
        ("entity", ENTITY | {"held": {"lives_in": 5}}),
        ("entity", ENTITY | {"messages": 5}),
        ("relation", ENTITY),
        ("relation", RELATION | {"before_end": [1]}),
        ("relation", RELATION | {"ended_by": ["m1"]}),
        ("fact", FACT | {"undone": UNDONE | {"before": BEFORE | {"data": []}}}),
        ("fact", FACT | {"undone": UNDONE | {"before": BEFORE | {"data": {"tellings": 5}}}}),
        ("fact", FACT | {"undone": UNDONE | {"earlier": [{"id": "u"}]}}),
        ("long_term", {"role": ["user"]}),
        ("long_term", {"name": 5}),
        ("long_term", {"merged_into": "r2", "before_merge": ["valid_to", "data"]}),
        ("long_term", {"merged_into": "r2", "before_merge": {"valid_to": None, "data": 5}}),
        ("session", {"noted_born": "there"}),
        ("session", {"set_aside": True}),
        ("entity_cache", {"type": "customer", "id": "1", "name": None, "aliases": None, "data": {}}),
        ("conversation", {"role": "user", "quarantined": {"was": "blind"}}),
        ("conversation", {"role": "user", "unlearned": ["u"]}),
    ],
)
async def test_records_that_could_not_be_read_later_are_not_imported(memory, layer, data):
    line = {"id": "r1", "layer": layer, "content": "the canary", "data": data}
    with pytest.raises(ValidationError) as caught:
        await memory.user("bob").import_records([line])
    assert caught.value.field == "data"
    with pytest.raises(ValidationError, match="line 2"):
        await memory.user("bob").import_records([{"id": "r0", "layer": "long_term", "content": "fine"}, line])
    assert await everything(memory, "bob") == []


@pytest.mark.parametrize(
    ("layer", "data"),
    [("fact", FACT), ("entity", ENTITY), ("relation", RELATION), ("learning", {"type": "pattern"}), ("episodic", {})],
)
async def test_readable_records_are_imported(memory, layer, data):
    line = {"id": "r1", "layer": layer, "content": "the canary", "data": data}
    assert await memory.user("bob").import_records([line]) == 1


async def test_deleting_a_session_removes_what_it_taught_even_after_its_messages_expired(memory, clock):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "I live in Rome.")
    await memory.work()
    clock.advance(days=31)
    await memory.work()
    assert [fact.value for fact in await ann.facts.get("city")] == ["Rome"]
    assert (await ann.session("s").delete()).forgotten["fact"] == 1
    assert await ann.facts.get("city") == []
    assert await ann.graph.relations() == []


async def test_what_was_undone_many_times_can_be_exported_and_redone(memory, ann, facts, clock):
    said = []
    for number in range(20):
        said.append(await say(memory, "s", f"I live in Lisbon, as of day {number}."))
        clock.advance(days=1)
    (before,) = await facts.get("city")
    undone = [await ann.undo(message_id=message.id) for message in said[:-1]]
    bob = memory.user("bob")
    lines = await ann.export()
    assert await bob.import_records(lines) == len(lines) - 1
    for each in reversed(undone):
        await bob.redo(each.id)
    (fact,) = await bob.facts.get("city")
    assert (fact.value, fact.seen, fact.valid_from) == ("Lisbon", before.seen, before.valid_from)


async def test_a_lesson_in_progress_is_unlearned_even_if_the_forgetting_process_was_killed(open_memory, store):
    memory = await open_memory(store)
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "My sister is called Zora.")

    async def killed():
        raise Unavailable("killed")

    async def learned_in_the_last_moment():
        await memory.work()
        assert await holds(memory, "Zora")
        store.before(lambda changes: any(r.layer == "fact" for r in changes.put), killed)

    store.before(lambda changes: message.id in changes.drop, learned_in_the_last_moment)
    with pytest.raises(Unavailable):
        await ann.forget(message.id)
    with pytest.raises(NotFound):
        await ann.forget(message.id)
    await memory.work()
    assert not await holds(memory, "Zora")


async def test_known_facts_keep_their_own_history_and_can_be_changed_after_an_import(memory):
    ann, bob = memory.user("ann"), memory.user("bob")
    for city in ("Oslo", "Bergen", "Rome"):
        await ann.add_fact("city", city)
    await ann.add_memory("The boat is blue.")
    (boat,) = (await ann.list_memories())[0]
    await ann.update_memory(boat.id, content="The boat is red.")
    await bob.add_fact("city", "Paris")
    exported = await ann.export()
    await bob.import_records(exported)
    assert await bob.import_records(exported) == 0
    await bob.add_fact("city", "Lima")
    assert [fact.value for fact in await bob.facts.history("city")] == ["Paris", "Lima"]
    assert [each.content for each in await bob.history(boat.id)] == ["The boat is blue.", "The boat is red."]
    await bob.update_memory(boat.id, content="The boat is green.")
    assert len(await bob.history(boat.id)) == 3


async def test_what_is_said_in_a_session_while_it_is_deleted_stays_and_is_known(open_memory, store):
    memory = await open_memory(store)
    ann = memory.user("ann")
    gone = await ann.session("s").add_message("user", "My name is Xylo.")
    await memory.work()

    async def said_meanwhile():
        await ann.session("s").add_message("user", "I live in Lisbon.")
        await memory.work()

    store.before(lambda changes: gone.id in changes.drop, said_meanwhile)
    await ann.session("s").delete()
    await memory.work()
    assert [message.content for message in (await ann.session("s").messages())[0]] == ["I live in Lisbon."]
    assert [(fact.key, fact.value) for fact in (await ann.profile()).facts] == [("city", "Lisbon")]


@pytest.mark.parametrize("verb", ["end", "reject", "confirm", "pin"])
async def test_acting_on_a_fact_while_it_is_forgotten_does_not_bring_it_back(open_memory, store, verb):
    memory = await open_memory(store)
    ann = memory.user("ann")
    secret = await ann.session("s").add_message("user", "I live in Canaryville.")
    await memory.work()
    assert [fact.value for fact in await ann.facts.get("city")] == ["Canaryville"]
    store.before(lambda changes: any(r.layer == "fact" for r in changes.put), lambda: ann.forget(secret.id))
    with pytest.raises(NotFound):
        await getattr(ann.facts, verb)("city")
    assert "Canaryville" not in str(await ann.export())


async def test_acting_on_a_value_that_is_replaced_meanwhile_acts_on_its_replacement(open_memory, store):
    memory = await open_memory(store)
    ann = memory.user("ann")
    await ann.add_fact("city", "Oslo")
    secret = await ann.session("s").add_message("user", "I live in Canaryville.")
    await memory.work()
    store.before(lambda changes: any(r.layer == "fact" for r in changes.put), lambda: ann.forget(secret.id))
    assert [fact.value for fact in await ann.facts.end("city")] == ["Oslo"]
    assert "Canaryville" not in str(await ann.export())
    assert await ann.facts.get("city") == []


async def test_a_value_moved_into_the_past_between_two_reads_is_seen_by_the_second(memory):
    ann, flow = memory.user("ann"), memory._flow
    await ann.session("s").add_message("user", "I live in Oslo.")
    secret = await ann.session("s").add_message("user", "I live in Canaryville.")
    await memory.work()
    unlearning = Unlearning(flow.ledger, flow.indexes, ANN.partition)
    assert await unlearning.forget(["nobody"]) == {}
    await ann.undo(message_id=secret.id)
    assert await unlearning.forget([secret.id]) == {"fact": 1, "entity": 1, "relation": 1}
    known = [record for record in await everything(memory) if record.layer != "conversation"]
    assert "Canaryville" not in str([record.to_dict() for record in known])


async def test_a_new_value_told_while_the_only_other_value_is_forgotten_stays(open_memory, store):
    memory = await open_memory(store)
    ann = memory.user("ann")
    secret = await ann.session("s").add_message("user", "I live in Canaryville.")
    await memory.work()

    async def moves():
        await ann.add_fact("city", "Oslo")

    store.before(lambda changes: any(r.layer == "fact" for r in changes.put) or bool(changes.drop), moves)
    await ann.forget(secret.id)
    await memory.work()
    assert [fact.value for fact in await ann.facts.get("city")] == ["Oslo"]
    assert not await holds(memory, "Canaryville")


async def test_a_learning_added_again_while_its_only_message_is_forgotten_stays(open_memory, store):
    memory = await open_memory(store)
    ann = memory.user("ann")
    await ann.session("s").add_interaction("Send me the boat.", "The red one is on its way.")
    message = await ann.session("s").add_message("user", "No, I meant the green one.")
    await memory.work()
    (learning,) = await ann.learnings.list()

    async def told_again():
        await ann.add_learning(learning.content, type=learning.type)

    def takes_it_back(changes):
        return learning.id in changes.drop or any(record.id == learning.id for record in changes.put)

    store.before(takes_it_back, told_again)
    await ann.forget(message.id)
    assert [each.content for each in await ann.learnings.list()] == [learning.content]
