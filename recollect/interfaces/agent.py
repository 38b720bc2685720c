"""An assistant that needs no model: it answers from memory, and says when each thing was said.

It never makes anything up. It states what the profile knows as it is now, or as it was when the question is about
the past, with the words it was learned from; any other question is answered with the words that were said. A
question that nothing fits gets a plain "I don't remember"; everything else is only acknowledged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from recollect.context_policy import ContextPolicy
from recollect.interfaces.phrases import asks_of_before, held, holds, keys_asked, kind_asked
from recollect.interfaces.small_talk import (
    ITSELF,
    NOT_FROM_MEMORY,
    about_itself,
    acknowledged,
    asks_for_a_deed,
    is_courtesy,
)
from recollect.layers import FACT_LAYERS
from recollect.policies.asking import parts
from recollect.policies.dates import span_of
from recollect.policies.fencing import shown
from recollect.policies.graphs import USER
from recollect.policies.keys import ALIASES, KEYS, PEOPLE, PREFERENCES, key_of
from recollect.policies.words import query_terms, terms
from recollect.profile import Fact
from recollect.records import Hit, Record, as_datetime, as_ms
from recollect.sections import KEY_OF
from recollect.session import Session

if TYPE_CHECKING:
    from recollect.context import Context

QUOTES_MAX = 3
"""Memories quoted in one answer; any more would be a list, not an answer."""
KNOWN_MAX = 30
"""Sentences about the user when somebody asks what is known about them."""
THINGS_MAX = 3
"""Memories quoted beside them: things that were said but are in no profile."""
THINGS_READ = 200
"""How many found memories they are chosen from, by importance."""
ASKED_CHARACTERS = 2_000
"""How much of a question is examined, as in a search: a pasted document asks nothing more."""
QUOTE_CHARACTERS = 240
"""Of a longer message, only the sentence that best fits the question is quoted."""
RUNNER_UP = 0.75
"""A further memory is quoted only if it scores this share of the best one."""
FOUND_MAX = 50
"""How many memories are searched for those that are part of a limited context."""
_ANIMAL = re.compile(r"\b(?:(?P<dog>dogs?|pupp(?:y|ies))|cats?|kittens?)\b", re.IGNORECASE)
_OF_SOMEBODY = re.compile(
    rf"\bmy (?:[\w-]+ ){{0,2}}?(?:{'|'.join(alias for alias, key in ALIASES.items() if key in PEOPLE)}"
    rf"|{'|'.join(PEOPLE)})s?\b",
    re.IGNORECASE,
)
"""Questions about somebody in the user's life, which nothing known of the user answers: "how old is my grandma?"."""
FAMILY = ("child", "parent", "sibling", "relative")
"""Those of them that say little: a parent may be a mother or a stepfather."""
BOUGHT = ("vehicle", "device")
"""Keys of things that have a price."""
_PRICE = re.compile(
    r"\b(?:how much (?:did|was|were|have)|what did|what was the price of)\b.*?\bmy (?:new |old |first )?"
    r"(?P<thing>[\w-]+)(?: (?:cost|set)(?: me)?(?: back)?)?\W*$",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"[€$£]\s?\d|\b\d[\d.,]*\s?(?:[€$£]|(?:k|grand|thousand|euros?|eur|dollars?|usd|bucks|quid|pounds|gbp|francs|chf)\b)",
    re.IGNORECASE,
)
TALKS_MAX = 5
"""Conversations named when somebody asks what was talked about."""
JUST_SAID, JUST_SAID_MS = 4, 5_000
"""How many of the newest messages are waited for when a question finds nothing, and how new they must be."""
PATIENCE_TRIES, PATIENCE_S = 30, 0.01
SURE, NEAR = 0.3, 0.05
"""How likely a memory must be to answer the question: to be quoted as the answer, and as the closest to one."""

_QUOTATION = re.compile("“([^“”]+)”")
_FULL_STOP = re.compile(r"[.!?…]”?$")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_BE_OR_DO = r"is|are|was|were|am|do|does|did|can|could|should|will|would|have|has|had|many|much|long|old"
_ASKS = re.compile(
    rf"(?:what|who|whom|whose|when|where|which|why|how)(?:'s|’s|\s+(?:{_BE_OR_DO}))\b"
    rf"|(?:what|which|whose|how)(?:\s+[\w'’-]+){{1,3}}?\s+(?:{_BE_OR_DO})\s+(?:i|we|my|our|you|the|he|she|they|it)\b"
    r"|(?:please\s+)?tell\s+me\b(?!\s+to\b)|do\s+you\s+(?:remember|know|recall)\b"
    r"|(?:please\s+)?remind\s+me\s+(?:again|of|about|what|who|whom|whose|when|where|which|why|how)\b",
    re.IGNORECASE,
)
_OF_YOU = re.compile(r"\b(?:did|have|had) you\b|\byou (?:said|told|suggested|recommended|advised|answered)\b", re.I)
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
_WHO_IS = re.compile(r"(?i:and |so )?(?i:who)(?:'s|’s| is| was) (?P<name>[^\W\d_][\w'’-]*(?: [A-Z][\w'’-]*)?)\W*$")
_PAST = re.compile(r"\b(?:did|was|were|had)\b", re.IGNORECASE)
_TAKES_BACK = re.compile(
    r"(?:no|oh|ah|hang on|hold on)[\s,]+(?:no[\s,]+)?wait\b"
    r"|(?:(?:ok|okay|oh|so|no|wait|hey|hmm|and|but|well)[\s,]+)*(?:scratch that|forget that|actually|sorry|correction"
    r"|i meant|(?:on )?second thoughts?|(?:i've )?changed my mind|new plan"
    r"|update|change of plans?|they(?:'ve| have)? (?:changed|moved)|it's now|now it's)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[^.!?…] )[A-Z][^\W\d_]{2,}")
"""A word that is not written with a capital for being the first of its sentence."""
NEXT_MS = 10 * 60_000
"""What takes something back soon after need not name it again."""
_OWN = re.compile(r"\b(?:I|my|me|mine|I'm|I've|we|our|ours)\b", re.IGNORECASE)


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
        return (*(hit.id for hit in self.hits), *_sources(self.facts))


PLACES = {key: place for place, key in enumerate(KEYS)}
"""Who somebody is comes before what they like."""
FREE = ContextPolicy()
BUDGET = 4_000
"""The tokens of its context, unless it is told otherwise."""


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
        questions = [sentence for sentence in _sentences(text) if is_question(sentence)]
        whole = " ".join(questions) or text
        context = await chat.get_context(whole, max_tokens=self._max_tokens, policy=self._policy, at=at)
        asked = whole[:ASKED_CHARACTERS]
        if _OF_ME.match(asked.strip()):
            return await _introduced(chat, asked, context, now, self._policy)
        if (of_talks := _OF_TALKS.match(asked.strip())) and may_quote(self._policy):
            return Answer(await _talks(chat, of_talks["when"], now), (), context)
        if (of_told := _OF_TOLD.match(asked.strip())) and (span := span_of(of_told["when"], as_ms(now))):
            return await _told_then(chat, asked, span, context, now, self._policy)
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
        facts, told = await _of_each_part(chat, asked, now, self._policy)
        if not facts:
            facts, told = await _from_profile(chat, asked, now, self._policy)
        if not facts:
            facts, told = await _price_paid(chat, asked, now, self._policy)
        if facts:
            return Answer(told, (), context, facts), True
        hits, sure = _that_answer(asked, await self._found(chat, context, at))
        hits = _each_once(asked, await self._in_their_words(chat, hits))
        return Answer(_said(asked, hits, sure, now), tuple(hits), context), sure

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


def may_quote(policy: ContextPolicy) -> bool:
    """Whether an assistant with this policy may know who said what in which words."""
    return policy.has_layer("conversation") and any(map(policy.has_section, ("knowledge", "recent")))


# ── From the profile ─────────────────────────────────────────────────────────────────────────────


async def _known_of(chat: Session, policy: ContextPolicy) -> list[Fact]:
    """What is true of the user now: facts, then preferences, in the order of the table of keys."""
    if not policy.has_section("profile"):
        return []
    facts = await chat.user.facts.list() if policy.has_layer("fact") else ()
    known = [*facts, *(await chat.user.preferences.list() if policy.has_layer("preference") else ())]
    return sorted(known, key=lambda fact: (fact.key in PREFERENCES, PLACES.get(fact.key, len(PLACES)), fact.key))


async def _of_each_part(
    chat: Session, question: str, now: datetime, policy: ContextPolicy
) -> tuple[tuple[Fact, ...], str]:
    """What the profile holds on a question that asks for several things, if it answers all of them."""
    answers = [await _from_profile(chat, part, now, policy) for part in parts(question)]
    if not all(facts for facts, _ in answers):
        return (), ""
    facts = dict.fromkeys(fact for found, _ in answers for fact in found)
    return tuple(facts), " ".join(dict.fromkeys(told for _, told in answers))


async def _from_profile(
    chat: Session, question: str, now: datetime, policy: ContextPolicy
) -> tuple[tuple[Fact, ...], str]:
    """What the profile holds on the one thing users ask about themselves, and how to say it."""
    if named := _WHO_IS.match(question.strip()):
        people = tuple(fact for fact in await _known_of(chat, policy) if _is_named(fact, named["name"]))
        if people:
            return people, await _told_now(chat, await _by_kind(chat, people), now, policy)
    if not _OWN.search(question):
        return (), ""
    known = await _known_of(chat, policy)
    keys = keys_asked(question, [(fact.key, fact.value) for fact in known])
    current = tuple(fact for fact in known if fact.key in keys)
    if not current:
        return (), ""
    past = await _of_then(chat, question, current[0].key, now)
    if past is not None:
        return past, _told_of_then(past, current, now)
    if asks_of_before(question):
        return (), ""  # what is true now does not answer it
    asked = set(terms(question))
    current = tuple(fact for fact in current if asked.issuperset(terms(fact.value))) or current
    current, shown_as = await _of_kind(chat, question, current)
    return current, await _told_now(chat, shown_as, now, policy) if current else ""


async def _price_paid(
    chat: Session, question: str, now: datetime, policy: ContextPolicy
) -> tuple[tuple[Fact, ...], str]:
    """What was paid for something the user has: their words that named the thing, if they also name an amount."""
    asked = _PRICE.search(question)
    key = key_of(asked["thing"]).name if asked else ""
    if key not in BOUGHT or not may_quote(policy):
        return (), ""
    known = [fact for fact in await _known_of(chat, policy) if fact.key == key]
    records = await chat.user.get_memories(list(_sources(known))) if known else []
    priced = {record.id: record for record in records if _AMOUNT.search(record.content)}
    facts = tuple(fact for fact in known if fact.source_message_id in priced)[:QUOTES_MAX]
    return facts, _in_a_row([_quoted(question, priced[id], now) for id in _sources(facts)])


async def _of_kind(chat: Session, question: str, facts: tuple[Fact, ...]) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Of pets, those of the kind asked about, and the same facts named by that kind: "your cat" is not the dog.

    None if all of them are known to be of another kind.
    """
    if (kin := kind_asked(question)) and all(fact.key in FAMILY for fact in facts):
        shown_as = await _by_kind(chat, facts)
        pairs = [*zip(facts, shown_as, strict=True)]  # a half-brother is a brother
        alike = [(fact, kind) for fact, kind in pairs if kind.key == fact.key or kind.key.endswith(kin)]
        return tuple(fact for fact, _ in alike), tuple(kind for _, kind in alike)
    if any(fact.key in FAMILY for fact in facts):
        return facts, await _more_exactly(chat, facts)
    asked = _ANIMAL.search(question)
    if asked is None or any(fact.key != "pet" for fact in facts):
        return facts, facts
    kind = "dog" if asked["dog"] else "cat"
    types = [entity and entity.type for entity in [await chat.user.graph.find(fact.value) for fact in facts]]
    meant = tuple(fact for fact, type in zip(facts, types, strict=True) if type == kind)
    if not meant and not all(type in ("dog", "cat") for type in types):
        return facts, facts
    return meant, tuple(replace(fact, key=kind) for fact in meant)


async def _by_kind(chat: Session, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """The same facts under what somebody is more exactly: a parent may be a stepfather."""
    if not any(fact.key in FAMILY for fact in facts):
        return facts
    told = [each for each in await chat.user.graph.relations() if each.names[0] == USER]
    kinds = {each.names[1].casefold(): each.relation for each in told if KEY_OF.get(each.relation) in FAMILY}
    return tuple(
        replace(fact, key=kind) if KEY_OF.get(kind := kinds.get(fact.value.casefold(), "")) == fact.key else fact
        for fact in facts
    )


async def _more_exactly(chat: Session, facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """The same facts; the only one of a family key under what that person is: not a sibling but a brother."""
    alone = {key for key in FAMILY if sum(fact.key == key for fact in facts) == 1}
    kinds = await _by_kind(chat, tuple(facts))
    return tuple(kind if fact.key in alone else fact for fact, kind in zip(facts, kinds, strict=True))


def _is_named(fact: Fact, name: str) -> bool:
    """Whether this fact is somebody in the user's life with that full or first name."""
    value = fact.value.casefold()
    return fact.key in PEOPLE and name.casefold() in (value, value.split()[0])


async def _of_then(chat: Session, question: str, key: str, now: datetime) -> tuple[Fact, ...] | None:
    """What was true at the time asked about, latest first; None if the question is about now or nothing is known."""
    if asks_of_before(question):
        history = await chat.user.facts.history(key)
        return tuple(fact for fact in history[::-1] if fact.status == "ended")[:QUOTES_MAX] or None
    span = span_of(question, as_ms(now)) if _PAST.search(question) else None
    if span is None:
        return None
    history = await chat.user.facts.history(key)
    return tuple(fact for fact in history[::-1] if _held_in(fact, *span))[:QUOTES_MAX] or None


def _held_in(fact: Fact, start: int, end: int) -> bool:
    begun = fact.valid_from is not None and as_ms(fact.valid_from) < end
    over = fact.valid_to is not None and as_ms(fact.valid_to) <= start
    return begun and not over and fact.status not in ("rejected", "corrected", "undone", "not_taken")


def _told_of_then(past: Sequence[Fact], current: Sequence[Fact], now: datetime) -> str:
    """What was true, when it ended, and what is true now."""
    told = [f"{held(fact.key, [_value(fact)])}{_lasted(fact, now)}." for fact in past]
    before = "".join(f" Before that, {_uncapital(line)}" for line in told[1:])
    still = any(fact.valid_to is None for fact in past)
    return told[0] + before + ("" if still else f" Now {_uncapital(_sentence(current))}.")


def _lasted(fact: Fact, now: datetime) -> str:
    if fact.valid_to is not None:
        return f", until {_date(fact.valid_to, now)}"
    return "" if fact.valid_from is None else f", since {_date(fact.valid_from, now)}"


async def _told_now(chat: Session, facts: Sequence[Fact], now: datetime, policy: ContextPolicy) -> str:
    """What is true, since when if that was said, and the words it was learned from."""
    sources = _sources(facts)[:QUOTES_MAX] if may_quote(policy) else ()
    records = await chat.user.get_memories(list(sources)) if sources else []
    quotes = [_quoted(facts[0].value, record, now) for record in records]
    told = [_sentence(same) + _since(same, records, now) for same in _by_key(facts)]
    return " ".join([f"{'. '.join(told)}.", *([_in_a_row(quotes)] if quotes else [])])


def _by_key(facts: Sequence[Fact]) -> list[list[Fact]]:
    return [list(same) for _, same in groupby(facts, key=lambda fact: fact.key)]


def _sentence(facts: Sequence[Fact]) -> str:
    """Facts of one key as one sentence."""
    return holds(facts[0].key, [_value(fact) for fact in facts])


def _value(fact: Fact) -> str:
    return shown(fact.value, QUOTE_CHARACTERS)


def _since(facts: Sequence[Fact], records: Sequence[Record], now: datetime) -> str:
    """Since when it has been true, if that was before the day on which it was said."""
    said = {as_datetime(record.when).date() for record in records}
    begun = facts[0].valid_from
    if len(facts) > 1 or begun is None or not said or begun.date() >= min(said):
        return ""
    return f", since {_date(begun, now)}"


def _sources(facts: Sequence[Fact]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fact.source_message_id for fact in facts if fact.source_message_id))


# ── Everything about somebody ────────────────────────────────────────────────────────────────────


async def _introduced(chat: Session, question: str, context: Context, now: datetime, policy: ContextPolicy) -> Answer:
    """What is known about the user: the profile as it is now, then what else they said that matters."""
    known = await _known_of(chat, policy)
    told = [f"{_sentence(facts)}." for facts in _by_key(await _more_exactly(chat, known))]
    if len(told) > KNOWN_MAX:
        more = len(told) - KNOWN_MAX
        told = [*told[:KNOWN_MAX], f"And {more} more {'thing' if more == 1 else 'things'}: ask about any of them."]
    things = await _most_important(chat, question, now, await _taught(chat, known), policy)
    if not told and not things:
        return Answer("I don't know anything about you yet. Tell me something.", (), context)
    said = [_capital(_quoted("", hit.record, now)) for hit in things]
    heads = ["This is what I know about you:"] if told else ["Of what I was told, this seems to matter most:"]
    lines = [*heads, *(f"– {line}" for line in told)]
    lines += ["You also told me:"] if told and said else []
    return Answer("\n".join([*lines, *(f"– {line}" for line in said)]), tuple(things), context, tuple(known))


async def _taught(chat: Session, known: Sequence[Fact]) -> set[str]:
    """The messages the profile was learned from: what they say is already told, or is over."""
    taught = set(_sources(known))
    for key in dict.fromkeys(fact.key for fact in known):
        taught.update(_sources(await chat.user.facts.history(key)))
    return taught


async def _told_then(
    chat: Session, question: str, span: tuple[int, int], context: Context, now: datetime, policy: ContextPolicy
) -> Answer:
    """What of that time matters most, in the order in which it was said."""
    things = await _most_important(chat, question, now, set(), policy, span)
    if not things:
        return Answer("I don't remember anything from that time.", (), context)
    said = sorted(things, key=lambda hit: (hit.record.when, hit.record.born))
    return Answer(_in_a_row([_quoted(question, hit.record, now) for hit in said]), tuple(said), context)


async def _most_important(
    chat: Session,
    question: str,
    now: datetime,
    but: set[str],
    policy: ContextPolicy,
    span: tuple[int, int] | None = None,
) -> list[Hit]:
    """What the user said that matters most, whatever it is about; the same words only once."""
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
        and _is_a_thing(hit.record, question)
    }
    return sorted(said.values(), key=lambda hit: -hit.record.importance)[:THINGS_MAX]


def _is_a_thing(record: Record, question: str) -> bool:
    return not is_courtesy(record.content) and _may_be_quoted(record, question)


# ── What was talked about ────────────────────────────────────────────────────────────────────────


async def _talks(chat: Session, when: str, now: datetime) -> str:
    """The latest other conversations by how they began, or those of the time asked about."""
    span = span_of(when, as_ms(now)) if when else None
    told = []
    for session in await chat.user.sessions():
        at = as_ms(session.last_activity)
        if session.id != chat.id and not is_courtesy(session.title) and (span is None or span[0] <= at < span[1]):
            told.append(f"– {_day(session.last_activity.astimezone(now.tzinfo), now)}: “{shown(session.title, 60)}”")
    if not told:
        return "I don't remember a conversation from that time." if span else "This is our first conversation."
    return "\n".join(["These conversations began with:", *told[:TALKS_MAX]])


# ── From what was said ───────────────────────────────────────────────────────────────────────────


def is_question(text: str) -> bool:
    """Whether someone wants to know something, with or without a question mark.

    >>> is_question("What is my cat called"), is_question("When I was five, I fell.")
    (True, False)
    """
    stripped = text.strip()
    return stripped.endswith("?") or _ASKS.match(stripped) is not None


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]


def _that_answer(question: str, hits: Sequence[Hit]) -> tuple[list[Hit], bool]:
    """The memories to quote, and whether they answer the question or are only the closest."""
    usable = [hit for hit in hits if _may_be_quoted(hit.record, question)]
    sure = [hit for hit in usable if hit.relevance >= SURE]
    if sure:
        best = [hit for hit in sure if hit.score >= RUNNER_UP * sure[0].score][:QUOTES_MAX]
        later = [hit for hit in _put_right(question, sure[0], usable) if hit not in best]
        return [*best[: QUOTES_MAX - len(later)], *later], True
    # The profile has one answer to a question or none: anything else it knows is not close to one.
    near = [hit for hit in usable if hit.relevance >= NEAR and hit.record.layer not in FACT_LAYERS]
    return near[:1], False


def _each_once(question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Leave out notes that would only quote a message which is quoted itself."""
    said = [_plain(hit.content) for hit in hits if hit.record.layer == "conversation"]

    def repeats(hit: Hit) -> bool:
        noted = _fitting(question, hit.content) if hit.record.layer == "episodic" else [hit.content]
        repeated = noted and all(any(_plain(each) in message for message in said) for each in noted)
        return hit.record.layer != "conversation" and bool(repeated)

    return [hit for hit in hits if not repeats(hit)]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!?…")


def _source_of(record: Record) -> str | None:
    return record.source.message_id if record.layer in FACT_LAYERS and record.source else None


def _put_right(question: str, best: Hit, hits: Sequence[Hit]) -> list[Hit]:
    """What was said after the best hit to correct it: "scratch that, ballet is on Fridays now"."""
    wanted, said = set(query_terms(question)), best.record
    named = {name.casefold() for name in _NAME.findall(said.content)}

    def is_about_it(later: Record) -> bool:
        if not _TAKES_BACK.match(later.content):
            return False
        if named & set(later.content.casefold().split()):
            return True
        same_talk = later.scope.session == said.scope.session
        return same_talk and (later.when - said.when < NEXT_MS or not wanted.isdisjoint(terms(later.content)))

    after = [hit for hit in hits if (hit.record.when, hit.record.born) > (said.when, said.born)]
    return [hit for hit in after if is_about_it(hit.record)][:1]


def _may_be_quoted(record: Record, question: str) -> bool:
    """Whether it is quotable: no earlier question of the user, no assistant's words unless asked for, no bare name."""
    role = record.data.get("role")
    if record.layer == "entity" or _is_beside_the_fact(record):
        return False
    if record.layer in FACT_LAYERS and record.data.get("key") not in PEOPLE and _OF_SOMEBODY.search(question):
        return False
    if role == "assistant":
        return _OF_YOU.search(question) is not None
    return not all(is_question(sentence) for sentence in _sentences(record.content))


def _is_beside_the_fact(record: Record) -> bool:
    """Whether it only repeats a fact of the user in the words of the graph: "user works at Acme"."""
    return record.layer == "relation" and record.data["relation"] in KEY_OF and record.data["names"][0] == USER


def _said(question: str, hits: Sequence[Hit], sure: bool, now: datetime) -> str:
    if not hits:
        return NOT_FROM_MEMORY if asks_for_a_deed(question) else "I don't remember anything about that."
    quotes = [_quoted(question, hit.record, now) for hit in hits]
    if not sure:
        return f"I don't remember that exactly. The closest I have: {quotes[0]}"
    return _in_a_row(quotes)


def _in_a_row(quotes: Sequence[str]) -> str:
    """One after the other; where a quotation has no full stop of its own, one follows before the next begins."""
    ended = [quote if _FULL_STOP.search(quote) else f"{quote}." for quote in quotes[:-1]]
    return " ".join(_capital(quote) for quote in [*ended, *quotes[-1:]])


def _quoted(question: str, record: Record, now: datetime) -> str:
    day = _day(as_datetime(record.when).astimezone(now.tzinfo), now)
    if record.layer in FACT_LAYERS:
        fact = Fact.from_record(record)
        return f"{day} I noted: {_uncapital(_sentence([fact]))}."
    if record.layer == "episodic" and (fitting := _fitting(question, record.content)):
        return f"{day} I noted: {' '.join(f'“{shown(said, QUOTE_CHARACTERS)}”' for said in fitting)}"
    return f"{day} {_speaker(record)}: “{_passage(question, record.content)}”"


def _speaker(record: Record) -> str:
    role = record.data.get("role")
    name = record.data.get("name")
    if name:
        return f"{shown(str(name), 60)} said"
    return {"user": "you said", "assistant": "I said", "tool": "a tool reported"}.get(str(role), "I noted")


def _fitting(question: str, notes: str) -> list[str]:
    """Of the notes about a conversation, the quotations that have most of the question, as many as fit."""
    wanted = set(query_terms(question))
    quotations = [(len(wanted.intersection(terms(said))), said) for said in _QUOTATION.findall(notes)]
    most = max((shared for shared, _ in quotations), default=0)
    fitting = [said for shared, said in quotations if most and shared == most]
    while len(fitting) > 1 and sum(map(len, fitting)) > QUOTE_CHARACTERS:
        fitting.pop()
    return fitting


def _passage(question: str, content: str) -> str:
    """The whole of a short message, the best sentence of a long one."""
    if len(content) <= QUOTE_CHARACTERS:
        return shown(content, QUOTE_CHARACTERS)
    wanted = set(query_terms(question))
    best = max(_sentences(content), key=lambda sentence: len(wanted & set(terms(sentence))), default=content)
    return shown(best, QUOTE_CHARACTERS)


def _day(then: datetime, now: datetime) -> str:
    """A day as people say it, with the year only if it is another one."""
    days = (now.date() - then.date()).days
    if days == 0:
        return "earlier today"
    if days == 1:
        return "yesterday"
    return f"on {then:%A} {_date(then, now)}"


def _date(moment: datetime, now: datetime) -> str:
    year = f" {moment.year}" if moment.year != now.year else ""
    return f"{moment.day} {moment:%B}{year}"


def _uncapital(text: str) -> str:
    return text[:1].lower() + text[1:]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
