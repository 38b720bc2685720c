"""What holds for every kind of source: dry runs, idempotence, resuming, reports line by line, never mistaken."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.memory import SQLiteSession
from langgraph.store.sqlite import SqliteStore
from test_importing_exports import CHATGPT, CLAUDE, GRAPH

from recollect import Memory
from recollect.importers.guessing import GUESSED, guess
from recollect.importers.items import Read, Source
from recollect.importers.kinds import KINDS, open_source
from recollect.importers.options import Options
from recollect.importers.writing import bring_in
from recollect.testing.faults import ended, start
from recollect.testing.import_kills import import_until_killed

Make = Callable[[Path, int], Path]
"""Writes a source with about this many records into a folder."""
SESSIONS = ("monday", "tuesday", "friday")


def written(path: Path, *values: Any) -> Path:
    """A JSON file with one value, or one value per line."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def session_of(number: int) -> str:
    return SESSIONS[number % len(SESSIONS)]


def jsonl_file(folder: Path, count: int) -> Path:
    lines = ({"role": "user", "content": f"I drink oolong {n}", "session": session_of(n)} for n in range(count))
    return written(folder / "file.jsonl", *lines)


def langchain_table(folder: Path, count: int) -> Path:
    with sqlite3.connect(folder / "chats.db") as db:
        db.execute("create table message_store (id integer primary key, session_id text, message text)")
        said = [json.dumps({"type": "human", "data": {"content": f"I drink oolong {n}"}}) for n in range(count)]
        rows = [(session_of(n), message) for n, message in enumerate(said)]
        db.executemany("insert into message_store (session_id, message) values (?, ?)", rows)
    return folder / "chats.db"


def langgraph_table(folder: Path, count: int) -> Path:
    with SqliteStore.from_conn_string(str(folder / "graph.db")) as store:
        store.setup()
        for number in range(count):
            store.put(("memories", "ann"), str(number), {"text": f"Ann drinks oolong {number}"})
    return folder / "graph.db"


def agents_table(folder: Path, count: int) -> Path:
    session = SQLiteSession("monday", str(folder / "agents.db"))
    asyncio.run(session.add_items([{"role": "user", "content": f"I drink oolong {n}"} for n in range(count)]))
    session.close()
    return folder / "agents.db"


def ai_sdk_table(folder: Path, count: int) -> Path:
    with sqlite3.connect(folder / "memory.db") as db:
        columns = "chat_id text, user_id text, role text, content text, timestamp integer"
        db.execute(f"create table conversation_messages (id integer primary key, {columns})")
        into = "insert into conversation_messages (chat_id, user_id, role, content, timestamp)"
        rows = [(session_of(n), "ann", "user", f"I drink oolong {n}", 1_772_357_400 + n) for n in range(count)]
        db.executemany(f"{into} values (?, ?, ?, ?, ?)", rows)
    return folder / "memory.db"


def mem0_list(folder: Path, count: int) -> Path:
    kept = [{"id": f"m{n}", "memory": f"Ann drinks oolong {n}", "user_id": "ann"} for n in range(count)]
    return written(folder / "memories.json", {"results": kept})


def mcp_file(folder: Path, count: int) -> Path:
    more = [{"type": "entity", "name": f"Boat {n}", "entityType": "boat", "observations": []} for n in range(count)]
    return written(folder / "file.jsonl", *GRAPH, *more[len(GRAPH) :])


def chatgpt_export(folder: Path, count: int) -> Path:
    talks = [CHATGPT | {"conversation_id": f"c-{n}"} for n in range(-(-count // 6))]
    return written(folder / "conversations.json", talks)


def claude_export(folder: Path, count: int) -> Path:
    talks = [CLAUDE | {"uuid": f"0b5c{n}"} for n in range(-(-count // 4))]
    return written(folder / "conversations.json", talks)


SOURCES: dict[str, Make] = {
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
FEW, MANY = 3, 120
"""Record counts of a source that is read in one go, and of one that takes three batches."""


def test_there_is_a_source_of_every_kind():
    assert set(SOURCES) == set(GUESSED) == {kind for kind in KINDS if kind != "langchain-postgres"}


class Stopped(Exception):
    """Something ends the import."""


class Ending:
    """A source that fails after some items, as when a process is killed."""

    def __init__(self, source: Source, after: int) -> None:
        self.size, self._source, self._after = None, source, after

    def read(self) -> Iterator[Read]:
        for place, each in enumerate(self._source.read()):
            if place == self._after:
                raise Stopped
            yield each


@pytest.mark.parametrize("kind", SOURCES)
def test_a_dry_run_stores_nothing_then_all_is_new_then_all_known_and_each_line_is_reported(recollect, tmp_path, kind):
    source = str(SOURCES[kind](tmp_path, FEW))
    bring = ["import", "--from", kind, source, "--json"]
    tried = recollect(*bring, "--dry-run", "--report", "tried.jsonl")
    assert (tried.code, tried.json["stored"], tried.json["new"]) == (0, False, 0)
    assert len(recollect("export").out.splitlines()) <= 1  # only the header
    done = recollect(*bring, "--report", "done.jsonl").json
    again = recollect(*bring, "--report", "again.jsonl").json
    later = {"messages_live_until": again["messages_live_until"]}
    assert done["new"] >= 3 and done["known"] == 0 and again == done | {"new": 0, "known": done["new"]} | later
    for file, result in (("tried", "good"), ("done", "new"), ("again", "known")):
        told = [json.loads(line) for line in Path(f"{file}.jsonl").read_text(encoding="utf-8").splitlines()]
        stored = [each for each in told if each["result"] != "left out"]
        assert [each["result"] for each in stored] == [result] * done["new"]
        assert all(each["line"] >= 1 and each["kind"] for each in stored)
        assert len(told) - len(stored) == done["left_out"]


@pytest.mark.parametrize("kind", SOURCES)
async def test_an_import_that_stops_anywhere_can_be_resumed(tmp_path, kind):
    path = str(await asyncio.to_thread(SOURCES[kind], tmp_path, FEW))
    counts = []
    for after in (1, 2, None):
        async with Memory.open(f"sqlite:///{tmp_path}/ours-{after}.db", worker=False) as memory:
            ann = memory.user("ann")
            if after is not None:
                with open_source(kind, path) as source, pytest.raises(Stopped):
                    await bring_in(Ending(source, after), lambda owner, ann=ann: ann)
            with open_source(kind, path) as source:
                outcome = await bring_in(source, lambda owner, ann=ann: ann)
            assert outcome.bad == 0
            counts.append((outcome.new + outcome.known, len(await ann.export())))
    assert len(set(counts)) == 1


KILLS = (("record", 1), ("before commit", 2), ("record", 100), ("after commit", 1))
"""Where successive imports are killed; each resumes where the previous one was."""


def kept(ran: Any) -> list[tuple[str, ...]]:
    """What an export contains, session by session and in order: ids and words, which are those of the source."""
    records = [json.loads(line) for line in ran.out.splitlines()[1:]]
    rows = [(each["scope"]["session"], each["layer"], each["id"], each["content"]) for each in records]
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.parametrize("kind", SOURCES)
def test_an_import_killed_again_and_again_ends_complete(recollect, tmp_path, kind, url):
    path = str(SOURCES[kind](tmp_path, MANY))
    for step, at in KILLS:
        process = start(import_until_killed, kind, path, url, "me", step, at)
        assert ended(process) == -signal.SIGKILL, (step, at)
    bring = ["import", "--from", kind, path, "--json"]
    outcome, whole = recollect(*bring).json, f"sqlite:///{tmp_path}/whole.db"
    anew = recollect(*bring, at=whole).json
    later = {"messages_live_until": anew["messages_live_until"]}  # it was stored later
    assert anew == outcome | {"new": outcome["new"] + outcome["known"], "known": 0} | later
    assert outcome["known"] and outcome["new"] and outcome["bad"] == 0
    assert kept(recollect("export")) == kept(recollect("export", at=whole))


@pytest.mark.parametrize("wrong", SOURCES)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_of_the_wrong_kind_is_refused_with_its_right_kind(recollect, tmp_path, kind, wrong):
    if wrong == kind:
        return
    path = str(SOURCES[kind](tmp_path, FEW))
    ran = recollect("import", "--from", wrong, path)
    if ran.code == 0:  # the reader of JSON Lines also understands the lines of some other kinds
        assert (kind, wrong) in {("mcp", "jsonl")}
        return
    assert ran.code == 2 and f"try --from {kind}" in ran.err, (ran.out, ran.err)
    assert "oolong" not in ran.err and len(recollect("export").out.splitlines()) <= 1


def test_an_unknown_format_is_not_guessed(recollect, tmp_path):
    (tmp_path / "file.json").write_text('{"weather": "rain"}')
    assert guess("chatgpt", str(tmp_path / "file.json"), Options()) is None
    ran = recollect("import", "--from", "chatgpt", "file.json")
    assert ran.code == 2 and "--from" not in ran.err
    (tmp_path / "empty.jsonl").write_text("")
    assert recollect("import", "empty.jsonl").code == 1
