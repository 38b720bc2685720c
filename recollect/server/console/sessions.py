"""Sessions: listed, read from the first word, renamed, branched, deleted."""

from __future__ import annotations

import json
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from recollect.conversation import SessionInfo
from recollect.episodes import Episode
from recollect.memory import Session
from recollect.records import new_id
from recollect.server.console.chat import Bubble, bubble
from recollect.server.console.door import ADDS, Filled, router
from recollect.server.console.pages import attached, moved, page
from recollect.server.routing import Chat, Here, Owner
from recollect.server.sessions import must_be_there

routes = router()

LISTED, MESSAGES = 1_000, 100
"""Sessions of the list, and messages on a page of one."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """The page of all sessions."""

    sessions: tuple[SessionInfo, ...]
    most: int = LISTED


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One session, from its first message."""

    info: SessionInfo
    bubbles: tuple[Bubble, ...]
    after: str | None
    episodes: tuple[Episode, ...]


@routes.get("/users/{user}/sessions")
async def sessions(request: Request, owner: Owner) -> Response:
    """All conversations, the most recent first."""
    return page(request, "sessions", Sessions(tuple(await owner.sessions(limit=LISTED))))


@routes.get("/users/{user}/sessions/{session}")
async def session_page(request: Request, owner: Owner, chat: Chat, after: str | None = None) -> Response:
    """A conversation, word for word, and how it is remembered as a whole."""
    messages, next_page = await chat.messages(limit=MESSAGES, after=after)
    info = await chat.info()
    episodes = await owner.episodes.list(session=chat.id)
    return page(request, "session", SessionPage(info, tuple(map(bubble, messages)), next_page, tuple(episodes)))


@routes.get("/users/{user}/sessions/{session}/export")
async def export_session(chat: Chat) -> Response:
    """The conversation as a file."""
    await must_be_there(chat)
    text = json.dumps(await chat.export(), ensure_ascii=False, indent=2)
    return attached(text, "application/json", "session.json")


@routes.post("/users/{user}/sessions/{session}/rename")
async def rename(request: Request, owner: Owner, chat: Chat, form: Filled) -> Response:
    """Give a session a title."""
    await must_be_there(chat)
    await chat.rename(form.get("title").strip())
    return _back(request, chat, owner.id, "Renamed.")


@routes.post("/users/{user}/sessions/{session}/branch", openapi_extra=ADDS)
async def branch(request: Request, service: Here, owner: Owner, chat: Chat, form: Filled) -> Response:
    """Begin another session with this one's messages, up to and with one of them."""
    branched = await chat.branch(form.get("message"), new_id(service.clock()))
    return moved(request, "users", owner.id, "chat", branched.id, notice="A branch: what is said here stays here.")


@routes.post("/users/{user}/sessions/{session}/delete")
async def delete(request: Request, owner: Owner, chat: Chat) -> Response:
    """Forget a session, with what was learned from it alone."""
    receipt = await chat.delete()
    return moved(request, "users", owner.id, "sessions", notice=f"Forgotten for good: {receipt.count} records.")


def _back(request: Request, chat: Session, user: str, notice: str) -> Response:
    return moved(request, "users", user, "sessions", chat.id, notice=notice)
