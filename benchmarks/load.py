"""How much one server process takes, beside a bare handler with one durable insert: `make bench-load`.

The server and the bare application run as processes of their own on loopback; this process asks, over
connections that stay open, and measures. Last come many chats at once, for errors and for memory.

    python benchmarks/load.py --seconds 10 --connections 32 --chats 200 --chat-seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

Request = tuple[str, dict[str, object]]
"""A path and the body that is posted to it."""

BARE = """
import sqlite3, sys, threading
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

class Message(BaseModel):
    role: str
    content: str

app = FastAPI()
lock = threading.Lock()
db = sqlite3.connect(sys.argv[1], check_same_thread=False, isolation_level=None)
db.execute("pragma journal_mode = wal")
db.execute("pragma synchronous = full")
db.execute("create table messages (id integer primary key, user text, role text, content text)")

@app.post("/add/{user}", status_code=201)
def add(user: str, message: Message) -> dict[str, int]:
    with lock:
        values = (user, message.role, message.content)
        row = db.execute("insert into messages (user, role, content) values (?, ?, ?)", values)
        return {"id": row.lastrowid}

# The same HTTP as the server: a quicker parser would be as good for both.
config = uvicorn.Config(app, port=0, log_level="info", access_log=False, http="h11", loop="asyncio")
uvicorn.Server(config).run()
"""
SAID = (
    "My cat is called Admiral and he sleeps on the printer.",
    "The budget of the autumn survey is 84,000 kroner.",
    "I live in Porto and I work as a marine biologist.",
    "Please give distances in nautical miles.",
    "My sister Leila gets married in June, in a lighthouse.",
)
ASKED = ("What is my cat called?", "How large is the budget?", "Where do I live?", "When does Leila get married?")
START_S = 60.0
SERVE = [sys.executable, "-m", "recollect", "serve", "--port", "0"]
USERS = 50
OPEN_MAX = 2_000
"""Connections that a flood holds open at a time."""


@dataclass
class Measured:
    """What came back, and when."""

    name: str
    seconds: float = 0.0
    times_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    cpu_s: float = 0.0
    admitted_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.times_s) / self.seconds if self.seconds else 0.0

    def quantile_ms(self, share: float) -> float:
        ordered = sorted(self.times_s) or [0.0]
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000

    @property
    def row(self) -> str:
        quantiles = "  ".join(f"{self.quantile_ms(share):8.1f}" for share in (0.5, 0.95, 0.99))
        wrong = {status: count for status, count in self.statuses.items() if status >= 300}
        return f"{self.name:<28}{self.rate:9.0f}  {quantiles}  {self.cpu_ms:8.2f}  {wrong or ''}"

    @property
    def cpu_ms(self) -> float:
        """Time of a processor that the server took for one request: what a busy machine does not blur."""
        return self.cpu_s / max(len(self.times_s), 1) * 1000


# ── processes ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[tuple[str, int]]:
    """A server as a process of its own. Gives its address and its process id."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    log = (folder / "log").open("w+")
    process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_S
        while not (found := re.search(r"http://([\d.]+:\d+)", (folder / "log").read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit((folder / "log").read_text())
            time.sleep(0.05)
        yield found[1], process.pid
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def cpu_s(pid: int) -> float:
    """Processor time that a process has taken so far."""
    taken = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(taken[11]) + int(taken[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, request: Request) -> int:
    path, body = request
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    writer.write(head.encode() + data)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", answer, re.I)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(answer[9:12])


async def ask(
    name: str, server: tuple[str, int], requests: Callable[[int, int], Request], connections: int, seconds: float
) -> Measured:
    """Ask over so many connections, each as soon as it is answered, for so long."""
    measured = Measured(name)
    host, pid = server
    before = cpu_s(pid)
    until = time.perf_counter() + seconds

    async def one(connection: int) -> None:
        address, _, port = host.partition(":")
        reader, writer = await asyncio.open_connection(address, int(port))
        number = 0
        while (began := time.perf_counter()) < until:
            status = await _ask(reader, writer, host, requests(connection, number))
            measured.times_s.append(time.perf_counter() - began)
            measured.statuses[status] += 1
            number += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(connection) for connection in range(connections)))
    measured.seconds = time.perf_counter() - began
    measured.cpu_s = cpu_s(pid) - before
    return measured


def bare_add(connection: int, number: int) -> Request:
    return f"/add/user{connection % USERS}", {"role": "user", "content": f"{SAID[number % len(SAID)]} ({number})"}


def add(connection: int, number: int) -> Request:
    body: dict[str, object] = {"role": "user", "content": f"{SAID[number % len(SAID)]} ({number})"}
    return f"/api/users/user{connection % USERS}/sessions/s{connection}/messages", body


def context(connection: int, number: int) -> Request:
    return f"/api/users/user{connection % USERS}/context", {"query": ASKED[number % len(ASKED)]}


def chat(connection: int, number: int) -> Request:
    text = SAID[number % len(SAID)] if number % 2 else ASKED[number % len(ASKED)]
    body: dict[str, object] = {"user_id": f"chatter{connection}", "chat_id": f"c{number // 20}", "message": text}
    return "/api/chat", body


# ── the whole of it ──────────────────────────────────────────────────────────────────────────────


async def _beside_bare(seconds: float, connections: int, folder: Path) -> list[Measured]:
    (folder / "bare").mkdir()
    (folder / "bare" / "bare.py").write_text(BARE)
    with running([sys.executable, "bare.py", "bare.db"], folder / "bare") as server:
        await ask("warm", server, bare_add, 4, 1)
        found = [await ask("bare FastAPI, one insert", server, bare_add, connections, seconds)]
    (folder / "alone").mkdir()
    with running([*SERVE, "--set", "worker=false"], folder / "alone") as server:
        await ask("warm", server, add, 4, 1)
        found.append(await ask("add, enriched elsewhere", server, add, connections, seconds))
    (folder / "served").mkdir()
    with running(SERVE, folder / "served") as server:
        await ask("warm", server, add, 4, 1)
        for name, requests in (("add, enriched here", add), ("context", context), ("chat, default agent", chat)):
            found.append(await ask(name, server, requests, connections, seconds))
    return found


async def _many_chats(chats: int, seconds: float, folder: Path) -> None:
    (folder / "chats").mkdir()
    with running(SERVE, folder / "chats") as server:
        await ask("warm", server, chat, chats, min(10.0, seconds / 4))
        sizes = [memory_mib(server[1])]
        whole = Measured(f"{chats} chats at once")
        for _ in range(4):
            part = await ask(whole.name, server, chat, chats, seconds / 4)
            whole.seconds += part.seconds
            whole.cpu_s += part.cpu_s
            whole.times_s += part.times_s
            whole.statuses += part.statuses
            sizes.append(memory_mib(server[1]))
    print(whole.row)
    print(f"statuses {dict(whole.statuses)}; memory {' → '.join(f'{size:.0f}' for size in sizes)} MiB")


async def _overload(seconds: float, folder: Path) -> None:
    """Four times as much as it takes, whether it answers or not: it refuses the rest, stays small, and recovers."""
    (folder / "over").mkdir()
    with running([*SERVE, "--set", "worker=false"], folder / "over") as server:
        usual = await ask("add, as much as it takes", server, add, 64, max(3.0, seconds / 6))
        before = memory_mib(server[1])
        flood = Measured("add, four times as much")
        await _flood(server, flood, usual.rate * 4, seconds)
        most = memory_mib(server[1])
        after = await ask("add, right after", server, add, 64, 3)
    admitted = Measured("of these, admitted", flood.seconds, flood.admitted_s)
    for measured in (usual, flood, admitted, after):
        print(measured.row)
    print(f"statuses {dict(flood.statuses)}; memory {before:.0f} → {most:.0f} MiB")


async def _flood(server: tuple[str, int], flood: Measured, rate: float, seconds: float) -> None:
    """Send at a rate that does not wait for answers, each request over a connection of its own."""
    host, _ = server
    address, _, port = host.partition(":")

    async def one(number: int) -> None:
        began = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection(address, int(port))
            status = await _ask(reader, writer, host, add(number, number))
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            status = 0
        took_s = time.perf_counter() - began
        flood.times_s.append(took_s)
        flood.statuses[status] += 1
        if status == 201:
            flood.admitted_s.append(took_s)

    began, asked = time.perf_counter(), set()
    while (passed := time.perf_counter() - began) < seconds:
        while len(flood.times_s) + len(asked) < passed * rate and len(asked) < OPEN_MAX:
            task = asyncio.create_task(one(len(flood.times_s) + len(asked)))
            asked.add(task)
            task.add_done_callback(asked.discard)
        await asyncio.sleep(0.005)
    await asyncio.gather(*asked)
    flood.seconds = time.perf_counter() - began


async def measure(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="recollect-load-") as name:
        folder = Path(name)
        told = f"one process, {options.connections} connections, {options.seconds:g} s each"
        print(f"{told}; the machine's load was {os.getloadavg()[0]:.1f}")
        print(f"{'':<28}{'a second':>9}  {'p50 ms':>8}  {'p95 ms':>8}  {'p99 ms':>8}  {'CPU ms':>8}")
        found = await _beside_bare(options.seconds, options.connections, folder)
        for measured in found:
            print(measured.row)
        ratio, cpu = found[0].rate / max(found[1].rate, 0.001), found[1].cpu_ms / max(found[0].cpu_ms, 0.001)
        print(f"an add takes {ratio:.2f} times as long as the bare insert, and {cpu:.2f} times the processor")
        if options.overload_seconds:
            await _overload(options.overload_seconds, folder)
        if options.chat_seconds:
            await _many_chats(options.chats, options.chat_seconds, folder)


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--overload-seconds", type=float, default=30.0)
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--chat-seconds", type=float, default=60.0)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
