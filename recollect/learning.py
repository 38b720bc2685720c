"""What is learned from messages: an enricher proposes, what is known decides, one commit writes it.

Only what the user says in a trusted message is read, not what other people in the conversation say,
nor what was remembered and is sent back. What a message taught it teaches once: a job that
runs again changes nothing, and a message that was forgotten or set aside meanwhile teaches nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from recollect.enrich import Enricher, Found
from recollect.graph import Graph
from recollect.index import Indexes, PartitionIndex
from recollect.learnings import Learnings
from recollect.ledger import Ledger
from recollect.policies.fencing import unfenced
from recollect.policies.merging import normal
from recollect.profile import Facts
from recollect.records import Changes, Job, Partition, Record, Scope, new_id
from recollect.seals import find_seal

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

    async def jobs(self, partition: Partition, index: PartitionIndex, records: Iterable[Record]) -> tuple[Job, ...]:
        """The work of learning from these records, for those that may teach something."""
        mine = [record for record in records if self._teaches(index, record)]
        ids = [record.id for record in mine if await self._is_promising(index, record)]
        return learn_jobs(partition, ids, self._ledger.clock())

    async def _is_promising(self, index: PartitionIndex, message: Record) -> bool:
        """Whether a job is worth it: an enricher that answers at once is simply asked."""
        if self._enricher is None:
            return False
        return not getattr(self._enricher, "immediate", False) or bool(await self._drafts(index, message))

    async def run(self, job: Job) -> Changes:
        """What a job of kind `learn` changes; what does not fit one commit is left to another job."""
        if self._enricher is None:
            return Changes(job.partition)
        living = [message.id for message in await self._ledger.get(job.partition, job.refs)]
        if not living:
            return Changes(job.partition)
        seal = await find_seal(self._ledger, job.partition, living)
        found, rest = await self._read(job)
        scope = Scope(*job.partition)
        steps = (
            Facts(self._ledger, scope),
            Facts(self._ledger, scope, "preference"),
            Learnings(self._ledger, scope),
            Graph(self._ledger, scope),
        )
        total = Changes(job.partition)
        is_left = False
        for step in steps:
            changes, later = await step.apply(found, self._enricher.name)
            if _size(total) + _size(changes) > OPERATIONS:
                is_left = True
                break
            total = total.and_(put=changes.put, enqueue=changes.enqueue)
            is_left = is_left or bool(later)
        needs = (seal, *dict.fromkeys(each.message.id for each in found)) if total.put else ()
        refs = job.refs if is_left and total.put else rest
        if refs:
            again = replace(job, id=f"{job.id}+", refs=refs, due_at=self._ledger.clock(), attempt=0)
            total = total.and_(enqueue=(again,))
        return total.and_(needs=needs)

    async def _read(self, job: Job) -> tuple[Sequence[Found], tuple[str, ...]]:
        """What the messages of a job say, and those for which one commit has no room."""
        index = await self._indexes.current(job.partition)
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
        near = [each for each in index.neighbours(message, self._ledger.clock()) if each.born < message.born]
        # What we remembered ourselves and somebody sends back is not said anew.
        said = message.with_(content=unfenced(message.content))
        found = await self._enricher.drafts([*near[-1:], said])
        return [replace(each, message=message) for each in found if each.message.id == message.id]

    def _teaches(self, index: PartitionIndex, message: Record) -> bool:
        """Whether it may be learned from: also by who said it, where people talk with each other."""
        extractor = self._enricher.name if self._enricher else ""
        if not teaches(message, extractor):
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


def _size(changes: Changes) -> int:
    return len(changes.put) + len(changes.enqueue)
