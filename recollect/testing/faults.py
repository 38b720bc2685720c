"""Faults on demand: processes that end anywhere, disks that fail, calls that are cancelled.

Everything here is small enough to be trusted, and none of it reaches into what it breaks: a fault
comes from where it comes in real life, from the process, the disk or the caller.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import inspect
import multiprocessing
import os
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Generator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, TypeVar

from recollect.stores.contract import Store

T = TypeVar("T")
Errand = Callable[..., Coroutine[Any, Any, None]]

KILLED = 137
"""The exit code of a process that ended itself the way a kill ends it."""
METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
PRELOADED = [
    "pytest", "recollect.testing.scenes", "recollect.testing.drills", "recollect.testing.conformance",
    "recollect.flow", "recollect.branches", "recollect.embedders.models", "recollect.enrich.rules",
    "recollect.stores.sqlite", "recollect.stores.postgres", "recollect.stores.redis", "recollect.stores.cosmos",
]  # fmt: skip
"""What errands need, including what a memory loads only on opening: loaded once, before the fork, if it is there."""


# ── processes ────────────────────────────────────────────────────────────────────────────────────


def start(errand: Errand, *arguments: object) -> BaseProcess:
    """Run an errand in a process of its own, forked from a clean one: ours would pass its connections on."""
    context: Any = multiprocessing.get_context(METHOD)
    program = getattr(sys.modules["__main__"].__spec__, "name", "")  # which each process loads itself
    context.set_forkserver_preload([name for name in PRELOADED if name != program])
    process: BaseProcess = context.Process(target=_run, args=(errand, *arguments), daemon=True)
    process.start()
    return process


def _run(errand: Errand, *arguments: object) -> None:
    asyncio.run(errand(*arguments))


def ended(process: BaseProcess, within_s: float = 240) -> int | None:
    """The exit code of a process, once it has one."""
    process.join(within_s)
    return process.exitcode


def die() -> None:
    """End this process as a kill does: no handler runs, nothing is flushed, no connection is closed."""
    os._exit(KILLED)


# ── stores ───────────────────────────────────────────────────────────────────────────────────────


class SteppedStore:
    """A store that calls `step` before and after each of its verbs: the places where a fault can strike."""

    def __init__(self, store: Store, step: Callable[[str], None]) -> None:
        self._store = store
        self._step = step

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def stepped(*arguments: Any, **named: Any) -> Any:
            self._step(f"before {name}")
            answer = await verb(*arguments, **named)
            self._step(f"after {name}")
            return answer

        return stepped


class DieAt:
    """A step that ends the process the n-th time."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __call__(self, name: str) -> None:
        self._left -= 1
        if self._left == 0:
            die()


# ── disks ────────────────────────────────────────────────────────────────────────────────────────


class _Vfs(ctypes.Structure):
    """How SQLite reaches the operating system, as sqlite3.h lays it out."""

    _fields_ = [
        ("version", ctypes.c_int), ("file_size", ctypes.c_int), ("path_max", ctypes.c_int),
        ("next", ctypes.c_void_p), ("name", ctypes.c_char_p), ("data", ctypes.c_void_p),
        *((f"method_{n}", ctypes.c_void_p) for n in range(13)),
        ("set_system_call", ctypes.c_void_p), ("get_system_call", ctypes.c_void_p),
        ("next_system_call", ctypes.c_void_p),
    ]  # fmt: skip


_Write = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, use_errno=True
)
_SetCall = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_GetCall = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


class FailingDisk:
    """Stands between this process's SQLite and the system call that writes, and counts.

    The n-th write hits the fault: `die` (the process ends before it), `tear` (half of it is
    written, then the process ends), `EIO` or `ENOSPC` (it fails, and with `lasting` so do all after it).
    It stays in place until `remove`. `works` tells whether this Python's SQLite can be reached this way.
    """

    _in_place: list[FailingDisk] = []  # SQLite holds no reference to what it calls

    def __init__(self, at: int = 0, fault: str = "die", *, lasting: bool = False) -> None:
        self.at, self.fault, self.lasting = at, fault, lasting
        self.writes = 0
        library = ctypes.CDLL("libsqlite3.so.0")
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        self._vfs = library.sqlite3_vfs_find(None)
        self._name = b"pwrite64" if self._call(b"pwrite64") else b"pwrite"
        self._real = _Write(self._call(self._name) or 0)
        self._ours = _Write(self._write)
        self._set(ctypes.cast(self._ours, ctypes.c_void_p))
        self._in_place.append(self)

    def remove(self) -> None:
        """Let writes pass again, uncounted."""
        self._set(None)
        self._in_place.remove(self)

    def _call(self, name: bytes) -> int | None:
        found: int | None = _GetCall(self._vfs.contents.get_system_call)(self._vfs, name)
        return found

    def _set(self, call: ctypes.c_void_p | None) -> None:
        _SetCall(self._vfs.contents.set_system_call)(self._vfs, self._name, call)

    def _write(self, file: int, data: int, size: int, offset: int) -> int:
        self.writes += 1
        if self.at and (self.writes == self.at or (self.lasting and self.writes > self.at)):
            if self.fault == "tear":
                self._real(file, data, size // 2, offset)
            if self.fault in ("die", "tear"):
                die()
            ctypes.set_errno(getattr(errno, self.fault))
            return -1
        written: int = self._real(file, data, size, offset)
        return written

    @classmethod
    def works(cls) -> bool:
        """Whether the SQLite of this Python can be reached: not if it is built in."""
        try:
            disk = cls()
        except OSError:
            return False
        with tempfile.TemporaryDirectory() as folder:
            connection = sqlite3.connect(Path(folder) / "probe.db")
            connection.execute("create table probe (id)")
            connection.close()
        disk.remove()
        return disk.writes > 0


# ── callers ─────────────────────────────────────────────────────────────────────────────────────


class CancelledAt(Generic[T]):
    """Awaits a call and cancels the task the n-th time that it suspends.

    The call is cancelled while what it waits for is in progress or, with `late`, when that is done
    but the call does not know it yet.
    """

    def __init__(self, call: Coroutine[Any, Any, T], at: int, *, late: bool = False) -> None:
        self._call = call
        self._at = at
        self._late = late
        self.suspended = 0

    def __await__(self) -> Generator[Any, Any, T]:
        resume: Callable[[], Any] = lambda: self._call.send(None)  # noqa: E731  (replaced in the loop below)
        while True:
            try:
                waits_for = resume()
            except StopIteration as end:
                answer: T = end.value
                return answer
            self.suspended += 1
            if self.suspended == self._at:
                self._cancel(waits_for)
            try:
                yield waits_for
                resume = lambda: self._call.send(None)  # noqa: E731
            except BaseException as error:
                resume = _thrower(self._call, error)

    def _cancel(self, waits_for: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._late and waits_for is not None:
            waits_for.add_done_callback(lambda _: self._strike(task))
        else:
            self._strike(task)

    def _strike(self, task: asyncio.Task[Any]) -> None:
        task.cancel()


def _thrower(call: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: call.throw(error)


async def cancelled_at(call: Coroutine[Any, Any, Any], at: int, *, late: bool = False) -> bool:
    """Run a call that is cancelled at its n-th suspension. True if it got that far, False if it ended before."""

    async def awaited(driven: Awaitable[Any]) -> Any:
        return await driven

    driven = CancelledAt(call, at, late=late)
    task = asyncio.create_task(awaited(driven))
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is not None:
        raise task.exception() or AssertionError
    return driven.suspended >= at
