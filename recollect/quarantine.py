"""The steps of setting records aside and trusting them again; `trust.py` takes back what was learned.

Every step finds what is left to do from the records themselves, so it can be interrupted and repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recollect.branches import with_copies
from recollect.conversation import said_in
from recollect.enrich.episodes import GAP_MS
from recollect.episodes import PORTION, Episode, covered, going_on, remake_job
from recollect.filters import Filter
from recollect.layers import FACT_LAYERS
from recollect.ledger import Ledger, Work
from recollect.long_term import past_states
from recollect.policies.quarantine import (
    act_of,
    act_of_session,
    closed_session,
    heard,
    is_aside,
    is_meant,
    is_noted,
    note_of,
    open_session,
    set_aside,
    set_aside_again,
    settled,
    trusted_again,
)
from recollect.records import Changes, Partition, Record, Scope, as_ms, new_id
from recollect.seals import break_seals
from recollect.views import Remaking, remake, remakings, resting_views

if TYPE_CHECKING:
    from recollect.indexes import Indexes

Note = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is set aside or released: all of it, and what changed this time; `note` is the session's note."""

    records: Sequence[Record]
    changed: Sequence[Record]
    note: Note | None = None

    @property
    def acts(self) -> list[tuple[Note, list[Record]]]:
        """The records grouped by the act that set them aside; the session's act even if it has no messages left."""
        by_act: dict[str, tuple[Note, list[Record]]] = {}
        if self.note is not None:
            by_act[self.note["undo"]] = self.note, []
        for record in self.records:
            note = act_of(record)
            by_act.setdefault(note["undo"], (note, []))[1].append(record)
        return list(by_act.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many records of each layer were changed; a past record counts for the layer it came from."""
        return dict(
            Counter(str(record.data["layer"]) if record.layer == "past" else record.layer for record in self.changed)
        )


class Quarantine:
    """Sets records of one partition aside."""

    def __init__(self, ledger: Ledger, indexes: Indexes, partition: Partition) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._partition = partition

    # ── aside ────────────────────────────────────────────────────────────────────────────────────

    async def set_aside(self, session: str, ids: Sequence[str], act: str, at: int, reason: str) -> Chosen:
        """Mark a session, or these records, and all copies of their messages, as no longer to be used."""
        note: Note = note_of(act, at, reason)
        if session:
            # Before its messages are listed, so that messages arriving later find the session closed.
            note = await self._close(session, note)
        meant = await self._meant(session, ids)
        fresh = heard(meant)
        await self._ledger.change_each(
            self._partition,
            [record.id for record in meant],
            lambda record: set_aside_again(record, at) if is_aside(record) else set_aside(record, note),
        )
        await break_seals(self._ledger, self._partition)
        aside = [record for record in await self._meant(session, ids) if is_aside(record) and is_noted(record)]
        return Chosen(aside, fresh, note if session else None)

    async def leave_out(self, records: Sequence[Record]) -> None:
        """Have summaries and episodes made again without these messages."""
        now = self._ledger.clock()
        views = resting_views(await self._indexes.current(self._partition), records, now)
        gone = {record.id for record in records}
        await remake(self._ledger, self._partition, remakings(views, now, gone))
        # Before they were dropped, a memory of what recurs may have been made from an episode.
        views = resting_views(await self._indexes.current(self._partition), records, now)
        await remake(self._ledger, self._partition, remakings([v for v in views if v.layer == "long_term"], now))

    async def aside_by(self, act: str) -> list[Record]:
        """The messages that an act set aside and that still are."""
        index = await self._indexes.current(self._partition)
        held, _ = index.stored([each.id for each in index.tied_to(act)], self._ledger.clock())
        aside = [each for each in held if each.layer == "conversation" and is_aside(each) and is_noted(each)]
        return [each for each in aside if act_of(each)["undo"] == act]

    async def _close(self, session: str, note: Note) -> Note:
        """Note in the head of a session that it is set aside. Return the note that counts."""
        counts = note

        def decide(known: Record | None, now: int) -> Changes | None:
            nonlocal counts
            head = closed_session(known or self._head(session, now), note)
            counts = act_of_session(head) or note
            return None if head == known else Changes(self._partition, put=(head,))

        await self._ledger.update(self._partition, self._head(session, 0).id, decide)
        return counts

    def _head(self, session: str, now: int) -> Record:
        return self._ledger.layers["session"].new_head(Scope(*self._partition, session=session), now)

    async def _meant(self, session: str, ids: Sequence[str]) -> list[Record]:
        """The messages of a session, or these records, with all copies of messages in branches."""
        if session:
            where = said_in(self._partition, session)
            found = [record async for record in self._ledger.walk(where)]
        else:
            found = await self._ledger.get(self._partition, list(ids))
        return with_copies(await self._indexes.current(self._partition), found, self._ledger.clock())

    # ── trusted again ────────────────────────────────────────────────────────────────────────────

    async def trust_again(self, session: str, ids: Sequence[str], by_at: int | None) -> Chosen:
        """Restore the former trust of a session or of these records; the note stays until all else is done.

        `by_at` is given if a release is completed late: when it began. What was set aside again since then stays aside.
        """

        def means(record: Record) -> bool:
            return by_at is None or is_meant(record, by_at)

        note: Note | None = None

        def opened(head: Record) -> Record:
            nonlocal note
            note = act_of_session(head) if means(head) else None
            return open_session(head) if means(head) else head

        if session:
            await self._ledger.change_each(self._partition, [self._head(session, 0).id], opened)
        found = await self._meant(session, ids)
        facts = [record for record in found if record.layer in FACT_LAYERS]
        found += await past_states(self._ledger, self._partition, facts)
        noted = [record for record in found if is_noted(record) and means(record)]
        aside = [record for record in noted if is_aside(record)]
        await self._ledger.change_each(
            self._partition, [record.id for record in aside], lambda each: trusted_again(each) if means(each) else each
        )
        return Chosen([trusted_again(record) for record in noted], aside, note)

    async def settle(self, records: Sequence[Record], work: Work) -> None:
        """Remove the notes, and queue learning from the messages, which may not have been read yet."""

        def learning(changed: Sequence[Record]) -> Any:
            return work([record for record in changed if record.layer == "conversation"])

        await self._ledger.change_each(self._partition, [record.id for record in records], settled, learning)

    async def take_in(self, records: Sequence[Record]) -> None:
        """Have summaries and episodes made again with these messages."""
        now = self._ledger.clock()
        views = resting_views(await self._indexes.current(self._partition), records, now)
        steps = remakings([view for view in views if view.layer == "summary"], now)
        sessions: dict[str, list[Record]] = {}
        for record in records:
            if record.layer == "conversation":
                sessions.setdefault(record.scope.session, []).append(record)
        for session, messages in sessions.items():
            steps += await self._episodes_with(session, messages, now)
        await remake(self._ledger, self._partition, steps)

    async def _episodes_with(self, session: str, messages: Sequence[Record], now: int) -> list[Remaking]:
        """The steps to remake the episodes near these messages with them; those not noted yet will be noted later."""
        scope = Scope(*self._partition, session=session)
        where = Filter(self._partition, layers=("episodic",), session=session)
        episodes = [episode async for episode in self._ledger.walk(where) if covered(episode)]
        known = {id for episode in episodes for id in covered(episode)}
        missing = [message for message in messages if message.id not in known]
        near = [each for each in episodes if any(_is_near(each, message) for message in missing)]
        parts = sorted([*missing, *near], key=lambda record: record.when)
        steps = [Remaking((), (going_on(self._partition, session, now),))]
        views: tuple[Record, ...] = ()
        ids: tuple[str, ...] = ()
        for place, part in enumerate(parts, start=1):
            if part.layer == "episodic":
                views, ids = (*views, part), (*ids, *covered(part))
            else:
                ids = (*ids, part.id)
            if len(ids) >= PORTION or place == len(parts):
                steps.append(Remaking(views, (remake_job(scope, new_id(now), ids, now),)))
                views, ids = (), ()
        return steps


def _is_near(episode: Record, message: Record) -> bool:
    """Whether an episode and a message may belong to one stretch."""
    noted = Episode.from_record(episode)
    start, end = (as_ms(time) for time in (noted.started_at, noted.ended_at))
    return start - GAP_MS < message.when < end + GAP_MS
