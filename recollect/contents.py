"""What a message says, checked: its text or its parts, and its tool calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.errors import TooLarge, ValidationError
from recollect.validate import LIMITS, choice, identifier, optional_identifier, string, structure, text, text_within


@dataclass(frozen=True, slots=True)
class Content:
    """What a message says: its text, for search, and its parts if it came in parts."""

    text: str
    parts: list[dict[str, Any]] | None = None


def content(value: object, field: str = "content", *, may_be_empty: bool = False) -> Content:
    """Text, or a list of parts that are kept exactly; their text is joined for search.

    `may_be_empty` is for a message that only calls tools and has nothing to say.
    """
    if isinstance(value, (list, tuple)):
        return _in_parts(value, field, may_be_empty)
    if not may_be_empty:
        return Content(text(value, field))
    return Content("" if value is None else text_within(value, field, LIMITS.text_bytes))


def tool_calls(value: object, field: str = "tool_calls") -> list[dict[str, Any]]:
    """The calls that a message makes; each has an id of its own that its result will name."""
    if not isinstance(value, (list, tuple)):
        raise ValidationError("must be a list of tool calls", field=field)
    if len(value) > LIMITS.tool_calls:
        raise TooLarge(f"must have at most {LIMITS.tool_calls} tool calls", field=field)
    calls: list[dict[str, Any]] = structure(value, field, LIMITS.tool_calls_bytes)
    ids = {
        identifier(_member(call, "id", f"{field}[{place}]"), f"{field}[{place}].id") for place, call in enumerate(calls)
    }
    if len(ids) < len(calls):
        raise ValidationError("must not have the same id twice", field=field)
    return calls


def _in_parts(value: Sequence[object], field: str, may_be_empty: bool) -> Content:
    parts: list[dict[str, Any]] = structure(value, field, LIMITS.text_bytes)
    texts = [_part_text(part, f"{field}[{place}]") for place, part in enumerate(parts)]
    joined = "\n".join(each for each in texts if each)
    says_nothing = not joined.strip() and all(part["type"] == "text" for part in parts)
    if says_nothing and not may_be_empty:
        raise ValidationError("must not be empty or only whitespace", field=field)
    return Content(joined, parts)


def _part_text(part: object, field: str) -> str:
    kind = choice(_member(part, "type", field), _PARTS, f"{field}.type")
    return _PARTS[kind](part, field)


def _spoken(part: Any, field: str) -> str:
    return string(_member(part, "text", field), f"{field}.text")


def _image(part: Any, field: str) -> str:
    address = _member(_member(part, "image_url", field), "url", f"{field}.image_url")
    text(address, f"{field}.image_url.url")
    return ""


def _call(part: Any, field: str) -> str:
    identifier(_member(part, "id", field), f"{field}.id")
    return ""


def _result(part: Any, field: str) -> str:
    optional_identifier(part.get("tool_call_id"), f"{field}.tool_call_id")
    return result_text(part)


def result_text(part: Mapping[str, Any]) -> str:
    """The text of a result: its content as a string, or the text parts of its content."""
    said = part.get("content")
    if isinstance(said, str):
        return said
    blocks = said if isinstance(said, list) else []
    return "\n".join(each for block in blocks if isinstance(block, dict) and isinstance(each := block.get("text"), str))


_PARTS: dict[str, Callable[[Any, str], str]] = {
    "text": _spoken,
    "image_url": _image,
    "tool_call": _call,
    "tool_result": _result,
}


def _member(value: object, key: str, field: str) -> Any:
    if isinstance(value, dict) and key in value:
        return value[key]
    raise ValidationError(f"must be an object with {key}", field=field)
