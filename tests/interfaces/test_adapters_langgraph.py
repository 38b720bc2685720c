"""The LangGraph store keeps the promises of `BaseStore`, and what it stores are ordinary memories."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from recollect import Memory, sync
from recollect.adapters.langgraph import Store, item_id
from recollect.errors import TooLarge, ValidationError
from recollect.pace import PORTION
from recollect.stores import open_store
from recollect.testing.fakes import CountingStore, HashingEmbedder

PREFS = ("users", "ann", "prefs")


@pytest.fixture
async def store(memory, clock):
    return Store(memory, user="ann", clock=clock)


def told(items):
    return {(item.namespace, item.key): item.value for item in items}


# ── items ────────────────────────────────────────────────────────────────────────────────────────


async def test_an_item_comes_back_as_it_was_put(store):
    value = {"text": "I like pizza 🍕", "stars": 5, "ratio": 0.25, "tags": ["a", None, {"b": True}], "none": None}
    await store.aput(PREFS, "food", value)
    item = await store.aget(PREFS, "food")
    assert (item.value, item.key, item.namespace) == (value, "food", PREFS)
    assert item.created_at == item.updated_at


async def test_a_missing_item_is_none(store):
    assert await store.aget(PREFS, "nothing") is None
    await store.adelete(PREFS, "nothing")


async def test_the_last_put_wins_and_keeps_the_creation_time_of_the_first(store, clock):
    await store.aput(PREFS, "theme", {"value": "dark"})
    first = await store.aget(PREFS, "theme")
    clock.advance(hours=1)
    await store.aput(PREFS, "theme", {"value": "light"})
    item = await store.aget(PREFS, "theme")
    assert item.value == {"value": "light"}
    assert item.created_at == first.created_at < item.updated_at


@pytest.mark.parametrize("value", [{}, {"text": ""}, {"text": " \n"}, {"text": " ", "tags": []}])
async def test_a_value_without_words_is_kept_as_it_is(store, value):
    await store.aput(PREFS, "blank", value)
    assert (await store.aget(PREFS, "blank")).value == value
    assert [item.value for item in await store.asearch(PREFS)] == [value]


async def test_a_deleted_item_is_gone_and_can_be_put_again(store):
    await store.aput(PREFS, "theme", {"value": "dark"})
    await store.adelete(PREFS, "theme")
    assert await store.aget(PREFS, "theme") is None
    assert await store.asearch(PREFS) == []
    await store.aput(PREFS, "theme", {"value": "dark"})
    assert (await store.aget(PREFS, "theme")).value == {"value": "dark"}


async def test_the_same_value_under_two_keys_is_two_items(store, memory):
    for key in ("one", "two"):
        await store.aput(PREFS, key, {"text": "I like green tea"})
    await memory.work()
    assert {item.key for item in await store.asearch(PREFS)} == {"one", "two"}
    assert {item.key for item in await store.asearch(PREFS, query="green tea")} == {"one", "two"}
    await store.aput(PREFS, "two", {"text": "I like black tea"})
    assert (await store.aget(PREFS, "one")).value == {"text": "I like green tea"}
    assert (await store.asearch(PREFS, query="black tea"))[0].key == "two"


async def test_deleting_an_item_keeps_another_with_the_same_value(store, memory):
    for key in ("one", "two"):
        await store.aput(PREFS, key, {"text": "I like green tea"})
    await memory.work()
    await memory.maintain()
    await store.adelete(PREFS, "one")
    assert (await store.aget(PREFS, "two")).value == {"text": "I like green tea"}


@pytest.mark.parametrize("size", [100, 11_000, 14_000, 50_000])
async def test_large_values_are_kept_whole(store, size):
    value = {"text": "word " * (size // 5), "n": 1}
    await store.aput(PREFS, "long", value)
    await store.aput(PREFS, "short", {"text": "x"})
    await store.aput(PREFS, "short", value)
    assert (await store.aget(PREFS, "long")).value == (await store.aget(PREFS, "short")).value == value


async def test_what_cannot_be_kept_is_refused_by_name(store):
    with pytest.raises(TooLarge, match="content"):
        await store.aput(PREFS, "huge", {"text": "word " * 20_000})
    with pytest.raises(ValidationError, match="value"):
        await store.aput(PREFS, "set", {"text": {1, 2}})
    with pytest.raises(InvalidNamespaceError):
        await store.aput(("a.b",), "key", {"text": "x"})


async def test_an_empty_value_is_a_value(store):
    await store.aput(PREFS, "nothing", {})
    assert (await store.aget(PREFS, "nothing")).value == {}


async def test_a_wide_value_with_long_names_is_kept(store):
    value = {"a name that is rather long": {"and another one": list(range(2_000))}}
    await store.aput(PREFS, "wide", value)
    assert (await store.aget(PREFS, "wide")).value == value


async def test_more_than_a_hundred_puts_are_one_batch(store):
    await store.abatch([PutOp(PREFS, f"k{n}", {"n": n}) for n in range(200)])
    await store.abatch([PutOp(PREFS, f"k{n}", {"n": -n}) for n in range(150)])
    found = await store.asearch(PREFS, limit=500)
    assert {item.value["n"] for item in found} == {-n for n in range(150)} | set(range(150, 200))


async def test_a_batch_with_a_value_that_cannot_be_stored_changes_nothing(store):
    await store.aput(PREFS, "old", {"n": 0})
    puts = [PutOp(PREFS, "old", None), *(PutOp(PREFS, f"k{n}", {"n": n}) for n in range(120))]
    with pytest.raises(TooLarge):
        await store.abatch([*puts, PutOp(PREFS, "huge", {"text": "x" * 70_000})])
    assert told(await store.asearch(PREFS, limit=200)) == {(PREFS, "old"): {"n": 0}}


async def test_reads_in_a_batch_see_the_state_before_its_writes(store):
    await store.aput(PREFS, "theme", {"value": "dark"})
    got, _, _, again = await store.abatch(
        [GetOp(PREFS, "theme"), PutOp(PREFS, "theme", {"value": "x"}), PutOp(PREFS, "theme", {"value": "light"}),
         GetOp(PREFS, "theme")]
    )  # fmt: skip
    assert got.value == again.value == {"value": "dark"}
    assert (await store.aget(PREFS, "theme")).value == {"value": "light"}


async def test_many_concurrent_puts_of_the_same_item_leave_one(store):
    await asyncio.gather(*(store.aput(PREFS, "theme", {"value": f"colour {n}"}) for n in range(8)))
    assert len(await store.asearch(PREFS)) == 1
    await asyncio.gather(*(store.aput(PREFS, "theme", {"value": f"shade {n}"}) for n in range(8)))
    assert (await store.aget(PREFS, "theme")).value["value"].startswith("shade")
    await asyncio.gather(*(store.adelete(PREFS, "theme") for _ in range(4)))
    assert await store.aget(PREFS, "theme") is None


async def test_a_memory_edited_by_hand_is_still_an_item(store, memory):
    await store.aput(PREFS, "long", {"text": "word " * 4_000})
    await memory.user("ann").update_memory(item_id(PREFS, "long"), content="Only this is left")
    assert (await store.aget(PREFS, "long")).value == {"text": "Only this is left"}


async def test_secrets_are_masked_in_values_too(open_memory, clock):
    store = Store(await open_memory(masking="secrets"), clock=clock)
    await store.aput(PREFS, "login", {"password": "hunter2secret", "tries": 3})
    assert (await store.aget(PREFS, "login")).value == {"password": "[password]", "tries": 3}


# ── search ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_prefix_is_made_of_whole_segments(store):
    for namespace in [("a",), ("a", "b"), ("ab",), ("a-b",), ("a/b",), ("a", "bc")]:
        await store.aput(namespace, "k", {"at": list(namespace)})
    assert {item.namespace for item in await store.asearch(("a",))} == {("a",), ("a", "b"), ("a", "bc")}
    assert {item.namespace for item in await store.asearch(("a", "b"))} == {("a", "b")}
    assert len(await store.asearch(())) == 6


async def test_items_are_found_by_meaning(store):
    await store.aput(PREFS, "food", {"text": "Ann loves pizza with olives"})
    await store.aput(PREFS, "bike", {"text": "Ann rides a red bicycle"})
    await store.aput(("users", "bob"), "food", {"text": "Bob loves pizza with olives too"})
    best = (await store.asearch(("users", "ann"), query="olives on pizza"))[0]
    assert best.key == "food" and best.score > 0
    assert await store.asearch(("users", "ann"), query="olives", limit=1, offset=5) == []


async def test_only_the_chosen_fields_are_searched(memory, clock):
    store = Store(memory, user="ann", fields=["text"], clock=clock)
    await store.aput(PREFS, "one", {"text": "green tea", "secret": "zebra"})
    await store.aput(PREFS, "two", {"text": "zebra crossing"}, index=False)
    await store.aput(PREFS, "three", {"title": "zebra", "notes": [{"body": "stripes"}]}, index=["notes[*].body"])
    contents = [record.content for record in (await memory.user("ann").list_memories())[0]]
    assert contents == ["green tea", "[two]", "stripes"]


@pytest.mark.parametrize(
    ("filter", "keys"),
    [
        ({"kind": "fruit"}, {"apple", "plum"}),
        ({"kind": "fruit", "price": {"$gt": 2}}, {"plum"}),
        ({"price": {"$gte": 2, "$lt": 9}}, {"apple"}),
        ({"kind": {"$ne": "fruit"}}, {"bread"}),
        ({"origin": {"country": "NO"}}, {"apple"}),
        ({"tags": ["red", "sour"]}, {"plum"}),
        ({"price": {"$lte": 100}}, {"apple", "plum"}),
        ({"picked": {"$gte": "2026-01-01"}}, {"plum"}),
        ({"picked": {"$gt": 3}}, set()),
    ],
)
async def test_filters_choose_by_value(store, filter, keys):
    await store.aput(PREFS, "apple", {"kind": "fruit", "price": 2, "origin": {"country": "NO", "city": "Oslo"}})
    await store.aput(PREFS, "plum", {"kind": "fruit", "price": 9, "tags": ["red", "sour"], "picked": "2026-03-01"})
    await store.aput(PREFS, "bread", {"kind": "bakery"})
    assert {item.key for item in await store.asearch(PREFS, filter=filter)} == keys
    assert {item.key for item in await store.asearch(PREFS, filter=filter, query="fruit from Oslo")} == keys


async def test_without_a_query_the_items_put_last_come_first(store, clock):
    for number in range(12):
        await store.aput(PREFS, f"note {number}", {"text": f"Note {number}", "even": number % 2 == 0})
        clock.advance(minutes=1)
    await store.aput(PREFS, "note 3", {"text": "Note 3, changed", "even": False})
    assert [item.key for item in await store.asearch(PREFS, limit=3)] == ["note 3", "note 11", "note 10"]
    assert [item.key for item in await store.asearch(PREFS, limit=2, offset=10)] == ["note 1", "note 0"]
    assert [item.key for item in await store.asearch(PREFS, limit=2, filter={"even": True})] == ["note 10", "note 8"]


async def test_without_a_query_the_items_of_all_users_come_in_one_order(memory, clock):
    store = Store(memory, user_segment=1, clock=clock)
    for user in ("ann", "bob", "cem"):
        for key in ("one", "two"):
            await store.aput(("notes", user), key, {"text": f"{user} {key}"})
            clock.advance(minutes=1)
    await store.aput(("notes", "bob"), "one", {"text": "changed"})
    found = await store.asearch(("notes",), limit=3)
    assert [(item.namespace[1], item.key) for item in found] == [("bob", "one"), ("cem", "two"), ("cem", "one")]


async def test_an_unknown_operator_is_an_error(store):
    await store.aput(PREFS, "apple", {"price": 2})
    with pytest.raises(ValueError, match="operator"):
        await store.asearch(PREFS, filter={"price": {"$about": 2}})


# ── lifetimes ────────────────────────────────────────────────────────────────────────────────────


async def test_an_item_lives_for_as_many_minutes_as_its_ttl(store, clock):
    await store.aput(PREFS, "code", {"text": "4711"}, ttl=10)
    clock.advance(minutes=9)
    assert await store.aget(PREFS, "code", refresh_ttl=False)
    clock.advance(minutes=1)
    assert await store.aget(PREFS, "code") is None
    assert await store.asearch(PREFS) == await store.asearch(PREFS, query="code") == []
    assert await store.alist_namespaces() == []


@pytest.mark.parametrize("read", ["get", "search"])
async def test_reading_an_item_restarts_its_ttl(store, clock, read):
    await store.aput(PREFS, "code", {"text": "4711"}, ttl=10)
    for _ in range(3):
        clock.advance(minutes=8)
        assert await (store.aget(PREFS, "code") if read == "get" else store.asearch(PREFS))


async def test_expired_items_are_gone_at_once_and_swept_for_good_a_day_later(store, memory, clock):
    await store.aput(PREFS, "code", {"text": "4711"}, ttl=10)
    await store.aput(PREFS, "name", {"text": "Ann"})
    clock.advance(minutes=11)
    assert [record.content for record in (await memory.user("ann").list_memories())[0]] == ["Ann"]
    assert await store.asweep_ttl() == 0
    clock.advance(hours=25)
    assert await store.asweep_ttl() == 1


async def test_reading_an_item_leaves_no_trace_in_its_history(store, memory, clock):
    await store.aput(PREFS, "code", {"text": "4711"}, ttl=10)
    for _ in range(5):
        clock.advance(minutes=8)
        assert await store.aget(PREFS, "code")
    assert len(await memory.user("ann").history(item_id(PREFS, "code"))) == 1
    assert len(await memory.user("ann").export()) == 2


async def test_an_item_put_again_as_it_expires_survives(store, clock):
    for _ in range(3):
        await store.aput(PREFS, "code", {"text": "4711"}, ttl=10)
        clock.advance(minutes=11)
        await asyncio.gather(
            store.asweep_ttl(), store.aput(PREFS, "code", {"text": "0815"}, ttl=10), store.asweep_ttl()
        )
        assert (await store.aget(PREFS, "code")).value == {"text": "0815"}
        await store.adelete(PREFS, "code")


async def test_a_put_without_a_ttl_removes_the_limit(store, clock):
    await store.aput(PREFS, "code", {"text": "4711"}, ttl=10)
    await store.aput(PREFS, "code", {"text": "4711"})
    clock.advance(days=2)
    assert await store.aget(PREFS, "code")


async def test_many_large_items_are_put_at_once_and_again(store):
    for round in range(2):
        ops = [PutOp(PREFS, str(n), {"text": f"{round} {n} " + "é" * 25_000}) for n in range(40)]
        await store.abatch(ops)
    assert (await store.aget(PREFS, "39")).value["text"].startswith("1 39 ")


async def test_a_default_ttl_comes_from_the_configuration(memory, clock):
    store = Store(memory, ttl={"default_ttl": 5, "refresh_on_read": False}, clock=clock)
    await store.aput(PREFS, "code", {"text": "4711"})
    clock.advance(minutes=3)
    assert await store.aget(PREFS, "code")
    clock.advance(minutes=3)
    assert await store.aget(PREFS, "code") is None


async def test_a_large_batch_is_prepared_in_portions(store, monkeypatch):
    row, rows, draft = 0, [0], store._draft

    def counted(op: PutOp) -> Any:
        nonlocal row
        row += 1
        rows.append(row)
        return draft(op)

    async def others() -> None:
        nonlocal row
        while True:
            row = 0
            await asyncio.sleep(0)

    monkeypatch.setattr(store, "_draft", counted)
    waiting = asyncio.create_task(others())
    await store.abatch([PutOp(PREFS, f"k{n}", {"n": n}) for n in range(PORTION)])
    waiting.cancel()
    assert max(rows) <= PORTION // 2


# ── namespaces and users ─────────────────────────────────────────────────────────────────────────


async def test_namespaces_are_listed_by_prefix_suffix_and_depth(store):
    for path in ["a/b/c", "a/b/d/e", "a/b/d/i", "a/b/f", "a/c/f"]:
        await store.aput(tuple(path.split("/")), "k", {"x": 1})
    assert await store.alist_namespaces(prefix=("a", "b"), max_depth=3) == [
        ("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f"),
    ]  # fmt: skip
    assert await store.alist_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
    assert await store.alist_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert await store.alist_namespaces(limit=2, offset=1) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]


async def test_a_segment_of_the_namespace_can_name_the_user(memory, clock):
    store = Store(memory, user_segment=1, clock=clock)
    await store.aput(("memories", "ann"), "food", {"text": "Ann loves pizza"})
    await store.aput(("memories", "bob"), "food", {"text": "Bob loves pasta"})
    await store.aput(("settings",), "mode", {"text": "quiet"})
    assert [hit.content for hit in await memory.user("ann").search_memory("What does Ann love?")] == ["Ann loves pizza"]
    assert (await store.aget(("memories", "bob"), "food")).value == {"text": "Bob loves pasta"}
    assert {item.namespace for item in await store.asearch(("memories",), query="pizza")} == {
        ("memories", "ann"), ("memories", "bob"),
    }  # fmt: skip
    assert len(await store.alist_namespaces()) == 3
    await memory.user("ann").erase()
    assert await store.alist_namespaces() == [("memories", "bob"), ("settings",)]


# ── compared with LangGraph's own store ──────────────────────────────────────────────────────────

NAMESPACES = st.sampled_from([("a",), ("a", "b"), ("a", "bc"), ("ab",), ("b", "a"), ("b", "a", "c")])
KEYS = st.sampled_from(["x", "y", "z"])
VALUES = st.fixed_dictionaries(
    {"n": st.integers(-3, 3)},
    optional={"text": st.text(max_size=5), "deep": st.dictionaries(st.sampled_from("pq"), st.booleans())},
)
FILTERS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"n": st.integers(-3, 3)}),
    st.fixed_dictionaries(
        {"n": st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$ne", "$eq"]), st.integers(-3, 3),
                              min_size=1)}
    ),
    st.fixed_dictionaries({"deep": st.dictionaries(st.sampled_from("pq"), st.booleans(), min_size=1)}),
)  # fmt: skip
PATHS = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=2).map(tuple)
MATCHES = st.tuples(st.sampled_from(["prefix", "suffix"]), PATHS).map(lambda given: MatchCondition(*given))
PUTS = st.tuples(NAMESPACES, KEYS, st.one_of(VALUES, VALUES, st.none())).map(lambda given: PutOp(*given))
READS = st.one_of(
    st.tuples(NAMESPACES, KEYS).map(lambda given: GetOp(*given)),
    st.tuples(st.sampled_from([(), ("a",), ("b", "a"), ("ab",)]), FILTERS).map(lambda given: SearchOp(*given, 100)),
    st.tuples(st.lists(MATCHES, max_size=2).map(tuple), st.sampled_from([None, 1, 2])).map(
        lambda given: ListNamespacesOp(*given)
    ),
)


def plain(result: Any) -> Any:
    """A result without times and order, which are up to the store."""
    if isinstance(result, list) and result and isinstance(result[0], SearchItem):
        return told(result)
    return result.value if isinstance(result, Item) else result


def without_empty(store: InMemoryStore) -> InMemoryStore:
    """Their store also lists namespaces that were only read or have become empty."""
    for namespace in [namespace for namespace, items in store._data.items() if not items]:
        del store._data[namespace]
    return store


@given(st.lists(st.lists(st.one_of(PUTS, READS), min_size=1, max_size=4), max_size=8))
@settings(max_examples=60)
async def test_it_behaves_like_langgraphs_own_store(batches):
    theirs = InMemoryStore()
    async with Memory.open("memory://", embedder=HashingEmbedder(), worker=False) as memory:
        ours = Store(memory)
        for batch in batches:
            # Reading from their store creates the namespace, so listing goes first.
            batch.sort(key=lambda op: not isinstance(op, ListNamespacesOp))
            expected = await without_empty(theirs).abatch(batch)
            assert [plain(each) for each in await ours.abatch(batch)] == [plain(each) for each in expected]
        assert told(await ours.asearch((), limit=100)) == told(await theirs.asearch((), limit=100))


# ── in a graph ───────────────────────────────────────────────────────────────────────────────────


class State(TypedDict):
    said: str
    known: list[str]


def remember(state: State, *, store: BaseStore) -> dict[str, Any]:
    found = store.search(("memories", "ann"), query=state["said"])
    store.put(("memories", "ann"), state["said"], {"text": state["said"]})
    return {"known": [item.value["text"] for item in found]}


async def aremember(state: State, *, store: BaseStore) -> dict[str, Any]:
    found = await store.asearch(("memories", "ann"), query=state["said"])
    await store.aput(("memories", "ann"), state["said"], {"text": state["said"]})
    return {"known": [item.value["text"] for item in found]}


def compiled(node: Any, store: BaseStore) -> Any:
    builder = StateGraph(State)
    builder.add_node("remember", node)
    builder.add_edge(START, "remember")
    return builder.compile(store=store)


@pytest.mark.parametrize("node", [remember, aremember])
async def test_a_graph_remembers_with_await(memory, clock, node):
    graph = compiled(node, Store(memory, user_segment=1, clock=clock))
    await graph.ainvoke({"said": "I like pizza", "known": []})
    assert (await graph.ainvoke({"said": "pizza?", "known": []}))["known"] == ["I like pizza"]
    assert "I like pizza" in [hit.content for hit in await memory.user("ann").search_memory("pizza")]


def test_a_graph_remembers_without_await():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        graph = compiled(remember, Store(memory, user_segment=1))
        graph.invoke({"said": "I like pizza", "known": []})
        assert graph.invoke({"said": "pizza?", "known": []})["known"] == ["I like pizza"]


async def test_sync_calls_on_the_memorys_own_loop_are_refused(store):
    with pytest.raises(ValidationError, match="async form"):
        store.get(PREFS, "food")


# ── writing without reading first ────────────────────────────────────────────────────────────────


async def test_a_new_item_is_written_with_one_commit_and_nothing_read(open_memory):
    counting = CountingStore(await open_store("memory://"))
    memory = await open_memory(counting)
    counting.reset()
    store = Store(memory, user="ann")
    await store.aput(PREFS, "food", {"text": "pizza"})
    assert dict(counting.calls) == {"commit": 1}


async def test_an_item_that_others_changed_or_removed_meanwhile_is_still_written(memory, clock):
    ours, others = (Store(memory, user="ann", clock=clock) for _ in range(2))
    await others.aput(PREFS, "food", {"text": "pizza", "stars": 5})
    await ours.aput(PREFS, "food", {"text": "pizza", "stars": 1})  # new to us, and the same text
    assert (await others.aget(PREFS, "food")).value == {"text": "pizza", "stars": 1}
    await others.adelete(PREFS, "food")
    await ours.aput(PREFS, "food", {"text": "soup"})  # known to us, and gone since
    assert (await others.aget(PREFS, "food")).value == {"text": "soup"}


async def test_many_items_are_all_written_even_if_some_exist_already(memory, clock):
    ours, others = (Store(memory, user="ann", clock=clock) for _ in range(2))
    await others.aput(PREFS, "150", {"text": "old"})
    await ours.abatch([PutOp(PREFS, str(n), {"text": f"new {n}"}) for n in range(200)])
    found = await ours.asearch(PREFS, limit=300)
    assert {item.key: item.value["text"] for item in found} == {str(n): f"new {n}" for n in range(200)}
