"""Bad inputs on the Python surface: the stated typed error, the field, and nothing else happens.

The cases are in `recollect.testing`, since they run on every store (tests/conformance/test_matrix.py).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3

import pytest

from recollect import Memory
from recollect.errors import Corrupt, RecollectError, Unavailable, ValidationError
from recollect.policies.words import terms
from recollect.testing.bad_inputs import CASES, SECRET, Cast, examine
from recollect.testing.odd_inputs import SCENES


def test_there_are_enough_cases():
    assert len(CASES) > 700
    assert len(SCENES) > 35


async def test_every_bad_input_is_refused_by_name_and_changes_nothing(memory, caplog):
    caplog.set_level(logging.DEBUG, logger="recollect")
    cast = await Cast(memory).prepare()
    assert [told for outcome in await examine(cast) for told in outcome.wrong] == []
    assert SECRET not in caplog.text
    await cast.chat.add_message("user", "all is well")
    assert (await cast.chat.window())[-1].content == "all is well"
    assert (await cast.ann.search_memory("well"))[0].content == "all is well"


@pytest.mark.parametrize("name", SCENES)
async def test_odd_but_allowed_input_comes_back_and_breaks_nothing(open_memory, name):
    await SCENES[name](open_memory)


HOSTILE = [
    "(" * 50_000, "a" * 60_000, "1 " * 30_000, ". " * 30_000, "-" * 60_000, "I'm " * 15_000, "http://" * 8_000,
    "\n" * 60_000 + "x", "e\u0301" * 20_000, "a1" * 30_000,
]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_text_takes_little_time(memory, hostile):
    """A regular expression that backtracks would take minutes here; ten seconds is generous on a busy machine."""
    async with asyncio.timeout(10):
        terms(hostile, "en")
        ann = memory.user("ann")
        await ann.session("s").add_message("user", hostile)
        await ann.add_memory(hostile)
        await memory.work()
        await ann.session("s").compress()
        await ann.session("s").get_context(hostile[-60_000:], max_tokens=500)


# ── The database file ────────────────────────────────────────────────────────────────────────────


async def test_a_file_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "m.db"
    async with Memory.open(path, worker=False) as memory:
        await memory.user("ann").add_memory("kept")
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 9999")
    db.close()
    before = path.read_bytes()
    with pytest.raises(RecollectError):
        await Memory.open(path).start()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look at " * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
async def test_a_file_that_is_not_a_database_is_left_alone(tmp_path, content):
    path = tmp_path / "m.db"
    path.write_bytes(content)
    with pytest.raises((Corrupt, ValidationError, Unavailable)):
        async with Memory.open(path, worker=False) as memory:
            await memory.user("ann").add_memory("text")
    assert path.read_bytes() == content


async def test_a_file_opened_for_reading_is_read_and_not_written(tmp_path):
    path = tmp_path / "m.db"
    async with Memory.open(path, worker=False) as memory:
        await memory.user("ann").session("s").add_message("user", "kept here")
    async with Memory.open(f"sqlite:///{path}?mode=ro", worker=False) as memory:
        ann = memory.user("ann")
        assert [message.content for message in await ann.session("s").window()] == ["kept here"]
        assert (await ann.search_memory("kept"))[0].content == "kept here"
        for call in (ann.add_memory("more"), ann.session("s").working.set({"a": 1}), ann.erase()):
            with pytest.raises(Unavailable):
                await call


@pytest.mark.parametrize("name", ["with space.db", "größe-帆.db", "what?.db", "a#b.db", "50%.db", "%41.db"])
async def test_a_file_may_have_an_odd_name(tmp_path, name):
    path = tmp_path / name
    async with Memory.open(path, worker=False) as memory:
        await memory.user("ann").add_memory("kept")
    assert path.exists()
    async with Memory.open(path, worker=False) as memory:
        assert len((await memory.user("ann").list_memories())[0]) == 1


@pytest.mark.parametrize(
    "url", ["sqlite:///" + "x" * 5000, "sqlite:///a\x00b.db", "sqlite:////no/such/folder/at/all/m.db"]
)
async def test_an_impossible_path_is_refused(url):
    with pytest.raises(RecollectError):
        await Memory.open(url, worker=False).start()


@pytest.mark.parametrize(
    ("item", "field", "told"),
    [
        ({"role": "user", "content": "x", "colour": "canary"}, "messages.1", "unknown field 'colour'"),
        ({"role": "user"}, "messages.1.content", "must be given"),
        ({"content": "canary"}, "messages.1.role", "must be given"),
        (5, "messages.1", "named fields"),
    ],
)
async def test_an_error_in_one_of_several_items_names_its_field_and_place(memory, item, field, told):
    with pytest.raises(ValidationError, match=told) as refused:
        await memory.user("ann").session("s").add_messages([{"role": "user", "content": "fine"}, item])
    assert refused.value.field == field
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("item", "field", "told"),
    [
        ({"key": "city"}, "value", "must be given"),
        ({"value": "canary"}, "key", "must be given"),
        ({"key": "city", "value": "canary", "colour": 1}, "items", "unknown field 'colour'"),
    ],
)
async def test_an_error_in_a_fact_names_its_field(memory, item, field, told):
    with pytest.raises(ValidationError, match=told) as refused:
        await memory.user("ann").upsert_facts([item])
    assert refused.value.field == field
    assert "canary" not in str(refused.value)
