"""Ranking is the same code with the same result on every store: same questions, same ids, same order."""

from __future__ import annotations

import pytest

from recollect import Memory
from recollect.testing.fakes import ManualClock
from recollect.testing.stores import KINDS, fresh_url

TALK = (
    ("user", "We moved to Bergen in March because of my new job at the harbour."),
    ("assistant", "How do you like the rain there?"),
    ("user", "I like it, but my sister Ida says she would never live so far west."),
    ("user", "My daughter started to play the violin, she practises every Tuesday."),
    ("assistant", "Which pieces does she play?"),
    ("user", "Mostly folk tunes. The teacher is strict about scales."),
    ("user", "I am allergic to peanuts, so no satay for me please."),
    ("user", "We will visit my parents in Trondheim at Christmas, by train."),
    ("assistant", "The night train leaves at eleven."),
    ("user", "The dentist wants to see me again on the 14th."),
)
NOTES = (
    "Ann keeps her passport in the desk drawer.",
    "The code of the bicycle lock hangs in the hall.",
    "Ann's favourite author is Tove Jansson.",
    "The boiler was repaired in May and has two years of warranty.",
    "Ann wants to learn Portuguese before the summer.",
    "The neighbour waters the plants when they travel.",
)
QUESTIONS = (
    "Where do they live?", "What does the daughter play, and when?", "Which food is dangerous for her?",
    "How do they travel to the parents?", "What did the sister say about the west?", "Where is the passport?",
    "When was the boiler repaired?", "Who looks after the plants?", "Which language does she want to learn?",
    "When is the dentist?", "books by Jansson", "rain",
)  # fmt: skip


async def answers(kind):
    with fresh_url(kind) as url:
        async with Memory.open(url, clock=ManualClock(), worker=False) as memory:
            ann = memory.user("ann")
            items = [{"role": role, "content": text, "id": f"t{n}"} for n, (role, text) in enumerate(TALK)]
            await ann.session("s").add_messages(items)
            await ann.add_memories([{"content": text, "id": f"n{n}"} for n, text in enumerate(NOTES)])
            await memory.work()
            found = [await ann.search_memory(question, limit=10) for question in QUESTIONS]
            context = await ann.session("s").get_context("Where do they live?", max_tokens=600)
            return [[(hit.id, round(hit.score, 5)) for hit in hits] for hits in found], context.system


@pytest.fixture(scope="module")
def model():
    """What the in-memory store answers, asked once."""
    return {}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in KINDS])
async def test_every_store_gives_the_same_answers_in_the_same_order(kind, model):
    if not model:
        model["hits"], model["context"] = await answers("memory")
    hits, context = await answers(kind)
    assert len(hits) == len(QUESTIONS)
    assert all(hits)
    assert hits == model["hits"]
    assert context == model["context"]
