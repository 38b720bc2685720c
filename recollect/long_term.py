"""Free-text knowledge: add, get, update with history, and the merging of text that is already known.

The id of a memory is derived from its text, so the same text written concurrently by many is one memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from types import MappingProxyType
from typing import Any

from recollect import validate
from recollect.errors import Conflict, NotFound, ValidationError
from recollect.ledger import Change, Ledger
from recollect.policies.merging import normal
from recollect.policies.retention import TOUCHED_AT
from recollect.records import BLANK, Changes, Job, Partition, Record, Scope, derived_id, enrich_job, iso, new_id

KEY_DIGITS, KEYS_KEPT = 8, 8
"""How many digits a memory keeps of the key of a call that wrote it, and for how many such calls."""
NEVER = "never"
"""The `expires_at` that lifts the limit on a memory's life."""
NOTHING: Mapping[str, Record] = MappingProxyType({})
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
    expires_at: Any = None,
    trust: str = "trusted",
) -> Record:
    """A validated memory that has no owner yet."""
    validate.choice(layer, ADDABLE, "layer")
    text = validate.text(content)
    data = {} if importance is None else {"rated": True}
    return BLANK.with_(
        id=validate.optional_identifier(id, "id") or "",
        layer=layer,
        content=text,
        data=data,
        metadata=validate.metadata(metadata),
        importance=0.5 if importance is None else validate.unit_interval(importance, "importance"),
        confidence=1.0 if confidence is None else validate.unit_interval(confidence, "confidence"),
        event_at=validate.moment(created_at, "created_at"),
        expires_at=validate.moment(expires_at, "expires_at"),
        trust=validate.choice(trust, ("trusted", "untrusted"), "trust"),
    )


@dataclass(frozen=True, slots=True)
class Edit:
    """A validated change of one memory: the new values, and the version that was read."""

    id: str
    fields: Mapping[str, Any]
    version: int | None = None


def edit(
    id: Any,
    *,
    content: Any = None,
    metadata: Any = None,
    importance: Any = None,
    expires_at: Any = None,
    version: int | None = None,
) -> Edit:
    """Validate a change; it must set something."""
    fields: dict[str, Any] = {}
    if content is not None:
        fields["content"] = validate.text(content)
    if metadata is not None:
        fields["metadata"] = validate.metadata(metadata)
    if importance is not None:
        fields["importance"] = validate.unit_interval(importance, "importance")
    if expires_at is not None:
        fields["expires_at"] = None if expires_at == NEVER else validate.moment(expires_at, "expires_at")
    if not fields:
        raise ValidationError("give content, metadata, importance or expires_at", field="content")
    return Edit(validate.identifier(id, "id"), fields, version)


class LongTerm:
    """The long-term memories of one scope."""

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self._ledger = ledger
        self._scope = Scope(scope.org, scope.user) if scope.agent or scope.session else scope
        self._partition = scope.partition

    async def add(self, drafts: Sequence[Record], key: str | None = None, *, only_new: bool = False) -> list[Record]:
        """Store memories in one commit. What is known is counted, not stored again, or a `Conflict` if `only_new`."""
        records = [self._owned(self._ledger.masked_record(each), key) for each in drafts]
        asked = list(dict.fromkeys(record.id for record in records))
        adding = _Adding(records)

        def decide(known: Mapping[str, Record], now: int) -> Changes | None:
            further = _further(known, records, asked)
            asked.extend(further)
            return None if further else self._adding(adding.onto(known, now), key, known)

        try:
            revision = await self._add_new(adding, key)
            if revision is None and only_new:
                raise Conflict("this memory already exists", field="id")
            while revision is None:
                revision = await self._ledger.update_all(self._partition, list(asked), decide)
        except Conflict as conflict:
            if conflict.field != "key":
                raise
            return await self._added_before(records, key or "")
        return adding.stored(revision)

    async def _add_new(self, adding: _Adding, key: str | None) -> int | None:
        """Write without reading first, since most of what is added is new; None if some of it is known."""
        try:
            return await self._ledger.commit(self._adding(adding.onto({}, self._ledger.clock()), key))
        except Conflict as conflict:
            if conflict.field != "id":
                raise
            return None

    def _owned(self, record: Record, key: str | None) -> Record:
        now = self._ledger.clock()
        layer = self._ledger.layers[record.layer]
        id = record.id or derived_id(record.layer, normal(record.content))
        # The call it came from distinguishes a repeat of that call from another call with the same text.
        call = derived_id("key", key, normal(record.content))[:KEY_DIGITS] if key else new_id(now)[-KEY_DIGITS:]
        data = {**record.data, "keys": [call]}
        expires_at = layer.expires_at(now) if record.expires_at is None else _ahead(record.expires_at, now)
        return record.with_(id=id, scope=self._scope, data=data, created_at=now, expires_at=expires_at)

    def _adding(self, records: tuple[Record, ...], key: str | None, known: Mapping[str, Record] = NOTHING) -> Changes:
        refs = tuple([record.id for record in records])
        now = self._ledger.clock()
        jobs = (enrich_job(self._partition, refs, now), *lives_jobs(self._partition, records, known, now))
        return Changes(self._partition, put=records, enqueue=jobs, key=key and f"caller:{key}")

    async def _added_before(self, records: Sequence[Record], key: str) -> list[Record]:
        """Answer a repeated call as before; a different call under its key is a conflict."""
        asked = [record.id for record in records]
        known: dict[str, Record] = {}
        further: Sequence[str] = asked
        while further:
            known |= {record.id: record for record in await self._ledger.get(self._partition, further)}
            further = _further(known, records, asked)
            asked.extend(further)
        found = [_told_by(known, record, key) for record in records]
        if None in found:
            raise Conflict(
                "this idempotency key was used for other memories, or they are gone", field="idempotency_key"
            )
        return [record for record in found if record is not None]

    async def get(self, id: str) -> Record:
        """One memory of any public layer, or `NotFound`."""
        record = await self._ledger.one(self._partition, validate.identifier(id, "id"))
        if not self._is_public(record):
            raise NotFound(field="id")
        return record

    async def get_many(self, ids: Sequence[str]) -> list[Record]:
        """Those of these memories that exist, in the order asked."""
        found = await self._ledger.get(self._partition, [validate.identifier(id, "ids") for id in ids])
        return [record for record in found if self._is_public(record)]

    def _is_public(self, record: Record) -> bool:
        layer = self._ledger.layers.get(record.layer)  # a newer version may have added a layer unknown here
        return layer is not None and layer.public

    async def update(self, edits: Sequence[Edit]) -> list[Record]:
        """Change memories in one commit, all or none; their previous states are kept in their history."""
        if len({edit.id for edit in edits}) != len(edits):
            raise ValidationError("the same memory is changed twice in one call", field="id")
        changed: dict[str, Record] = {}
        put: list[Record] = []

        def decide(known: Mapping[str, Record], now: int) -> Changes | None:
            put.clear()
            past: list[Record] = []
            for edit in edits:
                current = _editable(known, edit, now)
                after = changed[edit.id] = _edited(current, self._ledger.masked(edit.fields))
                if after is not current:
                    put.append(after)
                    past += [_marked(past_of(current, now), now)] if _counts(after, current) else []
            if not put:
                return None
            refs = tuple(each.data["of"] for each in past)
            enriching = (enrich_job(self._partition, refs, now),) if refs else ()
            lives = lives_jobs(self._partition, put, known, now)
            return Changes(self._partition, put=(*put, *past), enqueue=(*enriching, *lives))

        revision = await self._ledger.update_all(self._partition, [edit.id for edit in edits], decide)
        written = {record.id for record in put} if revision is not None else set()
        return [_written(changed[edit.id], edit.id in written) for edit in edits]

    async def history(self, id: str) -> list[Record]:
        """The states of a memory, oldest first, the current one last."""
        return (await self._histories([await self.get(id)]))[0]

    async def histories(self, ids: Sequence[str]) -> list[list[Record]]:
        """The states of each of these memories that exists, in the order asked."""
        return await self._histories(await self.get_many(ids))

    async def _histories(self, records: Sequence[Record]) -> list[list[Record]]:
        past = {entry.id: entry for entry in await past_states(self._ledger, self._partition, records)}
        places = [(record, [id for id in past_ids(record) if id in past]) for record in records]
        return [[*(_from_past(record, past[id]) for id in ids), record] for record, ids in places]

    async def follow_lives(self, job: Job) -> Changes:
        """Let past states live as long as their memories; where a memory is already gone, drop its past states too."""
        for id, edits in zip(job.refs[::2], job.refs[1::2], strict=True):
            past, before = _past_ids(id, int(edits)), None
            # Repeat until nobody has changed the life meanwhile.
            while (life := [head.expires_at for head in await self._ledger.get(self._partition, [id])]) != before:
                if life:
                    await self._ledger.change_each(self._partition, past, _living_until(life[0]))
                else:
                    await self._ledger.drop(self._partition, past)
                before = life
        return Changes(self._partition)


class _Adding:
    """Memories being added: which of them are new, and which repeat a known one."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._put: dict[str, Record] = {}
        self._homes: list[str] = []

    def onto(self, known: Mapping[str, Record], now: int) -> tuple[Record, ...]:
        """What to put, given what is known."""
        self._put, self._homes = {}, []
        held = dict(known)
        for record in self._records:
            stored = _onto(held, record, now)
            self._put[stored.id] = held[stored.id] = stored
            self._homes.append(stored.id)
        return tuple(self._put.values())

    def stored(self, revision: int) -> list[Record]:
        """The memories as they were stored, in the order given."""
        stored = {}
        for place, (id, record) in enumerate(self._put.items()):
            fresh = {"version": revision, "born": (revision, place)}
            stored[id] = record.with_(**(fresh if record.version == 0 else {"version": record.version + 1}))
        return [stored[id] for id in self._homes]


def _onto(known: Mapping[str, Record], record: Record, now: int) -> Record:
    """The record to store: the same text strengthens the known memory; another text under its id is a conflict."""
    home = _home(known, record)
    held = known.get(home)
    if held is None:
        return record if home == record.id else record.with_(id=home)
    # Only ever follow into an older one, so that this ends whatever was imported.
    while (into := known.get(held.data.get("merged_into", ""))) is not None and into.born < held.born:
        held = into
    return _said_again(held, record, now)


def _further(known: Mapping[str, Record], records: Sequence[Record], asked: Sequence[str]) -> list[str]:
    """Further ids to read: a text counts towards what it was merged into, and may be stored under an alternative id."""
    into = [str(record.data.get("merged_into", record.id)) for record in known.values()]
    homes = [_home(known, record) for record in records]
    return [id for id in dict.fromkeys((*into, *homes)) if id not in asked]


def _told_by(known: Mapping[str, Record], record: Record, key: str) -> Record | None:
    """The memory that this call wrote before, whatever became of its text; None if it wrote none of these."""
    call, call_of_then = record.data["keys"][0], _call_of_then(key)
    places = [known[id] for id in takewhile(known.__contains__, _places(record))]
    into = [known[id] for each in places if (id := each.data.get("merged_into", "")) in known]
    if told := [each for each in (*places, *into) if call in each.data.get("keys", ())]:
        return told[0]
    # For a text written over and over only the last calls are known: it is stored, as this call wanted.
    for each in (*places, *into):
        calls = each.data.get("keys", ())
        if _same_text(each, record) and (len(calls) >= KEYS_KEPT or call_of_then in calls):
            return each
    return None


def _call_of_then(key: str) -> str:
    """How 0.1.0 recorded the call of a key, without regard to its text: it may be repeated after an upgrade."""
    return derived_id("key", key)[:KEY_DIGITS]


def _home(known: Mapping[str, Record], record: Record) -> str:
    """The id under which a memory is stored, or is to be."""
    for id in _places(record):
        if id not in known or _same_text(known[id], record):
            return id
    raise Conflict("this id belongs to another memory", field="id")


def _places(record: Record) -> Iterator[str]:
    """The id of a memory; if derived from its text, then also the alternatives used where that one was edited since."""
    yield record.id
    text = normal(record.content)
    if record.id == derived_id(record.layer, text):
        yield from (derived_id(record.layer, text, str(place)) for place in count(1))


def _same_text(known: Record, record: Record) -> bool:
    return known.layer == record.layer and normal(known.content) == normal(record.content)


def _said_again(known: Record, again: Record, now: int) -> Record:
    """The memory after being written again: counted, never weaker, with new metadata added."""
    ended = ("retired", *(("merged_into", "reason", "before_merge") if "merged_into" in known.data else ()))
    kept = {name: value for name, value in known.data.items() if name not in ended}
    keys = [*known.data.get("keys", ()), *again.data["keys"]][-KEYS_KEPT:]
    told = {"seen": known.data.get("seen", 1) + 1, "last_seen": iso(now), TOUCHED_AT: now, "keys": keys}
    return known.with_(
        data=kept | dict(again.data) | told,
        metadata=_joined(known, again),
        importance=max(known.importance, again.importance) if again.data.get("rated") else known.importance,
        confidence=max(known.confidence, again.confidence),
        valid_to=None,
        expires_at=_longer(known.expires_at, again.expires_at),
        trust=again.trust if known.trust == "untrusted" else known.trust,
    )


def _longer(life: int | None, other: int | None) -> int | None:
    return None if life is None or other is None else max(life, other)


def _editable(known: Mapping[str, Record], edit: Edit, now: int) -> Record:
    """The memory as it stands, if this edit may be applied to it."""
    if (expires_at := edit.fields.get("expires_at")) is not None:
        _ahead(expires_at, now)
    current = known.get(edit.id)
    if current is None or current.layer == "past":
        raise NotFound(field="id")
    validate.choice(current.layer, ADDABLE, "layer")
    if edit.version is not None and not _unedited_since(current, edit.version):
        raise Conflict("it changed since it was read; get it again", field="version")
    return current


def _written(record: Record, written: bool) -> Record:
    """The record, with its new version if a change of it was written."""
    return record.with_(version=record.version + 1) if written else record


def _counts(changed: Record, current: Record) -> bool:
    """Whether a change is an edit, which the history keeps; a change of how long a memory lives is not."""
    return bool(changed.data != current.data)


def _ahead(expires_at: int, now: int) -> int:
    if expires_at <= now:
        raise ValidationError("must be in the future", field="expires_at")
    return expires_at


def _joined(known: Record, again: Record) -> dict[str, Any]:
    """The metadata of both, where the older wins; only the older where both are too much for one record."""
    try:
        return validate.metadata(dict(again.metadata) | dict(known.metadata))
    except ValidationError:
        return dict(known.metadata)


def _edited(record: Record, fields: Mapping[str, Any]) -> Record:
    """The record with these fields, counted as one more edit unless only its lifetime changes.

    The record itself when it already has them.
    """
    changes = {name: value for name, value in fields.items() if getattr(record, name) != value}
    data = dict(record.data) | ({"rated": True} if "importance" in fields else {})
    if data == record.data and changes.keys() <= {"expires_at"}:
        return record.with_(**changes) if changes else record
    if "content" in changes:
        changes["vector"] = None
    data |= {"edits": record.data.get("edits", 0) + 1, "edited": record.version + 1}
    return record.with_(data=data, **changes)


def _unedited_since(record: Record, version: int) -> bool:
    """Whether nobody edited it after that version was read: what enrichment writes is not an edit."""
    edited: int = record.data.get("edited", 0)
    return max(record.born[0], edited) <= version <= record.version


def past_of(record: Record, now: int) -> Record:
    """The previous state of a record, kept beside its successor and committed with it."""
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
        expires_at=record.expires_at,
        source=record.source,
        trust=record.trust,
    )


def _marked(past: Record, now: int) -> Record:
    """A past state, marked to differ from that of an equal edit which another process makes at the same moment."""
    return past.with_(data={**past.data, "call": new_id(now)[-KEY_DIGITS:]})


def past_ids(record: Record, later: int = 0) -> list[str]:
    """The ids of a record's past states, one for each edit, oldest first, and of `later` edits to come."""
    return _past_ids(record.id, record.data.get("edits", 0) + later)


async def drop_past(ledger: Ledger, partition: Partition, records: Iterable[Record]) -> None:
    """Drop the past states of records that are made again under their ids: they would be in the way of later edits."""
    await ledger.drop(partition, [*dict.fromkeys(id for record in records for id in past_ids(record))])


async def past_states(ledger: Ledger, partition: Partition, records: Iterable[Record]) -> list[Record]:
    """The past states of records, oldest first. Ids can be chosen, so another memory may be in the place of one."""
    found = await ledger.get(partition, [id for record in records for id in past_ids(record)])
    return [entry for entry in found if entry.layer == "past"]


def _past_ids(id: str, edits: int) -> list[str]:
    return [derived_id("past", id, str(edit)) for edit in range(1, edits + 1)]


def lives_jobs(partition: Partition, put: Sequence[Record], known: Mapping[str, Record], now: int) -> tuple[Job, ...]:
    """The job that gives past states the life that their memories have now, where that has changed."""
    refs: list[str] = []
    for record in put:
        edits, before = record.data.get("edits", 0), known.get(record.id)
        if edits and before is not None and before.expires_at != record.expires_at:
            refs += (record.id, str(edits))
    return (Job(f"lives:{new_id(now)}", partition, "lives", tuple(refs), now),) if refs else ()


def _living_until(expires_at: int | None) -> Change:
    return lambda entry: entry.with_(expires_at=expires_at)


def _from_past(record: Record, entry: Record) -> Record:
    return entry.with_(
        id=record.id,
        layer=record.layer,
        data=entry.data["data"],
        version=entry.data["version"],
        born=record.born,
    )
