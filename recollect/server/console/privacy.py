"""Export and erase: everything about a user as a file, and nothing left of them, with a receipt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from recollect.errors import ValidationError
from recollect.layers import PUBLIC_LAYERS
from recollect.privacy import Receipt
from recollect.server.console.door import Filled, router
from recollect.server.console.pages import attached, page
from recollect.server.routing import ADMIN, LINES_TYPES, Owner
from recollect.server.wholes import export_lines

routes = router()

COUNTED_MAX = 1_000
"""A layer with this many or more is shown as "1,000 or more"."""


@dataclass(frozen=True, slots=True)
class PrivacyPage:
    """How much is stored about a user, by layer."""

    counts: Mapping[str, int]
    most: int


@dataclass(frozen=True, slots=True)
class Erased:
    """What is left to say about a user who was erased."""

    user: str
    receipt: Receipt


@routes.get("/users/{user}/privacy")
async def privacy(request: Request, owner: Owner) -> Response:
    """How much is known, and what can be done with all of it."""
    counts: dict[str, int] = {}
    for layer in PUBLIC_LAYERS:
        found, _ = await owner.list_memories(layer=layer, limit=COUNTED_MAX)
        counts |= {layer: len(found)} if found else {}
    return page(request, "privacy", PrivacyPage(counts, COUNTED_MAX))


@routes.get("/users/{user}/export")
async def export(owner: Owner) -> Response:
    """Everything about a user, one JSON object per line."""
    return attached(export_lines(owner), LINES_TYPES[0], f"{file_name(owner.id)}.jsonl")


def file_name(user: str) -> str:
    """A name for a file about a user, whatever the user is called.

    >>> file_name("ann"), file_name("../ann b"), file_name("東京")
    ('recollect-ann', 'recollect-ann-b', 'recollect-user')
    """
    return f"recollect-{re.sub(r'[^A-Za-z0-9]+', '-', user)[:60].strip('-') or 'user'}"


@routes.post("/users/{user}/erase", openapi_extra=ADMIN)
async def erase(request: Request, owner: Owner, form: Filled) -> Response:
    """Forget everything about a user. The name must be typed out, so that nobody does it by accident."""
    if form.get("user") != owner.id:
        raise ValidationError("must be the name of the user, to confirm; nothing was erased", field="user")
    return page(request, "receipt", Erased(owner.id, await owner.erase()))
