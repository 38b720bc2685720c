"""Who is signed in at the console: a cookie of chance for each, kept in this process and for a while.

A seat holds the id of a key, never the key; whether the key still counts is looked up at every request.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

LIFE_S = 12 * 3600.0
"""How long a seat is kept that nobody uses: over lunch, not over night."""
SEATS_MAX = 1_000
"""Of more, the one that was unused the longest goes."""


@dataclass(slots=True)
class _Seat:
    key_id: str
    used_at: float


class Seats:
    """The seats that are taken: `take`, `key_of`, `leave`, and a proof that a form came from one of our pages."""

    def __init__(self, *, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer = timer
        self._seats: OrderedDict[str, _Seat] = OrderedDict()
        self._secret = secrets.token_bytes(32)

    def take(self, key_id: str) -> str:
        """A seat for whoever showed this key. Gives what goes into the cookie."""
        cookie = secrets.token_urlsafe(32)
        self._seats[cookie] = _Seat(key_id, self._timer())
        while len(self._seats) > SEATS_MAX:
            self._seats.popitem(last=False)
        return cookie

    def key_of(self, cookie: str) -> str | None:
        """The id of the key that was shown for this cookie, if its time is not over."""
        seat = self._seats.pop(cookie, None)
        now = self._timer()
        if seat is None or seat.used_at < now - LIFE_S:
            return None
        seat.used_at = now
        self._seats[cookie] = seat
        return seat.key_id

    def leave(self, cookie: str) -> None:
        """Give the seat back; the cookie is worth nothing from now on."""
        self._seats.pop(cookie, None)

    def proof(self, cookie: str) -> str:
        """What stands in the forms of our pages: nobody can know it who has not read one of them."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def proves(self, cookie: str, given: str) -> bool:
        """Whether this is the proof for the cookie."""
        return hmac.compare_digest(self.proof(cookie).encode(), given.encode())
