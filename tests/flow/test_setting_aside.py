"""Quarantine, undo and release while others work, and when they are interrupted."""

from __future__ import annotations

from contextlib import suppress

import pytest

from recollect.errors import Conflict, NotFound
from recollect.filters import Filter
from recollect.learning import learn_jobs
from recollect.records import Changes, Scope
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import MeddlingStore

ANN = Scope("default", "ann")
TALK = (
    ("user", "We decided to fly to Lisbon on May 12 with my friend Paula."),
    ("assistant", "I will look for flights to Lisbon in May."),
    ("user", "The budget is 900 euros for the Lisbon flights."),
    ("assistant", "Then I will search for flights below 900 euros."),
    ("user", "Please also find a hotel near Alfama in Lisbon."),
    ("assistant", "I found three hotels near Alfama, from 80 euros a night."),
)


class BrokenOff(Exception):
    """Stands for the end of a process."""


class BreakingStore(MeddlingStore):
    """Fails at a commit and at all commits after it, until it is mended."""

    def __init__(self, store) -> None:
        super().__init__(store)
        self.left: int | None = None

    async def commit(self, changes, now):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise BrokenOff
        return await super().commit(changes, now)


@pytest.fixture
def store_name():
    return "memory"


@pytest.fixture
def store():
    return BreakingStore(InMemoryStore())


@pytest.fixture
async def memory(open_memory, store):
    return await open_memory(store)


@pytest.fixture
async def ann(memory):
    return memory.user("ann")


async def tell(memory, clock, session, talk=TALK):
    chat = memory.user("ann").session(session)
    ids = []
    for role, text in talk:
        ids.append((await chat.add_message(role, text)).id)
        clock.advance(minutes=1)
    return ids


async def stored(memory, *layers):
    where = Filter(ANN.partition, layers=layers)
    return [record async for record in memory._flow.ledger.walk(where)]


async def test_messages_of_more_bytes_than_one_commit_holds_are_set_aside_and_trusted_again(memory, ann, clock):
    ids = await tell(memory, clock, "s", [("user", "x" * 60_000)] * 20)
    await ann.quarantine(ids=ids)
    assert await ann.session("s").window() == []
    await ann.release(ids=ids)
    assert len(await ann.session("s").window(messages=20)) == 20


async def facts_of(user):
    return sorted((fact.key, fact.value) for fact in (await user.profile()).facts)


def writes(layer):
    return lambda changes: any(record.layer == layer for record in changes.put)


# ── While others work ────────────────────────────────────────────────────────────────────────────


async def test_a_message_quarantined_while_it_is_read_teaches_nothing(memory, store, ann, clock):
    await tell(memory, clock, "s", [("user", "I live in Oslo and my name is Mallory.")])
    store.before(writes("fact"), lambda: ann.quarantine(session="s"))
    await memory.work()
    assert store._meddle is None
    assert await facts_of(ann) == []
    assert await stored(memory, "fact", "entity", "relation", "failure") == []
    await ann.release(session="s")
    await memory.work()
    assert await facts_of(ann) == [("city", "Oslo"), ("name", "Mallory")], "what was never read is read then"


async def test_a_separate_learn_job_learns_nothing_from_what_is_quarantined_meanwhile(memory, store, ann, clock):
    (id,) = await tell(memory, clock, "s", [("user", "I live in Oslo and my name is Mallory.")])
    ledger = memory._flow.ledger
    await ledger.commit(Changes(ANN.partition, enqueue=learn_jobs(ANN.partition, [id], clock() - 1)))
    store.before(writes("fact"), lambda: ann.quarantine(session="s"))
    await memory.work()
    assert store._meddle is None
    assert await stored(memory, "fact", "entity", "relation", "failure") == []


async def test_what_is_undone_while_it_is_read_is_not_learned(memory, store, ann, clock):
    await tell(memory, clock, "s", [("user", "I like jazz.")])
    await memory.work()
    await tell(memory, clock, "s", [("user", "I live in Oslo.")])
    undone = []

    async def undo():
        undone.append(await ann.undo(session="s"))

    store.before(writes("fact"), undo)
    await memory.work()
    assert undone
    assert await facts_of(ann) == []
    await ann.redo(undone[0].id)
    await memory.work()
    assert ("city", "Oslo") in await facts_of(ann)


async def test_a_summary_never_contains_what_is_quarantined_while_it_is_made(open_memory, store, clock):
    memory = await open_memory(store, window_tokens=60)
    ann = memory.user("ann")
    store.before(writes("summary"), lambda: ann.quarantine(session="s"))
    await tell(memory, clock, "s")
    await memory.work()
    assert store._meddle is None
    assert "Lisbon" not in str([record.to_dict() for record in await stored(memory, "summary")])


async def test_an_episode_never_contains_what_is_quarantined_while_it_is_made(memory, store, ann, clock):
    await tell(memory, clock, "s")
    await memory.work()
    store.before(writes("episodic"), lambda: ann.quarantine(session="s"))
    clock.advance(hours=10)
    await memory.work()
    assert store._meddle is None
    assert await ann.episodes.list() == []


async def test_a_branch_never_begins_with_what_is_quarantined_while_it_is_made(memory, store, ann, clock):
    ids = await tell(memory, clock, "s")
    store.before(lambda changes: any(r.scope.session == "copy" for r in changes.put), lambda: ann.quarantine(ids=ids))
    with pytest.raises(Conflict):
        await ann.session("s").branch(ids[-1], "copy")
    await ann.session("s").branch(ids[-1], "copy")
    assert {record.trust for record in await stored(memory, "conversation")} == {"quarantined"}


# ── What belongs to it ───────────────────────────────────────────────────────────────────────────


async def test_copies_in_branches_are_quarantined_and_released_with_the_message(memory, ann, clock):
    ids = await tell(memory, clock, "s", [("user", "The launch code is tangerine."), ("assistant", "Noted.")])
    await ann.session("s").branch(ids[1], "copy")
    await ann.session("copy").branch((await ann.session("copy").messages())[0][-1].id, "copy of it")
    await memory.work()
    await ann.quarantine(ids=[ids[0]])
    assert not any("tangerine" in hit.content for hit in await ann.search_memory("launch code"))
    for session in ("s", "copy", "copy of it"):
        assert [message.content for message in await ann.session(session).window()] == ["Noted."]
    await ann.release(ids=[ids[0]])
    assert len([hit for hit in await ann.search_memory("launch code tangerine") if "tangerine" in hit.content]) >= 1
    assert {record.trust for record in await stored(memory, "conversation")} == {"trusted"}


async def test_a_quarantined_session_covers_later_messages_until_it_is_released(memory, ann, clock):
    await tell(memory, clock, "s", [("user", "I live in Oslo.")])
    await memory.work()
    await ann.quarantine(session="s")
    await tell(memory, clock, "s", [("user", "My name is Mallory.")])
    context = await ann.session("s").get_context("Who am I?")
    assert "Mallory" not in str(context.messages), "not even before it was looked at"
    await memory.work()
    assert await facts_of(ann) == []
    assert not any("Mallory" in hit.content for hit in await ann.search_memory("Mallory"))
    released = await ann.release(session="s")
    await memory.work()
    assert released.count == 2
    assert await facts_of(ann) == [("city", "Oslo"), ("name", "Mallory")]
    await tell(memory, clock, "s", [("user", "I work at Acme.")])
    await memory.work()
    assert ("employer", "Acme") in await facts_of(ann)


async def test_what_is_quarantined_is_in_no_window_and_no_title_but_in_the_log(memory, ann, clock):
    chat = ann.session("s")
    ids = await tell(memory, clock, "s", [("user", "Call me Caruso."), ("user", "What is the weather?")])
    await ann.quarantine(ids=[ids[0]])
    for strategy in (None, "last_messages", "last_turns", "token_budget", "sliding_window_summary", "importance"):
        assert [message.content for message in await chat.window(strategy)] == ["What is the weather?"]
    assert [message.content for message in await chat.window(messages=1)] == ["What is the weather?"]
    (listed,) = await ann.sessions()
    assert (listed.title, listed.messages) == ("What is the weather?", 2)
    messages, _ = await chat.messages()
    assert [(message.content, message.trust) for message in messages] == [
        ("Call me Caruso.", "quarantined"),
        ("What is the weather?", "trusted"),
    ]
    assert len((await chat.export())["messages"]) == 2
    await ann.quarantine(session="s")
    assert (await ann.sessions())[0].title == "s", "of a session that is all set aside, only its name is told"


@pytest.mark.parametrize("verb", ["quarantine", "release", "undo"])
async def test_a_missing_session_is_reported(memory, ann, verb):
    await ann.session("here").add_message("user", "Hello.")
    with pytest.raises(NotFound) as refused:
        await getattr(ann, verb)(session="nowhere")
    assert refused.value.field == "session"


async def test_a_missing_message_cannot_be_undone(ann):
    with pytest.raises(NotFound) as refused:
        await ann.undo(message_id="nowhere")
    assert refused.value.field == "message_id"


# ── Interrupted ──────────────────────────────────────────────────────────────────────────────────


async def commits_of(store, act):
    before = store.calls["commit"]
    await act()
    return store.calls["commit"] - before


async def all_of(memory):
    """What users see of it, without ids and times, which differ from run to run."""
    ann = memory.user("ann")
    return {
        "facts": await facts_of(ann),
        "relations": sorted(relation.names for relation in await ann.graph.relations()),
        "episodes": sorted(episode.content for episode in await ann.episodes.list()),
        "trust": [record.trust for record in await stored(memory, "conversation")],
        "notes": [record.data for record in await stored(memory, "conversation", "session") if "undo" in record.data],
        "failures": await ann.failures(),
    }


@pytest.mark.parametrize("verb", ["quarantine", "release", "undo", "redo"])
async def test_whatever_is_interrupted_anywhere_the_worker_completes(open_memory, clock, verb):
    async def opened():
        store = BreakingStore(InMemoryStore())
        memory = await open_memory(store)
        ann = memory.user("ann")
        await tell(memory, clock, "s", [*TALK, ("user", "I live in Oslo. My sister Ida works at Acme.")])
        await memory.work()
        await ann.session("s").close()
        await memory.work()
        if verb == "release":
            await ann.quarantine(session="s")
        undone = await ann.undo(session="s") if verb == "redo" else None
        await memory.work()
        act = {
            "quarantine": lambda: ann.quarantine(session="s"),
            "release": lambda: ann.release(session="s"),
            "undo": lambda: ann.undo(session="s"),
            "redo": lambda: ann.redo(undone.id),
        }[verb]
        return memory, store, act

    memory, store, act = await opened()
    before = await all_of(memory)
    commits = await commits_of(store, act)
    await memory.work()
    wanted = await all_of(memory)
    assert wanted != before
    assert commits > 3
    for place in range(1, commits):
        memory, store, act = await opened()
        store.left = place
        with pytest.raises(BrokenOff):
            await act()
        store.left = None
        clock.advance(minutes=2)
        await memory.work()
        assert await all_of(memory) == wanted, f"broken off after {place} of {commits} commits"


@pytest.mark.parametrize("by", ["session", "ids"])
async def test_a_release_that_is_completed_late_leaves_alone_what_was_quarantined_again(open_memory, clock, by):
    async def opened():
        store = BreakingStore(InMemoryStore())
        memory = await open_memory(store)
        ann = memory.user("ann")
        said = await tell(memory, clock, "s", [*TALK, ("user", "I live in Oslo. My sister Ida works at Acme.")])
        await memory.work()
        what = {"session": "s"} if by == "session" else {"ids": said}
        await ann.quarantine(**what)
        await memory.work()
        clock.advance(minutes=1)
        return memory, store, ann, what

    memory, store, ann, what = await opened()
    commits = await commits_of(store, lambda: ann.release(**what))
    assert commits > 3
    for place in range(1, commits):
        memory, store, ann, what = await opened()
        store.left = place
        with pytest.raises(BrokenOff):
            await ann.release(**what)
        store.left = None
        clock.advance(seconds=1)
        await ann.quarantine(**what)
        at_once = await all_of(memory)
        assert {record.trust for record in await stored(memory, "conversation")} == {"quarantined"}
        clock.advance(minutes=2)
        await memory.work()
        assert await all_of(memory) == at_once, f"broken off after {place} of {commits} commits"
        assert not await facts_of(ann)
        released = await ann.release(**what)
        await memory.work()
        assert released.count > 0
        assert await facts_of(ann)


async def test_wherever_quarantine_is_broken_off_an_open_memory_finds_what_a_new_one_finds(open_memory, clock):
    store = BreakingStore(InMemoryStore())
    memory = await open_memory(store)
    ann = memory.user("ann")
    await tell(memory, clock, "s")
    await ann.session("s").close()
    await memory.work()
    commits = 0
    while True:
        assert len(await ann.search_memory("Lisbon")) > 1
        commits += 1
        store.left = commits
        with suppress(BrokenOff):
            await ann.quarantine(session="s")
            break
        other = await open_memory(store)
        found, fresh = [[hit.id for hit in await each.user("ann").search_memory("Lisbon")] for each in (memory, other)]
        assert found == fresh, f"broken off after {commits} commits"
        store.left = None
        clock.advance(minutes=2)
        await memory.work()
        await ann.release(session="s")
        await memory.work()
    assert commits > 2


# ── Episodes ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_released_session_has_its_episodes_again(memory, ann, clock):
    await tell(memory, clock, "s")
    await ann.session("s").close()
    await memory.work()
    (before,) = await ann.episodes.list()
    await ann.quarantine(session="s")
    await memory.work()
    assert await ann.episodes.list() == []
    await ann.release(session="s")
    await memory.work()
    (after,) = await ann.episodes.list()
    assert (after.content, after.messages) == (before.content, before.messages)


async def test_releasing_many_messages_is_little_work(memory, store, ann, clock):
    chat = ann.session("s")
    for start in range(0, 300, 50):
        await chat.add_messages([{"role": "user", "content": f"remark {start + n} of mine"} for n in range(50)])
    await chat.close()
    await memory.work()
    await ann.quarantine(session="s")
    await memory.work()
    await ann.release(session="s")
    assert (await memory.survey()).jobs_waiting < 60


async def test_what_is_released_is_in_one_episode_whether_or_not_it_was_in_one_before(memory, ann, clock):
    first = await tell(memory, clock, "s")
    await ann.session("s").close()
    await memory.work()
    clock.advance(hours=5)
    porto = [(role, text.replace("Lisbon", "Porto").replace("Alfama", "Ribeira")) for role, text in TALK]
    second = await tell(memory, clock, "s", porto)
    await memory.work()
    await ann.quarantine(ids=[first[2], *second[:3]])
    await memory.work()
    await ann.release(ids=[first[2], *second[:3]])
    for _ in range(6):
        clock.advance(hours=3)
        await memory.work()
    covered = [id for episode in await ann.episodes.list() for id in episode.messages]
    assert sorted(covered) == sorted([*first, *second])
    assert await ann.failures() == []


async def test_a_forgotten_episode_does_not_come_back(memory, ann, clock):
    first = await tell(memory, clock, "s")
    clock.advance(hours=5)
    porto = [(role, text.replace("Lisbon", "Porto").replace("Alfama", "Ribeira")) for role, text in TALK]
    second = await tell(memory, clock, "s", porto)
    await ann.session("s").close()
    await memory.work()
    (forgotten,) = [episode for episode in await ann.episodes.list() if first[0] in episode.messages]
    await ann.forget(forgotten.id)
    await ann.forget(second[-1])
    await memory.work()
    await ann.session("s").add_message("user", "One more thing.")
    for _ in range(4):
        clock.advance(hours=10)
        await memory.work()
    assert [set(episode.messages) & set(first) for episode in await ann.episodes.list()] == [set()]


# ── Facts ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verb", ["undo", "quarantine", "forget"])
async def test_a_value_that_changed_a_hundred_times_can_be_taken_back(memory, ann, clock, verb):
    await ann.add_fact("city", "Rome")
    clock.advance(days=1)
    for number in range(110):
        city = ("Oslo", "Bergen")[number % 2]
        await tell(memory, clock, "s", [("user", f"I live in {city} now, week {number}.")])
        await memory.work()
    before = [fact.to_dict() for fact in await ann.facts.history("city")]
    if verb == "forget":
        await ann.session("s").delete()
        assert [fact.value for fact in await ann.facts.history("city")] == ["Rome"]
        return
    undone = await getattr(ann, verb)(session="s")
    assert (undone.learned if verb == "quarantine" else undone.changed)["fact"] == 110
    assert await facts_of(ann) == [("city", "Rome")]
    await (ann.redo(undone.id) if verb == "undo" else ann.release(session="s"))
    assert [fact.to_dict() for fact in await ann.facts.history("city")] == before


async def test_a_quarantined_fact_is_in_no_history_even_after_a_new_value(memory, ann, clock):
    fact = await ann.add_fact("city", "Secretville")
    await ann.facts.confirm("city")
    clock.advance(days=1)
    then = clock()
    await ann.quarantine(ids=[fact.id])
    clock.advance(days=1)
    assert await ann.facts.history("city") == []
    await tell(memory, clock, "s", [("user", "I live in Oslo.")])
    await memory.work()
    assert [each.value for each in await ann.facts.history("city")] == ["Oslo"], (
        "nothing that is aside holds against it"
    )
    assert (await ann.profile(as_of=then)).facts == (await ann.profile(known_at=then)).facts == ()
    await ann.undo(session="s")
    assert await ann.facts.get("city") == []
    assert (await ann.release(ids=[fact.id])).count == 1
    assert [each.value for each in (await ann.profile(as_of=then)).facts] == ["Secretville"]


async def test_what_was_released_is_found_by_another_memory_on_the_same_file(open_memory, tmp_path):
    file = f"sqlite:///{tmp_path}/shared.db"
    ann, same = (await open_memory(file)).user("ann"), (await open_memory(file)).user("ann")
    await ann.session("s").add_message("user", "The kettle is blue.")
    await ann.quarantine(session="s")
    assert await same.search_memory("kettle") == []
    await ann.release(session="s")
    assert [hit.content for hit in await same.search_memory("kettle")] == ["The kettle is blue."]


async def test_what_was_said_while_a_session_was_quarantined_is_found_once_it_is_released(memory):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "The kettle is blue.")
    await ann.quarantine(session="s")
    await ann.session("s").add_message("user", "The teapot is green.")
    assert await ann.search_memory("teapot") == []
    await ann.release(session="s")
    assert (await ann.search_memory("teapot"))[0].content == "The teapot is green."


async def test_a_session_that_was_quarantined_and_deleted_can_start_again(memory):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "The kettle is blue.")
    await ann.quarantine(session="s")
    await ann.session("s").delete()
    await ann.session("s").add_message("user", "The kettle is red.")
    assert [hit.content for hit in await ann.search_memory("kettle")] == ["The kettle is red."]
