"""Consolidation merges duplicates, notes resting sessions and recurring topics; it can be previewed and undone."""

from __future__ import annotations

from contextlib import suppress

import pytest

from recollect.errors import Conflict, Unavailable
from recollect.filters import Filter
from recollect.policies.recurring import RESTS_ON
from recollect.providers import embed_checked
from recollect.records import Changes, Partition, Record, Scope
from recollect.testing.fakes import HashingEmbedder

ANN = Partition("default", "ann")
OVENS = (
    ("The bakery in Porto needs two ovens.", "The bakery needs more flour too."),
    ("We painted the bakery green this morning.", "A fine colour for a bakery."),
    ("The bakery sold forty loaves by noon.", "That is a lot for one bakery."),
    ("Emma will run the bakery in August.", "Then the bakery is in good hands."),
)


async def talk(memory, clock, told, session):
    """One day: a session about something, which then rests and becomes an episode."""
    chat = memory.user("ann").session(session)
    for user, assistant in (told, ("It went well, the bakery has a new sign.", "I like the sign of the bakery.")):
        await chat.add_interaction(user, assistant)
    await memory.work()
    clock.advance(hours=26)
    await memory.work()


async def on_several_days(memory, clock, days=3):
    for day, told in enumerate(OVENS[:days]):
        await talk(memory, clock, told, f"day {day}")
    return memory.user("ann")


async def known(user):
    records, _ = await user.list_memories()
    return [record for record in records if record.layer == "long_term" and record.valid_to is None]


async def episodes(memory):
    return [record async for record in memory._flow.ledger.walk(Filter(ANN, layers=("episodic",)))]


# ── what recurs ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def by_hand(open_memory):
    """A memory that consolidates only when it is told to."""
    return await open_memory(consolidate=False)


async def test_a_topic_that_comes_up_on_three_days_is_known_in_the_words_that_were_said(by_hand, clock):
    ann = await on_several_days(by_hand, clock)
    done = await ann.maintain()
    (memory,) = done.consolidated.recurring
    assert memory.content == (
        "The user came back to bakery 3 times between 1 March 2026 and 3 March 2026. "
        "On 3 March 2026: “The bakery sold forty loaves by noon.” "
        "On 2 March 2026: “We painted the bakery green this morning.” "
        "On 1 March 2026: “The bakery in Porto needs two ovens.”"
    )
    assert memory.data[RESTS_ON] == [episode.id for episode in await episodes(by_hand)]
    await by_hand.work()
    (hit, *_) = await ann.search_memory("bakery", layer="long_term")
    assert hit.id == memory.id
    assert (await ann.get_memory(memory.id)).vector is not None


@pytest.mark.parametrize(("topic", "recurs"), [("food bank", True), ("bank", False), ("social media", False)])
async def test_a_passing_mention_counts_where_several_words_identify_the_topic(by_hand, clock, topic, recurs):
    ann = by_hand.user("ann")
    for day, other in enumerate(("kitchen garden", "guitar lesson", "winter marathon")):
        chat = ann.session(f"day {day}")
        subject = topic if day == 0 else other
        await chat.add_interaction(f"I want to tell you of the {subject}.", f"Tell me of the {subject}.")
        await chat.add_interaction(f"The {subject} keeps me busy on day {day}.", f"What of the {subject}?")
        if day:
            await chat.add_interaction(f"I went by the {topic} with bag number {day}{day}.", "Good.")
        clock.advance(hours=26)
    await by_hand.work()
    told = (await ann.maintain()).consolidated.recurring
    assert [topic in memory.content and "3 times" in memory.content for memory in told] == [True] * recurs


async def test_twice_is_not_often_enough(by_hand, clock):
    ann = await on_several_days(by_hand, clock, days=2)
    assert (await ann.maintain()).consolidated.recurring == ()


async def test_a_dry_run_reports_the_same_and_changes_nothing(by_hand, clock):
    ann = await on_several_days(by_hand, clock)
    before = await ann.export()
    told = await ann.maintain(dry_run=True)
    assert await ann.export() == before
    done = await ann.maintain()
    assert [each.content for each in told.consolidated.recurring] == [
        each.content for each in done.consolidated.recurring
    ]
    assert (await ann.maintain()).is_idle, "what is done is done once"


async def test_a_topic_that_recurs_again_is_rewritten_under_the_same_id(by_hand, clock):
    ann = await on_several_days(by_hand, clock)
    (before,) = (await ann.maintain()).consolidated.recurring
    await talk(by_hand, clock, OVENS[3], "day 3")
    (after,) = (await ann.maintain()).consolidated.recurring
    assert (after.id, len(after.data[RESTS_ON])) == (before.id, 4)
    assert "Emma will run the bakery in August." in after.content
    assert after.confidence > before.confidence
    assert [memory.id for memory in await known(ann)] == [before.id]


async def test_consolidation_runs_once_a_day_by_itself(memory, clock):
    ann = await on_several_days(memory, clock, days=4)
    (told,) = await known(ann)
    assert "came back to bakery" in told.content


async def test_a_recurring_memory_forgotten_by_its_id_does_not_come_back(by_hand, clock):
    ann = await on_several_days(by_hand, clock)
    (told,) = (await ann.maintain()).consolidated.recurring
    await ann.forget(told.id)
    assert (await ann.maintain()).consolidated.recurring == ()
    assert await known(ann) == []


async def test_a_forgotten_message_removes_what_quotes_it_and_the_rest_is_rewritten(by_hand, clock):
    ann = await on_several_days(by_hand, clock, days=4)
    await ann.maintain()
    (secret,) = [m for m in await ann.session("day 1").window() if "painted" in str(m.content)]
    await ann.forget(secret.id)
    assert "painted" not in str(await ann.export())
    await by_hand.work()
    await ann.maintain()
    (told,) = await known(ann)
    assert "painted" not in str(await ann.export())
    assert "forty loaves" in told.content


async def test_a_recurring_memory_is_gone_when_too_few_episodes_are_left(by_hand, clock):
    ann = await on_several_days(by_hand, clock)
    await ann.maintain()
    await ann.session("day 1").delete()
    await by_hand.work()
    assert await known(ann) == []
    assert "came back to" not in str(await ann.export())


@pytest.mark.parametrize("layer", ["long_term", "episodic"])
async def test_what_was_made_of_a_message_and_then_edited_keeps_nothing_of_it_in_its_history(by_hand, clock, layer):
    ann = await on_several_days(by_hand, clock, days=4)
    (told,) = (await ann.maintain()).consolidated.recurring
    noted = next(each for each in await episodes(by_hand) if each.scope.session == "day 1")
    made = {"long_term": told, "episodic": noted}[layer]
    assert "painted" in made.content
    for edit in range(100):  # more than one commit can drop
        await ann.update_memory(made.id, content=f"Ann owns {edit} bakeries.")
    said = next(each for each in await ann.session("day 1").window() if "painted" in each.content)
    await ann.forget(said.id)
    await by_hand.work()
    kept = [record async for record in by_hand._flow.ledger.walk(Filter(ANN))]
    assert "painted" not in str([record.to_dict() for record in kept])
    assert [record for record in kept if record.layer == "past" and record.data["of"] == made.id] == []


@pytest.mark.parametrize("verb", ["forget", "quarantine", "remake"])
@pytest.mark.parametrize("layer", ["long_term", "episodic"])
async def test_what_was_edited_and_made_again_can_be_edited_again(by_hand, clock, layer, verb):
    ann = await on_several_days(by_hand, clock, days=4)
    (told,) = (await ann.maintain()).consolidated.recurring
    id = {"long_term": told.id, "episodic": next(each.id for each in await ann.episodes.list())}[layer]
    await ann.update_memory(id, content="Ann owns a bakery.")
    last = (await ann.session("day 3").window())[-1]
    if verb == "remake":
        await ann.episodes.remake("day 3")
    else:
        await (ann.forget(last.id) if verb == "forget" else ann.quarantine(ids=[last.id]))
    await by_hand.work()
    await ann.update_memory(id, content="Ann owns two bakeries.")
    assert (await ann.get_memory(id)).content == "Ann owns two bakeries."


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("forgotten", ["a message", "an episode", "a session"])
async def test_a_recurring_memory_made_while_something_is_forgotten_does_not_quote_it(
    open_memory, store, clock, forgotten, is_killed
):
    memory = await open_memory(store, consolidate=False)
    ann = await on_several_days(memory, clock, days=4)
    said = next(each for each in await ann.session("day 1").window() if "painted" in each.content)
    episode = next(each for each in await episodes(memory) if each.scope.session == "day 1")
    gone = {"a message": said.id, "an episode": episode.id, "a session": said.id}[forgotten]

    async def killed():
        raise Unavailable("killed")

    async def told():
        (recurring,) = (await ann.maintain()).consolidated.recurring
        assert "painted" in recurring.content
        if is_killed:
            store.before(lambda changes: gone not in changes.drop, killed)

    store.before(lambda changes: gone in changes.drop, told)
    with suppress(Unavailable):
        await (ann.session("day 1").delete() if forgotten == "a session" else ann.forget(gone))
    await memory.work()
    assert all("painted" not in each.content for each in await known(ann))
    assert "forty loaves" in (await known(ann))[0].content


async def test_what_was_quarantined_is_no_longer_quoted(by_hand, clock):
    ann = await on_several_days(by_hand, clock, days=4)
    await ann.maintain()
    await ann.quarantine(session="day 1")
    await by_hand.work()
    (told,) = await known(ann)
    assert "painted" not in told.content
    assert len(told.data[RESTS_ON]) == 3


async def test_a_recurring_memory_made_while_a_message_is_quarantined_does_not_quote_it(open_memory, store, clock):
    memory = await open_memory(store, consolidate=False)
    ann = await on_several_days(memory, clock, days=4)
    said = next(each for each in await ann.session("day 1").window() if "painted" in each.content)
    noted = next(each for each in await episodes(memory) if each.scope.session == "day 1")

    async def told():
        (recurring,) = (await ann.maintain()).consolidated.recurring
        assert "painted" in recurring.content

    store.before(lambda changes: noted.id in changes.drop, told)
    await ann.quarantine(ids=[said.id])
    await memory.work()
    (recurring,) = await known(ann)
    assert "painted" not in recurring.content
    assert "forty loaves" in recurring.content


async def test_a_recurring_memory_made_while_a_message_is_quarantined_does_not_quote_it_even_after_a_crash(
    open_memory, store, clock
):
    memory = await open_memory(store, consolidate=False)
    ann = await on_several_days(memory, clock, days=4)
    said = next(each for each in await ann.session("day 1").window() if "painted" in each.content)
    noted = next(each for each in await episodes(memory) if each.scope.session == "day 1")

    async def killed():
        raise Unavailable("killed")

    async def told():
        await ann.maintain()
        store.before(lambda changes: noted.id not in changes.drop, killed)

    store.before(lambda changes: noted.id in changes.drop, told)
    with pytest.raises(Unavailable):
        await ann.quarantine(ids=[said.id])
    assert "painted" in (await known(ann))[0].content
    clock.advance(minutes=2)
    await memory.work()
    (recurring,) = await known(ann)
    assert "painted" not in recurring.content
    assert "forty loaves" in recurring.content


@pytest.mark.parametrize("after", ["its episode expired", "what was set aside before it was trusted again"])
async def test_a_recurring_memory_no_longer_quotes_what_was_forgotten_even_if_the_episode_is_another_one(
    open_memory, clock, after
):
    memory = await open_memory(consolidate=False, lives={"episodic": "40d"}, conversation_days=100)
    ann, first = memory.user("ann"), ""
    for day, told in enumerate(OVENS):
        (hello, _) = await ann.session(f"day {day}").add_interaction(f"Hello from number {day}.", "Hi.")
        first = hello.id if day == 1 else first
        await talk(memory, clock, told, f"day {day}")
    if after.startswith("what"):
        await ann.quarantine(ids=[first])
        await memory.work()
    noted = {each.id for each in await episodes(memory) if each.scope.session == "day 1"}
    await ann.maintain()
    await memory.work()
    if after.startswith("what"):
        await ann.release(ids=[first])
    else:
        clock.advance(days=41)
    await memory.work()
    assert noted.isdisjoint(each.id for each in await episodes(memory))
    assert any("painted" in each.content for each in await known(ann))
    said = next(each for each in await ann.session("day 1").window() if "painted" in each.content)
    await ann.forget(said.id)
    assert all("painted" not in each.content for each in await known(ann))
    await memory.work()
    assert "painted" not in str(await ann.export())


async def test_a_memory_edited_by_hand_that_was_forgotten_and_restored_stays_as_it_was_written(by_hand, clock):
    ann = await on_several_days(by_hand, clock, days=4)
    (told,) = (await ann.maintain()).consolidated.recurring
    await ann.update_memory(told.id, content="Ann owns two bakeries.")
    await by_hand.work()
    kept = await ann.export()
    (said, *_) = await ann.session("day 1").window()
    await ann.forget(said.id)
    await ann.import_records(kept)
    await by_hand.work()
    assert (await ann.get_memory(told.id)).content == "Ann owns two bakeries."
    assert (await ann.history(told.id))[0].content == told.content


@pytest.mark.parametrize("layer", ["long_term", "conversation"])
async def test_what_only_looks_like_a_recurring_memory_stays_when_a_message_is_forgotten(by_hand, layer):
    ann = by_hand.user("ann")
    said = await ann.session("s").add_message("user", "The bakery needs two ovens.")
    (line,) = [line for line in await ann.export() if line.get("layer") == "conversation"]
    data = {"role": "user", RESTS_ON: [said.id]} | ({"topic": "bakeri"} if layer == "conversation" else {})
    await ann.import_records([line | {"id": "alike", "layer": layer, "content": "Bread is baked.", "data": data}])
    await ann.forget(said.id)
    await by_hand.work()
    assert [line["id"] for line in await ann.export() if line.get("layer") == layer] == ["alike"]


async def test_a_memory_edited_by_hand_stays_as_it_was_written(by_hand, clock):
    ann = await on_several_days(by_hand, clock)
    (told,) = (await ann.maintain()).consolidated.recurring
    await by_hand.work()
    await ann.update_memory(told.id, content="Ann owns a bakery in Porto.")
    await talk(by_hand, clock, OVENS[3], "day 3")
    assert (await ann.maintain()).consolidated.recurring == ()
    assert [memory.content for memory in await known(ann)] == ["Ann owns a bakery in Porto."]


async def test_two_consolidations_at_once_do_it_once(open_memory, store, clock):
    memory = await open_memory(store, consolidate=False)
    ann = await on_several_days(memory, clock)
    store.before(lambda changes: any(RESTS_ON in r.data for r in changes.put), lambda: ann.maintain())
    await ann.maintain()
    (told,) = await known(ann)
    rest_on = [list(episode.data["told_in"].values()) for episode in await episodes(memory)]
    assert rest_on and all(each == [told.id] for each in rest_on)


# ── sessions that rest ───────────────────────────────────────────────────────────────────────────


async def test_a_resting_session_is_noted_on_demand_whatever_happened_to_its_job(by_hand, clock):
    ann = by_hand.user("ann")
    for user, assistant in OVENS[:2]:
        await ann.session("lost").add_interaction(user, assistant)
    assert (await ann.maintain()).consolidated.episodes == (), "it goes on"
    clock.advance(hours=3)
    told = await ann.maintain(dry_run=True)
    assert [episode.scope.session for episode in told.consolidated.episodes] == ["lost"]
    assert await ann.episodes.list() == []
    await ann.maintain()
    assert [episode.session for episode in await ann.episodes.list()] == ["lost"]
    assert (await ann.maintain()).consolidated.episodes == ()
    await by_hand.work()
    assert len(await ann.episodes.list()) == 1, "the job finds nothing left to do"


# ── duplicates ───────────────────────────────────────────────────────────────────────────────────


async def with_doubles(memory):
    """Store three memories that say the same and one that does not, with their vectors."""
    texts = ("I like green tea.", "I really like green tea", "I like the green tea", "I do not like green tea.")
    (vector,) = await embed_checked(HashingEmbedder(), ["green tea"])
    scope, now = Scope("default", "ann"), memory._flow.ledger.clock()
    put = [
        Record(f"tea-{place}", "long_term", scope, text, vector=vector, created_at=now)
        for place, text in enumerate(texts)
    ]
    await memory._flow.ledger.commit(Changes(ANN, put=tuple(put)))


async def test_memories_that_say_the_same_become_one_and_can_be_separated_again(memory):
    await with_doubles(memory)
    ann = memory.user("ann")
    told = await ann.maintain(dry_run=True)
    assert [(each.ended.id, each.kept.id) for each in told.consolidated.merged] == [
        ("tea-1", "tea-0"), ("tea-2", "tea-0"),
    ]  # fmt: skip
    assert len(await known(ann)) == 4
    done = await ann.maintain()
    assert [each.ended.id for each in done.consolidated.merged] == ["tea-1", "tea-2"]
    assert {each.content for each in await known(ann)} == {"I like green tea.", "I do not like green tea."}
    assert (await ann.maintain()).is_idle
    await ann.restore("tea-1")
    assert len(await known(ann)) == 3
    assert (await ann.maintain()).is_idle, "what somebody has separated is not merged again"
    assert len(await known(ann)) == 3


async def test_a_crash_between_two_steps_leaves_nothing_half_done(open_memory, store, clock):
    memory = await open_memory(store, consolidate=False)
    ann = await on_several_days(memory, clock)

    async def crash():
        raise Conflict("broken off", field="id")

    store.before(lambda changes: any(RESTS_ON in r.data for r in changes.put), crash)
    await ann.maintain()
    assert await known(ann) == []
    assert not any("told_in" in episode.data for episode in await episodes(memory))
    assert len((await ann.maintain()).consolidated.recurring) == 1


async def test_an_org_is_consolidated_without_conversations(memory):
    await memory._flow.ledger.commit(Changes(Partition("default", "")))
    (done,) = [done async for done in memory._flow.upkeep.maintain(Partition("default", ""))]
    assert done.is_idle


# ── learnings ────────────────────────────────────────────────────────────────────────────────────


async def test_a_learning_that_was_never_useful_is_retired_and_can_be_restored(memory, clock):
    ann = memory.user("ann")
    once = await ann.learnings.add("asks for sources")
    right = await ann.learnings.add("means the river, not the bank", type="correction")
    await memory.work()
    clock.advance(days=179)
    assert (await ann.maintain(dry_run=True)).retired == (), "younger than prune_age_days"
    clock.advance(days=2)
    (told,) = (await ann.maintain(dry_run=True)).retired
    assert (told.record.id, told.record.layer) == (once.id, "learning")
    assert told.reason == "score 0.35 is below 0.35 and it was not touched for 181 days"
    assert len(await ann.learnings.list()) == 2
    await ann.maintain()
    assert [learning.id for learning in await ann.learnings.list()] == [right.id]
    assert "below 0.35" in (await ann.learnings.get(once.id)).retired
    await ann.learnings.restore(once.id)
    assert len(await ann.learnings.list()) == 2


async def test_beyond_a_limit_the_least_sure_learnings_are_retired(open_memory):
    memory = await open_memory(learnings_max=2)
    ann = memory.user("ann")
    added = [await ann.learnings.add(f"habit number {n}", confidence=n / 10) for n in (9, 3, 6)]
    (told,) = (await ann.maintain()).retired
    assert told.record.id == added[1].id


async def test_topics_of_the_same_days_are_written_together_after_one_read(by_hand, clock, monkeypatch):
    said = {
        "bakery": (
            "The bakery in Porto needs two ovens.",
            "We painted the bakery green.",
            "The bakery sold forty loaves.",
        ),
        "violin": ("My violin lost a string.", "I play the violin on Sundays.", "The violin was made in Cremona."),
        "garden": ("The garden has eleven roses.", "Snow fell on the garden.", "Rabbits came into the garden."),
    }
    for day in range(3):
        chat = by_hand.user("ann").session(f"day {day}")
        for topic, lines in said.items():
            await chat.add_interaction(lines[day], f"Good for the {topic}.")
        await by_hand.work()
        clock.advance(hours=26)
        await by_hand.work()
    consolidation = by_hand._flow.upkeep._consolidation
    read = consolidation._recurring
    rounds = []

    async def counted(*given):
        rounds.append(await read(*given))
        return rounds[-1]

    monkeypatch.setattr(consolidation, "_recurring", counted)
    told = (await by_hand.user("ann").maintain()).consolidated.recurring
    topics = {record.data["topic"] for record in told}
    assert len(topics) > 2
    assert len(rounds) == 2, "once for all of them, and once to see that nothing is left"
    assert all(set(record.data["told_in"]) == topics for record in await episodes(by_hand))
