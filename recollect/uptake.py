"""What an index has read of its texts so far: their words, how they stand to each other, the times and numbers in them.

New texts are read when the next question comes. Many or long ones are read in portions, so that the other tasks of the
process go on in between, and what took long to read may be kept for a later start (`kept_words.py`).
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from recollect.arrangement import Arrangement, Sessions
from recollect.kept_words import KeptWords, Messages, read_with
from recollect.layers import FACT_LAYERS
from recollect.pace import apart
from recollect.policies.keys import KEYS
from recollect.policies.turn_scoring import Talk
from recollect.postings import Words
from recollect.records import Record
from recollect.shelf import Shelf
from recollect.vocabulary import Vocabulary, vocabulary

READ_ROWS, READ_CHARACTERS = 500, 100_000
"""Rows whose words are read before yielding to other tasks, and how long their texts may be together."""
LONG_CHARACTERS, LONG_ASCII = 6_000, 20_000
"""From this length on, a text may have so many words that numbering them takes too long between two waits."""
KEPT_CHARACTERS, KEPT_SHARE = 1_000_000, 8
"""What was read is worth keeping once this many characters of it are new, and at least one part in so many of all:
reading a million takes a tenth of a second, and keeping writes everything again.
"""
MERGED = 200
"""Words that are merged in the time that one unit of work takes."""


class Uptake:
    """What has been read of the texts of these records. Rows are read in their order."""

    def __init__(self, records: Shelf, sessions: Sessions, is_held: Callable[[int], bool], language: str) -> None:
        self._records, self._sessions, self._language = records, sessions, language
        self._arrangement = Arrangement(sessions, is_held, language)
        self.words = Words(vocabulary(language))
        """The words of the rows read so far."""
        self.lengths = array("I")
        """How many characters each row has."""
        self._characters = self._unkept = 0
        self._talk: Talk | None = None

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self._arrangement.nbytes

    @property
    def vocabulary(self) -> Vocabulary:
        return self.words.vocabulary

    def add(self, records: Sequence[Record]) -> None:
        """Note that these are the next rows."""
        lengths = [len(record.content) for record in records]
        self.lengths.extend(lengths)
        self._characters += sum(lengths)

    def lost(self) -> None:
        """Note that a row has gone."""
        self._arrangement.start_anew()

    def forget_talk(self) -> None:
        """Note that rows came or went."""
        self._talk = None

    def rest(self) -> None:
        """Drop whatever the next query can rebuild."""
        self._talk = None
        self.words.rest()

    # ── in one go ────────────────────────────────────────────────────────────────────────────────

    def all_words(self) -> Words:
        """The words of all rows, after reading those that came since the last query."""
        self._read_words(len(self._records))
        return self.words

    def talk(self) -> Talk:
        """How the rows relate to each other; computed again after each change."""
        if self._talk is None:
            self._talk = self._arrangement.talk(self._records, self.all_words().lengths())
        return self._talk

    def _read_words(self, end: int, *, together: bool = False) -> None:
        first = len(self.words)
        if first < end:
            self.words.read(self._texts(range(first, end)), together=together)
            self._unkept += sum(self.lengths[first:end])

    def _texts(self, rows: Iterable[int]) -> list[str]:
        return [_worded(self._records[row]) for row in rows]

    # ── in portions ──────────────────────────────────────────────────────────────────────────────

    @property
    def unread(self) -> int:
        """How many rows came since the last query."""
        return len(self._records) - min(len(self.words), len(self._arrangement))

    @property
    def unsigned(self) -> int:
        """How many rows have not been searched for times and numbers; 0 without turns, which alone need them."""
        return len(self._records) - self._arrangement.signed if self._sessions else 0

    def portions(self, *, for_signs: bool) -> int:
        """Roughly how many portions are to be read before a query; 0 if it may as well read them itself."""
        first = len(self._records) - max(self.unread, self.unsigned if for_signs else 0)
        lengths = self.lengths[first:]
        return len(lengths) // READ_ROWS + sum(lengths) // READ_CHARACTERS + self._has_long(first, len(self._records))

    def read_on(self, *, for_signs: bool) -> bool:
        """Read a portion of what came since the last query. Returns whether there was any.

        With `for_signs`, rows are also searched for times and numbers, for a question that asks for these.
        """
        size, arranged = len(self._records), self._arrangement
        if len(self.words) < size:
            self._read_words(self._portion_end(len(self.words)), together=True)
        elif len(arranged) < size:
            arranged.take(self._records, self._portion_end(len(arranged)))
        elif for_signs and arranged.signed < size:
            arranged.read_signs(self._records, self._portion_end(arranged.signed))
        else:
            return False
        return True

    async def read_long(self) -> bool:
        """Read the next texts in a thread, if one of them is long. Returns whether it did."""
        first = len(self.words)
        end = self._portion_end(first)
        if not self._has_long(first, end):
            return False
        texts = self._texts(range(first, end))
        self.words.add(first, await asyncio.to_thread(self.vocabulary.read, texts))
        self._unkept += sum(self.lengths[first:end])
        return True

    async def merge(self) -> None:
        """Merge the words of the texts that were read; if they are many, in a thread."""
        if unmerged := self.words.unmerged:
            self.words.take(await apart(self.words.merging(), unmerged // MERGED))

    def _portion_end(self, first: int) -> int:
        """The end of the portion that begins with this row: of many rows or long texts, what is read in one go."""
        lengths = self.lengths[first : first + READ_ROWS]
        if sum(lengths) <= READ_CHARACTERS:
            return first + len(lengths)
        return first + max(1, bisect_right([*accumulate(lengths)], READ_CHARACTERS))

    def _has_long(self, first: int, end: int) -> bool:
        """Whether one of these texts may have many thousands of words: in Chinese, each character begins two."""
        rows = [row for row in range(first, end) if self.lengths[row] >= LONG_CHARACTERS]
        return any(self.lengths[row] >= LONG_ASCII or not self._records[row].content.isascii() for row in rows)

    # ── kept for a later start ───────────────────────────────────────────────────────────────────

    @property
    def may_take_over(self) -> bool:
        """Whether much is to be read, and none of it has been."""
        return not len(self.words) and self._characters >= KEPT_CHARACTERS

    @property
    def is_worth_keeping(self) -> bool:
        """Whether much was read that an index of a later start would have to read again."""
        return self._unkept >= KEPT_CHARACTERS and self._unkept * KEPT_SHARE >= self._characters

    async def take_over(self, data: bytes, messages: Messages) -> None:
        """Take over the words of messages that an earlier index has read, and read the texts that are new."""
        taken = await read_with(data, self._language, messages, self.lengths[:], self.vocabulary, self._texts)
        if taken is not None:
            self.words.add(0, taken[0])
            self._unkept = taken[1]

    def packing(self, messages: Messages) -> Callable[[], bytes]:
        """What packs the words of those of these messages that have been read, to be kept. It may run in a thread."""
        (lengths, keys), known, language = self.words.standing(), self.vocabulary, self._language
        read = messages.rows < len(lengths)
        messages = Messages(*(each[read] for each in messages))
        self._unkept = 0
        return lambda: KeptWords.of(messages, lengths, keys(), known).packed(language)

    def lost_kept(self) -> None:
        """Note that nothing of this is kept any more, or that it could not be."""
        self._unkept = sum(self.lengths[: len(self.words)])


def _worded(record: Record) -> str:
    """The text that a record is found by: for a fact, also how people say it or ask for it ("works at", "job")."""
    key = KEYS.get(record.data.get("key", "")) if record.layer in FACT_LAYERS else None
    return f"{record.told} ({key.label} {key.asked})" if key else record.told
