"""How many tokens a text has, so that a context never exceeds its budget.

Counted with the model's own vocabulary where that is available, otherwise by an estimate that errs on
the high side: a context that is a little too small is better than a request that is refused.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from recollect.policies.patterns import pattern_of

TokenCounter = Callable[[str], int]
"""Returns the number of tokens of a text."""

MESSAGE_OVERHEAD = 4
"""Tokens that chat formats put around each message, for its role and its ends."""


def estimate(text: str) -> int:
    """Roughly how many tokens this is for a current model, seldom fewer than it really is.

    For English about a quarter too many. It covers both vocabularies of OpenAI, so for scripts that
    only the newer one knows well it is two to five times that one's count. Languages in plain Latin letters
    look like English and can come out well below their count: use the model's own counter for those.
    """
    if text.isascii():
        return len(_PIECES.findall(text)) + 1 if text else 0
    wide = _ASCII.sub("", text)
    pieces = _SMALL_PIECES if _LATIN_EXTENDED.search(wide) else _PIECES
    return len(pieces.findall(text)) + math.ceil(sum(map(_cost, wide))) + 1


def counter(model: str | None = None) -> TokenCounter:
    """The token counter for this model: exact, if it is one of OpenAI's and `rs_bpe` is installed."""
    vocabulary = _vocabulary(model)
    return _exact(vocabulary) if vocabulary and _is_installed() else estimate


def told_counter(model: str | None = None) -> str:
    """How the tokens of this model are counted, for people: exactly, or by the estimate and what would change that."""
    if _vocabulary(model) is None:
        return "estimated"
    return f"as {model} counts" if _is_installed() else f'estimated; as {model} counts with "recollect[tokens]"'


def _vocabulary(model: str | None) -> str | None:
    name = (model or "").lower().rpartition("/")[2].removeprefix("ft:")
    return next((vocabulary for vocabulary, names in _VOCABULARIES.items() if names.match(name)), None)


def _is_installed() -> bool:
    return importlib.util.find_spec("rs_bpe") is not None


def remembering(count: TokenCounter, texts_max: int = 100_000) -> TokenCounter:
    """The same counter, with a cache for texts that it has counted before. It keeps no text, only hashes."""
    known: dict[tuple[int, int], int] = {}

    def remembered(text: str) -> int:
        key = (hash(text), len(text))
        tokens = known.get(key)
        if tokens is None:
            if len(known) >= texts_max:
                known.clear()
            tokens = known[key] = count(text)
        return tokens

    return remembered


def message_tokens(count: TokenCounter, role: str, text: str) -> int:
    """The tokens of one chat message with everything around it."""
    return MESSAGE_OVERHEAD + count(role) + count(text)


# The exact count --------------------------------------------------------------------------------

_VOCABULARIES = {
    "o200k_base": pattern_of(r"(?:gpt-4o|gpt-4\.[1-9]|gpt-[5-9]|gpt-oss|chatgpt-4o|o[1-9])(?![a-z0-9])"),
    "cl100k_base": pattern_of(r"(?:gpt-4|gpt-3\.5|gpt-35)(?![a-z0-9.])"),
}


@functools.cache
def _exact(vocabulary: str) -> TokenCounter:
    # Imported by name on first use: the package is an extra, and its tables are large.
    openai: Any = importlib.import_module("rs_bpe.bpe").openai
    count: TokenCounter = getattr(openai, vocabulary)().count
    return count


# The estimate -----------------------------------------------------------------------------------


def _pattern(letters: int) -> re.Pattern[str]:
    """A pattern that cuts ASCII text into pieces of about a token each, and words after `letters` letters."""
    return pattern_of(
        r"(?=[A-Za-z0-9+/]{32})(?:[A-Z]|[a-z]{1,2}|\d{1,3}|[+/])"  # keys and encoded data
        r"|(?<=\d)[A-Za-z]{1,2}"  # more of the same: 7f3a9c
        rf"| ?[a-z]{{1,{letters}}}"
        r"| ?[A-Z][a-z]{1,3}"  # names are rarer than words, and so cut smaller
        r"| ?[A-Z]{1,2}"
        r"|\d{1,3}"
        r"|\s+"
        r"| ?[!-/:-@\[-^`{-~]{1,2}"
        r"|[\x00-\x7f]",
        re.ASCII,
    )


_PIECES = _pattern(6)
_SMALL_PIECES = _pattern(3)
_ASCII = pattern_of(r"[\x00-\x7f]+")
_LATIN_EXTENDED = pattern_of(r"[\xc0-\u024f\u1e00-\u1eff]")

# Tokens per character, by the first code point of each range. Measured on text of each script.
_COSTS: tuple[tuple[int, float], ...] = (
    (0x0080, 1.0),  # Latin with accents
    (0x0370, 1.1),  # Greek
    (0x0400, 0.6),  # Cyrillic
    (0x0450, 1.2),  # its letters outside Russian
    (0x0460, 2.2),
    (0x0530, 2.2),  # Armenian
    (0x0590, 1.1),  # Hebrew, Arabic
    (0x0700, 3.0),
    (0x0900, 1.1),  # Devanagari
    (0x0980, 1.5),  # Bengali
    (0x0A00, 2.0),  # Gurmukhi, Gujarati
    (0x0B00, 2.9),  # Odia
    (0x0B80, 1.6),  # Tamil
    (0x0C00, 2.1),  # Telugu, Kannada, Malayalam, Sinhala
    (0x0E00, 1.2),  # Thai
    (0x0E80, 3.0),
    (0x10A0, 2.2),  # Georgian
    (0x1100, 3.0),
    (0x1E00, 1.5),  # Vietnamese
    (0x1F00, 3.0),
    (0x2000, 2.0),  # invisible joiners of emoji
    (0x2010, 1.0),  # typographic quotes and dashes
    (0x2040, 1.8),  # signs, arrows, boxes
    (0x2C00, 3.0),
    (0x3000, 1.3),  # Japanese syllables
    (0x3400, 1.8),  # Chinese: the simplified characters cost less, the traditional ones this much
    (0xA000, 3.0),
    (0xAC00, 1.3),  # Korean
    (0xD7B0, 3.0),
    (0xFF00, 1.3),  # wide forms
    (0xFFF0, 3.0),
    (0x10000, 4.0),
    (0x1F000, 3.0),  # emoji
    (0x1FB00, 4.0),
)
_STARTS = [start for start, _ in _COSTS]


@functools.lru_cache(8192)
def _cost(character: str) -> float:
    return _COSTS[bisect_right(_STARTS, ord(character)) - 1][1]
