"""Search by meaning over all users of an org: one bit per dimension, then exact numbers.

Each vector has a code, the signs of its numbers, in a slot of its org's book. Codes are packed in
small blocks and are written in the commit that writes the vector, so there is nothing to build: the
first search of an org reads a thirteenth of its vectors' size (at 256 numbers: 40 bytes instead of 512),
and a change is one block. A code only proposes candidates; answers are read from the records again,
with their owner, life and exact vector.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from recollect.records import Partition, Vector
from recollect.stores.contract import Candidate
from recollect.stores.sqlite_file import Connection

SLOTS = 256
"""Slots in a block: small enough for an org with few memories, large enough to read a million fast."""
ROW_BYTES = 8
PROPOSED = 1_500
"""Codes with the fewest differing signs, which are then weighed by the query's own numbers."""
COMPARED = 150
"""Candidates whose exact vectors are read and compared."""
SAMPLE_STEP = 61
"""One in this many distances is sampled to find the limit that lets enough candidates pass."""
STRIDE = 65_536
"""Codes that are compared at a time: what lies in between fits into the cache of a processor."""
WORD_BYTES = 8
FAR = np.iinfo(np.uint16).max
"""The distance of an empty slot: more than any code has bits."""
BOOKS_HELD = 4
_SIGNS: NDArray[np.float32] = (
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1
).T
"""For each value of a byte, the signs it stands for."""


def code_of(data: bytes) -> bytes:
    """The signs of a vector's numbers, packed."""
    return np.packbits(np.frombuffer(data, "<f2") > 0).tobytes()


def put_codes(db: Connection, org: str, vectors: Iterable[tuple[int, Vector, int | None]]) -> None:
    """Write the codes of record rows: into the slot that each has already, or into a new one."""
    by_model: dict[str, list[tuple[int, bytes, int | None]]] = {}
    for row, vector, slot in vectors:
        by_model.setdefault(vector.model, []).append((row, code_of(vector.data), slot))
    for model, coded in by_model.items():
        db.execute(
            "insert into books (org, model, slots, version) values (?, ?, 0, 0) on conflict do nothing", (org, model)
        )
        book, free, version = db.execute(
            "select book, slots, version + 1 from books where org = ? and model = ?", (org, model)
        ).fetchone()
        size = db.execute("select length(codes) from blocks where book = ? limit 1", (book,)).fetchone()
        entries = []
        for row, code, slot in coded:
            if size is not None and size[0] != SLOTS * len(code):
                continue  # another model under the same name: it cannot be compared with the rest
            entries.append((free if slot is None else slot, row, code))
            free += slot is None
        db.execute("update books set slots = ?, version = ? where book = ?", (free, version, book))
        _write(db, book, version, entries)
        db.executemany("update records set slot = ? where row = ?", [(slot, row) for slot, row, _ in entries])


def clear_codes(db: Connection, org: str, slots: Sequence[tuple[str, int]]) -> None:
    """Empty the slots (model, number) of vectors that no longer exist."""
    by_model: dict[str, list[int]] = {}
    for model, slot in slots:
        by_model.setdefault(model, []).append(slot)
    for model, emptied in by_model.items():
        found = db.execute("select book, version + 1 from books where org = ? and model = ?", (org, model)).fetchone()
        if found:
            db.execute("update books set version = ? where book = ?", (found[1], found[0]))
            _write(db, found[0], found[1], [(slot, 0, b"") for slot in emptied])


def _write(db: Connection, book: int, version: int, entries: Sequence[tuple[int, int, bytes]]) -> None:
    by_place: dict[int, list[tuple[int, int, bytes]]] = {}
    for slot, row, code in entries:
        by_place.setdefault(slot // SLOTS, []).append((slot % SLOTS, row, code))
    for place, slots in by_place.items():
        found = db.execute("select codes, rows from blocks where book = ? and place = ?", (book, place)).fetchone()
        size = len(found[0]) // SLOTS if found else len(slots[0][2])
        codes = bytearray(found[0] if found else bytes(SLOTS * size))
        rows = bytearray(found[1] if found else bytes(SLOTS * ROW_BYTES))
        for slot, row, code in slots:
            codes[slot * size : (slot + 1) * size] = code or bytes(size)
            rows[slot * ROW_BYTES : (slot + 1) * ROW_BYTES] = row.to_bytes(ROW_BYTES, "little")
        # Where a block keeps its size, SQLite writes only those of its pages that differ.
        statement = (
            "update blocks set version = ?, codes = ?, rows = ? where book = ? and place = ?"
            if found
            else "insert into blocks (version, codes, rows, book, place) values (?, ?, ?, ?, ?)"
        )
        db.execute(statement, (version, bytes(codes), bytes(rows), book, place))


@dataclass(slots=True)
class _Book:
    """The codes of one org and model in memory, as of a version.

    Each code is a column of eight-byte words, so that the first words of all codes lie side by side, then all second
    ones: numpy compares those in a third of the time that a library for vectors takes on some processors.
    """

    version: int
    words: NDArray[np.uint64]
    rows: NDArray[np.int64]


class CodeBooks:
    """Codes held in memory, brought up to date block by block before each use."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, _Book] = OrderedDict()

    def search(
        self, db: Connection, org: str, vector: Vector, layers: tuple[str, ...], limit: int, now: int
    ) -> list[Candidate]:
        """The records of an org nearest to a vector, best first."""
        found = db.execute(
            "select book, slots, version from books where org = ? and model = ?", (org, vector.model)
        ).fetchone()
        if found is None:
            return []
        book = self._current(db, *found)
        asked = np.frombuffer(vector.data, "<f2").astype(np.float32)
        code = words_of(np.packbits(asked > 0)[None, :])[0]
        if len(code) != len(book.words):
            return []  # another model under the same name
        near = _nearest_signs(book, code, PROPOSED)
        rows = _weighed(book, asked, near, max(COMPARED, 8 * limit))
        return _exact(db, org, vector, layers, rows, limit, now)

    def _current(self, db: Connection, number: int, slots: int, version: int) -> _Book:
        blocks = -(-slots // SLOTS)
        book = self._held.get(number)
        seen = book.version if book else -1
        if book is None or len(book.rows) < slots:
            size = db.execute("select length(codes) from blocks where book = ? limit 1", (number,)).fetchone()[0]
            room = max(blocks, 2 * len(book.rows) // SLOTS if book else 0) * SLOTS
            words = -(-size // (SLOTS * WORD_BYTES))
            grown = _Book(seen, np.zeros((words, room), np.uint64), np.zeros(room, np.int64))
            if book is not None:
                grown.words[:, : len(book.rows)], grown.rows[: len(book.rows)] = book.words, book.rows
            book = self._held[number] = grown
        if seen != version:
            changed = db.execute("select place, codes, rows from blocks where book = ? and version > ?", (number, seen))
            for place, codes, rows in changed:
                at = slice(place * SLOTS, (place + 1) * SLOTS)
                book.words[:, at] = words_of(np.frombuffer(codes, np.uint8).reshape(SLOTS, -1)).T
                book.rows[at] = np.frombuffer(rows, "<i8")
            book.version = version
        self._held.move_to_end(number)
        while len(self._held) > BOOKS_HELD:
            self._held.popitem(last=False)
        return book


def words_of(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Codes, one in each row, as words of eight bytes; what is missing from the last word is zero."""
    padded = np.zeros((len(codes), -(-codes.shape[1] // WORD_BYTES) * WORD_BYTES), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view(np.uint64)


def _nearest_signs(book: _Book, code: NDArray[np.uint64], count: int) -> NDArray[np.intp]:
    """The slots whose codes differ least from the query's: one pass over all of them. Empty ones are left out."""
    if len(book.rows) <= 2 * count:
        return np.flatnonzero(book.rows)
    distances = distances_to(code, book.words)
    distances[book.rows == 0] = FAR  # no code is there, but zeros, which may be nearer than most codes
    sample = distances[::SAMPLE_STEP].copy()
    at = min(len(sample) - 1, count // SAMPLE_STEP)
    limit = min(np.partition(sample, at)[at], FAR - 1)
    return np.flatnonzero(distances <= limit)


def distances_to(code: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """In how many bits each of these codes differs from one."""
    distances = np.zeros(words.shape[1], np.uint16)
    differing, counted = np.empty(STRIDE, np.uint64), np.empty(STRIDE, np.uint8)
    for start in range(0, len(distances), STRIDE):
        part = distances[start : start + STRIDE]
        bits, count = differing[: len(part)], counted[: len(part)]
        for column, word in zip(words, code, strict=True):
            np.bitwise_xor(column[start : start + STRIDE], word, out=bits)
            np.add(part, np.bitwise_count(bits, out=count), out=part)
    return distances


def _weighed(book: _Book, asked: NDArray[np.float32], near: NDArray[np.intp], count: int) -> NDArray[np.int64]:
    """The record rows of the best of these slots, where each sign is weighted by the query's numbers.

    For each byte of a code there is a table of what its 256 values add, so that weighing a code
    takes as many look-ups as it has bytes.
    """
    codes = np.ascontiguousarray(book.words[:, near].T).view(np.uint8)
    padded = np.zeros(8 * codes.shape[1], np.float32)
    padded[: len(asked)] = asked
    table = np.einsum("ij,jk->ik", padded.reshape(-1, 8), _SIGNS)
    scores = table[np.arange(len(table)), codes].sum(axis=1)
    if len(near) > count:
        near = near[np.argpartition(scores, -count)[-count:]]
    rows: NDArray[np.int64] = book.rows[near]
    return rows


def _exact(
    db: Connection, org: str, vector: Vector, layers: tuple[str, ...], rows: NDArray[np.int64], limit: int, now: int
) -> list[Candidate]:
    """The proposed records that live, with their exact scores."""
    # A cross join keeps its order: SQLite starts with the rows here, and with the partition below.
    of = f"records cross join partitions using (part, epoch) where row in ({','.join(map(str, rows.tolist()))})"
    return _compared(db, f"{of} and org = ?", (org,), vector, layers, limit, now)


def nearest(
    db: Connection, partition: Partition, vector: Vector, layers: tuple[str, ...], limit: int, now: int
) -> list[Candidate]:
    """The records of one partition nearest to a vector; all of them are compared."""
    of = "partitions cross join records using (part, epoch) where org = ? and usr = ?"
    return _compared(db, of, (partition.org, partition.user), vector, layers, limit, now)


def _compared(
    db: Connection, of: str, values: tuple[str, ...], vector: Vector, layers: tuple[str, ...], limit: int, now: int
) -> list[Candidate]:
    """The best of the living records that a condition selects, by their exact scores; damaged vectors have none."""
    of_layers = f"and layer in ({','.join('?' * len(layers))})" if layers else ""
    found = db.execute(
        f"select org, usr, id, vector from {of} {of_layers} and model = ? and length(vector) = ? and dropped = 0"
        " and (dead_at is null or dead_at > ?)",
        (*values, *layers, vector.model, len(vector.data), now),
    ).fetchall()
    if not found:
        return []
    matrix = np.frombuffer(b"".join(row[3] for row in found), "<f2").reshape(len(found), -1).astype(np.float32)
    with np.errstate(invalid="ignore"):
        scores = np.vecdot(matrix, np.frombuffer(vector.data, "<f2").astype(np.float32))
    scores[~np.isfinite(scores)] = np.nan  # which sort after all others
    best = [at for at in np.argsort(-scores, kind="stable")[:limit].tolist() if not isnan(scores[at])]
    return [Candidate(Partition(found[at][0], found[at][1]), found[at][2], float(scores[at])) for at in best]
