"""Console sign-ins: a cookie that every process with the same secret can read, and nobody else can make.

It holds the id of a key (never the key itself), its expiry time and random bytes; whether the key is still valid is
looked up at every request. So nothing is stored about who is signed in. A sign-out is stored for as long as the cookie
would have been valid, which makes the cookie and any copy of it worthless at every process.
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
"""Where sign-outs are kept. Ids must not contain braces, so no real org has this name."""
LIFE_MS = 12 * HOUR_MS
"""How long a seat is kept: through a working day, not overnight."""
CHANCE_BYTES = 16
SECRET_CHARACTERS = 32
"""The minimum length of a configured secret: whoever has a cookie can guess shorter ones offline."""


def secret_of(given: str) -> str:
    """Return the configured secret, or a random one."""
    if not given:
        return secrets.token_hex(32)
    if len(given) < SECRET_CHARACTERS or not given.isascii():
        hint = f"must have at least {SECRET_CHARACTERS} characters, all ASCII, for example from `openssl rand -hex 32`"
        raise ValidationError(hint, field="console_secret")
    return given


class Seats:
    """Seats at the console: `take`, `key_of`, `leave`, and a proof that a form came from one of our pages."""

    def __init__(self, store: Store, clock: Clock, secret: str) -> None:
        self._store = store
        self._clock = clock
        self._secret = secret.encode()

    def take(self, key_id: str) -> str:
        """Take a seat for whoever showed this key. Returns the value of the cookie."""
        seat = f"{key_id}.{self._clock() + LIFE_MS}.{secrets.token_hex(CHANCE_BYTES)}"
        return f"{seat}.{self._mark('seat', seat)}"

    async def key_of(self, cookie: str) -> str | None:
        """The id of the key shown for this cookie, if the cookie is ours, not expired and not signed out."""
        found = self._read(cookie)
        if found is None:
            return None
        key_id, _, chance = found
        return None if await self._store.get(HOME, [chance], self._clock()) else key_id

    async def leave(self, cookie: str) -> None:
        """Give the seat back; the cookie is worthless from now on."""
        found = self._read(cookie)
        if found is None:
            return
        _, until, chance = found
        now = self._clock()
        left = Record(chance, "seat", Scope(*HOME), created_at=now, expires_at=until)
        gone = upkeep_job(HOME, until + DAY_MS)
        with suppress(Conflict):  # it was already given back
            await self._store.commit(Changes(HOME, put=(left,), enqueue=(gone,), key=new_id(now)), now)

    def proof(self, cookie: str) -> str:
        """The proof in the forms of our pages: only someone who has read one of them can know it."""
        return self._mark("form", cookie)

    def proves(self, cookie: str, given: str) -> bool:
        """Whether this is the proof for the cookie."""
        return hmac.compare_digest(self.proof(cookie).encode(), given.encode())

    def _read(self, cookie: str) -> tuple[str, int, str] | None:
        """The contents of a cookie that is valid now: the id of its key, its expiry, and its random part."""
        seat, _, mark = cookie.rpartition(".")
        if not hmac.compare_digest(self._mark("seat", seat).encode(), mark.encode()):
            return None
        key_id, until, chance = seat.split(".")
        return (key_id, int(until), chance) if self._clock() < int(until) else None

    def _mark(self, kind: str, text: str) -> str:
        """A signature of the text that needs the secret. One kind cannot stand in for another."""
        return hmac.new(self._secret, f"{kind}:{text}".encode(), hashlib.sha256).hexdigest()
