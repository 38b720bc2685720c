"""The memory of the AI SDK (`@ai-sdk-tools/memory` 1.2): its keys in Redis, or its tables in SQLite or PostgreSQL.

    redis://host                 `memory:msg:chat:*`, `memory:chat:*`, `memory:wm:*` (`--prefix` if it is another)
    postgresql://me@host/app     the tables of its Drizzle provider, known by their columns
    memory.db                    the same in SQLite

Messages become messages of a session named after the chat, with its title. Working memory, which that
package keeps for weeks, becomes a long-term memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from recollect import validate
from recollect.errors import RecollectError
from recollect.importers.conversations import Reader, part, said, text_part
from recollect.importers.items import (
    Item,
    Read,
    Source,
    is_id,
    json_of,
    labels,
    object_of,
    refused,
    session_id,
    size_of,
    time_of,
)
from recollect.importers.options import Options
from recollect.importers.redis_source import KeyedLists, open_redis
from recollect.importers.tables import Tables, Value, find_table, open_tables
from recollect.records import derived_id

KIND = "ai-sdk"
PREFIX = "memory:"
MESSAGES = ("id", "chat_id", "user_id", "role", "content", "timestamp")
CHATS = ("chat_id", "user_id", "title", "message_count")
WORKING = ("scope", "chat_id", "user_id", "content", "updated_at")


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """The memory that a path or URL names."""
    if where.startswith(("redis://", "rediss://")):
        with open_redis(where) as keys:
            yield _Keys(keys, PREFIX if options.prefix is None else options.prefix)
    else:
        with open_tables(where) as tables:
            yield _Tables(tables, options)


class _Reading(Reader):
    """Makes items from what both kinds of sources have."""

    def __init__(self, session: str | None = None) -> None:
        super().__init__()
        self._session = session

    def session(self, chat: str) -> str:
        """The session that a chat becomes."""
        return session_id(chat, KIND, self._session)

    def said(self, chat: str, owner: str, role: Any, content: Any, time: Any) -> Iterator[Read]:
        """A message of a chat. A list keeps only the newest, so a message is identified by what it says and when."""
        with self.line():
            validate.role(role)
            parts = list(_parts(_spoken(content)))
            given = {"role": role, "content": said(parts) if parts else None, "created_at": time_of(time)}
            id = self.unnamed.id("import", KIND, chat, json.dumps(given, sort_keys=True))
            given |= {"id": id, "metadata": labels(KIND)}
            yield self.message(self.session(chat), given, owner)
        yield from self.bad()

    def noted(self, scope: str, whose: str, owner: str, content: Any, time: Any) -> Iterator[Read]:
        """What an agent wrote down about a user or a chat."""
        with self.line():
            memory = {
                "content": content,
                "id": derived_id("import", KIND, scope, whose, str(content)),
                "created_at": time_of(time),
                "metadata": labels(KIND, working_memory=scope, chat=whose if scope == "chat" else None),
            }
            yield Item(self.number, "memory", memory, owner=owner, done=self.number, size=size_of(memory))
        yield from self.bad()


class _Keys:
    """Lists of messages, hashes of chats, strings of working memory."""

    def __init__(self, keys: KeyedLists, prefix: str) -> None:
        self._keys, self._prefix = keys, prefix
        self._lists = keys.under(f"{prefix}msg:chat:", "list")
        self._notes = keys.under(f"{prefix}wm:", "string")
        self.size: int | None = sum(keys.length(key) for key in self._lists) + len(self._notes)

    def read(self) -> Iterator[Read]:
        reading = _Reading()
        for key in self._lists:
            chat = key.removeprefix(f"{self._prefix}msg:chat:")
            about = self._keys.fields(f"{self._prefix}chat:{chat}")
            for raw in self._keys.elements(key):
                yield from _message(reading, chat, about.get("userId", ""), raw)
            yield from reading.title(reading.session(chat), about.get("title"), about.get("userId", ""))
        for key in self._notes:
            yield from self._note(reading, key)

    def _note(self, reading: _Reading, key: str) -> Iterator[Read]:
        scope, _, whose = key.removeprefix(f"{self._prefix}wm:").partition(":")
        about = self._keys.fields(f"{self._prefix}chat:{whose}") if scope == "chat" else {"userId": whose}
        try:
            given = object_of(self._keys.value(key), "working memory")
        except RecollectError as error:
            reading.number += 1
            yield refused(reading.number, error)
            return
        yield from reading.noted(scope, whose, about.get("userId", ""), given.get("content"), given.get("updatedAt"))


def _message(reading: _Reading, chat: str, owner: str, raw: str) -> Iterator[Read]:
    try:
        given = object_of(raw, "message")
    except RecollectError as error:
        reading.number += 1
        yield refused(reading.number, error)
        return
    whose = str(given.get("userId") or owner)
    yield from reading.said(chat, whose, given.get("role"), given.get("content"), given.get("timestamp"))


class _Tables:
    """A table of messages, and those of chats and working memory if there are any."""

    def __init__(self, tables: Tables, options: Options) -> None:
        self._tables, self._session = tables, options.session
        self._messages = find_table(tables, MESSAGES, options.table)
        found = tables.columns()
        self._chats = next((name for name in sorted(found) if found[name] >= set(CHATS)), None)
        self._notes = next((name for name in sorted(found) if found[name] >= set(WORKING)), None)
        self.size: int | None = sum(tables.count(name) for name in (self._messages, self._notes) if name)

    def read(self) -> Iterator[Read]:
        reading = _Reading(self._session)
        for _, chat, owner, role, content, time in self._rows(self._messages, MESSAGES, "id"):
            yield from reading.said(str(chat or ""), str(owner or ""), role, content, time)
        for chat, owner, title, _ in self._rows(self._chats, CHATS, "chat_id"):
            yield from reading.title(reading.session(str(chat or "")), title, str(owner or ""))
        for scope, chat, owner, content, time in self._rows(self._notes, WORKING, "updated_at"):
            whose = chat if scope == "chat" else owner
            yield from reading.noted(str(scope), str(whose), str(owner or ""), content, time)

    def _rows(self, table: str | None, columns: tuple[str, ...], order: str) -> Iterator[tuple[Value, ...]]:
        return self._tables.rows(table, columns, order=[order]) if table else iter(())


# ── what a message says ──────────────────────────────────────────────────────────────────────────


def _spoken(content: Any) -> Any:
    """The content of a UI message, which is kept as JSON in a text; any other text is returned as it is."""
    if not isinstance(content, str) or not content.lstrip().startswith(("{", "[")):
        return content
    try:
        return json_of(content, "content")
    except RecollectError:
        return content


def _parts(spoken: Any) -> Iterator[dict[str, Any]]:
    if isinstance(spoken, str):
        yield from text_part(spoken)
        return
    listed = spoken if isinstance(spoken, list) else None
    if isinstance(spoken, dict):
        listed = next((spoken[name] for name in ("parts", "content") if isinstance(spoken.get(name), list)), None)
        if listed is None and isinstance(spoken.get("content"), str):
            yield from text_part(spoken["content"])
    for each in listed or ():
        if isinstance(each, dict):
            yield from _part(each)


def _part(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Texts, files by their address, and tool calls with their input and output; thoughts are left out."""
    kind = str(given.get("type"))
    if kind == "text" and isinstance(given.get("text"), str):
        yield from text_part(given["text"])
    elif kind == "file" and isinstance(given.get("url"), str):
        yield part("image_url", image_url={"url": given["url"]})
    elif is_id(given.get("toolCallId")):
        name = given.get("toolName") or kind.removeprefix("tool-")
        arguments = json.dumps(given.get("input", given.get("args")), ensure_ascii=False)
        yield part("tool_call", id=given["toolCallId"], function={"name": name, "arguments": arguments})
        if "output" in given or "errorText" in given:
            output = given.get("output", given.get("errorText"))
            content = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            yield part("tool_result", tool_call_id=given["toolCallId"], content=content)
