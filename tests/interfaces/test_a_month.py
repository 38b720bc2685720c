"""A month of conversations between a user and an assistant: what is known of the user along the way and at the end."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from recollect import Memory
from recollect.testing.fakes import ManualClock

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "a_month.py"
FACTS = {
    ("name", "Teodora"),
    ("nickname", "Teo"),
    ("city", "Bristol"),
    ("occupation", "paramedic"),
    ("employer", "Severn Air Ambulance"),
    ("sibling", "Ileana"),
    ("colleague", "Priya"),
    ("pet", "Wafer"),
    ("language", "Romanian"),
    ("language", "English"),
    ("hobby", "cello"),
    ("hobby", "swimming"),
    ("diet", "vegetarian"),
    ("allergy", "hazelnuts"),
    ("favorite_cake", "lemon drizzle"),
}
HISTORIES = {
    "nickname": [("Dora", "03-02", "03-13"), ("Teo", "03-13", None)],
    "city": [("Leeds", "03-02", "03-20"), ("Bristol", "03-20", None)],
    "occupation": [("nurse", "03-02", "03-23"), ("paramedic", "03-23", None)],
    "employer": [("Harrogate General", "03-06", "03-20"), ("Severn Air Ambulance", "03-23", None)],
    "hobby": [("climbing", "03-05", "03-16"), ("cello", "03-05", None), ("swimming", "03-17", None)],
    "diet": [("vegetarian", "03-12", None)],
}
NEVER_SAID_OF_HER = (
    "Berlin",
    "Hull",
    "York",
    "Rome",
    "Mars",
    "Lisbon",
    "plumber",
    "astronaut",
    "vegan",
    "cats",
    "Joan",
)


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("a_month", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["a_month"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["a_month"]


@pytest.fixture
async def teodora(example):
    clock = ManualClock()
    async with Memory.open("memory://", clock=clock, worker=False) as memory:
        yield await example.replay(memory, clock)


def _pairs(facts) -> set[tuple[str, str]]:
    return {(fact.key, fact.value) for fact in facts}


def _spells(facts) -> list[tuple[str, str | None, str | None]]:
    return [(fact.value, _day(fact.valid_from), _day(fact.valid_to)) for fact in facts]


def _day(moment) -> str | None:
    return f"{moment:%m-%d}" if moment else None


async def test_the_profile_after_a_month_holds_what_she_said_and_nothing_else(teodora):
    profile = await teodora.profile()
    assert _pairs(profile.facts) == FACTS
    assert profile.preferences == {"verbosity": "detailed", "units": "metric"}
    assert profile.name == "Teodora"


async def test_questions_suppositions_quotes_letters_and_other_people_teach_nothing_about_her(teodora):
    ever = [fact for key in {key for key, _ in FACTS} for fact in await teodora.facts.history(key)]
    assert [fact for fact in ever if any(word in fact.value for word in NEVER_SAID_OF_HER)] == []


@pytest.mark.parametrize("key", HISTORIES)
async def test_every_change_of_mind_is_in_the_history_with_its_dates(teodora, key):
    assert _spells(await teodora.facts.history(key)) == HISTORIES[key]


async def test_a_preference_that_changed_is_in_the_history_too(teodora):
    spells = _spells(await teodora.preferences.history("verbosity"))
    assert spells == [("concise", "03-03", "03-25"), ("detailed", "03-25", None)]


async def test_a_corrected_name_was_never_true(teodora):
    said = {fact.value: fact.status for fact in await teodora.facts.history("pet")}
    assert (said["Waffle"] in ("rejected", "corrected"), said["Wafer"]) == (True, "learned")
    assert ("pet", "Waffle") not in _pairs(await teodora.facts.list(as_of="2026-03-05"))


async def test_beliefs_from_before_a_correction_can_be_queried(teodora):
    assert ("pet", "Waffle") in _pairs(await teodora.facts.list(known_at="2026-03-05"))


@pytest.mark.parametrize(
    ("day", "so", "not_so"),
    [
        ("2026-03-05", {("city", "Leeds"), ("nickname", "Dora")}, {("diet", "vegetarian"), ("hobby", "swimming")}),
        ("2026-03-18", {("city", "Leeds"), ("hobby", "swimming"), ("diet", "vegetarian")}, {("hobby", "climbing")}),
        ("2026-03-22", {("city", "Bristol"), ("occupation", "nurse")}, {("employer", "Harrogate General")}),
        ("2026-03-24", {("occupation", "paramedic"), ("nickname", "Teo")}, {("city", "Leeds")}),
    ],
)
async def test_the_profile_as_of_a_past_day_shows_what_was_true_then(teodora, day, so, not_so):
    then = _pairs((await teodora.profile(as_of=day)).facts)
    assert so <= then
    assert not so & not_so and not then & not_so


async def test_a_fact_points_to_the_words_it_was_learned_from_and_outlives_them(teodora):
    facts = (await teodora.profile()).facts
    messages = {m.id: m for m in await teodora.get_memories([fact.source_message_id for fact in facts])}
    alive = [fact for fact in facts if fact.source_message_id in messages]
    assert {fact.key for fact in facts} - {fact.key for fact in alive} == {"name"}  # said thirty days ago
    for fact in alive:
        message = messages[fact.source_message_id]
        first, last = fact.span
        assert message.data["role"] == "user"
        assert fact.value.lower() in message.content[first:last].lower()


async def test_a_returning_user_is_known(teodora):
    context = await teodora.session("april").get_context("Plan my Saturday.", max_tokens=1_000)
    for known in ("Teo", "Bristol", "swimming", "vegetarian", "hazelnuts", "detailed"):
        assert known in context.system
    profile = context.system.partition("## About the user")[2].partition("##")[0]
    assert not any(word in profile for word in ("Leeds", "climbing", "nurse", "Waffle", *NEVER_SAID_OF_HER))


async def test_the_example_prints_the_notes_a_careful_assistant_would_take(example, capsys):
    await example.main()
    told = capsys.readouterr().out
    assert "Leeds: 2 March to 20 March" in told
    assert "Waffle: was never true" in told
    assert "hobby           cello, swimming" in told
