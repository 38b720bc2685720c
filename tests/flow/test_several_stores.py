"""Layers in different stores: the same memory, the same answers, one erase; killed anywhere, it recovers."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory
from recollect.errors import NotFound, Unavailable, ValidationError
from recollect.filters import Filter
from recollect.records import Changes, Partition
from recollect.settings import Settings
from recollect.stores import open_store
from recollect.stores.in_memory import InMemoryStore
from recollect.stores.routed import RoutedStore
from recollect.testing.fakes import ManualClock, MeddlingStore
from recollect.testing.faults import KILLED, DieAt, SteppedStore, ended, start
from recollect.testing.scenes import opened, play, set_stage, state_of

HOT = ("conversation", "working", "entity_cache")
"""The usual split: these where reads are fastest, everything else where it is safest."""
ANN = Partition("default", "ann")


def two_files(folder: Path) -> tuple[str, str]:
    return f"sqlite:///{folder}/rest.db", f"sqlite:///{folder}/hot.db"


@pytest.fixture
def redis_url() -> Iterator[str]:
    servers = pytest.importorskip("recollect.testing.servers.redis", reason="no Redis driver here")
    with servers.RedisServer("redis") as server:
        yield server.url()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    servers = pytest.importorskip("recollect.testing.servers.postgres", reason="no PostgreSQL driver here")
    with servers.fresh_url() as url:
        yield url


@pytest.fixture(params=["two files", "PostgreSQL and Redis"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Where the rest is, and where the hot layers are."""
    if request.param == "two files":
        return two_files(tmp_path)
    return request.getfixturevalue("postgres_url"), request.getfixturevalue("redis_url")


@pytest.fixture
async def memory(urls: tuple[str, str], open_memory: Any) -> Memory:
    rest, hot = urls
    return await open_memory(rest, layers=dict.fromkeys(HOT, hot))


@pytest.fixture
async def stores(memory: Memory, urls: tuple[str, str]) -> AsyncIterator[list[Any]]:
    """The two stores on their own: the rest, and the hot layers."""
    found = [await open_store(url) for url in urls]
    yield found
    for store in found:
        await store.close()


@pytest.fixture
def store_name() -> str:
    return "memory"


async def live(memory: Memory, clock: ManualClock) -> None:
    """A little of everything that an assistant does."""
    ann = memory.user("ann")
    chat = ann.session("monday", agent="support")
    await chat.add_interaction("Hello, my name is Annie and I live in Lisbon.", "Hello Annie!")
    await chat.add_interaction("I prefer dark mode. I work as a nurse.", "Noted.")
    await chat.working.set({"step": 1})
    clock.advance(minutes=1)  # two stores have no common order within one moment
    await ann.add_memory("The spare key is under the blue flower pot.", id="key")
    await ann.customize("Answer briefly.", agent="support")
    await ann.update_memory("key", content="The spare key is under the red flower pot.")
    await memory.entities().put("customer", "c42", {"name": "Northwind", "city": "Porto"})
    await memory.work()
    await ann.episodes.close("monday")
    await chat.compress()
    await memory.work()


async def told(memory: Memory) -> dict[str, Any]:
    """What a memory answers about all this."""
    ann = memory.user("ann")
    chat = ann.session("monday", agent="support")
    profile = await ann.profile()
    context = await chat.get_context("What theme should I use in Lisbon? And where is the key?")
    return {
        "facts": sorted((fact.key, fact.value) for fact in profile.facts),
        "preferences": profile.preferences,
        "window": [(message.role, message.content) for message in await chat.window()],
        "working": dict(await chat.working.get()),
        "found": [hit.content for hit in await ann.search_memory("Where is the spare key?")],
        "history": [record.content for record in await ann.history("key")],
        "episodes": [episode.content for episode in await ann.episodes.list()],
        "context": context.system,
        "entities": [(entity.type, entity.name) for entity in await memory.entities().list()],
        "records": dict((await memory.survey()).records),
    }


async def test_known_entities_can_be_related_by_hand(memory):
    graph = memory.user("ann").graph
    zora, acme = await graph.add_entity("Zora", type="person"), await graph.add_entity("Acme", type="organization")
    assert (await graph.relate(zora, "works_at", acme)).names == ("Zora", "Acme")
    await memory.user("ann").forget(acme.id)
    with pytest.raises(NotFound):
        await graph.relate(zora, "left", acme)


async def test_a_memory_in_two_stores_answers_as_one_in_a_single_store_does(memory, open_memory, clock):
    single = await open_memory("memory://")
    for each in (memory, single):
        await live(each, clock)
    assert await told(memory) == await told(single)


async def test_each_layer_is_in_its_configured_store(memory, stores, clock):
    await live(memory, clock)
    rest, hot = stores
    now = ManualClock()()
    assert set((await hot.survey(now)).records) == {*HOT, "summary", "session", "seal"}
    assert not set((await rest.survey(now)).records) & {*HOT, "summary", "session", "failure", "seal"}
    assert (await rest.survey(now)).records["past"] == 1


async def test_one_erase_covers_all_stores(memory, stores, clock):
    await live(memory, clock)
    receipt = await memory.user("ann").erase()
    assert receipt.forgotten["conversation"] == 4 and receipt.forgotten["fact"] >= 2
    assert "fence" not in receipt.forgotten
    for store in stores:
        assert (await store.list(Filter(ANN), ManualClock()())).records == ()
    assert await memory.work() == 0
    assert (await memory.user("ann").profile()).facts == ()


async def test_forgetting_a_message_removes_what_was_learned_from_it_in_the_other_store(memory):
    chat = memory.user("ann").session("monday")
    _, secret = await chat.add_messages(
        [{"role": "user", "content": "I live in Lisbon."}, {"role": "user", "content": "My sister is called Zora."}]
    )
    await memory.work()
    await memory.user("ann").episodes.close("monday")
    await memory.user("ann").forget(secret.id)
    await memory.work()
    everything = [line async for line in _lines(memory)]
    assert not any("Zora" in str(line) for line in everything)
    assert any("Lisbon" in str(line) for line in everything if line.get("layer") == "fact")
    with pytest.raises(NotFound):
        await memory.user("ann").forget(secret.id)


async def _lines(memory: Memory) -> AsyncIterator[dict[str, Any]]:
    for line in await memory.user("ann").export():
        yield line


@pytest.mark.parametrize("layer", ["fact", "episodic"])
async def test_a_write_about_to_happen_omits_what_was_just_forgotten_in_the_other_store(open_memory, layer):
    rest = MeddlingStore(await open_store("memory://"))
    memory = await open_memory(RoutedStore(rest, {"conversation": await open_store("memory://")}))
    ann = memory.user("ann")
    await ann.session("monday").add_message("user", "I live in Lisbon.")
    await memory.work()  # a first job, so that the fence exists
    secret = await ann.session("monday").add_message("user", "My sister is called Zora and I decided to visit her.")
    rest.before(lambda changes: any(r.layer == layer for r in changes.put), lambda: ann.forget(secret.id))
    await memory.work()
    if layer == "episodic":
        await ann.episodes.close("monday")
    await memory.work()
    assert not any("Zora" in str(line) for line in await ann.export())


# ── killed between two stores ────────────────────────────────────────────────────────────────────

LEARNING = "learn from a message"
SCENES = (
    LEARNING,
    "add_interaction",
    "add_memory",
    "update_memory",
    "forget a message",
    "delete",
    "erase",
    "working.clear",
)
TIMES = re.compile(r"\b\d{13}\b|\b\d{4}-\d\d-\d\dT[\d:.]+Z")
TWICE = {"update_memory"}
"""Calls that make another edit when repeated."""


async def perform(memory: Memory, scene: str) -> None:
    """Make the call of a scene; what it would forget may already be gone."""
    with suppress(NotFound):
        if scene == LEARNING:
            chat = memory.user("ann").session("chat")
            await chat.add_message("user", "My name is Annie and I live in Lisbon.", id="home")
        else:
            await play(memory, scene)


async def play_in_two(folder: Path, scene: str, at: int, work: bool) -> None:
    """Make one call, or do the work it leaves, and die at the n-th step of either store."""
    step = DieAt(at)
    rest, hot = [SteppedStore(await open_store(url), step) for url in two_files(folder)]
    async with opened(_routed(rest, hot)) as memory:
        await (memory.work() if work else perform(memory, scene))


def _routed(rest: Any, hot: Any) -> RoutedStore:
    return RoutedStore(rest, dict.fromkeys(HOT, hot))


async def _open(folder: Path) -> Memory:
    rest, hot = [await open_store(url) for url in two_files(folder)]
    return opened(_routed(rest, hot))


async def _stage(folder: Path, scene: str | None = None) -> None:
    rest, hot = [await open_store(url) for url in two_files(folder)]
    async with opened(_routed(rest, hot)) as memory:
        if scene is None:
            await set_stage(memory, "ann")
            return
        await perform(memory, scene)
        await memory.work()


def _state(folder: Path) -> frozenset[tuple[str, ...]]:
    """The living records of both files, without fences, seals and times: repeated work is done later."""
    rows = [row for name in ("rest.db", "hot.db") for row in state_of(folder / name)[0]]
    return frozenset((*row[:3], TIMES.sub("", row[3])) for row in rows if row[1] not in ("fence", "seal"))


@pytest.mark.parametrize("work", [False, True], ids=["the call", "its work"])
@pytest.mark.parametrize("scene", SCENES)
def test_killed_at_any_step_between_two_stores_a_call_is_completed_by_repeating_it(tmp_path, scene, work):
    stage, done = tmp_path / "stage", tmp_path / "done"
    stage.mkdir()
    asyncio.run(_stage(stage))
    shutil.copytree(stage, done)
    asyncio.run(_stage(done, scene))
    if work:
        asyncio.run(_call(stage, scene))
    for at in range(1, 200, 3):
        folder = Path(shutil.copytree(stage, tmp_path / f"at {at}"))
        code = ended(start(play_in_two, folder, scene, at, work))
        assert code in (0, KILLED)
        again = None if (work or (scene in TWICE and _state(folder) != _state(stage))) else scene
        asyncio.run(_again(folder, again))
        assert _state(folder) == _state(done), f"killed at step {at}"
        if code == 0:
            return
    raise AssertionError("it never came to its end")


async def _call(folder: Path, scene: str) -> None:
    async with await _open(folder) as memory:
        await perform(memory, scene)


async def _again(folder: Path, scene: str | None) -> None:
    """Repeat the call and do all due work, including what a killed worker held."""
    clock = ManualClock()
    rest, hot = [await open_store(url) for url in two_files(folder)]
    async with opened(_routed(rest, hot), clock) as memory:
        if scene is not None:
            await perform(memory, scene)
        await memory.work()
        clock.advance(minutes=5)
        await memory.work()


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def test_layers_are_read_from_the_file_and_from_the_environment(tmp_path):
    (tmp_path / "recollect.toml").write_text('[layers]\nworking = "redis://a"\nconversation = "redis://a"\n')
    assert dict(Settings.read({}, tmp_path).layers) == {"working": "redis://a", "conversation": "redis://a"}
    line = "working=redis+cluster://a:1,b:2?x=y,z=1, conversation=sqlite:///c.db"
    found = Settings.read({"RECOLLECT_LAYERS": line}, tmp_path).layers
    assert dict(found) == {"working": "redis+cluster://a:1,b:2?x=y,z=1", "conversation": "sqlite:///c.db"}


@pytest.mark.parametrize("line", ["redis://a", "working", "working=", "working=redis", "x,working=redis://a"])
def test_layers_that_name_no_url_are_refused(line):
    with pytest.raises(ValidationError, match="layers"):
        Settings.read({"RECOLLECT_LAYERS": line})


def test_an_unknown_split_or_fallback_is_refused_before_anything_is_opened():
    with pytest.raises(ValidationError, match=r"layers\.past"):
        Memory.open("memory://", layers={"past": "redis://localhost"})
    with pytest.raises(ValidationError, match="fallback"):
        Memory.open("memory://", fallback="disk")


class FullStore(InMemoryStore):
    """A store that can be full: it is read as before, and refuses what is to be written."""

    is_full = False

    async def commit(self, changes: Changes, now: int) -> int:
        if self.is_full:
            raise Unavailable(field="store")
        return await super().commit(changes, now)


async def test_work_for_a_store_that_is_full_for_an_hour_is_done_when_it_has_room_again(open_memory, clock):
    rest = FullStore()
    memory = await open_memory(RoutedStore(rest, {"conversation": InMemoryStore()}))
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "My name is Annie and I live in Lisbon.")
    rest.is_full = True
    for _ in range(60):
        await memory.work()
        clock.advance(minutes=1)
    rest.is_full = False
    await memory.work()
    assert await ann.failures() == []
    assert [(fact.key, fact.value) for fact in (await ann.profile()).facts] == [("name", "Annie"), ("city", "Lisbon")]


async def test_an_unreachable_store_is_named_and_the_others_are_closed_again(open_memory, tmp_path):
    missing = f"sqlite:///{tmp_path}/no/such/folder/hot.db"
    with pytest.raises(Unavailable, match=r"layers\.working"):
        await open_memory(f"sqlite:///{tmp_path}/rest.db", layers={"working": missing})


async def test_with_a_fallback_it_continues_in_memory_and_says_so_loudly(open_memory, tmp_path, caplog):
    missing = f"sqlite:///{tmp_path}/no/such/folder/hot.db"
    with caplog.at_level(logging.WARNING):
        memory = await open_memory(
            f"sqlite:///{tmp_path}/rest.db", layers={"working": missing, "conversation": missing}, fallback="memory"
        )
    assert "MEMORIES ARE NOT KEPT" in caplog.text
    assert "could not be opened" in memory.describe()["store"]["fallback"]
    await memory.user("ann").session("s").working.set({"step": 1})
    assert dict(await memory.user("ann").session("s").working.get()) == {"step": 1}


async def test_describe_says_what_is_where(memory):
    told = memory.describe()["store"]
    assert list(told["parts"]) == ["conversation, working, entity_cache", "the rest"]
    assert "conversation, working, entity_cache: " in told["durability"] and "; the rest: " in told["durability"]


async def test_a_single_file_for_all_is_simply_that_file(open_memory, tmp_path):
    url = f"sqlite:///{tmp_path}/all.db"
    memory = await open_memory(url, layers={"working": url})
    assert memory.describe()["store"]["store"] == "sqlite"
