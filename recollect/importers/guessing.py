"""Which program wrote a source: every reader looks at its beginning, and the one that understands most of it wins."""

from __future__ import annotations

from itertools import islice

from recollect.errors import RecollectError
from recollect.importers.items import Expired, Item
from recollect.importers.kinds import JSONL, KINDS, open_source
from recollect.importers.options import Options

LOOKED_AT = 20
"""Items at the beginning of a source that are examined."""
_MODULES = {module: kind for kind, module in reversed(KINDS.items()) if kind != JSONL}
GUESSED = (*_MODULES.values(), JSONL)
"""Kinds by reader, with the one that accepts nearly anything last."""


def guess(kind: str, where: str, options: Options) -> str | None:
    """The kind that a source really is; None if it is the kind it was said to be, or none that is known."""
    if _understood(kind, where, options):
        return None
    shares = {other: _understood(other, where, options) for other in GUESSED}
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] else None


def _understood(kind: str, where: str, options: Options) -> float:
    """How much of the beginning of a source the reader of a kind understands, from 0 to 1."""
    try:
        with open_source(kind, where, options) as source:
            looked = list(islice(source.read(), LOOKED_AT))
    except RecollectError:
        return 0.0
    return sum(isinstance(each, Item | Expired) for each in looked) / len(looked) if looked else 0.0
