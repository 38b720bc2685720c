"""Who is signed in at the console: a cookie that every process with the same secret can read, and nobody else can make.

It holds the id of a key, never the key, the time until which it counts, and chance; whether the key still counts is
looked up at every request. So nothing is kept of who is signed in. Who has left is kept, for as long as their cookie
would count, and in the store: it is worth nothing any more at any process, whoever has a copy of it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress

from recollect.errors import Conflict, ValidationError
from recollect.ledger import upkeep_job
from recollect.records import DAY_MS, HOUR_MS, Changes, Clock, Partition, Record, Scope, new_id
from recollect.stores.contract import Store

HOME = Partition("{seats}", "")
"""Where it is kept who has left. Ids must not have braces, so nobody can name an org like this."""
LIFE_MS = 12 * HOUR_MS
"""How long a seat is kept: over a day's work, not over night."""
CHANCE_BYTES = 16
SECRET_CHARACTERS = 32
"""A secret that is given has at least so many: who has a cookie can try shorter ones at home."""


def secret_of(given: str) -> str:
    """The secret that was given, or one of chance."""
    if not given:
        return secrets.token_hex(32)
    if len(given) < SECRET_CHARACTERS or not given.isascii():
        hint = f"must have at least {SECRET_CHARACTERS} characters, all of them ASCII, as `openssl rand -hex 32` gives"
        raise ValidationError(hint, field="console_secret")
    return given


class Seats:
    """The seats that are taken: `take`, `key_of`, `leave`, and a proof that a form came from one of our pages."""

    def __init__(self, store: Store, clock: Clock, secret: str) -> None:
        self._store = store
        self._clock = clock
        self._secret = secret.encode()

    def take(self, key_id: str) -> str:
        """A seat for whoever showed this key. Gives what goes into the cookie."""
        seat = f"{key_id}.{self._clock() + LIFE_MS}.{secrets.token_hex(CHANCE_BYTES)}"
        return f"{seat}.{self._mark('seat', seat)}"

    async def key_of(self, cookie: str) -> str | None:
        """The id of the key that was shown for this cookie, if it is ours, its time is not over and nobody left it."""
        found = self._read(cookie)
        if found is None:
            return None
        key_id, _, chance = found
        return None if await self._store.get(HOME, [chance], self._clock()) else key_id

    async def leave(self, cookie: str) -> None:
        """Give the seat back; the cookie is worth nothing from now on."""
        found = self._read(cookie)
        if found is None:
            return
        _, until, chance = found
        now = self._clock()
        left = Record(chance, "seat", Scope(*HOME), created_at=now, expires_at=until)
        gone = upkeep_job(HOME, until + DAY_MS)
        with suppress(Conflict):  # it was left before
            await self._store.commit(Changes(HOME, put=(left,), enqueue=(gone,), key=new_id(now)), now)

    def proof(self, cookie: str) -> str:
        """What stands in the forms of our pages: nobody can know it who has not read one of them."""
        return self._mark("form", cookie)

    def proves(self, cookie: str, given: str) -> bool:
        """Whether this is the proof for the cookie."""
        return hmac.compare_digest(self.proof(cookie).encode(), given.encode())

    def _read(self, cookie: str) -> tuple[str, int, str] | None:
        """What a cookie holds that counts now: the id of its key, until when, and its chance."""
        seat, _, mark = cookie.rpartition(".")
        if not hmac.compare_digest(self._mark("seat", seat).encode(), mark.encode()):
            return None
        key_id, until, chance = seat.split(".")
        return (key_id, int(until), chance) if self._clock() < int(until) else None

    def _mark(self, kind: str, text: str) -> str:
        """What only the secret can make of a text. One kind cannot stand for another."""
        return hmac.new(self._secret, f"{kind}:{text}".encode(), hashlib.sha256).hexdigest()
