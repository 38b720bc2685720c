"""Utterances with what may be learned from them, as the files beside this one hold them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from recollect.enrich.rules import read
from recollect.policies.keys import key_of, same_value
from recollect.records import DAY_MS

AT = 19_797 * DAY_MS + DAY_MS // 2
"""Noon of 15 March 2024: when all of the utterances are said."""
_FOLDER = Path(__file__).parent / "data"

Learned = tuple[str, bool, str]
"""Key, whether it is no longer so, value."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What is said, after which answer, and what it says of the user."""

    text: str
    answered: str
    says: frozenset[Learned]


def utterances(name: str) -> list[Utterance]:
    """The labelled utterances of a file."""
    lines = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [_utterance(line) for line in lines if line.strip() and not line.startswith("#")]


def _utterance(line: str) -> Utterance:
    said, _, labels = line.rpartition(" =>")
    answered, after, text = said.partition(" >> ")
    if not after:
        answered, text = "", said
    says = frozenset(_label(label.strip()) for label in labels.split(" | ") if label.strip())
    return Utterance(text.replace("\\n", "\n"), answered, says)


def _label(label: str) -> Learned:
    key, _, value = label.partition("=")
    return key.removeprefix("-"), key.startswith("-"), value


def learned(text: str, answered: str = "") -> list[Learned]:
    """What the rules learn of the user: facts, preferences and learnings."""
    drafts = read(text, AT, answered=answered)
    return [(d.key, d.ends, d.value) for d in drafts if d.layer in ("fact", "preference", "learning")]


@dataclass(slots=True)
class Tally:
    """How often the rules were right, wrong and silent."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + self.missed)

    def __str__(self) -> str:
        counts = f"{self.right} right, {self.wrong} wrong, {self.missed} missed"
        return f"precision {self.precision:.3f}  recall {self.recall:.3f}  ({counts})"


def measure(said: list[Utterance]) -> tuple[Tally, dict[str, Tally], list[str]]:
    """The figures over all, by key, and a line for each utterance that was not read rightly."""
    total, by_key, faults = Tally(), defaultdict[str, Tally](Tally), []
    for utterance in said:
        left, wrong = set(utterance.says), []
        for key, ends, value in learned(utterance.text, utterance.answered):
            label = next((x for x in left if x[:2] == (key, ends) and same_value(key_of(key), x[2], value)), None)
            if label:
                left.discard(label)
            else:
                wrong.append((key, ends, value))
            for tally in (total, by_key[key]):
                tally.right, tally.wrong = tally.right + bool(label), tally.wrong + (not label)
        for key, _, _ in left:
            for tally in (total, by_key[key]):
                tally.missed += 1
        if wrong or left:
            faults.append(f"{utterance.text!r}: wrong {wrong}, missed {sorted(left)}")
    return total, dict(by_key), faults
