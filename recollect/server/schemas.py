"""The shapes of requests and responses, for the OpenAPI document and the people who read it.

Only the shape of a request is checked here: which fields may and must be present. Which values are
valid is decided by `recollect.validate`, the same for every entry point; the types below describe it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Tag, WithJsonSchema

from recollect.layers import SECTIONS

Text = Annotated[Any, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 65536})]
Id = Annotated[Any, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 128})]
AgentId = Annotated[Any, WithJsonSchema({"type": "string", "maxLength": 128})]
Moment = Annotated[Any, WithJsonSchema({"type": "string", "description": "ISO 8601 with a zone, or a date"})]
Object = Annotated[Any, WithJsonSchema({"type": "object", "additionalProperties": True})]
Content = Annotated[
    Any,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}, {"type": "null"}]}),
]
Texts = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "string"}})]
Layers = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})]
Share = Annotated[Any, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
Whole = Annotated[Any, WithJsonSchema({"type": "integer", "minimum": 1})]
Quality = Annotated[Any, WithJsonSchema({"enum": ["fast", "best"]})]
Policy = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "description": "layers, sections, window and quality at once, and the most that sections may take of the "
            "budget; fields beside it take precedence",
            "additionalProperties": False,
            "properties": {
                "layers": {"type": "array", "items": {"type": "string"}},
                "sections": {"type": "array", "items": {"enum": list(SECTIONS)}},
                "shares": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}},
                "window": {"type": "integer", "minimum": 1},
                "quality": {"enum": ["fast", "best"]},
            },
        }
    ),
]
Switch = Annotated[Any, WithJsonSchema({"type": "boolean"})]
Anything = Annotated[Any, WithJsonSchema({})]


class Body(BaseModel):
    """A request body. An unknown field is refused, never ignored."""

    model_config = ConfigDict(extra="forbid")


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [fields]})


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────


class ChatTurn(Body):
    model_config = _example(chat_id="monday", user_id="ann", message="What is my cat called?")
    chat_id: Id
    user_id: Id
    message: Text
    agent: AgentId = ""
    stream: Switch = False


class NewMessage(Body):
    model_config = _example(role="user", content="My cat is called Admiral.", metadata={"topic": "pets"})
    role: Annotated[Any, WithJsonSchema({"enum": ["system", "user", "assistant", "tool"]})]
    content: Content = None
    id: Id = None
    name: Id = None
    created_at: Moment = None
    metadata: Object = None
    tool_calls: Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "object"}})] = None
    tool_call_id: Id = None


class NewMessages(Body):
    messages: list[NewMessage]


class NewMemory(Body):
    model_config = _example(content="Prefers window seats.", metadata={"topic": "travel"}, importance=0.7)
    content: Text
    layer: Annotated[Any, WithJsonSchema({"enum": ["long_term", "episodic"]})] = "long_term"
    id: Id = None
    metadata: Object = None
    importance: Share = None
    confidence: Share = None
    created_at: Moment = None
    expires_at: Moment = None


class OneMemory(NewMemory):
    """`only_new`: if the memory already exists, the response is a 409 and nothing changes."""

    model_config = _example(content="Prefers window seats.", metadata={"topic": "travel"}, only_new=True)
    only_new: Switch = False


class NewMemories(Body):
    """`only_new`: if any of the memories already exists, the response is a 409 and none is added."""

    memories: list[NewMemory]
    only_new: Switch = False


def _one_or_many(many: str) -> Discriminator:
    return Discriminator(lambda value: "many" if isinstance(value, dict) and many in value else "one")


OneOrMoreMessages = Annotated[
    Annotated[NewMessage, Tag("one")] | Annotated[NewMessages, Tag("many")], _one_or_many("messages")
]
OneOrMoreMemories = Annotated[
    Annotated[OneMemory, Tag("one")] | Annotated[NewMemories, Tag("many")], _one_or_many("memories")
]


class MemoryEdit(Body):
    model_config = _example(content="Prefers aisle seats.", importance=0.8)
    content: Text = None
    metadata: Object = None
    importance: Share = None
    expires_at: Annotated[Any, WithJsonSchema({"type": "string", "description": "a time, or never"})] = None


class Search(Body):
    model_config = _example(query="Where do I like to sit?", limit=3, where={"metadata.topic": "travel"})
    query: Text
    layer: Layers = None
    where: Object = None
    limit: Whole = 5
    at: Moment = None
    quality: Quality = None


class Asked(Body):
    model_config = _example(query="Which theme should I use?", session="monday", max_tokens=2000)
    query: Text
    session: Id = None
    agent: AgentId = ""
    max_tokens: Whole = 4_000
    layers: Texts = None
    sections: Texts = None
    window: Whole = None
    policy: Policy = None
    at: Moment = None
    quality: Quality = None
    model: Id = None


class Forget(Body):
    model_config = _example(where={"metadata.topic": "travel"}, layer="long_term")
    ids: Texts = None
    where: Object = None
    layer: Layers = None


class Title(Body):
    model_config = _example(title="About cats")
    title: Text


class Branch(Body):
    model_config = _example(message_id="m1", into="tuesday")
    message_id: Id
    into: Id


class Push(Body):
    model_config = _example(name="recent_actions", item={"action": "open", "page": "orders"}, keep=20)
    name: Id
    item: Anything
    keep: Whole = 50


class FactValue(Body):
    model_config = _example(value="Lisbon", confidence=0.9)
    value: Text
    confidence: Share = 1.0
    source_message_id: Id = None
    valid_from: Moment = None
    valid_to: Moment = None


class NewFact(FactValue):
    model_config = _example(key="city", value="Lisbon")
    key: Id


class NewFacts(Body):
    model_config = _example(facts=[{"key": "city", "value": "Lisbon"}, {"key": "pet", "value": "a cat"}])
    facts: list[NewFact]


class FactVerdict(Body):
    model_config = _example(reason="the user said so")
    value: Text = None
    instead_of: Text = None
    reason: Annotated[Any, WithJsonSchema({"type": "string"})] = ""


class NewLearning(Body):
    model_config = _example(content="Answers in short sentences are welcome.", type="preference")
    content: Text
    type: Annotated[Any, WithJsonSchema({"enum": ["preference", "pattern", "correction"]})] = "pattern"
    confidence: Share = None
    source_message_id: Id = None


class NewCustomization(Body):
    model_config = _example(text="Answer in Portuguese.")
    text: Text
    id: Id = None
    on: Switch = True


class CustomizationEdit(Body):
    model_config = _example(on=False)
    text: Text = None
    on: Switch = None


class Order(Body):
    model_config = _example(ids=["language", "tone"])
    ids: Texts


class NewEntity(Body):
    model_config = _example(name="Inês", type="person", aliases=["my sister"])
    name: Text
    type: Id = "thing"
    aliases: Texts = []
    metadata: Object = None
    confidence: Share = 1.0


class NewRelation(Body):
    model_config = _example(subject="user", relation="sister_of", object="Inês")
    subject: Text
    relation: Id
    object: Text
    confidence: Share = 1.0
    valid_from: Moment = None
    valid_to: Moment = None


class EndRelation(Body):
    model_config = _example(reason="moved away")
    at: Moment = None
    reason: Text = "ended by hand"


class MergeEntities(Body):
    model_config = _example(kept="Ana", other="Anna", reason="the same person")
    kept: Text
    other: Text
    reason: Text = "merged by hand"


class UndoMerge(Body):
    model_config = _example(other="Annie")
    other: Text


class BusinessObject(Body):
    model_config = _example(data={"plan": "gold", "seats": 12}, name="Acme GmbH", ttl_s=600)
    data: Object
    name: Id = None
    aliases: Texts = []
    ttl_s: Annotated[Any, WithJsonSchema({"type": "number", "exclusiveMinimum": 0})] = None


# ── Responses ────────────────────────────────────────────────────────────────────────────────────


class Shape(BaseModel):
    """A response body."""


class Problem(Shape):
    """What went wrong (RFC 9457): it names the field and says what to do, but never repeats what was sent."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str | None = None
    field: str | None = None


class MessageShape(Shape):
    id: str
    role: str
    content: str | list[dict[str, Any]]
    created_at: str | None
    metadata: dict[str, Any]
    trust: str
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class MessagesShape(Shape):
    messages: list[MessageShape]
    after: str | None = None


class SessionShape(Shape):
    id: str
    title: str
    agent: str
    messages: int
    created_at: str
    last_activity: str
    parent: str | None


class SessionExportShape(Shape):
    session_id: str
    messages: list[dict[str, Any]]
    window_strategy: str
    max_tokens: int


class CompressedShape(Shape):
    compressed: bool


class TitleShape(Shape):
    id: str
    title: str


class SessionsShape(Shape):
    sessions: list[SessionShape]


class RecordShape(Shape):
    id: str
    layer: str
    scope: dict[str, str]
    content: str
    data: dict[str, Any]
    metadata: dict[str, Any]
    importance: float
    confidence: float
    created_at: str
    event_at: str | None
    valid_from: str | None
    valid_to: str | None
    expires_at: str | None
    source: dict[str, Any] | None
    trust: str
    version: int


class RecordsShape(Shape):
    memories: list[RecordShape]
    after: str | None = None


class HistoryShape(Shape):
    history: list[RecordShape]
    left_out: int


class HitShape(Shape):
    id: str
    content: str
    score: float
    relevance: float
    place: int
    reason: str
    legs: dict[str, dict[str, float]]
    record: RecordShape


class HitsShape(Shape):
    hits: list[HitShape]
    left_out: int


class ContextShape(Shape):
    system: str
    lasting: str
    found: str
    messages: list[dict[str, Any]]
    tokens: int
    answerable: float
    sections: list[dict[str, Any]]
    report: dict[str, Any]
    sources: list[dict[str, Any]]


class ChatShape(Shape):
    chat_id: str
    reply: str
    message_ids: list[str]
    context: dict[str, Any]


class FactShape(Shape):
    key: str
    value: str
    confidence: float
    source_message_id: str | None
    valid_from: str | None
    valid_to: str | None
    id: str
    status: str
    span: list[int] | None
    seen: int
    reason: str


class FactsShape(Shape):
    facts: list[FactShape]


class FactHistoryShape(FactsShape):
    key: str
    history: list[FactShape]


class ProfileShape(Shape):
    user_id: str
    name: str | None
    facts: list[FactShape]
    preferences: dict[str, str | list[str]]
    last_interaction: str | None


class LearningShape(Shape):
    id: str
    type: str
    content: str
    confidence: float
    usage_count: int
    last_used: str | None
    created_at: str
    org_wide: bool
    retired: str | None
    source_message_id: str | None


class LearningsShape(Shape):
    learnings: list[LearningShape]


class CustomizationShape(Shape):
    id: str
    text: str
    on: bool
    agent: str
    created_at: str
    org_wide: bool
    version: int


class CustomizationsShape(Shape):
    customizations: list[CustomizationShape]


class EpisodeShape(Shape):
    id: str
    title: str
    content: str
    session: str
    started_at: str
    ended_at: str
    people: list[str]
    dates: list[str]
    decisions: list[str]
    open_questions: list[str]
    messages: list[str]
    importance: float
    trust: str


class EpisodesShape(Shape):
    episodes: list[EpisodeShape]


class EntityShape(Shape):
    id: str
    name: str
    type: str
    aliases: list[str]
    metadata: dict[str, Any]
    confidence: float
    created_at: str
    source_message_id: str | None
    merged_into: str | None


class RelationShape(Shape):
    id: str
    subject: dict[str, str]
    relation: str
    object: dict[str, str]
    content: str
    confidence: float
    valid_from: str | None
    valid_to: str | None
    source_message_id: str | None
    reason: str | None


class GraphShape(Shape):
    entities: list[EntityShape]
    relations: list[RelationShape]


class MergeShape(Shape):
    id: str
    kept: EntityShape
    other: EntityShape


class BusinessObjectShape(Shape):
    type: str
    id: str
    data: dict[str, Any]


class KeptObjectShape(BusinessObjectShape):
    name: str | None
    aliases: list[str]
    content: str
    expires_at: str | None


class BusinessObjectsShape(Shape):
    entities: list[KeptObjectShape]


class InvalidatedShape(Shape):
    invalidated: int


class ReceiptShape(Shape):
    forgotten: dict[str, int]
    count: int
    at: str | None
    compacted: bool
    beside: dict[str, int | None]


class ImportedShape(Shape):
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
    problems: list[dict[str, Any]]


class JobsShape(Shape):
    waiting: int
    running: int
    scheduled: int
    oldest_at: str | None


class StatsShape(Shape):
    users: int
    records: dict[str, int]
    jobs: JobsShape
    bytes: int | None
    uses: dict[str, Any]


class FailureShape(Shape):
    id: str
    user: str
    at: str
    kind: str
    attempts: int
    reason: str


class FailuresShape(Shape):
    failures: list[FailureShape]
    after: str | None = None


class UsersShape(Shape):
    users: list[str]
    after: str | None = None


class HealthShape(Shape):
    status: str
    version: str
    stores: dict[str, dict[str, str]]
    worker: str
    embedder: str
    enrichment: str
    states: dict[str, str]
    agents: dict[str, str]


class ReadyShape(Shape):
    status: str
    stores: dict[str, str]
    worker: str
    embedder: str
    enrichment: str
    states: dict[str, str]
    draining: bool
