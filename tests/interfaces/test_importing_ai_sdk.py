"""Importing what `@ai-sdk-tools/memory` stored, written by the package itself where npm could install it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.testing.servers.redis import RedisServer

SCRIPT = Path(__file__).with_name("ai_sdk_memory.mjs")
PACKAGES = Path(sys.prefix) / "ai-sdk-memory"
WRITE = "npm install --prefix .venv/ai-sdk-memory @ai-sdk-tools/memory@1.2.0 redis@4 drizzle-orm@0.36 postgres@3"


@pytest.fixture
def written_by_the_package():
    """Let the real package write into a server."""
    node = shutil.which("node")
    if node is None or not (PACKAGES / "node_modules" / "@ai-sdk-tools" / "memory").is_dir():
        pytest.skip(f"the package is not here: {WRITE}")

    def write(kind: str, url: str) -> None:
        ran = subprocess.run([node, str(SCRIPT), str(PACKAGES), kind, url], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr

    return write


def check(recollect, source: str) -> None:
    """Everything the script wrote is imported under its owners, and importing twice stores it once."""
    bring = ["import", "--from", "ai-sdk", source, "--user-from", "source", "--user", "rest", "--json"]
    outcome = recollect(*bring).json
    assert (outcome["messages"], outcome["memories"], outcome["sessions"], outcome["bad"]) == (4, 2, 1, 0)
    (session,) = recollect("sessions", "--user", "ann", "--json").json
    assert (session["id"], session["title"], session["messages"]) == ("monday", "Tea", 3)
    said = recollect("sessions", "--show", "monday", "--user", "ann", "--json").json["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "user"]
    assert (said[0]["content"], said[2]["content"]) == ("I drink oolong.", "Thanks!")
    assert said[1]["content"] == [
        {"type": "tool_call", "id": "call-1", "function": {"name": "kettle", "arguments": '{"degrees": 80}'}},
        {"type": "tool_result", "tool_call_id": "call-1", "content": "done"},
        {"type": "text", "text": "Ready."},
    ]
    rows = [json.loads(line) for line in recollect("export", "--user", "ann").out.splitlines()[1:]]
    assert {row["event_at"] for row in rows if row["layer"] == "conversation"} == {"2026-03-01T09:30:00Z"}
    assert "# Ann\n- likes oolong at 80 degrees" in [row["content"] for row in rows]
    assert "I drink water." in recollect("export", "--user", "bob").out
    again = recollect(*bring).json
    assert (again["new"], again["known"]) == (0, 7)


@pytest.mark.xdist_group("redis")
def test_keys_that_the_package_wrote_into_redis_are_imported(recollect, written_by_the_package):
    with RedisServer("redis") as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        written_by_the_package("redis", url)
        check(recollect, url)


def test_tables_that_the_package_wrote_into_postgres_are_imported(recollect, written_by_the_package, source_postgres):
    written_by_the_package("postgres", source_postgres)
    check(recollect, source_postgres)


def test_tables_in_sqlite_are_imported(recollect, tmp_path):
    """Made by hand from the package's `SQL_SCHEMAS.sqlite`, in which times are seconds."""
    with sqlite3.connect(tmp_path / "memory.db") as db:
        db.execute(
            "create table conversation_messages (id integer primary key, chat_id text, user_id text, role text,"
            " content text, timestamp integer)"
        )
        said = [("user", "I drink oolong."), ("assistant", '{"parts": [{"type": "text", "text": "Ready."}]}')]
        rows = [("monday", "ann", role, content, 1_772_357_400) for role, content in [*said, ("robot", "?")]]
        db.executemany(
            "insert into conversation_messages (chat_id, user_id, role, content, timestamp) values (?, ?, ?, ?, ?)",
            rows,
        )
    ran = recollect("import", "--from", "ai-sdk", str(tmp_path / "memory.db"), "--json")
    assert (ran.code, ran.json["new"], ran.json["source_users"]) == (2, 2, 1)
    assert ran.json["problems"] == [{"line": 3, "reason": "role: must be one of system, user, assistant, tool"}]
    rows = [json.loads(line) for line in recollect("export").out.splitlines()[1:]]
    assert [(row["content"], row["event_at"]) for row in rows] == [
        ("I drink oolong.", "2026-03-01T09:30:00Z"),
        ("Ready.", "2026-03-01T09:30:00Z"),
    ]
