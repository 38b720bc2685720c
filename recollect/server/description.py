"""What `/openapi.json` adds to what each route says of itself: keys, groups of calls, and what may go wrong.

It is written for people and for generators of code: each call has a short name of its own, each possible status its
response, and a parameter that may be left out is of one type.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recollect.server.errors import MEDIA_TYPE
from recollect.server.routing import NEEDS, PUBLIC, READ
from recollect.settings import Settings

KEY = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "rk_<id>_<secret>",
    "description": "A key made with `recollect keys create`. While there are none, this machine needs no key.",
}
ABOUT = """\
Everything that is remembered is kept under a user; the org is that of the key. While there are no keys, the header
`X-Recollect-Org` names it (`default` without it).

- Long lists come in pages: `limit`, and `after`, the cursor returned by the previous page; null at the end.
- A field or parameter that is not known is refused. Null in an optional field means that it is left out.
- Times are ISO 8601 in UTC. Where one is sent, it needs a zone, or is a date.
- Every error is `application/problem+json`; programs should look at its `code`.
- `X-Request-Id` is taken from the request or generated, and appears in the response and in the log.
"""
LICENSE = {"name": "Apache 2.0", "identifier": "Apache-2.0"}
SERVED = [
    {
        "url": f"http://{Settings().host}:{Settings().port}",
        "description": "Where `recollect serve` listens unless told otherwise.",
    }
]
GROUPS = {
    "chat": "Talk to an agent",
    "sessions": "Conversations and working state",
    "memories": "Memories and contexts",
    "profile": "What is known about a user",
    "customizations": "Standing instructions",
    "graph": "People and things, and how they are connected",
    "trust": "Undo what was learned, set aside what is not to be trusted",
    "org": "What the users of an org share",
    "entities": "Business objects of the org",
    "operations": "Users, export and import, upkeep, failures",
    "health": "Health of the server",
    "figures": "Metrics for Prometheus",
}
"""The groups of calls, in the order in which people need them."""

_WAIT = {"Retry-After": {"description": "How many seconds to wait.", "schema": {"type": "integer"}}}
_HOW = {"WWW-Authenticate": {"description": "How to send a key.", "schema": {"type": "string"}}}
PROBLEMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "400": ("Malformed", "The body is not JSON, or JSON that can be read in two ways.", {}),
    "401": ("Unauthorized", "No valid key.", _HOW),
    "403": ("Forbidden", "The key's scope does not reach that far.", {}),
    "404": ("NotFound", "It is not there, or not yours.", {}),
    "409": ("Conflict", "The id or key is taken, or something else changed at the same moment.", {}),
    "412": ("Stale", "It changed since it was read.", {}),
    "413": ("TooLarge", "Over a limit.", {}),
    "415": ("UnsupportedMediaType", "The body has another type, or is compressed.", {}),
    "422": ("Invalid", "A value that is not allowed, or a field or parameter that is not known.", {}),
    "429": ("RateLimited", "Too many requests, or over a quota.", _WAIT),
    "502": ("ModelFailed", "The model's endpoint failed.", {}),
    "503": ("Unavailable", "The store cannot be reached, or the server is overloaded or about to stop.", _WAIT),
}
"""What may go wrong, by status: the name of the response, what it means, and its headers."""


class DescribedApp(FastAPI):
    """An application whose description says which key its calls need, which need none, and what may go wrong."""

    _describing = threading.Lock()
    _is_described = False

    def setup(self) -> None:
        super().setup()
        if self.openapi_url:
            route = self.router.routes.pop()
            assert isinstance(route, Route), "no other page is served beside the description"
            answer = route.endpoint

            async def openapi(request: Request) -> Response:
                if not self._is_described:
                    await asyncio.to_thread(self.openapi)  # a fifth of a second
                return cast(Response, await answer(request))

            self.add_route(self.openapi_url, openapi, include_in_schema=False)

    def openapi(self) -> dict[str, Any]:
        with self._describing:
            return self._described()

    def _described(self) -> dict[str, Any]:
        described = super().openapi()
        if not self._is_described:
            described["servers"] = SERVED
            described["tags"] = [{"name": name, "description": title} for name, title in GROUPS.items()]
            described["components"]["securitySchemes"] = {"key": KEY}
            described["components"]["responses"] = {
                name: _problem(about, headers) for name, about, headers in PROBLEMS.values()
            }
            described["security"] = [{"key": []}]
            for shape in described["components"]["schemas"].values():
                _tell_defaults(shape)
            for methods in described["paths"].values():
                for method, told in methods.items():
                    _complete(method, told)
            self._is_described = True
        return described


def _complete(method: str, told: dict[str, Any]) -> None:
    """Say what a call leaves to the server as a whole: what may go wrong, and that its parameters are never null."""
    (shape,) = told["responses"]["default"]["content"].values()  # under the media type of the route's other responses
    told["responses"]["default"]["content"] = {MEDIA_TYPE: shape}
    if told.get(PUBLIC):
        told["security"] = []
    for status in _failing(method, told):
        told["responses"].setdefault(status, {"$ref": f"#/components/responses/{PROBLEMS[status][0]}"})
    told["responses"] = dict(sorted(told["responses"].items()))
    bodies = told.get("requestBody", {}).get("content", {})
    for taken in (*told.get("parameters", ()), *bodies.values()):
        taken["schema"] = _without_null(taken["schema"])


def _tell_defaults(shape: dict[str, Any]) -> None:
    """Say the defaults of a body's fields in words: from a default, generators take a field to be always there."""
    for field in shape.get("properties", {}).values():
        default = field.pop("default", None)
        if default not in (None, "", []):
            field["description"] = f"{field.get('description', '')} Default: {json.dumps(default)}.".strip()


def _failing(method: str, told: dict[str, Any]) -> Iterator[str]:
    """The statuses of what may go wrong with a call."""
    yield "422"
    if told.get(PUBLIC):
        return
    yield from ("401", "403", "404", "429", "503")
    if "requestBody" in told:
        yield from ("400", "413", "415")
    if method != "get" and told.get(NEEDS) != READ[NEEDS]:
        yield "409"
    if any(each["name"] == "If-Match" for each in told.get("parameters", ())):
        yield "412"
    if "chat" in told["tags"]:
        yield "502"


def _problem(about: str, headers: dict[str, Any]) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": about, "content": content} | ({"headers": headers} if headers else {})


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter or body without null: what is not given is left out instead.

    >>> _without_null({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "After"})
    {'title': 'After', 'type': 'string'}
    """
    if "anyOf" not in schema:
        return schema
    kind: dict[str, Any]
    (kind,) = [each for each in schema["anyOf"] if each.get("type") != "null"]
    return {name: value for name, value in schema.items() if name != "anyOf"} | kind


def call_name(route: APIRoute) -> str:
    """The name of a call in code generated from the description: the same as its function here."""
    return route.name
