"""Over the Model Context Protocol, with the client of its own package."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from mcp import Client, MCPError

from recollect.errors import RecollectError
from recollect.interfaces.mcp import build
from recollect.interfaces.tool_shapes import PAGE_MAX
from recollect.testing.surfaces.reached import (
    Handle,
    Reached,
    Unsayable,
    as_json,
    error_of,
    is_list,
    is_unicode,
    of_pair,
    record_of,
)

_TOLD = re.compile(r"(?P<kind>\w+): (?P<field>[\w.-]+):")


class Mcp(Reached):
    """Over the Model Context Protocol, with the client of its own package."""

    whole = "arguments"

    async def use(self, who: Handle, tool: str, **arguments: Any) -> Any:
        """What a tool gives."""
        said = json.loads(as_json(arguments, allow_nan=False))
        async with self._client(who) as client:
            self.sent += 1
            result = await client.call_tool(tool, said)
        if result.is_error:
            raise _refusal(result.content[0].text)
        return result.structured_content

    async def read(self, who: Handle, *place: Any) -> str:
        """The text of a resource."""
        uri = "recollect://" + "/".join(_piece(each) for each in place)
        async with self._client(who) as client:
            self.sent += 1
            try:
                return str((await client.read_resource(uri)).contents[0].text)
            except MCPError as error:
                told = str(error)
        raise _refusal(told)  # not inside: the client would wrap it

    @asynccontextmanager
    async def _client(self, who: Handle) -> AsyncIterator[Any]:
        # The door is opened for one user, by who starts it: a name that cannot be is no matter of the protocol.
        async with Client(build(self.truth.user(who.who, org=who.org), agent=who.agent), mode="auto") as client:
            yield client


def _piece(id: Any) -> str:
    if not isinstance(id, str) or not id or not is_unicode(id):
        raise Unsayable
    return quote(id, safe="")


def _refusal(told: str) -> RecollectError:
    found = _TOLD.match(told)
    if found is None:
        raise RuntimeError("a refusal without a kind or a field")
    field = re.sub(r"^(messages|memories)\.\d+\.", "", found["field"])
    return error_of(found["kind"], field, told)


async def _add_message(who: Handle, role: Any, content: Any, *, idempotency_key: Any = None) -> Any:
    if is_list(content) and all(isinstance(part, dict) and "text" in part for part in content):
        raise Unsayable  # a tool takes text, not parts of it
    return (await _add_messages(who, [{"role": role, "content": content}], idempotency_key=idempotency_key))[0]


async def _add_messages(who: Handle, messages: Any, *, idempotency_key: Any = None) -> Any:
    if is_list(messages) and any(isinstance(each, dict) and each.keys() - {"role", "content"} for each in messages):
        raise Unsayable
    key = {} if idempotency_key is None else {"idempotency_key": idempotency_key}
    told = await who.over.use(who, "add_messages", session=who.id, messages=messages, **key)
    return [SimpleNamespace(id=id) for id in told["ids"]]


async def _add_interaction(who: Handle, user: Any, assistant: Any) -> Any:
    sides = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return await of_pair(_add_messages(who, sides))


async def _add_memory(who: Handle, content: Any, *, importance: Any = None, only_new: Any = False) -> Any:
    more = {} if importance is None else {"importance": importance}
    more |= {} if only_new is False else {"only_new": only_new}
    return record_of(await who.over.use(who, "add_memory", content=content, **more))


async def _search(who: Handle, query: Any, **more: Any) -> Any:
    if not more.keys() <= {"layer", "limit"}:
        raise Unsayable
    return [record_of(each) for each in (await who.over.use(who, "search_memory", query=query, **more))["memories"]]


async def _context(who: Handle, query: Any, **more: Any) -> Any:
    if not more.keys() <= {"max_tokens"}:
        raise Unsayable
    session = {"session": who.id} if who.in_session else {}
    told = await who.over.use(who, "get_context", query=query, **session, **more)
    return SimpleNamespace(system=told["context"], **told)


async def _forget(who: Handle, ids: Any) -> Any:
    return record_of(await who.over.use(who, "forget", ids=[ids] if isinstance(ids, str) else ids))


async def _sessions(who: Handle, *, limit: Any = PAGE_MAX) -> Any:
    return [record_of(each) for each in (await who.over.use(who, "list_sessions", limit=limit))["sessions"]]


async def _get(who: Handle, id: Any) -> Any:
    await who.over.read(who, "memories", id)
    return await who._truth().get_memory(id)


async def _messages(who: Handle) -> Any:
    await who.over.read(who, "sessions", who.id)
    return await who._truth().messages()


Mcp.verbs = {
    "add_message": _add_message, "add_messages": _add_messages, "add_interaction": _add_interaction,
    "add_memory": _add_memory, "search_memory": _search, "get_context": _context, "forget": _forget,
    "sessions": _sessions, "get_memory": _get, "messages": _messages,
}  # fmt: skip
