"""Patterns that are compiled on first use, so that starting a program does not wait for all of them."""

from __future__ import annotations

import re
from typing import Any, cast


class _Uncompiled:
    """Stands in for a pattern. Each attribute is looked up on the compiled one, once, and cached from then on."""

    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


def pattern_of(text: str, flags: int = 0) -> re.Pattern[str]:
    """The pattern of a regular expression, as `re.compile` returns it, but compiled on first use.

    >>> pattern_of(r"[a-z]+").findall("one two")
    ['one', 'two']
    """
    return cast("re.Pattern[str]", _Uncompiled(text, flags))
