"""A small world on one seeded loop: everything happens by the seed, much goes wrong, and what must hold holds.

Here a few worlds run, other ones each time. `python -m recollect.testing.simulation` runs as many as it is given.
"""

from __future__ import annotations

import asyncio
import random
from contextvars import copy_context

import pytest

from recollect.testing.simulation.__main__ import main, shrunk, told_of
from recollect.testing.simulation.loop import Life, SeededLoop, Stuck, lives_in
from recollect.testing.simulation.run import errands_of, simulate

WORLDS, SEEDS, ERRANDS = 4, 1_000_000, 35


def seeded(number, call):
    loop = SeededLoop(random.Random(number))
    try:
        return loop.run_until_complete(call), loop
    finally:
        loop.close()


def test_a_few_worlds_in_which_much_goes_wrong_keep_every_promise(seed):
    chance = random.Random(f"worlds {seed}")
    seeds = [chance.randrange(SEEDS) for _ in range(WORLDS)]
    outcomes = [simulate(each, errands_of(each, ERRANDS)) for each in seeds]
    assert [told_of(shrunk(each)) for each in outcomes if each.wrong] == []


def test_the_same_seed_gives_the_same_world_to_the_last_step():
    first, again, other = [simulate(each, errands_of(each, ERRANDS)) for each in (7, 7, 8)]
    assert (first.told, first.steps, first.digest) == (again.told, again.steps, again.digest)
    assert first.digest != other.digest


@pytest.mark.parametrize("fault", ["keys", "partitions", "news"])
def test_a_fault_in_the_library_is_found_within_a_few_worlds(fault):
    assert any(simulate(number, fault=fault).wrong for number in range(20))


def test_a_world_that_fails_is_told_with_few_errands_and_can_be_seen_again(capsys):
    failed = next(each for number in range(20) if (each := simulate(number, fault="partitions")).wrong)
    small = shrunk(failed, "partitions", most=4)
    assert len(small.errands) < len(failed.errands) and small.wrong
    told = told_of(small, "partitions")
    assert f"--seed {small.seed} --errands" in told and small.wrong[0][:50] in told
    numbers = ",".join(str(errand.number) for errand in small.errands)
    given = ["--seed", str(small.seed), "--errands", numbers, "--fault", "partitions", "--trace"]
    assert main(given) == 1
    assert small.digest in capsys.readouterr().out


def test_errands_are_the_same_whatever_else_is_done():
    few, many = errands_of(3, 10), errands_of(3, 60)
    assert few == many[:10]


def test_time_jumps_to_the_next_timer_and_the_order_of_what_is_ready_depends_on_the_seed():
    async def order():
        done = []

        async def act(number):
            await asyncio.sleep(3_600)
            done.append(number)

        await asyncio.gather(*(act(number) for number in range(8)))
        return tuple(done), round(asyncio.get_running_loop().time())

    orders = {seeded(number, order())[0] for number in range(6)}
    assert orders == {seeded(number, order())[0] for number in range(6)}
    assert len(orders) > 1 and {time for _, time in orders} == {3_600}


def test_work_in_a_thread_is_a_later_step():
    async def several():
        return await asyncio.gather(*(asyncio.to_thread(lambda given: given * 2, number) for number in range(3)))

    (answers, loop) = seeded(1, several())
    assert answers == [0, 2, 4] and 0 < loop.time() < 1


def test_what_belongs_to_a_killed_process_never_runs_again_not_even_to_clean_up():
    told, life = [], Life("p1")

    async def lives():
        try:
            told.append("starts")
            await asyncio.sleep(10)
        finally:
            told.append("ends")

    async def world():
        context = copy_context()
        context.run(lives_in.set, life)
        task = asyncio.get_running_loop().create_task(lives(), context=context)
        await asyncio.sleep(1)
        life.kill()
        await asyncio.sleep(100)
        return task.done()

    assert seeded(1, world())[0] is False
    assert told == ["starts"]
    life.bury()


def test_a_world_in_which_nothing_can_ever_happen_again_is_stuck():
    with pytest.raises(Stuck):
        seeded(1, asyncio.Event().wait())
