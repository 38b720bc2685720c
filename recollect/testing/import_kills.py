"""An import that is killed: at a record that it reads, or next to a commit of what it has read."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from recollect.importers.items import Read, Source
from recollect.importers.kinds import open_source
from recollect.importers.writing import bring_in
from recollect.memory import Memory
from recollect.stores import open_store
from recollect.testing.faults import SteppedStore


async def import_until_killed(kind: str, path: str, url: str, user: str, step: str, at: int) -> None:
    """Import a source until the n-th record is read, or the n-th `before commit` or `after commit` is reached."""
    deadline = _Deadline(step, at)
    store: Any = SteppedStore(await open_store(url), deadline.met)
    async with Memory.open(store, embedder="none", worker=False) as memory:
        with open_source(kind, path) as source:
            await bring_in(_Watched(source, deadline), lambda owner: memory.user(user))


class _Deadline:
    """Kills this process, in a way that nothing can stop, once a step has been reached often enough."""

    def __init__(self, step: str, at: int) -> None:
        self._step, self._left = step, at

    def met(self, step: str) -> None:
        self._left -= step == self._step
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class _Watched:
    """A source that reports every record before yielding it."""

    def __init__(self, source: Source, deadline: _Deadline) -> None:
        self.size, self._source, self._deadline = source.size, source, deadline

    def read(self) -> Iterator[Read]:
        for each in self._source.read():
            self._deadline.met("record")
            yield each
