"""The assistant that needs no model: it repeats what was said, and nothing that was not."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from recollect import Memory, Settings
from recollect.interfaces import agent
from recollect.interfaces.agent import MemoryAgent, is_question
from recollect.interfaces.phrases import holds
from recollect.interfaces.small_talk import ITSELF, NOT_FROM_MEMORY
from recollect.records import as_datetime

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
async def test_the_day_is_given_the_way_people_say_it(days, when):
    assert (await _ask("When does my sister get married?", days=days)).startswith(f"{when} you said:")


@pytest.mark.parametrize("question", ["How old am I?", "do you know how old I am", "What's my age?"])
async def test_an_age_is_counted_from_the_day_of_birth(question):
    born = "My birthday is March 3, 1990."
    assert (await _ask(question, told=[born])).startswith("You are 36. ")
    assert born in await _ask(question, told=[born])
    assert "You are" not in await _ask(question, told=["My birthday is March 3."])


async def test_what_was_never_said_is_not_remembered():
    assert await _ask("Who won the chess match?") == "I don't remember anything about that."


async def test_a_near_match_is_offered_only_as_a_near_match():
    said = await _ask("What is my dog called?")
    assert said.startswith("I don't remember that exactly. The closest I have: on Monday 2 November you said:")


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("I have to go, picking up my daughter from nursery.", "What is my daughter's name?"),
        ("Off to Lisbon with my girlfriend on Friday.", "What's the name of my girlfriend?"),
        ("The rent for the shop is due on Monday.", "How much is the rent for the shop?"),
        ("I swapped my night shift again.", "Who did I swap my night shift with?"),
        ("My keys are somewhere, I can't find my keys.", "Where are my keys?"),
    ],
)
async def test_what_has_the_words_of_a_question_but_nothing_of_what_it_asks_for_is_no_answer(told, question):
    assert (await _ask(question, told=[told])).startswith("I don't remember")


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("picking up my daughter mia from nursery", "What is my daughter's name?"),
        ("The rent for the shop is two thousand a month.", "How much is the rent for the shop?"),
        ("I swapped my night shift with Priya.", "Who did I swap my night shift with?"),
        ("My keys are in the blue bowl.", "Where are my keys?"),
        ("The backup script is called nightly.", "What is the backup script called?"),
    ],
)
async def test_what_has_something_of_the_sort_a_question_asks_for_is_told(told, question):
    said = await _ask(question, told=[told])
    assert "I don't remember" not in said and f"“{told}”" in said


async def test_what_was_taken_back_is_not_told_among_what_matters():
    told = ("I hate coriander.", "My sister gets married on 12 December.", "Forget that I hate coriander.")
    said = await _ask("Summarise what you know about me", told=told)
    assert "12 December" in said and "coriander" not in said


async def test_a_question_for_several_things_is_answered_with_all_of_them():
    told = ("I live in Antwerp.", "I'm allergic to latex.", "I have a dog called Bo.")
    assert await _ask("Where do I live, and what am I allergic to?", told=told) == (
        "You live in Antwerp. On Monday 2 November you said: “I live in Antwerp.” "
        "You are allergic to latex. On Monday 2 November you said: “I'm allergic to latex.”"
    )
    said = await _ask("Where do I live and what is my dog called and where do I live?", told=told)
    assert said.count("You live in Antwerp.") == 1 and "Bo" in said
    assert "Antwerp" in await _ask("Where do I live and who won the chess match?", told=told)


async def test_the_price_of_a_thing_is_found_where_the_thing_was_bought():
    told = ("I bought a Skoda Octavia for 14,500 euro.", "Got a tattoo, it cost 150 quid.")
    bought = "On Monday 2 November you said: “I bought a Skoda Octavia for 14,500 euro.”"
    assert await _ask("How much did my car cost?", told=told) == bought
    assert await _ask("What did I pay for my car?", told=told) == bought
    assert "Skoda" not in await _ask("How much did my phone cost?", told=told)


async def test_weight_height_and_team_are_told_from_the_profile():
    told = ("My brother weighs 120 kg.", "I'm 96 kilos and 1.78 m.", "I support Werder Bremen.")
    assert (await _ask("How much do I weigh?", told=told)).startswith("You weigh 96 kg.")
    assert (await _ask("How tall am I?", told=told)).startswith("Your height is 178 cm.")
    assert (await _ask("Which football team do I support?", told=told)).startswith("You support Werder Bremen.")


async def test_a_question_about_others_or_about_sport_is_not_answered_with_the_job():
    told = ("I work as a nurse at Velo Verde.",)
    assert not (await _ask("What do I do for sport?", told=told)).startswith("You work")
    assert not (await _ask("Who works for me?", told=told)).startswith("You work")


async def test_of_several_pets_the_one_of_the_kind_asked_about_is_named():
    told = ("I have a dog called Admiral and a cat called Miso.",)
    assert (await _ask("What is my cat called?", told=told)).startswith("Your cat is Miso. On Monday")
    assert (await _ask("What's my dog's name?", told=told)).startswith("Your dog is Admiral. On Monday")
    assert (await _ask("Do I have pets?", told=told)).startswith("Your pets are Admiral and Miso. On Monday")
    only = ("I have a cat called Miso.",)
    assert (await _ask("What is my dog called?", told=only)).startswith("I don't remember that exactly.")


@pytest.mark.parametrize(
    "question", ["How old is my grandma?", "What is the name of my cat?", "Where does my brother work?"]
)
async def test_what_is_known_of_the_user_does_not_answer_a_question_about_somebody_else(memory, clock, question):
    mara, now = memory.user("mara"), as_datetime(clock())
    for key, value in (("name", "Mara"), ("age", "20"), ("employer", "Acme"), ("occupation", "nurse")):
        await mara.add_fact(key, value)
    await mara.session("monday").add_message("user", "My brother Duarte is here, and my grandma Lurdes.")
    await memory.work()
    said = await MemoryAgent().reply(mara.session("later"), question, at=now)
    assert "your name" not in said.lower() and "you are" not in said.lower() and "you work" not in said.lower()
    assert "“user " not in said


async def test_of_a_family_the_one_asked_about_is_named_as_what_they_are():
    told = (
        "My daughter Marijke is in Canada.",
        "My stepdad Rui cooks.",
        "My mum Lena sings.",
        "My half-brother Bram is five.",
        "My grandma Lurdes is 83.",
    )
    assert (await _ask("Who is Rui?", told=told)).startswith("Your stepfather is Rui. On Monday")
    assert (await _ask("What's my mum's name?", told=told)).startswith("Your mother is Lena. On Monday")
    assert (await _ask("What is my brother's name?", told=told)).startswith("Your half brother is Bram. On Monday")
    assert (await _ask("What is my granny called?", told=told)).startswith("Your grandmother is Lurdes. On Monday")
    assert "Your" not in await _ask("What is my son's name?", told=told)
    assert (await _ask("Who are my parents?", told=told)).startswith("Your parents are Rui and Lena.")


async def test_nobody_works_as_a_retired():
    assert (await _ask("What do I do for a living?", told=("I'm retired now.",))).startswith("You are retired. On")
    assert (await _ask("What do I do for a living?", told=("I am unemployed.",))).startswith("You are unemployed. On")


async def test_known_facts_are_told_as_they_are_now():
    told = await _ask("What is my job?")
    assert told.startswith("You work as a structural engineer. On Monday 2 November you said: “")
    moved = ("I live in Oslo.", "I moved to Bergen yesterday.")
    assert await _ask("Where do I live?", told=moved) == (
        "You live in Bergen. On Monday 2 November you said: “I moved to Bergen yesterday.”"
    )
    since = await _ask("Where do I live?", told=("I moved to Bergen last week.",))
    assert re.match(r"You live in Bergen, since \d+ October\. On Monday 2 November you said:", since)


async def test_a_question_that_was_made_to_be_slow_is_answered_quickly():
    async with Memory.open("memory://", worker=False) as memory:
        chat = memory.user("mara").session("later")
        began = time.process_time()
        await MemoryAgent().reply(chat, "What may I eat" + "? and what " * 5_800)
        assert time.process_time() - began < 3, "it took twenty seconds"


async def test_an_empty_memory_remembers_nothing():
    assert await _ask("What is my cat called?", told=()) == "I don't remember anything about that."


@pytest.mark.parametrize(
    "text, answer",
    [
        ("I like tea.", "I'll remember that."),
        ("Hello! I'm Mara.", "Hello! I'll remember that."),
        ("Thanks!", "You're welcome."),
        ("ok", "All right."),
        ("lol, no", "All right."),
        ("Bye!", "Goodbye!"),
        (
            "Remind me to buy milk tomorrow.",
            "I'll remember that. I can't send reminders, so ask me when the time comes.",
        ),
    ],
)
async def test_a_statement_gets_a_short_acknowledgement(text, answer):
    assert await _ask(text) == answer


async def test_a_reminder_is_quoted_when_it_is_asked_for():
    said = await _ask("What should I buy?", told=("Remind me to buy milk and eggs.",))
    assert said == "On Monday 2 November you said: “Remind me to buy milk and eggs.”"


@pytest.mark.parametrize("question", ["What can you do?", "who are you?", "How does this work?"])
async def test_a_user_who_asks_what_they_are_talking_to_is_told(question):
    assert await _ask(question) == ITSELF


async def test_requests_only_a_model_could_serve_are_declined_without_a_search():
    assert await _ask("Can you help me write an email?") == NOT_FROM_MEMORY
    assert await _ask("Write me a poem about the sea.") == NOT_FROM_MEMORY


@pytest.mark.parametrize(
    "question, answer",
    [
        ("Who is Pieter?", "Your partner is Pieter. "),
        ("What is my husband's name?", "Your partner is Pieter. "),
        ("What are my children's names?", "Your children are Mia and Noah. "),
        ("Tell me about my family", "Your partner is Pieter. Your children are Mia and Noah. "),
        ("Am I allergic to anything?", "You are allergic to walnuts. "),
        ("Which medicine do I take?", "You take warfarin. "),
        ("How old am I?", "You are 42 years old. "),
        ("What car do I drive?", "You drive a Volvo. "),
        ("What is my diet?", "You avoid pork. "),
    ],
)
async def test_a_question_in_other_words_is_answered_from_the_profile(question, answer):
    told = (
        "My husband Pieter is Dutch.", "We have two kids, Mia and Noah.", "I'm allergic to walnuts.",
        "I take warfarin.", "I'm 42.", "I drive a Volvo.", "I don't eat pork.",
    )  # fmt: skip
    assert (await _ask(question, told=told)).startswith(answer)


@pytest.mark.parametrize(
    "question, answer",
    [
        ("Who is my husband?", "Your partner is Pieter. "),
        ("who's our neighbour", "Your neighbour is Marjorie. "),
        ("What are our kids called?", "Your children are Mia and Noah. "),
        ("Where do we live?", "You live in Bergen. "),
        ("Do I have a sister?", "Your brother is Tunde. "),
        ("Who do I work with?", "You work with Helen. "),
        ("What don't I like?", "You do not like prawns. "),
        ("What food do I dislike?", "You do not like prawns. "),
        ("What do I like?", "You enjoy chess. "),
        ("Am I vegetarian?", "Your diet is vegetarian. "),
        ("What's my favourite colour?", "Your favorite color is green. "),
    ],
)
async def test_a_question_as_people_ask_it_is_answered_from_the_profile(question, answer):
    told = (
        "My hobby is chess.", "My husband Pieter is Dutch.", "We have two kids, Mia and Noah.", "I live in Bergen.",
        "Our neighbour Marjorie has cats.", "I work as a nurse.", "My colleague Helen sings.", "I hate prawns.",
        "My brother Tunde is back.", "I'm vegetarian.", "My favourite colour is green.",
    )  # fmt: skip
    assert (await _ask(question, told=told)).startswith(answer)


async def test_a_mother_is_no_mother_tongue():
    told = ("I speak Hindi and Punjabi.", "My mother lives with us.")
    assert "Your languages" not in await _ask("What is my mother's name?", told=told)
    assert (await _ask("What is my mother tongue?", told=told)).startswith("Your languages are Hindi and Punjabi.")


async def test_of_several_values_only_the_one_that_is_asked_about_is_told():
    told = ("I hate coriander.", "I'm not a fan of dogs.")
    assert (await _ask("Do I like dogs?", told=told)).startswith("You do not like dogs. On Monday")


async def test_of_several_colleagues_the_boss_is_told_in_the_words_that_named_them():
    told = ("My boss Helen is great.", "My colleague Imran is vegan.")
    assert await _ask("Who is my boss?", told=told) == f"On Monday 2 November you said: “{told[0]}”"


async def test_between_two_quotations_there_is_a_full_stop():
    told = ("my knee hurts", "the knee is much better")
    assert "hurts”. On Monday" in await _ask("What about my knee?", told=told)


async def test_asked_what_was_said_on_a_day_it_quotes_what_mattered_then():
    told = ("My train to Porto leaves at 9:40.", "ok", "My sister gets married on 12 December.")
    said = await _ask("what did I tell you last monday", told=told)
    assert told[0] in said and said.index(told[2]) > said.index(told[0]) and "ok" not in said
    assert await _ask("What did I tell you yesterday?", told=told) == "I don't remember anything from that time."


async def test_what_is_known_begins_with_who_somebody_is_whatever_was_said_first():
    told = ("I'm allergic to walnuts.", "My mum Lena sings.", "My name is Mara.")
    said = await _ask("What do you know about me?", told=told)
    assert said.splitlines()[1:4] == [
        "– Your name is Mara.",
        "– Your mother is Lena.",
        "– You are allergic to walnuts.",
    ]


@pytest.mark.parametrize(
    "told, answer",
    [
        (("I'm a vegetarian.",), "Your diet is vegetarian. "),
        (("I'm a vegetarian.", "I don't eat mushrooms."), "Your diet is vegetarian. You avoid mushrooms. "),
    ],
)
async def test_a_diet_is_what_somebody_is_and_what_they_avoid(told, answer):
    assert (await _ask("What is my diet?", told=told)).startswith(answer)


async def test_asked_what_was_talked_about_it_tells_how_the_conversations_began():
    said = await _ask("What did we talk about last time?")
    assert said == f"These conversations began with:\n– on Monday 2 November: “{TOLD[0]}”"
    assert await _ask("What did we talk about yesterday?") == "I don't remember a conversation from that time."
    assert await _ask("What did we talk about?", told=()) == "This is our first conversation."


async def test_a_fact_is_quoted_once_in_the_words_it_was_learned_from():
    told = ("We have two kids, Inês who is 7 and Leo who is 4.",)
    assert await _ask("How old is Leo?", told=told) == f"On Monday 2 November you said: “{told[0]}”"


async def test_a_corrected_statement_is_quoted_with_its_correction():
    told = ("Inês has ballet on Tuesdays and Thursdays at five.", "Ok, scratch that, ballet is on Fridays now.")
    said = await _ask("When does Inês have ballet?", told=told)
    assert told[0] in said and said.index(told[1]) > said.index(told[0])


async def test_a_plan_is_quoted_with_what_came_instead_in_a_later_talk(memory, clock):
    mara = memory.user("mara")
    await mara.session("one").add_message("user", "We're thinking of going to Porto in February")
    clock.advance(days=8)
    await mara.session("two").add_message("user", "Actually Porto is off, we found flights to Seville instead")
    await mara.session("two").add_message("user", "Actually I could eat a whole cake")
    await memory.work()
    said = await MemoryAgent().reply(mara.session("later"), "Where are we going in February?", at=as_datetime(clock()))
    assert said.index("Seville") > said.index("thinking of") and "cake" not in said


async def test_what_is_put_right_a_minute_later_need_not_name_it_again():
    told = ("need to get Marjorie flowers, she likes lillies", "no wait, lilies are toxic for her cats. Tulips.")
    said = await _ask("Which flowers does Marjorie like?", told=told)
    assert said.index("Tulips") > said.index("lillies")


async def test_the_current_value_does_not_answer_what_was_before_or_when():
    told = ("I live in Porto.", "I work as a radiographer.")
    assert "You live in" not in await _ask("Where did I live before Porto?", told=told)
    assert "You work as" not in await _ask("When do I work?", told=told)


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("occupation", "UX researcher", "You work as a UX researcher"),
        ("occupation", "HR manager", "You work as an HR manager"),
        ("occupation", "university lecturer", "You work as a university lecturer"),
        ("occupation", "usher", "You work as an usher"),
        ("format", "no bullet points", "You prefer answers without bullet points"),
        ("format", "tables", "You prefer answers in the form of tables"),
        ("emoji", "none", "You prefer answers without emoji"),
        ("code_comments", "yes", "You prefer code with comments"),
    ],
)
def test_known_facts_are_phrased_as_people_say_them(key, value, said):
    assert holds(key, [value]) == said


async def test_an_earlier_question_is_not_an_answer():
    said = await _ask("What is my dog called?", told=("What is my dog called?",))
    assert said == "I don't remember anything about that."


async def test_its_own_words_are_quoted_only_when_asked_for():
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


async def test_from_a_long_message_only_the_matching_sentence_is_quoted():
    long = "The weather was dull. " * 30 + "My cat is called Admiral. " + "Nothing else happened. " * 30
    said = await _ask("What is my cat called?", told=(long,))
    assert said.endswith("you said: “My cat is called Admiral.”")


WEEK = (
    "The interview in Newcastle is on the 19th of October, on the big cardiac ward of the hospital by the river.",
    "I always eat far too late when I work at night, and then I cannot sleep until the afternoon is over.",
    "And Juno is allergic to kiwi, so the cake that we order for her party has to come without any fruit.",
    "We still need three bedrooms for at most 950 a month, close to a primary school with a place for her.",
)


@pytest.mark.parametrize(("days", "who"), [(2, "you said"), (40, "I noted")])
async def test_a_message_is_quoted_once_and_later_from_the_notes_without_what_was_said_beside_it(
    memory, clock, days, who
):
    mara = memory.user("mara")
    for said in WEEK:
        await mara.session("monday").add_interaction(said, "I see.")
        await memory.work()
    for passed in (2, days - 2):
        clock.advance(days=passed)
        await memory.maintain()
        await memory.work()
    answer = await MemoryAgent().reply(mara.session("later"), "What is Juno allergic to?", at=as_datetime(clock()))
    assert answer.endswith(f" {who}: “{WEEK[2]}”") and answer.count("“") == 1


async def test_a_lesson_is_not_quoted_beside_the_words_it_was_learned_from():
    told = (
        "We close on 24 december.",
        "Actually it's until 4 january, the 3rd is a sunday and we're closed then anyway",
    )
    said = await _ask("When are we closed?", told=told)
    assert said.count("until 4 january") == 1 and "you said" in said


async def test_a_quote_stays_on_one_line_and_moves_no_cursor():
    said = await _ask("What is my cat called?", told=("My cat is called\n\x1b[2JAdmiral \u202e.",))
    assert "\x1b" not in said and "\n" not in said and "\u202e" not in said


@pytest.mark.parametrize("question", ["What do you know about me?", "what do you remember", "Who am I?"])
async def test_asked_what_is_known_it_tells_the_profile_and_then_what_else_was_said(question):
    told = (*TOLD, "I live in Oslo.", "I moved to Bergen.", "I prefer dark mode.", "Hello!", "What is my cat called?")
    said = await _ask(question, told=told)
    lines = [
        "Your name is Mara.",
        "You live in Bergen.",
        "You work as a structural engineer.",
        "You prefer the dark theme.",
    ]
    assert all(f"– {line}" in said for line in lines) and TOLD[1] in said
    assert not any(text in said for text in ("Oslo", "Hello", "What is my cat", "theme:"))
    assert await _ask(question, told=()) == "I don't know anything about you yet. Tell me something."


@pytest.mark.parametrize(
    "text, asks",
    [
        ("What is my cat called", True), ("Tell me about Lisbon", True), ("really?", True), ("how old am I", True),
        ("which team do I support", True), ("what time do we open", True), ("What a day. I am tired", False),
        ("Remind me what my cat is called", True), ("Remind me to buy milk", False), ("Tell me to stop", False),
        ("When I was five, I fell.", False), ("I know what I like.", False), ("Will is my brother.", False),
    ],
)  # fmt: skip
def test_questions_are_distinguished_from_statements(text, asks):
    assert is_question(text) is asks


async def test_a_former_value_is_told_with_its_end_date(memory, clock):
    chat = memory.user("ann").session("s")
    await chat.add_message("user", "I live in Oslo.")
    await memory.work()
    clock.advance(days=30)
    await chat.add_message("user", "I moved to Bergen.")
    await memory.work()
    for question in ("Where did I live before?", "Where did I live before Bergen?"):
        told = await MemoryAgent().reply(chat, question)
        assert told.startswith("You lived in Oslo, until ") and told.endswith(" Now you live in Bergen.")
    assert (await MemoryAgent().answer(chat, "Where did I live before?")).facts[0].value == "Oslo"


async def test_asked_about_a_past_time_it_tells_what_was_true_then():
    told = ("I live in Oslo.", "I moved to Bergen yesterday.")
    assert await _ask("Where did I live in November 2026?", told=told, days=40) == (
        "You lived in Bergen, since 2 November. Before that, you lived in Oslo, until 2 November."
    )


@pytest.mark.parametrize(
    "question, answer",
    [
        ("Which theme do I like?", "You prefer the dark theme. "),
        ("What food should I avoid?", "You are allergic to walnuts. "),
        ("What do I do for a living?", "You work as a baker. "),
        ("Where do I work?", "You work at Equinor. "),
        ("Which languages do I speak?", "Your languages are Portuguese and Norwegian. "),
    ],
)
async def test_the_profile_is_told_in_plain_sentences(question, answer):
    told = (
        "I prefer dark mode.", "I'm allergic to walnuts.", "I work as a baker.", "I work at Equinor.",
        "I speak Portuguese and Norwegian.",
    )  # fmt: skip
    assert (await _ask(question, told=told)).startswith(answer)


@pytest.mark.parametrize(
    "question", ["What is the airspeed of a swallow?", "blorp fizz wug?", "Do I like cheese?", "Why is the sky blue?"]
)
async def test_a_question_that_nothing_matches_gets_no_answer(question):
    told = (*TOLD, "I prefer dark mode.", "I'm allergic to walnuts.", "I love hiking.")
    assert await _ask(question, told=told) == "I don't remember anything about that."


async def test_it_waits_for_what_was_said_a_moment_ago_to_be_learned(memory, clock, monkeypatch):
    monkeypatch.setattr(agent, "PATIENCE_TRIES", 10_000)
    ann = memory.user("ann")
    await ann.session("one").add_message("user", "I moved to Lisbon in May.")
    reply = asyncio.create_task(MemoryAgent().reply(ann.session("two"), "Where do I live?", at=as_datetime(clock())))
    await asyncio.sleep(0.05)
    assert not reply.done()
    await memory.work()
    assert "Lisbon" in await reply


async def test_a_question_is_answered_even_if_no_worker_learns(memory, clock, monkeypatch):
    monkeypatch.setattr(agent, "PATIENCE_TRIES", 2)
    ann = memory.user("ann")
    await ann.session("one").add_message("user", "I moved to Lisbon in May.")
    said = await MemoryAgent().reply(ann.session("two"), "Where do I live?", at=as_datetime(clock()))
    assert said.startswith("I don't remember")
