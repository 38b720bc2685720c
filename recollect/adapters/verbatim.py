"""A framework's message as one of ours, and back again without losing a field.

The speaker, the text and the tool calls go into the fields of a message, where every reader finds them.
Everything else, the *shell*, travels beside it as JSON in the metadata, under the framework's name. Texts
are left out of the shell, as they would be stored twice.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from recollect import long_term
from recollect.conversation import Message, draft
from recollect.errors import TooLarge, ValidationError
from recollect.paging import every
from recollect.policies.shells import FRAMEWORKS, HOLE
from recollect.records import Record, in_portions
from recollect.session import Session
from recollect.user import User

SHELL_BYTES = 15_000
"""A shell up to this size fits into metadata, escaped and with a few other labels."""
PAGE, BATCH = 1_000, 90
"""Messages that are read at once, and that are stored in one commit."""

BATCH_BYTES = 320 * 1024
"""Bytes of one commit: a text in parts is stored twice, an edit keeps the previous state, and a commit holds 1 MiB."""

QUERY_END = 4_000
"""Characters at each end of a long text that are searched for: what is asked stands before or after what is pasted."""
TEXT_BYTES = 65_000
"""A text up to this size can be stored and searched for; of a longer one so much is stored, with a mark after it."""
CALL_BYTES = 1_000
"""Arguments of a tool call up to this size are kept where those of other calls of the message are too large."""
LEFT_OUT = "[left out]"
"""Stands where something was too large to be stored."""

PICTURES = ("image", "image_url", "input_image")
"""What frameworks call a part that is a picture."""
ADDRESS_CHARACTERS = 2_000
"""A longer address is left to the framework that wrote it."""

ID_CHARACTERS = 128
"""The longest id that a message, a call or a name may have."""

Content = str | list[dict[str, Any]]
Item = TypeVar("Item")


class Call(NamedTuple):
    """A tool call as every framework knows it; the arguments are JSON as text."""

    id: str
    name: str
    arguments: str

    def to_openai(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


# ── texts and what is around them ────────────────────────────────────────────────────────────────


def hollowed(content: Any) -> tuple[list[str], Any]:
    """The texts of a message's content, and the content with a hole for each of them.

    Content that says nothing has no texts and stays whole, so a hole is never mistaken for something that was said.

    >>> hollowed([{"type": "output_text", "text": "Hello!", "annotations": []}])
    (['Hello!'], [{'type': 'output_text', 'text': '<text>', 'annotations': []}])
    """
    texts = [text for part in _parts(content) if (text := _text(part)) is not None]
    if not any(text.strip() for text in texts):
        return [], content
    shell = [part if _text(part) is None else _with_text(part, HOLE) for part in _parts(content)]
    return texts, shell if isinstance(content, list) else shell[0]


def filled(shell: Any, message: Message) -> Any:
    """Rebuild the content from its shell, which is used up, and the texts of the message that was stored."""
    said = message.content
    if isinstance(said, str):  # as nearly always
        if shell == HOLE:
            return said
        if isinstance(shell, list) and len(shell) == 1 and isinstance(shell[0], dict) and shell[0].get("text") == HOLE:
            shell[0]["text"] = said
            return shell
    waiting = iter(texts_of(message))
    content = [_with_text(part, next(waiting, "")) if _text(part) == HOLE else part for part in _parts(shell)]
    return content if isinstance(shell, list) else content[0]


def pictures_of(content: Any) -> list[str]:
    """The addresses of the pictures that somebody shows, by whichever of the usual names; no pictures as data.

    >>> pictures_of([{"type": "input_image", "image_url": "https://a/b"}, {"type": "image", "url": "https://c/d"}])
    ['https://a/b', 'https://c/d']
    """
    found = []
    for part in _parts(content):
        kind = str(part.get("type") or part.get("kind")) if isinstance(part, dict) else ""
        if kind.replace("-", "_") in PICTURES:
            given = part.get("image_url") or part.get("url")
            found.append(given.get("url") if isinstance(given, Mapping) else given)
    return [url for url in found if isinstance(url, str) and url.startswith("http") and len(url) <= ADDRESS_CHARACTERS]


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _text(part: Any) -> str | None:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _with_text(part: Any, text: str) -> Any:
    return {**part, "text": text} if isinstance(part, dict) else text


def texts_of(message: Message) -> list[str]:
    """The texts of one of our messages, in order."""
    if isinstance(message.content, str):
        return [message.content]
    return [text for part in message.content if (text := _text(part)) is not None]


# ── to and from a stored message ─────────────────────────────────────────────────────────────────


def arguments(
    framework: str, role: str, texts: Sequence[str], shell: Any, empty: str = "", pictures: Sequence[str] = ()
) -> dict[str, Any]:
    """The arguments of `add_message`: one text as it is, several and pictures as parts, `empty` if nothing is said."""
    said: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    said += [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    content: Content = texts[0] if len(texts) == len(said) == 1 else said
    given: dict[str, Any] = {"role": role, "content": content or empty}
    kept = _json(shell)
    if fits_beside(kept):
        return given | {"metadata": {framework: kept}}
    # Too large for metadata: content that a provider sealed, say. A part has the room.
    parts = [{"type": "text", "text": given["content"]}] if isinstance(given["content"], str) else given["content"]
    return given | {"content": [parts[0] | {framework: kept}, *parts[1:]]}


def fits_beside(kept: str, bytes_max: int = SHELL_BYTES) -> bool:
    """Whether a shell fits into metadata, where its quotes are escaped."""
    # No character of JSON takes more than four bytes there, so most shells are known to fit without being encoded.
    return len(kept) * 4 <= bytes_max or len(json.dumps(kept, ensure_ascii=False).encode()) <= bytes_max


def shell_of(framework: str, message: Message, read: Callable[[str], Any] = json.loads) -> Any:
    """What the framework kept beside a message; None if the message came another way.

    `read` is for frameworks that bring a faster JSON parser.
    """
    kept = shell_text(framework, message)
    try:
        return None if kept is None else read(kept)
    except ValueError:
        return None


def shell_text(framework: str, message: Message) -> str | None:
    """What the framework kept beside a message, as JSON; None if the message came another way."""
    kept = message.metadata.get(framework)
    if kept is None and isinstance(message.content, list) and message.content:
        kept = message.content[0].get(framework)
    return kept if isinstance(kept, str) else None


def shells_of(framework: str, messages: Sequence[Message], read: Callable[[str], Any]) -> list[Any]:
    """What the framework kept beside each of many messages; None for one that came another way or is broken.

    `read` parses a JSON list. It is given all of them at once: starting to parse costs more than parsing one.
    """
    texts = [shell_text(framework, message) for message in messages]
    kept = [text for text in texts if text is not None]
    if len(kept) == len(texts):
        return _read_each(kept, read)
    found = iter(_read_each(kept, read))
    return [None if text is None else next(found) for text in texts]


def _read_each(texts: Sequence[str], read: Callable[[str], Any]) -> list[Any]:
    found: list[Any] = []
    try:
        found = read(f"[{','.join(texts)}]")
    except ValueError:
        pass  # one of them is broken
    if len(found) == len(texts):
        return found
    return [None] if len(texts) == 1 else [each for text in texts for each in _read_each([text], read)]


def labels_of(record: Record) -> dict[str, Any]:
    """The metadata of a record without what adapters keep there for themselves."""
    return {name: value for name, value in record.metadata.items() if name not in FRAMEWORKS}


def calls_of(message: Message) -> list[Call]:
    """The tool calls of a message, in whichever of the two common forms they are."""
    found = []
    for call in message.tool_calls or ():
        function = call.get("function")
        named: Mapping[str, Any] = function if isinstance(function, Mapping) else call
        given = named.get("arguments", named.get("args", "{}"))
        text = given if isinstance(given, str) else _json(given)
        found.append(Call(str(call["id"]), str(named.get("name") or "unknown"), text))
    return found


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        raise ValidationError("must be something that JSON can represent", field="message") from None


# ── whole sessions ───────────────────────────────────────────────────────────────────────────────


async def all_messages(session: Session) -> list[Message]:
    """Every message of a session that was not set aside, in order."""
    messages = every(partial(session.messages, limit=PAGE))
    return [message async for message in messages if message.trust != "quarantined"]


def pieces(items: Sequence[Item], count_max: int = BATCH) -> Iterator[list[Item]]:
    """The items in order, in pieces that each fit into one commit by count and by size."""
    if len(items) == 1:
        return iter([list(items)])
    return in_portions(
        items, lambda item: len(json.dumps(item, default=str)), count_max=count_max, size_max=BATCH_BYTES
    )


async def in_pieces(
    write: Callable[[list[Item]], Awaitable[Any]], items: Sequence[Item], count_max: int = BATCH
) -> None:
    """Write items, one piece at a time."""
    for piece in pieces(items, count_max):
        await write(piece)


async def add_in_pieces(session: Session, items: Sequence[dict[str, Any]]) -> None:
    """Store messages, one piece at a time. All are checked before the first is stored."""
    some = list(pieces(items))
    if len(some) > 1:
        check_messages(items)
    for piece in some:
        await session.add_messages(piece)


async def add_what_fits(session: Session, items: Sequence[dict[str, Any]]) -> None:
    """Store messages, each that is too large without what makes it so.

    For callers who can no longer do anything about it: the turn is over, or the framework has let go of the messages.
    """
    try:
        await add_in_pieces(session, items)
    except TooLarge:
        await add_in_pieces(session, [_fitting(item) for item in items])


def _fitting(item: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `add_message` within the limits: text that is cut, and a mark for everything left out."""
    try:
        check_messages([item])
        return item
    except TooLarge:
        kept = {name: value for name, value in item.items() if name != "metadata"}
    content = item["content"] or ""
    text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    if "tool_calls" in item:
        kept["tool_calls"] = [_short_call(call) for call in item["tool_calls"]]
    return kept | {"content": _cut(text) if len(text.encode()) > TEXT_BYTES else f"{text}\n{LEFT_OUT}".strip()}


def _short_call(call: dict[str, Any]) -> dict[str, Any]:
    """A tool call without arguments that are long."""
    function = call["function"]
    if len(function["arguments"].encode()) <= CALL_BYTES:
        return call
    return call | {"function": function | {"arguments": _json({"arguments": LEFT_OUT})}}


def _cut(text: str) -> str:
    """The beginning of a text.

    >>> _cut("é" * 40_000)[-12:], len(_cut("é" * 40_000).encode()) <= 65_536
    ('é\\n[left out]', True)
    """
    return f"{text.encode()[:TEXT_BYTES].decode(errors='ignore')}\n{LEFT_OUT}"


def as_query(text: str) -> str:
    """What somebody said, as a question to the memory: of a text that is too long, its beginning and its end."""
    if len(text.encode(errors="replace")) <= TEXT_BYTES:
        return text
    return f"{text[:QUERY_END]}\n{text[-QUERY_END:]}"


def check_messages(items: Iterable[dict[str, Any]]) -> None:
    """Refuse what `add_messages` would refuse."""
    for item in items:
        draft(**item)


async def remember_in_pieces(user: User, items: Sequence[dict[str, Any]]) -> None:
    """Store memories, one piece at a time. All are checked before the first is stored."""
    check_memories(items)
    await in_pieces(user.add_memories, items)


def check_memories(items: Iterable[dict[str, Any]]) -> None:
    """Refuse what `add_memories` would refuse."""
    for item in items:
        long_term.draft(**item)


def may_be_id(value: Any) -> bool:
    """Whether a framework's id can be one of ours; others are kept in the shell alone."""
    plain = isinstance(value, str) and 0 < len(value) <= ID_CHARACTERS and value.isprintable()
    return plain and not value.isspace() and "{" not in value and "}" not in value
