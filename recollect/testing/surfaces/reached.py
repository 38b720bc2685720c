"""What every surface is: a memory with handles for its users and sessions, whose verbs go over that surface.

A verb goes over the surface if that has it and can carry the values; else it is the Python verb, and `sent` has
not grown. A refusal comes back as the error of the tree that it names.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from recollect import errors
from recollect.errors import RecollectError
from recollect.memory import Memory

Say = Callable[..., Awaitable[Any]]


class Unsayable(Exception):
    """The surface has no way to say this."""


async def of_pair(add: Awaitable[Any]) -> Any:
    """What adding a pair as two messages gives. A refusal names the side, as it does in Python.

    Over MCP it does not say which message it means; the inputs sent here are the assistant's.
    """
    try:
        return await add
    except RecollectError as error:
        names = {"0": "user", "1": "assistant"}
        error.field = re.sub(r"^(?:messages\.([01])\.)?content", lambda at: names[at[1] or "1"], error.field or "")
        raise


class Reached:
    """A memory as it is reached over a surface."""

    verbs: Mapping[str, Say] = {}
    whole: str = ""
    """What a refusal names when the whole of a request cannot be read, and so no field of it."""

    def __init__(self, truth: Memory) -> None:
        self.truth = truth
        self.sent = 0
        """Calls that went over the surface."""

    def user(self, id: Any, *, org: Any = "default") -> Handle:
        return Handle(self, id, org)

    def as_told(self, kind: type[RecollectError]) -> type[RecollectError]:
        """The error that can be told apart from others here."""
        return kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self.truth, name)


class Handle:
    """A user or a session of one, over a surface."""

    def __init__(self, over: Any, user: Any, org: Any, in_session: tuple[Any, ...] = (), agent: Any = "") -> None:
        self.over, self.who, self.org, self.agent = over, user, org, agent
        self.in_session = in_session
        """The id of the session, if it is a handle of one."""
        self.id = in_session[0] if in_session else user
        self.working = SimpleNamespace(set=partial(self._say, "set"), get=partial(self._say, "get"))

    def session(self, id: Any, *, agent: Any = "") -> Handle:
        self._truth()  # a user that cannot be is told first, as everywhere
        return Handle(self.over, self.who, self.org, (id,), agent)

    def __getattr__(self, verb: str) -> Any:
        return partial(self._say, verb)

    async def _say(self, verb: str, *given: Any, **named: Any) -> Any:
        spoken = self.over.verbs.get(verb)
        if spoken is not None and _fits(spoken, self, *given, **named):
            try:
                return await spoken(self, *given, **named)
            except Unsayable:
                pass
        truth = self._truth()
        return await getattr(truth.working if verb in ("set", "get") else truth, verb)(*given, **named)

    def _truth(self) -> Any:
        user = self.over.truth.user(self.who, org=self.org)
        return user.session(self.id, agent=self.agent) if self.in_session else user


def _fits(call: Say, *given: Any, **named: Any) -> bool:
    try:
        inspect.signature(call).bind(*given, **named)
    except TypeError:
        return False
    return True


def as_json(value: Any, *, allow_nan: bool = True) -> str:
    """A value as JSON, if it is the same value when it is read again."""
    try:
        text = json.dumps(value, allow_nan=allow_nan)
        same = json.loads(text) == value or "NaN" in text
    except (TypeError, ValueError, RecursionError):
        raise Unsayable from None
    if not same:
        raise Unsayable
    return text


def error_of(kind: str, field: str | None, told: str) -> RecollectError:
    """The error of the tree with this name. All that was told is in it, so that content in it is seen."""
    made: RecollectError = getattr(errors, kind)(told, field=field)
    return made


def record_of(told: Any) -> SimpleNamespace:
    return SimpleNamespace(**told)


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_unicode(text: str) -> bool:
    """Whether a text has no half characters, which no protocol carries."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
