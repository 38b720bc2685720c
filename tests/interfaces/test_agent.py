"""The assistant that needs no model: it says what was said, and nothing that was not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from recollect import Memory, Settings
from recollect.interfaces.agent import MemoryAgent, is_question

MONDAY = datetime(2026, 11, 2, 9, tzinfo=UTC)
TOLD = (
    "I'm Mara, and I have a one-eyed cat called Admiral.",
    "My sister gets married on 12 December.",
    "I work as a structural engineer, mostly on old bridges.",
)


async def _ask(question: str, *, days: int = 4, told=TOLD, **settings) -> str:
    async with Memory.open("memory://", worker=False, **settings) as memory:
        user = memory.user("mara")
        for text in told:
            await user.session("monday").add_interaction(text, "I'll remember that.", created_at=MONDAY)
        await memory.work()
        return await MemoryAgent().reply(user.session("later"), question, at=MONDAY + timedelta(days=days))


async def test_a_question_is_answered_with_what_was_said_and_when():
    said = await _ask("What is my cat called?")
    assert said == "On Monday 2 November you said: “I'm Mara, and I have a one-eyed cat called Admiral.”"


@pytest.mark.parametrize("days, when", [(0, "Earlier today"), (1, "Yesterday"), (90, "On Monday 2 November 2026")])
async def test_the_day_is_said_as_people_say_it(days, when):
    assert (await _ask("When does my sister get married?", days=days)).startswith(f"{when} you said:")


async def test_what_was_never_said_is_not_remembered():
    assert await _ask("Who won the chess match?") == "I don't remember anything about that."


async def test_something_close_is_offered_as_no_more_than_that():
    said = await _ask("What does my animal look like?")
    assert said.startswith("I don't remember that exactly. The closest I have: on Monday 2 November you said:")


async def test_what_is_known_of_somebody_is_told_as_it_is_now():
    assert (await _ask("What is my job?")).startswith("Structural engineer. On Monday 2 November you said: “")
    moved = ("I live in Oslo.", "I moved to Bergen yesterday.")
    assert await _ask("Where do I live?", told=moved) == (
        "Bergen. On Monday 2 November you said: “I moved to Bergen yesterday.”"
    )


async def test_nothing_is_remembered_of_an_empty_memory():
    assert await _ask("What is my cat called?", told=()) == "I don't remember anything about that."


@pytest.mark.parametrize(
    "text, answer",
    [
        ("I like tea.", "I'll remember that."),
        ("Hello! I'm Mara.", "Hello! I'll remember that."),
        ("Thanks!", "You're welcome."),
    ],
)
async def test_what_is_told_gets_a_short_word(text, answer):
    assert await _ask(text) == answer


async def test_an_earlier_question_is_not_an_answer():
    said = await _ask("What is my dog called?", told=("What is my dog called?",))
    assert said == "I don't remember anything about that."


async def test_its_own_words_are_quoted_only_when_they_are_asked_for():
    async with Memory.open("memory://", worker=False) as memory:
        chat = memory.user("mara").session("one")
        await chat.add_interaction("Which wine goes with fish?", "A dry Vinho Verde goes with fish.", created_at=MONDAY)
        await memory.work()
        agent = MemoryAgent()
        assert "Vinho Verde" in await agent.reply(chat, "Which wine did you recommend with fish?", at=MONDAY)
        assert "Vinho Verde" not in await agent.reply(chat, "Which wine goes with fish?", at=MONDAY)


async def test_words_alone_are_enough_without_an_embedder():
    async with Memory.open("memory://", settings=Settings(embedder="none", worker=False)) as memory:
        chat = memory.user("mara").session("one")
        await chat.add_interaction("My cat is called Admiral.", "Noted.", created_at=MONDAY)
        assert "Admiral" in await MemoryAgent().reply(chat, "What is my cat called?", at=MONDAY)


async def test_of_a_long_message_the_sentence_that_fits_is_quoted():
    long = "The weather was dull. " * 30 + "My cat is called Admiral. " + "Nothing else happened. " * 30
    said = await _ask("What is my cat called?", told=(long,))
    assert said.endswith("you said: “My cat is called Admiral.”")


async def test_a_quote_stays_in_its_line_and_moves_no_cursor():
    said = await _ask("What is my cat called?", told=("My cat is called\n\x1b[2JAdmiral \u202e.",))
    assert "\x1b" not in said and "\n" not in said and "\u202e" not in said


@pytest.mark.parametrize("question", ["What do you know about me?", "what do you remember", "Who am I?"])
async def test_who_asks_what_is_known_hears_what_matters_most(question):
    said = await _ask(question, told=(*TOLD, "Hello!", "What is my cat called?"))
    assert all(text in said for text in TOLD)
    assert "Hello" not in said and "What is my cat" not in said
    assert await _ask(question, told=()) == "I don't know anything about you yet. Tell me something."


@pytest.mark.parametrize(
    "text, asks",
    [
        ("What is my cat called", True), ("Tell me about Lisbon", True), ("really?", True), ("how old am I", True),
        ("When I was five, I fell.", False), ("I know what I like.", False), ("Will is my brother.", False),
    ],
)  # fmt: skip
def test_questions_are_told_from_statements(text, asks):
    assert is_question(text) is asks


async def test_what_was_so_before_is_told_with_its_end(memory, clock):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "I live in Oslo.")
    await memory.work()
    clock.advance(days=30)
    await chat.add_message("user", "I moved to Bergen.")
    await memory.work()
    for question in ("Where did I live before?", "Where did I live before Bergen?"):
        told = await MemoryAgent().reply(chat, question)
        assert told.startswith("Oslo, until ") and told.endswith("Now it is Bergen.")
