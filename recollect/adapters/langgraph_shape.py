"""Items of a LangGraph store as long-term memories of ours. Needs no LangGraph."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from recollect.adapters.verbatim import fits_beside
from recollect.errors import ValidationError
from recollect.records import MINUTE_MS, derived_id

Namespace = tuple[str, ...]

PATH, KEY, VALUE = "store_path", "store_key", "store_value"
UPDATED, LIFE = "store_updated_ms", "store_ttl_minutes"
VALUE_BYTES = 12_000
"""A larger value is itself the text of its record; a smaller one is kept beside a text that people can read."""
TEXT_CHARACTERS = 16_000
"""How much of a value is searched: what lies beyond is tables, and a text has its limit."""


def item_draft(
    namespace: Namespace, key: str, value: Mapping[str, Any], text: str, *, now: int, ttl_minutes: float | None = None
) -> dict[str, Any]:
    """An item as the arguments of `add_memory`; `text` is the part of it that is searched."""
    whole = _json(value)
    metadata: dict[str, Any] = {PATH: path_of(namespace), KEY: key, UPDATED: now, "pinned": True}
    given: dict[str, Any] = {"content": whole, "metadata": metadata}
    if ttl_minutes is not None:
        metadata[LIFE] = ttl_minutes
        given["expires_at"] = now + int(ttl_minutes * MINUTE_MS)
    if fits_beside(whole, VALUE_BYTES):
        searched = text[:TEXT_CHARACTERS]
        given["content"] = searched if searched.strip() else f"[{key}]"
        metadata[VALUE] = whole
    return given


def item_id(namespace: Namespace, key: str) -> str:
    """The id of an item's record."""
    return derived_id("langgraph", *namespace, key)


def readable(value: Mapping[str, Any]) -> str:
    """A value as people and models read it: a single text as it is, otherwise a line for each field.

    >>> readable({"food": "pizza", "rated": {"stars": 5}})
    'food: pizza\\nrated stars: 5'
    """
    leaves = list(_leaves(value, ()))
    if len(leaves) == 1 and isinstance(leaves[0][1], str):
        return leaves[0][1]
    return "\n".join(f"{' '.join(path)}: {leaf}" for path, leaf in leaves)


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each, path)
    elif value is not None and value != "":
        yield path, value


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        raise ValidationError("must be an object that JSON can represent", field="value") from None


def path_of(namespace: Namespace) -> str:
    """A namespace as text: no label has a dot, and one after each makes prefixes match whole labels."""
    return "".join(f"{label}." for label in namespace)
