"""How many round trips a verb needs: as many for a user with much data as for one with little."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module

import pytest

from recollect import Memory
from recollect.filters import Filter
from recollect.index import PartitionIndex
from recollect.stores.contract import Store
from recollect.testing.conformance.stage import ANN, NOW, message, put
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.proxy import Proxy
from recollect.testing.stores import fresh_url
from recollect.user import User

KINDS = [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in ("postgresql", "redis", "cosmos")]
CALLS = 4
Verb = Callable[[User], Awaitable[object]]
VERBS: dict[str, Verb] = {
    "the last 50 messages": lambda ann: ann.session("s").window(messages=50),
    "the newest memories": lambda ann: ann.list_memories(limit=20, newest_first=True),
    "the sessions": lambda ann: ann.sessions(limit=10),
    "a search": lambda ann: ann.search_memory("Where is the kettle?"),
    "a context": lambda ann: ann.session("s").get_context("Where is the kettle?"),
    "the profile": lambda ann: ann.profile(),
}
TRIPS = {
    "postgresql": (1, 1, 1, 2, 2, 3),
    "redis": (1, 1, 1, 1, 1, 3),  # concurrent requests are sent together
    "cosmos": (2, 2, 1, 3, 3, 4),  # a list reads the partition's head first; an org without records may be erased
}
"""Round trips of each verb for a user whose index is held; a search and a context query both user and org."""


@asynccontextmanager
async def beside(kind: str) -> AsyncIterator[tuple[Proxy, Memory]]:
    """A memory on a server, and the proxy in front of it."""
    with fresh_url(kind) as url:
        port = re.search(r"127\.0\.0\.1:(\d+)", url)
        if port is None:
            pytest.skip("the server is elsewhere")
        async with Proxy(int(port[1])) as way:
            there = url.replace(port[0], f"127.0.0.1:{way.port}")
            async with Memory.open(there, embedder=HashingEmbedder(), worker=False) as memory:
                yield way, memory


async def tell(memory: Memory, start: int, end: int) -> None:
    """Store a lot, and let it be enriched."""
    ann = memory.user("ann")
    said = [{"role": "user", "content": f"The kettle number {n} is in room {n}."} for n in range(start, end)]
    await ann.session("s").add_messages(said)
    await ann.add_memories([f"The lamp number {n} is in room {n}." for n in range(start, end)])
    for n in range(start, end, 10):
        await ann.add_fact(f"room_{n}", f"blue {n}")
    await memory.work()


async def trips_of(way: Proxy, ann: User, verb: Verb) -> int:
    """Round trips once the index is loaded, connections are open and the server knows its scripts and statements."""
    seen = []
    for _ in range(CALLS):
        before, *_ = way.traffic.so_far
        await verb(ann)
        after, *_ = way.traffic.so_far
        seen.append(after - before)
    return min(seen)


@pytest.mark.parametrize("kind", KINDS)
async def test_reading_takes_the_same_few_round_trips_however_much_the_user_has(kind):
    async with beside(kind) as (way, memory):
        ann = memory.user("ann")
        for start, end in ((0, 30), (30, 110)):
            await tell(memory, start, end)
            seen = {name: await trips_of(way, ann, verb) for name, verb in VERBS.items()}
            assert seen == dict(zip(VERBS, TRIPS[kind], strict=True))


async def received_by(way: Proxy, call: Awaitable[object]) -> int:
    """The bytes that came back for a call."""
    *_, before = way.traffic.so_far
    await call
    *_, after = way.traffic.so_far
    return after - before


@pytest.mark.parametrize("kind", KINDS[:2])
async def test_a_page_filtered_by_metadata_does_not_transfer_everything_else(kind):
    async with beside(kind) as (way, memory):
        ann = memory.user("ann")
        for start in range(0, 400, 80):
            items = [{"content": f"Lamp {n}. " * 20, "metadata": {"topic": f"t{n}"}} for n in range(start, start + 80)]
            await ann.add_memories(items)
        await memory.work()
        everything = await received_by(way, ann.list_memories(limit=400))
        where = {"metadata.topic": {"in": ["t7", "t399"]}}
        assert await received_by(way, ann.list_memories(where=where)) < everything / 4
        found, _ = await ann.list_memories(where=where)
        assert [memory.content[:9] for memory in found] == ["Lamp 7. L", "Lamp 399."]


@pytest.mark.parametrize("kind", KINDS)
async def test_pages_over_many_layers_transfer_each_record_once(kind):
    layers = ("conversation", "long_term", "fact", "learning", "entity")

    async def walk(store: Store, where: Filter) -> list[str]:
        ids: list[str] = []
        after: str | None = None
        while after is not None or not ids:
            page = await store.list(where, NOW, limit=50, after=after)
            ids += [record.id for record in page.records]
            after = page.after
        return ids

    async with beside(kind) as (way, memory):
        store = memory._flow.ledger.store
        for start in range(0, 300, 60):
            made = [message(f"m{n}", "hello " * 50, layer=layers[n % 5]) for n in range(start, start + 60)]
            await put(store, *made)
        everything = await received_by(way, walk(store, Filter(ANN)))
        assert await received_by(way, walk(store, Filter(ANN, layers=layers))) < 1.2 * everything
        assert await walk(store, Filter(ANN, layers=layers)) == [f"m{n}" for n in range(300)]


@pytest.mark.parametrize("kind", KINDS)
async def test_records_are_read_from_the_server_in_one_piece_of_the_loop_and_used_in_another(kind, monkeypatch):
    turn, turns = 0, {}

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(owner: object, name: str) -> None:
        function = getattr(owner, name)

        def call(*given: object) -> object:
            turns[name] = turn
            return function(*given)

        monkeypatch.setattr(owner, name, call)

    async with beside(kind) as (_, memory):
        await tell(memory, 0, 90)
        partition = memory.user("ann")._scope.partition
        memory._flow.indexes.drop(partition)
        driver = import_module(type(memory._flow.ledger.store).__module__)
        noted(driver, "records_of" if kind == "cosmos" else "_records")
        noted(PartitionIndex, "apply")
        waiting = asyncio.create_task(others())
        await memory._flow.indexes.current(partition)
        waiting.cancel()
    read, used = turns.values()
    assert read < used
