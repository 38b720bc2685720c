"""From one store to another: everything arrives, in order, once; and both sides are compared."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from recollect import Memory
from recollect.copying import Copying
from recollect.filters import Filter
from recollect.interfaces.cli import app
from recollect.interfaces.output import BAD_INPUT, CONFLICT, UNAVAILABLE
from recollect.records import Changes, Partition, system_clock
from recollect.stores import open_store
from recollect.stores.routed import RoutedStore
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.faults import KILLED, DieAt, SteppedStore, ended, start

ANN = Partition("default", "ann")
MANY = 400


async def fill(url: str, **changes: Any) -> None:
    """Fill a memory with something of everything, and do all the work."""
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False, window_tokens=300, **changes) as memory:
        ann = memory.user("ann")
        chat = ann.session("monday", agent="support")
        await chat.add_interaction("My name is Annie and I live in Lisbon.", "Hello Annie!")
        for number in range(30):
            await chat.add_interaction(f"Question {number} about the garden?", f"Answer {number} about trees.")
        await chat.rename("Garden")
        await chat.working.set({"step": 2})
        await ann.add_memory("The spare key is under the blue pot.", id="key")
        await ann.update_memory("key", content="The spare key is under the red pot.")
        await memory.entities().put("customer", "c42", {"name": "Northwind"})
        await memory.user("bob", org="acme").add_memory("Bob likes tea.")
        await memory.work()
        await ann.episodes.close("monday")
        await memory.work()


async def told(url: str) -> dict[str, Any]:
    """What it answers."""
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False, window_tokens=300) as memory:
        ann = memory.user("ann")
        chat = ann.session("monday", agent="support")
        profile = await ann.profile()
        return {
            "messages": [message.content for message in (await chat.messages(limit=100))[0]],
            "window": [message.content for message in await chat.window("sliding_window_summary")],
            "facts": [(fact.key, fact.value) for fact in profile.facts],
            "history": [record.content for record in await ann.history("key")],
            "working": dict(await chat.working.get()),
            "sessions": [(info.id, info.title, info.messages) for info in await ann.sessions()],
            "found": [hit.content for hit in await ann.search_memory("Where is the spare key?")],
            "bob": [hit.content for hit in await memory.user("bob", org="acme").search_memory("tea")],
        }


@pytest.fixture
def source(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/old.db"
    asyncio.run(fill(url))
    return url


@pytest.fixture
def postgres_url() -> Iterator[str]:
    servers = pytest.importorskip("recollect.testing.servers.postgres", reason="no PostgreSQL driver here")
    with servers.fresh_url() as url:
        yield url


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new.db" if request.param == "SQLite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def copy(recollect, source, target):
    """Copy from the source to the target."""
    return lambda *options: recollect("copy", source, target, *options, at=None)


def test_everything_arrives_and_answers_as_before(copy, source, target):
    ran = copy("--json")
    assert ran.code == 0, ran.err
    assert ran.json["verified"] and ran.json["copied"] == ran.json["records"] > 70
    assert {(each["org"], each["user"]) for each in ran.json["partitions"]} == {
        ("acme", "bob"), ("default", ""), ("default", "ann"),
    }  # fmt: skip
    assert asyncio.run(told(target)) == asyncio.run(told(source))


def test_copying_again_changes_nothing(copy, target):
    copy()
    again = copy("--json").json
    assert (again["copied"], again["known"], again["verified"]) == (0, again["records"], True)


def test_a_dry_run_reports_and_writes_nothing(copy):
    planned = copy("--dry-run", "--json").json
    assert (planned["copied"], planned["verified"]) == (planned["records"], False)
    assert "nothing was changed" in copy("--dry-run").out
    assert copy("--json").json["copied"] == planned["records"]


def test_what_was_written_meanwhile_comes_with_the_next_run(copy, source, target):
    copy()
    asyncio.run(_say_more(source))
    again = copy("--json").json
    assert again["verified"] and again["copied"] > 0
    assert asyncio.run(told(target))["messages"] == asyncio.run(told(source))["messages"]


async def _say_more(url: str) -> None:
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False) as memory:
        await memory.user("ann").session("tuesday").add_message("user", "One more thing.")


def test_a_different_record_under_the_same_id_is_reported_and_left_alone(copy, source, target):
    copy()
    asyncio.run(_edit(target))
    ran = copy()
    assert ran.code == CONFLICT
    assert "NOT equal" in ran.out and "Different: key" in ran.out
    assert asyncio.run(told(target))["history"][-1] == "The spare key is gone."


def test_differing_records_are_overwritten_from_the_source_on_request(copy, source, target):
    copy()
    asyncio.run(_reword(target))
    found = copy("--overwrite", "--json")
    assert found.code == 0 and found.json["overwritten"] == 1
    assert asyncio.run(told(target))["found"] == asyncio.run(told(source))["found"]


async def _edit(url: str) -> None:
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False) as memory:
        await memory.user("ann").update_memory("key", content="The spare key is gone.")


async def _reword(url: str) -> None:
    store = await open_store(url)
    (key,) = await store.get(ANN, ["key"], system_clock())
    await store.commit(Changes(ANN, put=(key.with_(content="The spare key is nowhere."),)), system_clock())
    await store.close()


def test_an_edited_memory_can_be_edited_with_its_new_version(copy, target):
    copy()
    asyncio.run(_edit_by_version(target))


async def _edit_by_version(url: str) -> None:
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False) as memory:
        ann = memory.user("ann")
        held = await ann.get_memory("key")
        await ann.update_memory("key", content="The spare key is gone.", version=held.version)


def test_what_was_not_yet_enriched_is_enriched_in_the_new_store(recollect, tmp_path):
    old, new = (f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new"))
    asyncio.run(_tell(old))
    ran = recollect("copy", old, new, at=None)
    assert ran.code == 0 and "jobs are waiting in the source" in ran.err
    assert asyncio.run(_learned(new)) == ["Lisbon"]


async def _tell(url: str) -> None:
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False) as memory:
        await memory.user("ann").session("monday").add_message("user", "I live in Lisbon.")


async def _learned(url: str) -> list[str]:
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False) as memory:
        await memory.work()
        return [fact.value for fact in (await memory.user("ann").profile()).facts]


def test_only_chosen_layers_are_copied_with_what_belongs_to_them(recollect, source, tmp_path):
    hot = f"sqlite:///{tmp_path}/hot.db"
    ran = recollect("copy", source, hot, "--layer", "conversation", "--layer", "working", "--json", at=None)
    assert ran.code == 0 and ran.json["verified"]
    assert asyncio.run(_layers_of(hot)) == {"conversation", "session", "summary", "working"}
    # This is how a memory grows into two stores: the old one keeps the rest.
    assert asyncio.run(_told_by_two(source, hot)) == asyncio.run(told(source))["messages"]


async def _layers_of(url: str) -> set[str]:
    store = await open_store(url)
    try:
        return set((await store.survey(system_clock())).records)
    finally:
        await store.close()


async def _told_by_two(rest: str, hot: str) -> list[str]:
    layers = {"conversation": hot, "working": hot}
    async with Memory.open(rest, layers=layers, embedder=HashingEmbedder(), worker=False) as memory:
        chat = memory.user("ann").session("monday")
        assert dict(await memory.user("ann").session("monday", agent="support").working.get()) == {"step": 2}
        return [message.content for message in (await chat.messages(limit=100))[0]]


def test_mistakes_are_reported_in_one_line_and_create_no_file(recollect, source, tmp_path):
    for arguments, code in (
        ((source, source), BAD_INPUT),
        ((source, "nonsense"), BAD_INPUT),
        ((source, f"sqlite:///{tmp_path}/x.db", "--layer", "fence"), BAD_INPUT),
        ((f"sqlite:///{tmp_path}/missing.db", f"sqlite:///{tmp_path}/y.db"), UNAVAILABLE),
    ):
        ran = recollect("copy", *arguments, at=None)
        assert ran.code == code and len(ran.err.splitlines()) == 1, ran.err
    assert not (tmp_path / "missing.db").exists() and not (tmp_path / "y.db").exists()


# ── killed ───────────────────────────────────────────────────────────────────────────────────────


async def copy_until(source: str, target: str, at: int) -> None:
    """Copy, and die without warning at the n-th step of the new store."""
    old, new = await open_store(source), SteppedStore(await open_store(target), DieAt(at))
    async for _ in Copying(old, new).run():
        pass


@pytest.fixture
def large(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/large.db"
    asyncio.run(_fill_large(url))
    return url


async def _fill_large(url: str) -> None:
    async with Memory.open(url, embedder=HashingEmbedder(), worker=False, learn=False) as memory:
        chat = memory.user("ann").session("monday")
        for start_at in range(0, MANY, 80):
            await chat.add_messages([{"role": "user", "content": f"Line {n}."} for n in range(start_at, start_at + 80)])


@pytest.mark.parametrize("at", [1, 6, 7, 12, 15, 20])
def test_a_killed_copy_resumes_where_it_was(recollect, large, tmp_path, at):
    target = f"sqlite:///{tmp_path}/new.db"
    assert ended(start(copy_until, large, target, at)) == KILLED
    with closing(sqlite3.connect(tmp_path / "new.db")) as db:
        (before,) = db.execute("select count(*) from records").fetchone()
    ran = recollect("copy", large, target, "--json", at=None)
    assert ran.code == 0 and ran.json["verified"]
    assert (ran.json["known"], ran.json["copied"]) == (before, MANY - before)


async def test_records_of_a_layer_keep_their_order_in_several_stores_too(tmp_path):
    await fill(f"sqlite:///{tmp_path}/old.db")
    old = await open_store(f"sqlite:///{tmp_path}/old.db")
    new = RoutedStore(await open_store("memory://"), {"conversation": await open_store("memory://")})
    assert all([done.verified async for done in Copying(old, new).run()])
    pages = [await store.list(Filter(ANN, ("conversation",)), system_clock(), limit=90) for store in (old, new)]
    first, second = [[record.id for record in page.records] for page in pages]
    assert first == second
    await old.close()
    await new.close()


async def test_a_future_fact_takes_effect_in_the_new_store_too(clock):
    old, new = await open_store("memory://"), await open_store("memory://")
    async with Memory.open(old, clock=clock, embedder=HashingEmbedder(), worker=False) as memory:
        await memory.user("ann").add_fact("city", "Oslo")
        await memory.user("ann").add_fact("city", "Bergen", valid_from=clock() + 60_000)
        assert all([done.verified async for done in Copying(old, new, clock=clock).run()])
    async with Memory.open(new, clock=clock, embedder=HashingEmbedder(), worker=False) as memory:
        clock.advance(minutes=2)
        await memory.work()
        assert "Bergen" in (await memory.user("ann").get_context("Where do I live?")).system


def test_the_help_says_what_it_does():
    assert "compare both sides" in CliRunner().invoke(app, ["copy", "--help"]).stdout
