"""What the profile knows of the user, in answer to what they ask about themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import groupby

from recollect.context_policy import ContextPolicy
from recollect.interfaces.phrases import asks_of_before, held, keys_asked, kind_asked
from recollect.interfaces.quoting import (
    QUOTES_MAX,
    date_of,
    in_a_row,
    in_a_sentence,
    may_quote,
    quoted,
    uncapital,
    value_of,
)
from recollect.policies.asking import parts
from recollect.policies.dates import span_of
from recollect.policies.graphs import USER
from recollect.policies.keys import KEYS, PEOPLE, PREFERENCES, key_of
from recollect.policies.words import terms
from recollect.profile import Fact
from recollect.records import Record, as_datetime, as_ms
from recollect.sections import KEY_OF
from recollect.user import User

FAMILY = ("child", "parent", "sibling", "relative")
"""Keys of people that say little: a parent may be a mother or a stepfather."""
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
_AGE = re.compile(r"\bhow old (?:am I|I am)\b|\bwhat(?:'s|’s| is) my age\b", re.IGNORECASE)
_ANIMAL = re.compile(r"\b(?:(?P<dog>dogs?|pupp(?:y|ies))|cats?|kittens?)\b", re.IGNORECASE)
_WHO_IS = re.compile(r"(?i:and |so )?(?i:who)(?:'s|’s| is| was) (?P<name>[^\W\d_][\w'’-]*(?: [A-Z][\w'’-]*)?)\W*$")
_PAST = re.compile(r"\b(?:did|was|were|had)\b", re.IGNORECASE)
_OWN = re.compile(r"\b(?:I|my|me|mine|I'm|I've|we|our|ours)\b", re.IGNORECASE)
PLACES = {key: place for place, key in enumerate(KEYS)}
"""Who somebody is comes before what they like."""

Answered = tuple[tuple[Fact, ...], str]
"""The facts that answer a question, and how they are told; neither if there are none."""
NOTHING: Answered = ((), "")


class FromProfile:
    """Answers questions from what the profile of a user holds, as far as a policy lets it be known."""

    def __init__(self, user: User, now: datetime, policy: ContextPolicy) -> None:
        """`now` is when the question is asked; its time zone decides which day is "today"."""
        self._user = user
        self._now = now
        self._policy = policy

    async def known(self) -> list[Fact]:
        """What is true of the user now: facts, then preferences, in the order of the table of keys."""
        if not self._policy.has_section("profile"):
            return []
        facts = await self._user.facts.list() if self._policy.has_layer("fact") else ()
        preferences = await self._user.preferences.list() if self._policy.has_layer("preference") else ()
        return sorted([*facts, *preferences], key=_place)

    async def answer(self, question: str) -> Answered:
        """What it holds on a question: on each thing it asks for, on the one thing, an age, or a price paid."""
        for answer in (self._of_each_part, self._of_one_thing, self._age, self._price_paid):
            facts, told = await answer(question)
            if facts:
                return facts, told
        return NOTHING

    async def _of_each_part(self, question: str) -> Answered:
        """What is held on a question that asks for several things, if that answers all of them."""
        answers = [await self._of_one_thing(part) for part in parts(question)]
        if not all(facts for facts, _ in answers):
            return NOTHING
        facts = dict.fromkeys(fact for found, _ in answers for fact in found)
        return tuple(facts), " ".join(dict.fromkeys(told for _, told in answers))

    async def _of_one_thing(self, question: str) -> Answered:
        """What is held on the one thing that users ask about themselves."""
        if named := _WHO_IS.match(question.strip()):
            people = tuple(fact for fact in await self.known() if _is_named(fact, named["name"]))
            if people:
                return people, await self._told_now(await self._by_kind(people))
        if not _OWN.search(question):
            return NOTHING
        known = await self.known()
        keys = keys_asked(question, [(fact.key, fact.value) for fact in known])
        current = tuple(fact for fact in known if fact.key in keys)
        if not current:
            return NOTHING
        past = await self._of_then(question, current[0].key)
        if past is not None:
            return past, self._told_of_then(past, current)
        if asks_of_before(question):
            return NOTHING  # what is true now does not answer it
        asked = set(terms(question))
        current = tuple(fact for fact in current if asked.issuperset(terms(fact.value))) or current
        current, shown_as = await self._of_kind(question, current)
        return current, await self._told_now(shown_as)

    async def _age(self, question: str) -> Answered:
        """How old the user is, if only the day of their birth is known."""
        if not _AGE.search(question):
            return NOTHING
        for fact in await self.known():
            if fact.key == "birthday" and (years := years_since(fact.value, self._now)) is not None:
                return (fact,), f"You are {years}. {await self._told_now((fact,))}"
        return NOTHING

    async def _price_paid(self, question: str) -> Answered:
        """What was paid for something the user has: their words that named the thing, if they also name an amount."""
        asked = _PRICE.search(question)
        key = key_of(asked["thing"]).name if asked else ""
        if key not in BOUGHT or not may_quote(self._policy):
            return NOTHING
        known = [fact for fact in await self.known() if fact.key == key]
        records = await self._user.get_memories(list(sources_of(known))) if known else []
        priced = {record.id: record for record in records if _AMOUNT.search(record.content)}
        facts = tuple(fact for fact in known if fact.source_message_id in priced)[:QUOTES_MAX]
        return facts, in_a_row([quoted(question, priced[id], self._now) for id in sources_of(facts)])

    # ── pets and family ──────────────────────────────────────────────────────────────────────────

    async def _of_kind(self, question: str, facts: tuple[Fact, ...]) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
        """Of pets, those of the kind asked about, and the same facts named by that kind: "your cat" is not the dog.

        None if all of them are known to be of another kind.
        """
        if (kin := kind_asked(question)) and all(fact.key in FAMILY for fact in facts):
            shown_as = await self._by_kind(facts)
            pairs = [*zip(facts, shown_as, strict=True)]  # a half-brother is a brother
            alike = [(fact, kind) for fact, kind in pairs if kind.key == fact.key or kind.key.endswith(kin)]
            return tuple(fact for fact, _ in alike), tuple(kind for _, kind in alike)
        if any(fact.key in FAMILY for fact in facts):
            return facts, await self.more_exactly(facts)
        asked = _ANIMAL.search(question)
        if asked is None or any(fact.key != "pet" for fact in facts):
            return facts, facts
        kind = "dog" if asked["dog"] else "cat"
        types = [entity and entity.type for entity in [await self._user.graph.find(fact.value) for fact in facts]]
        meant = tuple(fact for fact, type in zip(facts, types, strict=True) if type == kind)
        if not meant and not all(type in ("dog", "cat") for type in types):
            return facts, facts
        return meant, tuple(replace(fact, key=kind) for fact in meant)

    async def _by_kind(self, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
        """The same facts under what somebody is more exactly: a parent may be a stepfather."""
        if not any(fact.key in FAMILY for fact in facts):
            return facts
        told = [each for each in await self._user.graph.relations() if each.names[0] == USER]
        kinds = {each.names[1].casefold(): each.relation for each in told if KEY_OF.get(each.relation) in FAMILY}
        return tuple(
            replace(fact, key=kind) if KEY_OF.get(kind := kinds.get(fact.value.casefold(), "")) == fact.key else fact
            for fact in facts
        )

    async def more_exactly(self, facts: Sequence[Fact]) -> tuple[Fact, ...]:
        """The same facts; the only one of a family key under what that person is: not a sibling but a brother."""
        alone = {key for key in FAMILY if sum(fact.key == key for fact in facts) == 1}
        kinds = await self._by_kind(tuple(facts))
        return tuple(kind if fact.key in alone else fact for fact, kind in zip(facts, kinds, strict=True))

    # ── then and now ─────────────────────────────────────────────────────────────────────────────

    async def _of_then(self, question: str, key: str) -> tuple[Fact, ...] | None:
        """What was true at the time asked about, latest first; None if it is about now or nothing is known."""
        if asks_of_before(question):
            history = await self._user.facts.history(key)
            return tuple(fact for fact in history[::-1] if fact.status == "ended")[:QUOTES_MAX] or None
        span = span_of(question, as_ms(self._now)) if _PAST.search(question) else None
        if span is None:
            return None
        history = await self._user.facts.history(key)
        return tuple(fact for fact in history[::-1] if _held_in(fact, *span))[:QUOTES_MAX] or None

    def _told_of_then(self, past: Sequence[Fact], current: Sequence[Fact]) -> str:
        """What was true, when it ended, and what is true now."""
        told = [f"{held(fact.key, [value_of(fact)])}{self._lasted(fact)}." for fact in past]
        before = "".join(f" Before that, {uncapital(line)}" for line in told[1:])
        still = any(fact.valid_to is None for fact in past)
        return told[0] + before + ("" if still else f" Now {uncapital(in_a_sentence(current))}.")

    def _lasted(self, fact: Fact) -> str:
        if fact.valid_to is not None:
            return f", until {date_of(fact.valid_to, self._now)}"
        return "" if fact.valid_from is None else f", since {date_of(fact.valid_from, self._now)}"

    async def _told_now(self, facts: Sequence[Fact]) -> str:
        """What is true, since when if that was said, and the words it was learned from."""
        if not facts:
            return ""
        sources = sources_of(facts)[:QUOTES_MAX] if may_quote(self._policy) else ()
        records = await self._user.get_memories(list(sources)) if sources else []
        quotes = [quoted(facts[0].value, record, self._now) for record in records]
        told = [in_a_sentence(same) + self._since(same, records) for same in by_key(facts)]
        return " ".join([f"{'. '.join(told)}.", *([in_a_row(quotes)] if quotes else [])])

    def _since(self, facts: Sequence[Fact], records: Sequence[Record]) -> str:
        """Since when it has been true, if that was before the day on which it was said."""
        said = {as_datetime(record.when).date() for record in records}
        begun = facts[0].valid_from
        if len(facts) > 1 or begun is None or not said or begun.date() >= min(said):
            return ""
        return f", since {date_of(begun, self._now)}"


def years_since(day: str, now: datetime) -> int | None:
    """The whole years since a day; None if its year is not known.

    >>> years_since("1990-03-12", datetime(2026, 3, 11)), years_since("3 March", datetime(2026, 3, 11))
    (35, None)
    """
    try:
        born = date.fromisoformat(day)
    except ValueError:
        return None
    return now.year - born.year - ((now.month, now.day) < (born.month, born.day))


def by_key(facts: Sequence[Fact]) -> list[list[Fact]]:
    """The facts, those of one key together."""
    return [list(same) for _, same in groupby(facts, key=lambda fact: fact.key)]


def sources_of(facts: Sequence[Fact]) -> tuple[str, ...]:
    """The ids of the messages that facts were learned from."""
    return tuple(dict.fromkeys(fact.source_message_id for fact in facts if fact.source_message_id))


def _place(fact: Fact) -> tuple[bool, int, str]:
    return fact.key in PREFERENCES, PLACES.get(fact.key, len(PLACES)), fact.key


def _is_named(fact: Fact, name: str) -> bool:
    """Whether this fact is somebody in the user's life with that full or first name."""
    value = fact.value.casefold()
    return fact.key in PEOPLE and name.casefold() in (value, value.split()[0])


def _held_in(fact: Fact, start: int, end: int) -> bool:
    begun = fact.valid_from is not None and as_ms(fact.valid_from) < end
    over = fact.valid_to is not None and as_ms(fact.valid_to) <= start
    return begun and not over and fact.status not in ("rejected", "corrected", "undone", "not_taken")
