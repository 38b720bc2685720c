"""Load on a server in a separate process: loops that wait for answers, and floods that do not.

The client must cost little compared with the server, as both share a machine: requests are plain bytes, of an
answer only the status and the length are looked at, and connections stay open.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

Request = tuple[str, dict[str, object]]
"""A path and the body posted to it."""
Requests = Callable[[int, int], Request]
"""The n-th request that a connection sends."""

START_S = 60.0
ANSWER_S = 60.0
OPEN_MAX = 2_000
"""Connections that a flood holds open at once."""
STEP_S = 0.002
LOST = 0
"""The status of a request that was not answered."""

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: close", re.IGNORECASE)


@dataclass
class Measured:
    """What came back, and when."""

    name: str
    seconds: float = 0.0
    times_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    cpu_s: float = 0.0
    done_s: list[float] = field(default_factory=list)
    """The times of the requests that were done, not refused."""
    late_s: list[float] = field(default_factory=list)
    """How much later than intended the sender sent: a sender that is late measures itself."""

    @property
    def rate(self) -> float:
        return len(self.times_s) / self.seconds if self.seconds else 0.0

    @property
    def cpu_ms(self) -> float:
        """Processor time that the server took for one request, which a busy machine does not blur."""
        return self.cpu_s / max(len(self.times_s), 1) * 1000

    def note(self, status: int, took_s: float) -> None:
        """Record one more answer."""
        self.times_s.append(took_s)
        self.statuses[status] += 1
        if 200 <= status < 300:
            self.done_s.append(took_s)


def quantile_ms(times_s: list[float], share: float) -> float:
    """The time within which this share of the requests was answered.

    >>> quantile_ms([0.001, 0.002, 0.010], 0.5)
    2.0
    """
    ordered = sorted(times_s) or [0.0]
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


# ── The server ───────────────────────────────────────────────────────────────────────────────────


class Server(NamedTuple):
    """Where it listens, and which process it is."""

    host: str
    port: int
    pid: int

    @property
    def cpu_s(self) -> float:
        """Processor time that it has taken so far."""
        taken = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(taken[11]) + int(taken[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mib(self) -> float:
        """Memory that it holds."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8"))
        return int(found[1]) / 1024 if found else 0.0


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[Server]:
    """A server in a separate process, which prints where it listens."""
    folder.mkdir(exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    said = folder / "log"
    with said.open("w+") as log:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_S
            while not (found := re.search(r"http://([\w.]+):(\d+)", said.read_text())):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(said.read_text())
                time.sleep(0.05)
            yield Server(found[1], int(found[2]), process.pid)
        finally:
            process.terminate()
            process.wait(20)


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────


def written(server: Server, request: Request) -> bytes:
    """A request as it goes over the wire."""
    path, body = request
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


class Line(asyncio.Protocol):
    """A connection that sends one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[int] | None = None
        self._came = b""

    @classmethod
    async def to(cls, server: Server) -> Line:
        """A connection to a server."""
        _, line = await asyncio.get_running_loop().create_connection(cls, server.host, server.port)
        return line

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, data: bytes) -> int:
        """Send a request. Returns the status of its answer once all of it has arrived."""
        if self._transport is None or self._transport.is_closing():
            return LOST
        self._came = b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._answer

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, end, body = self._came.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or len(body) < (int(length[1]) if length else 0):
            return
        if _CLOSES.search(head) and self._transport is not None:
            self._transport.close()
        self._told(int(head[9:12]))

    def connection_lost(self, error: Exception | None) -> None:
        self._told(LOST)

    def _told(self, status: int) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(status)


async def ask(name: str, server: Server, requests: Requests, connections: int, seconds: float) -> Measured:
    """Ask over this many connections for this long, each again as soon as it is answered."""
    measured = Measured(name)
    before = server.cpu_s
    until = time.perf_counter() + seconds

    async def one(connection: int) -> None:
        line = await Line.to(server)
        number = 0
        while (began := time.perf_counter()) < until:
            if not line.is_open:
                line = await Line.to(server)
            status = await asyncio.wait_for(line.ask(written(server, requests(connection, number))), ANSWER_S)
            measured.note(status, time.perf_counter() - began)
            number += 1
        line.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(connection) for connection in range(connections)))
    measured.seconds = time.perf_counter() - began
    measured.cpu_s = server.cpu_s - before
    return measured


async def flood(name: str, server: Server, requests: Requests, rate: float, seconds: float) -> Measured:
    """Send this many requests a second, whether they are answered or not."""
    measured = Measured(name)
    idle: list[Line] = []
    before, began = server.cpu_s, time.perf_counter()

    async def one(number: int) -> None:
        measured.late_s.append(time.perf_counter() - began - number / rate)
        data = written(server, requests(number, number))
        asked = time.perf_counter()
        try:
            was_idle = bool(idle)
            line = idle.pop() if idle else await Line.to(server)
            status = await asyncio.wait_for(line.ask(data), ANSWER_S)
            if status == LOST and was_idle:  # it was closed at that very moment, which is not an answer
                line = await Line.to(server)
                status = await asyncio.wait_for(line.ask(data), ANSWER_S)
        except (OSError, TimeoutError):
            measured.note(LOST, time.perf_counter() - asked)
            return
        measured.note(status, time.perf_counter() - asked)
        if line.is_open:
            idle.append(line)

    under_way: set[asyncio.Task[None]] = set()
    sent = 0
    while (passed := time.perf_counter() - began) < seconds:
        while sent < passed * rate and len(under_way) < OPEN_MAX:
            task = asyncio.create_task(one(sent))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            sent += 1
        await asyncio.sleep(STEP_S)
    await asyncio.gather(*under_way)
    measured.seconds = time.perf_counter() - began
    measured.cpu_s = server.cpu_s - before
    for line in idle:
        line.close()
    return measured


def add(connection: int, number: int) -> Request:
    """A message of one of fifty users."""
    body: dict[str, object] = {"role": "user", "content": f"{SAID[number % len(SAID)]} ({number})"}
    return f"/api/users/user{connection % USERS}/sessions/s{connection % SESSIONS}/messages", body


USERS, SESSIONS = 50, 200
SAID = (
    "My cat is called Admiral and he sleeps on the printer.",
    "The budget of the autumn survey is 84,000 kroner.",
    "I live in Porto and I work as a marine biologist.",
    "Please give distances in nautical miles.",
    "My sister Leila gets married in June, in a lighthouse.",
)
