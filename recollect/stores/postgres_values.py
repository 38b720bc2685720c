"""Values as the server reads them: arrays and vectors, written in its binary form.

A commit is a few dozen short arrays. The driver's own way looks at every element several times, since it does not
know what it will find; here the type is said, and a column is written in one go.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

_HEAD = struct.Struct(">iiIii")
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_PLAIN: dict[str, Callable[[Any], bytes]] = {
    "text": str.encode,
    "bytea": bytes,
    "bigint": struct.Struct(">q").pack,
    "integer": _LENGTH.pack,
}
"""Type -> how one value of it is written."""


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
        self._kinds: dict[str, tuple[type[bytes], int, Callable[[Any], bytes]]] = {}
        for name, write in _PLAIN.items():
            info = psycopg.adapters.types[name]
            self._learn(name, info.oid, info.array_oid, write)

    def learn_halfvec(self, info: TypeInfo) -> None:
        """Take in what this database calls `halfvec`."""
        info.register(Context(self._adapters))
        self._adapters.register_dumper(Half, _dumper(info.oid))
        self._learn("halfvec", info.oid, info.array_oid, bytes)

    def written(self, types: Iterable[str], values: Iterable[Any]) -> list[Any]:
        """What stands for these types, arrays in the server's form; an empty one is not sent."""
        return [
            self._array(type[:-2], value) if type.endswith("[]") and value is not None else value
            for type, value in zip(types, values, strict=True)
        ]

    def _learn(self, name: str, oid: int, array_oid: int, write: Callable[[Any], bytes]) -> None:
        kind = type(f"{name.title()}Array", (bytes,), {})
        self._adapters.register_dumper(kind, _dumper(array_oid))
        self._kinds[name] = kind, oid, write

    def _array(self, name: str, values: Sequence[Any]) -> bytes | None:
        if not values:
            return None
        kind, oid, write = self._kinds[name]
        parts = [_HEAD.pack(1, None in values, oid, len(values), 1)]
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                item = write(value)
                parts += (_LENGTH.pack(len(item)), item)
        return kind(b"".join(parts))


def _dumper(of_type: int) -> type[Dumper]:
    """What hands bytes to the server as a value of this type."""

    class Written(Dumper):
        format = Format.BINARY
        oid = of_type

        def dump(self, obj: bytes) -> bytes:
            return bytes(obj)

    return Written
