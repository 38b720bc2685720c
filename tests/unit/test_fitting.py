"""Windows, splits and packing, on plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.policies.fitting import (
    Item,
    Packed,
    Section,
    by_halves,
    last_messages,
    last_turns,
    most_important,
    newest_within,
    pack,
    split_by_count,
    split_by_tokens,
    units,
    without_orphans,
)
from recollect.records import Record, Scope

SCOPE = Scope(user="ann", session="monday")


def message(id: str, role: str = "user", importance: float = 0.5, tokens: int = 1, **data: Any) -> Record:
    content = " ".join(["word"] * tokens)
    return Record(id, "conversation", SCOPE, content, {"role": role, **data}, importance=importance)


def call(id: str, *calls: str, **more: Any) -> Record:
    return message(id, "assistant", tool_calls=[{"id": name} for name in calls], **more)


def result(id: str, name: str, **more: Any) -> Record:
    return message(id, "tool", tool_call_id=name, **more)


def count(record: Record) -> int:
    return len(record.content.split())


def ids(messages: Sequence[Record]) -> str:
    return " ".join(record.id for record in messages)


def pieces(messages: Sequence[Record]) -> list[str]:
    return [ids(unit) for unit in units(messages)]


WITH_TOOLS = [message("u1"), call("c", "x", "y"), result("rx", "x"), result("ry", "y"), message("a", "assistant")]


def test_a_call_and_its_results_are_one_unit() -> None:
    assert pieces(WITH_TOOLS) == ["u1", "c rx ry", "a"]


def test_a_call_and_its_result_stay_one_unit_with_other_messages_between() -> None:
    history = [call("c1", "x"), message("u"), call("c2", "y"), result("rx", "x"), result("ry", "y"), message("u2")]
    assert pieces(history) == ["c1 u c2 rx ry", "u2"]


def test_a_repeated_call_id_belongs_to_the_nearest_call() -> None:
    history = [call("c1", "x"), result("r1", "x"), message("u"), call("c2", "x"), result("r2", "x")]
    assert pieces(history) == ["c1 r1", "u", "c2 r2"]


def test_a_result_without_its_call_is_dropped() -> None:
    assert ids(without_orphans(WITH_TOOLS[2:])) == "a"


def test_a_call_without_all_its_results_is_dropped_with_the_results_it_has() -> None:
    history = [message("u"), call("c", "x", "y"), result("rx", "x"), message("u2")]
    assert ids(without_orphans(history)) == "u u2"


def test_a_call_at_the_end_may_still_wait_for_its_results() -> None:
    history = [message("u"), call("c", "x", "y"), result("rx", "x")]
    assert ids(without_orphans(history)) == "u c rx"
    assert ids(without_orphans(history, pending=False)) == "u"


def test_broken_tool_data_does_not_stop_a_window() -> None:
    history = [message("a", "assistant", tool_calls=["junk"]), message("b", "tool", tool_call_id=7), message("u")]
    assert ids(last_messages(history, 5)) == "a u"


def test_the_last_messages_never_begin_with_half_a_tool_call() -> None:
    assert ids(last_messages(WITH_TOOLS, 2)) == "a"
    assert ids(last_messages(WITH_TOOLS, 4)) == "c rx ry a"
    assert ids(last_messages(WITH_TOOLS, 50)) == "u1 c rx ry a"
    assert last_messages(WITH_TOOLS, 0) == []


def test_a_turn_starts_with_a_user_message() -> None:
    history = [message("s", "system"), message("u1"), message("a1", "assistant"), *WITH_TOOLS[1:], message("u2")]
    assert ids(last_turns(history, 1)) == "u2"
    assert ids(last_turns(history, 2)) == "u1 a1 c rx ry a u2"
    assert ids(last_turns(history, 9)) == ids(history)
    assert last_turns(history, 0) == []


def test_the_newest_messages_within_a_budget_have_no_gap() -> None:
    history = [message("a", tokens=1), message("b", tokens=9), message("c", tokens=3)]
    assert ids(newest_within(history, 5, count)) == "c"
    assert ids(newest_within(history, 12, count)) == "b c"
    assert newest_within(history, 2, count) == []


def test_the_most_important_messages_stand_beside_the_newest_in_order() -> None:
    history = [message(str(number), importance=value) for number, value in enumerate([0.9, 0.1, 0.8, 0.2, 0.1, 0.1])]
    assert ids(most_important(history, 4, recent=2)) == "0 2 4 5"
    assert ids(most_important(history, 1, recent=4)) == "5"


def test_nothing_is_older_while_everything_fits() -> None:
    history = [message("a", tokens=5), message("b", tokens=5)]
    split = split_by_tokens(history, 10, count)
    assert (split.older, ids(split.kept)) == ((), "a b")


def test_the_first_half_of_a_long_history_is_older() -> None:
    history = [message(str(number), tokens=10) for number in range(10)]
    split = split_by_tokens(history, 99, count)
    assert (ids(split.older), ids(split.kept)) == ("0 1 2 3 4", "5 6 7 8 9")


def test_the_newest_message_is_kept_however_large_it_is() -> None:
    split = split_by_tokens([message("a"), message("b", tokens=50)], 10, count)
    assert (ids(split.older), ids(split.kept)) == ("a", "b")
    assert split_by_tokens([message("b", tokens=50)], 10, count).older == ()


def test_more_than_twenty_messages_keep_the_last_ten() -> None:
    history = [message(str(number)) for number in range(21)]
    assert split_by_count(history[:20]).older == ()
    assert ids(split_by_count(history).kept) == ids(history[11:])


def test_an_empty_history_has_empty_windows_and_splits() -> None:
    assert last_messages([], 5) == last_turns([], 5) == newest_within([], 5, count) == most_important([], 5) == []
    assert split_by_tokens([], 0, count).kept == split_by_count([]).kept == ()


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    names = st.sampled_from(["x", "y", "z"])
    kinds = st.one_of(
        st.tuples(st.just("user"), st.just(())),
        st.tuples(st.just("assistant"), st.just(())),
        st.tuples(st.just("call"), st.lists(names, min_size=1, max_size=2, unique=True)),
        st.tuples(st.just("result"), names),
    )
    found = []
    for number, (kind, value) in enumerate(draw(st.lists(kinds, max_size=14))):
        more: dict[str, Any] = {
            "tokens": draw(st.integers(0, 9)),
            "importance": draw(st.sampled_from([0.1, 0.5, 0.9])),
        }
        if kind == "call":
            found.append(call(f"m{number}", *value, **more))
        elif kind == "result":
            found.append(result(f"m{number}", str(value), **more))
        else:
            found.append(message(f"m{number}", kind, **more))
    return found


def acceptable(messages: Sequence[Record]) -> bool:
    """Whether a provider would accept this list: every result follows its call, and every call has its results."""
    for place, record in enumerate(messages):
        made = {entry["id"] for entry in record.data.get("tool_calls", ())}
        answered = {later.data.get("tool_call_id") for later in messages[place + 1 :]}
        only_results_follow = all(later.data["role"] == "tool" for later in messages[place + 1 :])
        if made - answered and not only_results_follow:
            return False
        called = {entry["id"] for before in messages[:place] for entry in before.data.get("tool_calls", ())}
        if record.data["role"] == "tool" and record.data["tool_call_id"] not in called:
            return False
    return True


@settings(max_examples=200, deadline=None)
@given(histories(), st.integers(0, 16))
def test_every_window_is_in_order_within_its_limit_and_acceptable_to_a_provider(history: list[Record], n: int) -> None:
    windows = [
        last_messages(history, n),
        last_turns(history, n),
        newest_within(history, n, count),
        most_important(history, n, recent=2),
        without_orphans(history),
    ]
    for window in windows:
        places = [history.index(record) for record in window]
        assert places == sorted(set(places))
        assert acceptable(window)
    assert len(windows[0]) <= n and len(windows[3]) <= n and sum(map(count, windows[2])) <= n


@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(0, 60))
def test_units_and_splits_lose_nothing_and_divide_no_unit(history: list[Record], tokens_max: int) -> None:
    whole = units(history)
    assert [record for unit in whole for record in unit] == history
    for split in (split_by_tokens(history, tokens_max, count), split_by_count(history, over=6, keep=3)):
        assert [*split.older, *split.kept] == history
        assert bool(split.kept) == bool(history)
        assert units(split.older) + units(split.kept) == whole


# Packing.


def section(name: str, *tokens: int, share: float = 0.5, floor: int = 0) -> Section:
    items = tuple(Item(f"{name}{place}", "", size) for place, size in enumerate(tokens))
    return Section(name, items, share, floor)


def kept_ids(packed: Packed) -> dict[str, list[str]]:
    return {name: [item.id for item in items] for name, items in packed.kept.items()}


def no_heading(name: str) -> int:
    return 0


def test_each_section_gets_its_share_before_any_gets_more() -> None:
    packed = pack([section("a", 10, 10, 10), section("b", 10, 10, 10)], 40, no_heading, priority=["a"])
    assert kept_ids(packed) == {"a": ["a0", "a1"], "b": ["b0", "b1"]}


def test_what_is_left_over_goes_to_the_first_in_priority() -> None:
    sections = [section("a", 10, 10, 10), section("b", 10, 10, 10), section("c", share=0.5)]
    packed = pack(sections, 50, no_heading, priority=["b"])
    assert kept_ids(packed) == {"a": ["a0", "a1"], "b": ["b0", "b1", "b2"], "c": []}


def test_smaller_items_still_go_in_after_one_that_is_too_large() -> None:
    packed = pack([section("a", 5, 90, 4, share=1.0)], 20, no_heading)
    assert kept_ids(packed) == {"a": ["a0", "a2"]}
    assert [(left.id, left.reason) for left in packed.left_out] == [
        ("a1", "too large: needs 90 tokens, there is room for 20")
    ]


def test_a_reason_says_what_was_needed_and_what_was_left() -> None:
    packed = pack([section("a", 60, 50, share=1.0)], 100, lambda name: 5)
    assert packed.tokens == 65
    assert packed.left_out[0].reason == "no room: needs 50 tokens, 35 left"


def test_a_heading_is_paid_once_and_only_with_an_item() -> None:
    packed = pack([section("a", 10, 10, share=1.0), section("b", 10, share=0.0), section("c")], 27, lambda name: 7)
    assert packed.tokens == 27
    assert kept_ids(packed) == {"a": ["a0", "a1"], "b": [], "c": []}


def test_a_floor_is_kept_free_for_a_section_with_a_small_share() -> None:
    sections = [section("a", *[10] * 10, share=0.9), section("b", 10, 10, 10, share=0.0, floor=20)]
    packed = pack(sections, 60, no_heading, priority=["a"])
    assert kept_ids(packed)["b"] == ["b0", "b1"]


@pytest.mark.parametrize("tokens_max", [0, -5])
def test_an_empty_budget_keeps_nothing(tokens_max: int) -> None:
    packed = pack([section("a", 1, 2)], tokens_max, no_heading)
    assert packed.tokens == 0 and len(packed.left_out) == 2


@st.composite
def section_lists(draw: st.DrawFn) -> list[Section]:
    return [
        section(
            name,
            *draw(st.lists(st.integers(0, 30), max_size=6)),
            share=draw(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])),
            floor=draw(st.sampled_from([0, 0, 5, 40])),
        )
        for name in draw(st.sampled_from(["", "a", "ab", "abc"]))
    ]


orders = st.sampled_from([(), ("a",), ("c", "b"), ("b", "unknown")])


@settings(max_examples=300, deadline=None)
@given(section_lists(), st.integers(0, 200), st.integers(0, 8), orders)
def test_packing_keeps_the_budget_and_accounts_for_every_item(
    sections: list[Section], tokens_max: int, heading: int, priority: tuple[str, ...]
) -> None:
    packed = pack(sections, tokens_max, lambda name: heading, priority)
    kept = [item for items in packed.kept.values() for item in items]
    spent = sum(item.tokens for item in kept) + heading * sum(bool(items) for items in packed.kept.values())
    assert packed.tokens == spent <= tokens_max
    everything = sorted(item.id for part in sections for item in part.items)
    assert sorted([item.id for item in kept] + [left.id for left in packed.left_out]) == everything
    for part in sections:
        assert [item for item in part.items if item in packed.kept[part.name]] == list(packed.kept[part.name])
    assert packed == pack(sections, tokens_max, lambda name: heading, priority)


def test_an_unbroken_section_has_no_gaps() -> None:
    items = (Item("newest", "", 5), Item("large", "", 50), Item("oldest", "", 5))
    packed = pack([Section("recent", items, 1.0, unbroken=True)], 20, lambda name: 0)
    assert [item.id for item in packed.kept["recent"]] == ["newest"]
    assert {left.id for left in packed.left_out} == {"large", "oldest"}


@given(section_lists())
def test_a_huge_budget_leaves_nothing_out(sections: list[Section]) -> None:
    assert pack(sections, 1_000_000, lambda name: 3).left_out == ()


@given(st.lists(st.integers(1, 400), min_size=2, max_size=80), st.integers(200, 2_000))
def test_a_window_by_halves_fits_and_begins_at_few_places(sizes, room):
    starts = [by_halves(sizes[: count + 1], room) for count in range(len(sizes))]
    assert starts == sorted(starts)
    for count, start in enumerate(starts):
        window = sizes[start : count + 1]
        assert window, "the newest is always in it"
        assert sum(window) <= room or len(window) == 1
    moves = len(set(starts)) - 1
    assert moves <= 2 * sum(sizes) / room + 1
