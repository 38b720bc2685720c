"""Every kind of store by name, each on a real server where it needs one: for what must hold on all of them.

    with fresh_url("postgresql") as url:
        async with Memory.open(url) as memory:
            ...

A server is started on first use and shared by everything in this process. If its programs or
its driver are missing, the test is skipped by name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

import pytest


@contextmanager
def _in_memory() -> Iterator[str]:
    yield "memory://"


@contextmanager
def _in_a_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="recollect-sqlite-") as folder:
        yield f"sqlite:///{folder}/recollect.db"


def _on(server: str, *given: Any) -> Callable[[], AbstractContextManager[str]]:
    """The fresh URL of a kind of server, whose module is loaded when it is needed."""

    def fresh() -> AbstractContextManager[str]:
        try:
            module = import_module(f"recollect.testing.servers.{server}")
        except ModuleNotFoundError as missing:
            pytest.skip(f"no driver for {server} here: {missing.name} is not installed")
        urls: AbstractContextManager[str] = module.fresh_url(*given)
        return urls

    return fresh


KINDS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "memory": _in_memory,
    "sqlite": _in_a_file,
    "postgresql": _on("postgres"),
    "redis": _on("redis", "redis"),
    "valkey": _on("redis", "valkey"),
    "cluster": _on("redis", "cluster"),
    "cosmos": _on("cosmos"),
}
"""Name -> the URL of an empty store of that kind, for the duration of a block."""
ON_SERVERS = tuple(kind for kind in KINDS if kind not in ("memory", "sqlite"))


def fresh_url(kind: str) -> AbstractContextManager[str]:
    """The URL of an empty store of this kind; whatever is left in it is removed at the end."""
    return KINDS[kind]()
