"""What it takes on each system until data is on the disk, and until a file has its name.

Linux and Windows also empty the cache of the drive when a file is synced. On macOS `fsync` only hands the data to the
drive, which may hold it in a cache that a power cut clears; `F_FULLFSYNC` empties that too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The request that empties the drive's cache, where `fsync` does not."""
SYNC = "F_FULLFSYNC" if FULL_SYNC is not None else "FlushFileBuffers" if os.name == "nt" else "fsync"
"""What the system calls it."""


def sync(descriptor: int) -> None:
    """Return once all that was written to an open file is on the disk."""
    if FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, FULL_SYNC)
            return
        except OSError:
            pass  # not every file system knows it
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Return once the names that were given in a folder are on the disk.

    Windows opens no folders, and NTFS records names in a journal of its own.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def create_private(path: Path) -> int:
    """Create an empty file that only its owner can read (on Windows, whoever may read the folder), open for writing."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def begin_draft(draft: Path) -> int:
    """The same for a name that only this process uses: what is there was left by a killed one with its number."""
    draft.unlink(missing_ok=True)
    return create_private(draft)


def give_name(draft: Path, path: Path) -> None:
    """Give a finished file its name as well; unlike a rename, this raises `FileExistsError` if the name is taken.

    Some file systems have no hard links, such as exFAT and folders shared with a virtual machine. There the draft is
    moved, to a name that is first taken by an empty file.
    """
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:
        os.close(create_private(path))
        try:
            draft.replace(path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
