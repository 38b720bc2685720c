"""What a source says under each name: the same again is known, something else is reported and never dropped.

Only two numbers are held for each name, so that a long source takes little memory.
"""

from __future__ import annotations

import json
from typing import Any

from recollect.errors import Conflict
from recollect.importers.items import Item, Kind

_SAID = ("role", "content", "tool_calls", "tool_call_id", "name")
_FIELDS: dict[Kind, str] = {
    "message": "id",
    "memory": "id",
    "record": "id",
    "session": "title",
    "entity": "entity",
    "relation": "relation",
    "fact": "key",
}
"""The field that names an item, for whoever reads what is wrong with it."""


class Repeats:
    """The names seen so far, each with what was said under it."""

    def __init__(self) -> None:
        self._said: dict[int, int] = {}

    def check(self, user: str, item: Item) -> None:
        """Record an item; raises `Conflict` if its name came before with something else."""
        if item.kind in ("message", "memory") and not item.named:
            return
        name, said = _name_and_said(item)
        found = hash(_written(said))
        if self._said.setdefault(hash(_written([user, item.kind, name])), found) != found:
            raise Conflict("appeared earlier in the source with different content", field=_FIELDS[item.kind])


def _name_and_said(item: Item) -> tuple[Any, Any]:
    """What identifies an item in its source, and what it says."""
    given = item.given
    match item.kind:
        case "record":
            return given.get("id"), [given.get("layer"), given.get("content") or given.get("data")]
        case "session":
            return [item.session, item.agent], given
        case "entity":
            return given["name"], [given.get("type"), given.get("aliases")]
        case "relation":
            ends = [given[side] for side in ("subject", "relation", "object")]
            return ends, [given.get("valid_from"), given.get("valid_to")]
        case "fact":
            return [given["key"], given["value"], given.get("valid_from")], given.get("valid_to")
        case _:
            return given.get("id"), [given.get(name) for name in _SAID]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
