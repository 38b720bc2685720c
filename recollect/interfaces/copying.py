"""The command `copy`: from one store to another, with proof that everything arrived."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from recollect.copying import COPIED_LAYERS, Copied, Copying
from recollect.errors import ValidationError
from recollect.interfaces.options import Json, Layer, on_loop
from recollect.interfaces.output import CONFLICT, added_up, complain, emit, owners, plural, progress, say, table, whose
from recollect.records import system_clock
from recollect.settings import Settings
from recollect.stores import open_store
from recollect.stores.contract import Store, is_owned
from recollect.stores.routed import ROUTES

ROWS_MAX = 20
"""Users shown in a table; if there are more, only those where something is wrong."""


def copy(
    source: Annotated[str, typer.Argument(help="URL of the store to copy; it is only read.", show_default=False)],
    target: Annotated[str, typer.Argument(help="URL of the store to copy into.", show_default=False)],
    layer: Layer = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace records that differ in the target with those of the source.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be copied.")] = False,
    as_json: Json = False,
) -> None:
    """Copy all memories from one store into another, and compare both sides afterwards.

    Records that are already there are left alone, so the command can be stopped and run again.

    Example: recollect copy sqlite:///recollect.db postgresql://localhost/memories
    """
    if source == target:
        raise ValidationError("must be a different store from the source", field="target")
    layers = _layers(layer or [])
    done = on_loop(_copy(source, target, layers, overwrite, dry_run), source, target)
    if as_json:
        emit(_totals(done, dry_run) | {"partitions": [each.to_dict() for each in done]})
    else:
        _show(done, dry_run)
    if not dry_run and not all(each.verified for each in done):
        raise typer.Exit(CONFLICT)


def _layers(names: list[str]) -> tuple[str, ...]:
    """The layers to copy; a layer that can have a store of its own brings along the layers that live with it."""
    for name in names:
        if name not in COPIED_LAYERS:
            raise ValidationError(f"must be one of {', '.join(COPIED_LAYERS)}", field="layer")
    meant = dict.fromkeys(each for name in names for each in ROUTES.get(name, (name,)))
    return tuple(each for each in meant if each in COPIED_LAYERS)


async def _copy(source: str, target: str, layers: tuple[str, ...], overwrite: bool, dry_run: bool) -> list[Copied]:
    wait_s = Settings.read(os.environ).busy_timeout_s
    old = await open_store(_for_reading(source), busy_timeout_s=wait_s)
    try:
        new = await open_store(target, busy_timeout_s=wait_s)
        try:
            return await _between(old, new, layers, overwrite, dry_run)
        finally:
            await new.close()
    finally:
        await old.close()


async def _between(old: Store, new: Store, layers: tuple[str, ...], overwrite: bool, dry_run: bool) -> list[Copied]:
    survey = await old.survey(system_clock())
    if survey.jobs_waiting:
        complain(
            "jobs are waiting in the source: run `recollect worker --once` there, or what they would learn is lost"
        )
    with progress("Copying", sum(survey.records.values())) as advance:
        told = added_up(advance)
        copying = Copying(old, new, layers=layers, overwrite=overwrite, dry_run=dry_run, told=told)
        return [done async for done in copying.run()]


def _for_reading(url: str) -> str:
    """The URL, read-only if it names a file, so that a missing file is not created."""
    return f"{url}?mode=ro" if url.startswith("sqlite://") and "?" not in url else url


def _totals(done: list[Copied], dry_run: bool) -> dict[str, Any]:
    names = ("records", "copied", "known", "different", "overwritten", "missing", "extra")
    counts = {name: sum(getattr(each, name) for each in done) for name in names}
    return counts | {"dry_run": dry_run, "verified": not dry_run and all(each.verified for each in done)}


def _show(done: list[Copied], dry_run: bool) -> None:
    shown = done if len(done) <= ROWS_MAX else [each for each in done if each.different or not each.verified]
    if shown:
        heading = "would copy" if dry_run else "copied"
        rows = [
            (e.partition.org, whose(e.partition), e.records, e.copied, e.known, e.different, _state(e))
            for e in shown[:ROWS_MAX]
        ]
        columns = ["org", "user", "records", heading, "already there", "different", "compared"]
        table(columns, rows, right=columns[2:6])
    totals = _totals(done, dry_run)
    whom = owners(sum(is_owned(each.partition) for each in done))
    if dry_run:
        say(f"{plural(totals['records'], 'record')} of {whom}, {totals['copied']:,} to copy; nothing was changed.")
        return
    said = "both sides are equal" if totals["verified"] else "the two sides are NOT equal"
    say(f"{plural(totals['records'], 'record')} of {whom}, {totals['copied']:,} copied; {said}.")
    ids = [id for each in done for id in each.different_ids if not each.verified][:ROWS_MAX]
    if ids:
        say(f"Different: {', '.join(ids)}. --overwrite takes them from the source.")


def _state(done: Copied) -> str:
    if done.dry_run:
        return "-"
    if done.verified:
        return f"equal {done.digest[:8]}"
    parts = (("missing", done.missing), ("extra", done.extra), ("different", done.different - done.overwritten))
    return "not equal: " + (", ".join(f"{count} {name}" for name, count in parts if count) or "different order")
