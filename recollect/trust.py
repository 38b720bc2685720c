"""Undo what was learned from somewhere, and set aside what is not to be trusted.

An undo ends what a machine learned, with the reason, and can be taken back. What is set aside
(quarantined) stays where it was said, but no search, context, summary or lesson uses it any more,
until it is released.

    undone = await Trust(ledger, indexes, scope).undo(session="with a stranger")
    await Trust(ledger, indexes, scope).redo(undone.id)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect import validate
from recollect.episodes import covered
from recollect.errors import NotFound, ValidationError
from recollect.filters import Filter
from recollect.index import Indexes
from recollect.layers import PUBLIC_LAYERS
from recollect.ledger import Ledger
from recollect.policies.facts import Telling
from recollect.policies.unlearning import Gone, Undo
from recollect.privacy import making_again, resting_views
from recollect.records import Changes, Job, Record, Scope, iso, new_id
from recollect.stores.contract import IDS_MAX, OPERATIONS_MAX
from recollect.unlearning import Unlearning

QUARANTINED = "quarantined"
"""The trust of what was set aside, and the name under which a record notes what it had before."""
UNLEARNED = "unlearned"
"""In the data of a message: the undos that took back what it taught, each with the extractor that it is about."""
TOGETHER = OPERATIONS_MAX // 2 - 2
"""Records of one commit, with room for the work that each may bring."""


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo ended, or would end: how much of each layer; by its id it can be taken back."""

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
    """What was quarantined or released: how many records of each layer, and what was learned from them."""

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
class _Choice:
    """What an undo is about: all that is given has to hold."""

    session: str | None
    message_id: str | None
    extractor: str | None
    since: int | None
    said_there: Collection[str] = ()

    def means(self, telling: Telling) -> bool:
        """True for what a machine learned from there; what was told outright is nobody's guess."""
        return (
            telling.extractor is not None
            and (self.session is None or telling.session == self.session or telling.message in self.said_there)
            and self.message_id in (None, telling.message)
            and self.extractor in (None, telling.extractor)
            and (self.since is None or telling.at >= self.since)
        )

    @property
    def reason(self) -> str:
        parts = {"session": self.session, "message": self.message_id, "extractor": self.extractor}
        named = [f"{what} {which}" for what, which in parts.items() if which is not None]
        since = [f"what was said since {iso(self.since)}"] if self.since is not None else []
        return f"undone: learned from {', '.join([*named, *since])}"


class Trust:
    """What a user's memory believes, and takes back."""

    def __init__(self, ledger: Ledger, indexes: Indexes, scope: Scope) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._partition = scope.partition
        self._unlearning = Unlearning(ledger, indexes, scope.partition)

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
        """End what was learned from a session, a message, by an extractor or since a time; values before hold again.

        It is not learned again from the same messages. With `dry_run` it is only told how much it is.
        """
        choice = await self._choice(session, message_id, extractor, since)
        now = self._ledger.clock()
        undo = Undo(new_id(now), now, choice.reason)
        changed = await self._undo(choice.means, undo, choice.extractor or "", validate.switch(dry_run, "dry_run"))
        return Undone(undo.id, undo.reason, dict(changed), iso(now), dry_run)

    async def redo(self, undone_id: str) -> Undone:
        """Take an undo back; what was learned since then stays. Of several that touch the same, the newest first."""
        id = validate.identifier(undone_id, "undone_id")
        now = self._ledger.clock()
        marked = await self._let_teach_again(id)
        changed = await self._unlearning.redo(id)
        if not changed and not marked:
            raise NotFound("there is no such undo to take back", field="undone_id")
        return Undone(id, "taken back", dict(changed), iso(now))

    async def _choice(self, session: Any, message_id: Any, extractor: Any, since: Any) -> _Choice:
        given = _Choice(
            validate.optional_identifier(session, "session"),
            validate.optional_identifier(message_id, "message_id"),
            validate.optional_identifier(extractor, "extractor"),
            validate.moment(since, "since"),
        )
        if given == _Choice(None, None, None, None):
            raise ValidationError("say what to undo: a session, a message, an extractor or a time", field="session")
        if given.session is None:
            return given
        index = await self._indexes.current(self._partition)
        said_there = {message.id for message in index.session(given.session, self._ledger.clock())}
        return _Choice(given.session, given.message_id, given.extractor, given.since, said_there)

    async def _undo(self, means: Gone, undo: Undo, extractor: str, dry_run: bool = False) -> Counter[str]:
        taught: set[str] = set()

        def hears(telling: Telling) -> bool:
            if not means(telling):
                return False
            taught.update([telling.message] if telling.message else [])
            return True

        changed = await self._unlearning.undo(hears, undo, dry_run=True)
        if dry_run or not changed:
            return changed
        # First it must not be learned anew, then it ends: whoever reads the messages meanwhile learns nothing.
        await self._change(taught, lambda message: _noted(message, undo.id, extractor))
        return await self._unlearning.undo(means, undo)

    async def _let_teach_again(self, undo_id: str) -> int:
        """Take an undo off the messages that it was noted in. Gives how many there are."""
        index = await self._indexes.current(self._partition)
        held = [index.records[row] for row in index.row_of.values()]
        ids = [record.id for record in held if undo_id in record.data.get(UNLEARNED, {})]
        return await self._change(ids, lambda message: _noted(message, undo_id, None))

    # ── quarantine ───────────────────────────────────────────────────────────────────────────────

    async def quarantine(
        self, *, session: str | None = None, ids: Sequence[str] | None = None, reason: str = ""
    ) -> SetAside:
        """Set messages or memories aside, and undo what was learned from them."""
        why = self._ledger.masked(validate.reason(reason))
        now = self._ledger.clock()
        undo = Undo(new_id(now), now, f"undone: learned from what was set aside{': ' if why else ''}{why}")
        chosen = [record for record in await self._chosen(session, ids) if record.trust != QUARANTINED]
        note = {"reason": why, "at": now, "undo": undo.id}
        await self._change([record.id for record in chosen], lambda record: _set_aside(record, note))
        learned = await self._undo(_said_by(chosen, session), undo, "")
        await self._make_views_again(chosen)
        return SetAside(dict(Counter(record.layer for record in chosen)), dict(learned), iso(now))

    async def release(self, *, session: str | None = None, ids: Sequence[str] | None = None) -> SetAside:
        """Take back what was set aside: its trust as it was, and what was learned from it."""
        found = await self._chosen(session, ids)
        chosen = [record for record in found if record.trust == QUARANTINED and QUARANTINED in record.data]
        now = self._ledger.clock()
        await self._change([record.id for record in chosen], _released)
        learned: Counter[str] = Counter()
        for id in dict.fromkeys(str(record.data[QUARANTINED]["undo"]) for record in chosen):
            learned += await self._learn_again(id)
        await self._make_views_again(chosen, released=True)
        return SetAside(dict(Counter(record.layer for record in chosen)), dict(learned), iso(now))

    async def _learn_again(self, undo_id: str) -> Counter[str]:
        """Take an undo back, but for what is still set aside."""
        await self._let_teach_again(undo_id)
        learned = await self._unlearning.redo(undo_id)
        where = Filter(self._partition, layers=("conversation",))
        still = [
            record
            async for record in self._ledger.walk(where)
            if record.trust == QUARANTINED and record.data.get(QUARANTINED, {}).get("undo") == undo_id
        ]
        if still:
            undo = Undo(undo_id, self._ledger.clock(), "undone: learned from what was set aside")
            learned -= await self._undo(_said_by(still), undo, "")
        return learned

    async def _chosen(self, session: Any, ids: Any) -> list[Record]:
        if (session is None) == (ids is None):
            raise ValidationError("give a session or ids", field="session")
        if session is not None:
            where = Filter(self._partition, layers=("conversation",), session=validate.identifier(session, "session"))
            return [record async for record in self._ledger.walk(where)]
        asked = {validate.identifier(id, "ids") for id in validate.batch(ids, "ids")}
        found = [record for record in await self._get(asked) if record.layer in PUBLIC_LAYERS]
        if len(found) != len(asked):
            raise NotFound(field="ids")
        return found

    async def _make_views_again(self, records: Sequence[Record], released: bool = False) -> None:
        """Let summaries and episodes be made again, without these messages or with them."""
        summaries, episodes = await resting_views(self._ledger, self._partition, records)
        now = self._ledger.clock()
        gone = set() if released else {record.id for record in records}
        jobs = list(making_again([*summaries, *episodes], now, gone))
        if released:
            around, jobs_around = await self._episodes_around(records)
            episodes, jobs = [*episodes, *around], [*jobs, *jobs_around]
        steps: list[str | Job] = [*dict.fromkeys(view.id for view in (*summaries, *episodes)), *jobs]
        for start in range(0, len(steps), OPERATIONS_MAX - 1):
            chunk = steps[start : start + OPERATIONS_MAX - 1]
            drop = tuple(step for step in chunk if isinstance(step, str))
            enqueue = tuple(step for step in chunk if isinstance(step, Job))
            await self._ledger.commit(Changes(self._partition, drop=drop, enqueue=enqueue))

    async def _episodes_around(self, released: Sequence[Record]) -> tuple[list[Record], list[Job]]:
        """The episodes nearest to these messages, and the work of making them again with the messages in them."""
        now = self._ledger.clock()
        around: list[Record] = []
        jobs: list[Job] = []
        for session in dict.fromkeys(record.scope.session for record in released if record.layer == "conversation"):
            where = Filter(self._partition, layers=("episodic",), session=session)
            episodes = {episode.id: episode async for episode in self._ledger.walk(where) if covered(episode)}
            joins: dict[str, list[str]] = {}
            for message in released:
                if message.scope.session == session:
                    # Whatever is too far away for one episode becomes one of its own when they are made.
                    near = min(episodes.values(), key=lambda each: abs(each.when - message.when), default=None)
                    joins.setdefault(near.id if near else new_id(now), []).append(message.id)
            for id, messages in joins.items():
                refs = (session, *(covered(episodes[id]) if id in episodes else ()), *messages)
                jobs.append(Job(f"remake:{id}", self._partition, "remake", refs, due_at=now))
                around += [episodes[id]] if id in episodes else []
        return around, jobs

    # ── the store ────────────────────────────────────────────────────────────────────────────────

    async def _get(self, ids: Iterable[str]) -> list[Record]:
        asked = list(ids)
        found: list[Record] = []
        for start in range(0, len(asked), IDS_MAX):
            found += await self._ledger.get(self._partition, asked[start : start + IDS_MAX])
        return found

    async def _change(self, ids: Iterable[str], change: Callable[[Record], Record]) -> int:
        """Change records, some in each commit, whatever else is written to them meanwhile. Gives how many."""
        asked, count = list(ids), 0
        for start in range(0, len(asked), TOGETHER):
            some = asked[start : start + TOGETHER]
            put: list[Record] = []

            def decide(known: Mapping[str, Record], now: int, put: list[Record] = put) -> Changes | None:
                put[:] = [after for before in known.values() if (after := change(before)) != before]
                return Changes(self._partition, put=tuple(put)) if put else None

            await self._ledger.update_all(self._partition, some, decide)
            count += len(put)
        return count


def _said_by(records: Iterable[Record], session: str | None = None) -> Gone:
    """What a machine learned from these, or from a session, also from messages that have lived out their life."""
    ids = {record.id for record in records}
    return lambda telling: (
        telling.extractor is not None
        and (telling.message in ids or (session is not None and telling.session == session))
    )


def _set_aside(record: Record, note: Mapping[str, Any]) -> Record:
    if record.trust == QUARANTINED:
        return record
    data = {**record.data, QUARANTINED: {"was": record.trust, **note}}
    return record.with_(trust=QUARANTINED, data=data)


def _released(record: Record) -> Record:
    if record.trust != QUARANTINED or QUARANTINED not in record.data:
        return record
    data = {name: value for name, value in record.data.items() if name != QUARANTINED}
    return record.with_(trust=record.data[QUARANTINED]["was"], data=data)


def _noted(record: Record, undo_id: str, extractor: str | None) -> Record:
    """The message with a note that an undo took back what it taught; without it if there is no extractor."""
    notes = {id: name for id, name in record.data.get(UNLEARNED, {}).items() if id != undo_id}
    notes |= {} if extractor is None else {undo_id: extractor}
    data = {name: value for name, value in record.data.items() if name != UNLEARNED}
    return record.with_(data=data | ({UNLEARNED: notes} if notes else {}))
