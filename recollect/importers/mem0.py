"""Memories of mem0: its local Qdrant folder, its pgvector table, its history database, or the output of `get_all`.

    qdrant/                      the folder of a local Qdrant, or one `storage.sqlite` in it
    postgresql://me@host/app     a table with `id`, `vector` and `payload`
    history.db                   the newest text of each memory that was not deleted, and the last messages
    memories.json                a list of memories, or `{"results": [...]}`

A memory keeps its times and its labels; the agent and run that it belonged to become labels too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from recollect import validate
from recollect.errors import NotFound, RecollectError, ValidationError
from recollect.importers.conversations import Reader
from recollect.importers.files import elements, open_file
from recollect.importers.items import (
    Expired,
    Item,
    LeftOut,
    Read,
    Source,
    labels,
    object_of,
    refused,
    session_id,
    size_of,
    time_of,
)
from recollect.importers.options import Options
from recollect.importers.points import payload_of
from recollect.importers.tables import Tables, Value, find_table, open_tables
from recollect.records import as_datetime, derived_id, system_clock

KIND = "mem0"
STORAGE = "storage.sqlite"
POINTS = ("id", "point")
PAYLOADS = ("id", "payload", "vector")
HISTORY = ("memory_id", "new_memory", "event", "created_at", "updated_at", "is_deleted")
MESSAGES = ("session_scope", "role", "content", "name", "created_at")
OWN = ("data", "memory", "hash", "text_lemmatized", "user_id", "created_at", "updated_at", "id", "score", "metadata")
"""Fields of a payload that are not the user's own labels."""
TEXTS = {"data", "memory"}
"""Fields of which one holds the text of a memory."""
NO_MEMORY = ("entity_type", "linked_memory_ids")
"""Fields that distinguish what mem0 keeps beside memories from the memories."""


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """The store that a folder, file or URL names."""
    path = Path(where)
    with ExitStack() as stack:
        if "://" not in where and path.is_dir():
            folders = _collections(path, options.table)
            yield _Points([stack.enter_context(open_tables(str(each))) for each in folders])
        elif "://" not in where and where.endswith(".json"):
            yield _Listed(stack.enter_context(open_file(path)))
        else:
            tables = stack.enter_context(open_tables(where))
            yield _of_tables(tables, options.table)


def _collections(folder: Path, named: str | None) -> list[Path]:
    """The files of a local Qdrant: of one collection, of all of them, or of the one that was named."""
    found = sorted(folder.glob(f"collection/{named or '*'}/{STORAGE}")) if named is None or named.isidentifier() else []
    if named is None and not found and (folder / STORAGE).exists():
        found = [folder / STORAGE]
    if not found:
        raise NotFound("is not the folder of a local Qdrant with this collection", field="source")
    return found


def _of_tables(tables: Tables, named: str | None) -> Source:
    columns = tables.columns().values()
    if any(each >= set(HISTORY) for each in columns):
        return _History(tables, find_table(tables, HISTORY, named))
    if any(each == set(POINTS) for each in columns):
        return _Points([tables])
    return _Payloads(tables, find_table(tables, PAYLOADS, named))


# ── memories ─────────────────────────────────────────────────────────────────────────────────────


class _Points:
    """Points of local Qdrant collections."""

    def __init__(self, collections: list[Tables]) -> None:
        self._collections = collections
        self.size: int | None = sum(each.count("points") for each in collections)

    def read(self) -> Iterator[Read]:
        line = 0
        for tables in self._collections:
            for (point,) in tables.rows("points", ["point"], order=["rowid"]):
                line += 1
                yield _read(line, payload_of, point)


class _Payloads:
    """Rows of a pgvector table."""

    def __init__(self, tables: Tables, table: str) -> None:
        self._tables, self._table = tables, table
        self.size: int | None = tables.count(table)

    def read(self) -> Iterator[Read]:
        rows = self._tables.rows(self._table, ["id", "payload"], order=["id"])
        for line, (id, payload) in enumerate(rows, start=1):
            yield _read(line, _row, id, payload)


class _Listed:
    """The output of `get_all`, in a file."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.size: int | None = None

    def read(self) -> Iterator[Read]:
        line = 0
        try:
            for element in elements(self._file):
                results = element.get("results") if isinstance(element, dict) else None
                for given in results if isinstance(results, list) else [element]:
                    line += 1
                    yield _read(line, _plain, given)
        except RecollectError as error:
            yield refused(line + 1, error)


def _row(id: Value, payload: Value) -> tuple[str, dict[str, Any]]:
    return _name(id), object_of(payload, "payload")


def _plain(given: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(given, dict) and given.keys() & TEXTS:
        return _name(given.get("id")), given
    raise ValidationError("must be a mem0 memory", field="memory")


def _name(id: object) -> str:
    return "" if id is None else str(id)


def _read(line: int, point_of: Callable[..., tuple[str, dict[str, Any]]], *raw: Any) -> Read:
    """The memory of a point."""
    try:
        id, payload = point_of(*raw)
        if any(field in payload for field in NO_MEMORY) or not payload.keys() & TEXTS:
            return LeftOut(line, "is not a memory")
        return Expired(line) if _is_over(payload) else _memory(line, id, payload)
    except RecollectError as error:
        return refused(line, error)


def _memory(line: int, id: str, payload: Mapping[str, Any]) -> Item:
    """A memory; one without an id is identified by its text."""
    more, content = payload.get("metadata"), payload.get("data", payload.get("memory"))
    labelled = {**payload, **(more if isinstance(more, dict) else {})}
    given = {
        "content": content,
        "id": derived_id("import", KIND, id) if id else derived_id("import", KIND, "", str(content)),
        "created_at": time_of(payload.get("created_at")),
        "metadata": _labels(labelled) | labels(KIND),
    }
    owner = payload.get("user_id")
    return Item(
        line, "memory", given, owner=owner if isinstance(owner, str) else "", named=bool(id), done=line,
        size=size_of(given),
    )  # fmt: skip


def _labels(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The user's own labels, under names that are valid here."""
    found: dict[str, Any] = {}
    for key, value in payload.items():
        if key in OWN or value is None:
            continue
        name = re.sub(r"[^A-Za-z0-9_\-]", "_", str(key))[:60]
        name = name if validate.metadata_key(name) and name not in validate.RESERVED_METADATA else f"mem0_{name}"
        found.setdefault(name, value)
    return found


def _is_over(payload: Mapping[str, Any]) -> bool:
    try:
        return date.fromisoformat(str(payload.get("expiration_date"))) < as_datetime(system_clock()).date()
    except ValueError:
        return False


# ── history ──────────────────────────────────────────────────────────────────────────────────────


class _History:
    """What became of each memory, event by event, and the last messages of each conversation."""

    def __init__(self, tables: Tables, table: str) -> None:
        self._tables, self._table = tables, table
        found = tables.columns()
        self._messages = next((name for name in found if found[name] >= set(MESSAGES)), None)
        self.size: int | None = tables.count(table)

    def read(self) -> Iterator[Read]:
        reader = Reader()
        for id, payload in self._newest().items():
            with reader.line():
                yield _memory(reader.number, id, payload)
            yield from reader.bad()
        if self._messages:
            for row in self._tables.rows(self._messages, MESSAGES, order=["created_at", "id"]):
                with reader.line():
                    yield _message(reader, *row)
                yield from reader.bad()

    def _newest(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        rows = self._tables.rows(self._table, HISTORY, order=["updated_at", "created_at", "id"])
        for memory, text, event, created_at, _, deleted in rows:
            id = str(memory)
            if event == "DELETE" or deleted == 1:
                found.pop(id, None)
            else:
                found[id] = {"created_at": created_at} | found.get(id, {}) | {"data": text}
        return found


def _message(reader: Reader, scope: Value, role: Value, content: Value, name: Value, created_at: Value) -> Item:
    given = {
        "role": role,
        "content": content,
        "created_at": time_of(created_at),
        "metadata": labels(KIND),
        "id": reader.unnamed.id("import", KIND, str(scope), str(created_at), str(role), str(content)),
    }
    place = str(scope)
    owner = dict(parse_qsl(place.replace("+", "%2B"))).get("user_id", "")
    return reader.message(session_id(f"mem0 {place}", KIND), given | ({"name": name} if name else {}), owner)
