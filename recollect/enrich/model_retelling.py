"""Summaries and episodes in a model's words: what it sees, and what is kept of its answer.

A model's text replaces what the rules wrote, which stands until then. A model may shorten, not invent: names and
dates that nobody said are left out, and an answer in quite different words is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recollect.enrich.episodes import LISTED_MAX, TITLE_MAX
from recollect.enrich.model_texts import is_told, lines, shown
from recollect.errors import ModelError
from recollect.models import Ask
from recollect.models.prompts import RETELL, SUMMARIZE
from recollect.policies.tokens import TokenCounter
from recollect.policies.words import query_terms
from recollect.records import Record

WORDS_PER_TOKEN = 0.7
"""English words per token, roughly: models count words better than tokens."""
TOLD_SHARE = 0.4
"""Share of a retelling's words that must have been said: a summary is shorter, not another story."""
EPISODE_CHARACTERS = 1_200
"""Maximum characters in the text of an episode: about the 120 words that are asked for, with some leeway."""


def heard(messages: Iterable[Record]) -> list[Record]:
    """The messages to be retold: what the user and the assistant said, unless it is quarantined."""
    return [each for each in messages if each.data.get("role") in ("user", "assistant") and each.trust != "quarantined"]


def summary_question(previous: str, messages: Sequence[Record], tokens_max: int) -> Ask:
    """The question that asks a model to fold these messages into the summary so far."""
    data = lines([{"summary": previous}, *(shown(place, each) for place, each in enumerate(messages, start=1))])
    return SUMMARIZE.about(data, words=str(int(tokens_max * WORDS_PER_TOKEN)))


def summary_of(
    answer: Mapping[str, Any], previous: str, messages: Sequence[Record], tokens_max: int, count: TokenCounter
) -> str:
    """The summary in an answer: grounded in what was said, and within its budget by dropping whole sentences."""
    text = _grounded(answer["summary"], [previous, *(each.content for each in messages)])
    while count(text) > tokens_max:
        shorter = text.rpartition(". ")[0]
        text = f"{shorter}." if shorter else text[: len(text) * tokens_max // count(text)]
    return text


def episode_question(messages: Sequence[Record]) -> Ask:
    """The question that asks a model for notes of a stretch of conversation."""
    return RETELL.about(lines(shown(place, message) for place, message in enumerate(messages, start=1)))


def episode_of(answer: Mapping[str, Any], messages: Sequence[Record]) -> tuple[str, dict[str, Any]]:
    """The text of an episode, with its title and lists, without entries that nobody said."""
    said = " ".join(message.content for message in messages)
    lists = {
        name: [" ".join(each.split()) for each in answer[name] if is_told(each, said)][:LISTED_MAX]
        for name in ("people", "dates")
    }
    lists |= {
        name: [" ".join(each.split()) for each in answer[name] if _share_told(each, [said]) >= TOLD_SHARE][:LISTED_MAX]
        for name in ("decisions", "open_questions")
    }
    title = " ".join(answer["title"].split())[:TITLE_MAX]
    if not title:
        raise ModelError("The model's answer has no title. The version made by the rules is kept.")
    return _grounded(answer["text"], [said])[:EPISODE_CHARACTERS], {"title": title, **lists}


def _grounded(text: str, sources: Sequence[str]) -> str:
    """The text, if it is grounded in what was said."""
    plain = "\n".join(line.strip() for line in text.splitlines() if line.strip())
    if not plain or _share_told(plain, sources) < TOLD_SHARE:
        raise ModelError("The model's answer says something that was not said. The version made by the rules is kept.")
    return plain


def _share_told(text: str, sources: Sequence[str]) -> float:
    told, said = set(query_terms(text)), {term for source in sources for term in query_terms(source)}
    return len(told & said) / len(told) if told else 0.0
