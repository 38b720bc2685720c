"""The `recollect` program, as people and scripts use it."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pty
import resource
import select
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from recollect import Memory
from recollect.errors import EmbeddingError
from recollect.interfaces import output
from recollect.interfaces.cli import GUESSED
from recollect.interfaces.commands import PANELS, Entry
from recollect.records import Partition

PROGRAM = [sys.executable, "-m", "recollect"]
ENTRIES = {name: entry for entries in PANELS.values() for name, entry in entries.items()}
TEA = {"role": "user", "content": "I drink oolong before noon.", "session": "monday"}
PORTO = {"content": "The office is in Porto.", "metadata": {"topic": "work"}}


def _remember(recollect, lines, *items, user: str = "me"):
    done = recollect("import", lines(*items), "--user", user, "--json")
    assert done.code == 0, done
    return done.json


# ── Help and errors ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ENTRIES)
def test_the_help_of_each_command_and_verb_has_a_purpose_an_example_and_the_exit_codes(recollect, name):
    found = ENTRIES[name].load()
    for command in ([name], *([name, verb] for verb in (() if callable(found) else found))):
        told = recollect(*command, "--help", at=None)
        assert told.code == 0
        assert f"Example: recollect {' '.join(command)}" in told.out
        assert "Exit codes: 0 done" in told.out
        assert "<bool>" not in told.out


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=str)
def test_the_list_describes_a_command_as_the_command_describes_itself(entry: Entry):
    found = entry.load()
    if callable(found):
        assert " ".join(inspect.getdoc(found).partition("\n\n")[0].split()) == entry.purpose
    else:
        assert all(map(callable, found.values()))


def test_without_a_command_it_lists_them_all(recollect):
    told = recollect(at=None)
    assert told.code == 0
    assert all(f" {command} " in told.out for command in ENTRIES)


@pytest.mark.parametrize(
    "arguments",
    [["search"], ["nope"], ["search", "tea", "--limit", "three"], ["search", "tea", "--frob"], ["stats", "extra"]],
)
def test_a_usage_error_is_one_line_on_standard_error_and_exit_2(recollect, arguments):
    ran = recollect(*arguments, at=None)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("recollect: usage: ")
    assert ran.err.count("\n") == 1
    assert "--help`)" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["facts", "set", "city", "Bergen", "--since", "soon"], 2, "(--since)"),
        (["update", "some-id"], 2, "a text, --importance, --metadata or --expires-at"),
        (["reembed", "--user", "nobody"], 1, "`recollect users` lists who has memories"),
        (["reprocess", "--user", "nobody"], 1, "`recollect users` lists who has memories"),
        (["context", "tea", "--user", "nobody"], 0, "nothing relevant is remembered for nobody"),
        (["customize"], 1, "`recollect customize add"),
        (["facts"], 1, "`recollect facts set"),
        (["learnings", "--user", "nobody"], 1, "`recollect users` lists who has memories"),
        (["learnings"], 1, "`recollect facts` lists what is known"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_finding_nothing_or_a_wrong_argument_comes_with_what_to_do(recollect, lines, arguments, code, told):
    _remember(recollect, lines, PORTO)
    ran = recollect(*arguments)
    assert ran.code == code
    assert told in ran.out + ran.err


def test_missing_data_and_missing_files_are_reported_as_such(recollect, tmp_path):
    assert "there is no such file" in recollect("bench", "--data", "nowhere.json", at=None).err
    missing = recollect("backup", str(tmp_path / "copy.db"))
    assert missing.code == 1 and "no memories yet in" in missing.err
    recollect("add", "Tea.")
    taken = recollect("backup", str(tmp_path / "notes.db"))
    assert taken.code == 3 and "notes.db already exists" in taken.err


@pytest.mark.parametrize("guess", sorted(GUESSED))
def test_a_guessed_command_names_the_right_one(recollect, guess):
    ran = recollect(guess, "something", at=None)
    assert ran.code == 2
    assert f"use `recollect {GUESSED[guess]}`" in ran.err
    assert recollect(*GUESSED[guess].split(), "--help", at=None).code == 0


def test_unquoted_words_get_a_hint_to_quote_them_and_are_not_shown(recollect):
    ran = recollect("add", "my", "secret", "diary", at=None)
    assert ran.code == 2
    assert "in quotes" in ran.err and "diary" not in ran.err


@pytest.mark.parametrize("arguments", [["search", "tea", "--where"], ["add", "tea", "--metadata"]])
def test_json_whose_quotes_the_shell_took_gets_a_hint_to_quote_it(recollect, arguments):
    ran = recollect(*arguments, "{topic: work}")
    assert ran.code == 2
    assert """put JSON in quotes, as in '{"topic": "work"}'""" in ran.err


def test_an_error_names_the_field_and_never_the_value(recollect):
    ran = recollect("search", "tea", "--user", "secret\x07name")
    assert ran.code == 2
    assert ran.err.startswith("recollect: user: ")
    assert ran.err.count("\n") == 1
    assert "secret" not in ran.err + ran.out


@pytest.mark.parametrize(
    "toml", ["colour = 1", "window_turns = 'many'", "url = ''", "worker = 3", "not toml", b"\xff\xfe"]
)
def test_wrong_settings_fail_at_the_start(recollect, tmp_path, toml):
    (tmp_path / "recollect.toml").write_bytes(toml if isinstance(toml, bytes) else toml.encode())
    ran = recollect("stats", at=None)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert list(tmp_path.glob("*.db")) == []


@pytest.mark.parametrize(
    ("toml", "where"),
    [
        (b"poll_s = 2\n\nwindow_turns = = 3\n", "line 3, column 16"),
        (b"poll_s = 2\npoll_s = 3\n", "line 2"),
        (b"poll_s = 2\r\nurl = caf\xe9\r\n", "UTF-8, but line 2 is not"),
        (b"layers = [1,\n", "end of document"),
    ],
)
def test_a_settings_file_that_is_not_toml_is_reported_with_the_line(recollect, tmp_path, toml, where):
    (tmp_path / "recollect.toml").write_bytes(toml)
    assert where in recollect("stats", at=None).err


def test_an_empty_environment_variable_fails_at_the_start(recollect, monkeypatch):
    monkeypatch.setenv("RECOLLECT_URL", "")
    assert recollect("stats", at=None).code == 2


def test_a_secret_in_a_url_is_never_shown(recollect):
    ran = recollect("stats", at="mystery://ann:hunter2@db.example/notes")
    assert ran.code == 2
    assert "hunter2" not in ran.err + ran.out
    told = recollect("doctor", at="mystery://ann:hunter2@db.example/notes")
    assert told.code == 1
    assert "hunter2" not in told.err + told.out


def test_a_settings_file_may_begin_with_a_byte_order_mark(recollect, tmp_path):
    (tmp_path / "recollect.toml").write_text('url = "sqlite:///from_file.db"', encoding="utf-8-sig")
    assert recollect("add", "one", at=None).code == 0
    assert (tmp_path / "from_file.db").exists()


def test_the_url_comes_from_the_option_then_the_environment_then_the_file(recollect, tmp_path, monkeypatch):
    (tmp_path / "recollect.toml").write_text('url = "sqlite:///from_file.db"')
    assert recollect("add", "one", at=None).code == 0
    monkeypatch.setenv("RECOLLECT_URL", "sqlite:///from_environment.db")
    assert recollect("add", "two", at=None).code == 0
    assert recollect("add", "three", at="sqlite:///from_option.db").code == 0
    assert {path.name for path in tmp_path.glob("*.db")} == {"from_file.db", "from_environment.db", "from_option.db"}


@pytest.mark.parametrize(
    "command",
    [
        ["search", "tea"], ["context", "tea"], ["sessions"], ["sessions", "--delete", "x"], ["stats"], ["export"],
        ["list"], ["history", "x"], ["forget", "x"], ["erase", "--yes"], ["maintain"], ["worker", "--failures"],
    ],
)  # fmt: skip
def test_commands_that_read_or_forget_create_no_file_and_name_the_one_they_looked_for(recollect, tmp_path, command):
    ran = recollect(*command, at=None)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("recollect: no memories yet in recollect.db; ")
    assert list(tmp_path.iterdir()) == []


# ── One memory ───────────────────────────────────────────────────────────────────────────────────


def test_a_memory_is_added_listed_and_shown_with_its_history(recollect, tmp_path):
    kept = recollect(
        "add", "The office is in Porto.", "--importance", "0.9", "--metadata", '{"topic": "work"}', "--json"
    )
    assert (kept.json["importance"], kept.json["metadata"]) == (0.9, {"topic": "work"})
    assert recollect("add", "I drink oolong.").code == 0
    (listed,) = recollect("list", "--where", '{"metadata.topic": "work"}', "--json").json
    assert listed["id"] == kept.json["id"]
    assert "I drink oolong." in recollect("list").out
    assert "more than these 1" in recollect("list", "--limit", "1").out
    asyncio.run(_move(tmp_path / "notes.db", listed["id"]))
    was, now = recollect("history", listed["id"], "--json").json
    assert (was["content"], now["content"]) == ("The office is in Porto.", "The office is in Faro.")
    told = recollect("history", listed["id"]).out
    assert told.index("Porto") < told.index("now") < told.index("Faro")


async def _move(path: Path, id: str) -> None:
    async with Memory.open(path, worker=False) as memory:
        await memory.user("me").update_memory(id, content="The office is in Faro.")


def test_a_memory_is_changed_and_its_old_text_stays_in_the_history(recollect):
    made = recollect("add", "The office is in Porto.", "--metadata", '{"topic": "work"}', "--json").json
    told = recollect("update", made["id"], "The office is in Lisbon.", "--importance", "0.9")
    assert (told.code, told.out) == (0, "Changed: The office is in Lisbon.\n")
    assert [r["content"] for r in recollect("history", made["id"], "--json").json] == [
        "The office is in Porto.",
        "The office is in Lisbon.",
    ]
    found = recollect("search", "where is the office", "--json").json[0]["record"]
    assert (found["content"], found["importance"], found["metadata"]) == (
        "The office is in Lisbon.",
        0.9,
        {"topic": "work"},
    )
    labelled = recollect("update", made["id"], "--metadata", "{}", "--expires-at", "2999-01-01", "--json").json
    assert labelled["metadata"] == {} and labelled["expires_at"].startswith("2999-01-01")


@pytest.mark.parametrize(
    "change", [[], ["--importance", "2"], ["--metadata", "[]"], ["  "], ["--expires-at", "soon"]], ids=str
)
def test_an_empty_or_impossible_change_is_refused(recollect, change):
    made = recollect("add", "The office is in Porto.", "--json").json
    assert recollect("update", made["id"], *change).code == 2
    assert recollect("list", "--json").json == [made]


def test_only_a_users_own_memory_can_be_changed_and_only_at_the_version_read(recollect):
    made = recollect("add", "The office is in Porto.", "--json").json
    assert recollect("update", made["id"], "Mine now.", "--user", "eve").code == 1
    assert recollect("update", "no-such-memory", "New.").code == 1
    assert recollect("update", made["id"], "New.", "--version", str(made["version"] + 1)).code == 3
    assert recollect("update", made["id"], "New.", "--version", str(made["version"])).code == 0


def test_a_memory_that_upkeep_ended_as_a_duplicate_can_be_brought_back(recollect):
    recollect("add", "The quarterly report is due on Friday at noon.")
    recollect("add", "The quarterly report is due on Friday, at noon!")
    recollect("maintain")
    (ended,) = [each for each in recollect("list", "--json").json if each["valid_to"] is not None]
    back = recollect("bring-back", ended["id"])
    assert (back.code, back.out) == (0, f"Restored: {ended['content']}\n")
    assert all(each["valid_to"] is None for each in recollect("list", "--json").json)
    assert recollect("bring-back", ended["id"]).code == 1


def test_a_memory_that_cannot_be_added_is_refused(recollect):
    assert recollect("add", "  ").code == 2
    assert recollect("add", "tea", "--importance", "7").code == 2
    assert recollect("add", "tea", "--metadata", "[1]").code == 2
    assert recollect("add", "tea", "--metadata", "{bad").code == 2


def test_an_empty_list_is_exit_1_and_says_for_whom_and_where(recollect, lines):
    _remember(recollect, lines, TEA)
    for command in (["list"], ["sessions", "--user", "ann"], ["search", "x", "--user", "ann"]):
        ran = recollect(*command)
        assert ran.code == 1
        assert ("me" if command == ["list"] else "ann") in ran.out and "notes.db" in ran.out
        assert "`recollect users` lists who has memories" in ran.out
    assert "no such memory" in recollect("history", "nope").err
    assert "no such session" in recollect("sessions", "--show", "nope").err


def test_a_list_without_memories_says_where_what_was_said_is(recollect):
    recollect("chat", "--script", "-", input="I live in Bergen.\n")
    ran = recollect("list")
    assert ran.code == 1 and "--layer conversation" in ran.out and "recollect facts" in ran.out
    assert "I live in Bergen." in recollect("list", "--layer", "conversation").out
    assert "--layer" not in recollect("list", "--layer", "episodic").out


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────


def test_users_are_listed_with_their_orgs(recollect, lines):
    assert recollect("users", at=None).code == 1
    _remember(recollect, lines, TEA)
    recollect("add", "The office is in Porto.", "--user", "ann", "--org", "acme")
    assert recollect("users", "--json").json == [{"org": "acme", "user": "ann"}, {"org": "default", "user": "me"}]
    assert recollect("users", "--json", "--org", "acme").json == [{"org": "acme", "user": "ann"}]
    assert "ann" in recollect("users").out
    assert recollect("users", "--org", "globex").code == 1


def test_what_was_stored_is_found_and_explained(recollect, lines):
    _remember(recollect, lines, TEA, PORTO)
    ran = recollect("search", "What do I drink?", "--explain")
    assert ran.code == 0
    assert "I drink oolong before noon." in ran.out
    assert "words" in ran.out and "meaning" in ran.out
    assert ran.out.startswith("1  I drink oolong before noon.\n   ")
    (first, *_) = recollect("search", "oolong", "--json").json
    assert first["place"] == 1
    assert first["record"]["content"] == TEA["content"]
    assert set(first["legs"]) >= {"words", "meaning"}


def test_a_search_says_when_nothing_really_fits(recollect, lines):
    _remember(recollect, lines, TEA, PORTO)
    fits = recollect("search", "What do I drink?").out
    assert "relevance" in fits and "Nothing fits well" not in fits
    nothing = recollect("search", "quantum tax helicopter zebra")
    assert nothing.code == 0
    assert nothing.out.startswith("Nothing relevant is remembered. The closest, all weak matches:\n1  ")


def test_weakly_related_hits_are_counted_and_shown_on_demand(recollect, lines):
    dull = [{"content": f"Shelf {number} holds blue paint."} for number in range(3)]
    _remember(recollect, lines, TEA, *dull)
    found = recollect("search", "oolong tea")
    assert found.out.startswith("1  I drink oolong before noon.") and "paint" not in found.out
    assert found.out.endswith("3 more found, only weakly related; --all shows them.\n")
    everything = recollect("search", "oolong tea", "--all").out
    assert everything.count("paint") == 3 and "--all" not in everything
    assert len(recollect("search", "oolong tea", "--json").json) == 4, "programs get what search_memory gives"


def test_nothing_found_is_exit_1_and_valid_json(recollect, lines):
    _remember(recollect, lines, TEA)
    ran = recollect("search", "oolong", "--layer", "preference", "--json")
    assert (ran.code, ran.json) == (1, [])


def test_search_can_be_narrowed_by_layer_and_by_filter(recollect, lines):
    _remember(recollect, lines, TEA, PORTO)
    found = recollect("search", "office oolong", "--layer", "long_term", "--json").json
    assert [hit["record"]["layer"] for hit in found] == ["long_term"]
    found = recollect("search", "office oolong", "--where", '{"role": "user"}', "--json").json
    assert [hit["record"]["content"] for hit in found] == [TEA["content"]]


@pytest.mark.parametrize(
    "query", ['"', "NEAR(", "a AND", "col:x", "^", "*", "(" * 3000, "@{}[]()|~", "a &", "<->", "%_", "\x00"]
)
def test_a_question_is_plain_words_and_never_search_syntax(recollect, lines, query):
    _remember(recollect, lines, TEA)
    assert recollect("search", query).code in (0, 1)


@pytest.mark.parametrize("query", ["", "   ", "x" * 70_000, "\udcff"])
def test_an_empty_endless_or_broken_question_is_refused(recollect, query):
    ran = recollect("search", query)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "1001", str(2**70)])
def test_a_limit_outside_1_to_1000_is_refused(recollect, limit):
    assert recollect("search", "tea", f"--limit={limit}").code == 2


@pytest.mark.parametrize(
    "where",
    [
        "{}", "[]", "null", "3", "{bad", '{"k\') = 1 OR 1=1 --": 1}', '{"$or": []}', '{"colour": 1}',
        '{"layer": {"near": 1}}', '{"user": "ann"}', '{"layer": "fact", "layer": "fact"}', '{"importance": NaN}',
        '{"created_at": {"gte": "2026-02-01", "lt": "2026-01-01"}}', '{"created_at": "2026-01-01T10:00:00"}',
        "[" * 5000,
    ],
)  # fmt: skip
def test_a_filter_that_is_not_understood_is_refused(recollect, where):
    for command in (["search", "tea"], ["forget"]):
        ran = recollect(*command, "--where", where)
        assert ran.code == 2, where
        assert ran.err.startswith("recollect: ")


def test_a_context_stays_within_its_budget_and_says_what_is_in_it(recollect, lines):
    _remember(recollect, lines, TEA, PORTO)
    ran = recollect("context", "Where is the office?", "--session", "monday", "--max-tokens", "300", "--explain")
    assert ran.code == 0
    assert "The office is in Porto." in ran.out
    assert "of 300 tokens" in ran.out
    built = recollect("context", "Where is the office?", "--max-tokens", "300", "--json").json
    assert built["tokens"] <= 300
    asked = built["messages"][-1]
    assert asked["role"] == "user" and asked["content"].endswith("Where is the office?")
    assert recollect("context", "x", "--max-tokens", "0").code == 2


def test_a_context_is_made_of_what_a_policy_says(recollect, lines):
    _remember(recollect, lines, TEA, PORTO)
    ask = ("context", "Where is the office?", "--session", "monday", "--json", "--policy")
    assert [part["name"] for part in recollect(*ask, '{"sections": ["recent"]}').json["sections"]] == ["recent"]
    for wrong in ('{"sections": ["dreams"]}', "[]", "short", '{"budget": 5}'):
        ran = recollect(*ask, wrong)
        assert ran.code == 2 and "policy" in ran.err and "dreams" not in ran.err


def test_a_piped_context_does_not_wrap_the_lines_of_a_memory(recollect, lines):
    long = "The office is in Porto, " + "by the river, " * 30 + "and the lift is broken."
    _remember(recollect, lines, {"content": long})
    assert long in recollect("context", "Where is the office?").out


def test_a_budget_too_small_for_anything_is_reported(recollect, lines):
    _remember(recollect, lines, PORTO)
    ran = recollect("context", "Where is the office?", "--max-tokens", "20")
    assert ran.code == 0
    assert ran.err.startswith("recollect: nothing fits into 20 tokens")


def test_sessions_are_listed_shown_renamed_and_deleted(recollect, lines):
    _remember(recollect, lines, TEA, {"role": "assistant", "content": "Noted.", "session": "monday"})
    (listed,) = recollect("sessions", "--json").json
    assert (listed["id"], listed["messages"]) == ("monday", 2)
    assert recollect("sessions", "--rename", "monday", "Tea").code == 0
    assert "Tea" in recollect("sessions").out
    shown = recollect("sessions", "--show", "monday", "--json").json
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
    assert recollect("sessions", "--delete", "monday").code == 0
    assert recollect("sessions", "--json").json == []


def test_a_session_is_closed_once_and_becomes_an_episode(recollect, lines):
    _remember(recollect, lines, TEA, TEA | {"content": "My sister Clara moves to Porto in May."})
    closed = recollect("sessions", "--close", "monday")
    assert closed.code == 0 and "I drink oolong before noon." in closed.out
    assert len(recollect("episodes", "--session", "monday", "--json").json) == 1
    again = recollect("sessions", "--close", "monday")
    assert (again.code, again.out) == (
        1,
        "There is nothing to add: everything is in an episode already, or too little was said.\n",
    )


def test_a_session_is_compressed_and_keeps_its_messages(recollect, lines):
    said = [TEA | {"content": f"Lap {number} took {60 + number} seconds."} for number in range(6)]
    _remember(recollect, lines, *said)
    assert recollect("sessions", "--compress", "monday", "--json").json == {"compressed": True}
    records = recollect("stats", "--json").json["records"]
    assert (records["conversation"], records["summary"]) == (6, 1)
    told = recollect("context", "Which lap?", "--session", "monday", "--json").json
    assert any("Lap 0" in message["content"] for message in told["messages"])
    assert recollect("sessions", "--compress", "tuesday").code == 1


def test_a_session_is_branched_from_a_message(recollect, lines):
    _remember(recollect, lines, TEA, TEA | {"content": "And coffee after it."})
    first = recollect("list", "--layer", "conversation", "--json").json[0]["id"]
    told = recollect("sessions", "--branch", "monday", first, "what if")
    assert (told.code, told.out) == (0, "`recollect chat --session 'what if'` continues from there.\n")
    branched = recollect("sessions", "--show", "what if", "--json").json["messages"]
    assert [message["content"] for message in branched] == [TEA["content"]]
    refused = recollect("sessions", "--branch", "monday", "no-such-message", "other")
    assert refused.code == 1 and "no such message" in refused.err


def test_two_actions_at_once_and_a_dry_run_of_closing_are_refused(recollect, lines):
    _remember(recollect, lines, TEA)
    assert recollect("sessions", "--close", "monday", "--delete", "monday").code == 2
    assert recollect("sessions", "--close", "monday", "--dry-run").code == 2
    assert len(recollect("sessions", "--json").json) == 1


def test_the_state_of_a_task_is_set_changed_shown_and_cleared(recollect):
    there = ("--session", "monday", "--agent", "guide")
    assert recollect("working", "set", '{"step": 1, "plan": ["pack"]}', *there).out == "Saved as version 1.\n"
    patched = recollect("working", "patch", '{"step": 2, "plan": null}', *there, "--json").json
    assert patched == {"state": {"step": 2}, "version": 2}
    assert recollect("working", *there, "--json").json == patched
    assert recollect("working", "set", "{}", *there, "--version", "1").code == 3
    assert recollect("working", "show").code == 1, "that of the session is not that of the user"
    assert recollect("working", "show", "--agent", "guide").code == 2
    assert recollect("working", "set", "[1]").code == 2
    assert recollect("working", "clear", *there).code == 0
    for action in ('"read"', '{"wrote": 2}', '"left"'):
        pushed = recollect("working", "push", "recent", action, "--keep", "2", *there, "--json").json["state"]
    assert pushed == {"recent": [{"wrote": 2}, "left"]}
    refused = recollect("working", "push", "recent", "read", *there)
    assert refused.code == 2 and "a text needs its own quotes" in refused.err
    assert recollect("working", "clear", *there).code == 0
    assert recollect("working", "show", *there).code == 1


def test_a_question_can_be_asked_as_of_another_day(recollect, lines):
    _remember(recollect, lines, TEA | {"created_at": "2026-03-03T09:00:00Z"})
    asked = recollect("search", "what did I say yesterday", "--at", "2026-03-04", "--quality", "fast", "--json")
    assert asked.json[0]["record"]["content"] == TEA["content"]
    assert recollect("search", "tea", "--at", "soonish").code == 2
    assert recollect("search", "tea", "--quality", "superb").code == 2
    built = recollect("context", "tea", "--session", "monday", "--layer", "long_term", "--at", "2026-03-04", "--json")
    assert built.code == 0
    assert recollect("context", "tea", "--agent", "guide").code == 2


def test_a_session_is_shown_with_its_times_its_ids_and_what_is_no_text(recollect, lines):
    call = {"id": "c1", "type": "function", "function": {"name": "find_order", "arguments": "{}"}}
    picture = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    said = [
        {"role": "user", "content": [{"type": "text", "text": "Where is it?"}, picture], "id": "m1"},
        {"role": "assistant", "content": None, "tool_calls": [call], "id": "m2"},
        {"role": "tool", "content": "shipped", "tool_call_id": "c1", "id": "m3"},
    ]
    told = [each | {"session": "monday", "created_at": f"2026-03-0{day}T09:30:00Z"} for day, each in enumerate(said, 1)]
    assert recollect("import", lines(*told)).code == 0
    shown = recollect("sessions", "--show", "monday").out
    heads = [line for line in shown.splitlines() if line.endswith(":")]
    assert [(line.split(",")[0], line.split(", ")[1][:10], line.split()[-1]) for line in heads] == [
        ("user", "2026-03-01", "m1:"), ("assistant", "2026-03-02", "m2:"), ("tool", "2026-03-03", "m3:"),
    ]  # fmt: skip
    assert "find_order" in shown and "Where is it?\n" in shown and "https://x/y.png" in shown
    assert "None" not in shown and "'text'" not in shown, "nothing of Python"


@pytest.mark.parametrize("option", [["--show", "x"], ["--rename", "x", "y"], ["--close", "x"], ["--delete", "x"]])
def test_a_missing_session_is_exit_1(recollect, option):
    assert recollect("sessions", *option).code == 1


def test_escapes_and_markup_in_memories_are_shown_not_obeyed(recollect, lines):
    nasty = "alert \x1b[31mred\x1b[0m \x9b2J \u202eevil\u202c \u200bzero [bold]b[/bold] \x07 <memory> \U000e0041tag"
    _remember(recollect, lines, {"role": "user", "content": nasty, "session": "monday"})
    for command in (["search", "alert"], ["sessions"], ["sessions", "--show", "monday"], ["context", "alert"],
                    ["search", "alert", "--json"], ["export"]):  # fmt: skip
        out = recollect(*command).out
        assert not any(c in out for c in "\x1b\x9b\x07\u202e\u200b\U000e0041"), command
        assert "alert" in out and "[bold]b[/bold]" in out
    exported = [json.loads(line) for line in recollect("export").out.splitlines()]
    assert exported[1]["content"] == nasty


# ── Tenancy ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("option", ["--user", "--org"])
@pytest.mark.parametrize("value", ["", "  ", "a\nb", "a{b}", "x" * 129, "\udc80", "\x00"])
def test_an_invalid_id_is_refused(recollect, option, value):
    for command in (["search", "tea"], ["sessions"], ["export"], ["forget", "x"], ["erase", "--yes"]):
        ran = recollect(*command, option, value)
        assert (ran.code, ran.out) == (2, ""), command


@pytest.mark.parametrize(
    "mine, theirs", [("*", "me"), ("%", "a"), ("a_c", "abc"), ("Alice", "alice"), ("\u00e9", "e\u0301")]
)
def test_users_whose_names_look_alike_stay_apart(recollect, lines, mine, theirs):
    _remember(recollect, lines, TEA, user=theirs)
    assert recollect("search", "oolong", "--user", mine, "--json").json == []
    assert recollect("erase", "--yes", "--user", mine).code == 1
    assert recollect("search", "oolong", "--user", theirs).code == 0


def test_another_users_memory_cannot_be_forgotten(recollect, lines):
    _remember(recollect, lines, TEA, user="ann")
    (hit,) = recollect("search", "oolong", "--user", "ann", "--json").json
    ran = recollect("forget", hit["record"]["id"], "--user", "bob")
    assert ran.code == 1
    assert recollect("search", "oolong", "--user", "ann").code == 0


def test_the_same_user_of_two_orgs_is_two_users(recollect, lines):
    file = lines(TEA)
    assert recollect("import", file, "--org", "a", "--user", "ann").code == 0
    assert recollect("search", "oolong", "--org", "b", "--user", "ann").code == 1


# ── Export, forget, erase ────────────────────────────────────────────────────────────────────────


def test_an_export_comes_back_as_it_was(recollect, lines, tmp_path):
    _remember(recollect, lines, TEA, PORTO)
    out = tmp_path / "me.jsonl"
    assert recollect("export", str(out)).code == 0
    assert json.loads(out.read_text().splitlines()[0])["recollect"] == 1
    again = recollect("import", str(out), "--user", "copy", "--json").json
    assert (again["records"], again["new"]) == (2, 2)
    assert _bodies(recollect, "me") == _bodies(recollect, "copy")


def _bodies(recollect, user: str) -> list[dict]:
    rows = [json.loads(line) for line in recollect("export", "--user", user).out.splitlines()[1:]]
    return sorted(({k: v for k, v in row.items() if k not in ("scope", "version")} for row in rows), key=str)


def test_a_dash_is_standard_output_for_an_export_and_standard_input_for_an_import(recollect, lines, tmp_path):
    recollect("import", lines({"content": "Porto."}))
    ran = recollect("export", "-")
    assert (ran.code, ran.err, ran.out.splitlines()[1:]) == (0, "", recollect("export").out.splitlines()[1:])
    assert recollect("import", "-", "--user", "copy", "--json", input=ran.out).json["new"] == 1
    assert recollect("import", "file.jsonl", "--report", "-").code == 2
    assert not (tmp_path / "-").exists()


def test_a_dry_run_into_a_new_file_leaves_nothing_behind(recollect, lines, tmp_path):
    ran = recollect("import", lines({"content": "Porto."}, {"content": ""}), "--dry-run", "--json")
    assert (ran.code, ran.json["memories"], ran.json["bad"]) == (2, 1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["file.jsonl"]


def test_an_export_replaces_a_file_only_with_force(recollect, lines, tmp_path):
    _remember(recollect, lines, TEA)
    out = tmp_path / "me.jsonl"
    out.write_text("precious")
    ran = recollect("export", str(out))
    assert (ran.code, out.read_text()) == (3, "precious")
    assert recollect("export", str(out), "--force").code == 0
    assert "oolong" in out.read_text()
    assert out.stat().st_mode & 0o077 == 0


def test_an_export_goes_only_into_a_plain_file(recollect, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for target in (str(tmp_path), "/dev/null", str(tmp_path / "link"), str(tmp_path / "pipe"), "no/such/folder/x"):
        assert recollect("export", target, "--force").code == 2, target
    assert not (tmp_path / "elsewhere").exists()


def test_an_export_that_does_not_fit_the_disk_leaves_nothing_behind(recollect, lines, tmp_path, url):
    _remember(recollect, lines, *({"content": f"{n} " + "x" * 9_000} for n in range(20)))
    before = {path.name for path in tmp_path.iterdir()}
    small = resource.RLIMIT_FSIZE, (100_000, 100_000)
    ran = subprocess.run(
        [*PROGRAM, "export", "me.jsonl", "--url", f"{url}?mode=ro"],
        cwd=tmp_path, capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(*small),
    )  # fmt: skip
    assert ran.returncode == 4
    assert ran.stderr.startswith("recollect: file: cannot be written")
    assert {path.name for path in tmp_path.iterdir()} - before <= {"notes.db-shm", "notes.db-wal"}


def test_forgetting_gives_a_receipt_and_forgetting_again_is_exit_1(recollect, lines):
    _remember(recollect, lines, TEA, PORTO)
    receipt = recollect("forget", "--where", '{"metadata.topic": "work"}', "--json")
    assert (receipt.code, receipt.json["forgotten"]) == (0, {"long_term": 1})
    assert recollect("forget", "--where", '{"metadata.topic": "work"}').code == 1
    assert recollect("forget").code == 2


def test_a_dry_run_lists_what_would_be_forgotten_and_forgets_nothing(recollect, lines):
    _remember(recollect, lines, TEA, PORTO)
    (id,) = (record["id"] for record in recollect("list", "--json").json)
    for command in (
        ["forget", "--where", '{"metadata.topic": "work"}'], ["forget", id], ["sessions", "--delete", "monday"],
    ):  # fmt: skip
        told = recollect(*command, "--dry-run", "--json").json
        assert (told["count"], told["dry_run"]) == (1, True)
        assert "nothing was changed" in recollect(*command, "--dry-run").out
    assert recollect("forget", "nope", "--dry-run").code == 1
    assert recollect("sessions", "--delete", "nope", "--dry-run").code == 1
    assert recollect("forget", "--dry-run").code == 2
    assert recollect("stats", "--json").json["records"] == {"conversation": 1, "long_term": 1}


def test_erasing_asks_first_and_leaves_no_trace_in_the_file(recollect, lines, tmp_path):
    _remember(recollect, lines, {"content": "Rumpelstilzchen is the name."})
    (tmp_path / "file.jsonl").unlink()
    assert recollect("erase").code == 2
    assert recollect("search", "name").code == 0
    receipt = recollect("erase", "--yes", "--json")
    assert receipt.json["count"] == 1
    assert not any(b"Rumpelstilzchen" in path.read_bytes() for path in tmp_path.iterdir())
    assert recollect("erase", "--yes").code == 1


def test_what_is_stored_for_the_whole_org_is_found_by_everybody_and_changed_and_forgotten_alike(recollect):
    kept = recollect("add", "The office closes at six.", "--org-wide", "--metadata", '{"topic": "work"}', "--json")
    assert kept.json["scope"]["user"] == "" and kept.json["metadata"] == {"topic": "work"}
    for user in ("ann", "bob"):
        assert "closes at six" in recollect("search", "when does the office close", "--user", user).out
    assert recollect("search", "when does the office close", "--org", "other").code == 1
    assert recollect("add", "The office closes at six.", "--org-wide", "--only-new").code == 3
    assert recollect("update", kept.json["id"], "The office closes at seven.", "--org-wide").code == 0
    assert "closes at six" in recollect("history", kept.json["id"], "--org-wide").out
    assert recollect("history", kept.json["id"]).code == 1, "it is nobody's own"
    assert recollect("forget", kept.json["id"]).code == 1, "it is nobody's own"
    assert [each["id"] for each in recollect("list", "--org-wide", "--json").json] == [kept.json["id"]]
    assert recollect("forget", "--org-wide").code == 2
    topic = ("--where", '{"metadata.topic": "work"}')
    assert recollect("forget", *topic, "--org-wide", "--dry-run", "--json").json["forgotten"] == {"long_term": 1}
    assert recollect("forget", *topic, "--org-wide", "--json").json["count"] == 1
    assert "everybody in default" in recollect("list", "--org-wide").out
    assert recollect("search", "when does the office close", "--user", "ann").code == 1


def test_a_whole_org_is_erased_and_no_other(recollect, lines):
    for user in ("ann", "bob"):
        _remember(recollect, lines, PORTO, user=user)
    recollect("add", "The office closes at six.", "--org-wide")
    recollect("add", "Elsewhere.", "--org", "other")
    asked = recollect("erase", "--whole-org")
    assert asked.code == 2 and "all users of the organisation" in asked.err
    assert recollect("erase", "--whole-org", "--yes", "--json").json["forgotten"] == {"long_term": 3}
    assert recollect("users", "--json").json == [{"org": "other", "user": "me"}]


# ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────


def test_upkeep_reports_what_it_did(recollect, lines):
    _remember(recollect, lines, PORTO)
    (told,) = recollect("maintain", "--dry-run", "--json").json
    assert (told["user"], told["retired"], told["dry_run"]) == ("me", [], True)
    assert recollect("maintain").out == "There was nothing to do.\n", "who has nothing done is not listed"


def test_the_worker_processes_waiting_work_once(recollect, lines, monkeypatch):
    monkeypatch.setenv("RECOLLECT_WORKER", "false")
    _remember(recollect, lines, TEA)
    assert recollect("worker", "--once", "--json").json["done"] == 1
    assert recollect("worker", "--once", "--json").json["done"] == 0
    assert recollect("worker", "--failures", "--json").json == []
    assert recollect("worker", "--retry", "nothing").code == 1


class Broken:
    """An embedder that fails."""

    name, dimensions = "broken", 4

    async def embed(self, texts):
        raise EmbeddingError("the embedder is out for lunch")


async def _fail(path: Path) -> None:
    async with Memory.open(path, embedder=Broken(), worker=False, job_attempts_max=1) as memory:
        await memory.user("ann", org="acme").add_memory("The office is in Porto.")
        await memory.work()


def test_work_that_was_given_up_is_listed_with_its_reason_and_can_be_tried_again(recollect, tmp_path):
    asyncio.run(_fail(tmp_path / "notes.db"))
    (failure,) = recollect("worker", "--failures", "--json").json
    assert (failure["org"], failure["user"]) == ("acme", "ann")
    assert "out for lunch" in failure["reason"]
    assert "lunch" in recollect("worker", "--failures").out
    assert "failures" in recollect("doctor").out
    assert "1 job; see" in recollect("stats").out
    assert recollect("worker", "--retry", failure["id"]).code == 0
    assert recollect("worker", "--once", "--json").json["done"] == 1
    assert recollect("worker", "--failures", "--json").json == []


def test_a_store_locked_by_another_process_is_busy(recollect, lines, tmp_path, monkeypatch):
    _remember(recollect, lines, TEA)
    monkeypatch.setenv("RECOLLECT_BUSY_TIMEOUT_S", "0.2")
    with closing(sqlite3.connect(tmp_path / "notes.db", isolation_level=None)) as holder:
        holder.execute("begin immediate")
        assert recollect("import", lines(PORTO)).code == 4
        assert recollect("search", "oolong").code == 0
    assert recollect("import", lines(PORTO)).code == 0


def test_messages_written_to_a_pipe_are_not_wrapped(recollect):
    said = f"I keep bees on the roof, {'and goats in the garden, ' * 12}and that is all."
    ran = recollect("chat", "--script", "-", input=f"{said}\nWhat do I keep on the roof?\n/help\n")
    assert f"      you › {said}\n" in ran.out
    assert [line for line in ran.out.splitlines() if line != line.rstrip()] == []


def test_stats_count_users_layers_and_bytes(recollect, lines):
    _remember(recollect, lines, TEA, PORTO)
    found = recollect("stats", "--json").json
    assert found["users"] == 1
    assert found["records"] == {"conversation": 1, "long_term": 1}
    assert found["bytes"] > 0
    told = "".join(recollect("stats").out.split())  # a long path is wrapped wherever the line ends
    assert "1record" in told and "readonlyno" in told and "/notes.db" in told


def test_stats_show_people_what_they_stored_and_programs_the_rest_as_well(recollect, lines):
    for said in ("I live in Oslo.", "I moved to Bergen."):
        _remember(recollect, lines, {"role": "user", "content": said, "session": "s"})
        recollect("worker", "--once")
    kept = recollect("stats", "--json").json["records"]
    assert {"conversation", "fact", "past"} <= kept.keys()
    told = recollect("stats").out
    assert "fact" in told and "past" not in told and "given up" not in told


def test_stats_show_growth_ages_and_use(recollect, lines):
    old = {"role": "user", "content": "The ferry was late.", "session": "s", "created_at": "2020-01-01"}
    _remember(recollect, lines, PORTO, old)
    found = recollect("stats", "--json").json
    assert (found["ages"]["up to a day"], found["ages"]["older"], found["used"]) == (1, 1, 0.0)
    told = recollect("stats").out
    assert "+1 in a day, +1 in a week, +1 in a month" in told
    assert "1 up to a day, 1 older" in told and "0% of the memories have been in a context" in told


def test_an_erased_user_is_not_counted_in_the_stats(recollect, lines):
    _remember(recollect, lines, PORTO)
    _remember(recollect, lines, PORTO, user="ann")
    recollect("erase", "--user", "ann", "--yes")
    assert recollect("stats", "--json").json["users"] == 1


def test_stats_describe_each_of_several_stores_by_what_it_holds(recollect, lines, tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_LAYERS", f"conversation=sqlite:///{tmp_path}/talk.db")
    _remember(recollect, lines, TEA)
    told = "".join(recollect("stats").out.split())  # a long path is wrapped wherever the line ends
    assert "conversation:where" in told and "/talk.dbconversation:storesqlite" in told
    assert "therest:where" in told and "/notes.dbtherest:storesqlite" in told
    assert "{" not in told


def test_what_an_org_and_the_server_store_is_not_shown_as_a_users(recollect, lines, tmp_path):
    _remember(recollect, lines, TEA)
    recollect("learnings", "add", "Quote prices in euro.", "--org-wide")
    recollect("keys", "create")
    assert "2 users and orgs" in recollect("stats").out
    assert recollect("stats", "--json").json["users"] == 2
    assert "of 2 users and orgs" in recollect("backup", str(tmp_path / "copy.db")).out
    copied = recollect("copy", f"sqlite:///{tmp_path}/copy.db", f"sqlite:///{tmp_path}/other.db", at=None)
    assert "of 2 users and orgs" in copied.out
    kept = recollect("maintain", "--json").json
    assert [output.whose(Partition(each["org"], each["user"])) for each in kept] == ["(the org)", "me", "(the server)"]


def test_upkeep_does_not_report_erased_users(recollect, lines):
    _remember(recollect, lines, TEA)
    recollect("erase", "--yes")
    assert recollect("maintain", "--json").json == []
    assert "{erased}" not in recollect("maintain").out


def test_the_doctor_finds_a_healthy_store_healthy_and_changes_nothing(recollect, lines, tmp_path):
    _remember(recollect, lines, TEA)
    before = (tmp_path / "notes.db").read_bytes()
    checks = recollect("doctor", "--json")
    assert checks.code == 0
    assert {check["state"] for check in checks.json} == {"ok"}
    assert any(str(tmp_path / "notes.db") in check["found"] for check in checks.json)
    assert (tmp_path / "notes.db").read_bytes() == before


def test_the_doctor_creates_no_file(recollect, tmp_path):
    ran = recollect("doctor")
    assert ran.code == 0 and "nothing is kept there yet" in " ".join(ran.out.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["empty", "text", "truncated", "foreign"])
def test_a_file_that_is_not_ours_is_refused_untouched_and_the_doctor_says_what_to_do(
    recollect, lines, tmp_path, damage
):
    path = tmp_path / "notes.db"
    _remember(recollect, lines, TEA)
    whole = path.read_bytes()
    for beside in tmp_path.glob("notes.db-*"):
        beside.unlink()
    path.write_bytes({"empty": b"", "text": b"hello", "truncated": whole[:5000], "foreign": b"GIF89a" * 2000}[damage])
    before = path.read_bytes()
    for command in (["search", "tea"], ["export"], ["stats"]):
        assert recollect(*command).code == 5, command
    told = recollect("doctor")
    assert told.code == 1
    assert "keep a copy" in " ".join(told.out.lower().split())
    assert path.read_bytes() == before


def test_a_file_of_a_newer_version_is_refused_untouched(recollect, lines, tmp_path):
    _remember(recollect, lines, TEA)
    path = tmp_path / "notes.db"
    content = bytearray(path.read_bytes())
    content[60:64] = (99).to_bytes(4)  # SQLite keeps user_version here
    path.write_bytes(content)
    ran = recollect("search", "tea")
    assert ran.code == 4
    assert "upgrade" in ran.err
    assert path.read_bytes() == bytes(content)


def test_a_file_opened_read_only_can_be_read_and_not_written(recollect, lines, url):
    _remember(recollect, lines, TEA)
    assert recollect("search", "oolong", at=f"{url}?mode=ro").code == 0
    assert recollect("import", lines(PORTO), at=f"{url}?mode=ro").code == 4
    assert recollect("erase", "--yes", at=f"{url}?mode=ro").code == 4


@pytest.mark.parametrize("name", ["with space.db", "día.db", "what%3F.db", "a%23b.db", "per%25cent.db", "q'uote.db"])
def test_odd_file_names_work(recollect, lines, tmp_path, name):
    at = f"sqlite:///{tmp_path}/{name}"
    assert recollect("import", lines(TEA), at=at).code == 0
    assert recollect("search", "oolong", at=at).code == 0
    assert recollect("doctor", at=at).code == 0


@pytest.mark.parametrize(
    "at", ["", "notes.db", "sqlite://", "sqlite:///", "sqlite:///" + "x" * 5000, "sqlite:///a%00b"]
)
def test_an_invalid_url_is_refused(recollect, at):
    assert recollect("stats", "--url", at, at=None).code == 2


def test_a_missing_folder_is_unavailable(recollect, tmp_path):
    assert recollect("stats", at=f"sqlite:///{tmp_path}/no/such/notes.db").code == 4


def test_the_speed_check_gives_figures_and_ratios(recollect):
    figures = recollect("bench", "--memories", "300", "--json", at=None).json
    assert all(figure["value"] > 0 for figure in figures)
    assert any("one caller" in figure["ratio"] for figure in figures)
    assert recollect("bench", "--memories", "5", at=None).code == 2


# ── Talking ──────────────────────────────────────────────────────────────────────────────────────


def test_a_script_is_played_and_answered_from_memory(recollect, tmp_path):
    script = tmp_path / "script.txt"
    script.write_text("My bicycle is called Rocinante.\n/new\n\nWhat is my bicycle called?\n/why\n/sessions\n/quit\nno")
    ran = recollect("chat", "--script", str(script), "--session", "one", "--json")
    assert ran.code == 0
    said = [json.loads(line) for line in ran.out.splitlines()]
    first, _, answer, why, listed = said
    assert first == {"session": "one", "user": "My bicycle is called Rocinante.", "assistant": "I'll remember that.",
                     "sources": []}  # fmt: skip
    assert "you said: “My bicycle is called Rocinante.”" in answer["assistant"]
    assert answer["sources"][0] in why["output"]
    assert "one" in listed["output"]


def test_why_shows_the_fact_that_answered_and_the_message_that_said_it(recollect):
    ran = recollect("chat", "--script", "-", "--json", input="I live in Oslo.\nWhere do I live?\n/why\n")
    _, answer, why = (json.loads(line) for line in ran.out.splitlines())
    assert answer["assistant"].startswith("You live in Oslo. Earlier today you said: “I live in Oslo.”")
    assert why["output"].startswith("city: Oslo\n   from your profile: learned")
    assert f"id {answer['sources'][0]}, the message that said it" in why["output"]


def test_lines_can_come_from_a_pipe(recollect):
    ran = recollect("chat", "--script", "-", input="I keep bees.\n/help\n/context\n")
    assert ran.code == 0
    assert "/forget ID" in ran.out
    assert "user:\nI keep bees." in ran.out and "of 4000 tokens" in ran.out


def test_an_error_in_a_script_ends_it_with_its_exit_code(recollect):
    assert recollect("chat", "--script", "-", input="/forget nothing\n").code == 1
    assert recollect("chat", "--script", "-", input="/bogus\n").code == 2
    assert recollect("chat", "--script", "-", input=b"\xff\xfe broken").code == 2
    assert recollect("chat", "--script", "/dev/zero").code == 2
    assert recollect("chat", "--session", "a{b", "--script", "-", input="hi").code == 2


def test_a_memory_can_be_forgotten_while_talking(recollect):
    said = recollect("chat", "--script", "-", "--json", input="I keep bees on the roof.\nWhat do I keep on the roof?\n")
    (source,) = json.loads(said.out.splitlines()[1])["sources"]
    gone = recollect("chat", "--script", "-", "--json", input=f"/forget {source}\nWhat do I keep on the roof?\n")
    assert "bees" not in json.loads(gone.out.splitlines()[1])["assistant"]


def test_replies_that_quote_a_forgotten_memory_are_forgotten_with_it(recollect):
    talk = "I keep bees on the roof.\nWhat do I keep on the roof?\nWhat did you say about the roof?\n"
    said = [json.loads(line) for line in recollect("chat", "--script", "-", "--json", input=talk).out.splitlines()]
    gone = recollect("chat", "--script", "-", "--json", input=f"/forget {said[1]['sources'][0]}\n").json
    assert gone["output"].startswith("Forgotten: 1 memory, and ")
    left = [json.loads(line)["content"] for line in recollect("export").out.splitlines()[1:]]
    assert not any("bees" in content for content in left)


def test_sessions_can_be_named_and_resumed_while_talking(recollect):
    talk = "/new monday\nI keep bees.\n/NEW\n/session monday\nI keep goats.\n"
    assert recollect("chat", "--script", "-", input=talk).code == 0
    (listed,) = recollect("sessions", "--json").json
    assert (listed["id"], listed["messages"]) == ("monday", 4)
    assert recollect("chat", "--script", "-", input="/session nowhere\n").code == 1


@pytest.mark.parametrize("word", ["quit", "exit", "Bye!", "/exit", "/QUIT"])
def test_a_user_who_wants_to_leave_may(recollect, word):
    ran = recollect("chat", "--script", "-", "--json", input=f"I keep bees.\n{word}\nI keep goats.\n")
    assert [json.loads(line)["user"] for line in ran.out.splitlines()] == ["I keep bees."]


def test_a_command_typed_as_plain_words_gets_help_and_is_not_remembered(recollect):
    ran = recollect("chat", "--script", "-", input="Forget-me-nots are blue.\nhelp\nforget what I said\n/forget\n")
    assert ran.out.count("/forget ID") == 3
    assert recollect("sessions", "--json").json[0]["messages"] == 2


def test_piped_lines_are_said(recollect):
    ran = recollect("chat", input="I keep bees on the roof.\n")
    assert "I'll remember that." in ran.out and "Monday" not in ran.out


# ── The real program ─────────────────────────────────────────────────────────────────────────────


def _program(*arguments: str, cwd: Path, **more) -> subprocess.CompletedProcess:
    return subprocess.run([*PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, **more)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [(["fac"], "facts"), (["facts", "co"], "correct confirm"), (["facts", "set", "--si"], "--since")],
    ids=str,
)
def test_a_shell_completes_commands_verbs_and_options(tmp_path, typed, offered):
    called_by_name = "import sys; sys.argv[0] = 'recollect'; from recollect.interfaces.cli import main; main()"
    program = [sys.executable, "-c", called_by_name]
    asked = {"_RECOLLECT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["recollect", *typed])}
    asked["COMP_CWORD"] = str(len(typed))
    ran = subprocess.run(program, cwd=tmp_path, env=os.environ | asked, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == offered.split(), ran.stderr


def test_without_a_terminal_it_plays_a_scene_that_is_answered_from_memory(tmp_path):
    ran = _program("chat", cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert "Monday" in ran.stdout and "Friday" in ran.stdout
    flat = " ".join(ran.stdout.split())
    assert flat.count("one-eyed cat called Admiral.”") == 1
    assert "lighthouse at Cabo da Roca.”" in flat
    assert "I don't remember anything about that." in flat
    assert not any(line.endswith(" ") for line in ran.stdout.splitlines())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("meant", [["--session", "monday"], ["--model", "openai:any"]], ids=str)
def test_naming_a_session_or_model_without_saying_anything_plays_no_scene(recollect, tmp_path, meant):
    ran = recollect("chat", *meant, input="")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "recollect: chat: standard input has no lines to say\n"
    assert list(tmp_path.iterdir()) == []


def test_a_scene_with_a_url_is_stored_there(recollect):
    assert recollect("chat").code == 0
    assert len(recollect("sessions", "--json").json) == 2
    assert recollect("search", "What is my cat called?").code == 0


def test_a_reader_that_closes_the_pipe_early_causes_no_noise(recollect, lines, tmp_path, url):
    _remember(recollect, lines, *({"content": f"{n} " + "x" * 5_000} for n in range(40)))
    command = f"{sys.executable} -m recollect export --url {url} | head -n 1"
    ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert json.loads(ran.stdout)["recollect"] == 1
    assert ran.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_output_that_cannot_be_written_is_one_line_and_exit_4(recollect, lines, tmp_path, url):
    _remember(recollect, lines, TEA)
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run(
            [*PROGRAM, "export", "--url", url], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert ran.returncode == 4
    assert ran.stderr.startswith("recollect: output: cannot be written")
    assert ran.stderr.count("\n") == 1


def test_the_worker_ends_cleanly_when_asked_to(recollect, lines, tmp_path, url, monkeypatch):
    monkeypatch.setenv("RECOLLECT_WORKER", "false")
    _remember(recollect, lines, TEA)
    with subprocess.Popen([*PROGRAM, "worker", "--url", url], cwd=tmp_path, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
        deadline = time.monotonic() + 30
        while _waits(recollect, tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("Processing what was said")
    assert "1 job done, 0 given up." in out
    assert "2 for later." in out


def _waits(recollect, tmp_path) -> bool:
    jobs = recollect("stats", "--json").json["jobs"]
    return jobs["waiting"] + jobs["running"] > 0


class Terminal:
    """The program in its own terminal; output is read up to the expected text."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._unread = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    def expect(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text.encode() not in self._unread:
            assert time.monotonic() < deadline, self._unread
            if select.select([self._ours], [], [], 0.1)[0]:
                self._unread += os.read(self._ours, 65536)
        self._unread = self._unread.partition(text.encode())[2]


def test_in_a_terminal_it_talks_and_an_error_does_not_end_it(tmp_path):
    with Terminal("chat", cwd=tmp_path) as terminal:
        for line, answer in (
            ("I keep bees on the roof.", "I'll remember that."),
            ("/bogus", "recollect: command: unknown"),
            ("What do I keep on the roof?", "Earlier today you said"),
        ):
            terminal.expect("you ›")
            terminal.type(line)
            terminal.expect(answer)
        terminal.expect("you ›")
        terminal.type("/quit")
        assert terminal.process.wait(timeout=20) == 0
    assert (tmp_path / "recollect.db").exists()


def test_erasing_in_a_terminal_asks_first_and_accepts_a_no(recollect, lines, tmp_path, url):
    _remember(recollect, lines, TEA)
    with Terminal("erase", "--url", url, cwd=tmp_path) as terminal:
        terminal.expect("[y/N]")
        terminal.type("n")
        terminal.expect("Nothing was forgotten.")
        assert terminal.process.wait(timeout=20) == 1
    assert recollect("search", "oolong").code == 0


def test_a_table_that_does_not_fit_the_screen_keeps_the_headings_of_its_numbers(capsys):
    kinds = [f"a kind of question with a long name, {number}" for number in range(4)]
    output.table(["", *kinds], [("ours", "95.9", "74.9", "88.1", "33.3")], right=kinds)
    first, last, *_ = capsys.readouterr().out.split("\n")
    assert first.startswith(f"ours  {kinds[0]} 95.9  {kinds[1]} 74.9") and last == f"  {kinds[3]} 33.3"
