"""Questions reworded by a model as well: more is found, and nobody waits long for it."""

from __future__ import annotations

import asyncio

import pytest

from recollect.errors import ModelError
from recollect.testing.fakes import ScriptedModel, learned

NOTES = [f"Note {n} about the weather in town." for n in range(20)]
ANSWER = "The feline is called Admiral."


async def asked(open_memory, model, **more):
    memory = await open_memory("memory://", llm=model, **more)
    await memory.user("ann").add_memories([*NOTES, ANSWER])
    await memory.work()
    hits = await memory.user("ann").search_memory("How is my cat named?", limit=3)
    return memory, [hit.content for hit in hits]


async def test_an_answer_in_other_words_is_found_by_the_models_rewording(open_memory):
    model = ScriptedModel(queries={"queries": ["the feline is called", ""]}, learned=learned())
    _, without = await asked(open_memory, model)
    assert model.asked_for("queries") == [] and without[0] != ANSWER
    memory, found = await asked(open_memory, model, llm_rewrite=True)
    assert found[0] == ANSWER
    context = await memory.user("ann").get_context("How is my cat named?", max_tokens=300)
    assert ANSWER in context.system and len(model.asked_for("queries")) == 1


@pytest.mark.parametrize("reply", [ModelError("down"), "garbage", lambda ask: asyncio.sleep(60, "")])
async def test_a_model_that_fails_or_hangs_leaves_the_question_as_it_is(open_memory, monkeypatch, reply):
    monkeypatch.setattr("recollect.reading.REWRITE_S", 0.05)
    async with asyncio.timeout(5):
        _, found = await asked(open_memory, ScriptedModel(queries=reply, learned=learned()), llm_rewrite=True)
    assert len(found) == 3
