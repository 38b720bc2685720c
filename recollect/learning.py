"""What is learned from messages: an enricher proposes, what is known decides, one commit writes it.

Only what the user says in a trusted message is read, not what other people in the conversation say,
nor what was remembered and is sent back, nor the copies that a branch begins with. What a message taught
it teaches once: a job that runs again changes nothing, and a message that was forgotten or set aside
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
"""Facts that tell what the user is called."""
LEARNED_MESSAGES = 8
"""Messages of one job: what they say fits one commit, and a slow enricher is not asked for too much at once."""
LEARNED_DRAFTS = 32
"""Drafts that one commit takes in; more say little about a person and much about a pasted text."""
OPERATIONS = 80
"""Operations after which the rest waits for another commit, with room for the end of the job."""


class Learning:
    """Reads messages of one partition at a time."""

    def __init__(self, ledger: Ledger, indexes: Indexes, enricher: Enricher | None) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._enricher = enricher

    async def taught(
        self, partition: Partition, index: PartitionIndex, records: Iterable[Record], room: int
    ) -> Changes:
        """What these records teach, in at most `room` operations; what has to wait is left to jobs.

        An enricher that answers at once is asked at once, so that one commit takes in all that a
        message brings; where messages have a store of their own, that would be two. What goes wrong is
        left to a job as well: the messages are enriched nevertheless, and the failure is that of the job.
        """
        if self._enricher is None:
            return Changes(partition)
        mine = [record for record in records if self._teaches(index, record)]
        if not getattr(self._enricher, "immediate", False):
            return self._later(partition, mine)
        try:
            found = {record.id: await self._drafts(index, record) for record in mine}
            mine = [record for record in mine if found[record.id]]
            now = _first(mine, found) if self._ledger.joins else {}
            changes, is_left = await self._applied(partition, index, [each for id in now for each in found[id]])
        except Exception as error:
            log.warning("what is said here is left to a job of its own: %s", type(error).__name__)
            return self._later(partition, mine)
        # A message that was read along must not have been set aside meanwhile: as it was read, or not at all.
        changes = changes.and_(put=self._read_along(index, [record for record in mine if record.id in now]))
        later = self._later(partition, [record for record in mine if record.id not in now])
        if is_left or _size(changes) + _size(later) > room:
            return self._later(partition, mine)
        return changes.and_(enqueue=later.enqueue)

    def _read_along(self, index: PartitionIndex, messages: Sequence[Record]) -> tuple[Record, ...]:
        """The messages before these, unchanged: to be put, so that the commit is refused if they are not."""
        before = {each.id: each for message in messages for each in self._before(index, message)}
        return tuple(before.values())

    def _before(self, index: PartitionIndex, message: Record) -> list[Record]:
        """The message that a message answers, if there is one."""
        near = index.neighbours(message, self._ledger.clock())
        return [each for each in near if each.born < message.born][-1:]

    def _later(self, partition: Partition, messages: Sequence[Record]) -> Changes:
        """The work of learning from these messages."""
        ids = [message.id for message in messages]
        return Changes(partition, enqueue=learn_jobs(partition, ids, self._ledger.clock()))

    async def run(self, job: Job) -> Changes:
        """What a job of kind `learn` changes; what does not fit one commit is left to another job."""
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
        """What drafts change, given what is known; and whether some of them did not fit."""
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
        """What the messages of a job say, and those for which one commit has no room."""
        messages = await self._ledger.get(job.partition, job.refs)
        found: list[Found] = []
        for place, message in enumerate(messages):
            drafts = await self._drafts(index, message) if self._teaches(index, message) else ()
            if found and len(found) + len(drafts) > LEARNED_DRAFTS:
                return found, tuple(each.id for each in messages[place:])
            found += drafts[:LEARNED_DRAFTS]
        return found, ()

    async def _drafts(self, index: PartitionIndex, message: Record) -> Sequence[Found]:
        """What a message says, read after the one that it answers."""
        if self._enricher is None:
            return ()
        # What we remembered ourselves and somebody sends back is not said anew.
        said = message.with_(content=unfenced(message.content))
        found = await self._enricher.drafts([*self._before(index, message), said])
        return [Found(message, each.draft) for each in found if each.message.id == message.id]

    def _teaches(self, index: PartitionIndex, message: Record) -> bool:
        """Whether it may be learned from: also by who said it, where people talk with each other."""
        extractor = self._enricher.name if self._enricher else ""
        if not teaches(message, extractor) or is_copy(index, message, self._ledger.clock()):
            return False
        name = message.data.get("name")
        return name is None or normal(str(name)) in self._names(index, message.scope.user)

    def _names(self, index: PartitionIndex, user: str) -> set[str]:
        """What the user goes by: their id and the names that are known, whole or the first of them."""
        known = [record for record in index.of_layer("fact", self._ledger.clock()) if record.data["key"] in NAMES]
        names = [user, *(str(record.data["value"]) for record in known)]
        return {normal(name) for name in (*names, *(name.split()[0] for name in names if name.split()))}


def learn_jobs(partition: Partition, ids: Sequence[str], now: int) -> tuple[Job, ...]:
    """The work of learning from these messages, some at a time."""
    chunks = [tuple(ids[start : start + LEARNED_MESSAGES]) for start in range(0, len(ids), LEARNED_MESSAGES)]
    return tuple(Job(f"learn:{chunk[0]}:{new_id(now)}", partition, "learn", chunk, due_at=now) for chunk in chunks)


def teaches(record: Record, extractor: str = "") -> bool:
    """True for what may be learned from: the words of a user whom nobody has reason to doubt.

    What was learned from a message and undone is not learned from it again by the same extractor.
    """
    said = record.layer == "conversation" and record.data.get("role") == "user" and record.trust == "trusted"
    return said and not any(undone in ("", extractor) for undone in record.data.get("unlearned", {}).values())


def _first(messages: Sequence[Record], found: Mapping[str, Sequence[Found]]) -> dict[str, None]:
    """The ids of the messages, from the first on, whose drafts fit one commit."""
    chosen: dict[str, None] = {}
    drafts = 0
    for message in messages[:LEARNED_MESSAGES]:
        drafts += len(found[message.id])
        if drafts > LEARNED_DRAFTS:
            break
        chosen[message.id] = None
    return chosen


def _agrees(put: Sequence[Record], key: str) -> bool:
    """Whether the graph was told in the same breath what the profile says now, so that it need not follow."""
    said = {normal(str(r.data["value"])) for r in put if r.layer == "fact" and r.data["key"] == key and not r.valid_to}
    told = {
        normal(record.data["names"][1])
        for record in put
        if record.layer == "relation" and SAID_BY_FACTS.get(record.data["relation"]) == key and not record.valid_to
    }
    return bool(said) and said == told


def _size(changes: Changes) -> int:
    return len(changes.put) + len(changes.enqueue)
