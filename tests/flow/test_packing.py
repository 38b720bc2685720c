"""Memories get the room they are worth: long turns shortened, weak ones left out, and all of it reported."""

from __future__ import annotations

import pytest

from recollect import Memory
from recollect.testing.fakes import HashingEmbedder, ManualClock

FILLER = "We talked about the weather for a while. Then somebody asked for tea. The evening was long and mild. "
ANSWER = "The lighthouse keeper of Skagen is called Marit."


@pytest.fixture
async def ann():
    async with Memory.open("memory://", clock=ManualClock(), embedder=HashingEmbedder(), worker=False) as memory:
        user = memory.user("ann")
        for number in range(30):
            text = FILLER * 8 + (ANSWER if number == 7 else f"Number {number} was a lighthouse too. ") + FILLER * 8
            await user.session(f"day-{number}").add_message("assistant", f"{number}. {text}", id=f"turn-{number}")
        await memory.work()
        yield user


async def test_long_turns_are_shortened_to_what_was_asked_about(ann):
    context = await ann.get_context("What is the lighthouse keeper of Skagen called?", max_tokens=1_000)
    assert ANSWER in context.system
    short = [each for each in context.report.kept if not each.whole]
    assert len(short) >= 7, "whole turns would fill the budget with two"
    assert context.system.count("was a lighthouse too.") == len(short), "and what matched is what stays"
    sources = {each.id: each for each in context.sources}
    assert all(sources[each.id].session == each.id.replace("turn", "day") for each in short)
    assert context.tokens <= 1_000
    assert "in (shortened), " in context.explain()


async def test_the_best_hit_keeps_the_most_text(ann):
    context = await ann.get_context("What is the lighthouse keeper of Skagen called?", max_tokens=1_000)
    sizes = {each.id: each.tokens for each in context.report.kept}
    assert sizes.pop("turn-7") > max(sizes.values())


async def test_with_room_enough_nothing_is_shortened(ann):
    context = await ann.get_context("What is the lighthouse keeper of Skagen called?", max_tokens=100_000)
    assert all(each.whole for each in context.report.kept)
    assert f"{FILLER}{ANSWER}" in context.system


async def test_hits_far_behind_the_best_are_left_out_and_reported():
    async with Memory.open("memory://", clock=ManualClock(), embedder=HashingEmbedder(), worker=False) as memory:
        ben = memory.user("ben")
        await ben.add_memories(["The keeper of the lighthouse at Skagen is Marit."])
        await ben.add_memories([f"Something else entirely, thing {number} of many." for number in range(20)])
        await memory.work()
        context = await ben.get_context("Who is the keeper of the lighthouse at Skagen?")
    assert len(context.report.kept) == 10
    assert "Marit" in context.system
    reasons = {out.reason.partition(":")[0] for out in context.report.left_out}
    assert reasons == {"not worth its tokens"}


async def test_a_context_says_how_likely_it_is_to_hold_an_answer():
    async with Memory.open("memory://", worker=False) as memory:
        ben = memory.user("ben")
        chat = ben.session("monday")
        await chat.add_interaction("My sister Ida plays the cello in Bergen.", "How lovely!")
        await chat.add_interaction("I sold my bicycle for 80 euros.", "A fair price.")
        await memory.work()
        known = await ben.get_context("Which instrument does my sister Ida play?")
        unknown = await ben.get_context("When does the ferry to Gotland leave?")
    assert 0 <= unknown.answerable < 0.5 < known.answerable <= 1
    assert known.to_dict()["answerable"] == known.answerable
    assert f"answerable: {known.answerable:.2f}" in known.explain()


async def test_a_context_without_hits_answers_nothing():
    async with Memory.open("memory://", worker=False) as memory:
        assert (await memory.user("ben").get_context("Who am I?")).answerable == 0.0


async def test_the_same_question_is_shortened_the_same_way(ann):
    question = "What is the lighthouse keeper of Skagen called?"
    first = await ann.get_context(question, max_tokens=700)
    assert (await ann.get_context(question, max_tokens=700)).system == first.system


CHINESE = "今天天气很好，我们去公园散步，看到很多花和树，孩子们在草地上玩耍。"
CODE = "\n".join(f'def f{n}(a{n}, b): return {{"x{n}": a{n}[{n}] * {n * 7}, "k": b - {n}}}' for n in range(150))


@pytest.mark.parametrize(
    "filler, answer, question",
    [
        (CHINESE * 60, "我的护照号码是 X1234，放在书桌的抽屉里。", "护照在哪里？"),
        (CODE, "\nThe passport is X1234.\n", "The passport?"),
    ],
    ids=["Chinese", "code"],
)
async def test_a_text_with_many_tokens_for_its_length_is_shortened_and_not_left_out(filler, answer, question):
    async with Memory.open("memory://", clock=ManualClock(), worker=False) as memory:
        ben = memory.user("ben")
        await ben.add_memory(filler + answer + filler)
        for budget in (1_000, 2_000, 4_000, 6_000):
            context = await ben.get_context(question, max_tokens=budget)
            assert "X1234" in context.system, budget
            assert context.tokens <= budget


async def test_standing_instructions_come_before_all_else_that_lasts():
    async with Memory.open("memory://", clock=ManualClock(), worker=False, window_tokens=200) as memory:
        ben = memory.user("ben")
        chat = ben.session("monday")
        await ben.customize("Answer in one sentence, without bullet points. " * 15)
        await ben.add_fact("city", "Graz")
        for day in range(12):
            await chat.add_interaction(f"On day {day} we decided to see town {day}, by train.", f"Noted: town {day}.")
        await memory.work()
        context = await chat.get_context("Which towns do we see?", max_tokens=500)
    assert "instructions" in {section.name for section in context.sections}, "a long summary took their room"
    assert context.tokens <= 500


async def test_the_best_hit_goes_in_and_not_a_shorter_one_beside_a_large_state_of_the_task():
    async with Memory.open("memory://", clock=ManualClock(), worker=False) as memory:
        ben = memory.user("ben")
        await ben.add_memories(["Ida bought a red bicycle in Graz last Tuesday.", "Bo has a bicycle."])
        chat = ben.session("monday")
        for steps in range(60, 110):
            await chat.working.set({"plan": "x1 " * steps})
            context = await chat.get_context("Who bought a bicycle in Graz?", max_tokens=300)
            assert "Ida bought a red bicycle" in context.system, steps


async def test_what_is_remembered_is_not_listed_as_left_out_of_the_recent_messages():
    async with Memory.open("memory://", clock=ManualClock(), worker=False) as memory:
        chat = memory.user("ben").session("monday")
        for number in range(40):
            await chat.add_interaction(f"Lighthouse {number} has a keeper. {FILLER}", f"Noted. {FILLER}")
        await memory.work()
        context = await chat.get_context("Which lighthouse has a keeper?", max_tokens=1_000)
    inside = {kept.id for kept in context.report.kept}
    assert inside and context.report.left_out
    assert inside.isdisjoint(out.id for out in context.report.left_out)


@pytest.mark.parametrize("max_tokens", [1_000, 4_000])
async def test_a_last_turn_that_is_too_long_for_the_recent_messages_is_remembered_in_part(max_tokens):
    async with Memory.open("memory://", clock=ManualClock(), worker=False) as memory:
        ben = memory.user("ben")
        for day in range(8):
            for topic in range(8):
                text = f"Please go on with topic {topic} of day {day}, and continue the list."
                await ben.session(f"day {day}").add_interaction(text, "We continue with it.")
        chat = ben.session("today")
        await chat.add_interaction("Write me the parser, please.", "Here it is:\n" + CODE)
        await memory.work()
        context = await chat.get_context("Continue.", max_tokens=max_tokens)
        alone = await chat.get_context("Continue.", max_tokens=max_tokens, window=1)
    assert "Write me the parser" in context.found and "assistant: Here it is:" in context.found
    assert context.tokens <= max_tokens
    assert "recent" in {out.section for out in alone.report.left_out}, "who limits the window gets no more than that"


@pytest.mark.parametrize("policy", [None, {"shares": {"working": 0.1}}])
async def test_a_state_of_the_task_that_is_too_long_goes_in_without_its_longest_parts(policy):
    async with Memory.open("memory://", clock=ManualClock(), worker=False) as memory:
        chat = memory.user("ben").session("monday")
        await chat.working.set({"page": "/orders/17", "scratchpad": FILLER * 300, "steps": ["ask", "look"]})
        await chat.add_interaction("Hello.", "Hi.")
        for budget in (1_000, 4_000):
            context = await chat.get_context("What is open?", max_tokens=budget, policy=policy)
            assert "- page: /orders/17\n- scratchpad: …\n" in context.system
            assert context.tokens <= budget
            assert [kept.whole for kept in context.report.kept if kept.section == "working"] == [False]
        whole = await chat.get_context("What is open?", max_tokens=30_000)
    assert FILLER * 300 in whole.system


async def test_of_a_long_list_in_the_profile_the_newest_part_goes_in_and_takes_nothing_from_other_lines():
    async with Memory.open("memory://", clock=ManualClock(), worker=False) as memory:
        ben = memory.user("ben")
        for start in range(0, 300, 30):
            await ben.upsert_facts([{"key": "likes", "value": f"dish {n}"} for n in range(start, start + 30)])
        await ben.add_fact("zodiac", "Libra")
        context = await ben.get_context("What shall I cook?", max_tokens=1_000)
        whole = await ben.get_context("What shall I cook?", max_tokens=8_000)
    assert "dish 299" in context.system and "Zodiac: Libra" in context.system and "dish 0," not in context.system
    assert all(f"dish {n}" in whole.system for n in range(300))
    assert len({source.id for source in whole.sources if source.layer == "fact"}) == 301


async def test_what_is_asked_for_is_shown_from_the_end_of_the_longest_text_too():
    async with Memory.open("memory://", clock=ManualClock(), worker=False) as memory:
        ben = memory.user("ben")
        await ben.add_memory(FILLER * 600 + ANSWER)
        context = await ben.get_context("What is the lighthouse keeper of Skagen called?", max_tokens=1_000)
    assert ANSWER in context.system
