"""SQLite files that others wrote, opened read-only and not trusted in anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from recollect.errors import Corrupt, Unavailable
from recollect.importers.files import DATABASE, open_file
from recollect.importers.tables import CELL_CHARACTERS, Value
from recollect.stores.sqlite_url import uri_of

_BUSY_S = 10.0


@contextmanager
def open_database(where: str) -> Iterator[SqliteTables]:
    """The tables of an existing file."""
    path = Path(where)
    with open_file(path) as file:
        if file.read(len(DATABASE)) != DATABASE:
            raise Corrupt("is not an SQLite file", field="file")
    with _translated():
        connection = sqlite3.connect(
            uri_of(path.absolute(), "mode=ro"), uri=True, timeout=_BUSY_S, check_same_thread=False
        )
    with closing(connection), _translated():
        # Nothing in the schema of a file may run here.
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        yield SqliteTables(connection)


class SqliteTables:
    """The tables of one file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._columns = self._read_columns()

    def _read_columns(self) -> dict[str, frozenset[str]]:
        listed = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' LIMIT 10000"
        ).fetchall()
        found = {}
        for (name,) in listed:
            columns = self._connection.execute("SELECT name FROM pragma_table_info(?)", (name,)).fetchall()
            found[name] = frozenset(column for (column,) in columns)
        return found

    def columns(self) -> dict[str, frozenset[str]]:
        return self._columns

    def count(self, table: str) -> int:
        with _translated():
            (count,) = self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()
        return int(count)

    def rows(self, table: str, columns: Sequence[str], *, order: Sequence[str]) -> Iterator[tuple[Value, ...]]:
        known = self._columns[table] | {"rowid"}
        chosen = ", ".join(_cut(column) if column in known else "NULL" for column in columns)
        by = ", ".join(_quoted(column) for column in order)
        with _translated():
            yield from self._connection.execute(f"SELECT {chosen} FROM {_quoted(table)} ORDER BY {by}")


def _cut(column: str) -> str:
    name = _quoted(column)
    return f"CASE WHEN typeof({name}) IN ('text', 'blob') THEN substr({name}, 1, {CELL_CHARACTERS}) ELSE {name} END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable("the file cannot be read; is it locked by another program?", field="file") from error
    except sqlite3.DatabaseError as error:
        raise Corrupt("the file is damaged, or is not a database", field="file") from error
