"""What a user takes back in a conversation leaves the profile, and is not learned from the same words again."""

from __future__ import annotations

import pytest

from recollect.interfaces.agent import MemoryAgent


async def profile_after(memory, *said):
    ann = memory.user("ann")
    for number, text in enumerate(said):
        await ann.session(f"s{number}").add_interaction(text, "Noted.")
        await memory.work()
    return ann, {fact.key: fact.value for fact in (await ann.profile()).facts}


@pytest.mark.parametrize(
    "taken_back", ["Forget that I live in Bern.", "I never said I live in Bern.", "Forget my city."]
)
async def test_what_is_taken_back_is_in_no_profile_and_no_context(memory, taken_back):
    ann, known = await profile_after(memory, "I live in Bern. I work at Bosch.", taken_back)
    assert known == {"employer": "Bosch"}
    context = await ann.session("new").get_context("Who am I?")
    profile = next(section for section in context.sections if section.name == "profile")
    assert "Bern" not in profile.text and "Bosch" in profile.text


async def test_what_it_had_replaced_is_not_brought_back(memory):
    ann, known = await profile_after(memory, "I live in Oslo.", "I moved to Bern.", "Forget that I live in Bern.")
    assert known == {}
    assert [(fact.value, fact.status) for fact in await ann.facts.history("city")][-1] == ("Bern", "corrected")


async def test_what_was_never_so_brings_back_what_it_had_replaced(memory):
    _, known = await profile_after(memory, "I live in Oslo.", "I live in Bern.", "I never said I live in Bern.")
    assert known == {"city": "Oslo"}


async def test_it_is_kept_in_the_history_with_its_source(memory):
    ann, _ = await profile_after(memory, "I live in Bern.", "Forget that I live in Bern.")
    (fact,) = await ann.facts.history("city")
    assert (fact.value, fact.status, fact.reason) == ("Bern", "corrected", "the user asked to forget it")


@pytest.mark.parametrize(
    ("told", "taken_back"),
    [
        ("I live in Bern.", "Forget that I live in Bern."),
        ("My cat is called Admiral.", "Please forget my cat is called Admiral."),
    ],
)
async def test_the_graph_follows(memory, told, taken_back):
    ann, known = await profile_after(memory, told, taken_back)
    assert known == {}
    assert await ann.graph.relations() == []


async def test_it_is_learned_anew_when_it_is_said_anew(memory):
    _, known = await profile_after(
        memory, "I live in Bern.", "Forget that I live in Bern.", "I live in Bern after all."
    )
    assert known == {"city": "Bern"}


async def test_what_is_not_known_changes_nothing(memory):
    _, known = await profile_after(memory, "I live in Basel.", "I never said I live in Bern.")
    assert known == {"city": "Basel"}


async def test_the_built_in_assistant_says_so_and_quotes_it_no_more(memory):
    ann, _ = await profile_after(memory, "I live in Bern.", "Forget that I live in Bern.")
    chat = ann.session("new")
    assert "Bern" not in await MemoryAgent().reply(chat, "Where do I live?")
    assert "no longer count on that" in await MemoryAgent().reply(chat, "Forget that I work at Bosch.")


async def test_whoever_is_rejected_in_the_profile_leaves_the_graph_too(memory):
    ann, known = await profile_after(memory, "My cat is called Admiral. My sister is called Ingrid.")
    assert known == {"pet": "Admiral", "sibling": "Ingrid"}
    await ann.facts.reject("pet", "Admiral")
    await memory.work()
    assert [relation.names[1] for relation in await ann.graph.relations()] == ["Ingrid"]


async def test_a_setting_is_taken_back_like_a_fact(memory):
    ann, _ = await profile_after(memory, "I like dark mode.", "Forget my theme.")
    assert (await ann.profile()).preferences == {}
