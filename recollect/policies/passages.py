"""What a reranker reads of a turn: the part of it that the question is about, who said it, what surrounds it.

A cross-encoder pays for every word it reads, so a long turn is cut to the stretch that contains the
most of the question, and only the nearest words of its neighbours are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.policies.words import piece_terms

WORDS_MAX = 64
"""Maximum words of the turn itself: most turns are shorter, and an answer lies within a few sentences."""
BEFORE_WORDS = 20
"""Words from the end of the turn before: enough for the question that this one answers."""
AFTER_WORDS = 10
"""Words from the beginning of the turn after."""
STEP_WORDS = 10
"""How far the window over a long turn moves at a time."""


def stretch(text: str, wanted: Sequence[str], language: str = "en") -> str:
    """At most `WORDS_MAX` consecutive words of a text: those with the most different terms of the question.

    Of several equally good stretches, the first.

    >>> stretch("so " * 100 + "we adopted a cat called Miso", ["cat", "adopt"])[-16:]
    'we adopted a cat'
    """
    words = text.split()
    if len(words) <= WORDS_MAX:
        return " ".join(words)
    asked = frozenset(wanted)
    found = [asked & piece_terms(word, language) for word in words]
    starts = [*range(0, len(words) - WORDS_MAX, STEP_WORDS), len(words) - WORDS_MAX]
    best = max(starts, key=lambda start: (len(frozenset().union(*found[start : start + WORDS_MAX])), -start))
    return " ".join(words[best : best + WORDS_MAX])


def passage(speaker: str, text: str, before: str, after: str) -> str:
    """The turn with its speaker, then the end of the turn before and the beginning of the one after."""
    around = [ending(before), beginning(after)]
    return " | ".join([f"{speaker}: {text}" if speaker else text, *around]).rstrip(" |")


def ending(text: str) -> str:
    """What is read of the turn before."""
    return " ".join(text.split()[-BEFORE_WORDS:])


def beginning(text: str) -> str:
    """What is read of the turn after."""
    return " ".join(text.split()[:AFTER_WORDS])
