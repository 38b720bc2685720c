"""The synchronous front door says exactly what the async one does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from recollect.errors import Unavailable, ValidationError
from recollect.sync import Memory

ROOT = Path(__file__).resolve().parents[2]


def _generator():
    spec = importlib.util.spec_from_file_location("generate_sync", ROOT / "tools" / "generate_sync.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sync_is_what_the_generator_writes():
    assert _generator().is_current(), "run: python tools/generate_sync.py"


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
    with pytest.raises(Unavailable, match=r"with Memory\.open"):
        Memory.open("memory://").user("ann")


def test_a_call_on_its_own_loop_names_the_async_verb():
    with Memory.open("memory://") as memory:
        chat = memory.user("ann").session("monday")

        async def inside():
            return chat.window()

        with pytest.raises(ValidationError, match=r"await.*Session\.window"):
            memory._running.run("test", inside())
