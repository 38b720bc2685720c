"""The second look: a reranker reads the question together with each of the top hits and reorders them.

It is the package in `rerank/` of the repository and runs on the CPU. Where it is missing or broken,
search answers without it, and the log says so once for each kind of failure until it works again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from recollect.policies.passages import passage, stretch
from recollect.records import Record

log = logging.getLogger("recollect.reranking")

CANDIDATES = 150
"""How many hits the reranker may read."""
SURROUNDED = 10
"""How many of these, from the top, are read with their surroundings. The others are read alone, so that more fit."""
WORDS_MAX = 6_000
"""Words it reads for one question, about 0.7 seconds of one core: long turns leave room for fewer hits."""
WEIGHT = 1.5
"""How much its scores count relative to those of the fast ranking, each measured by its spread over the hits. A
reranker that knows better sets its own `weight`.
"""

_FAILURES: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""How each reranker has failed since it last worked."""
ODDS_MAX = 20.0
"""Log-odds beyond which nothing is more certain: a millionth of a percent."""


class Reranker(Protocol):
    """Scores how well each passage answers a question. Higher is better.

    Only differences count, unless it has a number `odds`: its scores times that are the log-odds that a passage
    answers. They then have a say in `hit.relevance` and `context.answerable`.
    """

    @property
    def name(self) -> str: ...

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]: ...


def open_reranker(size: str) -> Reranker | None:
    """The reranker of this size; None, with a warning in the log, when it is not available."""
    try:
        reranker: Reranker = import_module("recollect_rerank").Reranker(size)
    except ModuleNotFoundError:
        log.warning("quality='best' needs the reranker: `pip install ./rerank` in a clone. Answering as 'fast'.")
    except Exception as error:  # a model file may be broken in any way
        log.warning("the reranker cannot be opened (%s): answering as quality='fast'", type(error).__name__)
    else:
        return reranker
    return None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hit with its neighbours, as far as a reranker needs them."""

    record: Record
    before: Record | None = None
    after: Record | None = None

    def passage(self, terms: Sequence[str], language: str) -> str:
        """The text that the reranker reads."""
        record = self.record
        speaker = str(record.data.get("name") or record.data.get("role") or "")
        return passage(speaker, stretch(record.content, terms, language), _text(self.before), _text(self.after))


def _text(record: Record | None) -> str:
    return record.content if record is not None else ""


class SecondLook(NamedTuple):
    """What a reranker says of the top hits that it had time to read."""

    gains: list[float]
    """What it adds to each score."""
    odds: Sequence[float | None]
    """The log-odds that each answers the question; None where its scores only order the hits."""


async def second_look(
    reranker: Reranker, question: str, passages: Sequence[str], scores: Sequence[float]
) -> SecondLook | None:
    """Let the reranker read as many of the top hits as it has time for. None when it fails.

    It runs in its own thread, so that nobody else waits.
    """
    reach = _reach(passages)
    try:
        given = await asyncio.to_thread(reranker.score, question, passages[:reach])
        if given.shape != (reach,) or not np.isfinite(given).all():
            raise ValueError("not one number for each passage")
    except Exception as error:  # a model may fail in any way, and the fast ranking has answered already
        if _is_new(reranker, type(error).__name__):
            log.warning("answering as quality='fast': the reranker failed (%s)", type(error).__name__)
        return None
    _is_new(reranker, None)
    added = gains(np.array(scores[:reach], np.float32), given, getattr(reranker, "weight", WEIGHT))
    odds: float | None = getattr(reranker, "odds", None)
    if odds is None:
        return SecondLook(added.tolist(), [None] * reach)
    return SecondLook(added.tolist(), np.clip(given * np.float32(odds), -ODDS_MAX, ODDS_MAX).tolist())


def _is_new(reranker: Reranker, failure: str | None) -> bool:
    """Whether a reranker fails in a way that has not been logged since it last worked; `None`: it works."""
    try:
        known = _FAILURES.setdefault(reranker, set())
    except TypeError:  # an object that cannot be remembered: each of its failures is logged
        return True
    if failure is None:
        known.clear()
        return False
    is_new = failure not in known
    known.add(failure)
    return is_new


def gains(fast: NDArray[np.float32], given: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """The reranker's scores on the scale of the fast ones: each counts by its spread over the hits."""
    spread = max(float(given.std()), 1e-6)
    scaled: NDArray[np.float32] = (given - given.mean()) * np.float32(weight * float(fast.std()) / spread)
    return scaled


def _reach(passages: Sequence[str]) -> int:
    """How many of the first passages are read: at least one, and no more words than there is time for."""
    read = 0
    for place, text in enumerate(passages[:CANDIDATES]):
        read += len(text.split())
        if read > WORDS_MAX and place:
            return place
    return min(len(passages), CANDIDATES)
