"""The Cosmos DB store keeps every promise, on an emulator or on the account named by `RECOLLECT_TEST_COSMOS`."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("azure.cosmos", reason="no Cosmos DB driver here: install recollect[cosmos]")

from azure.cosmos import CosmosClient, PartitionKey

from recollect.errors import Busy, RecollectError, Unavailable, ValidationError
from recollect.filters import Filter
from recollect.records import Changes, Partition, Vector, payload_of
from recollect.stores import open_store
from recollect.stores.contract import OPERATIONS_MAX, PAYLOAD_MAX_BYTES, OtherVersion, Store
from recollect.stores.cosmos_url import KEY_VARIABLE, read_url
from recollect.testing.conformance import StoreConformance
from recollect.testing.conformance.stage import ANN, LEASE_S, NOW, listed, message, one, opened, put, work
from recollect.testing.servers import free_port
from recollect.testing.servers.cosmos import KEY, VARIABLE, fresh_url, remove, shared_emulator

pytestmark = pytest.mark.xdist_group("cosmos")

ON_THE_SERVICE = bool(os.environ.get(VARIABLE))
on_the_service_alone = pytest.mark.skipif(
    not ON_THE_SERVICE, reason="the emulator has no index: it reads every document for each query"
)
on_the_emulator_alone = pytest.mark.skipif(ON_THE_SERVICE, reason="the service does not refuse calls at will")


@pytest.fixture
def store_url() -> Iterator[str]:
    with fresh_url() as url:
        yield url


class TestCosmos(StoreConformance):
    @pytest.fixture
    def store_url(self) -> Iterator[str]:
        with fresh_url() as url:
            yield url

    @pytest.fixture
    def other_url(self) -> Iterator[str]:
        with fresh_url() as url:
            yield url

    @on_the_service_alone
    async def test_the_last_50_of_100_000_cost_at_most_twice_the_last_50_of_1_000(self, store: Store) -> None:
        await super().test_the_last_50_of_100_000_cost_at_most_twice_the_last_50_of_1_000(store)


async def test_a_record_that_another_process_writes_at_the_same_moment_is_answered_with_its_revision(
    store_url, monkeypatch
):
    async with opened(store_url) as store, opened(store_url) as second:
        assert await put(store, message("m0")) == 1
        read = store._metas

        async def read_after_another_wrote(*asked):
            await put(second, message("m1"))
            return await read(*asked)

        monkeypatch.setattr(store, "_metas", read_after_another_wrote)
        assert await put(store, message("m1")) == 2


# ── the limits of the service ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("letter", ['"', "\\", "é", "日", "\U0001f600", "\x00", "x"])
async def test_the_largest_commit_fits_into_one_batch_whatever_it_is_made_of(store_url, letter):
    one_more = len(payload_of(message("m", letter * 2)).encode()) - len(payload_of(message("m", letter)).encode())
    content = letter * ((PAYLOAD_MAX_BYTES // 94 - 300) // one_more)
    records = [message(f"m{n}", content, vector=Vector("model", bytes(200))) for n in range(94)]
    assert sum(len(payload_of(record).encode()) + 200 for record in records) > 0.98 * PAYLOAD_MAX_BYTES
    async with opened(store_url) as store:
        changes = Changes(ANN, put=tuple(records), enqueue=(work("j1"), work("j2")), key="k" * 200)
        assert len(changes.put) + len(changes.enqueue) == OPERATIONS_MAX
        assert await store.commit(changes, NOW) == 1
        assert (await one(store, "m93")).content == content


async def test_ids_too_long_for_the_service_stay_apart(store_url):
    faces = "\U0001f600" * 127
    partitions = [Partition(faces + end, faces + other) for end in "ab" for other in "ab"]
    async with opened(store_url) as store:
        for partition in partitions:
            job = work(faces + "a", partition)
            records = [message(faces + end, str(partition) + end, partition) for end in "ab"]
            await store.commit(Changes(partition, put=tuple(records), enqueue=(job,)), NOW)
        for partition in partitions:
            found = await listed(store, Filter(partition))
            assert [record.content for record in found] == [str(partition) + "a", str(partition) + "b"]
            assert (await one(store, faces + "b", partition)).content == str(partition) + "b"
        assert sorted(await store.partitions()) == sorted(partitions)
        jobs = await store.claim(NOW, LEASE_S, 10)
        assert sorted((job.partition, job.id) for job in jobs) == sorted((each, faces + "a") for each in partitions)


@on_the_emulator_alone
async def test_a_commit_waits_as_long_as_the_service_asks_for_when_request_units_run_out(store_url):
    async with opened(store_url) as store:
        shared_emulator().throttle(count=4, after_ms=50)
        start = time.monotonic()
        assert await put(store, message("a")) == 1
        assert time.monotonic() - start >= 4 * 0.05


@on_the_emulator_alone
async def test_a_store_that_gets_no_request_units_says_so_after_the_timeout(store_url):
    store = await open_store(store_url, busy_timeout_s=1)
    try:
        shared_emulator().throttle(count=1_000, after_ms=200)
        start = time.monotonic()
        with pytest.raises(Busy, match="request units"):
            await put(store, message("a"))
        assert 0.9 < time.monotonic() - start < 15
    finally:
        shared_emulator().throttle(count=0, after_ms=0)
        await store.close()


# ── what is refused, and how ─────────────────────────────────────────────────────────────────────


async def test_a_deleted_container_is_not_taken_for_an_empty_one(store_url):
    async with opened(store_url) as store:
        await put(store, message("a"))
        remove(store_url)
        for call in (
            lambda: store.get(ANN, ["a"], NOW),
            lambda: store.list(Filter(ANN), NOW),
            lambda: store.changes(ANN, None),
            lambda: store.claim(NOW, LEASE_S, 1),
            lambda: put(store, message("b")),
        ):
            with pytest.raises(Unavailable):
                await call()


async def test_a_container_is_created_unless_the_url_says_no(store_url):
    with pytest.raises(Unavailable, match="create=no"):
        await open_store(f"{store_url}&create=no")
    async with opened(store_url) as store:
        await put(store, message("a"))
    async with opened(f"{store_url}&create=no") as store:
        assert (await one(store, "a")).content == "hello"


@pytest.mark.parametrize("how", [{"partition_key": PartitionKey("/id")}, {"default_ttl": 60}])
async def test_a_container_that_would_not_keep_the_promises_is_refused(store_url, how):
    where = read_url(store_url, {})
    with CosmosClient(where.endpoint, where.key, enable_endpoint_discovery=not where.emulator) as client:
        database = client.create_database_if_not_exists(where.database)
        database.create_container(where.container, **{"partition_key": PartitionKey("/partition"), **how})
    with pytest.raises(ValidationError, match="not Recollect's"):
        await open_store(store_url)


async def test_a_container_of_another_version_is_refused_and_not_touched(store_url):
    async with opened(store_url):
        pass
    where = read_url(store_url, {})
    with CosmosClient(where.endpoint, where.key, enable_endpoint_discovery=not where.emulator) as client:
        container = client.get_database_client(where.database).get_container_client(where.container)
        newer = {"id": "store", "partition": "=store", "layout": 2}
        container.replace_item("store", newer)
        with pytest.raises(OtherVersion, match="upgrade Recollect"):
            await open_store(store_url)
        assert container.read_item("store", "=store")["layout"] == 2


async def test_a_check_finds_a_record_changed_behind_our_back(store_url):
    async with opened(store_url) as store:
        await put(store, message("a"), message("b"))
        assert await store.check() == []
        where = read_url(store_url, {})
        with CosmosClient(where.endpoint, where.key, enable_endpoint_discovery=not where.emulator) as client:
            container = client.get_database_client(where.database).get_container_client(where.container)
            document = container.read_item("r:a", "acme/ann")
            container.replace_item("r:a", {**document, "payload": document["payload"].replace("hello", "howdy")})
        assert await store.check() == ["records that differ from what was written: 1"]


async def test_an_account_that_cannot_be_reached_is_unavailable():
    start = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        await open_store(f"cosmos://127.0.0.1:{free_port()}/db/c?key={KEY}&emulator=yes", busy_timeout_s=1)
    assert time.monotonic() - start < 30
    assert KEY not in str(caught.value)


async def test_an_account_that_hangs_is_unavailable_after_the_timeout():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"cosmos://127.0.0.1:{silent.getsockname()[1]}/db/c?key={KEY}&emulator=yes"
        start = time.monotonic()
        with pytest.raises(Unavailable):
            await open_store(url, busy_timeout_s=1)
        assert time.monotonic() - start < 30


# ── the address ──────────────────────────────────────────────────────────────────────────────────

ACCOUNT = "cosmos://acme.documents.azure.com:443/memories/recollect"
SECRET = "c2VjcmV0+/c2VjcmV0=="


def test_a_key_is_taken_from_the_url_or_from_the_environment():
    assert read_url(f"{ACCOUNT}?key={SECRET}", {}).key == SECRET
    assert read_url(ACCOUNT, {KEY_VARIABLE: SECRET}).key == SECRET
    assert read_url(f"{ACCOUNT}?key={SECRET}", {KEY_VARIABLE: "other"}).key == SECRET
    assert read_url(ACCOUNT, {KEY_VARIABLE: SECRET}).endpoint == "https://acme.documents.azure.com:443/"


async def test_neither_descriptions_nor_errors_show_the_key(store_url):
    where = read_url(f"{ACCOUNT}?key={SECRET}", {})
    assert SECRET not in repr(where) + str(where)
    async with opened(store_url) as store:
        assert read_url(store_url, {}).key not in str(store.describe()) + repr(store)


@pytest.mark.parametrize(
    "wrong",
    [
        "cosmos://",
        "cosmos://acme.documents.azure.com",
        "cosmos://acme.documents.azure.com/db",
        "cosmos://acme.documents.azure.com/db/c/d",
        "cosmos://acme.documents.azure.com:port/db/c",
        "cosmos://user:password@acme.documents.azure.com/db/c",
        f"{ACCOUNT}?create=maybe",
        f"{ACCOUNT}?keys=1",
        f"{ACCOUNT}/a b",
        ACCOUNT,
    ],
)
def test_an_invalid_url_is_refused_without_being_shown(wrong):
    with pytest.raises(RecollectError) as caught:
        read_url(wrong if wrong == ACCOUNT else f"{wrong}{'&' if '?' in wrong else '?'}key={SECRET}", {})
    assert type(caught.value) is ValidationError
    assert caught.value.field == "url"
    assert SECRET not in str(caught.value)
