"""Strict decoding of a model's answer: it has the requested shape, or decoding fails. Nothing in between.

An answer that cannot be read is never mistaken for "there was nothing to say": it is a `ModelError`, and
the job that needs it is done again later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from recollect import json_text
from recollect.errors import ModelError, ValidationError

ANSWER_BYTES = 256 * 1024
"""A larger answer is rejected; requests are for a few thousand tokens."""
TEXT_CHARACTERS = 4_000
"""The most characters of one text in an answer."""

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*\Z", re.DOTALL)


def decoded(text: object, schema: Mapping[str, Any]) -> Any:
    """The value that an answer holds, if it is one JSON document that matches this schema.

    It supports the parts of JSON schema that the prompts use: objects with all of their members and no others,
    lists with a maximum length, texts with a choice, numbers with bounds.

    >>> decoded('{"same": [2]}', {"type": "object", "properties": {"same": {
    ...     "type": "array", "maxItems": 3, "items": {"type": "integer", "minimum": 1, "maximum": 9}}}})
    {'same': [2]}
    """
    if not isinstance(text, str):
        raise _failed("is not text")
    fenced = _FENCED.match(text)
    try:
        value = json_text.parse(fenced[1] if fenced else text.strip(), "answer", max_bytes=ANSWER_BYTES)
    except ValidationError as error:
        raise _failed(error.message) from None  # the cause would contain the answer
    _check(value, schema, "answer")
    return value


def _check(value: Any, schema: Mapping[str, Any], path: str) -> None:
    if not _IS[schema["type"]](value):
        raise _failed(f"has no {schema['type']} at {path}")
    if schema["type"] == "object":
        _check_object(value, schema["properties"], path)
    elif schema["type"] == "array":
        if len(value) > schema["maxItems"]:
            raise _failed(f"has more than {schema['maxItems']} entries at {path}")
        for place, item in enumerate(value):
            _check(item, schema["items"], f"{path}.{place}")
    elif schema["type"] == "string":
        if len(value) > TEXT_CHARACTERS or value not in schema.get("enum", (value,)):
            raise _failed(f"has a text at {path} that is too long or not one of the choices")
    elif schema["type"] != "boolean" and not schema["minimum"] <= value <= schema["maximum"]:
        raise _failed(f"has a number at {path} that is out of bounds")


def _check_object(value: Mapping[str, Any], properties: Mapping[str, Any], path: str) -> None:
    if value.keys() != properties.keys():
        raise _failed(f"must have {', '.join(properties)} and nothing else at {path}")
    for name, schema in properties.items():
        _check(value[name], schema, f"{path}.{name}")


_IS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int,
    "boolean": lambda value: isinstance(value, bool),
}


def _failed(problem: str) -> ModelError:
    return ModelError(f"The model's answer {problem}. The messages are kept, and the model is asked again later.")
