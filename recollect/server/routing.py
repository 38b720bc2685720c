"""How requests are checked: strictly, and always in the same order, before any route runs.

First whether the caller may, then the names in the query, then the body: its content type, its JSON without
duplicate names or lone surrogates, its fields. What routes need from a request is here too.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, unquote_to_bytes

from fastapi import APIRouter, Depends, Header, Path, Query
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from recollect import json_text, validate
from recollect.errors import Conflict, Forbidden, NotFound, RecollectError, TooLarge, ValidationError
from recollect.org import Org
from recollect.pace import CHARACTERS, apart
from recollect.server.errors import Malformed, Refused, Unauthorized
from recollect.server.gate import PRINCIPAL, Principal
from recollect.server.service import Service
from recollect.session import Session
from recollect.user import User

JSON_TYPES = ("application/json", "application/merge-patch+json")
LINES_TYPES = ("application/x-ndjson", "application/jsonl")
NEEDS = "x-scope"
PUBLIC = "x-public"
"""In a route's description: the scope a key must have (unset: `read` to GET, else `write`), or that it needs no key."""
READ = {NEEDS: "read"}
ADMIN = {NEEDS: "admin"}
WHOLE_ORG = "x-org-key"
"""In a route's description: a key for one user is refused, whatever its scope."""

_TAG = r'(?:W/)?"[!#-~\x80-\xff]*"'
_TAGS = re.compile(rf"{_TAG}(?:[ \t]*,[ \t]*{_TAG})*")
_VERSION = re.compile(r'"([0-9]{1,18})(?:[-;](?:gzip|br|zstd))?"')
IF_MATCH = "If-Match"
VERSIONS_MAX = 8
"""How many ETags a change may name: each wrong one costs an attempt that is refused."""
Changed = TypeVar("Changed")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _ReadRequest(Request):
    """A request whose body has already been read and parsed."""

    def __init__(self, request: Request, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._body = request._body
        self._value = value

    async def json(self) -> Any:
        return self._value


class StrictRoute(APIRoute):
    """A route that refuses anything it does not know."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        parts = tuple(_with_dependencies(self.dependant))
        names = {field.alias for part in parts for field in part.query_params}
        takes_if_match = any(field.alias == IF_MATCH for part in parts for field in part.header_params)
        may_be_empty = self.body_field is not None and not self.body_field.field_info.is_required()

        async def strictly(request: Request) -> Response:
            given = request.path_params.items()
            request.scope["path_params"] = {name: self._id(_unquoted(text, name)) for name, text in given}
            await self._admit(request)
            _check_query(request, names)
            if not takes_if_match and request.method != "GET" and IF_MATCH in request.headers:
                # Ignored, it would let a change through that the caller meant to be refused.
                raise ValidationError("is not possible for this call; leave it out", field="if-match")
            if self.body_field is not None:
                request = _ReadRequest(request, await _body(request, may_be_empty))
            return await handle(request)

        return strictly

    def _id(self, part: str) -> str:
        """The id that a part of the path stands for: itself."""
        return part

    async def _admit(self, request: Request) -> None:
        """Check that the caller may use this route for this user. What is not theirs does not exist for them."""
        principal = request.scope.get(PRINCIPAL)
        if principal is None:
            # Never by default: bypassing the gate must not grant access.
            if (self.openapi_extra or {}).get(PUBLIC):
                return
            raise Unauthorized
        extra = self.openapi_extra or {}
        if principal.user is not None:
            _admit_one(principal.user, request.path_params.get("user"), extra)
        needed = extra.get(NEEDS) or ("read" if "GET" in (self.methods or ()) else "write")
        if not principal.may(needed):
            raise Forbidden(f"this key may not do that; it needs the scope {needed}", field="authorization")


def _admit_one(own: str, asked: str | None, extra: Mapping[str, Any]) -> None:
    """Check that the key for one user may use a route: it is about that user, and not left to keys of the org."""
    if asked is not None and asked != own:
        raise NotFound(field="user")
    if extra.get(WHOLE_ORG):
        raise Forbidden("this key is for one user; it takes a key of the org", field="authorization")
    if asked is None and not extra.get("x-any-user"):
        raise NotFound(field="user")


def router(prefix: str, tag: str) -> APIRouter:
    """Routes under a path, all strict."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=StrictRoute)


def _with_dependencies(dependant: Dependant) -> Iterator[Dependant]:
    """What takes parts of a request: the route, and everything that it depends on."""
    yield dependant
    for each in dependant.dependencies:
        yield from _with_dependencies(each)


def _unquoted(text: str, name: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise ValidationError("must be valid UTF-8, percent-encoded", field=name) from None


def _check_query(request: Request, names: set[str]) -> None:
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise Malformed("must be valid UTF-8, percent-encoded", field="query") from None
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in names:
            known = f"; known parameters: {', '.join(sorted(names))}" if names else ""
            raise ValidationError(f"unknown parameter {name[:40]!a}{known}", field="query")
        if given.count(name) > 1:
            raise ValidationError("must be given once", field=name)


def media_type_of(request: Request) -> str:
    """The type that a request gives its body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _body(request: Request, may_be_empty: bool) -> Any:
    if may_be_empty and not await request.body():
        return None
    if media_type_of(request) not in JSON_TYPES:
        raise Refused(415, "must be application/json", field="content-type")
    raw = await request.body()
    try:
        return await apart(partial(json_text.parse, raw, "body"), len(raw) // CHARACTERS)
    except TooLarge:
        raise
    except ValidationError as error:
        raise Malformed(error.message, field="body") from None


# ── What routes need ─────────────────────────────────────────────────────────────────────────────


def service_of(request: Request) -> Service:
    """The service of the server. The busiest routes call this directly, because every dependency costs them time."""
    service: Service = request.app.state.service
    return service


def owner_of(request: Request, user: str) -> User:
    """The user in the path, within the caller's org."""
    return service_of(request).memory.user(user, org=request.scope[PRINCIPAL].org)


async def _service(request: Request) -> Service:
    return service_of(request)


async def _principal(request: Request) -> Principal:
    principal: Principal = request.scope[PRINCIPAL]
    return principal


Here = Annotated[Service, Depends(_service)]
Caller = Annotated[Principal, Depends(_principal)]
UserId = Annotated[str, Path(description="The user.", examples=["ann"])]
SessionId = Annotated[str, Path(description="The session.", examples=["monday"])]
AgentName = Annotated[str, Path(description="The agent.", examples=["support"])]
_RANGE: Any = {"minimum": 1, "maximum": validate.LIMITS.limit_max}
Limit = Annotated[int, Query(description="How many at most: 1 to 1000.", json_schema_extra=_RANGE)]
After = Annotated[str | None, Query(description="The cursor that the previous page returned.")]
NewestFirst = Annotated[bool, Query(description="Newest first.")]
At = Annotated[
    str | None, Query(description="A time with a zone, or a date. Default: now.", examples=["2026-05-01T09:30:00Z"])
]
IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", description="A call repeated with the same key is done only once.")
]
IfMatch = Annotated[
    str | None,
    Header(alias=IF_MATCH, description="The ETag that was read, or several; stale ones are refused with 412."),
]


async def _owner(request: Request, user: UserId) -> User:
    return owner_of(request, user)


Owner = Annotated[User, Depends(_owner)]


def holder_of(request: Request) -> User | Org:
    """Whose memories a path names: those of the user in it, or else those that the caller's org shares."""
    user = request.path_params.get("user")
    return service_of(request).memory.org(request.scope[PRINCIPAL].org) if user is None else owner_of(request, user)


async def _holder(request: Request) -> User | Org:
    return holder_of(request)


Holder = Annotated[User | Org, Depends(_holder)]
"""For calls that a user and an org have alike (`alike` in `org.py`)."""


async def of_user(user: UserId) -> None:
    """What names the user in a path, for the description of a call that finds its holder by itself."""


async def _chat(request: Request, user: UserId, session: SessionId) -> Session:
    return owner_of(request, user).session(session)


Chat = Annotated[Session, Depends(_chat)]


async def if_matching(if_match: str | None, change: Callable[[int | None], Awaitable[Changed]]) -> Changed:
    """Make a change if the current version is one of those the caller has read; with None, any version will do."""
    versions = _versions(if_match)
    for version in versions[:-1]:
        try:
            return await change(version)
        except Conflict as error:
            if error.field != "version":
                raise
    return await change(versions[-1])


def _versions(if_match: str | None) -> Sequence[int | None]:
    """The versions that an If-Match names, the oldest first.

    A weak ETag counts like the strong one, and `"12-gzip"` like `"12"`: it is ours, as marked by a proxy that
    compresses responses, and every change has its own version. An ETag that was never ours matches nothing.
    """
    if if_match is None or if_match.strip() == "*":
        return (None,)
    if not _TAGS.fullmatch(if_match.strip()):
        raise ValidationError('must be ETags as the server returned them, such as "12", or *', field="if-match")
    versions = sorted({int(number) for number in _VERSION.findall(if_match)})
    if not versions:
        raise Conflict("none of these ETags came from this server; read it again", field="version")
    if len(versions) > VERSIONS_MAX:
        raise ValidationError(f"must be at most {VERSIONS_MAX} ETags", field="if-match")
    return versions


@contextmanager
def named(**names: str) -> Iterator[None]:
    """Report errors under the names used in the request instead of those of the verb: `user="user_id"`."""
    try:
        yield
    except RecollectError as error:
        first, dot, rest = (error.field or "").partition(".")
        if first in names:
            error.field = f"{names[first]}{dot}{rest}"
        raise


def found_at(request: Request, *segments: str) -> str:
    """The path of what was made, below the path of a request's user or org."""
    user = request.path_params.get("user")
    above = ("org",) if user is None else ("users", user)
    return "/".join(
        (f"{request.scope.get('root_path', '')}/api", *(quote(each, safe="") for each in (*above, *segments)))
    )


HEADER_NAMES = {"idempotency_key": "idempotency-key"}


def given(fields: Any) -> dict[str, Any]:
    """The fields of a body that were sent, as arguments for a verb."""
    return {name: getattr(fields, name) for name in fields.model_fields_set}


PLACED: dict[str, Any] = {"Location": {"description": "Where it can be read.", "schema": {"type": "string"}}}
"""The headers of a response that says where to find what was made."""
VERSIONED: dict[str, Any] = {"ETag": {"description": "The version, for If-Match.", "schema": {"type": "string"}}}
"""The headers of a response that carries its version."""


def shapes(model: Any, status: int = 200, **more: Any) -> dict[int | str, dict[str, Any]]:
    """The response of a route, for its description."""
    return {status: {"model": model, **more}}
