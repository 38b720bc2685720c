"""The file of the MCP memory server (`memory.jsonl`): entities with observations, and relations between them.

Entities and relations go into the entity graph; each observation becomes a long-term memory that names its
entity. The server's `default_user` is the user here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from recollect import validate
from recollect.errors import RecollectError, ValidationError
from recollect.importers.files import open_file
from recollect.importers.items import Item, Read, Source, labels, refused, size_of
from recollect.importers.jsonl import NotLines, lines_of, parsed_line
from recollect.importers.options import Options
from recollect.records import derived_id

KIND = "mcp"
USER_THERE, USER = "default_user", "user"
THING = "thing"
WORD_CHARACTERS = 64


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """The file of a server."""
    with open_file(Path(where)) as file:
        yield _Graph(file)


class _Graph:
    """A line for each entity and each relation."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size: int | None = os.fstat(file.fileno()).st_size

    def read(self) -> Iterator[Read]:
        self._file.seek(0)
        done = 0
        try:
            for number, line in lines_of(self._file):
                done += len(line)
                yield from _read(number, line, done)
        except NotLines as error:
            yield refused(error.number, error)


def _read(number: int, line: bytes, done: int) -> list[Read]:
    """Everything in a line, or what is wrong with it."""
    try:
        return list(_items(number, parsed_line(line), done)) if line.strip() else []
    except RecollectError as error:
        return [refused(number, error)]


def _items(number: int, given: dict[str, Any], done: int) -> Iterator[Item]:
    match given.get("type"):
        case "entity":
            yield from _entity(number, given, done)
        case "relation":
            yield _relation(number, given, done)
        case _:
            raise ValidationError("must be an entity or a relation", field="type")


def _entity(number: int, given: dict[str, Any], done: int) -> Iterator[Item]:
    name = _name(given, "name")
    observations = given.get("observations", [])
    if not isinstance(observations, list):
        raise ValidationError("must be a list of texts", field="observations")
    kind = word(given.get("entityType"), "entityType") or THING
    if name != USER:
        yield Item(number, "entity", {"name": name, "type": kind, "metadata": labels(KIND)}, done=done)
    for place, said in enumerate(observations):
        text = validate.text(said, f"observations[{place}]")
        content = text if name == USER or name.casefold() in text.casefold() else f"{name}: {text}"
        memory = {
            "content": content,
            "id": derived_id("import", KIND, name, text),
            "metadata": labels(KIND, entity=name, entity_type=kind),
        }
        yield Item(number, "memory", memory, done=done, size=size_of(memory))


def _relation(number: int, given: dict[str, Any], done: int) -> Item:
    relation = word(given.get("relationType"), "relationType")
    if not relation:
        raise ValidationError("must have a word in it", field="relationType")
    ends = {"subject": _name(given, "from"), "relation": relation, "object": _name(given, "to")}
    return Item(number, "relation", ends, done=done)


def _name(given: dict[str, Any], field: str) -> str:
    name = validate.text(given.get(field), field)
    return USER if name == USER_THERE else name


def word(value: object, field: str) -> str:
    """A type or relation as the graph names it, empty if nothing is left of it.

    >>> word("Works at", "relationType"), word("événement-2", "entityType"), word("?", "entityType")
    ('works_at', 'événement_2', '')
    """
    text = validate.text(value, field) if value not in (None, "") else ""
    return re.sub(r"^[\W\d_]+", "", re.sub(r"\W+", "_", text.casefold())).strip("_")[:WORD_CHARACTERS]
