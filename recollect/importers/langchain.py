"""Chat histories of LangChain: tables of `langchain-postgres` and `SQLChatMessageHistory`, lists in Redis, JSON files.

    postgresql://me@host/app     a table with `session_id` and `message`, one row a message
    chats.db                     the same in SQLite
    redis://host                 a list for each session, under `message_store:` (`--prefix` if it is another)
    monday.json                  a file of `FileChatMessageHistory`: one session

Messages keep everything LangChain wrote: `recollect.adapters.langchain.ChatMessageHistory` returns them unchanged.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recollect.adapters.langchain_shape import to_stored
from recollect.errors import RecollectError, ValidationError
from recollect.importers.files import elements, open_file
from recollect.importers.items import Item, Read, Source, labels, object_of, refused, session_id, size_of, time_of
from recollect.importers.options import Options
from recollect.importers.redis_source import KeyedLists, open_redis
from recollect.importers.tables import Tables, Value, find_table, open_tables
from recollect.records import derived_id

KIND = "langchain"
COLUMNS = ("id", "session_id", "message", "created_at")
PREFIX = "message_store:"


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """The history that a path or URL names."""
    if where.startswith(("redis://", "rediss://")):
        with open_redis(where) as keys:
            yield _Lists(keys, PREFIX if options.prefix is None else options.prefix)
    elif "://" not in where and where.endswith(".json"):
        with open_file(Path(where)) as file:
            yield _File(file, options.session or session_id(Path(where).stem, KIND))
    else:
        with open_tables(where) as tables:
            yield _Table(tables, find_table(tables, COLUMNS[:3], options.table), options.session)


class _Table:
    """A row for each message."""

    def __init__(self, tables: Tables, table: str, session: str | None) -> None:
        self._tables, self._table, self._session = tables, table, session
        self.size: int | None = tables.count(table)

    def read(self) -> Iterator[Read]:
        rows = self._tables.rows(self._table, COLUMNS, order=["id"])
        for line, (id, session, message, created_at) in enumerate(rows, start=1):
            yield _read(line, session_id(session, KIND, self._session), str(id), message, created_at)


class _Lists:
    """A list for each session, the newest message first."""

    def __init__(self, keys: KeyedLists, prefix: str) -> None:
        self._keys, self._prefix = keys, prefix
        self.size: int | None = sum(keys.length(key) for key in keys.under(prefix, "list"))

    def read(self) -> Iterator[Read]:
        line = 0
        for key in self._keys.under(self._prefix, "list"):
            seen: Counter[int] = Counter()
            for message in self._keys.elements(key, from_the_end=True):
                line += 1
                # A list may lose its oldest messages, so a position in it says nothing; the position among equals does.
                seen[hash(message)] += 1
                yield _read(line, session_id(key.removeprefix(self._prefix), KIND), str(seen[hash(message)]), message)


class _File:
    """A list of messages in one file."""

    def __init__(self, file: Any, session: str) -> None:
        self._file, self._session = file, session
        self.size: int | None = None

    def read(self) -> Iterator[Read]:
        line = 0
        try:
            for line, message in enumerate(elements(self._file), start=1):
                yield _read(line, self._session, str(line), message)
        except RecollectError as error:
            yield refused(line + 1, error)


def _read(line: int, session: str, place: str, message: Any, created_at: Value = None) -> Read:
    try:
        written = message if isinstance(message, dict) else object_of(message, "message")
        if not isinstance(written.get("type"), str) or not isinstance(written.get("data"), dict):
            raise ValidationError("must be a LangChain message, with type and data", field="message")
        given = to_stored(written)
        given["id"] = derived_id("import", KIND, session, place, json.dumps(written, sort_keys=True))
        given["created_at"] = time_of(created_at)
        given["metadata"] = labels(KIND) | given.get("metadata", {})
        return Item(line, "message", given, session=session, done=line, size=size_of(given))
    except RecollectError as error:
        return refused(line, error)
