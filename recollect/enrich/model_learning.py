"""Learning with a model: what it sees of a conversation, and which of its findings are believed.

A model proposes, as the rules do, but is trusted less: each finding must be in the user's words, which the model
has to quote, and where the rules have read a value from the same message, theirs stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.enrich import ANSWER_MAX, Draft, Found, by_rules
from recollect.enrich.model_texts import is_own, is_told, lines, place_of, shown
from recollect.layers import FACT_LAYERS, GRAPH_LAYERS
from recollect.models import Ask
from recollect.models.prompts import LEARN, RATING_MAX, SURENESS
from recollect.policies.commands import gives_orders
from recollect.policies.keys import KEYS, PREFERENCES, key_of
from recollect.records import Record

VALUE_CHARACTERS = 200
"""A value is a name or a few words; anything longer is a story."""
LESSON_CHARACTERS = 400
"""The same for a learning, which is a sentence."""
_TOLD_LAYERS = ("fact", "entity", "relation")
"""Layers whose values must be the user's words. Settings and lessons are in the model's own words."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings that are believed, how important each message is, and how many findings were refused."""

    found: tuple[Found, ...] = ()
    ratings: Mapping[str, float] = field(default_factory=dict)
    refused: int = 0


def readable(messages: Sequence[Record]) -> list[Record]:
    """The messages that a model may see: what the user and the assistant say, as far as it is trusted."""
    return [
        message
        for message in messages
        if message.data.get("role") in ("user", "assistant")
        and message.trust == "trusted"
        and message.content.strip()
        and not gives_orders(message.content)
    ]


def question(messages: Sequence[Record]) -> Ask:
    """The question that a model is asked about these messages."""
    data = lines(shown(place, message) for place, message in enumerate(messages, start=1))
    facts = ", ".join(name for name in KEYS if name not in PREFERENCES)
    return LEARN.about(data, facts=facts, preferences=", ".join(name for name in KEYS if name in PREFERENCES))


def findings(answer: Any, messages: Sequence[Record], teaches: Callable[[Record], bool]) -> Findings:
    """What is believed of an answer. Findings about messages that were not shown or may not teach are left out."""
    found: list[Found] = []
    refused = 0
    for finding in answer["findings"]:
        read = _found(finding, messages, teaches)
        if read is None:
            refused += 1
        else:
            found.append(read)
    ratings = {
        messages[each["message"] - 1].id: each["rating"] / RATING_MAX
        for each in answer["ratings"]
        if each["message"] <= len(messages) and messages[each["message"] - 1].data.get("role") == "user"
    }
    return Findings(tuple(found), ratings, refused)


def _found(finding: Mapping[str, Any], messages: Sequence[Record], teaches: Callable[[Record], bool]) -> Found | None:
    place = finding["message"] - 1
    if place >= len(messages) or not teaches(messages[place]):
        return None
    message = messages[place]
    if by_rules.loaded().is_withheld(message.content):
        return None
    span = place_of(finding["quote"], message.content)
    if span is None or not is_own(span, message.content):
        return None
    answered = _answered(messages, place)
    draft = _draft(finding, span)
    if not _is_believable(draft, message.content, answered) or _rules_know(draft, message, answered):
        return None
    return Found(message, draft)


def _answered(messages: Sequence[Record], place: int) -> str:
    """What the assistant said just before."""
    before = messages[place - 1] if place else None
    return before.content if before is not None and before.data.get("role") == "assistant" else ""


def _draft(finding: Mapping[str, Any], span: tuple[int, int]) -> Draft:
    key = finding["key"].strip()
    if finding["layer"] in GRAPH_LAYERS:
        key = re.sub(r"\W+", "_", key.lower()).strip("_")
    change = finding["change"]
    return Draft(
        layer=finding["layer"],
        key=key,
        value=" ".join(finding["value"].split()),
        confidence=SURENESS[finding["sure"]],
        span=span,
        subject=" ".join(finding["subject"].split()) if finding["layer"] == "relation" else "",
        ends=change == "ended",
        corrects=change == "corrects" and finding["layer"] in FACT_LAYERS,
    )


def _is_believable(draft: Draft, text: str, answered: str) -> bool:
    """Whether the draft says something, briefly, and in words that were said."""
    longest = LESSON_CHARACTERS if draft.layer == "learning" else VALUE_CHARACTERS
    if not draft.key or not draft.value or len(draft.value) > longest:
        return False
    if draft.layer not in _TOLD_LAYERS:
        return True
    # "Yes." takes its meaning from what was asked; a longer text speaks for itself.
    heard = (text, answered) if len(text) <= ANSWER_MAX else (text,)
    return is_told(draft.value, *heard) and (not draft.subject or is_told(draft.subject, *heard))


def _rules_know(draft: Draft, message: Record, answered: str) -> bool:
    """Whether the rules, which are seldom wrong, have read a value for this key from the same message."""
    if draft.layer not in FACT_LAYERS or key_of(draft.key).many:
        return False
    read = by_rules.loaded().read(message.content, message.when, answered=answered)
    return any(each.layer == draft.layer and key_of(each.key) == key_of(draft.key) for each in read)
