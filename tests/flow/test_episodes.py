"""Episodes: a session that rests is remembered, once, and only as long as what it rests on."""

from __future__ import annotations

import pytest

from recollect.enrich.episodes import EXTRACTOR, MESSAGES_MAX
from recollect.episodes import IDLE_MS, PORTION, Episodes, covered, episode_job, remake_jobs, resting_episodes
from recollect.errors import Conflict, NotFound, ValidationError
from recollect.filters import Filter
from recollect.records import HOUR_MS, Changes, Partition, Scope
from recollect.stores import open_store
from recollect.testing.fakes import CountingStore, FailingEmbedder

ANN = Scope(user="ann")
PARTITION = Partition("default", "ann")
BAKERY = (
    ("I bought a bakery in Porto on 3 May.", "Congratulations on the bakery!"),
    ("The bakery needs two ovens, and my friend Emma pays for one.", "Ovens are heavy."),
    ("I think I'll take the blue oven for the bakery.", "Good choice."),
)
SHIP = (
    ("My ship is called Dorothea and lies in Bergen.", "A fine name."),
    ("The ship needs a new mast before June.", "I see."),
)


def episodes_of(memory):
    return Episodes(memory._flow.ledger, ANN)


async def say(memory, pairs, session="monday"):
    """Add interactions, one after the other."""
    messages = []
    for user, assistant in pairs:
        messages += await memory.user("ann").session(session).add_interaction(user, assistant)
    return [message.id for message in messages]


async def rest(memory, clock):
    clock.advance(hours=1 + 2 * IDLE_MS / HOUR_MS)
    await memory.work()


async def records(memory, layer="episodic"):
    return [record async for record in memory._flow.ledger.walk(Filter(PARTITION, layers=(layer,)))]


async def told(memory):
    """Everything the episodes hold, as one text."""
    return str([record.to_dict() for record in await records(memory)])


# ── made when a session rests ────────────────────────────────────────────────────────────────────


async def test_a_session_that_rests_becomes_an_episode(memory, clock):
    ids = await say(memory, BAKERY)
    await memory.work()
    assert await episodes_of(memory).list() == [], "it still goes on"
    await rest(memory, clock)
    (episode,) = await episodes_of(memory).list()
    assert episode.title.startswith("Bakery")
    assert episode.content.startswith("On 1 March 2026 the user talked about bakery")
    assert episode.messages == tuple(ids)
    assert episode.decisions == ("I think I'll take the blue oven for the bakery.",)
    assert (episode.people, episode.dates, episode.session) == (("Emma",), ("3 May",), "monday")
    assert (await episodes_of(memory).get(episode.id)).to_dict()["started_at"] == "2026-03-01T12:00:00Z"


async def test_a_session_becomes_an_episode_even_if_it_could_not_be_enriched(open_memory, clock):
    memory = await open_memory(embedder=FailingEmbedder())
    for user, assistant in BAKERY:
        await memory.user("ann").session("monday").add_interaction(user, assistant)
    for _ in range(9):
        await memory.work()
        clock.advance(minutes=30)
    assert [episode.session for episode in await memory.user("ann").episodes.list()] == ["monday"]


async def test_an_episode_is_found_by_its_words_and_by_its_meaning(memory, clock):
    await say(memory, BAKERY)
    await rest(memory, clock)
    hits = await memory.user("ann").search_memory("Which oven for the bakery?", layer="episodic")
    assert [hit.record.data["session"] for hit in hits] == ["monday"]
    (record,) = await records(memory)
    assert record.vector is not None
    assert (record.source.session_id, record.source.extractor) == ("monday", EXTRACTOR)


async def test_importance_follows_what_was_said_not_how_the_notes_are_worded(memory, clock):
    await say(memory, BAKERY)
    (made,) = await episodes_of(memory).close("monday")
    await rest(memory, clock)
    assert (await episodes_of(memory).get(made.id)).importance == made.importance


async def test_a_message_every_hour_keeps_a_session_going(memory, clock):
    for pair in (*BAKERY, *SHIP):
        await say(memory, [pair])
        clock.advance(minutes=60)
        await memory.work()
        assert await records(memory) == []
    await rest(memory, clock)
    (episode,) = await records(memory)
    assert len(covered(episode)) == 10


async def test_a_session_that_goes_on_after_a_rest_gets_another_episode(memory, clock):
    first = await say(memory, BAKERY)
    await rest(memory, clock)
    second = await say(memory, SHIP)
    await rest(memory, clock)
    assert [list(covered(record)) for record in await records(memory)] == [first, second]


async def test_a_long_session_becomes_several_episodes_even_before_it_rests(memory, clock):
    ids = await say(memory, [*BAKERY, *SHIP] * 10)
    clock.advance(hours=3)
    await say(memory, [("One more thing about the ship.", "Yes?")])
    await memory.work()
    made = await records(memory)
    assert [id for record in made for id in covered(record)] == ids
    assert all(len(covered(record)) <= MESSAGES_MAX for record in made)


async def test_a_session_of_any_length_is_noted_in_full(memory, clock):
    ids = await say(memory, [*BAKERY, *SHIP] * (PORTION // 6))
    await rest(memory, clock)
    covering = [id for record in await records(memory) for id in covered(record)]
    assert covering == ids
    assert len(ids) > PORTION


async def test_a_greeting_makes_no_episode_but_counts_when_the_session_goes_on(memory, clock):
    greeting = await say(memory, [("Hi!", "Hello!")])
    await rest(memory, clock)
    assert await records(memory) == []
    rest_of_it = await say(memory, BAKERY)
    await rest(memory, clock)
    (episode,) = await records(memory)
    assert list(covered(episode)) == [*greeting, *rest_of_it]


async def test_closing_a_session_makes_its_episodes_at_once(memory):
    await say(memory, BAKERY)
    (episode,) = await episodes_of(memory).close("monday")
    assert await episodes_of(memory).list(session="monday") == [episode]
    assert await episodes_of(memory).list(session="tuesday") == []
    assert await episodes_of(memory).close("monday") == []


async def test_an_old_conversation_added_later_keeps_its_time(memory, clock):
    chat = memory.user("ann").session("old")
    for user, assistant in BAKERY:
        await chat.add_interaction(user, assistant, created_at="2024-02-29T10:00:00Z")
    (episode,) = await episodes_of(memory).close("old")
    assert episode.content.startswith("On 29 February 2024")
    (record,) = await records(memory)
    assert record.when < clock()


async def test_a_tool_result_makes_an_episode_untrusted(memory):
    chat = memory.user("ann").session("monday")
    await say(memory, BAKERY[:2])
    call = [{"id": "c1", "type": "function", "function": {"name": "prices", "arguments": "{}"}}]
    await chat.add_message("assistant", None, tool_calls=call)
    await chat.add_message("tool", "Ovens cost 900 euros.", tool_call_id="c1")
    (episode,) = await episodes_of(memory).close("monday")
    assert episode.trust == "untrusted"
    assert "900" not in episode.content


# ── once ─────────────────────────────────────────────────────────────────────────────────────────


async def test_episodes_are_made_only_once(memory, clock):
    await say(memory, BAKERY)
    await rest(memory, clock)
    before = await records(memory)
    for _ in range(2):
        await say(memory, ())
        await rest(memory, clock)
    assert await records(memory) == before


async def test_two_makers_at_once_make_each_episode_once(open_memory, store):
    memory = await open_memory(store)
    ids = await say(memory, BAKERY)
    store.before(lambda changes: any(record.layer == "episodic" for record in changes.put),
                 lambda: say_and_close(memory))  # fmt: skip
    await episodes_of(memory).close("monday")
    covering = [id for record in await records(memory) for id in covered(record)]
    assert len(covering) == len(set(covering)) == len(ids) + 4


async def say_and_close(memory):
    await say(memory, SHIP)
    await episodes_of(memory).close("monday")


async def test_episodes_and_the_end_of_their_job_land_in_one_commit(open_memory, store_url, clock):
    store = CountingStore(await open_store(store_url))
    memory = await open_memory(store)
    await say(memory, BAKERY)
    await memory.work()
    clock.advance(hours=1 + 2 * IDLE_MS / HOUR_MS)
    (job,) = [job for job in await store.claim(clock(), 60, 10) if job.kind == "episode"]
    changes = await episodes_of(memory).run(job)
    assert await records(memory) == [], "nothing is written before the commit"
    assert {record.layer for record in changes.put} == {"episodic", "session"}
    assert [each.kind for each in changes.enqueue] == ["enrich"]
    await memory._flow.ledger.commit(changes.and_(finish=(job,)))
    with pytest.raises(Conflict):
        await memory._flow.ledger.commit(changes.and_(finish=(job,)))
    assert len(await records(memory)) == 1


async def test_a_job_is_enqueued_with_every_message_but_stays_a_single_job(memory, clock):
    scope = Scope(user="ann", session="monday")
    jobs = {episode_job(scope, clock() + minute * 60_000) for minute in range(59)}
    assert len({job.id for job in jobs}) == len(jobs) == 1
    assert all(clock() + 59 * 60_000 + IDLE_MS <= job.due_at <= clock() + 2 * IDLE_MS for job in jobs)
    assert episode_job(Scope(user="ann", session="tuesday"), clock()).id not in {job.id for job in jobs}


async def test_a_long_session_is_not_reread_from_its_beginning(open_memory, store_url, clock):
    store = CountingStore(await open_store(store_url))
    memory = await open_memory(store)
    await say(memory, [*BAKERY, *SHIP] * 8)
    await episodes_of(memory).close("monday")
    await say(memory, BAKERY)
    store.reset()
    await episodes_of(memory).make("monday", closing=True)
    assert store.rows <= 2 + 2 * len(BAKERY)


# ── rebuilt when a source goes ───────────────────────────────────────────────────────────────────


async def forget(memory, ids):
    """Forget as privacy does: what rests on a record goes before it, and is rebuilt from what is left."""
    ledger = memory._flow.ledger
    touched = resting_episodes(await records(memory), await ledger.get(PARTITION, ids))
    jobs = tuple(remake_jobs(touched, ledger.clock(), gone=ids))
    await ledger.commit(Changes(PARTITION, drop=(*(each.id for each in touched), *ids), enqueue=jobs))


async def test_a_forgotten_message_is_no_longer_in_any_episode(memory, clock):
    bakery = await say(memory, BAKERY)
    await rest(memory, clock)
    ship = await say(memory, SHIP)
    await rest(memory, clock)
    untouched = [record for record in await records(memory) if covered(record) == tuple(ship)]
    await forget(memory, [bakery[2]])
    assert "Emma" not in await told(memory), "it is gone at once, not when the work is done"
    await memory.work()
    again = [record for record in await records(memory) if record not in untouched]
    assert [list(covered(record)) for record in again] == [[id for id in bakery if id != bakery[2]]]
    assert "Emma" not in await told(memory)
    assert "blue oven" in await told(memory)


async def test_forgetting_the_first_or_the_last_message_leaves_one_episode(memory, clock):
    ids = await say(memory, BAKERY)
    await rest(memory, clock)
    for gone in (ids[0], ids[-1]):
        await forget(memory, [gone])
        await memory.work()
    await say(memory, SHIP)
    await rest(memory, clock)
    covering = [id for record in await records(memory) for id in covered(record)]
    assert len(covering) == len(set(covering)) == len(ids) - 2 + 4


async def test_when_all_messages_are_forgotten_no_episode_is_left(memory, clock):
    ids = await say(memory, BAKERY)
    await rest(memory, clock)
    await forget(memory, ids)
    await memory.work()
    assert await records(memory) == []


async def test_a_deleted_session_takes_its_episodes_with_it(memory, clock):
    await say(memory, BAKERY)
    await say(memory, SHIP, session="tuesday")
    await rest(memory, clock)
    await memory.user("ann").session("monday").delete()
    await memory.work()
    assert [record.scope.session for record in await records(memory)] == ["tuesday"]


async def test_a_message_forgotten_while_its_episode_is_written_is_not_in_it(open_memory, store):
    memory = await open_memory(store)
    ids = await say(memory, BAKERY)
    store.before(lambda changes: any(record.layer == "episodic" for record in changes.put),
                 lambda: forget(memory, [ids[2]]))  # fmt: skip
    await episodes_of(memory).close("monday")
    assert "Emma" not in await told(memory)
    assert len(await records(memory)) == 1


async def test_an_episode_that_was_forgotten_does_not_come_back(memory, clock):
    await say(memory, BAKERY)
    await rest(memory, clock)
    (episode,) = await episodes_of(memory).list()
    await memory.user("ann").forget(episode.id)
    await say(memory, SHIP)
    await rest(memory, clock)
    assert "bakery" not in await told(memory)
    assert len(await records(memory)) == 1


async def test_an_episode_is_rebuilt_when_its_messages_are_corrected(memory, clock):
    ids = await say(memory, BAKERY)
    await rest(memory, clock)
    (message,) = await memory._flow.ledger.get(PARTITION, [ids[0]])
    await memory._flow.ledger.commit(Changes(PARTITION, put=(message.with_(content="I bought a bakery in Braga."),)))
    assert await episodes_of(memory).remake("monday", [ids[0]]) == 1
    await memory.work()
    (episode,) = await episodes_of(memory).list()
    assert "Braga" in episode.content
    assert "Porto" not in episode.content


async def test_an_episode_outlives_its_messages_and_is_then_left_unchanged(memory, clock):
    await say(memory, BAKERY)
    await rest(memory, clock)
    clock.advance(days=40)
    await memory.work()
    assert await records(memory, "conversation") == []
    assert await episodes_of(memory).remake("monday") == 0
    await say(memory, SHIP)
    await rest(memory, clock)
    assert ["bakery" in record.content for record in await records(memory)] == [True, False]


# ── wrong requests ───────────────────────────────────────────────────────────────────────────────


async def test_what_is_not_an_episode_of_this_user_is_not_found(memory, clock):
    ids = await say(memory, BAKERY)
    (episode,) = await episodes_of(memory).close("monday")
    for id in (ids[0], "nothing"):
        with pytest.raises(NotFound):
            await episodes_of(memory).get(id)
    with pytest.raises(NotFound):
        await Episodes(memory._flow.ledger, Scope(user="bob")).get(episode.id)
    with pytest.raises(ValidationError):
        await episodes_of(memory).list(0)


async def test_an_episode_added_by_hand_is_listed_with_its_text(memory):
    await memory.user("ann").add_memory("We met in Porto.", layer="episodic")
    (episode,) = await episodes_of(memory).list()
    assert (episode.content, episode.title, episode.messages) == ("We met in Porto.", "", ())
    assert episode.started_at == episode.ended_at
