"""Tables of a database that somebody else wrote: found by their columns, read in order, never changed.

with open_tables("chats.db") as tables:                    # an SQLite file, as a path or as sqlite:///chats.db
with open_tables("postgresql://me@host/app") as tables:    # PostgreSQL
    table = find_table(tables, {"session_id", "message"})
    for id, message in tables.rows(table, ["id", "message"], order=["id"]): ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Protocol

from recollect import validate
from recollect.errors import NotFound, Unavailable, ValidationError
from recollect.stores.sqlite_url import name_of

CELL_CHARACTERS = validate.LIMITS.body_bytes + 1
"""How much of one value is read: one more than any line may have, so that an overlong value is noticed."""
POSTGRES = ("postgresql", "postgres")
SQLITE = "sqlite"

Value = str | bytes | int | float | None


class Tables(Protocol):
    """The tables of one database, open for reading."""

    def columns(self) -> dict[str, frozenset[str]]:
        """Every table with the names of its columns."""

    def count(self, table: str) -> int:
        """How many rows a table has."""

    def rows(self, table: str, columns: Sequence[str], *, order: Sequence[str]) -> Iterator[tuple[Value, ...]]:
        """The rows of a table, with long values cut; a column that the table does not have is None."""


def open_tables(where: str) -> AbstractContextManager[Tables]:
    """The database that a path or a URL names; a SQLAlchemy URL (`postgresql+psycopg://`) works too."""
    scheme, separator, rest = where.partition("://")
    family = scheme.partition("+")[0]
    if separator and family in POSTGRES:
        return _driver("postgres").open_database(f"postgresql://{rest}")
    if separator and family != SQLITE:
        raise ValidationError("must be an SQLite file or a postgresql:// URL", field="source")
    path = name_of(where) if separator else where
    return _driver("sqlite").open_database(path)


class _Driver(Protocol):
    def open_database(self, where: str) -> AbstractContextManager[Tables]: ...


def _driver(name: str) -> _Driver:
    try:
        driver: _Driver = import_module(f"recollect.importers.{name}_tables")
    except ModuleNotFoundError as error:
        raise Unavailable(f'its driver is missing: pip install "recollect[{name}]"', field="source") from error
    return driver


def find_table(tables: Tables, wanted: Collection[str], named: str | None = None) -> str:
    """The table that was named, or the only one with these columns."""
    found = [table for table, columns in tables.columns().items() if columns >= set(wanted)]
    if named is not None:
        if named in found:
            return named
        raise NotFound(f"there is no such table with the columns {', '.join(sorted(wanted))}", field="table")
    if not found:
        raise NotFound(f"there is no table with the columns {', '.join(sorted(wanted))}", field="source")
    if len(found) > 1:
        names = ", ".join(f"{name[:40]!a}" for name in sorted(found)[:10])
        raise ValidationError(f"several tables match ({names}); name one", field="table")
    return found[0]
