"""The SQLite store keeps every promise."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from recollect.stores import open_store
from recollect.stores.sqlite import living_by_ids
from recollect.testing.conformance import StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/recollect.db"


@pytest.mark.parametrize("count", [1, 3, 90])
async def test_records_are_looked_up_by_their_ids_however_many_a_user_has(tmp_path: Path, count: int):
    path = tmp_path / "plan.db"
    store = await open_store(f"sqlite:///{path}")
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        query = f"explain query plan {living_by_ids(count)}"
        plan = [row[3] for row in db.execute(query, (1, 1, 0, *(str(n) for n in range(count))))]
    assert plan == ["SEARCH records USING INDEX records_id (part=? AND id=?)"]
