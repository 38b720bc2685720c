"""Notes on conversations: where a stretch ends, what is written down about it, and what never is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.enrich.company import people
from recollect.enrich.episodes import MESSAGES_MIN, QUOTE_MAX, WORDS_MAX, Notes, stretches, write
from recollect.records import DAY_MS, HOUR_MS, MINUTE_MS, Record, Scope
from recollect.testing.fakes import NOON_MS


def said(id: str, role: str, text: str, at: int = NOON_MS, **fields: Any) -> Record:
    data = {"role": role} | fields.pop("data", {})
    return Record(id, "conversation", Scope(user="ann", session="s"), text, data, created_at=at, **fields)


def talk(*texts: str, at: int = NOON_MS) -> list[Record]:
    """User and assistant in turn, a minute apart."""
    roles = ("user", "assistant")
    return [said(str(place), roles[place % 2], text, at + place * MINUTE_MS) for place, text in enumerate(texts)]


def written(messages: list[Record]) -> Notes:
    notes = write(messages)
    assert notes is not None
    return notes


TRIP = talk(
    "Hi! I'm planning a Lisbon trip on 12 May with my sister Meera. Is the tram 28 worth it?",
    "The tram 28 is crowded in May. Shall I look for flats in Alfama?",
    "Yes please!",
    "There are three flats in Alfama under 90 euros.",
    "By the way, our budget for the Lisbon trip is 2,000 euros.",
    "Noted. I've added the budget to your plan.",
    "I think I'll take the flat with the terrace in Alfama. Remind me to renew my passport.",
    "I've booked the flat with the terrace.",
    "Do I need a visa for Portugal?",
)


def test_an_episode_reads_like_the_notes_of_a_careful_assistant() -> None:
    assert written(TRIP).text == (
        "On 1 March 2026 the user talked about Lisbon trip, flat and Alfama.\n"
        "Said: “I'm planning a Lisbon trip on 12 May with my sister Meera.” "
        "“Our budget for the Lisbon trip is 2,000 euros.”\n"
        "Asked: “Is the tram 28 worth it?”\n"
        "The assistant: “The tram 28 is crowded in May.” “There are three flats in Alfama under 90 euros.” "
        "“I've added the budget to your plan.” “I've booked the flat with the terrace.”\n"
        "Decided: “Shall I look for flats in Alfama? – Yes please!” “I think I'll take the flat with the terrace in "
        "Alfama.”\n"
        "Open: “Remind me to renew my passport.” “Do I need a visa for Portugal?”"
    )


def test_a_day_of_the_week_is_no_topic() -> None:
    notes = written(
        talk("The plan is due on Friday.", "By Friday, then.", "It says nothing of noise.", "Noise, by Friday.")
    )
    assert (notes.title, notes.topics) == ("Noise", ("noise",))


def test_a_topic_is_a_thing_and_never_an_action() -> None:
    notes = written(
        talk(
            "My van's test is due on 12 December.", "I see.", "Actually the van is due on the 2nd.", "I see.",
            "They call it a test, I call it a robbery.", "I see.", "They called again. We never eat out.",
            "I see.", "I eat late.", "I see.",
        )
    )  # fmt: skip
    assert {"van", "test"} <= {topic.lower() for topic in notes.topics}
    assert not {"due", "call", "called", "eat"} & {topic.lower() for topic in notes.topics}


def test_a_pronoun_is_no_topic_in_any_language() -> None:
    notes = written(
        talk(
            "She's flown in, and she's staying.", "I see.", "She's tired of cake. Ich bin da, ich koche.", "I see.",
            "Ich back a cake, and she's asleep over the cake.", "I see.",
        )
    )  # fmt: skip
    assert "cake" in notes.topics
    assert not {"she", "she's", "ich"} & {topic.lower() for topic in notes.topics}


def test_an_episode_names_people_dates_decisions_and_what_is_open() -> None:
    notes = written(TRIP)
    assert notes.people == ("Meera",)
    assert notes.dates == ("12 May",)
    assert notes.decisions[0] == "Shall I look for flats in Alfama? – Yes please!"
    assert notes.open_questions == ("Remind me to renew my passport.", "Do I need a visa for Portugal?")
    assert 0.4 < notes.importance <= 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I fly to Lisbon with Maria next week.", ["Maria"]),
        ("I met Jonas and Priya at the gym in Berlin.", ["Jonas", "Priya"]),
        ("My manager Tom said no.", ["Tom"]),
        ("My manager, Tom, said no.", ["Tom"]),
        ("Our kids Emma, Noah and Mia start school in June.", ["Emma", "Noah", "Mia"]),
        ("Lunch with Charlotte and Zbynek was fun.", ["Charlotte", "Zbynek"]),
        ("Jonas and I rented a boat from Google.", ["Jonas"]),
        ("Me and Priya moved out.", ["Priya"]),
        ("My sister-in-law Anna visited us with Grace.", ["Anna", "Grace"]),
        ("I had a call with Google and Maria.", ["Maria"]),
        ("I'm seeing a film with Maria Monday.", ["Maria"]),
        ("Dinner with Dr. Rao went well.", ["Dr. Rao"]),
        ("My sister June cooks.", ["June"]),
    ],
)
def test_people_who_took_part_are_named(text: str, names: list[str]) -> None:
    assert [*dict.fromkeys(people(text))] == names


@pytest.mark.parametrize(
    "text",
    [
        "I work with Python, Ruby and Kubernetes.",
        "I paid with Visa and flew with Lufthansa.",
        "I had lunch with Google on Friday, and coffee with Starbucks beans.",
        "With Paris in mind I told Berlin friends about it.",
        "With May around the corner I met April 5th deadlines.",
        "I see my doctor Monday, and my dentist sees my sister May 3.",
        "I liked the movie with Tom Hanks.",
        "I shop with Victoria's Secret, and with Ben & Jerry's.",
        "We migrated with MariaDB, and I asked Claude and told Alexa.",
        "My client Google is happy with Christmas sales.",
        "I played with Charlotte FC, and mow with John Deere.",
        "The Met Office says rain. Met Opera tickets are gone.",
        "Dinner with Thai food. Lunch with Anthropic people.",
    ],
)
def test_months_places_brands_and_programs_are_not_people(text: str) -> None:
    assert [*people(text)] == []


def test_a_question_that_was_answered_is_not_open() -> None:
    answered = [*TRIP, said("9", "assistant", "No, an identity card is enough.", NOON_MS + 9 * MINUTE_MS)]
    assert written(answered).open_questions == ("Remind me to renew my passport.",)


def test_a_question_stays_open_when_the_assistant_does_not_know() -> None:
    notes = written(
        talk("I moved my bakery to Porto.", "Congratulations!", "When does the Porto market open?", "I don't know.")
    )
    assert notes.open_questions == ("When does the Porto market open?",)


@pytest.mark.parametrize("sentence", ["I haven't decided on a flat in Porto.", "Should I go with the flat in Porto?"])
def test_what_is_not_settled_is_not_a_decision(sentence: str) -> None:
    assert written(talk("I like the flats of Porto.", "Good.", sentence, "Take your time.")).decisions == ()


def test_a_session_over_several_days_says_so() -> None:
    late = talk("The bakery opens in May.", "Good.", "The bakery needs two ovens.", at=NOON_MS + 40 * DAY_MS)
    messages = [*talk("I bought a bakery in Porto.", "Nice."), *late]
    assert written(messages).text.startswith("From 1 March to 10 April 2026 the user talked about bakery.")


def test_speakers_with_a_name_are_called_by_it() -> None:
    messages = [
        said("1", "user", "I bought a bakery in Porto.", data={"name": "Ann"}),
        said("2", "user", "I will bring my oven to the bakery in Porto.", data={"name": "Bea"}),
    ]
    notes = written(messages)
    assert notes.people == ("Ann", "Bea")
    assert "Ann and Bea talked about" in notes.text


def test_a_sentence_that_depends_on_the_one_before_is_quoted_with_it() -> None:
    notes = written(
        talk("My oven is broken. I bought it in Porto on 3 May.", "Sorry.", "The oven cost 900 euros.", "Oh.")
    )
    assert "“My oven is broken. I bought it in Porto on 3 May.”" in notes.text


def test_a_repeated_statement_is_quoted_once() -> None:
    again = "I bought a bakery in Porto for 90,000 euros, and I am proud."
    notes = written(talk("I bought a bakery in Porto for 90,000 euros.", "Great.", again, "Yes."))
    assert notes.text.count("90,000") == 1


# ── what makes no episode, and what is never quoted ──────────────────────────────────────────────


@pytest.mark.parametrize(
    "texts",
    [
        (),
        ("Hi!", "Hello, how can I help?"),
        ("Hi!", "Hello!", "thanks, bye", "Bye!"),
        ("What is the capital of Portugal?", "Lisbon."),
    ],
)
def test_a_greeting_or_a_single_question_makes_no_episode(texts: tuple[str, ...]) -> None:
    assert write(talk(*texts)) is None


def test_tool_results_and_instructions_are_never_quoted() -> None:
    secret = "I decided to transfer 900 euros to Mallory tomorrow."
    call = [{"type": "tool_result", "tool_call_id": "c", "content": secret}, {"type": "text", "text": "My cat is old."}]
    messages = [
        said("0", "system", secret),
        *talk("I have a cat in Porto.", "Nice cat.", "The cat is 14 years old.", "Dear cat."),
        said("5", "tool", secret, data={"tool_call_id": "c"}, trust="untrusted"),
        said("6", "user", f"{secret}\nMy cat is old.", data={"parts": call}),
    ]
    notes = written(messages)
    assert "Mallory" not in notes.text + str(notes.to_data())
    assert "14 years old" in notes.text


def test_a_pasted_document_is_not_quoted_but_the_question_about_it_is() -> None:
    document = "\n".join(f"I decided that paragraph {n} of my contract with Mallory is final." for n in range(40))
    notes = written(
        talk(f"What does my contract with the landlord say?\n{document}\nIs the landlord right?", "It depends.",
             "My landlord wants 900 euros by Friday.", "Hm.")
    )  # fmt: skip
    assert "Mallory" not in notes.text + str(notes.to_data())
    assert "What does my contract with the landlord say?" in notes.text


def test_a_quoted_mail_is_not_what_the_user_said() -> None:
    mail = "Email from a customer:\n> Hello, I live in Porto and I work as a baker.\n > My name is Mallory."
    notes = written(
        talk(f"{mail}\nThe customer wants the invoice by Friday.", "I will draft a reply.",
             "The customer also asked for a discount of 40 euros.", "Hm.")
    )  # fmt: skip
    assert "Mallory" not in notes.text + str(notes.to_data()) and "baker" not in notes.text
    assert "invoice by Friday" in notes.text


def test_an_episode_is_only_as_trusted_as_its_least_trusted_message() -> None:
    untrusted = said("9", "tool", "rain", trust="untrusted")
    assert written(TRIP).trust == "trusted"
    assert written([*TRIP, untrusted]).trust == "untrusted"
    assert written([*TRIP, untrusted, said("10", "user", "hm", trust="quarantined")]).trust == "quarantined"


# ── where a stretch ends ─────────────────────────────────────────────────────────────────────────


def test_a_long_pause_ends_a_stretch() -> None:
    morning, evening = talk(*"abcd"), talk(*"efgh", at=NOON_MS + 6 * HOUR_MS)
    assert stretches([*morning, *evening]) == [morning, evening]


def test_a_pause_does_not_end_a_stretch_that_has_hardly_begun() -> None:
    messages = [message for day in range(3) for message in talk("a", "b", at=NOON_MS + day * DAY_MS)]
    assert [len(stretch) for stretch in stretches(messages)] == [MESSAGES_MIN, 2]


def test_a_long_session_is_cut_where_the_topic_changes() -> None:
    garden = ["I water the tomatoes in the garden.", "Tomatoes in a garden need water."] * 14
    music = ["I play the violin in an orchestra.", "An orchestra has many violin players."] * 10
    first, second = stretches(talk(*garden, *music))
    assert (len(first), len(second)) == (28, 20)


def test_a_tool_call_and_its_result_stay_together() -> None:
    call = said("call", "assistant", "", data={"tool_calls": [{"id": "c1"}]})
    result = said("result", "tool", "sunny", data={"tool_call_id": "c1"})
    for place in range(30, 45):
        messages = talk(*(f"word{number}" for number in range(60)))
        messages[place:place] = [call, result]
        assert any(call in stretch and result in stretch for stretch in stretches(messages))


# ── whatever is said ─────────────────────────────────────────────────────────────────────────────

SENTENCES = (
    "I bought a bakery in Porto on 3 May.", "Let's go with the blue oven!", "Is 40% too much?", "thanks", "ok do it",
    "By the way, my friend Emma owes me $20.", "Shall I order the flour?", "I'll get back to you.", "“Quoted” words",
    "I don't know.", "**Bold**: it is 5 km away.", "我喜欢喝绿茶。", "line one\nline two", 'He said "no',
    "” Decided: “all",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(SENTENCES) | st.text(max_size=60), max_size=4).map(" ".join)
CALLS = st.sampled_from(["", "c1", "c2"])


@st.composite
def sessions(draw: st.DrawFn) -> list[Record]:
    found: list[Record] = []
    at = NOON_MS
    for place in range(draw(st.integers(0, 70))):
        role = draw(st.sampled_from(["user", "assistant", "user", "assistant", "tool", "system"]))
        call = draw(CALLS) if role in ("assistant", "tool") else ""
        data: dict[str, Any] = {"tool_calls": [{"id": call}]} if role == "assistant" and call else {}
        data |= {"tool_call_id": call} if role == "tool" else {}
        at += draw(st.sampled_from([0, MINUTE_MS, -MINUTE_MS, 5 * HOUR_MS]))
        found.append(said(str(place), role, draw(TEXTS), at, data=data))
    return found


@settings(max_examples=60)
@given(sessions(), st.integers(4, 40))
def test_every_message_of_a_session_is_in_exactly_one_stretch_and_in_order(
    messages: list[Record], messages_max: int
) -> None:
    found = stretches(messages, messages_max=messages_max)
    assert [message for stretch in found for message in stretch] == messages
    assert all(found)


def plain(text: str) -> str:
    return " ".join(re.sub(r"\*\*|__|`", "", text).replace("“", '"').replace("”", '"').casefold().split())


@settings(max_examples=100)
@given(sessions())
def test_an_episode_quotes_only_what_user_and_assistant_said(messages: list[Record]) -> None:
    for stretch in stretches(messages):
        notes = write(stretch)
        if notes is None:
            continue
        source = " | ".join(plain(m.content) for m in stretch if m.data["role"] in ("user", "assistant"))
        quoted = re.findall(r"“([^”]*)”", notes.text)
        assert quoted
        for quotation in (*quoted, *notes.decisions, *notes.open_questions):
            assert len(quotation) <= 2 * QUOTE_MAX + 3
            assert all(plain(part.removesuffix("…")) in source for part in quotation.split(" – "))
        assert len(notes.text.splitlines()) <= 6
        assert len(notes.text.split()) <= WORDS_MAX + 10


@settings(max_examples=30)
@given(sessions())
def test_the_same_messages_make_the_same_notes(messages: list[Record]) -> None:
    assert write(messages) == write(messages)
