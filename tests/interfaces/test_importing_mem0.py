"""Importing what mem0 stored, written by the package itself with an embedder that needs no network."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import tempfile

import psycopg
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from recollect.importers.points import payload_of

os.environ |= {"MEM0_TELEMETRY": "false", "MEM0_DIR": tempfile.mkdtemp(prefix="mem0-")}  # read at import time
mem0 = pytest.importorskip("mem0", reason="install mem0ai")


@pytest.fixture
def remember(tmp_path):
    """Fill a real mem0 on one of its vector stores with some memories of Ann and Bob."""

    def write(provider: str = "qdrant", **config):
        memory = mem0.Memory.from_config(
            {
                "vector_store": {"provider": provider, "config": {"embedding_model_dims": 8, **config}},
                "embedder": {"provider": "langchain", "config": {"model": DeterministicFakeEmbedding(size=8)}},
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
                "history_db_path": str(tmp_path / "history.db"),
            }
        )
        said = [{"role": "user", "content": "Ann lives in Porto."}, {"role": "assistant", "content": "Noted, Ann."}]
        first = memory.add(said, user_id="ann", infer=False, metadata={"topic": "home", "odd key!": 1})["results"][0]
        memory.add("Bob plays chess.", user_id="bob", agent_id="helper", run_id="r1", infer=False)
        gone = memory.add("Ann owns a canoe.", user_id="ann", infer=False)["results"][0]
        memory.update(first["id"], "Ann lives in Lisbon.")
        memory.delete(gone["id"])
        listed = memory.get_all(filters={"user_id": "ann"})
        if provider == "qdrant":
            memory.vector_store.client.close()
        memory.db.close()
        return listed

    return write


def contents(recollect, user: str) -> dict[str, dict]:
    rows = [json.loads(line) for line in recollect("export", "--user", user).out.splitlines()[1:]]
    return {row["content"]: row for row in rows}


def check(recollect, source: str) -> None:
    bring = ["import", "--from", "mem0", source, "--json"]
    apart = recollect(*bring, "--user-from", "source").json
    assert (apart["memories"], apart["new"], apart["source_users"], apart["bad"]) == (3, 3, 2, 0)
    ann, bob = contents(recollect, "ann"), contents(recollect, "bob")
    assert set(ann) == {"Ann lives in Lisbon.", "Noted, Ann."}
    assert set(bob) == {"Bob plays chess."}
    labels = ann["Ann lives in Lisbon."]["metadata"]
    assert (labels["topic"], labels["odd_key_"], labels["imported_from"]) == ("home", 1, "mem0")
    assert (bob["Bob plays chess."]["metadata"]["agent_id"], bob["Bob plays chess."]["metadata"]["run_id"]) == (
        "helper",
        "r1",
    )
    assert ann["Ann lives in Lisbon."]["event_at"] is not None
    again = recollect(*bring, "--user-from", "source").json
    assert (again["new"], again["known"]) == (0, 3)
    only = recollect(*bring, "--user", "carol", "--source-user", "ann").json
    assert (only["new"], set(contents(recollect, "carol"))) == (2, set(ann))


def test_a_local_qdrant_folder_is_imported(recollect, remember, tmp_path):
    remember(path=str(tmp_path / "qdrant"), on_disk=True)
    check(recollect, str(tmp_path / "qdrant"))
    (hit, *_) = recollect("search", "Where does Ann live?", "--user", "ann", "--json").json
    assert hit["record"]["content"] == "Ann lives in Lisbon."


def test_a_pgvector_table_is_imported(recollect, remember, source_postgres):
    remember("pgvector", connection_string=source_postgres, collection_name="memories", dbname="postgres")
    check(recollect, source_postgres)


def test_a_history_database_yields_the_newest_text_of_what_was_not_deleted(recollect, remember, tmp_path):
    remember(path=str(tmp_path / "qdrant"), on_disk=True)
    with sqlite3.connect(tmp_path / "history.db") as db:
        scope = "agent_id=helper&user_id=ann"
        db.execute(
            "insert into messages values ('m1', ?, 'user', 'Hello there.', null, '2026-03-01T09:30:00')", (scope,)
        )
    outcome = recollect("import", "--from", "mem0", str(tmp_path / "history.db"), "--json").json
    assert (outcome["memories"], outcome["messages"], outcome["bad"]) == (3, 1, 0)
    assert {"Ann lives in Lisbon.", "Noted, Ann.", "Bob plays chess.", "Hello there."} == set(contents(recollect, "me"))


def test_the_output_of_get_all_is_imported(recollect, remember, tmp_path, lines):
    listed = remember(path=str(tmp_path / "qdrant"), on_disk=True)
    file = lines(listed, name="memories.json")
    assert recollect("import", "--from", "mem0", file, "--user-from", "source", "--json").json["new"] == 2
    assert contents(recollect, "ann")["Ann lives in Lisbon."]["metadata"]["topic"] == "home"
    plain = lines(listed["results"], name="plain.json")
    assert recollect("import", "--from", "mem0", plain, "--user-from", "source", "--json").json["known"] == 2


# ── hostile folders ──────────────────────────────────────────────────────────────────────────────


class Touch:
    """Would create a file when unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def collection(tmp_path, *blobs: bytes) -> str:
    folder = tmp_path / "qdrant" / "collection" / "mem0"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "storage.sqlite") as db:
        db.execute("create table points (id text primary key, point blob)")
        db.executemany("insert into points values (?, ?)", [(str(n), blob) for n, blob in enumerate(blobs)])
    return str(tmp_path / "qdrant")


def endless() -> bytes:
    """A small pickle that expands to a thousand million lists."""
    value: list = ["x"]
    for _ in range(30):
        value = [value, value]
    return pickle.dumps({"payload": value}, protocol=4)


def test_nothing_in_a_pickled_point_can_run(recollect, tmp_path):
    bait = tmp_path / "ran"
    for protocol in range(6):
        with pytest.raises(Exception, match="is not a Qdrant point"):
            payload_of(pickle.dumps({"payload": Touch(bait)}, protocol=protocol))
    folder = collection(
        tmp_path, pickle.dumps(Touch(bait)), b"", b"garbage", endless(), b"\x80\x04]q\xff." * 9, b"x" * 2**21
    )
    ran = recollect("import", "--from", "mem0", folder, "--json")
    assert (ran.code, ran.json["bad"], ran.json["new"]) == (2, 6, 0)
    assert not bait.exists()


def test_a_folder_without_a_collection_is_refused(recollect, tmp_path):
    assert recollect("import", "--from", "mem0", str(tmp_path)).code == 1
    (tmp_path / "collection" / "mem0").mkdir(parents=True)
    (tmp_path / "real.sqlite").write_bytes(b"SQLite format 3\0")
    (tmp_path / "collection" / "mem0" / "storage.sqlite").symlink_to(tmp_path / "real.sqlite")
    ran = recollect("import", "--from", "mem0", str(tmp_path))
    assert (ran.code, "symbolic link" in ran.err) == (2, True)


def test_a_table_of_payloads_reports_which_rows_are_not_memories(recollect, source_postgres):
    with psycopg.connect(source_postgres) as db:
        db.execute("create table memories (id int, vector text, payload jsonb)")
        for id, payload in enumerate(
            ['{"data": "Good."}', '{"data": 7}', "[]", '{"data": " "}', '{"other": 1}', "null"]
        ):
            db.execute("insert into memories values (%s, '', %s)", (id, payload))
    ran = recollect("import", "--from", "mem0", source_postgres, "--json")
    assert (ran.json["new"], [problem["line"] for problem in ran.json["problems"]]) == (1, [2, 3, 4, 6])
