"""The servers of a Cluster are found where the Cluster says they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

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

    async def call(self, *commands: Any, waits: bool = False) -> Answer:
        reply = self.replies.get((self.address, str(commands[-1][0])), Failure(NOT_SENT))
        await asyncio.sleep(0)
        if isinstance(reply, Failure) and reply.code == NOT_SENT:
            raise reply
        return Answer([reply] * len(commands), 0, "run")

    async def hang_up(self) -> None:
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
