"""Kill a server under load, or its worker, again and again; then count what became of every acknowledged request.

    python -m recollect.testing.server_kills --kills 100
    python -m recollect.testing.server_kills --kills 100 --victim worker

The same drill as `drills.py` over HTTP: clients add, chat, change, forget and erase, and record outside the store
what they sent and what was acknowledged. What got no answer is sent again, under its key, to the next server.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from recollect.testing.drills import (
    KINDS,
    LIVES_PER_USER,
    WRITERS,
    Findings,
    Journal,
    Operation,
    Outcome,
    Writer,
    check,
    next_operation,
    remember,
    settle,
)
from recollect.testing.serving import program, serving

LIFE_MS = (30, 900)
"""How long a victim lives after its first answer."""
OVER_HTTP = {kind: weight for kind, weight in KINDS.items() if kind != "maintain"} | {"chat": 4.0}
SETTINGS = {"RECOLLECT_LEASE_S": "0.5", "RECOLLECT_POLL_S": "0.1", "RECOLLECT_REQUESTS_PER_MINUTE": "10000000"}
"""Short leases, so that the next process takes up the work of a killed one; and no client is told to slow down."""
ANSWER_S = 30.0
SERVER, WORKER = "server", "worker"
ACKNOWLEDGED_EACH = 5
"""Requests that are answered for each kill, on average, however slow the machine is."""


# ── what clients send ────────────────────────────────────────────────────────────────────────────


def request_of(operation: Operation) -> tuple[str, str, Mapping[str, Any] | None]:
    """Method, path and body of an operation."""
    user, texts = f"/api/users/{operation.user}", [operation.text(place) for place in range(len(operation.marks))]
    roles = ["user", "assistant"] if operation.kind == "interaction" else ["user"] * len(texts)
    many = {"messages": [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]}
    match operation.kind:
        case "message" | "passing":
            one = {"role": "user", "content": texts[0], "id": operation.id}
            return "POST", f"{user}/sessions/chat/messages", one
        case "interaction" | "batch":
            return "POST", f"{user}/sessions/chat/messages", many
        case "memory":
            return "POST", f"{user}/memories", {"content": texts[0], "id": operation.id}
        case "update":
            return "PATCH", f"{user}/memories/{operation.target}", {"content": texts[0]}
        case "forget":
            return "DELETE", f"{user}/memories/{operation.target}", None
        case "erase":
            return "DELETE", user, None
        case "chat":
            return "POST", "/api/chat", {"chat_id": "chat", "user_id": operation.user, "message": texts[0]}
    raise ValueError(operation.kind)


async def send(client: httpx.AsyncClient, operation: Operation, *, again: bool = False) -> None:
    """Make the request. When it is sent again, it may find that it has already happened."""
    method, path, body = request_of(operation)
    key = {"Idempotency-Key": operation.id} if method == "POST" else {}
    answer = await client.request(method, path, json=body, headers=key)
    is_done = again and operation.kind == "forget" and answer.status_code == 404
    if answer.status_code >= 300 and not is_done:
        raise RuntimeError(f"{operation.kind} was answered with {answer.status_code}: {answer.text[:200]}")


async def write(client: httpx.AsyncClient, journal: Journal, life: int, chance: random.Random, writer: Writer) -> None:
    """Send without end, until nobody answers."""
    try:
        if writer.again is not None:
            await send(client, writer.again, again=True)
            _note(journal, writer, writer.again)
        for number in range(1_000_000):
            operation = next_operation(chance, life, writer, number, OVER_HTTP)
            journal.take(operation)
            await send(client, operation)
            _note(journal, writer, operation)
    except httpx.TransportError:
        return


def _note(journal: Journal, writer: Writer, operation: Operation) -> None:
    journal.take(operation.id)
    remember(writer, operation)


# ── who kills ────────────────────────────────────────────────────────────────────────────────────


async def kill_servers(
    path: Path, kills: int, seed: int, victim: str = SERVER, progress: Callable[[int], object] = id
) -> Outcome:
    """Run the drill: serve, kill, serve again; then do all remaining work and check the file."""
    chance, journal, outcome = random.Random(seed), Journal(), Outcome(Findings())
    while outcome.kills < kills:
        if victim == SERVER:
            outcome.kills += await _server_dies(path, journal, chance, life=outcome.kills)
        else:
            outcome.kills += await _workers_die(path, journal, chance, life=outcome.kills, kills=min(5, kills))
        progress(outcome.kills)
    outcome.reopened_s = await settle(path)
    outcome.findings = check(path, journal)
    outcome.sent, outcome.acknowledged = len(journal.sent), len(journal.done)
    return outcome


async def _server_dies(path: Path, journal: Journal, chance: random.Random, life: int) -> int:
    with serving(path.parent, "--url", f"sqlite:///{path}", environ=SETTINGS) as (address, running):
        async with _clients(address, journal, chance, life):
            await _lives(journal, chance, (life + 1) * ACKNOWLEDGED_EACH)
            running.kill()
    return 1


async def _lives(journal: Journal, chance: random.Random, least: int) -> None:
    """Wait for a random time, and on a slow machine until there is something to lose."""
    await asyncio.sleep(chance.uniform(*LIFE_MS) / 1000)
    async with asyncio.timeout(ANSWER_S):
        while len(journal.done) <= least:  # noqa: ASYNC110  (a journal has no bell)
            await asyncio.sleep(0.01)


async def _workers_die(path: Path, journal: Journal, chance: random.Random, life: int, kills: int) -> int:
    """One server whose work is done by others: they are killed, it carries on."""
    url = ("--url", f"sqlite:///{path}")
    with ExitStack() as stack:
        without = SETTINGS | {"RECOLLECT_WORKER": "false"}
        address, running = stack.enter_context(serving(path.parent, *url, environ=without))
        async with _clients(address, journal, chance, life):
            for number in range(life + 1, life + kills + 1):
                with program(path.parent, "worker", *url, environ=SETTINGS) as worker:
                    await asyncio.to_thread(worker.stdout.readline)  # type: ignore[union-attr]  # it has begun
                    await _lives(journal, chance, number * ACKNOWLEDGED_EACH)
                    worker.kill()
            running.kill()
    return kills


@asynccontextmanager
async def _clients(address: str, journal: Journal, chance: random.Random, life: int) -> AsyncIterator[None]:
    """Clients that write meanwhile; each sends again what it got no answer to."""
    generation = life // LIVES_PER_USER
    numbers = range(2 * WRITERS)
    writers = [Writer(n, generation, journal.targets(n, generation), journal.unanswered(n)) for n in numbers]
    async with httpx.AsyncClient(base_url=address, timeout=ANSWER_S) as client:
        await client.get("/ready")  # it listens before it can answer, and a life begins with an answer
        seeds = [random.Random(chance.random()) for _ in writers]
        writing = [
            asyncio.create_task(write(client, journal, life, own, writer))
            for own, writer in zip(seeds, writers, strict=True)
        ]
        try:
            yield
        finally:
            await asyncio.gather(*writing)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m recollect.testing.server_kills", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--victim", choices=[SERVER, WORKER], default=SERVER)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = parser.parse_args(given)
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:

        def progress(kills: int) -> None:
            print(f"\r{kills} of {chosen.kills} kills", end="", file=sys.stderr, flush=True)

        path = Path(folder) / "drill.db"
        outcome = asyncio.run(kill_servers(path, chosen.kills, chosen.seed, chosen.victim, progress))
    print(f"\n{outcome}")
    return int(outcome.findings.any)


if __name__ == "__main__":
    sys.exit(main())
