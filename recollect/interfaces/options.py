"""What commands share: the options that say where and whose, and how a memory is opened for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from recollect import validate
from recollect.errors import ValidationError
from recollect.memory import Memory, User

T = TypeVar("T")

Url = Annotated[
    str | None,
    typer.Option(help="Where memories are kept. Default: RECOLLECT_URL, recollect.toml, sqlite:///recollect.db."),
]
Org = Annotated[str, typer.Option(help="Organisation of the user.")]
Who = Annotated[str, typer.Option("--user", help="Whose memories.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, for programs.")]
Layer = Annotated[list[str] | None, typer.Option(help="Only this layer; may be given again.")]
Where = Annotated[str | None, typer.Option(metavar="JSON", help='Filter, as {"metadata.topic": "work"}.')]


def run(url: str | None, step: Callable[[Memory], Awaitable[T]]) -> T:
    """Open the memory, do one thing with it, and close it. No worker: a command does what it says."""

    async def go() -> T:
        async with Memory.open(url, worker=False) as memory:
            return await step(memory)

    return asyncio.run(go())


def for_user(url: str | None, org: str, user: str, step: Callable[[User], Awaitable[T]]) -> T:
    """The same for what concerns one user."""
    return run(url, lambda memory: step(memory.user(user, org=org)))


def filter_of(where: str | None) -> Any:
    """A filter that was given as JSON. `null` is not "no filter": who writes --where wants to narrow."""
    if where is None:
        return None
    value = validate.json_text(where, "where")
    if not isinstance(value, dict):
        raise ValidationError("must be a JSON object", field="where")
    return value
