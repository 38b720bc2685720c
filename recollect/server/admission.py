"""Who is let in when there is more to do than can be done: callers share fairly, and nobody waits for long.

A request takes a *place* when its head is read and keeps it until it is answered; for the work itself, once
its body is there, it takes a *turn*, of which there are few. Whoever finds no turn waits, not too many and
not too long, and the next turn goes to the caller who has the fewest. Of places and of the line, a caller has
at most as many as are still free: one alone gets half, several get equal parts, and one more always finds room.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType

from recollect.errors import Busy

PLACES_MAX = 512
"""Requests that are read, wait, are worked on or answered at a time: a bound for memory."""
TURNS_MAX = 16
"""Requests that are worked on at a time. More would make all of them slower, and none quicker."""
LINE_MAX = 440
"""Requests that wait for their turn, or are on their way to it. One caller has at most half of them."""
LINE_SHORT = 24
"""Of a caller whose line overflows: if many are refused anyway, a long line only makes those wait who are not."""
CALM_S = 3.0
"""After so long it may be long again. If it overflows at once, those who came last are sent away again."""
WAIT_S = 15.0
"""Who has waited so long for a turn is told to come back: most callers would not wait much longer."""
ALWAYS = ("/health", "/ready")
"""What is answered however much there is to do."""
VISIT = "recollect.visit"
"""Where the visit of a request stands in its scope."""
IN_LINE = "recollect.in_line"
"""Where it stands in the scope that a request is in the line already, and as whose."""

_BEARER = re.compile(rb"\s*bearer\s+(\S+)\s*\Z", re.IGNORECASE)


def caller(authorization: bytes) -> bytes:
    """Whom a request says it is from. Whoever shows no key is one caller, with all others who show none.

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
            raise _busy()
        self._places.take(who)

    def give_place_back(self, who: bytes) -> None:
        """The request is answered."""
        self._places.give_back(who)

    def join_line(self, who: bytes) -> bool:
        """Stand in line for a turn. Gives whether there was room."""
        now = self._timer()
        if not (self._line.has_room(who) and self._places.has_room(who)):
            self._overflowed.pop(who, None)
            self._overflowed[who] = now
            self._forget_calm(now)
            self._shorten(who)
            return False
        is_calm = now - self._overflowed.get(who, -CALM_S) >= CALM_S
        if not is_calm and self._line.of(who) >= LINE_SHORT:
            # No new overflow: else whoever asks again at once would keep the line short for ever.
            return False
        self._line.take(who)
        return True

    def _forget_calm(self, now: float) -> None:
        """Whoever is calm again needs no mark: callers name themselves, so there may be any number of names."""
        while now - self._overflowed[first := next(iter(self._overflowed))] >= CALM_S:
            del self._overflowed[first]

    def leave_line(self, who: bytes) -> None:
        """With a turn or without."""
        self._line.give_back(who)

    async def take_turn(self, who: bytes) -> None:
        """Wait in the line until the work of a request can begin. `Busy` if that takes too long."""
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
                self.give_turn_back(who)  # it came at the very moment
            if isinstance(error, TimeoutError):
                raise _busy() from None
            raise

    def _step_out(self, who: bytes, called: asyncio.Future[None]) -> None:
        """Take out who gave up: where no turn comes back for long, nobody else would, and there may be any number."""
        line = self._waiting.get(who)
        if line is not None and called in line:
            line.remove(called)
            if not line:
                del self._waiting[who]

    def _shorten(self, who: bytes) -> None:
        """Send those away who came last."""
        line = self._waiting.get(who) or deque()
        while len(line) > LINE_SHORT:
            called = line.pop()
            if not called.done():
                called.set_exception(_busy())

    def give_turn_back(self, who: bytes) -> None:
        """The work is done: the turn goes to whoever has the fewest of those who wait."""
        self._turns.give_back(who)
        while self._waiting:
            # Of those with equally few, the one who was served the longest ago stands first.
            following = min(self._waiting, key=self._turns.of)
            line = self._waiting.pop(following)
            called = line.popleft()
            if line:
                self._waiting[following] = line
            if not called.done():  # else it gave up waiting
                self._turns.take(following)
                called.set_result(None)
                return


class Visit:
    """One request on its way through: its place while it is entered with `with`, and its turn while it has one."""

    __slots__ = ("_admission", "_has_begun", "_has_turn", "_is_in_line", "_who")

    def __init__(self, admission: Admission, who: bytes, *, is_in_line: bool = False) -> None:
        """`is_in_line`: it stands there already."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave_line()
        self.rest()
        self._admission.give_place_back(self._who)

    async def begin(self) -> None:
        """Wait for the one turn. `Busy` if that would take too long."""
        if self._has_begun:
            return
        self._has_begun = True
        self._is_in_line = self._is_in_line or self._admission.join_line(self._who)
        if not self._is_in_line:
            raise _busy()
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
        """The turn is for somebody else: from here on, others are waited for, and not for us."""
        if self._has_turn:
            self._has_turn = False
            self._admission.give_turn_back(self._who)


class _Shared:
    """Things of which there are so many, and who has how many of them."""

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
        """Whether a caller may have one more: not more than are still free."""
        return self._by[who] < self._left

    def take(self, who: bytes) -> None:
        self._left -= 1
        self._by[who] += 1

    def give_back(self, who: bytes) -> None:
        self._left += 1
        self._by[who] -= 1
        if not self._by[who]:
            del self._by[who]


def _busy() -> Busy:
    return Busy("the server has its hands full; ask again", field="server")
