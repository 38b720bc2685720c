"""The formula for importance: what counts for more, and that it stays cheap."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.policies import importance as importance_policy
from recollect.policies.importance import CUES, WEIGHTS, explain_importance, importance, kind_of, names_in

ROLES = ("user", "assistant", "system", "tool")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hello!", "small talk"),
        ("Thanks a lot", "small talk"),
        ("", "small talk"),
        ("What is the capital of France?", "question"),
        ("should I take the train", "question"),
        ("The capital of France is Paris.", "statement"),
        ("I went to the shop", "personal"),
        ("I have to pay the rent by Friday.", "obligation"),
        ("I’d rather have tea", "preference"),
        ("I really like dark mode", "preference"),
        ("My sister's name is Ann", "identity"),
        ("We decided to use PostgreSQL.", "decision"),
        ("Hello! I prefer tea. And you?", "preference"),
        ("I prefer tea, did I tell you?", "preference"),
        ("I have to pay the rent by Friday, how do I do that?", "obligation"),
        ("What do I do if I have to pay, and how?", "question"),
    ],
)
def test_a_text_is_as_strong_as_its_strongest_sentence(text: str, kind: str) -> None:
    assert kind_of(text) == kind


@given(st.sampled_from(sorted(CUES)).flatmap(lambda name: st.tuples(st.just(name), _phrases(name))))
def test_the_check_for_words_never_misses_a_phrase(said: tuple[str, str]) -> None:
    name, phrase = said
    assert CUES[name].is_in(phrase, set(re.findall(r"\w+", phrase)))
    assert not re.search(r"[.!?\n]", phrase), "it lies within one sentence, so it is enough to search each of them"


@given(st.text(st.characters(max_codepoint=127)) | st.text())
def test_the_words_of_a_text_are_the_same_however_they_are_found(text: str) -> None:
    assert importance_policy._words(text) == set(re.findall(r"\w+", text))


def _phrases(name: str) -> st.SearchStrategy[str]:
    ascii = st.characters(max_codepoint=127)
    return st.from_regex(CUES[name].pattern.pattern, fullmatch=True, alphabet=ascii)


def test_what_an_assistant_says_about_itself_is_not_personal() -> None:
    assert kind_of("I love helping with my favourite topics.", "assistant") == "statement"


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("I'm allergic to peanuts", "I went to the shop"),
        ("I went to the shop", "The shop is open"),
        ("The shop is open", "hello there"),
        ("My flight leaves on Friday at 10:30", "My flight leaves soon"),
        ("Remember: my code is 1234", "My code is 1234"),
        ("I NEVER EVER eat meat", "I never ever eat meat"),
        ("I ran 12 km", "I ran 12"),
        ("I'm so worried about the exam", "I wrote about the exam"),
        ("We met Anna", "We met someone"),
    ],
)
def test_the_more_telling_text_matters_more(more: str, less: str) -> None:
    assert importance(more, "user") > importance(less, "user")


def test_the_user_counts_for_more_than_an_answer_and_an_answer_for_more_than_a_tool() -> None:
    user, answer, tool = (importance("The shop opens at nine.", role) for role in ("user", "assistant", "tool"))
    assert user > answer > tool


def test_repetition_and_feedback_move_the_score() -> None:
    text = "I went to the shop"
    assert importance(text, "user", repeated=2) > importance(text, "user", repeated=1) > importance(text, "user")
    assert importance(text, "user", repeated=99) == importance(text, "user", repeated=4)
    assert importance(text, "user", feedback=1) > importance(text, "user") > importance(text, "user", feedback=-1)


def test_the_parts_are_named_in_the_table_and_add_up() -> None:
    parts = explain_importance("Remember, I'm meeting Anna on Friday!", "user", repeated=1, feedback=-1)
    assert parts.keys() <= WEIGHTS.keys()
    assert {"personal", "user", "name", "date", "emphasis", "exclamation", "repetition", "feedback"} == parts.keys()
    expected = importance("Remember, I'm meeting Anna on Friday!", "user", repeated=1, feedback=-1)
    assert sum(parts.values()) == pytest.approx(expected)


def test_every_weight_has_a_reason() -> None:
    assert all(reason for _, reason in WEIGHTS.values())


def test_names_are_capitalised_words_that_do_not_begin_a_sentence() -> None:
    assert names_in("Yesterday I met Anna's friend. Then we saw Zoë in München on Friday.") == {
        "Anna",
        "Zoë",
        "München",
    }
    assert names_in("- Shopping\n- Cooking") == set()


@given(st.text(), st.sampled_from([*ROLES, "someone"]), st.integers(-3, 9), st.integers(-3, 3))
def test_importance_is_always_between_zero_and_one(text: str, role: str, repeated: int, feedback: int) -> None:
    assert 0.0 <= importance(text, role, repeated=repeated, feedback=feedback) <= 1.0


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "I ",
        "i i'll ",
        "!",
        "1",
        "1/",
        "A A ",
        "AAA ",
        "'",
        " ",
        "x'",
        "\n",
        "i really ",
        "my full first ",
        "\u0345",
    ],
)
def test_hostile_text_costs_no_more_than_a_moment(piece: str) -> None:
    hostile = piece * (100_000 // len(piece))
    start = time.process_time()
    importance(hostile, "user")
    assert time.process_time() - start < 0.05
