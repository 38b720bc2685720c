"""How a record is set aside, and how it is trusted again: marks in the record itself, nothing else.

What is set aside notes what it was before and by which act, the same for all that one act set aside.
When it is released, it is trusted first and loses the note last: whoever is broken off between the two
finds by the note what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect.records import Record

QUARANTINED = "quarantined"
"""The trust of what was set aside, and the name under which a record notes what it had before."""
ASIDE = "set_aside"
"""In the head of a session: the note of the act that set it aside, which counts for what is said later as well."""


def note_of(act: str, at: int, reason: str) -> dict[str, Any]:
    """What is noted in all that one act sets aside."""
    return {"undo": act, "at": at, "reason": reason}


def set_aside(record: Record, note: Mapping[str, Any]) -> Record:
    """The record, used by nothing any more."""
    if is_aside(record):
        return record
    return _with_data(record, {QUARANTINED: {"was": record.trust, **note}}).with_(trust=QUARANTINED)


def trusted_again(record: Record) -> Record:
    """The record with the trust it had, still with the note."""
    return record.with_(trust=record.data[QUARANTINED]["was"]) if is_aside(record) and is_noted(record) else record


def settled(record: Record) -> Record:
    """The record without the note of an act that is over."""
    return record if is_aside(record) else _without(record, QUARANTINED)


def is_aside(record: Record) -> bool:
    return record.trust == QUARANTINED


def is_noted(record: Record) -> bool:
    """Whether an act has set it aside, be it that it is trusted again by now."""
    return QUARANTINED in record.data


def heard(records: Iterable[Record]) -> list[Record]:
    """Those that nobody set aside."""
    return [record for record in records if not is_aside(record)]


def closed_session(head: Record, note: Mapping[str, Any]) -> Record:
    """The head of a session that is set aside; the first act counts."""
    return head if ASIDE in head.data else _with_data(head, {ASIDE: dict(note)})


def open_session(head: Record) -> Record:
    """The head of a session that is trusted again."""
    return _without(head, ASIDE)


def _with_data(record: Record, more: Mapping[str, Any]) -> Record:
    return record.with_(data={**record.data, **more})


def _without(record: Record, name: str) -> Record:
    if name not in record.data:
        return record
    return record.with_(data={key: value for key, value in record.data.items() if key != name})
