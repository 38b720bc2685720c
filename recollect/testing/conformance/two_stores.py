"""Work that spans two stores has each effect once, wherever it is killed.

No transaction joins two stores, so the order of five steps takes its place: claim at home, read the other
partition's epoch, read the sources, commit there under the job's id, finish at home.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from recollect.errors import Conflict
from recollect.filters import Filter
from recollect.records import Changes, Partition, new_id
from recollect.stores.contract import LeaseLost, Store, forget_whole
from recollect.testing.conformance.stage import ANN, LEASE_MS, LEASE_S, NOW, Stage, listed, mark_of, message, work

THERE = Partition("acme", "ann elsewhere")
STEPS = (1, 2, 3, 4, 5)


class TwoStoreConformance(Stage):
    """The rule for `routed` layers, org-wide records and indexes, followed step by step."""

    async def test_killed_between_two_stores_at_any_step_each_effect_happens_once(
        self, store: Store, other: Store
    ) -> None:
        for step in STEPS:
            await _tell(store, f"job {step}")
            await _run(store, other, NOW, "an answer", killed_after=step)
        await _run(store, other, NOW + LEASE_MS, "an answer")
        effects = [record.content for record in await listed(other, Filter(THERE))]
        assert sorted(effects) == [f"job {step}: an answer" for step in STEPS]
        assert not await store.claim(NOW + 9 * LEASE_MS, LEASE_S, 10)

    async def test_killed_many_times_each_effect_still_happens_once(self, store: Store, other: Store) -> None:
        await _tell(store, "job")
        for turn, step in enumerate((1, 4, 2, 4, 3, 4)):
            await _run(store, other, NOW + turn * LEASE_MS, f"answer {turn}", killed_after=step)
        await _run(store, other, NOW + 6 * LEASE_MS, "the last answer")
        assert [record.content for record in await listed(other, Filter(THERE))] == ["job: answer 1"]

    async def test_forgotten_sources_have_no_effect_in_the_other_store_whenever_they_are_forgotten(
        self, store: Store, other: Store
    ) -> None:
        for step in STEPS:
            await _tell(store, f"job {step}")
            running = _work(store, other, NOW, "an answer")
            async with aclosing(running):
                async for done in running:
                    if done == step:
                        await forget_whole(store, ANN, NOW)
                        await forget_whole(other, THERE, NOW)
            assert await listed(other, Filter(THERE)) == [], f"forgotten after step {step}, worker goes on"
            assert not await store.claim(NOW + LEASE_MS, LEASE_S, 10)

    async def test_forgotten_sources_have_no_effect_when_the_worker_was_killed_before(
        self, store: Store, other: Store
    ) -> None:
        for step in STEPS:
            await _tell(store, f"job {step}")
            await _run(store, other, NOW, "an answer", killed_after=step)
            await forget_whole(store, ANN, NOW)
            await forget_whole(other, THERE, NOW)
            await _run(store, other, NOW + LEASE_MS, "an answer")
            assert await listed(other, Filter(THERE)) == [], f"killed after step {step}"

    async def test_a_forget_killed_between_two_stores_is_ended_by_calling_it_again(
        self, store: Store, other: Store
    ) -> None:
        await _tell(store, "job")
        await _run(store, other, NOW, "an answer", killed_after=4)
        await forget_whole(store, ANN, NOW)
        await _run(store, other, NOW + LEASE_MS, "another answer")
        for home, partition in ((store, ANN), (other, THERE)):
            await forget_whole(home, partition, NOW)
        assert await listed(other, Filter(THERE)) == []

    async def test_a_second_attempt_with_another_answer_adds_nothing_in_the_other_store(
        self, store: Store, other: Store
    ) -> None:
        await _tell(store, "job")
        await _run(store, other, NOW, "first", killed_after=4)
        await _run(store, other, NOW + LEASE_MS, "second")
        assert [record.content for record in await listed(other, Filter(THERE))] == ["job: first"]
        assert not await store.claim(NOW + 2 * LEASE_MS, LEASE_S, 10)


async def _tell(home: Store, job: str) -> None:
    """Commit a message and the job that rests on it."""
    source = message(new_id(NOW))
    await home.commit(Changes(ANN, put=(source,), enqueue=(work(job, refs=(source.id,)),)), NOW)


async def _run(home: Store, away: Store, now: int, answer: str, killed_after: int | None = None) -> None:
    """Let a worker run, to its end or until it is killed after a step."""
    running = _work(home, away, now, answer)
    async with aclosing(running):
        async for step in running:
            if step == killed_after:
                return


async def _work(home: Store, away: Store, now: int, answer: str) -> AsyncGenerator[int, None]:
    """The five steps for every due job; yields the number of each step after it."""
    for job in await home.claim(now, LEASE_S, 10):
        yield 1
        epoch = (await mark_of(away, THERE)).epoch
        yield 2
        sources = await home.get(job.partition, job.refs, now)
        yield 3
        # A fresh id each time, as when a model answers: only the key can tell a second try from the first.
        effects = tuple(message(new_id(now), f"{job.id}: {answer}", THERE) for _ in sources)
        try:
            await away.commit(Changes(THERE, put=effects, key=job.id, epoch=epoch), now)
        except Conflict as conflict:
            if conflict.field == "epoch":
                return
            assert conflict.field == "key", "anything else would be another worker's effect"
        yield 4
        try:
            await home.commit(Changes(job.partition, finish=(job,), needs=job.refs, key=f"{job.id}:{job.attempt}"), now)
        except LeaseLost:
            return
        yield 5
