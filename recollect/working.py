"""The state of the task at hand: one JSON value for a session (or user) and agent.

Each write restarts its life, 24 hours unless `working_hours` says otherwise; reading writes nothing. A write
that names the version it was read with is refused if somebody else wrote first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from recollect import validate
from recollect.errors import Conflict, ValidationError
from recollect.handles import Handle
from recollect.ledger import Ledger
from recollect.records import Changes, Record, Scope, new_id

Model = TypeVar("Model")

PUSH_KEEP = 20
"""How many items a pushed list keeps unless the caller says otherwise."""
CALL_DIGITS = 8
"""How many random digits the name of a write has."""

TEMPLATE: dict[str, Any] = {
    "user": {"id": None, "name": None, "role": None, "preferences": {}},
    "current_page": {"route": None, "entity_type": None, "entity_id": None},
    "recent_actions": [],
    "plan_steps": [],
    "scratchpad": "",
}
"""A ready-made shape for assistants inside an application: `await chat.working.set(TEMPLATE)`."""


class State(dict[str, Any]):
    """A working state: a plain dict that knows the version it was read with.

    Passing it back to `set` makes that write fail with `Conflict` if it has become stale.
    """

    version: int = 0


class Working(Handle):
    """Working memory of one scope: `get`, `set`, `patch`, `push`, `clear`."""

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self._ledger = ledger
        self._layer = ledger.layers["working"]
        self._scope = self._layer.scope_of(scope)
        self._id = self._layer.head_id(scope)

    async def get(self, model: type[Model] | None = None) -> Any:
        """The state as a dict (empty if there is none), or as an instance of the given Pydantic model.

        >>> state = await chat.working.set({"plan_steps": ["ask for the log"]})
        >>> await chat.working.get()
        {'plan_steps': ['ask for the log']}
        """
        found = await self._ledger.get(self._scope.partition, [self._id])
        state = _state(found[0] if found and found[0].layer == "working" else None)
        if model is None:
            return state
        read = getattr(model, "model_validate", None)
        if read is None:
            raise ValidationError("give a Pydantic model class", field="model")
        try:
            return read(dict(state))
        except ValueError:
            # The model's own error quotes the state, which does not belong in messages and logs.
            raise ValidationError("the state does not fit this model", field="model") from None

    async def set(self, value: Any, *, version: int | None = None) -> State:
        """Replace the state with a dict or a Pydantic model.

        >>> state = await chat.working.set({"plan_steps": ["ask for the log"]})
        >>> state = await chat.working.set({"plan_steps": []}, version=state.version)
        """
        expected = value.version if version is None and isinstance(value, State) else version
        fresh = _checked(value)
        return await self._write(lambda _: fresh, expected)

    async def patch(self, changes: Mapping[str, Any], *, version: int | None = None) -> State:
        """Change parts of the state (JSON merge patch: null removes, objects merge, the rest replaces).

        >>> state = await chat.working.set({"step": 1, "draft": True})
        >>> await chat.working.patch({"step": 2, "draft": None})
        {'step': 2}
        """
        patch = _checked(changes)
        return await self._write(lambda state: _merge(state, patch), version)

    async def push(self, name: str, item: Any, *, keep: int = PUSH_KEEP, version: int | None = None) -> State:
        """Append to a list in the state and keep its newest items, for recent actions, say.

        >>> await chat.working.push("recent_actions", "opened the log", keep=10)
        {'recent_actions': ['opened the log']}
        """
        validate.limit(keep, "keep")
        if not isinstance(name, str):
            raise ValidationError("must be the name of a list", field="name")
        addition = _checked({name: item})

        def change(state: dict[str, Any]) -> dict[str, Any]:
            items = state.get(name, [])
            if not isinstance(items, list):
                raise ValidationError("this part of the state is not a list", field="name")
            return state | {name: [*items, addition[name]][-keep:]}

        return await self._write(change, version)

    async def clear(self, *, version: int | None = None) -> None:
        """Forget the state. A stale `version` raises `Conflict`."""
        if version is None:
            await self._ledger.commit(Changes(self._scope.partition, drop=(self._id,)))
            return

        def decide(record: Record | None, now: int) -> Changes | None:
            _check_version(version, record)
            if record is None:
                return None
            # It expires now instead of being dropped: a write of the same moment makes this one late, not undone.
            return Changes(self._scope.partition, put=(record.with_(data={"state": {}}, expires_at=now),))

        await self._ledger.update(self._scope.partition, self._id, decide)

    async def _write(self, change: Callable[[dict[str, Any]], dict[str, Any]], version: int | None) -> State:
        state = State()

        def decide(record: Record | None, now: int) -> Changes:
            if record is not None and record.layer != "working":
                raise Conflict("the id of this state is taken by another memory", field="id")
            _check_version(version, record)
            value = self._ledger.masked(validate.working(change(dict(record.data["state"]) if record else {})))
            state.clear()
            state.update(value)
            old = record or Record(self._id, "working", self._scope, created_at=now)
            # The number of the write makes two equal writes in a row two versions, and its name distinguishes it
            # from an equal one that another process makes at the same moment: one of the two is late.
            data = {"state": value, "write": old.data.get("write", 0) + 1, "call": new_id(now)[-CALL_DIGITS:]}
            return Changes(self._scope.partition, put=(old.with_(data=data),))

        state.version = await self._ledger.update(self._scope.partition, self._id, decide)
        return state


def _check_version(version: int | None, record: Record | None) -> None:
    if version is not None and version != (record.version if record else 0):
        raise Conflict("the state changed since it was read; get it again", field="version")


def _checked(value: Any) -> dict[str, Any]:
    """A dict or a Pydantic model as plain, checked JSON."""
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    plain = dump(mode="json") if callable(dump) else value
    if not isinstance(plain, Mapping):
        raise ValidationError("give a JSON object or a Pydantic model", field="working")
    checked = validate.working(dict(plain))
    assert isinstance(checked, dict)
    return checked


def _state(record: Record | None) -> State:
    state = State(record.data["state"]) if record else State()
    state.version = record.version if record else 0
    return state


def _merge(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result
