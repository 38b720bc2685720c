"""Files to import: regular ones only, never more of them than fits, and nothing but what they should be."""

from __future__ import annotations

import codecs
import io
import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, cast

from recollect.errors import NotFound, TooLarge, ValidationError

DOCUMENT_BYTES = 4 * 1024**3
"""Largest JSON file. Years of one person's chats are a tenth of it; this catches something that never ends."""
ELEMENT_CHARACTERS = 64 * 1024**2
"""One element of a long list, which has to be held in memory: a conversation of a few thousand long answers."""
EXPANSION_MAX = 200
"""How many times larger a file may be than its packed size: chats shrink to a tenth, a bomb to less."""
MEMBERS_MAX = 1_000
"""Files read from one archive."""
FOLDER_MAX = 200
"""Files read from one folder: they are open at the same time, and a process may have a few hundred."""

_PIECE = 1024 * 1024
_ZIP = b"PK\x03\x04"
DATABASE = b"SQLite format 3\0"
_DECODER = json.JSONDecoder()


def open_file(path: Path) -> BinaryIO:
    """A regular file, open for reading; anything else is refused before a byte of it is read.

    Reading a folder, a pipe or a device hangs or never ends. A symbolic link as the last part of
    the path is refused too, because it can be changed to point elsewhere between checking and reading.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        if path.is_symlink():
            raise ValidationError("is a symbolic link; give the file that it points to", field="file")
        descriptor = os.open(path, flags)
    except FileNotFoundError as error:
        raise NotFound("there is no such file", field="file") from error
    except (OSError, ValueError) as error:
        raise ValidationError("cannot be opened for reading", field="file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValidationError("must be a plain file; for a pipe, write - and send it to standard input", field="file")
    return os.fdopen(descriptor, "rb")


def check_lines(file: BinaryIO) -> None:
    """Check that a file is not something else by its first bytes: else each of its bytes would be a bad line."""
    start = file.read(len(DATABASE))
    file.seek(0)
    if start.startswith(_ZIP):
        raise ValidationError("is a zip archive, cut off or without an export in it that is known here", field="file")
    if start == DATABASE:
        raise ValidationError("is a database; say which program wrote it", field="file")


@contextmanager
def opened(path: Path, members: Sequence[str]) -> Iterator[list[BinaryIO]]:
    """A file, or the matching members of a zip archive or a folder, such as `conversations*.json`, in order of names.

    Nothing is unpacked to disk, so no name in an archive can lead anywhere. A folder is what some browsers make of
    an archive as they download it.
    """
    if path.is_dir() and not path.is_symlink():
        with ExitStack() as stack:
            yield [stack.enter_context(open_file(each)) for each in _in_folder(path, members)]
        return
    with open_file(path) as file:
        start = file.read(len(_ZIP))
        file.seek(0)
        if start != _ZIP:
            yield [file]
            return
        with _unpacking():
            archive = zipfile.ZipFile(file)
        with archive:
            yield [cast("BinaryIO", _Member(archive, each)) for each in _wanted(archive, members)]


def size_of_file(file: BinaryIO) -> int:
    """How many bytes a file that `opened` yields has, unpacked."""
    return file.size if isinstance(file, _Member) else os.fstat(file.fileno()).st_size


def _in_folder(folder: Path, members: Sequence[str]) -> list[Path]:
    """The matching files of a folder, and of the folders in it."""
    near = (pattern for name in members for pattern in (name, f"*/{name}"))
    found = sorted(each for pattern in near for each in islice(folder.glob(pattern), MEMBERS_MAX))
    if not found:
        raise ValidationError(f"has no {' or '.join(members)} in it", field="folder")
    if len(found) > FOLDER_MAX:
        raise TooLarge(f"must have at most {FOLDER_MAX} files that are read", field="folder")
    return found


def _wanted(archive: zipfile.ZipFile, members: Sequence[str]) -> list[zipfile.ZipInfo]:
    found = [
        each
        for each in archive.infolist()
        if any(fnmatchcase(PurePosixPath(each.filename).name, pattern) for pattern in members)
    ]
    if not found:
        raise ValidationError(f"has no {' or '.join(members)} in it", field="file")
    if len(found) > MEMBERS_MAX:
        raise TooLarge(f"must have at most {MEMBERS_MAX} files that are read", field="file")
    for each in found:
        if each.file_size > max(each.compress_size, 1) * EXPANSION_MAX:
            raise TooLarge("unpacks to far more than conversations would", field="file")
    return sorted(found, key=lambda each: each.filename)


class _Member(io.RawIOBase):
    """A file of an archive, which can be read again from its beginning."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._archive, self._info = archive, info
        self.size = info.file_size
        self._inside: IO[bytes] | None = None

    def seek(self, offset: int, whence: int = 0) -> int:
        self._inside = None
        return 0

    def read(self, size: int = -1) -> bytes:
        with _unpacking():
            if self._inside is None:
                self._inside = self._archive.open(self._info)
            return self._inside.read(size)


@contextmanager
def _unpacking() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError, struct.error) as error:
        raise ValidationError("is not a zip archive that can be read", field="file") from error


# ── JSON that is one long list ───────────────────────────────────────────────────────────────────


def elements(file: BinaryIO, *, advance: Callable[[int], None] = lambda _: None) -> Iterator[Any]:
    """The elements of a JSON file that is a list, one at a time; any other JSON is yielded as one value.

    A list of any length takes no more memory than its largest element. `advance` is told how many bytes were read.
    """
    file.seek(0)
    text = _Text(file, advance)
    if text.next() != "[":
        yield text.value()
        return
    text.skip()
    while (start := text.next()) != "]":
        yield text.value()
        start = text.next()
        if start not in (",", "]"):
            raise ValidationError("is cut off, or is not JSON", field="file")
        if start == ",":
            text.skip()


class _Text:
    """The text of a file, holding only the part that is being read."""

    def __init__(self, file: BinaryIO, advance: Callable[[int], None]) -> None:
        self._file, self._advance = file, advance
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._held = ""
        self._place = 0
        self._read = 0

    def next(self) -> str:
        """The next character that is not blank, without consuming it; empty at the end."""
        while True:
            while self._place < len(self._held):
                if self._held[self._place] not in " \t\r\n":
                    return self._held[self._place]
                self._place += 1
            if not self._more(_PIECE):
                return ""

    def skip(self) -> None:
        """Go past one character."""
        self._place += 1

    def value(self) -> Any:
        """The value that starts here."""
        self.next()
        wanted = _PIECE
        while True:
            try:
                value, self._place = _DECODER.raw_decode(self._held, self._place)
                return value
            except RecursionError:
                raise ValidationError("nests too deeply", field="file") from None
            except ValueError as error:
                # An incomplete value looks like an invalid one. Each read is twice as long, so that this stays linear.
                if len(self._held) - self._place > ELEMENT_CHARACTERS:
                    raise TooLarge(f"has a part of more than {ELEMENT_CHARACTERS} characters", field="file") from error
                if not self._more(wanted):
                    raise ValidationError("is cut off, or is not JSON", field="file") from None
                wanted *= 2

    def _more(self, wanted: int) -> bool:
        piece = self._file.read(wanted)
        self._read += len(piece)
        self._advance(self._read)
        if self._read > DOCUMENT_BYTES:
            raise TooLarge(f"must have at most {DOCUMENT_BYTES} bytes", field="file")
        try:
            text = self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError:
            raise ValidationError("must be UTF-8", field="file") from None
        self._held = self._held[self._place :] + text
        self._place = 0
        return bool(piece)
