"""Counting a whole store: for every caller while it is quick, and seldom when it is not."""

from __future__ import annotations

import asyncio
import logging

import pytest

from recollect.errors import Unavailable
from recollect.server.surveys import RESTS, Surveys
from recollect.stores.contract import Survey


class Counter:
    """A store whose counts take as long as it is told, on its own clock."""

    def __init__(self, took_s=0.0):
        self.now, self.took_s, self.counts = 1_000.0, took_s, 0
        self.failure = None
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.surveys = Surveys(self.count, timer=lambda: self.now)

    async def count(self):
        self.counts += 1
        number = self.counts
        await self.may_end.wait()
        self.now += self.took_s
        if self.failure:
            raise self.failure
        return Survey(number, {}, 0, 0, None)

    async def asked(self):
        """The count a caller gets, once anything it started in the background has run."""
        told = (await self.surveys.latest()).partitions
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return told


async def test_a_quick_count_is_made_for_every_caller():
    store = Counter(took_s=0.05)
    assert [await store.asked() for _ in range(3)] == [1, 2, 3]
    assert store.surveys.age_s == 0


async def test_a_slow_count_is_repeated_only_after_a_rest():
    store = Counter(took_s=2.0)
    assert [await store.asked() for _ in range(3)] == [1, 1, 1] and store.counts == 1
    store.now += RESTS * 2.0 - 1
    assert await store.asked() == 1 and store.counts == 1
    assert store.surveys.age_s == pytest.approx(RESTS * 2.0 + 1)
    store.now += 2
    assert await store.asked() == 1, "nobody waits for the next one"
    assert (await store.asked(), store.counts) == (2, 2)


async def test_a_count_that_has_become_quick_is_made_for_every_caller_again():
    store = Counter(took_s=2.0)
    await store.asked()
    store.now, store.took_s = store.now + 1_000, 0.0
    await store.asked()
    assert [await store.asked() for _ in range(2)] == [3, 4]


async def test_a_caller_that_leaves_does_not_stop_a_count_and_others_share_it():
    store = Counter(took_s=20.0)
    store.may_end.clear()
    impatient = asyncio.ensure_future(store.surveys.latest())
    await asyncio.sleep(0)
    impatient.cancel()
    patient = asyncio.ensure_future(store.surveys.latest())
    await asyncio.sleep(0)
    store.may_end.set()
    assert ((await patient).partitions, store.counts) == (1, 1)


async def test_a_failure_is_reported_to_callers_and_not_hidden_by_an_older_count():
    store = Counter(took_s=2.0)
    await store.asked()
    store.now, store.failure = store.now + 1_000, Unavailable("away")
    assert await store.asked() == 1
    with pytest.raises(Unavailable):
        await store.surveys.latest()
    store.failure = None
    assert await store.asked() == 4


async def test_closing_cancels_a_running_count_silently(caplog):
    store = Counter()
    store.may_end.clear()
    asked = asyncio.ensure_future(store.surveys.latest())
    await asyncio.sleep(0)
    with caplog.at_level(logging.WARNING):
        await store.surveys.close()
    await asyncio.wait([asked])
    assert asked.cancelled() and not caplog.records
    await store.surveys.close()
