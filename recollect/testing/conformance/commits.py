"""A commit lands whole or not at all, once per key, and never over something newer."""

from __future__ import annotations

import asyncio
import struct
import unicodedata
from dataclasses import replace

from recollect.errors import Conflict, TooLarge, ValidationError
from recollect.filters import Filter
from recollect.records import DAY_MS, Changes, Job, Partition, Record, Scope, Source, Vector, payload_of
from recollect.stores.contract import (
    KEY_LIFE_MS,
    OWN_KEY,
    PAYLOAD_MAX_BYTES,
    LeaseLost,
    Store,
    forget_whole,
)
from recollect.testing.conformance.stage import (
    ANN,
    BOB,
    LEASE_MS,
    LEASE_S,
    NOW,
    Reader,
    Stage,
    drop,
    enqueue,
    ids_of,
    listed,
    mark_of,
    message,
    one,
    purge,
    put,
    refused,
    work,
)

HOSTILE = (
    ":", "/", "a:b", "a/b", "{x}", "x}", "*", "?", "[a]", "%", "_", "%2F", "%2f", "'", '"', "\\", ";--", "$1",
    unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"), "A", "a", " a", "a ", "0", "00", "..", "日本",
)  # fmt: skip
FULL = Record(
    "full",
    "conversation",
    Scope("acme", "ann", "support", "s1"),
    content='Grüße \U0001f469\u200d\U0001f680\r\n\t"quoted" \\ \u202e \uffff',
    data={"role": "user", "deep": {"list": [1, 1.0, 1e300, -0.1, True, None, "é"], "": {}}, "large": 2**53 + 1},
    metadata={"z": 1, "a": [1, {"b": "c"}], "float": 2.0},
    importance=0.1,
    confidence=1 / 3,
    created_at=NOW,
    event_at=-1,
    valid_from=0,
    valid_to=NOW + 1,
    expires_at=NOW + DAY_MS,
    source=Source("m1", "s1", (3, 9), "user", "rules/1"),
    trust="untrusted",
    vector=Vector("tiny", struct.pack("<4e", 0.5, -1.25, 65504.0, 6e-8)),
)


class CommitConformance(Stage):
    """What `commit` writes, what it refuses, and what is left when it refuses."""

    async def test_a_put_record_is_read_back_identical(self, store: Store) -> None:
        await put(store, FULL)
        read = await one(store, "full")
        assert read == FULL.with_(version=1, born=(1, 0))
        assert payload_of(read) == payload_of(FULL), "1 and 1.0 are equal, but not the same"
        assert (await store.list(Filter(ANN), NOW)).records == (read,)
        assert (await store.changes(ANN, None)).put == (read,)

    async def test_a_record_with_nothing_but_an_id_is_read_back_identical(self, store: Store) -> None:
        bare = Record("bare", "fact", Scope("acme", "ann"))
        await put(store, bare)
        assert await one(store, "bare") == bare.with_(version=1, born=(1, 0))

    async def test_a_record_is_not_found_through_another_partition_nor_are_its_job_key_and_revision(
        self, store: Store
    ) -> None:
        await store.commit(Changes(ANN, put=(message("a"),), enqueue=(work("job"),), key="key"), NOW)
        for stranger in (BOB, Partition("acme", ""), Partition("", "ann"), Partition("acme2", "ann")):
            assert await store.get(stranger, ["a"], NOW) == []
            assert (await store.list(Filter(stranger), NOW)).records == ()
            assert (await mark_of(store, stranger)).revision == 0
            assert await drop(store, "a", partition=stranger) == 0
            with refused(Conflict, "needs"):
                await store.commit(Changes(stranger, needs=("a",)), NOW)
        assert await store.commit(Changes(BOB, put=(message("a", "bob's", BOB),), key="key"), NOW) == 1
        (job,) = await store.claim(NOW, LEASE_S, 10)
        with refused(LeaseLost, "finish"):
            await store.commit(Changes(BOB, finish=(replace(job, partition=BOB),)), NOW)
        assert (await one(store, "a")).content == "hello"

    async def test_a_commit_of_two_partitions_is_refused(self, store: Store) -> None:
        for stranger in (BOB, Partition("acme2", "ann")):
            with refused(ValidationError, "scope"):
                await store.commit(Changes(ANN, put=(message("b", partition=stranger),)), NOW)
            with refused(ValidationError, "partition"):
                await store.commit(Changes(ANN, enqueue=(work("j", stranger),)), NOW)
            with refused(ValidationError, "partition"):
                await store.commit(Changes(ANN, finish=(work("j", stranger),)), NOW)

    async def test_hostile_ids_stay_apart_and_jobs_come_back_with_them_intact(self, store: Store) -> None:
        await put(store, *(message(id, f"of {id}", session=id) for id in HOSTILE))
        await enqueue(store, *(Job(id, ANN, id, (id, ":"), NOW) for id in HOSTILE))
        for id in HOSTILE:
            assert (await one(store, id)).content == f"of {id}"
            assert ids_of(await listed(store, Filter(ANN, ("conversation",), session=id))) == [id]
        jobs = await store.claim(NOW, LEASE_S, 100)
        assert {job.id: (job.kind, job.refs) for job in jobs} == {id: (id, (id, ":")) for id in HOSTILE}

    async def test_hostile_orgs_and_users_stay_apart(self, store: Store) -> None:
        names = [Partition(name, "x") for name in HOSTILE] + [Partition("x", name) for name in HOSTILE]
        names += [Partition("a:b", "c"), Partition("a", "b:c"), Partition("a/b", "c"), Partition("a", "b/c")]
        for number, partition in enumerate(names):
            record, job = message("same", f"number {number}", partition), work("same", partition)
            await store.commit(Changes(partition, put=(record,), enqueue=(job,), key="same"), NOW)
        for number, partition in enumerate(names):
            assert (await one(store, "same", partition)).content == f"number {number}"
            assert (await mark_of(store, partition)).revision == 1
        jobs = await store.claim(NOW, LEASE_S, 100)
        assert sorted(job.partition for job in jobs) == sorted(names)

    async def test_the_same_put_again_changes_nothing_not_even_the_revision(self, store: Store) -> None:
        assert await put(store, FULL) == 1
        for version in (0, 1, 7):
            assert await put(store, FULL.with_(version=version)) == 1
        assert (await one(store, "full")).version == 1

    async def test_another_content_under_a_taken_id_is_a_conflict(self, store: Store) -> None:
        await put(store, message("a", "first"))
        with refused(Conflict, "id"):
            await put(store, message("a", "second"))
        assert (await one(store, "a")).content == "first"

    async def test_a_stale_version_is_a_conflict_and_the_newer_content_stays(self, store: Store) -> None:
        await put(store, message("a", "first"))
        read = await one(store, "a")
        await put(store, read.with_(content="second"))
        with refused(Conflict, "id"):
            await put(store, read.with_(content="third"))
        assert (await one(store, "a")).content == "second"

    async def test_a_put_back_of_what_was_read_raises_the_version_by_one(self, store: Store) -> None:
        await put(store, message("a"))
        for version in (1, 2, 3):
            read = await one(store, "a")
            assert read.version == version
            await put(store, read.with_(content=f"after {version}"))

    async def test_of_two_writers_with_the_same_version_exactly_one_wins(self, store: Store, second: Store) -> None:
        await put(store, message("a", "0"))
        for turn in range(1, 11):
            read = await one(store, "a")
            tries = (put(store, read.with_(content=f"{turn} one")), put(second, read.with_(content=f"{turn} two")))
            answers = await asyncio.gather(*tries, return_exceptions=True)
            winners = [answer for answer in answers if isinstance(answer, int)]
            losers = [answer for answer in answers if isinstance(answer, Conflict)]
            assert (len(winners), len(losers)) == (1, 1), answers
            assert (await one(store, "a")).version == turn + 1

    async def test_if_the_last_of_96_operations_is_refused_none_has_happened(self, store: Store) -> None:
        await store.commit(Changes(ANN, put=(message("taken"),), enqueue=(work("later", due_at=NOW + 1),)), NOW)
        most = Changes(ANN, put=tuple(message(f"m{n}") for n in range(94)), enqueue=(work("new"),))
        with refused(Conflict, "id"):
            await store.commit(most.and_(put=(message("taken", "other"),)), NOW)
        with refused(LeaseLost, "finish"):
            await store.commit(most.and_(finish=(replace(work("later"), attempt=5),)), NOW)
        assert ids_of(await listed(store, Filter(ANN))) == ["taken"]
        assert (await mark_of(store)).revision == 1
        assert not await store.claim(NOW, LEASE_S, 10)

    async def test_a_commit_of_96_operations_is_taken_whole(self, store: Store) -> None:
        jobs = tuple(work(f"j{n}") for n in range(6))
        assert await store.commit(Changes(ANN, tuple(message(f"m{n}") for n in range(90)), enqueue=jobs), NOW) == 1
        assert len(await listed(store, Filter(ANN))) == 90
        assert len(await store.claim(NOW, LEASE_S, 100)) == 6

    async def test_97_operations_or_more_than_1_mib_are_too_large_and_write_nothing(self, store: Store) -> None:
        many = tuple(message(f"m{n}") for n in range(96))
        half = "x" * (PAYLOAD_MAX_BYTES // 2)
        for changes in (
            Changes(ANN, put=many, enqueue=(work("j"),)),
            Changes(ANN, put=many, drop=("d",)),
            Changes(ANN, put=many, finish=(work("j"),)),
            Changes(ANN, put=(message("a", half), message("b", half))),
            Changes(ANN, put=(message("a", "ß" * (PAYLOAD_MAX_BYTES // 2)),)),
            Changes(ANN, put=(message("a", half, vector=Vector("v", half.encode())),)),
        ):
            with refused(TooLarge, "changes"):
                await store.commit(changes, NOW)
        assert (await mark_of(store)).revision == 0
        assert not await store.claim(NOW, LEASE_S, 10)

    async def test_a_commit_of_exactly_1_mib_is_taken(self, store: Store) -> None:
        room = PAYLOAD_MAX_BYTES - len(payload_of(message("a", "x"))) + 1
        with refused(TooLarge, "changes"):
            await put(store, message("a", "x" * (room + 1)))
        await put(store, message("a", "x" * room))
        assert len((await one(store, "a")).content) == room

    async def test_one_id_twice_in_a_commit_is_refused(self, store: Store) -> None:
        for changes in (
            Changes(ANN, put=(message("a"), message("a", "other"))),
            Changes(ANN, put=(message("a"),), drop=("a",)),
            Changes(ANN, drop=("a", "a")),
        ):
            with refused(ValidationError, "changes"):
                await store.commit(changes, NOW)

    async def test_the_same_key_with_the_same_changes_returns_the_first_result(self, store: Store) -> None:
        for partition, key in ((ANN, "once"), (BOB, f"{OWN_KEY}once")):
            changes = Changes(partition, put=(message("a", partition=partition),), key=key)
            assert await store.commit(changes, NOW) == 1
            await drop(store, "a", partition=partition)
            assert await store.commit(changes, NOW + KEY_LIFE_MS - 1) == 1
            assert await store.get(partition, ["a"], NOW) == []

    async def test_a_key_does_so_after_the_job_it_enqueued_was_finished(self, store: Store) -> None:
        changes = Changes(ANN, put=(message("a"),), enqueue=(work("j"),), key="once")
        await store.commit(changes, NOW)
        (job,) = await store.claim(NOW, LEASE_S, 10)
        await store.commit(Changes(ANN, finish=(job,)), NOW)
        assert await store.commit(changes, NOW) == 1
        assert not await store.claim(NOW + DAY_MS, LEASE_S, 10), "the job does not return"

    async def test_the_same_key_with_other_changes_is_a_conflict(self, store: Store) -> None:
        await enqueue(store, work("i"))
        first = Changes(ANN, put=(message("a"),), enqueue=(work("j"),), finish=(work("i"),), key="once")
        await store.commit(first, NOW)
        for other in (
            replace(first, put=(message("a", "other"),)),
            replace(first, put=(message("a", version=1),)),
            replace(first, drop=("b",)),
            replace(first, enqueue=()),
            replace(first, enqueue=(replace(work("j"), kind="other"),)),
            replace(first, enqueue=(work("j", refs=("a",)),)),
            replace(first, enqueue=(work("j", due_at=NOW + 1),)),
            replace(first, enqueue=(replace(work("j"), attempt=1),)),
            replace(first, finish=()),
            replace(first, finish=(replace(work("i"), attempt=1),)),
            replace(first, needs=("a",)),
            replace(first, epoch=1),
        ):
            with refused(Conflict, "key"):
                await store.commit(other, NOW)
        assert (await mark_of(store)).revision == 1

    async def test_a_refused_commit_leaves_its_key_free(self, store: Store) -> None:
        with refused(Conflict, "needs"):
            await store.commit(Changes(ANN, put=(message("a"),), needs=("gone",), key="once"), NOW)
        assert await store.commit(Changes(ANN, put=(message("a"),), key="once"), NOW) == 1

    async def test_the_same_key_at_the_same_time_from_two_callers_writes_once(
        self, store: Store, second: Store
    ) -> None:
        for turn in range(10):
            changes = Changes(ANN, put=(message(f"m{turn}"),), enqueue=(work(f"j{turn}"),), key=f"key {turn}")
            answers = await asyncio.gather(*(each.commit(changes, NOW) for each in (store, second, store, second)))
            assert set(answers) == {turn + 1}
        assert len(await store.claim(NOW, LEASE_S, 100)) == 10

    async def test_a_replayed_finish_is_a_success_not_lease_lost(self, store: Store) -> None:
        await enqueue(store, work("j"))
        (job,) = await store.claim(NOW, LEASE_S, 1)
        changes = Changes(ANN, put=(message("result"),), finish=(job,), key="j:1")
        assert [await store.commit(changes, NOW), await store.commit(changes, NOW)] == [1, 1]

    async def test_a_key_older_than_its_24_h_may_be_used_anew(self, store: Store) -> None:
        await store.commit(Changes(ANN, put=(message("a"),), key="once"), NOW)
        later = NOW + KEY_LIFE_MS
        assert await store.commit(Changes(ANN, put=(message("b"),), key="once"), later) == 2
        with refused(Conflict, "key"):
            await store.commit(Changes(ANN, put=(message("c"),), key="once"), later + KEY_LIFE_MS - 1)

    async def test_dropping_twice_is_dropping_once_and_dropping_the_unknown_is_nothing(self, store: Store) -> None:
        await put(store, message("a"), message("b"))
        assert [await drop(store, "a"), await drop(store, "a"), await drop(store, "unknown")] == [2, 2, 2]
        assert ids_of(await listed(store, Filter(ANN))) == ["b"]

    async def test_a_stale_put_after_a_drop_is_a_conflict_and_a_new_put_is_a_version_above(self, store: Store) -> None:
        await put(store, message("a"))
        read = await one(store, "a")
        await drop(store, "a")
        with refused(Conflict, "id"):
            await put(store, read.with_(content="stale"))
        await put(store, message("a"))
        again = await one(store, "a")
        assert again.version > read.version and again.born == (3, 0)

    async def test_what_was_dropped_stays_dropped_when_the_clock_goes_back(self, store: Store) -> None:
        await put(store, message("a"), message("b"))
        read = await one(store, "a")
        await drop(store, "a", now=NOW + DAY_MS)
        assert ids_of(await store.get(ANN, ["a", "b"], NOW)) == ["b"]
        assert ids_of(await listed(store, Filter(ANN))) == ["b"]
        assert await drop(store, "a") == 2
        with refused(Conflict, "needs"):
            await store.commit(Changes(ANN, put=(message("c"),), needs=("a",)), NOW)
        with refused(Conflict, "id"):
            await put(store, read.with_(content="stale"))

    async def test_a_writer_from_before_a_purge_or_a_forget_never_overwrites_what_was_made_anew(
        self, store: Store
    ) -> None:
        await put(store, message("purged"), message("forgotten"))
        before = await store.get(ANN, ["purged", "forgotten"], NOW)
        await drop(store, "purged")
        await purge(store, ANN, NOW + 1)
        await put(store, message("purged", "made anew"))
        with refused(Conflict, "id"):
            await put(store, before[0].with_(content="stale"))
        await forget_whole(store, ANN, NOW)
        await put(store, message("forgotten", "made anew"))
        with refused(Conflict, "id"):
            await put(store, before[1].with_(content="stale"))
        assert (await one(store, "forgotten")).content == "made anew"

    async def test_head_and_past_record_appear_together_or_not_at_all(self, store: Store, second: Store) -> None:
        await put(store, message("head", "0", layer="fact"))
        stale = await one(store, "head")

        async def replace_the_head() -> None:
            for turn in range(1, 21):
                head = await one(store, "head")
                past = message(f"past {turn}", head.content, layer="past")
                await put(store, head.with_(content=str(turn)), past)

        writing = asyncio.create_task(replace_the_head())
        while not writing.done():
            head, *past = await second.get(ANN, ["head", *(f"past {turn}" for turn in range(1, 21))], NOW)
            assert ids_of(past) == [f"past {turn}" for turn in range(1, head.version)]
            await asyncio.sleep(0)
        await writing
        with refused(Conflict, "id"):
            await put(store, message("past 0", layer="past"), stale.with_(content="late"))
        assert await store.get(ANN, ["past 0"], NOW) == []

    async def test_of_two_commits_that_drop_what_they_need_exactly_one_wins(self, store: Store, second: Store) -> None:
        for turn in range(10):
            await put(store, message("a", f"turn {turn}"))
            taking = Changes(ANN, drop=("a",), needs=("a",))
            tries = (each.commit(taking, NOW) for each in (store, second, store, second))
            answers = await asyncio.gather(*tries, return_exceptions=True)
            lost = [answer for answer in answers if isinstance(answer, BaseException)]
            assert [(type(each), getattr(each, "field", None)) for each in lost] == [(Conflict, "needs")] * 3
            assert await store.get(ANN, ["a"], NOW) == []

    async def test_a_commit_that_needs_a_dropped_expired_or_forgotten_record_is_refused(self, store: Store) -> None:
        await put(store, message("a"), message("dropped"), message("brief", expires_at=NOW + 10))
        await store.commit(Changes(ANN, put=(message("fine"),), needs=("a", "brief")), NOW + 9)
        await drop(store, "dropped")
        for gone in ("dropped", "brief", "never"):
            with refused(Conflict, "needs"):
                await store.commit(Changes(ANN, put=(message("x"),), needs=("a", gone)), NOW + 10)
        await forget_whole(store, ANN, NOW)
        with refused(Conflict, "needs"):
            await store.commit(Changes(ANN, put=(message("x"),), needs=("a",)), NOW)
        assert await store.get(ANN, ["x"], NOW) == []

    async def test_a_commit_with_an_old_epoch_is_refused(self, store: Store) -> None:
        await put(store, message("a"))
        epoch = (await mark_of(store)).epoch
        await store.commit(Changes(ANN, put=(message("b"),), epoch=epoch), NOW)
        await forget_whole(store, ANN, NOW)
        with refused(Conflict, "epoch"):
            await store.commit(Changes(ANN, put=(message("c"),), epoch=epoch), NOW)
        await store.commit(Changes(ANN, put=(message("d"),), epoch=epoch + 1), NOW)
        assert ids_of(await listed(store, Filter(ANN))) == ["d"]

    async def test_guards_are_checked_in_the_order_of_the_contract(self, store: Store) -> None:
        await store.commit(Changes(ANN, put=(message("a"),), key="key"), NOW)
        wrong = Changes(
            ANN, put=(message("a", "other"),), finish=(work("gone"),), needs=("gone",), epoch=9, key="key"
        )  # fmt: skip
        with refused(Conflict, "key"):
            await store.commit(wrong, NOW)
        with refused(Conflict, "epoch"):
            await store.commit(wrong := replace(wrong, key="free"), NOW)
        with refused(LeaseLost, "finish"):
            await store.commit(wrong := replace(wrong, epoch=None), NOW)
        with refused(Conflict, "needs"):
            await store.commit(wrong := replace(wrong, finish=()), NOW)
        with refused(Conflict, "id"):
            await store.commit(replace(wrong, needs=()), NOW)

    async def test_the_revision_grows_by_exactly_one_for_each_commit_that_changed_a_record(
        self, store: Store, second: Store
    ) -> None:
        assert [await put(store, message(f"m{n}")) for n in range(3)] == [1, 2, 3]
        assert await store.commit(Changes(ANN, put=(message("m3"), message("m0")), drop=("m1", "none")), NOW) == 4
        with refused(Conflict, "id"):
            await put(store, message("m0", "other"))
        both = (put(each, message(f"n{n}")) for n in range(20) for each in (store, second))
        answers = await asyncio.gather(*both)
        assert (await mark_of(store)).revision == 24
        assert set(answers) == set(range(5, 25)), "no gaps"

    async def test_a_job_only_commit_leaves_the_revision(self, store: Store) -> None:
        await put(store, message("a"))
        reader = Reader()
        mark = await reader.catch_up(store)
        assert await enqueue(store, work("j"), now=NOW) == 1
        (job,) = await store.claim(NOW + LEASE_MS, LEASE_S, 1)
        assert await store.commit(Changes(ANN, finish=(job,), key="j:1"), NOW) == 1
        assert await reader.catch_up(store) == mark
