"""Which texts say the same, and how merging them is done and undone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.policies.merging import (
    MERGES_MAX,
    OVERLAP_MIN,
    Statement,
    Wording,
    Wordings,
    merged,
    merges_of,
    normal,
    unmerged,
)
from recollect.records import Record, Scope

NOW = 1_000_000
CLOSE = 0.97


def memory(id: str, content: str = "I like tea", **fields: Any) -> Record:
    return Record(id, "long_term", Scope(user="ann"), content, **fields)


@pytest.mark.parametrize("text", ["I like tea", "  i LIKE\n tea!! ", "I like ｔｅａ.", "I like tea…"])
def test_case_spacing_unicode_forms_and_full_stops_do_not_make_a_new_text(text: str) -> None:
    assert normal(text) == "i like tea"


def test_a_question_is_not_its_answer_and_bare_marks_are_a_text() -> None:
    assert normal("tea?") != normal("tea")
    assert normal("!!!") == "!!!"


@given(st.text())
def test_the_normal_form_of_a_normal_form_is_itself(text: str) -> None:
    assert normal(normal(text)) == normal(text)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("I really like green tea", "I like green tea."),
        ("I'm a teacher", "I am a teacher"),
        ("I have two cats", "I have 2 cats"),
        ("I can't swim", "I cannot swim"),
        ("It costs 1,000 dollars", "it costs 1000 dollars"),
        ("I am currently working on the billing service", "I am working on the billing service"),
        ("She’s allergic to nuts", "She's allergic to nuts"),
    ],
)
def test_texts_that_say_the_same_are_near_duplicates(a: str, b: str) -> None:
    assert Wording(a).is_near(Wording(b), CLOSE)
    assert Wording(b).is_near(Wording(a), CLOSE)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("I like tea", "I don't like tea"),
        ("I like tea", "I dont like tea"),
        ("I eat meat at home with my family", "I never eat meat at home with my family"),
        ("I have 2 cats", "I have 3 cats"),
        ("I have two cats", "I have three cats"),
        ("I have 2 cats and 3 dogs", "I have 3 cats and 2 dogs"),
        ("My sister's name is Ann", "My brother's name is Ann"),
        ("Ann likes Bob", "Bob likes Ann"),
        ("Anna went to the old cinema by the station", "Berta went to the old cinema by the station"),
        ("Will and I went to the old cinema by the station", "I went to the old cinema by the station"),
        ("I moved from Berlin to Paris", "I moved to Berlin from Paris"),
        ("I lived in Paris", "I live in Paris"),
        ("I work at the hospital in the old town", "I will work at the hospital in the old town"),
        ("I work at the hospital in the old town", "I used to work at the hospital in the old town"),
        ("I have a cat", "I have cats"),
        ("Do I like tea?", "I do like tea."),
        ("I write C", "I write C++"),
        ("I earn $5", "I earn €5"),
        ("It is -5 outside", "It is 5 outside"),
        ("The meeting is at 10:30", "The meeting is at 10:45"),
        ("Rated 👍", "Rated 👎"),
        ("x > 5", "x < 5"),
        ("I can't eat nuts, milk, eggs and wheat", "I can't eat nuts, milk, eggs, wheat and soy"),
        ("私は猫が好きです", "私は犬が好きです"),
        ("Mi año fue bueno", "Mi ano fue bueno"),
        ("My key is " + "k" * 70 + "a", "My key is " + "k" * 70 + "b"),
        ("...", "!!"),
    ],
)
def test_texts_that_differ_in_what_they_say_are_never_near_duplicates(a: str, b: str) -> None:
    assert not Wording(a).is_near(Wording(b), 1.0)
    assert not Wording(b).is_near(Wording(a), 1.0)


@pytest.mark.parametrize("cosine", [0.92, 0.0, -1.0, float("nan")])
def test_texts_far_apart_in_meaning_are_not_duplicates_whatever_their_words(cosine: float) -> None:
    assert not Wording("I like tea").is_near(Wording("I like tea"), cosine)


@given(st.text(), st.text())
def test_saying_the_same_is_symmetric(a: str, b: str) -> None:
    one, other = Statement.of(a), Statement.of(b)
    assert one.says_the_same(other) == other.says_the_same(one)
    assert Wording(a).is_near(Wording(a), 1.0)


def test_the_older_record_survives_with_the_best_of_both() -> None:
    older = memory("old", importance=0.4, confidence=0.9, metadata={"topic": "drinks", "lang": "en"})
    newer = memory("new", "I like tea!", importance=0.7, confidence=0.5, metadata={"topic": "food", "app": "web"})
    kept, ended = merged(older, newer, similarity=0.98, now=NOW)
    assert (kept.id, kept.importance, kept.confidence) == ("old", 0.7, 0.9)
    assert kept.metadata == {"topic": "drinks", "lang": "en", "app": "web"}
    (merge,) = merges_of(kept)
    assert (merge.id, merge.similarity, merge.at, merge.reason) == ("new", 0.98, NOW, "the same text")
    assert (merge.added, merge.clashes) == (("app",), ("topic",))
    assert (ended.valid_to, ended.data["merged_into"], ended.data["reason"]) == (NOW, "old", "the same text")
    assert ended.content == "I like tea!"


def test_a_record_remembers_its_latest_merges_and_counts_all() -> None:
    record = memory("old", importance=0.1)
    for number in range(MERGES_MAX + 5):
        record, _ = merged(record, memory(f"n{number}", importance=number / 100), similarity=0.95, now=number)
    assert len(record.data["merged"]) == MERGES_MAX
    assert record.data["merged_count"] == MERGES_MAX + 5
    assert merges_of(record)[-1].id == f"n{MERGES_MAX + 4}"


def test_undoing_an_earlier_merge_leaves_the_later_one() -> None:
    older, first, second = memory("o", importance=0.1), memory("a", importance=0.9), memory("b", importance=0.5)
    once, first_ended = merged(older, first, similarity=0.95, now=1)
    twice, _ = merged(once, second, similarity=0.95, now=2)
    kept, revived = unmerged(twice, first_ended)
    assert (kept.importance, [merge.id for merge in merges_of(kept)], revived) == (0.5, ["b"], first)


def test_undoing_a_merge_keeps_what_others_changed_since() -> None:
    kept, ended = merged(memory("o", importance=0.1), memory("n", importance=0.5), similarity=0.95, now=1)
    undone, _ = unmerged(kept.with_(importance=0.8, metadata={"mood": "fine"}), ended)
    assert (undone.importance, undone.metadata) == (0.8, {"mood": "fine"})


def test_undoing_a_forgotten_merge_revives_the_newer_record_only() -> None:
    record, first_ended = merged(memory("o"), memory("first"), similarity=0.95, now=0)
    for number in range(MERGES_MAX):
        record, _ = merged(record, memory(f"n{number}"), similarity=0.95, now=number)
    kept, revived = unmerged(record, first_ended)
    assert (kept, revived) == (record, memory("first"))


def test_a_record_that_absorbed_another_can_be_absorbed_and_everything_undone() -> None:
    a, b, c = memory("a", importance=0.1), memory("b", importance=0.5), memory("c", importance=0.9)
    b_with_c, c_ended = merged(b, c, similarity=0.95, now=1)
    a_with_b, b_ended = merged(a, b_with_c, similarity=0.95, now=2)
    assert unmerged(a_with_b, b_ended) == (a, b_with_c)
    alone, revived = unmerged(b_ended, c_ended)
    assert revived == c
    assert unmerged(a_with_b, alone) == (a, b)


def test_unrelated_records_cannot_be_unmerged_and_nothing_merges_into_itself() -> None:
    with pytest.raises(ValueError, match="were not merged"):
        unmerged(memory("a"), memory("b"))
    with pytest.raises(ValueError, match="into itself"):
        merged(memory("a"), memory("a"), similarity=1.0, now=NOW)


values = st.one_of(st.integers(), st.text(max_size=3), st.booleans(), st.none())
metadata = st.dictionaries(st.sampled_from("abcd"), values)
own_data = st.dictionaries(st.sampled_from(["reason", "merged_into", "note"]), st.text(max_size=3))
levels = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@st.composite
def memories(draw: st.DrawFn, id: str) -> Record:
    return memory(
        id,
        draw(st.sampled_from(["I like tea", "I really like tea"])),
        data=draw(own_data),
        metadata=draw(metadata),
        importance=draw(levels),
        confidence=draw(levels),
        valid_to=draw(st.sampled_from([None, NOW + 5])),
        version=3,
    )


@settings(max_examples=200)
@given(memories("old"), memories("new"), memories("newest"))
def test_undoing_merges_in_turn_restores_exactly_the_original_records(a: Record, b: Record, c: Record) -> None:
    once, b_ended = merged(a, b, similarity=0.95, now=NOW)
    twice, c_ended = merged(once, c, similarity=0.95, now=NOW + 1)
    assert unmerged(twice, c_ended) == (once, c)
    assert unmerged(once, b_ended) == (a, b)


SPOKEN = [
    "I",
    "my",
    "is",
    "Is",
    "the",
    "really",
    "tea",
    "green",
    "Oslo",
    "3",
    "three",
    "don't",
    "not",
    "total",
    "totally",
    "liked",
    "like",
    "likes",
    "now",
    "Now",
    "and",
    "?",
    "!",
    "C++",
]


def by_its_definition(a: str, b: str) -> bool:
    """Whether two texts say the same, written down as plainly as possible."""
    one, other = Statement.of(a), Statement.of(b)
    ours, theirs = set(one.words), set(other.words)
    both = ours & theirs
    return normal(a) == normal(b) or (
        one.asks == other.asks
        and (ours <= theirs or theirs <= ours)
        and ours ^ theirs <= one.light | other.light
        and len(both) >= OVERLAP_MIN * len(ours | theirs) > 0
        and [word for word in one.words if word in both] == [word for word in other.words if word in both]
    )


@given(st.lists(st.lists(st.sampled_from(SPOKEN), max_size=9).map(" ".join), min_size=2, max_size=6), st.data())
@settings(max_examples=400, deadline=None)
def test_texts_read_once_compare_as_the_definition_says_for_every_pair(texts: list[str], data: st.DataObject) -> None:
    words = texts[0].split()
    place = data.draw(st.integers(0, len(words)))
    texts = [*texts, " ".join([*words[:place], data.draw(st.sampled_from(SPOKEN)), *words[place:]])]
    wordings = Wordings()
    for a in texts:
        for b in texts:
            assert wordings[a].is_near(wordings[b], CLOSE) == by_its_definition(a, b)


@pytest.mark.parametrize("light", ["", " be being", " is", " to be is", " please", "."])
def test_texts_whose_beginnings_differ_are_told_apart_by_these_as_by_all_words(light):
    said = "The boat is " + " ".join(f"word{number}x" for number in range(200))
    for one in (said, f"Also {said}", f"Being {said}", f"To be {said}", said.replace("boat", "ship")):
        a, b = Wording(one), Wording(said + light)
        same = a.normal == b.normal or Statement.of(a.text).says_the_same(Statement.of(b.text))
        assert a.is_near(b, 0.99) == b.is_near(a, 0.99) == same
