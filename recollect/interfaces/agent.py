"""An assistant that needs no model: it answers from memory, and says when each thing was said.

What it says is never made up. A question is answered with the words that were said; a question
that nothing fits gets a plain "I don't remember"; everything else is only acknowledged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from recollect.context import Context
from recollect.enrich.sentences import TO_FORGET
from recollect.memory import Session
from recollect.policies.fencing import shown
from recollect.policies.keys import ALIASES, key_of
from recollect.policies.words import query_terms, terms
from recollect.profile import Fact
from recollect.records import Hit, Record, as_datetime

QUOTES_MAX = 3
"""Memories quoted in one answer: more are a list, not an answer."""
THINGS_MAX = 5
"""Things that are told when somebody asks what is known of them."""
THINGS_READ = 200
"""The found memories among which these are the most important."""
QUOTE_CHARACTERS = 240
"""Of a longer message, only the sentence that fits the question best is quoted."""
RUNNER_UP = 0.75
"""A further memory is quoted only if it scores this share of the best one."""
SURE_WORDS, SURE_MEANING = 0.5, 0.25
"""Half of the question's words, or this cosine: measured on small talk, both mean "this is it"."""
NEAR_MEANING = 0.15
"""From here to sure, the memory is offered as the closest one and not as the answer."""

_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_BE_OR_DO = r"is|are|was|were|am|do|does|did|can|could|should|will|would|have|has|had|many|much|long|old"
_ASKS = re.compile(
    rf"(?:what|who|whom|whose|when|where|which|why|how)(?:'s|’s|\s+(?:{_BE_OR_DO}))\b"
    r"|(?:please\s+)?(?:tell|remind)\s+me\b|do\s+you\s+(?:remember|know|recall)\b",
    re.IGNORECASE,
)
_OF_YOU = re.compile(r"\b(?:did|have|had) you\b|\byou (?:said|told|suggested|recommended|advised|answered)\b", re.I)
_OF_ME = re.compile(
    r"what (?:do|can|did) you (?:know|remember|recall)(?: (?:about|of) me)?\W*$|what have I (?:told|said to) you\W*$"
    r"|(?:tell me )?(?:everything|all|what) you (?:know|remember) (?:about|of) me\W*$|who am I\W*$",
    re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:I|my|me|mine|I'm|I've)\b", re.IGNORECASE)
_NO_KEY = frozenset(terms("current currently now these days please remember remind know recall tell again called"))
"""Words of a question that do not tell what it is about."""
_BEFORE = re.compile(r"\b(?:before|previous(?:ly)?|former(?:ly)?|used to|in the past|once)\b", re.IGNORECASE)
_OF_BEFORE = frozenset(terms("before previous previously former formerly used past once"))
_GREETS = re.compile(r"(?:hello|hi|hey|good (?:morning|evening|day|afternoon))\b", re.IGNORECASE)
_THANKS = re.compile(r"(?:thanks|thank you|cheers)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the assistant says, the memories it rests on, and the context it was given."""

    text: str
    hits: tuple[Hit, ...]
    context: Context
    sources: tuple[str, ...] = ()

    @property
    def quotes(self) -> tuple[str, ...]:
        """The ids of what it quotes, by search or from the profile."""
        return (*(hit.id for hit in self.hits), *self.sources)


class MemoryAgent:
    """Answers from memory. It reads only: storing the turn is for whoever asked."""

    async def reply(self, chat: Session, text: str, *, at: datetime | None = None) -> str:
        """The answer to what a user just said in a session."""
        return (await self.answer(chat, text, at=at)).text

    async def answer(self, chat: Session, text: str, *, at: datetime | None = None) -> Answer:
        """The answer with its reasons. `at` is when it is asked; its zone decides which day "today" is."""
        now = at or datetime.now().astimezone()
        questions = [sentence for sentence in _sentences(text) if is_question(sentence)]
        asked = " ".join(questions) or text
        context = await chat.get_context(asked, at=at)
        if _OF_ME.match(asked.strip()):
            things = await _most_important(chat, asked, at)
            return Answer(_known(things, now), tuple(things), context)
        if not questions:
            return Answer(_acknowledged(text), (), context)
        facts = await _asked_for(chat, asked)
        if facts and _BEFORE.search(asked):
            facts, current = await _ended(chat, facts[0].key), facts
            if facts:
                return Answer(
                    _was(facts, current),
                    (),
                    context,
                    tuple(fact.source_message_id for fact in facts if fact.source_message_id),
                )
        elif facts:
            text, sources = await _told(chat, facts, now)
            return Answer(text, (), context, sources)
        hits, sure = _that_answer(asked, context.hits)
        return Answer(_said(asked, hits, sure, now), tuple(hits), context)


async def _asked_for(chat: Session, question: str) -> list[Fact]:
    """What the profile has of the one thing that somebody asks about themself: the current value, not an old one."""
    if not _OWN.search(question):
        return []
    wanted = {term for term in query_terms(question) if term not in _NO_KEY}
    if _BEFORE.search(question):
        wanted -= _OF_BEFORE
    by_key: dict[str, list[Fact]] = {}
    for fact in (await chat.user.profile()).facts:
        # "Before Bergen" names the value beside what is asked for.
        if wanted - set(terms(fact.value)) and wanted - set(terms(fact.value)) <= _names_of(fact.key):
            by_key.setdefault(fact.key, []).append(fact)
    return next(iter(by_key.values()), [])


async def _ended(chat: Session, key: str) -> list[Fact]:
    """What was so before, the latest first."""
    over = [fact for fact in await chat.user.facts.history(key) if fact.status == "ended"]
    return over[::-1][:QUOTES_MAX]


def _was(facts: Sequence[Fact], current: Sequence[Fact]) -> str:
    """The values that are over, with when they ended, and what is so now."""
    told = [
        shown(fact.value, QUOTE_CHARACTERS)
        + (f", until {fact.valid_to.day} {fact.valid_to:%B %Y}" if fact.valid_to is not None else "")
        for fact in facts
    ]
    now = ", ".join(shown(fact.value, QUOTE_CHARACTERS) for fact in current)
    return f"{_capital('; before that '.join(told))}. Now it is {now}."


@lru_cache
def _names_of(key: str) -> frozenset[str]:
    """The words by which a key is asked for."""
    others = [alias for alias, name in ALIASES.items() if name == key]
    return frozenset(terms(" ".join([key, key_of(key).label, *others]).replace("_", " ")))


async def _told(chat: Session, facts: Sequence[Fact], now: datetime) -> tuple[str, tuple[str, ...]]:
    """The values, and the words that they were learned from."""
    values = _capital(", ".join(shown(fact.value, QUOTE_CHARACTERS) for fact in facts))
    sources = list(dict.fromkeys(fact.source_message_id for fact in facts if fact.source_message_id))
    records = await chat.user.get_memories(sources[:QUOTES_MAX]) if sources else []
    quotes = [_capital(_quoted(facts[0].value, record, now)) for record in records]
    return " ".join([f"{values}.", *quotes]), tuple(record.id for record in records)


def is_question(text: str) -> bool:
    """Whether someone wants to know something, with or without a question mark.

    >>> is_question("What is my cat called"), is_question("When I was five, I fell.")
    (True, False)
    """
    stripped = text.strip()
    return stripped.endswith("?") or _ASKS.match(stripped) is not None


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]


def _acknowledged(text: str) -> str:
    """A short word for what was told. A greeting or thanks alone is not something to remember."""
    alone = len(_sentences(text)) == 1 and len(text.split()) <= 3
    if _THANKS.match(text):
        return "You're welcome."
    if TO_FORGET.match(text.strip().lower()):
        return (
            "I don't forget by being told, so that nothing is lost by mistake. Choose it under Memories and forget it."
        )
    if _GREETS.match(text):
        return "Hello! Tell me something, and ask me about it later." if alone else "Hello! I'll remember that."
    return "I'll remember that."


async def _most_important(chat: Session, question: str, at: datetime | None) -> list[Hit]:
    """What the user said that matters most, whatever it is about; the same words only once."""
    own = {"or": [{"role": "user"}, {"layer": ["long_term"]}]}
    found = await chat.search_memory(question, where=own, limit=THINGS_READ, at=at)
    said = {" ".join(hit.content.casefold().split()): hit for hit in found if _is_a_thing(hit.record, question)}
    return sorted(said.values(), key=lambda hit: -hit.record.importance)[:THINGS_MAX]


def _is_a_thing(record: Record, question: str) -> bool:
    small_talk = len(record.content.split()) <= 3 and (_GREETS.match(record.content) or _THANKS.match(record.content))
    return not small_talk and _may_be_quoted(record, question)


def _known(things: Sequence[Hit], now: datetime) -> str:
    if not things:
        return "I don't know anything about you yet. Tell me something."
    said = "\n".join(f"– {_capital(_quoted('', hit.record, now))}" for hit in things)
    return f"This is what seems to matter most of what I was told:\n{said}"


def _that_answer(question: str, hits: Sequence[Hit]) -> tuple[list[Hit], bool]:
    """The memories to quote, and whether they answer the question or are only the closest."""
    wanted = set(query_terms(question))
    usable = [hit for hit in hits if _may_be_quoted(hit.record, question)]
    sure = [hit for hit in usable if _fits(wanted, hit) == "sure"]
    if sure:
        return [hit for hit in sure if hit.score >= RUNNER_UP * sure[0].score][:QUOTES_MAX], True
    return [hit for hit in usable if _fits(wanted, hit) == "near"][:1], False


def _may_be_quoted(record: Record, question: str) -> bool:
    """Not the user's own earlier questions, nor the assistant's words unless they are asked for, nor a bare name."""
    role = record.data.get("role")
    if record.layer == "entity":
        return False
    if role == "assistant":
        return _OF_YOU.search(question) is not None
    return not all(is_question(sentence) for sentence in _sentences(record.content))


def _fits(wanted: set[str], hit: Hit) -> str:
    share = len(wanted & set(terms(hit.content))) / len(wanted) if wanted else 0.0
    meaning = hit.legs["meaning"].score if "meaning" in hit.legs else 0.0
    if share >= SURE_WORDS or meaning >= SURE_MEANING:
        return "sure"
    return "near" if meaning >= NEAR_MEANING or share > 0 else "no"


def _said(question: str, hits: Sequence[Hit], sure: bool, now: datetime) -> str:
    if not hits:
        return "I don't remember anything about that."
    quotes = [_quoted(question, hit.record, now) for hit in hits]
    if not sure:
        return f"I don't remember that exactly. The closest I have: {quotes[0]}"
    return " ".join(_capital(quote) for quote in quotes)


def _quoted(question: str, record: Record, now: datetime) -> str:
    day = _day(as_datetime(record.when).astimezone(now.tzinfo), now)
    return f"{day} {_speaker(record)}: “{_passage(question, record.content)}”"


def _speaker(record: Record) -> str:
    role = record.data.get("role")
    name = record.data.get("name")
    if name:
        return f"{shown(str(name), 60)} said"
    return {"user": "you said", "assistant": "I said", "tool": "a tool reported"}.get(str(role), "I noted")


def _passage(question: str, content: str) -> str:
    """The whole of a short message, the best sentence of a long one."""
    if len(content) <= QUOTE_CHARACTERS:
        return shown(content, QUOTE_CHARACTERS)
    wanted = set(query_terms(question))
    best = max(_sentences(content), key=lambda sentence: len(wanted & set(terms(sentence))), default=content)
    return shown(best, QUOTE_CHARACTERS)


def _day(then: datetime, now: datetime) -> str:
    """A day as people say it, with the year only when it is another one."""
    days = (now.date() - then.date()).days
    if days == 0:
        return "earlier today"
    if days == 1:
        return "yesterday"
    year = f" {then.year}" if then.year != now.year else ""
    return f"on {then:%A} {then.day} {then:%B}{year}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
