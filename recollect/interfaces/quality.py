"""How well search does on conversations whose questions name the turns that answer them.

Only ids are compared: no language model judges what is found. Every ranker is told the same turns and asked
the same questions, one ranker after the other for each conversation, so that load on the machine affects
all of them.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from recollect.episodes import covered
from recollect.interfaces.datasets import Asked, Case, Conversation, Turn, read_cases
from recollect.memory import Memory
from recollect.paging import every
from recollect.records import Record

__all__ = ["Asked", "Case", "Conversation", "Ours", "Ranker", "Row", "Turn", "measure", "read_cases"]

TURNS_AT = (5, 10, 20, 50)
SESSIONS_AT = (5, 10)
FOUND = 100
"""Hits requested for each question."""
SURVIVORS = 50
"""Of the evidence among this many first hits, it is measured how much gets into a context."""
CONTEXT_TOKENS = 2_000
BATCH, PAGE = 45, 1_000
GATHERING_S = 0.001
"""How long a model waits for more turns; none come, because all have been told."""
KEPT_ANSWERABLE = 0.95
"""Share of the questions with an answer that a threshold for "I do not know" must let pass."""

T = TypeVar("T")


class Ranker(Protocol):
    """Something that is told conversations and finds turns, best first."""

    @property
    def name(self) -> str: ...

    async def tell(self, conversation: Conversation) -> None:
        """Read one conversation; questions are about this one until the next is told."""

    async def find(self, question: Asked, limit: int) -> list[str]:
        """The ids of the turns that answer best."""


class Ours:
    """Recollect through its own front door, one user for each conversation.

    Search finds turns, and whatever else is in `layers`; anything found there counts for the turns it comes from.
    """

    def __init__(self, name: str, memory: Memory, quality: str | None = None, layers: Sequence[str] = ()) -> None:
        self.name = name
        self._memory = memory
        self._quality = quality
        self._layers = layers
        self._heard = 0
        self._turns: dict[str, str] = {}
        self._from: dict[str, tuple[str, ...]] = {}

    async def tell(self, conversation: Conversation) -> None:
        self._heard += 1
        self._from = {}
        self._user = self._memory.user(f"heard-{self._heard}")
        self._turns = {f"turn-{turn.number}": turn.id for turn in conversation.turns}
        for session, turns in conversation.in_sessions(BATCH):
            await self._user.session(session).add_messages([turn.as_message() for turn in turns])
        await self._memory.work()

    async def find(self, question: Asked, limit: int) -> list[str]:
        """The turns that were found, or that something else that was found comes from: each takes a place."""
        layers = ["conversation", *self._layers]
        hits = await self._user.search_memory(
            question.text, layer=layers, limit=limit, at=question.at, quality=self._quality
        )
        return list(dict.fromkeys(turn for hit in hits for turn in self._turns_of(hit.id)))[:limit]

    async def remember(self, question: Asked) -> tuple[set[str], float]:
        """The turns in a context, and how likely it is to hold an answer."""
        context = await self._user.get_context(
            question.text, max_tokens=CONTEXT_TOKENS, at=question.at, quality=self._quality
        )
        turns = {turn for source in context.sources for turn in self._turns_of(source.id)}
        return turns, context.answerable

    def _turns_of(self, id: str) -> tuple[str, ...]:
        """The turns that a record stands for."""
        return self._from.get(id) or ((self._turns[id],) if id in self._turns else ())


class WithNotes(Ours):
    """Beside the turns: what a perfect model would have written down."""

    def __init__(self, name: str, memory: Memory, quality: str | None = None) -> None:
        super().__init__(name, memory, quality, ["long_term"])

    async def tell(self, conversation: Conversation) -> None:
        await super().tell(conversation)
        for start in range(0, len(conversation.notes), BATCH):
            some = conversation.notes[start : start + BATCH]
            records = await self._user.add_memories([note.text for note in some])
            for record, note in zip(records, some, strict=True):
                self._from[record.id] = (*self._from.get(record.id, ()), *note.turns)
        await self._memory.work()


class WithLearned(Ours):
    """Beside the turns: what was learned from them by the rules or, if there is one, by the model."""

    async def tell(self, conversation: Conversation) -> None:
        await super().tell(conversation)
        await asyncio.sleep(2 * GATHERING_S)
        await self._memory.work()
        if "episodic" in self._layers:
            for session in dict.fromkeys(turn.session for turn in conversation.turns):
                await self._user.episodes.close(session)
            await self._memory.work()
        async for record in self._learned():
            said = covered(record) or [record.source.message_id if record.source else None]
            self._from[record.id] = tuple(self._turns[id] for id in said if id in self._turns)

    async def _learned(self) -> AsyncIterator[Record]:
        for layer in self._layers:
            async for record in every(partial(self._user.list_memories, layer=layer, limit=PAGE)):
                yield record


@dataclass(slots=True)
class Row:
    """The results of one ranker on one file: means over its questions, and what they cost."""

    name: str
    scores: dict[str, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))
    cpu_ms: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    turns: int = 0
    told_cpu_s: float = 0.0
    survived: list[float] = field(default_factory=list)
    answerable: list[float] = field(default_factory=list)
    unanswerable: list[float] = field(default_factory=list)

    def means(self, category: str | None = None) -> dict[str, float]:
        """Each score in percent, over all questions or those of one category."""
        rows = [each for name, found in self.scores.items() if category in (None, name) for each in found]
        names = dict.fromkeys(name for each in rows for name in each)
        return {name: _percent(each[name] for each in rows if name in each) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """The row as documented JSON."""
        told: dict[str, Any] = {
            "name": self.name,
            "questions": sum(map(len, self.scores.values())),
            **self.means(),
            "cpu_ms": _mean(self.cpu_ms),
            "p50_ms": _quantile(self.wall_ms, 50),
            "p95_ms": _quantile(self.wall_ms, 95),
            "first_ms": _quantile(self.first_ms, 50),
            "turns_per_s": round(self.turns / self.told_cpu_s) if self.told_cpu_s else None,
            "categories": {
                name: {"questions": len(found), **self.means(name)} for name, found in sorted(self.scores.items())
            },
        }
        if self.survived:
            told["survival"] = _percent(self.survived)
        if self.answerable and self.unanswerable:
            told["abstaining"] = separation(self.answerable, self.unanswerable)
        return told


async def measure(cases: Iterable[Case], rankers: Sequence[Ranker], advance: Callable[[int], None]) -> list[Row]:
    """Tell every conversation to every ranker, ask all of them its questions, and score what they find.

    `advance` is called with how many questions with an answer are done, each counted once for every ranker.
    """
    rows = [Row(ranker.name) for ranker in rankers]
    done = 0
    for case in cases:
        for ranker, row in zip(rankers, rows, strict=True):
            await _hear(ranker, row, case)
            for question in case.answered():
                await _ask(ranker, row, question, case.sessions())
                done += 1
                advance(done)
            if isinstance(ranker, Ours):
                row.unanswerable += [(await ranker.remember(each))[1] for each in case.questions if each.abstain]
    return rows


async def _hear(ranker: Ranker, row: Row, case: Case) -> None:
    _, cpu_ms, _ = await _timed(ranker.tell(case.conversation))
    row.told_cpu_s += cpu_ms / 1000
    row.turns += len(case.conversation.turns)
    if case.questions:  # the first question prepares what all others use, and is timed separately
        _, cpu_ms, _ = await _timed(ranker.find(case.questions[0], 1))
        row.first_ms.append(cpu_ms)


async def _ask(ranker: Ranker, row: Row, question: Asked, session_of: Mapping[str, str]) -> None:
    found, cpu_ms, wall_ms = await _timed(ranker.find(question, FOUND))
    row.cpu_ms.append(cpu_ms)
    row.wall_ms.append(wall_ms)
    row.scores[question.category].append(score(question, found, session_of))
    if isinstance(ranker, Ours):
        remembered, answerable = await ranker.remember(question)
        row.answerable.append(answerable)
        there = question.evidence & set(found[:SURVIVORS])
        if there:
            row.survived.append(len(there & remembered) / len(there))


async def _timed(work: Awaitable[T]) -> tuple[T, float, float]:
    """The result of some work, with its CPU time over all threads and its wall time in milliseconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = await work
    return result, (time.process_time() - cpu) * 1000, (time.perf_counter() - wall) * 1000


def score(question: Asked, found: Sequence[str], session_of: Mapping[str, str]) -> dict[str, float]:
    """Share of the evidence in the first k, and whether every evidence session is in the first k."""
    scores = {f"turn R@{k}": len(question.evidence & set(found[:k])) / len(question.evidence) for k in TURNS_AT}
    sessions = list(dict.fromkeys(session_of[id] for id in found))
    if question.sessions:
        scores |= {f"session all@{k}": float(question.sessions <= set(sessions[:k])) for k in SESSIONS_AT}
    return scores


def separation(answerable: Sequence[float], unanswerable: Sequence[float]) -> dict[str, float]:
    """How well a number tells questions with an answer from those without.

    `auc` is how often a question with an answer has the higher number. `refused` is the share of those
    without one that fall below the threshold that lets 95 in 100 of the others pass.
    """
    above = sum((yes > no) + 0.5 * (yes == no) for yes in answerable for no in unanswerable)
    threshold = sorted(answerable)[int(len(answerable) * (1 - KEPT_ANSWERABLE))]
    return {
        "questions": len(unanswerable),
        "auc": round(above / (len(answerable) * len(unanswerable)), 3),
        "threshold": round(threshold, 3),
        "refused": _percent(float(no < threshold) for no in unanswerable),
    }


def _percent(shares: Iterable[float]) -> float:
    return round(100 * statistics.fmean(shares), 1)


def _mean(times: Sequence[float]) -> float | None:
    return round(statistics.fmean(times), 3) if times else None


def _quantile(times: Sequence[float], percent: int) -> float | None:
    return round(sorted(times)[min(len(times) - 1, len(times) * percent // 100)], 3) if times else None
