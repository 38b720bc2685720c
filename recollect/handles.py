"""What all handles have in common: they say whose they are, and belong to the process that opened the memory."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from recollect.records import Scope


class Opened:
    """An open memory, or a way to it. Copying something that holds one, such as the state of an agent, shares it."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled, since it belongs to this process; "
            "pass the ids to the other one, and open a memory there"
        )


class Handle(Opened):
    """A way to the memories of one owner."""

    _scope: Scope

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {told_owner(self._scope)}>"


def told_owner(scope: Scope) -> str:
    """Whose something is, for people."""
    parts = (("session", scope.session), ("agent", scope.agent), ("user", scope.user))
    return ", ".join([f"{noun} {name!r}" for noun, name in parts if name] + [f"org {scope.org!r}"])
