"""One event loop serves many users: a call on much or hostile data lets other tasks run in between."""

from __future__ import annotations

import asyncio
import random
import threading
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recollect import Memory, consolidation, privacy, providers, reranking, sections
from recollect.index import PartitionIndex
from recollect.pace import PORTION, Pace, apart
from recollect.policies.graph_views import Web
from recollect.policies.trimming import sentences
from recollect.providers import StaticEmbedder
from recollect.records import Partition
from recollect.testing.fakes import WordReranker
from recollect.uptake import LONG_ASCII, LONG_CHARACTERS, READ_CHARACTERS, READ_ROWS
from recollect.user import User
from recollect.vocabulary import Vocabulary

pytestmark = pytest.mark.parametrize("store_name", ["memory"])  # it never yields by itself
ANN = Partition("default", "ann")
LONG, TEXTS = 20_000, 24
dice = random.Random(7)


def made_up(size: int = 8) -> str:
    return "".join(dice.choices("abcdefghijklmnoprstuvwy", k=size))


def hostile(number: int) -> str:
    """A text that is slow to read: thousands of words that occur nowhere else."""
    words = " ".join(made_up() for _ in range(LONG // 9))
    return f"The boat number {number}. {words}"


async def turns_of_others(call: Awaitable[Any]) -> int:
    """How often another task runs while a call is under way."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    await call
    waiting.cancel()
    return turns


async def most_in_a_row(call: Awaitable[Any], monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> int:
    """How often a function of a module or class is called at most before another task runs."""
    function, row, rows = getattr(owner, name), 0, [0]

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal row
        row += 1
        rows.append(row)
        return function(*given, **more)

    async def others() -> None:
        nonlocal row
        while True:
            row = 0
            await asyncio.sleep(0)

    monkeypatch.setattr(owner, name, counted)
    waiting = asyncio.create_task(others())
    await call
    waiting.cancel()
    return max(rows)


async def with_long_memories(memory: Memory) -> User:
    ann = memory.user("ann")
    for start in range(0, TEXTS, 4):
        await ann.add_memories([hostile(number) for number in range(start, start + 4)])
    await memory.work()
    return ann


@pytest.fixture
async def memory(open_memory: Callable[..., Awaitable[Memory]]) -> Memory:
    return await open_memory()


async def test_a_few_long_texts_are_read_in_as_many_portions_as_many_short_ones(memory, monkeypatch):
    ann = await with_long_memories(memory)
    memory._flow.indexes.drop(ANN)
    read, portions = Vocabulary.read, []

    def counted(vocabulary: Vocabulary, texts: Any) -> Any:
        portions.append(sum(map(len, texts)))
        return read(vocabulary, texts)

    monkeypatch.setattr(Vocabulary, "read", counted)
    turns = await turns_of_others(ann.search_memory("Which boat is number 7?"))
    assert TEXTS < READ_ROWS
    assert max(portions) <= READ_CHARACTERS
    assert turns >= len(portions) >= TEXTS * LONG // READ_CHARACTERS


async def test_a_long_text_is_cut_into_words_in_a_thread_and_a_usual_one_at_once(memory, monkeypatch):
    here, cut, readers = threading.get_ident(), Vocabulary.cut, {}

    def noted(vocabulary: Vocabulary, text: str) -> list[str]:
        readers[text] = threading.get_ident()
        return cut(vocabulary, text)

    monkeypatch.setattr(Vocabulary, "cut", noted)
    usual, long, dense = f"A boat. {'It is red. ' * 1_000}", hostile(7), "一艘船" * (LONG_CHARACTERS // 3) + " boat"
    assert LONG_CHARACTERS < len(usual) < LONG_ASCII <= len(long)
    for number, text in enumerate((usual, long, dense)):
        user = memory.user(f"user {number}")
        await user.add_memory(text)
        assert [hit.content for hit in await user.search_memory("boat")] == [text]
    assert [readers[text] == here for text in (usual, long, dense)] == [True, False, False]


async def test_texts_read_in_portions_are_found_as_before(memory, open_memory, monkeypatch):
    ann = await with_long_memories(memory)
    question = "Which boat is number 7?"
    found = []
    for characters in (READ_CHARACTERS, 10**9):
        monkeypatch.setattr("recollect.uptake.READ_CHARACTERS", characters)
        memory._flow.indexes.drop(ANN)
        hits = await ann.search_memory(question, limit=50)
        context = await ann.get_context(question)
        found.append(([(hit.id, hit.score, hit.explain()) for hit in hits], context.to_dict()))
    assert found[0] == found[1]


async def test_a_context_of_long_texts_lets_others_run_between_two_of_them(memory, monkeypatch):
    ann = await with_long_memories(memory)
    await ann.search_memory("Which boat is number 7?")  # the index is read
    shortened = []

    def counted(text: str) -> list[str]:
        shortened.append(text)
        return sentences(text)

    monkeypatch.setattr("recollect.policies.trimming.sentences", counted)
    turns = await turns_of_others(ann.get_context("Which boat is number 7?"))
    assert len(shortened) > 5
    assert turns >= len(shortened)


async def test_what_a_reranker_reads_of_long_texts_is_found_one_text_at_a_time(open_memory, monkeypatch):
    ann = await with_long_memories(await open_memory(reranker=WordReranker({})))
    await ann.search_memory("Which boat is number 7?")  # the index is read
    found = ann.search_memory("Which boat is number 7?", quality="best", limit=TEXTS)
    assert await most_in_a_row(found, monkeypatch, reranking, "stretch") == 1


async def test_long_memories_are_compared_one_at_a_time(memory):
    ann = memory.user("ann")
    same = hostile(0)
    await ann.add_memories([f"{same} {made_up()}" for _ in range(12)])
    assert await turns_of_others(memory.work()) >= 12


async def test_texts_of_words_never_met_before_are_embedded_one_at_a_time(store_name, monkeypatch):
    made_of_new_words = [hostile(number) for number in range(4)]
    embedder = StaticEmbedder()
    assert await most_in_a_row(embedder.embed(made_of_new_words), monkeypatch, StaticEmbedder, "_add_words") == 1
    assert await most_in_a_row(embedder.embed(made_of_new_words), monkeypatch, StaticEmbedder, "_add_words") == 4


async def test_the_vocabulary_of_the_embedder_is_loaded_in_a_thread(store_name, monkeypatch):
    loaders, load = [], providers._load_subwords
    monkeypatch.setattr(providers, "_load_subwords", lambda *of: loaders.append(threading.get_ident()) or load(*of))
    await StaticEmbedder().embed(["boat"])
    assert threading.get_ident() not in loaders != []


async def test_what_recurs_in_many_episodes_is_looked_for_in_a_thread(memory, monkeypatch):
    finders, find = [], consolidation.recurring
    monkeypatch.setattr(consolidation, "EPISODES_AT_ONCE", 1)  # as if there were fifty times as many
    monkeypatch.setattr(consolidation, "recurring", lambda *of: finders.append(threading.get_ident()) or find(*of))
    ann = memory.user("ann")
    data = {"session": "s", "messages": [], "topics": ["boat"]}
    await ann.import_records([{"id": f"e{n}", "layer": "episodic", "content": "A boat.", "data": data} for n in (1, 2)])
    await ann.maintain()
    assert threading.get_ident() not in finders != []


async def test_the_words_of_memories_to_compare_are_not_all_held_to_be_freed_at_once(memory, monkeypatch):
    class Seen(frozenset):
        """Words that can be looked at without being held."""

    seen, held, look = [], [], consolidation.glance

    def glanced(text: str) -> Seen:
        held.append(sum(each() is not None for each in seen))
        words = Seen(look(text))
        seen.append(weakref.ref(words))
        return words

    monkeypatch.setattr(consolidation, "glance", glanced)
    ann = memory.user("ann")
    await ann.add_memories([f"The boat of {made_up()}." for _ in range(5)])
    await ann.maintain(dry_run=True)
    assert held == [0] * 5


async def test_room_for_the_words_of_the_embedder_is_made_once(store_name):
    embedder = StaticEmbedder()
    room = embedder._sums
    await embedder.embed([hostile(number) for number in range(4)])
    assert len(embedder._places) > 1_024 and embedder._sums is room


async def test_an_import_is_checked_in_portions(memory):
    lines = [{"id": f"m{number}", "layer": "long_term", "content": f"Boat {number}"} for number in range(4 * PORTION)]
    assert await turns_of_others(memory.user("bob").import_records(lines)) >= 4
    (refused,) = await asyncio.gather(
        memory.user("zoe").import_records([*lines, {"layer": "nothing"}]), return_exceptions=True
    )
    assert f"line {len(lines) + 1}" in str(refused)
    assert await memory.user("zoe").list_memories() == ([], None)


async def test_thousands_of_facts_are_read_in_portions(memory):
    ann = memory.user("ann")
    for start in range(0, 1_500, 30):
        await ann.upsert_facts([{"key": f"thing_{n}", "value": f"value {n}"} for n in range(start, start + 30)])
    assert await turns_of_others(ann.profile()) >= 3
    assert Counter(fact.key for fact in (await ann.profile()).facts) == {f"thing_{n}": 1 for n in range(1_500)}


async def test_notes_of_thousands_of_facts_are_made_in_portions(memory, monkeypatch):
    ann = memory.user("ann")
    for start in range(0, 2 * PORTION, 30):
        await ann.upsert_facts([{"key": f"thing_{n}", "value": f"value {n}"} for n in range(start, start + 30)])
    asked = ann.get_context("What is thing 7?", max_tokens=50_000)
    assert await most_in_a_row(asked, monkeypatch, sections, "note") <= PORTION
    assert "value 7\n" in (await ann.get_context("What is thing 7?", max_tokens=50_000)).system


async def test_many_memories_are_forgotten_in_portions(memory, monkeypatch):
    ann = memory.user("ann")
    lines = [{"id": f"m{n}", "layer": "long_term", "content": f"Boat {n}"} for n in range(2 * PORTION)]
    await ann.import_records(lines)
    forgotten = asyncio.ensure_future(ann.forget(where={"created_at": {"gte": "1970-01-01"}}))
    assert await most_in_a_row(forgotten, monkeypatch, privacy, "past_ids") <= PORTION
    assert forgotten.result().count == 2 * PORTION


async def test_new_memories_are_compared_with_many_others_in_portions(memory, monkeypatch):
    ann = memory.user("ann")
    monkeypatch.setattr("recollect.enrichment.COMPARED", 1)  # as if there were fifty times as many
    await ann.add_memories([f"The boat of {made_up()} is number {n}." for n in range(60)])
    await memory.work()
    await ann.add_memories([f"The train of {made_up()} is number {n}." for n in range(60)])
    assert await most_in_a_row(memory.work(), monkeypatch, PartitionIndex, "nearest") <= PORTION // 60 + 1


async def test_one_task_that_asks_and_asks_lets_others_run_in_between(memory, monkeypatch):
    ann = memory.user("ann")
    await ann.add_memories([f"The boat of {made_up()} is number {n}." for n in range(50)])
    await memory.work()

    async def asked(searches: int = 40) -> None:
        for _ in range(searches):
            await ann.search_memory("boat")

    await asked(1)
    before = await turns_of_others(asked())
    monkeypatch.setattr(memory._flow.recall, "_pace", Pace(1))  # as if there were hundreds of times as many
    assert await turns_of_others(asked()) >= before + 40 - 1


async def test_a_large_graph_is_put_together_in_a_thread(memory, monkeypatch):
    graph = memory.user("ann").graph
    for number in range(PORTION // 2):
        await graph.relate(f"Ann of house {number}", "knows", f"Ben of house {number}")
    threads, relations = [], Web.relations
    monkeypatch.setattr(Web, "relations", lambda *of: threads.append(threading.get_ident()) or relations(*of))
    whole = await graph.whole()
    assert threading.get_ident() not in threads != []
    assert (len(whole.entities), len(whole.relations)) == (PORTION, PORTION // 2)
    assert "Ben of house 7" in (await memory.user("ann").get_context("Whom does Ann of house 7 know?")).system


async def test_small_work_does_not_wait_for_others(memory):
    ann = memory.user("ann")
    await ann.add_memory("The boat is red.")
    await memory.work()
    await ann.get_context("Which colour is the boat?")
    asked = [await turns_of_others(ask("Which colour is the boat?")) for ask in (ann.search_memory, ann.get_context)]
    assert max(asked) <= 2  # to ask the store for news of the user and of the org
    assert await turns_of_others(Pace().done(PORTION - 1)) == 0
    assert await turns_of_others(Pace().done(PORTION)) == 1
    assert await turns_of_others(apart(lambda: None, PORTION)) == 0
