"""Collects what the reranker learns from: questions, and the turns that the fast ranking puts first.

    python training/prepare.py --out pairs.json.gz --learn FRIENDS.json.gz LME_O50.json.gz training/talks \
        --measure LOCOMO.json.gz

Every question comes with its right turns and with the best wrong ones, each as the reranker will
read it (recollect/policies/passages.py), and with the fast ranking's score. Files under `--learn`
are learned from: use data whose licence allows it. Files under `--measure` are only measured with.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from fit_ranking import cases_of, features_of, index_of

from recollect.index import PartitionIndex
from recollect.interfaces.datasets import Case
from recollect.policies.passages import beginning, ending, stretch
from recollect.policies.scoring import talk_scores
from recollect.policies.words import query_terms
from recollect.providers import StaticEmbedder

CANDIDATES = 100
"""Turns of each question that the fast ranking puts first."""


class Strings:
    """Texts by number: the same text is written once."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.all.setdefault(text, len(self.all))


async def rows(case: Case, index: PartitionIndex, embedder: StaticEmbedder, put: Strings) -> list[dict[str, Any]]:
    """Each answered question of a case with its candidates."""
    turns = case.conversation.turns
    ids = np.array([record.id for record in index.records])
    found = []
    for question in case.answered():
        terms = query_terms(question.text)
        talk = index.talk()
        scores = talk_scores(talk.kind, await features_of(index, question.text, embedder))
        right = np.isin(ids, list(question.evidence))
        chosen = np.argsort(-scores, kind="stable")[:CANDIDATES]
        missed = np.setdiff1d(np.flatnonzero(right), chosen)
        candidates = []
        for row in (*chosen.tolist(), *missed.tolist()):
            before, after = int(talk.before[row]), int(talk.after[row])
            candidates.append([
                put(turns[row].speaker), put(stretch(turns[row].text, terms)),
                put(ending(turns[before].text)) if before >= 0 else -1,
                put(beginning(turns[after].text)) if after >= 0 else -1,
                round(float(scores[row]), 4), int(right[row]), int(talk.session[row]),
            ])  # fmt: skip
        found.append({
            "question": question.text, "kind": talk.kind, "category": question.category,
            "evidence": len(question.evidence), "found": len(chosen), "candidates": candidates,
        })  # fmt: skip
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--learn", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--measure", type=Path, nargs="*", default=[], metavar="FILE")
    options = parser.parse_args()
    embedder, put = StaticEmbedder(), Strings()
    sets: dict[str, Any] = {}
    for path in (*options.learn, *options.measure):
        questions = []
        for number, case in enumerate(cases_of(path)):
            index = await index_of(case.conversation, embedder)
            questions += [row | {"case": number} for row in await rows(case, index, embedder, put)]
        name = path.name.split(".")[0]
        sets[name] = {"learn": path in options.learn, "questions": questions}
        print(name, len(questions), "questions", flush=True)
    with gzip.open(options.out, "wt", encoding="utf-8", compresslevel=9) as file:
        json.dump({"strings": list(put.all), "sets": sets}, file, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    asyncio.run(main())
