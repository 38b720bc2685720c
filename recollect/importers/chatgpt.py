"""ChatGPT's data export: `conversations.json`, in its zip or out of it.

A conversation is a tree, since answers can be regenerated and questions edited; the branch that was shown last
is read. What was not said is left out: hidden system messages and the model's thoughts. Where an answer refers
to pages by marks that only the app understands, their links stand instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recollect import validate
from recollect.errors import ValidationError
from recollect.importers.conversations import Conversations, Reader, names_in, part, said, text_part
from recollect.importers.files import opened
from recollect.importers.items import Read, Source, labels, session_id, time_of
from recollect.importers.options import Options
from recollect.records import derived_id

KIND = "chatgpt"
MEMBERS = ("conversations*.json",)
UNSAID = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")
"""Kinds of content that nobody was shown."""
EVERYONE = "all"
"""Who an ordinary message is for; one for anybody else calls a tool."""
_MARK = re.compile(" ?\ue200([^\ue201\ue202]*)\ue202?([^\ue201]*)\ue201")
"""A reference inside an answer: private characters around its kind and what it refers to, with the space before it."""
_PROJECT = "g-p-"
"""How the id of a project begins; other templates are custom GPTs."""


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """The file or archive of an export."""
    with opened(Path(where), MEMBERS) as files:
        yield Conversations(files, _conversation)


def _conversation(reader: Reader, given: Mapping[str, Any]) -> Iterator[Read]:
    mapping = given.get("mapping")
    if not isinstance(mapping, dict):
        raise ValidationError("must have a mapping of messages", field="conversation")
    native = str(given.get("conversation_id") or given.get("id") or derived_id(KIND, *sorted(map(str, mapping))))
    session = session_id(native, KIND)
    place = _place(given.get("conversation_template_id"))
    called: str | None = None
    when = _started(given)
    spoken = False
    for message in _shown(mapping, given.get("current_node")):
        with reader.line():
            drafted = _message(message, called)
            if isinstance(drafted, str):
                yield reader.left(drafted)
                continue
            name, named = reader.native(message, "id", KIND, native)
            drafted["id"] = derived_id("import", KIND, native, name)
            drafted["metadata"] |= place
            if drafted["role"] != "tool":  # a call may have several results, and thoughts between them
                called = drafted["tool_calls"][0]["id"] if "tool_calls" in drafted else None
            when = drafted["created_at"] = drafted["created_at"] or when
            spoken = True
            yield reader.message(session, drafted, named=named)
    yield from reader.title(session, given.get("title") if spoken else None)


def _place(template: object) -> dict[str, str]:
    """The label that says in which project or with which custom GPT a conversation was held."""
    if not isinstance(template, str) or not template:
        return {}
    return {"project" if template.startswith(_PROJECT) else "gpt": template[:200]}


def _started(given: Mapping[str, Any]) -> int | None:
    """When a conversation began. A message without a time was said when the one before was, not today."""
    try:
        return time_of(given.get("create_time"))
    except ValidationError:
        return None


def _shown(mapping: Mapping[str, Any], last: Any) -> list[Mapping[str, Any]]:
    """The messages of the branch that ends with a node, in order."""
    here = last if isinstance(last, str) and last in mapping else _newest_leaf(mapping)
    branch: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    while isinstance(here, str) and here in mapping and here not in seen:
        seen.add(here)
        node = mapping[here]
        if not isinstance(node, dict):
            break
        if isinstance(node.get("message"), dict):
            branch.append(node["message"])
        here = node.get("parent")
    return branch[::-1]


def _newest_leaf(mapping: Mapping[str, Any]) -> str | None:
    leaves = [
        (_seconds(node), id) for id, node in mapping.items() if isinstance(node, dict) and not node.get("children")
    ]
    return max(leaves)[1] if leaves else None


def _seconds(node: Mapping[str, Any]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, dict) else None
    return time if isinstance(time, int | float) else 0.0  # a whole number may be too large for a float


def _message(message: Mapping[str, Any], called: str | None) -> dict[str, Any] | str:
    """A message as `add_message` takes it, or why it was not said."""
    author, content, more = (_object(message, field) for field in ("author", "content", "metadata"))
    role = validate.choice(author.get("role"), validate.ROLES, "author.role")
    if more.get("is_visually_hidden_from_conversation") or content.get("content_type") in UNSAID:
        return "was not shown"
    parts = [_linked(part, more) for part in _parts(content)]
    if not parts:
        return "has nothing that can be read"
    given: dict[str, Any] = {
        "role": role,
        "content": said(parts),
        "created_at": time_of(message.get("create_time")),
        "metadata": labels(
            KIND,
            model=more.get("model_slug") if role == "assistant" else None,
            attachments=names_in(more.get("attachments"), "name"),
        ),
    }
    recipient = message.get("recipient")
    if role == "assistant" and isinstance(recipient, str) and recipient != EVERYONE:
        function = {"name": recipient, "arguments": "\n".join(part.get("text", "") for part in parts)}
        id = derived_id(KIND, "call", str(message.get("id")))
        given |= {"content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}
    if role == "tool":
        given |= {"name": str(author.get("name") or "tool")[:128]} | ({"tool_call_id": called} if called else {})
    return given


def _linked(part: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A part with links instead of marks, as the app shows it."""
    text = part.get("text", "")
    if "\ue200" not in text:
        return part
    listed = more.get("content_references")
    known = {
        each["matched_text"]: each
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("matched_text"), str)
    }

    def shown(found: re.Match[str]) -> str:
        told = _told(known.get(found[0].removeprefix(" "), {}), found[1], found[2])
        return " " + told if told and found[0].startswith(" ") else told

    return part | {"text": _MARK.sub(shown, text)}


def _told(reference: Mapping[str, Any], kind: str, about: str) -> str:
    """What stands in a text for a reference: what the app shows, the page it leads to, or the name of a thing."""
    if isinstance(reference.get("alt"), str):
        return str(reference["alt"])
    items = reference.get("items")
    page = next((each for each in items if isinstance(each, dict)), {}) if isinstance(items, list) else {}
    if isinstance(page.get("url"), str):
        return f"([{page.get('title') or page['url']}]({page['url']}))"
    if kind == "entity":
        with suppress(ValueError):
            told = json.loads(about)
            return told[1] if isinstance(told, list) and len(told) > 1 and isinstance(told[1], str) else ""
    return ""


def _object(message: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = message.get(field)
    return value if isinstance(value, dict) else {}


def _parts(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a message says, whatever its kind: texts, transcripts, images by their address."""
    listed = content.get("parts")
    if isinstance(listed, list):
        for each in listed:
            yield from _part(each)
    for field in ("text", "result"):
        if isinstance(content.get(field), str):
            yield from text_part(content[field])


def _part(given: Any) -> Iterator[dict[str, Any]]:
    if isinstance(given, str):
        yield from text_part(given)
    elif isinstance(given, dict) and isinstance(given.get("text"), str):
        yield from text_part(given["text"])
    elif isinstance(given, dict) and isinstance(given.get("asset_pointer"), str) and _is_image(given):
        yield part("image_url", image_url={"url": given["asset_pointer"]})


def _is_image(given: Mapping[str, Any]) -> bool:
    """Whether an address is that of an image; a recording comes with its transcript, which is read."""
    return "audio" not in str(given.get("content_type"))
