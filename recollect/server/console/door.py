"""The door of the console: visitors are identified before a page is made, and forms must come from our own pages.

Signing in with a key gives a cookie that only this server can make; while there are no keys, whoever is at this
machine is let in, as at the gate of the API. In all else, routes follow the rules of the API: what a key
may not do there it may not do here, and what is not its user's does not exist for it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

from fastapi import APIRouter, Depends
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from recollect.errors import Busy, Forbidden, RecollectError
from recollect.server.console.forms import Form, read_form
from recollect.server.console.pages import HEADERS, PROOF, fragment, id_in, moved, page, remember_page, wants_fragment
from recollect.server.errors import Unauthorized, headers_of, stopping, told
from recollect.server.gate import PRINCIPAL, Principal, admitted, is_from_elsewhere, is_guarded, of_this_machine
from recollect.server.routing import PUBLIC, Handler, StrictRoute, service_of
from recollect.server.service import Service

COOKIE = "recollect_console"
PROOF_FIELD = "proof"
ANY_USER = {"x-any-user": True}
"""A route that is about no user, but that a key for a single user may use."""
OPEN = {PUBLIC: True}
"""A route that anybody may use."""
ADDS = {"x-adds": True}
"""A route that adds memories, for which an org may have a quota."""
STRANGERS_MAX = 32
"""How many forms of strangers are read at a time: a slow sender only keeps other strangers out."""

FRESH_PROOF = "X-Proof"
"""Header: the proof that forms of a page of ours need from now on, for a page that is older than this server."""
NOTICED = {"HX-Retarget": "#notices", "HX-Reswap": "innerHTML"}
"""Errors are shown at the top of the page, wherever the response would have gone."""

_FORM = "recollect.form"


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is wrong, and with which field."""

    status: int
    field: str | None
    message: str
    back: str = ""
    """The page from which a form was sent."""


class ConsoleRoute(StrictRoute):
    """A page, or an action on one: errors are pages, too."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        self._strangers = asyncio.Semaphore(STRANGERS_MAX)

        async def as_page(request: Request) -> Response:
            try:
                response = await handle(request)
            except (RecollectError, RequestValidationError, HTTPException) as error:
                return refused(request, error)
            return _with_rules(response)

        return as_page

    def _id(self, part: str) -> str:
        return id_in(part)

    async def _admit(self, request: Request) -> None:
        """Identify the visitor, then check that they may use this page and that a form came from one of ours."""
        cookie = await _enter(request, adds=bool((self.openapi_extra or {}).keys() & ADDS.keys()))
        await super()._admit(request)
        if request.method == "POST":
            request.scope[_FORM] = await self._form(request, cookie)

    async def _form(self, request: Request, cookie: str) -> Form:
        """The form. Strangers, who get here only on public routes, are limited to `STRANGERS_MAX` at a time."""
        if PRINCIPAL in request.scope:
            return await _proven_form(request, cookie)
        if self._strangers.locked():
            raise Busy("too many people are signing in; try again", field="server")
        async with self._strangers:
            return await _proven_form(request, cookie)


def router() -> APIRouter:
    """A router for pages. They are for people, so the description of the API does not list them."""
    return APIRouter(route_class=ConsoleRoute, include_in_schema=False)


async def _form(request: Request) -> Form:
    form: Form = request.scope[_FORM]
    return form


Filled = Annotated[Form, Depends(_form)]


async def _enter(request: Request, *, adds: bool) -> str:
    """Admit the visitor, if known. Returns the valid cookie; an empty one stands for nobody in particular."""
    service = service_of(request)
    if service.draining:
        raise stopping()
    cookie, principal = await _recognize(request)
    if principal is not None:
        await service.quotas.admit(principal.org, adds=adds)
    return cookie


async def _recognize(request: Request) -> tuple[str, Principal | None]:
    """Note in the request who is looking, for the frame of the page and its forms."""
    service = service_of(request)
    cookie, principal = await _principal(service, request)
    request.scope[PROOF] = service.seats.proof(cookie)
    if principal is not None:
        request.scope[PRINCIPAL] = principal
    return cookie, principal


async def _principal(service: Service, request: Request) -> tuple[str, Principal | None]:
    """The valid cookie, and the caller it stands for; None if a key must be shown first."""
    if not await service.keys.exist():
        try:
            return "", of_this_machine(request.scope)
        except Unauthorized:
            return "", None
    cookie = request.cookies.get(COOKIE, "")
    key_id = await service.seats.key_of(cookie)
    key = await service.keys.active(key_id) if key_id else None
    return (cookie, admitted(service, key, request.scope)) if key is not None else ("", None)


async def _proven_form(request: Request, cookie: str) -> Form:
    """The form, if it was sent from one of our pages."""
    if is_from_elsewhere(request.headers):
        raise Forbidden("requests from pages of other sites are not allowed", field="origin")
    form = await read_form(request)
    service = service_of(request)
    if not service.seats.proves(cookie, form.get(PROOF_FIELD)):
        raise Forbidden("this page is out of date; reload it and try again", field=PROOF_FIELD)
    return form


def is_for_people(request: Request) -> bool:
    """Whether a person went to a page that does not exist: programs use other paths, or do not ask for HTML."""
    return not is_guarded(request.scope["path"]) and "text/html" in request.headers.get("accept", "")


async def lost(request: Request, error: Exception) -> Response:
    """An error at an address that no route has, inside the frame that whoever went there knows."""
    with suppress(RecollectError):  # without a frame it is still the page that says what is wrong
        await _recognize(request)
    return refused(request, error)


def refused(request: Request, error: Exception) -> Response:
    """An error, as a page or as a part of the current one."""
    return _with_rules(_to_sign_in(request) if isinstance(error, Unauthorized) else _told(request, error))


def _with_rules(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _told(request: Request, error: Exception) -> Response:
    view = Refusal(*told(error), _page_before(request))
    is_part = wants_fragment(request)
    response = (fragment if is_part else page)(request, "notice" if is_part else "error", view, status=view.status)
    response.headers.update(headers_of(error, view.status) | (NOTICED if is_part else {}))
    principal: Principal | None = request.scope.get(PRINCIPAL)
    if is_part and view.field == PROOF_FIELD and principal is not None and not principal.key:
        # Only while there are no keys: with keys, the page may be that of somebody who signed in before.
        response.headers[FRESH_PROOF] = request.scope[PROOF]
    return response


def _page_before(request: Request) -> str:
    """The page of ours that a form or a script of ours asked from, if the browser names it."""
    try:
        before = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return ""
    is_ours = before.scheme in ("http", "https") and before.netloc == request.headers.get("host")
    return before.geturl() if is_ours and (request.method == "POST" or wants_fragment(request)) else ""


def _to_sign_in(request: Request) -> Response:
    """Redirect to where a key is shown; afterwards, people go on with the page they were on."""
    response = moved(request, "sign-in")
    if wants_fragment(request):
        response.status_code = 401
    before = urlsplit(_page_before(request))
    if before.path:
        remember_page(response, urlunsplit(("", "", before.path, before.query, "")))
    elif request.method == "GET" and not wants_fragment(request):
        asked = request.scope["query_string"].decode("latin-1")
        remember_page(response, urlunsplit(("", "", request.scope["path"], asked, "")))
    return response
