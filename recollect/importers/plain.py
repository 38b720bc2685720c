"""`bring_in` for code without `await`, with the handles of `recollect.sync.Memory`."""

from __future__ import annotations

from collections.abc import Callable

from recollect import sync
from recollect.importers import writing
from recollect.importers.items import Imported, Source
from recollect.importers.writing import Advance, Tell


def bring_in(
    memory: sync.Memory,
    source: Source,
    user_of: Callable[[str], sync.User],
    *,
    only: str | None = None,
    all_or_nothing: bool = False,
    dry_run: bool = False,
    again: bool = False,
    advance: Advance = lambda _: None,
    tell: Tell = lambda _: None,
) -> Imported:
    """Store what a source has, as `recollect.importers.writing.bring_in` does, and wait for it.

    The functions that are given are called on another thread.
    """
    return memory._running.run(
        "importers.writing.bring_in",
        writing.bring_in(
            source,
            lambda owner: user_of(owner)._inner,
            only=only,
            all_or_nothing=all_or_nothing,
            dry_run=dry_run,
            again=again,
            advance=advance,
            tell=tell,
        ),
    )
