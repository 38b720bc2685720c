"""`/api/chat`: get the context, store what the user said, ask the agent, store what it answered.

The user's message is stored before the agent is asked, so an agent that fails loses nothing. A turn that
is sent again under the same Idempotency-Key is answered with the stored reply.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from recollect import validate
from recollect.errors import Conflict, ModelError, NotFound, RecollectError
from recollect.records import Record, derived_id, new_id
from recollect.server import bodies, schemas
from recollect.server.admission import VISIT
from recollect.server.answers import Json
from recollect.server.envelope import REQUEST_ID
from recollect.server.errors import problem, stopping
from recollect.server.executors import Executor, Prepared
from recollect.server.gate import PRINCIPAL
from recollect.server.routing import HEADER_NAMES, IdempotencyKey, named, router, service_of
from recollect.server.service import Service
from recollect.session import Session
from recollect.user import User

routes = router("/api", "chat")

EVENTS = "text/event-stream"
_LINE_ENDS = {ord(each): f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}
"""Line ends that JSON leaves as they are, but that many readers of events take for the end of the line."""
_EXAMPLE = (
    'event: token\ndata: {"text": "Admiral."}\n\nevent: done\ndata: {"chat_id": "monday", "reply": "Admiral.", ...}\n\n'
)
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": schemas.ChatReply,
        "description": "The reply; with `stream`, events `token`, then `done` with the whole reply, or `error`.",
        "content": {EVENTS: {"schema": {"type": "string"}, "example": _EXAMPLE}},
    }
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn in progress: where it belongs, what was said, and the ids under which both sides are stored."""

    service: Service
    owner: User
    chat: Session
    executor: Executor
    text: str
    said_id: str
    reply_id: str

    async def begin(self) -> Prepared:
        """Read what the answer needs, then store what the user said."""
        prepared = await self.executor.prepare(self.chat, self.text)
        await self.chat.add_message("user", self.text, id=self.said_id)
        self.service.metrics.count_context(prepared.context.tokens, prepared.context.answerable)
        self.service.metrics.count("adds")
        return prepared

    async def end(self, prepared: Prepared, reply: str) -> dict[str, Any]:
        """Store the reply. If the same turn was answered in the meantime, that reply is returned."""
        if not reply.strip():
            raise ModelError("The agent gave no answer. The user's message is kept.", field="agent")
        try:
            await self.chat.add_message(
                "assistant", reply, id=self.reply_id, metadata=prepared.metadata, reply_to=self.said_id
            )
        except Conflict as conflict:
            if conflict.field == "reply_to":
                raise Conflict("the message was forgotten meanwhile; the reply is not kept", field="message") from None
            reply = (await self.owner.get_memory(self.reply_id)).content
        self.service.metrics.count("adds")
        self.service.metrics.count("turns")
        return self.answered(prepared, reply)

    def answered(self, prepared: Prepared, reply: str) -> dict[str, Any]:
        context = prepared.context.to_dict()
        return {
            "chat_id": self.chat.id,
            "reply": reply,
            "message_ids": [self.said_id, self.reply_id],
            "context": {name: context[name] for name in ("sections", "tokens", "sources")},
        }

    async def stored_reply(self) -> str | None:
        """The stored reply, if this very turn was answered before."""
        found = {record.id: record for record in await self.owner.get_memories([self.said_id, self.reply_id])}
        said, reply = found.get(self.said_id), found.get(self.reply_id)
        if said is not None and not self._is_same(said):
            raise Conflict("this idempotency key was used for another turn", field="idempotency_key")
        return reply.content if said is not None and reply is not None else None

    def _is_same(self, said: Record) -> bool:
        return said.content == self.service.memory.masked(self.text) and said.scope.session == self.chat.id


@routes.post("/chat", responses=_ANSWERS, openapi_extra={"x-any-user": True})
async def chat(request: Request, body: bodies.ChatTurn, idempotency_key: IdempotencyKey = None) -> Response:
    """Say something to an agent; it answers using what it remembers, and both messages are stored."""
    service, caller = service_of(request), request.scope[PRINCIPAL]
    if caller.user is not None and body.user_id != caller.user:
        raise NotFound(field="user_id")
    streams = validate.switch(body.stream, "stream")
    with named(user="user_id", session="chat_id", **HEADER_NAMES):
        turn = begun(service, caller.org, body, idempotency_key)
        known = await turn.stored_reply() if idempotency_key is not None else None
    if known is not None:
        answer = turn.answered(await turn.executor.prepare(turn.chat, turn.text), known)
        return events(_replayed(answer)) if streams else Json(answer)
    prepared = await turn.begin()
    if streams:
        request_id = request.scope[REQUEST_ID]

        def failed(error: RecollectError) -> dict[str, Any]:
            told: dict[str, Any] = json.loads(bytes(problem(error, request_id).body))
            return told

        return events(streamed(turn, prepared, _as_it_is, failed))
    # A model may take a minute, and nobody should have to queue for that.
    request.scope[VISIT].rest()
    reply = "".join([piece async for piece in turn.executor.answer(prepared)])
    return Json(await turn.end(prepared, reply))


def begun(service: Service, org: str, body: bodies.ChatTurn, key: str | None) -> Turn:
    """A turn as it was sent, checked; nothing is stored yet."""
    owner = service.memory.user(body.user_id, org=org)
    agent = validate.agent(body.agent)
    session = owner.session(body.chat_id, agent=agent)
    text = validate.text(body.message, "message")
    checked = new_id(service.clock()) if key is None else validate.identifier(key, "idempotency-key")
    said_id, reply_id = (derived_id("turn", session.id, checked, side) for side in ("user", "assistant"))
    executor = service.executors.of(org, owner.id, agent, session.id)
    return Turn(service, owner, session, executor, text, said_id, reply_id)


# ── Server-sent events ───────────────────────────────────────────────────────────────────────────


def events(told: AsyncIterator[str]) -> Response:
    """A response streamed as server-sent events."""
    return StreamingResponse(told, media_type=EVENTS, headers={"X-Accel-Buffering": "no"})


async def streamed(
    turn: Turn,
    prepared: Prepared,
    done: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
    failed: Callable[[RecollectError], dict[str, Any]],
) -> AsyncIterator[str]:
    """The reply as it arrives, then what `done` makes of it once it is stored, or what `failed` makes of an error.

    If the client leaves before that, the reply is not stored.
    """
    pieces: list[str] = []
    try:
        async with aclosing(turn.executor.answer(prepared)) as answer:
            async for piece in answer:
                pieces.append(piece)
                yield _event("token", {"text": piece})
        yield _event("done", await done(await turn.end(prepared, "".join(pieces))))
    except RecollectError as error:
        yield _event("error", failed(error))
    except asyncio.CancelledError:
        if turn.service.draining:
            yield _event("error", failed(stopping()))
        raise


async def _as_it_is(answer: dict[str, Any]) -> dict[str, Any]:
    return answer


async def _replayed(answer: dict[str, Any]) -> AsyncIterator[str]:
    yield _event("token", {"text": answer["reply"]})
    yield _event("done", answer)


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False).translate(_LINE_ENDS)}\n\n"
