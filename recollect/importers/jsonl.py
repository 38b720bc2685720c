"""JSON Lines into a user's memory: our own export, messages, memories, or all of them mixed.

A line says by its fields what it is:

    {"recollect": 1, ...}                                     the head of an export; only its version is read
    {"id", "layer", "scope", ...}                             a record of an export, taken as it is
    {"role", "content", "session"?, "agent"?, "created_at"?, "id"?, "name"?, "metadata"?, ...}     a message
    {"content", "layer"?, "created_at"?, "id"?, "metadata"?, "importance"?, "confidence"?}         a memory

Owners come from the caller: `org`, `org_id`, `user` and `user_id` of a line are passed over. Ids that
a file does not give are made from its lines, so the same file imported twice changes nothing, and an
import that was stopped goes on when it is started again.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from recollect import validate
from recollect.errors import Conflict, NotFound, RecollectError, TooLarge, Unavailable, ValidationError
from recollect.memory import Memory, User
from recollect.records import Record, derived_id, system_clock

LINE_BYTES = validate.LIMITS.body_bytes
CHUNK_LINES = 45
"""Lines stored together: with the job that enriches them, and a merge for each, they fit one write."""
CHUNK_BYTES = 256 * 1024
"""Bytes stored together: parts are kept twice, as text and as they are, and a write takes 1 MiB."""
PROBLEMS_KEPT = 100
"""Bad lines that are listed; the rest are counted, so that a huge wrong file cannot fill the memory."""
EXPORT_VERSION = 1
DEFAULT_SESSION = "imported"

_OWNERS = frozenset({"org", "org_id", "user", "user_id"})
_MESSAGE = ("role", "content", "id", "name", "created_at", "metadata", "tool_calls", "tool_call_id", "session", "agent")
_MEMORY = ("content", "layer", "id", "created_at", "metadata", "importance", "confidence")


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that cannot be stored, and why. Never its content."""

    line: int
    reason: str


@dataclass(slots=True)
class Imported:
    """What an import did, or would do."""

    messages: int = 0
    memories: int = 0
    records: int = 0
    new: int = 0
    known: int = 0
    expired: int = 0
    bad: int = 0
    problems: list[Problem] = field(default_factory=list)
    stored: bool = True

    def count(self, kind: str, read: int, new: int) -> None:
        """Note good lines, and how many of them were not known."""
        setattr(self, kind, getattr(self, kind) + read)
        self.new += new
        self.known += read - new

    def report(self, line: int, error: RecollectError | str) -> None:
        """Note that a line is bad."""
        self.bad += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(Problem(line, str(error)))

    def to_dict(self) -> dict[str, Any]:
        """The outcome as documented JSON."""
        names = ("messages", "memories", "records", "new", "known", "expired", "bad", "stored")
        problems = [{"line": problem.line, "reason": problem.reason} for problem in self.problems]
        return {name: getattr(self, name) for name in names} | {"problems": problems}


@dataclass(frozen=True, slots=True)
class _Item:
    """One line, read: what it is, where it goes, and the arguments of the verb that stores it."""

    line: int
    kind: str
    given: Mapping[str, Any]
    session: str = ""
    agent: str = ""
    named: bool = False
    """Whether the file gave the id: another text under it is then a mistake, not an edit of ours."""

    @property
    def place(self) -> tuple[str, str, str]:
        return self.kind, self.session, self.agent


def open_file(path: Path) -> BinaryIO:
    """A plain file, open for reading; anything else is refused before a byte of it is read.

    A folder, a pipe, a device: reading them hangs or never ends. A symbolic link as the last part of
    the path is refused too, because it can be changed to point elsewhere between looking and reading.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if path.is_symlink():
        raise ValidationError("is a symbolic link; give the file that it points to", field="file")
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError as error:
        raise NotFound("there is no such file", field="file") from error
    except (OSError, ValueError) as error:
        raise ValidationError("cannot be opened for reading", field="file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValidationError("must be a plain file; for a pipe, write - and send it to standard input", field="file")
    return os.fdopen(descriptor, "rb")


async def import_jsonl(
    user: User,
    file: BinaryIO,
    *,
    session: str = DEFAULT_SESSION,
    all_or_nothing: bool = False,
    dry_run: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Store the lines of a file under a user, and tell what became of each.

    A bad line is reported and the others are stored. With `all_or_nothing` every line is tried first,
    and one bad line means that nothing is stored; the file must then be able to `seek`. With
    `dry_run` lines are only tried. `session` is for messages that name none.
    """
    validate.identifier(session, "session")
    if dry_run or all_or_nothing:
        start = file.tell()
        outcome = await _through(file, session, _Trial().store, advance)
        outcome.new, outcome.known, outcome.stored = 0, 0, False
        if dry_run or outcome.bad:
            return outcome
        file.seek(start)
    return await _through(file, session, _Keeper(user).store, advance)


# ── Lines ────────────────────────────────────────────────────────────────────────────────────────

_Store = Callable[[Sequence[_Item], Imported], Awaitable[None]]


async def _through(file: BinaryIO, session: str, store: _Store, advance: Callable[[int], None]) -> Imported:
    """Read the file chunk by chunk and hand each to `store`."""
    outcome = Imported()
    reader = _Reader(session, outcome)
    chunk: list[_Item] = []
    held = done = 0
    for number, line in _lines(file):
        done += len(line)
        item = reader.read(number, line)
        if item is None:
            continue
        chunk.append(item)
        held += len(line)
        if len(chunk) == CHUNK_LINES or held >= CHUNK_BYTES:
            await store(chunk, outcome)
            chunk, held = [], 0
            advance(done)
    if chunk:
        await store(chunk, outcome)
    outcome.problems.sort(key=lambda problem: problem.line)
    return outcome


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers. Of a line that is too long only its first bytes are held in memory."""
    number = 0
    while line := file.readline(LINE_BYTES + 2):
        number += 1
        rest = line
        while rest and not rest.endswith(b"\n") and len(line) > LINE_BYTES + 1:
            rest = file.readline(LINE_BYTES)
        yield number, line


class _Reader:
    """Turns lines into items; what is wrong with a line goes into the outcome."""

    def __init__(self, session: str, outcome: Imported) -> None:
        self._session = session
        self._outcome = outcome
        self._seen: Counter[str] = Counter()
        self._now = system_clock()

    def read(self, number: int, line: bytes) -> _Item | None:
        if not line.strip():
            return None
        try:
            return self._item(number, _parsed(line))
        except RecollectError as error:
            self._outcome.report(number, error)
            return None

    def _item(self, number: int, given: dict[str, Any]) -> _Item | None:
        if "recollect" in given:
            if given["recollect"] != EXPORT_VERSION:
                raise ValidationError("is an export of a version that this Recollect does not know", field="line")
            return None
        if "scope" in given and "layer" in given:
            return self._record(number, given)
        own = {name: value for name, value in given.items() if name not in _OWNERS}
        if "role" in own:
            return self._message(number, own)
        return self._memory(number, own)

    def _record(self, number: int, given: dict[str, Any]) -> _Item | None:
        expires_at = validate.moment(given.get("expires_at"), "expires_at")
        if expires_at is not None and expires_at <= self._now:
            self._outcome.expired += 1
            return None
        return _Item(number, "record", given)

    def _message(self, number: int, given: dict[str, Any]) -> _Item:
        validate.named_fields(given, _MESSAGE, (), "line")
        session = validate.identifier(given.get("session", self._session), "session")
        agent = validate.identifier(given["agent"], "agent") if given.get("agent") else ""
        body = {name: value for name, value in given.items() if name not in ("session", "agent")}
        # The same words said twice are two messages, so the place among equals is part of the id.
        written = json.dumps([session, agent, body], sort_keys=True)
        digest = derived_id("import", written)
        self._seen[digest] += 1
        id, named = _id(given, derived_id(digest, str(self._seen[digest])))
        return _Item(number, "message", {"content": None} | body | {"id": id}, session, agent, named)

    def _memory(self, number: int, given: dict[str, Any]) -> _Item:
        validate.named_fields(given, _MEMORY, (), "line")
        layer, content = given.get("layer", "long_term"), given.get("content")
        id, named = _id(given, derived_id("import", str(layer), str(content)))
        return _Item(number, "memory", {"content": None} | given | {"id": id}, named=named)


def _parsed(line: bytes) -> dict[str, Any]:
    if len(line.rstrip(b"\r\n")) > LINE_BYTES:
        raise TooLarge(f"must have at most {LINE_BYTES} bytes", field="line")
    try:
        value = validate.json_text(line.rstrip(b"\r\n"), "line")
    except ValidationError as error:
        reason = error.message.replace("at line 1, column", "at column")
        cut = "" if line.endswith(b"\n") else " (the file ends in the middle of it?)"
        raise ValidationError(reason + cut, field="line") from error
    if not isinstance(value, dict):
        raise ValidationError("must be a JSON object", field="line")
    return value


def _id(given: Mapping[str, Any], made: str) -> tuple[str, bool]:
    """The id that the file gives, else the one made from the line; and whether the file gave it."""
    named = given.get("id") is not None
    return (validate.identifier(given["id"], "id") if named else made), named


# ── Storing ──────────────────────────────────────────────────────────────────────────────────────


class _Keeper:
    """Stores items under a user, what is known already left as it is."""

    def __init__(self, user: User) -> None:
        self._user = user

    async def store(self, items: Sequence[_Item], outcome: Imported) -> None:
        """Store a chunk, one write for each session and kind, side by side: order holds inside a session."""
        groups: dict[tuple[str, str, str], list[_Item]] = {}
        for item in items:
            groups.setdefault(item.place, []).append(item)
        await asyncio.gather(*(self._store_group(group, outcome) for group in groups.values()))

    async def _store_group(self, group: Sequence[_Item], outcome: Imported) -> None:
        """Store them together; when one is refused, each by itself, to tell which."""
        try:
            await self._add(group, outcome)
        except Unavailable:
            raise
        except RecollectError as error:
            if len(group) == 1:
                outcome.report(group[0].line, error)
                return
            for item in group:
                await self._store_group([item], outcome)

    async def _add(self, group: Sequence[_Item], outcome: Imported) -> None:
        first = group[0]
        if first.kind == "record":
            new = await self._user.import_records([item.given for item in group])
            outcome.count("records", len(group), new)
            return
        wanted = await self._unknown(group)
        given = [dict(item.given) for item in wanted]
        if given and first.kind == "message":
            await self._user.session(first.session, agent=first.agent).add_messages(given)
        elif given:
            await self._user.add_memories(given)
        outcome.count("messages" if first.kind == "message" else "memories", len(group), len(wanted))

    async def _unknown(self, group: Sequence[_Item]) -> list[_Item]:
        """Those that are not stored yet."""
        ids = [item.given["id"] for item in group]
        if len(set(ids)) < len(ids):
            raise Conflict("the same id twice", field="id")  # one by one, the second finds the first
        found = await asyncio.gather(*map(self._stored, ids))
        return [item for item, record in zip(group, found, strict=True) if not _is_known(item, record)]

    async def _stored(self, id: str) -> Record | None:
        try:
            return await self._user.get_memory(id)
        except NotFound:
            return None


class _Trial:
    """Tries items: stores each chunk in a memory that is thrown away, so every check is the real one."""

    async def store(self, items: Sequence[_Item], outcome: Imported) -> None:
        async with Memory.open("memory://", worker=False) as memory:
            await _Keeper(memory.user("trial")).store(items, outcome)


def _is_known(item: _Item, record: Record | None) -> bool:
    """Whether it is there already. Another text under the same id is for the store to refuse."""
    content = item.given["content"]
    differs = record is not None and isinstance(content, str) and record.content != content
    return record is not None and not (item.named and differs)
