"""API keys: who may use the server, for which org or user, and with which scope.

A key is `rk_<id>_<secret>`. The id finds its record; only a hash of the secret is kept, so a copy of
the store grants no access. Keys are kept in a partition whose name no public interface accepts.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recollect import validate
from recollect.bound_keys import KEY, KEYS
from recollect.errors import Conflict, NotFound
from recollect.records import Changes, Clock, Record, Scope, iso, new_id, with_data
from recollect.stores.contract import Mark, Store

SCOPES = ("read", "write", "admin")
"""What a key allows; each scope includes the ones before it."""
ID_BYTES, SECRET_BYTES = 6, 32
NAME_BYTES = 128
"""A name tells people which key this is: a few words."""

_TOKEN = re.compile(r"rk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})\Z")


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is stored: everything but its secret."""

    id: str
    org: str
    user: str | None
    scope: str
    name: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    @property
    def shown(self) -> str:
        """What people may see of the key itself."""
        return f"rk_{self.id[:4]}..."

    def state(self, now: int) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def to_dict(self) -> dict[str, Any]:
        """The key as documented JSON, with ISO times."""
        return {
            "id": self.id,
            "key": self.shown,
            "org": self.org,
            "user": self.user,
            "scope": self.scope,
            "name": self.name,
            "created_at": iso(self.created_at),
            "expires_at": iso(self.expires_at),
            "revoked_at": iso(self.revoked_at),
        }


class Keys:
    """The keys of a store: `create`, `find`, `list`, `revoke`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._mark: Mark | None = None
        self._held: dict[str, Record] = {}

    async def create(
        self, *, org: str, user: str | None = None, scope: str = "write", expires: str | None = None, name: str = ""
    ) -> tuple[Key, str]:
        """Create a key. Returns it and its token, which cannot be read again. `expires` is like "90d" or "12h"."""
        now = self._clock()
        key = Key(
            id=secrets.token_hex(ID_BYTES),
            org=validate.identifier(org, "org"),
            user=validate.optional_identifier(user, "user"),
            scope=validate.choice(scope, SCOPES, "scope"),
            name=validate.text(name, "name", NAME_BYTES) if name else "",
            created_at=now,
            expires_at=None if expires is None else now + validate.life_ms(expires, "expires"),
        )
        secret = secrets.token_urlsafe(SECRET_BYTES)
        data = {
            "hash": _hash(secret).hex(), "org": key.org, "user": key.user, "scope": key.scope,
            "expires_at": key.expires_at, "revoked_at": None,
        }  # fmt: skip
        record = Record(key.id, KEY, Scope(*KEYS), content=key.name, data=data, created_at=now)
        await self._store.commit(Changes(KEYS, put=(record,), key=new_id(now)), now)
        return key, f"rk_{key.id}_{secret}"

    async def find(self, token: str) -> Key | None:
        """The key of a token, if it is right and active now.

        How long it takes says nothing about a secret: whatever has the form of a token is hashed, and compared whole.
        """
        await self.read()
        return self.held(token)

    def recognises(self, token: str) -> bool:
        """Whether a token is right according to the keys as last read: a cheap check that grants no access.

        True for any token until the keys have been read once.
        """
        return not self.were_read or self.held(token) is not None

    @property
    def were_read(self) -> bool:
        """Whether the keys have been read once."""
        return self._mark is not None

    @property
    def are_held(self) -> bool:
        """Whether there were any keys when they were last read."""
        return bool(self._held)

    def held(self, token: str) -> Key | None:
        """The same by the keys as last read."""
        parts = _TOKEN.match(token)
        if parts is None:
            return None
        record = self._held.get(parts[1])
        kept = bytes.fromhex(record.data["hash"]) if record else bytes(32)
        is_right = hmac.compare_digest(_hash(parts[2]), kept)
        key = _key(record) if record else None
        return key if is_right and key is not None and key.state(self._clock()) == "active" else None

    async def active(self, id: str) -> Key | None:
        """The key with this id, if it is active now: for callers that have shown its secret before."""
        now = self._clock()
        found = [_key(each) for each in await self._store.get(KEYS, [id], now) if each.layer == KEY]
        return found[0] if found and found[0].state(now) == "active" else None

    async def list(self) -> list[Key]:
        """All keys, including those no longer active, in the order in which they were created."""
        return [_key(record) for record in sorted((await self.read()).values(), key=lambda each: each.born)]

    async def exist(self) -> bool:
        """Whether a key was ever created. Revoked ones count: revoking a key must never open the server."""
        return bool(await self.read())

    async def read(self) -> Mapping[str, Record]:
        """The keys by id, as of now. Every request needs them, so only changes are read."""
        while True:
            mark = self._mark
            delta = await self._store.changes(KEYS, mark)
            if self._mark is not mark:
                continue  # another request applied the changes in the meantime
            if delta.reset:
                self._held.clear()
            self._held.update({record.id: record for record in delta.put if record.layer == KEY})
            for id in delta.dropped:
                self._held.pop(id, None)
            self._mark = delta.mark
            if not delta.more:
                return self._held

    async def revoke(self, id: str) -> Key:
        """Revoke a key, from the next request on. It stays in the list."""
        asked = validate.identifier(id, "id")
        now = self._clock()
        for record in await self._store.get(KEYS, [asked], now):
            if record.layer == KEY and record.data["revoked_at"] is None:
                record = with_data(record, revoked_at=now)
                try:
                    await self._store.commit(Changes(KEYS, put=(record,), key=new_id(now)), now)
                except Conflict:
                    return await self.revoke(id)  # somebody else revoked it in the meantime
            return _key(record)
        raise NotFound("no such key; `recollect keys list` shows their ids", field="id")


def _hash(secret: str) -> bytes:
    # The secret is 32 random bytes: it cannot be guessed, so a slow hash would only cost time.
    return hashlib.sha256(secret.encode()).digest()


def _key(record: Record) -> Key:
    data = record.data
    return Key(
        id=record.id,
        org=data["org"],
        user=data["user"],
        scope=data["scope"],
        name=record.content,
        created_at=record.created_at,
        expires_at=data["expires_at"],
        revoked_at=data["revoked_at"],
    )
