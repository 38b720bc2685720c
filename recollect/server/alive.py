"""What is kept while somebody uses it: each has a life, which every use begins anew, and there are only so many."""

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
    """Items by key. Of too many, the one that was used the longest ago goes; `ended` is told how long each was used."""

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
        """The item of a key, made if there is none."""
        self._retire()
        now = self._timer()
        held = self._held.pop(key, None) or _Held(make(), now, now)
        held.used_at = now
        self._held[key] = held
        if len(self._held) > self._most:
            self._end()
        return held.item

    def clear(self) -> None:
        """Let go of all."""
        while self._held:
            self._end()

    def _retire(self) -> None:
        """The order is that of use, so those whose time is over stand first."""
        oldest = self._timer() - self._life_s
        while self._held and next(iter(self._held.values())).used_at < oldest:
            self._end()

    def _end(self) -> None:
        _, held = self._held.popitem(last=False)
        self._ended(held.used_at - held.made_at)
