"""The gate of the server: the caller is identified before a byte of the body is read.

Until a key is made, only this machine is let in, as the operator; after that, everybody needs one.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from recollect import validate
from recollect.errors import Busy, Forbidden, Unavailable
from recollect.server.admission import caller
from recollect.server.callers import take_once
from recollect.server.errors import TooMany, Unauthorized, stopping
from recollect.server.keys import SCOPES, Key
from recollect.server.patience import promptly
from recollect.server.quotas import may_add
from recollect.server.service import Service

PRINCIPAL = "recollect.principal"
"""Key in a request's scope for the caller."""
ORG_HEADER = "x-recollect-org"
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers that a proxy adds to a request it forwards: the original client may be anywhere."""
WITHOUT_KEYS = (
    "this server has no keys yet: it answers programs on its own machine, at a loopback address and through no proxy. "
    "`recollect keys create` makes a key"
)
GUARDED = ("/api", "/metrics", "/mcp")
"""Paths that need a key. Anybody may ask whether the server is up and what its API is."""
FIGURES = "/metrics"
"""The path that is wanted most while the store is away."""
KEYS_WAIT_S = 2.0
"""How long a request for it waits for the keys: a scrape has ten seconds."""
AWAY = "recollect.away"
"""Key in a request's scope: the store did not answer, and the request was let in by the keys as last read."""
_UNDER_GUARDED = tuple(f"{root}/" for root in GUARDED)


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller: an org, one of its users or all of them, and what they may do."""

    org: str
    user: str | None = None
    scope: str = "admin"
    key: str = ""

    def may(self, needed: str) -> bool:
        """Whether the scope that is needed is within the one that was granted."""
        return SCOPES.index(needed) <= SCOPES.index(self.scope)


class Gate:
    """Lets in callers with a valid key, within their rate."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Routes are matched by the path as it was sent: %2F inside an id must not become a segment boundary.
        raw = scope.get("raw_path")
        scope["path"] = quote(scope["path"], safe="/") if raw is None else raw.decode("ascii", "backslashreplace")
        if is_guarded(scope["path"].removeprefix(scope.get("root_path", ""))):
            if self._service.draining:
                raise stopping()
            principal = scope[PRINCIPAL] = await self._principal(scope)
            if AWAY not in scope:
                await self._service.quotas.admit(principal.org, adds=may_add(scope["method"], scope["path"]))
        await self._app(scope, receive, send)

    async def _principal(self, scope: Scope) -> Principal:
        headers = Headers(scope=scope)
        given = headers.getlist("authorization")
        await self._read_keys(scope)
        if not given and not self._service.keys.are_held:
            return of_this_machine(scope)
        token = caller(given[0].encode("latin-1")) if len(given) == 1 else b""
        key = self._service.keys.held(token.decode("latin-1"))
        self._remember(scope, token, key)
        if key is None:
            count_failure(self._service, scope)
            raise Unauthorized
        asked = headers.get(ORG_HEADER)
        if asked is not None and asked != key.org:
            raise Forbidden("must be the org of the key, or be left out", field=ORG_HEADER)
        return admitted(self._service, key, scope)

    async def _read_keys(self, scope: Scope) -> None:
        """Read the keys anew. For figures, which name nobody, the keys as last read will do while the store is away."""
        if scope["path"].removeprefix(scope.get("root_path", "")) != FIGURES:
            await self._service.keys.read()
            return
        try:
            await promptly(KEYS_WAIT_S, self._service.keys.read())
        except (TimeoutError, Busy, Unavailable):
            if not self._service.keys.were_read:
                raise Unavailable(field="store") from None
            scope[AWAY] = True

    def _remember(self, scope: Scope, token: bytes, key: Key | None) -> None:
        service, host = self._service, host_of(scope)
        if key is None:
            service.callers.forget(host, token)
        else:
            service.callers.remember(host, token, (service.rate, key.id))


def admitted(service: Service, key: Key, scope: Scope) -> Principal:
    """The caller that a key stands for, if the key was not used too often."""
    wait_s = take_once(scope, service.rate, key.id)
    if wait_s:
        raise TooMany(wait_s)
    return Principal(key.org, key.user, key.scope, key.id)


def count_failure(service: Service, scope: Scope) -> None:
    """Record that an address sent a wrong key, which it may not do too often."""
    wait_s = take_once(scope, service.failed_rate, host_of(scope))
    if wait_s:
        raise TooMany(wait_s)


def host_of(scope: Scope) -> str:
    """The address a request comes from, as far as that is visible."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def of_this_machine(scope: Scope) -> Principal:
    """The operator at this machine. A page of another site in their browser is not the operator, nor is a proxy."""
    headers = Headers(scope=scope)
    client = scope.get("client")
    is_near = client is not None and is_loopback(client[0]) and is_loopback(_name(headers.get("host", "")))
    if not is_near or any(name in headers for name in FORWARDED):
        raise Unauthorized(WITHOUT_KEYS)
    if is_from_elsewhere(headers) or is_within_another_page(headers):
        raise Forbidden("requests from pages of other sites are not allowed", field="origin")
    return Principal(validate.identifier(headers.get(ORG_HEADER, "default"), ORG_HEADER))


def is_from_elsewhere(headers: Headers) -> bool:
    """Whether a browser says that the requesting page is not one of this server's."""
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")


def is_within_another_page(headers: Headers) -> bool:
    """Whether a browser says that a page of another site asks, as for an image; a link that was followed is none."""
    elsewhere = headers.get("sec-fetch-site", "") in ("cross-site", "same-site")
    return elsewhere and headers.get("sec-fetch-dest", "") != "document"


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_guarded(path: str) -> bool:
    """Whether a path needs a key in a header."""
    return path in GUARDED or path.startswith(_UNDER_GUARDED)
