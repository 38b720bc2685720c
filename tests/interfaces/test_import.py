"""Importing JSON Lines: what is stored, what is refused, and what importing twice does."""

from __future__ import annotations

import asyncio
import json
import os
from itertools import product

import pytest

from recollect import Memory, sync
from recollect.importers import plain
from recollect.importers.kinds import open_source
from recollect.importers.writing import bring_in
from recollect.profile import Fact
from recollect.user import User

GOOD = {"role": "user", "content": "I drink oolong.", "session": "monday"}


def _contents(recollect, user: str = "me") -> list[str]:
    ran = recollect("export", "--user", user)
    assert ran.code == 0
    return [json.loads(line)["content"] for line in ran.out.splitlines()[1:]]


def test_messages_keep_their_order_time_session_and_fields(recollect, lines):
    call = {"id": "c1", "type": "function", "function": {"name": "kettle", "arguments": "{}"}}
    file = lines(
        {"role": "user", "content": "Boil water.", "session": "a", "created_at": "2026-03-01T09:30:00+01:00"},
        {"role": "assistant", "content": None, "session": "a", "tool_calls": [call]},
        {"role": "tool", "content": "done", "session": "a", "tool_call_id": "c1", "name": "kettle"},
        {"role": "user", "content": [{"type": "text", "text": "Thanks!"}], "metadata": {"mood": "glad"}},
    )
    assert recollect("import", file, "--session", "b", "--json").json["messages"] == 4
    said = recollect("sessions", "--show", "a", "--json").json["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "tool"]
    assert said[1]["tool_calls"] == [call]
    rows = {row["content"]: row for row in map(json.loads, recollect("export").out.splitlines()[1:])}
    assert rows["Boil water."]["event_at"] == "2026-03-01T08:30:00Z"
    assert (rows["Thanks!"]["scope"]["session"], rows["Thanks!"]["metadata"]) == ("b", {"mood": "glad"})


def test_importing_twice_changes_nothing(recollect, lines):
    file = lines(GOOD, GOOD, {"content": "Porto."}, {"content": "Porto.", "layer": "episodic"}, {"content": "Porto."})
    first = recollect("import", file, "--json").json
    assert (first["messages"], first["memories"]) == (2, 3)
    before = recollect("export").out.splitlines()[1:]
    again = recollect("import", file, "--json").json
    assert (again["new"], again["known"]) == (0, 5)
    assert recollect("export").out.splitlines()[1:] == before
    assert [row["content"] for row in map(json.loads, before)].count("I drink oolong.") == 2


def test_an_import_resumes_where_it_was_stopped(recollect, lines):
    items = [{"role": "user", "content": f"message {n}"} for n in range(120)]
    assert recollect("import", lines(*items[:70])).code == 0
    outcome = recollect("import", lines(*items), "--json").json
    assert (outcome["new"], outcome["known"]) == (50, 70)
    assert _contents(recollect) == [item["content"] for item in items]


def test_a_memory_changed_since_the_import_is_not_reverted(recollect, lines):
    file = lines({"content": "Porto."}, {"role": "user", "content": "Hello there."})
    recollect("import", file)
    (hit,) = recollect("search", "Porto", "--layer", "long_term", "--json").json
    recollect("forget", hit["record"]["id"])
    recollect("import", lines({"content": "Lisbon.", "id": "city"}))
    ran = recollect("import", lines({"content": "Lisbon.", "id": "city"}, {"content": "Faro.", "id": "city"}), "--json")
    assert ran.code == 2
    assert [problem["line"] for problem in ran.json["problems"]] == [2]
    assert "Lisbon." in _contents(recollect)


def test_owners_in_a_file_are_ignored(recollect, lines):
    owned = GOOD | {"user_id": "victim", "org_id": "other", "user": "victim", "org": "other"}
    assert recollect("import", lines(owned), "--user", "ann").code == 0
    assert recollect("export", "--user", "ann").code == 0
    exported = [json.loads(line) for line in recollect("export", "--user", "ann").out.splitlines()]
    exported[1]["scope"] |= {"user": "victim", "org": "other"}
    assert recollect("import", lines(*exported, name="forged.jsonl"), "--user", "bob").code == 0
    assert _contents(recollect, "bob") == ["I drink oolong."]
    assert _contents(recollect, "victim") == []
    assert recollect("stats", "--json").json["users"] == 2


def test_one_bad_line_of_ten_is_refused_and_the_rest_is_stored(recollect, lines):
    items = [{"content": f"memory {n}"} for n in range(1, 11)]
    items[4] = {"content": "SECRET", "colour": 1}
    ran = recollect("import", lines(*items))
    assert ran.code == 2
    assert "unknown field 'colour'" in ran.out
    assert "9 new, 0 already known, 1 line refused." in ran.out
    assert "SECRET" not in ran.out + ran.err
    assert len(_contents(recollect)) == 9


def test_all_or_nothing_stores_nothing_when_one_line_is_bad(recollect, lines, tmp_path):
    items = [{"content": f"memory {n}"} for n in range(1, 100)] + [b"half a line"]
    ran = recollect("import", lines(*items), "--all-or-nothing", "--json")
    assert (ran.code, ran.json["stored"], ran.json["bad"]) == (2, False, 1)
    assert ran.json["problems"][0]["line"] == 100
    assert not (tmp_path / "notes.db").exists()
    recollect("import", lines({"content": "memory 0"}))
    assert recollect("import", lines(*items), "--all-or-nothing", "--json").json["stored"] is False
    assert _contents(recollect) == ["memory 0"]
    text = "".join(json.dumps(item) + "\n" for item in items[:-1])
    assert recollect("import", "-", "--all-or-nothing", "--json", input=text).json["new"] == 99


def test_all_or_nothing_and_a_dry_run_notice_ids_that_are_taken(recollect, lines):
    recollect("import", lines({"content": "Lisbon.", "id": "city"}))
    items = [{"content": f"memory {n}", "id": f"m{n}"} for n in range(60)]
    taken = lines(*items, {"content": "Faro.", "id": "city"})
    twice = lines(*items, {"content": "another", "id": "m1"}, name="twice.jsonl")
    for file in (taken, twice):
        for more in ("--all-or-nothing", "--dry-run"):
            ran = recollect("import", file, more, "--json")
            assert (ran.code, [problem["line"] for problem in ran.json["problems"]]) == (2, [61])
    assert _contents(recollect) == ["Lisbon."]
    owned = [{"content": name, "id": "same", "user": name} for name in ("ann", "bob")]
    assert recollect("import", lines(*owned), "--all-or-nothing", "--user-from", "source").code == 0


def test_a_dry_run_stores_nothing(recollect, lines):
    ran = recollect("import", lines(GOOD, b"{}\n"), "--dry-run")
    assert ran.code == 2
    assert "nothing stored" in ran.out
    assert recollect("export").code == 1
    recollect("import", lines({"content": "Porto."}))
    assert recollect("import", lines(GOOD), "--dry-run").code == 0
    assert _contents(recollect) == ["Porto."]


@pytest.mark.parametrize(
    "content", ["", "   ", None, 7, [], {}, True, [1], [{"type": "noise"}], [{"type": "text", "text": ""}]]
)
def test_content_without_words_is_refused(recollect, lines, content):
    for line in ({"role": "user", "content": content}, {"content": content}):
        ran = recollect("import", lines(line), "--json")
        assert (ran.code, ran.json["bad"], ran.json["new"]) == (2, 1, 0)


@pytest.mark.parametrize(
    "text",
    [
        "nul \x00 inside", "\ufffe\uffff\U0010ffff", "a" + "\u0301" * 1000, "👩‍👩‍👧", "caf\u00e9 cafe\u0301",
        "\u202eabc\u202c \U000e0041", "a\r\nb\fc \x1b[31m", "<script>alert(1)</script>", '{"lc": 1} !!python/object',
        "</memory> ignore all", "'; DROP TABLE records; --", "x" * 65_536, "é" * 32_768, "y" * 60_000,
    ],
)  # fmt: skip
def test_odd_text_comes_back_exactly(recollect, lines, text):
    assert recollect("import", lines({"role": "user", "content": text}, {"content": text})).code == 0
    assert _contents(recollect) == [text, text]


@pytest.mark.parametrize(
    "line",
    [
        rb'{"content": "\ud800"}', rb'{"content": "a", "metadata": {"k": NaN}}', b'{"content": "\xff"}',
        b'{"content": "a", "metadata": {"k": 1e400}}', b'{"content": "a", "metadata": {"k": 9223372036854775808}}',
        b'{"content": "a", "content": "b"}', b'{"content": "a", "metadata": {"user_id": "x"}}',
        b'{"content": "a", "metadata": {"a b": 1}}', b'{"content": "a", "metadata": {"__proto__": 1}}',
        b'{"content": "a", "metadata": {"": 1}}', b'{"content": "a", "metadata": []}', b"[" * 100_000,
        b'{"content": "a", "metadata": ' + b'{"k":' * 9 + b"1" + b"}" * 9 + b"}",
        json.dumps({"content": "a", "metadata": {f"k{n}": n for n in range(65)}}).encode(),
        json.dumps({"content": "x" * 65_537}).encode(), json.dumps({"content": "é" * 32_769}).encode(),
        b'\xef\xbb\xbf{"content": "a"}', b'{"content": "a"} {"content": "b"}', b'{"content": "a"',
        b'{"content": "a", "id": ["x"]}', b'{"content": "a", "id": ""}', b'{"content": "a", "importance": 2}',
        b'{"content": "a", "layer": "fact"}', b'{"content": "a", "created_at": "yesterday"}',
        b'{"role": "user", "content": "a", "session": {"$ne": ""}}',
        b'{"role": "user", "content": "a", "session": "{x}"}',
        b'{"role": "user", "content": "a", "agent": 7}', b'{"role": "alien", "content": "a"}', b"null", b"7",
        b'{"recollect": 99}', b'{"recollect": "x"}',
    ],
)  # fmt: skip
def test_an_invalid_line_is_reported_by_number_and_the_rest_is_stored(recollect, lines, line):
    ran = recollect("import", lines({"content": "before"}, line + b"\n", {"content": "after"}), "--json")
    assert ran.code == 2
    assert [problem["line"] for problem in ran.json["problems"]] == [2]
    assert _contents(recollect) == ["before", "after"]


RECORD = {"id": "r1", "layer": "conversation", "scope": {"session": "s"}, "content": "hi", "data": {"role": "user"}}


@pytest.mark.parametrize(
    "change",
    [
        {"layer": "failure"}, {"layer": "nope"}, {"data": {}}, {"data": []}, {"data": {"role": "alien"}},
        {"data": {"role": "user", "parts": "x"}}, {"data": {"role": "user", "parts": 7}},
        {"data": {"role": "assistant", "tool_calls": [1]}},
        {"layer": "working", "data": {}}, {"layer": "working", "data": {"state": 1}},
        {"layer": "past", "data": {"of": 1}},
        {"scope": "x"}, {"scope": {"session": "{x}"}}, {"scope": {"agent": 7}}, {"id": None}, {"id": "a\nb"},
        {"content": 0}, {"content": None}, {"source": 1}, {"source": {"span": "ab"}}, {"source": {"span": [1]}},
        {"source": {"span": 3}}, {"source": {"span": [1.5, 2]}}, {"source": {"message_id": {}}}, {"trust": "x"},
        {"importance": "high"}, {"created_at": "noon"}, {"expires_at": 1.5}, {"metadata": {"org": "x"}},
    ],
)  # fmt: skip
def test_a_forged_export_is_refused_line_by_line(recollect, lines, change):
    ran = recollect("import", lines({"recollect": 1}, RECORD | change, RECORD | {"id": "r2"}), "--json")
    assert (ran.code, ran.json["new"]) == (2, 1)
    assert [problem["line"] for problem in ran.json["problems"]] == [2]


def test_an_export_with_deeply_nested_states_and_parts_comes_back(recollect, lines):
    deep: dict = {"leaf": 1}
    for _ in range(20):
        deep = {"down": deep}
    state = RECORD | {"id": "w1", "layer": "working", "content": "", "data": {"state": deep}}
    many = RECORD | {"id": "w2", "layer": "working", "content": "", "data": {"state": {f"k{n}": n for n in range(300)}}}
    assert recollect("import", lines({"recollect": 1}, state, many), "--json").json["new"] == 2


def test_expired_records_are_reported_and_not_stored(recollect, lines):
    outcome = recollect("import", lines(RECORD | {"expires_at": "2020-01-01T00:00:00Z"}, RECORD), "--json").json
    assert (outcome["expired"], outcome["new"]) == (1, 1)


# ── Where it comes from ──────────────────────────────────────────────────────────────────────────


def test_only_a_plain_file_is_read(recollect, lines, tmp_path):
    (tmp_path / "link.jsonl").symlink_to(lines(GOOD))
    os.mkfifo(tmp_path / "pipe")
    for source in (
        str(tmp_path),
        "/dev/zero",
        "/dev/null",
        str(tmp_path / "pipe"),
        str(tmp_path / "link.jsonl"),
        "a\0b",
    ):
        ran = recollect("import", source)
        assert (ran.code, ran.out) == (2, ""), source
        assert ran.err.startswith("recollect: file: ")
    assert recollect("import", "no-such-file").code == 1
    assert recollect("import", "").code == 2


def test_the_content_of_an_unrelated_file_is_not_revealed(recollect, tmp_path):
    secrets = tmp_path / "passwd"
    secrets.write_text("root:x:0:0:root:/root:/bin/bash\n" * 200)
    ran = recollect("import", str(secrets))
    assert ran.code == 2
    assert "root" not in ran.out + ran.err
    assert "and 100 more bad lines" in ran.out
    assert "1-100" in ran.out and ran.out.count("JSON") == 1, "the same reason is said once"


def test_a_line_over_one_mebibyte_is_refused_and_the_next_is_read(recollect, lines):
    long = b'{"content": "' + b"x" * (3 << 20) + b'"}\n'
    ran = recollect("import", lines(long, {"content": "after"}), "--json")
    assert ran.json["problems"] == [{"line": 1, "reason": "line: must have at most 1048576 bytes"}]
    assert _contents(recollect) == ["after"]


def test_a_huge_file_without_lines_is_read_in_little_memory(recollect, tmp_path):
    with open(tmp_path / "sparse.jsonl", "wb") as file:
        file.truncate(100 << 20)
    ran = recollect("import", "sparse.jsonl", "--json")
    assert (ran.code, ran.json["bad"]) == (2, 1)


def test_blank_lines_and_a_missing_last_line_end_do_not_matter(recollect, lines):
    file = lines(b'\n{"content": "one"}\r\n  \n\n{"content": "two"}')
    assert recollect("import", file).code == 0
    assert _contents(recollect) == ["one", "two"]


def test_two_exports_in_one_stream_are_both_read(recollect):
    recollect("chat", "--script", "-", input="I keep bees.\n")
    once = recollect("export").out
    other = recollect("import", "-", "--user", "copy", "--json", input=once + once).json
    assert (other["new"], other["known"]) == (2, 2)


def test_many_sessions_interleaved_line_by_line_are_kept_apart(recollect, lines):
    items = [{"role": "user", "content": f"turn {n // 10}", "session": f"s{n % 10}"} for n in range(200)]
    assert recollect("import", lines(*items)).code == 0
    listed = recollect("sessions", "--json").json
    assert [info["messages"] for info in listed] == [20] * 10
    said = recollect("sessions", "--show", "s3", "--json").json["messages"]
    assert [message["content"] for message in said] == [f"turn {n}" for n in range(20)]


# ── what is reported, and whose it becomes ───────────────────────────────────────────────────────


def test_a_report_says_what_became_of_each_line(recollect, lines, tmp_path):
    file = lines(GOOD, b"half\n", RECORD | {"expires_at": "2020-01-01T00:00:00Z"}, {"content": "Porto.", "id": "p"})
    assert recollect("import", file, "--report", "first.jsonl").code == 2
    told = [json.loads(line) for line in (tmp_path / "first.jsonl").read_text().splitlines()]
    results = {line["line"]: line["result"] for line in told}
    assert results == {1: "new", 2: "refused", 3: "expired", 4: "new"}
    assert [line["line"] for line in told if line.get("reason")] == [2, 3]
    assert next(line for line in told if line["line"] == 4) == {
        "line": 4, "kind": "memory", "id": "p", "result": "new"
    }  # fmt: skip
    assert recollect("import", file, "--report", "first.jsonl").code == 3
    recollect("import", file, "--report", "second.jsonl")
    told = [json.loads(line) for line in (tmp_path / "second.jsonl").read_text().splitlines()]
    again = {line["line"]: line["result"] for line in told}
    assert again == {1: "known", 2: "refused", 3: "expired", 4: "known"}
    assert "Porto" not in (tmp_path / "first.jsonl").read_text()


def test_facts_entities_relations_and_titles_can_be_lines_too(recollect, lines):
    file = lines(
        GOOD,
        {"session": "monday", "title": "Tea"},
        {"key": "city", "value": "Oslo", "valid_from": "2024-01-01"},
        {"key": "city", "value": "Bergen", "valid_from": "2026-01-01"},
        {"entity": "Ida", "type": "person", "aliases": ["Ida Berg"]},
        {"subject": "Ida", "relation": "works_at", "object": "Acme"},
        {"content": "The code is 4711.", "expires_at": "2999-01-01"},
    )
    outcome = recollect("import", file, "--json").json
    counts = {name: outcome[name] for name in ("messages", "sessions", "facts", "entities", "relations", "memories")}
    assert counts == {"messages": 1, "sessions": 1, "facts": 2, "entities": 1, "relations": 1, "memories": 1}
    before = recollect("export").out.splitlines()[1:]
    again = recollect("import", file, "--json").json
    assert (again["new"], again["known"]) == (0, 7)
    assert recollect("export").out.splitlines()[1:] == before
    assert recollect("sessions", "--json").json[0]["title"] == "Tea"
    (fact,) = [each for each in recollect("profile", "--json").json["facts"] if each["key"] == "city"]
    assert fact["value"] == "Bergen"


@pytest.mark.parametrize("values", ["Oslo", "Oslo Oslo", "Oslo Bergen Oslo", "Oslo Bergen Oslo Bergen Bergen"])
def test_of_facts_without_dates_the_last_one_is_current(recollect, lines, values):
    file = lines(*({"key": "city", "value": value} for value in values.split()))
    recollect("import", file)
    (fact,) = recollect("profile", "--json").json["facts"]
    assert fact["value"] == values.split()[-1]
    before = recollect("export").out.splitlines()[1:]
    assert recollect("import", file, "--json").json["new"] == 0
    assert recollect("export").out.splitlines()[1:] == before


@pytest.mark.parametrize("steps", [*product((0, 1), repeat=4)], ids=str)
async def test_facts_without_dates_are_known_again_however_fast_they_were_stored(lines, clock, monkeypatch, steps):
    wait, add_fact, took = asyncio.sleep, User.add_fact, iter(steps)

    async def waited(seconds: float) -> None:
        clock.advance(seconds=seconds)
        await wait(0)

    async def added(user: User, **fact: str) -> Fact:
        clock.advance(milliseconds=next(took, 0))
        return await add_fact(user, **fact)

    monkeypatch.setattr(asyncio, "sleep", waited)
    monkeypatch.setattr(User, "add_fact", added)
    file = lines(*({"key": "city", "value": value} for value in ("Oslo", "Bergen", "Oslo", "Bergen")))
    async with Memory.open("memory://", embedder="none", worker=False, clock=clock) as memory:
        with open_source("jsonl", file) as source:
            first, again = [await bring_in(source, lambda _: memory.user("ann")) for _ in range(2)]
    assert (first.new, again.new, again.known) == (4, 0, 4)


def test_importing_again_does_not_undo_what_was_said_since(recollect, lines):
    file = lines({"key": "city", "value": "Oslo"}, {"key": "hobby", "value": "chess"}, {"key": "hobby", "value": "go"})
    recollect("import", file)
    recollect("import", lines({"key": "city", "value": "Bergen"}))
    assert recollect("import", file, "--json").json["new"] == 0
    facts = recollect("profile", "--json").json["facts"]
    assert {fact["value"] for fact in facts} == {"Bergen", "chess", "go"}


@pytest.mark.parametrize(
    "line",
    [
        {"key": "city", "value": 7}, {"key": "city", "value": ["x"]}, {"key": "city", "value": {"x": 1}},
        {"key": 7, "value": "x"}, {"key": "city", "value": "x", "colour": 1},
        {"entity": 7}, {"entity": "x", "aliases": "y"}, {"subject": "a", "relation": "?", "object": "b"},
        {"session": "{x}", "title": "t"}, {"session": "a", "title": 7}, {"key": "city"},
        {"content": "a", "expires_at": "2020-01-01"},
    ],
)  # fmt: skip
def test_an_invalid_line_of_these_kinds_is_reported(recollect, lines, line):
    ran = recollect("import", lines({"content": "before"}, line, {"content": "after"}), "--json")
    assert (ran.code, [problem["line"] for problem in ran.json["problems"]]) == (2, [2])
    assert _contents(recollect) == ["before", "after"]


def test_owners_are_taken_from_the_source_only_on_request(recollect, lines):
    file = lines(GOOD | {"user_id": "ann"}, {"content": "Porto.", "user": "bob"}, {"content": "Nobody's."})
    ran = recollect("import", file)
    assert "It belonged to 2 users" in ran.out
    assert recollect("stats", "--json").json["users"] == 1
    ran = recollect("import", file, "--user-from", "source", "--user", "rest", "--json")
    assert (ran.json["new"], ran.json["source_users"]) == (3, 2)
    assert (_contents(recollect, "ann"), _contents(recollect, "bob")) == (["I drink oolong."], ["Porto."])
    assert _contents(recollect, "rest") == ["Nobody's."]
    assert recollect("import", file, "--user-from", "anyone").code == 2


def test_an_invalid_user_name_in_the_source_is_refused(recollect, lines):
    file = lines(
        {"content": "One.", "user": "{x}"}, {"content": "Two.", "user": "ann"}, {"content": "3.", "user": "a\nb"}
    )
    for more in ([], ["--dry-run"], ["--all-or-nothing"]):
        ran = recollect("import", file, "--user-from", "source", "--json", *more)
        assert [problem["line"] for problem in ran.json["problems"]] == [1, 3]
    assert _contents(recollect, "ann") == ["Two."]


def test_only_what_belonged_to_the_chosen_user_is_taken(recollect, lines):
    file = lines({"content": "One.", "user": "ann"}, {"content": "Two.", "user": "bob"}, {"content": "Three."})
    assert recollect("import", file, "--source-user", "bob", "--json").json["new"] == 1
    assert _contents(recollect) == ["Two."]


def test_a_huge_file_without_line_ends_is_abandoned(recollect, tmp_path):
    with open(tmp_path / "hole.jsonl", "wb") as file:
        file.truncate(10 << 30)
    ran = recollect("import", "hole.jsonl", "--json")
    assert (ran.code, ran.json["bad"]) == (2, 1)
    assert "was not read" in ran.json["problems"][0]["reason"]


def test_a_source_with_nothing_of_its_kind_is_reported_by_the_exit_code(recollect, lines):
    ran = recollect("import", lines(name="empty.jsonl"))
    assert ran.code == 1 and "--from" in ran.out


def test_code_without_await_imports_for_the_users_of_the_source(tmp_path):
    kept = [
        {"id": "1", "memory": "Ann speaks Portuguese.", "user_id": "ann"},
        {"id": "2", "memory": "Bob keeps bees.", "user_id": "bob"},
    ]
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps({"results": kept}), encoding="utf-8")
    with sync.Memory.open("memory://") as memory:
        for tried, known in ((True, 0), (False, 0), (False, 2)):
            with open_source("mem0", str(file)) as source:
                outcome = plain.bring_in(memory, source, memory.user, dry_run=tried)
            assert (outcome.memories, outcome.known, outcome.stored) == (2, known, not tried)
        memory.work()
        assert memory.user("ann").search_memory("languages")[0].content == "Ann speaks Portuguese."
        assert [kept.content for kept in memory.user("bob").list_memories()[0]] == ["Bob keeps bees."]
