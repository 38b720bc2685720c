"""The context of a question: what fits the budget, in a stable order, with its sources.

What seldom changes stands first and is rendered byte for byte the same while its content is, so
that providers' prompt caches hit. Memories are fenced as data; only the user's own standing
instructions stand outside the fence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from recollect.conversation import Conversation, Message, spoken
from recollect.errors import Unavailable
from recollect.index import Indexes, PartitionIndex
from recollect.layers import LAYERS, SECTIONS
from recollect.policies import fitting, scoring
from recollect.policies.fencing import fenced, shown
from recollect.policies.fitting import Item, LeftOut, Section
from recollect.policies.tokens import TokenCounter, message_tokens
from recollect.policies.trimming import trimmed
from recollect.policies.words import terms
from recollect.recall import Question, Recall
from recollect.records import Clock, Hit, Partition, Record, Scope, iso
from recollect.reranking import Reranker
from recollect.sections import Asking, dated_line, gather, line_of

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
FEWEST, NEAR = 10, 0.55
"""Beyond the first ten, a hit with less than this share of the best score is left out: hardly one of a hundred
turns that answer a question of LongMemEval stands there, and half of the others do."""
WORDS_LEAST = 3
"""Turns with fewer words that count are left out, unless one of them was asked for."""
LINE_LEAST = 60
"""No remembered line is made shorter than this many tokens: shorter ones too often lose what was asked for."""
CHARACTERS_A_TOKEN, LINE_HEAD = 4, 14
"""About how long a line is, before it is counted: its text, and the day and name in front of it."""
JUDGED = 5
"""Whether there is an answer is judged by the best of so many first hits."""
TOLD_MAX = 10
"""Entries of a list that an explanation shows."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One record that is in the context; not `whole` when only the part that matters is."""

    section: str
    id: str
    tokens: int
    whole: bool = True


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
    answerable: float = 0.0
    """How likely it is that what was found answers the question, 0 to 1."""

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
        found = f"found, best first (answerable: {self.answerable:.2f}):"
        lines += _listed(found, [self._found(hit) for hit in self.hits])
        lines += _listed("left out:", [self._left_out(each) for each in self.report.left_out])
        return "\n".join(lines)

    def _rest(self) -> str:
        """What the tokens are for that no section has: the fence, its headings, and the question if it is added."""
        recent = sum(section.items for section in self.sections if section.name == "recent")
        is_asked = len(self.messages) > recent + bool(self.system)
        return "frame, question" if self.system and is_asked else "question" if is_asked else "frame"

    def _found(self, hit: Hit) -> str:
        whole = {kept.id: kept.whole for kept in self.report.kept}
        state = "not in" if hit.id not in whole else "in" if whole[hit.id] else "in (shortened)"
        return f"{shown(hit.content, 70)}\n    {state}, {hit.reason}\n    {hit.explain()}"

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
            "answerable": self.answerable,
            "sections": [{"name": s.name, "tokens": s.tokens, "items": s.items} for s in self.sections],
            "report": {
                "max_tokens": self.report.max_tokens,
                "kept": [
                    {"section": k.section, "id": k.id, "tokens": k.tokens, "whole": k.whole} for k in self.report.kept
                ],
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


@dataclass(frozen=True, slots=True)
class _Found:
    """What a question found, and how much each of its terms tells among the user's records."""

    question: Question
    hits: Sequence[Hit]
    wanted: Mapping[str, float]
    also: Mapping[str, Sequence[Record]]

    @classmethod
    def of(
        cls, question: Question, hits: Sequence[Hit], index: PartitionIndex, also: Mapping[str, Sequence[Record]]
    ) -> _Found:
        posted = zip(question.terms, index.posted(question.terms), strict=True)
        size = len(index.records)
        wanted = {term: scoring.rarity(size, len(rows[0]) if rows else 0) for term, rows in posted}
        return cls(question, hits, wanted, also)

    def answerable(self) -> float:
        """The best of the first hits, by what it has of the question."""
        return max((hit.relevance for hit in self.hits[:JUDGED]), default=0.0)


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
        reranker: Reranker | None = None,
    ) -> Context:
        """The context for a question, never above `max_tokens`."""
        now = self._clock()
        index = await self._indexes.current(scope.partition)
        told = conversation is not None and (not layers or "conversation" in layers)
        summary: Record | None = None
        recent: list[Record] = []
        if conversation is not None and told:
            summary, recent = await conversation.recent(max_tokens, index)
        hits: Sequence[Hit] = ()
        if not layers or _searched(layers):
            hits = await self._recall.search(
                scope, question, layers=_searched(layers), limit=FOUND_MAX, reranker=reranker
            )
        shared = await self._indexes.current(Partition(scope.org, ""))
        gathered = gather(
            index, shared, Asking(scope, question.text, now, summary, recent, not layers or "fact" in layers), hits
        )
        if layers:
            gathered = gathered.only(layers)
        asked = _asked(question.text, recent)
        found = _Found.of(question, hits, index, gathered.also)
        return self._pack(found, gathered.records, recent, max_tokens, asked)

    def _pack(
        self,
        found: _Found,
        records: dict[str, list[Record]],
        recent: Sequence[Record],
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
        records, behind = _without_the_far(found, records)
        out += behind
        packed = self._fit(found, records, recent, room, max_tokens)
        doubled = _said_in(packed, recent)
        if any(record.id in doubled for record in records["knowledge"]):
            # A turn that stands among the recent ones need not be remembered too; one that does not, must.
            records = records | {"knowledge": [r for r in records["knowledge"] if r.id not in doubled]}
            packed = self._fit(found, records, recent, room, max_tokens)
        kept = {name: list(items) for name, items in packed.kept.items()}
        doubled = _said_in(packed, recent)
        kept["knowledge"] = [item for item in kept["knowledge"] if item.id not in doubled]
        while True:
            context = self._render(found, kept, records, recent, max_tokens, asked, (*out, *packed.left_out))
            if context.tokens <= max_tokens or not any(kept.values()):
                return context
            # Counts of lines do not add up exactly to the count of the whole; give way at the end.
            name = next(name for name in reversed(PRIORITY) if kept.get(name))
            item = kept[name].pop()
            out.append(LeftOut(name, item.id, item.tokens, "no room once everything was put together"))

    def _fit(
        self, found: _Found, records: dict[str, list[Record]], recent: Sequence[Record], room: int, max_tokens: int
    ) -> fitting.Packed:
        sections = [
            Section(name, tuple(self._item(name, record) for record in held), SHARES[name])
            for name, held in records.items()
            if name not in ("recent", "knowledge")
        ]
        sections.append(self._recent_section(recent, max_tokens))
        taken = sum(item.tokens for section in sections for item in section.items)
        share = max(int(SHARES["knowledge"] * room), room - taken)
        sections.append(self._knowledge_section(found, records["knowledge"], share))
        return fitting.pack(sections, max(room, 0), self._heading_tokens, PRIORITY)

    def _item(self, section: str, record: Record) -> Item:
        text = line_of(section, record)
        return Item(record.id, text, self._count(text) + 1)

    def _knowledge_section(self, found: _Found, records: Sequence[Record], room: int) -> Section:
        """What was found, each line as long as it is worth: where room is short, long texts are made short."""
        scores = {hit.id: hit.score for hit in found.hits}
        sizes = [len(record.content) // CHARACTERS_A_TOKEN + LINE_HEAD for record in records]
        allowed = fitting.allowances(sizes, [scores[record.id] for record in records], room, LINE_LEAST)
        items = []
        for record, size, tokens_max in zip(records, sizes, allowed, strict=True):
            text = record.content
            if size > tokens_max:
                text = trimmed(text, found.wanted, tokens_max - LINE_HEAD, self._count)
            line = dated_line(record, text)
            items.append(Item(record.id, line, self._count(line) + 1, whole=text == record.content))
        return Section("knowledge", tuple(items), SHARES["knowledge"])

    def _recent_section(self, recent: Sequence[Record], max_tokens: int) -> Section:
        pieces = fitting.units(recent)[::-1]
        items = tuple(
            Item(unit[0].id, "", sum(message_tokens(self._count, m.data["role"], spoken(m)) for m in unit))
            for unit in pieces
        )
        return Section("recent", items, SHARES["recent"], floor=min(RECENT_FLOOR, max_tokens // 2), unbroken=True)

    def _render(
        self,
        found: _Found,
        kept: dict[str, list[Item]],
        records: dict[str, list[Record]],
        recent: Sequence[Record],
        max_tokens: int,
        asked: list[dict[str, Any]],
        left_out: tuple[LeftOut, ...],
    ) -> Context:
        by_id = {record.id: record for held in records.values() for record in held}
        # What is remembered is told as it happened: what was so later stands after what was so before.
        told = kept | {"knowledge": sorted(kept.get("knowledge", ()), key=lambda item: by_id[item.id].when)}
        texts = {
            name: f"## {HEADINGS[name]}\n" + "\n".join(item.text for item in told[name])
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
        by_id |= {message.id: message for message in said}
        listed = [Kept(name, item.id, item.tokens, item.whole) for name in SECTIONS for item in kept.get(name, ())]
        return Context(
            query=found.question.text,
            system=system,
            messages=messages,
            sections=tuple(sections),
            tokens=tokens,
            report=Report(tuple(listed), left_out, max_tokens),
            sources=tuple(
                _source(record, each.section)
                for each in listed
                for record in (by_id[each.id], *found.also.get(each.id, ()))
            ),
            hits=tuple(found.hits),
            answerable=found.answerable(),
        )

    def _system_tokens(self, text: str) -> int:
        return message_tokens(self._count, "system", text)

    def _heading_tokens(self, name: str) -> int:
        return 0 if name == "recent" else self._count(f"\n\n## {HEADINGS[name]}\n") + 1


def _without_the_far(found: _Found, records: dict[str, list[Record]]) -> tuple[dict[str, list[Record]], list[LeftOut]]:
    """The records without those that were found far behind the best, and these with the reason."""
    scores = {hit.id: hit.score for hit in found.hits}
    known = records["knowledge"]
    near = fitting.cut([scores[record.id] for record in known], FEWEST, NEAR)
    behind = [
        LeftOut(
            "knowledge",
            record.id,
            len(record.content) // CHARACTERS_A_TOKEN + LINE_HEAD,
            f"not worth its tokens: scored {scores[record.id]:.2f}, the best {scores[known[0].id]:.2f}",
        )
        for record in known[near:]
    ]
    said = [(record, _says_little(record, found)) for record in known[:near]]
    little = [LeftOut("knowledge", each.id, LINE_HEAD, "says nothing of its own") for each, idle in said if idle]
    return records | {"knowledge": [each for each, idle in said if not idle]}, [*behind, *little]


def _says_little(record: Record, found: _Found) -> bool:
    """Whether a turn is a mere "Will do.": few words, and none that was asked for."""
    words = terms(record.content)
    return record.layer == "conversation" and len(words) < WORDS_LEAST and found.wanted.keys().isdisjoint(words)


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
