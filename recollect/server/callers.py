"""Whose rate a request goes by is known from the last time: one that is over it is refused before it is read.

To read a request, look its key up and say that it comes too often takes half a millisecond, in which nobody else is
answered: at a thousand requests a second of one key, others would wait for little else. Keys that do not count are not
remembered, as there is no end of them: they are refused unread once too many came from one address.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from starlette.types import Scope

from recollect.server.limits import Rate

CALLERS_MAX = 10_000
"""Callers that are remembered; of more, the one that was quiet the longest is looked up again."""
TAKEN = "recollect.rate_taken"
"""Where the bucket stands in the scope that a request was counted in when it came in."""

Bucket = tuple[Rate, str]
"""A rate, and as whom a caller is counted in it."""


class Callers:
    """The buckets of those who asked lately, by their address and the key that they showed."""

    def __init__(self, most: int = CALLERS_MAX) -> None:
        self._most = most
        self._buckets: OrderedDict[bytes, Bucket] = OrderedDict()

    def bucket(self, address: str, token: bytes) -> Bucket | None:
        """Where a caller is counted, if that is known."""
        return self._buckets.get(_name(address, token)) if token else None

    def remember(self, address: str, token: bytes, bucket: Bucket) -> None:
        """Next time, count this caller there. What is remembered opens nothing: the key is looked up all the same."""
        self.forget(address, token)
        self._buckets[_name(address, token)] = bucket
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)

    def forget(self, address: str, token: bytes) -> None:
        """Of a key that does not count, or no longer does, nothing is remembered: there are any number of them."""
        self._buckets.pop(_name(address, token), None)


def take_once(scope: Scope, rate: Rate, who: str) -> float:
    """Take one from a rate, unless that was done when the request came in. Gives how many seconds to wait, or 0."""
    return 0.0 if scope.get(TAKEN) == (rate, who) else rate.take(who)


def _name(address: str, token: bytes) -> bytes:
    # Of keys that work, no copies are kept.
    return hashlib.sha256(b"%b %b" % (address.encode(), token)).digest()
