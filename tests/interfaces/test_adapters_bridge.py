"""Adapters reach a memory from any loop and any thread, and block no loop while they wait."""

from __future__ import annotations

import asyncio
import importlib
import threading
import time

import pytest

from recollect import Memory, sync
from recollect.adapters import extra
from recollect.adapters.bridge import Bridge, checked
from recollect.errors import Unavailable, ValidationError


async def ident(user):
    return user.id, threading.get_ident()


async def test_on_its_own_loop_a_memory_is_called_directly(memory):
    assert await Bridge().wait(memory.user("ann"), ident) == ("ann", threading.get_ident())


async def test_from_another_loop_the_memorys_own_loop_does_the_work(memory):
    bridge, here = Bridge(), threading.get_ident()
    called = await asyncio.to_thread(lambda: asyncio.run(bridge.wait(memory.user("ann"), ident)))
    assert called == ("ann", here)


async def test_from_a_thread_the_memorys_own_loop_does_the_work(memory):
    bridge = Bridge()
    assert await asyncio.to_thread(bridge.run, memory.user("ann"), ident) == ("ann", threading.get_ident())


async def test_a_bridge_made_in_a_thread_finds_the_memorys_loop(memory):
    user, here = memory.user("ann"), threading.get_ident()
    assert await asyncio.to_thread(lambda: Bridge().run(user, ident)) == ("ann", here)
    assert await asyncio.to_thread(lambda: asyncio.run(Bridge().wait(user, ident))) == ("ann", here)


async def test_the_callers_loop_keeps_running_while_a_sync_memory_works():
    async def slowly(user):
        time.sleep(0.2)  # on the memory's own loop, not on ours
        return user.id

    with sync.Memory.open("memory://") as memory:
        waiting = asyncio.ensure_future(Bridge().wait(memory.user("ann"), slowly))
        ticks = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert await waiting == "ann" and ticks > 5


def test_a_memory_whose_loop_has_ended_says_what_to_do():
    async def made():
        async with Memory.open("memory://") as memory:
            return memory.user("ann"), Bridge()

    user, bridge = asyncio.run(made())
    with pytest.raises(ValidationError, match=r"recollect\.sync"):
        bridge.run(user, ident)


async def test_a_loop_that_blocks_the_one_it_waits_for_is_reported(memory, monkeypatch):
    monkeypatch.setattr("recollect.adapters.bridge.WAIT_S", 0.1)
    bridge, user = Bridge(), memory.user("ann")
    other = threading.Thread(target=lambda: found.append(_error(bridge, user)))
    found: list[BaseException] = []
    other.start()
    other.join()  # blocks our loop, which the other thread waits for
    assert isinstance(found[0], Unavailable)


def test_a_framework_that_is_not_installed_is_named_with_what_to_install():
    told = r'no_such is missing: pip install "recollect\[openai-agents\]"'
    with pytest.raises(ModuleNotFoundError, match=told), extra("openai-agents"):
        importlib.import_module("no_such")


def _error(bridge, user):
    try:
        asyncio.run(bridge.wait(user, ident))
    except Unavailable as error:
        return error
    return None


async def test_an_adapter_refuses_what_is_no_handle_when_it_is_made(memory):
    user = memory.user("ann")
    session = user.session("chat")
    for kind, handle in {"memory": memory, "user": user, "session": session}.items():
        assert checked(handle, kind) is handle
    for kind, wrong in {"memory": "sqlite:///x.db", "user": session, "session": user}.items():
        with pytest.raises(ValidationError, match=f"must be a {kind}, such as") as refused:
            checked(wrong, kind)
        assert refused.value.field == kind


def test_every_adapter_of_a_handle_checks_it():
    from recollect.adapters import anthropic, langchain, langgraph, openai_agents, pydantic_ai  # noqa: PLC0415

    for make in (
        anthropic.MemoryTool,
        langchain.ChatMessageHistory,
        langchain.MemoryMiddleware,
        langgraph.Store,
        lambda wrong: openai_agents.Session(wrong, "chat"),
        pydantic_ai.Store,
    ):
        with pytest.raises(ValidationError, match="such as"):
            make("ann")
