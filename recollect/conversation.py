"""Messages of a session: records and their job, in one commit.

Appending writes new records and nothing else, so any number of writers can share a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from recollect import contents, validate
from recollect.errors import Conflict, ValidationError
from recollect.filters import Filter
from recollect.ledger import Ledger
from recollect.policies.commands import gives_orders
from recollect.policies.shells import readable
from recollect.policies.tokens import TokenCounter, message_tokens
from recollect.records import (
    BLANK,
    Changes,
    Partition,
    Record,
    Scope,
    as_datetime,
    derived_id,
    enrich_job,
    iso,
    new_id,
    without_data,
)
from recollect.settings import Settings

NOTED = ("quarantined", "unlearned")
"""What is added to the data of a message after it was stored."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a session, as it was said."""

    role: str
    content: str | list[dict[str, Any]]
    id: str = ""
    name: str | None = None
    created_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    trust: str = "trusted"

    def __repr__(self) -> str:
        more = {"name": self.name, "metadata": self.metadata, "tool_calls": self.tool_calls}
        more |= {"tool_call_id": self.tool_call_id, "trust": "" if self.trust == "trusted" else self.trust}
        told = "".join(f", {name}={value!r}" for name, value in more.items() if value)
        return f"Message({self.role!r}, {self.content!r}, id={self.id!r}{told})"

    @classmethod
    def from_record(cls, record: Record) -> Message:
        data = record.data
        # Callers may change what they get, so nothing in it may be shared with an index.
        return cls(
            role=data["role"],
            content=deepcopy(data["parts"]) if "parts" in data else record.content,
            id=record.id,
            name=data.get("name"),
            created_at=as_datetime(record.when),
            metadata=dict(record.metadata),
            tool_calls=deepcopy(data["tool_calls"]) if "tool_calls" in data else None,
            tool_call_id=data.get("tool_call_id"),
            trust=record.trust,
        )

    def to_openai(self) -> dict[str, Any]:
        """The message in the form that chat models take."""
        out: dict[str, Any] = {"role": self.role, "content": self.content}
        for key in ("name", "tool_calls", "tool_call_id"):
            value = getattr(self, key)
            if value is not None:
                out[key] = value
        return out

    def to_dict(self) -> dict[str, Any]:
        """The message as documented JSON."""
        out = self.to_openai() | {"id": self.id, "metadata": dict(self.metadata), "trust": self.trust}
        out["created_at"] = iso(self.created_at)
        return out


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as it appears in a list."""

    id: str
    title: str
    agent: str
    messages: int
    created_at: datetime
    last_activity: datetime
    parent: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "agent": self.agent,
            "messages": self.messages,
            "created_at": iso(self.created_at),
            "last_activity": iso(self.last_activity),
            "parent": self.parent,
        }


def draft(
    role: str,
    content: Any,
    *,
    id: str | None = None,
    name: str | None = None,
    created_at: Any = None,
    metadata: Any = None,
    tool_calls: Any = None,
    tool_call_id: str | None = None,
    trust: str | None = None,
) -> Record:
    """A checked message on its way to a session: it has no owner and no time yet.

    What a tool says is untrusted whatever the caller says, and so are orders to the machine; everything else is
    untrusted only if the caller says so.
    """
    checked_role = validate.role(role)
    calls = contents.tool_calls(tool_calls) if tool_calls is not None else None
    if calls and checked_role != "assistant":
        raise ValidationError("only an assistant calls tools", field="tool_calls")
    if tool_call_id is not None and checked_role != "tool":
        raise ValidationError("only a tool message answers a call", field="tool_call_id")
    body = contents.content(content, may_be_empty=bool(calls))
    data: dict[str, Any] = {"role": checked_role}
    optional = {
        "parts": body.parts,
        "name": validate.optional_identifier(name, "name"),
        "tool_calls": calls,
        "tool_call_id": validate.optional_identifier(tool_call_id, "tool_call_id"),
    }
    data.update({key: value for key, value in optional.items() if value is not None})
    return BLANK.with_(
        id=validate.optional_identifier(id, "id") or "",
        layer="conversation",
        content=body.text,
        data=data,
        metadata=validate.metadata(metadata),
        event_at=validate.moment(created_at, "created_at"),
        trust=_trust(checked_role, body.text, body.parts, trust),
    )


def _trust(role: str, text: str, parts: Sequence[Mapping[str, Any]] | None, given: str | None) -> str:
    chosen = "trusted" if given is None else validate.choice(given, ("trusted", "untrusted"), "trust")
    by_tool = role == "tool" or any(part.get("type") == "tool_result" for part in parts or ())
    return "untrusted" if by_tool or (role == "user" and gives_orders(text)) else chosen


class Conversation:
    """The messages of one session."""

    def __init__(self, ledger: Ledger, scope: Scope, settings: Settings) -> None:
        self._ledger = ledger
        self._scope = scope
        self._partition = scope.partition
        self._settings = settings
        self._layer = ledger.layers["conversation"]

    # ── in ───────────────────────────────────────────────────────────────────────────────────────

    async def append(
        self, drafts: Sequence[Record], key: str | None = None, needs: tuple[str, ...] = ()
    ) -> list[Record]:
        """Append messages in one commit, with the job that enriches them. Appending them twice stores them once, also
        within one call.

        `needs` names messages that must still be there.
        """
        now = self._ledger.clock()
        scope, masked = self._layer.scope_of(self._scope), self._ledger.masked_record
        every = [self._owned(masked(draft), scope, now, key, place) for place, draft in enumerate(drafts)]
        records = _each_once(every)
        if len(records) < len(every):
            stored = {record.id: record for record in await self._append_new(records, key, needs, now)}
            return [stored[record.id] for record in every]
        return await self._append_new(records, key, needs, now)

    async def _append_new(
        self, records: tuple[Record, ...], key: str | None, needs: tuple[str, ...], now: int
    ) -> list[Record]:
        """The same for messages with ids of their own."""
        refs = tuple([record.id for record in records])
        job = enrich_job(self._partition, refs, now)
        changes = Changes(self._partition, put=records, enqueue=(job,), key=key and f"caller:{key}", needs=needs)
        try:
            revision = await self._ledger.commit(changes)
        except Conflict as conflict:
            if conflict.field == "needs":
                raise Conflict("the message this replies to is gone", field="reply_to") from None
            return await self._already_there(records, key, conflict)
        return [record.with_(version=revision, born=(revision, place)) for place, record in enumerate(records)]

    def _owned(self, message: Record, scope: Scope, now: int, key: str | None, place: int) -> Record:
        id = message.id
        if not id:
            id = new_id(now) if key is None else derived_id("message", self._scope.session, key, str(place))
        return message.with_(id=id, scope=scope, created_at=now, expires_at=self._layer.expires_at(now))

    async def _already_there(self, records: Sequence[Record], key: str | None, conflict: Conflict) -> list[Record]:
        """Return the stored messages if the same ones are sent again; anything else is a conflict."""
        known = {record.id: record for record in await self._ledger.get(self._partition, [r.id for r in records])}
        same = all(_said(known[record.id]) == _said(record) for record in records if record.id in known)
        if same and len(known) == len(records):
            await self._live_as_long(known.values())
            return [known[record.id] for record in records]
        if conflict.field == "key":
            raise Conflict(
                "this idempotency key was used for other messages, or they are gone", field="idempotency_key"
            )
        if not known or not same:
            raise Conflict("a message with this id already exists, with different content", field="id")
        # Sent again with more appended: only what is new is stored.
        await self._live_as_long(known.values())
        added = await self.append([record for record in records if record.id not in known], key)
        stored = known | {record.id: record for record in added}
        return [stored[record.id] for record in records]

    async def _live_as_long(self, known: Iterable[Record]) -> None:
        """Let messages that are sent again live as long as if today's settings had held when they were stored."""

        def extended(message: Record) -> Record:
            due, until = self._layer.expires_at(message.created_at), message.expires_at
            longer = until is not None and (due is None or due > until)
            return message.with_(expires_at=due) if longer else message

        brief = [message.id for message in known if extended(message) is not message]
        if brief:
            await self._ledger.change_each(self._partition, brief, extended)

    # ── the session as a whole ───────────────────────────────────────────────────────────────────

    async def export(self) -> dict[str, Any]:
        """The conversation in its documented format."""
        where = said_in(self._partition, self._scope.session)
        messages = [Message.from_record(record).to_openai() async for record in self._ledger.walk(where)]
        return {
            "session_id": self._scope.session,
            "messages": messages,
            "window_strategy": self._settings.window_strategy,
            "max_tokens": self._settings.window_tokens,
        }

    async def rename(self, title: str) -> None:
        """Give the session a title."""
        text = self._ledger.masked(validate.text(title, "title", validate.LIMITS.title_bytes))
        fresh = self._ledger.layers["session"].new_head(self._scope, self._ledger.clock())

        def decide(head: Record | None, now: int) -> Changes:
            return Changes(self._partition, put=((head or fresh).with_(content=text),))

        await self._ledger.update(self._partition, fresh.id, decide)

    async def title(self) -> str | None:
        """The title that the session was given, or None."""
        return (await session_head(self._ledger, self._scope)).content or None


def said_in(partition: Partition, session: str) -> Filter:
    """The messages of a session."""
    return Filter(partition, layers=("conversation",), session=session)


async def session_head(ledger: Ledger, scope: Scope) -> Record:
    """The head of a session, which holds what is known about it as a whole; a new one if nothing is known yet."""
    fresh = ledger.layers["session"].new_head(scope, ledger.clock())
    found = await ledger.get(scope.partition, [fresh.id])
    return found[0] if found else fresh


def spoken(record: Record) -> str:
    """Everything in a message that a model has to read: its text or its parts, its name and its tool calls."""
    data = record.data
    said = str([readable(part) for part in data["parts"]]) if "parts" in data else record.content
    if len(data) == 1:
        return said
    return said + "".join(str(data[key]) for key in ("name", "tool_calls", "tool_call_id") if data.get(key))


def tokens_of(message: Record, count: TokenCounter) -> int:
    """What a message costs in a prompt."""
    return message_tokens(count, message.data["role"], spoken(message))


def _each_once(messages: Sequence[Record]) -> tuple[Record, ...]:
    """The messages without repetitions. Of two different ones with one id, neither is stored."""
    kept: dict[str, Record] = {}
    for place, message in enumerate(messages):
        first = kept.setdefault(message.id, message)
        if first is not message and _said(first) != _said(message):
            raise ValidationError("another message of this call has this id", field=f"messages.{place}.id")
    return tuple(kept.values())


def _said(record: Record) -> tuple[Any, ...]:
    """What a caller means by a message: everything but times and what was noted about it since."""
    return record.content, without_data(record, *NOTED).data, record.metadata, record.scope.session
