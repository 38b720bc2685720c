"""Branches: the copied messages that a session begins with when it branches off from another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from recollect.conversation import copy_id
from recollect.records import Record

if TYPE_CHECKING:
    from recollect.index import PartitionIndex


def is_copy(index: PartitionIndex, message: Record, now: int) -> bool:
    """Whether it was copied when its session branched off, and the original still exists."""
    head = index.head("session", message.scope, now)
    parent = head.data.get("parent") if head is not None else None
    return parent is not None and any(
        each.content == message.content and copy_id(message.scope.session, each.id) == message.id
        for each in index.session(parent, now)
    )


def copies_of(index: PartitionIndex, session: str, now: int) -> dict[str, str]:
    """The messages of a session that a branch of it also holds, each with the id of its copy there."""
    messages = index.session(session, now)
    found: dict[str, str] = {}
    for branch in _branches(index, now, session) if messages else ():
        there = {record.id for record in index.session(branch, now)}
        copies = {each.id: copy_id(branch, each.id) for each in messages}
        found = {id: copy for id, copy in copies.items() if copy in there} | found
    return found


def with_copies(index: PartitionIndex, records: Sequence[Record], now: int) -> list[Record]:
    """These records and the copies of their messages in branches, and in branches of branches."""
    found = {record.id: record for record in records}
    newest = [record for record in records if record.layer == "conversation"]
    branches = _branches(index, now) if newest else []
    while newest and branches:
        ids = {copy_id(session, each.id) for each in newest for session in branches}
        newest = [index.records[index.row_of[id]] for id in ids if id in index.row_of and id not in found]
        found |= {record.id: record for record in newest}
    return list(found.values())


def _branches(index: PartitionIndex, now: int, parent: str | None = None) -> list[str]:
    """The sessions that branched off, from any session or from `parent`."""
    heads = [head for head in index.held("session", now) if "parent" in head.data]
    return [head.scope.session for head in heads if parent in (None, head.data["parent"])]
