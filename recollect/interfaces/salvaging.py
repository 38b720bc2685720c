"""What can be saved from a damaged file: for `export --salvage`, and for `doctor`, which says how much it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import NotFound, ValidationError
from recollect.exports import EXPORT_FORMAT, EXPORTED_LAYERS
from recollect.interfaces.options import chosen, file_of, is_missing, place
from recollect.records import Record, iso, system_clock
from recollect.stores.sqlite_salvage import salvage


@dataclass(frozen=True, slots=True)
class Saved:
    """The records of a damaged file that are still as they were written."""

    org: str
    records: list[Record]
    damaged: int

    @property
    def users(self) -> set[str]:
        return {record.scope.user for record in self.records}

    def lines(self) -> Iterator[dict[str, Any]]:
        """The same in the form of an export."""
        yield {"recollect": EXPORT_FORMAT, "org": self.org, "salvaged": True, "exported_at": iso(system_clock())}
        yield from (record.to_dict() for record in self.records)


def saved_from(url: str | None, org: str | None = None) -> Saved:
    """What can be exported from a file that may be damaged: of one org, or of all."""
    path = file_of(url)
    if path is None:
        kind = chosen(url).partition("://")[0]
        raise ValidationError(f"rows can be salvaged only from an SQLite file, not from {kind}://", field="salvage")
    if is_missing(path):
        raise NotFound(f"there is no file {place(url)}", field="url")
    return saved_in(path, org)


def saved_in(path: Path, org: str | None = None) -> Saved:
    """The same for a file by its path."""
    found = salvage(path, system_clock())
    kept = [each for each in found.records if each.layer in EXPORTED_LAYERS and org in (None, each.scope.org)]
    return Saved(org or "", kept, found.damaged)
