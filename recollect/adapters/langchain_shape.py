"""LangChain's messages in their serialised form, `{"type", "data"}`, as messages of ours. Needs no LangChain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recollect.adapters.verbatim import Call, arguments, hollowed, may_be_id, pictures_of
from recollect.policies.shells import HOLE

NAME = "langchain"
ROLES = {"human": "user", "system": "system", "tool": "tool", "function": "tool"}
"""Roles by message type; every other type is some kind of assistant. A chunk has the type of its message."""
CHAT_ROLES = {"user": "user", "human": "user", "system": "system", "developer": "system", "tool": "tool"}
"""Roles of a `ChatMessage`, which names its own."""
USUAL: Mapping[str, Any] = {
    "additional_kwargs": {},
    "response_metadata": {},
    "name": None,
    "id": None,
    "tool_calls": [],
    "invalid_tool_calls": [],
    "usage_metadata": None,
    "artifact": None,
}
"""Fields with the values they have in most messages, and in every one that lacks them: these are not stored."""


def to_stored(written: Mapping[str, Any]) -> dict[str, Any]:
    """A message as the arguments of `add_message`, with all that LangChain needs to restore the same message."""
    data = {name: value for name, value in written["data"].items() if name not in USUAL or value != USUAL[name]}
    shell = {**written, "data": data}
    texts, data["content"] = hollowed(data.get("content"))
    calls = _calls(data.get("tool_calls"))
    if calls:
        data["tool_calls"] = HOLE
    role = role_of(written)
    shows = pictures_of(data["content"]) if role == "user" else ()
    given = arguments(NAME, role, texts, shell, empty="" if calls else "[empty]", pictures=shows)
    if calls:
        given["tool_calls"] = [call.to_openai() for call in calls]
    if given["role"] == "tool" and may_be_id(data.get("tool_call_id")):
        given["tool_call_id"] = data["tool_call_id"]
    if may_be_id(data.get("name")):
        given["name"] = data["name"]
    return given


def role_of(written: Mapping[str, Any]) -> str:
    """Who speaks.

    >>> role_of({"type": "HumanMessageChunk", "data": {}}), role_of({"type": "ai", "data": {}})
    ('user', 'assistant')
    """
    kind = str(written["type"]).removesuffix("MessageChunk").lower()
    if kind == "chat":
        return CHAT_ROLES.get(str(written["data"].get("role")), "assistant")
    return ROLES.get(kind, "assistant")


def tool_call(call: Call) -> dict[str, Any]:
    """A tool call in LangChain's form, where arguments are an object."""
    try:
        args = json.loads(call.arguments)
    except ValueError:
        args = None
    if not isinstance(args, dict):  # code, say, which others send to a tool as it is
        args = {"arguments": call.arguments}
    return {"name": call.name, "args": args, "id": call.id, "type": "tool_call"}


def _calls(given: Any) -> list[Call]:
    """The tool calls, if they have the usual form, which can be rebuilt from what is stored."""
    try:
        calls = [Call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False)) for call in given or ()]
        same = [tool_call(call) for call in calls] == given
    except (TypeError, KeyError, ValueError):
        return []
    unique = len({call.id for call in calls}) == len(calls)
    return calls if same and unique and all(may_be_id(call.id) for call in calls) else []
