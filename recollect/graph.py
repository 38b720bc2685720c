"""The entity graph of a user or an org: entities with their aliases, and their relations over time.

    graph = Graph(ledger, scope)
    await graph.relate("user", "works_at", "Acme")
    await graph.relate("Ana", "lives_in", "Oslo", valid_from="2020-01-01")
    await graph.relate("Ana", "lives_in", "Bergen")       # Oslo is over now, and kept
    await graph.neighbours("Ana", depth=2, at="2021-06-01")

Reads take merges into account: a merged entity's relations and names belong to the entity it was
merged into, for as long as the merge stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from recollect import validate
from recollect.cursors import page_of
from recollect.enrich import Found
from recollect.errors import Conflict, NotFound, RecollectError, TooLarge, ValidationError
from recollect.handles import Handle
from recollect.layers import GRAPH_LAYERS
from recollect.ledger import Ledger
from recollect.long_term import past_states
from recollect.pace import apart
from recollect.policies import graphs
from recollect.policies.graph_views import Entity, Merge, Neighbourhood, Relation, Web
from recollect.policies.graphs import EARLIEST, THING, USER, Sheet, Telling, Unread
from recollect.policies.merging import normal
from recollect.records import Changes, Record, Scope, Source

NAME_CHARS = 128
"""Characters in a name. Anything longer is a sentence, and names appear in every line about an entity."""
ALIASES_MAX = 20
"""Aliases of an entity: each has a record of its own, and all are written in one commit."""
ABSORBED_MAX = 50
"""Entities merged into one: their names are read with it whenever it is shown."""
WORD_CHARS = 64
"""Characters in a relation's name or a type: words that people read, such as `works_at`."""
DEPTH_MAX = 4
"""Steps of a walk: with five, almost any two entities of a graph are neighbours."""
NEIGHBOURS, NEIGHBOURS_MAX = 50, 500
"""Entities per walk: as many as a prompt can use, and as many as a picture can show."""
APPLIED_PUTS = 40
"""Records written per round of learning, so that they fit one commit with everything else it learned."""

_WORD = re.compile(r"[^\W\d_]\w*\Z")
_ID = re.compile(r"[0-9a-f]{28}\Z")

Result = TypeVar("Result")


Ref = Entity | Merge | str
"""An entity, its id, one of its names, or "user" for the user themself."""


class Graph(Handle):
    """The entity graph of one user, or of an org where the scope names no user.

    >>> from recollect import Memory
    >>> async with Memory.open("memory://") as memory:
    ...     graph = memory.user("ann").graph
    ...     relation = await graph.relate("Ida", "works_at", "Acme")
    ...     print([relation.content for relation in await graph.relations("Ida")])
    ['Ida works at Acme']
    """

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self._ledger = ledger
        self._scope = Scope(scope.org, scope.user)
        self._partition = self._scope.partition

    async def add_entity(
        self,
        name: str,
        *,
        type: str = THING,
        aliases: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        confidence: float = 1.0,
        source: Source | None = None,
    ) -> Entity:
        """Add an entity. An existing one with this name or an alias, and a compatible type, is the same entity."""
        telling = _telling(self._ledger.clock(), confidence, source, metadata=self._ledger.masked(metadata))
        names = [self._name(name, "name"), *self._other_names(aliases, "aliases")]
        kind = "person" if self._is_user(name) else _word(type, "type")

        def decide(sheet: Sheet) -> Entity:
            return Entity.of(_tell_entity(sheet, names, kind, telling), sheet.get)

        return await self._write(decide)

    async def add_alias(self, entity: Ref, alias: str) -> Entity:
        """Give an entity another name; a name that another entity has is a `Conflict`: merge the two."""
        (name,) = self._other_names([alias], "alias")

        def decide(sheet: Sheet) -> Entity:
            known = self._known(sheet, entity, "entity")
            holder = graphs.owner(sheet, name, known.data["type"])
            if holder is not None and holder.id != known.id:
                raise Conflict("another entity goes by this name; merge the two", field="alias")
            return Entity.of(_within_limits(graphs.name_entity(sheet, known, [name])), sheet.get)

        return await self._write(decide)

    async def get(self, id: str) -> Entity:
        """The entity with an id, even if it has since been merged into another."""
        asked = validate.identifier(id, "id")

        def decide(sheet: Sheet) -> Entity:
            record = sheet.get(asked)
            if record is not None and record.data.get("alias"):
                record = graphs.root(sheet.get, asked)
            if record is None or record.layer != "entity" or not graphs.is_whole(record):
                raise NotFound(field="id")
            return Entity.of(record, sheet.get)

        return await self._read(decide)

    async def find(self, name: str, *, type: str = THING) -> Entity | None:
        """The entity with this name, or None; with `type`, only one of a compatible type."""
        asked, kind = self._name(name, "name"), _word(type, "type")

        def decide(sheet: Sheet) -> Entity | None:
            record = graphs.owner(sheet, asked, kind)
            return None if record is None else Entity.of(record, sheet.get)

        return await self._read(decide)

    async def named_in(self, text: str) -> list[Entity]:
        """The entities a text mentions by any of their names, in order of mention."""
        asked = validate.query(text, "text")
        return await self._seen(lambda web: web.named_in(asked), "entity")

    async def entities(self, type: str | None = None) -> list[Entity]:
        """All entities, in order of birth; merged ones appear as part of the entity they were merged into."""
        kind = None if type is None else _word(type, "type")
        return [entity for entity in await self._seen(Web.entities, "entity") if kind in (None, entity.type)]

    async def entities_page(
        self, type: str | None = None, *, limit: int = 100, after: str | None = None
    ) -> tuple[Sequence[Entity], str | None]:
        """A page of that list, and the cursor of the next (None at the end)."""
        kind = None if type is None else _word(type, "type")
        most, cursor = validate.limit(limit), validate.cursor(after)

        def view(web: Web) -> tuple[Sequence[Entity], str | None]:
            found = [record for record in web.roots() if kind in (None, record.data["type"])]
            page, following = page_of((*self._partition, "entity"), found, attrgetter("born"), most, cursor)
            return [web.view(record) for record in page], following

        return await self._seen(view, "entity")

    async def relate(
        self,
        subject: Ref,
        relation: str,
        object: Ref,
        *,
        confidence: float = 1.0,
        valid_from: Any = None,
        valid_to: Any = None,
        source: Source | None = None,
    ) -> Relation:
        """State how two entities are related, from now on unless given otherwise; new names make new entities.

        Repeating it raises its confidence. Where only one can hold (`lives_in`, `works_at`, `married_to`,
        `born_in`), the previous one ends and is kept.
        """
        name = _word(relation, "relation")
        telling = _telling(self._ledger.clock(), confidence, source, valid_from, valid_to)

        def decide(sheet: Sheet) -> Relation:
            near = self._known_or_new(sheet, subject, "subject", telling)
            far = self._known_or_new(sheet, object, "object", telling)
            return _tell_relation(sheet, near, name, far, telling)

        return await self._write(decide)

    async def end_relation(self, id: str, at: Any = None, reason: str = "ended by hand") -> Relation:
        """End a relation, from now or from `at`; it is kept, with the reason."""
        asked = validate.identifier(id, "id")
        moment = validate.moment(at, "at")
        why = self._ledger.masked(validate.text(reason, "reason", validate.REASON_BYTES))

        def decide(sheet: Sheet) -> Relation:
            record = sheet.get(asked)
            if record is None or record.layer != "relation" or not graphs.is_whole(record):
                raise NotFound(field="id")
            end = sheet.now if moment is None else moment
            if record.valid_from is not None and end < record.valid_from:
                raise ValidationError("must not be before the relation began", field="at")
            if record.valid_to is None or end < record.valid_to:
                record = graphs.ended(record, end, why)
                sheet.put(record)
            ends = [graphs.root(sheet.get, record.data[side]) for side in ("subject", "object")]
            if ends[0] is None or ends[1] is None:
                raise NotFound(field="id")
            return Relation.of(record, Entity.of(ends[0], sheet.get), Entity.of(ends[1], sheet.get))

        return await self._write(decide)

    async def relations(self, entity: Ref | None = None, *, at: Any = None, ended: bool = False) -> list[Relation]:
        """Relations that hold now or held at a time, of one entity or of all; with `ended`, every past period too."""

        def view(web: Web, at: int | None, one: str | None) -> list[Relation]:
            return [web.relation(record) for record in web.telling(at, one)]

        return await self._told(view, entity, at, ended)

    async def relations_page(
        self,
        entity: Ref | None = None,
        *,
        at: Any = None,
        ended: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[Sequence[Relation], str | None]:
        """A page of these relations in order of birth, and the cursor of the next (None at the end)."""
        most, cursor = validate.limit(limit), validate.cursor(after)

        def view(web: Web, at: int | None, one: str | None) -> tuple[Sequence[Relation], str | None]:
            born = attrgetter("born")
            told = sorted(web.telling(at, one), key=born)
            page, following = page_of((*self._partition, "relation"), told, born, most, cursor)
            return [web.relation(record) for record in page], following

        return await self._told(view, entity, at, ended)

    async def _told(
        self, view: Callable[[Web, int | None, str | None], Result], entity: Ref | None, at: Any, ended: bool
    ) -> Result:
        """What is to be seen of the relations at a time, of all entities or of one."""
        moment = validate.moment(at, "at")
        one = None if entity is None else (await self._one(entity)).id
        when = None if validate.switch(ended, "ended") else self._ledger.clock() if moment is None else moment
        return await self._seen(lambda web: view(web, when, one), "entity", "relation", past=ended or at is not None)

    async def neighbours(
        self, entity: Ref, *, depth: int = 1, at: Any = None, limit: int = NEIGHBOURS
    ) -> Neighbourhood:
        """What can be reached from an entity in at most `depth` steps, now or as of a time, the entity itself first."""
        if type(depth) is not int or not 1 <= depth <= DEPTH_MAX:
            raise ValidationError(f"must be a whole number from 1 to {DEPTH_MAX}", field="depth")
        if validate.limit(limit) > NEIGHBOURS_MAX:
            raise ValidationError(f"must be a whole number from 1 to {NEIGHBOURS_MAX}", field="limit")
        moment = validate.moment(at, "at")
        start = await self._one(entity)
        when = self._ledger.clock() if moment is None else moment
        view = partial(Web.neighbours, start=start, depth=depth, at=when, limit=limit)
        return await self._seen(view, "entity", "relation", past=at is not None)

    async def whole(self, *, at: Any = None) -> Neighbourhood:
        """The whole graph, now or as of a time, as a picture of it would show it."""
        moment = validate.moment(at, "at")
        when = self._ledger.clock() if moment is None else moment

        def view(web: Web) -> Neighbourhood:
            return Neighbourhood(relations=tuple(web.relations(when)), entities=tuple(web.entities()))

        return await self._seen(view, "entity", "relation", past=at is not None)

    # ── merges ───────────────────────────────────────────────────────────────────────────────────

    async def merge(self, kept: Ref, other: Ref, *, reason: str = "merged by hand") -> Merge:
        """Make two entities one: the other ends, and its names and relations appear as those of the kept one."""
        why = self._ledger.masked(validate.text(reason, "reason", validate.REASON_BYTES))

        def decide(sheet: Sheet) -> Merge:
            stays, goes = self._known(sheet, kept, "kept"), self._known(sheet, other, "other")
            if stays.id == goes.id:
                raise ValidationError("these two are already one entity", field="other")
            if goes.id == graphs.name_id(sheet.scope, USER):
                raise ValidationError("the user must be the one to keep; merge the other way round", field="other")
            if len(stays.data.get("absorbed", ())) >= ABSORBED_MAX:
                raise TooLarge(f"at most {ABSORBED_MAX} entities can be merged into one", field="kept")
            graphs.merge(sheet, stays, goes, why)
            return _merge(sheet, stays.id, goes.id)

        return await self._write(decide)

    async def undo_merge(self, other: Ref) -> Merge:
        """Undo a merge: both are as they were, and anything stated since stays with the kept one."""

        def decide(sheet: Sheet) -> Merge:
            ended = sheet.get(_id_of(other) or graphs.name_id(sheet.scope, self._name(other, "other")))
            if ended is None or ended.data.get("alias") or "merged_into" not in ended.data:
                raise NotFound("There is no merge of this entity to undo.", field="other")
            into = ended.data["merged_into"]
            graphs.undo_merge(sheet, ended)
            return _merge(sheet, into, ended.id)

        return await self._write(decide)

    # ── learning ─────────────────────────────────────────────────────────────────────────────────

    async def apply(self, found: Sequence[Found], extractor: str) -> tuple[Changes, tuple[Found, ...]]:
        """The changes for drafts of entities and relations, and the drafts that must wait for another commit.

        Only trusted messages are learned from, and only while the message still exists. A draft that cannot
        be applied is left out, and a message that was read before changes nothing.
        """
        drafts = [each for each in found if each.draft.layer in GRAPH_LAYERS and each.message.trust == "trusted"]
        known: dict[str, Record] = {}
        asked: dict[str, None] = {}

        def look_up(ids: Sequence[str]) -> Sequence[str]:
            found, elsewhere = self._ledger.at_hand(ids)
            known.update({record.id: record for record in found})
            asked.update(dict.fromkeys(id for id in ids if id not in elsewhere))
            return elsewhere

        sheet = Sheet(self._scope, known, asked, self._ledger.clock(), look_up)
        taken = 0
        while taken < len(drafts):
            before = dict(sheet.written), dict(sheet.rests_on)
            try:
                self._learn(sheet, drafts[taken], extractor)
            except Unread as unread:
                sheet.written, sheet.rests_on = before
                known |= {record.id: record for record in await self._ledger.get(self._partition, unread.ids)}
                asked |= dict.fromkeys(unread.ids)
                continue
            except RecollectError:
                sheet.written, sheet.rests_on = before
            if len(sheet.written) > APPLIED_PUTS:
                sheet.written, sheet.rests_on = before
                break
            taken += 1
        needs = tuple(dict.fromkeys(each.message.id for each in drafts[:taken]))
        return sheet.changes(needs) or Changes(self._partition), tuple(drafts[taken:])

    def _learn(self, sheet: Sheet, found: Found, extractor: str) -> None:
        message, draft = found.message, found.draft
        source = Source(message.id, message.scope.session or None, draft.span, message.data.get("role"), extractor)
        start, end = draft.valid_from, draft.valid_to
        telling = _telling(message.when, draft.confidence, source, start, end, said=message.when)
        if draft.layer == "relation":
            self._learn_relation(sheet, found, telling)
        elif normal(draft.value) != USER:
            name, kind = self._name(draft.value, "name"), _drafted(draft.key or THING, "type")
            holder = graphs.owner(sheet, name, kind)
            given = self._other_names(draft.data.get("aliases", ()), "aliases")
            # A machine's guess does not take a name away from another entity.
            aliases = [other for other in given if graphs.owner(sheet, other, kind) in (None, holder)]
            _tell_entity(sheet, [name, *aliases], kind, telling)

    def _learn_relation(self, sheet: Sheet, found: Found, telling: Telling) -> None:
        draft, relation = found.draft, _drafted(found.draft.key, "relation")
        kinds = [_drafted(draft.data.get(side, THING), side) for side in ("subject_type", "object_type")]
        subject, when = draft.subject or USER, found.message.when
        if draft.ends:
            whose = self._known(sheet, subject, "subject").id
            object = self._known(sheet, draft.value, "object").id if draft.value else None
            graphs.end_told(sheet, whose, relation, object, telling.end or when, graphs.NO_LONGER, telling.messages)
            return
        near = self._known_or_new(sheet, subject, "subject", telling, kinds[0])
        far = self._known_or_new(sheet, draft.value, "object", telling, kinds[1])
        if draft.corrects:
            wrong = self._meant(sheet, draft.instead_of, "object", THING) if draft.instead_of else None
            if wrong is not None or not draft.instead_of:
                graphs.take_back(sheet, near.id, relation, wrong.id if wrong else None, far.id, when, telling.messages)
        graphs.tell_relation(sheet, near.id, relation, far.id, telling)

    # ── entities by name ─────────────────────────────────────────────────────────────────────────

    def _known(self, sheet: Sheet, ref: Ref, field: str) -> Record:
        record = self._meant(sheet, ref, field, THING)
        if record is None:
            raise NotFound(field=field)
        return record

    def _known_or_new(self, sheet: Sheet, ref: Ref, field: str, telling: Telling, type: str = THING) -> Record:
        """The entity that is meant; a name that is not yet in use makes a new one."""
        record = self._meant(sheet, ref, field, type)
        if record is not None:
            return record
        if normal(self._name(ref, field)) == USER:
            raise ValidationError("an org has no user; name the entity you mean", field=field)
        return graphs.tell_entity(sheet, None, self._name(ref, field), type, (), telling)

    def _meant(self, sheet: Sheet, ref: Ref, field: str, type: str) -> Record | None:
        """The entity with an id or a name, after all merges; an unknown id raises `NotFound`."""
        id = _id_of(ref)
        if id is None:
            record = graphs.owner(sheet, self._name(ref, field), type)
            if record is None and self._is_user(ref):
                # The user exists before anything is said about them.
                record = graphs.tell_entity(sheet, None, USER, "person", (), Telling())
            return record
        record = graphs.root(sheet.get, id)
        if record is None:
            raise NotFound(field=field)
        return record

    def _name(self, value: object, field: str) -> str:
        """A name as it may be stored and looked up."""
        return str(self._ledger.masked(_name(value, field)))

    def _other_names(self, value: object, field: str) -> list[str]:
        return [str(self._ledger.masked(name)) for name in _other_names(value, field)]

    def _is_user(self, ref: object) -> bool:
        return bool(self._scope.user) and isinstance(ref, str) and normal(ref) == USER

    async def _one(self, ref: Ref) -> Entity:
        return await self._read(lambda sheet: Entity.of(self._known(sheet, ref, "entity"), sheet.get))

    # ── the store ────────────────────────────────────────────────────────────────────────────────

    async def _read(self, decide: Callable[[Sheet], Result]) -> Result:
        """Decide from what is stored, reading only what the decision asks for."""
        known: dict[str, Record] = {}
        asked: dict[str, None] = {}
        while True:
            try:
                return decide(Sheet(self._scope, known, asked, self._ledger.clock()))
            except Unread as unread:
                known |= {record.id: record for record in await self._ledger.get(self._partition, unread.ids)}
                asked |= dict.fromkeys(unread.ids)

    async def _write(self, decide: Callable[[Sheet], Result]) -> Result:
        """As `_read`, and write the result in one commit; decide anew when another writer was faster."""
        asked: dict[str, None] = {}
        decided: list[Result] = []

        def attempt(known: Mapping[str, Record], now: int) -> Changes | None:
            sheet = Sheet(self._scope, known, asked, now)
            decided.clear()
            try:
                decided.append(decide(sheet))
            except Unread as unread:
                asked.update(dict.fromkeys(unread.ids))
                return None
            return sheet.changes()

        while not decided:
            await self._ledger.update_all(self._partition, list(asked), attempt)
        return decided[0]

    async def _seen(self, view: Callable[[Web], Result], *layers: str, past: bool = False) -> Result:
        """What is to be seen in the graph, which is put together in a thread if it is large."""
        records = await self._ledger.all_of(self._partition, *layers)
        relations = [record for record in records if past and record.layer == "relation"]
        told = [*records, *await past_states(self._ledger, self._partition, relations)]
        return await apart(lambda: view(Web(told)), len(told))


def _telling(
    now: int,
    confidence: Any,
    source: Any,
    valid_from: Any = None,
    valid_to: Any = None,
    metadata: Any = None,
    said: int | None = None,
) -> Telling:
    """A statement, validated once. It holds from now on unless given otherwise."""
    start, end = validate.moment(valid_from, "valid_from"), validate.moment(valid_to, "valid_to")
    if source is not None and not isinstance(source, Source):
        raise ValidationError("must be a Source", field="source")
    if start is None:
        # If it is already over, nobody knows when it began.
        start = now if end is None or end > now else EARLIEST
    if end is not None and end <= start:
        raise ValidationError("must be after valid_from", field="valid_to")
    sure = validate.unit_interval(confidence, "confidence")
    return Telling(start, end, sure, source, metadata=validate.metadata(metadata), said=said)


def _tell_entity(sheet: Sheet, names: Sequence[str], type: str, telling: Telling) -> Record:
    """The entity that has one of these names, now with all of them; if two entities do, that is a conflict."""
    sheet.need(*(id for name in names for id in sheet.ids_of(name, type)))
    owners = {held.id: held for name in names if (held := graphs.owner(sheet, name, type)) is not None}
    if len(owners) > 1:
        raise Conflict("these names belong to more than one entity; merge them first", field="aliases")
    known = next(iter(owners.values()), None)
    return _within_limits(graphs.tell_entity(sheet, known, names[0], type, names[1:], telling))


def _within_limits(entity: Record) -> Record:
    if len(entity.data["names"]) > 1 + ALIASES_MAX:
        raise TooLarge(f"must have at most {ALIASES_MAX} other names", field="aliases")
    validate.metadata(dict(entity.metadata))
    return entity


def _tell_relation(sheet: Sheet, subject: Record, relation: str, object: Record, telling: Telling) -> Relation:
    record = graphs.tell_relation(sheet, subject.id, relation, object.id, telling)
    return Relation.of(record, Entity.of(subject, sheet.get), Entity.of(object, sheet.get))


def _merge(sheet: Sheet, kept: str, other: str) -> Merge:
    """Both sides as they will be after the commit."""
    ended = Entity.of(sheet.entity(other), sheet.get)
    stays = graphs.root(sheet.get, kept)
    return Merge(other, Entity.of(stays, sheet.get) if stays else ended, ended)


def _id_of(ref: Ref) -> str | None:
    """The id, if one is given; None for a name."""
    if isinstance(ref, Entity | Merge):
        return ref.id
    return ref if isinstance(ref, str) and _ID.match(ref) else None


def _name(value: object, field: str) -> str:
    """A name on one line, as written, with runs of spaces collapsed."""
    name = " ".join(validate.text(value, field, 4 * NAME_CHARS).split())
    if len(name) > NAME_CHARS:
        raise TooLarge(f"must have at most {NAME_CHARS} characters", field=field)
    if not name.isprintable():
        raise ValidationError("must not contain control characters", field=field)
    return name


def _other_names(value: object, field: str) -> list[str]:
    if not isinstance(value, list | tuple):
        raise ValidationError("must be a list of names", field=field)
    if len(value) > ALIASES_MAX:
        raise TooLarge(f"must have at most {ALIASES_MAX} other names", field=field)
    names = [_name(each, field) for each in value]
    if any(normal(name) == USER for name in names):
        raise ValidationError("this name refers to the user; merge the entity into the user instead", field=field)
    return names


def _word(value: object, field: str) -> str:
    """A name in lower case with `_` between words."""
    word = validate.identifier(value, field)
    if len(word) > WORD_CHARS:
        raise TooLarge(f"must have at most {WORD_CHARS} characters", field=field)
    if word != word.casefold() or not _WORD.match(word):
        raise ValidationError("must be lower-case letters with _ between words, such as works_at", field=field)
    return word


def _drafted(value: object, field: str) -> str:
    """The same for a name given by a rule or a model: "Works at" becomes `works_at`."""
    return _word("_".join(value.casefold().replace("-", " ").split()) if isinstance(value, str) else value, field)
