"""What is left of what was learned when some of its tellings no longer count.

There are two cases. What rests on forgotten messages is stripped of them, and goes if nothing else
supports it. What is undone is ended instead, and remembers what it was (`undone`), so that the undo
can be taken back. In both cases a fact is settled again from the tellings that are left: it then is
what it would be had the others never been heard. `facts.py` says what tellings, spells and heads are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

from recollect.policies.beliefs import in_force, next_said
from recollect.policies.facts import SURE, Timeline, marks_of, surer, told_by, unheard
from recollect.policies.quarantine import is_aside
from recollect.policies.spells import (
    EVER,
    UNHEARD,
    UNTRUE,
    Telling,
    has_value,
    is_of_before,
    is_sure,
    of_place,
    of_spell,
    stands,
    start_of,
)
from recollect.records import Record, Source, with_data, without_data

WAS_HEAD = "head"
"""In the note of an undo: that the spell was the current one."""

T = TypeVar("T", Record, Record | None)
Gone = Callable[[Telling], bool]
"""Which tellings no longer count."""


@dataclass(frozen=True, slots=True)
class Undo:
    """An undo, by the id under which it can be taken back."""

    id: str
    at: int
    reason: str


@dataclass(frozen=True, slots=True)
class Place:
    """A fact with its past: the head (None when nothing is left) and what is in each slot behind it."""

    head: Record | None
    past: tuple[Record | None, ...] = ()


# ── Facts and preferences ────────────────────────────────────────────────────────────────────────


def without(
    head: Record, past: Sequence[Record], gone: Gone, now: int, undo: Undo | None = None, most: int | None = None
) -> Place:
    """A fact without these tellings; with an undo, what goes is kept as something that was never true.

    With `most`, the tellings of at most that many spells are removed: then the fact is what it would be
    had only these never been heard, and the others can go later.
    """
    spells = [*past, head]
    left = _first(spells, [_left(spell, gone, undo) for spell in spells], most)
    if left[-1] is not None and undo is not None and is_of(left[-1], undo.id) and left[-1] is not head:
        left[-1] = with_data(left[-1], undone={**left[-1].data["undone"], WAS_HEAD: True})
    told_an_end = undo is None and any(gone(Telling(*end[1])) for end in head.data.get("ends", {}).values())
    if not told_an_end and all(spell is kept for spell, kept in zip(spells, left, strict=True)):
        return Place(head, tuple(past))
    return _settled(left, _place(head, spells, left, gone), now)


def again(head: Record, past: Sequence[Record], undo_id: str, now: int, most: int | None = None) -> Place:
    """A fact after an undo is taken back, for all of its spells or for some; what was said since then stays."""
    spells = [*past, head]
    back = _first(spells, [_taken_back(spell, undo_id) for spell in spells], most)
    changed = [after for spell, after in zip(spells, back, strict=True) if after is not spell]
    if not changed:
        return Place(head, tuple(past))
    marks = {mark for spell in changed for mark in marks_of(spell)}
    rejected = [mark for mark in head.data.get("rejected", ()) if mark not in marks]
    head = _heard(head, marks)
    undone = {slot: spell.data["undone"] for slot, spell in enumerate(spells) if is_of(spell, undo_id)}
    was_head = next((slot for slot, note in undone.items() if note.get(WAS_HEAD)), None)
    return _settled(back, with_data(head, rejected=rejected), now, was_head)


def _first(before: Sequence[Record], after: Sequence[T], most: int | None) -> list[Record | T]:
    """Only the first `most` changes; all of them if it is None."""
    changed = [slot for slot, spell in enumerate(before) if after[slot] is not spell]
    kept = set(changed[most:]) if most is not None else set()
    return [before[slot] if slot in kept else each for slot, each in enumerate(after)]


def _left(spell: Record, gone: Gone, undo: Undo | None) -> Record | None:
    """What is left of a spell. An undo does not touch what it or another has already undone.

    Nor does it end what is pinned: a pin is the user's own endorsement of the value, as a confirmation is. What is
    forgotten goes all the same: the pin says that the value is right, not that it may be kept.
    """
    if undo is None:

        def strip(each: Record) -> Record | None:
            return _stripped(each, gone)

        return strip(scrubbed(spell, strip))
    stripped = spell if spell.data["status"] == "undone" else _stripped(spell, gone)
    if stripped is spell or (stripped is None and spell.data.get("pinned")):
        return spell
    if stripped is None:
        nowhere = spell.valid_to or spell.created_at if spell.valid_from is None else spell.valid_from
        ended = [*spell.data.get("ended", ()), [undo.at, nowhere]]
        void = with_data(spell, status="undone", reason=undo.reason, pinned=False, ended=ended)
        stripped = void.with_(valid_from=nowhere, valid_to=nowhere)
    return remembering(spell, stripped, undo)


def _stripped(spell: Record, gone: Gone) -> Record | None:
    """The spell without what these tellings did to it; None when nothing else supports it."""
    kept = [each for each in spell.data["tellings"] if not gone(Telling(*each))]
    if not kept:
        return None
    retold = spell if len(kept) == len(spell.data["tellings"]) else _retold(spell, kept)
    return _reopened(_unvoided(retold, gone), gone)


def _retold(spell: Record, tellings: Sequence[Sequence[Any]]) -> Record:
    """The spell as it would be had only these tellings been heard."""
    told = [Telling(*each) for each in tellings]
    lost = [each for each in (Telling(*row) for row in spell.data["tellings"]) if each not in told]
    spell = told_by(spell, tellings)
    if spell.data["status"] in UNTRUE:
        return spell
    sure = [each for each in told if each.confidence >= SURE]
    counted = sure or told
    seen = max(spell.data["seen"] - len(lost), len(told))
    status = spell.data["status"] if any(each.extractor is None for each in told) else "learned"
    changes: dict[str, Any] = {"seen": seen, "status": status, "sure_at": spell.data["sure_at"] if sure else None}
    if spell.data["last_seen"] is not None:
        changes |= {"first_seen": min(each.at for each in counted), "last_seen": max(each.at for each in counted)}
    if any(spell.valid_from in (each.since, each.at) for each in lost):
        spell = spell.with_(valid_from=min(each.since for each in told))
    return with_data(spell, **changes).with_(confidence=reduce(surer, (each.confidence for each in told)))


def _reopened(spell: Record, gone: Gone) -> Record:
    """The spell without the ends that these tellings gave it."""
    ended = [each for each in spell.data.get("ended", ()) if len(each) == 2 or not gone(Telling(*each[2]))]
    if len(ended) == len(spell.data.get("ended", ())):
        return spell
    return _with_ends(without_data(spell, "reason"), ended)


def _unvoided(spell: Record, gone: Gone) -> Record:
    """The spell as it was before one of these tellings said that it was never true."""
    was = spell.data.get("voided")
    if was is None or not gone(Telling(*was["by"])):
        return spell
    return with_data(without_data(spell, "voided", "reason"), status=was["status"], pinned=was["pinned"])


def _place(head: Record, spells: Sequence[Record], left: Sequence[Record | None], gone: Gone) -> Record:
    """The head with what its place continues to remember."""
    revived = [spell for spell, kept in zip(spells, left, strict=True) if kept and "voided" in _lost_data(spell, kept)]
    marks = {mark for spell in revived for mark in marks_of(spell)}
    rejected = [mark for mark in head.data.get("rejected", ()) if mark not in marks]
    ends = {mark: end for mark, end in head.data.get("ends", {}).items() if not gone(Telling(*end[1]))}
    return with_data(_heard(head, marks), rejected=rejected, ends=ends)


def _heard(head: Record, marks: Collection[str]) -> Record:
    """The head without the messages whose claims are no longer rejected: they are read again."""
    messages, left = unheard(head, marks)
    return with_data(head, unheard=left) if messages else head


def heard_again(before: Record, after: Record) -> list[str]:
    """The messages that have to be read again, since what they say is no longer rejected."""
    left = set(after.data.get(UNHEARD, ()))
    return [said.partition(":")[2] for said in before.data.get(UNHEARD, ()) if said not in left]


def _lost_data(before: Record, after: Record) -> set[str]:
    return set(before.data) - set(after.data)


# ── What is current ──────────────────────────────────────────────────────────────────────────────


def _settled(spells: Sequence[Record | None], place: Record, now: int, was_head: int | None = None) -> Place:
    """The spells with the ends that they give each other, and the one that was said last as the head.

    Among those said at the same time, it is the one that was the head before.
    """
    left = {slot: spell for slot, spell in enumerate(spells) if spell is not None}
    if not left:
        return Place(None, (None,) * (len(spells) - 1))
    standing = {slot: spell for slot, spell in left.items() if stands(spell)}
    following = dict(zip(standing, next_said([*standing.values()]), strict=True))
    left |= {slot: _bounded(spell, standing.values(), following[slot], now) for slot, spell in standing.items()}
    last = len(spells) - 1

    def standing_first(slot: int) -> tuple[Any, ...]:
        by_time = (_has_begun(left[slot], now), *_rank(left[slot]))
        return slot in standing, by_time, slot == was_head, slot == last, slot

    best = max(left, key=standing_first)
    later = [slot for slot in standing if best in standing and is_of_before(left[best], left[slot])]
    return _with_head(left, max(later, key=standing_first, default=best), last, place)


def resettled(line: Timeline, now: int) -> Timeline:
    """A fact after one of its values was denied: what that value had ended holds again."""
    if not any(spell.data and stands(spell) for spell in line.spells):
        return line
    place = _settled(line.spells, line.head, now)
    return line.of_spells([spell for spell in (*place.past, place.head) if spell is not None])


def _with_head(left: dict[int, Record], best: int, last: int, place: Record) -> Place:
    """The spells with one of them at the head; the previous head takes its slot."""
    head = _at_head(left[best], place)
    if best != last and last in left:
        left[best] = left[last]
    elif best != last:
        del left[best]
    return Place(head, tuple(left.get(slot) for slot in range(last)))


def turned(head: Record, past: Sequence[Record], now: int) -> Place:
    """A fact when the time of a value has come: what is true now moves to the head."""
    spells = dict(enumerate([*past, head]))
    held = in_force([spell for spell in spells.values() if not is_aside(spell)], now, EVER)
    current = [
        slot
        for slot, spell in spells.items()
        if held and has_value(spell, held[0].data["value"]) and stands(spell) and _has_begun(spell, now)
    ]
    if not current or len(past) in current:
        return Place(head, tuple(past))
    return _with_head(spells, max(current, key=lambda slot: start_of(spells[slot])), len(past), head)


def _has_begun(spell: Record, now: int) -> bool:
    return start_of(spell) <= now


def _rank(spell: Record) -> tuple[bool, int]:
    return is_sure(spell), spell.data["last_seen"] or 0


def _bounded(spell: Record, standing: Collection[Record], following: Record | None, now: int) -> Record:
    """The spell until the end that was told, or until the beginning of another value that was said later."""
    told = [each for each in spell.data.get("ended", ()) if len(each) == 3]
    end = min((each[1] for each in told), default=None)
    starts = [start_of(o) for o in standing if has_value(o, spell.data["value"]) and start_of(o) > start_of(spell)]
    starts += [max(start_of(spell), start_of(following))] if following else []
    starts += [start_of(other) for other in standing if is_of_before(spell, other)]
    bound = min((start for start in starts if end is None or start < end), default=None)
    ended = spell.data.get("ended", ())
    # A spell that was restored may still have an end in its data that was found while it was undone.
    if (ended[-1][1] if ended else None) == spell.valid_to == (end if bound is None else bound):
        return spell
    return _with_ends(spell, [*told, *([] if bound is None else [[now, bound]])])


def _with_ends(spell: Record, ended: Sequence[Sequence[Any]]) -> Record:
    """The spell with these ends, of which the last one counts."""
    if not ended:
        return without_data(spell, "ended").with_(valid_to=None)
    return with_data(spell, ended=list(ended)).with_(valid_to=ended[-1][1])


def _at_head(spell: Record, place: Record) -> Record:
    """The spell as the head of its place, with all that the place remembers whichever value it has."""
    vector = place.vector if spell.content == place.content else None
    data = of_spell(spell.data) | {name: value for name, value in of_place(place).items() if value}
    return spell.with_(id=place.id, layer=place.layer, data=data, vector=vector, version=place.version, born=place.born)


# ── What an undo remembers ───────────────────────────────────────────────────────────────────────


def remembering(before: Record, after: Record, undo: Undo) -> Record:
    """The changed record with what it was; what earlier undos had changed is kept beside it, the oldest first."""
    names = (before.data.keys() | after.data.keys()) - {"undone"}
    was = {name: before.data.get(name) for name in names if before.data.get(name) != after.data.get(name)}
    source = before.source
    snapshot = {
        "data": was,
        "valid_from": before.valid_from,
        "valid_to": before.valid_to,
        "confidence": before.confidence,
        "source": source and [source.message_id, source.session_id, source.span, source.role, source.extractor],
    }
    note: dict[str, Any] = {"id": undo.id, "at": undo.at, "reason": undo.reason, "before": snapshot}
    known = before.data.get("undone")
    if known is not None:
        last = {name: value for name, value in known.items() if name != "earlier"}
        note["earlier"] = [*known.get("earlier", ()), last]
    return with_data(after, undone=note)


def restored(record: Record) -> Record:
    """The record as it was before its undo."""
    undone = record.data["undone"]
    was, source = undone["before"], undone["before"]["source"]
    data = {**record.data, "undone": _undone_before(undone), **was["data"]}
    return record.with_(
        data={name: value for name, value in data.items() if value is not None or name in NULLABLE},
        valid_from=was["valid_from"],
        valid_to=was["valid_to"],
        confidence=was["confidence"],
        source=source and Source(source[0], source[1], source[2] and tuple(source[2]), source[3], source[4]),
    )


def _undone_before(undone: Mapping[str, Any]) -> dict[str, Any] | None:
    """The note of the undo before this one."""
    if not undone.get("earlier"):
        return None
    *earlier, last = undone["earlier"]
    return {**last, "earlier": earlier} if earlier else dict(last)


NULLABLE = ("first_seen", "last_seen", "sure_at")
"""Data for which None is meaningful."""


def _taken_back(spell: Record, undo_id: str) -> Record:
    if not is_of(spell, undo_id):
        return spell
    back = restored(spell)
    known = back.data["tellings"]
    since = [each for each in spell.data["tellings"] if each not in known]
    return _retold(with_data(back, seen=back.data["seen"] + len(since)), [*known, *since]) if since else back


def is_of(record: Record, undo_id: str) -> bool:
    """Whether this undo was the last that changed the record."""
    return bool(record.data.get("undone", {}).get("id") == undo_id)


def scrubbed(record: Record, strip: Callable[[Record], Record | None]) -> Record:
    """The record, with what is stripped off also removed from what it was before its undos."""
    if "undone" not in record.data:
        return record
    before, undone = restored(record), record.data["undone"]
    left = strip(scrubbed(before, strip))
    if left is before:
        return record
    bare = without_data(record, "undone")
    return bare if left is None else remembering(left, bare, Undo(undone["id"], undone["at"], undone["reason"]))
