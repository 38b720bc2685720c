"""Fit how likely it is that the hits answer a question: a logistic curve over two absolute signals.

    python tools/fit_relevance.py LME_O50.json.gz [--check LOCOMO.json.gz]

Questions of a conversation are contrasted with questions of other conversations, which it does not answer, and with
those marked as having no answer. The signals are those of `relevance` in recollect/policies/scoring.py: the share of
the question's terms that a turn has, weighted by rarity, and the cosine; the best of the first five turns counts. Fit
on data whose licence allows it: the shipped weights were fitted on LongMemEval (MIT). `--check` only measures. The
script prints the weights of cover and cosine and the level, then the same without an embedder.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from fit_ranking import features_of, index_of
from numpy.typing import NDArray

from recollect.index import PartitionIndex
from recollect.interfaces.quality import Asked, Case, read_cases, separation
from recollect.policies.scoring import RARITY_ROWS, rarity
from recollect.policies.turn_scoring import talk_scores
from recollect.policies.words import query_terms
from recollect.providers import StaticEmbedder

Signs = NDArray[np.float64]
Examples = dict[str, list[Signs]]

FIRST = 5
"""How many top-ranked turns of a question are considered."""
ROUNDS, STEPS, SHRINK = 15, 30, 1e-3
SEED = 7


async def signs(index: PartitionIndex, embedder: StaticEmbedder, question: str) -> Signs:
    """Cover, cosine and 1 for each of the first turns that search finds."""
    terms = query_terms(question)
    words, posted = index.words(terms), index.posted(terms)
    meaning = index.meaning((await embedder.embed([question]))[0], index.alive(0))
    features = await features_of(index, question, embedder)
    first = np.argsort(-talk_scores(index.talk().kind, features), kind="stable")[:FIRST]
    size = max(len(words), RARITY_ROWS)
    rarities = [rarity(size, len(rows[0]) if rows else 0) for rows in posted]
    held = [weight * np.isin(first, rows[0]) for weight, rows in zip(rarities, posted, strict=True) if rows]
    cover = np.sum(held, axis=0) / max(sum(rarities), 1e-6) if held else np.zeros(len(first))
    return np.stack([cover, meaning[first], np.ones(len(first))], axis=1)


def foreign(cases: Sequence[Case], own: Case, chance: random.Random) -> Iterator[Asked]:
    """Yield as many questions of other cases as `own` has itself, none of whose sessions it contains."""
    said = {turn.text for turn in own.conversation.turns}
    others = [other for other in cases if other is not own]
    wanted = len(own.questions)
    for other in chance.sample(others, len(others)):
        for question in other.answered():
            around = {turn.text for turn in other.conversation.turns if turn.session in question.sessions}
            if wanted and not around & said:
                wanted -= 1
                yield question


async def read(cases: Sequence[Case], embedder: StaticEmbedder) -> Examples:
    """The signals of all questions, grouped into answered, foreign and near misses."""
    found: Examples = {"answered": [], "foreign": [], "near misses": []}
    chance = random.Random(SEED)
    for case in cases:
        index = await index_of(case.conversation, embedder)
        kinds = {
            "answered": case.answered(),
            "foreign": foreign(cases, case, chance),
            "near misses": (question for question in case.questions if question.abstain),
        }
        for kind, questions in kinds.items():
            found[kind] += [await signs(index, embedder, question.text) for question in questions]
    return found


def fit(examples: Examples) -> Signs:
    """Weights with which the best of the first turns predicts whether there is an answer (Newton's method)."""
    rows = [(row, kind == "answered") for kind, found in examples.items() for row in found]
    right = np.array([answered for _, answered in rows], np.float64)
    weights = np.array([1.0, 1.0, 0.0])
    for _ in range(ROUNDS):
        best = np.stack([row[np.argmax(row @ weights)] for row, _ in rows])
        for _ in range(STEPS):
            guess = 1 / (1 + np.exp(-best @ weights))
            slope = best.T @ (guess - right) + SHRINK * weights
            bend = (best * (guess * (1 - guess))[:, None]).T @ best + SHRINK * np.eye(3)
            weights = weights - np.linalg.solve(bend, slope)
    return weights


def without_meaning(examples: Examples) -> Examples:
    return {kind: [row * np.array([1.0, 0.0, 1.0]) for row in rows] for kind, rows in examples.items()}


def show(name: str, examples: Examples, weights: Signs) -> None:
    scores = {kind: [float(np.max(row @ weights)) for row in rows] for kind, rows in examples.items()}
    for kind in ("foreign", "near misses"):
        if scores[kind]:
            print(f"  {name}, {kind}:", separation(scores["answered"], scores[kind]))


async def main() -> None:
    """Fit, print, and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", type=Path, action="append", default=[], metavar="FILE")
    options = parser.parse_args()
    embedder = StaticEmbedder()
    files = {path.name: await read(read_cases(path), embedder) for path in (options.file, *options.check)}
    for reduced in (lambda examples: examples, without_meaning):
        weights = fit(reduced(files[options.file.name]))
        print("with words alone:" if reduced is without_meaning else "with the embedder:", weights.round(2).tolist())
        for name, examples in files.items():
            show(name, reduced(examples), weights)


if __name__ == "__main__":
    asyncio.run(main())
