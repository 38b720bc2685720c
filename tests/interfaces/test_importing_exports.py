"""Exports of ChatGPT and Claude, and the MCP memory server's file, made by hand in the known format."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import zipfile
from pathlib import Path

import pytest

from recollect import Memory
from recollect.importers import files, jsonl
from recollect.importers.kinds import KINDS


def node(id: str, parent: str | None, children: list[str], message: dict | None) -> dict:
    return {"id": id, "parent": parent, "children": children, "message": message}


def said(id: str, role: str, *parts, at: float | None = 1_709_285_400.25, **more) -> dict:
    content = {"content_type": "text", "parts": list(parts)}
    return {"id": id, "author": {"role": role}, "create_time": at, "content": content, "metadata": {}} | more


HIDDEN = {"metadata": {"is_visually_hidden_from_conversation": True}}
PICTURE = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1", "width": 8}
CHATGPT = {
    "title": "Tea  for\nAnn",
    "conversation_id": "c-1",
    "current_node": "n7",
    "mapping": {
        "root": node("root", None, ["n1"], None),
        "n1": node("n1", "root", ["n2"], said("n1", "system", "You are helpful.", **HIDDEN)),
        "n2": node("n2", "n1", ["n3", "old"], said("n2", "user", "I drink oolong.", PICTURE)),
        "old": node("old", "n2", [], said("old", "assistant", "An answer that was made again.")),
        "n3": node("n3", "n2", ["n4"], said("n3", "assistant", content={"content_type": "thoughts", "thoughts": []})),
        "n4": node("n4", "n3", ["n5"], said("n4", "assistant", "", recipient="python",
                   content={"content_type": "code", "language": "python", "text": "print(80)"})),
        "n5": node("n5", "n4", ["n6"], said("n5", "tool", "", author={"role": "tool", "name": "python"},
                   content={"content_type": "execution_output", "text": "80"})),
        "n6": node("n6", "n5", ["n7"], said("n6", "assistant", "Use 80 degrees.", metadata={"model_slug": "gpt-x"})),
        "n7": node("n7", "n6", [], said("n7", "user", "Thanks!", at=None)),
    },
}  # fmt: skip
CLAUDE = {
    "uuid": "0b5c", "name": "Boats", "created_at": "2026-03-01T09:00:00.000000Z", "account": {"uuid": "acct-1"},
    "chat_messages": [
        {"uuid": "m1", "sender": "human", "text": "Which boat?", "created_at": "2026-03-01T09:30:00.123456Z",
         "content": [{"type": "text", "text": "Which boat?"}],
         "attachments": [{"file_name": "boats.txt", "extracted_content": "A canoe and a kayak."}]},
        {"uuid": "m2", "sender": "assistant", "text": "", "created_at": "2026-03-01T09:31:00Z", "attachments": [],
         "content": [{"type": "thinking", "thinking": "hm"},
                     {"type": "tool_use", "id": None, "name": "web_search", "input": {"query": "canoe"}},
                     {"type": "tool_result", "name": "web_search", "content": [{"type": "text", "text": "found"}]},
                     {"type": "text", "text": "The canoe."}]},
        {"uuid": "m3", "sender": "human", "text": "An old export has the text alone.", "created_at": None},
    ],
}  # fmt: skip
MEMORIES = {
    "conversations_memory": "**Work context**\n\nAnn builds boats.\n\nShe sails on Sundays.",
    "project_memories": {"p1": "Ann writes a book."},
    "account_uuid": "acct-1",
}


def archive(path, **files: object) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return str(path)


def messages(recollect, session: str, user: str = "me") -> list[dict]:
    return recollect("sessions", "--show", session, "--user", user, "--json").json["messages"]


# ── ChatGPT ──────────────────────────────────────────────────────────────────────────────────────


def test_a_chatgpt_conversation_is_the_branch_shown_last(recollect, lines):
    outcome = recollect("import", "--from", "chatgpt", lines([CHATGPT], name="conversations.json"), "--json").json
    assert (outcome["messages"], outcome["sessions"], outcome["bad"]) == (5, 1, 0)
    talk = messages(recollect, "c-1")
    assert [message["role"] for message in talk] == ["user", "assistant", "tool", "assistant", "user"]
    assert talk[0]["content"] == [
        {"type": "text", "text": "I drink oolong."},
        {"type": "image_url", "image_url": {"url": "file-service://file-1"}},
    ]
    (call,) = talk[1]["tool_calls"]
    assert call["function"] == {"name": "python", "arguments": "print(80)"}
    assert (talk[2]["content"], talk[2]["tool_call_id"], talk[2]["name"]) == ("80", call["id"], "python")
    (session,) = recollect("sessions", "--json").json
    assert session["title"] == "Tea for Ann"
    rows = {row["content"]: row for row in map(json.loads, recollect("export").out.splitlines()[1:])}
    assert rows["Use 80 degrees."]["event_at"] == "2024-03-01T09:30:00.250000Z"
    assert rows["Use 80 degrees."]["metadata"] == {"imported_from": "chatgpt", "model": "gpt-x"}


def test_a_zip_is_read_as_it_is_and_importing_it_twice_stores_it_once(recollect, tmp_path):
    other = CHATGPT | {"conversation_id": "c-2", "current_node": None}
    files = {"conversations-000.json": [CHATGPT], "nested/conversations-001.json": [other], "chat.html": b"<html>"}
    file = archive(tmp_path / "export.zip", **files)
    assert (
        recollect("import", "--from", "chatgpt", file, "--json").json["new"] == 9
    )  # without a current node, the newest leaf
    again = recollect("import", "--from", "chatgpt", file, "--all-or-nothing", "--json").json
    assert (again["new"], again["known"]) == (0, 9)
    assert sorted(os.listdir(tmp_path)) == ["export.zip", "notes.db"]


def test_a_title_that_was_changed_here_stays(recollect, lines, url):
    async def rename() -> None:
        async with Memory.open(url, worker=False) as memory:
            await memory.user("me").session("c-1").rename("Oolong")

    file = lines([CHATGPT], name="conversations.json")
    recollect("import", "--from", "chatgpt", file)
    asyncio.run(rename())
    assert recollect("import", "--from", "chatgpt", file, "--json").json["new"] == 0
    assert recollect("sessions", "--json").json[0]["title"] == "Oolong"


def tool(id: str, **content: object) -> dict:
    return said(id, "tool", author={"role": "tool", "name": "python"}, content=content)


VOICE = [{"content_type": "audio_transcription", "text": "By voice."},
         {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file-2"}]  # fmt: skip


def test_each_result_has_its_call_and_each_message_a_time_of_its_conversation(recollect, lines):
    odd = chain(
        said("u1", "user", "Draw it.", at=None),
        said("a1", "assistant", "import chart", "chart()", recipient="python"),
        said("h1", "assistant", content={"content_type": "thoughts", "thoughts": []}),
        tool("t1", content_type="execution_output", text="done"),
        tool("t2", content_type="multimodal_text", parts=[PICTURE]),
        said("a2", "assistant", *VOICE, at=None),
    )
    odd |= {"conversation_id": "odd", "create_time": 1_709_200_000.0}
    assert recollect("import", "--from", "chatgpt", lines([odd], name="conversations.json")).code == 0
    talk = messages(recollect, "odd")
    (call,) = talk[1]["tool_calls"]
    assert call["function"]["arguments"] == "import chart\nchart()"
    assert [message["tool_call_id"] for message in talk[2:4]] == [call["id"], call["id"]]
    assert talk[4]["content"] == "By voice."
    rows = {row["content"]: row["event_at"] for row in map(json.loads, recollect("export").out.splitlines()[1:])}
    assert rows["Draw it."] == "2024-02-29T09:46:40Z", "the beginning of the conversation"
    assert rows["By voice."] == rows["done"] == "2024-03-01T09:30:00.250000Z"


def chain(*messages: object) -> dict:
    """A conversation in which each message replies to the one before."""
    nodes = {f"n{n}": node(f"n{n}", f"n{n - 1}", [], message) for n, message in enumerate(messages)}
    return {"mapping": nodes, "current_node": f"n{len(messages) - 1}"}


ONE, TWO = said("one", "user", "one"), said("two", "user", "two")
ROUND = {"mapping": {"a": node("a", "b", [], ONE), "b": node("b", "a", [], TWO)}, "current_node": "a"}


@pytest.mark.parametrize(
    ("change", "new", "bad"),
    [
        ({"mapping": None}, 0, 1),
        ({"mapping": []}, 0, 1),
        ({"mapping": {}}, 0, 0),
        (ROUND, 2, 0),
        ({"mapping": {"n0": 7, "n1": node("n1", "n0", [], ONE)}, "current_node": "n1"}, 1, 0),
        (chain(said("x", "alien", "?"), ONE), 1, 1),
        (chain(said("x", "user", "x" * 70_000), ONE), 1, 1),
        (chain(said("x", "user", "\ud800"), ONE), 1, 1),
        (chain(said("x", "user", "far", at=1e30), ONE), 1, 1),
        (chain(said("x", "user", 7, {"odd": 1}), ONE), 1, 0),
        (chain(said("\ud800", "user", "half an id"), ONE), 2, 0),
        (chain(said("x", "user", "far", at=10**400)) | {"current_node": None}, 0, 1),
    ],
)
def test_an_odd_conversation_does_not_stop_the_others(recollect, lines, change, new, bad):
    odd = {"conversation_id": "odd", "title": None} | change
    ran = recollect("import", "--from", "chatgpt", lines([odd, CHATGPT], name="conversations.json"), "--json")
    assert (ran.json["messages"], ran.json["bad"], ran.code) == (new + 5, bad, 2 if bad else 0)


def test_an_answer_has_links_where_the_app_shows_them(recollect, lines):
    weather = "\ue200cite\ue202turn0search0\ue202turn0search3\ue201"
    news, person = "\ue200cite\ue202turn0news1\ue201", '\ue200entity\ue202["people","Ada Lovelace",0]\ue201'
    references = [
        {"matched_text": weather, "alt": "([met.no](https://met.no))"},
        {"matched_text": news, "items": [{"title": "News", "url": "https://news.example"}]},
        {"matched_text": " ", "type": "sources_footnote", "alt": "nothing"},
    ]
    text = f"It is sunny. {weather} See {news} by {person}. \ue200navlist\ue202turn0news2\ue201\nBye \ue200i\ue202x"
    answer = said("a1", "assistant", text, metadata={"content_references": references})
    talk = chain(said("u1", "user", "Weather?"), answer) | {"conversation_id": "c-1"}
    recollect("import", lines([talk], name="conversations.json"))
    (_, told) = messages(recollect, "c-1")
    linked = "It is sunny. ([met.no](https://met.no)) See ([News](https://news.example)) by Ada Lovelace."
    assert told["content"] == linked + "\nBye \ue200i\ue202x"


def test_what_a_message_came_with_and_where_it_was_said_are_its_labels(recollect, lines, tmp_path):
    files = {"attachments": [{"id": "f", "name": "Report 2023.pdf"}, {"name": 7}, "odd"]}
    talk = chain(said("u1", "user", "Read it.", metadata=files)) | {"conversation_template_id": "g-p-12"}
    recollect("import", lines([talk], name="conversations.json"))
    (message,) = recollect(
        "list", "--layer", "conversation", "--where", '{"metadata.project": "g-p-12"}', "--json"
    ).json
    assert message["metadata"]["attachments"] == ["Report 2023.pdf"]
    asked = CLAUDE["chat_messages"][0] | {"files": [{"file_name": "boat.png", "file_uuid": "f-1"}], "attachments": []}
    recollect("import", lines([CLAUDE | {"chat_messages": [asked]}], name="claude.json"))
    told = recollect(
        "list", "--layer", "conversation", "--where", '{"metadata.imported_from": "claude"}', "--json"
    ).json
    assert told[0]["metadata"]["attachments"] == ["boat.png"]


# ── Claude ───────────────────────────────────────────────────────────────────────────────────────


def test_conversations_and_memories_of_claude_are_imported(recollect, tmp_path):
    file = archive(tmp_path / "data.zip", **{"conversations.json": [CLAUDE], "memories.json": [MEMORIES]})
    outcome = recollect("import", "--from", "claude", file, "--json").json
    assert (outcome["messages"], outcome["memories"], outcome["sessions"], outcome["bad"]) == (4, 3, 1, 0)
    talk = messages(recollect, "0b5c")
    assert [message["role"] for message in talk] == ["user", "user", "assistant", "user"]
    assert (talk[0]["content"], talk[1]["content"]) == ("Which boat?", "A canoe and a kayak.")
    call, result, text = talk[2]["content"]
    assert call["function"] == {"name": "web_search", "arguments": '{"query": "canoe"}'}
    assert result == {"type": "tool_result", "tool_call_id": call["id"], "content": "found"}
    assert text == {"type": "text", "text": "The canoe."}
    rows = {row["content"]: row for row in map(json.loads, recollect("export").out.splitlines()[1:])}
    assert rows["Which boat?"]["event_at"] == "2026-03-01T09:30:00.123000Z"
    assert {"Work context: Ann builds boats.", "She sails on Sundays.", "Ann writes a book."} <= rows.keys()
    again = recollect("import", "--from", "claude", file, "--json").json
    assert (again["new"], again["known"]) == (0, 8)


def test_an_attachment_that_is_too_long_does_not_drop_its_message(recollect, lines):
    long = {"file_name": "all.txt", "extracted_content": "x" * 70_000}
    message = CLAUDE["chat_messages"][0] | {"attachments": [long]}
    file = lines([CLAUDE | {"chat_messages": [message]}], name="conversations.json")
    ran = recollect("import", "--from", "claude", file, "--json")
    assert (ran.code, ran.json["messages"], ran.json["bad"]) == (2, 1, 1)
    assert ran.json["problems"] == [{"line": 1, "reason": "content: must have at most 65536 bytes of UTF-8"}]


# ── hostile files ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "content",
    [
        b"", b"   ", b"[", b"[{]", b"{", b"not json", b"[1, 2", b'[{"mapping": {}}, ', b"\xff\xfe[]", b'["\xff"]',
        b"[" * 200_000, b'[{"a": ' * 5_000, b"7", b'"text"', b"null",
    ],
)  # fmt: skip
def test_a_file_that_is_not_an_export_is_refused(recollect, tmp_path, content):
    (tmp_path / "conversations.json").write_bytes(content)
    for kind in ("chatgpt", "claude"):
        ran = recollect("import", "--from", kind, "conversations.json", "--json")
        assert (ran.code, ran.json["new"]) == (2, 0)
        assert ran.json["bad"] >= 1


def test_what_comes_before_a_broken_end_is_kept(recollect, tmp_path):
    whole = json.dumps([CHATGPT, CHATGPT | {"conversation_id": "c-2"}]).encode()
    (tmp_path / "conversations.json").write_bytes(whole[:-40])
    ran = recollect("import", "--from", "chatgpt", "conversations.json", "--json")
    assert (ran.code, ran.json["messages"], ran.json["bad"]) == (2, 5, 1)
    assert "is cut off" in ran.json["problems"][0]["reason"]


def test_an_archive_cannot_write_files_or_exhaust_memory(recollect, tmp_path):
    slip = archive(tmp_path / "slip.zip", **{"../../../tmp/conversations.json": [CHATGPT], "/etc/x": b"x"})
    assert recollect("import", "--from", "chatgpt", slip, "--json").json["new"] == 6
    assert not (tmp_path.parent / "conversations.json").exists()
    bomb = archive(tmp_path / "bomb.zip", **{"conversations.json": b"[" + b" " * 50_000_000 + b"]"})
    ran = recollect("import", "--from", "chatgpt", bomb)
    assert (ran.code, "unpacks to far more" in ran.err) == (2, True)
    empty = archive(tmp_path / "empty.zip", **{"other.json": []})
    assert recollect("import", "--from", "chatgpt", empty).code == 2


def test_an_archive_that_is_damaged_or_lies_about_sizes_is_refused(recollect, tmp_path):
    good = archive(tmp_path / "good.zip", **{"conversations.json": [CHATGPT]})
    raw = Path(good).read_bytes()
    place = raw.rindex(b"PK\x01\x02")
    lies = bytearray(raw)
    lies[place + 24 : place + 28] = struct.pack("<I", 10)  # claims to unpack to ten bytes
    crypted = bytearray(raw)
    crypted[place + 8] |= 1
    for content in (raw[:200], raw[: len(raw) // 2] + raw[len(raw) // 2 + 9 :], bytes(lies), bytes(crypted)):
        (tmp_path / "bad.zip").write_bytes(content)
        ran = recollect("import", "--from", "chatgpt", "bad.zip")
        assert ran.code == 2, ran
        assert "Traceback" not in ran.out + ran.err


@pytest.mark.parametrize(
    "kind", ["chatgpt", "claude", "mcp", "mem0", "langchain", "openai-agents", "langgraph", "ai-sdk"]
)
def test_only_plain_files_are_read_whatever_the_kind(recollect, tmp_path, kind):
    target = tmp_path / "real.json"
    target.write_text("[]")
    (tmp_path / "link.json").symlink_to(target)
    os.mkfifo(tmp_path / "pipe.json")
    for source in ("link.json", "pipe.json", "/dev/zero", "/dev/null"):
        assert recollect("import", "--from", kind, source).code == 2, source
    assert recollect("import", "--from", kind, "no-such-file.json").code == 1
    assert recollect("import", "--from", kind, "-", input="").code == (0 if kind == "jsonl" else 2)
    assert recollect("import", "--from", kind, "ftp://host/x").code in (1, 2)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_huge_sparse_file_is_refused_in_little_memory(recollect, tmp_path, monkeypatch, kind):
    if kind != "chatgpt":  # after one kind, every reader is tried; so the full limits are reached once
        monkeypatch.setattr(files, "ELEMENT_CHARACTERS", 4 << 20)
        monkeypatch.setattr(jsonl, "SKIPPED_BYTES", 8 << 20)
    with open(tmp_path / "hole.json", "wb") as file:
        file.truncate(10 << 30)
    ran = recollect("import", "--from", kind, "hole.json")
    assert ran.code != 0
    assert "Traceback" not in ran.out + ran.err


def test_an_unknown_kind_is_refused_with_the_list_of_kinds(recollect):
    ran = recollect("import", "--from", "fax", "x")
    assert (ran.code, "chatgpt" in ran.err) == (2, True)


# ── the MCP memory server ────────────────────────────────────────────────────────────────────────

GRAPH = [
    {"type": "entity", "name": "default_user", "entityType": "person", "observations": ["Prefers short answers."]},
    {
        "type": "entity",
        "name": "Ida",
        "entityType": "Person!",
        "observations": ["Speaks Norse", "Ida owns a canoe"],
    },
    {"type": "entity", "name": "Acme", "entityType": "company", "observations": []},
    {"type": "relation", "from": "Ida", "to": "Acme", "relationType": "works at"},
    {"type": "relation", "from": "default_user", "to": "Ida", "relationType": "knows"},
]


def test_the_graph_of_an_mcp_server_becomes_graph_and_memories(recollect, lines):
    file = lines(*GRAPH, name="memory.jsonl")
    outcome = recollect("import", "--from", "mcp", file, "--json").json
    assert (outcome["entities"], outcome["relations"], outcome["memories"], outcome["bad"]) == (2, 2, 3, 0)
    rows = [json.loads(line) for line in recollect("export").out.splitlines()[1:]]
    memories = {row["content"] for row in rows if row["layer"] == "long_term"}
    assert memories == {"Prefers short answers.", "Ida: Speaks Norse", "Ida owns a canoe"}
    assert {"Ida (person)", "Acme (company)"} <= {row["content"] for row in rows if row["layer"] == "entity"}
    assert {row["content"] for row in rows if row["layer"] == "relation"} >= {"Ida works at Acme"}
    again = recollect("import", "--from", "mcp", file, "--json").json
    assert (again["new"], again["known"]) == (0, 7)


@pytest.mark.parametrize(
    "line",
    [
        {"type": "entity"}, {"type": "thing", "name": "x"}, {"type": "relation", "from": "a", "to": "b"},
        {"type": "relation", "from": "a", "to": "b", "relationType": "?!"}, b"half a line\n",
        {"type": "entity", "name": "x", "observations": "y"}, {"type": "entity", "name": "x", "observations": [7]},
        {"type": "entity", "name": "x" * 200, "observations": []}, {"type": "entity", "name": 7}, [], b'\xff\n',
    ],
)  # fmt: skip
def test_an_invalid_line_of_the_graph_is_reported(recollect, lines, line):
    ran = recollect("import", "--from", "mcp", lines(GRAPH[1], line, GRAPH[2]), "--json")
    assert (ran.code, [problem["line"] for problem in ran.json["problems"]]) == (2, [2])
    assert ran.json["entities"] == 2
