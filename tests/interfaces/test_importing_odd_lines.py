"""Odd content in a source of any kind: each line is stored, or reported with a reason. Nothing is dropped."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from recollect.importers.guessing import GUESSED


@dataclass(frozen=True)
class Entry:
    """One item of a source, in a form every kind can write."""

    text: Any
    id: str | None = None
    session: str = "monday"
    user: str = "ann"
    role: str = "user"
    at: str = "2026-03-01T09:30:00Z"

    @property
    def has_words(self) -> bool:
        return isinstance(self.text, str) and self.text.strip() != ""


Write = Callable[[Path, Sequence[Entry]], Path]


def written(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def named(field: str, entry: Entry) -> dict[str, Any]:
    return {field: entry.id} if entry.id is not None else {}


def filled(path: Path, create: str, rows: Sequence[tuple[Any, ...]]) -> Path:
    """A database with one table, without a key that would reject rows."""
    with sqlite3.connect(path) as db:
        db.execute(f"create table {create}")
        db.executemany(f"insert into {create.partition(' ')[0]} values ({', '.join('?' * len(rows[0]))})", rows)
    return path


def jsonl_file(folder: Path, entries: Sequence[Entry]) -> Path:
    def line(each: Entry) -> dict[str, Any]:
        said = {"role": each.role, "content": each.text, "created_at": each.at}
        return said | {"session": each.session, "user": each.user} | named("id", each)

    return written(folder / "file.jsonl", *map(line, entries))


def langchain_table(folder: Path, entries: Sequence[Entry]) -> Path:
    roles = {"user": "human"}
    rows = [
        (e.id, e.session, json.dumps({"type": roles.get(e.role, e.role), "data": {"content": e.text}}), e.at)
        for e in entries
    ]
    return filled(folder / "chats.db", "message_store (id, session_id, message, created_at)", rows)


def langgraph_table(folder: Path, entries: Sequence[Entry]) -> Path:
    rows = [(f"{e.session}.{e.user}", e.id, json.dumps({"text": e.text}), e.at, e.at) for e in entries]
    return filled(folder / "graph.db", "store (prefix, key, value, created_at, updated_at)", rows)


def agents_table(folder: Path, entries: Sequence[Entry]) -> Path:
    rows = [(e.id, e.session, json.dumps({"role": e.role, "content": e.text}), e.at) for e in entries]
    return filled(folder / "agents.db", "agent_messages (id, session_id, message_data, created_at)", rows)


def ai_sdk_table(folder: Path, entries: Sequence[Entry]) -> Path:
    texts = [json.dumps(e.text) if isinstance(e.text, dict) else e.text for e in entries]
    rows = [(e.id, e.session, e.user, e.role, text, e.at) for e, text in zip(entries, texts, strict=True)]
    create = "conversation_messages (id, chat_id, user_id, role, content, timestamp)"
    return filled(folder / "memory.db", create, rows)


def mem0_list(folder: Path, entries: Sequence[Entry]) -> Path:
    kept = [{"memory": e.text, "user_id": e.user, "created_at": e.at} | named("id", e) for e in entries]
    return written(folder / "memories.json", {"results": kept})


def mcp_file(folder: Path, entries: Sequence[Entry]) -> Path:
    kind = {"type": "entity", "entityType": "boat"}
    return written(folder / "file.jsonl", *(kind | {"name": e.id or "Boat", "observations": [e.text]} for e in entries))


def chatgpt_export(folder: Path, entries: Sequence[Entry]) -> Path:
    def node(place: int, each: Entry) -> dict[str, Any]:
        said = {"author": {"role": each.role}, "content": {"content_type": "text", "parts": [each.text]}}
        message = said | {"create_time": each.at} | named("id", each)
        return {"id": f"n{place}", "parent": f"n{place - 1}", "children": [], "message": message}

    talks = []
    for session, told in groupby(entries, key=lambda each: each.session):
        nodes = {f"n{place}": node(place, each) for place, each in enumerate(told)}
        talks.append({"conversation_id": session, "mapping": nodes, "current_node": f"n{len(nodes) - 1}"})
    return written(folder / "conversations.json", talks)


def claude_export(folder: Path, entries: Sequence[Entry]) -> Path:
    talks = []
    for (session, user), told in groupby(entries, key=lambda each: (each.session, each.user)):
        said = [{"sender": e.role, "text": e.text, "created_at": e.at} | named("uuid", e) for e in told]
        talks.append({"uuid": session, "account": {"uuid": user}, "chat_messages": said})
    return written(folder / "conversations.json", talks)


SOURCES: dict[str, Write] = {
    "jsonl": jsonl_file,
    "langchain": langchain_table,
    "langgraph": langgraph_table,
    "openai-agents": agents_table,
    "mem0": mem0_list,
    "mcp": mcp_file,
    "ai-sdk": ai_sdk_table,
    "chatgpt": chatgpt_export,
    "claude": claude_export,
}
WITH_OWNERS = ("jsonl", "langgraph", "mem0", "ai-sdk", "claude")
BY_THEIR_OWN_IDS = ("jsonl", "langgraph", "mem0", "chatgpt", "claude")
"""Kinds that identify an item by the source's id; the others identify it by its content."""
VERBATIM = ("langchain", "langgraph", "openai-agents")
"""Kinds that keep everything verbatim, even without words, so that their adapters can return it."""

GOOD = Entry("Green tea at nine.", "a")
LAST = Entry("White tea at noon.", "z")


def test_there_is_a_writer_for_every_kind():
    assert set(SOURCES) == set(GUESSED)


@dataclass(frozen=True)
class Told:
    """What an import stored and what it reported."""

    code: int
    texts: list[str]
    results: list[dict[str, Any]]

    def lost(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries whose words are missing from what was stored."""
        return [each for each in entries if not each.has_words or not any(each.text in text for text in self.texts)]

    @property
    def refused(self) -> list[dict[str, Any]]:
        return [each for each in self.results if each["result"] in ("refused", "left out")]


def texts_of(recollect, user: str) -> list[str]:
    rows = [json.loads(line) for line in recollect("export", "--user", user).out.splitlines()[1:]]
    return [row["content"] for row in rows if row["layer"] not in ("entity", "episodic", "session")]


@pytest.fixture
def bring(recollect, tmp_path):
    """Import entries as a source of a kind: first as a dry run, then for real, with the same reasons both times."""

    def run(kind: str, entries: Sequence[Entry]) -> Told:
        command = ["import", "--from", kind, str(SOURCES[kind](tmp_path, entries))]
        tried = recollect(*command, "--dry-run", "--report", "tried.jsonl")
        assert not (tmp_path / "notes.db").exists(), "a dry run leaves nothing behind"
        done = recollect(*command, "--report", "done.jsonl")
        reports = [
            [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
            for name in ("tried", "done")
        ]
        before, after = (Told(done.code, texts_of(recollect, "me"), report) for report in reports)
        assert (tried.code, before.refused) == (done.code, after.refused)
        return after

    return run


ODD: dict[str, list[Entry]] = {
    "the same id with another text": [Entry("Black tea.", "b"), Entry("Red tea.", "b")],
    "the same id with the same text": [Entry("Black tea.", "b"), Entry("Black tea.", "b")],
    "the same id in two sessions": [Entry("Black tea.", "b"), Entry("Red tea.", "b", session="tuesday")],
    "no id": [Entry("Black tea."), Entry("Red tea.")],
    "no id and the same text": [Entry("Black tea."), Entry("Black tea.")],
    "an empty id": [Entry("Black tea.", ""), Entry("Red tea.", "")],
    "an id of odd characters": [Entry("Black tea.", "a b/\u202e{}:\n"), Entry("Red tea.", "x" * 300)],
    "no text": [Entry("", "b"), Entry("  ", "c"), Entry(None, "d")],
    "a text that is none": [Entry(7, "b"), Entry({"odd": 1}, "c")],
    "a role that nobody knows": [Entry("Black tea.", "b", role="alien")],
    "a time that is none": [Entry("Black tea.", "b", at="half past tea"), Entry("Red tea.", "c", at="9" * 40)],
    "a text that is too long": [Entry("Black tea. " * 7_000, "b")],
    "a line that is too long": [Entry("Black tea. " * 200_000, "b")],
    "a session of odd characters": [
        Entry("Black tea.", "b", session="a b/{}"),
        Entry("Red tea.", "c", session="x" * 300),
    ],
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", SOURCES)
def test_nothing_is_dropped_without_a_line_that_says_why(bring, kind, odd):
    entries = [GOOD, *ODD[odd], LAST]
    told = bring(kind, entries)
    assert told.lost([GOOD, LAST]) == [], "what is good is stored, whatever stands beside it"
    lost = told.lost([each for each in entries if each.has_words or kind not in VERBATIM])
    if kind == "mcp":  # a line has an entity and its observations: either may be refused alone
        assert {each["line"] for each in told.refused} >= {entries.index(each) + 1 for each in lost}
    else:
        assert len(told.refused) == len(lost), told.results
    assert {each["line"] for each in told.results} == set(range(1, len(entries) + 1)), "no line is passed over"
    assert all(each["line"] and each["reason"] for each in told.refused)
    assert told.code == (2 if any(each["result"] == "refused" for each in told.results) else 0)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_second_text_under_an_id_is_refused_where_items_are_identified_by_id(bring, kind):
    told = bring(kind, [GOOD, Entry("Black tea.", "b"), Entry("Red tea.", "b"), LAST])
    if kind in BY_THEIR_OWN_IDS:
        (line,) = told.refused
        assert (line["line"], line["reason"]) == (3, "id: appeared earlier in the source with different content")
        assert told.lost([Entry("Black tea.")]) == [], "the first stays"
    else:
        assert told.refused == []


@pytest.mark.parametrize("kind", SOURCES)
def test_items_without_an_id_are_all_stored(bring, kind):
    told = bring(kind, [GOOD, Entry("Black tea."), Entry("Red tea."), LAST])
    if kind == "langgraph":  # a LangGraph item must have a key
        assert [each["reason"] for each in told.refused] == ["item: must have a prefix and a key"] * 2
    else:
        assert (told.refused, told.lost([Entry("Black tea."), Entry("Red tea.")])) == ([], [])


@pytest.mark.parametrize("kind", WITH_OWNERS)
def test_an_id_used_by_two_users_is_kept_for_each(recollect, tmp_path, kind):
    mine, theirs = Entry("Black tea.", "b"), Entry("Red tea.", "b", user="bob", session="tuesday")
    command = ["import", "--from", kind, str(SOURCES[kind](tmp_path, [mine, theirs])), "--user-from", "source"]
    ran = recollect(*command, *(["--user-segment", "1"] if kind == "langgraph" else []), "--json")
    assert (ran.code, ran.json["new"], ran.json["source_users"]) == (0, 2, 2)
    assert (texts_of(recollect, "ann"), texts_of(recollect, "bob")) == (["Black tea."], ["Red tea."])


@pytest.mark.parametrize("kind", ["mem0", "langgraph", "claude", "chatgpt"])
def test_what_changed_in_the_source_since_is_reported_and_left_unchanged_here(recollect, tmp_path, kind):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, entries in ((old, [Entry("Black tea.", "b")]), (new, [Entry("Red tea.", "b"), LAST])):
        folder.mkdir()
        source = str(SOURCES[kind](folder, entries))
        ran = recollect("import", "--from", kind, source, "--report", f"{folder}.jsonl")
        assert ran.code == 0
    told = [json.loads(line) for line in Path(f"{new}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {each["result"]: each.get("reason", "") for each in told} == {
        "known": "differs here, and was left unchanged",
        "new": "",
    }
    assert "Known but different here, and left unchanged: 1." in ran.out
    assert sorted(texts_of(recollect, "me")) == ["Black tea.", "White tea at noon."]


def test_contradicting_facts_entities_relations_titles_and_records_are_reported(recollect, lines):
    record = {"id": "r1", "layer": "long_term", "scope": {}, "content": "Ann sails."}
    pairs = [
        ({"session": "a", "title": "Tea"}, {"session": "a", "title": "Coffee"}),
        ({"entity": "Ida", "type": "person"}, {"entity": "Ida", "type": "boat"}),
        ({"subject": "Ann", "relation": "knows", "object": "Ida"},
         {"subject": "Ann", "relation": "knows", "object": "Ida", "valid_from": "2024-01-01"}),
        (record, record | {"content": "Ann rows."}),
    ]  # fmt: skip
    for first, second in pairs:
        ran = recollect("import", lines(first, first, second), "--json")
        assert (ran.code, [problem["line"] for problem in ran.json["problems"]]) == (2, [3]), second
        assert (ran.json["new"], ran.json["known"]) == (1, 1)


def test_a_value_that_returns_later_is_not_mistaken_for_its_first_period(recollect, lines):
    told = [("Porto", "2020-01-01"), ("Lisbon", "2021-01-01"), ("Porto", "2022-01-01")]
    file = lines(*({"key": "city", "value": city, "valid_from": since} for city, since in told))
    assert recollect("import", file, "--json").json["new"] == 3
    assert recollect("import", file, "--json").json["known"] == 3
    rows = [json.loads(line) for line in recollect("export").out.splitlines()[1:]]
    (head,) = (row for row in rows if row["layer"] == "fact")
    assert head["data"]["value"] == "Porto"
