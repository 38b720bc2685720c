"""Conversations whose questions name the turns that answer them, in the formats they come in.

| a file is | and holds |
|---|---|
| JSON Lines | your own: a line is a message or a question (below) |
| JSON, a list with `conversation` and `qa` | LoCoMo, as it is published |
| JSON, a list with `haystack_sessions` | LongMemEval, as it is published |
| JSON, `sessions` and `stores` | many memories that share sessions |

Each may be compressed with gzip. A line of your own file is one of

    {"session", "role", "content", "name"?, "at"?, "id"?}
    {"question", "evidence": [ids], "answer"?, "at"?, "category"?}
    {"note", "turns": [ids]}

A message without an `id` is named after its session and its place there, from 1: `monday:3`. A question
without evidence is one that the conversation does not answer. A note is what a perfect model would have
written down about these turns; for LoCoMo it is the `observation`. In a file without notes, the answers are used.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recollect.errors import NotFound, ValidationError

ROLES = ("user", "assistant")
LONG_AGO = "2024-01-01T00:00:00Z"
"""When a message was said if its line does not say."""
LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_GZIP = b"\x1f\x8b"
_LOCOMO_TURN = re.compile(r"D:?(\d+):0*(\d+)")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a stored conversation; `number` is its place in the whole conversation."""

    id: str
    session: str
    speaker: str
    text: str
    at: str
    number: int = 0

    @property
    def told(self) -> str:
        """Speaker and text, as a plain index would hold them."""
        return f"{self.speaker}: {self.text}"

    def as_message(self) -> dict[str, Any]:
        """The turn as the arguments of `add_message`."""
        role = self.speaker if self.speaker in ROLES else "user"
        name = {} if self.speaker in ROLES else {"name": self.speaker}
        content = self.text if self.text.strip() else "..."
        return {"role": role, "content": content, "id": f"turn-{self.number}", "created_at": self.at} | name


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the turns and sessions that answer it; `abstain` when nothing does."""

    text: str
    at: str | None
    category: str
    evidence: frozenset[str]
    sessions: frozenset[str]
    abstain: bool


@dataclass(frozen=True, slots=True)
class Note:
    """What a perfect model would have written down about some turns."""

    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """All turns of one memory, in order, and the notes on them if the file has any."""

    turns: tuple[Turn, ...]
    notes: tuple[Note, ...] = ()

    def in_sessions(self, most: int) -> Iterator[tuple[str, Sequence[Turn]]]:
        """The turns in order, in pieces of at most `most` turns of one session."""
        start = 0
        for end in range(1, len(self.turns) + 1):
            first = self.turns[start]
            if end == len(self.turns) or end - start == most or self.turns[end].session != first.session:
                yield first.session, self.turns[start:end]
                start = end


@dataclass(frozen=True, slots=True)
class Case:
    """One memory and the questions about it."""

    conversation: Conversation
    questions: tuple[Asked, ...]

    def answered(self) -> Iterator[Asked]:
        """The questions that have an answer in it."""
        return (question for question in self.questions if question.evidence and not question.abstain)

    def sessions(self) -> dict[str, str]:
        """The session of each turn."""
        return {turn.id: turn.session for turn in self.conversation.turns}


def read_cases(path: Path) -> list[Case]:
    """The cases of a file."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode("utf-8")
        cases = _cases(text)
    except FileNotFoundError as error:
        raise NotFound("there is no such file", field="data") from error
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValidationError("not a file of conversations with answered questions", field="data") from error
    if not any(case.questions for case in cases):
        raise ValidationError("has no questions", field="data")
    return cases


def _cases(text: str) -> list[Case]:
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        whole = None  # more than one document: lines
    if whole is None or (isinstance(whole, dict) and "stores" not in whole):
        return [_of_lines([json.loads(line) for line in text.splitlines() if line.strip()])]
    if isinstance(whole, dict):
        return [_of_store(store, whole["sessions"]) for store in whole["stores"]]
    read = _of_locomo if "qa" in whole[0] else _of_longmemeval
    return [read(each) for each in whole]


# ── Your own ─────────────────────────────────────────────────────────────────────────────────────


def _of_lines(lines: Sequence[Mapping[str, Any]]) -> Case:
    places: Counter[str] = Counter()
    turns: dict[str, Turn] = {}
    for line in lines:
        if "question" not in line and "note" not in line:
            session = str(line["session"])
            places[session] += 1
            id = str(line.get("id") or f"{session}:{places[session]}")
            said_by = str(line.get("name") or line["role"])
            turns[id] = Turn(id, session, said_by, str(line["content"]), _zoned(line.get("at")), len(turns))
    notes = tuple(_note(line["note"], line["turns"], turns) for line in lines if "note" in line)
    questions = []
    answers = []
    for line in lines:
        if "question" in line:
            evidence = frozenset(map(str, line.get("evidence", ())))
            sessions = frozenset(turns[id].session for id in evidence)
            at = line.get("at")
            about = str(line.get("category", "all"))
            questions.append(Asked(str(line["question"]), at and _zoned(at), about, evidence, sessions, not evidence))
            answers.append(line.get("answer"))
    said = tuple(turns.values())
    return Case(Conversation(said, notes or _answers(said, zip(questions, answers, strict=True))), tuple(questions))


def _note(text: Any, turns: Sequence[Any], known: Container[str]) -> Note:
    return Note(str(text), tuple(id for id in map(str, turns) if id in known))


def _answers(turns: Sequence[Turn], given: Iterable[tuple[Asked, Any]]) -> tuple[Note, ...]:
    """Answers as notes on the turns they come from, with the name of whoever spoke there; nothing of the question.

    This is the least that a perfect model would have written down about these turns.
    """
    notes = []
    known = {turn.id: turn for turn in turns}
    for asked, answer in given:
        said = sorted((known[id] for id in asked.evidence if id in known), key=lambda turn: turn.number)
        if said and not asked.abstain and str(answer or "").strip():
            name = "" if said[0].speaker in ROLES else f"{said[0].speaker}: "
            notes.append(Note(f"{name}{answer}", tuple(turn.id for turn in said)))
    return tuple(notes)


# ── Published sets ───────────────────────────────────────────────────────────────────────────────


def _of_locomo(sample: Mapping[str, Any]) -> Case:
    """Sessions `session_1`, ... with turns `D1:1`, ...; the last category has no answer."""
    said = sample["conversation"]
    turns: list[Turn] = []
    number = 1
    while f"session_{number}" in said or f"session_{number}_date_time" in said:
        at = datetime.strptime(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").isoformat() + "Z"
        for each in said.get(f"session_{number}", ()):
            text = _with_picture(each["text"], each.get("blip_caption"))
            turns.append(Turn(each["dia_id"], f"D{number}", each["speaker"], text, at, len(turns)))
        number += 1
    known = {turn.id: turn.session for turn in turns}
    questions = []
    for each in sample["qa"]:
        evidence = frozenset(id for id in _locomo_turns(each.get("evidence", ())) if id in known)
        category = LOCOMO_CATEGORIES[int(each["category"])]
        sessions = frozenset(known[id] for id in evidence)
        questions.append(Asked(each["question"], None, category, evidence, sessions, category == "adversarial"))
    seen = [each for by_person in sample.get("observation", {}).values() for each in by_person.values()]
    notes = [_note(text, _locomo_turns(ids), known) for each in seen for text, ids in each]
    return Case(Conversation(tuple(turns), tuple(notes)), tuple(questions))


def _locomo_turns(named: Any) -> list[str]:
    """`D1:3`, several in one text, or a list of them."""
    return [f"D{int(session)}:{int(turn)}" for session, turn in _LOCOMO_TURN.findall(str(named))]


def _of_longmemeval(each: Mapping[str, Any]) -> Case:
    """One memory for each question; its sessions in chronological order, and the turns that answer it marked."""
    told = sorted(
        zip(map(_lme_time, each["haystack_dates"]), each["haystack_sessions"], strict=True), key=lambda pair: pair[0]
    )
    turns: list[Turn] = []
    evidence = set()
    for number, (at, session) in enumerate(told, 1):
        for place, turn in enumerate(session, 1):
            id = f"S{number}:{place}"
            turns.append(Turn(id, f"S{number}", turn["role"], turn["content"], at, len(turns)))
            if turn.get("has_answer"):
                evidence.add(id)
    sessions = frozenset(id.partition(":")[0] for id in evidence)
    abstain = str(each["question_id"]).endswith("_abs")
    at = _lme_time(each["question_date"])
    asked = Asked(each["question"], at, each["question_type"], frozenset(evidence), sessions, abstain)
    return Case(Conversation(tuple(turns), _answers(turns, [(asked, each.get("answer"))])), (asked,))


def _of_store(store: Mapping[str, Any], sessions: Mapping[str, Any]) -> Case:
    """Sessions by reference, turns as `[speaker, text, caption?]`, ids `S<session>:<turn>` from 1."""
    turns: list[Turn] = []
    for number, (id, at) in enumerate(store["sessions"], 1):
        for place, (speaker, text, *caption) in enumerate(sessions[id], 1):
            told = _with_picture(text, caption[0] if caption else None)
            turns.append(Turn(f"S{number}:{place}", f"S{number}", speaker, told, _zoned(at), len(turns)))
    questions = tuple(
        Asked(
            each["question"],
            each["at"] and _zoned(each["at"]),
            str(each["category"]),
            frozenset(each["evidence"]),
            frozenset(each["evidence_sessions"]),
            bool(each["abstain"]),
        )
        for each in store["questions"]
    )
    answers = [each.get("answer") for each in store["questions"]]
    return Case(Conversation(tuple(turns), _answers(turns, zip(questions, answers, strict=True))), questions)


def _with_picture(text: str, caption: str | None) -> str:
    return f"{text} [shares image: {caption}]" if caption else text


def _lme_time(text: str) -> str:
    """`2023/05/30 (Tue) 23:40` as ISO."""
    return datetime.strptime(re.sub(r" \(\w+\)", "", text), "%Y/%m/%d %H:%M").isoformat() + "Z"


def _zoned(at: str | None) -> str:
    """An ISO time with its zone, which is UTC if none is given."""
    moment = datetime.fromisoformat(at or LONG_AGO)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
