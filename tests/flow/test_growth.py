"""A verb costs what it touches, not what a user has, counted in the records unpacked for it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from recollect import Memory, sections
from recollect.index import PartitionIndex
from recollect.testing.fakes import ManualClock

SESSIONS, TURNS, NOTES = 30, 10, 60
FEW = 40
"""Far more than a verb about one thing needs, and far fewer than there are."""


@pytest.fixture
async def ann(memory: Memory, clock: ManualClock):
    """A user with a few hundred records, like one who has been here for a long time."""
    ann = memory.user("ann")
    for number in range(SESSIONS):
        clock.advance(minutes=1)
        said = [f"Turn {turn} of talk {number}." for turn in range(TURNS)]
        roles = ("user", "assistant")
        messages = [{"role": roles[turn % 2], "content": text} for turn, text in enumerate(said)]
        await ann.session(f"s{number}").add_messages(messages)
    await ann.add_memories([{"id": f"note-{number}", "content": f"Note number {number}."} for number in range(NOTES)])
    await memory.work()
    return ann


@pytest.fixture
async def index(memory: Memory, ann) -> PartitionIndex:
    return await memory._running.indexes.current(ann._scope.partition)


async def unpacked_by(index: PartitionIndex, call: Awaitable[object]) -> int:
    """How many records are unpacked after a call that starts while all of them rest."""
    index.rest()
    assert index.records.unpacked == 0
    await call
    return index.records.unpacked


async def test_the_newest_sessions_are_listed_without_reading_the_others(ann, index):
    assert await unpacked_by(index, ann.sessions(limit=5)) <= FEW
    assert [each.id for each in await ann.sessions(limit=2)] == ["s29", "s28"]
    assert {each.messages for each in await ann.sessions()} == {TURNS}


async def test_a_session_is_described_without_reading_all_of_it(ann, index):
    long = ann.session("long")
    for start in range(0, 120, 60):
        await long.add_messages([{"role": "user", "content": f"Line {start + place}."} for place in range(60)])
    await long.info()
    assert await unpacked_by(index, long.info()) <= FEW
    info = await long.info()
    assert (info.title, info.messages) == ("Line 0.", 120)


async def test_a_memory_is_forgotten_without_reading_all_others(ann, index):
    assert await unpacked_by(index, ann.forget("note-7")) <= FEW
    assert await ann.get_memories(["note-7"]) == []


async def test_what_depends_on_a_memory_is_found_wherever_it_is(ann, index):
    reply = {"role": "assistant", "content": "You said: Note number 7.", "metadata": {"quotes": ["note-7"]}}
    (quoting,) = await ann.session("s3").add_messages([reply])
    met = await ann.graph.relate("Ida", "knows", "Bo")
    index.rest()
    assert (await ann.forget("note-7")).forgotten == {"long_term": 1, "conversation": 1}
    assert await ann.get_memories([quoting.id]) == []
    index.rest()
    assert (await ann.forget((await ann.graph.find("Ida")).id)).forgotten == {"entity": 1, "relation": 1}
    assert await ann.get_memories([met.id]) == []


async def test_a_message_is_undone_and_redone_without_reading_all_others(memory, ann, index):
    (told,) = await ann.session("s3").add_messages([{"role": "user", "content": "I live in Oslo."}])
    await memory.work()
    assert [fact.value for fact in await ann.facts.get("city")] == ["Oslo"]
    assert await unpacked_by(index, ann.undo(message_id=told.id, dry_run=True)) <= FEW
    undone = await ann.undo(message_id=told.id)
    assert await ann.facts.get("city") == []
    assert await unpacked_by(index, ann.redo(undone.id)) <= FEW
    assert [fact.value for fact in await ann.facts.get("city")] == ["Oslo"]


async def test_a_memory_is_quarantined_and_released_without_reading_all_others(ann, index):
    assert await unpacked_by(index, ann.quarantine(ids=["note-7"])) <= FEW
    assert await unpacked_by(index, ann.release(ids=["note-7"])) <= FEW
    assert (await ann.get_memory("note-7")).trust == "trusted"


async def test_a_context_reads_the_profile_as_often_for_many_relations_as_for_one(memory, monkeypatch):
    asked: list[str] = []
    of_layer = PartitionIndex.of_layer

    def counted(index: PartitionIndex, layer: str, now: int):
        asked.append(layer)
        return of_layer(index, layer, now)

    monkeypatch.setattr(PartitionIndex, "of_layer", counted)
    bob = memory.user("bob")
    reads = []
    for number in range(20):
        await bob.graph.relate("user", "friend", f"Dora{number}")
        asked.clear()
        assert "Dora0" in (await bob.get_context("How is Dora0?")).system
        reads.append(asked.count("fact"))
    assert reads[-1] == reads[0]


async def test_the_notes_about_a_user_are_reused_while_nothing_about_them_changes(memory, clock, monkeypatch):
    made: list[str] = []
    note = sections.note

    def counted(key: str, *given: Any) -> str:
        made.append(key)
        return note(key, *given)

    monkeypatch.setattr(sections, "note", counted)
    bob = memory.user("bob")
    for number in range(20):
        await bob.add_fact(f"thing {number}", f"value {number}")
    first = await bob.get_context("What is thing 3?")
    assert "value 3" in first.system
    made.clear()
    await bob.session("monday").add_message("user", "What a day.")
    assert (await bob.get_context("What is thing 3?")).lasting == first.lasting
    assert made == []


async def test_notes_about_a_user_follow_every_change_and_the_clock(memory, clock):
    bob = memory.user("bob")

    async def told() -> str:
        return (await bob.get_context("Where does Bob live?")).lasting

    await bob.add_fact("city", "Oslo", valid_to=clock() + 50_000)
    assert "Oslo" in await told()
    await bob.add_fact("theme", "dark")
    assert "dark" in await told()
    await bob.add_fact("theme", "light")
    assert "light" in await told()
    assert "dark" not in await told()
    clock.advance(seconds=49)
    assert "Oslo" in await told()
    clock.advance(seconds=1)
    assert "Oslo" not in await told()
    (theme,) = await bob.facts.get("theme")
    await bob.quarantine(ids=[theme.id])
    assert "light" not in await told()
    await bob.release(ids=[theme.id])
    assert "light" in await told()
    await bob.forget(theme.id)
    assert "light" not in await told()


async def test_what_is_known_reads_the_same_from_the_index_as_from_the_store(open_memory, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/known.db"
    told = await open_memory(url)
    bob = told.user("bob")
    for key, value in (("city", "Oslo"), ("city", "Bergen"), ("hobby", "chess"), ("hobby", "rowing")):
        await bob.add_fact(key, value)
    await bob.update_preference("tone", "plain")
    await bob.add_learning("Wants sources.", type="preference")
    await bob.graph.add_entity("Ida", type="person", metadata={"tags": ["old"]})
    await bob.graph.relate("Ida", "works_at", "Acme")
    await told.work()
    other = (await open_memory(url)).user("bob")

    async def known(user: Any) -> list[Any]:
        return [
            await user.profile(),
            await user.learnings.list(),
            await user.graph.whole(),
            await user.facts.get("hobby"),
        ]

    from_the_store = await known(other)
    await other.search_memory("Where does Ida work?")
    walked: list[object] = []
    ledger = other._flow.ledger
    walk = ledger.walk
    monkeypatch.setattr(ledger, "walk", lambda where, **more: walked.append(where) or walk(where, **more))
    assert await known(other) == from_the_store
    assert walked == []
    (await other.graph.find("Ida")).metadata["tags"].append("new")
    whole = await other.graph.whole()
    whole.entities[0].metadata["tags"].append("new")
    assert await known(other) == from_the_store
