"""Standing instructions of a user for an agent: several, ordered, each on or off.

They are never made from messages, only by a caller. Below a user's own are the defaults of the
org, which are kept the same way in the org's own partition; those without an agent are for all
agents. Each instruction takes one of a fixed number of places, found by id, so that the limit is
exact however many callers write at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from recollect import validate
from recollect.errors import Conflict, NotFound, TooLarge, ValidationError
from recollect.handles import Handle
from recollect.layers import Layer
from recollect.ledger import Ledger
from recollect.records import Changes, Record, Scope, as_datetime, iso, new_id, with_data

PLACES = 50
"""Instructions for one user and agent. Each is in every prompt: more would be a handbook."""


@dataclass(frozen=True, slots=True)
class Customization:
    """One standing instruction."""

    id: str
    text: str
    on: bool
    agent: str
    created_at: datetime
    org_wide: bool = False
    version: int = 0

    @classmethod
    def from_record(cls, record: Record) -> Customization:
        """The instruction that a record of the layer `customization` holds."""
        return cls(
            id=str(record.data["id"]),
            text=record.content,
            on=bool(record.data.get("active", True)),
            agent=record.scope.agent,
            created_at=as_datetime(record.created_at),
            org_wide=not record.scope.user,
            version=record.version,
        )

    def to_dict(self) -> dict[str, Any]:
        """The instruction as documented JSON, with ISO times."""
        return {
            "id": self.id,
            "text": self.text,
            "on": self.on,
            "agent": self.agent,
            "created_at": iso(self.created_at),
            "org_wide": self.org_wide,
            "version": self.version,
        }


Change = Callable[[Sequence[Record], int], Sequence[Record]]
"""Takes the existing instructions, in order, and the current time; returns those to put."""


class Customizations(Handle):
    """The instructions of one user for one agent; the org's defaults, for a scope without a user.

    >>> from recollect import Memory
    >>> async with Memory.open("memory://") as memory:
    ...     customizations = memory.user("ann").customizations
    ...     polite = await customizations.add("Be polite.", id="manners")
    ...     print([each.text for each in await customizations.of_agent("support").effective()])
    ['Be polite.']
    """

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self._ledger = ledger
        self._layer = ledger.layers["customization"]
        self._scope = self._layer.scope_of(scope)
        self._partition = scope.partition

    def of_agent(self, agent: str) -> Customizations:
        """The instructions for one agent; with an empty name, those for all."""
        return Customizations(self._ledger, replace(self._scope, agent=validate.agent(agent)))

    async def add(self, text: str, *, id: str | None = None, on: bool = True) -> Customization:
        """Add an instruction at the end. With the id of one of the org's defaults, it replaces that default."""
        made = self._draft(text, validate.optional_identifier(id, "id"), validate.switch(on, "on"))

        def change(held: Sequence[Record], now: int) -> Sequence[Record]:
            if any(record.data["id"] == made.data["id"] for record in held):
                raise Conflict("an instruction with this id already exists; update it", field="id")
            return [self._placed(made, held)]

        (added,) = await self._change(change)
        return Customization.from_record(added)

    async def update(
        self, id: str, *, text: str | None = None, on: bool | None = None, version: int | None = None
    ) -> Customization:
        """Change an instruction; of an org default, the user gets their own copy. A stale `version` is a `Conflict`."""
        if text is None and on is None:
            raise ValidationError("give text or on", field="text")
        asked = validate.identifier(id, "id")
        default = {record.data["id"]: record for record in await self._defaults()}.get(asked)
        fresh = None if text is None else self._ledger.masked(validate.instruction(text))
        active = None if on is None else validate.switch(on, "on")

        def change(held: Sequence[Record], now: int) -> Sequence[Record]:
            own = next((record for record in held if record.data["id"] == asked), None)
            read = own or default
            if read is None:
                raise NotFound(field="id")
            if version is not None and version != read.version:
                raise Conflict("the instruction changed since it was read; list them again", field="version")
            if own is None:
                own = self._placed(self._draft(read.content, asked, read.data.get("active", True)), held)
            data = dict(own.data) | ({} if active is None else {"active": active})
            return [own.with_(content=own.content if fresh is None else fresh, data=data)]

        (updated,) = await self._change(change)
        return Customization.from_record(updated)

    async def switch_on(self, id: str) -> Customization:
        """Switch an instruction back on."""
        return await self.update(id, on=True)

    async def switch_off(self, id: str) -> Customization:
        """Keep an instruction without applying it; a default is switched off for this user alone."""
        return await self.update(id, on=False)

    async def reorder(self, ids: Sequence[str]) -> list[Customization]:
        """Put the instructions into this order; each must be named exactly once."""
        wanted = [validate.identifier(id, "ids") for id in validate.batch(ids, "ids")]

        def change(held: Sequence[Record], now: int) -> Sequence[Record]:
            by_id = {record.data["id"]: record for record in held}
            if sorted(wanted) != sorted(by_id):
                raise ValidationError("must name each instruction once, without defaults of the org", field="ids")
            return [with_data(by_id[id], order=order) for order, id in enumerate(wanted)]

        return [Customization.from_record(record) for record in await self._change(change)]

    async def delete(self, id: str, *, version: int | None = None) -> None:
        """Remove one of the user's own instructions; an org default that it replaced applies again.

        A stale `version` raises `Conflict`.
        """
        asked = validate.identifier(id, "id")

        def change(held: Sequence[Record], now: int) -> Sequence[Record]:
            own = [record for record in held if record.data["id"] == asked]
            if not own:
                raise NotFound(field="id")
            if version is not None and version != own[0].version:
                raise Conflict("the instruction changed since it was read; list them again", field="version")
            # It expires now instead of being dropped, so that another one that took the place meanwhile stays.
            return [own[0].with_(content="", metadata={}, expires_at=now)]

        await self._change(change)

    async def effective(self) -> list[Customization]:
        """What applies to the agent: the defaults of the org, then the user's own, without what is off.

        A user's instruction with the id of a default takes its place.
        """
        stands: dict[str, Record] = {record.data["id"]: record for record in await self._defaults()}
        stands |= {record.data["id"]: record for record in await self._held(self._scope)}
        active = (each for each in stands.values() if each.data.get("active", True) and each.trust != "quarantined")
        return [Customization.from_record(record) for record in active]

    async def list(self, *, include_off: bool = True) -> list[Customization]:
        """The instructions of this user and agent alone, in their order."""
        held = [Customization.from_record(record) for record in await self._held(self._scope)]
        return [each for each in held if include_off or each.on]

    def _draft(self, text: str, id: str | None, on: bool) -> Record:
        now = self._ledger.clock()
        return Record(
            id="",
            layer="customization",
            scope=self._scope,
            content=self._ledger.masked(validate.instruction(text)),
            data={"id": id or new_id(now), "active": on},
            importance=1.0,
            created_at=now,
        )

    def _placed(self, made: Record, held: Sequence[Record]) -> Record:
        """The new instruction in a free place, after all others."""
        taken = {record.id for record in held}
        free = next((id for id in _places(self._layer, self._scope) if id not in taken), None)
        if free is None:
            raise TooLarge(
                f"this agent already has {PLACES} instructions, the most it can have; delete or combine some",
                field="text",
            )
        last = max((record.data["order"] for record in held), default=-1)
        return made.with_(id=free, data={**made.data, "order": last + 1})

    async def _change(self, change: Change) -> Sequence[Record]:
        """Read all instructions, change some and write those, so that nobody's change is lost."""
        changed: list[Record] = []
        written: set[str] = set()

        def decide(known: Mapping[str, Record], now: int) -> Changes | None:
            changed[:] = change(in_order(known.values()), now)
            put = tuple(record for record in changed if record != known.get(record.id))
            written.clear()
            written.update(record.id for record in put)
            return Changes(self._partition, put=put) if put else None

        revision = await self._ledger.update_all(self._partition, _places(self._layer, self._scope), decide)
        return tuple(
            each.with_(version=each.version + 1 if each.version else revision) if each.id in written else each
            for each in changed
        )

    async def _held(self, scope: Scope) -> Sequence[Record]:
        return in_order(await self._ledger.get(scope.partition, _places(self._layer, scope)))

    async def _defaults(self) -> Sequence[Record]:
        """The instructions below these, the most general first."""
        org, user, agent = self._scope.org, self._scope.user, self._scope.agent
        below = [Scope(org), Scope(org, "", agent), Scope(org, user)]
        scopes = [scope for scope in dict.fromkeys(below) if scope != self._scope]
        return [record for scope in scopes for record in await self._held(scope)]


@lru_cache(maxsize=1_024)
def _places(layer: Layer, scope: Scope) -> tuple[str, ...]:
    """The ids of the places of a scope, cached: every prompt needs them, and fifty hashes take a while."""
    return tuple(layer.head_id(scope, str(place)) for place in range(PLACES))


def in_order(records: Iterable[Record]) -> Sequence[Record]:
    """Instructions in their chosen order."""
    held = [record for record in records if record.layer == "customization"]
    return sorted(held, key=lambda record: (record.data.get("order", 0), record.born))
