"""A server that talks to itself: a short conversation over HTTP, printed, for when nobody sits at a terminal."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from recollect.errors import Unavailable
from recollect.interfaces.output import one_line, say

SCENE = (
    ("first chat", "Hi! I'm Ann. I live in Porto and my cat is called Admiral."),
    ("first chat", "Please keep your answers short. I'm allergic to peanuts."),
    ("another chat", "What is my cat called?"),
    ("another chat", "What am I allergic to?"),
)
"""What Ann says, and in which chat: told in one, asked in another."""
ANSWER_S, LEARN_S = 30.0, 20.0


def play(server: Any, settings: Any, host: str, port: int) -> None:
    """Serve a temporary memory, talk to it over HTTP, print the conversation, and stop."""
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
        asyncio.run(_play(server, settings, Path(folder) / "scene.db", host, port))


async def _play(server: Any, settings: Any, file: Path, host: str, port: int) -> None:
    listener: socket.socket = server.listening(host, port)
    stop = asyncio.Event()
    async with server.Service(file, settings=settings) as service:
        serving = asyncio.create_task(server.serve_on(service, listener, stop))
        try:
            await asyncio.to_thread(_talk, server.address_of(listener))
        finally:
            stop.set()
            await serving


def _talk(address: str) -> None:
    say(f"Recollect is serving {address}, with the console. Here it talks to itself.\n")
    chat = ""
    for chat_id, message in SCENE:
        if chat_id != chat:
            if chat:
                _wait_until_learned(address)
            chat = chat_id
            say(f"── {chat.capitalize()} ──", style="dim")
        turn = _ask(f"{address}/api/chat", {"chat_id": chat_id, "user_id": "ann", "message": message})
        say(f"Ann        {message}")
        say(f"Assistant  {one_line(turn['reply'], 300)}")
    known = _ask(f"{address}/api/users/ann/profile")["facts"]
    told = ", ".join(f"{fact['key']}: {fact['value']}" for fact in known)
    say(f"\nLearned so far: {told}")
    context = _ask(f"{address}/api/users/ann/context", {"query": "What can I cook for Ann?"})
    say(f"A context for “What can I cook for Ann?” has {context['tokens']} tokens.")


def _wait_until_learned(address: str) -> None:
    deadline = time.monotonic() + LEARN_S
    while not _ask(f"{address}/api/users/ann/profile")["facts"]:
        if time.monotonic() > deadline:
            raise Unavailable("nothing was learned in time; `recollect worker --failures` may say why", field="worker")
        time.sleep(0.1)


def _ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
        return json.load(answer)
