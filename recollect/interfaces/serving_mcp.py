"""The command `mcp`: a door for assistants that speak the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from recollect import validate
from recollect.errors import ValidationError
from recollect.interfaces.options import Org, Url, Who, on_loop
from recollect.interfaces.output import INTERRUPTED, say
from recollect.interfaces.stopping import asked_to_stop
from recollect.interfaces.tools import TOOLSETS, protocol_of_tools
from recollect.memory import Memory

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Build = Callable[[Memory], Any]
"""Builds the protocol server on a memory that has been opened."""


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP on this machine, not over standard input.")
    ] = False,
    host: Annotated[str, typer.Option(help="With --http: address to listen on; this machine only.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="With --http: port to listen on; 0 picks a free one.")
    ] = 8766,
    agent: Annotated[str, typer.Option(help="Name of the assistant, for its own standing instructions.")] = "",
    tools: Annotated[
        str, typer.Option(metavar="usual|all", help="Which tools it gets; all has customize, export and erase, too.")
    ] = "usual",
    url: Url = None,
    org: Org = "default",
    user: Who = "me",
) -> None:
    """Give an assistant the memory of one user, over the Model Context Protocol.

    Example: recollect mcp --user ann --url sqlite:////home/ann/memory.db
    """
    if http and host not in LOOPBACK:
        raise ValidationError(f"it has no keys, so it serves this machine only: {', '.join(LOOPBACK)}", field="host")
    validate.choice(tools, TOOLSETS, "tools")
    protocol = protocol_of_tools()

    def build(memory: Memory) -> Any:
        return protocol.build(memory.user(user, org=org), agent=agent, tools=tools)

    on_loop(_serve_http(protocol, url, build, host, port) if http else _serve_stdio(protocol, url, build), url)


async def _serve_stdio(protocol: Any, url: str | None, build: Build) -> None:
    stop = asked_to_stop()
    async with Memory.open(url) as memory:
        serving = asyncio.create_task(protocol.serve_stdio(build(memory)))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            stopped.cancel()
            return serving.result()  # type: ignore[no-any-return]
    # The thread that waits for the next line cannot be woken, and Python would wait for it on exit.
    os._exit(INTERRUPTED)


async def _serve_http(protocol: Any, url: str | None, build: Build, host: str, port: int) -> None:
    stop = asked_to_stop()
    async with Memory.open(url) as memory:
        told = lambda address: say(f"{address}  Press Ctrl-C to stop.")  # noqa: E731
        await protocol.serve_http(build(memory), host, port, stop, told)
