"""A bounded cache of items in use: each has a lifetime that every use renews."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Held(Generic[T]):
    item: T
    made_at: float
    used_at: float


class Alive(Generic[T]):
    """Items by key, at most `most`: the least recently used is evicted. `ended` gets how long each item was in use."""

    def __init__(
        self,
        life_s: float,
        most: int,
        *,
        ended: Callable[[float], None] = lambda _: None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._life_s = life_s
        self._most = most
        self._ended = ended
        self._timer = timer
        self._held: OrderedDict[Hashable, _Held[T]] = OrderedDict()

    def __len__(self) -> int:
        self._retire()
        return len(self._held)

    def use(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the item of a key, made if there is none."""
        self._retire()
        now = self._timer()
        held = self._held.pop(key, None) or _Held(make(), now, now)
        held.used_at = now
        self._held[key] = held
        if len(self._held) > self._most:
            self._end()
        return held.item

    def clear(self) -> None:
        """Drop all items."""
        while self._held:
            self._end()

    def _retire(self) -> None:
        """Drop expired items; items are in the order of use, so those come first."""
        oldest = self._timer() - self._life_s
        while self._held and next(iter(self._held.values())).used_at < oldest:
            self._end()

    def _end(self) -> None:
        _, held = self._held.popitem(last=False)
        self._ended(held.used_at - held.made_at)
