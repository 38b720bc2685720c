"""The running summary of a session: what is older than its window, folded in piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from recollect.conversation import said_in, tokens_of
from recollect.enrich import summaries
from recollect.filters import Filter
from recollect.ledger import Ledger
from recollect.pace import apart
from recollect.policies import fitting
from recollect.policies.fencing import fenced, safe
from recollect.policies.quarantine import heard
from recollect.policies.tokens import TokenCounter
from recollect.records import TRUSTS, Changes, Job, Record, Scope, derived_id, iso
from recollect.seals import sealed
from recollect.settings import Settings

RETOLD = "retold"
"""In the data of a running summary: what a model wrote, up to which message, and which model it was."""
FOLDED_CHARACTERS = 40
"""Characters whose folding takes as long as a unit of `pace.py`: every sentence is weighed and compared with others."""
FOLD_PAGE = 500
"""Messages that are folded, or read for a window, in one go: more would hold up everything else."""


class RunningSummary:
    """The running summary of one session."""

    def __init__(self, ledger: Ledger, scope: Scope, settings: Settings, count: TokenCounter) -> None:
        self._ledger = ledger
        self._scope = scope
        self._partition = scope.partition
        self._settings = settings
        self._count = count
        self._tokens_of = partial(tokens_of, count=count)

    @property
    def _id(self) -> str:
        return self._ledger.layers["summary"].head_id(self._scope)

    async def compress(self) -> bool:
        """Fold the first half of what is not yet summarised, even if others do too. False if there is none."""
        return await self._ledger.commit_decided(lambda: self.fold(force=True)) is not None

    async def fold(self, *, force: bool = False) -> Changes | None:
        """The change that folds the older part of a history that is too long into the running summary.

        It continues from the last summary and never reads what that covers. With `force` it folds
        even a short history. None if there is nothing to fold.
        """
        return await sealed(self._ledger, self._partition, lambda: self._folded(force))

    async def _folded(self, force: bool) -> Changes | None:
        record, where = await self._unfolded()
        page = await self._ledger.list(where, limit=FOLD_PAGE)
        since = page.records
        if page.after is not None:  # too long for one go: the rest is left to the next job
            older = tuple(message for unit in fitting.units(since)[:-1] for message in unit)
        elif force:
            older = (await apart(lambda: fitting.split_by_tokens(since, 1, self._tokens_of), _folding(since))).older
        else:
            older = (await apart(lambda: self._within(since, self._settings.window_tokens), _folding(since))).older
        if not older:
            return None
        previous = summaries.from_data(record.data["summary"]) if record else None
        now = self._ledger.clock()
        layer = self._ledger.layers["summary"]
        summary = await self._fold(previous, older)
        sources = [*heard(older), *([record] if record else [])]
        made = Record(
            id=self._id,
            layer="summary",
            scope=layer.scope_of(self._scope),
            content=summary.text,
            data={"summary": summaries.to_data(summary), "covers": _covers(record, older)} | _retold(record),
            created_at=record.created_at if record else now,
            trust=min((source.trust for source in sources), key=TRUSTS.index, default="trusted"),
            version=record.version if record else 0,
        )
        more = (fold_job(self._scope, now),) if page.after is not None else ()
        return Changes(self._partition, put=(made,), needs=tuple(message.id for message in older), enqueue=more)

    async def _fold(self, previous: summaries.Summary | None, older: Sequence[Record]) -> summaries.Summary:
        fold = partial(summaries.fold, previous, older, tokens_max=self._settings.summary_tokens, count=self._count)
        return await apart(fold, _folding(older))

    async def _unfolded(self) -> tuple[Record | None, Filter]:
        """The running summary, and a filter for the messages it does not cover."""
        found = await self._ledger.get(self._partition, [self._id])
        record = found[0] if found and found[0].layer == "summary" else None
        born = tuple(record.data["covers"]["born"]) if record else None
        return record, replace(said_in(self._partition, self._scope.session), born_after=born)

    async def window(self, messages: int | None, turns: int | None, tokens: int | None) -> list[Record]:
        """The running summary and the messages after it; folds further, for this answer alone, if need be."""
        record, where = await self._unfolded()
        newest = await self._ledger.list(where, newest_first=True, limit=FOLD_PAGE)
        since = heard(newest.records[::-1])
        split = await apart(lambda: self._split(since, messages, turns, tokens), _folding(since))
        kept = fitting.without_orphans(split.kept)
        if record is None and not split.older:
            return kept
        text = await self._told_with(record, split.older)
        if not text:  # instructions and output of tools alone: there is nothing to tell about them
            return kept
        return [self._summary_message(text, record, split.older), *kept]

    async def _told_with(self, record: Record | None, older: Sequence[Record]) -> str:
        """The text of a summary with more folded into it; what a model wrote stays as it is, before the rest."""
        if record is None or not older:
            return record.content if record else (await self._fold(None, older)).text
        if is_retold(record):
            return "\n".join(filter(None, (record.content, (await self._fold(None, older)).text)))
        return (await self._fold(summaries.from_data(record.data["summary"]), older)).text

    def _split(
        self, since: Sequence[Record], messages: int | None, turns: int | None, tokens: int | None
    ) -> fitting.Split:
        """Split off what has to go into the summary so that the rest keeps within every given limit."""
        kept: Sequence[Record] = since
        if messages is not None:
            kept = fitting.split_by_count(kept, over=messages, keep=max(1, messages // 2)).kept
        if turns is not None:
            kept = fitting.last_turns(kept, turns)
        if tokens is not None or (messages is None and turns is None):
            kept = self._within(kept, tokens or self._settings.window_tokens).kept
        border = next((place for place, message in enumerate(since) if kept and message is kept[0]), len(since))
        return fitting.Split(tuple(since[:border]), tuple(kept))

    def _within(self, messages: Sequence[Record], tokens_max: int) -> fitting.Split:
        """Split off the older half, repeatedly, until the rest fits."""
        split = fitting.split_by_tokens(messages, tokens_max, self._tokens_of)
        older = split.older
        while split.older:
            split = fitting.split_by_tokens(split.kept, tokens_max, self._tokens_of)
            older += split.older
        return fitting.Split(older, split.kept)

    def _summary_message(self, text: str, record: Record | None, more: Sequence[Record]) -> Record:
        covers = _covers(record, more)
        return Record(
            id=self._id,
            layer="conversation",
            scope=self._scope,
            content=fenced([f"Summary of the conversation so far:\n{safe(text)}"]),
            data={"role": "system"},
            metadata={"covers": covers},
            created_at=self._ledger.clock(),
        )


def fold_job(scope: Scope, now: int) -> Job:
    """The job that folds a session that has grown too long. There is only one at a time."""
    return Job(f"fold:{derived_id(scope.session)}", scope.partition, "fold", (scope.session, scope.agent), due_at=now)


def is_retold(summary: Record) -> bool:
    """Whether a model has put everything that a summary covers into its own words."""
    return bool(_retold(summary).get(RETOLD, {}).get("to") == summary.data["covers"]["to"])


def _retold(summary: Record | None) -> dict[str, Any]:
    """What a model wrote about an earlier part, from which it continues."""
    return {RETOLD: summary.data[RETOLD]} if summary is not None and RETOLD in summary.data else {}


def _folding(messages: Sequence[Record]) -> int:
    """What it costs to fold these messages, in the units of `pace.py`."""
    return sum([len(message.content) for message in messages]) // FOLDED_CHARACTERS


def _covers(record: Record | None, older: Sequence[Record]) -> dict[str, Any]:
    """Which messages a summary stands for: the first, the last, how many, and where the log continues."""
    before = record.data["covers"] if record else None
    if not older:
        return dict(before or {})
    return {
        "from": before["from"] if before else older[0].id,
        "to": older[-1].id,
        "count": (before["count"] if before else 0) + len(older),
        "since": before["since"] if before else iso(older[0].when),
        "until": iso(older[-1].when),
        "born": list(older[-1].born),
    }
