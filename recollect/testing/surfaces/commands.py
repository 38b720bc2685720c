"""By commands, each with a memory of its own on the same file."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from recollect.errors import Conflict, NotFound, RecollectError, ValidationError
from recollect.interfaces.cli import app
from recollect.interfaces.output import EXIT_CODES
from recollect.memory import Memory
from recollect.testing.surfaces.reached import Handle, Reached, Unsayable, as_json, is_list, is_unicode, record_of

_COMPLAINT = re.compile(r"recollect: (?:usage: Invalid value for '--(?P<option>[\w-]+)|(?P<field>[^\s:]+): )")
_NO_SUCH = {"memory": "id", "session": "session", "failed work": "failure_id"}
"""What a command calls a thing that is not there -> the field that names it."""


COMMANDS = get_command(app)
"""Made once: the runner would make all commands anew for each of its calls, which takes longer than most of them."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a command: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_command(words: Sequence[str], *, input: str | bytes | None = None, environ: Any = None) -> Ran:
    """Run the program `recollect` in this process, with streams of its own."""
    with CliRunner().isolation(input=input, env=environ) as (out, err, _):
        try:
            COMMANDS.main(args=list(words), prog_name="recollect")
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        return Ran(code if isinstance(code, int) else 0, out.getvalue().decode(), err.getvalue().decode())


class Cli(Reached):
    """By commands, each with a memory of its own on the same file."""

    whole = "line"

    def __init__(self, truth: Memory, url: str) -> None:
        super().__init__(truth)
        self._url = url
        self._one_at_a_time = asyncio.Lock()  # a command has the standard output of the whole process

    def as_told(self, kind: type[RecollectError]) -> type[RecollectError]:
        """The exit codes tell fewer kinds apart, and a line that is refused is bad input whatever the reason."""
        told = next(told for told, _ in EXIT_CODES if issubclass(kind, told))
        return ValidationError if told is Conflict else told

    async def run(self, who: Handle, command: str, *given: Any, input: bytes | None = None, **options: Any) -> Any:
        """What a command prints for programs."""
        words = [command, "--json", f"--url={self._url}", f"--user={_text(who.who)}", f"--org={_text(who.org)}"]
        for name, value in options.items():
            option = f"--{name.replace('_', '-')}"
            words.append(option if value is True else f"{option}={value}")
        words += [] if input is None else ["--all-or-nothing"]
        words += ["--", *(_text(each) for each in given)]
        async with self._one_at_a_time:
            self.sent += 1
            ran = await asyncio.to_thread(run_command, words, input=input, environ=_no_settings())
        if ran.code and not (ran.code == 1 and ran.out.startswith("[")):
            raise _complaint(ran.code, ran.out, ran.err)
        return [json.loads(line) for line in ran.out.split("\n") if line]


def _no_settings() -> dict[str, str | None]:
    return {name: None for name in os.environ if name.startswith("RECOLLECT_")}


def _text(value: Any) -> str:
    """One word of a command line. It can hold neither NUL nor half a character, and nothing but text."""
    if not isinstance(value, str) or "\x00" in value or not is_unicode(value):
        raise Unsayable
    return value


def _number(value: Any) -> int | float:
    """A number, of which the text is the same on a command line."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise Unsayable


def _complaint(code: int, out: str, told: str) -> RecollectError:
    kind = next(kind for kind, each in EXIT_CODES if each == code)
    if not told and '"problems"' in out:
        told = "recollect: " + json.loads(out)["problems"][0]["reason"]
    found = _COMPLAINT.match(told)
    field = (found["option"] or found["field"]).replace("-", "_") if found else None
    if kind is NotFound:
        field = next((name for noun, name in _NO_SUCH.items() if f"no such {noun}" in told), field)
    return kind(told, field=field)


async def _add_message(who: Handle, role: Any, content: Any, **more: Any) -> Any:
    if "idempotency_key" in more or who.agent:
        raise Unsayable
    line = as_json({"role": role, "content": content, **more}).encode()
    await who.over.run(who, "import", "-", input=line, session=_text(who.id))
    return (await who._truth().messages(limit=1, newest_first=True))[0][0]


async def _add_memory(
    who: Handle, content: Any, *, metadata: Any = None, importance: Any = None, only_new: Any = False, **more: Any
) -> Any:
    if not isinstance(only_new, bool) or (only_new and (more or not isinstance(content, str))):
        raise Unsayable  # of a command it is a flag, and an import has none
    if more or not isinstance(content, str):
        rated = {"metadata": metadata, "importance": importance}
        await _import_memory(
            who, content, **{name: value for name, value in rated.items() if value is not None}, **more
        )
        return (await who._truth().list_memories(limit=1, newest_first=True))[0][0]
    options: dict[str, Any] = {} if metadata is None else {"metadata": as_json(metadata)}
    options |= {} if importance is None else {"importance": _number(importance)}
    options |= {"only_new": True} if only_new else {}
    return record_of((await who.over.run(who, "add", content, **options))[0])


async def _import_memory(who: Handle, content: Any, **fields: Any) -> None:
    if "idempotency_key" in fields:
        raise Unsayable
    line = {"content": content} | fields
    await who.over.run(who, "import", "-", input=as_json(line).encode())


async def _search(who: Handle, query: Any, *, layer: Any = None, where: Any = None, limit: Any = 5) -> Any:
    options = _narrowed(layer, where) | {"limit": _number(limit)}
    return [record_of(each["record"]) for each in (await who.over.run(who, "search", query, **options))[0]]


def _narrowed(layer: Any, where: Any) -> dict[str, Any]:
    return ({} if layer is None else {"layer": _text(layer)}) | ({} if where is None else {"where": as_json(where)})


async def _list(who: Handle, *, layer: Any = "long_term", where: Any = None, limit: Any = 100) -> Any:
    found = await who.over.run(who, "list", **_narrowed(_text(layer), where), limit=_number(limit))
    _, after = await who._truth().list_memories(layer=layer, where=where, limit=limit)  # a command has no pages
    return [record_of(each) for each in found[0]], after


async def _context(who: Handle, query: Any, *, max_tokens: Any = 4_000, policy: Any = None) -> Any:
    session = {"session": _text(who.id)} if who.in_session else {}
    chosen = {} if policy is None else {"policy": as_json(policy)}
    told = await who.over.run(who, "context", query, max_tokens=_number(max_tokens), **chosen, **session)
    return record_of(told[0])


async def _history(who: Handle, id: Any) -> Any:
    return [record_of(each) for each in (await who.over.run(who, "history", id))[0]]


async def _forget(who: Handle, ids: Any = None, *, where: Any = None) -> Any:
    listed = [ids] if isinstance(ids, str) else ids or []
    if not is_list(listed):
        raise Unsayable
    return record_of((await who.over.run(who, "forget", *listed, **_narrowed(None, where)))[0])


async def _sessions(who: Handle, *, limit: Any = 100) -> Any:
    return [record_of(each) for each in (await who.over.run(who, "sessions", limit=_number(limit)))[0]]


async def _window(who: Handle) -> Any:
    try:
        (shown,) = await who.over.run(who, "sessions", show=_text(who.id))
    except NotFound:
        return []
    return [record_of(each) for each in shown["messages"]]


async def _delete(who: Handle) -> Any:
    return record_of((await who.over.run(who, "sessions", delete=_text(who.id)))[0])


async def _export(who: Handle) -> Any:
    return await who.over.run(who, "export")


Cli.verbs = {
    "add_message": _add_message, "add_memory": _add_memory,
    "search_memory": _search, "list_memories": _list, "get_context": _context, "history": _history,
    "forget": _forget, "sessions": _sessions, "window": _window, "delete": _delete,
    "export": _export,
}  # fmt: skip


@asynccontextmanager
async def over_cli(url: str, **changes: Any) -> AsyncIterator[Cli]:
    """Commands on a file. The clock, the embedder and the settings are their own."""
    if changes:
        raise Unsayable
    async with Memory.open(url, worker=False) as memory:
        yield Cli(memory, url)
