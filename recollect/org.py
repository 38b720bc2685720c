"""The handle of one org: what all its users share, and who they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from recollect import validate
from recollect.cursors import Of, place, place_of
from recollect.entities import EntityCache
from recollect.errors import NotFound, ValidationError
from recollect.filters import Filter
from recollect.layers import SEARCHED_LAYERS, is_current
from recollect.ledger import Ledger
from recollect.owner import Owner
from recollect.records import Partition, Record, Scope
from recollect.stores.contract import named_partitions

if TYPE_CHECKING:
    from recollect.privacy import Receipt
    from recollect.user import User

T = TypeVar("T")

SIDE_BY_SIDE = 16
"""Users queried concurrently: a server answers for all of them in the time of one, without being flooded."""
SHARED = ""
"""The user of the partition that holds what all users share."""


class Org(Owner):
    """What all users of an org share."""

    def __repr__(self) -> str:
        return f"<Org {self.id!r}>"

    @property
    def id(self) -> str:
        return self._scope.org

    @property
    def entities(self) -> EntityCache:
        """Business objects, read through a loader and cached for a while."""
        return EntityCache(self._flow.ledger, self._scope.org, loads=self._flow.loads)

    async def users(self, *, limit: int = 100, after: str | None = None) -> tuple[list[str], str | None]:
        """A page of the users that have anything stored, and the cursor of the next (None at the end).

        Erased users are left out, so a short page is not necessarily the last.
        """
        ledger = self._flow.ledger
        since = "" if after is None else validate.identifier(after, "after")
        own: list[Partition] = []
        async with aclosing(named_partitions(ledger.store, Partition(self.id, since), validate.limit(limit))) as named:
            async for each in named:
                if each.org != self.id or len(own) == limit:
                    break
                own.append(each)
        found = await holding_any(ledger, own)
        return [each.user for each in found], own[-1].user if len(own) == limit else None

    async def failures(self, *, limit: int = 100, after: str | None = None) -> tuple[list[Record], str | None]:
        """A page of the work that was given up, and the cursor of the next (None at the end).

        First comes what concerns the memories that the org shares, then what concerns each of its users.
        """
        of = (self.id, "failures")
        user, inner = _place_of(of, after)
        users, last = ([user], user) if inner else await self.users(limit=limit, after=user or None)
        if after is None:
            users = [SHARED, *users]
        found: list[Record] = []
        for each in users:
            where = Filter(Partition(self.id, each), layers=("failure",))
            page = await self._flow.ledger.list(where, limit=limit - len(found), after=inner)
            found += page.records
            inner = None
            if page.after is not None or len(found) == limit:
                return found, place(of, each, page.after)
        return found, None if last is None else place(of, last, None)

    async def erase(self) -> Receipt:
        """Forget everything about the org: all its users, and what they share. Returns a receipt.

        >>> note = await memory.org().add_memory("The office is in Porto.")
        >>> receipt = await memory.org().erase()
        >>> receipt.forgotten
        {'long_term': 1}
        """
        return await self._flow.erase_org(self._scope.org)


async def shared_with(user: User, id: str) -> Record:
    """A memory of the org that a search of this user may find as well, or `NotFound`."""
    flow = user._flow
    record = await Org(flow, Scope(user._scope.org)).get_memory(id)
    if record.layer not in SEARCHED_LAYERS or not is_current(record, flow.ledger.clock()):
        raise NotFound(field="id")
    return record


async def holding_any(ledger: Ledger, partitions: Sequence[Partition]) -> list[Partition]:
    """The partitions that hold anything. Messages are tried first: most have some, and one layer is faster to query."""

    async def holds(partition: Partition) -> bool:
        for layers in (("conversation",), ()):
            if (await ledger.list(Filter(partition, layers=layers), limit=1)).records:
                return True
        return False

    return [each for each, held in zip(partitions, await of_each(partitions, holds), strict=True) if held]


async def of_each(partitions: Sequence[Partition], ask: Callable[[Partition], Awaitable[T]]) -> list[T]:
    """The answers for these partitions, in order."""
    answers: list[T] = []
    for start in range(0, len(partitions), SIDE_BY_SIDE):
        answers += await asyncio.gather(*map(ask, partitions[start : start + SIDE_BY_SIDE]))
    return answers


def _place_of(of: Of, after: str | None) -> tuple[Any, Any]:
    """Of the cursor of a list that runs from user to user: the current user, and the position within that user."""
    if after is None:
        return None, None
    user, inner = place_of(of, after)
    try:
        return user if user == SHARED else validate.identifier(user, "after"), validate.cursor(inner)
    except ValidationError:
        raise ValidationError(validate.NO_CURSOR, field="after") from None
