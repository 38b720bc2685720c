"""Branches: the copied messages that a session begins with when it branches off from another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from recollect.conversation import ANCESTORS, copy_id
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
    messages = [record for record in records if record.layer == "conversation"]
    branches = _branches_of_each(index, now) if messages else {}
    for message in messages if branches else ():
        for id in _copies_below(message.id, message.scope.session, branches):
            if id in index.row_of:
                found.setdefault(id, index.records[index.row_of[id]])
    return list(found.values())


def _copies_below(id: str, session: str, branches: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The ids that copies of a message have, if they exist. Copies of copies may outlive the ones between."""
    paths: list[tuple[str, tuple[str, ...]]] = [(id, (session,))]
    while paths:
        id, path = paths.pop()
        anywhere = () if path[1:] else branches.get("", ())
        for branch in (*branches.get(path[-1], ()), *anywhere):
            if branch not in path:
                copy = copy_id(branch, id)
                yield copy
                paths.append((copy, (*path, branch)))


def _branches_of_each(index: PartitionIndex, now: int) -> dict[str, set[str]]:
    """The branches of each session, including deleted ones that a branch of theirs still names.

    Under the empty name: deleted sessions of which nothing is known but that they had a branch. They may have
    branched off from any session.
    """
    found: dict[str, set[str]] = {}
    lost: set[str] = set()
    for head in index.held("session", now):
        parent, above = head.data.get("parent"), head.data.get(ANCESTORS)
        if isinstance(parent, str):
            lost |= set() if isinstance(above, list) else {parent}  # earlier versions did not note where that came from
            line = [head.scope.session, parent, *(above if isinstance(above, list) else ())]
            for branch, of in pairwise(each for each in line if isinstance(each, str)):
                found.setdefault(of, set()).add(branch)
    lost -= index.sessions.keys() | set().union(*found.values())
    return found | ({"": lost} if lost else {})


def _branches(index: PartitionIndex, now: int, parent: str) -> list[str]:
    """The sessions that branched off from `parent`."""
    return [head.scope.session for head in index.held("session", now) if head.data.get("parent") == parent]
