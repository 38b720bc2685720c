"""A server for tests: in this process without a network, or in a separate process on a free port."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from recollect.server import app
from recollect.server.app import build
from recollect.server.connections import PatientProtocol
from recollect.server.service import Service
from recollect.settings import Settings
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.serving import serving as process

LOCAL = "http://127.0.0.1:8765"
START_S = 30.0


@asynccontextmanager
async def opened(url: Any = "memory://", **more: Any) -> AsyncIterator[Service]:
    """A service that does background work only when a test asks for it."""
    settings = Settings().with_({"worker": False} | more.pop("settings", {}))
    given = {"embedder": HashingEmbedder(), "settings": settings, "environ": {}} | more
    async with Service(url, **given) as service:
        yield service


@asynccontextmanager
async def client_of(service: Service, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server in this process, including the middleware around its routes."""
    address = more.pop("address", "127.0.0.1")
    transport = httpx.ASGITransport(build(service), client=(address, 50_000))
    async with httpx.AsyncClient(transport=transport, **({"base_url": LOCAL} | more)) as client:
        yield client


@asynccontextmanager
async def listening(service: Service, protocol: Any = PatientProtocol, port: int = 0) -> AsyncIterator[str]:
    """The same on a local port, in this process. Yields its address."""
    listener = app.listening("127.0.0.1", port)
    server = uvicorn.Server(uvicorn.Config(build(service), http=protocol, lifespan="off", log_config=None))
    serving = asyncio.create_task(server._serve([listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@cache
def document() -> dict[str, Any]:
    """What a server says of itself, the same wherever it runs."""
    return build(Service("memory://", environ={})).openapi()


async def ok(answer: Awaitable[httpx.Response]) -> Any:
    """The result of a call that must succeed."""
    found = await answer
    assert found.status_code < 300, (found.request.method, str(found.request.url), found.text)
    return found.json() if found.content else None


async def bearer(service: Service, **more: Any) -> dict[str, str]:
    """The header of a caller with a new key."""
    _, token = await service.keys.create(**({"org": "acme"} | more))
    return {"Authorization": f"Bearer {token}"}


# ── Several processes ────────────────────────────────────────────────────────────────────────────


@contextmanager
def served_by_two(folder: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of two processes on one file. Yields its address."""
    with process(folder, "--workers", "2", "--url", f"sqlite:///{folder}/kept.db", *more) as (address, running):
        until(lambda: httpx.get(f"{address}/ready").status_code == 200)
        yield address, running


def children(parent: int) -> list[int]:
    """The serving child processes, without the resource tracker."""
    started = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()
    return [int(pid) for pid in started if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def until(look: Callable[[], Any], wait_s: float = 60.0) -> Any:
    """Poll `look` and return its first truthy result."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("it did not come")


# ── The console ──────────────────────────────────────────────────────────────────────────────────


async def shown(client: httpx.AsyncClient, path: str, **more: Any) -> str:
    """The text of a page that must exist."""
    answer = await client.get(path, follow_redirects=True, **more)
    assert answer.status_code == 200, (path, answer.status_code, answer.text[:300])
    assert "sign-in" in path or answer.url.path != "/sign-in", path
    return answer.text


def proof_in(page: str) -> str:
    found = re.search(r'name="proof" value="([0-9a-f]{64})"', page)
    assert found, page[:500]
    return found[1]


async def signed_in(client: httpx.AsyncClient, token: str) -> httpx.Response:
    proof = proof_in(await shown(client, "/sign-in"))
    return await client.post("/sign-in", data={"proof": proof, "key": token})
