"""Read stored conversations again when the rules or the model have improved.

It is rehearsed first, on a throw-away copy of what is known: the difference is reported and nothing
changes. When applied, it works like any learning: what was learned before is not learned twice, what was
undone stays undone, and statements that arrive late take their place in the past.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from recollect.conversation import said_in
from recollect.enrich import Enricher, Found
from recollect.enrich.model_texts import at_once
from recollect.errors import Conflict, ValidationError
from recollect.filters import Filter
from recollect.graph import Graph
from recollect.indexes import Indexes
from recollect.layers import FACT_LAYERS
from recollect.learning import Learning
from recollect.learnings import Learnings
from recollect.ledger import Ledger, portions
from recollect.models.prompts import MESSAGES_MAX
from recollect.pace import Pace
from recollect.policies.fencing import unfenced
from recollect.policies.keys import key_of, plain_value
from recollect.policies.spells import Telling
from recollect.profile import Fact, Facts
from recollect.reading import Given, Reading, reading_mark
from recollect.records import Changes, Job, Partition, Record, Scope, new_id
from recollect.settings import Settings
from recollect.stores.contract import Store

COPIED = ("conversation", "session", "fact", "preference", "learning", "entity", "relation", "past")
"""Layers a rehearsal needs: what was said, and what is known from it."""
CONFLICT_TRIES = 3
"""How often a part is decided again because another writer was faster."""
PORTIONS_MAX = 64
"""The most commits for one part: each applies what fits. The next run applies the rest."""
REPROCESSED = "reprocessed"
"""In the mark of a session: by which reader it was read again, and up to which message."""

Told = Callable[[int], None]
"""Called with the number of further messages read."""


class Difference(NamedTuple):
    """One thing that is known after rereading and was not before, or the other way round."""

    change: str
    layer: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Reprocessed:
    """What rereading one user's conversations changes, or would change.

    `missing` are facts that were learned from these messages before and are no longer found in them.
    They stay: use `facts.reject` or `undo` to take back what is wrong.
    """

    partition: Partition
    by: str
    messages: int = 0
    differences: tuple[Difference, ...] = ()
    missing: tuple[Fact, ...] = ()
    applied: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The result as documented JSON."""
        return {
            "org": self.partition.org,
            "user": self.partition.user,
            "by": self.by,
            "messages": self.messages,
            "differences": [each._asdict() for each in self.differences],
            "missing": [fact.to_dict() for fact in self.missing],
            "applied": self.applied,
        }


@dataclass(frozen=True, slots=True)
class Place:
    """Where learning is applied: the store itself, or a copy."""

    ledger: Ledger
    indexes: Indexes


class Reprocessing:
    """Rereads the conversations of one partition at a time, by the rules or by a model."""

    def __init__(
        self,
        ledger: Ledger,
        indexes: Indexes,
        rules: Enricher,
        reading: Reading | None,
        settings: Settings,
        scratch: Callable[[], Store],
    ) -> None:
        self._here = Place(ledger, indexes)
        self._rules = rules
        self._reading = reading
        self._settings = settings
        self._scratch = scratch

    def reader(self, by: str | None) -> str:
        """Who reads: as requested, else the model if there is one."""
        chosen = by or ("model" if self._reading else "rules")
        if chosen == "model" and self._reading is None:
            raise ValidationError("no model is set; name one in the setting llm", field="by")
        return chosen

    async def run(
        self,
        partition: Partition,
        *,
        by: str | None = None,
        session: str | None = None,
        apply: bool = False,
        again: bool = False,
        told: Told | None = None,
    ) -> Reprocessed:
        """Read a user's conversations, or one of them. A model resumes where it was stopped, unless `again`."""
        reader = self.reader(by)
        name = self._rules.name if reader == "rules" or self._reading is None else self._reading.name
        place = self._here if apply else await self._copied(partition)
        before = await _known(place.ledger, partition)
        found: list[Found] = []
        read: list[str] = []
        async for part in self._parts(partition, session, name if reader == "model" and not again else ""):
            findings = await self._findings(partition, part, reader)
            await _learn(place, partition, Given(name, findings))
            if apply and reader == "model":
                await self._mark(partition, part[-1], name)
            found += findings
            read += [message.id for message in part]
            (told or (lambda _: None))(len(part))
        differences = _differences(before, await _known(place.ledger, partition))
        missing = await self._missing(partition, set(read), found, name)
        return Reprocessed(partition, name, len(read), differences, missing, apply)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def _parts(self, partition: Partition, session: str | None, resumes: str) -> AsyncIterator[list[Record]]:
        """The messages, session by session, in parts that are read together."""
        index = await self._here.indexes.current(partition)
        sessions = list(index.sessions) if session is None else [session]
        for each in sessions:
            where = said_in(partition, each)
            where = await self._after_mark(where, each, resumes) if resumes else where
            after: str | None = None
            while True:
                page = await self._here.ledger.list(where, limit=MESSAGES_MAX, after=after)
                rest = list(page.records)
                while part := at_once(rest):
                    yield part
                    rest = rest[len(part) :]
                after = page.after
                if after is None:
                    break

    async def _after_mark(self, where: Filter, session: str, name: str) -> Filter:
        """The filter without what the same reader has already reread."""
        mark = await reading_mark(self._here.ledger, where.partition, session)
        done = mark.data.get(REPROCESSED, {})
        last = await self._here.ledger.get(where.partition, [done["to"]]) if done.get("by") == name else []
        return replace(where, born_after=last[0].born) if last else where

    async def _mark(self, partition: Partition, last: Record, name: str) -> None:
        mark = await reading_mark(self._here.ledger, partition, last.scope.session)

        def decide(known: Record | None, now: int) -> Changes:
            record = known or mark
            data = {**record.data, REPROCESSED: {"by": name, "to": last.id}}
            return Changes(partition, put=(record.with_(data=data),))

        await self._here.ledger.update(partition, mark.id, decide)

    async def _findings(self, partition: Partition, part: Sequence[Record], reader: str) -> Sequence[Found]:
        if reader == "model" and self._reading is not None:
            return (await self._reading.findings(partition, part)).found
        index = await self._here.indexes.current(partition)
        before = [each for each in index.neighbours(part[0], self._here.ledger.clock()) if each.born < part[0].born]
        said = [message.with_(content=unfenced(message.content)) for message in (*before[-1:], *part)]
        mine = {message.id for message in part}
        return [each for each in await self._rules.drafts(said) if each.message.id in mine]

    # ── rehearsing ───────────────────────────────────────────────────────────────────────────────

    async def _copied(self, partition: Partition) -> Place:
        """What is known about a user, in a throw-away store."""
        ledger = self._here.ledger.over(self._scratch())
        records = [record async for record in self._here.ledger.walk(Filter(partition, layers=COPIED))]
        pace = Pace()
        for portion in portions(record.with_(version=0, vector=None) for record in records):
            await ledger.commit(Changes(partition, put=tuple(portion)))
            await pace.done(len(portion), sum([len(record.content) for record in portion]))
        return Place(ledger, Indexes(ledger.store, "", 1, self._settings.language, self._settings.index_mib << 20))

    async def _missing(
        self, partition: Partition, read: set[str], found: Sequence[Found], name: str
    ) -> tuple[Fact, ...]:
        """Facts that rest on these messages alone, learned by the same kind of reader, and not found again."""
        kind = name.rpartition("-")[0]
        missing: list[Fact] = []
        for layer in FACT_LAYERS:
            mine = (each.draft for each in found if each.draft.layer == layer)
            again = {(key_of(draft.key).name, plain_value(draft.value)) for draft in mine}
            for head in await self._heads(partition, layer):
                tellings = [Telling(*each) for each in head.data.get("tellings", ())]
                learned = all(each.message in read and (each.extractor or "").startswith(kind) for each in tellings)
                said = key_of(head.data["key"]).name, plain_value(head.data["value"])
                if tellings and learned and said not in again:
                    missing.append(Fact.from_record(head))
        return tuple(missing)

    async def _heads(self, partition: Partition, layer: str) -> list[Record]:
        where = Filter(partition, layers=(layer,))
        now = self._here.ledger.clock()
        heads = [head async for head in self._here.ledger.walk(where)]
        return [head for head in heads if head.valid_to is None or head.valid_to > now]


async def _learn(place: Place, partition: Partition, enricher: Given) -> None:
    """Apply findings, in as many commits as they need. More than `PORTIONS_MAX` are a `Conflict`."""
    learning = Learning(place.ledger, place.indexes, enricher)
    refs = enricher.messages
    waiting = [Job(f"reread:{new_id(place.ledger.clock())}", partition, "reread", refs)] if refs else []
    commits = 0
    while waiting:
        if commits == PORTIONS_MAX:
            raise Conflict("Some messages say more than is learned at once. What was learned is kept; run it again.")
        changes = await _committed(place, learning, waiting.pop())
        commits += bool(changes.put)
        waiting += [job for job in changes.enqueue if job.kind == "reread"]


async def _committed(place: Place, learning: Learning, job: Job) -> Changes:
    for attempt in range(CONFLICT_TRIES):
        try:
            changes = await learning.run(job)
            rest = tuple(each for each in changes.enqueue if each.kind != "reread")
            if changes.put or rest:
                await place.ledger.commit(replace(changes, enqueue=rest))
            return changes
        except Conflict:
            if attempt == CONFLICT_TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


# ── what is known ────────────────────────────────────────────────────────────────────────────────


async def _known(ledger: Ledger, partition: Partition) -> set[tuple[str, str, str]]:
    """Everything known about a user at present: layer, key and value of each."""
    scope = Scope(*partition)
    known = {
        (layer, fact.key, fact.value) for layer in FACT_LAYERS for fact in await Facts(ledger, scope, layer).list()
    }
    graph = Graph(ledger, scope)
    known |= {("learning", each.type, each.content) for each in await Learnings(ledger, scope).list()}
    known |= {("entity", each.type, each.name) for each in await graph.entities()}
    return known | {("relation", each.relation, each.content) for each in await graph.relations()}


def _differences(before: set[tuple[str, str, str]], after: set[tuple[str, str, str]]) -> tuple[Difference, ...]:
    ended = (Difference("ended", *each) for each in sorted(before - after))
    added = (Difference("added", *each) for each in sorted(after - before))
    return (*ended, *added)
