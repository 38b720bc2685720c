"""Free-text knowledge: add, get, update with its past, and the merging of what was said before.

The id of a memory is made from its text, so the same text written by many at once is one memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recollect import validate
from recollect.errors import Conflict, NotFound, ValidationError
from recollect.ledger import Ledger
from recollect.policies.merging import normal
from recollect.records import Changes, Job, Record, Scope, derived_id, iso, new_id

ADDABLE = ("long_term", "episodic")
"""Layers whose records are free text; the others have verbs of their own."""


def draft(
    content: Any,
    *,
    layer: str = "long_term",
    id: str | None = None,
    metadata: Any = None,
    importance: Any = None,
    confidence: Any = None,
    created_at: Any = None,
    trust: str = "trusted",
) -> Record:
    """A memory that was looked at once; it has no owner yet."""
    validate.choice(layer, ADDABLE, "layer")
    text = validate.text(content)
    data = {} if importance is None else {"rated": True}
    return Record(
        id=validate.optional_identifier(id, "id") or "",
        layer=layer,
        scope=Scope(),
        content=text,
        data=data,
        metadata=validate.metadata(metadata),
        importance=0.5 if importance is None else validate.unit_interval(importance, "importance"),
        confidence=1.0 if confidence is None else validate.unit_interval(confidence, "confidence"),
        event_at=validate.moment(created_at, "created_at"),
        trust=validate.choice(trust, ("trusted", "untrusted"), "trust"),
    )


class LongTerm:
    """The long-term memories of one scope."""

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self._ledger = ledger
        self._scope = Scope(scope.org, scope.user)
        self._partition = scope.partition

    async def add(self, drafts: Sequence[Record], key: str | None = None) -> list[Record]:
        """Store memories in one commit. What is already known is not stored again but counted."""
        now = self._ledger.clock()
        records = [self._owned(each, now) for each in drafts]
        fresh = {record.id: record for record in reversed(records)}
        known = {record.id: record for record in await self._ledger.get(self._partition, list(fresh))}
        new = tuple(record for id, record in fresh.items() if id not in known)
        try:
            if new:
                await self._ledger.commit(self._adding(new, key and f"caller:{key}"))
        except Conflict as conflict:
            if conflict.field == "key":
                raise Conflict("this idempotency key was used for other memories", field="key") from conflict
            return [await self._add_one(record) for record in records]
        stored = fresh | {record.id: await self._again(known[record.id], record) for record in records
                          if record.id in known}  # fmt: skip
        return [stored[record.id] for record in records]

    def _owned(self, record: Record, now: int) -> Record:
        layer = self._ledger.layers[record.layer]
        id = record.id or derived_id(record.layer, normal(record.content))
        return replace(record, id=id, scope=self._scope, created_at=now, expires_at=layer.expires_at(now))

    def _adding(self, records: tuple[Record, ...], key: str | None = None) -> Changes:
        refs = tuple(record.id for record in records)
        now = self._ledger.clock()
        job = Job(f"enrich:{refs[0]}:{new_id(now)}", self._partition, "enrich", refs, due_at=now)
        return Changes(self._partition, put=records, enqueue=(job,), key=key)

    async def _add_one(self, record: Record) -> Record:
        """Add one whose id another caller took meanwhile, or turns out to have."""
        known = await self._ledger.get(self._partition, [record.id])
        if known:
            return await self._again(known[0], record)
        try:
            await self._ledger.commit(self._adding((record,)))
            return record
        except Conflict:
            return await self._again(await self._ledger.one(self._partition, record.id), record)

    async def _again(self, known: Record, record: Record) -> Record:
        """The same text again makes the memory stronger; another text under its id is a conflict."""
        if known.layer != record.layer or normal(known.content) != normal(record.content):
            if record.id != derived_id(record.layer, normal(record.content)):
                raise Conflict("this id belongs to another memory", field="id")
            # The text that gave the id its name was edited since: this is a memory of its own.
            fresh = replace(record, id=new_id(record.created_at))
            await self._ledger.commit(self._adding((fresh,)))
            return fresh
        stored = [known]

        def decide(current: Record | None, now: int) -> Changes | None:
            if current is None:
                stored[:] = [record]
                return self._adding((record,))
            stored[:] = [_said_again(current, record, now)]
            return Changes(self._partition, put=(stored[0],))

        await self._ledger.update(self._partition, known.id, decide)
        return stored[0]

    async def get(self, id: str) -> Record:
        """One memory of any public layer, or `NotFound`."""
        record = await self._ledger.one(self._partition, validate.identifier(id, "id"))
        if not self._ledger.layers[record.layer].public:
            raise NotFound(field="id")
        return record

    async def update(
        self,
        id: str,
        *,
        content: Any = None,
        metadata: Mapping[str, Any] | None = None,
        importance: Any = None,
        version: int | None = None,
    ) -> Record:
        """Change a memory; what it was before is kept in its history."""
        fields: dict[str, Any] = {}
        if content is not None:
            fields |= {"content": validate.text(content), "vector": None}
        if metadata is not None:
            fields["metadata"] = validate.metadata(metadata)
        if importance is not None:
            fields["importance"] = validate.unit_interval(importance, "importance")
        if not fields:
            raise ValidationError("give content, metadata or importance", field="content")
        record = await self.get(id)
        validate.choice(record.layer, ADDABLE, "layer")
        changed: list[Record] = []

        def decide(current: Record | None, now: int) -> Changes:
            if current is None:
                raise NotFound(field="id")
            if version is not None and version != current.version:
                raise Conflict("it changed since it was read; get it again", field="version")
            data = dict(current.data) | ({"rated": True} if importance is not None else {})
            data["edits"] = current.data.get("edits", 0) + 1
            changed[:] = [replace(current, data=data, **fields)]
            job = Job(f"enrich:{id}:{new_id(now)}", self._partition, "enrich", (id,), due_at=now)
            return Changes(self._partition, put=(changed[0], past_of(current, now)), enqueue=(job,))

        await self._ledger.update(self._partition, record.id, decide)
        return replace(changed[0], version=changed[0].version + 1)

    async def history(self, id: str) -> list[Record]:
        """What a memory was, oldest first, the present one last."""
        record = await self.get(id)
        ids = past_ids(record)
        past: list[Record] = []
        for start in range(0, len(ids), 1_000):
            past += await self._ledger.get(self._partition, ids[start : start + 1_000])
        return [_from_past(record, entry) for entry in past] + [record]


def _said_again(known: Record, again: Record, now: int) -> Record:
    """The memory after it was written once more: counted, never weaker, richer by new metadata."""
    data = dict(known.data) | {"seen": known.data.get("seen", 1) + 1, "last_seen": iso(now)}
    return replace(
        known,
        data=data,
        metadata=dict(again.metadata) | dict(known.metadata),
        importance=max(known.importance, again.importance) if again.data.get("rated") else known.importance,
        confidence=max(known.confidence, again.confidence),
        valid_to=None,
    )


def past_of(record: Record, now: int) -> Record:
    """The record as it was, kept beside its successor and committed with it."""
    return Record(
        id=derived_id("past", record.id, str(record.data.get("edits", 0) + 1)),
        layer="past",
        scope=record.scope,
        content=record.content,
        data={"of": record.id, "version": record.version, "data": dict(record.data), "layer": record.layer},
        metadata=record.metadata,
        importance=record.importance,
        confidence=record.confidence,
        created_at=record.created_at,
        event_at=record.event_at,
        valid_from=record.valid_from,
        valid_to=now,
        source=record.source,
        trust=record.trust,
    )


def past_ids(record: Record) -> list[str]:
    """The ids of what a record was before each of its edits, oldest first."""
    return [derived_id("past", record.id, str(edit)) for edit in range(1, record.data.get("edits", 0) + 1)]


def _from_past(record: Record, entry: Record) -> Record:
    return replace(
        entry,
        id=record.id,
        layer=record.layer,
        data=entry.data["data"],
        version=entry.data["version"],
        born=record.born,
    )
