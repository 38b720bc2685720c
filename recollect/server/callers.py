"""Remembers the rate bucket of each recent caller, so that a request over its rate is refused before it is read.

Reading a request, looking up its key and refusing it takes half a millisecond, in which nobody else is
served: at a thousand requests a second from one key, others would wait for little else. Invalid keys are not
remembered, as there is no end of them: they are refused unread once too many came from one address.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from starlette.types import Scope

from recollect.server.limits import Rate

CALLERS_MAX = 10_000
"""How many callers are remembered; beyond that, the one idle longest is forgotten and looked up again."""
TAKEN = "recollect.rate_taken"
"""Key in a request's scope for the bucket it was counted in on arrival."""

Bucket = tuple[Rate, str]
"""A rate, and the name under which a caller is counted in it."""


class Callers:
    """The buckets of recent callers, by their address and the key they showed."""

    def __init__(self, most: int = CALLERS_MAX) -> None:
        self._most = most
        self._buckets: OrderedDict[bytes, Bucket] = OrderedDict()

    def bucket(self, address: str, token: bytes) -> Bucket | None:
        """The bucket in which a caller is counted, if known."""
        return self._buckets.get(_name(address, token)) if token else None

    def remember(self, address: str, token: bytes, bucket: Bucket) -> None:
        """Count this caller in the bucket from now on. This grants no access: the key is still looked up every time."""
        self.forget(address, token)
        self._buckets[_name(address, token)] = bucket
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)

    def forget(self, address: str, token: bytes) -> None:
        """Forget the bucket of a key that is not valid, or no longer is: there may be any number of such keys."""
        self._buckets.pop(_name(address, token), None)


def take_once(scope: Scope, rate: Rate, who: str) -> float:
    """Count a request in a rate, unless that was done on arrival. Returns how many seconds it has to wait, or 0."""
    return 0.0 if scope.get(TAKEN) == (rate, who) else rate.take(who)


def _name(address: str, token: bytes) -> bytes:
    # Hashed, so that no copies of working keys are kept.
    return hashlib.sha256(b"%b %b" % (address.encode(), token)).digest()
