"""Exports of chat programs: long lists of conversations, read one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from recollect.errors import RecollectError, ValidationError
from recollect.importers.files import elements, size_of_file
from recollect.importers.items import Item, LeftOut, Problem, Read, Unnamed, refused, size_of

TITLE_CHARACTERS = 120
"""A title has to fit on one line of a list."""


NAME_CHARACTERS, NAMES_MAX = 200, 20
"""Attached files that are named, and how much of each name: as labels of a message they have to be small."""


class Reader:
    """Counts the lines of an export, which are its messages, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.number = 0
        self.done = 0
        """How many bytes of the export were read."""
        self.problems: list[Problem] = []
        self.unnamed = Unnamed()

    @contextmanager
    def line(self) -> Iterator[None]:
        """One line: what is wrong with it is recorded, and reading goes on with the next."""
        self.number += 1
        try:
            yield
        except RecollectError as error:
            self.problems.append(refused(self.number, error))

    def bad(self) -> Iterator[Problem]:
        """What was wrong since the last call."""
        yield from self.problems
        self.problems.clear()

    def native(self, given: Mapping[str, Any], field: str, *place: str) -> tuple[str, bool]:
        """What a thing is called in its source, and whether it has a name; if not, one is derived from what it says."""
        name = given.get(field)
        if isinstance(name, str | int) and name != "":
            return str(name), True
        return self.unnamed.id(*place, json.dumps(given, sort_keys=True)), False

    def advancing(self) -> Callable[[int], None]:
        """For the next file: called with how much of it was read, which adds to what was read before."""
        before = self.done

        def advance(read: int) -> None:
            self.done = before + read

        return advance

    def message(self, session: str, given: Mapping[str, Any], owner: str = "", *, named: bool = False) -> Item:
        """A message of a session."""
        return Item(
            self.number, "message", given, session=session, owner=owner, named=named, done=self.done,
            size=size_of(given),
        )  # fmt: skip

    def left(self, reason: str) -> LeftOut:
        """Report that this line has nothing to store."""
        return LeftOut(self.number, reason)

    def title(self, session: str, title: object, owner: str = "") -> Iterator[Item]:
        """The title of a session, if it has one."""
        if isinstance(title, str) and title.strip():
            given = {"title": " ".join(title.split())[:TITLE_CHARACTERS]}
            yield Item(self.number, "session", given, session=session, owner=owner, done=self.done)


ReadOne = Callable[[Reader, Mapping[str, Any]], Iterator[Read]]
"""Yields the items of one element."""


class Conversations:
    """The conversations of one or more files; a bad one does not stop the others."""

    def __init__(self, files: Sequence[BinaryIO], read: ReadOne) -> None:
        self._files, self._read_one = files, read
        self.size: int | None = sum(map(size_of_file, files))

    def read(self) -> Iterator[Read]:
        reader = Reader()
        for file in self._files:
            try:
                for given in elements(file, advance=reader.advancing()):
                    yield from self._items(reader, given)
            except RecollectError as error:
                reader.number += 1
                yield refused(reader.number, error)

    def _items(self, reader: Reader, given: Any) -> Iterator[Read]:
        try:
            if not isinstance(given, dict):
                raise ValidationError("must be an object", field="conversation")
            yield from self._read_one(reader, given)
        except RecollectError as error:
            reader.number += 1
            yield refused(reader.number, error)
        yield from reader.bad()


# ── what is said ─────────────────────────────────────────────────────────────────────────────────


def part(type: str, **fields: Any) -> dict[str, Any]:
    """A part of a message."""
    return {"type": type, **fields}


def text_part(text: str) -> Iterator[dict[str, Any]]:
    """A text as a part, if it says something."""
    if text.strip():
        yield part("text", text=text)


def names_in(listed: object, field: str) -> list[str] | None:
    """The names of files that came with a message but are not in it; None if there are none."""
    files = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    names = [name[:NAME_CHARACTERS] for each in files if isinstance(name := each.get(field), str) and name]
    return names[:NAMES_MAX] or None


def said(parts: Sequence[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """The content of a message: a single text as it is, otherwise the parts."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return list(parts)
