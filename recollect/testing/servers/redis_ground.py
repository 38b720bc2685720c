"""The keys of a store in Redis or a Cluster: for drills that put them back, hang up and look around."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import redis

from recollect.testing.proxy import Proxy, in_front_of
from recollect.testing.servers.redis import shared_cluster


class Ground:
    """The keys of a store on a server, or on the masters of our Cluster."""

    def __init__(self, url: str) -> None:
        cluster = "+cluster" in url
        # The nodes of a Cluster tell where they are: nobody would use a way around.
        self._proxy: Proxy | None
        self._proxy, self.url = (None if cluster else in_front_of(url)) or (None, url)
        self._prefix = url.rpartition("prefix=")[2]
        masters = [server.url() for server in shared_cluster().masters()] if cluster else [url]
        self._servers = [redis.Redis.from_url(each.partition("?")[0]) for each in masters]
        self._kept: list[dict[bytes, bytes]] = []

    async def start(self) -> None:
        if self._proxy is not None:
            await self._proxy.mend()

    def keep(self) -> None:
        for server in self._servers:
            keys = self._keys(server)
            self._kept.append(dict(zip(keys, self._each(server, "dump", keys), strict=True)))

    def put_back(self) -> None:
        for server, kept in zip(self._servers, self._kept, strict=True):
            self._each(server, "unlink", self._keys(server))
            with server.pipeline(transaction=False) as pipe:
                for key, value in kept.items():
                    pipe.restore(key, 0, value)
                pipe.execute()

    def hang_up(self) -> None:
        for server in self._servers:
            for client in self._clients(server):
                server.client_kill_filter(_id=client["id"])

    def lose_answers(self) -> None:
        (self._proxy.lose_answers if self._proxy is not None else self.hang_up)()

    def held(self, store: Any) -> Iterator[str]:
        for node in store._nodes._known.values():
            if node._carriers or node._waiting:
                yield f"calls under way: {node._carriers}, {node._waiting}"

    def connections(self) -> int:
        return sum(len(self._clients(server)) for server in self._servers)

    async def stop(self) -> None:
        if self._proxy is not None:
            await self._proxy.cut()
        for server in self._servers:
            server.close()

    def _keys(self, server: Any) -> list[bytes]:
        return list(server.scan_iter(f"{self._prefix}*", count=10_000))

    @staticmethod
    def _each(server: Any, command: str, keys: list[bytes]) -> list[Any]:
        with server.pipeline(transaction=False) as pipe:
            for key in keys:
                getattr(pipe, command)(key)
            return list(pipe.execute())

    @staticmethod
    def _clients(server: Any) -> list[dict[str, str]]:
        return [client for client in server.client_list() if client["name"] == "recollect"]
