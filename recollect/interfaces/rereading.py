"""The command `reprocess`: reads stored conversations again, by better rules or by a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from recollect.interfaces.models import Everyone, EveryOrg, check_known
from recollect.interfaces.options import Json, Url, look
from recollect.interfaces.output import added_up, emit, one_line, plural, progress, say, table
from recollect.memory import Memory
from recollect.reprocessing import Reprocessed


def reprocess(
    user: Everyone = None,
    org: EveryOrg = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="rules|model", help="What reads them. Default: the model, if there is one."),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Learn it. Without this, only show what would change.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Start over, even where the model has already read.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Read stored conversations again, and show what would be learned; --apply learns it.

    What was learned before is not learned twice, and what was undone stays undone.
    It can be stopped at any point; run again, it resumes where it left off.

    Example: recollect reprocess --by rules
    """

    async def go(memory: Memory) -> list[Reprocessed]:
        records = (await memory.survey()).records
        total = records.get("conversation", 0) if user is org is None else None
        with progress("Reading", total) as advance:
            return await memory.reprocess(user=user, org=org, by=by, apply=apply, again=again, told=added_up(advance))

    done = look(url, go)
    if as_json:
        emit([each.to_dict() for each in done])
    elif done:
        _show(done, apply)
    elif user is org is None:
        say("There are no conversations to read.")
    check_known(done, user, org, as_json)


def _show(done: Sequence[Reprocessed], apply: bool) -> None:
    rows = [
        (
            each.partition.user,
            difference.change,
            difference.layer,
            one_line(difference.key, 40),
            one_line(difference.value, 60),
        )
        for each in done
        for difference in each.differences
    ]
    if rows:
        table(["user", "", "layer", "key", "value"], rows)
    missing = [(each.partition.user, fact.key, one_line(fact.value, 60)) for each in done for fact in each.missing]
    if missing:
        say("Known, but no longer found; `recollect facts reject` rejects what is wrong:")
        table(["user", "key", "value"], missing)
    by = ", ".join(dict.fromkeys(each.by for each in done))
    read = f"{plural(sum(each.messages for each in done), 'message')} read by {by}"
    changed = plural(len(rows), "difference")
    say(f"{read}: {changed}{', learned' if apply and rows else '; --apply learns them' if rows else ''}.")
