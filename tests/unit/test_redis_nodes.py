"""The servers of a Cluster are found where the Cluster says they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

from recollect.errors import Busy
from recollect.stores import redis_nodes
from recollect.stores.redis_node import NOT_SENT, Answer, Failure
from recollect.stores.redis_nodes import SLOTS, Nodes, Script
from recollect.stores.redis_url import read_url

URL = read_url("redis+cluster://one:7000,two:7000")
HALVES = ((0, SLOTS // 2), (SLOTS // 2 + 1, SLOTS))


@dataclass
class Scripted:
    """A server that answers from a script, by address and command; any other server cannot be reached."""

    address: tuple[str, int]
    replies: dict[tuple[tuple[str, int], str], Any]
    calls: int = 0

    async def call(self, *commands: Any, waits: bool = False) -> Answer:
        self.calls += 1
        reply = self.replies.get((self.address, str(commands[-1][0])), Failure(NOT_SENT))
        await asyncio.sleep(0)
        if isinstance(reply, Failure) and reply.code == NOT_SENT:
            raise reply
        return Answer([reply] * len(commands), 0, "run")

    async def hang_up(self) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch):
    replies: dict[tuple[tuple[str, int], str], Any] = {}
    monkeypatch.setattr(redis_nodes, "Node", lambda address, url, try_s: Scripted(address, replies))
    return replies


@pytest.mark.parametrize("unnamed", [b"", None])
async def test_a_server_without_a_name_is_at_the_host_that_reported_it(cluster, unnamed):
    cluster[("two", 7000), "CLUSTER"] = [[*HALVES[0], [unnamed, 7000]], [*HALVES[1], [b"three", 7001]]]
    nodes = Nodes(URL, 0.5)
    await nodes.start()
    assert {node.address for node in nodes.masters()} == {("two", 7000), ("three", 7001)}


@pytest.mark.parametrize("code", ["MOVED", "ASK"])
async def test_a_shard_that_moves_to_another_port_of_the_same_host_is_found(cluster, code):
    cluster[("two", 7000), "CLUSTER"] = [[0, SLOTS, [b"two", 7000]]]
    cluster[("two", 7000), "EVALSHA"] = Failure(code, ("", 7001))
    cluster[("two", 7001), "EVALSHA"] = b"here"
    nodes = Nodes(URL, 0.5)
    await nodes.start()
    assert await nodes.run(Script(), 0, ["key"]) == b"here"


async def test_a_server_that_left_the_cluster_is_not_believed_about_it(cluster):
    cluster[("one", 7000), "CLUSTER"] = []
    cluster[("two", 7000), "CLUSTER"] = [[0, SLOTS, [b"three", 7000]]]
    nodes = Nodes(URL, 0.5)
    await nodes.start()
    assert {node.address for node in nodes.masters()} == {("three", 7000)}


async def test_a_server_cut_off_from_the_cluster_is_not_believed_about_who_replaced_it(cluster):
    cluster[("one", 7000), "CLUSTER"] = [[0, SLOTS, [b"one", 7000]]]
    cluster[("one", 7000), "EVALSHA"] = Failure("CLUSTERDOWN")
    nodes = Nodes(URL, 0.5)
    await nodes.start()
    cluster[("two", 7000), "CLUSTER"] = [[0, SLOTS, [b"two", 7000]]]
    cluster[("two", 7000), "EVALSHA"] = b"here"
    assert await nodes.run(Script(), 0, ["key"]) == b"here"


async def test_slots_that_nobody_holds_do_not_hide_the_others(cluster):
    cluster[("two", 7000), "CLUSTER"] = [[*HALVES[0], [b"three", 7000]]]
    nodes = Nodes(URL, 0.5)
    await nodes.start()
    assert ("three", 7000) in {node.address for node in nodes.masters()}


async def test_servers_whose_addresses_change_are_forgotten_at_the_old_ones(cluster):
    nodes = Nodes(URL, 0.5)
    for number in range(20):
        here = (f"pod{number}", 7000)
        cluster.clear()
        cluster[("two", 7000), "CLUSTER"] = [[0, SLOTS, [here[0].encode(), here[1]]]]
        cluster[here, "EVALSHA"] = b"here"
        assert await nodes.run(Script(), 0, ["key"]) == b"here"
    assert set(nodes._known) == {*URL.addresses, ("pod19", 7000)}
    await nodes.close()


async def test_servers_that_send_a_call_to_each_other_are_not_asked_without_a_pause(cluster):
    cluster[("one", 7000), "CLUSTER"] = [[0, SLOTS, [b"one", 7000]]]
    cluster[("one", 7000), "EVALSHA"] = Failure("MOVED", ("two", 7000))
    cluster[("two", 7000), "EVALSHA"] = Failure("MOVED", ("one", 7000))
    nodes = Nodes(URL, 0.5)
    await nodes.start()
    with pytest.raises(Busy, match="moving"):
        await nodes.run(Script(), 0, ["key"])
    assert sum(node.calls for node in nodes._known.values()) < 50
