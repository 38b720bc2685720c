"""Learning from messages: an enricher proposes, existing knowledge decides, and one commit writes the result.

Only what the user says in a trusted message is read: not what other people in the conversation say,
nor recalled memory that is sent back, nor the copies that a branch begins with. A message teaches
something only once: a job that runs again changes nothing, and a message that was forgotten or set aside
meanwhile teaches nothing at all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recollect.branches import is_copy
from recollect.enrich import Enricher, Found
from recollect.graph import Graph
from recollect.learnings import Learnings
from recollect.ledger import Ledger
from recollect.pace import Pace
from recollect.policies.fencing import unfenced
from recollect.policies.graphs import SAID_BY_FACTS
from recollect.policies.merging import normal
from recollect.profile import Facts
from recollect.records import Changes, Job, Partition, Record, Scope, new_id
from recollect.seals import find_seal

if TYPE_CHECKING:
    from recollect.index import PartitionIndex
    from recollect.indexes import Indexes

log = logging.getLogger("recollect.learning")

NAMES = ("name", "nickname")
"""Facts that hold a name of the user."""
LEARNED_MESSAGES = 8
"""Messages per job: what they say fits one commit, and a slow enricher is not given too much at once."""
LEARNED_DRAFTS = 32
"""Drafts applied in one commit; more than that says little about a person and much about a pasted text."""
OPERATIONS = 80
"""Operations after which the rest waits for another commit; leaves room to finish the job."""
READ_UNITS, READ_MAX = 50, 2_000
"""What it costs to read a message, in the units of `pace.py`; beyond so many characters, rules read no more of it."""


class Learning:
    """Reads messages of one partition at a time."""

    def __init__(self, ledger: Ledger, indexes: Indexes, enricher: Enricher | None) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._enricher = enricher

    async def taught(
        self, partition: Partition, index: PartitionIndex, records: Iterable[Record], room: int
    ) -> Changes:
        """What these records teach, in at most `room` operations; whatever does not fit is left to jobs.

        An enricher that is quick (`immediate`) is asked here, so that a single commit holds all that a message
        brings. It is left to a job where messages have a store of their own, which would take a second commit. If it
        fails, the messages are enriched all the same, and a job tries again and reports the failure.
        """
        if self._enricher is None:
            return Changes(partition)
        mine = [record for record in records if self._teaches(index, record)]
        if not getattr(self._enricher, "immediate", False):
            return self._later(partition, mine)
        pace = Pace()
        try:
            found = {record.id: await self._drafts(index, record, pace) for record in mine}
            mine = [record for record in mine if found[record.id]]
            now = _first(mine, found) if self._ledger.offers.joins else {}
            changes, is_left = await self._applied(partition, index, [each for id in now for each in found[id]])
        except Exception as error:
            log.warning("learning from these messages is left to a separate job: %s", type(error).__name__)
            return self._later(partition, mine)
        # A message read as context must not have been set aside meanwhile: commit only if it is still as read.
        changes = changes.and_(put=self._read_along(index, [record for record in mine if record.id in now]))
        later = self._later(partition, [record for record in mine if record.id not in now])
        if is_left or _size(changes) + _size(later) > room:
            return self._later(partition, mine)
        return changes.and_(enqueue=later.enqueue)

    def _read_along(self, index: PartitionIndex, messages: Sequence[Record]) -> tuple[Record, ...]:
        """The messages before these, to be put unchanged, so that the commit is refused if they have changed."""
        before = {each.id: each for message in messages for each in self._before(index, message)}
        return tuple(before.values())

    def _before(self, index: PartitionIndex, message: Record) -> list[Record]:
        """The message that a message answers, if there is one."""
        near = index.neighbours(message, self._ledger.clock())
        return [each for each in near if each.born < message.born][-1:]

    def _later(self, partition: Partition, messages: Sequence[Record]) -> Changes:
        """The jobs of learning from these messages."""
        ids = [message.id for message in messages]
        return Changes(partition, enqueue=learn_jobs(partition, ids, self._ledger.clock()))

    async def run(self, job: Job) -> Changes:
        """The changes of a job of kind `learn`; what does not fit one commit is left to another job."""
        if self._enricher is None:
            return Changes(job.partition)
        living = [message.id for message in await self._ledger.get(job.partition, job.refs)]
        if not living:
            return Changes(job.partition)
        seal = await find_seal(self._ledger, job.partition, living)
        index = await self._indexes.current(job.partition)
        found, rest = await self._read(job, index)
        changes, is_left = await self._applied(job.partition, index, found)
        refs = job.refs if is_left and changes.put else rest
        if refs:
            again = replace(job, id=f"{job.id}+", refs=refs, due_at=self._ledger.clock(), attempt=0)
            changes = changes.and_(enqueue=(again,))
        return changes.and_(needs=(seal,)) if changes.put else changes

    async def _applied(
        self, partition: Partition, index: PartitionIndex, found: Sequence[Found]
    ) -> tuple[Changes, bool]:
        """The changes for drafts, given what is known, and whether some of the drafts did not fit."""
        total = Changes(partition)
        if self._enricher is None or not found:
            return total, False
        ledger, scope, is_left = self._ledger.reading(index), Scope(*partition), False
        steps = (
            Facts(ledger, scope),
            Facts(ledger, scope, "preference"),
            Learnings(ledger, scope),
            Graph(ledger, scope),
        )
        for step in steps:
            changes, later = await step.apply(found, self._enricher.name)
            if _size(total) + _size(changes) > OPERATIONS:
                is_left = True
                break
            if changes.put or changes.enqueue:
                total = total.and_(put=changes.put, enqueue=changes.enqueue)
            is_left = is_left or bool(later)
        needs = tuple(dict.fromkeys(each.message.id for each in found)) if total.put else ()
        jobs = tuple(job for job in total.enqueue if not (job.kind == "follow" and _agrees(total.put, job.refs[0])))
        return replace(total, enqueue=jobs, needs=needs), is_left

    async def _read(self, job: Job, index: PartitionIndex) -> tuple[Sequence[Found], tuple[str, ...]]:
        """What the messages of a job say, and the ids of those for which one commit has no room."""
        messages = await self._ledger.get(job.partition, job.refs)
        found: list[Found] = []
        pace = Pace()
        for place, message in enumerate(messages):
            drafts = await self._drafts(index, message, pace) if self._teaches(index, message) else ()
            if found and len(found) + len(drafts) > LEARNED_DRAFTS:
                return found, tuple(each.id for each in messages[place:])
            found += drafts[:LEARNED_DRAFTS]
        return found, ()

    async def _drafts(self, index: PartitionIndex, message: Record, pace: Pace) -> Sequence[Found]:
        """What a message says, read together with the message it answers."""
        if self._enricher is None:
            return ()
        # Our own recalled memory, sent back by a caller, is not a new statement.
        said = message.with_(content=unfenced(message.content))
        # Only an answer of the assistant says how a message is meant; what a user said before is read by itself.
        answered = [each for each in self._before(index, message) if each.data.get("role") == "assistant"]
        found = await self._enricher.drafts([*answered, said])
        await pace.done(READ_UNITS, READ_UNITS * min(len(said.content), READ_MAX))
        return [Found(message, each.draft) for each in found if each.message.id == message.id]

    def _teaches(self, index: PartitionIndex, message: Record) -> bool:
        """Whether the message may be learned from; in a conversation among people, also by who said it."""
        extractor = self._enricher.name if self._enricher else ""
        if not teaches(message, extractor) or is_copy(index, message, self._ledger.clock()):
            return False
        name = message.data.get("name")
        return name is None or normal(str(name)) in self._names(index, message.scope.user)

    def _names(self, index: PartitionIndex, user: str) -> set[str]:
        """The names the user goes by: their id and the known names, in full or the first word only."""
        known = [record for record in index.of_layer("fact", self._ledger.clock()) if record.data["key"] in NAMES]
        names = [user, *(str(record.data["value"]) for record in known)]
        return {normal(name) for name in (*names, *(name.split()[0] for name in names if name.split()))}


def learn_jobs(partition: Partition, ids: Sequence[str], now: int) -> tuple[Job, ...]:
    """The jobs of learning from these messages, a few per job."""
    chunks = [tuple(ids[start : start + LEARNED_MESSAGES]) for start in range(0, len(ids), LEARNED_MESSAGES)]
    return tuple(Job(f"learn:{chunk[0]}:{new_id(now)}", partition, "learn", chunk, due_at=now) for chunk in chunks)


def teaches(record: Record, extractor: str = "") -> bool:
    """True for a message that may be learned from: a trusted one, written by the user.

    What was learned from a message and then undone is not learned from it again by the same extractor.
    """
    said = record.layer == "conversation" and record.data.get("role") == "user" and record.trust == "trusted"
    return said and not any(undone in ("", extractor) for undone in record.data.get("unlearned", {}).values())


def _first(messages: Sequence[Record], found: Mapping[str, Sequence[Found]]) -> dict[str, None]:
    """The ids of the leading messages whose drafts fit one commit."""
    chosen: dict[str, None] = {}
    drafts = 0
    for message in messages[:LEARNED_MESSAGES]:
        drafts += len(found[message.id])
        if drafts > LEARNED_DRAFTS:
            break
        chosen[message.id] = None
    return chosen


def _agrees(put: Sequence[Record], key: str) -> bool:
    """Whether the same commit writes to the graph what the profile now says, so that it need not follow."""
    said = {normal(str(r.data["value"])) for r in put if r.layer == "fact" and r.data["key"] == key and not r.valid_to}
    told = {
        normal(record.data["names"][1])
        for record in put
        if record.layer == "relation" and SAID_BY_FACTS.get(record.data["relation"]) == key and not record.valid_to
    }
    return bool(said) and said == told


def _size(changes: Changes) -> int:
    return len(changes.put) + len(changes.enqueue)
