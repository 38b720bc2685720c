"""Long-term memories: added, changed with their past, found by filters, and merged when they say the same."""

from __future__ import annotations

import asyncio

import pytest

from recollect.errors import Conflict, NotFound, TooLarge, ValidationError
from recollect.records import Changes, derived_id

LISBON = "My sister Clara lives in Lisbon with two cats, a parrot and a very old piano"
LISBON_TOO = "My sister Clara really lives in Lisbon with two cats, a parrot and a very old piano"


async def listed(user, **how):
    return [record.content for record in (await user.list_memories(**how))[0]]


async def test_a_memory_is_read_back_as_it_was_added(memory, clock):
    ann = memory.user("ann")
    added = await ann.add_memory(
        "The boiler was serviced.", metadata={"room": "cellar", "cost": 120.5}, importance=0.9, confidence=0.8,
        created_at="2025-11-03T10:00:00Z", id="boiler",
    )  # fmt: skip
    read = await ann.get_memory("boiler")
    assert added == read
    assert (read.content, read.layer) == ("The boiler was serviced.", "long_term")
    assert (read.metadata, read.importance, read.confidence) == ({"room": "cellar", "cost": 120.5}, 0.9, 0.8)
    assert read.created_at == clock()
    assert read.to_dict()["event_at"] == "2025-11-03T10:00:00Z"
    assert read.trust == "trusted"


async def test_importance_is_computed_unless_it_is_given(memory):
    ann = memory.user("ann")
    given = await ann.add_memory("ok thanks", importance=0.9)
    chatter = await ann.add_memory("hello there")
    weighty = await ann.add_memory("I have decided to marry Paul on 5 May 2027!")
    await memory.work()
    assert (await ann.get_memory(given.id)).importance == 0.9
    low, high = (await ann.get_memory(chatter.id)).importance, (await ann.get_memory(weighty.id)).importance
    assert low < 0.3 < 0.6 < high


async def test_a_batch_is_stored_whole_or_not_at_all(memory):
    ann = memory.user("ann")
    await ann.add_memory("taken", id="m1")
    for bad in ("", 5, {"content": "x", "layer": "fact"}, {"content": "x", "id": "m1"}, {"text": "x"}, {}):
        with pytest.raises((ValidationError, Conflict)):
            await ann.add_memories(["one", {"content": "two", "importance": 0.7}, bad])
    with pytest.raises(TooLarge):
        await ann.add_memories([f"number {n}" for n in range(91)])
    assert await listed(ann) == ["taken"]
    added = await ann.add_memories(["one", {"content": "two", "importance": 0.7, "metadata": {"n": 2}}])
    assert [record.content for record in added] == ["one", "two"]
    assert (added[1].importance, added[1].metadata) == (0.7, {"n": 2})
    await ann.add_memories([f"number {n}" for n in range(90)])
    assert len(await listed(ann)) == 93


@pytest.mark.parametrize("shared", [False, True])
async def test_the_histories_of_several_memories_are_those_of_each_in_the_order_asked(memory, shared):
    owner = memory.org() if shared else memory.user("ann")
    bus, train, boat = await owner.add_memories(["The bus leaves at 8.", "The train leaves at 9.", "The boat left."])
    for hour in (10, 11):
        await owner.update_memory(train.id, content=f"The train leaves at {hour}.")
    await owner.update_memory(boat.id, importance=0.9)
    told = await owner.histories([boat.id, "unknown", train.id, bus.id])
    assert told == [await owner.history(id) for id in (boat.id, train.id, bus.id)]
    assert [len(each) for each in told] == [2, 3, 1]
    assert [each.content[-3:] for each in told[1]] == [" 9.", "10.", "11."]
    for wrong in ([], train.id, [""], ["x"] * 91):
        with pytest.raises(ValidationError) as refused:
            await owner.histories(wrong)
        assert refused.value.field == "ids"


async def test_an_update_keeps_the_previous_versions(memory, clock):
    ann = memory.user("ann")
    added = await ann.add_memory("The meeting is on Monday.", metadata={"kind": "date"})
    await memory.work()
    clock.advance(days=1)
    second = await ann.update_memory(added.id, content="The meeting is on Tuesday.")
    await memory.work()
    third = await ann.update_memory(added.id, metadata={"kind": "moved"}, importance=0.3)
    assert await ann.get_memory(added.id) == third
    past = await ann.history(added.id)
    assert [record.content for record in past] == [
        "The meeting is on Monday.", "The meeting is on Tuesday.", "The meeting is on Tuesday.",
    ]  # fmt: skip
    assert [record.metadata["kind"] for record in past] == ["date", "date", "moved"]
    assert {record.id for record in past} == {added.id}
    assert [record.version for record in past] == sorted(record.version for record in past)
    assert past[0].valid_to == past[1].created_at + 24 * 3600 * 1000
    assert (second.content, third.importance) == ("The meeting is on Tuesday.", 0.3)


async def test_an_updated_memory_is_found_by_its_new_words_and_not_by_the_old(memory):
    ann = memory.user("ann")
    added = await ann.add_memory("The dentist is in Harbour Street.")
    await memory.work()
    await ann.update_memory(added.id, content="The dentist moved to Castle Square.")
    (hit,) = await ann.search_memory("castle")
    assert (hit.content, hit.legs["words"].score > 0) == ("The dentist moved to Castle Square.", True)
    assert hit.record.vector is None, "the meaning of the old text is not that of the new one"
    await memory.work()
    (hit,) = await ann.search_memory("harbour")
    assert hit.legs["words"].score == 0
    assert (await ann.get_memory(added.id)).vector is not None


async def test_an_update_is_guarded_by_the_version_that_was_read(memory):
    ann = memory.user("ann")
    added = await ann.add_memory("first")
    changed = await ann.update_memory(added.id, content="second", version=added.version)
    with pytest.raises(Conflict) as caught:
        await ann.update_memory(added.id, content="third", version=added.version)
    assert caught.value.field == "version"
    assert (await ann.get_memory(added.id)).content == "second"
    await ann.update_memory(added.id, content="fourth", version=changed.version)
    again = await ann.add_memory("again and again")
    again = await ann.add_memory("again and again")
    await ann.update_memory(again.id, importance=1.0, version=again.version)


async def test_an_update_that_changes_nothing_is_not_an_edit(memory):
    ann = memory.user("ann")
    added = await ann.add_memory("first", metadata={"a": 1}, importance=0.4)
    for _ in range(3):
        same = await ann.update_memory(added.id, content="first", metadata={"a": 1}, importance=0.4)
        assert same.version == (await ann.get_memory(added.id)).version
    assert len(await ann.history(added.id)) == 1


async def test_an_update_wins_over_what_another_process_does_to_the_same_memory(store, open_memory):
    memory = await open_memory(store)
    ann = memory.user("ann")
    added = await ann.add_memory("version 0")
    store.before(lambda changes: any(r.layer == "past" for r in changes.put), memory.work)
    await ann.update_memory(added.id, content="version 1")
    store.before(lambda changes: added.id in [r.id for r in changes.put], lambda: ann.forget(added.id))
    again = await ann.add_memory("version 1", id=added.id)
    assert (again.id, again.data.get("seen")) == (added.id, None), "what was forgotten meanwhile begins anew"
    assert len(await ann.history(added.id)) == 1


async def test_concurrent_updates_all_count(memory):
    ann = memory.user("ann")
    added = await ann.add_memory("version 0")
    await asyncio.gather(*(ann.update_memory(added.id, content=f"version {n}") for n in range(1, 21)))
    past = await ann.history(added.id)
    assert sorted(record.content for record in past) == sorted(f"version {n}" for n in range(21))


async def test_what_does_not_exist_cannot_be_read_or_changed(memory):
    ann, bob = memory.user("ann"), memory.user("bob")
    foreign = await bob.add_memory("bob's own", metadata={"x": 1})
    for id in ("unknown", foreign.id):
        for call in (
            ann.get_memory(id),
            ann.update_memory(id, content="mine now"),
            ann.history(id),
            ann.forget(id),
            ann.restore(id),
            ann.retry(id),
        ):
            with pytest.raises(NotFound):
                await call
    assert await bob.get_memory(foreign.id) == foreign


async def test_messages_are_read_by_id_but_not_rewritten(memory):
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "hello")
    assert (await ann.get_memory(message.id)).content == "hello"
    with pytest.raises(ValidationError) as caught:
        await ann.update_memory(message.id, content="hullo")
    assert caught.value.field == "layer"


async def test_a_forgotten_memory_is_gone_from_every_verb(memory):
    ann = memory.user("ann")
    kept = await ann.add_memory("The garage is full.")
    gone = await ann.add_memory("The attic is empty.")
    await memory.work()
    receipt = await ann.forget(gone.id)
    assert receipt.to_dict()["forgotten"] == {"long_term": 1}
    assert await listed(ann) == ["The garage is full."]
    assert [hit.id for hit in await ann.search_memory("attic garage")] == [kept.id]
    with pytest.raises(NotFound):
        await ann.forget(gone.id)
    with pytest.raises(NotFound):
        await ann.update_memory(gone.id, content="back again")
    with pytest.raises(NotFound):
        await ann.forget([kept.id, "unknown"])
    assert await listed(ann) == ["The garage is full."], "a list with an unknown id forgets nothing"


# ── Filters ──────────────────────────────────────────────────────────────────────────────────────

FILTERS = [
    ({"metadata.city": "Rome"}, "ac"),
    ({"metadata.city": ["Rome", "Oslo"]}, "abc"),
    ({"metadata.stars": {"gte": 3, "lt": 5}}, "b"),
    ({"metadata.stars": {"gt": 3}}, "c"),
    ({"metadata.open": True}, "a"),
    ({"metadata.open": {"exists": True}}, "ab"),
    ({"metadata.open": {"exists": False}}, "cd"),
    ({"not": {"metadata.city": "Rome"}}, "bd"),
    ({"or": [{"metadata.stars": 5}, {"metadata.city": "Oslo"}]}, "bc"),
    ({"and": [{"metadata.city": "Rome"}, {"metadata.stars": {"lte": 2}}]}, "a"),
    ({"metadata.city": "Rome", "importance": {"gte": 0.5}}, "c"),
    ({"importance": {"lt": 0.3}}, "ad"),
    ({"event_at": {"gte": "2026-01-01", "lt": "2026-02-01T00:00:00Z"}}, "b"),
    ({"id": ["a", "d", "zzz"]}, "ad"),
    ({"layer": "long_term", "trust": "trusted"}, "abcd"),
    ({"session": {"exists": True}}, ""),
    ({"metadata.city": "%"}, ""),
    ({"metadata.stars": "5"}, ""),
    ({"metadata.stars": True}, ""),
]


async def four_places(user):
    await user.add_memories(
        [
            {"content": "Place alpha", "id": "a", "importance": 0.1,
             "metadata": {"city": "Rome", "stars": 1, "open": True}},
            {"content": "Place beta", "id": "b", "importance": 0.4, "created_at": "2026-01-15T00:00:00Z",
             "metadata": {"city": "Oslo", "stars": 3, "open": False}},
            {"content": "Place gamma", "id": "c", "importance": 0.9, "metadata": {"city": "Rome", "stars": 5}},
            {"content": "Place delta", "id": "d", "importance": 0.2},
        ]
    )  # fmt: skip


@pytest.mark.parametrize(("where", "expected"), FILTERS, ids=[str(where) for where, _ in FILTERS])
async def test_filters_mean_the_same_in_lists_and_in_search(memory, where, expected):
    ann = memory.user("ann")
    await four_places(ann)
    await memory.work()
    assert [record.id for record in (await ann.list_memories(where=where))[0]] == list(expected)
    found = await ann.search_memory("place", where=where, layer="long_term", limit=10)
    assert sorted(hit.id for hit in found) == list(expected)


async def test_a_filter_may_count_back_from_now(memory, clock):
    ann = memory.user("ann")
    await ann.add_memory("an old place")
    clock.advance(days=10)
    await ann.add_memory("a new place")
    where = {"created_at": {"gte": "-7d"}}
    assert [hit.content for hit in await ann.search_memory("place", where=where)] == ["a new place"]
    assert (await ann.forget(where=where)).count == 1
    assert await listed(ann) == ["an old place"]


async def test_pages_under_a_filter_continue_where_the_last_one_ended(memory):
    ann = memory.user("ann")
    await ann.add_memories([{"content": f"number {n}", "metadata": {"even": n % 2 == 0}} for n in range(60)])
    found, after = [], None
    while True:
        page, after = await ann.list_memories(where={"metadata.even": True}, limit=7, after=after)
        found += [record.content for record in page]
        if after is None:
            break
    assert found == [f"number {n}" for n in range(0, 60, 2)]


# ── Duplicates ───────────────────────────────────────────────────────────────────────────────────


async def test_sixty_four_identical_memories_at_once_are_one(memory):
    ann = memory.user("ann")
    added = await asyncio.gather(*(ann.add_memory("I like green tea.") for _ in range(64)))
    assert len({record.id for record in added}) == 1
    (record,) = (await ann.list_memories())[0]
    assert record.data["seen"] == 64


async def test_the_same_text_written_differently_is_the_same_memory(memory):
    ann = memory.user("ann")
    await ann.add_memory("I like green tea", metadata={"a": 1}, importance=0.4, confidence=0.5)
    again = await ann.add_memory("  i LIKE  green\ntea. ", metadata={"a": 2, "b": 3}, importance=0.8)
    assert again.content == "I like green tea", "what was written first stays"
    assert again.metadata == {"a": 1, "b": 3}
    assert (again.importance, again.confidence, again.data["seen"]) == (0.8, 1.0, 2)
    assert await listed(ann) == ["I like green tea"]
    assert await listed(memory.user("bob")) == []
    await ann.add_memory("I like green tea?")
    assert len(await listed(ann)) == 2, "a question is another thing"


async def test_repeating_a_memory_makes_it_more_important(memory):
    ann = memory.user("ann")
    first = await ann.add_memory("The bus leaves at noon")
    await memory.work()
    before = (await ann.get_memory(first.id)).importance
    for _ in range(3):
        await ann.add_memory("The bus leaves at noon")
    await memory.work()
    assert (await ann.get_memory(first.id)).importance > before


async def test_a_retried_add_does_not_count_as_said_again(memory, clock):
    ann = memory.user("ann")
    await ann.add_memory("known already")
    first = await ann.add_memories(["one", "known already"], idempotency_key="k1")
    clock.advance(minutes=1)
    again = await ann.add_memories(["one", "known already"], idempotency_key="k1")
    assert [record.id for record in again] == [record.id for record in first]
    records = {record.content: record for record in (await ann.list_memories())[0]}
    assert records["one"].data.get("seen", 1) == 1
    assert records["known already"].data["seen"] == 2
    for other in ("two", "known already"):
        with pytest.raises(Conflict) as caught:
            await ann.add_memory(other, idempotency_key="k1") if other == "two" else await ann.add_memories(
                ["known already", "two"], idempotency_key="k1"
            )
        assert caught.value.field == "idempotency_key"
    assert sorted(await listed(ann)) == ["known already", "one"]


async def test_a_retried_add_is_recognised_even_if_an_earlier_version_stored_it(memory):
    ann = memory.user("ann")
    told = await ann.add_memory("Tea is at five.", idempotency_key="first")
    # 0.1.0 made the mark of a call from its key alone.
    old = told.with_(data={**told.data, "keys": [derived_id("key", "first")[:8]]})
    await memory._running.ledger.store.commit(Changes(told.scope.partition, put=(old,)), told.created_at)
    assert (await ann.add_memory("Tea is at five.", idempotency_key="first")).id == told.id
    assert await listed(ann) == ["Tea is at five."]
    with pytest.raises(Conflict, match="used for other memories"):
        await ann.add_memory("Tea is at six.", idempotency_key="first")


async def test_a_record_of_a_layer_from_a_newer_version_is_not_a_memory_here(memory):
    ann = memory.user("ann")
    told = await ann.add_memory("Tea is at five.")
    dream = told.with_(id="d1", layer="dream", version=0)
    await memory._running.ledger.store.commit(Changes(told.scope.partition, put=(dream,)), told.created_at)
    with pytest.raises(NotFound):
        await ann.get_memory("d1")
    assert [each.id for each in await ann.get_memories([told.id, "d1"])] == [told.id]


async def test_a_retried_add_is_recognised_however_often_others_added_the_same(memory):
    ann = memory.user("ann")
    first = await ann.add_memory("Tea is at five.", idempotency_key="first")
    for number in range(20):
        await ann.add_memory("Tea is at five.", idempotency_key=f"other {number}")
    again = await ann.add_memory("Tea is at five.", idempotency_key="first")
    assert (again.id, again.data["seen"]) == (first.id, 21)
    with pytest.raises(Conflict):
        await ann.add_memory("Tea is at six.", idempotency_key="first")


async def test_a_retried_add_is_recognised_after_its_text_was_edited_or_merged(memory):
    ann = memory.user("ann")
    first = await ann.add_memory("The sky is green.", idempotency_key="green")
    await ann.update_memory(first.id, content="The sky is blue.")
    assert (await ann.add_memory("The sky is green.", idempotency_key="green")).content == "The sky is blue."
    with pytest.raises(Conflict):
        await ann.add_memory("The sky is blue.", idempotency_key="green")
    beside = await ann.add_memory("The sky is green.", idempotency_key="green again")
    assert (await ann.add_memory("The sky is green.", idempotency_key="green again")).id == beside.id

    kept = await ann.add_memory(LISBON)
    await ann.add_memory(LISBON_TOO)
    await memory.work()
    told = await ann.add_memory(LISBON_TOO, idempotency_key="Lisbon")
    assert told.id == kept.id, "it was merged into the older one"
    assert (await ann.add_memory(LISBON_TOO, idempotency_key="Lisbon")).id == kept.id
    assert (await ann.get_memory(kept.id)).data["seen"] == told.data["seen"]


async def test_equal_edits_by_two_processes_at_one_moment_are_one_edit_and_one_conflict(open_memory, tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    users = [(await open_memory(url)).user("ann") for _ in range(2)]
    id = (await users[0].add_memory("visits", metadata={"count": 0})).id

    async def count_up(ann):
        for _ in range(15):
            while True:
                memory = await ann.get_memory(id)
                try:
                    changed = {"count": memory.metadata["count"] + 1}
                    await ann.update_memory(id, metadata=changed, version=memory.version)
                    break
                except Conflict:
                    await asyncio.sleep(0)

    await asyncio.gather(*(count_up(ann) for ann in users))
    assert (await users[0].get_memory(id)).metadata == {"count": 30}
    assert len(await users[0].history(id)) == 31


async def test_another_text_under_a_taken_id_is_a_conflict(memory):
    ann = memory.user("ann")
    await ann.add_memory("mine", id="m1")
    again = await ann.add_memory("mine", id="m1")
    assert again.data["seen"] == 2
    with pytest.raises(Conflict) as caught:
        await ann.add_memory("yours", id="m1")
    assert caught.value.field == "id"
    await memory.user("bob").add_memory("yours", id="m1")
    assert await listed(ann) == ["mine"]


async def test_a_text_that_was_edited_away_can_be_added_again(memory):
    ann = memory.user("ann")
    first = await ann.add_memory("The sky is green.")
    await ann.update_memory(first.id, content="The sky is blue.")
    second = await ann.add_memory("The sky is green.")
    assert second.id != first.id
    assert sorted(await listed(ann)) == ["The sky is blue.", "The sky is green."]
    assert (await ann.add_memory("The sky is green.")).id == second.id, "from then on it is known again"
    await ann.update_memory(second.id, content="The sky is grey.")
    assert (await ann.add_memory("The sky is green.")).id not in (first.id, second.id)


@pytest.mark.parametrize("way", ["one after the other", "at once", "in one batch"])
async def test_near_duplicates_are_merged_with_a_record_of_it(memory, way):
    ann = memory.user("ann")
    first = {"content": LISBON, "metadata": {"a": 1}, "importance": 0.3}
    second = {"content": LISBON_TOO, "metadata": {"a": 9, "b": 2}, "importance": 0.8}
    if way == "in one batch":
        older, newer = await ann.add_memories([first, second])
    else:
        older = await ann.add_memory(**first)
        if way == "one after the other":
            await memory.work()
        newer = await ann.add_memory(**second)
    await memory.work()
    kept, ended = await ann.get_memory(older.id), await ann.get_memory(newer.id)
    assert (kept.content, kept.importance, kept.metadata) == (LISBON, 0.8, {"a": 1, "b": 2})
    (merge,) = kept.data["merged"]
    assert (merge["id"], merge["clashes"], merge["added"]) == (newer.id, ["a"], ["b"])
    assert (ended.data["merged_into"], ended.valid_to is not None) == (older.id, True)
    assert [hit.id for hit in await ann.search_memory("Clara in Lisbon")] == [older.id]


async def test_memories_that_only_look_alike_stay_apart(memory):
    ann = memory.user("ann")
    texts = [LISBON, LISBON.replace("two cats", "three cats"), LISBON.replace("lives", "does not live")]
    for text in texts:
        await ann.add_memory(text)
        await memory.work()
    assert sorted(hit.content for hit in await ann.search_memory("Clara Lisbon")) == sorted(texts)


async def test_a_kept_memory_is_not_merged_into_one_that_will_expire(memory, clock):
    ann = memory.user("ann")
    await ann.add_memory(LISBON, expires_at=clock() + 60_000)
    await ann.add_memory(LISBON_TOO)
    await memory.work()
    await memory.maintain()
    clock.advance(minutes=2)
    assert await listed(ann) == [LISBON_TOO]
    assert len(await ann.search_memory("Where does Clara live?")) == 1


async def test_what_the_user_says_is_not_merged_into_an_untrusted_memory(memory):
    ann = memory.user("ann")
    page = await ann.add_memory(LISBON, trust="untrusted")
    await ann.add_memory(LISBON_TOO)
    await memory.work()
    await memory.maintain()
    await ann.quarantine(ids=[page.id])
    assert [hit.content for hit in await ann.search_memory("Clara")] == [LISBON_TOO]
    await ann.add_memory("The shop opens at nine.", trust="untrusted")
    assert (await ann.add_memory("The shop opens at nine.")).trust == "trusted"
    assert (await ann.add_memory("The shop opens at nine.", trust="untrusted")).trust == "trusted"


@pytest.mark.parametrize("pinned", [LISBON, LISBON_TOO])
async def test_a_pinned_memory_is_not_merged_and_its_duplicate_is_not_forgotten_with_it(memory, pinned):
    ann = memory.user("ann")
    ids = {}
    for text in (LISBON, LISBON_TOO):
        ids[text] = (await ann.add_memory(text, metadata={"pinned": text == pinned})).id
        await memory.work()
    await memory.maintain()
    assert await listed(ann) == [LISBON, LISBON_TOO]
    await ann.forget(ids[LISBON])
    assert [hit.content for hit in await ann.search_memory("Clara")] == [LISBON_TOO]


async def test_a_merge_can_be_undone(memory):
    ann = memory.user("ann")
    older = await ann.add_memory(LISBON, metadata={"a": 1}, importance=0.3)
    await memory.work()
    newer = await ann.add_memory(LISBON_TOO, metadata={"b": 2}, importance=0.8)
    await memory.work()
    restored = await ann.restore(newer.id)
    await memory.work()
    kept = await ann.get_memory(older.id)
    assert (kept.importance, kept.metadata, "merged" in kept.data) == (0.3, {"a": 1}, False)
    assert (restored.content, restored.importance, restored.valid_to) == (LISBON_TOO, 0.8, None)
    assert {hit.id for hit in await ann.search_memory("Clara in Lisbon")} == {older.id, newer.id}
    with pytest.raises(NotFound):
        await ann.restore(newer.id)


async def test_a_merged_text_counts_towards_the_memory_it_was_merged_into(memory):
    ann = memory.user("ann")
    older = await ann.add_memory(LISBON)
    await memory.work()
    await ann.add_memory(LISBON_TOO)
    await memory.work()
    again = await ann.add_memory(LISBON_TOO)
    await memory.work()
    assert (again.id, again.data["seen"]) == (older.id, 2)
    assert [hit.id for hit in await ann.search_memory("Clara in Lisbon")] == [older.id]


async def test_a_whole_batch_of_near_duplicates_is_merged(memory):
    ann = memory.user("ann")
    texts = [f"{LISBON} and number {n} of {n * 7} keys" for n in range(90)]
    await ann.add_memories(texts)
    await memory.work()
    await ann.add_memories([text.replace("lives", "really lives") for text in texts])
    await memory.work()
    assert await ann.failures() == []
    current = [record for record in (await ann.list_memories(limit=1000))[0] if record.valid_to is None]
    assert [record.content for record in current] == texts
    assert all(record.vector for record in current)


async def test_a_batch_as_large_as_a_commit_is_enriched_too(memory):
    ann = memory.user("ann")
    await ann.session("s").add_messages(
        [{"role": "user", "content": f"message {n} about " + "lorem" * 2300} for n in range(90)]
    )
    await memory.work()
    assert await ann.failures() == []
    page, _ = await ann.list_memories(layer="conversation", limit=1000)
    assert len(page) == 90
    assert all(record.vector for record in page)


# ── lives ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_memory_can_be_given_an_expiry_time(memory, clock):
    ann = memory.user("ann")
    code = await ann.add_memory("The door code is 4711.", expires_at=clock() + 60_000)
    await ann.add_memory("The door is blue.")
    clock.advance(seconds=59)
    assert await ann.get_memory(code.id) == code
    clock.advance(seconds=1)
    assert await listed(ann) == ["The door is blue."]
    assert [hit.content for hit in await ann.search_memory("door")] == ["The door is blue."]
    assert len(await ann.export()) == 2


async def test_an_expiry_time_can_be_moved_or_removed_without_a_trace_in_the_history(memory, clock):
    ann = memory.user("ann")
    note = await ann.add_memory("Call the plumber.", expires_at=clock() + 60_000)
    longer = await ann.update_memory(note.id, expires_at=clock() + 600_000, version=note.version)
    assert (longer.version, longer.expires_at) == (note.version + 1, clock() + 600_000)
    clock.advance(minutes=5)
    assert await ann.get_memory(note.id) == longer
    await ann.update_memory(note.id, expires_at="never")
    clock.advance(days=400)
    assert (await ann.get_memory(note.id)).expires_at is None
    assert len(await ann.history(note.id)) == 1
    await ann.update_memory(note.id, content="Call the plumber on Monday.", expires_at=clock() + 1_000)
    assert [each.content for each in await ann.history(note.id)] == ["Call the plumber.", "Call the plumber on Monday."]


async def test_earlier_versions_of_a_memory_expire_with_it(memory, clock):
    ann = memory.user("ann")
    note = await ann.add_memory("The code is 4711.", expires_at=clock() + 60_000)
    await ann.update_memory(note.id, content="The code is 0815.")
    clock.advance(minutes=2)
    assert len(await ann.export()) == 1


async def test_earlier_versions_live_as_long_as_the_memory_whenever_its_expiry_changes(memory, clock):
    ann = memory.user("ann")
    note = await ann.add_memory("The code is 4711.")
    await ann.update_memory(note.id, content="The code is 0815.")
    await ann.update_memory(note.id, content="The code is 1234.", expires_at=clock() + 60_000)
    await ann.update_memory(note.id, expires_at="never")
    await memory.work()
    clock.advance(minutes=2)
    assert len(await ann.history(note.id)) == 3
    await ann.update_memory(note.id, expires_at=clock() + 60_000)
    await memory.work()
    clock.advance(minutes=2)
    assert len(await ann.export()) == 1


async def test_earlier_versions_expire_with_the_memory_even_if_no_work_ran_before(memory, clock):
    ann = memory.user("ann")
    note = await ann.add_memory("The code is 4711.")
    await ann.update_memory(note.id, content="The code is 0815.")
    await ann.update_memory(note.id, expires_at=clock() + 60_000)
    clock.advance(minutes=2)
    await memory.work()
    assert len(await ann.export()) == 1


async def test_earlier_versions_live_on_when_the_memory_is_added_again_for_longer(memory, clock):
    ann = memory.user("ann")
    note = await ann.add_memory("The code is 4711.", id="code", expires_at=clock() + 60_000)
    await ann.update_memory(note.id, content="The code is 0815.")
    await ann.add_memory("The code is 0815.", id="code")
    await memory.work()
    clock.advance(minutes=2)
    assert [each.content for each in await ann.history("code")] == ["The code is 4711.", "The code is 0815."]


async def test_a_text_added_again_lives_for_the_longer_of_both_times(memory, clock):
    ann = memory.user("ann")
    for minutes in (10, 1, 5):
        note = await ann.add_memory("Buy milk.", expires_at=clock() + minutes * 60_000)
        assert note.expires_at == clock() + 600_000
    assert (await ann.add_memory("Buy milk.")).expires_at is None
    assert (await ann.add_memory("Buy milk.", expires_at=clock() + 60_000)).expires_at is None


@pytest.mark.parametrize("end", [0, -1, "2020-01-01", "never ever", 1.5, True, float("nan")])
async def test_a_past_or_invalid_expiry_is_refused(memory, end):
    ann = memory.user("ann")
    note = await ann.add_memory("The door is blue.")
    with pytest.raises(ValidationError, match="expires_at"):
        await ann.add_memory("Buy milk.", expires_at=end)
    with pytest.raises(ValidationError, match="expires_at"):
        await ann.update_memory(note.id, expires_at=end)
    assert await listed(ann) == ["The door is blue."]


async def test_only_new_adds_what_is_missing_and_changes_nothing_that_exists(memory):
    ann = memory.user("ann")
    await ann.add_memory("Ann likes tea", id="tea", only_new=True)
    before = await ann.get_memory("tea")
    for again in ({"content": "Ann likes tea", "id": "tea"}, {"content": "Ann likes coffee", "id": "tea"}):
        with pytest.raises(Conflict) as conflict:
            await ann.add_memories([{"content": "Ann likes rain"}, again], only_new=True)
        assert conflict.value.field == "id"
    assert await ann.get_memory("tea") == before
    assert [record.id for record in (await ann.list_memories())[0]] == ["tea"]
    with pytest.raises(ValidationError) as refused:
        await ann.add_memory("Ann likes tea", only_new="yes")
    assert refused.value.field == "only_new"
