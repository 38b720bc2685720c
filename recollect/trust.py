"""Undo what was learned from a source, and set aside what is not to be trusted.

An undo ends what a machine learned, with the reason, and can be taken back. What is set aside
(quarantined) stays where it is stored, but no search, context, window, summary or learning uses it
until it is released.

    undone = await Trust(ledger, indexes, scope).undo(session="with a stranger")
    await Trust(ledger, indexes, scope).redo(undone.id)

Each of these takes several commits. It is recorded as a job before the first of them, and every
step finds out by itself what is left to do, so the worker can complete it after any interruption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from recollect import validate
from recollect.errors import NotFound, ValidationError
from recollect.layers import PUBLIC_LAYERS
from recollect.learning import learn_jobs
from recollect.ledger import Ledger
from recollect.policies.spells import Telling
from recollect.policies.ties import UNLEARNED
from recollect.policies.unlearning import Gone, Undo
from recollect.quarantine import Quarantine
from recollect.records import (
    MINUTE_MS,
    Changes,
    Job,
    Partition,
    Record,
    Scope,
    Source,
    iso,
    new_id,
    with_data,
    without_data,
)
from recollect.seals import break_seals
from recollect.spells import is_old_value
from recollect.stores.contract import LeaseLost
from recollect.unlearning import Unlearning

if TYPE_CHECKING:
    from recollect.index import PartitionIndex
    from recollect.indexes import Indexes

TRACES = ("session", *PUBLIC_LAYERS)
"""Layers that can show that a session or a message once existed."""
TAKEN_UP_MS = MINUTE_MS
"""How long after an act began the worker checks that it was completed."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo ended, or would end, counted by layer; its id is used to take it back."""

    id: str
    reason: str
    changed: Mapping[str, int] = field(default_factory=dict)
    at: str | None = None
    dry_run: bool = False

    @property
    def count(self) -> int:
        return sum(self.changed.values())

    def to_dict(self) -> dict[str, Any]:
        """The undo as documented JSON."""
        return {
            "id": self.id,
            "reason": self.reason,
            "changed": dict(self.changed),
            "count": self.count,
            "at": self.at,
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class SetAside:
    """What was quarantined or released: the number of records per layer, and of what was learned from them."""

    records: Mapping[str, int] = field(default_factory=dict)
    learned: Mapping[str, int] = field(default_factory=dict)
    at: str | None = None

    @property
    def count(self) -> int:
        return sum(self.records.values())

    def to_dict(self) -> dict[str, Any]:
        """The change as documented JSON."""
        return {"records": dict(self.records), "learned": dict(self.learned), "count": self.count, "at": self.at}


@dataclass(frozen=True, slots=True)
class Act:
    """An action that takes several commits: what is done, under which id, since when, and to what."""

    verb: str
    id: str
    at: int
    given: tuple[str, ...] = ()

    def job(self, partition: Partition) -> Job:
        """The job that completes it, for the worker."""
        refs = (self.verb, self.id, str(self.at), *self.given)
        return Job(f"trust:{self.id}", partition, "trust", refs, due_at=self.at + TAKEN_UP_MS)

    @classmethod
    def of(cls, job: Job) -> Act:
        verb, id, at, *given = job.refs
        return cls(verb, id, int(at), tuple(given))


@dataclass(frozen=True, slots=True)
class _Choice:
    """What an undo is about: every given condition has to hold."""

    session: str | None
    message_id: str | None
    extractor: str | None
    since: int | None

    def means(self, said_there: Collection[str]) -> Gone:
        """True for what a machine learned from there; what was stated outright is not a guess."""
        return lambda telling: (
            telling.extractor is not None
            and (self.session is None or telling.session == self.session or telling.message in said_there)
            and self.message_id in (None, telling.message)
            and self.extractor in (None, telling.extractor)
            and (self.since is None or telling.at >= self.since)
        )

    def hears(self, message: Record) -> bool:
        """Whether it covers everything a message may ever teach, even if it has not been read yet."""
        return (
            message.data["role"] == "user"
            and (self.session is not None or self.message_id is not None)
            and self.session in (None, message.scope.session)
            and self.message_id in (None, message.id)
            and (self.since is None or message.when >= self.since)
        )

    @property
    def reason(self) -> str:
        parts = {"session": self.session, "message": self.message_id, "extractor": self.extractor}
        named = [f"{what} {which}" for what, which in parts.items() if which is not None]
        since = [f"what was said since {iso(self.since)}"] if self.since is not None else []
        return f"undone: learned from {', '.join([*named, *since])}"

    @property
    def given(self) -> tuple[str, ...]:
        since = "" if self.since is None else str(self.since)
        return self.session or "", self.message_id or "", self.extractor or "", since

    @classmethod
    def of(cls, given: Sequence[str]) -> _Choice:
        session, message_id, extractor, since = given
        return cls(session or None, message_id or None, extractor or None, int(since) if since else None)


class Trust:
    """What a user's memory believes, and takes back."""

    def __init__(self, ledger: Ledger, indexes: Indexes, scope: Scope) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._partition = scope.partition
        self._unlearning = Unlearning(ledger, indexes, scope.partition)
        self._quarantine = Quarantine(ledger, indexes, scope.partition)

    # ── undo ─────────────────────────────────────────────────────────────────────────────────────

    async def undo(
        self,
        *,
        session: str | None = None,
        message_id: str | None = None,
        extractor: str | None = None,
        since: Any = None,
        dry_run: bool = False,
    ) -> Undone:
        """End what was learned from a session or message, by an extractor or since a time; earlier values hold again.

        It is not learned again from the same messages. With `dry_run`, only report how much it would be.
        """
        choice = _Choice(
            validate.optional_identifier(session, "session"),
            validate.optional_identifier(message_id, "message_id"),
            validate.optional_identifier(extractor, "extractor"),
            validate.moment(since, "since"),
        )
        if choice == _Choice(None, None, None, None):
            raise ValidationError("say what to undo: a session, a message, an extractor or a time", field="session")
        await self._look_for(choice)
        now = self._ledger.clock()
        act = Act("undo", new_id(now), now, choice.given)
        if validate.switch(dry_run, "dry_run"):
            told = await self._unlearning.undo((await self._heard(choice))[1], _undo_of(act, choice), dry_run=True)
            return Undone(act.id, choice.reason, dict(told), iso(now), dry_run)
        return await self._through(act, self._undo)

    async def _undo(self, act: Act) -> Undone:
        choice = _Choice.of(act.given)
        messages, means = await self._heard(choice)
        undo = _undo_of(act, choice)
        changed = await self._take_back(means, undo, choice.extractor or "", messages)
        return Undone(act.id, undo.reason, dict(changed), iso(act.at))

    async def redo(self, undone_id: str) -> Undone:
        """Take an undo back; what was learned since stays. If several concern the same thing, redo the newest first."""
        id = validate.identifier(undone_id, "undone_id")
        now = self._ledger.clock()
        return await self._through(Act("redo", new_id(now), now, (id,)), self._redo)

    async def _redo(self, act: Act) -> Undone:
        (id,) = act.given
        changed = await self._unlearning.redo(id)
        if not await self._let_teach_again(id) and not changed:
            raise NotFound("there is no such undo to take back", field="undone_id")
        return Undone(id, "taken back", dict(changed), iso(act.at))

    async def _heard(self, choice: _Choice) -> tuple[list[str], Gone]:
        """The messages that an undo covers as a whole, and which tellings it means."""
        index, now = await self._indexes.current(self._partition), self._ledger.clock()
        there = [] if choice.session is None else index.session(choice.session, now)
        found = [each for each in index.stored([choice.message_id or ""], now)[0] if each.layer == "conversation"]
        said = found if choice.session is None else there
        return [each.id for each in said if choice.hears(each)], choice.means({each.id for each in there})

    async def _take_back(self, means: Gone, undo: Undo, extractor: str, messages: Iterable[str] = ()) -> Counter[str]:
        """Undo what these tellings taught; it is not learned again, neither from them nor from these messages."""
        taught = dict.fromkeys(messages)

        def hears(telling: Telling) -> bool:
            heard = means(telling)
            taught.update({telling.message: None} if heard and telling.message else {})
            return heard

        await self._unlearning.undo(hears, undo, dry_run=True)
        # Prevent relearning first, then end it: a job that has already read the messages must read them again.
        if await self._ledger.change_each(self._partition, taught, lambda message: _noted(message, undo.id, extractor)):
            await break_seals(self._ledger, self._partition)
        return await self._unlearning.undo(means, undo)

    async def _let_teach_again(self, undo_id: str) -> int:
        """Remove an undo's note from the messages that carry it. Return how many there are."""
        index = await self._indexes.current(self._partition)
        ids = [record.id for record in index.tied_to(undo_id) if undo_id in record.data.get(UNLEARNED, {})]
        return await self._ledger.change_each(
            self._partition, ids, lambda message: _unnoted(message, undo_id), self._learning
        )

    def _learning(self, messages: Sequence[Record]) -> tuple[Job, ...]:
        return learn_jobs(self._partition, [message.id for message in messages], self._ledger.clock())

    async def _look_for(self, choice: _Choice) -> None:
        """Raise `NotFound` for a session or a message of which there is no trace."""
        index, now = await self._indexes.current(self._partition), self._ledger.clock()
        if choice.session is not None and not _knows_session(index, choice.session, now):
            raise NotFound("there is no such session", field="session")
        if choice.message_id is not None and not _knows_message(index, choice.message_id, now):
            raise NotFound("there is no such message", field="message_id")

    # ── quarantine ───────────────────────────────────────────────────────────────────────────────

    async def quarantine(
        self, *, session: str | None = None, ids: Sequence[str] | None = None, reason: str = ""
    ) -> SetAside:
        """Set messages or memories aside, and undo what was learned from them.

        A session stays set aside: messages added to it later are set aside as well, until it is released.
        """
        why = self._ledger.masked(validate.reason(reason))
        return await self._about("quarantine", session, ids, self._set_aside, why)

    async def release(self, *, session: str | None = None, ids: Sequence[str] | None = None) -> SetAside:
        """Restore what was set aside: its former trust, and what was learned from it."""
        return await self._about("release", session, ids, self._release)

    async def _about(
        self, verb: str, session: Any, ids: Any, work: Callable[[Act], Awaitable[SetAside]], reason: str = ""
    ) -> SetAside:
        """Run an act on a session or on some records, if they exist."""
        if (session is None) == (ids is None):
            raise ValidationError("give a session or ids", field="session")
        asked: list[str] = []
        if session is not None:
            await self._look_for(_Choice(validate.identifier(session, "session"), None, None, None))
        else:
            asked = list(dict.fromkeys(validate.identifier(id, "ids") for id in validate.batch(ids, "ids")))
            found = await self._ledger.get(self._partition, asked)
            if len([record for record in found if record.layer in PUBLIC_LAYERS or is_old_value(record)]) != len(asked):
                raise NotFound(field="ids")
        now = self._ledger.clock()
        return await self._through(Act(verb, new_id(now), now, (reason, session or "", *asked)), work)

    async def _set_aside(self, act: Act) -> SetAside:
        reason, session, *ids = act.given
        done = await self._quarantine.set_aside(session, ids, act.id, act.at, reason)
        learned: Counter[str] = Counter()
        for note, records in done.acts:
            why = f"undone: learned from what was set aside{': ' if note['reason'] else ''}{note['reason']}"
            whole = session if note == done.note else ""
            learned += await self._take_back(_said_by(records, whole), Undo(note["undo"], note["at"], why), "")
        await self._quarantine.leave_out(done.records)
        return SetAside(done.counts, dict(learned), iso(act.at))

    async def _release(self, act: Act, *, late: bool = False) -> SetAside:
        _, session, *ids = act.given
        done = await self._quarantine.trust_again(session, ids, act.at if late else None)
        learned: Counter[str] = Counter()
        for note, _ in done.acts:
            learned += await self._learn_again(str(note["undo"]))
        await self._quarantine.take_in(done.records)
        await self._quarantine.settle(done.records, self._learning)
        return SetAside(done.counts, dict(learned), iso(act.at))

    async def _learn_again(self, undo_id: str) -> Counter[str]:
        """Take an undo back, except for what is still set aside."""
        learned = await self._unlearning.redo(undo_id)
        await self._let_teach_again(undo_id)
        still = await self._quarantine.aside_by(undo_id)
        if still:
            undo = Undo(undo_id, self._ledger.clock(), "undone: learned from what was set aside")
            learned -= await self._take_back(_said_by(still), undo, "")
        return learned

    # ── completion ───────────────────────────────────────────────────────────────────────────────

    async def _through(self, act: Act, work: Callable[[Act], Awaitable[T]]) -> T:
        """Carry out an act, recorded as a job first: if it is interrupted, the worker completes it."""
        job = act.job(self._partition)
        await self._ledger.commit(Changes(self._partition, enqueue=(job,)))
        try:
            done = await work(act)
        except NotFound:
            await self._finish(job)
            raise
        await self._finish(job)
        return done

    async def _finish(self, job: Job) -> None:
        try:
            await self._ledger.commit(Changes(self._partition, finish=(job,)))
        except LeaseLost:
            pass  # the worker has already claimed it, and will find nothing left to do

    async def run(self, job: Job) -> Changes:
        """Complete an interrupted act; the worker commits the end of the job."""
        act = Act.of(job)
        verbs: dict[str, Callable[[Act], Awaitable[object]]] = {
            "undo": self._undo,
            "redo": self._redo,
            "quarantine": self._set_aside,
            "release": partial(self._release, late=True),
        }
        try:
            await verbs[act.verb](act)
        except NotFound:
            pass  # it was already complete, or what it is about is gone
        return Changes(self._partition)


def refs_of_act(refs: list[str], gone: Collection[str]) -> list[str]:
    """What the job of an act is about, without what is gone; nothing if nothing is left that the act could concern."""
    (verb, *head), given = refs[:3], refs[3:]
    if verb in ("quarantine", "release"):
        reason, session, *ids = given
        left = [id for id in ids if id not in gone]
        return [verb, *head, reason, session, *left] if left or (session and session not in gone) else []
    about = given[:2] if verb == "undo" else ()  # a session and a message; a redo is about an undo
    return [] if any(each in gone for each in about) else refs


def _knows_session(index: PartitionIndex, session: str, now: int) -> bool:
    """Whether anything is left of a session: usually its messages, or else what was learned from it."""
    if next(index.newest(session, now), None) is not None:
        return True
    return any(session in (each.scope.session, _source(each).session_id) for each in _traces(index, now))


def _knows_message(index: PartitionIndex, id: str, now: int) -> bool:
    """Whether a message exists, or something that was learned from it."""
    if any(each.layer in TRACES for each in index.stored([id], now)[0]):
        return True
    return any(_source(each).message_id == id for each in _traces(index, now))


def _traces(index: PartitionIndex, now: int) -> Iterator[Record]:
    for layer in TRACES:
        yield from index.held(layer, now)


def _source(record: Record) -> Source:
    return record.source or Source()


def _undo_of(act: Act, choice: _Choice) -> Undo:
    return Undo(act.id, act.at, choice.reason)


def _said_by(records: Iterable[Record], session: str = "") -> Gone:
    """What a machine learned from these records, or from a session, including its expired messages."""
    ids = {record.id for record in records}
    return lambda telling: (
        telling.extractor is not None and (telling.message in ids or (bool(session) and telling.session == session))
    )


def _noted(message: Record, undo_id: str, extractor: str) -> Record:
    """The message with a note that an undo took back what it taught or may yet teach, unless another note covers it."""
    notes: Mapping[str, str] = message.data.get(UNLEARNED, {})
    if message.layer != "conversation" or any(undone in ("", extractor) for undone in notes.values()):
        return message
    return with_data(message, **{UNLEARNED: {**notes, undo_id: extractor}})


def _unnoted(message: Record, undo_id: str) -> Record:
    """The message without the note of an undo."""
    notes = {id: extractor for id, extractor in message.data.get(UNLEARNED, {}).items() if id != undo_id}
    return with_data(message, **{UNLEARNED: notes}) if notes else without_data(message, UNLEARNED)
