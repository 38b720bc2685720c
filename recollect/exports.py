"""Export everything that a user has or an org shares, as JSON objects, and store such objects again.

What comes in may have been written by anybody: each record is checked for everything that other steps rely on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from recollect import contents, validate
from recollect.episodes import NOTED_BORN
from recollect.errors import Conflict, ValidationError
from recollect.filters import Filter
from recollect.layers import PUBLIC_LAYERS
from recollect.ledger import Ledger, portions
from recollect.pace import Pace
from recollect.paging import every
from recollect.policies.merging import merges_of
from recollect.policies.wholeness import is_whole
from recollect.records import TRUSTS, Changes, Partition, Record, Scope, Source, enrich_jobs, iso
from recollect.spells import turn_jobs

EXPORT_FORMAT = 1
EXPORT_PAGE = 500
"""Records an export reads at a time."""
EXPORTED_LAYERS = (*PUBLIC_LAYERS, "session", "past")
PLACES = ("edited", NOTED_BORN)
"""Fields whose numbers are only valid in the store that holds the record."""
COUNTS = ("seen", "edits", "usage_count", "merged_count", "write")
COUNT_MAX = 1_000_000
"""A larger count is made up, not counted."""
EDITS_MAX = 10_000
"""Edits of one memory that an import may claim. The past state of each is looked up by its id, whether it is there or
not: a made-up million kept a server from everything else for five seconds with every look at the history."""


class Exports:
    """What one partition holds, on its way out and in."""

    def __init__(self, ledger: Ledger, partition: Partition) -> None:
        self._ledger = ledger
        self._partition = partition

    def export(self) -> AsyncIterator[dict[str, Any]]:
        """Everything, one JSON object at a time; the first describes the export."""
        return every(partial(self.export_page, EXPORT_PAGE))

    async def export_page(self, limit: int, after: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """One page of the export, and the cursor of the next."""
        head = {
            "recollect": EXPORT_FORMAT,
            "org": self._partition.org,
            "user": self._partition.user,
            "exported_at": iso(self._ledger.clock()),
        }
        page = await self._ledger.list(Filter(self._partition, layers=EXPORTED_LAYERS), limit=limit, after=after)
        return [*([head] if after is None else []), *(record.to_dict() for record in page.records)], page.after

    async def import_records(self, lines: Sequence[Mapping[str, Any]]) -> int:
        """Store exported records in this partition, wherever they come from. Importing twice is the same as once.

        All are validated before the first is stored.
        """
        records: list[Record] = []
        pace = Pace()
        for number, line in enumerate(lines, start=1):
            if isinstance(line, Mapping) and "recollect" in line:
                continue  # the line that describes the export
            record = self._ledger.masked_record(self._imported(line, number if len(lines) > 1 else None))
            records.append(record)
            await pace.done(characters=len(record.content))
        return sum([await self._import_batch(portion) for portion in portions(records)])

    def _imported(self, line: Mapping[str, Any], number: int | None) -> Record:
        """A record from its exported form; if there are several, an error names the line."""
        try:
            return imported(line, self._partition)
        except ValidationError as error:
            if number is None:
                raise
            raise type(error)(f"{error.message} (line {number})", field=error.field) from error

    async def _import_batch(self, records: Sequence[Record]) -> int:
        known = {record.id for record in await self._ledger.get(self._partition, [record.id for record in records])}
        heads = {record.data["of"] for record in records if record.layer == "past"}
        held = {record.id: record for record in await self._ledger.get(self._partition, sorted(heads))} if heads else {}
        new = {record.id: record for record in records if record.id not in known and not _is_elsewhere(record, held)}
        if not new:
            return 0
        now = self._ledger.clock()
        refs = tuple(id for id, record in new.items() if self._ledger.layers[record.layer].embedded)
        jobs = enrich_jobs(self._partition, refs, now)
        if turns := turn_jobs(self._partition, new.values(), now):
            # They may not fit beside the records. Without the records these jobs do nothing, so they go first.
            await self._ledger.commit(Changes(self._partition, enqueue=turns))
        try:
            await self._ledger.commit(Changes(self._partition, put=tuple(new.values()), enqueue=jobs), renews=False)
        except Conflict as conflict:
            raise Conflict("the same memories are being written right now; import again", field="id") from conflict
        return len(new)


def imported(line: Mapping[str, Any], partition: Partition) -> Record:
    """A record from its exported form, every field validated; the caller becomes its owner."""
    if not isinstance(line, Mapping) or not isinstance(line.get("scope", {}), Mapping):
        raise ValidationError("not an exported record", field="line")
    layer = validate.choice(line.get("layer"), EXPORTED_LAYERS, "layer")
    scope = line.get("scope", {})
    content = line.get("content", "")
    return Record(
        id=validate.identifier(line.get("id"), "id"),
        layer=layer,
        scope=Scope(
            partition.org,
            partition.user,
            validate.identifier(scope["agent"], "agent") if scope.get("agent") else "",
            validate.identifier(scope["session"], "session") if scope.get("session") else "",
        ),
        content=contents.content(content, may_be_empty=True).text
        if isinstance(content, str)
        else validate.text(content),
        data=in_a_new_place(_data(layer, line.get("data", {}))),
        metadata=validate.metadata(line.get("metadata")),
        importance=validate.unit_interval(line.get("importance", 0.5), "importance"),
        confidence=validate.unit_interval(line.get("confidence", 1.0), "confidence"),
        created_at=validate.moment(line.get("created_at"), "created_at") or 0,
        event_at=validate.moment(line.get("event_at"), "event_at"),
        valid_from=validate.moment(line.get("valid_from"), "valid_from"),
        valid_to=validate.moment(line.get("valid_to"), "valid_to"),
        expires_at=validate.moment(line.get("expires_at"), "expires_at"),
        source=_source(line.get("source")),
        trust=validate.choice(line.get("trust", "trusted"), TRUSTS, "trust"),
    )


def _is_elsewhere(record: Record, held: Mapping[str, Record]) -> bool:
    """Whether it is a past entry beyond the edits of its record here, in a place that record will need next."""
    head = held.get(record.data["of"]) if record.layer == "past" else None
    edits = record.data["data"].get("edits", 0) if head else 0
    return head is not None and not (isinstance(edits, int) and edits < head.data.get("edits", 0))


def in_a_new_place(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of a record without versions and places, which are only valid in the store it came from."""
    if data.keys().isdisjoint(PLACES):
        return data
    return {name: value for name, value in data.items() if name not in PLACES}


def _data(layer: str, value: Any) -> dict[str, Any]:
    """The data of a record, checked for everything other steps rely on in records of this layer."""
    limits = validate.LIMITS
    data = validate.json_value(
        value, "data", max_bytes=limits.body_bytes, depth=limits.structure_depth + 2, keys=limits.structure_keys
    )
    if not isinstance(data, dict) or not is_whole(layer, data):
        raise ValidationError("not the data of an exported record of this layer", field="data")
    if layer == "conversation":
        validate.role(data["role"])
        contents.tool_calls(data.get("tool_calls") or [])
        parts = data.get("parts", [])
        contents.content(parts if isinstance(parts, list) else [parts], may_be_empty=True)
    if layer == "past":
        validate.identifier(data["of"], "data.of")
    if not _is_bookkeeping(data):
        raise ValidationError("counts must be whole numbers, and merges must be as in an export", field="data")
    if data.get("edits", 0) > EDITS_MAX:
        raise ValidationError(f"must be at most {EDITS_MAX}; without it, the memory has no history", field="data.edits")
    return data


def _is_bookkeeping(data: Mapping[str, Any]) -> bool:
    """Whether the bookkeeping stored with a memory is in the form in which it is read back."""
    counted = all(type(data.get(name, 0)) is int and 0 <= data.get(name, 0) <= COUNT_MAX for name in COUNTS)
    ended = "merged_into" not in data or (isinstance(data["merged_into"], str) and "before_merge" in data)
    try:
        merges_of(Record("", "", Scope(), data=data))
    except (TypeError, KeyError, AttributeError):
        return False
    return counted and ended


def _source(value: Any) -> Source | None:
    if value is None:
        return None
    plain = validate.json_value(value, "source", max_bytes=4_096)
    if not isinstance(plain, dict):
        raise ValidationError("not a source", field="source")
    span = plain.get("span")
    if span is not None and (not isinstance(span, list) or [type(end) for end in span] != [int, int]):
        raise ValidationError("must be two whole numbers", field="source.span")
    names = ("message_id", "session_id", "role", "extractor")
    message_id, session_id, role, extractor = (validate.optional_identifier(plain.get(n), f"source.{n}") for n in names)
    return Source(message_id, session_id, (span[0], span[1]) if span else None, role, extractor)
