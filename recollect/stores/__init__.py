"""Where memories are kept: one file per backend, all with the same promises (`contract.py`).

A backend is a module with `async def open_url(url, *, busy_timeout_s) -> Store`. It is loaded when
a URL of its scheme is opened. Third-party packages register theirs as an entry point in the group
`recollect.stores`, named after the scheme.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import PurePath
from typing import Any

from recollect.errors import Unavailable, ValidationError
from recollect.stores.contract import Store, VectorIndex

SCHEMES = {
    "memory": "recollect.stores.in_memory",
    "sqlite": "recollect.stores.sqlite",
    **dict.fromkeys(("postgresql", "postgres"), "recollect.stores.postgres"),
    **dict.fromkeys(("redis", "rediss", "redis+cluster", "rediss+cluster"), "recollect.stores.redis"),
    "cosmos": "recollect.stores.cosmos",
}
"""URL scheme -> the module of its backend."""
EXTRAS = {"postgresql": "postgres", **dict.fromkeys(("rediss", "redis+cluster", "rediss+cluster"), "redis")}
"""URL scheme -> the extra that installs its driver, where the extra is not named after the scheme."""
INDEXES = dict.fromkeys(("chroma", "chroma+http", "chroma+https"), "recollect.stores.chroma")
"""URL scheme -> the module of an index beside a store."""


async def open_store(url: str | PurePath, *, busy_timeout_s: float = 10.0) -> Store:
    """Open the store that a URL names: `sqlite:///path`, `postgresql://`, `redis://`, `cosmos://`, `memory://`.

    `sqlite:///notes.db` is a file in the current folder, `sqlite:////var/notes.db` an absolute
    path; a `Path` is used as is. `?mode=ro` opens a file read-only.
    """
    if isinstance(url, PurePath):
        return await _backend("sqlite").open_path(url, busy_timeout_s=busy_timeout_s)  # type: ignore[no-any-return]
    scheme, separator, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not separator:
        raise ValidationError(
            "a store is named by a URL: sqlite:///notes.db for a file in this folder, sqlite:////home/ann/notes.db "
            "for a whole path, memory:// for none; in Python a Path will do",
            field="url",
        )
    return await _backend(scheme).open_url(url, busy_timeout_s=busy_timeout_s)  # type: ignore[no-any-return]


def check_index(url: str) -> None:
    """Raise unless the URL is empty or names a kind of index that a module here supports."""
    if url and url.partition("://")[0] not in INDEXES:
        known = ", ".join(f"{name}://" for name in INDEXES)
        raise ValidationError(f"no index takes this kind of URL; use one of {known}", field="index")


def open_index(url: str, model: str) -> VectorIndex:
    """Return the index, beside a store, that a URL names, for the vectors of one model."""
    check_index(url)
    try:
        module: Any = import_module(INDEXES[url.partition("://")[0]])
    except ModuleNotFoundError as error:
        raise Unavailable('its driver is missing: pip install "recollect[chroma]"', field="index") from error
    index: VectorIndex = module.open_index(url, model)
    return index


def _backend(scheme: str) -> Any:
    if scheme in SCHEMES:
        try:
            return import_module(SCHEMES[scheme])
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(scheme, scheme)
            raise Unavailable(f'its driver is missing: pip install "recollect[{extra}]"', field="url") from error
    # Imported only here: it is a heavy import, and most stores are our own.
    for entry in import_module("importlib.metadata").entry_points(group="recollect.stores", name=scheme):
        return entry.load()
    known = ", ".join(f"{name}://" for name in SCHEMES)
    near = get_close_matches(scheme[:40], SCHEMES, n=1)
    meant = f"; did you mean {near[0]}://?" if near else ""
    raise ValidationError(f"no store takes this kind of URL; use one of {known}{meant}", field="url")
