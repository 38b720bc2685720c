"""Move many memories from one store to another, and prove by counts and checksums that all of them arrived.

    python -m recollect.testing.moving                                       100,000 from SQLite to PostgreSQL
    python -m recollect.testing.moving --memories 2000 --into redis

The memories are made up, with vectors and metadata, for many users. The two sides are read and
compared the way `recollect copy` does it, user by user; then by questions, which both must answer alike.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.copying import Copying
from recollect.memory import Memory
from recollect.providers import embed_checked
from recollect.records import Changes, Partition, Record, Scope, system_clock
from recollect.stores import open_store
from recollect.stores.contract import Store
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.stores import KINDS, fresh_url

USERS = 200
BATCH = 90
QUESTIONS = 20
TEXT = "Memory {n} of user {user}: parcel {n} goes to {place} on the {day}th, by {way}."
PLACES, WAYS = ("Bergen", "Oslo", "Trondheim", "Narva", "Porto"), ("train", "ship", "bicycle")


@dataclass(frozen=True, slots=True)
class Moved:
    """The outcome of a move: counts of both sides, a checksum over all partitions of each, and the answers."""

    records: int
    copied: int
    partitions: int
    not_verified: int
    checksum: str
    target_checksum: str
    same_answers: int
    seconds: float

    @property
    def is_whole(self) -> bool:
        equal = self.checksum == self.target_checksum and self.same_answers == QUESTIONS
        return equal and self.records == self.copied and not self.not_verified

    def __str__(self) -> str:
        return (
            f"{self.records:,} records of {self.partitions} users, {self.copied:,} copied in {self.seconds:.0f} s\n"
            f"checksum of the source {self.checksum}\nchecksum of the target {self.target_checksum}\n"
            f"{self.not_verified} users differ; {self.same_answers} of {QUESTIONS} questions answered alike"
        )


async def move(source: str, target: str, memories: int, users: int = USERS) -> Moved:
    """Fill a store, copy it into another, and compare."""
    old, new = await open_store(source), await open_store(target)
    try:
        await fill(old, memories, users)
        began = time.monotonic()
        done = [each async for each in Copying(old, new).run()]
        seconds = time.monotonic() - began
    finally:
        await old.close()
        await new.close()
    return Moved(
        records=sum(each.records for each in done),
        copied=sum(each.copied for each in done),
        partitions=len(done),
        not_verified=sum(not each.verified for each in done),
        checksum=_checksum([each.digest for each in done]),
        target_checksum=_checksum([each.target_digest for each in done]),
        same_answers=await _same_answers(source, target),
        seconds=seconds,
    )


async def fill(store: Store, memories: int, users: int) -> None:
    """Put this many memories into a store, as they are after enrichment."""
    embedder = HashingEmbedder()
    for user in range(users):
        texts = [_text(user, n) for n in range(user, memories, users)]
        for start in range(0, len(texts), BATCH):
            some = texts[start : start + BATCH]
            vectors = await embed_checked(embedder, some)
            put = tuple(
                Record(f"m{start + place}", "long_term", Scope("acme", f"user{user}"), text, metadata={"place": place},
                       importance=0.5, created_at=system_clock(), vector=vector)
                for place, (text, vector) in enumerate(zip(some, vectors, strict=True))
            )  # fmt: skip
            await store.commit(Changes(Partition("acme", f"user{user}"), put=put), system_clock())


def _text(user: int, n: int) -> str:
    return TEXT.format(n=n, user=user, place=PLACES[n % 5], day=n % 28 + 1, way=WAYS[n % 3])


def _checksum(digests: Sequence[str]) -> str:
    return hashlib.blake2b("".join(digests).encode(), digest_size=8).hexdigest()


async def _same_answers(source: str, target: str) -> int:
    """How many questions both stores answer with the same records and the same scores, in the same order."""
    answers: list[list[Any]] = []
    at = system_clock()
    for url in (source, target):
        async with Memory.open(url, embedder=HashingEmbedder(), worker=False) as memory:
            answers.append([
                [(hit.id, round(hit.score, 5)) for hit in hits]
                for number in range(QUESTIONS)
                for hits in [await memory.user(f"user{number}", org="acme").search_memory(_text(number, 7), at=at)]
            ])  # fmt: skip
    return sum(first == second and bool(first) for first, second in zip(*answers, strict=True))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.moving", description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--into", default="postgresql", choices=[kind for kind in KINDS if kind != "memory"])
    chosen = parser.parse_args(given)
    with fresh_url("sqlite") as source, fresh_url(chosen.into) as target:
        moved = asyncio.run(move(source, target, chosen.memories))
    print(moved)
    return not moved.is_whole


if __name__ == "__main__":
    sys.exit(main())
