"""Pydantic AI: a `ConversationStore` whose conversations are sessions of a user.

    store = Store(memory.user("ann"))
    conversation = await store.load("monday") or Conversation(conversation_id="monday")
    result = await agent.run("Where did I park?", conversation=conversation)
    await store.save(result)

Every message comes back as it was. To everyone else it is a message of the session `monday`. What is known of
the conversation as a whole (usage, branches, waiting tools) stands beside the newest message that was saved.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_core import from_json, to_json

from recollect.adapters.bridge import Bridge, UserHandle
from recollect.adapters.verbatim import (
    HOLE,
    Call,
    arguments,
    fits_beside,
    in_pieces,
    may_be_id,
    pieces,
    shell_of,
    texts_of,
)
from recollect.conversation import Message
from recollect.errors import Conflict
from recollect.memory import Session, User
from recollect.records import Record, derived_id

NAME, ENTRY = "pydantic_ai", "pydantic_ai_entry"
SPOKEN = {"user": ("user-prompt",), "tool": ("tool-return",), "assistant": ("text",), "system": ("system-prompt",)}
"""Which parts of a message are its text, by its role."""
PAGE, FEW, SESSIONS_MAX = 100, 4, 1_000
HEADS_MAX = 1_000
"""Conversations of which is remembered where their newest entry is."""
RECORDS = TypeAdapter(ConversationRecord)


class Store(ConversationStore):
    """The conversations of one user. A fork copies the history it keeps; deleting forgets all of a conversation."""

    def __init__(self, user: UserHandle) -> None:
        self._user = user
        self._heads: dict[str, str] = {}
        self._bridge = Bridge()

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        record = await self._bridge.wait(self._user, lambda user: _record(user.session(conversation_id)))
        if record is not None and record.head_id is not None:
            if len(self._heads) > HEADS_MAX:
                self._heads.clear()
            self._heads[record.head_id] = conversation_id
        return record

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        found = await self._bridge.wait(self._user, _records)
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


async def _newest(session: Session, first: int = PAGE) -> AsyncIterator[Message]:
    """The messages, newest first; `first` are wanted for sure."""
    after: str | None = None
    limit = first
    while True:
        page, after = await session.messages(limit=limit, newest_first=True, after=after)
        limit = PAGE
        for message in page:
            yield message
        if after is None:
            return


async def _record(session: Session) -> ConversationRecord | None:
    """What was saved last of the conversation as a whole."""
    async for message in _newest(session, first=FEW):
        shell = shell_of(NAME, message, from_json)
        if isinstance(shell, dict) and "record" in shell:
            return RECORDS.validate_python(shell["record"])
    return None


async def _records(user: User) -> list[ConversationRecord]:
    sessions = await user.sessions(limit=SESSIONS_MAX)
    found = [await _record(user.session(session.id)) for session in sessions]
    return [record for record in found if record is not None]


async def _history(user: User, head_id: str, limit: int | None, home: str | None = None) -> list[ConversationEntry]:
    """The entries up to the head, oldest first, without those whose life is over and those that were set aside.

    `home` is the session where the head was seen; it is looked for where it is not there any longer.
    """
    chain = await _chain(user.session(home), head_id, limit) if home is not None else None
    if chain is None:
        head = await _find(user, head_id)
        chain = await _chain(user.session(head.scope.session), head_id, limit) if head is not None else None
    if chain is None:
        raise LookupError("there is no such entry")
    return _entries(chain)[::-1]


async def _chain(session: Session, head_id: str, limit: int | None) -> dict[str, dict[str, Any]] | None:
    """What was kept of the entries from the head back, by their ids; None where the head is not in the session."""
    seen: dict[str, dict[str, Any]] = {}
    aside: set[Any] = set()
    chain: dict[str, dict[str, Any]] = {}
    wanted: str | None = head_id
    async for message in _newest(session, first=min(limit or PAGE, PAGE)):
        if message.trust == "quarantined":
            aside.add(message.metadata.get(ENTRY))
        kept = _kept(message)
        if kept is not None:
            seen[str(message.metadata[ENTRY])] = kept
        while wanted in seen and len(chain) != limit:
            found = seen.pop(wanted)
            if wanted not in aside:
                chain[wanted] = found
            elif chain:  # each follows the one before those that were set aside
                next(reversed(chain.values()))["parent_id"] = found["parent_id"]
            wanted = found["parent_id"]
        if wanted is None or len(chain) == limit:
            break
    return None if wanted == head_id else chain


async def _find(user: User, entry_id: str) -> Record | None:
    """The message that an entry is: nearly always the one with its id."""
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
    """Store entries and record in one commit, if the conversation still is as the caller knows it."""
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
    """Write the messages, the last of them with the record; of two writers who know the same, one comes first."""
    holder = _holding(given, RECORDS.dump_python(record, mode="json"))
    if expected is None:
        # A new conversation has no revision to hold on to: whose record is there first has made it.
        holder["id"] = derived_id(NAME, session.id)
    *earlier, last = pieces(given)
    ids = [message["id"] for piece in earlier for message in piece]
    ours = set(ids) - await _there(user, ids)
    for piece in earlier:
        await session.add_messages(piece)
    key = derived_id(NAME, session.id, expected) if expected is not None else None
    try:
        await session.add_messages(last, idempotency_key=key)
    except Conflict:
        await _withdraw(user, session, ours)
        raise


async def _there(user: User, ids: Sequence[str]) -> set[str]:
    return {record.id for piece in pieces(ids) for record in await user.get_memories(piece)}


async def _withdraw(user: User, session: Session, ids: set[str]) -> None:
    """Take back what was written before another writer turned out to be first, but for what is in both."""
    stored = await _record(session)
    kept = await _history(user, stored.head_id, None) if stored is not None and stored.head_id else []
    both = {message["id"] for message in to_stored(kept)}
    await in_pieces(user.forget, sorted(await _there(user, sorted(ids - both))))


def _holding(given: list[dict[str, Any]], record: dict[str, Any]) -> dict[str, Any]:
    """The last message, with the record in its shell; one of its own where there is none, or no room in it."""
    kept = given[-1]["metadata"].get(NAME) if given else None
    if kept is not None:
        # The shell is the text of an object: one member more is written behind the others.
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
    """Entries as what `add_messages` takes."""
    written = ModelMessagesTypeAdapter.dump_python([entry.message for entry in entries], mode="json")
    return [given for entry, message in zip(entries, written, strict=True) for given in _messages(entry, message)]


def _messages(entry: ConversationEntry, message: dict[str, Any]) -> list[dict[str, Any]]:
    """An entry as it is stored: itself, and one for each further result of a tool, as each answers a call."""
    results = [part for part in message["parts"] if part["part_kind"] == "tool-return"]
    calls = _calls(message)
    role = _role(message)
    texts = _hollow(message, role)
    shell = {"entry": {"parent_id": entry.parent_id, "message": message, "texts": len(texts)}}
    given = arguments(NAME, role, texts, shell, empty="" if calls else "[empty]")
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


def _kept(message: Message) -> dict[str, Any] | None:
    """What was kept of an entry beside its texts, with the texts in it again."""
    shell = shell_of(NAME, message, from_json)
    kept: dict[str, Any] | None = shell.get("entry") if isinstance(shell, dict) else None
    if kept is None:
        return None
    waiting = iter(texts_of(message)[: kept["texts"]])
    for part in kept["message"]["parts"]:
        if part["part_kind"] in SPOKEN[message.role] and part.get("content") == HOLE:
            part["content"] = next(waiting, HOLE)
    return kept


def _entries(kept: dict[str, dict[str, Any]]) -> list[ConversationEntry]:
    """Entries by their ids, all read at once: to begin reading costs more than to read a message."""
    said = ModelMessagesTypeAdapter.validate_json(to_json([each["message"] for each in kept.values()]))
    return [
        ConversationEntry(id=id, parent_id=each["parent_id"], message=message)
        for (id, each), message in zip(kept.items(), said, strict=True)
    ]


def _role(message: dict[str, Any]) -> str:
    if message["kind"] == "response":
        return "assistant"
    kinds = {part["part_kind"] for part in message["parts"]}
    return "user" if "user-prompt" in kinds else "tool" if "tool-return" in kinds else "system"


def _hollow(message: dict[str, Any], role: str) -> list[str]:
    """Take the texts out of a message; what says nothing keeps them, so that a hole is never mistaken."""
    parts = [part for part in message["parts"] if part["part_kind"] in SPOKEN[role]]
    if role == "tool":
        parts = parts[:1]  # the others are messages of their own
    said = [part for part in parts if isinstance(part.get("content"), str)]
    texts = [part["content"] for part in said]
    if not any(text.strip() for text in texts):
        return []
    for part in said:
        part["content"] = HOLE
    return texts


def _calls(message: dict[str, Any]) -> list[Call]:
    parts = [part for part in message["parts"] if part["part_kind"] == "tool-call" and may_be_id(part["tool_call_id"])]
    calls = {part["tool_call_id"]: part for part in parts}
    return [Call(id, part["tool_name"], _arguments(part["args"])) for id, part in calls.items()]


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)


def _told(part: dict[str, Any]) -> str:
    content = part["content"] if isinstance(part["content"], str) else json.dumps(part["content"], ensure_ascii=False)
    return content if content.strip() else "[empty]"
