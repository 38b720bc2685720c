"""One SQLite file: how it is opened, migrated, written and read.

A dedicated thread owns the single write connection. It takes all the queued work, runs it in one
transaction and syncs once, so sixteen callers pay for one fsync, not sixteen. Queued work is done
whether or not its caller still waits. Readers have their own connections and never wait for the
writer (WAL).
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from recollect import disk
from recollect.errors import Busy, Corrupt, RecollectError, Unavailable, ValidationError
from recollect.records import Partition
from recollect.stores.contract import OtherVersion, closed_store, veil_of
from recollect.stores.sqlite_url import uri_of

T = TypeVar("T")
Connection = sqlite3.Connection
Work = Callable[[Connection], T]

APPLICATION_ID = 0x52_43_4C_54  # "RCLT": tells our files from other SQLite files
PAGE_BYTES = 8192  # a record with its vector fits a page; 4 KiB pages spill every vector
GROUP_MAX = 256  # calls that share one transaction: bounds how long the first of them waits
READERS = 2
CACHE_KIB = 4_096  # page cache of each of four connections: holds what leads to any of a million records
WAL_PAGES = 4_000  # pages between checkpoints: about 32 MiB
WAL_LIMIT_BYTES = 32 * 1024 * 1024
MAGIC = b"SQLite format 3\x00"
HEADER_BYTES = 100
WAL_FORMAT = b"\x02\x02"  # header bytes of WAL mode, in which no rollback journal may lie beside the file
CHECKPOINT_PAUSE_S = 0.01
COMPACTED_IN_MEMORY_BYTES = (
    32 * 1024 * 1024
)  # a larger file is rewritten by way of a temporary one, however large it is
DURABLE = ("synchronous = full", "fullfsync = on", "checkpoint_fullfsync = on")
"""The last two matter on macOS alone, where a sync would otherwise leave what was written in the drive's cache."""
SQLITE_VERSION = sqlite3.sqlite_version


def migrate_1(db: Connection) -> None:
    """Partitions, records, jobs, remembered keys, and the codes for search over an org."""
    for statement in (
        """create table partitions (
            part integer primary key, org text not null, usr text not null,
            epoch integer not null, revision integer not null, floor integer not null, forgot integer not null,
            unique (org, usr))""",
        """create table records (
            row integer primary key, part integer not null, id text not null,
            epoch integer not null, revision integer not null, born integer not null, version integer not null,
            layer text not null, session text not null, dropped integer not null, dead_at integer,
            digest blob not null, payload text not null, model text, vector blob, slot integer)""",
        "create unique index records_id on records (part, id)",
        "create index records_log on records (part, revision)",
        "create index records_layer on records (part, epoch, layer, born) where dropped = 0",
        """create index records_session on records (part, epoch, session, layer, born)
            where dropped = 0 and session <> ''""",
        "create index records_dead on records (part, dead_at) where dead_at is not null",
        """create table jobs (
            part integer not null, id text not null, kind text not null, refs text not null,
            due_at integer not null, attempt integer not null, primary key (part, id)) without rowid""",
        "create index jobs_due on jobs (due_at)",
        """create table once (
            part integer not null, key blob not null, digest blob not null, revision integer not null,
            at integer not null, primary key (part, key)) without rowid""",
        """create table books (
            book integer primary key, org text not null, model text not null,
            slots integer not null, version integer not null, unique (org, model))""",
        """create table blocks (
            row integer primary key, book integer not null, place integer not null, version integer not null,
            codes blob not null, rows blob not null, unique (book, place))""",
        "create index blocks_version on blocks (book, version)",
    ):
        db.execute(statement)


def migrate_2(db: Connection) -> None:
    """Remove the names of users who were erased and never came back. Until now, erasing left the id of the user."""
    empty = """select part, org, usr from partitions p where forgot = revision and forgot > 0
      and not exists (select 1 from records r where r.part = p.part) and part not in (select part from jobs)"""
    for part, org, user in db.execute(empty).fetchall():
        db.execute("update partitions set usr = ? where part = ?", (veil_of(Partition(org, user)).user, part))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (migrate_1, migrate_2)
"""In order; the file's `user_version` counts those already applied to it."""
READABLE = 1
"""The oldest version that can be read as it is: later steps changed names in rows, but no table."""


def _identity(place: Path) -> tuple[int, int] | None:
    """Which file is at a path (device and inode), whatever its name; None if it cannot be reached."""
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def translated(error: sqlite3.Error) -> RecollectError:
    """The driver's error as one of ours, without any content."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Busy(field="store")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return Corrupt(field="store")
    if name.startswith("SQLITE_FULL"):
        return Unavailable("the disk is full; free some space and try again", field="store")
    if name.startswith("SQLITE_READONLY"):
        return Unavailable("the file is read-only", field="store")
    return Unavailable(f"SQLite failed ({name or type(error).__name__}); run `recollect doctor`", field="store")


@dataclass(slots=True)
class _Task:
    work: Work[Any]
    durable: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


class SqliteFile:
    """An open file. `write` and `read` run work on its threads; `peek` runs it on the caller's."""

    def __init__(self, path: Path, *, read_only: bool = False, busy_timeout_s: float = 10.0) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self._queue: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(READERS, "recollect-read")
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._peek_lock = threading.Lock()
        self._closed = False
        if not read_only:
            _create_if_absent(path)
        version = _check_header(path)
        self.read_only = read_only or not _is_writable(path)
        self._writer: threading.Thread | None = None
        self._syncs = True
        self._writer_lock = threading.Lock()
        try:
            version = self.version = self._check_version(self._read_version() if version is None else version)
            self._peeker = self._connect()
            self._peeker.execute("select part from partitions limit 1").fetchone()
            self._place = path.absolute()
            self._identity = _identity(self._place)
            if disk.FULL_SYNC is not None and not self.read_only:
                disk.sync_folder(self._place.parent)  # of the log, SQLite syncs the name, but not the drive's cache
            if version < len(MIGRATIONS) and not self.read_only:
                migrate(self._peeker)
                self.version = len(MIGRATIONS)
        except sqlite3.Error as error:
            self._release()
            raise translated(error) from error
        except BaseException:
            self._release()
            raise

    # ── work ─────────────────────────────────────────────────────────────────────────────────────

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in the next group's transaction. It may refuse (raise) only before it writes.

        With `durable=False` the group is not synced on its account: for work whose loss in a
        power cut does no harm, such as a lease whose holder is gone too.
        """
        self._check_open()
        if self.read_only:
            raise Unavailable("the file is read-only", field="store")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._writer is None:
            self._start_writing()
        self._queue.put(_Task(work, durable, loop, future))
        return await future

    async def read(self, work: Work[T]) -> T:
        """Run work in one read transaction on a reader thread."""
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    def peek(self, work: Work[T], *, whole: bool = False) -> T:
        """Run a look-up of microseconds on the caller's thread; `whole` if it makes more than one query."""
        self._check_open()
        with self._peek_lock:
            try:
                return _in_one_view(self._peeker, work) if whole else work(self._peeker)
            except sqlite3.Error as error:
                raise translated(error) from error

    async def compact(self) -> None:
        """Rewrite the file without free space, and empty the log: nothing of what was forgotten is left."""
        await self.write(_compact)

    async def close(self) -> None:
        """Finish the queued work, then release the file."""
        if self._closed:
            return
        self._closed = True
        # Shielded: a caller that stops waiting does not stop it.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._finish))

    def _finish(self) -> None:
        if self._writer is not None:
            self._queue.put(None)
            self._writer.join()
        self._release()

    def _release(self) -> None:
        self._readers.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise closed_store()

    def _check_there(self) -> None:
        """Refuse work on a file that was removed or replaced.

        Checked on the worker threads, once for a group of writes, because the check releases the interpreter and then
        waits for it. `peek` skips it, since it would be a tenth of its time.
        """
        # SQLite would carry on in a file that no longer has a name, and all of it would be lost with the process.
        if _identity(self._place) != self._identity:
            raise Unavailable("the file was removed or replaced; put it back or start again", field="store")

    # ── the writer's thread ──────────────────────────────────────────────────────────────────────

    def _start_writing(self) -> None:
        """Start the thread with the first write, so that callers who only read do not wait for it."""
        with self._writer_lock:
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_loop, name="recollect-write", daemon=True)
                self._writer.start()

    def _write_loop(self) -> None:
        db: Connection | None = None
        while True:
            task = self._queue.get()
            if task is None:
                return
            group = [task]
            while len(group) < GROUP_MAX and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    self._queue.put(None)
                    break
                group.append(following)
            try:
                db = db or self._connect()
            except RecollectError as error:
                for each in group:
                    each.error = error
            else:
                self._write_group(db, group)
            _deliver(group)

    def _write_group(self, db: Connection, group: Sequence[_Task]) -> None:
        alone = len(group) == 1
        try:
            self._check_there()
            if alone and group[0].work is _compact:
                group[0].work(db)
                return
            self._sync(db, any(task.durable for task in group))
            db.execute("begin immediate")
        except Exception as error:
            # No work has begun, so all callers get the same answer, and have waited for the lock once.
            for task in group:
                task.error = translated(error) if isinstance(error, sqlite3.Error) else error
            return
        try:
            for task in group:
                try:
                    task.result = task.work(db)
                except RecollectError as refusal:
                    task.error = refusal
            db.execute("commit")
        except BaseException as error:
            _roll_back(db)
            if alone:
                group[0].error = translated(error) if isinstance(error, sqlite3.Error) else error
                return
            # One of them broke the transaction: each is run again in its own, and gets its own answer.
            for task in group:
                task.result = task.error = None
                self._write_group(db, [task])

    def _sync(self, db: Connection, syncs: bool) -> None:
        """Make the next commit wait for the disk, or not; SQLite is told only when that changes."""
        if syncs is not self._syncs:
            db.execute(f"pragma synchronous = {'full' if syncs else 'normal'}")
            self._syncs = syncs

    # ── connections ──────────────────────────────────────────────────────────────────────────────

    def _read(self, work: Work[T]) -> T:
        self._check_there()
        db: Connection | None = getattr(self._local, "db", None)
        try:
            if db is None:
                db = self._local.db = self._connect()
            return _in_one_view(db, work)
        except sqlite3.Error as error:
            raise translated(error) from error

    def _connect(self) -> Connection:
        try:
            db = sqlite3.connect(
                self._uri(self.read_only),
                uri=True,
                timeout=self._busy_timeout_s,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                for pragma in (
                    "trusted_schema = off",
                    "secure_delete = on",
                    *DURABLE,
                    f"wal_autocheckpoint = {WAL_PAGES}",
                    f"journal_size_limit = {WAL_LIMIT_BYTES}",
                    f"cache_size = -{CACHE_KIB}",
                    "temp_store = memory",
                ):
                    db.execute(f"pragma {pragma}")
            except BaseException:
                db.close()  # the next caller tries again, and would leak one more open file
                raise
        except sqlite3.Error as error:
            raise translated(error) from error
        self._connections.append(db)
        return db

    def _uri(self, read_only: bool) -> str:
        mode = "ro" if read_only else "rw"
        # SQLite reads a log through an index that it creates beside the file. Where it cannot create one
        # and there is no log, nobody is writing, and the file can be read as it is.
        if read_only and not os.access(self.path.parent, os.W_OK) and not _has_log(self.path):
            mode += "&immutable=1"
        return uri_of(self.path.absolute(), f"mode={mode}")

    def _read_version(self) -> int:
        """The file's schema version, which may be in its log.

        Only a read-only connection leaves the log of a killed writer alone.
        """
        with closing(sqlite3.connect(self._uri(read_only=True), uri=True, timeout=self._busy_timeout_s)) as db:
            return _pragma(db, "user_version")

    def _check_version(self, version: int) -> int:
        """Refuse an unknown schema before anything can write. A refused file is left as it is."""
        if version > len(MIGRATIONS) or (version < READABLE and self.read_only):
            raise OtherVersion(
                "the file has schema version", version, len(MIGRATIONS), "open it for writing once, to migrate it"
            )
        return version


def migrate(db: Connection, steps: Sequence[Callable[[Connection], None]] = MIGRATIONS) -> None:
    """Bring a file up to date, each step in its own transaction: old or new, never in between."""
    while True:
        db.execute("begin immediate")
        try:
            version = _pragma(db, "user_version")
            if version >= len(steps):
                return
            steps[version](db)
            db.execute(f"pragma user_version = {version + 1}")
            db.execute("commit")
        finally:
            _roll_back(db)


def _create_if_absent(path: Path) -> None:
    """Create the file, which appears whole under its name or not at all; of two creators one wins."""
    if _exists(path):
        return
    if not path.parent.is_dir():
        raise Unavailable(f"there is no folder {_told(path.parent)}; create it first{_root_meant(path)}", field="store")
    draft = path.with_name(f".recollect-{os.getpid()}-{threading.get_ident()}.new")
    leftovers = (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm"))
    try:
        for leftover in leftovers:  # of a process that was killed here, and had the same number
            leftover.unlink(missing_ok=True)
        os.close(disk.create_private(draft))  # the log and its index get the same mode
        with closing(sqlite3.connect(draft, isolation_level=None)) as db:
            for pragma in DURABLE:
                db.execute(f"pragma {pragma}")
            db.execute(f"pragma page_size = {PAGE_BYTES}")
            db.execute(f"pragma application_id = {APPLICATION_ID}")
            db.execute("pragma journal_mode = wal")
            migrate(db)
        disk.give_name(draft, path)
        disk.sync_folder(path.parent)
    except FileExistsError:
        pass
    except (sqlite3.Error, OSError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise Unavailable(
            f"{_told(path)} cannot be created ({why}); use a folder that this process may write to", field="store"
        ) from error
    finally:
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)


def _told(path: Path) -> str:
    """A whole path for people: a relative one says little to whoever expected another folder."""
    return os.fsencode(path.absolute()).decode(errors="backslashreplace")


def _root_meant(path: Path) -> str:
    """What to write instead, if only the first slash of a whole path is missing: sqlite:///home/ann/notes.db."""
    meant = Path("/", path)
    return (
        "" if path.is_absolute() or not meant.parent.is_dir() else f", or write sqlite:///{_told(meant)} (four slashes)"
    )


def _exists(path: Path) -> bool:
    try:
        path.stat()
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError as error:
        raise ValidationError("a path cannot contain this character", field="url") from error
    except OSError as error:
        raise Unavailable("the database file cannot be reached; is its name too long?", field="store") from error


def _check_header(path: Path) -> int | None:
    """Refuse anything but a whole Recollect file before SQLite has a chance to touch it.

    Returns the schema version where the header alone can tell it: a log may have another one.
    """
    if not _exists(path):
        raise Unavailable(f"there is no database {_told(path)}", field="store")
    if not path.is_file():
        raise Unavailable(f"{_told(path)} is not a file; give the path of one", field="store")
    try:
        has_log = _has_log(path)
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError as error:
        raise Unavailable("the database file cannot be read", field="store") from error
    if not header:
        raise Corrupt("the file is empty; delete it if it never held memories", field="store")
    if not header.startswith(MAGIC):
        raise Corrupt("this is not an SQLite file; it was not touched", field="store")
    if len(header) < HEADER_BYTES:
        raise Corrupt("the file ends too early; it was not touched", field="store")
    if int.from_bytes(header[68:72]) != APPLICATION_ID:
        raise Corrupt("this is an SQLite file, but not one of Recollect's; it was not touched", field="store")
    page_bytes = int.from_bytes(header[16:18])
    if not has_log and page_bytes > 1 and size % page_bytes:
        raise Corrupt("the file ends in the middle of a page; it was not touched", field="store")
    return None if has_log or header[18:20] != WAL_FORMAT else int.from_bytes(header[60:64])


def _has_log(path: Path) -> bool:
    """Whether the log holds anything that is not yet in the file."""
    log = Path(f"{path}-wal")
    return log.exists() and log.stat().st_size > 0


def _is_writable(path: Path) -> bool:
    """Whether the file and the log beside it can be written."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _compact(db: Connection) -> None:
    _vacuum(db)
    until = time.monotonic() + _pragma(db, "busy_timeout") / 1000
    # SQLite waits for readers, but a checkpoint by another process makes ours return at once, undone.
    while db.execute("pragma wal_checkpoint(truncate)").fetchone()[0]:
        if time.monotonic() > until:
            raise Busy("another process is still reading what was forgotten; compact again later", field="store")
        time.sleep(CHECKPOINT_PAUSE_S)


def _vacuum(db: Connection) -> None:
    """Rewrite the file. SQLite first copies all that lives: in memory, or, of a larger file, to one without a name."""
    if _pragma(db, "page_count") * _pragma(db, "page_size") > COMPACTED_IN_MEMORY_BYTES:
        try:
            db.execute("pragma temp_store = file")
            db.execute("vacuum")
            return
        except sqlite3.OperationalError as error:
            if isinstance(translated(error), Busy):
                raise
            # There may be no folder for temporary files, or no room in it, and memory enough.
        finally:
            db.execute("pragma temp_store = memory")
    db.execute("vacuum")


def copy_into(db: Connection, target: Path) -> None:
    """Write a snapshot of a database to a new, private file, and sync it to the disk."""
    os.close(disk.begin_draft(target))
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        # All pages in one step, from one view of the log: nobody waits, and nothing written later is in it.
        db.backup(copy)
        copy.execute("pragma wal_checkpoint(truncate)")
    with target.open("rb+") as file:
        disk.sync(file.fileno())


def _in_one_view(db: Connection, work: Work[T]) -> T:
    """Run reading work in one transaction, so that all of it sees the same state."""
    db.execute("begin")
    try:
        return work(db)
    finally:
        _roll_back(db)


def _roll_back(db: Connection) -> None:
    """End a transaction that SQLite has not already ended itself; the error that led here is the one to report."""
    try:
        if db.in_transaction:
            db.execute("rollback")
    except sqlite3.Error:
        pass


def _pragma(db: Connection, name: str) -> int:
    return int(db.execute(f"pragma {name}").fetchone()[0])


def _deliver(group: Sequence[_Task]) -> None:
    """Wake the callers, once per event loop."""
    for loop in {task.loop for task in group}:
        try:
            loop.call_soon_threadsafe(_settle, [task for task in group if task.loop is loop])
        except RuntimeError:
            continue  # its loop is closed: nobody waits any longer, and the work is done


def _settle(tasks: Sequence[_Task]) -> None:
    for task in tasks:
        if task.future.done():
            continue  # its caller was cancelled
        if task.error is None:
            task.future.set_result(task.result)
        else:
            task.future.set_exception(task.error)
