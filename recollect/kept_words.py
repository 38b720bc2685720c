"""The words of a user's messages, kept in the store from one start of a program to the next.

Cutting texts into words takes most of the time of the first question to years of conversation, and a message never
changes. So a store that offers to keep something for a partition is given what an index has read, and the next index
takes it over. Rows are recognised by their birth, which is theirs alone. It is only ever a shortcut: what is damaged,
or was read by other rules, is read anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.policies.words import rules
from recollect.vocabulary import COUNT_BITS, ENTRY_BITS, ENTRY_MASK, Portion, Vocabulary

READ_BY = 3
"""The rules by which texts are cut into words. With other rules, this is another number: what was kept is useless."""
CHECK_BYTES = 16
COMPRESSION = 1
"""The quickest: a better one takes three times as long and saves a tenth."""

PORTION_CHARACTERS = 200_000
"""How much text is read at a time, in a thread."""

Numbers = NDArray[np.int64]
TextsOf = Callable[[Sequence[int]], Sequence[str]]
"""The texts of these rows."""
IN_ORDER = ("births", "entries")
_PARTS = (("births", "<i8"), ("characters", "<u4"), ("lengths", "<u4"), ("counts", "<u4"), ("entries", "<u4"))


class Messages(NamedTuple):
    """The messages of an index: their rows, and the birth and the number of characters of each."""

    rows: NDArray[np.intp]
    births: Numbers
    characters: Numbers


class Known(NamedTuple):
    """What is known of the first rows of an index: keys in order, and how many words each row has, -1 if unknown."""

    keys: Numbers
    lengths: Numbers


@dataclass(frozen=True, slots=True)
class KeptWords:
    """The words of some messages in order of birth: how many words each has, in how many of them each word occurs,
    and for each word and message an entry, the message's place with a count.
    """

    births: Numbers
    characters: Numbers
    lengths: Numbers
    counts: Numbers
    entries: Numbers
    terms: Sequence[str]

    @classmethod
    def of(cls, messages: Messages, lengths: Sequence[int], keys: Numbers, vocabulary: Vocabulary) -> KeptWords:
        """What is worth keeping of an index: `lengths` are those of its rows, `keys` their words in order."""
        order = np.argsort(messages.births, kind="stable")
        rows = messages.rows[order]
        place_of = np.full(len(lengths), -1, np.int64)
        place_of[rows] = np.arange(len(rows))
        places = place_of[_rows(keys)]
        keys, places = keys[places >= 0], places[places >= 0]
        numbers, counts = np.unique(keys >> ENTRY_BITS, return_counts=True)
        # Sorted by word and place: the places need not be in the order of the rows.
        sorted_keys = np.sort(keys >> ENTRY_BITS << ENTRY_BITS | places << COUNT_BITS | _counts(keys), kind="stable")
        return cls(
            messages.births[order],
            messages.characters[order],
            np.array(lengths, np.int64)[rows],
            counts.astype(np.int64),
            sorted_keys & ENTRY_MASK,
            vocabulary.terms(numbers.tolist()),
        )

    def packed(self, language: str) -> bytes:
        """All of it in two bytes an entry. What is in order is written as differences, which compress better."""
        parts: list[bytes] = []
        for name, kind in _PARTS:
            numbers: Numbers = getattr(self, name)
            parts.append((np.diff(numbers, prepend=0) if name in IN_ORDER else numbers).astype(kind).tobytes())
        parts.append("\n".join(self.terms).encode())
        about = {
            "read_by": READ_BY, "language": rules(language),
            "messages": len(self.births), "terms": len(self.terms), "entries": len(self.entries),
        }  # fmt: skip
        data = json.dumps(about).encode() + b"\n" + zlib.compress(b"".join(parts), COMPRESSION)
        return _check(data) + data

    @classmethod
    def unpacked(cls, data: bytes, language: str) -> KeptWords | None:
        """What was packed; None if it is damaged, or was read by other rules."""
        if data[:CHECK_BYTES] != _check(data[CHECK_BYTES:]):
            return None
        head, _, body = data[CHECK_BYTES:].partition(b"\n")
        about: dict[str, Any] = json.loads(head)
        if (about["read_by"], about["language"]) != (READ_BY, rules(language)):
            return None
        parts, sizes = zlib.decompress(body), {"counts": about["terms"], "entries": about["entries"]}
        found: dict[str, Numbers] = {}
        at = 0
        for name, kind in _PARTS:
            numbers = np.frombuffer(parts, kind, sizes.get(name, about["messages"]), at)
            at += numbers.nbytes
            found[name] = numbers.astype(np.int64)
        found |= {name: np.cumsum(found[name]) for name in IN_ORDER}
        found["entries"] &= ENTRY_MASK  # where the next word begins the differences wrap around
        return cls(**found, terms=parts[at:].decode().split("\n") if about["terms"] else [])

    def known_of(self, size: int, messages: Messages, vocabulary: Vocabulary) -> Known:
        """What is known of the first `size` rows of an index."""
        numbers = vocabulary.numbers_of(self.terms)
        row_of = self._rows_among(messages)
        rows = row_of[self.entries >> COUNT_BITS]
        known = rows >= 0
        keys = np.repeat(numbers, self.counts)[known] << ENTRY_BITS
        keys |= rows[known] << COUNT_BITS | _counts(self.entries[known])
        lengths = np.full(size, -1, np.int64)
        lengths[row_of[row_of >= 0]] = self.lengths[row_of >= 0]
        return Known(np.sort(keys, kind="stable"), lengths)

    def _rows_among(self, messages: Messages) -> Numbers:
        """The row of each message here; -1 where there is none that is certainly the same."""
        row_of = np.full(len(self.births), -1, np.int64)
        if not len(self.births):
            return row_of
        places = np.minimum(np.searchsorted(self.births, messages.births), len(self.births) - 1)
        same = (self.births[places] == messages.births) & (self.characters[places] == messages.characters)
        row_of[places[same]] = messages.rows[same]
        return row_of


async def read_with(
    data: bytes, language: str, messages: Messages, characters: Sequence[int], vocabulary: Vocabulary, texts_of: TextsOf
) -> tuple[Portion, int] | None:
    """The words of the first rows of an index, which have so many characters: those that were kept, and the others read
    now; and how many characters these have. None if most would have to be read anyway.
    """
    known = await asyncio.to_thread(_known, data, language, len(characters), messages, vocabulary)
    if known is None:
        return None
    unread = np.flatnonzero(known.lengths < 0)
    new = np.array(characters, np.int64)[unread]
    if 2 * new.sum() > sum(characters):
        return None
    keys, lengths = [known.keys], known.lengths
    for rows in _portions(unread, new):
        read = await asyncio.to_thread(vocabulary.read, texts_of(rows.tolist()))
        keys.append(read.placed(rows))
        lengths[rows] = read.lengths
    joined = await asyncio.to_thread(np.concatenate, keys)
    return Portion(joined, lengths.tolist()), int(new.sum())


def _known(data: bytes, language: str, size: int, messages: Messages, vocabulary: Vocabulary) -> Known | None:
    kept = KeptWords.unpacked(data, language)
    return kept.known_of(size, messages, vocabulary) if kept is not None else None


def _portions(rows: Numbers, characters: Numbers) -> list[Numbers]:
    """Rows in portions of about `PORTION_CHARACTERS`; they have so many characters."""
    portion_of = np.cumsum(characters) // PORTION_CHARACTERS
    return [each for each in np.split(rows, np.flatnonzero(np.diff(portion_of)) + 1) if len(each)]


def _rows(keys: Numbers) -> Numbers:
    rows: Numbers = (keys & ENTRY_MASK) >> COUNT_BITS
    return rows


def _counts(keys: Numbers) -> Numbers:
    return keys & ((1 << COUNT_BITS) - 1)


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=CHECK_BYTES).digest()
