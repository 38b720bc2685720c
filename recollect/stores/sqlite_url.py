"""What an SQLite URL says: which file, and how it is opened; and how SQLite itself is told the same."""

from __future__ import annotations

import os
import re
from pathlib import PurePath, PureWindowsPath
from urllib.parse import quote_from_bytes, unquote

READ_ONLY = "?mode=ro"
_BEFORE_DRIVE = re.compile(r"/+(?=[A-Za-z]:[/\\])")


def name_of(url: str, flavour: type[PurePath] = PurePath) -> str:
    r"""The path that a URL names, empty if it names none; the kind of path decides what drives and backslashes mean.

    >>> name_of("sqlite:///notes.db"), name_of("sqlite:////home/ann/my%20notes.db?mode=ro")
    ('notes.db', '/home/ann/my notes.db')
    >>> name_of("sqlite:////C:/Users/ann/notes.db", PureWindowsPath)
    'C:/Users/ann/notes.db'
    """
    name = unquote(url.partition("://")[2].removesuffix(READ_ONLY).removeprefix("/"))
    # Whoever has learned that a whole path takes four slashes writes four of them before a drive as well.
    return _BEFORE_DRIVE.sub("", name, count=1) if issubclass(type(flavour()), PureWindowsPath) else name


def is_at_home(name: str) -> bool:
    """Whether a path begins with the `~` of a home folder, which only a shell would expand."""
    return name.startswith(("~/", "~\\"))


def uri_of(path: PurePath, query: str) -> str:
    r"""A whole path as SQLite's own kind of URI, which has no place for the server of a shared folder but in its path.

    >>> uri_of(PureWindowsPath(r"C:\Users\ann\notes #1.db"), "mode=rw")
    'file:///C:/Users/ann/notes%20%231.db?mode=rw'
    >>> uri_of(PureWindowsPath(r"\\server\share\notes.db"), "mode=ro")
    'file:////server/share/notes.db?mode=ro'
    """
    name = path.as_posix()
    start = "" if name.startswith("/") else "/"
    return f"file://{start}{quote_from_bytes(os.fsencode(name), safe='/:')}?{query}"
