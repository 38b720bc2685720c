"""A model reads messages after the rules have: it learns more, and retells summaries and episodes.

Only jobs of its own wait for it. What the rules made of a message is available at once and stays if the
model fails; what the model proposes goes through the same decisions, and nothing it proposes can delete.

    read        the messages of a session since the last time, several turns together
    reread      these messages, whatever was read before
    summarize   the running summary of a session, continued from where the model left off
    narrate     one episode
    compare     a new memory with those that are close to it
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recollect.allowance import Allowance
from recollect.conversation import said_in
from recollect.enrich import Found, model_learning, model_retelling
from recollect.enrich.model_learning import Findings
from recollect.enrich.model_texts import at_once, lines
from recollect.enrichment import fit_together
from recollect.episodes import covered
from recollect.errors import RecollectError
from recollect.filters import Filter
from recollect.indexes import Indexes
from recollect.layers import is_current
from recollect.learning import Learning, teaches
from recollect.ledger import Ledger
from recollect.models import PutOff
from recollect.models.prompts import CANDIDATES_MAX, COMPARE, LEARN, MESSAGES_MAX, RETELL, REWRITE, SUMMARIZE
from recollect.policies.fencing import safe
from recollect.policies.merging import merged
from recollect.policies.tokens import TokenCounter
from recollect.records import (
    SECOND_MS,
    Changes,
    Job,
    Partition,
    Record,
    Scope,
    derived_id,
    enrich_job,
    new_id,
    with_data,
)
from recollect.running_summary import RETOLD, is_retold
from recollect.settings import Settings
from recollect.stores.contract import OPERATIONS_MAX

log = logging.getLogger("recollect.reading")

KINDS = ("read", "reread", "summarize", "narrate", "compare")
"""Jobs that wait for a model. They run alongside all others, so that only they wait."""
SIMILAR = 0.6
"""Minimum cosine at which it is worth asking whether two memories say the same."""
COMPARED_CHARACTERS = 1_000
"""The longest memory that is compared; two longer ones are seldom the same."""
REWRITE_S = 2.0
"""How long a query waits to be rephrased: a person is waiting for the answer."""
BESIDE = 6
"""Operations of a commit kept free for its jobs and for the mark of how far a session was read."""


class Given:
    """Findings made earlier, presented as an enricher: the code that decides on them cannot tell the difference."""

    def __init__(self, name: str, found: Sequence[Found]) -> None:
        self.name = name
        self._found = found

    @property
    def messages(self) -> tuple[str, ...]:
        """The ids of the messages they were found in."""
        return tuple(dict.fromkeys(each.message.id for each in self._found))

    async def drafts(self, messages: Sequence[Record]) -> Sequence[Found]:
        return [each for each in self._found if each.message.id == messages[-1].id]


class Reading:
    """Lets a model read for one partition at a time."""

    def __init__(
        self, ledger: Ledger, indexes: Indexes, allowance: Allowance, settings: Settings, count: TokenCounter
    ) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._allowance = allowance
        self._settings = settings
        self._count = count
        self._handlers: dict[str, Callable[[Job], Awaitable[Changes]]] = {
            "read": self._read,
            "reread": self._reread,
            "summarize": self._summarize,
            "narrate": self._narrate,
            "compare": self._compare,
        }

    @property
    def name(self) -> str:
        """The model and the version of its prompt, kept with everything that is learned."""
        return f"{self._allowance.model.name}/{LEARN.label}"

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    def following(self, changes: Changes) -> Changes:
        """The changes of another job, plus the jobs they create for the model."""
        jobs = {job.id: job for record in changes.put if (job := self._job_after(record)) is not None}
        room = OPERATIONS_MAX - 2 - sum(map(len, (changes.put, changes.drop, changes.enqueue, changes.finish)))
        # A session that does not fit is read with its next message.
        return changes.and_(enqueue=tuple(jobs.values())[: max(room, 0)])

    def _job_after(self, record: Record) -> Job | None:
        now = self._ledger.clock()
        # A record enriched for the first time still has the version it was born with.
        is_new = record.version == record.born[0] > 0
        if record.layer == "conversation" and is_new and self._settings.learn and teaches(record, self.name):
            return self._read_job(record, now)
        if record.layer == "episodic" and is_new and covered(record):
            return Job(f"narrate:{record.id}", record.scope.partition, "narrate", (record.id,), due_at=now)
        if record.layer == "long_term" and is_new and record.scope.user and is_current(record, now):
            return Job(f"compare:{record.id}", record.scope.partition, "compare", (record.id,), due_at=now)
        if record.layer == "summary" and not is_retold(record):
            id = f"summarize:{record.id}:{new_id(now)}"
            return Job(id, record.scope.partition, "summarize", (record.scope.session, record.id), due_at=now)
        return None

    def _read_job(self, message: Record, now: int) -> Job:
        """The job of reading a session. There is one per slot of time, so that turns are read together."""
        slot_ms = max(int(self._settings.llm_batch_s * SECOND_MS), 1)
        slot = now // slot_ms + 1
        session = message.scope.session
        return Job(f"read:{derived_id(session)}:{slot}", message.scope.partition, "read", (session,), slot * slot_ms)

    async def run(self, job: Job) -> Changes:
        """The changes of a job of one of the kinds above; a job that has to wait is postponed."""
        try:
            return await self._handlers[job.kind](job)
        except PutOff as wait:
            if wait.counts and job.attempt >= self._settings.job_attempts_max:
                raise
            now = self._ledger.clock()
            log.info("job %s waits %.0f s for the model", job.kind, wait.after_s)
            again = replace(job, due_at=now + int(wait.after_s * SECOND_MS))
            if not wait.counts:
                again = replace(again, id=f"{job.kind}:{new_id(now)}", attempt=0)
            return Changes(job.partition, enqueue=(again,))

    # ── learning ─────────────────────────────────────────────────────────────────────────────────

    async def _read(self, job: Job) -> Changes:
        (session,) = job.refs
        mark, where = await self._unread(job.partition, session)
        page = await self._ledger.list(where, limit=MESSAGES_MAX)
        messages = at_once(page.records)
        if not messages:
            return Changes(job.partition)
        last = messages[-1]
        changes = await self._learned(job, messages)
        reached = {"to": last.id, "born": list(last.born), "by": self.name}
        changes = changes.and_(put=(with_data(mark, **reached),))
        if page.after is not None or len(messages) < len(page.records):
            again = Job(f"read:{new_id(self._ledger.clock())}", job.partition, "read", job.refs, self._ledger.clock())
            changes = changes.and_(enqueue=(again,))
        return changes

    async def _reread(self, job: Job) -> Changes:
        messages = await self._ledger.get(job.partition, job.refs)
        return await self._learned(job, sorted(messages, key=lambda message: message.born))

    async def _unread(self, partition: Partition, session: str) -> tuple[Record, Filter]:
        """How far the session was read, and which messages come after that.

        Found by the last message read, if it still exists: in another store it has another place.
        """
        mark = await reading_mark(self._ledger, partition, session)
        where = said_in(partition, session)
        last = await self._ledger.get(partition, [mark.data["to"]]) if "to" in mark.data else []
        if "to" not in mark.data:
            return mark, where
        return mark, replace(where, born_after=last[0].born if last else tuple(mark.data["born"]))

    async def _learned(self, job: Job, messages: Sequence[Record]) -> Changes:
        """What these messages teach, and how much each matters."""
        read = await self.findings(job.partition, messages)
        given = Given(self.name, read.found)
        learning = Learning(self._ledger, self._indexes, given)
        id = f"reread:{new_id(self._ledger.clock())}"
        changes = await learning.run(Job(id, job.partition, "reread", given.messages))
        room = OPERATIONS_MAX - BESIDE - len(changes.put) - len(changes.enqueue)
        return changes.and_(put=tuple(_rated(messages, read.ratings))[: max(room, 0)])

    async def findings(self, partition: Partition, messages: Sequence[Record]) -> Findings:
        """What the model finds in messages of one session; the model is not asked if none of them may teach."""
        shown = model_learning.readable(messages)
        if not any(teaches(message, self.name) for message in shown):
            return Findings()
        answer = await self._allowance.ask(partition.org, model_learning.question(shown))
        read = model_learning.findings(answer, shown, lambda message: teaches(message, self.name))
        if read.refused:
            self._allowance.figures["refused"] += read.refused
            log.info("%d findings of the model quote nothing that was said and were left out", read.refused)
        return read

    async def rewrites(self, org: str, question: str) -> Sequence[str]:
        """Rephrasings of a query; none if the model does not answer quickly, since somebody is waiting."""
        ask = REWRITE.about(lines([{"question": question}]))
        try:
            async with asyncio.timeout(REWRITE_S):
                answer = await self._allowance.ask(org, ask)
        except (RecollectError, TimeoutError) as error:
            log.info("searching for the question as it was asked: %s", type(error).__name__)
            return ()
        return [each for each in dict.fromkeys(map(str.strip, answer["queries"])) if each and each != question]

    # ── retelling ────────────────────────────────────────────────────────────────────────────────

    async def _summarize(self, job: Job) -> Changes:
        """The running summary, continued by some messages; the rest are left to another job."""
        session, id = job.refs
        known = await self._ledger.get(job.partition, [id])
        if not known or known[0].layer != "summary" or is_retold(known[0]):
            return Changes(job.partition)
        summary, before = known[0], known[0].data.get(RETOLD, {})
        messages = await self._not_retold(job.partition, session, summary, before)
        told = at_once(messages)
        heard = model_retelling.heard(told)
        text = str(before.get("text", ""))
        if heard:
            most = self._settings.summary_tokens
            ask = model_retelling.summary_question(text, heard, most)
            answer = await self._allowance.ask(job.partition.org, ask)
            text = model_retelling.summary_of(answer, text, heard, most, self._count)
        to = told[-1].id if len(told) < len(messages) else summary.data["covers"]["to"]
        label = f"{self._allowance.model.name}/{SUMMARIZE.label}"
        made = summary.with_(data={**summary.data, RETOLD: {"text": text, "to": to, "by": label}})
        made = made.with_(content=text) if text and is_retold(made) else made
        return Changes(job.partition, put=(made,), needs=tuple(each.id for each in told))

    async def _not_retold(
        self, partition: Partition, session: str, summary: Record, before: Mapping[str, Any]
    ) -> list[Record]:
        """The messages that a summary covers and the model has not retold yet."""
        end = summary.data["covers"]["born"]
        where = replace(said_in(partition, session), born_before=(end[0], end[1] + 1))
        last = await self._ledger.get(partition, [before["to"]]) if before else []
        where = replace(where, born_after=last[0].born) if last else where
        return [message async for message in self._ledger.walk(where)]

    async def _narrate(self, job: Job) -> Changes:
        """One episode in the model's words; what it covers, its time and its trust stay the same."""
        known = await self._ledger.get(job.partition, job.refs)
        episode = known[0] if known and known[0].layer == "episodic" else None
        messages = await self._ledger.get(job.partition, covered(episode)) if episode else []
        heard = at_once(model_retelling.heard(messages))
        if episode is None or not heard or len(messages) < len(covered(episode)):
            return Changes(job.partition)  # forgotten or expired meanwhile: nothing to retell
        answer = await self._allowance.ask(job.partition.org, model_retelling.episode_question(heard))
        text, data = model_retelling.episode_of(answer, heard)
        source = episode.source and replace(episode.source, extractor=f"{self._allowance.model.name}/{RETELL.label}")
        made = episode.with_(content=text, data={**episode.data, **data}, source=source, vector=None)
        now = self._ledger.clock()
        embed = enrich_job(job.partition, (episode.id,), now)
        return Changes(job.partition, put=(made,), needs=tuple(each.id for each in messages), enqueue=(embed,))

    # ── consolidating ────────────────────────────────────────────────────────────────────────────

    async def _compare(self, job: Job) -> Changes:
        """Merge a new memory into an older one that says the same in other words; the merge can be undone."""
        index = await self._indexes.current(job.partition)
        now = self._ledger.clock()
        memory = index.record(job.refs[0], now)
        if memory is None or memory.layer != "long_term" or not is_current(memory, now):
            return Changes(job.partition)
        alive = index.alive(now, ("long_term",))
        near = [
            (other, cosine)
            for other, cosine in index.nearest(memory.vector, alive, CANDIDATES_MAX + 1, SIMILAR)
            if other.id != memory.id and _is_comparable(other)
            if fit_together(*_by_birth(memory, other))
        ]
        if not near or not _is_comparable(memory):
            return Changes(job.partition)
        objects: list[dict[str, Any]] = [{"memory": safe(memory.content)}]
        objects += [{"n": place, "memory": safe(other.content)} for place, (other, _) in enumerate(near, start=1)]
        answer = await self._allowance.ask(job.partition.org, COMPARE.about(lines(objects)))
        same = next((near[place - 1] for place in answer["same"] if place <= len(near)), None)
        if same is None:
            return Changes(job.partition)
        older, newer = _by_birth(memory, same[0])
        label = f"{self._allowance.model.name}/{COMPARE.label}"
        reason = f"the same in other words, says {label}"
        return Changes(job.partition, put=merged(older, newer, similarity=round(same[1], 4), now=now, reason=reason))


async def reading_mark(ledger: Ledger, partition: Partition, session: str) -> Record:
    """The mark of how far a session was read; a fresh record if it never was."""
    fresh = ledger.layers["reading"].new_head(Scope(*partition, session=session), ledger.clock())
    return next(iter(await ledger.get(partition, [fresh.id])), fresh)


def _by_birth(one: Record, other: Record) -> tuple[Record, Record]:
    return (one, other) if one.born < other.born else (other, one)


def _is_comparable(memory: Record) -> bool:
    """Whether a model can be asked about it: short enough to show in full, trusted, and not made by a machine."""
    is_made = memory.source is not None and memory.source.extractor is not None
    return memory.trust == "trusted" and not is_made and len(memory.content) <= COMPARED_CHARACTERS


def _rated(messages: Sequence[Record], ratings: Mapping[str, float]) -> Sequence[Record]:
    """The messages whose importance the model changes, leaving out those that somebody rated."""
    return [
        message.with_(importance=ratings[message.id])
        for message in messages
        if message.id in ratings and not message.data.get("rated") and message.importance != ratings[message.id]
    ]
