"""What must hold when several processes write, when one is killed, and when a store is reopened."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess

import pytest

from recollect.errors import Conflict, Unavailable
from recollect.filters import Filter, Reach
from recollect.records import Changes, new_id
from recollect.stores.contract import DURABLE, SHARED, LeaseLost, Store
from recollect.testing.conformance.stage import (
    ANN,
    BOB,
    LEASE_MS,
    LEASE_S,
    NOW,
    Reader,
    Stage,
    enqueue,
    ids_of,
    listed,
    mark_of,
    message,
    one,
    opened,
    put,
    require,
    work,
)
from recollect.testing.faults import start

PROCESS_LIMIT_S = 90
KILLED = 9


class Killed(BaseException):
    """Stands in for the death of a process where a store cannot be shared with another process."""


class ProcessConformance(Stage):
    """Readers, writers and workers in processes of their own; kills, cancelled calls, closing."""

    async def test_a_reader_that_polls_while_four_processes_write_ends_equal_to_a_full_read(
        self, store: Store, store_url: str
    ) -> None:
        require(store, SHARED)
        writers = [start(_write_at_random, store_url, seed) for seed in range(4)]
        reader = Reader()
        while any(writer.is_alive() for writer in writers):
            await reader.turn_page(store)
            await asyncio.sleep(0.001)
        assert [writer.exitcode for writer in writers] == [0] * 4
        mark = await reader.catch_up(store)
        fresh = Reader()
        await fresh.catch_up(store)
        everything = {record.id: record for record in await listed(store, Filter(ANN))}
        assert reader.held == fresh.held == everything
        counts = [await one(store, f"count{seed}", BOB) for seed in range(4)]
        assert mark.revision == sum(int(count.content) for count in counts), "one revision for each commit"

    async def test_of_four_workers_with_random_kills_every_job_has_one_effect_and_none_is_left(
        self, store: Store, store_url: str
    ) -> None:
        names = [f"j{n}" for n in range(40)]
        await put(store, message("source"))
        await enqueue(store, *(work(name, refs=("source",)) for name in names))
        for turn in range(2):
            now = NOW + turn * LEASE_MS
            if SHARED in store.abilities:
                workers = [start(_work_until_killed, store_url, now, turn * 4 + n) for n in range(4)]
                assert {await _ended(worker) for worker in workers} <= {0, KILLED}
            else:
                tasks = (_work(store, now, random.Random(turn * 4 + n), _raise_killed) for n in range(4))
                await asyncio.gather(*(_until_killed(task) for task in tasks))
        await _work(store, NOW + 2 * LEASE_MS, None, _raise_killed)
        effects = Counter(record.content for record in await listed(store, Filter(ANN, ("fact",))))
        assert effects == Counter(names)
        assert not await store.claim(NOW + 9 * LEASE_MS, LEASE_S, 100)

    async def test_a_job_is_claimable_after_a_crash_right_after_its_commit(self, store: Store, store_url: str) -> None:
        require(store, DURABLE)
        await store.close()
        assert await _ended(start(_commit_and_die, store_url)) == KILLED
        async with opened(store_url) as again:
            assert ids_of(await listed(again, Filter(ANN))) == ["a"]
            (job,) = await again.claim(NOW, LEASE_S, 10)
            assert (job.id, job.refs, job.attempt) == ("j", ("a",), 1)

    async def test_a_cancelled_commit_is_whole_or_absent_and_the_store_works_on(self, store: Store) -> None:
        for turn in range(40):
            records = tuple(message(f"{turn} {n}", "x" * 2_000) for n in range(20))
            changes = Changes(ANN, put=records, enqueue=(work(f"j{turn}"),), key=f"key {turn}")
            call = asyncio.create_task(store.commit(changes, NOW))
            for _ in range(turn % 5):
                await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            found = len(await store.get(ANN, ids_of(records), NOW))
            assert found in (0, 20)
            await store.commit(changes, NOW)
            assert len(await store.get(ANN, ids_of(records), NOW)) == 20
        assert (await mark_of(store)).revision == 40, "the retry with the same key wrote nothing twice"
        assert len(await store.claim(NOW, LEASE_S, 100)) == 40

    async def test_a_cancelled_read_or_claim_leaves_the_store_working(self, store: Store) -> None:
        await put(store, message("a"))
        await enqueue(store, work("j"))
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.get(ANN, ["a"], NOW),
            lambda: store.list(Filter(ANN), NOW),
            lambda: store.changes(ANN, None),
            lambda: store.claim(NOW, LEASE_S, 1),
        ]
        for turn in range(20):
            call = asyncio.ensure_future(calls[turn % 4]())
            await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
        assert ids_of(await listed(store, Filter(ANN))) == ["a"]
        assert len(await store.claim(NOW + LEASE_MS, LEASE_S, 1)) == 1, "a job whose claim was lost is found again"

    async def test_after_close_calls_fail_cleanly(self, store: Store) -> None:
        await put(store, message("a"))
        await store.close()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: put(store, message("b")),
            lambda: store.get(ANN, ["a"], NOW),
            lambda: store.list(Filter(ANN), NOW),
            lambda: store.changes(ANN, None),
            lambda: store.search(Reach("acme"), text="a", vector=None, limit=1, now=NOW),
            lambda: store.claim(NOW, LEASE_S, 1),
            lambda: store.forget(Filter(ANN), NOW),
            lambda: store.forget(Filter(ANN, session="s1"), NOW),
            lambda: store.forget(Filter(ANN, dead_before=NOW), NOW),
            store.partitions,
            lambda: store.survey(NOW),
        ]
        for call in calls:
            with pytest.raises(Unavailable):
                await call()
        await store.close()

    async def test_what_was_acknowledged_is_there_after_reopening(self, store: Store, store_url: str) -> None:
        require(store, DURABLE)
        keyed = Changes(ANN, put=(message("a"),), enqueue=(work("j"), work("k")), key="once")
        await store.commit(keyed, NOW)
        (leased, _) = await store.claim(NOW, LEASE_S, 10)
        await put(store, message("b"))
        mark = await mark_of(store)
        await store.close()
        async with opened(store_url) as again:
            assert ids_of(await listed(again, Filter(ANN))) == ["a", "b"]
            assert await mark_of(again) == mark
            assert await again.commit(keyed, NOW) == 1
            await again.commit(Changes(ANN, finish=(leased,)), NOW)
            assert len(await again.claim(NOW + LEASE_MS, LEASE_S, 10)) == 1

    async def test_closing_finishes_what_was_handed_over(self, store: Store, store_url: str) -> None:
        require(store, DURABLE)
        calls = [asyncio.create_task(put(store, message(f"m{n}"))) for n in range(50)]
        await asyncio.sleep(0)
        await store.close()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        kept = [f"m{n}" for n, answer in enumerate(answers) if isinstance(answer, int)]
        assert all(isinstance(answer, int | Unavailable) for answer in answers)
        async with opened(store_url) as again:
            assert sorted(ids_of(await listed(again, Filter(ANN)))) == sorted(kept)


# ── what the other processes do ──────────────────────────────────────────────────────────────────


async def _ended(process: BaseProcess) -> int | None:
    await asyncio.to_thread(process.join, PROCESS_LIMIT_S)
    return process.exitcode


async def _write_at_random(url: str, seed: int) -> None:
    """Put, put back and drop the same records as the other writers; count the commits that changed something."""
    chance = random.Random(seed)
    async with opened(url) as store:
        await put(store, message(f"count{seed}", "0", BOB))
        for turn in range(60):
            names = chance.sample([f"m{n}" for n in range(30)], chance.randint(1, 5))
            living = {record.id: record for record in await store.get(ANN, names, NOW)}
            touched = [name for name in names if chance.random() < 0.7]
            changed = [living.get(name, message(name)).with_(content=f"{seed} {turn}") for name in touched]
            gone = tuple(set(living) - {record.id for record in changed})
            try:
                changes = Changes(ANN, put=tuple(changed), drop=gone, needs=gone)
                if changed or gone:
                    await store.commit(changes, NOW)
                    count = await one(store, f"count{seed}", BOB)
                    await put(store, count.with_(content=str(int(count.content) + 1)))
            except Conflict:
                continue


async def _commit_and_die(url: str) -> None:
    async with opened(url) as store:
        await store.commit(Changes(ANN, put=(message("a"),), enqueue=(work("j", refs=("a",)),)), NOW)
        _die()


async def _work_until_killed(url: str, now: int, seed: int) -> None:
    async with opened(url) as store:
        await _work(store, now, random.Random(seed), _die)


def _die() -> None:
    """End this process as a kill does: no handler runs, no connection is closed."""
    os._exit(KILLED)


def _raise_killed() -> None:
    raise Killed


async def _until_killed(task: Awaitable[None]) -> None:
    with suppress(Killed):
        await task


async def _work(store: Store, now: int, chance: random.Random | None, die: Callable[[], None]) -> None:
    """Do all due jobs; given a `chance`, perhaps die after a claim, in the middle of a commit or after it."""

    def perhaps_die() -> None:
        if chance is not None and chance.random() < 0.08:
            die()

    while jobs := await store.claim(now, LEASE_S, 1):
        (job,) = jobs
        perhaps_die()
        # A fresh id for each try: only the attempt prevents a second effect.
        effect = message(new_id(now), job.id, layer="fact")
        changes = Changes(ANN, put=(effect,), finish=(job,), needs=job.refs, key=f"{job.id}:{job.attempt}")
        writing = asyncio.create_task(store.commit(changes, now))
        await asyncio.sleep(0)
        perhaps_die()
        with suppress(LeaseLost):
            await writing
        perhaps_die()
