"""How precise the rules are, and how much they miss, on utterances that were labelled beforehand.

    python -m recollect.testing.labelled                 # every set, in a line each
    python -m recollect.testing.labelled judge --faults  # one of them, with what was read wrongly
    python -m recollect.testing.labelled mine.txt        # a set of your own

A line of a set is `utterance => key=value | -key=value`: what it says about the user, and with a minus what it says
is over. A line with nothing after the arrow is a trap: it teaches nothing. `answer >> utterance` follows an answer.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.enrich.rules import read
from recollect.policies.keys import same_value
from recollect.records import DAY_MS

AT = 19_797 * DAY_MS + DAY_MS // 2
"""Noon on 15 March 2024: when all utterances are said."""
FOLDER = Path(__file__).parent / "utterances"
PRECISION_MIN, RECALL_MIN = 0.98, 0.9
"""What must hold for every set that the rules have seen."""

Learned = tuple[str, bool, str]
"""Key, whether it is no longer true, value."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What is said, after which answer, and what it says about the user."""

    text: str
    answered: str
    says: frozenset[Learned]


def names() -> list[str]:
    """The sets that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def utterances(name: str) -> list[Utterance]:
    """The labelled utterances of a set, by its name or by the path of its file."""
    path = Path(name) if name.endswith(".txt") else FOLDER / f"{name}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
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
    """What the rules learn about the user: facts, preferences and learnings. What is taken back teaches nothing."""
    drafts = [draft for draft in read(text, AT, answered=answered) if draft.value or draft.ends]
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


def measure(said: Sequence[Utterance]) -> tuple[Tally, dict[str, Tally], list[str]]:
    """The figures over all, by key, and a line for each utterance that was misread."""
    total, by_key, faults = Tally(), defaultdict[str, Tally](Tally), []
    for utterance in said:
        left, wrong = set(utterance.says), []
        for key, ends, value in learned(utterance.text, utterance.answered):
            label = next((x for x in left if x[:2] == (key, ends) and same_value(x[2], value)), None)
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


def report(name: str, said: Sequence[Utterance], *, faults: bool = False) -> tuple[str, bool]:
    """A set as one line, with what was misread if that is asked for; and whether it is good enough."""
    total, _, wrong = measure(said)
    traps = sum(not utterance.says for utterance in said)
    line = f"{name:<12} {len(said):>5} utterances, {traps:>4} traps   {total}"
    good = total.precision >= PRECISION_MIN and total.recall >= RECALL_MIN
    return "\n".join([line, *(f"  {fault}" for fault in wrong if faults)]), good


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.labelled", description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(names())}, or files of your own; all without one")
    parser.add_argument("--faults", action="store_true", help="say what was read wrongly")
    chosen = parser.parse_args()
    sets = {name: utterances(name) for name in chosen.sets or names()}
    every = [utterance for said in sets.values() for utterance in said]
    good = True
    for name, said in sets.items():
        line, enough = report(name, said, faults=chosen.faults)
        print(line)
        good &= enough
    if len(sets) > 1:
        print(report("all", every)[0])
    sys.exit(not good)


if __name__ == "__main__":
    main()
