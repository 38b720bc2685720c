"""Backups of a file that is being written: complete, checked, without gaps, and never over another file."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recollect import Memory
from recollect.interfaces.cli import app
from recollect.sync import Memory as SyncMemory
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.faults import ended, start

WRITERS, BACKUPS = 3, 5
PAUSE_S = 0.01
"""Between two writes of a writer: without it a fast disk makes files whose checking takes minutes."""


def recollect(*arguments: object) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, [str(each) for each in arguments])
    return ran.exit_code, ran.stdout, ran.stderr


async def write_until_told(path: Path, journals: Path, stop: Path) -> None:
    """Writers that each record what was acknowledged in their own file, numbers in order."""
    async with Memory.open(path, embedder=HashingEmbedder()) as memory:

        async def one(writer: int) -> None:
            chat = memory.user(f"user{writer}").session("s")
            with (journals / str(writer)).open("w") as journal:
                number = 0
                while not stop.exists():
                    await chat.add_interaction(f"number {number}", f"answer {number}")
                    journal.write(f"{number}\n")
                    journal.flush()
                    number += 1
                    await asyncio.sleep(PAUSE_S)

        await asyncio.gather(*(one(writer) for writer in range(WRITERS)))


def acknowledged(journals: Path) -> list[int]:
    """How many numbers each writer has recorded so far."""
    paths = [journals / str(writer) for writer in range(WRITERS)]
    return [path.read_bytes().count(b"\n") if path.exists() else 0 for path in paths]


async def numbers(path: Path) -> list[list[int]]:
    """The numbers of each writer in a file; asserts that each has its answer."""
    found = []
    async with Memory.open(path, embedder=HashingEmbedder(), worker=False) as memory:
        assert await memory.check() == []
        for writer in range(WRITERS):
            told, after = [], None
            while True:
                page, after = await memory.user(f"user{writer}").session("s").messages(limit=1000, after=after)
                told += page
                if after is None:
                    break
            asked = [int(each.content.split()[1]) for each in told if each.role == "user"]
            assert asked == [int(each.content.split()[1]) for each in told if each.role == "assistant"]
            found.append(asked)
        await memory.work()  # pending work can still be done
        assert await memory.failures() == []
    return found


def test_a_backup_under_load_is_a_gapless_prefix_of_what_was_written(tmp_path):
    journals, stop, live = tmp_path / "journals", tmp_path / "stop", tmp_path / "live.db"
    journals.mkdir()
    writing = start(write_until_told, live, journals, stop)
    try:
        while min(acknowledged(journals)) < 20:
            assert writing.is_alive()
            time.sleep(0.05)
        for turn in range(BACKUPS):
            before = acknowledged(journals)
            code, out, err = recollect("backup", tmp_path / f"{turn}.db", "--url", f"sqlite:///{live}", "--json")
            assert code == 0 and json.loads(out)["records"] >= 2 * sum(before), err
            restored = tmp_path / f"restored-{turn}.db"
            assert recollect("restore", tmp_path / f"{turn}.db", "--url", f"sqlite:///{restored}")[0] == 0
            after = acknowledged(journals)
            for told, least, most in zip(asyncio.run(numbers(restored)), before, after, strict=True):
                assert told == list(range(len(told))) and least <= len(told) <= most + 1
            time.sleep(0.2)
    finally:
        stop.touch()
    assert ended(writing) == 0 and min(acknowledged(journals)) > 20
    assert not list(tmp_path.glob(".*"))


@pytest.fixture
def live(tmp_path):
    path = tmp_path / "live.db"
    with SyncMemory.open(path, embedder=HashingEmbedder()) as memory:
        memory.user("ann").add_memory("Tea with milk.")
    return path


def test_neither_backup_nor_restore_replaces_a_file(tmp_path, live):
    url, taken = f"sqlite:///{live}", tmp_path / "taken.db"
    taken.write_bytes(b"mine")
    assert recollect("backup", taken, "--url", url)[0] == 3 and taken.read_bytes() == b"mine"
    assert recollect("backup", tmp_path / "good.db", "--url", url)[0] == 0
    assert recollect("restore", tmp_path / "good.db", "--url", url)[0] == 3
    (tmp_path / "new.db-wal").write_bytes(b"left behind")
    assert recollect("restore", tmp_path / "good.db", "--url", f"sqlite:///{tmp_path}/new.db")[0] == 3
    assert recollect("backup", tmp_path / "no-such-folder" / "x.db", "--url", url)[0] == 2
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["good.db", "live.db", "taken.db"]
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_backup_is_not_restored(tmp_path, live):
    backup = tmp_path / "good.db"
    assert recollect("backup", backup, "--url", f"sqlite:///{live}")[0] == 0
    raw = bytearray(backup.read_bytes())
    place = raw.index(b"Tea with milk.")
    raw[place : place + 3] = b"Gin"
    backup.write_bytes(raw)
    code, _, err = recollect("restore", backup, "--url", f"sqlite:///{tmp_path}/new.db")
    assert code != 0 and "differ from what was written" in err and not (tmp_path / "new.db").exists()
    (tmp_path / "text.db").write_text("no database")
    assert recollect("restore", tmp_path / "text.db", "--url", f"sqlite:///{tmp_path}/new.db")[0] != 0


@pytest.mark.parametrize(
    ("url", "tool"),
    [
        ("postgresql://db/x", "pg_dump"),
        ("redis://h", "AOF"),
        ("rediss+cluster://h", "AOF"),
        ("cosmos://h", "continuous"),
        ("memory://", "copy"),
    ],
)
def test_for_other_stores_their_own_backup_tools_are_named(tmp_path, url, tool):
    code, _, err = recollect("backup", tmp_path / "x.db", "--url", url)
    assert code == 2 and tool in err and "recollect copy" in err


def test_a_missing_file_is_reported_and_not_created(tmp_path):
    assert recollect("backup", tmp_path / "x.db", "--url", f"sqlite:///{tmp_path}/none.db")[0] == 1
    assert recollect("restore", tmp_path / "none.db", "--url", f"sqlite:///{tmp_path}/x.db")[0] == 1
    assert list(tmp_path.iterdir()) == []
