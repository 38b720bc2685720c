"""Sessions that rest become episodes: found by search, kept when the messages are long gone.

How far a session has been noted down is stored in its head, and advances in the same commit that
writes the episodes. So even if the work is interrupted, repeated or done by two workers at once,
every message goes into at most one episode, and a forgotten episode does not come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from recollect import validate
from recollect.conversation import said_in, session_head
from recollect.enrich.episodes import EXTRACTOR, GAP_MS, stretches, write
from recollect.errors import NotFound
from recollect.filters import Filter
from recollect.handles import Handle
from recollect.layers import is_current
from recollect.ledger import Ledger
from recollect.long_term import drop_past
from recollect.pace import apart
from recollect.policies.quarantine import heard
from recollect.policies.recurring import texts_in
from recollect.records import (
    Changes,
    Job,
    Partition,
    Record,
    Scope,
    Source,
    as_datetime,
    derived_id,
    enrich_jobs,
    iso,
    with_data,
)
from recollect.seals import sealed
from recollect.stores.contract import OPERATIONS_MAX

IDLE_MS = GAP_MS
"""A session with no messages for this long is at rest: the same pause that ends a stretch of it."""
CUT_CHARACTERS = 80
"""Characters whose words are compared, to find where to cut a conversation, in as long as a unit of `pace.py`."""
PORTION = 200
"""Messages read per job. At four per stretch, their episodes fit into one commit, with room for jobs."""
NOTED, NOTED_BORN = "noted_to", "noted_born"
"""In the head of a session: the last message covered by episode-making, and its place in the session."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A remembered stretch of conversation."""

    id: str
    title: str
    content: str
    session: str
    started_at: datetime
    ended_at: datetime
    people: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    importance: float = 0.5
    trust: str = "trusted"

    @classmethod
    def from_record(cls, record: Record) -> Episode:
        """The episode held by a record; one added by hand has only its text and its time."""
        data = record.data
        title = data.get("title")
        return cls(
            id=record.id,
            title=title if isinstance(title, str) else "",
            content=record.content,
            session=record.scope.session,
            started_at=as_datetime(record.when),
            ended_at=_time(data.get("ended_at"), otherwise=record.when),
            people=texts_in(data.get("people")),
            dates=texts_in(data.get("dates")),
            decisions=texts_in(data.get("decisions")),
            open_questions=texts_in(data.get("open_questions")),
            messages=covered(record),
            importance=record.importance,
            trust=record.trust,
        )

    def to_dict(self) -> dict[str, Any]:
        """The episode as documented JSON."""
        return {
            "id": self.id,
            "title": self.title,
            "content": self.content,
            "session": self.session,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "people": list(self.people),
            "dates": list(self.dates),
            "decisions": list(self.decisions),
            "open_questions": list(self.open_questions),
            "messages": list(self.messages),
            "importance": self.importance,
            "trust": self.trust,
        }


class Episodes(Handle):
    """The episodes of one user.

    >>> from recollect import Memory
    >>> async with Memory.open("memory://") as memory:
    ...     chat = memory.user("ann").session("monday")
    ...     messages = await chat.add_interaction("We decided to fly to Lisbon in May.", "I will look for flights.")
    ...     messages = await chat.add_interaction("By Friday, please.", "You will have them by Friday.")
    ...     print([episode.session for episode in await memory.user("ann").episodes.close("monday")])
    ['monday']
    """

    def __init__(self, ledger: Ledger, scope: Scope, *, idle_ms: int = IDLE_MS) -> None:
        self._ledger = ledger
        self._scope = Scope(scope.org, scope.user)
        self._partition = scope.partition
        self._idle_ms = idle_ms

    # ── for people ───────────────────────────────────────────────────────────────────────────────

    async def get(self, id: str) -> Episode:
        """One episode; `NotFound` if it does not exist or belongs to someone else."""
        record = await self._ledger.one(self._partition, validate.identifier(id, "id"))
        if record.layer != "episodic":
            raise NotFound(field="id")
        return Episode.from_record(record)

    async def close(self, session: str) -> list[Episode]:
        """Make the episodes of a session now, as if it were over. Return the new ones."""
        validate.identifier(session, "session")
        made: list[Episode] = []
        while changes := await self._ledger.commit_decided(lambda: self.make(session, closing=True)):
            made += [Episode.from_record(record) for record in changes.put if record.layer == "episodic"]
        return made

    async def remake(self, session: str, message_ids: Collection[str] = ()) -> int:
        """Make episodes again because these messages were corrected. Return how many.

        Without messages, remake every episode of the session whose messages are all alive; an episode
        that rests on expired messages cannot be made again, and stays.
        """
        where = _of(self._partition, validate.identifier(session, "session"))
        episodes = [record async for record in self._ledger.walk(where)]
        if message_ids:
            chosen = [record for record in episodes if not set(message_ids).isdisjoint(covered(record))]
        else:
            chosen = [record for record in episodes if covered(record) and await self._all_live(covered(record))]
        await drop_past(self._ledger, self._partition, chosen)
        step = OPERATIONS_MAX // 2 - 1
        for some in (chosen[start : start + step] for start in range(0, len(chosen), step)):
            jobs = tuple(remake_jobs(some, self._ledger.clock()))
            await self._ledger.commit(Changes(self._partition, drop=tuple(each.id for each in some), enqueue=jobs))
        return len(chosen)

    async def _all_live(self, ids: Sequence[str]) -> bool:
        return len(await self._ledger.get(self._partition, ids)) == len(ids)

    async def list(self, limit: int = 20, *, session: str | None = None) -> list[Episode]:
        """The latest episodes, newest first; of one session if given."""
        return list((await self.page(limit=limit, session=session))[0])

    async def page(
        self, *, limit: int = 20, after: str | None = None, session: str | None = None
    ) -> tuple[Sequence[Episode], str | None]:
        """A page of the episodes, newest first, and the cursor of the next (None at the end).

        Those that were retired or merged are left out, so a short page is not necessarily the last.
        """
        chosen = validate.identifier(session, "session") if session is not None else None
        where = Filter(self._partition, layers=("episodic",), session=chosen)
        page = await self._ledger.list(
            where, newest_first=True, limit=validate.limit(limit), after=validate.cursor(after)
        )
        now = self._ledger.clock()
        return [Episode.from_record(record) for record in page.records if is_current(record, now)], page.after

    # ── for the worker ───────────────────────────────────────────────────────────────────────────

    async def run(self, job: Job) -> Changes:
        """The changes of a job of kind `episode` or `remake`; the worker commits them with the end of the job."""
        session, *ids = job.refs
        if job.kind == "remake":
            changes = await sealed(self._ledger, self._partition, lambda: self._made_again(session, ids))
        else:
            changes = await self.make(session)
        return changes or Changes(self._partition)

    async def make(self, session: str, *, closing: bool = False) -> Changes | None:
        """The changes that note down what was said in a session since the last time; None if there is nothing to do.

        While the session is active, its last stretch is left for later; `closing` treats it as over.
        """
        return await sealed(self._ledger, self._partition, lambda: self._made(session, closing))

    async def foreseen(self, session: str) -> Sequence[Record]:
        """The episodes that would be made of a session now. Nothing is written."""
        changes = await self._made(session, closing=False)
        return [record for record in changes.put if record.layer == "episodic"] if changes else []

    async def _made(self, session: str, closing: bool) -> Changes | None:
        head = await session_head(self._ledger, Scope(*self._partition, session=session))
        noted_to = await self._noted_place(session, head)
        where = replace(said_in(self._partition, session), born_after=noted_to)
        page = await self._ledger.list(where, limit=PORTION)
        if not page.records:
            return None
        known = await self._covered(session) if noted_to is None else set()
        new = [each for each in heard(page.records) if each.id not in known]
        found = await self._stretches(new)
        read_all, newest = page.after is None, page.records[-1]
        rests = read_all and (closing or newest.created_at + self._idle_ms <= self._ledger.clock())
        # Accept a single stretch that fills the portion as it is, or the job would never get past it.
        settled = found if rests or (not read_all and len(found) == 1) else found[:-1]
        noted = [(stretch, await self._record(session, stretch)) for stretch in settled]
        while rests and noted and noted[-1][1] is None:
            noted.pop()  # too little for notes yet: the session may go on
        changes = self._changes(noted)
        if noted or not read_all:
            reached = noted[-1][0][-1] if noted else newest
            place = {NOTED: reached.id, NOTED_BORN: list(reached.born)}
            changes = changes.and_(put=(with_data(head, **place),))
        if not rests:
            now = self._ledger.clock()
            slot = episode_job(newest.scope, newest.created_at, self._idle_ms)
            later = slot if read_all else going_on(self._partition, session, now)
            changes = changes.and_(enqueue=(later,))
        return changes if changes.put or changes.enqueue else None

    async def _made_again(self, session: str, ids: Sequence[str]) -> Changes | None:
        """The changes that make episodes from what is left of these messages."""
        known = await self._covered(session)
        head = await session_head(self._ledger, Scope(*self._partition, session=session))
        noted_to = await self._noted_place(session, head)
        found = await self._ledger.get(self._partition, [id for id in ids if id not in known])
        # Messages after the noted ones are noted down later, with those that follow them.
        mine = [each for each in heard(found) if each.scope.session == session and each.born <= (noted_to or each.born)]
        messages = sorted(mine, key=lambda message: message.born)
        settled = await self._stretches(messages)
        return self._changes([(stretch, await self._record(session, stretch)) for stretch in settled])

    async def _stretches(self, messages: Sequence[Record]) -> Sequence[Sequence[Record]]:
        """The messages in stretches; long ones are read in a thread."""
        characters = sum([len(message.content) for message in messages])
        return await apart(partial(stretches, messages, gap_ms=self._idle_ms), characters // CUT_CHARACTERS)

    async def _noted_place(self, session: str, head: Record) -> tuple[int, int] | None:
        """The place in the session up to which episodes were made, even if the last message there is gone."""
        if NOTED_BORN in head.data:
            revision, place = head.data[NOTED_BORN]
            return revision, place
        # An import names only the message: its place is different here.
        last = await self._ledger.get(self._partition, [str(head.data[NOTED])]) if NOTED in head.data else []
        return last[0].born if last and last[0].scope.session == session else None

    async def _covered(self, session: str) -> set[str]:
        return {id async for record in self._ledger.walk(_of(self._partition, session)) for id in covered(record)}

    async def _record(self, session: str, stretch: Sequence[Record]) -> Record | None:
        """The episode of a stretch, if it is worth one."""
        await asyncio.sleep(0)  # writing notes takes about twenty milliseconds, and other tasks wait
        notes = write(stretch)
        if notes is None:
            return None
        now = self._ledger.clock()
        times = [message.when for message in stretch]
        data = notes.to_data() | {
            "session": session,
            "messages": [message.id for message in stretch],
            "started_at": iso(min(times)),
            "ended_at": iso(max(times)),
            "rated": True,  # by what was said, not by how the notes are worded
        }
        return Record(
            id=derived_id("episode", session, stretch[0].id),
            layer="episodic",
            scope=Scope(*self._partition, session=session),
            content=notes.text,
            data=data,
            importance=notes.importance,
            created_at=now,
            event_at=min(times),
            expires_at=self._ledger.layers["episodic"].expires_at(now),
            source=Source(message_id=stretch[0].id, session_id=session, extractor=EXTRACTOR),
            trust=notes.trust,
        )

    def _changes(self, noted: Sequence[tuple[Sequence[Record], Record | None]]) -> Changes:
        """The new episodes, the job of embedding them, and the messages they rest on."""
        put = tuple(record for _, record in noted if record is not None)
        needs = tuple(message.id for stretch, record in noted if record is not None for message in stretch)
        jobs = enrich_jobs(self._partition, tuple(record.id for record in put), self._ledger.clock())
        return Changes(self._partition, put=put, needs=needs, enqueue=jobs)


def episode_job(scope: Scope, now: int, idle_ms: int = IDLE_MS) -> Job:
    """The job of making episodes of a session once it rests, to be enqueued with its messages.

    There is one per slot of time (half the idle time) in which the session was used: enqueuing it
    again with another message changes nothing while it waits. It is due when every message of its
    slot is old enough, so it never runs while messages that rely on it can still arrive.
    """
    slot_ms = max(idle_ms // 2, 1)
    slot = now // slot_ms
    id = f"episode:{derived_id(scope.session)}:{slot}"
    return Job(id, scope.partition, "episode", (scope.session,), due_at=(slot + 1) * slot_ms + idle_ms)


def going_on(partition: Partition, session: str, now: int) -> Job:
    """The job of continuing with a session now: it is too long for one job, or there is more to note down."""
    return Job(f"episode:{derived_id(session)}", partition, "episode", (session,), due_at=now)


def resting_episodes(episodes: Iterable[Record], messages: Iterable[Record]) -> list[Record]:
    """Those of these episodes that cover one of these messages."""
    by_session: dict[str, set[str]] = {}
    for message in messages:
        by_session.setdefault(message.scope.session, set()).add(message.id)
    return [each for each in episodes if not by_session.get(each.scope.session, set()).isdisjoint(covered(each))]


def remake_jobs(episodes: Iterable[Record], now: int, gone: Collection[str] = ()) -> Iterator[Job]:
    """The jobs of making each of these episodes again from what is left of its messages."""
    for episode in episodes:
        left = [id for id in covered(episode) if id not in gone]
        if left:
            yield remake_job(episode.scope, episode.id, left, now)


def remake_job(scope: Scope, name: str, messages: Sequence[str], now: int) -> Job:
    """The job of making episodes of these messages of a session. At most one per name exists at a time."""
    return Job(f"remake:{name}", scope.partition, "remake", (scope.session, *messages), due_at=now)


def covered(record: Record) -> tuple[str, ...]:
    """The ids of the messages that an episode covers, in order."""
    return texts_in(record.data.get("messages"))


def _of(partition: Partition, session: str) -> Filter:
    return Filter(partition, layers=("episodic",), session=session)


def _time(value: Any, otherwise: int) -> datetime:
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return as_datetime(otherwise)  # Windows raises the last for local times before 1970
