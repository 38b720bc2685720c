"""Routes for what is known about a user: the profile, facts, preferences, learnings (also an org's), episodes."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from recollect import validate
from recollect.errors import ValidationError
from recollect.learnings import Learning, Learnings
from recollect.profile import Fact, Facts
from recollect.server import bodies, schemas
from recollect.server.answers import Json, large, made
from recollect.server.org import alike
from recollect.server.routing import PLACED, After, At, Holder, Limit, Owner, found_at, given, named, router, shapes
from recollect.server.schemas import choice_of
from recollect.validate import LIMITS

routes = router("/api/users/{user}", "profile")

VERDICTS = ("confirm", "pin", "unpin", "reject", "correct")
JUDGEMENTS = ("confirm", "contradict", "restore")
FactKey = Annotated[str, Path(description="What it is about, such as city or diet.", examples=["city"])]
Verdict = Annotated[
    str, Path(description="What the user says of it.", examples=["confirm"], json_schema_extra=choice_of(VERDICTS))
]
Judgement = Annotated[
    str, Path(description="What was found out about it.", examples=["confirm"], json_schema_extra=choice_of(JUDGEMENTS))
]
LearningId = Annotated[str, Path(description="The learning.")]
KnownAt = Annotated[str | None, Query(description="Return what was believed at this time.")]
EndedValue = Annotated[str | None, Query(description="The value that ends, if the key has several. Default: all.")]
Reason = Annotated[str, Query(description="Why it ends.")]
LearningType = Annotated[
    str | None, Query(description="Only this type.", json_schema_extra=choice_of(validate.LEARNING_TYPES))
]
Retired = Annotated[bool, Query(description="Include those that were retired.")]
OfSession = Annotated[str | None, Query(description="Only those of this session.")]
EpisodeId = Annotated[str, Path(description="The episode.")]


@routes.get("/profile", responses=shapes(schemas.Profile))
async def get_profile(owner: Owner, as_of: At = None, known_at: KnownAt = None) -> Response:
    """What is known now, was true at a given time (`as_of`), or was believed at a given time (`known_at`)."""
    profile = await owner.profile(as_of=as_of, known_at=known_at)
    return await large(profile.to_dict, len(profile.facts))


# ── Facts and preferences: the same routes for both ──────────────────────────────────────────────


async def _preferences(request: Request) -> None:
    request.state.layer = "preference"


async def _held(request: Request, owner: Owner) -> Facts:
    return owner.preferences if getattr(request.state, "layer", "") == "preference" else owner.facts


Held = Annotated[Facts, Depends(_held)]


async def _listed(found: list[Fact], status: int = 200) -> Response:
    return await large(lambda: {"facts": [fact.to_dict() for fact in found]}, len(found), status)


async def list_facts(
    held: Held, as_of: At = None, known_at: KnownAt = None, limit: Limit = LIMITS.limit_max, after: After = None
) -> Response:
    """A page of those that hold now, or that held at a given time, in the order in which they became known."""
    found, next_page = await held.page(as_of=as_of, known_at=known_at, limit=limit, after=after)
    return await large(lambda: {"facts": [fact.to_dict() for fact in found], "after": next_page}, len(found))


async def upsert_facts(held: Held, body: bodies.NewFacts) -> Response:
    """State up to 30 in one write."""
    with named(items="facts"):
        return await _listed(await held.upsert([given(item) for item in body.facts]), 201)


async def get_fact(held: Held, key: FactKey) -> Response:
    """What holds for a key, and everything ever said about it."""
    current, history = await held.get(key), await held.history(key)
    told = {"facts": [fact.to_dict() for fact in current], "history": [fact.to_dict() for fact in history]}
    return Json({"key": key, **told})


async def put_fact(held: Held, key: FactKey, body: bodies.FactValue) -> Response:
    """State what holds; repeating a value raises its confidence, another value ends the previous one, which is kept.

    A key that may have several values at a time, such as `hobby`, holds the new value beside the others.
    """
    return Json((await held.add(key, **given(body))).to_dict())


async def end_fact(held: Held, key: FactKey, value: EndedValue = None, at: At = None, reason: Reason = "") -> Response:
    """State that it no longer holds, as of now or of a given time; it stays in the history."""
    return await _listed(await held.end(key, value, at=at, reason=reason))


async def judge_fact(held: Held, key: FactKey, verdict: Verdict, body: bodies.FactVerdict | None = None) -> Response:
    """Confirm, pin, unpin, reject or correct what is known; only `correct` needs a body."""
    return await _listed(await judged(held, key, verdict, body or bodies.FactVerdict()))


async def judged(facts: Facts, key: str, verdict: str, body: bodies.FactVerdict) -> list[Fact]:
    """Apply a user's verdict on a key and return the facts that result."""
    validate.choice(verdict, VERDICTS, "verdict")
    if verdict == "correct":
        return [await facts.correct(key, body.value, instead_of=body.instead_of, reason=body.reason)]
    if body.instead_of is not None:
        raise ValidationError("is allowed only for the verdict correct", field="instead_of")
    if verdict == "reject":
        return await facts.reject(key, body.value, reason=body.reason)
    say = {"confirm": facts.confirm, "pin": facts.pin, "unpin": facts.unpin}[verdict]
    return await say(key, body.value)


def _add_routes(one: str, several: str, dependencies: list[Any]) -> None:
    """Add the routes for facts, or for what is kept like them, under its own name."""
    add = partial(routes.add_api_route, dependencies=dependencies)
    path, paged, listed, single = f"/{several}", shapes(schemas.FactPage), shapes(schemas.Facts), shapes(schemas.Fact)
    made = shapes(schemas.Facts, 201)
    add(path, list_facts, methods=["GET"], responses=paged, name=f"list_{several}")
    add(path, upsert_facts, methods=["POST"], responses=made, status_code=201, name=f"upsert_{several}")
    path = f"{path}/{{key}}"
    add(path, get_fact, methods=["GET"], responses=shapes(schemas.FactHistory), name=f"get_{one}")
    add(path, put_fact, methods=["PUT"], responses=single, name=f"put_{one}")
    add(path, end_fact, methods=["DELETE"], responses=listed, name=f"end_{one}")
    add(f"{path}/{{verdict}}", judge_fact, methods=["POST"], responses=listed, name=f"judge_{one}")


_add_routes("fact", "facts", [])
_add_routes("preference", "preferences", [Depends(_preferences)])


# ── Learnings and episodes ───────────────────────────────────────────────────────────────────────


@alike(routes, "GET", "/learnings", org="list_org_learnings", responses=shapes(schemas.LearningPage))
async def list_learnings(
    held: Holder,
    type: LearningType = None,
    include_retired: Retired = False,
    limit: Limit = LIMITS.limit_max,
    after: After = None,
) -> Response:
    """A page of what was learned; for a user, from working with them, followed by what the org learned."""
    found, next_page = await held.learnings.page(type=type, include_retired=include_retired, limit=limit, after=after)
    return Json({"learnings": [learning.to_dict() for learning in found], "after": next_page})


@alike(
    routes,
    "POST",
    "/learnings",
    org="add_org_learning",
    status_code=201,
    responses=shapes(schemas.Learning, 201, headers=PLACED),
)
async def add_learning(request: Request, held: Holder, body: bodies.NewLearning) -> Response:
    """Store a learning; storing the same one again raises its confidence."""
    learning = await held.learnings.add(**given(body))
    return made(learning.to_dict(), found_at(request, "learnings", learning.id))


@alike(routes, "GET", "/learnings/{id}", org="get_org_learning", responses=shapes(schemas.Learning))
async def get_learning(held: Holder, id: LearningId) -> Response:
    """One learning; for a user, one of their own or of the org."""
    return Json((await held.learnings.get(id)).to_dict())


@alike(routes, "POST", "/learnings/{id}/{judgement}", org="judge_org_learning", responses=shapes(schemas.Learning))
async def judge_learning(held: Holder, id: LearningId, judgement: Judgement) -> Response:
    """Confirm or contradict a learning, or restore one that was retired."""
    return Json((await judge(held.learnings, id, judgement)).to_dict())


async def judge(learnings: Learnings, id: str, judgement: str) -> Learning:
    """Apply a judgement to a learning and return the result."""
    verb = validate.choice(judgement, JUDGEMENTS, "judgement")
    say = {"confirm": learnings.confirm, "contradict": learnings.contradict, "restore": learnings.restore}[verb]
    return await say(id)


@routes.get("/episodes", responses=shapes(schemas.EpisodePage))
async def list_episodes(owner: Owner, limit: Limit = 20, after: After = None, session: OfSession = None) -> Response:
    """A page of the episodes (stretches of conversation as they are remembered), newest first."""
    found, next_page = await owner.episodes.page(limit=limit, after=after, session=session)
    return Json({"episodes": [each.to_dict() for each in found], "after": next_page})


@routes.get("/episodes/{id}", responses=shapes(schemas.Episode))
async def get_episode(owner: Owner, id: EpisodeId) -> Response:
    """One episode."""
    return Json((await owner.episodes.get(id)).to_dict())
