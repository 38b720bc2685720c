"""Unreachable servers: reported at the start with what to do, replaced only on request, found again later."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from recollect import Memory
from recollect.errors import Unavailable
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.returning import BACK_S, SERVERS, TOLD_S, go_and_return

NOWHERE = {
    "postgresql": "postgresql://ann:s3cret@127.0.0.1:1/db",
    "redis": "redis://:s3cret@127.0.0.1:1/0",
    "cluster": "redis+cluster://:s3cret@127.0.0.1:1",
    "cosmos": "cosmos://127.0.0.1:1/recollect/memories?key=czNjcmV0&emulator=yes",
}
KINDS = [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in SERVERS]


def opened(url, **changes):
    given = {"embedder": HashingEmbedder(), "worker": False, "busy_timeout_s": 1.0} | changes
    return Memory.open(url, **given)


@pytest.mark.parametrize("kind", NOWHERE)
async def test_a_store_unreachable_at_the_start_is_reported_with_what_to_do(kind):
    with pytest.raises(Unavailable) as caught:
        async with asyncio.timeout(30):
            await opened(NOWHERE[kind]).start()
    told = str(caught.value)
    assert re.search(r"check|is it running|that it runs", told, re.I)
    assert "s3cret" not in told
    assert "czNjcmV0" not in told


@pytest.mark.parametrize("kind", NOWHERE)
async def test_with_a_fallback_it_starts_in_memory_and_says_so_loudly(kind, caplog):
    with caplog.at_level(logging.WARNING, logger="recollect"):
        async with opened(NOWHERE[kind], fallback="memory") as memory:
            assert "in memory, because" in memory.describe()["store"]["fallback"]
            await memory.user("ann").add_memory("kept for now")
            assert len((await memory.user("ann").list_memories())[0]) == 1
    assert "MEMORIES ARE NOT KEPT" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_lost_later_is_reported_as_unavailable_and_used_again_when_it_is_back(kind):
    seen = await go_and_return(kind)
    print(f"{kind}: {seen}")
    assert max(seen.told_s) < TOLD_S
    assert seen.back_s < BACK_S
    assert seen.problems == ()
