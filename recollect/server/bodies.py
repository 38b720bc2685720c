"""The shapes of requests, for the OpenAPI document and the people who read it.

Only the shape of a request is checked here: which fields may and must be present. Which values are
valid is decided by `recollect.validate`, the same for every entry point; the types below describe it.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from recollect.arguments import READERS
from recollect.layers import PUBLIC_LAYERS, SEARCHED_LAYERS, SECTIONS
from recollect.server.schemas import choice_of
from recollect.validate import LEARNING_TYPES, LIMITS, ROLES, batch
from recollect.working import PUSH_KEEP

Item = TypeVar("Item")


_MOMENT = {
    "type": "string",
    "description": "ISO 8601 with a zone, or a date.",
    "examples": ["2026-05-01T09:30:00Z", "2026-05-01"],
}
_LAYERS = {"type": "array", "items": choice_of(PUBLIC_LAYERS)}
_SECTIONS = {"type": "array", "items": choice_of(SECTIONS)}
_WINDOW = {"type": "integer", "minimum": 1, "maximum": LIMITS.limit_max}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}

Text = Annotated[Any, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 65536})]
Id = Annotated[Any, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 128})]
AgentId = Annotated[Any, WithJsonSchema({"type": "string", "maxLength": 128})]
Moment = Annotated[Any, WithJsonSchema(_MOMENT)]
Object = Annotated[Any, WithJsonSchema({"type": "object", "additionalProperties": True})]
Objects = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "object", "additionalProperties": True}})]
Content = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "A text, or parts as chat models take them; null only beside tool calls.",
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "object", "additionalProperties": True}},
                {"type": "null"},
            ],
        }
    ),
]
Texts = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "string"}})]
Where = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": True,
            "description": 'A filter, such as {"metadata.topic": "travel"}.',
            "examples": [{"metadata.topic": "travel"}],
        }
    ),
]
Layers = Annotated[Any, WithJsonSchema({"anyOf": [choice_of(PUBLIC_LAYERS), _LAYERS]})]
SearchedLayers = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "One layer or several; without it, all.",
            "anyOf": [choice_of(SEARCHED_LAYERS), {"type": "array", "items": choice_of(SEARCHED_LAYERS)}],
        }
    ),
]
LayerNames = Annotated[Any, WithJsonSchema(_LAYERS)]
Sections = Annotated[Any, WithJsonSchema(_SECTIONS)]
Share = Annotated[Any, WithJsonSchema(_SHARE)]
Count = Annotated[Any, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": LIMITS.limit_max})]
Tokens = Annotated[Any, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": LIMITS.tokens_max})]
Quality = Annotated[Any, WithJsonSchema(choice_of(("fast", "best")))]
Policy = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "description": "Layers, sections, window and quality at once, and the most that sections may take of the "
            "budget. Fields beside it take precedence.",
            "additionalProperties": False,
            "properties": {
                "layers": _LAYERS,
                "sections": _SECTIONS,
                "shares": {"type": "object", "additionalProperties": _SHARE},
                "window": _WINDOW,
                "quality": choice_of(("fast", "best")),
            },
        }
    ),
]
TrustGiven = Annotated[Any, WithJsonSchema(choice_of(("trusted", "untrusted")))]
Switch = Annotated[Any, WithJsonSchema({"type": "boolean"})]
Anything = Annotated[Any, WithJsonSchema({})]


class Body(BaseModel):
    """A request body. An unknown field is refused, never ignored; null in an optional one means that it is left out."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        # Clients in many languages write every field of an object, those without a value as null.
        if not isinstance(value, dict):
            return value
        if len(value) > len(cls.model_fields):
            value = cls._with_one_unknown(value)
        if None not in value.values():
            return value
        return {name: each for name, each in value.items() if each is not None or not cls._is_optional(name)}

    @classmethod
    def _with_one_unknown(cls, value: dict[Any, Any]) -> dict[Any, Any]:
        """The first unknown field is refused by name: an error for each of a hundred thousand would take a second."""
        unknown = next((name for name in value if name not in cls.model_fields), None)
        return {name: each for name, each in value.items() if name in cls.model_fields or name == unknown}

    @classmethod
    def _is_optional(cls, name: str) -> bool:
        return name in cls.model_fields and not cls.model_fields[name].is_required()


def _counted(value: Any, info: ValidationInfo) -> Any:
    # Before its items are looked at: a body has room for a hundred thousand of them.
    return batch(value, str(info.field_name)) if isinstance(value, list) else value


Batch = Annotated[list[Item], BeforeValidator(_counted)]
"""Items for one write, no more than one write takes."""


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [fields]})


class ChatTurn(Body):
    model_config = _example(chat_id="monday", user_id="ann", message="What is my cat called?")
    chat_id: Id
    """The session: a name of your own for this conversation."""
    user_id: Id
    """Whose memory it is."""
    message: Text
    """What the user says."""
    agent: AgentId = ""
    """Which of the agents in `recollect.toml` answers; without it, the default one."""
    stream: Switch = False
    """Answer as server-sent events."""


class NewMessage(Body):
    model_config = _example(role="user", content="My cat is called Admiral.", metadata={"topic": "pets"})
    role: Annotated[Any, WithJsonSchema(choice_of(ROLES))]
    """Who says it. What a tool says is untrusted."""
    content: Content = None
    id: Id = None
    """An id of your own: sent again with it, the message is stored once."""
    name: Id = None
    """The name of whoever says it, or of the tool."""
    created_at: Moment = None
    """When it was said: a time with a zone, or a date. Without it, now."""
    metadata: Object = None
    """Labels of your own, which filters can ask for."""
    tool_calls: Objects = None
    """What the assistant asks tools to do, as chat models write it."""
    tool_call_id: Id = None
    """Which call this is the result of."""
    trust: TrustGiven = None
    """`untrusted` for what the user did not say, such as a page that was pasted in: nothing is learned from it."""


class NewMessages(Body):
    messages: Batch[NewMessage]
    """Messages in their order, up to 90: all of them are stored, or none."""


class NewMemory(Body):
    model_config = _example(content="Prefers window seats.", metadata={"topic": "travel"}, importance=0.7)
    content: Text
    """What to remember."""
    layer: Annotated[Any, WithJsonSchema(choice_of(("long_term", "episodic")))] = "long_term"
    """Where it belongs; `episodic` is for a summary of part of a conversation."""
    id: Id = None
    """An id of your own; without it, it is made from the text."""
    metadata: Object = None
    """Labels of your own, which filters can ask for."""
    importance: Share = None
    """From 0 to 1; without it, estimated."""
    confidence: Share = None
    """From 0 to 1; without it, certain."""
    created_at: Moment = None
    """When it came about: a time with a zone, or a date. Without it, now."""
    expires_at: Moment = None
    """When it is forgotten by itself: a time with a zone, or a date. Without it, as the settings say."""
    trust: TrustGiven = None
    """`untrusted` for what a page or a tool said."""


class OneMemory(NewMemory):
    """`only_new`: if the memory already exists, the response is a 409 and nothing changes."""

    model_config = _example(content="Prefers window seats.", metadata={"topic": "travel"}, only_new=True)
    only_new: Switch = False
    """Refuse it with a 409 if it already exists."""


class NewMemories(Body):
    """`only_new`: if any of the memories already exists, the response is a 409 and none is added."""

    memories: Batch[NewMemory]
    """Memories: all of them are added, or none."""
    only_new: Switch = False
    """Refuse all of them with a 409 if one already exists."""


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
    """The new text; the earlier one stays in the history."""
    metadata: Object = None
    """The new labels, in place of all earlier ones."""
    importance: Share = None
    """From 0 to 1."""
    expires_at: Annotated[
        Any,
        WithJsonSchema(
            {"type": "string", "description": "When it is forgotten by itself: a time with a zone, or `never`."}
        ),
    ] = None


class MemoryIds(Body):
    model_config = _example(ids=["seat"])
    ids: Texts
    """Ids of memories."""


class OneEdit(MemoryEdit):
    model_config = _example(id="seat", content="Prefers aisle seats.")
    id: Id
    """The memory to change."""
    version: Annotated[Any, WithJsonSchema({"type": "integer", "description": "The version that was read."})] = None


class MemoryEdits(Body):
    model_config = _example(memories=[{"id": "seat", "content": "Prefers aisle seats."}])
    memories: Batch[OneEdit]
    """What to change, up to 45 memories: all of it is changed, or nothing."""


class SearchRequest(Body):
    model_config = _example(query="Where do I like to sit?", limit=3, where={"metadata.topic": "travel"})
    query: Text
    """What to look for, as a question or as words."""
    layer: SearchedLayers = None
    where: Where = None
    limit: Count = 5
    """How many at most."""
    at: Moment = None
    """When the question is asked: a time with a zone, or a date. Without it, now."""
    quality: Quality = None
    """`best` has the reranker look at the first hits again; without it, as the settings say."""


class ContextRequest(Body):
    model_config = _example(query="Which theme should I use?", session="monday", max_tokens=2000)
    query: Text
    """What the user asks."""
    session: Id = None
    """The conversation that it is asked in: its recent messages belong to the context."""
    agent: AgentId = ""
    """The agent that asks, in a session: its instructions and working state belong to the context."""
    max_tokens: Tokens = 4_000
    """The budget, which a context never exceeds."""
    layers: LayerNames = None
    """Use records of these layers only; recent messages belong to `conversation`. Without it, all."""
    sections: Sections = None
    """Which parts the prompt may have; without it, all."""
    window: Count = None
    """How many of the newest messages at most; without it, as many as fit."""
    policy: Policy = None
    at: Moment = None
    """When the question is asked: a time with a zone, or a date. Without it, now."""
    quality: Quality = None
    """`best` has the reranker look at the first hits again; without it, as the settings say."""
    model: Id = None
    """Count tokens as this model does, if its vocabulary is known."""


class ForgetRequest(Body):
    model_config = _example(where={"metadata.topic": "travel"}, layer="long_term")
    ids: Texts = None
    """What to forget, by id; or give `where`."""
    where: Where = None
    layer: Layers = None
    """Only in this layer, or in these; with `where`."""


class UndoRequest(Body):
    model_config = _example(session="monday", dry_run=True)
    session: Id = None
    """Undo what was learned from this session."""
    message_id: Id = None
    """Undo what was learned from this message."""
    extractor: Id = None
    """Undo what was learned by this version of the rules, or by this model."""
    since: Moment = None
    """Undo what was learned since this time: with a zone, or a date."""
    dry_run: Switch = False
    """Only report what would change."""


class RedoRequest(Body):
    model_config = _example(undone_id="019a0000-0000-7000-8000-000000000000")
    undone_id: Id
    """The `id` that `undo` returned."""


class ReleaseRequest(Body):
    model_config = _example(session="monday")
    session: Id = None
    """The session; or give `ids`."""
    ids: Texts = None
    """Ids of memories; or give `session`."""


class QuarantineRequest(ReleaseRequest):
    model_config = _example(session="monday", reason="somebody else was at the keyboard")
    reason: Annotated[Any, WithJsonSchema({"type": "string"})] = ""
    """Why; it is kept with them."""


class MaintainRequest(Body):
    model_config = _example(dry_run=True)
    dry_run: Switch = False
    """Only report what would be done."""


class ReprocessRequest(Body):
    model_config = _example(session="monday", by="rules")
    session: Id = None
    """Only this session; without it, all."""
    by: Annotated[Any, WithJsonSchema(choice_of(READERS))] = None
    """Who reads it; without it, the model if there is one."""
    apply: Switch = False
    """Store what is learned; without it, only report."""
    again: Switch = False
    """Have a model read again what it has read before."""


class NewTitle(Body):
    model_config = _example(title="About cats")
    title: Text
    """The title."""


class NewBranch(Body):
    model_config = _example(message_id="m1", into="tuesday")
    message_id: Id
    """The last message that the new session begins with."""
    into: Id
    """The name of the new session."""


class PushedItem(Body):
    model_config = _example(name="recent_actions", item={"action": "open", "page": "orders"}, keep=20)
    name: Id
    """The list in the state."""
    item: Anything
    """What to append: any JSON."""
    keep: Count = PUSH_KEEP
    """How many of the newest items stay in it."""


class FactValue(Body):
    model_config = _example(value="Lisbon", confidence=0.9)
    value: Text
    """The value."""
    confidence: Share = 1.0
    """From 0 to 1."""
    source_message_id: Id = None
    """The message that says so."""
    valid_from: Moment = None
    """Since when it is true: a time with a zone, or a date. Without it, now."""
    valid_to: Moment = None
    """Until when it was true: a time with a zone, or a date."""


class NewFact(FactValue):
    model_config = _example(key="city", value="Lisbon")
    key: Id
    """What it is about, such as `city`; a name of your own will do."""


class NewFacts(Body):
    model_config = _example(facts=[{"key": "city", "value": "Lisbon"}, {"key": "pet", "value": "a cat"}])
    facts: Batch[NewFact]
    """Facts, up to 30: all of them are stored, or none."""


class FactVerdict(Body):
    model_config = _example(reason="the user said so")
    value: Text = None
    """Which value is meant, if the key has several; for `correct`, the right one."""
    instead_of: Text = None
    """For `correct`: the value that never was true, if the key has several."""
    reason: Annotated[Any, WithJsonSchema({"type": "string"})] = ""
    """Why; it is kept in the history."""


class NewLearning(Body):
    model_config = _example(content="Answers in short sentences are welcome.", type="preference")
    content: Text
    """What was learned."""
    type: Annotated[Any, WithJsonSchema(choice_of(LEARNING_TYPES))] = "pattern"
    """What kind of learning it is."""
    confidence: Share = None
    """From 0 to 1; those above 0.7 go into prompts. Without it, 0.5, or 0.75 for a correction."""
    source_message_id: Id = None
    """The message that it was learned from."""


class NewCustomization(Body):
    model_config = _example(text="Answer in Portuguese.")
    text: Text
    """The instruction."""
    id: Id = None
    """An id of your own; that of a default of the org replaces the default."""
    on: Switch = True
    """Whether it applies."""


class CustomizationEdit(Body):
    model_config = _example(on=False)
    text: Text = None
    """The instruction in other words."""
    on: Switch = None
    """Whether it applies."""


class CustomizationOrder(Body):
    model_config = _example(ids=["language", "tone"])
    ids: Texts
    """All instructions in their new order, each once."""


class NewEntity(Body):
    model_config = _example(name="Inês", type="person", aliases=["my sister"])
    name: Text
    """Its name."""
    type: Id = "thing"
    """What it is, such as `person` or `place`."""
    aliases: Texts = []
    """What else it is called."""
    metadata: Object = None
    """Labels of your own."""
    confidence: Share = 1.0
    """From 0 to 1."""


class NewRelation(Body):
    model_config = _example(subject="Inês", relation="works_at", object="Acme")
    subject: Text
    """An id, a name, or `user`."""
    relation: Id
    """How the subject is related to the object, such as `works_at`."""
    object: Text
    """An id or a name."""
    confidence: Share = 1.0
    """From 0 to 1."""
    valid_from: Moment = None
    """Since when: a time with a zone, or a date."""
    valid_to: Moment = None
    """Until when: a time with a zone, or a date."""


class EndRelation(Body):
    model_config = _example(reason="moved away")
    at: Moment = None
    """When it ended: a time with a zone, or a date. Without it, now."""
    reason: Text = "ended by hand"
    """Why; it is kept with it."""


class MergeEntities(Body):
    model_config = _example(kept="Ana", other="Anna", reason="the same person")
    kept: Text
    """The id or name of the one that stays."""
    other: Text
    """The id or name of the one that becomes part of it."""
    reason: Text = "merged by hand"
    """Why; it is kept with it."""


class UndoMerge(Body):
    model_config = _example(other="Annie")
    other: Text
    """The id or name of the one that was merged into another."""


class NewBusinessObject(Body):
    model_config = _example(data={"plan": "gold", "seats": 12}, name="Acme GmbH", ttl_s=600)
    data: Object
    """Its state, as a JSON object."""
    name: Id = None
    """What people call it, by which a question can name it."""
    aliases: Texts = []
    """What else people call it."""
    ttl_s: Annotated[Any, WithJsonSchema({"type": "number", "exclusiveMinimum": 0})] = None
    """For how many seconds it is kept; without it, as the settings say."""
