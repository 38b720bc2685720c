"""A Cluster of three masters and three replicas keeps every promise, even while slots move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

from recollect.testing.conformance import StoreConformance
from recollect.testing.servers.redis import fresh_url

pytestmark = pytest.mark.xdist_group("cluster")


class TestRedisCluster(StoreConformance):
    @pytest.fixture
    def store_url(self) -> Iterator[str]:
        with fresh_url("cluster") as url:
            yield url
