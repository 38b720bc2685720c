"""The entity cache: read through a loader once, pushed, invalidated, found by name; the newer data always wins."""

from __future__ import annotations

import asyncio
import threading

import pytest

from recollect.entities import DATA_BYTES, FOUND_MAX, EntityCache, Loads
from recollect.errors import TooLarge, Unavailable, ValidationError
from recollect.records import Partition
from recollect.stores.contract import forget_whole


class Shop:
    """A loader that counts its calls and can be held back."""

    def __init__(self, **customers):
        self.customers = customers
        self.calls = 0
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, type, id):
        self.calls += 1
        self.asked.set()
        found = self.customers.get(id)
        await self.open.wait()
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def cache(ledger):
    return EntityCache(ledger, "acme")


async def test_an_entity_is_loaded_once_and_lives_an_hour(cache, clock):
    shop = Shop(a={"name": "Acme GmbH", "plan": "gold"})
    for _ in range(3):
        assert await cache.get("customer", "a", loader=shop) == {"name": "Acme GmbH", "plan": "gold"}
    assert shop.calls == 1
    assert await cache.get("customer", "a") == {"name": "Acme GmbH", "plan": "gold"}
    clock.advance(minutes=59, seconds=59)
    assert await cache.get("customer", "a") is not None
    clock.advance(seconds=1)
    assert await cache.get("customer", "a") is None
    await cache.get("customer", "a", loader=shop, ttl_s=5)
    assert shop.calls == 2
    clock.advance(seconds=5)
    assert await cache.get("customer", "a") is None


async def test_one_load_serves_all_concurrent_callers_even_through_other_handles(ledger):
    loads, shop = Loads(), Shop(a={"n": 1})
    shop.open.clear()
    caches = [EntityCache(ledger, "acme", loads=loads) for _ in range(5)]
    waiting = [asyncio.create_task(each.get("customer", "a", loader=shop)) for each in caches * 20]
    await shop.asked.wait()
    shop.open.set()
    assert await asyncio.gather(*waiting) == [{"n": 1}] * 100
    assert shop.calls == 1


async def test_one_caller_cannot_change_what_another_gets(cache):
    shop = Shop(a={"n": 1})
    first, second = await asyncio.gather(*(cache.get("customer", "a", loader=shop) for _ in range(2)))
    first["n"] = 2
    assert second == {"n": 1}
    assert await cache.get("customer", "a") == {"n": 1}


async def test_a_caller_that_stops_waiting_does_not_stop_the_load_for_others(cache):
    shop = Shop(a={"n": 1})
    shop.open.clear()
    first, second = (asyncio.create_task(cache.get("customer", "a", loader=shop)) for _ in range(2))
    await shop.asked.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    shop.open.set()
    assert await second == {"n": 1}
    assert shop.calls == 1


async def test_closing_ends_a_load_and_tells_those_who_wait_for_it(open_memory):
    memory, shop = await open_memory(), Shop(a={"n": 1})
    shop.open.clear()
    waits = asyncio.create_task(memory.entities().get("customer", "a", loader=shop))
    await shop.asked.wait()
    await memory.close()
    with pytest.raises(Unavailable, match="the memory is closed"):
        await waits
    assert shop.calls == 1


async def test_closing_ends_a_load_whose_caller_has_left(open_memory):
    memory, shop = await open_memory(), Shop(a={"n": 1})
    shop.open.clear()
    others = asyncio.all_tasks()
    left = asyncio.create_task(memory.entities().get("customer", "a", loader=shop))
    await shop.asked.wait()
    left.cancel()
    await asyncio.wait([left])
    await memory.close()
    assert asyncio.all_tasks() <= others, "nothing of the load is left"


async def test_a_load_that_cancels_itself_is_an_error_and_no_cancellation_of_its_callers(cache):
    async def gives_up(type, id):
        raise asyncio.CancelledError

    with pytest.raises(Unavailable, match="loader"):
        await cache.get("customer", "a", loader=gives_up)
    assert await cache.get("customer", "a", loader=Shop(a={"n": 1})) == {"n": 1}


async def test_a_failing_loader_fails_for_all_waiting_callers_and_is_asked_again(cache):
    shop = Shop(a=OSError("down"))
    shop.open.clear()
    asking = [asyncio.create_task(cache.get("customer", "a", loader=shop)) for _ in range(4)]
    await shop.asked.wait()
    await asyncio.sleep(0.2)  # until all of them wait for the one that loads
    shop.open.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in results] == [OSError] * 4
    assert shop.calls == 1
    shop.customers["a"] = {"n": 1}
    assert await cache.get("customer", "a", loader=shop) == {"n": 1}


async def test_a_miss_is_remembered_for_a_short_while(cache, clock):
    shop = Shop()
    assert await cache.get("customer", "ghost", loader=shop) is None
    assert await cache.get("customer", "ghost", loader=shop) is None
    assert shop.calls == 1
    assert await cache.list() == []
    clock.advance(seconds=30)
    shop.customers["ghost"] = {"n": 1}
    assert await cache.get("customer", "ghost", loader=shop) == {"n": 1}


async def test_a_push_ends_a_miss(cache):
    assert await cache.get("customer", "new", loader=Shop()) is None
    await cache.put("customer", "new", {"n": 1})
    assert await cache.get("customer", "new") == {"n": 1}


async def test_a_plain_function_loads_in_a_thread(cache):
    threads = []

    def load(type, id):
        threads.append(threading.current_thread())
        return {"type": type, "id": id}

    assert await cache.get("order", "7", loader=load) == {"type": "order", "id": "7"}
    assert threads[0] is not threading.main_thread()


@pytest.mark.parametrize("known", [None, {"n": 0}])
async def test_a_push_during_a_load_wins_over_it(cache, clock, known):
    if known:
        await cache.put("customer", "a", known, ttl_s=1)
        clock.advance(seconds=1)
    shop = Shop(a={"n": "old"})
    shop.open.clear()
    waiting = asyncio.create_task(cache.get("customer", "a", loader=shop))
    await shop.asked.wait()
    await cache.put("customer", "a", {"n": "pushed"})
    shop.open.set()
    assert await waiting == {"n": "pushed"}
    assert await cache.get("customer", "a") == {"n": "pushed"}


@pytest.mark.parametrize("what", [(), ("customer",), ("customer", "a")])
async def test_an_entity_loaded_during_an_invalidation_is_returned_but_not_kept(cache, ledger, what):
    shop = Shop(a={"n": "old"})
    shop.open.clear()
    waiting = asyncio.create_task(cache.get("customer", "a", loader=shop))
    await shop.asked.wait()
    await EntityCache(ledger, "acme").invalidate(*what)
    shop.customers["a"] = {"n": "new"}
    shop.open.set()
    assert await waiting == {"n": "old"}
    assert await cache.get("customer", "a") is None
    assert await cache.get("customer", "a", loader=shop) == {"n": "new"}
    assert await cache.get("customer", "a") == {"n": "new"}


async def test_an_entity_loaded_while_its_org_is_erased_is_returned_but_not_kept(cache, ledger):
    shop = Shop(**{"42": {"plan": "gold"}})
    shop.open.clear()
    load = asyncio.create_task(cache.get("customer", "42", loader=shop))
    await shop.asked.wait()
    await forget_whole(ledger.store, Partition("acme", ""), ledger.clock())
    shop.open.set()
    assert await load == {"plan": "gold"}
    assert await cache.list() == []


async def test_invalidating_another_type_does_not_keep_a_load_from_being_cached(cache):
    shop = Shop(a={"n": 1})
    shop.open.clear()
    waiting = asyncio.create_task(cache.get("customer", "a", loader=shop))
    await shop.asked.wait()
    await cache.invalidate("order")
    await cache.invalidate("customer", "b")
    shop.open.set()
    await waiting
    assert await cache.get("customer", "a") == {"n": 1}


async def test_one_entity_a_type_or_everything_can_be_invalidated(cache):
    for type in ("customer", "order"):
        for number in range(100):
            await cache.put(type, str(number), {"n": number})
    assert await cache.invalidate("customer", "1") == 1
    assert await cache.invalidate("customer", "1") == 0
    assert len(await cache.list("customer")) == 99
    assert await cache.invalidate("customer") == 99
    assert len(await cache.list()) == 100
    assert await cache.invalidate() == 100
    assert await cache.list() == []
    await cache.put("order", "1", {"n": 2})
    assert [each.data for each in await cache.list()] == [{"n": 2}]


async def test_orgs_types_and_ids_stay_apart(ledger, cache):
    pairs = [("a:b", "c"), ("a", "b:c"), ("1", "11"), ("11", "1"), ("*", "%"), ("stamp", "a"), ("customer", "x")]
    for place, (type, id) in enumerate(pairs):
        await cache.put(type, id, {"n": place})
    assert [await cache.get(type, id) for type, id in pairs] == [{"n": place} for place in range(len(pairs))]
    await cache.invalidate("a")
    assert [(each.type, each.id) for each in await cache.list()] == [pair for pair in pairs if pair[0] != "a"]
    other = EntityCache(ledger, "other")
    assert await other.get("customer", "x") is None
    assert await other.invalidate() == 0
    assert await cache.get("customer", "x") == {"n": 6}


async def test_two_pushes_at_once_leave_one_of_them_whole(cache):
    await asyncio.gather(*(cache.put("customer", "a", {"n": n, "same": n}) for n in range(20)))
    held = await cache.get("customer", "a")
    assert held["n"] == held["same"]
    (only,) = await cache.list()
    assert only.data == held


async def test_an_entity_reads_as_one_line(cache):
    held = await cache.put("customer", "42", {"name": "Acme GmbH", "plan": "gold", "active": True, "tags": ["x"]})
    assert held.content == "customer 42: Acme GmbH, plan: gold, active: true"
    held = await cache.put("order", "7", {"total": 12.5, "note": "word\n" * 100}, name="Big order")
    assert held.content.startswith("order 7: Big order, total: 12.5, note: word word")
    assert "\n" not in held.content
    assert (await cache.put("x", "y", {})).content == "x y"
    assert held.to_dict()["expires_at"] == "2026-03-01T13:00:00Z"


async def test_a_question_names_entities_by_name_alias_or_id(cache):
    await cache.put("customer", "42", {"name": "Acme GmbH"}, aliases=["Acme"])
    await cache.put("customer", "C-1007", {"name": "Al"})
    await cache.put("customer", "9", {"name": "株式会社サクラ"})
    await cache.put("order", "123456", {"total": 1})

    async def named(text):
        return [each.id for each in await cache.find(text)]

    assert await named("What does acme pay?") == ["42"]
    assert await named("Is ACME   GmbH, a customer?") == ["42"]
    assert await named("Acmeville is nice") == []
    assert await named("I have 42 apples") == []
    assert await named("Call customer 42 now") == ["42"]
    assert await named("order 123456 of c-1007") == ["123456", "C-1007"]
    assert await named("Ask Al about it") == ["C-1007"]
    assert await named("et al agree") == []
    assert await named("昨日株式会社サクラに電話した") == ["9"]
    for number in range(FOUND_MAX + 2):
        await cache.put("team", f"t-{number}", {"name": "Everyone"})
    assert len(await named("everyone")) == FOUND_MAX


async def test_misses_and_stamps_are_never_found(cache):
    await cache.get("customer", "ghost", loader=Shop())
    await cache.put("customer", "gone", {"name": "Gone"})
    await cache.invalidate("customer", "gone")
    assert await cache.find("ghost and gone") == []
    assert await cache.list() == []


@pytest.mark.parametrize("ttl", [0, -1, 1e10, float("nan"), float("inf"), "5", True])
async def test_an_impossible_ttl_is_refused(cache, ttl):
    with pytest.raises(ValidationError) as caught:
        await cache.put("customer", "a", {}, ttl_s=ttl)
    assert caught.value.field == "ttl_s"


@pytest.mark.parametrize(
    ("arguments", "named", "field"),
    [
        (("", "a", {}), {}, "type"),
        (("customer", None, {}), {}, "id"),
        (("customer", "a\n", {}), {}, "id"),
        (("customer", "a", ["x"]), {}, "data"),
        (("customer", "a", {"n": float("nan")}), {}, "data.n"),
        (("customer", "a", {}), {"name": 5}, "name"),
        (("customer", "a", {}), {"aliases": "Acme"}, "aliases"),
        (("customer", "a", {}), {"aliases": ["x"] * 21}, "aliases"),
    ],
)
async def test_bad_input_is_refused_by_name(cache, arguments, named, field):
    with pytest.raises(ValidationError) as caught:
        await cache.put(*arguments, **named)
    assert caught.value.field == field
    assert await cache.list() == []


async def test_too_much_data_or_a_wrong_loader_is_refused_and_nothing_is_kept(cache):
    with pytest.raises(TooLarge):
        await cache.put("customer", "a", {"text": "x" * DATA_BYTES})
    with pytest.raises(ValidationError) as caught:
        await cache.get("customer", "a", loader=Shop(a="text"))
    assert caught.value.field == "data"
    with pytest.raises(ValidationError) as caught:
        await cache.get("customer", "a", loader=5)
    assert caught.value.field == "loader"
    with pytest.raises(ValidationError) as caught:
        await cache.invalidate(id="a")
    assert caught.value.field == "type"
    assert await cache.list() == []
