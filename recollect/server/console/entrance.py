"""The entry pages: signing in, choosing a user, the sample memory; and the static files of all pages."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from recollect import validate
from recollect.errors import NotFound
from recollect.server import sample
from recollect.server.console.door import ADDS, ANY_USER, COOKIE, OPEN, Filled, router
from recollect.server.console.pages import (
    HEADERS,
    LAST_PAGE,
    LAST_USER,
    STATIC,
    TYPES,
    VERSION,
    moved,
    page,
    remembered_page,
)
from recollect.server.gate import PRINCIPAL, count_failure
from recollect.server.routing import READ, Caller, Here, StrictRoute

routes = router()

USERS_SHOWN = 200
"""How many users are listed; with more than that, one types the name."""
FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class SignIn:
    """The sign-in page; `wrong` after a key that is not valid, `closed` when there is no key at all."""

    wrong: bool = False
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Users:
    """The users to choose from."""

    org: str
    users: tuple[str, ...]
    more: int
    has_sample: bool


@routes.get("/", openapi_extra=ANY_USER)
async def home(request: Request, caller: Caller) -> Response:
    """Redirect to the user that this key is for, or that was viewed last."""
    user = caller.user or unquote(request.cookies.get(LAST_USER, ""))
    return moved(request, "users", user, "chat") if user else moved(request, "users")


@routes.get("/sign-in", openapi_extra=OPEN)
async def sign_in_page(request: Request, service: Here) -> Response:
    """The page to sign in on with a key."""
    if PRINCIPAL in request.scope:
        return moved(request, "")
    return page(request, "sign_in", SignIn(closed=not await service.keys.exist()))


@routes.post("/sign-in", openapi_extra=OPEN)
async def sign_in(request: Request, service: Here, form: Filled) -> Response:
    """Sign in with a key; from then on a cookie stands for it."""
    key = await service.keys.find(form.get("key").strip())
    if key is None:
        count_failure(service, request.scope)
        return page(request, "sign_in", SignIn(wrong=True), status=401)
    response = RedirectResponse(remembered_page(request), 303)
    is_secure = request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        COOKIE, service.seats.take(key.id), path="/", httponly=True, samesite="strict", secure=is_secure
    )
    for name in (LAST_USER, LAST_PAGE):
        response.delete_cookie(name, path="/")
    return response


@routes.post("/sign-out", openapi_extra=ANY_USER | READ)
async def sign_out(request: Request, service: Here) -> Response:
    """Sign out; the cookie becomes worthless, and so does any copy of it."""
    await service.seats.leave(request.cookies.get(COOKIE, ""))
    response = moved(request, "sign-in")
    for name in (COOKIE, LAST_USER, LAST_PAGE):
        response.delete_cookie(name, path="/")
    return response


@routes.get("/users")
async def users(request: Request, service: Here, caller: Caller) -> Response:
    """The users whose memory can be viewed."""
    found = sorted(each.user for each in await service.memory.users() if each.org == caller.org and each.user)
    shown = tuple(found[:USERS_SHOWN])
    return page(request, "users", Users(caller.org, shown, len(found) - len(shown), sample.USER in found))


@routes.post("/users", openapi_extra=READ)
async def choose_user(request: Request, form: Filled) -> Response:
    """View the memory of a user by name; it may be one who has none yet."""
    return moved(request, "users", validate.identifier(form.get("user").strip(), "user"), "chat")


@routes.post("/sample", openapi_extra=ADDS)
async def load_sample(request: Request, service: Here, caller: Caller) -> Response:
    """Load the memory of an invented person, so that every page has something to show."""
    await sample.load(service.memory, caller.org, service.clock())
    return moved(request, "users", sample.USER, "chat", notice=f"The sample memory of {sample.USER} is loaded.")


async def static(name: str, v: str = "") -> Response:
    """A static file that pages use."""
    if name not in STATIC:
        raise NotFound(field="name")
    headers = HEADERS | ({"Cache-Control": FOR_GOOD} if v == VERSION else {})
    return Response(STATIC[name], media_type=TYPES[name[name.rindex(".") :]], headers=headers)


# Static files are the same for everybody: nobody needs to be identified, and they count towards nobody's rate.
routes.add_api_route("/static/{name}", static, openapi_extra=OPEN, route_class_override=StrictRoute)
