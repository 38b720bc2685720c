"""What was learned from working with a user: preferences, patterns and corrections, with confidence.

The id of a learning is derived from its type and text, so learning the same thing twice gives one
learning with higher confidence. An org's learnings are kept in the org's own partition and all of its users see them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recollect import validate
from recollect.cursors import born_of, page_of
from recollect.enrich import Found
from recollect.errors import Conflict, NotFound
from recollect.handles import Handle
from recollect.layers import is_current
from recollect.ledger import Ledger
from recollect.policies.learnings import (
    CORRECTION_CONFIDENCE,
    FIRST_CONFIDENCE,
    Shown,
    confirmed,
    contradicted,
    restored,
    said_again,
    top,
)
from recollect.policies.merging import normal
from recollect.records import (
    Changes,
    Partition,
    Record,
    Scope,
    Source,
    as_datetime,
    derived_id,
    enrich_jobs,
    iso,
    new_id,
    with_data,
)

CALL_DIGITS = 8
"""How many random digits identify a write."""
APPLIED_DRAFTS = 40
"""Drafts applied in one commit; the rest wait for another."""


@dataclass(frozen=True, slots=True)
class Learning:
    """One thing that was learned, how certain it is and how often it was used."""

    id: str
    type: str
    content: str
    confidence: float
    usage_count: int
    last_used: datetime | None
    created_at: datetime
    org_wide: bool = False
    retired: str | None = None
    source_message_id: str | None = None

    @classmethod
    def from_record(cls, record: Record) -> Learning:
        """The learning held by a record of the layer `learning`."""
        data = record.data
        used = data.get("last_used")
        return cls(
            id=record.id,
            type=str(data.get("type", "pattern")),
            content=record.content,
            confidence=record.confidence,
            usage_count=int(data.get("usage_count", 0)),
            last_used=as_datetime(used) if isinstance(used, int) else None,
            created_at=as_datetime(record.when),
            org_wide=not record.scope.user,
            retired=data.get("retired"),
            source_message_id=record.source.message_id if record.source else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """The learning as documented JSON, with ISO times."""
        return {
            "id": self.id,
            "type": self.type,
            "content": self.content,
            "confidence": self.confidence,
            "usage_count": self.usage_count,
            "last_used": iso(self.last_used),
            "created_at": iso(self.created_at),
            "org_wide": self.org_wide,
            "retired": self.retired,
            "source_message_id": self.source_message_id,
        }


class Learnings(Handle):
    """The learnings of one user; of an org, for a scope without a user.

    >>> from recollect import Memory
    >>> async with Memory.open("memory://") as memory:
    ...     learnings = memory.user("ann").learnings
    ...     learning = await learnings.add("asks for a summary first", confidence=0.6)
    ...     print((await learnings.confirm(learning.id)).confidence)
    0.75
    """

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self._ledger = ledger
        self._layer = ledger.layers["learning"]
        self._scope = self._layer.scope_of(scope)
        self._partition = scope.partition

    async def add(
        self,
        content: str,
        *,
        type: str = "pattern",
        confidence: float | None = None,
        source_message_id: str | None = None,
        created_at: Any = None,
        org_wide: bool = False,
    ) -> Learning:
        """Keep what was learned. Adding it again raises its confidence, and restores it if it was retired."""
        kind = validate.choice(type, validate.LEARNING_TYPES, "type")
        given = _first_confidence(kind) if confidence is None else validate.unit_interval(confidence, "confidence")
        message_id = validate.optional_identifier(source_message_id, "source_message_id")
        everyone = validate.switch(org_wide, "org_wide")
        scope = Scope(self._scope.org) if everyone else self._scope
        source = Source(message_id) if message_id else None
        text = self._ledger.masked(validate.learning(content))
        learned_at = validate.moment(created_at, "created_at")
        draft = self._draft(text, kind, given, source).with_(scope=scope, event_at=learned_at)
        stored = draft

        def decide(known: Record | None, now: int) -> Changes | None:
            nonlocal stored
            stored = _onto(known, draft)
            if stored is known:
                return None
            stored = _called(stored, now)
            return self._changes(scope.partition, [stored])

        await self._ledger.update(scope.partition, draft.id, decide)
        return Learning.from_record(stored)

    async def get(self, id: str) -> Learning:
        """One learning of the user or of the org, or `NotFound`."""
        asked = validate.identifier(id, "id")
        for partition in self._partitions():
            for record in await self._ledger.get(partition, [asked]):
                if record.layer == "learning":
                    return Learning.from_record(record)
        raise NotFound(field="id")

    async def confirm(self, id: str) -> Learning:
        """It turned out right: its confidence rises."""
        return await self._change(id, lambda known, now: _called(confirmed(known, now), now))

    async def contradict(self, id: str) -> Learning:
        """It turned out wrong: its confidence falls, and below a floor it is retired."""
        return await self._change(id, lambda known, now: _called(contradicted(known, now), now))

    async def restore(self, id: str) -> Learning:
        """Bring back a retired learning."""
        return await self._change(id, restored)

    async def top(self, *, limit: int = 5, above: float = 0.7) -> list[Learning]:
        """The best learnings, the user's and the org's together, most used first."""
        shown = Shown(validate.limit(limit), validate.unit_interval(above, "above"))
        sure = top(await self._records(), self._ledger.clock(), shown)
        return [Learning.from_record(record) for record in sure]

    async def list(self, *, type: str | None = None, include_retired: bool = False) -> list[Learning]:
        """The user's own learnings, then those of the org, each in order of arrival."""
        return [Learning.from_record(record) for record in await self._chosen(type, include_retired)]

    async def page(
        self, *, type: str | None = None, include_retired: bool = False, limit: int = 100, after: str | None = None
    ) -> tuple[Sequence[Learning], str | None]:
        """A page of that list, and the cursor of the next (None at the end)."""
        wanted, most, cursor = self._wanted(type, include_retired), validate.limit(limit), validate.cursor(after)
        of = (*self._partitions()[0], "learning")
        place, begun = born_of(of, cursor, before=1)
        found: list[Record] = []
        for number, partition in enumerate(self._partitions()):
            if (number,) >= place and len(found) <= most:
                since = begun if (number,) == place else None
                found += await self._ledger.some_of(partition, "learning", since, wanted, most + 1 - len(found))
        page, following = page_of(of, found, self._position, most, cursor)
        return [Learning.from_record(record) for record in page], following

    async def _chosen(self, type: str | None, include_retired: bool) -> Sequence[Record]:
        return list(filter(self._wanted(type, include_retired), await self._records()))

    def _wanted(self, type: str | None, include_retired: bool) -> Callable[[Record], bool]:
        """Whether a learning is listed: of this type, and not retired."""
        wanted = None if type is None else validate.choice(type, validate.LEARNING_TYPES, "type")
        now = self._ledger.clock()
        return lambda record: (include_retired or is_current(record, now)) and wanted in (None, record.data.get("type"))

    def _position(self, record: Record) -> tuple[int, ...]:
        """Where a learning is in the list."""
        return int(record.scope.partition != self._partition), *record.born

    async def apply(self, found: Sequence[Found], extractor: str) -> tuple[Changes, tuple[Found, ...]]:
        """The changes for drafts of learnings, and the drafts that must wait for another commit.

        Only trusted messages are learned from, and only while the message still exists.
        """
        mine = [each for each in found if each.draft.layer == "learning" and each.message.trust == "trusted"]
        drafts = [self._learned(each, extractor) for each in mine[:APPLIED_DRAFTS] if _is_usable(each)]
        ids = list(dict.fromkeys(draft.id for draft in drafts))
        known = {record.id: record for record in await self._ledger.get(self._partition, ids)}
        put: dict[str, Record] = {}
        for draft in drafts:
            before = put.get(draft.id) or known.get(draft.id)
            after = _onto(before, draft)
            if after is not before:
                put[draft.id] = after
        later = tuple(mine[APPLIED_DRAFTS:])
        if not put:
            return Changes(self._partition), later
        needs = tuple(dict.fromkeys(each.message.id for each in mine[:APPLIED_DRAFTS]))
        return self._changes(self._partition, list(put.values())).and_(needs=needs), later

    def _learned(self, found: Found, extractor: str) -> Record:
        draft, message = found.draft, found.message
        source = Source(message.id, message.scope.session, draft.span, message.data.get("role"), extractor)
        sure = max(draft.confidence, _first_confidence(draft.key)) if draft.key == "correction" else draft.confidence
        restates = {"restates": key} if (key := draft.data.get("restates")) else {}
        made = self._draft(draft.value, draft.key, sure, source)
        return made.with_(event_at=message.when, trust=message.trust, data={**made.data, **restates})

    def _draft(self, content: str, type: str, confidence: float, source: Source | None) -> Record:
        sources = [source.message_id] if source and source.message_id else []
        return Record(
            id=derived_id("learning", type, normal(content)),
            layer="learning",
            scope=self._scope,
            content=content,
            data={"type": type, "seen": 1, "sources": sources},
            confidence=confidence,
            created_at=self._ledger.clock(),
            source=source,
        )

    async def _change(self, id: str, change: Callable[[Record, int], Record]) -> Learning:
        asked = validate.identifier(id, "id")
        changed: list[Record] = []

        def decide(known: Record | None, now: int) -> Changes | None:
            if known is None or known.layer != "learning":
                raise NotFound(field="id")
            changed[:] = [change(known, now)]
            return None if changed[0] == known else Changes(self._partition, put=tuple(changed))

        await self._ledger.update(self._partition, asked, decide)
        return Learning.from_record(changed[0])

    async def _records(self) -> Sequence[Record]:
        return [each for some in self._partitions() for each in await self._ledger.all_of(some, "learning")]

    def _partitions(self) -> Sequence[Partition]:
        return tuple(dict.fromkeys((self._partition, Partition(self._scope.org, ""))))

    def _changes(self, partition: Partition, put: Sequence[Record]) -> Changes:
        new = tuple(record.id for record in put if record.vector is None)
        return Changes(partition, put=tuple(put), enqueue=enrich_jobs(partition, new, self._ledger.clock()))


def _called(changed: Record, now: int) -> Record:
    """Make a change distinct from the same change by another process at the same moment, so that both count."""
    return with_data(changed, call=new_id(now)[-CALL_DIGITS:])


def _onto(known: Record | None, draft: Record) -> Record:
    """The draft, or the known learning with the draft counted in."""
    if known is None:
        return draft
    if known.layer != "learning":
        raise Conflict("the id of this learning is taken by another memory", field="id")
    return said_again(known, draft)


def _first_confidence(type: str) -> float:
    return CORRECTION_CONFIDENCE if type == "correction" else FIRST_CONFIDENCE


def _is_usable(found: Found) -> bool:
    """Whether the draft is a learning at all: an enricher may be a model and return anything."""
    text = found.draft.value
    fits = 0 < len(text.encode()) <= validate.LEARNING_BYTES and not text.isspace()
    return fits and found.draft.key in validate.LEARNING_TYPES
