"""How a record is set aside, and how it is trusted again: marks in the record itself, nothing else.

A record that is set aside notes what it was before and by which act, the same for all that one act set aside.
When it is released, it is trusted first and loses the note last: if the release is interrupted between the
two, the note shows what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect.layers import own_data
from recollect.records import Record

QUARANTINED = "quarantined"
"""The trust of what was set aside, and the name under which a record notes the trust it had before."""
AGAIN = "again"
"""In a note: when the same was last to be set aside once more, which changed nothing else."""
ASIDE = "set_aside"
"""In the head of a session: the note of the act that set it aside, which applies to what is said later as well."""


def note_of(act: str, at: int, reason: str) -> dict[str, Any]:
    """The note on everything that one act sets aside."""
    return {"undo": act, "at": at, "reason": reason}


def set_aside(record: Record, note: Mapping[str, Any]) -> Record:
    """The record, no longer used by anything. If a release of it is not over, it stays with the act that is released:
    whatever else is left of that act can be found by it.
    """
    if is_aside(record):
        return record
    known = _meant_at(own_data(record)[QUARANTINED], note["at"]) if is_noted(record) else note
    return _with_noted(record, {QUARANTINED: {**known, "was": record.trust}}).with_(trust=QUARANTINED)


def set_aside_again(record: Record, at: int) -> Record:
    """A record that is set aside already, with the time at which another act meant it."""
    return (
        _with_noted(record, {QUARANTINED: _meant_at(own_data(record)[QUARANTINED], at)}) if is_noted(record) else record
    )


def trusted_again(record: Record) -> Record:
    """The record with the trust it had, still with the note."""
    return record.with_(trust=own_data(record)[QUARANTINED]["was"]) if is_aside(record) and is_noted(record) else record


def settled(record: Record) -> Record:
    """The record without the note of an act that is over."""
    return record if is_aside(record) else _with_noted(record, {QUARANTINED: None})


def is_aside(record: Record) -> bool:
    return record.trust == QUARANTINED


def is_noted(record: Record) -> bool:
    """Whether an act has set it aside, even if it is trusted again by now."""
    return QUARANTINED in own_data(record)


def act_of(record: Record) -> dict[str, Any]:
    """The note of the act that has set it aside."""
    return {name: value for name, value in own_data(record)[QUARANTINED].items() if name not in ("was", AGAIN)}


def act_of_session(head: Record) -> dict[str, Any] | None:
    """The note of the act that has set a session aside; None if it is not aside."""
    return {name: value for name, value in head.data[ASIDE].items() if name != AGAIN} if ASIDE in head.data else None


def is_meant(record: Record, by_at: int) -> bool:
    """Whether a release at this time is about a record, or a session: it was not to be set aside again later."""
    note = record.data.get(ASIDE) if record.layer == "session" else own_data(record).get(QUARANTINED)
    return note is None or _last_at(note) <= by_at


def heard(records: Iterable[Record]) -> list[Record]:
    """The records that nobody set aside."""
    return [record for record in records if not is_aside(record)]


def closed_session(head: Record, note: Mapping[str, Any]) -> Record:
    """The head of a session that is set aside; the first act counts."""
    known = head.data.get(ASIDE)
    return _with_noted(head, {ASIDE: dict(note) if known is None else _meant_at(known, note["at"])})


def open_session(head: Record) -> Record:
    """The head of a session that is trusted again."""
    return _with_noted(head, {ASIDE: None})


def _meant_at(note: Mapping[str, Any], at: int) -> dict[str, Any]:
    """The note of what is set aside already, after another act that meant it."""
    return {**note, AGAIN: at} if at > _last_at(note) else dict(note)


def _last_at(note: Mapping[str, Any]) -> int:
    return max(int(note["at"]), int(note.get(AGAIN, 0)))


def _with_noted(record: Record, notes: Mapping[str, Any]) -> Record:
    """The record with these notes, and without those that are None."""
    gone = {name for name, note in notes.items() if note is None}
    data = {name: value for name, value in {**own_data(record), **notes}.items() if name not in gone}
    return record.with_(data={**record.data, "data": data} if record.layer == "past" else data)
