"""How fast Recollect is on each store, beside other libraries on the same server: `make bench STORE=postgresql`.

    python benchmarks/stores.py postgresql redis cluster cosmos sqlite

The servers are real ones, started here (`recollect.testing.servers`), and all contestants on a server use it in the
same run, one after the other, round by round. On PostgreSQL the other is LangGraph's `AsyncPostgresStore`, on Redis the
`RedisSession` of the OpenAI Agents SDK; both are used as documented.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from timing import Samples, say, table

from recollect import Memory
from recollect.records import Partition
from recollect.stores import open_store
from recollect.testing.fakes import CountingStore, HashingEmbedder
from recollect.testing.stores import KINDS, fresh_url

ROUNDS = 3


@dataclass(frozen=True)
class Load:
    """Per round: how many callers, the adds of each, the adds of a single caller; and the number of questions."""

    callers: int = 32
    adds: int = 40
    alone: int = 100
    questions: int = 60


LOADS = {"cosmos": Load(callers=4, adds=5, alone=10, questions=10)}
"""The emulator is one thread of JavaScript: its figures show that everything runs, not how fast the service is."""
RIVAL = "LangGraph PostgresStore, with vectors"
AIM = 5.0
"""How many times the adds of that store Recollect aims for with 32 callers; both can then be searched by meaning."""
DIMENSIONS = 64
TEXT = "The parcel number {n} of {who} goes to the harbour of Bergen on Friday, with the tea and the violin."

Add = Callable[[str, int], Awaitable[object]]


async def rate(add: Add, start: int, callers: int, adds: int) -> tuple[float, float]:
    """Adds a second of `callers` callers, each adding one by one for its own user, and the CPU ms per add."""

    async def call(who: str) -> None:
        for n in range(start, start + adds):
            await add(who, n)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(call(f"user{number}") for number in range(callers)))
    count = callers * adds
    return count / (time.perf_counter() - began), (time.process_time() - cpu) / count * 1e3


# ── contestants ──────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def ours(url: str) -> Any:
    async with Memory.open(url, embedder=HashingEmbedder(DIMENSIONS), worker=False) as memory:
        yield memory


def ours_add(memory: Memory) -> Add:
    return lambda who, n: memory.user(who).session("s").add_message("user", TEXT.format(n=n, who=who))


@asynccontextmanager
async def langgraph(url: str, *, vectors: bool) -> Any:
    import psycopg
    from langgraph.store.postgres import AsyncPostgresStore

    embedder = HashingEmbedder(DIMENSIONS)

    async def embed(texts: list[str]) -> list[list[float]]:
        return np.asarray(await embedder.embed(texts)).tolist()

    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]} if vectors else None
    pool: Any = {"min_size": 10, "max_size": 10}  # as many connections as Recollect has
    place, schema = url.partition("?")[0].replace("recollect@", "postgres@"), f"langgraph_{'with' * vectors}"
    async with await psycopg.AsyncConnection.connect(place, autocommit=True) as admin:
        await admin.execute(f"create schema {schema}".encode())
    where = f"{place}?options=-csearch_path%3D{schema}%2Cpublic"
    async with AsyncPostgresStore.from_conn_string(where, pool_config=pool, index=index) as store:
        await store.setup()
        yield lambda who, n: store.aput(("memories", who), f"m{n}", {"text": TEXT.format(n=n, who=who)})


@asynccontextmanager
async def agents_session(url: str) -> Any:
    import redis.asyncio as redis
    from agents.extensions.memory.redis_session import RedisSession

    client = redis.Redis.from_url(url.partition("?")[0])
    sessions: dict[str, RedisSession] = {}

    async def add(who: str, n: int) -> None:
        session = sessions.setdefault(who, RedisSession(f"bench-{who}", redis_client=client))
        await session.add_items([{"role": "user", "content": TEXT.format(n=n, who=who)}])

    try:
        yield add
    finally:
        await client.aclose()


# ── what is measured ─────────────────────────────────────────────────────────────────────────────


Rates = dict[str, tuple[float, float]]
"""Name -> adds a second, and the CPU ms per add in this process."""


async def adds(kind: str, url: str, load: Load) -> dict[int, Rates]:
    """The best round of each contestant, with one caller and with many: a busy machine can only make it slower."""
    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(ours(url))
        contestants: dict[str, Add] = {"Recollect": ours_add(memory)}
        if kind == "postgresql":
            for name, vectors in (("LangGraph PostgresStore", False), (RIVAL, True)):
                contestants[name] = await stack.enter_async_context(langgraph(url, vectors=vectors))
        if kind in ("redis", "valkey"):
            contestants["OpenAI Agents RedisSession"] = await stack.enter_async_context(agents_session(url))
        best = {callers: dict.fromkeys(contestants, (0.0, 0.0)) for callers in (1, load.callers)}
        for round in range(ROUNDS):
            for name, add in contestants.items():
                say(f"{kind}: adds of {name}, round {round + 1}")
                for callers, rates in best.items():
                    count, start = (load.alone, 0) if callers == 1 else (load.adds, load.alone)
                    start += round * (load.adds + load.alone)
                    rates[name] = max(rates[name], await rate(add, start, callers, count))
        return best


async def calls(kind: str, url: str, load: Load) -> dict[str, str]:
    """What the other verbs take, on the data that `adds` left in the store."""
    say(f"{kind}: jobs, windows, searches, contexts")
    async with ours(url) as memory:
        began, cpu = time.perf_counter(), time.process_time()
        jobs = await memory.work()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        timed = {name: Samples() for name in ("window", "search", "context")}
        for n in range(load.questions):
            user = memory.user(f"user{n % load.callers}")
            chat = user.session("s")
            question = f"where does parcel number {n} go?"
            await timed["window"].measure(lambda chat=chat: chat.window(messages=50))
            await timed["search"].measure(lambda user=user, q=question: user.search_memory(q))
            await timed["context"].measure(lambda chat=chat, q=question: chat.get_context(q))
    timed["look"] = await looks(url, load)
    figures = {name: samples.figures() for name, samples in timed.items()}
    told = {name: f"{each.p50_ms:.2f} ({each.cpu_ms:.2f})" for name, each in figures.items()}
    return {"jobs/s": f"{jobs / seconds:.0f} ({cpu / jobs * 1e3:.2f})"} | told


async def looks(url: str, load: Load) -> Samples:
    """What it takes to see that nothing is new, which every search and context does twice: for the user and the org."""
    samples, partition, delta = Samples(), Partition("default", "user1"), None
    store = await open_store(url)
    try:
        while delta is None or delta.more:
            delta = await store.changes(partition, delta and delta.mark)
        for _ in range(load.questions):
            await samples.measure(lambda mark=delta.mark: store.changes(partition, mark))
    finally:
        await store.close()
    return samples


async def lookups(kind: str) -> dict[str, int]:
    """The store calls of a search by a user whose index is in memory."""
    with fresh_url(kind) as url:
        store = CountingStore(await open_store(url))
        async with Memory.open(store, embedder=HashingEmbedder(DIMENSIONS), worker=False) as memory:
            await memory.user("ann").add_memory("The tea is green.")
            await memory.work()
            await memory.user("ann").search_memory("tea")
            store.calls.clear()
            await memory.user("ann").search_memory("tea")
            return dict(store.calls)


async def measure(kind: str) -> bool:
    """Measure one store and print the results. True unless the aim was missed."""
    load = LOADS.get(kind, Load())
    with fresh_url(kind) as url:
        rates = await adds(kind, url, load)
        others = await calls(kind, url, load)
    asked = await lookups(kind)
    header = ["", "adds/s", "CPU ms per add", "Recollect does"]
    for callers, found in rates.items():
        first, _ = found["Recollect"]
        rows = [[name, f"{each:,.0f}", f"{cpu:.2f}", f"{first / each:.1f}x"] for name, (each, cpu) in found.items()]
        print(table(f"{kind}: durable adds a second, {callers} caller{'s' * (callers > 1)}", header, rows))
    header = [*(f"{name} (CPU ms)" if "/" in name else f"{name} ms (CPU)" for name in others), "calls of a search"]
    row = [*others.values(), ", ".join(f"{verb} {count}x" for verb, count in asked.items())]
    messages = ROUNDS * (load.callers * load.adds + load.alone)
    print(table(f"{kind}: other calls, p50, {messages:,} messages of {load.callers} users", header, [row]))
    missed = RIVAL in found and first < AIM * found[RIVAL][0]
    if missed:
        print(f"  missed: {AIM:g} times the adds of {RIVAL}\n")
    return not missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="*", default=["sqlite", "postgresql", "redis"], help=", ".join(KINDS))
    chosen = parser.parse_args().stores
    unknown = [kind for kind in chosen if kind not in KINDS]
    if unknown:
        parser.error(f"no such store: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    kept = [asyncio.run(measure(kind)) for kind in chosen]
    raise SystemExit(not all(kept))


if __name__ == "__main__":
    main()
