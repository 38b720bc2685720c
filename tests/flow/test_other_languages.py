"""What the language setting is worth: talks with an assistant in seven languages, with questions in other words.

The talks were written for this, in the format of `recollect bench --data`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect import Memory
from recollect.interfaces.quality import Ours, read_cases

TALKS = Path(__file__).parent.parent / "languages"


async def found_at(code: str, language: str, embedder: str) -> tuple[int, int]:
    """How many questions find the turn that answers them at the first place, and among the first five."""
    (case,) = read_cases(TALKS / f"{code}.jsonl")
    async with Memory.open("memory://", embedder=embedder, language=language, worker=False, learn=False) as memory:
        ours = Ours("ours", memory)
        await ours.tell(case.conversation)
        hits = [(await ours.find(question, 5), question.evidence) for question in case.questions]
    return sum(bool(first) and first[0] in right for first, right in hits), sum(
        not right.isdisjoint(first) for first, right in hits
    )


@pytest.mark.parametrize("embedder", ["static", "none"])
@pytest.mark.parametrize("code", ["de", "es", "fr", "it", "nl", "pt", "ru"])
async def test_the_language_of_a_talk_finds_more_in_it_than_no_language_and_than_english(code, embedder):
    first, among_five = await found_at(code, code, embedder)
    for other in ("none", "en"):
        first_otherwise, among_five_otherwise = await found_at(code, other, embedder)
        assert first > first_otherwise
        assert among_five >= among_five_otherwise or (other, embedder) == ("en", "none")


@pytest.mark.parametrize("code", ["de", "es", "fr", "it", "nl", "pt", "ru"])
def test_a_talk_is_long_enough_and_has_enough_questions(code):
    (case,) = read_cases(TALKS / f"{code}.jsonl")
    assert len(case.conversation.turns) >= 60 and len(case.questions) >= 25
    assert len({turn.session for turn in case.conversation.turns}) >= 5


async def test_a_question_in_another_language_finds_what_was_said_at_the_time_it_names(open_memory):
    ann = (await open_memory(language="de", embedder="none")).user("ann")
    reise = ann.session("reise")
    await reise.add_message("user", "Wir waren im Museum in Basel.", created_at="2023-03-05T10:00:00Z")
    await reise.add_message("user", "Wir waren im Museum in Bern.", created_at="2023-06-05T10:00:00Z")
    for asked, city in (("Welches Museum war das im März 2023?", "Basel"), ("In welchem Museum im Juni 2023?", "Bern")):
        hit, *_ = await ann.search_memory(asked)
        assert city in hit.content and hit.legs["time"].share > 0


async def test_german_can_be_asked_for_by_name_and_by_region(open_memory):
    for language in ("german", "de-AT", "DE"):
        ann = (await open_memory("memory://", language=language)).user("ann")
        await ann.add_memory("Unsere Häuser stehen in Graz.")
        (hit,) = await ann.search_memory("Wo steht das Haus?", limit=1)
        assert hit.legs["words"].share > 0
