"""Files that the command line writes: complete under their name, or not there at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from recollect import disk
from recollect.errors import Conflict, Unavailable, ValidationError

STANDARD_OUTPUT = Path("-")


def target_of(path: Path | None, *, force: bool) -> Path | None:
    """The file to write, if it may be written; None for standard output, which `-` means as well."""
    if path is None or path == STANDARD_OUTPUT:
        return None
    check_target(path, force=force)
    return path


def check_target(path: Path, *, force: bool) -> None:
    """Check that a file may be written here, before any work is done for it."""
    if path == STANDARD_OUTPUT:
        raise ValidationError("must be a file; standard output is for messages", field="file")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ValidationError("must be a plain file, not a folder, link, pipe or device", field="file")
    if path.exists() and not force:
        raise Conflict("already exists; --force replaces it", field="file")
    if not path.parent.is_dir():
        raise ValidationError("its folder does not exist", field="file")


def write_lines(path: Path, lines: Iterable[str], *, force: bool) -> None:
    """Write a text file that appears complete or not at all; an existing one is replaced only with `force`.

    The lines go to a private file beside it, are synced to disk, and only then get the name.
    """
    draft = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    try:
        with os.fdopen(disk.begin_draft(draft), "w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line + "\n")
            file.flush()
            disk.sync(file.fileno())
        if force:
            draft.replace(path)
        else:
            disk.give_name(draft, path)
        disk.sync_folder(path.parent)
    except FileExistsError as error:
        raise Conflict("already exists; --force replaces it", field="file") from error
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a usable name"
        raise Unavailable(f"cannot be written ({reason}); nothing was left behind", field="file") from error
    finally:
        draft.unlink(missing_ok=True)
