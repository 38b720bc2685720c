"""A Cluster of three masters and three replicas keeps every promise, also while slots move."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

from recollect.testing.conformance import StoreConformance
from recollect.testing.servers.redis import RedisCluster

pytestmark = pytest.mark.xdist_group("redis cluster")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster("valkey") as cluster:
        yield cluster


class TestRedisCluster(StoreConformance):
    @pytest.fixture
    def store_url(self, cluster: RedisCluster) -> Iterator[str]:
        yield cluster.url(f"test-{uuid4().hex[:12]}")
        cluster.flush()
