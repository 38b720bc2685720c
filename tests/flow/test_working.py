"""Working memory: the state of the task at hand, versioned, shared safely, gone after a day without a write."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from recollect.errors import Conflict, TooLarge, ValidationError
from recollect.working import PUSH_KEEP, TEMPLATE


class Trip(BaseModel):
    city: str
    nights: int = 1
    stops: list[str] = []


async def test_a_state_is_empty_until_it_is_set_and_after_it_is_cleared(memory):
    working = memory.user("ann").session("s").working
    assert await working.get() == {}
    assert await working.set({"step": 1, "plan": ["a", {"b": None}]}) == {"step": 1, "plan": ["a", {"b": None}]}
    assert await working.get() == {"step": 1, "plan": ["a", {"b": None}]}
    await working.clear()
    await working.clear()
    assert await working.get() == {}


async def test_a_patch_merges_objects_removes_nulls_and_replaces_the_rest(memory):
    working = memory.user("ann").session("s").working
    await working.set({"user": {"name": "Ann", "role": "admin"}, "tags": [1, 2], "old": True})
    patched = await working.patch({"user": {"role": None, "team": "red"}, "tags": [3], "old": None, "new": 0})
    assert patched == {"user": {"name": "Ann", "team": "red"}, "tags": [3], "new": 0}
    assert await working.get() == patched
    await working.clear()
    assert await working.patch({"a": {"b": 1}}) == {"a": {"b": 1}}, "a patch of nothing is a beginning"


async def test_a_pushed_list_keeps_its_newest_items(memory):
    working = memory.user("ann").session("s").working
    for number in range(PUSH_KEEP + 5):
        await working.push("recent_actions", {"n": number})
    state = await working.get()
    assert [item["n"] for item in state["recent_actions"]] == list(range(5, PUSH_KEEP + 5))
    for name in (["a"], {"a": 1}, 7, None):
        with pytest.raises(ValidationError):
            await working.push(name, 1)
    assert (await working.push("recent_actions", "last", keep=2))["recent_actions"] == [{"n": PUSH_KEEP + 4}, "last"]
    await working.set({"title": "not a list"})
    with pytest.raises(ValidationError) as caught:
        await working.push("title", 1)
    assert caught.value.field == "name"
    assert await working.get() == {"title": "not a list"}


async def test_a_typed_model_goes_in_and_comes_out(memory):
    working = memory.user("ann").session("s").working
    await working.set(Trip(city="Oslo", stops=["fjord"]))
    assert await working.get() == {"city": "Oslo", "nights": 1, "stops": ["fjord"]}
    await working.patch({"nights": 3})
    assert await working.get(Trip) == Trip(city="Oslo", nights=3, stops=["fjord"])


async def test_a_state_that_does_not_fit_the_model_is_named_but_not_quoted(memory):
    working = memory.user("ann").session("s").working
    await working.set({"city": {"secret": "hunter2"}})
    with pytest.raises(ValidationError) as caught:
        await working.get(Trip)
    assert caught.value.field == "model"
    assert "hunter2" not in str(caught.value)
    for wrong in (dict, 5, "Trip"):
        with pytest.raises(ValidationError):
            await working.get(wrong)


async def test_each_write_is_a_version_and_a_stale_one_is_a_conflict(memory):
    working = memory.user("ann").session("s").working
    first = await working.set({"n": 1})
    second = await working.set({"n": 1})
    assert second.version == first.version + 1 == (await working.get()).version
    with pytest.raises(Conflict) as caught:
        await working.set({"n": 2}, version=first.version)
    assert caught.value.field == "version"
    with pytest.raises(Conflict):
        await working.patch({"n": 2}, version=first.version)
    await working.patch({"n": 3}, version=second.version)
    assert await working.get() == {"n": 3}


async def test_a_state_that_was_read_and_is_written_back_must_still_be_the_newest(memory):
    working = memory.user("ann").session("s").working
    await working.set({"n": 1})
    mine, yours = await working.get(), await working.get()
    mine["n"] = 2
    await working.set(mine)
    yours["n"] = 3
    with pytest.raises(Conflict):
        await working.set(yours)
    assert await working.get() == {"n": 2}


async def test_a_state_read_before_a_clear_cannot_come_back(memory):
    working = memory.user("ann").session("s").working
    await working.set({"n": 1})
    old = await working.get()
    await working.clear()
    with pytest.raises(Conflict):
        await working.set(old)
    fresh = await working.set({"n": 1})
    assert fresh.version > old.version
    with pytest.raises(Conflict):
        await working.set(old)


async def test_only_one_writer_can_be_the_first_on_an_empty_state(memory):
    working = memory.user("ann").session("s").working
    results = await asyncio.gather(
        *(working.set({"owner": n}, version=0) for n in range(10)), return_exceptions=True
    )  # fmt: skip
    assert sum(isinstance(result, Conflict) for result in results) == 9


async def test_equal_writes_of_two_processes_at_the_same_moment_are_two_writes(open_memory, tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    states = [(await open_memory(url)).user("ann").session("s").working for _ in range(2)]
    await states[0].set({"count": 0})

    async def count_up(working):
        for _ in range(15):
            while True:
                state = await working.get()
                try:
                    await working.set({"count": state["count"] + 1}, version=state.version)
                    break
                except Conflict:
                    await asyncio.sleep(0)

    await asyncio.gather(*(count_up(working) for working in states))
    assert await states[0].get() == {"count": 30}
    await asyncio.gather(*(working.push("seen", "the same", keep=100) for _ in range(15) for working in states))
    assert (await states[0].get())["seen"] == ["the same"] * 30


async def test_many_writers_lose_no_change(memory):
    working = memory.user("ann").session("s").working
    await asyncio.gather(*(working.push("seen", n, keep=100) for n in range(50)))
    assert sorted((await working.get())["seen"]) == list(range(50))
    await asyncio.gather(*(working.patch({f"key{n}": n}) for n in range(30)))
    assert len(await working.get()) == 31


async def test_a_state_lives_a_day_from_its_last_write(memory, clock):
    working = memory.user("ann").session("s").working
    await working.set({"n": 1})
    clock.advance(hours=23)
    assert await working.get() == {"n": 1}
    await working.patch({"n": 2})
    clock.advance(hours=23, minutes=59)
    assert await working.get() == {"n": 2}, "a write starts the day again"
    clock.advance(minutes=1)
    assert await working.get() == {}, "reading does not"
    assert (await working.set({"n": 3})) == {"n": 3}


async def test_sessions_agents_users_and_orgs_have_separate_states(memory):
    places = [
        memory.user("ann").working,
        memory.user("ann").session("s").working,
        memory.user("ann").session("t").working,
        memory.user("ann").session("s", agent="support").working,
        memory.user("bob").session("s").working,
        memory.user("ann", org="acme").session("s").working,
    ]
    for number, working in enumerate(places):
        await working.set({"n": number})
    assert [(await working.get())["n"] for working in places] == list(range(len(places)))
    await places[1].clear()
    assert [len(await working.get()) for working in places] == [1, 0, 1, 1, 1, 1]


async def test_the_template_is_ready_to_be_filled(memory):
    working = memory.user("ann").session("s").working
    await working.set(TEMPLATE)
    await working.patch({"user": {"name": "Ann"}, "current_page": {"route": "/orders"}})
    state = await working.push("recent_actions", "opened order 7")
    assert state["user"]["name"] == "Ann"
    assert state["recent_actions"] == ["opened order 7"]
    assert TEMPLATE["user"]["name"] is None
    assert set(state) == {"user", "current_page", "recent_actions", "plan_steps", "scratchpad"}


@pytest.mark.parametrize(
    "value", [None, 5, "text", ["a"], {1: "a"}, {"a": float("nan")}, {"a": {1, 2}}, {"a": b"x"}, {"": 1}, Trip]
)
async def test_anything_but_a_json_object_is_refused(memory, value):
    working = memory.user("ann").session("s").working
    await working.set({"kept": True})
    for write in (working.set, working.patch):
        with pytest.raises(ValidationError) as caught:
            await write(value)
        assert caught.value.field.startswith("working")
    assert await working.get() == {"kept": True}


async def test_a_state_has_a_maximum_size(memory):
    working = memory.user("ann").session("s").working
    await working.set({"text": "x" * 60_000})
    with pytest.raises(TooLarge):
        await working.patch({"more": "x" * 10_000})
    with pytest.raises(TooLarge):
        await working.push("list", "x" * 10_000)
    assert set(await working.get()) == {"text"}


async def test_the_caller_may_modify_a_state_after_passing_it_in(memory):
    working = memory.user("ann").session("s").working
    mine = {"list": [1]}
    await working.set(mine)
    mine["list"].append(2)
    assert await working.get() == {"list": [1]}
    (await working.get())["list"].append(3)
    assert await working.get() == {"list": [1]}


async def test_the_state_goes_into_the_context(memory):
    chat = memory.user("ann").session("s")
    await chat.working.set({"current_page": "/orders/7", "step": "choosing a size"})
    context = await chat.get_context("What was I doing?")
    assert "choosing a size" in context.system
    assert "working" in [section.name for section in context.sections]
