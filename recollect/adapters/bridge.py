"""From a framework to a memory, which lives on one event loop, for callers with `await` and without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from recollect import memory, session, sync, user
from recollect.errors import Unavailable, ValidationError
from recollect.records import Place

T = TypeVar("T")
MemoryHandle = memory.Memory | sync.Memory
UserHandle = user.User | sync.User
SessionHandle = session.Session | sync.Session

_FORMS = {
    "memory": (memory.Memory, sync.Memory),
    "user": (user.User, sync.User),
    "session": (session.Session, sync.Session),
}
_EXAMPLES = {
    "memory": "one from Memory.open()",
    "user": 'memory.user("ann")',
    "session": 'memory.user("ann").session()',
}

WAIT_S = 60.0
"""How long to wait for another loop, which may be blocked by the very call that waits."""
HELD_UP = "the memory's event loop did not answer; is this call blocking it? Use the async form"


def checked(value: T, kind: str) -> T:
    """The memory, user or session given to an adapter; anything else is an error now, not at the first use."""
    if not isinstance(value, _FORMS[kind]):
        raise ValidationError(f"must be a {kind}, such as {_EXAMPLES[kind]}, not a {type(value).__name__}", field=kind)
    return value


class Bridge:
    """Runs calls on a handle where its memory lives: on this loop, on another, or in the background.

    A handle of `recollect.Memory` belongs to the loop on which the memory was opened, wherever the bridge was
    created; one of `recollect.sync.Memory` brings its own loop.
    """

    async def wait(self, handle: Any, act: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do something with the async form of a handle, without blocking the caller's loop."""
        if _is_sync(handle):
            return await asyncio.to_thread(self.run, handle, act)
        home = _home(handle)
        if home is None or home is asyncio.get_running_loop() or not home.is_running():
            return await act(handle)
        answer = asyncio.run_coroutine_threadsafe(act(handle), home)
        try:
            async with asyncio.timeout(WAIT_S):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            raise Unavailable(HELD_UP) from None

    def run(self, handle: Any, act: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do something with the async form of a handle, from code without `await`."""
        if _is_sync(handle):
            result: T = handle._running.run(type(handle).__name__, act(handle._inner))
            return result
        home = _home(handle)
        if home is None or not home.is_running():
            raise ValidationError("open the memory with recollect.sync to use it without `await`", field="memory")
        if home is asyncio._get_running_loop():
            raise ValidationError("called on the loop of the memory itself; use the async form", field="memory")
        answer = asyncio.run_coroutine_threadsafe(act(handle), home)
        try:
            return answer.result(WAIT_S)
        except TimeoutError:
            answer.cancel()
            raise Unavailable(HELD_UP) from None


def also_kept(handle: SessionHandle, place: Place) -> None:
    """Tell the memory of a session where else its messages are held, so that forgetting reaches them there."""
    inner: session.Session = handle._inner if isinstance(handle, sync.Session) else handle
    inner._flow.ledger.places[inner._scope.partition, place.name] = place


def _home(handle: Any) -> asyncio.AbstractEventLoop | None:
    """The loop of a handle's memory; None if the memory is not open."""
    flow = handle._flow
    return flow.loop if flow is not None else None


def _is_sync(handle: Any) -> bool:
    return isinstance(handle, sync.Memory | sync.User | sync.Session)
