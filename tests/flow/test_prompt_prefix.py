"""A model's prompt begins the same from turn to turn, so that providers can cache it."""

from __future__ import annotations

import json
from itertools import pairwise, takewhile

import pytest

PERSON = ["I live in Oslo.", "I work at Contoso as a nurse.", "Please answer in short sentences from now on."]
TURNS = [
    f"{what} number {n}: what do you think of {colour} curtains for it?"
    for n, (what, colour) in enumerate(
        zip(["Room", "Office", "Cabin", "Hall"] * 5, ["red", "blue", "green", "white", "grey"] * 4, strict=True)
    )
]


def given(context) -> str:
    return json.dumps(context.to_openai(), ensure_ascii=False)


def common(one: str, other: str) -> int:
    """The length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


async def talked(memory, clock, turns, max_tokens):
    """The prompt of each turn, and how much of it was the same as in the turn before."""
    chat = memory.user("ann").session("monday", agent="helper")
    await memory.user("ann").customize("Call me Annie.", agent="helper")
    for text in PERSON:
        await memory.user("ann").session("sunday").add_interaction(text, "I see.")
    await memory.work()
    prompts = []
    for turn in turns:
        prompts.append(given(await chat.get_context(turn, max_tokens=max_tokens)))
        await chat.add_interaction(turn, "They would look good, if there is enough light in it.")
        await memory.work()
        clock.advance(minutes=1)
    return prompts, [common(*pair) for pair in pairwise(prompts)]


@pytest.mark.parametrize("max_tokens", [1_500, 4_000])
async def test_what_seldom_changes_comes_first_and_in_the_same_words(open_memory, clock, max_tokens):
    memory = await open_memory("memory://")
    prompts, same = await talked(memory, clock, TURNS, max_tokens)
    ends = [prompt.index(" at Contoso") for prompt in prompts]
    assert len(set(ends)) == 1 and min(same) > ends[0]
    assert all(text in prompts[0][: ends[0]] for text in ("Annie", "Oslo", "nurse"))


async def test_most_of_a_prompt_is_the_same_as_in_the_turn_before(open_memory, clock):
    memory = await open_memory("memory://")
    prompts, same = await talked(memory, clock, TURNS, 4_000)
    shares = [length / len(prompt) for length, prompt in zip(same, prompts, strict=False)]
    assert len(shares) == 19 and sum(shares) / len(shares) > 0.6
