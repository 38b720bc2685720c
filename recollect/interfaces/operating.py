"""Commands for operators: `maintain`, `worker`, `users`, `stats`, `doctor`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import accumulate
from typing import Annotated, Any

import typer
from rich.text import Text

from recollect.errors import NotFound, Unavailable
from recollect.interfaces import doctor as health
from recollect.interfaces.options import Json, Url, look, on_loop, place, run
from recollect.interfaces.output import (
    NOT_FOUND,
    complain,
    day_and_time,
    emit,
    give,
    one_line,
    owners,
    plural,
    progress,
    say,
    size,
    table,
    whose,
)
from recollect.interfaces.stopping import asked_to_stop
from recollect.layers import told_counts
from recollect.memory import Memory
from recollect.policies.ages import GROWING, RECORDS_READ, USERS_READ, ages
from recollect.policies.recurring import RESTS_ON
from recollect.records import Record, system_clock
from recollect.settings import Settings
from recollect.stores.contract import FAIL, OK, WARN, is_veil
from recollect.upkeep import Maintained

GRACE_S = 5.0
"""How long a worker that is asked to stop may take to finish what it has begun; then its lease runs out."""


def maintain(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Consolidate memories, retire what is not worth keeping, and purge what is dead, for all users.

    Example: recollect maintain --dry-run
    """
    with progress("Maintaining memories", None):
        done = look(url, lambda memory: memory.maintain(dry_run=dry_run))
    if as_json:
        emit([each.to_dict() for each in done if not (is_veil(each.partition) and each.is_idle)])
        return
    changed = [each for each in done if not each.is_idle]
    if not changed:
        say("There is nothing to do." if dry_run else "There was nothing to do.")
        return
    counted = ["episodes", "merged", "recurring", "retired", "purged"]
    table(["org", "user", *counted], [_counts(each) for each in changed], right=counted)
    steps = [(whose(each.partition), *step) for each in done for step in _steps(each)]
    if steps:
        table(["user", "would be" if dry_run else "was", "id", "memory", "because"], steps)


def _counts(done: Maintained) -> tuple[Any, ...]:
    made = done.consolidated
    purged = "-" if done.dry_run else done.purged
    sizes = (len(made.episodes), len(made.merged), len(made.recurring), len(done.retired), purged)
    return (done.partition.org, whose(done.partition), *sizes)


def _steps(done: Maintained) -> Iterator[tuple[str, str, str, str]]:
    """Each change: what became of which memory, and why."""
    made = done.consolidated
    for episode in made.episodes:
        yield "noted", episode.id, one_line(episode.content, 60), f"session {episode.scope.session} is idle"
    for doubles in made.merged:
        yield "merged", doubles.ended.id, one_line(doubles.ended.content, 60), f"says the same as {doubles.kept.id}"
    for memory in made.recurring:
        because = f"it came up in {len(memory.data[RESTS_ON])} episodes"
        yield "learned", memory.id, one_line(memory.content, 60), because
    for pruned in done.retired:
        yield "retired", pruned.record.id, one_line(pruned.record.content, 60), pruned.reason


def worker(
    once: Annotated[bool, typer.Option("--once", help="Stop when nothing is due.")] = False,
    failures: Annotated[bool, typer.Option("--failures", help="List the jobs that were given up.")] = False,
    retry: Annotated[str | None, typer.Option(metavar="ID", help="Retry a failed job.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Process what was said until Ctrl-C: embed, rate, merge, summarise.

    Example: recollect worker --failures
    """
    if failures:
        _show_failures(look(url, lambda memory: memory.failures()), as_json)
    elif retry is not None:
        look(url, lambda memory: _retry(memory, retry))
        give(as_json, {"retry": retry}, "It will be tried again.")
    else:
        if not as_json:
            say(f"Processing what was said, in {place(url)}." + ("" if once else " Press Ctrl-C to stop."))
        jobs = run(url, lambda memory: _work(memory, once, quiet=as_json))
        left = {"waiting": jobs["waiting"], "for later": jobs["scheduled"]}
        more = "".join(f" {count:,} {what}." for what, count in left.items() if count)
        give(as_json, jobs, _told(jobs) + more)


def _told(jobs: Mapping[str, int]) -> str:
    return f"{plural(jobs['done'], 'job')} done, {jobs['failed']} given up."


async def _work(memory: Memory, once: bool, *, quiet: bool) -> dict[str, int]:
    """Work until nothing is due, or until asked to stop; what has begun is finished."""
    stop = asked_to_stop()
    poll_s = Settings.read(os.environ).poll_s
    stopped = asyncio.create_task(stop.wait())
    while not stop.is_set():
        work = asyncio.create_task(memory.work())
        await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([work], timeout=GRACE_S)
        try:
            if not work.done():
                work.cancel()
            if await work and not (once or quiet):
                say(f"{datetime.now():%H:%M:%S}  {_told(memory.describe()['jobs'])}", style="dim")
        except asyncio.CancelledError:
            break
        except Unavailable as error:
            if once:
                raise
            complain(f"{error}; trying again")
        if once:
            break
        await asyncio.wait([stopped], timeout=poll_s)
    stopped.cancel()
    jobs: dict[str, int] = memory.describe()["jobs"]
    survey = await memory.survey()
    return jobs | {"waiting": survey.jobs_waiting, "scheduled": survey.jobs_scheduled}


async def _retry(memory: Memory, id: str) -> None:
    for failure in await memory.failures():
        if failure.id == id:
            return await memory.retry(failure)
    raise NotFound(field="retry")


def _show_failures(found: list[Record], as_json: bool) -> None:
    if as_json:
        emit([
            {"id": r.id, "org": r.scope.org, "user": r.scope.user, "at": day_and_time(r.created_at),
             "kind": r.data["kind"], "attempts": r.data["attempts"], "reason": r.content}
            for r in found
        ])  # fmt: skip
    elif found:
        rows = [(r.id, r.scope.user, day_and_time(r.created_at), r.data["kind"], r.content) for r in found]
        table(["id", "user", "when", "job", "reason"], rows)
    else:
        say("No jobs were given up.")


def users(
    org: Annotated[str | None, typer.Option(help="Only users of this organisation.", show_default=False)] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the users that have memories and their orgs (the values --user and --org accept).

    Example: recollect users --org acme
    """
    everyone = look(url, lambda memory: memory.users())
    found = [each for each in everyone if each.user and org in (None, each.org)]
    if as_json:
        emit([{"org": each.org, "user": each.user} for each in found])
    elif found:
        table(["org", "user"], [(each.org, each.user) for each in found])
    else:
        say(f"Nothing is remembered about anybody in {place(url)}.")
    if not found:
        raise typer.Exit(NOT_FOUND)


def stats(url: Url = None, as_json: Json = False) -> None:
    """Show how much is remembered, how it grows, how old it is, which jobs are waiting, and what is in use.

    Growth, ages and use are those of up to 25 users and their newest 1,000 records in each layer. How fast a server
    answers, and how often from memory, is on its console and at /metrics.

    Example: recollect stats --json
    """

    async def count(memory: Memory) -> dict[str, Any]:
        survey = await memory.survey()
        return {
            "users": survey.partitions,
            "records": dict(survey.records),
            "jobs": survey.jobs,
            "bytes": survey.bytes,
            **await _sampled(memory),
            "uses": memory.describe(),
        }

    found = look(url, count)
    if as_json:
        emit(found)
        return
    jobs, uses = found["jobs"], found["uses"]
    rows = [("kept for", owners(found["users"]))]
    rows += [(layer, plural(records, "record")) for layer, records in told_counts(found["records"]).items()]
    rows += [("jobs", f"{jobs['waiting']} waiting, {jobs['running']} running, {jobs['scheduled']} for later")]
    if given_up := found["records"].get("failure"):
        rows += [("given up", f"{plural(given_up, 'job')}; see `recollect worker --failures`")]
    rows += [("size", size(found["bytes"])), *_grown(found)]
    for holds, store in uses["store"].get("parts", {"": uses["store"]}).items():
        rows += [(f"{holds}: {name}" if holds else name, told) for name, told in _kept(store)]
    rows += [("embedder", uses["embedder"]), ("enrichment", uses["enrichment"]), ("token counts", uses["tokens"])]
    table(["what", "found"], rows)


async def _sampled(memory: Memory) -> dict[str, Any]:
    """How old the newest records of some users are, and which share of their memories was ever in a context."""
    owners = [each for each in await memory.users() if each.user]
    found: list[Record] = []
    for each in owners[:USERS_READ]:
        user = memory.user(each.user, org=each.org)
        for layer in GROWING:
            found += (await user.list_memories(layer=layer, limit=RECORDS_READ, newest_first=True))[0]
    knowledge = [record for record in found if record.layer == "long_term"]
    used = sum(bool(record.data.get("usage_count")) for record in knowledge)
    return {
        "ages": ages((record.when for record in found), system_clock()),
        "used": used / len(knowledge) if knowledge else None,
        "users_sampled": min(len(owners), USERS_READ),
    }


def _grown(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The rows about growth, ages and use."""
    counts = found["ages"]
    day, week, month = accumulate(counts[f"up to {name}"] for name in ("a day", "a week", "a month"))
    if any(counts.values()):
        yield "growth", f"+{day:,} in a day, +{week:,} in a week, +{month:,} in a month"
        yield "ages", ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
    if found["used"] is not None:
        yield "used", f"{found['used']:.0%} of the memories have been in a context"


def _kept(store: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Where a store is, and what it says of itself."""
    yield "where", health.absolute(store)
    for name, value in store.items():
        if name != "url":
            yield name.replace("_", " "), _yes_or_no(value)


def _yes_or_no(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def doctor(url: Url = None, as_json: Json = False) -> None:
    """Check this installation and its memories; nothing is changed.

    Example: recollect doctor --url sqlite:///recollect.db
    """

    async def examine() -> list[health.Check]:
        return [check async for check in health.examine(url)]

    checks = on_loop(examine(), url)
    if as_json:
        emit([check.to_dict() for check in checks])
    else:
        color = {OK: "green", WARN: "yellow", FAIL: "bold red"}
        rows = [
            (Text(check.state, style=color[check.state]), check.name, one_line(check.told, 300)) for check in checks
        ]
        table(["", "check", "found"], rows)
    if any(check.state == FAIL for check in checks):
        raise typer.Exit(NOT_FOUND)
