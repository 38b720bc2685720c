"""One Redis 8 and one Valkey 9 keep every promise. `RECOLLECT_TEST_REDIS` names another server to try."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

import redis

from recollect.filters import Filter
from recollect.stores import open_store
from recollect.stores.contract import OtherVersion, forget_whole, is_veil
from recollect.testing.conformance import StoreConformance
from recollect.testing.conformance.stage import ANN, BOB, NOW, mark_of, message, opened, put
from recollect.testing.servers.redis import fresh_url


@pytest.mark.xdist_group("redis")
class TestRedis(StoreConformance):
    @pytest.fixture
    def store_url(self) -> Iterator[str]:
        with fresh_url("redis") as url:
            yield url


@pytest.mark.xdist_group("valkey")
class TestValkey(StoreConformance):
    @pytest.fixture
    def store_url(self) -> Iterator[str]:
        with fresh_url("valkey") as url:
            yield url


@pytest.mark.xdist_group("redis")
async def test_a_store_of_a_newer_layout_is_refused_and_not_touched():
    with fresh_url("redis") as url, redis.Redis.from_url(url.partition("?")[0]) as client:
        async with opened(url):
            pass
        home = f"{url.rpartition('prefix=')[2]}:{{0}}:store"
        client.hset(home, "layout", 2)
        as_it_was = client.hgetall(home)
        with pytest.raises(OtherVersion, match="upgrade Recollect"):
            await open_store(url)
        assert client.hgetall(home) == as_it_was


@pytest.mark.xdist_group("redis")
async def test_a_user_erased_by_an_earlier_version_loses_the_name_at_the_next_upkeep():
    with fresh_url("redis") as url:
        async with opened(url) as store:
            await put(store, message("a"))
            await put(store, message("b", partition=BOB))
            await forget_whole(store, ANN, NOW)
            before = await mark_of(store)
            name_again(url)
            assert ANN in await store.partitions()
            for each in (ANN, BOB):
                await store.forget(Filter(each, dead_before=NOW), NOW)
            assert [each for each in await store.partitions() if not is_veil(each)] == [BOB]
            assert await mark_of(store) == before


@pytest.mark.xdist_group("redis")
async def test_a_user_who_returned_after_an_erase_keeps_the_name_even_if_everything_is_purged():
    with fresh_url("redis") as url:
        async with opened(url) as store:
            await put(store, message("a"))
            await forget_whole(store, ANN, NOW)
            await put(store, message("b", expires_at=NOW + 1))
            await store.forget(Filter(ANN, dead_before=NOW + 10), NOW + 10)
            assert list(await store.partitions()) == [ANN]


def name_again(url: str) -> None:
    """Put the erased Ann back under her name, as versions before veils left it."""
    prefix = url.rpartition("prefix=")[2]
    with redis.Redis.from_url(url.partition("?")[0]) as client:
        for key in client.scan_iter(f"{prefix}:*%7Berased%7D*"):
            client.rename(key, b":".join((*key.split(b":")[:-1], b"acme/ann")))
        for listed in client.scan_iter(f"{prefix}:*:partitions"):
            for member in client.zrange(listed, 0, -1):
                if b"{erased}" in member:
                    client.zrem(listed, member)
                    client.zadd(listed, {b"acme\0ann": 0})
