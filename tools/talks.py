"""Read the conversations in training/talks, which were written for this project to learn from.

A file is one memory: `# people: A, B`, then meetings (`## 2025-01-03 18:20`) of turns (`A: text`), then
questions with the turns that answer them (`?? question | 1:3 2:7`, meeting and turn, both counted from 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recollect.interfaces.datasets import Asked, Case, Conversation, Turn


def read_talks(folder: Path) -> Iterator[Case]:
    """Yield every conversation in the folder with its questions."""
    for path in sorted(folder.glob("*.txt")):
        yield _case(path)


def _case(path: Path) -> Case:
    turns: list[Turn] = []
    questions: list[Asked] = []
    meeting, place, at = 0, 0, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            meeting, place, at = meeting + 1, 0, line[3:].strip().replace(" ", "T")
        elif line.startswith("?? "):
            questions.append(_question(line[3:]))
        elif line.strip() and not line.startswith("#"):
            place += 1
            speaker, _, text = line.partition(": ")
            turns.append(Turn(f"S{meeting}:{place}", f"S{meeting}", speaker, text.strip(), at))
    known = {turn.id for turn in turns}
    for question in questions:
        if not question.evidence or not question.evidence <= known:
            raise ValueError(f"{path.name}: a question names turns that are not there: {question.text}")
    return Case(Conversation(tuple(turns)), tuple(questions))


def _question(line: str) -> Asked:
    text, _, ids = line.rpartition("|")
    evidence = frozenset(f"S{id}" for id in ids.split())
    return Asked(text.strip(), None, "talk", evidence, frozenset(id.partition(":")[0] for id in evidence), False)
