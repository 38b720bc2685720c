"""Items of the OpenAI Agents SDK, in their serialised form, as messages of ours. Needs no SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.adapters.verbatim import Call, arguments, hollowed, may_be_id, pictures_of
from recollect.policies.shells import HOLE

NAME = "openai_agents"
ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
SPOKEN = {"message": "content", "reasoning": "summary", "function_call_output": "output"}
"""The field of an item that holds its texts, by the type of the item."""


def to_stored(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as the arguments of `add_message`; `from_stored` restores the same item."""
    shell = dict(item)
    kind = kind_of(item)
    call = _call(item) if kind == "function_call" else None
    if call is not None:
        shell["arguments"] = HOLE
        return arguments(NAME, "assistant", [], shell) | {"tool_calls": [call.to_openai()]}
    texts: list[str] = []
    spoken = SPOKEN.get(kind, "")
    if spoken in item:
        texts, shell[spoken] = hollowed(item[spoken])
    role = ROLES.get(str(item.get("role")), "assistant") if kind == "message" else "assistant"
    if kind.endswith("_output"):
        role = "tool"
    shows = pictures_of(item.get("content")) if role == "user" else ()
    given = arguments(NAME, role, texts, shell, empty="[empty]" if kind in SPOKEN else f"[{kind}]", pictures=shows)
    if role == "tool" and may_be_id(item.get("call_id")):
        given["tool_call_id"] = item["call_id"]
    return given


def kind_of(item: Mapping[str, Any]) -> str:
    """The type of an item."""
    return str(item.get("type") or ("message" if "role" in item else "item"))


def _call(item: Mapping[str, Any]) -> Call | None:
    """A function call, if it is one that can be rebuilt from what is stored."""
    id, name, given = (item.get(field) for field in ("call_id", "name", "arguments"))
    usual = isinstance(id, str) and may_be_id(id) and isinstance(name, str) and isinstance(given, str)
    return Call(str(id), str(name), str(given)) if usual else None
