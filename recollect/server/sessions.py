"""Routes for sessions: messages in and out, windows, and the session as a whole."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recollect.conversation import Message
from recollect.errors import NotFound
from recollect.server import bodies, schemas
from recollect.server.answers import Json, made, paged
from recollect.server.routing import (
    HEADER_NAMES,
    PLACED,
    After,
    Chat,
    IdempotencyKey,
    Limit,
    NewestFirst,
    Owner,
    SessionId,
    UserId,
    found_at,
    given,
    named,
    owner_of,
    router,
    service_of,
    shapes,
)
from recollect.server.schemas import choice_of
from recollect.session import Session
from recollect.windows import STRATEGIES

routes = router("/api/users/{user}/sessions", "sessions")

Agent = Annotated[str, Query(description="The agent it belongs to.")]
Strategy = Annotated[str | None, Query(description="The strategy.", json_schema_extra=choice_of(STRATEGIES))]
Messages = Annotated[int | None, Query(description="The maximum number of messages.")]
Turns = Annotated[int | None, Query(description="The maximum number of turns.")]
Tokens = Annotated[int | None, Query(description="The maximum number of tokens.")]


def _messages(found: list[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in found]


# The busiest routes come first: routes are tried in this order.
@routes.post("/{session}/messages", status_code=201, responses=shapes(schemas.MessagePage, 201))
async def add_messages(
    request: Request,
    user: UserId,
    session: SessionId,
    body: bodies.OneOrMoreMessages,
    agent: Agent = "",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store a message, or with `{"messages": [...]}` up to 90 in one write. Once it answers, they are stored."""
    items = body.messages if isinstance(body, bodies.NewMessages) else [body]
    chat = owner_of(request, user).session(session, agent=agent)
    # An assistant message that only calls tools says nothing, so content may be left out.
    drafts = [{"content": None, **given(item)} for item in items]
    with named(**HEADER_NAMES):
        stored = await chat.add_messages(drafts, idempotency_key=idempotency_key)
    service_of(request).metrics.count("adds", len(stored))
    return Json({"messages": _messages(stored), "after": None}, 201)


@routes.get("", responses=shapes(schemas.SessionPage))
async def list_sessions(owner: Owner, limit: Limit = 100, after: After = None) -> Response:
    """A page of the user's sessions, the most recently active first; `after` is the cursor of the next one."""
    found, next_page = await owner.sessions_page(limit=limit, after=after)
    return Json({"sessions": [info.to_dict() for info in found], "after": next_page})


@routes.get("/{session}", responses=shapes(schemas.Session))
async def get_session(chat: Chat) -> Response:
    """One session, in the same form as in the list."""
    return Json((await chat.info()).to_dict())


@routes.patch("/{session}", responses=shapes(schemas.SessionTitle))
async def rename_session(chat: Chat, body: bodies.NewTitle) -> Response:
    """Give a session a title."""
    await must_be_there(chat)
    await chat.rename(body.title)
    return Json({"id": chat.id, "title": body.title})


@routes.delete("/{session}", responses=shapes(schemas.Receipt))
async def delete_session(chat: Chat) -> Response:
    """Forget a session: messages, summary, title and working state."""
    return Json((await chat.delete()).to_dict())


@routes.get("/{session}/export", responses=shapes(schemas.SessionExport))
async def export_session(chat: Chat) -> Response:
    """The conversation as `{"session_id", "messages", "window_strategy", "max_tokens"}`."""
    await must_be_there(chat)
    return Json(await chat.export())


@routes.post("/{session}/branch", status_code=201, responses=shapes(schemas.MessagePage, 201, headers=PLACED))
async def branch_session(request: Request, chat: Chat, body: bodies.NewBranch) -> Response:
    """Start another session with this one's messages, up to and including the given one."""
    branched = await chat.branch(body.message_id, body.into)
    found, after = await branched.messages()
    return made({"messages": _messages(found), "after": after}, found_at(request, "sessions", branched.id))


@routes.post("/{session}/close", responses=shapes(schemas.Episodes))
async def close_session(chat: Chat) -> Response:
    """Declare a conversation over: it becomes an episode now. Returns the new episodes."""
    return Json({"episodes": [episode.to_dict() for episode in await chat.close()]})


@routes.post("/{session}/compress", responses=shapes(schemas.Compressed))
async def compress_session(chat: Chat) -> Response:
    """Fold the older half of what is not yet summarised into the running summary now."""
    return Json({"compressed": await chat.compress()})


@routes.get("/{session}/window", responses=shapes(schemas.Messages))
async def get_window(
    chat: Chat,
    strategy: Strategy = None,
    messages: Messages = None,
    turns: Turns = None,
    tokens: Tokens = None,
) -> Response:
    """The newest part of a conversation, chosen by a strategy or by limits that all apply."""
    found = await chat.window(strategy, messages=messages, turns=turns, tokens=tokens)
    return Json({"messages": _messages(found)})


@routes.get("/{session}/messages", responses=shapes(schemas.MessagePage))
async def list_messages(
    chat: Chat, limit: Limit = 100, after: After = None, newest_first: NewestFirst = False
) -> Response:
    """A page of a conversation; `after` is the cursor of the next one, null at the end."""
    fetch = partial(chat.messages, newest_first=newest_first)
    return await paged("messages", fetch, Message.to_dict, limit=limit, after=after)


async def must_be_there(chat: Session) -> None:
    """Raise `NotFound` for a session without messages: it does not exist."""
    if not (await chat.messages(limit=1))[0]:
        raise NotFound(field="session")
