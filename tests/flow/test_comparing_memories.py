"""Memories that say the same in other words become one if a model says so, and two again on request."""

from __future__ import annotations

import pytest

from recollect.errors import ModelError
from recollect.testing.fakes import ScriptedModel

OLDER = "Ann goes swimming in the lake on Sunday mornings."
NEWER = "On Sunday mornings Ann is in the lake, swimming with the dog."


async def remembered(open_memory, model, *texts):
    memory = await open_memory("memory://", llm=model, job_attempts_max=1)
    for text in texts:
        await memory.user("ann").add_memory(text)
        await memory.work()
    return memory, [record.content for record in (await memory.user("ann").list_memories())[0] if not record.valid_to]


async def test_memories_that_say_the_same_in_other_words_become_one(open_memory):
    model = ScriptedModel(same={"same": [1]})
    memory, left = await remembered(open_memory, model, OLDER, NEWER)
    assert left == [OLDER] and len(model.asked) == 1
    (hit, *_) = await memory.user("ann").search_memory("swimming", layer="long_term")
    assert hit.record.data["merged"][0]["reason"] == "the same in other words, says scripted/compare-2"


async def test_memories_that_differ_stay_two(open_memory):
    _, left = await remembered(open_memory, ScriptedModel(same={"same": []}), OLDER, NEWER)
    assert left == [OLDER, NEWER]


async def test_a_memory_that_will_expire_is_not_compared_with_one_that_is_kept(open_memory, clock):
    model = ScriptedModel(same={"same": [1]})
    memory = await open_memory("memory://", llm=model, job_attempts_max=1)
    await memory.user("ann").add_memory(OLDER, expires_at=clock() + 60_000)
    await memory.work()
    await memory.user("ann").add_memory(NEWER)
    await memory.work()
    assert model.asked == []


async def test_a_memory_without_a_similar_one_is_not_asked_about(open_memory):
    model = ScriptedModel(same={"same": [1]})
    _, left = await remembered(open_memory, model, OLDER, "Invoices are paid within thirty days.")
    assert (len(left), model.asked) == (2, [])


@pytest.mark.parametrize("reply", [{"same": [4]}, {"same": [0]}, {"same": ["all"]}, "yes", ModelError("down")])
async def test_an_answer_that_names_none_of_the_shown_memories_merges_nothing(open_memory, reply):
    _, left = await remembered(open_memory, ScriptedModel(same=reply), OLDER, NEWER)
    assert left == [OLDER, NEWER]


async def test_a_memory_of_another_user_is_never_shown(open_memory):
    model = ScriptedModel(same={"same": [1]})
    memory, _ = await remembered(open_memory, model, OLDER)
    await memory.user("bob").add_memory(NEWER)
    await memory.work()
    assert model.asked == []
