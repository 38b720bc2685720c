"""Forget records, or erase a whole user or org, with a receipt.

Forgetting a record also removes everything that holds its text: its past, what was merged into
it, its copies in branches, what was learned from it and from nothing else, and the summaries and
episodes that rest on it, which are made again from what is left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recollect.agreement import said_by
from recollect.bound_keys import end_keys
from recollect.branches import copies_of, with_copies
from recollect.conversation import said_in
from recollect.errors import Conflict, NotFound
from recollect.filters import Condition, Filter
from recollect.layers import FACT_LAYERS, PUBLIC_LAYERS
from recollect.learning import learn_jobs
from recollect.ledger import ERASURES, Ledger
from recollect.long_term import past_ids
from recollect.merges import take_out, told_by
from recollect.pace import Pace
from recollect.policies.merging import merges_of
from recollect.policies.spells import UNTRUE
from recollect.policies.ties import rests_on
from recollect.records import STANDS_IN, Changes, Job, Partition, Record, Scope, derived_id, iso, new_id
from recollect.seals import SEAL
from recollect.spells import is_old_value
from recollect.stores.contract import OPERATIONS_MAX, LeaseLost, forget_whole, named_partitions
from recollect.trust import refs_of_act
from recollect.unlearning import Unlearning
from recollect.views import Remaking, remake, remakings, resting_views

if TYPE_CHECKING:
    from recollect.index import PartitionIndex
    from recollect.indexes import Indexes

OF_SESSIONS = ("fold", "episode", "remake", "read", "summarize")
"""Kinds of job whose first ref is a session."""
JOBS_BESIDE = 16
"""Operations kept free in a commit that drops records: for jobs that look once more, or learn from copies."""
MADE_OF = ("conversation", "long_term", "episodic")
"""Layers of which others are made: while such a record is dropped, somebody may be writing what holds its text."""
DROPPED_AT_ONCE = OPERATIONS_MAX - JOBS_BESIDE
UNEDITED = ("conversation", "summary")
"""Layers whose records nobody edits."""
LATER_EDITS = 4
"""Edits that may slip in while a record is being forgotten."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was forgotten: how many records of each layer, and when.

    `beside` names places outside our store that held the same messages: how many were deleted there, or None if
    this process was not told how to reach the place. In that case they are still there, and yours to delete.
    """

    forgotten: Mapping[str, int] = field(default_factory=dict)
    at: str | None = None
    compacted: bool = False
    beside: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.forgotten.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "forgotten": dict(self.forgotten),
            "count": self.count,
            "at": self.at,
            "compacted": self.compacted,
            "beside": dict(self.beside),
        }


@dataclass(slots=True)
class _Going:
    """What is being forgotten, and how far that has got."""

    records: Sequence[Record]
    """What was meant."""
    session: str
    """The session that goes as a whole, if one does."""
    doomed: dict[str, Record]
    """These, and all that was found to hold their text."""
    gave: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    """What those that were merged into others may have given to them: their metadata, now and before each edit."""
    dropped: set[str] = field(default_factory=set)
    jobs: list[Job] = field(default_factory=list)
    """Those that look again if this is cut off."""
    rested: Counter[str] = field(default_factory=Counter)
    """How many records of each layer rested on them."""


class Privacy:
    """Forgetting for one partition."""

    def __init__(self, ledger: Ledger, indexes: Indexes, partition: Partition) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._partition = partition
        self._unlearning = Unlearning(ledger, indexes, partition)

    async def forget_ids(self, ids: Sequence[str]) -> Receipt:
        """Forget these records; `NotFound` if an id does not exist or belongs to someone else.

        A fact goes with all the values it had; an old value, named by its id in the history, goes alone.
        """
        records = await self._ledger.get(self._partition, ids)
        found = {record.id for record in records if record.layer in PUBLIC_LAYERS or is_old_value(record)}
        unknown = [place for place, id in enumerate(ids) if id not in found]
        if unknown:
            raise NotFound(field="id" if len(ids) == 1 else f"ids.{unknown[0]}")
        return await self._forget(records)

    async def take(self, id: str) -> Receipt:
        """Forget one record; if several callers do so at the same time, all but one get `NotFound`."""
        try:
            return await self._forget([await self._ledger.one(self._partition, id)], sole=id)
        except Conflict as conflict:
            if conflict.field != "needs":
                raise
            raise NotFound(field="id") from None

    async def forget_where(self, test: Condition, layers: tuple[str, ...] = ()) -> Receipt:
        """Forget every record that a filter matches."""
        where = Filter(self._partition, layers=layers or PUBLIC_LAYERS, test=test)
        return await self._forget([record async for record in self._ledger.walk(where)])

    async def forget_session(self, session: str) -> Receipt:
        """Forget a session: its messages, summary, title and working state. Sessions branched off from it stay.

        So does what was learned from messages that a branch also holds: it is learned from there instead.
        """
        where = Filter(self._partition, session=session)
        records = [record async for record in self._ledger.walk(where)]
        index = await self._indexes.current(self._partition)
        return await self._forget(records, session, await self._said_in_branches(index, session), index=index)

    async def _said_in_branches(self, index: PartitionIndex, session: str) -> dict[str, str]:
        """The messages that a branch can teach instead, each with its copy; not those that stated untrue facts."""
        now = self._ledger.clock()
        copies = copies_of(index, session, now)
        if copies:
            old = [past.data["data"] async for past in self._ledger.walk(Filter(self._partition, layers=("past",)))]
            facts = [record.data for layer in FACT_LAYERS for record in index.held(layer, now)]
            for data in (*facts, *old):
                untrue = data.get("tellings", ()) if data.get("status") in UNTRUE else ()
                for telling in untrue:
                    copies.pop(telling[0], None)
        return copies

    async def _forget(
        self,
        records: Sequence[Record],
        session: str = "",
        copies: Mapping[str, str] | None = None,
        sole: str = "",
        index: PartitionIndex | None = None,
    ) -> Receipt:
        """Forget records with everything that holds their text; the record `sole` only if nobody else was faster.

        Each pass looks at the store once, and decides all from what it saw.
        """
        index = index or await self._indexes.current(self._partition)
        doomed = await self._with_resting(index, self._meant(index, records, session))
        beside = await self._forget_beside(doomed.values(), session)
        going = _Going(records, session, doomed)
        # Before they are dropped, so that after a crash the same call finds what is left.
        if await self._take_out_of_merges(index, going):
            index = await self._indexes.current(self._partition)
        await self._drop(index, going, doomed, copies or {}, sole)
        await self._drop_late(going)
        if session:
            going.rested.update(await self._unlearning.forget((), session))
            await self._learn_again(session)
        await self._forget_work({*going.doomed, session} - {""}, going.jobs)
        layers = (str(each.data["layer"]) if is_old_value(each) else each.layer for each in going.doomed.values())
        return Receipt(dict(Counter(layers) + going.rested), iso(self._ledger.clock()), beside=beside)

    async def finish(self, job: Job) -> Changes:
        """The job that looks again when records were dropped, and the call that dropped them was cut off there."""
        session, *refs = job.refs
        index = await self._indexes.current(self._partition)
        dropped = (_gone(self._partition, ref) for ref in refs)
        # What was put back since, as from an export, is not gone: its history and what it taught are wanted again.
        gone = {record.id: record for record in dropped if record.id not in index.row_of}
        if gone:
            going = _Going([*gone.values()], session, gone, dropped={*gone})
            await self._drop_late(going)
            await self._forget_work({*gone}, going.jobs)
        return Changes(self._partition)

    async def _drop_late(self, going: _Going) -> None:
        """Look again, after the drop, until nothing more is found that holds the text of what goes.

        An edit, fold, merge, branch or learning in progress may have been written after the first look. The store
        refuses anything that begins after the drop, so a pass that finds nothing more has found everything.
        """
        while True:
            index = await self._indexes.current(self._partition)
            found = await self._with_resting(index, self._meant(index, going.records, going.session))
            await self._drop(index, going, found)
            is_all = found.keys() <= going.doomed.keys()
            going.doomed |= found
            if is_all:
                break
        await self._take_out_of_merges(index, going)

    async def _learn_again(self, session: str) -> None:
        """Learn from what was said in the session while it was forgotten: it stays, but was unlearned with the rest."""
        where = said_in(self._partition, session)
        said = [message.id async for message in self._ledger.walk(where)]
        jobs = learn_jobs(self._partition, said, self._ledger.clock())
        for start in range(0, len(jobs), JOBS_BESIDE):
            await self._ledger.commit(Changes(self._partition, enqueue=jobs[start : start + JOBS_BESIDE]))

    async def _forget_beside(
        self, records: Iterable[Record], session: str = "", *, everything: bool = False
    ) -> dict[str, int | None]:
        """Delete messages in other places that hold them. Return the count per place, None for those out of reach.

        This happens before they go here, or a session that follows such a place would bring them back.
        """
        said = [record for record in records if record.layer == "conversation"]
        labels = (each.metadata.get(STANDS_IN) for each in said)
        gone: dict[str, int | None] = {str(label): None for label in labels if label is not None}
        ids = [each.id for each in said]
        for (partition, name), place in list(self._ledger.places.items()):
            whole = everything or place.session == session
            if partition == self._partition and (whole or name in gone):
                count = await place.forget(None if whole else ids)
                if count or name in gone:
                    gone[name] = count
        return gone

    async def _drop(
        self,
        index: PartitionIndex,
        going: _Going,
        doomed: Mapping[str, Record],
        copies: Mapping[str, str] | None = None,
        sole: str = "",
    ) -> None:
        """Drop records with everything that holds their text, but for what earlier passes have dropped.

        `copies` are messages to learn from instead.
        """
        messages = {record.id for record in doomed.values() if record.layer == "conversation"}
        if messages:
            going.rested.update(await self._unlearning.forget(messages, index=index))
        now = self._ledger.clock()
        left = [view for view in resting_views(index, doomed.values(), now) if view.id not in doomed]
        again = remakings(left, now, gone=doomed)
        going.rested.update(view.layer for view, each in zip(left, again, strict=True) if not each.jobs)
        ids = [id for id in await _with_past(doomed, is_first=not going.dropped) if id not in going.dropped]
        if ids or again:
            # What depends on a record goes before it, so that after a crash the same call finds what is left.
            await self._drop_with_views(going, ids, doomed, copies or {}, again, sole)
        going.dropped.update(ids)

    async def _drop_with_views(
        self,
        going: _Going,
        ids: Sequence[str],
        doomed: Mapping[str, Record],
        copies: Mapping[str, str],
        again: Sequence[Remaking],
        sole: str,
    ) -> None:
        """Drop records and their past, and their views first: all in one commit if they fit.

        `copies` are messages to learn from instead of some; `sole` must still be alive.
        """
        step = DROPPED_AT_ONCE
        past = [id for each in again for view in each.views for id in past_ids(view, _edits_to_come(view))]
        together = len(past) + sum(each.size for each in again) + len(ids) <= step
        if not together:
            await remake(self._ledger, self._partition, again)
            again, past = (), []
        views = tuple(dict.fromkeys([*past, *(id for each in again for id in each.ids)]))
        remaking = tuple({job.id: job for each in again for job in each.jobs}.values())
        chunks = [ids[start : start + step] for start in range(0, len(ids), step)]
        for chunk in chunks or ([ids] if again else []):
            # A job looks again as well: a process that is killed here, or loses its store, makes no second pass.
            sources = [doomed[id] for id in chunk if id in doomed and doomed[id].layer in MADE_OF]
            now = self._ledger.clock()
            taught = learn_jobs(self._partition, [copies[each.id] for each in sources if each.id in copies], now)
            finishing = (_finishing_job(self._partition, sources, going.session, now),) if sources else ()
            needs = (sole,) if sole in chunk else ()
            drop, enqueue = (*views, *chunk), (*finishing, *taught, *remaking)
            await self._ledger.commit(Changes(self._partition, drop=drop, enqueue=enqueue, needs=needs))
            going.jobs += finishing

    def _meant(self, index: PartitionIndex, records: Sequence[Record], session: str) -> Sequence[Record]:
        """These records with the relations that say the same as facts among them, and the copies of their messages.

        When a whole session goes, the copies stay.
        """
        now = self._ledger.clock()
        return [*(records if session else with_copies(index, records, now)), *said_by(index, records, now)]

    async def _with_resting(self, index: PartitionIndex, records: Sequence[Record]) -> dict[str, Record]:
        """These records and, transitively, all that were merged into them or mean nothing without them."""
        doomed = newest = {record.id: record for record in records}
        pace = Pace()
        while newest:
            resting: list[Record] = []
            for id in newest:
                resting += [each for each in index.tied_to(id) if id in rests_on(each)]
                await pace.done()
            newest = {each.id: each for each in resting if each.id not in doomed}
            doomed = doomed | newest
        return doomed

    async def _forget_work(self, gone: Collection[str], jobs: Sequence[Job]) -> None:
        """Remove what is gone from failure records, and break the seals: work that has read it must read again.

        The jobs that would look again end, or they would take along what is restored without it later.
        """
        found = [record async for record in self._ledger.walk(Filter(self._partition, layers=("failure", SEAL)))]
        for record in found:
            if record.layer == "failure":
                await self._forget_failure(record, gone)
        seals = tuple(record.id for record in found if record.layer == SEAL)
        step = OPERATIONS_MAX // 2
        for start in range(0, max(len(seals), len(jobs)), step):
            drop, finish = seals[start : start + step], tuple(jobs[start : start + step])
            whole = Changes(self._partition, drop=drop, finish=finish)
            try:
                await self._ledger.commit(whole)
            except LeaseLost:  # a worker is at one of them, and will find nothing
                await self._commit_apart(whole)

    async def _commit_apart(self, changes: Changes) -> None:
        """Commit the drops, then the end of each job by itself, as far as nobody has the job."""
        if changes.drop:
            await self._ledger.commit(Changes(self._partition, drop=changes.drop))
        for job in changes.finish:
            with suppress(LeaseLost):
                await self._ledger.commit(Changes(self._partition, finish=(job,)))

    async def _forget_failure(self, failure: Record, gone: Collection[str]) -> None:
        """Remove what is gone from a failure; drop it if it was about nothing else."""
        refs: list[str] = failure.data["refs"]
        left = _refs_without(failure.data["kind"], refs, gone)
        if left == refs:
            return
        if not left:
            await self._ledger.commit(Changes(self._partition, drop=(failure.id,)))
        else:
            job = f"{failure.data['kind']}:{new_id(self._ledger.clock())}"
            data = {**failure.data, "job": job, "refs": left}
            await self._ledger.commit(Changes(self._partition, put=(failure.with_(data=data),)))

    async def _take_out_of_merges(self, index: PartitionIndex, going: _Going) -> bool:
        """Remove what forgotten records gave to those they were merged into, however far it was passed on.

        Return whether there was anything to remove.
        """

        def held(id: str) -> Record | None:
            row = index.row_of.get(id)
            return None if row is None or id in going.doomed else index.records[row]

        found = False
        pace = Pace()
        for id, gone in going.doomed.items():
            await pace.done()
            holders = [each.id for each in index.tied_to(id) if each.id not in going.doomed and _took_in(each, id)]
            into = str(gone.data["merged_into"]) if _is_merged(gone) else holders[-1] if holders else None
            if into is not None:
                found = True
                if id not in going.gave:
                    going.gave[id] = await told_by(self._ledger, gone)
                await take_out(self._ledger, gone, going.gave[id], into, held, late=bool(going.dropped))
        return found

    async def erase(self) -> Receipt:
        """Forget everything this user has, leaving no trace of it in the files. The user's keys are revoked."""
        counts, beside = await self.forget_everything()
        await end_keys(self._ledger, *self._partition)
        await self._ledger.store.compact()
        return Receipt(dict(counts), iso(self._ledger.clock()), compacted=True, beside=beside)

    async def forget_everything(self) -> tuple[Counter[str], dict[str, int | None]]:
        """The same without clearing the files. Return how many records went, per layer here and per other place."""
        counts: Counter[str] = Counter()
        standing: dict[str, Record] = {}
        async for record in self._ledger.walk(Filter(self._partition)):
            counts[record.layer] += record.layer != SEAL
            if STANDS_IN in record.metadata:
                standing[str(record.metadata[STANDS_IN])] = record
        beside = await self._forget_beside(standing.values(), everything=True)
        await self._plan_clearing()  # first, so that a crash does not leave the partition in the index
        await forget_whole(self._ledger.store, self._partition, self._ledger.clock())
        self._indexes.drop(self._partition)
        await self._plan_clearing(at_once=True)
        await self._plan_purging()
        return +counts, beside

    async def _plan_purging(self) -> None:
        """Have upkeep remove the hashes of remembered keys when they have served: no job of the user's is left to."""
        await self._ledger.commit(Changes(ERASURES, enqueue=(self._ledger.purging_job(self._partition),)))

    async def _plan_clearing(self, *, at_once: bool = False) -> None:
        """Have an index beside the store drop the partition: in any case also a little later.

        A job in progress may still pass it what it read before.
        """
        now = self._ledger.clearing_jobs(self._partition) if at_once else ()
        if jobs := now + self._ledger.clearing_jobs(self._partition, later=True):
            await self._ledger.commit(Changes(ERASURES, enqueue=jobs))


async def erase_org(ledger: Ledger, indexes: Indexes, org: str) -> Receipt:
    """Forget everything of an org: all of its users, and what belongs to the org itself."""
    counts: Counter[str] = Counter()
    beside: dict[str, int | None] = {}
    async for partition in named_partitions(ledger.store):
        if partition.org == org:
            went, besides = await Privacy(ledger, indexes, partition).forget_everything()
            counts += went
            beside |= besides
    await end_keys(ledger, org)
    await ledger.store.compact()
    return Receipt(dict(counts), iso(ledger.clock()), compacted=True, beside=beside)


async def _with_past(doomed: Mapping[str, Record], *, is_first: bool) -> list[str]:
    """The ids of records, each preceded by those of its past states.

    An edit that slips in leaves one past state more. Its id is known beforehand, so it is dropped too: in the first
    pass if all of it fits one commit, otherwise in the next. So a pass that finds nothing new has nothing to write.
    """
    size = sum(1 + int(each.data.get("edits", 0)) + _edits_to_come(each) for each in doomed.values())
    early = not is_first or size <= DROPPED_AT_ONCE
    past: list[str] = []
    pace = Pace()
    for record in doomed.values():
        past += past_ids(record, _edits_to_come(record) if early else 0)
        await pace.done()
    return list(dict.fromkeys((*past, *doomed)))


def _edits_to_come(record: Record) -> int:
    """How many edits of a record may slip in while it is being forgotten."""
    return 0 if record.layer in UNEDITED else LATER_EDITS


def _refs_without(kind: str, refs: list[str], gone: Collection[str]) -> list[str]:
    """What a failed job is about, without what is gone; nothing if there is nothing left to do.

    Where the place of a ref says what it means, the others keep theirs.
    """
    if kind in OF_SESSIONS and (refs[0] in gone or (kind == "summarize" and refs[1] in gone)):
        return []
    if kind == "lives":  # each memory with the number of its edits
        pairs = zip(refs[::2], refs[1::2], strict=True)
        return [ref for id, edits in pairs if id not in gone for ref in (id, edits)]
    if kind == "trust":
        return refs_of_act(refs, gone)
    if kind == "forget":
        left = [ref for ref in refs[1:] if json.loads(ref)[0] not in gone]
        return [refs[0], *left] if left else []
    return [ref for ref in refs if ref not in gone]


def _finishing_job(partition: Partition, records: Sequence[Record], session: str, now: int) -> Job:
    """The job of looking again when these records are dropped, and `session`, if that goes as a whole.

    It names what is needed to find what was made of a record: nothing that anybody said.
    """
    known = ([each.id, each.layer, each.scope.session, each.born, each.data.get("edits", 0)] for each in records)
    refs = (session, *(json.dumps(each, ensure_ascii=False) for each in known))
    # Its id is of all of this: a record that was added again under its id is another one.
    return Job(f"forget:{derived_id(*refs)}", partition, "forget", refs, due_at=now)


def _gone(partition: Partition, ref: str) -> Record:
    """What such a job knows of a record that is gone."""
    id, layer, session, born, edits = json.loads(ref)
    return Record(id, layer, Scope(*partition, session=session), data={"edits": edits}, born=tuple(born))


def _took_in(record: Record, id: str) -> bool:
    return any(merge.id == id for merge in merges_of(record))


def _is_merged(record: Record) -> bool:
    return "merged_into" in record.data
