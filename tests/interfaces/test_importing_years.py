"""Years of one person's chats, brought in with one command: what is kept, for how long, and what is told of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from recollect.importers import files
from recollect.importers.kinds import open_source

TOLD = [
    ("human", "I live in Gothenburg and I work at Volvo. We decided to sell the boat in May."),
    ("assistant", "I will remember that you decided to sell the boat."),
    ("human", "By Friday I want a list of three buyers in Oslo."),
]


def conversation(id: str, begun: str, *, told=TOLD) -> dict:
    at = datetime.fromisoformat(begun).replace(tzinfo=UTC)
    times = [(at + timedelta(minutes=place)).isoformat() for place in range(len(told))]
    messages = [
        {"uuid": f"{id}-{when}", "sender": sender, "text": text, "created_at": when}
        for when, (sender, text) in zip(times, told, strict=True)
    ]
    return {"uuid": id, "name": f"Boats {id}", "chat_messages": messages}


@pytest.fixture
def years(tmp_path):
    """The export of somebody who has talked since 2016, as a folder, as its file and as a zip."""
    talks = [conversation("c-2023", "2023-05-01T10:00"), conversation("c-2016", "2016-03-01T09:00")]
    folder = tmp_path / "data-2026"
    folder.mkdir()
    (folder / "conversations.json").write_text(json.dumps(talks))
    (folder / "users.json").write_text("[]")
    with zipfile.ZipFile(tmp_path / "data.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("conversations.json", json.dumps(talks))
    return {"folder": str(folder), "file": str(folder / "conversations.json"), "zip": str(tmp_path / "data.zip")}


@pytest.mark.parametrize("form", ["folder", "file", "zip"])
def test_an_export_is_read_as_it_was_downloaded_and_its_kind_is_found_out(recollect, years, form):
    ran = recollect("import", years[form], "--dry-run")
    assert (ran.code, "6 messages" in ran.out) == (0, True)
    assert "looks like claude" in ran.err
    assert "live until" not in ran.out, "nothing was stored"


def test_what_is_no_export_is_refused_in_one_line(recollect, years, tmp_path):
    whole = (tmp_path / "data.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:-30])
    (tmp_path / "empty").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("create table boats (name)")
    for name, reason in (("cut.zip", "zip archive, cut off"), ("other.db", "is a database")):
        ran = recollect("import", name)
        assert (ran.code, ran.out, reason in ran.err) == (2, "", True), name
    wrong = recollect("import", "--from", "chatgpt", years["zip"])
    assert (wrong.code, wrong.out) == (2, ""), "what another kind of reader thinks of each line helps nobody"
    assert "try --from claude" in wrong.err
    assert "has no conversations" in recollect("import", "--from", "claude", "empty").err


def test_a_folder_is_read_without_following_links(tmp_path, years):
    (tmp_path / "data-2026" / "conversations-link.json").symlink_to(years["file"])
    with pytest.raises(files.ValidationError, match="symbolic link"), open_source("claude", years["folder"]) as source:
        list(source.read())


def test_how_much_of_an_export_was_read_is_known(years):
    for form in years.values():
        with open_source("claude", form) as source:
            done = [item.done for item in source.read()]
        assert done == sorted(done)
        assert done[-1] == source.size == os.stat(years["file"]).st_size


def test_who_imports_is_told_how_long_messages_live_and_can_still_keep_them(recollect, years):
    def lives() -> set[str | None]:
        rows = map(json.loads, recollect("export").out.splitlines()[1:])
        return {row["expires_at"] for row in rows if row["layer"] == "conversation"}

    told = recollect("import", years["zip"]).out
    in_30_days = f"{datetime.now() + timedelta(days=30):%Y-%m-%d}"
    assert f"live until {in_30_days}; what is learned from them stays" in " ".join(told.split())
    (first,) = {life and life[:10] for life in lives()}
    assert recollect("import", years["zip"], "--json").json["messages_live_until"].startswith(first)

    assert recollect("import", years["zip"], "--life", "1d").code == 0
    assert {life and life[:10] for life in lives()} == {first}, "a life is never shortened"
    again = recollect("import", years["zip"], "--life", "kept")
    assert (again.code, lives(), "live until" in again.out) == (0, {None}, False)
    assert recollect("import", years["zip"], "--life", "kept", "--json").json["messages_live_until"] is None
    assert recollect("import", years["zip"], "--life", "soon").code == 2


def test_what_was_changed_here_stays_when_an_import_prolongs_lives(recollect, years, tmp_path):
    recollect("import", years["zip"])
    changed = [
        conversation("c-2016", "2016-03-01T09:00", told=[("human", "We keep the boat."), *TOLD[1:]]),
        conversation("c-2023", "2023-05-01T10:00"),
    ]
    (tmp_path / "later.json").write_text(json.dumps(changed))
    again = recollect("import", "later.json", "--life", "kept", "--json").json
    assert (again["new"], again["different"], again["bad"]) == (0, 1, 0)
    rows = [json.loads(line) for line in recollect("export").out.splitlines()[1:]]
    kept = [row["content"] for row in rows if row["layer"] == "conversation" and row["expires_at"] is None]
    assert sorted(kept) == sorted([text for _, text in TOLD[1:]] + [text for _, text in TOLD])


def test_a_life_is_learned_from_its_beginning_though_an_export_has_the_newest_first(recollect, tmp_path):
    talks = [
        conversation("c-2024", "2024-05-01T10:00", told=[("human", "Hello again."), ("assistant", "Hello!")]),
        conversation("c-2020", "2020-05-01T10:00", told=[("human", "Pixel died last week, I'm heartbroken.")]),
        conversation("c-2016", "2016-03-01T09:00", told=[("human", "I have a cat named Pixel.")]),
    ]
    (tmp_path / "export.json").write_text(json.dumps(talks))
    assert recollect("import", "export.json", "--report", "report.jsonl").code == 0
    said = recollect("list", "--layer", "conversation", "--json").json
    assert [each["content"][:5] for each in said] == ["I hav", "Pixel", "Hello", "Hello"]
    assert [fact["value"] for fact in recollect("profile", "--json").json["facts"] if fact["key"] == "pet"] == []
    lines = [json.loads(line)["line"] for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    assert sorted(set(lines)) == [1, 2, 3, 4], "lines are counted as they are in the file"


def test_conversations_that_ended_long_ago_are_noted_down_by_the_import_itself(recollect, years, tmp_path):
    soon = datetime.now(UTC) - timedelta(minutes=10)
    (tmp_path / "today.json").write_text(json.dumps([conversation("today", soon.isoformat()[:19])]))
    recollect("import", years["zip"])
    recollect("import", "today.json")
    noted = recollect("episodes", "list", "--json").json
    assert {(each["session"], each["started_at"][:4]) for each in noted} == {("c-2016", "2016"), ("c-2023", "2023")}
    recollect("import", years["zip"])
    assert len(recollect("episodes", "list", "--json").json) == 2


def test_of_a_long_answer_a_search_shows_what_was_asked_for(recollect, lines):
    advice = " ".join(f"Here is advice number {n} about gardens and how to keep them." for n in range(40))
    long = f"{advice}\n1. The oolong tea should steep for three minutes.\n2. {advice}"
    recollect("import", lines({"role": "assistant", "content": long, "session": "tea"}))
    shown = recollect("search", "How long should the oolong steep?").out
    assert " The oolong tea should steep for three minutes. " in shown
    assert len(shown.splitlines()[0]) < 310


def test_an_answer_from_what_is_not_all_read_yet_says_so(recollect, tmp_path, monkeypatch):
    talks = [conversation(f"c-{n}", f"2020-05-{n:02}T10:00", told=TOLD[:1]) for n in range(1, 13)]
    (tmp_path / "export.json").write_text(json.dumps(talks))
    monkeypatch.setenv("RECOLLECT_WORKER", "false")
    recollect("import", "export.json")
    for question in (["search", "boat"], ["context", "What of the boat?"], ["profile"]):
        ran = recollect(*question)
        assert "12 jobs waiting" in ran.err, question
    assert "Gothenburg" in recollect("search", "Gothenburg").out, "by its words it is found at once"
    recollect("worker", "--once")
    assert recollect("search", "boat").err == ""


def test_ctrl_c_during_an_import_says_how_things_stand(tmp_path, url):
    command = [sys.executable, "-m", "recollect", "import", "-", "--url", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = "".join(json.dumps({"role": "user", "content": f"Boat {n}."}) + "\n" for n in range(200))
        process.stdin.write(lines)
        process.stdin.flush()
        while not any(path.stat().st_size for path in tmp_path.glob("notes.db-wal")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err == "recollect: stopped; what was stored stays, and the same command goes on from there\n"
