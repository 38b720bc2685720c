"""What a claim about a fact brings with it for other keys: what it leaves behind ends, and a denial takes that back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from recollect.policies.facts import TO_BE_FORGOTTEN, Claim
from recollect.policies.keys import AT_ODDS, FOLLOWERS, OPPOSITES, Key, is_without_work, key_of, same_value
from recollect.policies.spells import Telling, ended_by, has_value
from recollect.records import Record, Source

HeadsOf = Callable[[Key], Awaitable[Sequence[Record]]]
"""Reads the heads of a key."""


async def outdated(row: Sequence[Claim], all_rows: Sequence[Sequence[Claim]], heads_of: HeadsOf) -> list[Claim]:
    """Claims that end what a new value leaves behind: someone who likes something no longer dislikes it.

    Moving to another city ends the old region, unless it is stated again. Being out of work ends the employer.
    """
    ends: list[Claim] = []
    for claim in row:
        if brings_back(claim):
            ends += await resumed(claim, await heads_of(claim.key), heads_of)
        if claim.kind != "says":
            continue
        over = replace(claim, kind="ends", valid_from=claim.at, valid_to=claim.at)
        ends += [replace(over, key=key_of(name)) for name in OPPOSITES.get(claim.key.name, ())]
        follow = FOLLOWERS.get(claim.key.name, ())
        heads = await heads_of(claim.key) if follow else ()
        if heads and not same_value(heads[0].data["value"], claim.value):
            said = {each.key.name for other in all_rows for each in other if each.text == claim.text}
            over = replace(claim, value="", kind="ends", valid_from=None, valid_to=claim.since, reason="moved")
            ends += [replace(over, key=key_of(name)) for name in follow if name not in said]
        ends += await _at_odds(claim, all_rows, heads_of)
    return ends


async def resumed(denial: Claim, heads: Sequence[Record], heads_of: HeadsOf) -> list[Claim]:
    """Claims that bring back what a denied value had ended (`outdated`): it ended for no reason."""
    name = denial.key.name
    keys = (*FOLLOWERS.get(name, ()), *OPPOSITES.get(name, ()), *((AT_ODDS[name],) if name in AT_ODDS else ()))
    denied = [head for head in heads if keys and has_value(head, denial.value)]
    messages = {Telling(*each).message for head in denied for each in head.data["tellings"]} - {None}
    return [
        replace(denial, key=key, value=head.data["value"], kind="resumes", source=Source(message), reason="")
        for key in map(key_of, keys)
        for head in (await heads_of(key) if messages else ())
        for message in ended_by(head)
        if message in messages and (not key.many or has_value(head, denial.value))
    ]


async def _at_odds(claim: Claim, all_rows: Sequence[Sequence[Claim]], heads_of: HeadsOf) -> list[Claim]:
    """Claims that end the employer of someone now out of work, or that status once they have an employer.

    None if one text states both.
    """
    name, other = claim.key.name, AT_ODDS.get(claim.key.name)
    if other is None or (name == "occupation" and not is_without_work(claim.value)):
        return []
    if any(each.key.name == other and each.text == claim.text for row in all_rows for each in row):
        return []
    key = key_of(other)
    over = replace(claim, key=key, kind="ends", valid_from=None, valid_to=claim.since)
    return [
        replace(over, value=head.data["value"])
        for head in await heads_of(key)
        if name == "occupation" or is_without_work(head.data["value"])
    ]


def brings_back(claim: Claim) -> bool:
    """Whether what a value had ended holds again: that value was never true, and not merely to be forgotten."""
    return claim.kind == "denies" and claim.reason != TO_BE_FORGOTTEN
