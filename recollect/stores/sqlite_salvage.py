"""What can be salvaged from a damaged SQLite file: the rows that are still what was written, and nothing else.

The file is read page by page, without its trees and without SQLite, so that a damaged page costs only what is on it.
A row counts if its digest is the one it was written with, which also covers its owner; rows of an erased user, and
rows whose owner cannot be read, do not count. The file is only read, never written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recollect.errors import Unavailable
from recollect.records import Partition, Record, Vector, digest_of, record_from
from recollect.stores.contract import unpacked
from recollect.stores.sqlite_file import HEADER_BYTES, MAGIC, PAGE_BYTES

LEAF = 0x0D
"""The kind of page that holds rows."""
PARTITION_COLUMNS, RECORD_COLUMNS = 7, 16
OVERFLOW_MAX = 1_000
"""Pages of one row: far more than a record may have. A damaged chain could loop."""
_LOG_HEADER_BYTES, _FRAME_BYTES = 32, 24
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Kind of a value in a row -> bytes of an integer."""
_DAMAGE = (IndexError, KeyError, ValueError, TypeError, struct.error)
"""What decoding damaged bytes can raise."""


@dataclass
class Salvaged:
    """What a damaged file still holds."""

    records: list[Record] = field(default_factory=list)
    """Living records that are what was written: user by user, those of each in order of birth."""
    damaged: int = 0
    """Rows that are there but cannot be read, or are not what was written. What was on lost pages is not counted."""

    @property
    def owners(self) -> set[Partition]:
        return {record.scope.partition for record in self.records}


def salvage(path: Path, now: int) -> Salvaged:
    """Everything that can be read from a file, however damaged."""
    try:
        raw = path.read_bytes()
        log = Path(f"{path}-wal")
        changed = log.read_bytes() if log.exists() else b""
    except OSError as error:
        raise Unavailable("the database file cannot be read", field="store") from error
    pages = _Pages(raw, changed)
    rows: dict[int, tuple[Any, ...]] = {}
    partitions: dict[int, tuple[Partition, int]] = {}
    found = Salvaged()
    for number in pages.numbers:
        for row, values in pages.rows(number, found):
            if len(values) == PARTITION_COLUMNS and isinstance(values[1], str) and isinstance(values[2], str):
                partitions[row] = (Partition(values[1], values[2]), values[3])
            elif len(values) == RECORD_COLUMNS and (row not in rows or rows[row][4] < values[4]):
                rows[row] = values
    for values in rows.values():
        _take(values, partitions, now, found)
    found.records.sort(key=lambda record: (record.scope.partition, record.born))
    return found


def _take(values: tuple[Any, ...], partitions: Mapping[int, tuple[Partition, int]], now: int, found: Salvaged) -> None:
    """Add the record that a row holds, if it lives; count the row as damaged if it cannot be read or verified."""
    _, part, id, epoch, _, born, version, layer, session, dropped, dead_at, digest, payload, model, vector, _ = values
    partition, current = partitions.get(part, (None, None))
    if dropped == 1 or (dead_at is not None and dead_at <= now) or (partition is not None and epoch != current):
        return
    try:
        if partition is None:
            raise ValueError("nobody's")
        made = None if model is None else Vector(model, vector)
        record = record_from(partition, id, layer, session, payload, made, version, unpacked(born))
        if digest_of(record, payload) != digest:
            raise ValueError("not what was written")
    except _DAMAGE:
        found.damaged += 1
    else:
        found.records.append(record)


# ── pages, as SQLite lays them out (https://www.sqlite.org/fileformat2.html) ─────────────────────


class _Pages:
    """The pages of a file, with newer ones from its log."""

    def __init__(self, raw: bytes, log: bytes) -> None:
        self._raw = raw
        told = int.from_bytes(raw[16:18])
        is_told = raw.startswith(MAGIC) and told in (512, 1024, 2048, 4096, 8192, 16384, 32768)
        self._bytes = told if is_told else PAGE_BYTES
        self._usable = self._bytes - (raw[20] if is_told else 0)
        self._newer = dict(_committed(log, self._bytes))
        last = max(-(-len(raw) // self._bytes), *self._newer, 0) if self._newer else -(-len(raw) // self._bytes)
        self.numbers = range(1, last + 1)

    def _page(self, number: int) -> bytes:
        start = (number - 1) * self._bytes
        return self._newer.get(number) or self._raw[start : start + self._bytes]

    def rows(self, number: int, found: Salvaged) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """The rows of a page, each with its number and its values. Those that cannot be read are counted."""
        page = self._page(number)
        start = HEADER_BYTES if number == 1 else 0
        if len(page) < start + 8 or page[start] != LEAF:
            return
        for place in range(int.from_bytes(page[start + 3 : start + 5])):
            pointer = start + 8 + 2 * place
            try:
                yield self._cell(page, int.from_bytes(page[pointer : pointer + 2]))
            except _DAMAGE:
                found.damaged += 1

    def _cell(self, page: bytes, at: int) -> tuple[int, tuple[Any, ...]]:
        size, at = _varint(page, at)
        row, at = _varint(page, at)
        here = self._local(size)
        content = page[at : at + here]
        if size > here:
            content += self._overflow(int.from_bytes(page[at + here : at + here + 4]), size - here)
        if len(content) != size:
            raise ValueError("cut off")
        return row, _values(content)

    def _local(self, size: int) -> int:
        """How many bytes of a row are on its own page."""
        most, least = self._usable - 35, (self._usable - 12) * 32 // 255 - 23
        if size <= most:
            return size
        kept = least + (size - least) % (self._usable - 4)
        return kept if kept <= most else least

    def _overflow(self, number: int, size: int) -> bytes:
        content = b""
        for _ in range(OVERFLOW_MAX):
            page = self._page(number)
            content += page[4 : self._usable]
            number = int.from_bytes(page[:4])
            if len(content) >= size or number == 0:
                return content[:size]
        raise ValueError("without end")


def _committed(log: bytes, page_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The newest pages in the log: those of its frames that belong to a commit and are whole."""
    order = ">" if log[:4] == b"\x37\x7f\x06\x83" else "<"
    salts, sums = log[16:24], _summed(log[:24], (0, 0), order)
    open_pages: list[tuple[int, bytes]] = []
    for at in range(_LOG_HEADER_BYTES, len(log) - _FRAME_BYTES - page_bytes + 1, _FRAME_BYTES + page_bytes):
        head, page = log[at : at + _FRAME_BYTES], log[at + _FRAME_BYTES : at + _FRAME_BYTES + page_bytes]
        sums = _summed(page, _summed(head[:8], sums, order), order)
        if head[8:16] != salts or sums != struct.unpack(">2I", head[16:24]):
            return
        open_pages.append((int.from_bytes(head[:4]), page))
        if int.from_bytes(head[4:8]):
            yield from open_pages
            open_pages.clear()


def _summed(content: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """The checksum of a log, continued over more of it."""
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for place in range(0, len(words), 2):
        first = (first + words[place] + second) & 0xFFFFFFFF
        second = (second + words[place + 1] + first) & 0xFFFFFFFF
    return first, second


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where the next one begins."""
    value = 0
    for length in range(1, 10):
        byte = content[at]
        at += 1
        if length == 9:
            return value << 8 | byte, at
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value, at


def _values(content: bytes) -> tuple[Any, ...]:
    """The values of a row."""
    head, at = _varint(content, 0)
    kinds = []
    while at < head:
        kind, at = _varint(content, at)
        kinds.append(kind)
    values = []
    for kind in kinds:
        value, at = _value(content, at, kind)
        values.append(value)
    if at != len(content):
        raise ValueError("of another length")
    return tuple(values)


def _value(content: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (0, 8, 9):
        return (None, 0, 1)[(0, 8, 9).index(kind)], at
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(content[at:end], signed=True), end
    if kind == 7:
        return struct.unpack(">d", content[at : at + 8])[0], at + 8
    if kind < 12:
        raise ValueError("no such kind")
    end = at + (kind - 12) // 2
    return (content[at:end].decode() if kind % 2 else content[at:end]), end
