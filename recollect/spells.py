"""How the history of a fact lies in records: its head holds the current spell, and earlier spells lie in `past`.

A spell is one value and the time for which it was true. `policies/facts.py` decides what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recollect.layers import FACT_LAYERS, own_data
from recollect.long_term import past_ids, past_of
from recollect.policies.facts import Timeline
from recollect.policies.graphs import SAID_BY_FACTS
from recollect.policies.keys import PEOPLE
from recollect.policies.spells import of_spell
from recollect.records import Job, Partition, Record, new_id

SAID_IN_GRAPH = {*SAID_BY_FACTS.values(), "hometown", *PEOPLE}
"""Keys whose values are also the far end of a relation of the user."""


def spell_of(entry: Record, head: Record) -> Record:
    """A spell as it stood at its head, rebuilt from its entry in the past."""
    return entry.with_(id=head.id, layer=head.layer, data=entry.data["data"], born=head.born)


def entry_of(spell: Record, entry: Record) -> Record:
    """The same the other way round: a spell in the place of an entry behind its head."""
    return spell.with_(
        id=entry.id,
        layer="past",
        data={**entry.data, "data": of_spell(spell.data)},
        vector=None,
        version=entry.version,
        born=entry.born,
    )


def entries_behind(head: Record, known: Mapping[str, Record]) -> list[tuple[Record, Record]]:
    """The entries in the past of a head, among what was read, each with its spell."""
    entries = [known[id] for id in past_ids(head) if id in known and known[id].layer == "past"]
    return [(entry, spell_of(entry, head)) for entry in entries]


def records_of(lines: Mapping[str, Timeline], known: Mapping[str, Record]) -> list[Record]:
    """The records to put for timelines keyed by place, given what was read there."""
    return [record for id, line in lines.items() for record in _records(line, known.get(id), known)]


def _records(line: Timeline, read: Record | None, known: Mapping[str, Record]) -> list[Record]:
    """The records to put for a timeline: its head, new spells of its past under the next numbers, and changed ones."""
    if not line.head.data or (not line.past and line.head == read):
        return []
    edits = line.head.data.get("edits", 0)
    past: list[Record] = []
    for number, spell in enumerate(line.past):
        ended = spell.with_(data={**of_spell(spell.data), "edits": edits + number})
        past.append(past_of(ended, 0).with_(valid_to=spell.valid_to))
    was = entries_behind(read, known) if line.behind and read else []
    changed = [entry_of(spell, entry) for (entry, old), spell in zip(was, line.behind, strict=True) if spell != old]
    return [line.head.with_(data={**line.head.data, "edits": edits + len(past)}), *past, *changed]


def is_old_value(record: Record) -> bool:
    """True for a value of a fact or preference kept behind its head: it has an id of its own."""
    return record.layer == "past" and record.data.get("layer") in FACT_LAYERS


def turn_jobs(partition: Partition, put: Iterable[Record], now: int) -> tuple[Job, ...]:
    """The jobs that move values to the head of their facts when they begin, for values that begin in the future."""
    begins = ((record.data["of"], record.valid_from) for record in put if is_old_value(record))
    due = {(head, at) for head, at in begins if at is not None and at > now}
    return tuple(Job(f"turn:{head}:{at}", partition, "turn", (head,), due_at=at) for head, at in sorted(due))


def follow_jobs(partition: Partition, changed: Iterable[Record], now: int) -> tuple[Job, ...]:
    """The jobs that make the graph follow changed facts, for facts that relations express as well."""
    keys = {str(own_data(record)["key"]) for record in changed} & SAID_IN_GRAPH
    return tuple(Job(f"follow:{new_id(now)}", partition, "follow", (key,), due_at=now) for key in sorted(keys))
