"""Conversations in the order in which they began: exports list the newest first, and a life is not learned backwards.

"Rex died" means something to whoever knows Rex; and what was stored last should be what was said last.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from dataclasses import replace

from recollect.importers.conversations import Conversations
from recollect.importers.items import Item, Read, Source

HELD_BYTES = 256 * 1024 * 1024
"""Packed conversations that are held while the others are read: those of a million messages. Further ones come first,
as they are found, since they are the older ones."""
_LEVEL = 1  # the fastest: it is packed once and unpacked once


def is_reordered(source: Source) -> bool:
    """Whether `oldest_first` changes the order of a source."""
    return isinstance(source, Conversations)


def oldest_first(source: Source) -> Iterator[Read]:
    """What a source has, conversation by conversation, the oldest first; other sources are read as they are."""
    if not isinstance(source, Conversations):
        yield from source.read()
        return
    held: list[tuple[int, bytes]] = []
    total = 0
    for talk in _talks(source.read()):
        if total > HELD_BYTES:
            yield from talk
            continue
        packed = zlib.compress(pickle.dumps(talk), _LEVEL)
        held.append((_begun(talk), packed))
        total += len(packed)
    held.sort(key=lambda each: each[0])
    told = 0
    for _, packed in held:
        told += len(packed)
        done = (source.size or 0) * told // total
        for each in pickle.loads(zlib.decompress(packed)):  # nothing but what was packed above
            yield replace(each, done=done) if isinstance(each, Item) else each


def _talks(read: Iterator[Read]) -> Iterator[list[Read]]:
    """What is read in one piece for each session; lines that are not stored go with those before them."""
    talk: list[Read] = []
    session: str | None = None
    for each in read:
        if isinstance(each, Item):
            if session is not None and each.session != session:
                yield talk
                talk = []
            session = each.session
        talk.append(each)
    if talk:
        yield talk


def _begun(talk: list[Read]) -> int:
    """When the first message of a conversation was said; what has no time comes first."""
    times = [each.given.get("created_at") for each in talk if isinstance(each, Item)]
    return min((time for time in times if isinstance(time, int)), default=0)
