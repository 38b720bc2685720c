"""The context of a question: what fits the budget, in a stable order, with its sources.

What seldom changes stands first and is rendered byte for byte the same while its content is, so
that providers' prompt caches hit. Memories are fenced as data; only the user's own standing
instructions stand outside the fence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from recollect.conversation import Conversation, Message, spoken
from recollect.errors import Unavailable
from recollect.index import Indexes, PartitionIndex
from recollect.layers import LAYERS, SECTIONS
from recollect.policies import fitting
from recollect.policies.fencing import fenced, safe, shown
from recollect.policies.fitting import Item, LeftOut, Section
from recollect.policies.tokens import TokenCounter, message_tokens
from recollect.recall import Question, Recall
from recollect.records import Clock, Hit, Record, Scope, iso

HEADINGS = {
    "instructions": "Standing instructions of the user",
    "profile": "About the user",
    "learnings": "Learned from working with the user",
    "summary": "Earlier in this conversation",
    "episodes": "Earlier conversations",
    "knowledge": "Remembered",
    "entities": "People and things",
    "working": "State of the task",
}
SHARES = {
    "instructions": 0.10,
    "profile": 0.12,
    "learnings": 0.05,
    "summary": 0.12,
    "episodes": 0.08,
    "knowledge": 0.30,
    "entities": 0.08,
    "working": 0.10,
    "recent": 0.40,
}
"""What a section may take before others had their turn. They add up to more than one: few are full."""
PRIORITY = (
    "instructions", "recent", "profile", "working", "knowledge", "summary", "learnings", "episodes", "entities",
)  # fmt: skip
"""Who gets what is left over."""
RECENT_FLOOR = 400
"""Tokens that the newest messages get in any case, if the budget has them."""
FOUND_MAX = 50
"""Hits that are considered for a context."""
TOLD_MAX = 10
"""Entries of a list that an explanation shows."""
LEARNINGS_MAX, LEARNING_CONFIDENCE = 5, 0.7


@dataclass(frozen=True, slots=True)
class Kept:
    """One record that is in the context."""

    section: str
    id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Report:
    """What is in, what was left out, and why."""

    kept: tuple[Kept, ...]
    left_out: tuple[LeftOut, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ContextSection:
    """A part of the context, with what it costs."""

    name: str
    text: str
    tokens: int
    items: int


@dataclass(frozen=True, slots=True)
class ContextSource:
    """Where a line of the context comes from."""

    id: str
    layer: str
    section: str
    session: str
    message_id: str | None
    said_at: str | None


@dataclass(frozen=True, slots=True)
class Context:
    """The best context for a question within a token budget."""

    query: str
    system: str
    messages: list[dict[str, Any]]
    sections: tuple[ContextSection, ...]
    tokens: int
    report: Report
    sources: tuple[ContextSource, ...]
    hits: tuple[Hit, ...]

    def to_openai(self) -> list[dict[str, Any]]:
        """The messages as OpenAI-compatible chat models take them."""
        return list(self.messages)

    def to_langchain(self) -> list[Any]:
        """The messages as LangChain's chat models take them."""
        try:
            converted: list[Any] = import_module("langchain_core.messages").convert_to_messages(self.messages)
        except ModuleNotFoundError as error:
            raise Unavailable("install langchain-core to use this", field="langchain") from error
        return converted

    def explain(self) -> str:
        """What went in, section by section, what was left out and why, for people."""
        lines = [f"{self.tokens} of {self.report.max_tokens} tokens"]
        for section in self.sections:
            items = "1 item" if section.items == 1 else f"{section.items} items"
            lines.append(f"  {section.name:<15}{section.tokens:>6} tokens, {items}")
        rest = self.tokens - sum(section.tokens for section in self.sections)
        lines += [f"  {self._rest():<15}{rest:>6} tokens"] if rest else []
        lines += _listed("found, best first:", [self._found(hit) for hit in self.hits])
        lines += _listed("left out:", [self._left_out(each) for each in self.report.left_out])
        return "\n".join(lines)

    def _rest(self) -> str:
        """What the tokens are for that no section has: the fence, its headings, and the question if it is added."""
        recent = sum(section.items for section in self.sections if section.name == "recent")
        is_asked = len(self.messages) > recent + bool(self.system)
        return "frame, question" if self.system and is_asked else "question" if is_asked else "frame"

    def _found(self, hit: Hit) -> str:
        state = "in" if hit.id in {source.id for source in self.sources} else "not in"
        return f"{shown(hit.content, 70)}\n    {state}, {hit.explain()}"

    def _left_out(self, out: LeftOut) -> str:
        texts = {hit.id: hit.content for hit in self.hits} | {"": self.query}
        return f"{shown(texts.get(out.id, out.id), 70)}\n    {out.section}: {out.reason}"

    def __repr__(self) -> str:
        asked = shown(self.query, 60)
        return f"Context({asked!r}, {self.tokens} of {self.report.max_tokens} tokens, {len(self.sources)} sources)"

    def to_dict(self) -> dict[str, Any]:
        """The context as documented JSON."""
        return {
            "system": self.system,
            "messages": self.messages,
            "tokens": self.tokens,
            "sections": [{"name": s.name, "tokens": s.tokens, "items": s.items} for s in self.sections],
            "report": {
                "max_tokens": self.report.max_tokens,
                "kept": [{"section": k.section, "id": k.id, "tokens": k.tokens} for k in self.report.kept],
                "left_out": [
                    {"section": out.section, "id": out.id, "tokens": out.tokens, "reason": out.reason}
                    for out in self.report.left_out
                ],
            },
            "sources": [
                {"id": s.id, "layer": s.layer, "section": s.section, "session": s.session,
                 "message_id": s.message_id, "said_at": s.said_at}
                for s in self.sources
            ],
        }  # fmt: skip


class ContextBuilder:
    """Builds contexts: asks every layer, packs, renders. It writes nothing."""

    def __init__(self, indexes: Indexes, recall: Recall, count: TokenCounter, clock: Clock) -> None:
        self._indexes = indexes
        self._recall = recall
        self._count = count
        self._clock = clock

    async def build(
        self,
        scope: Scope,
        conversation: Conversation | None,
        question: Question,
        max_tokens: int,
        layers: Sequence[str],
    ) -> Context:
        """The context for a question, never above `max_tokens`."""
        now = self._clock()
        index = await self._indexes.current(scope.partition)
        told = conversation is not None and (not layers or "conversation" in layers)
        summary: Record | None = None
        recent: list[Record] = []
        if conversation is not None and told:
            summary, recent = await conversation.recent(max_tokens, index)
        hits = await self._recall.search(scope, question, layers=_searched(layers), limit=FOUND_MAX)
        records = _gather(index, scope, hits, summary, now)
        if layers:
            wanted = (*layers, "summary")
            records = {name: [r for r in found if r.layer in wanted] for name, found in records.items()}
        asked = _asked(question.text, recent)
        return self._pack(question, records, recent, hits, max_tokens, asked)

    def _pack(
        self,
        question: Question,
        records: dict[str, list[Record]],
        recent: Sequence[Record],
        hits: Sequence[Hit],
        max_tokens: int,
        asked: list[dict[str, Any]],
    ) -> Context:
        question_tokens = sum(message_tokens(self._count, "user", m["content"]) for m in asked)
        overhead = self._system_tokens(fenced([]))
        room = max_tokens - overhead
        out: list[LeftOut] = []
        if asked and question_tokens > max_tokens // 2:
            out.append(LeftOut("question", "", question_tokens, "the question alone takes over half of the budget"))
            asked, question_tokens = [], 0
        room -= question_tokens
        packed = self._fit(records, recent, room, max_tokens)
        doubled = _said_in(packed, recent)
        if any(record.id in doubled for record in records["knowledge"]):
            # A turn that stands among the recent ones need not be remembered too; one that does not, must.
            records = records | {"knowledge": [r for r in records["knowledge"] if r.id not in doubled]}
            packed = self._fit(records, recent, room, max_tokens)
        kept = {name: list(items) for name, items in packed.kept.items()}
        doubled = _said_in(packed, recent)
        kept["knowledge"] = [item for item in kept["knowledge"] if item.id not in doubled]
        while True:
            context = self._render(question, kept, records, recent, hits, max_tokens, asked, (*out, *packed.left_out))
            if context.tokens <= max_tokens or not any(kept.values()):
                return context
            # Counts of lines do not add up exactly to the count of the whole; give way at the end.
            name = next(name for name in reversed(PRIORITY) if kept.get(name))
            item = kept[name].pop()
            out.append(LeftOut(name, item.id, item.tokens, "no room once everything was put together"))

    def _fit(
        self, records: dict[str, list[Record]], recent: Sequence[Record], room: int, max_tokens: int
    ) -> fitting.Packed:
        sections = [
            Section(
                name, tuple(Item(id, text, self._count(text) + 1) for id, text in _lines(name, found)), SHARES[name]
            )
            for name, found in records.items()
            if name != "recent"
        ]
        sections.append(self._recent_section(recent, max_tokens))
        return fitting.pack(sections, max(room, 0), self._heading_tokens, PRIORITY)

    def _recent_section(self, recent: Sequence[Record], max_tokens: int) -> Section:
        pieces = fitting.units(recent)[::-1]
        items = tuple(
            Item(unit[0].id, "", sum(message_tokens(self._count, m.data["role"], spoken(m)) for m in unit))
            for unit in pieces
        )
        return Section("recent", items, SHARES["recent"], floor=min(RECENT_FLOOR, max_tokens // 2), unbroken=True)

    def _render(
        self,
        question: Question,
        kept: dict[str, list[Item]],
        records: dict[str, list[Record]],
        recent: Sequence[Record],
        hits: Sequence[Hit],
        max_tokens: int,
        asked: list[dict[str, Any]],
        left_out: tuple[LeftOut, ...],
    ) -> Context:
        texts = {
            name: f"## {HEADINGS[name]}\n" + "\n".join(item.text for item in kept[name])
            for name in SECTIONS
            if name != "recent" and kept.get(name)
        }
        system = _fenced(texts)
        first = {item.id for item in kept.get("recent", ())}
        units = [unit for unit in fitting.units(recent) if unit[0].id in first]
        said = [message for unit in units for message in unit]
        messages = ([{"role": "system", "content": system}] if system else []) + [
            Message.from_record(message).to_openai() for message in said
        ]  # fmt: skip
        messages += asked
        said_tokens = sum(message_tokens(self._count, m.data["role"], spoken(m)) for m in said)
        tokens = said_tokens + sum(message_tokens(self._count, "user", m["content"]) for m in asked)
        tokens += self._system_tokens(system) if system else 0
        sections = [ContextSection(name, text, self._count(text), len(kept[name])) for name, text in texts.items()]
        if said:
            sections.append(ContextSection("recent", "", said_tokens, len(said)))
        by_id = {record.id: record for found in records.values() for record in found}
        by_id |= {message.id: message for message in said}
        listed = [Kept(name, item.id, item.tokens) for name in SECTIONS for item in kept.get(name, ())]
        return Context(
            query=question.text,
            system=system,
            messages=messages,
            sections=tuple(sections),
            tokens=tokens,
            report=Report(tuple(listed), left_out, max_tokens),
            sources=tuple(_source(by_id[each.id], each.section) for each in listed),
            hits=tuple(hits),
        )

    def _system_tokens(self, text: str) -> int:
        return message_tokens(self._count, "system", text)

    def _heading_tokens(self, name: str) -> int:
        return 0 if name == "recent" else self._count(f"\n\n## {HEADINGS[name]}\n") + 1


def _gather(
    index: PartitionIndex, scope: Scope, hits: Sequence[Hit], summary: Record | None, now: int
) -> dict[str, list[Record]]:
    """The records of each section, best first."""
    records: dict[str, list[Record]] = {name: [] for name in SECTIONS}
    records["instructions"] = [
        record
        for record in index.of_layer("customization", now)
        if record.scope.agent in ("", scope.agent) and record.data.get("active", True)
    ]
    records["profile"] = [*index.of_layer("fact", now), *index.of_layer("preference", now)]
    learnings = [r for r in index.of_layer("learning", now) if r.confidence > LEARNING_CONFIDENCE]
    learnings.sort(key=lambda record: -int(record.data.get("usage_count", 0)))
    records["learnings"] = learnings[:LEARNINGS_MAX]
    records["summary"] = [summary] if summary else []
    states = (index.head("working", each, now) for each in dict.fromkeys((Scope(scope.org, scope.user), scope)))
    records["working"] = [state for state in states if state is not None]
    taken = {record.id for found in records.values() for record in found}
    for hit in hits:
        section = "knowledge" if hit.record.layer == "conversation" else LAYERS[hit.record.layer].section
        if section is None or hit.id in taken or section in ("profile", "learnings"):
            continue
        records[section].append(hit.record)
    return records


def _said_in(packed: fitting.Packed, recent: Sequence[Record]) -> set[str]:
    """The ids of the recent messages that found room."""
    first = {item.id for item in packed.kept["recent"]}
    return {message.id for unit in fitting.units(recent) if unit[0].id in first for message in unit}


def _searched(layers: Sequence[str]) -> tuple[str, ...]:
    return tuple(layer for layer in layers if LAYERS[layer].searched)


def _asked(text: str, recent: Sequence[Record]) -> list[dict[str, Any]]:
    """The question as the last message, unless it is already there."""
    if recent and recent[-1].data["role"] == "user" and recent[-1].content == text:
        return []
    return [{"role": "user", "content": text}]


def _lines(name: str, records: Sequence[Record]) -> list[tuple[str, str]]:
    """Each record as one line of its section."""
    write: Callable[[Record], str] = _LINES.get(name, _plain_line)
    return [(record.id, write(record)) for record in records]


def _plain_line(record: Record) -> str:
    return f"- {safe(record.content)}"


def _dated_line(record: Record) -> str:
    """With the day it was said, and who said it: the day does not change from turn to turn."""
    day = (iso(record.when) or "")[:10]
    who = record.data.get("name") or record.data.get("role")
    return f"- [{day}] {safe(str(who)) + ': ' if who else ''}{safe(record.content)}"


def _working_line(record: Record) -> str:
    state = record.data["state"]
    plain = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in state.items()
    }
    return "\n".join(f"- {safe(str(key))}: {safe(value)}" for key, value in plain.items())


_LINES: dict[str, Callable[[Record], str]] = {
    "knowledge": _dated_line,
    "episodes": _dated_line,
    "working": _working_line,
    "summary": lambda record: safe(record.content),
}


def _fenced(texts: dict[str, str]) -> str:
    """The system text: instructions of the user first, then everything else inside the fence."""
    outside = [texts["instructions"]] if "instructions" in texts else []
    inside = [text for name, text in texts.items() if name != "instructions"]
    if inside:
        outside.append(fenced(inside))
    return "\n\n".join(outside)


def _listed(heading: str, entries: Sequence[str]) -> list[str]:
    """The first entries under their heading, and how many more there are."""
    more = [f"  and {len(entries) - TOLD_MAX} more"] if len(entries) > TOLD_MAX else []
    return [heading, *(f"  {entry}" for entry in entries[:TOLD_MAX]), *more] if entries else []


def _source(record: Record, section: str) -> ContextSource:
    message_id = record.id if record.layer == "conversation" else (record.source.message_id if record.source else None)
    return ContextSource(record.id, record.layer, section, record.scope.session, message_id, iso(record.when))
