"""Access to a Redis that is imported from: its driver is loaded when one is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Protocol

from recollect.errors import Unavailable


class KeyedLists(Protocol):
    """What readers need from a Redis (`redis_keys.py`)."""

    def under(self, prefix: str, kind: str) -> list[str]: ...
    def length(self, key: str) -> int: ...
    def elements(self, key: str, *, from_the_end: bool = False) -> Iterator[str]: ...
    def fields(self, key: str) -> dict[str, str]: ...
    def value(self, key: str) -> str | None: ...


def open_redis(where: str) -> AbstractContextManager[KeyedLists]:
    """The server that a redis:// or rediss:// URL names, open for reading."""
    try:
        driver = import_module("recollect.importers.redis_keys")
    except ModuleNotFoundError as error:
        raise Unavailable('its driver is missing: pip install "recollect[redis]"', field="source") from error
    keys: AbstractContextManager[KeyedLists] = driver.open_keys(where)
    return keys
