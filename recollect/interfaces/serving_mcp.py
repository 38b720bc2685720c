"""The command `mcp`: a door for assistants that speak the Model Context Protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from importlib import import_module
from typing import Annotated, Any

import typer

from recollect.errors import Unavailable, ValidationError
from recollect.interfaces.options import Org, Url, Who
from recollect.interfaces.output import INTERRUPTED, say
from recollect.memory import Memory

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP on this machine, not over standard input.")
    ] = False,
    host: Annotated[str, typer.Option(help="With --http: address to listen on; this machine only.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="With --http: port to listen on; 0 picks a free one.")
    ] = 8766,
    agent: Annotated[str, typer.Option(help="Name of the assistant, for its own standing instructions.")] = "",
    url: Url = None,
    org: Org = "default",
    user: Who = "me",
) -> None:
    """Give an assistant the memory of one user, over the Model Context Protocol.

    Example: recollect mcp --user ann --url sqlite:////home/ann/memory.db
    """
    if http and host not in LOOPBACK:
        raise ValidationError(f"it has no keys, so it serves this machine only: {', '.join(LOOPBACK)}", field="host")
    protocol = _protocol()
    asyncio.run(_serve_http(protocol, url, org, user, agent, host, port) if http else
                _serve_stdio(protocol, url, org, user, agent))  # fmt: skip


def _protocol() -> Any:
    try:
        return import_module("recollect.interfaces.mcp")
    except ModuleNotFoundError as error:
        raise Unavailable("the MCP package is missing: pip install 'recollect[mcp]'", field="mcp") from error


async def _serve_stdio(protocol: Any, url: str | None, org: str, user: str, agent: str) -> None:
    stop = _asked_to_stop()
    async with Memory.open(url) as memory:
        server = protocol.build(memory.user(user, org=org), agent=agent)
        serving = asyncio.create_task(protocol.serve_stdio(server))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            stopped.cancel()
            return serving.result()  # type: ignore[no-any-return]
    # The thread that waits for the next line cannot be woken, and Python would wait for it on exit.
    os._exit(INTERRUPTED)


async def _serve_http(protocol: Any, url: str | None, org: str, user: str, agent: str, host: str, port: int) -> None:
    stop = _asked_to_stop()
    async with Memory.open(url) as memory:
        server = protocol.build(memory.user(user, org=org), agent=agent)
        await protocol.serve_http(server, host, port, stop, lambda address: say(f"{address}  Press Ctrl-C to stop."))


def _asked_to_stop() -> asyncio.Event:
    """An event that is set when this program is asked to end, so that memories are closed first."""
    stop = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Windows has no such handlers: there it ends at once
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return stop
