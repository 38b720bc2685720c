"""What was said and is no longer so comes after what tells how things are now."""

from __future__ import annotations

import pytest

WHERE = "Where do I live?"
OSLO, LYON = "I live in Oslo.", "I moved to Lyon last week."


@pytest.fixture
async def memory(open_memory):
    """A memory with the embedder that is installed: only that knows what is alike."""
    return await open_memory(embedder="static")


async def told(memory, clock, *texts, user="ann"):
    """A user who said this, a day apart, each in a session of its own."""
    ann = memory.user(user)
    for number, text in enumerate(texts):
        await ann.session(f"day {number}").add_interaction(text, "Noted.")
        await memory.work()
        clock.advance(days=1)
    return ann


async def contents(user, question, **options):
    return [hit.content for hit in await user.search_memory(question, **options)]


async def test_the_first_hit_is_where_somebody_lives_now(memory, clock):
    ann = await told(memory, clock, OSLO, LYON)
    assert await contents(ann, WHERE, limit=1) == ["city: Lyon"]
    found = await contents(ann, WHERE, layer="conversation")
    assert found.index(LYON) < found.index(OSLO), "among messages alone, too"


async def test_the_score_and_the_explanation_tell_why_it_comes_first(memory, clock):
    ann = await told(memory, clock, OSLO, LYON)
    now, before = (await ann.search_memory(WHERE))[:2]
    assert (now.content, before.content) == ("city: Lyon", OSLO)
    assert now.score == before.score == pytest.approx(sum(leg.share for leg in now.legs.values()), abs=1e-4)
    assert now.legs["current"].share > 0 and "current" not in before.legs
    assert "is the latest word on this" in now.reason


async def test_a_question_for_before_finds_what_was_before(memory, clock):
    ann = await told(memory, clock, OSLO, LYON)
    assert await contents(ann, "Where did I live before I moved?", layer="conversation", limit=1) == [OSLO]


async def test_as_of_an_earlier_time_the_value_of_then_is_current(memory, clock):
    start = clock()
    ann = await told(memory, clock, OSLO, "I live in Lyon now.")
    assert (await contents(ann, WHERE, layer="conversation", at=start + 1000))[0] == OSLO
    assert (await contents(ann, WHERE, layer="conversation"))[0] == "I live in Lyon now."


async def test_what_became_true_again_is_not_overtaken(memory, clock):
    ann = await told(memory, clock, OSLO, "I live in Lyon now.", "I live in Oslo again.")
    found = await contents(ann, WHERE, layer="conversation")
    assert found.index("I live in Lyon now.") > found.index(OSLO)


async def test_something_else_that_was_said_in_the_same_breath_still_comes_first(memory, clock):
    both = "I work at Siemens and my dog is called Rex."
    ann = await told(memory, clock, both, "I work at Bosch now.")
    assert (await contents(ann, "What is my dog called?", layer="conversation"))[0] == both


async def test_an_end_comes_before_what_has_ended(memory, clock):
    ended = "I'm not vegetarian any more, I eat meat again."
    ann = await told(memory, clock, "I'm vegetarian.", ended)
    assert (await contents(ann, "Am I vegetarian?", layer="conversation"))[0] == ended


async def test_what_was_taken_back_answers_nothing(memory, clock):
    tea = "I drink tea where I live."
    ann = await told(memory, clock, OSLO, tea, "Forget that I live in Oslo.")
    hits = await ann.search_memory(WHERE, layer="conversation")
    assert hits[0].content == tea
    gone = next(hit for hit in hits if hit.content == OSLO)
    assert gone.legs["current"].share < 0
    assert gone.relevance < 0.05


async def test_another_question_still_finds_what_was_said_beside_it(memory, clock):
    both = "I live in Oslo and my dog is called Rex."
    ann = await told(memory, clock, both, "Forget that I live in Oslo.")
    assert (await contents(ann, "What is my dog called?", layer="conversation"))[0] == both


async def test_when_the_newer_statement_is_forgotten_the_older_one_is_found_as_before(memory, clock):
    ann = await told(memory, clock, OSLO, LYON)
    newer = next(hit.id for hit in await ann.search_memory(LYON, layer="conversation") if hit.content == LYON)
    await ann.forget(newer)
    await memory.work()
    first = (await ann.search_memory(WHERE))[0]
    assert "Oslo" in first.content and "current" not in first.legs


async def test_an_index_that_is_built_later_knows_what_was_overtaken(open_memory, memory, clock, store_name):
    if store_name == "memory":
        pytest.skip("nothing is left of a memory:// to open again")
    await told(memory, clock, OSLO, LYON)
    await memory.close()
    again = await open_memory(embedder="static")
    assert await contents(again.user("ann"), WHERE, limit=1) == ["city: Lyon"]


async def test_what_is_no_fact_is_overtaken_by_what_says_it_again(memory, clock):
    ann = await told(memory, clock, "My phone number is 555-1234.", "My new phone number is 555-9876.")
    question = "What is my phone number?"
    assert await contents(ann, question, limit=1) == ["My new phone number is 555-9876."]
    assert await contents(ann, "What was my phone number before?", limit=1) == ["My phone number is 555-1234."]


async def test_among_people_nothing_overtakes_because_it_is_alike(memory, clock):
    said = [("Tom", "We saw the lake near Bergen in spring."), ("Tom", "We saw the lake near Bergen in fog.")]
    talk = memory.user("ann").session("letters")
    for name, text in said:
        await talk.add_message("user", text, name=name)
        clock.advance(days=1)
    await memory.work()
    hits = await memory.user("ann").search_memory("Who saw the lake near Bergen?", layer="conversation")
    assert ["current" in hit.legs for hit in hits] == [False, False]


BRISTOL, LAGOS = "I live in Bristol with my husband Chidi", "they live in Lagos so we'll see her at Easter maybe"


async def test_what_asks_for_a_value_of_the_profile_is_answered_by_whoever_told_it(memory, clock):
    ann = await told(memory, clock, BRISTOL, "my cousin Ada had her baby!!", LAGOS)
    assert await contents(ann, WHERE, limit=1) == [BRISTOL]
    assert (await contents(ann, WHERE, layer="conversation"))[0] == BRISTOL


async def test_a_fact_that_was_stated_answers_what_asks_for_it_though_nothing_was_ever_said(memory):
    ann = memory.user("ann")
    await ann.add_memories([{"content": "My sister Ana lives in Oslo."}, {"content": "Ben lives in Bergen."}])
    await ann.add_fact("city", "Lyon")
    await memory.work()
    assert (await contents(ann, WHERE, limit=1)) == ["city: Lyon"]


@pytest.mark.parametrize("question", ["Where do they live?", "When do I live in Lagos?"])
async def test_another_question_with_the_same_words_is_not_answered_by_the_profile(memory, clock, question):
    ann = await told(memory, clock, BRISTOL, LAGOS)
    hits = await ann.search_memory(question)
    assert hits and not any("current" in hit.legs for hit in hits)


async def test_mum_is_found_as_mother_and_february_as_feb(memory, clock):
    ann = await told(memory, clock, "My mum is called Grace by the way.", "Seville, 13 to 19 feb, booked.")
    assert (await contents(ann, "What is my mother called?", layer="conversation"))[0].startswith("My mum")
    assert (await contents(ann, "What is booked in February?", layer="conversation"))[0].startswith("Seville")
