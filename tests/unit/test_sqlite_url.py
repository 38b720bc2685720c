"""A URL names the same file to everybody: the store, the command line, the importers and SQLite itself."""

from __future__ import annotations

import doctest
import sqlite3
from contextlib import closing
from pathlib import PurePosixPath, PureWindowsPath

import pytest

from recollect.stores import open_store, sqlite_url
from recollect.stores.sqlite_url import name_of, uri_of


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///notes.db", "notes.db"),
        ("sqlite:///sub/notes.db?mode=ro", r"sub\notes.db"),
        ("sqlite:///C:/Users/ann/notes.db", r"C:\Users\ann\notes.db"),
        ("sqlite:////C:/Users/ann/notes.db", r"C:\Users\ann\notes.db"),
        (r"sqlite:///C:\Users\ann\notes.db?mode=ro", r"C:\Users\ann\notes.db"),
        (r"sqlite://C:\Users\ann\notes.db", r"C:\Users\ann\notes.db"),
        ("sqlite:///C:/Users/Ann%20M%C3%BCller/50%25.db", "C:\\Users\\Ann Müller\\50%.db"),
        ("sqlite://///server/share/notes.db", r"\\server\share\notes.db"),
        (r"sqlite:///\\server\share\notes.db", r"\\server\share\notes.db"),
        (r"sqlite:///\\?\C:\long\notes.db", r"\\?\C:\long\notes.db"),
        ("sqlite:////absolute/notes.db", r"\absolute\notes.db"),
    ],
)
def test_on_windows_a_path_begins_with_a_drive_a_share_or_a_folder(url, path):
    assert str(PureWindowsPath(name_of(url, PureWindowsPath))) == path


def test_elsewhere_a_drive_is_a_folder_like_any_other():
    assert name_of("sqlite:////C:/notes.db", PurePosixPath) == "/C:/notes.db"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (r"C:\Users\Ann Müller\50%.db", "C:/Users/Ann Müller/50%.db"),
        (r"\\server\share\a#b?.db", "//server/share/a#b?.db"),
        (r"\\?\C:\long\notes.db", "//?/C:/long/notes.db"),
    ],
)
def test_sqlite_reads_the_path_out_of_the_uri_as_it_is(path, told, tmp_path, monkeypatch):
    # SQLite says which file it has opened; a path of Windows is a relative one here, once it has a folder before it.
    uri = uri_of(PureWindowsPath(path), "mode=rwc")
    assert uri.startswith("file:///")
    monkeypatch.chdir(tmp_path)
    local = tmp_path / "drives" / told.replace("//", "/").lstrip("/")
    local.parent.mkdir(parents=True)
    with closing(sqlite3.connect(uri.replace("file:///", f"file://{tmp_path}/drives/", 1), uri=True)) as db:
        db.execute("create table t (a)")
    assert local.is_file()


@pytest.mark.parametrize("name", ["~/notes.db", "~\\notes.db"])
async def test_a_home_folder_is_not_taken_for_a_folder_named_tilde(name):
    with pytest.raises(Exception, match="not expanded"):
        await open_store(f"sqlite:///{name}")


def test_the_examples_are_true():
    found = doctest.testmod(sqlite_url)
    assert found.attempted >= 4 and found.failed == 0
