"""Splits words into the pieces of a vocabulary, by byte pair encoding.

A word starts as its characters. Of all neighbours whose union is a piece, those whose union comes first in the
vocabulary are joined, again and again, until no union is a piece. A character that is no piece is written as its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

SPACE = "▁"
"""How pieces write a space."""
MARKS = ("<unk>", "<s>", "</s>")
"""Pieces that stand for no text: a text that reads like one is split like any other."""


Union = tuple[int, int, int, int, str]
"""Two neighbours that may be joined; the smallest is joined first: rank, numbers of both, place of the first, union."""


class Subwords:
    """A vocabulary, as its pieces in the order of their numbers.

    >>> marks = [*MARKS, *(f"<0x{byte:02X}>" for byte in range(256))]
    >>> Subwords([*marks, "a", "b", "c", "bc", "ab"]).numbers("abc")
    [259, 262]
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._bytes = {byte: self._numbers.pop(f"<0x{byte:02X}>") for byte in range(256)}
        for mark in MARKS:
            del self._numbers[mark]

    def numbers(self, word: str) -> list[int]:
        """The numbers of the pieces that make up a word."""
        whole = self._numbers.get(word)
        if whole is not None:
            return [whole]  # joining always leads to a piece, if there is one for the whole word
        row: list[str] = [*word]
        before, after = [*range(-1, len(row) - 1)], [*range(1, len(row) + 1)]
        unions = self._unions(row, zip(range(len(row) - 1), range(1, len(row)), strict=True))
        heapify(unions)
        while unions:
            _, _, _, place, text = heappop(unions)
            right = after[place]
            if right == len(row) or not row[place] or row[place] + row[right] != text:
                continue  # one of the two was joined with another neighbour
            row[place], row[right] = text, ""
            further = after[place] = after[right]
            if further < len(row):
                before[further] = place
            for union in self._unions(row, ((before[place], place), (place, further))):
                heappush(unions, union)
        return [number for piece in row if piece for number in self._numbers_of(piece)]

    def _unions(self, row: Sequence[str], pairs: Iterable[tuple[int, int]]) -> list[Union]:
        """Those pairs of places in a row whose union is a piece."""
        numbers, found = self._numbers, []
        for left, right in pairs:
            if left < 0 or right == len(row):
                continue
            text = row[left] + row[right]
            rank = numbers.get(text)
            if rank is not None:
                rank += 0 if text.strip(SPACE) else len(numbers)  # runs of spaces are joined last
                found.append((rank, numbers[row[left]], numbers[row[right]], left, text))
        return found

    def _numbers_of(self, piece: str) -> list[int]:
        number = self._numbers.get(piece)
        return [self._bytes[byte] for byte in piece.encode()] if number is None else [number]
