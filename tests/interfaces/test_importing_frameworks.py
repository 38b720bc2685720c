"""Importing what LangChain, LangGraph and the OpenAI Agents SDK stored; their adapters return it unchanged."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import uuid
from datetime import UTC, datetime

import psycopg
import pytest
from agents.memory import SQLiteSession
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage, message_to_dict
from langgraph.store.postgres import PostgresStore

from recollect import Memory
from recollect.adapters.langchain import ChatMessageHistory
from recollect.adapters.langgraph import Store
from recollect.adapters.openai_agents import Session
from recollect.testing.servers.redis import RedisServer

langgraph_sqlite = pytest.importorskip("langgraph.store.sqlite", reason="install langgraph-checkpoint-sqlite")
histories = pytest.importorskip("langchain_community.chat_message_histories", reason="install langchain-community")
langchain_postgres = pytest.importorskip("langchain_postgres", reason="install langchain-postgres")

CALL = {"name": "kettle", "args": {"degrees": 80}, "id": "call-1", "type": "tool_call"}
TALK = [
    SystemMessage("Be brief."),
    HumanMessage("Boil water for my oolong.", id="m1", additional_kwargs={"mood": "glad"}),
    AIMessage("", tool_calls=[CALL], response_metadata={"model": "small"}),
    ToolMessage("done", tool_call_id="call-1", name="kettle"),
    AIMessage([{"type": "text", "text": "It is ready."}]),
    ChatMessage("And now?", role="user"),
    HumanMessage("Boil water for my oolong."),
]


def given_back(url: str, session: str):
    async def read():
        async with Memory.open(url, worker=False) as memory:
            return await ChatMessageHistory(memory.user("me").session(session)).aget_messages()

    return asyncio.run(read())


# ── LangChain ────────────────────────────────────────────────────────────────────────────────────


def test_tables_of_langchain_postgres_are_imported_once_with_their_times(recollect, url, source_postgres):
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    with psycopg.connect(source_postgres) as db:
        langchain_postgres.PostgresChatMessageHistory.create_tables(db, "chat_history")
        for session, talk in ((first, TALK), (second, TALK[:2])):
            langchain_postgres.PostgresChatMessageHistory("chat_history", session, sync_connection=db).add_messages(
                talk
            )
        db.execute("update chat_history set created_at = '2024-05-01T10:00:00+02' where session_id = %s", (first,))
    outcome = recollect("import", "--from", "langchain-postgres", source_postgres, "--json").json
    assert (outcome["messages"], outcome["new"], outcome["bad"]) == (9, 9, 0)
    assert given_back(url, first) == TALK
    assert given_back(url, second) == TALK[:2]
    rows = [json.loads(line) for line in recollect("export").out.splitlines()[1:]]
    of_first = [row for row in rows if (row["scope"]["session"], row["layer"]) == (first, "conversation")]
    assert {row["event_at"] for row in of_first} == {"2024-05-01T08:00:00Z"}
    assert {row["metadata"]["imported_from"] for row in of_first} == {"langchain"}
    again = recollect("import", "--from", "langchain-postgres", source_postgres, "--json").json
    assert (again["new"], again["known"]) == (0, 9)


def test_a_table_must_be_named_if_several_match(recollect, source_postgres):
    with psycopg.connect(source_postgres) as db:
        for table in ("support", "sales"):
            langchain_postgres.PostgresChatMessageHistory.create_tables(db, table)
            history = langchain_postgres.PostgresChatMessageHistory(table, str(uuid.uuid4()), sync_connection=db)
            history.add_messages(TALK[:1] if table == "sales" else TALK)
    ran = recollect("import", "--from", "langchain", source_postgres)
    assert ran.code == 2
    assert "'sales', 'support'" in ran.err
    assert (
        recollect("import", "--from", "langchain", source_postgres, "--table", "sales", "--json").json["messages"] == 1
    )
    assert recollect("import", "--from", "langchain", source_postgres, "--table", "pg_class").code == 1


def test_the_url_of_a_missing_database_is_not_revealed(recollect):
    ran = recollect("import", "--from", "langchain", "postgresql://me:hush@127.0.0.1:1/x")
    assert ran.code not in (0, 2)
    assert "hush" not in ran.out + ran.err


def test_an_sqlite_history_is_imported(recollect, url, tmp_path):
    file = tmp_path / "chats.db"
    for session in ("monday", "{odd}"):
        history = histories.SQLChatMessageHistory(session, connection=f"sqlite:///{file}")
        history.add_messages(TALK)
    outcome = recollect("import", "--from", "langchain", str(file), "--json").json
    assert (outcome["messages"], outcome["bad"]) == (14, 0)
    assert given_back(url, "monday") == TALK
    assert len(recollect("sessions", "--json").json) == 2
    assert recollect("import", "--from", "langchain", f"sqlite:///{file}", "--json").json["new"] == 0


def test_two_databases_with_equal_session_names_do_not_hide_each_other(recollect, tmp_path):
    for name, said in (("one", "I like tea."), ("two", "I like maps.")):
        history = histories.SQLChatMessageHistory("default", connection=f"sqlite:///{tmp_path}/{name}.db")
        history.add_messages([HumanMessage(said)])
        assert recollect("import", "--from", "langchain", f"{tmp_path}/{name}.db", "--json").json["new"] == 1


def test_a_file_history_is_one_session_named_after_the_file(recollect, url, tmp_path):
    file = tmp_path / "tuesday.json"
    histories.FileChatMessageHistory(str(file)).add_messages(TALK)
    assert recollect("import", "--from", "langchain", str(file), "--json").json["new"] == 7
    assert given_back(url, "tuesday") == TALK
    assert recollect("import", "--from", "langchain", str(file), "--session", "other", "--json").json["new"] == 7


@pytest.mark.xdist_group("redis")
def test_lists_in_redis_are_read_oldest_first(recollect, url):
    with RedisServer("redis") as server:
        at = f"redis://127.0.0.1:{server.port}/0"
        for session, talk in (("monday", TALK), ("*", TALK[:1])):
            histories.RedisChatMessageHistory(session, url=at).add_messages(talk)
        server.client().set("message_store:not-a-list", "x")
        assert recollect("import", "--from", "langchain", at, "--json").json["new"] == 8
        assert given_back(url, "monday") == TALK
        assert given_back(url, "*") == TALK[:1]
        server.client().rpop("message_store:monday")  # its oldest message is trimmed away
        again = recollect("import", "--from", "langchain", at, "--json").json
        assert (again["new"], again["known"]) == (0, 7)
        assert recollect("import", "--from", "langchain", at, "--prefix", "other:", "--json").json["messages"] == 0


def test_a_row_that_is_not_a_message_is_reported_and_the_rest_is_stored(recollect, tmp_path):
    file = tmp_path / "chats.db"
    good = json.dumps(message_to_dict(TALK[0]))
    long = json.dumps(message_to_dict(HumanMessage("x" * 70_000)))
    half = '{"type": "human", "data": {"content": "\\ud800"}}'
    rows = [good, "not json", "[]", '{"type": "human"}', long, half, b"\xff\xfe", None, "x" * 2_000_000, good]
    with sqlite3.connect(file) as db:
        db.execute("create table message_store (id integer primary key, session_id text, message text)")
        db.executemany("insert into message_store (session_id, message) values ('s', ?)", [(row,) for row in rows])
    ran = recollect("import", "--from", "langchain", str(file), "--json")
    assert (ran.code, ran.json["new"]) == (2, 2)
    assert [problem["line"] for problem in ran.json["problems"]] == list(range(2, 10))
    assert "at most 65536 bytes" in ran.json["problems"][3]["reason"]


# ── LangGraph ────────────────────────────────────────────────────────────────────────────────────


def fill(store) -> None:
    store.put(("memories", "ann"), "tea", {"text": "Ann drinks oolong.", "rated": {"stars": 5}})
    store.put(("memories", "bob"), "tea", {"text": "Bob drinks none."})
    store.put(("settings",), "theme", {"dark": True})


def check_given_back(url: str, user: str = "me", **options) -> None:
    async def read():
        async with Memory.open(url, worker=False) as memory:
            store = Store(memory, user=user, **options)
            tea = await store.aget(("memories", "ann"), "tea")
            return tea, await store.aget(("settings",), "theme"), await store.asearch(("memories",), query="oolong")

    tea, theme, found = asyncio.run(read())
    assert (tea.value, theme.value) == ({"text": "Ann drinks oolong.", "rated": {"stars": 5}}, {"dark": True})
    assert abs((datetime.now(UTC) - tea.updated_at).total_seconds()) < 600
    assert found[0].value["text"] == "Ann drinks oolong."


def test_items_of_an_sqlite_store_are_imported(recollect, url, tmp_path):
    file = tmp_path / "graph.db"
    with langgraph_sqlite.SqliteStore.from_conn_string(str(file)) as store:
        store.setup()
        fill(store)
    assert recollect("import", "--from", "langgraph", str(file), "--json").json["new"] == 3
    check_given_back(url)
    again = recollect("import", "--from", "langgraph", str(file), "--json").json
    assert (again["new"], again["known"]) == (0, 3)


def test_items_of_a_postgres_store_go_to_the_users_named_by_their_namespaces(recollect, url, source_postgres):
    with PostgresStore.from_conn_string(source_postgres) as store:
        store.setup()
        fill(store)
    ran = recollect(
        "import",
        "--from",
        "langgraph",
        source_postgres,
        "--user-from",
        "source",
        "--user-segment",
        "1",
        "--user",
        "rest",
        "--json",
    )
    assert (ran.json["new"], ran.json["source_users"]) == (3, 2)
    assert {user["user"] for user in recollect("stats", "--json").json.get("by_user", [])} <= {"ann", "bob", "rest"}
    check_given_back(url, "rest", user_segment=1)


def test_an_expired_item_is_not_imported_and_a_ttl_is_kept(recollect, url, tmp_path):
    file = tmp_path / "graph.db"
    with langgraph_sqlite.SqliteStore.from_conn_string(str(file)) as store:
        store.setup()
        store.put(("a",), "short", {"text": "gone"}, ttl=1)
        store.put(("a",), "long", {"text": "here"}, ttl=60)
        store.conn.execute("update store set expires_at = '2020-01-01 00:00:00' where key = 'short'")
        store.conn.commit()
    outcome = recollect("import", "--from", "langgraph", str(file), "--json").json
    assert (outcome["new"], outcome["expired"]) == (1, 1)
    (row,) = [json.loads(line) for line in recollect("export").out.splitlines()[1:]]
    assert row["metadata"]["store_ttl_minutes"] == 60
    left = datetime.fromisoformat(row["expires_at"]).timestamp() - datetime.now(UTC).timestamp()
    assert 3_000 < left <= 3_600


# ── OpenAI Agents ────────────────────────────────────────────────────────────────────────────────

ITEMS = [
    {"role": "user", "content": "Where did I park?"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look it up."}]},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"what": "car"}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": "level 3"},
    {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
     "content": [{"type": "output_text", "text": "On level 3.", "annotations": []}]},
]  # fmt: skip


def test_sessions_of_the_agents_sdk_are_imported_item_by_item(recollect, url, tmp_path):
    file = tmp_path / "agents.db"

    async def fill_sessions():
        for name in ("monday", "tuesday"):
            session = SQLiteSession(name, str(file))
            await session.add_items(ITEMS)
            session.close()

    asyncio.run(fill_sessions())
    outcome = recollect("import", "--from", "openai-agents", str(file), "--json").json
    assert (outcome["messages"], outcome["new"], outcome["bad"]) == (10, 10, 0)

    async def read():
        async with Memory.open(url, worker=False) as memory:
            return await Session(memory.user("me"), "monday").get_items()

    assert asyncio.run(read()) == ITEMS
    assert recollect("import", "--from", "openai-agents", str(file), "--json").json["new"] == 0


def test_encrypted_sessions_are_refused(recollect, tmp_path):
    file = tmp_path / "agents.db"
    session = SQLiteSession("monday", str(file))
    asyncio.run(session.add_items([{"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAAAABq_SRM"}]))
    session.close()
    ran = recollect("import", "--from", "openai-agents", str(file), "--json")
    assert (ran.json["new"], ran.code) == (0, 2)
