"""Extraction without a model: what people say about themselves is learned, and what only looks like it is not."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.enrich import Draft, Enricher, corrections, preferences, sentences
from recollect.enrich.by_rules import Rules
from recollect.enrich.rules import promising, read
from recollect.enrich.spelling import spelled_out
from recollect.policies.keys import ALIASES, KEYS, key_of, same_value
from recollect.records import DAY_MS, Record, Scope, iso
from recollect.testing.labelled import AT, PRECISION_MIN, RECALL_MIN, Utterance, learned, measure, names, utterances

SETS = {name: utterances(name) for name in names()}
LABELLED = SETS["utterances"]
EVERY = [utterance for said in SETS.values() for utterance in said]


def facts(text: str, answered: str = "") -> list[Draft]:
    return [draft for draft in read(text, AT, answered=answered) if draft.layer == "fact"]


def fact(text: str, answered: str = "") -> Draft:
    (only,) = facts(text, answered)
    return only


# ── Quality ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "said"), SETS.items())
def test_most_statements_are_learned_and_what_is_learned_is_right(name: str, said: list[Utterance]) -> None:
    total, by_key, faults = measure(said)
    print(f"\n{name}: {len(said)} utterances, {sum(not u.says for u in said)} of them traps\n  {total}")
    print("\n".join(f"  {key:22} {tally}" for key, tally in sorted(by_key.items())))
    print("\n".join(faults))
    assert total.precision >= PRECISION_MIN
    assert total.recall >= RECALL_MIN


def test_the_labelled_sets_are_large_and_half_of_them_are_traps() -> None:
    assert len(EVERY) >= 1_500
    assert sum(not utterance.says for utterance in EVERY) * 2 >= len(EVERY)


def test_a_statement_is_also_found_in_a_longer_message() -> None:
    before = "The weather was terrible all week and the trains were late again. "
    for utterance in EVERY:
        if utterance.answered or "\n" in utterance.text or not utterance.says:
            continue
        assert set(learned(before + utterance.text)) == set(learned(utterance.text)), utterance.text


def test_a_correction_is_learned_in_a_sentence_and_not_as_a_bare_name() -> None:
    said = "No, Karim is my brother in law not my cousin, people always mix it up"
    lessons = [draft.value for draft in read(said, AT, answered="Your cousin Karim?") if draft.layer == "learning"]
    assert lessons == ["Karim is my brother in law not my cousin, people always mix it up"]


def test_a_request_that_ends_with_always_is_kept() -> None:
    for said in ("give me the short version always", "check the numbers every time, please"):
        assert [draft.value for draft in read(said, AT) if draft.layer == "learning"] == [said]
    assert not read("give up always", AT) and not read("I check the numbers every time", AT)


@pytest.mark.parametrize(
    "said", ['No, I meant "retries"', "No I meant the `timeout` parameter", 'Please stop saying "great question"']
)
def test_a_lesson_keeps_what_it_quotes(said: str) -> None:
    (lesson,) = [draft for draft in read(said, AT, answered="Done.") if draft.layer == "learning"]
    assert lesson.value.removeprefix("the user meant ") in said
    assert lesson.value.endswith(('"retries"', "`timeout` parameter", '"great question"'))


@pytest.mark.parametrize(
    "how", ["I got a new job", "I've got a new job", "I have a new job", "I landed a job", "I found a new job"]
)
def test_a_new_job_is_learned_however_it_came_about(how: str) -> None:
    assert learned(f"{how} as a teacher.") == [("occupation", False, "teacher")]
    assert learned(f"{how} as of Monday.") == learned(f"If {how} as a teacher, I would move.") == []


# ── Traps ────────────────────────────────────────────────────────────────────────────────────────

STATEMENTS = [
    statement
    for utterance in LABELLED
    if utterance.says and (statement := utterance.text.rstrip(".! ")).lower().startswith(("i ", "i'm", "my "))
    if not utterance.answered and not set(statement) & set('.!?\n"')
]
"""Single sentences that each state something, to be placed where they are not meant."""


@given(st.sampled_from(STATEMENTS), st.sampled_from(["do you know if {}", "is it true that {}?", "what if {}"]))
def test_a_question_teaches_nothing(statement: str, question: str) -> None:
    assert learned(question.format(statement)) == []


@given(
    st.sampled_from(STATEMENTS),
    st.sampled_from(['she said "{}"', "translate: {}", "pretend that {}", "> {}", "```\n{}\n```", "{} jk"]),
)
def test_what_is_not_meant_teaches_nothing(statement: str, frame: str) -> None:
    assert learned(frame.format(statement)) == []


# ── What a draft carries ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "opening",
    [
        "Here is what a candidate wrote under About me; does anything strike you as odd?",
        "Could you have a look at my friend's cover letter?",
        "Here is the README, what's missing?",
        "What do you reckon about this guy's profile",
        "My landlord just sent this, what do I reply?",
        "About page of our competitor, opinions please:",
        "Is the tone right here?",
        "translation needed, the text:",
        "# pawprint",
        "JOB DESCRIPTION",
    ],
)
@pytest.mark.parametrize(
    "pasted", ["I'm Dominik, 29, from Brno, and I work at Bosch.", "My name is Rui. I have two cats."]
)
def test_a_pasted_document_teaches_nothing(opening: str, pasted: str) -> None:
    assert learned(f"{opening}\n\n{pasted}") == []


@pytest.mark.parametrize("answer", ["(Ada) You are late.", "*sighs* You again?", 'Ada: "You are late."'])
def test_in_a_game_of_roles_nothing_is_learned_until_somebody_steps_out_of_it(answer: str) -> None:
    played = "I'm married to Clara now, and I live in Vienna."
    assert not read(played, AT, answered=answer)
    assert {draft.value for draft in facts(f"(OOC) {played}", answered=answer)} >= {"Clara", "Vienna"}
    assert {draft.value for draft in facts(played, answered="Note: the tram is late.")} >= {"Clara", "Vienna"}


@pytest.mark.parametrize(
    "opening", ["Hi there,", "Some background first.", "Here's a bit about me:", "I have two questions."]
)
def test_what_the_user_says_in_a_separate_paragraph_is_learned(opening: str) -> None:
    assert learned(f"{opening}\n\nI'm vegan and I live in Ghent.") == [
        ("diet", False, "vegan"),
        ("city", False, "Ghent"),
    ]


def test_a_text_above_the_request_about_it_teaches_nothing() -> None:
    assert learned("I am Tom and I live in Perth.\n\nWhat do you think of this bio?") == []


@pytest.mark.parametrize(
    ("text", "key", "value", "said"),
    [
        ("me n Dylan broke up", "partner", "Dylan", "me n Dylan"),
        ("my bdays tomorrow n i havent planned a thing", "birthday", "March 16", "my bdays tomorrow"),
        ("can u help me, i speak tagalog n english", "language", "English", "i speak tagalog n english"),
        ("got diagnosed w coeliac disease", "medical_condition", "coeliac disease", "got diagnosed w coeliac disease"),
        ("im allergic 2 penicillin", "allergy", "penicillin", "im allergic 2 penicillin"),
    ],
)
def test_casual_spelling_is_read_and_the_span_covers_what_was_written(text, key, value, said) -> None:
    draft = next(draft for draft in facts(text) if (draft.key, draft.value) == (key, value))
    assert text[slice(*draft.span)] == said


@pytest.mark.parametrize(
    "text", ["for n in range(10): print(n)", "i have 2 cats and 4 dogs", "Salt n Pepa", "r and python", "w"]
)
def test_a_letter_that_may_be_a_name_or_a_number_is_left_alone(text: str) -> None:
    assert spelled_out(text).text == text


@pytest.mark.parametrize(
    ("text", "said", "value"),
    [
        ("I live in Málaga.", "Málaga", "Málaga"),
        ("My wife is called Ngọc Ánh.", "Ngọc Ánh", "Ngọc Ánh"),
        ("\u200fI live in Łódź\u200f, u know.", "Łódź", "Łódź"),
        ("I am \u0662\u0669 years old.", "\u0662\u0669", "29"),
        ("Ｉ live in Ｏｓｌｏ!", "Ｏｓｌｏ", "Oslo"),
    ],
)
def test_a_fact_is_the_same_in_every_unicode_form_of_a_message(text: str, said: str, value: str) -> None:
    for form in ("NFC", "NFD"):
        written = unicodedata.normalize(form, text)
        draft = fact(written)
        assert draft.value == value
        assert written[slice(*draft.span)].endswith(unicodedata.normalize(form, said))


def test_accents_are_read_at_both_ends_of_a_long_message() -> None:
    pasted = "e\u0301 " * 20_000
    text = f"I live in Ma\u0301laga. {pasted}. I work at S\u030ckoda."
    assert [(draft.value, text[slice(*draft.span)][-4:]) for draft in facts(text)] == [
        ("Málaga", "laga"),
        ("Škoda", "koda"),
    ]


def test_names_are_read_from_a_sentence_in_another_language_but_no_facts() -> None:
    drafts = read("Me llamo Sofía y I like mucho Madrid porque está bien.", AT)
    assert [(draft.layer, draft.value) for draft in drafts] == [("entity", "Madrid")]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("my boyfriend Kamal and I broke up last week", "partner", "Kamal"),
        ("Hannes isn't my boyfriend any more, we split up in January", "partner", "Hannes"),
        ("we had to give our parrot Kiki away", "pet", "Kiki"),
        ("not vegan anymore btw", "diet", "vegan"),
        ("I'm not allergic to penicillin after all", "allergy", "penicillin"),
        ("I haven't worked at Lidl since March", "employer", "Lidl"),
        ("Ok I failed at being vegetarian, had a bacon sandwich", "diet", "vegetarian"),
        ("I gave up on being vegan last week", "diet", "vegan"),
        ("gave up the propranolol, it made me dizzy", "medication", "propranolol"),
        ("I came off sertraline in May", "medication", "sertraline"),
        ("ok update: broke up with yannick", "partner", "Yannick"),
        ("me and yannick split up", "partner", "Yannick"),
        ("Pepper died in June", "pet", "Pepper"),
        ("we had to put Biscuit to sleep yesterday", "pet", "Biscuit"),
    ],
)
def test_an_end_names_who_or_what_has_ended(text: str, key: str, value: str) -> None:
    assert learned(text) == [(key, True, value)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("my GP swapped me to topiramate", ("medication", "topiramate")),
        ("the doctor has added atorvastatin", ("medication", "atorvastatin")),
        ("I'm Maren, night-shift nurse on a cardiac ward", ("occupation", "night-shift nurse")),
        ("should say I don't eat meat, so leave that out when I ask for lunches", ("avoids", "meat")),
        ("can you keep answers short, I read them between two alarms", ("verbosity", "concise")),
        ("and then there's my actual brother Duarte, 24, he's in the army", ("sibling", "Duarte")),
        ("I got a dog. He is a schnauzer called Bosse.", ("pet", "Bosse")),
        ("they put me on Mounjaro instead", ("medication", "Mounjaro")),
        ("I have a heart condition", ("medical_condition", "heart condition")),
        ("I have a pacemaker", ("medical_condition", "pacemaker")),
        ("I have eczema on my hands", ("medical_condition", "eczema")),
        ("The doctor has changed my lisinopril to losartan because of the cough.", ("medication", "losartan")),
        ("I've been vegan for a year", ("diet", "vegan")),
        ("I'm deaf in my left ear", ("medical_condition", "deafness in the left ear")),
    ],
)
def test_what_is_said_in_passing_is_learned(text: str, says: tuple[str, str]) -> None:
    assert says in {(key, value) for key, ends, value in learned(text) if not ends}


@pytest.mark.parametrize(
    "text",
    [
        "My brother Tom changed his life. Moved to Perth in May.",
        "Tom is doing great. Got a job at Google!",
        "She is so happy. Moved to Perth in May.",
        "As a nurse, she is used to nights.",
        "as a teacher he earns next to nothing",
        "Being a nurse is exhausting",
        "being from Ohio is no crime",
        "I deal with depression every day as a therapist",
        "as a student I lived on noodles",
        "As a teacher, I was always tired.",
        "as soon as I'm a doctor I'll move",
        "they prescribed gabapentin for the dog",
        "the doctor prescribed sertraline for my son",
        "Mum is in hospital. They prescribed warfarin.",
    ],
)
def test_what_is_true_of_somebody_else_or_of_anybody_is_not_learned_of_the_user(text: str) -> None:
    assert {key for key, _, _ in learned(text)} <= {"sibling"}


@pytest.mark.parametrize(
    "text",
    [
        "everyone calls me Bobby, I hate it",
        "Everyone calls me Bobby. I hate it.",
        "they call me Ginger at work, which I hate",
        "people call me Liz but I prefer Elizabeth",
        "I can't stand feet and inches",
        "I retired from boxing in 2010",
        "I stopped propranolol for a week before the surgery",
        "me and tom split up the chores",
        "I went vegan for a bit, missed cheese too much",
    ],
)
def test_what_is_unwelcome_over_for_a_while_or_meant_otherwise_is_not_learned(text: str) -> None:
    assert learned(text) == []


@pytest.mark.parametrize(
    "said", ["as a nurse I need good shoes", "as a nurse, I've seen it all", "as a nurse I get up at 5"]
)
def test_who_speaks_as_a_nurse_is_one(said: str) -> None:
    assert learned(said) == [("occupation", False, "nurse")]


@pytest.mark.parametrize(
    "said",
    [
        "I'm Bob. Not a nurse.",
        "I'm Bob. Need a plumber.",
        "I'm Bob. Good morning doctor.",
        "I'm Bob. oh wait wrong assistant",
        "I'm Bob, not a doctor in Berlin",
    ],
)
def test_an_occupation_that_is_named_after_the_user_is_not_always_theirs(said: str) -> None:
    assert learned(said) == [("name", False, "Bob")]
    assert ("occupation", False, "sales assistant") in learned("I'm Bob. Sales assistant.")


def test_a_move_after_a_sentence_about_both_or_about_a_thing_is_the_users() -> None:
    for before in ("My wife and I are happy.", "The flat in Leeds was too small.", "My life changed.", "Hi Anna!"):
        assert ("city", False, "York") in learned(f"{before} Moved to York in May.")


def test_a_move_is_dated_against_the_time_of_the_message() -> None:
    assert iso(fact("I moved to Berlin in June 2022.").valid_from) == "2022-06-01T00:00:00Z"
    assert fact("I've been living in Lisbon for two years").valid_from == AT - 730 * DAY_MS


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        ("From December I am a teacher at a language school.", "2024-12-01"),
        ("I work at Initech from December.", "2024-12-01"),
        ("From the first of April I live in Leeds.", "2024-04-01"),
        ("As of next week I work at Initech.", "2024-03-18"),
        ("Starting Monday I'm vegan.", "2024-03-18"),
        ("I quit my job. From January 2025 I work at Initech.", "2025-01-01"),
    ],
)
def test_what_begins_later_is_true_from_then_on(said: str, begins: str) -> None:
    (begun,) = [draft for draft in facts(said) if not draft.ends]
    assert begun.valid_from is not None and iso(begun.valid_from)[:10] == begins


@pytest.mark.parametrize(
    "said",
    ["From March I work at Initech.", "From January I work at Initech.", "From Monday to Friday I live in Leeds."],
)
def test_what_has_begun_is_true_now(said: str) -> None:
    assert fact(said).valid_from is None


def test_a_statement_that_something_is_over_says_when_it_ended() -> None:
    left = fact("I left Acme in 2022.")
    assert (left.key, left.value, left.ends) == ("employer", "Acme", True)
    assert iso(left.valid_to) == "2022-01-01T00:00:00Z"


def test_an_end_without_a_name_ends_whatever_it_was() -> None:
    assert (fact("I quit my job yesterday").key, fact("I quit my job yesterday").value) == ("employer", "")


def test_an_age_keeps_the_day_it_was_told() -> None:
    assert fact("I'm 29 years old").data == {"as_of": "2024-03-15"}


def test_a_pet_records_its_kind() -> None:
    assert fact("my dog Rex is asleep").data == {"kind": "dog"}


def test_a_correction_names_the_value_that_was_never_right() -> None:
    name = fact("Actually my name is Anna, not Hannah.")
    assert (name.value, name.corrects, name.instead_of) == ("Anna", True, "Hannah")
    assert not fact("I live in Oslo now").corrects


@pytest.mark.parametrize(
    ("text", "key", "value", "instead_of"),
    [
        ("My name is not Tim, it's Tom.", "name", "Tom", "Tim"),
        ("My favourite food is not sushi, it's ramen.", "favorite_food", "ramen", "sushi"),
        ("My dog is actually called Max, not Rex.", "pet", "Max", "Rex"),
    ],
)
def test_a_value_denied_and_corrected_was_never_true(text: str, key: str, value: str, instead_of: str) -> None:
    said = fact(text)
    assert (said.key, said.value, said.corrects, said.instead_of) == (key, value, True, instead_of)


@pytest.mark.parametrize("text", ["I don't have lupus.", "I'm not allergic to nuts.", "Don't call me Zed.", "Bo died."])
def test_a_denied_value_need_never_have_been_true(text: str) -> None:
    denied = fact(text)
    assert denied.ends
    assert denied.valid_from == denied.valid_to == AT


def test_a_death_does_not_make_anybody_a_pet() -> None:
    assert [(d.layer, d.ends) for d in read("Bruno died last week.", AT)] == [("fact", True), ("relation", True)]


@pytest.mark.parametrize(
    ("told", "text", "key", "value", "instead_of"),
    [
        ("Got it, you live in Bern.", "no, Basel", "city", "Basel", "Bern"),
        ("Do you live in Bern?", "nope, basel", "city", "Basel", "Bern"),
        ("Your dog is called Max.", "No, it's Rex.", "pet", "Rex", "Max"),
        ("Your name is Jon, right?", "no, John", "name", "John", "Jon"),
    ],
)
def test_a_bare_no_corrects_what_the_assistant_just_said(told, text, key, value, instead_of) -> None:
    found = fact(text, told)
    assert (found.key, found.value, found.corrects, found.instead_of) == (key, value, True, instead_of)
    assert text[slice(*found.span)].casefold() == value.casefold()


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("You live in Bern.", "no thanks"),
        ("Your dog is called Max.", "no, wait"),
        ("If you live in Bern, take the tram.", "No, Basel"),
        ("Your sister lives in Bern.", "no, Basel"),
        ("Your sister Ingrid lives in Oslo.", "no, Bergen"),
        ("You live in Leeds with Tobi.", "no, Toby"),
        ("Your dog Rex is four years old.", "no, Five"),
        ("You should live in Bern.", "No, Basel"),
        ("You live in Bern.", "No, that's my brother"),
    ],
)
def test_a_no_to_something_else_corrects_nothing(told: str, text: str) -> None:
    assert facts(text, told) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("my gf Priya is vegan but im not", {("partner", "Priya")}),
        ("i'm allergic to latex fyi", {("allergy", "latex")}),
        ("I'm allergic to hazelnuts, by the way.", {("allergy", "hazelnuts")}),
        ("I'm allergic to peanuts and soy, unfortunately.", {("allergy", "peanuts"), ("allergy", "soy")}),
        ("My hobbies are chess, sailing, by the way.", {("hobby", "chess"), ("hobby", "sailing")}),
        ("my stack is mostly typescript + postgres", {("programming_language", "TypeScript"), ("tool", "Postgres")}),
        ("I use Obsidian, Python and Docker", {("tool", "Obsidian"), ("programming_language", "Python"),
            ("tool", "Docker")}),
        ("i speak portugese and a little bit of tagalog", {("language", "Portuguese"), ("language", "Tagalog")}),
        ("my iPhone 13 keeps dying", {("device", "iPhone 13")}),
        ("I drive a beat-up 04 corolla", {("vehicle", "04 Corolla")}),
        ("I run every morning", {("hobby", "running")}),
        ("we play padel on thursdays", {("hobby", "padel")}),
        ("saving up for a trip to Patagonia", {("goal", "save for a trip to Patagonia")}),
        ("they/them please", {("pronouns", "they/them")}),
        ("Dr. Amara Nwosu here, quick question", {("name", "Amara Nwosu")}),
        ("My favorite color used to be red, now it's green", {("favorite_color", "green")}),
        ("my favorite class is linguistics weirdly", {("favorite_class", "linguistics")}),
        ("my favourite film is Apocalypse Now", {("favorite_film", "Apocalypse Now")}),
        ("had lunch with Lou, my best friend from uni", {("friend", "Lou")}),
        ("had you met my sister Ana", set()),
        ("I love mondays... not", set()),
        ("my iPhone app crashes", set()),
        ("I traded my iPhone 12 for a tablet", set()),
        ("I run every test twice", set()),
        ("he/him pronouns are confusing me", set()),
        ("saving up for a house is hard", set()),
    ],
)  # fmt: skip
def test_chat_style_messages_are_read(text: str, says: set[tuple[str, str]]) -> None:
    assert {(found.key, found.value) for found in facts(text) if not found.ends} == says


def test_a_user_who_moves_from_one_place_to_another_has_left_the_first() -> None:
    found = {(each.value, each.ends) for each in facts("we just moved to Tarragona from Zaragoza with the kids")}
    assert found == {("Tarragona", False), ("Zaragoza", True)}


def test_where_a_user_comes_from_is_not_where_they_live() -> None:
    assert related("I come from Ghana.") == {("", "comes_from", "Ghana")}


def test_no_i_meant_is_a_correction_only_after_an_answer() -> None:
    assert learned("No, I meant metric units", "Two cups.") == [("correction", False, "the user meant metric units")]
    assert learned("No, I meant metric units") == []


@pytest.mark.parametrize(
    "said",
    [
        "I'm 56, it's not a great age.",
        "I'm 56 and want to learn to cook, not just barbecue.",
        "No, no. I went to the bank, I'm 56 and I can read a contract.",
    ],
)
def test_a_no_or_a_not_elsewhere_in_the_sentence_does_not_make_the_last_value_wrong(said: str) -> None:
    assert not fact(said).corrects


def test_a_no_that_answers_a_question_corrects_nothing() -> None:
    assert learned("No, it's a family drama.", "Is it a thriller?") == []
    assert learned("No, it's at 4.", "The meeting is at 3.") == [("correction", False, "it's at 4")]


def test_a_misspelt_name_is_corrected() -> None:
    name = fact("Actually it's Anna, not Ana.")
    assert (name.key, name.value, name.corrects, name.instead_of) == ("name", "Anna", True, "Ana")
    assert facts("It's Anna, not Ana.", "Nice to meet you, Ana!")
    assert not facts("It's Anna, not Ana.", "Your sister Ana called.")
    assert not facts("It's Tuesday, not Monday.", "See you on Monday.")


def test_a_clause_that_omits_its_subject_is_read_too() -> None:
    said = learned("I moved to Bergen last month and started at Globex as a data engineer.")
    assert {key: value for key, _, value in said} == {
        "city": "Bergen",
        "employer": "Globex",
        "occupation": "data engineer",
    }


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("I love sushi.", "likes", "sushi"),
        ("I really like Italian food", "likes", "Italian food"),
        ("I'm a big fan of jazz", "likes", "jazz"),
        ("I hate cilantro", "dislikes", "cilantro"),
        ("I can't stand long flights.", "dislikes", "long flights"),
        ("I'm not a fan of crowds", "dislikes", "crowds"),
    ],
)
def test_a_liking_for_a_kind_of_thing_is_kept(text: str, key: str, value: str) -> None:
    taste = fact(text)
    assert (taste.key, taste.value, taste.confidence, taste.ends) == (key, value, 0.7, False)
    assert key_of(key).many


@pytest.mark.parametrize(
    "text",
    ["I love this answer", "I love it", "I'd love to", "I like your idea", "I like that", "I like the second one",
     "I love sushi tonight", "I hate that this happened", "I like warm colors for the logo", "I love how you explain"],
)  # fmt: skip
def test_a_liking_for_the_thing_at_hand_is_not_kept(text: str) -> None:
    assert learned(text) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I don't like prawns, chidi made paella and I picked them out", [("dislikes", "prawns")]),
        ("i like jazz, sam plays trumpet and zoe hates it", [("likes", "jazz")]),
        ("I like dogs, cats not so much", [("likes", "dogs")]),
        ("I can't stand coriander, tastes like soap", [("dislikes", "coriander")]),
        ("I enjoy running, physio says stop", [("hobby", "running")]),
        ("My hobbies are chess, lou plays squash", [("hobby", "chess")]),
        ("I'm allergic to penicillin, nurses always ask", [("allergy", "penicillin")]),
        ("I'm allergic to cats, dogs are fine and so are horses", [("allergy", "cats")]),
        ("I speak French, Spanish is next", [("language", "French")]),
        ("I love baked beans, radio plays and found footage films",
            [("likes", "baked beans"), ("likes", "radio plays"), ("likes", "found footage films")]),
        ("I like cricket, Yorkshire fan through and through", [("hobby", "cricket")]),
        ("I'm allergic to dust, cats and dogs", [("allergy", "dust"), ("allergy", "cats"), ("allergy", "dogs")]),
    ],
)  # fmt: skip
def test_an_enumeration_ends_where_a_sentence_of_its_own_begins(text: str, says: list[tuple[str, str]]) -> None:
    assert [(key, value) for key, _, value in learned(text)] == says


def related(text: str) -> set[tuple[str, str, str]]:
    """Who is what to whom; the user's own name is empty."""
    return {(d.subject, d.key, d.value) for d in read(text, AT) if d.layer == "relation"}


def test_a_fact_that_names_someone_or_something_relates_the_user_to_it() -> None:
    assert related("I moved to Bergen") == {("", "lives_in", "Bergen")}
    assert related("My mum Ruth is here") == {("", "mother", "Ruth")}
    (drives,) = (d for d in read("I drive a Skoda", AT) if d.layer == "relation")
    assert drives.data["object_type"] == "product"


def test_the_user_lives_in_the_nearest_place_and_that_lies_in_the_wider_one() -> None:
    assert related("I live in Portland, Oregon") == {("", "lives_in", "Portland"), ("Portland", "located_in", "Oregon")}


def test_a_stepfather_is_no_father_and_a_mother_in_law_no_mother() -> None:
    assert ("", "stepfather", "Rui") in related("mum lives in Porto with my stepdad Rui")
    assert ("", "mother_in_law", "Greta") in related("my mother-in-law Greta is here")


def test_what_a_sister_does_is_her_own_relation() -> None:
    assert related("my sister Ana lives in Oslo") == {("", "sister", "Ana"), ("Ana", "lives_in", "Oslo")}
    drafts = read("My sister Ana lives in Oslo.", AT)
    assert [(d.key, d.value) for d in drafts if d.layer == "fact"] == [("sibling", "Ana")]
    assert ("lives_in", "Oslo", "Ana") in [(d.key, d.value, d.subject) for d in drafts if d.layer == "relation"]
    assert {("person", "Ana"), ("place", "Oslo")} <= {(d.key, d.value) for d in drafts if d.layer == "entity"}


def test_names_in_a_statement_become_entities() -> None:
    drafts = read("We met Dr. Okafor in Oslo on 3 May 2023 and took my iPad along.", AT)
    named = {(d.key, d.value) for d in drafts if d.layer == "entity"}
    assert {("person", "Dr. Okafor"), ("place", "Oslo"), ("date", "2023-05-03"), ("product", "iPad")} <= named


def test_an_abbreviated_month_is_nobody() -> None:
    assert not read("my wife is due on 3 Jan so I'm out from 20 Dec", AT)


def test_a_part_of_a_longer_name_is_not_an_entity() -> None:
    assert [d.value for d in read("I walked to the Austin Film Festival.", AT)] == []


# ── Whose words are read ─────────────────────────────────────────────────────────────────────────


def message(role: str, content: str, trust: str = "trusted") -> Record:
    return Record(content, "conversation", Scope(user="ann"), content, {"role": role}, created_at=AT, trust=trust)


async def test_only_what_a_trusted_user_says_is_a_source() -> None:
    rules: Enricher = Rules()
    messages = [
        message("system", "My name is System."),
        message("tool", "My name is Tool."),
        message("assistant", "My name is Bot. What is your name?"),
        message("user", "Piyush"),
        message("user", "My name is Mallory.", trust="untrusted"),
    ]
    found = await rules.drafts(messages)
    assert [(each.message.content, each.draft.value) for each in found] == [("Piyush", "Piyush")]
    assert rules.name == "rules-1"


async def test_only_a_reply_to_the_message_just_before_is_an_answer() -> None:
    messages = [message("assistant", "What is your name?"), message("user", "hm"), message("user", "Oslo")]
    assert await Rules().drafts(messages) == []


# ── Bounds ───────────────────────────────────────────────────────────────────────────────────────

PIECES = [u.text for u in LABELLED] + list("\"'`>(){}\n\x00 😀İßﬁ") + ["I ", "my ", "and ", ", ", "Dr. ", "не ", "  "]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=30), max_size=8).map("".join),
    st.sampled_from(["", "Your name?"]),
)
def test_any_text_is_read_and_every_span_lies_within_it(text: str, answered: str) -> None:
    drafts = read(text, AT, answered=answered)
    for draft in drafts:
        first, last = draft.span
        assert 0 <= first < last <= len(text)
        assert 0.5 < draft.confidence <= 0.95
    assert promising(text) or not drafts


@pytest.mark.parametrize(
    ("pattern", "signs"),
    [
        (preferences._REPLY_IN, preferences._BEFORE_A_LANGUAGE),
        (preferences._BACK, preferences._BEFORE_A_LANGUAGE),
        (preferences._PREFERS, ("prefer",)),
        (corrections.DENIED_VALUE, ("my ",)),
        (sentences._FENCE, ("`", "~~~")),
        (sentences._CODE_LINE, sentences._CODE_SIGNS),
        (sentences._SUPPOSED, (" name ", " call ", "if i ", "say ")),
    ],
)
def test_the_quick_look_for_signs_never_misses_what_a_pattern_finds(
    pattern: re.Pattern[str], signs: tuple[str, ...]
) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.from_regex(re.compile(pattern.pattern, pattern.flags), alphabet=st.characters(max_codepoint=127)))
    def look(text: str) -> None:
        found = pattern.search(text)
        assert found is not None and (any(sign in text for sign in signs) or text.startswith("in "))

    look()


OTHER_WORDS = {
    "city": "nyc",
    "place": "nyc",
    "lives_in": "nyc",
    "age": "ty teen 30th",
    "birthday": "birth bday b-day born may turn",
    "occupation": "teach",
    "medical_condition": "coeliac deaf diabetic dyslexic hashimotos seasick",
    "diet": "don't dont can't gave",
    "goal": "saving becoming",
    "hobby": "collect paint run swim",
    "weight": "kilo kg lb pound",
    "height": "1. 1, 1m cm ft foot feet '",
    "medication": "statin",
    "verbosity": "short brief point too fewer",
    "emoji": "emoji",
    "reply_language": "spelling",
    "units": "ounces km",
    "format": "never skip don't stop american",
    "tone": "honest casual formal blunt",
}
"""What may be said instead, by key, where the value is a standard word for it."""


def spoken_words(text: str) -> set[str]:
    return set(re.findall(r"[\w+#]+", text.casefold().replace("’", "'").replace("'s", "")))


def test_the_span_of_a_draft_contains_its_value() -> None:
    for utterance in EVERY:
        for draft in read(utterance.text, AT, answered=utterance.answered):
            said = unicodedata.normalize("NFKC", utterance.text[slice(*draft.span)])
            own = spoken_words(
                re.sub(r"^the user (?:meant|wanted|prefers|would rather be|\w+s best) ", "", draft.value)
            )
            settled = any(word in said.lower() for word in OTHER_WORDS.get(draft.key, "").split())
            day = draft.key == "date" and draft.value[:4] in said
            assert own <= spoken_words(said) or settled or day, (utterance.text, draft)
            assert len(said) <= 120, (utterance.text, draft)


HOSTILE = [
    *" a,\"'`(\n\x00😀",
    "i ",
    "i'm ",
    "my ",
    "and i ",
    "A ",
    ": ",
    ". ",
    "I like a, and i ",
    "my favorite ",
    "write ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_is_read_quickly(piece: str) -> None:
    long = piece * (65_536 // len(piece))
    for text in (long, "I live in " + long, "My dog " + long[:1_400], long[:1_490]):
        began = time.process_time()
        read(text, AT, answered="What is your name?")
        assert time.process_time() - began < 0.05


def test_a_message_that_does_not_mention_the_user_costs_next_to_nothing() -> None:
    assert not promising("The committee published the minutes of the meeting that took place in March. " * 5)


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_spelling_of_a_key_is_the_same_key() -> None:
    assert key_of("Favourite Food").name == key_of("favorite_food").name == "favorite_food"
    assert key_of("Job") is KEYS["occupation"]
    assert key_of("allergies").many
    assert key_of("दिन").name == "दिन" != key_of("दान").name, "vowel signs are letters, too"
    assert key_of("ที่ อยู่").name == "ที่_อยู่"
    assert key_of("re\u0301sume\u0301").name == key_of("Résumé").name == "résumé"
    assert set(ALIASES.values()) <= set(KEYS)
    assert not set(ALIASES) & set(KEYS)


@given(st.text(max_size=200))
def test_a_free_key_is_short_and_stable(name: str) -> None:
    key = key_of(name)
    assert len(key.name) <= 64
    assert key_of(key.name).name == key.name
    assert key.name in KEYS or not key.many


def test_values_are_compared_by_what_they_say() -> None:
    assert same_value("NYC", " nyc. ")
    assert same_value("The Guardian", "guardian")
    assert not same_value("Oslo", "Bergen")


FIRST_MESSAGE = """
import asyncio, sys
from recollect import Memory

async def talk():
    async with Memory.open("memory://", worker=False) as memory:
        print("recollect.enrich.rules" in sys.modules)
        await memory.user("ann").session("a").add_message("user", "I live in Oslo.")
        await memory.work()

asyncio.run(talk())
print("recollect.enrich.rules" in sys.modules)
"""


def test_the_rules_are_loaded_by_the_first_message():
    done = subprocess.run([sys.executable, "-c", FIRST_MESSAGE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    "text", ["I love the pool at our hotel.", "I love the bridge in Porto.", "I practice the go to market pitch."]
)
def test_a_thing_with_an_article_is_not_mistaken_for_a_game_of_the_same_name(text: str) -> None:
    assert facts(text) == []


@pytest.mark.parametrize("game", ["go", "pool", "bridge", "the piano"])
def test_what_somebody_plays_is_a_hobby(game: str) -> None:
    assert fact(f"I play {game} on Fridays.").value == game.removeprefix("the ")
