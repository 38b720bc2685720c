"""The context of a question: the prompt with its sources, and an account of what is in and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from recollect.errors import Unavailable
from recollect.policies.fencing import shown
from recollect.policies.fitting import LeftOut
from recollect.records import Hit

TOLD_MAX = 10
"""Entries of a list that an explanation shows."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One record in the context; `whole` is False when only the relevant part of it is there."""

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
    """A part of the context, with its cost in tokens."""

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
    """The best context for a question within a token budget.

    `messages` can be sent to a chat model as they are. If you assemble the prompt yourself, `system` has all that is
    known and remembered as one text; or `lasting` has what seldom changes, for the beginning, and `found` what was
    found for this question, for the end, with the `recent` messages between them. With a budget below 400 tokens
    everything is in `lasting`.
    """

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
    lasting: str = ""
    found: str = ""
    recent: tuple[dict[str, Any], ...] = ()

    def to_openai(self) -> list[dict[str, Any]]:
        """The messages in the form that OpenAI-compatible chat models take."""
        return list(self.messages)

    def to_langchain(self) -> list[Any]:
        """The messages in the form that LangChain's chat models take."""
        try:
            converted: list[Any] = import_module("langchain_core.messages").convert_to_messages(self.messages)
        except ModuleNotFoundError as error:
            raise Unavailable("install langchain-core to use this", field="langchain") from error
        return converted

    def explain(self) -> str:
        """A summary for people: what went in, section by section, and what was left out and why."""
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
        """What the tokens outside the sections are for: fences, message frames, and the question if it is added."""
        is_asked = not self.recent or self.recent[-1].get("content") != self.query
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
            "lasting": self.lasting,
            "found": self.found,
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


def _listed(heading: str, entries: Sequence[str]) -> list[str]:
    """The first entries under their heading, and how many more there are."""
    more = [f"  and {len(entries) - TOLD_MAX} more"] if len(entries) > TOLD_MAX else []
    return [heading, *(f"  {entry}" for entry in entries[:TOLD_MAX]), *more] if entries else []
