"""The shapes of responses, for the OpenAPI document and the people who read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from recollect.layers import SECTIONS
from recollect.records import TRUSTS
from recollect.validate import LEARNING_TYPES, ROLES


def choice_of(names: Sequence[str]) -> dict[str, Any]:
    """The schema of a value that is one of these names."""
    # With its type: without one, many generators of code make it an object of any kind.
    return {"type": "string", "enum": list(names)}


Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Role = Annotated[str, WithJsonSchema(choice_of(ROLES))]
Trust = Annotated[str, WithJsonSchema(choice_of(TRUSTS))]
SectionName = Annotated[str, WithJsonSchema(choice_of(SECTIONS))]
LearningType = Annotated[str, WithJsonSchema(choice_of(LEARNING_TYPES))]
Cursor = Annotated[str | None, Field(description="`after` of the next page; null at the end.")]


class Shape(BaseModel):
    """A response body."""


class Problem(Shape):
    """What went wrong (RFC 9457): it names the field and says what to do, but never repeats what was sent."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Unprocessable Entity",
                    "status": 422,
                    "code": "ValidationError",
                    "detail": "must have 1 to 128 characters",
                    "field": "user",
                    "request_id": "5e90d4306f5bc3d3",
                }
            ]
        }
    )
    type: str
    title: str
    status: int
    code: Annotated[str, Field(description="For programs: ValidationError, NotFound, Conflict, RateLimited, ...")]
    detail: Annotated[str, Field(description="For people: what to do.")]
    request_id: Annotated[str | None, Field(description="Under this id it is in the server's log.")] = None
    field: Annotated[str | None, Field(description="What it is about.")] = None


class ChatMessage(Shape):
    """A message in the form that chat models take."""

    role: Role
    content: str | list[dict[str, Any]]
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class Message(ChatMessage):
    """One message of a session, as it was said."""

    id: str
    created_at: Time | None
    metadata: dict[str, Any]
    trust: Trust


class Messages(Shape):
    messages: list[Message]


class MessagePage(Messages):
    after: Cursor


class Session(Shape):
    """A session as it is listed."""

    id: str
    title: str
    agent: str
    messages: int
    created_at: Time
    last_activity: Time
    parent: str | None


class SessionExport(Shape):
    session_id: str
    messages: list[ChatMessage]
    window_strategy: str
    max_tokens: int


class Compressed(Shape):
    compressed: bool


class SessionTitle(Shape):
    id: str
    title: str


class SessionPage(Shape):
    sessions: list[Session]
    after: Cursor


class Scope(Shape):
    """Whom a memory belongs to."""

    org: str
    user: str
    agent: str
    session: str


class Source(Shape):
    """The message that a memory came from, and the characters of it."""

    message_id: str | None
    session_id: str | None
    span: list[int] | None
    role: str | None
    extractor: str | None


class MemoryRecord(Shape):
    """One stored memory of any layer."""

    id: str
    layer: str
    scope: Scope
    content: str
    data: dict[str, Any]
    metadata: dict[str, Any]
    importance: float
    confidence: float
    created_at: Time
    event_at: Time | None
    valid_from: Time | None
    valid_to: Time | None
    expires_at: Time | None
    source: Source | None
    trust: Trust
    version: Annotated[int, Field(description="For If-Match, in quotation marks.")]


class MemoryPage(Shape):
    memories: list[MemoryRecord]
    after: Cursor


class Memories(Shape):
    memories: list[MemoryRecord]
    left_out: Annotated[int, Field(description="How many of the last did not fit; ask for them again.")]


class MemoryHistory(Shape):
    history: list[MemoryRecord]
    left_out: int


class Leg(Shape):
    """What one way of searching found in a memory, and its part of the score."""

    score: float
    rank: int
    share: float


class Hit(Shape):
    """A memory that answers a question, and why."""

    id: str
    content: str
    score: float
    relevance: float
    place: int
    reason: str
    legs: dict[str, Leg]
    record: MemoryRecord


class Hits(Shape):
    hits: list[Hit]
    left_out: int


class ContextSection(Shape):
    name: SectionName
    tokens: int
    items: int


class ContextSource(Shape):
    """Where a line of a context comes from."""

    id: str
    layer: str
    section: SectionName
    session: str
    message_id: str | None
    said_at: Time | None


class ContextKept(Shape):
    section: SectionName
    id: str
    tokens: int
    whole: bool


class ContextLeftOut(Shape):
    section: str
    id: str
    tokens: int
    reason: str


class ContextReport(Shape):
    max_tokens: int
    kept: list[ContextKept]
    left_out: list[ContextLeftOut]


class Context(Shape):
    """What goes into a prompt, within the budget, and why."""

    system: str
    lasting: str
    found: str
    messages: list[ChatMessage]
    tokens: int
    answerable: float
    sections: list[ContextSection]
    report: ContextReport
    sources: list[ContextSource]


class ChatContext(Shape):
    """What went into the prompt of a turn."""

    sections: list[ContextSection]
    tokens: int
    sources: list[ContextSource]


class ChatReply(Shape):
    chat_id: str
    reply: str
    message_ids: Annotated[list[str], Field(description="What the user said, then the reply.")]
    context: ChatContext


class Fact(Shape):
    """What is known under a key, and from when to when."""

    key: str
    value: str
    confidence: float
    source_message_id: str | None
    valid_from: Time | None
    valid_to: Time | None
    id: str
    status: str
    span: list[int] | None
    seen: int
    reason: str


class Facts(Shape):
    facts: list[Fact]


class FactPage(Facts):
    after: Cursor


class FactHistory(Facts):
    key: str
    history: list[Fact]


class Profile(Shape):
    user_id: str
    name: str | None
    facts: list[Fact]
    preferences: dict[str, str | list[str]]
    last_interaction: Time | None


class Learning(Shape):
    id: str
    type: LearningType
    content: str
    confidence: float
    usage_count: int
    last_used: Time | None
    created_at: Time
    org_wide: bool
    retired: str | None
    source_message_id: str | None


class LearningPage(Shape):
    learnings: list[Learning]
    after: Cursor


class Customization(Shape):
    id: str
    text: str
    on: bool
    agent: str
    created_at: Time
    org_wide: bool
    version: Annotated[int, Field(description="For If-Match, in quotation marks.")]


class Customizations(Shape):
    customizations: list[Customization]


class Episode(Shape):
    id: str
    title: str
    content: str
    session: str
    started_at: Time
    ended_at: Time
    people: list[str]
    dates: list[str]
    decisions: list[str]
    open_questions: list[str]
    messages: list[str]
    importance: float
    trust: Trust


class Episodes(Shape):
    episodes: list[Episode]


class EpisodePage(Episodes):
    after: Cursor


class Entity(Shape):
    id: str
    name: str
    type: str
    aliases: list[str]
    metadata: dict[str, Any]
    confidence: float
    created_at: Time
    source_message_id: str | None
    merged_into: str | None


class NamedEntity(Shape):
    id: str
    name: str


class Relation(Shape):
    id: str
    subject: NamedEntity
    relation: str
    object: NamedEntity
    content: str
    confidence: float
    valid_from: Time | None
    valid_to: Time | None
    source_message_id: str | None
    reason: str | None


class EntityPage(Shape):
    entities: list[Entity]
    after: Cursor


class RelationPage(Shape):
    relations: list[Relation]
    after: Cursor


class Graph(Shape):
    entities: list[Entity]
    relations: list[Relation]


class Merge(Shape):
    id: str
    kept: Entity
    other: Entity


class BusinessObject(Shape):
    type: str
    id: str
    data: dict[str, Any]


class KeptBusinessObject(BusinessObject):
    name: str | None
    aliases: list[str]
    content: str
    expires_at: Time | None


class BusinessObjectPage(Shape):
    entities: list[KeptBusinessObject]
    after: Cursor


class Invalidated(Shape):
    invalidated: int


class Receipt(Shape):
    """What was forgotten, by layer."""

    forgotten: dict[str, int]
    count: int
    at: Time | None
    compacted: bool
    beside: dict[str, int | None]


class Undone(Shape):
    """What an undo ended, or would end, by layer."""

    id: Annotated[str, Field(description="For taking it back.")]
    reason: str
    changed: dict[str, int]
    count: int
    at: Time | None
    dry_run: bool


class SetAside(Shape):
    """What was set aside or released, and what was learned from it, by layer."""

    records: dict[str, int]
    learned: dict[str, int]
    count: int
    at: Time | None


class MergedMemory(Shape):
    id: str
    into: str


class RecurringTopic(Shape):
    id: str
    episodes: int


class RetiredMemory(Shape):
    id: str
    layer: str
    reason: str


class Maintained(Shape):
    """What upkeep did, or would do: ids, reasons and counts."""

    org: str
    user: str
    episodes: list[str]
    merged: list[MergedMemory]
    recurring: list[RecurringTopic]
    retired: list[RetiredMemory]
    purged: int
    dry_run: bool


class Difference(Shape):
    """What is known after reading again and was not before, or the other way round."""

    change: str
    layer: str
    key: str
    value: str


class Reprocessed(Shape):
    """What reading again changed, or would change; facts that are `missing` now stay."""

    org: str
    user: str
    by: str
    messages: int
    differences: list[Difference]
    missing: list[Fact]
    applied: bool


class ImportProblem(Shape):
    line: int
    reason: str


class Imported(Shape):
    messages: int
    memories: int
    records: int
    sessions: int
    facts: int
    entities: int
    relations: int
    new: int
    known: int
    different: int
    expired: int
    left_out: int
    bad: int
    stored: bool
    source_users: int
    problems: list[ImportProblem]


class Jobs(Shape):
    waiting: int
    running: int
    scheduled: int
    oldest_at: Time | None


class Stats(Shape):
    users: int
    records: dict[str, int]
    jobs: Jobs
    bytes: int | None
    uses: dict[str, Any]


class Failure(Shape):
    id: str
    user: str
    at: Time
    kind: str
    attempts: int
    reason: str


class FailurePage(Shape):
    failures: list[Failure]
    after: Cursor


class UserPage(Shape):
    users: list[str]
    after: Cursor


class Health(Shape):
    status: Literal["ok", "degraded"]
    version: str
    stores: dict[str, dict[str, str]]
    worker: str
    embedder: str
    enrichment: str
    states: dict[str, str]
    agents: dict[str, str]


class Ready(Shape):
    status: Literal["ready", "not ready"]
    stores: dict[str, str]
    worker: str
    embedder: str
    enrichment: str
    states: dict[str, str]
    draining: bool
