"""Which words occur in which rows of an index, and how well each row answers the words of a question.

A text is cut into words at the first query after it was added. Words are found by their terms, mostly their stems, and
terms are numbers from a vocabulary that the indexes of many users share. Each index keeps the rows of a term, with its
count in each, in compact arrays, and scores them by BM25.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.policies.scoring import K1, RARITY_ROWS, B, Scores, rarity
from recollect.policies.words import terms
from recollect.vocabulary import COUNT_BITS, COUNT_MAX, ENTRY_BITS, PORTION, Portion, Vocabulary

FEW_ROWS = 16
"""Terms in at most this many rows are scored by plain arithmetic: building arrays would cost more."""
TOGETHER = 16
"""From this many texts on they are read together."""
LATE_SHARE = 12
"""Keys that came later are merged into the others once there is more than one to this many of them."""
WORD_BYTES = 120
"""Approximate memory for a word that is held apart from the others, besides its entries."""

Rows = NDArray[np.intp]
Entries: TypeAlias = "array[int]"
Told: TypeAlias = Sequence[tuple[Entries, float]]
"""For each term of a question, its rows and how informative it is."""

_NOWHERE: Entries = array("I")


class Together:
    """The words of rows that were read together: arrays sorted by word and row, sliced when a word is looked up."""

    def __init__(self, keys: NDArray[np.int64]) -> None:
        keys.sort(kind="stable")  # portions are sorted already, and merging them takes a third of the time
        words = (keys >> ENTRY_BITS).astype(np.int32)
        changes = np.ones(len(keys) + 1, np.bool_)
        np.not_equal(words[1:], words[:-1], out=changes[1:-1])
        starts = changes.nonzero()[0]
        self._words = array("i", words[starts[:-1]].tobytes())
        self._starts = array("I", starts.astype(np.uint32).tobytes())
        self._entries = keys.astype(np.uint32)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        return self._entries.nbytes + 4 * (len(self._words) + len(self._starts))

    def of_word(self, number: int) -> Entries:
        entries = array("I")
        place = bisect_left(self._words, number)
        if place < len(self._words) and self._words[place] == number:
            entries.frombytes(self._entries[self._starts[place] : self._starts[place + 1]].tobytes())
        return entries

    @property
    def keys(self) -> NDArray[np.int64]:
        """All of it as keys, in order."""
        starts: NDArray[np.int64] = np.array(self._starts, np.int64)
        words = np.repeat(np.array(self._words, np.int64), starts[1:] - starts[:-1])
        return words << ENTRY_BITS | self._entries

    def with_more(self, keys: NDArray[np.int64]) -> Together:
        """These keys and others, merged."""
        return Together(np.concatenate((self.keys, keys)) if len(self) else keys)


_NOTHING = Together(np.empty(0, np.int64))


class Words:
    """BM25 over the rows of one index."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        # For each word, its rows in order, each with its count there in the lowest bits.
        self._postings: dict[int, Entries] = {}
        # How many entries these have: counting them when asked would take longer than answering a query.
        self._apart = 0
        self._together = _NOTHING
        # What came since then, as keys: row by row, and in portions that are merged when a word is looked up.
        self._late = array("q")
        self._portions: list[NDArray[np.int64]] = []
        self._lengths = array("I")
        self._total = 0
        self._arrays: dict[str, tuple[Rows, Scores]] = {}
        self._weighed: dict[str, Scores] = {}
        self._told: dict[str, tuple[Entries, float]] = {}

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def nbytes(self) -> int:
        """Memory held, even while nobody queries."""
        apart = WORD_BYTES * len(self._postings) + 4 * self._apart
        unsorted = sum([portion.nbytes for portion in self._portions])
        return self._together.nbytes + 8 * len(self._late) + 4 * len(self._lengths) + unsorted + apart

    def rest(self) -> None:
        """Drop whatever the next query can rebuild."""
        self._forget_answers()
        if self._portions or len(self._late) * LATE_SHARE > len(self._together):
            self._join()
        if not self._late:
            self._forget_postings()

    def _join(self) -> None:
        """Merge all keys into one order."""
        self.take(self.merging()())

    def merging(self) -> Callable[[], Together]:
        """What merges all keys of now into one order. It changes nothing, so that it may run in a thread."""
        held, keys = self._together, (np.array(self._late, np.int64), *self._portions)
        return lambda: held.with_more(np.concatenate(keys))

    def standing(self) -> tuple[Sequence[int], Callable[[], NDArray[np.int64]]]:
        """How many words each row has, and what returns all keys of now in order; that may run in a thread."""
        merging = self.merging()
        return self._lengths[:], lambda: merging().keys

    def take(self, merged: Together) -> None:
        """Use what was merged, unless more has come since."""
        if len(merged) == len(self._together) + len(self._late) + sum(map(len, self._portions)):
            self._together = merged
            self._late, self._portions = array("q"), []
            self._forget_postings()

    @property
    def unmerged(self) -> int:
        """How many keys wait to be merged with the others."""
        return sum(map(len, self._portions))

    def _forget_postings(self) -> None:
        self._postings.clear()
        self._apart = 0

    def _forget_answers(self) -> None:
        self._arrays.clear()
        self._weighed.clear()
        self._told.clear()

    def lengths(self) -> Scores:
        """How many words each row has."""
        return np.array(self._lengths, np.float32)

    def read(self, texts: Sequence[str], *, together: bool = False) -> None:
        """Read the texts of the next rows; `together` if more are to come before the next query."""
        first = len(self._lengths)
        if together or len(texts) >= TOGETHER:
            for at in range(0, len(texts), PORTION):
                self.add(len(self), self.vocabulary.read(texts[at : at + PORTION]))
        else:
            for text in texts:
                self._add(text)
            self._total += sum(self._lengths[first:])
            self._forget_answers()

    def add(self, first: int, portion: Portion) -> None:
        """Add rows that begin with this one, unless others have read them meanwhile."""
        if first == len(self):
            self._portions.append(portion.keys + (first << COUNT_BITS) if first else portion.keys)
            self._lengths.extend(portion.lengths)
            self._total += sum(portion.lengths)
            self._forget_answers()

    def _add(self, text: str) -> None:
        """Read the text of the next row."""
        numbers = self.vocabulary.numbers(self.vocabulary.cut(text))
        first = len(self._lengths) << COUNT_BITS
        self._lengths.append(len(numbers))
        counted = Counter(numbers)
        for number, count in counted.items():
            entry = first | min(count, COUNT_MAX)
            self._of_number(number).append(entry)
            self._late.append(number << ENTRY_BITS | entry)
        self._apart += len(counted)

    def _of_number(self, number: int) -> Entries:
        """The rows of the term that has this number."""
        if self._portions:
            self._join()
        entries = self._postings.get(number)
        if entries is None:
            entries = self._postings[number] = self._together.of_word(number)
            self._apart += len(entries)
        return entries

    def scores(self, query: Sequence[str], size: int) -> Scores:
        """How well each row answers these terms."""
        scores: Scores = np.zeros(size, np.float32)
        few: dict[int, float] = {}
        for term, (entries, told) in zip(query, self.told(query), strict=True):
            if len(entries) > FEW_ROWS:
                scores[self._posted(term, entries)[0]] += self._weight(term, entries, told)
            elif entries:
                self._add_few(few, entries, told)
        if few:
            scores[np.fromiter(few, np.intp, len(few))] += np.fromiter(few.values(), np.float64, len(few))
        return scores

    def cover(self, query: Sequence[str], size: int) -> Scores:
        """The share of these terms that each row has, weighted by rarity."""
        scores: Scores = np.zeros(size, np.float32)
        told = _weighed(self.told(query), size)
        total = max(sum(weight for _, weight in told), 1e-6)
        few: dict[int, float] = {}
        for term, (entries, weight) in zip(query, told, strict=True):
            if len(entries) > FEW_ROWS:
                scores[self._posted(term, entries)[0]] += np.float32(weight / total)
            else:
                for entry in entries:
                    few[entry >> COUNT_BITS] = few.get(entry >> COUNT_BITS, 0.0) + weight / total
        if few:
            scores[np.fromiter(few, np.intp, len(few))] += np.fromiter(few.values(), np.float64, len(few))
        return scores

    def posted(self, term: str) -> tuple[Rows, Scores] | None:
        """The rows of a term, and how often it occurs in each; None if it occurs nowhere."""
        entries = self._entries(term)
        return self._posted(term, entries) if entries else None

    def rarity_of(self, word: str) -> float:
        """How informative a word is among these rows, in this form or another."""
        found = (len(self._entries(term)) for term in terms(word, self.vocabulary.language))
        return rarity(len(self._lengths), max(found, default=0))

    def told(self, query: Sequence[str]) -> Told:
        """The rows of each term, and how informative it is."""
        return [self._told.get(term) or self._tell(term) for term in query]

    def _tell(self, term: str) -> tuple[Entries, float]:
        """Look a term up, and cache the result until rows are added: users ask about the same things again."""
        entries = self._entries(term)
        told = self._told[term] = entries, rarity(len(self._lengths), len(entries))
        return told

    def _entries(self, term: str) -> Entries:
        """The rows of a term."""
        number = self.vocabulary.of_term(term)
        return _NOWHERE if number is None else self._of_number(number)

    def _posted(self, term: str, entries: Entries) -> tuple[Rows, Scores]:
        posted = self._arrays.get(term)
        if posted is None:
            packed = np.array(entries, np.int64)
            posted = self._arrays[term] = packed >> COUNT_BITS, (packed & COUNT_MAX).astype(np.float32)
        return posted

    def _add_few(self, scores: dict[int, float], entries: Entries, told: float) -> None:
        """Add what one term contributes, where it is in so few rows that plain arithmetic is faster."""
        top, flat, slope = self._shape(told)
        lengths, so_far = self._lengths, scores.get
        for entry in entries:
            row, count = entry >> COUNT_BITS, entry & COUNT_MAX
            scores[row] = so_far(row, 0.0) + top * count / (count + flat + slope * lengths[row])

    def _weight(self, term: str, entries: Entries, told: float) -> Scores:
        """What one term adds to each of its rows."""
        weight = self._weighed.get(term)
        if weight is None:
            rows, counts = self._posted(term, entries)
            lengths = self.lengths()[rows]
            top, flat, slope = self._shape(told)
            weight = self._weighed[term] = (top * counts / (counts + flat + slope * lengths)).astype(np.float32)
        return weight

    def _shape(self, told: float) -> tuple[float, float, float]:
        """BM25 for a term this informative: the most that it adds, and the constant and slope of the length penalty."""
        return (K1 + 1) * told, K1 * (1 - B), K1 * B * len(self._lengths) / max(self._total, 1)


def cover(row: int, told: Told, size: int) -> float:
    """The share of a question's terms that a row has, weighted by rarity; `size` is the number of rows."""
    told = _weighed(told, size)
    total = sum(weight for _, weight in told)
    return sum(weight for entries, weight in told if _has(entries, row)) / max(total, 1e-6)


def _weighed(told: Told, size: int) -> Told:
    """The rows of each term and its weight, which in a few rows is not left to chance."""
    return told if size >= RARITY_ROWS else [(entries, rarity(RARITY_ROWS, len(entries))) for entries, _ in told]


def _has(entries: Entries, row: int) -> bool:
    """Whether a row is among the entries of a term, which are sorted."""
    place = bisect_left(entries, row << COUNT_BITS)
    return place < len(entries) and entries[place] >> COUNT_BITS == row
