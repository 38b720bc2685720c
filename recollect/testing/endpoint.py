"""A model endpoint on this machine: it answers as OpenAI's does, after whatever goes wrong first."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

KEY = "sk-a-secret-of-ours"

Fault = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Endpoint:
    """A small endpoint. `usual` makes the body of an answer from that of a request; `faults` come first, once each.

    With a fault in `always` there is no usual answer.
    """

    path: str
    usual: Callable[[dict[str, Any]], Any]
    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                headers = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                self.requests.append(body)
                self.keys.append(headers.get("authorization", ""))
                assert head.startswith(f"POST {self.path} ")
                fault = self.faults.pop(0) if self.faults else self.always
                if fault is not None:
                    await fault(writer)
                else:
                    await reply(writer, 200, self.usual(body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def reply(writer: asyncio.StreamWriter, status: int, body: Any, **headers: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(content)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + content)
    await writer.drain()


def answer(status: int, body: Any = b"{}", **headers: str) -> Fault:
    async def fault(writer: asyncio.StreamWriter) -> None:
        await reply(writer, status, body, **headers)

    return fault


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def stop_in_the_middle(writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{"data": [{"ind')
    await writer.drain()
    writer.transport.abort()


async def sleep_on_it(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


@contextlib.asynccontextmanager
async def serving(path: str, usual: Callable[[dict[str, Any]], Any]) -> AsyncIterator[Endpoint]:
    found = Endpoint(path, usual)
    connections: set[asyncio.Task[Any] | None] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        with contextlib.suppress(asyncio.CancelledError):
            await found.serve(reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield found
    finally:
        server.close()
        open_ones = [connection for connection in connections if connection is not None]
        for connection in open_ones:
            connection.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)
