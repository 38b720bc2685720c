"""The SQLite store keeps every promise."""

from pathlib import Path

import pytest

from recollect.testing.conformance import StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/recollect.db"
