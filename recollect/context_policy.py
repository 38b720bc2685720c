"""The policy of a context: what it may be made of, and how its sections share the budget.

One value for what an assistant is given, question after question. The budget itself, the model that counts it and
the time of asking belong to each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from recollect import validate
from recollect.errors import ValidationError
from recollect.layers import LAYERS
from recollect.settings import QUALITIES


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """What the contexts of an assistant are made of, for `get_context(policy=...)`. What is not given is not limited.

    >>> brief = ContextPolicy(sections=["profile", "recent", "knowledge"], shares={"recent": 0.3}, window=20)
    >>> brief.has_section("episodes")
    False
    """

    layers: Sequence[str] | None = None
    """Only records of these layers."""
    sections: Sequence[str] | None = None
    """Only these sections of the prompt."""
    shares: Mapping[str, float] = field(default_factory=dict, hash=False)
    """The most that a section may take of the budget, by its name: `{"recent": 0.3}`."""
    window: int | None = None
    """At most this many of the newest messages."""
    quality: str | None = None
    """`fast`, or `best` with the reranker; the settings decide if it is None."""

    def __post_init__(self) -> None:
        checked = {
            "layers": validate.layers(self.layers) or None,
            "sections": validate.sections(self.sections) or None,
            "shares": validate.shares(self.shares),
            "window": None if self.window is None else validate.limit(self.window, "window"),
            "quality": None if self.quality is None else validate.choice(self.quality, QUALITIES, "quality"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, given: ContextPolicy | Mapping[str, Any] | None, **instead: Any) -> ContextPolicy:
        """The policy of one call: that given, as a value or by its fields, with what the call says instead of it."""
        policy = given if isinstance(given, ContextPolicy) else cls() if given is None else cls.read(given, "policy")
        return replace(policy, **{name: value for name, value in instead.items() if value is not None})

    @classmethod
    def read(cls, given: Any, where: str) -> ContextPolicy:
        """The policy with these fields; an error names `where` they were found."""
        known = tuple(each.name for each in fields(cls))
        if not isinstance(given, Mapping):
            raise ValidationError(f"must be a ContextPolicy, or an object of {', '.join(known)}", field=where)
        named = validate.named_fields(given, known, (), where)
        try:
            return cls(**named)
        except ValidationError as error:
            wrong = error
        raise ValidationError(wrong.message, field=f"{where}.{wrong.field}")

    def has_layer(self, name: str) -> bool:
        """Whether records of this layer may be in it."""
        return not self.layers or name in self.layers

    def has_section(self, name: str) -> bool:
        """Whether this section may be in it."""
        return not self.sections or name in self.sections

    @property
    def searched(self) -> tuple[str, ...]:
        """The layers that may be searched for it."""
        return tuple(name for name, layer in LAYERS.items() if layer.searched and self.has_layer(name))

    def most(self, max_tokens: int) -> dict[str, int]:
        """The most tokens that sections may take of a budget, where there is a limit."""
        return {name: int(share * max_tokens) for name, share in self.shares.items()}
