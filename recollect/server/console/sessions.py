"""Sessions: listed, read from the first word, renamed, branched, deleted."""

from __future__ import annotations

import json
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from recollect.conversation import SessionInfo
from recollect.episodes import Episode
from recollect.records import new_id
from recollect.server.console.chat import Bubble, bubble
from recollect.server.console.door import ADDS, Filled, router
from recollect.server.console.pages import attached, moved, page
from recollect.server.routing import Chat, Here, Owner
from recollect.server.sessions import must_be_there
from recollect.session import Session
from recollect.user import User

routes = router()

LISTED, MESSAGES = 1_000, 100
"""Sessions in the list, and messages on one page of a session."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """The page of all sessions."""

    sessions: tuple[SessionInfo, ...]
    most: int = LISTED


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One session: a page of its messages, and the cursor of the next."""

    info: SessionInfo
    bubbles: tuple[Bubble, ...]
    is_first: bool
    after: str | None
    episodes: tuple[Episode, ...]


@routes.get("/users/{user}/sessions")
async def sessions(request: Request, owner: Owner) -> Response:
    """All conversations, the most recent first."""
    return page(request, "sessions", Sessions(tuple(await owner.sessions(limit=LISTED))))


@routes.get("/users/{user}/sessions/{session}")
async def session_page(
    request: Request, owner: Owner, chat: Chat, after: str | None = None, message: str = ""
) -> Response:
    """A conversation, word for word, and its episodes: the page after a cursor, or the one with a given message."""
    if message and not after:
        after = await _page_with(owner, chat, message)
    messages, next_page = await chat.messages(limit=MESSAGES, after=after)
    bubbles = tuple(map(bubble, messages))
    episodes = tuple(await owner.episodes.list(session=chat.id))
    return page(request, "session", SessionPage(await chat.info(), bubbles, after is None, next_page, episodes))


async def _page_with(owner: User, chat: Session, message: str) -> str | None:
    """The cursor of the page that a message is on; None, the first page, for a message that is not in this session."""
    if not any(each.scope.session == chat.id for each in await owner.get_memories([message])):
        return None
    after = None
    while True:
        messages, next_page = await chat.messages(limit=MESSAGES, after=after)
        if next_page is None or any(each.id == message for each in messages):
            return after
        after = next_page


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
    return moved(request, "users", owner.id, "sessions", chat.id, notice="Renamed.")


@routes.post("/users/{user}/sessions/{session}/branch", openapi_extra=ADDS)
async def branch(request: Request, service: Here, owner: Owner, chat: Chat, form: Filled) -> Response:
    """Start another session with this one's messages, up to and including the given one."""
    branched = await chat.branch(form.get("message"), new_id(service.clock()))
    return moved(request, "users", owner.id, "chat", branched.id, notice="A branch: the original stays as it is.")


@routes.post("/users/{user}/sessions/{session}/delete")
async def delete(request: Request, owner: Owner, chat: Chat) -> Response:
    """Forget a session, along with what was learned only from it."""
    receipt = await chat.delete()
    return moved(request, "users", owner.id, "sessions", notice=f"Forgotten for good: {receipt.count} records.")
