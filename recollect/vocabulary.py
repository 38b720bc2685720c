"""The numbers of words and terms, which the indexes of many users share, and the words of texts as such numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, filterfalse, repeat
from itertools import count as counting
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from recollect.policies.words import STEMMED_MAX, analysis, forms, is_plain, pieces, split, stem

COUNT_BITS, COUNT_MAX = 8, 255
"""Room for how often a word occurs in a text; a higher count counts as the maximum."""
PORTION = 1_000
"""Texts read, or words numbered, before others get the lock."""
WORDS_MAX = 200_000
"""Words of one vocabulary, about 30 MB; indexes built later start another."""
ROW_BITS, ENTRY_BITS = 24, 32
"""An entry is a row with a count; a key is a word with an entry."""
ENTRY_MASK = (1 << ENTRY_BITS) - 1
UNKNOWN = 0
"""The number that no word has."""


class Portion(NamedTuple):
    """The words of some rows, counted from 0: as keys, and how many each row has."""

    keys: NDArray[np.int64]
    lengths: Sequence[int]

    def placed(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The keys, with these rows in place of the first, the second and so on."""
        places = (self.keys & ENTRY_MASK) >> COUNT_BITS
        moved: NDArray[np.int64] = self.keys + (rows[places] - places << COUNT_BITS)
        return moved


class Vocabulary(dict[str, int]):
    """The number of each word, which is that of its term; the indexes of many users share one vocabulary.

    A word that is found by several terms ("node.js", also by its parts) has a number below zero, and so has a piece
    of text that does not hold exactly one word. Safe to share between threads: words that have numbers are looked up
    without a lock, new ones under it.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._serial = next(_serials)
        _numbered[self._serial] = self
        self._terms_of = analysis(language)
        self._lock = threading.RLock()
        # Each term, in the order of their numbers, which begin at 1.
        self._terms: list[str] = []
        self._number_of: dict[str, int] = {}
        self._several: list[list[int]] = []

    def __missing__(self, word: str) -> int:
        with self._lock:
            number = self.get(word)
            if number is None:
                number = self[word] = self._new_number(word)
            return number

    def _new_number(self, word: str) -> int:
        """A number for a word, or for a piece of text, that has none yet."""
        if self.language == "en" and is_plain(word):
            return self._number(stem(word))
        found = split(word) if word.isascii() else [word]
        return self._one_for([self._number(term) for each in found for term in self._terms_of(each)])

    def _number(self, term: str) -> int:
        number = self._number_of.get(term)
        if number is None:
            self._terms.append(term)
            number = self._number_of[term] = len(self._terms)
        return number

    def _one_for(self, each: list[int]) -> int:
        """One number that stands for all of these."""
        if len(each) == 1:
            return each[0]
        self._several.append(each)
        return -len(self._several)

    def numbered(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of many words, below zero where one has several terms."""
        numbers = np.fromiter(map(self.get, words, repeat(UNKNOWN)), np.int64, len(words))
        unknown = (numbers == UNKNOWN).nonzero()[0]
        if len(unknown):
            new = [words[place] for place in unknown.tolist()]
            for at in range(0, len(new), PORTION):  # others wait for the lock
                with self._lock:
                    for word in filterfalse(self.__contains__, new[at : at + PORTION]):
                        self[word] = self._new_number(word)
            numbers[unknown] = [*map(self.__getitem__, new)]
        return numbers

    def __reduce__(self) -> tuple[Callable[[int], Vocabulary], tuple[int]]:
        """A spilled index leaves its vocabulary in memory; if that is freed meanwhile, the index is lost as well."""
        return _vocabulary_of, (self._serial,)

    def cut(self, text: str) -> list[str]:
        """The pieces of a text. Of a very long one, words beyond the first `STEMMED_MAX` are found only as written."""
        cut = pieces(text)
        if len(cut) > STEMMED_MAX:
            cut = split(text) if text.isascii() else cut
            beyond = list(dict.fromkeys(cut))[STEMMED_MAX:]
            for at in range(0, len(beyond), PORTION):  # others wait for the lock
                self.learn_exactly(beyond[at : at + PORTION])
        return cut

    def read(self, texts: Sequence[str]) -> Portion:
        """The words of these texts. It needs nothing but the vocabulary, so that it may run in a thread."""
        cut = [*map(self.cut, texts)]
        sizes = [*map(len, cut)]
        numbers = self.numbered([*chain.from_iterable(cut)])
        rows = np.repeat(np.arange(len(texts)), sizes)
        odd = numbers < 0
        if odd.any():
            found = [self.several(number) for number in numbers[odd].tolist()]
            numbers = np.concatenate((numbers[~odd], np.fromiter(chain.from_iterable(found), np.int64)))
            rows = np.concatenate((rows[~odd], np.repeat(rows[odd], [*map(len, found)])))
        standing, counts = np.unique(numbers << ROW_BITS | rows, return_counts=True)
        keys: NDArray[np.int64] = standing << COUNT_BITS | np.minimum(counts, COUNT_MAX)
        return Portion(keys, np.bincount(rows, minlength=len(texts)).tolist())

    def learn_exactly(self, words: Iterable[str]) -> None:
        """Number those of these words that have no number yet, so that they are found only as written."""
        with self._lock:
            for word in filterfalse(self.__contains__, words):
                self[word] = self._one_for([self._number(form) for form in forms(word)])

    def terms(self, numbers: Iterable[int]) -> list[str]:
        """The terms that have these numbers."""
        return [self._terms[number - 1] for number in numbers]

    def numbers_of(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of these terms, which may come from another vocabulary."""
        numbers: list[int] = []
        for at in range(0, len(terms), PORTION):  # others wait for the lock
            with self._lock:
                numbers += [self._number(term) for term in terms[at : at + PORTION]]
        return np.array(numbers, np.int64)

    def numbers(self, words: Sequence[str]) -> list[int]:
        """The numbers of these words; for a word with several terms, those of each."""
        numbers = [*map(self.__getitem__, words)]
        if numbers and min(numbers) < 0:
            return [each for number in numbers for each in (self.several(number) if number < 0 else (number,))]
        return numbers

    def several(self, number: int) -> list[int]:
        """The numbers that one below zero stands for."""
        return self._several[-1 - number]

    def of_term(self, term: str) -> int | None:
        """The number of a term; None if no word has it."""
        return self._number_of.get(term)


_serials = counting()
_numbered: WeakValueDictionary[int, Vocabulary] = WeakValueDictionary()


def _vocabulary_of(serial: int) -> Vocabulary:
    return _numbered[serial]


_shared: dict[str, Vocabulary] = {}


def vocabulary(language: str) -> Vocabulary:
    """The vocabulary that new indexes of this process share. A full one is freed with the last index built with it."""
    held = _shared.get(language)
    if held is None or len(held) > WORDS_MAX:
        held = _shared[language] = Vocabulary(language)
    return held
