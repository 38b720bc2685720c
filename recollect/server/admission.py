"""Admission under overload: callers share fairly, and nobody waits for long.

A request takes a *place* when its head is read and keeps it until it is answered; for the work itself, once
its body has arrived, it takes a *turn*, of which there are few. A request that finds no turn waits in a line that
is bounded in length and time, and the next turn goes to the caller that has the fewest. Of places and of the line,
a caller may have at most as many as are still free: a lone caller gets half, several get equal shares, and one
more always finds room.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from recollect.errors import Busy
from recollect.server.errors import busy

PLACES_MAX = 512
"""Requests being read, waiting, being worked on or answered at a time: it bounds memory."""
TURNS_MAX = 16
"""Requests being worked on at a time. More would make all of them slower and none faster."""
LINE_MAX = 440
"""Requests waiting for their turn, or on their way to it. One caller has at most half of them."""
LINE_SHORT = 24
"""The line of a caller whose line overflowed: if many are refused anyway, a long line only delays the others."""
CALM_S = 3.0
"""After this time the line may be long again. If it overflows at once, the last to join are turned away again."""
WAIT_S = 15.0
"""A request that waited this long for a turn is told to retry: most callers would not wait much longer."""
LONG_MAX = 2
"""Calls of one org at a time of those that may take a minute, such as an import."""
ALWAYS = ("/health", "/ready")
"""Paths that are answered however much there is to do."""
VISIT = "recollect.visit"
"""Key in a request's scope for its visit."""
IN_LINE = "recollect.in_line"
"""Key in the scope of a request that is already in line, for the caller it queues as."""

_BEARER = re.compile(rb"\s*bearer\s+(\S+)\s*\Z", re.IGNORECASE)


def caller(authorization: bytes) -> bytes:
    """The caller that a request claims to be from. All requests without a key count as one caller.

    >>> caller(b"Bearer rk_1"), caller(b"BEARER   rk_1 "), caller(b"")
    (b'rk_1', b'rk_1', b'')
    """
    found = _BEARER.match(authorization)
    return found[1] if found else b""


class Admission:
    """The places, the turns and the line of one process."""

    def __init__(
        self,
        *,
        places: int = PLACES_MAX,
        turns: int = TURNS_MAX,
        line: int = LINE_MAX,
        wait_s: float = WAIT_S,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = _Shared(places)
        self._turns = _Shared(turns)
        self._line = _Shared(line)
        self._wait_s = wait_s
        self._timer = timer
        self._waiting: dict[bytes, deque[asyncio.Future[None]]] = {}
        self._overflowed: dict[bytes, float] = {}

    def take_place(self, who: bytes) -> None:
        """Let a request in, or refuse it with `Busy`."""
        if not self._places.has_room(who):
            raise busy()
        self._places.take(who)

    def give_place_back(self, who: bytes) -> None:
        """Free the place of a request that was answered."""
        self._places.give_back(who)

    def join_line(self, who: bytes) -> bool:
        """Join the line for a turn. Returns whether there was room."""
        now = self._timer()
        if not (self._line.has_room(who) and self._places.has_room(who)):
            self._overflowed.pop(who, None)
            self._overflowed[who] = now
            self._forget_calm(now)
            self._shorten(who)
            return False
        is_calm = now - self._overflowed.get(who, -CALM_S) >= CALM_S
        if not is_calm and self._line.of(who) >= LINE_SHORT:
            # Not a new overflow: otherwise a caller that retries at once would keep the line short for ever.
            return False
        self._line.take(who)
        return True

    def _forget_calm(self, now: float) -> None:
        """Forget overflows of callers that are calm again: callers name themselves, so there may be any number."""
        while now - self._overflowed[first := next(iter(self._overflowed))] >= CALM_S:
            del self._overflowed[first]

    def leave_line(self, who: bytes) -> None:
        """Leave the line, with a turn or without."""
        self._line.give_back(who)

    async def take_turn(self, who: bytes) -> None:
        """Wait in line until the work of a request can begin. Raises `Busy` if that takes too long."""
        if not self._turns.are_gone:
            self._turns.take(who)
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(called)
        try:
            async with asyncio.timeout(self._wait_s):
                await called
        except (TimeoutError, asyncio.CancelledError) as error:
            self._step_out(who, called)
            if called.done() and not called.cancelled() and called.exception() is None:
                self.give_turn_back(who)  # it came at that very moment
            if isinstance(error, TimeoutError):
                raise busy() from None
            raise

    def _step_out(self, who: bytes, called: asyncio.Future[None]) -> None:
        """Remove a request that gave up: while no turn comes back, nothing else would, and they could pile up."""
        line = self._waiting.get(who)
        if line is not None and called in line:
            line.remove(called)
            if not line:
                del self._waiting[who]

    def _shorten(self, who: bytes) -> None:
        """Turn away the caller's requests that joined last."""
        line = self._waiting.get(who) or deque()
        while len(line) > LINE_SHORT:
            called = line.pop()
            if not called.done():
                called.set_exception(busy())

    def give_turn_back(self, who: bytes) -> None:
        """The work is done: pass the turn to the waiting caller that has the fewest."""
        self._turns.give_back(who)
        while self._waiting:
            # Of those with equally few, the one served longest ago comes first.
            following = min(self._waiting, key=self._turns.of)
            line = self._waiting.pop(following)
            called = line.popleft()
            if line:
                self._waiting[following] = line
            if not called.done():  # otherwise it gave up waiting
                self._turns.take(following)
                called.set_result(None)
                return


class Visit:
    """One request on its way through: it has a place while entered with `with`, and a turn from `begin` to `rest`."""

    __slots__ = ("_admission", "_has_begun", "_has_turn", "_is_in_line", "_who")

    def __init__(self, admission: Admission, who: bytes, *, is_in_line: bool = False) -> None:
        """`is_in_line`: it has already joined the line."""
        self._admission = admission
        self._who = who
        self._is_in_line = is_in_line
        self._has_begun = False
        self._has_turn = False

    def __enter__(self) -> Visit:
        try:
            self._admission.take_place(self._who)
        except Busy:
            self._leave_line()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_line()
        self.rest()
        self._admission.give_place_back(self._who)

    async def begin(self) -> None:
        """Wait for the request's one turn. Raises `Busy` if that would take too long."""
        if self._has_begun:
            return
        self._has_begun = True
        self._is_in_line = self._is_in_line or self._admission.join_line(self._who)
        if not self._is_in_line:
            raise busy()
        try:
            await self._admission.take_turn(self._who)
        finally:
            self._leave_line()
        self._has_turn = True

    def _leave_line(self) -> None:
        if self._is_in_line:
            self._is_in_line = False
            self._admission.leave_line(self._who)

    def rest(self) -> None:
        """Give the turn back: from here on the request waits for others, and nobody waits for it."""
        if self._has_turn:
            self._has_turn = False
            self._admission.give_turn_back(self._who)


class Long:
    """Calls that may take a minute. An org has few of them at a time, and they hold no turn meanwhile."""

    def __init__(self, *, most: int = LONG_MAX, wait_s: float = WAIT_S) -> None:
        self._most, self._wait_s = most, wait_s
        self._free: dict[str, asyncio.Semaphore] = {}
        self._here: Counter[str] = Counter()

    @asynccontextmanager
    async def one(self, org: str) -> AsyncIterator[None]:
        """One such call of an org, after those before it. Raises `Busy` if these take too long."""
        free = self._free.setdefault(org, asyncio.Semaphore(self._most))
        self._here[org] += 1
        try:
            try:
                async with asyncio.timeout(self._wait_s):
                    await free.acquire()
            except TimeoutError:
                raise Busy("too much of this kind is under way for the org; try again", field="org") from None
            try:
                yield
            finally:
                free.release()
        finally:
            self._here[org] -= 1
            if not self._here[org]:
                del self._here[org], self._free[org]


class _Shared:
    """A limited number of things, and how many of them each caller has."""

    __slots__ = ("_by", "_left")

    def __init__(self, most: int) -> None:
        self._left = most
        self._by: Counter[bytes] = Counter()

    @property
    def are_gone(self) -> bool:
        return self._left <= 0

    def of(self, who: bytes) -> int:
        return self._by[who]

    def has_room(self, who: bytes) -> bool:
        """Whether a caller may have one more: it never has more than are still free."""
        return self._by[who] < self._left

    def take(self, who: bytes) -> None:
        self._left -= 1
        self._by[who] += 1

    def give_back(self, who: bytes) -> None:
        self._left += 1
        self._by[who] -= 1
        if not self._by[who]:
            del self._by[who]
