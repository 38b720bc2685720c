"""How pages are made: one template environment in which text stays text, and the frame around every page.

Everything a template writes is escaped, and what nobody could see is left out: control characters, marks that
reverse text, hidden characters. Pages have no inline scripts or styles, and the browser is told to allow none.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Query
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from recollect import __version__
from recollect.policies.fencing import open_to_view
from recollect.records import Record
from recollect.server.console import words
from recollect.server.gate import PRINCIPAL, Principal
from recollect.validate import LIMITS

HERE = Path(__file__).parent
PROOF = "recollect.proof"
"""Key in a request's scope for the proof that goes into the forms of a page."""
NOTICE, LAST_USER, LAST_PAGE = "recollect_notice", "recollect_user", "recollect_page"
"""Cookies: what was just done, for the next page to report; whose memory was viewed last; and which page was asked
for, or was open, when a key had to be shown."""
NOTICE_S, LAST_PAGE_S = 30, 3_600
ADDRESS_MAX = 1_000
"""The longest address that is remembered."""
GO_TO = "HX-Redirect"
"""Header: the page that a script of ours opens next."""
CAME_FROM = "user"
Chosen = Annotated[str, Query(alias=CAME_FROM, max_length=LIMITS.id_chars)]
"""In the address of a page about the server: whose memory was viewed before."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    # With "no-referrer", browsers would also withhold where a form of ours is sent from.
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
         ".woff2": "font/woff2"}  # fmt: skip
STATIC: Mapping[str, bytes] = {
    path.name: path.read_bytes() for path in sorted((HERE / "static").iterdir()) if path.suffix in TYPES
}
VERSION = hashlib.sha256(b"".join(STATIC.values())).hexdigest()[:12]
"""In the addresses of static files, so that browsers may cache them for good."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame around a page: who is looking, at whose memory, and what they may do."""

    page: str
    principal: Principal | None
    proof: str
    root: str = ""
    user: str = ""
    notice: str = ""
    version: str = __version__

    @property
    def may_write(self) -> bool:
        return self.principal is not None and self.principal.may("write")

    @property
    def may_erase(self) -> bool:
        return self.principal is not None and self.principal.may("admin")

    @property
    def operates(self) -> bool:
        """Whether the operator pages, those about the whole org, are open."""
        return self.may_erase and self.chooses

    @property
    def chooses(self) -> bool:
        """Whether there is more than one user to look at."""
        return self.principal is not None and self.principal.user is None

    @property
    def has_menu(self) -> bool:
        """Whether there are pages to go to: those of a user, or those for operators."""
        return self.principal is not None and (bool(self.user) or self.operates)

    @property
    def is_signed_in(self) -> bool:
        """Whether a key was shown; while there are no keys, nobody has to, and nobody can sign out."""
        return self.principal is not None and bool(self.principal.key)

    def link(self, *parts: str, **query: Any) -> str:
        """The address of a page, with every part encoded."""
        return link(self.root, *parts, **query)

    def beside(self, *parts: str) -> str:
        """The address of a page about the server that leads back to the same user."""
        return self.link(*parts, **{CAME_FROM: self.user if self.chooses else ""})

    def of_user(self, *parts: str, **query: Any) -> str:
        """The address of a page of the user whose memory is shown."""
        return self.link("users", self.user, *parts, **query)

    def of_message(self, message: Record) -> str:
        """The address of a message in its conversation, on whichever page it is."""
        return f"{self.of_user('sessions', message.scope.session, message=message.id)}#m-{quote(message.id, safe='')}"

    def static(self, name: str) -> str:
        return f"{self.root}/static/{name}?v={VERSION}"


def link(root: str, *parts: str, **query: Any) -> str:
    """An address on this server; ids may contain anything, so each part is encoded."""
    asked = {name: value for name, value in query.items() if value not in (None, "")}
    path = "/".join(quote(part_for(part), safe="") for part in parts)
    return f"{root}/{path}{'?' if asked else ''}{urlencode(asked)}"


def part_for(id: str) -> str:
    """The path segment for an id: the id itself, but `~.` for `.`, which browsers take for a step along the path.

    That leaves no address for the id `~.`, which therefore gets a `~` as well, and so on.

    >>> [part_for(id) for id in ("ann", ".", "..", "~.", "...")]
    ['ann', '~.', '~..', '~~.', '...']
    """
    return f"~{id}" if _is_step(id) else id


def id_in(part: str) -> str:
    """The id that a path segment stands for.

    >>> [id_in(part) for part in ("ann", "~.", "~..", "~~.", "~ann")]
    ['ann', '.', '..', '~.', '~ann']
    """
    return part[1:] if part[:1] == "~" and _is_step(part) else part


def _is_step(part: str) -> bool:
    return part.lstrip("~") in (".", "..")


def _shown(value: Any) -> Any:
    """What a template may write. Text that is already escaped was made by a template."""
    if value is None:
        return ""
    return open_to_view(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _exact(value: str) -> Markup:
    """Text with nothing left out, for a field that is sent back to the server; escaped like everything else."""
    return escape(value)


_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {name: getattr(words, name) for name in words.FILTERS} | {"exact": _exact}


def frame_of(request: Request, page: str = "") -> Frame:
    """The frame of the requested page."""
    principal: Principal | None = request.scope.get(PRINCIPAL)
    bound = principal.user if principal is not None else None
    return Frame(
        page,
        principal,
        request.scope.get(PROOF, ""),
        request.scope.get("root_path", ""),
        bound or chosen_user(request) or unquote(request.cookies.get(LAST_USER, "")),
        unquote(request.cookies.get(NOTICE, "")),
    )


def chosen_user(request: Request) -> str:
    """The user that a page is about, or that was viewed before a page about the server: each tab keeps its own."""
    return str(request.path_params.get("user") or request.query_params.get(CAME_FROM, ""))


def page(request: Request, name: str, view: Any = None, *, status: int = 200) -> Response:
    """A whole page, from the template with its name."""
    frame = frame_of(request, name)
    response = HTMLResponse(_render(f"{name}.html", frame, view), status)
    if frame.notice:
        response.delete_cookie(NOTICE, path="/")
    user = chosen_user(request)
    if user and status == 200:
        response.set_cookie(LAST_USER, quote(user, safe=""), path="/", httponly=True, samesite="strict")
    return response


def fragment(request: Request, name: str, view: Any = None, *, status: int = 200) -> Response:
    """A part of a page, for htmx to put where it belongs."""
    return HTMLResponse(rendered(request, name, view), status)


def rendered(request: Request, name: str, view: Any) -> str:
    """A part of a page as text."""
    return _render(f"{name}.html", frame_of(request), view)


def moved(request: Request, *parts: str, notice: str = "", **query: Any) -> Response:
    """Redirect to another page after an action; that page shows the notice.

    A request of a script is told the address instead: its browser would follow a redirect unseen, and the page that
    shows the notice would be the one that nobody sees.
    """
    address = link(request.scope.get("root_path", ""), *parts, **query)
    response = Response(headers={GO_TO: address}) if wants_fragment(request) else RedirectResponse(address, 303)
    if notice:
        response.set_cookie(NOTICE, quote(notice), NOTICE_S, path="/", httponly=True, samesite="strict")
    return response


def remember_page(response: Response, address: str) -> None:
    """Note the page to go on with after signing in."""
    if len(address) <= ADDRESS_MAX:
        cookie = quote(address, safe="")
        response.set_cookie(LAST_PAGE, cookie, LAST_PAGE_S, path="/", httponly=True, samesite="strict")


def remembered_page(request: Request) -> str:
    """The page to go on with: an address on this server, whatever the cookie says."""
    address, home = unquote(request.cookies.get(LAST_PAGE, "")), link(request.scope.get("root_path", ""), "")
    is_here = address.startswith(home) and not address.startswith("//") and address.isascii() and address.isprintable()
    return address if is_here and "\\" not in address else home


def attached(content: str | AsyncIterator[bytes], kind: str, name: str) -> Response:
    """A file to be saved, from text or from pieces of it."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if isinstance(content, str):
        return Response(content, media_type=kind, headers=headers)
    return StreamingResponse(content, media_type=kind, headers=headers)


def wants_fragment(request: Request) -> bool:
    """Whether the request comes from a script of ours, which puts the response into the current page."""
    return request.headers.get("hx-request") == "true"


def _render(template: str, frame: Frame, view: Any) -> str:
    return _templates.get_template(template).render(frame=frame, view=view)
