"""One Redis 8 and one Valkey 9 keep every promise. `RECOLLECT_TEST_REDIS` names another server to try."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

from recollect.testing.conformance import StoreConformance
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
