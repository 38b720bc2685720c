"""Keys of the server that are for one user: they name that user, so they do not outlast an erasure.

What keys allow is up to the server (`server/keys.py`). But whoever erases a user, from any program, must not leave the
user's id behind in a key, or a key that lets somebody in as that user.
"""

from __future__ import annotations

from recollect.errors import Conflict
from recollect.filters import Filter
from recollect.ledger import Ledger
from recollect.records import Changes, Partition, Record, new_id
from recollect.stores.contract import VEIL

KEYS = Partition("{keys}", "")
"""Where keys are kept. Ids must not contain braces, so no real org has this name."""
KEY = "key"
"""The layer of keys."""


async def end_keys(ledger: Ledger, org: str, user: str | None = None) -> None:
    """Revoke the keys for a user, or for any single user of an org, and remove whom and what they were for.

    The records stay: a store that ever had a key never opens its server to everybody again.
    """
    async for key in ledger.walk(Filter(KEYS, layers=(KEY,))):
        holder = key.data["user"]
        if key.data["org"] == org and holder not in (None, VEIL) and user in (None, holder):
            await _end(ledger, key)


async def _end(ledger: Ledger, key: Record) -> None:
    # Straight to the store, as the server does it: keys are not memories, and the ledger's table has no such layer.
    now = ledger.clock()
    revoked_at = key.data["revoked_at"]
    data = {**key.data, "user": VEIL, "revoked_at": now if revoked_at is None else revoked_at}
    try:
        await ledger.store.commit(Changes(KEYS, put=(key.with_(content="", data=data),), key=new_id(now)), now)
    except Conflict:
        await _end(ledger, await ledger.one(KEYS, key.id))  # somebody revoked it meanwhile
