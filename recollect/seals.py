"""Seals: what is derived from messages is written only if no messages were set aside since they were read.

A record that is gone fails the `needs` of a commit; one that only changed does not. So a job that derives
something from messages first finds a seal, then reads, and its commit needs the seal. An act that sets
messages aside, or stops them from teaching, changes the messages and then breaks the seals. It can see,
and take back, whatever was derived before that; what comes after is refused, and derived again from the
state by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from recollect.errors import Conflict
from recollect.filters import Filter
from recollect.ledger import Ledger
from recollect.records import Changes, Partition, Record, Scope, new_id

SEAL = "seal"


async def sealed(ledger: Ledger, partition: Partition, make: Callable[[], Awaitable[Changes | None]]) -> Changes | None:
    """What `make` reads and decides, to be written only if no messages are set aside before it is."""
    seal = await _standing(ledger, partition)
    changes = await make()
    while seal is None and changes is not None and changes.put:
        try:
            seal = await _set(ledger, partition, changes.needs)
        except Conflict:
            pass  # some of it was forgotten meanwhile: use the rest
        changes = await make()  # what was read before the seal existed does not count
    if seal is None or changes is None or not changes.put:
        return changes
    return changes.and_(needs=(seal,))


async def find_seal(ledger: Ledger, partition: Partition, needs: Sequence[str]) -> str:
    """The id of a seal, to be found before anything is read; a new one is set only while these records are alive."""
    return await _standing(ledger, partition) or await _set(ledger, partition, needs)


async def break_seals(ledger: Ledger, partition: Partition) -> None:
    """Force everything read until now to be read again before anything is derived from it."""
    await ledger.drop(partition, [seal.id async for seal in ledger.walk(_seals_of(partition))])


async def _standing(ledger: Ledger, partition: Partition) -> str | None:
    """A seal that will last for a while."""
    page = await ledger.list(_seals_of(partition), newest_first=True, limit=1)
    least_ms = (ledger.layers[SEAL].life_ms or 0) // 2
    lasting = (seal.id for seal in page.records if (seal.expires_at or 0) - ledger.clock() > least_ms)
    return next(lasting, None)


async def _set(ledger: Ledger, partition: Partition, needs: Sequence[str]) -> str:
    now = ledger.clock()
    fresh = Record(new_id(now), SEAL, Scope(*partition), created_at=now, expires_at=ledger.layers[SEAL].expires_at(now))
    # A late job must not leave anything in a partition that was erased meanwhile.
    await ledger.commit(Changes(partition, put=(fresh,), needs=tuple(needs)))
    return fresh.id


def _seals_of(partition: Partition) -> Filter:
    return Filter(partition, layers=(SEAL,))
