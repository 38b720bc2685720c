"""Claude's data export: `conversations.json`, and what Claude remembered in `memories.json`, in their zip or out of it.

Texts, tool calls and their results are kept, thoughts are not. An attached text becomes a message of its own
after the one it came with, so that if one of them is too long, the other is still stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recollect.errors import ValidationError
from recollect.importers.conversations import Conversations, Reader, names_in, part, said, text_part
from recollect.importers.files import opened
from recollect.importers.items import Item, Read, Source, is_id, labels, session_id, size_of, time_of
from recollect.importers.options import Options
from recollect.records import derived_id

KIND = "claude"
MEMBERS = ("conversations*.json", "memories*.json")
ROLES = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}


@contextmanager
def open_source(where: str, options: Options) -> Iterator[Source]:
    """The file or archive of an export."""
    with opened(Path(where), MEMBERS) as files:
        yield Conversations(files, _read)


def _read(reader: Reader, given: Mapping[str, Any]) -> Iterator[Read]:
    return _memories(reader, given) if "conversations_memory" in given else _conversation(reader, given)


# ── conversations ────────────────────────────────────────────────────────────────────────────────


def _conversation(reader: Reader, given: Mapping[str, Any]) -> Iterator[Read]:
    messages = given.get("chat_messages")
    native, account = given.get("uuid"), given.get("account")
    if not isinstance(messages, list) or not isinstance(native, str):
        raise ValidationError("must have a uuid and chat_messages", field="conversation")
    owner = str(account.get("uuid") or "") if isinstance(account, dict) else ""
    session = session_id(native, KIND)
    for message in messages:
        with reader.line():
            if not isinstance(message, dict):
                raise ValidationError("must be an object", field="message")
            name, named = reader.native(message, "uuid", KIND, native)
            drafts = list(_drafts(native, name, message))
            if not drafts:
                yield reader.left("has nothing that can be read")
            for drafted in drafts:
                yield reader.message(session, drafted, owner, named=named)
    yield from reader.title(session, given.get("name") if messages else None, owner)


def _drafts(conversation: str, native: str, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message, and another one for each text that was attached to it."""
    role = ROLES.get(str(message.get("sender")))
    if role is None:
        raise ValidationError(f"must be one of {', '.join(ROLES)}", field="sender")
    created_at = time_of(message.get("created_at"))
    parts = list(_parts(message))
    if parts:
        id = derived_id("import", KIND, conversation, native)
        metadata = labels(KIND, attachments=names_in(message.get("files"), "file_name"))
        yield {"role": role, "content": said(parts), "created_at": created_at, "metadata": metadata, "id": id}
    for place, attached in enumerate(_listed(message, "attachments")):
        text = attached.get("extracted_content")
        if isinstance(text, str) and text.strip():
            name = str(attached.get("file_name") or "attachment")[:200]
            id = derived_id("import", KIND, conversation, native, str(place))
            metadata = labels(KIND, attachment=name)
            yield {"role": role, "content": text, "created_at": created_at, "metadata": metadata, "id": id}


def _parts(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a message says, in blocks; older exports have only the text."""
    blocks = _listed(message, "content")
    if not blocks and isinstance(message.get("text"), str):
        yield from text_part(message["text"])
    called = ""
    for place, block in enumerate(blocks):
        match block.get("type"):
            case "text" if isinstance(block.get("text"), str):
                yield from text_part(block["text"])
            case "tool_use":
                called = _call_id(message, block.get("id"), place)
                arguments = json.dumps(block.get("input"), ensure_ascii=False)
                function = {"name": str(block.get("name")), "arguments": arguments}
                yield part("tool_call", id=called, function=function)
            case "tool_result":
                id = _call_id(message, block.get("tool_use_id") or called, place)
                yield part("tool_result", tool_call_id=id, content=_result(block.get("content")))


def _call_id(message: Mapping[str, Any], id: object, place: int) -> str:
    """The id of a call; if the export has none, one is made."""
    return id if is_id(id) else derived_id(KIND, "call", str(message.get("uuid")), str(place))


def _result(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(each["text"]) for each in blocks if isinstance(each, dict) and "text" in each)


def _listed(message: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    value = message.get(field)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# ── memories ─────────────────────────────────────────────────────────────────────────────────────


def _memories(reader: Reader, given: Mapping[str, Any]) -> Iterator[Item]:
    """What Claude wrote down about its user, one memory for each paragraph."""
    owner = str(given.get("account_uuid") or "")
    projects = given.get("project_memories")
    texts = [("", given["conversations_memory"]), *(projects.items() if isinstance(projects, dict) else ())]
    for project, text in texts:
        for paragraph in _paragraphs(text):
            with reader.line():
                memory = {
                    "content": paragraph,
                    "id": derived_id("import", KIND, str(project), paragraph),
                    "metadata": labels(KIND, project=str(project)),
                }
                yield Item(reader.number, "memory", memory, owner=owner, done=reader.done, size=size_of(memory))


def _paragraphs(text: object) -> list[str]:
    """The paragraphs of a text, each heading joined to what stands under it.

    >>> _paragraphs("**Work**\\n\\nAnn builds boats.\\n\\nShe sails.")
    ['Work: Ann builds boats.', 'She sails.']
    """
    found: list[str] = []
    heading = ""
    for each in text.split("\n\n") if isinstance(text, str) else ():
        paragraph = each.strip()
        bare = paragraph.strip("#* ")
        if "\n" not in paragraph and paragraph != bare and len(bare) < 80 and paragraph[:1] in "#*":
            heading = f"{bare}: " if bare and not paragraph.startswith("* ") else ""
        elif paragraph:
            found.append(heading + paragraph)
            heading = ""
    return found
