"""The synchronous front door says exactly what the async one does."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib.util
import inspect
import multiprocessing
import pickle
import signal
import threading
import time
from dataclasses import fields
from pathlib import Path

import pytest

import recollect
from recollect.errors import Unavailable, ValidationError
from recollect.setting_changes import SettingChanges
from recollect.settings import Settings
from recollect.stores.in_memory import InMemoryStore
from recollect.sync import Memory

ROOT = Path(__file__).resolve().parents[2]


def _generator():
    spec = importlib.util.spec_from_file_location("generate_sync", ROOT / "tools" / "generate_sync.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sync_module_is_what_the_generator_writes():
    assert _generator().is_current(), "run: python tools/generate_sync.py"


@pytest.mark.parametrize("front_door", [recollect.Memory, Memory])
def test_editors_and_type_checkers_know_every_setting_that_open_takes(front_door):
    named = inspect.signature(front_door.open).parameters
    assert named["changes"].annotation == "Unpack[SettingChanges]"
    settings = {field.name: field.type for field in fields(Settings) if field.name not in named}
    known = {name: hint.__forward_arg__ for name, hint in SettingChanges.__annotations__.items()}
    assert known == settings
    assert SettingChanges.__required_keys__ == frozenset()


def test_a_setting_that_may_be_unset_can_be_unset_by_name():
    limited = Settings().with_({"requests_per_day": 100})
    assert limited.with_({"requests_per_day": None}).requests_per_day is None
    with pytest.raises(ValidationError):
        limited.with_({"window_turns": None})


def test_a_conversation_is_remembered_without_await(tmp_path):
    path = tmp_path / "notes.db"
    with Memory.open(path) as memory:
        chat = memory.user("ann").session("monday")
        chat.add_interaction("My bicycle is called Rocinante.", "What a name!")
        chat.working.set({"step": 1})
        assert chat.working.get() == {"step": 1}
    with Memory.open(path) as memory:
        hits = memory.user("ann").search_memory("What is my bicycle called?")
        assert hits[0].content == "My bicycle is called Rocinante."


def test_a_memory_that_is_not_open_says_what_to_do():
    with pytest.raises(Unavailable, match=r"with Memory\.open.*Memory\.open\(\)\.start\(\)"):
        Memory.open("memory://").user("ann")


def test_handles_are_shown_copied_and_refused_by_pickle_as_the_async_ones_are():
    with Memory.open("memory://") as memory:
        chat = memory.user("ann").session("monday")
        assert repr(chat.working) == "<Working of session 'monday', user 'ann', org 'default'>"
        assert copy.deepcopy({"chat": chat, "memory": memory}) == {"chat": chat, "memory": memory}
        with pytest.raises(TypeError, match="open a memory there"):
            pickle.dumps(chat)


def test_a_store_of_ones_own_can_be_passed_instead_of_a_url():
    with Memory.open(InMemoryStore()) as memory:
        assert memory.user("ann").add_memory("kept").content == "kept"


def test_a_memory_that_is_closed_says_so():
    with Memory.open("memory://") as memory:
        ann = memory.user("ann")
    with pytest.raises(Unavailable, match="closed"):
        ann.search_memory("anything")


def test_a_memory_whose_store_fails_to_close_leaves_no_thread_behind(monkeypatch):
    async def fails(store):
        raise Unavailable("the disk has gone", field="store")

    before = {*threading.enumerate()}  # one of another test may end meanwhile
    memory = Memory.open("memory://").start()
    monkeypatch.setattr(InMemoryStore, "close", fails)
    with pytest.raises(Unavailable, match="the disk has gone"):
        memory.close()
    assert {*threading.enumerate()} <= before
    with pytest.raises(Unavailable, match="closed; open it again"):
        memory.user("ann").search_memory("anything")


def test_calling_the_class_says_to_open_it():
    with pytest.raises(ValidationError, match=r"with Memory\.open"):
        Memory()
    with pytest.raises(ValidationError, match=r"with Memory\.open"):
        Memory("memory://")


async def test_async_with_names_the_memory_for_async_code():
    with pytest.raises(ValidationError, match="from recollect import Memory"):
        async with Memory.open("memory://"):
            pass


def test_a_forked_process_is_told_to_open_its_own(tmp_path):
    context = multiprocessing.get_context("fork")
    with Memory.open(tmp_path / "notes.db") as memory:
        memory.user("ann").add_memory("kept by the parent")
        answers = context.SimpleQueue()
        child = context.Process(target=_tell_what_happens, args=(memory, answers), daemon=True)
        child.start()
        child.join(20)
        assert not child.is_alive() and "before a fork" in answers.get()
        assert memory.user("ann").search_memory("parent")
        child.close()


def _tell_what_happens(memory, answers):
    try:
        memory.user("ann").add_memory("said by the child")
    except Unavailable as error:
        answers.put(error.message)


def test_a_call_on_its_own_loop_names_the_async_verb():
    with Memory.open("memory://") as memory:
        chat = memory.user("ann").session("monday")

        async def inside():
            return chat.window()

        with pytest.raises(ValidationError, match=r"await.*Session\.window"):
            memory._running.run("test", inside())


def test_a_call_in_progress_when_the_memory_closes_is_refused_and_does_not_wait_for_ever():
    began, told = threading.Event(), []

    async def never(*_):
        began.set()
        await asyncio.sleep(3_600)

    def read(entities):
        try:
            entities.get("customer", "42", loader=never)
        except Unavailable as error:
            told.append(error.message)

    memory = Memory.open("memory://").start()
    reader = threading.Thread(target=read, args=(memory.entities(),), daemon=True)
    reader.start()
    assert began.wait(10)
    memory.close()
    reader.join(10)
    assert told == ["the memory is closed; open it again, and take a new handle from it"]


def test_two_threads_may_close_a_memory_at_once(monkeypatch):
    closing, may_end, troubles = threading.Event(), threading.Event(), []

    async def slowly(store):
        closing.set()
        await asyncio.to_thread(may_end.wait, 10)

    def close():
        try:
            memory.close()
        except Exception as error:
            troubles.append(error)

    monkeypatch.setattr(InMemoryStore, "close", slowly)
    memory = Memory.open("memory://").start()
    ann = memory.user("ann")
    threads = [threading.Thread(target=close, daemon=True) for _ in range(8)]
    threads[0].start()
    assert closing.wait(10)
    for thread in threads[1:]:
        thread.start()
    with pytest.raises(Unavailable, match="closed"):
        ann.search_memory("anything")
    assert all(thread.is_alive() for thread in threads)
    may_end.set()
    for thread in threads:
        thread.join(10)
    assert troubles == [] and not any(thread.is_alive() for thread in threads)


def test_threads_that_write_while_the_memory_closes_all_end(tmp_path):
    for number in range(5):
        memory = Memory.open(tmp_path / f"{number}.db").start()
        ann, began = memory.user("ann"), threading.Barrier(5)
        threads = [threading.Thread(target=_write_until_closed, args=(ann, began), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        began.wait(10)
        memory.close()
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)


def _write_until_closed(user, began):
    began.wait(10)
    with contextlib.suppress(Unavailable):
        while True:
            user.session("monday").add_message("user", "One more.")


class Endless:
    """An embedder that never answers, and says when it is no longer waited for."""

    name, dimensions = "endless", 4

    def __init__(self) -> None:
        self.entered, self.left = threading.Event(), threading.Event()

    async def embed(self, texts):
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


@pytest.fixture
def interruptible():
    """A process that Ctrl-C interrupts, also if a shell started the tests in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_when(event: threading.Event) -> None:
    """Interrupt the main thread, as Ctrl-C does, once this has happened."""

    def interrupt() -> None:
        event.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_call_ends_and_the_memory_can_be_used_on():
    embedder = Endless()
    with Memory.open("memory://", embedder=embedder, worker=False) as memory:
        memory.user("ann").session("s").add_message("user", "Stay.")
        interrupt_when(embedder.entered)
        with pytest.raises(KeyboardInterrupt):
            memory.work()
        assert embedder.left.wait(10), "its work does not go on unseen"
        assert len(memory.user("ann").session("s").window()) == 1


@pytest.mark.usefixtures("interruptible")
def test_a_call_that_is_interrupted_while_it_is_handed_over_ends_as_well(monkeypatch):
    embedder, hand_over = Endless(), asyncio.run_coroutine_threadsafe

    def slowly(call, loop):
        handed = hand_over(call, loop)
        if embedder.entered.wait(0.2):
            time.sleep(60)  # until the interrupt
        return handed

    with Memory.open("memory://", embedder=embedder, worker=False) as memory:
        memory.user("ann").session("s").add_message("user", "Stay.")
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", slowly)
        interrupt_when(embedder.entered)
        with pytest.raises(KeyboardInterrupt):
            memory.work()
        monkeypatch.undo()
        assert embedder.left.wait(10), "its work does not go on unseen"
        assert len(memory.user("ann").session("s").window()) == 1


def test_an_interrupt_after_another_thread_closed_the_memory_is_an_interrupt(monkeypatch):
    memory = Memory.open("memory://", worker=False).start()
    user = memory.user("ann")

    def interrupted(call, loop):
        call.close()
        loop.call_soon_threadsafe(loop.stop)
        while not loop.is_closed():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        user.add_memory("Ann was here.")


def test_a_call_that_is_interrupted_before_it_is_handed_over_never_runs(monkeypatch):
    def interrupted(call, loop):
        call.close()
        raise KeyboardInterrupt

    with Memory.open("memory://", worker=False) as memory:
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            memory.user("ann").add_memory("Ann was here.")
        monkeypatch.undo()
        assert memory.user("ann").list_memories() == ([], None)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_start_leaves_nothing_open(tmp_path):
    started = threading.Event()

    class Late(recollect.Memory):
        async def start(self):
            await super().start()
            started.set()
            time.sleep(0.3)  # the interrupt comes when all is open, and before anybody can be told
            return self

    memory = Memory(Late.open(tmp_path / "memories.db"))
    interrupt_when(started)
    with pytest.raises(KeyboardInterrupt):
        memory.start()
    assert not list(tmp_path.glob("*-wal")), "the file is closed"
    assert repr(memory) == "<Memory closed>"
    with memory:
        memory.user("ann").add_memory("Ann is back.")
