"""The profile: what is known about a user, drawn over time, with the verdicts people can give on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from recollect import validate
from recollect.errors import NotFound
from recollect.policies.keys import key_of
from recollect.profile import Fact, Facts
from recollect.records import Record, as_datetime, as_ms
from recollect.server import bodies
from recollect.server.console.door import Filled, router
from recollect.server.console.pages import moved, page
from recollect.server.console.timeline import BELIEVED, Row, Timeline, draw
from recollect.server.profile import Verdict, judged
from recollect.server.routing import Here, Owner
from recollect.user import User

routes = router()

LANES = 60
"""How many keys the page shows: those known first. The timeline has at most as many lanes."""
VALUES, VALUES_ALONE = 8, 400
"""How many values of a key are shown: the latest, beside other keys and on a page of their own."""
PAST = 24
"""How many values a key had before are shown. The page of the memory has all of them."""
HEADS_READ, PAGE_READ = 10_000, 1_000
"""How many facts are read to find the keys, and how many of them at a time."""

Kind = Annotated[str, Path(description="facts or preferences.")]
DONE = {
    "confirm": "Confirmed.",
    "pin": "Pinned. Learned values will not replace it.",
    "unpin": "No longer pinned.",
    "reject": "Rejected. It will not be learned again from the same words.",
    "correct": "Corrected. The old value is treated as never having been true.",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about one key, the latest of it, and what was said about it before."""

    key: str
    facts: tuple[Fact, ...]
    more: int
    """How many values hold beside those in `facts`."""
    history: tuple[Fact, ...]
    heads: Mapping[str, str]
    """The id of the memory that holds each value now, or held it last."""

    @property
    def past(self) -> tuple[Fact, ...]:
        """What is worth unfolding: values that are not among those that hold, newest first."""
        held = {(fact.value, fact.valid_from) for fact in self.facts}
        others = [fact for fact in reversed(self.history) if (fact.value, fact.valid_from) not in held]
        if key_of(self.key).many:
            others = [fact for fact in others if fact.valid_to is not None or fact.status not in BELIEVED]
        return tuple(others[:PAST])


@dataclass(frozen=True, slots=True)
class ProfilePage:
    """The page: facts over time, and facts and preferences now or as of a day."""

    name: str | None
    timeline: Timeline
    facts: tuple[Known, ...]
    preferences: tuple[Known, ...]
    as_of: str
    key: str
    """The only key that is shown, or none."""


@routes.get("/users/{user}/profile")
async def profile(request: Request, service: Here, owner: Owner, as_of: str = "", key: str = "") -> Response:
    """What is known now, or was true on a day; with `key`, of this key alone and more of it."""
    moment = validate.moment(as_of or None, "as_of")
    asked = None if moment is None else as_datetime(moment)
    now = as_datetime(service.clock())
    facts = await _known(owner, owner.facts, "fact", asked, key)
    preferences = await _known(owner, owner.preferences, "preference", asked, key)

    def drawn() -> Response:
        view = ProfilePage(
            name=next((fact.value for each in facts if each.key == "name" for fact in each.facts), None),
            timeline=draw(list(islice(_rows(facts), LANES)), now, asked),
            facts=tuple(each for each in facts if each.facts),
            preferences=tuple(each for each in preferences if each.facts),
            as_of=as_of,
            key=key,
        )
        return page(request, "profile", view)

    return await asyncio.to_thread(drawn)  # finding room for all the text is a lot of arithmetic


async def _known(owner: User, held: Facts, layer: str, asked: datetime | None, only: str) -> list[Known]:
    """Every key that anything was ever said about, or one of them, with what holds and what held."""
    current: dict[str, list[Fact]] = {}
    for fact in await held.list(as_of=asked):
        current.setdefault(fact.key, []).append(fact)
    keys: dict[str, dict[str, str]] = {}
    async for head in _heads(owner, layer):
        if only in ("", head.data["key"]):
            keys.setdefault(str(head.data["key"]), {})[str(head.data["value"])] = head.id
    most = VALUES_ALONE if only else VALUES
    known = []
    for key, values in list(keys.items())[:LANES]:
        facts = current.get(key, [])
        latest = sorted(facts, key=lambda fact: as_ms(fact.valid_from) if fact.valid_from else 0)[-most:]
        shown = [fact for fact in facts if fact in latest]
        known.append(Known(key, tuple(shown), len(facts) - len(shown), tuple(await held.history(key)), values))
    return known


async def _heads(owner: User, layer: str) -> AsyncIterator[Record]:
    """The memories that hold what is known, in the order in which it became known."""
    after, read = None, 0
    while read < HEADS_READ:
        records, after = await owner.list_memories(layer=layer, limit=PAGE_READ, after=after)
        for record in records:
            yield record
        read += len(records)
        if after is None:
            return


def _rows(known: Sequence[Known]) -> Iterator[Row]:
    """A lane for each key; a key that may have many values at a time gets one for each of the latest."""
    for each in known:
        if not key_of(each.key).many:
            yield Row(each.key, next(iter(each.heads.values())), each.history[-PAST:])
        else:
            shown = {fact.value for fact in each.facts}
            for value, id in each.heads.items():
                if value in shown or not each.more:
                    yield Row(each.key, id, [fact for fact in each.history if fact.value == value])


@routes.post("/users/{user}/profile/{kind}")
async def say(request: Request, owner: Owner, kind: Kind, form: Filled) -> Response:
    """State what holds; another value ends the previous one, unless its key may have several at a time."""
    fact = await _held(owner, kind).add(form.get("key").strip(), form.get("value").strip())
    return moved(request, "users", owner.id, "profile", notice=f"Added: {fact.key.replace('_', ' ')}.")


@routes.post("/users/{user}/profile/{kind}/{verdict}")
async def judge(request: Request, owner: Owner, kind: Kind, verdict: Verdict, form: Filled) -> Response:
    """Confirm, pin, unpin, reject or correct what is known."""
    value, key = form.get("value"), form.get("key")
    if verdict == "correct":
        body = bodies.FactVerdict(value=form.get("right").strip(), instead_of=value)
    else:
        body = bodies.FactVerdict(value=value)
    await judged(_held(owner, kind), key, verdict, body)
    return moved(request, "users", owner.id, "profile", notice=DONE[verdict])


def _held(owner: User, kind: str) -> Facts:
    if kind not in ("facts", "preferences"):
        raise NotFound(field="kind")
    return owner.facts if kind == "facts" else owner.preferences
