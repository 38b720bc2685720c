"""Chroma beside a store: it proposes what is near, follows every change, and nothing depends on it."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

pytest.importorskip("chromadb", reason="no Chroma here: install recollect[chroma]")

import chromadb
import numpy as np

from recollect import Memory
from recollect.errors import Unavailable, ValidationError
from recollect.records import Changes, Partition, Vector
from recollect.stores import open_index, open_store
from recollect.stores.chroma import quiet, read_address
from recollect.stores.contract import veil_of
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.servers.chroma import ChromaServer

pytestmark = pytest.mark.xdist_group("chroma")
ANN, BOB = Partition("default", "ann"), Partition("default", "bob")


@pytest.fixture
def index_url(tmp_path):
    return f"chroma:///{tmp_path}/vectors"


@pytest.fixture
async def index(index_url):
    """The index itself, for inspection."""
    index = open_index(index_url, HashingEmbedder().name)
    yield index
    await index.close()


@pytest.fixture
async def memory(open_memory, index_url):
    return await open_memory(index=index_url)


@pytest.fixture(scope="module")
def server():
    server = ChromaServer()
    yield server
    server.remove()


def connections_to(port):
    """Connections that this process holds to `port`, including those that the other side has already closed."""
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
    open_here = {"01", "08"}  # ESTABLISHED and CLOSE_WAIT
    return sum(1 for line in lines if int(line[2].rpartition(":")[2], 16) == port and line[3] in open_here)


async def found(user, query="tea"):
    return [hit.content for hit in await user.search_memory(query)]


async def test_an_index_added_after_the_memories_receives_all_of_a_user_with_the_first_change(
    open_memory, store_url, index_url, index
):
    store = await open_store(store_url)
    before = await open_memory(store)
    older = await before.user("ann").add_memories([f"Ann pays invoice {n}" for n in range(5)])
    theirs = await before.user("bob").add_memory("Bob drinks tea")
    await before.work()
    memory = await open_memory(store, index=index_url)
    new = await memory.user("ann").add_memory("Ann drinks green tea")
    await memory.work()
    assert (await index.held(ANN)).keys() == {record.id for record in (*older, new)}
    assert await index.held(BOB) == {}, "all of Bob's are compared, as long as it has none of them"
    assert await found(memory.user("bob")) == [theirs.content]


async def test_the_index_follows_what_is_stored_edited_and_forgotten(memory, index):
    ann = memory.user("ann")
    tea = await ann.add_memory("Ann drinks green tea")
    await ann.session("s").add_message("user", "The kettle is new", id="kettle")
    assert await index.held(ANN) == {}
    await memory.work()
    held = await index.held(ANN)
    assert {tea.id, "kettle"} <= held.keys()
    await ann.update_memory(tea.id, content="Ann drinks black tea")
    await memory.work()
    assert (await index.held(ANN))[tea.id] > held[tea.id]
    await ann.forget(tea.id)
    await memory.work()
    assert tea.id not in await index.held(ANN)
    assert "kettle" in await index.held(ANN)
    assert (await memory.check(), await ann.failures()) == ([], [])


async def test_a_damaged_vector_is_not_passed_to_the_index(open_memory, index_url, index, tmp_path, clock):
    store = await open_store(f"sqlite:///{tmp_path}/damaged.db")
    memory = await open_memory(store, index=index_url)
    ann = memory.user("ann")
    tea, boat = await ann.add_memories(["Ann drinks green tea", "The boat is blue"])
    await memory.work()
    stored = (await store.get(ANN, [tea.id], clock()))[0]
    broken = np.full(HashingEmbedder().dimensions, np.nan, "<f2").tobytes()
    await store.commit(Changes(ANN, put=(stored.with_(vector=Vector(HashingEmbedder().name, broken)),)), now=clock())
    await memory.reindex()
    assert (await index.held(ANN)).keys() == {boat.id}
    assert (await found(ann))[0] == "Ann drinks green tea"


async def test_only_ids_and_vectors_leave_the_store(memory, index_url, tmp_path):
    await memory.user("ann").add_memory("the canaryword is here", metadata={"label": "canaryword"})
    await memory.work()
    files = [path for path in (tmp_path / "vectors").rglob("*") if path.is_file()]
    assert files
    assert not any(b"canaryword" in path.read_bytes() for path in files)


class Synonyms(HashingEmbedder):
    """Knows that a beverage is tea, which words alone do not tell."""

    async def embed(self, texts):
        return await super().embed([text.replace("beverage", "tea") for text in texts])


async def test_search_asks_the_index_and_scores_its_proposals_from_the_store(open_memory, index_url, index):
    memory = await open_memory(index=index_url, embedder=Synonyms())
    ann = memory.user("ann")
    kept = await ann.add_memory("Ann drinks tea")
    await ann.add_memory("The violin stands in the corner")
    await memory.work()

    async def nearness():
        return {hit.id: hit.legs["meaning"].score for hit in await ann.search_memory("beverage")}[kept.id]

    assert await nearness() == pytest.approx(3**-0.5, abs=0.01)
    await index.drop(ANN, [kept.id])
    assert await nearness() == 0.0


async def test_a_record_of_another_user_that_the_index_proposes_is_not_found(memory, index):
    ann, bob = memory.user("ann"), memory.user("bob")
    mine = await ann.add_memory("Ann drinks green tea")
    theirs = await bob.add_memory("Bob drinks green tea")
    await memory.work()
    stored = (await memory._running.ledger.get(BOB, [theirs.id]))[0]
    vectors = (await HashingEmbedder().embed(["green tea"]))[0]
    await index.put(ANN, [(stored, vectors)])
    assert [hit.id for hit in await ann.search_memory("green tea")] == [mine.id]


async def test_owners_whose_ids_look_alike_stay_apart(memory, index):
    users = [memory.user("c", org="a/b"), memory.user("b/c", org="a"), memory.user("%2F", org="a"), memory.user("a")]
    for number, user in enumerate(users):
        await user.add_memory(f"green tea number {number}", id="same")
    await memory.work()
    for number, user in enumerate(users):
        assert await found(user, "green tea") == [f"green tea number {number}"]
    assert len(await index.partitions()) == 4


async def test_erasing_a_user_removes_only_that_user_from_the_index(memory, index):
    for name in ("ann", "bob"):
        await memory.user(name).add_memory(f"{name} drinks tea")
    await memory.work()
    await memory.user("ann").erase()
    await memory.work()
    assert (await index.held(ANN), len(await index.held(BOB))) == ({}, 1)


UNSET = ("data_level0.bin", "length.bin")
"""Files to which Chroma writes memory that it never set, with whatever this process freed: docs/how-to/chroma.md."""


def files_naming(folder, name):
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in UNSET]
    return [str(path) for path in files if name.encode() in path.read_bytes()]


async def test_the_id_of_an_erased_user_is_in_no_file_of_the_store_or_the_index(
    open_memory, index_url, index, tmp_path, clock
):
    memory = await open_memory(f"sqlite:///{tmp_path}/kept.db", index=index_url)
    for name in ("canaryann", "robin"):
        await memory.user(name).add_memory("green tea")
    await memory.work()
    assert len(await index.partitions()) == 2
    await memory.user("canaryann").erase()
    await memory.work()
    clock.advance(days=3)
    await memory.work()
    await memory.user("canaryann").maintain()
    await memory.work()
    assert len(await index.partitions()) == 1
    await memory.close()
    assert (tmp_path / "kept.db").exists()
    assert files_naming(tmp_path, "canaryann") == []
    assert files_naming(tmp_path, "robin") == [str(tmp_path / "kept.db")]


async def test_a_user_who_comes_back_after_an_erasure_keeps_what_they_say_then(memory, index, clock):
    ann = memory.user("ann")
    await ann.add_memory("Ann drinks green tea", id="before")
    await memory.work()
    await ann.erase()
    await ann.add_memory("Ann drinks black tea", id="after")
    await memory.work()
    clock.advance(minutes=3)
    await memory.work()
    assert (await index.held(ANN)).keys() == {"after"}
    assert await memory.failures() == []


async def test_an_interrupted_erasure_still_empties_the_index(memory, index, clock, monkeypatch):
    ann = memory.user("ann")
    await ann.add_memory("Ann drinks green tea")
    await memory.work()
    with monkeypatch.context() as patch:
        # The power fails right after the store has forgotten.
        patch.setattr(memory._running.indexes, "drop", lambda partition: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await ann.erase()
    clock.advance(minutes=3)
    await memory.work()
    assert await index.partitions() == set()


async def test_an_expired_record_leaves_the_index_with_upkeep(memory, index, clock):
    await memory.user("ann").session("s").add_message("user", "The kettle is new", id="kettle")
    await memory.work()
    assert "kettle" in await index.held(ANN)
    clock.advance(days=40)
    await memory.work()
    assert "kettle" not in await index.held(ANN)


async def test_answers_match_those_of_the_built_in_index(open_memory, index_url, tmp_path):
    things = ("tea", "violin", "train", "garden", "kettle", "lamp", "coat", "bread", "river", "letter")
    places = ("kitchen", "cellar", "office", "market", "station", "school", "harbour")
    texts = [f"number {n}: the {a} is in the {b}" for n, (a, b) in enumerate((a, b) for a in things for b in places)]
    asked = [f"where is the {thing} near the {place}?" for thing, place in zip(things, places * 2, strict=False)]
    answers = []
    for name, index in (("plain", ""), ("beside", index_url)):
        memory = await open_memory(f"sqlite:///{tmp_path}/{name}.db", index=index)
        ann = memory.user("ann")
        await ann.add_memories([{"content": text, "id": f"m{n}"} for n, text in enumerate(texts)])
        await memory.work()
        answers.append([[hit.id for hit in await ann.search_memory(question, limit=10)] for question in asked])
    assert memory.describe()["vectors"]["state"] == "in use"
    same = [len(set(plain) & set(beside)) / 10 for plain, beside in zip(*answers, strict=True)]
    assert sum(same) / len(same) >= 0.98
    assert [plain[0] for plain in answers[0]] == [beside[0] for beside in answers[1]]


async def test_a_broken_folder_is_reported_and_search_goes_on(open_memory, tmp_path):
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "chroma.sqlite3").write_bytes(b"not a database, but long enough to be looked at " * 50)
    memory = await open_memory(index=f"chroma:///{tmp_path}/vectors")
    await memory.user("ann").add_memory("Ann drinks green tea")
    await memory.work()
    assert memory.describe()["vectors"]["state"].startswith("NOT IN USE")
    assert await found(memory.user("ann")) == ["Ann drinks green tea"]


async def test_failing_calls_do_not_leak_connections(server):
    index = open_index(server.url, HashingEmbedder().name)
    counts = []
    for _ in range(8):
        with pytest.raises(Unavailable):
            await index.near(ANN, np.zeros(0, np.float32), 1)
        await index.check()
        counts.append(connections_to(server.port))
    await index.close()
    await index.close()
    assert counts[0] > 0
    assert counts[-1] <= counts[0]


async def test_a_lost_index_is_rebuilt_from_the_store(memory, index):
    ann = memory.user("ann")
    added = await ann.add_memories([f"tea number {n}" for n in range(8)])
    await memory.work()
    await index.drop(ANN, [record.id for record in added[:5]])
    record = (await memory._running.ledger.get(ANN, [added[0].id]))[0]
    await index.put(BOB, [(record, (await HashingEmbedder().embed(["x"]))[0])])
    (first, second) = await memory.reindex()
    assert (first.partition, first.records, first.put, first.dropped) == (ANN, 8, 5, 0)
    assert (second.partition, second.records, second.put, second.dropped) == (veil_of(BOB), 0, 0, 1)
    assert [(each.put, each.dropped) for each in await memory.reindex()] == [(0, 0)]
    await index.put(BOB, [(record, (await HashingEmbedder().embed(["x"]))[0])])
    assert await memory.reindex(user="someone else") == []
    assert [each.dropped for each in await memory.reindex(user="bob")] == [1]


async def test_an_index_that_goes_away_is_missed_but_not_needed(open_memory, server, caplog, clock):
    memory = await open_memory(index=f"{server.url}?collection=away")
    ann = memory.user("ann")
    await ann.add_memory("Ann drinks green tea")
    await memory.work()
    assert memory.describe()["vectors"]["state"] == "in use"
    server.stop()
    with caplog.at_level(logging.WARNING, logger="recollect"):
        assert await found(ann) == ["Ann drinks green tea"]
        assert memory.describe()["vectors"]["state"].startswith("NOT IN USE: Chroma cannot be used")
        for number in range(5):
            await ann.add_memory(f"and tea number {number}")
        await memory.work()
    assert "searching without the index" in caplog.text
    assert await ann.failures() == []
    server.start()
    clock.advance(minutes=3)
    await memory.work()
    index = open_index(f"{server.url}?collection=away", HashingEmbedder().name)
    assert len(await index.held(ANN)) == 6
    await index.close()


async def test_an_index_is_not_blamed_for_a_store_that_is_away(open_memory, index_url, index, caplog, clock):
    class Leaving(InMemoryStore):
        is_away = False

        async def get(self, *given):
            if self.is_away:
                raise Unavailable("the connection was lost", field="store")
            return await super().get(*given)

    store = Leaving()
    memory = await open_memory(store, index=index_url)
    await memory.user("ann").add_memory("Ann drinks green tea", id="tea")
    worker = memory._running.worker
    await worker.round()  # it is enriched, so the index has to hear of it
    store.is_away = True
    await worker.round()
    assert "job index failed at attempt 1: Unavailable: store" in caplog.text
    assert "searching without the index" not in caplog.text
    assert memory.describe()["vectors"]["state"] == "in use"
    store.is_away = False
    clock.advance(minutes=3)
    await memory.work()
    assert (await index.held(ANN)).keys() == {"tea"}


async def test_an_erasure_while_the_index_is_away_is_completed_when_it_is_back(open_memory, server, clock, tmp_path):
    url = f"{server.url}?collection=erased"
    memory = await open_memory(f"sqlite:///{tmp_path}/kept.db", index=url)
    await memory.user("canaryann").add_memory("Ann drinks green tea")
    await memory.work()
    server.stop()
    await memory.user("canaryann").erase()
    await memory.work()
    assert files_naming(tmp_path, "canaryann") == []
    server.start()
    index = open_index(url, HashingEmbedder().name)
    assert len(await index.partitions()) == 1
    clock.advance(minutes=3)
    await memory.work()
    assert await index.partitions() == set()
    await index.close()


async def test_an_index_that_holds_nothing_of_a_user_does_not_narrow_the_search(open_memory, index_url, index):
    memory = await open_memory(index=index_url, embedder=Synonyms())
    ann = memory.user("ann")
    kept = await ann.add_memory("Ann drinks tea")
    await memory.work()
    await index.drop(ANN, [kept.id])
    (hit,) = await ann.search_memory("beverage")
    assert hit.legs["meaning"].score > 0.5


async def test_an_old_index_kept_under_user_names_is_removed(open_memory, index_url, index, tmp_path):
    chroma = chromadb.PersistentClient(path=tmp_path / "vectors", settings=quiet())
    name = f"recollect-{hashlib.blake2b(HashingEmbedder().name.encode(), digest_size=6).hexdigest()}"
    old = chroma.create_collection(name, embedding_function=None)
    old.add(ids=["default/ann/tea"], embeddings=[[1.0, 0.0]], metadatas=[{"owner": "default/ann", "version": 1}])
    memory = await open_memory(index=index_url)
    await memory.user("ann").add_memory("Ann drinks green tea")
    assert [each.put for each in await memory.reindex()] == [0]
    await memory.work()
    assert len(await index.held(ANN)) == 1
    assert name not in [each.name for each in chroma.list_collections()]


async def test_an_index_that_is_unreachable_at_the_start_is_reported(open_memory, caplog):
    with caplog.at_level(logging.WARNING, logger="recollect"):
        memory = await open_memory(index="chroma+http://127.0.0.1:1")
    assert "searching without the index" in caplog.text
    await memory.user("ann").add_memory("Ann drinks green tea")
    assert await found(memory.user("ann")) == ["Ann drinks green tea"]


@pytest.mark.parametrize(
    "url", ["chroma://", "chroma://host/path", "chroma+http://", "chroma:///x?other=1", "chroma:///x?collection=a b",
            "faiss:///x", "chroma+http://host/path", "vectors"],
)  # fmt: skip
async def test_an_invalid_index_url_is_refused(url):
    with pytest.raises(ValidationError) as caught:
        await Memory.open("memory://", index=url).start()
    assert caught.value.field == "index"


def test_a_token_is_never_shown():
    address = read_address("chroma+https://:s3cret@vectors.example")
    assert read_address("chroma+https://:s3%2Fcret%3D@vectors.example").token == "s3/cret="
    assert address.token == "s3cret"
    assert address.shown == "chroma+https://vectors.example:443"


async def test_an_erasure_that_the_index_gave_up_on_can_be_retried(open_memory, index_url, index, monkeypatch):
    memory = await open_memory(index=index_url, job_attempts_max=1)
    await memory.user("ann").add_memory("Ann drinks green tea")
    await memory.work()
    with monkeypatch.context() as patch:
        patch.setattr(memory._running.indexing._index, "held", lambda partition: 1 / 0)
        await memory.user("ann").erase()
        await memory.work()
    (failure,) = await memory.failures()
    assert "ann" not in str(failure.to_dict())
    await memory.retry(failure)
    await memory.work()
    assert (await memory.failures(), await index.partitions()) == ([], set())
