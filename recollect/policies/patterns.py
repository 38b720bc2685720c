"""Patterns that are compiled by the first text they meet: who starts a program need not wait for all of them."""

from __future__ import annotations

import re
from typing import Any, cast


class _Uncompiled:
    """Stands for a pattern. What is asked of it is asked of the compiled one, once, and is at hand from then on."""

    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


def pattern_of(text: str, flags: int = 0) -> re.Pattern[str]:
    """The pattern of a regular expression, as `re.compile` gives it, but compiled when it is first used.

    >>> pattern_of(r"[a-z]+").findall("one two")
    ['one', 'two']
    """
    return cast("re.Pattern[str]", _Uncompiled(text, flags))
