"""Seals: what is made of messages is written only if nobody set messages aside since they were read.

A record that is gone fails the `needs` of a commit; one that only changed does not. So work that makes
something of messages first finds a seal, then reads, and its commit needs the seal. Whoever sets
messages aside, or lets them teach no more, changes the messages and then breaks the seals. What was
made before that can be seen, and taken back, by the one who broke them; what comes after is refused,
and made again from what there is by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from recollect.errors import Conflict
from recollect.filters import Filter
from recollect.ledger import Ledger
from recollect.records import Changes, Partition, Record, Scope, new_id

SEAL = "seal"


async def sealed(ledger: Ledger, partition: Partition, make: Callable[[], Awaitable[Changes | None]]) -> Changes | None:
    """What `make` reads and decides, to be written only if nobody sets messages aside before it is."""
    seal = await _standing(ledger, partition)
    changes = await make()
    while seal is None and changes is not None and changes.put:
        try:
            seal = await _set(ledger, partition, changes.needs)
        except Conflict:
            pass  # some of it was forgotten meanwhile: it is made of the rest
        changes = await make()  # what was read before the seal was there does not count
    if seal is None or changes is None or not changes.put:
        return changes
    return changes.and_(needs=(seal,))


async def find_seal(ledger: Ledger, partition: Partition, needs: Sequence[str]) -> str:
    """The id of a seal, to be found before anything is read; set for work on these records, while they live."""
    return await _standing(ledger, partition) or await _set(ledger, partition, needs)


async def break_seals(ledger: Ledger, partition: Partition) -> None:
    """Let whatever was read until now be read again before anything is made of it."""
    ids = tuple([seal.id async for seal in ledger.walk(_seals_of(partition))])
    if ids:
        await ledger.commit(Changes(partition, drop=ids))


async def _standing(ledger: Ledger, partition: Partition) -> str | None:
    """A seal that will stand for a while."""
    page = await ledger.list(_seals_of(partition), newest_first=True, limit=1)
    least_ms = (ledger.layers[SEAL].life_ms or 0) // 2
    lasting = (seal.id for seal in page.records if (seal.expires_at or 0) - ledger.clock() > least_ms)
    return next(lasting, None)


async def _set(ledger: Ledger, partition: Partition, needs: Sequence[str]) -> str:
    now = ledger.clock()
    fresh = Record(new_id(now), SEAL, Scope(*partition), created_at=now, expires_at=ledger.layers[SEAL].expires_at(now))
    # Late work must not leave anything in what was erased meanwhile.
    await ledger.commit(Changes(partition, put=(fresh,), needs=tuple(needs)))
    return fresh.id


def _seals_of(partition: Partition) -> Filter:
    return Filter(partition, layers=(SEAL,))
