"""What was learned from a turn of a conversation, in a few words: "learned: city = Bergen (was Oslo)"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recollect.interfaces.knowing import in_order
from recollect.interfaces.output import one_line
from recollect.policies.graphs import USER
from recollect.policies.keys import PEOPLE
from recollect.profile import Fact, Profile
from recollect.user import User

CHARACTERS = 80
"""Characters of one value. Beside an answer, more would be a second answer."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about a user at one moment, as far as what they say can change it."""

    facts: Sequence[Fact] = ()
    preferences: Sequence[Fact] = ()
    learnings: Sequence[str] = ()
    relations: Sequence[str] = ()

    @classmethod
    async def of(cls, user: User) -> Known:
        """What is known about a user now. Relations of the user are left out, because they are also facts."""
        relations = await user.graph.relations()
        return cls(
            await user.facts.list(),
            await user.preferences.list(),
            [learning.content for learning in await user.learnings.list()],
            [relation.content for relation in relations if relation.names[0] != USER],
        )


def news(before: Known, after: Known) -> list[str]:
    """What is known after but not before, and what is no longer true, a few words for each."""
    return [
        *_changes("learned", before.facts, after.facts),
        *_changes("prefers", before.preferences, after.preferences),
        *(f"noted: {_short(each)}" for each in after.learnings if each not in before.learnings),
        *(f"learned: {_short(each)}" for each in after.relations if each not in before.relations),
    ]


def in_one_line(lines: Iterable[str]) -> str:
    """The news in one line, each verb once.

    >>> in_one_line(["learned: city = Oslo", "met: Ana (sibling)", "learned: age = 31"])
    'learned: city = Oslo, age = 31; met: Ana (sibling)'
    """
    said: dict[str, list[str]] = {}
    for line in lines:
        verb, _, what = line.partition(": ")
        said.setdefault(verb, []).append(what)
    return "; ".join(f"{verb}: {', '.join(each)}" for verb, each in said.items())


def _changes(verb: str, before: Sequence[Fact], after: Sequence[Fact]) -> Iterable[str]:
    gained, lost = _without(after, before), _without(before, after)
    for fact in gained:
        was = ", ".join(_short(each.value) for each in lost if each.key == fact.key)
        replaced = f" (was {was})" if was else ""
        if fact.key in PEOPLE:
            yield f"met: {_short(fact.value)} ({fact.key}){replaced}"
        else:
            yield f"{verb}: {_named(fact)} = {_short(fact.value)}{replaced}"
    replaced_keys = {fact.key for fact in gained}
    yield from (f"no longer: {_named(each)} = {_short(each.value)}" for each in lost if each.key not in replaced_keys)


def _without(some: Sequence[Fact], others: Sequence[Fact]) -> list[Fact]:
    known = {(fact.key, fact.value) for fact in others}
    return [fact for fact in some if (fact.key, fact.value) not in known]


def told(profile: Profile) -> str:
    """A profile in a few lines, each key once."""
    values: dict[str, list[str]] = {}
    for fact in in_order(profile.facts):
        values.setdefault(_named(fact), []).append(_short(fact.value))
    for key, setting in profile.preferences.items():
        chosen = [setting] if isinstance(setting, str) else setting
        values.setdefault(f"prefers {one_line(key, 64)}", []).extend(map(_short, chosen))
    width = max(map(len, values), default=0)
    return "\n".join(f"{key:<{width}}  {', '.join(each)}" for key, each in values.items())


def _named(fact: Fact) -> str:
    return one_line(fact.key.replace("_", " "), 64)


def _short(text: str) -> str:
    return one_line(text, CHARACTERS)
