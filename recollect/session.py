"""The handle of one conversation: messages in, windows and contexts out.

Each verb is a few lines: validate the arguments, then pass them to the part of the flow that does the work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from recollect import conversation, validate
from recollect.arguments import call, key
from recollect.branches import branch
from recollect.context_policy import ContextPolicy
from recollect.conversation import Conversation, Message, SessionInfo, said_in
from recollect.customizations import Customization, Customizations
from recollect.episodes import Episode
from recollect.errors import NotFound, ValidationError
from recollect.handles import Handle, told_owner
from recollect.policies.quarantine import is_aside
from recollect.records import Hit, Record, Scope, as_datetime
from recollect.windows import Windows
from recollect.working import Working

if TYPE_CHECKING:
    from recollect.context import Context
    from recollect.flow import Flow
    from recollect.index import Activity, PartitionIndex
    from recollect.privacy import Receipt
    from recollect.user import User


class Session(Handle):
    """One conversation of a user with an agent: `chat = ann.session("monday", agent="support")`."""

    def __init__(self, flow: Flow, scope: Scope, user: User) -> None:
        self._flow = flow
        self._scope = scope
        self._user = user
        self._conversation = Conversation(flow.ledger, scope, flow.settings)

    def __repr__(self) -> str:
        return f"<Session {self.id!r} of {told_owner(replace(self._scope, session=''))}>"

    @property
    def _windows(self) -> Windows:
        return Windows(self._flow.ledger, self._scope, self._flow.settings, self._flow.count)

    @property
    def id(self) -> str:
        return self._scope.session

    @property
    def user(self) -> User:
        """The handle of the user this session belongs to."""
        return self._user

    @property
    def working(self) -> Working:
        """Working memory: the state of the task at hand."""
        return Working(self._flow.ledger, self._scope)

    # ── messages in ──────────────────────────────────────────────────────────────────────────────

    async def add_message(
        self,
        role: str,
        content: str | list[dict[str, Any]] | None,
        *,
        id: str | None = None,
        name: str | None = None,
        created_at: Any = None,
        metadata: Mapping[str, Any] | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        tool_call_id: str | None = None,
        trust: str | None = None,
        reply_to: str | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """Store a message. When this returns, it is kept; sent twice with the same id or key, it is stored once.

        With `trust="untrusted"` nothing is learned from it, as with all tool output. With `reply_to`, the id of
        another message, it raises `Conflict` if that message was forgotten meanwhile, alone or with its user.

        >>> message = await chat.add_message("user", "Where is order 17?", metadata={"page": "orders"})
        >>> message.role, message.content
        ('user', 'Where is order 17?')
        """
        draft = conversation.draft(
            role, content, id=id, name=name, created_at=created_at, metadata=metadata, tool_calls=tool_calls,
            tool_call_id=tool_call_id, trust=trust,
        )  # fmt: skip
        needs = () if reply_to is None else (validate.identifier(reply_to, "reply_to"),)
        return (await self._append([draft], idempotency_key, needs))[0]

    async def add_messages(
        self, messages: Sequence[Mapping[str, Any] | Message], *, idempotency_key: str | None = None
    ) -> list[Message]:
        """Store up to 90 messages in one commit, all or none.

        An item is a `Message` or the arguments of `add_message`.

        >>> said = await chat.add_messages([
        ...     {"role": "user", "content": "Where is order 17?"},
        ...     {"role": "assistant", "content": "It was shipped yesterday."},
        ... ])
        >>> len(said)
        2
        """

        def draft(item: Any) -> Record:
            given = _arguments(item) if isinstance(item, Message) else item
            return call(conversation.draft, given, "messages")

        return await self._append(validate.each(messages, draft, "messages"), idempotency_key)

    async def add_interaction(
        self,
        user: str | list[dict[str, Any]],
        assistant: str | list[dict[str, Any]],
        *,
        created_at: Any = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> list[Message]:
        """Store what the user said and what the assistant answered, together or not at all.

        >>> said = await chat.add_interaction("I like dark mode.", "Noted!")
        >>> [message.role for message in said]
        ['user', 'assistant']
        """

        def draft(role: str, content: str | list[dict[str, Any]]) -> Record:
            try:
                return conversation.draft(role, content, created_at=created_at, metadata=metadata)
            except ValidationError as error:
                field = error.field or ""
                raise type(error)(error.message, field=re.sub(r"^content\b", role, field)) from None

        return await self._append([draft("user", user), draft("assistant", assistant)], idempotency_key)

    async def _append(
        self, drafts: Sequence[Record], idempotency_key: str | None, needs: tuple[str, ...] = ()
    ) -> list[Message]:
        records = await self._conversation.append(drafts, key(idempotency_key), needs)
        return [Message.from_record(record) for record in records]

    # ── messages out ─────────────────────────────────────────────────────────────────────────────

    async def window(
        self,
        strategy: str | None = None,
        *,
        messages: int | None = None,
        turns: int | None = None,
        tokens: int | None = None,
    ) -> list[Message]:
        """The newest part of the conversation: `last_messages` (50), `last_turns` (10), `token_budget` (4000),
        `sliding_window_summary` or `importance`; all limits that are given apply.

        >>> said = await chat.add_interaction("I like dark mode.", "Noted!")
        >>> [message.content for message in await chat.window("last_turns", turns=1)]
        ['I like dark mode.', 'Noted!']
        """
        records = await self._windows.window(strategy, messages=messages, turns=turns, tokens=tokens)
        return [Message.from_record(record) for record in records]

    async def messages(
        self, *, limit: int = 100, newest_first: bool = False, after: str | None = None
    ) -> tuple[list[Message], str | None]:
        """A page of the whole conversation, and the cursor of the next page (None at the end).

        >>> said = await chat.add_interaction("I like dark mode.", "Noted!")
        >>> page, after = await chat.messages(limit=100)
        >>> len(page), after is None
        (2, True)
        """
        where = said_in(self._scope.partition, self._scope.session)
        page = await self._flow.ledger.list(
            where, newest_first=bool(newest_first), limit=validate.limit(limit), after=validate.cursor(after)
        )
        return [Message.from_record(record) for record in page.records], page.after

    async def get_context(
        self,
        query: str,
        *,
        max_tokens: int = 4_000,
        layers: Sequence[str] | None = None,
        sections: Sequence[str] | None = None,
        window: int | None = None,
        policy: ContextPolicy | Mapping[str, Any] | None = None,
        at: Any = None,
        quality: str | None = None,
        model: str | None = None,
    ) -> Context:
        """The best context for a question that fits the budget; its `messages` go to any chat model.

        `layers` and `sections` say what it is made of, `window` how many of the newest messages it holds at most.
        `policy` says all of this at once; what is given beside it takes precedence.
        With `model`, tokens are counted as that model does, if its vocabulary is known.

        >>> said = await chat.add_interaction("I like dark mode.", "Noted!")
        >>> context = await chat.get_context("Which theme should I use?", max_tokens=4000)
        >>> [message["role"] for message in context.messages]
        ['user', 'assistant', 'user']
        """
        chosen = ContextPolicy.of(policy, layers=layers, sections=sections, window=window, quality=quality)
        return await self._flow.context(self._scope, self._windows, query, max_tokens, chosen, at, model)

    async def search_memory(
        self,
        query: str,
        *,
        layer: str | Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int = 5,
        at: Any = None,
        quality: str | None = None,
    ) -> list[Hit]:
        """The user's memories that best answer a question; the same as on the user's handle.

        >>> said = await chat.add_interaction("My train leaves at 9:40.", "I will remind you.")
        >>> (await chat.search_memory("When does the train leave?", limit=1))[0].content
        'My train leaves at 9:40.'
        """
        return await self.user.search_memory(query, layer=layer, where=where, limit=limit, at=at, quality=quality)

    # ── the session as a whole ───────────────────────────────────────────────────────────────────

    async def customize(self, text: str, *, id: str | None = None) -> Customization:
        """Add a standing instruction for the agent of this session."""
        return await Customizations(self._flow.ledger, self._scope).add(text, id=id)

    async def close(self) -> list[Episode]:
        """End the conversation, which becomes an episode now. Returns the new episodes.

        >>> said = await chat.add_interaction("I moved to Oslo.", "A fine city!")
        >>> episodes = await chat.close()
        """
        return await self.user.episodes.close(self._scope.session)

    async def compress(self) -> bool:
        """Fold the first half of what is not yet summarised into the running summary now."""
        return await self._windows.summary.compress()

    async def info(self) -> SessionInfo:
        """The session as `sessions` lists it: title, counts, last activity. Raises `NotFound` if it has no messages."""
        index, now = await self._flow.indexes.current(self._scope.partition), self._flow.ledger.clock()
        for activity in index.activity(now, self._scope.session):
            return session_info(index, self._scope, activity, now)
        raise NotFound(field="session")

    async def rename(self, title: str) -> None:
        """Give the session a title."""
        await self._conversation.rename(title)

    async def title(self) -> str | None:
        """The title that the session was given, or None."""
        return await self._conversation.title()

    async def branch(self, message_id: str, into: str) -> Session:
        """Create a session that begins with this one's messages, up to and including that message.

        >>> said = await chat.add_interaction("I like dark mode.", "Noted!")
        >>> plan_b = await chat.branch(said[0].id, into="plan-b")
        """
        scope = replace(self._scope, session=validate.identifier(into, "into"))
        await branch(self._flow.ledger, self._scope, validate.identifier(message_id, "message_id"), scope)
        return Session(self._flow, scope, self._user)

    async def export(self) -> dict[str, Any]:
        """The conversation as `{"session_id", "messages", "window_strategy", "max_tokens"}`.

        >>> said = await chat.add_interaction("I moved to Oslo.", "A fine city!")
        >>> (await chat.export())["messages"][0]
        {'role': 'user', 'content': 'I moved to Oslo.'}
        """
        return await self._conversation.export()

    async def delete(self) -> Receipt:
        """Forget the session: messages, summary, title and working state.

        >>> said = await chat.add_interaction("I like dark mode.", "Noted!")
        >>> (await chat.delete()).forgotten["conversation"]
        2
        """
        privacy = self._flow.privacy(self._scope.partition)
        return await privacy.forget_session(self._scope.session)


def session_info(index: PartitionIndex, owner: Scope, activity: Activity, now: int) -> SessionInfo:
    """A session as it appears in a list."""
    scope = replace(owner, session=activity.session)
    head = index.head("session", scope, now)
    return SessionInfo(
        id=activity.session,
        title=head.content if head and head.content else _opening(index, activity.session, now),
        agent=next(index.newest(activity.session, now)).scope.agent,
        messages=activity.messages,
        created_at=as_datetime(next(index.oldest(activity.session, now)).when),
        last_activity=as_datetime(activity.last_at),
        parent=head.data.get("parent") if head else None,
    )


def _opening(index: PartitionIndex, session: str, now: int) -> str:
    """The name of a session without a title: what the user said first, or else what anyone said first."""
    shown = (each for each in index.oldest(session, now) if not is_aside(each))
    first = next(shown, None)
    if first is None:
        return session
    said = next((each for each in chain((first,), shown) if each.data["role"] == "user" and each.content), first)
    told = " ".join(said.content.split())
    return told if len(told) <= 60 else told[:59] + "…"


def _arguments(message: Message) -> dict[str, Any]:
    names = ("role", "content", "name", "created_at", "metadata", "tool_calls", "tool_call_id")
    given = {name: getattr(message, name) for name in names} | ({"id": message.id} if message.id else {})
    return given if message.trust == "trusted" else given | {"trust": "untrusted"}
