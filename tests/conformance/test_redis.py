"""One Redis 8 and one Valkey 9 keep every promise. `RECOLLECT_TEST_REDIS` names another server to try."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

from recollect.testing.conformance import StoreConformance
from recollect.testing.servers.redis import VARIABLE, RedisServer, clear


@contextmanager
def fresh_url(server: RedisServer | None) -> Iterator[str]:
    """The URL of a store of its own; what is left in it is cleared away."""
    prefix = f"test-{uuid4().hex[:12]}"
    given = os.environ.get(VARIABLE, "")
    url = server.url(prefix) if server else f"{given}{'&' if '?' in given else '?'}prefix={prefix}"
    yield url
    clear(url, prefix)


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer | None]:
    if os.environ.get(VARIABLE):
        yield None
        return
    with RedisServer("redis") as server:
        yield server


@pytest.fixture(scope="module")
def valkey_server() -> Iterator[RedisServer]:
    with RedisServer("valkey") as server:
        yield server


@pytest.mark.xdist_group("redis")
class TestRedis(StoreConformance):
    @pytest.fixture
    def store_url(self, redis_server: RedisServer | None) -> Iterator[str]:
        with fresh_url(redis_server) as url:
            yield url


@pytest.mark.xdist_group("valkey")
class TestValkey(StoreConformance):
    @pytest.fixture
    def store_url(self, valkey_server: RedisServer) -> Iterator[str]:
        with fresh_url(valkey_server) as url:
            yield url
