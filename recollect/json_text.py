"""JSON text, of files and bodies: read only if every JSON reader would understand it the same way."""

from __future__ import annotations

import json
import math
from typing import Any

from recollect.errors import TooLarge, ValidationError
from recollect.validate import LIMITS, NOT_UNICODE, text_within, utf8_bytes, write_json


class _NotStrict(ValueError):
    """JSON that two readers would understand in different ways."""


def parse(raw: str | bytes, field: str, *, max_bytes: int = LIMITS.body_bytes) -> Any:
    """The value of a JSON text, if every JSON reader would understand it the same way.

    >>> parse('{"a": [1, 2.5, null]}', "body")
    {'a': [1, 2.5, None]}
    """
    document = _decoded(raw, field, max_bytes)
    value, problem = _read_strictly(document)
    if problem is None and _is_deeper(value, LIMITS.body_depth):
        problem = f"must not nest deeper than {LIMITS.body_depth}"
    # Escapes can spell a lone surrogate: {"a": "\ud800"} is ASCII, but not text.
    if problem is None and "\\ud" in document.lower() and utf8_bytes(write_json(value)) is None:
        problem = NOT_UNICODE
    if problem is not None:
        raise ValidationError(problem, field=field)
    return value


def _decoded(raw: str | bytes, field: str, max_bytes: int) -> str:
    if not isinstance(raw, (str, bytes)):
        raise ValidationError(f"must be JSON text, not {type(raw).__name__}", field=field)
    if len(raw) > max_bytes:
        raise TooLarge(f"must have at most {max_bytes} bytes", field=field)
    document = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
    text_within(document, field, max_bytes)
    if document.startswith("\ufeff"):
        raise ValidationError("must not start with a byte order mark; save it as plain UTF-8", field=field)
    return document


def _read_strictly(document: str) -> tuple[Any, str | None]:
    """The value, or what is wrong. The reader's errors hold the whole text, so they stop here."""
    try:
        return _STRICT.decode(document), None
    except json.JSONDecodeError as error:
        return None, f"must be one JSON document; it is invalid at line {error.lineno}, column {error.colno}"
    except _NotStrict as error:
        return None, str(error)
    except RecursionError:
        return None, f"must not nest deeper than {LIMITS.body_depth}"


def _is_deeper(value: object, depth: int) -> bool:
    level: list[Any] = [value]
    for _ in range(depth + 1):
        level = [each for each in level if isinstance(each, (dict, list))]
        if not level:
            return False
        level = [child for each in level for child in (each.values() if isinstance(each, dict) else each)]
    return True


def _object_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _NotStrict("must not have the same key twice in one object")
    return value


def _no_constant(_: str) -> float:
    raise _NotStrict("must not contain NaN or Infinity")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _NotStrict("must not contain a number beyond the range of a double")
    return value


def _within_63_bits(digits: str) -> int:
    if len(digits) > 20 or abs(value := int(digits)) > LIMITS.integer_max:
        raise _NotStrict("must not contain a whole number beyond 63 bits")
    return value


_STRICT = json.JSONDecoder(
    object_pairs_hook=_object_once, parse_constant=_no_constant, parse_float=_finite, parse_int=_within_63_bits
)
