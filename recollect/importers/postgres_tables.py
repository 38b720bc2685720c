"""Tables in PostgreSQL that others wrote, read in one read-only transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql

from recollect.errors import Unavailable, ValidationError
from recollect.importers.tables import CELL_CHARACTERS, Value

_CONNECT_S = 10
_FETCHED = 200


@contextmanager
def open_database(where: str) -> Iterator[PostgresTables]:
    """The tables that a connection sees on its search path."""
    with _translated():
        try:
            connection = psycopg.connect(where, connect_timeout=_CONNECT_S)
        except psycopg.ProgrammingError as error:
            raise ValidationError("is not a URL that PostgreSQL understands", field="source") from error
    with connection, _translated():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL TIME ZONE 'UTC'")
        yield PostgresTables(connection)


class PostgresTables:
    """The tables of one database, as they were when it was opened."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._columns = self._read_columns()

    def _read_columns(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        listed = self._connection.execute(
            "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) AND a.attnum > 0 AND NOT a.attisdropped"
            " AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)"
        )
        for table, column in listed:
            found.setdefault(table, set()).add(column)
        return {table: frozenset(columns) for table, columns in found.items()}

    def columns(self) -> dict[str, frozenset[str]]:
        return self._columns

    def count(self, table: str) -> int:
        with _translated():
            found = self._connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
            row = found.fetchone()
        return int(row[0]) if row else 0

    def rows(self, table: str, columns: Sequence[str], *, order: Sequence[str]) -> Iterator[tuple[Value, ...]]:
        known = self._columns[table]
        chosen = [_cut(column) if column in known else sql.SQL("NULL") for column in columns]
        query = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(
            sql.SQL(", ").join(chosen),
            sql.Identifier(table),
            sql.SQL(", ").join(sql.Identifier(column) for column in order),
        )
        with _translated(), self._connection.cursor(name="rows") as cursor:
            cursor.itersize = _FETCHED
            yield from cursor.execute(query)


def _cut(column: str) -> sql.Composed:
    return sql.SQL("left({}::text, {})").format(sql.Identifier(column), sql.Literal(CELL_CHARACTERS))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise Unavailable("the database cannot be reached or read", field="source") from error
