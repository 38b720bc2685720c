"""Fit the weights of turns: a linear mix that ranks the turns that answer a question above the others.

    python tools/fit_ranking.py --people FRIENDS.json.gz training/talks --assistant LME_O50.json.gz
    python tools/fit_ranking.py --worth LME_POOL.json.gz    what each leg and feature is worth, by leaving it out

Each file holds conversations whose questions carry the ids of the turns that answer them (`recollect bench --help`
describes the format); a folder holds our own talks (tools/talks.py). One row of weights is fitted for each kind of
talk, by a softmax over the best candidates of each question, with the same features that search uses. Fit on data
whose licence allows it: the rows that are shipped were fitted on LongMemEval (MIT), FriendsQA (Apache-2.0) and our
own talks. Each data set counts the same, however many questions it has. The script prints the rows, ready for `TALK`
in recollect/policies/turn_scoring.py.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from talks import read_talks

from recollect.found import Question
from recollect.index import PartitionIndex
from recollect.interfaces.datasets import Case, Conversation, read_cases
from recollect.policies.phrasing import Asked
from recollect.policies.turn_scoring import FEATURES, LEG_OF, TALK, WORDS_ALONE
from recollect.policies.words import query_terms
from recollect.providers import StaticEmbedder, embed_checked
from recollect.recall import add_kin, turn_features
from recollect.records import Record, Scope
from recollect.stores.contract import Delta, Mark

Example = tuple[NDArray[np.float64], NDArray[np.bool_]]

CANDIDATES = 120
"""Wrong turns per question: those that a plain mix of words and meaning ranks first."""
STEPS, RATE, SHRINK = 400, 0.05, 1e-3
KIN = tuple(name for name in FEATURES if "kin" in name)
"""Left out of talk with an assistant, where they measurably add nothing: long replies have kin to anything."""


async def index_of(conversation: Conversation, embedder: StaticEmbedder | None) -> PartitionIndex:
    """Index a conversation as search does."""
    name, dimensions = (embedder.name, embedder.dimensions) if embedder else ("", 1)
    index = PartitionIndex(name, dimensions, "en")
    records = []
    for place, turn in enumerate(conversation.turns):
        told = turn.as_message()
        data: dict[str, object] = {key: value for key, value in told.items() if key in ("role", "name")}
        scope = Scope(session=turn.session)
        records.append(Record(turn.id, "conversation", scope, turn.text, data, born=(place, 0)))
    if embedder is not None:
        vectors = await embed_checked(embedder, [record.told for record in records])
        records = [record.with_(vector=vector) for record, vector in zip(records, vectors, strict=True)]
    index.apply(Delta(Mark(1, 1, 0), tuple(records)))
    return index


async def features_of(index: PartitionIndex, text: str, embedder: StaticEmbedder | None) -> NDArray[np.float32]:
    """The features of all turns for a question, as search computes them; every turn is compared word by word."""
    terms = tuple(query_terms(text))
    vector = (await embedder.embed([text]))[0] if embedder is not None else None
    question = Question(text, terms, vector, 0)
    alive = index.alive(0)
    meaning = index.meaning(vector, alive) if vector is not None else None
    _, features = turn_features(index, question, Asked.of(text), alive, index.words(terms), meaning, None)
    if embedder is not None:
        add_kin(index, question, features, np.arange(len(alive)), embedder.word_vectors)
    return features


async def read(cases: list[Case], embedder: StaticEmbedder | None) -> AsyncIterator[tuple[str, Example]]:
    """Yield, for each question, the kind of talk, the features of all turns, and which turns answer it."""
    for case in cases:
        index = await index_of(case.conversation, embedder)
        ids = np.array(index.records.ids)
        for question in case.answered():
            features = (await features_of(index, question.text, embedder)).T
            yield index.talk().kind, (features.astype(np.float64), np.isin(ids, list(question.evidence)))


def cases_of(path: Path) -> list[Case]:
    """The conversations of a file, or of a folder of talks."""
    return list(read_talks(path)) if path.is_dir() else read_cases(path)


async def examples(cases: list[Case], kind: str, embedder: StaticEmbedder | None) -> list[Example]:
    """The examples of one kind of talk, with only the best candidates: what the weights have to tell apart."""
    found: list[Example] = []
    async for told, (features, right) in read(cases, embedder):
        if told != kind:
            continue
        plain = features[:, FEATURES.index("words")] + 0.7 * features[:, FEATURES.index("meaning")]
        chosen = np.union1d(np.argsort(-plain)[:CANDIDATES], np.flatnonzero(right))
        found.append((features[chosen], right[chosen]))
    return found


async def worth(cases: list[Case], embedder: StaticEmbedder | None) -> dict[str, tuple[float, float]]:
    """Share of the evidence in the first 5 and 10: with everything, without each leg, and without each feature."""
    left_out: dict[str, tuple[str, ...]] = {"nothing": ()}
    left_out |= {leg: tuple(f for f in FEATURES if LEG_OF[f] == leg) for leg in LEG_OF.values()}
    left_out |= {f"{LEG_OF[feature]}: {feature}": (feature,) for feature in FEATURES}
    sums = {name: np.zeros(2) for name in left_out}
    count = 0
    async for kind, (features, right) in read(cases, embedder):
        count += 1
        for name, without in left_out.items():
            row = TALK[kind if embedder is not None else kind + WORDS_ALONE]
            weights = np.array([0.0 if f in without else w for f, w in zip(FEATURES, row, strict=True)])
            order = np.argsort(-(features @ weights), kind="stable")
            sums[name] += [right[order[:k]].sum() / right.sum() for k in (5, 10)]
    return {name: (100 * total[0] / count, 100 * total[1] / count) for name, total in sums.items()}


def fit(sets: list[list[Example]], without: tuple[str, ...] = ()) -> NDArray[np.float64]:
    """Weights that give the right candidates most of the probability (Adam, takes a minute)."""
    weights = np.zeros(len(FEATURES))
    silent = np.isin(FEATURES, without)
    weights[FEATURES.index("words")] = weights[FEATURES.index("meaning")] = 2.0
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for _ in range(STEPS):
        slope = SHRINK * weights
        for data in sets:
            for features, right in data:
                scores = features @ weights
                guess = np.exp(scores - scores.max())
                slope = slope + features.T @ (guess / guess.sum() - right / right.sum()) / (len(data) * len(sets))
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        weights = np.where(silent, 0.0, weights - RATE * first / (np.sqrt(second) + 1e-8))
    return weights


def rows(weights: NDArray[np.float64]) -> Iterator[str]:
    for name, weight in zip(FEATURES, weights.tolist(), strict=True):
        yield f"        {weight:.2f},  # {name}".replace("-0.00", "0.00")


async def main() -> None:
    """Fit and print one row for each file that is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--assistant", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--worth", type=Path, action="append", default=[], metavar="FILE")
    options = parser.parse_args()
    embedder = StaticEmbedder()
    for path in options.worth:
        print(path.name, "R@5 / R@10")
        for name, (five, ten) in (await worth(read_cases(path), embedder)).items():
            print(f"  without {name:<28} {five:5.1f} / {ten:5.1f}")
    for kind in ("people", "assistant"):
        for mind in (embedder, None):
            sets = [await examples(cases_of(path), kind, mind) for path in getattr(options, kind)]
            if sets:
                counts = " and ".join(str(len(each)) for each in sets)
                name = kind if mind else kind + WORDS_ALONE
                weights = fit(sets, KIN if kind == "assistant" else ())
                print(f'    "{name}": (  # fitted on {counts} questions', *rows(weights), "    ),", sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
