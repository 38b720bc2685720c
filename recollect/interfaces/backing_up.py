"""The commands `backup` and `restore`: a complete copy of a file, checked before it gets its final name."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from recollect import disk
from recollect.errors import Conflict, Corrupt, NotFound, Unavailable, ValidationError
from recollect.interfaces.options import Json, Url, chosen, file_of
from recollect.interfaces.output import complain, give, one_line, owners, plural, size
from recollect.records import system_clock
from recollect.settings import Settings
from recollect.stores.sqlite import SqliteStore, open_path

TOOLS = {
    "postgres": "pg_dump, or your provider's snapshots",
    "redis": "its own files: AOF, or BGSAVE and a copy of dump.rdb",
    "cosmos": "the continuous backup of the account",
}
"""How to back up other stores, by how their URL begins."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a copy contains."""

    file: str
    users: int
    records: int
    jobs: int
    bytes: int

    @property
    def told(self) -> str:
        return f"{plural(self.records, 'record')} of {owners(self.users)}, {size(self.bytes)}; checked."


def backup(
    target: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.", show_default=False)],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Write a backup of the whole file while it stays in use, and check it.

    Example: recollect backup /backups/monday.db --url sqlite:////var/lib/assistant/memory.db
    """
    source = _file(url)
    elsewhere = ", ".join(Settings.read(os.environ).layers)
    if elsewhere:
        complain(f"these layers are kept in other stores and are not in the backup: {elsewhere}")
    if not source.exists():
        raise NotFound(f"no memories yet in {one_line(str(source), 200)}; --url names another file", field="url")
    saved = asyncio.run(_copied(source, target, "target"))
    give(as_json, asdict(saved), f"{target}: {saved.told}")


def restore(
    source: Annotated[Path, typer.Argument(help="The backup.", show_default=False)],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create a new file from a backup, and check it. An existing file is never replaced: move it away first.

    Example: recollect restore /backups/monday.db --url sqlite:////var/lib/assistant/memory.db
    """
    target = _file(url)
    if not source.is_file():
        raise NotFound("there is no such backup", field="source")
    saved = asyncio.run(_copied(source, target, "url"))
    give(as_json, asdict(saved), f"{target}: {saved.told}")


def _file(url: str | None) -> Path:
    """The file of a URL; for any other store, an error that says what to use instead."""
    path = file_of(url)
    if path is not None:
        return path
    scheme = chosen(url).partition("://")[0]
    tool = next((tool for start, tool in TOOLS.items() if scheme.startswith(start)), "")
    told = f"use {tool}, or `recollect copy`" if tool else "use `recollect copy`"
    raise ValidationError(f"only files are backed up this way; for {scheme}:// {told} into a file", field="url")


async def _copied(source: Path, target: Path, field: str) -> Saved:
    """Copy to a temporary name, check the copy, and then give it its real name."""
    _check_free(target, field)
    draft = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
    try:
        store = await open_path(source, read_only=True)
        try:
            await store.backup(draft)
        finally:
            await store.close()
        saved = await _checked(draft, target)
        disk.give_name(draft, target)
        disk.sync_folder(target.parent)
    except FileExistsError as error:
        raise Conflict(f"{one_line(str(target), 200)} already exists; nothing was replaced", field=field) from error
    except OSError as error:
        raise Unavailable(f"cannot be written ({os.strerror(error.errno or 0)})", field=field) from error
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            leftover.unlink(missing_ok=True)
    return saved


def _check_free(target: Path, field: str) -> None:
    # The leftover log of a deleted file would be read into a new file of the same name.
    if any(os.path.lexists(f"{target}{end}") for end in ("", "-wal", "-shm")):
        raise Conflict(f"{one_line(str(target), 200)} already exists; nothing was replaced", field=field)
    if not target.parent.is_dir():
        raise ValidationError("its folder does not exist", field=field)


async def _checked(draft: Path, target: Path) -> Saved:
    copy: SqliteStore = await open_path(draft, read_only=True)
    try:
        problems = await copy.check()
        if problems:
            raise Corrupt(f"the copy is damaged, so it was not kept: {'; '.join(problems)}", field="store")
        found = await copy.survey(system_clock())
    finally:
        await copy.close()
    records, jobs = sum(found.records.values()), sum(found.jobs.values())
    return Saved(str(target), found.partitions, records, jobs, draft.stat().st_size)
