"""Items into memory, in batches and identified by id, so that a repeat changes nothing and a stopped import resumes.

Every reader's items come through here. A batch is one write for each user, session and kind; if one is
refused, it is retried item by item, so that the outcome says which item it was and the others are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from recollect import validate
from recollect.errors import Conflict, RecollectError, Unavailable
from recollect.importers.chronology import is_reordered, oldest_first
from recollect.importers.items import (
    KINDS,
    Became,
    Expired,
    Imported,
    Item,
    LeftOut,
    Problem,
    Read,
    Source,
    is_id,
    refused,
)
from recollect.importers.repeats import Repeats
from recollect.memory import Memory
from recollect.records import as_datetime
from recollect.session import Session
from recollect.user import User

BATCH_ITEMS = 45
"""Items stored together: with the job that enriches them, and a merge for each, they fit into one write."""
BATCH_BYTES = 256 * 1024
"""Bytes stored together: parts are kept twice, as text and as they are, and a write holds 1 MiB."""

APART_S = 0.001
"""How long the next value of a key waits if it has no date: two equal ones become one where what came between them held
for no millisecond, and in such a history the source could not be recognized when it is imported again."""

UserOf = Callable[[str], User]
"""Who receives what belonged to a user of the source."""
Advance = Callable[[int], None]
Admit = Callable[[], Awaitable[None]]
"""Called before each write; an error ends the import there."""
Tell = Callable[[Mapping[str, Any]], None]
"""Called with what became of each line."""

_TOGETHER = ("message", "memory", "record")
"""Kinds of which many are stored in one write."""
_UNASKED = ("session", "past")


async def bring_in(
    source: Source,
    user_of: UserOf,
    *,
    only: str | None = None,
    all_or_nothing: bool = False,
    dry_run: bool = False,
    again: bool = False,
    advance: Advance = lambda _: None,
    tell: Tell = lambda _: None,
    admit: Admit | None = None,
) -> Imported:
    """Store what a source has, and report what became of each line of it.

    A bad line is reported and the others are stored. With `all_or_nothing` every line is tried first,
    and one bad line means that nothing is stored. With `dry_run` lines are only tried. `only` limits it to what
    belonged to one user of the source. Whatever has an owner in the source goes to `user_of(owner)`. With `again`,
    known messages are sent again, so that they live as long as the settings say now, if that is longer.
    """
    if dry_run or all_or_nothing:
        outcome = Imported(stored=False, tell=tell if dry_run else lambda _: None)
        await _through(source, only, _Trial(user_of), outcome, advance)
        outcome.new, outcome.known = 0, 0
        if dry_run or outcome.bad:
            return outcome
    keeper = _Keeper(user_of, again=again, in_turn=is_reordered(source), admit=admit)
    return await _through(source, only, keeper, Imported(tell=tell), advance)


async def _through(
    source: Source, only: str | None, keeper: _Keeper | _Trial, outcome: Imported, advance: Advance
) -> Imported:
    """Read the source batch by batch and pass each to the keeper, without items that contradict earlier ones."""
    repeats = Repeats()
    async for batch in _batches(oldest_first(source), outcome, only):
        await keeper.store([item for item in batch if _is_once(item, keeper.user_of, repeats, outcome)], outcome)
        advance(batch[-1].done)
    outcome.problems.sort(key=lambda problem: problem.line)
    return outcome


def _is_once(item: Item, user_of: UserOf, repeats: Repeats, outcome: Imported) -> bool:
    """Whether nothing else came under its name; if something did, that is reported."""
    try:
        user = user_of(item.owner)
    except RecollectError:
        return True  # the keeper reports what is wrong with the owner
    try:
        repeats.check(user.id, item)
    except Conflict as error:
        outcome.report(refused(item.line, error))
        return False
    return True


async def _batches(read: Iterator[Read], outcome: Imported, only: str | None) -> AsyncIterator[list[Item]]:
    """Items that fit into one write. Reading may wait for a disk or a server, so it runs in a thread."""
    batch: list[Item] = []
    held = 0
    while found := await asyncio.to_thread(lambda: list(islice(read, BATCH_ITEMS))):
        for each in found:
            item = _item(each, outcome, only)
            if item is None:
                continue
            if batch and (len(batch) == BATCH_ITEMS or held + item.size > BATCH_BYTES):
                yield batch
                batch, held = [], 0
            batch.append(item)
            held += item.size
    if batch:
        yield batch


def _item(read: Read, outcome: Imported, only: str | None) -> Item | None:
    """The item, if it is one that is wanted; bad, expired and left-out lines are noted."""
    if isinstance(read, Problem):
        outcome.report(read)
    elif isinstance(read, Expired):
        outcome.expire(read.line)
    elif isinstance(read, LeftOut):
        outcome.leave_out(read)
    elif only is None or read.owner == only:
        return read
    return None


class _Keeper:
    """Stores items, and leaves what is already known as it is."""

    def __init__(
        self, user_of: UserOf, *, again: bool = False, in_turn: bool = False, admit: Admit | None = None
    ) -> None:
        self.user_of = user_of
        self._again, self._in_turn, self._admit = again, in_turn, admit
        self._told: dict[tuple[str, str], int] = {}
        """How far the history of each key of a user has been repeated by what was read so far."""

    async def store(self, items: Sequence[Item], outcome: Imported) -> None:
        """Store a batch kind by kind, one write for each user and session; a session keeps its order.

        Sessions that were put in order are stored in it, others at the same time.
        """
        if self._admit is not None:
            await self._admit()
        for kind in KINDS:
            groups: dict[tuple[str, str, str], list[Item]] = {}
            for item in items:
                if item.kind != kind:
                    continue
                if kind not in _TOGETHER:
                    await self._store_group([item], outcome)
                else:
                    groups.setdefault((item.owner, item.session, item.agent), []).append(item)
            if self._in_turn:
                for group in groups.values():
                    await self._store_group(group, outcome)
            else:
                await asyncio.gather(*(self._store_group(group, outcome) for group in groups.values()))

    async def _store_group(self, group: Sequence[Item], outcome: Imported) -> None:
        """Store them together; if that is refused, each by itself, to tell which one it was."""
        try:
            became = await self._add(self.user_of(group[0].owner), group)
        except Unavailable:
            raise
        except RecollectError as error:
            if len(group) == 1:
                outcome.report(refused(group[0].line, error))
                return
            for item in group:
                await self._store_group([item], outcome)
            return
        for item, each in zip(group, became, strict=True):
            outcome.keep(item, each)

    async def _add(self, user: User, group: Sequence[Item]) -> list[Became]:
        """Store what is not known yet. Returns what became of each."""
        match group[0].kind:
            case "message" | "memory":
                return await _add_texts(user, group, again=self._again)
            case "record":
                return [_became(new) for new in await _add_records(user, group)]
            case "fact":
                return [_became(await self._add_fact(user, item)) for item in group]
        add = _ONE_BY_ONE[group[0].kind]
        return [_became(await add(user, item)) for item in group]

    async def _add_fact(self, user: User, item: Item) -> bool:
        """Add a fact unless it is known; without dates in the order of the source, so that the last one holds."""
        key = item.given["key"]
        since = validate.moment(item.given.get("valid_from"), "valid_from")
        history = await user.facts.history(key)
        same = [(place, fact) for place, fact in enumerate(history) if fact.value == item.given["value"]]
        if since is not None:
            is_known = any(_holds(fact.valid_from, fact.valid_to, since) for _, fact in same)
        else:
            told = self._told.get((user.id, key), 0)
            again = next((place + 1 for place, _ in same if place >= told), None)
            is_known = again is not None or any(fact.valid_to is None for _, fact in same)
            self._told[user.id, key] = again or (told if is_known else len(history) + 1)
            if told and not is_known:
                await asyncio.sleep(APART_S)
        if not is_known:
            await user.add_fact(**item.given)
        return not is_known


class _Trial:
    """Tries items: stores each batch in a temporary memory, so that every check is the real one.

    Items that keep the id of their source are also compared with what has that id here.
    """

    def __init__(self, user_of: UserOf) -> None:
        self.user_of = user_of

    async def store(self, items: Sequence[Item], outcome: Imported) -> None:
        async with Memory.open("memory://", embedder="none", worker=False) as memory:
            keeper = _Keeper(lambda owner: memory.user(self.user_of(owner).id))
            await keeper.store([item for item in items if not await self._is_taken(item, outcome)], outcome)

    async def _is_taken(self, item: Item, outcome: Imported) -> bool:
        """Whether another text already has the id of this one."""
        id, content = item.given.get("id"), item.given.get("content")
        if not item.verbatim or not is_id(id) or not isinstance(content, str):
            return False
        try:
            user = self.user_of(item.owner)
        except RecollectError:
            return False  # the keeper reports why
        if [record.content for record in await user.get_memories([id])] in ([], [content]):
            return False
        outcome.report(refused(item.line, Conflict("already belongs to another text", field="id")))
        return True


# ── one kind at a time ───────────────────────────────────────────────────────────────────────────


def _became(new: bool) -> Became:
    return "new" if new else "known"


async def _add_texts(user: User, group: Sequence[Item], *, again: bool) -> list[Became]:
    ids = [item.given["id"] for item in group]
    if len(set(ids)) < len(ids):
        raise Conflict("the same id twice", field="id")  # retried one by one, the second finds the first
    stored = {record.id: record.content for record in await user.get_memories(ids)}
    became = [_text_became(item, stored.get(item.given["id"])) for item in group]
    # Another text under an id that the source gave is for the store to refuse.
    given = [
        dict(item.given)
        for item, each in zip(group, became, strict=True)
        if each == "new" or (each == "different" and item.verbatim)
    ]
    first = group[0]
    if again and first.kind == "message":
        known = [dict(item.given) for item, each in zip(group, became, strict=True) if each == "known"]
        await _send_again(user.session(first.session, agent=first.agent), known)
    if given and first.kind == "message":
        await user.session(first.session, agent=first.agent).add_messages(given)
    elif given:
        await user.add_memories(given)
    return became


async def _send_again(session: Session, known: Sequence[Mapping[str, Any]]) -> None:
    """Send known messages again, for their life alone: what was changed here since stays as it is."""
    if not known:
        return
    try:
        await session.add_messages(known)
    except Conflict:
        for message in known if len(known) > 1 else ():
            await _send_again(session, [message])


def _text_became(item: Item, stored: str | None) -> Became:
    """Whether it is already there, and reads the same here."""
    if stored is None:
        return "new"
    content = item.given["content"]
    return "different" if isinstance(content, str) and stored != content else "known"


async def _add_records(user: User, group: Sequence[Item]) -> list[bool]:
    """Import exported records. Titles and pasts cannot be looked up by id: only how many are new is known."""
    asked = [id for item in group if is_id(id := item.given.get("id"))]
    known = {record.id for record in await user.get_memories(asked)} if asked else set()
    new = await user.import_records([item.given for item in group])
    fresh = {item.given.get("id"): place for place, item in reversed(list(enumerate(group)))}
    likely = [place for id, place in fresh.items() if id not in known]
    likely.sort(key=lambda place: (group[place].given.get("layer") in _UNASKED, place))
    return [place in likely[:new] for place in range(len(group))]


def _holds(begins: datetime | None, ends: datetime | None, at_ms: int) -> bool:
    """Whether something that begins and ends then holds at a time."""
    at = as_datetime(at_ms)
    return (begins is None or begins <= at) and (ends is None or at < ends or at == begins)


async def _add_entity(user: User, item: Item) -> bool:
    found = await user.graph.find(item.given["name"])
    if found is not None:
        return False
    await user.graph.add_entity(**item.given)
    return True


async def _add_relation(user: User, item: Item) -> bool:
    graph, given = user.graph, item.given
    ends = [await graph.find(given[side]) for side in ("subject", "object")]
    if ends[0] is not None and ends[1] is not None:
        for known in await graph.relations(ends[0], ended=True):
            if (known.subject, known.relation, known.object) == (ends[0].id, given["relation"], ends[1].id):
                return False
    await graph.relate(**given)
    return True


async def _name_session(user: User, item: Item) -> bool:
    """Give a session its title, unless it already has one: it may have been renamed since."""
    session = user.session(item.session, agent=item.agent)
    if await session.title() is not None:
        return False
    await session.rename(item.given["title"])
    return True


_ONE_BY_ONE: dict[str, Callable[[User, Item], Awaitable[bool]]] = {
    "entity": _add_entity,
    "relation": _add_relation,
    "session": _name_session,
}
