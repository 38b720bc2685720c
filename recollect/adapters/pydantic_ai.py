"""Pydantic AI: a `ConversationStore` whose conversations are sessions of a user.

    store = Store(memory.user("ann"))
    conversation = await store.load("monday") or Conversation(conversation_id="monday")
    result = await agent.run("Where did I park?", conversation=conversation)
    await store.save(result)

Every message comes back unchanged. To everyone else it is a message of the session `monday`, and what others say
there is part of the conversation. What is known about the conversation as a whole (usage, branches, waiting tools)
is stored beside the newest message that was saved.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from recollect.adapters import extra, pydantic_shape
from recollect.adapters.bridge import Bridge, UserHandle, checked
from recollect.adapters.verbatim import (
    Call,
    arguments,
    fits_beside,
    in_pieces,
    may_be_id,
    pictures_of,
    pieces,
    shell_of,
    shells_of,
    texts_of,
)
from recollect.conversation import Message
from recollect.errors import Conflict
from recollect.policies.shells import HOLE
from recollect.records import Record, derived_id
from recollect.session import Session
from recollect.unfolding import says_nothing
from recollect.user import User

with extra("pydantic-ai"):
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextContent,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
    )
    from pydantic_core import from_json, to_json
    from typing_extensions import TypedDict  # Pydantic accepts the one in `typing` only from Python 3.12 on

NAME, ENTRY = "pydantic_ai", "pydantic_ai_entry"
AHEAD = "pydantic_ai_ahead"
"""Marks entries that were written before the record they belong to, being too many for one commit."""
SPOKEN = {"user": ("user-prompt",), "tool": ("tool-return",), "assistant": ("text",), "system": ("system-prompt",)}
"""The parts of a message that are its text, by its role."""
PAGE, FEW, SESSIONS_MAX = 100, 4, 1_000
HEADS_MAX = 1_000
"""Conversations for which the place of the newest entry is remembered."""
REPEATS_MAX = 64
"""How often a conversation may be saved from one revision: again each time what was saved is forgotten."""


OPTIONAL = {
    written: frozenset(field.name for field in fields(kind) if field.default is None)
    for written, kind in {
        "request": ModelRequest,
        "response": ModelResponse,
        "text": TextPart,
        "thinking": ThinkingPart,
        "tool-call": ToolCallPart,
        "tool-return": ToolReturnPart,
    }.items()
}
"""Fields that are None if they are missing: most nearly always are, and reading them takes time."""


class Entry(TypedDict):
    """An entry as it is kept beside its texts, with the number of texts."""

    parent_id: str | None
    message: ModelMessage
    texts: int


class Shell(TypedDict, total=False):
    """What is kept beside a message: the entry it is, the record that was saved with it, or both."""

    entry: Entry
    record: dict[str, Any]


RECORDS = TypeAdapter(ConversationRecord)
SHELLS = TypeAdapter(list[Shell])


class Store(ConversationStore):
    """The conversations of one user: all of the user's sessions, whoever started them.

    A fork copies the history it keeps; deleting forgets all of a conversation. `scope` is that of conversations
    which were started elsewhere, until they are saved with one.
    """

    def __init__(self, user: UserHandle, *, scope: str | None = None) -> None:
        self._user = checked(user, "user")
        self._scope = scope
        self._heads: dict[str, str] = {}
        self._bridge = Bridge()

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        record = await self._bridge.wait(self._user, lambda user: _record(user.session(conversation_id), self._scope))
        if record is not None and record.head_id is not None:
            if len(self._heads) > HEADS_MAX:
                self._heads.clear()
            self._heads[record.head_id] = conversation_id
        return record

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        found = await self._bridge.wait(self._user, lambda user: _records(user, self._scope))
        chosen = [record for record in found if scope is None or record.scope == scope]
        return sorted(chosen, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        await self._bridge.wait(self._user, lambda user: _write(user, record, new_entries, expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await self._bridge.wait(self._user, lambda user: _delete(user, conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        found = await self.read_history(entry_id, limit=1)
        if not found or found[0].id != entry_id:
            raise LookupError("there is no such entry")  # or it was set aside
        return found[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        if head_id is None or limit == 0:
            return []
        home = self._heads.get(head_id)
        return await self._bridge.wait(self._user, lambda user: _history(user, head_id, limit, home))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


async def _pages(session: Session, first: int = PAGE) -> AsyncIterator[list[Message]]:
    """The messages in pages, newest first; `first` is how many are certainly wanted."""
    after: str | None = None
    limit = first
    while True:
        page, after = await session.messages(limit=limit, newest_first=True, after=after)
        limit = PAGE
        yield page
        if after is None:
            return


async def _record(session: Session, scope: str | None = None) -> ConversationRecord | None:
    """What is known about the conversation as a whole: what was saved last, and what has come since."""
    newest: Message | None = None
    async for page in _pages(session, first=FEW):
        for message in page:
            shell = shell_of(NAME, message, from_json)
            if isinstance(shell, dict) and "record" in shell:
                saved = RECORDS.validate_python(shell["record"] | {"conversation_id": session.id})
                return saved if newest is None else _gone_on(saved, newest)
            if newest is None and _goes_on(session, message, shell):
                newest = message
    return None if newest is None else _gone_on(_begun(session, scope), newest)


def _goes_on(session: Session, message: Message, shell: Any) -> bool:
    """Whether a conversation continues with a message that no record was saved with, or that has lost it.

    Others said it; or it is an entry, in a branch of the session that ends before the record, or where the message
    with the record was forgotten. What was written ahead of a record is not saved until the record is there.
    """
    if not _is_ours(message):
        return _is_heard(message)
    if not isinstance(shell, dict) or "entry" not in shell:
        return False
    entry = str(message.metadata.get(ENTRY))
    is_copy = message.id not in (entry, derived_id(NAME, session.id, entry))
    return is_copy or AHEAD not in message.metadata


def _begun(session: Session, scope: str | None) -> ConversationRecord:
    """The record of a conversation that was started elsewhere."""
    return ConversationRecord(conversation_id=session.id, head_id=None, revision="", scope=scope)


def _gone_on(record: ConversationRecord, newest: Message) -> ConversationRecord:
    """The record of a conversation that has continued since: its revision tells callers that they missed something."""
    revision = derived_id(NAME, record.revision, newest.id)
    entry = newest.metadata.get(ENTRY)
    known = replace(
        record, head_id=entry or newest.id, revision=revision, updated_at=newest.created_at or record.updated_at
    )
    return replace(known, deferred_tool_requests=None) if entry else known  # the next entries answered them


async def _records(user: User, scope: str | None) -> list[ConversationRecord]:
    sessions = await user.sessions(limit=SESSIONS_MAX)
    found = [await _record(user.session(session.id), scope) for session in sessions]
    return [record for record in found if record is not None]


async def _history(user: User, head_id: str, limit: int | None, home: str | None = None) -> list[ConversationEntry]:
    """The entries up to the head, oldest first, without those that expired and those that were set aside.

    `home` is the session where the head was seen; if the head is no longer there, it is searched for. If it was
    forgotten, what is left at home counts.
    """
    line = await _line(user.session(home), head_id, limit) if home is not None else None
    if line is None:
        head = await _find(user, head_id)
        line = await _line(user.session(head.scope.session), head_id, limit) if head is not None else None
    if line is None and home is not None:
        line = await _line(user.session(home), head_id, limit, may_lack_head=True)
    if line is None:
        raise LookupError("there is no such entry")
    return _entries(line)


async def _line(session: Session, head_id: str, limit: int | None, *, may_lack_head: bool = False) -> Line | None:
    """The messages from the head back; None if the head is not in the session."""
    line = Line(head_id, limit)
    async for page in _pages(session, first=min(limit or PAGE, PAGE)):
        for message, shell in zip(page, shells_of(NAME, page, SHELLS.validate_json), strict=True):
            line.take(message, shell)
            if line.is_whole:
                break
        if line.is_whole:
            break
    if line.has_begun or may_lack_head:
        line.mend()
    return line if line.has_begun else None


Said = ModelMessage | dict[str, Any]
"""A message of a line: that of an entry as it was, that of others in serialised form."""


class Line:
    """The line of a conversation, from its head back to its first message; `take` is given all of them, newest first.

    An entry names the one before it. A message of others follows whatever was said before it. What others said while
    an entry was being written comes before that entry, although the entry does not know it.
    """

    def __init__(self, head_id: str, limit: int | None) -> None:
        self.messages: dict[str, Said] = {}
        self.wanted: str | None = head_id
        self._limit = limit
        self._head_id = head_id
        self._takes_next = False
        """Whether the next message of the line is whatever was said before, or the head of what was saved then."""
        self._takes_entry = False
        """Whether it may be an entry, which otherwise belongs to the line only if it is wanted."""
        self._entries: dict[str, Entry] = {}
        self._aside: set[Any] = set()
        self._between: dict[str, dict[str, Any] | None] = {}
        """What others said since the last entry that was examined."""
        self._is_near = False
        """Whether that entry belongs to the line."""
        self._passed: list[tuple[Message, Shell | None]] = []
        """What was examined since the wanted message became the wanted one."""

    @property
    def has_begun(self) -> bool:
        return self._takes_next or self.wanted != self._head_id

    @property
    def is_whole(self) -> bool:
        return not self._takes_next and (self.wanted is None or len(self.messages) == self._limit)

    def take(self, message: Message, shell: Shell | None) -> None:
        if shell is not None and self._take_wanted(message, shell):
            return
        before = self.wanted
        if shell is not None or ENTRY in message.metadata:
            self._take_ours(message, shell or {})
        else:
            self._take_other(message)
        if not self._takes_next and self.wanted == before:
            self._passed.append((message, shell))
        elif self._passed:
            self._passed = []

    def mend(self) -> None:
        """If a message of the line is gone for good, continue with what was said before."""
        while self.wanted is not None and not self.is_whole and self._passed:
            passed, self._passed = self._passed, []
            self._takes_next, self._takes_entry, self.wanted = True, True, None
            for message, shell in passed:
                self.take(message, shell)

    def _take_wanted(self, message: Message, shell: Shell) -> bool:
        """Take an entry that follows directly with nothing else to consider, as nearly all do; False otherwise."""
        id = message.metadata.get(ENTRY)
        if id is None or id != self.wanted or "record" in shell or "entry" not in shell:
            return False
        if self._takes_next or self._between or self._entries or self._aside or message.trust == "quarantined":
            return False
        entry = _filled(shell["entry"], message)
        self.messages[id] = entry["message"]
        self.wanted, self._is_near = entry["parent_id"], True
        if self._passed:
            self._passed = []
        return True

    def _take_other(self, message: Message) -> None:
        said = pydantic_shape.written(message) if _is_heard(message) else None
        if self._takes_next and len(self.messages) == self._limit:
            self._takes_next, self.wanted = said is None, None if said is None else message.id
        elif self._takes_next:
            self._add({message.id: said})
        elif message.id == self.wanted:
            self._add((self._between if self._is_near else {}) | {message.id: said})
            self._takes_next, self._takes_entry, self.wanted = True, False, None
        else:
            self._between[message.id] = said

    def _take_ours(self, message: Message, shell: Shell) -> None:
        id = message.metadata.get(ENTRY)
        if message.trust == "quarantined":
            self._aside.add(id)
        if "entry" in shell:
            self._entries[str(id)] = _filled(shell["entry"], message)
        if "record" in shell or self._takes_next or self._between:
            self._join(id, shell)
        self._is_near = self._follow(id)

    def _join(self, id: Any, shell: Shell) -> None:
        """Continue with an entry, or with what was saved with it, after what others said."""
        head_id = shell["record"]["head_id"] if "record" in shell else id
        if self._takes_next and "record" in shell:
            self._takes_next, self._takes_entry, self.wanted = False, False, head_id
        elif self._takes_next and self._takes_entry and "entry" in shell:
            self._takes_next, self._takes_entry, self.wanted = False, False, str(id)
        elif self._is_near and self.wanted in (id, head_id):
            self._add(self._between)
        self._between = {}

    def _follow(self, id: Any) -> bool:
        """Follow the entries as far as they are known; True if one with this id was among them."""
        met = False
        while self.wanted in self._entries and len(self.messages) != self._limit:
            entry, found = self.wanted, self._entries.pop(self.wanted)
            if entry not in self._aside:
                self.messages[entry] = found["message"]
            self.wanted = found["parent_id"]
            met |= entry == id
        return met

    def _add(self, said: Mapping[str, dict[str, Any] | None]) -> None:
        """Add messages, except those that were set aside and those beyond the limit."""
        for id, message in said.items():
            if message is not None and len(self.messages) != self._limit:
                self.messages[id] = message


async def _find(user: User, entry_id: str) -> Record | None:
    """The message of an entry: nearly always the one with its id."""
    found = await user.get_memories([entry_id])
    after: str | None = None
    while not found:
        where = {f"metadata.{ENTRY}": entry_id}
        found, after = await user.list_memories(layer="conversation", where=where, limit=1, after=after)
        if after is None:
            break
    return found[0] if found else None


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


async def _write(
    user: User, record: ConversationRecord, new_entries: Sequence[ConversationEntry], expected: str | None
) -> None:
    """Store entries and record, if the conversation is still as the caller knows it.

    More entries than one commit holds are written ahead of it; until the record is there they do not count.
    """
    session = user.session(record.conversation_id)
    stored = await _record(session)
    if (stored.revision if stored else None) != expected:
        raise ConversationConflict(record.conversation_id)
    given = to_stored(new_entries)
    try:
        if stored is None:
            given = [*await _copied(user, record, new_entries), *given]
        await _commit(user, session, record, given, expected)
    except (Conflict, LookupError):
        raise ConversationConflict(record.conversation_id) from None


async def _copied(
    user: User, record: ConversationRecord, new_entries: Sequence[ConversationEntry]
) -> list[dict[str, Any]]:
    """The history of another conversation that a new one begins with."""
    origin = new_entries[0].parent_id if new_entries else record.head_id
    if origin is None:
        return []
    copies = to_stored(await _history(user, origin, None))
    return [copy | {"id": derived_id(NAME, record.conversation_id, copy["id"])} for copy in copies]


async def _commit(
    user: User, session: Session, record: ConversationRecord, given: list[dict[str, Any]], expected: str | None
) -> None:
    """Write the messages, the last of them with the record; of two writers who know the same state, one comes first."""
    holder = _holding(given, RECORDS.dump_python(record, mode="json"))
    if expected is None:
        # A new conversation has no revision to check: the writer whose record is there first has created it.
        holder["id"] = derived_id(NAME, session.id)
    *earlier, last = pieces(given)
    ahead = [message for piece in earlier for message in piece]
    for message in ahead:
        message["metadata"] = message["metadata"] | {AHEAD: True}
    ids = [message["id"] for message in ahead]
    ours = set(ids) - await _there(user, ids)
    for piece in earlier:
        await session.add_messages(piece)
    try:
        await _add_last(session, last, expected)
    except Conflict:
        await _withdraw(user, session, ours)
        raise


async def _add_last(session: Session, last: list[dict[str, Any]], expected: str | None) -> None:
    """Write the piece with the record, under a key that is unique to a revision; retry if its holder was forgotten."""
    if expected is None:
        await session.add_messages(last)
        return
    for repeat in range(REPEATS_MAX):
        key = derived_id(NAME, session.id, expected, *([str(repeat)] if repeat else []))
        try:
            await session.add_messages(last, idempotency_key=key)
            return
        except Conflict:
            stored = await _record(session)
            if stored is None or stored.revision != expected or repeat + 1 == REPEATS_MAX:
                raise


async def _there(user: User, ids: Sequence[str]) -> set[str]:
    return {record.id for piece in pieces(ids) for record in await user.get_memories(piece)}


async def _withdraw(user: User, session: Session, ids: set[str]) -> None:
    """Remove what was written before another writer turned out to be first, except what is in both."""
    stored = await _record(session)
    kept = await _history(user, stored.head_id, None) if stored is not None and stored.head_id else []
    both = {message["id"] for message in to_stored(kept)}
    await in_pieces(user.forget, sorted(await _there(user, sorted(ids - both))))


def _holding(given: list[dict[str, Any]], record: dict[str, Any]) -> dict[str, Any]:
    """The last message, with the record in its shell; a separate message if there is none, or no room in it."""
    kept = given[-1]["metadata"].get(NAME) if given else None
    if kept is not None:
        # The shell is the text of a JSON object: one more member is appended to it.
        both = f'{kept[:-1]},"record":{to_json(record).decode()}}}'
        if fits_beside(both):
            given[-1]["metadata"] = given[-1]["metadata"] | {NAME: both}
            return given[-1]
    given.append(arguments(NAME, "system", [], {"record": record}, empty="[conversation saved]"))
    return given[-1]


async def _delete(user: User, conversation_id: str, expected: str) -> None:
    session = user.session(conversation_id)
    stored = await _record(session)
    if stored is None or stored.revision != expected:
        raise ConversationConflict(conversation_id)
    await session.delete()


# ── entries and messages ─────────────────────────────────────────────────────────────────────────


def to_stored(entries: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
    """Entries as the items that `add_messages` takes."""
    written = ModelMessagesTypeAdapter.dump_python([entry.message for entry in entries], mode="json")
    return [given for entry, message in zip(entries, written, strict=True) for given in _messages(entry, message)]


def _messages(entry: ConversationEntry, message: dict[str, Any]) -> list[dict[str, Any]]:
    """An entry as stored messages: itself, and one for each further tool result, since each answers a call."""
    results = [part for part in message["parts"] if part["part_kind"] == "tool-return"]
    calls = _calls(message)
    role = _role(message)
    texts = _hollow(message, role)
    shell = {"entry": {"parent_id": entry.parent_id, "message": _lean(message), "texts": len(texts)}}
    empty = _told(results[0]) if role == "tool" else "" if calls else "[empty]"
    shows = [url for part in message["parts"] for url in pictures_of(part.get("content"))] if role == "user" else ()
    given = arguments(NAME, role, texts, shell, empty=empty, pictures=shows)
    given |= {"id": entry.id, "metadata": given.get("metadata", {}) | {ENTRY: entry.id}}
    if calls:
        given["tool_calls"] = [call.to_openai() for call in calls]
    if role != "tool":
        return [given]
    further = [
        {"role": "tool", "content": _told(part), "tool_call_id": part["tool_call_id"], "metadata": {ENTRY: entry.id},
         "id": derived_id(NAME, entry.id, part["tool_call_id"])}
        for part in results[1:]
        if may_be_id(part["tool_call_id"])
    ]  # fmt: skip
    if may_be_id(results[0]["tool_call_id"]):
        given["tool_call_id"] = results[0]["tool_call_id"]
    return [given, *further]


def _is_heard(message: Message) -> bool:
    """Whether a message of others is part of a conversation here."""
    return message.trust != "quarantined" and not says_nothing(message)


def _is_ours(message: Message) -> bool:
    """Whether a message was stored here; a further tool result has only the mark, a record has only the shell."""
    return ENTRY in message.metadata or shell_of(NAME, message, from_json) is not None


def _filled(entry: Entry, message: Message) -> Entry:
    """What was kept of an entry beside its texts, with the texts put back."""
    spoken = SPOKEN[message.role]
    parts: Sequence[Any] = entry["message"].parts
    is_one = len(parts) == entry["texts"] == 1 and isinstance(message.content, str)  # as nearly always
    if is_one and parts[0].part_kind in spoken and parts[0].content == HOLE:
        parts[0].content = message.content
        return entry
    waiting = iter(texts_of(message)[: entry["texts"]])
    for part in parts:
        if part.part_kind in spoken and part.content == HOLE:
            part.content = next(waiting, HOLE)
        elif part.part_kind == "user-prompt" and not isinstance(part.content, str):
            part.content = [_with_its_text(item, waiting) for item in part.content]
    return entry


def _with_its_text(item: Any, waiting: Iterator[str]) -> Any:
    """An item of a prompt, with its text put back if it has a hole."""
    if isinstance(item, TextContent):
        return replace(item, content=next(waiting, HOLE)) if item.content == HOLE else item
    return next(waiting, HOLE) if isinstance(item, str) and item == HOLE else item


def _entries(line: Line) -> list[ConversationEntry]:
    """The entries of a line, oldest first."""
    said = _said(list(line.messages.values())[::-1])
    ids = list(line.messages)[::-1]
    parents = [line.wanted, *ids]  # each follows the last one that was not set aside
    return [
        ConversationEntry(id=id, parent_id=parent, message=message)
        for id, parent, message in zip(ids, parents, said, strict=False)
    ]


def _said(messages: list[Said]) -> list[ModelMessage]:
    """The messages of a line, with those of others parsed."""
    others = [message for message in messages if isinstance(message, dict)]
    read = iter(ModelMessagesTypeAdapter.validate_json(to_json(others)) if others else ())
    said = [next(read) if isinstance(message, dict) else message for message in messages]
    if others:
        pydantic_shape.with_names_of_tools(said)
    return said


def _role(message: dict[str, Any]) -> str:
    if message["kind"] == "response":
        return "assistant"
    kinds = {part["part_kind"] for part in message["parts"]}
    return "user" if "user-prompt" in kinds else "tool" if "tool-return" in kinds else "system"


def _hollow(message: dict[str, Any], role: str) -> list[str]:
    """Take the texts out of a message; one that says nothing keeps them, so that a hole is never mistaken for text."""
    parts = [part for part in message["parts"] if part["part_kind"] in SPOKEN[role]]
    if role == "tool":
        parts = parts[:1]  # the others are messages of their own
    texts: list[str] = []
    hollow = [_without_texts(part, texts) for part in parts]
    if not any(text.strip() for text in texts):
        return []
    for part, content in zip(parts, hollow, strict=True):
        part["content"] = content
    return texts


def _without_texts(part: dict[str, Any], texts: list[str]) -> Any:
    """The content of a part with a hole for each text, which is added to the texts: a prompt may be a list of items."""
    content = part.get("content")
    if isinstance(content, list) and part["part_kind"] == "user-prompt":
        return [_without_text(item, texts) for item in content]
    return _without_text(content, texts)


def _without_text(item: Any, texts: list[str]) -> Any:
    if isinstance(item, dict) and item.get("kind") == "text-content":
        return item | {"content": _without_text(item["content"], texts)}
    if not isinstance(item, str):
        return item
    texts.append(item)
    return HOLE


def _lean(message: dict[str, Any]) -> dict[str, Any]:
    """A serialised message, without fields that read the same if they are missing."""
    lean = _without_none(message["kind"], message)
    lean["parts"] = [_without_none(part["part_kind"], part) for part in message["parts"]]
    used = {name: amount for name, amount in lean.pop("usage", {}).items() if amount}
    return lean | {"usage": used} if used else lean


def _without_none(kind: str, written: dict[str, Any]) -> dict[str, Any]:
    optional = OPTIONAL.get(kind, ())
    return {name: value for name, value in written.items() if value is not None or name not in optional}


def _calls(message: dict[str, Any]) -> list[Call]:
    parts = [part for part in message["parts"] if part["part_kind"] == "tool-call" and may_be_id(part["tool_call_id"])]
    calls = {part["tool_call_id"]: part for part in parts}
    return [Call(id, part["tool_name"], _arguments(part["args"])) for id, part in calls.items()]


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)


def _told(part: dict[str, Any]) -> str:
    content = part["content"] if isinstance(part["content"], str) else json.dumps(part["content"], ensure_ascii=False)
    return content if content.strip() else "[empty]"
