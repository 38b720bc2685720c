"""Summaries and episodes in a model's words: based on what was said, with the rules' version until then."""

from __future__ import annotations

import json

import pytest

from recollect.errors import ModelError
from recollect.testing.fakes import ScriptedModel, learned

TURNS = [f"We decided that room {n} gets {colour} curtains." for n, colour in enumerate(["red", "blue", "green"] * 8)]
RETOLD = {"summary": "It was decided that each room gets curtains: red, blue or green."}
EPISODE = {
    "title": "Curtains for the rooms",
    "text": "Ann decided which room gets which curtains: red, blue and green.",
    "people": ["Ann", "Napoleon"],
    "dates": ["on Friday", "in 1812"],
    "decisions": ["Room 1 gets blue curtains."],
    "open_questions": ["Who invades Russia?"],
}


async def folded(memory, clock, turns=TURNS, session="monday"):
    chat = memory.user("ann").session(session)
    for turn in turns:
        await chat.add_interaction(turn, "Noted, I will order them on Friday. " * 4)
        await memory.work()
    clock.advance(minutes=1)
    await memory.work()
    return chat


async def summary(chat):
    first = (await chat.window("sliding_window_summary"))[0]
    return first.content if first.role == "system" else ""


async def test_a_running_summary_is_written_in_the_models_words(open_memory, clock):
    model = ScriptedModel(summary=RETOLD, learned=learned())
    memory = await open_memory(llm=model, window_tokens=400)
    chat = await folded(memory, clock)
    assert RETOLD["summary"] in await summary(chat)
    context = await chat.get_context("Which curtains?", max_tokens=2_000)
    assert RETOLD["summary"] in context.system


async def test_it_continues_from_the_last_summary_and_reads_nothing_twice(open_memory, clock):
    model = ScriptedModel(summary=RETOLD, learned=learned())
    memory = await open_memory(llm=model, window_tokens=400)
    await folded(memory, clock)
    asked = [ask.messages[1]["content"].splitlines() for ask in model.asked_for("summary")]
    assert [json.loads(lines[0])["summary"] for lines in asked][:2] == ["", RETOLD["summary"]]
    shown = [json.loads(line)["text"] for lines in asked for line in lines[1:] if '"user"' in line]
    assert len(shown) == len(set(shown)) >= 4


async def test_the_rules_summary_stays_while_the_model_fails(open_memory, clock):
    model = ScriptedModel(summary=ModelError("down"), learned=learned())
    memory = await open_memory(llm=model, window_tokens=400)
    chat = await folded(memory, clock)
    assert "decided that room" in await summary(chat)


@pytest.mark.parametrize("text", ["", "   ", "Napoleon marched to Moscow through deep snow and lost his army."])
async def test_a_summary_of_something_else_is_a_failure(open_memory, clock, text):
    model = ScriptedModel(summary={"summary": text}, learned=learned())
    memory = await open_memory("memory://", llm=model, window_tokens=400, job_attempts_max=1)
    chat = await folded(memory, clock)
    assert "decided that room" in await summary(chat) and "Napoleon" not in await summary(chat)
    assert {failure.data["kind"] for failure in await memory.failures()} == {"summarize"}


async def test_a_summary_stays_within_its_budget(open_memory, clock):
    model = ScriptedModel(summary={"summary": "Room gets red curtains. " * 100}, learned=learned())
    memory = await open_memory("memory://", llm=model, window_tokens=400, summary_tokens=60)
    chat = await folded(memory, clock)
    assert 2 <= (await summary(chat)).count("Room gets") <= 12


async def test_what_is_forgotten_is_removed_from_the_models_summary_too(open_memory, clock):
    model = ScriptedModel(summary=RETOLD, learned=learned())
    memory = await open_memory(llm=model, window_tokens=400)
    chat = await folded(memory, clock, [*TURNS[:6], "The safe opens with marzipan.", *TURNS[6:]])
    messages = (await chat.messages(limit=1000))[0]
    secret = next(each for each in messages if "marzipan" in each.content)
    model._replies["summary"] = [ModelError("down")]
    await memory.user("ann").forget(secret.id)
    await memory.work()
    assert RETOLD["summary"] not in await summary(chat)
    assert "marzipan" not in json.dumps(await memory.user("ann").export(), default=str)


async def test_an_episode_is_retold_without_anything_nobody_said(open_memory, clock):
    model = ScriptedModel(episode=EPISODE, learned=learned(), summary=RETOLD)
    memory = await open_memory(llm=model)
    chat = await folded(memory, clock, ["I am Ann. I need curtains.", *TURNS[:6]])
    await memory.user("ann").episodes.close(chat.id)
    (before,) = await memory.user("ann").episodes.list()
    clock.advance(hours=6)
    await memory.work()
    (episode,) = await memory.user("ann").episodes.list()
    assert (episode.title, episode.content) == (EPISODE["title"], EPISODE["text"])
    assert (episode.people, episode.dates) == (("Ann",), ("on Friday",))
    assert (episode.decisions, episode.open_questions) == (("Room 1 gets blue curtains.",), ())
    assert (episode.id, episode.messages, episode.started_at) == (before.id, before.messages, before.started_at)
    hits = await memory.user("ann").search_memory("which room gets which curtains", layer="episodic")
    assert hits[0].record.source.extractor == "scripted/retell-2"


async def test_an_episode_forgotten_while_it_is_retold_does_not_come_back(open_memory, clock):
    async def forgetting(ask):
        await memory.user("ann").session("monday").delete()
        return json.dumps(EPISODE)

    memory = await open_memory(llm=ScriptedModel(episode=forgetting, learned=learned()))
    await folded(memory, clock, TURNS[:6])
    clock.advance(hours=6)
    await memory.work()
    assert await memory.user("ann").episodes.list() == []
