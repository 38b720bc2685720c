"""Changing the embedder of existing memories: announced at once, both searchable meanwhile, in place, kill-safe."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from recollect import Memory
from recollect.errors import EmbeddingError
from recollect.reembedding import Reembedding
from recollect.testing.fakes import FailingEmbedder, HashingEmbedder

NOTES = [f"Note {number}: the {colour} boat lies in harbour {number}." for number, colour in
         enumerate(("red", "green", "blue", "white") * 20)]  # fmt: skip


class Meanwhile(HashingEmbedder):
    """Does something else, once, while it is embedding."""

    def __init__(self, deed: Callable[[], Awaitable[object]]) -> None:
        super().__init__(name="meanwhile")
        self._deed: Callable[[], Awaitable[object]] | None = deed

    async def embed(self, texts):
        deed, self._deed = self._deed, None
        if deed is not None:
            await deed()
        return await super().embed(texts)


async def fill(memory: Memory, user: str = "ann", notes: list[str] = NOTES) -> None:
    for start in range(0, len(notes), 45):
        await memory.user(user).add_memories(notes[start : start + 45])
    await memory.work()


async def models_of(memory: Memory, user: str = "ann") -> set[str | None]:
    records, _ = await memory.user(user).list_memories(limit=1000)
    return {record.vector.model if record.vector else None for record in records}


@pytest.fixture
def file(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/notes.db"


async def old_file(file: str, **given: object) -> None:
    """Create a file whose memories the default embedder has embedded."""
    async with Memory.open(file, worker=False, **given) as memory:
        await fill(memory)
        await memory.user("ann").session("monday").add_interaction("My kitten is called Miso.", "What a name!")
        await memory.work()


async def test_opening_with_another_embedder_says_so_and_names_the_command(file, caplog):
    await old_file(file)
    assert "reembed" not in caplog.text
    async with Memory.open(file, embedder=HashingEmbedder(), worker=False) as memory:
        assert "wordllama-l2-256, but the embedder is now hashing-64" in caplog.text
        assert "recollect reembed" in caplog.text
        assert memory.describe()["other_embedders"] == ["wordllama-l2-256"]


async def test_without_a_change_of_the_embedder_nothing_is_logged(file, caplog):
    await old_file(file)
    async with Memory.open(file, worker=False) as memory:
        await memory.user("ann").search_memory("boat")
        assert memory.describe()["other_embedders"] == []
    assert "reembed" not in caplog.text


async def test_memories_of_both_embedders_are_found_by_meaning_before_anything_is_changed(file):
    await old_file(file)
    async with Memory.open(file, embedder=HashingEmbedder(), worker=False) as memory:
        ann = memory.user("ann")
        await ann.add_memory("A cello stands in the attic.")
        await memory.work()
        # No words in common: meaning alone.
        old, *_ = await ann.search_memory("Which pet cat is there?", layer="conversation")
        assert old.content == "My kitten is called Miso."
        assert old.legs["meaning"].rank == 1
        new, *_ = await ann.search_memory("attic cello", layer="long_term")
        assert (new.content, new.legs["meaning"].rank) == ("A cello stands in the attic.", 1)


async def test_memories_of_an_unavailable_embedder_are_found_by_words(file, caplog):
    await old_file(file, embedder=HashingEmbedder(name="gone"))
    async with Memory.open(file, embedder=HashingEmbedder(128), worker=False) as memory:
        hits = await memory.user("ann").search_memory("Miso", layer="conversation")
        assert hits[0].content == "My kitten is called Miso."
    assert "by words, not by meaning" in caplog.text


async def test_everything_is_reembedded_and_nothing_else_is_changed(open_memory, store_name):
    memory = await open_memory()
    await fill(memory)
    before = {record.id: record for record in (await memory.user("ann").list_memories(limit=1000))[0]}
    flow = memory._running
    told: list[int] = []
    anew = Reembedding(flow.ledger, flow.indexes, HashingEmbedder(32))
    (done,) = [each async for each in anew.reembed(lambda _: True, told=told.append)]
    assert (done.records, done.wanting, done.done, dict(done.models)) == (80, 80, 80, {"hashing-64": 80})
    assert sum(told) == 80
    records, _ = await memory.user("ann").list_memories(limit=1000)
    assert [record.id for record in records] == list(before)
    for record in records:
        assert record.vector.model == "hashing-32"
        assert record.with_(vector=None, version=0) == before[record.id].with_(vector=None, version=0)
        assert await memory.user("ann").history(record.id) == [record]


async def test_reembedding_twice_does_it_once(file):
    await old_file(file)
    async with Memory.open(file, embedder=HashingEmbedder(), worker=False) as memory:
        (first,) = await memory.reembed()
        embedder = HashingEmbedder()
    async with Memory.open(file, embedder=embedder, worker=False) as memory:
        versions = [record.version for record in (await memory.user("ann").list_memories(limit=1000))[0]]
        (second,) = await memory.reembed()
        assert first.records == first.wanting == first.done > len(NOTES)
        assert (second.records, second.wanting, second.done, embedder.calls) == (first.records, 0, 0, 0)
        assert versions == [record.version for record in (await memory.user("ann").list_memories(limit=1000))[0]]


async def test_a_dry_run_only_counts(file):
    await old_file(file)
    async with Memory.open(file, embedder=HashingEmbedder(), worker=False) as memory:
        (counted,) = await memory.reembed(dry_run=True)
        assert (counted.wanting, counted.done) == (counted.records, 0)
        assert await models_of(memory) == {"wordllama-l2-256"}


async def test_only_the_chosen_users_are_changed(file):
    async with Memory.open(file, worker=False) as memory:
        for user in ("ann", "ben"):
            await fill(memory, user, NOTES[:3])
    async with Memory.open(file, embedder=HashingEmbedder(), worker=False) as memory:
        assert [done.partition.user for done in await memory.reembed(user="ben")] == ["ben"]
        assert await memory.reembed(org="elsewhere") == []
        assert await models_of(memory, "ann") == {"wordllama-l2-256"}
        assert await models_of(memory, "ben") == {"hashing-64"}


async def test_memories_that_never_had_an_embedder_get_vectors(file):
    async with Memory.open(file, embedder="none", worker=False) as memory:
        await fill(memory)
        assert await models_of(memory) == {None}
        with pytest.raises(EmbeddingError, match="no embedder"):
            await memory.reembed()
    async with Memory.open(file, worker=False) as memory:
        await memory.reembed()
        assert await models_of(memory) == {"wordllama-l2-256"}


async def test_what_is_erased_meanwhile_does_not_come_back(file):
    await old_file(file)
    async with (
        Memory.open(file, worker=False) as other,
        Memory.open(file, embedder=Meanwhile(other.user("ann").erase), worker=False) as memory,
    ):
        await memory.reembed()
        assert await memory.user("ann").list_memories() == ([], None)
        assert dict((await memory.survey()).records).get("conversation", 0) == 0


async def test_what_is_changed_meanwhile_keeps_the_change(file):
    await old_file(file)
    async with Memory.open(file, worker=False) as other:
        ann = other.user("ann")
        (first, *_), _ = await ann.list_memories(limit=2)

        async def change() -> None:
            await ann.update_memory(first.id, content="The boat is sold.")

        async with Memory.open(file, embedder=Meanwhile(change), worker=False) as memory:
            await memory.reembed()
            assert (await memory.user("ann").get_memory(first.id)).content == "The boat is sold."
            assert await models_of(memory) == {"meanwhile-64"}


async def test_what_is_written_meanwhile_is_kept_with_the_new_model(file):
    await old_file(file)
    async with Memory.open(file, embedder=HashingEmbedder()) as memory:
        changing = asyncio.create_task(memory.reembed())
        for number in range(20):
            await memory.user("ann").add_memory(f"A thought of the moment, number {number}.")
        await changing
        await memory.work()
        assert len((await memory.user("ann").list_memories(limit=1000))[0]) == 100
        assert await models_of(memory) == {"hashing-64"}


async def test_an_embedder_that_fails_is_retried_and_then_reported(memory):
    await fill(memory)
    flow = memory._running

    async def reembed(embedder: HashingEmbedder) -> int:
        anew = Reembedding(flow.ledger, flow.indexes, embedder, wait_s=0)
        return sum([done.done async for done in anew.reembed(lambda _: True)])

    broken = FailingEmbedder()
    broken.name = "broken"
    with pytest.raises(EmbeddingError):
        await reembed(broken)
    assert await models_of(memory) == {"hashing-64"}
    late = FailingEmbedder(times=3)
    late.name = "late"
    assert await reembed(late) == 80
    assert await models_of(memory) == {"late"}


async def test_vectors_of_another_length_under_the_same_name_break_no_search(file):
    await old_file(file, embedder=HashingEmbedder(64))
    other = HashingEmbedder(32)
    other.name = "hashing-64"
    async with Memory.open(file, embedder=other, worker=False) as memory:
        hits = await memory.user("ann").search_memory("Miso kitten", layer="conversation")
        assert hits[0].content == "My kitten is called Miso."


# ── killed ───────────────────────────────────────────────────────────────────────────────────────

CHILD = """
import asyncio, sys
from recollect import Memory
from recollect.testing.fakes import HashingEmbedder

class Slow(HashingEmbedder):
    async def embed(self, texts):
        await asyncio.sleep(0.01)
        return await super().embed(texts)

async def main():
    async with Memory.open(sys.argv[1], embedder=Slow(name="slow"), worker=False) as memory:
        await memory.reembed(told=lambda count: print(count, flush=True))

asyncio.run(main())
"""


async def test_killed_again_and_again_it_ends_with_every_memory_reembedded(file):
    async with Memory.open(file, worker=False) as memory:
        for user in range(4):
            await fill(memory, f"user-{user}")
    for steps in (1, 3, 5):
        child = subprocess.Popen([sys.executable, "-c", CHILD, file], stdout=subprocess.PIPE, text=True)
        for _ in range(steps):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    async with Memory.open(file, embedder=HashingEmbedder(name="slow"), worker=False) as memory:
        done = await memory.reembed()
        assert 0 < sum(each.wanting for each in done) < 4 * len(NOTES)
        for user in range(4):
            records, _ = await memory.user(f"user-{user}").list_memories(limit=1000)
            assert sorted(record.content for record in records) == sorted(NOTES)
            assert {record.vector.model for record in records} == {"slow-64"}
        assert await memory.check() == []


async def test_a_message_reembedded_before_it_was_read_still_teaches(memory):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "I live in Oslo.")
    (done,) = await memory.reembed()
    assert done.done == 1
    await memory.work()
    assert [(fact.key, fact.value) for fact in (await ann.profile()).facts] == [("city", "Oslo")]
