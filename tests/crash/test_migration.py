"""A migration that is killed leaves the old file or the new one, never something in between."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from contextlib import closing
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from recollect.stores.sqlite_file import MIGRATIONS, migrate
from recollect.testing.faults import KILLED, FailingDisk, ended, start
from recollect.testing.scenes import opened, problems_of

ROWS = 400
KILLS = 50


def migrate_next(db: sqlite3.Connection) -> None:
    """A realistic step: a new table, a new column, and every row rewritten."""
    db.execute("create table notes (part integer primary key, text text not null)")
    db.execute("alter table records add column mood text")
    db.execute("insert into notes select part, 'kept' from partitions")
    for (row,) in db.execute("select row from records").fetchall():
        db.execute("update records set mood = 'calm', payload = payload || ' ' where row = ?", (row,))


STEPS = (*MIGRATIONS, migrate_next)


async def migrate_file(path: Path, pipe: Connection | None, write: int) -> None:
    """Migrate; given a number, die in the middle of that write."""
    db = sqlite3.connect(path, isolation_level=None)
    if write:
        FailingDisk(write, "tear")
    if pipe is not None:
        pipe.send("now")
    migrate(db, STEPS)
    db.close()


def migration_time(path: Path) -> float:
    begun = time.perf_counter()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        migrate(db, STEPS)
    return time.perf_counter() - begun


def version_of(path: Path) -> int:
    """The version, when everything in the file agrees with it."""
    assert problems_of(path) == []
    with closing(sqlite3.connect(path)) as db:
        version = db.execute("pragma user_version").fetchone()[0]
        tables = {name for (name,) in db.execute("select name from sqlite_master")}
        columns = {row[1] for row in db.execute("pragma table_info(records)")}
        moods = db.execute("select count(mood) from records").fetchone()[0] if "mood" in columns else 0
        assert db.execute("select count(*) from records").fetchone()[0] == ROWS
    if version == len(MIGRATIONS):
        assert "notes" not in tables and "mood" not in columns
    else:
        assert version == len(STEPS) and "notes" in tables and moods == ROWS
    return version


@pytest.fixture
async def old(tmp_path: Path) -> Path:
    """A file of the version before the step."""
    path = tmp_path / "old.db"
    async with opened(path) as memory:
        chat = memory.user("ann").session("chat")
        for batch in range(ROWS // 80):
            await chat.add_messages([{"role": "user", "content": f"Message {batch} {n}."} for n in range(80)])
    assert version_of(path) == len(MIGRATIONS)
    return path


async def test_a_migration_killed_at_any_time_leaves_the_old_file_or_the_new_and_can_be_finished(old, tmp_path, seed):
    chance = random.Random(seed)
    versions = []
    lasts_s = migration_time(Path(shutil.copy(old, tmp_path / "timed.db")))
    for turn in range(KILLS):
        path = Path(shutil.copy(old, tmp_path / f"{turn}.db"))
        ours, theirs = Pipe(duplex=False)
        process = start(migrate_file, path, theirs, 0)
        ours.recv()
        time.sleep(chance.uniform(0, lasts_s))
        process.kill()
        ended(process)
        versions.append(version_of(path))
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            migrate(db, STEPS)
        assert version_of(path) == len(STEPS)
    print(f"{KILLS} kills: {versions.count(len(MIGRATIONS))} old, {versions.count(len(STEPS))} new, 0 between")


@pytest.mark.skipif(
    not FailingDisk.works(), reason="this Python has an SQLite of its own, whose writes are out of reach"
)
async def test_a_migration_killed_in_the_middle_of_any_write_leaves_the_old_file_or_the_new(old, tmp_path):
    versions = []
    for write in range(1, 500, 3):
        path = Path(shutil.copy(old, tmp_path / f"{write}.db"))
        code = ended(start(migrate_file, path, None, write))
        versions.append(version_of(path))
        if code == 0:
            break
        assert code == KILLED
    assert versions[0] == len(MIGRATIONS)
    assert versions[-1] == len(STEPS)
    assert versions == sorted(versions), "there is one moment at which it becomes new"
    print(f"{len(versions)} steps: {versions.count(len(MIGRATIONS))} old, then {versions.count(len(STEPS))} new")


async def test_two_processes_migrating_at_once_migrate_once(old):
    processes = [start(migrate_file, old, None, 0) for _ in range(4)]
    assert [ended(process) for process in processes] == [0] * 4
    assert version_of(old) == len(STEPS)
