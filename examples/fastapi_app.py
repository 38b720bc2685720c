# pip install ".[server]" && uvicorn --app-dir examples fastapi_app:app
"""A FastAPI application whose chat remembers each of its users.

    curl localhost:8000/chat -H 'X-User: ann' -H 'Content-Type: application/json' \
      -d '{"session": "monday", "text": "I parked on level three."}'

The header stands in for your own sign-in. The memory is opened once, with the application; every request uses the
handle of its own user, and no call can reach another user's data.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from recollect import Memory
from recollect.errors import Conflict, NotFound, RecollectError, ValidationError
from recollect.user import User


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Memory.open("sqlite:///fastapi_app.db") as memory:
        app.state.memory = memory
        yield


app = FastAPI(title="A chat that remembers", lifespan=lifespan)


async def signed_in(request: Request, x_user: Annotated[str, Header()]) -> User:
    """The memory of the user making the request."""
    memory: Memory = request.app.state.memory
    return memory.user(x_user)


Me = Annotated[User, Depends(signed_in)]


class Turn(BaseModel):
    session: str
    text: str


@app.post("/chat")
async def chat(me: Me, turn: Turn) -> dict[str, str]:
    """One turn: context, answer, store."""
    session = me.session(turn.session, agent="assistant")
    context = await session.get_context(turn.text, max_tokens=2_000)
    answer = await stand_in(context.messages)
    await session.add_interaction(turn.text, answer)
    return {"answer": answer}


async def stand_in(messages: list[dict[str, Any]]) -> str:
    """Stands in for a model: repeats what the memory put in front of it."""
    remembered = [line for line in messages[0]["content"].splitlines() if line.startswith("- ")]
    return f"(a stand-in) I remember: {' '.join(remembered)}" if remembered else "(a stand-in) Noted."


@app.get("/sessions")
async def sessions(me: Me) -> list[dict[str, Any]]:
    """The conversations so far, the latest first."""
    return [info.to_dict() for info in await me.sessions()]


@app.get("/profile")
async def profile(me: Me) -> dict[str, Any]:
    """What was learned about the user making the request."""
    return (await me.profile()).to_dict()


@app.delete("/profile")
async def forget_me(me: Me) -> dict[str, Any]:
    """Erase everything about the user, and return a receipt."""
    return (await me.erase()).to_dict()


@app.exception_handler(RecollectError)
async def refused(_: Request, error: Exception) -> JSONResponse:
    """Errors name the field and never the value that was sent, so they are safe to show."""
    statuses = {ValidationError: 422, NotFound: 404, Conflict: 409}
    status = next((status for kind, status in statuses.items() if isinstance(error, kind)), 503)
    return JSONResponse({"detail": str(error)}, status)
