"""Upkeep: what is removed, when and why; previewed beforehand, and reversible afterwards."""

from __future__ import annotations

import pytest

from recollect import Memory, flow
from recollect.errors import NotFound, Unavailable, ValidationError
from recollect.layers import LAYERS
from recollect.records import DAY_MS, HOUR_MS, Changes, Partition, Record, Scope
from recollect.stores import open_store
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.faults import SteppedStore, cancelled_at

ANN = Partition("default", "ann")


async def test_messages_live_thirty_days(memory, clock):
    ann = memory.user("ann")
    chat = ann.session("s")
    await chat.add_message("user", "the old sail")
    clock.advance(days=15)
    await chat.add_message("user", "the new sail")
    await memory.work()
    clock.advance(days=15, milliseconds=-1)
    assert len(await chat.window()) == 2
    clock.advance(milliseconds=1)
    assert [message.content for message in await chat.window()] == ["the new sail"]
    assert [hit.content for hit in await ann.search_memory("sail")] == ["the new sail"]
    assert (await ann.sessions())[0].messages == 1
    assert "old sail" not in str((await chat.get_context("sail")).messages)
    clock.advance(days=15)
    assert await ann.sessions() == []


@pytest.mark.parametrize("layer", [name for name, row in LAYERS.items() if row.life_ms is not None])
async def test_each_layer_has_its_own_lifetime(memory, clock, layer):
    row = LAYERS[layer]
    expected = {
        "conversation": 30 * DAY_MS,
        "working": 24 * HOUR_MS,
        "entity_cache": HOUR_MS,
        "summary": 30 * DAY_MS,
        "seal": HOUR_MS,
    }
    assert row.life_ms == expected[layer]
    data = {"role": "user"} if layer == "conversation" else {"state": {}}
    record = Record("r1", layer, Scope("default", "ann"), "x", data, expires_at=row.expires_at(clock()))
    await memory._flow.ledger.commit(Changes(ANN, put=(record,)))
    clock.advance(milliseconds=row.life_ms - 1)
    assert len(await memory._flow.ledger.get(ANN, ["r1"])) == 1
    clock.advance(milliseconds=1)
    assert await memory._flow.ledger.get(ANN, ["r1"]) == []


async def test_a_deployment_can_choose_other_lifetimes(open_memory, clock):
    memory = await open_memory(conversation_days=2, working_hours=1)
    chat = memory.user("ann").session("s")
    await chat.add_interaction("We decided to fly to Lisbon in May.", "hi")
    await chat.compress()
    await chat.working.set({"n": 1})
    clock.advance(hours=1)
    assert await chat.working.get() == {}
    clock.advance(hours=47, milliseconds=-1)
    assert len(await chat.window("sliding_window_summary")) == 2
    clock.advance(milliseconds=1)
    assert await chat.window("sliding_window_summary") == []


LIVING = {
    "conversation": lambda ann: ann.session("s").add_message("user", "the sail"),
    "working": lambda ann: ann.session("s").working.set({"n": 1}),
    "episodic": lambda ann: ann.add_memory("We met in spring.", layer="episodic"),
    "long_term": lambda ann: ann.add_memory("Ann was born in Oslo."),
    "fact": lambda ann: ann.facts.add("city", "Oslo"),
    "preference": lambda ann: ann.update_preference("theme", "dark"),
    "learning": lambda ann: ann.add_learning("asks in the evening", type="pattern"),
    "customization": lambda ann: ann.customize("Answer briefly.", agent="support"),
    "entity": lambda ann: ann.graph.add_entity("Bjorn", type="person"),
    "relation": lambda ann: ann.graph.relate("Ann", "knows", "Bjorn"),
}


async def layers_of(user):
    return {line.get("layer") for line in await user.export()}


@pytest.mark.parametrize("layer", LIVING)
async def test_a_deployment_can_choose_the_lifetime_of_any_layer(open_memory, clock, layer):
    memory = await open_memory(lives={layer: "2d"})
    ann = memory.user("ann")
    await LIVING[layer](ann)
    await memory.work()
    clock.advance(days=2, milliseconds=-1)
    assert layer in await layers_of(ann)
    clock.advance(milliseconds=1)
    assert layer not in await layers_of(ann)
    await ann.get_context("Where was Ann born, and whom does she know?")  # the other layers do without it


async def test_a_deployment_can_choose_how_long_entities_are_cached(open_memory, clock):
    memory = await open_memory(lives={"entity_cache": "3h"})
    await memory.entities("acme").put("order", "42", {"status": "shipped"})
    clock.advance(hours=3, milliseconds=-1)
    assert await memory.entities("acme").get("order", "42") == {"status": "shipped"}
    clock.advance(milliseconds=1)
    assert await memory.entities("acme").get("order", "42") is None


async def test_a_fact_that_is_told_again_begins_its_life_again(open_memory, clock):
    memory = await open_memory(lives={"fact": "2d"})
    ann = memory.user("ann")
    await ann.facts.add("city", "Oslo")
    clock.advance(days=1)
    await ann.facts.add("city", "Oslo")
    clock.advance(days=2, milliseconds=-1)
    assert [fact.value for fact in (await ann.profile()).facts] == ["Oslo"]
    clock.advance(milliseconds=1)
    assert not (await ann.profile()).facts


async def test_being_used_in_contexts_begins_no_life_again(open_memory, clock):
    memory = await open_memory(lives={"fact": "2d", "learning": "2d"})
    ann = memory.user("ann")
    await ann.facts.add("city", "Oslo")
    await ann.add_learning("asks in the evening", type="pattern", confidence=0.9)
    await memory.work()
    for _ in range(3):
        clock.advance(hours=15)
        assert "Oslo" in (await ann.get_context("Where do I live?")).system
        await memory.work()
    assert (await ann.learnings.list())[0].usage_count == 3
    clock.advance(hours=3)
    assert {"fact", "learning"}.isdisjoint(await layers_of(ann))


async def test_a_new_vector_and_an_import_begin_no_life_again(open_memory, clock, tmp_path):
    lives, url = {"fact": "2d"}, f"sqlite:///{tmp_path}/facts.db"
    old = await open_memory(url, lives=lives, embedder=HashingEmbedder(32))
    await old.user("ann").facts.add("city", "Oslo")
    await old.work()
    clock.advance(days=1)
    other = await open_memory("memory://", lives=lives)
    await other.user("ann").import_records(await old.user("ann").export())
    old = await open_memory(url, lives=lives, embedder=HashingEmbedder(64))
    assert sum(each.done for each in await old.reembed()) == 1
    for memory in (old, other):
        assert (await memory.user("ann").profile()).facts
    clock.advance(days=1)
    for memory in (old, other):
        assert not (await memory.user("ann").profile()).facts


async def test_what_is_forgotten_stays_forgotten_where_changes_begin_a_life_again(open_memory, clock):
    lives = dict.fromkeys(("fact", "preference", "learning", "entity", "relation"), "2d")
    memory = await open_memory(lives=lives)
    ann = memory.user("ann")
    told = []
    for words in ("I live in Lisbon with my sister Xenia.", "I live in Oslo and like short answers.", "I love chess."):
        told.append(await ann.session("s").add_message("user", words))
        await memory.work()
        clock.advance(hours=1)
    assert {"fact", "entity", "relation"} <= await layers_of(ann)
    for message in told:
        await ann.forget(message.id)
        await memory.work()
    assert await layers_of(ann) == {None}  # the first line of an export, which describes it
    assert not (await ann.profile()).facts


async def test_messages_can_be_kept_for_good(open_memory, clock):
    memory = await open_memory(lives={"conversation": "kept"})
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "the old sail")
    clock.advance(days=36_500)
    await memory.work()
    assert len(await chat.window()) == 1


@pytest.mark.parametrize(
    ("lives", "field"),
    [
        ({"fact": "soon"}, "lives.fact"),
        ({"fact": "0d"}, "lives.fact"),
        ({"facts": "2d"}, "lives"),
        ({"fact": 2}, "lives"),
        ("fact", "lives"),
    ],
)
async def test_a_lifetime_that_cannot_be_meant_is_refused_at_the_start(open_memory, lives, field):
    with pytest.raises(ValidationError) as refused:
        await open_memory(lives=lives)
    assert refused.value.field == field


async def test_knowledge_is_kept_for_years(memory, clock):
    ann = memory.user("ann")
    await ann.add_memory("Ann was born in Oslo.")
    await ann.add_memory("We met in spring.", layer="episodic")
    clock.advance(days=3650)
    await memory.work()
    assert len(await ann.search_memory("Oslo spring")) == 2


async def test_dead_records_are_removed_for_good_automatically_a_day_later(memory, clock):
    ann = memory.user("ann")
    await ann.session("s").add_interaction("hello", "hi")
    kept = await ann.add_memory("kept")
    gone = await ann.add_memory("gone")
    await memory.work()
    await ann.forget(gone.id)
    store = memory._flow.ledger.store
    before = (await store.changes(ANN, None)).dropped
    assert before == (gone.id,)
    clock.advance(days=1, minutes=1)
    await memory.work()
    delta = await store.changes(ANN, None)
    assert delta.dropped == (), "the trace of what was dropped is gone"
    assert len(delta.put) == 3
    clock.advance(days=31)
    await memory.work()
    clock.advance(hours=2)
    await memory.work()
    assert [record.id for record in (await store.changes(ANN, None)).put] == [kept.id]
    survey = await memory.survey()
    assert (survey.jobs_waiting, survey.jobs_scheduled) == (0, 1), "what is kept is looked at again"
    assert survey.oldest_job_at == kept.created_at + 180 * DAY_MS, "when it may be pruned, and not before"


async def test_upkeep_looks_after_a_partition_for_weeks_without_failing(memory, clock):
    ann = memory.user("ann")
    for _ in range(60):
        await ann.session("s").add_message("user", "another day")
        await ann.session("s").working.set({"day": 1})
        clock.advance(hours=13)
        await memory.work()
    assert await ann.failures() == []
    survey = await memory.survey()
    assert (survey.jobs_waiting, survey.jobs_scheduled, survey.waits_since) == (0, 1, None)


async def test_maintain_purges_on_demand(memory, clock):
    ann = memory.user("ann")
    await ann.session("s").add_interaction("hello", "hi")
    clock.advance(days=30)
    assert (await ann.maintain()).purged == 0, "it has been dead for less than a day"
    clock.advance(days=1, milliseconds=1)
    assert (await ann.maintain()).purged == 2
    assert (await ann.maintain()).purged == 0


@pytest.fixture
async def by_hand(open_memory):
    """A memory that prunes only on request."""
    return await open_memory(prune=False)


async def aged(memory, clock):
    """Old trifles, an old treasure, a pinned trifle, a used trifle, and a fresh trifle."""
    ann = memory.user("ann")
    records = {}
    for name, importance, metadata in (
        ("trifle", 0.05, {}), ("bagatelle", 0.05, {}), ("treasure", 0.9, {}), ("pinned", 0.05, {"pinned": True}),
        ("useful", 0.05, {}),
    ):  # fmt: skip
        records[name] = await ann.add_memory(f"a {name} thing", importance=importance, metadata=metadata)
    await memory.work()
    clock.advance(days=300)
    budget = 40
    while not (context := await ann.get_context("a useful thing", max_tokens=budget)).sources:
        budget += 1
    assert [source.id for source in context.sources] == [records["useful"].id]
    await memory.work()
    clock.advance(days=100)
    records["fresh"] = await ann.add_memory("a fresh thing", importance=0.05)
    await memory.work()
    return records


async def current(user):
    return sorted(r.content.split()[1] for r in (await user.list_memories())[0] if r.valid_to is None)


async def test_pruning_retires_what_is_old_unimportant_and_unused_and_says_why(by_hand, clock):
    records = await aged(by_hand, clock)
    ann = by_hand.user("ann")
    done = await ann.maintain()
    assert {each.record.id for each in done.retired} == {records["trifle"].id, records["bagatelle"].id}
    assert all("below 0.15" in each.reason and "400 days" in each.reason for each in done.retired)
    assert await current(ann) == ["fresh", "pinned", "treasure", "useful"]
    retired = await ann.get_memory(records["trifle"].id)
    assert retired.valid_to == clock()
    assert "below 0.15" in retired.data["retired"]
    assert "trifle" not in str([hit.content for hit in await ann.search_memory("trifle thing", limit=50)])
    assert (await ann.maintain()).retired == ()


async def test_a_dry_run_reports_the_same_and_changes_nothing(by_hand, clock):
    await aged(by_hand, clock)
    ann = by_hand.user("ann")
    before = await ann.export()
    told = await ann.maintain(dry_run=True)
    (told_by_all,) = await by_hand.maintain(dry_run=True)
    assert told.dry_run
    assert told == told_by_all
    assert await ann.export() == before
    done = await ann.maintain()
    assert [(each.record.id, each.reason) for each in told.retired] == [
        (each.record.id, each.reason) for each in done.retired
    ]


async def test_pruning_can_be_undone(by_hand, clock):
    records = await aged(by_hand, clock)
    ann = by_hand.user("ann")
    await ann.maintain()
    restored = await ann.restore(records["trifle"].id)
    assert (restored.valid_to, "retired" in restored.data) == (None, False)
    assert "trifle" in await current(ann)
    assert (await ann.search_memory("trifle"))[0].id == records["trifle"].id
    for id in (records["trifle"].id, records["treasure"].id, "unknown"):
        with pytest.raises(NotFound):
            await ann.restore(id)


async def test_a_retired_memory_comes_back_when_it_is_added_again(by_hand, clock):
    records = await aged(by_hand, clock)
    ann = by_hand.user("ann")
    await ann.maintain()
    again = await ann.add_memory("a trifle thing")
    assert (again.id, again.valid_to, "retired" in again.data) == (records["trifle"].id, None, False)
    assert "trifle" in await current(ann)


async def test_pruning_is_automatic_says_why_and_leaves_what_was_restored(memory, clock):
    ann = memory.user("ann")
    trifle = await ann.add_memory("a trifle thing", importance=0.05)
    bagatelle = await ann.add_memory("a bagatelle thing", importance=0.05)
    await memory.work()
    clock.advance(days=179)
    await memory.work()
    assert await current(ann) == ["bagatelle", "trifle"], "nothing younger than half a year is pruned"
    clock.advance(days=200)
    await memory.work()
    assert await current(ann) == []
    assert "below 0.15" in (await ann.get_memory(trifle.id)).data["retired"]
    await ann.restore(trifle.id)
    await ann.add_memory("a bagatelle thing")
    for _ in range(20):
        clock.advance(days=8)
        await memory.work()
    assert await current(ann) == ["bagatelle", "trifle"], "who takes it back has a use for it"
    clock.advance(days=200)
    await memory.work()
    assert await current(ann) == []
    assert (await ann.get_memory(bagatelle.id)).valid_to == clock()


async def test_a_deployment_can_leave_pruning_to_maintain(by_hand, clock):
    ann = by_hand.user("ann")
    await ann.add_memory("a trifle thing", importance=0.05)
    for _ in range(60):
        clock.advance(days=8)
        await by_hand.work()
    assert await current(ann) == ["trifle"]
    assert len((await ann.maintain()).retired) == 1


async def test_a_user_keeps_no_more_memories_than_the_cap(open_memory, clock):
    memory = await open_memory(memories_max=10)
    ann = memory.user("ann")
    await ann.add_memories([{"content": f"a number{n} thing", "importance": n / 100} for n in range(40)])
    await memory.user("bob").add_memory("a bob thing", importance=0.0)
    await memory.work()
    done = {each.partition.user: each for each in await memory.maintain()}
    assert len(done["ann"].retired) == 30
    assert all("more than 10" in each.reason for each in done["ann"].retired)
    assert done["bob"].retired == ()
    assert await current(ann) == sorted(f"number{n}" for n in range(30, 40))


async def test_many_large_memories_are_retired_too(open_memory):
    memory = await open_memory(memories_max=5, embedder="none")
    ann = memory.user("ann")
    for number in range(60):
        await ann.add_memory(f"number {number} " + "x" * 40_000, importance=0.1)
    assert len((await ann.maintain()).retired) == 55
    assert len(await current(ann)) == 5


async def test_restoring_a_merged_entity_undoes_the_merge(memory):
    ann = memory.user("ann")
    ida = await ann.graph.add_entity("Ida", type="person")
    idun = await ann.graph.add_entity("Idun", type="person", aliases=["Dunny"])
    before = await ann.graph.entities()
    await ann.graph.merge(ida, idun)
    with pytest.raises(NotFound):
        await ann.restore(ida.id)
    await ann.restore(idun.id)
    assert await ann.graph.entities() == before
    assert (await ann.graph.find("Dunny")).id == idun.id


async def test_uses_are_counted_once_whatever_fails_in_between(open_memory, store):
    memory = await open_memory(store)
    users = [memory.user(name) for name in ("ann", "bob")]
    added = [await user.add_memory(f"The code of the {user.id} door is 4411.") for user in users]
    await memory.work()
    for user in users:
        await user.get_context(f"Which code has the {user.id} door?")

    async def refuse():
        raise Unavailable("gone")

    for _ in range(3):
        store.before(lambda changes: changes.partition.user == "bob", refuse)
        with pytest.raises(Unavailable):
            await memory._flow.flush_uses()
    store.before(lambda changes: False, refuse)
    await memory._flow.flush_uses()
    found = [await user.get_memory(record.id) for user, record in zip(users, added, strict=True)]
    assert [record.data["usage_count"] for record in found] == [1, 1]


async def test_uses_that_cannot_be_written_do_not_pile_up(tmp_path, monkeypatch):
    monkeypatch.setattr(flow, "USES_MAX", 10)
    names = [f"user{number}" for number in range(20)]
    async with Memory.open(tmp_path / "kept.db", embedder=HashingEmbedder(), worker=False) as memory:
        for name in names:
            await memory.user(name).add_memory("The code of the door is 4411.")
        await memory.work()
    url = f"sqlite:///{tmp_path}/kept.db?mode=ro"
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False) as memory:
        for _ in range(2):
            for name in names:
                await memory.user(name).get_context("Which code has the door?")
            with pytest.raises(Unavailable, match="read-only"):
                await memory._flow.flush_uses()
        assert sorted(memory._flow._uses.values()) == [2] * 10


async def test_a_use_is_counted_once_even_if_the_count_is_cancelled_while_it_is_written(open_memory, tmp_path):
    memory = await open_memory(SteppedStore(await open_store(tmp_path / "memories.db"), lambda step: None))
    for at in range(1, 40):
        user = memory.user(f"user{at}")
        await user.add_memory("The office wifi rotates on Mondays.", id="wifi")
        await memory.work()
        await user.get_context("When does the office wifi rotate?")
        reached = await cancelled_at(memory.work(), at, late=True)
        await memory.work()
        assert (await user.get_memory("wifi")).data["usage_count"] == 1, f"cancelled at wait {at}"
        if not reached:
            break
    assert at > 2


async def test_uses_of_what_an_org_shares_are_counted_there(memory):
    shared = await memory.org("acme").add_memory("The office wifi rotates on Mondays.")
    await memory.work()
    await memory.user("ann", org="acme").get_context("When does the office wifi rotate?")
    await memory.work()
    (record,) = await memory._flow.ledger.get(Partition("acme", ""), [shared.id])
    assert record.data["usage_count"] == 1
