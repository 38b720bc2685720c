"""Other processes hold the file, or write it at the same time."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from recollect import Memory
from recollect.errors import Busy
from recollect.testing.drills import living_rows, settle, unfinished_jobs
from recollect.testing.fakes import HashingEmbedder, ManualClock
from recollect.testing.faults import ended, start
from recollect.testing.scenes import opened, state_of

WRITERS, APPENDS = 4, 500


async def hold(path: Path, pipe: Connection) -> None:
    """Keep everyone else from writing until told to release the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("begin exclusive")
        pipe.send("held")
        pipe.recv()
        db.execute("rollback")
        pipe.send("free")


@contextmanager
def held(path: Path) -> Iterator[None]:
    """The file, held by another process for the length of a block."""
    ours, theirs = Pipe()
    holder = start(hold, path, theirs)
    assert ours.recv() == "held"
    yield
    ours.send("let go")
    assert ours.recv() == "free" and ended(holder) == 0


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    path = tmp_path / "shared.db"
    async with opened(path) as memory:
        await memory.user("ann").session("chat").add_message("user", "First.", id="first")
    return path


async def test_a_write_waits_for_a_process_that_holds_the_file_and_then_succeeds(path):
    async with opened(path) as memory:
        chat = memory.user("ann").session("chat")
        with held(path):
            assert (await chat.messages())[0], "who reads does not wait"
            calls = [asyncio.create_task(chat.add_message("user", f"Number {n}.")) for n in range(20)]
            await asyncio.sleep(1)
            assert not any(call.done() for call in calls)
        await asyncio.gather(*calls)
        assert len((await chat.messages())[0]) == 21


async def test_writes_that_wait_too_long_are_busy_after_the_set_time_and_nothing_is_half_done(path):
    before = state_of(path)
    async with opened(path, busy_timeout_s=1) as memory:
        user = memory.user("ann")
        chat = user.session("chat")
        with held(path):
            begun = time.monotonic()
            calls = [chat.add_interaction(f"Question {n}?", "Answer.") for n in range(20)]
            answers = await asyncio.gather(*calls, user.add_memory("Ann waits."), return_exceptions=True)
            waited = time.monotonic() - begun
            assert [type(answer) for answer in answers] == [Busy] * 21
            assert 0.9 < waited < 12, "one wait for all, and one for those who came during it, not one for each"
        assert state_of(path) == before
        await chat.add_message("user", "And now?")
        assert len((await chat.messages())[0]) == 2


async def erase_many(path: Path, writer: int) -> None:
    async with opened(path) as memory:
        for number in range(10):
            user = memory.user(f"{writer} {number}")
            await user.session("chat").add_message("user", "A secret that must not stay.")
            assert (await user.erase()).compacted


async def test_processes_erasing_at_the_same_time_wait_for_each_other_and_leave_no_trace(path):
    processes = [start(erase_many, path, writer) for writer in range(3)]
    assert [await asyncio.to_thread(ended, each) for each in processes] == [0] * 3
    assert all(b"secret" not in each.read_bytes() for each in path.parent.iterdir())
    assert [row.content for row in living_rows(path, ManualClock()())] == ["First."]


async def append_many(path: Path, writer: int) -> None:
    async with Memory.open(path, embedder=HashingEmbedder()) as memory:
        chat = memory.user("ann").session("shared")
        for number in range(APPENDS):
            await chat.add_message("user", f"{writer} {number} is what I say to everyone here")


@pytest.mark.timeout(600)
async def test_four_processes_append_to_one_session_and_every_message_is_there_in_its_writers_order(tmp_path):
    path = tmp_path / "shared.db"
    async with opened(path):
        pass
    begun = time.monotonic()
    processes = [start(append_many, path, writer) for writer in range(WRITERS)]
    assert [await asyncio.to_thread(ended, each, 200) for each in processes] == [0] * WRITERS
    seconds = time.monotonic() - begun
    await settle(path)
    rows = [row for row in living_rows(path) if row.layer == "conversation"]
    numbers = defaultdict(list)
    for row in rows:
        writer, number, *_ = row.content.split()
        numbers[writer].append(int(number))
    assert len(rows) == WRITERS * APPENDS
    assert all(numbers[str(writer)] == list(range(APPENDS)) for writer in range(WRITERS))
    assert all(row.embedded for row in rows)
    assert unfinished_jobs(path) == []
    print(f"{len(rows)} rows, order kept, 0 errors, in {seconds:.0f} s")
