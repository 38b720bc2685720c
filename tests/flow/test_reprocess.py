"""Rereading stored conversations: changes are previewed first, and only what was asked for changes."""

from __future__ import annotations

import contextlib

import pytest

from recollect import reprocessing
from recollect.errors import Conflict, ModelError, ValidationError
from recollect.stores import open_store
from recollect.testing.fakes import MeddlingStore, ScriptedModel, finding, learned

SAID = "The thing I collect is antique barometers."
COLLECTS = learned(finding(1, "I collect is antique barometers", "antique barometers", key="collection"))


async def stored(open_memory, url, texts=("I live in Oslo.", SAID), session="monday", user="ann"):
    """Conversations from before anything was learned."""
    memory = await open_memory(url, learn=False)
    for text in texts:
        await memory.user(user).session(session).add_interaction(text, "I see.")
    await memory.work()


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/again.db"


async def facts(memory, user="ann"):
    return {fact.key: fact.value for fact in (await memory.user(user).profile()).facts}


async def everything(memory):
    return [each.to_dict() for each in (await memory.user("ann").list_memories(limit=1000))[0]]


async def test_better_rules_learn_from_earlier_messages(open_memory, url):
    await stored(open_memory, url)
    memory = await open_memory(url)
    told = await memory.user("ann").reprocess()
    assert ("added", "fact", "city", "Oslo") in told.differences
    assert (told.by, told.messages, told.applied) == ("rules-1", 4, False)
    assert await facts(memory) == {}
    done = await memory.user("ann").reprocess(apply=True)
    assert (done.differences, done.applied) == (told.differences, True)
    assert await facts(memory) == {"city": "Oslo"}


async def test_a_preview_changes_nothing_at_all(open_memory, url):
    await stored(open_memory, url, (SAID, "I live in Oslo."))
    memory = await open_memory(url, llm=ScriptedModel(learned=COLLECTS))
    before = await everything(memory)
    for by in ("rules", "model"):
        assert (await memory.user("ann").reprocess(by=by)).differences
    await memory.work()
    assert await everything(memory) == before


async def test_reprocessing_twice_does_it_once(open_memory, url):
    await stored(open_memory, url)
    memory = await open_memory(url)
    await memory.user("ann").reprocess(apply=True)
    before = await everything(memory)
    assert (await memory.user("ann").reprocess(apply=True)).differences == ()
    assert [(each["id"], each["version"]) for each in await everything(memory)] == [
        (each["id"], each["version"]) for each in before
    ]


async def test_a_model_reads_messages_from_before_it_was_configured(open_memory, url):
    await stored(open_memory, url, (SAID,))
    model = ScriptedModel(learned=COLLECTS)
    memory = await open_memory(url, llm=model)
    (told,) = await memory.reprocess()
    assert told.differences == (("added", "fact", "collection", "antique barometers"),)
    assert told.by == "scripted/learn-2"
    await memory.reprocess(by="model", apply=True)
    assert await facts(memory) == {"collection": "antique barometers"}


async def test_what_was_said_long_ago_does_not_replace_what_was_said_since(open_memory, url, clock):
    await stored(open_memory, url, ("I live in Oslo.",))
    clock.advance(days=10)
    memory = await open_memory(url)
    await memory.user("ann").session("later").add_interaction("I live in Bergen.", "I see.")
    await memory.work()
    told = await memory.user("ann").reprocess(apply=True)
    assert await facts(memory) == {"city": "Bergen"}
    assert ("ended", "fact", "city", "Bergen") not in told.differences
    assert [fact.value for fact in await memory.user("ann").facts.history("city")] == ["Oslo", "Bergen"]


async def test_what_was_undone_stays_undone(open_memory, url):
    memory = await open_memory(url)
    await memory.user("ann").session("monday").add_interaction("I live in Oslo.", "I see.")
    await memory.work()
    await memory.user("ann").undo(session="monday")
    assert (await memory.user("ann").reprocess(apply=True)).differences == ()
    assert await facts(memory) == {}


async def test_what_is_no_longer_found_is_reported_and_stays(open_memory, url, clock):
    memory = await open_memory(url, llm=ScriptedModel(learned=[COLLECTS, learned()]))
    await memory.user("ann").session("monday").add_interaction(SAID, "I see.")
    await memory.user("ann").add_fact("tea", "green")
    await memory.work()
    clock.advance(minutes=1)
    await memory.work()
    memory._running.allowance._answers.clear()
    told = await memory.user("ann").reprocess(by="model")
    assert [fact.key for fact in told.missing] == ["collection"]
    assert "collection" in await facts(memory)


async def test_it_resumes_where_it_was_stopped(open_memory, url):
    texts = [f"I like number {n}." for n in range(40)]
    await stored(open_memory, url, texts)
    model = ScriptedModel(learned=[learned(), ModelError("down"), learned()])
    memory = await open_memory(url, llm=model)
    with pytest.raises(ModelError):
        await memory.user("ann").reprocess(apply=True)
    counted: list[int] = []
    await memory.reprocess(apply=True, told=counted.append)
    shown = [line for ask in model.asked for line in ask.messages[1]["content"].splitlines()]
    assert sum(counted) == 80 - 24 and len(shown) == 80 + 24  # the part that failed was shown twice
    assert (await memory.user("ann").reprocess(apply=True)).messages == 0
    assert (await memory.user("ann").reprocess(apply=True, again=True)).messages == 80


async def test_what_exceeds_one_run_is_reported_and_learned_by_the_next(open_memory, url, monkeypatch):
    await stored(open_memory, url, [f"Of {letter} I collect the plates." for letter in "abc"])
    found = [
        finding(place, f"Of {letter} I collect the plates", "plates", key=f"collection {letter}{number}")
        for place, letter in ((1, "a"), (3, "b"), (5, "c"))
        for number in range(13)
    ]
    memory = await open_memory(url, llm=ScriptedModel(learned=learned(*found)))
    monkeypatch.setattr(reprocessing, "PORTIONS_MAX", 1)
    for _ in range(3):
        with contextlib.suppress(Conflict):
            await memory.user("ann").reprocess(apply=True)
            break
        assert 0 < len(await facts(memory)) < 39
    assert len(await facts(memory)) == 39


async def test_one_session_or_one_user_can_be_chosen(open_memory, url):
    await stored(open_memory, url, ("I live in Oslo.",))
    await stored(open_memory, url, ("I live in Rome.",), session="tuesday")
    await stored(open_memory, url, ("I live in Kyoto.",), user="bob")
    memory = await open_memory(url)
    assert (await memory.user("ann").reprocess(session="tuesday")).messages == 2
    assert [each.partition.user for each in await memory.reprocess()] == ["ann", "bob"]
    assert [each.partition.user for each in await memory.reprocess(user="bob")] == ["bob"]


@pytest.mark.parametrize(
    ("given", "field"), [({"by": "model"}, "by"), ({"by": "magic"}, "by"), ({"apply": "yes"}, "apply")]
)
async def test_invalid_arguments_are_refused(open_memory, url, given, field):
    memory = await open_memory(url)
    with pytest.raises(ValidationError) as refused:
        await memory.user("ann").reprocess(**given)
    assert refused.value.field == field


async def confidence(memory, user="ann"):
    return {fact.key: fact.confidence for fact in (await memory.user(user).profile()).facts}


async def test_messages_from_before_a_branch_count_once(open_memory, url):
    memory = await open_memory(url)
    await memory.user("bob").session("monday").add_message("user", "I live in Oslo.")
    ann = memory.user("ann")
    said = await ann.session("monday").add_message("user", "I live in Oslo.")
    branch = await ann.session("monday").branch(said.id, "tuesday")
    await branch.branch((await branch.window())[0].id, "wednesday")
    await memory.work()
    once = await confidence(memory, "bob")
    assert await confidence(memory) == once
    assert (await ann.reprocess()).differences == ()
    await ann.reprocess(apply=True)
    await memory.work()
    assert await confidence(memory) == once
    await memory.user("cyd").import_records(await ann.export())
    await memory.work()
    assert await confidence(memory, "cyd") == once


async def test_a_message_that_is_forgotten_while_it_is_reread_does_not_stop_the_rest(open_memory, url):
    await stored(open_memory, url, ("My name is Xylo.", "I live in Oslo."))
    store = MeddlingStore(await open_store(url))
    memory = await open_memory(store)
    ann = memory.user("ann")
    (said, *_), _ = await ann.session("monday").messages()
    store.before(lambda changes: any(record.layer == "seal" for record in changes.put), lambda: ann.forget(said.id))
    await ann.reprocess(by="rules", apply=True)
    assert await facts(memory) == {"city": "Oslo"}
