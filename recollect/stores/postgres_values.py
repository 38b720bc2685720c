"""Values as the server reads them: arrays and vectors, written in its binary form.

A commit is a few dozen short arrays. The driver's own code looks at every element several times, since it does not
know what it will find; here the type is given, and a column is written in one go.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

_HEAD = struct.Struct(">iiIii")
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
Write = Callable[[Sequence[Any]], bytes]
"""Writes the values of an array, none of which is null, each preceded by its length."""


def _sized(encode: Callable[[Any], bytes]) -> Write:
    def write(values: Sequence[Any]) -> bytes:
        items = list(map(encode, values))
        return b"".join(chain.from_iterable(zip(map(_LENGTH.pack, map(len, items)), items, strict=True)))

    return write


def _fixed(letter: str) -> Write:
    size = struct.calcsize(f">{letter}")

    def write(values: Sequence[Any]) -> bytes:
        return struct.pack(f">{f'i{letter}' * len(values)}", *chain.from_iterable(zip(repeat(size), values)))

    return write


_PLAIN: dict[str, Write] = {
    "text": _sized(str.encode),
    "bytea": _sized(bytes),
    "bigint": _fixed("q"),
    "integer": _fixed("i"),
}


class Half(bytes):
    """A vector in the form in which the server receives `halfvec`."""


class Context:
    """What the driver reads adapters from."""

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = adapters
        self.connection = None


class Arrays:
    """Writes arrays for the connections that have these adapters."""

    def __init__(self, adapters: AdaptersMap) -> None:
        self._adapters = adapters
        self._kinds: dict[str, tuple[type[bytes], int, Write]] = {}
        for name, write in _PLAIN.items():
            info = psycopg.adapters.types[name]
            self._learn(name, info.oid, info.array_oid, write)

    def learn_halfvec(self, info: TypeInfo) -> None:
        """Register what this database calls `halfvec`."""
        info.register(Context(self._adapters))
        self._adapters.register_dumper(Half, _dumper(info.oid))
        self._learn("halfvec", info.oid, info.array_oid, _sized(bytes))

    def written(self, types: Iterable[str], values: Iterable[Any]) -> list[Any]:
        """The values to send for these types, arrays in the server's form; an empty array becomes None."""
        return [
            self._array(type[:-2], value) if type.endswith("[]") and value is not None else value
            for type, value in zip(types, values, strict=True)
        ]

    def _learn(self, name: str, oid: int, array_oid: int, write: Write) -> None:
        kind = type(f"{name.title()}Array", (bytes,), {})
        self._adapters.register_dumper(kind, _dumper(array_oid))
        self._kinds[name] = kind, oid, write

    def _array(self, name: str, values: Sequence[Any]) -> bytes | None:
        if not values:
            return None
        kind, oid, write = self._kinds[name]
        has_null = None in values
        each = [_NULL if value is None else write((value,)) for value in values] if has_null else [write(values)]
        return kind(b"".join([_HEAD.pack(1, has_null, oid, len(values), 1), *each]))


def _dumper(of_type: int) -> type[Dumper]:
    """A dumper that passes bytes to the server as a value of this type."""

    class Written(Dumper):
        format = Format.BINARY
        oid = of_type

        def dump(self, obj: bytes) -> bytes:
            return bytes(obj)

    return Written
