"""Over HTTP: a server in this process with all that stands around its routes, and a client of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

from recollect.errors import RecollectError
from recollect.memory import Memory
from recollect.server.app import build
from recollect.server.errors import status_of
from recollect.server.service import Service
from recollect.settings import Settings
from recollect.testing.fakes import HashingEmbedder, ManualClock
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

LOCAL = "http://127.0.0.1:8765"
URL_CHARACTERS = 60_000
"""More the client does not send, and a real server refuses to read."""
_HEADERS = {"x-recollect-org": "org", "idempotency-key": "idempotency_key"}
"""What a header is called in Python."""
_LEFT_OUT = ("limit", "max_tokens", "only_new", "layer")
"""Fields for which Python refuses None; in a body, null means that they are left out."""


class Rest(Reached):
    """Over HTTP, with all that stands around the routes of the server."""

    whole = "body"

    def __init__(self, truth: Memory, client: httpx.AsyncClient) -> None:
        super().__init__(truth)
        self._client = client

    async def send(
        self, method: str, who: Handle, *path: Any, body: Any = None, key: Any = None, **params: Any
    ) -> httpx.Response:
        place = "/".join(("/api/users", _piece(who.who), *(_piece(each) for each in path)))
        headers = {"X-Recollect-Org": _header(who.org)} if who.org != "default" else {}
        headers |= {} if key is None else {"Idempotency-Key": _header(key)}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        if isinstance(body, dict) and any(body.get(name, "") is None for name in _LEFT_OUT):
            raise Unsayable
        query = {name: _parameter(value) for name, value in params.items()}
        content = None if body is None else as_json(body).encode()
        self.sent += 1
        answer = await self._client.request(method, place, content=content, headers=headers, params=query)
        if answer.status_code >= 300:
            raise _problem(answer)
        return answer

    async def fields(self, method: str, who: Handle, *path: Any, **more: Any) -> Any:
        return (await self.send(method, who, *path, **more)).json()


def _problem(answer: httpx.Response) -> RecollectError:
    """What an answer says that is none; one that says it in two ways is a mistake of the server's."""
    told = answer.json()
    field = _HEADERS.get(told.get("field"), told.get("field"))
    error = error_of(told["code"], field, answer.text)
    if answer.status_code not in (status_of(error), 400 if told.get("field") == "body" else None):
        raise RuntimeError(f"{told['code']} with the status {answer.status_code}")
    return error


def _piece(id: Any) -> str:
    """A piece of a path. An empty one would make another path, and numbers are texts there."""
    if not isinstance(id, str) or not 0 < len(id) < URL_CHARACTERS or not is_unicode(id):
        raise Unsayable
    return quote(id, safe="").replace(".", "%2E")


def _header(value: Any) -> str:
    """A text that a header can hold, and that a query tells from a number."""
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isprintable()
        and 0 < len(value) < URL_CHARACTERS
        and value.strip() == value
    ):
        return value
    raise Unsayable


def _parameter(value: Any) -> str:
    """In a query, a number and its text are one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and not value.isdigit() and value.isprintable() and len(value) < URL_CHARACTERS:
        return value
    raise Unsayable


async def _add_message(who: Handle, role: Any, content: Any, *, idempotency_key: Any = None, **more: Any) -> Any:
    agent = {"agent": _header(who.agent)} if who.agent else {}
    body = {"role": role, "content": content, **more}
    told = await who.over.fields("POST", who, "sessions", who.id, "messages", body=body, key=idempotency_key, **agent)
    return record_of(told["messages"][0])


async def _add_messages(who: Handle, messages: Any, *, idempotency_key: Any = None) -> Any:
    body = {"messages": messages}
    told = await who.over.fields("POST", who, "sessions", who.id, "messages", body=body, key=idempotency_key)
    return [record_of(each) for each in told["messages"]]


async def _add_interaction(who: Handle, user: Any, assistant: Any) -> Any:
    sides = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return await of_pair(_add_messages(who, sides))


async def _add_memory(who: Handle, content: Any, *, idempotency_key: Any = None, **more: Any) -> Any:
    body = {"content": content, **more}
    return record_of((await who.over.fields("POST", who, "memories", body=body, key=idempotency_key))["memories"][0])


async def _add_memories(who: Handle, items: Any, **more: Any) -> Any:
    listed = [{"content": item} if isinstance(item, str) else item for item in items] if is_list(items) else items
    told = await who.over.fields("POST", who, "memories", body={"memories": listed, **more})
    return [record_of(each) for each in told["memories"]]


async def _update_memory(who: Handle, id: Any, **changes: Any) -> Any:
    return record_of(await who.over.fields("PATCH", who, "memories", id, body=changes))


async def _search(who: Handle, query: Any, **more: Any) -> Any:
    told = await who.over.fields("POST", who, "memories", "search", body={"query": query, **more})
    return [record_of(each) for each in told["hits"]]


async def _context(who: Handle, query: Any, **more: Any) -> Any:
    session = {"session": who.id, "agent": who.agent} if who.in_session else {}
    return record_of(await who.over.fields("POST", who, "context", body={"query": query, **session, **more}))


async def _list(who: Handle, *, where: Any = None, **more: Any) -> Any:
    test = {} if where is None else {"where": as_json(where)}
    told = await who.over.fields("GET", who, "memories", **test, **more)
    return [record_of(each) for each in told["memories"]], told["after"]


async def _get(who: Handle, id: Any) -> Any:
    return record_of(await who.over.fields("GET", who, "memories", id))


async def _history(who: Handle, id: Any) -> Any:
    return [record_of(each) for each in (await who.over.fields("GET", who, "memories", id, "history"))["history"]]


async def _restore(who: Handle, id: Any) -> Any:
    return record_of(await who.over.fields("POST", who, "memories", id, "restore"))


async def _forget(who: Handle, ids: Any = None, *, where: Any = None) -> Any:
    if isinstance(ids, str):
        return record_of(await who.over.fields("DELETE", who, "memories", ids))
    body = {"ids": ids} if where is None else {"where": where}
    return record_of(await who.over.fields("POST", who, "memories", "forget", body=body))


async def _erase(who: Handle) -> Any:
    return record_of(await who.over.fields("DELETE", who))


async def _export(who: Handle) -> Any:
    return [json.loads(line) for line in (await who.over.send("GET", who, "export")).text.split("\n") if line]


async def _sessions(who: Handle, **more: Any) -> Any:
    return [record_of(each) for each in (await who.over.fields("GET", who, "sessions", **more))["sessions"]]


async def _messages(who: Handle, **more: Any) -> Any:
    told = await who.over.fields("GET", who, "sessions", who.id, "messages", **more)
    return [record_of(each) for each in told["messages"]], told["after"]


async def _window(who: Handle) -> Any:
    return [record_of(each) for each in (await who.over.fields("GET", who, "sessions", who.id, "window"))["messages"]]


async def _delete(who: Handle) -> Any:
    return record_of(await who.over.fields("DELETE", who, "sessions", who.id))


async def _branch(who: Handle, message_id: Any, into: Any) -> Any:
    body = {"message_id": message_id, "into": into}
    return await who.over.fields("POST", who, "sessions", who.id, "branch", body=body)


async def _rename(who: Handle, title: Any) -> Any:
    return await who.over.fields("PATCH", who, "sessions", who.id, body={"title": title})


async def _set(who: Handle, value: Any) -> Any:
    return await who.over.fields("PUT", who, "sessions", who.id, "working", body=value)


async def _get_working(who: Handle) -> Any:
    return await who.over.fields("GET", who, "sessions", who.id, "working")


Rest.verbs = {
    "add_message": _add_message, "add_messages": _add_messages, "add_interaction": _add_interaction,
    "add_memory": _add_memory, "add_memories": _add_memories, "update_memory": _update_memory,
    "search_memory": _search, "get_context": _context, "list_memories": _list,
    "get_memory": _get, "history": _history, "restore": _restore, "forget": _forget,
    "erase": _erase, "export": _export, "sessions": _sessions, "messages": _messages,
    "window": _window, "delete": _delete, "branch": _branch, "rename": _rename,
    "set": _set, "get": _get_working,
}  # fmt: skip


@asynccontextmanager
async def over_rest(url: str, **changes: Any) -> AsyncIterator[Rest]:
    """A server in this process, with a client of it."""
    given: dict[str, Any] = {"clock": ManualClock(), "embedder": HashingEmbedder()}
    given |= {name: changes.pop(name) for name in ("clock", "embedder") if name in changes}
    settings = Settings().with_({"worker": False} | changes)
    async with Service(url, settings=settings, environ={}, **given) as service:
        transport = httpx.ASGITransport(build(service), client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:
            yield Rest(service.memory, client)
