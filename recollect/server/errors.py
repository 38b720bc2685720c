"""Errors as `application/problem+json` (RFC 9457): the one error tree, expressed in HTTP.

A problem names the field and says what to do. It never carries a value that was sent or stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from recollect.errors import (
    Busy,
    Conflict,
    Corrupt,
    EmbeddingError,
    Forbidden,
    ModelError,
    NotFound,
    RateLimited,
    RecollectError,
    TooLarge,
    Unavailable,
    ValidationError,
)
from recollect.server.answers import Json

MEDIA_TYPE = "application/problem+json"


class Malformed(ValidationError):
    """A body that is not JSON, or JSON that two parsers could read differently."""


STATUSES: tuple[tuple[type[RecollectError], int], ...] = (
    (TooLarge, 413),
    (Malformed, 400),
    (ValidationError, 422),
    (NotFound, 404),
    (Conflict, 409),
    (Forbidden, 403),
    (RateLimited, 429),
    (Busy, 503),
    (Unavailable, 503),
    (Corrupt, 500),
    (EmbeddingError, 502),
    (ModelError, 502),
)
"""The first match decides."""
NO_SUCH_ROUTE = "there is nothing at this path; see /openapi.json for what exists"
RETRY_S = 1
"""When to retry after a 503 whose error does not say so itself."""
_FORMS = ("one", "many")
"""Parts of an error's location that name the variant of the body, not a field."""
_REASONS = {
    "missing": "must be given",
    "extra_forbidden": "is not a known field",
    "int_parsing": "must be a whole number",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""Messages for mistakes in the shape of a request."""
FIELD_CHARACTERS = 80
"""How much of a field name sent by the caller is repeated: anything longer is not a name."""


class Refused(RecollectError):
    """A request refused for its HTTP form rather than its content."""

    def __init__(self, status: int, message: str, *, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.status = status


class Unauthorized(Refused):
    """The same for a key that is missing, wrong, revoked or expired, so that guessing reveals nothing."""

    def __init__(self, message: str = "give a valid key: `Authorization: Bearer rk_...`") -> None:
        super().__init__(401, message, field="authorization")


class TooMany(RateLimited):
    """Too many requests, with the time to wait until there is room again."""

    def __init__(self, wait_s: float) -> None:
        super().__init__("too many requests; wait as long as Retry-After says", field="authorization")
        self.wait_s = max(1, math.ceil(wait_s))


def busy() -> Busy:
    """The refusal of a request for which there is no room now."""
    return Busy("the server is busy; try again", field="server")


def stopping() -> Unavailable:
    """The refusal of a request that the server will not answer any more, because it was told to stop."""
    return Unavailable("the server is shutting down; try again", field="server")


def problem(error: Exception, request_id: str | None = None) -> Json:
    """The response to an error. A request refused unread has no id."""
    status, field, detail = told(error)
    body: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    body |= {"code": _code(error), "detail": detail}
    if request_id is not None:
        body["request_id"] = request_id
    if field is not None:
        body["field"] = field
    return Json(body, status, headers=headers_of(error, status), media_type=MEDIA_TYPE)


def status_of(error: Exception) -> int:
    """The HTTP status of an error."""
    if isinstance(error, Refused | HTTPException):
        return error.status if isinstance(error, Refused) else error.status_code
    if isinstance(error, RequestValidationError):
        return 422
    if isinstance(error, Conflict) and error.field == "version":
        return 412
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def told(error: Exception) -> tuple[int, str | None, str]:
    """The status of an error, the field it is about, and what to do."""
    status = status_of(error)
    if isinstance(error, RequestValidationError):
        return (status, *_first_mistake(error.errors()))
    if isinstance(error, RecollectError):
        return status, error.field, error.message
    if isinstance(error, HTTPException):
        return status, None, _told_by_http(error)
    return status, None, "an unexpected error; the server log has the details under this request id"


def _told_by_http(error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return NO_SUCH_ROUTE
    allowed = (error.headers or {}).get("Allow")
    return f"this path allows only {allowed}" if allowed else HTTPStatus(error.status_code).phrase


def _code(error: Exception) -> str:
    """The name of the error's class in the tree, for programs to test."""
    if isinstance(error, RequestValidationError):
        return "ValidationError"
    tree = {kind.__name__ for kind, _ in STATUSES if kind is not Malformed}
    known = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in tree), None)
    status = status_of(error)
    return known or ("Unexpected" if status == 500 else HTTPStatus(status).phrase.replace(" ", ""))


def headers_of(error: Exception, status: int) -> dict[str, str]:
    """Extra headers of an error response: when to retry, how to authenticate, what is allowed."""
    wait_s = getattr(error, "wait_s", None)
    if wait_s is not None:
        return {"Retry-After": str(wait_s)}
    if status == 503:
        return {"Retry-After": str(RETRY_S)}
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    allowed = error.headers if isinstance(error, HTTPException) else None
    return dict(allowed) if allowed else {}


def _first_mistake(errors: Sequence[Mapping[str, Any]]) -> tuple[str | None, str]:
    """The field and the reason for the first mistake in the shape of a request."""
    first = errors[0]
    place = [str(part) for part in first["loc"][1:] if part not in _FORMS]  # the first says body, path, query or header
    field = ".".join(place)[:FIELD_CHARACTERS].encode("ascii", "backslashreplace").decode() or "body"
    return field, _REASONS.get(first["type"], "has the wrong type")
