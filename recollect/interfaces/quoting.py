"""Quotations: which memories may be quoted in answer to a question, and how each is introduced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from recollect.context_policy import ContextPolicy
from recollect.interfaces.phrases import holds, is_question, sentences_of
from recollect.interfaces.small_talk import NOT_FROM_MEMORY, asks_for_a_deed
from recollect.interfaces.sought import OF_SOMEBODY, may_answer
from recollect.layers import FACT_LAYERS
from recollect.policies.fencing import shown
from recollect.policies.graphs import USER
from recollect.policies.keys import PEOPLE
from recollect.policies.trimming import trimmed
from recollect.policies.words import STOP_WORDS, query_terms, split, terms
from recollect.profile import Fact
from recollect.records import Hit, Record, as_datetime
from recollect.sections import KEY_OF

QUOTES_MAX = 3
"""Memories quoted in one answer; any more would be a list, not an answer."""
QUOTE_CHARACTERS = 240
"""Of a longer message, only the sentence that best fits the question is quoted."""
RUNNER_UP = 0.75
"""A further memory is quoted only if it scores this share of the best one."""
SURE, NEAR = 0.3, 0.05
"""How likely a memory must be to answer the question: to be quoted as the answer, and as the closest to one."""
_QUOTATION = re.compile("“([^“”]+)”")
_OF_YOU = re.compile(r"\b(?:did|have|had) you\b|\byou (?:said|told|suggested|recommended|advised|answered)\b", re.I)
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
_LIST_NUMBER = re.compile(r"^\s{0,8}\d{1,3}[.)]\s", re.MULTILINE)
"""By itself, it would pass for a short sentence."""
_FULL_STOP = re.compile(r"[.!?…]”?$")


def may_quote(policy: ContextPolicy) -> bool:
    """Whether an assistant with this policy may know who said what in which words."""
    return policy.has_layer("conversation") and any(map(policy.has_section, ("knowledge", "recent")))


# ── Which ────────────────────────────────────────────────────────────────────────────────────────


def that_answer(question: str, hits: Sequence[Hit]) -> tuple[list[Hit], bool]:
    """The memories to quote, and whether they answer the question or are only the closest."""
    usable = [hit for hit in hits if may_be_quoted(hit.record, question)]
    sure = [hit for hit in usable if hit.relevance >= SURE and _may_answer(question, hit.record)]
    if sure:
        best = [hit for hit in sure if hit.score >= RUNNER_UP * sure[0].score][:QUOTES_MAX]
        later = [hit for hit in _put_right(question, sure[0], usable) if hit not in best]
        return [*best[: QUOTES_MAX - len(later)], *later], True
    # The profile has one answer to a question or none: anything else it knows is not close to one.
    near = [hit for hit in usable if hit.relevance >= NEAR and hit.record.layer not in FACT_LAYERS]
    return near[:1], False


def _may_answer(question: str, record: Record) -> bool:
    return record.layer != "conversation" or may_answer(question, record.content)


def each_once(question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Leave out notes that would only quote a message which is quoted itself."""
    said = [_plain(hit.content) for hit in hits if hit.record.layer == "conversation"]

    def repeats(hit: Hit) -> bool:
        noted = _fitting(question, hit.content) if hit.record.layer == "episodic" else [hit.content]
        repeated = noted and all(any(_plain(each) in message for message in said) for each in noted)
        return hit.record.layer != "conversation" and bool(repeated)

    return [hit for hit in hits if not repeats(hit)]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!?…")


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


def may_be_quoted(record: Record, question: str) -> bool:
    """Whether it is quotable: no earlier question of the user, no assistant's words unless asked for, no bare name."""
    role = record.data.get("role")
    if record.layer == "entity" or _is_beside_the_fact(record):
        return False
    if record.layer in FACT_LAYERS and record.data.get("key") not in PEOPLE and OF_SOMEBODY.search(question):
        return False
    if role == "assistant":
        return _OF_YOU.search(question) is not None
    return not all(is_question(sentence) for sentence in sentences_of(record.content))


def _is_beside_the_fact(record: Record) -> bool:
    """Whether it only repeats a fact of the user in the words of the graph: "user works at Acme"."""
    return record.layer == "relation" and record.data["relation"] in KEY_OF and record.data["names"][0] == USER


# ── How ──────────────────────────────────────────────────────────────────────────────────────────


def answer_from(question: str, hits: Sequence[Hit], sure: bool, now: datetime) -> str:
    """An answer that quotes these memories; they may be only the closest, or none."""
    if not hits:
        return NOT_FROM_MEMORY if asks_for_a_deed(question) else "I don't remember anything about that."
    quotes = [quoted(question, hit.record, now) for hit in hits]
    if not sure:
        return f"I don't remember that exactly. The closest I have: {quotes[0]}"
    return in_a_row(quotes)


def in_a_row(quotes: Sequence[str]) -> str:
    """One after the other; where a quotation has no full stop of its own, one follows before the next begins."""
    ended = [quote if _FULL_STOP.search(quote) else f"{quote}." for quote in quotes[:-1]]
    return " ".join(capital(quote) for quote in [*ended, *quotes[-1:]])


def quoted(question: str, record: Record, now: datetime) -> str:
    """A memory as a quotation: when it was said, by whom, and what of it fits the question."""
    day = day_of(as_datetime(record.when).astimezone(now.tzinfo), now)
    if record.layer in FACT_LAYERS:
        fact = Fact.from_record(record)
        return f"{day} I noted: {uncapital(in_a_sentence([fact]))}."
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
    best = max(sentences_of(content), key=lambda sentence: len(wanted & set(terms(sentence))), default=content)
    return shown(best, QUOTE_CHARACTERS)


def excerpt(question: str, content: str, characters: int) -> str:
    """A short text as it is; of a long one, the sentences that have the words of the question, as many as fit.

    >>> excerpt("Where is the key?", "We walked for hours. " * 9 + "The key is under the mat.", 60)
    '… We walked for hours. The key is under the mat.'
    """
    if len(" ".join(content.split())) <= characters:
        return content
    asked = " ".join(word for word in split(question) if word not in STOP_WORDS)
    return trimmed(_LIST_NUMBER.sub("", content), dict.fromkeys(terms(asked), 1.0), characters, len)


def day_of(then: datetime, now: datetime) -> str:
    """A day as people say it."""
    days = (now.date() - then.date()).days
    if days == 0:
        return "earlier today"
    if days == 1:
        return "yesterday"
    return f"on {then:%A} {date_of(then, now)}"


def date_of(moment: datetime, now: datetime) -> str:
    """A date, with the year only if it is another one."""
    year = f" {moment.year}" if moment.year != now.year else ""
    return f"{moment.day} {moment:%B}{year}"


def in_a_sentence(facts: Sequence[Fact]) -> str:
    """Facts of one key as one sentence."""
    return holds(facts[0].key, [value_of(fact) for fact in facts])


def value_of(fact: Fact) -> str:
    """The value of a fact, shortened."""
    return shown(fact.value, QUOTE_CHARACTERS)


def uncapital(text: str) -> str:
    """The text with a small first letter."""
    return text[:1].lower() + text[1:]


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
