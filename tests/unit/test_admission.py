"""Admission under load: fair, timely, and no turn is lost."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from recollect.errors import Busy
from recollect.server.admission import CALM_S, LINE_SHORT, Admission, Long, Visit

ANN, BOB = b"rk_ann", b"rk_bob"


async def work(admission: Admission, who: bytes, done: asyncio.Event, order: list[bytes]) -> None:
    with Visit(admission, who) as visit:
        await visit.begin()
        order.append(who)
        await done.wait()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_caller_never_takes_the_last_places():
    admission = Admission(places=8)
    held = [Visit(admission, ANN) for _ in range(4)]
    for visit in held:
        visit.__enter__()
    with pytest.raises(Busy), Visit(admission, ANN):
        pass
    with Visit(admission, BOB), Visit(admission, BOB), pytest.raises(Busy), Visit(admission, BOB):
        pass
    for visit in held:
        visit.__exit__(None, None, None)
    with Visit(admission, ANN):
        assert admission.join_line(ANN)


async def test_a_free_turn_goes_to_the_caller_with_the_fewest():
    admission, order = Admission(turns=2), []
    first = asyncio.Event()
    tasks = [asyncio.create_task(work(admission, ANN, first, order)) for _ in range(2)]
    await settle()
    later = asyncio.Event()
    tasks += [asyncio.create_task(work(admission, who, later, order)) for who in (ANN, ANN, ANN, BOB, BOB)]
    await settle()
    assert order == [ANN, ANN]
    first.set()
    await settle()
    assert Counter(order[2:]) == {ANN: 1, BOB: 1}
    later.set()
    await asyncio.gather(*tasks)
    assert Counter(order) == {ANN: 5, BOB: 2}


async def test_a_caller_that_finds_the_line_full_is_refused_at_once_and_others_still_find_room():
    admission, done, order = Admission(turns=1, line=4), asyncio.Event(), []
    tasks = [asyncio.create_task(work(admission, ANN, done, order)) for _ in range(5)]
    await settle()
    refused = [task for task in tasks if task.done()]
    assert len(refused) == 2 and all(isinstance(task.exception(), Busy) for task in refused)
    assert not admission.join_line(ANN) and admission.join_line(BOB)
    admission.leave_line(BOB)
    tasks.append(asyncio.create_task(work(admission, BOB, done, order)))
    await settle()
    done.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert Counter(order) == {ANN: 3, BOB: 1} and admission.join_line(ANN)


async def test_a_caller_that_waited_too_long_is_told_to_come_back_and_leaves_no_trace():
    admission, done, order = Admission(turns=1, wait_s=0.01), asyncio.Event(), []
    first = asyncio.create_task(work(admission, ANN, done, order))
    await settle()
    with pytest.raises(Busy):
        await work(admission, BOB, done, order)
    done.set()
    await first
    await work(admission, BOB, done, order)
    assert order == [ANN, BOB] and admission.join_line(BOB)


async def test_callers_that_gave_up_are_not_kept_while_no_turn_is_returned():
    admission, done, order = Admission(turns=1, wait_s=0.001), asyncio.Event(), []
    holder = asyncio.create_task(work(admission, ANN, done, order))
    await settle()
    for _ in range(20):
        waiting = [asyncio.create_task(work(admission, BOB, done, order)) for _ in range(10)]
        await asyncio.gather(*waiting, return_exceptions=True)
    assert not admission._waiting
    done.set()
    await holder


@pytest.mark.parametrize("steps", range(6))
async def test_no_turn_is_lost_when_a_caller_leaves_the_line_at_any_moment(steps):
    admission, first, done, order = Admission(turns=1), asyncio.Event(), asyncio.Event(), []
    done.set()
    holder = asyncio.create_task(work(admission, ANN, first, order))
    await settle()
    leaving = asyncio.create_task(work(admission, BOB, done, order))
    await settle()
    first.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(holder, leaving, return_exceptions=True)
    await asyncio.wait_for(work(admission, ANN, done, order), 1)


async def test_a_request_that_waits_for_others_holds_no_turn():
    admission, order = Admission(turns=1), []
    with Visit(admission, ANN) as visit:
        await visit.begin()
        visit.rest()
        await visit.begin()  # it has already had its turn
        done = asyncio.Event()
        done.set()
        await asyncio.wait_for(work(admission, BOB, done, order), 1)
    assert order == [BOB]


async def test_callers_with_made_up_names_leave_nothing_behind():
    moment = [0.0]
    admission = Admission(line=1, timer=lambda: moment[0])
    assert admission.join_line(BOB)
    for number in range(1_000):
        moment[0] += 0.01
        assert not admission.join_line(b"made up %d" % number)
    assert len(admission._overflowed) <= 100 * CALM_S + 1


async def test_an_overflowed_line_is_short_for_a_while_then_long_again_even_if_callers_keep_asking():
    now = [100.0]
    admission = Admission(turns=0, line=200, timer=lambda: now[0])
    joined = [admission.join_line(ANN) for _ in range(120)]
    assert joined == [True] * 100 + [False] * 20
    for _ in range(90):
        admission.leave_line(ANN)
    assert [admission.join_line(ANN) for _ in range(30)] == [True] * (LINE_SHORT - 10) + [False] * 16
    now[0] += CALM_S
    assert all(admission.join_line(ANN) for _ in range(30))


async def test_an_org_has_few_long_calls_at_a_time_and_keeps_no_other_org_waiting():
    long, done, running = Long(most=2, wait_s=0.05), asyncio.Event(), Counter()

    async def call(org: str) -> None:
        async with long.one(org):
            running[org] += 1
            await done.wait()

    tasks = [asyncio.create_task(call(org)) for org in ("acme", "acme", "acme", "other")]
    await settle()
    assert running == {"acme": 2, "other": 1}
    with pytest.raises(Busy) as refused:
        await tasks[2]
    assert refused.value.field == "org"
    next_one = asyncio.create_task(call("acme"))
    tasks[0].cancel()
    await settle()
    assert running["acme"] == 3 and not next_one.done()
    done.set()
    await asyncio.gather(*tasks, next_one, return_exceptions=True)
    assert not long._free and not long._here
