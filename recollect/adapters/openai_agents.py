"""OpenAI Agents SDK: a `Session` whose items are messages of a conversation.

    session = Session(memory.user("ann"), "monday")
    result = await Runner.run(agent, "Where did I park?", session=session)

Every item comes back unchanged, including reasoning and hosted tool calls. To everyone else it is a message:
it is searched, summarised, learned from, exported and erased like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast
from weakref import WeakValueDictionary

from recollect.adapters import extra
from recollect.adapters.bridge import Bridge, UserHandle, checked
from recollect.adapters.openai_shape import NAME, SPOKEN, kind_of, to_stored
from recollect.adapters.verbatim import (
    PAGE,
    add_in_pieces,
    all_messages,
    calls_of,
    filled,
    shells_of,
    texts_of,
)
from recollect.conversation import Message
from recollect.errors import NotFound
from recollect.paging import every
from recollect.policies.shells import HOLE
from recollect.unfolding import unfolded
from recollect.user import User

with extra("openai-agents"):
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from pydantic_core import from_json

_POPPING: WeakValueDictionary[tuple[Any, ...], asyncio.Lock] = WeakValueDictionary()
"""Locks held while the newest item of a session is found and removed."""
FEW = 4
"""Messages that are read at a time to find the newest item."""


class Session:
    """The session of an agent, kept in a memory: it implements `agents.memory.Session`.

    Messages that came into the conversation another way are items here as well.
    """

    def __init__(
        self,
        user: UserHandle,
        session_id: str,
        *,
        agent: str = "",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._user = checked(user, "user")
        self._agent = agent
        self._bridge = Bridge()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items in order; with a limit, the newest of them."""
        settings = self.session_settings
        newest = limit if limit is not None else settings.limit if settings else None
        return await self._bridge.wait(self._user, lambda user: self._read(user, newest))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items. When this returns, they are stored."""
        await self._bridge.wait(self._user, lambda user: self._add(user, items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove, forget and return the newest item; None if there is none."""
        return await self._bridge.wait(self._user, self._pop)

    async def clear_session(self) -> None:
        """Forget the session and what was learned from it alone."""
        await self._bridge.wait(self._user, lambda user: user.session(self.session_id).delete())

    async def _read(self, user: User, newest: int | None) -> list[TResponseInputItem]:
        session = user.session(self.session_id)
        if newest is None:
            return _items(await all_messages(session))
        found: list[TResponseInputItem] = []
        after: str | None = None
        while len(found) < newest:
            page, after = await session.messages(limit=min(newest, PAGE), newest_first=True, after=after)
            heard = [message for message in reversed(page) if message.trust != "quarantined"]
            found = _items(heard) + found
            if after is None:
                break
        return found[max(len(found) - newest, 0) :]

    async def _add(self, user: User, items: Sequence[TResponseInputItem]) -> None:
        session = user.session(self.session_id, agent=self._agent)
        await add_in_pieces(session, [to_stored(cast("Mapping[str, Any]", item)) for item in items])

    async def _pop(self, user: User) -> TResponseInputItem | None:
        """Callers that pop from one session at the same time each get a different item.

        Within a process they take turns; between processes the store decides.
        """
        place = (asyncio.get_running_loop(), user.id, self.session_id)
        async with _POPPING.setdefault(place, asyncio.Lock()):
            return await self._pop_newest(user)

    async def _pop_newest(self, user: User) -> TResponseInputItem | None:
        while (newest := await self._newest(user)) is not None:
            message, items = newest
            try:
                await user._privacy.take(message.id)
            except NotFound:
                continue  # somebody else was faster: the next one is ours
            if len(items) > 1:
                await self._add(user, items[:-1])
            return items[-1]
        return None

    async def _newest(self, user: User) -> tuple[Message, list[TResponseInputItem]] | None:
        """The newest message that is one item or several, with these."""
        session = user.session(self.session_id)
        async for message in every(partial(session.messages, limit=FEW, newest_first=True)):
            if message.trust != "quarantined" and (items := from_stored(message)):
                return message, items
        return None


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def from_stored(message: Message) -> list[TResponseInputItem]:
    """The items of a stored message, whoever stored it: one that says something and calls tools becomes several."""
    return _items([message])


def _items(messages: Sequence[Message]) -> list[TResponseInputItem]:
    found: list[Any] = []
    for message, shell in zip(messages, shells_of(NAME, messages, from_json), strict=True):
        if isinstance(shell, dict):
            found.append(_item(message, shell))
        else:
            found += [item for each in unfolded(message) for item in _plain(each)]
    return found


def _item(message: Message, shell: dict[str, Any]) -> dict[str, Any]:
    """Rebuild an item from its shell and what was said."""
    kind = kind_of(shell)
    spoken = SPOKEN.get(kind)
    if spoken is not None:
        if spoken in shell:
            shell[spoken] = filled(shell[spoken], message)
    elif kind == "function_call" and shell.get("arguments") == HOLE and (calls := calls_of(message)):
        shell["arguments"] = calls[0].arguments
    return shell


def _plain(message: Message) -> list[dict[str, Any]]:
    """A message that did not come through the SDK."""
    text = "\n".join(texts_of(message))
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id or message.id, "output": text}]
    items: list[dict[str, Any]] = []
    if message.role == "user" and isinstance(message.content, list):
        items = [{"role": "user", "content": [_input(part) for part in message.content]}]
    elif text or not message.tool_calls:
        items = [{"role": message.role, "content": text or "[empty]"}]
    return items + [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in calls_of(message)
    ]


def _input(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "image_url":
        return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
    return {"type": "input_text", "text": str(part.get("text") or f"[{part['type']}]")}
