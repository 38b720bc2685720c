"""The profile: what is known about a user, drawn over time, with the verdicts people can give on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from recollect import validate
from recollect.errors import NotFound
from recollect.policies.keys import key_of
from recollect.profile import Fact, Facts
from recollect.records import as_datetime
from recollect.server import bodies
from recollect.server.console.door import Filled, router
from recollect.server.console.pages import moved, page
from recollect.server.console.timeline import Row, Timeline, draw
from recollect.server.profile import Verdict, judged
from recollect.server.routing import Here, Owner
from recollect.user import User

routes = router()

LANES = 60
"""How many keys the timeline shows: those known first."""
KEYS_READ = 500
"""How many facts are read to find the keys."""

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
    """What is known about one key, and everything ever said about it."""

    key: str
    facts: tuple[Fact, ...]
    history: tuple[Fact, ...]
    heads: Mapping[str, str]
    """The id of the memory that holds each value now, or held it last."""


@dataclass(frozen=True, slots=True)
class ProfilePage:
    """The page: facts over time, and facts and preferences now or as of a day."""

    name: str | None
    timeline: Timeline
    facts: tuple[Known, ...]
    preferences: tuple[Known, ...]
    as_of: str


@routes.get("/users/{user}/profile")
async def profile(request: Request, service: Here, owner: Owner, as_of: str = "") -> Response:
    """What is known now, or was true on a day."""
    moment = validate.moment(as_of or None, "as_of")
    asked = None if moment is None else as_datetime(moment)
    now = as_datetime(service.clock())
    facts = await _known(owner, owner.facts, "fact", asked)
    preferences = await _known(owner, owner.preferences, "preference", asked)
    named = next((fact.value for each in facts if each.key == "name" for fact in each.facts), None)
    view = ProfilePage(
        name=named,
        timeline=draw(list(_rows(facts)), now, asked),
        facts=tuple(each for each in facts if each.facts),
        preferences=tuple(each for each in preferences if each.facts),
        as_of=as_of,
    )
    return page(request, "profile", view)


async def _known(owner: User, held: Facts, layer: str, asked: datetime | None) -> list[Known]:
    """Every key that anything was ever said about, with what holds and what held."""
    current: dict[str, list[Fact]] = {}
    for fact in await held.list(as_of=asked):
        current.setdefault(fact.key, []).append(fact)
    heads, _ = await owner.list_memories(layer=layer, limit=KEYS_READ)
    keys: dict[str, dict[str, str]] = {}
    for head in heads:
        keys.setdefault(str(head.data["key"]), {})[str(head.data["value"])] = head.id
    return [
        Known(key, tuple(current.get(key, ())), tuple(await held.history(key)), values)
        for key, values in list(keys.items())[:LANES]
    ]


def _rows(known: Sequence[Known]) -> Iterator[Row]:
    """A lane for each key; a key that may have many values at a time gets one for each value."""
    for each in known:
        if not key_of(each.key).many:
            yield Row(each.key, next(iter(each.heads.values())), each.history)
        else:
            for value, id in each.heads.items():
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
