"""Keys in Redis that others wrote: found by their prefix, read, never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import redis

from recollect.errors import Unavailable, ValidationError

_CONNECT_S = 10.0
_PAGE = 500
"""Elements of a list fetched at once."""


@contextmanager
def open_keys(where: str) -> Iterator[RedisKeys]:
    """The server that a redis:// or rediss:// URL names."""
    try:
        client = redis.Redis.from_url(where, socket_connect_timeout=_CONNECT_S, socket_timeout=60.0)
    except ValueError as error:
        raise ValidationError("is not a URL that Redis understands", field="source") from error
    with client, _translated():
        client.ping()
        yield RedisKeys(client)


class RedisKeys:
    """The keys of one server. Bytes come out as text; invalid UTF-8 is refused where it is used."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def under(self, prefix: str, kind: str) -> list[str]:
        """The keys that have this prefix and hold a list, a hash or a string, as `kind` says, sorted."""
        with _translated():
            found = self._client.scan_iter(match=_literal(prefix) + "*", count=1_000, _type=kind)
            return sorted(_text(key) for key in found)

    def length(self, key: str) -> int:
        """How many elements a list has."""
        with _translated():
            return int(self._client.llen(_bytes(key)))

    def elements(self, key: str, *, from_the_end: bool = False) -> Iterator[str]:
        """The elements of a list, from first to last or from last to first."""
        with _translated():
            length = int(self._client.llen(_bytes(key)))
            for start in range(0, length, _PAGE):
                stop = min(start + _PAGE, length)
                page = self._page(key, length - stop, length - start) if from_the_end else self._page(key, start, stop)
                yield from reversed(page) if from_the_end else page

    def _page(self, key: str, start: int, stop: int) -> list[str]:
        found = cast("Sequence[bytes]", self._client.lrange(_bytes(key), start, stop - 1))
        return [_text(each) for each in found]

    def fields(self, key: str) -> dict[str, str]:
        """The fields of a hash."""
        with _translated():
            found = cast("dict[bytes, bytes]", self._client.hgetall(_bytes(key)))
        return {_text(name): _text(value) for name, value in found.items()}

    def value(self, key: str) -> str | None:
        """The value of a string."""
        with _translated():
            found = cast("bytes | None", self._client.get(_bytes(key)))
        return None if found is None else _text(found)


def _literal(prefix: str) -> str:
    """A prefix with all pattern characters escaped."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", prefix)


def _text(raw: Any) -> str:
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else str(raw)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise Unavailable("the server cannot be reached or read", field="source") from error
