"""The entry for assistants that speak the Model Context Protocol, at `/mcp`, behind the same keys as all else.

The address says whose memories they see, as in `/mcp?user=ann&agent=editor`, within what the key
allows: no tool takes a user, so a model cannot name another one.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from recollect import validate
from recollect.errors import NotFound, ValidationError
from recollect.interfaces.tools import TOOLSETS, Caller, protocol_of_tools
from recollect.server.errors import Unauthorized
from recollect.server.gate import PRINCIPAL, Principal
from recollect.server.service import Service

PATH = "/mcp"
GIVEN = ("user", "agent", "tools")
CALLER = "recollect.caller"
"""Key in a request's scope for the `Caller`: whose memories the request is about."""


class Assistants:
    """Passes requests to the protocol once it is known whose memories they are about."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._door: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope.get(PRINCIPAL)
        if principal is None:
            raise Unauthorized
        scope[CALLER] = self._caller(principal, scope["query_string"])
        if self._door is None:
            protocol = await asyncio.to_thread(protocol_of_tools)
            self._open(protocol)
        await self._door(scope, receive, send)

    def _open(self, protocol: Any) -> None:
        if self._door is None:  # another request may have waited for the package as well
            self._door = protocol.Door(lambda asked: asked[CALLER])
            self._service.on_close(self._door.close)

    def _caller(self, principal: Principal, query: bytes) -> Caller:
        given = _given(query)
        user = given.get("user", principal.user)
        if user is None:
            raise ValidationError("this key is for all users: name one, as in /mcp?user=ann", field="user")
        if principal.user not in (None, user):
            raise NotFound(field="user")
        agent = validate.agent(given.get("agent"))
        owner = self._service.memory.user(user, org=principal.org)
        may_add = partial(self._service.quotas.admit_memory, principal.org)
        tools = validate.choice(given.get("tools", "usual"), TOOLSETS, "tools")
        return Caller(
            owner,
            agent,
            writes=principal.may("write"),
            before_adding=may_add,
            tools=tools,
            erases=principal.may("admin"),
        )


def routes(service: Service) -> list[Route]:
    """The route of the protocol. It only answers requests: there are no long-lived streams."""
    return [Route(PATH, Assistants(service), methods=["POST"], include_in_schema=False)]


def _given(query: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(query.decode(), keep_blank_values=True, errors="strict")
    except ValueError:
        raise ValidationError("must be valid UTF-8, percent-encoded", field="query") from None
    if len(dict(pairs)) != len(pairs) or not {name for name, _ in pairs} <= set(GIVEN):
        raise ValidationError(f"must be {', '.join(GIVEN)}, each once", field="query")
    return dict(pairs)
