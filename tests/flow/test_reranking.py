"""Reranking: on request it puts the first hits in a better order; if missing or broken, search answers as before."""

from __future__ import annotations

import asyncio
import logging
import threading

import numpy as np
import pytest

from recollect.errors import ValidationError
from recollect.policies.passages import BEFORE_WORDS, WORDS_MAX, passage, stretch
from recollect.reranking import CANDIDATES, SURROUNDED, open_reranker
from recollect.testing.fakes import FailingReranker, WordReranker

CATS = ["The cat sleeps on the mat.", "A cat is a cat is a cat.", "The neighbour's cat ran off.", "Cat food is dear."]


async def contents(user, query, **how):
    return [hit.content for hit in await user.search_memory(query, **how)]


async def told(memory):
    ann = memory.user("ann")
    await ann.add_memories([*CATS, "Dogs bark at night."])
    await memory.work()
    return ann


async def test_the_reranker_decides_among_the_first_hits(open_memory):
    ann = await told(await open_memory(reranker=WordReranker({"dear": 9.0})))
    assert (await contents(ann, "Which cat?"))[0] != "Cat food is dear."
    best = await ann.search_memory("Which cat?", quality="best")
    assert best[0].content == "Cat food is dear."
    assert [hit.place for hit in best] == [1, 2, 3, 4, 5]
    assert [hit.score for hit in best] == sorted((hit.score for hit in best), reverse=True)


@pytest.mark.parametrize(("weight", "is_first"), [(0.0, False), (3.0, True)])
async def test_a_reranker_may_set_its_own_weight(open_memory, weight, is_first):
    reranker = WordReranker({"dear": 9.0})
    reranker.weight = weight
    ann = await told(await open_memory(reranker=reranker))
    assert ((await contents(ann, "Which cat?", quality="best"))[0] == "Cat food is dear.") is is_first


async def test_a_hit_says_what_the_reranker_added(open_memory):
    ann = await told(await open_memory(reranker=WordReranker({"dear": 9.0})))
    first = (await ann.search_memory("Which cat?", quality="best"))[0]
    assert first.legs["reranker"].share > 0
    assert first.score == pytest.approx(sum(leg.share for leg in first.legs.values()), abs=1e-4)
    assert "reranker" in first.explain()
    assert "reranker" not in (await ann.search_memory("Which cat?"))[0].legs


async def test_a_reranker_that_gives_odds_influences_whether_there_is_an_answer(open_memory):
    def asked(**how):
        return ann.get_context("Which cat?", layers=["long_term"], **how)

    doubting, sure, ordering = (WordReranker() for _ in range(3))
    doubting.odds, sure.odds = -50.0, 50.0
    likely = {}
    for reranker in (doubting, sure, ordering):
        ann = await told(await open_memory("memory://", reranker=reranker))
        fast, likely[reranker] = (await asked()).answerable, (await asked(quality="best")).answerable
    assert likely[doubting] < fast < 0.99 < likely[sure]
    assert likely[ordering] == fast, "scores that only order say nothing about it"


async def test_a_setting_turns_it_on_and_a_call_turns_it_off(open_memory):
    ann = await told(await open_memory(reranker=WordReranker({"dear": 9.0}), quality="best"))
    assert (await contents(ann, "Which cat?"))[0] == "Cat food is dear."
    assert (await contents(ann, "Which cat?", quality="fast"))[0] != "Cat food is dear."


async def test_a_context_uses_it_too(open_memory):
    ann = await told(await open_memory(reranker=WordReranker({"dear": 9.0})))
    assert (await ann.get_context("Which cat?", quality="best")).hits[0].content == "Cat food is dear."


class Slow(WordReranker):
    """Keeps reading until told to stop."""

    def __init__(self):
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def score(self, question, passages):
        self.begun.set()
        assert self.may_end.wait(30)
        return super().score(question, passages)

    async def meanwhile(self, asking, done):
        """Answer only after something else has been done."""
        task = asyncio.create_task(asking)
        await asyncio.to_thread(self.begun.wait, 30)
        await done
        self.may_end.set()
        return await task


async def test_the_profile_of_a_user_erased_during_reranking_is_not_shown(open_memory):
    slow = Slow()
    ann = await told(await open_memory(reranker=slow))
    await ann.add_fact("city", "Oslo")
    layers = ["long_term", "fact"]
    assert "Oslo" in (await ann.get_context("Which cat?", layers=layers)).system
    context = await slow.meanwhile(ann.get_context("Which cat?", layers=layers, quality="best"), ann.erase())
    assert "Oslo" not in context.system and not context.hits


async def test_a_memory_forgotten_during_reranking_is_not_found(open_memory):
    slow = Slow()
    ann = await told(await open_memory(reranker=slow))
    (gone,) = await ann.search_memory("food", limit=1)
    found = await slow.meanwhile(ann.search_memory("Which cat?", quality="best"), ann.forget(gone.id))
    assert {hit.content for hit in found} == {*CATS, "Dogs bark at night."} - {gone.content}
    assert [hit.place for hit in found] == [1, 2, 3, 4]


async def test_filters_and_layers_apply_to_reranking(open_memory):
    reranker = WordReranker()
    ann = await told(await open_memory(reranker=reranker))
    await ann.session("s").add_message("user", "My cat is called Miso.")
    assert await contents(ann, "cat", layer="conversation", quality="best") == ["My cat is called Miso."]
    assert await contents(ann, "cat", where={"metadata.colour": "red"}, quality="best") == []


async def test_no_more_is_read_than_there_is_time_for(open_memory):
    reranker = WordReranker()
    memory = await open_memory(reranker=reranker)
    ann = memory.user("ann")
    for start in range(0, 180, 90):
        await ann.add_memories([f"Kite number {start + n} flew " + "very " * 70 + "high." for n in range(90)])
    hits = await ann.search_memory("kite", limit=100, quality="best")
    assert len(hits) == 100
    assert len(reranker.read) < CANDIDATES
    assert all(len(text.split()) <= WORDS_MAX for text in reranker.read)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_the_first_hits_are_read_with_their_surroundings_and_the_others_alone(open_memory):
    reranker = WordReranker()
    memory = await open_memory(reranker=reranker)
    chat = memory.user("ann").session("s")
    await chat.add_messages([{"role": "user", "content": f"Kite number {number} flew."} for number in range(60)])
    await memory.user("ann").search_memory("kite", limit=60, quality="best")
    assert len(reranker.read) == 60
    assert all(" | " in text for text in reranker.read[:SURROUNDED])
    assert not any(" | " in text for text in reranker.read[SURROUNDED:])


@pytest.mark.parametrize("answer", [None, np.ones(2, np.float32), np.full(5, np.nan, np.float32), "nonsense"])
async def test_a_failing_reranker_keeps_the_fast_order(open_memory, caplog, answer):
    ann = await told(await open_memory(reranker=FailingReranker(answer)))
    with caplog.at_level(logging.WARNING):
        assert await contents(ann, "Which cat?", quality="best") == await contents(ann, "Which cat?")
    assert "reranker failed" in caplog.text
    assert "cat" not in caplog.text.lower()


async def test_a_reranker_that_fails_is_logged_once_for_each_failure_until_it_works_again(open_memory, caplog):
    class Moody(WordReranker):
        mood: Exception | None = None

        def score(self, question, passages):
            if self.mood is not None:
                raise self.mood
            return super().score(question, passages)

    reranker = Moody()
    ann = await told(await open_memory(reranker=reranker))
    logged = []
    for mood in (MemoryError(), MemoryError(), OSError(), MemoryError(), None, MemoryError(), MemoryError()):
        reranker.mood = mood
        caplog.clear()
        await contents(ann, "Which cat?", quality="best")
        logged.append("reranker failed" in caplog.text)
    assert logged == [True, False, True, False, False, True, False]


async def test_an_unknown_quality_is_refused(memory):
    with pytest.raises(ValidationError, match="quality"):
        await memory.user("ann").search_memory("cat", quality="perfect")


def test_a_reranker_that_cannot_be_opened_is_reported_and_skipped(caplog):
    with caplog.at_level(logging.WARNING):
        assert open_reranker("enormous") is None
    assert "answering as quality='fast'" in caplog.text or "Answering as 'fast'" in caplog.text


def test_of_a_long_turn_only_the_relevant_stretch_is_read():
    text = "We talked about the weather. " * 40 + "My sister Ana bought a red canoe in Bergen. " + "And so on. " * 60
    cut = stretch(text, ["canoe", "red"])
    assert "red canoe in Bergen" in cut
    assert len(cut.split()) <= WORDS_MAX


def test_a_passage_names_the_speaker_and_includes_its_surroundings():
    before = "so " * 50 + "where do you live?"
    read = passage("Ann", "In Oslo.", before, "Nice place.")
    assert read.startswith("Ann: In Oslo. | so ")
    assert "where do you live? | Nice place." in read
    assert len(read.split(" | ")[1].split()) == BEFORE_WORDS
    assert passage("", "A note.", "", "") == "A note."
