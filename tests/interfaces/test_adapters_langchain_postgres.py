"""A table of langchain_postgres is read and written in place, and the session follows it row by row."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import psycopg
import pytest

pytest.importorskip("langchain_postgres", reason="langchain-postgres is not installed")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_postgres import PostgresChatMessageHistory

from recollect import Memory, sync
from recollect.adapters.langchain_postgres import TableHistory
from recollect.errors import Unavailable, ValidationError
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.servers.postgres import shared_server

pytestmark = pytest.mark.xdist_group("postgresql")
CALL = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}
TALK = [
    HumanMessage("My car is a red Fiat.", id="h-1"),
    AIMessage("Let me look.", tool_calls=[CALL]),
    ToolMessage("rain", tool_call_id="c1"),
    AIMessage("It rains in Oslo."),
]


@pytest.fixture(scope="module")
def url():
    return shared_server().url(role="postgres")


@pytest.fixture
def table(url):
    name = f"chat_{uuid4().hex[:8]}"
    with psycopg.connect(url) as connection:
        PostgresChatMessageHistory.create_tables(connection, name)
        yield name
        PostgresChatMessageHistory.drop_table(connection, name)


@pytest.fixture
async def memory():
    async with Memory.open("memory://", embedder=HashingEmbedder(), worker=False) as memory:
        yield memory


async def theirs(url, table, id, *messages):
    """What langchain_postgres itself reads after writing these messages."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        history = PostgresChatMessageHistory(table, str(id), async_connection=connection)
        if messages:
            await history.aadd_messages(messages)
        return await history.aget_messages()


async def said(session):
    return [message.content for message in (await session.messages())[0]]


async def test_both_sides_read_what_either_writes_alike_and_in_one_order(memory, url, table):
    id, session = uuid4(), memory.user("ann").session("monday")
    history = TableHistory(session, url, table, id)
    await theirs(url, table, id, *TALK[:2])
    await history.aadd_messages(TALK[2:])
    await theirs(url, table, id, HumanMessage("And tomorrow?"))
    assert await history.follow() == 1
    expected = [*TALK, HumanMessage("And tomorrow?")]
    assert await theirs(url, table, id) == expected
    assert await history.aget_messages() == expected
    assert await said(session) == [message.content for message in expected]
    window = await session.window()
    assert [message.role for message in window] == ["user", "assistant", "tool", "assistant", "user"]
    assert window[2].tool_call_id == "c1"


async def test_rows_are_searched_and_learned_from_like_messages(memory, url, table):
    id, ann = uuid4(), memory.user("ann")
    await theirs(url, table, id, HumanMessage("I live in Bergen."), AIMessage("Noted!"))
    assert await TableHistory(ann.session("monday"), url, table, id).follow() == 2
    await memory.work()
    assert "I live in Bergen." in [hit.content for hit in await ann.search_memory("Bergen")]
    assert (await ann.profile()).facts


async def test_following_repeatedly_and_concurrently_takes_every_row_once(memory, url, table):
    id, session = uuid4(), memory.user("ann").session("monday")
    await theirs(url, table, id, *(HumanMessage(f"number {n}") for n in range(30)))
    histories = [TableHistory(session, url, table, id) for _ in range(4)]
    await asyncio.gather(*(history.follow() for history in histories))
    assert await histories[0].follow() == 0
    assert sorted(await said(session)) == sorted(f"number {n}" for n in range(30))


async def test_a_message_with_an_id_is_added_once_and_many_writers_lose_nothing(memory, url, table):
    id, session = uuid4(), memory.user("ann").session("monday")
    history = TableHistory(session, url, table, id)
    again = HumanMessage("only once", id="h-7")
    await asyncio.gather(*(history.aadd_messages([again, HumanMessage(f"by {n}")]) for n in range(6)))
    rows = [message.content for message in await theirs(url, table, id)]
    assert sorted(rows) == ["by 0", "by 1", "by 2", "by 3", "by 4", "by 5", "only once"]
    assert sorted(await said(session)) == sorted(rows)


async def test_a_row_that_becomes_visible_late_is_not_missed(memory, url, table):
    id, session = uuid4(), memory.user("ann").session("monday")
    history = TableHistory(session, url, table, id)
    async with await psycopg.AsyncConnection.connect(url) as slow:
        await slow.execute(f"insert into {table} (session_id, message) values (%s, %s)",
                           [id, '{"type": "human", "data": {"content": "slow", "type": "human"}}'])  # fmt: skip
        await theirs(url, table, id, HumanMessage("quick"))
        assert await history.follow() == 1
    assert await history.follow() == 1
    assert await said(session) == ["quick", "slow"]
    assert [message.content for message in await history.aget_messages()] == ["slow", "quick"]


async def test_a_call_adds_all_its_rows_or_none(memory, url, table):
    id = uuid4()
    history = TableHistory(memory.user("ann").session("monday"), url, table, id)
    with pytest.raises(Unavailable):
        await history.aadd_messages([HumanMessage("fine"), HumanMessage("not \x00 for jsonb")])
    assert await theirs(url, table, id) == []


async def test_what_is_forgotten_leaves_the_table_and_clear_empties_both(memory, url, table):
    id, ann = uuid4(), memory.user("ann")
    session = ann.session("monday")
    history = TableHistory(session, url, table, id)
    await history.aadd_messages([HumanMessage("keep"), HumanMessage("drop")])
    (dropped,) = [message.id for message in (await session.messages())[0] if message.content == "drop"]
    assert (await ann.forget(dropped)).beside == {f"{table}/{id}": 1}
    assert await history.follow() == 0
    assert await said(session) == ["keep"]
    assert [message.content for message in await theirs(url, table, id)] == ["keep"]
    other = uuid4()
    await theirs(url, table, other, HumanMessage("of another session"))
    await history.aclear()
    assert (await theirs(url, table, id), await said(session)) == ([], [])
    assert len(await theirs(url, table, other)) == 1


async def test_one_erase_covers_the_users_rows_in_the_table_even_unfollowed_ones_and_nobody_elses(memory, url, table):
    mine, also_mine, of_bob = uuid4(), uuid4(), uuid4()
    for who, session, id in (("ann", "monday", mine), ("ann", "tuesday", also_mine), ("bob", "monday", of_bob)):
        await TableHistory(memory.user(who).session(session), url, table, id).aadd_messages([HumanMessage("hello")])
    await theirs(url, table, mine, HumanMessage("written since"))
    receipt = await memory.user("ann").erase()
    assert receipt.beside == {f"{table}/{mine}": 2, f"{table}/{also_mine}": 1}
    assert receipt.forgotten["conversation"] == 2
    assert await theirs(url, table, mine) == await theirs(url, table, also_mine) == []
    assert len(await theirs(url, table, of_bob)) == 1
    assert (await memory.org("default").erase()).beside == {f"{table}/{of_bob}": 1}
    assert await theirs(url, table, of_bob) == []


async def test_an_erase_names_a_table_it_cannot_reach_and_a_strangers_label_deletes_nothing(url, table, tmp_path):
    id, where = uuid4(), f"sqlite:///{tmp_path}/recollect.db"
    async with Memory.open(where, embedder=HashingEmbedder(), worker=False) as memory:
        history = TableHistory(memory.user("ann").session("monday"), url, table, id)
        await history.aadd_messages([HumanMessage("hello")])
        rival = memory.user("rival").session("monday")
        await rival.add_message("user", "mine", id=f"{table}:1", metadata={"stands_in": f"{table}/{id}"})
        assert (await memory.user("rival").erase()).beside == {f"{table}/{id}": None}
    async with Memory.open(where, embedder=HashingEmbedder(), worker=False) as memory:
        receipt = await memory.user("ann").erase()
        assert receipt.to_dict()["beside"] == {f"{table}/{id}": None}
        assert (receipt.count, len(await theirs(url, table, id))) == (1, 1)


async def test_while_the_table_is_down_nothing_is_erased_so_a_retry_finds_everything(memory, url, table):
    id, ann = uuid4(), memory.user("ann")
    await TableHistory(ann.session("monday"), url, table, id).aadd_messages([HumanMessage("hello")])
    TableHistory(ann.session("monday"), "postgresql://127.0.0.1:1/db", table, id)
    with pytest.raises(Unavailable):
        await ann.erase()
    assert await said(ann.session("monday")) == ["hello"]
    TableHistory(ann.session("monday"), url, table, id)
    assert (await ann.erase()).beside == {f"{table}/{id}": 1}


async def test_a_missing_table_and_an_unreachable_server_are_reported_without_content(memory, url):
    session = memory.user("ann").session("monday")
    for where in (url, "postgresql://ann:s3cret@127.0.0.1:1/db"):
        with pytest.raises(Unavailable) as caught:
            await TableHistory(session, where, "no_such_table", uuid4()).aadd_messages([HumanMessage("zebracanary")])
        assert "zebracanary" not in str(caught.value)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(ValidationError):
        TableHistory(session, url, "chat", "monday")


def test_sync_code_can_use_it_too(url, table):
    id = uuid4()
    with sync.Memory.open("memory://", embedder=HashingEmbedder(), worker=False) as memory:
        history = TableHistory(memory.user("ann").session("monday"), url, table, id)
        history.add_messages(TALK)
        assert history.messages == TALK
        history.clear()
        assert history.messages == []
