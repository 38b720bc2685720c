"""What becomes of a fact when more is said about it.

    place     where a key is kept; a key that may have several values has a place for each of them
    spell     a value, and from when to when it was true
    head      the current spell of a place, in the record that has the id of the place
    past      the spells behind the head: those before it, and those whose time has not come yet
    claim     something that was said about a key: a value is true, is over, was never true, ...
    telling   what a spell remembers of a claim: which message said it, when, and how surely

A claim is compared with the head alone, and the order in which claims arrive does not matter: the value
that was said last is the current one, and what arrives late goes into the past. Only a claim that a value
was never true concerns what is behind the head as well: what it had ended goes on. No spell is ever
removed, and each remembers when its end became known, so that what was believed at any time can be
reconstructed (`beliefs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.policies.keys import Key
from recollect.policies.merging import normal
from recollect.policies.quarantine import is_aside
from recollect.policies.spells import (
    UNHEARD,
    Telling,
    end_of,
    ended_by,
    has_value,
    is_empty,
    is_of_before,
    is_start_told,
    is_sure,
    message_of,
    of_place,
    stands,
    start_of,
)
from recollect.records import DAY_MS, Record, Source, derived_id, with_data, without_data

SURE = 0.5
"""A claim below this confidence never replaces one above it."""
REINFORCEMENT, CONFIDENCE_MAX = 0.3, 0.99
"""Saying it again removes this share of the doubt; some doubt always remains."""
TELLINGS_KEPT = 32
"""How many tellings a spell remembers, the newest: when all of them are forgotten, so is the spell."""
MARKS_KEPT, MARK_DIGITS = 64, 8
"""How many claims and texts a head remembers, so that each counts once, and the hex digits kept of each."""
LOOSELY_MS = 60 * DAY_MS
"""How long something may have been over when it was still mentioned as true, in passing and without a beginning."""
LEARNING = "learning"
"""The level of a language that somebody is learning, until it is said that they speak it."""
ENDS_KEPT = 16
"""How many ends of values a head remembers, for spells that are only reported later."""

TO_BE_FORGOTTEN = "the user asked to forget it"
"""The reason of a denial that does not say what was true instead: what it had ended stays ended."""
UNHEARD_KEPT = 32


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that was said about a key: what, when, by whom, and how sure it is.

    `kind` is one of `says` (it is true), `ends` (it is no longer true; an empty value means whatever it
    was), `corrects` (it is true and the previous value was never right), `denies` (it was never true),
    `resumes` (its source was wrong to end it), `confirms`, `pins` and `unpins`. `status` distinguishes what
    was `learned` from what was `told` outright. `level` is `learning` for a language that is not mastered yet.
    """

    key: Key
    value: str
    at: int
    kind: str = "says"
    confidence: float = 1.0
    status: str = "told"
    level: str = ""
    valid_from: int | None = None
    valid_to: int | None = None
    instead_of: str = ""
    reason: str = ""
    source: Source | None = None
    text: str = ""
    trust: str = "trusted"

    @property
    def since(self) -> int:
        """Since when it is true: as stated, otherwise since it was said."""
        return self.at if self.valid_from is None else self.valid_from

    @property
    def until(self) -> int:
        """When it ended, for a claim that ends something."""
        return self.at if self.valid_to is None else self.valid_to

    @property
    def is_sure(self) -> bool:
        return self.confidence >= SURE

    @property
    def by(self) -> str | None:
        """The message that says it."""
        return self.source.message_id if self.source else None

    @property
    def telling(self) -> list[Any]:
        """What is remembered of it in whatever it changes."""
        source = self.source or Source()
        extractor = source.extractor if self.status == "learned" else None
        told = Telling(self.by, source.session_id, self.at, self.since, self.confidence, extractor, self.text)
        return list(told)

    @property
    def mark(self) -> str:
        """Equal for the same thing said by the same message; empty when no message said it."""
        return _mark(self.value, self.kind, self.by) if self.by else ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The new head, and the spells that go behind it.

    `behind` holds the spells that are there already, if they were read. Only a denial asks for them.
    """

    head: Record
    past: tuple[Record, ...] = ()
    behind: tuple[Record, ...] = ()

    def then(self, head: Record, *past: Record) -> Timeline:
        return replace(self, head=head, past=(*self.past, *past))

    @property
    def spells(self) -> list[Record]:
        """All that is known of the place, the head last."""
        return [*self.behind, *self.past, self.head]

    def of_spells(self, spells: Sequence[Record]) -> Timeline:
        """The timeline with the same number of other spells."""
        kept, cut = len(self.behind), len(spells) - 1
        return Timeline(spells[cut], tuple(spells[kept:cut]), tuple(spells[:kept]))


def text_mark(text: str) -> str:
    """What is remembered of a text that said something: enough to recognise it, not to read it."""
    return _mark(text)


def decide(line: Timeline, claim: Claim, now: int) -> Timeline:
    """The timeline after a claim; the very same object when the claim is known or says nothing new.

    An empty head (a record without data) stands for a place about which nothing is known.
    """
    data, mark = line.head.data, claim.mark
    if mark in data.get("applied", ()):
        return line
    rejected = data.get("rejected") if claim.status == "learned" else None
    if rejected and (said := _mark(claim.value, claim.text)) in rejected:
        return _unheard(line, claim, said)
    decided = _DECISIONS[claim.kind](line, claim, now)
    if decided is line or not mark:
        return decided
    applied = [*decided.head.data.get("applied", ()), mark][-MARKS_KEPT:]
    return replace(decided, head=with_data(decided.head, applied=applied))


def _unheard(line: Timeline, claim: Claim, mark: str) -> Timeline:
    """The claim is not learned from the same text again; who said it is kept in case the rejection is undone."""
    known = line.head.data.get(UNHEARD, ())
    said = f"{mark}:{claim.source.message_id if claim.source else None}"
    if claim.source is None or claim.source.message_id is None or said in known:
        return line
    return line.then(with_data(line.head, unheard=[*known, said][-UNHEARD_KEPT:]))


def unheard(head: Record, marks: Collection[str]) -> tuple[list[str], list[str]]:
    """The messages that count now that these marks are no longer rejected, and the entries that remain."""
    said: Sequence[str] = head.data.get(UNHEARD, ())
    heard = [each for each in said if each.partition(":")[0] in marks]
    return [each.partition(":")[2] for each in heard], [each for each in said if each not in heard]


# ── It is true ───────────────────────────────────────────────────────────────────────────────────


def _says(line: Timeline, claim: Claim, now: int) -> Timeline:
    head = line.head
    if is_aside(head):
        # The known value is set aside, so it does not hold against what is said.
        return line.then(_spell(head, claim, now), _closed(head, max(start_of(head), claim.since), now))
    if _is_vacant(head):
        return line.then(_spell(head, claim, now), *([head] if head.data else []))
    if has_value(head, claim.value):
        return _says_again(line, claim, now)
    if _holds_against(head, claim):
        return line.then(head, _not_taken(head, claim, now))
    # Which value is current: sure before unsure, then the one that was said last.
    if (claim.is_sure, claim.at) >= (is_sure(head), head.data["last_seen"]):
        if start_of(head) <= now < claim.since:
            # It is not true yet. Until then the present value stays at the head, where everybody looks.
            return line.then(_closed(head, claim.since, now), _spell(head, claim, now))
        if claim.since < start_of(head) and claim.status == "learned":
            return _says_earlier(line, claim, now)
        return line.then(_spell(head, claim, now), _closed(head, max(start_of(head), claim.since), now))
    return _says_late(line, claim, now)


def _says_earlier(line: Timeline, claim: Claim, now: int) -> Timeline:
    """Said last, but about a time before the head's: "I moved to Berlin in 2015" after "I moved to Munich in 2020".

    If the head only began when it was said, nobody knows how long it was true, and the newer claim counts from there.
    """
    head = line.head
    if is_start_told(head):
        return line.then(head, _closed(_spell(head, claim, now), start_of(head), now))
    from_then = replace(claim, valid_from=start_of(head))
    return line.then(_spell(head, from_then, now), _closed(head, start_of(head), now))


def _says_again(line: Timeline, claim: Claim, now: int) -> Timeline:
    head = line.head
    if head.valid_to is not None and head.valid_to <= claim.at:
        # It had ended: now it is true once more.
        if _holds_against(head, claim):
            return line.then(head, _not_taken(head, claim, now))
        return line.then(_spell(head, claim, now), head)
    again = _reinforced(head, claim, now)
    if claim.since >= start_of(head):
        return line.then(again)
    # A spell of its own, so that it stays known when the earlier start was learned.
    return line.then(again, _closed(_spell(head, claim, now), start_of(head), now))


def _says_late(line: Timeline, claim: Claim, now: int) -> Timeline:
    """Something else was said since: the claim belongs in the past, before the head or in the middle of it."""
    head = line.head
    spell = _spell(head, claim, now)
    if is_of_before(head, spell):
        return line.then(spell, _closed(head, claim.since, now))
    if claim.at <= head.data["first_seen"]:
        return line.then(head, _closed(spell, max(claim.since, start_of(head)), now))
    if is_of_before(spell, head):
        return line.then(head, _closed(spell, start_of(head), now))
    earlier = _told_by(head, lambda each: each.at < claim.at)
    last = max(Telling(*each).at for each in earlier.data["tellings"])
    before = _closed(with_data(earlier, last_seen=last), max(start_of(head), claim.since), now)
    again = max(start_of(head), head.data["last_seen"])
    after = with_data(_told_by(head, lambda each: each.at >= claim.at), first_seen=again).with_(valid_from=again)
    return line.then(after, before, _closed(spell, again, now))


def _told_by(spell: Record, test: Callable[[Telling], bool]) -> Record:
    """The spell with some of its tellings, as far as they are remembered."""
    tellings = [each for each in spell.data["tellings"] if test(Telling(*each))]
    return told_by(spell, tellings) if tellings else spell


def told_by(spell: Record, tellings: Sequence[Sequence[Any]]) -> Record:
    """The spell with these tellings, and one of them as its source: which of its characters is unknown."""
    spell = with_data(spell, tellings=[list(each) for each in tellings])
    messages = [telling for each in tellings if (telling := Telling(*each)).message]
    source = spell.source
    if source is not None and source.message_id in {telling.message for telling in messages}:
        return spell
    first = messages[0] if messages else None
    role = source.role if source else None
    return spell.with_(source=first and Source(first.message, first.session, None, role, first.extractor))


def _spell(head: Record, claim: Claim, now: int) -> Record:
    """What a claim says, as a spell in the place of the head."""
    spell: dict[str, Any] = {
        "key": claim.key.name,
        "value": claim.value,
        "status": claim.status,
        "seen": 1,
        "first_seen": claim.at,
        "last_seen": claim.at,
        "sure_at": now if claim.is_sure else None,
        "tellings": [claim.telling],
    }
    spell |= {"reason": claim.reason} if claim.reason else {}
    spell |= {"level": claim.level} if claim.level else {}
    made = Record(
        id=head.id,
        layer=head.layer,
        scope=head.scope,
        content=f"{claim.key.name.replace('_', ' ')}: {claim.value}",
        data=of_place(head) | spell,
        confidence=claim.confidence,
        created_at=now,
        event_at=claim.at,
        valid_from=claim.since,
        source=claim.source,
        trust=claim.trust,
        version=head.version,
        born=head.born,
    )
    ends = ((claim.valid_to, claim.telling), _end_told(head, claim.value), _end_told(head, ""))
    later = [(end, by) for end, by in ends if end is not None and end > claim.at]
    if not later:
        return made
    end, by = min(later, key=lambda each: each[0])
    return _closed(made, end, now, by)


def _reinforced(head: Record, claim: Claim, now: int) -> Record:
    """The head after its value was said once more: surer, and never weaker than it was."""
    if not claim.level:
        head = without_data(head, "level")
    data = head.data
    seen: dict[str, Any] = {"seen": data["seen"] + 1}
    if claim.is_sure and not is_sure(head):
        seen |= {"sure_at": now, "first_seen": claim.at, "last_seen": claim.at}
    elif claim.is_sure or not is_sure(head):
        seen |= {"last_seen": max(data["last_seen"], claim.at)}
    if data["status"] == "learned" and claim.status != "learned":
        seen |= {"status": claim.status}
    if head.data["first_seen"] is None or claim.at >= head.data["first_seen"] or claim.since >= start_of(head):
        # What was said before that, about earlier times, has a spell of its own.
        seen |= {"tellings": [*data["tellings"], claim.telling][-TELLINGS_KEPT:]}
    return with_data(head, **seen).with_(confidence=surer(head.confidence, claim.confidence))


def surer(known: float, said: float) -> float:
    best = max(known, said)
    return max(best, min(best + (1 - best) * REINFORCEMENT, CONFIDENCE_MAX))


def _not_taken(head: Record, claim: Claim, now: int) -> Record:
    """What was said but is not believed: kept with the reason, true at no time."""
    held = "pinned" if head.data.get("pinned") else "confirmed"
    reason = f"the known value is {held}" if claim.is_sure else "not sure enough"
    return _closed(with_data(_spell(head, claim, now), status="not_taken", reason=reason), claim.since, now)


# ── It is no longer true, or never was ───────────────────────────────────────────────────────────


def _ends(line: Timeline, claim: Claim, now: int) -> Timeline:
    head = line.head
    if not head.data:
        # That something was never true is not worth a spell where nobody thought it was.
        says_when = claim.value and claim.valid_from != claim.until
        return line.then(_with_end(_only_ended(head, claim, now), claim)) if says_when else line
    about_head = not claim.value or has_value(head, claim.value)
    if about_head:
        claim = replace(claim, valid_to=_over_since(head, claim))
    said = head.data["last_seen"]
    is_late = said is not None and (said > claim.at or start_of(head) > claim.until)
    if about_head and said is not None and not is_late and claim.until < end_of(head):
        if _holds_against(head, claim):
            return line.then(head, _not_taken(head, claim, now)) if claim.value else line
        reason = {"reason": claim.reason} if claim.reason else {}
        return line.then(_with_end(with_data(_closed(head, claim.until, now, claim.telling), **reason), claim))
    known_end = _known_end(head, claim.value)
    if known_end == claim.until:
        return line
    is_news = claim.value and (known_end is None or claim.valid_from is not None)
    told = [_only_ended(head, claim, now)] if is_news and (is_late or not about_head) else []
    return line.then(_with_end(head, claim), *told)


def _over_since(head: Record, claim: Claim) -> int:
    """When the claim ends the head: as it says, or when it is said, if the head was told loosely shortly before.

    "I work at Acme", told on Friday, and "I quit last week", told after it, are not a job that is yet to begin.
    """
    loosely = head.valid_from is not None and head.valid_from == head.data.get("first_seen")
    shortly = start_of(head) - LOOSELY_MS < claim.until <= start_of(head) <= claim.at
    is_a_spell = claim.valid_from is not None and claim.valid_from < claim.until
    return claim.at if loosely and shortly and not is_a_spell else claim.until


def _only_ended(head: Record, claim: Claim, now: int) -> Record:
    """A spell of which little is known except that it is over. It keeps no other value out of its place."""
    spell = with_data(_spell(head, claim, now), first_seen=None, last_seen=None)
    return _closed(spell.with_(valid_from=claim.valid_from), claim.until, now, claim.telling)


def _with_end(head: Record, claim: Claim) -> Record:
    """The head, remembering the end of a value for spells of it that arrive later, if the end is sure."""
    if not claim.is_sure:
        return head
    known = _known_end(head, claim.value)
    if known is not None and known >= claim.until:
        return head
    ends: dict[str, list[Any]] = {**head.data.get("ends", {}), _mark(claim.value): [claim.until, claim.telling]}
    newest = sorted(ends, key=lambda mark: -ends[mark][0])[:ENDS_KEPT]
    return with_data(head, ends={mark: ends[mark] for mark in newest})


def _known_end(head: Record, value: str) -> int | None:
    """When a value is last known to have ended; for the empty value, when whatever it was had."""
    return _end_told(head, value)[0]


def _end_told(head: Record, value: str) -> tuple[int | None, Sequence[Any]]:
    """The same, with the telling that said so."""
    end, telling = head.data.get("ends", {}).get(_mark(value), (None, ()))
    return end, telling


def _corrects(line: Timeline, claim: Claim, now: int) -> Timeline:
    head = line.head
    was_wrong = (
        not _is_vacant(head)
        and not has_value(head, claim.value)
        and (not claim.instead_of or has_value(head, claim.instead_of))
        and claim.at >= head.data["last_seen"]
        and not _holds_against(head, claim)
    )
    if not was_wrong:
        return _says(line, claim, now)
    line, since = _overruled(line, replace(claim, value=head.data["value"]), "corrected", now)
    right = _spell(line.head, replace(claim, reason=""), now)
    if claim.valid_from is None:
        right = right.with_(valid_from=since)
    return line.then(with_data(right, pinned=True) if head.data.get("pinned") else right, line.head)


def _denies(line: Timeline, claim: Claim, now: int) -> Timeline:
    return _overruled(line, claim, "corrected" if claim.status == "learned" else "rejected", now)[0]


def _overruled(line: Timeline, claim: Claim, status: str, now: int) -> tuple[Timeline, int | None]:
    """The timeline without the value that was never true, and since when that was thought to be."""
    denied = _denied(line.spells, claim)
    if not denied:
        return line, None
    spells = [_void(each, status, claim, now) if place in denied else each for place, each in enumerate(line.spells)]
    wrong = [line.spells[place] for place in denied]
    spells[-1] = _rejecting(spells[-1], wrong)
    return line.of_spells(spells), min(wrong, key=start_of).valid_from


def _denied(spells: Sequence[Record], claim: Claim) -> list[int]:
    """The places of the spells that a denial is about: the head, or one yet to come, and what leads up to it.

    "I have lived in Oslo since 2015", said of a known Oslo, has a spell of its own: both are the same stay in Oslo.
    """
    wrong = [place for place, spell in enumerate(spells) if _can_deny(spell, claim)]
    denied = [place for place in wrong if place == len(spells) - 1 or start_of(spells[place]) > claim.at]
    for place in sorted(set(wrong) - set(denied), key=lambda place: -end_of(spells[place])):
        if any(start_of(spells[place]) <= start_of(spells[each]) <= end_of(spells[place]) for each in denied):
            denied.append(place)
    return denied


def _can_deny(spell: Record, claim: Claim) -> bool:
    if not spell.data or not stands(spell) or is_empty(spell):
        return False
    said_before = spell.data["last_seen"] <= claim.at
    return said_before and has_value(spell, claim.value) and not _holds_against(spell, claim)


def _resumes(line: Timeline, claim: Claim, now: int) -> Timeline:
    """The head without the ends that follow from a message that was mistaken about something else."""
    head = line.head
    if not head.data or claim.by not in ended_by(head):
        return line
    ended = [each for each in head.data["ended"] if message_of(each) != claim.by]
    ends = {mark: end for mark, end in head.data.get("ends", {}).items() if Telling(*end[1]).message != claim.by}
    data = {"ends": ends} | ({"ended": ended} if ended else {})
    resumed = with_data(without_data(head, "ended", "reason"), **data)
    return line.then(resumed.with_(valid_to=ended[-1][1] if ended else None))


def _void(spell: Record, status: str, claim: Claim, now: int) -> Record:
    """The spell as one that was never true."""
    was = {"by": claim.telling, "status": spell.data["status"], "pinned": bool(spell.data.get("pinned"))}
    changed = with_data(spell, status=status, reason=claim.reason, pinned=False, voided=was)
    return _closed(changed, min(start_of(spell), now), now, claim.telling)


def _rejecting(head: Record, spells: Iterable[Record]) -> Record:
    """The head, remembering not to learn these spells again from the texts that they came from."""
    rejected = [*head.data.get("rejected", ()), *(mark for spell in spells for mark in marks_of(spell))]
    return with_data(head, rejected=rejected[-MARKS_KEPT:])


def marks_of(spell: Record) -> list[str]:
    """What is remembered of the texts of a spell, so that it is not learned from them again."""
    texts = dict.fromkeys(Telling(*each).text for each in spell.data["tellings"])
    return [_mark(spell.data["value"], text) for text in texts if text]


# ── What people say about a fact itself ──────────────────────────────────────────────────────────


def _confirms(line: Timeline, claim: Claim, now: int) -> Timeline:
    if _is_vacant(line.head) or not has_value(line.head, claim.value):
        return line
    return line.then(with_data(_reinforced(line.head, claim, now), status="confirmed"))


def _pins(line: Timeline, claim: Claim, now: int) -> Timeline:
    head = line.head
    wanted = claim.kind == "pins"
    if _is_vacant(head) or not has_value(head, claim.value) or bool(head.data.get("pinned")) == wanted:
        return line
    return line.then(with_data(head, pinned=wanted))


_DECISIONS: dict[str, Callable[[Timeline, Claim, int], Timeline]] = {
    "says": _says,
    "ends": _ends,
    "corrects": _corrects,
    "denies": _denies,
    "resumes": _resumes,
    "confirms": _confirms,
    "pins": _pins,
    "unpins": _pins,
}


# ── Small questions ──────────────────────────────────────────────────────────────────────────────


def _is_vacant(head: Record) -> bool:
    """True when nothing is known here, or nothing that was ever said to be true and stood, or it is set aside."""
    return not head.data or head.data["last_seen"] is None or is_empty(head) or is_aside(head)


def _holds_against(head: Record, claim: Claim) -> bool:
    """True when the claim may not change the head: it is unsure, or only learned where people have decided.

    A confirmation decides about what was said until then: what the user says later is news. A pin decides for good.
    """
    if not claim.is_sure and is_sure(head):
        return True
    confirmed = head.data["status"] == "confirmed" and claim.at <= head.data["last_seen"]
    kept = head.data.get("pinned") or confirmed
    return bool(kept) and claim.status == "learned" and claim.at < end_of(head)


def _closed(spell: Record, end: int, now: int, *telling: Sequence[Any]) -> Record:
    """The spell with this end, and when that became known; unchanged if it ended before.

    With the `telling` that said so, unless the end only follows from another value.
    """
    if spell.valid_to is not None and spell.valid_to <= end:
        return spell
    return with_data(spell, ended=[*spell.data.get("ended", ()), [now, end, *telling]]).with_(valid_to=end)


def _mark(value: str, *parts: str) -> str:
    return derived_id(normal(value), *parts)[:MARK_DIGITS]
