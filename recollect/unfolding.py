"""Stored messages as chat models take them: without what only a framework can read, and tool calls as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from recollect.contents import result_text
from recollect.conversation import Message
from recollect.policies.shells import HOLE, KEEPERS, readable


def unfolded(message: Message) -> list[Message]:
    """A message as chat models take it: several, if tools were called or answered among its parts.

    For a model a call is a field of a message, and a result is a message of its own. What only a framework can read is
    left out, and a message that is nothing else becomes none. The first message keeps the id; the others have none.

    >>> call, result = {"type": "tool_call", "id": "c1"}, {"type": "tool_result", "tool_call_id": "c1", "content": "4"}
    >>> found = unfolded(Message("assistant", [call, result, {"type": "text", "text": "Four"}]))
    >>> [(each.role, each.content, each.tool_call_id) for each in found]
    [('assistant', '', None), ('tool', '4', 'c1'), ('assistant', 'Four', None)]
    """
    if says_nothing(message):
        return []
    if isinstance(message.content, str):
        return [message]
    parts = [readable(part) for part in message.content]
    if message.tool_calls or not any(part["type"] in ("tool_call", "tool_result") for part in parts):
        return [replace(message, content=parts)]
    found: list[Message] = []
    for is_result, run in groupby(parts, key=_is_result):
        some = list(run)
        found += [_result(message, part) for part in some] if is_result else [_speech(message, some)]
    return [replace(found[0], id=message.id), *found[1:]]


def says_nothing(message: Message) -> bool:
    """Whether a message stands only for something that one framework alone can read: reasoning, a hosted tool, a mark.

    A shell without a hole had no text to leave out, so the message holds a placeholder. A result that names no call,
    as of a page that somebody read, says nothing to a model either: none accepts it.
    """
    if message.role == "tool":
        return not message.tool_call_id
    if message.role == "user" or message.tool_calls:
        return False
    first = message.content[0] if isinstance(message.content, list) and message.content else {}
    shells = [kept for name in KEEPERS if isinstance(kept := message.metadata.get(name, first.get(name)), str)]
    return bool(shells) and all(HOLE not in kept for kept in shells)


def _is_result(part: Mapping[str, Any]) -> bool:
    return part["type"] == "tool_result" and bool(part.get("tool_call_id"))


def _result(message: Message, part: Mapping[str, Any]) -> Message:
    """The result of a tool, which names its call."""
    text = result_text(part)
    return replace(message, role="tool", content=text, id="", name=None, tool_call_id=part["tool_call_id"])


def _speech(message: Message, parts: Sequence[dict[str, Any]]) -> Message:
    """What was said and called before the next result. A result that names no call is only text."""
    calls = [{**part, "type": "function"} for part in parts if part["type"] == "tool_call"]
    said = [
        {"type": "text", "text": result_text(part)} if part["type"] == "tool_result" else part
        for part in parts
        if part["type"] != "tool_call"
    ]
    content = said[0]["text"] if len(said) == 1 and said[0]["type"] == "text" else said or ""
    return replace(message, content=content, id="", tool_calls=calls or None)
