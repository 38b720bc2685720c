"""Sessions of the OpenAI Agents SDK: the database of its `SQLiteSession` (or one of its tables in PostgreSQL).

Items keep everything the SDK wrote: `recollect.adapters.openai_agents.Session` returns them unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from recollect.adapters.openai_shape import to_stored
from recollect.errors import RecollectError, ValidationError
from recollect.importers.items import Item, Read, Source, labels, object_of, refused, session_id, size_of, time_of
from recollect.importers.options import Options
from recollect.importers.tables import Tables, Value, find_table, open_tables
from recollect.records import derived_id

KIND = "openai-agents"
COLUMNS = ("id", "session_id", "message_data", "created_at")
ENCRYPTED = "__enc__"
"""Marks what the SDK's `EncryptedSession` wrote."""


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """The database that a path or URL names."""
    with open_tables(where) as tables:
        yield _Items(tables, find_table(tables, COLUMNS[:3], options.table), options.session)


class _Items:
    """A row for each item."""

    def __init__(self, tables: Tables, table: str, session: str | None) -> None:
        self._tables, self._table, self._session = tables, table, session
        self.size: int | None = tables.count(table)

    def read(self) -> Iterator[Read]:
        rows = self._tables.rows(self._table, COLUMNS, order=["id"])
        for line, row in enumerate(rows, start=1):
            try:
                yield _item(line, self._session, *row)
            except RecollectError as error:
                yield refused(line, error)


def _item(line: int, otherwise: str | None, id: Value, session: Value, message: Value, created_at: Value) -> Item:
    item = object_of(message, "message_data")
    if ENCRYPTED in item:
        raise ValidationError("is encrypted; read it with the SDK's EncryptedSession", field="message_data")
    given = to_stored(item)
    home = session_id(session, KIND, otherwise)
    given["id"] = derived_id("import", KIND, home, str(id), json.dumps(item, sort_keys=True))
    given["created_at"] = time_of(created_at)
    given["metadata"] = labels(KIND) | given.get("metadata", {})
    return Item(line, "message", given, session=home, done=line, size=size_of(given))
