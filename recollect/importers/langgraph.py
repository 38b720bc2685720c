"""Stores of LangGraph: the table `store` of `SqliteStore` and `PostgresStore`.

Items keep namespace, key and value: `recollect.adapters.langgraph.Store` returns them unchanged. The caller says
which part of a namespace names the user (`--user-segment`); expired items stay behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from recollect.adapters.langgraph_shape import UPDATED, item_draft, item_id, readable
from recollect.errors import RecollectError, ValidationError
from recollect.importers.items import Expired, Item, Read, Source, labels, object_of, refused, size_of, time_of
from recollect.importers.options import Options
from recollect.importers.tables import Tables, Value, find_table, open_tables
from recollect.records import system_clock

KIND = "langgraph"
COLUMNS = ("prefix", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes")


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """The database that a path or URL names."""
    with open_tables(where) as tables:
        yield _Items(tables, find_table(tables, COLUMNS[:5], options.table), options.user_segment)


class _Items:
    """A row for each item."""

    def __init__(self, tables: Tables, table: str, user_segment: int | None) -> None:
        self._tables, self._table = tables, table
        self._user_segment = user_segment
        self._now = system_clock()
        self.size: int | None = tables.count(table)

    def read(self) -> Iterator[Read]:
        rows = self._tables.rows(self._table, COLUMNS, order=["created_at", "prefix", "key"])
        for line, row in enumerate(rows, start=1):
            try:
                yield self._item(line, *row)
            except RecollectError as error:
                yield refused(line, error)

    def _item(self, line: int, prefix: Value, key: Value, value: Value, *times: Value) -> Read:
        created_at, updated_at, expires_at = (time_of(time) for time in times[:3])
        if expires_at is not None and expires_at <= self._now:
            return Expired(line)
        if prefix is None or key is None:
            raise ValidationError("must have a prefix and a key", field="item")
        namespace, name = tuple(str(prefix).split(".")), str(key)
        content = object_of(value, "value")
        life = _minutes(times[3]) if expires_at is not None else None
        given = item_draft(
            namespace, name, content, readable(content), now=updated_at or self._now, ttl_minutes=life
        )  # fmt: skip
        if expires_at is not None:
            given["expires_at"] = expires_at
        given["metadata"] |= labels(KIND) | {UPDATED: updated_at or self._now}
        given |= {"id": item_id(namespace, name), "created_at": created_at}
        return Item(line, "memory", given, owner=self._owner(namespace), named=True, done=line, size=size_of(given))

    def _owner(self, namespace: tuple[str, ...]) -> str:
        place = self._user_segment
        return namespace[place] if place is not None and len(namespace) > place else ""


def _minutes(value: Value) -> float:
    try:
        return float(value or 0)
    except ValueError:
        raise ValidationError("must be a number", field="ttl_minutes") from None
