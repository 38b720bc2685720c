"""Routes for memories, of a user or shared by an org: add, find, get, change with their history, forget.

And for the context of a user's question.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from recollect import json_text
from recollect.errors import ValidationError
from recollect.layers import PUBLIC_LAYERS
from recollect.records import Hit, Record
from recollect.server import bodies, schemas
from recollect.server.answers import Json, bounded, large, made, paged, tagged
from recollect.server.org import alike
from recollect.server.routing import (
    HEADER_NAMES,
    PLACED,
    READ,
    VERSIONED,
    After,
    Holder,
    IdempotencyKey,
    IfMatch,
    Limit,
    NewestFirst,
    UserId,
    found_at,
    given,
    holder_of,
    if_matching,
    named,
    owner_of,
    router,
    service_of,
    shapes,
)
from recollect.server.schemas import choice_of

routes = router("/api/users/{user}", "memories")

MemoryId = Annotated[str, Path(description="The memory.", examples=["seat"])]
ListedLayer = Annotated[str, Query(description="The layer.", json_schema_extra=choice_of(PUBLIC_LAYERS))]
Where = Annotated[str | None, Query(description='A filter as JSON, such as {"metadata.topic": "travel"}.')]


@routes.post("/context", responses=shapes(schemas.Context), openapi_extra=READ)
async def get_context(request: Request, user: UserId, body: bodies.ContextRequest) -> Response:
    """The best context for a question within the token budget, inside a session or outside any."""
    asked = {name: value for name, value in given(body).items() if name not in ("session", "agent")}
    owner = owner_of(request, user)
    handle = owner if body.session is None else owner.session(body.session, agent=body.agent)
    for name, is_given in (("window", "window" in asked), ("agent", body.agent != "")):
        if body.session is None and is_given:
            raise ValidationError("applies only to a session; name one, or leave this out", field=name)
    context = await handle.get_context(**asked)
    service_of(request).metrics.count_context(context.tokens, context.answerable)
    return await large(context.to_dict, len(context.sources))


@alike(routes, "GET", "/memories", org="list_org_memories", responses=shapes(schemas.MemoryPage))
async def list_memories(
    held: Holder,
    layer: ListedLayer = "long_term",
    where: Where = None,
    limit: Limit = 100,
    after: After = None,
    newest_first: NewestFirst = False,
) -> Response:
    """A page of a layer, in the order first stored; `after` is the cursor of the next one, null at the end."""
    test = None if where is None else json_text.parse(where, "where")
    fetch = partial(held.list_memories, layer=layer, where=test, newest_first=newest_first)
    return await paged("memories", fetch, Record.to_dict, limit=limit, after=after)


@alike(
    routes,
    "POST",
    "/memories",
    org="add_org_memories",
    status_code=201,
    responses=shapes(schemas.MemoryPage, 201, headers=PLACED),
)
async def add_memories(
    request: Request, body: bodies.OneOrMoreMemories, idempotency_key: IdempotencyKey = None
) -> Response:
    """Store a text, or with `{"memories": [...]}` up to 90 in one write."""
    items = body.memories if isinstance(body, bodies.NewMemories) else [body]
    drafts = [{name: value for name, value in given(item).items() if name != "only_new"} for item in items]
    with named(items="memories", **HEADER_NAMES):
        stored = await holder_of(request).add_memories(drafts, idempotency_key=idempotency_key, only_new=body.only_new)
    service_of(request).metrics.count("adds", len(stored))
    # Of several there is no single place.
    at = found_at(request, "memories", stored[0].id) if isinstance(body, bodies.OneMemory) else None
    return made({"memories": [record.to_dict() for record in stored], "after": None}, at)


@alike(routes, "POST", "/memories/search", org="search_org_memory", responses=shapes(schemas.Hits), openapi_extra=READ)
async def search_memory(request: Request, body: bodies.SearchRequest) -> Response:
    """The hits that best answer a question, each with its reasons; if there are too many, the last are only counted."""
    hits = await holder_of(request).search_memory(**given(body))
    service_of(request).metrics.count("searches")
    return await bounded("hits", hits, Hit.to_dict)


@alike(routes, "POST", "/memories/get", org="get_org_memories", responses=shapes(schemas.Memories), openapi_extra=READ)
async def get_memories(held: Holder, body: bodies.MemoryIds) -> Response:
    """Up to 90 memories by their ids, in the order asked; missing ones are skipped, and what is too much is counted."""
    return await bounded("memories", await held.get_memories(body.ids), Record.to_dict)


@alike(
    routes,
    "POST",
    "/memories/history",
    org="get_org_memory_histories",
    responses=shapes(schemas.MemoryHistory),
    openapi_extra=READ,
)
async def get_memory_histories(held: Holder, body: bodies.MemoryIds) -> Response:
    """The versions of up to 90 memories, one memory after the other in the order asked; missing ones are skipped.

    Those of each come oldest first. What is too much is counted, from the beginning.
    """
    versions = list(chain.from_iterable(await held.histories(body.ids)))
    return await bounded("history", versions, Record.to_dict, last_first=True)


@alike(routes, "PATCH", "/memories", org="update_org_memories", responses=shapes(schemas.MemoryPage))
async def update_memories(held: Holder, body: bodies.MemoryEdits) -> Response:
    """Change up to 45 memories in one write, all or none; a stale `version` is a 409."""
    with named(items="memories", version="memories.version"):
        changed = await held.update_memories([given(item) for item in body.memories])
    return Json({"memories": [record.to_dict() for record in changed], "after": None})


@alike(routes, "POST", "/memories/forget", org="forget_org_memories", responses=shapes(schemas.Receipt))
async def forget(held: Holder, body: bodies.ForgetRequest) -> Response:
    """Forget memories by id or by a filter, with everything derived from them."""
    return Json((await held.forget(body.ids, where=body.where, layer=body.layer)).to_dict())


@alike(routes, "GET", "/memories/{id}", org="get_org_memory", responses=shapes(schemas.MemoryRecord, headers=VERSIONED))
async def get_memory(held: Holder, id: MemoryId) -> Response:
    """One memory, from any layer; its version is the ETag."""
    record = await held.get_memory(id)
    return tagged(record.to_dict(), record.version)


@alike(
    routes,
    "PATCH",
    "/memories/{id}",
    org="update_org_memory",
    responses=shapes(schemas.MemoryRecord, headers=VERSIONED),
)
async def update_memory(held: Holder, id: MemoryId, body: bodies.MemoryEdit, if_match: IfMatch = None) -> Response:
    """Change a memory; its previous version stays in its history."""
    record = await if_matching(if_match, lambda version: held.update_memory(id, **given(body), version=version))
    return tagged(record.to_dict(), record.version)


@alike(routes, "DELETE", "/memories/{id}", org="forget_org_memory", responses=shapes(schemas.Receipt))
async def forget_memory(held: Holder, id: MemoryId) -> Response:
    """Forget a memory, with everything derived from it."""
    return Json((await held.forget(id)).to_dict())


@alike(routes, "GET", "/memories/{id}/history", org="get_org_memory_history", responses=shapes(schemas.MemoryHistory))
async def get_memory_history(held: Holder, id: MemoryId) -> Response:
    """The versions of a memory, oldest first, the current one last."""
    return await bounded("history", await held.history(id), Record.to_dict, last_first=True)


@alike(
    routes,
    "POST",
    "/memories/{id}/restore",
    org="restore_org_memory",
    responses=shapes(schemas.MemoryRecord, headers=VERSIONED),
)
async def restore_memory(held: Holder, id: MemoryId) -> Response:
    """Restore a memory that pruning retired or merging ended."""
    record = await held.restore(id)
    return tagged(record.to_dict(), record.version)
