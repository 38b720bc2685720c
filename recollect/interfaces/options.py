"""What commands share: the options for where and whose, and how a memory is opened for a single command."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from recollect import json_text
from recollect.errors import NotFound, RecollectError, ValidationError
from recollect.interfaces.output import progress
from recollect.memory import Memory
from recollect.settings import Settings
from recollect.stores.loops import loop_for
from recollect.stores.sqlite_url import name_of

T = TypeVar("T")

LOOK_S = 0.5
"""How often the progress of reading is looked at."""

Url = Annotated[
    str | None,
    typer.Option(help="Where memories are kept. Default: RECOLLECT_URL, recollect.toml, sqlite:///recollect.db."),
]
Org = Annotated[str, typer.Option(help="Organisation of the user.")]
Who = Annotated[str, typer.Option("--user", help="Whose memories.")]
OrgWide = Annotated[
    bool, typer.Option("--org-wide", help="What all users of the organisation share, not one user's own.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, for programs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be forgotten.")]
Layer = Annotated[list[str] | None, typer.Option(metavar="LAYER", help="Only this layer; may be repeated.")]
Where = Annotated[str | None, typer.Option(metavar="JSON", help='Filter, such as {"metadata.topic": "work"}.')]


def on_loop(work: Coroutine[Any, Any, T], *urls: str | None) -> T:
    """Run the work of a command on an event loop that the drivers of these stores can use."""
    with asyncio.Runner(loop_factory=loop_of(*urls)) as runner:
        return runner.run(work)


def loop_of(*urls: str | None) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The same, for a command that runs several pieces of work on one loop. None is the URL of the settings."""
    named: list[object] = [*urls]
    with contextlib.suppress(RecollectError):  # reported where the store is opened
        settings = Settings.read(os.environ)
        named += [settings.url if None in urls else "", *settings.layers.values()]
    return loop_for(named)


def run(url: str | None, step: Callable[[Memory], Awaitable[T]], settings: Settings | None = None) -> T:
    """Open the memory, do one thing with it, and close it. No worker: a command does only what it says.

    A missing file is created.
    """

    async def go() -> T:
        async with Memory.open(url, settings=settings, worker=False) as memory:
            return await step(memory)

    return on_loop(go(), url)


def look(url: str | None, step: Callable[[Memory], Awaitable[T]]) -> T:
    """The same for commands that make no sense without memories: a missing file is not created."""
    if not is_missing(file_of(url)):
        return run(url, step)
    # The step still runs, so that a mistake in the request is reported before the missing file is.
    with contextlib.suppress(NotFound):
        run("memory://", step)
    raise NotFound(f"no memories yet in {place(url)}; `recollect chat`, `add` or `import` creates it")


async def take_in(memory: Memory) -> None:
    """Embed and rate what came in and learn from it, with a progress bar."""
    total = (await memory.survey()).jobs_waiting
    work = asyncio.create_task(memory.work())
    try:
        with progress("Reading", total) as advance:
            while not (await asyncio.wait([work], timeout=LOOK_S))[0]:
                # What is left is counted, since a job may lead to others: only when none is left is it all.
                survey = await memory.survey()
                advance(max(total - survey.jobs_waiting - survey.jobs_running, 0))
        await work
    finally:
        work.cancel()
        await asyncio.wait([work])


async def catch_up(memory: Memory) -> None:
    """The same after a change, unless a worker elsewhere sees to it."""
    if Settings.read(os.environ).worker:
        await take_in(memory)


def place(url: str | None) -> str:
    """Where memories are looked for, as people say it; of a URL that may contain a secret, only its kind."""
    path = file_of(url)
    return str(path) if path else f"{chosen(url).partition('://')[0]}://"


def chosen(url: str | None) -> str:
    """The URL to use: the one given, or else that of the settings."""
    return Settings.read(os.environ).url if url is None else url


def file_of(url: str | None) -> Path | None:
    """The file of memories, if the URL to use names one."""
    url = chosen(url)
    name = name_of(url)
    return Path(name) if url.startswith("sqlite://") and name else None


def is_missing(path: Path | None) -> bool:
    """Whether only the file is missing; anything else wrong with its name is for the store to report."""
    if path is None:
        return False
    try:
        path.lstat()
    except FileNotFoundError:
        return path.parent.is_dir()
    except (OSError, ValueError):
        return False
    return False


def filter_of(where: str | None) -> Any:
    """A filter that was given as JSON. `null` is not "no filter": whoever writes --where wants to narrow."""
    return object_of(where, "where")


def object_of(text: str | None, field: str) -> Any:
    """An object that was given as JSON."""
    if text is None:
        return None
    value = json_of(text, field)
    if not isinstance(value, dict):
        raise ValidationError("must be a JSON object", field=field)
    return value


def json_of(text: str, field: str) -> Any:
    """A value that was given as JSON. The usual mistake is to leave its quotes to the shell, which removes them."""
    try:
        return json_text.parse(text, field)
    except ValidationError as error:
        if not error.message.startswith("must be one JSON document"):
            raise
        advice = """; put JSON in quotes, as in '{"topic": "work"}'"""
        raise ValidationError(error.message + advice, field=field) from error
