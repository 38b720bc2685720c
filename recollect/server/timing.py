"""A store whose verbs are timed, and traced if tracing is on."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from recollect.records import Changes

VERBS = frozenset(("commit", "get", "list", "changes", "search", "claim", "forget", "compact"))

Span = Callable[[str], AbstractContextManager[Any]]


class TimedStore:
    """Wraps a store. `observe` gets the name of each verb called and how long it took."""

    def __init__(
        self,
        store: Any,
        observe: Callable[[str, float], None],
        span: Span | None = None,
        committed: Callable[[Changes], None] | None = None,
    ) -> None:
        self._store = store
        self._observe = observe
        self._span = span
        self._committed = committed
        self.abilities: frozenset[str] = store.abilities

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name == "commit" and self._committed is not None:
            found = self._told(found, self._committed)
        if name in VERBS:
            found = self._timed(name, found)
            self.__dict__[name] = found  # so that `__getattr__` runs once per verb
        elif name == "unchanged":
            found = self._timed_look(found)
        return found

    def _told(self, commit: Callable[..., Awaitable[int]], committed: Callable[[Changes], None]) -> Any:
        async def told(changes: Changes, now: int) -> int:
            revision = await commit(changes, now)
            committed(changes)
            return revision

        return told

    def _timed_look(self, look: Callable[..., bool]) -> Callable[..., bool]:
        """Time the look-up `unchanged` as the verb `changes`, which it replaces where there is nothing new to read."""
        observe, span = self._observe, self._span

        def timed(*given: Any) -> bool:
            began = time.perf_counter()
            try:
                with span("store.changes") if span else nullcontext():
                    return look(*given)
            finally:
                observe("changes", time.perf_counter() - began)

        return timed

    def _timed(self, name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        observe, span = self._observe, self._span

        async def timed(*given: Any, **more: Any) -> Any:
            began = time.perf_counter()
            try:
                if span is None:
                    return await verb(*given, **more)
                with span(f"store.{name}"):
                    return await verb(*given, **more)
            finally:
                observe(name, time.perf_counter() - began)

        return timed
