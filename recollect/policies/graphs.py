"""How the entity graph grows: which entity a name means, what a telling changes, how a merge is undone.

An entity is stored under an id that is derived from its name, and under the id of each of its other
names there is a record that points to it. So a name is found by reading one id, and two writers who
give one name to two things collide in the store. A merged entity is such a pointer as well: it is ended
and names the one it went into. Its relations are not rewritten but read as those of the other, which
is why a merge can be undone exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.layers import LAYERS
from recollect.policies.merging import OF_MERGED, normal
from recollect.records import Changes, Record, Scope, Source, derived_id, enrich_jobs, with_data, without_data

USER = "user"
"""The name that stands for the user."""
THING = "thing"
"""The type of an entity when nobody has said what it is. It is compatible with every other type."""
SINGLE_VALUED = frozenset({"lives_in", "works_at", "married_to", "born_in"})
"""Relations of which only one holds at a time: a new one ends the one before."""
SAID_BY_FACTS = {"lives_in": "city", "works_at": "employer", "partner": "partner", "drives": "vehicle"}
"""Relations of the user that are facts as well, and under which key."""
TOLD_AGAIN = 0.3
"""How much of the remaining doubt a second telling removes, if it is certain itself."""
MESSAGES_KEPT = 32
"""How many messages a record remembers that told it: read again they do not count, and without them it goes."""
ANOTHER_BEGAN, NO_LONGER, AS_THE_PROFILE = "another one began", "no longer so", "the profile says so"
HELD_KEPT = 20
"""How many values of a single-valued relation the subject remembers. Nobody moves house more often than that."""

# Types that rules and models call by several names. Any other type is compatible with itself alone.
_FAMILIES = {
    "person": "human man woman child friend colleague relative contact",
    "place": "location city town village country region state address",
    "organization": "organisation org company business employer team school university institution",
    "animal": "pet dog cat",
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in (family, *names.split())}

BETWEEN_MAX = 400
"""Maximum relations checked when one between merged entities ends: twenty merged on each side."""
EARLIEST = -(2**62)
"""Earlier than any time: the start of whatever has no known start."""

Read = Callable[[str], Record | None]
LookUp = Callable[[Sequence[str]], Sequence[str]]
"""Supplies what is at hand of these ids, and returns those that have to be read."""


class Unread(Exception):
    """These records have to be read before anything can be decided."""

    def __init__(self, ids: Iterable[str]) -> None:
        super().__init__()
        self.ids = tuple(ids)


class Sheet:
    """What is known and what is to be written, while a change to a graph is being decided.

    Asking for a record that nobody has read, and that is not at hand, raises `Unread`: the caller reads it and
    decides again.
    """

    def __init__(
        self, scope: Scope, known: Mapping[str, Record], asked: Collection[str], now: int, look_up: LookUp = tuple
    ) -> None:
        self.scope = scope
        self.now = now
        self.written: dict[str, Record] = {}
        self.rests_on: dict[str, None] = {}
        self._known = known
        self._asked = asked
        self._look_up = look_up
        self._ids: dict[tuple[str, str], tuple[str, ...]] = {}

    def need(self, *ids: str) -> None:
        """Make sure that all of these have been read: one look-up in the store instead of several."""
        unread = [id for id in dict.fromkeys(ids) if id not in self._asked]
        if unread and (unread := list(self._look_up(unread))):
            raise Unread(unread)

    def get(self, id: str) -> Record | None:
        """The record as it will be after the change; None if there is none."""
        if id not in self._asked:
            self.need(id)
        return self.written.get(id) or self._known.get(id)

    def entity(self, id: str) -> Record:
        """A record that is known to exist."""
        record = self.get(id)
        assert record is not None
        return record

    def put(self, record: Record) -> None:
        if record != self.get(record.id):
            self.written[record.id] = record

    def ids_of(self, name: str, type: str) -> tuple[str, ...]:
        """The ids under which an entity of this name and type may be stored: cached, as they are asked for often."""
        if (name, type) not in self._ids:
            self._ids[name, type] = name_ids(self.scope, name, type)
        return self._ids[name, type]

    def changes(self, needs: Iterable[str] = ()) -> Changes | None:
        """What is to be written, in one commit; None if nothing is."""
        if not self.written:
            return None
        partition = self.scope.partition
        put = tuple(self.written.values())
        rests_on = tuple(id for id in dict.fromkeys((*needs, *self.rests_on)) if id not in self.written)
        # An entity whose line is new has to be embedded; a job does that later.
        refs = tuple(record.id for record in put if record.layer == "entity" and record.content and not record.vector)
        return Changes(partition, put=put, enqueue=enrich_jobs(partition, refs, self.now), needs=rests_on)


@dataclass(frozen=True, slots=True)
class Telling:
    """That somebody said so: how sure it is, where it was said, and from when to when it holds.

    `said` is when it was said, if it was read from a message.
    """

    start: int = EARLIEST
    end: int | None = None
    confidence: float = 1.0
    source: Source | None = None
    trust: str = "trusted"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    said: int | None = None

    @property
    def messages(self) -> list[str]:
        """The message it came from, as records remember it."""
        return [self.source.message_id] if self.source and self.source.message_id else []

    def is_known_to(self, record: Record) -> bool:
        """True when the record has already counted this very message."""
        return any(id in record.data.get("messages", ()) for id in self.messages)


# ── Names ────────────────────────────────────────────────────────────────────────────────────────


def name_id(scope: Scope, name: str, type: str = THING) -> str:
    """The id that belongs to a name.

    The name alone determines it, so that everybody finds the same entity without knowing its type. Only
    when that place is taken by something of another type ("Paris", the person) does the type count.
    """
    key = normal(name) if type == THING else derived_id(normal(name), _FAMILY.get(type, type))
    return LAYERS["entity"].head_id(scope, key)


def name_ids(scope: Scope, name: str, type: str) -> tuple[str, ...]:
    """The ids under which an entity of this name and type may be stored, in the order to look."""
    return tuple(dict.fromkeys((name_id(scope, name), name_id(scope, name, type))))


def go_together(a: str, b: str) -> bool:
    """True when two types may belong to one entity.

    >>> go_together("city", "place"), go_together("thing", "person"), go_together("person", "place")
    (True, True, False)
    """
    return THING in (a, b) or _FAMILY.get(a, a) == _FAMILY.get(b, b)


def root(read: Read, id: str) -> Record | None:
    """The entity that an id means now, after all merges."""
    seen: set[str] = set()
    found = None
    while id not in seen and (record := read(id)) is not None and is_whole(record) and record.layer == "entity":
        seen.add(id)
        found = record
        id = record.data.get("merged_into", id)
    # Whatever was imported: a name that points nowhere is not an entity, and a merge that does is undone.
    return None if found is None or found.data.get("alias") or is_undone(found) else found


def is_undone(entity: Record) -> bool:
    """True for an entity that was learned and is no longer believed; not for one that went into another."""
    return entity.valid_to is not None and "merged_into" not in entity.data


def owner(sheet: Sheet, name: str, type: str = THING) -> Record | None:
    """The entity that goes by this name and may be of this type."""
    ids = sheet.ids_of(name, type)
    sheet.need(*ids)
    found = (root(sheet.get, id) for id in ids)
    return next((entity for entity in found if entity and go_together(entity.data["type"], type)), None)


def _free_id(sheet: Sheet, name: str, type: str) -> str:
    """The id for a new entity or another name; the name has no owner of this type."""
    first, *typed = sheet.ids_of(name, type)
    return typed[0] if typed and root(sheet.get, first) else first


def _version(sheet: Sheet, id: str) -> int:
    """The version to overwrite, when the record there no longer points to anything."""
    held = sheet.get(id)
    return held.version if held is not None and held.layer == "entity" else 0


# ── Tellings ─────────────────────────────────────────────────────────────────────────────────────


def surer(known: float, again: float) -> float:
    """The confidence in what was told twice: never less than that of either telling.

    >>> surer(0.6, 0.8), surer(1.0, 0.5)
    (0.848, 1.0)
    """
    most = max(known, again)
    return round(most + (1 - most) * TOLD_AGAIN * again, 4)


def tell_entity(
    sheet: Sheet, known: Record | None, name: str, type: str, aliases: Sequence[str], telling: Telling
) -> Record:
    """Record that there is an entity of this name, known or not, with these other names."""
    if known is None:
        id = _free_id(sheet, name, type)
        data = {"names": [name], "type": type, "seen": 1, "messages": telling.messages}
        entity = Record(id, "entity", sheet.scope, created_at=sheet.now, data=data, version=_version(sheet, id))
        entity = entity.with_(
            event_at=telling.said, confidence=telling.confidence, source=telling.source, trust=telling.trust
        )
        # It must exist before its other names can point to it.
        sheet.put(entity)
    else:
        entity = _counted(known, telling)
    entity = entity.with_(metadata={**entity.metadata, **telling.metadata})
    return name_entity(sheet, entity, (name, *aliases), type, telling)


def name_entity(
    sheet: Sheet, entity: Record, names: Sequence[str], type: str = THING, telling: Telling | None = None
) -> Record:
    """The entity with those of these names that are still free, and with a type if it had none."""
    kind = type if entity.data["type"] == THING else entity.data["type"]
    all_names = [*entity.data["names"], *_new_names(sheet, entity, names, kind, telling or Telling())]
    sheet.put(worded(with_data(entity, names=all_names, type=kind)))
    return sheet.entity(entity.id)


def _new_names(sheet: Sheet, entity: Record, names: Sequence[str], type: str, telling: Telling) -> list[str]:
    """The names that are still free, each pointing to the entity from now on."""
    added = []
    for name in names:
        if owner(sheet, name, type) is None:
            id = _free_id(sheet, name, type)
            data = {"names": [name], "type": THING, "alias": True, **_into(entity.id, None, "another name")}
            data |= {"messages": telling.messages} if telling.messages else {}
            pointer = Record(id, "entity", sheet.scope, data=data, created_at=sheet.now, valid_to=sheet.now)
            sheet.put(pointer.with_(version=_version(sheet, id), source=telling.source))
            added.append(name)
    return added


def worded(entity: Record) -> Record:
    """The entity with the line that search and context read: "Ana (person), also Anita"."""
    name, *others = entity.data["names"]
    type = entity.data["type"]
    kind = "" if type == THING or normal(name) == USER else f" ({type.replace('_', ' ')})"
    content = f"{name}{kind}{', also ' if others else ''}{', '.join(others)}"
    return entity if content == entity.content else entity.with_(content=content, vector=None)


def _counted(record: Record, telling: Telling) -> Record:
    """The record after one more telling; the same message counts once."""
    if telling.is_known_to(record):
        return record
    messages = [*record.data.get("messages", ()), *telling.messages][-MESSAGES_KEPT:]
    data = {**record.data, "seen": record.data.get("seen", 1) + 1, "messages": messages}
    return record.with_(data=data, confidence=surer(record.confidence, telling.confidence))


def relation_id(subject: str, relation: str, object: str) -> str:
    """The id of a relation between two entities."""
    return derived_id("relation", subject, relation, object)


def tell_relation(sheet: Sheet, subject: str, relation: str, object: str, telling: Telling) -> Record:
    """Record that two entities are related like this. Telling it again makes it surer or longer.

    A relation of which only one holds at a time ends the one before, and itself ends where a later one
    begins, if it was told late.
    """
    id = relation_id(subject, relation, object)
    sheet.need(id, *_held(sheet, subject, relation))
    head = sheet.get(id)
    if head is not None and telling.is_known_to(head):
        return head
    sheet.rests_on |= dict.fromkeys((subject, object))
    end = telling.end
    if relation in SINGLE_VALUED and end is None:
        telling = _after_what_was_said(sheet, subject, relation, id, telling)
        end = _make_way(sheet, subject, relation, id, telling)
    if head is None or head.layer != "relation":
        names = [sheet.entity(end_id).data["names"][0] for end_id in (subject, object)]
        data = {"subject": subject, "relation": relation, "object": object, "names": names}
        content = f"{names[0]} {relation.replace('_', ' ')} {names[1]}"
        head = Record(id, "relation", sheet.scope, content, {**data, "seen": 1, "messages": telling.messages})
        head = _during(head, telling.start, end).with_(created_at=sheet.now, event_at=telling.said, trust=telling.trust)
        sheet.put(head.with_(confidence=telling.confidence, source=telling.source))
    else:
        for record in _told_again(_counted(head, telling), telling, end):
            sheet.put(record)
    _hold(sheet, subject, relation, id)
    return sheet.entity(id)


def _told_again(head: Record, telling: Telling, end: int | None) -> list[Record]:
    """The relation with one more period: joined to the one it has, or beside it, with the earlier as its past."""
    since, over, start = began(head), head.valid_to, telling.start
    bare = without_data(head, *_OF_END)
    begun = {"began_by": telling.messages}
    if is_void(head):
        return [_during(with_data(bare, **begun), start, end)]
    if (over is None or start <= over) and (end is None or since <= end):
        return [_during(bare, min(since, start), end)]
    edited = {"edits": head.data.get("edits", 0) + 1}
    if over is not None and start > over:
        return [_during(with_data(bare, **edited, **begun), start, end), period_of(head)]
    earlier = _during(with_data(head, **begun), start, end)
    return [with_data(head, **edited), period_of(earlier)]


def _during(record: Record, start: int, end: int | None) -> Record:
    return record.with_(valid_from=None if start == EARLIEST else start, valid_to=end)


def period_of(relation: Record) -> Record:
    """A period of a relation that is over, kept beside the one in the relation itself."""
    edits = relation.data.get("edits", 0)
    data = {"of": relation.id, "version": relation.version, "data": dict(relation.data), "layer": relation.layer}
    id = derived_id("past", relation.id, str(edits + 1))
    return relation.with_(id=id, layer="past", data=data, version=0, born=(0, 0))


def _after_what_was_said(sheet: Sheet, subject: str, relation: str, id: str, telling: Telling) -> Telling:
    """The telling, starting no earlier than what was said before: "I moved last week" is newer than "I live in Oslo".

    People seldom say since when they have lived somewhere, so that its start is only when they said so.
    """
    if telling.said is None:
        return telling
    others = [record for each in _held(sheet, subject, relation) if each != id and (record := sheet.get(each))]
    starts = [began(other) for other in others if other.valid_to is None and began(other) < telling.said]
    return replace(telling, start=max([telling.start, *starts]))


def _make_way(sheet: Sheet, subject: str, relation: str, id: str, telling: Telling) -> int | None:
    """End what held before at the start of the new one. Return when the new one is over, if that is known."""
    others = [record for each in _held(sheet, subject, relation) if each != id and (record := sheet.get(each))]
    start = telling.start
    for other in others:
        if holds(other, start):
            sheet.put(ended(other, start, ANOTHER_BEGAN, telling.messages))
    return min((began(other) for other in others if began(other) > start and not is_void(other)), default=None)


def _held(sheet: Sheet, subject: str, relation: str) -> list[str]:
    held: list[str] = sheet.entity(subject).data.get("held", {}).get(relation, [])
    return held


def _hold(sheet: Sheet, subject: str, relation: str, id: str) -> None:
    """Let the subject remember a value of a single-valued relation, so that the next one can end it."""
    held = _held(sheet, subject, relation)
    if relation in SINGLE_VALUED and id not in held:
        entity = sheet.entity(subject)
        all_held = {**entity.data.get("held", {}), relation: [*held, id][-HELD_KEPT:]}
        sheet.put(with_data(entity, held=all_held))


def end_told(
    sheet: Sheet, subject: str, relation: str, object: str | None, at: int, reason: str, by: Sequence[str] = ()
) -> None:
    """End what holds between two entities at a given time; without an object, whatever holds where only one can.

    Where many can hold, it is not known which one is meant without its object, and nothing ends.
    """
    for held in _holding(sheet, _between(sheet, subject, relation, object), at):
        sheet.put(ended(held, at, reason, by))


def take_back(
    sheet: Sheet, subject: str, relation: str, object: str | None, right: str, at: int, by: Sequence[str] = ()
) -> None:
    """The same for what was never true, sparing what is right: no time is left at which it holds."""
    spared = _between(sheet, subject, relation, right)
    ids = [id for id in _between(sheet, subject, relation, object) if id not in spared]
    for held in _holding(sheet, ids, at):
        never = at if held.valid_from is None else held.valid_from
        sheet.put(ended(held, never, "it was never so", by).with_(valid_from=never))


def _between(sheet: Sheet, subject: str, relation: str, object: str | None) -> list[str]:
    """The ids of what may have been told about two entities, including under those that were merged into them."""
    subjects = family(sheet.get, sheet.entity(subject))
    if object is None:
        return [id for each in subjects for id in each.data.get("held", {}).get(relation, ())]
    objects = family(sheet.get, sheet.entity(object))
    return [relation_id(one.id, relation, other.id) for one in subjects for other in objects][:BETWEEN_MAX]


def _holding(sheet: Sheet, ids: Sequence[str], at: int) -> list[Record]:
    sheet.need(*ids)
    found = (sheet.get(id) for id in ids)
    return [record for record in found if record is not None and record.layer == "relation" and holds(record, at)]


# ── Time ─────────────────────────────────────────────────────────────────────────────────────────


def began(record: Record) -> int:
    """When a relation began; one without a known start has always held."""
    return EARLIEST if record.valid_from is None else record.valid_from


def holds(record: Record, at: int) -> bool:
    """True when a relation holds at a given time: from its first millisecond on, no longer in its last."""
    return began(record) <= at and (record.valid_to is None or at < record.valid_to)


def is_void(record: Record) -> bool:
    """True when there is no time at which it holds: it was taken back."""
    return record.valid_to is not None and record.valid_to <= began(record)


_OF_END = ("reason", "ended_by", "before_end")
"""What the data of a relation says about its end."""


def ended(relation: Record, at: int, reason: str, by: Sequence[str] = ()) -> Record:
    """The relation, ended at this time and for this reason; with the messages that say so, if any do."""
    over = with_data(without_data(relation, *_OF_END), reason=reason).with_(valid_to=at)
    return with_data(over, ended_by=list(by), before_end=[relation.valid_from, relation.valid_to]) if by else over


def held_again(relation: Record) -> Record:
    """The relation without its end."""
    return without_data(relation, *_OF_END).with_(valid_to=None)


def reopened(relation: Record) -> Record:
    """The relation as it was before a message ended it."""
    valid_from, valid_to = relation.data["before_end"]
    return without_data(relation, *_OF_END).with_(valid_from=valid_from, valid_to=valid_to)


# ── Merges ───────────────────────────────────────────────────────────────────────────────────────


def merge(sheet: Sheet, kept: Record, other: Record, reason: str) -> None:
    """Merge one entity into another. Only these two are written."""
    sheet.put(with_data(kept, absorbed=[*kept.data.get("absorbed", ()), other.id]))
    data = {**other.data, **_into(kept.id, other.valid_to, reason)}
    sheet.put(other.with_(data=data, valid_to=sheet.now))


def without_absorbed(entity: Record, id: str) -> Record:
    """An entity that no longer says that this one went into it."""
    rest = [each for each in entity.data.get("absorbed", ()) if each != id]
    return with_data(entity, absorbed=rest) if rest else without_data(entity, "absorbed")


def undo_merge(sheet: Sheet, other: Record) -> None:
    """Restore both entities as they were; what was told about the kept one since then stays with it."""
    kept = sheet.get(other.data["merged_into"])
    if kept is not None:
        sheet.put(without_absorbed(kept, other.id))
    sheet.put(unmerged(other))


def unmerged(other: Record) -> Record:
    """A merged entity as it was before."""
    return without_data(other, *OF_MERGED).with_(valid_to=other.data["before_merge"]["valid_to"])


def _into(id: str, valid_to: int | None, reason: str) -> dict[str, Any]:
    """What an ended entity says about where it went, in the same form as for merged memories."""
    return {"merged_into": id, "reason": reason, "before_merge": {"valid_to": valid_to, "data": {}}}


def family(read: Read, entity: Record) -> list[Record]:
    """An entity and all that were merged into it, itself first."""
    found, seen = [entity], {entity.id}
    for each in found:
        further = [id for id in each.data.get("absorbed", ()) if id not in seen]
        seen.update(further)
        found += [record for id in further if (record := read(id)) is not None and is_whole(record)]
    return found


def names_of(read: Read, entity: Record) -> list[str]:
    """All names of an entity, its own first, then those of what was merged into it."""
    names: dict[str, str] = {}
    for each in family(read, entity):
        for name in each.data["names"]:
            names.setdefault(normal(name), name)
    return list(names.values())


def rests_on(record: Record) -> tuple[str, ...]:
    """The entities without which a record of the graph says nothing: when one of them is forgotten, it goes too."""
    told = record.data.get("data", {}) if record.layer == "past" else record.data
    names = ("merged_into",) if record.layer == "entity" else ("subject", "object")
    return tuple(told[name] for name in names if name in told)


def is_whole(record: Record) -> bool:
    """True when a record of the graph has all that is read from it: somebody else may have written it."""
    told = record.data.get("data", {}) if record.layer == "past" else record.data
    texts = ("type",) if record.layer == "entity" else ("subject", "relation", "object")
    names = told.get("names")
    return (
        all(isinstance(told.get(name), str) for name in texts)
        and isinstance(names, list)
        and bool(names)
        and all(isinstance(name, str) for name in names)
    )
