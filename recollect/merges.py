"""What merged memories passed on to others, taken out of these again when one is forgotten or restored.

It may have been passed on further, if the other was merged as well; and it is in the history of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from recollect.ledger import Ledger
from recollect.long_term import past_ids, past_states
from recollect.policies.graphs import without_absorbed
from recollect.policies.merging import merges_of, without_given, without_merge
from recollect.policies.unlearning_graphs import without_names
from recollect.records import Record

Held = Callable[[str], Record | None]
"""The record of an id, if there is one."""


async def told_by(ledger: Ledger, record: Record) -> list[Mapping[str, Any]]:
    """The metadata that a record may have passed on: those it has, and those it had before each edit."""
    past = await past_states(ledger, record.scope.partition, [record])
    return [record.metadata, *(state.metadata for state in past)]


async def take_out(
    ledger: Ledger, gone: Record, gave: Sequence[Mapping[str, Any]], holder: str, held: Held, *, late: bool = False
) -> None:
    """Take what a record gave out of the one it was merged into, and out of those that this one was merged into.

    `late`: the record was dropped already. It may have been merged in an edited state of which nothing is known any
    more, so what it gave is also looked up in the merge itself.
    """
    older = held(holder)
    merges = merges_of(older) if older is not None and late else ()
    given = {key for merge in merges if merge.id == gone.id for key in merge.added}

    def said(each: Record) -> dict[str, Any]:
        """What it may have given to this one: what it says or said, or whatever is now under the names it gave."""
        return {
            key: value
            for key, value in each.metadata.items()
            if key in given or any(key in told and told[key] == value for told in gave)
        }

    def handed_on(by: str, each: Record) -> Record:
        return without_given(each, by, said(each))

    await _change_with_past(ledger, older, lambda each: _alone(each, gone.with_(metadata=said(each))))
    seen = {gone.id}
    while older is not None and holder not in seen and "merged_into" in older.data:
        seen.add(holder)
        by, holder = holder, str(older.data["merged_into"])
        older = held(holder)
        await _change_with_past(ledger, older, partial(handed_on, by))


async def _change_with_past(ledger: Ledger, record: Record | None, change: Callable[[Record], Record]) -> None:
    """Change a record, and its past in the same way."""

    def everywhere(each: Record) -> Record:
        if each.layer != "past":
            return change(each)
        left = change(each.with_(layer=each.data["layer"], data=each.data["data"]))
        return each.with_(metadata=left.metadata, data={**each.data, "data": left.data})

    if record is None:
        return
    partition, ids = record.scope.partition, [record.id, *past_ids(record)]
    await ledger.change_each(partition, ids, everywhere)
    # It may have been edited before it was changed, and that left a past state more.
    later = [id for each in await ledger.get(partition, [record.id]) for id in past_ids(each) if id not in ids]
    await ledger.change_each(partition, later, everywhere)


def _alone(older: Record, gone: Record) -> Record:
    """A record without what a record merged into it contributed."""
    if older.layer != "entity":
        return without_merge(older, gone)
    entity = without_names(older, gone.data["names"] if gone.data.get("alias") else ())
    return without_absorbed(entity, gone.id)
