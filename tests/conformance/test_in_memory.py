"""The in-memory store, which is also the model of the others, keeps every promise."""

import pytest

from recollect.testing.conformance import StoreConformance


class TestInMemory(StoreConformance):
    @pytest.fixture
    def store_url(self) -> str:
        return "memory://"
