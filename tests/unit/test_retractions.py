"""What users take back, read from single messages."""

from __future__ import annotations

import time

import pytest

from recollect.enrich.rules import read


def taken_back(text: str) -> list[tuple[str, str]]:
    """The keys and values that a message takes back; no value: whatever it is."""
    drafts = [draft for draft in read(text, 0) if draft.layer in ("fact", "preference")]
    assert all(draft.corrects or draft.ends for draft in drafts), "nothing is learned from it"
    return [(draft.key, draft.instead_of) for draft in drafts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Forget that I live in Bern.", ("city", "Bern")),
        ("please forget i said that i live in Bern", ("city", "Bern")),
        ("You can forget that I live in Bern, I moved out.", ("city", "Bern")),
        ("Could you forget that I'm allergic to nuts, please?", ("allergy", "nuts")),
        ("Can you forget that I like dark mode?", ("theme", "dark")),
        ("Don't remember that I have a dog named Rex.", ("pet", "Rex")),
        ("Remove that I speak French from my profile.", ("language", "French")),
        ("I never said I was vegetarian, I just don't like beef.", ("diet", "vegetarian")),
        ("I did not say I'm 40", ("age", "40")),
        ("No, I never lived in Bern!", ("city", "Bern")),
        ("I've never worked at Google.", ("employer", "Google")),
        ("Forget my city.", ("city", "")),
        ("Forget my theme.", ("theme", "")),
        ("Forget that I never eat meat.", ("avoids", "meat")),
        ("Could you forget where I work?", ("employer", "")),
        ("Please delete my address from your memory", ("city", "")),
    ],
)
def test_what_is_taken_back(text, expected):
    assert taken_back(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "You always forget that I'm vegan!",
        "How could you forget that I live in Bern?",
        "Don't forget that I live in Bern.",
        "I would never forget that I live in Bern",
        "My mother never said I live in Bern",
        "Forget that I'm vegan for a moment, what would you cook?",
        "Forget that I'm vegan. What would you cook?",
        "Forget that I'm vegan and pretend I eat meat",
        "I never said I live in Bern alone.",
        "Forget about my job",
        "Delete my address",
        "Remove my name from the list",
        "Forget my password",
        "Forget it",
    ],
)
def test_what_takes_nothing_back(text):
    assert taken_back(text) == []


def test_what_is_put_right_in_the_next_sentence_is_learned():
    drafts = [draft for draft in read("I didn't say that I live in Bern. I live in Basel.", 0) if draft.layer == "fact"]
    assert [(draft.value, draft.instead_of) for draft in drafts] == [("Basel", ""), ("", "Bern")]


def test_the_characters_are_those_of_the_sentence():
    text = "Hi there. Forget that I live in Bern."
    (draft,) = [draft for draft in read(text, 0) if draft.layer == "fact"]
    assert text[slice(*draft.span)].strip() == "Forget that I live in Bern."


@pytest.mark.parametrize("text", ["forget that i " * 9_000, "i never said i " * 9_000, "forget my a" + " a" * 9_000])
def test_hostile_texts_are_read_at_once(text):
    started = time.process_time()
    read(text, 0)
    assert time.process_time() - started < 1
