"""What is known about a user, on the command line and in a chat: profile, facts, learnings, instructions."""

from __future__ import annotations

import json

import pytest

from recollect.interfaces.noticing import Known, in_one_line, news
from recollect.profile import Fact

TALK = "Hi, I'm Ann and I live in Oslo with my sister Ana.\nI love pottery.\nI prefer short answers.\n"


@pytest.fixture
def ann(recollect):
    """Somebody who told a little about herself."""
    assert recollect("chat", "--script", "-", "--session", "monday", input=TALK).code == 0
    return recollect


def _values(ran) -> list[str]:
    return [fact["value"] for fact in ran.json]


# ── Help and errors ──────────────────────────────────────────────────────────────────────────────


def test_a_noun_without_a_verb_lists(ann):
    assert ann("facts", "--json").json == ann("facts", "list", "--json").json


@pytest.mark.parametrize("wrong", [["facts", "frob"], ["facts", "--frob"], ["facts", "--user", "ann", "set", "a", "b"]])
def test_an_option_of_the_noun_is_never_silently_dropped_before_a_verb(recollect, wrong):
    ran = recollect(*wrong, at=None)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("recollect: usage: ")


@pytest.mark.parametrize(
    "command",
    [
        ["profile"], ["facts"], ["facts", "history", "city"], ["facts", "end", "city"], ["facts", "pin", "city"],
        ["learnings"], ["learnings", "confirm", "x"], ["customize"], ["customize", "off", "x"],
        ["entities"], ["entities", "get", "customer", "1"], ["entities", "invalidate", "--all"], ["graph"],
        ["graph", "show", "Ana"], ["graph", "merge", "Ana", "Anita"], ["episodes"], ["episodes", "close", "monday"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_that_read_or_change_create_no_file(recollect, tmp_path, command):
    ran = recollect(*command, at=None)
    assert (ran.code, ran.out) == (1, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "command"),
    [
        (1, ["facts", "history", "shoe size"]),
        (1, ["facts", "end", "shoe size"]),
        (1, ["facts", "confirm", "hobby", "rugby"]),
        (1, ["learnings", "confirm", "nothing"]),
        (1, ["customize", "on", "nothing"]),
        (2, ["profile", "--as-of", "yesterday"]),
        (2, ["facts", "set", "city", "Oslo", "--confidence", "2"]),
        (2, ["facts", "set", "?!", "Oslo"]),
        (2, ["learnings", "add", "tidy", "--type", "mood"]),
        (2, ["customize", "add", " "]),
    ],
)
def test_a_mistake_is_one_line_with_its_exit_code(ann, code, command):
    ran = ann(*command)
    assert ran.code == code
    assert (ran.out + ran.err).count("\n") == 1


# ── The profile ──────────────────────────────────────────────────────────────────────────────────


def test_the_profile_shows_facts_and_settings(ann):
    told = ann("profile")
    assert told.code == 0
    assert told.out.startswith("Ann, last seen ")
    assert all(word in told.out for word in ("city", "Oslo", "sibling", "Ana", "verbosity", "concise"))
    known = ann("profile", "--json").json
    assert (known["name"], known["preferences"]) == ("Ann", {"verbosity": "concise"})


def test_nothing_is_known_about_a_user_before_they_speak(ann):
    ran = ann("profile", "--user", "bob")
    assert ran.code == 1
    assert ran.out.startswith(f"Nothing is known about bob in {_file(ann)}.\n") and "recollect chat" in ran.out


def _file(recollect) -> str:
    return recollect("sessions", "--user", "bob").out.partition(" in ")[2].rstrip(".\n")


def test_the_profile_of_an_earlier_day_is_what_was_true_then(ann):
    assert ann("facts", "set", "city", "Rome", "--since", "2019-03-01", "--until", "2020-05-01").code == 0
    then = ann("profile", "--as-of", "2019-06-01", "--json").json
    assert [(fact["key"], fact["value"]) for fact in then["facts"]] == [("city", "Rome")]
    unknown = ann("profile", "--known-at", "2019-06-01")
    assert unknown.code == 1 and unknown.out.startswith("Nothing is known of that time about me in ")


# ── Facts ────────────────────────────────────────────────────────────────────────────────────────


def test_setting_a_fact_ends_the_previous_value_and_keeps_it(ann):
    assert "Known now: city = Bergen, since " in ann("facts", "set", "city", "Bergen").out
    was, now = ann("facts", "history", "city", "--json").json
    assert (was["value"], was["status"], now["value"], now["valid_to"]) == ("Oslo", "ended", "Bergen", None)
    assert "Oslo" in ann("facts", "history", "City").out


def test_what_is_over_or_yet_to_begin_is_not_said_to_be_known_now(ann):
    assert (
        "Known until 2019-01-01: diet = vegan.\n" in ann("facts", "set", "diet", "vegan", "--until", "2019-01-01").out
    )
    assert "Known from 2126-01-01 on: pet = Rex.\n" in ann("facts", "set", "pet", "Rex", "--since", "2126-01-01").out
    assert "Known now: city = Oslo" in ann("facts", "set", "city", "Rome", "--since", "2001-01-01").out, "it came later"
    lived = ann("graph", "relate", "Ida", "lives_in", "Rome", "--since", "2001-01-01", "--until", "2002-01-01").out
    assert lived.startswith("Known until 2002-01-01: Ida lives in Rome")


def test_setting_a_fact_creates_the_file_it_is_stored_in(recollect):
    assert recollect("facts", "set", "city", "Bergen").code == 0
    assert _values(recollect("facts", "--json")) == ["Bergen"]


def test_a_fact_is_found_by_search_at_once(recollect):
    assert recollect("facts", "set", "favourite tea", "oolong").code == 0
    assert "oolong" in recollect("search", "Which tea is the favourite?", "--layer", "fact").out


def test_a_known_preference_is_recognised_by_name_and_others_by_the_option(ann):
    assert ann("facts", "set", "theme", "dark").code == 0
    assert ann("facts", "set", "font", "large", "--preference").code == 0
    assert ann("profile", "--json").json["preferences"] == {"verbosity": "concise", "theme": "dark", "font": "large"}
    assert _values(ann("facts", "--preference", "--json")) == ["concise", "dark", "large"]


def test_a_fact_can_be_corrected_ended_and_rejected_with_a_reason(ann):
    assert ann("facts", "correct", "sibling", "Anna", "--instead-of", "Ana").out.startswith("Corrected: sibling = Anna")
    assert ann("facts", "end", "hobby", "pottery", "--reason", "no kiln").code == 0
    assert ann("facts", "reject", "city").code == 0
    assert {fact["key"]: fact["value"] for fact in ann("facts", "--json").json} == {"name": "Ann", "sibling": "Anna"}
    assert "pottery (no kiln)" in ann("facts", "history", "hobby").out
    assert "never true" in ann("facts", "history", "city").out


def test_a_fact_can_be_confirmed_pinned_and_unpinned(ann):
    assert ann("facts", "confirm", "city", "--json").json[0]["status"] == "confirmed"
    assert ann("facts", "pin", "city", "--json").json[0]["status"] == "pinned"
    ann("chat", "--script", "-", input="I live in Rome now.\n")
    assert ann("facts", "unpin", "city", "--json").json[0]["value"] == "Oslo"


# ── Learnings ────────────────────────────────────────────────────────────────────────────────────


def test_a_learning_is_stored_confirmed_contradicted_and_taken_back(recollect):
    kept = recollect("learnings", "add", "asks for a summary first", "--json").json
    assert kept["confidence"] == 0.5
    surer = recollect("learnings", "confirm", kept["id"], "--json").json
    assert surer["confidence"] > 0.5
    while not recollect("learnings", "contradict", kept["id"], "--json").json["retired"]:
        pass
    assert recollect("learnings").code == 1
    assert "(retired)" in recollect("learnings", "--retired").out
    assert recollect("learnings", "restore", kept["id"]).out.startswith("Restored")
    assert "asks for a summary first" in recollect("learnings", "--type", "pattern").out


def test_a_learning_of_the_org_is_seen_by_all_and_changed_only_with_org_wide(recollect):
    kept = recollect("learnings", "add", "Quote prices in euro.", "--org-wide", "--confidence", "0.9", "--json").json
    assert "(for everybody)" in recollect("learnings", "--user", "bob").out
    assert recollect("learnings", "confirm", kept["id"]).code == 1
    assert recollect("learnings", "confirm", kept["id"], "--org-wide").code == 0


# ── Instructions ─────────────────────────────────────────────────────────────────────────────────


def _instructions(recollect, *more: str) -> list[tuple[str, bool]]:
    return [(each["id"], each["on"]) for each in recollect("customize", "list", *more, "--json").json]


def test_instructions_are_added_changed_switched_ordered_and_deleted(recollect):
    for id in ("tone", "units"):
        assert recollect("customize", "add", f"Mind the {id}.", "--id", id).code == 0
    assert recollect("customize", "off", "tone").out.startswith("Off: Mind the tone.")
    assert recollect("customize", "order", "units", "tone").code == 0
    assert _instructions(recollect) == [("units", True), ("tone", False)]
    assert recollect("customize", "on", "tone").code == 0
    assert recollect("customize", "change", "tone", "Be kind.").out.startswith("Changed: Be kind.")
    assert recollect("customize", "delete", "units").out == "Deleted.\n"
    assert _instructions(recollect) == [("tone", True)]
    assert recollect("customize", "order", "tone", "tone").code == 2
    assert recollect("customize", "add", "Again.", "--id", "tone").code == 3


def test_a_user_overrides_a_default_of_the_org(recollect):
    assert recollect("customize", "add", "Be polite.", "--org-wide", "--id", "manners").code == 0
    assert recollect("customize", "add", "Be brief.", "--agent", "support", "--id", "length").code == 0
    assert _instructions(recollect, "--agent", "support") == [("manners", True), ("length", True)]
    assert recollect("customize", "off", "manners").code == 0
    assert _instructions(recollect) == [("manners", False)]
    assert _instructions(recollect, "--org-wide") == [("manners", True)]
    assert "Be polite." not in recollect("context", "Hello?").out


# ── While talking ────────────────────────────────────────────────────────────────────────────────


def test_roommates_and_colleagues_are_reported_as_people_met(recollect):
    told = recollect("chat", "--script", "-", input="My roommate is called Sam.\nMy colleague is called Ida.\n").out
    assert "met: Sam (roommate)" in told and "met: Ida (colleague)" in told


def test_a_turn_reports_what_was_learned_from_it(recollect):
    talk = "I'm Ann. I live in Oslo with my sister Ana.\nI live in Bergen now.\nI prefer short answers.\nWhat is new?\n"
    told = recollect("chat", "--script", "-", input=talk).out
    assert "learned: name = Ann, city = Oslo; met: Ana (sibling)" in told
    assert "learned: city = Bergen (was Oslo)" in told
    assert "prefers: verbosity = concise" in told
    said = [json.loads(line) for line in recollect("chat", "--script", "-", "--json", input=talk).out.splitlines()]
    assert said[1]["learned"] == ["learned: city = Bergen (was Oslo)"]
    assert "learned" not in said[-1]


def test_the_profile_can_be_asked_for_while_talking(recollect):
    assert "I know nothing about you yet." in recollect("chat", "--script", "-", input="/profile\n").out
    told = recollect("chat", "--script", "-", input=f"{TALK}/profile\n/help\n").out
    assert "city               Oslo\n" in told
    assert "prefers verbosity  concise\n" in told
    assert "/profile " in told


def test_what_is_no_longer_true_is_reported_too():
    before = Known(facts=(Fact("hobby", "rugby"), Fact("city", "Oslo")), learnings=("tidy",))
    after = Known(facts=(Fact("city", "Rome"),), learnings=("tidy", "early"), relations=("Ana lives in Oslo",))
    lines = news(before, after)
    assert lines == [
        "learned: city = Rome (was Oslo)",
        "no longer: hobby = rugby",
        "noted: early",
        "learned: Ana lives in Oslo",
    ]
    assert in_one_line(lines).startswith("learned: city = Rome (was Oslo), Ana lives in Oslo; no longer: ")


def test_nothing_in_a_value_can_control_the_terminal(recollect):
    assert recollect("facts", "set", "city", "Os\x1b[31mlo").code == 0
    told = recollect("profile").out + recollect("facts").out + recollect("facts", "history", "city").out
    assert told.count(r"Os\x1b[31mlo") == 3
    assert "\x1b" not in told
