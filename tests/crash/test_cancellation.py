"""A call cancelled at any await has happened completely or not at all, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from recollect import Memory
from recollect.session import Session
from recollect.stores import open_store
from recollect.stores.sqlite import NEAR_REVISIONS
from recollect.testing.drills import living_rows, unfinished_jobs
from recollect.testing.fakes import ManualClock
from recollect.testing.faults import SteppedStore, cancelled_at
from recollect.testing.scenes import SCENES, is_whole, opened, play, set_stage, state_of
from recollect.user import User

SUSPENSIONS_MAX = 200
LEFT_S = 20.0
READS: dict[str, Callable[[Memory, User, Session], Awaitable[object]]] = {
    "window": lambda memory, user, chat: chat.window("sliding_window_summary"),
    "messages": lambda memory, user, chat: chat.messages(),
    "get_context": lambda memory, user, chat: chat.get_context("Which tea?"),
    "search_memory": lambda memory, user, chat: user.search_memory("Which tea?"),
    "sessions": lambda memory, user, chat: user.sessions(),
    "history": lambda memory, user, chat: user.history("tea"),
    "list_memories": lambda memory, user, chat: user.list_memories(),
    "export": lambda memory, user, chat: user.export(),
    "working.get": lambda memory, user, chat: chat.working.get(),
    "survey": lambda memory, user, chat: memory.survey(),
    "check": lambda memory, user, chat: memory.check(),
}


async def works_for_others(memory: Memory) -> None:
    """Twenty clean calls of another user, none of which waits for the cancelled one."""
    bob = memory.user("bob")
    async with asyncio.timeout(60):
        for number in range(10):
            await bob.session("chat").add_message("user", f"Does it still work, {number}?", id=f"again{number}")
            await bob.session("chat").messages(limit=1)


class Leftovers:
    """Tasks and threads that a call leaves behind; a file's readers are a pool that grows on demand."""

    def __init__(self) -> None:
        self._tasks = asyncio.all_tasks()
        self._threads = _threads()

    async def found(self) -> set[object]:
        """What is still there once everything that ends by itself has had time to."""
        until = time.monotonic() + LEFT_S
        while (left := self._now()) and time.monotonic() < until:
            await asyncio.sleep(0.01)
        return left

    def _now(self) -> set[object]:
        return {*(asyncio.all_tasks() - self._tasks), *(_threads() - self._threads)}


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.name.startswith("recollect-read")}


@pytest.fixture
async def memory(tmp_path: Path):
    async with opened(tmp_path / "memories.db") as memory:
        await works_for_others(memory)
        await asyncio.gather(*(memory.survey() for _ in range(8)))  # starts all readers
        yield memory


@pytest.mark.parametrize("late", [False, True], ids=["under way", "just done"])
@pytest.mark.parametrize("scene", SCENES)
async def test_a_cancelled_write_is_complete_or_absent_and_others_carry_on(memory, tmp_path, scene, late):
    path = tmp_path / "memories.db"
    for name in ("before", "after"):
        await set_stage(memory, name)
    await play(memory, scene, "after")
    before, after = state_of(path, "before"), state_of(path, "after")
    leftovers = Leftovers()
    for at in range(1, SUSPENSIONS_MAX):
        await set_stage(memory, f"user{at}")
        reached = await cancelled_at(play(memory, scene, f"user{at}"), at, late=late)
        await works_for_others(memory)
        state = state_of(path, f"user{at}")
        assert not await leftovers.found()
        if not reached:
            assert state == after
            break
        assert state == before or is_whole(state, after), f"at wait {at}"
    assert at > 1


@pytest.mark.parametrize("late", [False, True], ids=["under way", "just done"])
@pytest.mark.parametrize("verb", READS)
async def test_a_cancelled_read_changes_nothing_and_others_carry_on(memory, tmp_path, verb, late):
    await set_stage(memory, "ann")
    user = memory.user("ann")
    chat = user.session("chat")
    said = (chat.add_message("user", f"More than is read at once, {n}.") for n in range(NEAR_REVISIONS + 1))
    await asyncio.gather(*said)
    before = state_of(tmp_path / "memories.db")
    leftovers = Leftovers()
    for at in range(1, SUSPENSIONS_MAX):

        async def read() -> None:
            await READS[verb](memory, user, chat)

        reached = await cancelled_at(read(), at, late=late)
        await works_for_others(memory)
        assert state_of(tmp_path / "memories.db") == before
        assert not await leftovers.found()
        if not reached:
            break
        await chat.add_message("user", "Something new to read.", id="new")
        before = state_of(tmp_path / "memories.db")
    assert at > 1


class CancelAt:
    """A step that cancels a task on the n-th call."""

    def __init__(self) -> None:
        self.left = 0
        self.task: asyncio.Task[int] | None = None

    def __call__(self, name: str) -> None:
        self.left -= 1
        if self.left == 0 and self.task is not None:
            self.task.cancel()


async def test_work_cancelled_at_any_verb_of_the_store_is_done_once_by_the_next_worker(tmp_path):
    path = tmp_path / "memories.db"
    clock, step = ManualClock(), CancelAt()
    async with opened(SteppedStore(await open_store(path), step), clock, window_tokens=50) as memory:
        for at in range(1, SUSPENSIONS_MAX):
            user = memory.user(f"user{at}")
            texts = [f"Tree {n} stands in garden {at}, next to an old well." for n in range(4)]
            await user.session("chat").add_messages([{"role": "user", "content": text} for text in texts])
            await user.add_memories(texts)
            step.task, step.left = asyncio.create_task(memory.work()), at
            await asyncio.wait([step.task])
            reached, step.left = step.left <= 0, 0
            await works_for_others(memory)
            clock.advance(minutes=10)
            await memory.work()
            assert await user.failures() == []
            if not reached:
                break
    assert at > 10
    rows = living_rows(path, clock())
    assert unfinished_jobs(path) == []
    told = [row for row in rows if row.layer in ("conversation", "long_term")]
    assert all(row.embedded for row in told)
    assert len([row for row in told if row.partition.user != "bob"]) == at * 8
    assert len([row for row in rows if row.layer == "summary"]) >= at


def own_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("recollect-")}


async def own_threads_end(folder: Path | None = None) -> bool:
    """Whether, after a moment, nothing of a closed memory still runs and no file in the folder is open."""
    for _ in range(100):
        if not own_threads() and not (folder and list(folder.glob("*-wal"))):
            return True
        await asyncio.sleep(0.02)
    return False


@pytest.mark.parametrize("late", [False, True], ids=["under way", "just done"])
@pytest.mark.parametrize("files", [1, 2])
async def test_a_cancelled_opening_leaves_nothing_open(tmp_path, files, late):
    path = tmp_path / "memories.db"
    elsewhere = {"working": f"sqlite:///{tmp_path}/working.db"} if files == 2 else {}

    async def stay_for_a_moment() -> None:
        async with opened(path, layers=elsewhere):
            pass

    for at in range(1, SUSPENSIONS_MAX):
        reached = await cancelled_at(stay_for_a_moment(), at, late=late)
        assert await own_threads_end(tmp_path)
        if not reached:
            break
    assert at > files
    async with opened(path, layers=elsewhere) as memory:
        await works_for_others(memory)


async def test_a_cancelled_opening_can_be_repeated_and_the_work_is_done(tmp_path):
    elsewhere = {"working": f"sqlite:///{tmp_path}/working.db"}
    for at in range(1, SUSPENSIONS_MAX):
        memory = opened(tmp_path / "memories.db", worker=True, layers=elsewhere)
        reached = await cancelled_at(memory.start(), at)
        async with memory, asyncio.timeout(60):
            await memory.user("ann").session("chat").add_message("user", "Stay.", id=f"stay{at}")
            while not memory.describe()["jobs"]["done"]:
                await asyncio.sleep(0.01)
        if not reached:
            break
    assert at > 2


@pytest.mark.parametrize("late", [False, True], ids=["under way", "just done"])
async def test_a_cancelled_closing_still_closes(tmp_path, late):
    path = tmp_path / "memories.db"
    for at in range(1, SUSPENSIONS_MAX):
        memory = opened(path, worker=True)
        await memory.start()
        message = await memory.user("ann").session("chat").add_message("user", "Stay.", id=f"stay{at}")
        await memory.user("ann").session("chat").get_context("What stays?")
        reached = await cancelled_at(memory.close(), at, late=late)
        await memory.close()
        assert await own_threads_end()
        assert not Path(f"{path}-wal").exists(), "the last connection was closed"
        assert message.id in {row.id for row in living_rows(path, ManualClock()())}
        if not reached:
            break
    assert at > 1
