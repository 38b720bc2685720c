"""What is behind a turn: what was remembered from the message, and what went into the prompt for the answer."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.context import Context
from recollect.policies.graphs import USER
from recollect.profile import Fact, Facts
from recollect.user import User

LOOKS = 8
"""How often the page asks what was learned from a turn: over a few seconds, enough for a worker to do it."""
SETTLED_LOOKS = 3
"""Looks after which nothing more is expected from a message that was enriched."""
LEFT_OUT_SHOWN = 12
"""How many left-out items are shown. The rest are only counted."""


@dataclass(frozen=True, slots=True)
class Learned:
    """One thing learned from a message: its id, kind, name and value, the value before, and how sure it is."""

    id: str
    kind: str
    name: str
    value: str
    before: str = ""
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Remembered:
    """What has been remembered from one message so far; `waits` while more may come."""

    session: str
    message_id: str
    text: str
    importance: float
    learned: tuple[Learned, ...]
    look: int
    waits: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the prompt: its share of the budget, where it begins in the bar, and its text."""

    name: str
    tokens: int
    items: int
    start: float
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that did not go in, and why."""

    section: str
    text: str
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What went into the prompt for a question, and what was left out."""

    query: str
    tokens: int
    max_tokens: int
    sections: tuple[Section, ...]
    left_out: tuple[LeftOut, ...]
    left_out_count: int
    answerable: float


async def remembered_of(owner: User, session: str, message_id: str, look: int = LOOKS) -> Remembered:
    """What has been remembered from a message by now; `look` counts how often this was asked."""
    record = await owner.get_memory(message_id)
    is_enriched = record.version != record.born[0]
    waits = look < (SETTLED_LOOKS if is_enriched else LOOKS)
    learned = await learned_from(owner, message_id)
    return Remembered(session, message_id, record.content, record.importance, tuple(learned), look + 1, waits)


async def learned_from(owner: User, message_id: str) -> list[Learned]:
    """Everything that names this message as its source."""
    found = await _facts(owner.facts, message_id, "fact")
    found += await _facts(owner.preferences, message_id, "preference")
    found += [
        Learned(each.id, "learning", each.type, each.content, confidence=each.confidence)
        for each in await owner.learnings.list()
        if each.source_message_id == message_id
    ]
    found += [
        Learned(each.id, "relation", each.relation, f"{each.names[0]} → {each.names[1]}", confidence=each.confidence)
        for each in await owner.graph.relations()
        if each.source is not None and each.source.message_id == message_id and each.names[0] != USER
    ]
    return found


async def _facts(facts: Facts, message_id: str, kind: str) -> list[Learned]:
    told = [fact for fact in await facts.list() if fact.source_message_id == message_id]
    return [
        Learned(fact.id, kind, fact.key, fact.value, await _value_before(facts, fact), fact.confidence) for fact in told
    ]


async def _value_before(facts: Facts, fact: Fact) -> str:
    """The value that the key had until this one began."""
    ended = [
        each for each in await facts.history(fact.key) if each.status == "ended" and each.valid_to == fact.valid_from
    ]
    return ended[-1].value if ended and ended[-1].value != fact.value else ""


def prompt_of(context: Context) -> Prompt:
    """A context as it is shown."""
    budget = context.report.max_tokens
    sections: list[Section] = []
    start = 0.0
    for part in context.sections:
        share = part.tokens / budget
        sections.append(Section(part.name, part.tokens, part.items, start, share, part.text))
        start += share
    left_out = context.report.left_out
    texts = {hit.id: hit.content for hit in context.hits}
    return Prompt(
        query=context.query,
        tokens=context.tokens,
        max_tokens=budget,
        sections=tuple(sections),
        left_out=tuple(
            LeftOut(out.section, texts.get(out.id, ""), out.tokens, out.reason) for out in left_out[:LEFT_OUT_SHOWN]
        ),
        left_out_count=len(left_out),
        answerable=context.answerable,
    )
