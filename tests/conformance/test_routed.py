"""Layers in different stores keep the promises of one store, except those that need a single revision counter.

The suite's records are messages, so most of it runs in the home store; facts and past records go elsewhere.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from recollect.bound_keys import KEYS
from recollect.errors import Conflict, Unavailable, ValidationError
from recollect.filters import Filter
from recollect.records import DAY_MS, Changes, Job, Record
from recollect.server.keys import Keys
from recollect.server.quotas import ORG as QUOTAS
from recollect.server.seats import HOME as SEATS
from recollect.stores import open_store
from recollect.stores.contract import DURABLE, SHARED, Delta, LeaseLost, Store, forget_whole
from recollect.stores.in_memory import InMemoryStore
from recollect.stores.routed import OF_THE_SERVER, RoutedJob, RoutedStore
from recollect.testing.conformance import StoreConformance
from recollect.testing.conformance.stage import (
    ANN,
    LEASE_MS,
    LEASE_S,
    NOW,
    Reader,
    drop,
    enqueue,
    ids_of,
    listed,
    message,
    one,
    purge,
    put,
    refused,
    work,
)

COUNTERS = "a whole forget moves the epoch and the revision of every store, not one of each"
MOVES = "in it a record changes its layer, and so its store; no verb of the library does that"
ORDER = "births are counted in each store: layers of two stores are listed one store after the other"
NOT_PROMISED = {
    "test_random_operations_give_the_same_answers_as_the_model": MOVES,
    "test_callers_who_come_at_once_each_get_the_answers_of_the_model": MOVES,
    "test_an_update_does_not_move_a_record_in_the_list": MOVES,
    "test_a_mark_from_before_a_whole_forget_gets_a_reset": COUNTERS,
    "test_a_whole_forget_raises_the_epoch_even_of_an_empty_partition": COUNTERS,
    "test_writers_and_workers_that_run_during_a_forget_bring_nothing_old_back": COUNTERS,
    "test_a_forget_of_very_many_records_is_one_forget": COUNTERS,
    "test_a_list_of_several_layers_is_one_list": ORDER,
    "test_every_filter_means_the_same_in_every_store": ORDER,
}
"""Promises that do not hold for several stores, each with the reason."""


async def routed(home: str, rest: str) -> RoutedStore:
    return RoutedStore(await open_store(rest), {"conversation": await open_store(home)})


class Routed(StoreConformance):
    """The suite over two stores; promises that cannot hold are skipped by name."""

    @pytest.fixture(autouse=True)
    def _only_what_is_promised(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in NOT_PROMISED:
            pytest.skip(NOT_PROMISED[name])

    @pytest.fixture
    def rest_url(self, store_url: str) -> str:
        return store_url if store_url == "memory://" else f"{store_url}_rest"

    @pytest_asyncio.fixture
    async def store(self, store_url: str, rest_url: str) -> AsyncIterator[Store]:
        store = await routed(store_url, rest_url)
        # Other processes open a store by its URL, and a routed store has none.
        store.abilities -= {SHARED, DURABLE}
        yield store
        with suppress(Unavailable):
            await store.close()

    @pytest_asyncio.fixture
    async def other(self, store_url: str, rest_url: str) -> AsyncIterator[Store]:
        shared = store_url == "memory://"
        store = await routed(*(url if shared else f"{url}_other" for url in (store_url, rest_url)))
        yield store
        await store.close()


class TestTwoInMemory(Routed):
    @pytest.fixture
    def store_url(self) -> str:
        return "memory://"


class TestTwoFiles(Routed):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/home.db"


# ── what only several stores must promise ────────────────────────────────────────────────────────


class Power:
    """A store that fails right before or right after its n-th commit, as if the process were killed there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commits_left: int | None = None
        self.after = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, changes: Changes, now: int) -> int:
        if self.commits_left is not None:
            self.commits_left -= 1
        cut = self.commits_left == 0
        if cut and not self.after:
            raise Unavailable("killed")
        revision = await self._store.commit(changes, now)
        if cut:
            raise Unavailable("killed")
        return revision


@pytest.fixture
def home() -> Power:
    return Power(InMemoryStore())


@pytest.fixture
def rest() -> Power:
    return Power(InMemoryStore())


@pytest.fixture
def store(home: Power, rest: Power) -> RoutedStore:
    return RoutedStore(rest, {"conversation": home, "working": home})


def fact(id: str, content: str = "likes tea", **fields: Any) -> Any:
    return message(id, content, session="", layer="fact", **fields)


def learn(id: str = "learn") -> Job:
    return Job(id, ANN, "learn", ("m",), NOW)


async def learned(store: Store, job: Job, content: str = "likes tea", id: str = "f") -> None:
    """What a worker does at the end of a job that learns from a message."""
    enrich = Job(f"enrich:{id}", ANN, "enrich", (id,), NOW)
    changes = Changes(ANN, put=(fact(id, content),), enqueue=(enrich,), finish=(job,), needs=("m",))
    await store.commit(changes, NOW)


async def test_a_layer_committed_together_with_others_cannot_be_stored_apart(rest: Power, home: Power) -> None:
    with refused(ValidationError, "layers.past"):
        RoutedStore(rest, {"past": home})


async def test_an_abandoned_commit_fails_silently(home: Power) -> None:
    class Far(Power):
        async def commit(self, changes: Changes, now: int) -> int:
            await asyncio.sleep(0.01)
            return await super().commit(changes, now)

    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what["message"]))
    rest = Far(InMemoryStore())
    rest.commits_left = 1
    store = RoutedStore(rest, {"conversation": home})
    waiting = asyncio.create_task(put(store, message("m"), fact("f")))
    await asyncio.sleep(0)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    while rest.commits_left or store._under_way:
        await asyncio.sleep(0.01)
    gc.collect()
    assert told == []


async def test_each_layer_is_in_its_own_store(store: RoutedStore, home: Power, rest: Power) -> None:
    await put(store, message("m"), message("w", layer="working"), fact("f"))
    assert ids_of(await home.get(ANN, ["m", "w", "f"], NOW)) == ["m", "w"]
    assert ids_of(await rest.get(ANN, ["m", "w", "f"], NOW)) == ["f"]
    assert ids_of(await store.get(ANN, ["f", "m", "w"], NOW)) == ["f", "m", "w"]


async def test_a_job_is_stored_with_the_records_of_its_commit(store: RoutedStore, home: Power, rest: Power) -> None:
    await store.commit(Changes(ANN, put=(fact("f"),), enqueue=(work("j1"),)), NOW)
    await store.commit(Changes(ANN, put=(message("m"),), enqueue=(work("j2"),)), NOW)
    await store.commit(Changes(ANN, drop=("e",), enqueue=(Job("j3", ANN, "remake", due_at=NOW),)), NOW)
    assert ids_of(await rest.claim(NOW, LEASE_S, 9)) == ["j1", "j3"]
    assert ids_of(await home.claim(NOW, LEASE_S, 9)) == ["j2"]


async def test_a_job_of_another_store_is_postponed_and_finished_there(store: RoutedStore, rest: Power) -> None:
    await store.commit(Changes(ANN, put=(fact("f"),), enqueue=(work("j"),)), NOW)
    (job,) = await store.claim(NOW, LEASE_S, 9)
    assert isinstance(job, RoutedJob)
    await store.commit(Changes(ANN, finish=(job,), enqueue=(replace(job, due_at=NOW + 5),)), NOW)
    assert not await store.claim(NOW, LEASE_S, 9)
    (again,) = await store.claim(NOW + 5, LEASE_S, 9)
    with pytest.raises(LeaseLost):
        await store.commit(Changes(ANN, finish=(job,)), NOW + 5)
    await store.commit(Changes(ANN, finish=(again,)), NOW + 5)
    assert not await rest.claim(NOW + 9 * LEASE_MS, LEASE_S, 9)


async def test_jobs_of_one_store_do_not_starve_those_of_another(store: RoutedStore) -> None:
    for n in range(20):
        await store.commit(Changes(ANN, put=(message(f"m{n}"),), enqueue=(work(f"home{n}"),)), NOW)
    await store.commit(Changes(ANN, put=(fact("f"),), enqueue=(work("elsewhere"),)), NOW)
    found = [*await store.claim(NOW, LEASE_S, 2), *await store.claim(NOW, LEASE_S, 2)]
    assert "elsewhere" in ids_of(found)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("where", ["home", "rest"])
async def test_what_was_learned_is_there_once_wherever_a_commit_is_killed(
    store: RoutedStore, home: Power, rest: Power, where: str, at: int, after: bool
) -> None:
    await store.commit(Changes(ANN, put=(message("m"),), enqueue=(learn(),)), NOW)
    killed = home if where == "home" else rest
    killed.commits_left, killed.after = at, after
    for attempt in range(3):
        for job in await store.claim(NOW + attempt * LEASE_MS, LEASE_S, 9):
            # Each attempt answers differently, as a model may, and with a different id.
            with suppress(Unavailable):
                if job.kind == "learn":
                    await learned(store, job, f"answer {attempt}", f"f{attempt}")
                else:
                    await store.commit(Changes(ANN, finish=(job,)), NOW)
        killed.commits_left = None
    assert len(await listed(store, Filter(ANN, ("fact",)))) == 1
    assert not await store.claim(NOW + 9 * LEASE_MS, LEASE_S, 9)


async def test_the_end_of_a_job_comes_after_all_it_wrote(store: RoutedStore, home: Power, rest: Power) -> None:
    await store.commit(Changes(ANN, put=(fact("f"),), enqueue=(work("j"),)), NOW)
    (job,) = await store.claim(NOW, LEASE_S, 9)
    home.commits_left = 1
    given_up = Changes(ANN, put=(message("failure", layer="failure"),), finish=(job,))
    with pytest.raises(Unavailable):
        await store.commit(given_up, NOW)
    assert ids_of(await rest.claim(NOW + LEASE_MS, LEASE_S, 9)) == ["j"], "it is not lost without a word"


async def test_nothing_is_learned_from_a_message_forgotten_meanwhile(store: RoutedStore, rest: Power) -> None:
    await store.commit(Changes(ANN, put=(message("m"),), enqueue=(learn(),)), NOW)
    (job,) = await store.claim(NOW, LEASE_S, 9)
    await drop(store, "m")
    with refused(Conflict, "needs"):
        await learned(store, job)
    assert await listed(rest, Filter(ANN, ("fact",))) == []


@pytest.mark.parametrize("whole", [False, True], ids=["a message", "everything"])
async def test_a_write_in_flight_when_its_message_is_forgotten_is_refused(whole: bool) -> None:
    home, rest = InMemoryStore(), Paused(InMemoryStore())
    store = RoutedStore(rest, {"conversation": home})
    await store.commit(Changes(ANN, put=(message("m"),), enqueue=(learn("first"), learn())), NOW)
    first, job = await store.claim(NOW, LEASE_S, 9)
    await learned(store, first, id="f1")
    rest.reached, rest.go_on = asyncio.Event(), asyncio.Event()
    writing = asyncio.create_task(learned(store, job, id="f2"))
    await rest.reached.wait()  # the message was seen alive, and the fact is on its way
    rest.reached = None
    await (forget_whole(store, ANN, NOW) if whole else drop(store, "m"))
    rest.go_on.set()
    with refused(Conflict, "needs"):
        await writing
    assert ids_of(await listed(rest, Filter(ANN, ("fact",)))) == ([] if whole else ["f1"])


class Paused:
    """A store whose commits of facts wait until they may go on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reached: asyncio.Event | None = None
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, changes: Changes, now: int) -> int:
        if self.reached and any(record.layer == "fact" for record in changes.put):
            self.reached.set()
            await self.go_on.wait()
        return await self._store.commit(changes, now)


async def test_one_forget_covers_all_stores_and_is_completed_by_calling_it_again(
    store: RoutedStore, home: Power, rest: Power
) -> None:
    await put(store, message("m"), fact("f"))
    await forget_whole(home, ANN, NOW)  # killed here
    assert ids_of(await listed(store, Filter(ANN))) == ["f"]
    assert await forget_whole(store, ANN, NOW) == 1
    assert await listed(store, Filter(ANN)) == []


async def test_a_partial_forget_drops_in_every_store(store: RoutedStore, home: Power, rest: Power) -> None:
    await put(store, message("m"), message("other", session="s2"), message("e", layer="episodic"), fact("f"))
    gone = await store.forget(Filter(ANN, session="s1"), NOW)
    assert (gone.count, gone.done) == (2, True)
    assert ids_of(await listed(store, Filter(ANN))) == ["other", "f"]


async def test_fences_are_visible_to_nobody_and_are_purged_with_the_dead(store: RoutedStore, rest: Power) -> None:
    await store.commit(Changes(ANN, put=(message("m"),), enqueue=(learn(),)), NOW)
    (job,) = await store.claim(NOW, LEASE_S, 9)
    await learned(store, job)
    reader = Reader()
    await reader.catch_up(store)
    assert set(reader.held) == {"m", "f"}
    assert ids_of(await listed(store, Filter(ANN))) == ["m", "f"]
    assert dict((await store.survey(NOW)).records) == {"conversation": 1, "fact": 1}
    assert len(await listed(rest, Filter(ANN, ("fence",)))) == 1
    await purge(store, ANN, NOW + DAY_MS)
    assert await listed(rest, Filter(ANN, ("fence",))) == []


async def test_an_incremental_reader_of_all_stores_ends_equal_to_a_full_read(store: RoutedStore, rest: Power) -> None:
    reader = Reader()
    for n in range(300):
        await put(store, message(f"m{n}"), fact(f"f{n}"))
        if n % 7 == 0:
            await drop(store, f"m{n - 3}", f"f{n - 5}")
        if n % 50 == 0:
            await reader.turn_page(store)
    await purge(store, ANN, NOW + DAY_MS)
    await drop(store, "f290")
    await reader.catch_up(store)
    assert set(reader.held) == set(ids_of(await listed(store, Filter(ANN))))


async def test_when_one_store_starts_over_a_reader_gets_everything_of_every_store(
    store: RoutedStore, rest: Power
) -> None:
    await put(store, message("m"), fact("f"))
    reader = Reader()
    await reader.catch_up(store)
    await forget_whole(rest, ANN, NOW)
    await reader.catch_up(store)
    assert (set(reader.held), reader.resets) == ({"m"}, 2)


async def test_leftovers_of_a_moved_layer_are_not_shown_and_are_dropped_without_loss(
    store: RoutedStore, home: Power, rest: Power
) -> None:
    await put(rest, message("m", "as it was"), fact("f"))
    await put(home, message("m", "as it is"))
    reader = Reader()
    await reader.catch_up(store)
    assert (await one(store, "m")).content == reader.held["m"].content == "as it is"
    assert ids_of(await listed(store, Filter(ANN))) == ["m", "f"]
    await drop(rest, "m")
    await reader.catch_up(store)
    assert set(reader.held) == {"m", "f"}


async def test_a_cursor_of_another_list_is_refused(store: RoutedStore) -> None:
    await put(store, message("m"), fact("f"))
    for cursor in ("7:", "x", "-1:", "0:nonsense"):
        with refused(ValidationError, "after"):
            await store.list(Filter(ANN), NOW, after=cursor)


async def test_work_is_found_in_one_store_while_another_is_unreachable() -> None:
    home, rest = InMemoryStore(), InMemoryStore()
    store = RoutedStore(rest, {"conversation": home})
    await enqueue(store, work("j"))
    await rest.close()
    assert ids_of(await store.claim(NOW, LEASE_S, 9)) == ["j"]
    with pytest.raises(Unavailable):
        await store.claim(NOW, LEASE_S, 9)


class Silent(InMemoryStore):
    """Accepts calls for jobs, and answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.asked = 0

    async def claim(self, now: int, lease_s: float, limit: int) -> Sequence[Job]:
        self.asked += 1
        await self.answers.wait()
        return await super().claim(now, lease_s, limit)


async def test_jobs_do_not_wait_for_those_of_a_store_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.stores.routed.CLAIM_WAIT_S", 0.01)
    home, rest = InMemoryStore(), Silent()
    store = RoutedStore(rest, {"conversation": home})
    await enqueue(store, work("first"))
    await rest.commit(Changes(ANN, put=(fact("f"),), enqueue=(work("late"),)), NOW)
    async with asyncio.timeout(60):
        assert ids_of(await store.claim(NOW, LEASE_S, 9)) == ["first"]
        with pytest.raises(Unavailable, match="the rest"):
            await store.claim(NOW, LEASE_S, 9)
        await enqueue(store, work("second"))
        assert ids_of(await store.claim(NOW, LEASE_S, 9)) == ["second"]
        assert rest.asked == 1, "it is not asked again before it has answered"
        rest.answers.set()
        await asyncio.sleep(0.01)
        (late,) = await store.claim(NOW, LEASE_S, 9)
        await store.commit(Changes(ANN, finish=(late,)), NOW)
        assert not await store.claim(NOW + LEASE_MS - 1, LEASE_S, 9)
    await store.close()


async def test_a_store_that_answers_late_does_not_give_more_jobs_than_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("recollect.stores.routed.CLAIM_WAIT_S", 0.01)
    home, rest = InMemoryStore(), Silent()
    store = RoutedStore(rest, {"conversation": home})
    for n in range(4):
        await rest.commit(Changes(ANN, put=(fact(f"f{n}"),), enqueue=(work(f"late{n}"),)), NOW)
    with pytest.raises(Unavailable):
        await store.claim(NOW, LEASE_S, 4)
    for n in range(4):
        await enqueue(store, work(f"home{n}"))
    rest.answers.set()
    await asyncio.sleep(0.01)
    rounds = [ids_of(await store.claim(NOW, LEASE_S, limit)) for limit in (2, 4, 4, 4)]
    assert [len(found) <= limit for found, limit in zip(rounds, (2, 4, 4, 4), strict=True)] == [True] * 4
    all_of_both = {f"{where}{n}" for where in ("home", "late") for n in range(4)}
    claimed = [id for found in rounds for id in found]
    assert (set(claimed), len(claimed)) == (all_of_both, 8)


async def test_closing_does_not_wait_for_a_store_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.stores.routed.CLAIM_WAIT_S", 0.01)
    store = RoutedStore(Silent(), {"conversation": InMemoryStore()})
    async with asyncio.timeout(60):
        with pytest.raises(Unavailable):
            await store.claim(NOW, LEASE_S, 9)
        await store.close()


async def test_the_keys_of_a_server_do_not_wait_for_a_store_that_holds_none() -> None:
    class Silent(InMemoryStore):
        async def get(self, *_: object) -> list[Record]:
            return await asyncio.Future()

        async def changes(self, *_: object) -> Delta:
            return await asyncio.Future()

    assert {KEYS.org, SEATS.org, QUOTAS} == OF_THE_SERVER
    keys = Keys(RoutedStore(InMemoryStore(), {"conversation": Silent()}), lambda: NOW)
    async with asyncio.timeout(10):
        made, token = await keys.create(org="acme")
        assert await keys.find(token) == await keys.active(made.id) == made
        assert (await keys.revoke(made.id)).revoked_at == NOW
        assert await keys.find(token) is None
