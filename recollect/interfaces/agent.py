"""An assistant that needs no model: it answers from memory, and says when each thing was said.

It never makes anything up. It states what the profile knows as it is now, or as it was when the question is about
the past, with the words it was learned from; any other question is answered with the words that were said. A
question that nothing fits gets a plain "I don't remember"; everything else is only acknowledged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from recollect.context_policy import ContextPolicy
from recollect.enrich.rules import takes_back
from recollect.interfaces.from_profile import FromProfile, by_key, sources_of
from recollect.interfaces.phrases import is_question, sentences_of
from recollect.interfaces.quoting import (
    answer_from,
    capital,
    day_of,
    each_once,
    in_a_row,
    in_a_sentence,
    may_be_quoted,
    may_quote,
    quoted,
    that_answer,
)
from recollect.interfaces.small_talk import ITSELF, about_itself, acknowledged, is_courtesy
from recollect.layers import FACT_LAYERS
from recollect.policies.dates import span_of
from recollect.policies.fencing import shown
from recollect.profile import Fact
from recollect.records import Hit, Record, as_ms
from recollect.session import Session

if TYPE_CHECKING:
    from recollect.context import Context

BUDGET = 4_000
"""The tokens of its context, unless it is told otherwise."""
FREE = ContextPolicy()
ASKED_CHARACTERS = 2_000
"""How much of a question is examined, as in a search: a pasted document asks nothing more."""
KNOWN_MAX = 30
"""Sentences about the user when somebody asks what is known about them."""
THINGS_MAX = 3
"""Memories quoted beside them: things that were said but are in no profile."""
THINGS_READ = 200
"""How many found memories they are chosen from, by importance."""
HELD_READ = 1_000
"""How many facts, and as many preferences, are asked which messages they came from: the latest."""
FOUND_MAX = 50
"""How many memories are searched for those that are part of a limited context."""
TALKS_MAX = 5
"""Conversations named when somebody asks what was talked about."""
JUST_SAID, JUST_SAID_MS = 4, 5_000
"""How many of the newest messages are waited for when a question finds nothing, and how new they must be."""
PATIENCE_TRIES, PATIENCE_S = 30, 0.01
_OF_ME = re.compile(
    r"what (?:do|can|did) you (?:know|remember|recall)(?: (?:about|of) me)?\W*$|what have I (?:told|said to) you\W*$"
    r"|(?:tell me )?(?:everything|all|what) you (?:know|remember) (?:about|of) me\W*$|who am I\W*$"
    r"|(?:please )?(?:tell me|list|show me|sum up|summari[sz]e) (?:everything |all )?(?:that |what )?you"
    r" (?:know|remember|have)"
    r"(?: (?:about|of|on) me)?\W*$|(?:tell me )?about me\W*$",
    re.IGNORECASE,
)
_OF_TALKS = re.compile(
    r"what (?:did|were|have|had) (?:we|I) (?:been )?(?:talk(?:ing|ed)?|speak(?:ing)?|spoken|discuss(?:ing|ed)?"
    r"|chat(?:ting|ted)?)"
    r"(?: (?:to|with) (?:you|each other))?(?: about)?(?P<when>(?: [\w']+){0,4})\W*$",
    re.IGNORECASE,
)
_OF_TOLD = re.compile(
    r"what (?:did|have) I (?:tell|told|say|said|mention(?:ed)?)(?: to)?(?: you)?(?P<when> (?:on|in|last|this|yesterday"
    r"|today|earlier|the|an?|two|three|\d+)\b(?: (?!about\b)[\w']+){0,3})\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the assistant says, the memories it rests on, and the context it was given."""

    text: str
    hits: tuple[Hit, ...]
    context: Context
    facts: tuple[Fact, ...] = ()

    @property
    def quotes(self) -> tuple[str, ...]:
        """The ids of everything it quotes, found by search or in the profile."""
        return (*(hit.id for hit in self.hits), *sources_of(self.facts))


class MemoryAgent:
    """Answers from memory. It only reads: storing the turn is up to the caller."""

    def __init__(self, policy: ContextPolicy = FREE, *, max_tokens: int = BUDGET) -> None:
        """Whatever is outside the policy is neither told nor quoted."""
        self._policy = policy
        self._max_tokens = max_tokens

    async def reply(self, chat: Session, text: str, *, at: datetime | None = None) -> str:
        """The answer to what a user just said in a session."""
        return (await self.answer(chat, text, at=at)).text

    async def answer(self, chat: Session, text: str, *, at: datetime | None = None) -> Answer:
        """The answer with its reasons. `at` is when it is asked; its time zone decides which day is "today"."""
        now = at or datetime.now().astimezone()
        questions = [sentence for sentence in sentences_of(text) if is_question(sentence)]
        whole = " ".join(questions) or text
        context = await chat.get_context(whole, max_tokens=self._max_tokens, policy=self._policy, at=at)
        asked = whole[:ASKED_CHARACTERS]
        if _OF_ME.match(asked.strip()):
            return await self._introduced(chat, asked, context, now)
        if (of_talks := _OF_TALKS.match(asked.strip())) and may_quote(self._policy):
            return Answer(await _talks(chat, of_talks["when"], now), (), context)
        if (of_told := _OF_TOLD.match(asked.strip())) and (span := span_of(of_told["when"], as_ms(now))):
            return await self._told_then(chat, asked, span, context, now)
        if not questions:
            return Answer(acknowledged(text), (), context)
        if about_itself(asked):
            return Answer(ITSELF, (), context)
        answer, sure = await self._answered(chat, asked, context, now, at)
        if not sure and await _is_learned_by_now(chat, now):
            context = await chat.get_context(whole, max_tokens=self._max_tokens, policy=self._policy, at=at)
            answer, _ = await self._answered(chat, asked, context, now, at)
        return answer

    async def _answered(
        self, chat: Session, asked: str, context: Context, now: datetime, at: datetime | None
    ) -> tuple[Answer, bool]:
        """The answer to a question, and whether it really answers it."""
        facts, told = await FromProfile(chat.user, now, self._policy).answer(asked)
        if facts:
            return Answer(told, (), context, facts), True
        hits, sure = that_answer(asked, await self._found(chat, context, at))
        hits = each_once(asked, await self._in_their_words(chat, hits))
        return Answer(answer_from(asked, hits, sure, now), tuple(hits), context), sure

    async def _in_their_words(self, chat: Session, hits: Sequence[Hit]) -> list[Hit]:
        """Replace noted facts with the messages they came from, which say more; each message once."""
        sources = {hit.id: source for hit in hits if (source := _source_of(hit.record))}
        if not sources or not may_quote(self._policy):
            return list(hits)
        known = {record.id: record for record in await chat.user.get_memories([*sources.values()])}
        told = [hit.of(known.get(sources.get(hit.id, ""), hit.record)) for hit in hits]
        return list({hit.id: hit for hit in told[::-1]}.values())[::-1]

    async def _found(self, chat: Session, context: Context, at: datetime | None) -> Sequence[Hit]:
        """What may be quoted; with a limited context, only what is in it."""
        policy = self._policy
        if policy == FREE and self._max_tokens == BUDGET:
            return context.hits
        hits: Sequence[Hit] = context.hits
        if not hits and policy.searched:  # nothing was searched, but recent messages may hold the answer
            hits = await chat.search_memory(context.query, layer=policy.searched, limit=FOUND_MAX, at=at)
        given = {source.id for source in context.sources}
        return [hit for hit in hits if hit.id in given]

    async def _introduced(self, chat: Session, question: str, context: Context, now: datetime) -> Answer:
        """What is known about the user: the profile as it is now, then what else they said that matters."""
        profile = FromProfile(chat.user, now, self._policy)
        known = await profile.known()
        told = [f"{in_a_sentence(facts)}." for facts in by_key(await profile.more_exactly(known))]
        if len(told) > KNOWN_MAX:
            more = len(told) - KNOWN_MAX
            told = [*told[:KNOWN_MAX], f"And {more} more {'thing' if more == 1 else 'things'}: ask about any of them."]
        things = await self._most_important(chat, question, now, await _taught(chat, known))
        if not told and not things:
            return Answer("I don't know anything about you yet. Tell me something.", (), context)
        said = [capital(quoted("", hit.record, now)) for hit in things]
        heads = ["This is what I know about you:"] if told else ["Of what I was told, this seems to matter most:"]
        lines = [*heads, *(f"– {line}" for line in told)]
        lines += ["You also told me:"] if told and said else []
        return Answer("\n".join([*lines, *(f"– {line}" for line in said)]), tuple(things), context, tuple(known))

    async def _told_then(
        self, chat: Session, question: str, span: tuple[int, int], context: Context, now: datetime
    ) -> Answer:
        """What of that time matters most, in the order in which it was said."""
        things = await self._most_important(chat, question, now, set(), span)
        if not things:
            return Answer("I don't remember anything from that time.", (), context)
        said = sorted(things, key=lambda hit: (hit.record.when, hit.record.born))
        return Answer(in_a_row([quoted(question, hit.record, now) for hit in said]), tuple(said), context)

    async def _most_important(
        self, chat: Session, question: str, now: datetime, but: set[str], span: tuple[int, int] | None = None
    ) -> list[Hit]:
        """What the user said that matters most, whatever it is about; the same words only once."""
        policy = self._policy
        if not policy.searched or not policy.has_section("knowledge"):
            return []
        own = {"or": [{"role": "user"}, {"layer": ["long_term"]}]}
        layers = policy.searched if policy.layers else None
        found = await chat.search_memory(question, layer=layers, where=own, limit=THINGS_READ, at=now)
        said = {
            " ".join(hit.content.casefold().split()): hit
            for hit in found
            if hit.id not in but
            and (span is None or span[0] <= hit.record.when < span[1])
            and not is_courtesy(hit.content)
            and not takes_back(hit.content)
            and may_be_quoted(hit.record, question)
        }
        return sorted(said.values(), key=lambda hit: -hit.record.importance)[:THINGS_MAX]


async def _is_learned_by_now(chat: Session, now: datetime) -> bool:
    """Wait briefly for what was just said to be learned; whether there was anything, and it now is."""
    if not await _is_being_learned(chat, now):
        return False
    for _ in range(PATIENCE_TRIES):
        await asyncio.sleep(PATIENCE_S)
        if not await _is_being_learned(chat, now):
            return True
    return False


async def _is_being_learned(chat: Session, now: datetime) -> bool:
    """Whether something said a moment ago is still exactly as written: learning from a message changes its record."""
    said, _ = await chat.user.list_memories(layer="conversation", limit=JUST_SAID, newest_first=True)
    since = as_ms(now) - JUST_SAID_MS
    return any(message.created_at > since and message.version == message.born[0] for message in said)


async def _taught(chat: Session, known: Sequence[Fact]) -> set[str]:
    """The messages the profile was learned from: what they say is already told, or is over."""
    taught = set(sources_of(known))
    for key in dict.fromkeys(fact.key for fact in known):
        taught.update(sources_of(await chat.user.facts.history(key)))
    for layer in FACT_LAYERS:  # of what was taken back nothing is left among what is known
        held, _ = await chat.user.list_memories(layer=layer, limit=HELD_READ, newest_first=True)
        taught.update(source for record in held if (source := _source_of(record)))
    return taught


async def _talks(chat: Session, when: str, now: datetime) -> str:
    """The latest other conversations by how they began, or those of the time asked about."""
    span = span_of(when, as_ms(now)) if when else None
    told = []
    for session in await chat.user.sessions():
        at = as_ms(session.last_activity)
        if session.id != chat.id and not is_courtesy(session.title) and (span is None or span[0] <= at < span[1]):
            told.append(f"– {day_of(session.last_activity.astimezone(now.tzinfo), now)}: “{shown(session.title, 60)}”")
    if not told:
        return "I don't remember a conversation from that time." if span else "This is our first conversation."
    return "\n".join(["These conversations began with:", *told[:TALKS_MAX]])


def _source_of(record: Record) -> str | None:
    return record.source.message_id if record.layer in FACT_LAYERS and record.source else None
