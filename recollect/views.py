"""Views of messages (summaries, episodes) and of episodes (what recurs), dropped and remade with their sources.

Dropping a view and enqueuing its remaking are one commit, so that even after an interruption a view
either exists or is about to be made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recollect.episodes import remake_jobs, resting_episodes
from recollect.layers import LAYERS
from recollect.ledger import Ledger
from recollect.long_term import drop_past
from recollect.policies.recurring import RESTS_ON, told_from
from recollect.records import Changes, Job, Partition, Record
from recollect.running_summary import fold_job
from recollect.stores.contract import OPERATIONS_MAX

if TYPE_CHECKING:
    from recollect.index import PartitionIndex


@dataclass(frozen=True, slots=True)
class Remaking:
    """Views that go, and the jobs that make them again."""

    views: tuple[Record, ...]
    jobs: tuple[Job, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(view.id for view in self.views)

    @property
    def size(self) -> int:
        return len(self.views) + len(self.jobs)


def resting_views(index: PartitionIndex, records: Iterable[Record], now: int) -> list[Record]:
    """The running summaries, episodes and memories of what recurs that rest on one of these records."""
    chosen = list(records)
    messages = [record for record in chosen if record.layer == "conversation"]
    first: dict[str, tuple[int, int]] = {}
    for message in messages:
        id = LAYERS["summary"].head_id(message.scope)
        first[id] = min(first.get(id, message.born), message.born)
    found, _ = index.stored(first, now)
    summaries = [summary for summary in found if first[summary.id] <= tuple(summary.data["covers"]["born"])]
    episodes = resting_episodes(index.held("episodic", now) if messages else (), messages)
    told = [*messages, *episodes, *(record for record in chosen if record.layer == "episodic")]
    return [*summaries, *episodes, *_retellings(index, told, now)]


def remakings(views: Iterable[Record], now: int, gone: Collection[str] = ()) -> list[Remaking]:
    """Each view with the jobs of making it again from what is left of its messages."""
    return [Remaking((each,), _work(each, now, gone)) for each in views]


def _work(view: Record, now: int, gone: Collection[str]) -> tuple[Job, ...]:
    if view.layer == "summary":
        return (fold_job(view.scope, now),)
    if view.layer == "long_term":
        return (_retelling_job(view, now),)
    return tuple(remake_jobs([view], now, gone))


async def remake(ledger: Ledger, partition: Partition, remakings: Sequence[Remaking]) -> None:
    """Drop views and have them made again, as many per commit as fit; what they were before goes first."""
    await drop_past(ledger, partition, (view for each in remakings for view in each.views))
    some: list[Remaking] = []
    for place, each in enumerate(remakings, start=1):
        some.append(each)
        following = remakings[place].size if place < len(remakings) else OPERATIONS_MAX
        if sum(one.size for one in some) + following >= OPERATIONS_MAX:
            drop = tuple(dict.fromkeys(id for one in some for id in one.ids))
            jobs = {job.id: job for one in some for job in one.jobs}
            await ledger.commit(Changes(partition, drop=drop, enqueue=tuple(jobs.values())))
            some = []


def _retellings(index: PartitionIndex, sources: Iterable[Record], now: int) -> list[Record]:
    """The memories of what recurs that were made from one of these messages or episodes, which may be gone."""
    ids = {source.id for source in sources}
    told = [each.id for each in index.tied_to(RESTS_ON) if not ids.isdisjoint(told_from(each))] if ids else []
    return index.stored(told, now)[0]


def _retelling_job(memory: Record, now: int) -> Job:
    """The job of rebuilding a memory of what recurs from the episodes that are left."""
    return Job(f"retell:{memory.id}", memory.scope.partition, "retell", (str(memory.data["topic"]),), due_at=now)
