"""What the handles share: the arguments that several verbs take, checked in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from recollect import validate
from recollect.layers import SEARCHED_LAYERS

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
    """The idempotency key of a call, or None."""
    return validate.identifier(value, "idempotency_key") if value is not None else None


def searched_layers(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """The layers to search in; () stands for all of them."""
    chosen = validate.layers(value, "layer")
    for layer in chosen:
        validate.choice(layer, SEARCHED_LAYERS, "layer")
    return chosen


def reprocess_options(by: Any, apply: Any, again: Any) -> dict[str, Any]:
    """How stored conversations are to be read again."""
    return {
        "by": None if by is None else validate.choice(by, READERS, "by"),
        "apply": validate.switch(apply, "apply"),
        "again": validate.switch(again, "again"),
    }
