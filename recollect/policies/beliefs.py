"""What was true or believed about a fact at a given time, read from the spells of its place."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from recollect.policies.keys import key_of
from recollect.policies.spells import (
    UNTRUE,
    end_of,
    has_value,
    is_empty,
    is_of_before,
    is_start_told,
    is_sure,
    stands,
    start_of,
)
from recollect.records import DAY_MS, Record, with_data


def believed(spells: Iterable[Record], known_at: int) -> list[Record]:
    """The spells of one place as they were known at a given time, oldest first.

    Each has the interval that it had by then: until its end, if that was known, and not beyond the
    beginning of the next value. Adjoining spells of one value are joined. What was true at no time
    (not taken, corrected, rejected) is included with an empty interval. Pass the spells with the
    head last.
    """
    as_known = [_as_known(spell, known_at) for spell in spells if spell.created_at <= known_at]
    if len(as_known) < 2:
        return as_known  # nothing is before or after it, as with most facts
    known = _without_overruled(as_known, known_at)
    lasting = sorted(_around(spell for spell in known if not is_empty(spell)), key=_interval)
    begun = [spell for spell in lasting if spell.valid_from is not None]
    sure = _bounded(_joined([spell for spell in begun if is_sure(spell, known_at)]))
    unsure = _bounded(_joined([spell for spell in begun if not is_sure(spell, known_at)]))
    begun = sorted([*sure, *(_yielding(spell, sure) for spell in unsure)], key=_interval)
    held = _joined([spell for spell in begun if not is_empty(spell)])
    all_held = _bounded([*_only_vague(lasting), *held])
    empty = [spell for spell in (*known, *begun) if is_empty(spell)]
    return sorted([*empty, *all_held], key=start_of)


def in_force(spells: Iterable[Record], as_of: int, known_at: int) -> list[Record]:
    """What was true at `as_of`, as far as it was known at `known_at`: one spell or none."""
    found = [spell for spell in believed(spells, known_at) if start_of(spell) <= as_of < end_of(spell)]
    # Only spells without a known beginning can overlap; the one that ended last is the nearest.
    return found[-1:]


def faded(record: Record, as_of: int) -> float:
    """The confidence that is left at a given time: less for what changes easily, the longer nobody has said it."""
    half_life_days = key_of(str(record.data.get("key", ""))).half_life_days
    last = record.data.get("last_seen")
    if half_life_days is None or not isinstance(last, int):
        return record.confidence
    age = max(as_of - last, 0)
    return round(record.confidence * math.exp2(-age / (half_life_days * DAY_MS)), 4)


def _as_known(spell: Record, known_at: int) -> Record:
    """The spell with the end that was known by then."""
    if "ended" not in spell.data:
        return spell
    known = [end for since, end, *_ in spell.data["ended"] if since <= known_at]
    return spell.with_(valid_to=known[-1] if known else None)


def _without_overruled(spells: Sequence[Record], known_at: int) -> list[Record]:
    """The spells; those that were overruled by the value said next, from before they began, held at no time.

    A claim that is heard late is compared with the head alone, which may know nothing of a correction before it.
    """
    standing = [place for place, spell in enumerate(spells) if stands(spell) and is_sure(spell, known_at)]
    following = dict(zip(standing, next_said([spells[place] for place in standing]), strict=True))
    return [
        spell.with_(valid_to=spell.valid_from) if _never_held(spell, following.get(place)) else spell
        for place, spell in enumerate(spells)
    ]


def next_said(standing: Sequence[Record]) -> list[Record | None]:
    """For each of these spells, the first one of another value that was said after it and held at some time.

    A value whose next one counts from before it never held: a correction counts from when the corrected value began.
    """
    found: list[Record | None] = [None] * len(standing)
    held: list[tuple[Record, float]] = []
    over = _overtaken(standing)
    for place in sorted(range(len(standing)), key=lambda place: -standing[place].data["first_seen"]):
        spell = standing[place]
        found[place] = _next_of(spell, held)
        if not _never_held(spell, found[place]):
            held.append((spell, over[place]))
    return found


def _next_of(spell: Record, held: Sequence[tuple[Record, float]]) -> Record | None:
    """The first of these that replaces a spell. Those said last stand first, so it is mostly the last one here."""
    found: Record | None = None
    for other, over in reversed(held):
        if found is not None and other.data["first_seen"] > found.data["first_seen"]:
            break
        if over > start_of(spell) and _replaces(other, spell):
            found = other
    return found


def _overtaken(standing: Sequence[Record]) -> list[float]:
    """For each of these spells, when the first of those began that it was only before; infinity if it was of none."""
    over = [math.inf] * len(standing)
    said = sorted(range(len(standing)), key=lambda place: -standing[place].data["first_seen"])
    begun: list[list[tuple[int, int]]] = [[], []]  # those said so far, by their beginning: all, and the sure ones
    for place in sorted(range(len(standing)), key=lambda place: standing[place].data["last_seen"]):
        spell = standing[place]
        while said and standing[said[-1]].data["first_seen"] <= spell.data["last_seen"]:
            other = said.pop()
            for each in begun[: 1 + is_sure(standing[other])] if is_start_told(standing[other]) else ():
                insort(each, (start_of(standing[other]), other))
        if spell.data["status"] == "learned":
            among = begun[is_sure(spell)]
            after = range(bisect_right(among, (start_of(spell), len(standing))), len(among))
            told = (among[at] for at in after if is_of_before(spell, standing[among[at][1]]))
            over[place] = next(told, (math.inf, 0))[0]
    return over


def _replaces(other: Record, spell: Record) -> bool:
    """True for another value that was said later, and surely enough to replace this one."""
    is_later = other.data["first_seen"] > spell.data["first_seen"]
    return is_later and is_sure(other) >= is_sure(spell) and not has_value(other, spell.data["value"])


def _never_held(spell: Record, following: Record | None) -> bool:
    return following is not None and start_of(following) < start_of(spell)


def _around(spells: Iterable[Record]) -> Iterator[Record]:
    """The spells, each in parts where others held in between: "I live in Oslo" and "I lived in Rome in 2018".

    Those others were told as over, with beginning and end, so the value that holds on holds again after them.
    """
    whole = list(spells)
    between = sorted((spell for spell in whole if _is_told_as_over(spell)), key=_interval)
    for spell in whole:
        inside = [other for other in between if start_of(spell) < start_of(other) and end_of(other) < end_of(spell)]
        yield from _parts(spell, inside) if inside and stands(spell) else (spell,)


def _parts(spell: Record, inside: Sequence[Record]) -> Iterator[Record]:
    since = start_of(spell)
    for other in inside:
        if since < start_of(other):
            yield spell.with_(valid_from=since, valid_to=other.valid_from)
        since = max(since, int(end_of(other)))
    yield spell.with_(valid_from=since)


def _is_told_as_over(spell: Record) -> bool:
    """Whether nobody said that it is true, only from when to when it was, and surely."""
    told_as_over = spell.data["last_seen"] is None and spell.data["status"] not in UNTRUE
    return told_as_over and is_sure(spell) and spell.valid_from is not None and spell.valid_to is not None


def _only_vague(spells: Sequence[Record]) -> list[Record]:
    """Those that are only known to be over, unless more is known about the same spell."""
    begun = [spell for spell in spells if spell.valid_from is not None]
    return [
        spell
        for spell in spells
        if spell.valid_from is None
        and not any(has_value(spell, each.data["value"]) and start_of(each) < end_of(spell) for each in begun)
    ]


def _joined(spells: Sequence[Record]) -> list[Record]:
    """Neighbours of one value, where one begins before the other has ended, as one spell."""
    joined: list[Record] = []
    for spell in spells:
        before = joined[-1] if joined else None
        if before is None or not has_value(before, spell.data["value"]) or end_of(before) < start_of(spell):
            joined.append(spell)
            continue
        seen = max(before.data["seen"], spell.data["seen"])
        last = max(spell, before, key=end_of)
        surest = max(before.confidence, spell.confidence)
        joined[-1] = with_data(last, seen=seen).with_(valid_from=before.valid_from, confidence=surest)
    return joined


def _bounded(spells: Sequence[Record]) -> list[Record]:
    """The spells, none of which lasts beyond the beginning of the next, where that is known."""
    bounded: list[Record] = []
    next_start = math.inf
    for spell in reversed(spells):
        bounded.append(spell.with_(valid_to=int(next_start)) if next_start < end_of(spell) else spell)
        next_start = next_start if spell.valid_from is None else spell.valid_from
    return bounded[::-1]


def _yielding(spell: Record, sure: Sequence[Record]) -> Record:
    """An unsure spell, up to where a sure one begins; nothing of it if that began before."""
    for other in sure:
        if start_of(other) < end_of(spell) and start_of(spell) < end_of(other):
            spell = spell.with_(valid_to=max(start_of(spell), start_of(other)))
    return spell


def _interval(spell: Record) -> tuple[int, float]:
    return start_of(spell), end_of(spell) if spell.valid_from is None else 0
