"""A Redis Cluster loses a master under load: what was acknowledged is there, or is counted as lost.

    python -m recollect.testing.failover            killed and frozen, without and with waiting for replicas
    python -m recollect.testing.failover valkey     the same with a Cluster of Valkey

A journal of what was acknowledged is kept outside the servers and compared at the end: lost
(acknowledged, gone), phantom (never sent), half (a message without its job), double.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from redis.crc import key_slot

from recollect.errors import Unavailable
from recollect.filters import Filter
from recollect.records import Changes, Job, Partition, Record, Scope
from recollect.stores import open_store
from recollect.stores.contract import Store
from recollect.testing.servers.redis import RedisCluster

NOW = 1_800_000_000_000
ANN = Partition("acme", "ann")
WRITERS = 8
AWAY_S = 30.0
"""How long a lost master stays away at most: until another has taken its place, and a second more."""
LOST_WINDOW_S = 2.0
"""A commit that was acknowledged longer than this before the loss is not lost with its master."""
TROUBLES = (("killed", 0), ("killed", 1), ("frozen", 0))
"""What happens to the master, and how many replicas a commit waits for."""


def message(id: str, content: str = "hello", partition: Partition = ANN) -> Record:
    return Record(id, "conversation", Scope(*partition, session="s1"), content)


@asynccontextmanager
async def opened(url: str, patience_s: float = 10.0) -> AsyncIterator[Store]:
    store = await open_store(url, busy_timeout_s=patience_s)
    try:
        yield store
    finally:
        await store.close()


@dataclass
class Journal:
    """What was sent and what was acknowledged, and when."""

    sent: set[str] = field(default_factory=set)
    acknowledged: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    longest_s: float = 0.0

    async def write(self, store: Store, until: asyncio.Event, writer: int) -> None:
        """Write messages, each with its job, until told to stop."""
        partition = Partition("acme", f"writer {writer}")
        number = 0
        while not until.is_set():
            number += 1
            id = f"{writer}.{number}"
            self.sent.add(id)
            job = Job(f"job {id}", partition, "enrich", (id,), NOW)
            changes = Changes(partition, put=(message(id, partition=partition),), enqueue=(job,), key=id)
            begun = time.monotonic()
            try:
                await store.commit(changes, NOW)
                self.acknowledged[id] = time.monotonic()
            except Unavailable:
                self.refused += 1
            self.longest_s = max(self.longest_s, time.monotonic() - begun)

    async def compare(self, store: Store) -> dict[str, list[str]]:
        """Compare what the store holds with what it should hold."""
        found: list[str] = []
        refs: list[str] = []
        for writer in range(WRITERS):
            found += [record.id for record in await everything(store, Partition("acme", f"writer {writer}"))]
        while jobs := await store.claim(NOW + 1, 30, 1_000):
            refs += [ref for job in jobs for ref in job.refs]
        return {
            "lost": sorted(set(self.acknowledged) - set(found)),
            "phantom": sorted(set(found) - self.sent),
            "half": sorted(set(found) ^ set(refs)),
            "double": sorted(id for id in set(found) if found.count(id) > 1),
        }


async def everything(store: Store, partition: Partition = ANN) -> list[Record]:
    found: list[Record] = []
    after = None
    while True:
        page = await store.list(Filter(partition), NOW, limit=1_000, after=after)
        found += page.records
        after = page.after
        if after is None:
            return found


@asynccontextmanager
async def under_load(store: Store) -> AsyncIterator[Journal]:
    """Writers that carry on through whatever happens in the block."""
    journal, until = Journal(), asyncio.Event()
    writing = [asyncio.create_task(journal.write(store, until, writer)) for writer in range(WRITERS)]
    try:
        await asyncio.sleep(0.3)
        yield journal
        await asyncio.sleep(0.3)
    finally:
        until.set()
        await asyncio.gather(*writing)


def slots_of(cluster: RedisCluster, pattern: str) -> list[int]:
    """The slots of existing keys."""
    found: set[int] = set()
    for server in cluster.masters():
        with server.client() as client:
            found |= {key_slot(key) for key in client.scan_iter(pattern, count=10_000)}
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a loss. `lost_before`: lost although acknowledged long before it."""

    trouble: str
    wait: int
    acknowledged: int
    lost: int
    lost_before: int
    phantom: int
    half: int
    double: int
    refused: int
    longest_s: float
    problems: list[str]

    @property
    def is_clean(self) -> bool:
        wrong = (self.lost_before, self.phantom, self.half, self.double, self.problems, self.wait and self.lost)
        return not any(wrong)

    def __str__(self) -> str:
        return (
            f"{self.trouble}, waiting for {self.wait} replicas: {self.acknowledged} acknowledged, {self.lost} lost, "
            f"{self.phantom} phantom, {self.half} half, {self.double} double, {self.refused} refused, "
            f"longest call {self.longest_s:.1f} s, {len(self.problems)} problems in the data"
        )


async def lose_a_master(cluster: RedisCluster, trouble: str, wait: int, seed: int) -> Outcome:
    """Kill or freeze a master under load, let it come back, and compare."""
    prefix = f"{trouble}-{uuid4().hex[:8]}"
    async with opened(cluster.url(prefix, wait=wait)) as store:
        async with under_load(store) as journal:
            written = slots_of(cluster, f"{prefix}:*:records:*")
            slot = random.Random(seed).choice(written)
            victim = cluster.master_of(slot)
            (victim.kill if trouble == "killed" else victim.freeze)()
            away_at = time.monotonic()
            await asyncio.to_thread(cluster.wait_until_replaced, slot, victim, AWAY_S)
            await asyncio.sleep(1)
            (victim.start if trouble == "killed" else victim.thaw)()
            await asyncio.sleep(1)
        findings = await journal.compare(store)
        lost = findings.pop("lost")
        await asyncio.to_thread(cluster.wait_until_whole)
        return Outcome(
            trouble, wait, len(journal.acknowledged), len(lost),
            sum(away_at - journal.acknowledged[id] >= LOST_WINDOW_S for id in lost),
            refused=journal.refused, longest_s=journal.longest_s, problems=list(await store.check()),
            **{name: len(ids) for name, ids in findings.items()},
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.failover", description=__doc__.splitlines()[0])
    parser.add_argument("server", nargs="?", choices=("redis", "valkey"), default="redis")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    clean = True
    with RedisCluster(chosen.server) as cluster:
        for number in range(chosen.rounds):
            for trouble, wait in TROUBLES:
                outcome = asyncio.run(lose_a_master(cluster, trouble, wait, chosen.seed + number))
                print(outcome, flush=True)
                clean = clean and outcome.is_clean
    return not clean


if __name__ == "__main__":
    sys.exit(main())
