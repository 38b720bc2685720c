"""Search: what was said is found when asked for, from every writer, with reasons."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

from recollect.errors import RecollectError, Unavailable
from recollect.records import Changes, Partition, Record, Scope, Vector, iso
from recollect.stores import open_store
from recollect.testing.fakes import (
    WRONG_ANSWERS,
    CountingStore,
    FailingEmbedder,
    GatedEmbedder,
    HashingEmbedder,
    ManualClock,
    WrongEmbedder,
)


async def found(user, query, **how):
    return [hit.content for hit in await user.search_memory(query, **how)]


async def test_the_best_answer_comes_first(memory):
    ann = memory.user("ann")
    await ann.session("s").add_interaction("My dog Rex eats green apples.", "Good boy, Rex!")
    await ann.add_memories(["The car needs new tyres.", "Apples are on the shopping list."])
    await memory.work()
    assert (await found(ann, "What does my dog Rex eat?"))[0] == "My dog Rex eats green apples."


async def test_a_memory_that_has_more_of_what_is_asked_comes_before_one_that_repeats_a_word_of_it(open_memory):
    ann = (await open_memory(embedder="none")).user("ann")
    told = "In Lisbon, before the concert we had talked about all summer, Mia bought a blue guitar from a stranger."
    await ann.add_memories(["Guitar, guitar, guitar.", "Mia, Mia!", told, *(f"Note {n} of a list." for n in range(9))])
    assert await found(ann, "Where did Mia buy a guitar?", limit=1) == [told]


@pytest.mark.parametrize("store_name", ["sqlite"])
async def test_equal_hits_come_in_the_same_order_from_a_process_that_saw_one_change_and_from_one_that_did_not(
    open_memory,
):
    long_open = await open_memory(embedder="none", worker=False)
    ann = long_open.user("ann")
    first, _ = await ann.add_memories(["Gamma boat.", "Beta boat."])
    assert len(await found(ann, "boat")) == 2
    await ann.update_memory(first.id, content="Alpha boat.")
    fresh = await open_memory(embedder="none", worker=False)
    assert await found(ann, "boat") == await found(fresh.user("ann"), "boat") == ["Alpha boat.", "Beta boat."]


async def test_bare_words_are_counted_in_turns_and_long_ones_have_no_advantage(memory):
    ann = memory.user("ann")
    for text in ("The green bicycle.", "A green hat, a long story about a hat, and a bicycle in the rain far away."):
        await ann.session("s").add_message("user", text)
    await memory.work()
    best, other = [hit.legs["words"] for hit in await ann.search_memory("green bicycle")]
    assert other.share / best.share == pytest.approx(other.score / best.score, abs=1e-3) and other.score < best.score


async def test_memories_that_tell_a_time_or_a_number_answer_questions_for_one(memory):
    ann = memory.user("ann")
    when, many, neither = "The boat was painted in June 2023.", "The boat has 3 sails.", "The boat is green."
    await ann.add_memories([neither, many, when])
    await memory.work()
    hits = await ann.search_memory("When was the boat repaired?", layer="long_term")
    assert hits[0].content == when and hits[0].legs["form"].share > 0 == hits[-1].legs["form"].share
    assert (await found(ann, "How many masts has the boat?", layer="long_term"))[0] == many


@pytest.mark.parametrize("number", [np.nan, np.inf])
async def test_a_damaged_vector_is_rebuilt_and_breaks_no_search(open_memory, store_url, clock, number):
    texts = ["My dog Rex eats green apples.", "The car needs new tyres.", "Grandmother paints boats."]
    store = await open_store(store_url)
    ann = (await open_memory(store)).user("ann")
    records = await ann.add_memories(texts)
    whole = [(hit.id, round(hit.score, 4)) for hit in await ann.search_memory("What needs tyres?")]
    broken = np.full(HashingEmbedder().dimensions, number, "<f2").tobytes()
    stored = (await store.get(Partition("default", "ann"), [records[2].id], clock()))[0]
    damaged = stored.with_(vector=Vector(HashingEmbedder().name, broken))
    await store.commit(Changes(Partition("default", "ann"), put=(damaged,)), now=clock())
    for memory in (ann, (await open_memory(store)).user("ann")):
        assert [(hit.id, round(hit.score, 4)) for hit in await memory.search_memory("What needs tyres?")] == whole
        assert (await found(memory, "Who paints boats?"))[0] == texts[2]


async def test_every_hit_says_how_it_was_found(memory, clock):
    ann = memory.user("ann")
    old = await ann.add_memory("The red kite flew away.", importance=0.9)
    await memory.work()
    clock.advance(days=30)
    await ann.add_memory("The kite shop has a red door.", importance=0.1)
    await memory.work()
    hits = await ann.search_memory("red kite")
    assert [hit.place for hit in hits] == [1, 2]
    assert hits[0].score > hits[1].score
    by_id = {hit.id: hit for hit in hits}
    for hit in hits:
        assert set(hit.legs) == {"words", "meaning", "recency", "importance"}
        assert hit.score == pytest.approx(sum(leg.share for leg in hit.legs.values()), abs=1e-4)
        assert hit.content == hit.record.content
        assert hit.explain().startswith(f"{hit.score:.2f} = ")
    assert by_id[old.id].legs["recency"].score == pytest.approx(0.5, abs=0.01)
    assert by_id[old.id].legs["importance"].score == pytest.approx(0.9)
    assert by_id[old.id].legs["words"].rank == 1


async def test_a_question_for_the_latest_prefers_what_is_newer(memory, clock):
    ann = memory.user("ann")
    for street in ("Oak Street", "Mill Street", "Elm Street"):
        await ann.add_memory(f"My address is {street} 7.")
        clock.advance(hours=1)
    await memory.work()
    newest = (await ann.search_memory("What is my current address?"))[0]
    assert newest.content == "My address is Elm Street 7."
    assert newest.legs["latest"].share > 0
    assert newest.score == pytest.approx(sum(leg.share for leg in newest.legs.values()), abs=1e-4)
    assert "latest" not in (await ann.search_memory("What is my address?"))[0].legs


async def test_a_layer_can_be_chosen(memory):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "the harbour by night")
    await ann.add_memory("the harbour by day")
    await ann.add_memory("the harbour in winter", layer="episodic")
    assert await found(ann, "harbour", layer="long_term") == ["the harbour by day"]
    assert len(await found(ann, "harbour", layer=["long_term", "episodic"])) == 2
    assert len(await found(ann, "harbour")) == 3
    assert await found(ann.session("elsewhere"), "harbour", layer="conversation") == ["the harbour by night"]


async def test_the_same_text_is_returned_once(memory):
    ann = memory.user("ann")
    for name in ("s", "t"):
        await ann.session(name).add_message("user", "the harbour by night")
    assert await found(ann, "harbour") == ["the harbour by night"]


async def test_no_more_hits_than_asked_for(memory):
    ann = memory.user("ann")
    await ann.add_memories([f"harbour number {n}" for n in range(30)])
    assert len(await found(ann, "harbour")) == 5
    assert len(await found(ann, "harbour", limit=1)) == 1
    assert len(await found(ann, "harbour", limit=1000)) == 30


async def test_a_filter_finds_hits_far_down_the_ranking(memory):
    ann = memory.user("ann")
    await ann.add_memories([f"harbour harbour number {n}" for n in range(80)])
    await ann.add_memory("an office far from any harbour, with a very long description of all its rooms",
                         metadata={"kind": "office"})  # fmt: skip
    assert await found(ann, "harbour number", where={"metadata.kind": "office"}, limit=1) == [
        "an office far from any harbour, with a very long description of all its rooms"
    ]


async def test_an_empty_memory_finds_nothing(memory):
    assert await memory.user("nobody").search_memory("anything") == []


@pytest.mark.parametrize(("stored", "asked"), [("Ich wohne im Café Müller", "cafe\u0301 mu\u0308ller"),
                                               ("I live at the cafe\u0301", "Café"),
                                               ("RÉSUMÉ of Anna", "résumé")])  # fmt: skip
async def test_a_word_is_found_however_its_accents_are_written(memory, stored, asked):
    ann = memory.user("ann")
    await ann.add_memory(stored)
    (hit,) = await ann.search_memory(asked)
    assert (hit.content, hit.legs["words"].score > 0) == (stored, True)


@pytest.mark.parametrize(
    "query",
    ['"', "NEAR(", "a AND", "col:x", "^", "*", "-", "(" * 3000, "a\x00b", "@{}[]()|-~*\"':;!&%", "a & !", "<->", "%_",
     "'; DROP TABLE records; --", "🤷", "\u202e", "x" * 60_000, "word " * 12_000],
)  # fmt: skip
async def test_a_question_is_plain_words_and_never_syntax(memory, query):
    ann = memory.user("ann")
    await ann.add_memory("an ordinary memory")
    await ann.search_memory(query)
    assert await found(ann, "ordinary") == ["an ordinary memory"]


async def test_writes_of_another_memory_on_the_same_file_are_seen_at_once(open_memory, tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    here, there = await open_memory(url), await open_memory(url)
    ann, ann_there = here.user("ann"), there.user("ann")
    assert await found(ann, "lighthouse") == []
    added = await ann_there.add_memory("The lighthouse is white.")
    assert await found(ann, "lighthouse") == ["The lighthouse is white."]
    await ann_there.update_memory(added.id, content="The lighthouse is red.")
    await there.work()
    assert await found(ann, "lighthouse") == ["The lighthouse is red."]
    await ann.session("s").add_message("user", "I saw the lighthouse")
    assert len(await found(ann_there, "lighthouse")) == 2
    await ann_there.forget(added.id)
    assert await found(ann, "lighthouse") == ["I saw the lighthouse"]
    await ann_there.erase()
    assert await found(ann, "lighthouse") == []
    assert await ann.sessions() == []
    await ann.add_memory("A new lighthouse.")
    assert await found(ann_there, "lighthouse") == ["A new lighthouse."]


async def test_writes_of_another_process_on_the_same_file_are_seen_at_once(open_memory, tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    ann = (await open_memory(url, clock=ManualClock(1))).user("ann")
    await ann.add_memory("The lighthouse is white.")
    assert len(await found(ann, "lighthouse")) == 1
    program = f"""
import asyncio
from recollect import Memory
async def main():
    async with Memory.open({url!r}, embedder="none", clock=lambda: 2) as memory:
        await memory.user("ann").add_memories(["A second lighthouse.", "A third lighthouse."])
asyncio.run(main())
"""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=True, cwd=tmp_path)
    assert len(await found(ann, "lighthouse")) == 3


async def test_many_concurrent_readers_and_writers_see_a_complete_index(memory):
    ann = memory.user("ann")

    async def write(number):
        await ann.add_memory(f"lantern number {number}")

    async def read():
        return len(await ann.search_memory("lantern", limit=1000))

    await asyncio.gather(*(write(n) for n in range(30)), *(read() for _ in range(30)), memory.work())
    await memory.work()
    assert await read() == 30


async def test_a_turn_comes_with_what_was_said_around_it(memory):
    ann = memory.user("ann")
    said = ["Shall we go sailing?", "With the heron, on Sunday.", "I bring the soup.", "And I the bread."]
    await ann.session("monday").add_messages([{"role": "user", "content": text} for text in said])
    await ann.session("tuesday").add_message("user", "The bread was stale.")
    await ann.add_memory("A heron is a bird.")
    hits = {hit.content: hit for hit in await ann.search_memory("heron soup bread sailing stale", limit=10)}
    around = {text: [each.content for each in hit.neighbours] for text, hit in hits.items()}
    assert around["With the heron, on Sunday."] == [said[0], said[2]]
    assert around["Shall we go sailing?"] == [said[1]], "nothing came before it"
    assert around["The bread was stale."] == [], "another session is not around it"
    assert around["A heron is a bird."] == [], "a note stands alone"


async def test_what_must_not_be_found_is_not_a_neighbour_either(memory):
    ann = memory.user("ann")
    chat = ann.session("s")
    await chat.add_message("user", "The key is under the stone.", id="before")
    await chat.add_message("user", "The heron left on Sunday.", id="heron")
    await chat.add_message("user", "The safe is behind the clock.", id="after")

    async def around():
        return [each.id for each in (await ann.search_memory("When did the heron leave?"))[0].neighbours]

    assert await around() == ["before", "after"]
    await ann.quarantine(ids=["before"], reason="not to be trusted")
    assert await around() == ["after"]
    await ann.forget("after")
    assert await around() == []


async def test_a_search_during_an_erase_returns_what_was_there_or_a_clear_error_and_nothing_of_others(memory):
    ann, ben = memory.user("ann"), memory.user("ben")
    await ann.add_memories([f"Ann lit lantern number {number}." for number in range(40)])
    await ben.add_memories([f"Ben lit lantern number {number}." for number in range(40)])
    await memory.work()
    answers = []

    async def ask():
        for _ in range(20):
            try:
                answers.append({hit.content for hit in await ann.search_memory("Who lit a lantern?", limit=100)})
            except RecollectError:
                answers.append(set())

    await asyncio.gather(ask(), ask(), ann.erase(), ask(), memory.work())
    assert len(answers[0]) == 40, "it began before the erasure"
    assert all(text.startswith("Ann ") for answer in answers for text in answer)
    assert await found(ann, "lantern") == []
    assert len(await found(ben, "lantern", limit=100)) == 40


async def test_records_of_the_org_are_found_by_its_users_and_nobody_else(memory):
    record = Record("r1", "long_term", Scope("acme"), "Office hours are nine to five.", created_at=1)
    await memory._flow.ledger.commit(Changes(Partition("acme", ""), put=(record,)))
    assert await found(memory.user("ann", org="acme"), "office hours") == ["Office hours are nine to five."]
    assert await found(memory.user("bob", org="globex"), "office hours") == []
    context = await memory.user("ann", org="acme").session("s").get_context("When are office hours?")
    assert "nine to five" in context.system
    await memory.user("ann", org="acme").erase()
    assert len(await found(memory.user("bob", org="acme"), "office hours")) == 1


async def test_ended_expired_and_quarantined_records_are_not_found(memory, clock):
    now = clock()
    scope = Scope("default", "ann")
    kinds = {
        "current": {},
        "ended": {"valid_to": now - 1},
        "expired": {"expires_at": now + 1000},
        "quarantined": {"trust": "quarantined"},
        "ends later": {"valid_to": now + 1000},
    }
    put = tuple(
        Record(name, "long_term", scope, f"a {name} lantern", created_at=now, **fields)
        for name, fields in kinds.items()
    )
    await memory._flow.ledger.commit(Changes(Partition("default", "ann"), put=put))
    ann = memory.user("ann")
    assert {hit.id for hit in await ann.search_memory("lantern")} == {"current", "expired", "ends later"}
    clock.advance(seconds=1)
    assert {hit.id for hit in await ann.search_memory("lantern")} == {"current"}


# ── Embedders that misbehave ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", WRONG_ANSWERS)
async def test_a_useless_vector_is_never_stored_and_words_still_find_everything(open_memory, clock, answer, caplog):
    memory = await open_memory(embedder=WrongEmbedder(WRONG_ANSWERS[answer]))
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "The canary lives in a cage.")
    added = await ann.add_memory("The canary is yellow.")
    await memory.work()
    for id in (message.id, added.id):
        assert (await ann.get_memory(id)).vector is None
    assert set(await found(ann, "canary")) == {"The canary lives in a cage.", "The canary is yellow."}
    assert "canary" in (await ann.session("s").get_context("Where is the canary?")).system
    for _ in range(5):
        clock.advance(minutes=10)
        await memory.work()
    assert {failure.content.partition(":")[0] for failure in await ann.failures()} == {"EmbeddingError"}
    assert "canary" not in caplog.text


async def test_a_text_without_meaning_is_stored_without_a_vector(open_memory):
    memory = await open_memory(embedder=WrongEmbedder(lambda rows: rows * 0))
    ann = memory.user("ann")
    added = await ann.add_memory("The canary is yellow.")
    await memory.work()
    assert (await ann.get_memory(added.id)).vector is None
    assert await ann.failures() == []
    assert await found(ann, "canary") == ["The canary is yellow."]


@pytest.mark.parametrize(
    ("kind", "scale"),
    [(np.float32, 1e-40), (np.float32, 1e-22), (np.float32, 1e20), (np.float32, 9e37), (np.float16, 2e4), (np.int8, 9)],
)
@pytest.mark.filterwarnings("error")
async def test_however_long_an_embedders_vectors_are_meaning_is_compared(open_memory, kind, scale):
    memory = await open_memory(embedder=WrongEmbedder(lambda rows: (rows * scale).astype(kind)))
    ann = memory.user("ann")
    await ann.add_memories(["green tea", "a violin"])
    await memory.work()
    hit = (await ann.search_memory("green tea"))[0]
    assert hit.legs["meaning"].score == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize("error", [None, ConnectionError("down"), TimeoutError(), ValueError("429"), KeyError("data")])
async def test_an_embedder_that_is_down_stops_neither_writing_nor_searching(open_memory, error, caplog):
    memory = await open_memory(embedder=FailingEmbedder(error))
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "The canary lives in a cage.")
    await memory.work()
    assert await found(ann, "canary") == ["The canary lives in a cage."]
    assert (await ann.session("t").get_context("canary")).system
    survey = await memory.survey()
    assert survey.jobs_waiting + survey.jobs_running >= 1, "the vector is still to be made"
    assert "canary" not in caplog.text


async def test_a_slow_embedder_does_not_hold_up_a_query(open_memory):
    memory = await open_memory(embedder=GatedEmbedder())
    ann = memory.user("ann")
    await ann.add_memory("The canary is yellow.")
    async with asyncio.timeout(10):
        assert await found(ann, "canary") == ["The canary is yellow."]


async def test_vectors_of_another_model_are_not_compared(open_memory, tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    first = await open_memory(url, embedder=HashingEmbedder(64))
    await first.user("ann").add_memory("The canary is yellow.")
    await first.work()
    for dimensions in (32, 64):
        other = await open_memory(url, embedder=HashingEmbedder(dimensions, name="other"))
        (hit,) = await other.user("ann").search_memory("yellow canary")
        assert hit.legs["meaning"].score == 0
        assert hit.legs["words"].score > 0


async def test_names_in_the_first_hits_lead_to_memories_the_question_does_not_name(memory):
    ann = memory.user("ann")
    fillers = ("The shop has a new door.", "My bicycle is in the cellar.", "We had soup.", "The concert was long.")
    for session, text in (
        ("may", "I met Tom again, and his wife Henrike."),
        ("june", "A farm is a lot of work."),
        ("july", "Henrike was born near Tartu."),
    ):
        said = (*fillers[:2], text, *fillers[2:])
        await ann.session(session).add_messages([{"role": "user", "name": "Ann", "content": each} for each in said])
    await memory.work()
    hits = await ann.search_memory("Which region is the wife of Tom from?", layer="conversation", limit=12)
    led_to = [hit.content for hit in hits if "part" in hit.legs]
    assert hits[0].content == "I met Tom again, and his wife Henrike."
    assert "Henrike was born near Tartu." in led_to
    assert "A farm is a lot of work." not in led_to


async def test_both_ends_of_a_time_span_are_looked_for(memory):
    ann = memory.user("ann")
    chat = ann.session("s")
    said = (
        "I bought the kayak today!", "The days are long now.", "Many days I sit by the lake.",
        "How many spoons are in that drawer?", "We paddled to the island of Aegna.", "The weather has passed.",
    )  # fmt: skip
    await chat.add_messages([{"role": "user", "content": text} for text in said])
    await memory.work()
    told = await found(ann, "How many days passed before we paddled to Aegna after I bought the kayak?", limit=2)
    assert set(told) == {said[0], said[4]}


async def test_a_time_relative_to_an_event_is_resolved(memory, clock):
    ann = memory.user("ann")
    chat = ann.session("s")
    for days, text in (
        (0, "Breakfast was porridge."),
        (20, "Breakfast was pancakes."),
        (14, "My trip to Rome begins!"),
    ):
        clock.advance(days=days)
        await chat.add_message("user", text)
    clock.advance(days=2)
    await memory.work()
    assert (await found(ann, "What was breakfast two weeks before my trip to Rome?", layer="conversation"))[0] == (
        "Breakfast was pancakes."
    )


async def test_what_happened_on_a_day_is_found_in_what_was_said_the_day_after(memory, clock):
    ann, chat = memory.user("ann"), memory.user("ann").session("s")
    day = iso(clock())[:10]
    for days, text in (
        (-30, "I do love bowling, and dancing."),
        (31, "Yesterday I went bowling with Tom."),
        (20, "Yesterday I went to a concert, and I went dancing."),
    ):
        clock.advance(days=days)
        await chat.add_message("user", text)
    await memory.work()
    first = (await ann.search_memory(f"Where was I on {day}?", layer="conversation"))[0]
    assert first.content == "Yesterday I went bowling with Tom."
    assert first.legs["time"].share > 0


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-30"])
async def test_the_last_day_of_the_calendar_is_a_day_like_others(memory, clock, day):
    ann, chat = memory.user("ann"), memory.user("ann").session("s")
    await chat.add_message("user", f"The counter stood at the day before {day}, or in the week after {day}.")
    await memory.work()
    for asked in (f"What was the day before {day}?", f"What was in the week after {day}?", f"And {iso(clock())[:10]}?"):
        assert [hit.record.layer for hit in await ann.search_memory(f"The counter: {asked}")] == ["conversation"]


async def test_a_word_of_similar_meaning_is_found(memory):
    ann, chat = memory.user("ann"), memory.user("ann").session("s")
    said = (
        "Yesterday I practised the violin for two hours.", "The house near the lake was sold to a neighbour.",
        "We took the train home in the evening.", "There was nothing on the table but a cup.",
    )  # fmt: skip
    await chat.add_messages([{"role": "user", "name": "Ann", "content": text} for text in said])
    await memory.work()
    assert (await found(ann, "Which musical instrument does Ann play?"))[0] == said[0]


async def test_each_part_of_a_compound_question_is_looked_for(memory):
    ann = memory.user("ann")
    chat = ann.session("s")
    for number in range(12):
        await chat.add_interaction(f"The red bicycle got a new bell, number {number}.", "A red bicycle with bells!")
    await chat.add_interaction("The sewing machine arrived on Tuesday.", "Good.")
    await memory.work()
    hits = await ann.search_memory("Which came first, the red bicycle with the bell or the sewing machine?", limit=5)
    machine = next(hit for hit in hits if "sewing machine" in hit.content)
    assert machine.score == pytest.approx(sum(leg.share for leg in machine.legs.values()), abs=1e-4)
    assert any("bicycle" in hit.content for hit in hits)


async def test_an_old_question_ranks_below_its_answer(memory):
    ann = memory.user("ann")
    await ann.session("old").add_interaction("I have a dog called Biscuit.", "A fine name.")
    for asked in ("What is my dog called?", "dog"):
        await ann.session("new").add_interaction("What is the name of my dog?", "Let me think.")
        await memory.work()
        hits = await ann.search_memory(asked)
        places = {hit.content: hit.place for hit in hits}
        assert places["I have a dog called Biscuit."] < places["What is the name of my dog?"]
        (echo,) = (hit for hit in hits if hit.content == "What is the name of my dog?")
        assert echo.legs["echo"].share < 0
        assert echo.score == pytest.approx(sum(leg.share for leg in echo.legs.values()), abs=1e-4)
        assert echo.relevance < 0.2


@pytest.mark.parametrize(
    "asked", ["Can you tell me my blood type please", "what is my blood type", "whats my blood type"]
)
async def test_an_open_question_is_no_answer_without_its_mark_either(memory, asked):
    ann = memory.user("ann")
    await ann.session("s").add_interaction("Hello, I have a cat.", "A fine animal.")
    await ann.session("s").add_interaction(asked, "I don't know that yet.")
    await memory.work()
    assert (await ann.get_context("What is my blood type?")).answerable < 0.2
    await ann.session("s").add_interaction("My blood type is 0 negative.", "Noted.")
    await memory.work()
    context = await ann.get_context("What is my blood type?")
    assert context.answerable > 0.8 and context.hits[0].content == "My blood type is 0 negative."


async def test_a_repeated_question_is_recognised_in_other_languages_too(open_memory):
    ann = (await open_memory(language="none")).user("ann")
    await ann.session("s").add_interaction("Quelles maisons anciennes sont vendues?", "Aucune idée.")
    hits = await ann.search_memory("Quelles maisons très anciennes sont vendues?")
    (echo,) = (hit for hit in hits if hit.content.startswith("Quelles"))
    assert echo.legs["echo"].share < 0


async def test_a_fact_is_found_by_how_people_would_ask_for_it(memory):
    ann = memory.user("ann")
    await ann.add_fact("employer", "Polaria")
    await ann.add_fact("city", "Bergen")
    await memory.work()
    assert (await found(ann, "Where do I work?"))[0] == "employer: Polaria"
    assert (await found(ann, "Where do I live?"))[0] == "city: Bergen"


async def test_relevance_is_on_one_scale_for_all_questions(memory):
    ann = memory.user("ann")
    await ann.add_memories(["The lighthouse near Oslo holds forty guests.", "The hydrophones need new batteries."])
    await memory.work()
    fits = await ann.search_memory("How many guests does the lighthouse hold?")
    assert fits[0].relevance > 0.8
    nonsense = await ann.search_memory("quantum tax helicopter zebra")
    assert nonsense and all(hit.relevance < 0.2 for hit in nonsense)


async def test_what_one_person_said_is_less_of_an_answer_about_another(memory):
    talk = memory.user("ann").session("letters")
    for name, text in [("Ana", "I painted a lake at sunrise."), ("Ben", "I sold my old bicycle on Friday.")]:
        await talk.add_message("user", text, name=name)
    await memory.work()
    about_ana = (await memory.user("ann").search_memory("What did Ana paint?"))[0]
    about_ben = next(
        hit for hit in await memory.user("ann").search_memory("What did Ben paint?") if hit.content == about_ana.content
    )
    assert about_ben.relevance < 0.5 * about_ana.relevance


async def test_relevance_is_the_same_beside_two_memories_as_beside_many(memory):
    asked = "Does the lighthouse have a restaurant for guests?"
    told = []
    for user, others in (("few", 1), ("many", 300)):
        handle = memory.user(user)
        await handle.add_memory("The lighthouse near Oslo holds forty guests.")
        for start in range(0, others, 50):
            size = min(50, others - start)
            await handle.add_memories([f"Ship {start + place} carries {place} tons." for place in range(size)])
        await memory.work()
        told.append((await handle.search_memory(asked))[0])
    few, many = told
    assert few.content == many.content
    assert few.relevance == pytest.approx(many.relevance, abs=0.05)


async def test_records_without_a_vector_are_judged_by_their_words(memory):
    ann = memory.user("ann")
    await ann.update_preference("theme", "dark")
    await ann.add_memory("The hydrophones need new batteries.")
    await memory.work()
    preference = (await ann.search_memory("Which theme should I use?"))[0]
    assert preference.content == "theme: dark" and preference.relevance > 0.2
    assert (await ann.get_context("Which theme should I use?")).answerable == preference.relevance
    unasked = {hit.content: hit.relevance for hit in await ann.search_memory("Which batteries should I buy?")}
    assert unasked.get("theme: dark", 0.0) < 0.05


async def test_the_caller_may_modify_what_was_found(memory):
    ann = memory.user("ann")
    await ann.add_memory("The red kite flew away.", metadata={"seen": {"at": ["noon"]}})
    await memory.work()
    (hit,) = await ann.search_memory("red kite")
    hit.record.metadata["seen"]["at"].append("midnight")
    hit.record.data["edits"] = 7
    (again,) = await ann.search_memory("red kite")
    assert again.record.metadata == {"seen": {"at": ["noon"]}}
    assert "edits" not in again.record.data


async def test_an_id_reused_after_expiry_has_a_new_place_and_can_be_forgotten(open_memory, clock):
    memory = await open_memory(conversation_days=1)
    ann = memory.user("ann")
    chat = ann.session("s")
    await chat.add_message("user", "The kettle is blue.", id="first")
    assert await found(ann, "kettle") == ["The kettle is blue."]
    clock.advance(days=2)
    await chat.add_message("user", "Good morning.", id="second")
    await chat.add_message("user", "The kettle is blue.", id="first")
    (hit,) = [hit for hit in await ann.search_memory("kettle") if hit.id == "first"]
    assert [each.id for each in hit.neighbours] == ["second"]
    assert (await ann.sessions())[0].title == "Good morning."
    await ann.forget("first")
    assert await found(ann, "kettle") == ["Good morning."]


async def test_what_another_memory_forgets_and_adds_elsewhere_is_only_found_there(open_memory, tmp_path):
    file = f"sqlite:///{tmp_path}/shared.db"
    ann, same = (await open_memory(file)).user("ann"), (await open_memory(file)).user("ann")
    await ann.session("monday").add_message("user", "The kettle is blue.", id="first")
    assert [info.id for info in await ann.sessions()] == ["monday"]
    await same.forget("first")
    await same.session("tuesday").add_message("user", "The kettle is blue.", id="first")
    assert [info.id for info in await ann.sessions()] == ["tuesday"]


async def test_what_has_expired_is_not_read_again_with_every_query(open_memory, store_url, clock):
    store = CountingStore(await open_store(store_url))
    ann = (await open_memory(store)).user("ann")
    await ann.add_memory("The kettle is blue.")
    for portion in range(14):
        texts = [f"The lamp number {portion * 80 + place} is on." for place in range(80)]
        until = iso(clock() + 1_000)
        await ann.add_memories([{"content": text, "expires_at": until} for text in texts])
    assert await found(ann, "kettle", limit=1) == ["The kettle is blue."]
    clock.advance(hours=1)
    for _ in range(2):  # the index may be rebuilt once, now that most of it has expired
        assert await found(ann, "lamp") == ["The kettle is blue."]
    store.reset()
    assert await found(ann, "lamp") == ["The kettle is blue."]
    assert store.rows == 0


async def test_if_changes_cannot_be_read_the_caller_is_told_and_no_task_is_left_running(open_memory, store_url):
    class AwayStore(CountingStore):
        """A store that cannot report changes, and is slow to say so for the org."""

        async def changes(self, partition, mark, limit=1_000):
            await asyncio.sleep(0 if partition.user else 60)
            raise Unavailable("away", field="store")

    ann = (await open_memory(AwayStore(await open_store(store_url)))).user("ann")
    await ann.add_memory("The kettle is blue.")
    before = asyncio.all_tasks()
    for ask in (ann.search_memory, ann.get_context):
        with pytest.raises(Unavailable):
            await ask("kettle")
    assert asyncio.all_tasks() == before


async def test_a_write_while_a_query_waits_for_its_vector_spoils_no_search(open_memory):
    class Waiting(HashingEmbedder):
        """Yields to everybody else before it answers."""

        async def embed(self, texts):
            await chat.add_message("user", "Something else was said meanwhile.")
            await ann.sessions()
            return await super().embed(texts)

    ann = (await open_memory(embedder=Waiting())).user("ann")
    chat = ann.session("s")
    await chat.add_message("user", "My wife is called Carla.")
    await chat.add_message("user", "Carla grew up in Lisbon.")
    assert "Carla grew up in Lisbon." in await found(ann, "Where did my wife grow up?")


async def test_a_dropped_index_is_freed_at_once_and_not_at_the_next_garbage_collection(memory):
    ann = memory.user("ann")
    await ann.session("s").add_interaction("My dog Rex eats green apples.", "Good boy, Rex!")
    await memory.work()
    assert await ann.session("s").get_context("What does my dog Rex eat?")
    indexes = memory._flow.indexes
    held = weakref.ref(await indexes.current(Partition("default", "ann")))
    gc.disable()
    try:
        indexes.drop(Partition("default", "ann"))
        assert held() is None
    finally:
        gc.enable()


async def test_a_fact_is_found_by_other_words_for_its_key(memory):
    ann = memory.user("ann")
    await ann.upsert_facts([{"key": "vehicle", "value": "Skoda"}, {"key": "employer", "value": "Polaria"}])
    await ann.upsert_facts([{"key": "partner", "value": "Tom"}])
    assert (await ann.search_memory("What is wrong with my car?"))[0].content == "vehicle: Skoda"
    assert (await ann.search_memory("Do I like my job?"))[0].content == "employer: Polaria"
    assert (await ann.search_memory("my husband"))[0].content == "partner: Tom"


async def test_the_name_in_a_fact_leads_to_what_was_said_of_it(open_memory):
    ann = (await open_memory(embedder="none")).user("ann")  # so that only words can tell
    await ann.add_fact("vehicle", "Skoda")
    await ann.session("monday").add_message("user", "I paid 14,500 euro for the Skoda.")
    await ann.session("monday").add_message("user", "The garden needs water.")
    found = {hit.content for hit in await ann.search_memory("How much did the car cost?")}
    assert found == {"vehicle: Skoda", "I paid 14,500 euro for the Skoda."}


async def test_episodes_that_have_the_words_of_a_question_by_chance_do_not_stand_before_turns(memory):
    ann = memory.user("ann")
    for number in range(3, 9):
        chat = ann.session(f"s{number}")
        for said in (
            "The plumber sent his bill on Tuesday, {} euros.",
            "I painted the kitchen wall number {} yellow on Sunday.",
            "We decided to buy a stone sink for garden {}.",
            "The dentist moved my appointment to Friday {}.",
        ):
            await chat.add_interaction(said.format(number), "Noted.")
        await memory.work()
        assert await chat.close()
    await ann.session("right").add_interaction("The plumber mended the kitchen sink at last.", "Good.")
    await memory.work()
    hits = await ann.search_memory("When did the plumber mend the sink in our kitchen?", limit=4)
    assert hits[0].content == "The plumber mended the kitchen sink at last."
    assert {hit.record.layer for hit in hits} == {"conversation"}
