"""What ties a record to others: what it rests on, what was merged into it, and what was done to it."""

from __future__ import annotations

from typing import Any

from recollect.layers import GRAPH_LAYERS
from recollect.policies import graphs
from recollect.policies.quarantine import QUARANTINED
from recollect.policies.recurring import RESTS_ON, texts_in
from recollect.records import Record

QUOTES = "quotes"
"""The label of a reply that holds the ids of what it quotes: the reply goes when they do."""
UNLEARNED = "unlearned"
"""In the data of a message: the undos that took back what it taught, each with the extractor that it concerns."""

_TIES = frozenset({"merged_into", "merged", RESTS_ON, UNLEARNED, QUARANTINED})


def rests_on(record: Record) -> tuple[str, ...]:
    """The records without which this one says nothing."""
    if record.layer in GRAPH_LAYERS:
        return graphs.rests_on(record)
    if record.data.get("role") == "assistant" and isinstance(quoted := record.metadata.get(QUOTES), list):
        return texts_in(quoted)
    return (record.data["merged_into"],) if "merged_into" in record.data else ()


def tied_to(record: Record) -> tuple[str, ...]:
    """The ids by which a record is looked up: of what it rests on, of what was merged into it, and of the acts
    that set it aside or took back what it taught. Memories of what recurs are few, and looked up all together.
    """
    data = record.data
    if not record.metadata and record.layer not in GRAPH_LAYERS and _TIES.isdisjoint(data):
        return ()  # most records stand alone
    ids: list[Any] = [*rests_on(record)]
    if RESTS_ON in data:
        ids.append(RESTS_ON)
    if isinstance(taken_in := data.get("merged"), list):
        ids += [each.get("id") for each in taken_in if isinstance(each, dict)]
    if isinstance(undone := data.get(UNLEARNED), dict):
        ids += undone
    if isinstance(note := data.get(QUARANTINED), dict):
        ids.append(note.get("undo"))
    return tuple(id for id in ids if isinstance(id, str)) if ids else ()
