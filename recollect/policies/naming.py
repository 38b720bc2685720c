"""Which names occur in a text, as whole words and in any case, and where."""

from __future__ import annotations

from recollect.policies.merging import normal
from recollect.policies.patterns import pattern_of
from recollect.policies.words import LETTERS

SHORT_NAME = 2
"""A name of at most this many letters must match exactly: "Al" is not the end of "et al"."""

_WORDS = pattern_of(rf"[{LETTERS}]+")
# Thai to Khmer, Japanese, Chinese, Korean: these scripts do not show where names begin and end.
_UNSPACED = pattern_of("[\u0e00-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Text:
    """A text that is searched for names.

    >>> text = Text("Does ACME GmbH pay?")
    >>> text.place("Acme GmbH"), text.place("Acm")
    (5, -1)
    >>> "राम" in Text("रूम कहाँ है?"), "राम" in Text("राम कहाँ है?")
    (False, True)
    """

    def __init__(self, text: str) -> None:
        self._spaced = _spaced(normal(text))
        self._exact = _spaced(text)

    def place(self, name: str) -> int:
        """Where a name occurs, as an offset into the words of the text; -1 if it does not."""
        words = _spaced(normal(name))
        if not words.strip():
            return -1
        if _UNSPACED.search(name):
            return self._spaced.find(words.strip())
        return self._exact.find(_spaced(name)) if len(name) <= SHORT_NAME else self._spaced.find(words)

    def __contains__(self, name: str) -> bool:
        return self.place(name) >= 0

    def first(self, names: list[str]) -> int | None:
        """The first position at which one of these names occurs."""
        return min((place for name in names if (place := self.place(name)) >= 0), default=None)


def _spaced(text: str) -> str:
    """The words of a text with one space around each."""
    return f" {' '.join(_WORDS.findall(text))} "
