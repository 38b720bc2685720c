"""A context as text: sections under their headings, memories inside the fence, and the messages for a chat model.

`packing.py` decides what goes in; this module lays it out. What lasts comes first, then the recent messages, and last
what was found, in one message with the question. Only standing instructions are outside the fence. The tokens are
counted here too, for the prompt as a whole, because the counts of its parts do not add up exactly.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.conversation import Message, tokens_of
from recollect.layers import LASTING, SECTIONS
from recollect.policies import fitting
from recollect.policies.fencing import fenced
from recollect.policies.fitting import Item
from recollect.policies.notes import common_month
from recollect.policies.tokens import TokenCounter, message_tokens
from recollect.records import Record
from recollect.unfolding import unfolded

HEADINGS = {
    "instructions": "Standing instructions",
    "profile": "About the user",
    "learnings": "Learned from working with the user",
    "summary": "Earlier in this conversation",
    "episodes": "Earlier conversations",
    "knowledge": "Remembered",
    "entities": "People and things",
    "working": "State of the task",
}


@dataclass(frozen=True, slots=True)
class Talk:
    """The recent messages, counted once: every step of packing them needs their tokens."""

    units: Sequence[fitting.Unit]
    tokens: Mapping[str, int]
    """The tokens of each message, by its id."""

    @classmethod
    def of(cls, messages: Sequence[Record], count: TokenCounter) -> Talk:
        """These messages, in units that stay together."""
        tokens = {each.id: tokens_of(each, count) for each in messages}
        return cls(fitting.units(messages), tokens)

    def without(self, ids: Container[str]) -> Talk:
        """The same without these messages."""
        return Talk([unit for unit in self.units if unit[0].id not in ids], self.tokens)

    def tokens_of(self, messages: Sequence[Record]) -> int:
        """Tokens of some of the messages."""
        return sum([self.tokens[message.id] for message in messages])


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt from beginning to end: what lasts, what was said, what was found and the question."""

    texts: Mapping[str, str]
    """Each section with its heading, except the recent messages."""
    said: Sequence[Record]
    """The recent messages that are in it."""
    talk: Talk
    """Those and the ones that are not, with their tokens."""
    asked: Sequence[dict[str, Any]]
    """The question, unless it is the last of the recent messages."""
    head: str
    """The first message: what lasts, or all that is known if the prompt does not end with the question."""
    system: str
    lasting: str
    found: str
    recent: tuple[dict[str, Any], ...]
    last: tuple[dict[str, Any], ...]
    """The message with what was found and the question; empty if the prompt does not end with the question."""

    @classmethod
    def of(
        cls,
        kept: Mapping[str, Sequence[Item]],
        records: Mapping[str, Sequence[Record]],
        talk: Talk,
        asked: Sequence[dict[str, Any]],
        question: str,
        *,
        in_one: bool,
    ) -> Prompt:
        """The kept items, put together; `in_one` fence if there is no room for two."""
        texts = _texts(kept, records)
        first = {item.id for item in kept.get("recent", ())}
        said = [message for unit in talk.units if unit[0].id in first for message in unit]
        spoken_before = [each.to_openai() for message in said for each in unfolded(Message.from_record(message))]
        system = _fenced(texts)
        lasting = _fenced({name: text for name, text in texts.items() if in_one or name in LASTING})
        found = _fenced({name: text for name, text in texts.items() if not in_one and name not in LASTING})
        head, last = lasting, [*spoken_before, *asked][-1:]
        if last and last[0]["role"] == "user" and last[0]["content"] == question:
            last = [{**last[0], "content": f"{found}\n\n{question}" if found else question}]
        else:  # the caller appends the question after all this; two user messages in a row are one too many
            head, last = system, []
        return cls(texts, said, talk, asked, head, system, lasting, found, tuple(spoken_before), tuple(last))

    @property
    def _before(self) -> slice:
        """The recent messages that come before the question, which may be the last of them."""
        return slice(-1 if self.last and not self.asked else None)

    def messages(self) -> list[dict[str, Any]]:
        """All of it, ready to be sent."""
        head = [{"role": "system", "content": self.head}] if self.head else []
        return [*head, *self.recent[self._before], *self.last]

    def tokens(self, count: TokenCounter) -> int:
        """Tokens of all messages. The question is counted together with what was found: joined texts may cost more."""
        tokens = message_tokens(count, "system", self.head) if self.head else 0
        tokens += sum(message_tokens(count, "user", last["content"]) for last in self.last)
        return tokens + self.talk.tokens_of(self.said[self._before])

    @property
    def said_tokens(self) -> int:
        """Tokens of the recent messages."""
        return self.talk.tokens_of(self.said)


def heading(section: str, month: str) -> str:
    """The heading of a section; above the notes about the user, with the month that most of them date from."""
    return f"{HEADINGS[section]} (as of {month})" if section == "profile" and month else HEADINGS[section]


def _texts(kept: Mapping[str, Sequence[Item]], records: Mapping[str, Sequence[Record]]) -> dict[str, str]:
    """Each section with its heading.

    Memories are listed in the order they happened: what was true later comes after what was true before. Within one
    moment, as messages of an import often are, what was written first was said first.
    """
    happened = {record.id: (record.when, record.born) for record in records["knowledge"]}
    told = {**kept, "knowledge": sorted(kept.get("knowledge", ()), key=lambda item: happened[item.id])}
    month = common_month([record.content for record in records["profile"]])
    return {
        name: f"## {heading(name, month)}\n" + "\n".join(item.text for item in told[name])
        for name in SECTIONS
        if name != "recent" and kept.get(name)
    }


def _fenced(texts: Mapping[str, str]) -> str:
    """Sections as one text: standing instructions first, then everything else inside the fence."""
    outside = [texts["instructions"]] if "instructions" in texts else []
    inside = [text for name, text in texts.items() if name != "instructions"]
    if inside:
        outside.append(fenced(inside))
    return "\n\n".join(outside)
