"""A reader that only asks "what is new?" ends up with exactly what the store holds."""

from __future__ import annotations

import asyncio
import random

from recollect.errors import Conflict
from recollect.filters import Filter
from recollect.records import Changes, Record
from recollect.stores.contract import CHANGES_MIN, OPERATIONS_MAX, Delta, Forgotten, Store, forget_whole
from recollect.testing.conformance.stage import (
    ANN,
    LEASE_S,
    NOW,
    Reader,
    Stage,
    drop,
    ids_of,
    listed,
    mark_of,
    message,
    one,
    purge,
    put,
    put_many,
    refused,
)

LATER = NOW + 1_000


class ChangesConformance(Stage):
    """`changes`: marks, pages, resets, and the floor below which the dead were removed."""

    async def test_changes_with_nothing_new_is_empty_and_keeps_the_mark(self, store: Store) -> None:
        empty = await store.changes(ANN, None)
        assert (empty.put, empty.dropped, empty.reset, empty.more) == ((), (), True, False)
        await put(store, message("a"))
        mark = await mark_of(store)
        for _ in range(2):
            assert await store.changes(ANN, mark) == Delta(mark)

    async def test_changes_tells_puts_and_drops_after_the_mark_each_id_once_in_its_newest_state(
        self, store: Store
    ) -> None:
        await put(store, message("a"), message("b"), message("c"))
        mark = await mark_of(store)
        for content in ("one", "two", "three"):
            await put(store, (await one(store, "a")).with_(content=content))
        await drop(store, "b")
        await put(store, message("d"))
        await drop(store, "d")
        await drop(store, "c")
        await put(store, message("c", "again"))
        delta = await store.changes(ANN, mark)
        assert [(record.id, record.content) for record in delta.put] == [("a", "three"), ("c", "again")]
        assert delta.dropped == ("b", "d")
        assert (delta.reset, delta.more, delta.mark.revision) == (False, False, mark.revision + 8)

    async def test_no_page_of_changes_splits_a_commit(self, store: Store) -> None:
        chance = random.Random(27)
        sizes = [chance.choice((1, 50, OPERATIONS_MAX)) for _ in range(25)]
        for commit, size in enumerate(sizes):
            await put(store, *(message(f"{commit}.{place}", data={"commit": commit}) for place in range(size)))
        for limit in (CHANGES_MIN, CHANGES_MIN + 3, 288):
            mark, seen = None, 0
            while True:
                delta = await store.changes(ANN, mark, limit)
                assert delta.reset is (mark is None)
                assert len(delta.put) <= limit
                for commit in {record.data["commit"] for record in delta.put}:
                    assert sum(record.data["commit"] == commit for record in delta.put) == sizes[commit]
                seen, mark = seen + len(delta.put), delta.mark
                if not delta.more:
                    break
            assert seen == sum(sizes)

    async def test_a_paged_reload_ends_while_tombstones_are_purged_and_is_right(self, store: Store) -> None:
        await put_many(store, [message(f"m{n}") for n in range(900)])
        await drop(store, *(f"m{n}" for n in range(0, 90, 3)))
        await purge(store, ANN, LATER)
        reader, turns = Reader(), 0
        while await reader.turn_page(store):
            turns += 1
            assert turns < 60, "a reload must end"
            if turns <= 3:
                await drop(store, f"m{turns}", f"m{900 - turns}", now=LATER + turns)
                await purge(store, ANN, LATER + turns + 1)
        assert set(reader.held) == set(ids_of(await listed(store, Filter(ANN), LATER)))

    async def test_a_mark_older_than_the_floor_gets_a_reset_and_one_at_or_above_it_does_not(self, store: Store) -> None:
        await put(store, message("a"), message("b"))
        older = await mark_of(store)
        await drop(store, "a")
        at_the_floor = await mark_of(store)
        await put(store, message("c"))
        above = await mark_of(store)
        await purge(store, ANN, LATER)
        delta = await store.changes(ANN, older)
        assert delta.reset
        assert ids_of(delta.put) == ["b", "c"]
        assert await store.changes(ANN, at_the_floor) == Delta(above, put=(await one(store, "c"),))
        assert await store.changes(ANN, above) == Delta(above)

    async def test_the_floor_does_not_sink_when_what_was_written_earlier_dies_later(self, store: Store) -> None:
        await put(store, message("brief", expires_at=NOW + 100))
        await put(store, message("a"), message("b"))
        below = await mark_of(store)
        await drop(store, "a")
        at_the_floor = await mark_of(store)
        await purge(store, ANN, NOW + 1)
        await purge(store, ANN, NOW + 101)
        delta = await store.changes(ANN, below)
        assert (delta.reset, ids_of(delta.put)) == (True, ["b"])
        assert not (await store.changes(ANN, at_the_floor)).reset

    async def test_a_mark_from_before_a_whole_forget_gets_a_reset(self, store: Store) -> None:
        await put(store, message("a"))
        reader = Reader()
        mark = await reader.catch_up(store)
        await forget_whole(store, ANN, NOW)
        after = await reader.catch_up(store)
        assert (reader.held, reader.resets) == ({}, 2)
        assert (after.epoch, after.revision) == (mark.epoch + 1, mark.revision + 1)
        assert await store.changes(ANN, after) == Delta(after)

    async def test_a_slow_transaction_that_began_first_and_ended_last_is_not_missed_by_a_reader(
        self, store: Store, second: Store
    ) -> None:
        reader = Reader()
        for turn in range(12):
            large = [message(f"{turn} large {n}", "x" * 8_000) for n in range(OPERATIONS_MAX)]
            writes = [asyncio.create_task(put(second, *large))]
            await asyncio.sleep(0)
            writes += [asyncio.create_task(put((store, second)[n % 2], message(f"{turn} small {n}"))) for n in range(8)]
            while not all(write.done() for write in writes):
                await reader.turn_page(store)
                await asyncio.sleep(0)
            await asyncio.gather(*writes)
        await reader.catch_up(store)
        assert reader.resets == 1
        assert set(reader.held) == set(ids_of(await listed(store, Filter(ANN))))
        assert len(reader.held) == 12 * (OPERATIONS_MAX + 8)

    async def test_purging_the_dead_changes_no_answer_of_any_verb(self, store: Store) -> None:
        await put_many(store, [message(f"m{n}", session=f"s{n % 3}") for n in range(60)])
        await put(store, *(message(f"brief{n}", expires_at=NOW + n) for n in range(10)))
        await drop(store, *(f"m{n}" for n in range(0, 60, 2)))
        await put(store, message("last"))
        mark = await mark_of(store)
        before = await _answers(store)
        gone = await purge(store, ANN, LATER, limit=7)
        assert gone.next_at is None
        assert await _answers(store) == before
        assert await mark_of(store) != mark, "only the floor moved"
        assert await store.changes(ANN, mark) == Delta(mark)
        assert await store.forget(Filter(ANN, dead_before=LATER), LATER) == Forgotten(0, done=True)

    async def test_a_purge_takes_what_died_before_its_time_and_tells_when_the_next_one_dies(self, store: Store) -> None:
        brief, longer = message("brief", expires_at=NOW + 10), message("longer", expires_at=NOW + 20)
        await put(store, brief, longer, message("kept"), message("dropped"))
        await drop(store, "dropped", now=NOW + 5)
        for before, count, next_at in ((5, 0, NOW + 5), (6, 1, NOW + 10), (11, 1, NOW + 20), (99, 1, None)):
            gone = await store.forget(Filter(ANN, dead_before=NOW + before), NOW + 99)
            assert (gone.count, gone.done, gone.next_at) == (count, True, next_at)
        assert ids_of(await listed(store, Filter(ANN), NOW)) == ["kept"]
        assert (await mark_of(store)).revision == 2

    async def test_a_purge_forgets_keys_older_than_its_time(self, store: Store) -> None:
        await store.commit(Changes(ANN, put=(message("a"),), key="old"), NOW)
        await store.commit(Changes(ANN, put=(message("b"),), key="young"), NOW + 10)
        await purge(store, ANN, NOW + 10)  # exactly as old as the younger one
        assert await store.commit(Changes(ANN, put=(message("c"),), key="old"), NOW + 20) == 3
        assert await store.commit(Changes(ANN, put=(message("b"),), key="young"), NOW + 20) == 2


async def _answers(store: Store) -> tuple[list[Record], ...]:
    """What each reading verb returns, after checking that no job appears and no revision moves."""
    assert not await store.claim(NOW, LEASE_S, 10)
    with refused(Conflict, "id"):
        await put(store, message("m0", version=1), now=LATER)
    assert await drop(store, "m0", "brief0", now=LATER) == (await mark_of(store)).revision
    reader = Reader()
    await reader.catch_up(store)
    living = [record for record in reader.held.values() if record.expires_at is None]
    return (
        await store.get(ANN, [f"m{n}" for n in range(60)] + ["brief1"], LATER),
        await listed(store, Filter(ANN), LATER, limit=9),
        await listed(store, Filter(ANN, ("conversation",), "s1"), LATER, newest_first=True),
        sorted(living, key=lambda record: record.born),
    )
