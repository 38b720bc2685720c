"""Learnings: kept with confidence, surer when seen again, retired when contradicted, and never deleted."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from recollect.enrich import Draft, Found
from recollect.errors import Conflict, NotFound, TooLarge, ValidationError
from recollect.filters import Filter
from recollect.learnings import Learnings
from recollect.policies.learnings import RETIRED_BELOW, Shown, top
from recollect.records import Changes, Record, Scope
from recollect.upkeep import note_uses

ANN = Scope(user="ann")


@pytest.fixture
def learnings(ledger):
    return Learnings(ledger, ANN)


def found(text: str, type: str = "pattern", *, id: str = "m-1", trust: str = "trusted", confidence=0.6) -> Found:
    scope = Scope(user="ann", session="chat")
    message = Record(id, "conversation", scope, f"said: {text}", {"role": "user"}, created_at=5, trust=trust)
    return Found(message, Draft("learning", type, text, confidence, (0, 4)))


async def contents(learnings: Learnings, **how) -> list[str]:
    return [each.content for each in await learnings.list(**how)]


async def test_a_learning_is_read_back_as_it_was_added(learnings):
    added = await learnings.add("Wants short answers.", type="preference", source_message_id="m-1")
    assert (added.type, added.content, added.confidence) == ("preference", "Wants short answers.", 0.5)
    assert (added.usage_count, added.last_used, added.source_message_id) == (0, None, "m-1")
    assert await learnings.get(added.id) == added
    assert added.to_dict()["created_at"] == "2026-03-01T12:00:00Z"
    assert list(added.to_dict())[:7] == [
        "id", "type", "content", "confidence", "usage_count", "last_used", "created_at",
    ]  # fmt: skip


async def test_repeating_a_learning_raises_its_confidence(learnings):
    first = await learnings.add("Wants short answers.")
    second = await learnings.add("wants short  answers")
    assert second.id == first.id
    assert second.confidence == pytest.approx(0.65)
    assert await contents(learnings) == ["Wants short answers."]
    await learnings.add("Wants short answers.", type="correction")
    assert len(await contents(learnings)) == 2, "as a correction it is another thing"


async def test_one_message_counts_once(learnings):
    first = await learnings.add("Likes tea.", source_message_id="m-1")
    assert await learnings.add("Likes tea.", source_message_id="m-1") == first
    assert (await learnings.add("Likes tea.", source_message_id="m-2")).confidence > first.confidence


async def test_concurrent_adds_of_the_same_learning_make_one(learnings):
    await asyncio.gather(*(learnings.add("Likes tea.", source_message_id=f"m-{n}") for n in range(20)))
    (only,) = await learnings.list()
    assert only.confidence > 0.99


async def test_confirming_raises_confidence_and_contradicting_lowers_it_until_it_is_retired(learnings):
    added = await learnings.add("Likes tea.")
    assert (await learnings.confirm(added.id)).confidence == pytest.approx(0.65)
    levels = [(await learnings.contradict(added.id)).confidence for _ in range(3)]
    assert levels == pytest.approx([0.39, 0.234, 0.1404])
    assert (await learnings.get(added.id)).retired == "contradicted too often"
    assert await contents(learnings) == []
    assert await contents(learnings, include_retired=True) == ["Likes tea."]
    restored = await learnings.restore(added.id)
    assert (restored.retired, restored.confidence) == (None, RETIRED_BELOW)
    assert await contents(learnings) == ["Likes tea."]


async def test_a_retired_learning_that_is_learned_again_counts_again(learnings):
    added = await learnings.add("Likes tea.")
    for _ in range(3):
        await learnings.contradict(added.id)
    assert await contents(learnings) == []
    await learnings.add("Likes tea.")
    assert await contents(learnings) == ["Likes tea."]


async def test_learnings_are_listed_by_type(learnings):
    for type in ("preference", "pattern", "correction"):
        await learnings.add(f"A {type}.", type=type)
    assert await contents(learnings, type="correction") == ["A correction."]
    assert len(await contents(learnings)) == 3
    with pytest.raises(ValidationError):
        await learnings.list(type="habit")


async def test_the_sure_and_most_used_learnings_go_into_a_prompt(ledger, learnings, clock):
    added = [await learnings.add(f"Fact {n}.", confidence=0.72 + n / 100) for n in range(8)]
    await learnings.add("Unsure.", confidence=0.7)
    await note_uses(ledger, Counter({(ANN.partition, added[0].id): 3, (ANN.partition, added[2].id): 1}))
    best = await learnings.top()
    assert [each.content for each in best] == ["Fact 0.", "Fact 2.", "Fact 7.", "Fact 6.", "Fact 5."]
    assert (best[0].usage_count, best[0].last_used is not None) == (3, True)
    assert len(await learnings.top(limit=2)) == 2
    records = [record async for record in ledger.walk(Filter(ANN.partition, layers=("learning",)))]
    assert [record.id for record in top(records, clock(), Shown())] == [each.id for each in best]


async def test_an_orgs_learnings_are_seen_by_all_of_its_users_and_changed_by_none(ledger, learnings):
    shared = await learnings.add("Tickets are closed on Fridays.", org_wide=True, confidence=0.9)
    assert shared.org_wide
    bob = Learnings(ledger, Scope(user="bob"))
    await bob.add("Likes tea.")
    assert await contents(bob) == ["Likes tea.", "Tickets are closed on Fridays."]
    assert [each.id for each in await bob.top()] == [shared.id]
    assert await bob.get(shared.id) == shared
    with pytest.raises(NotFound):
        await bob.contradict(shared.id)
    assert (await Learnings(ledger, Scope()).confirm(shared.id)).confidence == 1.0
    assert await contents(Learnings(ledger, Scope("acme", "ann"))) == []


async def test_drafts_from_messages_become_learnings(ledger, learnings):
    drafts = [found("Answer in metres.", "correction"), found("Asks at night."), found("Asks at night.", id="m-2")]
    messages = {each.message.id: each.message for each in drafts}
    await ledger.commit(Changes(ANN.partition, put=tuple(messages.values())))
    changes, later = await learnings.apply(drafts, "rules-1")
    assert later == ()
    await ledger.commit(changes)
    correction, pattern = await learnings.list()
    assert (correction.type, correction.confidence) == ("correction", 0.75)
    assert (pattern.type, pattern.confidence) == ("pattern", pytest.approx(0.72))
    assert correction.source_message_id == "m-1"
    assert [each.content for each in await learnings.top(limit=1)] == ["Answer in metres."]
    assert (await learnings.apply(drafts, "rules-1"))[0].put == (), "the same messages teach nothing more"


async def test_drafts_that_are_untrusted_or_unusable_teach_nothing(learnings):
    drafts = [found("Obey.", trust="untrusted"), found("x", "habit"), found(" "), found(""), found("y" * 9_000)]
    changes, later = await learnings.apply(drafts, "rules-1")
    assert (changes.put, later) == ((), ())


async def test_a_forgotten_message_teaches_nothing(ledger, learnings):
    changes, _ = await learnings.apply([found("Asks at night.")], "rules-1")
    with pytest.raises(Conflict) as caught:
        await ledger.commit(changes)
    assert caught.value.field == "needs"


async def test_drafts_beyond_one_commit_wait_for_the_next(learnings):
    drafts = [found(f"Pattern {n}.") for n in range(50)]
    changes, later = await learnings.apply(drafts, "rules-1")
    assert (len(changes.put), later) == (40, tuple(drafts[40:]))


async def test_bad_learnings_are_refused(learnings):
    for bad in ({"content": ""}, {"content": 5}, {"content": "x", "type": "habit"}, {"content": "x", "confidence": 2},
                {"content": "x", "org_wide": "yes"}, {"content": "x", "source_message_id": ""}):  # fmt: skip
        with pytest.raises(ValidationError):
            await learnings.add(**bad)
    with pytest.raises(TooLarge):
        await learnings.add("x" * 9_000)
    for verb in (learnings.get, learnings.confirm, learnings.contradict, learnings.restore):
        with pytest.raises(NotFound):
            await verb("nothing")
        with pytest.raises(ValidationError):
            await verb("")
    assert await learnings.list() == []


async def test_confirming_a_retired_learning_restores_it(memory):
    learnings = memory.user("ann").learnings
    kept = await learnings.add("Likes short answers.", confidence=0.3)
    await learnings.contradict(kept.id)
    assert await learnings.list() == []
    assert [each.id for each in [await learnings.confirm(kept.id)]] == [each.id for each in await learnings.list()]


@pytest.mark.parametrize("verb", ["confirm", "contradict", "add"])
async def test_two_processes_acting_on_a_learning_at_the_same_instant_count_twice(open_memory, tmp_path, verb):
    url = f"sqlite:///{tmp_path}/shared.db"
    both = [(await open_memory(url)).user("ann").learnings for _ in range(2)]
    kept = await both[0].add("Likes short answers.", confidence=0.6)
    alone = await both[0].add("Likes long answers.", confidence=0.6)
    said = {"add": ["Likes short answers."]}.get(verb, [kept.id])
    await asyncio.gather(*(getattr(each, verb)(*said) for each in both))
    for _ in both:
        await getattr(both[0], verb)(*({"add": ["Likes long answers."]}.get(verb, [alone.id])))
    assert (await both[0].get(kept.id)).confidence == (await both[0].get(alone.id)).confidence


async def test_a_deployment_can_choose_which_learnings_go_into_a_context(open_memory):
    memory = await open_memory(learnings_in_prompt=2, learnings_above=0.4)
    ann = memory.user("ann")
    for number, confidence in enumerate((0.35, 0.45, 0.55, 0.65)):
        await ann.add_learning(f"asks question {number}", confidence=confidence)
    context = await ann.get_context("Anything?", sections=["learnings"])
    assert [f"question {number}" in context.system for number in range(4)] == [False, False, True, True]
    with pytest.raises(ValidationError):
        await open_memory(learnings_above=1.5)


async def test_a_correction_is_in_the_next_prompt_however_often_five_others_were_used(memory):
    ann = memory.user("ann")
    for number in range(5):
        await ann.add_learning(f"Say it in {number + 2} lines.", type="correction", confidence=0.9)
    for _ in range(3):
        await ann.session("s").get_context("Which theme should I use?")
        await memory.work()
    assert min(each.usage_count for each in await ann.learnings.top()) == 3
    await ann.add_learning("Prices are in euro.", type="correction")
    context = await ann.session("s").get_context("Which theme should I use?")
    assert "Prices are in euro." in context.system
    assert context.system.count("Say it in") == 4


async def test_a_correction_of_a_fact_is_left_to_the_profile_which_also_knows_what_came_later(memory):
    ann = memory.user("ann")
    chat = ann.session("s")
    await chat.add_interaction("I live in Leeds.", "How is life in Leeds?")
    await chat.add_interaction("No, I live in Bradford, not Leeds.", "I see.")
    await memory.work()
    assert await contents(ann.learnings) == ["I live in Bradford"]
    await chat.add_interaction("I moved to York.", "A fine town.")
    await memory.work()
    context = await ann.session("later").get_context("Where shall we meet?", sections=["profile", "learnings"])
    assert "York" in context.system and "Bradford" not in context.system
    assert await ann.learnings.top() == []


async def test_what_is_added_outright_goes_into_prompts_even_if_a_correction_said_the_same(memory):
    ann = memory.user("ann")
    await ann.session("s").add_interaction("I live in Leeds.", "How is life in Leeds?")
    await ann.session("s").add_interaction("No, I live in Bradford, not Leeds.", "I see.")
    await memory.work()
    await ann.add_learning("I live in Bradford", type="correction")
    assert [each.content for each in await ann.learnings.top()] == ["I live in Bradford"]
    (learning,) = await ann.learnings.list()
    assert (await ann.learnings.confirm(learning.id)).confidence > 0.9
