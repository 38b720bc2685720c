"""How a record is set aside, and how it is trusted again: marks in the record itself, nothing else.

A record that is set aside notes what it was before and by which act, the same for all that one act set aside.
When it is released, it is trusted first and loses the note last: if the release is interrupted between the
two, the note shows what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect.records import Record

QUARANTINED = "quarantined"
"""The trust of what was set aside, and the name under which a record notes the trust it had before."""
ASIDE = "set_aside"
"""In the head of a session: the note of the act that set it aside, which applies to what is said later as well."""


def note_of(act: str, at: int, reason: str) -> dict[str, Any]:
    """The note on everything that one act sets aside."""
    return {"undo": act, "at": at, "reason": reason}


def set_aside(record: Record, note: Mapping[str, Any]) -> Record:
    """The record, no longer used by anything."""
    if is_aside(record):
        return record
    return _with_noted(record, {QUARANTINED: {"was": record.trust, **note}}).with_(trust=QUARANTINED)


def trusted_again(record: Record) -> Record:
    """The record with the trust it had, still with the note."""
    return record.with_(trust=_noted(record)[QUARANTINED]["was"]) if is_aside(record) and is_noted(record) else record


def settled(record: Record) -> Record:
    """The record without the note of an act that is over."""
    return record if is_aside(record) else _with_noted(record, {QUARANTINED: None})


def is_aside(record: Record) -> bool:
    return record.trust == QUARANTINED


def is_noted(record: Record) -> bool:
    """Whether an act has set it aside, even if it is trusted again by now."""
    return QUARANTINED in _noted(record)


def act_of(record: Record) -> dict[str, Any]:
    """The note of the act that has set it aside."""
    return {name: value for name, value in _noted(record)[QUARANTINED].items() if name != "was"}


def heard(records: Iterable[Record]) -> list[Record]:
    """The records that nobody set aside."""
    return [record for record in records if not is_aside(record)]


def closed_session(head: Record, note: Mapping[str, Any]) -> Record:
    """The head of a session that is set aside; the first act counts."""
    return head if ASIDE in head.data else _with_noted(head, {ASIDE: dict(note)})


def open_session(head: Record) -> Record:
    """The head of a session that is trusted again."""
    return _with_noted(head, {ASIDE: None})


def _noted(record: Record) -> Mapping[str, Any]:
    """The data in which a record has its notes; in the layer `past`, the data that it had before."""
    kept: Mapping[str, Any] = record.data["data"] if record.layer == "past" else record.data
    return kept


def _with_noted(record: Record, notes: Mapping[str, Any]) -> Record:
    """The record with these notes, and without those that are None."""
    gone = {name for name, note in notes.items() if note is None}
    data = {name: value for name, value in {**_noted(record), **notes}.items() if name not in gone}
    return record.with_(data={**record.data, "data": data} if record.layer == "past" else data)
