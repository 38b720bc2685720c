"""Questions that ask for more than one thing, taken apart: each part is looked for by itself as well.

Few and sure patterns: a part is only cut off where it can stand alone.
"""

from __future__ import annotations

import re

PARTS_MAX = 3
"""Parts of one question; who asks for more is better served by the question as a whole."""
QUESTION_CHARACTERS = 500

_ASKS = r"(?:what|when|where|which|who|whose|why|how|did|do|does|is|are|was|were|have|has|had|can|could|should|will)"
_AND_ASKS = re.compile(rf"(?:,|;|\?)?\s+(?:and|or|but)\s+(?:also\s+)?(?={_ASKS}\b)|\?\s+(?=\w)|;\s+", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+(?P<first>.{6,120}?)\s+and\s+(?P<second>.{6,120})", re.IGNORECASE)
_FIRST_OR = re.compile(
    r"\b(?:first|earlier|before|sooner|more|longer|older|cheaper|later|last)\b[^,:]{0,80}[,:]\s*"
    r"(?P<first>.{6,120}?),?\s+or\s+(?P<second>.{6,120})",
    re.IGNORECASE,
)


def parts(question: str) -> list[str]:
    """What a question asks for, one by one; empty when it asks for one thing.

    >>> parts("Where does Ana live and what does she do?")
    ['Where does Ana live', 'what does she do?']
    >>> parts("How many days passed between my visit to the museum and the concert in the park?")
    ['my visit to the museum', 'the concert in the park?']
    >>> parts("Which did I buy first, the red bicycle or the sewing machine?")
    ['the red bicycle', 'the sewing machine?']
    """
    text = question[:QUESTION_CHARACTERS].strip()
    for pattern in (_BETWEEN, _FIRST_OR):
        match = pattern.search(text)
        if match is not None:
            return [match["first"].strip(), match["second"].strip()]
    cut = [part.strip() for part in _AND_ASKS.split(text) if len(part.split()) >= 3]
    return cut[:PARTS_MAX] if len(cut) > 1 else []
