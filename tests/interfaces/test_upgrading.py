"""What the command line does with a file of an earlier version, before anything has migrated it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from recollect.stores.sqlite_file import MIGRATIONS


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("pragma user_version").fetchone()[0])


def set_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"pragma user_version = {version}")


@pytest.fixture
def old(recollect, tmp_path) -> Path:
    """A file of the first version with one memory in it. Only names have changed since."""
    recollect("add", "Ann's bicycle is green.")
    path: Path = tmp_path / "notes.db"
    set_version(path, 1)
    return path


def store_check(ran):
    return next(check for check in ran.json if check["name"] == "store")


def test_the_doctor_inspects_a_file_of_an_earlier_version_and_leaves_it_as_it_is(recollect, old):
    as_it_was = old.read_bytes()
    ran = recollect("doctor", "--json")
    told = store_check(ran)
    assert (ran.code, told["state"]) == (0, "warn")
    assert f"schema version 1 of {len(MIGRATIONS)}" in told["found"] and "recollect backup" in told["advice"]
    assert next(check["found"] for check in ran.json if check["name"] == "data") == "no damage found"
    assert old.read_bytes() == as_it_was


def test_a_file_of_a_later_version_is_reported_to_need_an_upgrade_and_nothing_else(recollect, old):
    set_version(old, len(MIGRATIONS) + 1)
    told = store_check(recollect("doctor", "--json"))
    assert (told["state"], told["advice"]) == ("fail", "")
    assert "upgrade Recollect; nothing was touched" in told["found"]


def test_a_file_can_be_backed_up_before_it_is_migrated_and_an_old_backup_restored(recollect, old, tmp_path):
    kept, back = tmp_path / "kept.db", tmp_path / "back.db"
    assert recollect("backup", str(kept)).code == 0
    assert (version_of(old), version_of(kept)) == (1, 1)
    assert recollect("restore", str(kept), at=f"sqlite:///{back}").code == 0
    assert "green" in recollect("search", "bicycle", at=f"sqlite:///{back}").out
    assert (version_of(kept), version_of(back)) == (1, len(MIGRATIONS))
