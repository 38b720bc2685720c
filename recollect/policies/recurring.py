"""What comes up again and again: topics of several episodes, told in the words that were said each time.

Precision first. A topic counts when the user came back to it on three different days, and when what
they said about it can be quoted from two of them. People seldom make a thing a main topic under the same
name each time, so a topic of several words ("food bank", "bike ride") also comes up where they mention it
in passing; a single word does not, because "trip" and "city" come up everywhere. Nothing is inferred from
it: a memory of this kind has the topic, the days, and the user's own sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from recollect.policies.patterns import pattern_of
from recollect.policies.words import terms
from recollect.records import Record, Scope, Source, as_datetime, derived_id

EXTRACTOR = "recurring-1"
"""Stored with every memory of this kind, so that those made by older rules can be recognised."""
DAYS_MIN = 3
"""Days on which a topic has to come up. Twice may be chance, and one long evening is one occasion."""
QUOTES_MIN, QUOTES_MAX = 2, 3
"""Minimum and maximum sentences quoted, each from another episode: with fewer, nothing is told."""
EPISODES_MAX = 40
"""Maximum episodes that one memory rests on, the newest: all are marked in the commit that writes it."""
ALIKE = 0.6
"""A quotation that shares this part of its words with a newer one merely repeats it."""
RESTS_ON = "rests_on"
"""In the data of such a memory: the episodes that it was made from. All such memories are also looked up by this."""
SAID_IN = "messages"
"""In the data of such a memory: the messages that those episodes covered. It outlives the episodes: these expire, and
are made again under other ids."""
KEPT = ("usage_count", "last_used", "pinned")
"""What else is kept of it when it is rewritten."""
TOLD_IN = "told_in"
"""In the data of an episode: by topic, the memory that it went into. Each goes in once."""

_EVERYWHERE = (
    "social media", "daily routine", "stay organized", "good idea", "next step", "more information", "best way",
    "long time", "next week", "free time", "day trip", "step guide", "local area", "new things", "other options",
)  # fmt: skip
"""Phrases that belong to any conversation: mentioned in passing, they are not a topic."""
_SECTION = pattern_of(r"^(?:Said|Decided): (.*)$", re.M)
_QUOTATION = pattern_of("“([^”]+)”")


@dataclass(frozen=True, slots=True)
class Recurring:
    """A topic that recurs: its memory, and the episodes that the memory rests on, to be marked with it."""

    memory: Record
    episodes: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """What the user says in an episode: every quotation with its stems, and the topics as `keys_of` returns them."""

    quotes: tuple[tuple[str, frozenset[str]], ...]
    keys: Mapping[str, str]


class Sayings:
    """What is said in each episode, read once."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], Said] = {}

    def of(self, episode: Record) -> Said:
        known = self._said.get((episode.id, episode.content))
        if known is None:
            known = Said(tuple((quote, frozenset(terms(quote))) for quote in _of_user(episode)), keys_of(episode))
            self._said[episode.id, episode.content] = known
        return known


@cache
def _everywhere() -> frozenset[str]:
    return frozenset(" ".join(terms(words)) for words in _EVERYWHERE)


def memory_id(key: str) -> str:
    """The id of the memory of a topic."""
    return derived_id("recurring", key)


def keys_of(episode: Record) -> dict[str, str]:
    """The topics of an episode and the people in it: their stems, and how they were said."""
    said = (*texts_in(episode.data.get("topics")), *texts_in(episode.data.get("people")))
    return {key: name for name in said if (key := " ".join(terms(name)))}


def recurring(
    episodes: Sequence[Record], known: Mapping[str, Record], scope: Scope, now: int, sayings: Sayings
) -> list[Recurring]:
    """What has come up often enough by now, in trusted episodes; `known` are the living memories of this kind.

    A memory that was forgotten does not come back: the episodes that it was made from stay marked.
    """
    by_key = _by_key([each for each in episodes if each.trust == "trusted"], sayings)
    found: list[Recurring] = []
    told: dict[str, list[set[str]]] = {}
    for key in sorted(by_key, key=lambda key: (-len(key.split()), -len(by_key[key]), key)):
        held = known.get(memory_id(key))
        fresh = [each for each in by_key[key] if key not in told_in(each)]
        of_it = by_key[key] if held else fresh
        stems, ids = set(key.split()), {each.id for each in of_it or by_key[key]}
        # "Blue oven" already covers the oven, where both come up on the same occasions.
        if any(ids <= theirs for stem in stems for theirs in told.get(stem, ())):
            continue
        stays = held is not None and is_edited(held)
        memory = retold(key, of_it, held, scope, now, sayings) if fresh and not stays else None
        if memory is not None or not fresh or stays:
            for stem in stems:
                told.setdefault(stem, []).append(ids)
        if memory is not None:
            kept = {*memory.data[RESTS_ON]}
            found.append(Recurring(memory, tuple(each for each in of_it if each.id in kept)))
    return found


def _by_key(episodes: Sequence[Record], sayings: Sayings) -> dict[str, list[Record]]:
    """Every topic, with the episodes in which it comes up, in chronological order."""
    ordered = sorted(episodes, key=lambda each: (each.when, each.id))
    places: dict[str, set[int]] = {}
    said: dict[str, set[int]] = {}
    words = [[stems for _, stems in sayings.of(episode).quotes] for episode in ordered]
    for place, episode in enumerate(ordered):
        for key in sayings.of(episode).keys:
            places.setdefault(key, set()).add(place)
        for stem in set().union(*words[place]):
            said.setdefault(stem, set()).add(place)
    for key, of_it in places.items():
        stems = set(key.split())
        if len(stems) > 1 and key not in _everywhere():
            near = set.intersection(*(said.get(stem, set()) for stem in stems))
            of_it |= {place for place in near if any(stems <= quote for quote in words[place])}
    return {key: [ordered[place] for place in sorted(of_it)] for key, of_it in places.items()}


def retold(
    key: str, episodes: Sequence[Record], held: Record | None, scope: Scope, now: int, sayings: Sayings
) -> Record | None:
    """The memory of a topic from these episodes, replacing the one that is held; None if they are too few."""
    used = sorted(episodes, key=lambda each: (each.when, each.id))[-EPISODES_MAX:]
    quotes = _quotes(key, used, sayings)
    if len({as_datetime(each.when).date() for each in used}) < DAYS_MIN or len(quotes) < QUOTES_MIN:
        return None
    name = next((named for each in reversed(used) if (named := sayings.of(each).keys.get(key))), key)
    lines = [f"The user came back to {name} {len(used)} times between {_day(used[0])} and {_day(used[-1])}."]
    lines += [f"On {_day(episode)}: “{quote}”" for episode, quote in quotes]
    said_in = dict.fromkeys(id for each in used for id in texts_in(each.data.get("messages")))
    data = {"topic": key, RESTS_ON: [each.id for each in used], SAID_IN: [*said_in], "rated": True}
    return Record(
        id=memory_id(key),
        layer="long_term",
        scope=scope,
        content=" ".join(lines),
        data=data | {name: held.data[name] for name in KEPT if held is not None and name in held.data},
        importance=max(each.importance for each in used),
        # Each further occasion halves the doubt that it means something.
        confidence=round(1 - 0.5 ** (len(used) - 1), 4),
        created_at=now if held is None else held.created_at,
        event_at=used[-1].when,
        source=Source(extractor=EXTRACTOR),
        version=0 if held is None else held.version,
    )


def told_in(episode: Record) -> dict[str, str]:
    """By topic, the memories that an episode went into."""
    value = episode.data.get(TOLD_IN)
    return {key: id for key, id in value.items() if isinstance(id, str)} if isinstance(value, dict) else {}


def is_edited(memory: Record) -> bool:
    """Whether somebody put it in their own words: it stays as they wrote it."""
    return "edits" in memory.data


def told_from(memory: Record) -> tuple[str, ...]:
    """The episodes that a memory of what recurs was made from, and their messages. An import may only look like one."""
    if memory.layer != "long_term" or not isinstance(memory.data.get("topic"), str):
        return ()
    return tuple(id for name in (RESTS_ON, SAID_IN) for id in texts_in(memory.data.get(name)))


def marked(episode: Record, key: str) -> Record:
    """The episode, marked as having gone into the memory of a topic."""
    return episode.with_(data={**episode.data, TOLD_IN: told_in(episode) | {key: memory_id(key)}})


def _quotes(key: str, episodes: Iterable[Record], sayings: Sayings) -> list[tuple[Record, str]]:
    """What the user said about the topic, one sentence per episode, the newest first."""
    found: list[tuple[Record, str]] = []
    seen: list[frozenset[str]] = []
    for episode in reversed([*episodes]):
        for quote, words in sayings.of(episode).quotes:
            fits = words.issuperset(key.split()) and not quote.endswith("?")
            if fits and all(len(words & others) < ALIKE * len(words) for others in seen):
                found.append((episode, quote))
                seen.append(words)
                break
    return found[:QUOTES_MAX]


def _of_user(episode: Record) -> list[str]:
    return [quote for section in _SECTION.findall(episode.content) for quote in _QUOTATION.findall(section)]


def _day(episode: Record) -> str:
    day = as_datetime(episode.when)
    return f"{day.day} {day:%B} {day.year}"


def texts_in(value: Any) -> tuple[str, ...]:
    """A list of texts; anything else an import may have brought counts as empty."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
