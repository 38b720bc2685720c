"""Memories: found, with the reasons drawn; listed by layer; and each with its source, its history and its actions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recollect.layers import PUBLIC_LAYERS, SEARCHED_LAYERS
from recollect.records import FITS, REASONS, Hit, Record
from recollect.server.console.behind import Learned, learned_from
from recollect.server.console.door import ADDS, Filled, router
from recollect.server.console.pages import fragment, moved, page, wants_fragment
from recollect.server.memories import MemoryId
from recollect.server.routing import Here, Owner
from recollect.user import User

routes = router()

HITS, PAGE = 20, 40
"""How many memories a page shows: when searching, and when listing."""
LEGS_SHOWN = 4
"""How many reasons get a bar of their own; the others share one more, with their sum."""
EDITED_LAYERS = ("long_term",)
"""Layers whose text can be edited. A fact is corrected instead, and a message was said."""
TELLING = ("conversation", "episodic", "long_term", "fact", "preference", "learning")
"""Layers whose newest memories are listed first. Entities have a page of their own, where they can be seen together."""
SHOWN_DATA = ("role", "name", "type", "key", "value", "seen", "usage_count", "status", "reason", "title")
"""The parts of a record's data that mean something to people."""


@dataclass(frozen=True, slots=True)
class Leg:
    """What one reason added to a score or took away, with the length of its bar from 0 to 1."""

    name: str
    share: float
    length: float

    @property
    def about(self) -> str:
        """The reason in words."""
        return REASONS.get(self.name, "")


@dataclass(frozen=True, slots=True)
class Found:
    """A hit with its reasons as bars."""

    record: Record
    relevance: float
    score: float
    place: int
    reason: str
    legs: tuple[Leg, ...]


@dataclass(frozen=True, slots=True)
class Memories:
    """The page: what was asked, and what was found or is listed."""

    query: str
    layer: str
    layers: tuple[str, ...]
    found: tuple[Found, ...]
    listed: tuple[Record, ...]
    after: str | None

    @property
    def fits(self) -> bool:
        """Whether any hit is likely to answer the question."""
        return any(hit.relevance >= FITS for hit in self.found)


@dataclass(frozen=True, slots=True)
class Quote:
    """The message a memory comes from: the exact words, and the text before and after them."""

    message: Record
    before: str
    words: str
    behind: str


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """One memory with its source, its history, and what can be done with it."""

    record: Record
    state: str
    quote: Quote | None
    history: tuple[Record, ...]
    labels: Mapping[str, str]
    details: Mapping[str, Any]
    ended: str
    can_restore: bool
    can_edit: bool
    teaches: bool
    learned: tuple[Learned, ...]


@routes.get("/users/{user}/memories")
async def memories(
    request: Request, service: Here, owner: Owner, q: str = "", layer: str = "", after: str | None = None
) -> Response:
    """What answers a question best, and why; without a question, the newest memories, of a layer or of all."""
    query = q.strip()
    if query:
        view = await _searched(owner, query, layer)
    else:
        view = await (_listed(owner, layer, after) if layer else _newest(owner))
    if query:
        service.metrics.count("searches")
    return fragment(request, "memories_swapped", view) if wants_fragment(request) else page(request, "memories", view)


async def _searched(owner: User, query: str, layer: str) -> Memories:
    hits = await owner.search_memory(query, layer=layer or None, limit=HITS)
    return Memories(query, layer, SEARCHED_LAYERS, tuple(_found(hits)), (), None)


async def _newest(owner: User) -> Memories:
    """What was said, learned or added last."""
    found: list[Record] = []
    for layer in TELLING:
        found += (await owner.list_memories(layer=layer, limit=PAGE, newest_first=True))[0]
    found.sort(key=lambda record: record.when, reverse=True)
    return Memories("", "", PUBLIC_LAYERS, (), tuple(found[:PAGE]), None)


async def _listed(owner: User, layer: str, after: str | None) -> Memories:
    records, next_page = await owner.list_memories(layer=layer, limit=PAGE, after=after, newest_first=True)
    return Memories("", layer, PUBLIC_LAYERS, (), tuple(records), next_page)


def _found(hits: list[Hit]) -> list[Found]:
    """Hits with bars on the same scale for every question, so that a poor answer looks like one."""
    return [Found(hit.record, hit.relevance, hit.score, hit.place, hit.reason, tuple(_legs(hit))) for hit in hits]


def _legs(hit: Hit) -> Iterator[Leg]:
    shares = sorted(((leg.share, name) for name, leg in hit.legs.items()), key=lambda each: -abs(each[0]))
    rest = sum(share for share, _ in shares[LEGS_SHOWN:])
    for share, name in [*shares[:LEGS_SHOWN], *([(rest, "other")] if len(shares) > LEGS_SHOWN else [])]:
        yield Leg(name, share, min(1.0, abs(share)))


@routes.post("/users/{user}/memories", openapi_extra=ADDS)
async def add_memory(request: Request, owner: Owner, form: Filled) -> Response:
    """Store a text."""
    record = await owner.add_memory(form.get("content"))
    return moved(request, "users", owner.id, "memories", record.id, notice="Remembered.")


# ── One memory ───────────────────────────────────────────────────────────────────────────────────


@routes.get("/users/{user}/memories/{id}")
async def memory_page(request: Request, owner: Owner, id: MemoryId) -> Response:
    """A memory: where it comes from, what it was before, what can be done with it."""
    record = await owner.get_memory(id)
    history = await owner.history(id)
    teaches = record.layer == "conversation" and record.data.get("role") == "user"
    view = MemoryPage(
        record=record,
        state="" if record.content else _as_json(dict(record.data), indent=2),
        quote=await _quote(owner, record),
        history=tuple(history[:-1]),
        labels={name: each if isinstance(each, str) else _as_json(each) for name, each in record.metadata.items()},
        details={name: record.data[name] for name in SHOWN_DATA if record.data.get(name) not in (None, "")},
        ended=_ended(record),
        can_restore="merged_into" in record.data or "retired" in record.data,
        can_edit=record.layer in EDITED_LAYERS,
        teaches=teaches,
        learned=tuple(await learned_from(owner, id)) if teaches else (),
    )
    return page(request, "memory", view)


def _as_json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


async def _quote(owner: User, record: Record) -> Quote | None:
    """The words that a memory was learned from; None if it was told directly, or they were forgotten."""
    source = record.source
    if source is None or source.message_id is None or source.message_id == record.id:
        return None
    for message in await owner.get_memories([source.message_id]):
        start, end = source.span or (0, 0)
        text = message.content
        return Quote(message, text[:start], text[start:end], text[end:])
    return None


def _ended(record: Record) -> str:
    """Why a memory is no longer current, in a few words."""
    if "merged_into" in record.data:
        return "merged into another that says the same"
    if "retired" in record.data:
        return f"retired: {record.data['retired']}"
    if record.trust == "quarantined":
        return "quarantined: not trusted"
    if record.valid_to is None:
        return ""
    return f"ended: {reason}" if (reason := record.data.get("reason")) else "ended"


@routes.post("/users/{user}/memories/{id}/edit")
async def edit_memory(request: Request, owner: Owner, id: MemoryId, form: Filled) -> Response:
    """Change the text of a memory; the old text stays in its history."""
    await owner.update_memory(id, content=form.get("content"), version=_version(form.get("version")))
    return moved(request, "users", owner.id, "memories", id, notice="Saved. The old text is in its history.")


def _version(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None


@routes.post("/users/{user}/memories/{id}/forget")
async def forget_memory(request: Request, owner: Owner, id: MemoryId) -> Response:
    """Forget a memory, with everything that rests on it."""
    receipt = await owner.forget(id)
    what = ", ".join(f"{count} {layer}" for layer, count in sorted(receipt.forgotten.items()))
    return moved(request, "users", owner.id, "memories", notice=f"Forgotten for good: {what}.")


@routes.post("/users/{user}/memories/{id}/restore")
async def restore_memory(request: Request, owner: Owner, id: MemoryId) -> Response:
    """Restore a memory that pruning retired or merging ended."""
    await owner.restore(id)
    return moved(request, "users", owner.id, "memories", id, notice="Restored.")


@routes.post("/users/{user}/memories/{id}/undo")
async def undo_learned(request: Request, owner: Owner, id: MemoryId) -> Response:
    """Undo what was learned from a message."""
    undone = await owner.undo(message_id=id)
    return page(request, "undone", Undone(id, undone.id, dict(undone.changed), undone.count))


@routes.post("/users/{user}/redo")
async def redo(request: Request, owner: Owner, form: Filled) -> Response:
    """Reverse an undo."""
    undone = await owner.redo(form.get("undone"))
    return moved(request, "users", owner.id, "profile", notice=f"Learned again: {undone.count} memories.")


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo ended."""

    message_id: str
    id: str
    changed: Mapping[str, int]
    count: int
