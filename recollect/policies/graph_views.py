"""The entity graph as people see it: entities with all their names, relations with every merge applied.

Merges are applied here, when the graph is read, and only here. Identity has no date: entities that are
one today are one in every view of the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.layers import own_data
from recollect.policies import graphs
from recollect.policies.graphs import THING, Read
from recollect.policies.naming import Text
from recollect.records import Record, Source, iso


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something, with all names it goes by. `merged_into` is set when it went into another."""

    id: str
    name: str
    type: str = THING
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 1.0
    created_at: int = 0
    source: Source | None = None
    merged_into: str | None = None

    @classmethod
    def of(cls, record: Record, read: Read) -> Entity:
        """The entity of a record; `read` returns the records that were merged into it."""
        name, *aliases = graphs.names_of(read, record)
        return cls(
            record.id,
            name,
            record.data["type"],
            tuple(aliases),
            record.apart().metadata if record.metadata else {},
            record.confidence,
            record.created_at,
            record.source,
            record.data.get("merged_into"),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "type": self.type,
            "aliases": list(self.aliases),
            "metadata": dict(self.metadata),
            "confidence": self.confidence,
            "created_at": iso(self.created_at),
            "source_message_id": self.source.message_id if self.source else None,
            "merged_into": self.merged_into,
        }


@dataclass(frozen=True, slots=True)
class Relation:
    """How a subject and an object are related, and from when to when. Both ends are ids, with their names alongside.

    Its times are those of its record: milliseconds since 1970, which `recollect.records.as_datetime` reads.
    """

    id: str
    subject: str
    relation: str
    object: str
    names: tuple[str, str]
    confidence: float = 1.0
    valid_from: int | None = None
    valid_to: int | None = None
    source: Source | None = None
    reason: str | None = None

    @classmethod
    def of(cls, record: Record, subject: Entity, object: Entity) -> Relation:
        """The relation of a record, or of one of its earlier periods, between entities as they are now."""
        told = own_data(record)
        return cls(
            record.data["of"] if record.layer == "past" else record.id,
            subject.id,
            told["relation"],
            object.id,
            (subject.name, object.name),
            record.confidence,
            record.valid_from,
            record.valid_to,
            record.source,
            told.get("reason"),
        )

    @property
    def content(self) -> str:
        """The relation as a line: "Ana lives in Oslo"."""
        return f"{self.names[0]} {self.relation.replace('_', ' ')} {self.names[1]}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "subject": {"id": self.subject, "name": self.names[0]},
            "relation": self.relation,
            "object": {"id": self.object, "name": self.names[1]},
            "content": self.content,
            "confidence": self.confidence,
            "valid_from": iso(self.valid_from),
            "valid_to": iso(self.valid_to),
            "source_message_id": self.source.message_id if self.source else None,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Entities, the nearest first, and the relations between them."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "entities": [entity.to_dict() for entity in self.entities],
            "relations": [relation.to_dict() for relation in self.relations],
        }


def said_between(graph: Neighbourhood) -> dict[tuple[str, str], str]:
    """By the two ends of relations, from one to the other, everything that relates them."""
    said: dict[tuple[str, str], list[str]] = {}
    for relation in graph.relations:
        said.setdefault((relation.subject, relation.object), []).append(relation.relation.replace("_", " "))
    return {ends: ", ".join(words) for ends, words in said.items()}


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge, by the id of the entity that ended: `undo_merge` takes it back."""

    id: str
    kept: Entity
    other: Entity

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "kept": self.kept.to_dict(), "other": self.other.to_dict()}


class Web:
    """A graph as it is read: with every merge applied, wherever its records come from."""

    def __init__(self, records: Iterable[Record]) -> None:
        held = [record for record in records if record.trust != "quarantined" and graphs.is_whole(record)]
        self._records = {record.id: record for record in held if record.layer == "entity"}
        self._told = [record for record in held if record.layer != "entity"]
        self._roots: dict[str, Record | None] = {}
        self._views: dict[str, Entity] = {}

    def entity(self, id: str) -> Entity | None:
        """The entity that an id means now."""
        record = self._root(id)
        return None if record is None else self.view(record)

    def view(self, root: Record) -> Entity:
        """The entity of a record that is not merged into another."""
        if root.id not in self._views:
            self._views[root.id] = Entity.of(root, self._records.get)
        return self._views[root.id]

    def _root(self, id: str) -> Record | None:
        if id not in self._roots:
            self._roots[id] = graphs.root(self._records.get, id)
        return self._roots[id]

    def roots(self) -> list[Record]:
        """The records of all entities that are not merged into another, in order of birth."""
        return [record for id, record in self._records.items() if self._root(id) is record]

    def entities(self) -> list[Entity]:
        """All entities that are not merged into another, in order of birth."""
        return [self.view(record) for record in self.roots()]

    def named_in(self, text: str) -> list[Entity]:
        """The entities that a text names, by any of their names, in the order in which it names them."""
        words = Text(text)
        found = [(words.first([entity.name, *entity.aliases]), entity) for entity in self.entities()]
        named = [(place, entity) for place, entity in found if place is not None]
        return [entity for _, entity in sorted(named, key=lambda each: each[0])]

    def relations(self, at: int | None) -> list[Relation]:
        """What holds at a given time, in order of birth; None returns every period there ever was."""
        return [view for _, view in self.told(at)]

    def told(self, at: int | None) -> list[tuple[Record, Relation]]:
        """The same with the records that say so."""
        return [(record, self.relation(record)) for record in self.telling(at)]

    def telling(self, at: int | None, entity: str | None = None) -> list[Record]:
        """The records that tell them, all or those of one entity: none of them is viewed yet."""
        known = [(record, ends) for record in self._told if (ends := self._ends(record)) is not None]
        if at is None:
            return [record for record, ends in known if entity is None or entity in ends]
        found: dict[tuple[str, ...], tuple[int, Record, tuple[str, str]]] = {}
        for record, ends in known:
            if not graphs.holds(record, at):
                continue
            # Where two entities became one, a relation may occur twice, and a single-valued one with two values.
            name = str(own_data(record)["relation"])
            key = (ends[0], name) if name in graphs.SINGLE_VALUED else (ends[0], name, ends[1])
            began = graphs.began(record)
            if key not in found or began >= found[key][0]:
                found[key] = began, record, ends
        return [record for _, record, ends in found.values() if entity is None or entity in ends]

    def relation(self, record: Record) -> Relation:
        """The relation of one of these records, between the entities as they are now."""
        told = own_data(record)
        subject, object = self._root(told["subject"]), self._root(told["object"])
        assert subject is not None and object is not None, "only those are told that have two ends"
        return Relation.of(record, self.view(subject), self.view(object))

    def _ends(self, record: Record) -> tuple[str, str] | None:
        """The ids of the entities that it is between now; None if one is gone or both have become one."""
        told = own_data(record)
        subject, object = self._root(told["subject"]), self._root(told["object"])
        if subject is None or object is None or (subject.id == object.id and told["subject"] != told["object"]):
            return None
        return subject.id, object.id

    def neighbours(self, start: Entity, depth: int, at: int, limit: int) -> Neighbourhood:
        """What can be reached in `depth` steps, the nearest first."""
        held = self.relations(at)
        beside: dict[str, list[str]] = {}
        for relation in held:
            beside.setdefault(relation.subject, []).append(relation.object)
            beside.setdefault(relation.object, []).append(relation.subject)
        reached = {start.id: None}
        edge = [start.id]
        for _ in range(depth):
            edge = list(dict.fromkeys(id for each in edge for id in beside.get(each, ()) if id not in reached))
            edge = edge[: limit - len(reached)]
            reached |= dict.fromkeys(edge)
        others = (entity for id in reached if id != start.id and (entity := self.entity(id)) is not None)
        relations = tuple(each for each in held if each.subject in reached and each.object in reached)
        return Neighbourhood((start, *others), relations)
