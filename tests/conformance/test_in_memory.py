"""The in-memory store, which is also the model for the others, keeps every promise."""

import pytest

from recollect.testing.conformance import StoreConformance


class TestInMemory(StoreConformance):
    @pytest.fixture
    def store_url(self) -> str:
        return "memory://"
