"""Texts on their way to a model and back: shown as data, and located again where they were said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recollect.enrich.sentences import lowered, spoken
from recollect.policies.fencing import safe, unfenced
from recollect.policies.words import terms
from recollect.records import Record, iso

SHOWN_MAX = 4_000
"""Maximum characters of a message that a model sees: what people say about themselves comes before what they paste."""
QUESTION_CHARACTERS = 24_000
"""Maximum characters of messages in one question: about 6,000 tokens, which even small models can read."""
SPOKEN_SHARE = 0.5
"""Share of a quote that must be the user's own words, not code, a letter or somebody else's sentence."""

_STRAIGHT = str.maketrans("“”„«»", '"""""')


def lines(objects: Iterable[Mapping[str, Any]]) -> str:
    """Objects as JSON, one per line: no text inside can pass for the end of the data."""
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in objects)


def shown(place: int, message: Record) -> dict[str, Any]:
    """A message as a model sees it, under a number instead of its id."""
    text = safe(unfenced(message.content[:SHOWN_MAX]))
    said_by = {"name": safe(str(message.data["name"]))} if message.data.get("name") else {}
    return {"n": place, "role": message.data.get("role"), **said_by, "at": iso(message.when), "text": text}


def at_once(messages: Sequence[Record]) -> list[Record]:
    """As many messages, from the first on, as one question may hold."""
    chosen: list[Record] = []
    room = QUESTION_CHARACTERS
    for message in messages:
        room -= min(len(message.content), SHOWN_MAX)
        if chosen and room < 0:
            break
        chosen.append(message)
    return chosen


def place_of(quote: str, text: str) -> tuple[int, int] | None:
    """The span of a quote in a text, ignoring differences in spaces, case and quotation marks; None if it is absent.

    >>> place_of("i LIVE  in oslo", "Well, I live in Oslo.")
    (6, 20)
    """
    wanted = "".join(character for character, _ in _plain(quote)).strip()
    kept = list(_plain(text))
    start = "".join(character for character, _ in kept).find(wanted) if wanted else -1
    if start < 0:
        return None
    return kept[start][1], kept[start + len(wanted) - 1][1] + 1


def _plain(text: str) -> Iterable[tuple[str, int]]:
    """The characters of a text that count, with their positions: lower case, single spaces, straight quotes."""
    space = True
    for place, character in enumerate(lowered(text).translate(_STRAIGHT)):
        if character.isspace():
            if not space:
                yield " ", place
            space = True
        elif character.isprintable():
            yield character, place
            space = False


def is_own(span: tuple[int, int], text: str) -> bool:
    """Whether these are the user's own words: not in code, in a letter, in quotes or in one of our fences."""
    said = spoken(unfenced(text))[slice(*span)]
    written = sum(not character.isspace() for character in text[slice(*span)])
    own = sum(not character.isspace() and character != "\x00" for character in said)
    return own >= SPOKEN_SHARE * max(written, 1)


def is_told(value: str, *texts: str) -> bool:
    """Whether every word of a value was said, in any form, in any of the texts."""
    said = {term for text in texts for term in terms(text)}
    return all(term in said for term in terms(value)) and bool(value.strip())
