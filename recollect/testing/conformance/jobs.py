"""A job is done once: clocks decide when it is offered, its attempt decides who may finish it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from recollect.filters import Filter
from recollect.records import DAY_MS, Changes, Job, Partition
from recollect.stores.contract import LeaseLost, Store
from recollect.testing.conformance.stage import (
    ANN,
    LEASE_MS,
    LEASE_S,
    NOW,
    Stage,
    enqueue,
    ids_of,
    listed,
    mark_of,
    message,
    one,
    put,
    refused,
    work,
)


class JobConformance(Stage):
    """`claim`, and the `enqueue` and `finish` of a commit."""

    async def test_a_claimed_job_is_hidden_until_its_lease_ends_then_offered_with_the_next_attempt(
        self, store: Store, second: Store
    ) -> None:
        await enqueue(store, Job("j", ANN, "extract", ("a", "b"), NOW))
        (first,) = await store.claim(NOW, LEASE_S, 10)
        assert first == Job("j", ANN, "extract", ("a", "b"), NOW + LEASE_MS, 1)
        assert not await second.claim(NOW + LEASE_MS - 1, LEASE_S, 10)
        (again,) = await second.claim(NOW + LEASE_MS, LEASE_S, 10)
        assert (again.id, again.attempt) == ("j", 2)

    async def test_a_lease_may_last_a_part_of_a_second(self, store: Store) -> None:
        await enqueue(store, work("j"))
        (job,) = await store.claim(NOW, 1.25, 10)
        assert job.due_at == NOW + 1_250
        assert not await store.claim(NOW + 1_249, 0.005, 10)
        assert [job.due_at for job in await store.claim(NOW + 1_250, 0.005, 10)] == [NOW + 1_255]

    async def test_a_late_worker_writes_nothing(self, store: Store, second: Store) -> None:
        await put(store, message("a"))
        await enqueue(store, work("j"), work("next"))
        slow = next(job for job in await store.claim(NOW, LEASE_S, 2) if job.id == "j")
        fast = next(job for job in await second.claim(NOW + LEASE_MS, LEASE_S, 2) if job.id == "j")
        late = Changes(ANN, (message("tea"),), ("a",), (work("more"),), (slow,), key="j:1")
        with refused(LeaseLost, "finish"):
            await store.commit(late, NOW + LEASE_MS)
        assert ids_of(await listed(store, Filter(ANN))) == ["a"]
        await second.commit(Changes(ANN, put=(message("coffee"),), finish=(fast,), key="j:2"), NOW + LEASE_MS)
        with refused(LeaseLost, "finish"):
            await store.commit(late, NOW + LEASE_MS)
        assert ids_of(await listed(store, Filter(ANN))) == ["a", "coffee"]
        assert job_ids(await store.claim(NOW + DAY_MS, LEASE_S, 10)) == ["next"]

    async def test_a_lease_that_ran_out_but_was_not_taken_may_still_finish(self, store: Store) -> None:
        await enqueue(store, work("j"))
        (job,) = await store.claim(NOW, LEASE_S, 1)
        await store.commit(Changes(ANN, put=(message("late"),), finish=(job,)), NOW + DAY_MS)
        assert (await one(store, "late")).version == 1
        assert not await store.claim(NOW + 2 * DAY_MS, LEASE_S, 1)

    async def test_a_job_is_claimable_as_soon_as_its_commit_has_returned(self, store: Store, second: Store) -> None:
        for turn in range(10):
            await store.commit(Changes(ANN, put=(message(f"m{turn}"),), enqueue=(work(f"j{turn}"),)), NOW)
            assert job_ids(await second.claim(NOW, LEASE_S, 10)) == [f"j{turn}"]

    async def test_of_many_workers_that_ask_at_once_each_job_goes_to_one(self, store: Store, second: Store) -> None:
        await enqueue(store, *(work(f"j{n}") for n in range(40)))
        answers = await asyncio.gather(*(each.claim(NOW, LEASE_S, 7) for _ in range(5) for each in (store, second)))
        taken = [job.id for jobs in answers for job in jobs]
        assert sorted(taken) == sorted(f"j{n}" for n in range(40))
        assert all(len(jobs) <= 7 for jobs in answers)

    async def test_a_job_due_later_is_not_offered_now(self, store: Store) -> None:
        await enqueue(store, work("later", due_at=NOW + 100), work("now"))
        assert job_ids(await store.claim(NOW + 99, LEASE_S, 10)) == ["now"]
        assert job_ids(await store.claim(NOW + 100, LEASE_S, 10)) == ["later"]

    async def test_a_job_put_off_is_offered_then_and_its_old_attempt_is_over(self, store: Store) -> None:
        await enqueue(store, work("j", refs=("a",)))
        (job,) = await store.claim(NOW, LEASE_S, 1)
        later = replace(job, due_at=NOW + DAY_MS)
        await store.commit(Changes(ANN, enqueue=(later,), finish=(job,), key="j:1"), NOW)
        assert not await store.claim(NOW + DAY_MS - 1, LEASE_S, 1)
        (again,) = await store.claim(NOW + DAY_MS, LEASE_S, 1)
        assert (again.id, again.refs, again.attempt) == ("j", ("a",), 2)
        with refused(LeaseLost, "finish"):
            await store.commit(Changes(ANN, finish=(job,)), NOW + DAY_MS)

    async def test_a_worker_that_is_still_at_it_can_extend_its_lease(self, store: Store, second: Store) -> None:
        await enqueue(store, work("j"))
        (job,) = await store.claim(NOW, LEASE_S, 1)
        for beat in range(1, 4):
            longer = replace(job, due_at=NOW + (beat + 1) * LEASE_MS)
            await store.commit(Changes(ANN, enqueue=(longer,), finish=(job,)), NOW + beat * LEASE_MS - 1)
            assert not await second.claim(NOW + (beat + 1) * LEASE_MS - 1, LEASE_S, 1)
        await store.commit(Changes(ANN, put=(message("done"),), finish=(job,)), NOW + 4 * LEASE_MS)
        assert not await second.claim(NOW + DAY_MS, LEASE_S, 1)
        assert (await one(store, "done")).version == 1

    async def test_a_worker_that_lost_its_lease_cannot_extend_it(self, store: Store, second: Store) -> None:
        await enqueue(store, work("j"))
        (slow,) = await store.claim(NOW, LEASE_S, 1)
        (fast,) = await second.claim(NOW + LEASE_MS, LEASE_S, 1)
        with refused(LeaseLost, "finish"):
            longer = replace(slow, due_at=NOW + DAY_MS)
            await store.commit(Changes(ANN, enqueue=(longer,), finish=(slow,)), NOW + LEASE_MS)
        await second.commit(Changes(ANN, finish=(fast,)), NOW + LEASE_MS)

    async def test_a_job_that_is_there_is_not_enqueued_twice(self, store: Store) -> None:
        await enqueue(store, work("j"))
        (job,) = await store.claim(NOW, LEASE_S, 1)
        await enqueue(store, Job("j", ANN, "other", ("z",), NOW - 1))
        assert not await store.claim(NOW, LEASE_S, 1)
        (again,) = await store.claim(NOW + LEASE_MS, LEASE_S, 1)
        assert (again.kind, again.attempt) == (job.kind, 2)

    async def test_a_finished_job_may_be_enqueued_anew(self, store: Store) -> None:
        await enqueue(store, work("j"))
        (job,) = await store.claim(NOW, LEASE_S, 1)
        await store.commit(Changes(ANN, finish=(job,), enqueue=(work("j"), work("k"))), NOW)
        again = await store.claim(NOW, LEASE_S, 10)
        assert sorted((job.id, job.attempt) for job in again) == [("j", 1), ("k", 1)]

    async def test_a_job_that_was_never_claimed_can_be_taken_back(self, store: Store) -> None:
        await enqueue(store, work("j"))
        await store.commit(Changes(ANN, finish=(work("j"),)), NOW)
        assert not await store.claim(NOW, LEASE_S, 1)

    async def test_claiming_moves_no_revision(self, store: Store) -> None:
        await store.commit(Changes(ANN, put=(message("a"),), enqueue=(work("j"),)), NOW)
        mark = await mark_of(store)
        await store.claim(NOW, LEASE_S, 1)
        assert await mark_of(store) == mark

    async def test_jobs_of_many_partitions_are_all_found(self, store: Store) -> None:
        partitions = [Partition(f"org{n % 7}", f"user{n}") for n in range(70)]
        for partition in partitions:
            await enqueue(store, work("j", partition))
        found: list[Partition] = []
        for _ in range(len(partitions)):
            jobs = await store.claim(NOW, LEASE_S, 9)
            found += [job.partition for job in jobs]
            if not jobs:
                break
        assert sorted(found) == sorted(partitions)

    async def test_no_job_starves_behind_a_partition_that_never_rests(self, store: Store) -> None:
        quiet = [Partition("acme", f"quiet{n}") for n in range(10)]
        for partition in quiet:
            await enqueue(store, work("j", partition, due_at=NOW + 50))
        served: set[Partition] = set()
        for turn in range(100):
            await enqueue(store, *(work(f"{turn} {n}", due_at=NOW + turn) for n in range(3)))
            for job in await store.claim(NOW + turn, LEASE_S, 4):
                served.add(job.partition)
                await store.commit(Changes(job.partition, finish=(job,)), NOW + turn)
        assert served == {ANN, *quiet}


def job_ids(jobs: Sequence[Job]) -> list[str]:
    return [job.id for job in jobs]
