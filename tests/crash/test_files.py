"""The file at the path is not always ours, intact or writable: that is reported, and it is left as it is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from recollect.errors import Corrupt, RecollectError, Unavailable, ValidationError
from recollect.stores.contract import OtherVersion
from recollect.stores.sqlite_file import MIGRATIONS
from recollect.testing.faults import ended, start
from recollect.testing.scenes import opened, set_stage

NOBODY = 65_534


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A file with something in it."""
    path = tmp_path / "memories.db"
    async with opened(path) as memory:
        await set_stage(memory, "ann")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Every stored byte. An empty log and its index (-shm) do not count: readers create them on demand."""
    found = {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")}
    return {name: bytes for name, bytes in found.items() if bytes or not name.endswith("-wal")}


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


async def refuses(path: Path, error: type[RecollectError]) -> str:
    """Assert that opening fails with this error and leaves every byte in the folder as it was. Returns the message."""
    before = contents(path.parent)
    with pytest.raises(RecollectError) as caught:
        async with opened(path):
            pass
    assert type(caught.value) is error
    assert contents(path.parent) == before
    return str(caught.value)


async def test_a_file_of_a_newer_schema_is_refused_and_not_touched(path):
    changed(path, f"pragma user_version = {len(MIGRATIONS) + 1}")
    assert "upgrade Recollect" in await refuses(path, OtherVersion)


async def test_a_newer_file_whose_last_writer_was_killed_keeps_its_log_too(path):
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute(f"pragma user_version = {len(MIGRATIONS) + 1}")
    crashed = path.parent / "crashed"
    crashed.mkdir()
    for name in (path.name, f"{path.name}-wal"):
        shutil.copy(path.parent / name, crashed)
    writer.close()
    assert "upgrade Recollect" in await refuses(crashed / path.name, OtherVersion)
    assert (crashed / f"{path.name}-wal").stat().st_size > 0


async def test_a_zero_byte_file_is_corrupt_and_not_touched(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    assert "empty" in await refuses(path, Corrupt)


@pytest.mark.parametrize(
    "text", [b"hello", b"SQLite format 2", bytes(range(256)), b"SQLite format 3\x00" + b"\xff" * 8000]
)
async def test_a_file_that_is_not_sqlite_is_corrupt_and_not_touched(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_bytes(text)
    await refuses(path, Corrupt)


@pytest.mark.parametrize("journal", ["delete", "wal"])
async def test_the_file_of_another_application_is_corrupt_and_not_touched(tmp_path, journal):
    path = tmp_path / "browser.db"
    changed(path, f"pragma journal_mode = {journal}", "create table partitions (part, org)", "pragma user_version = 1")
    assert "not one of Recollect's" in await refuses(path, Corrupt)


@pytest.mark.parametrize("keeps", [16, 99, 100, 4_000, 8_192, 40_000, -8_192, -1])
async def test_a_truncated_file_is_corrupt_and_not_touched(path, keeps):
    whole = path.read_bytes()
    path.write_bytes(whole[:keeps])
    await refuses(path, Corrupt)


@pytest.mark.parametrize("page", range(3))
async def test_a_file_with_a_zeroed_page_gives_corrupt_never_wrong_answers_and_is_not_touched(path, page):
    whole = bytearray(path.read_bytes())
    at = (0, 8_192, 16_384)[page]
    whole[at + 100 : at + 8_192] = bytes(8_092)
    path.write_bytes(whole)
    before = contents(path.parent)
    with pytest.raises(Corrupt):
        async with opened(path) as memory:
            user = memory.user("ann")
            await user.export()
            await user.session("chat").add_message("user", "Still there?")
            assert await memory.check() == []
            raise AssertionError("the damage went unnoticed")
    assert contents(path.parent) == before


async def test_a_file_opened_read_only_answers_and_refuses_to_write(path):
    before = path.read_bytes()
    async with opened(f"sqlite:///{path}?mode=ro") as memory:
        chat = memory.user("ann").session("chat")
        assert len((await chat.messages())[0]) == 6
        assert "tree" in (await chat.get_context("Which tree did I plant?")).system + str(await chat.window())
        with pytest.raises(Unavailable, match="read-only"):
            await chat.add_message("user", "One more.")
        assert len((await chat.messages())[0]) == 6
    assert path.read_bytes() == before


async def read_as_nobody(url: str, rehearsal: str) -> None:
    """Read and try to write, as a user who may only read. The rehearsal imports modules such a user cannot reach."""
    await read_and_try_to_write(rehearsal)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    await read_and_try_to_write(url)


async def read_and_try_to_write(url: str) -> None:
    async with opened(url) as memory:
        chat = memory.user("ann").session("chat")
        assert len((await chat.messages())[0]) == 6
        with pytest.raises(Unavailable):
            await chat.add_message("user", "One more.")
        assert len((await chat.messages())[0]) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
@pytest.mark.parametrize("mode", ["", "?mode=ro"])
@pytest.mark.parametrize("folder_is_writable", [True, False], ids=["file", "folder and file"])
async def test_without_write_permission_reads_work_and_writes_are_unavailable(path, mode, folder_is_writable):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(path, folder))
        copy.chmod(0o444)
        copy.parent.chmod(0o777 if folder_is_writable else 0o555)
        assert ended(start(read_as_nobody, f"sqlite:///{copy}{mode}", f"sqlite:///{path}?mode=ro")) == 0
        assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "name",
    ["with spaces.db", "ünïcode 数据.db", "what?.db", "a#b.db", "100%.db", "%41.db", "a&mode=memory.db", "'quote\".db",
     "😀" * 55 + ".db", "x" * 240 + ".db"],
)  # fmt: skip
async def test_odd_file_names_work(tmp_path, name):
    path = tmp_path / name
    for _ in range(2):
        async with opened(path) as memory:
            await memory.user("ann").session("chat").add_message("user", "Hello.", id="hello")
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["x" * 300 + ".db", "x/" * 2_500 + "a.db", "no such folder/a.db", "nul\x00.db"])
async def test_impossible_paths_are_a_typed_error(tmp_path, name):
    for url in (tmp_path / name, f"sqlite:///{tmp_path}/{name}"):
        with pytest.raises((Unavailable, ValidationError)):
            async with opened(url):
                pass
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_or_a_pipe_is_not_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.db")
    for path in (tmp_path, tmp_path / "pipe.db"):
        with pytest.raises(Unavailable):
            async with opened(path):
                pass
