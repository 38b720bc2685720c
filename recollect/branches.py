"""Branches: the copied messages that a session begins with when it branches off from another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from recollect.conversation import said_in, session_head
from recollect.errors import Conflict, NotFound
from recollect.ledger import Ledger, portions
from recollect.records import Changes, Record, Scope, derived_id, enrich_jobs, with_data, without_data
from recollect.seals import find_seal
from recollect.stores.contract import PAYLOAD_MAX_BYTES

if TYPE_CHECKING:
    from recollect.index import PartitionIndex

BRANCHING = "branching"
"""In the head of a session: the message up to which it is still being copied from its parent."""
ANCESTORS = "ancestors"
"""In the head of a branch: the sessions that its parent branched off from, the nearest first. They may be deleted."""


async def branch(ledger: Ledger, scope: Scope, message_id: str, into: Scope) -> None:
    """Copy the conversation up to and including a message into a new session."""
    partition = scope.partition
    last = await ledger.one(partition, message_id, "message_id")
    if last.layer != "conversation" or last.scope.session != scope.session:
        raise NotFound(field="message_id")
    seal = await find_seal(ledger, partition, [last.id])
    where = replace(said_in(partition, scope.session), born_before=(last.born[0], last.born[1] + 1))
    originals = {copy_id(into.session, record.id): record async for record in ledger.walk(where)}
    there = {record.id async for record in ledger.walk(said_in(partition, into.session))}
    head = await session_head(ledger, into)
    # An interrupted branch records how far it was meant to go: the same call resumes it.
    goes_on = (head.data.get("parent"), head.data.get(BRANCHING)) == (scope.session, message_id)
    if there - originals.keys() or (there and "parent" in head.data and not goes_on):
        raise Conflict("the new session already has messages; choose another id", field="session")
    missing = [_copy(ledger, record, into) for id, record in originals.items() if id not in there]
    above = (await session_head(ledger, scope)).data
    line = {ANCESTORS: [above["parent"], *above.get(ANCESTORS, ())] if "parent" in above else []}
    pieces = list(portions(missing, bytes_max=PAYLOAD_MAX_BYTES // 2)) or [[]]  # with room for the head beside them
    for place, piece in enumerate(pieces, start=1):
        # The mark is written with the first copies, because forgetting a message finds its copies through it.
        mark = {"parent": scope.session} | line | ({BRANCHING: message_id} if place < len(pieces) else {})
        head = await session_head(ledger, into)
        put = (*piece, with_data(without_data(head, BRANCHING), **mark))
        # What is forgotten or set aside during the copying must not live on in the copy.
        needs = (seal, *(originals[copy.id].id for copy in piece))
        fresh = tuple(copy.id for copy in piece if copy.vector is None)
        enqueue = enrich_jobs(partition, fresh, ledger.clock())
        await ledger.commit(Changes(partition, put=put, enqueue=enqueue, needs=needs))


def _copy(ledger: Ledger, record: Record, into: Scope) -> Record:
    now, layer = ledger.clock(), ledger.layers["conversation"]
    return record.with_(
        id=copy_id(into.session, record.id),
        scope=layer.scope_of(into),
        created_at=now,
        event_at=record.when,
        expires_at=layer.expires_at(now),
        version=0,
    )


def copy_id(session: str, message_id: str) -> str:
    """The id of a message's copy in a session that branched off."""
    return derived_id("branch", session, message_id)


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
