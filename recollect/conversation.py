"""Messages in (records and their job, one commit), windows out.

Appending writes new records and nothing else, so any number of writers can share a session. A
window reads from the newest message back and stops when it has enough, so it costs only its own size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from recollect import validate
from recollect.enrich import summaries
from recollect.errors import Conflict, NotFound, ValidationError
from recollect.filters import Filter
from recollect.ledger import Ledger, portions
from recollect.pace import apart
from recollect.policies import fitting
from recollect.policies.commands import gives_orders
from recollect.policies.fencing import fenced, safe
from recollect.policies.quarantine import ASIDE, heard, is_aside
from recollect.policies.shells import readable
from recollect.policies.tokens import TokenCounter, message_tokens
from recollect.records import (
    BLANK,
    TRUSTS,
    Changes,
    Job,
    Record,
    Scope,
    as_datetime,
    derived_id,
    enrich_job,
    enrich_jobs,
    iso,
    new_id,
    with_data,
    without_data,
)
from recollect.seals import find_seal, sealed
from recollect.settings import Settings
from recollect.stores.contract import PAYLOAD_MAX_BYTES

if TYPE_CHECKING:
    from recollect.index import PartitionIndex

STRATEGIES = ("last_messages", "last_turns", "token_budget", "sliding_window_summary", "importance")
NOTED = ("quarantined", "unlearned")
"""What is added to the data of a message after it was stored."""
BRANCHING = "branching"
"""In the head of a session: the message up to which it is still being copied from its parent."""
ANCESTORS = "ancestors"
"""In the head of a branch: the sessions that its parent branched off from, the nearest first. They may be deleted."""
RETOLD = "retold"
"""In the data of a running summary: what a model wrote, up to which message, and which model it was."""
TOOL_SLACK = 16
"""Messages read beyond a window so that a tool result at its edge still finds its call."""
IMPORTANCE_REACH = 4
"""The window by importance considers this many times its size of the newest messages."""
UNFOLDED_WINDOWS = 2
"""Windows of messages that are read for a context even if they have not been folded into the summary yet."""
FOLDED_CHARACTERS = 40
"""Characters whose folding takes as long as a unit of `pace.py`: every sentence is weighed and compared with others."""
FOLD_PAGE = 500
"""Messages that are folded, or read for a window, in one go: more would hold up everything else."""


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
    calls = validate.tool_calls(tool_calls) if tool_calls is not None else None
    if calls and checked_role != "assistant":
        raise ValidationError("only an assistant calls tools", field="tool_calls")
    if tool_call_id is not None and checked_role != "tool":
        raise ValidationError("only a tool message answers a call", field="tool_call_id")
    body = validate.content(content, may_be_empty=bool(calls))
    data: dict[str, Any] = {"role": checked_role}
    optional = {
        "parts": body.parts,
        "name": validate.name(name),
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

    def __init__(self, ledger: Ledger, scope: Scope, settings: Settings, count: TokenCounter) -> None:
        self._ledger = ledger
        self._scope = scope
        self._partition = scope.partition
        self._settings = settings
        self._count = count
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

    # ── out ──────────────────────────────────────────────────────────────────────────────────────

    async def window(
        self,
        strategy: str | None = None,
        *,
        messages: int | None = None,
        turns: int | None = None,
        tokens: int | None = None,
    ) -> list[Record]:
        """The newest part of the conversation, in order; every limit that is given applies.

        A strategy sets the limit that it is named after, unless that is given. With
        `sliding_window_summary` the summary of what is older comes first, as a system message of
        its own; the limits apply to the messages after it. What was set aside is in no window.
        """
        for name, value in (("messages", messages), ("turns", turns)):
            if value is not None:
                validate.limit(value, name)
        if tokens is not None:
            validate.tokens_max(tokens, "tokens")
        if strategy is None:
            strategy = "last_messages" if messages is None and turns is None and tokens is None else "limits"
        else:
            validate.choice(strategy, STRATEGIES, "strategy")
        if strategy == "sliding_window_summary":
            return await self._summarised(messages, turns, tokens)
        if strategy in ("last_messages", "importance"):
            messages = messages if messages is not None else self._settings.window_messages
        elif strategy == "last_turns":
            turns = turns if turns is not None else self._settings.window_turns
        elif strategy == "token_budget":
            tokens = tokens if tokens is not None else self._settings.window_tokens
        found = await self._newest(strategy, messages, turns, tokens)
        if strategy == "importance" and messages is not None:
            found = fitting.most_important(found, messages)
        elif messages is not None:
            found = fitting.last_messages(found, messages)
        if turns is not None:
            found = fitting.last_turns(found, turns)
        if tokens is not None:
            found = fitting.newest_within(found, tokens, self.tokens_of)
        return fitting.without_orphans(found)

    async def _newest(self, strategy: str, messages: int | None, turns: int | None, tokens: int | None) -> list[Record]:
        """The newest messages, from far enough back to be sure of every limit, in order."""
        reach = (messages or 0) * (IMPORTANCE_REACH if strategy == "importance" else 1)
        found: list[Record] = []
        after = None
        said = size = 0  # counted page by page: a large budget reads hundreds of pages
        while True:
            limit = min((reach or 50) + TOOL_SLACK, 500)
            page = await self._ledger.list(self._all(), newest_first=True, limit=limit, after=after)
            older, after = heard(page.records), page.after
            found.extend(older)
            said += sum(record.data["role"] == "user" for record in older)
            size += 0 if tokens is None else sum(map(self.tokens_of, older))
            enough = (
                (bool(messages) and len(found) >= reach + TOOL_SLACK)
                or (turns is not None and said > turns)
                or (tokens is not None and size > 2 * tokens)
            )
            if after is None or enough:
                return found[::-1]

    async def _summarised(self, messages: int | None, turns: int | None, tokens: int | None) -> list[Record]:
        """The running summary and the messages after it; folds further, for this answer alone, if need be."""
        record, where = await self._unfolded()
        newest = await self._ledger.list(where, newest_first=True, limit=FOLD_PAGE)
        since = heard(newest.records[::-1])
        split = await apart(lambda: self._split(since, messages, turns, tokens), _folding(since))
        kept = fitting.without_orphans(split.kept)
        if record is None and not split.older:
            return kept
        text = await self._told_with(record, split.older)
        if not text:  # instructions and output of tools alone: there is nothing to tell about them
            return kept
        return [self._summary_message(text, record, split.older), *kept]

    async def _told_with(self, record: Record | None, older: Sequence[Record]) -> str:
        """The text of a summary with more folded into it; what a model wrote stays as it is, before the rest."""
        if record is None or not older:
            return record.content if record else (await self._fold(None, older)).text
        if is_retold(record):
            return "\n".join(filter(None, (record.content, (await self._fold(None, older)).text)))
        return (await self._fold(summaries.from_data(record.data["summary"]), older)).text

    def _split(
        self, since: Sequence[Record], messages: int | None, turns: int | None, tokens: int | None
    ) -> fitting.Split:
        """Split off what has to go into the summary so that the rest keeps within every given limit."""
        kept: Sequence[Record] = since
        if messages is not None:
            kept = fitting.split_by_count(kept, over=messages, keep=max(1, messages // 2)).kept
        if turns is not None:
            kept = fitting.last_turns(kept, turns)
        if tokens is not None or (messages is None and turns is None):
            kept = self._within(kept, tokens or self._settings.window_tokens).kept
        border = next((place for place, message in enumerate(since) if kept and message is kept[0]), len(since))
        return fitting.Split(tuple(since[:border]), tuple(kept))

    def _within(self, messages: Sequence[Record], tokens_max: int) -> fitting.Split:
        """Split off the older half, repeatedly, until the rest fits."""
        split = fitting.split_by_tokens(messages, tokens_max, self.tokens_of)
        older = split.older
        while split.older:
            split = fitting.split_by_tokens(split.kept, tokens_max, self.tokens_of)
            older += split.older
        return fitting.Split(older, split.kept)

    def _summary_message(self, text: str, record: Record | None, more: Sequence[Record]) -> Record:
        covers = _covers(record, more)
        return Record(
            id=self.summary_id,
            layer="conversation",
            scope=self._scope,
            content=fenced([f"Summary of the conversation so far:\n{safe(text)}"]),
            data={"role": "system"},
            metadata={"covers": covers},
            created_at=self._ledger.clock(),
        )

    async def recent(self, tokens_max: int, index: PartitionIndex) -> tuple[Record | None, list[Record]]:
        """The newest messages that a budget may hold, and the running summary of what came before them.

        They begin where the summary ends, not where the budget does, so that the caller can cut them at the same
        place turn after turn.
        """
        now = self._ledger.clock()
        head = index.head("session", self._scope, now)
        if head is not None and ASIDE in head.data:
            return None, []  # including messages that nobody has looked at yet
        strategy = self._settings.window_strategy
        if strategy != "sliding_window_summary":
            kept = fitting.newest_within(await self.window(strategy), tokens_max, self.tokens_of)
            return None, fitting.without_orphans(kept, pending=False)
        summary = index.head("summary", self._scope, now)
        born = tuple(summary.data["covers"]["born"]) if summary else (0, 0)
        newest: list[Record] = []
        sizes: dict[str, int] = {}
        room = tokens_max = max(tokens_max, UNFOLDED_WINDOWS * self._settings.window_tokens)
        for message in index.newest(self._scope.session, now, after=born):
            if is_aside(message):
                continue
            newest.append(message)
            sizes[message.id] = self.tokens_of(message)
            room -= sizes[message.id]
            if room < 0 and message.data["role"] == "user":
                break  # a tool call comes after the user message that led to it
        kept = fitting.newest_within(newest[::-1], tokens_max, lambda message: sizes[message.id])
        return summary, fitting.without_orphans(kept, pending=False)

    # ── the running summary ──────────────────────────────────────────────────────────────────────

    @property
    def summary_id(self) -> str:
        return self._ledger.layers["summary"].head_id(self._scope)

    def tokens_of(self, record: Record) -> int:
        return message_tokens(self._count, record.data["role"], spoken(record))

    async def compress(self) -> bool:
        """Fold the first half of what is not yet summarised, even if others do too. False if there is none."""
        return await self._ledger.commit_decided(lambda: self.fold(force=True)) is not None

    async def fold(self, *, force: bool = False) -> Changes | None:
        """The change that folds the older part of a history that is too long into the running summary.

        It continues from the last summary and never reads what that covers. With `force` it folds
        even a short history. None if there is nothing to fold.
        """
        return await sealed(self._ledger, self._partition, lambda: self._folded(force))

    async def _folded(self, force: bool) -> Changes | None:
        record, where = await self._unfolded()
        page = await self._ledger.list(where, limit=FOLD_PAGE)
        since = page.records
        if page.after is not None:  # too long for one go: the rest is left to the next job
            older = tuple(message for unit in fitting.units(since)[:-1] for message in unit)
        elif force:
            older = (await apart(lambda: fitting.split_by_tokens(since, 1, self.tokens_of), _folding(since))).older
        else:
            older = (await apart(lambda: self._within(since, self._settings.window_tokens), _folding(since))).older
        if not older:
            return None
        previous = summaries.from_data(record.data["summary"]) if record else None
        now = self._ledger.clock()
        layer = self._ledger.layers["summary"]
        summary = await self._fold(previous, older)
        sources = [*heard(older), *([record] if record else [])]
        made = Record(
            id=self.summary_id,
            layer="summary",
            scope=layer.scope_of(self._scope),
            content=summary.text,
            data={"summary": summaries.to_data(summary), "covers": _covers(record, older)} | _retold(record),
            created_at=record.created_at if record else now,
            trust=min((source.trust for source in sources), key=TRUSTS.index, default="trusted"),
            version=record.version if record else 0,
        )
        more = (fold_job(self._scope, now),) if page.after is not None else ()
        return Changes(self._partition, put=(made,), needs=tuple(message.id for message in older), enqueue=more)

    async def _fold(self, previous: summaries.Summary | None, older: Sequence[Record]) -> summaries.Summary:
        fold = partial(summaries.fold, previous, older, tokens_max=self._settings.summary_tokens, count=self._count)
        return await apart(fold, _folding(older))

    async def _unfolded(self) -> tuple[Record | None, Filter]:
        """The running summary, and a filter for the messages it does not cover."""
        found = await self._ledger.get(self._partition, [self.summary_id])
        record = found[0] if found and found[0].layer == "summary" else None
        born = tuple(record.data["covers"]["born"]) if record else None
        return record, replace(self._all(), born_after=born)

    # ── the session as a whole ───────────────────────────────────────────────────────────────────

    def _all(self) -> Filter:
        return Filter(self._partition, layers=("conversation",), session=self._scope.session)

    async def export(self) -> dict[str, Any]:
        """The conversation in its documented format."""
        messages = [Message.from_record(r).to_openai() async for r in self._ledger.walk(self._all())]
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
        return (await self._head()).content or None

    async def branch(self, message_id: str, into: Scope) -> int:
        """Copy the conversation up to and including a message into a new session. Returns how many were copied."""
        last = await self._ledger.one(self._partition, message_id, "message_id")
        if last.layer != "conversation" or last.scope.session != self._scope.session:
            raise NotFound(field="message_id")
        target = Conversation(self._ledger, into, self._settings, self._count)
        seal = await find_seal(self._ledger, self._partition, [last.id])
        where = replace(self._all(), born_before=(last.born[0], last.born[1] + 1))
        originals = {target._copy_of(record).id: record async for record in self._ledger.walk(where)}
        copies = [target._copy_of(record) for record in originals.values()]
        there = {record.id async for record in self._ledger.walk(target._all())}
        head = await target._head()
        # An interrupted branch records how far it was meant to go: the same call resumes it.
        goes_on = (head.data.get("parent"), head.data.get(BRANCHING)) == (self._scope.session, message_id)
        if there - {copy.id for copy in copies} or (there and "parent" in head.data and not goes_on):
            raise Conflict("the new session already has messages; choose another id", field="session")
        missing = [copy for copy in copies if copy.id not in there]
        above = (await self._head()).data
        line = {ANCESTORS: [above["parent"], *above.get(ANCESTORS, ())] if "parent" in above else []}
        pieces = list(portions(missing, bytes_max=PAYLOAD_MAX_BYTES // 2)) or [[]]  # with room for the head beside them
        for place, piece in enumerate(pieces, start=1):
            # The mark is written with the first copies, because forgetting a message finds its copies through it.
            mark = {"parent": self._scope.session} | line | ({BRANCHING: message_id} if place < len(pieces) else {})
            head = await target._head()
            put = (*piece, with_data(without_data(head, BRANCHING), **mark))
            # What is forgotten or set aside during the copying must not live on in the copy.
            needs = (seal, *(originals[copy.id].id for copy in piece))
            changes = Changes(self._partition, put=put, enqueue=target._enriching(piece), needs=needs)
            await self._ledger.commit(changes)
        return len(copies)

    def _enriching(self, copies: Sequence[Record]) -> tuple[Job, ...]:
        """The job for copies of messages that were not enriched yet."""
        refs = tuple(copy.id for copy in copies if copy.vector is None)
        return enrich_jobs(self._partition, refs, self._ledger.clock())

    async def _head(self) -> Record:
        return await session_head(self._ledger, self._scope)

    def _copy_of(self, record: Record) -> Record:
        now = self._ledger.clock()
        return record.with_(
            id=copy_id(self._scope.session, record.id),
            scope=self._layer.scope_of(self._scope),
            created_at=now,
            event_at=record.when,
            expires_at=self._layer.expires_at(now),
            version=0,
        )


async def session_head(ledger: Ledger, scope: Scope) -> Record:
    """The head of a session, which holds what is known about it as a whole; a new one if nothing is known yet."""
    fresh = ledger.layers["session"].new_head(scope, ledger.clock())
    found = await ledger.get(scope.partition, [fresh.id])
    return found[0] if found else fresh


def copy_id(session: str, message_id: str) -> str:
    """The id of a message's copy in a session that branched off."""
    return derived_id("branch", session, message_id)


def spoken(record: Record) -> str:
    """Everything in a message that a model has to read: its text or its parts, its name and its tool calls."""
    data = record.data
    said = str([readable(part) for part in data["parts"]]) if "parts" in data else record.content
    if len(data) == 1:
        return said
    return said + "".join(str(data[key]) for key in ("name", "tool_calls", "tool_call_id") if data.get(key))


def _folding(messages: Sequence[Record]) -> int:
    """What it costs to fold these messages, in the units of `pace.py`."""
    return sum([len(message.content) for message in messages]) // FOLDED_CHARACTERS


def fold_job(scope: Scope, now: int) -> Job:
    """The job that folds a session that has grown too long. There is only one at a time."""
    return Job(f"fold:{derived_id(scope.session)}", scope.partition, "fold", (scope.session, scope.agent), due_at=now)


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


def is_retold(summary: Record) -> bool:
    """Whether a model has put everything that a summary covers into its own words."""
    return bool(_retold(summary).get(RETOLD, {}).get("to") == summary.data["covers"]["to"])


def _retold(summary: Record | None) -> dict[str, Any]:
    """What a model wrote about an earlier part, from which it continues."""
    return {RETOLD: summary.data[RETOLD]} if summary is not None and RETOLD in summary.data else {}


def _covers(record: Record | None, older: Sequence[Record]) -> dict[str, Any]:
    """Which messages a summary stands for: the first, the last, how many, and where the log continues."""
    before = record.data["covers"] if record else None
    if not older:
        return dict(before or {})
    return {
        "from": before["from"] if before else older[0].id,
        "to": older[-1].id,
        "count": (before["count"] if before else 0) + len(older),
        "since": before["since"] if before else iso(older[0].when),
        "until": iso(older[-1].when),
        "born": list(older[-1].born),
    }
