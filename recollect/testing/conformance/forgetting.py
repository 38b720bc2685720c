"""What is forgotten is gone at once, for everyone, and nothing late brings it back."""

from __future__ import annotations

import asyncio

from recollect.errors import Conflict
from recollect.filters import Filter, Test
from recollect.records import DAY_MS, Changes
from recollect.stores.contract import FORGET_ROWS, OPERATIONS_MAX, LeaseLost, Store, forget_whole, is_veil
from recollect.testing.conformance.stage import (
    ANN,
    BOB,
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
    purge,
    put,
    put_many,
    refused,
    work,
)


class ForgetConformance(Stage):
    """`forget`: a whole partition, a part of it, and stopping anywhere."""

    async def test_a_whole_forget_hides_everything_at_once_from_every_connection(
        self, store: Store, second: Store
    ) -> None:
        names = [f"m{n}" for n in range(30)]
        await put(store, *(message(id) for id in names))
        await enqueue(store, work("j"), work("k", due_at=NOW + 10))
        await put(store, message("other", partition=BOB))
        reader = Reader()
        await reader.catch_up(second)
        await listed(second, Filter(ANN))
        first = await store.forget(Filter(ANN), NOW, limit=5)
        for connection in (second, store):
            assert await connection.get(ANN, names, NOW) == []
            assert await listed(connection, Filter(ANN)) == []
            assert not await connection.claim(NOW + DAY_MS, LEASE_S, 10)
        await reader.catch_up(second)
        assert reader.held == {}
        assert (await store.survey(NOW)).records == {"conversation": 1}
        assert (await one(second, "other", BOB)).version == 1
        assert first.count == 30

    async def test_a_whole_forget_raises_the_epoch_even_of_an_empty_partition(self, store: Store) -> None:
        empty = await mark_of(store)
        assert await forget_whole(store, ANN, NOW) == 0
        once = await mark_of(store)
        assert (once.epoch, once.revision) == (empty.epoch + 1, empty.revision + 1)
        with refused(Conflict, "epoch"):
            await store.commit(Changes(ANN, put=(message("late"),), epoch=empty.epoch), NOW)
        await forget_whole(store, ANN, NOW)
        assert (await mark_of(store)).epoch == empty.epoch + 2

    async def test_late_workers_and_retries_with_a_known_key_bring_nothing_old_back(
        self, store: Store, second: Store
    ) -> None:
        told = Changes(ANN, put=(message("a", "secret"),), enqueue=(work("j", refs=("a",)),), key="told")
        answer = await store.commit(told, NOW)
        (job,) = await second.claim(NOW, LEASE_S, 1)
        read = await one(second, "a")
        epoch = (await mark_of(second)).epoch
        await forget_whole(store, ANN, NOW)
        with refused(LeaseLost, "finish"):
            await second.commit(Changes(ANN, put=(message("derived", "secret"),), finish=(job,)), NOW)
        with refused(Conflict, "epoch"):
            await second.commit(Changes(ANN, put=(message("derived", "secret"),), epoch=epoch), NOW)
        with refused(Conflict, "needs"):
            await second.commit(Changes(ANN, put=(message("derived", "secret"),), needs=("a",)), NOW)
        with refused(Conflict, "id"):
            await second.commit(Changes(ANN, put=(read.with_(content="secret again"),)), NOW)
        assert await second.commit(told, NOW + DAY_MS - 1) == answer
        assert await listed(store, Filter(ANN)) == []
        assert not await store.claim(NOW + DAY_MS, LEASE_S, 10)

    async def test_an_erased_partition_is_known_by_no_name_until_something_new_is_written(
        self, store: Store, second: Store
    ) -> None:
        told = Changes(ANN, put=(message("a", "secret"),), enqueue=(work("j", refs=("a",)),), key="told")
        await store.commit(told, NOW)
        await put(store, message("other", partition=BOB))
        before = await mark_of(store)
        await forget_whole(store, ANN, NOW)
        assert [each for each in await second.partitions() if not is_veil(each)] == [BOB]
        assert (await second.survey(NOW)).partitions == 1, "who was erased is not counted"
        with refused(Conflict, "epoch"):
            await second.commit(Changes(ANN, put=(message("late"),), epoch=before.epoch), NOW)
        await second.commit(told, NOW)
        await second.commit(Changes(ANN, drop=("a",), key="late drop"), NOW)
        (veil,) = [each for each in await second.partitions() if is_veil(each)]
        assert "ann" not in veil.user, "what is refused, replayed or changes nothing brings no name back"
        await put(second, message("a", "new"))
        assert [each for each in await store.partitions() if not is_veil(each)] == [ANN, BOB]
        back = await mark_of(store)
        assert (back.epoch > before.epoch, back.revision > before.revision) == (True, True)
        assert (await one(second, "a")).version > before.revision, "above every version that was ever read"

    async def test_a_purge_takes_the_remembered_keys_of_the_erased(self, store: Store) -> None:
        told = Changes(ANN, put=(message("a", "secret"),), key="told")
        answer = await store.commit(told, NOW)
        await forget_whole(store, ANN, NOW)
        (veil,) = await store.partitions()
        await purge(store, veil, NOW + 1)
        assert await store.commit(Changes(ANN, put=(message("a", "secret"),), key="told"), NOW) > answer
        await forget_whole(store, ANN, NOW)
        assert list(await store.partitions()) == [veil], "each erased partition has one veil"

    async def test_writers_and_workers_that_run_during_a_forget_bring_nothing_old_back(
        self, store: Store, second: Store
    ) -> None:
        await put_many(store, [message(f"old{n}") for n in range(200)])
        await enqueue(store, *(work(f"j{n}", refs=(f"old{n}",)) for n in range(20)))
        epoch = (await mark_of(store)).epoch
        jobs = await second.claim(NOW, LEASE_S, 20)
        late = [
            second.commit(Changes(ANN, put=(message(f"derived{n}"),), finish=(job,), needs=job.refs), NOW)
            for n, job in enumerate(jobs)
        ]
        late += [second.commit(Changes(ANN, put=(message(f"late{n}"),), epoch=epoch), NOW) for n in range(20)]
        fresh = [put(second, message(f"fresh{n}")) for n in range(20)]
        before = (await mark_of(store)).revision
        answers = await asyncio.gather(*late, *fresh, forget_whole(store, ANN, NOW), return_exceptions=True)
        assert all(isinstance(answer, int | Conflict) for answer in answers), answers
        written = {answer for answer in answers[:-1] if isinstance(answer, int)}
        (forgot,) = set(range(before + 1, (await mark_of(store)).revision + 1)) - written
        stays = [f"fresh{n}" for n, answer in enumerate(answers[40:60]) if isinstance(answer, int) and answer > forgot]
        assert sorted(ids_of(await listed(store, Filter(ANN)))) == sorted(stays)
        assert not await store.claim(NOW + DAY_MS, LEASE_S, 10)

    async def test_what_is_written_after_a_forget_stays_also_through_the_purge_also_under_an_old_id(
        self, store: Store
    ) -> None:
        await put(store, *(message(f"m{n}", "old", expires_at=NOW + 5) for n in range(30)))
        first = await store.forget(Filter(ANN), NOW, limit=3)
        await put(store, message("m29", "new"), message("m0", "new"), message("another", "new"))
        await enqueue(store, work("j"))
        gone = first
        while not gone.done:
            gone = await store.forget(Filter(ANN, epoch=first.epoch), NOW, limit=3)
        await purge(store, ANN, NOW + DAY_MS, limit=3)
        left = await listed(store, Filter(ANN), NOW + DAY_MS)
        assert [(record.id, record.content) for record in left] == [("m29", "new"), ("m0", "new"), ("another", "new")]
        assert len(await store.claim(NOW, LEASE_S, 10)) == 1

    async def test_a_whole_forget_can_be_stopped_anywhere_and_called_again(self, store: Store, second: Store) -> None:
        for stop in range(1, 8):
            await put(store, *(message(f"m{n}", str(stop)) for n in range(30)))
            first = gone = await store.forget(Filter(ANN), NOW, limit=5)
            calls = 1
            while not gone.done and calls < stop:
                gone = await store.forget(Filter(ANN, epoch=first.epoch), NOW, limit=5)
                calls += 1
            assert await listed(second, Filter(ANN)) == []
            while not gone.done and stop % 2:
                gone = await second.forget(Filter(ANN, epoch=first.epoch), NOW, limit=5)
                calls += 1
                assert calls <= 10, "a forget must end"
        assert await forget_whole(store, ANN, NOW) == 0
        assert (await store.forget(Filter(ANN, epoch=first.epoch), NOW)).done
        assert await listed(second, Filter(ANN)) == []

    async def test_going_on_with_a_forget_raises_no_further_epoch(self, store: Store) -> None:
        await put(store, *(message(f"m{n}") for n in range(30)))
        first = await store.forget(Filter(ANN), NOW, limit=5)
        mark = await mark_of(store)
        for _ in range(10):
            gone = await store.forget(Filter(ANN, epoch=first.epoch), NOW, limit=5)
        assert gone.done
        after = await mark_of(store)
        assert (after.epoch, after.revision) == (mark.epoch, mark.revision)
        assert (await store.forget(Filter(ANN, dead_before=NOW), NOW)).count == 0, "done means that nothing is left"

    async def test_a_forget_of_very_many_records_is_one_forget(self, store: Store) -> None:
        await put_many(store, [message(f"m{n}") for n in range(2 * FORGET_ROWS + 10)])
        before = await mark_of(store)
        assert await forget_whole(store, ANN, NOW) == 2 * FORGET_ROWS + 10
        after = await mark_of(store)
        assert (after.epoch, after.revision) == (before.epoch + 1, before.revision + 1)
        assert (await store.forget(Filter(ANN, dead_before=NOW), NOW)).count == 0, "done means that nothing is left"

    async def test_a_purge_ends_what_a_stopped_forget_left(self, store: Store) -> None:
        await put(store, *(message(f"m{n}") for n in range(30)))
        first = await store.forget(Filter(ANN), NOW, limit=5)
        await put(store, message("m3", "new"))
        mark = await mark_of(store)
        await purge(store, ANN, NOW, limit=7)
        assert (await store.forget(Filter(ANN, epoch=first.epoch), NOW, limit=1)).done
        assert [(record.id, record.content) for record in await listed(store, Filter(ANN))] == [("m3", "new")]
        assert (await store.changes(ANN, mark)).put == (), "garbage of an older epoch is no change"

    async def test_a_part_forget_leaves_the_rest_and_its_changes_name_every_drop(self, store: Store) -> None:
        await put_many(store, [message(f"m{n}", session=f"s{n % 2}") for n in range(300)])
        mark = await mark_of(store)
        gone = await store.forget(Filter(ANN, session="s1"), NOW)
        assert (gone.count, gone.done) == (150, True)
        left = [f"m{n}" for n in range(0, 300, 2)]
        assert ids_of(await listed(store, Filter(ANN))) == left
        reader = Reader(mark=mark, held={f"m{n}": message(f"m{n}") for n in range(300)})
        after = await reader.catch_up(store)
        assert sorted(reader.held) == sorted(left)
        assert (reader.resets, after.epoch) == (0, mark.epoch)

    async def test_a_part_forget_takes_ids_layers_and_conditions(self, store: Store) -> None:
        await put(store, *(message(f"m{n}", layer=("fact", "past")[n % 2], metadata={"n": n}) for n in range(10)))
        for where, count in (
            (Filter(ANN, ids=("m0", "m1", "unknown")), 2),
            (Filter(ANN, ("past",)), 4),
            (Filter(ANN, test=Test("metadata.n", "gte", 6)), 2),
            (Filter(ANN, ids=()), 0),
            (Filter(BOB, ("fact",)), 0),
        ):
            assert (await store.forget(where, NOW)).count == count
        assert ids_of(await listed(store, Filter(ANN))) == ["m2", "m4"]

    async def test_a_part_forget_can_be_stopped_anywhere_and_called_again(self, store: Store) -> None:
        limit = OPERATIONS_MAX + 4  # more than one commit
        await put_many(store, [*(message(f"m{n}") for n in range(2 * limit + 20)), message("other", session="s2")])
        counts = []
        while True:
            gone = await store.forget(Filter(ANN, session="s1"), NOW, limit=limit)
            counts.append(gone.count)
            if gone.done:
                break
        assert sum(counts) == 2 * limit + 20
        assert max(counts) <= limit
        assert ids_of(await listed(store, Filter(ANN))) == ["other"]

    async def test_a_job_that_rests_on_a_forgotten_part_is_refused(self, store: Store) -> None:
        await store.commit(Changes(ANN, put=(message("a"),), enqueue=(work("j", refs=("a",)),)), NOW)
        (job,) = await store.claim(NOW, LEASE_S, 1)
        await store.forget(Filter(ANN, session="s1"), NOW)
        with refused(Conflict, "needs"):
            await store.commit(Changes(ANN, put=(message("x"),), finish=(job,), needs=job.refs), NOW)
        await store.commit(Changes(ANN, finish=(job,)), NOW)
