"""JSON Lines into a user's memory: our own export, messages, memories, or all of them mixed.

The fields of a line say what it is:

    {"recollect": 1, ...}                                     the head of an export; only its version is read
    {"id", "layer", "scope", ...}                             a record of an export, taken as it is
    {"role", "content", "session"?, "agent"?, "created_at"?, "id"?, "name"?, "metadata"?, ...}     a message
    {"content", "layer"?, "created_at"?, "expires_at"?, "id"?, "metadata"?, "importance"?, "confidence"?}  a memory
    {"key", "value", "confidence"?, "valid_from"?, "valid_to"?}                                    a fact
    {"entity", "type"?, "aliases"?, "metadata"?}                                                   an entity
    {"subject", "relation", "object", "confidence"?, "valid_from"?, "valid_to"?}                   a relation
    {"session", "title"}                                                                           a title

Owners come from the caller, who may choose to take them from `user` or `user_id` of a line; an org that a
line names is ignored. Ids that a file does not give are derived from its lines, so importing the same file
twice changes nothing, and an import that was stopped resumes when it is started again.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from recollect import json_text, validate
from recollect.errors import RecollectError, TooLarge, ValidationError
from recollect.importers.files import check_lines, open_file
from recollect.importers.items import NO_SESSION, Expired, Imported, Item, Kind, Read, Source, Unnamed, refused
from recollect.importers.options import Options
from recollect.importers.writing import Admit, bring_in
from recollect.records import derived_id, system_clock
from recollect.user import User

LINE_BYTES = validate.LIMITS.body_bytes
SKIPPED_BYTES = 128 * LINE_BYTES
"""How much of an overlong line is skipped to find the next; a file with more is not made of lines."""
EXPORT_VERSION = 1
DEFAULT_SESSION = NO_SESSION

_OWNERS = ("user", "user_id", "org", "org_id")
_MESSAGE = ("role", "content", "id", "name", "created_at", "metadata", "tool_calls", "tool_call_id", "session", "agent")
_MEMORY = ("content", "layer", "id", "created_at", "expires_at", "metadata", "importance", "confidence")
_PERIOD = ("confidence", "valid_from", "valid_to")
_FORMS: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "fact": (("key", "value"), _PERIOD),
    "relation": (("subject", "relation", "object"), _PERIOD),
    "entity": (("entity",), ("type", "aliases", "metadata")),
    "session": (("session", "title"), ()),
}
"""What a line must have to be one of these, and what else it may have."""


async def import_jsonl(
    user: User, file: BinaryIO, *, session: str = DEFAULT_SESSION, admit: Admit | None = None
) -> Imported:
    """Store the lines of a file under a user, and report what became of each.

    `session` is for messages that name none. `admit` is asked before each write, and may refuse it.
    """
    return await bring_in(Lines(file, session=session), lambda _: user, admit=admit)


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """A regular file of lines."""
    with open_file(Path(where)) as file:
        check_lines(file)
        session = DEFAULT_SESSION if options.session is None else options.session
        yield Lines(file, session=session, size=os.fstat(file.fileno()).st_size)


class Lines:
    """The lines of a file as items."""

    def __init__(self, file: BinaryIO, *, session: str = DEFAULT_SESSION, size: int | None = None) -> None:
        self._file = file
        self._session = validate.identifier(session, "session")
        self._start = file.tell() if file.seekable() else None
        self.size = size

    def read(self) -> Iterator[Read]:
        if self._start is not None:
            self._file.seek(self._start)
        reader = _Reader(self._session)
        done = 0
        try:
            for number, line in lines_of(self._file):
                done += len(line)
                read = reader.read(number, line, done)
                if read is not None:
                    yield read
        except NotLines as error:
            yield refused(error.number, error)


def lines_of(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers. Only the first bytes of an overlong line are held in memory."""
    number = 0
    while line := file.readline(LINE_BYTES + 2):
        number += 1
        rest = line
        skipped = 0
        while rest and not rest.endswith(b"\n") and len(line) > LINE_BYTES + 1:
            rest = file.readline(LINE_BYTES)
            skipped += len(rest)
            if skipped > SKIPPED_BYTES:
                raise NotLines(number)
        yield number, line


class NotLines(TooLarge):
    """It has a line that does not end; what comes after it was not read."""

    def __init__(self, number: int) -> None:
        super().__init__(field="file")
        self.number = number


class _Reader:
    """Turns lines into items."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._unnamed = Unnamed()
        self._now = system_clock()

    def read(self, number: int, line: bytes, done: int) -> Read | None:
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # programs on Windows often begin a file with it
        if not line.strip():
            return None
        try:
            return self._item(number, parsed_line(line), done, len(line))
        except RecollectError as error:
            return refused(number, error)

    def _item(self, number: int, given: dict[str, Any], done: int, size: int) -> Read | None:
        if "recollect" in given:
            if given["recollect"] != EXPORT_VERSION:
                raise ValidationError("is an export of a version that this Recollect does not know", field="line")
            return None
        owner = next((str(given[name]) for name in _OWNERS[:2] if given.get(name)), "")
        if "scope" in given and "layer" in given:
            return self._record(number, given, done, size)
        own = {name: value for name, value in given.items() if name not in _OWNERS}
        if "role" in own:
            return self._message(number, own, owner, done, size)
        if "content" not in own:
            for kind, (needed, _) in _FORMS.items():
                if all(name in own for name in needed):
                    session = str(own.get("session", ""))
                    return Item(number, kind, _formed(kind, own), session, owner=owner, done=done, size=size)
        return self._memory(number, own, owner, done, size)

    def _record(self, number: int, given: dict[str, Any], done: int, size: int) -> Read:
        expires_at = validate.moment(given.get("expires_at"), "expires_at")
        if expires_at is not None and expires_at <= self._now:
            return Expired(number)
        scope = given["scope"]
        owner = str(scope.get("user") or "") if isinstance(scope, dict) else ""
        return Item(number, "record", given, owner=owner, done=done, size=size)

    def _message(self, number: int, given: dict[str, Any], owner: str, done: int, size: int) -> Item:
        validate.named_fields(given, _MESSAGE, (), "line")
        session = validate.identifier(given.get("session", self._session), "session")
        agent = validate.identifier(given["agent"], "agent") if given.get("agent") else ""
        body = {name: value for name, value in given.items() if name not in ("session", "agent")}
        id, named = _id(given, self._unnamed.id("import", json.dumps([session, agent, body], sort_keys=True)))
        full = {"content": None} | body | {"id": id}
        return Item(number, "message", full, session, agent, owner, named, named, done, size)

    def _memory(self, number: int, given: dict[str, Any], owner: str, done: int, size: int) -> Item:
        validate.named_fields(given, _MEMORY, (), "line")
        layer, content = given.get("layer", "long_term"), given.get("content")
        id, named = _id(given, derived_id("import", str(layer), str(content)))
        full = {"content": None} | given | {"id": id}
        return Item(number, "memory", full, owner=owner, named=named, verbatim=named, done=done, size=size)


def _formed(kind: Kind, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the verb that stores what a line says."""
    needed, more = _FORMS[kind]
    validate.named_fields(given, (*needed, *more), needed, "line")
    if kind == "session":
        validate.identifier(given["session"], "session")
        return {"title": given["title"]}
    if kind == "entity":
        return {"name": given["entity"]} | {name: value for name, value in given.items() if name != "entity"}
    return dict(given)


def parsed_line(line: bytes) -> dict[str, Any]:
    """The object in a line."""
    if len(line.rstrip(b"\r\n")) > LINE_BYTES:
        raise TooLarge(f"must have at most {LINE_BYTES} bytes", field="line")
    try:
        value = json_text.parse(line.rstrip(b"\r\n"), "line")
    except ValidationError as error:
        reason = error.message.replace("at line 1, column", "at column")
        cut = "" if line.endswith(b"\n") else " (is the file cut off?)"
        raise ValidationError(reason + cut, field="line") from error
    if not isinstance(value, dict):
        raise ValidationError("must be a JSON object", field="line")
    return value


def _id(given: Mapping[str, Any], made: str) -> tuple[str, bool]:
    """The id that the file gives, or else the one derived from the line; and whether the file gave it."""
    named = given.get("id") is not None
    return (validate.identifier(given["id"], "id") if named else made), named
