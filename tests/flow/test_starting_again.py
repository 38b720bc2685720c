"""A program that starts again need not read years of conversation again: the same answers, much sooner."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from recollect import Memory
from recollect.uptake import KEPT_CHARACTERS
from recollect.vocabulary import Vocabulary

ASKED = ("Who repaired the lighthouse?", "What did the captain say about number 37?", "Which harbour was closed?")
FILLER = "It was a long winter and the sea froze around the pier, so nobody came to the island for weeks on end. " * 60
SESSIONS = 3


@pytest.fixture
def path(tmp_path):
    return tmp_path / "years.db"


@pytest.fixture
async def years(path, open_file):
    """A file with a little more text than is worth keeping, which nobody has asked for yet."""
    turns = KEPT_CHARACTERS // len(FILLER) // SESSIONS + 1
    async with open_file() as memory:
        for number in range(SESSIONS):
            chat = memory.user("ann").session(f"s{number}")
            for first in range(0, turns, 40):
                await chat.add_messages([
                    {"role": "user", "content": f"The captain said {turn} to harbour {number}. {FILLER}"}
                    for turn in range(first, min(first + 40, turns))
                ])  # fmt: skip
        await memory.user("ann").session("s0").add_message("user", "Ola repaired the lighthouse.", id="lighthouse")
    return path


@pytest.fixture
def open_file(path, clock):
    """Opens the file as another start of the program would."""
    return lambda **settings: Memory.open(
        f"sqlite:///{path}", clock=clock, worker=False, embedder="none", learn=False, **settings
    )


def kept_bytes(path):
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("select 1 from sqlite_master where name = 'kept'").fetchone():
            return []
        return [len(row[0]) for row in db.execute("select data from kept")]


async def answers(memory):
    found = [await memory.user("ann").search_memory(question, limit=5) for question in ASKED]
    return [[(hit.id, hit.score, hit.relevance) for hit in hits] for hits in found]


async def asked_once(open_file):
    async with open_file() as memory:
        return await answers(memory)


@pytest.fixture
def read_texts(monkeypatch):
    """The characters that are cut into words from now on."""
    read = []
    cut = Vocabulary.cut
    monkeypatch.setattr(Vocabulary, "cut", lambda self, text: read.append(len(text)) or cut(self, text))
    return read


async def test_what_was_read_once_is_not_read_again_and_answers_the_same(years, open_file, read_texts):
    before = await asked_once(open_file)
    assert sum(read_texts) > KEPT_CHARACTERS
    assert len(kept_bytes(years)) == 1
    read_texts.clear()
    assert await asked_once(open_file) == before
    assert sum(read_texts) < 1_000
    assert before[0][0][0] == "lighthouse"


async def test_what_was_said_since_is_found_with_what_was_kept(years, open_file, read_texts):
    await asked_once(open_file)
    async with open_file() as memory:
        await memory.user("ann").session("s9").add_message("user", "Kim repaired the lighthouse too.", id="kim")
        await memory.user("ann").add_memory("The lighthouse was repaired twice.")
        now = await answers(memory)
        assert {hit[0] for hit in now[0]} >= {"kim", "lighthouse"}
    with closing(sqlite3.connect(years)) as db:
        db.execute("delete from kept")
        db.commit()
    read_texts.clear()
    assert await asked_once(open_file) == now
    assert sum(read_texts) > KEPT_CHARACTERS


@pytest.mark.parametrize("verb", ["message", "session", "erase", "memory", "expiry"])
async def test_with_the_first_record_that_goes_nothing_is_kept_of_any(years, open_file, clock, verb):
    async with open_file() as memory:
        ann = memory.user("ann")
        extra = await ann.add_memory("Ola lives on Skye.")
        await answers(memory)
    assert len(kept_bytes(years)) == 1
    async with open_file() as memory:
        ann = memory.user("ann")
        if verb == "message":
            await ann.forget("lighthouse")
        elif verb == "session":
            await ann.session("s1").delete()
        elif verb == "erase":
            await ann.erase()
        elif verb == "memory":
            await ann.forget(extra.id)
        else:
            for days in (32, 2):  # upkeep comes a day after what else there is to do
                clock.advance(days=days)
                await memory.work()
        assert kept_bytes(years) == []
        found = await ann.search_memory("Who repaired the lighthouse?", limit=5)
    assert ("lighthouse" in [hit.id for hit in found]) == (verb in ("session", "memory"))


async def test_a_process_of_an_earlier_version_leaves_nothing_behind_either(years, open_file):
    await asked_once(open_file)
    assert len(kept_bytes(years)) == 1
    with closing(sqlite3.connect(years)) as db:  # as every version buries a record
        db.execute("update records set dropped = 1, payload = '', revision = revision + 1 where id = 'lighthouse'")
        db.commit()
    assert kept_bytes(years) == []


async def test_damaged_or_foreign_data_is_read_over(years, open_file):
    before = await asked_once(open_file)
    for data in (b"", b"rubbish", b"\0" * 4_000):
        with closing(sqlite3.connect(years)) as db:
            db.execute("update kept set data = ?", (data,))
            db.commit()
        assert await asked_once(open_file) == before


async def test_a_file_that_is_only_read_uses_what_is_kept_and_keeps_nothing(years, open_file, clock, read_texts):
    def read_only():
        return Memory.open(f"sqlite:///{years}?mode=ro", clock=clock, worker=False, embedder="none", learn=False)

    first = await asked_once(read_only)
    assert kept_bytes(years) == []
    assert await asked_once(open_file) == first
    read_texts.clear()
    assert await asked_once(read_only) == first
    assert sum(read_texts) < 1_000


async def test_little_is_not_kept(path, open_file):
    async with open_file() as memory:
        await memory.user("ann").session("s").add_message("user", FILLER)
        await answers(memory)
    assert kept_bytes(path) == []


async def test_many_questions_at_once_take_it_over_once(years, open_file, read_texts):
    before = await asked_once(open_file)
    read_texts.clear()
    async with open_file() as memory:
        found = await asyncio.gather(*[memory.user("ann").search_memory(ASKED[0], limit=5) for _ in range(5)])
    assert all([(hit.id, hit.score, hit.relevance) for hit in hits] == before[0] for hits in found)
    assert sum(read_texts) < 1_000


async def test_a_forgotten_message_is_not_kept_by_a_reader_who_began_before(years, open_file):
    """The words are packed in a thread; what is forgotten meanwhile must not come back with them."""
    async with open_file() as memory, open_file() as other:
        await answers(memory)  # begins to keep
        await other.user("ann").forget("lighthouse")
    assert kept_bytes(years) == []
    async with open_file() as memory:
        found = await memory.user("ann").search_memory(ASKED[0], limit=5)
        assert "lighthouse" not in [hit.id for hit in found]


async def test_what_is_lost_is_kept_again_by_a_later_start(years, open_file):
    await asked_once(open_file)
    async with open_file() as memory:
        await memory.user("ann").forget("lighthouse")
    assert kept_bytes(years) == []
    await asked_once(open_file)
    assert len(kept_bytes(years)) == 1
