"""The SQLite store keeps every promise."""

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from recollect import Memory
from recollect.errors import Corrupt
from recollect.filters import Filter
from recollect.layers import PUBLIC_LAYERS
from recollect.records import Changes, Job, Partition, Record, Vector
from recollect.stores import open_store, sqlite, sqlite_file
from recollect.stores.contract import Mark, Reach, forget_whole, is_veil
from recollect.stores.sqlite import _select, living_by_ids
from recollect.stores.sqlite_file import MIGRATIONS
from recollect.testing.conformance import StoreConformance
from recollect.testing.conformance.stage import ANN, BOB, NOW, mark_of, message, one, opened, put


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


@pytest.mark.parametrize("session", [None, "monday"])
async def test_a_page_of_many_layers_is_read_in_order_and_never_sorted(tmp_path: Path, session: str | None):
    path = tmp_path / "plan.db"
    store = await open_store(f"sqlite:///{path}")
    await store.close()
    query, values = _select(1, 1, PUBLIC_LAYERS, session, (3, 0), None, NOW, newest_first=True, count=21)
    with closing(sqlite3.connect(path)) as db:
        plan = [row[3] for row in db.execute(f"explain query plan {query}", values)]
    assert any("SEARCH records USING INDEX" in step for step in plan)
    assert not [step for step in plan if "TEMP B-TREE" in step or step.startswith("SCAN")]


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201])
async def test_all_records_of_a_user_come_in_one_page_few_or_many(tmp_path: Path, count: int):
    async with opened(f"sqlite:///{tmp_path}/pages.db") as store:
        await put(store, message("gone", partition=BOB))
        for start in range(0, count, 90):
            await put(store, *(message(f"m{number}") for number in range(start, min(start + 90, count))))
        delta = await store.changes(ANN, None)
        assert [record.id for record in delta.put] == [f"m{number}" for number in range(count)]
        assert (delta.reset, delta.more) == (True, False)
        assert (await store.changes(ANN, delta.mark)).put == ()
        await store.commit(Changes(ANN, drop=("m0",)), NOW) if count else None
        assert (await store.changes(ANN, delta.mark)).dropped == (("m0",) if count else ())


async def test_a_survey_counts_only_living_records(tmp_path: Path):
    async with opened(f"sqlite:///{tmp_path}/counted.db") as store:
        await put(store, message("gone with ann"))
        await forget_whole(store, ANN, NOW)
        await put(store, message("a"), message("b"), message("c").with_(expires_at=NOW + 10))
        await put(store, message("d", partition=BOB))
        await store.commit(Changes(ANN, drop=("b",)), NOW)
        assert (await store.survey(NOW)).records == {"conversation": 3}
        assert (await store.survey(NOW + 10)).records == {"conversation": 2}
        await store.commit(Changes(ANN, drop=("a",)), NOW)
        await forget_whole(store, BOB, NOW)
        assert (await store.survey(NOW + 10)).records == {}


async def test_due_work_of_one_user_is_claimed_together_longest_waiting_user_first(tmp_path: Path):
    async with opened(f"sqlite:///{tmp_path}/jobs.db") as store:
        for due, (id, partition) in enumerate((("a1", ANN), ("b1", BOB), ("a2", ANN), ("b2", BOB))):
            await store.commit(Changes(partition, enqueue=(Job(id, partition, "enrich", due_at=due),)), NOW)
        assert [job.id for job in await store.claim(NOW, 60, 3)] == ["a1", "a2", "b1"]
        assert [job.id for job in await store.claim(NOW, 60, 3)] == ["b2"]


async def test_one_look_tells_for_several_users_whether_anything_was_written_by_anyone(tmp_path: Path):
    async with opened(f"sqlite:///{tmp_path}/marks.db") as store, opened(f"sqlite:///{tmp_path}/marks.db") as other:
        await put(store, message("a"))
        marks = {partition: (await store.changes(partition, None)).mark for partition in (ANN, BOB)}
        assert store.unchanged(marks)
        await put(other, message("b", partition=BOB))
        assert not store.unchanged(marks)
        assert store.unchanged({ANN: marks[ANN]})
        marks[BOB] = (await store.changes(BOB, marks[BOB])).mark
        assert store.unchanged(marks)
        await forget_whole(other, ANN, NOW)
        assert not store.unchanged(marks)


@pytest.mark.parametrize("gone", [0, 4_050])
@pytest.mark.parametrize("sign", [1, -1])
async def test_a_search_over_an_org_finds_what_is_left_however_much_was_dropped(tmp_path: Path, gone: int, sign: int):
    chance = np.random.default_rng(3)
    asked = Vector("m", (sign * np.abs(chance.normal(size=64))).astype("<f2").tobytes())

    def some(name: str, count: int) -> list[Record]:
        vectors = chance.normal(size=(count, 64)).astype("<f2")
        return [message(f"{name}.{number}", vector=Vector("m", each.tobytes())) for number, each in enumerate(vectors)]

    async with opened(f"sqlite:///{tmp_path}/codes.db") as store:
        for start in range(0, gone, 90):
            records = some(f"gone{start}", 90)
            await put(store, *records)
            await store.commit(Changes(ANN, drop=tuple(record.id for record in records)), NOW)
        await put(store, *some("left", 20))
        found = await store.search(Reach(ANN.org), text=None, vector=asked, limit=20, now=NOW)
        assert {each.id for each in found["vector"]} == {f"left.{number}" for number in range(20)}
        await store.commit(Changes(ANN, drop=tuple(f"left.{number}" for number in range(20))), NOW)
        assert (await store.search(Reach(ANN.org), text=None, vector=asked, limit=20, now=NOW))["vector"] == []


async def test_a_file_that_became_unreadable_is_not_left_open_at_every_attempt(tmp_path: Path):
    path = tmp_path / "broken.db"
    async with opened(f"sqlite:///{path}") as store:
        with path.open("r+b") as file:
            header = file.read(16)
            file.seek(0)
            file.write(b"?" * 16)
        files = []
        for number in range(10):
            with pytest.raises(Corrupt):
                await put(store, message(f"m{number}"))
            with pytest.raises(Corrupt):
                await store.list(Filter(ANN), NOW)
            files.append(len(list(Path("/proc/self/fd").iterdir())))
        assert files[-1] <= files[2], "SQLite itself keeps one or two, to open them again"
        with path.open("r+b") as file:
            file.write(header)
        await put(store, message("again"))


async def test_only_a_limited_number_of_heads_is_cached_while_nobody_writes(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sqlite, "HEADS_MAX", 10)
    async with opened(f"sqlite:///{tmp_path}/quiet.db") as store:
        for number in range(100):
            await store.changes(Partition("acme", f"user{number}"), None)
        assert len(store._heads) <= 11


async def test_only_idempotency_keys_given_by_a_caller_are_stored(tmp_path: Path):
    path = tmp_path / "keys.db"
    async with Memory.open(f"sqlite:///{path}", worker=False) as memory:
        ann = memory.user("ann")
        await ann.add_memory("The tea is green.")
        await ann.add_memory("The sea is grey.", idempotency_key="k1")
        await memory.work()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from once").fetchone() == (1,)


async def test_a_user_erased_before_veils_existed_loses_the_name_when_the_file_is_migrated(
    tmp_path: Path,
):
    path = tmp_path / "old.db"
    async with opened(f"sqlite:///{path}") as store:
        await put(store, message("a"))
        await put(store, message("b", partition=BOB))
        await forget_whole(store, ANN, NOW)
        before = await mark_of(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("update partitions set usr = 'ann' where usr like '{erased}%'")
        db.execute("pragma user_version = 1")
    async with opened(f"sqlite:///{path}") as store:
        assert [each for each in await store.partitions() if not is_veil(each)] == [BOB]
        assert await mark_of(store) == before
        await put(store, message("a", "new"))
        assert (await mark_of(store)).revision == before.revision + 1


async def test_a_user_erased_by_a_process_without_veils_loses_the_name_at_the_next_upkeep(tmp_path: Path):
    path = tmp_path / "shared.db"
    async with opened(f"sqlite:///{path}") as store:
        await put(store, message("a"))
        await put(store, message("b", partition=BOB))
        await forget_whole(store, ANN, NOW)
        before = await mark_of(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("update partitions set usr = 'ann' where usr like '{erased}%'")
        for each in (ANN, BOB):
            await store.forget(Filter(each, dead_before=NOW), NOW)
        assert [each for each in await store.partitions() if not is_veil(each)] == [BOB]
        assert await mark_of(store) == before


async def test_a_file_of_the_first_version_can_be_read_and_copied_unmigrated(tmp_path: Path):
    path, copy = tmp_path / "old.db", tmp_path / "copy.db"
    async with opened(f"sqlite:///{path}") as store:
        await put(store, message("a"))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma user_version = 1")
    as_it_was = path.read_bytes()
    async with opened(f"sqlite:///{path}?mode=ro") as store:
        assert store.describe()["schema_version"] == 1
        assert (await one(store, "a")).content == "hello"
        await store.backup(copy)
    assert path.read_bytes() == as_it_was
    async with opened(f"sqlite:///{copy}") as store:
        assert store.describe()["schema_version"] == len(MIGRATIONS)
        assert (await one(store, "a")).content == "hello"


async def test_what_is_kept_of_a_user_is_of_the_very_state_that_it_was_made_of(tmp_path: Path):
    async with opened(f"sqlite:///{tmp_path}/kept.db") as store:
        assert await store.kept(ANN) is None
        assert not await store.keep(ANN, Mark(1, 0, 0), b"of nobody")
        await put(store, message("a"), message("b"))
        seen = await mark_of(store)
        assert await store.keep(ANN, seen, b"of a and b")
        assert (await store.kept(ANN), await store.kept(BOB)) == (b"of a and b", None)
        await put(store, message("c"))
        assert not await store.keep(ANN, seen, b"late")
        assert await store.kept(ANN) == b"of a and b"
        await store.commit(Changes(ANN, drop=("a",)), NOW)
        assert await store.kept(ANN) is None
        assert not await store.keep(ANN, seen, b"too late")
        assert await store.kept(ANN) is None


async def test_a_place_to_keep_something_is_made_when_it_is_needed_and_is_no_new_version_of_the_file(tmp_path: Path):
    path = tmp_path / "kept.db"

    def tables():
        with closing(sqlite3.connect(path)) as db:
            return {row[0] for row in db.execute("select name from sqlite_master")}

    async with opened(f"sqlite:///{path}") as store:
        await put(store, message("a"))
        before = tables()
        async with opened(f"sqlite:///{path}?mode=ro") as reader:
            assert await reader.kept(ANN) is None
            assert not await reader.keep(ANN, await mark_of(store), b"of a")
        assert await store.keep(ANN, await mark_of(store), b"of a")
        assert tables() - before == {"kept", "kept_until_dropped", "kept_until_purged"}
        assert store.describe()["schema_version"] == 2 == len(MIGRATIONS)
        async with opened(f"sqlite:///{path}?mode=ro") as reader:
            assert await reader.kept(ANN) == b"of a"


COMPACTING = """
import asyncio, resource, sys
from recollect.stores import open_store

def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

async def compact():
    store = await open_store(sys.argv[1])
    before = peak_kib()
    await store.compact()
    await store.close()
    print(peak_kib() - before)

asyncio.run(compact())
"""


async def test_a_large_file_is_compacted_without_holding_it_in_memory(tmp_path: Path):
    path = tmp_path / "large.db"
    url = f"sqlite:///{path}"
    await (await open_store(url)).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table ballast (held blob)")
        db.executemany("insert into ballast values (randomblob(1000000))", [()] * 100)
    # In a process of its own: what tests before this one took would hide what this one takes.
    told = subprocess.run([sys.executable, "-c", COMPACTING, url], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 50_000, "half of what it holds, in KiB"


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has file modes")
async def test_what_people_said_can_be_read_by_the_owner_of_the_file_alone(tmp_path: Path):
    path, backup = tmp_path / "memories.db", tmp_path / "backup.db"
    store = await sqlite.open_path(path)
    try:
        await store.commit(Changes(ANN, put=(message("m1", "Only for my eyes."),)), NOW)
        await store.backup(backup)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        await store.close()
    assert {"memories.db", "memories.db-wal", "memories.db-shm", "backup.db"} <= modes.keys()
    assert set(modes.values()) == {0o600}


async def test_a_draft_left_by_a_killed_process_of_the_same_number_is_no_obstacle(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 1)  # as in every container
    names: list[Path] = []
    with monkeypatch.context() as killed:
        killed.setattr(sqlite_file.disk, "give_name", lambda draft, path: names.append(draft))
        sqlite_file._create_if_absent(tmp_path / "memories.db")
    names[0].write_bytes(b"half of a file")
    Path(f"{names[0]}-wal").write_bytes(b"half of a log")
    sqlite_file._create_if_absent(tmp_path / "memories.db")
    assert [file.name for file in tmp_path.iterdir()] == ["memories.db"]
    await (await sqlite.open_path(tmp_path / "memories.db")).close()


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has file modes")
async def test_a_file_that_was_opened_to_a_group_stays_so(tmp_path: Path):
    path = tmp_path / "memories.db"
    await (await sqlite.open_path(path)).close()
    path.chmod(0o660)
    store = await sqlite.open_path(path)
    try:
        await store.commit(Changes(ANN, put=(message("m1", "For all of us."),)), NOW)
        await store.compact()
        modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        await store.close()
    assert modes == {0o660}
