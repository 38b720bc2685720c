"""What goes into each section of a context, before anything is weighed: which records, in which words.

Some sections are filled by what search found; the others have rules of their own, such as the notes about the user or
the entities that a question names. A record becomes a line of its section here; `packing.py` decides which lines fit.
Everything is read from the indexes of the user and of the org; the store is not queried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from recollect.context_policy import ContextPolicy
from recollect.customizations import in_order
from recollect.entities import named_in
from recollect.episodes import covered
from recollect.index import Notes, PartitionIndex
from recollect.layers import FACT_LAYERS, LAYERS, SECTIONS
from recollect.pace import Pace, apart
from recollect.policies.beliefs import faded
from recollect.policies.facts import SURE
from recollect.policies.fencing import safe
from recollect.policies.graph_views import Entity, Relation, Web
from recollect.policies.graphs import SAID_BY_FACTS, USER
from recollect.policies.keys import KEYS, ROLES, key_of
from recollect.policies.learnings import Shown, for_prompt
from recollect.policies.merging import normal
from recollect.policies.notes import TOGETHER, Noted, note
from recollect.policies.tokens import TokenCounter
from recollect.records import HOUR_MS, Hit, Record, Scope, as_datetime, iso

ENTITIES_MAX = 5
"""Entities of a question that are described; a question that names more is a list."""
ASKED_CHARACTERS = 2_000
"""How much of a question is searched for names: a pasted document names everybody."""
RELATIONS_MAX = 8
"""Relations that are shown of one entity."""
VALUES_A_LINE = 20
"""Values of a set in one line of the notes about the user. Of more, the newest are in it, the others in lines at the
end: not all of them may fit."""
FOUND_SECTIONS = ("episodes", "knowledge")
"""Sections that are filled by what search finds; the others have rules of their own."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The records of each section, best first. A line may stand for more records than the one whose id it has."""

    records: dict[str, list[Record]]
    also: Mapping[str, Sequence[Record]] = field(default_factory=dict)

    def only(self, policy: ContextPolicy) -> Gathered:
        """Only what a policy lets in; the running summary stays whatever its layers."""
        kept = {
            name: [record for record in found if record.layer == "summary" or policy.has_layer(record.layer)]
            for name, found in self.records.items()
            if policy.has_section(name)
        }
        return Gathered({name: [] for name in self.records} | kept, self.also)


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks what, where and when: what gathering depends on."""

    scope: Scope
    text: str
    now: int
    summary: Record | None = None
    recent: Sequence[Record] = ()
    knows_profile: bool = True
    """Whether the notes about the user are in the context as well."""
    learnings: Shown = field(default_factory=Shown)


async def gather(index: PartitionIndex, shared: PartitionIndex, asking: Asking, hits: Sequence[Hit]) -> Gathered:
    """The records of each section, from the user's index and the org's; a large graph is searched in a thread."""
    now, scope = asking.now, asking.scope
    records: dict[str, list[Record]] = {name: [] for name in SECTIONS}
    also: dict[str, Sequence[Record]] = {}
    records["instructions"] = _instructions(index, shared, scope, now)
    learnings = [record for each in (index, shared) for record in each.of_layer("learning", now)]
    records["learnings"] = for_prompt(learnings, now, asking.learnings)
    records["summary"] = [asking.summary] if asking.summary and asking.summary.content else []
    states = (index.head("working", each, now) for each in dict.fromkeys((Scope(scope.org, scope.user), scope)))
    records["working"] = [state for state in states if state is not None]
    said = {message.id for message in asking.recent}
    for hit in hits:
        section = "knowledge" if hit.record.layer == "conversation" else LAYERS[hit.record.layer].section
        if section in FOUND_SECTIONS and said.isdisjoint(covered(hit.record)):
            records[section].append(hit.record)
    records["profile"] = await _profile(index, now, also)
    records["entities"] = await _entities(index, shared, asking, also)
    return Gathered(records, also)


def _instructions(index: PartitionIndex, shared: PartitionIndex, scope: Scope, now: int) -> list[Record]:
    """What applies to the agent: the org's defaults, then the user's own; a later one replaces one with its id."""
    stands: dict[str, Record] = {}
    for each, agent in ((shared, ""), (shared, scope.agent), (index, ""), (index, scope.agent)):
        held = [record for record in each.of_layer("customization", now) if record.scope.agent == agent]
        stands |= {record.data.get("id", record.id): record for record in in_order(held)}
    return [record for record in stands.values() if record.data.get("active", True)]


# ── Who the user is ──────────────────────────────────────────────────────────────────────────────

_ORDER = {name: place for place, name in enumerate(KEYS)}
PROFILE_LAYERS = (*FACT_LAYERS, "relation")
"""What the notes about the user are made of."""


async def _profile(index: PartitionIndex, now: int, also: dict[str, Sequence[Record]]) -> list[Record]:
    """The notes about the user, reused from the previous question as long as nothing in them has changed.

    How sure something is fades by the day, and is checked once an hour.
    """
    notes, news = index.notes, index.news_of(PROFILE_LAYERS)
    if notes is None or notes.news != news or not notes.since <= now < notes.until:
        made: dict[str, Sequence[Record]] = {}
        begins = [record.valid_from for layer in FACT_LAYERS for record in index.held(layer, now)]
        ends = (index.next_end(PROFILE_LAYERS, now), (now // HOUR_MS + 1) * HOUR_MS)
        until = min(*ends, *(begin for begin in begins if begin is not None and begin > now))
        lines = await _noted_lines(index, now, made)
        notes = index.notes = Notes(lines, made, news, now, until)
    also.update(notes.also)
    return list(notes.lines)


async def _noted_lines(index: PartitionIndex, now: int, also: dict[str, Sequence[Record]]) -> list[Record]:
    """Facts, then preferences, as notes: values of a set are grouped, and so are keys that belong together."""
    lines: list[Record] = []
    older: list[Record] = []
    kin = _kin(index, now)
    layers = [index.of_layer(layer, now) for layer in FACT_LAYERS]  # all as of one moment
    pace = Pace()
    for held in layers:
        by_key: dict[str, list[Record]] = {}
        await pace.done(len(held))
        for record in held:
            if "key" in record.data and (record.valid_from is None or record.valid_from <= now):
                by_key.setdefault(record.data["key"], []).append(record)
        together = {key: _together(key, by_key) for key in by_key}
        taken = {name for more in together.values() for name, _ in more}
        for key in sorted(by_key.keys() - taken, key=lambda key: (_ORDER.get(key, len(_ORDER)), key)):
            values, more = by_key[key], together[key]
            for start in reversed(range(0, len(values), VALUES_A_LINE)):
                some, joined = values[start : start + VALUES_A_LINE], more if start == 0 else []
                told = note(
                    key,
                    [_noted(record, kin, now) for record in some],
                    [(name, _noted(record, kin, now)) for name, record in joined],
                )
                first, *rest = (*some, *(record for _, record in joined))
                (lines if start + VALUES_A_LINE >= len(values) else older).append(first.with_(content=told))
                also[first.id] = rest
                await pace.done(1 + len(rest))
        lines += [record for record in held if "key" not in record.data]
    return [*lines, *older]


def _together(key: str, by_key: Mapping[str, Sequence[Record]]) -> list[tuple[str, Record]]:
    """What is told in the line of a key.

    An employer is not, if the occupation has changed since: whoever was a nurse at Acme and is a teacher now may be one
    anywhere.
    """
    told = [(name, record) for name in TOGETHER.get(key, ()) for record in by_key.get(name, ())]
    changed = [value for value in by_key[key] if key == "occupation" and value.data.get("edits")]
    return [each for each in told if not any((one.valid_from or 0) > (each[1].valid_from or 0) for one in changed)]


def _kin(index: PartitionIndex, now: int) -> dict[str, str]:
    """What people and pets are to the user, by name: the graph may be more exact than the profile ("sister")."""
    told = ((record.data.get("names"), record.data.get("relation")) for record in index.of_layer("relation", now))
    kin = {normal(names[1]): str(relation) for names, relation in told if names and names[0] == USER}
    animals = (record.data for record in index.of_layer("entity", now) if record.data.get("type") in _ANIMALS)
    return kin | {
        normal(name): str(data["type"]) for data in animals for name in data["names"] if kin.get(normal(name)) == "pet"
    }


def _noted(record: Record, kin: Mapping[str, str], now: int) -> Noted:
    """A value, with what a reader should know: what it is, since when if it may change, and whether it is sure."""
    key, value = key_of(record.data["key"]), str(record.data["value"])
    kind = kin.get(normal(value), "").replace("_", " ") if key.name in _KIN else ""
    return Noted(
        value,
        kind if kind in _KIN and kind != key.name else str(record.data.get("level", "")),
        "" if key.half_life_days is None else f"{as_datetime(record.event_at or record.created_at):%B %Y}",
        is_sure=faded(record, now) >= SURE,
    )


# ── People and things that the question names ────────────────────────────────────────────────────


async def _entities(
    index: PartitionIndex, shared: PartitionIndex, asking: Asking, also: dict[str, Sequence[Record]]
) -> list[Record]:
    """A line for each entity that the question names, with what is true of it now."""
    text, now = asking.text[:ASKED_CHARACTERS], asking.now
    plain = normal(text)
    lines = []
    for each in dict.fromkeys((index, shared)):
        held = each.held("entity", now)
        if any(_is_hinted(record.data.get("names", ()), plain) for record in held):
            told = [*held, *each.held("relation", now)]
            named, relations = await apart(partial(_named, told, asking.text, now), len(told))
            lines += _told_of(named, relations, each, asking, also)
    cached = shared.of_layer("entity_cache", now)
    hinted = [r for r in cached if _is_hinted([str(r.data.get(n, "")) for n in ("name", "id")], plain, r)]
    return [*lines, *named_in(text, hinted)][:ENTITIES_MAX]


def _is_hinted(names: Iterable[str], text: str, cached: Record | None = None) -> bool:
    """A cheap check before the exact one: whether some name, or its first word, occurs anywhere in the text."""
    more = cached.data.get("aliases", ()) if cached is not None else ()
    return any(name and normal(name).split(" ", 1)[0] in text for name in (*names, *more))


def _named(graph: Sequence[Record], text: str, now: int) -> tuple[list[Entity], list[Relation]]:
    """The entities that a text names, and, if it names any, all relations of the graph."""
    web = Web(graph)
    named = [entity for entity in web.named_in(text) if entity.name != USER]
    return named, web.relations(now) if named else []


def _told_of(
    named: Sequence[Entity],
    relations: Sequence[Relation],
    index: PartitionIndex,
    asking: Asking,
    also: dict[str, Sequence[Record]],
) -> list[Record]:
    lines = []
    values = _values(index, asking.now) if named else {}
    relations = [each for each in relations if _is_believed(each, values)]
    relations = [each for each in relations if not (asking.knows_profile and _is_in_profile(each, values))]
    for entity in named[:ENTITIES_MAX]:
        record = index.record(entity.id, asking.now)
        known = [each for each in relations if entity.id in (each.subject, each.object)][:RELATIONS_MAX]
        if record is not None and (known or entity.aliases):
            told = [each for relation in known if (each := index.record(relation.id, asking.now)) is not None]
            lines.append(record.with_(content=_entity_line(entity, known)))
            also[record.id] = told
    return lines


def _values(index: PartitionIndex, now: int) -> dict[str, set[str]]:
    """The values of the facts, by key."""
    values: dict[str, set[str]] = {}
    for fact in index.of_layer("fact", now):
        values.setdefault(fact.data.get("key", ""), set()).add(normal(str(fact.data.get("value", ""))))
    return values


def _is_in_profile(relation: Relation, values: Mapping[str, set[str]]) -> bool:
    """Whether the notes about the user say the same: who and what belongs to them, and where they live and work."""
    known = values.get(KEY_OF.get(relation.relation, ""), ())
    return relation.names[0] == USER and normal(relation.names[1]) in known


def _is_believed(relation: Relation, values: Mapping[str, set[str]]) -> bool:
    """Whether the profile, which people correct, does not contradict it: a prompt must not say both."""
    key = SAID_BY_FACTS.get(relation.relation) if relation.names[0] == USER else None
    # Of a set the profile may have some and the graph others: they do not contradict each other.
    return key is None or key_of(key).many or normal(relation.names[1]) in values.get(key, ())


def _entity_line(entity: Entity, relations: Sequence[Relation]) -> str:
    kind = [] if entity.type == "thing" else [entity.type.replace("_", " ")]
    other = [f"also {', '.join(entity.aliases)}"] if entity.aliases else []
    about = f" ({'; '.join((*kind, *other))})" if kind or other else ""
    facts = "; ".join(_told(entity, each) for each in relations)
    return f"{entity.name}{about}{': ' + facts if facts else ''}"


def _told(entity: Entity, relation: Relation) -> str:
    """A relation as seen from one of its ends: "lives in Oslo", "the user's sister", "Ann knows Bo"."""
    near, far = ("the user" if name == USER else name for name in relation.names)
    verb = relation.relation.replace("_", " ")
    if relation.subject == entity.id:
        return f"{verb} {far}"
    return f"{near}'s {verb}" if relation.relation in _KIN else f"{near} {verb} {far}"


_KIN = frozenset((
    "partner", "wife", "husband", "spouse", "girlfriend", "boyfriend", "fiance", "child", "son", "daughter", "parent",
    "mother", "father", "sibling", "sister", "brother", "relative", "grandmother", "grandfather", "aunt", "uncle",
    "cousin", "niece", "nephew", "half sister", "half brother", "stepsister", "stepbrother", "stepmother", "stepfather",
    "stepson", "stepdaughter", "mother in law", "father in law", "sister in law", "brother in law", "grandson",
    "granddaughter", "grandchild", "friend", "colleague", "boss", "roommate", "neighbour", "teacher", "pet", "dog",
    "cat", *(role.replace("_", " ") for role in ROLES),
))  # fmt: skip
"""Relations that say what somebody is to somebody else."""
_ANIMALS = frozenset(("dog", "cat"))
"""What a pet may be, by the type of its entity."""
KEY_OF = {
    "lives_in": "city", "works_at": "employer", "comes_from": "hometown", "owns": "device", "drives": "vehicle",
    "uses": "tool", "partner": "partner", "friend": "friend", "colleague": "colleague", "pet": "pet",
    **{name: name for name in ("roommate", "neighbour", "teacher", *ROLES)},
    **dict.fromkeys(("child", "son", "daughter", "stepson", "stepdaughter"), "child"),
    **dict.fromkeys(("parent", "mother", "father", "stepmother", "stepfather"), "parent"),
    **dict.fromkeys(
        ("sibling", "sister", "brother", "half_sister", "half_brother", "stepsister", "stepbrother"), "sibling"),
    **dict.fromkeys(
        ("relative", "grandmother", "grandfather", "grandchild", "grandson", "granddaughter", "aunt", "uncle", "cousin",
         "niece", "nephew", "mother_in_law", "father_in_law", "sister_in_law", "brother_in_law"), "relative"),
}  # fmt: skip
"""The profile key that says the same as a relation of the user."""


# ── In words ─────────────────────────────────────────────────────────────────────────────────────


def line_of(section: str, record: Record) -> str:
    """A record as a line of its section."""
    return _LINES.get(section, _plain_line)(record)


def _plain_line(record: Record) -> str:
    return f"- {safe(record.content)}"


def dated_line(record: Record, text: str | None = None) -> str:
    """A record as a line with the day it was said and who said it: the day does not change from turn to turn."""
    day = (iso(record.when) or "")[:10]
    who = record.data.get("name") or record.data.get("role")
    return f"- [{day}] {safe(str(who)) + ': ' if who else ''}{safe(record.content if text is None else text)}"


def _working_line(record: Record) -> str:
    return "\n".join(_state_lines(record).values())


def _state_lines(record: Record) -> dict[str, str]:
    """The state of the task, a line for each of its parts."""
    state = record.data["state"]
    plain = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in state.items()
    }
    return {key: f"- {safe(str(key))}: {safe(value)}" for key, value in plain.items()}


def shortened_state(record: Record, tokens_max: int, count: TokenCounter) -> str:
    """The state of the task without its longest parts, of which only the names stay; empty if not even these fit."""
    lines = _state_lines(record)
    sizes = {key: count(line) + 1 for key, line in lines.items()}
    tokens = sum(sizes.values())
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if tokens <= tokens_max:
            break
        lines[key] = f"- {safe(str(key))}: …"
        tokens += count(lines[key]) + 1 - sizes[key]
    return "\n".join(lines.values()) if tokens <= tokens_max else ""


_LINES: dict[str, Callable[[Record], str]] = {
    "episodes": _plain_line,  # its text begins with the day
    "working": _working_line,
    "summary": lambda record: safe(record.content),
}
