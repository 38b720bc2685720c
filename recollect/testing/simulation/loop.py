"""An event loop on which a seed decides everything: the order of what is ready, what a thread takes, and the time.

Time stands still while anything can run and then jumps to the next timer, so a day takes as long as what is done in it.
What belongs to a process that was killed is never run again: it is dropped as it is, not cancelled.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

STEP_S = 1e-6
"""How much time each step takes: so that of any two steps one is earlier."""
THREAD_S = 0.05
"""How long a thread may take at most."""

lives_in: ContextVar[Life | None] = ContextVar("lives_in", default=None)
"""The process that a step belongs to; None for what stands outside of all, such as the store's server."""


class Stuck(Exception):
    """Nothing can ever happen again, but somebody still waits."""


class Life:
    """One run of a process, from its start until it is closed or killed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = False
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._kept: list[asyncio.Task[Any]] = []

    def kill(self) -> None:
        """End it at once. Its tasks are kept as they are, so that not even their `finally` blocks run."""
        self.ended = True
        self._kept = [task for task in self.tasks if not task.done()]

    def running(self) -> list[asyncio.Task[Any]]:
        """The tasks that have not ended."""
        return [task for task in self.tasks if not task.done()]

    def bury(self) -> None:
        """Let go of what was kept, when nobody looks any more."""
        for task in self._kept:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coro = task.get_coro()  # from Python 3.12 on, a task may have none
            with suppress(BaseException):
                if coro is not None:
                    coro.close()
        self._kept.clear()


class _Task(asyncio.Task[T]):
    """Hashed by a number instead of by its place in memory, so that sets of tasks are always in the same order."""

    def __init__(self, coro: Any, *, number: int, **more: Any) -> None:
        self._number = number
        super().__init__(coro, **more)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[T]):
    """The same for futures."""

    def __init__(self, *, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SeededLoop(asyncio.BaseEventLoop):
    """A loop without a system below it: no files, no sockets, no threads, no clock."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._now_s = 0.0
        self._numbers = 0
        self.steps = 0
        self.noticed: list[str] = []
        """What would have been logged because nobody waits for it."""
        self.set_task_factory(self._make_task)
        self.set_exception_handler(lambda _, context: self._notice(context))

    def time(self) -> float:
        return self._now_s

    def create_future(self) -> asyncio.Future[Any]:
        self._numbers += 1
        return _Future(number=self._numbers, loop=self)

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        **more: Any,
    ) -> asyncio.Task[T]:
        self._numbers += 1
        task: _Task[T] = _Task(coro, number=self._numbers, loop=loop, **more)
        context: Context | None = more.get("context")
        life = context.get(lives_in) if context is not None else lives_in.get()
        if life is not None:
            life.tasks.add(task)
        return task

    def _notice(self, context: dict[str, Any]) -> None:
        self.noticed.append(f"{context.get('message')} {context.get('exception')!r}")

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """A thread takes some time, and while it does others run; what it does is done in one step."""
        ended: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if ended.cancelled():
                return
            try:
                ended.set_result(func(*args))
            except Exception as error:
                ended.set_exception(error)

        self.call_later(self._chance.random() * THREAD_S, run)
        return ended

    def _run_once(self) -> None:
        self._take_due()
        while not self._ready:
            if not self._scheduled:
                raise Stuck("nothing can ever happen again, but somebody still waits")
            self._now_s = max(self._now_s, self._scheduled[0].when())
            self._take_due()
        self._now_s += STEP_S
        self.steps += 1
        if len(self._ready) > 1:
            self._ready.rotate(-self._chance.randrange(len(self._ready)))
        handle = self._ready.popleft()
        if not handle.cancelled() and not _is_over(handle):
            handle._run()

    def _take_due(self) -> None:
        while self._scheduled and (self._scheduled[0].cancelled() or self._scheduled[0].when() <= self._now_s):
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            if not timer.cancelled() and not _is_over(timer):
                self._ready.append(timer)

    # What the base class leaves to others.

    _ready: Any
    _scheduled: list[Any]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, events: object) -> None:
        pass


def _is_over(handle: Any) -> bool:
    life: Life | None = handle._context.get(lives_in)
    return life is not None and life.ended


def at_once(coro: Coroutine[Any, Any, T]) -> T:
    """The result of a call that never waits, such as one to a store in memory."""
    try:
        coro.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("this call had to wait")
