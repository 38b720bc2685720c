"""A question, and what it found in an index: the score of each row, the rows that were chosen, and why each was.

`recall.py` makes these; `precedence.py` moves some of the chosen up or down.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.index import PartitionIndex
from recollect.policies import scoring, turn_scoring
from recollect.policies.asking import Event
from recollect.policies.dates import Span
from recollect.policies.overtaken import TAKEN_BACK_WORTH
from recollect.policies.scoring import Scores
from recollect.postings import Told, cover
from recollect.records import Leg, Record


@dataclass(frozen=True, slots=True)
class Question:
    """A question, ready for every leg: its terms, its vector if there is one, when it is asked."""

    text: str
    terms: tuple[str, ...]
    vector: NDArray[np.float32] | None
    at: int
    span: Span | None = None
    """The stretch of time that it names, if any."""
    parts: tuple[Question, ...] = ()
    event: tuple[Event, Question] | None = None
    """The event that it measures time from, with the question that finds it; it is looked for first."""
    earlier: NDArray[np.float32] | None = None
    """Its vector by the previous embedder, if some memories still have only a vector by that one."""
    near: Sequence[str] | None = None
    """The ids that the index beside the store considers nearest; None if no such index can be queried."""


class Turns(NamedTuple):
    """The turns among the rows of an index: which rows they are, the row of `TALK` that weighs them, their features."""

    among: NDArray[np.bool_]
    weights: str
    features: NDArray[np.float32]


@dataclass(slots=True)
class Scored:
    """One index with the score of each of its rows, and what the score is made of.

    `turns` is None where turns are not scored as such. `signs` is what notes get for telling a time or a number. `told`
    has the rows of each term of the question, and how informative it is. `named` are the speakers whom the question
    names.
    """

    index: PartitionIndex
    total: Scores
    words: Scores
    word_factor: float
    cover: Scores
    cover_factor: float
    meaning: Scores | None
    meaning_factor: float
    at: int
    alive: NDArray[np.bool_]
    turns: Turns | None
    in_time: NDArray[np.bool_] | None
    told: Told
    echoes: frozenset[int]
    named: frozenset[str]
    signs: Scores | None = None
    latest: Scores | None = None
    in_parts: Scores | None = None


class Legs(Mapping[str, Leg]):
    """Why a row was found: what each leg added, and the rank of the row in that leg among those that may be found.

    Built lazily, from the state at query time: most hits are never asked to explain themselves.
    """

    __slots__ = ("_chosen", "_made", "_scored")

    def __init__(self, scored: Scored, chosen: Chosen) -> None:
        self._scored, self._chosen = scored, chosen
        self._made: dict[str, float] | None = None

    @property
    def _shares(self) -> dict[str, float]:
        if self._made is None:
            scored, row, record = self._scored, self._chosen.row, self._chosen.record
            recency = scoring.recency(np.array([record.when]), scored.at)
            share = 1.0 if scored.turns is None else scoring.BESIDE_TALK
            worded = float(scored.words[row]) * scored.word_factor + float(scored.cover[row]) * scored.cover_factor
            self._made = {"words": worded * share}
            if scored.meaning is not None:
                self._made["meaning"] = float(scored.meaning[row]) * scored.meaning_factor * share
            if scored.signs is not None:
                self._made["form"] = float(scored.signs[row]) * share
            if scored.turns is not None and scored.turns.among[row]:
                self._made |= turn_scoring.leg_shares(scored.turns.weights, scored.turns.features[:, row])
            if scored.in_time is not None:
                self._made["time"] = float(scored.in_time[row]) * scoring.TIME_ASKED
            if row in scored.echoes:
                self._made["echo"] = -turn_scoring.ECHO_LESS
            if scored.latest is not None:
                self._made["latest"] = float(scored.latest[row]) * scoring.LATEST_ASKED
            self._made["recency"] = float(recency[0]) * scoring.WEIGHTS.recency
            self._made["importance"] = record.importance * scoring.WEIGHTS.importance
            if scored.in_parts is not None and scored.in_parts[row] > 0:
                self._made["part"] = float(scored.in_parts[row])
            if self._chosen.gain is not None:
                self._made["reranker"] = self._chosen.gain
            if self._chosen.lift:
                self._made["current"] = self._chosen.lift
        return self._made

    @property
    def relevance(self) -> float:
        """How likely the row answers the question, judged by the row alone, whatever else was found."""
        scored, row = self._scored, self._chosen.row
        # A row without a vector, such as a preference, has exactly 0: only its words count.
        cosine = None if scored.meaning is None else float(scored.meaning[row]) or None
        worth = turn_scoring.ECHO_WORTH if row in scored.echoes else TAKEN_BACK_WORTH if self._chosen.lift < 0 else 1.0
        if scored.named and scored.turns is not None and scored.turns.among[row]:
            by_them = bool(scored.turns.features[turn_scoring.SPEAKER, row])
            worth *= turn_scoring.worth_about(self._chosen.record.content, by_them, scored.named)
        likely = scoring.relevance(cover(row, scored.told, len(scored.words)), cosine, self._chosen.odds)
        return round(likely * worth, 3)

    def __getitem__(self, name: str) -> Leg:
        share = self._shares[name]
        scores = {"words": self._scored.words, "meaning": self._scored.meaning}.get(name)
        if scores is None:
            weight = getattr(scoring.WEIGHTS, name, 1.0)
            return Leg(share / weight, 0, share)
        score = scores[self._chosen.row]
        return Leg(float(score), int(np.count_nonzero((scores > score) & self._scored.alive)) + 1, share)

    def items(self) -> ItemsView[str, Leg]:
        """All legs, each made once."""
        return {name: self[name] for name in self._shares}.items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._shares)

    def __len__(self) -> int:
        return len(self._shares)


class Chosen(NamedTuple):
    """A record that was found: its score, the place of its index, its row there, and what a reranker added.

    `lift` was added because it tells how things are now, where a better match tells how they were. It is negative for
    what was taken back.
    """

    score: float
    record: Record
    place: int
    row: int
    gain: float | None = None
    odds: float | None = None
    lift: float = 0.0
