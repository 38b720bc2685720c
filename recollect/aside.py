"""Indexes of inactive users, spilled to a file that has no name.

Reading an index back takes a fraction of a millisecond, rebuilding it takes milliseconds, so an index at rest need be
neither held in memory nor thrown away. The file lies in the store's folder, under the same protection as the data
there; it belongs to this process alone, and is gone with it, however it ends. What is dropped is overwritten.

On Windows a file cannot be without a name. There another process could write to it, so what is read back counts only
if it is what was written, and a power cut may leave the file behind.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

log = logging.getLogger("recollect.aside")

PAGE = 4_096
STEPS = 8
"""Sizes of places between one power of two and the next: at most an eighth of a place is unused."""
FILE_SHARE = 2
"""Beyond this multiple of the bytes it may hold, the file is too long."""
GIVEN_UP = 8
"""How many objects are dropped at a time, from a file that is too long or because their time is over."""
AGE_S = 3_600.0
"""How long an object is kept: another process may have forgotten some of its contents without this one knowing."""


@dataclass(slots=True)
class Place:
    """Where an object lies, how much fits there, how much it takes, since when; its digest, if others could write."""

    at: int
    room: int
    size: int = 0
    since_s: float = 0.0
    digest: bytes = b""


class Aside:
    """Objects by key; the oldest are dropped when there is no more room, or when their time is over."""

    def __init__(self, folder: Path, bytes_max: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._bytes_max, self._clock_s = folder, bytes_max, clock_s
        self._file: IO[bytes] | None = None
        self._is_usable = True
        self._places: OrderedDict[Hashable, Place] = OrderedDict()
        self._free: dict[int, list[int]] = {}
        self._end = self.nbytes = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._places)

    def put(self, key: Hashable, thing: Any) -> bool:
        """Store an object, in place of what lay under this key. False where that cannot be done."""
        if not self._is_usable:
            return False
        data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
        try:
            place = self._places.get(key)
            if place is None or len(data) > place.room:
                self._clear(key)
                place = self._places[key] = self._new_place(len(data))
            self._write(place, data)
        except OSError as error:
            self._give_up(error)
            return False
        place.since_s = self._clock_s()
        place.digest = self._digest(data)
        self._places.move_to_end(key)
        while self.nbytes > self._bytes_max:
            self.drop(next(iter(self._places)))
        self.drop_old()
        if self._end > FILE_SHARE * self._bytes_max:
            self._shrink()
        return key in self._places

    def _shrink(self) -> None:
        """Drop some objects, and truncate the file once all are gone: gradually, since each one is overwritten.

        As objects grow, they leave free places into which nothing fits any more.
        """
        for oldest in list(islice(self._places, GIVEN_UP)):
            self.drop(oldest)
        if self._places or not self._is_usable:
            return
        try:
            self._opened().truncate(0)
            self._free.clear()
            self._end = 0
        except OSError as error:
            self._give_up(error)

    def drop_old(self) -> float | None:
        """Drop some of the objects whose time is over. Return in how many seconds to call it again; None: it is empty.

        Only some, since each is overwritten: after a busy hour, all of them together would block the process.
        """
        for oldest in list(islice(self._places, GIVEN_UP)):
            if self._left_s(oldest) > 0:
                break
            self.drop(oldest)
        return max(self._left_s(next(iter(self._places))), 0.0) if self._places else None

    def _left_s(self, key: Hashable) -> float:
        return self._places[key].since_s + AGE_S - self._clock_s()

    def get(self, key: Hashable) -> Any:
        """The object under this key; None if there is none, or it cannot be read back whole."""
        place = self._places.get(key)
        if place is None:
            return None
        try:
            file = self._opened()
            file.seek(place.at)
            data = file.read(place.size)
            # Only what this process wrote may be unpickled.
            if self._digest(data) != place.digest:
                raise LookupError
            return pickle.loads(data)
        except (OSError, pickle.UnpicklingError, EOFError, LookupError):
            self.drop(key)
            return None

    def _digest(self, data: bytes) -> bytes:
        """What tells the bytes from any others; nothing where the file has no name under which another could write."""
        return hashlib.blake2b(data).digest() if isinstance(self._opened().name, str) else b""

    def drop(self, key: Hashable) -> None:
        """Drop the object under this key, and leave no trace of it."""
        try:
            self._clear(key)
        except OSError as error:
            self._give_up(error)

    def _clear(self, key: Hashable) -> None:
        place = self._places.pop(key, None)
        if place is None:
            return
        self.nbytes -= place.room
        self._free.setdefault(place.room, []).append(place.at)
        self._write(place, b"")

    def close(self) -> None:
        """Drop everything and close the file."""
        self._is_usable = False
        self._places.clear()
        self.nbytes = 0
        if self._file is not None:
            self._file.close()

    def _write(self, place: Place, data: bytes) -> None:
        """Write this over what was there, blanking any remainder."""
        file = self._opened()
        file.seek(place.at)
        left = memoryview(data.ljust(place.size, b"\0"))
        while left:
            left = left[file.write(left) :]
        place.size = len(data)

    def _new_place(self, size: int) -> Place:
        room = room_for(size)
        self.nbytes += room
        free = self._free.get(room)
        if free:
            return Place(free.pop(), room)
        self._end += room
        return Place(self._end - room, room)

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0, dir=self._folder, prefix=".recollect-")  # noqa: SIM115 - closed by `close`
        return self._file

    def _give_up(self, error: OSError) -> None:
        """Carry on without the file: what lies there can be rebuilt."""
        log.warning("indexes of inactive users stay in memory: they cannot be written to a file (%s)", error.strerror)
        self.close()


def room_for(size: int) -> int:
    """The bytes of a place in which `size` bytes fit.

    >>> room_for(1), room_for(40_000), room_for(100_000)
    (4096, 40960, 106496)
    """
    pages = -(-size // PAGE)
    step = max(1, (1 << max(pages, 1).bit_length() - 1) // STEPS)
    return max(-(-pages // step) * step, 1) * PAGE
