"""How much load one server process takes, beside a bare handler with one durable insert and Chroma's server.

The servers run one after another as separate processes on loopback; this process sends requests over connections that
stay open, and measures. Then come four times as many requests as the server can take, and many concurrent chats, to
look for errors and memory growth. `make bench-load`; `make bench` runs the quick form.

    python benchmarks/load.py --seconds 10 --connections 32 --overload-seconds 60 --chats 200 --chat-seconds 60
    python benchmarks/load.py --only-chats --chat-seconds 300 --index-mib 16    # does its memory level off?
    python benchmarks/load.py --quick

mem0 is not among them: its package has no server, and the one in its repository needs PostgreSQL and a model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request as Post
from urllib.request import urlopen

from recollect.testing import overload
from recollect.testing.load import (
    SAID,
    START_S,
    Measured,
    Request,
    Requests,
    Server,
    add,
    ask,
    quantile_ms,
    running,
)
from recollect.testing.servers import free_port

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
ASKED = ("What is my cat called?", "How large is the budget?", "Where do I live?", "When does Leila get married?")
SERVE = [sys.executable, "-m", "recollect", "serve", "--port", "0"]
DIMENSIONS = 256
STEP_S = 10.0
"""How often the server's memory is sampled during the chats."""
QUICK = {"seconds": 3.0, "overload_seconds": 6.0, "chats": 50, "chat_seconds": 10.0}


def row(measured: Measured) -> str:
    """One line of the table."""
    quantiles = "  ".join(f"{quantile_ms(measured.times_s, share):8.1f}" for share in (0.5, 0.95, 0.99))
    wrong = {status: count for status, count in measured.statuses.items() if not 200 <= status < 300}
    return f"{measured.name:<28}{measured.rate:9.0f}  {quantiles}  {measured.cpu_ms:8.2f}  {wrong or ''}"


def bare_add(connection: int, number: int) -> Request:
    """The same message as `add`, to the bare handler."""
    path, body = add(connection, number)
    return f"/add/{path.split('/')[3]}", body


def context(connection: int, number: int) -> Request:
    """The context of a question."""
    return f"{add(connection, 0)[0].rpartition('/sessions')[0]}/context", {"query": ASKED[number % len(ASKED)]}


def chat(connection: int, number: int) -> Request:
    """A turn with the agent that needs no model, alternately telling and asking something."""
    text = SAID[number % len(SAID)] if number % 2 else ASKED[number % len(ASKED)]
    body: dict[str, object] = {"user_id": f"chatter{connection}", "chat_id": f"c{number // 20}", "message": text}
    return "/api/chat", body


# ── Chroma ───────────────────────────────────────────────────────────────────────────────────────


def chroma_program() -> Path | None:
    """Chroma's own program, here or in the environment of `make bench`."""
    places = (Path(sys.prefix), Path(__file__).resolve().parent / ".venv")
    return next((place / "bin" / "chroma" for place in places if (place / "bin" / "chroma").exists()), None)


@contextmanager
def chroma(program: Path, folder: Path) -> Iterator[tuple[Server, str]]:
    """Run Chroma's server with an empty collection. Yields the server and the path of the collection."""
    port = free_port()
    command = [str(program), "run", "--path", "data", "--host", "127.0.0.1", "--port", str(port)]
    with running(command, folder) as started:
        server = started._replace(host="127.0.0.1")
        yield server, _new_collection(server)


def _new_collection(server: Server) -> str:
    collections = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    body, kind = json.dumps({"name": "messages"}).encode(), {"Content-Type": "application/json"}
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urlopen(Post(f"http://{server.host}:{server.port}{collections}", body, kind)) as answer:
                return f"{collections}/{json.load(answer)['id']}"
        except URLError:  # it announces its address before it listens
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


async def _beside_chroma(seconds: float, connections: int, folder: Path) -> list[Measured]:
    program = chroma_program()
    if program is None:
        print("Chroma is skipped: it is not installed here (`make bench` installs it)")
        return []
    drawn = random.Random(7)
    vectors = [[drawn.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(64)]
    with chroma(program, folder / "chroma") as (server, path):

        def put(connection: int, number: int) -> Request:
            text = str(add(connection, number)[1]["content"])
            vector = vectors[(connection * 31 + number) % len(vectors)]
            return f"{path}/add", {"ids": [f"{connection}-{number}"], "embeddings": [vector], "documents": [text]}

        def find(connection: int, number: int) -> Request:
            return f"{path}/query", {"query_embeddings": [vectors[number % len(vectors)]], "n_results": 5}

        return await _each(
            server, (("Chroma: add with its vector", put), ("Chroma: query by vector", find)), seconds, connections
        )


# ── The whole of it ──────────────────────────────────────────────────────────────────────────────


async def _each(
    server: Server, asked: tuple[tuple[str, Requests], ...], seconds: float, connections: int
) -> list[Measured]:
    await ask("warm", server, lambda connection, number: asked[0][1](connection + 1_000, number), 4, 1)
    return [await ask(name, server, requests, connections, seconds) for name, requests in asked]


async def _beside_others(seconds: float, connections: int, folder: Path) -> list[Measured]:
    (folder / "bare").mkdir()
    (folder / "bare" / "bare.py").write_text(BARE)
    with running([sys.executable, "bare.py", "bare.db"], folder / "bare") as server:
        found = await _each(server, (("bare FastAPI, one insert", bare_add),), seconds, connections)
    with running([*SERVE, "--set", "worker=false"], folder / "alone") as server:
        found += await _each(server, (("add, enriched elsewhere", add),), seconds, connections)
    with running(SERVE, folder / "served") as server:
        named = (("add, enriched here", add), ("context", context), ("chat, default agent", chat))
        found += await _each(server, named, seconds, connections)
    return found + await _beside_chroma(seconds, connections, folder)


async def _many_chats(chats: int, seconds: float, index_mib: int, folder: Path) -> None:
    """Many concurrent chats: none should fail, and the server should not grow beyond what it is told to hold."""
    with running([*SERVE, "--set", f"index_mib={index_mib}"], folder / "chats") as server:
        await ask("warm", server, chat, chats, min(STEP_S, seconds / 3))
        whole = Measured(f"{chats} chats at once")
        sizes, indexes = [server.memory_mib], [_index_mib(server)]
        while whole.seconds < seconds:
            part = await ask(whole.name, server, chat, chats, min(STEP_S, seconds - whole.seconds))
            whole.seconds += part.seconds
            whole.cpu_s += part.cpu_s
            whole.times_s += part.times_s
            whole.statuses += part.statuses
            sizes.append(server.memory_mib)
            indexes.append(_index_mib(server))
    print(row(whole))
    print(f"statuses {dict(whole.statuses)}; memory every {STEP_S:g} s: {_steps(sizes)} MiB")
    print(f"of which indexes, which have their own limit (index_mib): {_steps(indexes)} MiB")
    print(_second_half(sizes, indexes))


def _second_half(sizes: list[float], indexes: list[float]) -> str:
    """How much the process, and of that its indexes, grew in the second half of the time."""
    half = len(sizes) // 2
    grown, indexed = sizes[-1] - sizes[half], indexes[-1] - indexes[half]
    return f"in the second half it grew by {grown:+.0f} MiB, {indexed:+.0f} of them indexes"


def _steps(sizes: list[float]) -> str:
    return " → ".join(f"{size:.0f}" for size in sizes)


def _index_mib(server: Server) -> float:
    """The memory of users' indexes in the server, by its own metrics."""
    with urlopen(f"http://{server.host}:{server.port}/metrics") as answer:
        found = re.search(r'recollect_index\{what="mib"\} ([\d.]+)', answer.read().decode())
    return float(found[1]) if found else 0.0


async def measure(options: argparse.Namespace) -> None:
    """Run everything and print the tables."""
    with tempfile.TemporaryDirectory(prefix="recollect-load-") as name:
        folder = Path(name)
        if not options.only_chats:
            await _one_by_one(options, folder)
        if options.chat_seconds:
            await _many_chats(options.chats, options.chat_seconds, options.index_mib, folder)


async def _one_by_one(options: argparse.Namespace, folder: Path) -> None:
    """Each kind of request beside the same on other servers, then more requests than the server can take."""
    told = f"one process, {options.connections} connections, {options.seconds:g} s each"
    print(f"{told}; the machine's load was {os.getloadavg()[0]:.1f}")
    print(f"{'':<28}{'a second':>9}  {'p50 ms':>8}  {'p95 ms':>8}  {'p99 ms':>8}  {'CPU ms':>8}")
    found = await _beside_others(options.seconds, options.connections, folder)
    for measured in found:
        print(row(measured))
    ratio, cpu = found[0].rate / max(found[1].rate, 0.001), found[1].cpu_ms / max(found[0].cpu_ms, 0.001)
    print(f"an add takes {ratio:.2f} times as long as the bare insert, and {cpu:.2f} times the processor time")
    if options.overload_seconds:
        print(f"\n{overload.told(await overload.overload(options.overload_seconds, folder))}")
    print()


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--overload-seconds", type=float, default=60.0)
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--chat-seconds", type=float, default=60.0)
    parser.add_argument("--index-mib", type=int, default=512, help="how much the chat server may hold as indexes")
    parser.add_argument("--only-chats", action="store_true", help="only the concurrent chats")
    parser.add_argument("--quick", action="store_true", help="a minute and a half in all")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
    asyncio.run(measure(options))


if __name__ == "__main__":
    main()
