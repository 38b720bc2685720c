"""What is said to be on the disk is there on each system, and a name that is taken is never taken away."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from recollect import disk
from recollect.interfaces.files import write_lines
from recollect.stores.sqlite import open_path
from recollect.testing.surfaces.commands import run_command

FULL_SYNC = 51
"""The number of `F_FULLFSYNC` on macOS."""


@pytest.fixture
def requests(monkeypatch):
    """What is asked of the disk, as on macOS: the flushes of the drive's cache, and what `fsync` is called for."""
    asked = []
    monkeypatch.setattr(disk, "FULL_SYNC", FULL_SYNC)
    monkeypatch.setattr(disk, "fcntl", SimpleNamespace(fcntl=lambda file, request: asked.append((file, request))))
    monkeypatch.setattr(os, "fsync", lambda file: asked.append((file, "fsync")))
    return asked


async def test_sqlite_empties_the_cache_of_the_drive_wherever_a_sync_does_not(tmp_path):
    store = await open_path(tmp_path / "notes.db")
    try:

        def asked(db):
            names = ("synchronous", "fullfsync", "checkpoint_fullfsync")
            return [db.execute(f"pragma {name}").fetchone()[0] for name in names]

        assert await store._file.write(asked) == [2, 1, 1]
        assert await store._file.write(asked, durable=False) == [1, 1, 1]
        assert await store._file.write(asked) == [2, 1, 1]
        assert await store._file.read(asked) == store._file.peek(asked) == [2, 1, 1]
        assert store.describe()["durability"] == f"on disk ({disk.SYNC}) when a call returns"
    finally:
        await store.close()


def test_on_macos_a_sync_empties_the_cache_of_the_drive(requests):
    disk.sync(7)
    assert requests == [(7, FULL_SYNC)]


def test_where_a_file_system_does_not_know_that_request_it_is_synced_as_elsewhere(requests, monkeypatch):
    def refuse(file, request):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(disk.fcntl, "fcntl", refuse)
    disk.sync(7)
    assert requests == [(7, "fsync")]


def test_exports_and_backups_empty_it_too_for_the_file_and_then_for_its_name(requests, tmp_path):
    run_command(["add", "The tide table is in the drawer.", "--url", f"sqlite:///{tmp_path}/notes.db"])
    for write in (
        lambda: write_lines(tmp_path / "a.jsonl", ["{}"], force=False),
        lambda: run_command(["backup", str(tmp_path / "b.db"), "--url", f"sqlite:///{tmp_path}/notes.db"]),
    ):
        requests.clear()
        write()
        assert [request for _, request in requests] == [FULL_SYNC, FULL_SYNC]
    assert sorted(each.name for each in tmp_path.glob("[ab].*")) == ["a.jsonl", "b.db"]


@pytest.fixture
def no_hard_links(monkeypatch):
    """A file system such as exFAT."""

    def refuse(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


def test_where_there_are_no_hard_links_files_appear_whole_and_replace_nothing(no_hard_links, tmp_path):
    url = f"sqlite:///{tmp_path}/notes.db"
    assert run_command(["add", "The tide table is in the drawer.", "--url", url]).code == 0
    assert run_command(["backup", str(tmp_path / "copy.db"), "--url", url]).code == 0
    assert run_command(["export", str(tmp_path / "me.jsonl"), "--url", url]).code == 0
    assert "tide table" in (tmp_path / "me.jsonl").read_text(encoding="utf-8")
    assert "tide table" in run_command(["list", "--url", f"sqlite:///{tmp_path}/copy.db"]).out
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_name_that_is_taken_keeps_its_file(has_links, tmp_path, request):
    if not has_links:
        request.getfixturevalue("no_hard_links")
    draft, path = tmp_path / "draft", tmp_path / "path"
    draft.write_bytes(b"new")
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        disk.give_name(draft, path)
    assert path.read_bytes() == b"old"


def test_a_draft_that_cannot_be_moved_leaves_no_empty_file_with_its_name(no_hard_links, tmp_path):
    with pytest.raises(FileNotFoundError):
        disk.give_name(tmp_path / "gone", tmp_path / "path")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_opened_as_on_windows_is_no_failure(monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    disk.sync_folder(Path())
