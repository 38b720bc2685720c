"""Where memories are kept: one file per backend, all with the same promises (`contract.py`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

from recollect.errors import ValidationError
from recollect.stores.contract import Store

SCHEMES = {
    "memory": ("recollect.stores.in_memory", "in this process, gone with it"),
    "sqlite": ("recollect.stores.sqlite", "one file on this machine"),
}
"""URL scheme -> the module of its backend, loaded only when such a URL is opened."""


async def open_store(url: str | Path, *, busy_timeout_s: float = 10.0) -> Store:
    """Open the store that a URL names: `memory://` or `sqlite:///path`.

    `sqlite:///notes.db` is a file in the current folder, `sqlite:////var/notes.db` an absolute
    path; a `Path` is taken as it is. `?mode=ro` opens a file for reading only.
    """
    if isinstance(url, PurePath):
        return _backend("sqlite").SqliteStore(Path(url), busy_timeout_s=busy_timeout_s)  # type: ignore[no-any-return]
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ValidationError(f"unknown store; use one of {known}", field="url")
    if scheme == "memory":
        return _backend(scheme).InMemoryStore()  # type: ignore[no-any-return]
    path, read_only = rest.removesuffix("?mode=ro"), rest.endswith("?mode=ro")
    path = unquote(path.removeprefix("/"))
    if not path or "\x00" in path or len(path) > 4096:
        raise ValidationError("write sqlite:///file.db, or sqlite:////absolute/file.db", field="url")
    return _backend(scheme).SqliteStore(  # type: ignore[no-any-return]
        Path(path), read_only=read_only, busy_timeout_s=busy_timeout_s
    )


def _backend(scheme: str) -> Any:
    return import_module(SCHEMES[scheme][0])
