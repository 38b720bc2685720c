"""Several processes behind one socket and on one store: started together, replaced if one dies, stopped together."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from recollect.errors import RecollectError, Unavailable, ValidationError
from recollect.server import heaps
from recollect.server.app import address_of, check_host, listening, serve, serve_on
from recollect.server.metrics import Shared
from recollect.server.sample import load
from recollect.server.seats import secret_of
from recollect.server.service import Service
from recollect.settings import Settings
from recollect.stores.contract import SHARED
from recollect.stores.loops import loop_for

STOP_S = 10.0
"""How long processes may take to stop; a single process needs less."""
SOON_S = 5.0
DEATHS_MAX = 5
"""How many processes in a row may die within `SOON_S` of their start before giving up: more would die as well."""
CANNOT_SERVE = 4
"""The exit status of a process that logged why it cannot serve; commands whose store is unavailable use it too."""
LOOK_S = 0.5
CANNOT_SHARE = "on Windows a server is one process, because several cannot wait at one socket there"

log = logging.getLogger("recollect.server")


def log_requests() -> None:
    """Log one line of JSON for each request on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    requests = logging.getLogger("recollect.server.requests")
    requests.addHandler(handler)
    requests.setLevel(logging.INFO)
    requests.propagate = False


def serve_with(
    url: str | None,
    settings: Settings,
    host: str,
    port: int,
    *,
    told: Callable[[str, bool], None],
    sample: bool = False,
) -> None:
    """Serve with as many processes as the settings say, until a signal. A single one is this process itself."""
    if settings.workers == 1:
        heaps.share_one()
        log_requests()
        loop = loop_for([settings.url if url is None else url, *settings.layers.values()])
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(serve(Service(url, settings=settings), host, port, told=told, sample=sample))
        return
    if sys.platform == "win32":
        raise ValidationError(CANNOT_SHARE, field="workers")
    # A sign-in at one of the processes must be valid at all of them.
    settings = settings.with_({"console_secret": secret_of(settings.console_secret)})
    needs_keys = asyncio.run(_looked_at(url, settings, sample))
    check_host(host, needs_keys)
    listener = listening(host, port)
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder, listener:
        crew = Crew(settings.workers, lambda: _process(listener, url, settings, Path(folder)))
        with crew.on_signals():
            told(address_of(listener), needs_keys)
            crew.run()


async def _looked_at(url: str | None, settings: Settings, sample: bool) -> bool:
    """Open the store once before the others do, which creates and migrates it. Returns whether there are keys."""
    async with Service(url, settings=settings.with_({"worker": False})) as service:
        for name, store in service.stores.items():
            if SHARED not in store.abilities:
                told = f"several processes cannot share this store ({name}); use one process, or a shareable store"
                raise ValidationError(told, field="workers")
        if sample:
            await load(service.memory, "default", service.clock())
        return await service.keys.exist()


class Crew:
    """Processes that do the same work."""

    def __init__(self, count: int, start: Callable[[], BaseProcess]) -> None:
        self._count = count
        self._start = start
        self._alive: dict[BaseProcess, float] = {}
        self._deaths = 0
        self._stopping = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Stop when this process is asked to."""
        before = {name: signal.signal(name, self._stop) for name in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    def run(self) -> None:
        """Keep them alive until a signal, then let them stop. No more than `STOP_S` after the signal, none is left."""
        try:
            while not self._stopping:
                while len(self._alive) < self._count:
                    self._alive[self._start()] = time.monotonic()
                self._bury(LOOK_S)
        finally:
            self._dismiss()

    def _bury(self, wait_s: float) -> None:
        wait([process.sentinel for process in self._alive], wait_s)
        for process in [each for each in self._alive if not each.is_alive()]:
            lived_s = time.monotonic() - self._alive.pop(process)
            if self._stopping:
                continue
            log.error("a server process ended with %s; another replaces it", process.exitcode)
            # On a busy machine, a process may take longer than that to find out that it cannot serve.
            is_soon = lived_s < SOON_S or process.exitcode == CANNOT_SERVE
            self._deaths = self._deaths + 1 if is_soon else 0
            if self._deaths > DEATHS_MAX:
                raise Unavailable("processes end as soon as they start; the log says why", field="workers")

    def _dismiss(self) -> None:
        self._stopping = True
        deadline = time.monotonic() + STOP_S
        for process in self._alive:
            process.terminate()
        while self._alive and time.monotonic() < deadline:
            self._bury(LOOK_S)
        for process in self._alive:
            process.kill()
            process.join()

    def _stop(self, _: int, __: FrameType | None) -> None:
        self._stopping = True


def _process(listener: socket.socket, url: str | None, settings: Settings, folder: Path) -> BaseProcess:
    # Spawned, not forked: threads of libraries do not survive a fork.
    process = get_context("spawn").Process(target=_serve, args=(listener, url, settings, folder), daemon=False)
    process.start()
    return process


def _serve(listener: socket.socket, url: str | None, settings: Settings, folder: Path) -> None:
    """What one of the processes does."""
    heaps.share_one()
    log_requests()
    try:
        asyncio.run(_serve_until_alone(listener, url, settings, folder))
    except RecollectError as error:
        log.error("a server process cannot serve: %s", error)
        os._exit(CANNOT_SERVE)
    # Nothing is left to do, and the parent has waited long enough for this process.
    os._exit(0)


async def _serve_until_alone(listener: socket.socket, url: str | None, settings: Settings, folder: Path) -> None:
    stop = asyncio.Event()
    parent = parent_process()
    if parent is not None and isinstance(parent.sentinel, int):
        asyncio.get_running_loop().add_reader(parent.sentinel, stop.set)
    async with Service(url, settings=settings, shared=Shared(folder)) as service:
        await serve_on(service, listener, stop)
