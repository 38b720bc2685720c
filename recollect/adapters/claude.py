"""Claude's memory tool (`memory_20250818`): files under /memories that are long-term memories of a user.

    tool = MemoryTool(memory.user("ann"))
    answer = await tool(block.input)          # of each `tool_use` block whose name is "memory"

What Claude writes is then found by `search_memory`, goes into contexts, and is exported and erased with its
user. Needs no package: it takes the input of a tool call as it comes and returns the text to answer it with.
Answers are those of the file tool in Anthropic's SDK; for its tool runner there is `recollect.adapters.anthropic`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, TypeGuard

from recollect.adapters.bridge import Bridge, UserHandle, checked
from recollect.adapters.verbatim import in_pieces, remember_in_pieces
from recollect.errors import Conflict, NotFound, RecollectError
from recollect.paging import every
from recollect.records import Record, derived_id
from recollect.user import User

ROOT = "/memories"
PATH, BLANK = "memory_path", "memory_blank"
PAGE = 1_000
DEPTH = 2
"""How many levels below a folder are shown."""
LINES_MAX = 999_999
"""More lines than this do not fit the column of line numbers."""
EDITED = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"

Given = Mapping[str, Any]


class Refused(Exception):
    """The command cannot be carried out; the text tells Claude why."""


class MemoryTool:
    """Answers the commands of Claude's memory tool: view, create, str_replace, insert, delete, rename.

    A command that cannot be carried out is answered with the reason, after "Error: ".
    """

    definition = {"type": "memory_20250818", "name": "memory"}
    """The entry for the `tools` of a request."""

    def __init__(self, user: UserHandle) -> None:
        self._user = checked(user, "user")
        self._bridge = Bridge()

    async def __call__(self, command: Given) -> str:
        """The answer to one command."""
        return await self._bridge.wait(self._user, lambda user: _answer(user, command))

    def run(self, command: Given) -> str:
        """The same, from code without `await`."""
        return self._bridge.run(self._user, lambda user: _answer(user, command))


async def _answer(user: User, given: Given) -> str:
    try:
        return await perform(user, given)
    except Refused as refusal:
        return f"Error: {refusal}"


async def perform(user: User, given: Given) -> str:
    """Carry out one command; `Refused` says why that is not possible."""
    do = COMMANDS.get(str(given.get("command")))
    if do is None:
        raise Refused(f"Unknown command. Use one of {', '.join(COMMANDS)}.")
    try:
        return await do(user, given)
    except (Conflict, NotFound):
        raise Refused("The file was changed meanwhile. View it again.") from None
    except RecollectError as error:
        raise Refused(str(error)) from error


async def clear(user: User) -> str:
    """Forget all files, and nothing else that is known about the user."""
    await user.forget(where=_below(ROOT), layer="long_term")
    return "All memory cleared"


# ── commands ─────────────────────────────────────────────────────────────────────────────────────


async def _view(user: User, given: Given) -> str:
    path = _path(given, "path")
    file = await _find(user, path)
    if file is not None:
        return _numbered(path, _text(file), given.get("view_range"))
    sizes = {record.metadata[PATH]: len(_text(record).encode()) async for record in _under(user, path)}
    if not sizes and path != ROOT:
        raise Refused(f"The path {path} does not exist. Please provide a valid path.")
    shown = f"Here're the files and directories up to {DEPTH} levels deep in {path}, excluding hidden items:"
    return "\n".join([shown, *_tree(path, sizes)])


async def _create(user: User, given: Given) -> str:
    path, text = _path(given, "path"), _string(given, "file_text")
    if await _is_folder(user, path):
        raise Refused(f"File {path} already exists")
    await _check_folders(user, path)
    try:
        await user.add_memory(id=_id(path), only_new=True, **_draft(path, text))
    except Conflict:
        raise Refused(f"File {path} already exists") from None
    return f"File created successfully at: {path}"


async def _str_replace(user: User, given: Given) -> str:
    path, old = _path(given, "path"), _string(given, "old_str")
    new = "" if given.get("new_str") is None else _string(given, "new_str")
    file = await _file(user, path)
    text = _text(file)
    count = text.count(old)
    if count == 0:
        raise Refused(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if count > 1:
        numbers = ", ".join(map(str, _lines_with(old, text)))
        found = f"Multiple occurrences of old_str `{old}` in lines: {numbers}."
        raise Refused(f"No replacement was performed. {found} Please ensure it is unique")
    before = text.count("\n", 0, text.index(old))
    text = text.replace(old, new)
    await _save(user, file, text)
    return "\n".join([EDITED, *_lines(text)[max(before - 2, 0) : before + 3]])


async def _insert(user: User, given: Given) -> str:
    path, addition = _path(given, "path"), _string(given, "insert_text")
    file = await _file(user, path)
    lines = _ended_lines(_text(file))
    place = given.get("insert_line")
    if not _is_number(place) or not 0 <= place <= len(lines):
        told = f"It should be within the range [0, {len(lines)}]."
        raise Refused(f"Invalid `insert_line` parameter: {place}. {told}")
    text = "\n".join([*lines[:place], addition.rstrip("\n"), *lines[place:]])
    await _save(user, file, text if text.endswith("\n") else f"{text}\n")
    return f"The file {path} has been edited."


async def _delete(user: User, given: Given) -> str:
    path = _path(given, "path")
    if path == ROOT:
        raise Refused(f"Cannot delete the {ROOT} directory itself")
    file = await _find(user, path)
    ids = [file.id] if file else [record.id async for record in _under(user, path)]
    if not ids:
        raise Refused(f"The path {path} does not exist")
    await _forget(user, ids)
    return f"Successfully deleted {path}"


async def _rename(user: User, given: Given) -> str:
    old, new = _path(given, "old_path"), _path(given, "new_path")
    if old == ROOT:
        raise Refused(f"Cannot rename the {ROOT} directory itself")
    if await _find(user, new) is not None or await _is_folder(user, new):
        raise Refused(f"The destination {new} already exists")
    file = await _find(user, old)
    moved = [file] if file else [record async for record in _under(user, old)]
    if not moved:
        raise Refused(f"The path {old} does not exist")
    if new.startswith(f"{old}/"):
        raise Refused(f"{old} cannot be moved into itself")
    await _check_folders(user, new)
    places = [new + record.metadata[PATH].removeprefix(old) for record in moved]
    drafts = [
        _draft(place, _text(record)) | {"id": _id(place)} for place, record in zip(places, moved, strict=True)
    ]  # fmt: skip
    await remember_in_pieces(user, drafts)
    await _forget(user, [record.id for record in moved])
    return f"Successfully renamed {old} to {new}"


COMMANDS: dict[str, Callable[[User, Given], Awaitable[str]]] = {
    "view": _view,
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
    "delete": _delete,
    "rename": _rename,
}


# ── files and records ────────────────────────────────────────────────────────────────────────────


def _id(path: str) -> str:
    return derived_id("claude", path)


def _draft(path: str, text: str) -> dict[str, Any]:
    """A file as a memory; a blank file is a memory that says so, since no memory may be blank."""
    if text.strip():
        return {"content": text, "metadata": {PATH: path, "pinned": True}}
    return {"content": f"[{path} is blank]", "metadata": {PATH: path, "pinned": True, BLANK: text}}


def _text(record: Record) -> str:
    text: str = record.metadata.get(BLANK, record.content)
    return text


async def _find(user: User, path: str) -> Record | None:
    found = await user.get_memories([_id(path)])
    return found[0] if found else None


async def _file(user: User, path: str) -> Record:
    file = await _find(user, path)
    if file is not None:
        return file
    if await _is_folder(user, path):
        raise Refused(f"The path {path} is not a file.")
    raise Refused(f"The path {path} does not exist. Please provide a valid path.")


async def _save(user: User, file: Record, text: str) -> None:
    if file.valid_to is not None:  # it was merged or retired: editing it brings it back
        file = await user.restore(file.id)
    await user.update_memory(file.id, **_draft(file.metadata[PATH], text), version=file.version)


def _under(user: User, folder: str, page_size: int = PAGE) -> AsyncIterator[Record]:
    """The files in a folder and in those below it."""
    return every(partial(user.list_memories, where=_below(folder), limit=page_size))


def _below(folder: str) -> Given:
    """The filter for the files below a folder."""
    return {f"metadata.{PATH}": {"gte": f"{folder}/", "lt": folder + chr(ord("/") + 1)}}


async def _is_folder(user: User, path: str) -> bool:
    """Whether there are files below a path: a folder exists as long as it has any."""
    if path == ROOT:
        return True
    async for _ in _under(user, path, page_size=1):
        return True
    return False


async def _check_folders(user: User, path: str) -> None:
    """Refuse a path that leads through a file."""
    parts = path.split("/")
    folders = ["/".join(parts[:depth]) for depth in range(3, len(parts))]
    files = await user.get_memories([_id(folder) for folder in folders]) if folders else ()
    if files:
        raise Refused(f"{files[0].metadata[PATH]} is a file, not a folder")


async def _forget(user: User, ids: list[str]) -> None:
    await in_pieces(user.forget, ids)


# ── paths and lines ──────────────────────────────────────────────────────────────────────────────


def _path(given: Given, field: str) -> str:
    """A path below /memories, without a slash at the end."""
    path = _string(given, field).rstrip("/")
    parts = path.split("/")
    if parts[:2] != ["", ROOT[1:]]:
        raise Refused(f"Path must start with {ROOT}, got: {path}")
    if not all(part.strip() and part not in (".", "..") for part in parts[1:]):
        raise Refused(f"Path {path} must not contain an empty name, `.` or `..`")
    return path


def _string(given: Given, field: str) -> str:
    value = given.get(field)
    if not isinstance(value, str):
        raise Refused(f"`{field}` must be text")
    return value


def _tree(folder: str, sizes: Mapping[str, int]) -> list[str]:
    """A line for a folder and each of the files and folders up to two levels below it; hidden ones are left out.

    The size of a folder is the sum of its files.
    """
    found: dict[tuple[str, ...], int] = {(): 0}
    files = set()
    for path, size in sizes.items():
        parts = path.removeprefix(f"{folder}/").split("/")
        seen = tuple(takewhile(lambda part: not part.startswith("."), parts))
        if len(seen) == len(parts):
            files.add(seen)
        for depth in range(min(len(seen), DEPTH) + 1):
            found[seen[:depth]] = found.get(seen[:depth], 0) + size
    return [
        f"{_size(found[parts])}\t{'/'.join([folder, *parts])}{'/' if parts and parts not in files else ''}"
        for parts in sorted(found)
    ]


def _size(count: int) -> str:
    """A size in human-readable form.

    >>> _size(512), _size(1536), _size(2048)
    ('512B', '1.5K', '2K')
    """
    power = max(min((count.bit_length() - 1) // 10, 3), 0)
    value = count / 1024**power
    return f"{value:.{0 if value.is_integer() else 1}f}{'BKMG'[power]}"


def _numbered(path: str, text: str, shown: Any) -> str:
    """The lines of a file with their numbers, all of them or a range (-1: the last line)."""
    lines = _lines(text)
    if len(lines) > LINES_MAX:
        raise Refused(f"File {path} exceeds maximum line limit of {LINES_MAX:,} lines.")
    if shown is not None:
        first, last = _range(shown, len(lines))
        lines = lines[first - 1 : last]
    return "\n".join([f"Here's the content of {path} with line numbers:", *lines])


def _range(shown: Any, count: int) -> tuple[int, int]:
    """The first and the last line to show; -1 is the last line, and a start before the first line is the first."""
    if isinstance(shown, list | tuple) and len(shown) == 2 and all(map(_is_number, shown)):
        first, last = max(shown[0], 1), count if shown[1] == -1 else shown[1]
        if first <= count and first <= last:
            return first, last
    told = f"It should be two line numbers within [1, {count}]; the second may be -1 for the last line."
    raise Refused(f"Invalid `view_range` parameter: {json.dumps(shown, default=str)[:80]}. {told}")


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _ended_lines(text: str) -> list[str]:
    """The lines, without an empty one after a final line feed: only a line feed ends a line."""
    return text.removesuffix("\n").split("\n") if text else []


def _lines_with(old: str, text: str) -> list[int]:
    """The numbers of the lines in which a text begins, which may itself span several lines.

    >>> _lines_with("a\\nb", "a\\nb\\na\\nb")
    [1, 3]
    """
    found: list[int] = []
    number, start, place = 1, 0, text.find(old)
    while place >= 0:
        number += text.count("\n", start, place)
        if found[-1:] != [number]:
            found.append(number)
        start, place = place, text.find(old, place + 1)
    return found


def _lines(text: str) -> list[str]:
    return [f"{number:>6}\t{line}" for number, line in enumerate(text.split("\n"), 1)]
