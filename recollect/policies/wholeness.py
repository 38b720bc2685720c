"""Whether the data of a record has all that is read from it, for records that somebody else may have written.

An import is refused when it does not, so that nothing that was imported breaks a later read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from recollect.layers import LAYERS
from recollect.policies import graphs
from recollect.policies.spells import Telling
from recollect.policies.unlearning import restored
from recollect.records import TRUSTS, Record, Scope, as_datetime

Test = Callable[[Any], bool]


def is_whole(layer: str, data: Mapping[str, Any]) -> bool:
    """Whether data of a layer can be read; in the layer `past`, also the data that it keeps."""
    if layer == "past":
        kept, of = data.get("data"), data.get("layer")
        known = isinstance(of, str) and of in LAYERS and of != "past" and isinstance(data.get("of"), str)
        return known and _is_count(data.get("version")) and isinstance(kept, dict) and is_whole(str(of), kept)
    noted = all(test(data[name]) for name, test in _NOTES.items() if name in data)
    return noted and _LAYERS.get(layer, _is_anything)(data) and _was_whole(layer, data)


def _was_whole(layer: str, data: Mapping[str, Any]) -> bool:
    """Whether it was whole before each of its undos, too: these can be taken back."""
    record = Record("", layer, Scope(), data=data)
    while "undone" in record.data:
        record = restored(record)
        if not _LAYERS.get(layer, _is_anything)(record.data):
            return False
    return True


# ── Small tests ──────────────────────────────────────────────────────────────────────────────────


def _is_anything(value: Any) -> bool:
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_time(value: Any) -> bool:
    """Whether it is a whole number that a calendar has a date for."""
    try:
        return type(value) is int and bool(as_datetime(value))
    except OverflowError:
        return False


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _maybe(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _list_of(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _row_of(*tests: Test) -> Test:
    """A list with exactly these entries."""
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(tests)
        and all(t(each) for t, each in zip(tests, value, strict=True))
    )


def _with(**tests: Test) -> Test:
    """An object that has all of these."""
    return lambda value: isinstance(value, Mapping) and all(n in value and test(value[n]) for n, test in tests.items())


def _may_have(**tests: Test) -> Test:
    return lambda value: all(test(value[name]) for name, test in tests.items() if name in value)


def _all(*tests: Test) -> Test:
    return lambda value: all(test(value) for test in tests)


def _any(*tests: Test) -> Test:
    return lambda value: any(test(value) for test in tests)


# ── Facts and preferences ────────────────────────────────────────────────────────────────────────

_telling = _row_of(
    _maybe(_is_text), _maybe(_is_text), _is_time, _is_time, _is_share, _maybe(_is_text), _is_text
)  # fmt: skip
assert len(Telling._fields) == 7, "a telling is tested field by field"


def _is_seen(data: Mapping[str, Any]) -> bool:
    """First and last seen are both known, or neither is."""
    return (data["first_seen"] is None) == (data["last_seen"] is None)


_fact = _all(
    _with(
        key=_is_name, value=_is_text, status=_is_text, seen=_is_count, sure_at=_maybe(_is_time),
        first_seen=_maybe(_is_time), last_seen=_maybe(_is_time), tellings=_list_of(_telling),
    ),
    _is_seen,
    lambda data: bool(data["tellings"]),
    _may_have(
        ended=_list_of(_any(_row_of(_is_time, _is_time), _row_of(_is_time, _is_time, _telling))),
        ends=lambda ends: isinstance(ends, dict) and all(map(_row_of(_is_time, _telling), ends.values())),
        applied=_list_of(_is_text),
        rejected=_list_of(_is_text),
        unheard=_list_of(_is_text),
        voided=_with(by=_telling, status=_is_text, pinned=lambda value: isinstance(value, bool)),
        reason=_is_text,
    ),
)  # fmt: skip

# ── Everything else ──────────────────────────────────────────────────────────────────────────────

_learning = _all(
    _with(type=lambda type: type in ("preference", "pattern", "correction")),
    _may_have(sources=_list_of(_is_text), seen=_is_count, last_used=_maybe(_is_time), retired=_is_text),
)
_customization = _all(_with(id=_is_name, order=_is_time), _may_have(active=lambda value: isinstance(value, bool)))
_cached = _any(
    _with(
        type=_is_name,
        id=_is_name,
        name=_maybe(_is_text),
        aliases=_list_of(_is_text),
        data=lambda v: isinstance(v, dict),
    ),
    lambda data: set(data) <= {"type", "id", "write"},
)
_in_graph_alone = _may_have(
    messages=_list_of(_is_text),
    absorbed=_list_of(_is_text),
    held=lambda held: isinstance(held, dict) and all(map(_list_of(_is_text), held.values())),
    reason=_is_text,
    ended_by=_list_of(_is_text),
    began_by=_list_of(_is_text),
    before_end=_row_of(_maybe(_is_time), _maybe(_is_time)),
)


def _in_graph(data: Mapping[str, Any]) -> bool:
    """Whether what somebody said to be over remembers what it was before that."""
    return _in_graph_alone(data) and ("before_end" in data or not data.get("ended_by"))


def _graph(layer: str) -> Test:
    return lambda data: graphs.is_whole(Record("", layer, Scope(), data=data)) and _in_graph(data)


_LAYERS: dict[str, Test] = {
    "conversation": _with(role=_is_text),
    "working": _with(state=lambda state: isinstance(state, dict)),
    "fact": _fact,
    "preference": _fact,
    "learning": _learning,
    "customization": _customization,
    "entity_cache": _cached,
    "entity": _graph("entity"),
    "relation": _graph("relation"),
}

_source = _row_of(
    _maybe(_is_text), _maybe(_is_text), _maybe(_row_of(_is_time, _is_time)), _maybe(_is_text), _maybe(_is_text)
)  # fmt: skip
_before = _with(
    data=lambda data: isinstance(data, dict), valid_from=_maybe(_is_time), valid_to=_maybe(_is_time),
    confidence=_is_share, source=_maybe(_source),
)  # fmt: skip
_undone = _with(id=_is_text, at=_is_time, reason=_is_text, before=_before)
_NOTES: dict[str, Test] = {
    "role": _is_text,
    "name": _maybe(_is_text),
    "undone": _all(_undone, _may_have(earlier=_list_of(_undone))),
    "quarantined": _with(was=lambda trust: trust in TRUSTS, undo=_maybe(_is_text)),
    "set_aside": _with(undo=_is_text, at=_is_time, reason=_is_text),
    "noted_born": _row_of(_is_count, _is_count),
    "before_merge": _with(valid_to=_maybe(_is_time), data=lambda data: isinstance(data, dict)),
    "unlearned": lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
}
"""What may be noted in the data of any record."""
