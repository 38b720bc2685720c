"""Routes for sessions: messages in and out, windows, working state, and the session as a whole."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from recollect.conversation import STRATEGIES, Message
from recollect.errors import NotFound
from recollect.server import schemas
from recollect.server.answers import Json, paged, tagged
from recollect.server.routing import (
    HEADER_NAMES,
    VERSIONED,
    After,
    Chat,
    IdempotencyKey,
    IfMatch,
    Limit,
    NewestFirst,
    Owner,
    SessionId,
    UserId,
    given,
    if_matching,
    named,
    owner_of,
    router,
    service_of,
    shapes,
)
from recollect.session import Session
from recollect.working import State

routes = router("/api/users/{user}/sessions", "sessions")

Agent = Annotated[str, Query(description="The agent it belongs to.")]
Strategy = Annotated[str | None, Query(description=f"The strategy: {', '.join(STRATEGIES)}.")]
Messages = Annotated[int | None, Query(description="The maximum number of messages.")]
Turns = Annotated[int | None, Query(description="The maximum number of turns.")]
Tokens = Annotated[int | None, Query(description="The maximum number of tokens.")]
WorkingState = Annotated[dict[str, Any], Body(examples=[{"page": {"route": "/orders"}, "plan": ["find the order"]}])]
MergePatch = Annotated[dict[str, Any], Body(examples=[{"plan": ["find the order", "refund it"], "page": None}])]
STATE = shapes(dict[str, Any], headers=VERSIONED)


def _messages(found: list[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in found]


# The busiest routes come first: routes are tried in this order.
@routes.post("/{session}/messages", status_code=201, responses=shapes(schemas.MessagesShape, 201))
async def add_messages(
    request: Request,
    user: UserId,
    session: SessionId,
    body: schemas.OneOrMoreMessages,
    agent: Agent = "",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store a message, or with `{"messages": [...]}` up to 90 in one write. Once it answers, they are stored."""
    items = body.messages if isinstance(body, schemas.NewMessages) else [body]
    chat = owner_of(request, user).session(session, agent=agent)
    # An assistant message that only calls tools says nothing, so content may be left out.
    drafts = [{"content": None, **given(item)} for item in items]
    with named(**HEADER_NAMES):
        stored = await chat.add_messages(drafts, idempotency_key=idempotency_key)
    service_of(request).metrics.count("adds", len(stored))
    return Json({"messages": _messages(stored), "after": None}, 201)


@routes.get("", responses=shapes(schemas.SessionsShape))
async def list_sessions(owner: Owner, limit: Limit = 100) -> Response:
    """The user's sessions, the most recently active first."""
    return Json({"sessions": [info.to_dict() for info in await owner.sessions(limit=limit)]})


@routes.get("/{session}", responses=shapes(schemas.SessionShape))
async def get_session(chat: Chat) -> Response:
    """One session, in the same form as in the list."""
    return Json((await chat.info()).to_dict())


@routes.patch("/{session}", responses=shapes(schemas.TitleShape))
async def rename_session(chat: Chat, body: schemas.Title) -> Response:
    """Give a session a title."""
    await must_be_there(chat)
    await chat.rename(body.title)
    return Json({"id": chat.id, "title": body.title})


@routes.delete("/{session}", responses=shapes(schemas.ReceiptShape))
async def delete_session(chat: Chat) -> Response:
    """Forget a session: messages, summary, title and working state."""
    return Json((await chat.delete()).to_dict())


@routes.get("/{session}/export", responses=shapes(schemas.SessionExportShape))
async def export_session(chat: Chat) -> Response:
    """The conversation as `{"session_id", "messages", "window_strategy", "max_tokens"}`."""
    await must_be_there(chat)
    return Json(await chat.export())


@routes.post("/{session}/branch", status_code=201, responses=shapes(schemas.MessagesShape, 201))
async def branch_session(chat: Chat, body: schemas.Branch) -> Response:
    """Start another session with this one's messages, up to and including the given one."""
    branched = await chat.branch(body.message_id, body.into)
    found, after = await branched.messages()
    return Json({"messages": _messages(found), "after": after}, 201)


@routes.post("/{session}/close", responses=shapes(schemas.EpisodesShape))
async def close_session(chat: Chat) -> Response:
    """Declare a conversation over: it becomes an episode now. Returns the new episodes."""
    return Json({"episodes": [episode.to_dict() for episode in await chat.close()]})


@routes.post("/{session}/compress", responses=shapes(schemas.CompressedShape))
async def compress_session(chat: Chat) -> Response:
    """Fold the older half of what is not yet summarised into the running summary now."""
    return Json({"compressed": await chat.compress()})


@routes.get("/{session}/window", responses=shapes(schemas.MessagesShape))
async def window(
    chat: Chat,
    strategy: Strategy = None,
    messages: Messages = None,
    turns: Turns = None,
    tokens: Tokens = None,
) -> Response:
    """The newest part of a conversation, chosen by a strategy or by limits that all apply."""
    found = await chat.window(strategy, messages=messages, turns=turns, tokens=tokens)
    return Json({"messages": _messages(found)})


@routes.get("/{session}/messages", responses=shapes(schemas.MessagesShape))
async def list_messages(
    chat: Chat, limit: Limit = 100, after: After = None, newest_first: NewestFirst = False
) -> Response:
    """A page of a conversation; `after` is the cursor of the next one, null at the end."""

    async def fetch(count: int, cursor: str | None) -> tuple[list[Message], str | None]:
        return await chat.messages(limit=count, after=cursor, newest_first=newest_first)

    return await paged("messages", fetch, Message.to_dict, limit=limit, after=after)


# ── Working state ────────────────────────────────────────────────────────────────────────────────


def _state(state: State) -> Response:
    return tagged(dict(state), state.version)


@routes.get("/{session}/working", responses=STATE)
async def get_working(owner: Owner, session: SessionId, agent: Agent = "") -> Response:
    """The state of the task; its version is the ETag. If there is none, it is empty, with the ETag "0"."""
    return _state(await owner.session(session, agent=agent).working.get())


@routes.put("/{session}/working", responses=STATE)
async def set_working(
    owner: Owner, session: SessionId, body: WorkingState, agent: Agent = "", if_match: IfMatch = None
) -> Response:
    """Replace the state of the task."""
    working = owner.session(session, agent=agent).working
    return _state(await if_matching(if_match, lambda version: working.set(body, version=version)))


@routes.patch("/{session}/working", responses=STATE)
async def patch_working(
    owner: Owner, session: SessionId, body: MergePatch, agent: Agent = "", if_match: IfMatch = None
) -> Response:
    """Change parts of the state (JSON merge patch: null removes, objects merge, the rest replaces)."""
    working = owner.session(session, agent=agent).working
    return _state(await if_matching(if_match, lambda version: working.patch(body, version=version)))


@routes.post("/{session}/working/push", responses=STATE)
async def push_working(owner: Owner, session: SessionId, body: schemas.Push, agent: Agent = "") -> Response:
    """Append to a list in the state and keep its newest items."""
    working = owner.session(session, agent=agent).working
    return _state(await working.push(body.name, body.item, keep=body.keep))


@routes.delete("/{session}/working", status_code=204)
async def clear_working(owner: Owner, session: SessionId, agent: Agent = "") -> Response:
    """Forget the state of the task."""
    await owner.session(session, agent=agent).working.clear()
    return Response(status_code=204)


async def must_be_there(chat: Session) -> None:
    """Raise `NotFound` for a session without messages: it does not exist."""
    if not (await chat.messages(limit=1))[0]:
        raise NotFound(field="session")
