"""How good search is: conversations whose questions carry the ids of the turns that answer them.

A file is gzip JSON: `sessions` maps a session's id to its turns (`[speaker, text]`, a third entry is
the caption of a picture); `stores` has, for each memory, its `sessions` as `[id, ISO time]` in order
and its `questions` with `question`, `at` (when it is asked, or null), `category`, `evidence` (turn ids
`S<session>:<turn>`, both from 1), `evidence_sessions` and `abstain`. No language model is involved.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recollect.errors import ValidationError
from recollect.memory import Memory, User

TURNS_AT = (5, 10, 20, 50)
SESSIONS_AT = (5, 10)
FOUND = 100
"""Hits that are asked for."""
BATCH = 45
ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a stored conversation."""

    id: str
    session: str
    speaker: str
    text: str
    at: str

    def as_message(self) -> dict[str, Any]:
        """The turn as the arguments of `add_message`."""
        role = self.speaker if self.speaker in ROLES else "user"
        name = {} if self.speaker in ROLES else {"name": self.speaker}
        at = self.at if "+" in self.at or self.at.endswith("Z") else f"{self.at}Z"
        id = self.id.replace(":", "-")
        return {"role": role, "content": self.text or "...", "id": id, "created_at": at} | name


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the turns and sessions that answer it."""

    text: str
    at: str | None
    category: str
    evidence: frozenset[str]
    sessions: frozenset[str]
    abstain: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """All turns of one memory, in order."""

    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One memory and the questions on it."""

    conversation: Conversation
    questions: tuple[Asked, ...]

    def answered(self) -> Iterator[Asked]:
        """The questions that have an answer in it."""
        return (question for question in self.questions if question.evidence and not question.abstain)


@dataclass(slots=True)
class Quality:
    """Means over the questions of a file: shares found, and the time of a search."""

    questions: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    search_ms: list[float] = field(default_factory=list)

    def add(self, scores: dict[str, float]) -> None:
        self.questions += 1
        for name, value in scores.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        return {name: value / max(self.questions, 1) for name, value in self.sums.items()}


def read_cases(path: Path) -> list[Case]:
    """The cases of a file."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            raw = json.load(file)
        return [_case(store, raw["sessions"]) for store in raw["stores"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValidationError("not a file of conversations with answered questions", field="data") from error


def _case(store: dict[str, Any], sessions: dict[str, Any]) -> Case:
    turns = []
    for number, (id, at) in enumerate(store["sessions"], 1):
        for place, (speaker, text, *caption) in enumerate(sessions[id], 1):
            told = f"{text} [shares image: {caption[0]}]" if caption else text
            turns.append(Turn(f"S{number}:{place}", f"S{number}", speaker, told, at))
    questions = tuple(
        Asked(
            each["question"],
            each["at"],
            str(each["category"]),
            frozenset(each["evidence"]),
            frozenset(each["evidence_sessions"]),
            bool(each["abstain"]),
        )
        for each in store["questions"]
    )
    return Case(Conversation(tuple(turns)), questions)


async def measure(cases: Sequence[Case], url: str, advance: Callable[[], None], **settings: Any) -> Quality:
    """Tell each conversation to a memory of its own user, ask its questions, score the answers."""
    quality = Quality()
    async with Memory.open(url, worker=False, **settings) as memory:
        for number, case in enumerate(cases):
            user = memory.user(f"case-{number}")
            await _tell(memory, user, case.conversation)
            async for scores, spent_ms in _ask(user, case):
                quality.add(scores)
                quality.search_ms.append(spent_ms)
            advance()
    return quality


async def _tell(memory: Memory, user: User, conversation: Conversation) -> None:
    turns = list(conversation.turns)
    start = 0
    while start < len(turns):
        end = start
        while end < len(turns) and end - start < BATCH and turns[end].session == turns[start].session:
            end += 1
        await user.session(turns[start].session).add_messages([turn.as_message() for turn in turns[start:end]])
        start = end
    await memory.work()


async def _ask(user: User, case: Case) -> AsyncIterator[tuple[dict[str, float], float]]:
    for question in case.answered():
        at = question.at and (question.at if "+" in question.at or question.at.endswith("Z") else f"{question.at}Z")
        started = time.perf_counter()
        hits = await user.search_memory(question.text, layer="conversation", limit=FOUND, at=at)
        spent_ms = (time.perf_counter() - started) * 1000
        yield score(question, [hit.id.replace("-", ":") for hit in hits]), spent_ms


def score(question: Asked, found: Sequence[str]) -> dict[str, float]:
    """Share of the evidence in the first k, and whether every evidence session is in the first k."""
    scores = {f"turn R@{k}": len(question.evidence & set(found[:k])) / len(question.evidence) for k in TURNS_AT}
    sessions = list(dict.fromkeys(id.partition(":")[0] for id in found))
    if question.sessions:
        scores |= {f"session all@{k}": float(question.sessions <= set(sessions[:k])) for k in SESSIONS_AT}
    return scores
