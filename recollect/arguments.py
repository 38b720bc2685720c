"""What the handles share: arguments that several verbs take, checked once, and the list that two of them offer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from recollect import validate
from recollect.filters import Filter
from recollect.layers import SEARCHED_LAYERS
from recollect.records import Record, Scope

if TYPE_CHECKING:
    from recollect.flow import Flow

T = TypeVar("T")

READERS = ("rules", "model")
"""What can reprocess stored conversations."""


def call(make: Callable[..., T], given: Any, field: str = "items") -> T:
    """Make a draft or an edit from named arguments; an unknown or missing name raises a typed error."""
    return make(**validate.named_fields(given, *_parameters(make), field))


@cache
def _parameters(make: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a function's parameters, and of those that are required."""
    taken = inspect.signature(make).parameters
    return tuple(taken), tuple(name for name, each in taken.items() if each.default is each.empty)


def key(value: str | None) -> str | None:
    return validate.identifier(value, "idempotency_key") if value is not None else None


def searched_layers(value: str | Sequence[str] | None) -> tuple[str, ...]:
    chosen = validate.layers(value, "layer")
    for layer in chosen:
        validate.choice(layer, SEARCHED_LAYERS, "layer")
    return chosen


def reprocess_options(by: Any, apply: Any, again: Any) -> dict[str, Any]:
    return {
        "by": None if by is None else validate.choice(by, READERS, "by"),
        "apply": validate.switch(apply, "apply"),
        "again": validate.switch(again, "again"),
    }


async def listed(
    flow: Flow, scope: Scope, layer: str, where: Any, limit: int, after: str | None, at: Any, newest_first: bool
) -> tuple[list[Record], str | None]:
    """A page of what a partition holds, and the cursor of the next."""
    test = validate.where(where, at=validate.moment(at, "at"))
    filter = Filter(scope.partition, layers=(validate.layer(layer),), test=test)
    page = await flow.ledger.list(
        filter, newest_first=bool(newest_first), limit=validate.limit(limit), after=validate.cursor(after)
    )
    return list(page.records), page.after
