"""The chat: talk to an assistant, and see what it remembered from each turn and what went into its prompt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recollect.conversation import Message
from recollect.errors import Conflict, RecollectError
from recollect.records import new_id
from recollect.server import bodies
from recollect.server.chat import begun, events, streamed
from recollect.server.console.behind import Prompt, Remembered, prompt_of, remembered_of
from recollect.server.console.door import ADDS, Filled, Refusal, router
from recollect.server.console.pages import fragment, moved, page, rendered, wants_fragment
from recollect.server.console.words import spoken
from recollect.server.errors import told
from recollect.server.routing import Caller, Here, Owner, SessionId

routes = router()

MESSAGES_SHOWN = 60
"""How many of the newest messages are shown; the page of the session has all of them."""


@dataclass(frozen=True, slots=True)
class Bubble:
    """A message as it appears in the conversation."""

    id: str
    role: str
    text: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Chat:
    """The page: a conversation, and what is behind its last turn."""

    session: str
    title: str
    turn: str
    agents: tuple[str, ...]
    bubbles: tuple[Bubble, ...]
    remembered: Remembered | None
    prompt: Prompt | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What a turn adds to the page; the first turn gives a conversation its title. `turn` is for the next one."""

    title: str
    turn: str
    bubbles: tuple[Bubble, ...]
    remembered: Remembered
    prompt: Prompt


@routes.get("/users/{user}")
async def person(request: Request, owner: Owner) -> Response:
    """Redirect to the first page about a user, so that a shortened address works too."""
    return moved(request, "users", owner.id, "chat")


@routes.get("/users/{user}/chat")
async def latest_chat(request: Request, service: Here, owner: Owner) -> Response:
    """Redirect to the latest conversation, or to a new one."""
    held = await owner.sessions(limit=1)
    return moved(request, "users", owner.id, "chat", held[0].id if held else new_id(service.clock()))


@routes.get("/users/{user}/chat-new")
async def new_chat(request: Request, service: Here, owner: Owner) -> Response:
    """Redirect to a new conversation."""
    return moved(request, "users", owner.id, "chat", new_id(service.clock()))


@routes.get("/users/{user}/chat/{session}")
async def chat_page(
    request: Request, service: Here, owner: Owner, session: SessionId, prompt: bool = False
) -> Response:
    """A conversation, and what is behind its last turn; with `prompt`, also what a model would be given for it."""
    chat = owner.session(session)
    messages, _ = await chat.messages(limit=MESSAGES_SHOWN, newest_first=True)
    said = next((message for message in messages if message.role == "user" and spoken(message.content).strip()), None)
    view = Chat(
        session=session,
        title=(await chat.info()).title if messages else "New conversation",
        turn=new_id(service.clock()),
        agents=tuple(sorted(service.agents)),
        bubbles=tuple(map(bubble, reversed(messages))),
        remembered=await remembered_of(owner, session, said.id) if said else None,
        prompt=prompt_of(await chat.get_context(spoken(said.content))) if said and prompt else None,
    )
    return page(request, "chat", view)


@routes.post("/users/{user}/chat/{session}", openapi_extra=ADDS)
async def say(
    request: Request, service: Here, caller: Caller, owner: Owner, session: SessionId, form: Filled
) -> Response:
    """Say something; the assistant answers using what it remembers."""
    body = bodies.ChatTurn(
        chat_id=session, user_id=owner.id, message=form.get("message"), agent=form.optional("agent") or ""
    )
    turn = begun(service, caller.org, body, form.optional("turn"))
    try:
        prepared = await turn.begin()
    except Conflict:  # the first words of this turn were stored but not answered, and now there are others
        turn = begun(service, caller.org, body, None)
        prepared = await turn.begin()
    if not wants_fragment(request):
        await turn.end(prepared, "".join([piece async for piece in turn.executor.answer(prepared)]))
        return moved(request, "users", owner.id, "chat", session)

    async def done(answer: dict[str, Any]) -> dict[str, Any]:
        records = await owner.get_memories(answer["message_ids"])
        bubbles = tuple(bubble(Message.from_record(record)) for record in records)
        behind = await remembered_of(owner, session, turn.said_id, 0)
        title, following = (await turn.chat.info()).title, new_id(service.clock())
        added = Answered(title, following, bubbles, behind, prompt_of(prepared.context))
        return {"html": rendered(request, "chat_turn", added)}

    def failed(error: RecollectError) -> dict[str, Any]:
        view = Refusal(*told(error))
        return {"html": rendered(request, "notice", view), "status": view.status}

    return events(streamed(turn, prepared, done, failed))


@routes.get("/users/{user}/chat/{session}/remembered")
async def remembered(request: Request, owner: Owner, session: SessionId, message: str, look: int = 0) -> Response:
    """What has been remembered from a message by now; the page asks again while more may come."""
    return fragment(request, "chat_remembered", await remembered_of(owner, session, message, look))


def bubble(message: Message) -> Bubble:
    """A message as it is shown."""
    return Bubble(message.id, message.role, spoken(message.content), message.created_at)
