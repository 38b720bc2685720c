"""Messages that came into a session another way, serialised as Pydantic AI's own. Needs no Pydantic AI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect.adapters.verbatim import calls_of, texts_of
from recollect.conversation import Message

Written = dict[str, Any]

UNNAMED = "unknown"
"""The tool name of a result whose call is missing."""
EMBEDDED = ";base64,"
"""What the URL of an image contains if the image itself is in the URL."""


def written(message: Message) -> Written:
    """One of our messages in Pydantic AI's JSON: what it says and what it calls; nothing else is known about it."""
    at = message.created_at.isoformat() if message.created_at else "1970-01-01T00:00:00Z"
    if message.role == "assistant":
        return {"kind": "response", "timestamp": at, "parts": _answer(message)}
    return {"kind": "request", "parts": [{"timestamp": at} | _request(message)]}


def with_names_of_tools(messages: Iterable[Any]) -> None:
    """Give results the names of the tools that were called, which other frameworks do not store with them."""
    names: dict[str, str] = {}
    for message in messages:
        for part in message.parts:
            if part.part_kind == "tool-call":
                names[part.tool_call_id] = part.tool_name
            elif part.part_kind == "tool-return" and part.tool_name == UNNAMED:
                part.tool_name = names.get(part.tool_call_id, UNNAMED)


def _answer(message: Message) -> list[Written]:
    said = [{"part_kind": "text", "content": text} for text in texts_of(message) if text.strip()]
    return said + [
        {"part_kind": "tool-call", "tool_name": call.name, "args": call.arguments, "tool_call_id": call.id}
        for call in calls_of(message)
    ]


def _request(message: Message) -> Written:
    text = "\n".join(texts_of(message))
    if message.role == "tool":
        named = {"tool_name": message.name or UNNAMED, "tool_call_id": message.tool_call_id or message.id}
        return {"part_kind": "tool-return", "content": text} | named
    if message.role == "system":
        return {"part_kind": "system-prompt", "content": text}
    content = message.content if isinstance(message.content, str) else [_prompt(part) for part in message.content]
    return {"part_kind": "user-prompt", "content": content}


def _prompt(part: Mapping[str, Any]) -> str | Written:
    if part["type"] != "image_url":
        return str(part.get("text") or f"[{part['type']}]")
    address = str(part["image_url"]["url"])
    if not address.startswith("data:") or EMBEDDED not in address:
        return {"kind": "image-url", "url": address}
    media_type, data = address.removeprefix("data:").split(EMBEDDED, 1)
    return {"kind": "binary", "media_type": media_type or "image/png", "data": data}
