"""Facts and preferences of a user: their current values, their history, and the profile built from both.

A key that takes one value at a time has one head; a key that holds a set has a head for each of
its values. Heads are read by id. Earlier states of a head are kept in the layer `past` and are
written in the same commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

from recollect import validate
from recollect.claims import Told, checked_key, claim_of, correction
from recollect.consequences import brings_back, outdated, resumed
from recollect.cursors import born_of, page_of
from recollect.enrich import Found
from recollect.errors import Conflict, NotFound, TooLarge, ValidationError
from recollect.filters import Filter
from recollect.handles import Handle
from recollect.layers import FACT_LAYERS
from recollect.ledger import Ledger
from recollect.long_term import past_ids, past_states
from recollect.pace import Pace, apart
from recollect.policies.beliefs import believed, faded, in_force
from recollect.policies.facts import SURE, TO_BE_FORGOTTEN, Claim, Timeline, decide
from recollect.policies.keys import Key, key_of
from recollect.policies.merging import normal
from recollect.policies.quarantine import heard, is_aside
from recollect.policies.spells import EVER, UNTRUE, has_value, is_to_come, start_of
from recollect.policies.unlearning import resettled
from recollect.records import DAY_MS, Changes, Record, Scope, as_datetime, enrich_jobs, iso
from recollect.spells import entries_behind, follow_jobs, records_of, spell_of, turn_jobs

UPSERT_MAX = 30
"""Facts per call: each may put three records, and all go into one commit."""
PARTLY_NAMED = ("vehicle", "device")
"""Keys whose values people name by a part of them when they part with one."""
APPLIED_DRAFTS, APPLIED_PUTS = 40, 40
"""Per commit: how many drafts are considered, and after how many records the remaining drafts wait."""

OVERRULING = ("denies", "corrects")
"""Claims that a value was never true: they also concern what is behind it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of a key, and when it was true.

    `status` is `learned`, `told`, `confirmed` or `pinned` while it holds, and `ended`, `rejected`,
    `corrected`, `undone` or `not_taken` when it does not. `confidence` is what remains of it, after fading,
    at the time asked about.
    """

    key: str
    value: str
    confidence: float = 1.0
    source_message_id: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    id: str = ""
    status: str = "told"
    span: tuple[int, int] | None = None
    seen: int = 1
    reason: str = ""

    @classmethod
    def from_record(cls, record: Record, as_of: int | None = None) -> Fact:
        """The fact held by a record of the layer `fact` or `preference`."""
        data, source = record.data, record.source
        return cls(
            key=str(data["key"]),
            value=str(data["value"]),
            confidence=record.confidence if as_of is None else faded(record, as_of),
            source_message_id=source.message_id if source else None,
            valid_from=_datetime(record.valid_from),
            valid_to=_datetime(record.valid_to),
            id=record.id,
            status=_status(record, as_of),
            span=source.span if source else None,
            seen=int(data.get("seen", 1)),
            reason=str(data.get("reason", "")),
        )

    def to_dict(self) -> dict[str, Any]:
        """The fact as documented JSON, with ISO times."""
        return {
            "key": self.key,
            "value": self.value,
            "confidence": self.confidence,
            "source_message_id": self.source_message_id,
            "valid_from": iso(self.valid_from),
            "valid_to": iso(self.valid_to),
            "id": self.id,
            "status": self.status,
            "span": list(self.span) if self.span else None,
            "seen": self.seen,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known about a user: facts, and settings by name (a list where a setting has many values)."""

    user_id: str
    name: str | None = None
    facts: tuple[Fact, ...] = ()
    preferences: Mapping[str, str | list[str]] = field(default_factory=dict)
    last_interaction: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """The profile as documented JSON, with ISO times."""
        return {
            "user_id": self.user_id,
            "name": self.name,
            "facts": [fact.to_dict() for fact in self.facts],
            "preferences": dict(self.preferences),
            "last_interaction": iso(self.last_interaction),
        }


class _Moved(Exception):
    """The value a claim is about has changed since it was read."""


class Facts(Handle):
    """The facts of one user, or with `layer="preference"` the preferences.

    >>> from recollect import Memory
    >>> async with Memory.open("memory://") as memory:
    ...     facts = memory.user("ann").facts
    ...     fact = await facts.add("city", "Oslo")
    ...     fact = await facts.add("city", "Bergen")
    ...     print([(fact.value, fact.status) for fact in await facts.history("city")])
    [('Oslo', 'ended'), ('Bergen', 'told')]
    """

    def __init__(self, ledger: Ledger, scope: Scope, layer: str = "fact") -> None:
        self._ledger = ledger
        self._layer = ledger.layers[validate.choice(layer, FACT_LAYERS, "layer")]
        self._scope = self._layer.scope_of(scope)
        self._partition = scope.partition

    # ── stating ──────────────────────────────────────────────────────────────────────────────────

    async def upsert(self, items: Sequence[Mapping[str, Any]]) -> list[Fact]:
        """State several facts in one commit. Return what now stands for each key (or value of a set)."""
        given = validate.batch(items)
        if len(given) > UPSERT_MAX:
            raise TooLarge(f"must have at most {UPSERT_MAX} facts; send the rest in further calls", field="items")
        told = [self._masked(each) for each in validate.each(given, Told.of)]
        sources = await self._sources([each.message_id for each in told])
        now = self._ledger.clock()
        return await self._write([each.claim(sources, now) for each in told])

    async def add(
        self,
        key: str,
        value: str,
        *,
        confidence: float = 1.0,
        source_message_id: str | None = None,
        valid_from: Any = None,
        valid_to: Any = None,
    ) -> Fact:
        """State one fact. Repeating a value raises its confidence; a different value ends the one before it.

        A value that was true before the current one began goes into the history.
        """
        item = {"key": key, "value": value, "confidence": confidence, "source_message_id": source_message_id}
        (fact,) = await self.upsert([item | {"valid_from": valid_from, "valid_to": valid_to}])
        return fact

    async def correct(
        self,
        key: str,
        value: str,
        *,
        instead_of: str | None = None,
        reason: str = "",
        source_message_id: str | None = None,
    ) -> Fact:
        """State the right value, and that the previous one never was true: it stays in the history, true at no time.

        Like a confirmed value, it yields only to what the user says surely afterwards.
        """
        kind = checked_key(key)
        wrong = "" if instead_of is None else self._masked_value(kind, validate.fact_value(instead_of, "instead_of"))
        if kind.many and not wrong:
            raise ValidationError("say which of the values was wrong", field="instead_of")
        message_id = validate.optional_identifier(source_message_id, "source_message_id")
        told = self._masked(Told(kind, validate.fact_value(value), message_id=message_id))
        now = self._ledger.clock()
        claim = replace(told.claim(await self._sources([message_id]), now, status="confirmed"), at=now)
        claims = correction(claim, wrong, self._reason(reason))

        async def known() -> tuple[Sequence[Claim], Sequence[Record]]:
            found = await self._ledger.get(self._partition, self._ids(claims))
            return claims, [head for head in found if head.layer == self._layer.name]

        return (await self._write_about(known))[-1]

    async def end(self, key: str, value: str | None = None, *, at: Any = None, reason: str = "") -> list[Fact]:
        """State that it is no longer true, from now or from `at`. For a set, no `value` means all its values."""
        until = validate.moment(at, "at")
        return await self._about(key, value, "ends", valid_to=until, reason=self._reason(reason))

    async def reject(self, key: str, value: str | None = None, *, reason: str = "") -> list[Fact]:
        """State that it never was true. It is not learned again from the same text.

        A value that ended only because of it holds again. `value` may also be one that is yet to begin.
        """
        return await self._about(key, value, "denies", reason=self._reason(reason))

    async def confirm(self, key: str, value: str | None = None) -> list[Fact]:
        """State that it is right: its confidence rises, and nothing that was said before replaces it.

        What the user says surely afterwards does ("I moved to York"), unless the value is pinned.
        """
        return await self._about(key, value, "confirms", confidence=SURE)

    async def pin(self, key: str, value: str | None = None) -> list[Fact]:
        """Keep the value, whatever is learned, until it is unpinned."""
        return await self._about(key, value, "pins")

    async def unpin(self, key: str, value: str | None = None) -> list[Fact]:
        """Allow the value to be replaced again like any other."""
        return await self._about(key, value, "unpins")

    def _reason(self, reason: str) -> str:
        return str(self._ledger.masked(validate.reason(reason)))

    async def _current(self, asked: Key, value: str | None, kind: str) -> Sequence[Record]:
        """The head of the current value, or the heads of a set; `NotFound` if there are none.

        A denial may also be about a value that is yet to begin.
        """
        now = self._ledger.clock()
        known = await self._heads(asked)
        heads = [
            head
            for head in known
            if (head.valid_to is None or head.valid_to > now) and (value is None or has_value(head, value))
        ]
        if not heads and kind == "denies" and value is not None:
            places = zip(known, await self._with_past(known), strict=True)
            heads = [head for head, place in places if any(is_to_come(spell, value, now) for spell in place)]
        if not heads:
            raise NotFound("no such value is known here", field="key" if value is None else "value")
        if len(heads) > UPSERT_MAX:
            raise TooLarge(f"there are more than {UPSERT_MAX} values; name them one by one", field="value")
        return heads

    async def _about(self, key: str, value: str | None, kind: str, **more: Any) -> list[Fact]:
        """Make a claim about the current values."""
        asked = checked_key(key)
        wanted = None if value is None else self._masked_value(asked, validate.fact_value(value))

        async def current() -> tuple[Sequence[Claim], Sequence[Record]]:
            heads = await self._current(asked, wanted, kind)
            until = more.get("valid_to")
            if until is not None and any(head.valid_from is not None and until < head.valid_from for head in heads):
                raise ValidationError("must not end before it began; reject it if it was never true", field="at")
            now = self._ledger.clock()
            values = [head.data["value"] if wanted is None or has_value(head, wanted) else wanted for head in heads]
            claims = [Claim(asked, value, now, kind, **more) for value in values]
            back = [await resumed(claim, heads, self._heads) for claim in claims if kind == "denies"]
            return [*claims, *chain.from_iterable(back)], heads

        return await self._write_about(current)

    async def _write_about(self, read: Callable[[], Awaitable[tuple[Sequence[Claim], Sequence[Record]]]]) -> list[Fact]:
        """Write claims about the values that are read; read them again if they were changed or forgotten meanwhile."""
        while True:
            try:
                return await self._write(*await read())
            except _Moved:
                continue

    async def _write(self, claims: Sequence[Claim], about: Sequence[Record] = ()) -> list[Fact]:
        """Decide the claims and write what changes, provided the records they are `about` still have their values."""
        lines: dict[str, Timeline] = {}

        def decide_all(known: Mapping[str, Record], now: int) -> Changes | None:
            if not all(head.id in known and _is_as_read(known[head.id], head) for head in about):
                raise _Moved
            lines.clear()
            for claim in claims:
                self._take(lines, known, claim, now)
            put = records_of(lines, known)
            return self._changes(put, now) if put else None

        by_id = {self._id(claim.key, claim.value): claim for claim in claims}
        behind = [id for head in about if by_id[head.id].kind in OVERRULING for id in past_ids(head)]
        await self._ledger.update_all(self._partition, [*by_id, *behind], decide_all)
        now = self._ledger.clock()
        spoken_of = [_spoken_of(lines[id], claim) for id, claim in by_id.items() if claim.kind != "resumes"]
        return [Fact.from_record(spell, now) for spell in spoken_of if spell.data]

    def _masked(self, told: Told) -> Told:
        return replace(told, value=self._masked_value(told.key, told.value))

    def _masked_value(self, key: Key, value: str) -> str:
        """The value as it may be stored; the key's name also decides what is masked."""
        return str(self._ledger.masked({key.name: value})[key.name])

    async def _sources(self, ids: Sequence[str | None]) -> dict[str, Record]:
        """The named messages that are known here; unknown ones are kept by id only."""
        found = await self._ledger.get(self._partition, [id for id in dict.fromkeys(ids) if id])
        return {record.id: record for record in found if record.layer == "conversation"}

    # ── learning ─────────────────────────────────────────────────────────────────────────────────

    async def apply(self, found: Sequence[Found], extractor: str) -> tuple[Changes, tuple[Found, ...]]:
        """The changes for drafts of this layer, and the drafts that must wait for another commit.

        Only trusted messages are learned from, and only while the message still exists.
        """
        drafts = [each for each in found if each.draft.layer == self._layer.name and each.message.trust == "trusted"]
        claims = [await self._claims(each, extractor) for each in drafts[:APPLIED_DRAFTS]]
        claims = [row + await outdated(row, claims, self._heads) for row in claims]
        every = [claim for row in claims for claim in row]
        known = {record.id: record for record in await self._ledger.get(self._partition, self._ids(every))}
        denied = self._ids(claim for claim in every if claim.kind in OVERRULING)
        behind = await past_states(self._ledger, self._partition, [known[id] for id in denied if id in known])
        known |= {entry.id: entry for entry in behind}
        now = self._ledger.clock()
        lines: dict[str, Timeline] = {}
        taken = 0
        for row in claims:
            # A line yields at most its head and its past: build the records only if there might be too many.
            most = sum(1 + len(line.past) + len(line.behind) for line in lines.values())
            if most >= APPLIED_PUTS and len(records_of(lines, known)) >= APPLIED_PUTS:
                break
            for claim in row:
                self._take(lines, known, claim, now)
            taken += 1
        put = records_of(lines, known)
        if not put:
            return Changes(self._partition), tuple(drafts[taken:])
        needs = tuple(dict.fromkeys(each.message.id for each in drafts[:taken]))
        return self._changes(put, now).and_(needs=needs), tuple(drafts[taken:])

    async def _claims(self, found: Found, extractor: str) -> list[Claim]:
        """The claims a draft makes: for a set, one for each value that it concerns."""
        draft = found.draft
        kind = key_of(draft.key)
        if not kind.name or len(draft.value.encode()) > validate.FACT_VALUE_BYTES:
            return []
        claim = claim_of(found, kind, extractor, self._ledger.clock())
        if draft.ends and kind.name in PARTLY_NAMED:
            claim = replace(claim, value=await self._full_name(kind, draft.value))
        if draft.corrects:
            return correction(claim, draft.instead_of, TO_BE_FORGOTTEN if draft.data.get("forget") else "")
        if draft.value or not draft.ends or not kind.many:
            return [claim] if draft.value or draft.ends else []
        heads = await self._heads(kind)
        return [replace(claim, value=head.data["value"]) for head in heads[:APPLIED_DRAFTS]]

    async def _full_name(self, key: Key, value: str) -> str:
        """The known value that is meant: "sold the Touran" ends the VW Touran, if there is one such value."""
        wanted = set(normal(value).split())
        known = [str(head.data["value"]) for head in await self._heads(key) if head.valid_to is None]
        meant = [each for each in known if wanted and wanted <= set(normal(each).split())]
        return meant[0] if len(meant) == 1 else value

    # ── heads and their past ─────────────────────────────────────────────────────────────────────

    def _id(self, key: Key, value: str) -> str:
        """The place of a key's value: one per key, or one per value of a set."""
        return self._layer.head_id(self._scope, f"{key.name}={normal(value)}" if key.many else key.name)

    def _ids(self, claims: Iterable[Claim]) -> Sequence[str]:
        """The places that claims are about, each once."""
        return list(dict.fromkeys(self._id(claim.key, claim.value) for claim in claims))

    def _take(self, lines: dict[str, Timeline], known: Mapping[str, Record], claim: Claim, now: int) -> None:
        """Decide one claim, given what was read and what was decided before it."""
        claim = self._since_the_wrong_one(lines, claim)
        id = self._id(claim.key, claim.value)
        head = known.get(id) or Record(id, self._layer.name, self._scope)
        if head.layer != self._layer.name:
            raise Conflict("the id of this fact is taken by another memory", field="id")
        line = lines.get(id) or Timeline(head, behind=tuple(spell for _, spell in entries_behind(head, known)))
        decided = decide(line, claim, now)
        lines[id] = resettled(decided, now) if brings_back(claim) and decided is not line else decided

    def _since_the_wrong_one(self, lines: Mapping[str, Timeline], claim: Claim) -> Claim:
        """The claim, dated: in a set, a value that corrects another counts from when that one was thought to begin.

        For keys with a single value, correcting does that by itself.
        """
        if not claim.key.many or not claim.instead_of or claim.valid_from is not None:
            return claim
        wrong = _denied_by(lines[self._id(claim.key, claim.instead_of)], claim)
        return replace(claim, valid_from=wrong.valid_from) if wrong else claim

    def _changes(self, put: Sequence[Record], now: int) -> Changes:
        wanting = [record for record in put if record.layer == self._layer.name and record.vector is None]
        refs = tuple(record.id for record in wanting if self._layer.embedded)
        jobs = enrich_jobs(self._partition, refs, now)
        jobs += turn_jobs(self._partition, put, now)
        jobs += follow_jobs(self._partition, [record for record in put if record.valid_to is not None], now)
        return Changes(self._partition, put=tuple(put), enqueue=jobs)

    async def _in_force(
        self, heads: Sequence[Record], as_of: int | None = None, known_at: int | None = None
    ) -> list[Fact]:
        """The value of each head in force at `as_of`; by default now, but not before the head was last stated."""
        now = self._ledger.clock()
        facts: list[Fact] = []
        pace = Pace()
        for head, place in zip(heads, await self._with_past(heads), strict=True):
            at = max(now, head.data["last_seen"] or now) if as_of is None else as_of
            spells = await apart(partial(in_force, place, at, EVER if known_at is None else known_at), len(place))
            facts += [Fact.from_record(spell, at) for spell in spells]
            await pace.done(len(place))
        return facts

    async def _heads(self, key: Key | None = None) -> Sequence[Record]:
        """The heads of a key, or all of them, in order of birth."""
        if key is not None and not key.many:
            found = await self._ledger.get(self._partition, [self._id(key, "")])
        else:
            found = [*await self._ledger.all_of(self._partition, self._layer.name)]
        heads = [head for head in found if head.layer == self._layer.name and not is_aside(head)]
        return [head for head in heads if key is None or head.data["key"] == key.name]

    async def _with_past(self, heads: Sequence[Record]) -> Sequence[Sequence[Record]]:
        """For each head, all its spells that were not set aside, the head itself last."""
        past = {entry.id: entry for entry in heard(await past_states(self._ledger, self._partition, heads))}
        return [
            [*(spell_of(past[id], head).with_(id=id) for id in past_ids(head) if id in past), head]
            for head in heads
        ]  # fmt: skip

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def get(self, key: str) -> list[Fact]:
        """The current value of a key, or the values of a set; empty when nothing is known."""
        return await self._in_force(await self._heads(checked_key(key)))

    async def history(self, key: str) -> list[Fact]:
        """Everything stated about a key, oldest first, including what is not believed and why."""
        now = self._ledger.clock()
        places = await self._with_past(await self._heads(checked_key(key)))
        spells: list[Record] = []
        for place in places:
            spells += await apart(partial(believed, place, EVER), len(place))
        spells.sort(key=lambda spell: (spell.valid_from is not None, spell.valid_from or 0))
        return [Fact.from_record(spell, now) for spell in spells]

    async def list(self, *, as_of: Any = None, known_at: Any = None) -> list[Fact]:
        """All values that hold, now or at a time (`as_of`), as far as was known at a time (`known_at`)."""
        known = validate.moment(known_at, "known_at")
        at = validate.moment(as_of, "as_of")
        return await self._in_force(await self._heads(), known if at is None else at, known)

    async def page(
        self, *, as_of: Any = None, known_at: Any = None, limit: int = 100, after: str | None = None
    ) -> tuple[Sequence[Fact], str | None]:
        """A page of that list, and the cursor of the next (None at the end)."""
        known, at, most = validate.moment(known_at, "known_at"), validate.moment(as_of, "as_of"), validate.limit(limit)
        following, found, layer = validate.cursor(after), list[Fact](), self._layer.name
        of = (*self._partition, layer)
        while True:
            _, begun = born_of(of, following)
            room = most - len(found)
            heads = await self._ledger.some_of(self._partition, layer, begun, lambda head: not is_aside(head), room + 1)
            some, following = page_of(of, heads, attrgetter("born"), room, following)
            found += await self._in_force(some, known if at is None else at, known)
            if following is None or len(found) >= most:
                return found, following


async def spells_of(ledger: Ledger, scope: Scope, key: str) -> list[Record]:
    """Everything stated about a key, as stored, without what was set aside."""
    facts = Facts(ledger, scope)
    places = await facts._with_past(await facts._heads(checked_key(key)))
    return [spell for place in places for spell in place]


LastSaid = Callable[[], Awaitable[int | None]]


async def read_profile(
    ledger: Ledger, scope: Scope, *, as_of: Any = None, known_at: Any = None, last_said: LastSaid | None = None
) -> Profile:
    """What is known about a user: now, or what was true at one time, as far as was known at another.

    `last_said` finds out when the user was last heard if the newest message was brought in from long ago.
    """
    facts = await Facts(ledger, scope).list(as_of=as_of, known_at=known_at)
    settings: dict[str, str | list[str]] = {}
    for each in await Facts(ledger, scope, "preference").list(as_of=as_of, known_at=known_at):
        held = settings.get(each.key, [])
        many = key_of(each.key).many and isinstance(held, list)
        settings[each.key] = [*held, each.value] if many else each.value
    newest = (await ledger.list(Filter(scope.partition, layers=("conversation",)), newest_first=True, limit=1)).records
    last_at = newest[0].when if newest else None
    if newest and last_said is not None and newest[0].created_at - newest[0].when > DAY_MS:
        last_at = await last_said()
    return Profile(
        user_id=scope.user,
        name=next((fact.value for fact in facts if fact.key == "name"), None),
        facts=tuple(facts),
        preferences=settings,
        last_interaction=None if last_at is None else as_datetime(last_at),
    )


def _is_as_read(head: Record, read: Record) -> bool:
    """Whether a fact still has the value, and the past, that it had when it was read."""
    return has_value(head, read.data["value"]) and past_ids(head) == past_ids(read)


def _spoken_of(line: Timeline, claim: Claim) -> Record:
    """What a claim has made of the fact: its head, or the value that was denied."""
    denied = _denied_by(line, claim) if claim.kind == "denies" else None
    return denied or line.head


def _denied_by(line: Timeline, claim: Claim) -> Record | None:
    """The value that this claim, or the text it is from, says was never true; of several spells, the first."""
    denied = [spell for spell in line.spells if spell.data.get("voided", {}).get("by") == claim.telling]
    return min(denied, key=start_of, default=None)


def _status(record: Record, as_of: int | None) -> str:
    status = str(record.data.get("status", "told"))
    if status in UNTRUE:
        return status
    if record.valid_to is not None and (as_of is None or record.valid_to <= as_of):
        return "ended"
    return "pinned" if record.data.get("pinned") else status


def _datetime(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else as_datetime(time_ms)
