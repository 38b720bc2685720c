"""Points of a local Qdrant, which it keeps pickled: read as data, so that nothing in them can run.

A pickle is a program. Only instructions that build plain values and the one class of a point are let through;
anything that could call something is refused before it is loaded.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

from recollect import validate
from recollect.errors import TooLarge, ValidationError

_CLASSES = "qdrant_client."
_VALUES = (
    "NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE SHORT_BINBYTES BINBYTES "
    "EMPTY_DICT EMPTY_LIST EMPTY_TUPLE EMPTY_SET TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS ADDITEMS"
)
_BUILDING = frozenset((*_VALUES.split(" "), *["PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINGET", "LONG_BINGET"]))
_OBJECTS = frozenset(("STACK_GLOBAL", "NEWOBJ", "BUILD"))
_PAYLOAD_DEPTH, _PAYLOAD_KEYS = 16, 1_000


class _Point:
    """Stands in for the classes of Qdrant, and keeps their fields."""

    def __setstate__(self, state: Any) -> None:
        fields = state.get("__dict__", state) if isinstance(state, dict) else {}
        self.fields = fields if isinstance(fields, dict) else {}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(_CLASSES):
            return _Point
        raise pickle.UnpicklingError


def payload_of(raw: object) -> tuple[str, dict[str, Any]]:
    """The id and the payload of a point."""
    if not isinstance(raw, bytes):
        raise ValidationError("is not a Qdrant point", field="point")
    if len(raw) > validate.LIMITS.body_bytes:
        raise TooLarge(f"must have at most {validate.LIMITS.body_bytes} bytes", field="point")
    try:
        if any(code.name not in _BUILDING | _OBJECTS for code, _, _ in pickletools.genops(raw)):
            raise ValidationError("is not a Qdrant point", field="point")
        point = _Reader(io.BytesIO(raw)).load()
        fields = point.fields
        id, payload = fields.get("id"), fields.get("payload")
    except ValidationError:
        raise
    except Exception as error:  # an invalid pickle can raise anything
        raise ValidationError("is not a Qdrant point", field="point") from error
    # A value that refers to itself is small as a pickle and endless once expanded: this counts as it goes.
    checked = validate.json_value(
        payload or {}, "payload", max_bytes=validate.LIMITS.body_bytes, depth=_PAYLOAD_DEPTH, keys=_PAYLOAD_KEYS
    )
    return "" if id is None else str(id), checked if isinstance(checked, dict) else {}
